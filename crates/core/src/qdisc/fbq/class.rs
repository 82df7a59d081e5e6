//! One FBQ: the flows of a class, which flow sends next, and when the bucket of the class has credit for it.

use alloc::collections::{BTreeMap, BTreeSet, VecDeque};
use core::ops::Bound;

use tidegate_units::{Bytes, Credit, Instant, Rate};

use super::ceiling::{Ceiling, pays_at};
use super::deciders::{self, By, PLACES, VIRTUAL_START};
use super::flow::{Flow, Flows, NONE, Special};
use super::hosts::{FairBy, Hosts};
use super::params::{ClassParams, Spare};
use super::shares::{Ratio, Shares, WEIGHT_MAX, WEIGHT_ONE, WHOLE};
use super::wheel::Wheel;
use crate::accounts::Account;
use crate::bucket::{MAX_DEPTH, TokenBucket};
use crate::heap::{Heap, NOWHERE};
use crate::qdisc::Backlog;

/// A byte in virtual time at the usual weight.
pub(super) const BYTE_AT_ONE: u64 = (8_000_000_000 << PLACES) / WEIGHT_ONE;

/// With at most so many flows with a queue the wheel is long enough for saved tokens.
const FEW: u64 = 64;

/// The flow whose head leaves next: selected, and waiting for the aggregate bucket.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Candidate {
    pub flow: u32,
    pub by: By,
    /// When it was or will be selected. A selection in the past is not undone.
    pub since: Instant,
    /// When the ceilings allow it, the one of the class included.
    pub ready: Instant,
    /// When the aggregate bucket has credit for it; [`Instant::MAX`] for never.
    pub due: Instant,
    /// The credit that the aggregate buckets must have: the packet's size, at most a full bucket.
    pub size: Bytes,
}

/// One FBQ.
#[derive(Clone, Debug)]
pub(super) struct Class {
    pub params: ClassParams,
    pub bucket: TokenBucket,
    /// The bucket of its ceiling.
    pub ceiling: Option<TokenBucket>,
    pub shares: Shares,
    pub backlog: Backlog,
    /// Packets that left on rate of other classes.
    pub borrowed: Account,
    /// The number of flows with a queue.
    pub queued: u64,
    /// The sum of the granted minimum rates of these flows.
    pub queued_minimum: Rate,
    /// The space reserved for flows with a granted minimum, if there are any.
    pub kept: Bytes,
    /// The space that flows without a granted minimum share.
    pub space: Bytes,
    pub candidate: Option<Candidate>,
    /// The hosts that share the class, if it is shared by hosts, or else the flows that have a ceiling, alone or together.
    pub hosts: Option<Hosts>,
    /// Flows with a queue, by the virtual time at which their head is covered by their share; unless hosts share the
    /// class.
    wheel: Wheel,
    /// The flows that the wheel did not take.
    pub share: Heap<u128>,
    /// Flows with a queue and a granted minimum, by the time at which their head is covered by it.
    guarantee: Heap<Instant>,
    /// V, and the instant it belongs to.
    pub virtual_now: u128,
    virtual_at: Instant,
    virtual_rest: u128,
    /// Flows whose minimum waits to be granted, in order of request.
    pub waiting: BTreeMap<u64, u32>,
    /// Flows with a displacement threshold in their home class, by threshold over weight.
    pub thresholds: BTreeSet<(Ratio, u32)>,
    /// Flows that were displaced from here, by key, in the order of displacement.
    pub away: VecDeque<u64>,
    /// Whether something changed since displacement last found no class.
    pub unsettled: bool,
    /// Whether [`is_settled`](Self::is_settled) was found to hold, and nothing has changed since.
    pub known_settled: bool,
    /// The slots of flows with a preference.
    preferred: BTreeSet<u32>,
    /// The number of preferred flows whose weight must be recomputed, and the flow after which this continues.
    stale: usize,
    weighed: u32,
    /// The last result of `borrow_length`, for this many bytes at this rate.
    pub borrow: (Bytes, Rate, u128),
}

