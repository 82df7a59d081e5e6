//! The dissector against etherparse: on packets built by it, on mutated and truncated ones, and on noise.

use etherparse::{LaxLinkExtSlice, LaxNetSlice, LaxSlicedPacket, TransportSlice};
use proptest::prelude::*;
use tidegate_capture::dissect::{Dissection, Malformed, TcpFlags, network, outer, protocol};
use tidegate_capture::link::{LinkType, frame};
use tidegate_core::classify::{Fields, Fragment, Hosts, IcmpType, Signal, Traits, Version};
use tidegate_core::random::Stream;

/// Generates IP packets: version, extension headers, transport, payload.
struct Draw(Stream);

impl Draw {
    fn byte(&mut self) -> u8 {
        self.0.next_u64() as u8
    }
    fn noise(&mut self, count: usize) -> Vec<u8> {
        (0..count).map(|_| self.byte()).collect()
    }
    fn pick(&mut self, from: &[u8]) -> u8 {
        from[self.0.below(from.len() as u64) as usize]
    }

    fn transport(&mut self, protocol: u8) -> Vec<u8> {
        let mut bytes = self.noise(40);
        match protocol {
            protocol::TCP => bytes[12] = (5 + self.0.below(6) as u8) << 4 | bytes[12] & 0xf,
            protocol::UDP => bytes[4..6].copy_from_slice(&40_u16.to_be_bytes()),
            protocol::DCCP => bytes[4] = 3 + bytes[4] % 4,
            _ => {}
        }
        let payload = self.0.below(30) as usize;
        bytes.extend(self.noise(payload));
        bytes
    }

    /// Extension headers before `last`, and the number of the first.
    fn extensions(&mut self, kinds: &[u8], last: u8) -> (u8, Vec<u8>) {
        let chain: Vec<u8> = (0..self.0.below(4)).map(|_| self.pick(kinds)).collect();
        let mut bytes = vec![];
        for (i, &kind) in chain.iter().enumerate() {
            let next = chain.get(i + 1).copied().unwrap_or(last);
            let length = self.0.below(3) as u8;
            let mut header = match kind {
                protocol::FRAGMENT => self.noise(8),
                protocol::AUTHENTICATION => self.noise((usize::from(length) + 3) * 4),
                _ => self.noise((usize::from(length) + 1) * 8),
            };
            header[0] = next;
            if kind == protocol::AUTHENTICATION {
                header[1] = length + 1;
            } else if kind == protocol::FRAGMENT {
                let slice = [0, 1, 320, 321][self.0.below(4) as usize] as u16;
                header[2..4].copy_from_slice(&slice.to_be_bytes());
            } else {
                header[1] = length;
            }
            bytes.extend(header);
        }
        (chain.first().copied().unwrap_or(last), bytes)
    }

    fn ip(&mut self) -> Vec<u8> {
        let last = self.pick(&[
            protocol::TCP,
            protocol::TCP,
            protocol::UDP,
            protocol::UDP,
            protocol::ICMP,
            protocol::SCTP,
            59,
            50,
        ]);
        let transport = self.transport(last);
        if self.0.below(2) == 0 {
            let options = 4 * self.0.below(4) as usize;
            let (next, extensions) = self.extensions(&[protocol::AUTHENTICATION], last);
            let mut bytes = self.noise(20 + options);
            bytes[0] = 0x45 + (options / 4) as u8;
            bytes[6..8].copy_from_slice(&[0, 0, 0x40, 0x20, 0x01][self.0.below(4) as usize..][..2]);
            bytes[9] = next;
            bytes.extend(extensions);
            bytes.extend(transport);
            let total = bytes.len() as u16;
            bytes[2..4].copy_from_slice(&total.to_be_bytes());
            bytes
        } else {
            let kinds = [
                protocol::HOP_BY_HOP,
                protocol::ROUTING,
                protocol::FRAGMENT,
                protocol::AUTHENTICATION,
                protocol::DESTINATION_OPTIONS,
            ];
            let (next, extensions) = self.extensions(&kinds, last);
            let mut bytes = self.noise(40);
            bytes[0] = 0x60 | bytes[0] & 0xf;
            bytes[4..6].copy_from_slice(&((extensions.len() + transport.len()) as u16).to_be_bytes());
            bytes[6] = next;
            bytes.extend(extensions);
            bytes.extend(transport);
            bytes
        }
    }

