//! Whether a packet that the kernel queues is a superpacket that may be cut.

use tidegate_capture::dissect::{Dissection, protocol};
use tidegate_engine::{PacketMeta, Shape};

use crate::rules::Direction;

/// Describes the shape of a superpacket, which came into the queue where superpackets arrive whole.
///
/// A superpacket that arrives through a tunnel of IP in IP (`ipip`, `sit`, `ip6tnl`) must stay whole. The kernel would cut it well,
/// but leave the offset of the transport header at that of the inner packet. The end of the tunnel removes everything before that
/// offset, so that each segment loses its inner IP header, too, and is discarded (`ip_rcv_core`, `IP_INHDR`). Tunnels over UDP
/// and GRE set the offset anew, and what leaves is not affected. A packet that is forwarded is, by chance, neither; but whether
/// it is for this host is not known before it is routed.
///
/// It counts as the packets that it was on the wire, each with all its headers: as a datagram that leaves in fragments does.
pub(super) fn of_superpacket(meta: &mut PacketMeta, headers: &Dissection, direction: Direction) {
    meta.shape = Shape::Super;
    if direction == Direction::Ingress && matches!(headers.tunnel, Some(protocol::IPV4 | protocol::IPV6)) {
        meta.shape = Shape::Single;
        meta.network_header = headers.headers();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use tidegate_capture::dissect::network;
    use tidegate_engine::wire::on_wire;

    /// The bytes of an IPv4 header for a packet of `length` bytes.
    fn header(protocol: u8, length: u16) -> Vec<u8> {
        let mut bytes = vec![0x45, 0, 0, 0, 0, 1, 0, 0, 64, protocol, 0, 0, 10, 2, 0, 2, 10, 2, 0, 1];
        bytes[2..4].copy_from_slice(&length.to_be_bytes());
        bytes
    }

    /// The facts about a superpacket of TCP in this tunnel, or without one.
    fn meta(tunnel: Option<u8>, direction: Direction) -> PacketMeta {
        let mut tcp = vec![0; 32];
        tcp[12] = 8 << 4;
        let mut bytes = [header(protocol::TCP, 40_000), tcp].concat();
        if let Some(outer) = tunnel {
            bytes = [header(outer, 40_020), bytes].concat();
        }
        let length = if tunnel.is_some() { 40_020 } else { 40_000 };
        let headers = network(&bytes, length).unwrap();
        let mut meta = PacketMeta {
            fields: headers.fields,
            length: length as u32,
            network_header: headers.network_header.into(),
            headers: headers.headers(),
            ..PacketMeta::default()
        };
        of_superpacket(&mut meta, &headers, direction);
        meta
    }

    #[test]
    fn a_superpacket_that_arrives_through_a_tunnel_of_ip_in_ip_stays_whole_and_has_its_size_on_the_wire() {
        let arrives = meta(Some(protocol::IPV4), Direction::Ingress);
        assert_eq!((arrives.shape, arrives.network_header), (Shape::Single, 20 + 20 + 32));
        // 40,020 less 72 of headers are 39,948 bytes; 1,428 fit into a packet, in units of 8 bytes 1,424.
        let wire = on_wire(&arrives, 1_500, 0);
        assert_eq!((wire.packets, wire.size.as_u64()), (29, 40_020 + 28 * 72));
    }

    #[test]
    fn others_may_be_cut() {
        assert_eq!(meta(None, Direction::Ingress).shape, Shape::Super);
        assert_eq!(meta(Some(protocol::IPV4), Direction::Egress).shape, Shape::Super);
        // A tunnel by GRE, which sets the offset of each segment.
        assert_eq!(meta(Some(47), Direction::Ingress).shape, Shape::Super);
    }
}
