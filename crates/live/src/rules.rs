//! The rules that lead what leaves or what arrives by an interface through a queue, and carry out what the verdicts
//! ask for.
//!
//! *Law*: all rules come and go in one transaction; nothing but packets that leave (arrive) by the named interface is
//! touched; a packet passes when nobody serves the queue. ARP never comes here, and its IPv6 counterpart, neighbour discovery, is
//! let pass. Traffic on loopback is untouched unless the interface is `lo`.
//!
//! For what leaves, one table, `tidegate_<interface>`, of family `inet` (or two, `ip` and `ip6`, where the kernel's queue does not take
//! `inet`), with these chains:
//!
//! | chain | hook, priority | what for |
//! | --- | --- | --- |
//! | `tag` | output, 60 | recognises sockets by control group or uid, writes a tag into the mark |
//! | `foreign` | forward, 60 | clears foreign marks that look like ours |
//! | `shape` | postrouting, 60 | hands the packet to the queue |
//! | `copies4`, `copies6` | called by `shape` | let pass copies of multicast that stay on this host |
//! | `apply` | postrouting, 70 | writes DSCP and CE as the mark of the verdict says, clears our bits |
//!
//! Priority 60 is after mangle (-150), so that the host's own DSCP rules have spoken, after filter (0) and security
//! (50), so that what they drop costs no rate, and before source NAT (100), so that a gateway sees the addresses of its
//! own network. The kernel allows matching a control group only up to the output hook, hence the `tag` chain.
//!
//! For what arrives, one table (or two), `tidegate-in_<interface>`:
//!
//! | chain | hook, priority | what for |
//! | --- | --- | --- |
//! | `foreign` | prerouting, -91 | clears foreign marks that look like ours |
//! | `shape` | prerouting, -90 | hands the packet to the queue |
//! | `apply` | prerouting, -80 | writes DSCP and CE as the mark of the verdict says, clears our bits |
//!
//! Priority -90 is after the connection tracker has put fragments together (-400) and restored marks (mangle, -150),
//! and after destination NAT (-100), which also takes masquerading back, so that a gateway sees which host of its own
//! network a packet is for; and it is before filter (0), because what a filter drops has used the line already. The
//! route is looked up after `apply`, so that our bits of the mark do not lead it astray. Sockets are looked up later
//! still: what arrives has no owner, and [`Spec::tags`] must be empty. Without a connection tracker fragments come as
//! they are, and the engine follows them.
//!
//! The rules name the interface and not its index: they survive its vanishing and coming back. With
//! [`Ownership::Socket`] the kernel removes the table when [`Rules`] is dropped or its process is killed; where it
//! cannot, `bypass` lets packets pass and the next start clears what was left ([`remove_stale`]). A lock (a socket in
//! the abstract namespace, which is one per network namespace) keeps a second instance from the same interface and
//! tells a dead one's table from a living one's.
//!
//! *Notes*: DSCP is written bit by bit, because no kernel before 6.13 can combine two registers: at most seven writes,
//! and on superpackets once for all segments. Tag rules are tried one after another: a few dozen, not thousands.

use std::fmt;
use std::io;
use std::os::linux::net::SocketAddrExt;
use std::os::unix::fs::MetadataExt;
use std::os::unix::net::{SocketAddr, UnixDatagram};
use std::path::Path;

pub use tidegate_config::shaper::Direction;

use crate::marks::MarkLayout;
use crate::netlink::{self, Error, Protocol, Socket};
use crate::nft::{self, Chain, Family, Found, Ownership, Rule, Table};

mod plan;
mod verify;

use plan::Limits;
pub use verify::Difference;

/// What the names of our tables for what leaves begin with.
pub const PREFIX: &str = "tidegate_";
/// What the names of our tables for what arrives begin with.
pub const PREFIX_IN: &str = "tidegate-in_";
const DIRECTIONS: [Direction; 2] = [Direction::Egress, Direction::Ingress];

