//! [`Control`]: executes the actions of a run at their times, as the control socket does on a live shaper.
//!
//! *Law*: an action happens after all other events of the simulation at its time. Actions with the same time happen in
//! the order of the file.

use std::collections::BTreeMap;
use std::sync::Arc;

use serde_json::{Value, json};
use tidegate_config::edit::Document;
use tidegate_config::shaper::{self, Config, Root};
use tidegate_config::{Diagnostics, Source, edit};
use tidegate_core::classify::Match;
use tidegate_core::fbq::{Displace, Terms};
use tidegate_core::reservation::{Request, Service, TSpec};
use tidegate_core::{Bytes, ClassId, Instant, Rate, Span};
use tidegate_engine::target::samples;
use tidegate_engine::{PromiseError, PromiseTable, SwapKind};

use super::actions::{PromiseSection, ReserveSection};
use super::model::{Action, ActionKind, FlowSelector, Scenario, Variant};
use super::outcome::Report;
use super::report;
use super::targets::{matches_of, packets_of};
use crate::conditions::LineChange;
use crate::engine::Simulation;
use crate::ids::{FlowId, LinkId};
use crate::shaper::{Notification, ShaperQueue};

/// The number of entries of the flow table that one review covers.
const REVIEWED: u32 = 512;

/// A promise in force.
struct Promise {
    number: u64,
    name: String,
    class: String,
    matches: Vec<Match>,
    minimum: Rate,
    steps: u32,
    displace: Option<(Rate, String)>,
    flows: u32,
}

/// A reservation in force, and how often it is refreshed.
struct Reservation {
    name: String,
    class: ClassId,
    every: Span,
}

/// The state of control over the shaper of a link.
#[derive(Default)]
struct ShaperControl {
    promises: Vec<Promise>,
    watches: Vec<(Span, Vec<Match>)>,
    reservations: Vec<Reservation>,
    /// The kinds of events that are reported; an empty list reports all.
    events: Option<Vec<String>>,
    /// The time of the last snapshot, and the bytes that each class had sent by then.
    last: (Instant, BTreeMap<String, u64>),
}

enum Step {
    Action(usize),
    EndPromise(usize, u64),
    Refresh(usize, ClassId),
    EndReservation(usize, ClassId),
}

/// See the [module](self).
pub(super) struct Control {
    steps: BTreeMap<(Instant, u64), Step>,
    sequence: u64,
    shapers: BTreeMap<usize, ShaperControl>,
    number: u64,
    reports: Vec<Report>,
    /// The names of the reservations for which each class of a link was created, including past ones.
    reserved: BTreeMap<(usize, usize), Vec<String>>,
}

type Done = Result<Value, String>;

fn link(wire: usize) -> LinkId {
    LinkId(wire as u32)
}

impl Control {
    /// Creates the control of a run that begins.
    pub fn new(scenario: &Scenario, variant: Option<&Variant>) -> Self {
        let shaped = |wire: &usize| {
            let queue = scenario.queue_of(*wire, variant);
            queue.is_some_and(|queue| queue.shaper().is_some())
        };
        let shapers = (0..scenario.wires.len()).filter(shaped).map(|wire| (wire, ShaperControl::default())).collect();
        let (steps, reserved) = (BTreeMap::new(), BTreeMap::new());
        let mut control = Self { steps, sequence: 0, shapers, number: 0, reports: Vec::new(), reserved };
        for (index, action) in scenario.actions.iter().enumerate() {
            control.schedule(action.time, Step::Action(index));
        }
        control
    }

    /// The name of a class that was created for reservations: the names of these reservations in order.
    pub fn reserved_name(&self, wire: usize, class: usize) -> Option<String> {
        self.reserved.get(&(wire, class)).map(|names| format!("reservation {}", names.join(", ")))
    }

    fn schedule(&mut self, time: Instant, step: Step) {
        self.sequence += 1;
        self.steps.insert((time, self.sequence), step);
    }

