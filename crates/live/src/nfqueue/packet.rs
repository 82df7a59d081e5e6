//! Packets received from a queue, and their buffers.

use std::collections::VecDeque;
use std::io;
use std::os::fd::BorrowedFd;

use tidegate_sys::net::receive_netlink;

use super::{Attributes, BATCH, MSG_PACKET, Messages};
use crate::netlink::Message;

const PACKET_HDR: u16 = libc::NFQA_PACKET_HDR as u16;
const MARK: u16 = libc::NFQA_MARK as u16;
const TIMESTAMP: u16 = libc::NFQA_TIMESTAMP as u16;
const IFINDEX_INDEV: u16 = libc::NFQA_IFINDEX_INDEV as u16;
const IFINDEX_OUTDEV: u16 = libc::NFQA_IFINDEX_OUTDEV as u16;
const IFINDEX_PHYSINDEV: u16 = libc::NFQA_IFINDEX_PHYSINDEV as u16;
const IFINDEX_PHYSOUTDEV: u16 = libc::NFQA_IFINDEX_PHYSOUTDEV as u16;
const PAYLOAD: u16 = libc::NFQA_PAYLOAD as u16;
const CAP_LEN: u16 = libc::NFQA_CAP_LEN as u16;
const SKB_INFO: u16 = libc::NFQA_SKB_INFO as u16;
const UID: u16 = libc::NFQA_UID as u16;
const GID: u16 = libc::NFQA_GID as u16;
const PRIORITY: u16 = libc::NFQA_PRIORITY as u16;

const INFO_CSUM_NOT_READY: u32 = libc::NFQA_SKB_CSUMNOTREADY as u32;
const INFO_GSO: u32 = libc::NFQA_SKB_GSO as u32;

/// The size of the attributes around the payload.
const OVERHEAD: usize = 384;

/// Where in the kernel's path a packet was queued.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Hook {
    /// Just received.
    Prerouting,
    /// For this host.
    Input,
    /// Passing through this host.
    Forward,
    /// From this host.
    Output,
    /// About to leave, whether from this host or through it.
    Postrouting,
    /// Another number.
    Other(u8),
}

/// A packet that waits for its verdict. It borrows the ring it arrived in.
///
/// An index or mark of zero means "none" as in the kernel.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Packet<'a> {
    /// The queue it waits in; the verdict must name it.
    pub queue: u16,
    /// Its number in that queue.
    pub id: u32,
    /// Where it was queued.
    pub hook: Hook,
    /// The EtherType: 0x0800 is IPv4, 0x86dd is IPv6.
    pub hw_protocol: u16,
    /// The firewall mark.
    pub mark: u32,
    /// `skb->priority`, where the kernel reports it (5.18 and later).
    pub priority: Option<u32>,
    /// The owner of the socket that sent it, for local traffic, as the initial user namespace numbers it
    /// (see [`outside_uid`](crate::netns::outside_uid)).
    pub uid: Option<u32>,
    /// The group of the socket that sent it.
    pub gid: Option<u32>,
    /// Whether it is a superpacket.
    pub gso: bool,
    /// Whether its checksums are yet to be filled in: do not rewrite the payload of such a packet.
    pub checksum_pending: bool,
    /// Its length at layer 3. `payload` may hold less of it.
    pub length: u32,
    /// The index of the interface it arrived by.
    pub indev: u32,
    /// The index of the interface it leaves by.
    pub outdev: u32,
    /// The bridge port it arrived by.
    pub physindev: u32,
    /// The bridge port it leaves by.
    pub physoutdev: u32,
    /// When it was received, in ns since 1970, where the kernel stamped it.
    pub timestamp: Option<u64>,
    /// Its first bytes, from the IP header on.
    pub payload: &'a [u8],
}

