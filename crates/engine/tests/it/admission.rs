//! The fields of a packet as disciplines and sinks see them, from the metadata that the data path hands in.

use tidegate_config::{Diagnostics, Source, shaper};
use tidegate_core::classify::{Fields, Fragment, Hosts};
use tidegate_core::packet::NO_SLOT;
use tidegate_core::{Bytes, DropReason, Ecn, Instant, Span};
use tidegate_engine::{Admission, Change, Disposition, Engine, Names, PacketMeta, QueuedPacket, Setup, Shape, Sink};

/// Keeps the packets that are sent.
#[derive(Default)]
struct Kept(Vec<QueuedPacket>);

impl Sink<u32> for Kept {
    fn transmit(&mut self, _: u32, _: Change) {}
    fn drop_packet(&mut self, handle: u32, reason: DropReason) {
        panic!("{handle} dropped: {reason:?}");
    }
    fn observe(&mut self, _: u32, packet: &QueuedPacket, _: &Fields, _: Disposition) {
        self.0.push(*packet);
    }
}

fn engine(rate: &str) -> Engine<u32> {
    let text = format!(
        "version = 1\n[interface]\noverhead = \"10B\"\n[statistics]\ndetail = \"flows\"\n\
         [[class]]\nname = \"all\"\nrate = \"{rate}\"\nburst = \"100kB\"\ndefault = true\n"
    );
    let source = Source::new("admission.toml", text);
    let mut diagnostics = Diagnostics::new();
    let config = shaper::load(&source, &mut diagnostics).unwrap_or_else(|| panic!("{}", diagnostics.render(&source)));
    let setup = Setup { seed: 1, secret: [1, 2], catch_up: Span::ZERO, most_queued: None, names: Names::default() };
    Engine::new(&config, &setup, Instant::ZERO).expect("valid")
}

/// A superpacket of TCP, marked ECT(0), with 2,920 bytes of payload: two segments at an MTU of 1,500.
fn superpacket() -> PacketMeta {
    let hosts = Hosts::V4 { source: [10, 0, 0, 1].into(), destination: [10, 0, 0, 2].into() };
    let fields =
        Fields { hosts, protocol: Some(6), source_port: Some(1), destination_port: Some(2), ..Fields::default() };
    PacketMeta {
        fields,
        ecn: Ecn::Ect0,
        length: 2_960,
        network_header: 20,
        headers: 40,
        shape: Shape::Super,
        ..PacketMeta::default()
    }
}

/// The bytes on the link are 2,960, another 40 of headers and twice 10 of overhead.
#[test]
fn a_packet_has_what_the_data_path_said_of_it() {
    let (mut engine, mut kept) = (engine("1gbit"), Kept::default());
    let now = Instant::ZERO + Span::from_millis(5);
    let ack = PacketMeta { length: 40, pure_ack: true, shape: Shape::Single, ecn: Ecn::NotEct, ..superpacket() };
    for (handle, meta) in [(1, superpacket()), (2, ack)] {
        assert_eq!(engine.enqueue(now, handle, &meta, &mut kept), Admission::Consumed);
    }
    while engine.dequeue(now + Span::from_millis(1), &mut kept) {}
    let seen: Vec<_> = kept.0.iter().map(|p| (p.size, p.segments, p.ecn, p.pure_ack, p.arrived)).collect();
    assert_eq!(seen, [(Bytes::new(3_020), 2, Ecn::Ect0, false, now), (Bytes::new(50), 1, Ecn::NotEct, true, now)]);
}

/// A flow is looked up in the scheduler once; later packets carry the slot that the scheduler has put it into.
#[test]
fn a_packet_carries_the_slots_of_its_flow() {
    let (mut engine, mut kept) = (engine("1gbit"), Kept::default());
    for handle in 0..2 {
        assert_eq!(engine.enqueue(Instant::ZERO, handle, &superpacket(), &mut kept), Admission::Consumed);
    }
    let flow = engine.classify(&superpacket().fields).flow.flow;
    let slot = engine.tree().shaper().and_then(|shaper| shaper.find(flow, NO_SLOT)).expect("it has a queue");
    while engine.dequeue(Instant::ZERO, &mut kept) {}
    assert_eq!(kept.0.iter().map(|packet| packet.flow_slot).collect::<Vec<_>>(), [NO_SLOT, slot]);
    assert_eq!(kept.0[0].record, kept.0[1].record);
    let record = engine.flow_row(flow).expect("it is counted").record;
    assert_eq!((record.arrived.packets, record.sent.packets), (2, 2));
}

/// A superpacket of 3,020 bytes is too long for 1 Mbit/s. A fragment of that length was made by its sender, and is queued.
#[test]
fn a_fragment_is_not_returned_for_segmentation() {
    let (mut engine, mut kept) = (engine("1mbit"), Kept::default());
    let whole = superpacket();
    assert!(matches!(engine.enqueue(Instant::ZERO, 1, &whole, &mut kept), Admission::TooLong { handle: 1, .. }));
    let fragment = Some(Fragment { id: 1, offset: 0, more: true });
    let first = PacketMeta { fields: Fields { fragment, ..whole.fields }, ..whole };
    assert_eq!(engine.enqueue(Instant::ZERO, 2, &first, &mut kept), Admission::Consumed);
    assert!(engine.dequeue(Instant::ZERO, &mut kept));
    assert_eq!(kept.0[0].number, 1);
}
