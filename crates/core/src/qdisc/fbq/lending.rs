//! Borrowing by classes with strict shares: d(q) as a function of time.
//!
//! *Law*: a class uses its rate from the arrival of a packet until no packet is queued and its bucket is full again;
//! otherwise it lends. The rate that classes lend, and what the total has beyond the classes, is divided in proportion
//! to their rates among the borrowing classes that use theirs. So the rates d(q) of the classes that use theirs add up to
//! at most the total, and a flow of a borrowing class never has more than its share of the present d(q).
//! *Source*: FBQ paper, (5.1), in which d(q) has the time of the calculation, and section 4: unused resources of an FBQ
//! are used by other FBQs.
//!
//! # How
//! All borrowing classes have d(q) = r(q) (1 + L / B), where r(q) is the configured rate, L the rate that is lent, and B
//! the sum of r(q) over the classes that borrow it: the factor is common. So one clock X, which runs faster than time by
//! this factor, serves all of them: V, the buckets and the due times of these classes are in X, with the rate r(q). When
//! the factor changes, no class changes its place in the order; only the first is converted to time again.
//!
//! A class counts as one that uses its rate also while all its packets wait for ceilings. A class that borrows with strict
//! shares has no ceiling itself, since it would hold in X.
//!
//! A class that has become idle begins to lend with the first arrival or departure after its bucket is full. So borrowing
//! never begins too early, there is no event between calls, and a call in vain changes nothing.

use alloc::boxed::Box;
use alloc::vec::Vec;

use super::class::Class;
use super::class_order::ClassOrder;
use super::deciders::Clock;
use super::fbc::Fbc;
use super::flow::Flows;
use super::params::{Borrow, ClassParams, Spare};
use crate::bucket::TokenBucket;
use crate::heap::{Heap, NOWHERE};
use crate::packet::Packet;
use crate::slab::Slab;
use tidegate_units::{Instant, Rate};

/// The state of a class.
#[derive(Clone, Copy, Debug)]
struct Part {
    rate: Rate,
    /// Whether it borrows, and whether its shares are strict, so that its times are in X.
    borrows: bool,
    strict: bool,
    uses: bool,
    /// The position among those that will lend.
    at: u32,
}

/// The rate that classes lend, and the clock of those that borrow it with strict shares. See the [module](self).
#[derive(Clone, Debug)]
pub(super) struct Lending {
    total: Rate,
    /// X.
    clock: Clock,
    parts: Vec<Part>,
    /// The sum of the rates of classes that use theirs, and of those among them that borrow.
    used: Rate,
    borrowing: Rate,
    /// Idle classes that still use their rate, by the time at which their buckets are full.
    filling: Heap<Instant>,
    /// The order of the strict borrowers, by X.
    order: ClassOrder,
}

/// Whether a class borrows with strict shares.
pub(super) fn is_strict_borrower(params: &ClassParams) -> bool {
    params.spare == Spare::Idle && params.borrow == Borrow::FromOthers
}

impl Lending {
    /// All classes lend, and X is `x` at `now`. `None` if no class borrows with strict shares.
    pub fn new(now: Instant, x: Instant, total: Rate, classes: &Slab<u32, Class>) -> Option<Box<Self>> {
        if !classes.values().any(|class| is_strict_borrower(&class.params)) {
            return None;
        }
        let part = |class: &Class| Part {
            rate: class.params.rate,
            borrows: class.params.borrow == Borrow::FromOthers,
            strict: is_strict_borrower(&class.params),
            uses: false,
            at: NOWHERE,
        };
        let parts: Vec<Part> = classes.values().map(part).collect();
        let priorities: Vec<u32> = classes.values().map(|class| class.params.priority).collect();
        let (used, borrowing) = (Rate::ZERO, Rate::ZERO);
        Some(Box::new(Self {
            total,
            clock: Clock::new(x, now),
            parts,
            used,
            borrowing,
            filling: Heap::new(),
            order: ClassOrder::new(priorities.into_iter()),
        }))
    }

    /// Whether the times of class `q` are in X.
    #[inline]
    pub fn is_of(&self, q: u32) -> bool {
        self.parts[q as usize].strict
    }

    /// X at `t`; before the last change of the factor as at that time.
    pub fn x(&self, t: Instant) -> Instant {
        self.clock.shows(t)
    }

