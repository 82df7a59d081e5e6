//! Captures through configurations: link types, what is wrong with files, directions, digests, departures.

use std::path::PathBuf;

use tidegate_capture::{CaptureReader, LinkType};
use tidegate_config::{Diagnostics, Source as Text, shaper};
use tidegate_core::{Dscp, Rate};
use tidegate_replay::departures::Departures;
use tidegate_replay::meter::Keep;
use tidegate_replay::run::Settings;
use tidegate_replay::session::{self, Hooks, Part, Session};
use tidegate_replay::source::{Choice, Direction, Notice, Source};

const SHAPER: &str = "version = 1\n\
    [[class]]\nname = \"gold\"\nrate = \"2mbit\"\ndscp = \"af11\"\nburst = \"3000B\"\nlimit = \"20kB\"\n\
    [[class]]\nname = \"rest\"\nrate = \"8mbit\"\ndefault = true\n\
    [[rule]]\nclass = \"gold\"\nprotocol = \"udp\"\ndestination-port = [53, 5004]\n";

fn config(text: &str) -> shaper::Config {
    let (source, mut diagnostics) = (Text::new("test", text), Diagnostics::new());
    shaper::load(&source, &mut diagnostics).unwrap_or_else(|| panic!("{}", diagnostics.render(&source)))
}

fn part(name: &str, text: &str, link: Option<u64>) -> Part {
    let mut settings = Settings::seeded(1);
    settings.link = link.map(|mbit| Rate::from_bps(mbit * 1_000_000));
    settings.keep = Keep { series: true, departures: true };
    Part { name: name.into(), config: config(text), settings }
}

/// A UDP datagram over IPv4 from host `from` to host 9.
fn datagram(from: u8, payload: usize) -> Vec<u8> {
    let total = (28 + payload) as u16;
    let mut packet = vec![0x45, 0];
    packet.extend(total.to_be_bytes());
    packet.extend([0, 0, 0, 0, 64, 17, 0, 0, 10, 0, 0, from, 10, 0, 0, 9]);
    let checksum = tidegate_capture::rewrite::header_checksum(&packet);
    packet[10..12].copy_from_slice(&checksum.to_be_bytes());
    packet.extend(5_000_u16.to_be_bytes());
    packet.extend(5_004_u16.to_be_bytes());
    packet.extend((8 + payload as u16).to_be_bytes());
    packet.extend([0, 0]);
    packet.resize(total.into(), 0xaa);
    packet
}

/// A pcap file with times in ns.
struct Pcap(Vec<u8>);

impl Pcap {
    fn new(link: u32) -> Self {
        let words = [0xa1b2_3c4d_u32, 4 << 16 | 2, 0, 0, 65_535, link];
        Self(words.into_iter().flat_map(u32::to_le_bytes).collect())
    }
    fn packet(&mut self, nanos: u64, bytes: &[u8]) {
        let base = 1_700_000_000 * 1_000_000_000 + nanos;
        let (seconds, rest) = (base / 1_000_000_000, base % 1_000_000_000);
        for word in [seconds as u32, rest as u32, bytes.len() as u32, bytes.len() as u32] {
            self.0.extend(word.to_le_bytes());
        }
        self.0.extend(bytes);
    }
}

/// A frame of a link type around a packet.
fn framed(link: u32, tags: usize, packet: &[u8]) -> Vec<u8> {
    let ether_type = [0x08, 0x00];
    let mut frame: Vec<u8> = match link {
        0 => vec![2, 0, 0, 0],
        108 => vec![0, 0, 0, 2],
        1 => {
            let mut frame = vec![2; 12];
            (0..tags).for_each(|tag| frame.extend([0x81, 0x00, 0, tag as u8]));
            [&frame[..], &ether_type].concat()
        }
        113 => [&[0, 4, 0, 1, 0, 6, 1, 2, 3, 4, 5, 6, 0, 0][..], &ether_type].concat(),
        276 => [&ether_type[..], &[0, 0, 0, 0, 0, 2, 0, 1, 4, 6, 1, 2, 3, 4, 5, 6, 0, 0]].concat(),
        _ => Vec::new(),
    };
    frame.extend(packet);
    frame
}

