//! `tidegate conform`: a congestion control before the criteria of RFC 9743.

use std::io::Write;
use std::ops::ControlFlow;
use std::path::{Path, PathBuf};
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};

use tidegate_config::node::Node;
use tidegate_config::{Diagnostics, Source, suggest};
use tidegate_display::{human, human_interval, wrapped};
use tidegate_report::{Chart, ChartKind, Format, Look};
use tidegate_sim::scenario::conform::{Bound, Case, Criterion, Judgement, Runs, Subject, matrix, matrix_axes, suite};
use tidegate_sim::scenario::sweep::{Axis, Sweep};

use super::scenario::Said;
use super::simulate::runs::stop_on_signals;
use super::{figure, sweep};
use crate::Failure;
use crate::output::{draw, width};
use crate::progress::Progress;

/// Examine a congestion control by the criteria of RFC 9743
///
/// The control runs in fixed scenarios: alone, with others of its kind and beside CUBIC, over lines that lose, vary, fail or are
/// long, before queues of several kinds. Each criterion of the RFC has a figure, and a bound with its reason; the RFC itself sets
/// no bounds. Where it asks for the harm to others, the same scenario with CUBIC in the control's place is the measure. A figure is
/// a mean with its 95 % interval; one whose interval has the bound in it is on the bound, and other seeds may say otherwise. The
/// exit code is 1 if the mean of a criterion does not hold. The digest is the same on every machine, so that results can be compared.
///
/// A control of one's own in Rust is examined by the program that `new-congestion` writes beside it (NAME-tidegate).
#[derive(Debug, clap::Args)]
pub struct Args {
    /// The congestion control: a word of `tcp.congestion` in scenarios, a control of quinn (`quinn-cubic`, `quinn-newreno`, which
    /// imply --quic), or a table of TOML: '{ kind = "mine", gain = 2 }'. quinn's BBR cannot be seeded: `bbr --quic` is BBRv3
    name: String,
    /// Run the control over QUIC (quinn) instead of TCP
    #[arg(long)]
    quic: bool,
    /// Examine only this case; may be repeated
    #[arg(long, value_name = "CASE")]
    only: Vec<String>,
    /// The first seed
    #[arg(long, value_name = "N", default_value_t = 1)]
    seed: u64,
    /// The number of seeds: criteria are judged by the mean
    #[arg(long, value_name = "K", default_value_t = 3, value_parser = clap::value_parser!(u32).range(1..=1000))]
    runs: u32,
    /// The number of cases that run in parallel. Default: the number of processors
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..=1024))]
    jobs: Option<u16>,
    /// Write the scenarios into this folder, for `simulate`
    #[arg(long, value_name = "DIR")]
    scenarios: Option<PathBuf>,
    /// Also run the control beside CUBIC for every rate, round trip and queue, and write the results (Parquet) and a heat map
    /// of the ratio of goodputs for each queue into this folder
    #[arg(long, value_name = "DIR")]
    matrix: Option<PathBuf>,
    /// Print the results as JSON
    #[arg(long)]
    json: bool,
    /// Print only the digest of all runs
    #[arg(long, conflicts_with = "json")]
    hash: bool,
}

/// Runs the command.
pub fn run(args: &Args) -> Result<(), Failure> {
    let subject = Subject::named(&args.name, args.quic);
    let cases = chosen(&args.only)?;
    // A control that cannot be read is reported once, and before anything else.
    subject.check().map_err(Failure::Usage)?;
    if let Some(folder) = &args.scenarios {
        write_scenarios(folder, &cases, &subject)?;
    }
    let found = examine(args, &cases, &subject)?;
    let judgement = Judgement::new(&args.name, &subject, cases.into_iter().zip(found).collect());
    let mut out = crate::output::stdout();
    if args.hash {
        writeln!(out, "{}", judgement.digest())?;
    } else if args.json {
        writeln!(out, "{:#}", judgement.json(env!("CARGO_PKG_VERSION")))?;
    } else {
        print(&mut out, &judgement)?;
    }
    out.flush()?;
    if let Some(folder) = &args.matrix {
        draw_matrix(args, folder, &subject)?;
    }
    if judgement.all_hold() { Ok(()) } else { Err(Failure::Negative) }
}

/// The cases of the suite, or those that are named.
fn chosen(names: &[String]) -> Result<Vec<Case>, Failure> {
    let all = suite();
    if names.is_empty() {
        return Ok(all);
    }
    let known: Vec<&str> = all.iter().map(|case| case.name).collect();
    let find = |name: &String| {
        let found = all.iter().find(|case| case.name == name).copied();
        found.ok_or_else(|| Failure::Usage(format!("there is no case `{name}`: {}", suggest::help(name, &known))))
    };
    names.iter().map(find).collect()
}

fn write_scenarios(folder: &Path, cases: &[Case], subject: &Subject) -> Result<(), Failure> {
    let unwritable = |error: std::io::Error| Failure::Usage(format!("cannot write into {}: {error}", folder.display()));
    std::fs::create_dir_all(folder).map_err(unwritable)?;
    for case in cases.iter().chain([&matrix()]) {
        std::fs::write(folder.join(format!("{}.toml", case.name)), case.text(subject)).map_err(unwritable)?;
    }
    Ok(())
}

