//! `tidegate schema`: the JSON Schema of configuration files, for editors and other programs.

use std::io::Write;

use clap::ValueEnum;
use tidegate_config::schema::reference;
use tidegate_config::shaper;
#[cfg(feature = "lab")]
use tidegate_sim::scenario;

use crate::Failure;

/// Print the JSON Schema of a configuration file, or a reference of its keys
#[derive(Debug, clap::Args)]
pub struct Args {
    /// The kind of file
    #[arg(value_enum, default_value_t = Subject::Shaper)]
    subject: Subject,
    /// Print every key with its meaning, its default and the reason, as text
    #[arg(long)]
    text: bool,
}

/// The files that have a schema.
#[derive(Debug, Clone, Copy, ValueEnum)]
enum Subject {
    /// The file of `tidegate run` and `tidegate check`
    Shaper,
    /// The file of `tidegate simulate`
    #[cfg(feature = "lab")]
    Scenario,
}

/// Makes the transports known that scenarios may name beside those of the simulator.
#[cfg(feature = "lab")]
pub(crate) fn register_transports() {
    tidegate_quic::register(std::time::Instant::now());
}

/// The schema of scenario files, with everything that this command adds to them.
#[cfg(feature = "lab")]
pub(super) fn of_scenarios() -> serde_json::Value {
    register_transports();
    scenario::schema()
}

/// Runs the command.
pub fn run(args: &Args) -> Result<(), Failure> {
    let schema = match args.subject {
        Subject::Shaper => shaper::schema(),
        #[cfg(feature = "lab")]
        Subject::Scenario => of_scenarios(),
    };
    let mut out = crate::output::stdout();
    if args.text {
        write!(out, "{}", reference(&schema))?;
    } else {
        writeln!(out, "{schema:#}")?;
    }
    Ok(())
}
