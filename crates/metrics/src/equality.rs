//! [`Equality`]: whether two variants are equal for all purposes, by the same runs that tell whether they differ.
//!
//! *Law*: with [`LEVEL`] as the level, two variants whose means differ by [`MARGIN`] of the greater one or more are called equal with a
//! probability of at most 5 %.
//! *Source*: two one-sided tests (TOST): Schuirmann, *A comparison of the two one-sided tests procedure and the power approach for
//! assessing the equivalence of average bioavailability* (1987). The margin is a share of a mean that is measured too, so that each
//! test is one of a weighted difference, as in Sasabuchi (1980) and Fieller (1954), and not of the difference and a fixed number.
//! *See also*: [`Difference`]. Neither test is the other's opposite: from few runs, both stay open.

use crate::difference::{Difference, FEWEST_RUNS, POWER};
use crate::summary::LEVEL;

/// The share of the greater mean up to which a difference does not matter.
pub const MARGIN: f64 = 0.02;

/// The two one-sided tests of two samples.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Equality {
    /// The first mean, less the margin, minus the second; and the second, less the margin, minus the first. Both means are below zero
    /// if the variants are equal.
    sides: [Difference; 2],
    /// The number of runs.
    runs: usize,
}

impl Equality {
    /// Tests two samples of values of one sign. `weighted` returns the difference of the first mean, times the first weight, and the second
    /// mean, times the second weight. `None` if it does, or if the seeds do not change the difference of the means: there is nothing to
    /// test then.
    pub fn of(weighted: impl Fn(f64, f64) -> Option<Difference>) -> Option<Self> {
        Self::within(MARGIN, &weighted)
    }

    /// As [`of`](Self::of), with another margin.
    fn within(margin: f64, weighted: impl Fn(f64, f64) -> Option<Difference>) -> Option<Self> {
        let plain = weighted(1.0, 1.0).filter(|plain| !plain.is_fixed())?;
        let least = 1.0 - margin;
        // The sum of both means, so that values below zero are turned.
        let sign = if weighted(1.0, -1.0)?.mean < 0.0 { -1.0 } else { 1.0 };
        Some(Self { sides: [weighted(sign * least, sign)?, weighted(-sign, -sign * least)?], runs: plain.runs })
    }

    /// By which share of the greater mean two samples may differ at most: the least margin within which they would be found equal, as one of
    /// `comparisons`. It is above [`MARGIN`] wherever Holm's correction for as many does not find them equal within that. Infinity if
    /// they may differ by all of it.
    pub fn reach(comparisons: usize, weighted: impl Fn(f64, f64) -> Option<Difference>) -> Option<f64> {
        let level = LEVEL / comparisons.max(1) as f64;
        let finds = |margin: f64| Some(Self::within(margin, &weighted)?.p() <= level);
        // All of it has no logarithm.
        let (mut low, mut high) = (0.0, 1.0 - 1e-9);
        if !finds(high)? {
            return Some(f64::INFINITY);
        }
        for _ in 0..30 {
            let middle = f64::midpoint(low, high);
            if finds(middle)? { high = middle } else { low = middle }
        }
        Some(high)
    }

    /// The probability of samples that are this equal or more so, if the means differ by the margin.
    pub fn p(&self) -> f64 {
        self.sides.iter().map(Difference::below_zero).fold(0.0, f64::max)
    }

