//! The hosts of a class whose flows share it host by host: fair queueing of hosts, and in each host of its flows. The flows
//! that have a ceiling in common are a group of the same kind.
//!
//! *Law*: two hosts that stay backlogged in a class are served equally, up to one packet each and the unused burst of
//! one of them, however many flows each has; within a host its flows by their weights.
//! *Source*: hierarchical packet fair queueing (Bennett and Zhang, 1997) with self-clocked fair queueing at both
//! levels.
//! *Notes*: the flows of a rule with a ceiling share the class like one host where hosts share it, and otherwise have the
//! shares that they would have without; so has a flow with a ceiling of its own, which is a group of one.
//! *Cost*: O(log h) in the backlogged hosts of the class and O(log n) in the backlogged flows of the host; one look-up
//! when a flow begins. A host is a record of about 100 bytes for as long as it has flows.

use tidegate_units::{Bytes, Instant, Rate};

use super::ceiling::Ceiling;
use super::class::Class;
use super::deciders::{VIRTUAL_START, weight_of};
use super::flow::{Flow, NONE};
use super::shares::WEIGHT_ONE;
use crate::bucket::TokenBucket;
use crate::heap::{Heap, NOWHERE};
use crate::key_index::KeyIndex;
use crate::packet::FlowKey;
use crate::slab::{Slab, reusable};

/// Whether flows or hosts share a class equally.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum FairBy {
    /// Flows, by their weights.
    #[default]
    Flow,
    /// Sending hosts, and in each its flows by their weights.
    Source,
    /// Receiving hosts, and in each its flows by their weights.
    Destination,
}

impl FairBy {
    /// The key of the host that a packet with this flow key belongs to; `None` where hosts do not count.
    pub(super) fn host(self, key: FlowKey) -> Option<u64> {
        match self {
            Self::Flow => None,
            Self::Source => Some(key.source),
            Self::Destination => Some(key.destination),
        }
    }
}

/// The key of a group of flows: a rule, or else a host or the flow itself.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Group {
    /// The profile of a rule with a ceiling, or [`NONE`].
    pub rule: u32,
    /// The host, or else the flow.
    pub key: u64,
}

impl Group {
    fn index(self) -> u64 {
        self.key ^ u64::from(self.rule.wrapping_add(1)).wrapping_mul(0x9e37_79b9_7f4a_7c15)
    }
}

/// A host that has flows in the class, or another group of flows.
#[derive(Clone, Debug)]
pub(super) struct Host {
    key: Group,
    /// Its flows, and the sum of their weights.
    pub flows: u64,
    pub weight: u64,
    /// Its flows with a queue, and the bytes in them.
    pub queued: u64,
    pub bytes: Bytes,
    /// The virtual time of the class at which the share of the host was empty.
    pub start: u128,
    /// The virtual time of its flows.
    pub virtual_now: u128,
    /// The sum of the weights of its flows with a queue.
    queued_weight: u64,
    /// Its flows with a queue, by the virtual time at which their head is covered.
    pub share: Heap<u128>,
    /// Its flows with a queue that wait for their own ceiling, by the time until which they do.
    pub held: Heap<Instant>,
    /// The bucket of its ceiling.
    pub ceiling: Option<TokenBucket>,
    pub order_at: u32,
    pub held_at: u32,
}

reusable!(Host, order_at: u32);

impl Host {
    /// Whether it is the flows of a rule with a ceiling.
    pub fn is_rule(&self) -> bool {
        self.key.rule != NONE
    }
}

/// The hosts of a class, or other groups of its flows.
#[derive(Clone, Debug)]
pub(super) struct Hosts {
    records: Slab<u32, Host>,
    index: KeyIndex,
    /// Flows or hosts, which share the class equally.
    fair_by: FairBy,
    /// The number of those that have flows.
    present: u64,
    /// The number of hosts with a queue.
    pub queued: u64,
    /// Those with a queue, by the virtual time at which the next packet is covered.
    order: Heap<u128>,
    /// Those with a queue that wait for a ceiling, by the time until which they do.
    held: Heap<Instant>,
    /// The latest instant as of which a flow was selected.
    pub time: Instant,
}

