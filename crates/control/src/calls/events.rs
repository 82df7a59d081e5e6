//! `events` and `unsubscribe`: notifications of what happens.

use std::fmt;
use std::net::IpAddr;

use serde::de::Error as _;
use serde::{Deserialize, Deserializer, Serialize};
use tidegate_units::{Bytes, Rate, Span};

use crate::quantities::{bps, bytes, ns};

/// The request `events`. Absent filters do not filter.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Events {
    /// Events of these kinds only.
    #[serde(skip_serializing_if = "Vec::is_empty", deserialize_with = "known_kinds")]
    pub kinds: Vec<EventKind>,
    /// Events of these classes only.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub classes: Vec<String>,
    /// Events of this direction only.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub direction: Option<String>,
    /// Events of flows of this user only.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub uid: Option<u32>,
    /// Events of flows from or to this port only.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub port: Option<u16>,
}

/// The reply to `events`.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Subscribed {
    /// The number that every notification carries.
    pub subscription: u64,
}

/// The request `unsubscribe`.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Unsubscribe {
    /// Number of a subscription of this connection.
    pub subscription: u64,
}

/// The reply to `unsubscribe`.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Unsubscribed {}

/// The kind of an event.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum EventKind {
    /// A flow was seen for the first time.
    FlowStarted,
    /// A flow sent nothing for the idle timeout, and was removed.
    FlowEnded,
    /// The queue of a flow rose to its upper threshold.
    QueueAbove,
    /// The queue of a flow fell to its lower threshold.
    QueueBelow,
    /// A flow was moved to another class, with its queue.
    Moved,
    /// Packets of a flow were marked congestion experienced; reported at most every 100 ms for a flow that is not watched.
    Marked,
    /// Queue protection of DualPI2 put a flow of the low-latency queue under sanction; its packets wait with those of the other queue.
    Sanctioned,
    /// The last packet of a flow that was under sanction has left; the next may wait in the low-latency queue.
    Released,
    /// A watched flow is granted another rate.
    Rate,
    /// Packets of a watched flow were dropped.
    Dropped,
    /// The oldest packet of a watched flow has waited longer than the requested limit.
    DelayAbove,
    /// It has waited less than half of that.
    DelayBelow,
    /// The minimum of a flow is in force.
    Promised,
    /// The minimum of a flow waits for rate to be released.
    Waiting,
    /// A promise ended: its lease was over, or root ended it.
    PromiseEnded,
    /// The rate of a direction follows its line to another value (`granted_bps`), for the reason in `text`.
    LineRate,
    /// A message of the supervisor, as text. A change of the configuration has its author, command and differences in `data`.
    Log,
    /// A kind of a newer daemon.
    #[serde(other)]
    Other,
}

impl EventKind {
    /// Every kind except [`Other`](Self::Other).
    pub const ALL: [Self; 17] = [
        Self::FlowStarted,
        Self::FlowEnded,
        Self::QueueAbove,
        Self::QueueBelow,
        Self::Moved,
        Self::Marked,
        Self::Sanctioned,
        Self::Released,
        Self::Rate,
        Self::Dropped,
        Self::DelayAbove,
        Self::DelayBelow,
        Self::Promised,
        Self::Waiting,
        Self::PromiseEnded,
        Self::LineRate,
        Self::Log,
    ];
    /// Returns the name in the protocol.
    pub const fn name(self) -> &'static str {
        match self {
            Self::FlowStarted => "flow-started",
            Self::FlowEnded => "flow-ended",
            Self::QueueAbove => "queue-above",
            Self::QueueBelow => "queue-below",
            Self::Moved => "moved",
            Self::Marked => "marked",
            Self::Sanctioned => "sanctioned",
            Self::Released => "released",
            Self::Rate => "rate",
            Self::Dropped => "dropped",
            Self::DelayAbove => "delay-above",
            Self::DelayBelow => "delay-below",
            Self::Promised => "promised",
            Self::Waiting => "waiting",
            Self::PromiseEnded => "promise-ended",
            Self::LineRate => "line-rate",
            Self::Log => "log",
            Self::Other => "other",
        }
    }
}

impl EventKind {
    /// Returns a sentence part for people: when such an event is sent.
    pub const fn meaning(self) -> &'static str {
        match self {
            Self::FlowStarted => "a flow is seen for the first time",
            Self::FlowEnded => "a flow has sent nothing for the idle timeout",
            Self::QueueAbove => "the queue of a flow rises to its upper threshold",
            Self::QueueBelow => "the queue of a flow falls to its lower threshold",
            Self::Moved => "a flow is moved to another class, with its queue",
            Self::Marked => "packets of a flow are marked congestion experienced",
            Self::Sanctioned => "queue protection of DualPI2 puts a flow under sanction",
            Self::Released => "the last packet of a flow under sanction has left",
            Self::Rate => "a watched flow is granted another rate",
            Self::Dropped => "packets of a watched flow are dropped",
            Self::DelayAbove => "a watched flow waits longer than the requested limit",
            Self::DelayBelow => "it waits less than half of that",
            Self::Promised => "the minimum of a flow is in force",
            Self::Waiting => "the minimum of a flow waits for rate to be released",
            Self::PromiseEnded => "a promise has ended",
            Self::LineRate => "the rate of a direction follows its line",
            Self::Log => "changes with their authors, faults, recoveries: a text",
            Self::Other => "anything of a newer daemon",
        }
    }
}

