//! Segments the superpackets of a capture, which an offload made of several packets on the wire, as the kernel would.

use tidegate_capture::dissect::{Dissection, TcpFlags, layers, protocol};
use tidegate_capture::rewrite::header_checksum;
use tidegate_core::classify::{Signal, Version};
use tidegate_engine::{PacketMeta, Shape};

use crate::run::is_segmented;

/// The longest superpacket of the kernel (BIG TCP).
const LONGEST: u32 = 512 << 10;

/// Whether the kernel would segment such a packet if it were longer than the MTU of the interface.
pub fn can_be_cut(meta: &PacketMeta) -> bool {
    meta.length <= LONGEST
        && meta.fields.protocol.is_some_and(is_segmented)
        && meta.headers > meta.network_header
        && meta.network_header >= 20
        && meta.fields.fragment.is_none()
}

/// Bytes of payload in each segment except the last.
fn payload_limit(meta: &PacketMeta, mtu: u32) -> u32 {
    match mtu.saturating_sub(meta.headers) {
        0 => meta.length.max(1),
        payload_limit => payload_limit,
    }
}

/// The metadata of the segments of a superpacket for an interface with this MTU, in their order.
pub fn segments(meta: &PacketMeta, mtu: u32) -> impl Iterator<Item = PacketMeta> + use<> {
    let (meta, payload_limit) = (*meta, payload_limit(meta, mtu));
    let payload = meta.length.saturating_sub(meta.headers);
    let count = payload.div_ceil(payload_limit).max(1);
    (0..count).map(move |n| {
        let length = meta.headers + payload_limit.min(payload - n * payload_limit);
        let mut fields = meta.fields;
        fields.traits.length = u16::try_from(length).unwrap_or(u16::MAX);
        if let Signal::Tcp { flags, pure_ack } = &mut fields.traits.signal {
            *flags &= !flags_of_others(n == 0, n + 1 == count);
            *pure_ack = false;
        }
        PacketMeta { fields, length, pure_ack: false, shape: Shape::Single, ..meta }
    })
}

/// The TCP flags of a superpacket that a segment does not have. Only the last one has FIN and PSH; only the first one has CWR,
/// because the window was reduced once.
fn flags_of_others(is_first: bool, is_last: bool) -> u8 {
    let of_last = if is_last { 0 } else { TcpFlags::FIN | TcpFlags::PSH };
    of_last | if is_first { 0 } else { TcpFlags::CWR }
}

/// The bytes of segment `number` (from 1) of a superpacket. `whole` are the captured bytes of the superpacket from the network
/// header on. Lengths, sequence numbers and flags are as the kernel makes them, and the header checksum of IPv4 is correct; the
/// checksum of the transport is zero, because not all bytes that it covers may have been captured.
pub fn segment_bytes(whole: &[u8], meta: &PacketMeta, mtu: u32, number: u32) -> Vec<u8> {
    if !can_be_cut(meta) {
        return whole.to_vec();
    }
    let headers = meta.headers as usize;
    let payload_limit = payload_limit(meta, mtu) as usize;
    let payload = (meta.length as usize).saturating_sub(headers);
    let from = (number.saturating_sub(1) as usize * payload_limit).min(payload);
    let length = payload_limit.min(payload - from);
    let is_last = from + length >= payload;
    let mut bytes = whole[..headers.min(whole.len())].to_vec();
    if bytes.len() < headers {
        return bytes;
    }
    let behind = &whole[headers..];
    bytes.extend_from_slice(&behind[from.min(behind.len())..(from + length).min(behind.len())]);
    let layers: Vec<_> = layers(&bytes, headers + length).collect();
    let Some(network) = layers.last().map(|(at, seen)| at + usize::from(seen.network_header)) else { return bytes };
    for (at, seen) in &layers {
        finish_network(&mut bytes[*at..], seen, headers + length - at, number);
    }
    let Some(transport) = bytes.get_mut(network..headers) else { return bytes };
    match (meta.fields.protocol, transport.len()) {
        (Some(protocol::TCP), 20..) => {
            let sequence = u32::from_be_bytes([transport[4], transport[5], transport[6], transport[7]]);
            transport[4..8].copy_from_slice(&sequence.wrapping_add(from as u32).to_be_bytes());
            transport[13] &= !flags_of_others(number <= 1, is_last);
            transport[16..18].fill(0);
        }
        (Some(protocol::UDP), 8..) => {
            let total = u16::try_from(headers - network + length).unwrap_or(0);
            transport[4..6].copy_from_slice(&total.to_be_bytes());
            transport[6..8].fill(0);
        }
        _ => {}
    }
    bytes
}

