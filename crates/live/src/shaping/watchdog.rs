//! [`WatchdogHandle`]: abandons a data path that no longer works, and lets traffic pass in its place.
//!
//! A data path can fail in two ways. If it *panics*, or its socket fails, it notices this itself. If it *stalls*, the thread of the
//! watchdog notices. Both do the same (`let_pass`): they abandon the data path, which from then on touches no packet, and let the
//! queued packets and all later ones pass. With a [guardian](crate::guardian) they only tell it to. Without one they send
//! messages over the data path's own socket, since the kernel accepts verdicts from no other, which release all queued packets
//! in order and end queueing. No packet is lost in either case. The owner of the data path starts another one.
//!
//! [`guardian`](crate::guardian) lists which mechanism covers which fault.

use std::sync::atomic::{AtomicBool, AtomicI32, Ordering};
use std::sync::{Arc, Mutex};

use tidegate_engine::guard::lock;
use tidegate_units::{Instant, Span};

use crate::guardian::{Page, Reason};
use crate::netlink;
use crate::nfqueue::Releaser;
use crate::timing::{self, Scheduled};

/// The state of the worker that other threads read.
#[derive(Debug)]
pub(super) struct WorkerState {
    /// Its turns, and whether it or the guardian receives packets.
    pub page: Arc<Page>,
    /// The number of its thread; 0 before that runs.
    thread: AtomicI32,
    /// Whether there is a guardian, which lets packets pass in the place of the worker.
    pub guarded: AtomicBool,
    /// Why the worker no longer shapes.
    fault: Mutex<Option<String>>,
    /// Conditions to report although shaping continues.
    notes: Mutex<Vec<String>>,
    /// Whether the worker may receive packets, and ask the guardian of an earlier data path for the turn.
    begun: AtomicBool,
    /// Set when the worker has been abandoned: it must end without touching a packet.
    abandoned: AtomicBool,
    /// The queue socket while the worker reads it. An unread socket must not make the queue appear to be served.
    pub releaser: Mutex<Option<Releaser>>,
}

impl WorkerState {
    /// The state of a worker that has `begun`, or that waits for [`begin`](Self::begin).
    pub fn new(page: Arc<Page>, begun: bool) -> Self {
        Self {
            page,
            thread: AtomicI32::new(0),
            guarded: AtomicBool::new(false),
            fault: Mutex::default(),
            notes: Mutex::default(),
            begun: AtomicBool::new(begun),
            abandoned: AtomicBool::new(false),
            releaser: Mutex::default(),
        }
    }
    /// Notes that the worker is the calling thread.
    pub fn set_thread(&self) {
        self.thread.store(timing::thread_id(), Ordering::Relaxed);
    }
    /// Has the worker receive packets. Wake it afterwards.
    pub fn begin(&self) {
        self.begun.store(true, Ordering::Release);
    }
    pub fn has_begun(&self) -> bool {
        self.begun.load(Ordering::Acquire)
    }
    /// Makes the worker end without touching a packet.
    pub fn abandon(&self) {
        self.abandoned.store(true, Ordering::Relaxed);
    }
    fn fail(&self, why: String) {
        lock(&self.fault).get_or_insert(why);
    }
    pub fn note(&self, what: String) {
        lock(&self.notes).push(what);
    }
    /// See [`WatchdogHandle::let_pass`].
    pub fn let_pass(&self, why: &str) -> Result<(), netlink::Error> {
        self.fail(why.into());
        self.abandon();
        if self.guarded.load(Ordering::Relaxed) {
            self.page.take(Reason::Asked);
            return Ok(());
        }
        self.close()
    }
    pub fn is_abandoned(&self) -> bool {
        self.abandoned.load(Ordering::Relaxed)
    }
    /// Accepts what the kernel has queued; nothing once the queue is not read any more.
    pub fn accept_all(&self) -> Result<(), netlink::Error> {
        lock(&self.releaser).as_ref().map_or(Ok(()), |releaser| releaser.accept_all(self.page.received()))
    }
    /// Ends queueing; nothing once the queue is not read any more.
    pub fn close(&self) -> Result<(), netlink::Error> {
        lock(&self.releaser).as_ref().map_or(Ok(()), |releaser| releaser.close(self.page.received()))
    }
}

/// A handle of a running [`Shaping`](super::Shaping) for the watchdog's thread.
#[derive(Debug)]
pub struct WatchdogHandle {
    /// For each thread.
    pub(super) states: Vec<Arc<WorkerState>>,
}

impl WatchdogHandle {
    /// The number of turns of each thread of the data path so far.
    pub fn beats(&self) -> Vec<u64> {
        self.states.iter().map(|state| state.page.beats()).collect()
    }

    /// How long thread `nth` of the data path has run and has waited for a processor; nothing where that is not known.
    pub fn scheduled(&self, nth: usize) -> Option<Scheduled> {
        Scheduled::of(self.states.get(nth)?.thread.load(Ordering::Relaxed))
    }

    /// Why the data path no longer shapes, if it has reported a fault. It lets traffic pass then.
    pub fn fault(&self) -> Option<String> {
        self.states.iter().find_map(|state| lock(&state.fault).clone())
    }

    /// Conditions that the data path has reported since the last call although it continues, such as a clock jump.
    pub fn notes(&self) -> Vec<String> {
        let mut notes: Vec<String> = Vec::new();
        for note in self.states.iter().flat_map(|state| std::mem::take(&mut *lock(&state.notes))) {
            // An event of all threads at once is one line.
            if !notes.contains(&note) {
                notes.push(note);
            }
        }
        notes
    }

