//! Wider bins for lines of rates over time, which are mostly noise in short ones.

use std::collections::BTreeMap;

use super::Rows;
use crate::columns::{Column, Table};

/// The number of places along the axis above which bins are merged, and at most which remain.
const MANY: usize = 200;
const FEW: usize = 100;

/// Bins of a width from a place on.
#[derive(Clone, Copy, PartialEq, Debug)]
pub(super) struct Bins {
    first: f64,
    pub(super) width: f64,
}

impl Bins {
    /// The bins for these rows, 2, 5, 10, ... times as wide as those of the table; `None` if there are few rows.
    pub(super) fn new(along: &Column, rows: &Rows) -> Option<Self> {
        let mut places: Vec<f64> = rows.iter().filter_map(|(row, _)| along.number(*row)).collect();
        places.sort_by(f64::total_cmp);
        places.dedup();
        let [first, second, ..] = places[..] else { return None };
        if places.len() <= MANY {
            return None;
        }
        let steps = (0..).flat_map(|power| [1, 2, 5].map(|step| step * 10_usize.pow(power)));
        let step = steps.take(24).find(|step| places.len().div_ceil(*step) <= FEW)?;
        Some(Self { first, width: ((second - first) * step as f64 * 1e9).round() / 1e9 })
    }

    /// The mean of each bin of each run.
    pub(super) fn means(self, table: &Table, along: &Column, rows: &Rows) -> Vec<(f64, f64)> {
        let seeds = table.column("seed");
        let mut sums: BTreeMap<(u64, Option<String>), (f64, u32)> = BTreeMap::new();
        for (row, value) in rows {
            let Some(place) = along.number(*row) else { continue };
            let bin = ((place - self.first) / self.width + 1e-6) as u64;
            let sum = sums.entry((bin, seeds.and_then(|seeds| seeds.text(*row)))).or_default();
            *sum = (sum.0 + value, sum.1 + 1);
        }
        let mean = |((bin, _), (sum, count)): ((u64, _), (f64, u32))| {
            (self.first + bin as f64 * self.width, sum / f64::from(count))
        };
        sums.into_iter().map(mean).collect()
    }
}
