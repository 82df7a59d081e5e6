//! Explains the fate of a packet: the rules that were compared with it, its class, the queues at its arrival, and how it left.
//!
//! *Law*: the rules are as the classifier decided ([`Engine::classify`](tidegate_engine::Engine)); queues and buckets are the
//! state of the same run at the instant before the packet arrived.
//! *Units*: ns from the beginning of the source; bytes on the link.
//! *Notes*: buckets are shown only for the end-system shaper, whose classes and flows can be inspected. For other disciplines
//! there are the backlog, the packets that left in between, and the next deadline.

mod addresses;
mod json;
mod times;

use std::fmt;
use std::io::Read;
use std::net::IpAddr;

use tidegate_capture::dissect::protocol;
use tidegate_config::shaper::{Config, Match};
use tidegate_config::values::{Protocol, User, dscp_name, icmp_type_name, tcp_flag_names};
use tidegate_core::Qdisc;
use tidegate_core::classify::{Fields, Signal, Traits};
use tidegate_core::fbq::{ClassView, FlowView, HeldBy, Levels};
use tidegate_engine::interface_number;
use tidegate_engine::{Disposition, Names, PacketMeta};
use tidegate_units::{Bytes, Instant, Span};

use crate::exact::{self, Replayer};
use crate::meter::{Departure, Keep};
use crate::recording::{PacketOutcome, Reader, Record, RecordingError};
use crate::run::{Run, Settings};
use crate::source::{Source, SourceError};

use addresses::{ByAddresses, by_changing_addresses};
pub use json::level_bytes;

/// A condition of a rule, compared with a packet.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Condition {
    /// The key of the rule.
    pub key: &'static str,
    /// The values that match.
    pub wanted: String,
    /// The value of the packet.
    pub has: String,
    /// Whether the condition holds.
    pub holds: bool,
}

/// A rule, compared with a packet.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct RuleExplanation {
    /// Its number in the file, from 1.
    pub number: usize,
    /// The name of the class that it selects.
    pub class: String,
    /// Its conditions; empty for a rule that matches every packet.
    pub conditions: Vec<Condition>,
}

impl RuleExplanation {
    /// Whether all conditions hold.
    pub fn matches(&self) -> bool {
        self.conditions.iter().all(|condition| condition.holds)
    }
}

/// The classification of a packet, and the rules that led to it.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Belongs {
    /// The fields that were classified.
    pub fields: Fields,
    /// The rules up to the one that matched, in their order.
    pub rules: Vec<RuleExplanation>,
    /// The name of the class.
    pub class: String,
    /// Whether it is the default class because no rule matched.
    pub by_default: bool,
    /// The key of its flow.
    pub flow: u64,
}

/// The queues and buckets of the engine when a packet arrives.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct QueueState {
    /// Packets queued in all.
    pub packets: u64,
    /// Bytes queued in all.
    pub bytes: Bytes,
    /// The state of the class, if the discipline reports it.
    pub class: Option<ClassView>,
    /// The levels of the token buckets that the packet must pass.
    pub levels: Option<Levels>,
    /// The state of the flow, if it has begun.
    pub flow: Option<FlowView>,
}

/// The fate of the packet.
#[derive(Clone, Debug)]
pub enum End {
    /// It was sent or dropped.
    Left {
        /// The departure.
        departure: Box<Departure>,
        /// Packets of its flow, of other flows of its class, and of other classes that left after its arrival and before it.
        behind: [u64; 3],
    },
    /// It was cut into this many segments; the departure is that of the last one.
    Cut(u64, Option<Box<Departure>>),
    /// It was returned to the kernel for segmentation; its segments arrive as packets of their own.
    WentBack,
    /// The source ends before its departure.
    Unknown,
}

