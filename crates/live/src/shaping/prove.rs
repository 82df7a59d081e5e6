//! The proof that shaping is in force, and how a failure is explained.

use std::collections::HashMap;
use std::net::IpAddr;
use std::sync::mpsc;
use std::time::{Duration, Instant as Clock};

use tidegate_config::shaper::{Config, Rule};
use tidegate_config::values::{Prefix, User};
use tidegate_core::classify::{Fields, Hosts};
use tidegate_core::{ClassId, Dscp};

use super::{Command, Shaping, StartError, random};
use crate::probe::{Failure, Ledger, Probe, Prober, Version};
use crate::rtnl::Rtnl;
use crate::rules::Direction;

const UDP: u8 = 17;
/// How long a probe may take; it takes some tens of microseconds.
const PATIENCE: Duration = Duration::from_millis(500);
const ATTEMPTS: u32 = 3;
/// A probe is lost if the data path has turned so often since its time was over: the first of these turns began before,
/// the second looks at what waits, the third tells that it has.
const TURNS: u64 = 3;
/// How long a data path may take for that which gets no time on a machine that is too busy.
const LONGEST: Duration = Duration::from_secs(10);

/// What was proven.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Proof {
    /// Classes of which a packet was seen to come through, with the protocols.
    pub seen: Vec<(String, Vec<Version>)>,
    /// Classes that no probe could be made for, and why.
    pub unprobed: Vec<(String, String)>,
    /// Protocols that the interface does not carry, and why.
    pub not_carried: Vec<(Version, String)>,
    /// Protocols of which no probe can be made to arrive, and why: [`Shaping::has_seen`] tells when a packet did.
    pub awaited: Vec<(Version, String)>,
}

/// What did not come through as it should.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Unproven {
    /// A rule is missing or changed.
    Rule(String),
    /// A queue is not registered with the kernel.
    Queue(u16),
    /// No packet of this protocol that leaves comes through the queue.
    Protocol(Version),
    /// No packet of this protocol that arrives comes through the queue.
    Arrival(Version),
    /// Packets of this class do not come through, though others do.
    Class(String, Version),
    /// Packets of this class come through as another.
    Mistaken {
        /// The class.
        class: String,
        /// What it was taken for.
        taken_for: String,
    },
}

pub(super) fn explain(failures: &[Unproven]) -> String {
    let text = |failure: &Unproven| match failure {
        Unproven::Rule(difference) => format!("read back, {difference}"),
        Unproven::Queue(queue) => format!("the kernel does not know queue {queue}"),
        Unproven::Protocol(version) => format!(
            "no {version:?} packet that we sent by it came through the queue; `tidegate doctor` looks for what may take it"
        ),
        Unproven::Arrival(version) => format!(
            "no {version:?} packet that we had arrive by it came through the queue; `tidegate doctor` looks for what may \
             take it"
        ),
        Unproven::Class(class, version) => format!("{version:?} packets of class `{class}` do not pass the queue"),
        Unproven::Mistaken { class, taken_for } => {
            format!(
                "packets of class `{class}` arrive as class `{taken_for}`; something rewrites them before the queue"
            )
        }
    };
    failures.iter().map(text).collect::<Vec<_>>().join("; ")
}

impl Shaping {
    /// Reads back the rules and sees a probe of each class come through.
    pub(super) fn prove(&mut self, config: &Config, index: u32) -> Result<Proof, StartError> {
        let mut failures = Vec::new();
        let inspection = self.inspect()?;
        failures.extend(inspection.differences.iter().map(|difference| Unproven::Rule(difference.to_string())));
        for (queue, state) in &inspection.queues {
            if *state == crate::probe::QueueState::Unserved {
                failures.push(Unproven::Queue(*queue));
            }
        }
        let proof = if failures.is_empty() { self.probe(config, index, &mut failures)? } else { Proof::default() };
        if failures.is_empty() {
            return Ok(proof);
        }
        Err(StartError::Unproven { interface: self.interface.clone(), failures })
    }

