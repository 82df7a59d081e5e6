//! Expands the alternatives of a rule into the conjunctions that a [`Classifier`] takes, and compares rules: one may
//! never match, or there may be too many for the classifier.

use std::collections::hash_map::Entry;
use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::fmt;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::ops::RangeInclusive;

use tidegate_core::classify::{self, BuildError, Cause, Classifier, DscpSet, MarkMatch};

use crate::classes::{Match, Rule};
use crate::diagnostic::{Diagnostics, Place};
use crate::values::{DnsName, HostName, Mac, Ports, Prefix, User};

/// The largest number of conjunctions that one rule may expand to.
const MOST_CONJUNCTIONS: usize = 1 << 16;
/// The most addresses of a neighbour that a rule with `mac` means, and of a device that one with `host-name` means.
pub const MOST_ADDRESSES: usize = 32;
/// The most addresses that a name in a rule with `dns-name` means.
pub const MOST_ANSWERED: usize = 64;
/// With more conjunctions than this, rules are not compared with each other, because that can take quadratic time.
const MOST_COMPARED: usize = 1 << 16;

/// Resolves the names of users and control groups on a machine.
pub trait Owners {
    /// The number of a user, if there is one.
    fn user(&mut self, name: &str) -> Option<u32>;
    /// The number that a data path reports for a control group, if there is one.
    fn cgroup(&mut self, path: &str) -> Option<u64>;
    /// The number that a data path reports for packets that came in by an interface. It stands in the place of a control group, which
    /// these packets do not have. `None` where nobody knows by which interface they came.
    fn interface(&mut self, name: &str) -> Option<u64>;
    /// The addresses of the neighbour with a hardware address; `None` where nobody knows neighbours.
    fn addresses(&mut self, mac: Mac) -> Option<Vec<IpAddr>>;
    /// The addresses that a name has; `None` where nobody knows names.
    fn named(&mut self, name: &Named) -> Option<Vec<IpAddr>>;
}

/// A name whose addresses change while rules are in force.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum Named {
    /// A device, by the name that it has in leases.
    Device(HostName),
    /// A host, by the names that passing answers of the Domain Name System have for it.
    Answered(DnsName),
}

impl Named {
    /// The key by which rules name it.
    pub fn key(&self) -> &'static str {
        match self {
            Self::Device(_) => "host-name",
            Self::Answered(_) => "dns-name",
        }
    }
    /// The most addresses of it that count.
    pub fn most(&self) -> usize {
        match self {
            Self::Device(_) => MOST_ADDRESSES,
            Self::Answered(_) => MOST_ANSWERED,
        }
    }
}

impl fmt::Display for Named {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Device(name) => name.fmt(f),
            Self::Answered(name) => name.fmt(f),
        }
    }
}

/// A name that does not exist on this machine.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum UnknownOwner {
    /// The name of a user.
    User(String),
    /// The path of a control group.
    ControlGroup(String),
    /// The name of an interface, where nobody knows by which one a packet came in.
    Interface(String),
    /// A hardware address, where nobody knows neighbours.
    Mac(Mac),
    /// A name, where nobody knows which addresses it has.
    Named(Named),
}