impl Class {
    pub fn new(params: ClassParams, fair_by: FairBy, now: Instant) -> Self {
        let mut ceiling = None;
        Ceiling::set(params.at_most.class, &mut ceiling, now);
        Self {
            params,
            ceiling,
            kept: Bytes::ZERO,
            space: params.limit,
            bucket: TokenBucket::full(params.rate, params.burst, now),
            shares: Shares::new(params.rate),
            backlog: Backlog::default(),
            borrowed: Account::default(),
            queued: 0,
            queued_minimum: Rate::ZERO,
            candidate: None,
            hosts: (fair_by != FairBy::Flow).then(|| Hosts::new(fair_by)),
            wheel: Wheel::new(),
            share: Heap::new(),
            guarantee: Heap::new(),
            virtual_now: VIRTUAL_START,
            virtual_at: now,
            virtual_rest: 0,
            waiting: BTreeMap::new(),
            thresholds: BTreeSet::new(),
            away: VecDeque::new(),
            unsettled: false,
            known_settled: false,
            preferred: BTreeSet::new(),
            stale: 0,
            weighed: 0,
            borrow: (Bytes::ZERO, Rate::ZERO, 0),
        }
    }

    /// `bytes` in virtual time for a flow of `weight`, rounded against the sender.
    #[inline]
    pub fn virtual_length(bytes: Bytes, weight: u64) -> u128 {
        if weight == WEIGHT_ONE {
            return u128::from(bytes.as_u64()) * u128::from(BYTE_AT_ONE);
        }
        let credit = Credit::of(bytes).as_raw() as u128;
        if weight.is_power_of_two() {
            let places = weight.trailing_zeros();
            // Round up, as the divisions below do.
            return ((credit << PLACES) + ((1_u128 << places) - 1)) >> places;
        }
        if bytes <= MAX_DEPTH && weight <= WEIGHT_MAX {
            return deciders::virtual_length(bytes, weight);
        }
        (credit << PLACES).div_ceil(u128::from(weight))
    }

    /// V at `t`. With spare rate shared, V is the tag of the last served packet and does not depend on time.
    #[inline]
    pub fn virtual_time(&self, t: Instant) -> u128 {
        match self.params.spare {
            Spare::Shared => self.virtual_now,
            Spare::Idle => self.virtual_now + self.virtual_gain(t).0,
        }
    }

    /// The increase of V from its instant to `t`, and the remainder of the division.
    fn virtual_gain(&self, t: Instant) -> (u128, u128) {
        let (rate, weight) = self.shares.common();
        if weight == 0 {
            return (0, 0);
        }
        let earned = Rate::from_bps(rate).credit_in(t.since(self.virtual_at)).as_raw() as u128;
        let sum = (earned << PLACES) + self.virtual_rest;
        (sum / u128::from(weight), sum % u128::from(weight))
    }

    /// The first instant at which V is `tag` or more.
    fn virtual_instant(&self, tag: u128) -> Instant {
        let missing = tag.saturating_sub(self.virtual_now);
        if missing == 0 {
            return self.virtual_at;
        }
        let (rate, weight) = self.shares.common();
        let needed = missing.checked_mul(u128::from(weight)).map(|sum| sum.saturating_sub(self.virtual_rest));
        let wait = match (needed, u128::from(rate) << PLACES) {
            (_, 0) | (None, _) => return Instant::MAX,
            (Some(needed), step) => needed.div_ceil(step),
        };
        u64::try_from(wait).map_or(Instant::MAX, |wait| self.virtual_at + tidegate_units::Span::from_nanos(wait))
    }

    /// Updates V to `now`, before the shares change.
    pub fn settle(&mut self, now: Instant) {
        if now <= self.virtual_at {
            return;
        }
        if self.params.spare == Spare::Idle {
            let (gain, rest) = self.virtual_gain(now);
            self.virtual_now += gain;
            self.virtual_rest = rest;
        }
        self.virtual_at = now;
    }

