//! [`Diversions`]: flows of which superpackets are segmented elsewhere, as in a second queue of the kernel.
//!
//! *Law*: while packets of a flow that took this way are on it or in the engine, its later packets take it, too. So in each queue of
//! the data path the packets of a flow are in order, and all in the first queue precede all in the second: whoever has to pass
//! both without the engine, as a guardian does, keeps their order.
//! *Cost*: a packet that arrives while there are such flows is looked up by its flow, one that leaves by the same key.
//! *Notes*: the key of a flow changes with its class. A change of the rules ends its diversion, and what is counted under the old key is
//! forgotten when the engine is next empty.

use std::collections::HashMap;

use tidegate_core::classify::Fields;
use tidegate_core::{DropReason, Event, Instant};

use crate::notification::Notification;
use crate::packet::QueuedPacket;
use crate::sink::{Change, Disposition, Sink};

/// A flow whose packets take the way of its segments.
#[derive(Clone, Copy, Debug)]
struct Diversion {
    /// The round in which a packet of it was last sent on that way.
    round: u64,
    /// The number of the first arrival that may have come by it.
    since: u64,
    /// How many of its packets in the engine came by it.
    queued: u32,
}

/// See the [module](self).
#[derive(Debug, Default)]
pub(crate) struct Diversions {
    flows: HashMap<u64, Diversion>,
    /// Everything that was sent on that way in an earlier round has come back.
    round: u64,
}

impl Diversions {
    /// Whether no flow is diverted.
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.flows.is_empty()
    }

    /// A superpacket of `flow` is sent to be segmented. Its segments have numbers of arrival from `next` on.
    pub fn begin(&mut self, flow: u64, next: u64) {
        let round = self.round;
        let new = Diversion { round, since: next, queued: 0 };
        self.flows.entry(flow).and_modify(|known| known.round = round).or_insert(new);
    }

    /// A packet of `flow` arrives, `segmented` if it came by the way of segments. Returns whether it is to take that way.
    pub fn takes(&mut self, flow: u64, segmented: bool) -> bool {
        let Some(known) = self.flows.get_mut(&flow) else { return false };
        if segmented {
            known.queued += 1;
        } else if known.round == self.round || known.queued > 0 {
            known.round = self.round;
            return true;
        } else {
            self.flows.remove(&flow);
        }
        false
    }

    /// Everything that was sent to be segmented has come back; `is_idle` if the engine has no packet.
    pub fn all_came_back(&mut self, is_idle: bool) {
        self.round += 1;
        if is_idle {
            self.flows.clear();
        }
    }

    /// A sink that counts what leaves before `sink` receives it.
    pub fn watch<'a, S>(&'a mut self, sink: &'a mut S) -> Watched<'a, S> {
        Watched { flows: &mut self.flows, sink }
    }
}

/// See [`Diversions::watch`].
pub(crate) struct Watched<'a, S> {
    flows: &'a mut HashMap<u64, Diversion>,
    sink: &'a mut S,
}

impl<H, S: Sink<H>> Sink<H> for Watched<'_, S> {
    #[inline]
    fn transmit(&mut self, handle: H, change: Change) {
        self.sink.transmit(handle, change);
    }
    #[inline]
    fn drop_packet(&mut self, handle: H, reason: DropReason) {
        self.sink.drop_packet(handle, reason);
    }
    fn set_time(&mut self, now: Instant) {
        self.sink.set_time(now);
    }
    fn event(&mut self, event: Event) {
        self.sink.event(event);
    }
    fn wants_notifications(&self) -> bool {
        self.sink.wants_notifications()
    }
    fn notify(&mut self, notification: &Notification<'_>) {
        self.sink.notify(notification);
    }
    #[inline]
    fn observe(&mut self, handle: H, packet: &QueuedPacket, fields: &Fields, disposition: Disposition) {
        if !self.flows.is_empty()
            && let Some(known) = self.flows.get_mut(&packet.flow.flow)
            && packet.number >= known.since
        {
            known.queued = known.queued.saturating_sub(1);
        }
        self.sink.observe(handle, packet, fields, disposition);
    }
}
