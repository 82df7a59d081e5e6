//! Repeating a recording produces the same departures, or names the first that differs.

use super::*;

#[test]
fn a_recording_done_again_is_equal_bit_for_bit() {
    let folder = Folder::new("equal");
    for seed in 0..4 {
        let (sink, counts) = record(&folder, settings(), seed, 5_000);
        assert_eq!(counts.lost, 0);
        assert!(sink.refused > 50 && sink.passed > 2_000, "{} {}", sink.passed, sink.refused);
        let mut reader = reader(&folder);
        let (exact, broken) = exact::replay(&mut reader);
        assert!(broken.is_none());
        assert_eq!(exact.verdict, Verdict::Equal);
        assert_eq!(exact.here, exact.recorded);
        // And superpackets that went back.
        assert!(exact.compared > sink.passed + sink.refused);
        assert_eq!(reader.counts().unwrap().records, counts.records);
        let metadata = fs::metadata(folder.file("run.tgr")).unwrap();
        assert_eq!(counts.bytes, metadata.len());
        #[cfg(unix)]
        assert_eq!(
            std::os::unix::fs::PermissionsExt::mode(&metadata.permissions()) & 0o777,
            0o600,
            "it holds addresses"
        );
        // 5,000 packets with headers of 40 bytes, and what was done with each.
        assert!(counts.bytes < 400_000, "{}", counts.bytes);
    }
}

#[test]
fn the_bound_on_all_packets_in_the_queue_is_repeated() {
    let folder = Folder::new("bound");
    let refused = [None, Some(16)].map(|most_queued| {
        let recording = Recording::create(&folder.file("run.tgr"), settings()).unwrap();
        let setup = EngineSetup { most_queued, ..setup() };
        let sink = drive_in(&setup, &recording, SHAPER, 3, 5_000, &mut |_, _, _, _, _| ());
        recording.finish().unwrap();
        let (exact, broken) = exact::replay(&mut reader(&folder));
        assert!(broken.is_none() && exact.verdict == Verdict::Equal, "{most_queued:?}: {:?}", exact.verdict);
        sink.refused
    });
    // The bound drops packets that the classes alone would have taken, so that a repetition without it would differ.
    assert!(refused[1] > refused[0] + 100, "{refused:?}");
}

/// Another tree: a class more, other rules, other flows.
const OTHER: &str = r#"
version = 1
[shaper]
flow-by = "source"
[[class]]
name = "gold"
rate = "4mbit"
[[class]]
name = "silver"
rate = "6mbit"
queue = { kind = "fq-codel" }
[[class]]
name = "rest"
rate = "10mbit"
default = true
[[rule]]
class = "gold"
dscp = "af11"
[[rule]]
class = "silver"
protocol = "tcp"
source = "10.0.0.16/28"
"#;

fn swap_to(text: &str, now: Instant, engine: &mut Engine<u64>, sink: &mut Outcomes) -> SwapKind {
    // Made ready a moment before, as a daemon does.
    let built = Instant::from_nanos(now.as_nanos() - 500_000);
    let setup = EngineSetup { catch_up: Span::ZERO, ..setup() };
    let next = PreparedConfig::new(&load(text), &setup, built).unwrap().with_text(text);
    engine.swap(next, now, sink).unwrap().0.how
}

/// Conditions of promises to flows of UDP from one port each.
fn table_of(promises: &[(u64, u16)]) -> PromiseTable {
    let rule = |(target, (_, port)): (usize, &(u64, u16))| {
        let protocol = Some(17);
        let (source_ports, destination) = (vec![*port..=*port], Some("10.0.0.0/8".parse().unwrap()));
        Rule { matching: Match { protocol, source_ports, destination, ..Match::default() }, target: target as u32 }
    };
    let rules: Vec<Rule> = promises.iter().enumerate().map(rule).collect();
    PromiseTable {
        promises: (!rules.is_empty()).then(|| Classifier::new(rules).unwrap()),
        numbers: promises.iter().map(|(number, _)| *number).collect(),
        ..PromiseTable::default()
    }
}

