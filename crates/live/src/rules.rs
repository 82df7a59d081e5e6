//! The rules that lead departing or arriving packets of interfaces through a queue, and apply the actions of
//! verdicts.
//!
//! *Law*: all rules are installed and removed in one transaction; only packets that leave (arrive) by a named
//! interface are affected; a packet passes when the queue is not served. ARP is not filtered by these rules, and its
//! IPv6 counterpart, neighbour discovery, passes. Traffic on loopback is untouched unless the interface is `lo`.
//!
//! Each interface has tables of its own, so that each is locked (see below); all of them lead to the same queue. For
//! departing packets, one table, `tidegate_<interface>`, of family `inet` (or two, `ip` and `ip6`, where the
//! kernel's queue does not support `inet`), with these chains:
//!
//! | chain | hook, priority | what for |
//! | --- | --- | --- |
//! | `tag` | output, 60 | identifies sockets by control group or uid, writes a tag into the mark |
//! | `foreign` | forward, 60 | clears foreign marks that look like ours |
//! | `shape` | postrouting, 60 | hands the packet to the queue |
//! | `copies4`, `copies6` | called by `shape` | let pass copies of multicast that stay on this host |
//! | `apply` | postrouting, 70 | writes DSCP and CE as the mark of the verdict specifies, clears our bits |
//!
//! Priority 60 is after mangle (-150), so that the host's own DSCP rules have been applied, after filter (0) and
//! security (50), so that packets that they drop use no rate, and before source NAT (100), so that a gateway sees the
//! addresses of its own network. Where several threads share the work, `shape` has a rule for each, which compares a hash of
//! the addresses; the hash is that of the kernel (`nft_hash`), under a seed that is the same for ever, so that a successor's
//! rules divide flows as those before. The kernel allows matching a control group only up to the output hook, hence the `tag`
//! chain.
//!
//! For arriving packets, one table (or two), `tidegate-in_<interface>`:
//!
//! | chain | hook, priority | what for |
//! | --- | --- | --- |
//! | `foreign` | prerouting, -91 | clears foreign marks that look like ours |
//! | `shape` | prerouting, -90 | hands the packet to the queue |
//! | `apply` | prerouting, -80 | writes DSCP and CE as the mark of the verdict specifies, clears our bits |
//!
//! Priority -90 is after the connection tracker has put fragments together (-400) and restored marks (mangle, -150),
//! and after destination NAT (-100), which also takes masquerading back, so that a gateway sees which host of its own
//! network a packet is for; and it is before filter (0), because what a filter drops has used the line already. The
//! route is looked up after `apply`, so that our bits of the mark do not affect it. Sockets are looked up later still:
//! arriving packets have no owner, and [`Spec::tags`] must be empty. Without a connection tracker fragments arrive as
//! they are, and the engine associates them.
//!
//! The rules match the name of the interface or its index: they remain valid when it vanishes and returns, with another
//! index, and when it is renamed. [`Rules::follow`] then gives them the other half again, in place: no packet passes by
//! them, and what is queued stays. The tables keep the name of the interface that they were installed for.
//!
//! With [`Ownership::Socket`] the kernel removes the table when [`Rules`] is dropped or its process is killed; where it
//! cannot, `bypass` lets packets pass and the next start removes stale tables ([`remove_stale`]).
//!
//! The table is the lock as well: a second instance is refused while a table of this name is in use, that is, while a
//! socket owns it or, without an owner, while the queue of its rules is served. Both take `CAP_NET_ADMIN` in the user
//! namespace of the network namespace, so nobody else can hold the lock; and what holds it are two netlink sockets,
//! which end with the last process that has them, however that ends. After a rename a table without hooks holds the lock of
//! the new name, and the rules that of the old name.
//!
//! *Notes*: DSCP is written bit by bit, because no kernel before 6.13 can combine two registers: at most seven writes,
//! and on superpackets once for all segments. Tag rules are tried one after another: a few dozen, not thousands.

use std::fmt;
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::Path;

pub use tidegate_config::shaper::{Direction, DividedBy};

