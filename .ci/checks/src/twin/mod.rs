//! The twin: deciders of the core in C, for the kernel, and their equality with the core. `twin/README.md` is its manual.

mod body;
mod equal;
mod expression;
mod planted;
mod reference;
mod source;
#[cfg(test)]
mod tests;
mod translate;
mod types;

use std::fs;
use std::io;
use std::path::Path;

use source::Sources;
use translate::Translator;

pub use equal::{calls, equal};
pub use planted::planted;

/// The generated file.
const GENERATED: &str = "twin/generated/deciders.h";

/// The files that are read, each with the module whose part it is.
const FILES: &[(&str, &str)] = &[
    ("crates/units/src/quantity.rs", "units"),
    ("crates/core/src/qdisc.rs", "qdisc"),
    ("crates/core/src/fifo.rs", "fifo"),
    ("crates/core/src/bucket.rs", "bucket"),
    ("crates/core/src/red/dropper.rs", "red"),
    ("crates/core/src/codel.rs", "codel"),
];

/// What the chassis calls: module, type, method. What these call is translated with them.
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
];

const HEAD: &str = "\
/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * Made from the Rust of the core by `cargo run -p tidegate-checks -- twin --write`. Changes belong there: `.ci/run` compares.
 * The includer has twin/integers.h.
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

/// Whether the generated file is what the sources give; with `write` it is made so.
pub fn generated(root: &Path, write: bool) -> io::Result<Vec<String>> {
    let text = generate(root)?;
    let path = root.join(GENERATED);
    if write {
        fs::write(path, text)?;
        return Ok(Vec::new());
    }
    if fs::read_to_string(path).ok().as_ref() == Some(&text) {
        return Ok(Vec::new());
    }
    Ok(vec![format!(
        "{GENERATED} is not what the sources of the core give: cargo run -p tidegate-checks -- twin --write"
    )])
}
