//! The counts of flows and classes are compared with an account that is kept packet by packet.

use std::collections::HashMap;

use tidegate_config::shaper::{self, Config};
use tidegate_config::{Diagnostics, Source};
use tidegate_core::classify::{Fields, Hosts};
use tidegate_core::random::Stream;
use tidegate_core::{Bytes, ClassId, DropReason, Ecn, Instant, Rate, Span};
use tidegate_engine::{Change, Engine, FlowRow, Names, PacketMeta, Setup, Sink};

fn config(text: &str) -> Config {
    let mut diagnostics = Diagnostics::new();
    let config = shaper::load(&Source::new("test.toml", text), &mut diagnostics);
    config.unwrap_or_else(|| panic!("{:?}", diagnostics.iter().collect::<Vec<_>>()))
}

fn engine(text: &str) -> Engine<u64> {
    let setup = Setup { seed: 1, secret: [1, 2], catch_up: Span::ZERO, most_queued: None, names: Names::default() };
    Engine::new(&config(text), &setup, Instant::ZERO).expect("valid")
}

fn meta(port: u16, length: u32) -> PacketMeta {
    let hosts = Hosts::V4 { source: [10, 0, 0, 1].into(), destination: [10, 0, 0, 2].into() };
    let fields = Fields {
        hosts,
        protocol: Some(17),
        source_port: Some(port),
        destination_port: Some(port % 10),
        uid: Some(1_000 + u32::from(port % 10)),
        ..Fields::default()
    };
    PacketMeta { fields, ecn: Ecn::Ect0, length, network_header: 20, headers: 28, ..PacketMeta::default() }
}

/// Which packets passed and which did not; a handle is a port and a number of microseconds.
#[derive(Default)]
struct Log {
    passed: Vec<(u64, Change)>,
    refused: Vec<(u64, DropReason)>,
}

impl Sink<u64> for Log {
    fn transmit(&mut self, handle: u64, change: Change) {
        self.passed.push((handle, change));
    }
    fn drop_packet(&mut self, handle: u64, reason: DropReason) {
        self.refused.push((handle, reason));
    }
}

fn flows(engine: &mut Engine<u64>, now: Instant, step: u32) -> Vec<FlowRow> {
    let (mut rows, mut from) = (Vec::new(), Some(0));
    while let Some(place) = from {
        let before = rows.len();
        from = engine.flow_rows(now, place, step, &mut rows);
        assert!(rows.len() - before <= step as usize, "a look is bounded");
    }
    rows
}

const TWO: &str = r#"
version = 1
[[class]]
name = "calls"
rate = "2mbit"
dscp = "EF"
borrow = false
[[class]]
name = "rest"
rate = "8mbit"
default = true
flow-limit = "4kB"
limit = "130kB"
feedback = { above = "50%", below = "20%", ecn = true }
[[rule]]
name = "the calls"
class = "calls"
destination-port = 4
minimum = "1mbit"
"#;

/// Microseconds to an instant.
fn us(n: u64) -> Instant {
    Instant::from_nanos(n * 1_000)
}

