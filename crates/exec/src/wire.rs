//! Writes the UDP datagrams and ICMP messages that the relay sends to the program, in IPv4 and IPv6.

use std::io::{self, ErrorKind};
use std::net::{IpAddr, SocketAddr};

use rustix::io::Errno;
use smoltcp::phy::ChecksumCapabilities;
use smoltcp::wire::{
    Icmpv4DstUnreachable, Icmpv4Message, Icmpv4Packet, Icmpv6DstUnreachable, Icmpv6Message, Icmpv6Packet, IpProtocol,
    IpRepr, UDP_HEADER_LEN, UdpPacket, UdpRepr,
};

const HOP_LIMIT: u8 = 64;

/// Writes a UDP packet to the buffer `to`. Returns `false` if the packet would exceed the largest IP packet.
pub(crate) fn udp(from: SocketAddr, target: SocketAddr, payload: &[u8], to: &mut Vec<u8>) -> bool {
    let length = UDP_HEADER_LEN + payload.len();
    let Some(at) = header(from.ip(), target.ip(), IpProtocol::Udp, length, to) else { return false };
    let ports = UdpRepr { src_port: from.port(), dst_port: target.port() };
    ports.emit(
        &mut UdpPacket::new_unchecked(&mut to[at..]),
        &from.ip().into(),
        &target.ip().into(),
        payload.len(),
        |buffer| buffer.copy_from_slice(payload),
        &ChecksumCapabilities::default(),
    );
    true
}

/// Writes an ICMP or ICMPv6 message of at least eight bytes and sets its checksum. Returns `false` as [`udp`] does.
pub(crate) fn icmp(from: IpAddr, target: IpAddr, message: &[u8], to: &mut Vec<u8>) -> bool {
    let protocol = if from.is_ipv4() { IpProtocol::Icmp } else { IpProtocol::Icmpv6 };
    let Some(at) = header(from, target, protocol, message.len(), to) else { return false };
    to[at..].copy_from_slice(message);
    match (from, target) {
        (IpAddr::V6(from), IpAddr::V6(target)) => {
            Icmpv6Packet::new_unchecked(&mut to[at..]).fill_checksum(&from, &target);
        }
        _ => Icmpv4Packet::new_unchecked(&mut to[at..]).fill_checksum(),
    }
    true
}

/// Writes the ICMP destination-unreachable message that tells the program at `target` that its `packet` did not reach
/// `from`. Returns `false` as [`udp`] does.
pub(crate) fn unreachable(from: IpAddr, target: IpAddr, packet: &[u8], error: &io::Error, to: &mut Vec<u8>) -> bool {
    // The codes are from RFC 792 and RFC 4443, which also limit how much of the packet an error may quote.
    let (kind, code, quoted) = match from {
        IpAddr::V4(_) => {
            let code = match error.kind() {
                ErrorKind::NetworkUnreachable => Icmpv4DstUnreachable::NetUnreachable,
                ErrorKind::PermissionDenied => Icmpv4DstUnreachable::CommProhibited,
                ErrorKind::ConnectionRefused => Icmpv4DstUnreachable::PortUnreachable,
                _ if error.raw_os_error() == Some(Errno::PROTONOSUPPORT.raw_os_error()) => {
                    Icmpv4DstUnreachable::ProtoUnreachable
                }
                _ => Icmpv4DstUnreachable::HostUnreachable,
            };
            (Icmpv4Message::DstUnreachable.into(), code.into(), 548)
        }
        IpAddr::V6(_) => {
            let code = match error.kind() {
                ErrorKind::NetworkUnreachable => Icmpv6DstUnreachable::NoRoute,
                ErrorKind::PermissionDenied => Icmpv6DstUnreachable::AdminProhibit,
                ErrorKind::ConnectionRefused => Icmpv6DstUnreachable::PortUnreachable,
                _ => Icmpv6DstUnreachable::AddrUnreachable,
            };
            (Icmpv6Message::DstUnreachable.into(), code.into(), 1_232)
        }
    };
    let mut message = vec![kind, code, 0, 0, 0, 0, 0, 0];
    message.extend_from_slice(&packet[..packet.len().min(quoted)]);
    icmp(from, target, &message, to)
}

/// Fills the buffer `to` with an IP header and `length` zero bytes of payload. Returns the offset of the payload.
fn header(from: IpAddr, target: IpAddr, protocol: IpProtocol, length: usize, to: &mut Vec<u8>) -> Option<usize> {
    if from.is_ipv4() != target.is_ipv4() {
        return None;
    }
    let header = IpRepr::new(from.into(), target.into(), protocol, length, HOP_LIMIT);
    // The device accepts at most 65,535 bytes, the IP header included.
    u16::try_from(header.buffer_len()).ok()?;
    to.clear();
    to.resize(header.buffer_len(), 0);
    header.emit(&mut to[..], &ChecksumCapabilities::default());
    Some(header.header_len())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The sum of 16-bit words with end-around carry (RFC 1071), added to `from`.
    fn sum(bytes: &[u8], from: u64) -> u16 {
        let words = bytes.chunks(2).map(|word| u64::from(word[0]) << 8 | u64::from(*word.get(1).unwrap_or(&0)));
        let mut sum = words.sum::<u64>() + from;
        while sum > 0xffff {
            sum = (sum & 0xffff) + (sum >> 16);
        }
        sum as u16
    }

    #[test]
    fn a_packet_has_right_checksums_lengths_and_ports() {
        for (from, target) in [("192.0.2.1:53", "192.0.0.8:4000"), ("[2001:db8::1]:53", "[2001:db8::2]:4000")] {
            let (from, target): (SocketAddr, SocketAddr) = (from.parse().unwrap(), target.parse().unwrap());
            let mut packet = Vec::new();
            assert!(udp(from, target, b"odd", &mut packet));
            let dissection = tidegate_capture::dissect::network(&packet, packet.len()).unwrap();
            assert_eq!((dissection.fields.source_port, dissection.fields.destination_port), (Some(53), Some(4000)));
            assert_eq!(dissection.payload(), 3);
            let at = usize::from(dissection.network_header);
            // The sum over the whole datagram, checksum included, is all ones (RFC 1071). The addresses come from the
            // end of the IP header; the pseudo-header also contains the protocol and the length.
            let addresses = if from.is_ipv4() { 12..20 } else { 8..40 };
            let pseudo = u64::from(sum(&packet[addresses], 17 + (packet.len() - at) as u64));
            assert_eq!(sum(&packet[at..], pseudo), 0xffff);
            if from.is_ipv4() {
                assert_eq!(sum(&packet[..at], 0), 0xffff);
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
