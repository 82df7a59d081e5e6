//! `tidegate reproduce`: the experiments of the papers, the paper's value beside ours.

mod cbq;
mod fbq;
mod mice;
mod pacing;
mod rfc2963;

use std::io::Write;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError};

use serde::Serialize;
use tidegate_report::columns::{self, Column};
use tidegate_report::{Axis, Cell, Curve, Mood, Plot, Report as Page, Section, Source, Style};

use crate::Failure;
use crate::output::{self, Files};

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
    plots: Option<PathBuf>,
    #[command(flatten)]
    files: Files,
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
    pub plots: Arc<Gallery>,
}

/// Where the plots of an experiment go.
#[derive(Debug, Default)]
pub struct Gallery {
    folder: Option<PathBuf>,
    /// Those of a report, if there is to be one.
    kept: Option<Mutex<Vec<Plot>>>,
}

impl Gallery {
    /// Whether anybody wants plots.
    pub fn wanted(&self) -> bool {
        self.folder.is_some() || self.kept.is_some()
    }
    /// Writes `plot` as `name`.svg where plots were asked for, and keeps it for the report.
    ///
    /// # Errors
    /// What the file system has against it.
    pub fn add(&self, name: &str, plot: Plot) -> Result<(), Failure> {
        if let Some(folder) = &self.folder {
            let made = std::fs::create_dir_all(folder);
            made.map_err(|error| Failure::Failed(format!("cannot make {}: {error}", folder.display())))?;
            output::write(&folder.join(format!("{name}.svg")), plot.svg().as_bytes())?;
        }
        if let Some(kept) = &self.kept {
            kept.lock().unwrap_or_else(PoisonError::into_inner).push(plot);
        }
        Ok(())
    }
    fn kept(&self) -> Vec<Plot> {
        self.kept.as_ref().map_or(Vec::new(), |kept| kept.lock().unwrap_or_else(PoisonError::into_inner).clone())
    }
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
    /// Its page: what is expected, what was found, where the bounds come from.
    page: &'static str,
    run: fn(&Options) -> Result<Vec<Item>, Failure>,
}

