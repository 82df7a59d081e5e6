//! The third stage: enters a packet into the packet table, and decides whether the scheduler may have it now.
//!
//! *Law*: of a flow that is held no packet reaches the scheduler before those that arrived earlier ([`HoldQueue`]). A flow
//! under a promise has its terms in the scheduler before its first packet.
//! *Cost*: one entry of the packet table for a packet. Without held flows and without promises nothing else.

use tidegate_core::classify::Fields;
use tidegate_core::{DropReason, Event, Instant, Qdisc};

use crate::hold_queue::{HoldQueue, Step};
use crate::notification::Notification;
use crate::packet::QueuedPacket;
use crate::packet_table::PacketTable;
use crate::registry::FlowRegistry;
use crate::tree::Tree;

/// See the [module](self).
pub(crate) struct Admit<H> {
    pub(crate) packets: PacketTable<H>,
    pub(crate) hold: HoldQueue,
    pub(crate) registry: FlowRegistry,
}

/// The result of entering a packet.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Entry {
    /// The scheduler takes it now.
    Schedule,
    /// It is in the hold queue.
    Held,
    /// The hold queue is full.
    Refused(DropReason),
}

impl<H: Copy + Send + 'static> Admit<H> {
    pub(crate) fn new() -> Self {
        Self { packets: PacketTable::new(), hold: HoldQueue::new(), registry: FlowRegistry::default() }
    }

    /// Enters `packet`, which is assigned its slot, with the data path's handle and the fields that classified it.
    #[inline]
    pub(crate) fn enter(&mut self, now: Instant, handle: H, packet: &mut QueuedPacket, fields: &Fields) -> Entry {
        let slot = self.packets.insert(handle, packet, fields);
        match self.hold.arrive(now, packet.flow.flow, packet.class, slot) {
            Ok(false) => Entry::Schedule,
            Ok(true) => {
                self.packets.set_held(slot, true);
                Entry::Held
            }
            Err(reason) => Entry::Refused(reason),
        }
    }

    /// Prepares the scheduler for a packet that it is about to take: a new flow under a promise gets its terms. Returns
    /// whether there are events to report.
    #[inline]
    pub(crate) fn prepare(&mut self, now: Instant, packet: &mut QueuedPacket, tree: &mut Tree) -> bool {
        self.registry.prepare(now, packet, self.packets.fields(packet.slot), tree)
    }

    /// The next packet of a held flow that the scheduler may have, or all that are left of one.
    pub(crate) fn next_step(&mut self) -> Option<(u64, Step)> {
        let flow = self.hold.next_ready()?;
        Some((flow, self.hold.step(flow)))
    }
    /// Takes a held packet out of the hold queue.
    pub(crate) fn unhold(&mut self, slot: u32) -> QueuedPacket {
        self.packets.set_held(slot, false);
        self.packets.packet(slot)
    }
    /// The scheduler, which is empty, has just refused the packet of `flow` at the head: returns it if it has waited
    /// long enough to pass by the scheduler.
    pub(crate) fn pass_by(&mut self, now: Instant, flow: u64, tree: &Tree) -> Option<QueuedPacket> {
        if !tree.backlog().is_empty() || !self.hold.is_overdue(now) {
            return None;
        }
        self.hold.pass_by(flow).map(|slot| self.packets.packet(slot))
    }

    /// The packet that had `slot` has left the scheduler, while flows are held.
    pub(crate) fn left(&mut self, slot: u32) {
        self.hold.left(self.packets.packet(slot).flow.flow, slot);
    }

    /// The scheduler drops `packet`; returns whether the hold queue takes it back instead.
    #[inline]
    pub(crate) fn takes_back(&mut self, now: Instant, packet: &QueuedPacket) -> bool {
        // The packet table has the flow by the present rules.
        let back = !self.hold.is_empty()
            && self.hold.dropped(now, self.packets.packet(packet.slot).flow.flow, packet.class, packet.slot);
        if back {
            self.packets.set_held(packet.slot, true);
        }
        back
    }

    /// An event of the scheduler, during the enqueueing of the packet in `slot` if there is one: keeps the registry of
    /// flows, and reports it.
    pub(crate) fn event(
        &mut self,
        now: Instant,
        event: Event,
        slot: Option<u32>,
        report: &mut dyn FnMut(&Notification<'_>),
    ) {
        let fields = slot.map(|slot| self.packets.fields(slot));
        self.registry.event(now, event, fields, report);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::VecDeque;
    use tidegate_core::{Bytes, ClassId, FlowKey};

    use crate::hold_queue::Inside;

    fn packet(flow: u64) -> QueuedPacket {
        QueuedPacket {
            size: Bytes::new(100),
            flow: FlowKey::numbered(flow),
            class: ClassId(0),
            ..QueuedPacket::example()
        }
    }

    #[test]
    fn a_packet_of_a_flow_that_is_not_held_is_scheduled_at_once() {
        let mut admit: Admit<u32> = Admit::new();
        let mut first = packet(1);
        assert_eq!(admit.enter(Instant::ZERO, 7, &mut first, &Fields::default()), Entry::Schedule);
        assert_eq!((admit.packets.len(), admit.packets.remove(first.slot)), (1, 7));
    }

    /// Flow 1 has one packet left in a class that it leaves; what arrives is held until that has left.
    #[test]
    fn a_held_flow_keeps_its_order() {
        let mut admit: Admit<u32> = Admit::new();
        let mut inside = packet(1);
        admit.enter(Instant::ZERO, 1, &mut inside, &Fields::default());
        admit.hold.hold_flow(1, Inside::Before(1), VecDeque::new());
        let [mut second, mut third, mut other] = [packet(1), packet(1), packet(2)];
        assert_eq!(admit.enter(Instant::ZERO, 2, &mut second, &Fields::default()), Entry::Held);
        assert_eq!(admit.enter(Instant::ZERO, 3, &mut third, &Fields::default()), Entry::Held);
        assert_eq!(admit.enter(Instant::ZERO, 4, &mut other, &Fields::default()), Entry::Schedule);
        assert_eq!(admit.next_step(), None);
        admit.hold.left(1, inside.slot);
        assert_eq!(admit.next_step(), Some((1, Step::Open([second.slot, third.slot].into()))));
    }
}
