//! `promise`, `renew`, `release`, `promises`, `feedback`: what an application requests for flows.

use std::net::IpAddr;

use serde::{Deserialize, Serialize};
use tidegate_units::{Rate, Span};

use super::events::known_kinds;
use super::{EventKind, Flow, Protocol};
use crate::quantities::{bps, ns};

/// A selection of flows. Every condition must hold; a target without a condition is refused.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Target {
    /// From or to this port.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub port: Option<u16>,
    /// Flows of this transport protocol, by number.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub protocol: Option<Protocol>,
    /// From this address.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub source: Option<IpAddr>,
    /// From this port.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub source_port: Option<u16>,
    /// To this address.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub destination: Option<IpAddr>,
    /// To this port.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub destination_port: Option<u16>,
    /// Flows of sockets of this user.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub uid: Option<u32>,
    /// Flows of sockets of the processes in this control group and those below it; the path below /sys/fs/cgroup.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cgroup: Option<String>,
    /// Flows of sockets of this process and its descendants.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub pid: Option<u32>,
}

impl Target {
    /// Whether it has no condition.
    pub fn is_empty(&self) -> bool {
        *self == Self::default()
    }
}

/// The threshold and the destination of a displacement.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Displacement {
    /// The granted rate below which a flow is displaced; above its minimum.
    #[serde(rename = "below_bps", with = "bps")]
    pub below: Rate,
    /// The class that it is displaced to. It returns when its class has the rate.
    pub to: String,
}

/// The request `promise`. The promise ends with the connection, unless it is `detached`, and when its lease is over.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct PromiseCall {
    /// The flows. They need not exist yet.
    pub target: Target,
    /// The direction of the traffic. Default: the first that is shaped.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub direction: Option<String>,
    /// The class in which rate is reserved for flows to come. Default: the one in which most of such flows are now; if there are
    /// none yet, the one that the rules choose for such flows.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub class: Option<String>,
    /// The minimum rate of each of these flows.
    #[serde(rename = "minimum_bps", with = "bps::option", skip_serializing_if = "Option::is_none")]
    pub minimum: Option<Rate>,
    /// The number of flows for which the minimum is reserved; further ones are granted it when rate is free. Default 1.
    pub flows: u32,
    /// Steps of preference of each.
    pub prefer: u32,
    /// Their displacement.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub displace: Option<Displacement>,
    /// The promise ends after this time, unless it is renewed.
    #[serde(rename = "lease_ns", with = "ns::option", skip_serializing_if = "Option::is_none")]
    pub lease: Option<Span>,
    /// Whether the promise outlives the connection, which requires a lease.
    pub detached: bool,
    /// Whether a minimum that does not fit is queued: flows begin without it and are granted it when rate is released.
    /// Otherwise such a promise is refused.
    pub wait: bool,
}

impl Default for PromiseCall {
    fn default() -> Self {
        Self {
            target: Target::default(),
            direction: None,
            class: None,
            minimum: None,
            flows: 1,
            prefer: 0,
            displace: None,
            lease: None,
            detached: false,
            wait: false,
        }
    }
}

/// The promise that was made.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct Promised {
    /// The number of the promise.
    pub promise: u64,
    /// The subscription to its events: `rate`, `promised`, `waiting`, `moved`, `promise-ended` and all others of the flows
    /// under it.
    pub subscription: u64,
    /// The state of the promise.
    pub state: PromiseState,
}

/// The state of a promise.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct PromiseState {
    /// The number of the promise.
    pub promise: u64,
    /// The user who requested it.
    pub uid: u32,
    /// The direction of the traffic.
    pub direction: String,
    /// The class in which rate is reserved for flows to come.
    pub class: String,
    /// Another class in which flows under the promise are now, and have their minimum from, or wait for it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub elsewhere: Option<String>,
    /// The flows under the promise.
    pub target: Target,
    /// The minimum rate of each flow.
    #[serde(rename = "minimum_bps", with = "bps")]
    pub minimum: Rate,
    /// Steps of preference.
    pub prefer: u32,
    /// Flows present under it.
    pub flows: u64,
    /// Those of them whose minimum waits for rate.
    pub waiting: u64,
    /// The rate that these flows are granted now, in total.
    #[serde(rename = "granted_bps", with = "bps")]
    pub granted: Rate,
    /// The number of flows to come for which rate is reserved.
    pub held: u32,
    /// The rate that could still be promised in the class.
    #[serde(rename = "free_bps", with = "bps")]
    pub free: Rate,
    /// Why flows under it wait for their minimum, or nothing is reserved for flows to come, and what helps, in words.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub obstacle: Option<String>,
    /// The time left of its lease.
    #[serde(rename = "lease_ns", with = "ns::option", default, skip_serializing_if = "Option::is_none")]
    pub lease: Option<Span>,
    /// Whether it outlives its connection.
    pub detached: bool,
}

/// The request `renew`.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Renew {
    /// Number of the promise.
    pub promise: u64,
    /// The new lease, from now on.
    #[serde(rename = "lease_ns", with = "ns")]
    pub lease: Span,
}

/// The request `release`.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Release {
    /// Number of the promise.
    pub promise: u64,
}

/// The reply to `release`.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Released {}

/// The request `promises`.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Promises {}

/// The reply to `promises`.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct PromiseList {
    /// In the order in which they were made.
    pub promises: Vec<PromiseState>,
}

/// The request `feedback`.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Feedback {
    /// The flows. They need not exist yet.
    pub target: Target,
    /// The direction of the traffic. Default: the first that is shaped.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub direction: Option<String>,
    /// The wait of the oldest packet that is reported by `delay-above`; `delay-below` reports half of it. Default 20 ms. Of
    /// several for one flow, the shortest applies.
    #[serde(rename = "delay_ns", with = "ns::option", skip_serializing_if = "Option::is_none")]
    pub delay: Option<Span>,
    /// Events of these kinds only. Default: all. A flow that overloads its class is reported with each of its drops.
    #[serde(skip_serializing_if = "Vec::is_empty", deserialize_with = "known_kinds")]
    pub kinds: Vec<EventKind>,
}

/// The reply to `feedback`.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct Watching {
    /// The number that every notification carries.
    pub subscription: u64,
    /// The flows present, at most 64 of them.
    pub flows: Vec<FlowState>,
}

/// The state of a flow.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct FlowState {
    /// Its key and its addresses.
    pub flow: Flow,
    /// The class that serves it.
    pub class: String,
    /// The rate that it is granted.
    #[serde(rename = "granted_bps", with = "bps")]
    pub granted: Rate,
    /// Its minimum rate.
    #[serde(rename = "minimum_bps", with = "bps")]
    pub minimum: Rate,
    /// Whether the minimum is in force.
    pub promised: bool,
}
