//! The simulated experiments of the papers against their recorded verdicts: a change that alters a verdict is seen.

use std::collections::BTreeSet;
use std::sync::Arc;

use tidegate_experiments::reproduce::{EXPERIMENTS, Experiment, Gallery, Options, verdicts};

fn options(experiment: &Experiment, only: Option<&str>, runs: u32) -> Options {
    let plots = Arc::new(Gallery::new(None, false));
    Options { only: only.map(str::to_owned), without: experiment.on_this_machine, runs, seed: 1, plots, page: None }
}

/// Runs a group and compares; prints for how long, so that the quick ones stay quick.
fn compare(name: &str, only: Option<&str>, runs: u32) -> Vec<String> {
    let experiment = Experiment::find(name).expect("an experiment");
    let options = options(experiment, only, runs);
    let began = std::time::Instant::now();
    let items = experiment.run(&options).expect("the experiment runs");
    let label = format!("{name} {}", only.unwrap_or("all"));
    println!("{label}: {} items, {:?}", items.len(), began.elapsed());
    assert!(!items.is_empty(), "{label}");
    let mut seen = BTreeSet::new();
    assert!(items.iter().all(|item| seen.insert(item.id.clone())), "{label}: an id is there twice");
    let found = experiment.differences(&items, &options).expect("the recorded verdicts are readable");
    found.into_iter().map(|line| format!("{label}: {line}")).collect()
}

/// Groups that take seconds, with as many seeds as their verdicts need.
const QUICK: &[(&str, &str, u32)] = &[
    ("fbq", "shares", 1),
    ("fbq", "sim.beyond.5m", 20),
    ("fbq", "sim.unused", 20),
    ("cbq", "s4", 1),
    ("cbq", "s5.2", 1),
    ("cbq", "s6.1", 1),
    ("cbq", "s7", 1),
    ("cbq", "ls.borrow", 1),
    ("mice", "ared", 1),
    ("mice", "dialup.me", 1),
    ("pacing", "fig4", 1),
    ("pacing", "fig6", 1),
    ("pacing", "fig7", 1),
    ("pacing", "fig14", 1),
    ("rfc2963", "section", 1),
];

#[test]
fn the_quick_groups_have_the_recorded_verdicts() {
    let found: Vec<String> = QUICK.iter().flat_map(|(name, only, runs)| compare(name, Some(only), *runs)).collect();
    assert!(found.is_empty(), "{}", found.join("\n"));
}

/// Groups with as many seeds as they were recorded with, that together take a few minutes: of each paper what its claims rest
/// on.
const CLAIMS: &[(&str, &str, u32)] = &[
    ("fbq", "sim.full.1m", 20),
    ("fbq", "sim.beyond.1m", 20),
    ("cbq", "", 1),
    ("mice", "dialup.me", 1),
    ("pacing", "", 1),
    ("rfc2963", "a2", 3),
    ("rfc2963", "a6", 3),
];

#[test]
#[ignore = "a few minutes: .ci/run asks for it"]
fn what_the_claims_rest_on_has_the_recorded_verdicts() {
    let of = |only: &'static str| Some(only).filter(|only| !only.is_empty());
    let found: Vec<String> = CLAIMS.iter().flat_map(|(name, only, runs)| compare(name, of(only), *runs)).collect();
    assert!(found.is_empty(), "{}", found.join("\n"));
}

/// All simulated items with all their seeds, as they were recorded: minutes.
#[test]
#[ignore = "tens of minutes: .ci/run asks for it with TIDEGATE_PLANTED=all"]
fn every_simulated_item_has_its_recorded_verdict() {
    let found: Vec<String> = EXPERIMENTS
        .iter()
        .filter(|experiment| experiment.on_this_machine != [""])
        .flat_map(|experiment| compare(experiment.name, None, experiment.runs))
        .collect();
    assert!(found.is_empty(), "{}", found.join("\n"));
}

/// What is recorded counts no item twice, and a deviation names an item that is recorded, or a heading of the page.
#[test]
fn every_cause_was_found_by_an_experiment() {
    for experiment in EXPERIMENTS {
        assert!(verdicts::differences(&[], experiment.recorded, "no such item").is_ok(), "{}", experiment.name);
        let ids: BTreeSet<&str> = experiment.recorded.lines().filter_map(|line| line.split(',').next()).collect();
        assert!(ids.len() > 20 || experiment.on_this_machine == [""], "{}", experiment.name);
    }
    for (name, only, _) in QUICK {
        let experiment = Experiment::find(name).expect("an experiment");
        if experiment.name == "fbq" && *only != "shares" {
            continue;
        }
        for item in experiment.run(&options(experiment, Some(only), 1)).expect("the experiment runs") {
            let Some(finding) = item.finding() else { continue };
            let recorded = experiment.recorded.lines().any(|line| line.starts_with(finding));
            let heading = experiment.page().lines().any(|line| line.starts_with('#') && line.contains(finding));
            assert!(recorded || heading, "{}: nothing is called `{finding}`", item.id);
        }
    }
}
