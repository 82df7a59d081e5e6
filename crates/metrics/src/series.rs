//! [`Series`]: a value over time in a fixed number of bins.
//!
//! When time runs past the last bin, neighbours are merged and the bins become twice as wide: an hour and a second
//! take the same memory, at a resolution of at least 1/512 of the time that passed.

use tidegate_units::{Instant, Span};

/// Bins of a series.
pub(crate) const BINS: usize = 1024;

/// Sums over time in a fixed number of bins, which become wider as time passes.
#[derive(Clone, PartialEq, Debug)]
pub struct Series {
    width: u64,
    sums: Vec<u64>,
    // Records per bin, for means.
    counts: Vec<u64>,
}

impl Series {
    /// An empty series that begins with bins of `width`.
    pub fn new(width: Span) -> Self {
        Self { width: width.as_nanos().max(1), sums: Vec::new(), counts: Vec::new() }
    }
    /// Adds `value` at `at`.
    pub fn add(&mut self, at: Instant, value: u64) {
        let mut bin = at.as_nanos() / self.width;
        while bin >= BINS as u64 {
            self.halve();
            bin = at.as_nanos() / self.width;
        }
        let bin = bin as usize;
        if bin >= self.sums.len() {
            self.sums.resize(bin + 1, 0);
            self.counts.resize(bin + 1, 0);
        }
        self.sums[bin] += value;
        self.counts[bin] += 1;
    }
    /// Adds what `other` has, whose first bins were as wide as these; the result has the wider bins of the two.
    pub fn merge(&mut self, other: &Self) {
        while self.width < other.width {
            self.halve();
        }
        let bins = other.sums.iter().zip(&other.counts).enumerate();
        for (number, (sum, count)) in bins {
            let bin = (number as u64 * other.width / self.width) as usize;
            if bin >= self.sums.len() {
                self.sums.resize(bin + 1, 0);
                self.counts.resize(bin + 1, 0);
            }
            self.sums[bin] += sum;
            self.counts[bin] += count;
        }
    }
    /// Bytes of memory.
    pub fn footprint(&self) -> usize {
        size_of::<Self>() + (self.sums.capacity() + self.counts.capacity()) * size_of::<u64>()
    }
    /// The series until `end`: time in which nothing was added has empty bins, so that series of runs of one length have the
    /// same bins.
    #[must_use]
    pub fn until(mut self, end: Instant) -> Self {
        let bins = |width: u64| end.as_nanos().div_ceil(width) as usize;
        while bins(self.width) > BINS {
            self.halve();
        }
        let bins = bins(self.width).max(self.sums.len());
        self.sums.resize(bins, 0);
        self.counts.resize(bins, 0);
        self
    }
    /// How wide a bin is.
    pub fn width(&self) -> Span {
        Span::from_nanos(self.width)
    }
    /// The sums, each with the time at which its bin begins.
    pub fn sums(&self) -> impl Iterator<Item = (Instant, u64)> + '_ {
        self.sums.iter().enumerate().map(|(bin, sum)| (self.start(bin), *sum))
    }
    /// The mean of the added values in each bin that has any.
    pub fn means(&self) -> impl Iterator<Item = (Instant, f64)> + '_ {
        let bins = self.sums.iter().zip(&self.counts).enumerate();
        bins.filter(|(_, (_, n))| **n > 0).map(|(bin, (sum, n))| (self.start(bin), *sum as f64 / *n as f64))
    }

    fn start(&self, bin: usize) -> Instant {
        Instant::from_nanos(bin as u64 * self.width)
    }
    #[cold]
    fn halve(&mut self) {
        self.width *= 2;
        for values in [&mut self.sums, &mut self.counts] {
            for bin in 0..values.len().div_ceil(2) {
                values[bin] = values[2 * bin] + values.get(2 * bin + 1).copied().unwrap_or(0);
            }
            values.truncate(values.len().div_ceil(2));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_sum_survives_any_length() {
        let mut series = Series::new(Span::from_millis(1));
        for step in 0..100_000_u64 {
            series.add(Instant::from_nanos(step * 1_000_000), 1);
        }
        // 100 s in bins of 128 ms: 100,000 / 1024 = 97.7, the next power of two.
        assert_eq!(series.width(), Span::from_millis(128));
        assert_eq!(series.sums().count(), 782);
        assert_eq!(series.sums().map(|(_, sum)| sum).sum::<u64>(), 100_000);
        assert_eq!(series.sums().nth(1), Some((Instant::from_nanos(128_000_000), 128)));
        assert!(series.means().all(|(_, mean)| mean == 1.0));
    }

    #[test]
    fn a_series_that_ends_early_lasts_until_the_end_of_the_run() {
        let (mut early, mut whole) = (Series::new(Span::from_millis(1)), Series::new(Span::from_millis(1)));
        for step in 0..5_000_u64 {
            let at = Instant::from_nanos(step * 1_000_000);
            whole.add(at, 1);
            if step < 10 {
                early.add(at, 1);
            }
        }
        let end = Instant::from_nanos(5_000_000_000);
        let [early, until] = [early, whole.clone()].map(|series| series.until(end));
        assert_eq!(until, whole);
        assert_eq!((early.width(), early.sums().count()), (whole.width(), whole.sums().count()));
        assert_eq!(early.sums().map(|(_, sum)| sum).sum::<u64>(), 10);
        assert_eq!(early.means().count(), 2, "an empty bin has no mean");
        // The rate of a bin that the end cuts is that of the time until the end.
        let mut series = Series::new(Span::from_secs(1));
        series.add(Instant::ZERO, 125_000);
        series.add(Instant::from_nanos(1_100_000_000), 125_000);
        assert_eq!(series.rate_points(Instant::from_nanos(1_500_000_000)), [(0.0, 1e6), (1.0, 2e6)]);
        assert_eq!(series.rate_points(Instant::from_nanos(1_200_000_000)), [(0.0, 1e6)]);
    }

    #[test]
    fn merging_is_adding_to_one() {
        let (mut short, mut long) = (Series::new(Span::from_millis(1)), Series::new(Span::from_millis(1)));
        let mut both = Series::new(Span::from_millis(1));
        for step in 0..5_000_u64 {
            let at = Instant::from_nanos(step * 1_000_000);
            if step < 700 {
                short.add(at, step);
                both.add(at, step);
            }
            long.add(at, 7);
            both.add(at, 7);
        }
        assert_ne!(short.width(), long.width());
        let mut merged = short.clone();
        merged.merge(&long);
        assert_eq!(merged, both);
        long.merge(&short);
        assert_eq!(long, both);
    }
}
