//! The answer to "is it good?": a grade for each kind of traffic of a direction, with its evidence.
//!
//! *Law*: [`answer`] is a function of one [`DirectionObservation`] and of the counts some seconds before it, without a clock.
//! A grade states how the wait in this shaper affects an application in one direction; the rest of the path is not observed.
//! *Cost*: linear in the observed flows, and a sort of those of each kind; outside of the data path.
//! *Notes*: the kinds are derived as [`kind`] describes, and traffic of an unknown kind has no grade.
//!
//! ```
//! use tidegate_control::answer::{Evidence, Grade, Traffic};
//! use tidegate_units::Span;
//!
//! let wait = |ms| Evidence { wait: Span::from_millis(ms), ..Evidence::default() };
//! assert_eq!(Traffic::Calls.grade(&wait(3)), Some(Grade::Good));
//! assert_eq!(Traffic::Calls.grade(&wait(166)), Some(Grade::Poor));
//! assert_eq!(Traffic::Bulk.grade(&wait(166)), Some(Grade::Good));
//! assert_eq!(Traffic::Unknown.grade(&wait(3)), None);
//! ```

pub mod kind;
pub mod limits;
mod sentence;

use std::cmp::Reverse;
use std::collections::{BTreeMap, HashMap, HashSet};
use std::net::IpAddr;

use serde::{Deserialize, Serialize};
use tidegate_units::{Rate, Span};

use crate::calls::{
    ClassObservation, DirectionObservation, FlowObservation, HeldBy, HostObservation, Rival, WaitTimes, arrives,
    percent,
};
use crate::quantities::{bps, ns};
use kind::Basis;
use limits::Limits;

/// The kind of an application's traffic, by what disturbs its user.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Traffic {
    /// Voice and video calls.
    Calls,
    /// Interactive games.
    Games,
    /// Either calls or games: a steady stream of small datagrams without a code point or a class that tells them apart.
    Live,
    /// Pages and name lookups: short transfers that a person waits for.
    Web,
    /// Long transfers that take what rate they find, and their acknowledgements.
    Bulk,
    /// None of the others, as far as is known.
    #[default]
    #[serde(other)]
    Unknown,
}

/// How well an application works, as far as this shaper affects it. A greater grade is better.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Grade {
    /// Its users are disturbed.
    Poor,
    /// Its users notice something.
    Fair,
    /// Its users notice nothing.
    Good,
}

/// The measurements that a grade is derived from.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
pub struct Evidence {
    /// The wait in the shaper: the 99th percentile of calls and games, and of the worst flow among them; the 90th percentile of
    /// other traffic, and of nine of ten flows.
    #[serde(rename = "wait_ns", with = "ns")]
    pub wait: Span,
    /// The jitter (RFC 3550, 6.4.1), of the worst flow or class.
    #[serde(rename = "jitter_ns", with = "ns")]
    pub jitter: Span,
    /// Dropped packets in a million that arrived lately.
    pub lost_ppm: u64,
}

/// The answer for one kind of traffic.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct TrafficAnswer {
    /// The kind.
    pub traffic: Traffic,
    /// How well it works; absent where the kind is unknown.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub grade: Option<Grade>,
    /// The evidence from which the grade is derived.
    #[serde(flatten)]
    pub evidence: Evidence,
    /// The rate of this traffic.
    #[serde(rename = "rate_bps", with = "bps")]
    pub rate: Rate,
    /// Its flows, where flows are counted.
    pub flows: u64,
    /// The weakest of the reasons for which traffic was taken to be of this kind.
    pub basis: Basis,
    /// The class with the wait of the evidence; empty if it is the only one, or states the kind by its name.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub class: String,
    /// The class that has the rate which this traffic waits for; absent where the grade is good or nothing else takes the rate.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rival: Option<Rival>,
}

impl TrafficAnswer {
    /// The grade as it counts for that of all traffic.
    fn weight(&self) -> Option<Grade> {
        self.grade.map(|grade| if self.traffic == Traffic::Bulk { grade.max(Grade::Fair) } else { grade })
    }
}

/// A class in which packets wait for a ceiling. It was asked for, so that pages and transfers that wait for it have no grade.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Held {
    /// The class.
    pub class: String,
    /// The ceiling.
    pub by: HeldBy,
}

/// The host that takes most of a line.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Taker {
    /// Its name, or its address where it has none.
    pub host: String,
    /// Its part of what is sent, in percent.
    pub percent: u64,
}

