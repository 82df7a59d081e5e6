//! `tidegate simulate`: runs a scenario file with several seeds.

pub(super) mod cache;
mod qlog;
pub(super) mod runs;
mod shapers;
mod traced;
pub(super) mod values;
mod written;

use std::io::{IsTerminal, Write};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use serde::Serialize;
use tidegate_display::wrapped;
use tidegate_metrics::{BATCHES, Digest};
use tidegate_report::Source as Text;
use tidegate_report::comparison::Comparison;
use tidegate_report::judgement::Contrast;
use tidegate_report::simulation::{self, Quantity, Simulation, cautions};
use tidegate_report::steady::{Quantile, SteadyValue};
use tidegate_sim::parallel::Division;
use tidegate_sim::scenario::{Detail, Outcome, Scenario};

use super::answer::Answer;
use super::check::open;
use super::scenario::{self, Loaded};
use crate::Failure;
use crate::output::{Files, Paper, width};
use cache::Cache;

/// Run a scenario in the simulator
#[derive(Debug, clap::Args)]
pub struct Args {
    /// The scenario file; - for standard input. `tidegate schema scenario --text` has its keys, `tidegate book scenarios`
    /// examples
    #[arg(required_unless_present = "clear_cache")]
    file: Option<PathBuf>,
    /// The first seed, instead of that in the file
    #[arg(long, value_name = "N")]
    seed: Option<u64>,
    /// The number of runs, with seeds N, N + 1, ..., instead of that in the file, in which `until = "goodput +- 2 %"` makes runs until
    /// an interval is so narrow
    #[arg(long, value_name = "K", value_parser = clap::value_parser!(u32).range(1..=100_000))]
    runs: Option<u32>,
    /// Run the first seed once more and keep what happened, in trace.pcapng (every event of a packet, with comments) and
    /// trace.parquet and trace.csv (also windows, round-trip times, queues) in the folder of --out, by default the working
    /// directory: all, or that of variant=NAME, flow=NAME, link=FROM->TO, from=TIME, to=TIME, with commas between
    #[arg(long, value_name = "KEY=VALUE,...")]
    trace: Option<String>,
    /// Run the first seed once more and write a qlog file (.sqlog) for each end of each connection into this folder, for viewers
    /// of QUIC such as qvis; --trace chooses variants, flows and times. TCP is written as if its segments were QUIC's packets
    #[arg(long, value_name = "DIR")]
    qlog: Option<PathBuf>,
    /// Write results.json, summary.csv, runs.csv, the differences of variants (differences.csv), the transfers of each run
    /// (transfers.csv and transfers.parquet), its pages (pages.csv and pages.parquet) and its curves to this folder, in the place of
    /// those of an earlier simulation
    #[arg(long, value_name = "DIR")]
    out: Option<PathBuf>,
    #[command(flatten)]
    files: Files,
    #[command(flatten)]
    paper: Paper,
    /// Print the results as JSON
    #[arg(long)]
    json: bool,
    /// Print every measure and every percentile, not only those that the answer is about, and the differences of all pairs of
    /// variants with p
    #[arg(long)]
    all: bool,
    /// Print only a digest of the results: the same file and seed have the same digest on every machine
    #[arg(long, conflicts_with_all = ["json", "latex", "markdown"])]
    hash: bool,
    /// Keep the results of each run in this folder, and use those that it has: a simulation that was stopped resumes.
    /// Results of another scenario, seed, variant or build of the program are not taken. Default:
    /// tidegate/simulate in $XDG_CACHE_HOME or ~/.cache, for runs that take a second or longer
    #[arg(long, value_name = "DIR")]
    cache: Option<PathBuf>,
    /// Make every run, and keep no results
    #[arg(long, conflicts_with_all = ["cache", "clear_cache"])]
    no_cache: bool,
    /// Remove the results kept in the default folder or that of --cache, and do nothing else
    #[arg(long, conflicts_with = "file")]
    clear_cache: bool,
    /// The number of runs in parallel, variants included. Default: the number of processors
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..=1024))]
    jobs: Option<u16>,
    /// The number of threads among which each run is divided; the results are the same. Default 1: on a machine with other work
    /// more are slower. `tidegate book lines` says what can be divided
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..=64))]
    threads: Option<u16>,
}

