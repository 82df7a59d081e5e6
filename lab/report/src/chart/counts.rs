//! [`Counts`]: of how many values the means of a figure are, and [`Unreached`]: how many values were not reached.

use super::{ChartKind, Rows};
use crate::comparison::from_to;

/// The number of values in the means of a figure, at least and at most.
#[derive(Default)]
pub(super) struct Counts {
    least: usize,
    pub(super) most: usize,
}

impl Counts {
    pub(super) fn add(&mut self, count: usize) {
        self.least = if self.most == 0 { count } else { self.least.min(count) };
        self.most = self.most.max(count);
    }
    /// States it; `None` if there are no means of several values. Of `runs` runs no mean can have more than one value each.
    pub(super) fn said(&self, runs: usize) -> Option<String> {
        let what = if self.most <= runs { "runs" } else { "values" };
        (self.most > 1).then(|| format!("{} {what}", from_to(self.least, self.most)))
    }
}

/// The number of values of each curve that were not reached, and of all that it has.
pub(super) struct Unreached {
    kind: ChartKind,
    lasts: bool,
    is_classed: bool,
    found: Vec<(String, usize, usize)>,
}

impl Unreached {
    /// Counts for a chart of this kind, perhaps of medians in classes. Values that last are durations, which may have not finished.
    pub(super) fn new(kind: ChartKind, lasts: bool, is_classed: bool) -> Self {
        Self { kind, lasts, is_classed, found: Vec::new() }
    }
    pub(super) fn add(&mut self, curve: &str, rows: &Rows) {
        let open = rows.iter().filter(|(_, value)| value.is_infinite()).count();
        if open > 0 {
            self.found.push((curve.to_owned(), open, rows.len()));
        }
    }
    /// States them and how they are drawn; `None` if there are none.
    pub(super) fn said(&self) -> Option<String> {
        let curve = |(name, open, all): &(String, usize, usize)| match name.as_str() {
            "" => format!("{open} of {all}"),
            name => format!("{open} of {all} ({name})"),
        };
        let all = self.found.iter().map(curve).reduce(|all, one| format!("{all}, {one}"))?;
        let begin = if self.lasts { "Not finished" } else { "Not reached" };
        let drawn = match self.kind {
            ChartKind::Lines if self.is_classed => {
                "; they count as greater than all others, with gaps where a median is one"
            }
            ChartKind::Lines => "; gaps",
            _ if self.lasts => "; they count as longer than they had lasted (Kaplan and Meier)",
            _ => "",
        };
        Some(format!("{begin}: {all}{drawn}."))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_number_is_said_once_if_all_means_have_it() {
        let said = |counts: &[usize]| {
            let mut all = Counts::default();
            counts.iter().for_each(|count| all.add(*count));
            [0, 5].map(|runs| all.said(runs))
        };
        assert_eq!((said(&[]), said(&[1, 1])), ([None, None], [None, None]));
        let both = |of: &str| [Some(format!("{of} values")), Some(format!("{of} runs"))];
        assert_eq!((said(&[5, 5]), said(&[5, 3])), (both("5"), both("3 to 5")));
        assert_eq!(said(&[6]), [Some("6 values".to_owned()), Some("6 values".to_owned())]);
    }
}
