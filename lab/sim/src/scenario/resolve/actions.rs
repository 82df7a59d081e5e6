//! Turns `[[at]]` into [`Action`]s, and reports every error with its place.

use std::collections::BTreeMap;
use std::ops::Range;
use std::sync::Arc;

use tidegate_config::shaper::{self, Config, EVENTS};
use tidegate_config::values::Prefix;
use tidegate_config::{Diagnostics, Source, Spanned, edit, suggest};
use tidegate_core::{Instant, Span};
use tidegate_engine::Target;

use super::Resolver;
use crate::scenario::actions::{ActionSection, AtSection, TargetSection, Values, WorkloadChange};
use crate::scenario::control::edited;
use crate::scenario::model::{Action, ActionKind, FlowSelector};
use crate::scenario::queue::LinkQueue;
use crate::workload::FlowSpec;

/// The limits of a promise, as on a live shaper: the number of flows for which it holds rate, and the number of
/// preference steps.
const MOST_FLOWS: u32 = 1_024;
const MOST_STEPS: u32 = 1_000;

/// Whether an action needs all flows in one engine, because promises to flows are not passed between shards.
fn is_of_one_engine(kind: &ActionKind) -> bool {
    matches!(
        kind,
        ActionKind::Promise(..)
            | ActionKind::Release(_)
            | ActionKind::Reserve(..)
            | ActionKind::Unreserve(_)
            | ActionKind::Feedback { .. }
    )
}