    fn mutate(&mut self, bytes: &mut Vec<u8>) {
        for _ in 0..self.0.below(4) {
            let at = self.0.below(bytes.len().clamp(1, 64) as u64) as usize;
            if let Some(byte) = bytes.get_mut(at) {
                *byte = if self.0.below(2) == 0 { self.0.next_u64() as u8 } else { *byte ^ 1 << self.0.below(8) };
            }
        }
        if self.0.below(2) == 0 {
            bytes.truncate(self.0.below(bytes.len() as u64 + 1) as usize);
        }
    }
}

/// The number of comparisons: packets of known addresses, of known protocol, of known ports.
#[derive(Default, Debug)]
struct Tally {
    hosts: u32,
    protocols: u32,
    ports: u32,
    fragments: u32,
}

/// Compares both results for the bytes of an IP packet.
fn compare(bytes: &[u8], ours: &Dissection, theirs: &LaxSlicedPacket<'_>, tally: &mut Tally) {
    let Some(net) = &theirs.net else { return };
    let (hosts, class, number, fragmented, fragment) = match net {
        LaxNetSlice::Ipv4(ip) => {
            let header = ip.header();
            let hosts = Hosts::V4 { source: header.source_addr(), destination: header.destination_addr() };
            let offset = header.fragments_offset().value() * 8;
            let fragment = Fragment { id: header.identification().into(), offset, more: header.more_fragments() };
            let class = header.dcp().value() << 2 | header.ecn().value();
            (hosts, class, ip.payload_ip_number().0, ip.is_payload_fragmented(), Some(fragment))
        }
        LaxNetSlice::Ipv6(ip) => {
            let header = ip.header();
            let hosts = Hosts::V6 { source: header.source_addr(), destination: header.destination_addr() };
            (hosts, header.traffic_class(), ip.payload().ip_number.0, ip.is_payload_fragmented(), None)
        }
        _ => return,
    };
    tally.hosts += 1;
    assert_eq!(ours.fields.hosts, hosts);
    assert_eq!((ours.fields.dscp.value() << 2) | ours.ecn.bits(), class);
    // Headers that only we follow: to etherparse, hop-by-hop options after another header are an error, and so is a
    // second authentication header in IPv4.
    let ours_only =
        [protocol::HOP_BY_HOP, protocol::MOBILITY, protocol::HIP, protocol::SHIM6, protocol::AUTHENTICATION];
    if ours_only.contains(&number) {
        return;
    }
    if let Some(fragment) = fragment {
        assert_eq!(ours.fields.fragment, fragmented.then_some(fragment));
    } else if ours.fields.fragment.is_some() {
        assert!(fragmented);
    }
    tally.fragments += u32::from(ours.fields.fragment.is_some());
    if ours.fields.fragment.is_some_and(|fragment| fragment.offset != 0) {
        // Etherparse parses a later fragment, which has no header.
        assert_eq!((ours.fields.source_port, ours.transport_header), (None, 0));
        return;
    }
    // A later fragment within a first one: we stop there as well.
    let extensions = [protocol::ROUTING, protocol::FRAGMENT, protocol::DESTINATION_OPTIONS, protocol::AUTHENTICATION];
    if fragmented && ours.fields.protocol.is_some_and(|protocol| extensions.contains(&protocol)) {
        assert_eq!((ours.fields.source_port, ours.transport_header), (None, 0));
        return;
    }
    if let Some(protocol) = ours.fields.protocol {
        tally.protocols += 1;
        assert_eq!(protocol, number);
    }
    match &theirs.transport {
        Some(TransportSlice::Tcp(tcp)) => {
            tally.ports += 1;
            assert_eq!(ours.fields.source_port, Some(tcp.source_port()));
            assert_eq!(ours.fields.destination_port, Some(tcp.destination_port()));
            assert_eq!(usize::from(ours.transport_header), tcp.header_len());
            let flags = ours.tcp_flags.unwrap();
            assert_eq!((flags.any(TcpFlags::SYN), flags.any(TcpFlags::ACK)), (tcp.syn(), tcp.ack()));
            assert_eq!((flags.any(TcpFlags::FIN), flags.any(TcpFlags::CWR)), (tcp.fin(), tcp.cwr()));
        }
        Some(TransportSlice::Udp(udp)) => {
            tally.ports += 1;
            assert_eq!(ours.fields.source_port, Some(udp.source_port()));
            assert_eq!(ours.fields.destination_port, Some(udp.destination_port()));
            assert_eq!(ours.transport_header, 8);
        }
        // When the whole header is present and the packet is not a fragment, etherparse parses it as well.
        None if !fragmented && theirs.stop_err.is_none() && ours.payload_offset() <= bytes.len() => {
            let known = matches!(ours.fields.protocol, Some(protocol::TCP | protocol::UDP));
            assert!(!known || ours.transport_header == 0, "{ours:?}");
        }
        _ => {}
    }
}

