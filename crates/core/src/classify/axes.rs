//! From rules to axes: each field that rules use, cut at the ends of all ranges into elementary intervals.

use core::net::IpAddr;
use core::ops::Range;

use alloc::collections::BTreeSet;
use alloc::vec::Vec;

use hashbrown::HashTable;

#[cfg(doc)]
use super::fields::Signal;
use super::fields::{Fields, Hosts, Match, Prefix, Rule, Version};
use super::intervals::{Intervals, Key};

/// The field by which a packet is looked up.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Selector {
    Source,
    Destination,
    SourcePort,
    DestinationPort,
    Uid,
    Cgroup,
    /// Version and protocol together: `257 * [v6] + protocol`, with 256 for an unknown protocol.
    Kind,
    Dscp,
    /// The length; 0 is unknown.
    Length,
    /// Flags and kind of a TCP segment: [`Signal::tcp_key`].
    Tcp,
    /// Version and type of an ICMP message: [`Signal::icmp_key`].
    Icmp,
    /// The mark under one mask: different masks are different fields.
    Mark(u32),
}

pub(super) const FIXED_SELECTORS: [Selector; 11] = [
    Selector::Source,
    Selector::Destination,
    Selector::SourcePort,
    Selector::DestinationPort,
    Selector::Uid,
    Selector::Cgroup,
    Selector::Kind,
    Selector::Dscp,
    Selector::Length,
    Selector::Tcp,
    Selector::Icmp,
];

impl Selector {
    /// Whether the field has so few values that tables over it stay small.
    pub(super) fn is_small(self) -> bool {
        matches!(self, Self::Kind | Self::Dscp | Self::Tcp | Self::Icmp)
    }
}

/// A range of one axis: version (0 except for IPv6), first, last.
type Wide = (u8, u128, u128);

/// The condition of `matching` on `selector`: `None` if there is none, an empty list if it cannot hold.
fn ranges(matching: &Match, selector: Selector) -> Option<Vec<Wide>> {
    let prefix = |prefix: Prefix| {
        let (version, low, high) = prefix.range();
        Vec::from([(u8::from(version == Version::V6), low, high)])
    };
    let wide = |low: u32, high: u32| (0, u128::from(low), u128::from(high));
    let listed = |list: &[core::ops::RangeInclusive<u16>]| {
        let range = |range: &core::ops::RangeInclusive<u16>| wide((*range.start()).into(), (*range.end()).into());
        (!list.is_empty()).then(|| list.iter().filter(|range| !range.is_empty()).map(range).collect())
    };
    let one = |key: u16| wide(key.into(), key.into());
    match selector {
        Selector::Source => matching.source.map(prefix),
        Selector::Destination => matching.destination.map(prefix),
        Selector::SourcePort => listed(&matching.source_ports),
        Selector::DestinationPort => listed(&matching.destination_ports),
        Selector::Length => listed(&matching.lengths),
        Selector::Tcp => matching.has_tcp().then(|| matching.tcp_keys().map(one).collect()),
        Selector::Icmp => {
            (!matching.icmp_types.is_empty()).then(|| matching.icmp_types.iter().map(|kind| one(kind.key())).collect())
        }
        Selector::Uid => matching
            .uid
            .as_ref()
            .map(|uid| if uid.is_empty() { Vec::new() } else { Vec::from([wide(*uid.start(), *uid.end())]) }),
        Selector::Cgroup => matching.cgroup.map(|id| Vec::from([(0, id.into(), id.into())])),
        Selector::Kind => kinds(matching),
        Selector::Dscp => matching
            .dscp
            .map(|set| (0..64).filter(|code| set.bits() >> code & 1 == 1).map(|code| wide(code, code)).collect()),
        Selector::Mark(mask) => {
            matching.mark.filter(|mark| mark.mask == mask && (mask, mark.value) != (0, 0)).map(|mark| {
                if mark.value & !mask == 0 { Vec::from([wide(mark.value, mark.value)]) } else { Vec::new() }
            })
        }
    }
}

