//! The bound on what all classes together hold, where a departure costs more the more packets wait.

use tidegate_config::{Diagnostics, Source, shaper};
use tidegate_core::classify::{Fields, Hosts};
use tidegate_core::{DropReason, Instant, Span};
use tidegate_engine::{Admission, Change, Engine, Names, PacketMeta, Setup, Sink};

/// Counts drops.
#[derive(Default)]
struct Dropped(Vec<DropReason>);

impl Sink<u32> for Dropped {
    fn transmit(&mut self, _: u32, _: Change) {}
    fn drop_packet(&mut self, _: u32, reason: DropReason) {
        self.0.push(reason);
    }
}

/// Two classes that have 10 and 90 % of the rate, and room for some thousand packets each.
fn engine(most_queued: Option<u32>) -> Engine<u32> {
    let text = "version = 1\n\
        [[class]]\nname = \"slow\"\nrate = \"10mbit\"\nlimit = \"4MB\"\nflow-limit = \"4MB\"\n\
        [[class]]\nname = \"fast\"\nrate = \"90mbit\"\nlimit = \"4MB\"\nflow-limit = \"4MB\"\ndefault = true\n\
        [[rule]]\nclass = \"slow\"\nport = 9\nminimum = \"1mbit\"\n\
        [[rule]]\nclass = \"slow\"\ndestination-port = [1, 2]\n";
    let mut diagnostics = Diagnostics::new();
    let source = Source::new("crowded.toml", text);
    let config = shaper::load(&source, &mut diagnostics).unwrap_or_else(|| panic!("{}", diagnostics.render(&source)));
    let setup = Setup { seed: 1, secret: [1, 2], catch_up: Span::ZERO, most_queued, names: Names::default() };
    Engine::new(&config, &setup, Instant::ZERO).expect("valid")
}

/// Offers `packets` of 1,000 bytes to a port; returns how many were dropped because of a full class.
fn offer(engine: &mut Engine<u32>, port: u16, packets: usize) -> usize {
    let hosts = Hosts::V4 { source: [10, 0, 0, 1].into(), destination: [10, 0, 0, 2].into() };
    let (protocol, source_port, destination_port) = (Some(17), Some(1_000), Some(port));
    let fields = Fields { hosts, protocol, source_port, destination_port, ..Fields::default() };
    let meta = PacketMeta { fields, length: 1_000, network_header: 20, headers: 28, ..PacketMeta::default() };
    let mut dropped = Dropped::default();
    for _ in 0..packets {
        assert_eq!(engine.enqueue(Instant::ZERO, 0, &meta, &mut dropped), Admission::Consumed);
    }
    assert!(dropped.0.iter().all(|reason| *reason == DropReason::ClassLimit), "{:?}", dropped.0);
    dropped.0.len()
}

/// The part of the slow class is 10 of 100 packets in all, that of the fast one 90.
#[test]
fn a_crowd_in_a_slow_class_costs_the_others_nothing() {
    let mut engine = engine(Some(100));
    // One class alone may fill the bound.
    assert_eq!(offer(&mut engine, 1, 1_000), 900);
    // The other class has its part all the same, and a flow without a queue gets one.
    assert_eq!(offer(&mut engine, 80, 90), 0);
    assert_eq!(offer(&mut engine, 2, 1), 0);
    // With two flows in the slow class, five packets of its ten are the second one's.
    assert_eq!(offer(&mut engine, 2, 5), 1);
    assert_eq!(offer(&mut engine, 80, 1), 1);
    // A granted minimum does not depend on the others.
    assert_eq!(offer(&mut engine, 9, 100), 0);
}

#[test]
fn without_the_bound_a_class_fills_its_buffer() {
    assert_eq!(offer(&mut engine(None), 1, 1_000), 0);
}
