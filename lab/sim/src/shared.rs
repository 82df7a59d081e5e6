//! [`Shared`]: a discipline that the network uses while the experimenter keeps a handle on it.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tidegate_core::{Backlog, Deadline, Instant, Outlet, Qdisc, Queued};

use crate::packet::SimPacket;

/// A handle on a discipline. One clone goes into the network. The other stays outside, where it reads the discipline's
/// statistics or changes its parameters between two calls of [`Simulation::run_until`](crate::Simulation::run_until).
/// Call [`Simulation::kick`](crate::Simulation::kick) after a change.
#[derive(Debug, Default)]
pub struct Shared<Q>(Arc<Mutex<Q>>);

impl<Q> Shared<Q> {
    /// Shares `qdisc`.
    pub fn new(qdisc: Q) -> Self {
        Self(Arc::new(Mutex::new(qdisc)))
    }
    /// Locks the discipline for reading. Drop the guard before the simulation continues, or it deadlocks.
    pub fn borrow(&self) -> MutexGuard<'_, Q> {
        self.guard()
    }
    /// Locks the discipline for changes. Drop the guard before the simulation continues, or it deadlocks.
    pub fn borrow_mut(&self) -> MutexGuard<'_, Q> {
        self.guard()
    }
    /// Locks the discipline even if another thread panicked while it held the lock.
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
