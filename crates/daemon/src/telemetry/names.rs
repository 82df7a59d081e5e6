//! [`Names`]: the names of hosts, from files of this machine and, if requested, from its resolver.
//!
//! The caller waits neither for a file nor for the resolver: files are read, and look-ups run, on threads of their own, and
//! what they find is used when it is there. A look-up that has taken longer than [`LIMIT`] counts as an address without a
//! name, and no more than [`AT_ONCE`] threads wait for the resolver, whatever it does.

use std::collections::HashMap;
use std::net::IpAddr;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::{Duration, Instant};

use tidegate_live::leases::{Leases, valid};

/// Files are read again after this time.
const FILES: Duration = Duration::from_secs(30);
/// The longest that a look-up is waited for.
const LIMIT: Duration = Duration::from_secs(5);
/// The result of a look-up is used for this long, that there is no name as well.
const KEPT: Duration = Duration::from_secs(600);
/// The most look-ups at a time.
const AT_ONCE: usize = 4;
/// The most addresses whose look-ups are remembered.
const MOST: usize = 1_024;

/// See the [module](self).
#[derive(Debug)]
pub(crate) struct Names {
    leases: Leases,
    resolver: Resolver,
}

impl Default for Names {
    fn default() -> Self {
        Self { leases: Leases::new(FILES), resolver: Resolver::new(of_system) }
    }
}

impl Names {
    /// The name of a host; with `reverse_lookup` also by the resolver, once it has answered.
    pub fn of(&mut self, address: IpAddr, reverse_lookup: bool) -> Option<String> {
        let now = Instant::now();
        self.leases.refresh(now);
        let written = self.leases.names().get(&address).cloned();
        written.or_else(|| if reverse_lookup { self.resolver.name(address, now) } else { None })
    }
}

/// Asks the resolver of the system (nsswitch.conf(5), resolv.conf(5)), and waits for it.
fn of_system(address: IpAddr) -> Option<String> {
    dns_lookup::lookup_addr(&address).ok()
}

/// Look-ups under way, and the results of earlier ones.
#[derive(Debug)]
struct Resolver {
    look_up: fn(IpAddr) -> Option<String>,
    known: HashMap<IpAddr, LookUp>,
    under_way: Arc<AtomicUsize>,
}

/// The last look-up of an address.
#[derive(Debug)]
struct LookUp {
    begun: Instant,
    /// Set by its thread.
    answer: Arc<OnceLock<Option<String>>>,
    /// The result of the look-up before, until this one has one.
    before: Option<String>,
}

impl LookUp {
    /// The name as it is known `now`: none where the limit is over without an answer.
    fn name(&self, now: Instant) -> Option<String> {
        match self.answer.get() {
            Some(answer) => answer.clone(),
            None if now.duration_since(self.begun) < LIMIT => self.before.clone(),
            None => None,
        }
    }
}

impl Resolver {
    fn new(look_up: fn(IpAddr) -> Option<String>) -> Self {
        Self { look_up, known: HashMap::new(), under_way: Arc::default() }
    }

    /// The name of `address` if it is known, and begins a look-up where none is remembered.
    fn name(&mut self, address: IpAddr, now: Instant) -> Option<String> {
        if let Some(known) = self.known.get(&address)
            && now.duration_since(known.begun) < KEPT
        {
            return known.name(now);
        }
        let before = self.known.get(&address).and_then(|known| known.name(now));
        if self.known.len() >= MOST {
            self.known.retain(|_, known| now.duration_since(known.begun) < KEPT);
        }
        if self.known.len() >= MOST || self.under_way.load(Ordering::Acquire) >= AT_ONCE {
            return before;
        }
        let answer = Arc::<OnceLock<Option<String>>>::default();
        let (look_up, under_way, answered) = (self.look_up, Arc::clone(&self.under_way), Arc::clone(&answer));
        under_way.fetch_add(1, Ordering::AcqRel);
        let thread = std::thread::Builder::new().name("name".into()).spawn(move || {
            let name = look_up(address).as_deref().and_then(valid);
            // Only this thread sets it.
            let _ = answered.set(name);
            under_way.fetch_sub(1, Ordering::AcqRel);
        });
        if thread.is_err() {
            self.under_way.fetch_sub(1, Ordering::AcqRel);
        }
        self.known.insert(address, LookUp { begun: now, answer, before: before.clone() });
        before
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::Mutex;
    use std::sync::atomic::AtomicU32;

    fn host(n: u8) -> IpAddr {
        [192, 0, 2, n].into()
    }

    /// Asks until the thread of the look-up has ended.
    fn answered(resolver: &mut Resolver, address: IpAddr, now: Instant) -> Option<String> {
        while resolver.under_way.load(Ordering::Acquire) > 0 {
            std::thread::yield_now();
        }
        resolver.name(address, now)
    }

    #[test]
    fn a_look_up_is_remembered_and_repeated() {
        static ASKED: AtomicU32 = AtomicU32::new(0);
        let mut resolver = Resolver::new(|address| match ASKED.fetch_add(1, Ordering::Relaxed) {
            0 => Some(format!("first-{address}")),
            1 => Some("second".into()),
            _ => None,
        });
        let begin = Instant::now();
        assert_eq!(resolver.name(host(1), begin), None, "nobody waits");
        assert_eq!(answered(&mut resolver, host(1), begin), Some("first-192.0.2.1".into()));
        assert_eq!(resolver.name(host(1), begin + KEPT / 2), Some("first-192.0.2.1".into()));
        assert_eq!(ASKED.load(Ordering::Relaxed), 1);
        // The old name until there is another.
        assert_eq!(resolver.name(host(1), begin + KEPT), Some("first-192.0.2.1".into()));
        assert_eq!(answered(&mut resolver, host(1), begin + KEPT), Some("second".into()));
        resolver.name(host(1), begin + 2 * KEPT);
        assert_eq!(answered(&mut resolver, host(1), begin + 2 * KEPT), None);
        assert_eq!(
            resolver.name(host(1), begin + 2 * KEPT + KEPT / 2),
            None,
            "that there is no name is remembered, too"
        );
        assert_eq!(ASKED.load(Ordering::Relaxed), 3);
    }

    #[test]
    fn a_resolver_that_hangs_holds_four_threads_and_nobody_else() {
        static HANGS: Mutex<()> = Mutex::new(());
        let mut resolver = Resolver::new(|_| {
            drop(HANGS.lock());
            Some("late".into())
        });
        let held = HANGS.lock().unwrap();
        let begin = Instant::now();
        for n in 0..50 {
            assert_eq!(resolver.name(host(n), begin), None);
        }
        assert_eq!((resolver.known.len(), resolver.under_way.load(Ordering::Acquire)), (AT_ONCE, AT_ONCE));
        assert_eq!(resolver.name(host(0), begin + 2 * LIMIT), None, "it counts as an address without a name");
        drop(held);
        assert_eq!(answered(&mut resolver, host(0), begin + 2 * LIMIT), Some("late".into()));
        resolver.name(host(9), begin + 2 * LIMIT);
        assert_eq!(answered(&mut resolver, host(9), begin + 2 * LIMIT), Some("late".into()));
    }
}
