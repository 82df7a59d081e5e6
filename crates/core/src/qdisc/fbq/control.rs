//! The control plane: flows that join, leave and move, minimums, preference, and views of them.

use tidegate_units::{Bytes, Credit, Instant, Rate, Span};

use super::ceiling::{Ceilings, HeldBy};
use super::class::Class;
use super::fbc::Fbc;
use super::flow::FlowCounts;
use super::params::{Borrow, Spare};
use super::profile::{Profile, Terms};
use super::shares::Ratio;
use crate::accounts::Account;
use crate::packet::{ClassId, Packet};
use crate::qdisc::{Backlog, Event, Outlet};

/// The shortest time that a flow stays displaced, against oscillation.
const AWAY_AT_LEAST: Span = Span::from_secs(1);
/// A flow returns when it would get this much of its threshold, in eighths.
const RETURN_EIGHTHS: u64 = 9;
/// The flows examined for displacement in one call.
const MOVES_A_CALL: usize = 2;
/// The preferred flows reweighed in one call, after others joined or left.
const WEIGHED_A_CALL: usize = 4;

/// The state of a minimum rate.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Promise {
    /// The promise is in force.
    Granted,
    /// The class has no rate left to grant; the flow gets it as soon as enough is released.
    Waiting {
        /// The rate that could be granted now.
        free: Rate,
    },
}

/// There is no flow with this key.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct NoSuchFlow;

impl core::fmt::Display for NoSuchFlow {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.write_str("no such flow")
    }
}

impl core::error::Error for NoSuchFlow {}

/// The state of a flow.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct FlowView {
    /// The key of the flow.
    pub key: u64,
    /// The class it is in.
    pub class: ClassId,
    /// The class it belongs to; differs from `class` while it is displaced.
    pub home: ClassId,
    /// The index of its profile.
    pub profile: u32,
    /// d(f), its rate if every flow were backlogged.
    pub rate: Rate,
    /// dmin(f) as requested.
    pub minimum: Rate,
    /// Whether the minimum is granted.
    pub granted: bool,
    /// Steps of preference.
    pub preferred: u32,
    /// The terms granted to this flow.
    pub own: Option<Terms>,
    /// The arrival of its oldest packet, while it has a queue.
    pub head_arrived: Option<Instant>,
    /// The bytes and packets queued.
    pub backlog: Backlog,
    /// The ceiling that its next packet waited for when a packet last arrived or left.
    pub held_by: Option<HeldBy>,
    /// Counts of the flow since its start.
    pub counts: FlowCounts,
}

/// The state of a class.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct ClassView {
    /// d(q).
    pub rate: Rate,
    /// The number of flows present.
    pub flows: u64,
    /// The rate that can still be granted as minimums; of shards by all together.
    pub unpromised: Rate,
    /// The number of flows whose minimum waits.
    pub waiting: usize,
    /// The number of flows displaced from this class.
    pub away: usize,
    /// The bytes and packets queued.
    pub backlog: Backlog,
    /// Packets that left on rate of other classes.
    pub borrowed: Account,
    /// The ceiling that all its packets waited for when a packet last arrived or left.
    pub held_by: Option<HeldBy>,
}

/// The levels of the buckets that a packet must pass.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Levels {
    /// The level of the class bucket.
    pub class: Credit,
    /// The depth of the class bucket.
    pub class_depth: Bytes,
    /// The level of the total bucket.
    pub all: Credit,
    /// The depth of the total bucket.
    pub all_depth: Bytes,
    /// The level of the class's ceiling and its depth, if it has one.
    pub ceiling: Option<(Credit, Bytes)>,
}

