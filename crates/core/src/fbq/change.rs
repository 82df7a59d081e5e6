//! Other parameters for a shaper that goes on, and what a shaper takes over from the one whose place it takes.

use alloc::vec::Vec;

use super::class::{Borrow, ClassParams, Spare};
use super::fbc::{Fbc, FbcParams, ParamError};
use super::flow::Profile;
use crate::packet::{ClassId, Packet};
use tidegate_units::{Credit, Instant, Rate};

/// Whether these parameters can be.
pub(super) fn check(params: &FbcParams, classes: &[ClassParams], profiles: &[Profile]) -> Result<(), ParamError> {
    let sum: Rate = classes.iter().map(|class| class.rate).sum();
    if classes.is_empty() {
        return Err(ParamError::NoClass);
    }
    if sum > params.rate {
        return Err(ParamError::SumExceedsTotal { sum, total: params.rate });
    }
    for (class, params) in (0..).zip(classes) {
        if params.burst == tidegate_units::Bytes::ZERO {
            return Err(ParamError::ZeroBurst { class });
        }
        if params.spare == Spare::Idle && params.borrow == Borrow::FromOthers {
            return Err(ParamError::StrictBorrower { class });
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
    /// Other parameters from `now` on, for the same number of classes. Nothing that waits is touched, also beyond new
    /// limits; buckets keep what they have, within new depths; flows keep their places, preferences and promises. A flow
    /// with the profile of its rule gets the rule's new one; one whose owner asked for something else keeps that. The
    /// lateness that is made up for ([`FbcParams::catch_up`]) stays.
    ///
    /// *Cost*: linear in classes, and in flows where profiles or rates change.
    ///
    /// # Errors
    /// When the parameters contradict each other or there are more or fewer classes; nothing has changed then.
    pub fn change(
        &mut self,
        now: Instant,
        params: FbcParams,
        classes: &[ClassParams],
        profiles: Vec<Profile>,
    ) -> Result<(), ParamError> {
        check(&params, classes, &profiles)?;
        if classes.len() != self.classes.len() {
            return Err(ParamError::NumberOfClasses { now: self.classes.len(), asked: classes.len() });
        }
        let now = now.max(self.now);
        self.now = now;
        let total = self.params.rate.max(params.rate);
        self.set_rate(now, total);
        // Those that shrink first, so that the sum never exceeds the total.
        let shrinks = |class: &Self, q: usize| classes[q].rate <= class.classes[q].params.rate;
        let (down, up): (Vec<usize>, Vec<usize>) = (0..classes.len()).partition(|&q| shrinks(self, q));
        for q in down.into_iter().chain(up) {
            self.change_class(now, q, classes[q]);
        }
        self.set_rate(now, params.rate);
        self.root.set_depth(now, params.burst);
        self.params = FbcParams { catch_up: self.params.catch_up, ..params };
        self.change_profiles(now, profiles);
        Ok(())
    }

    fn change_class(&mut self, now: Instant, q: usize, params: ClassParams) {
        let id = ClassId(q as u32);
        if self.classes[q].params == params {
            return;
        }
        if self.classes[q].params.rate != params.rate {
            self.set_class_rate(now, id, params.rate);
        }
        let class = &mut self.classes[q];
        class.settle(now);
        class.bucket.set_depth(now, params.burst);
        class.params = params;
        class.shares_changed();
        class.step_changed(&mut self.flows, now);
        self.rechoose(id.0, now);
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
            if before != after && flow.profile == before {
                self.set_profile(now, at, after);
            }
        }
    }

    /// Takes over from `old` what has been used: the bucket of the total, and of each class for which `predecessor` names
    /// one there, hold no more than they did. For a shaper in which nothing waits yet.
    pub fn succeed<O: Packet>(&mut self, now: Instant, old: &Fbc<O>, predecessor: impl Fn(ClassId) -> Option<ClassId>) {
        self.limit_allowance(now, old.allowance(now));
        for q in 0..self.classes.len() {
            let before = predecessor(ClassId(q as u32)).and_then(|id| old.classes.get(id.0 as usize));
            if let Some(before) = before {
                self.classes[q].bucket.limit(now, before.bucket.level(now));
            }
        }
    }

    /// What may leave at once now, beyond what the total earns from now on.
    pub fn allowance(&self, now: Instant) -> Credit {
        self.root.level(now.max(self.now))
    }

    /// No more than `allowance` may leave at once at `now`.
    pub fn limit_allowance(&mut self, now: Instant, allowance: Credit) {
        self.root.limit(now.max(self.now), allowance);
    }
}
