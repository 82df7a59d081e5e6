//! Classes of flows, of a shaper file and of the discipline `fbq`: their sections, and what these are resolved to.

pub mod file;
mod parameters;
mod resolve;

use std::fmt;
use std::net::IpAddr;

use tidegate_autorate::Bounds;
use tidegate_core::fbq::{Ceiling, Ceilings};
use tidegate_core::{Bytes, ClassId, Dscp, Rate, Span};

use crate::discipline::Discipline;
use crate::values::{
    DnsName, HostName, Lengths, Mac, Mark, MessageType, Percent, Ports, Prefix, Protocol, Quota, TcpFlags, Times, User,
    WeekMinute, dscp_name,
};

pub use file::{Advice, Bursts, FairBy, FlowBy, Sharing};
pub(crate) use parameters::profiles;
pub(crate) use resolve::{ceiling, lookup, resolve};

/// An FBC: classes under one total rate.
#[derive(Clone, Debug)]
pub struct Shaper {
    /// The total rate, which is never exceeded.
    pub rate: Rate,
    /// The burst of all classes together.
    pub burst: Bytes,
    /// Which packets form one flow.
    pub flow_by: FlowBy,
    /// Who shares a class equally. [`FairBy::Host`] has been resolved to one of the two addresses.
    pub fair_by: FairBy,
    /// A flow that sends nothing for this long has ended.
    pub idle_timeout: Span,
    /// The largest number of flows in the table.
    pub flows: u32,
    /// Between which rates it follows the line, if it does.
    pub follow: Option<Follow>,
    /// The classes in the order of the file; [`ClassId`] `i` is the `i`-th.
    pub classes: Vec<Class>,
}

/// How the rate of a shaper follows its line.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Follow {
    /// The bounds; the base is the rate of the shaper.
    pub bounds: Bounds,
    /// Hosts beyond the line that may be probed.
    pub peers: Vec<IpAddr>,
}

/// The addresses of a packet by which flows are divided over threads.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum DividedBy {
    /// The source address.
    Source,
    /// The destination address.
    Destination,
    /// Both addresses.
    HostPair,
}

/// A queue limit is not scaled below this many bytes: 64 packets of Ethernet.
const LEAST_LIMIT: u64 = 64 * 1_500;

impl Shaper {
    /// The same shaper at another total rate. Classes keep their shares, and limits hold as much time as before but at least 64
    /// packets; bursts grow with the rate, and do not shrink. Ceilings stay, and no class is guaranteed more than its own.
    #[must_use]
    pub fn at_rate(&self, rate: Rate) -> Self {
        let (new, old) = (u128::from(rate.as_bps()), u128::from(self.rate.as_bps().max(1)));
        let scaled = |value: u64| u64::try_from(u128::from(value) * new / old).unwrap_or(u64::MAX);
        let burst = |burst: Bytes| Bytes::new(scaled(burst.as_u64())).max(burst);
        let limit = |limit: Bytes| Bytes::new(scaled(limit.as_u64()).max(limit.as_u64().min(LEAST_LIMIT)));
        let class = |class: &Class| Class {
            rate: Rate::from_bps(scaled(class.rate.as_bps()).max(1))
                .min(class.at_most.class.map_or(Rate::from_bps(u64::MAX), |ceiling| ceiling.rate)),
            burst: burst(class.burst),
            flow_burst: burst(class.flow_burst),
            limit: limit(class.limit),
            flow_limit: limit(class.flow_limit),
            ..class.clone()
        };
        let classes: Vec<Class> = self.classes.iter().map(class).collect();
        let sum: Rate = classes.iter().map(|class| class.rate).sum();
        Self { rate: rate.max(sum), burst: burst(self.burst), classes, ..self.clone() }
    }

    /// The addresses that all packets of a flow have in common, or all packets of a host if hosts share a class; `None`
    /// if a flow may have any addresses.
    pub fn divided_by(&self) -> Option<DividedBy> {
        match (self.fair_by, self.flow_by) {
            (_, FlowBy::User | FlowBy::ControlGroup | FlowBy::Dscp | FlowBy::Mark) => None,
            (FairBy::Host | FairBy::Source, FlowBy::Destination)
            | (FairBy::Destination, FlowBy::Source | FlowBy::Socket) => None,
            (FairBy::Host | FairBy::Source, _) | (FairBy::Flow, FlowBy::Source | FlowBy::Socket) => {
                Some(DividedBy::Source)
            }
            (FairBy::Destination, _) | (FairBy::Flow, FlowBy::Destination) => Some(DividedBy::Destination),
            (FairBy::Flow, FlowBy::FiveTuple | FlowBy::HostPair) => Some(DividedBy::HostPair),
        }
    }
}

