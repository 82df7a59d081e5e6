//! The proof that rules lead packets to the queues, by probes, and how a failure is explained.

use std::collections::HashMap;
use std::net::IpAddr;
use std::sync::mpsc;
use std::time::{Duration, Instant as Clock};

use tidegate_config::shaper::Rule;
use tidegate_config::values::{Prefix, User};
use tidegate_core::classify::{Fields, Hosts};
use tidegate_core::{ClassId, Dscp};

use super::Queue;
use crate::guardian::Turn;
use crate::netlink;
use crate::probe::{Failure, Probe, ProbeTable, Prober, QueueState, Version};
use crate::rtnl::{ChangeMonitor, Rtnl};
use crate::rules::Direction;
use crate::shaping::backend::Backend;
use crate::shaping::command::Command;
use crate::shaping::error::{Effect, Mistaken, RewritingRule, Rewritten, StartError, Unproven};
use crate::shaping::find::{find, find_some};
use crate::shaping::interfaces::Proof;
use crate::shaping::prove::{VERSIONS, is_carried};
use crate::shaping::running::{Running, random};
use crate::shaping::thread::PathThread;

const UDP: u8 = libc::IPPROTO_UDP as u8;
/// How long a probe may take. It usually takes some tens of microseconds.
const PATIENCE: Duration = Duration::from_millis(500);
const ATTEMPTS: u32 = 3;
/// A probe is lost if the data path has made this many turns since its time expired: the first of them began before,
/// the second receives the queued packets, the third confirms that they were received.
const TURNS: u64 = 3;
/// How long a data path may take for these turns on a machine that is too busy.
const LONGEST: Duration = Duration::from_secs(10);

/// The first and the longest interval between attempts to complete a proof. A filter may log each probe that it drops.
const FIRST_RETRY: Duration = Duration::from_secs(1);
const LAST_RETRY: Duration = Duration::from_secs(60);
/// The delay after a change of an address or a route: several changes often occur together.
const SETTLE: Duration = Duration::from_millis(100);

/// The times at which an incomplete proof is tried again.
#[derive(Debug)]
pub(super) struct Retry {
    /// Reports changes of addresses, routes and links; without it attempts are made at intervals only.
    changes: Option<ChangeMonitor>,
    next: Clock,
    interval: Duration,
}

impl Retry {
    pub fn start() -> Self {
        Self { changes: ChangeMonitor::open().ok(), next: Clock::now() + FIRST_RETRY, interval: FIRST_RETRY }
    }

    /// Whether an attempt is due: soon after a change, otherwise at growing intervals.
    fn is_due(&mut self) -> bool {
        let now = Clock::now();
        if self.changes.as_mut().is_some_and(ChangeMonitor::has_changed) {
            self.interval = FIRST_RETRY;
            self.next = self.next.min(now + SETTLE);
        }
        if now < self.next {
            return false;
        }
        self.interval = (self.interval * 2).min(LAST_RETRY);
        self.next = now + self.interval;
        true
    }
}

/// Why a probe could not be sent, as a message.
fn why_unsent(error: &netlink::Error) -> String {
    let why = match error.errno() {
        Some(libc::EPERM | libc::EACCES) => "a rule of the packet filter drops what this host sends there",
        Some(libc::ENETUNREACH | libc::EHOSTUNREACH) => "there is no route by it yet",
        Some(libc::EADDRNOTAVAIL) => "it has no address that can be used yet",
        Some(libc::ENETDOWN | libc::ENODEV | libc::ENXIO) => "it is down",
        _ => return error.to_string(),
    };
    format!("{why} ({error})")
}

