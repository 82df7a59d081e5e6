//! [`Family`]: the tests that are stated together, and what their number makes of each.

use tidegate_metrics::{Difference, LEVEL, holm};

use super::{Corrected, Pair};

/// The tests whose results are stated together, and for whose number each of them is corrected (Holm): those of differences for each
/// other, and those of equalities likewise.
#[derive(Clone, PartialEq, Debug)]
pub(crate) struct Family {
    differences: Corrections,
    pub(super) equalities: Corrections,
    /// How many of them were tested.
    tested: usize,
    /// Whether some of them were chosen besides those that were planned.
    pub(super) has_others: bool,
}

impl Family {
    /// The family of tested pairs, and of so many others that were meant to be tested and could not, because no run of two variants reached
    /// the measure, or one did not complete all. They count as not told apart: for how many tests a probability is corrected
    /// does not depend on the results.
    pub(crate) fn of(pairs: &[Pair], untestable: usize) -> Self {
        let with_untestable = |probabilities: Vec<f64>| {
            Corrections::new(probabilities.into_iter().chain(std::iter::repeat_n(1.0, untestable)).collect())
        };
        // Pairs that are told apart up to a limit alone have no equality, which does not depend on the results either.
        let equality = |pair: &Pair| match pair.equality {
            Some(equality) => Some(equality.p()),
            None => pair.limit.map(|_| 1.0),
        };
        let equalities = pairs.iter().filter_map(equality).collect();
        let differences: Vec<f64> = pairs.iter().filter_map(|pair| pair.difference.p).collect();
        let tested = differences.len();
        Self {
            differences: with_untestable(differences),
            equalities: with_untestable(equalities),
            tested,
            has_others: false,
        }
    }
    /// The family with others that were chosen besides what was planned.
    pub(crate) fn with_others(self) -> Self {
        Self { has_others: true, ..self }
    }
    /// The number of differences for which probabilities are corrected.
    pub(crate) fn len(&self) -> usize {
        self.differences.probabilities.len()
    }
    /// Whether nothing was tested.
    pub(crate) fn is_empty(&self) -> bool {
        self.tested == 0
    }
    /// Corrects the probability of one of the differences; `None` if it was not tested.
    pub(super) fn correct(&self, difference: &Difference) -> Option<Corrected> {
        Some(self.differences.correct(difference.p?))
    }
    /// Whether variants are equal within 2 %: by the tests, or by means whose difference the seeds do not change.
    pub(crate) fn are_equal(&self, pair: &Pair) -> bool {
        if pair.difference.is_fixed() {
            return pair.is_near;
        }
        pair.equality.is_some_and(|equality| self.equalities.correct(equality.p()).p <= LEVEL)
    }
    /// Whether variants are told apart: by the test, or by a difference that the seeds do not change.
    pub(crate) fn are_apart(&self, pair: &Pair) -> bool {
        self.correct(&pair.difference).map_or(pair.difference.mean != 0.0, |corrected| corrected.p <= LEVEL)
    }
}

/// Tests of one kind, and the correction of their probabilities for their number.
#[derive(Clone, PartialEq, Debug)]
pub(super) struct Corrections {
    /// The probabilities, rising.
    probabilities: Vec<f64>,
    /// The corrected probability of each.
    corrected: Vec<f64>,
}

impl Corrections {
    fn new(mut probabilities: Vec<f64>) -> Self {
        probabilities.sort_by(f64::total_cmp);
        let corrected = holm(&probabilities);
        Self { probabilities, corrected }
    }
    /// Corrects the probability of one of the tests. Equal ones have the same correction.
    pub(super) fn correct(&self, p: f64) -> Corrected {
        let place = self.probabilities.partition_point(|other| *other < p);
        Corrected { p: self.corrected.get(place).copied().unwrap_or(1.0), comparisons: self.probabilities.len() }
    }
}
