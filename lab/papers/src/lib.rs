//! Experiments around the product: the experiments of the papers ([`reproduce`]), and real traffic shaped between
//! throwaway namespaces ([`demo`]).
//!
//! Only the command depends on this crate, and tests do.
#![deny(clippy::print_stdout, clippy::print_stderr)] // They panic once the reader has closed its end.

pub mod demo;
pub mod reproduce;

use std::io;

/// Why an experiment or the demonstration could not be run.
#[derive(Debug, thiserror::Error)]
pub enum Failure {
    /// The machine lacks something, or refuses it; the text names it.
    #[error("{0}")]
    Failed(String),
    /// Output could not be written; a closed pipe is among these.
    #[error(transparent)]
    Output(#[from] io::Error),
}
