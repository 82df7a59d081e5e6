//! Capture files: what is written is read back, damage is reported by packet, nothing crashes the reader.

use proptest::prelude::*;
use tidegate_capture::read::{CaptureError, CaptureReader, Flaw, Warning};
use tidegate_capture::{CaptureWriter, LinkType};
use tidegate_core::random::Stream;
use tidegate_core::{Instant, Span};

/// A hand-written pcap file: magic number and fields in the given byte order.
struct Pcap {
    bytes: Vec<u8>,
    big: bool,
}

impl Pcap {
    fn new(nanos: bool, big: bool, link: u32) -> Self {
        let mut file = Self { bytes: vec![], big };
        file.word(if nanos { 0xa1b2_3c4d } else { 0xa1b2_c3d4 });
        file.bytes.extend(if big { [0, 2, 0, 4] } else { [2, 0, 4, 0] });
        [0, 0, 65_535, link].into_iter().for_each(|word| file.word(word));
        file
    }
    fn word(&mut self, word: u32) {
        self.bytes.extend(if self.big { word.to_be_bytes() } else { word.to_le_bytes() });
    }
    fn packet(&mut self, seconds: u32, fraction: u32, length: u32, data: &[u8]) {
        [seconds, fraction, data.len() as u32, length].into_iter().for_each(|word| self.word(word));
        self.bytes.extend(data);
    }
}

/// Number, time, link type, length and bytes.
type Seen = (u64, u64, Option<LinkType>, u32, Vec<u8>);

fn read(bytes: &[u8]) -> (Vec<Seen>, Vec<Warning>, Option<CaptureError>) {
    let (mut packets, mut warnings) = (vec![], vec![]);
    let mut reader = match CaptureReader::new(bytes) {
        Ok(reader) => reader,
        Err(error) => return (packets, warnings, Some(error)),
    };
    let mut failure = None;
    while let Some(next) = reader.next_packet(&mut |warning| warnings.push(warning)) {
        match next {
            Ok(p) => packets.push((p.number, p.time.as_nanos(), p.link, p.length, p.bytes.to_vec())),
            Err(error) => failure = Some(error),
        }
    }
    // No packet after the end.
    assert!(reader.next_packet(&mut |_| panic!("a warning after the end")).is_none());
    (packets, warnings, failure)
}

#[test]
fn pcap_in_both_resolutions_and_byte_orders() {
    for (nanos, big) in [(false, false), (false, true), (true, false), (true, true)] {
        for link in LinkType::ALL {
            let mut file = Pcap::new(nanos, big, link.number());
            file.packet(1, 999_999, 3, b"abc");
            file.packet(2, 5, 1500, b"");
            let unit = if nanos { 1 } else { 1_000 };
            let (packets, warnings, failure) = read(&file.bytes);
            let expected = [
                (1, 1_000_000_000 + 999_999 * unit, Some(link), 3, b"abc".to_vec()),
                (2, 2_000_000_000 + 5 * unit, Some(link), 1500, vec![]),
            ];
            assert_eq!(packets, expected);
            assert!(warnings.is_empty() && failure.is_none());
        }
    }
}

#[test]
fn flaws_are_mended_and_named() {
    let mut file = Pcap::new(true, false, 1);
    file.packet(10, 0, 5, b"first");
    file.packet(9, 999_999_999, 4, b"back");
    file.packet(11, 0, 0, b"");
    file.packet(11, 1_000_000_000, 4, b"time");
    file.packet(12, 0, 2, b"longer");
    let (packets, warnings, failure) = read(&file.bytes);
    assert!(failure.is_none());
    let times: Vec<u64> = packets.iter().map(|packet| packet.1 / 1_000_000_000).collect();
    assert_eq!(times, [10, 10, 11, 11, 12]);
    assert_eq!(packets[4].3, 6);
    let expected = [
        (2, Flaw::TimeBackwards(Span::from_nanos(1))),
        (3, Flaw::Empty),
        (4, Flaw::TimeInvalid),
        (5, Flaw::LengthTooShort { stated: 2, captured: 6 }),
    ];
    // A header of 24 bytes, then records of 16 bytes and what was captured: 5, 4, none, 4.
    let offsets = [0, 24, 45, 65, 81, 101];
    let offset = |packet: u64| offsets[packet as usize];
    assert_eq!(warnings, expected.map(|(packet, flaw)| Warning { packet, offset: offset(packet), flaw }));
    assert_eq!(warnings[0].to_string(), "packet 2 at byte 45: 1 ns before the previous packet, whose time is used");
}

