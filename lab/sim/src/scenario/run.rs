//! Runs of a scenario.

use std::ops::{ControlFlow, Deref};

use serde_json::{Value as Json, json};
use tidegate_config::{Diagnostics, Source};
use tidegate_core::{Instant, Span};

use super::control::Control;
use super::model::Scenario;
use super::outcome::{Outcome, Report};
use super::resolve::Files;
use crate::engine::Simulation;
use crate::ids::{FlowId, LinkId};
use crate::parallel::{self, Division, Spawn};

impl Scenario {
    /// The number of parts of the run of one seed: one for each variant, or one.
    pub fn parts(&self) -> usize {
        self.variants.len().max(1)
    }

    /// The names of the variants, in the order of the parts.
    pub fn variant_names(&self) -> impl Iterator<Item = &str> {
        self.variants.iter().map(|variant| variant.name.as_str())
    }

    /// Runs the scenario with `seed`, one variant after the other. `progress` is called now and then with the simulated
    /// time.
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

    /// Runs part `part` of [`Scenario::parts`] with `seed`. Parts may run in any order and in parallel;
    /// [`Outcome::joined`] joins them. `progress` is called now and then with the simulated time. If it breaks, the run
    /// ends without an outcome.
    pub fn run_part(&self, seed: u64, part: usize, progress: impl FnMut(Span) -> ControlFlow<()>) -> Option<Outcome> {
        Run::new(self, seed, part).watched(progress)
    }

    /// Like [`Scenario::run_part`], on at most `threads` threads that `spawn` starts; see [`parallel`]. The outcome is the same.
    pub fn run_divided(
        &self,
        (seed, part): (u64, usize),
        threads: usize,
        mut progress: impl FnMut(Span) -> ControlFlow<()> + Send,
        spawn: Spawn<'_>,
    ) -> Option<(Outcome, Division)> {
        if !self.actions.is_empty() {
            let reason = "its [[at]] act on all of it at once";
            return Some((self.run_part(seed, part, progress)?, Division::none(reason)));
        }
        let variant = self.variants.get(part);
        // Found before the threads need it.
        self.warm_up();
        let build = || self.network(seed, variant).build().expect("built when it was loaded");
        let finish = |sim, division| (Run::of(self, seed, part, sim).finish(), division);
        let mut watch = |at: Instant| progress(at.since(Instant::ZERO));
        parallel::run(threads, Instant::ZERO + self.duration, &build, &mut watch, finish, spawn)
    }
}

impl Run<&Scenario> {
    /// Runs to the end and returns the outcome; `None` if `progress` breaks.
    fn watched(&mut self, mut progress: impl FnMut(Span) -> ControlFlow<()>) -> Option<Outcome> {
        // Small enough for a smooth progress bar, large enough to cost nothing.
        let step = Span::from_nanos((self.scenario.duration.as_nanos() / 256).max(1));
        while !self.is_over() {
            self.run_until(self.now() + step);
            if progress(self.now().since(Instant::ZERO)).is_break() {
                return None;
            }
        }
        Some(self.finish())
    }
}

/// A part of a scenario that runs step by step. Its outcome does not depend on the steps.
///
/// ```
/// # use tidegate_config::{Diagnostics, Source};
/// use tidegate_core::{Instant, Span};
/// use tidegate_sim::scenario::{Run, Scenario};
/// # let text = "version = 1\nduration = \"4s\"\nhosts = [\"a\", \"b\"]\n[[link]]\nfrom = \"a\"\nto = \"b\"\nrate = \"8mbit\"\n\
/// # queue = { kind = \"fifo\" }\n[[flow]]\nname = \"bulk\"\nfrom = \"a\"\nto = \"b\"\nworkload = { kind = \"bulk\" }";
/// # let scenario = Scenario::load(&Source::new("s.toml", text), None, &mut Diagnostics::new()).unwrap();
/// let mut run = Run::new(&scenario, 1, 0);
/// run.run_until(Instant::ZERO + Span::from_secs(2));
/// let action = "from = \"a\"\nto = \"b\"\naction = { kind = \"line\", rate = \"1mbit\" }";
/// let report = run.act(&Source::new("action", action), None, &mut Diagnostics::new()).unwrap();
/// assert!(!report.refused);
/// let outcome = run.finish();
/// assert!(outcome.values.iter().any(|value| value.measure == "goodput" && value.value < 5e6));
/// ```
pub struct Run<S> {
    scenario: S,
    seed: u64,
    part: usize,
    sim: Simulation,
    control: Control,
}

impl<S: Deref<Target = Scenario>> Run<S> {
    /// Prepares part `part` to run with `seed`. A scenario without variants has part 0.
    pub fn new(scenario: S, seed: u64, part: usize) -> Self {
        let variant = scenario.variants.get(part);
        let sim = scenario.network(seed, variant).build().expect("built when it was loaded");
        Self::of(scenario, seed, part, sim)
    }

