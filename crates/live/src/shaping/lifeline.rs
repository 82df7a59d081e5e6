//! [`Lifeline`]: what lets traffic pass when the data path no longer does, from another thread.
//!
//! A data path can fail in two ways. It *panics*: then it catches that itself, lets go what the kernel holds, and lets
//! pass whatever comes until it is ended. Or it *stalls*: then somebody else must notice, and can: the rules are told
//! to hand nothing more to the queue, and one verdict over the data path's own socket (the kernel takes verdicts from
//! no other) lets go all that waits there, in the order in which it came. Nothing is lost either way.
//!
//! What a dying process leaves to the kernel is less: packets that its queues hold are dropped, those that come later
//! pass by the rules' `bypass`.

use std::io::Write;
use std::os::unix::net::UnixStream;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::Duration;

use tidegate_units::{Instant, Span};

use crate::netlink;
use crate::nfqueue::Releaser;
use crate::rules::Rules;
use crate::timing;

/// How often what waits is let go while the rules change.
const SWEEP: Duration = Duration::from_micros(50);

/// What the data path tells about itself, for whoever looks.
#[derive(Debug, Default)]
pub(super) struct Pulse {
    /// Counts up with each turn.
    pub beats: AtomicU64,
    /// Why it no longer shapes.
    fault: Mutex<Option<String>>,
    /// What somebody should know although it goes on.
    notes: Mutex<Vec<String>>,
    /// Set when it has been given up: it shall end without touching a packet.
    abandoned: AtomicBool,
    /// Its socket, as long as it uses it: a socket that nobody reads must not look as if the queue were served.
    pub releaser: Mutex<Option<Releaser>>,
}

impl Pulse {
    pub fn fail(&self, why: String) {
        lock(&self.fault).get_or_insert(why);
    }
    pub fn note(&self, what: String) {
        lock(&self.notes).push(what);
    }
    pub fn is_abandoned(&self) -> bool {
        self.abandoned.load(Ordering::Relaxed)
    }
}

/// Rules that more than one thread may have to take away.
pub(super) type SharedRules = Arc<Mutex<Option<Rules>>>;

/// A lock whose holder panicked holds what it held: nothing here is left half done.
pub(super) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// A hold on a running [`Shaping`](super::Shaping) from another thread.
#[derive(Debug)]
pub struct Lifeline {
    pub(super) waker: UnixStream,
    pub(super) pulse: Arc<Pulse>,
    pub(super) rules: SharedRules,
}

impl Lifeline {
    /// Counts up with each turn of the data path.
    pub fn beats(&self) -> u64 {
        self.pulse.beats.load(Ordering::Relaxed)
    }

    /// Asks the data path for a turn, which one that lives makes at once.
    pub fn ring(&self) {
        // A full pipe wakes it as well.
        let _ = (&self.waker).write(&[1]);
    }

    /// Why the data path no longer shapes, if it has said so. It lets traffic pass then.
    pub fn fault(&self) -> Option<String> {
        lock(&self.pulse.fault).clone()
    }

    /// What the data path had to say since the last call, although it goes on: that the clock jumped, for instance.
    pub fn notes(&self) -> Vec<String> {
        std::mem::take(&mut *lock(&self.pulse.notes))
    }

    /// Gives the data path up, because of `why`, and lets traffic pass: what is queued first, in its order, then all.
    ///
    /// Nothing is lost. What waits is let go every 50 us while the kernel changes its rules: a packet that comes in
    /// the moment of the change can overtake what came within one such step before it, and no more.
    ///
    /// # Errors
    /// When the kernel refuses the rules; what is queued has been let go nevertheless.
    pub fn let_pass(&self, why: &str) -> Result<(), netlink::Error> {
        self.pulse.fail(why.into());
        self.pulse.abandoned.store(true, Ordering::Relaxed);
        let releaser = lock(&self.pulse.releaser);
        let release = || releaser.as_ref().map_or(Ok(()), Releaser::accept_all);
        let changed = AtomicBool::new(false);
        let bypassed = thread::scope(|scope| {
            // Without this thread the same happens, with more to overtake.
            let _ = thread::Builder::new().name("tidegate-release".into()).spawn_scoped(scope, || {
                while release().is_ok() && !changed.load(Ordering::Relaxed) {
                    thread::sleep(SWEEP);
                }
            });
            let bypassed = lock(&self.rules).as_mut().map_or(Ok(()), Rules::bypass);
            changed.store(true, Ordering::Relaxed);
            bypassed
        });
        // Now that nothing is added.
        bypassed.and(release())
    }
}

/// Something to go wrong in the data path, to see that traffic passes all the same.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Injection {
    /// How long after the start, and then as soon as a packet waits.
    pub after: Span,
    /// The fault to inject.
    pub fault: Fault,
}

/// What goes wrong.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Fault {
    /// The thread does nothing for so long.
    Stall(Span),
    /// The discipline panics while packets wait in it.
    Panic,
    /// The clock jumps forward.
    Forward(Span),
    /// The clock jumps back.
    Back(Span),
    /// The system refuses memory.
    Memory,
}

