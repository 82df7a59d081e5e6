//! `tidegate sweep`: a scenario for every combination of values and seeds, in files for notebooks.

use std::collections::BTreeSet;
use std::io::Write;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::mpsc::{self, RecvTimeoutError};
use std::time::Duration;

use serde_json::json;
use tidegate_config::node::Node;
use tidegate_config::{Diagnostics, Source};
use tidegate_display::wrapped;
use tidegate_report::columns::Table;
use tidegate_report::simulation::sweep_rows;
use tidegate_report::swept;
use tidegate_sim::scenario::sweep::{Axis, Batch, Point, Sweep};
use tidegate_sim::scenario::{Outcome, Scenario};

use super::check::open;
use super::figure::read;
use super::scenario::{self, Said};
use super::simulate::cache::write_whole;
use super::simulate::runs::stop_on_signals;
use super::simulate::shown;
use crate::Failure;
use crate::output::{TableFile, width};
use crate::progress::Progress;

/// Run a scenario for every combination of values and seeds, on all processors
///
/// Each batch of runs is one Parquet file in the folder of --out: a column for each --vary, the seed, the values of the run, and
/// its digest, which is that of `tidegate simulate --hash` for the same scenario and seed. `tidegate.sweep` of the Python
/// package writes the same files. A sweep that was stopped resumes, and one with more seeds or values adds to its folder: runs of the
/// same scenario that are there are not made again. A run that
/// fails does not end the others: it is reported at the end, with exit code 1, the other runs of its batch are in a file whose
/// name ends in .part.parquet, and the same command tries the batch again.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// The scenario file; - for standard input
    file: PathBuf,
    /// The values of a key of the scenario, in turn: 'link.r->b.rate=10mbit,20mbit', quoted for the shell. A section of a
    /// list is named by its name, by its ends or by its number from 1. Other values than texts and numbers are a list of
    /// TOML: 'link.1.queue=[{kind="fifo"}, {kind="codel"}]'. Keys that change together have commas between, and their
    /// values /: 'link.1.rate,link.1.queue.rate=20mbit/19mbit,50mbit/47mbit'. May be repeated: every combination is run
    #[arg(long, value_name = "PATH[,PATH...]=VALUE,...", value_parser = Axis::of_text)]
    vary: Vec<Axis>,
    /// The folder of the results
    #[arg(long, value_name = "DIR")]
    out: PathBuf,
    /// The first seed, instead of that in the file
    #[arg(long, value_name = "N")]
    seed: Option<u64>,
    /// The number of seeds N, N + 1, ..., instead of the runs in the file; `until` in the file is for `simulate` alone
    #[arg(long, value_name = "K", value_parser = clap::value_parser!(u32).range(1..=1_000_000))]
    runs: Option<u32>,
    /// Runs of a file. Each thread holds the results of one file in memory
    #[arg(long, value_name = "N", default_value_t = 20, value_parser = clap::value_parser!(u32).range(1..=100_000))]
    batch: u32,
    /// The number of files that are made in parallel. Default: the number of processors
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..=1024))]
    jobs: Option<u16>,
    /// Write the results of this sweep and of others in the folder as one table to this file: .csv, .json or .parquet, with a row for
    /// each value of a run and a column for each axis
    #[arg(long, value_name = "FILE", value_parser = TableFile::parse)]
    table: Option<TableFile>,
    /// Print the number of runs and the names of the files as JSON
    #[arg(long)]
    json: bool,
}

