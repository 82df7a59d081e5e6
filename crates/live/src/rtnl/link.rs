//! A link as the kernel describes it.

use std::fmt;

use super::{
    GsoLimits, IFINFO, IFLA_ADDRESS, IFLA_GSO_IPV4_MAX_SIZE, IFLA_GSO_MAX_SEGS, IFLA_GSO_MAX_SIZE, IFLA_IFNAME,
    IFLA_LINK, IFLA_LINK_NETNSID, IFLA_LINKINFO, IFLA_MASTER, IFLA_MTU, IFLA_NEW_NETNSID, IFLA_OPERSTATE, IFLA_STATS64,
    IFLA_TXQLEN, IFLA_XDP, IFLA_XDP_ATTACHED, IFLA_XDP_PROG_ID, INFO_KIND,
};
use crate::netlink::Attributes;

/// Whether packets can flow (RFC 2863).
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum OperationalState {
    /// The driver does not report it; loopback and tunnels have this state and work.
    #[default]
    Unknown,
    /// Packets can flow.
    Up,
    /// Packets cannot flow: no carrier, or set down.
    Down,
    /// Another of the RFC's states.
    Other(u8),
}

impl OperationalState {
    /// Whether packets cannot flow: it is down, what it stands on is, or it is not present.
    pub fn is_down(self) -> bool {
        matches!(self, Self::Down | Self::Other(1 | 3))
    }
}

impl fmt::Display for OperationalState {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Unknown => f.write_str("in an unknown state"),
            Self::Up => f.write_str("up"),
            Self::Down => f.write_str("down"),
            // RFC 2863, in the numbers of if.h.
            Self::Other(1) => f.write_str("not present"),
            Self::Other(3) => f.write_str("down, as what it stands on or its peer is"),
            Self::Other(4) => f.write_str("being tested"),
            Self::Other(5) => f.write_str("dormant"),
            Self::Other(state) => write!(f, "in state {state}"),
        }
    }
}

/// Counters of a link.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct LinkStatistics {
    /// Packets received.
    pub rx_packets: u64,
    /// Packets sent.
    pub tx_packets: u64,
    /// Bytes received, with the link header.
    pub rx_bytes: u64,
    /// Bytes sent, with the link header.
    pub tx_bytes: u64,
    /// Packets not received for lack of buffers.
    pub rx_dropped: u64,
    /// Packets not sent for lack of buffers.
    pub tx_dropped: u64,
}

/// A network interface.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Link {
    /// Its index, unique in its namespace while it lives.
    pub index: u32,
    /// The name, unique in its namespace.
    pub name: String,
    /// Its kind (`veth`, `bridge`), if it is virtual.
    pub kind: Option<String>,
    /// Its flags (`IFF_UP` and so on).
    pub flags: u32,
    /// Whether packets can flow.
    pub state: OperationalState,
    /// The largest packet at layer 3.
    pub mtu: u32,
    /// The length of its queue in packets.
    pub queue_length: u32,
    /// The limits on superpackets.
    pub gso: GsoLimits,
    /// Its hardware address.
    pub address: Vec<u8>,
    /// The link at its other end or below it.
    pub peer: Option<u32>,
    /// Whether that is in another network namespace, where its index means something else.
    pub is_peer_elsewhere: bool,
    /// Whether this describes it as it leaves for another network namespace.
    pub is_leaving: bool,
    /// The bridge or bond it is a port of.
    pub master: Option<u32>,
    /// The identifier of the XDP program that receives arriving packets first, if there is one.
    pub xdp: Option<u32>,
    /// The counters of its packets and bytes.
    pub statistics: LinkStatistics,
}

impl Link {
    /// Whether it is set up (it may lack a carrier all the same).
    pub fn is_up(&self) -> bool {
        self.flags & libc::IFF_UP as u32 != 0
    }

    /// Whether it is the loopback.
    pub fn is_loopback(&self) -> bool {
        self.flags & libc::IFF_LOOPBACK as u32 != 0
    }

    /// Whether it carries multicast.
    pub fn has_multicast(&self) -> bool {
        self.flags & libc::IFF_MULTICAST as u32 != 0
    }

    /// Reads a message of the kernel about a link; `None` for one that is cut off.
    pub fn parse(body: &[u8]) -> Option<Self> {
        let (header, rest) = body.split_first_chunk::<IFINFO>()?;
        let word = |at: usize| u32::from_ne_bytes([header[at], header[at + 1], header[at + 2], header[at + 3]]);
        let mut link = Self { index: word(4), flags: word(8), ..Self::default() };
        for attribute in Attributes::new(rest) {
            match attribute.kind {
                IFLA_ADDRESS => link.address = attribute.payload.to_vec(),
                IFLA_IFNAME => link.name = attribute.string()?,
                IFLA_MTU => link.mtu = attribute.u32()?,
                IFLA_LINK => link.peer = attribute.u32(),
                IFLA_LINK_NETNSID => link.is_peer_elsewhere = true,
                IFLA_NEW_NETNSID => link.is_leaving = true,
                IFLA_MASTER => link.master = attribute.u32(),
                IFLA_TXQLEN => link.queue_length = attribute.u32()?,
                IFLA_OPERSTATE => {
                    link.state = match attribute.u8()? {
                        0 => OperationalState::Unknown,
                        2 => OperationalState::Down,
                        6 => OperationalState::Up,
                        other => OperationalState::Other(other),
                    }
                }
                IFLA_XDP => {
                    let attached = attribute.nested().find(IFLA_XDP_ATTACHED).and_then(|mode| mode.u8());
                    if attached.is_some_and(|mode| mode != 0) {
                        link.xdp = Some(attribute.nested().find(IFLA_XDP_PROG_ID).and_then(|id| id.u32()).unwrap_or(0));
                    }
                }
                IFLA_LINKINFO => link.kind = attribute.nested().find(INFO_KIND).and_then(|a| a.string()),
                IFLA_STATS64 => {
                    let counter = |i: usize| {
                        let bytes = attribute.payload.get(i * 8..)?.first_chunk()?;
                        Some(u64::from_ne_bytes(*bytes))
                    };
                    // struct rtnl_link_stats64: packets, bytes, errors, dropped, each received and sent.
                    link.statistics = LinkStatistics {
                        rx_packets: counter(0)?,
                        tx_packets: counter(1)?,
                        rx_bytes: counter(2)?,
                        tx_bytes: counter(3)?,
                        rx_dropped: counter(6)?,
                        tx_dropped: counter(7)?,
                    };
                }
                IFLA_GSO_MAX_SEGS => link.gso.segments = attribute.u32(),
                IFLA_GSO_MAX_SIZE => link.gso.bytes = attribute.u32(),
                IFLA_GSO_IPV4_MAX_SIZE => link.gso.ipv4_bytes = attribute.u32(),
                _ => {}
            }
        }
        Some(link)
    }
}