    /// The first instant, not before the last change of the factor, at which X is `x` or more.
    pub fn instant(&self, x: Instant) -> Instant {
        self.clock.reaches(x)
    }

    /// Class `q` has a queue at `now`.
    fn uses(&mut self, now: Instant, q: u32) {
        let Self { parts, filling, .. } = self;
        let position = parts[q as usize].at;
        if position != NOWHERE {
            filling.remove(position, &mut |q: u32, at| parts[q as usize].at = at);
        }
        if !parts[q as usize].uses {
            self.count(now, q, true);
        }
    }

    /// Class `q` has no queue, and its bucket is full at `full`.
    fn fills(&mut self, q: u32, full: Instant) {
        let Self { parts, filling, .. } = self;
        if parts[q as usize].uses {
            let position = parts[q as usize].at;
            filling.set(position, full, q, &mut |q: u32, at| parts[q as usize].at = at);
        }
    }

    /// Lets the classes lend whose buckets are full at `now`; returns whether there are any.
    fn expire(&mut self, now: Instant) -> bool {
        let mut any = false;
        while let Some((full, q)) = self.filling.peek()
            && full <= now
        {
            let Self { parts, filling, .. } = self;
            let position = parts[q as usize].at;
            filling.remove(position, &mut |q: u32, at| parts[q as usize].at = at);
            self.count(now, q, false);
            any = true;
        }
        any
    }

    /// Counts class `q` among those that use their rates, or no longer, and changes the factor.
    fn count(&mut self, now: Instant, q: u32, uses: bool) {
        let part = &mut self.parts[q as usize];
        part.uses = uses;
        let change = |sum: &mut Rate| *sum = if uses { *sum + part.rate } else { sum.saturating_sub(part.rate) };
        change(&mut self.used);
        if part.borrows {
            change(&mut self.borrowing);
        }
        self.clock.lend(now, self.borrowing, self.total.saturating_sub(self.used));
    }

    /// The first of the strict borrowers by time, if it is due before `due`; otherwise `due` and `first`.
    pub fn earlier(&self, due: Instant, first: u32) -> (Instant, u32) {
        match self.order.first().map(|(x, q, _)| (self.instant(x), q)) {
            Some(own) if own.0 < due => own,
            _ => (due, first),
        }
    }

    /// The strict borrower of the best priority that is due at `now`.
    pub fn best(&mut self, now: Instant) -> Option<u32> {
        let x = self.x(now);
        self.order.first().filter(|(due, ..)| *due <= x)?;
        self.order.best(x)
    }

    /// Updates the position of class `q`, a strict borrower, in the order.
    pub fn place(&mut self, q: u32, class: &Class) {
        match class.candidate {
            Some(candidate) => self.order.set(q, candidate.due, class.params.priority, None, None),
            None => self.order.clear(q),
        }
    }
}

impl Class {
    /// Moves the times of the class from a clock that shows `from` to one that shows `to`.
    fn change_clock(&mut self, flows: &mut Flows, q: u32, from: Instant, to: Instant) {
        self.settle(from);
        self.restart(to);
        let moved = |bucket: &TokenBucket| {
            let mut moved = TokenBucket::full(bucket.rate(), bucket.depth(), to);
            moved.limit(to, bucket.level(from));
            moved
        };
        self.bucket = moved(&self.bucket);
        // No flow of such a class has a ceiling, so that nothing waits in its groups.
        if let Some(hosts) = &mut self.hosts {
            hosts.time = to;
        }
        let own: Vec<u32> = flows.indices().filter(|&at| flows[at].class == q).collect();
        for at in own {
            if let Some(special) = flows[at].special.as_deref_mut() {
                special.guarantee = moved(&special.guarantee);
                if !flows[at].backlog.is_empty() {
                    self.key(flows, at);
                }
            }
        }
    }
}

impl<P: Packet> Fbc<P> {
    /// The time `t` as class `q` counts it.
    #[inline]
    pub(super) fn time_of(&self, q: u32, t: Instant) -> Instant {
        match &self.lending {
            Some(lending) if lending.is_of(q) => lending.x(t),
            _ => t,
        }
    }