/// A value over all runs.
#[derive(Clone, Serialize)]
pub(super) struct Item {
    /// With the name of the variant before it, where there are variants.
    subject: String,
    #[serde(skip_serializing_if = "String::is_empty")]
    variant: String,
    /// The point of a sweep, if variants are compared at each.
    #[serde(skip_serializing_if = "String::is_empty")]
    point: String,
    pub(super) measure: String,
    unit: &'static str,
    /// Null if a run did not reach it.
    mean: f64,
    /// Half the width of the 95 % confidence interval; null with one run, or if all runs differ in nothing.
    half_width_95: Option<f64>,
    values: Vec<Option<f64>>,
    /// The seeds of the runs that did not reach a percentile, whose value is null.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    not_reached: Vec<u64>,
}

impl From<Quantity> for Item {
    fn from(quantity: Quantity) -> Self {
        let not_reached = quantity.not_reached();
        let Quantity { subject, variant, point, measure, unit, mean, half_width_95, values, .. } = quantity;
        Self { subject, variant, point, measure, unit, mean, half_width_95, values, not_reached }
    }
}

/// The mean of a quantity over the time of a single run.
#[derive(Serialize)]
struct SteadyItem {
    subject: String,
    #[serde(skip_serializing_if = "String::is_empty")]
    variant: String,
    measure: &'static str,
    unit: &'static str,
    mean: f64,
    /// By batch means.
    half_width_95: f64,
    batches: usize,
    /// The correlation of neighbouring batches.
    correlation: f64,
    /// Whether the batches count as independent.
    long_enough: bool,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    quantiles: Vec<QuantileItem>,
}

/// A quantile over the packets of a single run.
#[derive(Serialize)]
struct QuantileItem {
    share: f64,
    value: f64,
    low_95: f64,
    high_95: f64,
}

impl From<Quantile> for QuantileItem {
    fn from(Quantile { share, value, interval: (low_95, high_95), .. }: Quantile) -> Self {
        Self { share, value, low_95, high_95 }
    }
}

impl SteadyItem {
    fn of(value: SteadyValue) -> Option<Self> {
        let SteadyValue { subject, variant, measure, unit, found, quantiles } = value;
        let found = found?;
        let (half_width_95, correlation, long_enough) = (found.half_width, found.correlation, found.is_long_enough());
        Some(Self {
            subject,
            variant,
            measure,
            unit,
            mean: found.mean,
            half_width_95,
            batches: BATCHES,
            correlation,
            long_enough,
            quantiles: quantiles.into_iter().map(QuantileItem::from).collect(),
        })
    }
}

/// The difference of two variants in a measure, the first minus the second.
#[derive(Serialize)]
pub(super) struct Difference {
    subject: String,
    measure: String,
    unit: String,
    variants: [String; 2],
    /// The means of both; null for one that did not reach the measure in all runs.
    means: [f64; 2],
    /// With what the runs count that did not reach the measure; null if all reached it.
    counted_as: Option<f64>,
    mean: f64,
    half_width_95: f64,
    /// By the bootstrap over pairs; null without pairs.
    bootstrap_95: Option<[f64; 2]>,
    /// How many times as much the first has, by the geometric mean; null where the difference itself is tested.
    ratio: Option<f64>,
    ratio_95: Option<[f64; 2]>,
    /// `none` if the seeds do not change the difference. It has no p then.
    test: &'static str,
    pairs: usize,
    p: Option<f64>,
    /// Corrected for `comparisons`, all that are stated together.
    p_holm: Option<f64>,
    comparisons: Option<usize>,
    decided: Option<bool>,
    /// How many more runs would decide it or show that it is at most 2 %; null if either is decided, or it cannot be said.
    more_runs: Option<u64>,
    /// Corrected for `comparisons_measure`, the pairs of variants in this measure alone.
    p_holm_measure: Option<f64>,
    comparisons_measure: Option<usize>,
    /// The probability of samples this equal if the means differ by 2 % (TOST), corrected for `comparisons`.
    p_equal_holm: Option<f64>,
    /// Whether the variants are equal within 2 %.
    equal_within_2: Option<bool>,
}

