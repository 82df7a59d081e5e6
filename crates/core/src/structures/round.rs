//! Deficit round robin: [`Round`], the turns of [`Share`]s by the rule of its authors, and [`Deficit`], the account of
//! the variant that serves a queue as long as its deficit is positive.
//!
//! *Law* of [`Round`]: a busy queue may send its quantum times its weight in a turn, and keeps for the next turn what was
//! too little for its next packet, until it is empty. *Law* of [`Deficit`]: a queue may send while its deficit is above
//! zero; it gets a quantum at the end of a turn, and an overdraft counts against the next turns.
//! *Source*: Shreedhar and Varghese, "Efficient fair queueing using deficit round robin" (1995), for both; RFC 8290,
//! section 4.2, for the second.
//! *Units*: bytes.
//! *Cost*: O(1) a packet when a quantum is at least the largest packet; no allocation after warm-up.
//! *See also*: [`drr`](crate::drr) and [`sfq`](crate::sfq) use [`Round`]; [`fq_codel`](crate::fq_codel) and
//! [`cake`](crate::cake), whose lists differ, use [`Deficit`].

use crate::fifo::Limit;
use crate::key_index::mix;
use crate::packet::Packet;
use crate::params::ParamError;
use crate::queues::{Linked as _, Links, List, Pool, Queue};
use crate::slab::{Slab, reusable};
use tidegate_units::wide::mul_high;
use tidegate_units::{Bytes, Instant};

/// The account of a queue that is served while it is positive.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Deficit(i64);

impl Deficit {
    /// A first turn of `quantum`.
    pub const fn starting_with(quantum: i64) -> Self {
        Self(quantum)
    }
    /// Whether the turn continues.
    pub const fn is_positive(self) -> bool {
        self.0 > 0
    }
    /// Adds a quantum if the turn has ended. Returns whether it has.
    pub fn renew(&mut self, quantum: i64) -> bool {
        let ended = self.0 <= 0;
        if ended {
            self.0 += quantum;
        }
        ended
    }
    /// Takes `bytes` off.
    pub fn spend(&mut self, bytes: i64) {
        self.0 -= bytes;
    }
    /// Whether `bytes` or more have to be paid back.
    pub const fn owes(self, bytes: i64) -> bool {
        self.0.saturating_add(bytes) <= 0
    }
}

/// How much a queue may send in its turns.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Allowance {
    deficit: u64,
    weight: u64,
    /// Whether the queue takes turns.
    busy: bool,
}

/// Whose turn it is, and for how much: what the twin of a round for the kernel shares with it.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Turns {
    /// Whether the first queue has had its quantum for this turn.
    in_turn: bool,
    quantum: u64,
    /// The largest packet so far: a smaller quantum would pay for none.
    largest: u64,
}

impl Turns {
    /// Turns of `quantum` for weight 1.
    pub fn of(quantum: Bytes) -> Self {
        Self { in_turn: false, quantum: quantum.as_u64(), largest: 0 }
    }
    /// A packet of `size` was queued. Returns whether its queue takes turns from now on, after the others.
    pub fn queued(&mut self, allowance: &mut Allowance, size: Bytes) -> bool {
        self.largest = self.largest.max(size.as_u64());
        if allowance.busy {
            return false;
        }
        allowance.busy = true;
        allowance.deficit = 0;
        true
    }
    /// Whether the first queue, whose first packet has `size`, pays for it; otherwise its turn has ended, and it is the
    /// last.
    pub fn pays(&mut self, allowance: &mut Allowance, size: Bytes) -> bool {
        if !self.in_turn {
            self.in_turn = true;
            allowance.deficit += self.quantum.max(self.largest) * allowance.weight;
        }
        if size.as_u64() <= allowance.deficit {
            allowance.deficit -= size.as_u64();
            return true;
        }
        self.in_turn = false;
        false
    }
    /// A queue, the first or another, is empty and takes no turns any more.
    pub fn left(&mut self, allowance: &mut Allowance, is_first: bool) {
        allowance.busy = false;
        if is_first {
            self.in_turn = false;
        }
    }
}

/// A queue of a [`Round`].
#[derive(Clone, Debug)]
pub struct Share {
    queue: Queue,
    allowance: Allowance,
}

reusable!(Share, queue: u32);

impl Share {
    /// An empty queue with `weight` quanta a turn.
    pub fn new(weight: u16) -> Self {
        Self { queue: Queue::default(), allowance: Allowance { weight: weight.into(), ..Allowance::default() } }
    }
    /// Whether no packet is queued.
    pub fn is_empty(&self) -> bool {
        self.queue.is_empty()
    }
    /// The number of queued packets.
    pub fn packets(&self) -> u64 {
        self.queue.backlog().packets
    }
}

/// The turns of numbered [`Share`]s that one [`Limit`] holds for. A share must always be used with the same number.
#[derive(Clone, Debug)]
pub struct Round<P> {
    pool: Pool<P>,
    active: List,
    links: Links,
    turns: Turns,
}

impl<P: Packet> Round<P> {
    /// Creates an empty round.
    pub fn new(quantum: Bytes, limit: Limit) -> Self {
        Self { pool: Pool::new(limit), active: List::default(), links: Links::default(), turns: Turns::of(quantum) }
    }
    /// Returns the queued packets.
    pub fn pool(&self) -> &Pool<P> {
        &self.pool
    }
    /// Queues `packet`, which arrived at `at`, in `share`.
    #[inline]
    pub fn push(&mut self, number: u32, share: &mut Share, packet: P, at: Instant) {
        if self.turns.queued(&mut share.allowance, packet.size()) {
            self.links.push_back(&mut self.active, number);
        }
        self.pool.push(number, &mut share.queue, packet, at);
    }
    /// Takes the first packet of `share`, in turn or not, with the instant it arrived at. With its last packet its turns end.
    #[inline]
    pub fn pop(&mut self, number: u32, share: &mut Share) -> Option<(P, Instant)> {
        let popped = self.pool.pop(number, &mut share.queue)?;
        if share.is_empty() {
            self.turns.left(&mut share.allowance, self.active.front() == Some(number));
            self.links.remove(&mut self.active, number);
        }
        Some(popped)
    }
    /// The share whose first packet is next, by number, charged for that packet. `share` finds a share in an element of
    /// `all`.
    #[inline]
    pub fn next<F>(&mut self, all: &mut Slab<u32, F>, share: impl Fn(&mut F) -> &mut Share) -> Option<u32> {
        loop {
            let number = self.active.front()?;
            let share = share(&mut all[number]);
            let size = self.pool.front(&share.queue)?.size();
            if self.turns.pays(&mut share.allowance, size) {
                return Some(number);
            }
            self.links.rotate(&mut self.active);
        }
    }
}

/// Checks a quantum.
pub(crate) fn check_quantum(quantum: Bytes) -> Result<(), ParamError> {
    if !(64..=1 << 20).contains(&quantum.as_u64()) {
        return Err(ParamError::new("quantum", "must be 64B to 1MiB, for example 1514B"));
    }
    Ok(())
}

/// Checks a number of queues that flows are hashed onto.
pub(crate) fn check_queues(queues: u32) -> Result<(), ParamError> {
    if !(1..=1 << 20).contains(&queues) {
        return Err(ParamError::new("queues", "must be 1 to 1048576, for example 1024"));
    }
    Ok(())
}

/// `key` spread evenly over `0..n`. Keys are hashes already, except in tests.
pub(crate) fn spread(key: u64, n: u32) -> u32 {
    mul_high(mix(key), u64::from(n)) as u32
}
