//! From the bytes of an IP packet to the fields that a classifier uses, on the fast path.
//!
//! *Law*: no input panics; nothing is read beyond the given bytes or beyond the length in the packet's own header; a
//! field that cannot be read is unknown, not guessed.
//! *Source*: RFC 791 (IPv4), RFC 8200 (IPv6 and its extension headers), RFC 4302 (AH), RFC 9293 (TCP), RFC 768 (UDP),
//! RFC 3828 (UDP-Lite), RFC 9260 (SCTP), RFC 4340 (DCCP); RFC 2003, 2473 and 4213 (IP in IP), RFC 2784 and 2890 (GRE).
//! *Units*: bytes.
//! *Cost*: a few loads per packet, one more for each extension header; a packet in a tunnel costs as much again. No allocation.
//! *Notes*: at most [`MAX_EXTENSIONS`] extension headers are followed; beyond them protocol and ports are unknown.
//! [`network`] looks into tunnels of IP in IP and of IP in GRE, up to [`MAX_TUNNELS`] of them: hosts, protocol, ports, fragment
//! and signal are those of the packet inside, as in the flow dissector of Linux, so that the connections in a tunnel are
//! flows of their own. Code point, ECN and length stay those of the packet that is on the line. A tunnel is not looked into
//! where its own packet is a fragment, where it is encrypted (ESP), in UDP (VXLAN, WireGuard) or carries Ethernet, and where
//! the header inside is malformed or was not captured. [`outer`] does not look into any.
//! Checksums are not verified: on a host with checksum offload they are not set yet. A snapshot of 96 bytes contains
//! all headers of IPv4 without options and of IPv6 with up to 36 bytes of extension headers.
//! *Departures from the source, and why*: lengths that offloading leaves at zero (superpackets over 64 KB) are taken
//! from the data path.
//! *See also*: [`link`](crate::link) for what comes before the IP header.
//!
//! ```
//! use tidegate_capture::dissect::network;
//! let mut packet = vec![0x45, 0xb8, 0, 28, 0, 0, 0, 0, 64, 17, 0, 0, 192, 0, 2, 1, 198, 51, 100, 1];
//! packet.extend([0x13, 0x88, 0x00, 0x35, 0, 8, 0, 0]);
//! let seen = network(&packet, packet.len()).unwrap();
//! assert_eq!(seen.fields.destination_port, Some(53));
//! assert_eq!(seen.fields.dscp.value(), 46);
//! assert_eq!((seen.network_header, seen.transport_header, seen.payload()), (20, 8, 0));
//! ```

use core::fmt;
use core::net::{Ipv4Addr, Ipv6Addr};

use tidegate_core::classify::{Fields, Fragment, Hosts, IcmpType, Signal, Version};
use tidegate_core::{Dscp, Ecn};

/// The most extension headers that are followed. RFC 8200 recommends seven at most.
pub const MAX_EXTENSIONS: usize = 12;

/// The most tunnels, one in the other, that are looked into.
pub const MAX_TUNNELS: usize = 2;

/// Protocol numbers of IANA that the dissector knows.
pub mod protocol {
    /// IPv6 hop-by-hop options.
    pub const HOP_BY_HOP: u8 = 0;
    /// ICMP.
    pub const ICMP: u8 = 1;
    /// IPv4 in IP (RFC 2003, RFC 2473).
    pub const IPV4: u8 = 4;
    /// TCP.
    pub const TCP: u8 = 6;
    /// UDP.
    pub const UDP: u8 = 17;
    /// DCCP.
    pub const DCCP: u8 = 33;
    /// IPv6 in IP (RFC 4213, RFC 2473).
    pub const IPV6: u8 = 41;
    /// IPv6 routing header.
    pub const ROUTING: u8 = 43;
    /// IPv6 fragment header.
    pub const FRAGMENT: u8 = 44;
    /// Generic routing encapsulation.
    pub const GRE: u8 = 47;
    /// Authentication header.
    pub const AUTHENTICATION: u8 = 51;
    /// ICMP for IPv6.
    pub const ICMPV6: u8 = 58;
    /// IPv6 destination options.
    pub const DESTINATION_OPTIONS: u8 = 60;
    /// SCTP.
    pub const SCTP: u8 = 132;
    /// Mobility header.
    pub const MOBILITY: u8 = 135;
    /// UDP-Lite.
    pub const UDP_LITE: u8 = 136;
    /// Host identity protocol.
    pub const HIP: u8 = 139;
    /// Shim6.
    pub const SHIM6: u8 = 140;
}

