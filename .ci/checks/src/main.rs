//! Checks of the source tree that the compiler does not make. `.ci/run` runs them from the root of the repository.
#![forbid(unsafe_code)]

mod bench;
mod boundaries;
mod planted;
mod tree;
mod twin;
mod wasm;

use std::path::Path;
use std::process::ExitCode;

const USAGE: &str = "usage: tidegate-checks bench [--counts] [ROW...] | boundaries | \
                     planted [--short | NAME] | wasm MODULE | \
                     twin [--write | equal [OPERATIONS [SEED]] | mutants [COUNT [OPERATIONS]] | calls FILE]";

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
    if arguments.iter().any(|argument| matches!(*argument, "-h" | "--help")) {
        println!("{USAGE}");
        return ExitCode::SUCCESS;
    }
    let found = match arguments[..] {
        ["bench", ref parts @ ..] => bench::check(Path::new("."), parts),
        ["boundaries"] => boundaries::check(Path::new(".")),
        ["planted"] => planted::check(false, ""),
        ["planted", "--short"] => planted::check(true, ""),
        ["planted", only] => planted::check(false, only),
        ["twin"] => twin::generated(Path::new("."), false),
        ["twin", "--write"] => twin::generated(Path::new("."), true),
        ["twin", "equal", ref numbers @ ..] if numbers.len() <= 2 => match parsed(numbers) {
            Some(numbers) => twin::equal(Path::new("."), numbers[0].unwrap_or(100_000_000), numbers[1].unwrap_or(1)),
            None => return usage(),
        },
        ["twin", "mutants", ref numbers @ ..] if numbers.len() <= 2 => match parsed(numbers) {
            Some(numbers) => {
                let count = numbers[0].unwrap_or(12) as usize;
                twin::mutants(Path::new("."), count, numbers[1].unwrap_or(1_000_000))
            }
            None => return usage(),
        },
        ["twin", "calls", file] => twin::calls(Path::new(file)),
        ["wasm", module] => wasm::check(Path::new(module)),
        _ => return usage(),
    };
    match found {
        Ok(found) if found.is_empty() => ExitCode::SUCCESS,
        Ok(found) => {
            found.iter().for_each(|line| println!("{line}"));
            ExitCode::FAILURE
        }
        Err(error) => {
            eprintln!("{}: {error}", arguments.join(" "));
            ExitCode::FAILURE
        }
    }
}

fn usage() -> ExitCode {
    eprintln!("{USAGE}");
    ExitCode::from(2)
}

/// Up to two numbers; `None` when something is no number.
fn parsed(texts: &[&str]) -> Option<[Option<u64>; 2]> {
    let mut numbers = [None; 2];
    for (number, text) in numbers.iter_mut().zip(texts) {
        *number = Some(text.replace('_', "").parse().ok()?);
    }
    Some(numbers)
}