impl Resolver<'_> {
    /// Resolves all actions, then rehearses the changes of shaper files so that their results are checked as well.
    pub(super) fn actions(&mut self, sections: &[Spanned<AtSection>]) {
        let mut actions = Vec::new();
        for section in sections {
            if section.time.value > self.scenario.duration {
                let help = "make it earlier, or the duration longer";
                self.error(section.time.place, "an action after the end", "after `duration`", help);
            }
            let Some(action) = self.resolved_action(section) else { continue };
            actions.push((action, section));
        }
        actions.sort_by_key(|(action, _)| action.time);
        if self.diagnostics.errors() == 0 {
            self.rehearse(&actions);
        }
        self.scenario.actions = actions.into_iter().map(|(action, _)| action).collect();
    }

    /// Resolves one action.
    pub(super) fn resolved_action(&mut self, section: &Spanned<AtSection>) -> Option<Action> {
        let (wire, kind) = match &section.action.value {
            ActionSection::Line(line) => {
                self.line_change(section, line).map(|(wire, change)| (wire, ActionKind::Line(change)))
            }
            ActionSection::Workload(change) => self.workload_change(change),
            _ => self.shaped_wire(section).and_then(|wire| Some((wire, self.action(&section.action)?))),
        }?;
        if is_of_one_engine(&kind) && self.queues(wire).any(|queue| queue.shards() > 1) {
            let help = "take `shards` out of the queue, or this action";
            let message = format!("`{}` on a shaper in several shards", kind.word());
            self.error(section.place, message, "only in one engine", help);
        }
        Some(Action { time: Instant::ZERO + section.time.value, wire, kind })
    }

    /// Whether a wire has a shaper file, in the scenario itself or in a variant.
    fn is_shaped(&self, wire: usize) -> bool {
        self.queues(wire).any(|queue| queue.shaper().is_some())
    }
    /// The queues of a wire in the scenario itself and in its variants.
    fn queues(&self, wire: usize) -> impl Iterator<Item = &LinkQueue> {
        let variants = self.scenario.variants.iter().filter_map(move |variant| variant.queue_at(wire));
        self.scenario.wires[wire].queue.as_ref().into_iter().chain(variants)
    }

    fn shaped_wire(&mut self, section: &Spanned<AtSection>) -> Option<usize> {
        match (&section.from, &section.to) {
            (Some(from), Some(to)) => {
                let (a, b) = (self.node(from)?, self.node(to)?);
                let wire = self.scenario.wire_between(a, b);
                match wire.map(|wire| self.scenario.queueing_wire(wire)) {
                    Some(wire) if self.is_shaped(wire) => Some(wire),
                    _ => {
                        let message = format!("the link from `{}` to `{}` has no shaper", from.value, to.value);
                        let help = "name a link with queue = { shaper = ... }";
                        self.error(to.place, message, "no shaper on this link", help);
                        None
                    }
                }
            }
            (None, None) => {
                let mut shaped = (0..self.scenario.wires.len()).filter(|wire| self.is_shaped(*wire));
                match (shaped.next(), shaped.next()) {
                    (Some(wire), None) => Some(wire),
                    (None, _) => {
                        let help = "give a link queue = { shaper = \"office.toml\" }";
                        self.error(section.place, "no link has a shaper", "nothing to act on", help);
                        None
                    }
                    (Some(_), Some(_)) => {
                        let help = "add from and to, as in the [[link]]";
                        self.error(section.place, "several links have a shaper", "which of them?", help);
                        None
                    }
                }
            }
            (Some(one), None) | (None, Some(one)) => {
                self.error(one.place, "one end of a link", "a link has two", "give both from and to");
                None
            }
        }
    }

    fn action(&mut self, action: &Spanned<ActionSection>) -> Option<ActionKind> {
        Some(match &action.value {
            ActionSection::Promise(section) => {
                if section.minimum.is_none_or(|minimum| minimum.is_zero())
                    && section.prefer.value == 0
                    && section.displace.is_none()
                {
                    let help = "give a minimum, prefer or displace";
                    self.error(action.place, "nothing is promised", "promises nothing", help);
                }
                if !(1..=MOST_FLOWS).contains(&section.flows.value) {
                    let label = "not between 1 and 1024";
                    self.error(section.flows.place, "the number of flows is out of range", label, "write flows = 1");
                }
                if section.prefer.value > MOST_STEPS {
                    let help = "ten steps of 10% already give everything";
                    self.error(section.prefer.place, "the preference has too many steps", "too many", help);
                }
                ActionKind::Promise(self.flows(&section.target)?, section.clone())
            }
            ActionSection::Release(section) => ActionKind::Release(section.name.value.clone()),
            ActionSection::Reserve(section) => ActionKind::Reserve(self.flows(&section.target)?, section.clone()),
            ActionSection::Unreserve(section) => ActionKind::Unreserve(section.name.value.clone()),
            ActionSection::Set(section) => {
                let Values(values) = &section.values.value;
                let name = section.name.as_ref().map(|name| name.value.clone());
                let set = |(key, value): &(String, String)| edit::Edit::Set {
                    section: section.section.value.clone(),
                    name: name.clone(),
                    key: key.clone(),
                    value: value.clone(),
                };
                ActionKind::Edit(values.iter().map(set).collect())
            }
            ActionSection::Add(section) => ActionKind::Edit(vec![edit::Edit::Add {
                section: section.section.value.clone(),
                values: section.values.value.0.clone(),
            }]),
            ActionSection::Remove(section) => ActionKind::Edit(vec![edit::Edit::Remove {
                section: section.section.value.clone(),
                name: section.name.value.clone(),
            }]),
            ActionSection::Apply(section) => ActionKind::Apply(self.shaper(&section.shaper)?),
            ActionSection::Status(section) => ActionKind::Status { flows: section.flows },
            ActionSection::Feedback(section) => ActionKind::Feedback {
                flows: self.flows(&section.target)?,
                delay: section.delay.max(Span::from_micros(1)),
            },
            // These need no shaper and are resolved elsewhere.
            ActionSection::Line(_) | ActionSection::Workload(_) => return None,
            ActionSection::Events(section) => {
                for kind in section.kinds.iter().filter(|kind| !EVENTS.contains(&kind.value.as_str())) {
                    let help = suggest::help(&kind.value, &EVENTS);
                    self.error(kind.place, format!("there is no event `{}`", kind.value), "unknown event", help);
                }
                ActionKind::Events { kinds: section.kinds.iter().map(|kind| kind.value.clone()).collect() }
            }
        })
    }

    /// Resolves a change of the workload of flows. Returns a wire that begins at their source, too.
    fn workload_change(&mut self, section: &WorkloadChange) -> Option<(usize, ActionKind)> {
        let flows = self.flows_called(&section.flow)?;
        let workload = self.workload(&section.workload)?;
        let first = self.scenario.flows.get(flows.start)?;
        let changed = FlowSpec { workload: Arc::new(workload), ..first.clone() };
        if let Err(problem) = changed.validate() {
            self.error(section.workload.place, problem, "not for these flows", "give the flow this transport");
            return None;
        }
        if !changed.replaces(first) {
            let help = "give it a flow of its own, with a `start`";
            let message = "datagrams in both directions must begin with the flow";
            self.error(section.workload.place, message, "the flow sends in one direction", help);
            return None;
        }
        let wire = self.scenario.wires.iter().position(|wire| wire.from as u32 == first.from.index())?;
        Some((wire, ActionKind::Workload { flows, workload: changed.workload }))
    }

    fn flows_called(&mut self, name: &Spanned<String>) -> Option<Range<usize>> {
        let found = self.scenario.flows_named(&name.value);
        if found.is_none() {
            let names: Vec<&str> = self.scenario.sections.iter().map(|one| one.name.as_str()).collect();
            let help = suggest::help(&name.value, &names);
            self.error(name.place, format!("no flow is called `{}`", name.value), "unknown", help);
        }
        found
    }

    fn flows(&mut self, section: &Spanned<TargetSection>) -> Option<FlowSelector> {
        let flows = match &section.flow {
            None => None,
            Some(name) => Some(self.flows_called(name)?),
        };
        let mut address = |prefix: &Option<Spanned<Prefix>>| {
            let prefix = prefix.as_ref()?;
            if prefix.length != if prefix.address.is_ipv4() { 32 } else { 128 } {
                let help = "write for example \"10.0.0.1\"";
                self.error(prefix.place, "this is a network, not a single address", "not one address", help);
            }
            Some(prefix.address)
        };
        let target = Target {
            protocol: section.protocol.map(|protocol| protocol.0),
            source: address(&section.source),
            destination: address(&section.destination),
            port: section.port,
            source_port: section.source_port,
            destination_port: section.destination_port,
            uid: None,
        };
        let all = FlowSelector { flows, target, user: section.user.clone() };
        if all.flows.is_none() && all.user.is_none() && all.target == Target::default() {
            let help = "give a flow, a port, addresses or a user";
            self.error(section.place, "the flows are not specified", "means every flow", help);
        } else if all.target.matches().is_err() {
            let help = "leave one of its keys out";
            self.error(section.place, "no packet matches all of this", "contradicts itself", help);
        }
        Some(all)
    }

    /// Applies the changes of shaper files in order, to the file of each variant.
    fn rehearse(&mut self, actions: &[(Action, &Spanned<AtSection>)]) {
        let variants = self.scenario.variants.iter().map(Some).chain([None]);
        let mut files: Vec<BTreeMap<usize, Config>> = Vec::new();
        for variant in variants {
            let shaper = |wire: usize| Some((wire, (**self.scenario.queue_of(wire, variant)?.shaper()?).clone()));
            files.push((0..self.scenario.wires.len()).filter_map(shaper).collect());
        }
        for (action, section) in actions {
            let mut warned = false;
            for configs in &mut files {
                let Some(config) = configs.get_mut(&action.wire) else { continue };
                match &action.kind {
                    ActionKind::Apply(other) => *config = (**other).clone(),
                    ActionKind::Edit(edits) => {
                        let name = format!(
                            "shaper of {} from {} on",
                            self.scenario.wire_name(action.wire),
                            section.time.value
                        );
                        match edited(&config.text, edits, &name) {
                            Ok((changed, source, found)) => {
                                // Warnings about the original file have been shown with it.
                                let mut before = Diagnostics::new();
                                shaper::load(&Source::new("", config.text.as_ref()), &mut before);
                                if found.warnings() > before.warnings() && !warned {
                                    warned = true;
                                    self.diagnostics.include(&source, found);
                                }
                                *config = changed;
                            }
                            Err((_, Some((source, found)))) => {
                                let help = "the changed file is shown below";
                                self.diagnostics
                                    .error(section.action.place, "this change would make the shaper file invalid")
                                    .help(help);
                                self.diagnostics.include(&source, found);
                                return;
                            }
                            Err((text, None)) => {
                                self.diagnostics.error(section.action.place, text).label("cannot be done");
                                return;
                            }
                        }
                    }
                    _ => {}
                }
            }
        }
    }
}