/// Runs the cases, several at a time. The results do not depend on how many.
fn examine(args: &Args, cases: &[Case], subject: &Subject) -> Result<Vec<Runs>, Failure> {
    let stop = stop_on_signals()?;
    let processors = std::thread::available_parallelism().map_or(1, usize::from);
    let jobs = args.jobs.map_or(processors, usize::from).min(cases.len());
    let seeds = (0..u64::from(args.runs)).map(|n| args.seed.wrapping_add(n));
    let (next, ended) = (AtomicUsize::new(0), AtomicUsize::new(0));
    let found: Vec<Mutex<Option<Result<Runs, String>>>> = cases.iter().map(|_| Mutex::new(None)).collect();
    std::thread::scope(|scope| {
        let workers: Vec<_> = (0..jobs)
            .map(|_| {
                scope.spawn(|| {
                    while let Some((number, case)) =
                        Some(next.fetch_add(1, Ordering::Relaxed)).and_then(|number| Some((number, cases.get(number)?)))
                    {
                        let made = case.run(subject, seeds.clone(), |_| match stop.load(Ordering::Relaxed) {
                            true => ControlFlow::Break(()),
                            false => ControlFlow::Continue(()),
                        });
                        if let Ok(mut place) = found[number].lock() {
                            *place = made.transpose();
                        }
                        ended.fetch_add(1, Ordering::Relaxed);
                    }
                })
            })
            .collect();
        let mut progress = Progress::new();
        while !workers.iter().all(std::thread::ScopedJoinHandle::is_finished) {
            std::thread::sleep(std::time::Duration::from_millis(50));
            let done = ended.load(Ordering::Relaxed);
            progress.show(done as u64, cases.len() as u64, || format!("{done} of {} cases", cases.len()));
        }
    });
    let taken = |place: Mutex<Option<Result<Runs, String>>>| match place.into_inner() {
        Ok(Some(made)) => made.map_err(|wrong| Failure::Usage(wrong.trim_end().to_owned())),
        _ => Err(Failure::Failed("stopped before all cases had ended".into())),
    };
    found.into_iter().map(taken).collect()
}

/// The bound in words.
fn bound(criterion: &Criterion) -> String {
    match criterion.bound {
        Bound::AtLeast(least) => format!("at least {}", human(least, criterion.unit)),
        Bound::AtMost(most) => format!("at most {}", human(most, criterion.unit)),
    }
}

fn print(out: &mut impl Write, judgement: &Judgement) -> std::io::Result<()> {
    for (case, findings) in judgement.cases() {
        writeln!(out, "{}", wrapped(&format!("{}: {}", case.name, case.sentence()), width()))?;
        for (criterion, finding) in case.criteria.iter().zip(findings) {
            let word = if finding.holds { "holds" } else { "fails" };
            let figure = match finding.half_width {
                _ if finding.mean.is_nan() => "not measured".to_owned(),
                Some(half) if half > 0.0 => human_interval(finding.mean, half, criterion.unit),
                _ => human(finding.mean, criterion.unit),
            };
            let on = if finding.is_on(criterion.bound) { ", on the bound" } else { "" };
            let text = format!(
                "{word}  {}: {figure}, {}{on} (RFC 9743, section {})",
                criterion.figure,
                bound(criterion),
                criterion.section
            );
            writeln!(out, "{}", indented(&text, "  "))?;
            if !finding.holds {
                writeln!(out, "{}", indented(&format!("the bound: {}", criterion.reason), "         "))?;
            }
        }
    }
    writeln!(out, "\n{}", wrapped(&judgement.sentence(), width()))
}

/// A text wrapped behind an indent.
fn indented(text: &str, indent: &str) -> String {
    let wrapped = wrapped(text, width().map(|width| width.saturating_sub(indent.len())));
    wrapped.lines().map(|line| format!("{indent}{line}")).collect::<Vec<_>>().join("\n")
}

/// Runs the matrix of coexistence as a sweep, and draws it.
fn draw_matrix(args: &Args, folder: &Path, subject: &Subject) -> Result<(), Failure> {
    let case = matrix();
    let scenario = case.scenario(subject).map_err(Failure::Usage)?;
    let source = Source::new("matrix.toml", case.text(subject));
    let node = Node::parse(&source, &mut Diagnostics::new()).ok_or_else(|| Failure::Failed("no scenario".into()))?;
    let axes = matrix_axes();
    let parsed = axes.iter().map(|(path, values)| Axis::parse(path, values)).collect::<Result<_, _>>();
    let seeds = (0..u64::from(args.runs)).map(|n| args.seed.wrapping_add(n)).collect();
    let mut made =
        Sweep::new(&node, parsed.map_err(Failure::Failed)?, seeds, args.runs as usize).map_err(Failure::Failed)?;
    sweep::make(&mut made, source.name(), None, folder, args.jobs, &Said::default())?;
    let table = figure::read(&[folder.to_owned()])?;
    let [(rate, _), (delay, _)] = axes;
    for variant in scenario.variant_names() {
        let with = |pairs: &[(&str, &str)]| pairs.iter().map(|(a, b)| ((*a).to_owned(), (*b).to_owned())).collect();
        let chart = Chart {
            kind: ChartKind::Heat,
            x: delay.to_owned(),
            y: rate.to_owned(),
            value: "value".to_owned(),
            only: with(&[("variant", variant), ("measure", "goodput"), ("subject", "flow new")]),
            over: with(&[("subject", "flow cubic")]),
            log: true,
            labels: ["delay one way".to_owned(), "rate".to_owned()],
            names: with(&[("flow new", &args.name), ("flow cubic", "CUBIC")]),
            ..Chart::default()
        };
        let drawing = chart.drawing(&table, &Look::column()).map_err(Failure::Failed)?;
        draw(&drawing, Format::Svg, &folder.join(format!("{}.svg", variant.to_lowercase())))?;
    }
    message!("{}: the ratio of goodputs of {} and CUBIC, for each queue", folder.display(), args.name);
    Ok(())
}
