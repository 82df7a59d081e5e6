//! Releases what the kernel has queued, in order, without a list of it and without allocation.
//!
//! The kernel accepts all packets of a queue whose id is not after the one of a message, modulo 2^32, in order of arrival.
//! A queue of no length lets packets pass (`NFQA_CFG_F_FAIL_OPEN`): that is how queueing ends, since both are messages of
//! one system call. A change of the rules takes as long as a transaction of nftables, and what arrives before it is
//! overtaken by what arrives after it.

use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use rustix::thread::MembarrierCommand;
use tidegate_core::Span;

use super::{CFG_FLAGS, CFG_MASK, CFG_QUEUE_MAXLEN, FLAG_FAIL_OPEN, MSG_CONFIG, MSG_VERDICT_BATCH, generic_header};
use crate::netlink::{Error, Result, send_bytes};

/// How long to wait for a pause between packets in which queueing may end. A sender that was held up, on a machine that is
/// busy, sends for longer than a tenth of a second what it could not.
pub(crate) const LONGEST_BURST: Span = Span::from_millis(500);
/// The ids that together cover all, older ones first.
const ALL: [u32; 3] = [0x7fff_ffff, 0xffff_ffff, 0x7fff_ffff];
/// The length of [`accept_up_to`].
const ACCEPT: usize = 32;
/// The length of [`close_queue`].
const CLOSE: usize = 44;
/// The length of [`accept_all`].
const ACCEPT_ALL: usize = 7 * ACCEPT;
/// The length of [`close`].
const CLOSE_ALL: usize = CLOSE + ACCEPT_ALL + CLOSE + ACCEPT;

/// The message that accepts what waits in a queue up to an id.
pub(crate) fn accept_up_to(queue: u16, id: u32) -> [u8; ACCEPT] {
    let mut bytes = message(MSG_VERDICT_BATCH, queue);
    attribute(&mut bytes[20..], libc::NFQA_VERDICT_HDR as u16, &[libc::NF_ACCEPT as u32, id]);
    bytes
}

/// The messages that accept everything in both queues of a data path. What its reader has received of the first queue,
/// up to the id `received`, arrived before what it has had segmented of the same flow, in the second; the rest of the first
/// queue arrived later.
pub(crate) fn accept_all([whole, cut]: [u16; 2], received: u32) -> [u8; ACCEPT_ALL] {
    let of = |queue| ALL.map(|id| accept_up_to(queue, id));
    let mut bytes = [0; ACCEPT_ALL];
    let messages = std::iter::once(accept_up_to(whole, received)).chain(of(cut)).chain(of(whole));
    bytes.chunks_exact_mut(ACCEPT).zip(messages).for_each(|(to, from)| to.copy_from_slice(&from));
    bytes
}

/// The message after which the packets of a queue pass it by.
fn close_queue(queue: u16) -> [u8; CLOSE] {
    let mut bytes = message(MSG_CONFIG, queue);
    attribute(&mut bytes[20..], CFG_QUEUE_MAXLEN, &[0]);
    // A kernel that does not know the flag refuses the message as a whole.
    attribute(&mut bytes[28..], CFG_FLAGS, &[FLAG_FAIL_OPEN]);
    attribute(&mut bytes[36..], CFG_MASK, &[FLAG_FAIL_OPEN]);
    bytes
}

/// The messages that end queueing: what waits is accepted, later packets pass the queues by, and what arrived before that in
/// the first is accepted as well; in the second nothing arrives meanwhile that its reader has not sent there. The messages
/// about the first queue are neighbours: a packet that overtakes another must arrive between them.
pub(crate) fn close([whole, cut]: [u16; 2], received: u32) -> [u8; CLOSE_ALL] {
    let mut bytes = [0; CLOSE_ALL];
    let (first, rest) = bytes.split_at_mut(CLOSE);
    let (accepted, rest) = rest.split_at_mut(ACCEPT_ALL);
    let (closed, again) = rest.split_at_mut(CLOSE);
    first.copy_from_slice(&close_queue(cut));
    accepted.copy_from_slice(&accept_all([whole, cut], received));
    closed.copy_from_slice(&close_queue(whole));
    // All that is left has arrived later than `received`.
    again.copy_from_slice(&accept_up_to(whole, received.wrapping_add(ALL[0])));
    bytes
}

/// A message of `N` bytes without its attributes.
fn message<const N: usize>(kind: u16, queue: u16) -> [u8; N] {
    let mut bytes = [0; N];
    bytes[..4].copy_from_slice(&(N as u32).to_ne_bytes());
    bytes[4..6].copy_from_slice(&kind.to_ne_bytes());
    bytes[6..8].copy_from_slice(&(libc::NLM_F_REQUEST as u16).to_ne_bytes());
    bytes[16..20].copy_from_slice(&generic_header(queue));
    bytes
}

