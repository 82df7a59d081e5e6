//! For any text, the parser and the run do not panic, errors are reported, and a run is deterministic.

use std::path::Path;

use tidegate_config::Source;
use tidegate_core::random::Stream;
use tidegate_script::{Limits, Script, no_files};

/// Small, so that a text cannot send a million packets.
const LIMITS: Limits = Limits { packets: 300, calls: 3_000 };

/// Words of the language, and fragments that break words.
const PIECES: &[&str] = &[
    "at ",
    "after ",
    "send ",
    "expect ",
    "3 ",
    "0 ",
    "18446744073709551615 ",
    "a ",
    "b ",
    "a#1 ",
    "a#0 ",
    "#",
    "{",
    "}",
    "\n",
    "\n}\n",
    "\"",
    ",",
    ":",
    "+-",
    "±",
    "1ms ",
    "0s ",
    "999999999s ",
    "time back ",
    "advance ",
    "link ",
    "8mbit ",
    "closed ",
    "late ",
    "take ",
    "serve ",
    "drop ",
    "by ",
    "early ",
    "from ",
    "to ",
    "waits ",
    "< ",
    "rate ",
    "left ",
    "dropped ",
    "nothing ",
    "else ",
    "backlog ",
    "deadline ",
    "idle ",
    "now ",
    "flow ",
    "size ",
    "dscp ",
    "ef ",
    "ecn ",
    "ce ",
    "class ",
    "config ",
    "discipline ",
    "reconfigure ",
    "seed ",
    "until ",
    "every ",
    "10.0.0.1:1 ",
    "> ",
    "::1 ",
    "é",
    "\u{0}",
    "kind = \"fifo\"",
    "version = 1\n",
    "all ",
    "leaves ",
    "stays ",
    "5% ",
];

fn check(text: &str) -> bool {
    let parse = || Script::parse(Source::new("any.tgs", text), &LIMITS, &mut no_files);
    match parse() {
        Err(findings) => {
            assert!(findings.errors() > 0 && !findings.to_string().is_empty(), "{text}");
            false
        }
        Ok(script) => {
            let run = |script: &Script| match script.run() {
                Ok(outcome) => {
                    assert_eq!(outcome.holds(), outcome.failures().is_empty());
                    outcome.digest().to_string()
                }
                Err(findings) => findings.to_string(),
            };
            assert_eq!(run(&script), run(&parse().expect("it parsed before")), "{text}");
            true
        }
    }
}

#[test]
fn no_text_panics() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/scripts");
    let mut paths: Vec<_> =
        std::fs::read_dir(folder).expect("there are scripts").map(|entry| entry.expect("it is there").path()).collect();
    paths.sort();
    let seeds: Vec<String> = paths.iter().map(|path| std::fs::read_to_string(path).expect("it is text")).collect();
    let mut random = Stream::named(1, "any text");
    let (mut ran, mut refused) = (0, 0);
    for round in 0..6_000 {
        let mut text = seeds[round % seeds.len()].clone();
        for _ in 0..=random.below(4) {
            let at = text.floor_char_boundary(random.below(text.len() as u64 + 1) as usize);
            let piece = PIECES[random.below(PIECES.len() as u64) as usize];
            match random.below(3) {
                0 => text.insert_str(at, piece),
                1 => text.truncate(at),
                _ => {
                    let end = text.ceil_char_boundary((at + random.below(12) as usize).min(text.len()));
                    text.replace_range(at..end, piece);
                }
            }
        }
        if check(&text) { ran += 1 } else { refused += 1 }
    }
    // Texts of pieces alone reach code that whole scripts do not.
    for _ in 0..3_000 {
        let pieces = 1 + random.below(30);
        let text: String = (0..pieces).map(|_| PIECES[random.below(PIECES.len() as u64) as usize]).collect();
        refused += i32::from(!check(&text));
    }
    assert!(ran > 500 && refused > 3_000, "{ran} ran, {refused} were refused");
}
