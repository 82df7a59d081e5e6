//! What an engine holds, for another one that takes its place: in another process, or after its data path was replaced.
//!
//! *Law*: the packets that were adopted leave in their turn by the rules and limits of the new engine; none is dropped,
//! and within a flow they leave in the order in which they arrived, before all that arrive later (`hold_queue.rs`).
//! *Cost*: linear in what waits.
//! *Notes*: buckets and averages begin anew, as with every start; marks that were made on what waits are made again or not.

use tidegate_core::classify::Fields;
use tidegate_core::{Bytes, Ecn, Instant};

use crate::engine::Engine;
use crate::packet::QueuedPacket;
use crate::recorder::Operation;
use crate::sink::Sink;

/// A packet that waits in an engine.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct HeldPacket<H> {
    /// The data path's name for it.
    pub handle: H,
    /// The fields that classify it: of a fragment those of its first, if that is known.
    pub fields: Fields,
    /// Its ECN field.
    pub ecn: Ecn,
    /// Bytes on the link, as it was counted when it arrived.
    pub size: Bytes,
    /// How many packets on the wire it represents.
    pub segments: u32,
    /// Whether it is an acknowledgement without data.
    pub pure_ack: bool,
    /// When it arrived.
    pub arrived: Instant,
}

impl<H: Copy + Send + 'static> Engine<H> {
    /// Returns the packets that wait at `now`, in the order in which they arrived, fragments without a first one included.
    /// The caller has their handles from then on, and does not use the engine again.
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
            // Fragments wait for a moment only; when they arrived is not kept.
            let (size, ecn, pure_ack) = (wire.size, meta.ecn, meta.pure_ack);
            held.push((number, HeldPacket { handle, fields, ecn, size, segments: 1, pure_ack, arrived: now }));
        }
        held.sort_by_key(|(number, _)| *number);
        held.into_iter().map(|(_, packet)| packet).collect()
    }

    /// Takes what another engine held, the oldest first, before anything arrives here.
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
