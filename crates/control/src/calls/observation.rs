//! `classes` and `flows`: the measurements of classes and flows.

use std::borrow::Borrow;
use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};
use tidegate_units::{Bytes, Rate, Span};

use super::coupled::CoupledQueues;
use super::events::Flow;
use super::hosts::HostObservation;
use super::status::{Ceilings, DropCount, FollowStatus, GuardianStatus, InterfaceStatus, QuotaStatus, TimedRuleStatus};
use crate::answer::Answer;
use crate::quantities::{bps, bytes, is_zero, ns};

/// The request `classes`.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Classes {}

/// The request `flows`. Absent filters do not filter.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Flows {
    /// The order of the flows. Default: the largest rate first.
    pub sort: FlowSort,
    /// The maximum number of flows, 1 to [`Flows::MOST`]. Default 100.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub limit: Option<u32>,
    /// Flows of this direction only.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub direction: Option<String>,
    /// Flows of this class only.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub class: Option<String>,
    /// Flows of this user only.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub uid: Option<u32>,
    /// Flows from or to this port only.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub port: Option<u16>,
}

impl Flows {
    /// The maximum number of flows in a reply.
    pub const MOST: u32 = 1_000;
}

/// The order of flows, the largest value first.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum FlowSort {
    /// The present rate.
    #[default]
    Rate,
    /// Bytes sent.
    Bytes,
    /// Bytes queued.
    Queue,
    /// The 99th percentile of the waits of packets.
    Delay,
    /// Packets dropped.
    Drops,
    /// The time of the last packet.
    Recent,
}

impl FlowSort {
    /// Every order, for lists of choices.
    pub const ALL: [Self; 6] = [Self::Rate, Self::Bytes, Self::Queue, Self::Delay, Self::Drops, Self::Recent];
    /// Returns the name in the protocol.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Rate => "rate",
            Self::Bytes => "bytes",
            Self::Queue => "queue",
            Self::Delay => "delay",
            Self::Drops => "drops",
            Self::Recent => "recent",
        }
    }
    /// Sorts `flows`. Equal flows are ordered by their keys, so that a table that is printed again does not flicker.
    pub fn sort<F: Borrow<FlowObservation>>(self, flows: &mut [F]) {
        let key = |flow: &FlowObservation| match self {
            Self::Rate => flow.rate.as_bps(),
            Self::Bytes => flow.sent_bytes.as_u64(),
            Self::Queue => flow.queue.bytes.as_u64(),
            Self::Delay => flow.wait.p99.as_nanos(),
            Self::Drops => flow.dropped_packets(),
            Self::Recent => u64::MAX - flow.idle.as_nanos(),
        };
        flows.sort_by(|a, b| {
            let (a, b) = (a.borrow(), b.borrow());
            key(b).cmp(&key(a)).then_with(|| a.flow.key.cmp(&b.flow.key))
        });
    }
}

