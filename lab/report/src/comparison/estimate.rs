//! [`Estimate`]: a mean with its confidence interval, and the runs that it is of.

use std::collections::BTreeSet;

use tidegate_display::Alike;

use crate::chart::distribution;
use crate::number::quantiles;

/// A mean with its confidence interval.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct Estimate {
    /// The mean.
    pub mean: f64,
    /// Half the width of the 95 % confidence interval; `None` with one run.
    pub half: Option<f64>,
    /// The values of the runs, if there are several; infinite for one that did not reach it.
    pub values: Vec<f64>,
    /// The seeds of these runs; empty if they have none.
    pub seeds: Vec<u64>,
    /// The number of further runs that have no value.
    pub missing: usize,
    /// The number of runs that the mean is of, if others have a value besides: those in which every variant has one.
    pub common: Option<usize>,
    /// The number of runs that did not reach it, and that of all, if the mean is infinite.
    pub open: Option<(usize, usize)>,
    /// How long each of the infinite `values` had lasted when it was last seen, if they are durations that had not ended; infinity for
    /// one that can never end.
    pub lasted: Vec<f64>,
    /// Whether the runs have measured the same in everything, so that they are one. Nothing is tested by them.
    pub is_repeated: bool,
    /// Whether it is the mean of what was completed, and not all was: the slower a variant, the more of its longest durations it leaves out.
    /// Nothing is tested by it.
    pub is_of_completed: bool,
    /// By which share of itself each value may be too great: the width of its bin in a histogram.
    pub bin: f64,
    /// Whether it is a time, a share of times or a rate, which varies by factors: variants are told apart by its ratio.
    pub by_factors: bool,
}

impl From<f64> for Estimate {
    fn from(mean: f64) -> Self {
        Self { mean, ..Self::default() }
    }
}

/// Takes the means over the runs in which every variant has a value, if some have fewer: those of other runs may have met other conditions.
/// Where these are less than half of the runs of a variant, all stay as they are.
pub(crate) fn over_common_runs<'a>(estimates: impl Iterator<Item = &'a mut Estimate>) {
    let mut all: Vec<&mut Estimate> = estimates.filter(|of| of.is_reached() && !of.seeds.is_empty()).collect();
    let Some((first, others)) =
        all.split_first().filter(|(first, others)| others.iter().any(|of| of.seeds != first.seeds))
    else {
        return;
    };
    let mut common: BTreeSet<u64> = first.seeds.iter().copied().collect();
    for of in others {
        let seeds: BTreeSet<u64> = of.seeds.iter().copied().collect();
        common.retain(|seed| seeds.contains(seed));
    }
    let most = all.iter().map(|of| of.seeds.len()).max().unwrap_or(0);
    if common.len() < 2 || common.len() * 2 < most {
        return;
    }
    for of in all.iter_mut().filter(|of| of.seeds.len() > common.len()) {
        let values = of.seeds.iter().zip(&of.values).filter(|(seed, _)| common.contains(seed));
        let values: Vec<f64> = values.map(|(_, value)| *value).collect();
        let Some(summary) = tidegate_metrics::summarise(&values) else { continue };
        (of.mean, of.half, of.common) = (summary.mean, summary.half_width, Some(common.len()));
    }
}

/// Says of how many runs a number is, for behind it, if `missing` others have no value.
pub fn of_fewer(measured: usize, missing: usize) -> String {
    let plural = if measured == 1 { "" } else { "s" };
    if missing == 0 { String::new() } else { format!(" ({measured} run{plural})") }
}

impl Estimate {
    /// Creates an estimate. The values of the runs are kept if there are several.
    pub(crate) fn of_runs(mean: f64, half: Option<f64>, values: Vec<f64>) -> Self {
        Self { mean, half, values: if values.len() > 1 { values } else { Vec::new() }, ..Self::default() }
    }
    /// A percentile that `open` of `runs` did not reach, whose values are not known. It has no mean, and nothing is tested by it.
    pub(crate) fn not_reached(open: usize, runs: usize) -> Self {
        Self { mean: f64::INFINITY, open: Some((open, runs)), ..Self::default() }
    }
    /// The least value, the quartiles and the greatest. A duration that had not ended counts as longer than it had lasted (Kaplan and
    /// Meier); where nobody knows how much longer, it is infinite.
    pub(crate) fn five(&self) -> Option<[f64; 5]> {
        if self.lasted.is_empty() {
            return quantiles(&mut self.values.clone());
        }
        let shares = self.shares();
        let at = |share: f64| shares.iter().find(|step| step.1 >= share - 1e-9).map_or(f64::INFINITY, |step| step.0);
        shares.first().map(|first| [first.0, at(0.25), at(0.5), at(0.75), at(1.0)])
    }
    /// The finite values, rising, each with the share of all that is at most as large.
    pub(crate) fn shares(&self) -> Vec<(f64, f64)> {
        let (ended, open): (Vec<f64>, Vec<f64>) = self.values.iter().partition(|value| value.is_finite());
        distribution(ended, if self.lasted.is_empty() { open } else { self.lasted.clone() })
    }
    /// The number of runs, those included that have no value.
    pub(super) fn runs(&self) -> usize {
        self.open.map_or(self.values.len().max(1) + self.missing, |(_, runs)| runs)
    }
    /// Whether it is of runs whose values are not there, as in an artifact, so that nothing is tested by it.
    pub(super) fn is_untested(&self) -> bool {
        self.values.is_empty() && self.half.is_some_and(|half| half > 0.0)
    }
    /// Whether its runs can be drawn: all have reached it, or enough that the lower quartile is known.
    pub(crate) fn is_drawn(&self) -> bool {
        self.is_reached() || (!self.values.is_empty() && self.five().is_some_and(|five| five[1].is_finite()))
    }
    /// Whether it has a mean: all runs that have a value have reached it.
    pub(crate) fn is_reached(&self) -> bool {
        self.mean.is_finite()
    }
    /// Marks it as that of runs which differ in nothing, and thus have no interval.
    #[must_use]
    pub(crate) fn repeated(self) -> Self {
        Self { half: None, is_repeated: true, ..self }
    }
    /// Adds the seeds of the runs, unless their number is not that of the runs.
    #[must_use]
    pub(crate) fn with_seeds(mut self, seeds: Vec<u64>) -> Self {
        self.seeds = if seeds.len() == self.values.len() { seeds } else { Vec::new() };
        self
    }
    /// Says of how many runs it is, for behind the number, if others have no value or, if it is not reached, others have reached it.
    pub(crate) fn of_fewer(&self) -> String {
        if let Some((open, runs)) = self.open {
            return if open == runs { String::new() } else { format!(" in {open} of {runs} runs") };
        }
        match self.common {
            Some(common) => format!(" (the {common} runs that all have)"),
            None => of_fewer(self.values.len().max(1), self.missing),
        }
    }
    pub(crate) fn low(&self) -> f64 {
        self.mean - self.half.unwrap_or(0.0)
    }
    pub(crate) fn high(&self) -> f64 {
        self.mean + self.half.unwrap_or(0.0)
    }
    pub(super) fn text(&self, alike: &Alike<'_>) -> String {
        alike.text(self.mean, self.half) + &self.of_fewer()
    }
}

/// The share of itself by which a measure with this name may be too great: the width of a histogram's bin if it is a percentile.
pub fn bin(measure: &str) -> f64 {
    let is_percentile = |word: &str| word.strip_prefix('p').is_some_and(|number| number.parse::<f64>().is_ok());
    if measure.split(' ').any(is_percentile) { 1.0 / 64.0 } else { 0.0 }
}
