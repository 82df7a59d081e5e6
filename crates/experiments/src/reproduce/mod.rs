//! The experiments of the papers, the paper's value beside ours.

mod cbq;
mod faults;
mod fbq;
mod mice;
pub mod output;
mod pacing;
mod rfc2963;

use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError};

use serde::Serialize;
use tidegate_report::Plot;

use crate::Failure;

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
    /// The page that the table of an experiment is written into, if it has one.
    pub page: Option<PathBuf>,
}

/// Where the plots of an experiment go.
#[derive(Debug, Default)]
pub struct Gallery {
    folder: Option<PathBuf>,
    /// Those of a report, if there is to be one.
    kept: Option<Mutex<Vec<Plot>>>,
}

impl Gallery {
    /// Plots go into `folder`, if there is one; with `keep` they are kept for a report, too.
    pub fn new(folder: Option<PathBuf>, keep: bool) -> Self {
        Self { folder, kept: keep.then(Mutex::default) }
    }
    /// Whether plots are written.
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
            let path = folder.join(format!("{name}.svg"));
            let written = std::fs::write(&path, plot.svg());
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
    /// The unit of the value.
    pub unit: String,
    /// The paper's value, where it states a number.
    pub paper: Option<f64>,
    /// Ours; null when it could not be measured here.
    pub measured: Option<f64>,
    /// The least that `measured` may be; the experiment's page has the reason for the bound.
    pub low: Option<f64>,
    /// The most that `measured` may be.
    pub high: Option<f64>,
    /// Whether it is within the bounds; null when it could not be measured here.
    pub holds: Option<bool>,
    /// A remark: why it deviates, what the machine lacks.
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
    /// Returns the row with a note.
    #[must_use]
    pub fn note(mut self, note: impl Into<String>) -> Self {
        self.note = note.into();
        self
    }
}

/// An experiment: its name, the sentence that captions it, and how to run it.
#[derive(Debug)]
pub struct Experiment {
    /// What it is called on the command line.
    pub name: &'static str,
    /// The sentence that captions it.
    pub sentence: &'static str,
    /// Its page: what is expected, what was found, where the bounds come from.
    page: &'static str,
    run: fn(&Options) -> Result<Vec<Item>, Failure>,
}

/// Every experiment there is, one line each.
pub const EXPERIMENTS: &[Experiment] = &[
    Experiment {
        name: "fbq",
        page: include_str!("../../../../experiments/fbq/README.md"),
        sentence: fbq::SENTENCE,
        run: fbq::run,
    },
    Experiment {
        name: "cbq",
        page: include_str!("../../../../experiments/cbq/README.md"),
        sentence: "A CBQ router: each defect of 1999 and its cure, and link sharing as of 1995",
        run: cbq::run,
    },
    Experiment {
        name: "faults",
        page: include_str!("../../../../experiments/faults/README.md"),
        sentence: faults::SENTENCE,
        run: faults::run,
    },
    Experiment {
        name: "mice",
        page: include_str!("../../../../experiments/mice/README.md"),
        sentence: "Short transfers among long ones: Mice and Elephants beside its peers",
        run: mice::run,
    },
    Experiment {
        name: "pacing",
        page: include_str!("../../../../experiments/pacing/README.md"),
        sentence: "Pacing a sender on a sleep of 10 ms: DT0 loses to it, DT1, DT2 and AT0 do not (SMLI TR-99-77)",
        run: pacing::run,
    },
    Experiment {
        name: "rfc2963",
        page: include_str!("../../../../experiments/rfc2963/README.md"),
        sentence: "A rate adaptive shaper before a three colour marker, at ten customers of a 70 Mbit/s backbone",
        run: rfc2963::run,
    },
];

impl Experiment {
    /// The experiment of that name.
    pub fn find(name: &str) -> Option<&'static Self> {
        EXPERIMENTS.iter().find(|experiment| experiment.name == name)
    }
    /// Runs it. The items are those that the options ask for.
    ///
    /// # Errors
    /// When the machine does not let it be run, or a plot cannot be written.
    pub fn run(&self, options: &Options) -> Result<Vec<Item>, Failure> {
        let mut items = (self.run)(options)?;
        items.retain(|item| options.wants(&item.id));
        Ok(items)
    }
}