fn set_table(promises: &[(u64, u16)], now: Instant, engine: &mut Engine<u64>) {
    drop(engine.promises(now).set_table(table_of(promises)));
    let mut from = Some(0);
    while let Some(place) = from {
        from = engine.promises(now).review(place, 16);
    }
}

#[test]
fn a_recording_is_exact_through_changes_and_promises() {
    let folder = Folder::new("changes");
    let recording = Recording::create(&folder.file("run.tgr"), settings()).unwrap();
    let mut hows = Vec::new();
    let terms = |rate| Terms { minimum: kbit(rate), steps: 1, ..Terms::default() };
    let slower = SHAPER.replace("15mbit", "12mbit");
    let mut refused = false;
    let act: &mut Operation<'_> = &mut |handle, now, _, engine, sink| match handle {
        1_000 => hows.push(swap_to(&slower, now, engine, sink)),
        2_000 => {
            engine.promises(now).promise(1, terms(1_500), ClassId(0), 1, false).unwrap();
            refused = engine.promises(now).promise(2, terms(9_000), ClassId(0), 1, false).is_err();
            engine.promises(now).promise(3, Terms { steps: 3, ..Terms::default() }, ClassId(0), 2, true).unwrap();
            set_table(&[(1, 1_001), (3, 1_002)], now, engine);
        }
        3_000 => {
            engine.promises(now).end(3);
            set_table(&[(1, 1_001)], now, engine);
        }
        4_000 => hows.push(swap_to(OTHER, now, engine, sink)),
        4_001 => {
            // As a daemon restores promises.
            engine.promises(now).clear();
            engine.promises(now).promise(1, terms(1_000), ClassId(2), 1, true).unwrap();
            set_table(&[(1, 1_001)], now, engine);
        }
        5_000 => hows.push(swap_to(&slower, now, engine, sink)),
        6_000 => hows.push(swap_to(SHAPER, now, engine, sink)),
        _ => {}
    };
    let sink = drive_with(&recording, SHAPER, 11, 8_000, act);
    let counts = recording.finish().unwrap();
    assert!(refused && counts.lost == 0);
    assert_eq!(hows, [SwapKind::InPlace, SwapKind::Replaced, SwapKind::Replaced, SwapKind::InPlace]);
    assert!(sink.refused > 100 && sink.passed > 4_000, "{} {}", sink.passed, sink.refused);
    let mut reader = reader(&folder);
    assert_eq!(reader.head().format, tidegate_replay::recording::FORMAT);
    let (exact, broken) = exact::replay(&mut reader);
    assert!(broken.is_none());
    assert_eq!(exact.verdict, Verdict::Equal);
    assert!(exact.compared > sink.passed + sink.refused);
    assert_eq!(exact.here, exact.recorded);
    // The changes do something: left out, the departures are others.
    for left_out in ["promise", "review", "table", "swap"] {
        assert!(matches!(without(&folder, left_out), Verdict::Different(_)), "{left_out}");
    }
}

/// Replays a recording without its calls of one kind.
fn without(folder: &Folder, kind: &str) -> Verdict {
    let mut reader = reader(folder);
    let mut replayer = exact::Replayer::new(Keep::default());
    while let Some(record) = reader.next_record() {
        let (record, at) = (record.unwrap(), reader.position().0 - 1);
        let leave_out = match &record {
            Record::Control { control, .. } => match control {
                Control::Promise { .. } => kind == "promise",
                Control::PromiseTable { .. } => kind == "table",
                Control::Review { .. } => kind == "review",
                Control::Reserve { .. } => kind == "reserve",
                Control::Refresh { .. } => kind == "refresh",
                Control::Release { .. } => kind == "release",
                _ => false,
            },
            Record::Reconfigure { .. } => kind == "swap",
            _ => false,
        };
        if !leave_out && !replayer.record(at, &record) {
            break;
        }
    }
    replayer.finish(reader.position().0, true).verdict
}

