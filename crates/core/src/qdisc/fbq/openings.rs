//! When a class may send, and which one does: the order of the classes against the total bucket.

use super::fbc::Fbc;
use crate::packet::Packet;
use tidegate_units::Instant;

/// When the class that is due first may leave, and when the next borrower may; [`Instant::MAX`] for never.
#[derive(Clone, Copy, Debug)]
pub(super) struct Openings {
    pub own: Instant,
    pub borrowed: Instant,
    first: u32,
    /// Whether no class has a better priority than the first.
    is_best: bool,
    borrower: u32,
}

impl Openings {
    /// No class may send.
    pub const NEVER: Self = Self { own: Instant::MAX, borrowed: Instant::MAX, first: 0, is_best: true, borrower: 0 };
}

impl<P: Packet> Fbc<P> {
    /// When the total bucket has credit for the candidate of class `q`, not before `from`.
    #[inline]
    fn root_time(&self, q: u32, from: Instant) -> Option<Instant> {
        let size = self.classes[q].candidate?.size;
        self.root.time_for(from, size)
    }

    /// Finds out when a class may send next: to be called after the order of the classes or the total bucket has changed.
    #[inline(always)]
    pub(super) fn find_openings(&mut self) {
        let (mut due, mut first, mut is_best) = self.class_order.first().unwrap_or((Instant::MAX, 0, true));
        if let Some(lending) = &self.lending {
            (due, first) = lending.earlier(due, first);
            is_best = false;
        }
        let mut found = Openings { own: Instant::MAX, borrowed: Instant::MAX, first, is_best, borrower: 0 };
        if due < Instant::MAX {
            found.own = self.root_time(first, due).unwrap_or(Instant::MAX);
        }
        // A class that is entitled by then precedes a borrower.
        if let Some(q) = self.class_order.borrower()
            && let Some(time) = self.borrowing_time(q).filter(|&time| time < due)
        {
            (found.borrowed, found.borrower) = (time, q);
        }
        self.openings = found;
    }

    /// When class `q` may borrow.
    #[inline(never)]
    fn borrowing_time(&self, q: u32) -> Option<Instant> {
        let candidate = self.classes[q].candidate?;
        let from = candidate.ready.max(self.flows[candidate.flow].since);
        let time = self.root_time(q, from)?;
        Some(self.shard.as_ref().map_or(time, |shard| time.max(shard.spare_from())))
    }

    /// The class that sends at `now`, the time as of which it is charged, and whether it borrows.
    #[inline]
    pub(super) fn pick(&mut self, now: Instant) -> Option<(u32, Instant, bool)> {
        let earliest = now.saturating_sub(self.params.catch_up);
        let Openings { own: time, first, is_best, borrowed, borrower: q } = self.openings;
        if time <= now && time < Instant::MAX {
            // By the time at which the total has credit for the first class, others may be due; the one of the best
            // priority sends if the total has credit for it too. A class that became due after that time is served
            // later, also when this call is late; otherwise classes of high priority would gain from the lateness of
            // the caller.
            let best = if is_best {
                Some(first)
            } else if self.lending.is_some() {
                self.best_of_both(time, first)
            } else {
                self.class_order.best(time).filter(|&q| q == first || self.has_credit(q, time))
            };
            return Some((best.unwrap_or(first), time.max(earliest), false));
        }
        if borrowed > now || borrowed == Instant::MAX {
            return None;
        }
        let size = self.classes[q].candidate?.size;
        // Spare credit was asked for in vain: the deadline is the time to ask again.
        if self.shard.as_ref().is_some_and(|shard| !shard.may_borrow(size)) {
            return None;
        }
        Some((q, borrowed.max(earliest), true))
    }

    /// Whether the total has credit for the candidate of class `q` by `time`.
    fn has_credit(&self, q: u32, time: Instant) -> bool {
        let due = self.classes[q].candidate.map(|candidate| candidate.due);
        let due = match &self.lending {
            Some(lending) if lending.is_of(q) => due.map(|due| lending.instant(due)),
            _ => due,
        };
        due.and_then(|due| self.root_time(q, due)).is_some_and(|affordable| affordable <= time)
    }

    /// The class of the best priority among those that are due at `time`, of which `first` is one; some of them count in
    /// another time.
    #[inline(never)]
    fn best_of_both(&mut self, time: Instant, first: u32) -> Option<u32> {
        let own = self.class_order.first().is_some_and(|(due, ..)| due <= time);
        let own = if own { self.class_order.best(time) } else { None };
        let strict = self.lending.as_mut().and_then(|lending| lending.best(time));
        let able = own.into_iter().chain(strict).filter(|&q| q == first || self.has_credit(q, time));
        able.min_by_key(|&q| (self.classes[q].params.priority, q != first))
    }
}