/// The whole explanation of a packet.
#[derive(Clone, Debug)]
pub struct Explanation {
    /// The number of the packet, from 1.
    pub packet: u64,
    /// The time of its arrival, from the beginning.
    pub time: Span,
    /// The metadata of the packet.
    pub meta: PacketMeta,
    /// Its rule, class and flow.
    pub belongs: Belongs,
    /// The queues and buckets at its arrival.
    pub state: QueueState,
    /// The next deadline right after its arrival.
    pub due: Option<Span>,
    /// The ceiling that the next packet of its flow waited for right after its arrival.
    pub held_by: Option<HeldBy>,
    /// How it left the engine.
    pub end: End,
    /// The names of the classes.
    pub classes: Vec<String>,
    /// The time zero of `time` and `due`.
    pub start: Instant,
}

/// Why there is no explanation.
#[derive(Debug)]
pub enum NotExplained {
    /// There is no such packet, only this many.
    NoPacket(u64),
    /// Only this many packets can be explained: the recording cannot be repeated further, for this reason.
    Beyond(u64, String),
    /// The record is not about a packet, but what the text says.
    NoEvent(String),
    /// There is no such record, only this many.
    NoRecord(u64),
    /// The engine cannot be built.
    Build(String),
    /// The capture cannot be read up to there.
    Source(SourceError),
    /// The recording cannot be read up to there.
    Recording(RecordingError),
}

impl fmt::Display for NotExplained {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NoPacket(0) => f.write_str("there are no packets"),
            Self::NoPacket(packets) => write!(f, "there is no such packet; they are numbered 1 to {packets}"),
            Self::Beyond(0, why) => write!(f, "none of its packets can be explained: {why}"),
            Self::Beyond(packets, why) => write!(f, "only packets 1 to {packets} can be explained: {why}"),
            Self::NoEvent(what) => f.write_str(what),
            Self::NoRecord(0) => f.write_str("there are no records"),
            Self::NoRecord(records) => write!(f, "there is no such record; they are numbered 0 to {}", records - 1),
            Self::Build(why) => f.write_str(why),
            Self::Source(error) => error.fmt(f),
            Self::Recording(error) => error.fmt(f),
        }
    }
}

impl std::error::Error for NotExplained {}

/// Compares a packet with the conditions of a rule, key by key. For a rule that matches answers, too, the packet is taken as an
/// answer if that is how it matches.
pub fn conditions(matches: &Match, fields: &Fields, names: &Names) -> Vec<Condition> {
    let as_written = conditions_as_written(matches, fields, names);
    if !matches.both_ways {
        return as_written;
    }
    let holds = |conditions: &[Condition]| conditions.iter().all(|condition| condition.holds);
    let both_ways = |has: &str, holds| Condition { key: "both-ways", wanted: "true".into(), has: has.into(), holds };
    let exchanged = conditions_as_written(matches, &fields.exchanged(), names);
    let (mut explained, last) = if holds(&as_written) {
        (as_written, both_ways("as written", true))
    } else if holds(&exchanged) {
        (exchanged, both_ways("source and destination exchanged", true))
    } else {
        (as_written, both_ways("neither way", false))
    };
    explained.push(last);
    explained
}