#[test]
fn every_packet_is_counted_once_in_its_flow_and_its_class() {
    let mut engine = engine(TWO);
    let mut random = Stream::named(4, "statistics");
    let mut out = Log::default();
    let (mut now, mut came) = (0, HashMap::<u16, (u64, u64)>::new());
    let mut sizes = HashMap::new();
    for number in 0..60_000_u64 {
        now += random.below(700);
        let (port, length) = (100 + random.below(40) as u16, 100 + random.below(1_400) as u32);
        let handle = number << 16 | u64::from(port);
        sizes.insert(handle, (u64::from(length), now));
        let entry = came.entry(port).or_default();
        *entry = (entry.0 + 1, entry.1 + u64::from(length));
        engine.enqueue(us(now), handle, &meta(port, length), &mut out);
        while engine.dequeue(us(now), &mut out) {}
    }
    let rows = flows(&mut engine, us(now), 7);
    assert_eq!(rows.len(), 40);
    assert!(out.refused.len() > 1_000, "the script reaches drops: {}", out.refused.len());
    assert!(out.passed.iter().any(|(_, change)| change.congestion), "the script reaches marks");
    for row in &rows {
        let (who, record) = (&row.record.who, &row.record);
        let port = who.source_port.unwrap();
        let of_it = |handle: &u64| *handle as u16 == port;
        let bytes = |handles: &mut dyn Iterator<Item = u64>| handles.map(|handle| sizes[&handle].0).sum::<u64>();
        let passed = || out.passed.iter().filter(|(handle, _)| of_it(handle));
        let refused = || out.refused.iter().filter(|(handle, _)| of_it(handle));
        assert_eq!((who.uid, who.protocol), (Some(1_000 + u32::from(port % 10)), Some(17)));
        assert_eq!((record.arrived.packets, record.arrived.bytes.as_u64()), came[&port]);
        assert_eq!(record.sent.packets, passed().count() as u64);
        assert_eq!(record.sent.bytes.as_u64(), bytes(&mut passed().map(|(handle, _)| *handle)));
        assert_eq!(u64::from(record.marked), passed().filter(|(_, change)| change.congestion).count() as u64);
        assert_eq!(u64::from(record.remarked), passed().filter(|(_, change)| change.dscp.is_some()).count() as u64);
        assert_eq!(record.dropped_bytes.as_u64(), bytes(&mut refused().map(|(handle, _)| *handle)));
        for reason in DropReason::ALL {
            let count = refused().filter(|(_, why)| *why == reason).count();
            assert_eq!(u64::from(record.dropped[reason as usize]), count as u64, "{}", reason.name());
        }
        let waits = record.arrived.packets - record.sent.packets - record.dropped_total();
        assert_eq!(record.waits.packets, waits);
        let rule = (port % 10 == 4).then_some(0);
        assert_eq!((record.rule, record.class.0), (rule, u32::from(rule.is_none())));
        assert_eq!(row.view.unwrap().backlog, record.waits, "the shaper counts the same");
    }
    // The classes are the sums of their flows.
    let mut classes = Vec::new();
    assert_eq!(engine.class_rows(us(now), 0, 1, &mut classes), Some(1));
    assert_eq!(engine.class_rows(us(now), 1, 9, &mut classes), None);
    for class in &classes {
        let of_it = || rows.iter().filter(|row| row.record.class == class.class).map(|row| &row.record);
        let counts = &class.counts;
        assert_eq!(counts.through.packets, of_it().map(|flow| flow.sent.packets).sum::<u64>());
        assert_eq!(counts.accounts.dropped_total().packets, of_it().map(|flow| flow.dropped_total()).sum::<u64>());
        assert_eq!(counts.waited.count(), counts.through.packets);
        assert_eq!(counts.marked, of_it().map(|flow| u64::from(flow.marked)).sum::<u64>());
        let longest = of_it().map(|flow| flow.longest).max().unwrap();
        assert_eq!(counts.waited.longest(), longest);
        assert!(longest > Span::from_millis(5) && counts.jitter() > Span::ZERO);
    }
}

/// A second of flow f at `rate`: packets of 1,000 B, evenly.
fn second(engine: &mut Engine<u64>, from: u64, load: &[(u16, u64)], out: &mut Log) {
    let mut due: Vec<(u64, u16)> = load
        .iter()
        .flat_map(|&(port, bps)| (0..bps / 8_000).map(move |n| (from + n * 8_000_000_000 / bps, port)))
        .collect();
    due.sort_unstable();
    let end = from + 1_000_000;
    let mut due = due.into_iter().peekable();
    let mut clock = from;
    loop {
        let arrival = due.peek().map(|(at, _)| *at);
        let departure = engine.deadline(us(clock)).instant(us(clock)).map(|at| at.as_nanos().div_ceil(1_000));
        match (arrival, departure) {
            (Some(at), departure) if departure.is_none_or(|departure| at <= departure) => {
                let (at, port) = due.next().expect("peeked");
                clock = at;
                engine.enqueue(us(at), u64::from(port), &meta(port, 1_000), out);
            }
            (_, Some(departure)) if departure < end => {
                clock = clock.max(departure);
                engine.dequeue(us(departure), out);
            }
            _ => break,
        }
    }
}