/// Writes length, identification and checksum of an IP header, which `packet` begins with, for segment `number` of `length` bytes.
fn finish_network(packet: &mut [u8], seen: &Dissection, length: usize, number: u32) {
    let total = u16::try_from(length).unwrap_or(0);
    match seen.fields.hosts.version() {
        Some(Version::V4) => {
            packet[2..4].copy_from_slice(&total.to_be_bytes());
            let id = u16::from_be_bytes([packet[4], packet[5]]).wrapping_add(number.saturating_sub(1) as u16);
            packet[4..6].copy_from_slice(&id.to_be_bytes());
            let header = usize::from(packet[0] & 0xf) * 4;
            let checksum = header_checksum(&packet[..header]);
            packet[10..12].copy_from_slice(&checksum.to_be_bytes());
        }
        Some(Version::V6) => packet[4..6].copy_from_slice(&total.saturating_sub(40).to_be_bytes()),
        None => {}
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use tidegate_capture::dissect::network;
    use tidegate_core::Ecn;
    use tidegate_core::classify::Fields;

    /// 4,000 bytes of payload behind 20 + 20: segments of 1,460, 1,460 and 1,080 bytes over an MTU of 1,500.
    #[test]
    fn a_superpacket_of_tcp() {
        let mut whole = vec![0x45, 0, 0x0f, 0xc8, 0, 9, 0, 0, 64, 6, 0, 0, 192, 0, 2, 1, 198, 51, 100, 1];
        whole.extend([0, 80, 1, 0, 0xff, 0xff, 0xff, 0xff, 0, 0, 0, 1, 0x50, 0x99, 1, 0, 7, 7, 0, 0]);
        whole.extend((0..4_000_u32).map(|n| n as u8));
        let meta = network(&whole, whole.len()).unwrap();
        let meta = PacketMeta {
            fields: meta.fields,
            ecn: Ecn::NotEct,
            length: meta.total,
            network_header: meta.network_header.into(),
            headers: meta.headers(),
            pure_ack: false,
            shape: Shape::Super,
        };
        assert!(can_be_cut(&meta));
        let lengths: Vec<_> = segments(&meta, 1500).map(|segment| segment.length).collect();
        assert_eq!(lengths, [1_500, 1_500, 1_120]);
        let mut payload = Vec::new();
        let mut sequence = u32::MAX;
        for (number, length) in (1..).zip(&lengths) {
            let bytes = segment_bytes(&whole, &meta, 1500, number);
            assert_eq!(bytes.len(), *length as usize);
            let cut = network(&bytes, bytes.len()).unwrap();
            // Length and flags are those of the segment.
            let flow = Fields { traits: meta.fields.traits, ..cut.fields };
            assert_eq!((flow, cut.total), (meta.fields, *length));
            assert_eq!(header_checksum(&bytes[..20]), u16::from_be_bytes([bytes[10], bytes[11]]));
            assert_eq!(bytes[5], 9 + number as u8 - 1, "identifications count up");
            assert_eq!(bytes[24..28], sequence.to_be_bytes());
            // PSH and FIN on the last, CWR on the first.
            assert_eq!(bytes[33], [0x90, 0x10, 0x19][number as usize - 1]);
            payload.extend_from_slice(&bytes[40..]);
            sequence = sequence.wrapping_add(bytes.len() as u32 - 40);
        }
        assert_eq!(payload, whole[40..]);
        // Without the last 3,000 bytes, segments have their headers and as much payload as was captured.
        let short = segment_bytes(&whole[..1_040], &meta, 1500, 1);
        assert_eq!(short.len(), 1_040);
        assert_eq!(segment_bytes(&whole[..1_040], &meta, 1500, 3).len(), 40);
        assert_eq!(segment_bytes(&whole[..10], &meta, 1500, 3).len(), 10);
    }

    /// A tunnel of IPv4 in GRE with a key, in IPv4: 20 + 8 bytes before those of the packet above, so that 1,432 bytes fit.
    #[test]
    fn a_superpacket_of_tcp_in_a_tunnel() {
        let mut whole = vec![0x45, 0, 0x0f, 0xe4, 0, 3, 0, 0, 64, 47, 0, 0, 10, 0, 0, 1, 10, 0, 0, 2];
        whole.extend([0x20, 0, 0x08, 0, 0, 0, 0, 7]);
        whole.extend([0x45, 0, 0x0f, 0xc8, 0, 9, 0, 0, 64, 6, 0, 0, 192, 0, 2, 1, 198, 51, 100, 1]);
        whole.extend([0, 80, 1, 0, 0, 0, 0, 5, 0, 0, 0, 1, 0x50, 0x10, 1, 0, 7, 7, 0, 0]);
        whole.extend((0..4_000_u32).map(|n| n as u8));
        let seen = network(&whole, whole.len()).unwrap();
        let meta = PacketMeta {
            fields: seen.fields,
            length: seen.total,
            network_header: seen.network_header.into(),
            headers: seen.headers(),
            shape: Shape::Super,
            ..PacketMeta::default()
        };
        assert_eq!((meta.headers, segments(&meta, 1_500).count()), (68, 3));
        let second = segment_bytes(&whole, &meta, 1_500, 2);
        assert_eq!((second.len(), &second[68..]), (1_500, &whole[68 + 1_432..68 + 2 * 1_432]));
        assert_eq!(second[52..56], (5_u32 + 1_432).to_be_bytes(), "the sequence number");
        for (at, length, id) in [(0, 1_500_u16, 4), (28, 1_472, 10)] {
            let header = &second[at..at + 20];
            assert_eq!((&header[2..4], header[5]), (&length.to_be_bytes()[..], id));
            assert_eq!(header_checksum(header).to_be_bytes(), header[10..12]);
        }
    }
}
