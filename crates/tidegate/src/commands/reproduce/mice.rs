//! `tidegate reproduce mice`: Mice and Elephants beside its peers.
//!
//! Source: "Implementation of AQMs on Linux made Easy" (Braithwaite), section "Scenario Testing"; Floyd, Gummadi and
//! Shenker, "Adaptive RED" (2001), for the last group. What is expected, what was found and where the bounds come
//! from stands in `experiments/mice/README.md`.

mod adaptive;
mod dialup;
mod filter;
mod mix;
mod peers;

use super::{Item, Options};
use crate::Failure;

/// Runs the groups that are wanted.
pub fn run(options: &Options) -> Result<Vec<Item>, Failure> {
    let mut items = Vec::new();
    for (group, run) in [
        ("dialup", dialup::run as fn(&Options) -> Result<Vec<Item>, Failure>),
        ("filter", filter::run),
        ("mix", mix::run),
        ("ared", adaptive::run),
    ] {
        if options.wants(group) {
            items.extend(run(options)?);
        }
    }
    Ok(items)
}

/// The mean of `value` over the seeds of the runs.
fn mean_over_seeds(options: &Options, mut value: impl FnMut(u64) -> Result<f64, Failure>) -> Result<f64, Failure> {
    let mut sum = 0.0;
    for run in 0..u64::from(options.runs) {
        sum += value(options.seed + run)?;
    }
    Ok(sum / f64::from(options.runs))
}
