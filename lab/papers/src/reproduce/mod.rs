//! Repeats experiments of papers, and compares each measured value with the paper's.

mod autorate;
mod cbq;
mod coexistence;
mod faults;
mod fbq;
mod figure;
mod hostile;
pub mod item;
mod mice;
pub mod output;
mod pacing;
mod rfc2963;
pub mod verdicts;

use std::path::PathBuf;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use tidegate_report::{Format, Look, Plot};

use crate::Failure;
pub use item::{Item, Verdict};

/// The options of a run of an experiment.
#[derive(Debug, Clone)]
pub struct Options {
    /// If present, only items whose id begins with this prefix are wanted.
    pub only: Option<String>,
    /// Items whose id begins with one of these prefixes are not wanted. See [`Experiment::on_this_machine`].
    pub without: &'static [&'static str],
    /// The number of runs, which have the seeds `seed .. seed + runs`.
    pub runs: u32,
    /// The first seed.
    pub seed: u64,
    /// The destination of plots.
    pub plots: Arc<Gallery>,
    /// The page (README) into which the experiment writes its table, if it has one.
    pub page: Option<PathBuf>,
}

/// The destination of an experiment's plots: a folder, a report, both or neither.
#[derive(Debug, Default)]
pub struct Gallery {
    folder: Option<PathBuf>,
    look: Look,
    format: Option<Format>,
    /// The plots kept for a report, if there is to be one.
    kept: Option<Mutex<Vec<Plot>>>,
}

