//! No script panics the reader or the run; errors have places and can be rendered; two runs are equal.
#![no_main]

use libfuzzer_sys::fuzz_target;
use tidegate_config::Source;
use tidegate_script::{Limits, Script, no_files};

/// The limits are small, so that one input cannot send a million packets.
const LIMITS: Limits = Limits { packets: 500, calls: 5_000 };

fuzz_target!(|text: &str| {
    let parse = || Script::parse(Source::new("fuzz.tgs", text), &LIMITS, &mut no_files);
    match parse() {
        Err(findings) => assert!(findings.errors() > 0 && !findings.to_string().is_empty()),
        Ok(script) => {
            let run = |script: &Script| match script.run() {
                Ok(outcome) => {
                    assert_eq!(outcome.holds(), outcome.failures().is_empty());
                    outcome.digest().to_string()
                }
                Err(findings) => findings.to_string(),
            };
            assert_eq!(run(&script), run(&parse().expect("it parsed before")));
        }
    }
});
