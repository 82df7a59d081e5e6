//! Terms: what was granted to a single flow at run time, in addition to its profile.
//!
//! *Law*: a flow with terms has the larger of both minimums, the displacement of its terms if they specify one, and
//! its steps of preference, in whatever class it is. Without terms it has the settings of its profile again. Rate
//! that is held for future flows ([`Fbc::hold`]) is not granted to any other flow.
//! *Source*: FBQ paper, section 4.2 (preference, displacement) and equations (4.4), (4.5).
//! *Units*: rates in bit/s; a step of preference is the `incr` of the class.
//! *Cost*: O(log n) per change, nothing per packet.
//! *See also*: [`Profile`](super::Profile), the settings that the configuration specifies for all flows of a rule.

use tidegate_units::{Bytes, Instant, Rate};

use super::control::{NoSuchFlow, Promise};
use super::fbc::Fbc;
use super::flow::{Flow, record};
use super::profile::Terms;
use super::shares::Ratio;
use crate::packet::{ClassId, FlowKey, Packet};
use crate::qdisc::{Event, Outlet};

impl<P: Packet> Fbc<P> {
    /// Sets or removes the terms of the flow `key`. Returns the state of its minimum.
    ///
    /// # Errors
    /// [`NoSuchFlow`].
    pub fn set_terms(&mut self, now: Instant, key: u64, terms: Option<Terms>) -> Result<Promise, NoSuchFlow> {
        let now = now.max(self.now);
        let at = self.flows.find(key).ok_or(NoSuchFlow)?;
        let profile = self.profile(self.flows[at].profile_index);
        let wanted = terms.map_or(profile, |terms| terms.over(profile, self.classes.slots()));
        let class = &mut self.classes[self.flows[at].class];
        let special = self.flows.special(at, class.params.flow_burst, now);
        special.own = terms;
        let old = core::mem::replace(&mut special.profile.displace, wanted.displace);
        let flow = &self.flows[at];
        if let Some(old) = old {
            class.thresholds.remove(&(Ratio::new(old.below, flow.weight), at));
        }
        if let Some(new) = wanted.displace
            && !flow.is_displaced()
        {
            class.thresholds.insert((Ratio::new(new.below, flow.weight), at));
            class.known_settled = false;
        }
        let steps = terms.map_or(0, |terms| terms.steps);
        if flow.preferred() != steps {
            self.prefer(now, key, steps)?;
        }
        if self.flows[at].profile().minimum != wanted.minimum {
            return self.set_minimum(now, key, wanted.minimum);
        }
        let flow = &self.flows[at];
        let free = self.classes[flow.class].shares.unpromised();
        Ok(if flow.granted || wanted.minimum.is_zero() { Promise::Granted } else { Promise::Waiting { free } })
    }

    /// Creates the record of a flow before its first packet is enqueued, so that the terms apply to this packet. Does
    /// nothing for a flow that exists. Returns `false` when there are too many flows or no such class.
    pub fn expect(
        &mut self,
        now: Instant,
        key: FlowKey,
        class: ClassId,
        profile: u32,
        terms: Terms,
        out: &mut dyn Outlet<P>,
    ) -> bool {
        let now = now.max(self.now);
        self.flows.find(key.flow).is_some()
            || (class.0 < self.classes.slots() && self.begin(now, key, class.0, profile, Some(terms), out).is_some())
    }

    /// Ends the flow `key`, which has no queue here: a data path elsewhere, whose flows have records here, has ended it.
    pub fn end(&mut self, now: Instant, key: u64, out: &mut dyn Outlet<P>) {
        if let Some(at) = self.flows.find(key).filter(|&at| self.flows[at].backlog.is_empty()) {
            self.forget(now.max(self.now), at, out);
        }
    }

    /// Whether there is room for the record of another flow.
    pub fn takes_flows(&self) -> bool {
        self.flows.len() < self.params.max_flows || self.flows.oldest_idle().is_some()
    }

    /// Creates the record of a new flow. `None` when there are too many flows.
    pub(super) fn begin(
        &mut self,
        now: Instant,
        key: FlowKey,
        home: u32,
        profile: u32,
        terms: Option<Terms>,
        out: &mut dyn Outlet<P>,
    ) -> Option<u32> {
        if self.flows.len() >= self.params.max_flows {
            let oldest = self.flows.oldest_idle()?;
            self.forget(now, oldest, out);
        }
        let wanted = self.profile(profile);
        let wanted = terms.map_or(wanted, |terms| terms.over(wanted, self.classes.slots()));
        let host_key = self.params.fair_by.host(key).unwrap_or(0);
        let at = self.flows.insert(Flow { host_key, ..record(key.flow, home, profile, now) });
        self.flows.set_profile(at, wanted, now);
        if let Some(terms) = terms {
            let special = self.flows.special(at, Bytes::ZERO, now);
            (special.own, special.preferred) = (Some(terms), terms.steps);
        }
        self.join(now, at, home);
        out.event(Event::FlowStarted { flow: key.flow, class: ClassId(home) });
        Some(at)
    }

    /// The slot of the record of flow `key`, if it has one. Unless it is the slot `hint` that is a look-up. It is valid until
    /// the flow ends.
    #[inline]
    pub fn find(&self, key: u64, hint: u32) -> Option<u32> {
        self.flows.find_at(key, hint)
    }

    /// Holds `rate` of `class` for minimums of future flows. Until [`Fbc::release`] it is not granted to others.
    ///
    /// # Errors
    /// The free rate if it is less than `rate`; zero for a class that does not exist.
    pub fn hold(&mut self, class: ClassId, rate: Rate) -> Result<(), Rate> {
        let free = self.unpromised(class);
        let of = self.classes.get_mut(class.0).ok_or(Rate::ZERO)?;
        match self.shard.as_deref() {
            _ if rate > free => Err(free),
            // Whichever shard its flow will be in.
            Some(shard) => shard.promise(class.0, rate).then_some(()).ok_or(free),
            None => {
                of.shares.hold(rate);
                of.divide_buffer();
                Ok(())
            }
        }
    }
    /// The rate of a class that can still be granted.
    pub(super) fn unpromised(&self, class: ClassId) -> Rate {
        let Some(of) = self.classes.get(class.0) else { return Rate::ZERO };
        match self.shard.as_deref() {
            Some(shard) => of.params.rate.saturating_sub(shard.promised(class.0)),
            None => of.shares.unpromised(),
        }
    }

    /// Releases rate that was held.
    pub fn release(&mut self, class: ClassId, rate: Rate) {
        let number = class.0;
        if let Some(class) = self.classes.get_mut(number) {
            match self.shard.as_deref() {
                Some(shard) => shard.release(number, rate),
                None => {
                    class.shares.release(rate);
                    class.divide_buffer();
                }
            }
            class.unsettled = true;
            class.known_settled = false;
        }
    }

    /// Sets whether feedback thresholds apply to the flow `key` even if its class has none: three quarters and one
    /// quarter of what it may currently queue.
    pub fn watch(&mut self, key: u64, watched: bool) {
        if let Some(at) = self.flows.find(key) {
            self.flows[at].watched = watched;
        }
    }
}
