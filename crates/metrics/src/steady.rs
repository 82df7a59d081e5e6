//! The steady state of a run: where it begins, and the confidence of a mean over correlated values.
//!
//! *Source*: White, *An effective truncation heuristic for bias reduction in simulation output* (1997) and White, Cobb and
//! Spratt, *A comparison of five steady-state truncation heuristics* (2000) for MSER-5; Law, *Simulation Modeling and
//! Analysis*, 9.5, and Schmeiser, *Batch size effects in the analysis of simulation output* (1982) for batch means.

use crate::summary::{moments, summarise};

/// Observations of a batch of MSER-5.
const BATCH: usize = 5;
/// The number of batches of [`batch_means`]. Schmeiser: more than 30 gain little, fewer than 10 lose much.
pub const BATCHES: usize = 20;

/// The number of values at the beginning that belong to the warm-up, by MSER-5: those without which the mean of the rest
/// has the smallest standard error. `None` if the values have no steady state that long: the minimum lies beyond the
/// first half, or there are fewer than ten batches.
///
/// `resolution` is the step in which values are known, a packet in the time of a value for example; 0 if there is none. The edges of
/// a batch cut one: a stretch at the end with the same count in all of its batches is steady by chance, and would be the minimum.
pub fn warm_up(values: &[f64], resolution: f64) -> Option<usize> {
    let batches: Vec<f64> = values.chunks_exact(BATCH).map(|five| five.iter().sum::<f64>() / BATCH as f64).collect();
    let n = batches.len();
    if n < 10 {
        return None;
    }
    // Sums of the rest, from the end; values are taken relative to one of them so that squares lose no digits.
    let offset = batches[n - 1];
    // The variance of the difference of two edges, each anywhere within a step.
    let unknown = (resolution / BATCH as f64).powi(2) / 6.0;
    let (mut sum, mut squares) = (0.0, 0.0);
    let mut best = (f64::INFINITY, 0);
    // The statistic of very few batches is small by chance: the last five are always part of the rest.
    for cut in (0..n).rev() {
        let value = batches[cut] - offset;
        sum += value;
        squares += value * value;
        let rest = (n - cut) as f64;
        let statistic = ((squares - sum * sum / rest).max(0.0) + rest * unknown) / (rest * rest);
        if n - cut >= BATCH && statistic <= best.0 {
            best = (statistic, cut);
        }
    }
    (best.1 <= n / 2).then_some(best.1 * BATCH)
}

/// The mean of correlated values with its confidence.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Steady {
    /// The mean.
    pub mean: f64,
    /// Half the width of the 95 % interval, from the means of [`BATCHES`] batches.
    pub half_width: f64,
    /// The correlation of neighbouring batches.
    pub correlation: f64,
}

impl Steady {
    /// Whether the batches are long enough to count as independent: their correlation is not above that of independent
    /// ones at a level of 5 % (Fishman, *Grouping observations in digital simulation*, 1978).
    pub fn is_long_enough(&self) -> bool {
        self.correlation <= 1.645 / (BATCHES as f64).sqrt()
    }
}

/// The mean of the values of one run, with its confidence by batch means; `None` with fewer than two values for each
/// batch. Values at the end that fill no batch are left out.
pub fn batch_means(values: &[f64]) -> Option<Steady> {
    let length = values.len() / BATCHES;
    if length < 2 {
        return None;
    }
    let means: Vec<f64> =
        values.chunks_exact(length).take(BATCHES).map(|batch| batch.iter().sum::<f64>() / length as f64).collect();
    let summary = summarise(&means)?;
    let (mean, variance) = moments(&means)?;
    let products = means.windows(2).map(|two| (two[0] - mean) * (two[1] - mean)).sum::<f64>();
    let squares = variance? * (BATCHES - 1) as f64;
    let correlation = if squares > 0.0 { products / squares } else { 0.0 };
    Some(Steady { mean, half_width: summary.half_width?, correlation })
}

#[cfg(test)]
mod tests {
    use super::*;
    use tidegate_core::random::Stream;