impl<'a> Packet<'a> {
    /// Reads a packet from the body of a message; `None` if it has no id, without which no verdict is possible.
    pub fn parse(message: &Message<'a>) -> Option<Self> {
        if message.kind != MSG_PACKET {
            return None;
        }
        let generic = message.body.first_chunk::<4>()?;
        let mut packet = Self {
            queue: u16::from_be_bytes([generic[2], generic[3]]),
            id: 0,
            hook: Hook::Other(u8::MAX),
            hw_protocol: 0,
            mark: 0,
            priority: None,
            uid: None,
            gid: None,
            gso: false,
            checksum_pending: false,
            length: 0,
            indev: 0,
            outdev: 0,
            physindev: 0,
            physoutdev: 0,
            timestamp: None,
            payload: &[],
        };
        let (mut known, mut whole_length) = (false, None);
        for attribute in Attributes::new(&message.body[4..]) {
            match attribute.kind {
                PACKET_HDR => {
                    let header = attribute.payload.first_chunk::<7>()?;
                    packet.id = u32::from_be_bytes([header[0], header[1], header[2], header[3]]);
                    packet.hw_protocol = u16::from_be_bytes([header[4], header[5]]);
                    packet.hook = hook(header[6]);
                    known = true;
                }
                MARK => packet.mark = attribute.be32().unwrap_or(0),
                PRIORITY => packet.priority = attribute.be32(),
                TIMESTAMP => packet.timestamp = timestamp(attribute.payload),
                IFINDEX_INDEV => packet.indev = attribute.be32().unwrap_or(0),
                IFINDEX_OUTDEV => packet.outdev = attribute.be32().unwrap_or(0),
                IFINDEX_PHYSINDEV => packet.physindev = attribute.be32().unwrap_or(0),
                IFINDEX_PHYSOUTDEV => packet.physoutdev = attribute.be32().unwrap_or(0),
                UID => packet.uid = attribute.be32(),
                GID => packet.gid = attribute.be32(),
                CAP_LEN => whole_length = attribute.be32(),
                SKB_INFO => {
                    let info = attribute.be32().unwrap_or(0);
                    packet.gso = info & INFO_GSO != 0;
                    packet.checksum_pending = info & INFO_CSUM_NOT_READY != 0;
                }
                PAYLOAD => packet.payload = attribute.payload,
                _ => {}
            }
        }
        packet.length = whole_length.unwrap_or(packet.payload.len() as u32);
        known.then_some(packet)
    }
}

fn hook(number: u8) -> Hook {
    match number {
        0 => Hook::Prerouting,
        1 => Hook::Input,
        2 => Hook::Forward,
        3 => Hook::Output,
        4 => Hook::Postrouting,
        other => Hook::Other(other),
    }
}

fn timestamp(bytes: &[u8]) -> Option<u64> {
    let (seconds, rest) = bytes.split_first_chunk::<8>()?;
    let micros = u64::from_be_bytes(*rest.first_chunk()?);
    u64::from_be_bytes(*seconds).checked_mul(1_000_000_000)?.checked_add(micros.checked_mul(1_000)?)
}

/// Buffers for one batch of packets, allocated once.
#[derive(Debug)]
pub struct Ring {
    bytes: Box<[u8]>,
    slot: usize,
    lengths: [usize; BATCH],
    count: usize,
    truncated: u64,
}

impl Ring {
    /// Buffers for queues that copy up to `copy_range` bytes of a packet.
    pub fn new(copy_range: u32) -> Self {
        let slot = (copy_range.min(65_535) as usize + OVERHEAD).next_multiple_of(64);
        Self { bytes: vec![0; slot * BATCH].into_boxed_slice(), slot, lengths: [0; BATCH], count: 0, truncated: 0 }
    }

    /// The packets of the last batch, in the order in which they were queued.
    pub fn packets(&self) -> impl Iterator<Item = Packet<'_>> {
        self.messages().filter_map(|m| Packet::parse(&m))
    }

    pub(super) fn messages(&self) -> impl Iterator<Item = Message<'_>> {
        (0..self.count).flat_map(|i| Messages::new(&self.bytes[i * self.slot..][..self.lengths[i]]))
    }

    pub(super) fn truncated(&self) -> u64 {
        self.truncated
    }

    pub(crate) fn fill(&mut self, pending: &mut VecDeque<Vec<u8>>) -> usize {
        (self.count, self.truncated) = (0, 0);
        while self.count < BATCH {
            let Some(datagram) = pending.pop_front() else { break };
            let length = datagram.len().min(self.slot);
            self.truncated += u64::from(length < datagram.len());
            self.bytes[self.count * self.slot..][..length].copy_from_slice(&datagram[..length]);
            self.lengths[self.count] = length;
            self.count += 1;
        }
        self.count
    }

    pub(super) fn receive(&mut self, fd: BorrowedFd<'_>) -> io::Result<usize> {
        (self.count, self.truncated) = (0, 0);
        let Self { bytes, slot, lengths, truncated, .. } = self;
        self.count = receive_netlink::<BATCH>(fd, bytes, *slot, |at, datagram| {
            // A datagram from another process is not from the kernel: it counts as empty.
            lengths[at] = if datagram.is_from_kernel { datagram.length } else { 0 };
            *truncated += u64::from(datagram.is_truncated);
        })?;
        Ok(self.count)
    }
}