impl From<Contrast> for Difference {
    fn from(found: Contrast) -> Self {
        Self {
            means: found.means,
            counted_as: found.limit,
            half_width_95: found.difference.half_width(),
            bootstrap_95: found.bootstrap.map(|(low, high)| [low, high]),
            ratio: found.difference.ratio().map(|[ratio, ..]| ratio),
            ratio_95: found.difference.ratio().map(|[_, low, high]| [low, high]),
            test: found.test(),
            pairs: found.difference.runs,
            mean: found.difference.mean,
            p: found.difference.p,
            decided: found.is_decided(),
            more_runs: found.more_runs(),
            p_equal_holm: found.stated_equality.map(|stated| stated.p),
            equal_within_2: found.is_equal(),
            subject: found.subject,
            measure: found.measure,
            unit: found.unit,
            variants: found.variants,
            p_holm: found.stated.map(|stated| stated.p),
            comparisons: found.stated.map(|stated| stated.comparisons),
            p_holm_measure: found.alone.map(|alone| alone.p),
            comparisons_measure: found.alone.map(|alone| alone.comparisons),
        }
    }
}

/// The differences of a comparison for JSON.
pub(super) fn differences(comparison: &Comparison) -> Vec<Difference> {
    comparison.contrasts().into_iter().map(Difference::from).collect()
}

#[derive(Serialize)]
struct Run<'a> {
    seed: u64,
    events: u64,
    digest: String,
    /// Changes of shapers, and their reports.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    shapers: Vec<shapers::Entry<'a>>,
}

#[derive(Serialize)]
struct Report<'a> {
    scenario: &'a str,
    sentence: Option<&'a str>,
    version: &'static str,
    duration_ns: u64,
    warm_up_ns: u64,
    digest: String,
    /// The quantities that the scenario names before its first run.
    #[serde(skip_serializing_if = "<[String]>::is_empty")]
    primary: &'a [String],
    runs: Vec<Run<'a>>,
    /// How the number of runs and the warm-up were chosen, where a rule has chosen them.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    notes: Vec<String>,
    /// The transfers and pages that were not completed, and what this means.
    #[serde(skip_serializing_if = "Option::is_none")]
    unfinished: Option<String>,
    /// Why `half_width_95` is null everywhere although there are several runs: they differ in nothing.
    #[serde(skip_serializing_if = "Option::is_none")]
    no_interval: Option<String>,
    items: Vec<Item>,
    /// The steady state of a single run.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    steady: Vec<SteadyItem>,
    /// Differences between variants with several runs, in the measures of the comparison.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    differences: Vec<Difference>,
}