fn kinds(matching: &Match) -> Option<Vec<Wide>> {
    let of = |prefix: Option<Prefix>| {
        prefix.map(|prefix| if matches!(prefix.address(), IpAddr::V4(_)) { Version::V4 } else { Version::V6 })
    };
    let (source, destination) = (of(matching.source), of(matching.destination));
    let implied = source.or(destination);
    if source.is_some_and(|s| destination.is_some_and(|d| s != d))
        || implied.is_some_and(|implied| matching.version.is_some_and(|version| version != implied))
    {
        return Some(Vec::new());
    }
    let version = matching.version.or(implied);
    let offsets: &[u128] = match version {
        Some(Version::V4) => &[0],
        Some(Version::V6) => &[257],
        None => &[0, 257],
    };
    match matching.protocol {
        Some(protocol) => {
            Some(offsets.iter().map(|at| (0, at + u128::from(protocol), at + u128::from(protocol))).collect())
        }
        None if matching.version.is_some() && implied.is_none() => Some(Vec::from([(0, offsets[0], offsets[0] + 256)])),
        None => None,
    }
}

/// A field with its elementary intervals.
pub(super) struct Axis {
    pub(super) selector: Selector,
    /// The first value of each elementary interval: version, key.
    pub(super) starts: Vec<(u8, u128)>,
    /// For each rule, its range in `spans`.
    of_rule: Vec<Range<u32>>,
    /// First and last elementary interval.
    spans: Vec<(u32, u32)>,
}

impl Axis {
    /// The axis of `selector`, or `None` when no rule has a condition on it. Rules that cannot match are in
    /// `impossible`.
    pub(super) fn new(selector: Selector, rules: &[Rule], impossible: &mut [bool]) -> Option<Self> {
        let mut wide: Vec<Wide> = Vec::new();
        let mut of_rule = Vec::with_capacity(rules.len());
        for (rule, impossible) in rules.iter().zip(impossible) {
            let from = wide.len();
            if let Some(mut list) = ranges(&rule.matching, selector) {
                *impossible |= list.is_empty();
                list.sort_unstable();
                for (version, low, high) in list {
                    match wide[from..].last_mut() {
                        Some(last) if last.0 == version && low <= last.2.saturating_add(1) => last.2 = last.2.max(high),
                        _ => wide.push((version, low, high)),
                    }
                }
            }
            of_rule.push(from as u32..wide.len() as u32);
        }
        if wide.is_empty() {
            return None;
        }
        let after = |range: &Wide| range.2.checked_add(1).map_or((range.0 + 1, 0), |next| (range.0, next));
        let mut starts: Vec<_> = wide.iter().flat_map(|range| [(range.0, range.1), after(range)]).collect();
        starts.extend([(0, 0), (1, 0)]);
        starts.sort_unstable();
        starts.dedup();
        let at = |start: (u8, u128)| starts.partition_point(|other| *other < start) as u32;
        let spans = wide.iter().map(|range| (at((range.0, range.1)), at(after(range)) - 1)).collect();
        Some(Self { selector, starts, of_rule, spans })
    }

    pub(super) fn spans(&self, rule: u32) -> &[(u32, u32)] {
        let range = &self.of_rule[rule as usize];
        &self.spans[range.start as usize..range.end as usize]
    }

    /// Whether `rule` has a condition on this field.
    pub(super) fn asked_by(&self, rule: u32) -> bool {
        !self.of_rule[rule as usize].is_empty()
    }

    /// For each elementary interval the smallest of `rules` that covers it, or `u32::MAX`.
    pub(super) fn smallest(&self, rules: &[u32]) -> Vec<u32> {
        let mut active = BTreeSet::new();
        let mut events = self.events(rules).into_iter().peekable();
        (0..self.starts.len() as u32)
            .map(|at| {
                while let Some((_, rule)) = events.next_if(|event| event.0 == at) {
                    // The first event of a rule is its beginning, the second its end.
                    if !active.insert(rule) {
                        active.remove(&rule);
                    }
                }
                active.first().copied().unwrap_or(u32::MAX)
            })
            .collect()
    }

