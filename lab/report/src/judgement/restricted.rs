//! Runs that did not reach a percentile, in tests: they count with the longest time that is known.
//!
//! *Source*: restricted means, Royston and Parmar, *Restricted mean survival time* (2013): times are compared up to a limit, here the longest
//! that any run of the variants has reached, so that all of them are known as far as they count.

use std::borrow::Cow;

use crate::comparison::Estimate;

impl Estimate {
    /// Whether it is a time that some runs did not reach, of runs that are known one by one, so that it can be tested all the same.
    fn can_be_restricted(&self) -> bool {
        !self.is_reached() && self.by_factors && !self.seeds.is_empty()
    }
    /// Whether tests can weigh it: all runs have reached it, or it can be restricted.
    pub(super) fn can_be_tested(&self) -> bool {
        (self.is_reached() || self.can_be_restricted()) && !self.is_of_completed
    }
    /// Whether some of its runs have reached it and others not, so that tests have a word on it although it has no mean.
    pub(crate) fn is_partly_reached(&self) -> bool {
        !self.is_reached() && self.can_be_tested() && !self.is_never_reached()
    }
    /// Whether no run has reached it.
    pub(super) fn is_never_reached(&self) -> bool {
        !self.is_reached() && self.values.iter().all(|value| value.is_infinite())
    }
    /// The estimate with `limit` in place of the runs that did not reach it.
    fn restricted(&self, limit: f64) -> Self {
        let values: Vec<f64> = self.values.iter().map(|value| value.min(limit)).collect();
        let mean = values.iter().sum::<f64>() / values.len() as f64;
        Self { mean, values, half: None, open: None, ..self.clone() }
    }
}

/// The longest time that a run of the estimates has reached, if some have runs that did not reach it.
pub(super) fn limit(estimates: &[&Estimate]) -> Option<f64> {
    if !estimates.iter().any(|estimate| estimate.can_be_restricted()) {
        return None;
    }
    let reached = estimates.iter().flat_map(|estimate| &estimate.values).copied().filter(|value| value.is_finite());
    reached.max_by(f64::total_cmp)
}

/// The estimate as tests weigh it: up to `limit`, if some of its runs did not reach it.
pub(super) fn weighed(estimate: &Estimate, limit: Option<f64>) -> Cow<'_, Estimate> {
    match limit.filter(|_| estimate.can_be_restricted()) {
        Some(limit) => Cow::Owned(estimate.restricted(limit)),
        None => Cow::Borrowed(estimate),
    }
}
