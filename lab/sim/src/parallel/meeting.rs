//! [`Meeting`]: where the threads of a divided run exchange what crosses between their regions, window by window.

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Condvar, Mutex, PoisonError, RwLock};

use super::order::Log;
use super::share::Share;
use crate::packet::SimPacket;

/// A packet that leaves a region.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Message {
    /// The link at whose end it arrives.
    pub link: u32,
    pub arrival: u64,
    /// The event that put it on the line, as a position in the log, and the position among what that event scheduled.
    pub entry: u32,
    pub index: u32,
    pub packet: SimPacket,
}

/// What a region tells the others after a window.
#[derive(Debug, Default)]
pub(crate) struct Letter {
    pub log: Log,
    pub messages: Vec<Message>,
    /// A time before which no event of the region is due.
    pub earliest: u64,
    /// Whether the run cannot go on divided, or is to end early.
    pub diverged: bool,
    pub stopped: bool,
}

impl Letter {
    pub fn clear(&mut self) {
        self.log.clear();
        self.messages.clear();
    }
}

/// So many times a waiting thread looks before it sleeps: tens of microseconds, which most windows are shorter than.
const LOOKS: u32 = 1_000;

/// The place where regions exchange letters. Those of two successive windows are apart, so that one wait for each window is enough.
pub(crate) struct Meeting {
    letters: [Vec<RwLock<Letter>>; 2],
    arrived: AtomicUsize,
    round: AtomicUsize,
    /// Whether a thread has ended before the run did.
    broken: AtomicBool,
    /// The threads that sleep, or are about to. The lock makes sure that none is between looking and sleeping.
    sleeping: AtomicUsize,
    bed: Mutex<()>,
    woken: Condvar,
    pub shares: Mutex<Vec<Share>>,
}

impl Meeting {
    pub fn new(regions: usize) -> Self {
        let letters = || (0..regions).map(|_| RwLock::default()).collect();
        Self {
            letters: [letters(), letters()],
            arrived: AtomicUsize::new(0),
            round: AtomicUsize::new(0),
            broken: AtomicBool::new(false),
            sleeping: AtomicUsize::new(0),
            bed: Mutex::new(()),
            woken: Condvar::new(),
            shares: Mutex::default(),
        }
    }

    /// Publishes `letter` as that of window `window` from `region`, waits for the others, and calls `read` with the letters of all
    /// `regions`. `letter` is empty afterwards.
    pub fn exchange<T>(
        &self,
        window: u64,
        (region, regions): (usize, usize),
        letter: &mut Letter,
        read: impl FnOnce(&[&Letter]) -> T,
    ) -> T {
        let letters = &self.letters[(window % 2) as usize][..regions];
        std::mem::swap(letter, &mut letters[region].write().unwrap_or_else(PoisonError::into_inner));
        letter.clear();
        self.wait(regions);
        let guards: Vec<_> = letters.iter().map(|at| at.read().unwrap_or_else(PoisonError::into_inner)).collect();
        let all: Vec<&Letter> = guards.iter().map(|guard| &**guard).collect();
        read(&all)
    }

    /// Waits until all regions are here.
    ///
    /// # Panics
    /// If the thread of another region has panicked.
    pub fn wait(&self, regions: usize) {
        let round = self.round.load(Ordering::Acquire);
        if self.arrived.fetch_add(1, Ordering::AcqRel) + 1 == regions {
            self.arrived.store(0, Ordering::Relaxed);
            self.round.store(round.wrapping_add(1), Ordering::SeqCst);
            self.wake();
            return;
        }
        let over = || self.round.load(Ordering::SeqCst) != round || self.broken.load(Ordering::SeqCst);
        for _ in 0..LOOKS {
            if over() {
                return self.check();
            }
            std::hint::spin_loop();
        }
        let mut guard = self.bed.lock().unwrap_or_else(PoisonError::into_inner);
        self.sleeping.fetch_add(1, Ordering::SeqCst);
        while !over() {
            guard = self.woken.wait(guard).unwrap_or_else(PoisonError::into_inner);
        }
        self.sleeping.fetch_sub(1, Ordering::SeqCst);
        drop(guard);
        self.check();
    }

    /// Wakes those that sleep. A thread that is about to sleep has said so before it looked for the last time.
    fn wake(&self) {
        if self.sleeping.load(Ordering::SeqCst) > 0 {
            drop(self.bed.lock().unwrap_or_else(PoisonError::into_inner));
            self.woken.notify_all();
        }
    }

    fn check(&self) {
        assert!(!self.broken.load(Ordering::Acquire), "the thread of another region has panicked");
    }
}

/// Tells the other threads if this one ends early, so that they do not wait for it.
pub(crate) struct Attendance<'a> {
    meeting: &'a Meeting,
    over: bool,
}

impl<'a> Attendance<'a> {
    pub fn new(meeting: &'a Meeting) -> Self {
        Self { meeting, over: false }
    }
    pub fn end(mut self) {
        self.over = true;
    }
}

impl Drop for Attendance<'_> {
    fn drop(&mut self) {
        if !self.over {
            self.meeting.broken.store(true, Ordering::SeqCst);
            self.meeting.wake();
        }
    }
}