/// Replays; returns the report, and what left as a capture.
fn replay_chosen(file: &[u8], parts: &[Part], choice: Choice) -> (Session, Vec<Notice>, Vec<u8>) {
    let mut source = Source::capture(file, choice).unwrap();
    let mut notices = Vec::new();
    let mut departures = Departures::new(Vec::new()).unwrap();
    let mut notice = |notice| notices.push(notice);
    let hooks = Hooks { notice: &mut notice, pace: None, departures: Some(&mut departures) };
    let session = session::replay(&mut source, parts, hooks).unwrap();
    (session, notices, departures.finish().unwrap())
}

fn replay(file: &[u8], parts: &[Part]) -> (Session, Vec<Notice>, Vec<u8>) {
    replay_chosen(file, parts, Choice::default())
}

/// Every link type, with what it is called in the file.
const LINKS: [(u32, usize, Option<LinkType>); 11] = [
    (0, 0, Some(LinkType::Null)),
    (1, 0, Some(LinkType::Ethernet)),
    (1, 1, Some(LinkType::Ethernet)),
    (1, 2, Some(LinkType::Ethernet)),
    (12, 0, Some(LinkType::Raw)),
    (101, 0, Some(LinkType::Raw)),
    (228, 0, Some(LinkType::Ipv4)),
    (229, 0, Some(LinkType::Ipv6)),
    (108, 0, Some(LinkType::Loop)),
    (113, 0, Some(LinkType::LinuxCooked)),
    (276, 0, Some(LinkType::LinuxCooked2)),
];

#[test]
fn every_link_type_has_the_same_departures_and_keeps_its_header() {
    let mut digests = Vec::new();
    for (link, tags, expected) in LINKS {
        let mut file = Pcap::new(link);
        for n in 0..50 {
            file.packet(n * 100_000, &framed(link, tags, &datagram(n as u8 % 5, 972)));
        }
        let (session, notices, left) = replay(&file.0, &[part("shaper", SHAPER, None)]);
        assert_eq!((session.packets, notices, session.broken.is_none()), (50, vec![], true), "link type {link}");
        let outcome = &session.outcomes[0];
        // The rule needs the ports, so that it shows that the headers were found.
        assert_eq!(outcome.classes[0].counts.accounts.enqueued.packets, 50, "link type {link}, {tags} tags");
        digests.push(outcome.digest.to_string());
        let mut reader = CaptureReader::new(&left[..]).unwrap();
        let mut read = 0;
        while let Some(packet) = reader.next_packet(&mut |warning| panic!("{warning}")) {
            let packet = packet.unwrap();
            assert_eq!(packet.link, expected);
            let dissected = packet.dissect();
            assert_eq!((dissected.fields.dscp, dissected.total), (Dscp::assured(1, 1).unwrap(), 1_000));
            let header = &packet.bytes[usize::from(dissected.link_header)..][..20];
            let checksum = tidegate_capture::rewrite::header_checksum(header);
            assert_eq!(checksum.to_be_bytes(), header[10..12]);
            assert_eq!(packet.bytes[..dissected.link_header.into()], framed(link, tags, &[]));
            read += 1;
        }
        assert_eq!(read, outcome.passed);
    }
    // Ten link types, one digest: what comes before IP does not matter.
    assert!(digests.iter().all(|digest| *digest == digests[0]), "{digests:?}");
}