impl fmt::Display for FlowSort {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl FromStr for FlowSort {
    type Err = String;
    fn from_str(text: &str) -> Result<Self, String> {
        Self::ALL.into_iter().find(|sort| sort.name() == text).ok_or_else(|| {
            format!("flows cannot be sorted by `{text}`, only by {}", Self::ALL.map(Self::name).join(", "))
        })
    }
}

/// An observation: the measurements of one moment.
#[derive(Clone, PartialEq, Debug, Default, Serialize, Deserialize)]
pub struct Observation {
    /// The time of day, in milliseconds since 1970.
    pub time_ms: u64,
    /// Name of the shaped interface; of several the names with ` + ` between them.
    pub interface: String,
    /// The time since the start of the daemon.
    #[serde(rename = "uptime_ns", with = "ns")]
    pub uptime: Span,
    /// Whether shaping is in force.
    pub in_force: bool,
    /// Why shaping is not in force, if it is not.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub trouble: Option<String>,
    /// Each direction of the traffic.
    pub directions: Vec<DirectionObservation>,
    /// The hosts on this side of the line, the fastest first, at most [`Observation::MOST_HOSTS`]; absent where flows were not
    /// requested.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub hosts: Vec<HostObservation>,
}

/// The line of a direction, and its use.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
pub struct LineObservation {
    /// The rate of the line itself, where the configuration states it.
    #[serde(rename = "carries_bps", with = "bps::option", default, skip_serializing_if = "Option::is_none")]
    pub carries: Option<Rate>,
    /// The rate of the last second, including what the line adds to each packet: it counts against the limit.
    #[serde(rename = "used_bps", with = "bps")]
    pub used: Rate,
    /// The part of it that the line adds.
    #[serde(rename = "overhead_bps", with = "bps")]
    pub overhead: Rate,
}

/// One direction of the traffic.
#[derive(Clone, PartialEq, Debug, Default, Serialize, Deserialize)]
pub struct DirectionObservation {
    /// `up` for egress, `down` for ingress.
    pub name: String,
    /// The configured rate of all classes together; none where nothing limits it.
    #[serde(rename = "limit_bps", with = "bps::option", default, skip_serializing_if = "Option::is_none")]
    pub limit: Option<Rate>,
    /// The line, and its use.
    #[serde(default)]
    pub line: LineObservation,
    /// How well each kind of traffic works, and who takes the line; absent where flows were not requested lately.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub answer: Option<Answer>,
    /// In the order of the file.
    pub classes: Vec<ClassObservation>,
    /// The rules of the file with the packets that each has matched, the first [`Observation::MOST_RULES`] of them.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub rules: Vec<RuleObservation>,
    /// The rules with a quota, in the order of the file.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub quotas: Vec<QuotaStatus>,
    /// The rules that hold at some times only, in the order of the file.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub times: Vec<TimedRuleStatus>,
    /// In the requested order; absent where flows were not requested.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub flows: Vec<FlowObservation>,
    /// The interfaces whose traffic shares the limit and the classes, in the order of the file.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub interfaces: Vec<InterfaceObservation>,
    /// The state of the flow table.
    pub table: FlowTableState,
    /// The counters of the data path.
    pub data_path: DataPathCounters,
    /// The guardian; absent where none was asked for.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub guardian: Option<GuardianStatus>,
    /// The rate that follows the line; absent where the rate is constant.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub follow: Option<FollowStatus>,
}

/// A rule of the file, and the packets that it has matched.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
pub struct RuleObservation {
    /// Its number, from 1.
    pub rule: u32,
    /// Its name, where it has one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    /// Its name, or its conditions, of which at most 160 characters; empty where it has neither.
    pub label: String,
    /// The class that it puts packets into.
    pub class: String,
    /// Whether it matches at present: it is its time, and its quota is not used up.
    pub in_force: bool,
    /// Packets that it has matched since the start, when they arrived. A rule that moves in the file goes on with its count.
    pub packets: u64,
    /// Their bytes, with the overhead of the link.
    #[serde(with = "bytes")]
    pub bytes: Bytes,
}

/// One of the interfaces of a direction.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
pub struct InterfaceObservation {
    /// Its counters.
    #[serde(flatten)]
    pub counts: InterfaceStatus,
    /// The rate of what was sent in the last second, in bits of packets from the network header on.
    #[serde(rename = "rate_bps", with = "bps")]
    pub rate: Rate,
}

/// The state of a flow table.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
pub struct FlowTableState {
    /// Whether flows are counted.
    pub counted: bool,
    /// Why not.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub uncounted: Option<String>,
    /// Flows in the table.
    pub flows: u64,
    /// Records made since the start.
    pub created: u64,
    /// Flows removed after the idle timeout.
    pub expired: u64,
    /// Flows removed because the table was full.
    pub evicted: u64,
    /// Packets of flows without a record.
    pub untracked_packets: u64,
}

/// Counters of a data path, since the start.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
pub struct DataPathCounters {
    /// Packets that passed.
    pub passed_packets: u64,
    /// Packets that were refused.
    pub refused_packets: u64,
    /// Superpackets returned to the kernel for segmentation, and packets that had to follow them.
    pub cut_packets: u64,
    /// Packets whose headers could not be parsed.
    pub unreadable_packets: u64,
    /// Packets that no rule matched.
    pub unclassified_packets: u64,
    /// Iterations of its loop.
    pub turns: u64,
    /// Processor time.
    #[serde(rename = "processor_ns", with = "ns")]
    pub processor: Span,
    /// Messages of the kernel that were lost because the socket was full; their packets passed unshaped.
    pub lost_messages: u64,
    /// Packets that the kernel dropped while they waited, because a chain of the packet filter, the interface or their route was
    /// removed. They count as sent as well.
    #[serde(default)]
    pub kernel_dropped_packets: u64,
}

/// The measurements of a class. Counts are since the start; rates and waits are of the last second.
#[derive(Clone, PartialEq, Debug, Default, Serialize, Deserialize)]
pub struct ClassObservation {
    /// The name of the class.
    pub name: String,
    /// Its priority, where its discipline has priorities: classes with a smaller number are served first.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub priority: Option<u8>,
    /// The rate that the configuration promises to the class.
    #[serde(rename = "promised_bps", with = "bps::option", default, skip_serializing_if = "Option::is_none")]
    pub promised: Option<Rate>,
    /// The rate that could still be promised to flows.
    #[serde(rename = "unpromised_bps", with = "bps::option", default, skip_serializing_if = "Option::is_none")]
    pub unpromised: Option<Rate>,
    /// Its ceilings.
    #[serde(flatten)]
    pub ceilings: Ceilings,
    /// Flows present, where its discipline knows flows.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub flows: Option<u64>,
    /// The rate of packets sent through it.
    #[serde(rename = "rate_bps", with = "bps")]
    pub rate: Rate,
    /// The part of it that was borrowed from other classes.
    #[serde(rename = "borrowed_bps", with = "bps")]
    pub borrowed: Rate,
    /// Packets that the rules put into it.
    pub enqueued_packets: u64,
    /// Their bytes.
    #[serde(with = "bytes")]
    pub enqueued_bytes: Bytes,
    /// Packets sent through it, including flows that were displaced to it.
    pub sent_packets: u64,
    /// Their bytes.
    #[serde(with = "bytes")]
    pub sent_bytes: Bytes,
    /// Bytes sent on rate borrowed from other classes.
    #[serde(with = "bytes")]
    pub borrowed_bytes: Bytes,
    /// The backlog.
    #[serde(flatten, with = "QueueFields")]
    pub queue: Queued,
    /// The ceiling that all of its packets wait for; none while one may leave.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub held_by: Option<HeldBy>,
    /// Drops by reason; reasons without a drop are absent.
    pub dropped: Vec<DropCount>,
    /// Packets marked congestion experienced.
    pub marked_packets: u64,
    /// Packets sent with another code point than they arrived with.
    pub remarked_packets: u64,
    /// QUIC datagrams into which a rate was written as advice; absent where there were none.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub advised_packets: u64,
    /// The waits of its packets.
    #[serde(flatten)]
    pub wait: WaitTimes,
    /// The distribution of all waits since the start.
    pub waits: Waits,
    /// The coupled queues of DualPI2; absent where its discipline is another.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub coupled: Option<CoupledQueues>,
    /// Seconds in which the class offered its promised rate or more, and was served it.
    pub promise_kept_seconds: u64,
    /// Seconds in which it offered it and was not served it.
    pub promise_missed_seconds: u64,
}

/// The ceiling that packets wait for.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum HeldBy {
    /// The ceiling of their class.
    Class,
    /// The ceiling of their host.
    Host,
    /// The ceiling of their rule.
    Rule,
    /// The ceiling of their flow.
    Flow,
}

