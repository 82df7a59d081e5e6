//! The fields of simulated packets that rules can match: addresses, ports, marks and owners.

use std::collections::BTreeSet;
use std::net::IpAddr;
use std::sync::Arc;

use tidegate_config::shaper::Config;
use tidegate_config::values::{Date, User, WallStart, WeekMinute};
use tidegate_core::Instant;
use tidegate_core::classify::{Fields, Hosts, Traits};
use tidegate_engine::{Names, Target};

use crate::packet::SimPacket;
use crate::workload::{FlowSpec, Transport};

/// The id of the first named user of a scenario, as for people on a usual machine.
pub const FIRST_USER: u32 = 1_000;
/// The id of the first user that a rule names but no flow belongs to.
const FIRST_STRANGER: u32 = 1_000_000;
/// The first source port of flows with one connection; the number of the flow is added.
const FIRST_PORT: u16 = 32_768;
/// The first source port of flows with many connections; the number of the connection is added.
const FIRST_SHARED_PORT: u16 = 49_152;
const PORTS: u64 = 16_384;
/// A second in nanoseconds.
const SECOND: u64 = 1_000_000_000;

/// The hosts, flows and users of a network that rules can match.
#[derive(Clone)]
pub(crate) struct Population {
    addresses: Arc<[IpAddr]>,
    flows: Arc<[FlowSpec]>,
    users: Arc<[String]>,
    /// The wall clock at time 0.
    starts: WallStart,
}

/// The fields of the packets of a flow.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Identity {
    /// The sending node of the forward direction.
    from: u32,
    /// The fields in the forward and in the reverse direction.
    fields: [Fields; 2],
    /// Whether each connection has a source port of its own.
    many: bool,
}

impl Identity {
    /// The fields that rules match for `packet`.
    pub fn fields(&self, packet: &SimPacket) -> Fields {
        let back = usize::from(packet.source != self.from);
        let traits = Traits { length: u16::try_from(packet.size).unwrap_or(u16::MAX), signal: packet.signal() };
        let mut fields = Fields { dscp: packet.dscp, traits, ..self.fields[back] };
        if self.many {
            let port = FIRST_SHARED_PORT + (packet.connection() % PORTS) as u16;
            if back == 0 {
                fields.source_port = Some(port);
            } else {
                fields.destination_port = Some(port);
            }
        }
        fields
    }
}

impl Identity {
    /// The fields that all packets have in the forward (0) or reverse (1) direction.
    pub fn target(&self, back: usize) -> Target {
        let fields = &self.fields[back];
        Target {
            protocol: fields.protocol,
            source: fields.hosts.source(),
            destination: fields.hosts.destination(),
            port: None,
            source_port: fields.source_port.filter(|_| !self.many || back == 1),
            destination_port: fields.destination_port.filter(|_| !self.many || back == 0),
            uid: None,
        }
    }

    /// Whether a packet with these fields can belong to this flow, in either direction.
    pub fn matches(&self, fields: &Fields) -> bool {
        let same = |own: Option<u16>, other: Option<u16>| own.is_none() || own == other;
        [0, 1].into_iter().any(|back| {
            let own = self.target(back);
            self.fields[back].hosts == fields.hosts
                && own.protocol == fields.protocol
                && same(own.source_port, fields.source_port)
                && same(own.destination_port, fields.destination_port)
        })
    }
}

impl Population {
    pub fn new(addresses: Vec<IpAddr>, flows: &[FlowSpec], starts: WallStart) -> Self {
        let mut users: Vec<String> = Vec::new();
        for flow in flows {
            if let Some(User::Name(name)) = &flow.user
                && !users.contains(name)
            {
                users.push(name.clone());
            }
        }
        Self { addresses: addresses.into(), flows: flows.into(), users: users.into(), starts }
    }

    /// The minute of the week at `now`, and when the next one begins.
    fn minute(&self, now: Instant) -> (WeekMinute, Instant) {
        let seconds = now.as_nanos() / SECOND;
        let (minute, left) = self.starts.after(seconds);
        (minute, Instant::from_nanos(seconds.saturating_add(left).saturating_mul(SECOND)))
    }
    /// The rules of `config` whose time it is not at `now`, and when to ask again for rules that do not hold: with quotas once a
    /// second, as a live shaper does.
    pub fn rules_off(&self, config: &Config, now: Instant) -> (BTreeSet<u32>, Instant) {
        let (minute, next) = self.minute(now);
        let next = match config.timed_rule() {
            None => Instant::MAX,
            Some(_) if config.quotas().next().is_some() => {
                Instant::from_nanos((now.as_nanos() / SECOND + 1).saturating_mul(SECOND))
            }
            Some(_) => next,
        };
        (config.rules_off(minute), next)
    }
    /// The date at `now`.
    pub fn date(&self, now: Instant) -> Date {
        self.starts.date_after(now.as_nanos() / SECOND)
    }

