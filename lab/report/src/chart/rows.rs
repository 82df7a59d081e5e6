//! The rows that a chart draws, and their values: as they are, or divided by those of others.

use std::collections::BTreeMap;

use super::open::Open;
use super::{Chart, Rows};
use crate::columns::{Column, Table};

impl Chart {
    /// The rows to draw with their values, which are in the column `values`.
    pub(super) fn chosen(&self, table: &Table, values: &str) -> Result<Rows, String> {
        let open = Open::new(table, values)?;
        let times = self.times.unwrap_or(1.0);
        let valued = |rows: Vec<usize>| rows.into_iter().filter_map(|row| Some((row, open.value(row)? * times)));
        let ours: Rows = valued(table.rows_with(&self.only)?).collect();
        self.check_mixed(table, &ours)?;
        if self.over.is_empty() {
            return Ok(ours);
        }
        let replaced = |(name, text): &(String, String)| {
            let other = self.over.iter().find(|(known, _)| known == name);
            (name.clone(), other.map_or(text, |(_, text)| text).clone())
        };
        let mut wanted: Vec<(String, String)> = self.only.iter().map(replaced).collect();
        wanted.extend(self.over.iter().filter(|(name, _)| !self.only.iter().any(|(known, _)| known == name)).cloned());
        // Rows belong together that are equal in all columns but those of `over` and of the values.
        let same: Vec<&Column> = table
            .columns()
            .filter(|(name, _)| *name != values && !self.over.iter().any(|(other, _)| other == name))
            .map(|(_, column)| column)
            .collect();
        let key = |row: usize| same.iter().map(|column| column.text(row)).collect::<Vec<_>>();
        let below: BTreeMap<Vec<Option<String>>, f64> =
            valued(table.rows_with(&wanted)?).map(|(row, value)| (key(row), value)).collect();
        // A ratio of which one part was not reached is not reached either.
        let divided = |value: f64, by: f64| if by.is_finite() { value / by } else { f64::INFINITY };
        let pairs = ours.into_iter().filter_map(|(row, value)| Some((row, value, *below.get(&key(row))?)));
        let pairs: Vec<(usize, f64, f64)> = pairs.collect();
        let zeros = pairs.iter().filter(|(.., by)| *by == 0.0).count();
        if zeros > 0 {
            return Err(format!(
                "{zeros} of {} values are 0 by which others would be divided{}; draw both by themselves, or choose rows with --only",
                pairs.len(),
                self.ratios()
            ));
        }
        let ratios: Rows = pairs.into_iter().map(|(row, value, by)| (row, divided(value, by))).collect();
        match ratios.is_empty() {
            true => {
                Err("no two rows belong together: all columns but the value and those of the ratio must be equal"
                    .into())
            }
            false => Ok(ratios),
        }
    }

    /// The two sides of the ratio, to be put behind the name of the values: `, flow a / flow b`; empty if values are not divided.
    pub(super) fn ratios(&self) -> String {
        let ours = |column: &str| self.only.iter().find(|(name, _)| name == column).map_or("all", |(_, text)| text);
        let ratio =
            |(column, text): &(String, String)| format!(", {} / {}", self.named(ours(column)), self.named(text));
        self.over.iter().map(ratio).collect()
    }
}
