//! Targets: from the flows that a request names to conditions on packets.

use std::path::PathBuf;

use tidegate_control::calls::{Authority, Protocol, Target};
use tidegate_control::protocol::{Code, Refusal};
use tidegate_core::classify::{Fields, Hosts, Match, Prefix};
use tidegate_live::netns;

use super::owners::{self, ProcessTree, Socket};
use crate::caller::Caller;

/// The maximum number of sockets that are followed for a user who is not root.
const SOCKETS_OF_ONE: usize = 1_024;

/// The flows that a target selects.
#[derive(Debug)]
pub(crate) struct Selection {
    pub target: Target,
    /// Conditions on packets besides those of the sockets of processes.
    base: Vec<Match>,
    owner: Owner,
    sockets: Vec<Socket>,
    /// The maximum number of sockets.
    most: usize,
    /// Their packets match one of these.
    pub matches: Vec<Match>,
}

#[derive(Debug)]
enum Owner {
    Any,
    Processes(ProcessTree),
    Group(PathBuf),
}

/// Refuses a target that would match nothing because the sockets of its processes cannot be read.
fn readable(whose: &str, processes: impl IntoIterator<Item = u32>) -> Result<(), Refusal> {
    let mut denied = None;
    for pid in processes {
        match owners::held(pid) {
            Err(error) if error.kind() == std::io::ErrorKind::PermissionDenied => denied = Some(error),
            _ => return Ok(()),
        }
    }
    match denied {
        None => Ok(()),
        Some(error) => Err(Refusal::new(Code::Failed, format!("the sockets of {whose} cannot be read: {error}"))
            .help("give tidegate CAP_SYS_PTRACE, or name the flows by ports or a uid")),
    }
}

impl Selection {
    /// The flows of `target`; with `own` those of the caller's user.
    pub fn of(caller: &Caller, target: Target, own: bool) -> Result<Self, Refusal> {
        if target.is_empty() {
            return Err(Refusal::new(Code::Invalid, "it is not said for which flows")
                .help("give a port, addresses, a uid, a cgroup or a pid"));
        }
        let uid = caller.peer.uid;
        if own {
            let other = target.uid.filter(|other| *other != uid).map(|other| format!("user {other}"));
            let foreign = target.pid.filter(|pid| owners::user_of(*pid).is_some_and(|owner| owner != uid));
            if let Some(other) = other.or(foreign.map(|pid| format!("the owner of process {pid}"))) {
                let text = format!("user {uid} may not steer flows of {other}");
                return Err(Refusal::new(Code::NotAllowed, text).help("ask for your own flows, or ask root"));
            }
        }
        let owner = match (target.pid, &target.cgroup) {
            (Some(_), Some(_)) => {
                return Err(Refusal::new(Code::Invalid, "a pid and a cgroup").help("give one of them"));
            }
            (Some(pid), None) => {
                let tree = ProcessTree::of(pid)
                    .ok_or_else(|| Refusal::new(Code::NotFound, format!("there is no process {pid}")))?;
                readable(&format!("process {pid}"), [pid])?;
                Owner::Processes(tree)
            }
            (None, Some(path)) => {
                let directory = owners::cgroup_directory(path).map_err(|error| {
                    Refusal::new(Code::NotFound, format!("control group `{path}`: {error}"))
                        .help("give its path below /sys/fs/cgroup; `systemd-cgls` lists them")
                })?;
                readable(&format!("control group `{path}`"), owners::in_cgroup(&directory))?;
                Owner::Group(directory)
            }
            (None, None) => Owner::Any,
        };
        let uid = if own { Some(uid) } else { target.uid };
        let base = base(&target, uid)?;
        let most = if caller.is_operator() { usize::MAX } else { SOCKETS_OF_ONE };
        let mut selection = Self { target, base, owner, sockets: Vec::new(), most, matches: Vec::new() };
        selection.refresh();
        if let Owner::Any = selection.owner {
            selection.matches.clone_from(&selection.base);
        }
        Ok(selection)
    }

    /// Whether it follows sockets of processes, which change with time.
    pub fn follows(&self) -> bool {
        !matches!(self.owner, Owner::Any)
    }

    /// Reads the sockets of the processes again; returns whether they have changed.
    pub fn refresh(&mut self) -> bool {
        let processes = match &mut self.owner {
            Owner::Any => return false,
            Owner::Processes(tree) => tree.processes(),
            Owner::Group(directory) => owners::in_cgroup(directory),
        };
        let mut sockets = owners::sockets(&processes);
        sockets.truncate(self.most);
        if sockets == self.sockets {
            return false;
        }
        self.matches =
            self.base.iter().flat_map(|base| sockets.iter().filter_map(|socket| narrowed(base, socket))).collect();
        self.sockets = sockets;
        true
    }

    /// Packets as these flows may send them, the likeliest first, to find the class that the rules choose.
    pub fn samples(&self) -> Vec<Fields> {
        let sample = |matching: &Match, protocol| {
            let host = |prefix: Option<Prefix>| prefix.map(Prefix::address);
            let first = |ports: &[std::ops::RangeInclusive<u16>]| ports.first().map(|ports| *ports.start());
            Fields {
                hosts: hosts(host(matching.source), host(matching.destination)),
                protocol: Some(protocol),
                source_port: first(&matching.source_ports).or(Some(0)),
                destination_port: first(&matching.destination_ports).or(Some(0)),
                uid: matching.uid.as_ref().map(|uid| *uid.start()),
                ..Fields::default()
            }
        };
        let all = if self.matches.is_empty() { &self.base } else { &self.matches };
        let mut samples = Vec::new();
        // Of a port the receiving end first, which rules usually name.
        for matching in all.iter().rev().take(8) {
            match matching.protocol {
                Some(protocol) => samples.push(sample(matching, protocol)),
                None => samples.extend([Protocol::UDP.0, Protocol::TCP.0].map(|protocol| sample(matching, protocol))),
            }
        }
        samples
    }
}