const RESERVING: &str = r#"
version = 1
[discipline]
kind = "cbq"
link = "10mbit"
mtu = "1500B"
class = [{ name = "rest", rate = "5mbit", borrow = "from-parent" }, { name = "reserved", rate = "5mbit" }]
reservations = { class = "reserved", flows = 4, max-rate = "2.5mbit", lifetime = "1s" }
"#;

#[test]
fn a_recording_is_exact_through_reservations() {
    let folder = Folder::new("reservations");
    let recording = Recording::create(&folder.file("run.tgr"), settings()).unwrap();
    let request = |rate: u64, delay: Option<Span>| Request {
        tspec: TSpec {
            rate: kbit(rate),
            bucket: Bytes::new(4_000),
            peak: kbit(10_000),
            min_unit: Bytes::new(64),
            max_packet: Bytes::new(1_500),
        },
        service: delay.map_or(Service::ControlledLoad, |delay| Service::Guaranteed { rate: None, delay: Some(delay) }),
    };
    let of = |pairs: &[(&str, &str)]| {
        let pairs: Vec<_> = pairs.iter().map(|(key, value)| ((*key).to_owned(), (*value).to_owned())).collect();
        edit::matching(&pairs).unwrap()
    };
    let mut leases: Vec<Lease> = Vec::new();
    let mut refusals = 0;
    let act: &mut Operation<'_> = &mut |handle, now, _, engine, sink| {
        let mut reserve =
            |name: &str, rate, delay, matches| match engine.reserve(now, name, &request(rate, delay), matches, sink) {
                Ok(lease) => leases.push(lease),
                Err(_) => refusals += 1,
            };
        match handle {
            500 => reserve("one", 800, None, of(&[("protocol", "udp"), ("source-port", "1001")])),
            600 => reserve("two", 600, Some(Span::from_millis(80)), of(&[("source", "10.0.0.7"), ("uid", "alice")])),
            700 => reserve("three", 100_000, None, of(&[("protocol", "tcp")])),
            800 => reserve("four", 500, None, of(&[("dscp", "af11"), ("destination", "10.0.1.0/24")])),
            // The first is kept alive and ended, the second runs out, the third is ended by what ends all.
            1_000..=20_000 if handle % 1_000 == 0 => {
                let [first, _, third] = &leases[..] else { panic!("{leases:?}") };
                // Both live yet: each lives a second, and is kept alive five times in one.
                engine.refresh(now, third.grant.id).unwrap();
                if handle <= 15_000 {
                    engine.refresh(now, first.grant.id).unwrap();
                }
                if handle == 15_000 {
                    engine.release(now, first.grant.id, sink).unwrap();
                }
            }
            _ => {}
        }
    };
    // 200 us between two packets: 8 s, and a lease lives a second by itself.
    let mut ended = 0;
    let sink = drive_with(&recording, RESERVING, 5, 40_000, &mut |handle, now, fields, engine, sink| {
        act(handle, now, fields, engine, sink);
        if handle == 39_999 {
            ended = 3 - engine.leases().count();
        }
    });
    let counts = recording.finish().unwrap();
    assert_eq!((counts.lost, refusals), (0, 1));
    assert_eq!(ended, 3, "ended, or ran out");
    assert!(sink.passed > 10_000, "{}", sink.passed);
    let (exact, broken) = exact::replay(&mut reader(&folder));
    assert!(broken.is_none());
    assert_eq!(exact.verdict, Verdict::Equal);
    assert_eq!(exact.here, exact.recorded);
    for left_out in ["reserve", "refresh", "release"] {
        assert!(matches!(without(&folder, left_out), Verdict::Different(_)), "{left_out}");
    }
}

