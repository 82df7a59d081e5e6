//! The records of flows: an arena, an index by key, and a list of the idle ones, oldest first.

use alloc::boxed::Box;
use alloc::vec::Vec;

use tidegate_units::{Bytes, Instant, Rate};

use super::deciders::weight_of;
use super::profile::{Displace, Profile, Terms};
use super::shares::{Stake, WEIGHT_ONE};
use crate::accounts::Account;
use crate::bucket::TokenBucket;
use crate::heap::NOWHERE;
use crate::key_index::KeyIndex;
use crate::qdisc::Backlog;
use crate::slab::{Slab, reusable};

/// The end of a list: no flow, no packet, no host.
pub(super) const NONE: u32 = u32::MAX;

/// Counters of a flow.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
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

/// The state of a flow in its class. A packet that finds others of its flow in the queue needs the first cache line, one that
/// leaves or is the first the second as well. What few packets need is in the third.
#[derive(Clone, Debug)]
#[repr(C, align(64))]
pub(super) struct Flow {
    pub key: u64,
    pub backlog: Backlog,
    /// The arrival of the head or, without a queue, when the last packet left.
    pub since: Instant,
    pub head_size: Bytes,
    pub class: u32,
    /// The class assigned by the classifier; differs from `class` while the flow is displaced.
    pub home: u32,
    pub profile_index: u32,
    pub tail: u32,
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

    /// The virtual time at which the share bucket of the flow was empty.
    pub start: u128,
    /// In a bucket of the wheel: the low bits of the tag of the head.
    pub tag: u64,
    /// The weight for scheduling: that of the profile plus the effect of preference among the flows present.
    pub weight: u64,
    pub head: u32,
    /// The flows around it, in a bucket of the wheel or, without a queue, in the list of idle flows.
    pub next: u32,
    pub before: u32,
    /// The position in the order of shares: in the wheel or in a heap.
    pub share_at: u32,
    /// Packets sent.
    pub sent: Account,

    /// `None` as long as the flow has never had more than a weight.
    pub special: Option<Box<Special>>,
    /// The key of its host where hosts share the class, otherwise 0.
    pub host_key: u64,
    pub dropped: Account,
    /// Packets marked congestion experienced.
    pub marked: u64,
    /// The part of `sent` that used rate of other classes.
    pub borrowed: Account,
}

reusable!(Flow, next: u32);

/// The state that only few flows need: a minimum, a preference, a threshold of displacement, a ceiling, terms of their own.
#[derive(Clone, Debug)]
pub(super) struct Special {
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
    /// The bucket of its ceiling, and its position among the flows of its group that wait for theirs.
    pub ceiling: Option<TokenBucket>,
    pub held_at: u32,
    /// The bucket of its host's ceiling, while the flow is the last of the host and between two classes.
    pub left: Option<TokenBucket>,
    /// When it last changed its class.
    pub moved: Instant,
}

impl Flow {
    pub fn stake(&self) -> Stake {
        Stake {
            weight: self.weight,
            plain: weight_of(self.profile().weight),
            part: self.special.as_ref().map_or(0, |special| special.part),
            minimum: self.minimum(),
        }
    }
    /// The settings of its profile and its terms together.
    #[inline]
    pub fn profile(&self) -> Profile {
        match &self.special {
            Some(special) => special.profile,
            None => Profile { weight: self.weight, ..Profile::default() },
        }
    }
    /// The granted minimum; zero for none.
    #[inline]
    pub fn minimum(&self) -> Rate {
        if self.granted { self.profile().minimum } else { Rate::ZERO }
    }
    pub fn displace(&self) -> Option<Displace> {
        self.special.as_ref()?.profile.displace
    }
    pub fn is_displaced(&self) -> bool {
        self.class != self.home
    }
    /// The position in the order of minimums.
    #[inline]
    pub fn guarantee_at(&self) -> u32 {
        self.special.as_ref().map_or(NOWHERE, |special| special.guarantee_at)
    }
    /// The terms granted to this flow.
    pub fn own(&self) -> Option<Terms> {
        self.special.as_ref()?.own
    }
    pub fn counts(&self) -> FlowCounts {
        FlowCounts { sent: self.sent, dropped: self.dropped, marked: self.marked, borrowed: self.borrowed }
    }
    /// Steps of preference.
    pub fn preferred(&self) -> u32 {
        self.special.as_ref().map_or(0, |special| special.preferred)
    }
}

/// All flows. Idle flows (with an empty queue) are in a list, the longest idle first.
#[derive(Clone, Debug)]
pub(super) struct Flows {
    records: Slab<u32, Flow>,
    /// Those of flows that ended, so that a flow that begins allocates none.
    #[expect(clippy::vec_box, reason = "the boxes are used again")]
    spare: Vec<Box<Special>>,
    index: KeyIndex,
    oldest: u32,
    newest: u32,
}

