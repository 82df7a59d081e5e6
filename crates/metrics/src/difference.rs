//! [`Difference`]: whether two variants differ, by runs that met the same random numbers.
//!
//! *Source*: Student's test of paired differences, and Welch's where no runs belong together. Holm, *A simple sequentially rejective
//! multiple test procedure* (1979), for the correction; Efron, *Better bootstrap confidence intervals* (1987), for the interval without
//! an assumption on the distribution.
//! Times are tested by the logarithms of their ratios, since they vary by factors: one run that took ten times as long would hide from
//! Student's t that all others took longer, too. Kalibera and Jones, *Rigorous benchmarking in reasonable time* (2013), for ratios.
//! *Notes*: A difference that is the same in all runs, or that of two samples which are each constant, is not tested: the seeds do not
//! change it, so that further runs would say nothing else.
//! *Cost*: [`bootstrap`] draws [`RESAMPLES`] times as many values as there are differences.

use crate::student::{critical, normal, normal_quantile, power, tails};
use crate::summary::{LEVEL, moments};

/// How many means [`bootstrap`] draws.
pub const RESAMPLES: usize = 4_000;
/// The fewest runs from which [`Difference::more_runs`] plans.
pub const FEWEST_RUNS: usize = 4;
/// The power for which [`Difference::more_runs`] plans: the probability that the difference is found.
pub const POWER: f64 = 0.8;
/// No more runs than these are suggested.
const MOST_RUNS: u64 = 1_000_000;

/// The test by which two samples were compared.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Test {
    /// Student's t on the differences of the runs with the same seed.
    Paired,
    /// Welch's t: the two samples have no seeds in common.
    Welch,
}

/// The difference of the means of two samples, the first minus the second.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Difference {
    /// The test.
    pub test: Test,
    /// The number of pairs; with [`Test::Welch`] the size of the smaller sample.
    pub runs: usize,
    /// The difference of the means.
    pub mean: f64,
    /// The probability of a difference at least as large if there is none; `None` if the seeds do not change the difference, so that
    /// there is nothing to test.
    pub p: Option<f64>,
    /// The standard error of the difference.
    error: f64,
    /// Its degrees of freedom.
    freedom: f64,
    /// The logarithm of the ratio by which it is tested, with its standard error and degrees of freedom; `None` where it is tested itself.
    logarithm: Option<[f64; 3]>,
    /// Whether the ratio has another direction: a few runs are far from the others, and further ones may change which of both is tested.
    is_contrary: bool,
}

impl Difference {
    /// The test of paired differences; `None` with fewer than two.
    pub fn paired(differences: &[f64]) -> Option<Self> {
        let (mean, variance) = moments(differences)?;
        let n = differences.len();
        let error = (variance? / n as f64).sqrt();
        Some(Self::of(Test::Paired, n, mean, error, (n - 1) as f64))
    }

    /// The test of two independent samples; `None` if one has fewer than two values.
    pub fn independent(first: &[f64], second: &[f64]) -> Option<Self> {
        let ((a, of_a), (b, of_b)) = (moments(first)?, moments(second)?);
        let (n, m) = (first.len() as f64, second.len() as f64);
        let (of_a, of_b) = (of_a? / n, of_b? / m);
        let sum = of_a + of_b;
        // Welch (1947): the degrees of freedom of a sum of two estimates.
        let shares = of_a * of_a / (n - 1.0) + of_b * of_b / (m - 1.0);
        let freedom = if shares > 0.0 { sum * sum / shares } else { n + m - 2.0 };
        let (runs, error) = (first.len().min(second.len()), sum.sqrt());
        // The rounding of two means is no variation of the runs.
        if let ([a, ..], [b, ..]) = (first, second)
            && first.iter().all(|value| value == a)
            && second.iter().all(|value| value == b)
        {
            return Some(Self::of(Test::Welch, runs, a - b, 0.0, freedom));
        }
        Some(Self::of(Test::Welch, runs, a - b, error, freedom))
    }

