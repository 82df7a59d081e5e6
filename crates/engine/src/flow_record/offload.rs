//! Records of flows that an [`Offload`](crate::Offload) counts.

use tidegate_core::accounts::Account;
use tidegate_core::{Backlog, DropReason, Instant, Span};

use super::{Record, Spare};
use crate::offload::OffloadedFlow;

/// The counters of an offloaded flow.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(crate) struct Counted {
    pub sent: Account,
    pub dropped: Account,
    pub waited: Span,
    pub backlog: Backlog,
}

impl Counted {
    pub fn of(flow: &OffloadedFlow) -> Self {
        Self { sent: flow.counts.sent, dropped: flow.counts.dropped, waited: flow.waited, backlog: flow.backlog }
    }

    /// The difference to `before`, an earlier reading. After a restart of the flow the counters themselves.
    pub fn since(&self, before: &Self) -> Self {
        let Self { sent, dropped, waited, backlog } = *self;
        if sent.packets < before.sent.packets || dropped.packets < before.dropped.packets {
            return *self;
        }
        Self {
            sent: sent.since(before.sent),
            dropped: dropped.since(before.dropped),
            waited: Span::from_nanos(waited.as_nanos().saturating_sub(before.waited.as_nanos())),
            backlog,
        }
    }
}

impl Record {
    /// Adds the packets counted since the last reading. `queued` packets were queued at that time; `waits` means that the
    /// queue is known not to have been empty since.
    pub fn add_offloaded(
        &mut self,
        now: Instant,
        flow: &OffloadedFlow,
        new: &Counted,
        queued: u32,
        waits: bool,
        spare: &mut Spare,
    ) {
        if self.arrived.packets == 0 {
            self.began = now;
        }
        let Counted { sent, dropped, waited, backlog } = *new;
        if dropped.packets > 0 {
            let rare = self.rare.get_or_insert_with(|| spare.rare());
            let count = &mut rare.dropped[DropReason::QueueLimit as usize];
            *count = count.saturating_add(u32::try_from(dropped.packets).unwrap_or(u32::MAX));
            rare.dropped_total.add(dropped);
        }
        self.arrived.packets =
            self.arrived.packets - u64::from(queued) + sent.packets + dropped.packets + backlog.packets;
        self.arrived.bytes = self.arrived.bytes - self.waiting_bytes + sent.bytes + dropped.bytes + backlog.bytes;
        self.waiting_bytes = backlog.bytes;
        self.who = (&flow.fields).into();
        (self.class, self.through, self.rule, self.last) = (flow.class, flow.class, flow.profile, now);
        if sent.packets == 0 {
            return;
        }
        self.rate.count(now, sent.bytes);
        let size = u32::try_from(sent.bytes.as_u64().div_ceil(sent.packets)).unwrap_or(u32::MAX);
        self.largest = self.largest.max(size);
        if let Some(promise) = self.rare.as_mut().and_then(|rare| rare.promise.as_mut()) {
            promise.delivered_all(sent.packets, sent.bytes, waits);
        }
        // Only the sum is known, so all of them get the mean.
        self.waited(now, Span::from_nanos(waited.as_nanos() / sent.packets), spare);
    }

    /// The `queued` packets belong to other flows now, because the rules have changed.
    pub fn move_offloaded(&mut self, queued: u32) {
        self.arrived.packets -= u64::from(queued);
        self.arrived.bytes -= std::mem::take(&mut self.waiting_bytes);
    }

    /// The `queued` packets were dropped together with their queue.
    pub fn flush_offloaded(&mut self, now: Instant, queued: u32, spare: &mut Spare) {
        self.last = now;
        let flushed = Account { packets: queued.into(), bytes: std::mem::take(&mut self.waiting_bytes) };
        let rare = self.rare.get_or_insert_with(|| spare.rare());
        let count = &mut rare.dropped[DropReason::Flushed as usize];
        *count = count.saturating_add(queued);
        rare.dropped_total.add(flushed);
    }
}