    fn probe(&mut self, config: &Config, index: u32, failures: &mut Vec<Unproven>) -> Result<Proof, StartError> {
        let prober = Prober::new(&self.interface, index, random()?[0]);
        let prober = match self.direction {
            Direction::Egress => prober,
            Direction::Ingress => prober.arriving(),
        };
        let multicast =
            Rtnl::open()?.link_by_index(index)?.is_some_and(|link| link.has_multicast() || link.is_loopback());
        let unable = self.direction == Direction::Ingress && !multicast;
        let mut proof = Proof::default();
        let mut ledger: Ledger<ClassId> = Ledger::new();
        for (number, name) in (0..).zip(self.class_names.clone()) {
            let class = ClassId(number);
            let mut any = false;
            for version in [Version::V4, Version::V6] {
                if let Some(probe) = self.probe_for(&prober, config, class, version, index)? {
                    ledger.expect(probe, class);
                    any = true;
                }
            }
            if !any {
                proof.unprobed.push((name, "its rules ask for what a probe cannot have".into()));
            }
        }
        if unable {
            let why = "it carries no multicast, with which a probe could be made to arrive";
            proof.awaited = [Version::V4, Version::V6].map(|version| (version, why.to_owned())).into();
            return Ok(proof);
        }
        let (tell, arrivals) = mpsc::channel();
        self.say(Command::Watch(prober.cookie(), tell))?;
        // It takes packets before words: a probe that came before it heard of them would pass for traffic, leave the
        // host, and have a promise of its own. One that does not answer loses the probes, which is told below.
        let _ = self.counts();
        let lifeline = self
            .lifeline()
            .map_err(|source| StartError::System { operation: "look at the data path".into(), source })?;
        let mut impossible: HashMap<u32, String> = HashMap::new();
        for _ in 0..ATTEMPTS {
            let awaited: Vec<Probe> =
                ledger.awaited().filter(|probe| !impossible.contains_key(&probe.number)).copied().collect();
            for probe in &awaited {
                if let Err(error) = prober.send(probe) {
                    impossible.insert(probe.number, error.to_string());
                }
            }
            let end = Clock::now() + PATIENCE;
            let mut turned = None;
            while ledger.awaited().any(|probe| !impossible.contains_key(&probe.number)) {
                let wait = end.saturating_duration_since(Clock::now()).max(Duration::from_millis(5));
                // Before what it told meanwhile is looked at.
                let beats = lifeline.beats();
                if let Ok((number, judgement)) = arrivals.recv_timeout(wait) {
                    ledger.arrived(number, judgement.class);
                } else if beats >= *turned.get_or_insert(beats) + TURNS || Clock::now() > end + LONGEST {
                    break;
                } else {
                    lifeline.ring();
                }
            }
        }
        self.judge(&ledger, &impossible, &mut proof, failures);
        Ok(proof)
    }

    fn judge(
        &self,
        ledger: &Ledger<ClassId>,
        impossible: &HashMap<u32, String>,
        proof: &mut Proof,
        failures: &mut Vec<Unproven>,
    ) {
        let name = |class: ClassId| self.class_names[class.0 as usize].clone();
        let lost: Vec<_> = ledger.failures();
        let is_lost = |number: u32| {
            lost.iter().any(|failure| matches!(failure, Failure::Lost { probe, .. } if probe.number == number))
        };
        for version in [Version::V4, Version::V6] {
            let of_version: Vec<_> = ledger.probes().filter(|(probe, _)| probe.version == version).collect();
            // A protocol that cannot even be sent is not carried; say so instead of failing.
            if let Some(why) = of_version.iter().find_map(|(probe, _)| impossible.get(&probe.number))
                && of_version.iter().all(|(probe, _)| impossible.contains_key(&probe.number))
            {
                proof.not_carried.push((version, why.clone()));
                continue;
            }
            let came = |&&(probe, _): &&(&Probe, &ClassId)| !is_lost(probe.number);
            if !of_version.is_empty() && !of_version.iter().any(|entry| came(&entry)) {
                failures.push(match self.direction {
                    Direction::Egress => Unproven::Protocol(version),
                    Direction::Ingress => Unproven::Arrival(version),
                });
                continue;
            }
            for &(probe, &class) in &of_version {
                if let Some(why) = impossible.get(&probe.number) {
                    proof.unprobed.push((name(class), why.clone()));
                } else if is_lost(probe.number) {
                    failures.push(Unproven::Class(name(class), version));
                } else {
                    match proof.seen.iter_mut().find(|(seen, _)| *seen == name(class)) {
                        Some((_, versions)) => versions.push(version),
                        None => proof.seen.push((name(class), vec![version])),
                    }
                }
            }
        }
        for failure in &lost {
            if let Failure::Misjudged { class, taken_for, .. } = failure {
                failures.push(Unproven::Mistaken { class: name(*class), taken_for: name(*taken_for) });
            }
        }
    }

