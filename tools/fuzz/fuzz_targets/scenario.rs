//! No text of a scenario panics the reader; a text that is refused has errors, and every finding can be rendered.
#![no_main]

use libfuzzer_sys::fuzz_target;
use tidegate_config::{Diagnostics, Source};
use tidegate_sim::scenario::Scenario;

fuzz_target!(|text: &str| {
    let source = Source::new("fuzz.toml", text);
    let mut diagnostics = Diagnostics::new();
    let scenario = Scenario::load(&source, None, &mut diagnostics);
    assert_eq!(scenario.is_some(), diagnostics.errors() == 0);
    assert_eq!(diagnostics.render(&source).is_empty(), diagnostics.is_empty());
});
