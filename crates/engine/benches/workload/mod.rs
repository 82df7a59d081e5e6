//! A shaper of ten classes under a steady backlog: one packet arrives, one leaves. In the easy case flows take turns and packets have
//! one size; under [`Traffic`] flows are random, come and go, and packets have sizes of 64 to 1,500 bytes.

use std::hint::black_box;

use tidegate_benches::traffic::{Arrival, Spread, Traffic};
use tidegate_config::shaper::{self, Config};
use tidegate_config::{Diagnostics, Source};
use tidegate_core::classify::{Fields, Hosts};
use tidegate_core::{DropReason, Ecn, Instant, Span};
use tidegate_engine::shards::Shard;
use tidegate_engine::{Change, Engine, Names, PacketMeta, Setup, Shape, Sink};

struct Nowhere;

impl Sink<u32> for Nowhere {
    fn transmit(&mut self, handle: u32, change: Change) {
        black_box((handle, change));
    }
    fn drop_packet(&mut self, handle: u32, reason: DropReason) {
        black_box((handle, reason));
    }
}

/// An engine with a packet of each flow in it.
pub struct Workload {
    engine: Engine<u32>,
    packets: Vec<PacketMeta>,
    next: usize,
    now: Instant,
}

/// Ten classes of 1 Gbit/s, each with a rule for its ports.
fn config(detail: &str) -> Config {
    let mut text = format!("version = 1\n[statistics]\ndetail = \"{detail}\"\n");
    for class in 0..10 {
        let default = if class == 9 { "default = true\n" } else { "" };
        text += &format!("[[class]]\nname = \"class-{class}\"\nrate = \"1gbit\"\nlimit = \"1GB\"\n{default}");
        text += &format!("[[rule]]\nclass = \"class-{class}\"\ndestination-port = {}\n", 5_000 + class);
    }
    let source = Source::new("bench.toml", &text);
    let mut diagnostics = Diagnostics::new();
    shaper::load(&source, &mut diagnostics).unwrap_or_else(|| panic!("{}", diagnostics.render(&source)))
}

fn engine(detail: &str) -> Engine<u32> {
    let setup = Setup { seed: 1, secret: [1, 2], catch_up: Span::ZERO, most_queued: None, names: Names::default() };
    Engine::new(&config(detail), &setup, Instant::ZERO).expect("valid")
}

fn packet(flow: u32) -> PacketMeta {
    let hosts = Hosts::V4 { source: (0x0a00_0000 + (flow >> 12)).into(), destination: [10, 0, 0, 2].into() };
    let fields = Fields {
        hosts,
        protocol: Some(17),
        source_port: Some(1_024 + (flow & 0xfff) as u16),
        destination_port: Some(5_000 + (flow % 10) as u16),
        ..Fields::default()
    };
    let (length, network_header, headers) = (1_000, 20, 28);
    PacketMeta { fields, ecn: Ecn::NotEct, length, network_header, headers, pure_ack: false, shape: Shape::Single }
}

/// A packet of each of `flows` flows.
pub fn packets(flows: u32) -> Vec<PacketMeta> {
    (0..flows).map(packet).collect()
}

impl Workload {
    /// With `flows` flows, and statistics of this detail.
    pub fn new(detail: &str, flows: u32) -> Self {
        Self::with(detail, packets(flows))
    }
    /// With these packets, one of each flow.
    pub fn with(detail: &str, packets: Vec<PacketMeta>) -> Self {
        Self::run(engine(detail), packets)
    }
    /// As shards of one engine, `shards` of them, each with `flows` flows.
    pub fn shards(detail: &str, shards: usize, flows: u32) -> Vec<Self> {
        let shards = Shard::all(&config(detail), shards, Instant::ZERO).expect("classes of a shaper");
        let one = |shard: Shard| {
            let mut engine = engine(detail);
            engine.join(&shard);
            Self::run(engine, packets(flows))
        };
        shards.into_iter().map(one).collect()
    }
    fn run(engine: Engine<u32>, packets: Vec<PacketMeta>) -> Self {
        let mut new = Self { engine, packets, next: 0, now: Instant::from_nanos(1) };
        for meta in &new.packets {
            new.engine.enqueue(new.now, 0, meta, &mut Nowhere);
        }
        (0..2 * new.packets.len()).for_each(|_| new.one());
        new
    }
    /// Under traffic of this many flows at once, with as many packets queued.
    pub fn random(detail: &str, spread: Spread, flows: u32) -> Random {
        let mut new = Random {
            engine: engine(detail),
            traffic: Traffic::new(spread, flows),
            packets: packets(flows),
            now: Instant::from_nanos(1),
        };
        (0..flows).for_each(|_| new.arrive());
        (0..4 * flows).for_each(|_| new.one());
        new
    }
    /// One packet arrives and one leaves; flows take turns in an order that caches do not prefetch.
    pub fn one(&mut self) {
        self.next = (self.next + 7_919) % self.packets.len();
        self.engine.enqueue(self.now, 0, &self.packets[self.next], &mut Nowhere);
        self.now = self.engine.deadline(self.now).instant(self.now).unwrap_or(self.now);
        self.engine.dequeue(self.now, &mut Nowhere);
    }
}

/// An engine under [`Traffic`].
pub struct Random {
    engine: Engine<u32>,
    traffic: Traffic,
    /// A packet of the flow that each place had first.
    packets: Vec<PacketMeta>,
    now: Instant,
}

impl Random {
    fn arrive(&mut self) {
        let Arrival { place, flow, size } = self.traffic.arrival();
        let mut meta = self.packets[place as usize];
        meta.length = size;
        // Flows that follow one another at a place have other hosts, and rules find the same class.
        if let Hosts::V4 { source, .. } = &mut meta.fields.hosts {
            *source = (u32::from(*source) + ((flow >> 32) as u32) * 0x100).into();
        }
        self.engine.enqueue(self.now, 0, &meta, &mut Nowhere);
    }
    /// One packet arrives and one leaves.
    pub fn one(&mut self) {
        self.arrive();
        self.now = self.engine.deadline(self.now).instant(self.now).unwrap_or(self.now);
        self.engine.dequeue(self.now, &mut Nowhere);
    }
}