/// The answer for one direction.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
pub struct Answer {
    /// The worst grade, where transfers count as fair at worst: they last longer, and nobody is disturbed. Absent where no traffic of a
    /// known kind is sent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub grade: Option<Grade>,
    /// Each kind of traffic that is sent, calls first.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub traffic: Vec<TrafficAnswer>,
    /// The classes in which traffic waits for a ceiling.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub held: Vec<Held>,
    /// How full the line is, in percent of the limit; absent where there is no limit.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub full_percent: Option<u64>,
    /// The host that takes most of it; absent where no hosts were observed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub taker: Option<Taker>,
    /// Why nothing can pass: the interfaces are down or gone; absent while one is up.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub down: Option<String>,
    /// The answer as a sentence.
    #[serde(default)]
    pub text: String,
}

/// Packets that arrived and were dropped, of flows and classes, some seconds ago.
#[derive(Clone, Debug, Default)]
pub struct Before {
    flows: HashMap<String, (u64, u64)>,
    classes: HashMap<String, (u64, u64)>,
}

impl Before {
    /// Remembers the counts of an observation, for a later one of the same direction.
    pub fn of(direction: &DirectionObservation) -> Self {
        Self {
            flows: direction.flows.iter().map(|flow| (flow.flow.key.clone(), counts_of_flow(flow))).collect(),
            classes: direction.classes.iter().map(|class| (class.name.clone(), counts_of_class(class))).collect(),
        }
    }
}

fn counts_of_flow(flow: &FlowObservation) -> (u64, u64) {
    (flow.arrived_packets, flow.dropped_packets())
}

fn counts_of_class(class: &ClassObservation) -> (u64, u64) {
    (class.enqueued_packets, class.dropped_packets())
}

/// The counts since `before`. What was started again counts from zero, and what is new from its beginning.
fn since(now: (u64, u64), before: Option<&(u64, u64)>) -> (u64, u64) {
    let (arrived, dropped) = before.copied().filter(|old| old.0 <= now.0 && old.1 <= now.1).unwrap_or_default();
    (now.0 - arrived, now.1 - dropped)
}

impl Traffic {
    /// Every kind that has a grade, in the order in which answers list them.
    pub const GRADED: [Self; 5] = [Self::Calls, Self::Games, Self::Live, Self::Web, Self::Bulk];

    /// Returns the name for people.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Calls => "calls",
            Self::Games => "games",
            Self::Live => "calls or games",
            Self::Web => "web",
            Self::Bulk => "bulk",
            Self::Unknown => "other",
        }
    }
    /// Returns the name in the protocol and in metrics.
    pub const fn key(self) -> &'static str {
        match self {
            Self::Calls => "calls",
            Self::Games => "games",
            Self::Live => "live",
            Self::Web => "web",
            Self::Bulk => "bulk",
            Self::Unknown => "unknown",
        }
    }
    /// Returns the grade that `evidence` permits, by the [limits](Limits) of this kind; `None` for traffic of unknown kind.
    pub fn grade(self, evidence: &Evidence) -> Option<Grade> {
        let Limits { wait, jitter, lost_ppm } = Limits::of(self)?;
        let of = |value: u64, limits: [u64; 2]| match value {
            value if value <= limits[0] => Grade::Good,
            value if value <= limits[1] => Grade::Fair,
            _ => Grade::Poor,
        };
        let spans = |limits: [Span; 2]| limits.map(Span::as_nanos);
        let wait = of(evidence.wait.as_nanos(), spans(wait));
        let jitter = jitter.map(|limits| of(evidence.jitter.as_nanos(), spans(limits)));
        let lost = lost_ppm.map(|limits| of(evidence.lost_ppm, limits));
        Some(wait.min(jitter.unwrap_or(Grade::Good)).min(lost.unwrap_or(Grade::Good)))
    }
    /// The percentile that counts for this kind.
    const fn wait(self, times: &WaitTimes) -> Span {
        if self.is_live() { times.p99 } else { times.p90 }
    }
    /// Whether people hear or see each packet, so that the wait of the worst flow counts, and not that of nine of ten.
    pub const fn is_live(self) -> bool {
        matches!(self, Self::Calls | Self::Games | Self::Live)
    }
}

impl Grade {
    /// Returns the grade as a number: 0 for poor, 1 for fair, 2 for good.
    pub const fn number(self) -> u8 {
        match self {
            Self::Poor => 0,
            Self::Fair => 1,
            Self::Good => 2,
        }
    }
    /// Returns the word.
    pub const fn word(self) -> &'static str {
        match self {
            Self::Poor => "poor",
            Self::Fair => "fair",
            Self::Good => "good",
        }
    }
}

