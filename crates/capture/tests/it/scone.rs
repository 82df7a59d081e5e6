//! Rate advice in datagrams of quinn, and in datagrams made by hand.

use std::sync::Arc;
use std::time::Instant;

use etherparse::PacketBuilder;
use proptest::prelude::*;
use quinn_proto::crypto::rustls::QuicClientConfig;
use quinn_proto::{ClientConfig, Endpoint, EndpointConfig};
use tidegate_capture::dissect::network;
use tidegate_capture::scone::{Outcome, PREFIX, Scone, Signal, VERSION, begins, begins_in, find, lower, read};
use tidegate_units::Rate;

/// The first datagram of a client of quinn: an Initial packet of QUIC version 1, padded to 1,200 bytes.
fn initial() -> Vec<u8> {
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let roots = rustls::RootCertStore::empty();
    let tls = rustls::ClientConfig::builder_with_provider(provider)
        .with_protocol_versions(&[&rustls::version::TLS13])
        .unwrap()
        .with_root_certificates(roots)
        .with_no_client_auth();
    let config = ClientConfig::new(Arc::new(QuicClientConfig::try_from(tls).unwrap()));
    let mut endpoint = Endpoint::new(Arc::new(EndpointConfig::default()), None, true, Some([7; 32]));
    let (now, to) = (Instant::now(), "192.0.2.1:443".parse().unwrap());
    let (_, mut connection) = endpoint.connect(now, config, to, "example.org").unwrap();
    let mut datagram = Vec::new();
    let sent = connection.poll_transmit(now, 1, &mut datagram).unwrap();
    assert_eq!(sent.size, datagram.len(), "one datagram");
    datagram
}

/// The connection ids of a long header.
fn ids(packet: &[u8]) -> (&[u8], &[u8]) {
    let to = usize::from(packet[5]);
    let from = usize::from(packet[6 + to]);
    (&packet[6..6 + to], &packet[7 + to..7 + to + from])
}

/// A SCONE packet with the signal `number`, 127 for an unknown rate.
fn scone(number: u8, to: &[u8], from: &[u8]) -> Vec<u8> {
    let version = VERSION | u32::from(number & 1) << 31;
    let mut packet = vec![0xc0 | number >> 1];
    packet.extend(version.to_be_bytes());
    for id in [to, from] {
        packet.push(id.len() as u8);
        packet.extend(id);
    }
    packet
}

/// A datagram in IPv4 or IPv6 with right checksums.
fn packet(family: u8, datagram: &[u8]) -> Vec<u8> {
    let builder = match family {
        4 => PacketBuilder::ipv4([10, 0, 0, 1], [10, 0, 0, 2], 64).udp(50_000, 443),
        _ => PacketBuilder::ipv6([1; 16], [2; 16], 64).udp(50_000, 443),
    };
    let mut bytes = Vec::new();
    builder.write(&mut bytes, datagram).unwrap();
    bytes
}

/// The UDP checksum that a packet must have, computed by etherparse.
fn right_checksum(packet: &[u8]) -> u16 {
    let sliced = etherparse::SlicedPacket::from_ip(packet).unwrap();
    let (Some(etherparse::TransportSlice::Udp(udp)), Some(net)) = (sliced.transport, sliced.net) else { panic!() };
    let mut header = udp.to_header();
    header.checksum = 0;
    match net {
        etherparse::NetSlice::Ipv4(ip) => header.calc_checksum_ipv4(&ip.header().to_header(), udp.payload()).unwrap(),
        etherparse::NetSlice::Ipv6(ip) => header.calc_checksum_ipv6(&ip.header().to_header(), udp.payload()).unwrap(),
        etherparse::NetSlice::Arp(_) => panic!(),
    }
}

fn checksum_of(packet: &[u8]) -> u16 {
    let at = network(packet, packet.len()).unwrap().payload_offset();
    u16::from_be_bytes([packet[at - 2], packet[at - 1]])
}

fn signal(number: u8) -> Signal {
    Signal::new(number).unwrap()
}

