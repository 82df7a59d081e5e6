//! The buffer of a class: what a flow may queue in it.
//!
//! *Law*: a flow with a granted minimum has the part of the buffer that its minimum is of the rate; the flows with a queue
//! share what these leave equally, or where hosts share the class the hosts, and in each its flows.
//! *Cost*: O(1), without a division for a packet that arrives; the parts of minimums are computed when such a flow gets or
//! loses its queue.

use tidegate_units::{Bytes, Rate};

use super::class::Class;
use super::flow::Flow;
use crate::qdisc::DropReason;

/// With n flows queued, each may fill 4/(4n + 1) of the class's buffer, or of the part that flows with a granted
/// minimum leave: a single flow 4/5, many greedy flows equal parts, with a quarter of a part to spare for a new flow.
/// This is the steady state of Choudhury and Hahne's dynamic threshold (1998) of four times the free space. It is
/// computed from n and not from the free space, so that flows that send first after a pause cannot occupy the space
/// of flows that send last.
const THRESHOLD_FACTOR: u64 = 4;
/// The fraction (1/n) of the buffer reserved for flows with a granted minimum, in a class that has such flows.
const PROMISED_PART: u64 = 8;

impl Class {
    /// To be called after a change of d(q), of the limit, or of the minimums that are granted, held or queued.
    pub fn divide_buffer(&mut self) {
        let any = self.shares.unpromised() < self.params.rate;
        self.kept = Bytes::new(if any { self.params.limit.as_u64() / PROMISED_PART } else { 0 });
        let left = self.params.limit.saturating_sub(self.promised_part(self.queued_minimum));
        self.space = left.saturating_sub(self.kept);
    }

    /// The part of the buffer of a flow with a granted `minimum`: the same as its part of the rate.
    fn promised_part(&self, minimum: Rate) -> Bytes {
        if minimum.is_zero() {
            return Bytes::ZERO;
        }
        let part = u128::from(self.params.limit.as_u64()) * u128::from(minimum.as_bps());
        Bytes::new(u64::try_from(part / u128::from(self.params.rate.as_bps().max(1))).unwrap_or(u64::MAX))
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

/// Whether `bytes` are at most [`equal_part`].
#[inline]
fn is_within_part(bytes: Bytes, space: Bytes, queued: u64) -> bool {
    let shares = queued * THRESHOLD_FACTOR + 1;
    // b <= floor(s / n) * 4 exactly if ceil(b / 4) * n <= s.
    u128::from(bytes.as_u64().div_ceil(THRESHOLD_FACTOR)) * u128::from(shares) <= u128::from(space.as_u64())
}
