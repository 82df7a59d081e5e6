//! [`Shared`]: a discipline that the network uses and the experimenter keeps.

use std::cell::{Ref, RefCell, RefMut};
use std::rc::Rc;

use tidegate_core::{Backlog, Deadline, Instant, Outlet, Qdisc};

use crate::packet::SimPacket;

/// A handle on a discipline: one goes into the network, the other stays outside, to read its statistics or change its
/// parameters between two calls of [`Simulation::run_until`](crate::Simulation::run_until); after a change call
/// [`Simulation::kick`](crate::Simulation::kick).
#[derive(Debug, Default)]
pub struct Shared<Q>(Rc<RefCell<Q>>);

impl<Q> Shared<Q> {
    /// Shares `qdisc`.
    pub fn new(qdisc: Q) -> Self {
        Self(Rc::new(RefCell::new(qdisc)))
    }
    /// Reads it.
    ///
    /// # Panics
    /// When it is being written: keep no guard while the simulation runs.
    pub fn borrow(&self) -> Ref<'_, Q> {
        self.0.borrow()
    }
    /// Changes it.
    ///
    /// # Panics
    /// When it is being read or written: keep no guard while the simulation runs.
    pub fn borrow_mut(&self) -> RefMut<'_, Q> {
        self.0.borrow_mut()
    }
}

impl<Q> Clone for Shared<Q> {
    fn clone(&self) -> Self {
        Self(Rc::clone(&self.0))
    }
}

impl<Q: Qdisc<SimPacket>> Qdisc<SimPacket> for Shared<Q> {
    fn enqueue(&mut self, now: Instant, packet: SimPacket, out: &mut dyn Outlet<SimPacket>) {
        self.0.borrow_mut().enqueue(now, packet, out);
    }
    fn dequeue(&mut self, now: Instant, out: &mut dyn Outlet<SimPacket>) -> Option<SimPacket> {
        self.0.borrow_mut().dequeue(now, out)
    }
    fn deadline(&self, now: Instant) -> Deadline {
        self.0.borrow().deadline(now)
    }
    fn backlog(&self) -> Backlog {
        self.0.borrow().backlog()
    }
}