fn check_ip(bytes: &[u8], tally: &mut Tally) {
    // Etherparse does not look into tunnels.
    let ours = outer(bytes, bytes.len());
    let theirs = LaxSlicedPacket::from_ip(bytes);
    match (&ours, &theirs) {
        (Ok(ours), Ok(theirs)) => compare(bytes, ours, theirs, tally),
        // Etherparse corrects a total length that is shorter than the header.
        (Err(Malformed::TotalLength(_)), Ok(_)) => {}
        (Err(_), Ok(_)) => panic!("{ours:?} where etherparse reads on: {bytes:02x?}"),
        // Etherparse requires all options.
        (Ok(ours), Err(_)) => assert!(usize::from(ours.network_header) > bytes.len(), "{bytes:02x?}"),
        (Err(_), Err(_)) => {}
    }
}

#[test]
fn agrees_on_packets_and_on_mutations_of_them() {
    let mut tally = Tally::default();
    for seed in 0..60_000 {
        let mut draw = Draw(Stream::named(seed, "dissect"));
        let mut bytes = draw.ip();
        check_ip(&bytes, &mut tally);
        draw.mutate(&mut bytes);
        check_ip(&bytes, &mut tally);
    }
    let Tally { hosts, protocols, ports, fragments } = tally;
    assert!(hosts > 80_000 && protocols > 40_000 && ports > 18_000 && fragments > 10_000, "{tally:?}");
}

#[test]
fn agrees_behind_ethernet_and_tags() {
    let mut tally = Tally::default();
    for seed in 0..20_000 {
        let mut draw = Draw(Stream::named(seed, "frames"));
        let ip = draw.ip();
        let mut bytes = draw.noise(12);
        // Etherparse follows three tags.
        for _ in 0..draw.0.below(4) {
            bytes.extend([[0x81, 0], [0x88, 0xa8], [0x91, 0]][draw.0.below(3) as usize]);
            bytes.extend(draw.noise(2));
        }
        bytes.extend(if ip[0] >> 4 == 4 { [8, 0] } else { [0x86, 0xdd] });
        bytes.extend(&ip);
        // The padding of short frames is part of the link layer.
        let padding = draw.0.below(8) as usize;
        bytes.extend(draw.noise(padding));
        let ours = frame(LinkType::Ethernet, &bytes, bytes.len());
        assert_eq!(ours.tunnel, None);
        assert_eq!(ours.total as usize, ip.len());
        let theirs = LaxSlicedPacket::from_ethernet(&bytes).unwrap();
        let tags = theirs.link_exts.iter().filter(|ext| matches!(ext, LaxLinkExtSlice::Vlan(_))).count();
        assert_eq!(usize::from(ours.link_header), 14 + 4 * tags);
        compare(&bytes, &ours, &theirs, &mut tally);
    }
    assert!(tally.hosts == 20_000 && tally.ports > 3_500, "{tally:?}");
}

