//! Computes the size on the wire of a packet or superpacket.
//!
//! *Law*: a superpacket is cut into segments, each with a copy of all headers. A single packet longer than the MTU is cut into
//! fragments, each with a copy of the IP header and, in IPv6, a fragment header of 8 bytes. The payload is sent once.
//! *Source*: segmentation offload as in Linux; RFC 791 section 3.2 and RFC 8200 section 4.5 for fragments.
//! *Units*: bytes from the network header on, plus the overhead of the link for each packet.
//! *Notes*: the data path does not know the size of a segment, which is therefore assumed to fill the MTU. A sender with smaller
//! segments (because of the path MTU or TCP options) sends more of them than are counted: with segments of 1,400 instead of
//! 1,460 bytes, 4 % of the headers or 0.2 % of the bytes are missed. In a tunnel the version is that of the packet inside, so that a
//! fragment may be taken for 8 bytes longer or shorter than it is.

use tidegate_core::Bytes;
use tidegate_core::classify::Version;

use crate::sink::{PacketMeta, Shape};

/// The fragment header of IPv6.
const FRAGMENT_HEADER: u32 = 8;

/// The size of a packet on the wire.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct OnWire {
    /// All bytes, including the overhead of each packet.
    pub size: Bytes,
    /// The number of packets, at least 1.
    pub packets: u32,
}

/// Returns the bytes and packets of `meta` on a link with this MTU and `overhead` bytes for each packet.
pub fn on_wire(meta: &PacketMeta, mtu: u32, overhead: u32) -> OnWire {
    let (repeated, added, unit) = match meta.shape {
        Shape::Super => (meta.headers, 0, 1),
        Shape::Single if meta.length <= mtu => (0, 0, 1),
        Shape::Single if meta.fields.hosts.version() == Some(Version::V6) => (meta.network_header, FRAGMENT_HEADER, 8),
        Shape::Single => (meta.network_header, 0, 8),
    };
    let hold = mtu.saturating_sub(repeated + added) / unit * unit;
    let packets = match repeated {
        0 => 1,
        _ if hold == 0 => 1,
        _ => meta.length.saturating_sub(repeated).div_ceil(hold).max(1),
    };
    let added = if packets > 1 { u64::from(added) } else { 0 };
    let more = u64::from(packets - 1) * u64::from(repeated) + u64::from(packets) * (u64::from(overhead) + added);
    OnWire { size: Bytes::new(u64::from(meta.length) + more), packets }
}

#[cfg(test)]
mod tests {
    use super::*;
    use tidegate_core::Ecn;
    use tidegate_core::classify::{Fields, Hosts};

    fn meta(hosts: Hosts, shape: Shape, network_header: u32, headers: u32, length: u32) -> PacketMeta {
        let fields = Fields { hosts, ..Fields::default() };
        PacketMeta { fields, ecn: Ecn::NotEct, length, network_header, headers, pure_ack: false, shape }
    }
    fn v4(shape: Shape, headers: u32, length: u32) -> PacketMeta {
        meta(Hosts::V4 { source: [10, 0, 0, 1].into(), destination: [10, 0, 0, 2].into() }, shape, 20, headers, length)
    }
    fn on(meta: PacketMeta, mtu: u32, overhead: u32) -> (u64, u32) {
        let wire = on_wire(&meta, mtu, overhead);
        (wire.size.as_u64(), wire.packets)
    }

    /// 64,000 bytes of payload behind 20 + 32 bytes of headers over an MTU of 1500: 1448 bytes a segment,
    /// 64,000 / 1448 = 44.2, so 45 segments and 44 more headers of 52 bytes: 64,052 + 2,288, and 45 times the overhead.
    #[test]
    fn a_superpacket_counts_every_header() {
        assert_eq!(on(v4(Shape::Super, 52, 64_052), 1500, 0), (66_340, 45));
        assert_eq!(on(v4(Shape::Super, 52, 64_052), 1500, 38), (66_340 + 45 * 38, 45));
    }

    /// A datagram of 4,008 bytes behind 20: 1480 bytes a fragment (a multiple of 8), 3 fragments, 2 more headers.
    #[test]
    fn a_long_datagram_is_fragmented() {
        assert_eq!(on(v4(Shape::Single, 28, 4_028), 1500, 0), (4_068, 3));
        // With an MTU of 1499 a fragment takes 1472: 4,008 / 1472 = 2.7. With 1355 it takes 1328: 3.02.
        assert_eq!(on(v4(Shape::Single, 28, 4_028), 1499, 0), (4_068, 3));
        assert_eq!(on(v4(Shape::Single, 28, 4_028), 1355, 0), (4_088, 4));
    }

    /// In IPv6 a fragment takes 1500 - 40 - 8 = 1452, 1448 as a multiple of 8; 4,008 / 1448 = 2.8; 2 more headers of 40
    /// and 3 fragment headers of 8.
    #[test]
    fn a_fragment_of_ipv6_has_a_header_more() {
        let hosts = Hosts::V6 { source: 1_u128.into(), destination: 2_u128.into() };
        assert_eq!(on(meta(hosts, Shape::Single, 40, 48, 4_048), 1500, 0), (4_152, 3));
        assert_eq!(on(meta(hosts, Shape::Single, 40, 48, 1_500), 1500, 0), (1_500, 1));
    }

    #[test]
    fn a_packet_that_fits_is_one_packet() {
        assert_eq!(on(v4(Shape::Single, 40, 1500), 1500, 14), (1_514, 1));
        assert_eq!(on(v4(Shape::Super, 40, 1500), 1500, 0), (1500, 1));
        assert_eq!(on(meta(Hosts::Unknown, Shape::Single, 0, 0, 9_000), 1500, 0), (9_000, 1), "not IP");
        assert_eq!(on(v4(Shape::Single, 40, 1500), 20, 0), (1500, 1), "no room for headers");
    }
}
