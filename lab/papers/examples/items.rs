//! Prints the items of an experiment as lines `id,verdict,measured`, without building the whole command:
//! `cargo run -p tidegate-papers --example items -- NAME PREFIX RUNS`. `tidegate-checks -- planted` compares the output before and after a fault is
//! planted in the code.

use std::process::ExitCode;
use std::sync::Arc;

use tidegate_papers::reproduce::{Experiment, Gallery, Options, Verdict};

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let [name, prefix, runs] = &arguments[..] else {
        eprintln!("usage: items NAME PREFIX RUNS");
        return ExitCode::from(2);
    };
    let (Some(experiment), Ok(runs)) = (Experiment::find(name), runs.parse()) else {
        eprintln!("no experiment `{name}`, or `{runs}` is no number");
        return ExitCode::from(2);
    };
    let only = (prefix != "all").then(|| prefix.clone());
    let plots = Arc::new(Gallery::new(None, false));
    let options = Options { only, without: experiment.on_this_machine, runs, seed: 1, plots, page: None };
    match experiment.run(&options) {
        Ok(items) => {
            for item in items {
                let verdict = item.verdict().map_or("unmeasured", Verdict::name);
                println!("{},{verdict},{}", item.id, item.measured.unwrap_or(f64::NAN));
            }
            ExitCode::SUCCESS
        }
        Err(error) => {
            eprintln!("{error}");
            ExitCode::FAILURE
        }
    }
}
