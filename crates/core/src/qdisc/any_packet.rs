//! [`AnyQdisc`]: passes packets of any type through a discipline that was compiled for [`AnyPacket`].
//!
//! Disciplines are generic over the packet type, which is known where trees are built. A discipline of another crate is
//! registered at run time and cannot be a generic function. It is compiled for [`AnyPacket`], which has every property
//! of a packet that a discipline may read; the packet itself is stored beside it.
//!
//! *Law*: what a discipline changes in an `AnyPacket` (code point, mark, colour, class of departure) is changed in its
//! packet when that leaves or is dropped; nothing else changes. The laws hold for `AnyQdisc` exactly when they hold for
//! the inner discipline.
//! *Cost*: O(1) per packet in addition to the discipline's own; about 100 bytes are moved; no allocation after warm-up.
//! *Notes*: other crates can neither construct nor copy an `AnyPacket`, so no discipline can release a packet twice.

use alloc::boxed::Box;

use crate::dualpi2::Coupled;
use crate::packet::{ClassId, Colour, Dscp, Ecn, FlowKey, Packet};
use crate::packet_fields;
use crate::probability::Probability;
use crate::qdisc::{Backlog, Deadline, DropReason, Event, Outlet, Qdisc, Queued};
use crate::queues::NIL;
use crate::slab::{Slab, reusable};
use tidegate_units::{Bytes, Instant};

/// The properties of a packet that a discipline may read and change. See the [module](self).
#[derive(Debug)]
pub struct AnyPacket {
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

impl Packet for AnyPacket {
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

/// Adapts a discipline of [`AnyPacket`] to packets of type `P`. See the [module](self).
pub struct AnyQdisc<P> {
    inner: Box<dyn Qdisc<AnyPacket>>,
    packets: Slots<P>,
}

/// The queued packets.
struct Slots<P>(Slab<u32, Held<P>>);

struct Held<P> {
    packet: Option<P>,
    next_free: u32,
}

reusable!(Held<P>, next_free: u32);

impl<P: Packet> Slots<P> {
    fn insert(&mut self, packet: P) -> AnyPacket {
        let mut erased = AnyPacket {
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
        erased.slot = self.0.insert(Held { packet: Some(packet), next_free: NIL });
        erased
    }

    /// Removes and returns the packet of `erased`, with the changes made to `erased`.
    fn remove(&mut self, erased: AnyPacket) -> P {
        // Only `insert` makes an `AnyPacket`, it is not `Clone`, and this consumes it: the slot is occupied. Only a
        // discipline that swaps two inner disciplines could pass one that belongs to another `AnyQdisc`.
        let packet = self.0.take(erased.slot, |held| held.packet.take()).flatten();
        let mut packet = packet.expect("the slot of an `AnyPacket` is occupied");
        if packet.dscp() != erased.dscp {
            packet.set_dscp(erased.dscp);
        }
        if erased.marked {
            packet.mark_ce();
        }
        if packet.colour() != erased.colour {
            packet.set_colour(erased.colour);
        }
        if let Some(class) = erased.left_by {
            packet.leaves_by(class);
        }
        packet
    }
}

impl<P: Packet> AnyQdisc<P> {
    /// Wraps `inner`, which must be empty.
    pub fn new(inner: Box<dyn Qdisc<AnyPacket>>) -> Self {
        Self { inner, packets: Slots(Slab::default()) }
    }
}

/// Replaces each dropped `AnyPacket` by its packet.
struct UnwrappingOutlet<'a, P> {
    packets: &'a mut Slots<P>,
    out: &'a mut dyn Outlet<P>,
}

impl<P: Packet> Outlet<AnyPacket> for UnwrappingOutlet<'_, P> {
    fn dropped(&mut self, erased: AnyPacket, reason: DropReason) {
        let packet = self.packets.remove(erased);
        self.out.dropped(packet, reason);
    }
    fn event(&mut self, event: Event) {
        self.out.event(event);
    }
}

impl<P: Packet> Qdisc<P> for AnyQdisc<P> {
    fn enqueue(&mut self, now: Instant, packet: P, out: &mut dyn Outlet<P>) -> Queued {
        let erased = self.packets.insert(packet);
        self.inner.enqueue(now, erased, &mut UnwrappingOutlet { packets: &mut self.packets, out })
    }
    fn dequeue(&mut self, now: Instant, out: &mut dyn Outlet<P>) -> Option<P> {
        let erased = self.inner.dequeue(now, &mut UnwrappingOutlet { packets: &mut self.packets, out })?;
        Some(self.packets.remove(erased))
    }
    fn deadline(&self, now: Instant) -> Deadline {
        self.inner.deadline(now)
    }
    fn backlog(&self) -> Backlog {
        self.inner.backlog()
    }
    fn probability(&self) -> Option<Probability> {
        self.inner.probability()
    }
    fn coupled(&self, class: ClassId, now: Instant) -> Option<Coupled> {
        self.inner.coupled(class, now)
    }
}
