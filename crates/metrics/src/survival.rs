//! [`Survival`]: the distribution of durations of which some are known only to be longer than they had lasted when they were last seen.
//!
//! *Law*: without unfinished durations it is the distribution of the finished ones. Each unfinished one moves shares to longer durations
//! alone, so that no percentile becomes less.
//! *Source*: Kaplan and Meier, "Nonparametric estimation from incomplete observations", 1958.
//! *Notes*: the estimate assumes that durations which are cut by the end of a measurement are like the others. It ends at the longest
//! finished duration, and says nothing about the share that is left there: its percentiles are *not reached*, which is infinity.
//! It depends on the order of finished and unfinished durations, also of those in one bin of a histogram, so that the durations themselves
//! are kept as well, up to [`MOST_ORDERED`]. Without them the unfinished ones of a bin count as longer than the finished ones in it: shares
//! are too small then, and a percentile may be the next longer duration, however far that is.

use crate::{Histogram, Points};

/// The most finished durations whose order is kept.
pub const MOST_ORDERED: usize = 16_384;

/// Durations, some of which had not ended when they were last seen.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Survival {
    /// The finished durations.
    pub finished: Histogram,
    /// How long each unfinished one had lasted when it was last seen.
    pub open: Histogram,
    /// The number of those that can never end, as if they lasted for ever.
    pub endless: u64,
    /// The finished and the unfinished durations one by one, or fewer where there are too many.
    pub ordered: [Vec<u64>; 2],
}

impl Survival {
    /// Counts a finished duration.
    pub fn finish(&mut self, duration: u64) {
        self.finished.record(duration);
        if self.ordered[0].len() < MOST_ORDERED {
            self.ordered[0].push(duration);
        }
    }
    /// Counts one that has not ended.
    pub fn leave_open(&mut self, duration: u64) {
        self.open.record(duration);
        self.ordered[1].push(duration);
    }
    /// The number of durations.
    pub fn count(&self) -> u64 {
        self.finished.count() + self.unfinished()
    }
    /// The number of durations that had not ended.
    pub fn unfinished(&self) -> u64 {
        self.open.count() + self.endless
    }
    /// The duration that a share of `q` does not exceed, at most 1/64 too large as long as the order is kept; infinity if so many have
    /// not ended, and `None` without durations.
    pub fn quantile(&self, q: f64) -> Option<f64> {
        if self.unfinished() == 0 {
            return self.finished.quantile(q).map(|value| value as f64);
        }
        // Shares are sums of rounded numbers.
        let steps = self.steps();
        let found = steps.iter().find(|(_, share)| *share >= q - 1e-9);
        Some(found.map_or(f64::INFINITY, |(value, _)| *value as f64))
    }
    /// The distribution as points: a duration, the share that is at most as long. The last share is below one if the longest durations
    /// have not ended. Where none has ended, the only point is a share of zero at the longest that one had lasted: nothing is known to be
    /// shorter, which is another result than that nothing was measured.
    pub fn points(&self) -> Points {
        if self.unfinished() == 0 {
            return self.finished.points();
        }
        if self.finished.count() == 0 {
            return vec![(self.open.quantile(1.0).unwrap_or(0) as f64, 0.0)];
        }
        self.steps().into_iter().map(|(value, share)| (value as f64, share)).collect()
    }
    /// Adds the durations of `other`.
    pub fn merge(&mut self, other: &Self) {
        self.finished.merge(&other.finished);
        self.open.merge(&other.open);
        self.endless += other.endless;
        self.ordered.iter_mut().zip(&other.ordered).for_each(|(mine, theirs)| mine.extend(theirs));
    }