#[test]
fn twice_the_same_file_is_twice_the_same_and_another_seed_another_choice() {
    let mut file = Pcap::new(1);
    for n in 0..2_000 {
        file.packet(n * 300_000, &framed(1, 0, &datagram(n as u8 % 7, 1_200)));
    }
    let kind = |kind| format!("version = 1\n[discipline]\nkind = \"{kind}\"\n");
    let digests = |seed| {
        let mut parts = vec![
            part("shaper", SHAPER, None),
            part("fifo", &kind("fifo"), Some(5)),
            part("pie", &kind("pie"), Some(5)),
        ];
        for part in &mut parts {
            part.settings.setup = Settings::seeded(seed).setup;
        }
        let (session, ..) = replay(&file.0, &parts);
        assert!(session.outcomes.iter().all(|outcome| outcome.refused > 0), "there is something to choose");
        session.outcomes.iter().map(|outcome| outcome.digest.to_string()).collect::<Vec<_>>()
    };
    let [first, again, other] = [1, 1, 2].map(digests);
    assert_eq!(first, again);
    assert_eq!(other[1], first[1], "nothing is drawn in a FIFO");
    assert_ne!(other[2], first[2], "PIE draws");
}

#[test]
fn what_is_wrong_with_a_file_is_named_and_the_rest_is_replayed() {
    let good = datagram(1, 100);
    let mut backwards = Pcap::new(101);
    backwards.packet(1_000, &good);
    backwards.packet(0, &good);
    let mut empty = Pcap::new(101);
    empty.packet(0, &good);
    empty.packet(10, &[]);
    let mut nothing_but_headers = Pcap::new(101);
    nothing_but_headers.packet(0, &good[..20]);
    let mut foreign = Pcap::new(147);
    foreign.packet(0, &good);
    let mut garbage = Pcap::new(1);
    garbage.packet(0, &[0xff; 60]);
    garbage.packet(1, &[]);
    let mut cut = Pcap::new(101);
    cut.packet(0, &good);
    cut.packet(1, &good);
    cut.0.truncate(cut.0.len() - 7);
    // The content of the file, the notices, the number of packets, and the error that ends it.
    let at_second = 24 + 16 + good.len();
    type Case<'a> = (&'a str, &'a [u8], &'a [String], u64, Option<String>);
    let table: [Case<'_>; 7] = [
        (
            "backwards",
            &backwards.0,
            &[format!("packet 2 at byte {at_second}: 1000 ns before the previous packet, whose time is used")],
            2,
            None,
        ),
        ("empty", &empty.0, &[format!("packet 2 at byte {at_second}: zero length")], 2, None),
        ("short", &nothing_but_headers.0, &[], 1, None),
        (
            "foreign",
            &foreign.0,
            &["packet 1 at byte 24: link type 147 is not supported; its headers are not read".into()],
            1,
            None,
        ),
        ("garbage", &garbage.0, &["packet 2 at byte 100: zero length".into()], 2, None),
        ("cut", &cut.0, &[], 1, Some(format!("packet 2 at byte {at_second}: the file ends within it"))),
        ("header", &cut.0[..24], &[], 0, None),
    ];
    for (name, file, said, packets, broken) in table {
        let (session, notices, _) = replay(file, &[part("shaper", SHAPER, None)]);
        let notices: Vec<_> = notices.iter().map(ToString::to_string).collect();
        assert_eq!(notices, said, "{name}");
        assert_eq!(session.packets, packets, "{name}");
        assert_eq!(session.outcomes[0].passed, packets, "{name}: none is lost");
        match (session.broken.map(|error| error.to_string()), broken) {
            (None, None) => {}
            (Some(is), Some(expected)) => assert!(is.starts_with(&expected), "{name}: {is}"),
            (is, expected) => panic!("{name}: {is:?}, not {expected:?}"),
        }
    }
    // The first packet has no time: the capture begins with the second, and does not last since 1970.
    let mut timeless = Pcap::new(101);
    timeless.packet(0, &datagram(1, 400));
    timeless.packet(1_000, &datagram(2, 400));
    timeless.0[28..32].copy_from_slice(&u32::MAX.to_le_bytes());
    let (session, notices, _) = replay(&timeless.0, &[part("shaper", SHAPER, None)]);
    assert_eq!((session.packets, notices.len()), (2, 1), "{notices:?}");
    assert!(session.outcomes[0].time.as_nanos() < 1_000_000_000, "{}", session.outcomes[0].time);
    for (bytes, said) in [
        (&b""[..], "the file is empty"),
        (b"\x1f\x8b\x08\x00", "unpack it first"),
        (b"#!/bin/sh", "not a pcap, pcapng or recording: it begins with [23, 21, 2f, 62]"),
    ] {
        let Err(error) = Source::capture(bytes, Choice::default()) else { panic!("{said}") };
        assert!(error.to_string().contains(said), "{error}");
    }
}

