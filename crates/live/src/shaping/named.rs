//! [`KnownNames`]: the addresses of the names that rules have, shared by all data paths of a process.

use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;
use std::sync::{Arc, Mutex, Weak};
use std::time::{Duration, Instant};

use tidegate_capture::dns::PORT;
use tidegate_config::shaper::{Config, Named};
use tidegate_engine::guard::lock;

use super::answers::Answers;
use super::queue::Queue;
use crate::leases::Leases;
use crate::netlink;
use crate::nflog::Log;
use crate::rules::{CopyTable, Direction};

/// The addresses of names.
pub type Addresses = BTreeMap<Named, BTreeSet<IpAddr>>;

/// Leases are read again after this time.
const LEASES: Duration = Duration::from_secs(5);
/// The longest that the first data path waits for leases; without them it starts, and they are used once they are there.
const LONGEST: Duration = Duration::from_secs(1);
/// The most packets that are looked at in a call.
const AT_ONCE: usize = 4_000;

/// Reads leases, and looks at answers of the Domain Name System, as soon as a rule asks for either. Clones share them.
#[derive(Clone, Debug, Default)]
pub struct KnownNames(Arc<Mutex<State>>);

#[derive(Debug, Default)]
struct State {
    leases: Option<Leases>,
    log: Option<Log>,
    /// The data path whose rules copy packets for the log; gone with it.
    copying: Weak<()>,
    /// The table that copies for data paths without rules.
    copies: Option<CopyTable>,
    answers: Answers,
}

/// The part of a data path in the log: whether its rules copy packets, and for which group.
#[derive(Debug, Default)]
pub(super) struct Copies(Option<(Arc<()>, u16)>);

/// Whether a rule has a name of the Domain Name System.
pub(super) fn has_answered(config: &Config) -> bool {
    config.rules.iter().flat_map(|rule| rule.matches.named()).any(|name| matches!(name, Named::Answered(_)))
}

/// Whether a rule has a name.
pub(super) fn has_names(config: &Config) -> bool {
    config.rules.iter().any(|rule| rule.matches.named().next().is_some())
}

impl KnownNames {
    /// The addresses of the names that rules of `config` have now.
    ///
    /// # Errors
    /// When answers cannot be seen, because the kernel lacks what that takes.
    pub fn addresses(&self, config: &Config) -> Result<Addresses, netlink::Error> {
        let mut state = lock(&self.0);
        let now = Instant::now();
        let names = || config.rules.iter().flat_map(|rule| rule.matches.named());
        if has_answered(config) {
            state.look(now)?;
        }
        Ok(names().map(|name| (name.clone(), state.addresses(&name, now))).collect())
    }

    /// Has the rules of a data path copy answers, where no other data path does, and `own` is not up to date: those of its queue, or
    /// where it has none a table with the name of its first interface.
    pub(super) fn copied_by(
        &self,
        own: &mut Copies,
        queue: Option<&mut Queue>,
        (interface, direction): (&str, Direction),
    ) -> Result<(), netlink::Error> {
        let mut state = lock(&self.0);
        let Some(group) = state.log.as_ref().map(Log::group) else { return Ok(()) };
        let is_ours = |token: &Arc<()>| own.0.as_ref().is_some_and(|(own, _)| Arc::ptr_eq(own, token));
        let is_current = own.0.as_ref().is_some_and(|(_, of)| *of == group);
        match state.copying.upgrade() {
            Some(token) if !is_ours(&token) || is_current => return Ok(()),
            _ => {}
        }
        match (queue, &mut state.copies) {
            (Some(queue), copies) => {
                queue.copy(PORT, group)?;
                copies.as_mut().map_or(Ok(()), |copies| copies.copy(PORT, None))?;
            }
            (None, Some(copies)) => copies.copy(PORT, Some(group))?,
            (None, none) => none.insert(CopyTable::create(interface, direction)?).copy(PORT, Some(group))?,
        }
        let token = Arc::new(());
        state.copying = Arc::downgrade(&token);
        own.0 = Some((token, group));
        Ok(())
    }

    /// Forgets names that no rule has had for long. The log stays open as long as the process, as the rules that copy for it.
    pub(super) fn forget_unwanted(&self) {
        lock(&self.0).answers.forget_unwanted(Instant::now());
    }
}

/// The addresses of the names in `config` without a running data path: those of leases. Nobody has seen answers.
pub fn leased(config: &Config) -> Addresses {
    let mut state = State::default();
    let names = config.rules.iter().flat_map(|rule| rule.matches.named());
    names.map(|name| (name.clone(), state.addresses(&name, Instant::now()))).collect()
}

impl State {
    fn addresses(&mut self, name: &Named, now: Instant) -> BTreeSet<IpAddr> {
        match name {
            Named::Device(device) => {
                let leased = self.leases().names().iter().filter(|(_, name)| device.is(name));
                // Addresses of IPv4 are the first ones.
                leased.map(|(address, _)| *address).take(name.most()).collect()
            }
            Named::Answered(asked) => self.answers.addresses(asked, now),
        }
    }

    /// Looks at the packets that have passed since the last call.
    fn look(&mut self, now: Instant) -> Result<(), netlink::Error> {
        if self.log.is_none() {
            self.log = Some(Log::open()?);
        }
        let received = self.log.as_mut().map_or(Ok(Vec::new()), |log| log.receive(AT_ONCE));
        // A socket that has failed is opened anew with the next call.
        let received = received.inspect_err(|_| self.log = None)?;
        received.iter().for_each(|copy| self.answers.see(&copy.bytes, copy.incoming, now));
        Ok(())
    }

    fn leases(&mut self) -> &Leases {
        let leases = self.leases.get_or_insert_with(|| {
            let mut leases = Leases::new(LEASES);
            leases.wait(LONGEST);
            leases
        });
        leases.refresh(Instant::now());
        leases
    }
}
