//! The README shows files that are valid and results that are right.

use tidegate_config::{Diagnostics, Source, shaper};

const README: &str = include_str!("../../../../README.md");

/// The content of the first block fenced as `language`.
fn block(language: &str) -> &'static str {
    let fence = format!("```{language}\n");
    let start = README.find(&fence).unwrap() + fence.len();
    &README[start..start + README[start..].find("```").unwrap()]
}

fn render(text: &str) -> String {
    let source = Source::new("shaper.toml", text);
    let mut diagnostics = Diagnostics::new();
    shaper::load(&source, &mut diagnostics);
    diagnostics.render(&source)
}

#[test]
fn the_example_is_valid() {
    assert_eq!(render(block("toml")), "");
}

#[test]
fn the_error_is_what_is_printed_when_five_more_calls_are_promised() {
    let text = block("toml").replace("flows = 20", "flows = 25");
    assert_eq!(render(&text).trim(), block("text").trim());
}