    /// Allows for values that are known only roughly: the difference of a pair has at least this variance. Two values in bins of a
    /// histogram have the sum of the squares of the widths by 12.
    #[must_use]
    pub fn known_to(self, variance: f64) -> Self {
        let error = self.error.max((variance / self.runs.max(1) as f64).sqrt());
        Self::of(self.test, self.runs, self.mean, error, self.freedom)
    }

    /// Tests a mean by t, unless it has no `error`.
    fn of(test: Test, runs: usize, mean: f64, error: f64, freedom: f64) -> Self {
        // Differences may vary by the rounding of their values.
        let is_fixed = error <= 1e-9 * mean.abs();
        let (error, p) = if is_fixed { (0.0, None) } else { (error, Some(by_t(mean, error, freedom))) };
        Self { test, runs, mean, p, error, freedom, logarithm: None, is_contrary: false }
    }

    /// Whether the seeds do not change it: it is the same in all runs, or both samples are constant.
    pub fn is_fixed(&self) -> bool {
        self.p.is_none()
    }

    /// Tests it by the differences of the logarithms of the values instead. It stays as it is where the seeds do not change one of both, or
    /// where the ratio has another direction than the difference: then nothing is told that the means do not say.
    #[must_use]
    pub fn by_ratio(self, logarithms: Self) -> Self {
        if self.is_fixed() || logarithms.is_fixed() {
            return self;
        }
        if self.mean * logarithms.mean <= 0.0 {
            return Self { is_contrary: true, ..self };
        }
        let Self { mean, error, freedom, p, .. } = logarithms;
        Self { p, logarithm: Some([mean, error, freedom]), ..self }
    }

    /// Whether it is tested itself although logarithms were there, because their ratio has another direction.
    pub fn is_contrary(&self) -> bool {
        self.is_contrary
    }

    /// How many times as much as the second the first is, if it was tested by that: the geometric mean over the runs, and the ends of its
    /// 95 % interval, which is not corrected for the number of comparisons.
    pub fn ratio(&self) -> Option<[f64; 3]> {
        let [mean, error, freedom] = self.logarithm?;
        let half = critical(LEVEL, freedom) * error;
        Some([mean, mean - half, mean + half].map(f64::exp))
    }

    /// Half the width of the 95 % interval of the difference, which is not corrected for the number of comparisons.
    pub fn half_width(&self) -> f64 {
        critical(LEVEL, self.freedom) * self.error
    }

    /// How many more runs would find this difference with a probability of [`POWER`], if it and its variation are as they
    /// were measured, as one of `comparisons`. `None` if there is no difference to find or nothing to test, or a million runs would not do,
    /// or if there are fewer than [`FEWEST_RUNS`]: how much runs vary is not known from two or three; nor if the ratio has another
    /// direction than the difference. From fewer than ten it is a guess:
    /// the true difference is often smaller than that which was measured.
    pub fn more_runs(&self, comparisons: usize) -> Option<u64> {
        let level = LEVEL / comparisons.max(1) as f64;
        if self.runs < FEWEST_RUNS || self.mean == 0.0 || self.is_fixed() || self.is_contrary {
            return None;
        }
        let [mean, error, freedom] = self.logarithm.unwrap_or([self.mean, self.error, self.freedom]);
        let tested = Self { mean, error, freedom, ..*self };
        let all = fewest(|runs| tested.power(mean.abs(), runs, level) >= POWER)?;
        Some(all.saturating_sub(self.runs as u64).max(1))
    }

    /// The probability of a mean that is this far below zero if it is zero: the one-sided test.
    pub(crate) fn below_zero(&self) -> f64 {
        let both = by_t(self.mean, self.error, self.freedom);
        if self.mean < 0.0 { both / 2.0 } else { 1.0 - both / 2.0 }
    }
    /// The probability with which the one-sided test at `level` finds that this mean is below zero, with as many `runs`.
    pub(crate) fn power_below_zero(&self, runs: u64, level: f64) -> f64 {
        self.power(-self.mean, runs, 2.0 * level)
    }
    /// The probability that t exceeds its critical value of both tails at `level`, if the difference is `mean`, with as many `runs`.
    fn power(&self, mean: f64, runs: u64, level: f64) -> f64 {
        // The error falls with the root of the number of runs, and the degrees of freedom rise with it.
        let (n, runs) = (self.runs as f64, runs as f64);
        let freedom = (self.freedom * (runs - 1.0) / (n - 1.0)).max(1.0);
        let error = self.error * (n / runs).sqrt();
        power(mean / error, freedom, critical(level, freedom))
    }
}

