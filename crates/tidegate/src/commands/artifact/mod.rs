//! `tidegate artifact`: packs a simulation with what it gave, so that others can repeat it and are told whether they did.

mod claims;
mod inputs;
mod own;
mod pack;
mod ran;
mod readme;
mod reproduce;
mod sums;
mod values;

use std::path::PathBuf;

use serde::{Deserialize, Serialize};
use tidegate_report::comparison::Comparison;
use tidegate_report::simulation::{Quantity, compared, unit};
use tidegate_report::{Drawing, Look, Report};

use self::claims::Claim;
use self::ran::Ran;
use super::compare::Named;
use super::figure::ChartArgs;
use crate::Failure;
use crate::output::look;
use tidegate_sim::scenario::sweep::Axis;

/// Pack simulations for artifact evaluation, or repeat packed ones
///
/// The folder DIR gets the scenario, the files that it reads, the expected digests, values and figures with tolerances, a
/// script `reproduce`, and a README in the form that artifact evaluation asks for. On another machine, `DIR/reproduce` (or
/// `tidegate artifact --reproduce DIR`) runs it again: exit code 0 if the results are reproduced, 1 if not, 2 if the artifact is
/// damaged or tidegate is missing.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// The folder to create, or with --reproduce the folder of an artifact
    #[arg(value_name = "DIR")]
    folder: PathBuf,
    /// The scenario file to pack; may be repeated. Each of several has a folder of its own in DIR, with the name of the file or with
    /// NAME. Of several, --vary, --by and --claim begin with the name of theirs, and --figure may: 'lte: link.1.rate=10mbit,20mbit'
    #[arg(long, value_name = "[NAME=]FILE", value_parser = Named::parse, required_unless_present = "reproduce")]
    scenario: Vec<Named>,
    /// The values of a key of the scenario, in turn, as for `tidegate sweep`: a sweep is packed. May be repeated: every combination is run
    #[arg(long, value_name = "[NAME: ]PATH[,PATH...]=VALUE,...", value_parser = vary)]
    vary: Vec<String>,
    /// Compare the values of this column of the sweep with each other, at each combination of the others, as `tidegate compare` does.
    /// May be repeated. Default: the variants of the scenario, if it has several, and otherwise all columns
    #[arg(long, value_name = "[NAME: ]COLUMN", requires = "vary")]
    by: Vec<String>,
    /// The number of runs with different seeds, instead of that in the file
    #[arg(long, value_name = "K", value_parser = clap::value_parser!(u32).range(1..=100_000))]
    runs: Option<u32>,
    /// A figure to pack, as that of `simulate`, with the name of its file instead of a file; of a sweep, also the options of `tidegate
    /// figure`: `--kind lines --x rate --y 'delay p99 of flow call' --by variant=delays`. May be repeated. Default: the comparison
    #[arg(long, value_name = "[NAME: ][TITLE[/CURVE]=|OPTIONS=]FIGURE", value_parser = figure, allow_hyphen_values = true)]
    figure: Vec<String>,
    /// How figures are drawn; see `tidegate help simulate`. May be repeated. Default: column
    #[arg(long, value_name = "PRESET,KEY=VALUE,...", value_parser = look)]
    look: Vec<String>,
    /// A claim of the paper as an order of two variants, such as `CoDel waits less=delay p99 of flow bulk: codel < fifo`, or with = as
    /// their equality within 2 %; of a sweep at one of its points, as `tidegate compare` names them, or at all:
    /// `delay p99 of flow bulk at rate=10mbit: codel < fifo`, `... of flow bulk at all points: codel < fifo`. Of two flows of one variant:
    /// `goodput of flows at variant=fifo: flow cubic < flow bbr`, as `tidegate compare --by subject` has it. It is checked when the artifact is packed and when it is repeated, corrected for the number of claims. May be repeated. Default: the
    /// orders that the comparison tells apart, of the quantities that --look chooses or the scenario names as primary
    #[arg(long, value_name = "[NAME: ][TEXT=]MEASURE of SUBJECT[ at POINT]: A < B", value_parser = claim)]
    claim: Vec<String>,
    /// By how many percent values may differ where the digest does, for one measure or for all; may be repeated. Default: 2
    #[arg(long, value_name = "[MEASURE=]PERCENT", value_parser = Tolerance::parse)]
    tolerance: Vec<Tolerance>,
    /// The title of the paper or of the artifact
    #[arg(long, value_name = "TEXT")]
    title: Option<String>,
    /// Repeat the simulation in DIR, and compare it with what is expected there
    #[arg(long, conflicts_with_all = ["scenario", "vary", "by", "runs", "figure", "look", "claim", "tolerance", "title"])]
    reproduce: bool,
    /// The number of runs in parallel. Default: the number of processors
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..=1024))]
    jobs: Option<u16>,
}

