//! The fields of a packet, and conditions on them.

use core::fmt;
use core::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use core::ops::RangeInclusive;
use core::str::FromStr;

use alloc::vec::Vec;

use crate::packet::Dscp;

/// The version of the internet protocol.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Version {
    /// IPv4 (RFC 791).
    V4,
    /// IPv6 (RFC 8200).
    V6,
}

/// The source and destination address of a packet; both have the same IP version.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
pub enum Hosts {
    /// Not an IP packet, or one whose header could not be read.
    #[default]
    Unknown,
    /// An IPv4 packet.
    V4 {
        /// The source address.
        source: Ipv4Addr,
        /// The destination address.
        destination: Ipv4Addr,
    },
    /// An IPv6 packet.
    V6 {
        /// The source address.
        source: Ipv6Addr,
        /// The destination address.
        destination: Ipv6Addr,
    },
}

impl Hosts {
    /// The version, if it is an IP packet.
    pub const fn version(self) -> Option<Version> {
        match self {
            Self::Unknown => None,
            Self::V4 { .. } => Some(Version::V4),
            Self::V6 { .. } => Some(Version::V6),
        }
    }
    /// Returns the source address.
    pub const fn source(self) -> Option<IpAddr> {
        match self {
            Self::Unknown => None,
            Self::V4 { source, .. } => Some(IpAddr::V4(source)),
            Self::V6 { source, .. } => Some(IpAddr::V6(source)),
        }
    }
    /// Returns the destination address.
    pub const fn destination(self) -> Option<IpAddr> {
        match self {
            Self::Unknown => None,
            Self::V4 { destination, .. } => Some(IpAddr::V4(destination)),
            Self::V6 { destination, .. } => Some(IpAddr::V6(destination)),
        }
    }
}

/// The identification of a fragment and its position in the datagram.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct Fragment {
    /// The identification: 16 bits in IPv4, 32 in IPv6.
    pub id: u32,
    /// Offset of its payload in the datagram, in bytes; 0 in the first fragment only.
    pub offset: u16,
    /// Whether fragments follow.
    pub more: bool,
}

impl Fragment {
    /// Whether it is the fragment with the transport header.
    pub const fn is_first(self) -> bool {
        self.offset == 0
    }
}

/// The properties of one packet, in which the other packets of its flow may differ. Of fragments they are not known.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
pub struct Traits {
    /// Bytes from the network header on; more than 65,535 count as that many. 0 if unknown.
    pub length: u16,
    /// The signal of the packet to its transport.
    pub signal: Signal,
}

/// The part of a transport header that says what kind of packet it is.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
pub enum Signal {
    /// Neither TCP nor ICMP, or a header that could not be read.
    #[default]
    Unknown,
    /// A TCP segment (RFC 9293, section 3.1).
    Tcp {
        /// The eight flags from CWR, the highest, to FIN.
        flags: u8,
        /// Whether it is an acknowledgement without data.
        pure_ack: bool,
    },
    /// A message of ICMP (RFC 792) or ICMPv6 (RFC 4443).
    Icmp(IcmpType),
}

/// The type of a message of ICMP or ICMPv6.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct IcmpType {
    /// The version of IP: V6 for ICMPv6.
    pub version: Version,
    /// The number of the type.
    pub number: u8,
}

impl Signal {
    /// The number of different [`tcp_key`](Self::tcp_key)s.
    pub(super) const TCP_KEYS: u16 = 512;

    /// Flags and kind of a TCP segment as one number.
    pub(super) const fn tcp_key(self) -> Option<u16> {
        match self {
            Self::Tcp { flags, pure_ack } => Some((pure_ack as u16) << 8 | flags as u16),
            _ => None,
        }
    }
    /// The segment of [`tcp_key`](Self::tcp_key).
    pub(super) const fn of_tcp_key(key: u16) -> Self {
        Self::Tcp { flags: key as u8, pure_ack: key >> 8 & 1 == 1 }
    }
    /// The type of an ICMP message as one number for both versions.
    pub(super) const fn icmp_key(self) -> Option<u16> {
        match self {
            Self::Icmp(kind) => Some(kind.key()),
            _ => None,
        }
    }
}

impl IcmpType {
    pub(super) const fn key(self) -> u16 {
        (matches!(self.version, Version::V6) as u16) << 8 | self.number as u16
    }
}

/// A condition on the flags of a TCP segment.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct FlagMatch {
    /// The required value of the selected flags.
    pub value: u8,
    /// The selected flags.
    pub mask: u8,
}

/// The fields of a packet that rules can match. A field that the data path cannot determine has its default, and no
/// rule with a condition on it matches.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
pub struct Fields {
    /// Version and addresses.
    pub hosts: Hosts,
    /// The code point; without meaning unless `hosts` are known.
    pub dscp: Dscp,
    /// The transport protocol: the next header after the last extension header that could be parsed.
    pub protocol: Option<u8>,
    /// The source port of TCP, UDP, UDP-Lite, SCTP or DCCP; known in the first fragment only.
    pub source_port: Option<u16>,
    /// The destination port.
    pub destination_port: Option<u16>,
    /// The packet mark of the kernel; 0 when unmarked.
    pub mark: u32,
    /// The user that owns the sending socket.
    pub uid: Option<u32>,
    /// The control group that owns the sending socket.
    pub cgroup: Option<u64>,
    /// Set for a fragment.
    pub fragment: Option<Fragment>,
    /// The properties of this one packet.
    pub traits: Traits,
}