impl<P: Packet> Fbc<P> {
    /// Adds the record `at` to class `q`, with its queue if it has one.
    pub(super) fn join(&mut self, now: Instant, at: u32, q: u32) {
        let line = self.line;
        self.line += 1;
        let own = self.time_of(q, now);
        let class = &mut self.classes[q];
        class.settle(own);
        let flow = &mut self.flows[at];
        flow.class = q;
        flow.granted = false;
        let at_most = class.params.at_most;
        if at_most.host.is_some() || at_most.flow.is_some() {
            self.flows.special(at, class.params.flow_burst, now);
        }
        let flow = &mut self.flows[at];
        if let Some(special) = flow.special.as_deref_mut() {
            let minimum = special.profile.minimum;
            special.part = class.part_of(special.preferred);
            if special.part > 0 {
                class.list_preferred(at, true);
            }
            let shard = self.shard.as_deref();
            let granted = !minimum.is_zero()
                && minimum <= class.shares.unpromised()
                && shard.is_none_or(|shard| shard.promise(q, minimum));
            if !granted && !minimum.is_zero() {
                special.waiting_since = line;
                class.waiting.insert(line, at);
            }
            flow.granted = granted;
        }
        flow.weight = class.shares.join(flow.stake());
        class.join_host(flow, now);
        class.admit(&mut self.flows, at, own);
        class.shares_changed();
        let flow = &self.flows[at];
        if let Some(displace) = flow.displace()
            && !flow.is_displaced()
        {
            class.thresholds.insert((Ratio::new(displace.below, flow.weight), at));
        }
        class.backlog.merge(flow.backlog);
        if !flow.backlog.is_empty() {
            class.queues(flow);
            class.key(&mut self.flows, at);
        }
        self.choose(q, now);
        if !self.flows[at].backlog.is_empty() {
            self.use_changed(now, q);
        }
    }

    /// Removes the record `at` from its class, with its queue.
    fn part(&mut self, now: Instant, at: u32) {
        let q = self.flows[at].class;
        let own = self.time_of(q, now);
        let class = &mut self.classes[q];
        class.settle(own);
        let chosen = class.candidate.is_some_and(|candidate| candidate.flow == at);
        class.unkey(&mut self.flows, at);
        let flow = &mut self.flows[at];
        if !flow.backlog.is_empty() {
            class.queues_no_more(flow);
        }
        class.shares.leave(flow.stake());
        if let Some(shard) = self.shard.as_deref().filter(|_| flow.granted) {
            shard.release(q, flow.minimum());
        }
        if let Some(special) = flow.special.as_deref() {
            class.list_preferred(at, false);
            class.waiting.remove(&special.waiting_since);
        }
        class.shares_changed();
        if let Some(displace) = flow.displace() {
            class.thresholds.remove(&(Ratio::new(displace.below, flow.weight), at));
        }
        class.leave_host(&mut self.flows[at]);
        let flow = &self.flows[at];
        class.backlog.packets -= flow.backlog.packets;
        class.backlog.bytes -= flow.backlog.bytes;
        if chosen {
            self.rechoose(q, now);
        } else {
            self.choose(q, now);
        }
        if !self.flows[at].backlog.is_empty() {
            self.use_changed(now, q);
        }
    }

    /// Moves a flow with its queue. Its packets keep their order and get the code point of the class they leave
    /// through.
    fn transfer(&mut self, now: Instant, at: u32, to: u32, out: &mut dyn Outlet<P>) {
        let from = self.flows[at].class;
        if from == to {
            return;
        }
        self.part(now, at);
        if let Some(special) = self.flows[at].special.as_deref_mut() {
            special.moved = now;
        }
        self.join(now, at, to);
        out.event(Event::Moved { flow: self.flows[at].key, from: ClassId(from), to: ClassId(to) });
    }

    /// Called when the classifier assigns another class to the flow.
    pub(super) fn rehome(&mut self, now: Instant, at: u32, home: u32, out: &mut dyn Outlet<P>) {
        self.flows[at].home = home;
        self.transfer(now, at, home, out);
    }

    /// Removes an idle flow.
    pub(super) fn forget(&mut self, now: Instant, at: u32, out: &mut dyn Outlet<P>) {
        self.part(now, at);
        let flow = &self.flows[at];
        out.event(Event::FlowEnded { flow: flow.key, class: ClassId(flow.class) });
        self.flows.remove(at);
    }

    /// Sets the profile of the record `at`. The minimum is requested again.
    pub(super) fn set_profile(&mut self, now: Instant, at: u32, profile: Profile) {
        let q = self.flows[at].class;
        // Leaving and joining again is exact: the queue is not touched, and the tokens start empty.
        self.part(now, at);
        self.flows.set_profile(at, profile, now);
        self.join(now, at, q);
    }

    /// A bounded amount of work besides packets: idle flows, waiting minimums, displacement and return.
    #[inline(always)]
    pub(super) fn housekeep(&mut self, now: Instant, touched: Option<u32>, out: &mut dyn Outlet<P>) {
        if now >= self.forgets_at {
            self.forget_idle(now, out);
        }
        if let Some(q) = touched.filter(|&q| !self.classes[q].known_settled) {
            self.visit(now, q, out);
        }
        self.cursor = if self.cursor + 1 < self.classes.slots() { self.cursor + 1 } else { 0 };
        if !self.classes[self.cursor].known_settled {
            self.visit(now, self.cursor, out);
        }
    }

