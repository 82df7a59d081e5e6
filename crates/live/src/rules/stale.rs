//! Which tables are in use, and the removal of those that are not.

use std::thread::sleep;
use std::time::{Duration, Instant};

use super::{DIRECTIONS, RulesError, interface_of, table_name};
use crate::netlink::{Protocol, Socket};
use crate::nfqueue::QueueSocket;
use crate::nft::{self, Expression, Listed, Ownership};
use tidegate_config::shaper::Direction;

/// Removes stale tables of `interface`, of either direction; returns whether there were any.
///
/// # Errors
/// [`RulesError::Busy`] if there was nothing to remove and an instance runs.
pub fn remove_stale(interface: &str) -> Result<bool, RulesError> {
    let mut socket = Socket::open(Protocol::Netfilter)?;
    let (mut any, mut busy) = (false, None);
    for direction in DIRECTIONS {
        match remove(&mut socket, interface, direction) {
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

/// Removes stale tables of all interfaces, and returns those interfaces.
pub fn remove_all_stale() -> Result<Vec<String>, RulesError> {
    let mut socket = Socket::open(Protocol::Netfilter)?;
    let mut names: Vec<_> = nft::tables(&mut socket)?.into_iter().filter_map(|(_, name)| interface_of(&name)).collect();
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

/// How long a guardian whose shaper has ended may need to release what is held and to remove the table.
const ENDING: Duration = Duration::from_secs(1);

/// Removes the stale tables of an interface and a direction, and waits for the end of an instance that is ending.
///
/// # Errors
/// [`RulesError::Busy`] if a table is in use all the time.
pub(super) fn remove_ended(socket: &mut Socket, interface: &str, direction: Direction) -> Result<(), RulesError> {
    let deadline = Instant::now() + ENDING;
    loop {
        match remove(socket, interface, direction) {
            Err(RulesError::Busy { .. }) if Instant::now() < deadline => sleep(Duration::from_millis(20)),
            result => return result.map(|_| ()),
        }
    }
}

/// Removes the stale tables of an interface and a direction; returns whether there were any.
///
/// # Errors
/// [`RulesError::Busy`] if one is in use; nothing is removed then.
pub(super) fn remove(socket: &mut Socket, interface: &str, direction: Direction) -> Result<bool, RulesError> {
    let tables = check_free(socket, interface, direction)?;
    for table in &tables {
        match nft::delete_listed(socket, table) {
            // Another start removed it first; or the table was replaced by one in use, which has another handle.
            Err(error) if error.errno() == Some(libc::ENOENT) => {}
            result => result?,
        }
    }
    Ok(!tables.is_empty())
}

/// The tables of an interface and a direction, none of which is in use.
///
/// # Errors
/// [`RulesError::Busy`] if one is.
pub(super) fn check_free(
    socket: &mut Socket,
    interface: &str,
    direction: Direction,
) -> Result<Vec<Listed>, RulesError> {
    let name = table_name(interface, direction);
    let tables: Vec<_> = nft::list(socket)?.into_iter().filter(|table| table.name == name).collect();
    for table in &tables {
        if is_in_use(socket, table)? {
            return Err(RulesError::Busy { interface: interface.into(), direction });
        }
    }
    Ok(tables)
}

/// Whether a process is behind a table: a socket owns it, or its queue is served. Every instance binds its queue before
/// it installs rules.
fn is_in_use(socket: &mut Socket, table: &Listed) -> Result<bool, RulesError> {
    if table.ownership == Ownership::Socket {
        return Ok(true);
    }
    let Some(found) = nft::read(socket, table.family, &table.name)? else { return Ok(false) };
    for expression in found.table.rules.iter().flat_map(|rule| &rule.expressions) {
        if let Expression::Queue { first, .. } | Expression::QueueTarget { first, .. } = expression
            && is_served(*first)?
        {
            return Ok(true);
        }
    }
    Ok(false)
}

/// Whether a socket serves `queue`. The kernel's list of queues in /proc has the same information, but may be hidden.
fn is_served(queue: u16) -> Result<bool, RulesError> {
    // The kernel first compares who asks with who serves: a new socket cannot release a queue, and learns whose it is.
    match QueueSocket::open(4_096)?.unbind(queue) {
        Err(error) if error.errno() == Some(libc::EPERM) => Ok(true),
        Err(error) if error.errno() == Some(libc::ENODEV) => Ok(false),
        result => Ok(result.map(|()| false)?),
    }
}