impl Fields {
    /// The fields of a packet that answers this one: source and destination are exchanged.
    #[must_use]
    pub const fn exchanged(&self) -> Self {
        let hosts = match self.hosts {
            Hosts::Unknown => Hosts::Unknown,
            Hosts::V4 { source, destination } => Hosts::V4 { source: destination, destination: source },
            Hosts::V6 { source, destination } => Hosts::V6 { source: destination, destination: source },
        };
        Self { hosts, source_port: self.destination_port, destination_port: self.source_port, ..*self }
    }
}

/// An address prefix. Host bits are zero by construction.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct Prefix {
    address: IpAddr,
    length: u8,
}

/// Why a text or an address with a length is not a prefix.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum PrefixError {
    /// The part before the slash is not an address.
    Address,
    /// The length is not a number, or more than 32 (IPv4) or 128 (IPv6).
    Length,
    /// Bits beyond the length are set; contains the prefix that was probably meant.
    HostBits(Prefix),
}

impl fmt::Display for PrefixError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Address => f.write_str("not an IPv4 or IPv6 address"),
            Self::Length => f.write_str("prefix length must be 0 to 32 (IPv4) or 0 to 128 (IPv6)"),
            Self::HostBits(meant) => write!(f, "bits beyond the prefix length are set; did you mean {meant}?"),
        }
    }
}

impl core::error::Error for PrefixError {}

impl Prefix {
    /// The prefix of `length` bits.
    ///
    /// # Errors
    /// When `length` is too long for the version or bits beyond it are set.
    pub fn new(address: IpAddr, length: u8) -> Result<Self, PrefixError> {
        let covering = Self::covering(address, length).ok_or(PrefixError::Length)?;
        if covering.address == address { Ok(covering) } else { Err(PrefixError::HostBits(covering)) }
    }
    /// The prefix of `length` bits around `address`, or `None` when `length` is too long.
    pub fn covering(address: IpAddr, length: u8) -> Option<Self> {
        let address = match address {
            IpAddr::V4(a) if length <= 32 => {
                IpAddr::V4(Ipv4Addr::from_bits(a.to_bits() & !low_bits(128 - 32 + length) as u32))
            }
            IpAddr::V6(a) if length <= 128 => IpAddr::V6(Ipv6Addr::from_bits(a.to_bits() & !low_bits(length))),
            _ => return None,
        };
        Some(Self { address, length })
    }
    /// The prefix that contains only `address`.
    pub const fn host(address: IpAddr) -> Self {
        let length = match address {
            IpAddr::V4(_) => 32,
            IpAddr::V6(_) => 128,
        };
        Self { address, length }
    }
    /// Returns the first address of the prefix.
    pub const fn address(self) -> IpAddr {
        self.address
    }
    /// The length in bits.
    pub const fn length(self) -> u8 {
        self.length
    }
    /// Whether `address` is in the prefix; never for the other IP version.
    pub fn contains(self, address: IpAddr) -> bool {
        match (self.range(), address) {
            ((Version::V4, low, high), IpAddr::V4(a)) => (low..=high).contains(&u128::from(a.to_bits())),
            ((Version::V6, low, high), IpAddr::V6(a)) => (low..=high).contains(&a.to_bits()),
            _ => false,
        }
    }
    /// The first and the last address as numbers.
    pub(super) fn range(self) -> (Version, u128, u128) {
        match self.address {
            IpAddr::V4(a) => {
                let low = u128::from(a.to_bits());
                (Version::V4, low, low | low_bits(128 - 32 + self.length))
            }
            IpAddr::V6(a) => (Version::V6, a.to_bits(), a.to_bits() | low_bits(self.length)),
        }
    }
}

/// Ones in all but the first `length` of 128 bits.
fn low_bits(length: u8) -> u128 {
    u128::MAX.checked_shr(u32::from(length)).unwrap_or(0)
}

impl fmt::Display for Prefix {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.address, self.length)
    }
}

/// Parses `10.0.0.0/8`, `2001:db8::/32`; an address without a length is a host.
impl FromStr for Prefix {
    type Err = PrefixError;

    fn from_str(text: &str) -> Result<Self, PrefixError> {
        match text.split_once('/') {
            None => text.parse().map(Self::host).map_err(|_| PrefixError::Address),
            Some((address, length)) => {
                let address = address.parse().map_err(|_| PrefixError::Address)?;
                Self::new(address, length.parse().map_err(|_| PrefixError::Length)?)
            }
        }
    }
}

/// A set of code points.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
pub struct DscpSet(u64);

impl DscpSet {
    /// No code point.
    pub const EMPTY: Self = Self(0);

