//! [`Histogram`]: quantiles of any number of values in constant memory.
//!
//! *Law*: a quantile is at most 1/64 above the value it stands for, and never below it; values below 128 are exact.
//! *Units*: those of the values.
//! *Cost*: a bit scan and an addition a value; 30 kB from the first value on.
//! *See also*: [`Delays`](crate::Delays), which is 5.8 kB without the heap, for durations alone. The crate `hdrhistogram`
//! is as fast, and for two digits as large; it cannot be compared bit for bit after merging, which tests do here.

use crate::scale;

/// Buckets of an octave, as a power of two.
const BITS: u32 = 6;
const BUCKETS: usize = scale::bucket(u64::MAX, BITS) + 1;

/// A log-linear histogram: constant memory, quantiles at most 1/64 too high.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Histogram(Option<Box<Counts>>);

#[derive(Clone, PartialEq, Eq, Debug)]
struct Counts {
    buckets: [u64; BUCKETS],
    total: u64,
    sum: u128,
    least: u64,
    most: u64,
}

/// A distribution in eight numbers, all zero without values.
#[derive(Clone, Copy, PartialEq, Debug, Default)]
pub struct Quantiles {
    /// The number of values.
    pub count: u64,
    /// The smallest value.
    pub min: u64,
    /// The mean.
    pub mean: f64,
    /// The median.
    pub p50: u64,
    /// The value that 90 of 100 do not exceed.
    pub p90: u64,
    /// The value that 99 of 100 do not exceed.
    pub p99: u64,
    /// The value that 999 of 1000 do not exceed.
    pub p999: u64,
    /// The largest value.
    pub max: u64,
}

impl Counts {
    /// The largest value of a bucket.
    fn value_of(&self, bucket: usize) -> u64 {
        scale::highest(bucket, BITS).min(self.most)
    }
    fn empty() -> Box<Self> {
        Box::new(Self { buckets: [0; BUCKETS], total: 0, sum: 0, least: u64::MAX, most: 0 })
    }
}

