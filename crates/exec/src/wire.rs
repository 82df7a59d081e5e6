//! Packets that the relay writes by itself: UDP and ICMP in IPv4 and IPv6.

use std::io::{self, ErrorKind};
use std::net::{IpAddr, SocketAddr};

use rustix::io::Errno;
use tidegate_capture::dissect::protocol;

/// Bytes of an IPv4 header without options.
const IPV4: usize = 20;
/// Bytes of an IPv6 header.
const IPV6: usize = 40;
/// Bytes of a UDP header.
const UDP: usize = 8;
const HOPS: u8 = 64;

/// Writes a UDP packet to `to`; `false` when it would be longer than an IP packet can be.
pub(crate) fn udp(from: SocketAddr, target: SocketAddr, payload: &[u8], to: &mut Vec<u8>) -> bool {
    let length = UDP + payload.len();
    let Some(at) = header(from.ip(), target.ip(), protocol::UDP, length, to) else { return false };
    to.extend_from_slice(&from.port().to_be_bytes());
    to.extend_from_slice(&target.port().to_be_bytes());
    to.extend_from_slice(&(length as u16).to_be_bytes());
    to.extend_from_slice(&[0, 0]);
    to.extend_from_slice(payload);
    let sum = match transport_checksum(from.ip(), target.ip(), protocol::UDP, &to[at..]) {
        // Zero stands for "none" (RFC 768).
        0 => 0xffff,
        sum => sum,
    };
    to[at + 6..at + 8].copy_from_slice(&sum.to_be_bytes());
    true
}

/// Writes an ICMP or ICMPv6 message, whose checksum is filled in.
pub(crate) fn icmp(from: IpAddr, target: IpAddr, message: &[u8], to: &mut Vec<u8>) -> bool {
    let number = if from.is_ipv4() { protocol::ICMP } else { protocol::ICMPV6 };
    let Some(at) = header(from, target, number, message.len(), to) else { return false };
    to.extend_from_slice(message);
    to[at + 2..at + 4].copy_from_slice(&[0, 0]);
    let sum = match from {
        IpAddr::V4(_) => !fold(sum(&to[at..])),
        IpAddr::V6(_) => transport_checksum(from, target, number, &to[at..]),
    };
    to[at + 2..at + 4].copy_from_slice(&sum.to_be_bytes());
    true
}

/// Writes the ICMP message that `packet` did not reach `from`, to the program at `target`; `false` when there is no
/// such message for `error`.
pub(crate) fn unreachable(from: IpAddr, target: IpAddr, packet: &[u8], error: &io::Error, to: &mut Vec<u8>) -> bool {
    // RFC 792 and RFC 4443: network, host, protocol (in IPv6: next header, type 4), port, and forbidden.
    let (kind, code) = match (from, error.kind()) {
        (IpAddr::V4(_), ErrorKind::NetworkUnreachable) => (3, 0),
        (IpAddr::V4(_), ErrorKind::PermissionDenied) => (3, 13),
        (IpAddr::V4(_), ErrorKind::ConnectionRefused) => (3, 3),
        (IpAddr::V4(_), _) if error.raw_os_error() == Some(Errno::PROTONOSUPPORT.raw_os_error()) => (3, 2),
        (IpAddr::V4(_), _) => (3, 1),
        (IpAddr::V6(_), ErrorKind::NetworkUnreachable) => (1, 0),
        (IpAddr::V6(_), ErrorKind::PermissionDenied) => (1, 1),
        (IpAddr::V6(_), ErrorKind::ConnectionRefused) => (1, 4),
        (IpAddr::V6(_), _) => (1, 3),
    };
    // As much of the packet as an error may quote.
    let quoted = match from {
        IpAddr::V4(_) => &packet[..packet.len().min(548)],
        IpAddr::V6(_) => &packet[..packet.len().min(1_232)],
    };
    let mut message = vec![kind, code, 0, 0, 0, 0, 0, 0];
    message.extend_from_slice(quoted);
    icmp(from, target, &message, to)
}

