//! The hosts of a class whose flows share it host by host: fair queueing of hosts, and in each host of its flows.
//!
//! *Law*: two hosts that stay backlogged in a class are served equally, up to one packet each and the unused burst of
//! one of them, however many flows each has; within a host its flows by their weights.
//! *Source*: hierarchical packet fair queueing (Bennett and Zhang, 1997) with self-clocked fair queueing at both
//! levels.
//! *Cost*: O(log h) in the backlogged hosts of the class and O(log n) in the backlogged flows of the host; one look-up
//! when a flow begins. A host is a record of about 100 bytes for as long as it has flows.

use tidegate_units::{Bytes, Instant, Rate};

use super::class::Class;
use super::deciders::VIRTUAL_START;
use super::flow::{Flow, Flows, NONE};
use super::shares::WEIGHT_ONE;
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

/// A host that has flows in the class.
#[derive(Clone, Debug)]
pub(super) struct Host {
    key: u64,
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
    /// Its flows with a queue, by the virtual time at which their head is covered.
    pub share: Heap<u128>,
    pub share_at: u32,
}

reusable!(Host, share_at: u32);

/// The hosts of a class.
#[derive(Clone, Debug)]
pub(super) struct Hosts {
    records: Slab<u32, Host>,
    index: KeyIndex,
    /// The number of hosts with a queue.
    pub queued: u64,
}

impl Hosts {
    pub fn new() -> Self {
        Self { records: Slab::default(), index: KeyIndex::with_capacity(0), queued: 0 }
    }
    /// The number of hosts that have flows.
    fn len(&self) -> u64 {
        self.index.len() as u64
    }
    /// The host `key`; if it is new, its share was empty at the virtual time `start`.
    fn find_or_insert(&mut self, key: u64, start: u128) -> u32 {
        if let Some(at) = self.index.find(key, |at| self.records[at].key == key) {
            return at;
        }
        // A record that is used again has the memory of its heap.
        let at = self.records.reuse().unwrap_or_else(|| {
            self.records.insert(Host {
                key,
                flows: 0,
                weight: 0,
                queued: 0,
                bytes: Bytes::ZERO,
                start,
                virtual_now: VIRTUAL_START,
                share: Heap::new(),
                share_at: NOWHERE,
            })
        });
        let host = &mut self[at];
        (host.key, host.start, host.virtual_now, host.share_at) = (key, start, VIRTUAL_START, NOWHERE);
        self.index.insert(key, at);
        at
    }
    /// Removes a host that has no flow any more.
    fn remove(&mut self, at: u32) {
        let key = self[at].key;
        self.index.remove(key, at);
        self.records.release(at);
    }
    /// A closure that stores positions of the heap of hosts in the records.
    fn place(&mut self) -> impl FnMut(u32, u32) + '_ {
        |id, at| self.records[id].share_at = at
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

/// The accounting of hosts. Each of these does nothing in a class that hosts do not share.
impl Class {
    /// The host of `flow`.
    #[inline]
    pub fn host(&self, flow: &Flow) -> Option<&Host> {
        self.hosts.as_ref().filter(|_| flow.host != NONE).map(|hosts| &hosts[flow.host])
    }
    /// The virtual time in which `flow` is served: that of its host, or of the class.
    #[inline]
    pub fn virtual_time_of(&self, flow: &Flow, now: Instant) -> u128 {
        self.host(flow).map_or_else(|| self.virtual_time(now), |host| host.virtual_now)
    }