    /// Ends flows that have been idle for long enough, at most two.
    #[inline(never)]
    fn forget_idle(&mut self, now: Instant, out: &mut dyn Outlet<P>) {
        for _ in 0..2 {
            // What becomes idle from now on is forgotten later than this.
            self.forgets_at = now + self.params.idle_timeout;
            let Some(oldest) = self.flows.oldest_idle() else { return };
            self.forgets_at = self.flows[oldest].since + self.params.idle_timeout;
            if now < self.forgets_at {
                return;
            }
            self.forget(now, oldest, out);
        }
    }

    /// Does what is to be done in a class of which it is not known that nothing is.
    #[inline(never)]
    fn visit(&mut self, now: Instant, q: u32, out: &mut dyn Outlet<P>) {
        let class = &mut self.classes[q];
        class.known_settled = class.is_settled();
        if class.known_settled {
            class.unsettled = false;
        } else {
            self.settle(now, q, out);
        }
    }

    fn settle(&mut self, now: Instant, q: u32, out: &mut dyn Outlet<P>) {
        let own = self.time_of(q, now);
        for _ in 0..WEIGHED_A_CALL {
            let class = &mut self.classes[q];
            let Some(at) = class.next_stale() else { break };
            if class.weigh(&mut self.flows, at, own) {
                self.choose(q, now);
            }
        }
        let class = &self.classes[q];
        // What other shards release is not announced.
        if (class.unsettled || self.shard.is_some()) && !class.waiting.is_empty() {
            self.grant(now, q);
        }
        if !self.classes[q].thresholds.is_empty() {
            self.displace(now, q, out);
        }
        if !self.classes[q].away.is_empty() {
            self.recall(now, q, out);
        }
        let class = &mut self.classes[q];
        if class.waiting.is_empty() {
            class.unsettled = false;
        }
    }

    /// Grants the first waiting minimum if it fits (4.4).
    fn grant(&mut self, now: Instant, q: u32) {
        let own = self.time_of(q, now);
        let class = &mut self.classes[q];
        let Some((&line, &at)) = class.waiting.first_key_value() else { return };
        let minimum = self.flows[at].profile().minimum;
        let fits = minimum <= class.shares.unpromised();
        if !fits || self.shard.as_deref().is_some_and(|shard| !shard.promise(q, minimum)) {
            class.unsettled = false;
            return;
        }
        class.waiting.remove(&line);
        class.change(&mut self.flows, at, own, |_, _, _| true);
        self.choose(q, now);
    }

    /// Whether the flow would get at least `least` in class `to`, its minimum included.
    fn has_room(&self, to: u32, at: u32, least: Rate) -> bool {
        let (shares, flow) = (&self.classes[to].shares, &self.flows[at]);
        let minimum = flow.stake().minimum;
        minimum <= shares.unpromised() && shares.prospect(flow.stake().plain).max(minimum) >= least
    }

    /// Displaces flows whose share fell below their threshold to a class in which they would get it.
    fn displace(&mut self, now: Instant, q: u32, out: &mut dyn Outlet<P>) {
        for _ in 0..MOVES_A_CALL {
            let class = &self.classes[q];
            let mover = class.thresholds.iter().rev().take(MOVES_A_CALL).find_map(|&(ratio, at)| {
                let wanted = self.flows[at].displace()?;
                (class.shares.common_below(ratio)
                    && self.flows[at].stake().minimum < wanted.below
                    && wanted.to != q
                    && self.has_room(wanted.to, at, wanted.below))
                .then_some((at, wanted.to))
            });
            let Some((at, to)) = mover else { break };
            self.transfer(now, at, to, out);
            let key = self.flows[at].key;
            self.classes[q].away.push_back(key);
        }
    }

    /// Returns the flow that was displaced from here first if there is enough rate, with hysteresis.
    fn recall(&mut self, now: Instant, q: u32, out: &mut dyn Outlet<P>) {
        let Some(&key) = self.classes[q].away.front() else { return };
        let back = self.flows.find(key).filter(|&at| {
            let flow = &self.flows[at];
            flow.home == q && flow.is_displaced()
        });
        let Some(at) = back else {
            // It ended, or has another class now.
            self.classes[q].away.pop_front();
            return;
        };
        let flow = &self.flows[at];
        let below = flow.displace().map_or(Rate::ZERO, |displace| displace.below);
        let least = Rate::from_bps(below.as_bps().saturating_mul(RETURN_EIGHTHS) / 8);
        let moved = flow.special.as_deref().map_or(Instant::ZERO, |special| special.moved);
        if now.since(moved) >= AWAY_AT_LEAST && self.has_room(q, at, least) {
            self.classes[q].away.pop_front();
            self.transfer(now, at, q, out);
        }
    }