/// A class: an FBQ, or a discipline behind a bucket.
#[derive(Clone, Debug)]
pub struct Class {
    /// The name that rules, calls and counters use; unique in the file.
    pub name: String,
    /// The guaranteed rate of the class.
    pub rate: Rate,
    /// Whether the rate is what the other classes leave of the total, because the file states none.
    pub is_rest: bool,
    /// TB(q): the burst of the class.
    pub burst: Bytes,
    /// TB(f): the burst of one flow.
    pub flow_burst: Bytes,
    /// Classes with a smaller number are served first.
    pub priority: u8,
    /// The code point that its packets are marked with; with `None` they keep theirs.
    pub dscp: Option<Dscp>,
    /// Whether the token bucket bounds the whole class.
    pub bursts: Bursts,
    /// Who gets the share that a flow leaves unused.
    pub share: Sharing,
    /// Whether the class uses capacity that other classes leave unused.
    pub borrow: Borrow,
    /// The ceilings of the class, of each of its hosts and of each of its flows.
    pub at_most: Ceilings,
    /// The queue limit of the class in bytes.
    pub limit: Bytes,
    /// The queue limit of one flow in bytes.
    pub flow_limit: Bytes,
    /// `incr`: how much one step of preference adds to the share of a flow.
    pub increment: Percent,
    /// When to notify the owner of a flow that its queue is filling up.
    pub feedback: Option<Feedback>,
    /// The delay from which packets of ECT(1) are marked.
    pub l4s_step: Option<Span>,
    /// The rate advised to flows of QUIC that ask for it.
    pub advice: Advice,
    /// A discipline instead of one queue per flow.
    pub queue: Option<Discipline>,
}

/// Whether a class uses capacity that other classes leave unused.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Borrow {
    /// The class borrows.
    Allowed,
    /// The class does not exceed its own rate.
    Never,
}

/// When to notify the owner of a flow that its queue is filling up.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Feedback {
    /// The fill level of the flow's queue above which the owner is notified.
    pub above: Percent,
    /// The fill level below which the owner is notified that there is space again.
    pub below: Percent,
    /// Whether packets are marked as well.
    pub ecn: EcnFeedback,
}

/// Whether feedback marks packets.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum EcnFeedback {
    /// ECN-capable packets of a flow above its threshold are marked.
    Mark,
    /// The owner receives events only.
    Off,
}

/// Assigns packets to a class, and makes promises to their flows.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Rule {
    /// The name, if the file has one.
    pub name: Option<String>,
    /// The class of packets that match.
    pub class: ClassId,
    /// The conditions on a packet.
    pub matches: Match,
    /// The share of each flow relative to flows of weight 1; at least 1.
    pub weight: u32,
    /// dmin(f): the minimum rate of each flow.
    pub minimum: Rate,
    /// The number of flows for which the minimum is guaranteed.
    pub flows: u32,
    /// The class to which a flow moves when its share falls too low.
    pub displace: Option<Displace>,
    /// The ceiling of all packets that match, together.
    pub at_most: Option<Ceiling>,
}