fn conditions_as_written(matches: &Match, fields: &Fields, names: &Names) -> Vec<Condition> {
    let mut explained = Vec::new();
    let mut add = |key, wanted: Vec<String>, has: Option<String>, holds: bool| {
        if !wanted.is_empty() {
            explained.push(Condition {
                key,
                wanted: wanted.join(", "),
                has: has.unwrap_or_else(|| "unknown".into()),
                holds,
            });
        }
    };
    let texts = |list: &[_]| list.iter().map(ToString::to_string).collect::<Vec<String>>();
    let known = fields.hosts.version().is_some();
    add(
        "dscp",
        matches.dscps.iter().copied().map(dscp_name).collect(),
        known.then(|| dscp_name(fields.dscp)),
        known && matches.dscps.contains(&fields.dscp),
    );
    let is = |wanted: &Protocol| fields.protocol == Some(wanted.0);
    add(
        "protocol",
        matches.protocols.iter().map(ToString::to_string).collect(),
        fields.protocol.map(|number| Protocol(number).to_string()),
        matches.protocols.iter().any(is),
    );
    for (key, wanted, has) in [
        ("source", &matches.sources, fields.hosts.source()),
        ("destination", &matches.destinations, fields.hosts.destination()),
    ] {
        let holds = has.is_some_and(|address| wanted.iter().any(|prefix| prefix.contains(address)));
        add(key, texts(wanted), has.map(|address| address.to_string()), holds);
    }
    for (key, wanted, has) in [
        ("source-port", &matches.source_ports, fields.source_port),
        ("destination-port", &matches.destination_ports, fields.destination_port),
    ] {
        let holds = has.is_some_and(|port| wanted.iter().any(|ports| (ports.first..=ports.last).contains(&port)));
        add(key, wanted.iter().map(ToString::to_string).collect(), has.map(|port| port.to_string()), holds);
    }
    let either = |one: Option<String>, other: Option<String>| match (one, other) {
        (Some(one), Some(other)) => Some(format!("{one} and {other}")),
        (one, other) => one.or(other),
    };
    let text = |address: Option<IpAddr>| address.map(|address| address.to_string());
    let ends = [fields.hosts.source(), fields.hosts.destination()];
    let holds = ends.iter().flatten().any(|end| matches.hosts.iter().any(|prefix| prefix.contains(*end)));
    add("host", texts(&matches.hosts), either(text(ends[0]), text(ends[1])), holds);
    for ByAddresses { key, wanted, has, holds } in by_changing_addresses(matches, fields, names) {
        add(key, wanted, has, holds);
    }
    let ends = [fields.source_port, fields.destination_port];
    let holds =
        ends.iter().flatten().any(|end| matches.ports.iter().any(|ports| (ports.first..=ports.last).contains(end)));
    let [source, destination] = ends.map(|port| port.map(|port| port.to_string()));
    add("port", matches.ports.iter().map(ToString::to_string).collect(), either(source, destination), holds);
    add(
        "mark",
        matches.marks.iter().map(ToString::to_string).collect(),
        Some(format!("{:#x}", fields.mark)),
        matches.marks.iter().any(|mark| fields.mark & mark.mask == mark.value & mark.mask),
    );
    let number = |user: &User| match user {
        User::Id(id) => Some(*id),
        User::Name(name) => names.users.get(name).copied(),
    };
    add(
        "uid",
        matches.users.iter().map(ToString::to_string).collect(),
        fields.uid.map(|uid| uid.to_string()),
        fields.uid.is_some() && matches.users.iter().any(|user| number(user) == fields.uid),
    );
    add(
        "cgroup",
        matches.cgroups.clone(),
        fields.cgroup.filter(|id| id >> 63 == 0).map(|id| {
            let path = names.cgroups.iter().find(|(_, known)| **known == id);
            path.map_or_else(|| format!("number {id}"), |(path, _)| path.clone())
        }),
        fields.cgroup.is_some() && matches.cgroups.iter().any(|path| names.cgroups.get(path) == fields.cgroup.as_ref()),
    );
    let incoming = |name: &&String| Some(interface_number(name)) == fields.cgroup;
    let came = matches.from_interfaces.iter().find(incoming);
    let other = fields.cgroup.filter(|id| id >> 63 == 1).map(|_| "another one".to_owned());
    add("from-interface", matches.from_interfaces.clone(), came.cloned().or(other), came.is_some());
    let Traits { length, signal } = fields.traits;
    add(
        "length",
        matches.lengths.iter().map(ToString::to_string).collect(),
        (length > 0).then(|| length.to_string()),
        matches.lengths.iter().any(|lengths| lengths.contains(length)),
    );
    let flags = if let Signal::Tcp { flags, .. } = signal { Some(flags) } else { None };
    add(
        "tcp-flags",
        matches.tcp_flags.iter().map(ToString::to_string).collect(),
        flags.map(tcp_flag_names),
        flags.is_some_and(|flags| matches.tcp_flags.iter().any(|wanted| wanted.holds(flags))),
    );
    let pure_ack = match signal {
        Signal::Tcp { pure_ack, .. } => Some(pure_ack),
        // Nothing but TCP has them.
        _ => fields.protocol.filter(|number| *number != protocol::TCP).map(|_| false),
    };
    let wanted = if matches.pure_ack { vec!["true".to_owned()] } else { Vec::new() };
    add("pure-ack", wanted, pure_ack.map(|pure_ack| pure_ack.to_string()), pure_ack == Some(true));
    let kind = if let Signal::Icmp(kind) = signal { Some(kind) } else { None };
    add(
        "icmp-type",
        matches.icmp_types.iter().map(ToString::to_string).collect(),
        kind.map(icmp_type_name),
        kind.is_some_and(|kind| {
            matches.icmp_types.iter().flat_map(|wanted| wanted.types()).any(|wanted| wanted == kind)
        }),
    );
    explained
}

