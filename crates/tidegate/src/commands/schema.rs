//! `tidegate schema`: the JSON Schema of the configuration, for editors and for other programs.

use std::io::Write;

use clap::ValueEnum;
use tidegate_config::shaper;

use crate::Failure;

/// Print the JSON Schema of a configuration file
#[derive(Debug, clap::Args)]
pub struct Args {
    /// Which file
    #[arg(value_enum, default_value_t = Subject::Shaper)]
    subject: Subject,
}

/// The files that have a schema.
#[derive(Debug, Clone, Copy, ValueEnum)]
enum Subject {
    /// What `tidegate run` and `tidegate check` read
    Shaper,
}

/// Runs the command.
pub fn run(args: &Args) -> Result<(), Failure> {
    let schema = match args.subject {
        Subject::Shaper => shaper::schema(),
    };
    writeln!(std::io::stdout().lock(), "{schema:#}")?;
    Ok(())
}
