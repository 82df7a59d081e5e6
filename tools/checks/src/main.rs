//! Checks of the source tree that the compiler does not make. `.ci/run` runs them from the root of the repository.

mod boundaries;
mod planted;
mod tree;
mod wasm;

use std::path::Path;
use std::process::ExitCode;

const USAGE: &str = "usage: tidegate-checks boundaries | planted [--short | NAME] | wasm MODULE";

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
    let found = match arguments[..] {
        ["boundaries"] => boundaries::check(Path::new(".")),
        ["planted"] => planted::check(false, ""),
        ["planted", "--short"] => planted::check(true, ""),
        ["planted", only] => planted::check(false, only),
        ["wasm", module] => wasm::check(Path::new(module)),
        ["-h" | "--help"] => {
            println!("{USAGE}");
            return ExitCode::SUCCESS;
        }
        _ => {
            eprintln!("{USAGE}");
            return ExitCode::from(2);
        }
    };
    let failures = found.unwrap_or_else(|error| vec![format!("{}: {error}", arguments.join(" "))]);
    failures.iter().for_each(|line| println!("{line}"));
    ExitCode::from(u8::from(!failures.is_empty()))
}