/// Explains the classification of packets with these fields by `run`, which was built from `config`.
pub fn belongs(run: &Run, config: &Config, names: &Names, fields: &Fields) -> Belongs {
    let classification = run.engine().classify(fields);
    let class = run.engine().class_names().get(classification.class.0 as usize).cloned();
    Belongs {
        fields: *fields,
        rules: rules(config, names, fields, classification.rule.map(|rule| rule + 1)),
        class: class.unwrap_or_else(|| format!("number {}", classification.class.0)),
        by_default: classification.rule.is_none(),
        flow: classification.flow.flow,
    }
}

/// Compares the rules of `config` with a packet up to the one that matched, by its number from 1; all rules if none matched.
pub fn rules(config: &Config, names: &Names, fields: &Fields, matched: Option<u32>) -> Vec<RuleExplanation> {
    let classes = config.class_names();
    let name = |id: u32| classes.get(id as usize).map_or_else(|| format!("number {id}"), ToString::to_string);
    let explained = |(n, rule): (usize, &tidegate_config::shaper::Rule)| RuleExplanation {
        number: n + 1,
        class: name(rule.class.0),
        conditions: conditions(&rule.matches, fields, names)
            .into_iter()
            .chain(times::condition(n, &rule.matches, names))
            .collect(),
    };
    let until = matched.map_or(config.rules.len(), |rule| rule as usize);
    config.rules.iter().take(until).enumerate().map(explained).collect()
}

/// The state of `run` for a packet with these fields.
fn state(run: &Run, now: Instant, fields: &Fields) -> QueueState {
    let classification = run.engine().classify(fields);
    let tree = run.engine().tree();
    let backlog = tree.backlog();
    QueueState {
        packets: backlog.packets,
        bytes: backlog.bytes,
        levels: tree.shaper().and_then(|shaper| shaper.levels(now, classification.class)),
        class: tree.classes().get(classification.class.0 as usize).copied(),
        flow: tree.shaper().and_then(|shaper| shaper.flow(classification.flow.flow)),
    }
}

/// The ceiling that the next packet of a flow waits for.
fn held_by(run: &Run, flow: u64) -> Option<HeldBy> {
    run.engine().tree().shaper()?.flow(flow)?.held_by
}

/// Observes departures until that of one packet.
struct Watch {
    packet: u64,
    flow: u64,
    class: u32,
    tickets: u64,
    behind: [u64; 3],
    last: Option<Box<Departure>>,
}

impl Watch {
    /// Counts departures; returns whether the packet has left.
    fn observe(&mut self, departures: impl Iterator<Item = Departure>) -> bool {
        for departure in departures {
            if departure.ticket.packet == self.packet {
                self.tickets -= 1;
                self.last = Some(Box::new(departure));
                if self.tickets == 0 {
                    return true;
                }
            } else if matches!(departure.fate, Disposition::Sent(_)) {
                let packet = &departure.packet;
                let kind = match (packet.flow.flow == self.flow, packet.class.0 == self.class) {
                    (true, _) => 0,
                    (false, true) => 1,
                    (false, false) => 2,
                };
                self.behind[kind] += 1;
            }
        }
        false
    }
}