    /// Runs the simulation until `end` with all due actions, or until `events` events have been handled between two
    /// actions. Returns whether it reached `end`.
    pub fn run_some(&mut self, scenario: &Scenario, sim: &mut Simulation, end: Instant, events: u64) -> bool {
        while let Some((&(time, number), _)) = self.steps.first_key_value()
            && time <= end
        {
            let reached = sim.run_some(time, events);
            self.take_notifications(scenario, sim);
            if !reached {
                return false;
            }
            if let Some(step) = self.steps.remove(&(time, number)) {
                self.step(scenario, sim, time, &step);
            }
        }
        let reached = sim.run_some(end, events);
        self.take_notifications(scenario, sim);
        reached
    }

    /// Takes a final snapshot of each shaper, and returns all reports in the order of time.
    pub fn finish(&mut self, scenario: &Scenario, sim: &mut Simulation) -> Vec<Report> {
        let now = sim.now();
        for wire in self.shapers.keys().copied().collect::<Vec<_>>() {
            let result = self.status(scenario, sim, wire, 20);
            self.report(scenario, now, wire, "status", result);
        }
        self.reports.sort_by_key(|report| report.time);
        std::mem::take(&mut self.reports)
    }

    fn report(&mut self, scenario: &Scenario, time: Instant, wire: usize, kind: &'static str, done: Done) {
        let (refused, result) = match done {
            Ok(result) => (false, result),
            Err(text) => (true, json!({ "refused": text })),
        };
        let link = scenario.wire_name(wire);
        self.reports.push(Report { time, variant: String::new(), link, kind, refused, result });
    }

    fn take_notifications(&mut self, scenario: &Scenario, sim: &mut Simulation) {
        if scenario.actions.is_empty() && self.reports.is_empty() {
            return;
        }
        for (&wire, shaper) in &self.shapers {
            let Some(queue) = sim.shaper_mut(link(wire)) else { continue };
            for notification in queue.take_notifications() {
                if shaper.wants(&notification) {
                    let result = report::notification(scenario, queue, &notification);
                    let (time, link) = (notification.time, scenario.wire_name(wire));
                    let (variant, kind) = (String::new(), "event");
                    self.reports.push(Report { time, variant, link, kind, refused: false, result });
                }
            }
        }
    }

    /// Executes `action` now, whatever its time, and returns its report.
    pub fn act_now(&mut self, scenario: &Scenario, sim: &mut Simulation, action: &Action) -> Report {
        let now = sim.now();
        let done = match &action.kind {
            ActionKind::Line(change) => {
                let change = LineChange { at: now, ..change.clone() };
                let changed = sim.change_line(link(action.wire), &change).map_err(str::to_owned);
                changed.and_then(|()| self.act(scenario, sim, now, action.wire, &action.kind))
            }
            _ => self.act(scenario, sim, now, action.wire, &action.kind),
        };
        self.take_notifications(scenario, sim);
        self.report(scenario, now, action.wire, action.kind.word(), done);
        self.reports.last().cloned().expect("reported just now")
    }

    fn step(&mut self, scenario: &Scenario, sim: &mut Simulation, now: Instant, step: &Step) {
        match *step {
            Step::Action(index) => {
                let action = &scenario.actions[index];
                let (wire, kind) = (action.wire, action.kind.word());
                // A variant may have a discipline instead of a shaper.
                let anywhere = matches!(action.kind, ActionKind::Line(_) | ActionKind::Workload { .. });
                if anywhere || self.shapers.contains_key(&wire) {
                    let done = self.act(scenario, sim, now, wire, &action.kind);
                    self.report(scenario, now, wire, kind, done);
                }
            }
            Step::EndPromise(wire, number) => {
                let done = self.end_promise(sim, wire, |promise| promise.number == number);
                if let Some(name) = done {
                    self.report(scenario, now, wire, "release", Ok(json!({ "name": name, "why": "its time is over" })));
                }
            }
            Step::Refresh(wire, class) => {
                let Some(every) = self.reservation(wire, class).map(|reservation| reservation.every) else { return };
                if sim.steer(link(wire), |engine, now, _| engine.refresh(now, class).is_ok()) == Some(true) {
                    self.schedule(now + every, Step::Refresh(wire, class));
                }
            }
            Step::EndReservation(wire, class) => {
                let Some(name) = self.reservation(wire, class).map(|reservation| reservation.name.clone()) else {
                    return;
                };
                let done = self.unreserve(sim, wire, &name);
                self.report(scenario, now, wire, "unreserve", done);
            }
        }
    }

