//! [`Delays`], [`RecentDelays`] and [`FewDelays`]: queueing delays as counts in buckets whose width grows with the delay.
//!
//! *Law*: a delay of v ns is counted in the bucket (lower, upper] that holds v; counts never fall in [`Delays`], and
//! in [`RecentDelays`] they are halved every [`HALVING`], so that it describes the last few seconds.
//! *Units*: nanoseconds in, a [`Span`] out. The unit of the scale is 1,024 ns; buckets end at 1,024 ns times a whole
//! number that is below 2ᵏ or has k significant bits after its first one, with k = 5 ([`Delays`]) or 2
//! ([`RecentDelays`]).
//! *Cost*: a shift, a count of leading zeros and an addition; no allocation. [`Delays`] is 5.8 kB, [`RecentDelays`]
//! 208 B. A halving of [`RecentDelays`] touches its 102 counts, at most once in [`HALVING`] and once in 32,767 packets.
//! *Notes*: delays below 1,024 ns are not distinguished, nor are those beyond 100 s. A quantile is the middle of its
//! bucket: at most 1.6 % ([`Delays`]) or 12.5 % ([`RecentDelays`]) off. Beyond 100 s [`Delays`] returns the longest
//! delay of all, which is not exceeded either, and [`RecentDelays`] returns 100 s.
//! *See also*: [`Histogram`](crate::Histogram), for any values, on the heap, and never below the value it stands for.
//!
//! ```
//! use tidegate_metrics::Delays;
//! use tidegate_units::Span;
//! let mut delays = Delays::default();
//! (1..=1_000).for_each(|us| delays.record(Span::from_micros(us)));
//! let median = delays.quantile(0.5).as_nanos();
//! assert!((492_000..=508_000).contains(&median), "{median}");
//! ```

use tidegate_units::{Instant, Span};

use crate::scale;

/// The unit of the scale in nanoseconds, as a power of two.
const UNIT_BITS: u32 = 10;
/// The longest delay that is distinguished: 100 s.
const LONGEST: u64 = 100_000_000_000;
/// How often the counts of [`RecentDelays`] are halved: 2³² ns, 4.3 s.
pub const HALVING: Span = Span::from_nanos(1 << HALVING_BITS);
const HALVING_BITS: u32 = 32;

const FULL: u32 = 5;
const COMPACT: u32 = 2;

/// The bucket of a delay, where `bits` bits after the leading one count.
const fn slot(nanos: u64, bits: u32) -> usize {
    let nanos = if nanos > LONGEST { LONGEST } else { nanos };
    scale::bucket(nanos.saturating_sub(1) >> UNIT_BITS, bits)
}

/// The lower end of `slot` in nanoseconds, which is not in it.
const fn lower(slot: usize, bits: u32) -> u64 {
    scale::lowest(slot, bits) << UNIT_BITS
}

const SLOTS: usize = slot(LONGEST, FULL) + 1;
const COMPACT_SLOTS: usize = slot(LONGEST, COMPACT) + 1;

/// The middle of the bucket that holds the `part`-th of `total`, by the `counts` of all; zero without any.
fn quantile(part: f64, total: u64, counts: impl Iterator<Item = u64>, bits: u32) -> Span {
    match scale::quantile(part.clamp(0.0, 1.0), total, counts) {
        Some(slot) => Span::from_nanos(u64::midpoint(lower(slot, bits), lower(slot + 1, bits))),
        None => Span::ZERO,
    }
}

/// Queueing delays since the start. See the [module](self).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Delays {
    counts: [u64; SLOTS],
    count: u64,
    sum: Span,
    longest: Span,
}

impl Default for Delays {
    fn default() -> Self {
        Self { counts: [0; SLOTS], count: 0, sum: Span::ZERO, longest: Span::ZERO }
    }
}

