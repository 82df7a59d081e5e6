//! [`Aside`]: the other guardians of a network namespace let packets pass while a chain of the packet filter comes or goes.
//!
//! When any chain with a hook goes, the kernel drops what waits in every queue of the network namespace
//! (`nf_queue_nf_hook_drop`), and a shaper that ends removes its chains. When a chain comes, the kernel puts it before chains of
//! the same priority. It knows a packet that waits by the number of the chain where it waits; that chain has the next number then,
//! so that the packet is queued a second time, behind later packets of its flow.
//!
//! Therefore a shaper that starts or ends first asks the guardians of the others: those of its own other directions, and those
//! of other shapers whose sockets are in the same directory. Each asks its shaper for the turn, accepts what waits in order and
//! then what arrives, until the connection ends; the shaper gets the turn back then.
//!
//! *Law*: what a shaper holds when another one starts or ends is not lost; it leaves in order, at once and therefore unshaped.
//! *Notes*: a packet that arrives in the microseconds between a turn of the guardian and the change is still dropped or
//! overtaken. So is what a shaper holds that does not leave the turn within [`ANSWER`], and what it holds again when the change
//! takes longer than its guardian keeps the turn.

use std::fs;
use std::os::fd::{AsFd, OwnedFd};
use std::path::Path;
use std::time::{Duration, Instant};

use rustix::net::sockopt::{Timeout, set_socket_timeout};

use super::message::{self, ASIDE};
use super::{connect, is_trusted, socket_name};

/// How long all of them together may take to answer.
const ANSWER: Duration = Duration::from_millis(200);

/// The guardians of others let packets pass for as long as it lives.
#[derive(Debug)]
pub(crate) struct Aside {
    _guardians: Vec<OwnedFd>,
}

impl Aside {
    /// Asks the guardians whose sockets are in `directory` and whose tables of rules have names that begin with `tables`, but for
    /// those whose sockets have the names in `own`. Waits until they have let pass what waits.
    pub fn ask(directory: Option<&Path>, tables: &str, own: &[String]) -> Self {
        // The number of the network namespace is before the name of the table.
        let prefix = socket_name(tables, 0).unwrap_or_default();
        let entries = directory.and_then(|directory| fs::read_dir(directory).ok()).into_iter().flatten().flatten();
        let others = entries.filter(|entry| {
            let name = entry.file_name();
            name.to_str().is_some_and(|name| name.starts_with(&prefix) && !own.iter().any(|own| own == name))
        });
        let asked = others.filter_map(|entry| {
            let peer = connect(&entry.path()).ok()?.filter(|peer| is_trusted(peer.as_fd()))?;
            message::send(peer.as_fd(), &[ASIDE], &[]).ok()?;
            Some(peer)
        });
        let deadline = Instant::now() + ANSWER;
        // All are asked before the first one is waited for.
        let guardians: Vec<OwnedFd> = asked.collect();
        for guardian in &guardians {
            // No time at all would be for ever.
            let left = deadline.saturating_duration_since(Instant::now()).max(Duration::from_millis(1));
            if set_socket_timeout(guardian, Timeout::Recv, Some(left)).is_ok() {
                let _ = message::receive(guardian.as_fd(), &mut [0; 1], &mut []);
            }
        }
        Self { _guardians: guardians }
    }
}