    fn of(scenario: S, seed: u64, part: usize, sim: Simulation) -> Self {
        let variant = scenario.variants.get(part);
        let control = Control::new(&scenario, variant);
        Self { scenario, seed, part, sim, control }
    }

    /// The scenario.
    pub fn scenario(&self) -> &Scenario {
        &self.scenario
    }
    /// The simulated time.
    pub fn now(&self) -> Instant {
        self.sim.now()
    }
    /// The network.
    pub fn simulation(&self) -> &Simulation {
        &self.sim
    }
    /// Whether the duration of the scenario is over.
    pub fn is_over(&self) -> bool {
        self.now() >= self.end()
    }

    fn end(&self) -> Instant {
        Instant::ZERO + self.scenario.duration
    }

    /// Runs until `time`, or to the end of the duration if that is earlier, with all due actions.
    pub fn run_until(&mut self, time: Instant) {
        while !self.run_some(time, u64::MAX) {}
    }

    /// Like [`Self::run_until`], but returns `false` after it has handled about `events` events and has not reached the
    /// time yet.
    pub fn run_some(&mut self, time: Instant, events: u64) -> bool {
        let time = time.min(self.end());
        self.control.run_some(&self.scenario, &mut self.sim, time, events)
    }

    /// Executes an action now: a table as in `[[at]]`, but without a time. A refusal is a report. Returns `None` if the
    /// table is wrong; the errors are in `diagnostics`.
    ///
    /// A line can be changed if its link has a `queue`. A line that could lose no packets at the beginning cannot be
    /// made to lose any later.
    pub fn act(&mut self, source: &Source, files: Option<Files<'_>>, diagnostics: &mut Diagnostics) -> Option<Report> {
        let action = self.scenario.action(source, files, diagnostics)?;
        Some(self.control.act_now(&self.scenario, &mut self.sim, &action))
    }

    /// The outcome so far, without reports of shapers. The run can continue.
    pub fn outcome(&self) -> Outcome {
        let variant = self.scenario.variants.get(self.part);
        Outcome::collect(&self.scenario, variant, self.seed, &self.sim, &self.control)
    }

    /// The current backlog of links and the transfers of flows, with units in the names. Values are totals since the
    /// warm-up, so that the difference of two snapshots covers the time between them.
    pub fn snapshot(&self) -> Json {
        let link = |(number, (name, metrics)): (usize, (&str, &crate::metrics::LinkMetrics))| {
            let backlog = self.sim.backlog(LinkId(number as u32));
            let (sent, dropped) = (metrics.sent_total(), metrics.dropped_total());
            json!({
                "name": name,
                "backlog_packets": backlog.packets,
                "backlog_bytes": backlog.bytes.as_u64(),
                "sent_packets": sent.packets,
                "sent_bytes": sent.bytes,
                "dropped_packets": dropped.packets,
                "marked_packets": metrics.marked,
                "lost_packets": metrics.lost,
                "delay_packets": metrics.delay_ns.count(),
                "delay_sum_ns": metrics.delay_ns.mean().unwrap_or(0.0) * metrics.delay_ns.count() as f64,
            })
        };
        let flow = |(number, (_, metrics)): (usize, (&crate::FlowSpec, &crate::metrics::FlowMetrics))| {
            let sender = self.sim.sender(FlowId(number as u32));
            json!({
                "name": self.scenario.flow_name(number),
                "goodput_bytes": metrics.goodput_total(),
                "sent_packets": metrics.sent_total().packets,
                "dropped_packets": metrics.dropped_total().packets,
                "marked_packets": metrics.marked,
                "retransmitted_packets": metrics.retransmitted.packets,
                "timeouts": metrics.timeouts,
                "cwnd_bytes": sender.map(|sender| sender.cwnd),
                "srtt_ns": sender.and_then(|sender| sender.srtt).map(|srtt| srtt.as_nanos()),
            })
        };
        json!({
            "time_ns": self.now().as_nanos(),
            "events": self.sim.events(),
            "links": self.sim.links().enumerate().map(link).collect::<Vec<_>>(),
            "flows": self.sim.flows().enumerate().map(flow).collect::<Vec<_>>(),
        })
    }

    /// Runs to the end of the duration and returns the outcome. Call this once, because it takes the reports of shapers
    /// out.
    pub fn finish(&mut self) -> Outcome {
        let end = self.end();
        self.run_until(end);
        let variant = self.scenario.variants.get(self.part);
        let mut outcome = self.outcome();
        outcome.report(self.control.finish(&self.scenario, &mut self.sim));
        match variant {
            Some(variant) => outcome.labelled(&variant.name),
            None => outcome,
        }
    }
}