impl Injection {
    /// Reads `KIND:AFTER[:LENGTH]`: `stall:1s:3s`, `panic:1s`, `forward:1s:5s`, `back:1s:5s`, `memory:1s`.
    ///
    /// # Errors
    /// What is expected instead.
    pub fn parse(text: &str) -> Result<Self, String> {
        let usage =
            || "expected stall:AFTER:TIME, panic:AFTER, forward:AFTER:TIME, back:AFTER:TIME or memory:AFTER".to_owned();
        let mut parts = text.split(':');
        let kind = parts.next().unwrap_or_default();
        let mut span = || parts.next().and_then(|part| part.parse::<Span>().ok()).ok_or_else(usage);
        let after = span()?;
        let fault = match kind {
            "stall" => Fault::Stall(span()?),
            "panic" => Fault::Panic,
            "forward" => Fault::Forward(span()?),
            "back" => Fault::Back(span()?),
            "memory" => Fault::Memory,
            _ => return Err(usage()),
        };
        Ok(Self { after, fault })
    }
}

/// The clock of the data path: never back, and jumps are told.
///
/// *Law*: its time never decreases. When the system's clock goes back, its time goes on from where it was; when that
/// jumps forward its time jumps too, and shapers cap what they have saved up meanwhile by their buckets.
#[derive(Debug)]
pub(super) struct Steady {
    last: Instant,
    /// What is added to the system's clock, because that went back.
    ahead: Span,
    /// What an injected fault adds or takes.
    injected: (Span, Span),
    pulse: Arc<Pulse>,
}

/// A turn later than this was kept from running: a thread sleeps for a second at the most.
const GAP: Span = Span::from_secs(3);

impl Steady {
    pub fn new(pulse: Arc<Pulse>) -> Self {
        Self { last: timing::now(), ahead: Span::ZERO, injected: (Span::ZERO, Span::ZERO), pulse }
    }

    pub fn now(&mut self) -> Instant {
        let (forward, back) = self.injected;
        let system = Instant::from_nanos((timing::now() + forward).as_nanos().saturating_sub(back.as_nanos()));
        let mut now = system + self.ahead;
        if now < self.last {
            let lost = self.last.since(now);
            self.ahead += lost;
            now = self.last;
            self.pulse.note(format!("the clock went back by {lost}; shaping goes on as if it had not"));
        } else if now.since(self.last) > GAP {
            self.pulse.note(format!(
                "no time was given to the data path for {}: the machine slept, or the clock jumped; what was saved up \
                 meanwhile is no more than the buckets hold",
                now.since(self.last)
            ));
        }
        self.last = now;
        now
    }

    /// When that is by the system's clock.
    pub fn by_the_system(&self, time: Instant) -> Instant {
        let (forward, back) = self.injected;
        let added = (self.ahead + forward).as_nanos();
        Instant::from_nanos((time + back).as_nanos().saturating_sub(added))
    }

    pub fn inject(&mut self, forward: Span, back: Span) {
        self.injected = (forward, back);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn time_goes_on_when_the_clock_goes_back_and_says_so() {
        let pulse = Arc::new(Pulse::default());
        let mut steady = Steady::new(Arc::clone(&pulse));
        let (began, before) = (timing::now(), steady.now());
        steady.inject(Span::ZERO, Span::from_secs(5));
        let after = steady.now();
        // It stands for the moment in which that is found out, and goes on at once.
        let took = timing::now().since(began);
        assert!(after >= before && after.since(before) <= took, "{before:?} {after:?}");
        thread::sleep(Duration::from_millis(20));
        assert!(steady.now().since(after) >= Span::from_millis(20));
        let notes = std::mem::take(&mut *lock(&pulse.notes));
        assert!(notes.len() == 1 && notes[0].contains("went back by"), "{notes:?}");
        // A deadline 1 s from now is 1 s from now by the system's clock, too, whatever was added.
        let began = timing::now();
        let deadline = steady.now() + Span::from_secs(1);
        let deadline = steady.by_the_system(deadline);
        let (early, late) = (began + Span::from_secs(1), timing::now() + Span::from_secs(1));
        assert!((early..=late).contains(&deadline), "{deadline:?}");
    }

    #[test]
    fn a_jump_forward_is_told() {
        let pulse = Arc::new(Pulse::default());
        let mut steady = Steady::new(Arc::clone(&pulse));
        steady.inject(Span::from_secs(10), Span::ZERO);
        steady.now();
        assert!(lock(&pulse.notes)[0].contains("the machine slept"));
    }

    #[test]
    fn injections_are_read_and_nonsense_is_refused() {
        let read = Injection::parse("stall:1s:300ms").unwrap();
        assert_eq!((read.after, read.fault), (Span::from_secs(1), Fault::Stall(Span::from_millis(300))));
        for wrong in ["", "stall", "stall:1s", "panic:soon", "fire:1s"] {
            assert!(Injection::parse(wrong).is_err(), "{wrong}");
        }
    }
}
