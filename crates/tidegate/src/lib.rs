//! Tidegate as a command: one definition of the command line, a module for each subcommand.
//!
//! Exit codes: 0 for success, 1 when something failed, 2 when the command line or a file it names is wrong.
//! Data goes to standard output, talk to standard error; a closed pipe is success.
//!
//! Another crate adds disciplines of its own by [`main_with`]; `tidegate new-qdisc` writes one.

#![forbid(unsafe_code)]

mod cli;
mod commands;
mod output;

pub use cli::{Failure, Registry, main, main_from, main_with};