fn hosts(source: Option<std::net::IpAddr>, destination: Option<std::net::IpAddr>) -> Hosts {
    use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
    match (source, destination) {
        (Some(IpAddr::V6(source)), Some(IpAddr::V6(destination))) => Hosts::V6 { source, destination },
        (Some(IpAddr::V6(source)), _) => Hosts::V6 { source, destination: Ipv6Addr::UNSPECIFIED },
        (_, Some(IpAddr::V6(destination))) => Hosts::V6 { source: Ipv6Addr::UNSPECIFIED, destination },
        (source, destination) => {
            let four = |address| match address {
                Some(IpAddr::V4(address)) => address,
                _ => Ipv4Addr::UNSPECIFIED,
            };
            Hosts::V4 { source: four(source), destination: four(destination) }
        }
    }
}

fn base(target: &Target, uid: Option<u32>) -> Result<Vec<Match>, Refusal> {
    let port = |port: Option<u16>| port.map(|port| port..=port).into_iter().collect();
    // The number that the kernel uses, where this is a user namespace.
    let uid = uid.map(|uid| netns::outside_uid(uid).unwrap_or(uid));
    let base = Match {
        protocol: target.protocol.map(|protocol| protocol.0),
        source: target.source.map(Prefix::host),
        destination: target.destination.map(Prefix::host),
        source_ports: port(target.source_port),
        destination_ports: port(target.destination_port),
        uid: uid.map(|uid| uid..=uid),
        ..Match::default()
    };
    if base.is_contradiction() {
        return Err(Refusal::new(Code::Invalid, "no packet goes from IPv4 to IPv6"));
    }
    let Some(either) = target.port else { return Ok(vec![base]) };
    let mut both = Vec::new();
    if target.source_port.is_none_or(|port| port == either) {
        both.push(Match { source_ports: port(Some(either)), ..base.clone() });
    }
    if target.destination_port.is_none_or(|port| port == either) {
        both.push(Match { destination_ports: port(Some(either)), ..base });
    }
    if both.is_empty() {
        return Err(Refusal::new(Code::Invalid, "neither of the two ports is the port that is given")
            .help("leave one of them out"));
    }
    Ok(both)
}

/// Packets of `socket` that match `base` as well; `None` when there are none.
fn narrowed(base: &Match, socket: &Socket) -> Option<Match> {
    fn both<T: PartialEq + Copy>(base: &mut Option<T>, other: Option<T>) -> bool {
        let agree = base.is_none() || other.is_none() || *base == other;
        *base = base.or(other);
        agree
    }
    let ports = |base: &mut Vec<std::ops::RangeInclusive<u16>>, port: u16| {
        let agree = base.is_empty() || base.iter().any(|range| range.contains(&port));
        *base = vec![port..=port];
        agree
    };
    let mut narrow = base.clone();
    let agree = both(&mut narrow.protocol, Some(socket.protocol))
        && both(&mut narrow.source, socket.address.map(Prefix::host))
        && ports(&mut narrow.source_ports, socket.port)
        && socket.peer.is_none_or(|(address, port)| {
            both(&mut narrow.destination, Some(Prefix::host(address))) && ports(&mut narrow.destination_ports, port)
        });
    (agree && !narrow.is_contradiction()).then_some(narrow)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::caller::Peer;

    fn caller(uid: u32) -> Caller {
        Caller { client: 1, peer: Peer { uid, pid: 1 } }
    }

    fn packet(source_port: u16, destination_port: u16) -> Fields {
        Fields {
            hosts: hosts(None, None),
            protocol: Some(17),
            source_port: Some(source_port),
            destination_port: Some(destination_port),
            uid: Some(1000),
            ..Fields::default()
        }
    }

    #[test]
    fn a_port_is_meant_at_either_end() {
        let target = Target { port: Some(5004), ..Target::default() };
        let selection = Selection::of(&caller(0), target, false).unwrap();
        let hit = |fields: Fields| selection.matches.iter().any(|one| one.matches(&fields));
        assert!(hit(packet(5004, 1)) && hit(packet(1, 5004)) && !hit(packet(1, 2)));
        // The receiving end comes first when it is asked where such packets go.
        assert_eq!(selection.samples()[0].destination_port, Some(5004));
    }

    #[test]
    fn whoever_is_not_root_means_his_own_flows() {
        let target = Target { port: Some(5004), ..Target::default() };
        let selection = Selection::of(&caller(1001), target.clone(), true).unwrap();
        // The packet is of user 1000.
        assert!(!selection.matches.iter().any(|one| one.matches(&packet(1, 5004))));
        let refusal = Selection::of(&caller(1001), Target { uid: Some(0), ..target }, true).unwrap_err();
        assert_eq!(refusal.code, Code::NotAllowed);
        let refusal = Selection::of(&caller(1001), Target { pid: Some(1), ..Target::default() }, true).unwrap_err();
        assert_eq!(refusal.code, Code::NotAllowed);
        let refusal = Selection::of(&caller(0), Target::default(), false).unwrap_err();
        assert_eq!(refusal.code, Code::Invalid);
    }
}
