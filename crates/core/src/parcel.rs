//! [`Parcels`]: any packet through a discipline that was built for one type of packet.
//!
//! Disciplines are generic over the packet, and who builds trees knows its type. Who adds a discipline from outside
//! does not know it, and cannot hand over a generic function at run time: its discipline is built for [`Parcel`], which
//! tells everything a discipline may ask, and the packet itself waits beside it.
//!
//! *Law*: what a discipline does to a parcel (code point, mark, colour, class it leaves by) is done to its packet when
//! that leaves or is dropped; nothing else changes. The laws hold for `Parcels` exactly when they hold inside.
//! *Cost*: O(1) a packet beside the discipline's own, some 100 bytes moved; no allocation after warm-up.
//! *Notes*: a `Parcel` cannot be made or copied outside, so that no discipline can let one packet out twice.

use alloc::boxed::Box;
use alloc::vec::Vec;

use crate::packet::{ClassId, Colour, Dscp, Ecn, FlowKey, Packet};
use crate::packet_fields;
use crate::qdisc::{Backlog, Deadline, DropReason, Event, Outlet, Qdisc};
use tidegate_units::{Bytes, Instant};

/// What a discipline may know of a packet that waits elsewhere, and change in it. See the [module](self).
#[derive(Debug)]
pub struct Parcel {
    slot: u32,
    size: Bytes,
    flow: FlowKey,
    class: ClassId,
    left_by: Option<ClassId>,
    profile: u32,
    dscp: Dscp,
    ecn: Ecn,
    marked: bool,
    colour: Colour,
    segments: u32,
    pure_ack: bool,
    remaining: Option<Bytes>,
}

impl Packet for Parcel {
    packet_fields!(size, flow, class, profile, dscp, ecn, colour, segments, pure_ack, remaining);

    fn leaves_by(&mut self, class: ClassId) {
        self.left_by = Some(class);
    }
    fn mark_ce(&mut self) -> bool {
        let could = self.ecn.mark();
        self.marked |= could;
        could
    }
}

/// A discipline of [`Parcel`]s as one of `P`. See the [module](self).
pub struct Parcels<P> {
    inner: Box<dyn Qdisc<Parcel>>,
    kept: Kept<P>,
}

/// The packets that wait, by slot.
struct Kept<P> {
    slots: Vec<Option<P>>,
    free: Vec<u32>,
}

impl<P: Packet> Kept<P> {
    fn keep(&mut self, packet: P) -> Parcel {
        let mut parcel = Parcel {
            slot: 0,
            size: packet.size(),
            flow: packet.flow(),
            class: packet.class(),
            left_by: None,
            profile: packet.profile(),
            dscp: packet.dscp(),
            ecn: packet.ecn(),
            marked: false,
            colour: packet.colour(),
            segments: packet.segments(),
            pure_ack: packet.is_pure_ack(),
            remaining: packet.remaining(),
        };
        match self.free.pop() {
            Some(slot) => {
                parcel.slot = slot;
                self.slots[slot as usize] = Some(packet);
            }
            None => {
                parcel.slot = u32::try_from(self.slots.len()).expect("fewer than 2^32 packets wait in one discipline");
                self.slots.push(Some(packet));
            }
        }
        parcel
    }

    /// The packet of `parcel`, changed as the parcel was.
    fn give(&mut self, parcel: Parcel) -> P {
        // A parcel is made by `keep` alone and is neither copied nor kept after this, so its slot is full; a parcel of
        // another discipline, which only a discipline that swaps boxes could bring, is the one way to break it.
        let mut packet = self.slots[parcel.slot as usize].take().expect("a parcel belongs to a packet");
        self.free.push(parcel.slot);
        if packet.dscp() != parcel.dscp {
            packet.set_dscp(parcel.dscp);
        }
        if parcel.marked {
            packet.mark_ce();
        }
        if packet.colour() != parcel.colour {
            packet.set_colour(parcel.colour);
        }
        if let Some(class) = parcel.left_by {
            packet.leaves_by(class);
        }
        packet
    }
}

impl<P: Packet> Parcels<P> {
    /// `inner`, which is empty, as a discipline of any packet.
    pub fn new(inner: Box<dyn Qdisc<Parcel>>) -> Self {
        Self { inner, kept: Kept { slots: Vec::new(), free: Vec::new() } }
    }
}

/// Gives the packet back for each parcel that is dropped.
struct Unpack<'a, P> {
    kept: &'a mut Kept<P>,
    out: &'a mut dyn Outlet<P>,
}

impl<P: Packet> Outlet<Parcel> for Unpack<'_, P> {
    fn dropped(&mut self, parcel: Parcel, reason: DropReason) {
        let packet = self.kept.give(parcel);
        self.out.dropped(packet, reason);
    }
    fn event(&mut self, event: Event) {
        self.out.event(event);
    }
}

impl<P: Packet> Qdisc<P> for Parcels<P> {
    fn enqueue(&mut self, now: Instant, packet: P, out: &mut dyn Outlet<P>) {
        let parcel = self.kept.keep(packet);
        self.inner.enqueue(now, parcel, &mut Unpack { kept: &mut self.kept, out });
    }
    fn dequeue(&mut self, now: Instant, out: &mut dyn Outlet<P>) -> Option<P> {
        let parcel = self.inner.dequeue(now, &mut Unpack { kept: &mut self.kept, out })?;
        Some(self.kept.give(parcel))
    }
    fn deadline(&self, now: Instant) -> Deadline {
        self.inner.deadline(now)
    }
    fn backlog(&self) -> Backlog {
        self.inner.backlog()
    }
}