/// How a rule recognises the sender of a packet.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Sender {
    /// The uid of its socket.
    Uid(u32),
    /// Its control group (version 2) or one above it; see [`cgroup`].
    Cgroup {
        /// The group's id.
        id: u64,
        /// Its depth, 1 for a child of the root.
        level: u32,
    },
}

/// A rule before the queue: packets of `sender` arrive there with `tag`
/// (see [`MarkLayout::tag`]). The first that matches wins.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct TagRule {
    /// Whose packets.
    pub sender: Sender,
    /// The tag, at most [`MAX_TAG`](crate::marks::MAX_TAG).
    pub tag: u16,
}

/// The control group at `path` (such as `/sys/fs/cgroup/user.slice`) as a rule knows it.
///
/// # Errors
/// If the directory does not exist or is no control group of version 2.
pub fn cgroup(path: &Path) -> io::Result<Sender> {
    let path = path.canonicalize()?;
    if !path.join("cgroup.procs").exists() {
        let text = format!("{} is not a control group of version 2", path.display());
        return Err(io::Error::new(io::ErrorKind::InvalidInput, text));
    }
    let (inner, outer) = (path.metadata()?, path.parent().map(Path::metadata).transpose()?);
    let mut level = 0;
    let mut at = path.as_path();
    let mut above = outer;
    while let (Some(parent), Some(metadata)) = (at.parent(), above) {
        if metadata.dev() != inner.dev() {
            break;
        }
        level += 1;
        at = parent;
        above = at.parent().map(Path::metadata).transpose()?;
    }
    if level == 0 {
        let text = "the root control group holds everything; no rule is needed for it";
        return Err(io::Error::new(io::ErrorKind::InvalidInput, text));
    }
    Ok(Sender::Cgroup { id: inner.ino(), level })
}

/// What the rules are to do.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Spec {
    /// The name of the interface.
    pub interface: String,
    /// What leaves by it or what arrives by it.
    pub direction: Direction,
    /// The first queue.
    pub queue: u16,
    /// How many queues share the flows, by a hash of the addresses; at least 1.
    pub queue_count: u16,
    /// Which bits of the mark are ours.
    pub marks: MarkLayout,
    /// Senders to be recognised before the queue; only of what leaves.
    pub tags: Vec<TagRule>,
}

impl Spec {
    /// One queue for everything that leaves by `interface`, marks in their default place, no tags.
    pub fn new(interface: impl Into<String>, queue: u16) -> Self {
        let (interface, direction) = (interface.into(), Direction::Egress);
        Self { interface, direction, queue, queue_count: 1, marks: MarkLayout::default(), tags: Vec::new() }
    }

    /// The same for everything that arrives by `interface`.
    pub fn arriving(interface: impl Into<String>, queue: u16) -> Self {
        Self { direction: Direction::Ingress, ..Self::new(interface, queue) }
    }
}

/// Which of the kernel's ways to a queue the rules use.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Verb {
    /// nf_tables' `queue` expression.
    Native,
    /// The `NFQUEUE` target of x_tables through nf_tables' compatibility layer.
    Compatible,
}

/// One way to install the rules.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Attempt {
    /// One table for both protocols, or one for each.
    pub families: &'static [Family],
    /// The way to the queue.
    pub verb: Verb,
    /// Who removes the rules if the process is killed.
    pub ownership: Ownership,
}

/// All ways to install the rules, the best first.
pub fn attempts() -> impl Iterator<Item = Attempt> {
    const FAMILIES: [&[Family]; 2] = [&[Family::Inet], &[Family::Ipv4, Family::Ipv6]];
    [Ownership::Socket, Ownership::Nobody].into_iter().flat_map(|ownership| {
        FAMILIES.into_iter().flat_map(move |families| {
            [Verb::Native, Verb::Compatible].map(|verb| Attempt { families, verb, ownership })
        })
    })
}

/// How the rules were installed.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Installed {
    /// The way the kernel took.
    pub attempt: Attempt,
    /// What was tried first and why the kernel refused it.
    pub refused: Vec<String>,
}

