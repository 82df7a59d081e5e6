//! The token bucket, exact in integers.
//!
//! *Law*: of the bytes `s_i .. s_k` taken at `t_i <= .. <= t_k`, `s_i + .. + s_k <= depth + rate * (t_k - t_i)`,
//! without any rounding error, for every `i <= k`.
//! *Source*: FBQ paper, equations (5.1) to (5.4): one token is one byte; RFC 2697 for its use in meters.
//! *Units*: credit is kept in bit·ns/s (as [`Credit`]), so that rate x time never rounds.
//! *Cost*: O(1), one multiplication of 64 bits; [`TokenBucket::time_of`] one division more.
//! *Notes*: an earlier instant than the last earns nothing. A change of rate or depth first adds what the old rate
//! earned. Level and depth are 64 bits, so a depth is at most [`MAX_DEPTH`]; a larger one counts as that.
//! *See also*: `kernel/`, where [`full`](TokenBucket::full), [`take`](TokenBucket::take) and
//! [`time_of`](TokenBucket::time_of) are translated to C.

use core::hint::select_unpredictable;

use crate::credit::PER_BYTE;
use tidegate_units::{Bytes, Credit, Instant, Rate, Span};

/// The largest depth, 1.15 GB: 2⁶³ bit·ns/s. 100 Gbit/s fill it in 92 ms.
pub const MAX_DEPTH: Bytes = Bytes::new(1_152_921_504);

/// A token bucket. See the [module](self).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct TokenBucket {
    rate: Rate,
    /// In bit·ns/s, as `level`, which is at most `depth`; below zero it is a debt.
    depth: i64,
    level: i64,
    updated: Instant,
}

/// `bytes` in bit·ns/s; more than any depth for more than [`MAX_DEPTH`].
#[inline]
fn cost(bytes: Bytes) -> i64 {
    if bytes <= MAX_DEPTH { (bytes.as_u64() * PER_BYTE) as i64 } else { i64::MAX }
}

/// `depth` in bit·ns/s.
#[inline]
pub(crate) fn capped(depth: Bytes) -> i64 {
    cost(if depth <= MAX_DEPTH { depth } else { MAX_DEPTH })
}

/// `level + earned`, at most `depth`, which is not below `level`.
#[inline]
fn filled(level: i64, depth: i64, earned: u64) -> i64 {
    let room = (depth as u64).wrapping_sub(level as u64);
    if earned >= room { depth } else { (level as u64).wrapping_add(earned) as i64 }
}

