//! The bytes a packet takes on the wire when the kernel hands it over in one piece and the interface cuts it up.
//!
//! *Law*: `wire_bytes = total + (segments - 1) x (network header + transport header)`: each segment has its own
//! headers, and all the payload is sent once.
//! *Source*: segmentation offload as Linux does it; RFC 791 section 3.2 for packets that are fragmented instead.
//! *Units*: bytes at the network layer; link headers, preambles and gaps are overhead for the configuration to add,
//! once for each segment.
//! *Notes*: the data path is not told the size of a segment, so it is taken from the MTU. A sender with a smaller
//! segment size (small path MTU, TCP options that come and go) makes more segments than are counted: with a real
//! size of 1,400 instead of 1,460 bytes, 4 % of the headers, 0.2 % of the bytes, are missed.

use tidegate_units::Bytes;

use crate::dissect::{Dissection, protocol};

/// How many packets of at most `mtu` bytes carry what `seen` carries; at least 1.
///
/// TCP and UDP are cut by segmentation, headers repeated in full. Anything else that is longer than the MTU is
/// fragmented: only the IP header is repeated, and pieces are multiples of eight bytes.
pub fn segments(seen: &Dissection, mtu: u32) -> u32 {
    let headers = repeated(seen);
    if seen.total <= mtu || headers == 0 || mtu <= headers {
        return 1;
    }
    let room = mtu - headers;
    let room = if is_segmented(seen) { room } else { (room & !7).max(8) };
    (seen.total - headers).div_ceil(room).max(1)
}

/// The bytes of `segments` packets that carry what `seen` carries.
pub fn wire_bytes(seen: &Dissection, segments: u32) -> Bytes {
    let more = u64::from(segments.saturating_sub(1)) * u64::from(repeated(seen));
    Bytes::new(u64::from(seen.total) + more)
}

fn is_segmented(seen: &Dissection) -> bool {
    matches!(seen.fields.protocol, Some(protocol::TCP | protocol::UDP))
        && seen.transport_header != 0
        && seen.fields.fragment.is_none()
}

/// The headers that each piece has.
fn repeated(seen: &Dissection) -> u32 {
    if is_segmented(seen) { seen.headers() } else { seen.network_header.into() }
}

#[cfg(test)]
mod tests {
    use super::*;
    use tidegate_core::classify::Fields;

    fn packet(protocol: u8, transport_header: u16, total: u32) -> Dissection {
        Dissection {
            fields: Fields { protocol: Some(protocol), ..Fields::default() },
            total,
            network_header: 20,
            transport_header,
            ..Dissection::default()
        }
    }

    /// 64,000 bytes of payload behind 20 + 32 bytes of headers over an MTU of 1500: 1448 bytes a segment,
    /// 64,000 / 1448 = 44.2, so 45 segments and 44 more headers of 52 bytes: 64,052 + 2,288.
    #[test]
    fn a_superpacket_counts_every_header() {
        let seen = packet(protocol::TCP, 32, 64_052);
        assert_eq!(segments(&seen, 1500), 45);
        assert_eq!(wire_bytes(&seen, 45), Bytes::new(66_340));
    }

    /// An echo of 4,008 bytes behind 20: 1480 bytes a fragment (a multiple of 8), 3 fragments, 2 more headers.
    #[test]
    fn a_long_datagram_is_fragmented() {
        let seen = packet(protocol::ICMP, 8, 4_028);
        assert_eq!(segments(&seen, 1500), 3);
        assert_eq!(wire_bytes(&seen, 3), Bytes::new(4_068));
        // With an MTU of 1499 a fragment takes 1472: 4,008 / 1472 = 2.7.
        assert_eq!(segments(&seen, 1499), 3);
        assert_eq!(segments(&seen, 1355), 4, "1328 a fragment");
    }

    #[test]
    fn what_fits_is_one() {
        assert_eq!(segments(&packet(protocol::TCP, 20, 1500), 1500), 1);
        assert_eq!(wire_bytes(&packet(protocol::TCP, 20, 1500), 1), Bytes::new(1500));
        assert_eq!(segments(&Dissection { total: 9000, ..Dissection::default() }, 1500), 1, "not IP");
        assert_eq!(segments(&packet(protocol::TCP, 20, 1500), 40), 1, "no room for headers");
    }
}
