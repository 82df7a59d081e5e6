//! Recordings: what was written is read back, and repeating it produces the same departures.

use std::fs::{self, File};
use std::path::PathBuf;

use tidegate_config::{Diagnostics, Source as Text, edit, shaper};
use tidegate_core::classify::{Classifier, Fields, Fragment, Hosts, Match, Rule};
use tidegate_core::fbq::Terms;
use tidegate_core::random::Stream;
use tidegate_core::reservation::{Request, Service, TSpec};
use tidegate_core::{Bytes, ClassId, DropReason, Dscp, Ecn, Rate};
use tidegate_engine::{
    Adjustment, Change, Engine, Lease, Names, PacketMeta, PreparedConfig, PromiseTable, Setup as EngineSetup, Shape,
    Sink, SwapKind,
};
use tidegate_replay::departures::Departures;
use tidegate_replay::exact::{self, Unrepeatable, Verdict};
use tidegate_replay::explain;
use tidegate_replay::meter::Keep;
use tidegate_replay::recording::{
    Control, Counts, Missing, PacketOutcome, Payload, Reader, Record, Recording, RecordingError, Settings, Setup,
    part_path,
};
use tidegate_replay::run;
use tidegate_replay::session::{self, Hooks, Part};
use tidegate_replay::source::{Choice, Source};
use tidegate_units::{Instant, Span};

const SHAPER: &str = r#"
version = 1
[[class]]
name = "gold"
rate = "5mbit"
dscp = "af11"
[[class]]
name = "rest"
rate = "15mbit"
limit = "60kB"
default = true
[[rule]]
class = "gold"
protocol = "udp"
minimum = "100kbit"
flows = 20
"#;

/// A folder of its own for a test; it goes when this goes.
struct Folder(PathBuf);

