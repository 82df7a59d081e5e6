//! Flow keys: the identity of a packet's flow as three keyed hashes.
//!
//! *Law*: packets that are equal in the fields that [`FlowBy`] selects have equal keys, on every machine and under
//! every configuration with the same secret. Packets that differ in one of them have different keys, but for a
//! probability of 2⁻⁶⁴ per pair.
//! *Source*: SipHash-1-3 (Aumasson and Bernstein, *SipHash: a fast short-input PRF*, 2012, with one round per word
//! and three at the end).
//! *Units*: none.
//! *Cost*: three hashes of 16 bytes for IPv4, of 24 to 40 for IPv6, one of them without those of the addresses; no table, no
//! allocation.
//! *Notes*: a fragment without the transport header has no ports, and would be a flow of its own in the 5-tuple. Pass
//! all fragments of a datagram the key of the first ([`fragments`](crate::fragments)). Packets without the selected
//! field (the owner of a forwarded packet) form one flow.
//! *Departures from the source, and why*: the input is whole little-endian words without a partial last one, because
//! every hashed record has a fixed layout; [`SipHash13::bytes`] is the general form.
//! *See also*: [`classify`](crate::classify), which selects the class; a flow belongs to a class.
//!
//! ```
//! use tidegate_core::{classify::{Fields, Hosts}, flow::{FlowBy, FlowHash}};
//! let hash = FlowHash::new([1, 2], FlowBy::FiveTuple);
//! let hosts = Hosts::V4 { source: "192.0.2.1".parse().unwrap(), destination: "198.51.100.1".parse().unwrap() };
//! let a = Fields { hosts, protocol: Some(6), source_port: Some(1), destination_port: Some(80), ..Fields::default() };
//! let b = Fields { source_port: Some(2), ..a };
//! assert_ne!(hash.key(&a).flow, hash.key(&b).flow);
//! assert_eq!(hash.key(&a).host_pair(), hash.key(&b).host_pair());
//! ```

use core::net::IpAddr;

use crate::classify::{Fields, Hosts};
use crate::packet::FlowKey;

/// The fields that define a flow.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
pub enum FlowBy {
    /// Both addresses, protocol, both ports.
    #[default]
    FiveTuple,
    /// Both addresses, in this order.
    HostPair,
    /// The source address.
    Source,
    /// The destination address.
    Destination,
    /// Protocol, source address and source port: the sending socket, whatever it sends to.
    Socket,
    /// The user that owns the sending socket.
    Uid,
    /// The control group of the sending socket.
    Cgroup,
    /// The code point.
    Dscp,
    /// The packet mark.
    Mark,
}

/// Computes flow keys under a secret.
#[derive(Clone, Copy, Debug)]
pub struct FlowHash {
    secret: SipHash13,
    by: FlowBy,
    /// Whether keys have hashes of the addresses.
    hosts: bool,
}

impl FlowHash {
    /// Takes the secret of the process: 16 random bytes live, a constant in a simulation.
    pub const fn new(secret: [u64; 2], by: FlowBy) -> Self {
        Self { secret: SipHash13::new(secret), by, hosts: true }
    }

    /// Leaves [`FlowKey::source`] and [`FlowKey::destination`] zero, where nothing reads them: a third of the cost in IPv4.
    pub const fn without_hosts(self) -> Self {
        Self { hosts: false, ..self }
    }

    /// The definition of a flow in use.
    pub const fn by(&self) -> FlowBy {
        self.by
    }

    /// The definition of a flow, in the order of [`FlowBy`], and the state in which each hash begins: for a program that
    /// computes the same keys.
    pub const fn numbers(&self) -> [u64; 5] {
        let [a, b, c, d] = self.secret.v;
        [self.by as u64, a, b, c, d]
    }

    /// The key of a packet with `fields`.
    pub fn key(&self, fields: &Fields) -> FlowKey {
        let (needs_source, needs_destination) = match self.by {
            _ if self.hosts => (true, true),
            FlowBy::HostPair => (true, true),
            FlowBy::Source | FlowBy::Socket => (true, false),
            FlowBy::Destination => (false, true),
            FlowBy::FiveTuple | FlowBy::Uid | FlowBy::Cgroup | FlowBy::Dscp | FlowBy::Mark => (false, false),
        };
        let source = if needs_source { self.host(fields.hosts.source()) } else { 0 };
        let destination = if needs_destination { self.host(fields.hosts.destination()) } else { 0 };
        // The first word identifies the kind of value, so that a user and a mark of equal number differ.
        let number = |kind: u64, value: Option<u64>| {
            self.secret.words(&[kind << 56 | u64::from(value.is_some()), value.unwrap_or(0)])
        };
        let flow = match self.by {
            FlowBy::FiveTuple => self.five_tuple(fields),
            FlowBy::HostPair => self.secret.words(&[2 << 56, source, destination]),
            FlowBy::Source => source,
            FlowBy::Destination => destination,
            FlowBy::Socket => {
                self.secret.words(&[13 << 56 | protocol_and_ports(fields, fields.source_port, None), source])
            }
            FlowBy::Uid => number(3, fields.uid.map(u64::from)),
            FlowBy::Cgroup => number(4, fields.cgroup),
            FlowBy::Dscp => number(5, fields.hosts.version().map(|_| fields.dscp.value().into())),
            FlowBy::Mark => number(6, Some(fields.mark.into())),
        };
        let (source, destination) = if self.hosts { (source, destination) } else { (0, 0) };
        FlowKey { flow, source, destination }
    }

