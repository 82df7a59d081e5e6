//! The curves or rows of a chart.

use super::{Chart, Rows};
use crate::columns::{Column, Table};

impl Chart {
    /// The rows by the texts that name their curve, in the order of their first appearance.
    pub(super) fn series(&self, table: &Table, rows: &Rows) -> Result<Vec<(String, Rows)>, String> {
        let columns: Vec<&Column> = self.by.iter().map(|by| table.known(by)).collect::<Result<_, _>>()?;
        if columns.is_empty() {
            return Ok(vec![(String::new(), rows.clone())]);
        }
        let mut series: Vec<(String, Rows)> = Vec::new();
        for (row, value) in rows {
            let texts: Vec<String> = columns.iter().filter_map(|column| column.text(*row)).collect();
            // Curves whose names begin alike have one colour.
            let name = texts.join(": ");
            match series.iter_mut().find(|(known, _)| *known == name) {
                Some((_, rows)) => rows.push((*row, *value)),
                None => series.push((name, vec![(*row, *value)])),
            }
        }
        Ok(series)
    }
}