impl Queue {
    /// Reads the rules back and waits for a probe of each class to come through by each interface.
    pub(super) fn prove_by_probes(&mut self, running: &mut Running) -> Result<(), StartError> {
        let mut failures = Vec::new();
        let inspection = self.inspect()?;
        failures.extend(inspection.differences.iter().map(|difference| Unproven::Rule(difference.to_string())));
        for (queue, state) in &inspection.queues {
            if *state == QueueState::Unserved {
                failures.push(Unproven::Queue(*queue));
            }
        }
        if !failures.is_empty() {
            return Err(StartError::Unproven { interface: running.names(), failures });
        }
        let mut proofs = Vec::new();
        let names: Vec<String> = running.interfaces.iter().map(|interface| interface.name().to_owned()).collect();
        // An error where none of them is there.
        find_some(&names)?;
        for at in 0..names.len() {
            proofs.push(match running.find_again(at) {
                Some(index) => running.probe(at, index, &VERSIONS)?,
                None => Proof {
                    awaited: VERSIONS.iter().map(|&version| (version, "it is not there".to_owned())).collect(),
                    ..Proof::default()
                },
            });
        }
        for (interface, proof) in running.interfaces.iter_mut().zip(proofs) {
            interface.proof = proof;
        }
        Ok(())
    }

    /// Sends probes of the protocols that are awaited, if it is time to.
    pub(super) fn probe_again(&mut self, running: &mut Running) -> Result<Vec<(String, Version)>, StartError> {
        let mut proven = Vec::new();
        if !self.retry.is_due() {
            return Ok(proven);
        }
        for at in 0..running.interfaces.len() {
            let versions: Vec<_> = running.interfaces[at].proof.awaited.iter().map(|(version, _)| *version).collect();
            let Some(index) = running.find_again(at).filter(|_| !versions.is_empty()) else { continue };
            let proof = running.probe(at, index, &versions)?;
            let interface = &mut running.interfaces[at];
            let now = versions.iter().copied().filter(|version| proof.has(*version));
            proven.extend(now.map(|version| (interface.name().to_owned(), version)));
            interface.proof.merge(proof);
        }
        Ok(proven)
    }
}

impl Running {
    /// The index of an interface, which may have returned with another one.
    fn find_again(&mut self, at: usize) -> Option<u32> {
        let interface = &mut self.interfaces[at];
        let index = find(interface.name()).ok();
        if index.is_some() {
            interface.set_index(index);
        }
        index
    }

    /// Sends a probe of each class and each of `versions` by the interface at `at`.
    ///
    /// # Errors
    /// [`StartError::Unproven`] when one was sent and did not come through.
    fn probe(&self, at: usize, index: u32, versions: &[Version]) -> Result<Proof, StartError> {
        let interface = self.interfaces[at].name();
        let prober = Prober::new(interface, index, random()?[0]);
        let prober = match self.direction {
            Direction::Egress => prober,
            Direction::Ingress => prober.arriving(),
        };
        let multicast =
            Rtnl::open()?.link_by_index(index)?.is_some_and(|link| link.has_multicast() || link.is_loopback());
        let mut proof = Proof::default();
        let mut carried = Vec::new();
        for &version in versions {
            match is_carried(interface, version) {
                Ok(()) => carried.push(version),
                Err(why) => proof.not_carried.push((version, why)),
            }
        }
        let mut probes: ProbeTable<ClassId> = ProbeTable::new();
        for (number, name) in (0..).zip(&self.class_names) {
            let class = ClassId(number);
            let (mut any, mut why) = (false, None);
            for &version in &carried {
                match self.probe_for(&prober, class, version, index)? {
                    Ok(probe) => {
                        probes.expect(probe, class);
                        any = true;
                    }
                    Err(lacks) => why = why.or(Some(lacks)),
                }
            }
            if let Some(why) = why.filter(|_| !any) {
                proof.unprobed.push((name.clone(), why));
            }
        }
        if self.direction == Direction::Ingress && !multicast {
            let why = "it carries no multicast, with which a probe could be made to arrive";
            proof.awaited = carried.iter().map(|&version| (version, why.to_owned())).collect();
            return Ok(proof);
        }
        let unsent = self.send_probes(&prober, &mut probes)?;
        let mut failures = Vec::new();
        self.evaluate(&probes, &carried, &unsent, &mut proof, &mut failures);
        if failures.is_empty() {
            return Ok(proof);
        }
        Err(StartError::Unproven { interface: interface.to_owned(), failures })
    }

