//! Credit that several shapers have in common: *shards* of one configuration, each with its flows, on its own processor.
//!
//! A [`Pool`] has a token bucket for each class and one for the rate that classes leave, the *spare* rate. A shard takes a
//! *slice* of credit before it sends, sends from it, and returns what it does not need. The rate of a class and of all
//! classes together therefore holds over all shards, while a packet costs a shard no access to what it shares with others
//! unless its slice is used up.
//!
//! *Law*:
//! 1. Total: in any time t the shards send of a class at most `depth + rate * t` and the slices outstanding at its
//!    beginning; of all classes together, borrowed rate included, at most the sum of the depths, `rate * t` with the total,
//!    and the slices outstanding.
//! 2. Use: a shard with packets of a class waits for credit only while the others have slices of this class that they may
//!    use; what they do not need is back in the pool when their queue is empty. So no shard waits for longer than the slices
//!    of the others last.
//! 3. Fairness: shards are served in the order of their requests, each at the pace of its part of the rate: the granted
//!    minimums of its flows with a queue, and of the rest a part in proportion to these flows. A shard is held to its part as
//!    long as the bucket can hold what others leave meanwhile.
//! 4. Spare: what the bucket of a class does not hold, and the excess of the total over the classes, goes to the spare
//!    bucket, and nothing else does.
//!
//! *Source*: taking from a global pool in slices is how Linux enforces the bandwidth of groups of processes on several
//! processors (Turner, Rao, Rao: CPU bandwidth control for CFS, OLS 2010). There a slice is granted when there is credit;
//! here one of a class is reserved, and its time follows, so that a shard need not be woken by another.
//! *Caller's obligation*: a shard uses what it has of a class no faster than a bucket of the rate and burst of the class
//! allows, from the beginning of its slice on: a slice is granted when the burst is there, and the rest accrues while it is used.
//! *Units*: bytes on the link; buckets are in bit·ns/s. A slice of a shard that is alone lasts [`SLICE`] at the rate of its
//! class, or is two full-size packets if that is more; otherwise it is the part of that. It is at most what waits.
//! *Cost*: O(log m) in the classes for a slice; nothing for a packet within one.
//! *Notes*: time is passed by each shard, and the times of two shards need not be in order: an earlier instant than the
//! last earns nothing. The pool has no lock; [`PoolAccess`] is how a shard reaches it through one.
//! *See also*: [`Fbc::share`](crate::fbq::Fbc::share).

use alloc::collections::{BTreeSet, VecDeque};
use alloc::vec;
use alloc::vec::Vec;

use tidegate_units::{Bytes, Credit, Instant, Rate, Span};

use crate::bucket::TokenBucket;
use crate::packet::ClassId;

/// How long a whole slice lasts at the rate of its class.
pub const SLICE: Span = Span::from_millis(2);
/// The least size of a whole slice: two full-size packets.
pub const LEAST_SLICE: Bytes = Bytes::new(2 * 1_514);
/// The least that a bucket holds beyond its burst, for the time in which shards are held to their parts; otherwise a whole
/// slice. Sixteen full-size packets keep parts down to a sixteenth exact where a slice is short.
pub const LEAST_MORE: Bytes = Bytes::new(16 * 1_514);

/// The claim of a shard to a class: what it has backlogged.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Stake {
    /// The sum of the weights of its flows, or hosts, that have a queue.
    pub weight: u64,
    /// The sum of the granted minimums of these flows.
    pub minimum: Rate,
}

/// A request for a slice.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Request {
    /// The number of the shard, from 0.
    pub shard: u32,
    /// The class; `None` for the spare rate.
    pub class: Option<ClassId>,
    /// The least that is of use: the next packet, less what the shard has left.
    pub need: Bytes,
    /// The most that is of use: what waits.
    pub wish: Bytes,
    /// The claim of the shard.
    pub stake: Stake,
}

/// Credit of a shard.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Slice {
    /// Its size.
    pub bytes: Bytes,
    /// The instant from which it may be used.
    pub from: Instant,
    /// The part of the rate that the shard has at present.
    pub part: Rate,
}

/// The reply to a [`Request`].
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Reply {
    /// A slice.
    Granted(Slice),
    /// There is no spare credit for this shard now. It is to ask again at this time, and keeps its place among those that
    /// wait if it does so within [`SLICE`].
    Later(Instant),
    /// The class has no rate.
    Never,
}