#[test]
fn an_outcome_that_was_forged_is_found() {
    use tidegate_replay::recording::Encoder;
    let folder = Folder::new("forged");
    record(&folder, settings(), 2, 300);
    // All records again, except that one packet is recorded as dropped.
    let mut reader = reader(&folder);
    let head = fs::read(folder.file("run.tgr")).unwrap();
    let mut encoder = Encoder::new(Payload::Headers, 1 << 20);
    let mut passed = 0;
    let mut forged = None;
    while let Some(record) = reader.next_record() {
        let at = reader.position().0 - 1;
        match record.unwrap() {
            Record::Setup(setup) => encoder.setup(setup.now(), &serde_json::to_string(&setup).unwrap()),
            Record::Arrives { now, number, meta } => encoder.arrives(now, number, &meta, reader.bytes()),
            Record::Departs { now } => encoder.departs(now),
            Record::ReleaseAll => encoder.release_all(),
            Record::Adjustment { now, adjustment } => encoder.adjust(now, adjustment),
            Record::Outcome { number, outcome: PacketOutcome::Passed(change) } => {
                passed += 1;
                if passed == 100 {
                    forged = Some((at, number));
                    encoder.refused(number, DropReason::Early);
                } else {
                    encoder.passed(number, change);
                }
            }
            Record::Outcome { number, outcome: PacketOutcome::Refused(reason) } => encoder.refused(number, reason),
            Record::Outcome { number, outcome: PacketOutcome::TooLong } => encoder.too_long(number),
            other => panic!("{other:?}"),
        }
    }
    let chunk = encoder.chunk();
    // The first chunk behind the magic is the head.
    let length = 8 + 9 + u32::from_le_bytes(head[9..13].try_into().unwrap()) as usize;
    let file = [&head[..length], &chunk].concat();
    let (exact, broken) = exact::replay(&mut Reader::new(&file[..]).unwrap());
    assert!(broken.is_none());
    let (at, number) = forged.unwrap();
    let Verdict::Different(difference) = exact.verdict else { panic!("{:?}", exact.verdict) };
    assert_eq!(
        (difference.record, difference.recorded),
        (at, Some((number, PacketOutcome::Refused(DropReason::Early))))
    );
    assert_eq!(difference.here, Some((number, PacketOutcome::Passed(Change::default()))));
    assert_eq!(
        difference.to_string(),
        format!("record {at}: packet {0} is dropped (early) in the recording, packet {0} passes here", number + 1)
    );
    assert_ne!(exact.here, exact.recorded);
}

/// Files that earlier builds wrote stay readable; they are seeds of the fuzz target as well.
#[test]
fn a_recording_of_version_1_can_be_read() {
    let mut reader = Reader::new(File::open(seed("small.tgr")).unwrap()).unwrap();
    assert_eq!(reader.head().format, 1);
    let (mut arrivals, mut came) = (0, 0);
    while let Some(record) = reader.next_record() {
        match record.unwrap() {
            Record::Arrives { .. } => arrivals += 1,
            Record::Outcome { .. } => came += 1,
            Record::Gap(missing) => panic!("{missing}"),
            _ => {}
        }
    }
    assert_eq!((arrivals, came), (12, 12));
    assert_eq!(reader.counts().unwrap().lost, 0);
}

pub(super) fn seed(name: &str) -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../tools/fuzz/seeds/recording").join(name)
}

#[test]
fn a_recording_of_version_2_can_be_read() {
    let path = seed("control.tgr");
    let mut reader = Reader::new(File::open(&path).unwrap()).unwrap();
    assert_eq!(reader.head().format, 2);
    let mut calls = Vec::new();
    while let Some(record) = reader.next_record() {
        if let Record::Control { control, .. } = record.unwrap() {
            calls.push(control);
        }
    }
    assert!(
        matches!(
            &calls[..],
            [
                Control::Promise { number: 1, minimum_bps: 500_000, .. },
                Control::PromiseTable { .. },
                Control::Review { .. }
            ]
        ),
        "{calls:?}"
    );
}
