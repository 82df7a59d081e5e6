//! Owners of sockets: from processes, process trees and control groups to the addresses and ports of their packets.
//!
//! The kernel reports the user of a packet, not the process. So the sockets of the processes are read from `/proc`, and
//! each becomes a condition on its packets: both ends of one that is connected, protocol and own port of one that is
//! not. These are known after `bind` or `connect`, before the first packet of a datagram socket that is bound. The first
//! packet of a connection may leave before its socket is read; the event of its flow triggers a read at once.

use std::collections::{HashMap, HashSet};
use std::fs;
use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::os::fd::AsRawFd;
use std::os::unix::fs::MetadataExt;
use std::os::unix::net::UnixDatagram;
use std::path::{Path, PathBuf};

use super::lookup::Lookup;

/// Processes below one another that are followed; a fork bomb is not.
const PROCESSES: usize = 4_096;
/// Sockets of one owner that are followed.
const SOCKETS: usize = 4_096;

/// A socket, as its packets show it.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub(crate) struct Socket {
    pub protocol: u8,
    /// Own address, unless it is any.
    pub address: Option<IpAddr>,
    pub port: u16,
    /// The other end, once connected.
    pub peer: Option<(IpAddr, u16)>,
}

/// A process and all that descend from it, also those whose parents have ended since they were first seen.
#[derive(Debug)]
pub(crate) struct ProcessTree {
    /// Processes and their start times, which distinguish processes with the same number.
    known: HashMap<u32, u64>,
}

impl ProcessTree {
    /// From `pid` on; `None` when there is no such process.
    pub fn of(pid: u32) -> Option<Self> {
        Some(Self { known: HashMap::from([(pid, began(pid)?)]) })
    }

    /// Those that are there now.
    pub fn processes(&mut self) -> Vec<u32> {
        self.known.retain(|pid, start| began(*pid) == Some(*start));
        let mut open: Vec<u32> = self.known.keys().copied().collect();
        while let Some(pid) = open.pop() {
            for child in children(pid) {
                if self.known.len() < PROCESSES
                    && !self.known.contains_key(&child)
                    && let Some(start) = began(child)
                {
                    self.known.insert(child, start);
                    open.push(child);
                }
            }
        }
        self.known.keys().copied().collect()
    }
}

/// The user that a process belongs to.
pub(crate) fn user_of(pid: u32) -> Option<u32> {
    fs::metadata(format!("/proc/{pid}")).ok().map(|metadata| metadata.uid())
}

/// When a process began, in ticks since the machine did.
fn began(pid: u32) -> Option<u64> {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    // The name in parentheses may hold anything; the 22nd field is the 20th after it.
    stat.rsplit_once(')')?.1.split_ascii_whitespace().nth(19)?.parse().ok()
}

fn children(pid: u32) -> Vec<u32> {
    let mut all = Vec::new();
    for task in fs::read_dir(format!("/proc/{pid}/task")).into_iter().flatten().flatten() {
        let text = fs::read_to_string(task.path().join("children")).unwrap_or_default();
        all.extend(text.split_ascii_whitespace().filter_map(|pid| pid.parse::<u32>().ok()));
    }
    all
}

/// The directory of a control group.
pub(crate) fn cgroup_directory(path: &str) -> io::Result<PathBuf> {
    let below = path.trim_matches('/');
    if below.is_empty() || below.split('/').any(|part| part == "..") {
        return Err(io::Error::new(io::ErrorKind::InvalidInput, "not a path below the root of control groups"));
    }
    let directory = Path::new("/sys/fs/cgroup").join(below);
    fs::metadata(directory.join("cgroup.procs"))?;
    Ok(directory)
}

/// The processes in a control group and those below it.
pub(crate) fn in_cgroup(directory: &Path) -> Vec<u32> {
    let (mut all, mut open) = (Vec::new(), vec![directory.to_owned()]);
    while let Some(directory) = open.pop() {
        let text = fs::read_to_string(directory.join("cgroup.procs")).unwrap_or_default();
        all.extend(text.split_ascii_whitespace().filter_map(|pid| pid.parse::<u32>().ok()));
        if all.len() >= PROCESSES {
            break;
        }
        let below = fs::read_dir(&directory).into_iter().flatten().flatten();
        open.extend(below.filter(|entry| entry.file_type().is_ok_and(|kind| kind.is_dir())).map(|entry| entry.path()));
    }
    all
}

