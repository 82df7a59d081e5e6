//! [`Observer`]: looks at the engine once a second, in small steps, and keeps what it saw for all who ask.
//!
//! The data path never waits for it. What it does there is to copy: 16 classes or 64 flows at a time, between which
//! packets pass. Waits and borrowing of the last moments are differences of what one second and the next have counted.
//! Flows are looked at only while somebody wants them.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use tidegate_config::shaper::{Config, Root};
use tidegate_control::calls::{
    Buckets, ClassSeen, DataPathSeen, DirectionSeen, DropCount, Explain, Explained, Flow, FlowDrops, FlowSeen, Flows,
    Protocol, Seen, TableSeen, Waiting, Waits,
};
use tidegate_control::protocol::{Code, Refusal};
use tidegate_core::classify::{Fields, Hosts};
use tidegate_core::{Credit, DropReason, Dscp, Qdisc};
use tidegate_engine::{ClassRow, FlowIdentity, FlowRow};
use tidegate_metrics::Delays;
use tidegate_units::{Bytes, Rate, Span};

use crate::daemon::{Daemon, Direction};
use crate::history::{History, Point};

/// How often classes are looked at.
const EVERY: Duration = Duration::from_secs(1);
/// What is younger than this need not be looked at again.
const FRESH: Duration = Duration::from_millis(250);
/// So long flows are looked at after somebody wanted them: longer than collectors of metrics wait between two visits.
const WANTED: Duration = Duration::from_secs(150);
/// After a look that failed, this long none is tried.
const PAUSE: Duration = Duration::from_secs(5);
/// A data path that does not turn for this long is not asked.
const SLOW: Duration = Duration::from_millis(1_500);
/// Classes and flows that are copied at once.
const CLASSES: u32 = 16;
const FLOWS: u32 = 64;

/// What was seen, for whoever shows it, on any thread.
#[derive(Debug, Default)]
pub struct Shared {
    seen: Mutex<Arc<Seen>>,
    history: Mutex<History>,
    wanted: Mutex<Option<Instant>>,
}

impl Shared {
    /// The last look.
    pub fn seen(&self) -> Arc<Seen> {
        Arc::clone(&lock(&self.seen))
    }
    /// The last day.
    pub fn history(&self) -> MutexGuard<'_, History> {
        lock(&self.history)
    }
    /// Has flows looked at for the next seconds.
    pub fn want_flows(&self) {
        *lock(&self.wanted) = Some(Instant::now());
    }
    fn flows_wanted(&self) -> bool {
        lock(&self.wanted).is_some_and(|time| time.elapsed() < WANTED)
    }
}

/// What is behind it is whole after every statement.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// What a class had counted a second ago, and what followed from it.
#[derive(Clone, Debug)]
struct Past {
    time: tidegate_units::Instant,
    waits: Delays,
    borrowed: Bytes,
    quantiles: [Span; 3],
    borrowing: Rate,
    drops: u64,
    marks: u64,
    missed: u64,
}

/// Looks at the engine. See the [module](self).
#[derive(Debug, Default)]
pub struct Observer {
    shared: Arc<Shared>,
    past: HashMap<(String, String), Past>,
    next: Option<Instant>,
    looked: Option<(Instant, bool)>,
    classes: Vec<ClassRow>,
    flows: Vec<FlowRow>,
}

impl Observer {
    /// What it saw.
    pub fn shared(&self) -> &Arc<Shared> {
        &self.shared
    }

    fn is_fresh(&self, with_flows: bool) -> bool {
        self.looked.is_some_and(|(time, flows)| time.elapsed() < FRESH && (flows || !with_flows))
    }
}

/// What is due once a second. Called with every tick.
pub(crate) fn tick(daemon: &mut Daemon) {
    let now = Instant::now();
    let seen = daemon.observer.shared.seen();
    if seen.trouble != daemon.trouble {
        // Known at once, and above all while there is nothing to look at. What was counted stays as it was seen.
        let directions = seen.directions.clone();
        let (in_force, trouble) = (daemon.trouble.is_none(), daemon.trouble.clone());
        let told = Seen { in_force, trouble, ..seen.with_directions(directions) };
        *lock(&daemon.observer.shared.seen) = Arc::new(told);
        daemon.observer.next = None;
    }
    if daemon.observer.next.is_some_and(|next| now < next) {
        return;
    }
    // In step with the seconds of the wall, so that none of them is missed; two looks are never close to each other.
    let into = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |time| time.subsec_nanos());
    let rest = EVERY.saturating_sub(Duration::from_nanos(into.into()));
    let wait = if rest < EVERY / 4 { rest + EVERY } else { rest };
    daemon.observer.next = Some(now + wait + EVERY / 20);
    let flows = daemon.observer.shared.flows_wanted();
    if look(daemon, flows, true).is_err() {
        daemon.observer.next = Some(now + PAUSE);
    }
}

