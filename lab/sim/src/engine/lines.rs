//! Lines: half-duplex access, and changes of a line while the simulation runs.

use tidegate_core::Rate;

use super::{EventKind, Simulation, target};
use crate::conditions::{Conditions, LineChange, LineState};
use crate::ids::LinkId;
use crate::link::{NEVER, Queue};

/// The end of the time for which the capacity of a line counts: until `now`, or until its last transmission ends.
pub(super) fn end_of(now: u64, free_at: u64) -> u64 {
    if free_at < NEVER / 8 { now.max(free_at) } else { now }
}

impl Simulation {
    /// Changes the line of `link` for packets that are transmitted from now on.
    ///
    /// # Errors
    /// If the link has no discipline of its own, because its departures may have been computed already; or if it is to
    /// lose packets but has no loss process. In both cases nothing has changed.
    pub fn change_line(&mut self, link: LinkId, change: &LineChange) -> Result<(), &'static str> {
        let name = &self.link_names[link.index()];
        let link = &mut self.links[link.index()];
        if let Queue::Tail { .. } = link.queue {
            return Err(
                "only the line of a link with a `queue` can be changed at any time; list the change in [[at]] instead",
            );
        }
        if change.loss.is_some() && !link.has_losses() {
            return Err(
                "a line without loss at the beginning cannot lose packets later; list the change in [[at]] instead",
            );
        }
        let (rate, delay) = link.line();
        // A line of constant rate without other conditions draws no random numbers, so the seed does not matter.
        let state = link
            .conditions
            .get_or_insert_with(|| Box::new(LineState::new(Conditions::default(), rate, delay, 0, name)));
        state.change(change.clone());
        Ok(())
    }

    /// The share of what `link` could carry that its transmissions have used: their bits, over those that its line, with
    /// its rate over time and its failures, could have carried from the end of the warm-up until the last of these
    /// transmissions ends. For a shared queue it is the share of `rate`, the sum of its links.
    pub fn utilisation(&self, link: LinkId, rate: Option<Rate>) -> f64 {
        let number = link.0;
        let link = &self.links[link.index()];
        let end = if rate.is_none() { end_of(self.now, link.free_at) } else { self.now };
        let capacity = match rate {
            Some(rate) => rate.as_bps() as f64 * end.saturating_sub(self.warm_up) as f64 / 1e9,
            None => match self.elsewhere.capacities.get(&number) {
                Some(&capacity) => capacity as f64,
                None => link.capacity(self.warm_up, end) as f64,
            },
        };
        let sent = link.metrics.sent_total().bytes as f64 * 8.0;
        // A transmission that a failure cuts off counts as a whole.
        if capacity > 0.0 { (sent / capacity).min(1.0) } else { 0.0 }
    }

    /// Whether `link` may transmit now: its line works and, if it is half-duplex, the other direction is silent and has
    /// had its turn. Otherwise the link is scheduled for the time at which it may.
    pub(super) fn has_line(&mut self, link: u32) -> bool {
        let now = self.now;
        let l = &mut self.links[link as usize];
        l.wait_for_line(now);
        if l.free_at > now {
            self.schedule_transmit(link);
            return false;
        }
        let Some(number) = l.shared_line else { return true };
        let line = &mut self.shared_lines[number as usize];
        if line.free_at > now {
            line.waits |= line.last != link;
            l.free_at = line.free_at;
            self.schedule_transmit(link);
            return false;
        }
        if line.last == link && line.waits {
            // The other direction has an event at this time, and may go first once.
            line.waits = false;
            l.transmit_at = now;
            self.events.push(now, target(EventKind::Transmit, link));
            return false;
        }
        true
    }

    /// Records that `link` occupies its half-duplex line.
    pub(super) fn take_line(&mut self, link: u32) {
        let l = &self.links[link as usize];
        if let Some(number) = l.shared_line
            && l.free_at > self.now
        {
            let line = &mut self.shared_lines[number as usize];
            line.waits &= line.last == link;
            (line.free_at, line.last) = (l.free_at, link);
        }
    }
}