    /// A datagram that the rules put into `class`, if one can be made.
    fn probe_for(
        &self,
        prober: &Prober,
        config: &Config,
        class: ClassId,
        version: Version,
        index: u32,
    ) -> Result<Option<Probe>, StartError> {
        let own = Own { address: own_address(version, index)?, direction: self.direction };
        let mut candidates: Vec<(Probe, Fields)> = Vec::new();
        if class == config.default_class {
            candidates.extend(dress(prober, version, own, None));
        }
        candidates.extend(
            config
                .rules
                .iter()
                .filter(|rule| rule.class == class)
                .filter_map(|rule| dress(prober, version, own, Some(rule))),
        );
        for (probe, fields) in candidates {
            // Earlier rules may take it; only the engine itself knows.
            if self.with(move |engine, _| engine.classify(&fields).class)? == class {
                return Ok(Some(probe));
            }
        }
        Ok(None)
    }
}

/// The address that a probe will have as its source.
fn own_address(version: Version, index: u32) -> Result<Option<IpAddr>, StartError> {
    let addresses = Rtnl::open()?.addresses()?;
    let fits =
        |address: IpAddr| matches!((version, address), (Version::V4, IpAddr::V4(_)) | (Version::V6, IpAddr::V6(_)));
    Ok(addresses.iter().filter(|a| a.index == index).map(|a| a.address).find(|&address| fits(address)))
}

/// Who sends a probe, and which way.
#[derive(Clone, Copy)]
struct Own {
    address: Option<IpAddr>,
    direction: Direction,
}

/// A probe that meets the conditions of `rule`, with the fields it will be seen with; `None` when it cannot.
fn dress(prober: &Prober, version: Version, own: Own, rule: Option<&Rule>) -> Option<(Probe, Fields)> {
    let mut probe = Probe::new(0, version, 0);
    let fits = |prefix: &&Prefix| prefix.address.is_ipv4() == (version == Version::V4);
    if let Some(rule) = rule {
        let wanted = &rule.matches;
        if !wanted.protocols.is_empty() && !wanted.protocols.iter().any(|protocol| protocol.0 == UDP) {
            return None;
        }
        if !wanted.cgroups.is_empty() || wanted.users.iter().any(|user| *user != User::Id(0)) {
            return None;
        }
        if !wanted.sources.is_empty()
            && !wanted.sources.iter().any(|prefix| own.address.is_some_and(|own| prefix.contains(own)))
        {
            return None;
        }
        probe.dscp = wanted.dscps.first().map_or(0, |dscp| dscp.value());
        probe.mark = wanted.marks.first().map(|mark| mark.value);
        probe.port = wanted.destination_ports.first().map(|ports| ports.first.max(1).min(ports.last));
        probe.source_port = wanted.source_ports.first().map(|ports| ports.last);
        if !wanted.destinations.is_empty() {
            match own.direction {
                Direction::Egress => probe.to = Some(wanted.destinations.iter().find(fits)?.address),
                // One that arrives goes to all nodes, whatever the rule says.
                Direction::Ingress => {
                    let to = prober.destination(&probe);
                    wanted.destinations.iter().find(|prefix| prefix.contains(to))?;
                }
            }
        }
    }
    let destination = prober.destination(&probe);
    let hosts = match (own.address.unwrap_or(unspecified(version)), destination) {
        (IpAddr::V4(source), IpAddr::V4(destination)) => Hosts::V4 { source, destination },
        (IpAddr::V6(source), IpAddr::V6(destination)) => Hosts::V6 { source, destination },
        _ => return None,
    };
    let fields = Fields {
        hosts,
        dscp: Dscp::new(probe.dscp)?,
        protocol: Some(UDP),
        // An ephemeral source port: rules that ask for one have set it above.
        source_port: Some(probe.source_port.unwrap_or(60_999)),
        destination_port: Some(probe.port.unwrap_or(9)),
        mark: probe.mark.unwrap_or(0),
        uid: (own.direction == Direction::Egress).then_some(0),
        ..Fields::default()
    };
    Some((probe, fields))
}

fn unspecified(version: Version) -> IpAddr {
    match version {
        Version::V4 => IpAddr::from([0; 4]),
        Version::V6 => IpAddr::from([0; 16]),
    }
}
