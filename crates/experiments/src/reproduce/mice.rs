//! `tidegate reproduce mice`: Mice and Elephants beside its peers.
//!
//! Source: "Implementation of AQMs on Linux made Easy" (Braithwaite), section "Scenario Testing"; Floyd, Gummadi and
//! Shenker, "Adaptive RED" (2001), for the last group. What is expected, what was found and where the bounds come
//! from is in `experiments/mice/README.md`.

mod adaptive;
mod dialup;
mod filter;
mod live;
mod live_mix;
mod load;
mod mix;
mod peers;

use serde::Deserialize;

use super::{Item, Options};
use crate::Failure;

/// The papers' numbers.
#[derive(Deserialize)]
struct Paper {
    dialup: PaperDialup,
    ared: PaperAred,
    red: PaperRed,
}

#[derive(Deserialize)]
struct PaperDialup {
    only: PaperTimes,
    congested: PaperTimes,
}

#[derive(Deserialize)]
struct PaperTimes {
    response_s: f64,
    connect_s: f64,
}

#[derive(Deserialize)]
struct PaperAred {
    target_packets: [f64; 2],
}

#[derive(Deserialize)]
struct PaperRed {
    geometric: PaperGap,
    uniform: PaperGap,
}

#[derive(Deserialize)]
struct PaperGap {
    percent: u64,
    mean_gap_packets: f64,
}

/// The papers' numbers, from the experiment's data.
fn paper() -> Result<Paper, Failure> {
    serde_json::from_str(include_str!("../../../../experiments/mice/paper.json"))
        .map_err(|error| Failure::Failed(format!("experiments/mice/paper.json: {error}")))
}

/// Runs the groups that are wanted.
pub fn run(options: &Options) -> Result<Vec<Item>, Failure> {
    let mut items = Vec::new();
    for (group, run) in [
        ("dialup", dialup::run as fn(&Options) -> Result<Vec<Item>, Failure>),
        ("filter", filter::run),
        ("mix", mix::run),
        ("ared", adaptive::run),
        ("live", live::run),
        ("live.mix", live_mix::run),
        ("live.load", load::run),
    ] {
        if options.wants(group) {
            items.extend(run(options)?);
        }
    }
    Ok(items)
}

/// The seeds of a scenario that makes `each` runs for one of the command line.
fn seeds(options: &Options, each: u64) -> impl Iterator<Item = u64> + use<> {
    options.seed..options.seed + each * u64::from(options.runs)
}