impl Delays {
    /// Counts one delay.
    #[inline]
    pub fn record(&mut self, waited: Span) {
        self.counts[slot(waited.as_nanos(), FULL)] += 1;
        self.count += 1;
        self.sum = Span::from_nanos(self.sum.as_nanos().saturating_add(waited.as_nanos()));
        self.longest = self.longest.max(waited);
    }
    /// Counts `times` delays of about `waited`, which another counter has put into wider buckets.
    pub fn record_many(&mut self, waited: Span, times: u64) {
        if times == 0 {
            return;
        }
        self.counts[slot(waited.as_nanos(), FULL)] += times;
        self.count += times;
        self.sum = Span::from_nanos(self.sum.as_nanos().saturating_add(waited.as_nanos().saturating_mul(times)));
        self.longest = self.longest.max(waited);
    }
    /// Adds those that `other` has counted.
    pub fn add(&mut self, other: &Self) {
        for (count, more) in self.counts.iter_mut().zip(&other.counts) {
            *count += more;
        }
        self.count += other.count;
        self.sum = Span::from_nanos(self.sum.as_nanos().saturating_add(other.sum.as_nanos()));
        self.longest = self.longest.max(other.longest);
    }
    /// Delays counted.
    pub fn count(&self) -> u64 {
        self.count
    }
    /// Whether none was counted.
    pub fn is_empty(&self) -> bool {
        self.count == 0
    }
    /// The sum of all.
    pub fn sum(&self) -> Span {
        self.sum
    }
    /// The longest, exactly.
    pub fn longest(&self) -> Span {
        self.longest
    }
    /// The delay that a share of `part` (0 to 1) of the packets did not exceed; zero when there was none.
    pub fn quantile(&self, part: f64) -> Span {
        let middle = quantile(part, self.count, self.counts.iter().copied(), FULL);
        let last = Span::from_nanos(lower(SLOTS - 1, FULL));
        // The last bucket also holds the delays that are longer than it reaches.
        if middle > last { self.longest } else { middle.min(self.longest) }
    }
    /// The delays counted since `before`, an earlier state of the same. [`longest`](Self::longest) is that of all time.
    /// With a `before` that is not earlier (counting began anew) all are returned.
    pub fn since(&self, before: &Self) -> Self {
        let mut new = *self;
        if before.count > self.count {
            return new;
        }
        for (count, old) in new.counts.iter_mut().zip(&before.counts) {
            *count = count.saturating_sub(*old);
        }
        new.count = new.counts.iter().sum();
        new.sum = Span::from_nanos(self.sum.as_nanos().saturating_sub(before.sum.as_nanos()));
        new
    }
    /// How many delays are at most each of [`Delays::BOUNDS`].
    pub fn cumulative(&self) -> [u64; Self::BOUNDS.len()] {
        let mut seen = 0;
        let mut slots = self.counts.iter().enumerate().peekable();
        Self::BOUNDS.map(|bound| {
            while let Some((_, count)) = slots.next_if(|(slot, _)| lower(slot + 1, FULL) <= bound.as_nanos()) {
                seen += count;
            }
            seen
        })
    }
    /// Ends of buckets, for the histograms of metrics: 16.4 µs, and each the double of the one before, to 17.2 s.
    pub const BOUNDS: [Span; 21] = {
        let mut bounds = [Span::ZERO; 21];
        let mut at = 0;
        while at < bounds.len() {
            bounds[at] = Span::from_nanos(16 << UNIT_BITS << at);
            at += 1;
        }
        bounds
    };
}

/// Queueing delays of the last few seconds. See the [module](self).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct RecentDelays {
    counts: [u16; COMPACT_SLOTS],
    /// The number of the last halving.
    halved: u32,
}

impl Default for RecentDelays {
    fn default() -> Self {
        Self { counts: [0; COMPACT_SLOTS], halved: 0 }
    }
}

impl RecentDelays {
    /// Counts one delay that ended at `now`.
    #[inline]
    pub fn record(&mut self, now: Instant, waited: Span) {
        let period = (now.as_nanos() >> HALVING_BITS) as u32;
        if period > self.halved {
            self.halve((period - self.halved).min(15));
            self.halved = period;
        }
        let slot = slot(waited.as_nanos(), COMPACT);
        if self.counts[slot] == u16::MAX {
            self.halve(1);
        }
        self.counts[slot] += 1;
    }
    fn halve(&mut self, times: u32) {
        self.counts.iter_mut().for_each(|count| *count >>= times);
    }
    /// The delay that a share of `part` (0 to 1) of the packets did not exceed; zero when there was none.
    pub fn quantile(&self, part: f64) -> Span {
        let counts = || self.counts.iter().map(|&count| u64::from(count));
        quantile(part, counts().sum(), counts(), COMPACT)
    }
}