    /// Sets the instant to which V belongs, on another clock.
    pub fn restart(&mut self, now: Instant) {
        (self.virtual_at, self.virtual_rest) = (now, 0);
    }

    /// To be called after a flow joined, left or got another minimum, or d(q) changed: discards the remainder of the
    /// previous division (less than one unit) and marks the weights of preferred flows for recomputation.
    pub fn shares_changed(&mut self) {
        self.virtual_rest = 0;
        self.unsettled = true;
        self.known_settled = false;
        self.stale = self.preferred.len();
        self.divide_buffer();
    }

    /// Whether no flow waits for a minimum, may be displaced, may return, or has a weight to be recomputed.
    #[inline]
    pub fn is_settled(&self) -> bool {
        self.stale == 0 && self.waiting.is_empty() && self.thresholds.is_empty() && self.away.is_empty()
    }

    /// Adds the flow `at` to the preferred flows, or removes it.
    pub fn list_preferred(&mut self, at: u32, preferred: bool) {
        if preferred {
            self.preferred.insert(at);
        } else {
            self.preferred.remove(&at);
        }
    }

    /// The next flow whose preference must be recomputed.
    pub fn next_stale(&mut self) -> Option<u32> {
        if self.stale == 0 {
            return None;
        }
        self.stale -= 1;
        let after = (Bound::Excluded(self.weighed), Bound::Unbounded);
        let next = self.preferred.range(after).next().or_else(|| self.preferred.first()).copied()?;
        self.weighed = next;
        Some(next)
    }

    /// The part of d(q) for `steps` of preference, in 1/2^32; at most all of it.
    pub fn part_of(&self, steps: u32) -> u64 {
        self.params.increment.saturating_mul(steps.into()).min(WHOLE)
    }

    /// Adds a flow without packets at `now`. Its bucket is full if no flow is backlogged here and the class has
    /// credit; otherwise it is empty, so that a stream of new flows cannot delay the old ones.
    pub fn admit(&mut self, flows: &mut Flows, at: u32, now: Instant) {
        let virtual_now = self.virtual_time_of(&flows[at], now);
        let flow = &mut flows[at];
        let alone = self.group(flow).map_or(self.backlog.is_empty(), |host| host.queued == 0);
        let credit = if alone { self.params.flow_burst.min(self.bucket.bytes(now)) } else { Bytes::ZERO };
        flow.start = deciders::starts_with(virtual_now, Self::virtual_length(credit, flow.weight));
        let minimum = flow.minimum();
        if let Some(special) = flow.special.as_deref_mut() {
            special.guarantee = TokenBucket::full(minimum, self.params.flow_burst, now);
        }
    }

    /// Called when a flow without a queue gets its first packet at `now`: its saved tokens are bounded by TB(f) (5.2).
    #[inline(never)]
    pub fn activate(&mut self, flows: &mut Flows, at: u32, now: Instant) {
        let virtual_now = self.virtual_time_of(&flows[at], now);
        if let Some(hosts) = &mut self.hosts {
            hosts.time = hosts.time.max(now);
        }
        let flow = &mut flows[at];
        let saved = Self::virtual_length(self.params.flow_burst, flow.weight);
        flow.start = deciders::starts_again(flow.start, virtual_now, saved);
        self.key(flows, at);
    }

    /// Inserts a backlogged flow into both orders by the tags of its head.
    #[inline(always)]
    pub fn key(&mut self, flows: &mut Flows, at: u32) {
        let flow = &flows[at];
        let length = Self::virtual_length(flow.head_size, flow.weight);
        let (tag, granted) = (flow.start + length, flow.granted);
        if self.hosts.is_some() && flow.host != NONE {
            self.key_in_group(flows, at, tag);
        } else {
            self.take_out(flows, at);
            self.put_in(flows, at, tag, length);
        }
        if granted {
            self.guarantee(flows, at);
        } else {
            self.unguarantee(flows, at);
        }
    }

