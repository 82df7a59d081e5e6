//! The conditions of a rule, explained for a packet.

use tidegate_config::edit::matching;
use tidegate_core::classify::{Fields, Hosts, IcmpType, Signal, Traits, Version};
use tidegate_engine::Names;
use tidegate_replay::explain::conditions;

/// Each condition as its key, what the packet has, and whether it holds.
fn explained(keys: &[(&str, &str)], fields: &Fields) -> Vec<(&'static str, String, bool)> {
    let keys: Vec<(String, String)> = keys.iter().map(|(key, value)| ((*key).into(), (*value).into())).collect();
    let explained = conditions(&matching(&keys).unwrap(), fields, &Names::default());
    explained.into_iter().map(|condition| (condition.key, condition.has, condition.holds)).collect()
}

fn packet() -> Fields {
    Fields {
        hosts: Hosts::V4 { source: [192, 168, 1, 5].into(), destination: [198, 51, 100, 7].into() },
        protocol: Some(6),
        source_port: Some(443),
        destination_port: Some(50_112),
        traits: Traits { length: 52, signal: Signal::Tcp { flags: 0x12, pure_ack: false } },
        ..Fields::default()
    }
}

#[test]
fn a_rule_for_both_ways_is_explained_as_it_matches() {
    let asked = [("destination", "192.168.1.5"), ("destination-port", "443"), ("both-ways", "true")];
    let text = str::to_owned;
    assert_eq!(
        explained(&asked, &packet()),
        [
            ("destination", text("192.168.1.5"), true),
            ("destination-port", text("443"), true),
            ("both-ways", text("source and destination exchanged"), true),
        ]
    );
    let as_written = explained(&asked, &packet().exchanged());
    assert_eq!(as_written.last(), Some(&("both-ways", text("as written"), true)));
    let other = explained(&[("source", "10.0.0.1"), ("both-ways", "true")], &packet());
    assert_eq!(other, [("source", text("192.168.1.5"), false), ("both-ways", text("neither way"), false)]);
    let either = explained(&[("host", "198.51.100.0/24"), ("port", "443"), ("port", "53")], &packet());
    assert_eq!(either, [("host", text("192.168.1.5 and 198.51.100.7"), true), ("port", text("443 and 50112"), true)]);
    assert!(!explained(&[("port", "444")], &packet())[0].2);
}

#[test]
fn conditions_about_single_packets_are_explained() {
    let text = str::to_owned;
    let asked = [("length", "0-200"), ("tcp-flags", "syn !ack"), ("pure-ack", "true"), ("icmp-type", "echo-request")];
    assert_eq!(
        explained(&asked, &packet()),
        [
            ("length", text("52"), true),
            ("tcp-flags", text("syn ack"), false),
            ("pure-ack", text("false"), false),
            ("icmp-type", text("unknown"), false),
        ]
    );
    let signal = Signal::Icmp(IcmpType { version: Version::V6, number: 128 });
    let echo = Fields { traits: Traits { length: 0, signal }, ..packet() };
    assert_eq!(
        explained(&asked, &echo),
        [
            ("length", text("unknown"), false),
            ("tcp-flags", text("unknown"), false),
            ("pure-ack", text("unknown"), false),
            ("icmp-type", text("echo-request"), true),
        ]
    );
}
