//! Tidegate as a command: one definition of the command line, a module for each subcommand.
//!
//! Exit codes: 0 for success, 1 when something failed, 2 when the command line or a file it names is wrong.
//! Data goes to standard output, talk to standard error; a closed pipe is success.

#![forbid(unsafe_code)]

mod cli;
mod commands;

pub use cli::{Failure, main};
