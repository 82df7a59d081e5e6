//! The source that crates of experiments share is compiled here as it is written into them.

#[path = "../../templates/lab/src/experiment.rs.in"]
mod experiment;

use std::path::Path;

use experiment::{Experiment, command};
use tidegate_testbed::files::Folder;

const EXPERIMENT: &str = include_str!("../../templates/new-experiment/scenario.toml");
const CONGESTION: &str = include_str!("../../templates/new-congestion/scenario.toml");

/// The answer is about the primary quantity and stands before the values; a name that the scenario does not have is an error before the
/// first run.
#[test]
fn the_crate_of_an_experiment_states_its_primary_quantity() {
    let folder = Folder::new("scaffold");
    let file = folder.with("scenario.toml", EXPERIMENT.replace("20s", "8s"));
    let said = |arguments: &[&str]| command(Path::new(&file), arguments.iter().map(|text| (*text).to_owned()));
    let text = said(&["--runs", "2"]).expect("it runs");
    assert!(text.starts_with("delay p99 of flow call: codel has the least"), "{text}");
    let [answer, values] = ["Decided at 5 %", "flow call  fifo"].map(|part| text.find(part).expect(part));
    assert!(
        answer < values && text.trim_end().lines().last().is_some_and(|line| line.starts_with("digest ")),
        "{text}"
    );
    assert!(!text.contains("goodput"), "{text}");
    let svg = folder.0.join("it.svg");
    assert!(
        said(&["--runs", "2", "--latex", "--figure", &svg.display().to_string()])
            .is_ok_and(|text| text.contains("tabular"))
    );
    assert!(std::fs::read_to_string(svg).is_ok_and(|svg| svg.contains("delay p99") && !svg.contains("goodput")));
    let experiment = Experiment::run(Path::new(&file), Some(1)).expect("it runs");
    assert!(experiment.mean("codel", "flow call", "delay p99") < experiment.mean("fifo", "flow call", "delay p99"));
    for (right, wrong) in [("p99 of flow call", "p99 of flow cal"), ("delay p99", "delays p99")] {
        let file = folder.with("wrong.toml", EXPERIMENT.replacen(right, wrong, 1));
        let why = Experiment::run(Path::new(&file), Some(1)).expect_err("it is refused");
        assert!(why.contains("primary") && why.contains(wrong), "{why}");
    }
    // A sweep has the answer at each point, its table and a figure of the primary quantity.
    let (csv, lines) = (folder.0.join("sweep.csv"), folder.0.join("lines.svg"));
    let [csv_name, lines_name] = [&csv, &lines].map(|path| path.display().to_string());
    let axis = "link.gate->far.rate=5mbit,10mbit";
    let text = said(&["--runs", "2", "--vary", axis, "--table", &csv_name, "--figure", &lines_name]).expect("a sweep");
    assert!(text.contains("delay p99 of flow call at rate=5mbit: codel has the least"), "{text}");
    let table = std::fs::read_to_string(csv).expect("a table");
    assert!(table.starts_with("link.gate->far.rate,seed,variant,") && table.contains("\n10mbit,2,"), "{table}");
    let drawn = std::fs::read_to_string(lines).expect("a figure");
    assert!(drawn.contains("rate of link gate-") && drawn.contains("delay p99"), "{drawn}");
    assert!(said(&["--vary", "link.none.rate=5mbit"]).is_err_and(|why| why.contains("none")));
    assert!(said(&["--figure", "it.xyz"]).is_err_and(|why| why.contains(".svg, .pdf")));
    assert!(said(&["--wrong"]).is_err_and(|why| why.contains("no such option")));
}

/// The quantities that the crate of a congestion control names are measured, with a control that is there in place of its own.
#[test]
fn the_crate_of_a_congestion_control_names_what_is_measured() {
    let folder = Folder::new("scaffold-congestion");
    let with = |text: &str| {
        folder.with("scenario.toml", text.replace("{ kind = \"{{name}}\" }", "\"reno\"").replace("{{name}}", "reno"))
    };
    let found = Experiment::run(Path::new(&with(CONGESTION)), Some(0)).expect("it is right");
    assert_eq!(found.primary().len(), 2);
    let wrong = CONGESTION.replacen("goodput of flow cubic", "goodput of flow cubics", 1);
    assert!(Experiment::run(Path::new(&with(&wrong)), Some(0)).is_err_and(|why| why.contains("cubics")));
}