    /// The part of a flow key that identifies a class of this name, so that a flow is within one class. An exclusive or
    /// of it and [`FlowKey::flow`] differs for each pair of flow and class, but for a probability of 2⁻⁶⁴ per pair.
    pub fn class(&self, name: &[u8]) -> u64 {
        self.secret.words(&[12 << 56, self.secret.bytes(name)])
    }

    fn five_tuple(&self, fields: &Fields) -> u64 {
        let rest = protocol_and_ports(fields, fields.source_port, fields.destination_port);
        match fields.hosts {
            Hosts::Unknown => self.secret.words(&[7 << 56 | rest]),
            Hosts::V4 { source, destination } => {
                let pair = u64::from(source.to_bits()) << 32 | u64::from(destination.to_bits());
                self.secret.words(&[8 << 56 | rest, pair])
            }
            Hosts::V6 { source, destination } => {
                let (s, d) = (source.to_bits(), destination.to_bits());
                self.secret.words(&[9 << 56 | rest, (s >> 64) as u64, s as u64, (d >> 64) as u64, d as u64])
            }
        }
    }

    fn host(&self, address: Option<IpAddr>) -> u64 {
        match address {
            None => 0,
            Some(IpAddr::V4(a)) => self.secret.words(&[10 << 56 | u64::from(a.to_bits())]),
            Some(IpAddr::V6(a)) => self.secret.words(&[11 << 56, (a.to_bits() >> 64) as u64, a.to_bits() as u64]),
        }
    }
}

/// 9 bits of protocol and 17 for each port: an unknown value differs from zero.
fn protocol_and_ports(fields: &Fields, source: Option<u16>, destination: Option<u16>) -> u64 {
    let port = |port: Option<u16>| port.map_or(0, |port| 1 << 16 | u64::from(port));
    let protocol = fields.protocol.map_or(0, |protocol| 1 << 8 | u64::from(protocol));
    protocol << 34 | port(source) << 17 | port(destination)
}

/// SipHash with `C` rounds per word and `D` at the end.
#[derive(Clone, Copy, Debug)]
pub struct SipHash<const C: usize, const D: usize> {
    v: [u64; 4],
}

/// The variant used for hash tables: one round per word, three at the end.
pub type SipHash13 = SipHash<1, 3>;

impl<const C: usize, const D: usize> SipHash<C, D> {
    /// Takes the 128-bit key `[low, high]`.
    pub const fn new([k0, k1]: [u64; 2]) -> Self {
        Self {
            v: [
                k0 ^ 0x736f_6d65_7073_6575,
                k1 ^ 0x646f_7261_6e64_6f6d,
                k0 ^ 0x6c79_6765_6e65_7261,
                k1 ^ 0x7465_6462_7974_6573,
            ],
        }
    }

    /// The hash of `words`, each as eight little-endian bytes.
    #[inline]
    pub fn words<const N: usize>(&self, words: &[u64; N]) -> u64 {
        let mut state = *self;
        words.iter().for_each(|&word| state.absorb(word));
        state.finish((words.len() as u64) << 59)
    }

    /// The hash of `bytes`.
    pub fn bytes(&self, bytes: &[u8]) -> u64 {
        let mut state = *self;
        let (words, rest) = bytes.as_chunks::<8>();
        words.iter().for_each(|&word| state.absorb(u64::from_le_bytes(word)));
        let last = rest.iter().rev().fold(0, |last, &byte| last << 8 | u64::from(byte));
        // Only the lowest byte of the length is part of the hash.
        state.finish((bytes.len() as u64) << 56 | last)
    }

    #[inline]
    fn absorb(&mut self, word: u64) {
        self.v[3] ^= word;
        (0..C).for_each(|_| self.round());
        self.v[0] ^= word;
    }

    #[inline]
    fn finish(mut self, last: u64) -> u64 {
        self.absorb(last);
        self.v[2] ^= 0xff;
        (0..D).for_each(|_| self.round());
        self.v[0] ^ self.v[1] ^ self.v[2] ^ self.v[3]
    }

    #[inline]
    fn round(&mut self) {
        let [mut a, mut b, mut c, mut d] = self.v;
        a = a.wrapping_add(b);
        c = c.wrapping_add(d);
        b = b.rotate_left(13) ^ a;
        d = d.rotate_left(16) ^ c;
        a = a.rotate_left(32).wrapping_add(d);
        c = c.wrapping_add(b);
        d = d.rotate_left(21) ^ a;
        b = b.rotate_left(17) ^ c;
        self.v = [a, b, c.rotate_left(32), d];
    }
}