    /// Twelve batches of five equal values: 9, 5, 3, then 1 and 2 in turn. Without the first three the sum of squares is
    /// 9 / 4 over 9^2 = 0.0274 (five values of one kind, four of the other: 20 / 9 / 81); with the third one more value
    /// of 3 makes it larger, and without the fourth it is 2 / 8^2 = 0.0313.
    #[test]
    fn the_warm_up_of_worked_values() {
        let batches = [9.0, 5.0, 3.0, 1.0, 2.0, 1.0, 2.0, 1.0, 2.0, 1.0, 2.0, 1.0];
        let values: Vec<f64> = batches.iter().flat_map(|value| [*value; 5]).collect();
        assert_eq!(warm_up(&values, 0.0), Some(15));
        assert_eq!(warm_up(&values[..45], 0.0), None, "nine batches are too few");
        // A ramp has no steady state.
        let ramp: Vec<f64> = (0..200).map(f64::from).collect();
        assert_eq!(warm_up(&ramp, 0.0), None);
        assert_eq!(warm_up(&[3.0; 100], 0.0), Some(0));
        // A line that is full sends 50 or 51 packets in the time of a value. That the last ones are all equal says nothing.
        let full: Vec<f64> = (0..400).map(|n| 50.0 + f64::from(u8::from(n % 3 == 0 && n < 350))).collect();
        assert_eq!([warm_up(&full, 0.0), warm_up(&full, 1.0)], [None, Some(0)]);
    }

    /// The statistic as the paper writes it, for each cut anew.
    #[test]
    fn the_warm_up_is_that_of_the_formula() {
        let mut random = Stream::named(3, "mser");
        for _ in 0..200 {
            let transient = random.below(60) as f64;
            let values: Vec<f64> = (0..400)
                .map(|n| 1e6 + 50.0 * libm::exp(-f64::from(n) / (transient + 1.0)) + random.below(10) as f64)
                .collect();
            let batches: Vec<f64> = values.chunks(5).map(|five| five.iter().sum::<f64>() / 5.0).collect();
            let statistic = |cut: usize| {
                let rest = &batches[cut..];
                let mean = rest.iter().sum::<f64>() / rest.len() as f64;
                rest.iter().map(|value| (value - mean).powi(2)).sum::<f64>() / (rest.len() as f64).powi(2)
            };
            let found = warm_up(&values, 0.0).unwrap_or(200) / 5;
            let least = (0..=40).map(statistic).fold(f64::INFINITY, f64::min);
            assert!(found == 40 || statistic(found) <= least * (1.0 + 1e-6), "{found}");
        }
    }

    /// Values of a first-order autoregression with coefficient 0.8 and known mean: intervals cover it as often as they
    /// promise, where those of the plain formula for independent values do not.
    #[test]
    fn intervals_of_batch_means_cover_the_mean() {
        let mut random = Stream::named(7, "batches");
        let (mut covered, mut plain, mut long) = (0, 0, 0);
        for _ in 0..400 {
            let mut state = 0.0;
            let values: Vec<f64> = (0..4_000)
                .map(|_| {
                    // A sum of twelve uniform values is nearly normal.
                    let noise = (0..12).map(|_| random.below(1_000_000) as f64 / 1e6).sum::<f64>() - 6.0;
                    state = 0.8 * state + noise;
                    state
                })
                .collect();
            let found = batch_means(&values).unwrap();
            covered += u32::from(found.mean.abs() <= found.half_width);
            long += u32::from(found.is_long_enough());
            let naive = summarise(&values).unwrap();
            plain += u32::from(naive.mean.abs() <= naive.half_width.unwrap());
        }
        // 95 % of 400 with three standard deviations of 4.4 to either side; one start from 0 is no matter here.
        assert!((367..=393).contains(&covered), "{covered}");
        assert!(long > 340 && plain < 260, "{long} {plain}");
        // Batches that are too short are said to be.
        let slow: Vec<f64> = (0..400).map(|n| libm::sin(f64::from(n) / 60.0)).collect();
        assert!(!batch_means(&slow).unwrap().is_long_enough());
        assert_eq!(batch_means(&slow[..39]), None);
    }
}