/// The flags of a TCP header.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
pub struct TcpFlags(pub u8);

impl TcpFlags {
    /// No more data from the sender.
    pub const FIN: u8 = 0x01;
    /// Opens a connection.
    pub const SYN: u8 = 0x02;
    /// Resets a connection.
    pub const RST: u8 = 0x04;
    /// Push.
    pub const PSH: u8 = 0x08;
    /// The acknowledgement number is valid.
    pub const ACK: u8 = 0x10;
    /// The urgent pointer is valid.
    pub const URG: u8 = 0x20;
    /// ECN echo.
    pub const ECE: u8 = 0x40;
    /// The congestion window was reduced.
    pub const CWR: u8 = 0x80;

    /// Whether any of `flags` is set.
    pub const fn any(self, flags: u8) -> bool {
        self.0 & flags != 0
    }
}

/// The headers of a packet.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Dissection {
    /// The fields for the classifier. The data path sets mark and owner.
    pub fields: Fields,
    /// The ECN field.
    pub ecn: Ecn,
    /// Bytes of the network packet with headers, without link header and padding.
    pub total: u32,
    /// Bytes before the network header; 0 if there is none.
    pub link_header: u16,
    /// Bytes of the IP header with options or extension headers; 0 when it is not IP.
    pub network_header: u16,
    /// Bytes between this and the transport header: the headers of tunnels, and the IP header of the packet inside; 0 without a
    /// tunnel that was looked into.
    pub tunnel_header: u32,
    /// The protocol of the outermost tunnel that was looked into.
    pub tunnel: Option<u8>,
    /// Bytes of the transport header; 0 when it is unknown or was not captured.
    pub transport_header: u16,
    /// The flags of a TCP packet, if captured.
    pub tcp_flags: Option<TcpFlags>,
}

impl Dissection {
    /// Bytes of all headers from the network header on.
    pub fn headers(&self) -> u32 {
        u32::from(self.network_header) + self.tunnel_header + u32::from(self.transport_header)
    }
    /// The offset of the transport header in the dissected bytes.
    pub fn transport_offset(&self) -> usize {
        usize::from(self.link_header) + usize::from(self.network_header) + self.tunnel_header as usize
    }
    /// Bytes after the headers.
    pub fn payload(&self) -> u32 {
        self.total.saturating_sub(self.headers())
    }
    /// The offset of the payload in the dissected bytes.
    pub fn payload_offset(&self) -> usize {
        usize::from(self.link_header) + self.headers() as usize
    }
    /// Whether it is a pure TCP acknowledgement: no data, no SYN, FIN or RST, no congestion echo.
    pub fn is_pure_ack(&self) -> bool {
        matches!(self.fields.traits.signal, Signal::Tcp { pure_ack: true, .. })
    }
}

/// Why bytes are not an IP packet.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Malformed {
    /// The version is neither 4 nor 6.
    Version(u8),
    /// Shorter than the fixed header: the number of bytes.
    Truncated(usize),
    /// An IPv4 header length below 20 bytes.
    HeaderLength(u8),
    /// A total length that is shorter than the header.
    TotalLength(u16),
}

impl fmt::Display for Malformed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Version(version) => write!(f, "IP version is {version}, not 4 or 6"),
            Self::Truncated(bytes) => write!(f, "only {bytes} bytes, less than an IP header"),
            Self::HeaderLength(bytes) => write!(f, "IPv4 header length is {bytes} bytes, less than 20"),
            Self::TotalLength(bytes) => write!(f, "IPv4 total length is {bytes} bytes, less than its header"),
        }
    }
}

impl std::error::Error for Malformed {}