/// Runs the command.
pub fn run(args: &Args) -> Result<(), Failure> {
    let Some(file) = args.file.as_deref() else { return clear(args.cache.as_deref()) };
    let source = open(file)?;
    let Loaded { mut scenario, files } = scenario::load(&source, scenario::beside(file))?;
    args.files.try_them([file])?;
    if let Some(folder) = &args.out {
        std::fs::create_dir_all(folder)
            .and_then(|()| written::check(folder))
            .map_err(|error| Failure::Usage(format!("cannot write into {}: {error}", folder.display())))?;
    }
    if args.out.is_some() || args.files.wanted() {
        scenario.detail = Detail::Parts;
    }
    let traced = args.trace.as_deref().map(|wanted| traced::selection(&scenario, wanted)).transpose()?;
    let (seed, seeds) = (args.seed.unwrap_or(scenario.seed), args.runs.unwrap_or(scenario.planned_runs().1) as usize);
    let processors = std::thread::available_parallelism().map_or(1, usize::from);
    let jobs = args.jobs.map_or(processors, usize::from).min(seeds * scenario.parts());
    let jobs = runs::Jobs { runs: jobs, threads: args.threads.map_or(1, usize::from) };
    let with_parts = scenario.detail == Detail::Parts;
    if let Some(folder) = &args.cache {
        std::fs::create_dir_all(folder)
            .map_err(|error| Failure::Usage(format!("cannot keep results in {}: {error}", folder.display())))?;
    }
    let texts = || std::iter::once(source.text()).chain(files.iter().map(|(_, text)| text.as_str()));
    let cached = || Cache::new(args.cache.as_deref(), texts(), with_parts);
    let cache = if args.no_cache { None } else { cached()? };
    let begin = Instant::now();
    let (made, mut notes) = run_all(args, &scenario, seed, jobs, cache.as_ref())?;
    notes.extend(scenario.notes(made.outcomes.iter().map(|outcome| outcome.seed)));
    notes.extend(args.out.as_ref().and_then(|_| written::left_out(&made.outcomes)));
    let mut stopped = stopped(args, &made)?;
    let outcomes = &made.outcomes;
    // A digest of some of the runs would be taken for that of all.
    if let Some(stopped) = stopped.take_if(|_| outcomes.is_empty() || args.hash) {
        return Err(stopped);
    }
    let elapsed = begin.elapsed();

    let mut all = Digest::default();
    outcomes.iter().for_each(|outcome| all.digest(outcome.digest));
    let found = Simulation {
        scenario: source.name(),
        sentence: scenario.sentence.as_deref(),
        version: env!("CARGO_PKG_VERSION"),
        duration_ns: scenario.duration.as_nanos(),
        warm_up_ns: scenario.warm_up().as_nanos(),
        smooth: scenario.has_usual_bin,
        digest: all.to_string(),
        notes,
        runs: outcomes.iter().map(shown).collect(),
    };
    let (stated, is_part) = stated(&found.comparison(), &args.files, &scenario.primary)?;
    let report = Report::new(&found, outcomes, (&stated, &scenario.primary));
    if let Some(folder) = &args.out {
        written::all(folder, &found, &report, outcomes, &stated)
            .map_err(|error| Failure::Failed(format!("cannot write into {}: {error}", folder.display())))?;
    }
    if let Some(selection) = &traced {
        traced::write(&scenario, selection, seed, args.out.as_deref().unwrap_or(Path::new(".")))?;
    }
    if let Some(folder) = &args.qlog {
        qlog::write(&scenario, &traced.unwrap_or_default(), seed, folder)?;
    }
    let text = || Text { name: source.name().to_owned(), text: source.text().to_owned() };
    let page = || tidegate_report::Report { primary: scenario.primary.clone(), ..found.page(text()) };
    args.files.write(page, || found.table())?;
    print(args, &report, outcomes, (&stated, is_part))?;
    conclude(args, &scenario, &made, elapsed);
    stopped.map_or(Ok(()), Err)
}

