//! The engine that runs live, over captures and in scripts: dissect, classify, a tree of disciplines, accounts.
//!
//! It does no I/O and reads no clock. A data path hands in the bytes it holds of a packet with a handle of its own,
//! and gets the handle back when the packet may pass ([`Exit::pass`]) or must not ([`Exit::refuse`]).
#![forbid(unsafe_code)]

pub mod held;
pub mod pipeline;
pub mod stats;
pub mod tree;

pub use held::Held;
pub use pipeline::{BuildFailure, Change, Exit, Names, Pipeline, Setup, Shape, Sighting, Taken};
pub use stats::{ClassCounts, ClassStatus};
pub use tree::Tree;
