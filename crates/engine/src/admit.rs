//! The third stage: enters a packet into the packet table, and decides whether the scheduler may have it now.
//!
//! *Law*: of a flow that is held no packet reaches the scheduler before those that arrived earlier ([`HoldQueue`]). A flow
//! under a promise has its terms in the scheduler before its first packet.
//! *Cost*: one entry of the packet table for a packet. Without held flows and without promises nothing else.

use tidegate_core::classify::Fields;
use tidegate_core::{DropReason, Instant, Qdisc};

use crate::hold_queue::HoldQueue;
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
    Queue,
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
            Ok(false) => Entry::Queue,
            Ok(true) => {
                self.packets.set_held(slot, true);
                Entry::Held
            }
            Err(reason) => Entry::Refused(reason),
        }
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
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::VecDeque;
    use tidegate_core::{Bytes, ClassId, FlowKey};

    use crate::hold_queue::{Inside, Step};

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
        assert_eq!(admit.enter(Instant::ZERO, 7, &mut first, &Fields::default()), Entry::Queue);
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
        assert_eq!(admit.enter(Instant::ZERO, 4, &mut other, &Fields::default()), Entry::Queue);
        assert_eq!(admit.hold.next_ready(), None);
        admit.hold.left(1, inside.slot);
        assert_eq!(admit.hold.next_ready(), Some(1));
        assert_eq!(admit.hold.step(1), Step::Open([second.slot, third.slot].into()));
    }
}