#[test]
fn every_link_type_leads_to_the_same_packet() {
    for seed in 0..2_000 {
        let mut draw = Draw(Stream::named(seed, "links"));
        let ip = draw.ip();
        let ether_type: [u8; 2] = if ip[0] >> 4 == 4 { [8, 0] } else { [0x86, 0xdd] };
        let expected = network(&ip, ip.len()).unwrap();
        for link in LinkType::ALL {
            let mut bytes = match link {
                LinkType::Raw | LinkType::Ipv4 | LinkType::Ipv6 => vec![],
                LinkType::Null => vec![if ip[0] >> 4 == 4 { 2 } else { 30 }, 0, 0, 0],
                LinkType::Loop => vec![0, 0, 0, if ip[0] >> 4 == 4 { 2 } else { 24 }],
                LinkType::Ethernet => [draw.noise(12), ether_type.to_vec()].concat(),
                LinkType::LinuxCooked => [draw.noise(14), ether_type.to_vec()].concat(),
                LinkType::LinuxCooked2 => [ether_type.to_vec(), draw.noise(18)].concat(),
            };
            let header = bytes.len();
            bytes.extend(&ip);
            let seen = frame(link, &bytes, bytes.len());
            assert_eq!(seen, Dissection { link_header: header as u16, ..expected }, "{link:?}");
            assert_eq!(LinkType::from_number(link.number()), Some(link));
        }
        // A tag inside both cooked kinds, and a PPPoE session.
        let tag = [vec![0, 7], ether_type.to_vec(), ip.clone()].concat();
        let cooked = [draw.noise(14), vec![0x81, 0], tag.clone()].concat();
        assert_eq!(frame(LinkType::LinuxCooked, &cooked, 0).fields, expected.fields);
        let cooked = [vec![0x81, 0], draw.noise(18), tag].concat();
        assert_eq!(frame(LinkType::LinuxCooked2, &cooked, 0).fields, expected.fields);
        let ppp = [0, if ip[0] >> 4 == 4 { 0x21 } else { 0x57 }];
        let session = [draw.noise(12), vec![0x88, 0x64], draw.noise(6), ppp.to_vec(), ip].concat();
        assert_eq!(frame(LinkType::Ethernet, &session, 0).fields, expected.fields);
    }
}

/// The header of a tunnel before `inside`: IP of either version, and GRE with or without its optional fields.
fn tunnel(draw: &mut Draw, inside: &[u8]) -> (Vec<u8>, u8) {
    let is_v6 = inside.first().is_some_and(|first| first >> 4 == 6);
    let mut carrier = if is_v6 { protocol::IPV6 } else { protocol::IPV4 };
    let mut bytes = vec![];
    if draw.0.below(2) == 0 {
        carrier = protocol::GRE;
        let flags = draw.pick(&[0, 0x80, 0x20, 0x10, 0xb0]);
        bytes.extend([flags, 0]);
        bytes.extend(if is_v6 { [0x86, 0xdd] } else { [8, 0] });
        bytes.extend(draw.noise(4 * flags.count_ones() as usize));
    }
    bytes.extend(inside);
    let mut header;
    if draw.0.below(2) == 0 {
        header = draw.noise(20);
        header[0] = 0x45;
        header[2..4].copy_from_slice(&(20 + bytes.len() as u16).to_be_bytes());
        header[6..8].fill(0);
        header[9] = carrier;
    } else {
        header = draw.noise(40);
        header[0] = 0x60 | header[0] & 0xf;
        header[4..6].copy_from_slice(&(bytes.len() as u16).to_be_bytes());
        header[6] = carrier;
    }
    (header.into_iter().chain(bytes).collect(), carrier)
}

