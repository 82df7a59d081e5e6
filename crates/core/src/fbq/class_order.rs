//! The next class to send: by due time, by priority, and by virtual time of borrowing.

use alloc::vec;
use alloc::vec::Vec;

use tidegate_units::Instant;

use crate::heap::{Heap, NOWHERE};

/// The orders of the classes that have a candidate.
#[derive(Clone, Debug)]
pub(super) struct ClassOrder {
    /// All of them, by (due, priority).
    by_due: Heap<(Instant, u32)>,
    by_due_at: Vec<u32>,
    /// Classes not yet found to be due.
    upcoming: Heap<Instant>,
    upcoming_at: Vec<u32>,
    /// Classes found to be due, by (priority, due).
    entitled: Heap<(u32, Instant)>,
    entitled_at: Vec<u32>,
    /// Classes that may borrow, by the virtual finish time of what they would borrow.
    borrowers: Heap<u128>,
    borrower_at: Vec<u32>,
}

impl ClassOrder {
    pub fn new(classes: usize) -> Self {
        let nowhere = vec![NOWHERE; classes];
        Self {
            by_due: Heap::new(),
            by_due_at: nowhere.clone(),
            upcoming: Heap::new(),
            upcoming_at: nowhere.clone(),
            entitled: Heap::new(),
            entitled_at: nowhere.clone(),
            borrowers: Heap::new(),
            borrower_at: nowhere,
        }
    }

    /// Removes class `q`, which has no candidate any more.
    pub fn clear(&mut self, q: u32) {
        let at = q as usize;
        self.by_due.remove(self.by_due_at[at], &mut |id, to| self.by_due_at[id as usize] = to);
        self.upcoming.remove(self.upcoming_at[at], &mut |id, to| self.upcoming_at[id as usize] = to);
        self.entitled.remove(self.entitled_at[at], &mut |id, to| self.entitled_at[id as usize] = to);
        self.borrowers.remove(self.borrower_at[at], &mut |id, to| self.borrower_at[id as usize] = to);
    }

    /// Sets the candidate of class `q`, due at `due`; `borrow` is its virtual finish time if it may borrow.
    pub fn set(&mut self, q: u32, due: Instant, priority: u32, borrow: Option<u128>) {
        let at = q as usize;
        self.entitled.remove(self.entitled_at[at], &mut |id, to| self.entitled_at[id as usize] = to);
        let old = self.by_due_at[at];
        self.by_due.set(old, (due, priority), q, &mut |id, to| self.by_due_at[id as usize] = to);
        let old = self.upcoming_at[at];
        self.upcoming.set(old, due, q, &mut |id, to| self.upcoming_at[id as usize] = to);
        let old = self.borrower_at[at];
        match borrow {
            Some(tag) => self.borrowers.set(old, tag, q, &mut |id, to| self.borrower_at[id as usize] = to),
            None => self.borrowers.remove(old, &mut |id, to| self.borrower_at[id as usize] = to),
        }
    }

    /// Moves classes that are due by `now` to the entitled ones.
    pub fn advance(&mut self, now: Instant) {
        while let Some((due, q)) = self.upcoming.peek()
            && due <= now
        {
            let at = self.upcoming_at[q as usize];
            self.upcoming.remove(at, &mut |id, to| self.upcoming_at[id as usize] = to);
            let priority = self.by_due.key(self.by_due_at[q as usize]).map_or(0, |key| key.1);
            self.entitled.insert((priority, due), q, &mut |id, to| self.entitled_at[id as usize] = to);
        }
    }

    /// The class that is due first.
    pub fn first(&self) -> Option<(Instant, u32)> {
        self.by_due.peek().map(|((due, _), q)| (due, q))
    }
    /// The entitled class of the best priority.
    pub fn best(&self) -> Option<u32> {
        self.entitled.peek().map(|(_, q)| q)
    }
    /// The next borrower and its virtual finish time.
    pub fn borrower(&self) -> Option<(u128, u32)> {
        self.borrowers.peek()
    }
}
