//! The rows that points leave out.

use super::open::Open;
use super::{Chart, ChartKind, Rows};
use crate::columns::Table;
use crate::model::Axis;

/// Why a row has no point, in the order in which reasons are stated.
const REASONS: [&str; 5] = [
    "not finished",
    "not reached",
    "without a value",
    "without a row to divide by",
    "not above 0 on a logarithmic axis",
];

impl Chart {
    /// States how many rows of each curve have no point, and why; `None` if all have one. `rows` are those with a value, `place` gives where
    /// they are on the axes, and `columns` are those of both axes. Lines have gaps where a value was not reached, which they say themselves.
    pub(super) fn left_out(
        &self,
        table: &Table,
        rows: &Rows,
        columns: [&Open<'_>; 2],
        axes: [&Axis; 2],
        place: impl Fn(&(usize, f64)) -> Option<(f64, f64)>,
    ) -> Result<Option<String>, String> {
        let reason = |row: usize| {
            let values = [0, 1].map(|axis| columns[axis].value(row));
            let is_open = |axis: usize| values[axis] == Some(f64::INFINITY);
            let is_line = self.kind == ChartKind::Lines;
            if let Some(axis) = (0..if is_line { 1 } else { 2 }).find(|axis| is_open(*axis)) {
                return Some(usize::from(!columns[axis].lasts()));
            }
            if values.iter().any(Option::is_none) {
                return Some(2);
            }
            let Ok(at) = rows.binary_search_by_key(&row, |(row, _)| *row) else { return Some(3) };
            if rows[at].1.is_infinite() {
                return (!is_line).then_some(1);
            }
            let is_shown = place(&rows[at]).is_some_and(|(x, y)| axes[0].has(x) && axes[1].has(y));
            (!is_shown).then_some(4)
        };
        let all: Rows = table.rows_with(&self.only)?.into_iter().map(|row| (row, 0.0)).collect();
        let mut said: [Vec<String>; REASONS.len()] = Default::default();
        for (name, rows) in self.series(table, &all)? {
            let mut counts = [0; REASONS.len()];
            rows.iter().filter_map(|(row, _)| reason(*row)).for_each(|reason| counts[reason] += 1);
            let of = if name.is_empty() { String::new() } else { format!(" ({name})") };
            for (said, count) in said.iter_mut().zip(counts).filter(|(_, count)| *count > 0) {
                said.push(format!("{count} of {}{of}", rows.len()));
            }
        }
        let some = REASONS.iter().zip(said).filter(|(_, said)| !said.is_empty());
        let said: Vec<String> = some.map(|(reason, said)| format!("{reason} {}", said.join(", "))).collect();
        Ok((!said.is_empty()).then(|| format!("Not shown: {}.", said.join("; "))))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::columns::Column;

    /// Six transfers, of which one has not finished and one has no size: they have no point, and the note says so. The time of the first
    /// is how long it had lasted, which is no time of completion on either axis.
    #[test]
    fn rows_without_a_point_are_counted_with_their_reason() {
        let sizes = [Some(10), Some(20), Some(30), Some(40), None, Some(0)];
        let table = Table::default()
            .with("flow", Column::Text(["a", "a", "a", "b", "b", "b"].map(|name| Some(name.to_owned())).into()))
            .with("size_bytes", Column::Integer(sizes.into()))
            .with("completion_ns", Column::Integer([5, 6, 7, 8, 9, 9].map(|n| Some(n * 1_000_000)).into()))
            .with("finished", Column::Truth([true, true, false, true, true, true].map(Some).into()));
        let chart = |x: &str, y: &str, log_x| Chart {
            kind: ChartKind::Scatter,
            x: x.into(),
            y: y.into(),
            by: vec!["flow".into()],
            log_x,
            ..Chart::default()
        };
        for (x, y) in [("size_bytes", "completion_ns"), ("completion_ns", "size_bytes")] {
            let plot = chart(x, y, false).plot(&table).expect("a plot");
            assert_eq!(plot.curves.iter().map(|curve| curve.points.len()).collect::<Vec<_>>(), [2, 2], "{x}");
            assert_eq!(
                plot.note.as_deref(),
                Some("Not shown: not finished 1 of 3 (a); without a value 1 of 3 (b)."),
                "{x}"
            );
        }
        let plot = chart("size_bytes", "completion_ns", true).plot(&table).expect("a plot");
        assert!(plot.note.is_some_and(|note| note.ends_with("not above 0 on a logarithmic axis 1 of 3 (b).")));
        // A line through the rows that are there does not say that others are missing.
        let rows = |values: [f64; 4]| {
            let seconds = [Some("1".to_owned()), Some("2".into()), Some("3".into()), Some("4".into())];
            Table::default()
                .with("t", Column::Text(seconds.into()))
                .with("value", Column::Number(values.map(Some).into()))
        };
        let lines = |table: &Table| {
            let lines = Chart { kind: ChartKind::Lines, x: "t".into(), y: "value".into(), ..Chart::default() };
            lines.plot(table).expect("a plot").note
        };
        assert_eq!(lines(&rows([1.0, 2.0, 3.0, 4.0])), None);
        let said = lines(&rows([1.0, f64::NAN, 3.0, 4.0]));
        assert!(said.as_deref().is_some_and(|said| said.contains("without a value 1 of 4")), "{said:?}");
        let said = lines(&rows([1.0, f64::INFINITY, 3.0, 4.0]));
        assert_eq!(said.as_deref(), Some("Not reached: 1 of 4; gaps."));
        let only = Chart { only: vec![("flow".into(), "a".into())], ..chart("size_bytes", "size_bytes", false) };
        assert_eq!(only.plot(&table).expect("a plot").note.as_deref(), Some("Drawn: flow a."));
    }
}