/// Reads which sockets processes hold: by itself, which without privileges shows those of its own user, or by the process that
/// kept the privilege to look into others.
#[derive(Debug, Default)]
pub(crate) struct SocketReader(Option<Lookup>);

impl From<Option<Lookup>> for SocketReader {
    fn from(lookup: Option<Lookup>) -> Self {
        Self(lookup)
    }
}

impl SocketReader {
    /// The inodes of the sockets that a process holds.
    ///
    /// # Errors
    /// When it has ended, or may not be looked into.
    pub fn held(&mut self, pid: u32) -> io::Result<Vec<u64>> {
        match &mut self.0 {
            Some(lookup) => lookup.held(pid),
            None => Inodes::new()?.held(pid),
        }
    }

    /// The sockets of these processes that are in our network namespace, in order.
    pub fn sockets(&mut self, processes: &[u32]) -> Vec<Socket> {
        let mut inodes = HashSet::new();
        for pid in processes {
            // A process that has ended meanwhile has none.
            inodes.extend(self.held(*pid).unwrap_or_default());
        }
        let mut found = Vec::new();
        if !inodes.is_empty() {
            for (table, protocol) in [("tcp", 6), ("tcp6", 6), ("udp", 17), ("udp6", 17), ("udplite", 136)] {
                let text = fs::read_to_string(format!("/proc/thread-self/net/{table}")).unwrap_or_default();
                found.extend(text.lines().skip(1).filter_map(|line| read(line, protocol, &inodes)));
            }
        }
        found.sort_unstable();
        found.dedup();
        found.truncate(SOCKETS);
        found
    }
}

/// The numbers of the sockets that processes hold, read from `/proc`.
///
/// The links in `fd` of another user's process are shown to those who may read any file; `fdinfo` (with inodes since
/// Linux 5.14) to those who may look into processes, which a sandbox can allow alone.
pub(super) struct Inodes {
    /// The mount of sockets: inodes count within a mount.
    mount: Option<u64>,
}

impl Inodes {
    /// Finds out the mount of sockets by a socket of this process.
    ///
    /// # Errors
    /// When there are no sockets or no `/proc`.
    pub fn new() -> io::Result<Self> {
        let ours = UnixDatagram::unbound()?;
        let info = fs::read_to_string(format!("/proc/self/fdinfo/{}", ours.as_raw_fd()))?;
        Ok(Self { mount: mount_and_inode(&info).map(|(mount, _)| mount) })
    }

    /// Those of a process.
    ///
    /// # Errors
    /// When it has ended, or may not be looked into.
    pub fn held(&self, pid: u32) -> io::Result<Vec<u64>> {
        match Self::by_links(pid) {
            Err(error) if error.kind() == io::ErrorKind::PermissionDenied => self.by_info(pid),
            other => other,
        }
    }

    fn by_links(pid: u32) -> io::Result<Vec<u64>> {
        let mut inodes = Vec::new();
        for entry in fs::read_dir(format!("/proc/{pid}/fd"))?.flatten() {
            let link = match fs::read_link(entry.path()) {
                Err(error) if error.kind() == io::ErrorKind::PermissionDenied => return Err(error),
                Err(_) => continue,
                Ok(link) => link,
            };
            let inode: Option<u64> =
                link.to_str().and_then(|link| link.strip_prefix("socket:[")?.strip_suffix(']')?.parse().ok());
            inodes.extend(inode);
        }
        Ok(inodes)
    }

    fn by_info(&self, pid: u32) -> io::Result<Vec<u64>> {
        let Some(mount) = self.mount else {
            let text = "this kernel does not report inodes in fdinfo";
            return Err(io::Error::new(io::ErrorKind::PermissionDenied, text));
        };
        let mut inodes = Vec::new();
        for entry in fs::read_dir(format!("/proc/{pid}/fdinfo"))?.flatten() {
            let text = match fs::read_to_string(entry.path()) {
                Err(error) if error.kind() == io::ErrorKind::PermissionDenied => return Err(error),
                Err(_) => continue,
                Ok(text) => text,
            };
            inodes.extend(mount_and_inode(&text).filter(|(of, _)| *of == mount).map(|(_, inode)| inode));
        }
        Ok(inodes)
    }
}

fn mount_and_inode(info: &str) -> Option<(u64, u64)> {
    let field = |name: &str| info.lines().find_map(|line| line.strip_prefix(name)?.trim().parse::<u64>().ok());
    Some((field("mnt_id:")?, field("ino:")?))
}

