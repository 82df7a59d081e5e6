//! Checks of the source tree that the compiler does not make. `.ci/run` runs them from the root of the repository.

mod bench;
mod boundaries;
mod planted;
mod tree;
mod wasm;

use std::path::Path;
use std::process::ExitCode;

const USAGE: &str = "usage: tidegate-checks bench [--counts] [ROW...] | boundaries | \
                     planted [--short | NAME] | wasm MODULE";

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