#[test]
fn quinn_with_a_scone_packet_in_front_is_told_and_otherwise_unchanged() {
    let quinn = initial();
    assert!(quinn.len() >= 1_200 && quinn[0] & 0x80 != 0, "an Initial");
    let (to, from) = ids(&quinn);
    let datagram = [scone(127, to, from), quinn.clone()].concat();
    assert!(!begins(&quinn) && read(&quinn).is_none());
    assert_eq!(read(&datagram), Some(Scone { signal: None, destination_id: to, source_id: from, coalesced: &quinn }));
    for family in [4, 6] {
        let before = packet(family, &datagram);
        let mut told = before.clone();
        assert_eq!(lower(&mut told, Signal::at_most(Rate::from_mbit(5))), Outcome::Lowered(None));
        let found = find(&told).unwrap();
        // 4.467 Mbit/s is the highest rate of the scale that is not above 5 Mbit/s.
        assert_eq!((found.signal, found.coalesced), (Some(signal(33)), &quinn[..]));
        assert_eq!(checksum_of(&told), right_checksum(&told), "IPv{family}");
        let at = network(&told, told.len()).unwrap().payload_offset();
        assert!((0..told.len()).all(|i| (at - 2..at + 2).contains(&i) || told[i] == before[i]));
        // A second element with more to give leaves it alone, one with less does not.
        assert_eq!(lower(&mut told, signal(34)), Outcome::Kept(signal(33)));
        assert_eq!(lower(&mut told, signal(33)), Outcome::Kept(signal(33)));
        assert_eq!(lower(&mut told, signal(0)), Outcome::Lowered(Some(signal(33))));
        assert_eq!(checksum_of(&told), right_checksum(&told));
    }
}

/// Every one of the 127 values is written over the unknown one with the bytes that the draft lays down.
#[test]
fn every_signal_is_written_as_the_draft_lays_it_down() {
    for (number, family) in (0..127).flat_map(|number| [(number, 4), (number, 6)]) {
        let mut told = packet(family, &[&scone(127, &[9; 8], &[])[..], &[0x45], &[9; 8], &[1, 2, 3]].concat());
        assert_eq!(lower(&mut told, signal(number)), Outcome::Lowered(None));
        assert_eq!(told, packet(family, &[&scone(number, &[9; 8], &[])[..], &[0x45], &[9; 8], &[1, 2, 3]].concat()));
        assert_eq!(find(&told).unwrap().signal, Some(signal(number)));
    }
}

#[test]
fn short_headers_and_connection_ids_of_every_length() {
    for length in [0, 1, 8, 20, 255] {
        let id = vec![0xab; length];
        let short = [&[0x5a][..], &id, &[1; 30]].concat();
        let datagram = [scone(127, &id, &[]), short.clone()].concat();
        assert_eq!(read(&datagram).map(|found| found.coalesced.len()), Some(short.len()));
        // The draft leaves the source connection id empty in front of a short header, picoquic does not.
        let of_picoquic = [scone(127, &id, &[1; 8]), short.clone()].concat();
        assert_eq!(
            read(&of_picoquic).map(|found| (found.source_id.len(), found.coalesced.len())),
            Some((8, short.len()))
        );
    }
}

#[test]
fn what_is_no_scone_packet_of_a_connection_is_left_alone() {
    let quinn = initial();
    let (to, from) = ids(&quinn);
    let good = scone(127, to, from);
    let mut other_version = [good.clone(), quinn.clone()].concat();
    other_version[4] ^= 1;
    let mut short_form = [good.clone(), quinn.clone()].concat();
    short_form[0] &= 0x7f;
    let another_id = [scone(127, &[1; 8], from), quinn.clone()].concat();
    let twice = [good.clone(), good.clone(), quinn.clone()].concat();
    let behind = [quinn.clone(), good.clone()].concat();
    for datagram in
        [quinn.clone(), good.clone(), other_version, short_form, another_id, twice, behind, vec![], vec![0xff]]
    {
        for family in [4, 6] {
            let before = packet(family, &datagram);
            let mut told = before.clone();
            assert_eq!(lower(&mut told, signal(1)), Outcome::NoScone, "{:02x?}", &datagram[..datagram.len().min(12)]);
            assert_eq!(told, before);
        }
    }
    // Cut short at any place: nothing beyond the end is read, and nothing is written.
    let whole = packet(4, &[good, quinn].concat());
    for length in 0..whole.len() {
        let mut cut = whole[..length].to_vec();
        assert_eq!(lower(&mut cut, signal(1)), Outcome::NoScone);
        assert_eq!(cut, whole[..length]);
    }
    // TCP with the same bytes, and a fragment.
    let mut tcp = whole.clone();
    tcp[9] = 6;
    let mut fragment = whole;
    fragment[6] = 0x20;
    for mut bytes in [tcp, fragment] {
        assert_eq!(lower(&mut bytes, signal(1)), Outcome::NoScone);
    }
}

