//! `tidegate-translator`: makes the C of the kernel path, and compares it with the core. `kernel/README.md` has the commands.

use std::path::Path;
use std::process::ExitCode;

use tidegate_translator::equal::{calls, equal, trees};
use tidegate_translator::generated;
use tidegate_translator::mutants::mutants;

const USAGE: &str = "usage: tidegate-translator [--write | equal [OPERATIONS [SEED]] | mutants [COUNT [OPERATIONS]] | calls FILE [TREE] | trees FOLDER]\n\
                     Without arguments: whether the generated files are what the sources give.";

fn main() -> ExitCode {
    let root = Path::new(".");
    tidegate_checks::program(USAGE, |arguments| {
        Some(match *arguments {
            [] => generated(root, false),
            ["--write"] => generated(root, true),
            ["equal", ref numbers @ ..] => {
                let [operations, seed] = parsed(numbers)?;
                equal(root, operations.unwrap_or(100_000_000), seed.unwrap_or(1))
            }
            ["mutants", ref numbers @ ..] => {
                let [count, operations] = parsed(numbers)?;
                mutants(root, count.unwrap_or(12) as usize, operations.unwrap_or(1_000_000))
            }
            ["calls", file] => calls(Path::new(file), None),
            ["calls", file, tree] => calls(Path::new(file), Some(tree)),
            ["trees", folder] => trees(Path::new(folder)),
            _ => return None,
        })
    })
}

/// Up to two numbers; `None` when something is no number, or there are more.
fn parsed(texts: &[&str]) -> Option<[Option<u64>; 2]> {
    let mut numbers = [None; 2];
    for (at, text) in texts.iter().enumerate() {
        *numbers.get_mut(at)? = Some(text.replace('_', "").parse().ok()?);
    }
    Some(numbers)
}