    fn reservation(&self, wire: usize, class: ClassId) -> Option<&Reservation> {
        self.shapers.get(&wire)?.reservations.iter().find(|reservation| reservation.class == class)
    }

    fn shaper(&mut self, wire: usize) -> &mut ShaperControl {
        self.shapers.entry(wire).or_default()
    }

    fn act(&mut self, scenario: &Scenario, sim: &mut Simulation, now: Instant, wire: usize, kind: &ActionKind) -> Done {
        match kind {
            ActionKind::Line(change) => Ok(json!({
                "rate_bps": change.rate.map(Rate::as_bps),
                "delay_ns": change.delay.map(Span::as_nanos),
                "loss_changes": change.loss.is_some(),
            })),
            ActionKind::Workload { flows, workload } => {
                for number in flows.clone() {
                    sim.set_workload(FlowId(number as u32), Arc::clone(workload))?;
                }
                let names: Vec<String> = flows.clone().map(|number| scenario.flow_name(number)).collect();
                Ok(json!({ "flows": names }))
            }
            ActionKind::Promise(flows, section) => self.promise(sim, now, wire, flows, section),
            ActionKind::Release(name) => match self.end_promise(sim, wire, |promise| promise.name == *name) {
                Some(name) => Ok(json!({ "name": name })),
                None => Err(format!("no promise is called `{name}`")),
            },
            ActionKind::Reserve(flows, section) => self.reserve(sim, now, wire, flows, section),
            ActionKind::Unreserve(name) => self.unreserve(sim, wire, name),
            ActionKind::Edit(edits) => {
                let text = queue(sim, wire)?.engine().config().text.clone();
                let (config, ..) = edited(&text, edits, "what runs, changed").map_err(|(text, _)| text)?;
                self.reconfigure(sim, wire, &config)
            }
            ActionKind::Apply(config) => self.reconfigure(sim, wire, config),
            ActionKind::Status { flows } => self.status(scenario, sim, wire, *flows),
            ActionKind::Feedback { flows, delay } => {
                let matches = matches_of(queue(sim, wire)?, flows)?;
                self.shaper(wire).watches.push((*delay, matches));
                self.update_table(sim, wire)?;
                Ok(json!({}))
            }
            ActionKind::Events { kinds } => {
                self.shaper(wire).events = Some(kinds.clone());
                queue(sim, wire)?.notify();
                Ok(json!({}))
            }
        }
    }