/// The access of a shard to a pool, through whatever lock the shards have in common.
pub trait PoolAccess: Send + Sync {
    /// [`Pool::take`].
    fn take(&self, now: Instant, request: &Request) -> Reply;
    /// [`Pool::give_back`].
    fn give_back(&self, now: Instant, shard: u32, class: Option<ClassId>, bytes: Bytes);
    /// [`Pool::promise`].
    fn promise(&self, class: ClassId, minimum: Rate) -> bool;
    /// [`Pool::release`].
    fn release(&self, class: ClassId, minimum: Rate);
    /// [`Pool::promised`].
    fn promised(&self, class: ClassId) -> Rate;
    /// [`Pool::change`].
    fn change(&self, now: Instant, total: (Rate, Bytes), classes: &mut dyn Iterator<Item = (Rate, Bytes)>);
}

/// A bucket and who has a claim to it.
#[derive(Clone, Debug)]
struct Part {
    /// Deeper than its burst, for what shards leave while others are held to their parts; never above the burst when a shard
    /// begins while no other has a claim.
    bucket: TokenBucket,
    burst: Bytes,
    /// When each shard has used its last slice at the pace of its part.
    paced: Vec<Instant>,
    /// By shard.
    stakes: Vec<Stake>,
    all: Stake,
    /// The sum of the minimums that are granted, whether or not their flows have a queue.
    granted: Rate,
}

/// The size of a whole slice at `rate`.
fn whole_slice(rate: Rate) -> Bytes {
    rate.credit_in(SLICE).bytes_floor().max(LEAST_SLICE)
}

/// The depth of a bucket of `rate` and `burst`.
fn depth(rate: Rate, burst: Bytes) -> Bytes {
    burst + whole_slice(rate).max(LEAST_MORE)
}

impl Part {
    /// With `burst` at `now`.
    fn new(rate: Rate, burst: Bytes, shards: usize, now: Instant) -> Self {
        let mut bucket = TokenBucket::full(rate, depth(rate, burst), now);
        bucket.limit(now, Credit::of(burst));
        let (paced, stakes) = (vec![Instant::ZERO; shards], vec![Stake::default(); shards]);
        Self { bucket, burst, paced, stakes, all: Stake::default(), granted: Rate::ZERO }
    }
    /// Sets the claim of a shard.
    fn claim(&mut self, shard: u32, stake: Stake) {
        let Some(known) = self.stakes.get_mut(shard as usize) else { return };
        self.all.weight = self.all.weight - known.weight + stake.weight;
        self.all.minimum = self.all.minimum.saturating_sub(known.minimum) + stake.minimum;
        *known = stake;
    }
    /// The part of the rate for a claim that is among all.
    fn rate_of(&self, stake: Stake) -> Rate {
        let rate = self.bucket.rate();
        let free = u128::from(rate.saturating_sub(self.all.minimum).as_bps());
        let shared = free * u128::from(stake.weight) / u128::from(self.all.weight.max(1));
        (stake.minimum + Rate::from_bps(u64::try_from(shared).unwrap_or(u64::MAX))).min(rate)
    }
    /// The size of a slice for a shard with this part of the rate.
    fn slice_of(&self, part: Rate, request: &Request) -> Bytes {
        let rate = self.bucket.rate();
        let whole = u128::from(whole_slice(rate).as_u64());
        let bytes = whole * u128::from(part.as_bps()) / u128::from(rate.as_bps().max(1));
        Bytes::new(bytes as u64).min(request.wish).max(request.need)
    }
}

impl Part {
    /// Takes `bytes` for a shard with this part of the rate.
    fn grant(&mut self, now: Instant, shard: u32, bytes: Bytes, part: Rate) -> Reply {
        let Some(there) = self.bucket.time_of(now, bytes.min(self.burst)) else { return Reply::Never };
        self.bucket.charge(now, bytes);
        // Until then nothing of what others leave is lost.
        let full = self.bucket.time_of(now, self.bucket.depth()).unwrap_or(Instant::MAX);
        let Some(paced) = self.paced.get_mut(shard as usize) else { return Reply::Never };
        // The generic cell rate algorithm (ITU-T I.371), with the burst as the tolerance.
        let tolerance = self.bucket.rate().time_for_ceil(self.burst).unwrap_or(Span::ZERO);
        let held_until = paced.saturating_sub(tolerance);
        let from = there.max(full.min(held_until));
        // What it gets because others leave it does not count against its part.
        let begin = if full < held_until { from } else { from.max(*paced) };
        *paced = begin + part.time_for_ceil(bytes).unwrap_or(SLICE);
        Reply::Granted(Slice { bytes, from, part })
    }
}

/// A shard that waits for spare credit, and when it asks again.
#[derive(Clone, Copy, Debug)]
struct Waiting {
    shard: u32,
    until: Instant,
}

