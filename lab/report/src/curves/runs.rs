//! [`Runs`]: the curves of runs with different seeds as one, with the spread of the runs.

use std::collections::BTreeMap;

use tidegate_metrics::Curve as Measured;

use crate::model::Band;
use crate::number::quantiles;

/// The curves of runs with different seeds, merged.
pub struct Runs {
    /// The merged curves, whose value at each x is the median of the runs.
    pub medians: Vec<Measured>,
    /// The spread of the runs around each curve.
    pub bands: Vec<Band>,
    /// The number of runs.
    count: usize,
    /// The transfers or pages that were not completed, as [`Curve::left`] has them, by subject (with its variant before it) and kind.
    pub(super) left: BTreeMap<(String, &'static str), String>,
}

impl Runs {
    /// Merges the curves of runs into their median at each x, of counts into their mean, and a band between the least and the greatest value or,
    /// from five runs on, between the quartiles. A run without a value of a series at some x does not count there; one without
    /// a series of rates, packets or bytes, which nothing was added to, has zeros. In a distribution the share of the last
    /// smaller x counts.
    pub fn new<'a>(runs: impl IntoIterator<Item = &'a [Measured]>) -> Self {
        let runs: Vec<&[Measured]> = runs.into_iter().collect();
        let (mut medians, mut bands) = (Vec::new(), Vec::new());
        let count = runs.len();
        let same = |a: &Measured, b: &Measured| a.name == b.name && a.x == b.x;
        for (n, run) in runs.iter().enumerate() {
            for curve in *run {
                let earlier = |run: &&'a [Measured]| run.iter().any(|other| same(other, curve));
                if runs[..n].iter().any(earlier) {
                    continue;
                }
                let missing = match (curve.x, curve.y) {
                    ("time_s", "rate_bps" | "packets" | "bytes") => Missing::Zero,
                    ("time_s", _) => Missing::Nothing,
                    _ => Missing::Last,
                };
                let of_run = |run: &&'a [Measured]| run.iter().find(|other| same(other, curve));
                let found = runs.iter().map(|run| of_run(run).map_or(&[][..], |curve| curve.points.as_slice()));
                let all: Vec<&[(f64, f64)]> =
                    found.filter(|points| !points.is_empty() || missing == Missing::Zero).collect();
                let (points, band) = spread(&all, missing, is_count(curve));
                medians.push(Measured { points, ..curve.clone() });
                bands.push(band);
            }
        }
        Self { medians, bands, count, left: BTreeMap::new() }
    }

    /// Adds what was not completed, by subject, for the distributions of how long it took.
    #[must_use]
    pub fn with_left(self, left: BTreeMap<(String, &'static str), String>) -> Self {
        Self { left, ..self }
    }

    /// States what the lines are, for figures: of counts or of others.
    pub(super) fn note(&self, are_counts: bool) -> Option<String> {
        let kind = if are_counts { "means" } else { "medians" };
        (self.count > 1).then(|| format!("Lines: {kind} of {} runs.", self.count))
    }

    /// States what the bands are.
    pub(crate) fn bands_are(&self) -> &'static str {
        if self.count < 5 { "least and greatest run" } else { "quartiles of the runs" }
    }
}

/// The value that is taken for a run at an x where it has none.
#[derive(PartialEq, Eq, Clone, Copy, Debug)]
enum Missing {
    /// The run does not count.
    Nothing,
    /// The value at the last smaller x, or zero before the first.
    Last,
    /// Zero if the run has no values at all; otherwise it does not count.
    Zero,
}

/// Whether packets are counted over each step of a curve. Where most runs have none at a time, as of drops, the median hides all of them.
pub(super) fn is_count(curve: &Measured) -> bool {
    curve.x == "time_s" && curve.y == "packets" && curve.measure != "backlog"
}

/// Returns the median of `all` at each x that one of them has, or of counts the mean, and the band around it.
fn spread(all: &[&[(f64, f64)]], missing: Missing, is_count: bool) -> (Vec<(f64, f64)>, Band) {
    let mut places: Vec<f64> = all.iter().flat_map(|points| points.iter().map(|point| point.0)).collect();
    places.sort_by(f64::total_cmp);
    places.dedup();
    let mut next = vec![0; all.len()];
    let (mut median, mut band) = (Vec::with_capacity(places.len()), Vec::with_capacity(places.len()));
    // A quantile between a run that has ended and one that has not may leave less than any run has: it has ended too.
    let left = all.iter().flat_map(|points| points.iter()).map(|point| 1.0 - point.1).filter(|left| *left > 1e-12);
    let least_left = left.fold(f64::INFINITY, f64::min) * (1.0 - 1e-9);
    // Where a run has not ended at all, a median between it and one that has is what it is.
    let all_end =
        missing == Missing::Last && all.iter().all(|points| points.last().is_some_and(|point| point.1 > 1.0 - 1e-12));
    let ended = |share: f64| if all_end && 1.0 - share < least_left { 1.0 } else { share };
    for x in places {
        let mut values: Vec<f64> = Vec::with_capacity(all.len());
        for (points, next) in all.iter().zip(&mut next) {
            while points.get(*next).is_some_and(|point| point.0 <= x) {
                *next += 1;
            }
            match next.checked_sub(1).map(|last| points[last]) {
                Some((at, y)) if missing == Missing::Last || at == x => values.push(y),
                None if missing == Missing::Last || (missing == Missing::Zero && points.is_empty()) => values.push(0.0),
                _ => {}
            }
        }
        values.retain(|value| !value.is_nan());
        if let Some([least, lower, middle, upper, most]) = quantiles(&mut values) {
            let mean = values.iter().sum::<f64>() / values.len() as f64;
            median.push((x, if is_count { mean } else { ended(middle) }));
            band.push(if values.len() < 5 { (x, ended(least), ended(most)) } else { (x, ended(lower), ended(upper)) });
        }
    }
    (median, band)
}
