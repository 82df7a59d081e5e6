//! Changes of parameters at run time, and the state that a shaper takes over from its predecessor.

use alloc::vec::Vec;

use super::ceiling::{Ceiling, Ceilings};
use super::error::ParamError;
use super::fbc::{Fbc, FbcParams};
use super::hosts::FairBy;
use super::lending::is_strict_borrower;
use super::params::{ClassParams, Spare};
use super::profile::Profile;
use crate::packet::{ClassId, Packet};
use tidegate_units::{Credit, Instant, Rate};

/// Checks that the parameters are consistent.
pub(super) fn check(total: &FbcParams, classes: &[ClassParams], profiles: &[Profile]) -> Result<(), ParamError> {
    let sum: Rate = classes.iter().map(|class| class.rate).sum();
    if classes.is_empty() {
        return Err(ParamError::NoClass);
    }
    if sum > total.rate {
        return Err(ParamError::SumExceedsTotal { sum, total: total.rate });
    }
    for (class, params) in (0..).zip(classes) {
        if params.burst == tidegate_units::Bytes::ZERO {
            return Err(ParamError::ZeroBurst { class });
        }
        if params.spare == Spare::Idle && total.fair_by != FairBy::Flow {
            return Err(ParamError::StrictHosts { class });
        }
        let at_most = &params.at_most;
        if at_most.class.is_some_and(|ceiling| ceiling.rate < params.rate) {
            return Err(ParamError::CeilingBelowRate { class });
        }
        if at_most.host.is_some() && total.fair_by == FairBy::Flow {
            return Err(ParamError::NoHosts { class });
        }
        let of_flows = at_most.flow.is_some() || profiles.iter().any(|profile| profile.at_most.is_some());
        if params.spare == Spare::Idle && of_flows {
            return Err(ParamError::StrictCeiling { class });
        }
        if is_strict_borrower(params) && at_most.class.is_some() {
            return Err(ParamError::StrictBorrowerCeiling { class });
        }
    }
    for (profile, wanted) in (0..).zip(profiles) {
        if let Some(displace) = wanted.displace {
            if displace.to as usize >= classes.len() {
                return Err(ParamError::NoSuchTarget { profile });
            }
            if displace.below <= wanted.minimum {
                return Err(ParamError::ThresholdBelowMinimum { profile });
            }
        }
    }
    Ok(())
}

impl<P: Packet> Fbc<P> {
    /// Sets other parameters from `now` on, for the same number of classes. Queued packets are not touched, even
    /// beyond new limits; buckets keep their level, within new depths; flows keep their positions, preferences and
    /// promises. A flow with the profile of its rule gets the rule's new one; a flow whose owner requested other
    /// settings keeps them. The compensated lateness ([`FbcParams::catch_up`]) does not change.
    ///
    /// *Cost*: linear in classes, and in flows where profiles or rates change.
    ///
    /// # Errors
    /// When the parameters are inconsistent, or the number of classes or what shares them differs; then nothing has
    /// changed.
    pub fn change(
        &mut self,
        now: Instant,
        params: FbcParams,
        classes: &[ClassParams],
        profiles: Vec<Profile>,
    ) -> Result<(), ParamError> {
        check(&params, classes, &profiles)?;
        if classes.len() != self.classes.slots() as usize {
            return Err(ParamError::NumberOfClasses { now: self.classes.slots() as usize, asked: classes.len() });
        }
        if params.fair_by != self.params.fair_by {
            return Err(ParamError::FairBy);
        }
        let now = now.max(self.now);
        self.now = now;
        self.stop_strict_borrowing(now, classes);
        let total = self.params.rate.max(params.rate);
        self.change_rate(now, total);
        // Shrinking classes first, so that the sum never exceeds the total.
        let shrinks = |(q, class): &(u32, &ClassParams)| class.rate <= self.classes[*q].params.rate;
        let (down, up): (Vec<_>, Vec<_>) = (0..).zip(classes).partition(shrinks);
        for (q, class) in down.into_iter().chain(up) {
            self.change_class(now, q, *class);
        }
        self.change_rate(now, params.rate);
        self.root.set_depth(now, params.burst);
        self.root_changed();
        self.params = FbcParams { catch_up: self.params.catch_up, ..params };
        self.forgets_at = now;
        self.pool_changes(now);
        self.change_profiles(now, profiles);
        // A class begins to borrow with strict shares once none of its flows has a ceiling.
        self.renew_lending(now);
        Ok(())
    }

    /// Sets the rate of a class; queued packets are not touched. Minimums that no longer fit wait again, those of the
    /// youngest flows first. Cost: linear in the flows when that happens.
    ///
    /// Returns `false` and changes nothing when there is no such class, the rate exceeds the ceiling of the class, or the sum
    /// of the classes would exceed the total.
    pub fn set_class_rate(&mut self, now: Instant, class: ClassId, rate: Rate) -> bool {
        let changed = self.change_class_rate(now, class, rate);
        self.renew_lending(now.max(self.now));
        self.pool_changes(now.max(self.now));
        changed
    }
    /// [`Fbc::set_class_rate`] without the pool.
    fn change_class_rate(&mut self, now: Instant, class: ClassId, rate: Rate) -> bool {
        let now = now.max(self.now);
        let others: Rate =
            (0..).zip(self.classes.values()).filter(|(q, _)| *q != class.0).map(|(_, class)| class.params.rate).sum();
        if class.0 >= self.classes.slots() || others + rate > self.params.rate {
            return false;
        }
        let most = self.classes[class.0].params.at_most.class;
        if most.is_some_and(|ceiling| ceiling.rate < rate) {
            return false;
        }
        let own = self.time_of(class.0, now);
        let q = &mut self.classes[class.0];
        q.settle(own);
        let shard = self.shard.as_deref();
        while q.shares.rate().saturating_sub(q.shares.unpromised()) > rate
            || shard.is_some_and(|shard| shard.promised(class.0) > rate)
        {
            let flows = &mut self.flows;
            let youngest = flows.indices().filter(|&at| flows[at].class == class.0 && flows[at].granted).max();
            let Some(at) = youngest else { break };
            let line = self.line;
            self.line += 1;
            q.change(flows, at, own, |special, _, _| {
                special.waiting_since = line;
                if let Some(shard) = shard {
                    shard.release(class.0, special.profile.minimum);
                }
                false
            });
            q.waiting.insert(line, at);
        }
        q.params.rate = rate;
        q.bucket.set_rate(own, rate);
        q.shares.set_rate(rate);
        q.shares_changed();
        self.rechoose(class.0, now);
        true
    }