/// The measurements of one kind, while they are collected.
#[derive(Default)]
struct Collected {
    /// The wait of each flow or class, with the class.
    waits: Vec<(Span, String)>,
    jitter: Span,
    arrived: u64,
    dropped: u64,
    rate: u64,
    flows: u64,
    basis: Basis,
}

impl Collected {
    fn answer(mut self, traffic: Traffic) -> TrafficAnswer {
        self.waits.sort_unstable();
        let place = if traffic.is_live() { self.waits.len() } else { (self.waits.len() * 9).div_ceil(10) };
        let (wait, class) = self.waits.get(place.saturating_sub(1)).cloned().unwrap_or_default();
        let evidence = Evidence {
            wait,
            jitter: self.jitter,
            // Packets that arrived before may be dropped now: at most all are lost.
            lost_ppm: (u128::from(self.dropped) * 1_000_000 / u128::from(self.arrived.max(1))).min(1_000_000) as u64,
        };
        TrafficAnswer {
            traffic,
            grade: traffic.grade(&evidence),
            evidence,
            rate: Rate::from_bps(self.rate),
            flows: self.flows,
            basis: self.basis,
            class,
            rival: None,
        }
    }
}

/// Returns the answer for a direction, with the hosts that were observed beside it. `before` has the counts of some seconds ago,
/// from which losses are derived. `text` of the result is empty.
///
/// A class whose name states the kind of its traffic answers for its flows: its waits are those of all packets in the last
/// second. Elsewhere the flows of a kind do. Transfers and pages that wait for a ceiling have no grade, nor have the other flows of their host or rule: the
/// operator asked for this wait. Calls and games have one always.
pub fn answer(direction: &DirectionObservation, hosts: &[HostObservation], before: &Before) -> Answer {
    let down = down(direction);
    if down.is_some() {
        return Answer { down, ..Answer::default() };
    }
    let mut found: BTreeMap<Traffic, Collected> = BTreeMap::new();
    let mut named = HashMap::new();
    let held = AtCeiling::of(direction);
    for class in &direction.classes {
        let Some(traffic) = kind::of_class(&class.name) else { continue };
        // Where a part of its flows waits for a ceiling, the waits of all its packets say little about the others.
        let answers = traffic.is_live() || !held.has_part_of(&class.name);
        named.insert(class.name.as_str(), (traffic, answers));
        let (arrived, dropped) = since(counts_of_class(class), before.classes.get(&class.name));
        let is_silent = class.rate.is_zero() && class.queue.packets == 0 && dropped == 0;
        if is_silent || !answers || (held.has(&class.name) && !traffic.is_live()) {
            continue;
        }
        let all = found.entry(traffic).or_default();
        all.waits.push((traffic.wait(&class.wait), class.name.clone()));
        all.jitter = all.jitter.max(class.wait.jitter);
        all.rate = all.rate.saturating_add(class.rate.as_bps());
        (all.arrived, all.dropped) = (all.arrived + arrived, all.dropped + dropped);
    }
    for flow in &direction.flows {
        let through = flow.leaves_through();
        let of_class = named.get(through);
        if let Some((traffic, true)) = of_class {
            if flow.is_active()
                && let Some(all) = found.get_mut(traffic)
            {
                all.flows += 1;
            }
            continue;
        }
        // A flow without a single packet that left has no wait.
        if !flow.is_active() || (flow.sent_packets == 0 && flow.dropped_packets() == 0) {
            continue;
        }
        let (traffic, basis) =
            of_class.map_or_else(|| kind::of_flow(flow), |(traffic, _)| (*traffic, Basis::default()));
        if !traffic.is_live() && held.has_flow(flow) {
            continue;
        }
        let all = found.entry(traffic).or_default();
        let (arrived, dropped) = since(counts_of_flow(flow), before.flows.get(&flow.flow.key));
        all.waits.push((traffic.wait(&flow.wait), through.to_owned()));
        all.jitter = all.jitter.max(flow.wait.jitter);
        all.rate = all.rate.saturating_add(flow.rate.as_bps());
        (all.arrived, all.dropped) = (all.arrived + arrived, all.dropped + dropped);
        all.flows += 1;
        all.basis = all.basis.max(basis);
    }
    let mut traffic: Vec<TrafficAnswer> = found.into_iter().map(|(traffic, all)| all.answer(traffic)).collect();
    // Who has the rate is the second question to a bad answer.
    for one in traffic.iter_mut().filter(|one| one.grade.is_some_and(|grade| grade < Grade::Good)) {
        one.rival = Rival::of_class(direction, &one.class);
    }
    // A class that states the kind by its name, or that is the only one, tells nothing more.
    for one in traffic.iter_mut().filter(|one| direction.classes.len() < 2 || named.contains_key(one.class.as_str())) {
        one.class.clear();
    }
    let said = |class: &ClassObservation| {
        let waits = held.by.get(class.name.as_str())?;
        let count = |by: &HeldBy| waits.iter().filter(|other| *other == by).count();
        // Of equally many the first: a class before its hosts.
        let by = HeldBy::ALL.into_iter().rev().max_by_key(count)?;
        Some(Held { class: class.name.clone(), by })
    };
    Answer {
        grade: traffic.iter().filter_map(TrafficAnswer::weight).min(),
        traffic,
        held: direction.classes.iter().filter_map(said).collect(),
        full_percent: direction.limit.map(|limit| percent(direction.line.used.as_bps(), limit.as_bps())),
        taker: taker(direction, hosts),
        down,
        text: String::new(),
    }
}

