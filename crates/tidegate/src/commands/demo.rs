//! `tidegate demo`: real traffic, shaped, with no set-up and no change to the host.

use std::io::{IsTerminal, Write};
use std::path::PathBuf;

use tidegate_config::decode::printable;
use tidegate_papers::demo::{self, Show};

use super::check;
use crate::Failure;
use crate::output::width;

/// Shape real traffic between two throwaway namespaces and show it, changing nothing on this machine
///
/// The same ten flows are sent twice over a wire of 100 Mbit/s: first unshaped, then through the end-system shaper with
/// a Premium class of 10, an Assured class of 30 and a Best Effort class of 40 Mbit/s. On the way one flow is preferred,
/// another asks for a minimum rate, and one is moved to another class because its share fell below its threshold. It ends with
/// a verdict in plain words. The demonstration works as root, and without root where the kernel allows unprivileged user namespaces. The key q ends it.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// How long to run, in seconds, both parts together
    #[arg(long, value_name = "N", default_value_t = 30, value_parser = clap::value_parser!(u64).range(4..=3600))]
    seconds: u64,
    /// Print the final table as JSON
    #[arg(long)]
    json: bool,
    /// Print the shaper file that the demonstration uses, and stop
    #[arg(long)]
    print_config: bool,
    /// Shape four transfers and a call by this file instead; several are run one after the other and compared
    #[arg(long, value_name = "FILE")]
    with: Vec<PathBuf>,
    /// Plain lines on standard error instead of a live view, as when there is no terminal
    #[arg(long)]
    plain: bool,
}

/// Runs the command. Must be called before the process has threads.
pub fn run(args: &Args) -> Result<(), Failure> {
    if args.print_config {
        std::io::stdout().write_all(demo::SHAPER.as_bytes())?;
        return Ok(());
    }
    if !args.with.is_empty() {
        // All files are read before anything is built.
        let file = |path: &PathBuf| {
            let name =
                path.file_name().map_or_else(|| path.display().to_string(), |name| name.to_string_lossy().into());
            Ok((printable(&name).into_owned(), check::load(path)?))
        };
        let files: Vec<_> = args.with.iter().map(file).collect::<Result<_, Failure>>()?;
        return Ok(demo::compare(&files, args.seconds, args.json, width())?);
    }
    let show = match (args.json, !args.plain && std::io::stdout().is_terminal()) {
        (true, _) => Show::Json,
        (false, true) => Show::Screen,
        (false, false) => Show::Lines,
    };
    Ok(demo::run(args.seconds, show, width())?)
}
