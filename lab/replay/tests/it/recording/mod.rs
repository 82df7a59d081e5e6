//! Recordings: what was written is read back, and repeating it produces the same departures.

use std::fs::{self, File};
use std::path::PathBuf;

use tidegate_capture::dissect::network;
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
    open_file, part_path,
};
use tidegate_replay::run;
use tidegate_replay::session::{self, Hooks, Part};
use tidegate_replay::source::{Choice, Source};
use tidegate_testbed::files::Folder;
use tidegate_units::{Instant, Span};

mod files;
mod line;
mod repeated;

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
    EngineSetup { seed: 7, secret: [1, 2], catch_up: Span::from_millis(5), most_queued: Some(64), names }
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
        ..Fields::default()
    };
    let shape = if draw.below(20) == 0 { Shape::Super } else { Shape::Single };
    if shape == Shape::Single && draw.below(30) == 0 {
        fields.fragment = Some(Fragment { id: draw.below(4) as u32, offset: 1480 * draw.below(2) as u16, more: true });
    }
    let length = if shape == Shape::Super { 20_000 } else { 60 + draw.below(1_440) as u32 };
    let mut meta = PacketMeta {
        fields,
        ecn: Ecn::from_bits(draw.below(4) as u8),
        length,
        network_header: 20,
        headers: 40,
        pure_ack: draw.below(9) == 0,
        shape,
    };
    let mut bytes = vec![0x45; 128.min(length as usize)];
    bytes[4..8].copy_from_slice(&draw.next_u64().to_le_bytes()[..4]);
    // A data path has read them from the bytes.
    meta.fields.traits = network(&bytes, length as usize).unwrap().fields.traits;
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

/// An action of the control plane after a packet: its number, when it came, and what it is.
type Operation<'a> = dyn FnMut(u64, Instant, &Fields, &mut Engine<u64>, &mut Outcomes) + 'a;

/// Drives a given configuration, with the actions of the control plane.
fn drive_with(recording: &Recording, text: &str, seed: u64, packets: usize, act: &mut Operation<'_>) -> Outcomes {
    drive_in(&setup(), recording, text, seed, packets, act)
}

/// Like [`drive_with`], in an engine that is set up in another way.
fn drive_in(
    setup: &EngineSetup,
    recording: &Recording,
    text: &str,
    seed: u64,
    packets: usize,
    act: &mut Operation<'_>,
) -> Outcomes {
    let mut now = Instant::from_nanos(1_000_000_000);
    let mut engine = Engine::new(&load(text), setup, now).unwrap();
    engine.set_recorder(Some(Box::new(recording.recorder(Setup::new(setup, text, now)))));
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
    let recording = Recording::create(&folder.file("run.tgr"), settings).unwrap();
    let sink = drive(&recording, seed, packets);
    let counts = recording.finish().unwrap();
    (sink, counts)
}

fn reader(folder: &Folder) -> Reader<File> {
    Reader::new(File::open(folder.file("run.tgr")).unwrap()).unwrap()
}