/// Runs the command.
pub fn run(args: &Args) -> Result<(), Failure> {
    let source = open(&args.file)?;
    let beside = scenario::beside(&args.file);
    let said = Said::default();
    let scenario = load(&source, beside, &said)?;
    let (seed, runs) = (args.seed.unwrap_or(scenario.seed), args.runs.unwrap_or(scenario.runs));
    scenario.check_runs(runs as usize).map_err(Failure::Usage)?;
    let seeds: Vec<u64> = (0..u64::from(runs)).map(|n| seed.wrapping_add(n)).collect();
    let node = Node::parse(&source, &mut Diagnostics::new()).ok_or_else(|| Failure::Usage("no scenario".into()))?;
    let mut sweep = Sweep::new(&node, args.vary.clone(), seeds.clone(), args.batch as usize).map_err(Failure::Usage)?;
    // What the runs are a sample of, at any of the points.
    let mut notes: Vec<String> = Vec::new();
    for point in sweep.samples().map_err(Failure::Usage)? {
        let scenario = load(&Source::new(point.named(source.name()), &*point.text), beside, &said)?;
        for note in scenario.notes(seeds.iter().copied()) {
            if !notes.contains(&note) {
                notes.push(note);
            }
        }
    }
    for name in sweep.files() {
        // The run that names a file reports why it cannot be read.
        if let Some(Ok(found)) = beside.map(|folder| Source::open(&folder.join(&name))) {
            sweep.depend_on(&name, found.text());
        }
    }
    let (found, names) = make(&mut sweep, source.name(), beside, &args.out, args.jobs, &said)?;
    if found > 0 {
        renew(&args.out, &names, &scenario.primary)?;
    }
    if let Some(file) = &args.table {
        file.write(&read(&names.iter().map(|name| args.out.join(name)).collect::<Vec<_>>())?)?;
    }
    let (runs, files) = (sweep.runs(), names.len());
    if args.json {
        let answer = json!({
            "version": env!("CARGO_PKG_VERSION"), "runs": runs, "made_before": found, "folder": args.out.display().to_string(),
            "files": names, "notes": notes,
        });
        writeln!(crate::output::stdout(), "{answer:#}")?;
        return Ok(());
    }
    let several = |n: usize, what: &str| format!("{n} {what}{}", if n == 1 { "" } else { "s" });
    let before = if found > 0 { format!("; {} made before", several(found, "run")) } else { String::new() };
    let text = format!("{} in {} in {}{before}", several(runs, "run"), several(files, "file"), args.out.display());
    writeln!(crate::output::stdout(), "{text}")?;
    for note in &notes {
        writeln!(crate::output::stdout(), "{}", wrapped(note, width()))?;
    }
    Ok(())
}

/// Makes all runs of a sweep whose results are not in `folder` yet. Returns how many were there, and the names of the files that have them.
///
/// # Errors
/// If runs failed, or were stopped, or if the folder cannot be written.
pub(super) fn make(
    sweep: &mut Sweep,
    name: &str,
    beside: Option<&Path>,
    folder: &Path,
    jobs: Option<u16>,
    said: &Said,
) -> Result<(usize, Vec<String>), Failure> {
    let unwritable = |error: std::io::Error| Failure::Usage(format!("cannot write into {}: {error}", folder.display()));
    std::fs::create_dir_all(folder).map_err(unwritable)?;
    let others = know(sweep, folder)?;
    let sweep = &*sweep;
    let processors = std::thread::available_parallelism().map_or(1, usize::from);
    let jobs = jobs.map_or(processors, usize::from).min(sweep.batches());
    let work = Work { sweep, name, beside, folder, next: AtomicUsize::new(0), said };
    let Done { made, found, failed } = &work.all(jobs, &*stop_on_signals()?)?;
    for text in failed.iter().take(SHOWN_FAILURES) {
        message!("{text}");
    }
    if !failed.is_empty() {
        let stopped = if made + found + failed.len() < sweep.runs() { " (stopped before the others)" } else { "" };
        return Err(Failure::Failed(format!(
            "{} of {} runs failed{stopped}; the results of the others are in {}, and the same command makes these again",
            failed.len(),
            sweep.runs(),
            folder.display()
        )));
    }
    if made + found < sweep.runs() {
        return Err(Failure::Failed(format!(
            "stopped after {} of {} runs; the results are in {}, and the same command makes the others",
            made + found,
            sweep.runs(),
            folder.display()
        )));
    }
    let mut names: Vec<String> = (0..sweep.batches())
        .map(|n| sweep.batch(n).map(|batch| batch.name))
        .collect::<Result<_, _>>()
        .map_err(Failure::Failed)?;
    for (n, name) in names.iter_mut().enumerate().filter(|(_, name)| !folder.join(name).exists()) {
        *name = sweep.missing(sweep.batch(n).map_err(Failure::Failed)?).name;
    }
    names.retain(|name| folder.join(name).exists());
    if !others.is_empty() && *made > 0 {
        message!(
            "runs were added to those that were there: if their results were the reason, p and intervals are too small (optional \
             stopping); plan the number of runs before the first"
        );
    }
    names.extend(others);
    Ok((*found, names))
}