/// Every experiment there is, one line each.
const EXPERIMENTS: &[Experiment] = &[
    Experiment {
        name: "fbq",
        page: include_str!("../../../../../experiments/fbq/README.md"),
        sentence: fbq::SENTENCE,
        run: fbq::run,
    },
    Experiment {
        name: "cbq",
        page: include_str!("../../../../../experiments/cbq/README.md"),
        sentence: "A CBQ router: each defect of 1999 and its cure, and link sharing as of 1995",
        run: cbq::run,
    },
    Experiment {
        name: "mice",
        page: include_str!("../../../../../experiments/mice/README.md"),
        sentence: "Short transfers among long ones: Mice and Elephants beside its peers",
        run: mice::run,
    },
    Experiment {
        name: "pacing",
        page: include_str!("../../../../../experiments/pacing/README.md"),
        sentence: "Pacing a sender on a sleep of 10 ms: DT0 loses to it, DT1, DT2 and AT0 do not (SMLI TR-99-77)",
        run: pacing::run,
    },
    Experiment {
        name: "rfc2963",
        page: include_str!("../../../../../experiments/rfc2963/README.md"),
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
    args.files.try_them([])?;
    let kept = args.files.report.as_ref().map(|_| Mutex::default());
    let plots = Arc::new(Gallery { folder: args.plots.clone(), kept });
    let options = Options { only: args.only.clone(), runs: args.runs, seed: args.seed, plots };
    let mut items = (experiment.run)(&options)?;
    items.retain(|item| options.wants(&item.id));
    if items.is_empty() {
        let only = args.only.as_deref().unwrap_or_default();
        return Err(Failure::Usage(format!("no item of `{name}` has an id that begins with `{only}`")));
    }
    let holds = items.iter().all(|item| item.holds != Some(false));
    args.files.write(|| page(experiment, &options, &items), || tidy(experiment, args.seed, &items))?;
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

/// What stands between the bounds, as words.
fn bounds(item: &Item) -> String {
    match (item.low, item.high) {
        (None, None) => String::new(),
        (low, high) => format!("{} .. {}", number(low), number(high)),
    }
}

fn number(value: Option<f64>) -> String {
    value.map_or(String::new(), |value| format!("{value:.4}"))
}

/// How far ours is from the paper's, in percent.
fn deviation(item: &Item) -> String {
    match (item.paper, item.measured) {
        (Some(paper), Some(measured)) if paper != 0.0 => format!("{:+.1} %", (measured / paper - 1.0) * 100.0),
        _ => String::new(),
    }
}

fn holds(item: &Item) -> &'static str {
    match item.holds {
        Some(true) => "yes",
        Some(false) => "NO",
        None => "not here",
    }
}

/// The report of an experiment.
fn page(experiment: &Experiment, options: &Options, items: &[Item]) -> Page {
    let count = |holds| items.iter().filter(|item| item.holds == holds).count();
    let verdict = format!("{} hold, {} do not, {} not here", count(Some(true)), count(Some(false)), count(None));
    let facts = [
        ("version", env!("CARGO_PKG_VERSION").to_owned()),
        ("experiment", experiment.name.to_owned()),
        ("only", options.only.clone().unwrap_or_else(|| "all".to_owned())),
        ("seed", options.seed.to_string()),
        ("runs", options.runs.to_string()),
        ("items", verdict),
        ("digest", digest(items)),
    ];
    let heads = ["item", "what", "unit", ">paper", ">measured", ">deviation", ">bounds", "holds", "note"];
    let mut table = tidegate_report::Table::new("The paper's values beside ours", heads);
    for item in items {
        let mood = match item.holds {
            Some(true) => Mood::Good,
            Some(false) => Mood::Bad,
            None => Mood::Unsure,
        };
        table.row([
            item.id.as_str().into(),
            item.what.as_str().into(),
            item.unit.as_str().into(),
            number(item.paper).into(),
            number(item.measured).into(),
            deviation(item).into(),
            bounds(item).into(),
            Cell { text: holds(item).to_owned(), mood },
            item.note.as_str().into(),
        ]);
    }
    let mut sections = vec![Section::new("Items").with(table)];
    let beside: Vec<(f64, f64)> = items
        .iter()
        .enumerate()
        .filter_map(|(n, item)| match (item.paper, item.measured) {
            (Some(paper), Some(measured)) if paper != 0.0 => Some(((n + 1) as f64, measured / paper)),
            _ => None,
        })
        .collect();
    if beside.len() > 2 {
        let plot = Plot {
            title: "Ours by the paper's: 1 is equal".to_owned(),
            x: Axis::new("item, by its place in the table", ""),
            y: Axis::new("measured / paper", "1"),
            style: Style::Marks,
            curves: vec![Curve::new("measured / paper", beside)],
        };
        sections.push(Section::new("Beside the paper").with(plot));
    }
    let plots = options.plots.kept();
    if !plots.is_empty() {
        let mut section = Section::new("Plots");
        section.parts = plots.into_iter().map(Into::into).collect();
        sections.push(section);
    }
    let mut command = format!("tidegate reproduce {}", experiment.name);
    if let Some(only) = &options.only {
        command += &format!(" --only {only}");
    }
    command += &format!(" --seed {} --runs {}", options.seed, options.runs);
    Page {
        title: experiment.sentence.to_owned(),
        sentence: Some(format!("Experiment {}: what the paper found, and what this run found", experiment.name)),
        facts: facts.into_iter().map(|(name, value)| (name.to_owned(), value)).collect(),
        sections,
        sources: vec![
            Source { name: "to run it again".to_owned(), text: command },
            Source { name: format!("experiments/{}/README.md", experiment.name), text: experiment.page.to_owned() },
        ],
    }
}

/// A digest of what was measured.
fn digest(items: &[Item]) -> String {
    let mut digest = tidegate_sim::scenario::Digest::default();
    for item in items {
        digest.bytes(item.id.as_bytes());
        digest.number(item.measured.unwrap_or(f64::NAN).to_bits());
    }
    digest.to_string()
}

/// The items as columns for notebooks.
fn tidy(experiment: &Experiment, seed: u64, items: &[Item]) -> columns::Table {
    fn text(items: &[Item], of: impl Fn(&Item) -> &str) -> Column {
        Column::Text(items.iter().map(|item| Some(of(item).to_owned())).collect())
    }
    let number = |of: fn(&Item) -> Option<f64>| Column::Number(items.iter().map(of).collect());
    columns::Table::default()
        .with("experiment", text(items, |_| experiment.name))
        .with("seed", Column::Integer(vec![Some(seed); items.len()]))
        .with("id", text(items, |item| &item.id))
        .with("what", text(items, |item| &item.what))
        .with("unit", text(items, |item| &item.unit))
        .with("paper", number(|item| item.paper))
        .with("measured", number(|item| item.measured))
        .with("low", number(|item| item.low))
        .with("high", number(|item| item.high))
        .with("holds", Column::Truth(items.iter().map(|item| item.holds).collect()))
        .with("note", text(items, |item| &item.note))
}

fn table(out: &mut impl Write, sentence: &str, items: &[Item]) -> Result<(), Failure> {
    let mut table = comfy_table::Table::new();
    table.load_style(comfy_table::presets::UTF8_HORIZONTAL_ONLY);
    table.set_header(["item", "what", "unit", "paper", "measured", "deviation", "bounds", "holds", "note"]);
    for item in items {
        table.add_row([
            item.id.clone(),
            item.what.clone(),
            item.unit.clone(),
            number(item.paper),
            number(item.measured),
            deviation(item),
            bounds(item),
            holds(item).into(),
            item.note.clone(),
        ]);
    }
    writeln!(out, "{sentence}\n{table}")?;
    let count = |holds| items.iter().filter(|item| item.holds == holds).count();
    writeln!(out, "{} hold, {} do not, {} not here", count(Some(true)), count(Some(false)), count(None))?;
    Ok(())
}
