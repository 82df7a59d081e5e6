//! Changes of a line while the simulation runs.

use super::Simulation;
use crate::conditions::{Conditions, LineChange, LineState};
use crate::ids::LinkId;
use crate::link::Queue;

impl Simulation {
    /// Changes the line of `link` for what is transmitted from now on.
    ///
    /// # Errors
    /// The link has no discipline of its own, so that departures may be computed already; or it is to lose packets but has
    /// no process of losses. Nothing has changed then.
    pub fn change_line(&mut self, link: LinkId, change: &LineChange) -> Result<(), &'static str> {
        let name = &self.link_names[link.index()];
        let link = &mut self.links[link.index()];
        if let Queue::Tail { .. } = link.queue {
            return Err(
                "only the line of a link with a `queue` can be changed at any time; or list the change as [[at]]",
            );
        }
        if change.loss.is_some() && !link.has_losses() {
            return Err(
                "a line that loses nothing from the beginning cannot lose packets later; list the change as [[at]]",
            );
        }
        let (rate, delay) = link.line();
        // A line of constant rate without other conditions draws nothing: the seed does not matter.
        let state = link
            .conditions
            .get_or_insert_with(|| Box::new(LineState::new(Conditions::default(), rate, delay, 0, name)));
        state.change(change.clone());
        Ok(())
    }
}