impl fmt::Display for Attempt {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let families: Vec<_> = self.families.iter().map(|f| f.name()).collect();
        let verb = match self.verb {
            Verb::Native => "nftables queue",
            Verb::Compatible => "NFQUEUE target",
        };
        let owner = match self.ownership {
            Ownership::Socket => "removed by the kernel with this process",
            Ownership::Nobody => "removed at exit or at the next start",
        };
        write!(f, "{verb} in {}, {owner}", families.join(" + "))
    }
}

impl fmt::Display for Installed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.attempt.fmt(f)
    }
}

/// Why rules could not be installed.
#[derive(Debug, thiserror::Error)]
pub enum RulesError {
    /// Another instance shapes this interface.
    #[error("another tidegate is shaping what {} by {interface}; stop it first", verb(*.direction))]
    Busy {
        /// The interface.
        interface: String,
        /// What it shapes there.
        direction: Direction,
    },
    /// The description cannot be carried out.
    #[error("{0}")]
    Invalid(String),
    /// No way to a queue works.
    #[error("this kernel takes no rule to a queue: {}", .0.join("; "))]
    Unsupported(Vec<String>),
    /// The kernel refused something else.
    #[error(transparent)]
    Netlink(#[from] Error),
    /// The lock could not be taken.
    #[error("cannot take the lock of {interface}: {source}")]
    Lock {
        /// The interface.
        interface: String,
        /// The error of the operating system.
        source: io::Error,
    },
}

/// Counters of the rules, in packets.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct RuleCounters {
    /// Packets handed to the queue (or past it, when nobody served it).
    pub queued: u64,
    /// What passes unshaped: neighbour discovery of IPv6, as ARP does, and copies of multicast that stay on this host.
    pub exempt: u64,
    /// Packets recognised by a tag rule.
    pub tagged: u64,
    /// Foreign packets whose mark bore one of our stamps and was cleared.
    pub foreign: u64,
    /// Packets for which the mark asked for an action.
    pub applied: u64,
}

/// Rules in force. Dropping them removes them.
#[derive(Debug)]
pub struct Rules {
    socket: Socket,
    tables: Vec<Table>,
    installed: Installed,
    limits: Limits,
    removed: bool,
    _lock: Lock,
}

impl Rules {
    /// Installs the rules, after clearing what a dead instance left on the interface. The native expression is tried
    /// before the compatible target, one `inet` table before two.
    ///
    /// The interface need not exist yet. The rules belong to the network namespace of the calling thread.
    ///
    /// # Errors
    /// [`RulesError::Busy`] if a living instance holds the interface; [`RulesError::Unsupported`] with every attempt
    /// if the kernel takes none.
    pub fn install(spec: &Spec) -> Result<Self, RulesError> {
        Self::install_by(spec, attempts())
    }

    /// As [`install`](Self::install), by the first of `attempts` that the kernel takes.
    pub fn install_by(spec: &Spec, attempts: impl IntoIterator<Item = Attempt>) -> Result<Self, RulesError> {
        plan::check(spec)?;
        let lock = Lock::take(&spec.interface, spec.direction)?;
        let mut socket = Socket::open(Protocol::Netfilter)?;
        delete_all(&mut socket, &table_name(&spec.interface, spec.direction)).map_err(|error| match error.errno() {
            // Netfilter's netlink knows no such subsystem.
            Some(libc::EINVAL) => RulesError::Unsupported(vec!["it has no nf_tables (CONFIG_NF_TABLES)".into()]),
            _ => error.into(),
        })?;
        let mut refused = Vec::new();
        for attempt in attempts {
            for limits in [Limits::Available, Limits::Missing] {
                let tables = tables(spec, attempt, limits);
                match nft::create(&mut socket, &tables, attempt.ownership) {
                    Ok(()) => {
                        let installed = Installed { attempt, refused };
                        return Ok(Self { socket, tables, installed, limits, removed: false, _lock: lock });
                    }
                    Err(error) if is_missing_feature(&error) && limits == Limits::Available => {}
                    Err(error) if is_missing_feature(&error) => refused.push(format!("{attempt}: {error}")),
                    Err(error) => return Err(error.into()),
                }
            }
        }
        Err(RulesError::Unsupported(refused))
    }

