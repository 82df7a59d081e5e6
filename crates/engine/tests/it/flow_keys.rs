//! A flow is within one class, also when other rules send its packets elsewhere.

use tidegate_config::{Diagnostics, Source, shaper};
use tidegate_core::classify::{Fields, Hosts};
use tidegate_core::{Dscp, Instant, Span};
use tidegate_engine::{Change, Engine, Names, PacketMeta, Setup, Sink};

fn config(text: &str) -> shaper::Config {
    let source = Source::new("keys.toml", text);
    let mut diagnostics = Diagnostics::new();
    shaper::load(&source, &mut diagnostics).unwrap_or_else(|| panic!("{}", diagnostics.render(&source)))
}

fn file(classes: &[&str], rule: &str) -> String {
    let class = |name: &&str| {
        let default = if *name == "rest" { "default = true\n" } else { "" };
        format!("[[class]]\nname = \"{name}\"\nrate = \"1mbit\"\nborrow = false\n{default}")
    };
    let classes: String = classes.iter().map(class).collect();
    format!("version = 1\n[shaper]\nflow-by = \"source\"\n{classes}{rule}")
}

fn setup() -> Setup {
    Setup { seed: 1, secret: [1, 2], catch_up: Span::ZERO, most_queued: None, names: Names::default() }
}

fn meta(dscp: Dscp) -> PacketMeta {
    let hosts = Hosts::V4 { source: [10, 0, 0, 1].into(), destination: [10, 0, 0, 2].into() };
    let fields = Fields { hosts, dscp, protocol: Some(17), ..Fields::default() };
    PacketMeta { fields, length: 1_000, network_header: 20, headers: 28, ..PacketMeta::default() }
}

#[derive(Default)]
struct Sent(Vec<u32>);

impl Sink<u32> for Sent {
    fn transmit(&mut self, handle: u32, _: Change) {
        self.0.push(handle);
    }
    fn drop_packet(&mut self, handle: u32, _: tidegate_core::DropReason) {
        panic!("packet {handle} was dropped");
    }
}

const CALLS: &str = "[[rule]]\nclass = \"calls\"\ndscp = \"ef\"\n";

#[test]
fn a_host_has_a_flow_in_each_class() {
    let engine: Engine<u32> =
        Engine::new(&config(&file(&["calls", "rest"], CALLS)), &setup(), Instant::ZERO).expect("valid");
    let [call, rest] = [Dscp::EF, Dscp::BEST_EFFORT].map(|dscp| engine.classify(&meta(dscp).fields));
    assert_ne!(call.class, rest.class);
    assert_ne!(call.flow.flow, rest.flow.flow);
    assert_eq!((call.flow.source, call.flow.destination), (rest.flow.source, rest.flow.destination));
    // The key goes by the name of the class, which may get another number.
    let more = config(&file(&["first", "calls", "rest"], CALLS));
    let engine: Engine<u32> = Engine::new(&more, &setup(), Instant::ZERO).expect("valid");
    assert_eq!(engine.classify(&meta(Dscp::EF).fields).flow, call.flow);
}

/// The upload waits in its class for seconds; a call of the same host passes.
#[test]
fn an_upload_does_not_delay_a_call_of_its_host() {
    let mut engine: Engine<u32> =
        Engine::new(&config(&file(&["calls", "rest"], CALLS)), &setup(), Instant::ZERO).expect("valid");
    let mut sent = Sent::default();
    for upload in 0..20 {
        engine.enqueue(Instant::ZERO, upload, &meta(Dscp::BEST_EFFORT), &mut sent);
    }
    engine.enqueue(Instant::ZERO, 100, &meta(Dscp::EF), &mut sent);
    while engine.dequeue(Instant::ZERO, &mut sent) {}
    assert!(sent.0.contains(&100), "{:?}", sent.0);
}

/// Rules change while packets wait, so that the flow has another key: what arrives leaves after what waits.
#[test]
fn order_is_kept_when_rules_send_a_flow_to_another_class() {
    for other in [file(&["calls", "rest"], ""), file(&["rest", "calls"], "")] {
        let mut engine: Engine<u32> =
            Engine::new(&config(&file(&["calls", "rest"], CALLS)), &setup(), Instant::ZERO).expect("valid");
        let mut sent = Sent::default();
        for n in 0..20 {
            engine.enqueue(Instant::ZERO, n, &meta(Dscp::EF), &mut sent);
        }
        engine.reconfigure(&config(&other), &setup(), Instant::ZERO, &mut sent).expect("a change");
        for n in 20..40 {
            engine.enqueue(Instant::ZERO, n, &meta(Dscp::EF), &mut sent);
        }
        let mut now = Instant::ZERO;
        while let Some(at) = engine.deadline(now).instant(now) {
            now = at;
            engine.dequeue(now, &mut sent);
        }
        assert_eq!(sent.0, (0..40).collect::<Vec<_>>());
    }
}

/// The image has, of each rule and of packets without one, class, profile and what the key contains of the class.
#[test]
fn an_image_has_the_classes_of_the_engine() {
    let config = config(&file(&["calls", "rest"], CALLS));
    let image = tidegate_engine::rules::image(&config, &setup(), &[], |class| class.0).expect("valid");
    let engine: Engine<u32> = Engine::new(&config, &setup(), Instant::ZERO).expect("valid");
    let [rest, call] = [Dscp::BEST_EFFORT, Dscp::EF].map(|dscp| engine.classify(&meta(dscp).fields));
    let at = image[4] as usize;
    assert_eq!([image[at], image[at + 2]], [u64::from(rest.class.0), 1 << 32 | u64::from(call.class.0)]);
    // One host: the keys differ by their classes alone.
    assert_eq!(rest.flow.flow ^ image[at + 1], call.flow.flow ^ image[at + 3]);
}
