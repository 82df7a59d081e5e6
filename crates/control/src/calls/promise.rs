//! `promise`, `renew`, `release`, `promises`, `feedback`: what an application asks for its own flows.

use std::net::IpAddr;

use serde::{Deserialize, Serialize};
use tidegate_units::{Rate, Span};

use super::{Flow, Protocol};
use crate::quantities::{bps, ns};

/// Which flows. All that is given must hold; a target without anything is refused.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Target {
    /// From or to this port.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub port: Option<u16>,
    /// Of this transport protocol, by number.
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
    /// Of sockets of this user.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub uid: Option<u32>,
    /// Of sockets of the processes in this control group and those below it; the path below /sys/fs/cgroup.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cgroup: Option<String>,
    /// Of sockets of this process and its descendants.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub pid: Option<u32>,
}

impl Target {
    /// Whether it says nothing.
    pub fn is_empty(&self) -> bool {
        *self == Self::default()
    }
}

/// When a flow is to be displaced, and where to.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Displacement {
    /// The granted rate below which it goes; above the minimum.
    #[serde(rename = "below_bps", with = "bps")]
    pub below: Rate,
    /// The class it goes to. It comes back when there is room.
    pub to: String,
}

/// Asks for a promise. It ends with the connection, unless it is `detached`; in any case when its lease is over.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct PromiseCall {
    /// For which flows. They need not exist yet.
    pub target: Target,
    /// In which direction of the traffic. Default: the first that is shaped.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub direction: Option<String>,
    /// In which class rate is held for flows to come. Default: where the rules of the configuration put such flows.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub class: Option<String>,
    /// What each of these flows is granted at least.
    #[serde(rename = "minimum_bps", with = "bps::option", skip_serializing_if = "Option::is_none")]
    pub minimum: Option<Rate>,
    /// For how many flows the minimum is held; more of them get it as soon as there is room. Default 1.
    pub flows: u32,
    /// Steps of preference for each.
    pub prefer: u32,
    /// When they are displaced, and where to.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub displace: Option<Displacement>,
    /// The promise ends after this long, unless it is renewed.
    #[serde(rename = "lease_ns", with = "ns::option", skip_serializing_if = "Option::is_none")]
    pub lease: Option<Span>,
    /// Whether the promise outlives the connection; it needs a lease then.
    pub detached: bool,
    /// Whether to take what there is when there is no room: flows begin with nothing and get their minimum as soon as
    /// somebody releases it. Else the promise is refused.
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

/// The promise is given.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct Promised {
    /// Its number.
    pub promise: u64,
    /// The subscription on which changes are pushed: `rate`, `promised`, `waiting`, `moved`, `promise-ended` and all
    /// else that happens to the flows under it.
    pub subscription: u64,
    /// How it stands.
    pub state: PromiseState,
}

/// A promise, as it stands.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct PromiseState {
    /// Its number.
    pub promise: u64,
    /// Who asked for it.
    pub uid: u32,
    /// In which direction.
    pub direction: String,
    /// The class in which rate is held for flows to come.
    pub class: String,
    /// For which flows.
    pub target: Target,
    /// What each is granted at least.
    #[serde(rename = "minimum_bps", with = "bps")]
    pub minimum: Rate,
    /// Steps of preference.
    pub prefer: u32,
    /// Flows that are under it.
    pub flows: u64,
    /// Of those, flows whose minimum waits for room.
    pub waiting: u64,
    /// What the flows that are there are granted now, together.
    #[serde(rename = "granted_bps", with = "bps")]
    pub granted: Rate,
    /// For how many flows to come rate is held.
    pub held: u32,
    /// What could still be promised in the class.
    #[serde(rename = "free_bps", with = "bps")]
    pub free: Rate,
    /// What is left of its lease.
    #[serde(rename = "lease_ns", with = "ns::option", default, skip_serializing_if = "Option::is_none")]
    pub lease: Option<Span>,
    /// Whether it outlives its connection.
    pub detached: bool,
}

/// Another lease for a promise, from now on.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Renew {
    /// Which.
    pub promise: u64,
    /// For how long.
    #[serde(rename = "lease_ns", with = "ns")]
    pub lease: Span,
}

/// Ends a promise: the flows under it are again what the configuration says.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Release {
    /// Which.
    pub promise: u64,
}

/// It has ended.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Released {}

/// Lists all promises. Everybody may.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Promises {}

/// All promises.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct PromiseList {
    /// In the order in which they were given.
    pub promises: Vec<PromiseState>,
}

/// Subscribes to all that happens to some flows, from within 5 ms of it: rate, queue thresholds, delay, drops, marks,
/// class. How the flows stand is pushed first. Everybody may. Ended by `unsubscribe`.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Feedback {
    /// Which flows. They need not exist yet.
    pub target: Target,
    /// In which direction of the traffic. Default: the first that is shaped.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub direction: Option<String>,
    /// Above which wait of the oldest packet `delay-above` is said; `delay-below` at half of it. Default 20 ms. Where
    /// several watch a flow, the shortest is taken.
    #[serde(rename = "delay_ns", with = "ns::option", skip_serializing_if = "Option::is_none")]
    pub delay: Option<Span>,
}

/// It is subscribed.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct Watching {
    /// The number that stands in every push.
    pub subscription: u64,
    /// The flows that are there, at most 64 of them.
    pub flows: Vec<FlowState>,
}

/// A flow, as it stands.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct FlowState {
    /// Who it is.
    pub flow: Flow,
    /// The class it is in.
    pub class: String,
    /// What it is granted.
    #[serde(rename = "granted_bps", with = "bps")]
    pub granted: Rate,
    /// Its minimum.
    #[serde(rename = "minimum_bps", with = "bps")]
    pub minimum: Rate,
    /// Whether the minimum is in force.
    pub promised: bool,
}