#[test]
fn a_foreign_link_type_is_named_once() {
    let mut file = Pcap::new(false, false, 147);
    file.packet(1, 0, 60, &[0x45; 60]);
    file.packet(1, 0, 60, &[0x45; 60]);
    let (packets, warnings, _) = read(&file.bytes);
    assert_eq!((packets.len(), packets[0].2), (2, None));
    assert_eq!(warnings, [Warning { packet: 1, offset: 24, flaw: Flaw::LinkType(147) }]);
    let told = |number| Warning { packet: 1, offset: 24, flaw: Flaw::LinkType(number) }.to_string();
    assert_eq!(told(147), "packet 1 at byte 24: link type 147 is not supported; its headers are not read");
    assert!(told(105).contains("link type 105 (802.11) is not supported"), "{}", told(105));
    let mut reader = CaptureReader::new(&file.bytes[..]).unwrap();
    let seen = reader.next_packet(&mut |_| ()).unwrap().unwrap().dissect();
    assert_eq!((seen.total, seen.fields.protocol), (60, None));
}

#[test]
fn the_end_within_a_packet_is_named() {
    let mut file = Pcap::new(false, false, 1);
    file.packet(1, 0, 4, b"good");
    let whole = file.bytes.len();
    file.packet(2, 0, 4, b"lost");
    for cut in whole + 1..file.bytes.len() {
        let (packets, _, failure) = read(&file.bytes[..cut]);
        assert_eq!(packets.len(), 1);
        assert!(matches!(failure, Some(CaptureError::Truncated { packet: 2, offset: 44 })), "{failure:?}");
    }
    // An invalid length.
    file.bytes[whole + 8..whole + 12].copy_from_slice(&[0xff; 4]);
    let (packets, _, failure) = read(&file.bytes);
    assert_eq!((packets.len(), failure.unwrap().to_string().starts_with("packet 2 at byte 44: ")), (1, true));
}

#[test]
fn what_is_no_capture_is_refused_with_advice() {
    let message = |bytes: &[u8]| read(bytes).2.unwrap().to_string();
    assert!(message(b"").contains("empty"));
    assert!(message(b"#!/bin/sh").contains("[23, 21, 2f, 62]"));
    assert!(message(&[0x1f, 0x8b, 8, 0]).contains("gzip -d"));
    assert!(message(&[0xa1, 0xb2]).contains("not a pcap"));
    for cut in [&[0xa1, 0xb2, 0xc3, 0xd4, 0][..], &[0x0a, 0x0d, 0x0d, 0x0a, 0]] {
        assert!(message(cut).contains("ends within its header"), "{}", message(cut));
    }
}

/// One block of pcapng, little-endian.
fn block(kind: u32, body: &[u8]) -> Vec<u8> {
    let length = (12 + body.len().next_multiple_of(4)) as u32;
    let mut bytes = [kind.to_le_bytes(), length.to_le_bytes()].concat();
    bytes.extend(body);
    bytes.resize(length as usize - 4, 0);
    bytes.extend(length.to_le_bytes());
    bytes
}

