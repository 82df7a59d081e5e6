//! Writes code points and congestion marks into the bytes of a packet and updates checksums.
//!
//! *Law*: only the DSCP or the ECN field changes, and the IPv4 header checksum; a checksum that was wrong before is
//! wrong by the same amount afterwards, so that corruption stays detectable.
//! *Source*: RFC 2474 (DSCP), RFC 3168 (ECN), RFC 1624 equation 3 (incremental checksum). The traffic class of IPv6
//! is in no checksum, not even in the pseudo-header of transports.
//! *Cost*: constant, a handful of loads and one or three stores.
//! *Notes*: not for superpackets on their way out of the kernel: those take a mark, and a kernel rule writes the code
//! point.
//!
//! ```
//! use tidegate_capture::{dissect::network, rewrite};
//! use tidegate_core::{Dscp, Ecn};
//! let mut packet = [0x45, 2, 0, 20, 0, 0, 0, 0, 64, 59, 0xb7, 0x45, 192, 0, 2, 1, 198, 51, 100, 1];
//! assert!(rewrite::set_dscp(&mut packet, Dscp::EF));
//! assert!(rewrite::mark_ce(&mut packet));
//! let seen = network(&packet, 20).unwrap();
//! assert_eq!((seen.fields.dscp, seen.ecn), (Dscp::EF, Ecn::Ce));
//! ```

use tidegate_core::{Dscp, Ecn};

/// Sets the code point; returns `false` and changes nothing when `packet` does not begin with an IP header.
pub fn set_dscp(packet: &mut [u8], dscp: Dscp) -> bool {
    change_class(packet, |class| Some(class & 3 | dscp.value() << 2))
}

/// Marks congestion experienced; returns `false` and changes nothing when the transport is not ECN-capable or
/// `packet` does not begin with an IP header.
pub fn mark_ce(packet: &mut [u8]) -> bool {
    change_class(packet, |class| Ecn::from_bits(class).is_capable().then_some(class | Ecn::Ce.bits()))
}

/// Replaces the traffic class octet by the result of `change`.
fn change_class(packet: &mut [u8], change: impl Fn(u8) -> Option<u8>) -> bool {
    match packet.first().map(|first| first >> 4) {
        Some(4) => {
            let Some(header) = packet.first_chunk_mut::<20>() else { return false };
            let Some(class) = change(header[1]) else { return false };
            let old = u16::from_be_bytes([header[0], header[1]]);
            let new = u16::from_be_bytes([header[0], class]);
            let checksum = u16::from_be_bytes([header[10], header[11]]);
            header[1] = class;
            [header[10], header[11]] = adjusted(checksum, old, new).to_be_bytes();
            true
        }
        Some(6) => {
            let Some([first, second, ..]) = packet.first_chunk_mut::<40>() else { return false };
            let Some(class) = change(*first << 4 | *second >> 4) else { return false };
            *first = 0x60 | class >> 4;
            *second = *second & 0xf | class << 4;
            true
        }
        _ => false,
    }
}

/// RFC 1624, equation 3: HC' = ~(~HC + ~m + m').
pub(crate) fn adjusted(checksum: u16, old: u16, new: u16) -> u16 {
    let sum = u32::from(!checksum) + u32::from(!old) + u32::from(new);
    let folded = (sum & 0xffff) + (sum >> 16);
    !((folded & 0xffff) + (folded >> 16)) as u16
}

/// The checksum of an IPv4 header, computed in full with its checksum field taken as zero (RFC 1071).
pub fn header_checksum(header: &[u8]) -> u16 {
    let words = header.as_chunks::<2>().0.iter().enumerate().filter(|(at, _)| *at != 5);
    let mut sum: u32 = words.map(|(_, &word)| u32::from(u16::from_be_bytes(word))).sum();
    while sum > 0xffff {
        sum = (sum & 0xffff) + (sum >> 16);
    }
    !sum as u16
}

#[cfg(test)]
mod tests {
    use super::*;
    use tidegate_core::random::Stream;

    /// Section 4 of RFC 1624: HC = 0xDD2F, m = 0x5555, m' = 0x3285 gives 0x0000, where the older equation gave
    /// 0xFFFF.
    #[test]
    fn the_example_of_the_rfc() {
        assert_eq!(adjusted(0xdd2f, 0x5555, 0x3285), 0);
    }

    #[test]
    fn agrees_with_computing_it_anew() {
        let mut draw = Stream::named(1, "rewrite");
        for _ in 0..50_000 {
            let words = 5 + draw.below(11) as u8;
            let mut packet: Vec<u8> = (0..words * 4).map(|_| draw.next_u64() as u8).collect();
            packet[0] = 0x40 | words;
            let checksum = header_checksum(&packet);
            packet[10..12].copy_from_slice(&checksum.to_be_bytes());
            let before = packet.clone();
            let dscp = Dscp::new(draw.below(64) as u8).unwrap();
            assert!(set_dscp(&mut packet, dscp));
            assert_eq!(packet[10..12], header_checksum(&packet).to_be_bytes());
            assert_eq!(packet[1], dscp.value() << 2 | before[1] & 3);
            let capable = before[1] & 3 != 0;
            assert_eq!(mark_ce(&mut packet), capable);
            assert_eq!(packet[1], dscp.value() << 2 | if capable { 3 } else { 0 });
            assert_eq!(packet[10..12], header_checksum(&packet).to_be_bytes());
            // Nothing else changed, and the reverse change restores the packet.
            assert!((0..packet.len()).all(|i| matches!(i, 1 | 10 | 11) || packet[i] == before[i]));
        }
    }

    #[test]
    fn a_wrong_checksum_stays_wrong_by_as_much() {
        let mut packet = [0x45, 0, 0, 20, 1, 2, 0, 0, 64, 6, 0, 0, 10, 0, 0, 1, 10, 0, 0, 2];
        let wrong = header_checksum(&packet) - 0x111;
        packet[10..12].copy_from_slice(&wrong.to_be_bytes());
        assert!(set_dscp(&mut packet, Dscp::EF));
        assert_eq!(header_checksum(&packet) - 0x111, u16::from_be_bytes([packet[10], packet[11]]));
    }

    #[test]
    fn the_traffic_class_of_ipv6() {
        let mut packet = [0xff_u8; 48];
        packet[0] = 0x6f;
        assert!(set_dscp(&mut packet, Dscp::BEST_EFFORT));
        assert_eq!(packet[..3], [0x60, 0x3f, 0xff], "the flow label and ECN stay");
        packet[1] = 0x0f;
        assert!(!mark_ce(&mut packet));
        packet[1] = 0x1f;
        assert!(mark_ce(&mut packet));
        assert_eq!(packet[..3], [0x60, 0x3f, 0xff]);
    }

    #[test]
    fn what_is_no_ip_packet_is_left_alone() {
        for mut bytes in [vec![], vec![0x45; 19], vec![0x60; 39], vec![0x50; 60]] {
            let before = bytes.clone();
            assert!(!set_dscp(&mut bytes, Dscp::EF) && !mark_ce(&mut bytes));
            assert_eq!(bytes, before);
        }
    }
}
