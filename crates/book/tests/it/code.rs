//! The configuration in the book is valid: files load, or are rejected where the text states so.

use tidegate_book::Book;
use tidegate_book::blocks::{Block, blocks};
use tidegate_config::{Diagnostics, Source, shaper};
use tidegate_sim::scenario::Scenario;

/// Every block of the chapters of `book/src`.
fn all() -> Vec<(String, Block)> {
    let chapters = Book::new().chapters();
    // The HOWTO has other fences and a test of its own.
    let written = chapters
        .iter()
        .filter(|chapter| !chapter.slug.starts_with("lab/papers/") && !chapter.slug.starts_with("howto"));
    let found = written.flat_map(|chapter| {
        blocks(&chapter.text).into_iter().map(|block| (format!("{}:{}", chapter.slug, block.line), block))
    });
    found.collect()
}

#[test]
fn files_load() {
    // The command has it as well.
    tidegate_quic::register(std::time::Instant::now());
    let (mut shapers, mut scenarios) = (0, 0);
    for (place, block) in all() {
        if block.language != "toml" || block.is("part") {
            continue;
        }
        let source = Source::new(place.clone(), block.text.clone());
        let mut diagnostics = Diagnostics::new();
        let loaded = if block.text.contains("\nhosts = ") {
            scenarios += 1;
            // Other files of the chapter stand beside it.
            let chapter = place.split(':').next().unwrap_or_default().to_owned() + ":";
            let open = |name: &str| {
                let mut blocks = all().into_iter().filter(|(place, _)| place.starts_with(&chapter));
                let found = blocks.find(|(_, block)| block.file() == Some(name));
                found.map(|(_, block)| Source::new(name, block.text)).ok_or(std::io::ErrorKind::NotFound.into())
            };
            Scenario::load(&source, Some(&open), &mut diagnostics).is_some()
        } else {
            shapers += 1;
            shaper::load_all(&source, &mut diagnostics).is_some()
        };
        let said = diagnostics.render(&source);
        assert_eq!(loaded, !block.is("refused"), "{place}\n{said}");
        assert!(!loaded || said.is_empty() != block.is("warned"), "{place}\n{said}");
    }
    assert!(shapers >= 10 && scenarios >= 3, "{shapers} shapers, {scenarios} scenarios");
}

#[test]
fn every_block_says_what_it_is() {
    // Untagged blocks would be taken as Rust; other languages would not be tested.
    let known = ["rust", "toml", "sh", "tgs", "text", "json", "python", "tcl", "go", "js"];
    for (place, block) in all() {
        assert!(known.contains(&block.language.as_str()), "{place}: `{}`", block.language);
        let words = [
            "part",
            "refused",
            "warned",
            "says",
            "fails",
            "root",
            "ignore",
            "no_run",
            "should_panic",
            "decider",
            "translated",
        ];
        for word in &block.words {
            let named = word.starts_with("file:") || word.starts_with("needs:");
            assert!(named || words.contains(&word.as_str()), "{place}: `{word}`");
        }
    }
}