/// The packet in a tunnel shows in everything but code point, ECN and length; a third tunnel is not looked into.
#[test]
fn the_packet_inside_a_tunnel_is_seen() {
    let (mut fragments, mut with_ports) = (0, 0);
    for seed in 0..20_000 {
        let mut draw = Draw(Stream::named(seed, "tunnels"));
        let mut bytes = draw.ip();
        let inside = network(&bytes, bytes.len()).unwrap();
        let whole = bytes.len();
        fragments += u32::from(inside.fields.fragment.is_some());
        with_ports += u32::from(inside.fields.source_port.is_some());
        for depth in 1..=3 {
            let (around, carrier) = tunnel(&mut draw, &bytes);
            bytes = around;
            let seen = network(&bytes, bytes.len()).unwrap();
            let shell = outer(&bytes, bytes.len()).unwrap();
            assert_eq!((shell.fields.protocol, shell.tunnel, shell.fields.source_port), (Some(carrier), None, None));
            assert_eq!((seen.fields.dscp, seen.ecn, seen.total), (shell.fields.dscp, shell.ecn, bytes.len() as u32));
            assert_eq!((seen.network_header, seen.tunnel), (shell.network_header, Some(carrier)));
            if depth == 3 {
                assert_eq!(
                    seen.fields.protocol.map(|seen| [4, 41, 47].contains(&seen)),
                    Some(true),
                    "the third tunnel"
                );
                continue;
            }
            let mut expected = Fields { dscp: shell.fields.dscp, ..inside.fields };
            if expected.fragment.is_none() {
                expected.traits.length = bytes.len() as u16;
            }
            assert_eq!(seen.fields, expected, "{bytes:02x?}");
            assert_eq!(seen.transport_offset(), bytes.len() - whole + usize::from(inside.network_header));
            assert_eq!((seen.headers() - inside.headers()) as usize, bytes.len() - whole);
            assert_eq!((seen.is_pure_ack(), seen.tcp_flags), (inside.is_pure_ack(), inside.tcp_flags));
        }
    }
    assert!(fragments > 2_000 && with_ports > 5_000, "{fragments} {with_ports}");
}

/// Bytes of a tunnel that say nothing about a packet inside leave the tunnel as it is.
#[test]
fn a_tunnel_that_cannot_be_looked_into_is_a_packet_of_its_own() {
    let mut draw = Draw(Stream::named(1, "closed"));
    let inside =
        [&[0x45, 0, 0, 28, 0, 0, 0, 0, 64, protocol::UDP][..], &[0; 2], &[9; 8], &[0, 5, 0, 6, 0, 8, 0, 0]].concat();
    let around = |carrier: u8, gre: &[u8], inside: &[u8]| {
        let mut bytes = vec![0x45, 0, 0, 0, 0, 1, 0, 0, 64, carrier, 0, 0, 10, 0, 0, 1, 10, 0, 0, 2];
        bytes.extend(gre);
        bytes.extend(inside);
        bytes[3] = bytes.len() as u8;
        bytes
    };
    let is_open = |bytes: &[u8]| {
        let seen = network(bytes, bytes.len()).unwrap();
        assert!(seen.tunnel.is_some() || Ok(seen) == outer(bytes, bytes.len()));
        seen.tunnel.is_some()
    };
    let gre = |flags, version, kind: [u8; 2]| around(protocol::GRE, &[flags, version, kind[0], kind[1]], &inside);
    assert!(is_open(&around(protocol::IPV4, &[], &inside)) && is_open(&gre(0, 0, [8, 0])));
    assert!(is_open(&gre(0x03, 0xf8, [8, 0])), "bits that a receiver ignores");
    assert!(!is_open(&gre(0x40, 0, [8, 0])), "routing of RFC 1701");
    assert!(!is_open(&gre(0, 1, [8, 0])), "PPTP");
    assert!(!is_open(&gre(0, 0, [0x65, 0x58])), "Ethernet");
    assert!(!is_open(&around(50, &[], &inside)), "ESP");
    let mut fragment = around(protocol::IPV4, &[], &inside);
    fragment[6] = 0x20;
    assert!(!is_open(&fragment));
    let mut malformed = around(protocol::IPV4, &[], &inside);
    malformed[20] = 0x44;
    assert!(!is_open(&malformed));
    for cut in 0..20 {
        assert!(!is_open(&around(protocol::IPV4, &[], &inside[..cut])), "{cut} bytes of the header inside");
        // The bytes are there, but do not belong to the packet.
        let mut short = around(protocol::IPV4, &[], &inside);
        short[3] = 20 + cut as u8;
        assert!(!is_open(&short), "{cut} bytes by the length");
    }
    let noise = draw.noise(60);
    for carrier in [protocol::IPV4, protocol::IPV6, protocol::GRE] {
        let bytes = around(carrier, &noise, &[]);
        for captured in 20..bytes.len() {
            let _ = network(&bytes[..captured], bytes.len());
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2_000))]

    /// Noise, under every link type: a result without panic, and consistent lengths.
    #[test]
    fn noise_is_answered(bytes in proptest::collection::vec(any::<u8>(), 0..200), first in any::<u8>(), more in 0_usize..3_000) {
        let mut bytes = bytes;
        if let Some(byte) = bytes.first_mut() {
            *byte = first & 0x2f | 0x40;
        }
        check_ip(&bytes, &mut Tally::default());
        for link in LinkType::ALL {
            let seen = frame(link, &bytes, bytes.len() + more);
            prop_assert!(seen.total as usize <= bytes.len() + more);
            prop_assert!(seen.headers() <= seen.total.max(u32::from(seen.network_header) + seen.tunnel_header));
            let _ = (seen.is_pure_ack(), seen.payload_offset());
        }
    }
}

