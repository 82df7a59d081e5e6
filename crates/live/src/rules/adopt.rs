//! Taking over the rules of an earlier instance, without a moment in which packets pass them by.

use std::os::fd::OwnedFd;

use super::{
    Extras, Installed, Rules, RulesError, Spec, attempts, is_missing_feature, plan, prefix, table_names, tables, verify,
};
use crate::netlink::{Error, Socket};
use crate::nft::{self, Expression, Listed, Ownership, Table};

impl Rules {
    /// Takes over the rules that lead to the queue of `spec`, whose tables the socket `owner` owns. Those of `spec` stay;
    /// others are replaced, within their chains where these are the same. Where they are not, the kernel drops what waits
    /// in a queue at that moment.
    ///
    /// # Errors
    /// As [`install`](Self::install).
    pub(crate) fn adopt(owner: OwnedFd, spec: &Spec) -> Result<Self, RulesError> {
        plan::check(spec)?;
        let mut socket = Socket::adopt(owner)?;
        // Replies to the earlier owner.
        while socket.try_receive("take over the rules")?.is_some() {}
        let earlier = of_queue(&mut socket, spec)?;
        let (rules, locks): (Vec<_>, Vec<_>) =
            earlier.into_iter().partition(|(_, table)| table.chains.iter().any(|chain| chain.hook.is_some()));
        let (ownership, rules): (Vec<_>, Vec<_>) = rules.into_iter().unzip();
        let locks: Vec<Table> = locks.into_iter().map(|(_, table)| table).collect();
        if let Some(names) = assign(spec, &rules)
            && let Some((installed, extras)) = adapt(&mut socket, spec, &names, &ownership, &rules)?
        {
            let tables = tables(spec, installed.attempt, extras, &names);
            let mut adopted = Self { socket, names, tables, locks, log: None, installed, extras, removed: false };
            adopted.inherit_copies()?;
            adopted.follow(spec)?;
            return Ok(adopted);
        }
        // One of a name of these excludes the new one.
        let names = table_names(spec);
        let (same, others): (Vec<_>, Vec<_>) =
            rules.into_iter().chain(locks).partition(|table| names.contains(&table.name));
        super::remove_tables(&mut socket, &same)?;
        let mut adopted = Self::create(socket, spec, attempts())?;
        super::remove_tables(&mut adopted.socket, &others)?;
        adopted.inherit_copies()?;
        Ok(adopted)
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
}

/// The tables of our names that lead to the first queue of `spec`, or hold a lock for it.
fn of_queue(socket: &mut Socket, spec: &Spec) -> Result<Vec<(Ownership, Table)>, Error> {
    let prefix = prefix(spec.direction);
    let leads = |expression: &Expression| match expression {
        Expression::Queue { first, .. } | Expression::QueueTarget { first, .. } => *first == spec.queue,
        _ => false,
    };
    let mut tables = Vec::new();
    for Listed { family, name, ownership, .. } in nft::list(socket)? {
        if name.starts_with(prefix)
            && let Some(found) = nft::read(socket, family, &name)?
            && found.table.rules.iter().flat_map(|rule| &rule.expressions).any(leads)
        {
            tables.push((ownership, found.table));
        }
    }
    Ok(tables)
}

/// Assigns the tables in `found` to the interfaces of `spec`, by the interface that they contain, and returns the name of
/// those of each; `None` if there are more or fewer interfaces than in `found`.
fn assign(spec: &Spec, found: &[Table]) -> Option<Vec<String>> {
    let mut left: Vec<&Table> = Vec::new();
    for table in found {
        if !left.iter().any(|other| other.name == table.name) {
            left.push(table);
        }
    }
    if left.len() != spec.interfaces.len() {
        return None;
    }
    let mut names: Vec<Option<String>> = vec![None; left.len()];
    for (interface, name) in spec.interfaces.iter().zip(&mut names) {
        let own = left.iter().position(|table| plan::is_of(table, &interface.name));
        *name = own.map(|at| left.remove(at).name.clone());
    }
    // The rest has other names since.
    let mut rest = left.into_iter().map(|table| table.name.clone());
    names.into_iter().map(|name| name.or_else(|| rest.next())).collect()
}

/// Makes the rules in `found` those of `spec`, where that is possible without another chain. Returns how they are installed.
fn adapt(
    socket: &mut Socket,
    spec: &Spec,
    names: &[String],
    ownership: &[Ownership],
    found: &[Table],
) -> Result<Option<(Installed, Extras)>, Error> {
    let ways = || {
        let of_these = attempts().filter(|attempt| ownership.iter().all(|of| *of == attempt.ownership));
        let ways = of_these.flat_map(|attempt| Extras::ALL.map(|extras| (attempt, extras)));
        ways.map(|(attempt, extras)| (tables(spec, attempt, extras, names), attempt, extras))
    };
    let matched = |planned: &[Table], is: fn(&Table, &Table) -> bool| {
        let one = |table: &Table| {
            found.iter().any(|found| (found.family, &found.name) == (table.family, &table.name) && is(table, found))
        };
        planned.len() == found.len() && planned.iter().all(one)
    };
    let installed = |attempt| Installed { attempt, refused: Vec::new() };
    let mut in_place = ways().filter(|(planned, ..)| matched(planned, |a, b| verify::compare(a, Some(b)).is_empty()));
    if let Some((_, attempt, extras)) = in_place.next() {
        return Ok(Some((installed(attempt), extras)));
    }
    for (planned, attempt, extras) in ways().filter(|(planned, ..)| matched(planned, has_chains_of)) {
        match nft::replace_rules(socket, &planned, |_| true) {
            Ok(()) => return Ok(Some((installed(attempt), extras))),
            Err(error) if is_missing_feature(&error) => {}
            Err(error) => return Err(error),
        }
    }
    Ok(None)
}

fn has_chains_of(planned: &Table, found: &Table) -> bool {
    planned.chains.len() == found.chains.len() && planned.chains.iter().all(|chain| found.chains.contains(chain))
}