impl TokenBucket {
    /// A full bucket at `now`.
    pub fn full(rate: Rate, depth: Bytes, now: Instant) -> Self {
        let depth = capped(depth);
        Self { rate, depth, level: depth, updated: now }
    }
    /// An empty bucket at `now`.
    pub fn empty(rate: Rate, depth: Bytes, now: Instant) -> Self {
        Self { rate, depth: capped(depth), level: 0, updated: now }
    }
    /// Returns the rate at which tokens accrue.
    pub fn rate(&self) -> Rate {
        self.rate
    }
    /// Returns the depth B of the bucket.
    pub fn depth(&self) -> Bytes {
        Bytes::new(self.depth as u64 / PER_BYTE)
    }
    /// The level at `now`, without changing anything.
    #[inline]
    pub fn level(&self, now: Instant) -> Credit {
        Credit::from_raw(i128::from(filled(self.level, self.depth, self.earned(now))))
    }
    /// Whether the level at `now` is a debt.
    #[inline]
    pub fn is_in_debt(&self, now: Instant) -> bool {
        filled(self.level, self.depth, self.earned(now)) < 0
    }
    /// The whole bytes that the level at `now` pays for; zero when it is a debt.
    #[inline]
    pub fn bytes(&self, now: Instant) -> Bytes {
        Bytes::new(filled(self.level, self.depth, self.earned(now)).max(0) as u64 / PER_BYTE)
    }
    /// The bytes by which the level at `now` is below the depth, rounded up.
    #[inline]
    pub fn used(&self, now: Instant) -> Bytes {
        let level = filled(self.level, self.depth, self.earned(now));
        Bytes::new((self.depth as u64).wrapping_sub(level as u64).div_ceil(PER_BYTE))
    }
    /// The credit earned from the last update until `now`, in bit·ns/s. What exceeds 64 bits exceeds every depth.
    #[inline]
    fn earned(&self, now: Instant) -> u64 {
        self.rate.as_bps().saturating_mul(now.since(self.updated).as_nanos())
    }
    /// Adds the credit earned until `now`, as far as the bucket holds it.
    #[inline]
    pub fn update(&mut self, now: Instant) {
        self.level = filled(self.level, self.depth, self.earned(now));
        self.updated = self.updated.max(now);
    }
    /// Adds the credit earned until `now`; the part of it that exceeds the depth goes to `other`, as far as that holds it.
    #[inline]
    pub fn update_into(&mut self, now: Instant, other: &mut Self) {
        let earned = self.earned(now);
        let room = (self.depth as u64).wrapping_sub(self.level as u64);
        other.level = filled(other.level, other.depth, earned.saturating_sub(room));
        self.level = filled(self.level, self.depth, earned);
        self.updated = self.updated.max(now);
    }
    /// Takes `bytes` if the level at `now` pays for them. Returns whether it did.
    #[inline]
    pub fn take(&mut self, now: Instant, bytes: Bytes) -> bool {
        self.update(now);
        self.spend(bytes)
    }
    /// Takes `bytes` if the level of the last update pays for them. Returns whether it did.
    #[inline]
    pub fn spend(&mut self, bytes: Bytes) -> bool {
        self.spend_if(true, bytes)
    }
    /// Takes `bytes` if that is `wanted` and the level of the last update pays for them. Returns whether it did.
    #[inline]
    pub fn spend_if(&mut self, wanted: bool, bytes: Bytes) -> bool {
        let cost = cost(bytes);
        // Traffic at the limit makes the result as random as its sizes: a branch would often be predicted wrongly.
        let pays = wanted & (self.level >= cost);
        self.level -= select_unpredictable(pays, cost, 0);
        pays
    }
    /// Takes `bytes`, even if that makes a debt.
    #[inline]
    pub fn charge(&mut self, now: Instant, bytes: Bytes) {
        self.update(now);
        // A cost is not negative, so that only the smallest debt can be exceeded.
        let level = (self.level as u64).wrapping_sub(cost(bytes) as u64) as i64;
        self.level = if level <= self.level { level } else { 0 - i64::MAX };
    }
    /// Adds `bytes` that were taken and not used, as far as the bucket holds them; returns those that it does not hold.
    pub fn refund(&mut self, now: Instant, bytes: Bytes) -> Bytes {
        self.update(now);
        let room = (self.depth as u64).wrapping_sub(self.level as u64);
        let returned = cost(bytes) as u64;
        self.level = filled(self.level, self.depth, returned);
        Bytes::new(returned.saturating_sub(room) / PER_BYTE)
    }
    /// Forgives a debt at `now`: the level is at least zero.
    pub fn forgive(&mut self, now: Instant) {
        self.update(now);
        self.level = self.level.max(0);
    }
    /// Lowers the level at `now` to `most`, which may be a debt, if it is above.
    pub fn limit(&mut self, now: Instant, most: Credit) {
        self.update(now);
        self.level = i128::from(self.level).min(most.as_raw()).max(i128::from(i64::MIN)) as i64;
    }
    /// The first instant, not before `now`, at which the level pays for `bytes`; `None` when it never does,
    /// because they exceed the depth or the rate is zero.
    #[inline]
    pub fn time_of(&self, now: Instant, bytes: Bytes) -> Option<Instant> {
        let cost = cost(bytes);
        if cost > self.depth {
            return None;
        }
        // From the last update, not from `now`: the answer must not depend on when it is asked.
        if self.level >= cost {
            return Some(self.updated.max(now));
        }
        if self.rate.is_zero() {
            return None;
        }
        let missing = (cost as u64).wrapping_sub(self.level as u64);
        let wait = Span::from_nanos(missing.div_ceil(self.rate.as_bps()));
        Some((self.updated + wait).max(now))
    }
    /// [`time_of`](Self::time_of) `bytes`, or of a full bucket if they exceed the depth. `None` if the rate is zero and
    /// the level is too low. Where the bucket pays at `now` already, which it mostly does if it is not the one that
    /// delays, that is found without a division.
    #[inline]
    pub fn time_for(&self, now: Instant, bytes: Bytes) -> Option<Instant> {
        let cost = cost(bytes).min(self.depth);
        let missing = (cost as u64).wrapping_sub(self.level as u64);
        if self.level >= cost || self.earned(now) >= missing {
            return Some(self.updated.max(now));
        }
        if self.rate.is_zero() {
            return None;
        }
        let wait = Span::from_nanos(missing.div_ceil(self.rate.as_bps()));
        Some((self.updated + wait).max(now))
    }
    /// Changes the rate from `now` on. What was earned is kept.
    pub fn set_rate(&mut self, now: Instant, rate: Rate) {
        self.update(now);
        self.rate = rate;
    }
    /// Changes the depth from `now` on. What exceeds it is lost.
    pub fn set_depth(&mut self, now: Instant, depth: Bytes) {
        self.update(now);
        self.depth = capped(depth);
        self.level = self.level.min(self.depth);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: u64 = 1_000_000;

    #[test]
    fn earns_exactly() {
        // 12 kbit/s earns 1500 B in exactly one second.
        let start = Instant::from_nanos(5);
        let mut bucket = TokenBucket::empty(Rate::from_kbit(12), Bytes::new(3000), start);
        let due = start + Span::from_secs(1);
        assert_eq!(bucket.time_of(start, Bytes::new(1500)), Some(due));
        assert!(!bucket.take(Instant::from_nanos(due.as_nanos() - 1), Bytes::new(1500)));
        assert!(bucket.take(due, Bytes::new(1500)));
        assert_eq!(bucket.level(due), Credit::ZERO);
    }

    #[test]
    fn never_exceeds_the_depth_and_never_runs_back() {
        let mut bucket = TokenBucket::full(Rate::from_mbit(1), Bytes::new(1000), Instant::from_nanos(10 * MS));
        assert!(bucket.take(Instant::from_nanos(10 * MS), Bytes::new(1000)));
        assert_eq!(bucket.level(Instant::from_nanos(9 * MS)), Credit::ZERO, "an earlier now earns nothing");
        assert_eq!(bucket.level(Instant::from_nanos(1_000 * MS)), Credit::of(Bytes::new(1000)));
        assert_eq!(bucket.time_of(Instant::ZERO, Bytes::new(1001)), None);
    }

    #[test]
    fn a_change_of_rate_settles_first() {
        let start = Instant::ZERO;
        let mut bucket = TokenBucket::empty(Rate::from_kbit(8), Bytes::new(10_000), start);
        bucket.set_rate(start + Span::from_secs(1), Rate::from_kbit(80));
        // 1 s at 1 kB/s, then 0.1 s at 10 kB/s.
        assert_eq!(bucket.level(start + Span::from_millis(1_100)), Credit::of(Bytes::new(2_000)));
    }

    /// Against the same arithmetic in 128 bits, at random, with rates and times up to the largest and with debts.
    #[test]
    fn is_the_arithmetic_of_128_bits() {
        let mut random = crate::random::Stream::named(1, "bucket");
        let mut wide = |bits: u64| {
            let shift = random.below(bits);
            random.next_u64() >> (63 - shift)
        };
        for _ in 0..20_000 {
            let (rate, depth) = (wide(63), wide(30).min(MAX_DEPTH.as_u64()));
            let mut now = wide(40);
            let mut bucket = TokenBucket::full(Rate::from_bps(rate), Bytes::new(depth), Instant::from_nanos(now));
            let (depth, mut level) = (i128::from(depth) * 8_000_000_000, i128::from(depth) * 8_000_000_000);
            for _ in 0..20 {
                let elapsed = wide(50);
                now += elapsed;
                level = (level + i128::from(rate).saturating_mul(elapsed.into())).min(depth);
                let (at, size) = (Instant::from_nanos(now), wide(20));
                let cost = i128::from(size) * 8_000_000_000;
                let due = bucket.time_of(at, Bytes::new(size));
                let missing = u128::try_from(cost - level).unwrap_or(0);
                let pays = level >= cost;
                if elapsed % 3 == 0 {
                    bucket.charge(at, Bytes::new(size));
                    level -= cost;
                } else {
                    assert_eq!(bucket.take(at, Bytes::new(size)), pays);
                    level -= if pays { cost } else { 0 };
                }
                assert_eq!(bucket.level(at).as_raw(), level);
                // The instant is counted from the last update; from this one it is the same where nothing was full.
                match due {
                    Some(due) if due > at => assert_eq!(
                        u128::from(due.as_nanos() - now),
                        missing.div_ceil(rate.into()).min(u128::from(u64::MAX - now))
                    ),
                    Some(_) => assert!(pays),
                    None => assert!(cost > depth || (rate == 0 && !pays)),
                }
            }
        }
    }

    #[test]
    fn a_depth_above_the_largest_counts_as_that() {
        let bucket = TokenBucket::full(Rate::from_mbit(1), Bytes::MAX, Instant::ZERO);
        assert_eq!(bucket.depth(), MAX_DEPTH);
        assert_eq!(bucket.time_of(Instant::ZERO, Bytes::MAX), None);
        let mut bucket = bucket;
        assert!(bucket.take(Instant::ZERO, MAX_DEPTH) && !bucket.take(Instant::ZERO, Bytes::new(1)));
    }
}