    /// Abandons the data path because of `why`, all its threads, and lets traffic pass: queued packets first, in order, then
    /// all. The guardian does that where there is one; otherwise queueing ends here. No packet is lost.
    ///
    /// # Errors
    /// When the system call fails.
    pub fn let_pass(&self, why: &str) -> Result<(), netlink::Error> {
        let mut result = Ok(());
        for state in &self.states {
            result = result.and(state.let_pass(why));
        }
        result
    }
}

/// The clock of the data path: monotonic, and jumps are reported.
///
/// *Law*: its time never decreases. When the system's clock goes back, its time continues from where it was; when the
/// system's clock jumps forward, its time jumps too, and token buckets bound the burst that follows.
#[derive(Debug)]
pub(super) struct MonotonicClock {
    last: Instant,
    /// Added to the system's clock, to make up for steps back.
    ahead: Span,
    #[cfg(debug_assertions)]
    step: super::injection::Step,
    state: Arc<WorkerState>,
}

/// A longer time between two turns is a jump or a suspension: a thread sleeps for at most a second.
const GAP: Span = Span::from_secs(3);

impl MonotonicClock {
    /// A clock that is read for the first time when the system's has the time `system`.
    pub fn new(state: Arc<WorkerState>, system: Instant) -> Self {
        Self {
            last: system,
            ahead: Span::ZERO,
            #[cfg(debug_assertions)]
            step: super::injection::Step::default(),
            state,
        }
    }

    /// The time when the system's clock has the time `system`.
    pub fn now(&mut self, system: Instant) -> Instant {
        #[cfg(debug_assertions)]
        let system = self.step.add(system);
        let mut now = system + self.ahead;
        if now < self.last {
            let lost = self.last.since(now);
            self.ahead += lost;
            now = self.last;
            self.state.note(format!("the clock went back by {lost}; shaping goes on as if it had not"));
        } else if now.since(self.last) > GAP {
            self.state.note(format!(
                "no time was given to the data path for {:.2} s: the process was stopped, the machine slept, or the clock \
                 jumped; what was saved up meanwhile is no more than the buckets hold",
                now.since(self.last).as_secs_f64()
            ));
        }
        self.last = now;
        now
    }

    /// Converts a time of this clock to the system's clock.
    pub fn to_system_time(&self, time: Instant) -> Instant {
        let system = Instant::from_nanos(time.as_nanos().saturating_sub(self.ahead.as_nanos()));
        #[cfg(debug_assertions)]
        let system = self.step.subtract(system);
        system
    }

    /// Has the system's clock make a step.
    #[cfg(debug_assertions)]
    pub fn inject(&mut self, step: super::injection::Step) {
        self.step = step;
    }
}

#[cfg(all(test, debug_assertions))]
mod tests {
    use std::thread;
    use std::time::Duration;

    use super::super::injection::Step;
    use super::*;

    #[test]
    fn what_all_threads_note_at_once_is_one_note() {
        let state = || Arc::new(WorkerState::new(Arc::new(Page::create().unwrap()), true));
        let handle = WatchdogHandle { states: vec![state(), state()] };
        for state in &handle.states {
            state.note("the guardian has let packets pass".into());
        }
        handle.states[1].note("took over 3 packets that waited".into());
        assert_eq!(handle.notes(), ["the guardian has let packets pass", "took over 3 packets that waited"]);
        assert!(handle.notes().is_empty());
    }

    #[test]
    fn time_continues_when_the_clock_goes_back_and_this_is_reported() {
        let state = Arc::new(WorkerState::new(Arc::new(Page::create().unwrap()), true));
        let mut steady = MonotonicClock::new(Arc::clone(&state), timing::now());
        let now = |steady: &mut MonotonicClock| steady.now(timing::now());
        let (began, before) = (timing::now(), now(&mut steady));
        steady.inject(Step { forward: Span::ZERO, back: Span::from_secs(5) });
        let after = now(&mut steady);
        // The clock stops only until the step is detected.
        let took = timing::now().since(began);
        assert!(after >= before && after.since(before) <= took, "{before:?} {after:?}");
        thread::sleep(Duration::from_millis(20));
        assert!(now(&mut steady).since(after) >= Span::from_millis(20));
        let notes = std::mem::take(&mut *lock(&state.notes));
        assert!(notes.len() == 1 && notes[0].contains("went back by"), "{notes:?}");
        // A deadline 1 s from now is 1 s from now by the system's clock, too, with any correction.
        let began = timing::now();
        let deadline = now(&mut steady) + Span::from_secs(1);
        let deadline = steady.to_system_time(deadline);
        let (early, late) = (began + Span::from_secs(1), timing::now() + Span::from_secs(1));
        assert!((early..=late).contains(&deadline), "{deadline:?}");
    }

    #[test]
    fn a_jump_forward_is_reported() {
        let state = Arc::new(WorkerState::new(Arc::new(Page::create().unwrap()), true));
        let mut steady = MonotonicClock::new(Arc::clone(&state), timing::now());
        steady.inject(Step { forward: Span::from_secs(10), back: Span::ZERO });
        steady.now(timing::now());
        assert!(lock(&state.notes)[0].contains("the machine slept"));
    }
}
