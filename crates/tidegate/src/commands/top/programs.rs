//! The program that a flow belongs to, as far as the user may see it.
//!
//! The kernel reports the inode of a socket for each pair of ends (`/proc/PID/net/tcp` and the like, in the network
//! namespace of the daemon), and each process lists the inodes of its sockets (`/proc/PID/fd`) to permitted users:
//! everybody sees their own programs, root sees all. This does not involve the data path or the daemon.

use std::collections::{HashMap, HashSet};
use std::fs;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::time::{Duration, Instant};

use tidegate_config::decode::is_bidi_control;
use tidegate_control::calls::Flow;

/// The program and its process of each flow, by flow key.
pub type Names = HashMap<String, (String, u32)>;

/// The shortest interval between scans of all processes.
const SCAN: Duration = Duration::from_secs(2);

/// A program.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Program {
    /// The process id.
    pub pid: u32,
    /// The name in the kernel: at most 15 bytes.
    pub name: String,
}

/// One end: address and port.
type End = (IpAddr, u16);

/// The known sockets and programs.
#[derive(Debug, Default)]
pub struct Programs {
    /// The process whose network namespace the sockets belong to.
    process: Option<u32>,
    /// Sockets by protocol and both ends; without the remote end if the socket is not connected.
    sockets: HashMap<(u8, End, Option<End>), u64>,
    owners: HashMap<u64, Program>,
    /// Sockets without a known program, until the next scan.
    missed: HashSet<u64>,
    scanned: Option<Instant>,
    users: HashMap<u32, String>,
}

impl Programs {
    /// For the network namespace of `process`, or our own.
    pub fn of_process(process: Option<u32>) -> Self {
        let text = fs::read_to_string("/etc/passwd").unwrap_or_default();
        let entry = |line: &str| {
            let mut fields = line.split(':');
            let name = fields.next()?.to_owned();
            Some((fields.nth(1)?.parse().ok()?, name))
        };
        Self { process, users: text.lines().filter_map(entry).collect(), ..Self::default() }
    }

    /// The name of a user, or its number.
    pub fn user(&self, uid: u32) -> String {
        self.users.get(&uid).cloned().unwrap_or_else(|| uid.to_string())
    }

    /// The program of `flow`, as of the last [`refresh`](Self::refresh).
    pub fn of(&self, flow: &Flow) -> Option<&Program> {
        self.owners.get(&self.socket(flow)?)
    }

    fn socket(&self, flow: &Flow) -> Option<u64> {
        let protocol = flow.protocol?.0;
        let source = (flow.source?.to_canonical(), flow.source_port?);
        let destination = (flow.destination?.to_canonical(), flow.destination_port?);
        let find = |key| self.sockets.get(&key).copied();
        // A departing packet has the local end as its source, an arriving one as its destination.
        [(source, destination), (destination, source)].into_iter().find_map(|(near, far)| {
            let any = |address: IpAddr| (address, near.1);
            find((protocol, near, Some(far)))
                .or_else(|| find((protocol, near, None)))
                .or_else(|| find((protocol, any(Ipv4Addr::UNSPECIFIED.into()), None)))
                .or_else(|| find((protocol, any(Ipv6Addr::UNSPECIFIED.into()), None)))
        })
    }

    /// Reads the sockets, and searches the programs of those of `flows` that are not known yet.
    pub fn refresh<'a>(&mut self, flows: impl Iterator<Item = &'a Flow>) {
        self.sockets.clear();
        let process = self.process.map_or("self".into(), |process| process.to_string());
        for (file, protocol) in [("tcp", 6), ("tcp6", 6), ("udp", 17), ("udp6", 17)] {
            if let Ok(text) = fs::read_to_string(format!("/proc/{process}/net/{file}")) {
                self.sockets.extend(text.lines().skip(1).filter_map(|line| parse(line, protocol)));
            }
        }
        let inodes: HashSet<u64> = flows.filter_map(|flow| self.socket(flow)).collect();
        self.owners.retain(|inode, _| inodes.contains(inode));
        let new = inodes.iter().any(|inode| !self.owners.contains_key(inode) && !self.missed.contains(inode));
        let due = self.scanned.is_none_or(|time| time.elapsed() >= SCAN);
        if new && due {
            self.scanned = Some(Instant::now());
            self.scan(&inodes);
            self.missed = inodes.into_iter().filter(|inode| !self.owners.contains_key(inode)).collect();
        }
    }

    fn scan(&mut self, wanted: &HashSet<u64>) {
        let Ok(processes) = fs::read_dir("/proc") else { return };
        for process in processes.flatten() {
            let Some(pid) = process.file_name().to_str().and_then(|name| name.parse::<u32>().ok()) else { continue };
            // Processes of other users cannot be read: their sockets stay unknown.
            let Ok(descriptors) = fs::read_dir(process.path().join("fd")) else { continue };
            for descriptor in descriptors.flatten() {
                let Ok(target) = fs::read_link(descriptor.path()) else { continue };
                let inode =
                    target.to_str().and_then(|text| text.strip_prefix("socket:[")?.strip_suffix(']')?.parse().ok());
                let Some(inode) = inode.filter(|inode| wanted.contains(inode)) else { continue };
                let name = fs::read_to_string(process.path().join("comm")).unwrap_or_default();
                // The name is under the control of the program; control characters must not reach the terminal.
                let shown = |c: &char| !c.is_control() && !is_bidi_control(*c);
                let name: String = name.trim_end().chars().filter(shown).collect();
                self.owners.insert(inode, Program { pid, name });
            }
        }
    }
}