impl Hosts {
    pub fn new(fair_by: FairBy) -> Self {
        Self {
            records: Slab::default(),
            index: KeyIndex::with_capacity(0),
            fair_by,
            present: 0,
            queued: 0,
            order: Heap::new(),
            held: Heap::new(),
            time: Instant::ZERO,
        }
    }
    /// The record of `key`; if it is new, its share was empty at the virtual time `start`.
    fn find_or_insert(&mut self, key: Group, start: u128) -> u32 {
        if let Some(at) = self.index.find(key.index(), |at| self.records[at].key == key) {
            return at;
        }
        // A record that is used again has the memory of its heaps.
        let at = self.records.reuse().unwrap_or_else(|| {
            self.records.insert(Host {
                key,
                flows: 0,
                weight: 0,
                queued: 0,
                bytes: Bytes::ZERO,
                start,
                virtual_now: VIRTUAL_START,
                queued_weight: 0,
                share: Heap::new(),
                held: Heap::new(),
                ceiling: None,
                order_at: NOWHERE,
                held_at: NOWHERE,
            })
        });
        let host = &mut self[at];
        (host.key, host.start, host.virtual_now, host.ceiling) = (key, start, VIRTUAL_START, None);
        (host.order_at, host.held_at) = (NOWHERE, NOWHERE);
        self.index.insert(key.index(), at);
        at
    }
    /// Removes a host that has no flow any more.
    fn remove(&mut self, at: u32) {
        let key = self[at].key;
        self.index.remove(key.index(), at);
        self.records.release(at);
    }
    /// The weight of a group in its class: hosts share it equally, other groups have the weights of their flows.
    #[inline]
    pub fn weight_of(&self, group: &Host) -> u64 {
        match self.fair_by {
            FairBy::Flow => weight_of(group.queued_weight),
            FairBy::Source | FairBy::Destination => WEIGHT_ONE,
        }
    }
    /// The first of the order, with its tag and the first of its flows.
    pub fn first(&self) -> Option<(u128, u32)> {
        let (tag, at) = self.order.peek()?;
        Some((tag, self[at].share.peek()?.1))
    }
    /// The one that no longer waits for a ceiling first, and when.
    pub fn first_held(&self) -> Option<(Instant, u32)> {
        self.held.peek()
    }
    /// Gives the group `at` a place in the order.
    pub fn list_eligible(&mut self, at: u32, tag: u128) {
        let Self { records, order, held, .. } = self;
        let (order_at, held_at) = (records[at].order_at, records[at].held_at);
        held.remove(held_at, &mut |id, at| records[id].held_at = at);
        order.set(order_at, tag, at, &mut |id, at| records[id].order_at = at);
    }
    /// Gives the group `at` a place among those that wait for a ceiling.
    pub fn list_held(&mut self, at: u32, until: Instant) {
        let Self { records, order, held, .. } = self;
        let (order_at, held_at) = (records[at].order_at, records[at].held_at);
        order.remove(order_at, &mut |id, at| records[id].order_at = at);
        held.set(held_at, until, at, &mut |id, at| records[id].held_at = at);
    }
    /// Removes the group `at` from both.
    pub fn unlist(&mut self, at: u32) {
        let Self { records, order, held, .. } = self;
        let (order_at, held_at) = (records[at].order_at, records[at].held_at);
        order.remove(order_at, &mut |id, at| records[id].order_at = at);
        held.remove(held_at, &mut |id, at| records[id].held_at = at);
    }
}

impl core::ops::Index<u32> for Hosts {
    type Output = Host;
    fn index(&self, at: u32) -> &Host {
        &self.records[at]
    }
}

