//! The generated files of the tree: deciders in C, and options in Rust.

use std::fs;
use std::io;
use std::path::Path;

use super::problem::Result;
use super::source::Sources;
use super::translate::Translator;
use super::{GENERATED, headers};

/// The generated options in Rust.
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
pub(super) fn generate(
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