/// Begins a packet in `to`, which is emptied; where its payload begins.
fn header(from: IpAddr, target: IpAddr, protocol: u8, length: usize, to: &mut Vec<u8>) -> Option<usize> {
    to.clear();
    match (from, target) {
        (IpAddr::V4(from), IpAddr::V4(target)) => {
            let total = u16::try_from(IPV4 + length).ok()?.to_be_bytes();
            to.extend_from_slice(&[0x45, 0, total[0], total[1], 0, 0, 0x40, 0, HOPS, protocol, 0, 0]);
            to.extend_from_slice(&from.octets());
            to.extend_from_slice(&target.octets());
            let sum = !fold(sum(to));
            to[10..12].copy_from_slice(&sum.to_be_bytes());
            Some(IPV4)
        }
        (IpAddr::V6(from), IpAddr::V6(target)) => {
            // The device takes no more than 65,535 bytes with the header.
            u16::try_from(IPV6 + length).ok()?;
            let length = (length as u16).to_be_bytes();
            to.extend_from_slice(&[0x60, 0, 0, 0, length[0], length[1], protocol, HOPS]);
            to.extend_from_slice(&from.octets());
            to.extend_from_slice(&target.octets());
            Some(IPV6)
        }
        _ => None,
    }
}

/// The checksum over the pseudo-header and `segment`, whose own field is zero.
fn transport_checksum(from: IpAddr, target: IpAddr, protocol: u8, segment: &[u8]) -> u16 {
    let address = |address| match address {
        IpAddr::V4(v4) => sum(&v4.octets()),
        IpAddr::V6(v6) => sum(&v6.octets()),
    };
    !fold(address(from) + address(target) + u64::from(protocol) + segment.len() as u64 + sum(segment))
}

fn sum(bytes: &[u8]) -> u64 {
    let words = bytes.chunks_exact(2);
    let rest = words.remainder().first().map_or(0, |&byte| u64::from(byte) << 8);
    words.map(|word| u64::from(u16::from_be_bytes([word[0], word[1]]))).sum::<u64>() + rest
}

fn fold(mut sum: u64) -> u16 {
    while sum > 0xffff {
        sum = (sum & 0xffff) + (sum >> 16);
    }
    sum as u16
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_packet_verifies_and_says_what_it_is() {
        for (from, target) in [("192.0.2.1:53", "192.0.0.8:4000"), ("[2001:db8::1]:53", "[2001:db8::2]:4000")] {
            let (from, target): (SocketAddr, SocketAddr) = (from.parse().unwrap(), target.parse().unwrap());
            let mut packet = Vec::new();
            assert!(udp(from, target, b"odd", &mut packet));
            let seen = tidegate_capture::dissect::network(&packet, packet.len()).unwrap();
            assert_eq!((seen.fields.source_port, seen.fields.destination_port), (Some(53), Some(4000)));
            assert_eq!(seen.payload(), 3);
            let at = usize::from(seen.network_header);
            // A sum over all of it, checksum included, is all ones: its complement is nothing (RFC 1071).
            assert_eq!(transport_checksum(from.ip(), target.ip(), 17, &packet[at..]), 0);
            if from.is_ipv4() {
                assert_eq!(fold(sum(&packet[..at])), 0xffff);
            }
            assert!(!udp(from, target, &[0; 65_535], &mut packet), "too long");
        }
    }

    #[test]
    fn an_echo_of_rfc_792_has_its_checksum() {
        // Type 8, code 0, checksum 0, identifier 1, sequence 2: 0x0800 + 0x0001 + 0x0002 = 0x0803, complement 0xf7fc.
        let mut packet = Vec::new();
        assert!(icmp([192, 0, 2, 1].into(), [192, 0, 2, 2].into(), &[8, 0, 0xaa, 0xaa, 0, 1, 0, 2], &mut packet));
        assert_eq!(packet[22..24], [0xf7, 0xfc]);
    }
}