impl core::ops::IndexMut<u32> for Hosts {
    fn index_mut(&mut self, at: u32) -> &mut Host {
        &mut self.records[at]
    }
}

/// The accounting of hosts and other groups. Each of these does nothing for a flow without one.
impl Class {
    /// The hosts, if they share the class.
    pub fn fair_hosts(&self) -> Option<&Hosts> {
        self.hosts.as_ref().filter(|hosts| hosts.fair_by != FairBy::Flow)
    }
    /// The host of `flow`, if hosts share the class.
    #[inline]
    pub fn host(&self, flow: &Flow) -> Option<&Host> {
        self.fair_hosts().filter(|_| flow.host != NONE).map(|hosts| &hosts[flow.host])
    }
    /// The groups, if `flow` has one.
    #[inline]
    fn groups_of(&mut self, flow: &Flow) -> Option<&mut Hosts> {
        self.hosts.as_mut().filter(|_| flow.host != NONE)
    }
    /// The virtual time in which `flow` is served: that of its group, or of the class.
    #[inline]
    pub fn virtual_time_of(&self, flow: &Flow, now: Instant) -> u128 {
        self.group(flow).map_or_else(|| self.virtual_time(now), |group| group.virtual_now)
    }

    /// A flow joins: its group is made if it is new. Like a new flow, a new group has a burst to use only while nothing
    /// is queued in the class.
    pub fn join_host(&mut self, flow: &mut Flow, now: Instant) {
        let virtual_now = self.virtual_time(now);
        let credit = if self.backlog.is_empty() { self.params.flow_burst } else { Bytes::ZERO };
        let per_host = self.params.at_most.host;
        if let Some(special) = flow.special.as_deref_mut() {
            Ceiling::set(self.params.at_most.flow, &mut special.ceiling, now);
        }
        let Some(key) = self.group_of(flow) else { return };
        let hosts = self.hosts.get_or_insert_with(|| Hosts::new(FairBy::Flow));
        hosts.time = hosts.time.max(now);
        let start = virtual_now.saturating_sub(Self::virtual_length(credit, WEIGHT_ONE));
        flow.host = hosts.find_or_insert(key, start);
        let of_rule = flow.profile().at_most;
        let host = &mut hosts[flow.host];
        host.flows += 1;
        host.weight += flow.weight;
        let is_first = host.flows == 1;
        let left = flow.special.as_deref_mut().and_then(|special| special.left.take());
        if is_first && !host.is_rule() {
            host.ceiling = left;
        }
        Ceiling::set(if host.is_rule() { of_rule } else { per_host }, &mut host.ceiling, now);
        if !flow.backlog.is_empty() {
            host.bytes += flow.backlog.bytes;
            self.flow_queued(flow);
        }
        if let Some(hosts) = &mut self.hosts {
            hosts.present += u64::from(is_first);
        }
    }
    /// A flow has a queue now. The saved share of a group that had no queue is bounded like that of a flow.
    fn flow_queued(&mut self, flow: &Flow) {
        let (virtual_now, burst) = (self.virtual_now, self.params.flow_burst);
        let Some(hosts) = self.groups_of(flow) else { return };
        let host = &mut hosts[flow.host];
        host.queued += 1;
        host.queued_weight += flow.weight;
        if host.queued == 1 {
            let saved = Self::virtual_length(burst, WEIGHT_ONE);
            host.start = host.start.max(virtual_now.saturating_sub(saved));
            hosts.queued += 1;
        }
    }
    /// A flow leaves, with its queue if it has one; it is in no heap any more. The bucket of a host that leaves with it stays
    /// with the flow, which may come back at once in another class. A rule stays.
    pub fn leave_host(&mut self, flow: &mut Flow) {
        let Some(hosts) = self.groups_of(flow) else { return };
        let at = core::mem::replace(&mut flow.host, NONE);
        let host = &mut hosts[at];
        host.flows -= 1;
        host.weight -= flow.weight;
        if !flow.backlog.is_empty() {
            host.bytes -= flow.backlog.bytes;
            host.queued -= 1;
            host.queued_weight -= flow.weight;
            let is_idle = host.queued == 0;
            hosts.queued -= u64::from(is_idle);
        }
        let host = &hosts[at];
        if host.flows == 0 {
            let (ceiling, is_rule) = (host.ceiling, host.is_rule());
            hosts.present -= 1;
            if is_rule {
                return;
            }
            if let Some(special) = flow.special.as_deref_mut() {
                special.left = ceiling;
            }
            hosts.remove(at);
        }
    }
    /// The weight of `flow` was `before`.
    pub fn host_weighed(&mut self, flow: &Flow, before: u64) {
        if let Some(hosts) = self.groups_of(flow) {
            let host = &mut hosts[flow.host];
            host.weight = host.weight - before + flow.weight;
            if !flow.backlog.is_empty() {
                host.queued_weight = host.queued_weight - before + flow.weight;
            }
        }
    }