#[test]
fn kept_and_missed_promises_and_no_demand_are_counted_apart() {
    let mut engine = engine(TWO);
    let mut out = Log::default();
    // Flow 14 is promised 1 of the 2 Mbit/s of the calls and sends 1.5; 24, without a promise yet (the first has all
    // that is promised for), sends 4; the rest sends 3 of its 8.
    let load = [(14, 1_500_000), (24, 4_000_000), (7, 3_000_000)];
    for s in 1..=20 {
        second(&mut engine, s * 1_000_000, &load, &mut out);
    }
    let now = us(21_000_000);
    let rows = flows(&mut engine, now, 100);
    let of = |port: u16| rows.iter().find(|row| row.record.who.source_port == Some(port)).unwrap();
    let (kept, missed) = (of(14).record.promise().kept(), of(14).record.promise().missed());
    assert!(kept >= 17 && missed == 0, "kept {kept}, missed {missed}");
    assert_eq!((of(7).record.promise().kept(), of(7).record.promise().missed()), (0, 0), "nothing was promised");
    // Rates: what left in the last moments.
    let near = |rate: Rate, mbit: f64| (rate.as_bps() as f64 / 1e6 / mbit - 1.0).abs() < 0.06;
    assert!(near(of(7).record.rate(now), 3.0), "{}", of(7).record.rate(now));
    let mut classes = Vec::new();
    engine.class_rows(now, 0, 9, &mut classes);
    let (calls, rest) = (&classes[0], &classes[1]);
    assert!(near(calls.counts.rate(now), 2.0) && near(rest.counts.rate(now), 3.0));
    // The calls always have a queue and get their 2 Mbit/s; the rest never asks for its 8.
    let promised = |n: usize| (classes[n].counts.promise().kept(), classes[n].counts.promise().missed());
    assert!(promised(0).0 >= 18 && promised(0).1 == 0, "{:?}", promised(0));
    assert_eq!(promised(1), (0, 0));
    // The data path is late by half of the time: what is due cannot be delivered, and it shows.
    for s in 21..=30 {
        let at = s * 1_000_000;
        for n in 0..500 {
            engine.enqueue(us(at + 2_000 * n), 14, &meta(14, 1_000), &mut out);
        }
        // One packet of the calls each 10 ms instead of each 4.
        for n in 0..100 {
            engine.dequeue(us(at + 10_000 * n + 9_999), &mut out);
        }
    }
    classes.clear();
    engine.class_rows(us(31_000_000), 0, 9, &mut classes);
    assert!(classes[0].counts.promise().missed() >= 8, "{:?}", classes[0].counts.promise());
}

/// Kept and missed seconds of the first class after 20 seconds of `load`.
fn promised(text: &str, load: &[(u16, u64)]) -> (u32, u32) {
    let (mut engine, mut out, mut classes) = (engine(text), Log::default(), Vec::new());
    for s in 1..=20 {
        second(&mut engine, s * 1_000_000, load, &mut out);
        classes.clear();
        engine.class_rows(us((s + 1) * 1_000_000), 0, 1, &mut classes);
    }
    (classes[0].counts.promise().kept(), classes[0].counts.promise().missed())
}

/// A television that its rule holds at 0.8 of the 2 Mbit/s of its class leaves the rest to the others. With a second flow that
/// nothing holds the class asks for what it is promised.
#[test]
fn a_class_that_waits_for_a_ceiling_misses_nothing() {
    let text = "version = 1\n[[class]]\nname = \"house\"\nrate = \"2mbit\"\ndefault = true\nborrow = false\n\
                [[class]]\nname = \"rest\"\nrate = \"8mbit\"\n\
                [[rule]]\nclass = \"house\"\ndestination-port = 4\nat-most = \"800kbit\"\n";
    assert_eq!(promised(text, &[(14, 4_000_000)]), (0, 0));
    let (kept, missed) = promised(text, &[(14, 4_000_000), (7, 4_000_000)]);
    assert!(kept >= 18 && missed == 0, "{kept} {missed}");
}

/// A packet of 1,000 B takes 4 kbit/s two seconds: every other second is without one.
#[test]
fn a_small_promise_is_judged_by_several_packets() {
    let text = "version = 1\n[[class]]\nname = \"small\"\nrate = \"4kbit\"\ndefault = true\nborrow = false\n\
                [[class]]\nname = \"rest\"\nrate = \"8mbit\"\n";
    let (kept, missed) = promised(text, &[(14, 16_000)]);
    assert!(kept >= 12 && missed == 0, "{kept} {missed}");
}

/// Its last packet was before the change: nothing but the change says where its rule stands now.
#[test]
fn a_silent_flow_keeps_its_rule_when_rules_move() {
    let (mut engine, mut out) = (engine(TWO), Log::default());
    engine.enqueue(us(0), 14, &meta(14, 1_000), &mut out);
    engine.dequeue(us(0), &mut out);
    let rule = "[[rule]]\nname = \"the calls\"";
    let mut rule_of = |text: &str| {
        let setup = Setup { seed: 1, secret: [1, 2], catch_up: Span::ZERO, most_queued: None, names: Names::default() };
        engine.reconfigure(&config(text), &setup, us(1_000_000), &mut out).expect("valid");
        let row = flows(&mut engine, us(1_000_000), 9)[0];
        row.record.rule.map(|rule| engine.config().rules[rule as usize].label())
    };
    assert_eq!(rule_of(TWO).as_deref(), Some("the calls"));
    let first = format!("[[rule]]\nname = \"first\"\nclass = \"rest\"\ndestination-port = 9\n{rule}");
    assert_eq!(rule_of(&TWO.replace(rule, &first)).as_deref(), Some("the calls"));
    assert_eq!(rule_of(&TWO.replace("the calls", "other calls")), None, "its rule is gone");
}