use crate::marks::MarkLayout;
use crate::netlink::{Error, Protocol, Socket};
use crate::nft::{self, Chain, Family, Found, Ownership, Rule, Table};

mod adopt;
mod copy;
mod error;
mod hold;
mod lock;
mod plan;
mod stale;
mod verify;

pub(crate) use copy::CopyTable;
pub use error::RulesError;
pub(crate) use hold::{HoldRules, remove_holds};
pub use lock::InterfaceLock;
use plan::Extras;
pub use stale::{remove_all_stale, remove_stale};
pub use verify::Difference;

/// The prefix of the names of our tables for departing packets.
pub const PREFIX: &str = "tidegate_";
/// The prefix of the names of our tables for arriving packets.
pub const PREFIX_IN: &str = "tidegate-in_";
const DIRECTIONS: [Direction; 2] = [Direction::Egress, Direction::Ingress];

/// How a rule recognises the sender of a packet.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Sender {
    /// The uid of its socket.
    Uid(u32),
    /// The interface by which it came in to be forwarded.
    Incoming(InterfaceName),
    /// Its control group (version 2) or one above it; see [`cgroup`].
    Cgroup {
        /// The group's id.
        id: u64,
        /// Its depth, 1 for a child of the root.
        level: u32,
    },
}

/// The name of an interface, as the kernel compares it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct InterfaceName([u8; libc::IFNAMSIZ]);

impl InterfaceName {
    /// `None` for a name that is too long.
    pub fn new(name: &str) -> Option<Self> {
        let mut bytes = [0; libc::IFNAMSIZ];
        // The last byte stays zero.
        bytes[..libc::IFNAMSIZ - 1].get_mut(..name.len())?.copy_from_slice(name.as_bytes());
        Some(Self(bytes))
    }
    fn bytes(self) -> [u8; libc::IFNAMSIZ] {
        self.0
    }
}

impl fmt::Display for InterfaceName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let end = self.0.iter().position(|byte| *byte == 0).unwrap_or(self.0.len());
        f.write_str(&String::from_utf8_lossy(&self.0[..end]))
    }
}

/// A rule before the queue: packets of `sender` arrive there with `tag`
/// (see [`MarkLayout::tag`]). The first that matches wins.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct TagRule {
    /// The sender of the packets.
    pub sender: Sender,
    /// The tag, at most [`MAX_TAG`](crate::marks::MAX_TAG).
    pub tag: u16,
}

/// The control group at `path` (such as `/sys/fs/cgroup/user.slice`) as a rule identifies it.
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

/// An interface whose packets the rules queue.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Interface {
    /// Its name.
    pub name: String,
    /// Its index; 0 while it is unknown. Packets of an interface with this name or this index are affected.
    pub index: u32,
}

/// The queues of a thread: one whose superpackets arrive whole, and one where the kernel segments them.
pub const QUEUES_OF_ONE: u16 = 2;

/// The specification of the rules.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Spec {
    /// The interfaces; each has tables of its own.
    pub interfaces: Vec<Interface>,
    /// Whether departing or arriving packets are queued.
    pub direction: Direction,
    /// The first queue.
    pub queue: u16,
    /// The number of threads that flows are divided over, at least 1. Each has [`QUEUES_OF_ONE`] queues, and its packets are
    /// led to the first of them.
    pub threads: u16,
    /// The addresses by whose hash they are divided.
    pub divided_by: DividedBy,
    /// Which bits of the mark are ours.
    pub marks: MarkLayout,
    /// Senders to be recognised before the queue; only for departing packets.
    pub tags: Vec<TagRule>,
}

impl Spec {
    /// One queue for all packets that leave by `interface`, the default mark layout, no tags.
    pub fn new(interface: impl Into<String>, queue: u16) -> Self {
        let (interfaces, direction) = (vec![Interface { name: interface.into(), index: 0 }], Direction::Egress);
        let (threads, divided_by) = (1, DividedBy::HostPair);
        Self { interfaces, direction, queue, threads, divided_by, marks: MarkLayout::default(), tags: Vec::new() }
    }

