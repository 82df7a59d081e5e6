//! Translates the deciders of the core to C for the kernel, and compares the C with the core. `kernel/README.md` has the commands.
//!
//! # What is translated
//!
//! A function is translated when a function of the list below calls it. Everything that it uses must be in the listed files and in
//! this subset of Rust; anything else is an error with its file and line.
//!
//! - Types: `bool`, integers of 8 to 64 bits and `u128`, structs of such fields (one with a single unnamed field is that field in C),
//!   enums, `Option` of these, references as parameters. No `i128`, no product or quotient of 128 bits, no floats, no generics, no
//!   slices, no trait objects.
//! - Items: functions, methods, constants, `+`, `-`, `+=` and `-=` of types by their traits, `Default` where it is derived and zero.
//! - Expressions: arithmetic, comparison and logic, casts between integers, calls without recursion, fields, struct literals,
//!   shifts, `if`, `if let Some`, `let ... else`, `match` on an option or an enum without nested patterns, `?` on an option, `for`
//!   over a range, `return`, and the methods of integers that `integers.h` has. No other loops, no closures, no macros but
//!   `debug_assert!`, which is left out.
//! - Arithmetic that overflows wraps in C and panics in a debug build of the core, so the core must rely on neither. A divisor must
//!   not be zero. Signed integers are neither divided nor shifted to the left.
//! - Operands are evaluated in the order of Rust: a call becomes a variable of its own.

mod body;
mod call;
mod classes;
mod equal;
mod expression;
mod headers;
mod mutants;
mod packets;
mod promises;
mod reference;
mod source;
#[cfg(test)]
mod tests;
mod translate;
mod types;

use std::fs;
use std::io;
use std::path::Path;
use std::process::ExitCode;

use equal::{calls, equal};
use mutants::mutants;
use source::Sources;
use translate::Translator;

