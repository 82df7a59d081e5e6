//! The table of flows under an [`Offload`](crate::Offload).

use tidegate_core::Instant;

use super::Flows;
use crate::flow_record::Counted;
use crate::offload::OffloadedFlow;

impl Flows {
    /// Begins to count: what the counters of `flows` have now is not counted.
    pub(crate) fn start_offloaded<'a>(&mut self, flows: impl Iterator<Item = &'a OffloadedFlow>) {
        self.offloaded = flows.map(|flow| (flow.key, Counted::of(flow))).collect();
    }

    /// Counts the packets since the last reading. `flows` are all flows. Packets that were queued in a flow that is no longer
    /// there were dropped with the interface; or, unless `continues`, a change of the configuration has moved them to
    /// other flows.
    pub(crate) fn add_offloaded(&mut self, now: Instant, flows: &[OffloadedFlow], continues: bool) {
        let Self { table, spare, untracked, offloaded, read_at, .. } = self;
        let since = std::mem::replace(read_at, now);
        let mut before = std::mem::take(offloaded);
        for flow in flows {
            let last = before.remove(&flow.key);
            let counted = Counted::of(flow);
            offloaded.insert(flow.key, counted);
            if last == Some(counted) {
                continue;
            }
            let new = counted.since(&last.unwrap_or_default());
            let found = table.find(flow.key);
            let Some(place) = table.pin_found(now, flow.key, found, &mut |record| record.end(spare)) else {
                *untracked += new.sent.packets + new.dropped.packets;
                continue;
            };
            let queued = table.pins(place) - 1;
            // A packet that was queued at both readings was queued in between.
            let waits = flow.head_arrived.is_some_and(|arrived| arrived <= since);
            table.get_mut(place).add_offloaded(now, flow, &new, queued, waits, spare);
            table.set_pins(now, place, flow.backlog.packets as u32);
        }
        for (key, last) in before {
            if let Some(place) = table.find(key).filter(|_| !last.backlog.is_empty()) {
                let queued = table.pins(place);
                let record = table.get_mut(place);
                if continues {
                    record.flush_offloaded(now, queued, spare);
                } else {
                    record.move_offloaded(queued);
                }
                table.set_pins(now, place, 0);
            }
        }
    }
}