/// The time unit of an interface applies: default microseconds, 10^-3, 2^-10, and an offset of seconds. Unknown
/// blocks are skipped, a corrupt packet block is skipped and reported, a simple packet has the time before it.
#[test]
fn pcapng_by_hand() {
    let words = |all: &[u32]| all.iter().flat_map(|word| word.to_le_bytes()).collect::<Vec<u8>>();
    let section = block(0x0a0d_0d0a, &words(&[0x1a2b_3c4d, 1, u32::MAX, u32::MAX]));
    let interface = |options: &[u8]| block(1, &[words(&[1, 0]), options.to_vec()].concat());
    let option = |code: u8, value: &[u8]| {
        let mut bytes = vec![code, 0, value.len() as u8, 0];
        bytes.extend(value);
        bytes.resize(bytes.len().next_multiple_of(4), 0);
        bytes.extend([0; 4]);
        bytes
    };
    let packet = |interface, high, low, data: &[u8]| {
        let length = data.len() as u32;
        block(6, &[words(&[interface, high, low, length, length]), data.to_vec()].concat())
    };
    let file = [
        section,
        interface(&[]),
        interface(&option(9, &[3])),
        interface(&option(9, &[0x8a])),
        interface(&option(14, &7_i64.to_le_bytes())),
        packet(0, 0, 1_000_001, b"us"),
        packet(1, 0, 1_002, b"ms"),
        block(0x0bad_beef, b"unknown"),
        packet(9, 0, 0, b"no such interface"),
        packet(2, 0, 1_024 + 512, b"1/1024 s"),
        block(3, &[words(&[6]), b"simple".to_vec()].concat()),
        packet(3, 0, 4, b"offset"),
    ]
    .concat();
    let (packets, warnings, failure) = read(&file);
    let times: Vec<u64> = packets.iter().map(|packet| packet.1).collect();
    assert_eq!(times, [1_000_001_000, 1_002_000_000, 1_500_000_000, 1_500_000_000, 7_000_004_000]);
    assert_eq!(packets[3].4, b"simple");
    assert!(failure.is_none());
    assert!(matches!(&warnings[..], [Warning { packet: 3, flaw: Flaw::Skipped(_), .. }]), "{warnings:?}");
}

fn written(draw: &mut Stream, count: u64) -> (Vec<u8>, Vec<Seen>) {
    let mut file = CaptureWriter::new(Vec::new()).unwrap();
    let interfaces: Vec<_> =
        LinkType::ALL.iter().map(|&link| (file.add_interface("name", link).unwrap(), link)).collect();
    let mut expected = vec![];
    let mut now = draw.below(1 << 60);
    for number in 1..=count {
        let magnitude = 1 + draw.below(30);
        now += draw.below(1 << magnitude);
        let (interface, link) = interfaces[draw.below(6) as usize];
        let bytes: Vec<u8> = (0..draw.below(120)).map(|_| draw.next_u64() as u8).collect();
        let length = 1 + bytes.len() as u32 + draw.below(3) as u32 * 1_000;
        let remark = (draw.below(3) == 0).then_some("dropped: queue limit");
        file.write(interface, Instant::from_nanos(now), &bytes, length, remark).unwrap();
        expected.push((number, now, Some(link), length, bytes));
    }
    (file.finish().unwrap(), expected)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(200))]
    #[test]
    fn what_is_written_is_read(seed in any::<u64>(), count in 0_u64..60) {
        let (bytes, expected) = written(&mut Stream::named(seed, "written"), count);
        let (packets, warnings, failure) = read(&bytes);
        prop_assert_eq!(packets, expected);
        prop_assert!(warnings.is_empty() && failure.is_none());
    }

    /// Files with bytes changed, removed and doubled: an answer, times that do not run back, lengths that fit, and
    /// an error that names the packet it is about.
    #[test]
    fn damage_is_answered(seed in any::<u64>(), pcap in any::<bool>(), big in any::<bool>()) {
        let mut draw = Stream::named(seed, "damage");
        let mut bytes = if pcap {
            let mut file = Pcap::new(draw.below(2) == 0, big, 1);
            for n in 0..20 {
                file.packet(n, 7, 60, &[n as u8; 60]);
            }
            file.bytes
        } else {
            written(&mut draw, 20).0
        };
        for _ in 0..1 + draw.below(6) {
            if bytes.is_empty() {
                break;
            }
            let at = draw.below(bytes.len() as u64) as usize;
            match draw.below(5) {
                0 => drop(bytes.remove(at)),
                1 => bytes.truncate(at + 1),
                2 => bytes[at] = 0xff,
                3 => bytes[at] ^= 1 << (seed % 8),
                _ => bytes.insert(at, draw.next_u64() as u8),
            }
        }
        let (packets, warnings, failure) = read(&bytes);
        prop_assert!(packets.is_sorted_by_key(|packet| packet.1));
        prop_assert!(packets.iter().zip(1..).all(|(packet, number)| packet.0 == number));
        prop_assert!(packets.iter().all(|packet| packet.3 as usize >= packet.4.len()));
        let next = packets.len() as u64 + 1;
        prop_assert!(warnings.iter().all(|warning| (1..=next).contains(&warning.packet)));
        if let Some(CaptureError::Truncated { packet, .. } | CaptureError::Corrupt { packet, .. }) = failure {
            prop_assert_eq!(packet, next);
        }
    }
}
