//! `tidegate reproduce`: the experiments of the papers, the paper's value beside ours.

mod cbq;
mod fbq;
mod mice;
mod pacing;
mod plot;
mod rfc2963;

use std::io::Write;

use serde::Serialize;

use crate::Failure;

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
    /// Runs with different seeds, where the experiment is random
    #[arg(long, value_name = "K", default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..=1000))]
    runs: u32,
    /// The first seed
    #[arg(long, value_name = "N", default_value_t = 1)]
    seed: u64,
    /// Write plots as SVG into this folder, where the experiment has some
    #[arg(long, value_name = "DIR")]
    plots: Option<std::path::PathBuf>,
    /// Print the result as JSON
    #[arg(long)]
    json: bool,
}

/// How an experiment is to be run.
#[derive(Debug, Clone)]
pub struct Options {
    /// Only items whose id begins with this.
    pub only: Option<String>,
    /// Runs with seeds `seed .. seed + runs`.
    pub runs: u32,
    /// The first seed.
    pub seed: u64,
    /// Where plots go, if they are wanted.
    pub plots: Option<std::path::PathBuf>,
}

impl Options {
    /// Whether the item (or, for a prefix of ids, any item of the group) is wanted.
    pub fn wants(&self, id: &str) -> bool {
        self.only.as_deref().is_none_or(|only| id.starts_with(only) || only.starts_with(id))
    }
}

/// One cell, figure reading or claim of a paper.
#[derive(Debug, Clone, Serialize)]
pub struct Item {
    /// Unique within the experiment, groups first: `a2.c1.green`.
    pub id: String,
    /// What is measured, in words.
    pub what: String,
    /// Its unit.
    pub unit: String,
    /// The paper's value, where it gives a number.
    pub paper: Option<f64>,
    /// Ours; null when it could not be measured here.
    pub measured: Option<f64>,
    /// The least that `measured` may be; the experiment's page has the reason for the bound.
    pub low: Option<f64>,
    /// The most that `measured` may be.
    pub high: Option<f64>,
    /// Whether it is within the bounds; null when it could not be measured here.
    pub holds: Option<bool>,
    /// What there is to say: why it deviates, what the machine lacks.
    pub note: String,
}

impl Item {
    /// A measured item; `holds` follows from the bounds.
    pub fn measured(id: impl Into<String>, what: impl Into<String>, unit: impl Into<String>, measured: f64) -> Self {
        Self {
            id: id.into(),
            what: what.into(),
            unit: unit.into(),
            paper: None,
            measured: Some(measured),
            low: None,
            high: None,
            holds: Some(true),
            note: String::new(),
        }
    }
    /// A claim that is true or false: measured 1 or 0, and it must be 1.
    pub fn claim(id: impl Into<String>, what: impl Into<String>, holds: bool) -> Self {
        Self::measured(id, what, "true=1", f64::from(u8::from(holds))).within(1.0, 1.0)
    }
    /// What this machine cannot measure, and why: never a silent pass.
    pub fn unmeasured(id: impl Into<String>, what: impl Into<String>, why: impl Into<String>) -> Self {
        Self { measured: None, holds: None, note: why.into(), ..Self::measured(id, what, "", 0.0) }
    }
    /// With the paper's value.
    #[must_use]
    pub fn paper(mut self, value: f64) -> Self {
        self.paper = Some(value);
        self
    }
    /// With bounds on `measured`.
    #[must_use]
    pub fn within(mut self, low: f64, high: f64) -> Self {
        self.low = Some(low);
        self.high = Some(high);
        self.holds = self.measured.map(|value| value >= low && value <= high);
        self
    }
    /// With a note.
    #[must_use]
    pub fn note(mut self, note: impl Into<String>) -> Self {
        self.note = note.into();
        self
    }
}

/// An experiment: its name, the sentence that captions it, and how to run it.
struct Experiment {
    name: &'static str,
    sentence: &'static str,
    run: fn(&Options) -> Result<Vec<Item>, Failure>,
}