/// Gives files that were made before the quantities that the scenario names as primary now.
fn renew(folder: &Path, names: &[String], primary: &[String]) -> Result<(), Failure> {
    for path in names.iter().map(|name| folder.join(name)) {
        let wrong = |error: &dyn std::fmt::Display| Failure::Failed(format!("{}: {error}", path.display()));
        let bytes = std::fs::read(&path).map_err(|error| wrong(&error))?;
        let mut table = Table::from_parquet(bytes).map_err(|error| wrong(&error))?;
        if table.primary != primary {
            table.primary = primary.to_vec();
            let bytes = table.parquet().map_err(|error| wrong(&error))?;
            write_whole(&path, &bytes).map_err(|error| wrong(&error))?;
        }
    }
    Ok(())
}

/// Reads which runs of the scenario other files of its folder have: those of other seeds, or of other values of the axes. Returns the names of
/// these files.
fn know(sweep: &mut Sweep, folder: &Path) -> Result<Vec<String>, Failure> {
    let wrong = |error: &dyn std::fmt::Display| Failure::Usage(format!("{}: {error}", folder.display()));
    let (mut planned, mut runs) = (BTreeSet::new(), BTreeSet::new());
    for n in 0..sweep.batches() {
        let Batch { name, runs: of_batch } = sweep.batch(n).map_err(Failure::Usage)?;
        planned.insert(name);
        runs.extend(of_batch.into_iter().map(|run| (run.values, run.seed)));
    }
    let points: BTreeSet<Vec<(String, String)>> = runs.iter().map(|(values, _)| values.clone()).collect();
    let mut others = Vec::new();
    for entry in std::fs::read_dir(folder).map_err(|error| wrong(&error))? {
        let entry = entry.map_err(|error| wrong(&error))?;
        let name = entry.file_name().to_string_lossy().into_owned();
        if name.starts_with("batch-") && name.ends_with(".parquet") && !planned.contains(&name) {
            others.push(name);
        }
    }
    others.sort();
    let (mut known, mut foreign) = (Vec::new(), Vec::new());
    for name in others {
        let found = swept::runs(&read(&[folder.join(&name)])?);
        // A file of other seeds and values alone is none of this sweep.
        let is_planned = found.iter().any(|run| runs.contains(run));
        // One with the values of this sweep that is not of its scenario is of another.
        let has_our_values = found.iter().any(|(values, _)| points.contains(values));
        match sweep.know(&name, found).map_err(Failure::Usage)? {
            true if is_planned => known.push(name),
            false if has_our_values => foreign.push(name),
            _ => {}
        }
    }
    if let [first, rest @ ..] = foreign.as_slice() {
        let more = if rest.is_empty() { String::new() } else { format!(" and {} more", rest.len()) };
        message!(
            "{}: {first}{more} of another scenario, or of this one as it was, with the same values: `compare` and `figure` take no folder that has \
             both; move them, or choose another --out",
            folder.display()
        );
    }
    Ok(known)
}

/// Loads a scenario, whose diagnostics go to standard error but for warnings that are in `said`.
fn load(source: &Source, beside: Option<&Path>, said: &Said) -> Result<Scenario, Failure> {
    scenario::load_besides(source, beside, said).map(|loaded| loaded.scenario)
}

/// Runs `work`; the text of a panic is its error. The hook has written where it was to standard error.
fn caught<T>(work: impl FnOnce() -> T) -> Result<T, String> {
    // State that a panic leaves behind belongs to the run alone, and is dropped with it.
    catch_unwind(AssertUnwindSafe(work)).map_err(|payload| {
        let text = payload.downcast_ref::<String>().map(String::as_str).or(payload.downcast_ref::<&str>().copied());
        format!("{}; this is a defect of Tidegate, please report it", text.unwrap_or("it panicked"))
    })
}

