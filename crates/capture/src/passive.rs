//! What the headers of a packet show of round trips: timestamps and sequence numbers of TCP, the spin bit of QUIC.
//!
//! *Law*: no input panics; nothing is read beyond the given bytes; a packet and its answer have the same flow, and the same peer.
//! *Source*: RFC 9293 section 3.1 (the header of TCP), RFC 7323 section 3.2 (the timestamps option), RFC 9000 section 17.3 (the short
//! header of QUIC).
//! *Cost*: about ten loads, and two multiplications for each address.
//! *See also*: [`Tracker`](tidegate_autorate::passive::Tracker), which finds the round trips.

use core::net::IpAddr;

use tidegate_autorate::passive::{Kind, Segment};

use crate::dissect::{Dissection, TcpFlags, protocol};

/// The port of QUIC.
const QUIC: u16 = 443;
/// The kind and the length of the timestamps option.
const TIMESTAMPS: (u8, u8) = (8, 10);

/// Reads a packet that begins with its network header and was dissected as `seen`; `outward` tells that it leaves. `None` if it
/// shows nothing.
#[inline]
pub fn segment(seen: &Dissection, bytes: &[u8], outward: bool) -> Option<Segment> {
    let fields = &seen.fields;
    if fields.fragment.is_some() || seen.transport_header == 0 {
        return None;
    }
    let bytes = &bytes[..bytes.len().min(seen.total as usize)];
    let header = bytes.get(seen.transport_offset()..)?;
    let kind = match fields.protocol? {
        protocol::TCP => tcp(seen, header)?,
        protocol::UDP if fields.source_port == Some(QUIC) || fields.destination_port == Some(QUIC) => {
            // A short header with the fixed bit.
            let first = *header.get(8)?;
            (first & 0xc0 == 0x40).then_some(Kind::Spin(first & 0x20 != 0))?
        }
        _ => return None,
    };
    let (source, destination) = (hash(fields.hosts.source()?), hash(fields.hosts.destination()?));
    let ends = [(source, fields.source_port?), (destination, fields.destination_port?)]
        .map(|(host, port)| mix(host ^ u64::from(port)));
    let peer = if outward { destination } else { source };
    Some(Segment { flow: mix(ends[0].wrapping_add(ends[1])), peer, outward, kind })
}

fn tcp(seen: &Dissection, header: &[u8]) -> Option<Kind> {
    let fixed = header.first_chunk::<20>()?;
    let word = |at: usize| u32::from_be_bytes([fixed[at], fixed[at + 1], fixed[at + 2], fixed[at + 3]]);
    let flags = seen.tcp_flags?;
    let ends = u32::from(flags.any(TcpFlags::SYN)) + u32::from(flags.any(TcpFlags::FIN));
    let length = seen.payload().wrapping_add(ends);
    let options = header.get(20..usize::from(seen.transport_header)).unwrap_or_default();
    Some(Kind::Tcp {
        timestamps: timestamps(options),
        end: word(4).wrapping_add(length),
        ack: flags.any(TcpFlags::ACK).then(|| word(8)),
        answered: length > 0 && !flags.any(TcpFlags::RST),
    })
}

/// The value and the echo of the timestamps option.
fn timestamps(mut options: &[u8]) -> Option<(u32, u32)> {
    loop {
        match *options {
            // The end of the list, or nothing left.
            [] | [0, ..] => return None,
            [1, ref rest @ ..] => options = rest,
            [kind, length, ..] => {
                if (kind, length) == TIMESTAMPS {
                    let option = options.first_chunk::<10>()?;
                    let word =
                        |at: usize| u32::from_be_bytes([option[at], option[at + 1], option[at + 2], option[at + 3]]);
                    return Some((word(2), word(6)));
                }
                options = options.get(usize::from(length.max(2))..)?;
            }
            [_] => return None,
        }
    }
}

fn hash(address: IpAddr) -> u64 {
    match address {
        IpAddr::V4(v4) => mix(u64::from(v4.to_bits())),
        IpAddr::V6(v6) => mix((v6.to_bits() >> 64) as u64 ^ mix(v6.to_bits() as u64)),
    }
}

/// Spreads the bits; the finaliser of SplitMix64.
fn mix(value: u64) -> u64 {
    let value = (value ^ value >> 30).wrapping_add(0x9e37_79b9_7f4a_7c15).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let value = (value ^ value >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
    value ^ value >> 31
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::dissect::network;

    /// A TCP packet from 192.0.2.1:40000 to 198.51.100.1:443, or back.
    fn packet(back: bool, options: &[u8], data: usize) -> Vec<u8> {
        let header = 20 + options.len();
        let mut packet = vec![0x45, 0, 0, (20 + header + data) as u8, 0, 0, 0, 0, 64, 6, 0, 0];
        let (client, server) = ([192, 0, 2, 1], [198, 51, 100, 1]);
        packet.extend(if back { [server, client] } else { [client, server] }.concat());
        let ports = [40_000_u16.to_be_bytes(), 443_u16.to_be_bytes()];
        packet.extend(if back { [ports[1], ports[0]] } else { ports }.concat());
        packet.extend([0, 0, 0, 7, 0, 0, 0, 9, (header as u8 / 4) << 4, 0x10, 0, 0, 0, 0, 0, 0]);
        packet.extend(options);
        packet.extend(std::iter::repeat_n(0, data));
        packet
    }
    fn read(bytes: &[u8], outward: bool) -> Option<Segment> {
        segment(&network(bytes, bytes.len()).unwrap(), bytes, outward)
    }

    #[test]
    fn timestamps_are_found_behind_other_options() {
        let options = [1, 1, 8, 10, 0, 0, 1, 0, 0, 0, 0, 5];
        let there = read(&packet(false, &options, 10), true).unwrap();
        assert_eq!(there.kind, Kind::Tcp { timestamps: Some((256, 5)), end: 17, ack: Some(9), answered: true });
        let back = read(&packet(true, &options, 0), false).unwrap();
        assert_eq!((back.flow, back.peer), (there.flow, there.peer));
        assert!(matches!(back.kind, Kind::Tcp { answered: false, .. }));
        assert_ne!(read(&packet(true, &options, 0), true).unwrap().peer, there.peer);
        // Options that claim to be longer than the header, or of no length.
        for options in [[5, 40, 0, 0], [5, 0, 0, 0], [8, 10, 0, 0], [0, 8, 10, 0]] {
            let kind = read(&packet(false, &options, 0), true).unwrap().kind;
            assert!(matches!(kind, Kind::Tcp { timestamps: None, .. }), "{options:?}");
        }
    }

    #[test]
    fn truncated_packets_show_nothing() {
        let whole = packet(false, &[1, 1, 8, 10, 0, 0, 1, 0, 0, 0, 0, 5], 0);
        for length in 20..whole.len() {
            let cut = &whole[..length];
            let kind = network(cut, whole.len()).ok().and_then(|seen| segment(&seen, cut, true)).map(|seen| seen.kind);
            assert!(!matches!(kind, Some(Kind::Tcp { timestamps: Some(_), .. })), "{length}");
        }
    }
}