    fn promise(
        &mut self,
        sim: &mut Simulation,
        now: Instant,
        wire: usize,
        flows: &FlowSelector,
        section: &PromiseSection,
    ) -> Done {
        let queue = queue(sim, wire)?;
        let config = queue.engine().config().clone();
        if let Root::Discipline(discipline) = &config.root
            && queue.engine().tree().shaper().is_none()
        {
            return Err(format!("the discipline `{}` knows no promises to flows", discipline.kind()));
        }
        let name = section.name.value.clone();
        if self.shaper(wire).promises.iter().any(|promise| promise.name == name) {
            return Err(format!("a promise is called `{name}` already"));
        }
        let queue = self::queue(sim, wire)?;
        let matches = matches_of(queue, flows)?;
        let class = match &section.class {
            Some(class) => class_named(&config, &class.value)?,
            None => {
                let classified = samples(&matches).into_iter().map(|fields| queue.engine().classify(&fields));
                let mut matched = classified.filter(|classified| classified.rule.is_some());
                matched.next().map_or(config.default_class, |classified| classified.class)
            }
        };
        let class_name = config.class_names()[class.0 as usize].to_owned();
        let minimum = section.minimum.unwrap_or(Rate::ZERO);
        let displace = section.displace.as_ref().map(|displace| (displace.below.value, displace.to.value.clone()));
        let promise = Promise {
            number: self.number + 1,
            name: name.clone(),
            class: class_name.clone(),
            matches,
            minimum,
            steps: section.prefer.value,
            displace,
            flows: section.flows.value,
        };
        let (number, terms) = (promise.number, promise.terms(&config)?);
        if terms.displace.is_some_and(|displace| displace.to == class.0) {
            return Err("flows cannot be displaced to the class they are in".into());
        }
        let (flows, wait) = (promise.flows, section.wait);
        let made =
            sim.steer(link(wire), |engine, now, _| engine.promises(now).promise(number, terms, class, flows, wait));
        match made {
            Some(Ok(_)) => {}
            Some(Err(PromiseError::NoRoom(free))) => {
                let each = if flows == 1 { String::new() } else { format!(" for each of {flows} flows") };
                return Err(format!("class `{class_name}` has {free} left to promise, not {minimum}{each}"));
            }
            Some(Err(PromiseError::NoShaper)) | None => return Err("this discipline has no promises to flows".into()),
        }
        self.number = number;
        self.shaper(wire).promises.push(promise);
        if let Err(text) = self.update_table(sim, wire) {
            self.shaper(wire).promises.pop();
            sim.steer(link(wire), |engine, now, _| engine.promises(now).end(number));
            return Err(text);
        }
        if let Some(lasts) = section.lasts {
            self.schedule(now + lasts, Step::EndPromise(wire, number));
        }
        self.promise_state(sim, wire, &name)
    }

    /// Reports the state of a promise.
    fn promise_state(&mut self, sim: &mut Simulation, wire: usize, name: &str) -> Done {
        let all = self.promise_states(sim, wire);
        let found = all.into_iter().find(|state| state["name"] == name);
        found.ok_or_else(|| format!("no promise is called `{name}`"))
    }

    fn promise_states(&mut self, sim: &mut Simulation, wire: usize) -> Vec<Value> {
        let Some(shaper) = self.shapers.get(&wire) else { return Vec::new() };
        let state = |promise: &Promise| {
            let number = promise.number;
            let view = sim.steer(link(wire), |engine, now, _| {
                let view = engine.promises(now).view(number).unwrap_or_default();
                let class = class_named(engine.config(), &promise.class).ok();
                let class = class.and_then(|class| engine.tree().shaper()?.class(class));
                (view, class.map_or(Rate::ZERO, |class| class.unpromised))
            });
            let (view, free) = view.unwrap_or_default();
            json!({
                "name": promise.name,
                "class": promise.class,
                "minimum_bps": promise.minimum.as_bps(),
                "prefer": promise.steps,
                "flows": view.flows,
                "waiting": view.waiting,
                "granted_bps": view.rate.as_bps(),
                "held": view.held,
                "free_bps": free.as_bps(),
            })
        };
        shaper.promises.iter().map(state).collect()
    }

    /// Ends the first promise that satisfies `which`, and returns its name.
    fn end_promise(&mut self, sim: &mut Simulation, wire: usize, which: impl Fn(&Promise) -> bool) -> Option<String> {
        let shaper = self.shaper(wire);
        let place = shaper.promises.iter().position(which)?;
        let promise = shaper.promises.remove(place);
        sim.steer(link(wire), |engine, now, _| engine.promises(now).end(promise.number));
        // The table only becomes smaller, so this cannot fail.
        let _ = self.update_table(sim, wire);
        Some(promise.name)
    }