    /// Returns the set with `dscp` added.
    #[must_use]
    pub const fn with(self, dscp: Dscp) -> Self {
        Self(self.0 | 1 << dscp.value())
    }
    /// Whether `dscp` is in the set.
    pub const fn contains(self, dscp: Dscp) -> bool {
        self.0 >> dscp.value() & 1 == 1
    }
    /// The set as 64 bits, code point 0 lowest.
    pub const fn bits(self) -> u64 {
        self.0
    }
}

impl FromIterator<Dscp> for DscpSet {
    fn from_iter<I: IntoIterator<Item = Dscp>>(all: I) -> Self {
        all.into_iter().fold(Self::EMPTY, Self::with)
    }
}

/// A condition on the mark.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct MarkMatch {
    /// The required value of the selected bits.
    pub value: u32,
    /// The selected bits.
    pub mask: u32,
}

/// A conjunction of conditions. A condition that is absent holds for every packet.
#[derive(Clone, PartialEq, Eq, Hash, Debug, Default)]
pub struct Match {
    /// The version of IP.
    pub version: Option<Version>,
    /// The code points.
    pub dscp: Option<DscpSet>,
    /// The transport protocol.
    pub protocol: Option<u8>,
    /// The source prefix.
    pub source: Option<Prefix>,
    /// The destination prefix.
    pub destination: Option<Prefix>,
    /// The source port is in one of these ranges; an empty list is no condition.
    pub source_ports: Vec<RangeInclusive<u16>>,
    /// The destination port is in one of these ranges; an empty list is no condition.
    pub destination_ports: Vec<RangeInclusive<u16>>,
    /// The mark under a mask.
    pub mark: Option<MarkMatch>,
    /// The range of user ids.
    pub uid: Option<RangeInclusive<u32>>,
    /// The id of the control group.
    pub cgroup: Option<u64>,
    /// The length is in one of these ranges; an empty list is no condition.
    pub lengths: Vec<RangeInclusive<u16>>,
    /// The TCP flags meet one of these conditions; an empty list is no condition.
    pub tcp_flags: Vec<FlagMatch>,
    /// Whether the packet must be a TCP acknowledgement without data.
    pub pure_ack: bool,
    /// The ICMP type is one of these; an empty list is no condition.
    pub icmp_types: Vec<IcmpType>,
}

impl Match {
    /// Whether all conditions hold. This defines the meaning of a rule; [`Classifier`](super::Classifier) is the fast
    /// form.
    pub fn matches(&self, fields: &Fields) -> bool {
        let version = fields.hosts.version();
        let in_ports = |ranges: &[RangeInclusive<u16>], port: Option<u16>| {
            ranges.is_empty() || port.is_some_and(|port| ranges.iter().any(|range| range.contains(&port)))
        };
        let at = |prefix: Option<Prefix>, host: Option<IpAddr>| {
            prefix.is_none_or(|prefix| host.is_some_and(|host| prefix.contains(host)))
        };
        self.version.is_none_or(|wanted| version == Some(wanted))
            && self.dscp.is_none_or(|set| version.is_some() && set.contains(fields.dscp))
            && self.protocol.is_none_or(|wanted| version.is_some() && fields.protocol == Some(wanted))
            && at(self.source, fields.hosts.source())
            && at(self.destination, fields.hosts.destination())
            && in_ports(&self.source_ports, fields.source_port)
            && in_ports(&self.destination_ports, fields.destination_port)
            && self.mark.is_none_or(|mark| fields.mark & mark.mask == mark.value)
            && self.uid.as_ref().is_none_or(|range| fields.uid.is_some_and(|uid| range.contains(&uid)))
            && self.cgroup.is_none_or(|wanted| fields.cgroup == Some(wanted))
            && in_ports(&self.lengths, Some(fields.traits.length).filter(|length| *length > 0))
            && (!self.has_tcp() || self.matches_tcp(fields.traits.signal))
            && (self.icmp_types.is_empty()
                || matches!(fields.traits.signal, Signal::Icmp(kind) if self.icmp_types.contains(&kind)))
    }

    /// Whether there is a condition on what a TCP segment signals.
    pub(super) fn has_tcp(&self) -> bool {
        self.pure_ack || !self.tcp_flags.is_empty()
    }
    /// Whether `signal` meets the conditions on flags and kind of a TCP segment.
    pub(super) fn matches_tcp(&self, signal: Signal) -> bool {
        let Signal::Tcp { flags, pure_ack } = signal else { return false };
        (pure_ack || !self.pure_ack)
            && (self.tcp_flags.is_empty() || self.tcp_flags.iter().any(|wanted| flags & wanted.mask == wanted.value))
    }
    /// The keys of the TCP segments that meet these conditions.
    pub(super) fn tcp_keys(&self) -> impl Iterator<Item = u16> + '_ {
        (0..Signal::TCP_KEYS).filter(|key| self.matches_tcp(Signal::of_tcp_key(*key)))
    }
}

/// A condition and its target.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct Rule {
    /// The conditions on the fields of a packet.
    pub matching: Match,
    /// The number of the class, or another number that the owner of the rules assigns.
    pub target: u32,
}