/// Dissects a packet that begins with its IP header, and looks into tunnels. `bytes` may be truncated; `length` is the original
/// length of the packet (at least that of `bytes`).
///
/// # Errors
/// When the fixed header is missing or inconsistent. The packet then belongs to no known flow, and its size is
/// `length`.
#[inline]
pub fn network(bytes: &[u8], length: usize) -> Result<Dissection, Malformed> {
    let seen = outer(bytes, length)?;
    match seen.fields.protocol {
        Some(protocol::IPV4 | protocol::IPV6 | protocol::GRE) => Ok(inside(&seen, bytes)),
        _ => Ok(seen),
    }
}

/// Dissects a packet as [`network`] does, without looking into tunnels: for what a host does with packets that are addressed to it.
///
/// # Errors
/// Those of [`network`].
#[inline]
pub fn outer(bytes: &[u8], length: usize) -> Result<Dissection, Malformed> {
    match bytes.first().map(|first| first >> 4) {
        Some(4) => ipv4(bytes, length).map(with_traits),
        Some(6) => ipv6(bytes, length).map(with_traits),
        Some(other) => Err(Malformed::Version(other)),
        None => Err(Malformed::Truncated(0)),
    }
}

/// The packets of a packet, from the outermost one to the one inside that [`network`] shows: the offset of each in `bytes`, and its
/// headers without those of the packets that it carries.
pub fn layers(bytes: &[u8], length: usize) -> impl Iterator<Item = (usize, Dissection)> {
    layers_of(outer(bytes, length).ok(), bytes)
}

fn layers_of(packet: Option<Dissection>, bytes: &[u8]) -> impl Iterator<Item = (usize, Dissection)> {
    let first = packet.map(|packet| (0, packet));
    let inside = core::iter::successors(first, move |(before, seen)| {
        let packet = bytes.get(*before..)?;
        let packet = &packet[..packet.len().min(seen.total as usize)];
        let at = carried(seen, packet)?;
        let next = outer(packet.get(at..)?, (seen.total as usize).saturating_sub(at)).ok()?;
        Some((before + at, next))
    });
    inside.take(1 + MAX_TUNNELS)
}

/// Follows the tunnels of a packet to the packet inside, as far as it can be read.
#[cold]
fn inside(packet: &Dissection, bytes: &[u8]) -> Dissection {
    let Some((before, seen)) = layers_of(Some(*packet), bytes).last().filter(|(before, _)| *before > 0) else {
        return *packet;
    };
    let mut fields = Fields { dscp: packet.fields.dscp, ..seen.fields };
    if fields.fragment.is_none() {
        fields.traits.length = packet.fields.traits.length;
    }
    Dissection {
        fields,
        ecn: packet.ecn,
        total: packet.total,
        network_header: packet.network_header,
        tunnel_header: (before + usize::from(seen.network_header) - usize::from(packet.network_header)) as u32,
        tunnel: packet.fields.protocol,
        ..seen
    }
}

/// The offset of the packet that `seen` carries in its `bytes`, if it is the packet of a tunnel that can be looked into.
fn carried(seen: &Dissection, bytes: &[u8]) -> Option<usize> {
    let at = usize::from(seen.network_header);
    match seen.fields.protocol? {
        _ if seen.fields.fragment.is_some() => None,
        protocol::IPV4 | protocol::IPV6 => Some(at),
        protocol::GRE => {
            let &[flags, version, high, low] = bytes.get(at..)?.first_chunk()?;
            // Checksum, key and sequence number follow where their flags are set. A receiver discards other flags (RFC 2784,
            // section 2.3), and version 1 is that of PPTP.
            let is_ip = matches!([high, low], [0x08, 0x00] | [0x86, 0xdd]);
            let is_known = flags & 0x4c == 0 && version & 7 == 0;
            (is_ip && is_known).then_some(at + 4 + 4 * (flags & 0xb0).count_ones() as usize)
        }
        _ => None,
    }
}

