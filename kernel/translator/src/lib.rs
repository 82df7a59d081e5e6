//! Translates deciders from Rust to C for the kernel, and compares the C with the Rust. `kernel/README.md` has the commands, and the
//! chapter *Rust for the kernel* of the book the subset of Rust that is translated.
//!
//! A function is translated when the C of the chassis calls it by its name: method `take` of `TokenBucket` in the module `bucket` is
//! `bucket_token_bucket_take`. Everything that it uses must be in the subset; anything else is a [`problem`] with its file and
//! line.
//!
//! - Arithmetic that overflows wraps in C and panics in a debug build of the core, so the core must rely on neither. A divisor must
//!   not be zero.
//! - Operands are evaluated in the order of Rust: a call becomes a variable of its own.

mod body;
mod call;
#[cfg(feature = "equal")]
mod classes;
#[cfg(feature = "equal")]
pub mod equal;
mod expression;
mod headers;
#[cfg(feature = "equal")]
pub mod mutants;
pub mod own;
#[cfg(feature = "equal")]
mod packets;
mod problem;
#[cfg(feature = "equal")]
mod promises;
#[cfg(feature = "equal")]
mod reference;
mod source;
#[cfg(test)]
mod tests;
mod translate;
mod types;

use std::fs;
use std::io;
use std::path::Path;

use problem::Result;
use source::Sources;
use translate::Translator;

/// The generated files: deciders in C, and options in Rust.
const GENERATED: &str = "kernel/generated/deciders.h";
const OPTIONS: &str = "kernel/path/src/options.rs";

const HEAD: &str = "\
/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * Made from the Rust of the core by `cargo run -p tidegate-translator -- --write`. Changes belong there: `.ci/run` compares.
 * The includer has kernel/integers.h.
 */
#ifndef TWIN_DECIDERS_H
#define TWIN_DECIDERS_H

";

/// The C of the chassis by hand, in `kernel/` under `root`.
fn chassis(root: &Path) -> io::Result<String> {
    let mut text = String::new();
    for file in fs::read_dir(root.join("kernel"))? {
        let path = file?.path();
        if path.extension().is_some_and(|extension| extension == "h" || extension == "c") {
            text += &fs::read_to_string(path)?;
        }
    }
    Ok(text)
}

/// The deciders in C, as made from the sources, and what `more` adds to them.
fn generate(
    root: &Path,
    sources: &Sources,
    more: impl FnOnce(&mut Translator<'_>) -> Result<String>,
) -> io::Result<String> {
    let mut translator = Translator::new(sources);
    let more = more(&mut translator)?;
    translator.roots(&chassis(root)?)?;
    Ok(format!("{HEAD}{}{more}#endif\n", translator.finish()))
}

/// Whether the generated files of the tree at `root` are what its sources give; with `write` they are made so. A line for each that
/// is not.
///
/// # Errors
/// When a file cannot be read or written, or has what is not translated.
pub fn generated(root: &Path, write: bool) -> io::Result<Vec<String>> {
    let mut wrong = Vec::new();
    let deciders = generate(root, &Sources::of_tidegate(root)?, |_| Ok(String::new()))?;
    for (path, text) in [(GENERATED, deciders), (OPTIONS, headers::options(root)?)] {
        if write {
            fs::write(root.join(path), text)?;
        } else if fs::read_to_string(root.join(path)).ok().as_ref() != Some(&text) {
            wrong.push(format!("{path} is not what its sources give: cargo run -p tidegate-translator -- --write"));
        }
    }
    Ok(wrong)
}
