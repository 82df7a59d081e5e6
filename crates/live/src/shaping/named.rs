//! [`KnownNames`]: the addresses of the names that rules have, shared by all data paths of a process.

use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use tidegate_capture::dns::PORT;
use tidegate_config::shaper::{Config, Named};
use tidegate_engine::guard::lock;

use super::answers::Answers;
use crate::leases::Leases;
use crate::netlink;
use crate::nflog::Log;

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
    answers: Answers,
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
        if names().any(|name| matches!(name, Named::Answered(_))) {
            state.look(now)?;
        }
        Ok(names().map(|name| (name.clone(), state.addresses(&name, now))).collect())
    }

    /// Forgets names that no rule has had for long. The log stays open as long as the process: with its rules a hook would go, and with
    /// any hook the kernel drops what waits in packet queues.
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
            self.log = Some(Log::open(PORT)?);
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