    /// Passes the matches of all promises and watches to the engine, and lets it review the present flows.
    fn update_table(&mut self, sim: &mut Simulation, wire: usize) -> Result<(), String> {
        let shaper = self.shaper(wire);
        let promises = shaper.promises.iter().map(|promise| (promise.number, promise.matches.as_slice()));
        let watches = shaper.watches.iter().map(|(delay, matches)| (*delay, matches.as_slice()));
        let table = PromiseTable::new(promises, watches).map_err(|error| error.to_string())?;
        queue(sim, wire)?.notify();
        sim.steer(link(wire), |engine, now, _| {
            let mut promises = engine.promises(now);
            drop(promises.set_table(table));
            let mut from = Some(0);
            while let Some(place) = from {
                from = promises.review(place, REVIEWED);
            }
        });
        Ok(())
    }

    fn reserve(
        &mut self,
        sim: &mut Simulation,
        now: Instant,
        wire: usize,
        flows: &FlowSelector,
        section: &ReserveSection,
    ) -> Done {
        let queue = queue(sim, wire)?;
        let config = queue.engine().config();
        let line = match &config.root {
            Root::Discipline(discipline) => discipline.line(),
            Root::Shaper(_) => None,
        };
        let packets = packets_of(queue, flows)?;
        let max_packet = section.max_packet.unwrap_or(config.interface.mtu);
        let tspec = TSpec {
            rate: section.rate,
            bucket: section.bucket.unwrap_or(max_packet.saturating_mul(2)),
            peak: section.peak.unwrap_or(line.unwrap_or(Rate::ZERO).max(section.rate)),
            min_unit: section.min_unit.unwrap_or(Bytes::new(64).min(max_packet)),
            max_packet,
        };
        let service = match (section.guaranteed, section.delay) {
            (false, None) => Service::ControlledLoad,
            (_, delay) => Service::Guaranteed { rate: None, delay },
        };
        let (name, request) = (section.name.value.clone(), Request { tspec, service });
        let made = sim.steer(link(wire), |engine, now, sink| {
            let lease = engine.reserve(now, &name, &request, packets, sink)?;
            Ok::<_, tidegate_engine::ReserveError>((lease, engine.unreserved()))
        });
        let (lease, free) = made.ok_or("there is no shaper")?.map_err(|refused| refused.to_string())?;
        let (class, every) = (lease.grant.id, Span::from_nanos(lease.grant.expires.since(now).as_nanos() / 3));
        let names = self.reserved.entry((wire, class.0 as usize)).or_default();
        if !names.contains(&name) {
            names.push(name.clone());
        }
        self.shaper(wire).reservations.push(Reservation { name, class, every });
        self.schedule(now + every, Step::Refresh(wire, class));
        if let Some(lasts) = section.lasts {
            self.schedule(now + lasts, Step::EndReservation(wire, class));
        }
        Ok(report::reservation(&lease, free))
    }

    fn unreserve(&mut self, sim: &mut Simulation, wire: usize, name: &str) -> Done {
        let reservations = &mut self.shaper(wire).reservations;
        let place = reservations.iter().position(|reservation| reservation.name == name);
        let place = place.ok_or_else(|| format!("no reservation is called `{name}`"))?;
        let reservation = reservations.remove(place);
        let ended = sim.steer(link(wire), |engine, now, sink| engine.release(now, reservation.class, sink));
        ended.ok_or("there is no shaper")?.map_err(|refused| refused.to_string())?;
        Ok(json!({ "name": name }))
    }

    fn reconfigure(&mut self, sim: &mut Simulation, wire: usize, config: &Config) -> Done {
        let before = queue(sim, wire)?.engine().config().clone();
        let swapped = sim.reconfigure(link(wire), config).ok_or("there is no shaper")?;
        let swapped = swapped.map_err(|failure| failure.to_string())?;
        if swapped.how == SwapKind::Replaced {
            self.reinstate(sim, wire, config);
        }
        let differences: Vec<String> = edit::differences(&before, config).iter().map(ToString::to_string).collect();
        Ok(json!({
            "differences": differences,
            "in_place": swapped.how == SwapKind::InPlace,
            "rehomed": swapped.rehomed,
        }))
    }