/// The buckets that [`FewDelays`] has room for.
const FEW: usize = 8;

/// [`RecentDelays`] as long as they are in at most eight buckets, in 28 B.
///
/// *Law*: [`RecentDelays`] made from it has the counts of one that recorded the same delays.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct FewDelays {
    /// The number of the last halving.
    halved: u32,
    /// A bucket whose count is zero is free.
    counts: [u16; FEW],
    slots: [u8; FEW],
}

impl FewDelays {
    /// Counts one delay that ended at `now`. Returns `false`, and does not count it, where its bucket has no room.
    #[inline]
    pub fn record(&mut self, now: Instant, waited: Span) -> bool {
        let period = (now.as_nanos() >> HALVING_BITS) as u32;
        if period > self.halved {
            self.halve((period - self.halved).min(15));
            self.halved = period;
        }
        let slot = slot(waited.as_nanos(), COMPACT) as u8;
        let used = (0..FEW).find(|&at| self.slots[at] == slot && self.counts[at] > 0);
        let Some(at) = used.or_else(|| self.counts.iter().position(|&count| count == 0)) else { return false };
        if self.counts[at] == u16::MAX {
            self.halve(1);
        }
        self.slots[at] = slot;
        self.counts[at] += 1;
        true
    }
    fn halve(&mut self, times: u32) {
        self.counts.iter_mut().for_each(|count| *count >>= times);
    }
}

