//! Experiments: those of the papers ([`reproduce`]), and a demonstration that shapes real traffic between throwaway
//! namespaces ([`demo`]).
//!
//! Only the command and tests depend on this crate.
#![deny(clippy::print_stdout, clippy::print_stderr)] // These macros panic once the reader has closed the pipe.

pub mod demo;
pub mod reproduce;

use std::io;

/// Why an experiment or the demonstration could not be run.
#[derive(Debug, thiserror::Error)]
pub enum Failure {
    /// The machine lacks or refuses something that the text names.
    #[error("{0}")]
    Failed(String),
    /// Output could not be written, for example to a closed pipe.
    #[error(transparent)]
    Output(#[from] io::Error),
}
