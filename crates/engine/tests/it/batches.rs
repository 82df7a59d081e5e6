//! Packets that arrive or leave together have the effects of one after the other: what is sent, dropped and to be segmented,
//! counts, deadlines.

use tidegate_config::{Diagnostics, Source, shaper};
use tidegate_core::classify::{Fields, Fragment, Hosts};
use tidegate_core::random::Stream;
use tidegate_core::{DropReason, Ecn, Instant, Qdisc, Span};
use tidegate_engine::driver::Params;
use tidegate_engine::{Arrival, Change, Driver, Engine, Names, Offered, PacketMeta, Segmentation, Setup, Shape, Sink};

#[derive(Default, PartialEq, Debug)]
struct Seen {
    sent: Vec<(u32, Change)>,
    dropped: Vec<(u32, DropReason)>,
    segmented: Vec<u32>,
}

impl Sink<u32> for Seen {
    fn transmit(&mut self, handle: u32, change: Change) {
        self.sent.push((handle, change));
    }
    fn drop_packet(&mut self, handle: u32, reason: DropReason) {
        self.dropped.push((handle, reason));
    }
}

fn driver(text: &str) -> Driver<u32> {
    let source = Source::new("batches.toml", text);
    let mut diagnostics = Diagnostics::new();
    let config = shaper::load(&source, &mut diagnostics).unwrap_or_else(|| panic!("{}", diagnostics.render(&source)));
    let setup = Setup { seed: 1, secret: [1, 2], catch_up: Span::from_millis(1), names: Names::default() };
    let params = Params { segmentation: Segmentation::Deferred, ..Params::default() };
    Driver::new(Engine::new(&config, &setup, Instant::ZERO).expect("valid"), params, Instant::ZERO)
}

/// A packet of one of 30 flows; some are fragments, some superpackets.
fn packet(random: &mut Stream) -> PacketMeta {
    let flow = random.below(30) as u16;
    let hosts = Hosts::V4 { source: [10, 0, 0, 1].into(), destination: [10, 0, 0, 2].into() };
    let protocol = Some(if flow < 15 { 17 } else { 6 });
    let (source_port, destination_port) = (Some(flow), Some(5_000 + flow % 2));
    let mut fields = Fields { hosts, protocol, source_port, destination_port, ..Fields::default() };
    let mut meta =
        PacketMeta { ecn: Ecn::from_bits(flow as u8), network_header: 20, headers: 40, ..PacketMeta::default() };
    meta.length = 60 + random.below(1_400) as u32;
    match random.below(20) {
        0 => (meta.length, meta.shape) = (4_000 + random.below(16_000) as u32, Shape::Super),
        1 => fields.fragment = Some(Fragment { id: flow.into(), offset: 0, more: true }),
        2 => {
            fields.fragment = Some(Fragment { id: flow.into(), offset: 64, more: false });
            (fields.source_port, fields.destination_port) = (None, None);
        }
        _ => {}
    }
    PacketMeta { fields, ..meta }
}

fn agree(text: &str) {
    let (mut batched, mut single, mut random) = (driver(text), driver(text), Stream::named(3, "batches"));
    let (mut now, mut handle, mut sent, mut segmented) = (Instant::ZERO, 0, 0, 0);
    for round in 0..3_000 {
        let (mut one, mut other) = (Seen::default(), Seen::default());
        let metas: Vec<PacketMeta> = (0..random.below(9)).map(|_| packet(&mut random)).collect();
        let arrivals: Vec<_> = (handle..).zip(&metas).map(|(handle, meta)| Arrival::new(handle, meta)).collect();
        handle += arrivals.len() as u32;
        for arrival in &arrivals {
            if let Offered::Segment(handle) = single.offer(now, *arrival, &mut one) {
                one.segmented.push(handle);
            }
        }
        batched.offer_batch(now, &arrivals, &mut other, |at, offered, seen| {
            if let Offered::Segment(handle) = offered {
                assert_eq!(handle, arrivals[at].handle);
                seen.segmented.push(handle);
            }
        });
        assert_eq!(one, other, "round {round}, arrivals");
        segmented += one.segmented.len();
        if random.below(4) == 0 {
            single.segmentation_done();
            batched.segmentation_done();
        }
        now += Span::from_nanos(random.below(8_000_000));
        let (mut one, mut other) = (Seen::default(), Seen::default());
        while single.next_departure(now).is_some_and(|due| due <= now) && single.depart(now, &mut one) {}
        batched.depart_due(now, &mut other);
        // What a discipline without a deadline drops first.
        single.depart_due(now, &mut one);
        assert_eq!(one, other, "round {round}, departures");
        assert_eq!(single.next_departure(now), batched.next_departure(now), "round {round}");
        assert_eq!(single.engine().tree().backlog(), batched.engine().tree().backlog());
        sent += one.sent.len();
    }
    let counts = |driver: &Driver<u32>| {
        let engine = driver.engine();
        let classes = engine.status().into_iter().map(|class| {
            (
                class.name,
                class.counts.accounts,
                class.counts.through,
                class.counts.waited_at(0.9),
                class.counts.jitter(),
            )
        });
        (classes.collect::<Vec<_>>(), engine.sent(), engine.dropped(), engine.line(), driver.counters())
    };
    assert_eq!(counts(&single), counts(&batched));
    assert!(sent > 3_000 && segmented > 0, "{sent} were sent, {segmented} were to be segmented");
}

#[test]
fn of_the_end_system_shaper() {
    // Fewer records than flows: some are pushed out by other packets of the same batch.
    agree(
        "version = 1\n[statistics]\ndetail = \"flows\"\nflows = 8\n[[class]]\nname = \"a\"\nrate = \"6mbit\"\n\
         limit = \"40kB\"\n[[class]]\nname = \"b\"\nrate = \"4mbit\"\nlimit = \"40kB\"\ndefault = true\n\
         [[rule]]\nclass = \"a\"\ndestination-port = 5000\nminimum = \"100kbit\"\n",
    );
}

#[test]
fn of_a_discipline_that_drops_on_departure() {
    agree("version = 1\n[statistics]\ndetail = \"flows\"\n[discipline]\nkind = \"cake\"\nrate = \"5mbit\"\n");
}

#[test]
fn of_cbq() {
    agree(
        "version = 1\ndefault-class = \"b\"\n[discipline]\nkind = \"cbq\"\nlink = \"10mbit\"\n\
         [[discipline.class]]\nname = \"a\"\nshare = \"20%\"\npriority = 0\n[[discipline.class]]\nname = \"b\"\n\
         share = \"80%\"\nborrow = \"from-parent\"\n[[rule]]\nclass = \"a\"\nprotocol = \"udp\"\n",
    );
}
