//! `classes` and `flows`: what is measured of them, for people to look at.

use std::borrow::Borrow;
use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};
use tidegate_units::{Bytes, Rate, Span};

use super::events::Flow;
use super::status::DropCount;
use crate::quantities::{bps, bytes, ns};

/// Asks what is measured of the classes. Everybody may.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Classes {}

/// Asks what is measured of the flows, and of the classes at the same time. Everybody may; what is left empty does not
/// filter.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Flows {
    /// Which come first. Default: the fastest.
    pub sort: FlowSort,
    /// So many at the most, 1 to [`Flows::MOST`]. Default 100.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub limit: Option<u32>,
    /// Only of this direction.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub direction: Option<String>,
    /// Only in this class.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub class: Option<String>,
    /// Only of this user.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub uid: Option<u32>,
    /// Only from or to this port.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub port: Option<u16>,
}

impl Flows {
    /// The most flows in one answer.
    pub const MOST: u32 = 1_000;
}

/// By what flows are put in order, the most first.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum FlowSort {
    /// Their rate at the moment.
    #[default]
    Rate,
    /// Bytes that left.
    Bytes,
    /// Bytes that wait.
    Queue,
    /// The wait that 99 of 100 packets did not exceed.
    Delay,
    /// Packets dropped.
    Drops,
    /// When the last packet came.
    Recent,
}

