//! The line of the means of a chart.

use tidegate_metrics::{Summary, summarise};

use super::bins::Classes;
use super::counts::Counts;
use crate::columns::Column;
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

/// The points of rows, of each run at each x one: the values of one run are no replications. It is their mean or, in classes, their median,
/// in which a value that was not reached is the greatest. Notes in `pooled` whether a run has several.
pub(super) fn by_run(
    seeds: Option<&Column>,
    rows: Vec<(usize, (f64, f64))>,
    classes: Option<&Classes>,
    pooled: &mut bool,
) -> Vec<(f64, f64)> {
    let Some(seeds) = seeds else { return rows.into_iter().map(|(_, point)| point).collect() };
    let at = |x: f64| classes.map_or(x, |classes| classes.middle(x));
    let mut of_run: Vec<(f64, Option<String>, f64)> =
        rows.into_iter().map(|(row, (x, y))| (at(x), seeds.text(row), y)).collect();
    of_run.sort_by(|a, b| a.0.total_cmp(&b.0).then_with(|| a.1.cmp(&b.1)).then_with(|| a.2.total_cmp(&b.2)));
    let same = of_run.chunk_by(|a, b| a.0 == b.0 && a.1 == b.1);
    let one = |same: &[(f64, Option<String>, f64)]| {
        *pooled |= same.len() > 1;
        let (half, n) = (same.len() / 2, same.len());
        let y = match classes {
            None => same.iter().map(|of| of.2).sum::<f64>() / n as f64,
            Some(_) if n % 2 == 1 => same[half].2,
            Some(_) => f64::midpoint(same[half - 1].2, same[half].2),
        };
        (same[0].0, y)
    };
    same.map(one).collect()
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

    /// Ten transfers of a run are one replication: the interval is that of the means of the runs.
    #[test]
    fn values_of_one_run_are_no_replications() {
        let seeds = Column::Integer((0..30).map(|row| Some(row / 10)).collect());
        let rows =
            (0..30).map(|row| (row as usize, (1.0, f64::from(row / 10) + f64::from(row % 10) / 100.0))).collect();
        let mut pooled = false;
        let points = by_run(Some(&seeds), rows, None, &mut pooled);
        assert!(pooled && points.len() == 3, "{points:?}");
        let curve = of_means(String::new(), &points, &mut Counts::default());
        // Means of 0.045, 1.045 and 2.045: one standard deviation is 1, and t is 4.303.
        let (_, low, high) = curve.band[0];
        assert!((curve.points[0].1 - 1.045).abs() < 1e-12 && ((high - low) / 2.0 - 4.303 / 3_f64.sqrt()).abs() < 1e-3);
        let single = by_run(Some(&seeds), vec![(0, (1.0, 5.0)), (10, (1.0, 7.0))], None, &mut pooled);
        assert_eq!(single, [(1.0, 5.0), (1.0, 7.0)]);
        // In classes of sizes it is the median, of which a transfer that has not finished is the longest.
        let classes = Classes::new((0..100).map(f64::from).collect()).expect("many places");
        let rows = vec![(0, (0.0, 3.0)), (1, (1.0, f64::INFINITY)), (2, (2.0, 5.0)), (3, (99.0, 9.0))];
        assert_eq!(by_run(Some(&seeds), rows, Some(&classes), &mut pooled), [(5.0, 5.0), (95.0, 9.0)]);
    }
}