impl Folder {
    fn new(name: &str) -> Self {
        let path = std::env::temp_dir().join(format!("tidegate-recording-{name}-{}", std::process::id()));
        let _ = fs::remove_dir_all(&path);
        fs::create_dir(&path).unwrap();
        Self(path)
    }
    fn file(&self) -> PathBuf {
        self.0.join("run.tgr")
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

fn settings() -> Settings {
    Settings {
        of: "test0".into(),
        payload: Payload::Headers,
        limit: None,
        files: None,
        clock: (Instant::from_nanos(5), 1_700_000_000_000_000_000),
        buffers: 64,
        failed: |_| (),
    }
}

fn setup() -> EngineSetup {
    let names = Names { users: [("alice".to_owned(), 1000)].into(), ..Names::default() };
    EngineSetup { seed: 7, secret: [1, 2], catch_up: Span::from_millis(5), names }
}

/// Counts and otherwise forgets.
#[derive(Default)]
struct Outcomes {
    passed: u64,
    refused: u64,
}

impl Sink<u64> for Outcomes {
    fn transmit(&mut self, _: u64, _: Change) {
        self.passed += 1;
    }
    fn drop_packet(&mut self, _: u64, _: DropReason) {
        self.refused += 1;
    }
}

fn kbit(n: u64) -> Rate {
    Rate::from_bps(n * 1_000)
}

fn packet(draw: &mut Stream) -> (PacketMeta, Vec<u8>) {
    let flow = draw.below(40) as u8;
    let protocol = if flow < 8 { 17 } else { 6 };
    let hosts = if flow % 5 == 4 {
        let end = |n| std::net::Ipv6Addr::new(0x2001, 0xdb8, 0, 0, 0, 0, 0, n);
        Hosts::V6 { source: end(flow.into()), destination: end(99) }
    } else {
        Hosts::V4 { source: [10, 0, 0, flow].into(), destination: [10, 0, 1, 1].into() }
    };
    let mut fields = Fields {
        hosts,
        protocol: Some(protocol),
        source_port: Some(1000 + u16::from(flow)),
        destination_port: Some(80),
        dscp: Dscp::new(draw.below(64) as u8 & 0x3e).unwrap(),
        uid: (flow.is_multiple_of(3)).then_some(1000),
        cgroup: (flow.is_multiple_of(7)).then_some(u64::MAX - 3),
        mark: u32::from(flow / 20) << 31,
        fragment: None,
    };
    let shape = if draw.below(20) == 0 { Shape::Super } else { Shape::Single };
    if shape == Shape::Single && draw.below(30) == 0 {
        fields.fragment = Some(Fragment { id: draw.below(4) as u32, offset: 1480 * draw.below(2) as u16, more: true });
    }
    let length = if shape == Shape::Super { 20_000 } else { 60 + draw.below(1_440) as u32 };
    let meta = PacketMeta {
        fields,
        ecn: Ecn::from_bits(draw.below(4) as u8),
        length,
        network_header: 20,
        headers: 40,
        pure_ack: draw.below(9) == 0,
        shape,
    };
    let mut bytes = vec![0x45; 128];
    bytes[4..8].copy_from_slice(&draw.next_u64().to_le_bytes()[..4]);
    (meta, bytes)
}

fn load(text: &str) -> shaper::Config {
    let (text, mut diagnostics) = (Text::new("test", text), Diagnostics::new());
    let config = shaper::load(&text, &mut diagnostics);
    config.unwrap_or_else(|| panic!("{}", diagnostics.render(&text)))
}

/// Drives an engine as a data path does with recorder `recording`, and returns what came out.
fn drive(recording: &Recording, seed: u64, packets: usize) -> Outcomes {
    let (mut whim, mut flow) = (Stream::named(seed, "whim"), 0);
    drive_with(recording, SHAPER, seed, packets, &mut |handle, now, fields, engine, sink| {
        if handle == 30 {
            flow = engine.classify(fields).flow.flow;
        }
        match whim.below(400) {
            0 => drop(engine.set_minimum(now, flow, kbit(200))),
            1 => drop(engine.prefer(now, flow, 1)),
            2 => drop(engine.set_class_rate(now, ClassId(1), kbit(9_000 + whim.below(3_000)))),
            3 => drop(engine.set_catch_up(Span::from_millis(whim.below(20)))),
            4 => engine.release_all(sink),
            5 => drop(engine.set_rate(now, kbit(20_000))),
            _ => {}
        }
    })
}

/// What the control plane does after a packet: its number, when it came, and what it is.
type Operation<'a> = dyn FnMut(u64, Instant, &Fields, &mut Engine<u64>, &mut Outcomes) + 'a;

/// The same, of a configuration, with what the control plane does.
fn drive_with(recording: &Recording, text: &str, seed: u64, packets: usize, act: &mut Operation<'_>) -> Outcomes {
    let mut now = Instant::from_nanos(1_000_000_000);
    let mut engine = Engine::new(&load(text), &setup(), now).unwrap();
    engine.set_recorder(Some(Box::new(recording.recorder(Setup::new(&setup(), text, now)))));
    let mut sink = Outcomes::default();
    // A stream of its own, so that the packets can be drawn again without the rest.
    let mut draw = Stream::named(seed, "recording");
    for handle in 0..packets as u64 {
        now += Span::from_nanos(draw.below(400_000));
        let (meta, bytes) = packet(&mut draw);
        engine.recorder().unwrap().packet_bytes(&bytes);
        let _taken = engine.enqueue(now, handle, &meta, &mut sink);
        while engine.deadline(now).instant(now).is_some_and(|due| due <= now) {
            if !engine.dequeue(now, &mut sink) {
                break;
            }
        }
        act(handle, now, &meta.fields, &mut engine, &mut sink);
        engine.recorder().unwrap().idle(now);
    }
    engine.release_all(&mut sink);
    sink
}

fn record(folder: &Folder, settings: Settings, seed: u64, packets: usize) -> (Outcomes, Counts) {
    let recording = Recording::create(&folder.file(), settings).unwrap();
    let sink = drive(&recording, seed, packets);
    let counts = recording.finish().unwrap();
    (sink, counts)
}

fn reader(folder: &Folder) -> Reader<File> {
    Reader::new(File::open(folder.file()).unwrap()).unwrap()
}

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
        let metadata = fs::metadata(folder.file()).unwrap();
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
fn book(promises: &[(u64, u16)]) -> PromiseTable {
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

fn rebook(promises: &[(u64, u16)], now: Instant, engine: &mut Engine<u64>) {
    drop(engine.promises(now).set_table(book(promises)));
    let mut from = Some(0);
    while let Some(place) = from {
        from = engine.promises(now).review(place, 16);
    }
}

#[test]
fn a_recording_is_exact_through_changes_and_promises() {
    let folder = Folder::new("changes");
    let recording = Recording::create(&folder.file(), settings()).unwrap();
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
            rebook(&[(1, 1_001), (3, 1_002)], now, engine);
        }
        3_000 => {
            engine.promises(now).end(3);
            rebook(&[(1, 1_001)], now, engine);
        }
        4_000 => hows.push(swap_to(OTHER, now, engine, sink)),
        4_001 => {
            // As a daemon restores promises.
            engine.promises(now).clear();
            engine.promises(now).promise(1, terms(1_000), ClassId(2), 1, true).unwrap();
            rebook(&[(1, 1_001)], now, engine);
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
    assert_eq!(reader.head().format, 2);
    let (exact, broken) = exact::replay(&mut reader);
    assert!(broken.is_none());
    assert_eq!(exact.verdict, Verdict::Equal);
    assert!(exact.compared > sink.passed + sink.refused);
    assert_eq!(exact.here, exact.recorded);
    // The changes do something: left out, the departures are others.
    for left_out in ["promise", "review", "book", "swap"] {
        assert!(matches!(without(&folder, left_out), Verdict::Different(_)), "{left_out}");
    }
}

/// What comes of a recording without its calls of one kind.
fn without(folder: &Folder, kind: &str) -> Verdict {
    let mut reader = reader(folder);
    let mut replayer = exact::Replayer::new(Keep::default());
    while let Some(record) = reader.next_record() {
        let (record, at) = (record.unwrap(), reader.position().0 - 1);
        let leave_out = match &record {
            Record::Control { control, .. } => match control {
                Control::Promise { .. } => kind == "promise",
                Control::PromiseTable { .. } => kind == "book",
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
    let recording = Recording::create(&folder.file(), settings()).unwrap();
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
fn everything_is_read_as_it_was_written() {
    let folder = Folder::new("told");
    let (sink, _) = record(&folder, Settings { payload: Payload::All, ..settings() }, 1, 2_000);
    assert!(sink.passed > 0);
    let mut reader = reader(&folder);
    assert_eq!((reader.head().of.as_str(), reader.head().part), ("test0", 0));
    let mut draw = Stream::named(1, "recording");
    let (mut arrivals, mut steered) = (0, Vec::new());
    let mut now = 1_000_000_000;
    while let Some(record) = reader.next_record() {
        match record.unwrap() {
            Record::Setup(built) => {
                assert_eq!(built, Setup::new(&setup(), SHAPER, Instant::from_nanos(1_000_000_000)));
                assert_eq!(built.engine().names.users["alice"], 1000);
            }
            Record::Arrives { now: at, number, meta } => {
                now += draw.below(400_000);
                let (expected, bytes) = packet(&mut draw);
                assert_eq!((at.as_nanos(), number, meta), (now, arrivals, expected));
                assert_eq!(reader.bytes(), bytes);
                arrivals += 1;
            }
            Record::Adjustment { adjustment: steer, .. } => steered.push(steer),
            Record::Gap(missing) => panic!("{missing}"),
            _ => {}
        }
    }
    assert_eq!(arrivals, 2_000);
    let has = |kind: fn(&Adjustment) -> bool| steered.iter().any(kind);
    assert!(
        has(|steer| matches!(steer, Adjustment::Minimum(flow, rate) if *flow != 0 && *rate == kbit(200))),
        "{steered:?}"
    );
    assert!(has(|steer| matches!(steer, Adjustment::Rate(rate) if *rate == kbit(20_000))), "{steered:?}");
}

#[test]
fn files_of_a_limited_size_follow_each_other() {
    let folder = Folder::new("parts");
    // 60 KB hold no whole chunk of 256 KB: a file for each.
    let limited = Settings { limit: Some(Bytes::new(60_000)), ..settings() };
    let (_, counts) = record(&folder, limited.clone(), 3, 30_000);
    assert!(counts.files >= 4, "{counts:?}");
    let open = {
        let path = folder.file();
        move |part| File::open(part_path(&path, part)).ok()
    };
    let mut whole = Reader::with_parts(File::open(folder.file()).unwrap(), open.clone()).unwrap();
    let (exact, broken) = exact::replay(&mut whole);
    assert!(broken.is_none());
    assert_eq!(exact.verdict, Verdict::Equal);
    assert_eq!(whole.head().part, counts.files - 1);
    assert_eq!(whole.position().0, counts.records);

    // Read from the middle, the gap is reported and the configuration is still known.
    let mut middle = Reader::new(open(2).unwrap()).unwrap();
    assert_eq!(middle.head().setup.as_ref().unwrap().configuration, SHAPER);
    assert_eq!(middle.next_record().unwrap().unwrap(), Record::Gap(Missing::Before));
    let (exact, _) = exact::replay(&mut Reader::new(open(2).unwrap()).unwrap());
    assert_eq!(exact.verdict, Verdict::EqualUpTo { record: 0, why: Unrepeatable::Missing(Missing::Before) });

    // And that something follows.
    let mut last = None;
    let mut first = Reader::new(open(0).unwrap()).unwrap();
    while let Some(record) = first.next_record() {
        last = Some(record.unwrap());
    }
    assert_eq!(last, Some(Record::Gap(Missing::Behind)));

    // Two files are kept.
    let (_, counts) = record(&folder, Settings { files: Some(2), ..limited }, 3, 30_000);
    let kept: Vec<u64> = (0..counts.files + 2).filter(|part| part_path(&folder.file(), *part).exists()).collect();
    assert_eq!(kept, [counts.files - 2, counts.files - 1]);
}

#[test]
fn what_cannot_be_kept_is_counted_and_said() {
    let folder = Folder::new("lost");
    // A pipe without a reader: the writer blocks, and the data path goes on.
    let recording = Recording::create(&folder.file(), Settings { buffers: 2, ..settings() }).unwrap();
    let path = folder.file();
    drive(&recording, 1, 100);
    drop(recording);
    let whole = fs::metadata(&path).unwrap().len();
    assert!(whole > 0);

    let fifo = folder.0.join("fifo");
    let made = std::process::Command::new("mkfifo").arg(&fifo).status();
    if !made.is_ok_and(|status| status.success()) {
        eprintln!("SKIP: mkfifo is not there");
        return;
    }
    let to_read = fifo.clone();
    let reading = std::thread::spawn(move || {
        let mut file = File::open(to_read).unwrap();
        // Not before the recording has lost something.
        std::thread::sleep(std::time::Duration::from_millis(1500));
        let mut all = Vec::new();
        std::io::Read::read_to_end(&mut file, &mut all).unwrap();
        all
    });
    let recording = Recording::create(&fifo, Settings { buffers: 2, ..settings() }).unwrap();
    let sink = drive(&recording, 1, 60_000);
    assert!(sink.passed > 0);
    let counts = recording.finish().unwrap();
    assert!(counts.lost > 0 && counts.lost < counts.records, "{counts:?}");
    let all = reading.join().unwrap();
    let mut reader = Reader::new(&all[..]).unwrap();
    let (mut read, mut missing) = (0, 0);
    while let Some(record) = reader.next_record() {
        match record.unwrap() {
            Record::Gap(Missing::NotKept { records }) => missing += records,
            Record::Gap(other) => panic!("{other}"),
            _ => read += 1,
        }
    }
    let end = reader.counts().unwrap();
    assert_eq!((end.records, end.lost), (counts.records, counts.lost));
    assert!(missing == counts.lost && read + missing == counts.records, "{read} {missing} {counts:?}");
    let (exact, _) = exact::replay(&mut Reader::new(&all[..]).unwrap());
    let Verdict::EqualUpTo { record, why: Unrepeatable::Missing(Missing::NotKept { .. }) } = exact.verdict else {
        panic!("{:?}", exact.verdict)
    };
    assert!(record > 1_000);
}

#[test]
fn a_full_disk_stops_the_recording_and_nothing_else() {
    let full = PathBuf::from("/dev/full");
    if !full.exists() {
        eprintln!("SKIP: there is no /dev/full");
        return;
    }
    // Already the head cannot be written.
    assert!(Recording::create(&full, settings()).is_err());
}

#[test]
fn a_failure_to_write_is_reported_at_once_and_later_records_are_counted() {
    static FAILURES: std::sync::Mutex<Vec<String>> = std::sync::Mutex::new(Vec::new());
    let folder = Folder::new("stopped");
    let fifo = folder.0.join("fifo");
    let made = std::process::Command::new("mkfifo").arg(&fifo).status();
    if !made.is_ok_and(|status| status.success()) {
        eprintln!("SKIP: mkfifo is not there");
        return;
    }
    // Its reader goes after 600 kB: two whole chunks of 256 KiB, and part of a third.
    const READ: usize = 600_000;
    let to_read = fifo.clone();
    let reading = std::thread::spawn(move || {
        let mut read = vec![0; READ];
        std::io::Read::read_exact(&mut File::open(to_read).unwrap(), &mut read).unwrap();
        read
    });
    let failed = |why: &str| FAILURES.lock().unwrap().push(why.to_owned());
    let recording = Recording::create(&fifo, Settings { failed, ..settings() }).unwrap();
    drive(&recording, 1, 60_000);
    let read = reading.join().unwrap();
    // It is over, and only now is it asked to end.
    let deadline = std::time::Instant::now() + std::time::Duration::from_secs(60);
    while recording.failure().is_none() {
        assert!(std::time::Instant::now() < deadline, "{:?}", recording.counts());
        std::thread::sleep(std::time::Duration::from_millis(5));
    }
    let message = FAILURES.lock().unwrap().clone();
    let [message] = message.as_slice() else { panic!("{message:?}") };
    assert!(message.contains(fifo.to_str().unwrap()), "{message}");
    let stopped = recording.finish().unwrap_err();
    assert_eq!((&stopped.why, FAILURES.lock().unwrap().len()), (message, 1));
    // What was written in whole chunks, and what was not, are all there were.
    let mut reader = Reader::new(&read[..]).unwrap();
    let kept = std::iter::from_fn(|| reader.next_record()).take_while(Result::is_ok).count() as u64;
    let counts = stopped.counts;
    assert!(kept > 1_000 && counts.lost > 1_000, "{kept} {counts:?}");
    // The pipe holds up to 64 KiB that its reader never took: a chunk may have been written and not read.
    assert!(counts.records - counts.lost >= kept, "{kept} {counts:?}");
    assert!(counts.lost >= counts.records / 4, "{kept} {counts:?}");
}

#[test]
fn a_file_that_was_cut_off_is_read_up_to_the_cut() {
    let folder = Folder::new("cut");
    let (_, counts) = record(&folder, settings(), 2, 30_000);
    let all = fs::read(folder.file()).unwrap();
    let mut last = 0;
    for part in [1, 3, 5, 7, 9] {
        let cut = all.len() * part / 10;
        let mut reader = Reader::new(&all[..cut]).unwrap();
        let (exact, broken) = exact::replay(&mut reader);
        assert_eq!(exact.verdict, Verdict::Equal);
        assert_eq!(exact.here.to_string().len(), 32);
        let Some(RecordingError::Truncated { record, offset }) = broken else { panic!("{broken:?}") };
        assert!(record >= last && record < counts.records && offset as usize <= cut);
        last = record;
    }
    assert!(last > counts.records / 2);
    // Within the head.
    for cut in [0, 3, 8, 12, 40] {
        assert!(Reader::new(&all[..cut]).is_err(), "{cut}");
    }
}

#[test]
fn a_damaged_chunk_is_left_out_and_named() {
    let folder = Folder::new("damaged");
    record(&folder, settings(), 2, 30_000);
    let whole = fs::read(folder.file()).unwrap();
    let mut all = whole.clone();
    let middle = all.len() / 2;
    all[middle] ^= 0x10;
    let mut reader = Reader::new(&all[..]).unwrap();
    let mut gaps = Vec::new();
    let mut behind = 0;
    while let Some(record) = reader.next_record() {
        match record.unwrap() {
            Record::Gap(missing) => gaps.push(missing),
            _ => behind += u64::from(!gaps.is_empty()),
        }
    }
    let [Missing::Damaged { offset, why }] = &gaps[..] else { panic!("{gaps:?}") };
    assert!((*offset as usize) < middle && why.contains("checksum"));
    assert!(behind > 1_000, "what is behind it can be read: {behind}");
    // A replay reports up to where it is equal.
    let (exact, _) = exact::replay(&mut Reader::new(&all[..]).unwrap());
    assert!(matches!(exact.verdict, Verdict::EqualUpTo { why: Unrepeatable::Missing(_), .. }));
    // Packets behind it are there, and cannot be explained.
    let message = explain::arrival(&mut Reader::new(&all[..]).unwrap(), 1, 29_000).unwrap_err().to_string();
    assert!(message.starts_with("only packets 1 to ") && message.contains("checksum"), "{message}");
    assert!(explain::arrival(&mut Reader::new(&all[..]).unwrap(), 1, 100).is_ok());
    let message = explain::arrival(&mut Reader::new(&whole[..]).unwrap(), 1, 30_000).unwrap_err().to_string();
    assert_eq!(message, "there is no such packet; they are numbered 1 to 30000");
}

/// A datagram of 4,028 bytes from a program, which the kernel sends in fragments and no segmenter cuts: the recording
/// knows it from a superpacket, and so other configurations get as many packets as the recorded one.
#[test]
fn a_long_datagram_of_a_recording_stays_one() {
    let folder = Folder::new("datagram");
    let slow = "version = 1\n[[class]]\nname = \"all\"\nrate = \"500kbit\"\ndefault = true\n";
    let recording = Recording::create(&folder.file(), settings()).unwrap();
    let mut now = Instant::from_nanos(1_000);
    let mut engine = Engine::new(&load(slow), &setup(), now).unwrap();
    engine.set_recorder(Some(Box::new(recording.recorder(Setup::new(&setup(), slow, now)))));
    let (mut meta, bytes) = packet(&mut Stream::named(1, "datagram"));
    (meta.fields.protocol, meta.fields.fragment) = (Some(17), None);
    (meta.length, meta.headers, meta.shape) = (4_028, 28, Shape::Single);
    let mut sink = Outcomes::default();
    for handle in 0..3 {
        engine.recorder().unwrap().packet_bytes(&bytes);
        assert!(matches!(engine.enqueue(now, handle, &meta, &mut sink), tidegate_engine::Admission::Consumed));
        while engine.dequeue(now, &mut sink) {}
        now += Span::from_millis(200);
    }
    engine.release_all(&mut sink);
    drop(engine);
    recording.finish().unwrap();
    assert_eq!(sink.passed, 3);

    let part = Part { name: "same".into(), config: load(slow), settings: run::Settings::seeded(1) };
    let mut source = Source::recording(reader(&folder), Choice::default());
    let hooks = Hooks::<Vec<u8>> { notice: &mut |notice| panic!("{notice}"), pace: None, departures: None };
    let session = session::replay(&mut source, &[part], hooks).unwrap();
    assert_eq!((session.packets, session.outcomes[0].passed), (3, 3), "none is cut");
}

/// What people see of a recording counts packets from 1, as `explain` does.
#[test]
fn departures_of_a_recording_are_numbered_from_1() {
    let folder = Folder::new("numbers");
    record(&folder, settings(), 2, 300);
    let mut departures = Departures::new(Vec::new()).unwrap();
    session::again(&mut reader(&folder), "recorded", Keep::default(), Some(&mut departures)).unwrap();
    let part = Part { name: "beside".into(), config: load(SHAPER), settings: run::Settings::seeded(1) };
    let part =
        Part { settings: run::Settings { keep: Keep { series: false, departures: true }, ..part.settings }, ..part };
    let mut source = Source::recording(reader(&folder), Choice::default());
    let hooks = Hooks { notice: &mut |_| (), pace: None, departures: Some(&mut departures) };
    session::replay(&mut source, &[part], hooks).unwrap();
    let file = String::from_utf8_lossy(&departures.finish().unwrap()).into_owned();
    assert!(!file.contains("packet 0,"), "the first is 1");
    // The last packet that arrived is in both, by the same name.
    let last = |from: &str| {
        let all = from.match_indices("packet ").filter_map(|(at, _)| from[at + 7..].split(',').next()?.parse().ok());
        all.max().unwrap_or(0_u64)
    };
    let begins = file.rfind("packet 1,").expect("the first of the second pass");
    assert_eq!(last(&file[..begins]), last(&file[begins..]));
}

#[test]
fn impossible_counts_are_damage() {
    use tidegate_replay::recording::{FORMAT, MAGIC, raw_chunk};
    let head = format!(
        "{{\"format\":{FORMAT},\"tidegate\":\"\",\"recording\":\"\",\"part\":0,\"of\":\"\",\"instant_ns\":0,\
         \"wall_clock_ns\":0,\"payload\":\"all\",\"reasons\":[]}}"
    );
    // The number of the first record, how many were lost, the time, and the packets before: one of them is 2^64 - 1.
    let largest = [&[0xff; 9][..], &[1]].concat();
    for place in [0, 1, 3] {
        for tag in 0..32 {
            let mut body: Vec<u8> = Vec::new();
            (0..4).for_each(|n| if n == place { body.extend(&largest) } else { body.push(0) });
            body.extend([tag, 0, 0, 0, 0]);
            let all = [&MAGIC[..], &raw_chunk(b'H', head.as_bytes()), &raw_chunk(b'R', &body)].concat();
            let mut reader = Reader::new(&all[..]).unwrap();
            let first = reader.next_record().unwrap().unwrap();
            assert!(matches!(first, Record::Gap(Missing::Damaged { .. })), "{place} {tag}: {first:?}");
            assert!(reader.next_record().is_none(), "{place} {tag}");
        }
    }
}

#[test]
fn an_outcome_that_was_forged_is_found() {
    use tidegate_replay::recording::Encoder;
    let folder = Folder::new("forged");
    record(&folder, settings(), 2, 300);
    // All records again, except that one packet is recorded as dropped.
    let mut reader = reader(&folder);
    let head = fs::read(folder.file()).unwrap();
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

/// A recording that was cut off in front of its first record, as when the recording process was killed.
#[test]
fn of_a_recording_without_records_none_is_explained() {
    let folder = Folder::new("nothing");
    record(&folder, settings(), 2, 10);
    let all = fs::read(folder.file()).unwrap();
    // The first chunk behind the magic is the head.
    let head = &all[..8 + 9 + u32::from_le_bytes(all[9..13].try_into().unwrap()) as usize];
    let none = |event| explain::packet_of_record(&mut Reader::new(head).unwrap(), event).unwrap_err().to_string();
    assert_eq!([none(0), none(7)], ["there are no records", "there are no records"]);
    let message = explain::arrival(&mut Reader::new(head).unwrap(), 1, 0).unwrap_err().to_string();
    assert_eq!(message, "there are no packets");
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

fn seed(name: &str) -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../fuzz/seeds/recording").join(name)
}

/// `TIDEGATE_WRITE_SEED=1` writes it anew.
#[test]
fn a_recording_of_version_2_can_be_done_again() {
    let path = seed("control.tgr");
    if std::env::var_os("TIDEGATE_WRITE_SEED").is_some() {
        let recording = Recording::create(&path, settings()).unwrap();
        drive_with(&recording, SHAPER, 5, 12, &mut |handle, now, _, engine, _| {
            if handle == 4 {
                let terms = Terms { minimum: kbit(500), ..Terms::default() };
                engine.promises(now).promise(1, terms, ClassId(0), 1, false).unwrap();
                rebook(&[(1, 1_001)], now, engine);
            }
        });
        recording.finish().unwrap();
    }
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
