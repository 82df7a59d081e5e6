//! Results of the scenarios of this repository, on any number of threads. A digest that changes is a change of results: it belongs into the
//! changelog, with the reason. Scenarios with shaper files are not among them:
//! the state of the engine is in their digests, with the keys of its tables.

use std::ops::ControlFlow;
use std::path::Path;

use tidegate_config::{Diagnostics, Source};
use tidegate_metrics::Digest;
use tidegate_sim::scenario::{Outcome, Scenario};

use crate::parallel::spawn;

const DIGESTS: [(&str, &str); 4] = [
    ("lab/papers/scenarios/dumbbell.toml", "36ae72bac9af77d316184c30e804a3a3"),
    ("lab/papers/scenarios/mice-and-an-elephant.toml", "87af2b4dd049ec42dc351585fd16d8f4"),
    ("lab/papers/scenarios/web-at-ninety-percent.toml", "26adb9d4ef9c2a2a07e573b39aed0e83"),
    ("lab/papers/rfc2963/scenario.toml", "267192801a7e939ef1572d89b1782653"),
];

#[test]
fn results_are_those_that_were_published() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let mut wrong = Vec::new();
    for (file, expected) in DIGESTS {
        let path = root.join(file);
        let source = Source::open(&path).expect("a file of the repository");
        let open = |name: &str| Source::open(&path.with_file_name(name));
        let mut diagnostics = Diagnostics::new();
        let scenario = Scenario::load(&source, Some(&open), &mut diagnostics);
        let scenario = scenario.unwrap_or_else(|| panic!("{}", diagnostics.render(&source)));
        for threads in [1, 2, 3] {
            let run = |part| {
                let progress = |_| ControlFlow::Continue(());
                scenario.run_divided((scenario.seed, part), threads, progress, &spawn).expect("not stopped").0
            };
            let joined = Outcome::joined(scenario.seed, (0..scenario.parts()).map(run).collect());
            // As `tidegate simulate --runs 1 --hash` prints it.
            let mut digest = Digest::default();
            digest.digest(joined.digest);
            if digest.to_string() != expected {
                wrong.push(format!("{file} on {threads} threads: {digest}, not {expected}"));
            }
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}