impl FlowSort {
    /// All of them.
    pub const ALL: [Self; 6] = [Self::Rate, Self::Bytes, Self::Queue, Self::Delay, Self::Drops, Self::Recent];
    /// Its name in the protocol.
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
    /// Puts `flows` in order. Those that are equal stand by their keys, so that a table does not flicker.
    pub fn sort<F: Borrow<FlowSeen>>(self, flows: &mut [F]) {
        let key = |flow: &FlowSeen| match self {
            Self::Rate => flow.rate.as_bps(),
            Self::Bytes => flow.sent_bytes.as_u64(),
            Self::Queue => flow.queue_bytes.as_u64(),
            Self::Delay => flow.wait_p99.as_nanos(),
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

/// What was seen at one moment. At most half a second old where flows are in it.
#[derive(Clone, PartialEq, Debug, Default, Serialize, Deserialize)]
pub struct Seen {
    /// When, in milliseconds since 1970.
    pub time_ms: u64,
    /// The interface.
    pub interface: String,
    /// Since the start.
    #[serde(rename = "uptime_ns", with = "ns")]
    pub uptime: Span,
    /// Whether shaping is in force.
    pub in_force: bool,
    /// What is wrong at the moment.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub trouble: Option<String>,
    /// Each direction of the traffic.
    pub directions: Vec<DirectionSeen>,
}

/// One direction of the traffic.
#[derive(Clone, PartialEq, Debug, Default, Serialize, Deserialize)]
pub struct DirectionSeen {
    /// `up` for what leaves, `down` for what comes.
    pub name: String,
    /// The total.
    #[serde(rename = "limit_bps", with = "bps::option", default, skip_serializing_if = "Option::is_none")]
    pub limit: Option<Rate>,
    /// Its classes.
    pub classes: Vec<ClassSeen>,
    /// Its flows, as asked for.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub flows: Vec<FlowSeen>,
    /// The table that they are from.
    pub table: TableSeen,
    /// The data path itself.
    pub data_path: DataPathSeen,
}

/// The table of flows.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
pub struct TableSeen {
    /// Whether flows are counted at all.
    pub counted: bool,
    /// Flows in it.
    pub flows: u64,
    /// Records made since the start.
    pub created: u64,
    /// Flows that were silent for long, and are forgotten.
    pub expired: u64,
    /// Flows that made room for others.
    pub evicted: u64,
    /// Packets that no record could be made for.
    pub untracked_packets: u64,
}

/// What the data path counts about itself, since the start.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
pub struct DataPathSeen {
    /// Packets that passed.
    pub passed_packets: u64,
    /// Packets that were refused.
    pub refused_packets: u64,
    /// Superpackets sent back to be cut, and packets that had to follow them.
    pub cut_packets: u64,
    /// Packets whose headers could not be read.
    pub unreadable_packets: u64,
    /// Packets that no rule matched.
    pub unclassified_packets: u64,
    /// Turns of its loop.
    pub turns: u64,
    /// Processor time.
    #[serde(rename = "processor_ns", with = "ns")]
    pub processor: Span,
    /// Messages of the kernel that were lost, because its socket was full; packets passed unshaped then.
    pub lost_messages: u64,
}

/// A class. Counts are since the start; rates and waits are of the last moments.
#[derive(Clone, PartialEq, Debug, Default, Serialize, Deserialize)]
pub struct ClassSeen {
    /// Its name.
    pub name: String,
    /// What it is promised.
    #[serde(rename = "promised_bps", with = "bps::option", default, skip_serializing_if = "Option::is_none")]
    pub promised: Option<Rate>,
    /// What could still be promised to flows.
    #[serde(rename = "unpromised_bps", with = "bps::option", default, skip_serializing_if = "Option::is_none")]
    pub unpromised: Option<Rate>,
    /// Flows present, where its discipline knows flows.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub flows: Option<u64>,
    /// What leaves through it.
    #[serde(rename = "rate_bps", with = "bps")]
    pub rate: Rate,
    /// Of that, on rate that other classes did not use.
    #[serde(rename = "borrowed_bps", with = "bps")]
    pub borrowed: Rate,
    /// Packets that the rules put into it.
    pub enqueued_packets: u64,
    /// Their bytes.
    #[serde(with = "bytes")]
    pub enqueued_bytes: Bytes,
    /// Packets that left through it, flows that were displaced to it included.
    pub sent_packets: u64,
    /// Their bytes.
    #[serde(with = "bytes")]
    pub sent_bytes: Bytes,
    /// Bytes that left on rate that other classes did not use.
    #[serde(with = "bytes")]
    pub borrowed_bytes: Bytes,
    /// What waits.
    pub queue_packets: u64,
    /// Its bytes.
    #[serde(with = "bytes")]
    pub queue_bytes: Bytes,
    /// Drops by reason; reasons without a drop are left out.
    pub dropped: Vec<DropCount>,
    /// Packets marked congestion experienced.
    pub marked_packets: u64,
    /// Packets that left with another code point than they came with.
    pub remarked_packets: u64,
    /// The wait that half of the packets since the last look did not exceed.
    #[serde(rename = "wait_p50_ns", with = "ns")]
    pub wait_p50: Span,
    /// The wait that 90 of 100 did not exceed.
    #[serde(rename = "wait_p90_ns", with = "ns")]
    pub wait_p90: Span,
    /// The wait that 99 of 100 did not exceed.
    #[serde(rename = "wait_p99_ns", with = "ns")]
    pub wait_p99: Span,
    /// The longest wait since the start.
    #[serde(rename = "wait_longest_ns", with = "ns")]
    pub wait_longest: Span,
    /// How much the wait differs from packet to packet of a flow (RFC 3550).
    #[serde(rename = "jitter_ns", with = "ns")]
    pub jitter: Span,
    /// All waits since the start.
    pub waits: Waits,
    /// Seconds in which the class asked for what it is promised, or more, and got it.
    pub promise_kept_seconds: u64,
    /// Seconds in which it asked for it and did not get it.
    pub promise_missed_seconds: u64,
}

/// How long packets waited, as a histogram that only grows.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
pub struct Waits {
    /// Packets.
    pub count: u64,
    /// All their waits together.
    #[serde(rename = "sum_ns", with = "ns")]
    pub sum: Span,
    /// How many waited no longer than 16,384 ns, twice that, and so on. What is not there is `count`.
    pub up_to: Vec<u64>,
}

impl Waits {
    /// The bound that belongs to `up_to[n]`.
    pub const fn bound(n: usize) -> Span {
        Span::from_nanos(16_384 << n)
    }
}

/// A flow. Counts are since its first packet; rates and waits are of the last moments.
#[derive(Clone, PartialEq, Debug, Default, Serialize, Deserialize)]
pub struct FlowSeen {
    /// Who it is.
    pub flow: Flow,
    /// The class that the rules put it into.
    pub class: String,
    /// The class it leaves through, if that is another: it is displaced.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub through: Option<String>,
    /// The rule it matched: its name, or what it matches. None where no rule did.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rule: Option<String>,
    /// Since its first packet.
    #[serde(rename = "age_ns", with = "ns")]
    pub age: Span,
    /// Since its last packet.
    #[serde(rename = "idle_ns", with = "ns")]
    pub idle: Span,
    /// What leaves of it.
    #[serde(rename = "rate_bps", with = "bps")]
    pub rate: Rate,
    /// What it would get if everybody asked for what they are promised; none where its discipline knows no shares.
    #[serde(rename = "share_bps", with = "bps::option", default, skip_serializing_if = "Option::is_none")]
    pub share: Option<Rate>,
    /// The minimum that it shall have.
    #[serde(rename = "minimum_bps", with = "bps::option", default, skip_serializing_if = "Option::is_none")]
    pub minimum: Option<Rate>,
    /// Whether that is granted, or waits for room.
    pub granted: bool,
    /// Steps of preference.
    pub preferred: u32,
    /// Packets that came.
    pub arrived_packets: u64,
    /// Their bytes.
    #[serde(with = "bytes")]
    pub arrived_bytes: Bytes,
    /// Packets that left.
    pub sent_packets: u64,
    /// Their bytes.
    #[serde(with = "bytes")]
    pub sent_bytes: Bytes,
    /// Bytes that left on rate that other classes did not use, since the shaper knows the flow.
    #[serde(with = "bytes")]
    pub borrowed_bytes: Bytes,
    /// What waits.
    pub queue_packets: u64,
    /// Its bytes.
    #[serde(with = "bytes")]
    pub queue_bytes: Bytes,
    /// The wait that half of its packets did not exceed.
    #[serde(rename = "wait_p50_ns", with = "ns")]
    pub wait_p50: Span,
    /// The wait that 90 of 100 did not exceed.
    #[serde(rename = "wait_p90_ns", with = "ns")]
    pub wait_p90: Span,
    /// The wait that 99 of 100 did not exceed.
    #[serde(rename = "wait_p99_ns", with = "ns")]
    pub wait_p99: Span,
    /// The longest wait since its first packet.
    #[serde(rename = "wait_longest_ns", with = "ns")]
    pub wait_longest: Span,
    /// How much its wait differs from packet to packet (RFC 3550).
    #[serde(rename = "jitter_ns", with = "ns")]
    pub jitter: Span,
    /// Drops by reason, in packets; reasons without a drop are left out.
    pub dropped: Vec<FlowDrops>,
    /// Bytes dropped.
    #[serde(with = "bytes")]
    pub dropped_bytes: Bytes,
    /// Packets marked congestion experienced.
    pub marked_packets: u64,
    /// Packets that left with another code point than they came with.
    pub remarked_packets: u64,
    /// Seconds in which it asked for its granted minimum, or more, and got it.
    pub promise_kept_seconds: u64,
    /// Seconds in which it asked for it and did not get it.
    pub promise_missed_seconds: u64,
}

impl DirectionSeen {
    /// The same with other flows.
    pub fn with_flows(&self, flows: Vec<FlowSeen>) -> Self {
        Self {
            name: self.name.clone(),
            limit: self.limit,
            classes: self.classes.clone(),
            flows,
            table: self.table.clone(),
            data_path: self.data_path.clone(),
        }
    }
}

impl Seen {
    /// The same with other directions.
    pub fn with_directions(&self, directions: Vec<DirectionSeen>) -> Self {
        Self {
            time_ms: self.time_ms,
            interface: self.interface.clone(),
            uptime: self.uptime,
            in_force: self.in_force,
            trouble: self.trouble.clone(),
            directions,
        }
    }
}

impl FlowSeen {
    /// Packets dropped, all reasons together.
    pub fn dropped_packets(&self) -> u64 {
        self.dropped.iter().map(|count| count.packets).sum()
    }
}

/// Drops of a flow for one reason.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct FlowDrops {
    /// The reason.
    pub reason: String,
    /// Packets.
    pub packets: u64,
}