impl Match {
    /// Expands the conditions into conjunctions of single values, as a [`Classifier`] takes them. Combinations of an
    /// IPv4 with an IPv6 address, which no packet has, are left out.
    ///
    /// # Errors
    /// If `owners` does not know a name.
    pub fn conjunctions(&self, owners: &mut dyn Owners) -> Result<Vec<classify::Match>, UnknownOwner> {
        let ranges = |ports: &[Ports]| ports.iter().map(|ports| ports.first..=ports.last).collect();
        let prefix = |prefix: &Prefix| classify::Prefix::covering(prefix.address, prefix.length);
        let mut users = Vec::new();
        for user in &self.users {
            users.push(match user {
                User::Id(id) => *id,
                User::Name(name) => owners.user(name).ok_or_else(|| UnknownOwner::User(name.clone()))?,
            });
        }
        let mut cgroups = Vec::new();
        for path in &self.cgroups {
            cgroups.push(owners.cgroup(path).ok_or_else(|| UnknownOwner::ControlGroup(path.clone()))?);
        }
        for name in &self.from_interfaces {
            cgroups.push(owners.interface(name).ok_or_else(|| UnknownOwner::Interface(name.clone()))?);
        }
        let mut all = vec![classify::Match {
            dscp: (!self.dscps.is_empty()).then(|| self.dscps.iter().copied().collect::<DscpSet>()),
            source_ports: ranges(&self.source_ports),
            destination_ports: ranges(&self.destination_ports),
            lengths: self.lengths.iter().map(|lengths| lengths.first..=lengths.last).collect(),
            tcp_flags: self.tcp_flags.iter().map(|flags| flags.condition()).collect(),
            pure_ack: self.pure_ack,
            icmp_types: self.icmp_types.iter().flat_map(|kind| kind.types()).collect(),
            ..classify::Match::default()
        }];
        spread(&mut all, &self.protocols, |one, protocol| one.protocol = Some(protocol.0));
        spread(&mut all, &self.sources, |one, source| one.source = prefix(source));
        spread(&mut all, &self.destinations, |one, destination| one.destination = prefix(destination));
        all.retain(|one| !one.is_contradiction());
        either_end(&mut all, &self.hosts, |one, host| {
            let host = prefix(host)?;
            one.source = Some(one.source.map_or(Some(host), |source| within_both(source, host))?);
            Some(())
        });
        if !self.macs.is_empty() {
            let mut devices = Vec::new();
            for mac in &self.macs {
                devices.extend(owners.addresses(*mac).ok_or(UnknownOwner::Mac(*mac))?);
            }
            one_of(&mut all, devices);
        }
        for key in ["host-name", "dns-name"] {
            let names: Vec<Named> = self.named().filter(|name| name.key() == key).collect();
            let mut hosts = Vec::new();
            for name in &names {
                hosts.extend(owners.named(name).ok_or_else(|| UnknownOwner::Named(name.clone()))?);
            }
            if !names.is_empty() {
                one_of(&mut all, hosts);
            }
        }
        if !self.ports.is_empty() {
            let ports = ranges(&self.ports);
            either_end(&mut all, &[ports], |one, ports: &Vec<_>| {
                one.source_ports = common_ports(&one.source_ports, ports)?;
                Some(())
            });
        }
        if self.both_ways {
            let answers: Vec<_> = all.iter().map(exchanged).filter(|answer| !all.contains(answer)).collect();
            all.extend(answers);
        }
        spread(&mut all, &self.marks, |one, mark| one.mark = Some(MarkMatch { value: mark.value, mask: mark.mask }));
        spread(&mut all, &users, |one, user| one.uid = Some(*user..=*user));
        spread(&mut all, &cgroups, |one, cgroup| one.cgroup = Some(*cgroup));
        Ok(all)
    }

    /// Whether the rule can be compared with others without knowing which addresses devices and names have.
    fn is_comparable(&self) -> bool {
        let is_address_known = self.macs.is_empty() && self.named().next().is_none();
        is_address_known || [&self.sources, &self.destinations, &self.hosts].iter().all(|prefixes| prefixes.is_empty())
    }

    /// The names of this rule whose addresses change while it is in force.
    pub fn named(&self) -> impl Iterator<Item = Named> {
        let devices = self.host_names.iter().cloned().map(Named::Device);
        devices.chain(self.dns_names.iter().cloned().map(Named::Answered))
    }

    /// An upper bound on the number of conjunctions.
    fn combinations(&self) -> usize {
        [
            self.protocols.len(),
            self.sources.len(),
            self.destinations.len(),
            self.marks.len(),
            self.users.len(),
            self.cgroups.len() + self.from_interfaces.len(),
            self.hosts.len().saturating_mul(2),
            self.macs.len().saturating_mul(2 * MOST_ADDRESSES),
            self.host_names.len().saturating_mul(2 * MOST_ADDRESSES),
            self.dns_names.len().saturating_mul(2 * MOST_ANSWERED),
            if self.ports.is_empty() { 1 } else { 2 },
            if self.both_ways { 2 } else { 1 },
        ]
        .iter()
        .fold(1, |product: usize, n| product.saturating_mul((*n).max(1)))
    }
}

/// Combines each of `all` with each of `alternatives`, if there are any.
fn spread<T>(all: &mut Vec<classify::Match>, alternatives: &[T], apply: impl Fn(&mut classify::Match, &T)) {
    if alternatives.is_empty() {
        return;
    }
    let spread = |one: &classify::Match| {
        alternatives
            .iter()
            .map(|alternative| {
                let mut one = one.clone();
                apply(&mut one, alternative);
                one
            })
            .collect::<Vec<_>>()
    };
    *all = all.iter().flat_map(spread).collect();
}

