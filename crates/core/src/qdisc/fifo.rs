//! FIFO: first in, first out, with a limit.
//!
//! *Law*: packets leave in the order of arrival; a packet is dropped exactly when the backlog including it would
//! exceed the limit.
//! *Source*: the drop-tail queue, the reference of every paper implemented here.
//! *Units*: the limit in bytes, in packets, or both.
//! *Cost*: O(1) per call; no allocation once the queue has reached its greatest length.
//! *Notes*: a limit of zero packets drops everything.
//! *See also*: every other discipline; most contain a FIFO.
//!
//! ```
//! use tidegate_core::{fifo::{Fifo, Limit}, qdisc::{Discard, Qdisc}, *};
//! # #[derive(Debug)] struct P(u64);
//! # impl Packet for P { fn size(&self) -> Bytes { Bytes::new(self.0) } fn flow(&self) -> FlowKey { FlowKey::default() } }
//! let mut queue = Fifo::new(Limit::packets(1));
//! let now = Instant::ZERO;
//! queue.enqueue(now, P(100), &mut Discard);
//! let mut dropped = vec![];
//! queue.enqueue(now, P(200), &mut dropped);
//! assert_eq!(dropped[0].1, DropReason::QueueLimit);
//! assert_eq!(queue.dequeue(now, &mut Discard).unwrap().0, 100);
//! ```

use alloc::collections::VecDeque;

use crate::packet::Packet;
use crate::qdisc::{Backlog, Deadline, DropReason, Outlet, Qdisc, Queued};
use tidegate_units::{Bytes, Instant};

/// The limit of a queue; both fields apply.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Limit {
    /// The most packets queued.
    pub packets: u64,
    /// The most bytes queued.
    pub bytes: Bytes,
}

impl Limit {
    /// No limit: for tests, and for queues that are bounded elsewhere.
    pub const NONE: Self = Self { packets: u64::MAX, bytes: Bytes::MAX };

    /// At most `n` packets of any size.
    pub const fn packets(n: u64) -> Self {
        Self { packets: n, bytes: Bytes::MAX }
    }
    /// At most `n` bytes.
    pub const fn bytes(n: Bytes) -> Self {
        Self { packets: u64::MAX, bytes: n }
    }
    /// Whether a packet of `size` fits beside `backlog`.
    pub fn admits(&self, backlog: Backlog, size: Bytes) -> bool {
        backlog.packets < self.packets && backlog.bytes + size <= self.bytes
    }
}

/// First in, first out. See the [module](self).
#[derive(Clone, Debug)]
pub struct Fifo<P> {
    queue: VecDeque<P>,
    backlog: Backlog,
    limit: Limit,
}

impl<P: Packet> Fifo<P> {
    /// Returns an empty queue.
    pub fn new(limit: Limit) -> Self {
        Self { queue: VecDeque::new(), backlog: Backlog::default(), limit }
    }
    /// The packet that leaves next.
    pub fn front(&self) -> Option<&P> {
        self.queue.front()
    }
}

impl<P: Packet> Qdisc<P> for Fifo<P> {
    fn enqueue(&mut self, _now: Instant, packet: P, out: &mut dyn Outlet<P>) -> Queued {
        let size = packet.size();
        if self.limit.admits(self.backlog, size) {
            self.backlog.add(size);
            self.queue.push_back(packet);
            Queued::default()
        } else {
            out.refused(packet, DropReason::QueueLimit)
        }
    }

    fn dequeue(&mut self, _now: Instant, _out: &mut dyn Outlet<P>) -> Option<P> {
        let packet = self.queue.pop_front()?;
        self.backlog.remove(packet.size());
        Some(packet)
    }

    fn deadline(&self, _now: Instant) -> Deadline {
        if self.queue.is_empty() { Deadline::Idle } else { Deadline::Now }
    }

    fn backlog(&self) -> Backlog {
        self.backlog
    }
}