/// Writes an attribute of numbers in network order.
fn attribute(to: &mut [u8], kind: u16, numbers: &[u32]) {
    to[..2].copy_from_slice(&(4 + 4 * numbers.len() as u16).to_ne_bytes());
    to[2..4].copy_from_slice(&kind.to_ne_bytes());
    for (to, number) in to[4..].chunks_exact_mut(4).zip(numbers) {
        to.copy_from_slice(&number.to_be_bytes());
    }
}

/// Ends queueing, see [`close`], and waits until every packet that was on its way past a queue has left the hook: the kernel
/// drops one that returns from a queue to a chain that is gone. Takes 10 to 30 ms where there are several processors. Does not
/// allocate.
pub(crate) fn end_queueing(socket: BorrowedFd<'_>, queues: [u16; 2], received: u32) -> io::Result<()> {
    send_bytes(socket, &close(queues, received))?;
    after_packets_on_their_way();
    Ok(())
}

/// Waits until packets that are on their way through the kernel now have passed it to where they wait or leave: a grace period of RCU
/// (MEMBARRIER_CMD_GLOBAL). Where the kernel refuses it, such a packet may be lost.
pub(crate) fn after_packets_on_their_way() {
    let _ = rustix::thread::membarrier(MembarrierCommand::Global);
}

fn failed(operation: &str) -> impl FnOnce(io::Error) -> Error {
    move |source| Error::System { operation: operation.into(), source }
}

/// A second handle of the socket of a data path, for a thread that must release packets when the one that reads does not.
/// While it lives the kernel considers the queues served.
#[derive(Debug)]
pub struct Releaser {
    pub(super) fd: OwnedFd,
    pub(super) queues: [u16; 2],
}

impl Releaser {
    /// A handle of the socket of the queues of a thread.
    pub(crate) fn new(fd: OwnedFd, queues: [u16; 2]) -> Self {
        Self { fd, queues }
    }

    /// Accepts all packets that the kernel has queued, in order of arrival, see [`accept_all`].
    ///
    /// # Errors
    /// When the system call fails.
    pub(crate) fn accept_all(&self, received: u32) -> Result<()> {
        send_bytes(self.fd.as_fd(), &accept_all(self.queues, received)).map_err(failed("let all packets go"))
    }

    /// Ends queueing for good, see [`end_queueing`].
    ///
    /// # Errors
    /// When the system call fails.
    pub(crate) fn close(&self, received: u32) -> Result<()> {
        end_queueing(self.fd.as_fd(), self.queues, received).map_err(failed("end the queue"))
    }
}

impl AsFd for Releaser {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.fd.as_fd()
    }
}

impl super::QueueSocket {
    /// A second handle of this socket, which serves both queues of a data path.
    ///
    /// # Errors
    /// When the process has no descriptor left.
    pub(crate) fn releaser(&self, queues: [u16; 2]) -> io::Result<Releaser> {
        Ok(Releaser { fd: self.fd.try_clone()?, queues })
    }

    /// Ends queueing: what waits is accepted, in order, and later packets pass. What was accepted is still to be received;
    /// it takes no verdicts.
    pub(crate) fn close(&mut self, queues: [u16; 2], received: u32) -> Result<()> {
        self.closed = true;
        end_queueing(self.fd.as_fd(), queues, received).map_err(failed("end the queue"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::netlink::{Builder, Messages, REQUEST};

    #[test]
    fn messages_are_those_of_the_builder() {
        let mut builder = Builder::new();
        builder.message(MSG_VERDICT_BATCH, REQUEST, 0, |m| {
            m.raw(&generic_header(7_401)).attr(libc::NFQA_VERDICT_HDR as u16, &[0, 0, 0, 1, 0, 0, 0, 77]);
        });
        assert_eq!(builder.bytes(), accept_up_to(7_401, 77));
        builder.clear();
        builder.message(MSG_CONFIG, REQUEST, 0, |m| {
            m.raw(&generic_header(7_400)).be32(CFG_QUEUE_MAXLEN, 0).be32(CFG_FLAGS, 1).be32(CFG_MASK, 1);
        });
        assert_eq!(builder.bytes(), close_queue(7_400));
    }

    #[test]
    fn what_was_received_whole_precedes_segments_and_what_was_not_follows_them() {
        let bytes = close([7_400, 7_401], 5);
        let messages: Vec<(u16, u16, u32)> = Messages::new(&bytes)
            .map(|message| {
                let queue = u16::from_be_bytes([message.body[2], message.body[3]]);
                let id = u32::from_be_bytes(*message.body.last_chunk().unwrap());
                (message.kind, queue, if message.kind == MSG_VERDICT_BATCH { id } else { 0 })
            })
            .collect();
        let all = |queue| ALL.map(|id| (MSG_VERDICT_BATCH, queue, id));
        let accepted = [&[(MSG_VERDICT_BATCH, 7_400, 5)][..], &all(7_401), &all(7_400)].concat();
        let closed = |queue| [(MSG_CONFIG, queue, 0)];
        let again = [(MSG_VERDICT_BATCH, 7_400, 5 + 0x7fff_ffff)];
        assert_eq!(messages, [&closed(7_401)[..], &accepted, &closed(7_400), &again].concat());
    }
}