/// Makes the runs that are wanted: those that are given, or as many as the scenario's rule asks for. Also returns what rules
/// have chosen.
fn run_all(
    args: &Args,
    scenario: &Scenario,
    seed: u64,
    jobs: runs::Jobs,
    cache: Option<&Cache>,
) -> Result<(runs::Runs, Vec<String>), Failure> {
    let mut notes = Vec::new();
    if scenario.finds_warm_up() {
        message!("finding the warm-up in a run of seed {}", scenario.seed);
        notes.extend(scenario.said_of_warm_up());
    }
    let (first, most) = args.runs.map_or(scenario.planned_runs(), |runs| (runs, runs));
    scenario.check_runs(first as usize).map_err(Failure::Usage)?;
    let mut made = runs::all(scenario, seed, first as usize, jobs, cache)?;
    let Some(until) = scenario.until.as_ref().filter(|_| args.runs.is_none()) else { return Ok((made, notes)) };
    let caveat = "Stopping where an interval is narrow makes it and tests at 5 % slightly optimistic: for a test, choose the number of \
                  runs in advance (--runs).";
    while made.ended == made.wanted {
        let judged = until.judge(&made.outcomes).map_err(|text| Failure::Usage(format!("until: {text}")))?;
        let runs = made.outcomes.len();
        let is = format!("\u{b1} {:.2} % of the mean", judged.share * 100.0);
        match judged.next {
            None => {
                notes.push(format!("{runs} runs suffice: the widest interval, of {}, is {is}.", judged.widest));
                break;
            }
            Some(_) if runs >= most as usize => {
                let wanted = until.share * 100.0;
                notes.push(format!(
                    "{runs} runs are the most that are allowed: the interval of {} is {is}, not {wanted} %.",
                    judged.widest
                ));
                break;
            }
            Some(next) => {
                let more = next.min(most) as usize - runs;
                made.add(runs::all(scenario, seed.wrapping_add(runs as u64), more, jobs, cache)?);
            }
        }
    }
    notes.push(caveat.to_owned());
    Ok((made, notes))
}

/// The failure of a simulation that was stopped before all runs had ended, if it was.
///
/// # Errors
/// When results cannot be kept in the folder that was named.
fn stopped(args: &Args, made: &runs::Runs) -> Result<Option<Failure>, Failure> {
    match (&made.unkept, &args.cache) {
        (Some(error), Some(folder)) => {
            return Err(Failure::Failed(format!("cannot keep results in {}: {error}", folder.display())));
        }
        (Some(error), None) => message!("cannot keep the results of runs: {error}; choose another folder with --cache"),
        (None, _) => {}
    }
    Ok((made.ended < made.wanted).then(|| {
        let kept = match (args.no_cache, &args.cache) {
            (true, _) => "",
            (false, None) => "; those of a second or longer are kept, and the same command makes the others",
            (false, Some(_)) => "; they are kept, and the same command makes the others",
        };
        Failure::Failed(format!("stopped after {} of {} runs{kept}", made.ended, made.wanted))
    }))
}

/// Prints the results in the requested form.
///
/// `is_part` tells whether a look has chosen what is stated.
fn print(
    args: &Args,
    report: &Report<'_>,
    outcomes: &[Outcome],
    (comparison, is_part): (&Comparison, bool),
) -> Result<(), Failure> {
    let mut out = crate::output::stdout();
    if args.hash {
        writeln!(out, "{}", report.digest)?;
    } else if args.json {
        serde_json::to_writer_pretty(&mut out, report).map_err(std::io::Error::from)?;
        writeln!(out)?;
    } else if let Some(table) = args.paper.table(comparison, &args.files.look()?) {
        write!(out, "{table}")?;
    } else {
        if let Some(first) = outcomes.first() {
            shapers::write(&mut out, first)?;
        }
        if let Some(sentence) = report.sentence {
            writeln!(out, "{}", wrapped(sentence, width()))?;
        }
        let (primary, runs, files) = (report.primary, Some(outcomes.len()), "--out DIR and --table FILE keep them");
        Answer { comparison, is_part, primary, runs, all: args.all, files }.write(&mut out, &report.items)?;
        foot(&mut out, report)?;
    }
    out.flush()?;
    Ok(())
}

/// The differences that are stated together: the comparison, or the part of it that a look chooses, or else the quantities of
/// `primary`; and whether a look has chosen it.
///
/// # Errors
/// Invalid usage, where the look or `primary` wants subjects, rows or measures that do not exist.
pub(super) fn stated(
    comparison: &Comparison,
    files: &Files,
    primary: &[String],
) -> Result<(Comparison, bool), Failure> {
    let look = files.look()?;
    let stated = match files.figure.is_empty() {
        true => look.stated(comparison, primary),
        false => look.stated_beside_figures(comparison, primary),
    };
    stated.map_err(Failure::Usage)
}

