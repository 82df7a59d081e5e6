//! The next class to send: by due time, by priority, and by virtual time of borrowing.

use tidegate_units::{Bytes, Instant};

use super::class::Class;
use super::deciders::{self, by_due, by_priority};
use crate::tournament::Tournament;

/// The orders of the classes that have a candidate.
#[derive(Clone, Debug)]
pub(super) struct ClassOrder {
    /// Classes not yet found to be due, by (due, priority).
    upcoming: Tournament,
    /// Classes found to be due, by (due, priority).
    entitled: Tournament,
    /// The classes by (priority, due).
    preferred: Tournament,
    /// Classes that may borrow, by the virtual finish time of what they would borrow.
    borrowers: Tournament,
    /// Classes that may borrow once a ceiling allows it, by the time at which it does.
    held: Tournament,
    /// Whether some class is in an order beside `upcoming`.
    has_others: bool,
    /// No class has a better priority.
    best_priority: u32,
}

#[inline]
fn due_of(key: u128) -> Instant {
    Instant::from_nanos((key >> 32) as u64)
}
#[inline]
fn priority_of(key: u128) -> u32 {
    key as u32
}

impl ClassOrder {
    /// Without candidates, of classes with these priorities.
    pub fn new(priorities: impl ExactSizeIterator<Item = u32>) -> Self {
        let none = Tournament::new(priorities.len());
        let best_priority = priorities.min().unwrap_or(0);
        Self {
            upcoming: none.clone(),
            entitled: none.clone(),
            preferred: none.clone(),
            borrowers: none.clone(),
            held: none,
            has_others: false,
            best_priority,
        }
    }

    /// Some class may get this priority.
    pub fn allow(&mut self, priority: u32) {
        self.best_priority = self.best_priority.min(priority);
    }

    /// Removes class `q`, which has no candidate any more.
    #[inline(always)]
    pub fn clear(&mut self, q: u32) {
        self.upcoming.set(q, None);
        if self.has_others {
            self.set_others(q, None, None);
        }
    }

    /// Sets the candidate of class `q`, due at `due`; `borrow` is its virtual finish time if it may borrow, and `held` the time
    /// until which it waits for a ceiling if it may borrow then.
    #[inline(always)]
    pub fn set(&mut self, q: u32, due: Instant, priority: u32, borrow: Option<u128>, held: Option<Instant>) {
        self.upcoming.set(q, Some(by_due(due, priority)));
        if self.has_others || borrow.is_some() || held.is_some() {
            self.set_others(q, borrow, held);
        }
    }
    #[inline(never)]
    fn set_others(&mut self, q: u32, borrow: Option<u128>, held: Option<Instant>) {
        if !self.entitled.is_empty() {
            self.entitled.set(q, None);
            self.preferred.set(q, None);
        }
        if borrow.is_some() || !self.borrowers.is_empty() {
            self.borrowers.set(q, borrow);
        }
        if held.is_some() || !self.held.is_empty() {
            self.held.set(q, held.map(|until| by_due(until, q)));
        }
        self.has_others = !(self.entitled.is_empty() && self.borrowers.is_empty() && self.held.is_empty());
    }
    /// The class that may borrow again first, and when.
    #[inline(always)]
    pub fn first_held(&self) -> Option<(Instant, u32)> {
        if !self.has_others {
            return None;
        }
        self.held.peek().map(|(key, q)| (due_of(key), q))
    }
    /// Class `q` no longer waits for a ceiling, and may borrow by its virtual finish time.
    pub fn release(&mut self, q: u32, finish: u128) {
        self.held.set(q, None);
        self.borrowers.set(q, Some(finish));
    }
    /// Whether class `q`, which may borrow, waits for a ceiling.
    #[inline(always)]
    pub fn is_waiting(&self, q: u32) -> bool {
        self.has_others && !self.held.is_empty() && self.held.has(q)
    }
    /// Whether all classes that may borrow wait for a ceiling.
    pub fn is_held(&self) -> bool {
        self.borrowers.is_empty()
    }
    /// The class that is due first, and whether none has a better priority.
    #[inline(always)]
    pub fn first(&self) -> Option<(Instant, u32, bool)> {
        let (key, q) = self.peek()?;
        Some((due_of(key), q, priority_of(key) == self.best_priority))
    }
    /// The class that is due first with its key of (due, priority).
    #[inline(always)]
    fn peek(&self) -> Option<(u128, u32)> {
        let upcoming = self.upcoming.peek();
        if self.has_others { upcoming.into_iter().chain(self.entitled.peek()).min() } else { upcoming }
    }
    /// The class of the best priority that is due at `now`, or was found to be due before; some class is. It is to be
    /// `set` or `clear`ed next, or another one that is due.
    #[inline(never)]
    pub fn best(&mut self, now: Instant) -> Option<u32> {
        // Of the classes with the best priority it is the one that is due first. And mostly one class is due at a time. It
        // leaves this order at once, so that it need not change its place.
        let (_, first, is_best) = self.first()?;
        if is_best || self.entitled.is_empty() && self.upcoming.second().is_none_or(|key| due_of(key) > now) {
            return Some(first);
        }
        while let Some((key, q)) = self.upcoming.peek()
            && due_of(key) <= now
        {
            self.upcoming.set(q, None);
            self.entitled.set(q, Some(key));
            self.preferred.set(q, Some(by_priority(key)));
            self.has_others = true;
        }
        self.preferred.peek().map(|(_, q)| q)
    }
    /// The next borrower: the first of those that wait for no ceiling, or else the one that no longer does first.
    #[inline(always)]
    pub fn borrower(&self) -> Option<u32> {
        if !self.has_others {
            return None;
        }
        self.borrowers.peek().or_else(|| self.held.peek()).map(|(_, q)| q)
    }
}

impl Class {
    /// `bytes` in the virtual time of borrowing, in which classes are weighted by their rates.
    pub fn borrow_length(&mut self, bytes: Bytes) -> u128 {
        let rate = self.params.rate;
        // Packets that follow each other mostly have one size, and a division of 128 bits costs more than the comparison.
        if (self.borrow.0, self.borrow.1) != (bytes, rate) {
            self.borrow = (bytes, rate, deciders::borrow_length(bytes, rate));
        }
        self.borrow.2
    }
}