#[test]
fn one_direction_of_both() {
    let mut file = Pcap::new(113);
    for n in 0..20_u64 {
        let mut forth = framed(113, 0, &datagram(1, 100));
        forth[1] = if n % 2 == 0 { 4 } else { 0 };
        if n % 2 == 1 {
            // Back from 10.0.0.9.
            let (source, destination) = (forth[16 + 12..16 + 16].to_vec(), forth[16 + 16..16 + 20].to_vec());
            forth[16 + 12..16 + 16].copy_from_slice(&destination);
            forth[16 + 16..16 + 20].copy_from_slice(&source);
        }
        file.packet(n * 1_000_000, &forth);
    }
    let parts = || [part("shaper", SHAPER, None)];
    let (session, notices, _) = replay(&file.0, &parts());
    assert_eq!((session.packets, notices), (20, vec![Notice::BothDirections]));
    for choice in [
        Choice { from: vec!["10.0.0.1/32".parse().unwrap()], ..Choice::default() },
        Choice { direction: Direction::Sent, ..Choice::default() },
    ] {
        let (session, notices, _) = replay_chosen(&file.0, &parts(), choice);
        assert_eq!((session.packets, notices), (10, vec![]));
    }
}

#[test]
fn a_superpacket_is_cut_for_a_slow_flow_and_counted_whole_for_a_fast_one() {
    let mut packet = vec![0x45, 0, 0x1f, 0x68, 0, 1, 0, 0, 64, 6, 0, 0, 10, 0, 0, 1, 10, 0, 0, 9];
    packet.extend([0x10, 0, 0, 80, 0, 0, 0, 0, 0, 0, 0, 0, 0x50, 0x18, 1, 0, 0, 0, 0, 0]);
    // 8,040 bytes: 8,000 of payload in five segments of 1,460 and one of 700.
    packet.resize(8_040, 1);
    let mut file = Pcap::new(101);
    file.packet(0, &packet);
    let fast = "version = 1\n[[class]]\nname = \"all\"\nrate = \"1gbit\"\nburst = \"60kB\"\ndefault = true\n";
    let (session, _, left) = replay(&file.0, &[part("slow", SHAPER, None), part("fast", fast, None)]);
    let passed: Vec<u64> = session.outcomes.iter().map(|outcome| outcome.passed).collect();
    assert_eq!(passed, [6, 1]);
    // 8,040 and five more headers of 40.
    let bytes =
        |n: usize| session.outcomes[n].classes.iter().map(|class| class.counts.through.bytes.as_u64()).sum::<u64>();
    assert_eq!((bytes(0), bytes(1)), (8_240, 8_240));
    let mut reader = CaptureReader::new(&left[..]).unwrap();
    let mut lengths = Vec::new();
    while let Some(Ok(packet)) = reader.next_packet(&mut |_| ()) {
        lengths.push(packet.length);
    }
    lengths.sort_unstable();
    assert_eq!(lengths, [740, 1_500, 1_500, 1_500, 1_500, 1_500, 8_040]);
}