#[cfg(test)]
mod tests {
    extern crate std;

    use super::*;
    use crate::packet::Dscp;
    use std::hash::Hasher as _;

    /// Appendix A of the paper: SipHash-2-4 of 00 01 .. 0e under the key 00 01 .. 0f.
    #[test]
    fn the_rounds_are_those_of_the_paper() {
        let key = [0x0706_0504_0302_0100, 0x0f0e_0d0c_0b0a_0908];
        let input: [u8; 15] = core::array::from_fn(|i| i as u8);
        assert_eq!(SipHash::<2, 4>::new(key).bytes(&input), 0xa129_ca61_49be_45e5);
        // The first vectors of the reference implementation, for no byte and for the byte 00.
        assert_eq!(SipHash::<2, 4>::new(key).bytes(&[]), 0x726f_db47_dd0e_0e31);
        assert_eq!(SipHash::<2, 4>::new(key).bytes(&[0]), 0x74f8_39c5_93dc_67fd);
        assert_eq!(SipHash::<1, 3>::new(key).bytes(&[]), 0xabac_0158_050f_c4dc);
    }

    /// The hash of the standard library is SipHash-1-3 under a key of zeros.
    #[test]
    fn agrees_with_the_standard_library() {
        let input: [u8; 300] = core::array::from_fn(|i| (i * 7) as u8);
        for length in 0..input.len() {
            let mut theirs = std::hash::DefaultHasher::new();
            theirs.write(&input[..length]);
            assert_eq!(SipHash13::new([0, 0]).bytes(&input[..length]), theirs.finish(), "{length} bytes");
        }
        fn same<const N: usize>(words: [u64; N]) {
            let bytes = words.map(u64::to_le_bytes).concat();
            assert_eq!(SipHash13::new([5, 6]).words(&words), SipHash13::new([5, 6]).bytes(&bytes));
        }
        same([]);
        same([1]);
        same([1, u64::MAX, 0x0123_4567_89ab_cdef]);
    }

    #[test]
    fn a_flow_is_what_was_asked_for() {
        let hosts = Hosts::V4 { source: [10, 0, 0, 1].into(), destination: [10, 0, 0, 2].into() };
        let base = Fields {
            hosts,
            dscp: Dscp::EF,
            protocol: Some(17),
            source_port: Some(5),
            destination_port: Some(6),
            mark: 7,
            uid: Some(8),
            cgroup: Some(9),
            ..Fields::default()
        };
        let back = Hosts::V4 { source: [10, 0, 0, 2].into(), destination: [10, 0, 0, 1].into() };
        let six = |low| Hosts::V6 { source: [0, 0, 0, 0, 0, 0, 0, low].into(), destination: [1; 8].into() };
        // Each variation, and the definitions by which it is another flow: 5-tuple, pair, source, destination, uid,
        // cgroup, dscp, mark, socket.
        let table = [
            (Fields { hosts: back, ..base }, "56sd....S"),
            (Fields { hosts: six(1), ..base }, "56sd....S"),
            (Fields { dscp: Dscp::BEST_EFFORT, ..base }, "......D.."),
            (Fields { protocol: Some(6), ..base }, "5.......S"),
            (Fields { protocol: None, ..base }, "5.......S"),
            (Fields { source_port: Some(6), destination_port: Some(5), ..base }, "5.......S"),
            (Fields { destination_port: None, ..base }, "5........"),
            (Fields { mark: 8, ..base }, ".......m."),
            (Fields { uid: Some(9), ..base }, "....u...."),
            (Fields { uid: None, ..base }, "....u...."),
            (Fields { cgroup: Some(8), ..base }, ".....c..."),
        ];
        let by = [
            FlowBy::FiveTuple,
            FlowBy::HostPair,
            FlowBy::Source,
            FlowBy::Destination,
            FlowBy::Uid,
            FlowBy::Cgroup,
            FlowBy::Dscp,
            FlowBy::Mark,
            FlowBy::Socket,
        ];
        for (other, expected) in table {
            for (by, mark) in by.into_iter().zip(expected.chars()) {
                let hash = FlowHash::new([3, 4], by);
                assert_eq!(hash.key(&base).flow != hash.key(&other).flow, mark != '.', "{by:?} {other:?}");
                assert_ne!(hash.key(&base).flow, FlowHash::new([3, 5], by).key(&base).flow, "the secret counts");
                let without = hash.without_hosts().key(&other);
                assert_eq!(without, FlowKey { source: 0, destination: 0, ..hash.key(&other) }, "{by:?}");
            }
        }
        let there = FlowHash::new([3, 4], FlowBy::FiveTuple).key(&base);
        let back = FlowHash::new([3, 4], FlowBy::FiveTuple).key(&Fields { hosts: back, ..base });
        assert_eq!((there.source, there.destination), (back.destination, back.source));
    }
}