    /// A flow joins: its host is made if it is new. Like a new flow, a new host has a burst to use only while nothing
    /// is queued in the class.
    pub fn join_host(&mut self, flow: &mut Flow, now: Instant) {
        let virtual_now = self.virtual_time(now);
        let credit = if self.backlog.is_empty() { self.params.flow_burst } else { Bytes::ZERO };
        let Some(hosts) = &mut self.hosts else { return };
        let start = virtual_now.saturating_sub(Self::virtual_length(credit, WEIGHT_ONE));
        flow.host = hosts.find_or_insert(flow.host_key, start);
        let host = &mut hosts[flow.host];
        host.flows += 1;
        host.weight += flow.weight;
        if !flow.backlog.is_empty() {
            host.bytes += flow.backlog.bytes;
            self.flow_queued(flow.host);
        }
    }
    /// A flow of the host `at` has a queue now. The saved share of a host that had no queue is bounded like that of a flow.
    fn flow_queued(&mut self, at: u32) {
        let Some(hosts) = &mut self.hosts else { return };
        let host = &mut hosts[at];
        host.queued += 1;
        if host.queued == 1 {
            let saved = Self::virtual_length(self.params.flow_burst, WEIGHT_ONE);
            host.start = host.start.max(self.virtual_now.saturating_sub(saved));
            hosts.queued += 1;
        }
    }
    /// A flow leaves, with its queue if it has one; it is in no heap any more.
    pub fn leave_host(&mut self, flow: &mut Flow) {
        let Some(hosts) = &mut self.hosts else { return };
        let at = core::mem::replace(&mut flow.host, NONE);
        let host = &mut hosts[at];
        host.flows -= 1;
        host.weight -= flow.weight;
        if !flow.backlog.is_empty() {
            host.bytes -= flow.backlog.bytes;
            host.queued -= 1;
            hosts.queued -= u64::from(host.queued == 0);
        }
        if hosts[at].flows == 0 {
            hosts.remove(at);
        }
    }
    /// The weight of `flow` was `before`.
    pub fn host_weighed(&mut self, flow: &Flow, before: u64) {
        if let Some(hosts) = &mut self.hosts {
            let host = &mut hosts[flow.host];
            host.weight = host.weight - before + flow.weight;
        }
    }

    /// A packet of `size` was queued, which the backlog of `flow` contains already.
    pub fn host_queued(&mut self, flow: &Flow, size: Bytes) {
        let Some(hosts) = &mut self.hosts else { return };
        hosts[flow.host].bytes += size;
        if flow.backlog.packets == 1 {
            self.flow_queued(flow.host);
        }
    }
    /// A packet of `size` leaves, which the backlog of `flow` still contains.
    pub fn host_sent(&mut self, flow: &Flow, size: Bytes) {
        let Some(hosts) = &mut self.hosts else { return };
        let host = &mut hosts[flow.host];
        host.bytes -= size;
        if flow.backlog.packets == 1 {
            host.queued -= 1;
            hosts.queued -= u64::from(host.queued == 0);
        }
    }
    /// Inserts a flow into the order of its host by its tag.
    pub fn key_in_host(&mut self, flows: &mut Flows, at: u32, tag: u128) {
        let Some(hosts) = &mut self.hosts else { return };
        let (share_at, host) = (flows[at].share_at, flows[at].host);
        hosts[host].share.set(share_at, tag, at, &mut flows.place_share());
        self.key_host(flows, host);
    }
    /// Inserts the host `at` into the order of the class by the tag of its next packet, or removes it without one.
    pub fn key_host(&mut self, flows: &Flows, at: u32) {
        let Some(hosts) = &mut self.hosts else { return };
        let host = &hosts[at];
        let position = host.share_at;
        match host.share.peek() {
            Some((_, flow)) => {
                let tag = host.start + Self::virtual_length(flows[flow].head_size, WEIGHT_ONE);
                self.share.set(position, tag, at, &mut hosts.place());
            }
            None => self.share.remove(position, &mut hosts.place()),
        }
    }

    /// d(f): where hosts share the class, the part of its host by its weight, at least its minimum.
    pub fn nominal(&self, flow: &Flow) -> Rate {
        let stake = flow.stake();
        let (Some(host), Some(hosts)) = (self.host(flow), &self.hosts) else { return self.shares.rate_of(stake) };
        let (rate, _) = self.shares.common();
        let part = u128::from(rate) * u128::from(flow.weight) / u128::from((host.weight * hosts.len()).max(1));
        Rate::from_bps(u64::try_from(part).unwrap_or(u64::MAX)).max(stake.minimum)
    }
    /// Among how many equal ones the class is shared at present, from the point of view of `flow`, counted in when it
    /// `joins`; of a flow that is not known, as if it were of a new host.
    pub fn rivals(&self, flow: Option<&Flow>, joins: bool) -> u64 {
        let more = u64::from(joins);
        let Some(hosts) = &self.hosts else { return self.queued + more };
        match flow.and_then(|flow| self.host(flow)) {
            Some(host) => (hosts.queued + u64::from(host.queued == 0)) * (host.queued + more),
            None => hosts.queued + 1,
        }
    }
}
