//! Runs of a scenario.

use std::ops::ControlFlow;

use tidegate_core::{Instant, Span};

use super::control::Control;
use super::model::Scenario;
use super::outcome::Outcome;

impl Scenario {
    /// How many parts the run of one seed has: one for each variant, or one.
    pub fn parts(&self) -> usize {
        self.variants.len().max(1)
    }

    /// Runs it under `seed`, one variant after the other. `progress` is called with the simulated time now and then.
    pub fn run(&self, seed: u64, mut progress: impl FnMut(Span)) -> Outcome {
        let mut done = Span::ZERO;
        let outcomes = (0..self.parts()).filter_map(|part| {
            let outcome = self.run_part(seed, part, |at| {
                progress(done + at);
                ControlFlow::Continue(())
            });
            done += self.duration;
            outcome
        });
        Outcome::joined(seed, outcomes.collect())
    }

    /// Runs part `part` of [`Scenario::parts`] under `seed`. Parts may run in any order and at the same time;
    /// [`Outcome::joined`] puts them together. `progress` is called with the simulated time now and then; where it breaks,
    /// the run ends without an outcome.
    pub fn run_part(
        &self,
        seed: u64,
        part: usize,
        mut progress: impl FnMut(Span) -> ControlFlow<()>,
    ) -> Option<Outcome> {
        let variant = self.variants.get(part);
        let mut sim = self.network(seed, variant).build().expect("built when it was loaded");
        // Small enough steps for a smooth bar, large enough to cost nothing.
        let step = (self.duration.as_nanos() / 256).max(1);
        let mut control = Control::new(self, variant);
        let mut at = 0;
        while at < self.duration.as_nanos() {
            at = (at + step).min(self.duration.as_nanos());
            control.run_until(&mut sim, Instant::from_nanos(at));
            if progress(Span::from_nanos(at)).is_break() {
                return None;
            }
        }
        let mut outcome = Outcome::of(self, variant, seed, &sim);
        outcome.report(control.finish(&mut sim));
        Some(match variant {
            Some(variant) => outcome.called(&variant.name),
            None => outcome,
        })
    }
}
