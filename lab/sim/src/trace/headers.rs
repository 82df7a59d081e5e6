//! Headers of simulated packets as they would appear on the wire: IPv4 (RFC 791), IPv6 (RFC 8200), TCP (RFC 9293), UDP
//! (RFC 768).

use std::net::IpAddr;

use tidegate_core::classify::Fields;

use crate::packet::{IPV4_HEADER, Proto, SimPacket};
use crate::tcp::Flags;

/// Builds the headers of `packet` with the addresses and ports in `fields`.
pub(super) fn bytes(packet: &SimPacket, fields: &Fields) -> Vec<u8> {
    let transport = match packet.transport {
        Proto::Tcp => tcp(packet, fields),
        Proto::Udp | Proto::Quic => udp(packet, fields),
    };
    // The length after the IP header. Sizes of simulated packets are those of IPv4 packets.
    let length = packet.size.saturating_sub(IPV4_HEADER);
    let class = packet.dscp.value() << 2 | packet.segment.ecn as u8;
    let mut out = match (fields.hosts.source(), fields.hosts.destination()) {
        (Some(IpAddr::V4(source)), Some(IpAddr::V4(destination))) => {
            let total = (length + IPV4_HEADER).min(65_535) as u16;
            let mut header = vec![0x45, class];
            header.extend(total.to_be_bytes());
            // Identification 0, DF set, TTL 64; the checksum is filled in below.
            header.extend([0, 0, 0x40, 0, 64, protocol(packet), 0, 0]);
            header.extend(source.octets());
            header.extend(destination.octets());
            let checksum = checksum(&header);
            header[10..12].copy_from_slice(&checksum.to_be_bytes());
            header
        }
        (Some(IpAddr::V6(source)), Some(IpAddr::V6(destination))) => {
            let mut header = vec![0x60 | class >> 4, class << 4, 0, 0];
            header.extend((length.min(65_535) as u16).to_be_bytes());
            header.extend([protocol(packet), 64]);
            header.extend(source.octets());
            header.extend(destination.octets());
            header
        }
        _ => return Vec::new(),
    };
    out.extend(transport);
    out
}

fn protocol(packet: &SimPacket) -> u8 {
    match packet.transport {
        Proto::Tcp => 6,
        Proto::Udp | Proto::Quic => 17,
    }
}

fn ports(fields: &Fields) -> Vec<u8> {
    let port = |port: Option<u16>| port.unwrap_or(0).to_be_bytes();
    [port(fields.source_port), port(fields.destination_port)].concat()
}

fn udp(packet: &SimPacket, fields: &Fields) -> Vec<u8> {
    let mut out = ports(fields);
    out.extend(packet.size.saturating_sub(IPV4_HEADER).min(65_535).to_be_bytes()[2..].iter());
    out.extend([0, 0]);
    out
}

fn tcp(packet: &SimPacket, fields: &Fields) -> Vec<u8> {
    let segment = &packet.segment;
    let mut options = Vec::new();
    if segment.flags.has(Flags::SYN) {
        // MSS and SACK-permitted, with padding.
        options.extend([2, 4]);
        options.extend(segment.mss.to_be_bytes());
        options.extend([4, 2, 1, 1]);
    }
    if let Some(timestamps) = segment.timestamps {
        options.extend([1, 1, 8, 10]);
        options.extend(timestamps.value.to_be_bytes());
        options.extend(timestamps.echo.to_be_bytes());
    }
    let blocks = segment.sack.as_slice();
    if !blocks.is_empty() && !segment.flags.has(Flags::SYN) {
        options.extend([1, 1, 5, 2 + 8 * blocks.len() as u8]);
        for (start, end) in blocks {
            options.extend(start.to_be_bytes());
            options.extend(end.to_be_bytes());
        }
    }
    if let Some(accecn) = segment.accecn {
        options.extend(accecn.wire());
        options.resize(options.len().next_multiple_of(4), 1);
    }
    let mut out = ports(fields);
    out.extend(segment.seq.to_be_bytes());
    out.extend(segment.ack.to_be_bytes());
    let set = |flag: Flags, bit: u8| if segment.flags.has(flag) { bit } else { 0 };
    let push = if segment.len > 0 { 0x08 } else { 0 };
    let flags = set(Flags::FIN, 0x01)
        | set(Flags::SYN, 0x02)
        | push
        | set(Flags::ACK, 0x10)
        | set(Flags::ECE, 0x40)
        | set(Flags::CWR, 0x80);
    let words = (20 + options.len()) / 4;
    let accurate = u8::from(segment.flags.has(Flags::AE));
    out.extend([(words << 4) as u8 | accurate, flags]);
    // The simulated window is not scaled, so the field shows at most its largest value.
    out.extend((segment.window.min(65_535) as u16).to_be_bytes());
    out.extend([0, 0, 0, 0]);
    out.extend(options);
    out
}

/// The Internet checksum (RFC 1071).
fn checksum(header: &[u8]) -> u16 {
    let sum: u32 = header.chunks(2).map(|pair| u32::from(pair[0]) << 8 | u32::from(pair[1])).sum();
    let folded = (sum & 0xffff) + (sum >> 16);
    !((folded & 0xffff) + (folded >> 16)) as u16
}
