//! The simulated experiments of the papers against their recorded verdicts: a change that alters a verdict is seen.

use std::collections::BTreeSet;
use std::sync::Arc;

use tidegate_papers::reproduce::{EXPERIMENTS, Experiment, Gallery, Options, Verdict, verdicts};

/// Runs all that is simulated, or the items whose id begins with `only`, compares, and prints for how long. A deviation must name an item that is recorded, or a
/// heading of the page.
fn compare(name: &str, only: Option<&str>, runs: u32) -> Vec<String> {
    let experiment = Experiment::find(name).expect("an experiment");
    let plots = Arc::new(Gallery::new(None, false));
    let options = Options {
        only: only.map(str::to_owned),
        without: experiment.on_this_machine,
        runs,
        seed: 1,
        plots,
        page: None,
    };
    let began = std::time::Instant::now();
    let items = experiment.run(&options).expect("the experiment runs");
    println!("{name}: {} items, {runs} runs, {:?}", items.len(), began.elapsed());
    let mut seen = BTreeSet::new();
    assert!(items.iter().all(|item| seen.insert(item.id.clone())), "{name}: an id is there twice");
    for item in items.iter().filter(|item| item.verdict() == Some(Verdict::Deviates)) {
        let Some(finding) = item.finding() else { continue };
        let recorded = experiment.recorded.lines().any(|line| line.starts_with(finding));
        let heading = experiment.page().lines().any(|line| line.starts_with('#') && line.contains(finding));
        assert!(recorded || heading, "{}: nothing is called `{finding}`", item.id);
    }
    let found = experiment.differences(&items, &options).expect("the recorded verdicts are readable");
    found.into_iter().map(|line| format!("{name}: {line}")).collect()
}

/// One run of every item: the verdicts of the first seed alone, whatever chance makes of them.
fn short(name: &str) {
    let found = compare(name, None, 1);
    assert!(found.is_empty(), "{}", found.join("\n"));
}

#[test]
fn fbq_has_the_verdicts_of_the_first_seed() {
    short("fbq");
}

#[test]
fn cbq_has_its_recorded_verdicts() {
    short("cbq");
}

#[test]
#[ignore = "most of a minute: TIDEGATE_CI=nightly .ci/run runs it; the command's tests compare a quick group"]
fn mice_have_the_verdicts_of_the_first_seed() {
    short("mice");
}

#[test]
fn pacing_has_its_recorded_verdicts() {
    short("pacing");
}

/// The worst case of a rate that follows the line, over all lines, and what it does on a constant one.
#[test]
fn autorate_keeps_its_published_worst_case() {
    let mut found = compare("autorate", Some("worst"), 1);
    found.extend(compare("autorate", Some("constant.bulk-up"), 1));
    found.extend(compare("autorate", Some("steady"), 1));
    assert!(found.is_empty(), "{}", found.join("\n"));
}

/// The rates of sections 2 and 3, which take a second; the tables of appendix A are run nightly.
#[test]
fn the_sections_of_rfc2963_have_their_recorded_verdicts() {
    for section in ["section2", "section3"] {
        let found = compare("rfc2963", Some(section), 1);
        assert!(found.is_empty(), "{}", found.join("\n"));
    }
}

#[test]
#[ignore = "half a minute: TIDEGATE_CI=nightly .ci/run runs it"]
fn rfc2963_has_the_verdicts_of_the_first_seed() {
    short("rfc2963");
}

/// All simulated items with all their seeds.
#[test]
#[ignore = "tens of minutes: TIDEGATE_CI=nightly .ci/run runs it"]
fn every_simulated_item_has_its_recorded_verdict() {
    let with_seeds = EXPERIMENTS.iter().filter(|experiment| experiment.runs > 1);
    let found: Vec<String> =
        with_seeds.flat_map(|experiment| compare(experiment.name, None, experiment.runs)).collect();
    assert!(found.is_empty(), "{}", found.join("\n"));
}

/// The records count no item twice, and both files have the same items.
#[test]
fn the_recorded_verdicts_are_whole() {
    let ids = |file: &'static str| file.lines().filter_map(|line| line.split(',').next()).collect::<BTreeSet<&str>>();
    for experiment in EXPERIMENTS {
        for file in [experiment.recorded, experiment.recorded_short].into_iter().filter(|file| !file.is_empty()) {
            assert!(verdicts::differences(&[], file, "no such item").is_ok(), "{}", experiment.name);
            assert_eq!(ids(file), ids(experiment.recorded), "{}", experiment.name);
        }
        assert!(ids(experiment.recorded).len() > 20 || experiment.on_this_machine == [""], "{}", experiment.name);
        assert_eq!(experiment.recorded_short.is_empty(), experiment.runs == 1, "{}", experiment.name);
    }
}
