//! The parts of FBQ that compute with integers alone: tags, when a bucket pays, parts of a buffer, keys of the order of classes. The kernel
//! twin is translated from here.

use tidegate_units::wide::{mul_div, mul_high};
use tidegate_units::{Bytes, Instant, Rate, Span};

use super::shares::WEIGHT_MAX;
use crate::bucket::{TokenBucket, capped};

/// Where virtual time starts: not at zero, because saved tokens are a time before the present.
pub(super) const VIRTUAL_START: u128 = 1 << 100;
/// Binary places of a virtual time below one bit·ns/s at weight 1/65536.
pub(super) const PLACES: u32 = 24;
/// With n flows queued, each may fill 4/(4n + 1) of the class's buffer, or of the part that flows with a granted
/// minimum leave: a single flow 4/5, many greedy flows equal parts, with a quarter of a part to spare for a new flow.
/// This is the steady state of Choudhury and Hahne's dynamic threshold (1998) of four times the free space. It is
/// computed from n and not from the free space, so that flows that send first after a pause cannot occupy the space
/// of flows that send last.
pub(super) const THRESHOLD_FACTOR: u64 = 4;
/// The fraction (1/n) of the buffer reserved for flows with a granted minimum, in a class that has such flows.
const KEPT_PART: u64 = 8;

/// The bucket by which a flow was selected.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(super) enum By {
    Guarantee,
    Share,
}

/// For how many flows a promise holds rate.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Slots {
    /// For how many flows to come rate is held.
    pub held: u32,
    /// For how many flows there should be rate, those that are here included.
    pub wanted: u32,
    /// The flows that are here.
    pub here: u32,
}

impl Slots {
    /// A flow begins. Returns whether rate that was held is to be released, for this flow to be promised.
    pub fn begin(&mut self) -> bool {
        self.here += 1;
        if self.held == 0 {
            return false;
        }
        self.held -= 1;
        true
    }
    /// A flow ends. Returns whether rate is to be held for another one, if it is free; the caller then counts it in `held`.
    pub fn end(&mut self) -> bool {
        self.here -= 1;
        self.held + self.here < self.wanted
    }
}

/// The clock of classes that borrow with strict shares, which runs faster than time while rate is lent.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Clock {
    /// Its time at the last change of its factor, and the instant of that.
    shown: Instant,
    at: Instant,
    /// It runs `fast / base` times as fast as time.
    fast: u64,
    base: u64,
}

impl Clock {
    /// It shows `shown` at `at`, and runs as fast as time.
    pub fn new(shown: Instant, at: Instant) -> Self {
        Self { shown, at, fast: 1, base: 1 }
    }
    /// Its time at `t`; before the last change of the factor as at that time.
    pub fn shows(&self, t: Instant) -> Instant {
        self.shown + Span::from_nanos(mul_div(t.since(self.at).as_nanos(), self.fast, self.base))
    }
    /// The first instant, not before the last change of the factor, at which it shows `wanted` or more.
    pub fn reaches(&self, wanted: Instant) -> Instant {
        let missing = wanted.since(self.shown).as_nanos();
        let whole = mul_div(missing, self.base, self.fast);
        let rest = missing.wrapping_mul(self.base) != whole.wrapping_mul(self.fast);
        if wanted == Instant::MAX {
            return wanted;
        }
        self.at + Span::from_nanos(whole.saturating_add(u64::from(rest)))
    }
    /// From `now` on classes of `borrowing` have `spare` besides.
    pub fn lend(&mut self, now: Instant, borrowing: Rate, spare: Rate) {
        // The fraction of a nanosecond is lost to the borrowers.
        self.shown = self.shows(now);
        self.at = self.at.max(now);
        let base = borrowing.as_bps();
        self.base = base.max(1);
        self.fast = if base == 0 { 1 } else { base.saturating_add(spare.as_bps()) };
    }
}

/// The weight for scheduling of a flow without preference whose profile has `weight`.
#[inline]
pub(super) fn weight_of(weight: u64) -> u64 {
    weight.clamp(1, WEIGHT_MAX)
}