    /// Requests a minimum rate for the flow `key`; a rate of zero ends it. Nothing else of the flow changes.
    ///
    /// # Errors
    /// [`NoSuchFlow`].
    pub fn set_minimum(&mut self, now: Instant, key: u64, minimum: Rate) -> Result<Promise, NoSuchFlow> {
        let now = now.max(self.now);
        let at = self.flows.find(key).ok_or(NoSuchFlow)?;
        let q = self.flows[at].class;
        let (line, own) = (self.line, self.time_of(q, now));
        self.line += 1;
        let class = &mut self.classes[q];
        let shard = self.shard.as_deref();
        let (mut promise, mut before) = (Promise::Granted, 0);
        class.change(&mut self.flows, at, own, |special, granted, shares| {
            before = special.waiting_since;
            if let Some(shard) = shard.filter(|_| granted) {
                shard.release(q, special.profile.minimum);
            }
            special.profile.minimum = minimum;
            let granted = !minimum.is_zero()
                && minimum <= shares.unpromised()
                && shard.is_none_or(|shard| shard.promise(q, minimum));
            if !granted && !minimum.is_zero() {
                special.waiting_since = line;
                promise = Promise::Waiting { free: Rate::ZERO };
            }
            granted
        });
        class.waiting.remove(&before);
        if let Promise::Waiting { free } = &mut promise {
            class.waiting.insert(line, at);
            *free = class.shares.unpromised();
        }
        self.choose(q, now);
        Ok(promise)
    }

    /// Sets the preference of the flow `key` to `steps` steps of `incr`, zero for none. While preferred it gets this
    /// part of the rate of its class beyond its share, whichever flows join or leave, at most what is free (4.5).
    ///
    /// # Errors
    /// [`NoSuchFlow`].
    pub fn prefer(&mut self, now: Instant, key: u64, steps: u32) -> Result<(), NoSuchFlow> {
        let now = now.max(self.now);
        let at = self.flows.find(key).ok_or(NoSuchFlow)?;
        let q = self.flows[at].class;
        let own = self.time_of(q, now);
        self.classes[q].change(&mut self.flows, at, own, |special, granted, _| {
            special.preferred = steps;
            granted
        });
        self.choose(q, now);
        Ok(())
    }

    /// Sets the lateness that is compensated; see [`FbcParams`](super::FbcParams::catch_up).
    pub fn set_catch_up(&mut self, catch_up: Span) {
        self.params.catch_up = catch_up;
    }

