//! `explain`: the class, flow and queues that a packet would meet now.

use std::net::IpAddr;

use serde::{Deserialize, Serialize};
use tidegate_units::{Rate, Span};

use super::coupled::CoupledQueues;
use super::observation::{HeldBy, QueueFields, Queued};
use super::{Flow, FlowObservation, Protocol};
use crate::quantities::{bps, ns};

/// The request `explain`: the known fields of a packet.
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
    /// The interface by which it came in, if it is forwarded.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub from_interface: Option<String>,
    /// Length with the IP header.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub length_bytes: Option<u16>,
    /// The octet of TCP flags, FIN the lowest bit.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tcp_flags: Option<u8>,
    /// Whether it is a TCP acknowledgement without data.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub pure_ack: bool,
    /// Type of an ICMP message; of ICMPv6 with IPv6 addresses.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub icmp_type: Option<u8>,
}

/// The reply to `explain`.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct Explained {
    /// The direction of the traffic.
    pub direction: String,
    /// The rule that matches, by its number in the file, from 1; those of reservations follow. None where no rule matches.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rule: Option<u32>,
    /// Whether rule and class are those of the flow's last packet, as the shaper recorded them. If not, they are derived from the
    /// request.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub recorded: bool,
    /// The choice of the rules now for a packet with the recorded fields, where it is not the recorded one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub now: Option<Choice>,
    /// The firewall mark of the flow's first packet, where class and rule are recorded.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub mark: Option<u32>,
    /// The interface by which it came in, where class and rule are recorded and a rule names it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub from_interface: Option<String>,
    /// The rules that do not hold now, by their times or their quotas, by number from 1.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub rules_off: Vec<u32>,
    /// Its class; the name of a reservation.
    pub class: String,
    /// The flow of the packet.
    pub flow: Flow,
    /// The backlog of all classes together.
    #[serde(flatten, with = "QueueFields")]
    pub queue: Queued,
    /// The queue of its class, where that is known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub class_queue: Option<Queued>,
    /// The coupled queues of DualPI2 in its class; absent where its discipline is another.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub coupled: Option<CoupledQueues>,
    /// The rate of its class.
    #[serde(rename = "class_rate_bps", with = "bps::option", default, skip_serializing_if = "Option::is_none")]
    pub class_rate: Option<Rate>,
    /// The levels of the token buckets that it must pass, where there are some.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub buckets: Option<Buckets>,
    /// The ceiling that the next packet of its flow waits for.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub held_by: Option<HeldBy>,
    /// Whether all flows of its class wait in a discipline of the class, so that `outlook_bps` and `at_most_bps` are of all
    /// together.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub shares_queue: bool,
    /// The rate at which its flow sends, or would, while others continue; none where the discipline has no shares.
    #[serde(rename = "outlook_bps", with = "bps::option", default, skip_serializing_if = "Option::is_none")]
    pub outlook: Option<Rate>,
    /// The most that its flow may send while others leave theirs, with what it borrows; none where the discipline has no shares.
    #[serde(rename = "at_most_bps", with = "bps::option", default, skip_serializing_if = "Option::is_none")]
    pub at_most: Option<Rate>,
    /// The rate that its class advises to its flow, as payload of datagrams; none where nothing is advised.
    #[serde(rename = "advice_bps", with = "bps::option", default, skip_serializing_if = "Option::is_none")]
    pub advice: Option<Rate>,
    /// The policy of that advice: `ceiling`, `fair-share` or `promise`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub advised_by: Option<String>,
    /// The time until the next queued packet may leave; none when nothing is queued.
    #[serde(rename = "due_ns", with = "ns::option", default, skip_serializing_if = "Option::is_none")]
    pub due: Option<Span>,
    /// The measurements of the flow, if it is present and flows are counted.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub seen: Option<FlowObservation>,
}

/// The rule and the class that the rules choose for a packet.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Choice {
    /// The rule, by its number as in [`Explained`]. None where no rule matches.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rule: Option<u32>,
    /// The class.
    pub class: String,
}

impl Explain {
    /// Whether the request describes a single packet, by fields in which packets of one flow may differ.
    pub fn is_of_a_packet(&self) -> bool {
        self.dscp.is_some()
            || self.mark.is_some()
            || self.from_interface.is_some()
            || self.length_bytes.is_some()
            || self.tcp_flags.is_some()
            || self.icmp_type.is_some()
    }
}

/// Levels of token buckets, in bytes; below zero a bucket is in debt.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Buckets {
    /// Level of the bucket of its class.
    pub class_bytes: i64,
    /// Depth of that bucket.
    pub class_depth_bytes: u64,
    /// Level of the bucket of all classes.
    pub all_bytes: i64,
    /// Depth of that bucket.
    pub all_depth_bytes: u64,
    /// Level of the bucket of its class's ceiling, if the class has one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ceiling_bytes: Option<i64>,
    /// Depth of that bucket.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ceiling_depth_bytes: Option<u64>,
}
