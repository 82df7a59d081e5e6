//! [`Occupancy`]: how many there are of something, as its mean over time.
//!
//! *Law*: the mean of a bin is the integral of the number over the bin, divided by its width, whatever the order in which steps are added.
//! *Notes*: a bin takes as many numbers as one of a [`Series`](crate::Series), and becomes wider likewise.
//! *Cost*: O(1) for each step, however long the time is between two of them.

use tidegate_units::{Instant, Span};

use crate::series::BINS;

/// A number that rises and falls in steps, in a fixed number of bins, which become wider as time passes.
#[derive(Clone, PartialEq, Debug)]
pub struct Occupancy {
    width: u64,
    /// For each bin the sum of the steps in it, each times the nanoseconds that are left of the bin, and their plain sum.
    bins: Vec<(i128, i64)>,
}

impl Occupancy {
    /// Zero from the beginning on, in bins that begin with `width`.
    pub fn new(width: Span) -> Self {
        Self { width: width.as_nanos().max(1), bins: Vec::new() }
    }
    /// The number is `by` more from `at` on.
    pub fn step(&mut self, at: Instant, by: i64) {
        let at = at.as_nanos();
        while at / self.width >= BINS as u64 {
            self.halve();
        }
        let bin = (at / self.width) as usize;
        if bin >= self.bins.len() {
            self.bins.resize(bin + 1, (0, 0));
        }
        let (part, step) = &mut self.bins[bin];
        *part += i128::from(by) * i128::from((bin as u64 + 1) * self.width - at);
        *step += by;
    }
    /// Adds what `other` has, whose first bins were as wide as these; the result has the wider bins of the two.
    pub fn merge(&mut self, other: &Self) {
        let mut other = other.clone();
        while self.width < other.width {
            self.halve();
        }
        while other.width < self.width {
            other.halve();
        }
        self.bins.resize(self.bins.len().max(other.bins.len()), (0, 0));
        for ((part, step), (more, steps)) in self.bins.iter_mut().zip(&other.bins) {
            *part += more;
            *step += steps;
        }
    }
    /// Bytes of memory.
    pub fn footprint(&self) -> usize {
        size_of::<Self>() + self.bins.capacity() * size_of::<(i128, i64)>()
    }
    /// How wide a bin is.
    pub fn width(&self) -> Span {
        Span::from_nanos(self.width)
    }
    /// The mean of the number in each bin until `end`, with the time at which the bin begins. Of one that `end` cuts it is the mean before.
    /// Where `end` is after the last bin that there can be, the bins are as wide as if a step had been there.
    pub fn means(&self, end: Instant) -> impl Iterator<Item = (Instant, f64)> + use<> {
        let end = end.as_nanos();
        let mut all = self.clone();
        while end.div_ceil(all.width) > BINS as u64 {
            all.halve();
        }
        let width = all.width;
        let mut before = 0_i64;
        (0..end.div_ceil(width) as usize).map(move |bin| {
            let begin = bin as u64 * width;
            let cut = (begin + width).saturating_sub(end);
            let (part, step) = all.bins.get(bin).copied().unwrap_or_default();
            let sum = i128::from(before) * i128::from(width - cut) + part - i128::from(step) * i128::from(cut);
            before += step;
            (Instant::from_nanos(begin), sum as f64 / (width - cut) as f64)
        })
    }
    /// The sums of all bins, for a digest.
    pub(crate) fn numbers(&self) -> impl Iterator<Item = i128> + '_ {
        self.bins.iter().flat_map(|(part, step)| [*part, i128::from(*step)])
    }

    #[cold]
    fn halve(&mut self) {
        let old = i128::from(self.width);
        self.width *= 2;
        let merged = |two: &[(i128, i64)]| {
            let (first, step) = two[0];
            let (second, later) = two.get(1).copied().unwrap_or_default();
            // A step in the first half counts for all of the second.
            (first + i128::from(step) * old + second, step + later)
        };
        self.bins = self.bins.chunks(2).map(merged).collect();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(nanos: u64) -> Instant {
        Instant::from_nanos(nanos)
    }

    fn means(of: &Occupancy, end: u64) -> Vec<f64> {
        of.means(at(end)).map(|(_, mean)| mean).collect()
    }

    /// Ten packets at once each 100 ns, which leave every 10 ns: 4.5 of them in 100 ns, and not what each found.
    #[test]
    fn a_mean_is_over_time_and_not_over_steps() {
        let mut queue = Occupancy::new(Span::from_nanos(100));
        for burst in [0, 100, 200] {
            queue.step(at(burst), 10);
            (1..=10).for_each(|packet| queue.step(at(burst + 10 * packet), -1));
        }
        assert_eq!(means(&queue, 300), [5.5, 5.5, 5.5]);
        // One that stays counts until the end, also in bins in which nothing happens, and in the last one as far as it goes.
        queue.step(at(350), 3);
        assert_eq!(means(&queue, 640), [5.5, 5.5, 5.5, 1.5, 3.0, 3.0, 3.0]);
        assert_eq!(means(&queue, 360), [5.5, 5.5, 5.5, 0.5]);
    }

    /// A capture may end 60 years after the last packet that waited: the number of bins is bounded by then as well.
    #[test]
    fn a_late_end_makes_bins_wider_and_not_more() {
        let mut queue = Occupancy::new(Span::from_millis(1));
        queue.step(at(0), 1);
        queue.step(at(500), -1);
        let years = 60 * 365 * 86_400 * 1_000_000_000;
        let means = means(&queue, years);
        assert!((BINS / 2..=BINS).contains(&means.len()), "{}", means.len());
        assert!(means[0] > 0.0 && means[1..].iter().all(|mean| *mean == 0.0));
        // A number that does not change is the same in all of them.
        queue.step(at(1_000), 3);
        assert!(queue.means(at(years)).skip(1).all(|(_, mean)| mean == 3.0));
    }

    /// The integral is the same in bins of any width, in any order of the steps.
    #[test]
    fn the_integral_survives_any_length() {
        let steps: Vec<(u64, i64)> =
            (0..40_000).map(|n: u64| (n * 37 % 100_003, if n.is_multiple_of(3) { 2 } else { -1 })).collect();
        let of = |width: u64, steps: &[(u64, i64)]| {
            let mut all = Occupancy::new(Span::from_nanos(width));
            steps.iter().for_each(|(time, by)| all.step(at(*time), *by));
            all
        };
        let (fine, coarse) = (of(1, &steps), of(64, &steps));
        assert_eq!((fine.width().as_nanos(), coarse.width().as_nanos()), (128, 128));
        let reversed: Vec<(u64, i64)> = steps.iter().rev().copied().collect();
        assert_eq!(
            fine.means(at(100_003)).collect::<Vec<_>>(),
            of(1, &reversed).means(at(100_003)).collect::<Vec<_>>()
        );
        let (mut first, second) = (of(1, &steps[..500]), of(64, &steps[500..]));
        first.merge(&second);
        assert_eq!(first.means(at(100_003)).collect::<Vec<_>>(), fine.means(at(100_003)).collect::<Vec<_>>());
        assert_eq!(fine.means(at(100_003)).collect::<Vec<_>>(), coarse.means(at(100_003)).collect::<Vec<_>>());
        let integral: i64 = steps.iter().map(|(time, by)| by * (100_003 - *time as i64)).sum();
        let sum: f64 =
            fine.means(at(100_003)).map(|(begin, mean)| mean * (100_003 - begin.as_nanos()).min(128) as f64).sum();
        assert!((sum - integral as f64).abs() < 1e-3, "{sum} {integral}");
    }
}