    /// Sends probes until all have arrived, or have been lost [`ATTEMPTS`] times. Returns the numbers of those that could not be
    /// sent, and why.
    fn send_probes(
        &self,
        prober: &Prober,
        probes: &mut ProbeTable<ClassId>,
    ) -> Result<HashMap<u32, String>, StartError> {
        let (reports, arrivals) = mpsc::channel();
        for thread in &self.threads {
            thread.send(Command::Watch(prober.cookie(), reports.clone()))?;
        }
        drop(reports);
        // The data path receives packets before commands: a probe that arrived before the command would be treated as
        // traffic, leave the host and create a flow. If the data path does not reply, the probes are lost, which is
        // reported below.
        let _ = self.counts();
        let mut unsent: HashMap<u32, String> = HashMap::new();
        let (mut attempts, limit) = (0, Clock::now() + LONGEST);
        let pages = || self.threads.iter().map(|thread| &thread.state.page);
        while attempts < ATTEMPTS {
            let takeovers = || pages().map(|page| page.takeovers()).sum::<u64>();
            let (guarded, before) = (pages().any(|page| page.turn() != Turn::Shaper), takeovers());
            let awaited: Vec<Probe> =
                probes.awaited().filter(|probe| !unsent.contains_key(&probe.number)).copied().collect();
            for probe in &awaited {
                if let Err(error) = prober.send(probe) {
                    unsent.insert(probe.number, why_unsent(&error));
                }
            }
            let end = Clock::now() + PATIENCE;
            let mut turned = None;
            while probes.awaited().any(|probe| !unsent.contains_key(&probe.number)) {
                let wait = end.saturating_duration_since(Clock::now()).max(Duration::from_millis(5));
                // Read before the reports, so that no report is missed.
                let beats = self.beats();
                let turned = turned.get_or_insert_with(|| beats.clone());
                if let Ok((number, classification)) = arrivals.recv_timeout(wait) {
                    probes.arrived(number, classification.class);
                } else if turned.iter().zip(beats).all(|(before, now)| now >= before + TURNS)
                    || Clock::now() > end + LONGEST
                {
                    break;
                } else {
                    self.threads.iter().for_each(PathThread::wake);
                }
            }
            // A probe that the guardian let pass is no evidence about the rules.
            let passed = guarded || takeovers() != before;
            attempts += u32::from(!passed || Clock::now() > limit);
        }
        Ok(unsent)
    }

    fn evaluate(
        &self,
        sent_probes: &ProbeTable<ClassId>,
        carried: &[Version],
        unsent: &HashMap<u32, String>,
        proof: &mut Proof,
        failures: &mut Vec<Unproven>,
    ) {
        let name = |class: ClassId| self.class_names[class.0 as usize].clone();
        let lost: Vec<_> = sent_probes.failures();
        let is_lost = |number: u32| {
            lost.iter().any(|failure| matches!(failure, Failure::Lost { probe, .. } if probe.number == number))
        };
        for &version in carried {
            let of_version: Vec<_> = sent_probes.probes().filter(|(probe, _)| probe.version == version).collect();
            if of_version.is_empty() {
                proof.awaited.push((version, "the rules ask for what a probe cannot have".into()));
                continue;
            }
            // That none could be sent proves nothing.
            if let Some(why) = of_version.iter().find_map(|(probe, _)| unsent.get(&probe.number))
                && of_version.iter().all(|(probe, _)| unsent.contains_key(&probe.number))
            {
                proof.awaited.push((version, why.clone()));
                continue;
            }
            let came = |&&(probe, _): &&(&Probe, &ClassId)| !is_lost(probe.number);
            if !of_version.iter().any(|entry| came(&entry)) {
                failures.push(match self.direction {
                    Direction::Egress => Unproven::Protocol(version),
                    Direction::Ingress => Unproven::Arrival(version),
                });
                continue;
            }
            for &(probe, &class) in &of_version {
                if let Some(why) = unsent.get(&probe.number) {
                    proof.unprobed.push((name(class), why.clone()));
                } else if is_lost(probe.number) {
                    failures.push(Unproven::Class(name(class), version));
                } else {
                    match proof.proven.iter_mut().find(|(known, _)| *known == name(class)) {
                        Some((_, versions)) => versions.push(version),
                        None => proof.proven.push((name(class), vec![version])),
                    }
                }
            }
        }
        // Once for both protocols.
        let mut mistaken: Vec<(ClassId, ClassId, Vec<Version>)> = Vec::new();
        for failure in &lost {
            let Failure::Misclassified { probe, class, taken_for } = failure else { continue };
            match mistaken.iter_mut().find(|(one, other, _)| (one, other) == (class, taken_for)) {
                Some((.., versions)) => versions.push(probe.version),
                None => mistaken.push((*class, *taken_for, vec![probe.version])),
            }
        }
        failures.extend(mistaken.into_iter().map(|(class, taken_for, versions)| {
            let takes = self.rewriting(taken_for, Effect::Takes);
            let (direction, rule) = (self.direction, takes.or_else(|| self.rewriting(class, Effect::Misses)));
            let (class, taken_for) = (name(class), name(taken_for));
            Unproven::Mistaken(Mistaken { class, taken_for, versions, direction, rule })
        }));
    }