    /// The finished durations, rising, with the share that is at most as long.
    fn steps(&self) -> Vec<(u64, f64)> {
        let counts = [self.finished.count(), self.open.count()];
        if self.ordered.iter().zip(counts).any(|(known, count)| known.len() as u64 != count) {
            return shares(self.finished.buckets(), self.open.buckets(), self.count()).collect();
        }
        let mut ordered = self.ordered.clone();
        ordered.iter_mut().for_each(|values| values.sort_unstable());
        let [ended, open] = ordered.each_ref().map(|values| values.iter().map(|value| (*value, 1)));
        // One step for each bin in use, as in any histogram.
        let mut steps: Vec<(u64, f64)> = Vec::new();
        for (value, share) in shares(ended, open, self.count()) {
            let upper = self.finished.upper(value);
            match steps.last_mut() {
                Some(last) if last.0 == upper => last.1 = share,
                _ => steps.push((upper, share)),
            }
        }
        steps
    }
}

/// The estimate of Kaplan and Meier: each of the `ended` values with the share that is at most as large. Both kinds of values rise, each
/// with how many there are; `open` ones are larger than they seem, and `count` is of all, also of those that never end.
pub fn shares<T: PartialOrd>(
    ended: impl Iterator<Item = (T, u64)>,
    open: impl Iterator<Item = (T, u64)>,
    count: u64,
) -> impl Iterator<Item = (T, f64)> {
    let mut open = open.peekable();
    let (mut at_risk, mut longer) = (count, 1.0);
    ended.map(move |(value, ended)| {
        // One that was last seen at this value was larger.
        while let Some((_, unseen)) = open.next_if(|(seen, _)| *seen < value) {
            at_risk -= unseen;
        }
        longer *= 1.0 - ended as f64 / at_risk as f64;
        at_risk -= ended;
        (value, 1.0 - longer)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn histogram(values: &[u64]) -> Histogram {
        let mut histogram = Histogram::default();
        values.iter().for_each(|value| histogram.record(*value));
        histogram
    }

    /// The remission times of the 21 patients who were given 6-MP (Freireich et al., 1963; Kalbfleisch and Prentice, table 1.1): the
    /// estimate of survival is in each textbook, and in lifelines: 0.857, 0.807, 0.753, 0.690, 0.627, 0.538, 0.448.
    #[test]
    fn remission_times_are_as_in_textbooks() {
        let survival = Survival {
            finished: histogram(&[6, 6, 6, 7, 10, 13, 16, 22, 23]),
            open: histogram(&[6, 9, 10, 11, 17, 19, 20, 25, 32, 32, 34, 35]),
            ..Survival::default()
        };
        let left: Vec<(f64, f64)> =
            survival.points().into_iter().map(|(at, share)| (at, ((1.0 - share) * 1e3).round() / 1e3)).collect();
        let expected =
            [(6.0, 0.857), (7.0, 0.807), (10.0, 0.753), (13.0, 0.69), (16.0, 0.627), (22.0, 0.538), (23.0, 0.448)];
        assert_eq!(left, expected);
        // The median is 23 weeks; of 45 % nobody knows how long it lasts.
        assert_eq!((survival.quantile(0.5), survival.quantile(0.56)), (Some(23.0), Some(f64::INFINITY)));
        assert_eq!((survival.count(), survival.unfinished()), (21, 12));
    }

    /// Where nothing has ended, nobody knows a share above zero, and the distribution says so.
    #[test]
    fn what_never_ends_has_a_curve_at_zero() {
        let mut survival = Survival::default();
        assert!(survival.points().is_empty());
        survival.endless = 1;
        assert_eq!(survival.points(), [(0.0, 0.0)]);
        survival.leave_open(7);
        survival.leave_open(40);
        assert_eq!(survival.points(), [(40.0, 0.0)]);
    }

    /// The order within a bin matters: 1000 was left open before 1001 ended, so that one of the three that lasted as long ended there. By
    /// bins alone it was one of four, and three of ten ended at 1500 only.
    #[test]
    fn the_order_within_a_bin_is_kept() {
        let mut survival = Survival::default();
        survival.leave_open(1000);
        survival.finish(1001);
        survival.finish(1500);
        survival.leave_open(2000);
        let upper = |value: u64| histogram(&[value, 5000]).quantile(0.5).expect("a value") as f64;
        assert_eq!((survival.quantile(0.3), survival.quantile(0.6)), (Some(upper(1001)), Some(1500.0)));
        let bins = Survival { ordered: Default::default(), ..survival.clone() };
        assert_eq!(bins.quantile(0.3), Some(1500.0));
        let thirds = survival.points().into_iter().map(|point| (point.1 * 3.0 * 1e9).round());
        assert!(thirds.eq([1e9, 2e9]), "{:?}", survival.points());
        // Against the estimate by the durations themselves: at most 1/64 above it, and never below.
        let mut state = 7_u64;
        let mut draw = move || {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            state >> 33
        };
        for _ in 0..200 {
            let (mut survival, mut ended, mut open) = (Survival::default(), Vec::new(), Vec::new());
            for _ in 0..40 {
                let duration = 100_000 + draw() % 20_000;
                if draw() % 3 == 0 {
                    survival.leave_open(duration);
                    open.push((duration, 1));
                } else {
                    survival.finish(duration);
                    ended.push((duration, 1));
                }
            }
            ended.sort_unstable();
            open.sort_unstable();
            let exact: Vec<(u64, f64)> = shares(ended.into_iter(), open.into_iter(), 40).collect();
            for q in [0.1, 0.5, 0.9] {
                let found = survival.quantile(q).expect("durations");
                let exact = exact.iter().find(|step| step.1 >= q - 1e-9).map_or(f64::INFINITY, |step| step.0 as f64);
                assert!(
                    found == exact || (found >= exact && found <= exact * (1.0 + 1.0 / 64.0)),
                    "{q}: {found} {exact}"
                );
            }
        }
        // Too many are counted by bins.
        let mut many = Survival::default();
        (0..=MOST_ORDERED as u64).for_each(|n| many.finish(n));
        many.leave_open(3);
        assert_eq!((many.ordered[0].len(), many.count()), (MOST_ORDERED, MOST_ORDERED as u64 + 2));
        assert!(many.quantile(0.5).is_some_and(|half| (8_192.0..8_400.0).contains(&half)));
    }

    #[test]
    fn unfinished_durations_never_make_a_percentile_less() {
        let finished = histogram(&(1..=100).collect::<Vec<_>>());
        let plain = Survival { finished: finished.clone(), ..Survival::default() };
        let with = |open: &[u64], endless| {
            let (finished, open) = (finished.clone(), histogram(open));
            Survival { finished, open, endless, ..Survival::default() }
        };
        for q in [0.01, 0.5, 0.9, 0.99, 1.0] {
            assert_eq!(plain.quantile(q), finished.quantile(q).map(|value| value as f64), "{q}");
            for other in [with(&[0, 0, 0], 0), with(&[50, 60], 0), with(&[200], 0), with(&[], 1)] {
                assert!(other.quantile(q) >= plain.quantile(q), "{q}: {other:?}");
            }
        }
        // Transfers that had just begun say nothing; one that outlasts all leaves the last percentile open.
        let just_begun = with(&[0, 0, 0], 0).points();
        assert!(just_begun.iter().zip(plain.points()).all(|(a, b)| a.0 == b.0 && (a.1 - b.1).abs() < 1e-12));
        let mut one = with(&[200], 0);
        assert_eq!((one.quantile(0.99), one.quantile(1.0)), (Some(100.0), Some(f64::INFINITY)));
        one.merge(&with(&[], 2));
        assert_eq!((one.count(), one.unfinished(), one.quantile(0.98)), (203, 3, Some(100.0)));
        let stalled = Survival { endless: 3, ..Survival::default() };
        assert_eq!((stalled.quantile(0.5), stalled.points()), (Some(f64::INFINITY), vec![(0.0, 0.0)]));
        assert_eq!(Survival::default().quantile(0.5), None);
    }
}
