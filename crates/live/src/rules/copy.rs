//! Rules that copy packets beside their way, for a [`Log`](crate::nflog::Log).
//!
//! *Law*: the table of copies belongs to the socket of the other rules, and its chains stay as long as that: with a hook that goes the
//! kernel drops what waits in packet queues. A successor finds them with the rules that it takes over.

use super::{PREFIX, PREFIX_IN, Rules, table_name};
use crate::netlink::{Error, Protocol, Socket};
use crate::nflog;
use crate::nft::{self, Family, Ownership, Table};
use tidegate_config::shaper::Direction;

/// The beginning of the names of these tables, instead of that of the rules.
const LOG: &str = "tidegate-log";

/// The name of the table of copies that belongs to the rules with these names.
fn name(rules: &[String]) -> Option<String> {
    let first = rules.first()?;
    // The prefixes without the end that tells them apart.
    let common = PREFIX.len() - 1;
    debug_assert!(PREFIX_IN.starts_with(&PREFIX[..common]), "the names begin alike");
    Some(format!("{LOG}{}", first.get(common..)?))
}

/// The table of copies of a process whose data path has no rules. It stays as long as this, whatever data paths come and go.
#[derive(Debug)]
pub(crate) struct CopyTable {
    socket: Socket,
    name: String,
}

impl CopyTable {
    /// Makes a table that copies nothing, with the name of an interface and a direction.
    ///
    /// # Errors
    /// When the kernel lacks packet logs or tables with an owner.
    pub fn create(interface: &str, direction: Direction) -> Result<Self, Error> {
        let mut socket = Socket::open(Protocol::Netfilter)?;
        let name = format!("{LOG}-{}", table_name(interface, direction));
        nft::create(&mut socket, &[nflog::table(&name, 0, None)], Ownership::Socket)?;
        Ok(Self { socket, name })
    }

    /// Has UDP datagrams from and to `port` copied for `group`, and for no other; for none without a group.
    pub fn copy(&mut self, port: u16, group: Option<u16>) -> Result<(), Error> {
        nft::replace_rules(&mut self.socket, &[nflog::table(&self.name, port, group)], |_| true)
    }
}

impl Rules {
    /// Has UDP datagrams from and to `port` copied for `group`, and for no other.
    ///
    /// # Errors
    /// When the kernel lacks packet logs or tables with an owner.
    pub(crate) fn copy(&mut self, port: u16, group: u16) -> Result<(), Error> {
        let Some(name) = name(&self.names) else { return Ok(()) };
        let table = nflog::table(&name, port, Some(group));
        match &self.log {
            Some(_) => nft::replace_rules(&mut self.socket, std::slice::from_ref(&table), |_| true)?,
            None => nft::create(&mut self.socket, std::slice::from_ref(&table), Ownership::Socket)?,
        }
        self.log = Some(table);
        Ok(())
    }

    /// Takes over the table of copies that an earlier owner of the socket has made, and has it copy nothing for now.
    pub(super) fn inherit_copies(&mut self) -> Result<(), Error> {
        let Some(name) = name(&self.names) else { return Ok(()) };
        let empty: Table = nflog::table(&name, 0, None);
        if nft::read(&mut self.socket, Family::Inet, &name)?.is_some_and(|found| found.table.chains == empty.chains) {
            nft::replace_rules(&mut self.socket, std::slice::from_ref(&empty), |_| true)?;
            self.log = Some(empty);
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_direction_of_an_interface_has_a_table_of_its_own() {
        let of = |direction| name(&[table_name("wan0", direction)]);
        assert_eq!(of(Direction::Egress).as_deref(), Some("tidegate-log_wan0"));
        assert_eq!(of(Direction::Ingress).as_deref(), Some("tidegate-log-in_wan0"));
        // Nobody takes it for rules that lead to a queue.
        for name in ["tidegate-log_wan0", "tidegate-log-tidegate_wan0"] {
            assert_eq!(crate::rules::interface_of(name), None);
        }
    }
}
