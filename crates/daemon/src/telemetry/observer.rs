//! [`Observer`]: reads the state of the engine once a second, in small steps, and keeps it for every reader.
//!
//! The data path never waits for it. It only copies there: 16 classes or 64 flows at a time, between which packets pass.
//! Waits and borrowing of the last moments are differences between the counts of one second and the next. Flows are read
//! only while there is a reader for them.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use tidegate_config::shaper::Root;
use tidegate_control::calls::{
    ClassObservation, DataPathCounters, DirectionObservation, FlowObservation, FlowTableState, Flows,
    InterfaceObservation, InterfaceStatus, LineObservation, Observation,
};
use tidegate_control::protocol::{Code, Refusal};
use tidegate_core::Account;
use tidegate_engine::guard::lock;
use tidegate_engine::{ClassRow, FlowRow, LineUse};
use tidegate_live::shaping::LiveEngine;
use tidegate_metrics::Delays;
use tidegate_units::{Bytes, Rate, Span};

use super::answers::Answers;
use super::ceilings;
use super::history::{History, LINE, Point, encode};
use super::hosts::Hosts;
use super::notes::Notes;
use super::reading::{self, rate_between};
use crate::directions::{ShapedDirection, direction_named, not_in_force};

/// The interval between observations.
const EVERY: Duration = Duration::from_secs(1);
/// The age up to which an observation is reused.
const FRESH: Duration = Duration::from_millis(250);
/// Flows are read for this long after a request for them: longer than the interval of collectors of metrics.
const WANTED: Duration = Duration::from_secs(150);
/// The pause after an observation that failed.
const PAUSE: Duration = Duration::from_secs(5);
/// A data path without progress for this long is not interrupted.
const SLOW: Duration = Duration::from_millis(1_500);
/// Classes and flows that are copied in one step.
const CLASSES: u32 = 16;
const FLOWS: u32 = 64;

/// The last observation and the history, for readers on any thread.
#[derive(Debug, Default)]
pub struct Shared {
    observation: Mutex<Arc<Observation>>,
    history: Mutex<History>,
    notes: Mutex<Notes>,
    wanted: Mutex<Option<Instant>>,
}

impl Shared {
    /// The last observation.
    pub fn observation(&self) -> Arc<Observation> {
        Arc::clone(&lock(&self.observation))
    }
    /// The last day.
    pub fn history(&self) -> MutexGuard<'_, History> {
        lock(&self.history)
    }
    /// The last changes and faults.
    pub fn notes(&self) -> MutexGuard<'_, Notes> {
        lock(&self.notes)
    }
    /// Requests flows in the next observations.
    pub fn want_flows(&self) {
        *lock(&self.wanted) = Some(Instant::now());
    }
    fn flows_wanted(&self) -> bool {
        lock(&self.wanted).is_some_and(|time| time.elapsed() < WANTED)
    }
}

/// A class a second ago.
#[derive(Clone, Debug)]
struct Past {
    time: tidegate_units::Instant,
    waits: Delays,
    class: ClassObservation,
}

/// The state of the shaper as its supervisor knows it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Health<'a> {
    pub interface: &'a str,
    pub started: Instant,
    /// Why shaping is not in force, if it is not.
    pub trouble: Option<&'a str>,
}

fn span(duration: Duration) -> Span {
    Span::from_nanos(u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX))
}

impl Health<'_> {
    /// The time since the start.
    pub fn uptime(&self) -> Span {
        span(self.started.elapsed())
    }
}

/// Reads the state of the engine. See the [module](self).
#[derive(Debug, Default)]
pub struct Observer {
    /// Whether hosts have names by the resolver, whatever the configurations request.
    reverse_lookup: bool,
    shared: Arc<Shared>,
    past: HashMap<(String, String), Past>,
    /// The bytes of each interface that were sent a second ago, when, and the rate in the second before, by direction and
    /// name.
    sent: HashMap<(String, String), (Instant, Bytes, Rate)>,
    /// The use of the line of each direction a second ago, when that was, and the rates in the second before.
    lines: HashMap<String, (Instant, LineUse, LineObservation)>,
    hosts: Hosts,
    answers: Answers,
    next: Option<Instant>,
    observed: Option<(Instant, bool)>,
    classes: Vec<ClassRow>,
    flows: Vec<FlowRow>,
}

impl Observer {
    /// Hosts have names by the resolver of the system if `reverse_lookup`, whatever the configurations request.
    pub(super) fn new(reverse_lookup: bool) -> Self {
        Self { reverse_lookup, ..Self::default() }
    }
    /// The observations, for readers on other threads.
    pub fn shared(&self) -> &Arc<Shared> {
        &self.shared
    }

