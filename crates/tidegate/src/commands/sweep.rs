//! `tidegate sweep`: a scenario for every combination of values and seeds, in files for notebooks.

use std::cell::RefCell;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::mpsc::{self, RecvTimeoutError};
use std::time::Duration;

use tidegate_config::node::Node;
use tidegate_config::{Diagnostics, Source};
use tidegate_report::simulation::sweep_rows;
use tidegate_sim::scenario::sweep::{Axis, Batch, Point, Sweep};
use tidegate_sim::scenario::{Files, Outcome, Scenario};

use super::check::{open, refusal, say};
use super::simulate::cache::write_whole;
use super::simulate::runs::stop_on_signals;
use super::simulate::shown;
use crate::Failure;
use crate::progress::Progress;

/// Run a scenario for every combination of values and seeds, on all processors
///
/// Each batch of runs is one Parquet file in the folder of --out: a column for each --vary, the seed, the values of the run, and
/// its digest, which is that of `tidegate simulate --hash` for the same scenario and seed. `tidegate.sweep` of the Python
/// package writes the same files. What was stopped resumes: batches whose files are there are not run again.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// The scenario file; - for standard input
    file: PathBuf,
    /// The values of a key of the scenario, in turn: 'link.r->b.rate=10mbit,20mbit', quoted for the shell. A section of a
    /// list is named by its name, by its ends or by its number from 1. Other values than texts and numbers are a list of
    /// TOML: 'link.1.queue=[{kind="fifo"}, {kind="codel"}]'. May be repeated: every combination is run
    #[arg(long, value_name = "PATH=VALUE,...", value_parser = axis)]
    vary: Vec<Axis>,
    /// The folder of the results
    #[arg(long, value_name = "DIR")]
    out: PathBuf,
    /// The first seed, instead of that in the file
    #[arg(long, value_name = "N")]
    seed: Option<u64>,
    /// The number of seeds N, N + 1, ..., instead of the runs in the file
    #[arg(long, value_name = "K", value_parser = clap::value_parser!(u32).range(1..=1_000_000))]
    runs: Option<u32>,
    /// Runs of a file. Each thread holds the results of one file in memory
    #[arg(long, value_name = "N", default_value_t = 20, value_parser = clap::value_parser!(u32).range(1..=100_000))]
    batch: u32,
    /// The number of files that are made in parallel. Default: the number of processors
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..=1024))]
    jobs: Option<u16>,
}

/// The axis of `PATH=VALUE,...`.
fn axis(text: &str) -> Result<Axis, String> {
    let Some((path, values)) = text.split_once('=') else {
        return Err("write PATH=VALUE,..., for example link.1.rate=10mbit,20mbit".into());
    };
    if values.starts_with('[') {
        return Axis::parse(path, values);
    }
    let value = |text: &str| {
        let is_number = text.ends_with(|c: char| c.is_ascii_digit()) && text.parse::<f64>().is_ok();
        if is_number || matches!(text, "true" | "false") {
            text.to_owned()
        } else {
            serde_json::Value::from(text).to_string()
        }
    };
    let values: Vec<String> = values.split(',').map(|text| value(text.trim())).collect();
    Axis::parse(path, &format!("[{}]", values.join(", ")))
}

/// Runs the command.
pub fn run(args: &Args) -> Result<(), Failure> {
    let source = open(&args.file)?;
    let beside = args.file.parent().filter(|_| args.file.as_os_str() != "-");
    let scenario = load(&source, beside, |_| ())?;
    let (seed, runs) = (args.seed.unwrap_or(scenario.seed), args.runs.unwrap_or(scenario.runs));
    let seeds = (0..u64::from(runs)).map(|n| seed.wrapping_add(n)).collect();
    let node = Node::parse(&source, &mut Diagnostics::new()).ok_or_else(|| Failure::Usage("no scenario".into()))?;
    let mut sweep = Sweep::new(&node, args.vary.clone(), seeds, args.batch as usize).map_err(Failure::Usage)?;
    let first = sweep.batch(0).map_err(Failure::Usage)?;
    if let Some(point) = first.runs.first() {
        load(&text(point, source.name()), beside, |text| sweep.depend_on(text))?;
    }
    let unwritable =
        |error: std::io::Error| Failure::Usage(format!("cannot write into {}: {error}", args.out.display()));
    std::fs::create_dir_all(&args.out).map_err(unwritable)?;
    let processors = std::thread::available_parallelism().map_or(1, usize::from);
    let jobs = args.jobs.map_or(processors, usize::from).min(sweep.batches());
    let work = Work { sweep: &sweep, name: source.name(), beside, folder: &args.out, next: AtomicUsize::new(0) };
    let done = work.all(jobs, &*stop_on_signals()?)?;
    if done.made + done.found < sweep.runs() {
        return Err(Failure::Failed(format!(
            "stopped after {} of {} runs; the results are in {}, and the same command makes the others",
            done.made + done.found,
            sweep.runs(),
            args.out.display()
        )));
    }
    let before = if done.found > 0 { format!(", {} of them made before", done.found) } else { String::new() };
    let (runs, files) = (sweep.runs(), sweep.batches());
    writeln!(std::io::stdout(), "{runs} runs in {files} files in {}{before}", args.out.display())?;
    Ok(())
}