/// A line of `/proc/net/tcp` and its like.
fn read(line: &str, protocol: u8, inodes: &HashSet<u64>) -> Option<Socket> {
    let mut fields = line.split_ascii_whitespace();
    let (local, remote) = (fields.nth(1)?, fields.next()?);
    let inode: u64 = fields.nth(6)?.parse().ok()?;
    if !inodes.contains(&inode) {
        return None;
    }
    let (address, port) = end(local)?;
    let peer = end(remote)?;
    Some(Socket {
        protocol,
        address: (!address.is_unspecified()).then_some(address),
        port,
        peer: (peer.1 != 0).then_some(peer),
    })
    .filter(|socket| socket.port != 0)
}

/// Address and port, as the kernel writes them: units of 32 bits in host byte order, then the port.
fn end(text: &str) -> Option<(IpAddr, u16)> {
    let (address, port) = text.split_once(':')?;
    let word = |at: usize| u32::from_str_radix(address.get(at * 8..at * 8 + 8)?, 16).ok().map(u32::to_ne_bytes);
    let address = match address.len() {
        8 => IpAddr::V4(Ipv4Addr::from(word(0)?)),
        32 => {
            let mut octets = [0; 16];
            for (n, four) in octets.chunks_exact_mut(4).enumerate() {
                four.copy_from_slice(&word(n)?);
            }
            IpAddr::V6(Ipv6Addr::from(octets)).to_canonical()
        }
        _ => return None,
    };
    Some((address, u16::from_str_radix(port, 16).ok()?))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::{TcpListener, TcpStream, UdpSocket};

    #[test]
    fn the_sockets_of_a_process_tree_are_found_as_their_packets_show_them() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let stream = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        let any = UdpSocket::bind("0.0.0.0:0").unwrap();
        let six = UdpSocket::bind("[::1]:0").ok();
        let mut tree = ProcessTree::of(std::process::id()).unwrap();
        let found = SocketReader::default().sockets(&tree.processes());
        let port = |address: io::Result<std::net::SocketAddr>| address.unwrap().port();
        let loopback = IpAddr::from([127, 0, 0, 1]);
        for socket in [
            Socket { protocol: 6, address: Some(loopback), port: port(listener.local_addr()), peer: None },
            Socket {
                protocol: 6,
                address: Some(loopback),
                port: port(stream.local_addr()),
                peer: Some((loopback, port(listener.local_addr()))),
            },
            Socket { protocol: 17, address: None, port: port(any.local_addr()), peer: None },
        ] {
            assert!(found.contains(&socket), "{socket:?} is not in {found:?}");
        }
        if let Some(six) = six {
            let address = Some("::1".parse().unwrap());
            assert!(found.contains(&Socket { protocol: 17, address, port: port(six.local_addr()), peer: None }));
        }
    }

    #[test]
    fn both_ways_to_the_sockets_of_a_process_find_the_same() {
        let some = (UdpSocket::bind("127.0.0.1:0").unwrap(), TcpListener::bind("127.0.0.1:0").unwrap());
        let mut child = std::process::Command::new("cat").stdin(std::process::Stdio::piped()).spawn().unwrap();
        // The process must not open or close files meanwhile, as this one does in its other tests.
        let inodes = Inodes::new().unwrap();
        let (mut links, mut info) = (Inodes::by_links(child.id()).unwrap(), inodes.by_info(child.id()).unwrap());
        links.sort_unstable();
        info.sort_unstable();
        assert_eq!(links, info);
        let own = fs::metadata(format!("/proc/self/fd/{}", some.0.as_raw_fd())).unwrap().ino();
        assert!(Inodes::by_links(std::process::id()).unwrap().contains(&own));
        assert!(inodes.by_info(std::process::id()).unwrap().contains(&own));
        child.kill().unwrap();
        child.wait().unwrap();
        assert!(inodes.held(child.id()).is_err());
    }

    #[test]
    fn descendants_are_followed_and_strangers_are_not() {
        let mut child = std::process::Command::new("sleep").arg("10").spawn().unwrap();
        let mut tree = ProcessTree::of(std::process::id()).unwrap();
        assert!(tree.processes().contains(&child.id()));
        let mut own = ProcessTree::of(child.id()).unwrap();
        assert_eq!(own.processes(), [child.id()]);
        child.kill().unwrap();
        child.wait().unwrap();
        assert!(own.processes().is_empty());
        assert_eq!(user_of(1), Some(0));
    }
}
