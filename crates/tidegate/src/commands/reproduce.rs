//! `tidegate reproduce`: the experiments of the papers, the paper's value beside ours.

use std::io::Write;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use tidegate_papers::reproduce::item::from_json;
use tidegate_papers::reproduce::{EXPERIMENTS, Experiment, Gallery, Item, Options, WORK, output, verdicts};

use tidegate_report::Format;

use crate::Failure;
use crate::output::{Files, hanging, width};
use crate::progress;

/// Rerun the experiments of the papers and print the paper's values beside ours
#[derive(Debug, clap::Args)]
pub struct Args {
    /// The experiment; see --list
    #[arg(required_unless_present = "list")]
    name: Option<String>,
    /// Name the experiments and stop
    #[arg(long)]
    list: bool,
    /// Only the items whose id begins with this
    #[arg(long, value_name = "ID")]
    only: Option<String>,
    /// Only items with the same numbers on every machine: none that needs its clock or its kernel
    #[arg(long)]
    simulated: bool,
    /// Write the verdicts as CSV into this file
    #[arg(long, value_name = "FILE")]
    verdicts: Option<PathBuf>,
    /// Compare the verdicts with the recorded ones, name what differs, and succeed if nothing does
    #[arg(long)]
    recorded: bool,
    /// Runs with different seeds, where the experiment is random [default: as many as its results need]
    #[arg(long, value_name = "K", value_parser = clap::value_parser!(u32).range(1..=1000))]
    runs: Option<u32>,
    /// The first seed
    #[arg(long, value_name = "N", default_value_t = 1)]
    seed: u64,
    /// Take the items of this result, which --json printed, instead of measuring: for its plots, report and verdicts
    #[arg(long, value_name = "FILE", conflicts_with_all = ["runs", "seed", "page"])]
    from: Option<PathBuf>,
    /// Write plots into this folder, where the experiment has some, as --look draws them
    #[arg(long, value_name = "DIR")]
    plots: Option<PathBuf>,
    /// The format of the plots of --plots: svg, pdf, png or pgf
    #[arg(long, value_name = "FORMAT", default_value = "svg", value_parser = format)]
    format: Format,
    /// Write the table of measurements into this page of the book, where the experiment has one
    #[arg(long, value_name = "FILE")]
    page: Option<PathBuf>,
    #[command(flatten)]
    files: Files,
    /// Print the result as JSON
    #[arg(long)]
    json: bool,
}

/// Runs the subcommand.
pub fn run(args: &Args) -> Result<(), Failure> {
    let mut out = std::io::stdout();
    if args.list {
        for experiment in EXPERIMENTS {
            let line = format!("{:11} {}", experiment.name, experiment.sentence);
            writeln!(out, "{}", hanging(&line, width(), 12))?;
        }
        return Ok(());
    }
    let name = args.name.as_deref().unwrap_or_default();
    let Some(experiment) = Experiment::find(name) else {
        let known: Vec<_> = EXPERIMENTS.iter().map(|experiment| experiment.name).collect();
        return Err(Failure::Usage(format!("no experiment is called `{name}`; there are: {}", known.join(", "))));
    };
    args.files.try_them([])?;
    let plots = Gallery::new(args.plots.clone(), args.files.wanted());
    let plots = Arc::new(plots.with_look(args.files.look()?, args.format));
    let without = if args.simulated { experiment.on_this_machine } else { &[] };
    let options = Options {
        only: args.only.clone(),
        without,
        runs: args.runs.unwrap_or(experiment.runs),
        seed: args.seed,
        plots,
        page: args.page.clone(),
    };
    let items = match &args.from {
        None => progress::during(simulations, || experiment.run(&options))?,
        Some(file) => read(file, experiment, &options)?,
    };
    if items.is_empty() {
        let only = args.only.as_deref().unwrap_or_default();
        return Err(Failure::Usage(format!("no item of `{name}` has an id that begins with `{only}`")));
    }
    args.files.write(|| output::page(experiment, &options, &items), || output::tidy(experiment, args.seed, &items))?;
    if let Some(file) = &args.verdicts {
        let written = std::fs::write(file, verdicts::csv(&items));
        written.map_err(|error| Failure::Failed(format!("cannot write {}: {error}", file.display())))?;
    }
    if args.json {
        output::json(&mut out, experiment, args.seed, &items)?;
    } else {
        output::print(&mut out, experiment.sentence, &items, width())?;
    }
    if !args.recorded {
        return if output::nothing_contradicted(&items) { Ok(()) } else { Err(Failure::Negative) };
    }
    let differences = experiment.differences(&items, &options).map_err(Failure::Failed)?;
    if differences.is_empty() { Ok(()) } else { Err(Failure::Failed(differences.join("\n"))) }
}

/// The format with this name.
fn format(name: &str) -> Result<Format, String> {
    Format::of(Path::new(&format!("plot.{name}"))).map_err(|_| "the formats are svg, pdf, png and pgf".to_owned())
}

/// How many simulations have ended of those wanted so far; live measurements take their time in seconds.
fn simulations() -> (u64, u64, String) {
    let (ended, wanted) = WORK.progress();
    let text = match wanted {
        0 => "measuring".to_owned(),
        _ if ended == wanted => format!("{ended} simulations, and what follows them"),
        _ => format!("{ended} of {wanted} simulations"),
    };
    // The following items are not known before.
    (if ended == wanted { 0 } else { ended as u64 }, wanted as u64, text)
}

/// The items of a result that was written as JSON, and its figures.
fn read(file: &Path, experiment: &Experiment, options: &Options) -> Result<Vec<Item>, Failure> {
    let failed = |what: &str| Failure::Failed(format!("{}: {what}", file.display()));
    let text = std::fs::read_to_string(file).map_err(|error| failed(&error.to_string()))?;
    let mut items = from_json(&text, experiment.name).map_err(|error| failed(&error))?;
    items.retain(|item| options.wants(&item.id));
    experiment.draw(options, &items)?;
    Ok(items)
}