impl Gallery {
    /// Creates a gallery that writes plots into `folder`, if present, and keeps them for a report if `keep` is set.
    pub fn new(folder: Option<PathBuf>, keep: bool) -> Self {
        Self { folder, kept: keep.then(Mutex::default), ..Self::default() }
    }
    /// Sets how plots in the folder look, and their format, which is the ending of their names; SVG by default.
    #[must_use]
    pub fn with_look(self, look: Look, format: Format) -> Self {
        Self { look, format: Some(format), ..self }
    }
    /// Whether plots are written.
    pub fn wanted(&self) -> bool {
        self.folder.is_some() || self.kept.is_some()
    }
    /// Writes `plot` as `name` with the ending of its format into the folder, and keeps it for the report, as far as these are wanted.
    ///
    /// # Errors
    /// The file system's error if the figure cannot be written.
    pub fn add(&self, name: &str, plot: Plot) -> Result<(), Failure> {
        if let Some(folder) = &self.folder {
            let made = std::fs::create_dir_all(folder);
            made.map_err(|error| Failure::Failed(format!("cannot make {}: {error}", folder.display())))?;
            let format = self.format.unwrap_or(Format::Svg);
            let path = folder.join(format!("{name}.{}", format.ending()));
            let failed = |why: String| Failure::Failed(format!("cannot draw {}: {why}", path.display()));
            let drawing = plot.with_look(&self.look).map_err(failed)?;
            let written = std::fs::write(&path, drawing.bytes(format).map_err(failed)?);
            written.map_err(|error| Failure::Failed(format!("cannot write {}: {error}", path.display())))?;
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
    /// Whether the item `id` is wanted or, if `id` is the prefix of a group, any item of the group.
    pub fn wants(&self, id: &str) -> bool {
        self.only.as_deref().is_none_or(|only| id.starts_with(only) || only.starts_with(id))
            && !self.without.iter().any(|group| id.starts_with(group))
    }
}

/// An experiment of a paper.
#[derive(Debug)]
pub struct Experiment {
    /// The name on the command line.
    pub name: &'static str,
    /// The caption of its results.
    pub sentence: &'static str,
    /// Its README, which explains the expectations, the results and the bounds.
    page: &'static str,
    /// Prefixes of the items that are measured with the clock and the kernel of this machine. All other items have the
    /// same values on every machine.
    pub on_this_machine: &'static [&'static str],
    /// The number of runs, each with its own seed, for which the verdicts are recorded.
    pub runs: u32,
    /// The recorded verdicts of the items that do not depend on the machine.
    pub recorded: &'static str,
    /// The recorded verdicts of the first seed alone, against which a change can be checked within seconds. Empty if
    /// the experiment has only one run.
    pub recorded_short: &'static str,
    run: fn(&Options) -> Result<Vec<Item>, Failure>,
    /// Draws the figures that plot items.
    draw: fn(&Options, &[Item]) -> Result<(), Failure>,
}

/// All experiments.
pub const EXPERIMENTS: &[Experiment] = &[
    Experiment {
        name: "fbq",
        page: include_str!("../../fbq/README.md"),
        on_this_machine: &["live"],
        runs: 20,
        recorded: include_str!("../../fbq/verdicts.csv"),
        recorded_short: include_str!("../../fbq/verdicts-short.csv"),
        sentence: fbq::SENTENCE,
        run: fbq::run,
        draw: fbq::figures,
    },
    Experiment {
        name: "cbq",
        page: include_str!("../../cbq/README.md"),
        on_this_machine: &["s6.2", "live"],
        runs: 1,
        recorded: include_str!("../../cbq/verdicts.csv"),
        recorded_short: "",
        sentence: "A CBQ router: each defect of 1999 and its cure, and link sharing as of 1995",
        run: cbq::run,
        draw: cbq::figures,
    },
    Experiment {
        name: autorate::NAME,
        page: include_str!("../../autorate/README.md"),
        on_this_machine: &["live"],
        runs: 20,
        recorded: include_str!("../../autorate/verdicts.csv"),
        recorded_short: include_str!("../../autorate/verdicts-short.csv"),
        sentence: "A rate that follows a line of LTE, satellite or cable, beside fixed rates and an oracle",
        run: autorate::run,
        draw: |_, _| Ok(()),
    },
    Experiment {
        name: "coexistence",
        page: include_str!("../../coexistence/README.md"),
        on_this_machine: &[],
        runs: 3,
        recorded: include_str!("../../coexistence/verdicts.csv"),
        recorded_short: include_str!("../../coexistence/verdicts-short.csv"),
        sentence: "Prague, BBRv3 and CUBIC share one bottleneck: the simulator beside what others measured on real machines",
        run: coexistence::run,
        draw: |_, _| Ok(()),
    },
    Experiment {
        name: hostile::NAME,
        page: include_str!("../../hostile/README.md"),
        // The whole experiment shapes live traffic.
        on_this_machine: &[""],
        runs: 1,
        recorded: "id,verdict\n",
        recorded_short: "",
        sentence: hostile::SENTENCE,
        run: hostile::run,
        draw: |_, _| Ok(()),
    },
    Experiment {
        name: faults::NAME,
        page: include_str!("../../faults/README.md"),
        // The whole experiment shapes live traffic.
        on_this_machine: &[""],
        runs: 1,
        recorded: "id,verdict\n",
        recorded_short: "",
        sentence: faults::SENTENCE,
        run: faults::run,
        draw: |_, _| Ok(()),
    },
    Experiment {
        name: "mice",
        page: include_str!("../../mice/README.md"),
        on_this_machine: &["live"],
        runs: 20,
        recorded: include_str!("../../mice/verdicts.csv"),
        recorded_short: include_str!("../../mice/verdicts-short.csv"),
        sentence: "Short transfers among long ones: Mice and Elephants beside its peers",
        run: mice::run,
        draw: mice::illustrations,
    },
    Experiment {
        name: "pacing",
        page: include_str!("../../pacing/README.md"),
        on_this_machine: &["real"],
        runs: 1,
        recorded: include_str!("../../pacing/verdicts.csv"),
        recorded_short: "",
        sentence: "Pacing a sender on a sleep of 10 ms: DT0 loses to it, DT1, DT2 and AT0 do not (SMLI TR-99-77)",
        run: pacing::run,
        draw: |_, _| Ok(()),
    },
    Experiment {
        name: rfc2963::NAME,
        page: include_str!("../../rfc2963/README.md"),
        on_this_machine: &[],
        runs: 20,
        recorded: include_str!("../../rfc2963/verdicts.csv"),
        recorded_short: include_str!("../../rfc2963/verdicts-short.csv"),
        sentence: "A rate adaptive shaper before a three colour marker, at ten customers of a 70 Mbit/s backbone",
        run: rfc2963::run,
        draw: rfc2963::draw,
    },
];

/// The number of simulations that were requested in this process, and of those that have ended, for a progress display.
#[derive(Debug, Default)]
pub struct Work {
    wanted: AtomicUsize,
    ended: AtomicUsize,
}

/// The progress of the simulations in this process.
pub static WORK: Work = Work { wanted: AtomicUsize::new(0), ended: AtomicUsize::new(0) };

impl Work {
    /// Returns how many simulations have ended, and how many were requested so far. The second number grows when a
    /// further part of an experiment begins.
    pub fn progress(&self) -> (usize, usize) {
        (self.ended.load(Ordering::Relaxed), self.wanted.load(Ordering::Relaxed))
    }
}

/// Runs each of `inputs` on the available processors, and returns the results in the order of the inputs.
fn in_parallel<T: Sync, R: Send>(inputs: &[T], run: impl Fn(&T) -> R + Sync) -> Vec<R> {
    let processors = std::thread::available_parallelism().map_or(1, usize::from).min(inputs.len().max(1));
    WORK.wanted.fetch_add(inputs.len(), Ordering::Relaxed);
    let next = AtomicUsize::new(0);
    let worker = || {
        let mut done = Vec::new();
        loop {
            let n = next.fetch_add(1, Ordering::Relaxed);
            let Some(input) = inputs.get(n) else { return done };
            done.push((n, run(input)));
            WORK.ended.fetch_add(1, Ordering::Relaxed);
        }
    };
    let mut results: Vec<(usize, R)> = std::thread::scope(|scope| {
        let threads: Vec<_> = (0..processors).map(|_| scope.spawn(worker)).collect();
        // A panic of a worker is a bug that the user should see.
        threads.into_iter().flat_map(|thread| thread.join().expect("a simulation panicked")).collect()
    });
    results.sort_by_key(|(n, _)| *n);
    results.into_iter().map(|(_, result)| result).collect()
}

/// Simulates `runs` consecutive seeds, beginning with that of `options`, on the available processors. Returns the
/// results in the order of the seeds.
fn under_seeds<R: Send>(
    options: &Options,
    runs: u64,
    simulate: impl Fn(u64) -> Result<R, Failure> + Sync,
) -> Result<Vec<R>, Failure> {
    let seeds: Vec<u64> = (options.seed..options.seed + runs).collect();
    in_parallel(&seeds, |&seed| simulate(seed)).into_iter().collect()
}

impl Experiment {
    /// Finds an experiment by its name.
    pub fn find(name: &str) -> Option<&'static Self> {
        EXPERIMENTS.iter().find(|experiment| experiment.name == name)
    }
    /// The experiment's README.
    pub fn page(&self) -> &'static str {
        self.page
    }
    /// Compares the verdicts of `items`, from a run with `options`, with the recorded ones. Returns a line for each
    /// difference. Items that depend on the machine are not compared.
    ///
    /// # Errors
    /// If no verdicts are recorded for this number of runs, or they are not readable.
    pub fn differences(&self, items: &[Item], options: &Options) -> Result<Vec<String>, String> {
        let (file, recorded) = match options.runs {
            runs if runs == self.runs => ("verdicts.csv", self.recorded),
            1 => ("verdicts-short.csv", self.recorded_short),
            runs => {
                let wanted = self.runs;
                return Err(format!(
                    "verdicts are recorded of {wanted} runs and of one, not of {runs}: leave out --runs"
                ));
            }
        };
        let here = |item: &&Item| self.on_this_machine.iter().any(|group| item.id.starts_with(group));
        let items: Vec<Item> = items.iter().filter(|item| !here(item)).cloned().collect();
        let found = verdicts::differences(&items, recorded, options.only.as_deref().unwrap_or_default());
        found.map_err(|wrong| format!("lab/papers/{}/{file}, {wrong}", self.name))
    }
    /// Runs the experiment and returns the items that the options ask for.
    ///
    /// # Errors
    /// If the experiment cannot run on this machine, or a plot cannot be written.
    pub fn run(&self, options: &Options) -> Result<Vec<Item>, Failure> {
        let mut items = (self.run)(options)?;
        (self.draw)(options, &items)?;
        items.retain(|item| options.wants(&item.id));
        Ok(items)
    }
    /// Draws the figures that plot items, from `items` that were measured earlier or on another machine.
    ///
    /// # Errors
    /// If a plot cannot be written.
    pub fn draw(&self, options: &Options, items: &[Item]) -> Result<(), Failure> {
        (self.draw)(options, items)
    }
}
