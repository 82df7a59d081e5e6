//! The records of flows: an arena, an index by key, and a list of the idle ones, oldest first.

use alloc::vec::Vec;

use tidegate_units::{Bytes, Instant, Rate};

use super::profile::{Profile, Terms};
use super::shares::{Stake, WEIGHT_MAX};
use crate::accounts::Account;
use crate::bucket::TokenBucket;
use crate::heap::NOWHERE;
use crate::key_index::KeyIndex;
use crate::qdisc::Backlog;

/// The end of a list: no flow, no packet, no host.
pub(super) const NONE: u32 = u32::MAX;

/// Counters of a flow.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
#[repr(C)]
pub struct FlowCounts {
    /// Packets sent.
    pub sent: Account,
    /// Packets dropped.
    pub dropped: Account,
    /// Packets marked congestion experienced.
    pub marked: u64,
    /// The part of `sent` that used rate of other classes.
    pub borrowed: Account,
}

/// The state of a flow in its class. What every packet needs is in the first two cache lines.
#[derive(Clone, Debug)]
#[repr(C, align(64))]
pub(super) struct Flow {
    /// The virtual time at which the share bucket of the flow was empty.
    pub start: u128,
    /// In a bucket of the wheel: the low bits of the tag of the head, and the flows around it.
    pub tag: u64,
    /// The weight for scheduling: that of the profile plus the effect of preference among the flows present.
    pub weight: u64,
    pub head: u32,
    pub tail: u32,
    pub share_next: u32,
    pub share_before: u32,
    /// The position in the order of shares: in the wheel or in a heap.
    pub share_at: u32,
    pub class: u32,
    pub head_size: Bytes,

    pub key: u64,
    /// The class assigned by the classifier; differs from `class` while the flow is displaced.
    pub home: u32,
    pub profile_index: u32,
    pub backlog: Backlog,
    pub head_arrived: Instant,
    /// The place of its host in its class, where hosts share the class.
    pub host: u32,
    /// `false` once the flow has ended and its record is free.
    pub live: bool,
    /// Whether the minimum is granted, or waits for rate to be released.
    pub granted: bool,
    /// Whether the queue is above the upper feedback threshold.
    pub above: bool,
    /// Whether feedback thresholds apply that its class does not set.
    pub watched: bool,
    pub counts: FlowCounts,

    /// The key of its host where hosts share the class.
    pub host_key: Option<u64>,
    pub profile: Profile,
    /// The terms granted to this flow.
    pub own: Option<Terms>,
    /// Steps of preference.
    pub preferred: u32,
    /// The part of the rate of its class that these steps are, in 1/2^32.
    pub part: u64,
    /// Position in the queue of waiting minimums.
    pub waiting_since: u64,
    /// The token bucket of the minimum rate, in real time.
    pub guarantee: TokenBucket,
    pub guarantee_at: u32,
    pub idle_previous: u32,
    pub idle_next: u32,
    /// Since when it has no queue, while it has none.
    pub idle_since: Instant,
    pub moved: Instant,
}

impl Flow {
    pub fn stake(&self) -> Stake {
        Stake {
            weight: self.weight,
            plain: self.profile.weight.clamp(1, WEIGHT_MAX),
            part: self.part,
            minimum: self.minimum(),
        }
    }
    /// The granted minimum; zero for none.
    pub fn minimum(&self) -> Rate {
        if self.granted { self.profile.minimum } else { Rate::ZERO }
    }
    pub fn is_displaced(&self) -> bool {
        self.class != self.home
    }
}

/// All flows. Idle flows (with an empty queue) are in a list, the longest idle first.
#[derive(Clone, Debug)]
pub(super) struct Flows {
    records: Vec<Flow>,
    free: Vec<u32>,
    index: KeyIndex,
    oldest: u32,
    newest: u32,
}

