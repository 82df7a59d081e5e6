//! `explain`: where a packet would go, and what stands there at this moment.

use std::net::IpAddr;

use serde::{Deserialize, Serialize};
use tidegate_units::{Bytes, Rate, Span};

use super::{Flow, FlowSeen, Protocol};
use crate::quantities::{bps, bytes, ns};

/// A packet that may come. Everybody may ask; what is left out is not known of it.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Explain {
    /// The direction, where more than one is shaped.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub direction: Option<String>,
    /// Transport protocol, by number.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub protocol: Option<Protocol>,
    /// Sending address; given with the receiving one, of the same version.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub source: Option<IpAddr>,
    /// Sending port.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub source_port: Option<u16>,
    /// Receiving address.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub destination: Option<IpAddr>,
    /// Receiving port.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub destination_port: Option<u16>,
    /// Code point, 0 to 63. Default 0.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub dscp: Option<u8>,
    /// Firewall mark. Default 0.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub mark: Option<u32>,
    /// Owner of the sending socket.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub uid: Option<u32>,
}

/// Where it would go, and what stands there.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct Explained {
    /// The direction.
    pub direction: String,
    /// The rule that matches, by its number in the file, from 1. Reservations count on from there. None: no rule does.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rule: Option<u32>,
    /// Its class; the name of a reservation.
    pub class: String,
    /// Its flow.
    pub flow: Flow,
    /// What waits in all.
    pub queue_packets: u64,
    /// Its bytes.
    #[serde(with = "bytes")]
    pub queue_bytes: Bytes,
    /// What waits in its class, where that is known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub class_queue: Option<Waiting>,
    /// The rate of its class.
    #[serde(rename = "class_rate_bps", with = "bps::option", default, skip_serializing_if = "Option::is_none")]
    pub class_rate: Option<Rate>,
    /// What the buckets hold that it must pass, where there are some.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub buckets: Option<Buckets>,
    /// The rate at which its flow sends, or would, as things stand; none where the discipline knows no shares.
    #[serde(rename = "outlook_bps", with = "bps::option", default, skip_serializing_if = "Option::is_none")]
    pub outlook: Option<Rate>,
    /// Until when nothing of what waits may leave, from now on; none when nothing waits.
    #[serde(rename = "due_ns", with = "ns::option", default, skip_serializing_if = "Option::is_none")]
    pub due: Option<Span>,
    /// The flow as it was seen, if it is there and flows are counted: its waits, and drops by reason.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub seen: Option<FlowSeen>,
}

/// What waits.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Waiting {
    /// Packets.
    pub packets: u64,
    /// Their bytes.
    #[serde(with = "bytes")]
    pub bytes: Bytes,
}

/// What buckets hold, in bytes; below zero one is in debt.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Buckets {
    /// That of its class.
    pub class_bytes: i64,
    /// What that holds when it is full.
    pub class_depth_bytes: u64,
    /// That of all classes together.
    pub all_bytes: i64,
    /// What that holds when it is full.
    pub all_depth_bytes: u64,
}