/// The kinds in a request, each of which must exist. In an event an unknown kind is that of a newer daemon.
pub(super) fn known_kinds<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Vec<EventKind>, D::Error> {
    let names = Vec::<String>::deserialize(deserializer)?;
    names.iter().map(|name| name.parse().map_err(D::Error::custom)).collect()
}

impl std::str::FromStr for EventKind {
    type Err = String;
    fn from_str(text: &str) -> Result<Self, String> {
        Self::ALL.into_iter().find(|kind| kind.name() == text).ok_or_else(|| {
            format!("there are no events called `{text}`; there are {}", Self::ALL.map(Self::name).join(", "))
        })
    }
}

/// An event. Its kind determines which optional keys are present; a client ignores unknown keys.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct Event {
    /// Determines the keys that are present.
    pub kind: EventKind,
    /// The time of the event, by the monotonic clock of the machine.
    #[serde(rename = "time_ns", with = "ns")]
    pub time: Span,
    /// The direction of the traffic.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub direction: Option<String>,
    /// The class; of a flow that was moved, the new one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub class: Option<String>,
    /// The class from which a flow was moved.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub from_class: Option<String>,
    /// The flow that the event is about.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub flow: Option<Flow>,
    /// The rate that the flow is granted.
    #[serde(rename = "granted_bps", with = "bps::option", default, skip_serializing_if = "Option::is_none")]
    pub granted: Option<Rate>,
    /// The minimum rate of the flow.
    #[serde(rename = "minimum_bps", with = "bps::option", default, skip_serializing_if = "Option::is_none")]
    pub minimum: Option<Rate>,
    /// The wait of the oldest packet of the flow.
    #[serde(rename = "delay_ns", with = "ns::option", default, skip_serializing_if = "Option::is_none")]
    pub delay: Option<Span>,
    /// Packets of the flow that were dropped, since it began.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub dropped: Option<u64>,
    /// Packets of the flow that were marked congestion experienced, since it began.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub marked: Option<u64>,
    /// The promise that the flow is under, or that ended.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub promise: Option<u64>,
    /// Bytes of the flow that are queued.
    #[serde(rename = "queue_bytes", with = "bytes::option", default, skip_serializing_if = "Option::is_none")]
    pub queue: Option<Bytes>,
    /// A text for display.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub text: Option<String>,
    /// Further data of events of this kind.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub data: Option<serde_json::Value>,
}

impl Event {
    /// Returns an event without optional keys.
    pub fn new(kind: EventKind, time: Span) -> Self {
        Self {
            kind,
            time,
            direction: None,
            class: None,
            from_class: None,
            flow: None,
            granted: None,
            minimum: None,
            delay: None,
            dropped: None,
            marked: None,
            promise: None,
            queue: None,
            text: None,
            data: None,
        }
    }
}

/// A transport protocol, by its number.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Protocol(pub u8);

impl Protocol {
    /// TCP.
    pub const TCP: Self = Self(6);
    /// UDP.
    pub const UDP: Self = Self(17);
}

impl fmt::Display for Protocol {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0 {
            1 => f.write_str("icmp"),
            6 => f.write_str("tcp"),
            17 => f.write_str("udp"),
            58 => f.write_str("icmpv6"),
            132 => f.write_str("sctp"),
            n => write!(f, "protocol {n}"),
        }
    }
}

/// A flow: its key in this run of the daemon, and the fields of its packets, where known.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
pub struct Flow {
    /// Hexadecimal; different after a restart.
    pub key: String,
    /// Transport protocol, by number.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub protocol: Option<Protocol>,
    /// Sending address.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub source: Option<IpAddr>,
    /// Sending port.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub source_port: Option<u16>,
    /// Receiving address.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub destination: Option<IpAddr>,
    /// Receiving port.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub destination_port: Option<u16>,
    /// Owner of the sending socket.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub uid: Option<u32>,
}

impl fmt::Display for Flow {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Some(protocol) = self.protocol else { return write!(f, "flow {}", self.key) };
        let end = |address: Option<IpAddr>, port: Option<u16>| match (address, port) {
            (Some(IpAddr::V6(address)), Some(port)) => format!("[{address}]:{port}"),
            (Some(address), Some(port)) => format!("{address}:{port}"),
            (Some(address), None) => address.to_string(),
            (None, _) => "?".into(),
        };
        let (from, to) = (end(self.source, self.source_port), end(self.destination, self.destination_port));
        write!(f, "{protocol} {from} > {to}")
    }
}