/// Numbers of classes are places in the file: a class before its own must not become that of a silent flow.
#[test]
fn a_silent_flow_keeps_its_class_when_classes_move() {
    let (mut engine, mut out) = (engine(TWO), Log::default());
    engine.enqueue(us(0), 14, &meta(14, 1_000), &mut out);
    engine.dequeue(us(0), &mut out);
    let name_of = |engine: &mut Engine<u64>| {
        let row = flows(engine, us(1_000_000), 9)[0];
        [row.record.class, row.record.through].map(|class| engine.config().class_names()[class.0 as usize].to_owned())
    };
    let before = name_of(&mut engine);
    let mut put = |text: &str| {
        let setup = Setup { seed: 1, secret: [1, 2], catch_up: Span::ZERO, most_queued: None, names: Names::default() };
        engine.reconfigure(&config(text), &setup, us(1_000_000), &mut out).expect("valid");
        name_of(&mut engine)
    };
    let first = TWO.replacen("[[class]]", "[[class]]\nname = \"first\"\nrate = \"1mbit\"\n[[class]]", 1);
    assert_eq!(put(&first), before);
    // Once its class is gone, it is shown in the one for what no rule matches.
    assert_eq!(put(&first.replace("calls", "others")), ["rest", "rest"]);
}

#[test]
fn a_flood_of_flows_falls_out_and_is_counted() {
    let text = format!("{TWO}\n[statistics]\nflows = 64\nidle = \"2s\"\n");
    let mut engine = engine(&text);
    let mut out = Log::default();
    let mut now = 0;
    for n in 0..5_000_u64 {
        now += 500;
        // Every tenth packet belongs to one flow, the others are a flow each.
        let port = if n.is_multiple_of(10) { 7 } else { 10_000 + n as u16 };
        engine.enqueue(us(now), n, &meta(port, 100), &mut out);
        while engine.dequeue(us(now), &mut out) {}
    }
    let rows = flows(&mut engine, us(now), 16);
    assert!(rows.len() <= 64, "{}", rows.len());
    let elephant = rows.iter().find(|row| row.record.who.source_port == Some(7)).expect("stays");
    assert!(elephant.record.arrived.packets >= 499);
    let table = engine.flows().unwrap();
    let gone = table.table().evicted.iter().sum::<u64>() + table.table().expired;
    assert_eq!(table.table().created, gone + table.len() as u64);
    assert_eq!(table.untracked(), 0);
    // A minute later nothing is known of all of them but the one that comes.
    engine.enqueue(us(now + 60_000_000), 1, &meta(7, 100), &mut out);
    for _ in 0..64 {
        engine.enqueue(us(now + 60_000_000), 1, &meta(7, 100), &mut out);
    }
    assert_eq!(engine.flows().unwrap().len(), 1);
}

#[test]
fn a_full_table_of_backlogged_flows_tracks_no_new_flow() {
    let text = format!("{TWO}\n[statistics]\nflows = 8\n");
    let mut engine = engine(&text);
    let mut out = Log::default();
    for port in 0..20 {
        engine.enqueue(us(1), 1, &meta(100 + 10 * port, 1_000), &mut out);
    }
    assert_eq!((engine.flows().unwrap().len(), engine.flows().unwrap().untracked()), (8, 12));
    engine.release_all(&mut out);
    let mut classes = Vec::new();
    engine.class_rows(us(1), 0, 9, &mut classes);
    assert_eq!(classes[1].counts.through.packets, 20);
    assert!(flows(&mut engine, us(1), 100).iter().all(|row| row.record.waits.is_empty()));
}

#[test]
fn what_is_switched_off_is_not_counted() {
    for (detail, delays) in [("off", false), ("classes", true), ("flows", true)] {
        let mut engine = engine(&format!("{TWO}\n[statistics]\ndetail = \"{detail}\"\n"));
        let mut out = Log::default();
        for n in 0..100 {
            engine.enqueue(us(1), n, &meta(7, 1_000), &mut out);
        }
        engine.release_all(&mut out);
        let mut rows = Vec::new();
        engine.class_rows(us(1), 0, 9, &mut rows);
        let counts = &rows[1].counts;
        assert_eq!(rows[1].class, ClassId(1));
        assert_eq!(counts.accounts.enqueued.bytes, Bytes::new(100_000), "the accounts are always kept");
        assert_eq!(counts.waited.is_empty(), !delays);
        assert_eq!(flows(&mut engine, us(1), 10).len(), usize::from(detail == "flows"));
        assert_eq!(engine.flows().is_some(), detail == "flows");
    }
}
