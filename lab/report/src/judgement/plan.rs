//! Plans of further runs in words.

/// The number of runs below which a number of further runs is called a guess: the spread of so few says little about that of all.
const FEW: usize = 10;

/// A number of further runs for people, with two digits: it is a plan, and no more is known.
pub(super) fn rounded(more: u64) -> u64 {
    let step = 10_u64.pow(more.max(1).ilog10().saturating_sub(1));
    more.div_ceil(step) * step
}

/// States how many further runs would decide, and between which variants, if `more` were planned from `runs` runs.
pub(crate) fn would_decide(more: u64, runs: usize, between: &str) -> String {
    further(more, runs, &format!("would decide{between}"))
}

/// States what further runs would do, if `more` were planned from `runs` runs.
pub(super) fn further(more: u64, runs: usize, would: &str) -> String {
    let plural = if more == 1 { "" } else { "s" };
    let guess = if runs < FEW { format!(", a guess from {runs}") } else { String::new() };
    format!("about {} more run{plural} {would}{guess}", rounded(more))
}