/// Answers `classes`.
pub(crate) fn classes(daemon: &mut Daemon) -> Result<Seen, Refusal> {
    if !daemon.observer.is_fresh(false) {
        look(daemon, false, false)?;
    }
    let seen = daemon.observer.shared.seen();
    Ok(seen.with_directions(seen.directions.iter().map(|direction| direction.with_flows(Vec::new())).collect()))
}

/// Answers `flows`.
pub(crate) fn flows(daemon: &mut Daemon, call: &Flows) -> Result<Seen, Refusal> {
    let limit = call.limit.unwrap_or(100);
    if !(1..=Flows::MOST).contains(&limit) {
        let text = format!("{limit} flows cannot be had at once");
        return Err(Refusal::new(Code::Malformed, text).help(format!("ask for 1 to {}", Flows::MOST)));
    }
    daemon.direction_named(call.direction.as_deref())?;
    daemon.observer.shared.want_flows();
    if !daemon.observer.is_fresh(true) {
        look(daemon, true, false)?;
    }
    let all = daemon.observer.shared.seen();
    let mut directions = Vec::new();
    for direction in &all.directions {
        if call.direction.as_ref().is_some_and(|name| *name != direction.name) {
            continue;
        }
        let wanted = |flow: &&FlowSeen| {
            let class = |name: &String| flow.class == *name || flow.through.as_ref() == Some(name);
            call.class.as_ref().is_none_or(class)
                && call.uid.is_none_or(|uid| flow.flow.uid == Some(uid))
                && call
                    .port
                    .is_none_or(|port| [flow.flow.source_port, flow.flow.destination_port].contains(&Some(port)))
        };
        let mut flows: Vec<&FlowSeen> = direction.flows.iter().filter(wanted).collect();
        call.sort.sort(&mut flows);
        directions.push(direction.with_flows(flows.into_iter().take(limit as usize).cloned().collect()));
    }
    Ok(all.with_directions(directions))
}

/// The packet that `explain` is about.
fn fields_of(call: &Explain) -> Result<Fields, Refusal> {
    use std::net::IpAddr::{V4, V6};
    let invalid = |text: &str, help: &str| Err(Refusal::new(Code::Invalid, text).help(help));
    let hosts = match (call.source, call.destination) {
        (Some(V4(source)), Some(V4(destination))) => Hosts::V4 { source, destination },
        (Some(V6(source)), Some(V6(destination))) => Hosts::V6 { source, destination },
        (None, None) => Hosts::Unknown,
        _ => return invalid("source and destination do not fit", "give both, of one version of IP, or neither"),
    };
    let Some(dscp) = Dscp::new(call.dscp.unwrap_or(0)) else {
        return invalid("that is no code point", "give 0 to 63");
    };
    Ok(Fields {
        hosts,
        dscp,
        protocol: call.protocol.map(|protocol| protocol.0),
        source_port: call.source_port,
        destination_port: call.destination_port,
        mark: call.mark.unwrap_or(0),
        uid: call.uid,
        ..Fields::default()
    })
}

