//! Rate advice, written into SCONE packets of passing QUIC flows.
//!
//! *Law*: a datagram without a SCONE packet leaves as it arrived. Flows keep their order.
//! *Cost*: nothing while no class advises. Otherwise five bytes of a UDP datagram are compared, and a packet into which a rate
//! is written crosses to the process twice, and is copied whole once.
//! *Notes*: the queue in which superpackets arrive whole copies headers only, and its checksums may be unfinished. What is to
//! be written to goes on to the other queue, as a superpacket does that is to be segmented; there the kernel copies all bytes
//! and has finished the checksum. A packet that is handed to a successor or a guardian while it is queued leaves without advice.

use std::collections::HashMap;

use tidegate_capture::dissect::{Dissection, protocol};
use tidegate_capture::scone::{self, Outcome, Signal};
use tidegate_engine::{PacketMeta, Shape};
use tidegate_units::Instant;

use crate::nfqueue::Packet;
use crate::shaping::command::{Handle, LiveEngine};

/// The bytes that the kernel copies of a packet in the second queue while a class advises: all of the longest that a verdict can
/// replace.
pub(super) const ALL_BYTES: u32 = 65_531;
/// The most packets that wait for their departure with another content: 1.5 MB of Ethernet.
const MOST_WRITTEN: usize = 1_024;

/// Whether a packet of the first queue is to come back from the second, with all its bytes: it has a place for advice, or one of
/// its segments may have.
pub(super) fn needs_all_bytes(
    now: Instant,
    engine: &mut LiveEngine,
    (packet, headers): (&Packet<'_>, &Dissection),
    meta: &PacketMeta,
) -> bool {
    if !engine.advises() || headers.fields.protocol != Some(protocol::UDP) || meta.fields.fragment.is_some() {
        return false;
    }
    let shows = scone::begins_in(packet.payload, headers) && engine.is_told(now, &meta.fields);
    shows || meta.shape == Shape::Super && engine.is_looked_at(now, &meta.fields)
}

/// The packet with the advice of its class, if it has a place for it, its flow is to be told now, and no network element before has
/// advised a lower rate.
pub(super) fn written(
    now: Instant,
    engine: &mut LiveEngine,
    (packet, headers): (&Packet<'_>, &Dissection),
    meta: &PacketMeta,
) -> Option<Box<[u8]>> {
    let is_whole = packet.payload.len() == packet.length as usize && !packet.checksum_pending && !packet.gso;
    if !engine.advises() || !is_whole || !scone::begins_in(packet.payload, headers) {
        return None;
    }
    scone::find(packet.payload)?;
    let (class, rate) = engine.tell(now, &meta.fields)?;
    let mut bytes = Box::from(packet.payload);
    match scone::lower(&mut bytes, Signal::at_most(rate)) {
        Outcome::Lowered(_) => {
            engine.count_advised(class);
            Some(bytes)
        }
        Outcome::Kept(_) | Outcome::NoScone => None,
    }
}

/// Packets that leave with another content, until their verdict.
#[derive(Debug, Default)]
pub(in crate::shaping) struct Written(HashMap<(u16, u32), Box<[u8]>>);

impl Written {
    /// Keeps the content of a packet; a packet beyond [`MOST_WRITTEN`] leaves as it arrived.
    pub(super) fn keep(&mut self, handle: &Handle, bytes: Box<[u8]>) {
        if self.0.len() < MOST_WRITTEN {
            self.0.insert((handle.queue, handle.id), bytes);
        }
    }
    /// Takes the content of a packet that leaves or is dropped.
    #[inline]
    pub(in crate::shaping) fn take(&mut self, handle: &Handle) -> Option<Box<[u8]>> {
        if self.0.is_empty() { None } else { self.0.remove(&(handle.queue, handle.id)) }
    }
}