const USAGE: &str = "usage: tidegate-translator [--write | equal [OPERATIONS [SEED]] | mutants [COUNT [OPERATIONS]] | calls FILE]\n\
                     Without arguments: whether the generated files are what the sources give.";

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
    if arguments.iter().any(|argument| matches!(*argument, "-h" | "--help")) {
        println!("{USAGE}");
        return ExitCode::SUCCESS;
    }
    let found = match arguments[..] {
        [] => generated(Path::new("."), false),
        ["--write"] => generated(Path::new("."), true),
        ["equal", ref numbers @ ..] if numbers.len() <= 2 => match parsed(numbers) {
            Some(numbers) => equal(Path::new("."), numbers[0].unwrap_or(100_000_000), numbers[1].unwrap_or(1)),
            None => return usage(),
        },
        ["mutants", ref numbers @ ..] if numbers.len() <= 2 => match parsed(numbers) {
            Some(numbers) => {
                let count = numbers[0].unwrap_or(12) as usize;
                mutants(Path::new("."), count, numbers[1].unwrap_or(1_000_000))
            }
            None => return usage(),
        },
        ["calls", file] => calls(Path::new(file)),
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

/// The generated files: deciders in C, and options in Rust.
const GENERATED: &str = "kernel/generated/deciders.h";
const OPTIONS: &str = "kernel/path/src/options.rs";

/// The files that are read, each with the module whose part it is.
const FILES: &[(&str, &str)] = &[
    ("crates/units/src/quantity.rs", "units"),
    ("crates/core/src/qdisc.rs", "qdisc"),
    ("crates/core/src/qdisc/fifo.rs", "fifo"),
    ("crates/core/src/structures/bucket.rs", "bucket"),
    ("crates/core/src/random.rs", "random"),
    ("crates/core/src/probability.rs", "probability"),
    ("crates/core/src/aqm.rs", "aqm"),
    ("crates/core/src/aqm/red.rs", "red"),
    ("crates/core/src/aqm/red/average.rs", "red"),
    ("crates/core/src/aqm/red/curve.rs", "red"),
    ("crates/core/src/aqm/red/dropper.rs", "red"),
    ("crates/core/src/aqm/ared.rs", "ared"),
    ("crates/core/src/aqm/codel.rs", "codel"),
    ("crates/core/src/aqm/pie.rs", "pie"),
    ("crates/core/src/aqm/elephants.rs", "elephants"),
    ("crates/core/src/aqm/meredt.rs", "meredt"),
    ("crates/core/src/qdisc/fbq/shares.rs", "shares"),
    ("crates/core/src/qdisc/fbq/deciders.rs", "fbq"),
    ("crates/core/src/structures/key_index.rs", "key_index"),
    ("crates/core/src/structures/queues.rs", "queues"),
    ("crates/core/src/structures/round.rs", "round"),
    ("crates/core/src/qdisc/sfq.rs", "sfq"),
    ("crates/core/src/qdisc/flow_queues.rs", "flow_queues"),
];

/// The functions that the chassis calls: module, type, method. The functions that these call are translated with them.
const ROOTS: &[(&str, &str, &str)] = &[
    ("fifo", "Limit", "admits"),
    ("qdisc", "Backlog", "add"),
    ("qdisc", "Backlog", "remove"),
    ("bucket", "TokenBucket", "full"),
    ("bucket", "TokenBucket", "depth"),
    ("bucket", "TokenBucket", "take"),
    ("bucket", "TokenBucket", "time_of"),
    ("bucket", "TokenBucket", "set_rate"),
    ("bucket", "TokenBucket", "set_depth"),
    ("codel", "State", "decide"),
    ("codel", "State", "marked"),
    ("codel", "State", "ran_empty"),
    ("random", "Stream", "from_parts"),
    ("red", "Level", "whole"),
    ("red", "Red", "drawing"),
    ("red", "Red", "observe"),
    ("red", "Dropper", "judge"),
    ("red", "Red", "on_busy"),
    ("red", "Red", "on_empty"),
    ("ared", "Ared", "adapting"),
    ("ared", "Ared", "observe"),
    ("ared", "Ared", "on_busy"),
    ("ared", "Ared", "on_empty"),
    ("pie", "State", "new"),
    ("pie", "State", "catch_up"),
    ("pie", "State", "unlucky"),
    ("pie", "State", "signal"),
    ("pie", "State", "departed"),
    ("elephants", "Flow", "arrive"),
    ("elephants", "Flow", "exceed"),
    ("elephants", "Pair", "take"),
    ("meredt", "Floor", "new"),
    ("meredt", "Floor", "due"),
    ("meredt", "Floor", "mouse"),
    ("meredt", "Floor", "elephant"),
    ("meredt", "Floor", "none_queued"),
    ("bucket", "TokenBucket", "bytes"),
    ("bucket", "TokenBucket", "charge"),
    ("bucket", "TokenBucket", "time_for"),
    ("shares", "", "WEIGHT_ONE"),
    ("shares", "", "WHOLE"),
    ("fbq", "Slots", "begin"),
    ("fbq", "Slots", "end"),
    ("fbq", "", "VIRTUAL_START"),
    ("fbq", "", "weight_of"),
    ("fbq", "", "virtual_length"),
    ("fbq", "", "borrow_length"),
    ("fbq", "", "starts_with"),
    ("fbq", "", "starts_again"),
    ("fbq", "", "charged"),
    ("fbq", "", "covered_at"),
    ("fbq", "", "charge_minimum"),
    ("fbq", "", "promised_part"),
    ("fbq", "", "kept"),
    ("fbq", "", "is_within_part"),
    ("fbq", "", "by_due"),
    ("fbq", "", "by_priority"),
    ("queues", "", "class"),
    ("round", "Turns", "of"),
    ("round", "Turns", "queued"),
    ("round", "Turns", "pays"),
    ("round", "Turns", "left"),
    ("round", "Deficit", "starting_with"),
    ("round", "Deficit", "renew"),
    ("round", "Deficit", "spend"),
    ("round", "", "spread"),
    ("sfq", "Hash", "new"),
    ("sfq", "Hash", "change"),
    ("sfq", "Hash", "queue"),
    ("sfq", "Hash", "queue_before"),
    ("sfq", "Hash", "keeps"),
    ("sfq", "Hash", "entered"),
    ("sfq", "Hash", "emptied"),
    ("flow_queues", "Place", "once_empty"),
];

const HEAD: &str = "\
/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * Made from the Rust of the core by `cargo run -p tidegate-translator -- --write`. Changes belong there: `.ci/run` compares.
 * The includer has kernel/integers.h.
 */
#ifndef TWIN_DECIDERS_H
#define TWIN_DECIDERS_H

";

/// The deciders in C, as made from the sources under `root`.
fn generate(root: &Path) -> io::Result<String> {
    let mut sources = Sources::default();
    for (path, module) in FILES {
        sources.add(path, module, &fs::read_to_string(root.join(path))?)?;
    }
    let mut translator = Translator::new(&sources);
    for (module, of, name) in ROOTS {
        translator.root(module, of, name)?;
    }
    Ok(format!("{HEAD}{}#endif\n", translator.finish()))
}

/// Whether the generated files are what the sources give; with `write` they are made so.
fn generated(root: &Path, write: bool) -> io::Result<Vec<String>> {
    let mut wrong = Vec::new();
    for (path, text) in [(GENERATED, generate(root)?), (OPTIONS, headers::options(root)?)] {
        if write {
            fs::write(root.join(path), text)?;
        } else if fs::read_to_string(root.join(path)).ok().as_ref() != Some(&text) {
            wrong.push(format!("{path} is not what its sources give: cargo run -p tidegate-translator -- --write"));
        }
    }
    Ok(wrong)
}
