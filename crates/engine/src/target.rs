//! [`Target`]: conditions on packets that select the flows of a promise, or the flows that feedback is about.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::ops::RangeInclusive;

use tidegate_core::classify::{Fields, Hosts, Match, Prefix};

/// UDP and TCP, which are tried for a target without a protocol.
const PROTOCOLS: [u8; 2] = [17, 6];
/// The most conditions for which samples are made.
const SAMPLED: usize = 8;

/// Conditions on the packets of flows. All that are given must hold.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Target {
    /// The protocol.
    pub protocol: Option<u8>,
    /// The sending address.
    pub source: Option<IpAddr>,
    /// The receiving address.
    pub destination: Option<IpAddr>,
    /// A port at either end.
    pub port: Option<u16>,
    /// The sending port.
    pub source_port: Option<u16>,
    /// The receiving port.
    pub destination_port: Option<u16>,
    /// The owner of the sending socket.
    pub uid: Option<u32>,
}

/// Why a target can match no packet.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum NoTarget {
    /// The addresses are of two versions of IP.
    Versions,
    /// The port is neither the sending nor the receiving port.
    Ports,
}

impl Target {
    /// Returns alternatives: a packet belongs to the target if it matches at least one of them.
    ///
    /// # Errors
    /// See [`NoTarget`].
    pub fn matches(&self) -> Result<Vec<Match>, NoTarget> {
        let port = |port: Option<u16>| port.map(|port| port..=port).into_iter().collect();
        let base = Match {
            protocol: self.protocol,
            source: self.source.map(Prefix::host),
            destination: self.destination.map(Prefix::host),
            source_ports: port(self.source_port),
            destination_ports: port(self.destination_port),
            uid: self.uid.map(|uid| uid..=uid),
            ..Match::default()
        };
        if base.is_contradiction() {
            return Err(NoTarget::Versions);
        }
        let Some(either) = self.port else { return Ok(vec![base]) };
        let mut both = Vec::new();
        if self.source_port.is_none_or(|port| port == either) {
            both.push(Match { source_ports: port(Some(either)), ..base.clone() });
        }
        if self.destination_port.is_none_or(|port| port == either) {
            both.push(Match { destination_ports: port(Some(either)), ..base });
        }
        if both.is_empty() { Err(NoTarget::Ports) } else { Ok(both) }
    }
}

/// Makes the fields of packets that match one of `matches`, the likeliest first, to find their class by the rules.
pub fn samples(matches: &[Match]) -> Vec<Fields> {
    let first = |ports: &[RangeInclusive<u16>]| ports.first().map(|ports| *ports.start());
    let sample = |matching: &Match, protocol| Fields {
        hosts: hosts(matching.source.map(Prefix::address), matching.destination.map(Prefix::address)),
        protocol: Some(protocol),
        source_port: first(&matching.source_ports).or(Some(0)),
        destination_port: first(&matching.destination_ports).or(Some(0)),
        uid: matching.uid.as_ref().map(|uid| *uid.start()),
        ..Fields::default()
    };
    let mut samples = Vec::new();
    // For a port at either end the destination is the last alternative; it goes first, because most rules have destinations.
    for matching in matches.iter().rev().take(SAMPLED) {
        match matching.protocol {
            Some(protocol) => samples.push(sample(matching, protocol)),
            None => samples.extend(PROTOCOLS.map(|protocol| sample(matching, protocol))),
        }
    }
    samples
}

fn hosts(source: Option<IpAddr>, destination: Option<IpAddr>) -> Hosts {
    let four = |address| match address {
        Some(IpAddr::V4(address)) => address,
        _ => Ipv4Addr::UNSPECIFIED,
    };
    match (source, destination) {
        (Some(IpAddr::V6(source)), Some(IpAddr::V6(destination))) => Hosts::V6 { source, destination },
        (Some(IpAddr::V6(source)), _) => Hosts::V6 { source, destination: Ipv6Addr::UNSPECIFIED },
        (_, Some(IpAddr::V6(destination))) => Hosts::V6 { source: Ipv6Addr::UNSPECIFIED, destination },
        (source, destination) => Hosts::V4 { source: four(source), destination: four(destination) },
    }
}