/// The conditions on a packet. An empty list matches everything, otherwise one element must match.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Match {
    /// Code points.
    pub dscps: Vec<Dscp>,
    /// Protocols above IP.
    pub protocols: Vec<Protocol>,
    /// Sending addresses.
    pub sources: Vec<Prefix>,
    /// Receiving addresses.
    pub destinations: Vec<Prefix>,
    /// Addresses at either end: the sender's or the receiver's.
    pub hosts: Vec<Prefix>,
    /// Sending ports.
    pub source_ports: Vec<Ports>,
    /// Receiving ports.
    pub destination_ports: Vec<Ports>,
    /// Devices at either end: hosts with the addresses that the neighbours with these hardware addresses have.
    pub macs: Vec<Mac>,
    /// Devices at either end: hosts with the addresses that leases have for these names.
    pub host_names: Vec<HostName>,
    /// Hosts at either end: those with the addresses that passing answers of the Domain Name System had for these names.
    pub dns_names: Vec<DnsName>,
    /// Ports at either end.
    pub ports: Vec<Ports>,
    /// Whether packets match, too, that meet the other conditions with source and destination exchanged.
    pub both_ways: bool,
    /// Firewall marks.
    pub marks: Vec<Mark>,
    /// Owners of the sending socket.
    pub users: Vec<User>,
    /// Control groups of the sending socket, without the leading slash.
    pub cgroups: Vec<String>,
    /// Interfaces by which forwarded packets came in.
    pub from_interfaces: Vec<String>,
    /// Lengths of packets.
    pub lengths: Vec<Lengths>,
    /// Flags of TCP segments.
    pub tcp_flags: Vec<TcpFlags>,
    /// Whether packets must be TCP acknowledgements without data.
    pub pure_ack: bool,
    /// Types of ICMP messages.
    pub icmp_types: Vec<MessageType>,
    /// Times at which the rule holds.
    pub when: Vec<Times>,
    /// The bytes after which the rule does not match any more until the next period.
    pub quota: Option<Quota>,
}

impl Rule {
    /// The name, or else the conditions as text.
    pub fn label(&self) -> String {
        self.name.clone().unwrap_or_else(|| self.matches.to_string())
    }
}

impl Match {
    /// The keys of conditions about single packets, in which the packets of a flow differ.
    pub fn keys_of_packets(&self) -> impl Iterator<Item = &'static str> {
        [
            ("length", !self.lengths.is_empty()),
            ("tcp-flags", !self.tcp_flags.is_empty()),
            ("pure-ack", self.pure_ack),
            ("icmp-type", !self.icmp_types.is_empty()),
        ]
        .into_iter()
        .filter_map(|(key, is_used)| is_used.then_some(key))
    }
    /// Whether the conditions can hold at the minute `now` of the week.
    pub fn holds_at(&self, now: WeekMinute) -> bool {
        self.when.is_empty() || self.when.iter().any(|times| times.contains(now))
    }
    /// The key of a condition that needs a clock: `when` or `quota`.
    pub fn key_of_clock(&self) -> Option<&'static str> {
        let quota = self.quota.map(|_| "quota");
        if self.when.is_empty() { quota } else { Some("when") }
    }
    /// Whether every packet matches.
    pub fn is_everything(&self) -> bool {
        *self == Self::default()
    }
}

impl fmt::Display for Match {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let listed = [
            ("dscp", self.dscps.iter().copied().map(dscp_name).collect::<Vec<_>>()),
            ("protocol", texts(&self.protocols)),
            ("source", texts(&self.sources)),
            ("source-port", texts(&self.source_ports)),
            ("destination", texts(&self.destinations)),
            ("destination-port", texts(&self.destination_ports)),
            ("host", texts(&self.hosts)),
            ("mac", texts(&self.macs)),
            ("host-name", texts(&self.host_names)),
            ("dns-name", texts(&self.dns_names)),
            ("port", texts(&self.ports)),
            ("mark", texts(&self.marks)),
            ("uid", texts(&self.users)),
            ("cgroup", texts(&self.cgroups)),
            ("from-interface", texts(&self.from_interfaces)),
            ("length", texts(&self.lengths)),
            ("tcp-flags", texts(&self.tcp_flags)),
            ("icmp-type", texts(&self.icmp_types)),
            ("when", texts(&self.when)),
            ("quota", self.quota.iter().map(ToString::to_string).collect()),
        ];
        let parts: Vec<String> = listed
            .into_iter()
            .filter(|(_, values)| !values.is_empty())
            .map(|(key, values)| format!("{key} {}", values.join(",")))
            .chain(self.pure_ack.then(|| "pure-ack".into()))
            .collect();
        f.write_str(if parts.is_empty() { "everything" } else { "" })?;
        f.write_str(&parts.join(" "))?;
        f.write_str(if self.both_ways { ", both ways" } else { "" })
    }
}

fn texts<T: ToString>(list: &[T]) -> Vec<String> {
    list.iter().map(T::to_string).collect()
}

/// The class to which a flow moves when its share falls too low.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Displace {
    /// thres(f): the share, as a rate, below which the flow moves.
    pub below: Rate,
    /// The class to which the flow moves.
    pub to: ClassId,
}