/// `bytes`, at most [`MAX_DEPTH`](crate::bucket::MAX_DEPTH), in virtual time for a flow of `weight`, which is at least 1 and
/// at most [`WEIGHT_MAX`], rounded against the sender.
#[inline]
pub(super) fn virtual_length(bytes: Bytes, weight: u64) -> u128 {
    let credit = capped(bytes) as u64;
    // Two divisions of 64 bits are several times cheaper than one of 128. A rest below 2^40 has room for the places.
    let whole = credit / weight;
    let rest = credit % weight;
    (u128::from(whole) << PLACES) + u128::from((rest << PLACES).div_ceil(weight))
}
/// `bytes` in the virtual time of borrowing, in which classes are weighted by their rates. One with a rate near zero still
/// borrows, as if its rate were 1 kbit/s.
pub(super) fn borrow_length(bytes: Bytes, rate: Rate) -> u128 {
    virtual_length(bytes, rate.as_bps().clamp(1_000, WEIGHT_MAX))
}
/// When the bucket of a flow was empty that has credit of `length` at the virtual time `now`.
#[inline]
pub(super) fn starts_with(now: u128, length: u128) -> u128 {
    now.saturating_sub(length)
}
/// When the bucket was empty of a flow that is backlogged again: its saved tokens are bounded by TB(f), of `length` (5.2).
#[inline]
pub(super) fn starts_again(start: u128, now: u128, length: u128) -> u128 {
    start.max(starts_with(now, length))
}
/// When the bucket was empty of a flow that is charged for a packet of `length`. Served by its minimum, the share is charged
/// too, but at most to a debt of one packet, so that the flow gets the larger of minimum and share, not first the one and
/// then neither.
#[inline]
pub(super) fn charged(start: u128, now: u128, by: By, length: u128) -> u128 {
    match by {
        By::Share => start + length,
        By::Guarantee => start.min(now) + length,
    }
}

/// When the bucket of a granted minimum covers the first packet of its flow, which arrived at `arrived`.
#[inline]
pub(super) fn covered_at(guarantee: &TokenBucket, size: Bytes, arrived: Instant) -> Option<Instant> {
    let time = guarantee.time_for(Instant::ZERO, size)?;
    Some(time.max(arrived))
}
/// Charges a granted minimum for a packet that left.
#[inline]
pub(super) fn charge_minimum(guarantee: &mut TokenBucket, then: Instant, size: Bytes) {
    guarantee.forgive(then);
    guarantee.charge(then, size);
}

/// The part of a buffer of `limit` that is due to a granted `minimum`: the same as its part of the rate.
#[inline]
pub(super) fn promised_part(limit: Bytes, minimum: Rate, rate: Rate) -> Bytes {
    if minimum.is_zero() {
        return Bytes::ZERO;
    }
    Bytes::new(mul_div(limit.as_u64(), minimum.as_bps(), rate.as_bps().max(1)))
}
/// The part of a buffer of `limit` that is kept for flows with a granted minimum, if some of the rate is granted.
#[inline]
pub(super) fn kept(limit: Bytes, unpromised: Rate, rate: Rate) -> Bytes {
    if unpromised < rate { Bytes::new(limit.as_u64() / KEPT_PART) } else { Bytes::ZERO }
}
/// Whether `bytes` are at most one of `queued` equal parts of `space`, with a quarter of a part to spare.
#[inline]
pub(super) fn is_within_part(bytes: Bytes, space: Bytes, queued: u64) -> bool {
    let shares = queued * THRESHOLD_FACTOR + 1;
    // b <= floor(s / n) * 4 exactly if ceil(b / 4) * n <= s.
    let quarters = bytes.as_u64().div_ceil(THRESHOLD_FACTOR);
    mul_high(quarters, shares) == 0 && quarters.wrapping_mul(shares) <= space.as_u64()
}

/// The key of (due, priority).
#[inline]
pub(super) fn by_due(due: Instant, priority: u32) -> u128 {
    u128::from(due.as_nanos()) << 32 | u128::from(priority)
}
/// The key of (priority, due), from that of (due, priority).
#[inline]
pub(super) fn by_priority(key: u128) -> u128 {
    u128::from(key as u32) << 64 | key >> 32
}