/// Every experiment there is, one line each.
const EXPERIMENTS: &[Experiment] = &[
    Experiment { name: "fbq", sentence: fbq::SENTENCE, run: fbq::run },
    Experiment {
        name: "cbq",
        sentence: "A CBQ router: each defect of 1999 and its cure, and link sharing as of 1995",
        run: cbq::run,
    },
    Experiment {
        name: "mice",
        sentence: "Short transfers among long ones: Mice and Elephants beside its peers",
        run: mice::run,
    },
    Experiment {
        name: "pacing",
        sentence: "Pacing a sender on a sleep of 10 ms: DT0 loses to it, DT1, DT2 and AT0 do not (SMLI TR-99-77)",
        run: pacing::run,
    },
    Experiment {
        name: "rfc2963",
        sentence: "A rate adaptive shaper before a three colour marker, at ten customers of a 70 Mbit/s backbone",
        run: rfc2963::run,
    },
];

#[derive(Serialize)]
struct Report<'a> {
    experiment: &'a str,
    version: &'a str,
    seed: u64,
    holds: bool,
    items: &'a [Item],
}

/// Runs the subcommand.
pub fn run(args: &Args) -> Result<(), Failure> {
    let mut out = std::io::stdout().lock();
    if args.list {
        for experiment in EXPERIMENTS {
            writeln!(out, "{:10} {}", experiment.name, experiment.sentence)?;
        }
        return Ok(());
    }
    let name = args.name.as_deref().unwrap_or_default();
    let Some(experiment) = EXPERIMENTS.iter().find(|experiment| experiment.name == name) else {
        let known: Vec<_> = EXPERIMENTS.iter().map(|experiment| experiment.name).collect();
        return Err(Failure::Usage(format!("no experiment is called `{name}`; there are: {}", known.join(", "))));
    };
    let options = Options { only: args.only.clone(), runs: args.runs, seed: args.seed, plots: args.plots.clone() };
    let mut items = (experiment.run)(&options)?;
    items.retain(|item| options.wants(&item.id));
    if items.is_empty() {
        let only = args.only.as_deref().unwrap_or_default();
        return Err(Failure::Usage(format!("no item of `{name}` has an id that begins with `{only}`")));
    }
    let holds = items.iter().all(|item| item.holds != Some(false));
    if args.json {
        let report =
            Report { experiment: name, version: env!("CARGO_PKG_VERSION"), seed: args.seed, holds, items: &items };
        serde_json::to_writer_pretty(&mut out, &report).map_err(std::io::Error::from)?;
        writeln!(out)?;
    } else {
        table(&mut out, experiment.sentence, &items)?;
    }
    if holds { Ok(()) } else { Err(Failure::Negative) }
}

fn table(out: &mut impl Write, sentence: &str, items: &[Item]) -> Result<(), Failure> {
    let number = |value: Option<f64>| value.map_or(String::new(), |value| format!("{value:.4}"));
    let mut table = comfy_table::Table::new();
    table.load_style(comfy_table::presets::UTF8_HORIZONTAL_ONLY);
    table.set_header(["item", "what", "unit", "paper", "measured", "deviation", "bounds", "holds", "note"]);
    for item in items {
        let deviation = match (item.paper, item.measured) {
            (Some(paper), Some(measured)) if paper != 0.0 => format!("{:+.1} %", (measured / paper - 1.0) * 100.0),
            _ => String::new(),
        };
        let bounds = match (item.low, item.high) {
            (None, None) => String::new(),
            (low, high) => format!("{} .. {}", number(low), number(high)),
        };
        let holds = match item.holds {
            Some(true) => "yes",
            Some(false) => "NO",
            None => "not here",
        };
        table.add_row([
            item.id.clone(),
            item.what.clone(),
            item.unit.clone(),
            number(item.paper),
            number(item.measured),
            deviation,
            bounds,
            holds.into(),
            item.note.clone(),
        ]);
    }
    writeln!(out, "{sentence}\n{table}")?;
    let count = |holds| items.iter().filter(|item| item.holds == holds).count();
    writeln!(out, "{} hold, {} do not, {} not here", count(Some(true)), count(Some(false)), count(None))?;
    Ok(())
}