/// Reports to people at a terminal how long it took.
fn conclude(args: &Args, scenario: &Scenario, made: &runs::Runs, elapsed: Duration) {
    if let (Some(reason), Some(_)) = (made.division.and_then(|division| division.undivided), args.threads) {
        message!("not divided among threads: {reason}");
    }
    if !std::io::stderr().is_terminal() {
        return;
    }
    let events: u64 = made.outcomes.iter().map(|outcome| outcome.events).sum();
    let (runs, simulated, elapsed) = (made.ended, scenario.duration.as_secs_f64(), elapsed.as_secs_f64());
    let rate = events as f64 / elapsed / 1e6;
    match made.cached {
        0 => message!("{runs} x {simulated} s simulated in {elapsed:.2} s, {rate:.1} million events a second"),
        cached => message!("{runs} x {simulated} s in {elapsed:.2} s, {cached} of them from the cache"),
    }
    if let Some(Division { undivided: None, regions, .. }) = made.division {
        message!("each run on {regions} threads");
    }
    if !args.files.wanted() && !args.json && !args.hash {
        crate::output::hint(
            "with --report FILE.html it is drawn; `tidegate compare` sets results of --json side by side",
        );
    }
}

impl<'a> Report<'a> {
    fn new(found: &Simulation<'a>, outcomes: &'a [Outcome], (stated, primary): (&Comparison, &'a [String])) -> Self {
        let run = |outcome: &'a Outcome| Run {
            seed: outcome.seed,
            events: outcome.events,
            digest: outcome.digest.to_string(),
            shapers: shapers::entries(outcome),
        };
        let quantities = found.quantities();
        let cautions = cautions(quantities.iter(), |measure, subject| stated.has(measure, subject));
        Self {
            scenario: found.scenario,
            sentence: found.sentence,
            version: found.version,
            duration_ns: found.duration_ns,
            warm_up_ns: found.warm_up_ns,
            digest: found.digest.clone(),
            primary,
            runs: outcomes.iter().map(run).collect(),
            notes: found.notes.iter().cloned().chain(cautions).collect(),
            unfinished: found.unfinished(),
            no_interval: stated.why_no_interval(),
            steady: found.steady().into_iter().filter_map(SteadyItem::of).collect(),
            items: quantities.into_iter().map(Item::from).collect(),
            differences: differences(stated),
        }
    }
}

/// A run as reports show it.
pub(super) fn shown(outcome: &Outcome) -> simulation::Run<'_> {
    simulation::Run {
        seed: outcome.seed,
        events: outcome.events,
        digest: outcome.digest.to_string(),
        values: &outcome.values,
        curves: &outcome.curves,
    }
}

/// Removes the results that are kept in `folder`, or in the default one.
fn clear(folder: Option<&Path>) -> Result<(), Failure> {
    let Some(folder) = folder.map(Path::to_owned).or_else(cache::default_folder) else {
        return Err(Failure::Usage(
            "neither XDG_CACHE_HOME nor HOME is set, so there is no folder for it; choose one with --cache".into(),
        ));
    };
    let removed = cache::clear(&folder)
        .map_err(|error| Failure::Failed(format!("cannot clear {}: {error}", folder.display())))?;
    message!("removed the results of {removed} runs from {}", folder.display());
    Ok(())
}

/// Writes which runs the values are of, and what rules have chosen.
fn foot(out: &mut impl Write, report: &Report<'_>) -> Result<(), Failure> {
    let plural = if report.runs.len() == 1 { "" } else { "s" };
    let first = report.runs.first().map_or(0, |run| run.seed);
    writeln!(out, "{} run{plural} from seed {first}; digest {}", report.runs.len(), report.digest)?;
    for note in report.notes.iter().chain(&report.unfinished) {
        writeln!(out, "{}", wrapped(note, width()))?;
    }
    Ok(())
}