impl HeldBy {
    /// All ceilings.
    pub const ALL: [Self; 4] = [Self::Class, Self::Host, Self::Rule, Self::Flow];
    /// Returns the key of a shaper file that sets it.
    pub const fn key(self) -> &'static str {
        match self {
            Self::Class => "at-most",
            Self::Host => "host-at-most",
            Self::Rule => "rule at-most",
            Self::Flow => "flow-at-most",
        }
    }
}

/// The backlog of a queue.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
pub struct Queued {
    /// Packets that are queued.
    pub packets: u64,
    /// Their bytes.
    #[serde(with = "bytes")]
    pub bytes: Bytes,
}

/// The keys of [`Queued`] among those of other fields.
#[derive(Serialize, Deserialize)]
#[serde(remote = "Queued")]
pub(super) struct QueueFields {
    #[serde(rename = "queue_packets")]
    packets: u64,
    #[serde(rename = "queue_bytes", with = "bytes")]
    bytes: Bytes,
}

/// The waits of the packets of a class or a flow: quantiles of recent ones, and the longest since the start.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
pub struct WaitTimes {
    /// The median.
    #[serde(rename = "wait_p50_ns", with = "ns")]
    pub p50: Span,
    /// The 90th percentile.
    #[serde(rename = "wait_p90_ns", with = "ns")]
    pub p90: Span,
    /// The 99th percentile.
    #[serde(rename = "wait_p99_ns", with = "ns")]
    pub p99: Span,
    /// The longest wait since the start, or since the first packet of the flow.
    #[serde(rename = "wait_longest_ns", with = "ns")]
    pub longest: Span,
    /// The variation of the wait from packet to packet of a flow (RFC 3550, 6.4.1).
    #[serde(rename = "jitter_ns", with = "ns")]
    pub jitter: Span,
}

/// The waits of packets, as a cumulative histogram that only grows.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
pub struct Waits {
    /// Packets that have left.
    pub count: u64,
    /// The sum of their waits.
    #[serde(rename = "sum_ns", with = "ns")]
    pub sum: Span,
    /// Packets that waited at most [`Waits::bound`]: 16,384 ns, twice that, and so on. Further elements equal `count`.
    pub up_to: Vec<u64>,
}

