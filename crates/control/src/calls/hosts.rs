//! Hosts: the sums over the flows of one address on this side of the line.

use std::cmp::Reverse;
use std::collections::BTreeMap;
use std::net::IpAddr;

use serde::{Deserialize, Serialize};
use tidegate_units::{Bytes, Rate, Span};

use super::Rival;
use super::observation::{DirectionObservation, FlowObservation, HeldBy, Observation};
use crate::quantities::{bps, bytes, ns};

/// A host, with both directions of its flows.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct HostObservation {
    /// Its address on this side of the line.
    pub address: IpAddr,
    /// Its name in a lease, in `/etc/hosts` or, if requested, by the resolver of the daemon.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    /// The packets that it sends.
    pub up: HostDirection,
    /// The packets that it receives.
    pub down: HostDirection,
    /// The class of its fastest flow.
    pub class: String,
    /// The limit of its rate.
    pub limited_by: HostLimit,
    /// The class that has the rate which its packets wait for; present where its share limits it and another class takes more.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rival: Option<Rival>,
}

/// One direction of a host.
#[derive(Clone, PartialEq, Debug, Default, Serialize, Deserialize)]
pub struct HostDirection {
    /// The rate at which its packets are sent.
    #[serde(rename = "rate_bps", with = "bps")]
    pub rate: Rate,
    /// The sum of the shares of its flows; none where the discipline has no shares.
    #[serde(rename = "share_bps", with = "bps::option", default, skip_serializing_if = "Option::is_none")]
    pub share: Option<Rate>,
    /// Flows that are remembered.
    pub flows: u64,
    /// Bytes queued.
    #[serde(with = "bytes")]
    pub queue_bytes: Bytes,
    /// The longest of the 99th percentiles of the waits of its flows that sent something lately.
    #[serde(rename = "wait_p99_ns", with = "ns")]
    pub wait_p99: Span,
    /// Bytes sent since the host was first observed.
    #[serde(with = "bytes")]
    pub sent_bytes: Bytes,
    /// Packets dropped since then.
    pub dropped_packets: u64,
}

/// The limit of the rate of a host.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum HostLimit {
    /// It sends less than it may.
    #[default]
    Demand,
    /// One of its flows has a queue, so that it is sent as much as its share permits.
    Share,
    /// The ceiling of its class.
    ClassCeiling,
    /// Its own ceiling.
    HostCeiling,
    /// The ceiling of a rule.
    RuleCeiling,
    /// The ceiling of a flow.
    FlowCeiling,
}

impl From<HeldBy> for HostLimit {
    fn from(held_by: HeldBy) -> Self {
        match held_by {
            HeldBy::Class => Self::ClassCeiling,
            HeldBy::Host => Self::HostCeiling,
            HeldBy::Rule => Self::RuleCeiling,
            HeldBy::Flow => Self::FlowCeiling,
        }
    }
}

impl HostLimit {
    /// Returns it in two words.
    pub const fn text(self) -> &'static str {
        match self {
            Self::Demand => "itself",
            Self::Share => "its share",
            Self::ClassCeiling => "its class",
            Self::HostCeiling => "its limit",
            Self::RuleCeiling => "its rule",
            Self::FlowCeiling => "its flows",
        }
    }
}

/// Whether packets of the direction arrive: `down`, and `wan0.down` of several files.
pub fn arrives(direction: &str) -> bool {
    direction.ends_with("down")
}

/// The end of `flow` on this side of the line: the source of what goes up, the destination of what comes down. `None` for an
/// address that is not one host's or holds on one link only, as those of neighbour discovery and of groups.
pub fn host_of(direction: &str, flow: &FlowObservation) -> Option<IpAddr> {
    let address = if arrives(direction) { flow.flow.destination } else { flow.flow.source };
    address.filter(|address| {
        let on_link = match address {
            IpAddr::V4(address) => address.is_link_local() || address.is_broadcast(),
            IpAddr::V6(address) => address.is_unicast_link_local(),
        };
        !(on_link || address.is_unspecified() || address.is_multicast())
    })
}

/// Returns the hosts of the flows that are `wanted`, the fastest first, without names. What was sent and dropped is that of
/// these flows.
pub fn hosts(directions: &[DirectionObservation], wanted: impl Fn(&FlowObservation) -> bool) -> Vec<HostObservation> {
    let mut found: BTreeMap<IpAddr, (HostObservation, Option<Rate>)> = BTreeMap::new();
    for direction in directions {
        for flow in direction.flows.iter().filter(|flow| wanted(flow)) {
            let Some(address) = host_of(&direction.name, flow) else { continue };
            let (host, fastest) = found.entry(address).or_insert_with(|| (HostObservation::new(address), None));
            host.way(&direction.name).add(flow);
            if fastest.is_none_or(|fastest| flow.rate > fastest) {
                *fastest = Some(flow.rate);
                host.class.clone_from(&flow.class);
            }
            // A flow with a queue takes all that it is given.
            let limit = flow.held_by.map_or(HostLimit::Share, HostLimit::from);
            if flow.queue.packets > 0 && (limit != HostLimit::Share || host.limited_by == HostLimit::Demand) {
                host.limited_by = limit;
            }
        }
    }
    for direction in directions {
        for (address, limit) in reached(direction, &wanted) {
            if let Some((host, _)) = found.get_mut(&address).filter(|(host, _)| host.limited_by == HostLimit::Share) {
                host.limited_by = limit;
            }
        }
    }
    for direction in directions {
        for (address, class) in queued_in(direction, &wanted) {
            let host = found.get_mut(&address).map(|(host, _)| host);
            if let Some(host) = host.filter(|host| host.limited_by == HostLimit::Share && host.rival.is_none()) {
                host.rival = Rival::of_class(direction, class);
            }
        }
    }
    let mut hosts: Vec<HostObservation> = found.into_values().map(|(host, _)| host).collect();
    hosts.sort_by_key(|host| (Reverse(host.both().rate), host.address));
    hosts
}

