//! The line of the means of a chart.

use tidegate_metrics::{Summary, summarise};

use super::counts::Counts;
use crate::columns::Column;
use crate::model::Curve;
use crate::number::quantiles;

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

/// The points of rows, with their numbers, as one of each run at each x, which `summary` makes of its values: these are no replications. Without
/// seeds all rows are of one run.
pub(super) fn by_run(
    seeds: Option<&Column>,
    rows: Vec<(usize, (f64, f64))>,
    summary: fn(&mut [f64]) -> f64,
) -> Vec<(f64, f64)> {
    let seed = |row: usize| seeds.and_then(|seeds| seeds.text(row));
    let mut of_run: Vec<(f64, Option<String>, f64)> = rows.into_iter().map(|(row, (x, y))| (x, seed(row), y)).collect();
    of_run.sort_by(|a, b| a.0.total_cmp(&b.0).then_with(|| a.1.cmp(&b.1)));
    let same = of_run.chunk_by(|a, b| a.0 == b.0 && a.1 == b.1);
    same.map(|same| (same[0].0, summary(&mut same.iter().map(|of| of.2).collect::<Vec<f64>>()))).collect()
}

/// The mean of values, of which there is one.
pub(super) fn mean(values: &mut [f64]) -> f64 {
    values.iter().sum::<f64>() / values.len() as f64
}

/// The median of values, of which there is one. Those that were not reached are the greatest.
pub(super) fn median(values: &mut [f64]) -> f64 {
    quantiles(values).map_or(f64::NAN, |five| five[2])
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::chart::bins::Classes;

    /// Ten transfers of a run are one replication: the interval is that of the means of the runs.
    #[test]
    fn values_of_one_run_are_no_replications() {
        let seeds = Column::Integer((0..30).map(|row| Some(row / 10)).collect());
        let rows =
            (0..30).map(|row| (row as usize, (1.0, f64::from(row / 10) + f64::from(row % 10) / 100.0))).collect();
        let points = by_run(Some(&seeds), rows, mean);
        assert_eq!(points.len(), 3, "{points:?}");
        let curve = of_means(String::new(), &points, &mut Counts::default());
        // Means of 0.045, 1.045 and 2.045: one standard deviation is 1, and t is 4.303.
        let (_, low, high) = curve.band[0];
        assert!((curve.points[0].1 - 1.045).abs() < 1e-12 && ((high - low) / 2.0 - 4.303 / 3_f64.sqrt()).abs() < 1e-3);
        let single = by_run(Some(&seeds), vec![(0, (1.0, 5.0)), (10, (1.0, 7.0))], mean);
        assert_eq!(single, [(1.0, 5.0), (1.0, 7.0)]);
        // In classes of sizes it is the median, of which a transfer that has not finished is the longest.
        let classes = Classes::new((0..100).map(f64::from).collect()).expect("many places");
        let rows = [(0.0, 3.0), (1.0, f64::INFINITY), (2.0, 5.0), (99.0, 9.0)];
        let rows = rows.into_iter().enumerate().map(|(row, (x, y))| (row, (classes.middle(x), y))).collect();
        assert_eq!(by_run(Some(&seeds), rows, median), [(5.0, 5.0), (95.0, 9.0)]);
    }
}
