//! Translates deciders from Rust to C for the kernel, and compares the C with the Rust. `kernel/README.md` has the commands, and the
//! chapter *Rust for the kernel* of the book the subset of Rust that is translated.
//!
//! A function is translated when the C of the chassis calls it by its name: method `take` of `TokenBucket` in the module `bucket` is
//! `bucket_token_bucket_take`. Everything that it uses must be in the subset; anything else is a problem with its file and
//! line.
//!
//! - Arithmetic that overflows wraps in C and panics in a debug build of the core, so the core must rely on neither. A divisor must
//!   not be zero.
//! - Operands are evaluated in the order of Rust: a call becomes a variable of its own.

#[cfg(feature = "translate")]
mod body;
#[cfg(feature = "translate")]
mod call;
#[cfg(feature = "equal")]
mod classes;
#[cfg(feature = "equal")]
pub mod equal;
#[cfg(feature = "translate")]
mod expression;
#[cfg(feature = "translate")]
mod headers;
#[cfg(feature = "equal")]
mod more;
#[cfg(feature = "equal")]
pub mod mutants;
#[cfg(any(feature = "translate", feature = "equal"))]
pub mod own;
#[cfg(feature = "equal")]
mod packets;
#[cfg(feature = "translate")]
mod problem;
#[cfg(feature = "equal")]
mod promises;
#[cfg(feature = "equal")]
mod reference;
#[cfg(feature = "equal")]
mod script;
#[cfg(feature = "translate")]
mod source;
#[cfg(all(test, feature = "program"))]
mod tests;
#[cfg(feature = "translate")]
mod translate;
#[cfg(feature = "equal")]
pub mod trees;
#[cfg(feature = "translate")]
mod types;

#[cfg(feature = "translate")]
pub use generate::generated;

/// The generated deciders in C.
#[cfg(any(feature = "translate", feature = "equal"))]
const GENERATED: &str = "kernel/generated/deciders.h";

#[cfg(feature = "translate")]
mod generate;