/// The text of an option without the name of the scenario that it is for, if it has the form of one.
fn unnamed(text: &str) -> &str {
    text.split_once(": ").filter(|(name, _)| is_plain(name)).map_or(text, |(_, rest)| rest)
}

/// Checks an option before it is known which scenarios there are; a text before `: ` may also belong to what follows.
fn checked<T>(text: &str, parse: impl Fn(&str) -> Result<T, String>) -> Result<String, String> {
    parse(unnamed(text)).or_else(|why| parse(text).map_err(|_| why)).map(|_| text.to_owned())
}

fn vary(text: &str) -> Result<String, String> {
    checked(text, Axis::of_text)
}

fn figure(text: &str) -> Result<String, String> {
    checked(text, FigureSpec::parse)
}

fn claim(text: &str) -> Result<String, String> {
    checked(text, Claim::parse)
}

/// A figure of an artifact.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct FigureSpec {
    /// The name of its files, without the ending.
    name: String,
    /// The title and the curve that select it; none for the comparison.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    plot: Option<(String, String)>,
    /// The options of `tidegate figure` that draw it of the table of a sweep, in place of these.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    chart: Option<String>,
}

impl FigureSpec {
    fn parse(text: &str) -> Result<Self, String> {
        let (plot, name) = text.rsplit_once('=').map_or((None, text), |(plot, name)| (Some(plot), name));
        let name = [".svg", ".pdf"].iter().find_map(|ending| name.strip_suffix(ending)).unwrap_or(name);
        if !is_plain(name) {
            return Err("the name of a figure has letters, digits, - and _ alone".into());
        }
        let split = |plot: &str| {
            let (title, curve) = plot.split_once('/').unwrap_or((plot, ""));
            (title.to_owned(), curve.to_owned())
        };
        let (chart, plot) = match plot {
            Some(text) if text.starts_with("--") => (Some(text.to_owned()), None),
            plot => (None, plot.map(split)),
        };
        chart.as_deref().map(Self::chart).transpose()?;
        Ok(Self { name: name.to_owned(), plot, chart })
    }

    /// Parses the options of `tidegate figure`. An artifact has no files but its own.
    fn chart(text: &str) -> Result<ChartArgs, String> {
        let chart = ChartArgs::parse(text)?;
        if chart.has_others() { Err("--beside reads a file that is not in the artifact".into()) } else { Ok(chart) }
    }

    fn drawing(&self, ran: &Ran, report: &Report, look: &Look) -> Result<Drawing, Failure> {
        let drawn = match (&self.chart, &self.plot) {
            (Some(text), _) => {
                let table = ran.table().ok_or_else(|| {
                    Failure::Usage(format!(
                        "--figure `{text}={}` is of the table of a sweep, which --vary makes; of several scenarios, begin it with its name",
                        self.name
                    ))
                })?;
                Self::chart(text).map_err(Failure::Usage)?.chart()?.drawing(&table, look)
            }
            (None, Some((title, curve))) => report.drawing(title, curve, look),
            (None, None) => report.first_figure(look),
        };
        drawn.map_err(|why| Failure::Usage(format!("--figure {}: {why}", self.name)))
    }
}

/// Whether a name is safe as that of a file on every system.
fn is_plain(name: &str) -> bool {
    let letters = name.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'-' || byte == b'_');
    letters && (1..=64).contains(&name.len())
}

/// By how many percent values of a measure may differ; of all measures if it has no name.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Tolerance {
    measure: String,
    percent: f64,
}

impl Tolerance {
    fn parse(text: &str) -> Result<Self, String> {
        let (measure, percent) = text.rsplit_once('=').unwrap_or(("", text));
        let percent: f64 =
            percent.trim_end_matches('%').trim().parse().map_err(|_| "a number of percent is expected")?;
        if !(0.0..=100.0).contains(&percent) {
            return Err("a tolerance is from 0 to 100 percent".into());
        }
        Ok(Self { measure: measure.to_owned(), percent })
    }
}

/// The tolerance where none is given, in percent.
const TOLERANCE: f64 = 2.0;
/// The table of a sweep, for `tidegate figure` and `tidegate compare`.
const TABLE: &str = "expected/results.parquet";
/// How far a point of a figure may be from its expected place, in percent of the figure's width.
const FIGURE_TOLERANCE: f64 = 1.0;

