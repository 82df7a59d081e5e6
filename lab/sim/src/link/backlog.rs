//! How many packets wait before a line, over time.

use tidegate_core::Instant;

use super::{Link, Queue};

impl Link {
    /// Takes the packets out of a drop-tail queue that are on the line at `at`.
    #[inline]
    pub fn settle(&mut self, at: u64) {
        let Queue::Tail { waiting, bytes, .. } = &mut self.queue else { return };
        while let Some(&(began, size)) = waiting.front()
            && began <= at
        {
            waiting.pop_front();
            *bytes -= u64::from(size);
            if let Some(series) = &mut self.metrics.series {
                series.backlog.step(Instant::from_nanos(began), -1);
            }
        }
    }

    /// Records the backlog of a discipline after a call.
    pub(super) fn observe_backlog(&mut self, at: u64) {
        if self.metrics.series.is_none() {
            return;
        }
        let packets = self.backlog().packets;
        if let Some(series) = &mut self.metrics.series {
            let before = std::mem::replace(&mut self.observed, packets);
            if packets != before {
                series.backlog.step(Instant::from_nanos(at), packets as i64 - before as i64);
            }
        }
    }
}
