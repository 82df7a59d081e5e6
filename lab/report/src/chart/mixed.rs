//! Rows that would be drawn as one although they are of several things.

use std::collections::{BTreeMap, BTreeSet};

use super::{Chart, ChartKind, IDENTITY, LABELS, Rows, distinct};
use crate::columns::{Column, Table, end};

impl Chart {
    /// Checks that rows of several measures, subjects, variants or points of a sweep are not drawn as one, and that rows of a distribution
    /// are not taken for values.
    pub(super) fn check_mixed(&self, table: &Table, rows: &Rows) -> Result<(), String> {
        let is_spread = !matches!(self.kind, ChartKind::Heat | ChartKind::Best | ChartKind::Scatter | ChartKind::Lines);
        if let Some(kinds) = table.column("kind").filter(|_| is_spread)
            && rows.iter().any(|(row, _)| kinds.text(*row).as_deref() == Some("distribution"))
        {
            return Err("rows of the kind `distribution` are points of one, and no values whose distribution could be drawn: \
                        `tidegate simulate FILE --figure distribution=FILE.svg` draws them, or choose others with --only kind=value"
                .into());
        }
        self.check_twice(table, rows)?;
        // The axes of a sweep count too: an interval over them would be one of nothing, and a cloud of points several.
        let tells_apart = |(name, column): &(&str, &Column)| {
            IDENTITY.contains(name) || (matches!(column, Column::Text(_)) && !LABELS.contains(name))
        };
        let mut found: Vec<(&str, &Column)> =
            table.columns().filter(tells_apart).filter(|(name, _)| !self.uses(name)).collect();
        found.sort_by_key(|(name, _)| !IDENTITY.contains(name));
        let is_used = |(name, column): &(&str, &Column)| self.uses(name) && matches!(column, Column::Text(_));
        let used: Vec<&Column> = table.columns().filter(is_used).map(|(_, column)| column).collect();
        for (name, column) in found {
            let mut texts = distinct(column, rows);
            if texts.len() > 1 && (IDENTITY.contains(&name) || !follows(column, &used, rows)) {
                let many = if texts.len() > 12 { ", ..." } else { "" };
                texts.truncate(12);
                let or = if self.kind == ChartKind::Heat { "" } else { ", or draw each with --by" };
                return Err(format!(
                    "the rows have several texts in `{name}`, which would be drawn as one: {}{many}; choose one with \
                     --only {name}=TEXT{or}",
                    texts.join(", ")
                ));
            }
        }
        Ok(())
    }

    /// Checks that no run of a sweep is there twice, with two digests: the folder has the results of two scenarios then.
    fn check_twice(&self, table: &Table, rows: &Rows) -> Result<(), String> {
        if table.column("digest").is_none() || table.column("seed").is_none() {
            return Ok(());
        }
        let same: Vec<&Column> =
            table.columns().filter(|(name, _)| !["digest", "value"].contains(name)).map(|of| of.1).collect();
        let mut known = BTreeSet::new();
        for (row, _) in rows {
            if !known.insert(same.iter().map(|column| column.text(*row)).collect::<Vec<_>>()) {
                let seed = table.column("seed").and_then(|column| column.text(*row)).unwrap_or_default();
                return Err(format!(
                    "a run with seed {seed} is there twice: the table has the results of two scenarios. Draw a folder of one"
                ));
            }
        }
        Ok(())
    }

    /// Whether a column chooses, places or names rows.
    fn uses(&self, name: &str) -> bool {
        let axes: &[&String] = match self.kind {
            ChartKind::Heat | ChartKind::Best => &[&self.x, &self.y, &self.value],
            _ => &[&self.x, &self.y],
        };
        // An axis of a sweep may be named by the end of its path.
        let is_it = |text: &str| text == name || text == end(name);
        let chosen = self.only.iter().any(|(column, _)| is_it(column));
        chosen || axes.iter().any(|axis| is_it(axis)) || self.by.iter().any(|name| is_it(name))
    }
}

/// Whether the texts of a column follow from those of the columns `used`, as the rate of a shaper does that changes together with the rate of
/// its line.
pub(super) fn follows(column: &Column, used: &[&Column], rows: &Rows) -> bool {
    let mut known: BTreeMap<Vec<Option<String>>, Option<String>> = BTreeMap::new();
    rows.iter().all(|(row, _)| {
        let key = used.iter().map(|column| column.text(*row)).collect();
        let text = column.text(*row);
        *known.entry(key).or_insert_with(|| text.clone()) == text
    })
}