/// `artifact.json`: what was run, and what is expected.
#[derive(Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Manifest {
    /// The form of this file.
    artifact: u32,
    title: String,
    /// The version of Tidegate that made it.
    version: String,
    /// The SHA-256 of that program; empty if it could not be read.
    #[serde(default)]
    program: String,
    /// The name of the program if it has kinds of its own, which others do not have.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    needs: Option<String>,
    /// How long all runs took, in seconds, and on how many processors; zero if that is not known.
    #[serde(default)]
    seconds: f64,
    #[serde(default)]
    processors: usize,
    /// The scenario, relative to the folder `input`.
    scenario: String,
    /// The axes of a sweep, each as `--vary` has it.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    axes: Vec<String>,
    /// The columns of the sweep whose values are compared; none for the variants or, without several, all.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    by: Vec<String>,
    seed: u64,
    runs: u32,
    /// The digest of all runs, and that of each, which `simulate --seed N --runs 1 --hash` prints; of a sweep point by point.
    digest: String,
    digests: Vec<String>,
    look: String,
    figures: Vec<FigureSpec>,
    /// The claims of the authors, or the statements of the comparison.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    claims: Vec<Claim>,
    /// The quantities that the scenario names before its first run, which the table of the README and the usual figure show.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    primary: Vec<String>,
    tolerances: Vec<Tolerance>,
    figure_tolerance_percent: f64,
    values: Vec<Expected>,
}

/// A value that is expected.
#[derive(Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Expected {
    subject: String,
    /// The variant, which the subject begins with.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    variant: String,
    /// The point of a sweep at which variants are compared, which the subject ends with.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    point: String,
    measure: String,
    unit: String,
    /// Null for a percentile that was not reached.
    #[serde(deserialize_with = "or_infinity")]
    mean: f64,
    half_width_95: Option<f64>,
    /// In how many runs, and of how many, it was not reached, if some did not reach it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    not_reached: Option<[u32; 2]>,
}

/// JSON has no infinity.
fn or_infinity<'de, D: serde::Deserializer<'de>>(from: D) -> Result<f64, D::Error> {
    Ok(Option::<f64>::deserialize(from)?.unwrap_or(f64::INFINITY))
}

impl From<Quantity> for Expected {
    fn from(quantity: Quantity) -> Self {
        let open = quantity.not_reached().len() as u32;
        let not_reached = (open > 0).then(|| [open, quantity.values.iter().flatten().count() as u32]);
        let Quantity { subject, variant, point, measure, unit, mean, half_width_95, .. } = quantity;
        Self { subject, variant, point, measure, unit: unit.to_owned(), mean, half_width_95, not_reached }
    }
}

impl Manifest {
    /// The comparison of the variants by the expected values.
    fn comparison(&self) -> Comparison {
        let quantity = |value: &Expected| {
            let plain = value.subject.strip_prefix(&*value.variant).and_then(|rest| rest.strip_prefix(": "));
            let plain = plain.unwrap_or(&value.subject);
            let found = Quantity::of_one_run(&value.variant, plain, &value.measure, unit(&value.unit), value.mean);
            // Of the runs that have reached it nobody asks more than their number, which is at most that of the artifact.
            let values = value.not_reached.filter(|_| value.mean == f64::INFINITY).map(|[open, runs]| {
                let run = |n: u32| Some(if n < open { f64::INFINITY } else { 0.0 });
                (0..runs.min(self.runs)).map(run).collect()
            });
            let (half_width_95, point) = (value.half_width_95, value.point.clone());
            Quantity { half_width_95, point, values: values.unwrap_or(found.values.clone()), ..found }
        };
        compared("What was measured", &self.values.iter().map(quantity).collect::<Vec<_>>())
    }
    /// The stated part of it: the primary quantities, or all.
    fn stated(&self) -> Comparison {
        let all = self.comparison();
        Look::page().stated(&all, &self.primary).map_or(all, |(stated, _)| stated)
    }
    /// By how many percent a measure may differ. A tolerance for the measure precedes one for all.
    fn tolerance(&self, measure: &str) -> f64 {
        let named = |name: &str| self.tolerances.iter().rev().find(|tolerance| tolerance.measure == name);
        named(measure).or_else(|| named("")).map_or(TOLERANCE, |tolerance| tolerance.percent)
    }
}

/// Runs the command.
pub fn run(args: &Args) -> Result<(), Failure> {
    if args.scenario.is_empty() { reproduce::reproduce(&args.folder, args.jobs) } else { pack::pack(args) }
}