    /// How they were installed.
    pub fn installed(&self) -> &Installed {
        &self.installed
    }

    /// Reads the rules back and lists what differs from what was meant; nothing is the good answer.
    ///
    /// Cost: a few netlink dumps; once a second does no harm.
    pub fn verify(&mut self) -> Result<Vec<Difference>, Error> {
        let mut differences = Vec::new();
        for table in &self.tables {
            let found = nft::read(&mut self.socket, table.family, &table.name)?;
            differences.extend(verify::compare(table, found.as_ref().map(|f| &f.table)));
        }
        Ok(differences)
    }

    /// Recognises the senders of `spec` from now on, without a gap; all else of it must be what it was.
    ///
    /// # Errors
    /// When the kernel refuses it; the rules are then what they were.
    pub fn retag(&mut self, spec: &Spec) -> Result<(), RulesError> {
        plan::check(spec)?;
        let tables = tables(spec, self.installed.attempt, self.limits);
        if tables != self.tables {
            nft::replace_chain(&mut self.socket, &tables, "tag")?;
            self.tables = tables;
        }
        Ok(())
    }

    /// What the rules have counted.
    pub fn counters(&mut self) -> Result<RuleCounters, Error> {
        let mut sum = RuleCounters::default();
        for table in &self.tables {
            let Some(Found { table, counters }) = nft::read(&mut self.socket, table.family, &table.name)? else {
                continue;
            };
            for (rule, counter) in table.rules.iter().zip(counters) {
                let packets = counter.map_or(0, |(packets, _)| packets);
                match rule.comment.split(' ').next() {
                    Some("queue") => sum.queued += packets,
                    Some("exempt") => sum.exempt += packets,
                    Some("tag") => sum.tagged += packets,
                    Some("foreign") => sum.foreign += packets,
                    Some("apply") => sum.applied += packets,
                    _ => {}
                }
            }
        }
        Ok(sum)
    }

    /// Removes the rules. The same happens when they are dropped, but here an error is seen.
    pub fn remove(mut self) -> Result<(), Error> {
        self.remove_now()
    }

    /// Hands no more packets to the queue, and leaves those that are there; taking the rules away drops them.
    ///
    /// # Errors
    /// When the kernel refuses it, for instance because somebody else deleted the rules.
    pub fn bypass(&mut self) -> Result<(), Error> {
        for table in &self.tables {
            nft::flush(&mut self.socket, table.family, &table.name, "shape")?;
        }
        Ok(())
    }

    fn remove_now(&mut self) -> Result<(), Error> {
        if self.removed {
            return Ok(());
        }
        self.removed = true;
        let mut result = Ok(());
        for table in &self.tables {
            match nft::delete(&mut self.socket, table.family, &table.name) {
                Err(error) if error.errno() != Some(libc::ENOENT) => result = Err(error),
                _ => {}
            }
        }
        result
    }
}

fn tables(spec: &Spec, attempt: Attempt, limits: Limits) -> Vec<Table> {
    attempt.families.iter().map(|&family| plan::table(spec, family, attempt.verb, limits)).collect()
}

impl Drop for Rules {
    fn drop(&mut self) {
        let _ = self.remove_now();
    }
}

/// What traffic of a direction does.
pub(crate) fn verb(direction: Direction) -> &'static str {
    match direction {
        Direction::Egress => "leaves",
        Direction::Ingress => "arrives",
    }
}

/// Removes what dead instances left on `interface`, of either direction; says whether there was anything.
///
/// # Errors
/// [`RulesError::Busy`] if there was nothing to remove and an instance lives.
pub fn remove_stale(interface: &str) -> Result<bool, RulesError> {
    let (mut any, mut busy) = (false, None);
    for direction in DIRECTIONS {
        match remove_stale_of(interface, direction) {
            Ok(removed) => any |= removed,
            Err(error @ RulesError::Busy { .. }) => busy = Some(error),
            Err(error) => return Err(error),
        }
    }
    match busy {
        Some(busy) if !any => Err(busy),
        _ => Ok(any),
    }
}