/// The credit that shards have in common. See the [module](self).
#[derive(Clone, Debug)]
pub struct Pool {
    rate: Rate,
    classes: Vec<Part>,
    spare: Part,
    /// The classes whose bucket is not full, by the time at which it is.
    filling: BTreeSet<(Instant, u32)>,
    /// That time, by class; `None` for a full bucket.
    fills: Vec<Option<Instant>>,
    /// The sum of the rates of the classes whose bucket is not full.
    filling_rate: Rate,
    /// Who waits for spare credit, in order.
    waiting: VecDeque<Waiting>,
}

impl Pool {
    /// The pool of `shards` shards with a total of rate and burst, and classes with theirs, which the total is at least the
    /// sum of. It has the bursts at `now`.
    pub fn new(shards: usize, total: (Rate, Bytes), classes: &[(Rate, Bytes)], now: Instant) -> Self {
        let parts = classes.iter().map(|&(rate, burst)| Part::new(rate, burst, shards, now)).collect();
        let mut spare = Part::new(Rate::ZERO, total.1, shards, now);
        spare.bucket.set_depth(now, depth(total.0, total.1));
        let mut pool = Self {
            rate: total.0,
            classes: parts,
            spare,
            filling: BTreeSet::new(),
            fills: vec![None; classes.len()],
            filling_rate: Rate::ZERO,
            waiting: VecDeque::new(),
        };
        for class in 0..classes.len() {
            pool.begin_filling(now, class);
        }
        pool
    }

    /// The most credit of a class that is not taken: its burst, and a slice.
    pub fn depth(&self, class: ClassId) -> Option<Bytes> {
        self.classes.get(class.0 as usize).map(|part| part.bucket.depth())
    }
    /// The most spare credit that is not taken: the burst of the total, and a slice.
    pub fn spare_depth(&self) -> Bytes {
        self.spare.bucket.depth()
    }

    /// Takes a slice. That of a class is the shard's from now on, to be used from a time in the order of the requests; spare
    /// credit is granted only when it is there.
    pub fn take(&mut self, now: Instant, request: &Request) -> Reply {
        self.settle(now);
        let Some(class) = request.class else { return self.take_spare(now, request) };
        let Some(part) = self.classes.get_mut(class.0 as usize) else { return Reply::Never };
        let begins = part.all == Stake::default();
        part.claim(request.shard, request.stake);
        let share = part.rate_of(request.stake);
        let bytes = part.slice_of(share, request);
        let q = class.0 as usize;
        self.end_filling(now, q);
        let part = &mut self.classes[q];
        if begins {
            // What gathered while nobody had a queue is not a burst.
            part.bucket.limit(now, Credit::of(part.burst));
        }
        let reply = part.grant(now, request.shard, bytes, share);
        self.begin_filling(now, q);
        reply
    }

    fn take_spare(&mut self, now: Instant, request: &Request) -> Reply {
        self.spare.claim(request.shard, request.stake);
        let part = self.spare.rate_of(request.stake);
        let depth = self.spare.bucket.depth();
        let bytes = self.spare.slice_of(part, request);
        let affordable = bytes.min(depth);
        // Those that should have asked again by now have lost their place.
        while self.waiting.front().is_some_and(|first| first.shard != request.shard && first.until + SLICE < now) {
            self.waiting.pop_front();
        }
        let first = self.waiting.front().is_none_or(|first| first.shard == request.shard);
        let level = self.spare.bucket.level(now);
        if first && level >= Credit::of(affordable) {
            self.waiting.retain(|waiting| waiting.shard != request.shard);
            self.spare.bucket.charge(now, bytes);
            return Reply::Granted(Slice { bytes, from: now, part });
        }
        let later = if first || level < Credit::of(affordable) {
            let by_rate = self.spare.bucket.time_of(now, affordable);
            let by_class = self.filling.first().map(|&(fills, _)| fills);
            by_rate.into_iter().chain(by_class).min()
        } else {
            // The first has its credit and takes it at any moment.
            self.waiting.front().map(|first| first.until)
        };
        let Some(later) = later.filter(|later| *later < Instant::MAX) else { return Reply::Never };
        let until = later.max(now + Span::from_micros(1));
        match self.waiting.iter_mut().find(|waiting| waiting.shard == request.shard) {
            Some(waiting) => waiting.until = until,
            None => self.waiting.push_back(Waiting { shard: request.shard, until }),
        }
        Reply::Later(until)
    }