#[test]
fn a_pure_acknowledgement() {
    let mut bytes = vec![0x45, 0, 0, 52, 0, 0, 0x40, 0, 64, 6, 0, 0, 10, 0, 0, 1, 10, 0, 0, 2];
    // 32 bytes of TCP header: ports, sequence numbers, then offset 8 and the flags.
    bytes.extend([0, 80, 1, 0, 0, 0, 0, 1, 0, 0, 0, 2, 0x80, TcpFlags::ACK]);
    bytes.resize(52, 1);
    let ack = |bytes: &[u8]| network(bytes, 52).unwrap().is_pure_ack();
    assert!(ack(&bytes));
    assert!(ack(&bytes[..40]), "the options may be cut off");
    let with = |at: usize, value: u8| {
        let mut other = bytes.clone();
        other[at] = value;
        other
    };
    for flags in [TcpFlags::SYN, TcpFlags::FIN, TcpFlags::RST, TcpFlags::ECE, TcpFlags::CWR, TcpFlags::URG] {
        assert!(!ack(&with(33, TcpFlags::ACK | flags)));
    }
    assert!(ack(&with(33, TcpFlags::ACK | TcpFlags::PSH)));
    assert!(!ack(&with(32, 0x70)), "four bytes of data");
    assert!(!ack(&with(6, 0x20)), "a fragment");
}

#[test]
fn a_chain_of_extensions_has_an_end() {
    let mut bytes = vec![0x60, 0, 0, 0, 0, 0, protocol::DESTINATION_OPTIONS, 64];
    bytes.resize(40, 1);
    for _ in 0..100 {
        bytes.extend([protocol::DESTINATION_OPTIONS, 0, 1, 4, 0, 0, 0, 0]);
    }
    let seen = network(&bytes, bytes.len()).unwrap();
    assert_eq!((seen.fields.protocol, seen.network_header), (None, 40 + 12 * 8));
}

/// Offloading leaves the length at zero; the data path provides it.
#[test]
fn a_length_of_zero_is_the_data_path_s() {
    let mut bytes = vec![0x45, 0, 0, 0, 0, 0, 0x40, 0, 64, 17, 0, 0, 10, 0, 0, 1, 10, 0, 0, 2];
    bytes.resize(96, 0);
    assert_eq!(network(&bytes, 66_000).unwrap().total, 66_000);
    bytes[3] = 50;
    assert_eq!(network(&bytes, 66_000).unwrap().total, 50);
    bytes[3] = 19;
    assert_eq!(network(&bytes, 96), Err(Malformed::TotalLength(19)));
}

