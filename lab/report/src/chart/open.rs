//! Values that are not reached, and durations that had not ended when they were last seen.

use tidegate_metrics::shares;

use crate::columns::{Column, Table};

/// The columns of transfers and pages that are durations, or follow from one. Those of one that is not finished are of how long it had
/// lasted.
const LASTING: [&str; 3] = ["completion_ns", "slowdown", "load_ns"];

/// Says which rows of a column of values are open: the value is infinite, which means not reached, or the transfer has not finished.
pub(super) struct Open<'a> {
    values: &'a Column,
    finished: Option<&'a Column>,
    aborted: Option<&'a Column>,
}

impl<'a> Open<'a> {
    pub(super) fn new(table: &'a Table, name: &str) -> Result<Self, String> {
        let column = |wanted: &str| table.column(wanted).filter(|_| LASTING.contains(&name));
        Ok(Self { values: table.known(name)?, finished: column("finished"), aborted: column("aborted") })
    }
    /// The value of a row: infinity if it is open.
    pub(super) fn value(&self, row: usize) -> Option<f64> {
        let value = self.values.any_number(row)?;
        Some(if is(self.finished, row) == Some(false) { f64::INFINITY } else { value })
    }
    /// How much an open value had reached when it was last seen: infinity if it can never end.
    pub(super) fn seen(&self, row: usize) -> f64 {
        let is_endless = is(self.aborted, row) == Some(true);
        self.values.any_number(row).filter(|_| !is_endless).unwrap_or(f64::INFINITY)
    }
    /// Whether open values are durations that had not ended, instead of values that were not reached.
    pub(super) fn lasts(&self) -> bool {
        self.finished.is_some()
    }
}

fn is(column: Option<&Column>, row: usize) -> Option<bool> {
    match column? {
        Column::Truth(values) => values[row],
        _ => None,
    }
}