fn remove_stale_of(interface: &str, direction: Direction) -> Result<bool, RulesError> {
    let _lock = Lock::take(interface, direction)?;
    let mut socket = Socket::open(Protocol::Netfilter)?;
    Ok(delete_all(&mut socket, &table_name(interface, direction))?)
}

/// Removes what dead instances left on any interface, and names those interfaces.
pub fn remove_all_stale() -> Result<Vec<String>, RulesError> {
    let mut socket = Socket::open(Protocol::Netfilter)?;
    let mut names: Vec<_> = nft::tables(&mut socket)?
        .into_iter()
        .filter_map(|(_, name)| Some(unescape(name.strip_prefix(PREFIX).or(name.strip_prefix(PREFIX_IN))?)))
        .collect();
    names.sort();
    names.dedup();
    let mut removed = Vec::new();
    for interface in names {
        match remove_stale(&interface) {
            Ok(true) => removed.push(interface),
            Ok(false) | Err(RulesError::Busy { .. }) => {}
            Err(error) => return Err(error),
        }
    }
    Ok(removed)
}

fn delete_all(socket: &mut Socket, name: &str) -> netlink::Result<bool> {
    let mut any = false;
    for (family, found) in nft::tables(socket)? {
        if found == name {
            nft::delete(socket, family, &found)?;
            any = true;
        }
    }
    Ok(any)
}

fn is_missing_feature(error: &Error) -> bool {
    matches!(
        error.errno(),
        Some(libc::ENOENT | libc::EOPNOTSUPP | libc::EINVAL | libc::EAFNOSUPPORT | libc::EPROTONOSUPPORT)
    )
}

/// The name of the table for an interface. Letters, digits and `_` stay; other bytes become `.xx`.
fn table_name(interface: &str, direction: Direction) -> String {
    let mut name = String::from(match direction {
        Direction::Egress => PREFIX,
        Direction::Ingress => PREFIX_IN,
    });
    for byte in interface.bytes() {
        if byte.is_ascii_alphanumeric() || byte == b'_' {
            name.push(char::from(byte));
        } else {
            name.push_str(&format!(".{byte:02x}"));
        }
    }
    name
}

fn unescape(name: &str) -> String {
    let mut bytes = Vec::new();
    let mut rest = name.as_bytes();
    while let Some((&byte, tail)) = rest.split_first() {
        let escaped = tail.get(..2).and_then(|h| u8::from_str_radix(str::from_utf8(h).ok()?, 16).ok());
        match (byte, escaped) {
            (b'.', Some(value)) => {
                bytes.push(value);
                rest = &tail[2..];
            }
            _ => {
                bytes.push(byte);
                rest = tail;
            }
        }
    }
    String::from_utf8_lossy(&bytes).into_owned()
}

/// The right to shape an interface of this network namespace in one direction. Gone with the process that holds it, however it dies.
#[derive(Debug)]
struct Lock {
    _socket: UnixDatagram,
}

impl Lock {
    fn take(interface: &str, direction: Direction) -> Result<Self, RulesError> {
        // No name of an interface has a slash in it.
        let name = match direction {
            Direction::Egress => format!("tidegate/live/{interface}"),
            Direction::Ingress => format!("tidegate/live/{interface}/in"),
        };
        let lock = SocketAddr::from_abstract_name(name).and_then(|address| UnixDatagram::bind_addr(&address));
        match lock {
            Ok(socket) => Ok(Self { _socket: socket }),
            Err(error) if error.kind() == io::ErrorKind::AddrInUse => {
                Err(RulesError::Busy { interface: interface.into(), direction })
            }
            Err(source) => Err(RulesError::Lock { interface: interface.into(), source }),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn a_table_gives_its_interface_back(name in "[^/\\s\0]{1,15}") {
            for (direction, prefix) in [(Direction::Egress, PREFIX), (Direction::Ingress, PREFIX_IN)] {
                let table = table_name(&name, direction);
                prop_assert!(table.len() < 200);
                prop_assert_eq!(unescape(table.strip_prefix(prefix).unwrap()), name.clone());
            }
        }
    }
}