/// The probability, by Student's t, of a mean at least as far from zero if it is zero.
fn by_t(mean: f64, error: f64, freedom: f64) -> f64 {
    if mean == 0.0 { 1.0 } else { tails(mean / error, freedom) }
}

/// The fewest runs with which a plan succeeds; `None` if [`MOST_RUNS`] would not do.
pub(crate) fn fewest(succeeds: impl Fn(u64) -> bool) -> Option<u64> {
    if !succeeds(MOST_RUNS) {
        return None;
    }
    let (mut low, mut high) = (1, MOST_RUNS);
    while low + 1 < high {
        let middle = u64::midpoint(low, high);
        if succeeds(middle) { high = middle } else { low = middle }
    }
    Some(high)
}

/// Corrects the probabilities of several tests for their number by the procedure of Holm: if those of at most 0.05 are
/// taken for differences, the probability that one of them is none is at most 0.05.
pub fn holm(probabilities: &[f64]) -> Vec<f64> {
    let count = probabilities.len();
    let mut order: Vec<usize> = (0..count).collect();
    order.sort_by(|a, b| probabilities[*a].total_cmp(&probabilities[*b]));
    let mut corrected = vec![1.0; count];
    let mut least = 0.0_f64;
    for (rank, index) in order.into_iter().enumerate() {
        least = least.max((probabilities[index] * (count - rank) as f64).min(1.0));
        corrected[index] = least;
    }
    corrected
}

/// The 95 % interval of the mean by the bootstrap, bias-corrected and accelerated (BCa). The same values have the same
/// interval everywhere: the draws have a fixed seed. `None` with fewer than two values.
pub fn bootstrap(values: &[f64]) -> Option<(f64, f64)> {
    let (mean, variance) = moments(values)?;
    if variance? == 0.0 {
        return Some((mean, mean));
    }
    let n = values.len();
    let mut random = Draws(0);
    let mut means: Vec<f64> =
        (0..RESAMPLES).map(|_| (0..n).map(|_| values[random.below(n)]).sum::<f64>() / n as f64).collect();
    means.sort_by(f64::total_cmp);
    // The median bias. Equal means count half, so that a symmetric sample has none.
    let below = means.partition_point(|drawn| *drawn < mean) as f64;
    let up_to = means.partition_point(|drawn| *drawn <= mean) as f64;
    let share = f64::midpoint(below, up_to) / RESAMPLES as f64;
    let bias = normal_quantile(share.clamp(0.5 / RESAMPLES as f64, 1.0 - 0.5 / RESAMPLES as f64));
    // The acceleration by the jackknife, in closed form for a mean.
    let power = |exponent: i32| values.iter().map(|value| (value - mean).powi(exponent)).sum::<f64>();
    let squares = power(2);
    let acceleration = power(3) / (6.0 * squares * squares.sqrt());
    let end = |z: f64| {
        let moved = bias + (bias + z) / (1.0 - acceleration * (bias + z));
        let rank = normal(moved) * (RESAMPLES + 1) as f64;
        means[(rank as usize).clamp(1, RESAMPLES) - 1]
    };
    let z = normal_quantile(1.0 - LEVEL / 2.0);
    Some((end(-z), end(z)))
}

/// SplitMix64 (Steele, Lea and Flood, 2014).
struct Draws(u64);

