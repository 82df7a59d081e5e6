//! Statistics allocate nothing once their tables are warm: neither a packet nor a look at classes and flows does.

use tidegate_config::{Diagnostics, Source, shaper};
use tidegate_core::classify::{Fields, Hosts};
use tidegate_core::random::Stream;
use tidegate_core::{DropReason, Instant, Span};
use tidegate_engine::{Change, Engine, Names, PacketMeta, Setup, Sink};
use tidegate_sys::memory::{Counting, allocations};

#[global_allocator]
static ALLOCATOR: Counting = Counting;

struct Nowhere;

impl Sink<u64> for Nowhere {
    fn transmit(&mut self, _: u64, _: Change) {}
    fn drop_packet(&mut self, _: u64, _: DropReason) {}
}

fn meta(port: u16) -> PacketMeta {
    let hosts = Hosts::V4 { source: [10, 0, 0, 1].into(), destination: [10, 0, 0, 2].into() };
    let fields =
        Fields { hosts, protocol: Some(17), source_port: Some(port), destination_port: Some(9), ..Fields::default() };
    let length = 1_000;
    PacketMeta { fields, length, network_header: 20, headers: 28, ..PacketMeta::default() }
}

#[test]
fn nothing_is_allocated_for_a_packet_or_a_look() {
    let text = "version = 1\n[[class]]\nname = \"all\"\nrate = \"8mbit\"\ndefault = true\nflow-limit = \"5kB\"\n\
                [statistics]\nflows = 256\n";
    let config = shaper::load(&Source::new("test.toml", text), &mut Diagnostics::new()).expect("valid");
    let setup = Setup { seed: 1, secret: [1, 2], catch_up: Span::ZERO, most_queued: None, names: Names::default() };
    let mut engine: Engine<u64> = Engine::new(&config, &setup, Instant::ZERO).expect("valid");
    let mut random = Stream::named(5, "allocations");
    let (mut flows, mut classes) = (Vec::with_capacity(64), Vec::with_capacity(16));
    let mut now = Instant::ZERO;
    let mut run = |packets: u64, looks: bool| {
        for n in 0..packets {
            now += Span::from_micros(random.below(1_800));
            // 300 flows for 256 records: some fall out all the time.
            engine.enqueue(now, n, &meta(random.below(300) as u16), &mut Nowhere);
            while engine.dequeue(now, &mut Nowhere) {}
            if looks && n % 100 == 0 {
                flows.clear();
                classes.clear();
                engine.flow_rows(now, (n % 256) as u32, 64, &mut flows);
                engine.class_rows(now, 0, 16, &mut classes);
            }
        }
        engine.flows().expect("counted").table().evicted.iter().sum::<u64>()
    };
    run(100_000, true);
    let before = allocations();
    let evicted = run(50_000, true);
    assert_eq!(allocations() - before, 0, "allocations for 50,000 packets");
    assert!(evicted > 1_000, "the script reaches what makes room: {evicted}");
}
