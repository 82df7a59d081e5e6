//! Rules that can never match.

use core::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use core::ops::RangeInclusive;

use alloc::vec::Vec;

use super::Classifier;
use super::fields::{Fields, Hosts, Match, Prefix, Signal, Traits, Version};
use crate::packet::Dscp;

/// A rule that no packet can match.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Shadowed {
    /// The index of the rule.
    pub rule: u32,
    /// The reason why it cannot match.
    pub cause: Cause,
}

/// Why a rule cannot match.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Cause {
    /// Its own conditions exclude each other: an IPv4 source with an IPv6 destination, an empty range.
    Contradiction,
    /// This earlier rule matches every packet that it would match.
    Rule(u32),
    /// Several earlier rules together match every such packet.
    Several,
}

pub(super) fn shadowed(classifier: &Classifier, reachable: &[bool]) -> Vec<Shadowed> {
    let (rules, mut found) = (classifier.rules(), Vec::new());
    for (at, rule) in rules.iter().enumerate() {
        // Most rules match some packet first, which decides without a comparison with the others.
        if classifier.classify(&rule.matching.example()) == Some(at as u32) {
            continue;
        }
        let cause = if rule.matching.is_contradiction() {
            Some(Cause::Contradiction)
        } else if let Some(by) = rules[..at].iter().position(|earlier| earlier.matching.covers(&rule.matching)) {
            Some(Cause::Rule(by as u32))
        } else {
            (!reachable[at]).then_some(Cause::Several)
        };
        found.extend(cause.map(|cause| Shadowed { rule: at as u32, cause }));
    }
    found
}

/// Whether `outer` is no condition, or allows all that `inner` allows.
fn allows<T>(outer: &Option<T>, inner: &Option<T>, contains: impl Fn(&T, &T) -> bool) -> bool {
    match (outer, inner) {
        (None, _) => true,
        (Some(outer), Some(inner)) => contains(outer, inner),
        (Some(_), None) => false,
    }
}

fn within<T: PartialOrd>(outer: &RangeInclusive<T>, inner: &RangeInclusive<T>) -> bool {
    outer.start() <= inner.start() && inner.end() <= outer.end()
}

fn ports(outer: &[RangeInclusive<u16>], inner: &[RangeInclusive<u16>]) -> bool {
    outer.is_empty() || !inner.is_empty() && inner.iter().all(|i| i.is_empty() || outer.iter().any(|o| within(o, i)))
}

fn prefix(outer: &Prefix, inner: &Prefix) -> bool {
    outer.length() <= inner.length() && outer.contains(inner.address())
}

impl Match {
    /// Whether this matches every packet that `other` matches, compared condition by condition: a port range that is
    /// covered only by several ranges together is not detected.
    pub fn covers(&self, other: &Self) -> bool {
        allows(&self.destination, &other.destination, prefix)
            && allows(&self.source, &other.source, prefix)
            && ports(&self.destination_ports, &other.destination_ports)
            && ports(&self.source_ports, &other.source_ports)
            && allows(&self.protocol, &other.protocol, u8::eq)
            && allows(&self.dscp, &other.dscp, |outer, inner| inner.bits() & !outer.bits() == 0)
            && allows(&self.uid, &other.uid, within)
            && allows(&self.cgroup, &other.cgroup, u64::eq)
            && allows(&self.mark, &other.mark, |outer, inner| {
                outer.mask & !inner.mask == 0 && outer.value == inner.value & outer.mask
            })
            && allows(&self.version, &other.versions(), Version::eq)
            && ports(&self.lengths, &other.lengths)
            && (!self.has_tcp()
                || other.has_tcp() && other.tcp_keys().all(|key| self.matches_tcp(Signal::of_tcp_key(key))))
            && (self.icmp_types.is_empty()
                || !other.icmp_types.is_empty() && other.icmp_types.iter().all(|kind| self.icmp_types.contains(kind)))
    }

    /// A packet that matches, unless the conditions are contradictory; fields without a condition are unknown.
    pub fn example(&self) -> Fields {
        let needs_version = self.protocol.is_some() || self.dscp.is_some();
        let version = self.versions().or(needs_version.then_some(Version::V4));
        let end = |prefix: Option<Prefix>| prefix.map(Prefix::address);
        let hosts = match (version, end(self.source), end(self.destination)) {
            (None, ..) => Hosts::Unknown,
            (Some(Version::V4), source, destination) => {
                let address = |end| if let Some(IpAddr::V4(a)) = end { a } else { Ipv4Addr::UNSPECIFIED };
                Hosts::V4 { source: address(source), destination: address(destination) }
            }
            (Some(Version::V6), source, destination) => {
                let address = |end| if let Some(IpAddr::V6(a)) = end { a } else { Ipv6Addr::UNSPECIFIED };
                Hosts::V6 { source: address(source), destination: address(destination) }
            }
        };
        let port =
            |ranges: &[RangeInclusive<u16>]| ranges.iter().find(|range| !range.is_empty()).map(|range| *range.start());
        Fields {
            hosts,
            dscp: self.dscp.and_then(|set| Dscp::new(set.bits().trailing_zeros() as u8)).unwrap_or_default(),
            protocol: self.protocol,
            source_port: port(&self.source_ports),
            destination_port: port(&self.destination_ports),
            mark: self.mark.map_or(0, |mark| mark.value),
            uid: self.uid.as_ref().map(|uid| *uid.start()),
            cgroup: self.cgroup,
            fragment: None,
            traits: Traits {
                length: self
                    .lengths
                    .iter()
                    .find(|range| !range.is_empty() && *range.end() > 0)
                    .map_or(0, |range| *range.start().max(&1)),
                signal: match self.icmp_types.first() {
                    Some(kind) => Signal::Icmp(*kind),
                    None if self.has_tcp() => self.tcp_keys().next().map(Signal::of_tcp_key).unwrap_or_default(),
                    None => Signal::Unknown,
                },
            },
        }
    }

    /// The IP version that the conditions require, directly or by an address.
    fn versions(&self) -> Option<Version> {
        let of = |prefix: Option<Prefix>| prefix.map(|prefix| prefix.range().0);
        self.version.or(of(self.source)).or(of(self.destination))
    }

    /// Whether the conditions are contradictory.
    pub fn is_contradiction(&self) -> bool {
        let versions = [self.version, self.source.map(|p| p.range().0), self.destination.map(|p| p.range().0)];
        let has = |version| versions.contains(&Some(version));
        let empty = |ranges: &[RangeInclusive<u16>]| !ranges.is_empty() && ranges.iter().all(RangeInclusive::is_empty);
        has(Version::V4) && has(Version::V6)
            || self.dscp.is_some_and(|set| set.bits() == 0)
            || empty(&self.source_ports)
            || empty(&self.destination_ports)
            || self.mark.is_some_and(|mark| mark.value & !mark.mask != 0)
            || self.uid.as_ref().is_some_and(RangeInclusive::is_empty)
            || !self.lengths.is_empty() && self.lengths.iter().all(|range| range.is_empty() || *range.end() == 0)
            || self.has_tcp() && (!self.icmp_types.is_empty() || self.tcp_keys().next().is_none())
    }
}
