//! Packets a second: a generated capture of a million packets, and the real captures of a package of the distribution,
//! through FIFO, FBQ, CBQ and FQ-CoDel; reading alone, beside tcpreplay sending to a device that drops everything.
//!
//! The real captures are those of Debian's `golang-github-google-gopacket-dev` (the tests of another capture library),
//! in its place or in the folder that `TIDEGATE_CAPTURES` names. Missing captures are skipped and named.

use std::hint::black_box;
use std::path::PathBuf;
use std::process::Command;

use tidegate_benches::Harness;
use tidegate_config::{Diagnostics, Source as Text, shaper};
use tidegate_core::Rate;
use tidegate_core::random::Stream;
use tidegate_engine::{Engine, Names, Recorder};
use tidegate_metrics::Digest;
use tidegate_replay::recording::{Payload, Recording, Settings as RecordSettings, Setup};
use tidegate_replay::run::{Run, Settings};
use tidegate_replay::source::{Choice, Source};
use tidegate_units::{Instant, Span};

const PACKETS: u64 = 1_000_000;
const GOPACKET: &str = "/usr/share/gocode/src/github.com/google/gopacket";

const CONFIGURATIONS: [(&str, &str); 4] = [
    ("fifo", "version = 1\n[discipline]\nkind = \"fifo\"\n"),
    (
        "fbq",
        "version = 1\n[[class]]\nname = \"voice\"\nrate = \"200mbit\"\ndscp = \"ef\"\n[[class]]\nname = \"rest\"\n\
         rate = \"800mbit\"\ndefault = true\n[[rule]]\nclass = \"voice\"\nprotocol = \"udp\"\n",
    ),
    (
        "cbq",
        "version = 1\ndefault-class = \"rest\"\n[discipline]\nkind = \"cbq\"\nlink = \"1gbit\"\n\
         [[discipline.class]]\nname = \"voice\"\nshare = \"20%\"\npriority = 0\n\
         [[discipline.class]]\nname = \"rest\"\nshare = \"80%\"\nborrow = \"from-parent\"\n\
         [[rule]]\nclass = \"voice\"\nprotocol = \"udp\"\n",
    ),
    ("fq-codel", "version = 1\n[discipline]\nkind = \"fq-codel\"\n"),
];

/// A million packets of 2,000 flows at about 900 Mbit/s, headers captured.
fn generated() -> Vec<u8> {
    let mut draw = Stream::named(1, "bench");
    let mut file = Vec::with_capacity(PACKETS as usize * 80);
    for word in [0xa1b2_3c4d_u32, 4 << 16 | 2, 0, 0, 96, 1] {
        file.extend(word.to_le_bytes());
    }
    let mut time = 1_700_000_000_000_000_000_u64;
    for n in 0..PACKETS {
        let length = [40_u16, 1_500, 1_500, 576][draw.below(4) as usize];
        time += draw.below(2 * u64::from(length) * 8);
        let flow = draw.below(2_000) as u16;
        let protocol = if flow < 200 { 17 } else { 6 };
        let mut packet = vec![0x02; 12];
        packet.extend([0x08, 0x00, 0x45, 0]);
        packet.extend(length.to_be_bytes());
        packet.extend([
            (n >> 8) as u8,
            n as u8,
            0,
            0,
            64,
            protocol,
            0,
            0,
            10,
            0,
            (flow >> 8) as u8,
            flow as u8,
            10,
            1,
            0,
            1,
        ]);
        packet.extend((1_024 + flow).to_be_bytes());
        packet.extend(443_u16.to_be_bytes());
        match protocol {
            17 => packet.extend([(length - 20).to_be_bytes(), [0, 0]].concat()),
            _ => packet.extend([0, 0, 0, 1, 0, 0, 0, 1, 0x50, 0x10, 1, 0, 0, 0, 0, 0]),
        }
        let (captured, whole) = (packet.len() as u32, u32::from(length) + 14);
        for word in [(time / 1_000_000_000) as u32, (time % 1_000_000_000) as u32, captured, whole] {
            file.extend(word.to_le_bytes());
        }
        file.extend(packet);
    }
    file
}

fn config(text: &str) -> shaper::Config {
    let (source, mut diagnostics) = (Text::new("bench", text), Diagnostics::new());
    shaper::load(&source, &mut diagnostics).unwrap_or_else(|| panic!("{}", diagnostics.render(&source)))
}

fn read(file: &[u8]) -> u64 {
    let mut source = Source::capture(file, Choice::default()).expect("a capture");
    let mut packets = 0;
    while let Some(Ok(arrival)) = source.next_arrival(&mut |_| ()) {
        packets += 1;
        black_box(arrival.meta);
    }
    packets
}

fn through(config: &shaper::Config, file: &[u8]) -> Digest {
    let mut settings = Settings::seeded(1);
    settings.link = Some(Rate::from_bps(1_000_000_000));
    let mut run = Run::new(config, &settings, Instant::ZERO).expect("an engine");
    let mut source = Source::capture(file, Choice::default()).expect("a capture");
    while let Some(Ok(arrival)) = source.next_arrival(&mut |_| ()) {
        run.arrive(arrival.time, arrival.number, &arrival.meta);
    }
    run.finish();
    run.meter().digest()
}

