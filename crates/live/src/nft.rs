//! nf_tables over netlink: tables, chains and rules as values, written in one transaction and read back.
//!
//! Only what Tidegate's rules need exists here, but all of it both ways: [`Expression`] is encoded for the kernel and
//! decoded from its dump, so that the rules in force can be compared with the intended ones, expression by expression.
//!
//! *Source*: the kernel's `include/uapi/linux/netfilter/nf_tables.h` and `nf_tables_compat.h`.

use std::fmt;

use crate::netlink::{self, ACK, Body, Builder, CREATE, EXCL, Error, Reply, Result, Socket};

mod expression;

pub use expression::{Base, Compare, Expression, Field, MetaKey};

const SUBSYSTEM: u16 = (libc::NFNL_SUBSYS_NFTABLES as u16) << 8;
const BATCH_BEGIN: u16 = libc::NFNL_MSG_BATCH_BEGIN as u16;
const BATCH_END: u16 = libc::NFNL_MSG_BATCH_END as u16;
const NEW_TABLE: u16 = SUBSYSTEM | libc::NFT_MSG_NEWTABLE as u16;
const GET_TABLE: u16 = SUBSYSTEM | libc::NFT_MSG_GETTABLE as u16;
const DEL_TABLE: u16 = SUBSYSTEM | libc::NFT_MSG_DELTABLE as u16;
const NEW_CHAIN: u16 = SUBSYSTEM | libc::NFT_MSG_NEWCHAIN as u16;
const GET_CHAIN: u16 = SUBSYSTEM | libc::NFT_MSG_GETCHAIN as u16;
const NEW_RULE: u16 = SUBSYSTEM | libc::NFT_MSG_NEWRULE as u16;
const GET_RULE: u16 = SUBSYSTEM | libc::NFT_MSG_GETRULE as u16;
const DEL_RULE: u16 = SUBSYSTEM | libc::NFT_MSG_DELRULE as u16;
const GET_FLOWTABLE: u16 = SUBSYSTEM | 23;

const TABLE_FLAG_OWNER: u32 = 2;

/// The address family of a table.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum Family {
    /// IPv4 and IPv6 in one table.
    Inet,
    /// IPv4.
    Ipv4,
    /// IPv6.
    Ipv6,
}

impl Family {
    fn number(self) -> u8 {
        match self {
            Self::Inet => 1,
            Self::Ipv4 => 2,
            Self::Ipv6 => 10,
        }
    }

    /// The name that the `nft` tool uses.
    pub fn name(self) -> &'static str {
        match self {
            Self::Inet => "inet",
            Self::Ipv4 => "ip",
            Self::Ipv6 => "ip6",
        }
    }
}

/// Who removes a table when the program is gone.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Ownership {
    /// The kernel, when the netlink socket that made it is closed (Linux 5.12 and later).
    Socket,
    /// The next start of Tidegate; the kernel keeps it.
    Persistent,
}

/// A chain: with a hook the kernel runs it, without one other chains jump to it.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Chain {
    /// The name of the chain.
    pub name: String,
    /// Hook number and priority.
    pub hook: Option<(u32, i32)>,
}

/// A rule of a chain.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Rule {
    /// The name of its chain.
    pub chain: String,
    /// Its purpose, stored in the kernel as a comment and shown by `nft list ruleset`.
    pub comment: String,
    /// Its expressions, in order.
    pub expressions: Vec<Expression>,
}

impl Rule {
    /// Whether it translates addresses.
    pub fn translates(&self) -> bool {
        let is_nat = |expression: &Expression| match expression {
            Expression::Unknown(name) => ["masq", "nat", "redir"].contains(&name.as_str()),
            _ => false,
        };
        self.expressions.iter().any(is_nat)
    }
}

/// A table as it should be.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Table {
    /// The address family of the table.
    pub family: Family,
    /// The name of the table.
    pub name: String,
    /// Its chains; a chain comes before the rules that jump to it.
    pub chains: Vec<Chain>,
    /// Its rules; those of one chain in their order.
    pub rules: Vec<Rule>,
}

/// A table as read back, with the packet counters of its rules.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Found {
    /// The table in the form in which it is installed.
    pub table: Table,
    /// For each rule of `table.rules`: packets and bytes of its counter, if it has one.
    pub counters: Vec<Option<(u64, u64)>>,
}

