//! Rules that can never match.

use core::ops::RangeInclusive;

use alloc::vec::Vec;

use super::fields::{Match, Prefix, Rule, Version};

/// A rule that no packet can match.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Shadowed {
    /// The index of the rule.
    pub rule: u32,
    /// Why it cannot match.
    pub cause: Cause,
}

/// Why a rule cannot match.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Cause {
    /// Its own conditions exclude each other: an IPv4 source with an IPv6 destination, an empty range.
    Contradiction,
    /// This earlier rule takes every packet it would match.
    Rule(u32),
    /// Several earlier rules take them together.
    Several,
}

pub(super) fn shadowed(rules: &[Rule], seen: &[bool]) -> Vec<Shadowed> {
    let mut found = Vec::new();
    for (at, rule) in rules.iter().enumerate() {
        let cause = if rule.matching.is_contradiction() {
            Some(Cause::Contradiction)
        } else if let Some(by) = rules[..at].iter().position(|earlier| earlier.matching.covers(&rule.matching)) {
            Some(Cause::Rule(by as u32))
        } else {
            (!seen[at]).then_some(Cause::Several)
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
    /// Whether every packet that `other` matches is matched by this, as far as each condition tells alone: port
    /// ranges that cover another only together are not seen through.
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
    }

    /// The version it asks for, by itself or by an address.
    fn versions(&self) -> Option<Version> {
        let of = |prefix: Option<Prefix>| prefix.map(|prefix| prefix.range().0);
        self.version.or(of(self.source)).or(of(self.destination))
    }

    /// Whether its conditions exclude each other.
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
    }
}
