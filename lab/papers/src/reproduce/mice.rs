//! `tidegate reproduce mice`: Mice and Elephants beside comparable disciplines.
//!
//! Sources: "Implementation of AQMs on Linux made Easy" (Braithwaite), section "Scenario Testing"; for the group `ared`
//! Floyd, Gummadi and Shenker, "Adaptive RED" (2001). The README, `lab/papers/mice/README.md`, explains the
//! expectations, the results and the bounds.

mod adaptive;
mod attained;
mod dialup;
mod filter;
mod live;
mod live_mix;
mod load;
mod mix;
mod peers;

use serde::Deserialize;

use tidegate_report::{Axis, Style};

use super::figure::Figure;
use super::{Item, Options};
use crate::Failure;
pub use live::shape;

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

/// Reads the papers' numbers from the experiment's data.
fn paper() -> Result<Paper, Failure> {
    serde_json::from_str(include_str!("../../mice/paper.json"))
        .map_err(|error| Failure::Failed(format!("lab/papers/mice/paper.json: {error}")))
}

/// Runs the groups that are wanted.
pub fn run(options: &Options) -> Result<Vec<Item>, Failure> {
    let mut items = Vec::new();
    for (group, run) in [
        ("dialup", dialup::run as fn(&Options) -> Result<Vec<Item>, Failure>),
        ("filter", filter::run),
        ("mix", mix::run),
        ("attained", attained::levels),
        ("recorded", attained::recorded),
        ("l4s", attained::beside_l4s),
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

/// Draws illustrations 7 and 8, which compare the tests with the values that the paper's text states, and 9 and 10,
/// which show processor time.
pub fn illustrations(options: &Options, items: &[Item]) -> Result<(), Failure> {
    let curve = |name: &str, ids: &[&str]| {
        (name.to_owned(), (1..).zip(ids).map(|(n, id)| (f64::from(n), (*id).to_owned())).collect())
    };
    let tests = || Axis::new("test: 1 mice only, 2 congested, 3 M&E as published, 4 with our defaults", "");
    Figure {
        name: "illustration-7".to_owned(),
        title: "Mice on a line of 56 kbit/s (illustration 7)".to_owned(),
        style: Some(Style::Marks),
        curves: ["response", "connect"]
            .map(|what| {
                let ids = ["only", "congested", "me", "default"].map(|test| format!("dialup.{test}.{what}"));
                curve(what, &ids.each_ref().map(String::as_str))
            })
            .into(),
    }
    .draw(options, items, tests(), Axis::new("mean time", "s"))?;
    Figure {
        name: "illustration-8".to_owned(),
        title: "Mice on a line of 100 Mbit/s with an ingress filter (illustration 8)".to_owned(),
        style: Some(Style::Marks),
        curves: vec![curve(
            "response",
            &["filter.only.response", "filter.congested.response", "filter.filter.response", "filter.queue.response"],
        )],
    }
    .draw(
        options,
        items,
        Axis::new("test: 1 mice only, 2 congested, 3 ingress filter, 4 queueing discipline", ""),
        Axis::new("mean time", "s"),
    )?;
    let curve = |system: &str| {
        let points = load::RATES_MBIT.map(|mbit| (mbit as f64, format!("live.load.{system}.{mbit}mbit.process")));
        (system.to_owned(), points.into())
    };
    for (name, title, systems) in [
        (
            "illustration-9",
            "Processor time of a queue against rate (illustration 9)",
            &["none", "kernel_tbf", "kernel_htb", "fifo", "mered", "meredt"][..],
        ),
        (
            "illustration-10",
            "Processor time of an ingress filter against rate (illustration 10)",
            &["none", "ingress_filter"],
        ),
    ] {
        Figure {
            name: name.to_owned(),
            title: title.to_owned(),
            curves: systems.iter().map(|system| curve(system)).collect(),
            ..Figure::default()
        }
        .draw(options, items, Axis::new("rate", "Mbit/s"), Axis::new("processors", "1"))?;
    }
    Ok(())
}