/// A table in the kernel's list.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Listed {
    /// The address family of the table.
    pub family: Family,
    /// The name of the table.
    pub name: String,
    /// Whether a socket owns it.
    pub ownership: Ownership,
    /// The number that the kernel assigned to it, which no other table gets.
    pub handle: u64,
}

/// Creates `tables` in one transaction: all of them or nothing.
///
/// Before it they are created without hooks and removed again, in a transaction of its own. A transaction that the kernel
/// refuses takes back the hooks that it had added, and with any hook that goes the kernel drops what waits in the packet
/// queues of the network namespace.
pub fn create(socket: &mut Socket, tables: &[Table], ownership: Ownership) -> Result<()> {
    let trial: Vec<Table> = tables.iter().filter_map(without_hooks).collect();
    if !trial.is_empty() {
        let mut labels = Vec::new();
        transaction(socket, "install the rules", &mut labels, |batch| {
            trial.iter().for_each(|table| add(batch, table, ownership));
            for table in &trial {
                batch.add(DEL_TABLE, table.family, 0, format!("table {}", table.name), |m| {
                    m.string(1, &table.name);
                });
            }
        })?;
    }
    let mut labels = Vec::new();
    transaction(socket, "install the rules", &mut labels, |batch| {
        tables.iter().for_each(|table| add(batch, table, ownership));
    })
}

/// The table without its hooks; `None` if it has none. Nor can a table be without them that translates addresses.
fn without_hooks(table: &Table) -> Option<Table> {
    let has_hooks = table.chains.iter().any(|chain| chain.hook.is_some());
    if !has_hooks || table.rules.iter().any(Rule::translates) {
        return None;
    }
    let chains = table.chains.iter().map(|chain| Chain { hook: None, ..chain.clone() }).collect();
    Some(Table { chains, ..table.clone() })
}

/// Adds what creates a table to a transaction.
fn add(batch: &mut Batch<'_>, table: &Table, ownership: Ownership) {
    batch.add(NEW_TABLE, table.family, CREATE | EXCL, format!("table {}", table.name), |m| {
        m.string(1, &table.name);
        m.be32(2, if ownership == Ownership::Socket { TABLE_FLAG_OWNER } else { 0 });
    });
    for chain in &table.chains {
        batch.add(NEW_CHAIN, table.family, CREATE | EXCL, format!("chain {}", chain.name), |m| {
            m.string(1, &table.name).string(3, &chain.name);
            if let Some((hook, priority)) = chain.hook {
                m.nest(4, |h| {
                    h.be32(1, hook).be32(2, priority as u32);
                });
                // The kernel translates addresses in chains of their own type only.
                let translates = |rule: &Rule| rule.chain == chain.name && rule.translates();
                let kind = if table.rules.iter().any(translates) { "nat" } else { "filter" };
                m.string(7, kind).be32(5, 1);
            }
        });
    }
    for rule in &table.rules {
        let label = format!("rule \"{}\" of chain {}", rule.comment, rule.chain);
        batch.add(NEW_RULE, table.family, CREATE | netlink::APPEND, label, |m| rule.encode(&table.name, m));
    }
}

/// Deletes a table with everything in it.
pub fn delete(socket: &mut Socket, family: Family, name: &str) -> Result<()> {
    let mut labels = Vec::new();
    transaction(socket, &format!("remove the table {name}"), &mut labels, |batch| {
        batch.add(DEL_TABLE, family, 0, String::new(), |m| {
            m.string(1, name);
        });
    })
}

/// Deletes the very table that was listed, not another of the same name.
///
/// # Errors
/// `ENOENT` if it is gone.
pub fn delete_listed(socket: &mut Socket, table: &Listed) -> Result<()> {
    let mut labels = Vec::new();
    transaction(socket, &format!("remove the table {}", table.name), &mut labels, |batch| {
        batch.add(DEL_TABLE, table.family, 0, String::new(), |m| {
            m.be64(4, table.handle);
        });
    })
}

/// Empties a chain.
pub fn flush(socket: &mut Socket, family: Family, table: &str, chain: &str) -> Result<()> {
    let mut labels = Vec::new();
    transaction(socket, &format!("empty the chain {chain} of {table}"), &mut labels, |batch| {
        batch.add(DEL_RULE, family, 0, String::new(), |m| {
            m.string(1, table).string(2, chain);
        });
    })
}