/// Explains packet `packet` (from 1) of `source` under `config`.
///
/// # Errors
/// See [`NotExplained`].
pub fn packet<R: Read>(
    source: &mut Source<R>,
    packet: u64,
    config: &Config,
    settings: &Settings,
) -> Result<Explanation, NotExplained> {
    let mut settings = settings.clone();
    settings.keep = Keep { series: false, departures: true };
    let build = |error: tidegate_engine::BuildFailure| NotExplained::Build(error.to_string());
    let mut run = Run::new(config, &settings, Instant::ZERO).map_err(build)?;
    let mut found: Option<(Explanation, Watch, u64)> = None;
    let mut last = 0;
    let mut ended = false;
    while !ended && let Some(arrival) = source.next_arrival(&mut |_| ()) {
        let arrival = match arrival {
            Ok(arrival) => arrival,
            // The rest of the source need not be readable.
            Err(_) if found.is_some() => break,
            Err(error) => return Err(NotExplained::Source(error)),
        };
        last = arrival.number;
        run.run_until(arrival.time);
        if let Some((_, watch, _)) = &mut found {
            ended = watch.observe(run.take_departures());
            if ended {
                break;
            }
        } else {
            run.take_departures();
        }
        if arrival.number != packet || found.is_some() {
            run.arrive(arrival.time, arrival.number, &arrival.meta);
            continue;
        }
        let fields = arrival.meta.fields;
        let mut explained = begin(&run, config, &settings.setup.names, packet, arrival.time, &arrival.meta);
        let tickets = run.arrive(arrival.time, arrival.number, &arrival.meta);
        explained.due = run.due().map(|due| due.since(explained.start));
        explained.held_by = held_by(&run, explained.belongs.flow);
        let mut watch = watch(&run, packet, &fields, tickets);
        ended = watch.observe(run.take_departures());
        found = Some((explained, watch, tickets));
    }
    let Some((mut explained, mut watch, tickets)) = found else { return Err(NotExplained::NoPacket(last)) };
    if !ended {
        run.finish();
        watch.observe(run.take_departures());
    }
    explained.end = match (tickets, watch.last.take()) {
        (1, Some(departure)) => End::Left { departure, behind: watch.behind },
        (1, None) => End::Unknown,
        (cut, last) => End::Cut(cut, last),
    };
    Ok(explained)
}

fn watch(run: &Run, packet: u64, fields: &Fields, tickets: u64) -> Watch {
    let classification = run.engine().classify(fields);
    let (flow, class) = (classification.flow.flow, classification.class.0);
    Watch { packet, flow, class, tickets, behind: [0; 3], last: None }
}

fn begin(run: &Run, config: &Config, names: &Names, packet: u64, time: Instant, meta: &PacketMeta) -> Explanation {
    Explanation {
        packet,
        time: time.since(run.start()),
        meta: *meta,
        belongs: belongs(run, config, names, &meta.fields),
        state: state(run, time, &meta.fields),
        due: None,
        held_by: None,
        end: End::Unknown,
        classes: run.engine().class_names().to_vec(),
        start: run.start(),
    }
}

