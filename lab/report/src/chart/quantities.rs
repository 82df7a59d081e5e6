//! Points of two quantities, one for each run: the throughput of a flow against its delay.

use std::collections::BTreeSet;

use super::{Chart, ChartKind};
use crate::columns::{Column, Table};
use crate::comparison::{Better, each_once, from_to};
use crate::model::{Curve, Plot, Scale};
use crate::readable;
use crate::simulation::better;
use tidegate_metrics::names::{parts_of, the_only};

/// The columns of a table of values that say what a value is, and not which run it is of.
const OF_VALUES: [&str; 9] = ["kind", "subject", "measure", "part", "x", "x_unit", "value", "unit", "digest"];
/// The number of corners of an ellipse.
const CORNERS: u32 = 72;

impl Chart {
    /// The chart of the values of a quantity that lines, heat maps and distributions name in place of the column with values: `delay p95 of
    /// flow bulk`. `None` if they name columns.
    ///
    /// # Errors
    /// If it means none of the table, or several.
    pub(super) fn of_quantity(&self, table: &Table) -> Result<Option<Self>, String> {
        let mut chart = self.clone();
        let values = match self.kind {
            ChartKind::Lines => &mut chart.y,
            ChartKind::Heat => &mut chart.value,
            ChartKind::Scatter | ChartKind::Best => return Ok(None),
            _ => &mut chart.x,
        };
        let name = std::mem::replace(values, "value".to_owned());
        let Some((measure, subject)) = parts_of(&name).filter(|_| table.known(&name).is_err()) else { return Ok(None) };
        if table.column("kind").is_some() {
            chart.only.push(("kind".to_owned(), "value".to_owned()));
        }
        for (column, part) in [("subject", subject), ("measure", measure)] {
            let texts = table.known(column)?;
            let rows = table.rows_with(&chart.only)?;
            let all: Vec<String> = rows.iter().filter_map(|row| texts.text(*row)).collect();
            let all = each_once(all.iter().map(String::as_str));
            let part = the_only(&all, part, column)?.to_owned();
            chart.only.push((column.to_owned(), part));
        }
        Ok(Some(chart))
    }

