//! Access to a running engine between two packets: its tree, its recorder, promises, watched flows and rates.

use tidegate_config::shaper::Root;
use tidegate_core::classify::Fields;
use tidegate_core::fbq::{NoSuchFlow, Promise};
use tidegate_core::{Account, ClassId, Instant, Rate, Span};

use crate::engine::Engine;
use crate::quota::Key;
use crate::recorder::{Adjustment, Operation, Recorder};
use crate::registry::PromiseControl;
use crate::rules::Classification;
use crate::sink::Sink;
use crate::tree::Tree;

impl<H: Copy + Send + 'static> Engine<H> {
    /// Classifies a packet with these fields, as if it were not a fragment.
    pub fn classify(&self, fields: &Fields) -> Classification {
        self.classify.classify(fields)
    }

    /// The tree of disciplines.
    pub fn tree(&self) -> &Tree {
        &self.tree
    }
    /// The tree, for changes that have no method here. A recording cannot be repeated beyond such a change.
    pub fn tree_mut(&mut self) -> &mut Tree {
        self.record(Instant::ZERO, Operation::Unrecorded);
        &mut self.tree
    }

    /// Records every call from now on with `recorder`; returns the previous recorder.
    pub fn set_recorder(&mut self, recorder: Option<Box<dyn Recorder>>) -> Option<Box<dyn Recorder>> {
        std::mem::replace(&mut self.recorder, recorder)
    }
    /// The present recorder.
    pub fn recorder(&mut self) -> Option<&mut Box<dyn Recorder>> {
        self.recorder.as_mut()
    }
    pub(crate) fn record(&mut self, now: Instant, operation: Operation<'_>) {
        if let Some(recorder) = &mut self.recorder {
            recorder.operation(now, operation);
        }
    }

    /// Returns the bytes that rules with a quota have taken since the last call.
    pub fn take_quotas(&mut self) -> Vec<(Key, u64)> {
        self.account.rules.take()
    }
    /// The packets that each rule of the configuration has matched, in the order of the file. They count when they arrive, with the
    /// overhead of the link; a rule goes on with its count when it moves in the file.
    pub fn rule_counts(&self) -> &[Account] {
        self.account.rules.counts()
    }

    /// Access of the control plane to promises and to the registry of flows.
    pub fn promises(&mut self, now: Instant) -> PromiseControl<'_> {
        PromiseControl { tree: &mut self.tree, registry: &mut self.admit.registry, recorder: &mut self.recorder, now }
    }
    /// When to call [`Engine::poll`]; `None` while no flow is watched.
    pub fn next_poll(&self) -> Option<Instant> {
        self.admit.registry.next_poll()
    }
    /// Requests a poll of watched flows soon: packets have arrived or left.
    pub fn mark_dirty(&mut self, now: Instant) {
        self.admit.registry.mark_dirty(now);
    }
    /// Compares watched flows with their last state, and notifies of changes.
    pub fn poll(&mut self, now: Instant, out: &mut impl Sink<H>) {
        self.admit.registry.poll(now, &self.tree, &mut |notification| out.notify(notification));
    }

    /// Sets the lateness for which the shaper or CBQ makes up. Returns `false` for other disciplines.
    pub fn set_catch_up(&mut self, catch_up: Span) -> bool {
        self.record(Instant::ZERO, Operation::Adjustment(Adjustment::CatchUp(catch_up)));
        self.setup.catch_up = catch_up;
        self.tree.set_catch_up(catch_up)
    }
    /// Sets the rate of the shaper's link. Returns `false` if the classes need more, or for another discipline.
    pub fn set_rate(&mut self, now: Instant, rate: Rate) -> bool {
        self.record(now, Operation::Adjustment(Adjustment::Rate(rate)));
        self.tree.shaper_mut().is_some_and(|fbc| fbc.set_rate(now, rate))
    }
    /// Sets the total rate of the shaper and scales its classes with it: shares stay, queues are not touched, and minimums of
    /// flows are kept as far as the rate of their class allows, the oldest first. Returns `false` for another discipline. A change of
    /// the configuration brings back the rates of the file.
    ///
    /// *Cost*: linear in classes, and in the flows of those whose minimums do not fit any more.
    pub fn follow(&mut self, now: Instant, rate: Rate) -> bool {
        self.record(now, Operation::Adjustment(Adjustment::Follow(rate)));
        let Root::Shaper(shaper) = &self.config.root else { return false };
        let scaled = shaper.at_rate(rate);
        let (params, profiles) = (scaled.params(self.setup.catch_up), self.config.profiles());
        let classes: Vec<_> = scaled.classes.iter().map(tidegate_config::shaper::Class::params).collect();
        self.tree.shaper_mut().is_some_and(|fbc| fbc.change(now, params, &classes, profiles).is_ok())
    }
    /// Sets the rate of a class of the shaper. Returns `false` if the class cannot have it, or for another discipline.
    pub fn set_class_rate(&mut self, now: Instant, class: ClassId, rate: Rate) -> bool {
        self.record(now, Operation::Adjustment(Adjustment::ClassRate(class, rate)));
        self.tree.shaper_mut().is_some_and(|fbc| fbc.set_class_rate(now, class, rate))
    }
    /// Sets the minimum of flow `flow` of the shaper.
    ///
    /// # Errors
    /// [`NoSuchFlow`], also if the discipline has no flows.
    pub fn set_minimum(&mut self, now: Instant, flow: u64, rate: Rate) -> Result<Promise, NoSuchFlow> {
        self.record(now, Operation::Adjustment(Adjustment::Minimum(flow, rate)));
        self.tree.shaper_mut().ok_or(NoSuchFlow)?.set_minimum(now, flow, rate)
    }
    /// Prefers flow `flow` of the shaper by `steps`.
    ///
    /// # Errors
    /// [`NoSuchFlow`], also if the discipline has no flows.
    pub fn prefer(&mut self, now: Instant, flow: u64, steps: u32) -> Result<(), NoSuchFlow> {
        self.record(now, Operation::Adjustment(Adjustment::Prefer(flow, steps)));
        self.tree.shaper_mut().ok_or(NoSuchFlow)?.prefer(now, flow, steps)
    }
    /// Repeats an adjustment of a recording.
    pub fn adjust(&mut self, now: Instant, adjustment: Adjustment) {
        match adjustment {
            Adjustment::CatchUp(span) => drop(self.set_catch_up(span)),
            Adjustment::Rate(rate) => drop(self.set_rate(now, rate)),
            Adjustment::Follow(rate) => drop(self.follow(now, rate)),
            Adjustment::ClassRate(class, rate) => drop(self.set_class_rate(now, class, rate)),
            Adjustment::Minimum(flow, rate) => drop(self.set_minimum(now, flow, rate)),
            Adjustment::Prefer(flow, steps) => drop(self.prefer(now, flow, steps)),
        }
    }
}