    /// Returns what a shard does not need, and ends its claim.
    pub fn give_back(&mut self, now: Instant, shard: u32, class: Option<ClassId>, bytes: Bytes) {
        self.settle(now);
        let Some(class) = class else {
            self.spare.claim(shard, Stake::default());
            self.waiting.retain(|waiting| waiting.shard != shard);
            self.spare.bucket.refund(now, bytes);
            return;
        };
        let q = class.0 as usize;
        if let Some(part) = self.classes.get_mut(q) {
            part.claim(shard, Stake::default());
            if bytes > Bytes::ZERO {
                if let Some(paced) = part.paced.get_mut(shard as usize) {
                    *paced = now.min(*paced);
                }
                // What it does not hold is spare, as what it does not hold of its rate.
                self.end_filling(now, q);
                let over = self.classes[q].bucket.refund(now, bytes);
                self.spare.bucket.refund(now, over);
                self.begin_filling(now, q);
            }
        }
    }

    /// Counts a minimum as granted if it fits into what is not granted of the rate of the class; returns whether it did.
    pub fn promise(&mut self, class: ClassId, minimum: Rate) -> bool {
        let Some(part) = self.classes.get_mut(class.0 as usize) else { return false };
        let fits = part.granted + minimum <= part.bucket.rate();
        if fits {
            part.granted += minimum;
        }
        fits
    }
    /// Ends a minimum that was granted.
    pub fn release(&mut self, class: ClassId, minimum: Rate) {
        if let Some(part) = self.classes.get_mut(class.0 as usize) {
            part.granted = part.granted.saturating_sub(minimum);
        }
    }
    /// The sum of the minimums that are granted, or held for flows to come.
    pub fn promised(&self, class: ClassId) -> Rate {
        self.classes.get(class.0 as usize).map_or(Rate::ZERO, |part| part.granted)
    }

    /// Sets the rates and bursts of the total and of the classes, as many as there are. What was earned is kept, as far as
    /// the new depths hold it. With the same values nothing changes.
    pub fn change(&mut self, now: Instant, total: (Rate, Bytes), classes: impl Iterator<Item = (Rate, Bytes)>) {
        self.settle(now);
        for (q, (rate, burst)) in (0..self.classes.len()).zip(classes) {
            self.end_filling(now, q);
            let bucket = &mut self.classes[q].bucket;
            bucket.set_rate(now, rate);
            bucket.set_depth(now, depth(rate, burst));
            self.classes[q].burst = burst;
            self.begin_filling(now, q);
        }
        self.rate = total.0;
        self.spare.bucket.set_depth(now, depth(total.0, total.1));
        self.set_spare_rate(now);
    }

    /// Empties the buckets: for a pool that takes the place of another, so that no burst is gained by that.
    pub fn empty(&mut self, now: Instant) {
        self.settle(now);
        for q in 0..self.classes.len() {
            self.end_filling(now, q);
            self.classes[q].bucket.limit(now, Credit::ZERO);
            self.begin_filling(now, q);
        }
        self.spare.bucket.limit(now, Credit::ZERO);
    }

    /// Gives the spare bucket what those of classes did not hold until `now`.
    fn settle(&mut self, now: Instant) {
        while let Some(&(fills, class)) = self.filling.first()
            && fills <= now
        {
            self.filling.pop_first();
            let q = class as usize;
            self.fills[q] = None;
            let bucket = &mut self.classes[q].bucket;
            self.spare.bucket.update(fills);
            bucket.update_into(fills, &mut self.spare.bucket);
            self.filling_rate = self.filling_rate.saturating_sub(bucket.rate());
            self.set_spare_rate(fills);
        }
        self.spare.bucket.update(now);
    }

    /// The bucket of a class changes, and is updated: it is full or it was taken out of those that fill.
    fn end_filling(&mut self, now: Instant, q: usize) {
        match self.fills[q].take() {
            Some(fills) => {
                self.filling.remove(&(fills, q as u32));
                self.filling_rate = self.filling_rate.saturating_sub(self.classes[q].bucket.rate());
            }
            // What it earned while it was full went to the spare bucket.
            None => self.classes[q].bucket.update(now),
        }
    }

    /// The bucket of a class has changed.
    fn begin_filling(&mut self, now: Instant, q: usize) {
        let bucket = &self.classes[q].bucket;
        if bucket.level(now) < Credit::of(bucket.depth()) {
            // One without a rate is never full.
            let fills = bucket.time_of(now, bucket.depth()).unwrap_or(Instant::MAX);
            self.fills[q] = Some(fills);
            self.filling.insert((fills, q as u32));
            self.filling_rate += bucket.rate();
        }
        self.set_spare_rate(now);
    }

    fn set_spare_rate(&mut self, now: Instant) {
        self.spare.bucket.set_rate(now, self.rate.saturating_sub(self.filling_rate));
    }
}
