//! Rules that hold what leaves by an interface, for as long as its root discipline is being exchanged.
//!
//! When a chain with a hook goes, the kernel drops what waits in any queue of the network namespace (`nf_queue_nf_hook_drop`). So
//! the table stays after a hold, with a chain that does nothing, until shaping ends in order or begins anew.

use std::path::Path;

use super::{Attempt, Extras, Interface, PREFIX, RulesError, Spec, attempts, is_missing_feature, plan, table_name};
use crate::guardian::Aside;
use crate::netlink::{Error, Protocol, Socket};
use crate::nft::{self, Family, Ownership, Table};
use tidegate_config::shaper::Direction;

/// The prefix of the names of these tables, in the place of [`PREFIX`].
const PREFIX_HOLD: &str = "tidegate-hold_";

/// Leads what leaves by an interface to a queue, behind the chains of data paths, whose lock is not asked for.
#[derive(Debug)]
pub(crate) struct HoldRules {
    socket: Socket,
    /// The table without the rule that leads to the queue.
    open: Table,
}

impl HoldRules {
    /// Puts the rules in force, for a queue that is served. A process that is killed meanwhile leaves rules that let packets pass.
    ///
    /// # Errors
    /// [`RulesError::Unsupported`] with every attempt if the kernel takes none.
    pub fn begin(interface: &Interface, queue: u16) -> Result<Self, RulesError> {
        let spec = Spec { interfaces: vec![interface.clone()], ..Spec::new("", queue) };
        plan::check(&spec)?;
        let (mut socket, name) = (Socket::open(Protocol::Netfilter)?, name_for(&interface.name));
        let mut refused = Vec::new();
        // Every kernel with disciplines in BPF has queues for this family.
        for attempt in attempts().filter(|it| it.ownership == Ownership::Persistent && it.families == [Family::Inet]) {
            let Attempt { verb, ownership, .. } = attempt;
            for extras in Extras::ALL {
                let held = plan::hold(&spec, interface, Family::Inet, verb, extras, &name);
                let mut open = held.clone();
                open.rules.clear();
                match nft::create(&mut socket, std::slice::from_ref(&open), ownership) {
                    Err(error) if error.errno() != Some(libc::EEXIST) => return Err(error.into()),
                    _ => {}
                }
                match nft::replace_rules(&mut socket, &[held], |_| true) {
                    Ok(()) => return Ok(Self { socket, open }),
                    Err(error) if is_missing_feature(&error) => refused.push(format!("{attempt}: {error}")),
                    Err(error) => return Err(error.into()),
                }
            }
        }
        Err(RulesError::Unsupported(refused))
    }

    /// Lets packets pass from now on.
    pub fn end(mut self) -> Result<(), Error> {
        nft::replace_rules(&mut self.socket, &[self.open], |_| true)
    }
}

/// Removes the table of holds of an interface, if there is one. Guardians whose sockets are in `directory` let pass what waits
/// in other queues first.
pub(crate) fn remove_holds(interface: &str, directory: Option<&Path>) {
    let Ok(mut socket) = Socket::open(Protocol::Netfilter) else { return };
    let table = (Family::Inet, name_for(interface));
    if nft::tables(&mut socket).is_ok_and(|tables| tables.contains(&table)) {
        let _aside = Aside::ask(directory, "", &[]);
        let _ = nft::delete(&mut socket, table.0, &table.1);
    }
}

fn name_for(interface: &str) -> String {
    table_name(interface, Direction::Egress).replacen(PREFIX, PREFIX_HOLD, 1)
}
