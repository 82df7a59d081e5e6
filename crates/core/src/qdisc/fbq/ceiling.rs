//! Ceilings: what a class, a host, a rule or a flow sends at most, rate borrowed from other classes included.
//!
//! *Law*: what has a ceiling sends within τ at most `max(burst, largest packet) + rate·(τ + catch_up)`, whatever is idle
//! beside it. A flow whose next packet a ceiling does not pay for is not eligible until that ceiling does, and the other
//! flows of its class, and the other classes, are served as if it had no packet.
//! *Source*: the rate-controlled scheduler with an eligibility time for each packet (Zhang and Ferrari, 1994), in front of
//! fair queueing.
//! *Units*: a ceiling is a token bucket like all others, in bit·ns/s.
//! *Cost*: O(log n) for a packet of something that has a ceiling; nothing for others. What becomes eligible is moved back
//! into the order of its class, at most [`RELEASES`] with each packet.
//! *Notes*: a rate that was not used while a ceiling held something back is lost to it, except for the usual burst of a flow;
//! so it gets no arrears when the ceiling is raised. A host is forgotten with its last flow; a flow that comes back begins
//! with the full burst of its ceiling.

use tidegate_units::{Bytes, Instant, Rate};

use super::class::Class;
use super::deciders::starts_again;
use super::flow::{Flow, Flows, NONE};
use super::hosts::{Group, Host, Hosts};
use crate::bucket::TokenBucket;
use crate::heap::NOWHERE;

/// The most that becomes eligible again with one packet, in a class and in one of its groups, and of the classes. A packet
/// makes at most one of each wait, so that twice as many suffice.
pub(super) const RELEASES: usize = 2;

/// A bound on a rate, with the burst above it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Ceiling {
    /// The rate that is not exceeded for long.
    pub rate: Rate,
    /// The burst above it. A larger packet leaves when the bucket is full, and leaves a debt.
    pub burst: Bytes,
}

/// The ceilings of a class. With `None` there is no such bound.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Ceilings {
    /// The bound on the class as a whole, at least its guaranteed rate.
    pub class: Option<Ceiling>,
    /// The bound on each of its hosts; only where hosts share the classes ([`FairBy`](super::FairBy)).
    pub host: Option<Ceiling>,
    /// The bound on each of its flows.
    pub flow: Option<Ceiling>,
}

/// The ceiling that a packet waits for.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum HeldBy {
    /// The ceiling of its class.
    Class,
    /// The ceiling of its host.
    Host,
    /// The ceiling of its rule.
    Rule,
    /// The ceiling of its flow.
    Flow,
}

impl HeldBy {
    /// Returns its name: `class`, `host`, `rule` or `flow`.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Class => "class",
            Self::Host => "host",
            Self::Rule => "rule",
            Self::Flow => "flow",
        }
    }
}

impl Ceiling {
    /// Brings `bucket` to the `wanted` ceiling at `now`. A bucket that exists keeps its level, within the new depth.
    pub(super) fn set(wanted: Option<Self>, bucket: &mut Option<TokenBucket>, now: Instant) {
        match (wanted, bucket.as_mut()) {
            (None, _) => *bucket = None,
            (Some(new), None) => *bucket = Some(TokenBucket::full(new.rate, new.burst, now)),
            (Some(new), Some(bucket)) if bucket.rate() != new.rate || bucket.depth() != new.burst => {
                bucket.set_rate(now, new.rate);
                bucket.set_depth(now, new.burst);
            }
            _ => {}
        }
    }
}

/// The first instant at which a ceiling pays for `size`: [`Instant::ZERO`] without a ceiling, [`Instant::MAX`] for never.
#[inline]
pub(super) fn pays_at(ceiling: Option<&TokenBucket>, size: Bytes) -> Instant {
    ceiling.map_or(Instant::ZERO, |bucket| bucket.time_for(Instant::ZERO, size).unwrap_or(Instant::MAX))
}