/// Combines each of `all` with each of `alternatives`, if there are any, at its source and at its destination. `narrow` adds an
/// alternative to the source, and returns `None` if no packet can meet both. What remains is free of contradictions.
fn either_end<T>(
    all: &mut Vec<classify::Match>,
    alternatives: &[T],
    narrow: impl Fn(&mut classify::Match, &T) -> Option<()>,
) {
    if alternatives.is_empty() {
        return;
    }
    let mut narrowed = Vec::new();
    for one in all.iter() {
        for alternative in alternatives {
            let (mut sent, mut received) = (one.clone(), exchanged(one));
            narrowed.extend(narrow(&mut sent, alternative).map(|()| sent));
            narrowed.extend(narrow(&mut received, alternative).map(|()| exchanged(&received)));
        }
    }
    narrowed.retain(|one| !one.is_contradiction());
    *all = narrowed;
}

/// Demands one of `hosts` at either end. Several of them may have the same address.
fn one_of(all: &mut Vec<classify::Match>, mut hosts: Vec<IpAddr>) {
    hosts.sort_unstable();
    hosts.dedup();
    if hosts.is_empty() {
        // Without addresses no packet is from or to the hosts.
        all.clear();
    }
    let hosts: Vec<_> = hosts.into_iter().map(classify::Prefix::host).collect();
    either_end(all, &hosts, |one, host| {
        one.source = Some(one.source.map_or(Some(*host), |source| within_both(source, *host))?);
        Some(())
    });
}

/// The conditions on the packets that answer.
fn exchanged(one: &classify::Match) -> classify::Match {
    classify::Match {
        source: one.destination,
        destination: one.source,
        source_ports: one.destination_ports.clone(),
        destination_ports: one.source_ports.clone(),
        ..one.clone()
    }
}

/// The prefix that is within both, if they have addresses in common.
fn within_both(one: classify::Prefix, other: classify::Prefix) -> Option<classify::Prefix> {
    let (wide, narrow) = if one.length() <= other.length() { (one, other) } else { (other, one) };
    wide.contains(narrow.address()).then_some(narrow)
}

/// The ports that are in both lists, where an empty first list stands for all; `None` if there are none.
fn common_ports(one: &[RangeInclusive<u16>], other: &[RangeInclusive<u16>]) -> Option<Vec<RangeInclusive<u16>>> {
    if one.is_empty() {
        return Some(other.to_vec());
    }
    let pairs = one.iter().flat_map(|one| other.iter().map(move |other| (one, other)));
    let common = pairs.map(|(one, other)| *one.start().max(other.start())..=*one.end().min(other.end()));
    let common: Vec<_> = common.filter(|range| !range.is_empty()).collect();
    (!common.is_empty()).then_some(common)
}

/// Numbers for names, where only equality matters. They begin beyond those that a file can write.
#[derive(Default)]
struct Numbered {
    users: HashMap<String, u32>,
    /// Those of interfaces begin with a slash, which paths here do not.
    cgroups: HashMap<String, u64>,
    /// Devices and names, as they are written.
    hosts: HashMap<String, u32>,
}

impl Numbered {
    /// Addresses that no host has, a pair for each device or name: of class E, and of the prefix for what is discarded (RFC 6666).
    fn host(&mut self, written: String) -> Option<Vec<IpAddr>> {
        let next = u32::try_from(self.hosts.len()).ok()?;
        let number = *self.hosts.entry(written).or_insert(next);
        let v4 = Ipv4Addr::from_bits(u32::from(Ipv4Addr::new(240, 0, 0, 0)) | number);
        let v6 = Ipv6Addr::from_bits(u128::from(Ipv6Addr::new(0x100, 0, 0, 0, 0, 0, 0, 0)) | u128::from(number));
        Some(vec![v4.into(), v6.into()])
    }
}

impl Owners for Numbered {
    fn user(&mut self, name: &str) -> Option<u32> {
        let next = u32::try_from(self.users.len()).ok()?;
        Some(match self.users.entry(name.to_owned()) {
            Entry::Occupied(entry) => *entry.get(),
            // A name and a number may denote the same user. That only suppresses a warning.
            Entry::Vacant(entry) => *entry.insert(u32::MAX - 1 - next),
        })
    }
    fn cgroup(&mut self, path: &str) -> Option<u64> {
        let next = self.cgroups.len() as u64;
        Some(*self.cgroups.entry(path.to_owned()).or_insert(next))
    }
    fn interface(&mut self, name: &str) -> Option<u64> {
        self.cgroup(&format!("/{name}"))
    }
    fn addresses(&mut self, mac: Mac) -> Option<Vec<IpAddr>> {
        self.host(mac.to_string())
    }
    fn named(&mut self, name: &Named) -> Option<Vec<IpAddr>> {
        self.host(format!("{} {name}", name.key()))
    }
}