    /// Sets the total, at least the sum of the classes (otherwise returns `false` and changes nothing).
    pub fn set_rate(&mut self, now: Instant, rate: Rate) -> bool {
        let changed = self.change_rate(now, rate);
        self.renew_lending(now.max(self.now));
        self.pool_changes(now.max(self.now));
        changed
    }
    /// [`Fbc::set_rate`] without the pool.
    fn change_rate(&mut self, now: Instant, rate: Rate) -> bool {
        let now = now.max(self.now);
        if self.classes.values().map(|class| class.params.rate).sum::<Rate>() > rate {
            return false;
        }
        self.params.rate = rate;
        self.root.set_rate(now, rate);
        self.root_changed();
        true
    }

    /// To be called when rates or bursts have changed.
    pub(super) fn pool_changes(&mut self, now: Instant) {
        let Some(shard) = &self.shard else { return };
        shard.change(now, (self.params.rate, self.params.burst), &self.classes);
        // A class may have got a rate.
        self.classes.all().for_each(|q| self.rechoose(q, now));
    }

    fn change_class(&mut self, now: Instant, q: u32, params: ClassParams) {
        let id = ClassId(q);
        if self.classes[q].params == params {
            return;
        }
        let of = |at_most: Ceilings| (at_most.host, at_most.flow);
        let regroups = of(self.classes[q].params.at_most) != of(params.at_most);
        // The new rate may be above the old ceiling.
        self.classes[q].params.at_most = params.at_most;
        if self.classes[q].params.rate != params.rate {
            self.change_class_rate(now, id, params.rate);
        }
        if self.classes[q].params.borrow != params.borrow {
            self.start_borrowing(q);
        }
        let own = self.time_of(q, now);
        let class = &mut self.classes[q];
        class.settle(own);
        class.bucket.set_depth(own, params.burst);
        Ceiling::set(params.at_most.class, &mut class.ceiling, now);
        class.params = params;
        if regroups {
            self.regroup(now, q);
        }
        self.class_order.allow(params.priority);
        let class = &mut self.classes[q];
        class.shares_changed();
        class.step_changed(&mut self.flows, own);
        self.rechoose(id.0, now);
    }

    /// The ceilings of hosts or flows of class `q` have changed: each of its flows joins it again.
    fn regroup(&mut self, now: Instant, q: u32) {
        let flows: Vec<u32> = self.flows.indices().filter(|&at| self.flows[at].class == q).collect();
        for at in flows {
            self.set_profile(now, at, self.flows[at].profile());
        }
    }

    fn change_profiles(&mut self, now: Instant, profiles: Vec<Profile>) {
        let old = core::mem::replace(&mut self.profiles, profiles);
        if old == self.profiles {
            return;
        }
        let flows: Vec<u32> = self.flows.indices().collect();
        for at in flows {
            let flow = &self.flows[at];
            let index = flow.profile_index as usize;
            let before = old.get(index).copied().unwrap_or_default();
            let after = self.profiles.get(index).copied().unwrap_or_default();
            let own = flow.profile();
            // What the owner of a flow may set for it, its ceiling is no part of.
            let wanted = if own == before { after } else { Profile { at_most: after.at_most, ..own } };
            if before != after && wanted != own {
                self.set_profile(now, at, wanted);
            }
        }
    }

    /// Takes over the used credit from `old`: the buckets of the total, and of each class and its ceiling for which `predecessor`
    /// returns a class of `old`, have at most the level they had. For a shaper without queued packets.
    pub fn succeed<O: Packet>(&mut self, now: Instant, old: &Fbc<O>, predecessor: impl Fn(ClassId) -> Option<ClassId>) {
        self.limit_allowance(now, old.allowance(now));
        for q in self.classes.all() {
            let before = predecessor(ClassId(q)).and_then(|id| Some((id.0, old.classes.get(id.0)?)));
            if let Some((id, before)) = before {
                let (own, level) = (self.time_of(q, now), before.bucket.level(old.time_of(id, now)));
                let class = &mut self.classes[q];
                class.bucket.limit(own, level);
                if let (Some(new), Some(before)) = (&mut class.ceiling, &before.ceiling) {
                    new.limit(now, before.level(now));
                }
            }
        }
    }

    /// The credit with which packets may leave at `now`, beyond what the total earns from now on.
    pub fn allowance(&self, now: Instant) -> Credit {
        self.root.level(now.max(self.now))
    }

    /// Limits the credit at `now` to `allowance`.
    pub fn limit_allowance(&mut self, now: Instant, allowance: Credit) {
        self.root.limit(now.max(self.now), allowance);
        self.root_changed();
    }
}
