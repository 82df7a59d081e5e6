//! No text of a trace that a scenario names panics the reader.
#![no_main]

use libfuzzer_sys::fuzz_target;
use tidegate_config::{Diagnostics, Source};
use tidegate_sim::scenario::Scenario;

const SCENARIO: &str = r#"version = 1
duration = "1s"
hosts = ["a", "b"]
[[link]]
from = "a"
to = "b"
rate = "10mbit"
[[flow]]
name = "recorded"
from = "a"
to = "b"
transport = { kind = "udp" }
workload = { kind = "trace", file = "trace.csv" }
"#;

fuzz_target!(|text: &str| {
    let open = |name: &str| Ok(Source::new(name, text));
    let mut diagnostics = Diagnostics::new();
    let source = Source::new("fuzz.toml", SCENARIO);
    let scenario = Scenario::load(&source, Some(&open), &mut diagnostics);
    assert_eq!(scenario.is_some(), diagnostics.errors() == 0);
    assert_eq!(diagnostics.render(&source).is_empty(), diagnostics.is_empty());
});