    /// The first rule of `class` that asks for a mark or a code point, which another program may set.
    fn rewriting(&self, class: ClassId, effect: Effect) -> Option<RewritingRule> {
        let mut of_class = self.config.rules.iter().enumerate().filter(|(_, rule)| rule.class == class);
        of_class.find_map(|(at, rule)| {
            let rewritten = match (rule.matches.marks.is_empty(), rule.matches.dscps.is_empty()) {
                (false, _) => Rewritten::Mark,
                (true, false) => Rewritten::Dscp,
                (true, true) => return None,
            };
            Some(RewritingRule { number: at + 1, matches: rule.matches.to_string(), rewritten, effect })
        })
    }

    /// A datagram that the rules put into `class`, if one can be made.
    fn probe_for(
        &self,
        prober: &Prober,
        class: ClassId,
        version: Version,
        index: u32,
    ) -> Result<Result<Probe, String>, StartError> {
        let own = Own { address: own_address(version, index)?, direction: self.direction };
        let config = &self.config;
        let mut candidates: Vec<(Probe, Fields)> = Vec::new();
        if class == config.default_class {
            candidates.extend(matching_probe(prober, version, own, None));
        }
        let mut lacks = None;
        for (number, rule) in (1..).zip(&config.rules).filter(|(_, rule)| rule.class == class) {
            match matching_probe(prober, version, own, Some(rule)) {
                Ok(candidate) => candidates.push(candidate),
                Err(key) => {
                    lacks = lacks.or(Some(format!("rule {number} asks for `{key}`, which a probe cannot have")))
                }
            }
        }
        for (probe, fields) in candidates {
            // Earlier rules may take it; only the engine itself knows.
            if self.with_shard(0, move |engine, _, _| engine.classify(&fields).class)? == class {
                return Ok(Ok(probe));
            }
        }
        Ok(Err(lacks.unwrap_or_else(|| "rules of other classes take whatever a probe can be".into())))
    }
}

/// The source address of a probe.
fn own_address(version: Version, index: u32) -> Result<Option<IpAddr>, StartError> {
    let addresses = Rtnl::open()?.addresses()?;
    let fits =
        |address: IpAddr| matches!((version, address), (Version::V4, IpAddr::V4(_)) | (Version::V6, IpAddr::V6(_)));
    Ok(addresses.iter().filter(|a| a.index == index).map(|a| a.address).find(|&address| fits(address)))
}

/// The source address of probes, and their direction.
#[derive(Clone, Copy)]
struct Own {
    address: Option<IpAddr>,
    direction: Direction,
}