    /// The chart of a table with a row for each run and a column for each axis, if both axes name quantities, each as `MEASURE of SUBJECT`;
    /// `None` if they name columns.
    ///
    /// # Errors
    /// If one of them names a quantity and the other a column, or a quantity means none of the table, or several.
    pub(super) fn of_quantities(&self, table: &Table) -> Result<Option<(Self, Table)>, String> {
        let named = [&self.x, &self.y].map(|name| parts_of(name).filter(|_| table.known(name).is_err()));
        let [Some(x), Some(y)] = named else {
            return match named {
                [None, None] => Ok(None),
                _ => Err("a scatter of quantities has one on each axis: --x 'delay p95 of flow bulk' --y 'goodput of flow bulk'".into()),
            };
        };
        if self.kind != ChartKind::Scatter || !self.over.is_empty() {
            return Err(
                "quantities are the axes of --kind scatter alone, and without --over; other figures take columns"
                    .into(),
            );
        }
        let text = |name: &str| match table.known(name)? {
            Column::Text(values) => Ok(values.as_slice()),
            _ => Err(format!("the column `{name}` has no texts")),
        };
        let (subjects, measures, units) = (text("subject")?, text("measure")?, text("unit")?);
        let values = table.known("value")?;
        let mut rows = table.rows_with(&self.only)?;
        if let Some(kinds) = table.column("kind") {
            rows.retain(|row| kinds.text(*row).as_deref() == Some("value"));
        }
        let own: Vec<(&str, &Column)> = table.columns().filter(|(name, _)| !OF_VALUES.contains(name)).collect();
        let run = |row: usize| own.iter().map(|(_, column)| column.text(row)).collect::<Vec<_>>();
        // The first row of each run.
        let mut known = std::collections::HashMap::new();
        let mut runs: Vec<usize> = Vec::new();
        for &row in &rows {
            known.entry(run(row)).or_insert_with(|| {
                runs.push(row);
                runs.len() - 1
            });
        }
        let mut chart = self.clone();
        let mut wide = Table::default();
        for (name, column) in &own {
            wide = wide.with(*name, column.rows(&runs));
        }
        for (axis, (measure, subject)) in [x, y].into_iter().enumerate() {
            let all: Vec<&str> = each_once(rows.iter().filter_map(|row| subjects[*row].as_deref()));
            let subject = the_only(&all, subject, "subject")?;
            let of_subject = || rows.iter().copied().filter(|row| subjects[*row].as_deref() == Some(subject));
            let all: Vec<&str> = each_once(of_subject().filter_map(|row| measures[row].as_deref()));
            let measure = the_only(&all, measure, &format!("measure of {subject}"))?;
            let (mut column, mut unit) = (vec![None; runs.len()], "");
            for row in of_subject().filter(|row| measures[*row].as_deref() == Some(measure)) {
                column[known[&run(row)]] = values.any_number(row);
                unit = units[row].as_deref().unwrap_or_default();
            }
            let end = match unit {
                "ns" | "bps" => format!("_{unit}"),
                "B" => "_bytes".to_owned(),
                _ => String::new(),
            };
            let title = readable::measure(measure, subject);
            let unit = if unit == "1" || !end.is_empty() { String::new() } else { format!(", {unit}") };
            if chart.labels[axis].is_empty() {
                chart.labels[axis] = title + &unit;
            }
            let name = format!("{measure} of {subject}{end}");
            // A quantity may be drawn against itself.
            let name = if wide.column(&name).is_some() { format!("{measure} of {subject} again{end}") } else { name };
            *(if axis == 0 { &mut chart.x } else { &mut chart.y }) = name.clone();
            wide = wide.with(name, Column::Number(column));
        }
        chart.only.retain(|(column, _)| !OF_VALUES.contains(&column.as_str()));
        if chart.by.is_empty() && own.iter().any(|(name, _)| *name == "variant") {
            chart.by = vec!["variant".to_owned()];
        }
        Ok(Some((chart, wide)))
    }

    /// Adds to each curve of a scatter of quantities its mean and its spread, and to the note what they are and where values are better.
    pub(super) fn with_clouds(&self, mut plot: Plot) -> Plot {
        let logs = [plot.x.scale == Scale::Log, plot.y.scale == Scale::Log];
        plot.curves.iter_mut().filter(|curve| !curve.is_apart).for_each(|curve| cloud(curve, logs));
        let counts: BTreeSet<usize> =
            plot.curves.iter().filter(|curve| curve.centre.is_some()).map(|curve| curve.points.len()).collect();
        let mut said = Vec::new();
        if let (Some(least), Some(most)) = (counts.first(), counts.last()) {
            let runs = from_to(*least, *most);
            let geometric = match logs {
                [false, false] => "",
                [true, true] => ", which are geometric",
                _ => ", which are geometric along the logarithmic axis",
            };
            said.push(format!("Large marks: means of {runs} runs{geometric}."));
        }
        if plot.curves.iter().any(|curve| !curve.outline.is_empty()) {
            let of = match logs {
                [false, false] => "of the runs",
                [true, true] => "of the logarithms of the runs",
                _ => "of the runs, and of their logarithms along that axis",
            };
            said.push(format!("Ellipses: one standard deviation {of}."));
        }
        let way = |name: &str, less: &str, more: &str| match better(parts_of(name).map_or("", |(measure, _)| measure)) {
            Better::Less => Some(less.to_owned()),
            Better::More => Some(more.to_owned()),
            Better::Neither => None,
        };
        let ways = [way(&self.y, "down", "up"), way(&self.x, "left", "right")];
        let ways: Vec<String> = ways.into_iter().flatten().collect();
        if !ways.is_empty() {
            said.push(format!("Better: {}.", ways.join(" and ")));
        }
        plot.note = plot.note.into_iter().chain(said).reduce(|note, more| format!("{note} {more}"));
        plot
    }
}

