//! The fourth stage: the tree of disciplines, and its outlet.
//!
//! *Law*: a packet that the tree drops is counted, recorded and returned to the data path exactly once, unless the hold
//! queue takes it back.
//! *Cost*: that of the disciplines. The end-system shaper finds the flow of a packet by the slot that the packet carries.

use tidegate_core::{ClassId, DropReason, Event, Instant, Outlet, Rate, Span};

use crate::account::Account;
use crate::admit::Admit;
use crate::flows::FlowSlots;
use crate::packet::QueuedPacket;
use crate::recorder::Recorder;
use crate::sink::{Disposition, Sink};
use crate::tree::Tree;
use crate::wire::OnWire;

/// A superpacket that would occupy the rate of its flow for longer than this is segmented first.
pub const LONGEST_WHOLE: Span = Span::from_millis(1);

/// Whether `wire` is more than a flow may send in one piece; `slots` then has the flow's slot.
pub(crate) fn is_too_long(tree: &Tree, flow: u64, class: ClassId, wire: OnWire, slots: &mut FlowSlots) -> bool {
    let lasts = |rate: Rate| rate.time_for_ceil(wire.size).is_none_or(|time| time > LONGEST_WHOLE);
    if let Some(shaper) = tree.shaper() {
        let slot = shaper.find(flow, slots.scheduler);
        slots.scheduler = slot.unwrap_or(slots.scheduler);
        return shaper.outlook_at(slot, class).is_some_and(lasts);
    }
    tree.rate_of(flow, class).is_some_and(lasts)
}

/// Drops and events of the tree during a call.
pub(crate) struct TreeOutlet<'a, H, S> {
    pub(crate) now: Instant,
    pub(crate) account: &'a mut Account,
    pub(crate) admit: &'a mut Admit<H>,
    /// The slot of the packet that the tree is given.
    pub(crate) current: Option<u32>,
    pub(crate) recorder: &'a mut Option<Box<dyn Recorder>>,
    pub(crate) sink: &'a mut S,
}

impl<H: Copy + Send + 'static, S: Sink<H>> TreeOutlet<'_, H, S> {
    /// Counts a packet out and drops it.
    pub(crate) fn drop_packet(&mut self, packet: &QueuedPacket, reason: DropReason) {
        let handle = self.admit.packets.remove(packet.slot);
        self.account.dropped(self.now, packet, reason);
        if let Some(recorder) = self.recorder {
            recorder.dropped(packet.number, reason);
        }
        self.sink.observe(handle, packet, self.admit.packets.fields(packet.slot), Disposition::Dropped(reason));
        self.sink.drop_packet(handle, reason);
    }
}

impl<H: Copy + Send + 'static, S: Sink<H>> Outlet<QueuedPacket> for TreeOutlet<'_, H, S> {
    fn dropped(&mut self, packet: QueuedPacket, reason: DropReason) {
        if !self.admit.takes_back(self.now, &packet) {
            self.drop_packet(&packet, reason);
        }
    }
    fn event(&mut self, event: Event) {
        self.sink.event(event);
        let sink = &mut *self.sink;
        self.admit.event(self.now, event, self.current, &mut |notification| {
            if sink.wants_notifications() {
                sink.notify(notification);
            }
        });
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use tidegate_config::{Diagnostics, Source, shaper};
    use tidegate_core::packet::NO_SLOT;
    use tidegate_core::qdisc::Discard;
    use tidegate_core::{Bytes, FlowKey, Qdisc};

    fn tree() -> Tree {
        let text = "version = 1\n[[class]]\nname = \"all\"\nrate = \"8mbit\"\ndefault = true\n";
        let config = shaper::load(&Source::new("schedule.toml", text), &mut Diagnostics::new()).expect("valid");
        Tree::build(&config, 1, Instant::ZERO, Span::ZERO).expect("valid")
    }

    /// At 8 Mbit/s 1,000 bytes last 1 ms.
    #[test]
    fn a_superpacket_is_too_long_beyond_a_millisecond() {
        let tree = tree();
        let mut slots = FlowSlots { record: None, scheduler: NO_SLOT };
        let mut is_long =
            |bytes| is_too_long(&tree, 1, ClassId(0), OnWire { size: Bytes::new(bytes), packets: 2 }, &mut slots);
        assert_eq!((is_long(1_000), is_long(1_001)), (false, true));
    }

    /// Whatever slot a packet claims, it is queued in its own flow.
    #[test]
    fn a_wrong_slot_is_only_a_look_up_more() {
        let mut tree = tree();
        let mut enqueue = |flow, claimed| {
            let flow = FlowKey::numbered(flow);
            let packet = QueuedPacket { flow, flow_slot: claimed, size: Bytes::new(100), ..QueuedPacket::example() };
            tree.enqueue(Instant::ZERO, packet, &mut Discard).slot
        };
        let (one, two) = (enqueue(1, NO_SLOT), enqueue(2, NO_SLOT));
        assert_ne!(one, two);
        assert_eq!((enqueue(1, one), enqueue(1, two), enqueue(2, 77), enqueue(2, one)), (one, one, two, two));
        let flows = tree.flows();
        let packets = |flow: u64| flows.iter().find(|view| view.key == flow).map(|view| view.backlog.packets);
        assert_eq!((packets(1), packets(2)), (Some(3), Some(3)));
    }
}
