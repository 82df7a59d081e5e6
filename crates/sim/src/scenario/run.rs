//! Runs of a scenario.

use tidegate_core::{Instant, Span};

use super::control::Control;
use super::model::Scenario;
use super::outcome::Outcome;

impl Scenario {
    /// Runs it under `seed`, one variant after the other. `progress` is called with the simulated time now and then.
    pub fn run(&self, seed: u64, mut progress: impl FnMut(Span)) -> Outcome {
        let variants = if self.variants.is_empty() { vec![None] } else { self.variants.iter().map(Some).collect() };
        let mut outcomes = Vec::with_capacity(variants.len());
        let mut done = Span::ZERO;
        for variant in variants {
            let mut sim = self.network(seed, variant).build().expect("built when it was loaded");
            // Small enough steps for a smooth bar, large enough to cost nothing.
            let step = (self.duration.as_nanos() / 256).max(1);
            let mut control = Control::new(self, variant);
            let mut at = 0;
            while at < self.duration.as_nanos() {
                at = (at + step).min(self.duration.as_nanos());
                control.run_until(&mut sim, Instant::from_nanos(at));
                progress(done + Span::from_nanos(at));
            }
            done += self.duration;
            let mut outcome = Outcome::of(self, variant, seed, &sim);
            outcome.report(control.finish(&mut sim));
            outcomes.push(match variant {
                Some(variant) => outcome.called(&variant.name),
                None => outcome,
            });
        }
        Outcome::joined(seed, outcomes)
    }
}