/// Answers `explain`: one look between two packets.
pub(crate) fn explain(daemon: &Daemon, call: &Explain) -> Result<Explained, Refusal> {
    let at = daemon.direction_named(call.direction.as_deref())?;
    let direction = &daemon.directions[at];
    let fields = fields_of(call)?;
    let names: Vec<String> = direction.config.class_names().into_iter().map(String::from).collect();
    let (config, known) = (direction.config.clone(), names.clone());
    let mut told = direction.ask(move |pipeline, now| {
        let judgement = pipeline.classify(&fields);
        let (class, key) = (judgement.class, judgement.flow.flow);
        let mut rows = Vec::new();
        if (class.0 as usize) < pipeline.class_names().len() {
            pipeline.class_rows(now, class.0, 1, &mut rows);
        }
        let lease = pipeline.leases().find(|lease| lease.grant.id == class).map(|lease| lease.name.clone());
        let (tree, seen) = (pipeline.tree(), pipeline.flow_row(key));
        let (shaper, backlog) = (tree.shaper(), tree.backlog());
        let bytes_of = |credit: Credit| i64::try_from(credit.as_raw() / 8_000_000_000).unwrap_or(i64::MAX);
        Explained {
            direction: String::new(),
            rule: judgement.rule.map(|rule| rule + 1),
            class: lease.or_else(|| known.get(class.0 as usize).cloned()).unwrap_or_default(),
            flow: who(key, &FlowIdentity::from(&fields)),
            queue_packets: backlog.packets,
            queue_bytes: backlog.bytes,
            class_queue: rows
                .first()
                .map(|row| Waiting { packets: row.counts.backlog.packets, bytes: row.counts.backlog.bytes }),
            class_rate: tree.class_rate(class),
            buckets: shaper.and_then(|shaper| shaper.levels(now, class)).map(|levels| Buckets {
                class_bytes: bytes_of(levels.class),
                class_depth_bytes: levels.class_depth.as_u64(),
                all_bytes: bytes_of(levels.all),
                all_depth_bytes: levels.all_depth.as_u64(),
            }),
            outlook: shaper.and_then(|shaper| shaper.outlook(key, class)),
            due: (backlog.packets > 0).then(|| tree.deadline(now).instant(now)).flatten().map(|due| due.since(now)),
            seen: seen.map(|row| flow(&row, now, &known, &config)),
        }
    })?;
    told.direction.clone_from(&direction.name);
    Ok(told)
}

/// Looks at every direction. `second`: whether a second is over, from which rates and waits of the last moments follow.
pub(crate) fn look(daemon: &mut Daemon, with_flows: bool, second: bool) -> Result<(), Refusal> {
    let mut observer = std::mem::take(&mut daemon.observer);
    let outcome = observer.look(daemon, with_flows, second);
    daemon.observer = observer;
    outcome
}