fn charge(ceiling: &mut Option<TokenBucket>, then: Instant, size: Bytes) {
    if let Some(bucket) = ceiling {
        bucket.charge(then, size);
    }
}

impl Flow {
    /// When the ceiling of the flow pays for its head.
    pub fn pays_at(&self) -> Instant {
        pays_at(self.special.as_deref().and_then(|special| special.ceiling.as_ref()), self.head_size)
    }
    /// The position among those that wait for their ceiling.
    fn held_at(&self) -> u32 {
        self.special.as_deref().map_or(NOWHERE, |special| special.held_at)
    }
}

impl Hosts {
    /// Makes eligible what of the group `at` no longer waits for the ceiling of its flow, at most [`RELEASES`].
    fn wake_flows(&mut self, flows: &mut Flows, at: u32, burst: Bytes) {
        let now = self.time;
        let group = &mut self[at];
        for _ in 0..RELEASES {
            let Some((_, flow)) = group.held.peek().filter(|(until, _)| *until <= now) else { return };
            let position = flows[flow].held_at();
            group.held.remove(position, &mut flows.place_held());
            let of = &mut flows[flow];
            of.start = starts_again(of.start, group.virtual_now, Class::virtual_length(burst, of.weight));
            let tag = of.start + Class::virtual_length(of.head_size, of.weight);
            group.share.insert(tag, flow, &mut flows.place_share());
        }
    }
}

/// Groups of flows that ceilings hold back. Each of these does nothing in a class without groups.
impl Class {
    /// The group of `flow`, if it has one.
    #[inline]
    pub fn group(&self, flow: &Flow) -> Option<&Host> {
        self.hosts.as_ref().filter(|_| flow.host != NONE).map(|hosts| &hosts[flow.host])
    }
    /// The group that `flow` belongs to: that of its rule if the rule has a ceiling, of its host if hosts share the class, or
    /// its own if it has a ceiling.
    pub fn group_of(&self, flow: &Flow) -> Option<Group> {
        if flow.profile().at_most.is_some() {
            return Some(Group { rule: flow.profile_index, key: 0 });
        }
        let key = if self.fair_hosts().is_some() { flow.host_key } else { flow.key };
        (self.fair_hosts().is_some() || self.params.at_most.flow.is_some()).then_some(Group { rule: NONE, key })
    }

    /// Inserts a flow into the order of its group by its tag, or among those that wait for their ceiling.
    pub fn key_in_group(&mut self, flows: &mut Flows, at: u32, tag: u128) {
        let Some(hosts) = &mut self.hosts else { return };
        let now = hosts.time;
        let flow = &flows[at];
        let (share_at, held_at, group, until) = (flow.share_at, flow.held_at(), flow.host, flow.pays_at());
        let of = &mut hosts[group];
        if until <= now {
            of.held.remove(held_at, &mut flows.place_held());
            of.share.set(share_at, tag, at, &mut flows.place_share());
        } else {
            of.share.remove(share_at, &mut flows.place_share());
            of.held.set(held_at, until, at, &mut flows.place_held());
        }
        self.key_group(flows, group);
    }
    /// Removes a flow from its group.
    pub fn unkey_in_group(&mut self, flows: &mut Flows, at: u32) {
        let Some(hosts) = &mut self.hosts else { return };
        let (share_at, held_at, group) = (flows[at].share_at, flows[at].held_at(), flows[at].host);
        let of = &mut hosts[group];
        of.share.remove(share_at, &mut flows.place_share());
        of.held.remove(held_at, &mut flows.place_held());
        self.key_group(flows, group);
    }

