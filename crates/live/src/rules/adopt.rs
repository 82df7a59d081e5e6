//! Taking over the rules of an earlier instance, without a moment in which packets pass them by.

use std::os::fd::OwnedFd;

use super::{Installed, Limits, Rules, RulesError, Spec, attempts, plan, table_name, tables, verify};
use crate::netlink::{Error, Socket};
use crate::nft;

impl Rules {
    /// Takes over the rules that are owned by the socket `owner`, and were installed for `interface`. Rules that are
    /// those of `spec` stay; others are replaced, and the kernel drops what waits in a queue at that moment.
    ///
    /// # Errors
    /// As [`install`](Self::install).
    pub(crate) fn adopt(owner: OwnedFd, interface: &str, spec: &Spec) -> Result<Self, RulesError> {
        plan::check(spec)?;
        let mut socket = Socket::adopt(owner)?;
        // Replies to the earlier owner.
        while socket.try_receive("take over the rules")?.is_some() {}
        for attempt in attempts() {
            for limits in [Limits::Available, Limits::Missing] {
                let tables = tables(spec, attempt, limits);
                if is_in_place(&mut socket, &tables)? {
                    let installed = Installed { attempt, refused: Vec::new() };
                    return Ok(Self { socket, tables, installed, limits, removed: false });
                }
            }
        }
        let (name, earlier) = (table_name(&spec.interface, spec.direction), table_name(interface, spec.direction));
        delete(&mut socket, &name)?;
        let mut rules = Self::create(socket, spec, attempts())?;
        if earlier != name {
            delete(&mut rules.socket, &earlier)?;
        }
        Ok(rules)
    }

    /// Leaves the rules in force, for the one that takes them over.
    pub(crate) fn leave(mut self) {
        self.removed = true;
    }

    /// A further descriptor of the socket that owns the rules, which last as long as it.
    ///
    /// # Errors
    /// When the process has no descriptor left.
    pub(crate) fn owner(&self) -> std::io::Result<OwnedFd> {
        std::os::fd::AsFd::as_fd(&self.socket).try_clone_to_owned()
    }

    /// The messages that have the same effect as [`bypass`](Self::bypass), for the guardian.
    pub(crate) fn bypass_messages(&self) -> Vec<u8> {
        nft::flush_messages(&self.tables, "shape")
    }
}

fn is_in_place(socket: &mut Socket, tables: &[nft::Table]) -> Result<bool, Error> {
    for table in tables {
        let found = nft::read(socket, table.family, &table.name)?;
        if !verify::compare(table, found.as_ref().map(|found| &found.table)).is_empty() {
            return Ok(false);
        }
    }
    Ok(true)
}

fn delete(socket: &mut Socket, name: &str) -> Result<(), Error> {
    for (family, found) in nft::tables(socket)? {
        if found == name {
            nft::delete(socket, family, &found)?;
        }
    }
    Ok(())
}
