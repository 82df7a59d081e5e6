//! Tidegate as a command: one definition of the command line, a module for each subcommand.
//!
//! Exit codes: 0 for success, 1 when something failed, 2 when the command line or a file it names is wrong.
//! Data goes to standard output, talk to standard error; a closed pipe is success.
//!
//! Another crate adds disciplines of its own by [`main_with`]; `tidegate new-qdisc` writes one.

#![forbid(unsafe_code)]
#![deny(clippy::print_stdout, clippy::print_stderr)] // They panic when nobody reads any more.

/// A line on standard error. When nobody reads it any more, a terminal that has gone or the end of a pipe, what the
/// command does goes on without being told: a shaper above all.
macro_rules! say {
    ($($text:tt)*) => {{
        let _ = std::io::Write::write_fmt(&mut std::io::stderr(), format_args!("{}\n", format_args!($($text)*)));
    }};
}

/// The same without the end of the line.
macro_rules! say_on {
    ($($text:tt)*) => {{
        let _ = std::io::Write::write_fmt(&mut std::io::stderr(), format_args!($($text)*));
    }};
}

mod cli;
mod commands;
mod output;

pub use cli::{Failure, Registry, main, main_from, main_with};