/// The scenario of a run.
fn text(point: &Point, name: &str) -> Source {
    let values: Vec<String> = point.values.iter().map(|(path, value)| format!("{path}={value}")).collect();
    let name = if values.is_empty() { name.to_owned() } else { format!("{name} with {}", values.join(", ")) };
    Source::new(name, &*point.text)
}

/// Loads a scenario; `named` is called with the text of each file that it names.
fn load(source: &Source, beside: Option<&Path>, named: impl FnMut(&str)) -> Result<Scenario, Failure> {
    let named = RefCell::new(named);
    let open_beside = |name: &str| {
        let found = Source::open(&beside.unwrap_or(Path::new("")).join(name))?;
        (named.borrow_mut())(found.text());
        Ok(found)
    };
    let mut diagnostics = Diagnostics::new();
    let scenario = Scenario::load(source, beside.map(|_| &open_beside as Files<'_>), &mut diagnostics);
    say(&diagnostics, source);
    scenario.ok_or_else(|| refusal(&diagnostics, source))
}

/// Runs that were made, and those whose files were there.
#[derive(Default)]
struct Done {
    made: usize,
    found: usize,
}

/// What threads share.
struct Work<'a> {
    sweep: &'a Sweep,
    /// The name of the scenario file.
    name: &'a str,
    beside: Option<&'a Path>,
    folder: &'a Path,
    /// The next batch.
    next: AtomicUsize,
}

impl Work<'_> {
    /// Makes all batches, `jobs` at a time, until `stop` is set. The first failure ends all.
    fn all(&self, jobs: usize, stop: &AtomicBool) -> Result<Done, Failure> {
        let (mut done, mut failed) = (Done::default(), None);
        let (sender, receiver) = mpsc::channel();
        let ended = AtomicUsize::new(0);
        std::thread::scope(|scope| {
            for _ in 0..jobs {
                let (sender, ended) = (sender.clone(), &ended);
                scope.spawn(move || {
                    loop {
                        let number = self.next.fetch_add(1, Ordering::Relaxed);
                        if number >= self.sweep.batches() || stop.load(Ordering::Relaxed) {
                            return;
                        }
                        if sender.send(self.batch(number, stop, ended)).is_err() {
                            return;
                        }
                    }
                });
            }
            drop(sender);
            let mut progress = Progress::new();
            loop {
                match receiver.recv_timeout(Duration::from_millis(100)) {
                    Ok(Ok(batch)) => {
                        done.made += batch.made;
                        done.found += batch.found;
                    }
                    Ok(Err(failure)) => {
                        stop.store(true, Ordering::Relaxed);
                        failed.get_or_insert(failure);
                    }
                    Err(RecvTimeoutError::Timeout) => {
                        let (ended, wanted) = (ended.load(Ordering::Relaxed), self.sweep.runs() - done.found);
                        progress.show(ended as u64, wanted as u64, || format!("{ended} of {wanted} runs"));
                    }
                    Err(RecvTimeoutError::Disconnected) => break,
                }
            }
        });
        failed.map_or(Ok(done), Err)
    }

    /// Makes a batch, unless its file is there. Counts each run in `ended`.
    fn batch(&self, number: usize, stop: &AtomicBool, ended: &AtomicUsize) -> Result<Done, Failure> {
        let Batch { name, runs } = self.sweep.batch(number).map_err(Failure::Usage)?;
        let path = self.folder.join(name);
        if path.exists() {
            return Ok(Done { made: 0, found: runs.len() });
        }
        let mut outcomes: Vec<Outcome> = Vec::with_capacity(runs.len());
        let mut loaded: Option<(&str, Scenario)> = None;
        for point in &runs {
            if loaded.as_ref().is_none_or(|(text, _)| *text != &*point.text) {
                loaded = Some((&point.text, load(&text(point, self.name), self.beside, |_| ())?));
            }
            let Some((_, scenario)) = &loaded else { continue };
            let Some(outcome) = point.run(scenario, || stop.load(Ordering::Relaxed)) else {
                return Ok(Done::default());
            };
            outcomes.push(outcome);
            ended.fetch_add(1, Ordering::Relaxed);
        }
        let failed = |error: &dyn std::fmt::Display| Failure::Failed(format!("{}: {error}", path.display()));
        let rows = sweep_rows(runs.iter().zip(&outcomes).map(|(point, outcome)| (&*point.values, shown(outcome))));
        let bytes = rows.parquet().map_err(|error| failed(&error))?;
        write_whole(&path, &bytes).map_err(|error| failed(&error))?;
        Ok(Done { made: runs.len(), found: 0 })
    }
}