    /// Beginnings and ends (one past the last interval) of the spans of `rules`, ascending.
    fn events(&self, rules: &[u32]) -> Vec<(u32, u32)> {
        let both = |&rule| self.spans(rule).iter().flat_map(move |span| [(span.0, rule), (span.1 + 1, rule)]);
        let mut events: Vec<_> = rules.iter().flat_map(both).collect();
        events.sort_unstable();
        events
    }

    /// For each elementary interval the number of its class, and the number of classes. Intervals that are covered by
    /// the same subset of `rules` form one class; class 0 is covered by none.
    ///
    /// Subsets are compared by the exclusive-or of 128 random bits per rule. Two different subsets are taken as equal
    /// with probability 2^-128.
    pub(super) fn classes(&self, rules: &[u32]) -> (Vec<u32>, u32) {
        let mut table: HashTable<(u128, u32)> = HashTable::new();
        let hash = |set: u128| set as u64;
        table.insert_unique(0, (0, 0), |entry| hash(entry.0));
        let mut set = 0;
        let mut events = self.events(rules).into_iter().peekable();
        let classes = (0..self.starts.len() as u32)
            .map(|at| {
                while let Some((_, rule)) = events.next_if(|event| event.0 == at) {
                    set ^= fingerprint(rule);
                }
                let next = table.len() as u32;
                table.entry(hash(set), |entry| entry.0 == set, |entry| hash(entry.0)).or_insert((set, next)).get().1
            })
            .collect();
        (classes, table.len() as u32)
    }
}

/// 128 bits that are a random function of `rule` (SplitMix64, twice).
fn fingerprint(rule: u32) -> u128 {
    let half = |n: u64| {
        let mut z = n.wrapping_mul(0x9e37_79b9_7f4a_7c15);
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        u128::from(z ^ (z >> 31))
    };
    half(2 * u64::from(rule) + 1) << 64 | half(2 * u64::from(rule) + 2)
}

/// An axis, prepared for look-ups.
#[derive(Clone, Debug)]
pub(super) enum Lookup {
    Source(Intervals<u32>, Intervals<u128>),
    Destination(Intervals<u32>, Intervals<u128>),
    SourcePort(Intervals<u16>),
    DestinationPort(Intervals<u16>),
    Uid(Intervals<u32>),
    Cgroup(Intervals<u64>),
    Kind(Intervals<u16>),
    Dscp(Intervals<u16>),
    Length(Intervals<u16>),
    Tcp(Intervals<u16>),
    Icmp(Intervals<u16>),
    Mark(u32, Intervals<u32>),
}

impl Lookup {
    /// Each of `starts` is the first value of an elementary interval, version and key, for which one of `values` holds.
    pub(super) fn new(selector: Selector, starts: &[(u8, u128)], values: &[u32]) -> Self {
        fn map<K: Key>(all: &[(u8, u128)], values: &[u32], version: u8) -> Intervals<K> {
            let mut starts: Vec<(K, u32)> = Vec::new();
            for (start, &value) in all.iter().zip(values) {
                // Ends beyond the key (one past the largest) are never reached.
                let key = K::from_wide(start.1);
                let fits = starts.last().is_none_or(|last| last.0 < key);
                if start.0 == version && fits && starts.last().is_none_or(|last| last.1 != value) {
                    starts.push((key, value));
                }
            }
            Intervals::new(&starts)
        }
        match selector {
            Selector::Source => Self::Source(map(starts, values, 0), map(starts, values, 1)),
            Selector::Destination => Self::Destination(map(starts, values, 0), map(starts, values, 1)),
            Selector::SourcePort => Self::SourcePort(map(starts, values, 0)),
            Selector::DestinationPort => Self::DestinationPort(map(starts, values, 0)),
            Selector::Uid => Self::Uid(map(starts, values, 0)),
            Selector::Cgroup => Self::Cgroup(map(starts, values, 0)),
            Selector::Kind => Self::Kind(map(starts, values, 0)),
            Selector::Dscp => Self::Dscp(map(starts, values, 0)),
            Selector::Length => Self::Length(map(starts, values, 0)),
            Selector::Tcp => Self::Tcp(map(starts, values, 0)),
            Selector::Icmp => Self::Icmp(map(starts, values, 0)),
            Selector::Mark(mask) => Self::Mark(mask, map(starts, values, 0)),
        }
    }

