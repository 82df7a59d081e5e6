//! The next class to send: by due time, by priority, and by virtual time of borrowing.

use tidegate_units::Instant;

use crate::tournament::Tournament;

/// The orders of the classes that have a candidate.
#[derive(Clone, Debug)]
pub(super) struct ClassOrder {
    /// All of them, by (due, priority).
    by_due: Tournament<(Instant, u32)>,
    /// Classes not yet found to be due.
    upcoming: Tournament<Instant>,
    /// Classes found to be due, by (priority, due).
    entitled: Tournament<(u32, Instant)>,
    /// Classes that may borrow, by the virtual finish time of what they would borrow.
    borrowers: Tournament<u128>,
}

impl ClassOrder {
    pub fn new(classes: usize) -> Self {
        Self {
            by_due: Tournament::new(classes),
            upcoming: Tournament::new(classes),
            entitled: Tournament::new(classes),
            borrowers: Tournament::new(classes),
        }
    }

    /// Removes class `q`, which has no candidate any more.
    pub fn clear(&mut self, q: u32) {
        self.by_due.set(q, None);
        self.upcoming.set(q, None);
        self.entitled.set(q, None);
        self.borrowers.set(q, None);
    }

    /// Sets the candidate of class `q`, due at `due`; `borrow` is its virtual finish time if it may borrow.
    pub fn set(&mut self, q: u32, due: Instant, priority: u32, borrow: Option<u128>) {
        self.by_due.set(q, Some((due, priority)));
        self.upcoming.set(q, Some(due));
        self.entitled.set(q, None);
        self.borrowers.set(q, borrow);
    }

    /// Moves classes that are due by `now` to the entitled ones.
    pub fn advance(&mut self, now: Instant) {
        while let Some((due, q)) = self.upcoming.peek()
            && due <= now
        {
            self.upcoming.set(q, None);
            let priority = self.by_due.key(q).map_or(0, |key| key.1);
            self.entitled.set(q, Some((priority, due)));
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
