//! Targets: from the flows that a request names to conditions on packets.

use std::path::PathBuf;

use tidegate_control::calls::{Authority, Target};
use tidegate_control::protocol::{Code, Refusal};
use tidegate_core::classify::{Fields, Match, Prefix};
use tidegate_engine::target::{self, NoTarget};
use tidegate_live::netns;

use super::owners::{self, ProcessTree, Socket, SocketReader};
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
fn readable(reader: &mut SocketReader, whose: &str, processes: impl IntoIterator<Item = u32>) -> Result<(), Refusal> {
    let mut denied = None;
    for pid in processes {
        match reader.held(pid) {
            Err(error) if error.kind() == std::io::ErrorKind::PermissionDenied => denied = Some(error),
            _ => return Ok(()),
        }
    }
    match denied {
        None => Ok(()),
        Some(error) => Err(Refusal::new(Code::Failed, format!("the sockets of {whose} cannot be read: {error}"))
            .help("start tidegate with CAP_SYS_PTRACE, or choose the flows by ports or a uid")),
    }
}

impl Selection {
    /// The flows of `target`; with `own` those of the caller's user.
    pub fn of(caller: &Caller, target: Target, own: bool, reader: &mut SocketReader) -> Result<Self, Refusal> {
        if target.is_empty() {
            return Err(Refusal::new(Code::Invalid, "the flows are not specified")
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
                readable(reader, &format!("process {pid}"), [pid])?;
                Owner::Processes(tree)
            }
            (None, Some(path)) => {
                let directory = owners::cgroup_directory(path).map_err(|error| {
                    Refusal::new(Code::NotFound, format!("control group `{path}`: {error}"))
                        .help("give its path below /sys/fs/cgroup; `systemd-cgls` lists them")
                })?;
                readable(reader, &format!("control group `{path}`"), owners::in_cgroup(&directory))?;
                Owner::Group(directory)
            }
            (None, None) => Owner::Any,
        };
        let uid = if own { Some(uid) } else { target.uid };
        let base = base(&target, uid)?;
        let most = if caller.is_operator() { usize::MAX } else { SOCKETS_OF_ONE };
        let mut selection = Self { target, base, owner, sockets: Vec::new(), most, matches: Vec::new() };
        selection.refresh(reader);
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
    pub fn refresh(&mut self, reader: &mut SocketReader) -> bool {
        let processes = match &mut self.owner {
            Owner::Any => return false,
            Owner::Processes(tree) => tree.processes(),
            Owner::Group(directory) => owners::in_cgroup(directory),
        };
        let mut sockets = reader.sockets(&processes);
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
        let all = if self.matches.is_empty() { &self.base } else { &self.matches };
        target::samples(all)
    }
}

fn base(target: &Target, uid: Option<u32>) -> Result<Vec<Match>, Refusal> {
    let target = target::Target {
        protocol: target.protocol.map(|protocol| protocol.0),
        // A socket of both versions calls IPv4 addresses by those that IPv6 has for them, which no packet has.
        source: target.source.map(|address| address.to_canonical()),
        destination: target.destination.map(|address| address.to_canonical()),
        port: target.port,
        source_port: target.source_port,
        destination_port: target.destination_port,
        // The number that the kernel uses, where this is a user namespace.
        uid: uid.map(|uid| netns::outside_uid(uid).unwrap_or(uid)),
    };
    target.matches().map_err(|reason| match reason {
        NoTarget::Versions => Refusal::new(Code::Invalid, "no packet goes from IPv4 to IPv6"),
        NoTarget::Ports => Refusal::new(Code::Invalid, "neither of the two ports is the port that is given")
            .help("leave one of them out"),
    })
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
    use std::net::Ipv4Addr;

    use tidegate_core::classify::Hosts;

    use super::*;
    use crate::caller::Peer;

    fn caller(uid: u32) -> Caller {
        Caller { client: 1, peer: Peer { uid, pid: 1 } }
    }

    fn packet(source_port: u16, destination_port: u16) -> Fields {
        Fields {
            hosts: Hosts::V4 { source: Ipv4Addr::UNSPECIFIED, destination: Ipv4Addr::UNSPECIFIED },
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
        let selection = Selection::of(&caller(0), target, false, &mut SocketReader::default()).unwrap();
        let hit = |fields: Fields| selection.matches.iter().any(|one| one.matches(&fields));
        assert!(hit(packet(5004, 1)) && hit(packet(1, 5004)) && !hit(packet(1, 2)));
        // The receiving end comes first when it is asked where such packets go.
        assert_eq!(selection.samples()[0].destination_port, Some(5004));
    }

    #[test]
    fn whoever_is_not_root_means_his_own_flows() {
        let target = Target { port: Some(5004), ..Target::default() };
        let selection = Selection::of(&caller(1001), target.clone(), true, &mut SocketReader::default()).unwrap();
        // The packet is of user 1000.
        assert!(!selection.matches.iter().any(|one| one.matches(&packet(1, 5004))));
        let refusal =
            Selection::of(&caller(1001), Target { uid: Some(0), ..target }, true, &mut SocketReader::default())
                .unwrap_err();
        assert_eq!(refusal.code, Code::NotAllowed);
        let refusal = Selection::of(
            &caller(1001),
            Target { pid: Some(1), ..Target::default() },
            true,
            &mut SocketReader::default(),
        )
        .unwrap_err();
        assert_eq!(refusal.code, Code::NotAllowed);
        let refusal = Selection::of(&caller(0), Target::default(), false, &mut SocketReader::default()).unwrap_err();
        assert_eq!(refusal.code, Code::Invalid);
    }

    #[test]
    fn an_address_of_ipv4_in_ipv6_is_one_of_ipv4() {
        let of = |destination: &str| {
            let target = Target { destination: destination.parse().ok(), ..Target::default() };
            base(&target, None).expect("a condition")
        };
        assert_eq!(of("::ffff:192.0.2.1"), of("192.0.2.1"));
        assert_ne!(of("2001:db8::1"), of("192.0.2.1"));
    }
}