/// The first bytes suffice to recognise it, as a queue that copies headers only shows them.
#[test]
fn a_short_copy_shows_how_a_datagram_begins() {
    let datagram = [&scone(127, &[3; 8], &[])[..], &[0x45], &[3; 8], &[0; 1_000]].concat();
    for family in [4, 6] {
        let whole = packet(family, &datagram);
        let header = network(&whole, whole.len()).unwrap().payload_offset();
        for copied in [header + PREFIX - 1, header + PREFIX, 128] {
            let seen = network(&whole[..copied], whole.len()).unwrap();
            assert_eq!(begins_in(&whole[..copied], &seen), copied >= header + PREFIX, "IPv{family}, {copied}");
        }
    }
}

#[test]
fn a_checksum_of_zero_stays_and_none_becomes_zero() {
    let datagram = [&scone(127, &[], &[])[..], &[0x45, 0, 0]].concat();
    let mut none = packet(4, &datagram);
    none[26..28].copy_from_slice(&[0, 0]);
    assert_eq!(lower(&mut none, signal(40)), Outcome::Lowered(None));
    assert_eq!(none[26..28], [0, 0], "there is no checksum");
    // Of all values of a word behind the signal, one makes the sum of the words 0xffff, whose complement is zero.
    let mut zeros = 0;
    for word in 0..=u16::MAX {
        let [a, b] = word.to_be_bytes();
        let mut told = packet(4, &[&scone(127, &[], &[])[..], &[0x45, a, b]].concat());
        assert_eq!(lower(&mut told, signal(40)), Outcome::Lowered(None));
        let checksum = checksum_of(&told);
        assert_ne!(checksum, 0);
        zeros += u32::from(checksum == 0xffff);
        assert_eq!(checksum, right_checksum(&told));
    }
    assert!(zeros > 0, "the case occurs");
}

proptest! {
    /// A wrong checksum stays wrong by as much.
    #[test]
    fn only_the_signal_and_the_checksum_change(
        to in prop::collection::vec(any::<u8>(), 0..=20),
        rest in prop::collection::vec(any::<u8>(), 1..200),
        (was, now) in (0_u8..=127, 0_u8..127),
        error in any::<u16>(),
        family in prop::sample::select(vec![4_u8, 6]),
    ) {
        let datagram = [&scone(was, &to, &[])[..], &[0x45], &to, &rest].concat();
        let mut before = packet(family, &datagram);
        let at = network(&before, before.len()).unwrap().payload_offset();
        let wrong = checksum_of(&before).wrapping_add(error);
        before[at - 2..at].copy_from_slice(&wrong.to_be_bytes());
        let mut after = before.clone();
        let outcome = lower(&mut after, signal(now));
        if was <= now {
            prop_assert_eq!(outcome, Outcome::Kept(signal(was)));
            prop_assert_eq!(after, before);
        } else {
            prop_assert_eq!(outcome, Outcome::Lowered(Signal::new(was)));
            prop_assert!((0..after.len()).all(|i| (at - 2..at + 2).contains(&i) || after[i] == before[i]));
            if wrong != 0 {
                let off = |packet: &[u8]| (0xffff + u32::from(checksum_of(packet)) - u32::from(right_checksum(packet))) % 0xffff;
                prop_assert_eq!(off(&after), off(&before));
            }
        }
    }
}
