//! The line of the means of a chart.

use tidegate_metrics::{Summary, summarise};

use super::counts::Counts;
use crate::model::Curve;

/// The mean of the points at each x, which rise, with its 95 % interval. Where one was not reached, there is a gap: the others alone would
/// be better than all.
pub(super) fn of_means(name: String, points: &[(f64, f64)], counts: &mut Counts) -> Curve {
    let mut curve = Curve { name, ..Curve::default() };
    for same in points.chunk_by(|a, b| a.0 == b.0) {
        let (at, ys) = (same[0].0, same.iter().map(|point| point.1).collect::<Vec<f64>>());
        if !ys.iter().all(|y| y.is_finite()) {
            curve.points.push((at, f64::NAN));
            curve.band.push((at, f64::NAN, f64::NAN));
            continue;
        }
        let Some(Summary { mean, half_width, .. }) = summarise(&ys) else { continue };
        curve.points.push((at, mean));
        counts.add(ys.len());
        if let Some(half) = half_width {
            curve.band.push((at, mean - half, mean + half));
        }
    }
    curve
}

/// Leaves a gap in a curve at each place of `taken` between its first and its last point at which it has no value, such as a point of a
/// sweep whose runs failed: a line there would state values that nobody has measured. Returns the number of these places.
pub(super) fn with_gaps(curve: &mut Curve, taken: &[f64]) -> usize {
    let (Some(first), Some(last)) = (curve.points.first().copied(), curve.points.last().copied()) else { return 0 };
    let is_missing = |at: &&f64| {
        (first.0..last.0).contains(*at) && curve.points.binary_search_by(|point| point.0.total_cmp(at)).is_err()
    };
    let missing: Vec<f64> = taken.iter().filter(is_missing).copied().collect();
    for at in &missing {
        let place = curve.points.partition_point(|point| point.0 < *at);
        curve.points.insert(place, (*at, f64::NAN));
        let place = curve.band.partition_point(|point| point.0 < *at);
        curve.band.insert(place, (*at, f64::NAN, f64::NAN));
    }
    missing.len()
}
