//! Wider bins for lines of rates over time, which are mostly noise in short ones, and classes for lines over quantities such as sizes.

use super::Rows;
use crate::columns::Column;

/// The number of places along the axis above which bins are merged, and at most which remain.
const MANY: usize = 200;
const FEW: usize = 100;

/// The number of places above which values are put into classes, and that of these.
const SINGLE: usize = 40;
const CLASSES: usize = 10;

/// Classes of places with equally many values, for lines over a quantity such as sizes, of which nearly each value has another.
pub(super) struct Classes {
    /// The greatest place of each, rising, and its middle.
    all: Vec<(f64, f64)>,
}

impl Classes {
    /// Classes for these places; `None` if there are few different ones.
    pub(super) fn new(mut places: Vec<f64>) -> Option<Self> {
        places.sort_by(f64::total_cmp);
        if places.chunk_by(|a, b| a == b).count() <= SINGLE {
            return None;
        }
        let class = |n: usize| {
            let of = &places[n * places.len() / CLASSES..(n + 1) * places.len() / CLASSES];
            (of[of.len() - 1], of[of.len() / 2])
        };
        let mut all: Vec<(f64, f64)> = (0..CLASSES).map(class).collect();
        // One that ends where the one before does has only values that belong to that one.
        all.dedup_by(|later, earlier| later.0 == earlier.0);
        Some(Self { all })
    }
    /// The middle of the class of a place.
    pub(super) fn middle(&self, place: f64) -> f64 {
        let at = self.all.partition_point(|(end, _)| *end < place).min(self.all.len() - 1);
        self.all[at].1
    }
    /// The number of classes.
    pub(super) fn count(&self) -> usize {
        self.all.len()
    }
}

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

    /// The beginning of the bin of a place.
    pub(super) fn begin(self, place: f64) -> f64 {
        self.first + ((place - self.first) / self.width + 1e-6).floor() * self.width
    }
}
