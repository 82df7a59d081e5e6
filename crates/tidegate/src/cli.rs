//! The one definition of the command line, and what its outcomes mean.

use std::fmt;
use std::process::ExitCode;

use clap::{Parser, Subcommand};

use crate::commands;

/// Traffic shaping for Linux that people can trust
#[derive(Debug, Parser)]
#[command(name = "tidegate", version, propagate_version = true, after_help = EXIT_CODES)]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

const EXIT_CODES: &str = "Exit codes: 0 success, 1 failure, 2 wrong usage or a wrong file.";

#[derive(Debug, Subcommand)]
enum Command {
    Run(commands::run::Args),
    Demo(commands::demo::Args),
    Check(commands::check::Args),
    Pace(Box<commands::pace::Args>),
    Reproduce(commands::reproduce::Args),
    Schema(commands::schema::Args),
    Simulate(commands::simulate::Args),
}

/// Why a command did not succeed. The text has gone to standard error by the time the process ends.
#[derive(Debug)]
pub enum Failure {
    /// The command line, or a file that it names, is wrong: exit code 2.
    Usage(String),
    /// Something did not work: exit code 1.
    Failed(String),
    /// It worked, and the answer is no (an experiment that does not hold): exit code 1, nothing more to say.
    Negative,
    /// The reader of our output went away: success.
    BrokenPipe,
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Usage(text) | Self::Failed(text) => f.write_str(text),
            Self::Negative | Self::BrokenPipe => Ok(()),
        }
    }
}

impl From<std::io::Error> for Failure {
    fn from(error: std::io::Error) -> Self {
        if error.kind() == std::io::ErrorKind::BrokenPipe { Self::BrokenPipe } else { Self::Failed(error.to_string()) }
    }
}

/// Parses the command line and runs it.
pub fn main() -> ExitCode {
    let outcome = match Cli::parse().command {
        Command::Run(args) => commands::run::run(&args),
        Command::Demo(args) => commands::demo::run(&args),
        Command::Check(args) => commands::check::run(&args),
        Command::Pace(args) => commands::pace::run(&args),
        Command::Reproduce(args) => commands::reproduce::run(&args),
        Command::Schema(args) => commands::schema::run(&args),
        Command::Simulate(args) => commands::simulate::run(&args),
    };
    match outcome {
        Ok(()) | Err(Failure::BrokenPipe) => ExitCode::SUCCESS,
        Err(failure) => {
            let text = failure.to_string();
            if !text.is_empty() {
                eprintln!("tidegate: {text}");
            }
            ExitCode::from(if matches!(failure, Failure::Usage(_)) { 2 } else { 1 })
        }
    }
}