/// Replaces the rules of some chains of each of `tables` by those they have there, in one transaction: no packet sees an
/// intermediate state, and queued packets stay queued.
pub fn replace_rules(socket: &mut Socket, tables: &[Table], of: impl Fn(&Chain) -> bool) -> Result<()> {
    let mut labels = Vec::new();
    transaction(socket, "change the rules", &mut labels, |batch| {
        for table in tables {
            let chains: Vec<&str> = table.chains.iter().filter(|chain| of(chain)).map(|chain| &*chain.name).collect();
            for chain in &chains {
                batch.add(DEL_RULE, table.family, 0, String::new(), |m| {
                    m.string(1, &table.name).string(2, chain);
                });
            }
            for rule in table.rules.iter().filter(|rule| chains.contains(&&*rule.chain)) {
                let label = format!("rule \"{}\" of chain {}", rule.comment, rule.chain);
                batch.add(NEW_RULE, table.family, CREATE | netlink::APPEND, label, |m| rule.encode(&table.name, m));
            }
        }
    })
}

/// The names of the tables of every family Tidegate uses.
pub fn tables(socket: &mut Socket) -> Result<Vec<(Family, String)>> {
    Ok(list(socket)?.into_iter().map(|table| (table.family, table.name)).collect())
}

/// The tables of every family Tidegate uses.
pub fn list(socket: &mut Socket) -> Result<Vec<Listed>> {
    let mut found = Vec::new();
    for family in [Family::Inet, Family::Ipv4, Family::Ipv6] {
        for reply in dump(socket, "list the nf_tables tables", GET_TABLE, family, None)? {
            let Some(name) = text(&reply, 1) else { continue };
            let number = |kind| reply.attributes(4).find(kind);
            let flags = number(2).and_then(|flags| flags.be32()).unwrap_or(0);
            let ownership = if flags & TABLE_FLAG_OWNER != 0 { Ownership::Socket } else { Ownership::Persistent };
            let handle = number(4).and_then(|handle| handle.be64()).unwrap_or(0);
            found.push(Listed { family, name, ownership, handle });
        }
    }
    Ok(found)
}

/// A flow table: connections in it are forwarded past all rules.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Flowtable {
    /// The family of its table.
    pub family: Family,
    /// The name of its table.
    pub table: String,
    /// The name of the flow table.
    pub name: String,
    /// The interfaces where it takes packets; none where the kernel reports patterns only.
    pub devices: Vec<String>,
}

impl fmt::Display for Flowtable {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {} {}", self.family.name(), self.table, self.name)
    }
}

/// The flow tables of all families.
pub fn flowtables(socket: &mut Socket) -> Result<Vec<Flowtable>> {
    let mut found = Vec::new();
    for family in [Family::Inet, Family::Ipv4, Family::Ipv6] {
        for reply in dump(socket, "list the flow tables", GET_FLOWTABLE, family, None)? {
            let (table, name) = (text(&reply, 1).unwrap_or_default(), text(&reply, 2).unwrap_or_default());
            // The hook, and in it the list of devices.
            let devices = reply.attributes(4).find(3).and_then(|hook| hook.nested().find(3));
            let devices = devices.iter().flat_map(|list| list.nested()).filter_map(|device| device.string()).collect();
            found.push(Flowtable { family, table, name, devices });
        }
    }
    Ok(found)
}

/// Reads a table back; `None` if it does not exist.
pub fn read(socket: &mut Socket, family: Family, name: &str) -> Result<Option<Found>> {
    if !tables(socket)?.iter().any(|(f, n)| *f == family && n == name) {
        return Ok(None);
    }
    let mut table = Table { family, name: name.into(), chains: Vec::new(), rules: Vec::new() };
    let mut counters = Vec::new();
    for reply in dump(socket, "read the chains back", GET_CHAIN, family, None)? {
        if text(&reply, 1).as_deref() != Some(name) {
            continue;
        }
        let hook = reply
            .attributes(4)
            .find(4)
            .and_then(|h| Some((h.nested().find(1)?.be32()?, h.nested().find(2)?.be32()? as i32)));
        table.chains.push(Chain { name: text(&reply, 3).unwrap_or_default(), hook });
    }
    for reply in dump(socket, "read the rules back", GET_RULE, family, Some(name))? {
        if text(&reply, 1).as_deref() != Some(name) {
            continue;
        }
        let (rule, counter) = Rule::decode(&reply);
        table.rules.push(rule);
        counters.push(counter);
    }
    Ok(Some(Found { table, counters }))
}