impl From<&FewDelays> for RecentDelays {
    fn from(few: &FewDelays) -> Self {
        let mut all = Self { halved: few.halved, ..Self::default() };
        for (&slot, &count) in few.slots.iter().zip(&few.counts) {
            // A free place may name a bucket that another one has.
            all.counts[usize::from(slot)] += count;
        }
        all
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use tidegate_core::random::Stream;

    /// Delays that move between few and many buckets, through halvings and a full count.
    #[test]
    fn few_delays_are_recent_delays() {
        let mut random = Stream::named(3, "few");
        let (mut few, mut all, mut full) = (FewDelays::default(), RecentDelays::default(), 0);
        let mut now = Instant::ZERO;
        for n in 0..400_000_u64 {
            now += Span::from_micros(if n < 100_000 { 0 } else { random.below(2_000) });
            let waited = Span::from_micros(1 << random.below(if n % 40_000 < 39_000 { 6 } else { 20 }));
            if !few.record(now, waited) {
                let kept = RecentDelays::from(&few);
                let mut beside = kept;
                beside.record(now, waited);
                assert_ne!(beside, kept);
                full += 1;
                continue;
            }
            all.record(now, waited);
            assert_eq!(RecentDelays::from(&few), all);
        }
        assert!((100..100_000).contains(&full), "{full}");
    }

    #[test]
    fn every_delay_lies_in_its_bucket() {
        for bits in [FULL, COMPACT] {
            let mut random = Stream::named(1, "delays");
            let edges = (0..37).flat_map(|k| [(1_u64 << k) - 1, 1 << k, (1 << k) + 1]);
            let drawn: Vec<u64> = (0..100_000).map(|_| random.next_u64() >> (28 + random.below(36) as u32)).collect();
            for nanos in edges.chain(drawn).map(|nanos| nanos.clamp(1, LONGEST)) {
                let slot = slot(nanos, bits);
                assert!(lower(slot, bits) < nanos && nanos <= lower(slot + 1, bits), "{nanos} ns in {slot}");
            }
            assert_eq!((slot(0, bits), slot(u64::MAX, bits)), (0, slot(LONGEST, bits)));
        }
        assert_eq!((SLOTS, COMPACT_SLOTS), (719, 102));
        assert_eq!((size_of::<Delays>(), size_of::<RecentDelays>(), size_of::<FewDelays>()), (5_776, 208, 28));
    }

    #[test]
    fn quantiles_are_as_near_as_the_manual_says() {
        let mut random = Stream::named(2, "delays");
        let mut waits: Vec<u64> =
            (0..10_000).map(|_| 33_000 + (random.next_u64() >> (30 + random.below(20) as u32))).collect();
        let (mut full, mut recent) = (Delays::default(), RecentDelays::default());
        for &wait in &waits {
            full.record(Span::from_nanos(wait));
            recent.record(Instant::ZERO, Span::from_nanos(wait));
        }
        waits.sort_unstable();
        for part in [0.01, 0.1, 0.5, 0.9, 0.99, 1.0] {
            let exact = waits[((part * 10_000.0) as usize).max(1) - 1] as f64;
            let off = |span: Span| (span.as_nanos() as f64 / exact - 1.0).abs();
            assert!(off(full.quantile(part)) <= 0.017, "{part}: {} for {exact}", full.quantile(part));
            assert!(off(recent.quantile(part)) <= 0.13, "{part}: {} for {exact}", recent.quantile(part));
        }
        assert_eq!(full.longest().as_nanos(), *waits.last().unwrap());
        assert_eq!(full.sum().as_nanos(), waits.iter().sum::<u64>());
    }

    /// A queue that drains for hours: delays beyond the scale.
    #[test]
    fn a_quantile_beyond_the_scale_is_not_exceeded() {
        let mut delays = Delays::default();
        for seconds in [1, 200, 3_000, 4_000] {
            delays.record(Span::from_secs(seconds));
        }
        assert!(delays.quantile(0.25) < Span::from_millis(1_017), "{}", delays.quantile(0.25));
        assert_eq!((delays.quantile(0.5), delays.quantile(1.0)), (Span::from_secs(4_000), Span::from_secs(4_000)));
    }

    #[test]
    fn what_is_cumulative_counts_exactly() {
        let mut delays = Delays::default();
        // On a bound, one beyond it, far beyond all.
        for nanos in [1, 16_384, 16_385, 32_768, 1_000_000, 60_000_000_000] {
            delays.record(Span::from_nanos(nanos));
        }
        let counts = delays.cumulative();
        assert_eq!(Delays::BOUNDS[..2].iter().map(|b| b.as_nanos()).collect::<Vec<_>>(), [16_384, 32_768]);
        // 1 ms is below 16.384 µs * 2^6 = 1.048576 ms, and above half of it.
        assert_eq!((counts[0], counts[1], counts[5], counts[6], counts[20], delays.count()), (2, 4, 4, 5, 5, 6));
    }

    #[test]
    fn what_is_old_is_forgotten() {
        let mut recent = RecentDelays::default();
        (0..1_000).for_each(|_| recent.record(Instant::ZERO, Span::from_millis(100)));
        let later = Instant::from_nanos(4 << HALVING_BITS);
        (0..100).for_each(|_| recent.record(later, Span::from_millis(1)));
        // 1,000 / 16 = 62 old ones against 100 new ones.
        assert!(recent.quantile(0.5) < Span::from_millis(2) && recent.quantile(0.9) > Span::from_millis(80));
        let much_later = Instant::from_nanos(40 << HALVING_BITS);
        recent.record(much_later, Span::from_millis(1));
        assert!(recent.quantile(1.0) < Span::from_millis(2));
        // A count that is full halves all of them, and their proportions stay.
        let mut full = RecentDelays::default();
        (0..200_000).for_each(|n| full.record(Instant::ZERO, Span::from_millis(if n % 4 == 0 { 80 } else { 1 })));
        assert!(full.quantile(0.7) < Span::from_millis(2) && full.quantile(0.8) > Span::from_millis(60));
    }

    #[test]
    fn differences_are_what_came_since() {
        let mut delays = Delays::default();
        delays.record(Span::from_millis(500));
        let before = delays;
        delays.record(Span::from_millis(1));
        let new = delays.since(&before);
        assert_eq!((new.count(), new.sum()), (1, Span::from_millis(1)));
        assert!(new.quantile(1.0) < Span::from_micros(1_100));
        assert_eq!(Delays::default().since(&before), Delays::default());
    }
}
