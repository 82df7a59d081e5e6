//! Hands the queued packets of an engine over to another one, in another process or after the data path was replaced.
//!
//! *Law*: none of the packets is dropped, and they leave in their turn by the rules of the new engine; within a flow they
//! leave in the order of their arrival, before all packets that arrive later (`hold_queue.rs`).
//! *Cost*: linear in the number of packets.
//! *Notes*: buckets and averages begin anew, as at every start. The new engine decides again whether to mark a packet.

use tidegate_core::classify::Fields;
use tidegate_core::{Bytes, Ecn, Instant};

use crate::engine::Engine;
use crate::packet::QueuedPacket;
use crate::recorder::Operation;
use crate::sink::Sink;

/// A packet that is queued in an engine.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct HeldPacket<H> {
    /// The data path's own name for the packet.
    pub handle: H,
    /// The fields that classify it; for a fragment those of the first one, if that has arrived.
    pub fields: Fields,
    /// Its ECN field.
    pub ecn: Ecn,
    /// Bytes on the link, as counted at arrival.
    pub size: Bytes,
    /// The number of packets on the wire that it represents.
    pub segments: u32,
    /// Whether it is an acknowledgement without data.
    pub pure_ack: bool,
    /// The time of arrival.
    pub arrived: Instant,
}

impl<H: Copy + Send + 'static> Engine<H> {
    /// Returns the packets that are queued at `now`, including fragments that wait for the first one, in the order of their
    /// arrival. The caller owns the handles from then on, and must not use the engine again.
    pub fn hand_over(&mut self, now: Instant) -> Vec<HeldPacket<H>> {
        let packets = &self.admit.packets;
        let mut held: Vec<(u64, HeldPacket<H>)> = packets
            .slots()
            .into_iter()
            .map(|slot| {
                let QueuedPacket { number, ecn, size, segments, pure_ack, arrived, .. } = packets.packet(slot);
                let (handle, fields) = (packets.handle(slot), *packets.fields(slot));
                (number, HeldPacket { handle, fields, ecn, size, segments, pure_ack, arrived })
            })
            .collect();
        self.classify.drain();
        for ((handle, number, meta), fields) in self.classify.take_released() {
            let wire = self.classify.on_wire(&meta);
            // Fragments wait for a moment only, and the time of their arrival is not kept.
            let (size, ecn, pure_ack) = (wire.size, meta.ecn, meta.pure_ack);
            held.push((number, HeldPacket { handle, fields, ecn, size, segments: 1, pure_ack, arrived: now }));
        }
        held.sort_by_key(|(number, _)| *number);
        held.into_iter().map(|(_, packet)| packet).collect()
    }

    /// Takes over the packets of another engine, the oldest first. Must precede the first arrival.
    pub fn adopt(&mut self, now: Instant, held: &[HeldPacket<H>], out: &mut impl Sink<H>) {
        if held.is_empty() {
            return;
        }
        self.record(now, Operation::Unrecorded);
        for packet in held {
            let number = self.account.arrivals;
            self.account.arrivals += 1;
            let classification = self.classify.classify(&packet.fields);
            let slots = self.account.find(classification.flow.flow);
            let record = self.account.arrived(now, &classification, &packet.fields, packet.size, slots);
            let mut queued = QueuedPacket {
                size: packet.size,
                segments: packet.segments,
                ecn: packet.ecn,
                pure_ack: packet.pure_ack,
                arrived: packet.arrived.min(now),
                record,
                flow_slot: slots.scheduler,
                ..QueuedPacket::classified(number, &classification, packet.fields.dscp)
            };
            let slot = self.admit.packets.insert(packet.handle, &mut queued, &packet.fields);
            self.admit.packets.set_held(slot, true);
        }
        self.requeue(now, &[], out);
    }
}