/// So many failed runs are reported one by one.
const SHOWN_FAILURES: usize = 20;

/// Runs that were made, those whose files were there, and a text for each that failed.
#[derive(Default)]
struct Done {
    made: usize,
    found: usize,
    failed: Vec<String>,
}

/// State that the threads share.
struct Work<'a> {
    sweep: &'a Sweep,
    /// The name of the scenario file.
    name: &'a str,
    beside: Option<&'a Path>,
    folder: &'a Path,
    /// The next batch.
    next: AtomicUsize,
    /// The warnings that the file and its points have had so far.
    said: &'a Said,
}

impl Work<'_> {
    /// Makes all batches, `jobs` at a time, until `stop` is set. A file that cannot be written ends all.
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
                        done.failed.extend(batch.failed);
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
        let whole = self.sweep.batch(number).map_err(Failure::Usage)?;
        let all = whole.runs.len();
        if self.folder.join(&whole.name).exists() {
            return Ok(Done { found: all, ..Done::default() });
        }
        let Batch { name, runs } = self.sweep.missing(whole);
        let (path, found) = (self.folder.join(name), all - runs.len());
        if runs.is_empty() {
            return Ok(Done { found, ..Done::default() });
        }
        let mut made: Vec<(&Point, Outcome)> = Vec::with_capacity(runs.len());
        let mut failed = Vec::new();
        let mut loaded: Option<(&str, Result<Scenario, String>)> = None;
        for point in &runs {
            let name = point.named(self.name);
            if loaded.as_ref().is_none_or(|(text, _)| *text != &*point.text) {
                let load = || load(&Source::new(name.as_str(), &*point.text), self.beside, self.said);
                let scenario = caught(load).and_then(|loaded| loaded.map_err(|failure| failure.to_string()));
                loaded = Some((&point.text, scenario));
            }
            let outcome = match &loaded {
                Some((_, Ok(scenario))) => caught(|| point.run(scenario, || stop.load(Ordering::Relaxed))),
                Some((_, Err(text))) => Err(text.clone()),
                None => continue,
            };
            match outcome {
                Ok(Some(outcome)) => made.push((point, outcome)),
                Ok(None) => return Ok(Done::default()),
                Err(text) => failed.push(format!("{name}, seed {}: {text}", point.seed)),
            }
            ended.fetch_add(1, Ordering::Relaxed);
        }
        if made.is_empty() {
            return Ok(Done { found, failed, ..Done::default() });
        }
        let part = path.with_extension("part.parquet");
        let path = if failed.is_empty() { &path } else { &part };
        let unwritten = |error: &dyn std::fmt::Display| Failure::Failed(format!("{}: {error}", path.display()));
        let primary = match &loaded {
            Some((_, Ok(scenario))) => scenario.primary.as_slice(),
            _ => &[],
        };
        let mut rows = sweep_rows(made.iter().map(|(point, outcome)| (&*point.values, shown(outcome))), primary);
        rows.order = self.sweep.order();
        let bytes = rows.parquet().map_err(|error| unwritten(&error))?;
        write_whole(path, &bytes).map_err(|error| unwritten(&error))?;
        if failed.is_empty() {
            match std::fs::remove_file(&part) {
                Err(error) if error.kind() != std::io::ErrorKind::NotFound => return Err(unwritten(&error)),
                _ => {}
            }
        }
        Ok(Done { made: made.len(), found, failed })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_panic_is_an_error_with_its_text() {
        assert_eq!(caught(|| 7), Ok(7));
        let text = |work: fn()| caught(work).expect_err("it panics");
        assert!(text(|| panic!("of a {}", "run")).starts_with("of a run; this is a defect"));
        assert!(text(|| panic!("literal")).starts_with("literal; "));
        assert!(text(|| std::panic::panic_any(3)).starts_with("it panicked; "));
    }
}