impl Flows {
    pub fn new() -> Self {
        Self { records: Vec::new(), free: Vec::new(), index: KeyIndex::with_capacity(64), oldest: NONE, newest: NONE }
    }
    pub fn len(&self) -> usize {
        self.index.len()
    }
    pub fn find(&self, key: u64) -> Option<u32> {
        self.index.find(key, |at| self.records[at as usize].key == key)
    }
    /// The record of `key`, which is looked up unless it is the one at `hint`.
    #[inline]
    pub fn find_at(&self, key: u64, hint: u32) -> Option<u32> {
        if self.is_at(key, hint) { Some(hint) } else { self.find(key) }
    }
    /// Whether `key` has the record `at`.
    #[inline]
    pub fn is_at(&self, key: u64, at: u32) -> bool {
        self.records.get(at as usize).is_some_and(|flow| flow.key == key && flow.live)
    }
    /// The indices of all flows, in an order without meaning that is the same on every machine.
    pub fn indices(&self) -> impl Iterator<Item = u32> + '_ {
        (0..self.records.len() as u32).filter(|&at| self.records[at as usize].live)
    }
    pub fn insert(&mut self, flow: Flow) -> u32 {
        let key = flow.key;
        let at = match self.free.pop() {
            Some(at) => {
                self.records[at as usize] = flow;
                at
            }
            None => {
                self.records.push(flow);
                (self.records.len() - 1) as u32
            }
        };
        self.index.insert(key, at);
        self.idle_push(at);
        at
    }
    pub fn remove(&mut self, at: u32) {
        self.idle_take(at);
        self[at].live = false;
        let key = self[at].key;
        self.index.remove(key, at);
        self.free.push(at);
    }
    /// The flow that has been idle for longest.
    pub fn oldest_idle(&self) -> Option<u32> {
        (self.oldest != NONE).then_some(self.oldest)
    }
    pub fn idle_push(&mut self, at: u32) {
        let last = self.newest;
        let flow = &mut self[at];
        (flow.idle_previous, flow.idle_next) = (last, NONE);
        if last == NONE {
            self.oldest = at;
        } else {
            self[last].idle_next = at;
        }
        self.newest = at;
    }
    pub fn idle_take(&mut self, at: u32) {
        let (previous, next) = (self[at].idle_previous, self[at].idle_next);
        if previous != NONE {
            self[previous].idle_next = next;
        } else if self.oldest == at {
            self.oldest = next;
        }
        if next != NONE {
            self[next].idle_previous = previous;
        } else if self.newest == at {
            self.newest = previous;
        }
        let flow = &mut self[at];
        (flow.idle_previous, flow.idle_next) = (NONE, NONE);
    }
    /// A closure that stores positions of the heap of shares in the records.
    pub fn place_share(&mut self) -> impl FnMut(u32, u32) + '_ {
        |id, at| self.records[id as usize].share_at = at
    }
    /// A closure that stores positions of the heap of guarantees in the records.
    pub fn place_guarantee(&mut self) -> impl FnMut(u32, u32) + '_ {
        |id, at| self.records[id as usize].guarantee_at = at
    }
}

impl core::ops::Index<u32> for Flows {
    type Output = Flow;
    fn index(&self, at: u32) -> &Flow {
        &self.records[at as usize]
    }
}

impl core::ops::IndexMut<u32> for Flows {
    fn index_mut(&mut self, at: u32) -> &mut Flow {
        &mut self.records[at as usize]
    }
}

/// The record of a new flow, not yet in any class.
pub(super) fn record(key: u64, class: u32, profile: Profile, profile_index: u32, now: Instant) -> Flow {
    Flow {
        start: 0,
        tag: 0,
        weight: profile.weight,
        head: NONE,
        tail: NONE,
        share_next: NONE,
        share_before: NONE,
        share_at: NOWHERE,
        class,
        head_size: Bytes::ZERO,
        key,
        home: class,
        profile_index,
        backlog: Backlog::default(),
        head_arrived: now,
        host: NONE,
        live: true,
        granted: false,
        above: false,
        watched: false,
        counts: FlowCounts::default(),
        host_key: None,
        profile,
        own: None,
        preferred: 0,
        part: 0,
        waiting_since: 0,
        guarantee: TokenBucket::empty(Rate::ZERO, Bytes::ZERO, now),
        guarantee_at: NOWHERE,
        idle_previous: NONE,
        idle_next: NONE,
        idle_since: now,
        moved: now,
    }
}
