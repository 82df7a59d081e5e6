//! The token bucket, exact in integers.
//!
//! *Law*: of the bytes `s_i .. s_k` taken at `t_i <= .. <= t_k`, `s_i + .. + s_k <= depth + rate * (t_k - t_i)`,
//! without any rounding error, for every `i <= k`.
//! *Source*: FBQ paper, equations (5.1) to (5.4): one token is one byte; RFC 2697 for its use in meters.
//! *Units*: credit is kept in bit·ns/s ([`Credit`]), so that rate x time never rounds.
//! *Cost*: O(1), one multiplication; [`TokenBucket::time_of`] one division more.
//! *Notes*: an earlier instant than the last earns nothing. A change of rate or depth first adds what the old rate
//! earned.

use core::hint::select_unpredictable;

use tidegate_units::{Bytes, Credit, Instant, Rate, Span};

/// A token bucket. See the [module](self).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct TokenBucket {
    rate: Rate,
    depth: Credit,
    level: Credit,
    updated: Instant,
}

impl TokenBucket {
    /// A full bucket at `now`.
    pub fn full(rate: Rate, depth: Bytes, now: Instant) -> Self {
        let depth = Credit::of(depth);
        Self { rate, depth, level: depth, updated: now }
    }
    /// An empty bucket at `now`.
    pub fn empty(rate: Rate, depth: Bytes, now: Instant) -> Self {
        Self { rate, depth: Credit::of(depth), level: Credit::ZERO, updated: now }
    }
    /// Returns the rate at which tokens accrue.
    pub fn rate(&self) -> Rate {
        self.rate
    }
    /// Returns the depth B of the bucket.
    pub fn depth(&self) -> Bytes {
        self.depth.bytes_floor()
    }
    /// The level at `now`, without changing anything.
    #[inline]
    pub fn level(&self, now: Instant) -> Credit {
        (self.level + self.rate.credit_in(now.since(self.updated))).min(self.depth)
    }
    /// Adds the credit earned until `now`, and returns the part of it that exceeds the depth and is lost.
    #[inline]
    pub fn update(&mut self, now: Instant) -> Credit {
        let earned = self.level + self.rate.credit_in(now.since(self.updated));
        self.level = earned.min(self.depth);
        self.updated = self.updated.max(now);
        earned - self.level
    }
    /// Adds the credit earned until `now`; the part of it that exceeds the depth goes to `other`, as far as that holds it.
    #[inline]
    pub fn update_into(&mut self, now: Instant, other: &mut Self) {
        let earned = self.rate.credit_in(now.since(self.updated));
        self.updated = self.updated.max(now);
        // Where none is a debt or has more than 63 bits, which is more than a gigabyte, as all but always: half of the work.
        let all = [self.level, self.depth, other.level, other.depth, earned];
        if all.iter().fold(0, |bits, credit| bits | credit.as_raw() as u128) >> 63 == 0 {
            let [level, depth, other_level, other_depth, earned] = all.map(|credit| credit.as_raw() as u64);
            let sum = level + earned;
            let kept = sum.min(depth);
            self.level = Credit::from_raw(kept.into());
            other.level = Credit::from_raw(other_level.saturating_add(sum - kept).min(other_depth).into());
            return;
        }
        let sum = self.level + earned;
        self.level = sum.min(self.depth);
        other.level = (other.level + (sum - self.level)).min(other.depth);
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
        let cost = Credit::of(bytes);
        // Traffic at the limit makes the result as random as its sizes: a branch would often be predicted wrongly.
        let pays = wanted & (self.level >= cost);
        self.level -= select_unpredictable(pays, cost, Credit::ZERO);
        pays
    }
    /// Takes `bytes`, even if that makes a debt.
    #[inline]
    pub fn charge(&mut self, now: Instant, bytes: Bytes) {
        self.update(now);
        self.level -= Credit::of(bytes);
    }
    /// Forgives a debt at `now`: the level is at least zero.
    pub fn forgive(&mut self, now: Instant) {
        self.update(now);
        self.level = self.level.max(Credit::ZERO);
    }
    /// Lowers the level at `now` to `most`, which may be a debt, if it is above.
    pub fn limit(&mut self, now: Instant, most: Credit) {
        self.update(now);
        self.level = self.level.min(most);
    }
    /// The first instant, not before `now`, at which the level pays for `bytes`; `None` when it never does,
    /// because they exceed the depth or the rate is zero.
    pub fn time_of(&self, now: Instant, bytes: Bytes) -> Option<Instant> {
        let cost = Credit::of(bytes);
        if cost > self.depth {
            return None;
        }
        // From the last update, not from `now`: the answer must not depend on when it is asked.
        let wait: Span = (cost - self.level).time_at_ceil(self.rate)?;
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
        self.depth = Credit::of(depth);
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
}