    /// Inserts a flow that is not in it into the order of shares, by a tag that is `length` ahead.
    #[inline(always)]
    fn put_in(&mut self, flows: &mut Flows, at: u32, tag: u128, length: u128) {
        if !self.wheel.is_ready(length) || !self.wheel.insert(flows, at, tag) {
            self.make_room(flows, at, tag, length);
        }
    }
    /// [`put_in`](Self::put_in) where the wheel does not take the flow as it is.
    #[inline(never)]
    fn make_room(&mut self, flows: &mut Flows, at: u32, tag: u128, length: u128) {
        let mut needed = length;
        if self.queued <= FEW && !self.wheel.reaches(tag, at) {
            // Flows with saved tokens are as far behind the present. Of many that queue few have any, and there would be many
            // in a bucket.
            needed += Self::virtual_length(self.params.flow_burst, flows[at].weight);
        }
        if !self.wheel.has_room(flows, needed) {
            for (tag, at) in self.wheel.grow(flows, needed) {
                self.insert(flows, at, tag);
            }
        }
        self.insert(flows, at, tag);
    }
    fn insert(&mut self, flows: &mut Flows, at: u32, tag: u128) {
        if !self.wheel.insert(flows, at, tag) {
            self.share.insert(tag, at, &mut flows.place_share());
        }
    }

    /// Inserts a flow with a granted minimum into the order of minimums, if that ever covers its head. What others of its
    /// group send counts towards the ceiling of the group, so that the flow has to wait for the turn of the group.
    #[inline(never)]
    fn guarantee(&mut self, flows: &mut Flows, at: u32) {
        let flow = &flows[at];
        let is_alone = self.group(flow).is_none_or(|group| group.ceiling.is_none());
        let covered = flow
            .special
            .as_deref()
            .filter(|_| is_alone)
            .and_then(|special| deciders::covered_at(&special.guarantee, flow.head_size, flow.since))
            .map(|time| time.max(flow.pays_at()))
            .filter(|&time| time < Instant::MAX);
        match covered {
            Some(time) => {
                let position = flow.guarantee_at();
                self.guarantee.set(position, time, at, &mut flows.place_guarantee());
            }
            None => self.unguarantee(flows, at),
        }
    }

    /// Removes a flow from the order of shares, if it is in it.
    #[inline(always)]
    fn take_out(&mut self, flows: &mut Flows, at: u32) {
        match flows[at].share_at {
            NOWHERE => {}
            position if Wheel::has(position) => self.wheel.remove(flows, at),
            position => self.share.remove(position, &mut flows.place_share()),
        }
    }

    /// Removes a flow from the order of minimums, if it is in it.
    #[inline(always)]
    fn unguarantee(&mut self, flows: &mut Flows, at: u32) {
        // Most classes have none: the position is not in the part of the record that every packet reads.
        if !self.guarantee.is_empty() {
            self.remove_guarantee(flows, at);
        }
    }
    #[inline(never)]
    fn remove_guarantee(&mut self, flows: &mut Flows, at: u32) {
        let position = flows[at].guarantee_at();
        self.guarantee.remove(position, &mut flows.place_guarantee());
    }

    /// Removes a flow from both orders.
    #[inline(never)]
    pub fn unkey(&mut self, flows: &mut Flows, at: u32) {
        if self.hosts.is_some() && flows[at].host != NONE {
            self.unkey_in_group(flows, at);
        } else {
            self.take_out(flows, at);
        }
        self.unguarantee(flows, at);
        if self.candidate.is_some_and(|candidate| candidate.flow == at) {
            self.candidate = None;
        }
    }

    /// Whether a flow was selected by `base`.
    #[inline]
    pub fn has_chosen(&self, base: Instant) -> bool {
        self.candidate.is_some_and(|candidate| candidate.since <= base)
    }