    /// A packet of `size` was queued, which the backlog of `flow` contains already.
    pub fn host_queued(&mut self, flow: &Flow, size: Bytes) {
        let Some(hosts) = self.groups_of(flow) else { return };
        hosts[flow.host].bytes += size;
        if flow.backlog.packets == 1 {
            self.flow_queued(flow);
        }
    }
    /// A packet of `size` leaves, which the backlog of `flow` still contains.
    pub fn host_sent(&mut self, flow: &Flow, size: Bytes) {
        let Some(hosts) = self.groups_of(flow) else { return };
        let host = &mut hosts[flow.host];
        host.bytes -= size;
        if flow.backlog.packets == 1 {
            host.queued -= 1;
            host.queued_weight -= flow.weight;
            let is_idle = host.queued == 0;
            hosts.queued -= u64::from(is_idle);
        }
    }

    /// d(f): where hosts share the class, the part of its host by its weight, at least its minimum.
    pub fn nominal(&self, flow: &Flow) -> Rate {
        let stake = flow.stake();
        let (Some(host), Some(hosts)) = (self.host(flow), self.fair_hosts()) else {
            return self.shares.rate_of(stake).min(self.flow_ceiling());
        };
        let (rate, _) = self.shares.common();
        let part = u128::from(rate) * u128::from(flow.weight) / u128::from((host.weight * hosts.present).max(1));
        Rate::from_bps(u64::try_from(part).unwrap_or(u64::MAX)).max(stake.minimum).min(self.flow_ceiling())
    }
    /// The most that a flow may send.
    pub fn flow_ceiling(&self) -> Rate {
        self.params.at_most.flow.map_or(Rate::from_bps(u64::MAX), |ceiling| ceiling.rate)
    }
    /// The most that `flow` may send by its own ceiling and that of its host or rule.
    pub fn ceiling_of(&self, flow: &Flow) -> Rate {
        let group = self.hosts.as_ref().filter(|_| flow.host != NONE).map(|groups| &groups[flow.host]);
        let of_group = group.and_then(|group| group.ceiling.as_ref()).map(TokenBucket::rate);
        of_group.map_or_else(|| self.flow_ceiling(), |rate| rate.min(self.flow_ceiling()))
    }
    /// Among how many equal ones the class is shared at present, from the point of view of `flow`, counted in when it
    /// `joins`; of a flow that is not known, as if it were of a new host.
    pub fn rivals(&self, flow: Option<&Flow>, joins: bool) -> u64 {
        let more = u64::from(joins);
        let Some(hosts) = self.fair_hosts() else { return self.queued + more };
        match flow.and_then(|flow| self.host(flow)) {
            Some(host) => (hosts.queued + u64::from(host.queued == 0)) * (host.queued + more),
            None => hosts.queued + 1,
        }
    }
}