    fn is_fresh(&self, with_flows: bool) -> bool {
        self.observed.is_some_and(|(time, flows)| time.elapsed() < FRESH && (flows || !with_flows))
    }
}

impl Observer {
    /// Makes the observation of each second when it is due. Called with every tick.
    pub(crate) fn tick(&mut self, directions: &[ShapedDirection], health: &Health<'_>) {
        let now = Instant::now();
        let observation = self.shared.observation();
        if observation.trouble.as_deref() != health.trouble {
            // Known at once, and above all while there is no data path. The counts are those of the last observation.
            let (in_force, trouble) = (health.trouble.is_none(), health.trouble.map(Into::into));
            let changed =
                Observation { in_force, trouble, ..observation.with_directions(observation.directions.clone()) };
            *lock(&self.shared.observation) = Arc::new(changed);
            self.next = None;
        }
        if self.next.is_some_and(|next| now < next) {
            return;
        }
        // In step with the seconds of the wall clock, so that none is missed; two observations are never close.
        let into = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |time| time.subsec_nanos());
        let rest = EVERY.saturating_sub(Duration::from_nanos(into.into()));
        let wait = if rest < EVERY / 4 { rest + EVERY } else { rest };
        self.next = Some(now + wait + EVERY / 20);
        let flows = self.shared.flows_wanted();
        if self.observe(directions, health, flows, true).is_err() {
            self.next = Some(now + PAUSE);
        }
    }

    /// Answers `classes`.
    pub(crate) fn classes(
        &mut self,
        directions: &[ShapedDirection],
        health: &Health<'_>,
    ) -> Result<Observation, Refusal> {
        if !self.is_fresh(false) {
            self.observe(directions, health, false, false)?;
        }
        let observation = self.shared.observation();
        Ok(observation.without_flows())
    }

    /// Answers `flows`.
    pub(crate) fn flows(
        &mut self,
        directions: &[ShapedDirection],
        health: &Health<'_>,
        request: &Flows,
    ) -> Result<Observation, Refusal> {
        let limit = request.limit.unwrap_or(100);
        if !(1..=Flows::MOST).contains(&limit) {
            let text = format!("a call returns at most {} flows, not {limit}", Flows::MOST);
            return Err(Refusal::new(Code::Malformed, text).help(format!("ask for 1 to {}", Flows::MOST)));
        }
        direction_named(directions, request.direction.as_deref())?;
        self.shared.want_flows();
        if !self.is_fresh(true) {
            self.observe(directions, health, true, false)?;
        }
        let all = self.shared.observation();
        let wanted =
            all.directions.iter().filter(|one| request.direction.as_ref().is_none_or(|name| *name == one.name));
        let filtered = wanted.map(|direction| {
            let flows = direction.top_flows(request.sort, limit as usize, |flow| passes(flow, request));
            direction.with_flows(flows.into_iter().cloned().collect())
        });
        Ok(all.with_directions(filtered.collect()))
    }

    /// Reads every direction. With `second` a second is over, from which rates and waits of the last moments follow.
    pub(crate) fn observe(
        &mut self,
        directions: &[ShapedDirection],
        health: &Health<'_>,
        with_flows: bool,
        second: bool,
    ) -> Result<(), Refusal> {
        let mut observation = Observation {
            time_ms: SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |time| time.as_millis() as u64),
            interface: health.interface.into(),
            uptime: health.uptime(),
            in_force: health.trouble.is_none(),
            trouble: health.trouble.map(Into::into),
            directions: Vec::new(),
            hosts: Vec::new(),
        };
        let mut points = Vec::new();
        for direction in directions {
            if direction.silent_for() > SLOW {
                return Err(Refusal::new(Code::Failed, "the data path makes no progress at the moment"));
            }
            let observed = self.observe_direction(direction, with_flows, second, &mut points)?;
            if let Some(follow) = observed.follow.as_ref().filter(|_| second) {
                points.push((observed.name.clone(), LINE.to_owned(), Point::of_line(follow)));
            }
            observation.directions.push(observed);
        }
        if with_flows {
            let requested = directions.iter().any(|direction| direction.config.reverse_lookup);
            let rules = directions.iter().flat_map(ShapedDirection::named_devices).collect();
            let reverse_lookup = self.reverse_lookup || requested;
            observation.hosts = self.hosts.observe(&observation.directions, &rules, reverse_lookup);
            self.answers.give(&mut observation, Instant::now());
        }
        if second {
            let known: Vec<(String, String)> = observation
                .directions
                .iter()
                .flat_map(|direction| {
                    direction.classes.iter().map(|class| (direction.name.clone(), class.name.clone()))
                })
                .collect();
            self.past.retain(|key, _| known.contains(key));
            let points = points.iter().map(|(direction, class, point)| (direction.as_str(), class.as_str(), *point));
            self.shared.history().push(observation.time_ms / 1_000, points);
        }
        *lock(&self.shared.observation) = Arc::new(observation);
        self.observed = Some((Instant::now(), with_flows));
        Ok(())
    }

    fn observe_direction(
        &mut self,
        direction: &ShapedDirection,
        with_flows: bool,
        second: bool,
        points: &mut Vec<(String, String, Point)>,
    ) -> Result<DirectionObservation, Refusal> {
        let mut classes = self.read_classes(direction, second, points)?;
        let read = || {
            |engine: &mut LiveEngine, _| {
                let rules: Vec<Account> = engine.rule_counts().iter().take(Observation::MOST_RULES).copied().collect();
                (reading::table(engine), engine.unclassified(), engine.line(), rules)
            }
        };
        let (mut table, mut unclassified, mut line) = (FlowTableState::default(), 0, LineUse::default());
        let mut matched: Vec<Account> = Vec::new();
        for (of_shard, packets, on_line, rules) in direction.ask_each(read)? {
            matched.resize(matched.len().max(rules.len()), Account::default());
            matched.iter_mut().zip(rules).for_each(|(sum, count)| sum.add(count));
            table.counted |= of_shard.counted;
            table.flows += of_shard.flows;
            table.created += of_shard.created;
            table.expired += of_shard.expired;
            table.evicted += of_shard.evicted;
            table.untracked_packets += of_shard.untracked_packets;
            unclassified += packets;
            line.packets += on_line.packets;
            line.line += on_line.line;
        }
        if !table.counted {
            table.uncounted = Some("the file disables it under [statistics]".into());
        } else if let Err(refused) = direction.has_flows() {
            (table.counted, table.uncounted) = (false, Some(refused.message));
        }
        let names: Vec<String> = classes.iter().map(|class| class.name.clone()).collect();
        let flows = if with_flows { self.read_flows(direction, &names)? } else { Vec::new() };
        ceilings::hold_classes(&mut classes, &flows);
        let counts = direction.counts()?;
        Ok(DirectionObservation {
            name: direction.name.clone(),
            limit: direction.following.as_ref().map(|follow| follow.allowed).or_else(|| direction.config.limit()),
            line: self.line(direction, line, second),
            answer: None,
            classes,
            rules: reading::rules(direction, &matched),
            quotas: direction.quotas(),
            times: direction.times(),
            flows,
            interfaces: self.interfaces(direction, second),
            table,
            data_path: DataPathCounters {
                passed_packets: counts.passed,
                refused_packets: counts.refused,
                cut_packets: counts.cut,
                unreadable_packets: counts.unreadable,
                unclassified_packets: unclassified,
                turns: counts.turns,
                processor: counts.usage.user + counts.usage.system,
                lost_messages: counts.socket.overruns,
                kernel_dropped_packets: counts.kernel_dropped(),
            },
            guardian: direction.guardian(),
            follow: direction.following.clone(),
        })
    }

    /// Reads the classes of a direction, of all shards together.
    fn read_classes(
        &mut self,
        direction: &ShapedDirection,
        second: bool,
        points: &mut Vec<(String, String, Point)>,
    ) -> Result<Vec<ClassObservation>, Refusal> {
        let mut classes = Vec::new();
        let mut from = Some(0);
        while let Some(place) = from {
            let mut page: Vec<ClassRow> = std::mem::take(&mut self.classes);
            page.clear();
            let mut last = None;
            for shard in direction.shards() {
                let (rows, step) = direction.ask_shard(shard, move |engine, now| {
                    let mut rows = Vec::with_capacity(CLASSES as usize);
                    let next = engine.class_rows(now, place, CLASSES, &mut rows);
                    let names: Vec<String> =
                        rows.iter().map(|row| engine.class_names()[row.class.0 as usize].clone()).collect();
                    (rows, (next, names, now))
                })?;
                if shard == 0 {
                    page.extend(rows);
                } else {
                    page.iter_mut().zip(&rows).for_each(|(sum, row)| sum.add(row, step.2));
                }
                last = Some(step);
            }
            let (next, names, now) = last.ok_or_else(not_in_force)?;
            for (row, name) in page.iter().zip(names) {
                let class = self.class(&direction.name, &name, row, now, second, points);
                let config = &direction.config;
                let held_by = reading::held(config, row.class, class.held_by, class.queue.packets);
                let (ceilings, priority) = (reading::ceilings(config, row.class), reading::priority(config, row.class));
                classes.push(ClassObservation { priority, ceilings, held_by, ..class });
            }
            self.classes = page;
            from = next;
        }
        Ok(classes)
    }

    /// The line of a direction; `used` counts what was sent on it so far.
    fn line(&mut self, direction: &ShapedDirection, used: LineUse, second: bool) -> LineObservation {
        let now = Instant::now();
        let past = self.lines.entry(direction.name.clone()).or_insert((now, used, LineObservation::default()));
        if second && now > past.0 {
            let time = span(now.duration_since(past.0));
            let line = rate_between(used.line, past.1.line, time);
            let packets = rate_between(used.packets, past.1.packets, time);
            let overhead = Rate::from_bps(line.as_bps().saturating_sub(packets.as_bps()));
            *past = (now, used, LineObservation { carries: None, used: line, overhead });
        }
        let carries = match &direction.config.root {
            Root::Shaper(_) => None,
            Root::Discipline(discipline) => discipline.wire().1,
        };
        LineObservation { carries, ..past.2 }
    }

    /// The interfaces of a direction with their rates.
    fn interfaces(&mut self, direction: &ShapedDirection, second: bool) -> Vec<InterfaceObservation> {
        let now = Instant::now();
        let observe = |counts: InterfaceStatus| {
            let bytes = counts.sent_bytes;
            let past =
                self.sent.entry((direction.name.clone(), counts.name.clone())).or_insert((now, bytes, Rate::ZERO));
            if second && now > past.0 {
                *past = (now, bytes, rate_between(bytes, past.1, span(now.duration_since(past.0))));
            }
            InterfaceObservation { counts, rate: past.2 }
        };
        reading::interfaces(direction).into_iter().map(observe).collect()
    }

    fn class(
        &mut self,
        direction: &str,
        name: &str,
        row: &ClassRow,
        now: tidegate_units::Instant,
        second: bool,
        points: &mut Vec<(String, String, Point)>,
    ) -> ClassObservation {
        const QUANTILES: [f64; 3] = [0.5, 0.9, 0.99];
        let waited = &row.counts.waited;
        let key = (direction.to_owned(), name.to_owned());
        let past = self.past.get(&key);
        let (quantiles, borrowing) = match past {
            Some(past) if second => {
                let waits = waited.since(&past.waits);
                let borrowed = row.borrowed.map_or(Bytes::ZERO, |account| account.bytes);
                (
                    QUANTILES.map(|part| waits.quantile(part)),
                    rate_between(borrowed, past.class.borrowed_bytes, now.since(past.time)),
                )
            }
            Some(Past { class, .. }) => ([class.wait.p50, class.wait.p90, class.wait.p99], class.borrowed),
            None => (QUANTILES.map(|part| waited.quantile(part)), Rate::ZERO),
        };
        let mut class = reading::class(name, row, now, quantiles, borrowing);
        if let (Some(new), Some(old)) = (&mut class.coupled, past.and_then(|past| past.class.coupled.as_ref())) {
            *new = std::mem::take(new).since(old);
        }
        if second {
            if let Some(past) = past {
                let waits = encode(waited.since(&past.waits).cumulative());
                points.push((key.0.clone(), key.1.clone(), Point::between(&past.class, &class, waits)));
            }
            self.past.insert(key, Past { time: now, waits: *waited, class: class.clone() });
        }
        class
    }

    fn read_flows(&mut self, direction: &ShapedDirection, names: &[String]) -> Result<Vec<FlowObservation>, Refusal> {
        let mut flows: HashMap<u64, (Option<u32>, FlowObservation)> = HashMap::new();
        for shard in direction.shards() {
            let mut from = Some(0);
            while let Some(place) = from {
                let mut page = std::mem::take(&mut self.flows);
                page.reserve(FLOWS as usize);
                let now;
                (page, from, now) = direction.ask_shard(shard, move |engine, now| {
                    page.clear();
                    let next = engine.flow_rows(now, place, FLOWS, &mut page);
                    (page, next, now)
                })?;
                // A flow that ended and began again between two steps is there twice: the last one is kept.
                let of = |row: &FlowRow| (row.record.rule, reading::flow(row, now, names, &direction.config));
                flows.extend(page.iter().map(|row| (row.key, of(row))));
                self.flows = page;
            }
        }
        let mut flows: Vec<_> = flows.into_values().collect();
        ceilings::hold_flows(&direction.config, &mut flows);
        Ok(flows.into_iter().map(|(_, flow)| flow).collect())
    }
}

/// Whether a flow passes the filters of `request`.
fn passes(flow: &FlowObservation, request: &Flows) -> bool {
    let class = |name: &String| flow.class == *name || flow.through.as_ref() == Some(name);
    let port = |port| [flow.flow.source_port, flow.flow.destination_port].contains(&Some(port));
    request.class.as_ref().is_none_or(class)
        && request.uid.is_none_or(|uid| flow.flow.uid == Some(uid))
        && request.port.is_none_or(port)
}