    /// The id of a named user to whom a flow belongs.
    pub fn user(&self, name: &str) -> Option<u32> {
        self.users.iter().position(|user| user == name).map(|at| FIRST_USER + at as u32)
    }

    /// The identity of each flow as a shaper sees it. Owners are known on links that begin at `local`, for packets that
    /// leave that host.
    pub fn identities(&self, names: &Names, local: Option<u32>) -> Vec<Identity> {
        self.flows.iter().enumerate().map(|(number, flow)| self.identity(number, flow, names, local)).collect()
    }

    fn identity(&self, number: usize, flow: &FlowSpec, names: &Names, local: Option<u32>) -> Identity {
        let address = |node: crate::NodeId| self.addresses[node.index() as usize];
        let port = flow.source_port.unwrap_or_else(|| FIRST_PORT + (number as u64 % PORTS) as u16);
        let there = Fields {
            hosts: hosts(address(flow.from), address(flow.to)),
            protocol: Some(match flow.transport {
                Transport::Tcp(_) => 6,
                Transport::Udp { .. } | Transport::Other { .. } => 17,
            }),
            source_port: Some(port),
            destination_port: Some(flow.port),
            mark: flow.mark,
            ..Fields::default()
        };
        let back = Fields {
            hosts: hosts(address(flow.to), address(flow.from)),
            source_port: there.destination_port,
            destination_port: there.source_port,
            ..there
        };
        let mut fields = [there, back];
        // The socket at `from` has the owner of the flow; that at `to` belongs to a server whose owner is unknown.
        if local == Some(flow.from.index()) {
            fields[0].uid = match &flow.user {
                Some(User::Id(id)) => Some(*id),
                Some(User::Name(name)) => self.user(name),
                None => None,
            };
            fields[0].cgroup = flow.control_group.as_ref().and_then(|path| group_number(path, names));
        }
        let of_connections = flow.transport.has_connections() && flow.workload.many_connections();
        Identity { from: flow.from.index(), fields, many: of_connections && flow.source_port.is_none() }
    }
}

fn hosts(source: IpAddr, destination: IpAddr) -> Hosts {
    match (source, destination) {
        (IpAddr::V4(source), IpAddr::V4(destination)) => Hosts::V4 { source, destination },
        (IpAddr::V6(source), IpAddr::V6(destination)) => Hosts::V6 { source, destination },
        _ => Hosts::Unknown,
    }
}

/// The number of the innermost control group in `names` that contains `path`.
fn group_number(path: &str, names: &Names) -> Option<u64> {
    let path = path.trim_matches('/');
    let within = |group: &str| path.strip_prefix(group).is_some_and(|rest| rest.is_empty() || rest.starts_with('/'));
    let groups = names.cgroups.iter().filter(|(group, _)| within(group));
    groups.max_by_key(|(group, _)| group.len()).map(|(_, number)| *number)
}

/// Assigns ids to the users and control groups in the rules of `config`, and finds the rules that do not hold at `now`.
pub(crate) fn names(config: &Config, population: &Population, now: Instant) -> Names {
    let mut names = Names { off: population.rules_off(config, now).0, ..Names::default() };
    for (user, number) in population.users.iter().zip(FIRST_USER..) {
        names.users.insert(user.clone(), number);
    }
    let mut stranger = FIRST_STRANGER;
    for rule in &config.rules {
        for user in &rule.matches.users {
            if let User::Name(name) = user
                && !names.users.contains_key(name)
            {
                names.users.insert(name.clone(), stranger);
                stranger += 1;
            }
        }
        for path in &rule.matches.cgroups {
            let next = names.cgroups.len() as u64 + 1;
            names.cgroups.entry(path.clone()).or_insert(next);
        }
    }
    names
}

const _: () = assert!(FIRST_PORT as u64 + PORTS == FIRST_SHARED_PORT as u64);