impl Waits {
    /// Returns the upper bound of `up_to[n]`.
    pub const fn bound(n: usize) -> Span {
        Span::from_nanos(16_384 << n)
    }
}

/// The measurements of a flow. Counts are since its first packet; rates and waits are of the last moments.
#[derive(Clone, PartialEq, Debug, Default, Serialize, Deserialize)]
pub struct FlowObservation {
    /// Its key and its addresses.
    pub flow: Flow,
    /// The class that the rules chose.
    pub class: String,
    /// The class that it is displaced to, if it is.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub through: Option<String>,
    /// The rule that it matched: its name, or its conditions. None where no rule matched.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rule: Option<String>,
    /// The code point at the arrival of its first packet, where it is known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub dscp: Option<u8>,
    /// The time since its first packet.
    #[serde(rename = "age_ns", with = "ns")]
    pub age: Span,
    /// The time since its last packet.
    #[serde(rename = "idle_ns", with = "ns")]
    pub idle: Span,
    /// The rate at which it is sent.
    #[serde(rename = "rate_bps", with = "bps")]
    pub rate: Rate,
    /// Its share if every flow offered what it is promised; none where its discipline has no shares.
    #[serde(rename = "share_bps", with = "bps::option", default, skip_serializing_if = "Option::is_none")]
    pub share: Option<Rate>,
    /// Its minimum rate.
    #[serde(rename = "minimum_bps", with = "bps::option", default, skip_serializing_if = "Option::is_none")]
    pub minimum: Option<Rate>,
    /// Whether the minimum is granted, or waits for rate.
    pub granted: bool,
    /// Steps of preference.
    pub preferred: u32,
    /// Packets that arrived.
    pub arrived_packets: u64,
    /// Their bytes.
    #[serde(with = "bytes")]
    pub arrived_bytes: Bytes,
    /// Packets sent.
    pub sent_packets: u64,
    /// Their bytes.
    #[serde(with = "bytes")]
    pub sent_bytes: Bytes,
    /// Bytes sent on rate borrowed from other classes, since the shaper has the flow.
    #[serde(with = "bytes")]
    pub borrowed_bytes: Bytes,
    /// The backlog.
    #[serde(flatten, with = "QueueFields")]
    pub queue: Queued,
    /// The ceiling that its next packet waits for.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub held_by: Option<HeldBy>,
    /// The waits of its packets.
    #[serde(flatten)]
    pub wait: WaitTimes,
    /// Drops by reason, in packets; reasons without a drop are left out.
    pub dropped: Vec<FlowDrops>,
    /// Bytes dropped.
    #[serde(with = "bytes")]
    pub dropped_bytes: Bytes,
    /// Packets marked congestion experienced.
    pub marked_packets: u64,
    /// Packets sent with another code point than they arrived with.
    pub remarked_packets: u64,
    /// Seconds in which it offered its granted minimum or more, and was served it.
    pub promise_kept_seconds: u64,
    /// Seconds in which it offered it and was not served it.
    pub promise_missed_seconds: u64,
}

impl DirectionObservation {
    /// Returns the same measurements with other flows.
    pub fn with_flows(&self, flows: Vec<FlowObservation>) -> Self {
        Self {
            name: self.name.clone(),
            limit: self.limit,
            line: self.line,
            answer: self.answer.clone(),
            classes: self.classes.clone(),
            rules: self.rules.clone(),
            quotas: self.quotas.clone(),
            times: self.times.clone(),
            flows,
            interfaces: self.interfaces.clone(),
            table: self.table.clone(),
            data_path: self.data_path.clone(),
            guardian: self.guardian.clone(),
            follow: self.follow.clone(),
        }
    }
}

impl Observation {
    /// Returns the same observation without flows and hosts.
    pub fn without_flows(&self) -> Self {
        let directions = self.directions.iter().map(|direction| direction.with_flows(Vec::new())).collect();
        Self { hosts: Vec::new(), ..self.with_directions(directions) }
    }
    /// Returns the same observation with other directions.
    pub fn with_directions(&self, directions: Vec<DirectionObservation>) -> Self {
        Self {
            time_ms: self.time_ms,
            interface: self.interface.clone(),
            uptime: self.uptime,
            in_force: self.in_force,
            trouble: self.trouble.clone(),
            directions,
            hosts: self.hosts.clone(),
        }
    }
}

/// Drops of a flow for one reason.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct FlowDrops {
    /// Name of a drop reason.
    pub reason: String,
    /// Packets dropped for it.
    pub packets: u64,
}
