//! [`Admit`] enters a packet into the packet table, and decides whether it is queued in the tree now.
//!
//! *Law*: no packet of a held flow reaches the tree before the packets of that flow that arrived earlier ([`HoldQueue`]).
//! *Cost*: one entry of the packet table for each packet, and nothing else while no flow is held.

use tidegate_core::classify::Fields;
use tidegate_core::{DropReason, Instant, Qdisc};

use crate::engine::Engine;
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

/// The decision about an arrival.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Decision {
    /// The packet is to be queued in the tree.
    Queue,
    /// The packet waits in the hold queue.
    Held,
    /// The hold queue is full: the packet is to be dropped.
    Refused(DropReason),
}

impl<H: Copy + Send + 'static> Admit<H> {
    pub(crate) fn new() -> Self {
        Self { packets: PacketTable::new(), hold: HoldQueue::default(), registry: FlowRegistry::default() }
    }

    /// Enters `packet` with the data path's handle and the fields that classified it, and sets its slot.
    #[inline]
    pub(crate) fn enter(&mut self, now: Instant, handle: H, packet: &mut QueuedPacket, fields: &Fields) -> Decision {
        let slot = self.packets.insert(handle, packet, fields);
        match self.hold.arrive(now, packet.flow.flow, packet.class, slot) {
            Ok(false) => Decision::Queue,
            Ok(true) => {
                self.packets.set_held(slot, true);
                Decision::Held
            }
            Err(reason) => Decision::Refused(reason),
        }
    }

    /// Takes a held packet out of the hold queue.
    pub(crate) fn unhold(&mut self, slot: u32) -> QueuedPacket {
        self.packets.set_held(slot, false);
        self.packets.packet(slot)
    }
    /// Takes out the packet of `flow` that the tree has just refused, if the tree is empty and the packet has waited long
    /// enough to bypass it.
    pub(crate) fn pass_by(&mut self, now: Instant, flow: u64, tree: &Tree) -> Option<QueuedPacket> {
        if !tree.backlog().is_empty() || !self.hold.is_overdue(now) {
            return None;
        }
        self.hold.pass_by(flow).map(|slot| self.packets.packet(slot))
    }

    /// Whether the hold queue takes back `packet`, which the tree drops.
    #[inline]
    pub(crate) fn takes_back(&mut self, now: Instant, packet: &QueuedPacket) -> bool {
        // The key of the flow by the present rules is in the packet table.
        let back = !self.hold.is_empty()
            && self.hold.dropped(now, self.packets.packet(packet.slot).flow.flow, packet.class, packet.slot);
        if back {
            self.packets.set_held(packet.slot, true);
        }
        back
    }
}

impl<H: Copy + Send + 'static> Engine<H> {
    /// Whether a packet that arrives finds [`Setup::most_queued`](crate::Setup::most_queued) packets, and its class has its part
    /// of them by rate. In the shaper a flow without a queue and one with a granted minimum may always queue a packet.
    #[inline]
    pub(crate) fn is_crowded(&self, packet: &QueuedPacket) -> bool {
        self.setup.most_queued.is_some_and(|most| self.admit.packets.len() > most as usize && self.crowds(packet, most))
    }

    #[inline(never)]
    fn crowds(&self, packet: &QueuedPacket, most: u32) -> bool {
        let rates = self.tree.class_rate(packet.class).zip(self.config.limit());
        let part = match rates.map(|(own, all)| (u128::from(own.as_bps()), u128::from(all.as_bps()))) {
            Some((own, all)) => (u128::from(most) * own / all.max(1)) as u64,
            None => u64::from(most) / self.account.classes.names().len().max(1) as u64,
        };
        match self.tree.shaper() {
            Some(shaper) => shaper.is_crowded(packet.class, shaper.find(packet.flow.flow, packet.flow_slot), part),
            None => self.account.classes.all()[self.account.classes.index(packet.class)].backlog.packets >= part,
        }
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
    fn a_packet_of_a_flow_that_is_not_held_is_queued_at_once() {
        let mut admit: Admit<u32> = Admit::new();
        let mut first = packet(1);
        assert_eq!(admit.enter(Instant::ZERO, 7, &mut first, &Fields::default()), Decision::Queue);
        assert_eq!((admit.packets.len(), admit.packets.remove(first.slot)), (1, 7));
    }

    /// Flow 1 moves to another class and has one packet queued in the old one. Its arrivals are held until that has left.
    #[test]
    fn a_held_flow_keeps_its_order() {
        let mut admit: Admit<u32> = Admit::new();
        let mut inside = packet(1);
        admit.enter(Instant::ZERO, 1, &mut inside, &Fields::default());
        admit.hold.hold_flow(1, Inside::Before(1), VecDeque::new());
        let [mut second, mut third, mut other] = [packet(1), packet(1), packet(2)];
        assert_eq!(admit.enter(Instant::ZERO, 2, &mut second, &Fields::default()), Decision::Held);
        assert_eq!(admit.enter(Instant::ZERO, 3, &mut third, &Fields::default()), Decision::Held);
        assert_eq!(admit.enter(Instant::ZERO, 4, &mut other, &Fields::default()), Decision::Queue);
        assert_eq!(admit.hold.next_ready(), None);
        admit.hold.departed(1, inside.slot);
        assert_eq!(admit.hold.next_ready(), Some(1));
        assert_eq!(admit.hold.step(1), Step::Open([second.slot, third.slot].into()));
    }
}
