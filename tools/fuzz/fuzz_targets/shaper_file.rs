//! No text of a shaper file panics the reader; a text that is accepted has no errors, and every finding can be
//! rendered.
#![no_main]

use libfuzzer_sys::fuzz_target;
use tidegate_config::shaper::guarantees::guarantees;
use tidegate_config::{Diagnostics, Source, shaper};

fuzz_target!(|text: &str| {
    let source = Source::new("fuzz.toml", text);
    let mut diagnostics = Diagnostics::new();
    let config = shaper::load(&source, &mut diagnostics);
    assert_eq!(config.is_some(), diagnostics.errors() == 0);
    assert_eq!(diagnostics.render(&source).is_empty(), diagnostics.is_empty());
    if let Some(config) = config {
        let _ = guarantees(&config);
    }
});
