//! A decider of a user's own, from another crate: its build script calls `build` (feature `translate`), and its test `compare` (feature
//! `equal`).
//!
//! The chassis is compiled from the headers of this tree with `deciders.h` of its own, which has the decider besides those of the core.

#[cfg(feature = "translate")]
mod build;
#[cfg(feature = "equal")]
mod equality;

use std::path::{Path, PathBuf};

#[cfg(all(test, feature = "program"))]
pub(crate) use build::translate_beside;
#[cfg(feature = "translate")]
pub use build::{build, translate};
#[cfg(feature = "equal")]
pub use equality::{Compared, Numbered, compare};

/// As `TWIN_OWN_NUMBERS` of kernel/options.h.
const MOST_NUMBERS: usize = 16;

/// The source tree that this crate is built from.
fn tree() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}