/// Which interfaces are down or gone, where all are.
fn down(direction: &DirectionObservation) -> Option<String> {
    let each = direction.interfaces.iter().map(|interface| match &interface.counts {
        counts if !counts.present => Some(format!("{} is gone", counts.name)),
        counts => counts.down.then(|| format!("{} is down", counts.name)),
    });
    let all: Vec<String> = each.collect::<Option<_>>()?;
    (!all.is_empty()).then(|| all.join(", "))
}

/// Traffic that waits for a ceiling: with a flow at the ceiling of its class the class, at that of its host or of its rule the flows of this host
/// or rule in the class, since another flow of them has no queue at times. Of a class whose flows are not observed all packets that wait.
#[derive(Default)]
struct AtCeiling<'a> {
    /// The ceilings, of each flow and class, by the name of the class.
    by: HashMap<&'a str, Vec<HeldBy>>,
    classes: HashSet<&'a str>,
    hosts: HashSet<(&'a str, Option<IpAddr>)>,
    rules: HashSet<(&'a str, Option<&'a str>)>,
    arrives: bool,
}

impl<'a> AtCeiling<'a> {
    fn of(direction: &'a DirectionObservation) -> Self {
        let mut held = Self { arrives: arrives(&direction.name), ..Self::default() };
        let observed: HashSet<&str> = direction.flows.iter().map(FlowObservation::leaves_through).collect();
        for flow in &direction.flows {
            let (Some(by), class) = (flow.held_by, flow.leaves_through()) else { continue };
            held.by.entry(class).or_default().push(by);
            match by {
                HeldBy::Class => _ = held.classes.insert(class),
                HeldBy::Host => _ = held.hosts.insert((class, held.host(flow))),
                HeldBy::Rule => _ = held.rules.insert((class, flow.rule.as_deref())),
                HeldBy::Flow => {}
            }
        }
        for class in &direction.classes {
            let (Some(by), name) = (class.held_by, class.name.as_str()) else { continue };
            held.by.entry(name).or_default().push(by);
            if by == HeldBy::Class || !observed.contains(name) {
                held.classes.insert(name);
            }
        }
        held
    }
    /// The host of this network at an end of the flow.
    fn host(&self, flow: &FlowObservation) -> Option<IpAddr> {
        if self.arrives { flow.flow.destination } else { flow.flow.source }
    }
    /// Whether all of a class waits for a ceiling.
    fn has(&self, class: &str) -> bool {
        self.classes.contains(class)
    }
    /// Whether some flows of a class wait for a ceiling, and not all of it.
    fn has_part_of(&self, class: &str) -> bool {
        self.by.contains_key(class) && !self.has(class)
    }
    fn has_flow(&self, flow: &FlowObservation) -> bool {
        let class = flow.leaves_through();
        self.has(class)
            || flow.held_by.is_some()
            || self.hosts.contains(&(class, self.host(flow)))
            || self.rules.contains(&(class, flow.rule.as_deref()))
    }
}

/// The fastest host, and its part of what all hosts send.
fn taker(direction: &DirectionObservation, hosts: &[HostObservation]) -> Option<Taker> {
    let rate = |host: &HostObservation| if arrives(&direction.name) { host.down.rate } else { host.up.rate }.as_bps();
    let sum = hosts.iter().map(rate).fold(0, u64::saturating_add);
    // Of the hosts beyond the greatest number in an observation only the sum is known, from the line.
    let packets = direction.line.used.as_bps().saturating_sub(direction.line.overhead.as_bps());
    let most = hosts.iter().filter(|host| rate(host) > 0).max_by_key(|host| (rate(host), Reverse(host.address)))?;
    let host = most.name.clone().unwrap_or_else(|| most.address.to_string());
    Some(Taker { host, percent: percent(rate(most), sum.max(packets)) })
}

#[cfg(test)]
mod tests;
