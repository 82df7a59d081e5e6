//! [`Shard`]: the place of a shaper among several that have their credit in common.

use alloc::sync::Arc;
use core::fmt;
use core::iter::repeat_n;

use tidegate_units::{Bytes, Instant, Rate};

use super::class::Class;
use super::params::Borrow;
use crate::packet::ClassId;
use crate::pool::{PoolAccess, Reply, Request, Stake};
use crate::slab::Slab;

/// Credit that was taken and not used yet.
#[derive(Clone, Copy, Debug)]
struct Held {
    left: Bytes,
    /// When the last slice of it may be used, or is to be asked for again.
    from: Instant,
    /// Whether the pool counts a claim of this shard.
    claimed: bool,
}

const NOTHING: Held = Held { left: Bytes::ZERO, from: Instant::ZERO, claimed: false };

/// See the [module](self).
#[derive(Clone)]
pub(super) struct Shard {
    pool: Arc<dyn PoolAccess>,
    number: u32,
    classes: Slab<u32, Held>,
    /// The part of its rate that this shard had last, of each class that may borrow and has a queue.
    parts: Slab<u32, Rate>,
    /// The sum of these, by which spare credit is shared.
    borrowing: Rate,
    spare: Held,
}

impl Shard {
    pub fn new(pool: Arc<dyn PoolAccess>, number: u32, classes: u32) -> Self {
        let parts = repeat_n(Rate::ZERO, classes as usize).collect();
        let classes = repeat_n(NOTHING, classes as usize).collect();
        Self { pool, number, classes, parts, borrowing: Rate::ZERO, spare: NOTHING }
    }

    /// To be called after the candidate of class `q` changed: takes credit for it, and delays it until that may be used.
    pub fn provide(&mut self, now: Instant, q: u32, class: &mut Class) {
        let held = &mut self.classes[q];
        let id = Some(ClassId(q));
        let weight = class.fair_hosts().map_or(class.queued, |hosts| hosts.queued);
        let Some(candidate) = &mut class.candidate else {
            if held.claimed {
                self.pool.give_back(now, self.number, id, held.left);
                *held = NOTHING;
                self.weigh(q, Rate::ZERO);
            }
            return;
        };
        if held.left < candidate.size && candidate.due < Instant::MAX {
            held.claimed = true;
            let request = Request {
                shard: self.number,
                class: id,
                need: candidate.size.saturating_sub(held.left),
                wish: class.backlog.bytes.saturating_sub(held.left),
                stake: Stake { weight, minimum: class.queued_minimum },
            };
            match self.pool.take(now, &request) {
                Reply::Granted(slice) => {
                    held.left += slice.bytes;
                    held.from = slice.from;
                    if class.params.borrow == Borrow::FromOthers {
                        self.weigh(q, slice.part);
                    }
                }
                Reply::Later(at) => held.from = at,
                Reply::Never => held.from = Instant::MAX,
            }
        }
        candidate.due = candidate.due.max(self.classes[q].from);
    }

    fn weigh(&mut self, q: u32, part: Rate) {
        let known = core::mem::replace(&mut self.parts[q], part);
        self.borrowing = self.borrowing.saturating_sub(known) + part;
    }

    /// To be called after the order of the classes changed: takes spare credit for the candidate of the class that borrows
    /// first, or returns it where none does.
    pub fn provide_spare(&mut self, now: Instant, borrower: Option<&Class>) {
        let candidate = borrower.and_then(|class| Some((class.candidate?.size, class.backlog.bytes)));
        let Some((size, backlog)) = candidate else {
            if self.spare.claimed {
                self.pool.give_back(now, self.number, None, self.spare.left);
                self.spare = NOTHING;
            }
            return;
        };
        if self.spare.left >= size || self.spare.claimed && self.spare.from > now {
            return;
        }
        self.spare.claimed = true;
        let request = Request {
            shard: self.number,
            class: None,
            need: size.saturating_sub(self.spare.left),
            wish: backlog.saturating_sub(self.spare.left),
            // A class without a rate borrows as if it had some.
            stake: Stake { weight: self.borrowing.as_bps().max(1_000), minimum: Rate::ZERO },
        };
        match self.pool.take(now, &request) {
            Reply::Granted(slice) => {
                self.spare.left += slice.bytes;
                self.spare.from = slice.from;
            }
            Reply::Later(at) => self.spare.from = at,
            Reply::Never => self.spare.from = Instant::MAX,
        }
    }

    /// When `size` may be borrowed, or spare credit is to be asked for again.
    pub fn spare_from(&self) -> Instant {
        self.spare.from
    }
    /// Whether it holds spare credit for `size`.
    pub fn may_borrow(&self, size: Bytes) -> bool {
        self.spare.left >= size
    }

    /// Counts what was sent by class `q`, or with spare credit.
    pub fn sent(&mut self, q: u32, borrowed: bool, size: Bytes) {
        let held = if borrowed { &mut self.spare } else { &mut self.classes[q] };
        held.left = held.left.saturating_sub(size);
    }

    /// Asks for a minimum in class `q`, beside those of all shards; returns whether it is granted.
    pub fn promise(&self, q: u32, minimum: Rate) -> bool {
        self.pool.promise(ClassId(q), minimum)
    }
    /// Ends a minimum in class `q`.
    pub fn release(&self, q: u32, minimum: Rate) {
        self.pool.release(ClassId(q), minimum);
    }
    /// The sum of the minimums that all shards have granted in class `q`, or hold for future flows.
    pub fn promised(&self, q: u32) -> Rate {
        self.pool.promised(ClassId(q))
    }

    /// Passes rates and bursts on.
    pub fn change(&self, now: Instant, total: (Rate, Bytes), classes: &Slab<u32, Class>) {
        self.pool.change(now, total, &mut classes.values().map(|class| (class.params.rate, class.params.burst)));
    }

    /// Credit that is taken and not used, of class `q` or of spare rate.
    pub fn outstanding(&self, q: Option<u32>) -> Bytes {
        q.map_or(Some(&self.spare), |q| self.classes.get(q)).map_or(Bytes::ZERO, |held| held.left)
    }
}

impl fmt::Debug for Shard {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "shard {}: {:?}, spare {:?}", self.number, self.classes, self.spare)
    }
}
