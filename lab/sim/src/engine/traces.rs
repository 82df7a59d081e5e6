//! Recording of queue states in a trace.

use tidegate_core::Instant;

use super::Simulation;
use crate::link::Queue;
use crate::trace::Trace;

impl Simulation {
    /// Takes the trace of the run so far, if [`Network::trace`](crate::Network::trace) asked for one.
    pub fn take_trace(&mut self) -> Option<Trace> {
        Some(self.tracer.take()?.borrow_mut().finish())
    }

    /// Records the state of the queue of `link`.
    #[cold]
    pub(super) fn trace_queue(&self, link: u32) {
        let Some(tracer) = &self.tracer else { return };
        let l = &self.links[link as usize];
        let probability = match &l.queue {
            Queue::Discipline(discipline) | Queue::Driver(discipline, _) => discipline.get().probability(),
            Queue::Tail { .. } => None,
        };
        let probability = probability.map(|probability| probability.as_f64());
        tracer.borrow_mut().queue(Instant::from_nanos(self.now), link, l.backlog(), probability);
    }
}
