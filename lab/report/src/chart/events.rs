//! Series of events over time: each value is valid until the next, and the times are those of one run alone.

use super::{Chart, Rows, distinct};
use crate::columns::{Column, Table};
use crate::model::Curve;

impl Chart {
    /// Whether rows over time are of events, such as the length of a queue after each arrival, instead of values at times that all runs have in
    /// common, such as those of bins.
    ///
    /// # Errors
    /// If the events of several runs would be drawn as one curve: two of them are at one time by chance alone, and their mean is none of
    /// the runs.
    pub(super) fn are_events(&self, table: &Table, along: &Column, rows: &Rows) -> Result<bool, String> {
        let mut found = false;
        for (name, rows) in self.series(table, rows)? {
            let runs = table.column("seed").map_or(1, |seeds| distinct(seeds, &rows).len());
            let mut places: Vec<f64> = rows.iter().filter_map(|(row, _)| along.number(*row)).collect();
            places.sort_by(f64::total_cmp);
            let is_shared = places.chunk_by(|a, b| a == b).all(|same| same.len() == runs);
            places.dedup();
            if runs > 1 && !is_shared {
                if are_regular(&places) {
                    continue;
                }
                let of = if name.is_empty() { String::new() } else { format!(" of {name}") };
                return Err(format!(
                    "the rows{of} are events of {runs} runs, each at times of its own, which have no mean: choose one run with \
                     --only seed=N, or draw each with --by seed"
                ));
            }
            found |= runs == 1 && !(is_shared && are_regular(&places));
        }
        Ok(found)
    }
}

/// Whether places are multiples of a step.
fn are_regular(places: &[f64]) -> bool {
    let gaps = || places.windows(2).map(|two| two[1] - two[0]);
    let step = gaps().fold(f64::INFINITY, f64::min);
    gaps().all(|gap| ((gap / step).round() - gap / step).abs() < 1e-3)
}

/// The curve of events, which are by time: of several at one time the last one of the table. One that was not reached is a gap.
pub(super) fn steps(name: String, points: &[(f64, f64)]) -> Curve {
    let last = points.chunk_by(|a, b| a.0 == b.0).filter_map(|same| same.last().copied());
    Curve::new(name, last.map(|(at, value)| (at, if value.is_finite() { value } else { f64::NAN })))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::chart::ChartKind;
    use crate::model::Style;

    fn table(seeds: &[u64], times: &[f64], values: &[f64]) -> Table {
        let text = |text: &str| Column::Text(vec![Some(text.to_owned()); seeds.len()]);
        Table::default()
            .with("seed", Column::Integer(seeds.iter().copied().map(Some).collect()))
            .with("measure", text("backlog"))
            .with("x", Column::Number(times.iter().copied().map(Some).collect()))
            .with("x_unit", text("time_s"))
            .with("value", Column::Number(values.iter().copied().map(Some).collect()))
            .with("unit", text("packets"))
    }
    fn chart(by: &[&str]) -> Chart {
        let by = by.iter().map(|by| (*by).to_owned()).collect();
        Chart { kind: ChartKind::Lines, x: "x".into(), y: "value".into(), by, ..Chart::default() }
    }

    /// Two packets that arrive at one instant are two values of a queue there, and no interval of a mean.
    #[test]
    fn events_are_steps_without_a_band() {
        let queue = table(&[1; 5], &[0.0, 0.1, 0.1, 0.5, 0.55], &[0.0, 1.0, 2.0, 1.0, 0.0]);
        let plot = chart(&[]).plot(&queue).expect("a plot");
        assert_eq!((plot.style, plot.note.as_deref()), (Style::Steps, Some("Steps: a value is valid until the next.")));
        let [curve] = plot.curves.as_slice() else { panic!("one curve") };
        assert_eq!(curve.points, [(0.0, 0.0), (0.1, 2.0), (0.5, 1.0), (0.55, 0.0)]);
        assert!(curve.band.is_empty());
        // Those of two runs have no mean, and each is a curve of its own.
        let two = table(&[1, 1, 1, 2, 2], &[0.0, 0.1, 0.35, 0.1, 0.77], &[0.0, 1.0, 2.0, 1.0, 0.0]);
        let refused = chart(&[]).plot(&two).expect_err("events of two runs");
        assert!(refused.contains("events of 2 runs") && refused.ends_with("or draw each with --by seed"), "{refused}");
        let plot = chart(&["seed"]).plot(&two).expect("a plot");
        assert_eq!((plot.style, plot.curves.len(), plot.curves[1].points.len()), (Style::Steps, 2, 2));
    }

    /// The bins of two runs are at the same times: their means are a line with a band, also where one run lacks a bin.
    #[test]
    fn bins_stay_lines_of_means() {
        let bins = table(&[1, 1, 1, 2, 2, 2], &[0.1, 0.2, 0.4, 0.1, 0.2, 0.4], &[1.0, 2.0, 3.0, 3.0, 2.0, 1.0]);
        let plot = chart(&[]).plot(&bins).expect("a plot");
        assert_eq!((plot.style, plot.curves[0].points[0], plot.curves[0].band.len()), (Style::Lines, (0.1, 2.0), 3));
        let one = table(&[1, 1, 1, 2, 2], &[0.1, 0.2, 0.3, 0.1, 0.2], &[1.0, 2.0, 3.0, 3.0, 2.0]);
        assert_eq!(chart(&[]).plot(&one).expect("a plot").style, Style::Lines);
        assert_eq!(chart(&["seed"]).plot(&one).expect("a plot").style, Style::Lines);
    }
}