/// A probe that meets the conditions of `rule`, with the fields that it will be classified by.
///
/// # Errors
/// The key of a condition that no probe meets.
fn matching_probe(
    prober: &Prober,
    version: Version,
    own: Own,
    rule: Option<&Rule>,
) -> Result<(Probe, Fields), &'static str> {
    let mut probe = Probe::new(0, version, 0);
    let fits = |prefix: &&Prefix| prefix.address.is_ipv4() == (version == Version::V4);
    if let Some(rule) = rule {
        let wanted = &rule.matches;
        // A probe is a datagram of one size, and a rule with times or a quota may match nothing now.
        if let Some(key) = wanted.keys_of_packets().next().or(wanted.key_of_clock()) {
            return Err(key);
        }
        let is_udp = wanted.protocols.is_empty() || wanted.protocols.iter().any(|protocol| protocol.0 == UDP);
        let is_of_root = wanted.users.iter().all(|user| *user == User::Id(0));
        // The address of a device is not this host's, and a probe comes in by no interface.
        for (is_met, key) in [
            (is_udp, "protocol"),
            (wanted.macs.is_empty(), "mac"),
            (wanted.from_interfaces.is_empty(), "from-interface"),
            (wanted.cgroups.is_empty(), "cgroup"),
            (is_of_root, "user"),
        ] {
            if !is_met {
                return Err(key);
            }
        }
        if let Some(named) = wanted.named().next() {
            return Err(named.key());
        }
        let is_own = |prefix: &Prefix| own.address.is_some_and(|own| prefix.contains(own));
        if !wanted.sources.is_empty() && !wanted.sources.iter().any(is_own) {
            return Err("source");
        }
        probe.dscp = wanted.dscps.first().map_or(0, |dscp| dscp.value());
        probe.mark = wanted.marks.first().map(|mark| mark.value);
        probe.port = wanted.destination_ports.first().map(|ports| ports.first.max(1).min(ports.last));
        probe.source_port = wanted.source_ports.first().map(|ports| ports.last);
        // A port of either end is that of the receiver where the rule leaves this open.
        if let Some(ports) = wanted.ports.first() {
            probe.port.get_or_insert(ports.first.max(1).min(ports.last));
        }
        let elsewhere: &[Prefix] = if wanted.hosts.iter().any(is_own) { &[] } else { &wanted.hosts };
        for (destinations, key) in [(&wanted.destinations[..], "destination"), (elsewhere, "host")] {
            if destinations.is_empty() {
                continue;
            }
            match own.direction {
                Direction::Egress => probe.to = Some(destinations.iter().find(fits).ok_or(key)?.address),
                // An arriving probe is sent to all nodes, so the rule must include that address.
                Direction::Ingress => {
                    let to = prober.destination(&probe);
                    destinations.iter().find(|prefix| prefix.contains(to)).ok_or(key)?;
                }
            }
        }
    }
    let destination = prober.destination(&probe);
    let hosts = match (own.address.unwrap_or(unspecified(version)), destination) {
        (IpAddr::V4(source), IpAddr::V4(destination)) => Hosts::V4 { source, destination },
        (IpAddr::V6(source), IpAddr::V6(destination)) => Hosts::V6 { source, destination },
        _ => return Err("destination"),
    };
    let fields = Fields {
        hosts,
        dscp: Dscp::new(probe.dscp).ok_or("dscp")?,
        protocol: Some(UDP),
        // An ephemeral source port: rules that ask for one have set it above.
        source_port: Some(probe.source_port.unwrap_or(60_999)),
        destination_port: Some(probe.port.unwrap_or(9)),
        mark: probe.mark.unwrap_or(0),
        uid: (own.direction == Direction::Egress).then_some(0),
        ..Fields::default()
    };
    Ok((probe, fields))
}

fn unspecified(version: Version) -> IpAddr {
    match version {
        Version::V4 => IpAddr::from([0; 4]),
        Version::V6 => IpAddr::from([0; 16]),
    }
}