impl Observer {
    fn look(&mut self, daemon: &Daemon, with_flows: bool, second: bool) -> Result<(), Refusal> {
        let mut seen = Seen {
            time_ms: SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |time| time.as_millis() as u64),
            interface: daemon.interface().into(),
            uptime: Span::from_nanos(u64::try_from(daemon.started.elapsed().as_nanos()).unwrap_or(u64::MAX)),
            in_force: daemon.trouble.is_none(),
            trouble: daemon.trouble.clone(),
            directions: Vec::new(),
        };
        let mut points = Vec::new();
        for direction in &daemon.directions {
            if direction.silent_for() > SLOW {
                return Err(Refusal::new(Code::Failed, "the data path does not turn at the moment"));
            }
            seen.directions.push(self.look_at(direction, with_flows, second, &mut points)?);
        }
        if second {
            let known: Vec<(String, String)> = seen
                .directions
                .iter()
                .flat_map(|direction| {
                    direction.classes.iter().map(|class| (direction.name.clone(), class.name.clone()))
                })
                .collect();
            self.past.retain(|key, _| known.contains(key));
            let points = points.iter().map(|(direction, class, point)| (direction.as_str(), class.as_str(), *point));
            self.shared.history().push(seen.time_ms / 1_000, points);
        }
        *lock(&self.shared.seen) = Arc::new(seen);
        self.looked = Some((Instant::now(), with_flows));
        Ok(())
    }

    fn look_at(
        &mut self,
        direction: &Direction,
        with_flows: bool,
        second: bool,
        points: &mut Vec<(String, String, Point)>,
    ) -> Result<DirectionSeen, Refusal> {
        let mut classes = Vec::new();
        let mut names = Vec::new();
        let (mut from, mut first) = (Some(0), None);
        while let Some(place) = from {
            let mut page = std::mem::take(&mut self.classes);
            page.reserve(CLASSES as usize);
            let step;
            (page, step) = direction.ask(move |pipeline, now| {
                page.clear();
                let next = pipeline.class_rows(now, place, CLASSES, &mut page);
                let names: Vec<String> =
                    page.iter().map(|row| pipeline.class_names()[row.class.0 as usize].clone()).collect();
                let table = pipeline.flows().map(|flows| {
                    let stats = flows.table();
                    TableSeen {
                        counted: true,
                        flows: flows.len() as u64,
                        created: stats.created,
                        expired: stats.expired,
                        evicted: stats.evicted.iter().sum(),
                        untracked_packets: flows.untracked(),
                    }
                });
                (page, (next, names, now, table.unwrap_or_default(), pipeline.unclassified()))
            })?;
            let (next, page_names, now, table, unclassified) = step;
            for (row, name) in page.iter().zip(page_names) {
                classes.push(self.class(&direction.name, &name, row, now, second, points));
                names.push(name);
            }
            self.classes = page;
            (from, first) = (next, Some((table, unclassified)));
        }
        let (table, unclassified) = first.unwrap_or_default();
        let flows = if with_flows { self.flows(direction, &names)? } else { Vec::new() };
        let counts = direction.counts()?;
        Ok(DirectionSeen {
            name: direction.name.clone(),
            limit: match &direction.config.root {
                Root::Shaper(shaper) => Some(shaper.rate),
                Root::Discipline(_) => None,
            },
            classes,
            flows,
            table,
            data_path: DataPathSeen {
                passed_packets: counts.passed,
                refused_packets: counts.refused,
                cut_packets: counts.cut,
                unreadable_packets: counts.unreadable,
                unclassified_packets: unclassified,
                turns: counts.turns,
                processor: counts.usage.user + counts.usage.system,
                lost_messages: counts.socket.overruns,
            },
        })
    }

    fn class(
        &mut self,
        direction: &str,
        name: &str,
        row: &ClassRow,
        now: tidegate_units::Instant,
        second: bool,
        points: &mut Vec<(String, String, Point)>,
    ) -> ClassSeen {
        let counts = &row.counts;
        let borrowed = row.view.map_or(Bytes::ZERO, |view| view.borrowed.bytes);
        let dropped = counts.accounts.dropped_total().packets;
        let missed = u64::from(counts.promise().missed());
        let key = (direction.to_owned(), name.to_owned());
        let past = self.past.get(&key).cloned();
        let (quantiles, borrowing) = match &past {
            Some(past) if second => {
                let waits = counts.waited.since(&past.waits);
                let bytes = borrowed.as_u64().saturating_sub(past.borrowed.as_u64());
                let nanos = now.since(past.time).as_nanos().max(1);
                let bps = u128::from(bytes) * 8_000_000_000 / u128::from(nanos);
                let quantiles = [0.5, 0.9, 0.99].map(|part| waits.quantile(part));
                (quantiles, Rate::from_bps(u64::try_from(bps).unwrap_or(u64::MAX)))
            }
            Some(past) => (past.quantiles, past.borrowing),
            None => ([0.5, 0.9, 0.99].map(|part| counts.waited.quantile(part)), Rate::ZERO),
        };
        let rate = counts.rate(now);
        if second {
            if let Some(past) = &past {
                points.push((
                    key.0.clone(),
                    key.1.clone(),
                    Point {
                        rate: rate.as_bps() as f32,
                        borrowed: borrowing.as_bps() as f32,
                        queue: counts.backlog.bytes.as_u64() as f32,
                        median: seconds(quantiles[0]) as f32,
                        long: seconds(quantiles[2]) as f32,
                        drops: dropped.saturating_sub(past.drops) as f32,
                        marks: counts.marked.saturating_sub(past.marks) as f32,
                        missed: missed.saturating_sub(past.missed) as f32,
                    },
                ));
            }
            let new = Past {
                time: now,
                waits: counts.waited,
                borrowed,
                quantiles,
                borrowing,
                drops: dropped,
                marks: counts.marked,
                missed,
            };
            self.past.insert(key, new);
        }
        let reasons = DropReason::ALL.iter().map(|reason| {
            let account = counts.accounts.dropped[*reason as usize];
            DropCount { reason: reason.name().into(), packets: account.packets, bytes: account.bytes }
        });
        ClassSeen {
            name: name.into(),
            promised: row.view.map(|view| view.rate),
            unpromised: row.view.map(|view| view.unpromised),
            flows: row.view.map(|view| view.flows),
            rate,
            borrowed: borrowing,
            enqueued_packets: counts.accounts.enqueued.packets,
            enqueued_bytes: counts.accounts.enqueued.bytes,
            sent_packets: counts.through.packets,
            sent_bytes: counts.through.bytes,
            borrowed_bytes: borrowed,
            queue_packets: counts.backlog.packets,
            queue_bytes: counts.backlog.bytes,
            dropped: reasons.filter(|count| count.packets > 0).collect(),
            marked_packets: counts.marked,
            remarked_packets: counts.remarked,
            wait_p50: quantiles[0],
            wait_p90: quantiles[1],
            wait_p99: quantiles[2],
            wait_longest: counts.waited.longest(),
            jitter: counts.jitter(),
            waits: Waits {
                count: counts.waited.count(),
                sum: counts.waited.sum(),
                up_to: counts.waited.cumulative().to_vec(),
            },
            promise_kept_seconds: counts.promise().kept().into(),
            promise_missed_seconds: missed,
        }
    }

    fn flows(&mut self, direction: &Direction, names: &[String]) -> Result<Vec<FlowSeen>, Refusal> {
        let mut flows: HashMap<u64, FlowSeen> = HashMap::new();
        let mut from = Some(0);
        while let Some(place) = from {
            let mut page = std::mem::take(&mut self.flows);
            page.reserve(FLOWS as usize);
            let now;
            (page, from, now) = direction.ask(move |pipeline, now| {
                page.clear();
                let next = pipeline.flow_rows(now, place, FLOWS, &mut page);
                (page, next, now)
            })?;
            // One that went and came back between two steps is the one that was seen last.
            flows.extend(page.iter().map(|row| (row.key, flow(row, now, names, &direction.config))));
            self.flows = page;
        }
        Ok(flows.into_values().collect())
    }
}

