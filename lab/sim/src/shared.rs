//! [`Shared`]: a discipline that the network uses and the experimenter keeps.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tidegate_core::{Backlog, Deadline, Instant, Outlet, Qdisc, Queued};

use crate::packet::SimPacket;

/// A handle on a discipline: one goes into the network, the other stays outside, to read its statistics or change its
/// parameters between two calls of [`Simulation::run_until`](crate::Simulation::run_until); after a change call
/// [`Simulation::kick`](crate::Simulation::kick).
#[derive(Debug, Default)]
pub struct Shared<Q>(Arc<Mutex<Q>>);

impl<Q> Shared<Q> {
    /// Shares `qdisc`.
    pub fn new(qdisc: Q) -> Self {
        Self(Arc::new(Mutex::new(qdisc)))
    }
    /// Reads it. Keep no guard while the simulation runs: it would wait for ever.
    pub fn borrow(&self) -> MutexGuard<'_, Q> {
        self.guard()
    }
    /// Changes it. Keep no guard while the simulation runs: it would wait for ever.
    pub fn borrow_mut(&self) -> MutexGuard<'_, Q> {
        self.guard()
    }
    /// A panic elsewhere does not make numbers unreadable.
    fn guard(&self) -> MutexGuard<'_, Q> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl<Q> Clone for Shared<Q> {
    fn clone(&self) -> Self {
        Self(Arc::clone(&self.0))
    }
}

impl<Q: Qdisc<SimPacket>> Qdisc<SimPacket> for Shared<Q> {
    fn enqueue(&mut self, now: Instant, packet: SimPacket, out: &mut dyn Outlet<SimPacket>) -> Queued {
        self.guard().enqueue(now, packet, out)
    }
    fn dequeue(&mut self, now: Instant, out: &mut dyn Outlet<SimPacket>) -> Option<SimPacket> {
        self.guard().dequeue(now, out)
    }
    fn deadline(&self, now: Instant) -> Deadline {
        self.guard().deadline(now)
    }
    fn backlog(&self) -> Backlog {
        self.guard().backlog()
    }
}
