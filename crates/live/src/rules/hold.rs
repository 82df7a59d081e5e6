//! Rules that hold what leaves by an interface, for as long as its root discipline is being exchanged.

use super::{Attempt, Interface, PREFIX, Rules, RulesError, Spec, attempts, plan, table_name};
use crate::netlink::{Protocol, Socket};
use crate::nft::Ownership;
use tidegate_config::shaper::Direction;

/// The prefix of the names of these tables, in the place of [`PREFIX`].
const PREFIX_HOLD: &str = "tidegate-hold_";

impl Rules {
    /// Leads what leaves by an interface to a queue that is served, in a table beside those of data paths, and after their chains:
    /// the lock of the interface is not asked for. The kernel removes the table with this process.
    ///
    /// # Errors
    /// [`RulesError::Unsupported`] with every attempt if the kernel takes none.
    pub(crate) fn hold(interface: Interface, queue: u16) -> Result<Self, RulesError> {
        let name = table_name(&interface.name, Direction::Egress).replacen(PREFIX, PREFIX_HOLD, 1);
        let spec = Spec { interfaces: vec![interface.clone()], ..Spec::new("", queue) };
        plan::check(&spec)?;
        let planned = |Attempt { families, verb, .. }, limits| {
            let table = |&family| plan::hold(&spec, &interface, family, verb, limits, &name);
            families.iter().map(table).collect()
        };
        let attempts = attempts().filter(|attempt| attempt.ownership == Ownership::Socket);
        Self::create_tables(Socket::open(Protocol::Netfilter)?, &spec, std::slice::from_ref(&name), attempts, planned)
    }
}