    /// To be called when class `q` may have got its first packet or lost its last one.
    pub(super) fn use_changed(&mut self, now: Instant, q: u32) {
        let Some(lending) = &mut self.lending else { return };
        let class = &self.classes[q];
        if class.backlog.is_empty() {
            let own = if lending.is_of(q) { lending.x(now) } else { now };
            // With a bucket that never fills, the class has no rate to lend.
            let full = class.bucket.time_for(own, class.bucket.depth()).unwrap_or(own);
            // In X it is full as soon or sooner.
            lending.fills(q, now + full.since(own));
        } else {
            lending.uses(now, q);
        }
        lending.expire(now);
        self.find_openings();
    }

    /// Lets the classes lend that have come to do so by `now`.
    #[inline(always)]
    pub(super) fn update_lending(&mut self, now: Instant) {
        if self.lending.is_some() {
            self.expire_lending(now);
        }
    }
    #[inline(never)]
    fn expire_lending(&mut self, now: Instant) {
        if self.lending.as_mut().is_some_and(|lending| lending.expire(now)) {
            self.find_openings();
        }
    }

    /// To be called before the classes get the parameters `classes`: those that will not borrow with strict shares any more
    /// cease to do so, because the ceilings that they may get are in real time.
    pub(super) fn stop_strict_borrowing(&mut self, now: Instant, classes: &[ClassParams]) {
        let mut any = false;
        for (q, wanted) in (0..).zip(classes) {
            let params = &mut self.classes[q].params;
            if is_strict_borrower(params) && !is_strict_borrower(wanted) {
                params.borrow = Borrow::Never;
                any = true;
            }
        }
        if any {
            self.renew_lending(now);
        }
    }

    /// To be called when rates, or the way in which classes share and borrow, have changed. Cost: linear in classes, and
    /// in flows where a class begins or ends to borrow with strict shares.
    pub(super) fn renew_lending(&mut self, now: Instant) {
        // The credit of a shard is that of its pool, which knows nothing of flows.
        if self.shard.is_some() {
            return;
        }
        let x = self.lending.as_ref().map_or(now, |lending| lending.x(now));
        let fresh = Lending::new(now, x, self.params.rate, &self.classes);
        if self.lending.is_none() && fresh.is_none() {
            return;
        }
        let before = core::mem::replace(&mut self.lending, fresh);
        for q in self.classes.all() {
            let is_of = |lending: &Option<Box<Lending>>| lending.as_ref().is_some_and(|lending| lending.is_of(q));
            let (was, is) = (is_of(&before), is_of(&self.lending));
            if was != is {
                let (from, to) = if was { (x, now) } else { (now, x) };
                self.classes[q].change_clock(&mut self.flows, q, from, to);
            }
            if is {
                self.class_order.clear(q);
            }
            self.rechoose(q, now);
            // Its bucket need not be full.
            if let Some(lending) = &mut self.lending {
                lending.uses(now, q);
            }
            self.use_changed(now, q);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::random::Stream;

    /// Whatever was lent before, the clock never runs back, is no slower than time, and reaches what it shows at the first
    /// instant at which it shows it.
    #[test]
    fn the_clock_reaches_first_what_it_shows() {
        let mut random = Stream::named(1, "clock");
        let mut clock = Clock::new(Instant::ZERO, Instant::ZERO);
        let mut now = 0;
        for _ in 0..10_000 {
            now += random.below(1 << 30);
            let (borrowing, spare) = (random.below(3) * random.below(1 << 36), random.below(2) * random.below(1 << 36));
            let before = clock.shows(Instant::from_nanos(now));
            clock.lend(Instant::from_nanos(now), Rate::from_bps(borrowing), Rate::from_bps(spare));
            let shown = clock.shows(Instant::from_nanos(now));
            assert!(before == shown && shown >= Instant::from_nanos(now));
            let wanted = Instant::from_nanos(shown.as_nanos() + random.below(1 << 34));
            let reached = clock.reaches(wanted).as_nanos();
            assert!(clock.shows(Instant::from_nanos(reached)) >= wanted);
            assert!(reached == now || clock.shows(Instant::from_nanos(reached - 1)) < wanted);
            // 3 Mbit/s that borrow 1 Mbit/s run by a third faster.
            clock.lend(Instant::from_nanos(now), Rate::from_mbit(3), Rate::from_mbit(1));
            let later = clock.shows(Instant::from_nanos(now + 3_000)).as_nanos();
            assert_eq!(later - shown.as_nanos(), 4_000);
        }
    }
}