impl Draws {
    fn below(&mut self, n: usize) -> usize {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^= z >> 31;
        ((u128::from(z) * n as u128) >> 64) as usize
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn near(found: f64, expected: f64, digits: i32) -> bool {
        (found - expected).abs() <= 0.5 * 10_f64.powi(-digits)
    }

    /// The extra hours of sleep of ten patients under two drugs (Cushny and Peebles, 1905), with which Student introduced his
    /// test. R prints of them (data set `sleep`): paired t = 4.0621, p = 0.002833, interval 0.7001142 to 2.4598858; of
    /// Welch's test t = 1.8608, 17.776 degrees of freedom, p = 0.07939, interval -0.2054832 to 3.3654832.
    const DRUG_1: [f64; 10] = [0.7, -1.6, -0.2, -1.2, -0.1, 3.4, 3.7, 0.8, 0.0, 2.0];
    const DRUG_2: [f64; 10] = [1.9, 0.8, 1.1, 0.1, -0.1, 4.4, 5.5, 1.6, 4.6, 3.4];

    /// Heights of crossed against self-fertilised maize in eighths of an inch (Darwin, 1876), the differences of 15 pairs with
    /// which Fisher explains the test (The Design of Experiments, III): mean 20.933, t = 2.148, p slightly below 0.05.
    const MAIZE: [f64; 15] = [49.0, -67.0, 8.0, 16.0, 6.0, 23.0, 28.0, 41.0, 14.0, 29.0, 56.0, 24.0, 75.0, 60.0, -48.0];

    #[test]
    fn students_sleep_data_are_told_apart_by_pairs_alone() {
        let pairs: Vec<f64> = DRUG_2.iter().zip(DRUG_1).map(|(b, a)| b - a).collect();
        let paired = Difference::paired(&pairs).unwrap();
        assert_eq!((paired.test, paired.runs), (Test::Paired, 10));
        assert!(near(paired.mean / paired.error, 4.0621, 4) && near(paired.p.unwrap(), 0.002_833, 6), "{paired:?}");
        assert!(near(paired.mean - paired.half_width(), 0.700_114_2, 7), "{paired:?}");
        assert!(near(paired.mean + paired.half_width(), 2.459_885_8, 7), "{paired:?}");
        let welch = Difference::independent(&DRUG_2, &DRUG_1).unwrap();
        assert!(near(welch.mean / welch.error, 1.8608, 4) && near(welch.freedom, 17.776, 3), "{welch:?}");
        assert!(near(welch.p.unwrap(), 0.079_39, 5), "{welch:?}");
        assert!(near(welch.mean - welch.half_width(), -0.205_483_2, 7), "{welch:?}");
        assert_eq!(Difference::paired(&pairs[..1]), None);
        assert_eq!(Difference::independent(&DRUG_1, &[1.0]), None);
    }

    #[test]
    fn darwins_maize_has_the_answer_of_fisher() {
        let found = Difference::paired(&MAIZE).unwrap();
        assert!(near(found.mean, 20.933, 3) && near(found.mean / found.error, 2.148, 3), "{found:?}");
        assert!(near(found.p.unwrap(), 0.0497, 4), "{found:?}");
    }

    /// However many runs there are: nothing varies that a test could weigh, and Student's t would have p = 0 for any difference.
    #[test]
    fn what_the_seeds_do_not_change_is_not_tested() {
        for runs in [2, 4, 100] {
            for value in [0.0, 1.0, 0.1] {
                let same = Difference::paired(&vec![value; runs]).unwrap();
                assert!(same.is_fixed() && same.p.is_none(), "{same:?}");
                assert_eq!((same.half_width(), same.more_runs(1)), (0.0, None));
                let strangers = Difference::independent(&vec![value + 0.3; runs], &vec![0.3; runs + 1]).unwrap();
                assert!(strangers.is_fixed() && near(strangers.mean, value, 12), "{strangers:?}");
            }
        }
        assert_eq!(bootstrap(&[2.0; 4]), Some((2.0, 2.0)));
        // Differences of rounded values are equal, too.
        let rounded = [1.0, 2.0, 5.0, 9.0].map(|n: f64| (n + 0.1) - n);
        assert!(rounded.iter().any(|value| *value != rounded[0]), "{rounded:?}");
        assert!(Difference::paired(&rounded).unwrap().is_fixed());
        // Of values that are known to bins, runs in the same bins are no certainty: two of them decide nothing, ten do.
        let in_bins = |runs: usize| Difference::paired(&vec![-1.0; runs]).unwrap().known_to(2.0 / 12.0);
        assert!(in_bins(2).p.is_some_and(|p| p > 0.1) && in_bins(10).p.is_some_and(|p| p < 1e-4));
        // Runs that vary by more are what they are.
        let wide = Difference::paired(&[1.0, 9.0, 5.0]).unwrap();
        assert_eq!(wide.known_to(2.0 / 12.0), wide);
        // One sample that varies is enough for a test, and differences that vary around zero.
        assert!(Difference::independent(&[1.0; 3], &[2.0, 2.0, 3.0]).unwrap().p.is_some());
        assert_eq!(Difference::paired(&[1.0, -1.0]).unwrap().p, Some(1.0));
    }

    /// The example of the manual page of R's `p.adjust` in its form of three tests, and that of Aickin and Gensler (1996,
    /// American Journal of Public Health 86, p. 727): 0.01, 0.04, 0.03, 0.005 become 0.03, 0.06, 0.06, 0.02.
    #[test]
    fn holm_corrects_step_by_step() {
        let corrected = holm(&[0.01, 0.04, 0.03, 0.005]);
        for (found, expected) in corrected.into_iter().zip([0.03, 0.06, 0.06, 0.02]) {
            assert!((found - expected).abs() < 1e-12, "{found}");
        }
        assert_eq!(holm(&[0.7, 0.8]), [1.0, 1.0]);
        assert!(holm(&[]).is_empty());
    }

    /// Cohen, Statistical Power Analysis (1988): pairs that differ by half their standard deviation need 34 for a power of
    /// 80 % at 5 %.
    #[test]
    fn runs_for_a_power_of_eighty_percent() {
        // Four differences with mean 1 and standard deviation 2.
        let spread = 3_f64.sqrt();
        let few = Difference::paired(&[1.0 - spread, 1.0 + spread, 1.0 - spread, 1.0 + spread]).unwrap();
        assert!(near(few.error, 1.0, 12), "{few:?}");
        assert_eq!(few.more_runs(1), Some(34 - 4));
        assert_eq!(Difference { runs: 3, ..few }.more_runs(1), None, "nothing is planned from three runs");
        // One of ten comparisons is tested at 0.5 %, and needs more.
        assert!(few.more_runs(10).unwrap() > 50);
    }

    /// All 5^5 samples of five values have the interval of the bootstrap in its limit.
    #[test]
    fn the_bootstrap_is_that_of_all_samples() {
        let values = [1.0, 2.0, 4.0, 8.0, 16.0];
        let mut means: Vec<f64> = (0..5_usize.pow(5))
            .map(|number| (0..5).map(|place| values[number / 5_usize.pow(place) % 5]).sum::<f64>() / 5.0)
            .collect();
        means.sort_by(f64::total_cmp);
        // Mean 6.2; cubes: -140.6 - 74.1 - 10.6 + 5.8 + 941.2 = 721.7; squares 148.8: acceleration 0.0663.
        let acceleration = 721.68 / (6.0 * 148.8_f64.powf(1.5));
        let below = means.iter().filter(|mean| **mean < 6.2).count() as f64;
        let equal = means.iter().filter(|mean| **mean == 6.2).count() as f64;
        let bias = normal_quantile((below + equal / 2.0) / 3125.0);
        let end = |z: f64| {
            let moved = bias + (bias + z) / (1.0 - acceleration * (bias + z));
            means[(normal(moved) * 3125.0) as usize]
        };
        let (low, high) = bootstrap(&values).unwrap();
        assert!((low - end(-1.96)).abs() <= 0.2 && (high - end(1.96)).abs() <= 0.4, "{low} {high} {}", end(1.96));
        // A skewed sample has its longer side where its tail is; Student's interval cannot show that.
        assert!(high - 6.2 > 6.2 - low);
    }
}