/// A superpacket that an offload made of forty packets takes 40 ms at 12 Mbit/s: whole it would be a spike in the bin of its departure.
#[test]
fn superpackets_are_cut_before_a_slow_link() {
    let mut file = Pcap::new(101);
    for n in 0..20 {
        file.packet(n * 50_000_000, &datagram(n as u8 % 3, 58_880));
    }
    let fifo = "version = 1\n[discipline]\nkind = \"fifo\"\n";
    let (session, ..) = replay(&file.0, &[part("fifo", fifo, Some(12)), part("fast", fifo, Some(1_000))]);
    let [slow, fast] = [0, 1].map(|n| &session.outcomes[n]);
    // 58,880 bytes in segments of 1,472.
    assert_eq!((slow.passed, fast.passed), (20 * 40, 20), "a superpacket that takes less than 1 ms stays whole");
    let rate = slow.curves.iter().find(|c| c.measure == "throughput" && c.x == "time_s").expect("a rate over time");
    // A bin of 10 ms has ten packets, and one more that begins in it.
    let most = rate.points.iter().map(|point| point.1).fold(0.0, f64::max);
    assert!((11.5e6..=13.3e6).contains(&most), "{most}");
}

#[test]
fn series_add_up() {
    let mut file = Pcap::new(101);
    for n in 0..200 {
        file.packet(n * 500_000, &datagram(n as u8 % 3, 972));
    }
    let (session, ..) = replay(&file.0, &[part("shaper", SHAPER, None)]);
    let outcome = &session.outcomes[0];
    let curve = |measure: &str, y: &str| {
        let found = outcome.curves.iter().find(|c| c.subject == "class gold" && c.measure == measure && c.y == y);
        found.unwrap_or_else(|| panic!("{measure} in {y}")).points.clone()
    };
    // More than the class takes; what never happens has no curve.
    let drops: f64 = curve("drops", "packets").iter().map(|point| point.1).sum();
    assert!(outcome.refused > 0);
    assert_eq!(drops as u64, outcome.refused);
    let backlog = curve("backlog", "bytes");
    // Means over time: a full queue is drained in the end.
    let most = backlog.iter().map(|point| point.1).fold(0.0, f64::max);
    assert!(most > 10_000.0 && backlog.iter().all(|point| (0.0..=20_000.0).contains(&point.1)), "{backlog:?}");
    assert!(backlog.last().is_some_and(|point| point.1 < most), "{backlog:?}");
}

/// The captures that come with another library, where its package is installed: files of all kinds in both byte orders,
/// from elsewhere.
#[test]
fn captures_from_elsewhere() {
    let folder = std::env::var_os("TIDEGATE_CAPTURES")
        .map_or_else(|| PathBuf::from("/usr/share/gocode/src/github.com/google/gopacket"), PathBuf::from);
    let mut files = Vec::new();
    for folder in ["pcap", "pcapgo/tests/le", "pcapgo/tests/be"].map(|name| folder.join(name)) {
        let Ok(entries) = std::fs::read_dir(&folder) else { continue };
        files.extend(
            entries
                .flatten()
                .map(|entry| entry.path())
                .filter(|path| path.extension().is_some_and(|end| end == "pcap" || end == "pcapng")),
        );
    }
    if files.is_empty() {
        return tidegate_testbed::files::skip(&format!(
            "captures_from_elsewhere: there are none in {}; install golang-github-google-gopacket-dev",
            folder.display()
        ));
    }
    let mut packets = 0;
    for file in files {
        let bytes = std::fs::read(&file).unwrap();
        let Ok(mut source) = Source::capture(&bytes[..], Choice::default()) else {
            panic!("{} cannot be read", file.display());
        };
        let parts = [part("shaper", SHAPER, None)];
        let mut departures = Departures::new(Vec::new()).unwrap();
        let hooks = Hooks { notice: &mut |_| (), pace: None, departures: Some(&mut departures) };
        let session = session::replay(&mut source, &parts, hooks).unwrap();
        assert!(session.outcomes[0].passed + session.outcomes[0].refused >= session.packets, "{}", file.display());
        packets += session.packets;
    }
    assert!(packets > 100, "{packets}");
}