    /// The classes, in the order of their indices.
    pub fn classes(&self) -> impl Iterator<Item = ClassView> + '_ {
        (0..).zip(self.classes.values()).map(|(q, class)| self.class_view(class, self.unpromised(ClassId(q))))
    }

    /// The state of one class.
    pub fn class(&self, class: ClassId) -> Option<ClassView> {
        self.classes.get(class.0).map(|of| self.class_view(of, self.unpromised(class)))
    }

    /// The ceiling that all packets of a class waited for when a packet last arrived or left, as in [`ClassView::held_by`].
    #[inline]
    pub fn held_by(&self, class: ClassId) -> Option<HeldBy> {
        self.class_held_by(self.classes.get(class.0)?)
    }

    /// Whether `class` has `most` packets queued or more, and the flow in the slot `at` an equal part of `most` among the flows with
    /// a queue. Never for a flow without a queue or with a granted minimum.
    pub fn is_crowded(&self, class: ClassId, at: Option<u32>, most: u64) -> bool {
        let (Some(class), Some(at)) = (self.classes.get(class.0), at) else { return false };
        let flow = &self.flows[at];
        let part = (most / class.queued.max(1)).max(1);
        !flow.granted && class.backlog.packets >= most && flow.backlog.packets >= part
    }

    /// The levels of the buckets for packets of class `id` at `now`.
    pub fn levels(&self, now: Instant, id: ClassId) -> Option<Levels> {
        let class = self.classes.get(id.0)?;
        let bucket = &class.bucket;
        Some(Levels {
            ceiling: class.ceiling.map(|ceiling| (ceiling.level(now), ceiling.depth())),
            class: bucket.level(self.time_of(id.0, now)),
            class_depth: bucket.depth(),
            all: self.root.level(now),
            all_depth: self.root.depth(),
        })
    }

    /// The state of the flow `key`.
    pub fn flow(&self, key: u64) -> Option<FlowView> {
        self.flows.find(key).map(|at| self.view(at))
    }

    /// The states of all flows. Cost: linear, for the control plane.
    pub fn flows(&self) -> impl Iterator<Item = FlowView> + '_ {
        self.flows.indices().map(|at| self.view(at))
    }

    /// The most that a flow of `class` may send over time, while all others are idle: d(q), or with borrowing the total, and no
    /// more than each ceiling of the class. `None` when there is no such class.
    pub fn ceiling(&self, class: ClassId) -> Option<Rate> {
        let params = &self.classes.get(class.0)?.params;
        let rate = if params.borrow == Borrow::FromOthers { self.params.rate } else { params.rate };
        let Ceilings { class, host, flow } = params.at_most;
        Some([class, host, flow].into_iter().flatten().map(|ceiling| ceiling.rate).fold(rate, Rate::min))
    }

    /// [`Fbc::ceiling`] for the flow `key` of `class`: no more than the ceiling of its rule as well, where it has one.
    pub fn ceiling_of(&self, key: u64, class: ClassId) -> Option<Rate> {
        let at = self.flows.find(key);
        let class = at.map_or(class, |at| ClassId(self.flows[at].class));
        let own = at.and_then(|at| Some(self.classes.get(class.0)?.ceiling_of(&self.flows[at])));
        self.ceiling(class).map(|rate| own.map_or(rate, |own| own.min(rate)))
    }

    /// d(f) of a flow of `class` and the profile of this number, if it began now. `None` when there is no such class.
    pub fn prospect(&self, class: ClassId, profile: u32) -> Option<Rate> {
        let (class, profile) = (self.classes.get(class.0)?, self.profile(profile));
        Some(class.shares.prospect(profile.weight).max(profile.minimum))
    }

    /// The rate at which flow `key` sends, or would send as a new flow of `class`, if the others continue as now: its
    /// nominal rate, or an equal part of the class among backlogged flows if that is more and spare rate is shared.
    /// `None` when there is no such class.
    pub fn outlook(&self, key: u64, class: ClassId) -> Option<Rate> {
        self.outlook_at(self.flows.find(key), class)
    }

    /// [`Fbc::outlook`] of the flow in a slot that [`Fbc::find`] has returned.
    pub fn outlook_at(&self, at: Option<u32>, class: ClassId) -> Option<Rate> {
        let q = self.classes.get(at.map_or(class.0, |at| self.flows[at].class))?;
        let promised = match at {
            Some(at) => q.nominal(&self.flows[at]),
            None => q.shares.prospect(super::shares::WEIGHT_ONE),
        };
        let waits = at.is_some_and(|at| !self.flows[at].backlog.is_empty());
        let queued = q.rivals(at.map(|at| &self.flows[at]), !waits);
        let alone = match q.params.spare {
            Spare::Shared => promised.max(Rate::from_bps(q.params.rate.as_bps() / queued.max(1))),
            Spare::Idle => promised,
        };
        Some(alone.min(at.map_or_else(|| q.flow_ceiling(), |at| q.ceiling_of(&self.flows[at]))))
    }

    fn view(&self, at: u32) -> FlowView {
        let flow = &self.flows[at];
        FlowView {
            key: flow.key,
            class: ClassId(flow.class),
            home: ClassId(flow.home),
            profile: flow.profile_index,
            rate: self.classes[flow.class].nominal(flow),
            minimum: flow.profile().minimum,
            granted: flow.granted,
            preferred: flow.preferred(),
            own: flow.own(),
            head_arrived: (!flow.backlog.is_empty()).then_some(flow.since),
            backlog: flow.backlog,
            held_by: self.classes[flow.class].held_by(flow, self.now),
            counts: flow.counts(),
        }
    }

    fn class_held_by(&self, class: &Class) -> Option<HeldBy> {
        let next = class.candidate.filter(|candidate| candidate.ready > self.now)?;
        class.held_by(&self.flows[next.flow], self.now)
    }

    fn class_view(&self, class: &Class, unpromised: Rate) -> ClassView {
        ClassView {
            rate: class.params.rate,
            flows: class.shares.flows(),
            unpromised,
            waiting: class.waiting.len(),
            away: class.away.len(),
            backlog: class.backlog,
            borrowed: class.borrowed,
            held_by: self.class_held_by(class),
        }
    }
}