    /// Renews all promises in a new engine. A promise whose class no longer exists ends; one that no longer fits waits.
    fn reinstate(&mut self, sim: &mut Simulation, wire: usize, config: &Config) {
        sim.steer(link(wire), |engine, now, _| engine.promises(now).clear());
        let shaper = self.shaper(wire);
        shaper.promises.retain(|promise| {
            let (Ok(class), Ok(terms)) = (class_named(config, &promise.class), promise.terms(config)) else {
                return false;
            };
            let (number, flows) = (promise.number, promise.flows);
            let made = sim.steer(link(wire), |engine, now, _| {
                engine.promises(now).promise(number, terms, class, flows, true).is_ok()
            });
            made == Some(true)
        });
        // The table does not become larger, so this cannot fail.
        let _ = self.update_table(sim, wire);
    }

    fn status(&mut self, scenario: &Scenario, sim: &mut Simulation, wire: usize, flows: u32) -> Done {
        let promises = self.promise_states(sim, wire);
        let now = sim.now();
        let queue = queue(sim, wire)?;
        let shaper = self.shapers.entry(wire).or_default();
        Ok(report::status(scenario, queue, now, flows, promises, &mut shaper.last))
    }
}

impl ShaperControl {
    /// Whether a notification is reported.
    fn wants(&self, notification: &Notification) -> bool {
        if let Some(kinds) = &self.events
            && (kinds.is_empty() || kinds.iter().any(|kind| kind == report::event_kind(notification.kind)))
        {
            return true;
        }
        let fields = notification.fields.as_ref();
        let watched = |(_, matches): &(Span, Vec<Match>)| {
            fields.is_some_and(|fields| matches.iter().any(|matching| matching.matches(fields)))
        };
        notification.promise.is_some() || self.watches.iter().any(watched)
    }
}

impl Promise {
    fn terms(&self, config: &Config) -> Result<Terms, String> {
        let displace = match &self.displace {
            None => None,
            Some((below, _)) if *below <= self.minimum => {
                return Err(format!("the threshold {below} is not above the minimum {}", self.minimum));
            }
            Some((below, to)) => Some(Displace { below: *below, to: class_named(config, to)?.0 }),
        };
        Ok(Terms { minimum: self.minimum, steps: self.steps, displace })
    }
}

fn queue(sim: &mut Simulation, wire: usize) -> Result<&mut ShaperQueue, String> {
    sim.shaper_mut(link(wire)).ok_or_else(|| "there is no shaper".into())
}

fn class_named(config: &Config, name: &str) -> Result<ClassId, String> {
    let names = config.class_names();
    match names.iter().position(|other| *other == name) {
        Some(at) => Ok(ClassId(at as u32)),
        None => Err(format!("there is no class `{name}`; there are {}", names.join(", "))),
    }
}

/// A changed file with its warnings; or the error, with its place if the text can be shown.
pub(super) type Edited = Result<(Config, Source, Diagnostics), (String, Option<(Source, Diagnostics)>)>;

/// Applies `edits` to the shaper file `text`.
///
/// # Errors
/// The error, with its place if the resulting text can be shown.
pub(super) fn edited(text: &str, edits: &[edit::Edit], name: &str) -> Edited {
    let edited = Document::parse(text).and_then(|document| document.edited(edits));
    let edited = edited.map_err(|text| (text, None))?;
    let source = Source::new(name, edited.text());
    let mut found = Diagnostics::new();
    match shaper::load(&source, &mut found) {
        Some(config) => Ok((config, source, found)),
        None => Err((found.render(&source), Some((source, found)))),
    }
}