    /// Selects the next flow as of `base`.
    ///
    /// A flow whose minimum covers its head precedes those whose share does, so that the minimum holds whatever the
    /// weights are. While the selected flow waits for the aggregate bucket, no other flow of the class sends (5.4).
    #[inline(always)]
    pub fn choose(&mut self, flows: &mut Flows, base: Instant) {
        if self.hosts.is_some() {
            self.release(flows, base);
        }
        self.candidate = self.next(flows, base).map(|(flow, by, since)| {
            let head = &flows[flow];
            let size = head.head_size;
            let ready = since.max(pays_at(self.ceiling.as_ref(), size));
            let due = self.bucket.time_for(ready.max(head.since), size).unwrap_or(Instant::MAX);
            Candidate { flow, by, since, ready, due, size }
        });
    }

    #[inline(always)]
    fn next(&mut self, flows: &mut Flows, base: Instant) -> Option<(u32, By, Instant)> {
        // Without minimums, hosts and flows out of turn, the first flow of the wheel.
        let is_plain = self.params.spare == Spare::Shared && self.hosts.is_none();
        if is_plain && self.guarantee.is_empty() && self.share.is_empty() {
            return self.wheel.first(flows).map(|flow| (flow, By::Share, base));
        }
        self.next_of_all(flows, base)
    }

    fn next_of_all(&mut self, flows: &mut Flows, base: Instant) -> Option<(u32, By, Instant)> {
        let grouped = self.hosts.as_ref().and_then(Hosts::first);
        let firsts = [self.wheel.peek(flows), self.share.peek(), grouped];
        let Some((tag, sharer)) = firsts.into_iter().flatten().min() else {
            // Everything that is queued waits for a ceiling.
            return self.first_held().map(|(until, flow)| (flow, By::Share, until.max(base)));
        };
        let covered = self.guarantee.peek();
        if let Some((time, flow)) = covered
            && time <= base
        {
            return Some((flow, By::Guarantee, base));
        }
        if self.params.spare == Spare::Shared {
            return Some((sharer, By::Share, base));
        }
        let shared = self.virtual_instant(tag).max(base);
        match covered {
            Some((time, flow)) if time <= shared => Some((flow, By::Guarantee, time)),
            _ => Some((sharer, By::Share, shared)),
        }
    }

    /// Charges a flow for its head, which left as of `then`.
    #[inline]
    pub fn charge_flow(&mut self, flow: &mut Flow, by: By, then: Instant) {
        let length = Self::virtual_length(flow.head_size, flow.weight);
        self.charge_ceilings(flow, then);
        match by {
            By::Share => {
                flow.start = deciders::charged(flow.start, self.virtual_now, by, length);
                if let Some(hosts) = self.hosts.as_mut().filter(|_| flow.host != NONE) {
                    let weight = hosts.weight_of(&hosts[flow.host]);
                    let host = &mut hosts[flow.host];
                    host.virtual_now = host.virtual_now.max(flow.start);
                    host.start += Self::virtual_length(flow.head_size, weight);
                    self.virtual_now = self.virtual_now.max(host.start);
                } else if self.params.spare == Spare::Shared {
                    self.virtual_now = self.virtual_now.max(flow.start);
                }
            }
            By::Guarantee => {
                let virtual_now = self.virtual_time(then);
                let inside = match self.hosts.as_mut().filter(|_| flow.host != NONE) {
                    Some(hosts) => {
                        let weight = hosts.weight_of(&hosts[flow.host]);
                        let host = &mut hosts[flow.host];
                        host.start = host.start.min(virtual_now) + Self::virtual_length(flow.head_size, weight);
                        host.virtual_now
                    }
                    None => virtual_now,
                };
                flow.start = deciders::charged(flow.start, inside, by, length);
            }
        }
        if flow.granted
            && let Some(special) = flow.special.as_deref_mut()
        {
            deciders::charge_minimum(&mut special.guarantee, then, flow.head_size);
        }
    }