    /// As [`new`](Self::new), for all packets that arrive by `interface`.
    pub fn arriving(interface: impl Into<String>, queue: u16) -> Self {
        Self { direction: Direction::Ingress, ..Self::new(interface, queue) }
    }
}

/// The mechanism of the kernel by which the rules queue packets.
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
    /// The mechanism that queues packets.
    pub verb: Verb,
    /// Who removes the rules if the process is killed.
    pub ownership: Ownership,
}

/// All ways to install the rules, the best first.
pub fn attempts() -> impl Iterator<Item = Attempt> {
    const FAMILIES: [&[Family]; 2] = [&[Family::Inet], &[Family::Ipv4, Family::Ipv6]];
    [Ownership::Socket, Ownership::Persistent].into_iter().flat_map(|ownership| {
        FAMILIES.into_iter().flat_map(move |families| {
            [Verb::Native, Verb::Compatible].map(|verb| Attempt { families, verb, ownership })
        })
    })
}

/// How the rules were installed.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Installed {
    /// The way that the kernel accepted.
    pub attempt: Attempt,
    /// The ways that were tried before, and why the kernel refused them.
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
            Ownership::Persistent => "removed at exit or at the next start",
        };
        write!(f, "{verb} in {}, {owner}", families.join(" + "))
    }
}

impl fmt::Display for Installed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.attempt.fmt(f)
    }
}

/// Counters of the rules, in packets.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct RuleCounters {
    /// Packets queued (or passed, when the queue was not served).
    pub queued: u64,
    /// Packets that pass unshaped: IPv6 neighbour discovery, copies of multicast that stay on this host, and the packets inside
    /// IPsec, which come by as encrypted ones as well.
    pub exempt: u64,
    /// Packets recognised by a tag rule.
    pub tagged: u64,
    /// Foreign packets whose mark had one of our stamps, which was cleared.
    pub foreign: u64,
    /// Packets whose mark requested an action.
    pub applied: u64,
}

/// Rules in force. Dropping them removes them.
#[derive(Debug)]
pub struct Rules {
    socket: Socket,
    /// The names of the tables of each interface: those that the interfaces had when the rules were installed.
    names: Vec<String>,
    tables: Vec<Table>,
    /// Tables without hooks that hold the locks of the names of the interfaces, after a rename.
    locks: Vec<Table>,
    /// The table that copies packets for a [`Log`](crate::nflog::Log). Once it is there its chains stay.
    log: Option<Table>,
    installed: Installed,
    extras: Extras,
    removed: bool,
}

impl Rules {
    /// Installs the rules, after removing stale tables of the interfaces. The native expression is tried before the
    /// compatible target, one `inet` table before two.
    ///
    /// The interfaces need not exist yet. The rules belong to the network namespace of the calling thread.
    ///
    /// # Errors
    /// [`RulesError::Busy`] if another instance shapes the interface; [`RulesError::Unsupported`] with every attempt if
    /// the kernel takes none.
    pub fn install(spec: &Spec) -> Result<Self, RulesError> {
        Self::install_by(spec, attempts())
    }

    /// As [`install`](Self::install), by the first of `attempts` that the kernel accepts.
    pub fn install_by(spec: &Spec, attempts: impl IntoIterator<Item = Attempt>) -> Result<Self, RulesError> {
        plan::check(spec)?;
        let mut socket = Socket::open(Protocol::Netfilter)?;
        for Interface { name, .. } in &spec.interfaces {
            stale::remove_ended(&mut socket, name, spec.direction).map_err(|error| match error {
                // Netfilter's netlink knows no such subsystem.
                RulesError::Netlink(error) if error.errno() == Some(libc::EINVAL) => {
                    RulesError::Unsupported(vec!["it has no nf_tables (CONFIG_NF_TABLES)".into()])
                }
                error => error,
            })?;
        }
        Self::create(socket, spec, attempts)
    }

