//! Checks of the source tree that the compiler does not make. `.ci/run` runs them from the root of the repository.

mod boundaries;
mod planted;
mod tree;
mod wasm;

use std::path::Path;
use std::process::ExitCode;

const USAGE: &str = "usage: tidegate-checks boundaries | planted [--short | NAME] | wasm MODULE";

fn main() -> ExitCode {
    tidegate_checks::program(USAGE, |arguments| {
        Some(match *arguments {
            ["boundaries"] => boundaries::check(Path::new(".")),
            ["planted"] => planted::check(false, ""),
            ["planted", "--short"] => planted::check(true, ""),
            ["planted", only] => planted::check(false, only),
            ["wasm", module] => wasm::check(Path::new(module)),
            _ => return None,
        })
    })
}
