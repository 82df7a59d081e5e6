//! The link headers before the IP header in a capture.
//!
//! *Law*: as in [`dissect`]: no input panics, and a frame that is not IP has a size and no fields.
//! *Source*: the link-layer header types of libpcap (LINKTYPE_* of tcpdump.org); IEEE 802.1Q and 802.1ad for tags;
//! RFC 2516 for PPPoE.
//! *Notes*: up to [`MAX_TAGS`] VLAN tags. 802.3 frames with a length field, MPLS is not followed.

use crate::dissect::{self, Dissection};

/// The most VLAN tags that are followed.
pub const MAX_TAGS: usize = 8;

/// The kind of header that each packet of a capture begins with.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum LinkType {
    /// BSD loopback: the address family in the byte order of the capturing host.
    Null,
    /// Ethernet, with or without VLAN tags.
    Ethernet,
    /// IPv4 or IPv6 without a link header.
    Raw,
    /// IPv4 without a link header.
    Ipv4,
    /// IPv6 without a link header.
    Ipv6,
    /// OpenBSD loopback: the address family in network byte order.
    Loop,
    /// Linux "cooked", version 1.
    LinuxCooked,
    /// Linux "cooked", version 2.
    LinuxCooked2,
}

impl LinkType {
    /// Every kind.
    pub const ALL: [Self; 8] = [
        Self::Null,
        Self::Ethernet,
        Self::Raw,
        Self::Ipv4,
        Self::Ipv6,
        Self::Loop,
        Self::LinuxCooked,
        Self::LinuxCooked2,
    ];

    /// The kind for a number in a capture file, if supported.
    pub const fn from_number(number: u32) -> Option<Self> {
        match number {
            0 => Some(Self::Null),
            1 => Some(Self::Ethernet),
            // 101 is the number for files; 12 and 14 are used by some systems for the same.
            12 | 14 | 101 => Some(Self::Raw),
            228 => Some(Self::Ipv4),
            229 => Some(Self::Ipv6),
            108 => Some(Self::Loop),
            113 => Some(Self::LinuxCooked),
            276 => Some(Self::LinuxCooked2),
            _ => None,
        }
    }
    /// The number for a capture file.
    pub const fn number(self) -> u32 {
        match self {
            Self::Null => 0,
            Self::Ethernet => 1,
            Self::Raw => 101,
            Self::Ipv4 => 228,
            Self::Ipv6 => 229,
            Self::Loop => 108,
            Self::LinuxCooked => 113,
            Self::LinuxCooked2 => 276,
        }
    }

    /// The offset of the IP header in `bytes`; `None` if it is not IP.
    pub fn network_offset(self, bytes: &[u8]) -> Option<usize> {
        match self {
            Self::Raw | Self::Ipv4 | Self::Ipv6 => Some(0),
            // The numbers of the families depend on the system; the IP version has the same information.
            Self::Null | Self::Loop => (bytes.len() > 4).then_some(4),
            Self::Ethernet => tagged(bytes, 12),
            Self::LinuxCooked => tagged(bytes, 14),
            // The protocol is first, and the payload begins sixteen bytes after its end.
            Self::LinuxCooked2 => match ether_type(bytes, 0)? {
                tag if is_tag(tag) => tagged(bytes, 22),
                other => payload(bytes, other, 20),
            },
        }
    }
}

fn ether_type(bytes: &[u8], at: usize) -> Option<u16> {
    bytes.get(at..at + 2).map(|pair| u16::from_be_bytes([pair[0], pair[1]]))
}

const fn is_tag(ether_type: u16) -> bool {
    matches!(ether_type, 0x8100 | 0x88a8 | 0x9100)
}

/// Follows tags from the type field at `at` on.
fn tagged(bytes: &[u8], mut at: usize) -> Option<usize> {
    for _ in 0..=MAX_TAGS {
        match ether_type(bytes, at)? {
            tag if is_tag(tag) => at += 4,
            other => return payload(bytes, other, at + 2),
        }
    }
    None
}

fn payload(bytes: &[u8], ether_type: u16, at: usize) -> Option<usize> {
    match ether_type {
        0x0800 | 0x86dd => Some(at),
        // A PPPoE session: six bytes, then the protocol of PPP.
        0x8864 => match self::ether_type(bytes, at + 6)? {
            0x0021 | 0x0057 => Some(at + 8),
            _ => None,
        },
        _ => None,
    }
}

/// Dissects a frame. `length` is its length before it was truncated to `bytes`. A frame that is not IP, or is
/// malformed, has its size and unknown fields.
pub fn frame(link: LinkType, bytes: &[u8], length: usize) -> Dissection {
    let length = length.max(bytes.len());
    let inside = link.network_offset(bytes).filter(|&at| at <= bytes.len());
    let seen = inside.and_then(|at| dissect::network(&bytes[at..], length - at).ok().map(|seen| (at, seen)));
    match seen {
        Some((at, seen)) => Dissection { link_header: at as u16, ..seen },
        None => Dissection { total: u32::try_from(length).unwrap_or(u32::MAX), ..Dissection::default() },
    }
}