/// Completes the properties of the packet. Those of a fragment stay unknown: its datagram has another length, and only the first
/// one has the flags.
#[inline]
fn with_traits(mut seen: Dissection) -> Dissection {
    if seen.fields.fragment.is_some() {
        seen.fields.traits.signal = Signal::Unknown;
        return seen;
    }
    seen.fields.traits.length = u16::try_from(seen.total).unwrap_or(u16::MAX);
    if let Some(TcpFlags(flags)) = seen.tcp_flags {
        let acknowledges = flags & !TcpFlags::PSH == TcpFlags::ACK;
        let pure_ack = acknowledges && seen.transport_header != 0 && seen.payload() == 0;
        seen.fields.traits.signal = Signal::Tcp { flags, pure_ack };
    }
    seen
}

fn word(bytes: &[u8], at: usize) -> Option<u16> {
    bytes.get(at..at + 2).map(|pair| u16::from_be_bytes([pair[0], pair[1]]))
}

/// The total length: the header's, unless it is zero or more than `length`.
fn total(stated: usize, length: usize) -> u32 {
    let total = if stated == 0 || stated > length { length } else { stated };
    u32::try_from(total).unwrap_or(u32::MAX)
}

fn ipv4(bytes: &[u8], length: usize) -> Result<Dissection, Malformed> {
    let Some(fixed) = bytes.first_chunk::<20>() else { return Err(Malformed::Truncated(bytes.len())) };
    let header = usize::from(fixed[0] & 0xf) * 4;
    if header < 20 {
        return Err(Malformed::HeaderLength(header as u8));
    }
    let stated = u16::from_be_bytes([fixed[2], fixed[3]]);
    if stated != 0 && usize::from(stated) < header {
        return Err(Malformed::TotalLength(stated));
    }
    let total = total(stated.into(), length.max(bytes.len()));
    let slice = u16::from_be_bytes([fixed[6], fixed[7]]);
    let (offset, more) = ((slice & 0x1fff) * 8, slice & 0x2000 != 0);
    let id = u16::from_be_bytes([fixed[4], fixed[5]]);
    let fragment = (offset != 0 || more).then_some(Fragment { id: id.into(), offset, more });
    let mut seen = Dissection {
        fields: Fields {
            hosts: Hosts::V4 {
                source: Ipv4Addr::new(fixed[12], fixed[13], fixed[14], fixed[15]),
                destination: Ipv4Addr::new(fixed[16], fixed[17], fixed[18], fixed[19]),
            },
            dscp: Dscp::new(fixed[1] >> 2).unwrap_or_default(),
            protocol: Some(fixed[9]),
            fragment,
            ..Fields::default()
        },
        ecn: Ecn::from_bits(fixed[1]),
        total,
        network_header: header as u16,
        ..Dissection::default()
    };
    let bytes = &bytes[..bytes.len().min(total as usize)];
    if fragment.is_none() {
        extensions(&mut seen, bytes, header, fixed[9], |next| next == protocol::AUTHENTICATION);
    } else if offset == 0 {
        // All fragments of a datagram must have the same protocol, and the later ones show no other header.
        transport(&mut seen, bytes, header, fixed[9]);
    }
    Ok(seen)
}

fn ipv6(bytes: &[u8], length: usize) -> Result<Dissection, Malformed> {
    let Some(fixed) = bytes.first_chunk::<40>() else { return Err(Malformed::Truncated(bytes.len())) };
    let address = |at: usize| {
        let mut octets = [0; 16];
        octets.copy_from_slice(&fixed[at..at + 16]);
        Ipv6Addr::from_octets(octets)
    };
    let payload = usize::from(u16::from_be_bytes([fixed[4], fixed[5]]));
    // A jumbogram also has length zero; then the length from the data path applies.
    let stated = if payload == 0 { 0 } else { payload + 40 };
    let total = total(stated, length.max(bytes.len()));
    let class = fixed[0] << 4 | fixed[1] >> 4;
    let mut seen = Dissection {
        fields: Fields {
            hosts: Hosts::V6 { source: address(8), destination: address(24) },
            dscp: Dscp::new(class >> 2).unwrap_or_default(),
            ..Fields::default()
        },
        ecn: Ecn::from_bits(class),
        total,
        network_header: 40,
        ..Dissection::default()
    };
    let bytes = &bytes[..bytes.len().min(total as usize)];
    extensions(&mut seen, bytes, 40, fixed[6], |next| {
        matches!(
            next,
            protocol::HOP_BY_HOP
                | protocol::ROUTING
                | protocol::FRAGMENT
                | protocol::AUTHENTICATION
                | protocol::DESTINATION_OPTIONS
                | protocol::MOBILITY
                | protocol::HIP
                | protocol::SHIM6
        )
    });
    Ok(seen)
}