impl Flows {
    pub fn new() -> Self {
        Self {
            records: Slab::default(),
            spare: Vec::new(),
            index: KeyIndex::with_capacity(64),
            oldest: NONE,
            newest: NONE,
        }
    }
    pub fn len(&self) -> usize {
        self.index.len()
    }
    /// The number of records, those of flows that ended included.
    #[inline]
    pub fn slots(&self) -> u32 {
        self.records.slots()
    }
    #[inline(never)]
    pub fn find(&self, key: u64) -> Option<u32> {
        self.index.find(key, |at| self.records[at].key == key)
    }
    /// The record of `key`, which is looked up unless it is the one at `hint`.
    #[inline]
    pub fn find_at(&self, key: u64, hint: u32) -> Option<u32> {
        if self.is_at(key, hint) { Some(hint) } else { self.find(key) }
    }
    /// Whether `key` has the record `at`.
    #[inline]
    pub fn is_at(&self, key: u64, at: u32) -> bool {
        self.records.get(at).is_some_and(|flow| flow.key == key && flow.live)
    }
    /// The indices of all flows, in an order without meaning that is the same on every machine.
    pub fn indices(&self) -> impl Iterator<Item = u32> + '_ {
        self.records.all().filter(|&at| self.records[at].live)
    }
    pub fn insert(&mut self, flow: Flow) -> u32 {
        let key = flow.key;
        let at = self.records.insert(flow);
        self.index.insert(key, at);
        self.idle_push(at);
        at
    }
    pub fn remove(&mut self, at: u32) {
        self.idle_take(at);
        let flow = &mut self[at];
        flow.live = false;
        let (key, special) = (flow.key, flow.special.take());
        self.spare.extend(special);
        self.index.remove(key, at);
        self.records.release(at);
    }
    /// The flow's [`Special`] state. If it has none yet, it is made at `now`, with a burst of `burst` for its minimum.
    pub fn special(&mut self, at: u32, burst: Bytes, now: Instant) -> &mut Special {
        let Self { records, spare, .. } = self;
        let flow = &mut records[at];
        let weight = flow.weight;
        flow.special.get_or_insert_with(|| {
            let new = Special {
                profile: Profile { weight, ..Profile::default() },
                own: None,
                preferred: 0,
                part: 0,
                waiting_since: 0,
                guarantee: TokenBucket::full(Rate::ZERO, burst, now),
                guarantee_at: NOWHERE,
                ceiling: None,
                held_at: NOWHERE,
                left: None,
                moved: now,
            };
            match spare.pop() {
                Some(mut special) => {
                    *special = new;
                    special
                }
                None => Box::new(new),
            }
        })
    }
    /// Sets the settings of a flow that is in no class, and will join one.
    pub fn set_profile(&mut self, at: u32, profile: Profile, now: Instant) {
        let flow = &mut self[at];
        let is_plain = Profile { weight: weight_of(profile.weight), ..Profile::default() } == profile;
        if is_plain && flow.special.is_none() {
            flow.weight = profile.weight;
        } else {
            self.special(at, Bytes::ZERO, now).profile = profile;
        }
    }
    /// The flow that has been idle for longest.
    #[inline]
    pub fn oldest_idle(&self) -> Option<u32> {
        (self.oldest != NONE).then_some(self.oldest)
    }
    #[inline]
    pub fn idle_push(&mut self, at: u32) {
        let last = self.newest;
        let flow = &mut self[at];
        (flow.before, flow.next) = (last, NONE);
        if last == NONE {
            self.oldest = at;
        } else {
            self[last].next = at;
        }
        self.newest = at;
    }
    #[inline]
    pub fn idle_take(&mut self, at: u32) {
        let (previous, next) = (self[at].before, self[at].next);
        if previous != NONE {
            self[previous].next = next;
        } else if self.oldest == at {
            self.oldest = next;
        }
        if next != NONE {
            self[next].before = previous;
        } else if self.newest == at {
            self.newest = previous;
        }
        let flow = &mut self[at];
        (flow.before, flow.next) = (NONE, NONE);
    }
    /// A closure that stores positions of the heap of shares in the records.
    pub fn place_share(&mut self) -> impl FnMut(u32, u32) + '_ {
        |id, at| self.records[id].share_at = at
    }
    /// A closure that stores positions among the flows that wait for their ceiling in the records.
    pub fn place_held(&mut self) -> impl FnMut(u32, u32) + '_ {
        |id, at| {
            if let Some(special) = &mut self.records[id].special {
                special.held_at = at;
            }
        }
    }
    /// A closure that stores positions of the heap of guarantees in the records.
    pub fn place_guarantee(&mut self) -> impl FnMut(u32, u32) + '_ {
        |id, at| {
            if let Some(special) = &mut self.records[id].special {
                special.guarantee_at = at;
            }
        }
    }
}

impl core::ops::Index<u32> for Flows {
    type Output = Flow;
    #[inline]
    fn index(&self, at: u32) -> &Flow {
        &self.records[at]
    }
}

impl core::ops::IndexMut<u32> for Flows {
    #[inline]
    fn index_mut(&mut self, at: u32) -> &mut Flow {
        &mut self.records[at]
    }
}

/// The record of a new flow, not yet in any class.
pub(super) fn record(key: u64, class: u32, profile_index: u32, now: Instant) -> Flow {
    Flow {
        key,
        backlog: Backlog::default(),
        since: now,
        head_size: Bytes::ZERO,
        class,
        home: class,
        profile_index,
        tail: NONE,
        host: NONE,
        live: true,
        granted: false,
        above: false,
        watched: false,
        start: 0,
        tag: 0,
        weight: WEIGHT_ONE,
        head: NONE,
        next: NONE,
        before: NONE,
        share_at: NOWHERE,
        sent: Account::default(),
        special: None,
        host_key: 0,
        dropped: Account::default(),
        marked: 0,
        borrowed: Account::default(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use core::mem::offset_of;

    #[test]
    fn a_record_is_of_three_cache_lines() {
        assert_eq!(size_of::<Flow>(), 192);
        assert_eq!((offset_of!(Flow, start), offset_of!(Flow, special)), (64, 128));
    }
}