    /// Installs the rules by the first of `attempts` that the kernel accepts.
    fn create(
        mut socket: Socket,
        spec: &Spec,
        attempts: impl IntoIterator<Item = Attempt>,
    ) -> Result<Self, RulesError> {
        let (mut refused, names) = (Vec::new(), table_names(spec));
        for attempt in attempts {
            for extras in Extras::ALL {
                let tables = tables(spec, attempt, extras, &names);
                match nft::create(&mut socket, &tables, attempt.ownership) {
                    Ok(()) => {
                        let installed = Installed { attempt, refused };
                        let locks = Vec::new();
                        let log = None;
                        return Ok(Self { socket, names, tables, locks, log, installed, extras, removed: false });
                    }
                    Err(error) if is_missing_feature(&error) && extras != Extras::FEWEST => {}
                    Err(error) if is_missing_feature(&error) => refused.push(format!("{attempt}: {error}")),
                    // Of two that start at once, the second finds the table of the first.
                    Err(error) if matches!(error.errno(), Some(libc::EEXIST | libc::EPERM)) => {
                        for Interface { name, .. } in &spec.interfaces {
                            stale::check_free(&mut socket, name, spec.direction)?;
                        }
                        return Err(error.into());
                    }
                    Err(error) => return Err(error.into()),
                }
            }
        }
        if spec.threads > 1 {
            refused.push("`threads` take CONFIG_NFT_HASH (module nft_hash) as well; one thread does not".into());
        }
        Err(RulesError::Unsupported(refused))
    }

    /// How the rules were installed.
    pub fn installed(&self) -> &Installed {
        &self.installed
    }

    /// Reads the rules back and returns the differences from the plan; none if they are intact.
    ///
    /// Cost: a few netlink dumps; once a second is affordable.
    pub fn verify(&mut self) -> Result<Vec<Difference>, Error> {
        let mut differences = Vec::new();
        for table in self.tables.iter().chain(&self.locks) {
            let found = nft::read(&mut self.socket, table.family, &table.name)?;
            differences.extend(verify::compare(table, found.as_ref().map(|f| &f.table)));
        }
        Ok(differences)
    }

    /// Replaces the recognised senders by those of `spec`, atomically; the rest of `spec` must be unchanged.
    ///
    /// # Errors
    /// When the kernel refuses it; the rules are unchanged then.
    pub fn retag(&mut self, spec: &Spec) -> Result<(), RulesError> {
        plan::check(spec)?;
        let tables = tables(spec, self.installed.attempt, self.extras, &self.names);
        if tables != self.tables {
            nft::replace_rules(&mut self.socket, &tables, |chain| ["tag", "foreign"].contains(&chain.name.as_str()))?;
            self.tables = tables;
        }
        Ok(())
    }

    /// Adapts the rules to interfaces that have another name or another index, atomically and without an effect on queued
    /// packets; the rest of `spec` must be unchanged. The counters of the rules begin at zero again.
    ///
    /// # Errors
    /// [`RulesError::Busy`] if another instance shapes an interface of a new name; the rules are unchanged then.
    pub fn follow(&mut self, spec: &Spec) -> Result<(), RulesError> {
        plan::check(spec)?;
        let tables = tables(spec, self.installed.attempt, self.extras, &self.names);
        let (mut locks, mut new) = (Vec::new(), Vec::new());
        for (interface, of) in spec.interfaces.iter().zip(&self.names) {
            let name = table_name(&interface.name, spec.direction);
            // The rules of another of the interfaces, which had this name before, hold this lock.
            if self.names.contains(&name) {
                continue;
            }
            let of = tables.iter().filter(|table| table.name == *of);
            let of_one: Vec<Table> = of.map(|table| plan::lock(table, &name)).collect();
            if !self.locks.iter().any(|lock| lock.name == name) {
                stale::remove_ended(&mut self.socket, &interface.name, spec.direction)?;
                new.extend(of_one.clone());
            }
            locks.extend(of_one);
        }
        if !new.is_empty() {
            nft::create(&mut self.socket, &new, self.installed.attempt.ownership)?;
        }
        // Only chains with a hook contain the interface.
        if let Err(error) = nft::replace_rules(&mut self.socket, &tables, |chain| chain.hook.is_some()) {
            remove_tables(&mut self.socket, &new)?;
            return Err(error.into());
        }
        self.tables = tables;
        let earlier = std::mem::replace(&mut self.locks, locks);
        let is_wanted = |lock: &Table| self.locks.iter().any(|wanted| wanted.name == lock.name);
        // Without a hook, so that the kernel drops no packet.
        let gone: Vec<Table> = earlier.into_iter().filter(|lock| !is_wanted(lock)).collect();
        Ok(remove_tables(&mut self.socket, &gone)?)
    }