/// Compares `rules` with each other; `places` are their places in the file.
pub(super) fn check(rules: &[Rule], places: &[Place], diagnostics: &mut Diagnostics) {
    let mut conjunctions = Vec::new();
    let mut owners = Numbered::default();
    for ((target, rule), place) in (0..).zip(rules).zip(places) {
        if rule.matches.combinations() > MOST_CONJUNCTIONS {
            diagnostics
                .error(*place, format!("the lists of this rule make {} combinations", rule.matches.combinations()))
                .label("too many")
                .help(format!("split it, or write prefixes and ranges: a rule may stand for {MOST_CONJUNCTIONS}"));
            return;
        }
        // Memory runs out long before numbers do.
        let Ok(of_rule) = rule.matches.conjunctions(&mut owners) else { return };
        conjunctions.extend(of_rule.into_iter().map(|matching| classify::Rule { matching, target }));
    }
    let place = |target: u32| places.get(target as usize).copied().unwrap_or_default();
    let last = place(conjunctions.last().map_or(0, |rule| rule.target));
    let number = conjunctions.len();
    let targets: Vec<u32> = conjunctions.iter().map(|rule| rule.target).collect();
    let compared: Vec<_> =
        conjunctions.iter().filter(|rule| rules[rule.target as usize].matches.is_comparable()).cloned().collect();
    match Classifier::new(conjunctions) {
        Ok(_) if number <= MOST_COMPARED => {
            let always = |target: u32| rules[target as usize].matches.key_of_clock().is_none();
            shadowed(compared, &always, &place, diagnostics);
        }
        Ok(_) => {
            diagnostics
                .warning(last, format!("the rules make {number} combinations: too many to compare with each other"))
                .label("a rule that never matches would not be noticed")
                .help(format!("up to {MOST_COMPARED} are compared"));
        }
        Err(BuildError::Masks { rule }) => {
            diagnostics
                .error(place(targets.get(rule as usize).copied().unwrap_or(0)), "a 17th mask of marks")
                .label("one too many")
                .help("give the marks of some rules a common mask");
        }
        Err(error @ (BuildError::TooComplex | BuildError::TooMany)) => {
            let help = "make ranges narrower, or let them overlap in one key only";
            diagnostics.error(last, error.to_string()).label("up to here").help(help);
        }
    }
}

/// Warns of rules that earlier rules cover completely. A rule that does not hold `always`, but at some times or until its quota is used
/// up, takes no packets from later ones at others: it can be covered, and covers none.
fn shadowed(
    rules: Vec<classify::Rule>,
    always: &dyn Fn(u32) -> bool,
    place: &dyn Fn(u32) -> Place,
    diagnostics: &mut Diagnostics,
) {
    let unconditional: Vec<_> = rules.iter().filter(|rule| always(rule.target)).cloned().collect();
    let mut found = covered(unconditional);
    let is_by_one = |by: &Vec<Option<u32>>| by.iter().all(|by| by.is_some_and(always));
    found.extend(covered(rules).into_iter().filter(|(target, by)| !always(*target) && is_by_one(by)));
    for (target, by) in found {
        let warning = diagnostics.warning(place(target), format!("rule {} never matches", target + 1));
        warning.label("earlier rules take all of its packets").help("move it up, make it narrower, or remove it");
        let by: BTreeSet<u32> = by.into_iter().flatten().collect();
        for by in by {
            warning.related(place(by), format!("rule {} takes them", by + 1));
        }
    }
}

/// The targets of which earlier rules cover every conjunction, with the target that covers each; none where several do together.
fn covered(rules: Vec<classify::Rule>) -> BTreeMap<u32, Vec<Option<u32>>> {
    let targets: Vec<u32> = rules.iter().map(|rule| rule.target).collect();
    let mut found: BTreeMap<u32, Vec<Option<u32>>> = BTreeMap::new();
    // All rules together can be built, and these are some of them.
    let Ok(classifier) = Classifier::new(rules) else { return found };
    for shadowed in classifier.shadowed() {
        let by = match shadowed.cause {
            Cause::Rule(by) => targets.get(by as usize).copied(),
            Cause::Contradiction | Cause::Several => None,
        };
        found.entry(targets[shadowed.rule as usize]).or_default().push(by);
    }
    let mut parts: HashMap<u32, usize> = HashMap::new();
    for target in &targets {
        *parts.entry(*target).or_default() += 1;
    }
    found.retain(|target, by| parts.get(target) == Some(&by.len()));
    found
}