    /// How many more runs would find this equality with a probability of [`POWER`], as [`Difference::more_runs`] plans for a
    /// difference.
    pub fn more_runs(&self, comparisons: usize) -> Option<u64> {
        let (sides, runs) = (&self.sides, self.runs);
        let level = LEVEL / comparisons.max(1) as f64;
        // The probability that both tests succeed is at least 1 less those that each of them fails.
        let finds = |runs: u64| {
            let missed = |side: &Difference| 1.0 - side.power_below_zero(runs, level);
            sides.iter().map(missed).sum::<f64>() <= 1.0 - POWER
        };
        if runs < FEWEST_RUNS || sides.iter().any(|side| side.mean >= 0.0) {
            return None;
        }
        let all = crate::difference::fewest(finds)?;
        Some(all.saturating_sub(runs as u64).max(1))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::student::{critical, tails};

    fn paired(a: &[f64], b: &[f64]) -> Equality {
        let of = |x: f64, y: f64| Difference::paired(&a.iter().zip(b).map(|(a, b)| x * a - y * b).collect::<Vec<_>>());
        Equality::of(of).expect("pairs")
    }

    /// Means 100 and 99.5 in four pairs.
    #[test]
    fn worked_numbers() {
        // 0.98 * 100 - b = -2.5, -0.5, -2.5, -0.5: mean -1.5, variance 4/3, standard error 1/sqrt(3), t = -2.598 with 3 degrees.
        let (a, b) = ([100.0; 4], [100.5, 98.5, 100.5, 98.5]);
        // 0.98 * b - 100: mean -2.49, standard error 0.98/sqrt(3): t = -4.401, the smaller probability.
        let t = 1.5 * 3_f64.sqrt();
        let found = paired(&a, &b);
        assert!((found.p() - tails(t, 3.0) / 2.0).abs() < 1e-9, "{found:?}");
        assert!(found.p() < 0.05 && t > critical(0.1, 3.0));
        // The order does not matter, nor does the sign of the values.
        assert!((paired(&b, &a).p() - found.p()).abs() < 1e-12);
        let (a, b) = (a.map(|value| -value), b.map(|value| -value));
        assert!((paired(&a, &b).p() - found.p()).abs() < 1e-12);
    }

    /// Equal means of runs that vary by far are no equality; equal runs are.
    #[test]
    fn equal_means_alone_are_no_equality() {
        let (a, b) = ([5.0, 1.0, 9.0, 5.0], [1.0, 5.0, 5.0, 9.0]);
        assert!(paired(&a, &b).p() > 0.3, "{:?}", paired(&a, &b));
        assert!(paired(&a, &b).more_runs(1).is_some_and(|more| more > 1_000));
        // A difference of 10 % is none either, however precisely it is known.
        let far = paired(&[10.0, 10.1, 10.0, 10.1], &[9.0, 9.1, 9.05, 9.1]);
        assert!(far.p() > 0.99 && far.more_runs(1).is_none());
    }

    /// Runs that are the same in both, or that always differ by the same, have no variation that a test could weigh.
    #[test]
    fn what_the_seeds_do_not_change_is_not_tested() {
        let of = |a: &[f64], b: &[f64]| {
            let pairs = |x: f64, y: f64| a.iter().zip(b).map(|(a, b)| x * a - y * b).collect::<Vec<_>>();
            Equality::of(|x, y| Difference::paired(&pairs(x, y)))
        };
        let varied = [4.0, 5.0, 7.0, 4.0, 6.0];
        assert_eq!([of(&[0.0; 5], &[0.0; 5]), of(&[7.0; 5], &[7.05; 5]), of(&varied, &varied)], [None; 3]);
        assert_eq!(Equality::of(|x, y| Difference::independent(&[x * 7.0; 3], &[y * 7.0; 3])), None);
        assert!(of(&[7.0; 5], &[7.0, 7.0, 7.0, 7.0, 7.05]).is_some());
    }

    /// The share up to which means may differ is the margin at which the test turns: it does not contradict the test.
    #[test]
    fn the_reach_is_the_margin_at_which_equality_is_found() {
        let of = |a: &'static [f64], b: &'static [f64]| {
            move |x: f64, y: f64| Difference::paired(&a.iter().zip(b).map(|(a, b)| x * a - y * b).collect::<Vec<_>>())
        };
        let near = of(&[100.0; 4], &[100.5, 98.5, 100.5, 98.5]);
        // By one test they are equal within 2 %; as one of ten they are not, and may differ by more.
        let [one, ten] = [1, 10].map(|comparisons| Equality::reach(comparisons, near).expect("pairs"));
        assert!(Equality::of(near).is_some_and(|found| (found.p() <= 0.05) == (one <= MARGIN)), "{one}");
        assert!(one < ten && ten > MARGIN && Equality::of(near).is_some_and(|found| found.p() * 10.0 > 0.05), "{ten}");
        // The interval of the difference alone is narrower than what the test says where the means themselves are not known.
        let wild = of(&[10.0, 190.0, 40.0, 160.0], &[10.1, 191.9, 40.4, 161.6]);
        let plain = wild(1.0, 1.0).expect("pairs");
        assert!(Equality::of(wild).is_some_and(|found| found.p() > 0.05));
        let (most, reach) = (plain.mean.abs() + plain.half_width(), Equality::reach(1, wild).expect("pairs"));
        assert!(reach > MARGIN && most / 101.0 < 0.03, "{reach} {most}");
        assert_eq!(Equality::reach(1, of(&[5.0, 1.0, 9.0], &[-5.0, 9.0, 1.0])), Some(f64::INFINITY));
    }

    /// Draws pairs whose means differ by the margin: at most 5 % are called equal. And of equal ones as many as were planned.
    #[test]
    fn the_level_and_the_power_are_kept() {
        let mut state = 11_u64;
        let mut normal = || {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            crate::student::normal_quantile(((state >> 11) as f64 + 0.5) / (1_u64 << 53) as f64)
        };
        let mut share = |ratio: f64, runs: usize, deviation: f64| {
            let found = (0..4_000).filter(|_| {
                let common: Vec<f64> = (0..runs).map(|_| 10.0 * normal()).collect();
                let mut values = |mean: f64| -> Vec<f64> {
                    common.iter().map(|common| mean + common + deviation * normal()).collect()
                };
                paired(&values(100.0), &values(100.0 * ratio)).p() <= 0.05
            });
            found.count() as f64 / 4_000.0
        };
        // Three standard errors of a share of 4,000 are 0.0103.
        assert!((0.03..0.0603).contains(&share(1.0 - MARGIN, 12, 0.7)));
        // Differences with mean 0 and standard deviation sqrt(2), in four pairs: how many more are needed?
        let d = 1.5_f64.sqrt();
        let few = paired(&[100.0 + d, 100.0 - d, 100.0 + d, 100.0 - d], &[100.0; 4]);
        let more = few.more_runs(1).expect("a plan") as usize;
        let planned = share(1.0, 4 + more, 1.0);
        assert!((0.77..0.93).contains(&planned), "{more}: {planned}");
        assert!(few.more_runs(10).is_some_and(|ten| ten as usize > more));
    }
}