/// The distribution of values, some of which are only known to exceed those in `open`: each value with the share that is at most as
/// large.
pub(crate) fn distribution(mut ended: Vec<f64>, mut open: Vec<f64>) -> Vec<(f64, f64)> {
    ended.sort_by(f64::total_cmp);
    open.sort_by(f64::total_cmp);
    let count = ended.len() + open.len();
    if open.is_empty() {
        return ended.iter().enumerate().map(|(n, value)| (*value, (n + 1) as f64 / count as f64)).collect();
    }
    let one = |value: &f64| (*value, 1);
    shares(ended.iter().map(one), open.iter().map(one), count as u64).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::chart::{Chart, ChartKind};
    use crate::drawing::{Drawing, Shape};
    use crate::look::Look;

    /// Four rates with two seeds each, of which one of the third was not reached.
    fn table() -> Table {
        let rates = [5, 5, 10, 10, 20, 20, 50, 50].map(|rate| Some(format!("{rate}mbit")));
        let values = [1e6, 3e6, 4e6, 4e6, 2e6, f64::INFINITY, 5e6, 5e6].map(Some);
        Table::default()
            .with("rate", Column::Text(rates.into()))
            .with("queue", Column::Text(vec![Some("fifo".into()); 8]))
            .with("seed", Column::Integer([1, 2].repeat(4).into_iter().map(Some).collect()))
            .with("unit", Column::Text(vec![Some("ns".into()); 8]))
            .with("value", Column::Number(values.into()))
    }
    fn texts(drawing: &Drawing) -> String {
        let text = |shape: &Shape| match shape {
            Shape::Text { text, .. } => Some(text.clone()),
            _ => None,
        };
        drawing.shapes.iter().filter_map(text).collect::<Vec<_>>().join(" ")
    }
    fn chart(kind: ChartKind) -> Chart {
        let [x, y, value] = ["rate", "value", "value"].map(str::to_owned);
        Chart { kind, x, y, value, by: vec!["queue".into()], ..Chart::default() }
    }

    #[test]
    fn a_run_that_is_not_reached_leaves_its_line_open() {
        let plot = chart(ChartKind::Lines).plot(&table()).expect("a plot");
        let curve = &plot.curves[0];
        assert!(curve.points.len() == 4 && curve.points[2].1.is_nan() && curve.band[2].1.is_nan(), "{curve:?}");
        assert_eq!((curve.points[0].1, curve.points[3].1), (2.0, 5.0));
        assert!(plot.note.is_some_and(|note| note.contains("Not reached: 1 of 8 (fifo); gaps.")));
        let plot = chart(ChartKind::Scatter).plot(&table()).expect("a plot");
        assert!(plot.curves[0].points.len() == 7 && plot.note.is_some_and(|note| note.contains("1 of 8 (fifo)")));
    }

    #[test]
    fn a_run_that_is_not_reached_marks_its_cell() {
        let mut heat = chart(ChartKind::Heat);
        heat.y = "queue".into();
        let drawing = heat.drawing(&table(), &Look::text()).expect("a figure");
        let said = texts(&drawing);
        assert!(said.contains("n.r.") && said.contains("n.r.: not reached in at least one of the values"), "{said}");
        // The finite value of the third rate is no mean of its cell.
        assert!(!said.contains(" 2.000 4.000 2.000"), "{said}");
        assert_eq!(drawing.misplaced(), Vec::<String>::new());
    }

    #[test]
    fn a_distribution_ends_at_the_share_that_is_reached() {
        for (kind, last) in [(ChartKind::Ecdf, 0.875), (ChartKind::Ccdf, 0.125)] {
            let chart =
                Chart { kind, x: "value".into(), only: vec![("queue".into(), "fifo".into())], ..Chart::default() };
            let plot = chart.plot(&table().without(&["rate"])).expect("a plot");
            let end = plot.curves[0].points.last().expect("points");
            assert!((end.0 - 5.0).abs() < 1e-12 && (end.1 - last).abs() < 1e-12, "{end:?}");
            assert!(plot.note.is_some_and(|note| note.contains("Not reached: 1 of 8.")));
        }
        let boxes = Chart { x: "value".into(), by: vec!["rate".into()], ..chart(ChartKind::Box) };
        let said = boxes.drawing(&table(), &Look::text()).expect("a figure");
        assert!(texts(&said).contains("not reached"), "{}", texts(&said));
    }

    /// The remission times of Freireich et al. as completion times in ms, with those that had not ended.
    #[test]
    fn transfers_that_had_not_finished_are_no_completed_ones() {
        let ended = [6, 6, 6, 7, 10, 13, 16, 22, 23];
        let open = [6, 9, 10, 11, 17, 19, 20, 25, 32, 32, 34, 35];
        let all = ended.iter().chain(&open).map(|time| Some(time * 1_000_000_u64)).collect();
        let truth = |of: fn(usize) -> bool| Column::Truth((0..21).map(|n| Some(of(n))).collect());
        let table = Table::default()
            .with("flow", Column::Text(vec![Some("short".into()); 21]))
            .with("completion_ns", Column::Integer(all))
            .with("finished", truth(|n| n < 9))
            .with("aborted", truth(|_| false));
        let chart = Chart { kind: ChartKind::Ecdf, x: "completion_ns".into(), ..Chart::default() };
        let plot = chart.plot(&table).expect("a plot");
        // The axis is in the unit of people, without being asked.
        assert_eq!(plot.x.label(), "completion, ms");
        let share = |time: f64| {
            let mut points = plot.curves[0].points.iter().filter(|point| point.0 <= time + 1e-9);
            points.next_back().map(|point| (point.1 * 1e3).round() / 1e3)
        };
        assert_eq!([6.0, 10.0, 23.0, 99.0].map(share), [0.143, 0.247, 0.552, 0.552].map(Some));
        assert!(
            plot.note.as_deref().is_some_and(|note| note.contains("Not finished: 12 of 21") && note.contains("Kaplan"))
        );
        // The quartiles of a box are those of the same distribution: 25 % at 13 ms, half at 23 ms, and three quarters are not reached.
        let of_box = |form: ChartKind| {
            let chart = Chart { kind: form, by: vec!["flow".into()], ..chart.clone() };
            chart.drawing(&table, &Look::text()).expect("a figure")
        };
        for form in [ChartKind::Box, ChartKind::Violin, ChartKind::Strip] {
            let said = texts(&of_box(form));
            assert!(said.contains("12 of 21 not finished") && said.contains("Kaplan and Meier"), "{said}");
        }
        let drawing = of_box(ChartKind::Box);
        let points = drawing.shapes.iter().find_map(|shape| match shape {
            Shape::Marks { points, .. } => Some(points.clone()),
            _ => None,
        });
        let area = drawing.shapes.iter().find_map(|shape| match shape {
            Shape::Area { outline, .. } => Some(outline.clone()),
            _ => None,
        });
        let (points, area) = (points.expect("marks"), area.expect("an area"));
        assert_eq!(points.len(), 9, "{points:?}");
        assert!(
            (area[0].0 - points[5].0).abs() < 1e-9 && area[1].0 > points[8].0,
            "from 13 ms on: {area:?} {points:?}"
        );
        assert!(texts(&drawing).contains("Open boxes: the upper quartile"), "{}", texts(&drawing));
        // The finished ones alone are a distribution of their own.
        let only = Chart { only: vec![("finished".into(), "true".into())], ..chart };
        assert_eq!(only.plot(&table).expect("a plot").curves[0].points.last(), Some(&(23.0, 1.0)));
    }
}
