//! The buffer of a class: what a flow may queue in it.
//!
//! *Law*: a flow with a granted minimum has the part of the buffer that its minimum is of the rate; the flows with a queue
//! share what these leave equally, or where hosts share the class the hosts, and in each its flows.
//! *Cost*: O(1), without a division for a packet that arrives; the parts of minimums are computed when such a flow gets or
//! loses its queue.

use tidegate_units::{Bytes, Rate};

use super::class::Class;
use super::deciders::{self, THRESHOLD_FACTOR, is_within_part};
use super::flow::Flow;
use crate::qdisc::DropReason;

impl Class {
    /// To be called after a change of d(q), of the limit, or of the minimums that are granted, held or queued.
    pub fn divide_buffer(&mut self) {
        self.kept = deciders::kept(self.params.limit, self.shares.unpromised(), self.params.rate);
        let left = self.params.limit.saturating_sub(self.promised_part(self.queued_minimum));
        self.space = left.saturating_sub(self.kept);
    }

    /// The part of the buffer of a flow with a granted `minimum`: the same as its part of the rate.
    fn promised_part(&self, minimum: Rate) -> Bytes {
        deciders::promised_part(self.params.limit, minimum, self.params.rate)
    }
    /// The most that `flow` may queue: its part by its granted minimum, or an equal part of what these leave, whichever
    /// is larger. The equal part is of the flows with a queue; where hosts share the class, it is of the hosts, and of that
    /// of the flows of the host.
    pub fn most_queued(&self, flow: &Flow) -> Bytes {
        let (space, queued) = self.shared_space(flow, false);
        equal_part(space, queued).min(self.params.flow_limit).max(self.promised_part(flow.minimum()))
    }
    /// The reason why `flow` may not queue `size` more, if any.
    #[inline]
    pub fn refusal(&self, flow: &Flow, size: Bytes) -> Option<DropReason> {
        let within = self.may_queue(flow, flow.backlog.bytes + size, flow.backlog.is_empty());
        // If some flow has a granted minimum, the last part of the buffer is reserved for such flows: otherwise many
        // greedy flows leave less free than one of its packets needs.
        let kept = if within && flow.granted { Bytes::ZERO } else { self.kept };
        if size > self.params.limit.saturating_sub(self.backlog.bytes).saturating_sub(kept) {
            return Some(DropReason::ClassLimit);
        }
        // A flow without a queue may always queue one packet; where hosts share the class, of a host within its part.
        let may = within || flow.backlog.is_empty() && !self.is_host_full(flow, size);
        (!may).then_some(DropReason::FlowLimit)
    }
    /// Whether `bytes` are at most what `flow` may queue when it `joins` those with a queue, or has one. Without a
    /// division, unless it has a minimum.
    #[inline]
    fn may_queue(&self, flow: &Flow, bytes: Bytes, joins: bool) -> bool {
        let (space, queued) = self.shared_space(flow, joins);
        bytes <= self.params.flow_limit && is_within_part(bytes, space, queued)
            || flow.granted && bytes <= self.promised_part(flow.minimum())
    }
    /// The space of which the flow has an equal part, and the number of these parts.
    #[inline]
    fn shared_space(&self, flow: &Flow, joins: bool) -> (Bytes, u64) {
        let more = u64::from(joins);
        if self.hosts.is_none() {
            return (self.space, (self.queued + more).max(1));
        }
        self.space_of_host(flow, more)
    }
    #[inline(never)]
    fn space_of_host(&self, flow: &Flow, more: u64) -> (Bytes, u64) {
        match self.host(flow) {
            Some(host) => (self.host_part(host.queued == 0), (host.queued + more).max(1)),
            None => (self.space, (self.queued + more).max(1)),
        }
    }
    /// The most that a host may queue; `joins` when it has no queue yet.
    fn host_part(&self, joins: bool) -> Bytes {
        let queued = self.hosts.as_ref().map_or(0, |hosts| hosts.queued) + u64::from(joins);
        equal_part(self.space, queued.max(1))
    }
    /// Whether the host of `flow` has a queue and no space in its part for `size` more.
    fn is_host_full(&self, flow: &Flow, size: Bytes) -> bool {
        self.host(flow).is_some_and(|host| host.queued > 0 && host.bytes + size > self.host_part(false))
    }
}

/// One of `queued` equal parts of `space`, with a quarter of a part to spare.
fn equal_part(space: Bytes, queued: u64) -> Bytes {
    let shares = queued * THRESHOLD_FACTOR + 1;
    Bytes::new(space.as_u64() / shares * THRESHOLD_FACTOR)
}