/// The hosts with a queue, each with the class of the longest one.
fn queued_in(direction: &DirectionObservation, wanted: impl Fn(&FlowObservation) -> bool) -> BTreeMap<IpAddr, &str> {
    let queued = direction.flows.iter().filter(|flow| wanted(flow) && flow.queue.packets > 0);
    let mut longest: BTreeMap<IpAddr, (Bytes, &str)> = BTreeMap::new();
    for flow in queued {
        let Some(address) = host_of(&direction.name, flow) else { continue };
        let known = longest.entry(address).or_insert((flow.queue.bytes, flow.leaves_through()));
        if flow.queue.bytes > known.0 {
            *known = (flow.queue.bytes, flow.leaves_through());
        }
    }
    longest.into_iter().map(|(address, (_, class))| (address, class)).collect()
}

/// The hosts with a queue that send at a ceiling of their class, of themselves or of a flow. At the moment of an observation the next
/// packet of a host that is held may just be allowed to leave.
fn reached(direction: &DirectionObservation, wanted: impl Fn(&FlowObservation) -> bool) -> BTreeMap<IpAddr, HostLimit> {
    let of_host = |flow: &&FlowObservation| Some((host_of(&direction.name, flow)?, flow.class.clone()));
    let flows = || direction.flows.iter().filter(|flow| wanted(flow));
    let mut rates: BTreeMap<(IpAddr, String), u64> = BTreeMap::new();
    for flow in flows() {
        if let Some(key) = of_host(&flow) {
            *rates.entry(key).or_default() += flow.rate.as_bps();
        }
    }
    let is_at = |rate: u64, ceiling: Option<Rate>| ceiling.is_some_and(|most| rate >= most.as_bps() / 8 * 7);
    let limit = |flow: &FlowObservation, of_host: u64| {
        let class = direction.classes.iter().find(|class| class.name == flow.class)?;
        match class.ceilings {
            ceilings if is_at(flow.rate.as_bps(), ceilings.flow) => Some(HostLimit::FlowCeiling),
            ceilings if is_at(of_host, ceilings.host) => Some(HostLimit::HostCeiling),
            ceilings if is_at(class.rate.as_bps(), ceilings.class) => Some(HostLimit::ClassCeiling),
            _ => None,
        }
    };
    let queued = flows().filter(|flow| flow.queue.packets > 0);
    let of_flow = |flow: &FlowObservation| {
        let key = of_host(&flow)?;
        Some((key.0, limit(flow, rates.get(&key).copied().unwrap_or_default())?))
    };
    queued.filter_map(of_flow).collect()
}

impl HostObservation {
    /// Returns what limits it, with the class that has the rate which it waits for: `its share: calls is served first, 61 %`.
    pub fn limit_text(&self) -> String {
        let limit = self.limited_by.text();
        self.rival.as_ref().map_or_else(|| limit.to_owned(), |rival| format!("{limit}: {}", rival.text()))
    }
    fn new(address: IpAddr) -> Self {
        Self {
            address,
            name: None,
            up: HostDirection::default(),
            down: HostDirection::default(),
            class: String::new(),
            limited_by: HostLimit::default(),
            rival: None,
        }
    }

    /// The direction of the host that a direction of this name is for.
    pub fn way(&mut self, direction: &str) -> &mut HostDirection {
        if arrives(direction) { &mut self.down } else { &mut self.up }
    }
}

impl HostDirection {
    fn add(&mut self, flow: &FlowObservation) {
        let sum = |a: Rate, b: Rate| Rate::from_bps(a.as_bps().saturating_add(b.as_bps()));
        self.rate = sum(self.rate, flow.rate);
        if let Some(share) = flow.share {
            self.share = Some(sum(self.share.unwrap_or(Rate::ZERO), share));
        }
        self.flows += 1;
        self.queue_bytes += flow.queue.bytes;
        if flow.is_active() {
            self.wait_p99 = self.wait_p99.max(flow.wait.p99);
        }
        self.sent_bytes += flow.sent_bytes;
        self.dropped_packets += flow.dropped_packets();
    }
}

impl Observation {
    /// The maximum number of hosts in an observation.
    pub const MOST_HOSTS: usize = 64;
    /// The maximum number of rules in an observation, for each direction.
    pub const MOST_RULES: usize = 256;
}
