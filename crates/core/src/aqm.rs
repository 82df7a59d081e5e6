//! [`Aqm`]: active queue management as a decider apart from the queue, and [`AqmFifo`], a FIFO that asks one.
//!
//! *Law*: a decider sees every arrival and every departure of its queue; it moves no packet. The queue drops what
//! the decider says, and what exceeds its own limit.
//! *Cost*: that of the decider and of a FIFO.
//! *Notes*: the verdict comes before the limit, so that the decider's average sees what the queue refuses too.
//! *See also*: [`red`](crate::red): a decider. [`Fifo`]: no decider.

use crate::fifo::{Fifo, Limit};
use crate::packet::Packet;
use crate::qdisc::{Backlog, Deadline, DropReason, Event, Outlet, Qdisc};
use tidegate_units::Instant;

/// What a decider says of an arrival.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Verdict {
    /// Let it in.
    Admit,
    /// Let it in, marked as having experienced congestion. Only said of packets that can be marked.
    Mark,
    /// Drop it, for this reason.
    Drop(DropReason),
}

/// Decides which arrivals a queue takes. Implementations split their parameters (validated once), state and
/// statistics, and hold still when `now` runs back.
pub trait Aqm<P: Packet>: Send {
    /// `packet` arrives at a queue that holds `queue`, itself not included.
    fn on_arrival(&mut self, now: Instant, packet: &P, queue: Backlog) -> Verdict;

    /// An arrival that was admitted found no room after all, and was dropped.
    fn on_overflow(&mut self, _now: Instant, _packet: &P) {}

    /// An arrival was let in.
    fn on_admission(&mut self, _now: Instant, _packet: &P) {}

    /// `packet` left the queue, which now holds `queue`.
    fn on_departure(&mut self, now: Instant, packet: &P, queue: Backlog);
}

/// Packets that a decider judged, by verdict.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Verdicts {
    /// Let in unmarked.
    pub admitted: u64,
    /// Let in with a mark.
    pub marked: u64,
    /// Dropped by chance.
    pub early: u64,
    /// Dropped because the average was beyond the hard limit.
    pub forced: u64,
}

impl Verdicts {
    /// Counts `verdict`, and gives it back.
    pub fn count(&mut self, verdict: Verdict) -> Verdict {
        match verdict {
            Verdict::Admit => self.admitted += 1,
            Verdict::Mark => self.marked += 1,
            Verdict::Drop(DropReason::Forced) => self.forced += 1,
            Verdict::Drop(_) => self.early += 1,
        }
        verdict
    }
}

/// A FIFO whose arrivals an [`Aqm`] decides. See the [module](self).
#[derive(Clone, Debug)]
pub struct AqmFifo<P, A> {
    fifo: Fifo<P>,
    limit: Limit,
    aqm: A,
    /// The latest instant of any call: the decider sees only some of them, and must not be told an earlier one.
    latest: Instant,
}

impl<P: Packet, A: Aqm<P>> AqmFifo<P, A> {
    /// An empty queue.
    pub fn new(limit: Limit, aqm: A) -> Self {
        Self { fifo: Fifo::new(Limit::NONE), limit, aqm, latest: Instant::ZERO }
    }
    /// The decider.
    pub fn aqm(&self) -> &A {
        &self.aqm
    }
    /// The decider, to change its parameters.
    pub fn aqm_mut(&mut self) -> &mut A {
        &mut self.aqm
    }
}

impl<P: Packet, A: Aqm<P>> Qdisc<P> for AqmFifo<P, A> {
    fn enqueue(&mut self, now: Instant, mut packet: P, out: &mut dyn Outlet<P>) {
        self.latest = self.latest.max(now);
        let now = self.latest;
        let queue = self.fifo.backlog();
        let verdict = self.aqm.on_arrival(now, &packet, queue);
        if let Verdict::Drop(reason) = verdict {
            return out.dropped(packet, reason);
        }
        if !self.limit.admits(queue, packet.size()) {
            self.aqm.on_overflow(now, &packet);
            return out.dropped(packet, DropReason::QueueLimit);
        }
        if verdict == Verdict::Mark && packet.mark_ce() {
            out.event(Event::Marked { flow: packet.flow().flow });
        }
        self.aqm.on_admission(now, &packet);
        self.fifo.enqueue(now, packet, out);
    }

    fn dequeue(&mut self, now: Instant, out: &mut dyn Outlet<P>) -> Option<P> {
        self.latest = self.latest.max(now);
        let now = self.latest;
        let packet = self.fifo.dequeue(now, out)?;
        self.aqm.on_departure(now, &packet, self.fifo.backlog());
        Some(packet)
    }

    fn deadline(&self, now: Instant) -> Deadline {
        self.fifo.deadline(now)
    }

    fn backlog(&self) -> Backlog {
        self.fifo.backlog()
    }
}