/// Returns the packet that a record is about: the number of the engine, from 1, and of its arrival, from 0.
///
/// # Errors
/// [`NotExplained::NoEvent`] if the record is not about a packet.
pub fn packet_of_record<R: Read>(reader: &mut Reader<R>, wanted: u64) -> Result<(u64, u64), NotExplained> {
    let mut engine = 0;
    loop {
        let record = reader.position().0;
        let next = match reader.next_record() {
            Some(next) => next.map_err(NotExplained::Recording)?,
            None => return Err(NotExplained::NoRecord(record)),
        };
        engine += u64::from(matches!(next, Record::Setup(_)));
        if record < wanted || matches!(next, Record::Gap(_)) {
            continue;
        }
        let what = match next {
            Record::Arrives { number, .. } | Record::Outcome { number, .. } => return Ok((engine, number)),
            // The next record names the packet that left.
            Record::Departs { .. } if record == wanted => match reader.next_record() {
                Some(Ok(Record::Outcome { number, .. })) => return Ok((engine, number)),
                _ => "a packet was asked for, and none could leave",
            },
            Record::Setup(_) => "an engine was built",
            Record::ReleaseAll => "everything was let go at once",
            Record::Adjustment { .. } => "the control plane changed a rate or a promise",
            Record::Reconfigure { .. } => "another configuration took over",
            Record::Control { .. } => "the control plane changed a promise or a reservation",
            Record::Unrecorded => "something was done that recordings do not keep",
            _ => "records are missing there",
        };
        return Err(NotExplained::NoEvent(format!("record {wanted} is about no packet: {what}")));
    }
}

/// Explains arrival `number` (from 0) of engine `engine` (from 1) of a recording.
///
/// # Errors
/// See [`NotExplained`].
pub fn arrival<R: Read>(reader: &mut Reader<R>, engine: u64, number: u64) -> Result<Explanation, NotExplained> {
    let mut replayer = Replayer::new(Keep { series: false, departures: true });
    let mut found: Option<(Explanation, Watch)> = None;
    let mut configuration = None;
    let mut packets = 0;
    loop {
        let record = reader.position().0;
        let next = match reader.next_record() {
            Some(Ok(next)) => next,
            Some(Err(_)) | None if found.is_some() => break,
            Some(Err(error)) => return Err(NotExplained::Recording(error)),
            None => return Err(NotExplained::NoPacket(packets)),
        };
        match &next {
            Record::Setup(setup) => {
                let config = exact::configuration(&setup.configuration).map_err(NotExplained::Build)?;
                configuration = Some((config, setup.names()));
            }
            Record::Reconfigure { to, .. } => {
                let config = exact::configuration(&to.configuration).map_err(NotExplained::Build)?;
                configuration = Some((config, to.names()));
            }
            Record::Arrives { .. } if replayer.engines() == engine => packets += 1,
            _ => {}
        }
        let wanted = matches!(&next, Record::Arrives { number: n, .. } if *n == number) && replayer.engines() == engine;
        if wanted
            && let (Record::Arrives { now, meta, .. }, Some(run), Some((config, names))) =
                (&next, replayer.run(), &configuration)
        {
            let explained = begin(run, config, names, number, *now, meta);
            let watch = watch(run, number, &meta.fields, 1);
            found = Some((explained, watch));
        }
        let goes_on = replayer.record(record, &next);
        let went_back = wanted && replayer.outcomes().any(|outcome| *outcome == (number, PacketOutcome::TooLong));
        if let Some(run) = replayer.run_mut() {
            let due = run.due();
            let held = found.as_ref().and_then(|(explained, _)| held_by(run, explained.belongs.flow));
            let left: Vec<_> = run.take_departures().collect();
            if let Some((explained, watch)) = &mut found {
                if wanted {
                    explained.due = due.map(|due| due.since(explained.start));
                    explained.held_by = held;
                }
                if went_back {
                    explained.end = End::WentBack;
                    break;
                }
                if watch.observe(left.into_iter()) {
                    break;
                }
            }
        }
        if !goes_on {
            break;
        }
    }
    let Some((mut explained, watch)) = found else {
        return Err(match replayer.finish(reader.position().0, false).verdict {
            exact::Verdict::EqualUpTo { record, why } => NotExplained::Beyond(
                packets,
                format!("from record {record} on it cannot be known what happened: {why}"),
            ),
            exact::Verdict::Different(difference) => NotExplained::Beyond(
                packets,
                format!("behind them the replay differs from the recording: {difference}"),
            ),
            exact::Verdict::Equal => NotExplained::NoPacket(packets),
        });
    };
    if let Some(departure) = watch.last {
        explained.end = End::Left { departure, behind: watch.behind };
    }
    Ok(explained)
}