/// The captures of the package, by their names.
fn real() -> Vec<(String, Vec<u8>)> {
    let folder = std::env::var_os("TIDEGATE_CAPTURES").map_or_else(|| PathBuf::from(GOPACKET), PathBuf::from);
    let mut found = Vec::new();
    for name in ["pcap/test_loopback.pcap", "pcap/test_ethernet.pcap", "pcapgo/tests/le/test202.pcapng"] {
        match std::fs::read(folder.join(name)) {
            Ok(bytes) => found.push((name.rsplit('/').next().unwrap_or(name).to_owned(), bytes)),
            Err(error) => eprintln!(
                "SKIP: {}: {error}; install golang-github-google-gopacket-dev, or name its folder by TIDEGATE_CAPTURES",
                folder.join(name).display()
            ),
        }
    }
    found
}

fn replay(harness: &mut Harness, file: &[u8]) {
    cases(harness, "million", PACKETS, file);
    for (name, file) in real() {
        cases(harness, &name, read(&file), &file);
    }
}

fn cases(harness: &mut Harness, capture: &str, packets: u64, file: &[u8]) {
    harness.case(&format!("{capture}/read"), packets, || {
        || {
            black_box(read(file));
        }
    });
    for (name, text) in CONFIGURATIONS {
        let config = config(text);
        harness.case(&format!("{capture}/{name}"), packets, || {
            move || {
                black_box(through(&config, file));
            }
        });
        harness.against(&format!("{capture}/{name}"), &format!("{capture}/read"));
    }
}

/// Sends the same capture by tcpreplay to a device that drops everything, in a namespace of its own: a dummy, or
/// where the kernel has none one end of a cable whose other end has no addresses.
fn tcpreplay(file: &[u8]) {
    let path = std::env::temp_dir().join(format!("tidegate-bench-{}.pcap", std::process::id()));
    if let Err(error) = std::fs::write(&path, file) {
        eprintln!("SKIP: tcpreplay: {}: {error}", path.display());
        return;
    }
    let script = "{ ip link add null0 type dummy 2>/dev/null || { ip link add null0 type veth peer name null1 && \
                  ip link set null1 up; }; } && ip link set null0 up && exec tcpreplay --topspeed --preload-pcap \
                  -i null0 \"$0\"";
    let ran = Command::new("unshare").args(["-Urn", "sh", "-c", script]).arg(&path).output();
    let _ = std::fs::remove_file(&path);
    match ran {
        Ok(output) if output.status.success() => {
            let said = String::from_utf8_lossy(&output.stdout);
            for line in said.lines().filter(|line| line.contains("Rated") || line.contains("Actual")) {
                println!("tcpreplay to a null device: {}", line.trim());
            }
        }
        Ok(output) => eprintln!("SKIP: tcpreplay: {}", String::from_utf8_lossy(&output.stderr).trim()),
        Err(error) => eprintln!("SKIP: tcpreplay: {error}"),
    }
}

/// The cost of the recorder: calls of the engine with and without it.
fn record(harness: &mut Harness, file: &[u8]) {
    for (name, recorded) in [("record/without", false), ("record/with", true)] {
        let config = config(CONFIGURATIONS[1].1);
        let path = std::env::temp_dir().join(format!("tidegate-bench-{}.tgr", std::process::id()));
        harness.case(name, PACKETS, || {
            || {
                black_box(engine(&config, file, recorded.then_some(path.as_path())));
            }
        });
        let _ = std::fs::remove_file(&path);
    }
    harness.against("record/with", "record/without");
}

fn engine(config: &shaper::Config, file: &[u8], record: Option<&std::path::Path>) -> u64 {
    let setup = tidegate_engine::Setup {
        seed: 1,
        secret: [1, 2],
        catch_up: Span::ZERO,
        most_queued: None,
        names: Names::default(),
    };
    let mut engine = Engine::new(config, &setup, Instant::ZERO).expect("an engine");
    let recording = record.map(|path| {
        let settings = RecordSettings {
            of: "bench".into(),
            payload: Payload::Headers,
            limit: None,
            files: None,
            clock: (Instant::ZERO, 0),
            buffers: 32,
            failed: |_| (),
        };
        Recording::create(path, settings).expect("a file")
    });
    if let Some(recording) = &recording {
        let setup = Setup::new(&setup, &config.text, Instant::ZERO);
        engine.set_recorder(Some(Box::new(recording.recorder(setup)) as Box<dyn Recorder>));
    }
    let mut source = Source::capture(file, Choice::default()).expect("a capture");
    let mut out = Forget::default();
    while let Some(Ok(arrival)) = source.next_arrival(&mut |_| ()) {
        if let Some(recorder) = engine.recorder() {
            recorder.packet_bytes(&arrival.bytes[arrival.network..]);
        }
        let now = arrival.time;
        let _in = engine.enqueue(now, arrival.number, &arrival.meta, &mut out);
        while engine.deadline(now).instant(now).is_some_and(|due| due <= now) && engine.dequeue(now, &mut out) {}
    }
    drop(engine);
    if let Some(recording) = recording {
        let counts = recording.finish().expect("written");
        if counts.lost > 0 {
            eprintln!("the disk did not follow: {} of {} records lost", counts.lost, counts.records);
        }
    }
    out.0
}

/// Counts what leaves.
#[derive(Default)]
struct Forget(u64);

impl tidegate_engine::Sink<u64> for Forget {
    fn transmit(&mut self, _: u64, _: tidegate_engine::Change) {
        self.0 += 1;
    }
    fn drop_packet(&mut self, _: u64, _: tidegate_core::DropReason) {}
}

fn main() {
    let mut harness = Harness::from_args();
    let file = generated();
    replay(&mut harness, &file);
    record(&mut harness, &file);
    if harness.is_complete() {
        tcpreplay(&file);
    }
}