impl Histogram {
    /// Counts `value`.
    pub fn record(&mut self, value: u64) {
        self.record_many(value, 1);
    }
    /// Counts `value` `times` times.
    pub fn record_many(&mut self, value: u64, times: u64) {
        // A histogram that stays empty needs no memory.
        let counts = self.0.get_or_insert_with(Counts::empty);
        counts.buckets[scale::bucket(value, BITS)] += times;
        counts.total += times;
        counts.sum += u128::from(value) * u128::from(times);
        counts.least = counts.least.min(value);
        counts.most = counts.most.max(value);
    }
    /// The greatest value that is counted with `value`, by which percentiles state it.
    pub(crate) fn upper(&self, value: u64) -> u64 {
        self.0.as_ref().map_or(value, |counts| counts.value_of(scale::bucket(value, BITS)))
    }
    /// Bytes of memory.
    pub fn footprint(&self) -> usize {
        size_of::<Self>() + self.0.as_ref().map_or(0, |_| size_of::<Counts>())
    }
    /// The number of values.
    pub fn count(&self) -> u64 {
        self.0.as_ref().map_or(0, |counts| counts.total)
    }
    /// The exact mean; `None` without values.
    pub fn mean(&self) -> Option<f64> {
        self.used().map(|counts| counts.sum as f64 / counts.total as f64)
    }
    /// The smallest value.
    pub fn least(&self) -> Option<u64> {
        self.used().map(|counts| counts.least)
    }
    /// The largest value.
    pub fn most(&self) -> Option<u64> {
        self.used().map(|counts| counts.most)
    }
    /// The value that a share of `q` of the values do not exceed (0.5: the median), at most 1/64 too large.
    pub fn quantile(&self, q: f64) -> Option<u64> {
        let counts = self.used()?;
        Some(counts.value_of(scale::quantile(q, counts.total, counts.buckets.iter().copied())?))
    }
    /// The quantiles that reports show.
    pub fn quantiles(&self) -> Quantiles {
        let quantile = |q| self.quantile(q).unwrap_or(0);
        Quantiles {
            count: self.count(),
            min: self.least().unwrap_or(0),
            mean: self.mean().unwrap_or(0.0),
            p50: quantile(0.5),
            p90: quantile(0.9),
            p99: quantile(0.99),
            p999: quantile(0.999),
            max: self.most().unwrap_or(0),
        }
    }
    /// Adds the values of `other`.
    pub fn merge(&mut self, other: &Self) {
        let Some(other) = other.used() else { return };
        let counts = self.0.get_or_insert_with(Counts::empty);
        for (mine, theirs) in counts.buckets.iter_mut().zip(&other.buckets) {
            *mine += theirs;
        }
        counts.total += other.total;
        counts.sum += other.sum;
        counts.least = counts.least.min(other.least);
        counts.most = counts.most.max(other.most);
    }
    /// The buckets in use, from low to high: the largest value of each, and how many values it has.
    pub fn buckets(&self) -> impl Iterator<Item = (u64, u64)> + '_ {
        self.used().into_iter().flat_map(|counts| {
            let used = counts.buckets.iter().enumerate().filter(|(_, count)| **count > 0);
            used.map(|(bucket, count)| (counts.value_of(bucket), *count))
        })
    }
    /// The distribution as (value, share of the values that are at most it), one point for each bucket in use.
    pub fn distribution(&self) -> impl Iterator<Item = (u64, f64)> + '_ {
        let (mut seen, total) = (0, self.count());
        self.buckets().map(move |(value, count)| {
            seen += count;
            (value, seen as f64 / total as f64)
        })
    }
    /// The histogram of `f(value)`, where each value counts as the largest of its bucket.
    pub fn map(&self, f: impl Fn(u64) -> u64) -> Self {
        let mut mapped = Self::default();
        self.buckets().for_each(|(value, count)| mapped.record_many(f(value), count));
        mapped
    }

    fn used(&self) -> Option<&Counts> {
        self.0.as_deref().filter(|counts| counts.total > 0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use tidegate_core::random::Stream;

    #[test]
    fn quantiles_against_the_sorted_values() {
        let mut random = Stream::named(5, "histogram");
        let (mut histogram, mut values) = (Histogram::default(), Vec::new());
        for _ in 0..20_000 {
            let value = random.next_u64() >> random.below(64);
            histogram.record(value);
            values.push(value);
        }
        values.sort_unstable();
        for q in [0.0, 0.001, 0.1, 0.5, 0.9, 0.99, 0.999, 1.0] {
            let exact = values[((q * 20_000.0) as usize).clamp(1, 20_000) - 1];
            let got = histogram.quantile(q).unwrap();
            assert!(got >= exact && got - exact <= exact / 64 + 1, "{q}: {got} for {exact}");
        }
        assert_eq!(histogram.least(), values.first().copied());
        assert_eq!(histogram.most(), values.last().copied());
        assert_eq!(scale::bucket(u64::MAX, BITS), BUCKETS - 1);
        assert_eq!(scale::highest(BUCKETS - 1, BITS), u64::MAX);
    }

    #[test]
    fn quantiles_of_a_ramp() {
        let mut histogram = Histogram::default();
        (1..=1000).for_each(|value| histogram.record(value));
        let quantiles = histogram.quantiles();
        assert_eq!((quantiles.count, quantiles.min, quantiles.max), (1000, 1, 1000));
        assert!((quantiles.mean - 500.5).abs() < 1e-9);
        for (got, exact) in [(quantiles.p50, 500), (quantiles.p90, 900), (quantiles.p99, 990), (quantiles.p999, 999)] {
            assert!(got >= exact && got <= exact + exact / 64 + 1, "{got} {exact}");
        }
        assert_eq!(histogram.map(|value| value / 1000).most(), Some(1));
        assert_eq!(Histogram::default().quantile(0.5), None);
        assert_eq!(Histogram::default().quantiles(), Quantiles::default());
    }

    /// The rank of a quantile that reports show is exact although the quantile is a binary fraction: 0.9 of 10 is the
    /// ninth value, never the tenth.
    #[test]
    fn ranks_are_exact() {
        for (permille, q) in [(500_u64, 0.5), (900, 0.9), (990, 0.99), (999, 0.999)] {
            for total in (1..200_000_u64).chain((1_u64 << 40) - 1_000..1_u64 << 40) {
                let exact = (total * permille).div_ceil(1000);
                assert_eq!((q * total as f64).ceil() as u64, exact, "{q} of {total}");
            }
        }
    }

    #[test]
    fn merging_is_recording_both() {
        let (mut a, mut b, mut both) = (Histogram::default(), Histogram::default(), Histogram::default());
        for value in 0..1000_u64 {
            if value % 3 == 0 { &mut a } else { &mut b }.record(value * value);
            both.record(value * value);
        }
        a.merge(&b);
        assert_eq!(a, both);
    }
}
