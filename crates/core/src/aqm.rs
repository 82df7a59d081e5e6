//! [`Aqm`]: active queue management, separate from the queue, and [`AqmFifo`], a FIFO controlled by one.
//!
//! *Law*: an AQM sees every arrival and every departure of its queue and moves no packet. The queue drops what the
//! AQM decides to drop, and what exceeds the queue's limit.
//! *Cost*: that of the AQM and of a FIFO.
//! *Notes*: the AQM decides before the limit is checked, so its average includes packets that the limit rejects.
//! *See also*: [`red`], an AQM. [`Fifo`], a queue without one.

pub mod ared;
pub mod codel;
pub mod elephants;
pub mod ingress;
pub mod mered;
pub mod meredt;
pub mod pie;
pub mod red;
pub mod rio;
pub mod step;
pub mod wred;

use crate::fifo::{Fifo, Limit};
use crate::packet::Packet;
use crate::probability::Probability;
use crate::qdisc::{Backlog, Deadline, DropReason, Event, Outlet, Qdisc, Queued};
use tidegate_units::Instant;

/// The decision of an AQM about an arrival.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Verdict {
    /// The packet is enqueued.
    Admit,
    /// Mark it congestion experienced and enqueue it. Returned for ECN-capable packets only.
    Mark,
    /// Drop it for this reason.
    Drop(DropReason),
}

/// Decides which arrivals a queue accepts. An implementation splits parameters (validated once), state and
/// statistics, and does not change its state when `now` runs back.
pub trait Aqm<P: Packet>: Send {
    /// Decides about `packet`, which arrives at a queue that holds `queue`; `queue` does not include `packet`.
    fn on_arrival(&mut self, now: Instant, packet: &P, queue: Backlog) -> Verdict;

    /// Called when an admitted packet exceeded the limit of the queue and was dropped.
    fn on_overflow(&mut self, _now: Instant, _packet: &P) {}

    /// Called when a packet was enqueued.
    fn on_admission(&mut self, _now: Instant, _packet: &P) {}

    /// Called when `packet` left the queue, which now holds `queue`.
    fn on_departure(&mut self, now: Instant, packet: &P, queue: Backlog);

    /// The probability with which it drops or marks, if there is one for all packets. Default none.
    fn probability(&self) -> Option<Probability> {
        None
    }
}

/// Arrivals counted by verdict.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Verdicts {
    /// Enqueued without a mark.
    pub admitted: u64,
    /// Enqueued with a mark.
    pub marked: u64,
    /// Dropped by probability.
    pub early: u64,
    /// Dropped because the average was beyond the hard limit.
    pub forced: u64,
}

impl Verdicts {
    /// Counts `verdict` and returns it.
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

/// A FIFO whose arrivals an [`Aqm`] controls. See the [module](self).
#[derive(Clone, Debug)]
pub struct AqmFifo<P, A> {
    fifo: Fifo<P>,
    limit: Limit,
    aqm: A,
    /// The latest `now` of any call. The AQM sees only some calls and must not receive an earlier instant.
    latest: Instant,
}

impl<P: Packet, A: Aqm<P>> AqmFifo<P, A> {
    /// Returns an empty queue.
    pub fn new(limit: Limit, aqm: A) -> Self {
        Self { fifo: Fifo::new(Limit::NONE), limit, aqm, latest: Instant::ZERO }
    }
    /// Returns the AQM of this queue.
    pub fn aqm(&self) -> &A {
        &self.aqm
    }
    /// The AQM, for changes of its parameters.
    pub fn aqm_mut(&mut self) -> &mut A {
        &mut self.aqm
    }
}

impl<P: Packet, A: Aqm<P>> Qdisc<P> for AqmFifo<P, A> {
    fn enqueue(&mut self, now: Instant, mut packet: P, out: &mut dyn Outlet<P>) -> Queued {
        self.latest = self.latest.max(now);
        let now = self.latest;
        let queue = self.fifo.backlog();
        let verdict = self.aqm.on_arrival(now, &packet, queue);
        if let Verdict::Drop(reason) = verdict {
            return out.refused(packet, reason);
        }
        if !self.limit.admits(queue, packet.size()) {
            self.aqm.on_overflow(now, &packet);
            return out.refused(packet, DropReason::QueueLimit);
        }
        if verdict == Verdict::Mark && packet.mark_ce() {
            out.event(Event::Marked { flow: packet.flow().flow });
        }
        self.aqm.on_admission(now, &packet);
        self.fifo.enqueue(now, packet, out)
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

    fn probability(&self) -> Option<Probability> {
        self.aqm.probability()
    }
}