impl Rule {
    fn encode(&self, table: &str, m: &mut Body<'_>) {
        m.string(1, table).string(2, &self.chain).nest(4, |list| {
            for expression in &self.expressions {
                list.nest(1, |e| expression.encode(e));
            }
        });
        // The user data of a rule is a list of (type, length, value); type 0 is a comment, with its zero byte.
        let comment = &self.comment.as_bytes()[..self.comment.len().min(126)];
        let mut data = vec![0, comment.len() as u8 + 1];
        data.extend_from_slice(comment);
        data.push(0);
        m.attr(7, &data);
    }

    /// Reads a rule of a dump, and the packets and bytes of its counter, if it has one.
    pub fn decode(reply: &Reply) -> (Self, Option<(u64, u64)>) {
        let mut rule = Self { chain: String::new(), comment: String::new(), expressions: Vec::new() };
        let mut counter = None;
        for attribute in reply.attributes(4) {
            match attribute.kind {
                2 => rule.chain = attribute.string().unwrap_or_default(),
                4 => {
                    for element in attribute.nested() {
                        let (expression, counted) = Expression::decode(element.nested());
                        rule.expressions.push(expression);
                        counter = counter.or(counted);
                    }
                }
                7 => {
                    if let Some((&[0, length], text)) = attribute.payload.split_first_chunk::<2>() {
                        let text = text.get(..usize::from(length).saturating_sub(1)).unwrap_or(&[]);
                        rule.comment = String::from_utf8_lossy(text).into_owned();
                    }
                }
                _ => {}
            }
        }
        (rule, counter)
    }
}

struct Batch<'a> {
    builder: Builder,
    socket: &'a mut Socket,
    labels: &'a mut Vec<(u32, String)>,
}

impl Batch<'_> {
    fn add(&mut self, kind: u16, family: Family, flags: u16, label: String, fill: impl FnOnce(&mut Body<'_>)) {
        let sequence = self.socket.next_sequence();
        self.labels.push((sequence, label));
        self.builder.message(kind, flags | netlink::REQUEST | ACK, sequence, |m| {
            m.raw(&[family.number(), 0, 0, 0]);
            fill(m);
        });
    }
}

fn transaction(
    socket: &mut Socket,
    operation: &str,
    labels: &mut Vec<(u32, String)>,
    fill: impl FnOnce(&mut Batch<'_>),
) -> Result<()> {
    let mut batch = Batch { builder: Builder::new(), socket, labels };
    let marker = |batch: &mut Batch<'_>, kind| {
        let sequence = batch.socket.next_sequence();
        batch.builder.message(kind, netlink::REQUEST, sequence, |m| {
            m.raw(&[libc::AF_UNSPEC as u8, 0, 0, (SUBSYSTEM >> 8) as u8]);
        });
    };
    marker(&mut batch, BATCH_BEGIN);
    fill(&mut batch);
    marker(&mut batch, BATCH_END);
    let Batch { builder, socket, labels } = batch;
    socket.transact(operation, &builder, |sequence| {
        labels.iter().find(|(s, l)| *s == sequence && !l.is_empty()).map(|(_, l)| l.clone())
    })
}

fn dump(socket: &mut Socket, operation: &str, kind: u16, family: Family, table: Option<&str>) -> Result<Vec<Reply>> {
    let result = socket.dump(operation, kind, |m| {
        m.raw(&[family.number(), 0, 0, 0]);
        if let Some(table) = table {
            m.string(1, table);
        }
    });
    match result {
        // A kernel without the family has no tables of it.
        Err(Error::Refused { errno: libc::EAFNOSUPPORT | libc::EOPNOTSUPP | libc::ENOENT, .. }) => Ok(Vec::new()),
        other => other,
    }
}

fn text(reply: &Reply, kind: u16) -> Option<String> {
    reply.attributes(4).find(kind)?.string()
}
