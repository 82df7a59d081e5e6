//! The command: the definition of the command line, and one module per subcommand.
//!
//! Exit codes: 0 for success, 1 when something failed, 2 for invalid usage or an invalid file. Data goes to standard
//! output, messages to standard error; a closed pipe is success.
//!
//! Another crate adds disciplines of its own by [`main_with`]; `tidegate new-qdisc` writes one.
//!
//! The feature `lab` links the laboratory: the commands that work in virtual time, and the options of `tidegate run` that record and
//! report. The feature `live` links the shaper and what speaks with it. Both are on by default, with the experiments of the papers.

#![deny(clippy::print_stdout, clippy::print_stderr)] // They panic when the reader is gone.

/// Writes a line to standard error. If it is closed (a terminal that is gone, the end of a pipe), the command
/// continues without output; above all a shaper.
macro_rules! message {
    ($($text:tt)*) => {{
        #[cfg(all(feature = "lab", feature = "live"))]
        $crate::progress::clear_status();
        $crate::output::say(&format!("{}\n", format_args!($($text)*)));
    }};
}

/// [`message!`] without the end of the line.
macro_rules! message_part {
    ($($text:tt)*) => {{
        $crate::output::say(&format!($($text)*));
    }};
}

mod cli;
mod commands;
#[cfg(feature = "live")]
mod measure;
mod output;
#[cfg(feature = "lab")]
mod progress;
#[cfg(test)]
mod snapshots;

pub use cli::{Failure, Registry, main, main_from, main_with};