/// The protocol, the local end and, if connected, the remote end.
type Ends = (u8, End, Option<End>);

/// A line of `/proc/net/tcp` and its like: both ends and the inode.
fn parse(line: &str, protocol: u8) -> Option<(Ends, u64)> {
    let mut fields = line.split_ascii_whitespace().skip(1);
    let (near, far) = (end(fields.next()?)?, end(fields.next()?)?);
    let inode = fields.nth(6)?.parse().ok()?;
    let connected = far.1 != 0 || !far.0.is_unspecified();
    (inode != 0).then_some(((protocol, near, connected.then_some(far)), inode))
}

/// An end in the format of the kernel: words in native byte order, hexadecimal, and the port.
fn end(text: &str) -> Option<End> {
    let (address, port) = text.split_once(':')?;
    let port = u16::from_str_radix(port, 16).ok()?;
    let word = |n: usize| Some(u32::from_str_radix(address.get(n * 8..n * 8 + 8)?, 16).ok()?.to_ne_bytes());
    let address = match address.len() {
        8 => IpAddr::from(word(0)?),
        32 => {
            let words = [word(0)?, word(1)?, word(2)?, word(3)?];
            let bytes: [u8; 16] = words.concat().try_into().ok()?;
            IpAddr::from(bytes)
        }
        _ => return None,
    };
    Some((address.to_canonical(), port))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::UdpSocket;
    use tidegate_control::calls::Protocol;

    #[cfg(target_endian = "little")]
    #[test]
    fn the_kernel_is_understood() {
        let line =
            "   1: 0100007F:1F90 0200000A:C350 01 00000000:00000000 00:00000000 00000000  1000        0 4711 1 0 20";
        let (near, far) = ((IpAddr::from([127, 0, 0, 1]), 8080), (IpAddr::from([10, 0, 0, 2]), 50_000));
        assert_eq!(parse(line, 6), Some(((6, near, Some(far)), 4711)));
        let six = "B80D0120000000000000000001000000:0035";
        assert_eq!(end(six), Some(("2001:db8::1".parse().unwrap(), 53)));
        // An IPv4 peer of a socket for both.
        assert_eq!(end("0000000000000000FFFF00000100007F:0001"), Some(([127, 0, 0, 1].into(), 1)));
        for wrong in ["", "0100007F", "zz:1", "01:1", "0100007F:10000"] {
            assert_eq!(end(wrong), None, "{wrong}");
        }
    }

    #[test]
    fn we_find_ourselves() {
        let near = UdpSocket::bind("127.0.0.1:0").unwrap();
        let far = UdpSocket::bind("127.0.0.1:0").unwrap();
        near.connect(far.local_addr().unwrap()).unwrap();
        let flow = Flow {
            key: "1".into(),
            protocol: Some(Protocol::UDP),
            source: Some(near.local_addr().unwrap().ip()),
            source_port: Some(near.local_addr().unwrap().port()),
            destination: Some(far.local_addr().unwrap().ip()),
            destination_port: Some(far.local_addr().unwrap().port()),
            uid: None,
        };
        let mut programs = Programs::of_process(Some(std::process::id()));
        programs.refresh([&flow].into_iter());
        assert_eq!(programs.of(&flow).map(|program| program.pid), Some(std::process::id()));
        let nobody = Flow { source_port: Some(1), destination_port: Some(2), ..flow };
        assert_eq!(programs.of(&nobody), None);
        assert_eq!(programs.user(0), "root");
    }
}
