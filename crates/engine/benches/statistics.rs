//! What statistics cost: ns/packet through the whole engine (classify, hash, queue, leave) with nothing, classes, or
//! flows counted, by the number of flows; and what a look at 64 flows keeps the data path from doing.

use std::hint::black_box;

use criterion::{BenchmarkId, Criterion, Throughput, criterion_group, criterion_main};
use tidegate_config::shaper;
use tidegate_config::{Diagnostics, Source};
use tidegate_core::classify::{Fields, Hosts};
use tidegate_core::{DropReason, Instant, Span};
use tidegate_engine::{Change, Engine, Names, PacketMeta, Setup, Sink};

struct Nowhere;

impl Sink<u32> for Nowhere {
    fn transmit(&mut self, handle: u32, change: Change) {
        black_box((handle, change));
    }
    fn drop_packet(&mut self, handle: u32, reason: DropReason) {
        black_box((handle, reason));
    }
}

fn engine(detail: &str) -> Engine<u32> {
    let text = format!(
        r#"
version = 1
[[class]]
name = "calls"
rate = "2gbit"
[[class]]
name = "rest"
rate = "8gbit"
default = true
limit = "1GB"
[[rule]]
class = "calls"
destination-port = 5004
[statistics]
detail = "{detail}"
"#
    );
    let config = shaper::load(&Source::new("bench.toml", text), &mut Diagnostics::new()).expect("valid");
    let setup = Setup { seed: 1, secret: [1, 2], catch_up: Span::ZERO, most_queued: None, names: Names::default() };
    Engine::new(&config, &setup, Instant::ZERO).expect("valid")
}

fn meta(flow: u32) -> PacketMeta {
    let hosts = Hosts::V4 { source: (0x0a00_0000 + (flow >> 12)).into(), destination: [10, 0, 0, 2].into() };
    let fields = Fields {
        hosts,
        protocol: Some(17),
        source_port: Some(1_024 + (flow & 0xfff) as u16),
        destination_port: Some(443),
        ..Fields::default()
    };
    PacketMeta { fields, length: 1_000, network_header: 20, headers: 28, ..PacketMeta::default() }
}

/// One packet comes and one leaves, with `flows` packets waiting, flows in an order that no cache prefetchs.
struct Run {
    engine: Engine<u32>,
    packets: Vec<PacketMeta>,
    next: usize,
    now: Instant,
}

impl Run {
    fn new(detail: &str, flows: u32) -> Self {
        let mut run = Self {
            engine: engine(detail),
            packets: (0..flows).map(meta).collect(),
            next: 0,
            now: Instant::from_nanos(1),
        };
        for packet in run.packets.clone() {
            run.engine.enqueue(run.now, 0, &packet, &mut Nowhere);
        }
        (0..2 * flows).for_each(|_| run.one());
        run
    }
    fn one(&mut self) {
        self.next = (self.next + 7_919) % self.packets.len();
        self.engine.enqueue(self.now, 0, &self.packets[self.next], &mut Nowhere);
        self.now = self.engine.deadline(self.now).instant(self.now).unwrap_or(self.now);
        self.engine.dequeue(self.now, &mut Nowhere);
    }
}

fn packet(c: &mut Criterion) {
    let mut group = c.benchmark_group("packet");
    group.throughput(Throughput::Elements(1));
    for flows in [16, 1_024, 16_384] {
        for detail in ["off", "classes", "flows"] {
            let mut run = Run::new(detail, flows);
            group.bench_with_input(BenchmarkId::new(detail, flows), &flows, |b, _| b.iter(|| run.one()));
        }
    }
    group.finish();
}

fn look(c: &mut Criterion) {
    let mut group = c.benchmark_group("look");
    let mut run = Run::new("flows", 16_384);
    let mut rows = Vec::with_capacity(64);
    let mut from = 0;
    group.bench_function("64 flows", |b| {
        b.iter(|| {
            rows.clear();
            from = run.engine.flow_rows(run.now, from, 64, &mut rows).unwrap_or(0);
            black_box(rows.len())
        });
    });
    let mut classes = Vec::with_capacity(2);
    group.bench_function("2 classes", |b| {
        b.iter(|| {
            classes.clear();
            run.engine.class_rows(run.now, 0, 2, &mut classes);
            black_box(classes.len())
        });
    });
    group.finish();
}

criterion_group!(benches, packet, look);
criterion_main!(benches);