/// The protocol is part of the identity of a fragmented IPv4 datagram.
#[test]
fn fragments_of_a_datagram_agree_on_the_protocol() {
    for protocol in [protocol::UDP, protocol::AUTHENTICATION] {
        let mut bytes = vec![0x45, 0, 0, 60, 0, 9, 0x20, 0, 64, protocol, 0, 0, 10, 0, 0, 1, 10, 0, 0, 2];
        // An authentication header of 12 bytes before UDP, or ports that look like one.
        bytes.extend([protocol::UDP, 1, 0, 53]);
        bytes.resize(60, 0);
        let first = network(&bytes, 60).unwrap();
        bytes[6..8].copy_from_slice(&[0, 5]);
        let later = network(&bytes, 60).unwrap();
        assert_eq!(first.fields.protocol, later.fields.protocol);
        assert_eq!(first.fields.source_port.is_some(), protocol == protocol::UDP);
        assert_eq!((first.fields.fragment.unwrap().offset, later.fields.fragment.unwrap().offset), (0, 40));
    }
}

/// Length, flags and types of single packets, IPv4 and IPv6; a fragment has none.
#[test]
fn the_traits_of_a_packet() {
    let traits = |bytes: &[u8]| network(bytes, bytes.len()).unwrap().fields.traits;
    let v4 = |protocol: u8, rest: &[u8]| {
        let mut bytes = vec![0x45, 0, 0, 0, 0, 9, 0, 0, 64, protocol, 0, 0, 10, 0, 0, 1, 10, 0, 0, 2];
        bytes.extend(rest);
        bytes[3] = bytes.len() as u8;
        bytes
    };
    let v6 = |protocol: u8, rest: &[u8]| {
        let mut bytes = vec![0x60, 0, 0, 0, 0, rest.len() as u8, protocol, 64];
        bytes.resize(40, 1);
        bytes.extend(rest);
        bytes
    };
    let tcp = |flags: u8, data: &[u8]| {
        let mut bytes = vec![0, 80, 1, 0, 0, 0, 0, 1, 0, 0, 0, 2, 0x50, flags, 0, 0, 0, 0, 0, 0];
        bytes.extend(data);
        bytes
    };
    let signal = |flags, pure_ack| Signal::Tcp { flags, pure_ack };
    for (make, header) in [(&v4 as &dyn Fn(u8, &[u8]) -> Vec<u8>, 20), (&v6, 40)] {
        let of = |flags, data: &[u8]| traits(&make(protocol::TCP, &tcp(flags, data)));
        assert_eq!(of(0x02, &[]), Traits { length: header + 20, signal: signal(0x02, false) });
        assert_eq!(of(0x10, &[]), Traits { length: header + 20, signal: signal(0x10, true) });
        assert_eq!(of(0x10, &[7; 9]), Traits { length: header + 29, signal: signal(0x10, false) });
        assert_eq!(traits(&make(protocol::UDP, &[0; 8])), Traits { length: header + 8, signal: Signal::Unknown });
        assert_eq!(traits(&make(protocol::TCP, &[0; 8])).signal, Signal::Unknown, "the flags are cut off");
    }
    let icmp = |version, number| Signal::Icmp(IcmpType { version, number });
    assert_eq!(traits(&v4(protocol::ICMP, &[8; 8])).signal, icmp(Version::V4, 8));
    assert_eq!(traits(&v6(protocol::ICMPV6, &[128; 8])).signal, icmp(Version::V6, 128));
    assert_eq!(traits(&v6(protocol::ICMPV6, &[])).signal, Signal::Unknown);
    let mut fragment = v4(protocol::ICMP, &[8; 8]);
    fragment[6] = 0x20;
    assert_eq!(traits(&fragment), Traits::default());
}