fn seconds(span: Span) -> f64 {
    span.as_nanos() as f64 / 1e9
}

/// A flow in the words of the protocol.
fn flow(row: &FlowRow, now: tidegate_units::Instant, names: &[String], config: &Config) -> FlowSeen {
    let record = &row.record;
    let name = |class: tidegate_core::ClassId| names.get(class.0 as usize).cloned().unwrap_or_default();
    let drops = DropReason::ALL.iter().map(|reason| {
        let packets = u64::from(record.dropped[*reason as usize]);
        FlowDrops { reason: reason.name().into(), packets }
    });
    FlowSeen {
        flow: who(row.key, &record.who),
        class: name(record.class),
        through: (record.through != record.class).then(|| name(record.through)),
        rule: record.rule.and_then(|rule| config.rules.get(rule as usize)).map(|rule| rule.label()),
        age: now.since(record.began),
        idle: now.since(record.last),
        rate: record.rate(now),
        share: row.view.map(|view| view.rate),
        minimum: row.view.map(|view| view.minimum).filter(|minimum| !minimum.is_zero()),
        granted: row.view.is_some_and(|view| view.granted),
        preferred: row.view.map_or(0, |view| view.preferred),
        arrived_packets: record.arrived.packets,
        arrived_bytes: record.arrived.bytes,
        sent_packets: record.sent.packets,
        sent_bytes: record.sent.bytes,
        borrowed_bytes: row.view.map_or(Bytes::ZERO, |view| view.counts.borrowed.bytes),
        queue_packets: record.waits.packets,
        queue_bytes: record.waits.bytes,
        wait_p50: record.delays.quantile(0.5).min(record.longest),
        wait_p90: record.delays.quantile(0.9).min(record.longest),
        wait_p99: record.delays.quantile(0.99).min(record.longest),
        wait_longest: record.longest,
        jitter: record.jitter(),
        dropped: drops.filter(|count| count.packets > 0).collect(),
        dropped_bytes: record.dropped_bytes,
        marked_packets: record.marked.into(),
        remarked_packets: record.remarked.into(),
        promise_kept_seconds: record.promise().kept().into(),
        promise_missed_seconds: record.promise().missed().into(),
    }
}

fn who(key: u64, who: &FlowIdentity) -> Flow {
    Flow {
        key: format!("{key:016x}"),
        protocol: who.protocol.map(Protocol),
        source: who.hosts.source(),
        source_port: who.source_port,
        destination: who.hosts.destination(),
        destination_port: who.destination_port,
        uid: who.uid,
    }
}