    /// Inserts the group `at` into the order of the class by the tag of its next packet, or among those that wait for a
    /// ceiling, or removes it without a packet.
    pub fn key_group(&mut self, flows: &mut Flows, at: u32) {
        let burst = self.params.flow_burst;
        let virtual_now = self.virtual_now;
        let Some(hosts) = &mut self.hosts else { return };
        hosts.wake_flows(flows, at, burst);
        let now = hosts.time;
        let group = &hosts[at];
        let held_at = group.held_at;
        let next = match (group.share.peek(), group.held.peek()) {
            (Some((_, flow)), _) => Some((flow, Instant::ZERO)),
            (None, held) => held.map(|(until, flow)| (flow, until)),
        };
        let until = next
            .map_or(Instant::MAX, |(flow, until)| until.max(pays_at(group.ceiling.as_ref(), flows[flow].head_size)));
        let Some((flow, _)) = next.filter(|_| until < Instant::MAX) else {
            hosts.unlist(at);
            return;
        };
        let (start, weight) = (group.start, hosts.weight_of(group));
        if until > now {
            hosts.list_held(at, until);
            return;
        }
        let mut start = start;
        if held_at != NOWHERE {
            start = starts_again(start, virtual_now, Self::virtual_length(burst, weight));
            hosts[at].start = start;
        }
        hosts.list_eligible(at, start + Self::virtual_length(flows[flow].head_size, weight));
    }

    /// Moves what no longer waits for a ceiling as of `base` into the order of the class.
    #[inline(never)]
    pub fn release(&mut self, flows: &mut Flows, base: Instant) {
        let Some(hosts) = &mut self.hosts else { return };
        hosts.time = hosts.time.max(base);
        for _ in 0..RELEASES {
            let due = self.hosts.as_ref().and_then(Hosts::first_held).filter(|(until, _)| *until <= base);
            let Some((_, group)) = due else { return };
            self.key_group(flows, group);
        }
    }

    /// The flow of the group that will be eligible first, and when.
    pub fn first_held(&self) -> Option<(Instant, u32)> {
        let hosts = self.hosts.as_ref()?;
        let (until, group) = hosts.first_held()?;
        let flow = match hosts[group].share.peek() {
            Some((_, flow)) => flow,
            None => hosts[group].held.peek()?.1,
        };
        Some((until, flow))
    }

    /// Charges the ceilings of a flow and of its class for its head, which left as of `then`.
    #[inline]
    pub fn charge_ceilings(&mut self, flow: &mut Flow, then: Instant) {
        charge(&mut self.ceiling, then, flow.head_size);
        if self.hosts.is_some() && flow.host != NONE {
            self.charge_group(flow, then);
        }
    }
    #[inline(never)]
    fn charge_group(&mut self, flow: &mut Flow, then: Instant) {
        let (virtual_now, burst) = (self.virtual_now, self.params.flow_burst);
        let Some(hosts) = &mut self.hosts else { return };
        hosts.time = hosts.time.max(then);
        let weight = hosts.weight_of(&hosts[flow.host]);
        let group = &mut hosts[flow.host];
        charge(&mut group.ceiling, then, flow.head_size);
        // One that leaves at the moment at which its ceiling pays was not in the order yet.
        if group.held_at != NOWHERE {
            group.start = starts_again(group.start, virtual_now, Self::virtual_length(burst, weight));
        }
        let held = flow.held_at() != NOWHERE;
        if held {
            flow.start = starts_again(flow.start, group.virtual_now, Self::virtual_length(burst, flow.weight));
        }
        if let Some(special) = flow.special.as_deref_mut() {
            charge(&mut special.ceiling, then, flow.head_size);
        }
    }

    /// The ceiling that the head of `flow` waits for at `now`: the one that pays for it last.
    pub fn held_by(&self, flow: &Flow, now: Instant) -> Option<HeldBy> {
        if flow.backlog.is_empty() {
            return None;
        }
        let group = self.group(flow);
        let of_group = pays_at(group.and_then(|group| group.ceiling.as_ref()), flow.head_size);
        let kind = if group.is_some_and(Host::is_rule) { HeldBy::Rule } else { HeldBy::Host };
        let waits = [
            (flow.pays_at(), HeldBy::Flow),
            (of_group, kind),
            (pays_at(self.ceiling.as_ref(), flow.head_size), HeldBy::Class),
        ];
        waits.into_iter().filter(|(until, _)| *until > now).max_by_key(|(until, _)| *until).map(|(_, by)| by)
    }
}