/// Follows the headers from `at` on, the first of which is `next`, while they are extensions.
#[inline]
fn extensions(seen: &mut Dissection, bytes: &[u8], mut at: usize, mut next: u8, is_extension: impl Fn(u8) -> bool) {
    let (mut left, mut later) = (MAX_EXTENSIONS, false);
    while is_extension(next) {
        let Some(&[following, length]) = bytes.get(at..).and_then(|rest| rest.first_chunk()) else { break };
        let size = match next {
            protocol::FRAGMENT => 8,
            protocol::AUTHENTICATION => (usize::from(length) + 2) * 4,
            _ => (usize::from(length) + 1) * 8,
        };
        // An authentication header has at least its fixed twelve bytes, and a truncated extension hides the start of
        // the next.
        let cut = bytes.len() < at + size || next == protocol::AUTHENTICATION && size < 12;
        if cut || left == 0 {
            break;
        }
        if next == protocol::FRAGMENT {
            let slice = word(bytes, at + 2).unwrap_or(0);
            let id = bytes[at + 4..at + 8].iter().fold(0, |id, &byte| id << 8 | u32::from(byte));
            let fragment = Fragment { id, offset: slice & !7, more: slice & 1 == 1 };
            // An atomic fragment (RFC 6946) is a whole datagram; of fragments within fragments the outer one counts.
            let whole = fragment.is_first() && !fragment.more;
            seen.fields.fragment = seen.fields.fragment.or((!whole).then_some(fragment));
            later |= !fragment.is_first();
        }
        at += size;
        next = following;
        left -= 1;
        seen.network_header = at as u16;
        if later {
            seen.fields.protocol = Some(next);
            return;
        }
    }
    // The header after an extension that could not be followed is unknown.
    seen.fields.protocol = (!is_extension(next)).then_some(next);
    if seen.fields.protocol.is_some() {
        transport(seen, bytes, at, next);
    }
}

#[inline]
fn transport(seen: &mut Dissection, bytes: &[u8], at: usize, protocol: u8) {
    let header = match protocol {
        protocol::TCP => {
            seen.tcp_flags = bytes.get(at + 13).map(|&flags| TcpFlags(flags));
            let words = bytes.get(at + 12).map_or(0, |offset| offset >> 4);
            if words < 5 { 0 } else { u16::from(words) * 4 }
        }
        protocol::UDP | protocol::UDP_LITE => 8,
        protocol::SCTP => 12,
        protocol::DCCP => {
            let words = bytes.get(at + 4).map_or(0, |&offset| u16::from(offset));
            if words < 3 { 0 } else { words * 4 }
        }
        protocol::ICMP | protocol::ICMPV6 => {
            seen.transport_header = if seen.total as usize >= at + 8 { 8 } else { 0 };
            let version = if protocol == protocol::ICMP { Version::V4 } else { Version::V6 };
            if let Some(&number) = bytes.get(at) {
                seen.fields.traits.signal = Signal::Icmp(IcmpType { version, number });
            }
            return;
        }
        _ => return,
    };
    if let Some(&[a, b, c, d]) = bytes.get(at..).and_then(|rest| rest.first_chunk()) {
        seen.fields.source_port = Some(u16::from_be_bytes([a, b]));
        seen.fields.destination_port = Some(u16::from_be_bytes([c, d]));
    }
    // A header that does not fit into the packet is ignored.
    if at + usize::from(header) <= seen.total as usize {
        seen.transport_header = header;
    }
}