/// Gives a curve the mean of its points and, from three on, the ellipse of one standard deviation about it: of logarithms on logarithmic
/// axes.
fn cloud(curve: &mut Curve, [log_x, log_y]: [bool; 2]) {
    let to = |value: f64, log: bool| if log { value.log10() } else { value };
    let from = |value: f64, log: bool| if log { 10_f64.powf(value) } else { value };
    let points: Vec<(f64, f64)> = curve.points.iter().map(|(x, y)| (to(*x, log_x), to(*y, log_y))).collect();
    let points: Vec<(f64, f64)> = points.into_iter().filter(|(x, y)| x.is_finite() && y.is_finite()).collect();
    let n = points.len() as f64;
    if points.len() < 2 {
        return;
    }
    let mean = |of: fn(&(f64, f64)) -> f64| points.iter().map(of).sum::<f64>() / n;
    let (x, y) = (mean(|point| point.0), mean(|point| point.1));
    curve.centre = Some((from(x, log_x), from(y, log_y)));
    if points.len() < 3 {
        return;
    }
    let moment =
        |of: &dyn Fn(f64, f64) -> f64| points.iter().map(|point| of(point.0 - x, point.1 - y)).sum::<f64>() / (n - 1.0);
    let (xx, xy, yy) = (moment(&|dx, _| dx * dx), moment(&|dx, dy| dx * dy), moment(&|_, dy| dy * dy));
    // The root of the covariance by Cholesky.
    let across = xx.sqrt();
    let along = if across > 0.0 { xy / across } else { 0.0 };
    let rest = (yy - along * along).max(0.0).sqrt();
    let corner = |n: u32| {
        let (sin, cos) = (std::f64::consts::TAU * f64::from(n) / f64::from(CORNERS)).sin_cos();
        (from(x + across * cos, log_x), from(y + along * cos + rest * sin, log_y))
    };
    curve.outline = (0..=CORNERS).map(corner).collect();
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::look::Look;

    /// Two variants with four runs, each with a goodput and two delays.
    fn table() -> Table {
        let mut texts: [Vec<Option<String>>; 4] = Default::default();
        let (mut seeds, mut values) = (Vec::new(), Vec::new());
        for (variant, base) in [("fifo", 4.0), ("codel", 1.0)] {
            for seed in 1..=4_u64 {
                let n = seed as f64;
                for (measure, unit, value) in [
                    ("goodput", "bps", 1e6 * (base + n)),
                    ("delay p95", "ns", 1e6 * base * n),
                    ("delay mean", "ns", 5e5 * n),
                ] {
                    let all = [variant, "flow bulk", measure, unit];
                    texts.iter_mut().zip(all).for_each(|(column, text)| column.push(Some(text.to_owned())));
                    seeds.push(Some(seed));
                    values.push(Some(value));
                }
            }
        }
        let [variant, subject, measure, unit] = texts.map(Column::Text);
        Table::default()
            .with("seed", Column::Integer(seeds))
            .with("variant", variant)
            .with("subject", subject)
            .with("measure", measure)
            .with("value", Column::Number(values))
            .with("unit", unit)
    }
    fn chart(x: &str, y: &str) -> Chart {
        Chart { kind: ChartKind::Scatter, x: x.into(), y: y.into(), ..Chart::default() }
    }

    #[test]
    fn a_run_is_a_point_of_two_quantities() {
        let chart = chart("delay p95 of flow bulk", "goodput of flow bulk");
        let (own, wide) = chart.of_quantities(&table()).expect("quantities").expect("two");
        let plot = chart.with_clouds(own.plot(&wide).expect("a plot"));
        assert_eq!(
            (plot.x.label(), plot.y.label()),
            ("Delay of bulk, 95th pct., ms".into(), "Goodput of bulk, bit/s".into())
        );
        let [fifo, codel] = plot.curves.as_slice() else { panic!("{plot:?}") };
        assert_eq!(
            (fifo.name.as_str(), fifo.points.as_slice()),
            ("fifo", &[(4.0, 5e6), (8.0, 6e6), (12.0, 7e6), (16.0, 8e6)][..])
        );
        assert_eq!((fifo.centre, codel.centre), (Some((10.0, 6.5e6)), Some((2.5, 3.5e6))));
        // The points are on a line, and so is the ellipse: the standard deviation of 1, 2, 3, 4 is the root of 5/3.
        let far = fifo.outline.iter().map(|point| point.0).fold(0.0, f64::max);
        assert!((far - (10.0 + 4.0 * (5.0_f64 / 3.0).sqrt())).abs() < 1e-9, "{far}");
        assert_eq!(
            plot.note.as_deref(),
            Some("Large marks: means of 4 runs. Ellipses: one standard deviation of the runs. Better: up and left.")
        );
        let drawing = chart.drawing(&table(), &Look::column()).expect("a figure");
        assert_eq!(drawing.misplaced(), Vec::<String>::new());
    }

    /// On a logarithmic axis a mean is geometric, and the note says so: tables have another one.
    #[test]
    fn means_on_a_logarithmic_axis_are_called_geometric() {
        let chart = Chart { log_x: true, ..chart("delay p95 of flow bulk", "goodput of flow bulk") };
        let (own, wide) = chart.of_quantities(&table()).expect("quantities").expect("two");
        let plot = chart.with_clouds(own.plot(&wide).expect("a plot"));
        let centre = plot.curves[0].centre.expect("a mean").0;
        assert!((centre - (4.0 * 8.0 * 12.0 * 16.0_f64).powf(0.25)).abs() < 1e-9, "{centre}");
        assert_eq!(
            plot.note.as_deref(),
            Some(
                "Large marks: means of 4 runs, which are geometric along the logarithmic axis. Ellipses: one standard deviation of the \
                 runs, and of their logarithms along that axis. Better: up and left."
            )
        );
    }

    /// The ellipse of points that are spread evenly in both directions is a circle, on a logarithmic axis of decades.
    #[test]
    fn an_ellipse_is_that_of_one_standard_deviation() {
        let mut curve = Curve::new("a", [(-1.0, 0.0), (1.0, 0.0), (0.0, -1.0), (0.0, 1.0)]);
        cloud(&mut curve, [false, false]);
        let radius = (2.0_f64 / 3.0).sqrt();
        assert!(curve.outline.iter().all(|(x, y)| (x.hypot(*y) - radius).abs() < 1e-9), "{curve:?}");
        let mut curve = Curve::new("a", [(0.1, 1.0), (10.0, 1.0), (1.0, 1.0)]);
        cloud(&mut curve, [true, false]);
        let (x, y) = curve.centre.expect("a mean");
        assert!((x - 1.0).abs() < 1e-9 && y == 1.0 && (curve.outline[0].0 - 10.0).abs() < 1e-6, "{curve:?}");
    }

    #[test]
    fn what_is_no_pair_of_quantities_is_refused() {
        let said = |x: &str, y: &str| chart(x, y).drawing(&table(), &Look::page()).expect_err("refused");
        assert!(said("delay p95 of flow bulk", "value").contains("one on each axis"));
        assert!(said("delay of flow bulk", "goodput of flow bulk").contains("more than one measure of flow bulk"));
        assert!(
            said("jitter of flow bulk", "goodput of flow bulk")
                .contains("no measure of flow bulk is meant by `jitter`")
        );
        // Lines have the values of one, over a column.
        let lines = |x: &str| Chart { kind: ChartKind::Lines, ..chart(x, "goodput of flow bulk") };
        let two = lines("delay p95 of flow bulk").drawing(&table(), &Look::page());
        assert!(two.expect_err("refused").contains("one on each axis"));
        let by = Chart { by: vec!["variant".into()], ..lines("seed") };
        assert_eq!(by.drawing(&table(), &Look::page()).map(|_| ()), Ok(()));
    }
}
