//! [`InterfaceLock`]: the lock of an interface for a data path without rules.

use super::{RulesError, stale, table_name};
use crate::netlink::{Protocol, Socket};
use crate::nft::{self, Chain, Family, Ownership, Table};
use tidegate_config::shaper::Direction;

/// Keeps other instances from an interface and a direction until it is dropped, or the process ends: a table without hooks,
/// of the name that rules would have. Holds nothing on a kernel without nf_tables, where there can be no rules either.
#[derive(Debug)]
pub struct InterfaceLock {
    /// The kernel removes the table with it.
    _socket: Option<Socket>,
}

impl InterfaceLock {
    /// Takes the lock, in the network namespace of the calling thread.
    ///
    /// # Errors
    /// [`RulesError::Busy`] when another instance has it.
    pub fn acquire(interface: &str, direction: Direction) -> Result<Self, RulesError> {
        let mut socket = Socket::open(Protocol::Netfilter)?;
        match stale::remove_ended(&mut socket, interface, direction) {
            // Netfilter's netlink knows no such subsystem.
            Err(RulesError::Netlink(error)) if error.errno() == Some(libc::EINVAL) => {
                return Ok(Self { _socket: None });
            }
            result => result?,
        }
        let chains = vec![Chain { name: "lock".into(), hook: None }];
        let name = table_name(interface, direction);
        let table = Table { family: Family::Inet, name, chains, rules: Vec::new() };
        if let Err(error) = nft::create(&mut socket, &[table], Ownership::Socket) {
            // Of two that start at once, the second finds the table of the first.
            stale::check_free(&mut socket, interface, direction)?;
            return Err(error.into());
        }
        Ok(Self { _socket: Some(socket) })
    }
}