    /// The first step of a look-up; `None` when the packet does not have the field.
    #[inline(always)]
    pub(super) fn begin(&self, fields: &Fields) -> Option<u32> {
        Some(match self {
            Self::Source(v4, v6) => match fields.hosts {
                Hosts::Unknown => return None,
                Hosts::V4 { source, .. } => v4.begin(source.to_bits()),
                Hosts::V6 { source, .. } => v6.begin(source.to_bits()),
            },
            Self::Destination(v4, v6) => match fields.hosts {
                Hosts::Unknown => return None,
                Hosts::V4 { destination, .. } => v4.begin(destination.to_bits()),
                Hosts::V6 { destination, .. } => v6.begin(destination.to_bits()),
            },
            Self::SourcePort(map) => map.begin(fields.source_port?),
            Self::DestinationPort(map) => map.begin(fields.destination_port?),
            Self::Uid(map) => map.begin(fields.uid?),
            Self::Cgroup(map) => map.begin(fields.cgroup?),
            Self::Kind(map) => {
                let at = match fields.hosts {
                    Hosts::Unknown => return None,
                    Hosts::V4 { .. } => 0,
                    Hosts::V6 { .. } => 257,
                };
                map.begin(at + fields.protocol.map_or(256, u16::from))
            }
            Self::Dscp(map) => match fields.hosts {
                Hosts::Unknown => return None,
                _ => map.begin(fields.dscp.value().into()),
            },
            Self::Length(map) => match fields.traits.length {
                0 => return None,
                length => map.begin(length),
            },
            Self::Tcp(map) => map.begin(fields.traits.signal.tcp_key()?),
            Self::Icmp(map) => map.begin(fields.traits.signal.icmp_key()?),
            Self::Mark(mask, map) => map.begin(fields.mark & mask),
        })
    }

    /// The value of the packet's interval, from the result of [`Lookup::begin`].
    #[inline(always)]
    pub(super) fn finish(&self, fields: &Fields, link: u32) -> u32 {
        match (self, fields.hosts) {
            // Sixteen bits need one step.
            (Self::SourcePort(_) | Self::DestinationPort(_) | Self::Kind(_) | Self::Dscp(_), _)
            | (Self::Length(_) | Self::Tcp(_) | Self::Icmp(_), _) => link,
            (Self::Source(v4, _), Hosts::V4 { source, .. }) => v4.finish(source.to_bits(), link),
            (Self::Source(_, v6), Hosts::V6 { source, .. }) => v6.finish(source.to_bits(), link),
            (Self::Destination(v4, _), Hosts::V4 { destination, .. }) => v4.finish(destination.to_bits(), link),
            (Self::Destination(_, v6), Hosts::V6 { destination, .. }) => v6.finish(destination.to_bits(), link),
            (Self::Uid(map), _) => fields.uid.map_or(link, |uid| map.finish(uid, link)),
            (Self::Cgroup(map), _) => fields.cgroup.map_or(link, |id| map.finish(id, link)),
            (Self::Mark(mask, map), _) => map.finish(fields.mark & mask, link),
            (Self::Source(..) | Self::Destination(..), Hosts::Unknown) => link,
        }
    }

    pub(super) fn memory(&self) -> usize {
        match self {
            Self::Source(v4, v6) | Self::Destination(v4, v6) => v4.memory() + v6.memory(),
            Self::SourcePort(map) | Self::DestinationPort(map) | Self::Kind(map) | Self::Dscp(map) => map.memory(),
            Self::Length(map) | Self::Tcp(map) | Self::Icmp(map) => map.memory(),
            Self::Uid(map) | Self::Mark(_, map) => map.memory(),
            Self::Cgroup(map) => map.memory(),
        }
    }
}