    /// Counts a flow that has become backlogged.
    #[inline]
    pub fn queues(&mut self, flow: &Flow) {
        self.queued += 1;
        if flow.granted {
            self.queued_minimum += flow.minimum();
            self.divide_buffer();
        }
    }
    /// Counts a flow whose queue has become empty.
    #[inline]
    pub fn queues_no_more(&mut self, flow: &Flow) {
        self.queued -= 1;
        if flow.granted {
            self.queued_minimum = self.queued_minimum.saturating_sub(flow.minimum());
            self.divide_buffer();
        }
    }

    /// Changes the minimum or preference of a flow by `change`, which is called while the flow is not in the shares, and
    /// returns whether its minimum is granted, which is also passed. Its saved tokens are kept.
    pub fn change(
        &mut self,
        flows: &mut Flows,
        at: u32,
        now: Instant,
        change: impl FnOnce(&mut Special, bool, &Shares) -> bool,
    ) {
        self.settle(now);
        flows.special(at, self.params.flow_burst, now);
        let flow = &mut flows[at];
        let before = flow.weight;
        self.shares.leave(flow.stake());
        let queues = !flow.backlog.is_empty();
        if queues {
            self.queues_no_more(flow);
        }
        let granted = flow.granted;
        if let Some(special) = flow.special.as_deref_mut() {
            let granted = change(special, granted, &self.shares);
            special.part = self.part_of(special.preferred);
            let minimum = if granted { special.profile.minimum } else { Rate::ZERO };
            special.guarantee.set_rate(now, minimum);
            self.list_preferred(at, special.part > 0);
            flow.granted = granted;
        }
        if queues {
            self.queues(flow);
        }
        flow.weight = self.shares.join(flow.stake());
        self.host_weighed(&flows[at], before);
        self.reweighed(flows, at, now, before);
        self.shares_changed();
    }

    /// To be called when `incr` may have changed: recomputes the parts of the preferred flows. Cost: linear in these.
    pub fn step_changed(&mut self, flows: &mut Flows, now: Instant) {
        for at in self.preferred.clone() {
            if flows[at].special.as_deref().is_some_and(|special| special.part != self.part_of(special.preferred)) {
                self.change(flows, at, now, |_, granted, _| granted);
            }
        }
    }

    /// Recomputes the weight of a preferred flow; returns whether it changed.
    pub fn weigh(&mut self, flows: &mut Flows, at: u32, now: Instant) -> bool {
        let flow = &mut flows[at];
        let (before, after) = (flow.weight, self.shares.weight_of(flow.stake()));
        if before == after {
            return false;
        }
        self.settle(now);
        self.shares.weigh(flow.stake(), after);
        flow.weight = after;
        self.host_weighed(&flows[at], before);
        self.virtual_rest = 0;
        self.unsettled = true;
        self.reweighed(flows, at, now, before);
        true
    }

    /// Updates the position of a flow whose weight was `before`.
    fn reweighed(&mut self, flows: &mut Flows, at: u32, now: Instant, before: u64) {
        let virtual_now = self.virtual_time_of(&flows[at], now);
        let flow = &mut flows[at];
        let after = flow.weight;
        if after != before {
            // Tokens = (V - start) * weight, kept across the change of weight; a debt likewise.
            let scale = |length: u128| (length / u128::from(after)).saturating_mul(before.into());
            flow.start = if flow.start <= virtual_now {
                virtual_now - scale(virtual_now - flow.start).min(virtual_now)
            } else {
                virtual_now.saturating_add(scale(flow.start - virtual_now))
            };
            if let Some(displace) = flow.displace()
                && self.thresholds.remove(&(Ratio::new(displace.below, before), at))
            {
                self.thresholds.insert((Ratio::new(displace.below, after), at));
            }
        }
        if flow.backlog.packets > 0 {
            self.key(flows, at);
        }
    }
}

#[cfg(test)]
mod tests;
