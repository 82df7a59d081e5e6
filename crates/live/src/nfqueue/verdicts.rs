//! Verdicts, collected to be sent together.

use super::{MSG_VERDICT, generic_header};
use crate::netlink::{Builder, REQUEST};

const VERDICT_HDR: u16 = libc::NFQA_VERDICT_HDR as u16;
const MARK: u16 = libc::NFQA_MARK as u16;
const PAYLOAD: u16 = libc::NFQA_PAYLOAD as u16;

const NF_DROP: u32 = libc::NF_DROP as u32;
const NF_ACCEPT: u32 = libc::NF_ACCEPT as u32;
const NF_QUEUE: u32 = libc::NF_QUEUE as u32;
const QUEUE_BYPASS: u32 = libc::NF_VERDICT_FLAG_QUEUE_BYPASS as u32;

/// The most bytes of a datagram that the kernel copies without `vmalloc`.
const CHUNK: usize = 3_776;

/// A batch of verdicts, in any order, to be sent with [`QueueSocket::send`](super::QueueSocket::send).
///
/// The mark of a verdict replaces the packet's whole mark.
#[derive(Debug, Default)]
pub struct Verdicts {
    builder: Builder,
    ends: Vec<usize>,
    sent_bytes: usize,
    sent_messages: usize,
    chunk: (usize, usize),
}

impl Verdicts {
    /// An empty batch.
    pub fn new() -> Self {
        Self::default()
    }

    /// Accepts packet `id` of `queue` unchanged.
    pub fn accept(&mut self, queue: u16, id: u32) {
        self.push(queue, id, NF_ACCEPT, None, None);
    }

    /// Accepts a packet with a new mark.
    pub fn accept_marked(&mut self, queue: u16, id: u32, mark: u32) {
        self.push(queue, id, NF_ACCEPT, Some(mark), None);
    }

    /// Drops a packet.
    pub fn drop(&mut self, queue: u16, id: u32) {
        self.push(queue, id, NF_DROP, None, None);
    }

    /// Moves a packet to queue `to`; it is segmented if it is a superpacket and `to` does not accept superpackets. If
    /// `to` is not served, the packet is accepted.
    pub fn requeue(&mut self, queue: u16, id: u32, to: u16, mark: Option<u32>) {
        self.push(queue, id, NF_QUEUE | QUEUE_BYPASS | u32::from(to) << 16, mark, None);
    }

    /// Accepts a packet with another content, from the IP header on. Superpackets and packets whose checksum is pending
    /// would be corrupted. Above 65,531 bytes the verdict is a drop.
    pub fn accept_rewritten(&mut self, queue: u16, id: u32, mark: Option<u32>, payload: &[u8]) {
        if payload.len() + 4 > usize::from(u16::MAX) {
            self.drop(queue, id);
        } else {
            self.push(queue, id, NF_ACCEPT, mark, Some(payload));
        }
    }

    fn push(&mut self, queue: u16, id: u32, verdict: u32, mark: Option<u32>, payload: Option<&[u8]>) {
        self.builder.message(MSG_VERDICT, REQUEST, 0, |m| {
            let mut header = [0; 8];
            header[..4].copy_from_slice(&verdict.to_be_bytes());
            header[4..].copy_from_slice(&id.to_be_bytes());
            m.raw(&generic_header(queue)).attr(VERDICT_HDR, &header);
            if let Some(mark) = mark {
                m.be32(MARK, mark);
            }
            if let Some(payload) = payload {
                m.attr(PAYLOAD, payload);
            }
        });
        self.ends.push(self.builder.bytes().len());
    }

    /// The number of verdicts to be sent.
    pub fn len(&self) -> usize {
        self.ends.len() - self.sent_messages
    }

    /// Whether there is no verdict to be sent.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The next run of whole messages to send in one datagram, and how many they are.
    pub(crate) fn next_chunk(&mut self) -> Option<(&[u8], u64)> {
        let rest = &self.ends[self.sent_messages..];
        let limit = self.sent_bytes + CHUNK;
        let count = rest.partition_point(|&end| end <= limit).max(usize::from(!rest.is_empty()));
        let end = *rest.get(count.checked_sub(1)?)?;
        self.chunk = (end, count);
        Some((&self.builder.bytes()[self.sent_bytes..end], count as u64))
    }

    pub(crate) fn sent_chunk(&mut self) {
        self.sent_bytes = self.chunk.0;
        self.sent_messages += self.chunk.1;
    }

    /// Removes the verdicts that have not been sent; their packets remain queued in the kernel.
    pub fn discard(&mut self) {
        self.clear();
    }

    pub(super) fn clear(&mut self) {
        self.builder.clear();
        self.ends.clear();
        (self.sent_bytes, self.sent_messages) = (0, 0);
    }
}
