//! Mutants of the C, one operator changed in each: most must decide otherwise than the core, or the comparison sees nothing.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use super::equal::{Scratch, compare, compile};
use super::{GENERATED, packets};

/// The files of classification, which packets are compared for.
const CLASSIFICATION: [&str; 2] = ["kernel/classify.h", "kernel/plain.h"];
/// The files that operations are compared for.
const DECISIONS: [&str; 27] = [
    GENERATED,
    "kernel/disciplines.h",
    "kernel/departures.h",
    "kernel/queues.h",
    "kernel/ingress.h",
    "kernel/mered.h",
    "kernel/dualpi2.h",
    "kernel/coloured.h",
    "kernel/meters.h",
    "kernel/ras.h",
    "kernel/cake.h",
    "kernel/cake_departures.h",
    "kernel/classes.h",
    "kernel/fbq.h",
    "kernel/fbc.h",
    "kernel/rates.h",
    "kernel/shares.h",
    "kernel/candidates.h",
    "kernel/openings.h",
    "kernel/hosts.h",
    "kernel/lending.h",
    "kernel/moves.h",
    "kernel/promises.h",
    "kernel/orders.h",
    "kernel/tree.h",
    "kernel/cbq.h",
    "kernel/reshape.h",
];

/// Operators, and what takes their place.
const OPERATORS: [(&str, &str); 8] = [
    (" < ", " >= "),
    (" >= ", " < "),
    (" > ", " <= "),
    (" <= ", " > "),
    (" == ", " != "),
    (" != ", " == "),
    (" + ", " - "),
    (" - ", " + "),
];

/// One operator of a file.
struct Mutant {
    file: &'static str,
    /// The file as it becomes.
    text: String,
    /// The place of the operator, and its line as it becomes.
    shown: String,
}

/// `count` mutants, evenly spread over all that there are, files one after the other.
fn some(root: &Path, count: usize) -> io::Result<Vec<Mutant>> {
    let mut all = Vec::new();
    for file in DECISIONS.into_iter().chain(CLASSIFICATION) {
        let text = fs::read_to_string(root.join(file))?;
        let mut at = 0;
        for (n, line) in text.split_inclusive('\n').enumerate() {
            let is_code = !["/*", "*", "//", "#"].iter().any(|begin| line.trim_start().starts_with(begin));
            for (operator, instead) in OPERATORS.iter().filter(|_| is_code) {
                all.extend(
                    line.match_indices(operator).map(|(column, _)| (file, n + 1, at + column, *operator, *instead)),
                );
            }
            at += line.len();
        }
    }
    let chosen = (0..count.min(all.len())).map(|n| all[(2 * n + 1) * all.len() / (2 * count.min(all.len()))]);
    chosen
        .map(|(file, line, at, operator, instead)| {
            let mut text = fs::read_to_string(root.join(file))?;
            text.replace_range(at..at + operator.len(), instead);
            let mutated = text.lines().nth(line - 1).unwrap_or_default().trim();
            Ok(Mutant { file, shown: format!("{file}:{line}: {mutated}"), text })
        })
        .collect()
}

/// Compares `operations` operations of each of `count` mutants with the core. A line for each that is not found:
/// not every operator makes a difference.
pub fn mutants(root: &Path, count: usize, operations: u64) -> io::Result<Vec<String>> {
    let mut missed = Vec::new();
    for mutant in some(root, count)? {
        match difference(root, &mutant, operations)? {
            Ok(found) => println!("{}: {found}", mutant.shown),
            Err(why) => missed.push(format!("{}: {why}", mutant.shown)),
        }
    }
    Ok(missed)
}

/// The C compiled with another text of one of its files, in a folder of this name; `None` where it does not compile.
pub fn compiled_with(root: &Path, name: &str, file: &str, text: &str) -> io::Result<Option<(Scratch, PathBuf)>> {
    let scratch = Scratch::new(name)?;
    let folder = &scratch.0;
    // A file is looked for beside the one that includes it first.
    for file in fs::read_dir(root.join("kernel"))? {
        let file = file?;
        if file.file_type()?.is_file() {
            fs::copy(file.path(), folder.join(file.file_name()))?;
        }
    }
    fs::write(folder.join(Path::new(file).file_name().unwrap_or_default()), text)?;
    let program = folder.join("host");
    let is_compiled = compile(root, folder, &program).is_ok();
    Ok(is_compiled.then_some((scratch, program)))
}

/// Where a mutant differs from the core, or why it does not.
fn difference(root: &Path, mutant: &Mutant, operations: u64) -> io::Result<Result<String, &'static str>> {
    let Some((_scratch, program)) = compiled_with(root, "twin-mutant", mutant.file, &mutant.text)? else {
        return Ok(Err("does not compile"));
    };
    let found = if CLASSIFICATION.contains(&mutant.file) {
        packets::compare(&program, operations, 1).map(|compared| compared.0)
    } else {
        compare(&program, operations, 1)
    };
    match found {
        Ok(Some(found)) => Ok(Ok(found.0.split(',').next().unwrap_or_default().to_owned())),
        Ok(None) => Ok(Err("decides the same")),
        // It ended, by a signal of its own or of an alarm.
        Err(error) if matches!(error.kind(), io::ErrorKind::UnexpectedEof | io::ErrorKind::BrokenPipe) => {
            Ok(Ok(error.to_string()))
        }
        Err(error) => Err(error),
    }
}
