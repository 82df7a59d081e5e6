//! `tidegate schema`: the JSON Schema of the configuration, for editors and for other programs.

use std::io::Write;

use clap::ValueEnum;
use tidegate_config::schema::reference;
use tidegate_config::shaper;
use tidegate_sim::scenario;

use crate::Failure;

/// Print the JSON Schema of a configuration file, or a reference of its keys
#[derive(Debug, clap::Args)]
pub struct Args {
    /// Which file
    #[arg(value_enum, default_value_t = Subject::Shaper)]
    subject: Subject,
    /// Print every key with its meaning, its default and the reason, for people
    #[arg(long)]
    text: bool,
}

/// The files that have a schema.
#[derive(Debug, Clone, Copy, ValueEnum)]
enum Subject {
    /// What `tidegate run` and `tidegate check` read
    Shaper,
    /// What `tidegate simulate` reads
    Scenario,
}

/// Runs the command.
pub fn run(args: &Args) -> Result<(), Failure> {
    let schema = match args.subject {
        Subject::Shaper => shaper::schema(),
        Subject::Scenario => scenario::schema(),
    };
    let mut out = std::io::stdout().lock();
    if args.text {
        write!(out, "{}", reference(&schema))?;
    } else {
        writeln!(out, "{schema:#}")?;
    }
    Ok(())
}