    /// The counters of the rules.
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

    /// Removes the rules. Dropping them does the same but ignores an error.
    pub fn remove(mut self) -> Result<(), Error> {
        self.remove_now()
    }

    fn remove_now(&mut self) -> Result<(), Error> {
        if self.removed {
            return Ok(());
        }
        self.removed = true;
        let rules = remove_tables(&mut self.socket, &self.tables);
        let rules = remove_tables(&mut self.socket, self.log.as_slice()).and(rules);
        remove_tables(&mut self.socket, &self.locks).and(rules)
    }
}

/// The tables of an attempt, those of each interface under the name at its place.
fn tables(spec: &Spec, attempt: Attempt, extras: Extras, names: &[String]) -> Vec<Table> {
    let of_one = |(interface, name): (&Interface, &String)| -> Vec<Table> {
        let table = |&family| plan::table(spec, interface, family, attempt.verb, extras, name);
        attempt.families.iter().map(table).collect()
    };
    spec.interfaces.iter().zip(names).flat_map(of_one).collect()
}

/// Removes tables that may be gone already; the rest also after an error.
fn remove_tables(socket: &mut Socket, tables: &[Table]) -> Result<(), Error> {
    let mut result = Ok(());
    for table in tables {
        match nft::delete(socket, table.family, &table.name) {
            Err(error) if error.errno() != Some(libc::ENOENT) => result = Err(error),
            _ => {}
        }
    }
    result
}

impl Drop for Rules {
    fn drop(&mut self) {
        let _ = self.remove_now();
    }
}

/// The verb for packets of a direction.
pub(crate) fn verb(direction: Direction) -> &'static str {
    match direction {
        Direction::Egress => "leaves",
        Direction::Ingress => "arrives",
    }
}

fn is_missing_feature(error: &Error) -> bool {
    matches!(
        error.errno(),
        Some(libc::ENOENT | libc::EOPNOTSUPP | libc::EINVAL | libc::EAFNOSUPPORT | libc::EPROTONOSUPPORT)
    )
}

/// The names of the tables of the interfaces.
fn table_names(spec: &Spec) -> Vec<String> {
    spec.interfaces.iter().map(|interface| table_name(&interface.name, spec.direction)).collect()
}

/// The prefix of the names of the tables of a direction.
pub(crate) fn prefix(direction: Direction) -> &'static str {
    match direction {
        Direction::Egress => PREFIX,
        Direction::Ingress => PREFIX_IN,
    }
}

/// The name of the table for an interface. Letters, digits and `_` stay; other bytes become `.xx`.
pub(crate) fn table_name(interface: &str, direction: Direction) -> String {
    let mut name = String::from(prefix(direction));
    for byte in interface.bytes() {
        if byte.is_ascii_alphanumeric() || byte == b'_' {
            name.push(char::from(byte));
        } else {
            name.push_str(&format!(".{byte:02x}"));
        }
    }
    name
}

/// The interface that a table of ours belongs to; `None` for the name of another table.
pub(crate) fn interface_of(table: &str) -> Option<String> {
    table.strip_prefix(PREFIX).or(table.strip_prefix(PREFIX_IN)).map(unescape)
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

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn the_interface_is_recovered_from_the_name_of_a_table(name in "[^/\\s\0]{1,15}") {
            for (direction, prefix) in [(Direction::Egress, PREFIX), (Direction::Ingress, PREFIX_IN)] {
                let table = table_name(&name, direction);
                prop_assert!(table.len() < 200);
                prop_assert_eq!(unescape(table.strip_prefix(prefix).unwrap()), name.clone());
            }
        }
    }
}
