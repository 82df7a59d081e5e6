//! The runs of an artifact: those of a scenario, or of each point of a sweep.

use std::time::{Duration, Instant};

use tidegate_config::node::Node;
use tidegate_config::{Diagnostics, Source};
use tidegate_metrics::Digest;
use tidegate_report::columns::Table;
use tidegate_report::comparison::Comparison;
use tidegate_report::simulation::{Quantity, Simulation, by_subject, compared, compared_whole, sweep_rows};
use tidegate_report::{Report, Source as Text, swept};
use tidegate_sim::scenario::sweep::{Axis, Batch, Point, Sweep};
use tidegate_sim::scenario::{Detail, Outcome, Scenario};

use super::super::compare;
use super::super::simulate::{runs, shown};
use super::TABLE;
use super::inputs::{Inside, load};
use crate::Failure;

/// The most points of a sweep in an artifact: more cannot be compared.
const MOST_POINTS: usize = 40_000;

/// Which runs an artifact has.
pub struct Plan<'a> {
    /// The axes of a sweep, each as `--vary` has it; none for a scenario as it is.
    pub axes: &'a [String],
    /// The columns of the sweep whose values are compared; none for the variants or, without several, all.
    pub by: &'a [String],
    /// The first seed.
    pub seed: u64,
    /// The number of seeds.
    pub runs: u32,
    /// The number of runs in parallel; that of the processors if there is none.
    pub jobs: Option<u16>,
}

impl Plan<'_> {
    /// The sweep of a scenario, with a batch for each point; `None` without axes.
    ///
    /// # Errors
    /// If an axis is not one, or the scenario does not have its key.
    pub fn sweep(&self, source: &Source) -> Result<Option<Sweep>, Failure> {
        if self.axes.is_empty() {
            return Ok(None);
        }
        let axes = self.axes.iter().map(|text| Axis::of_text(text)).collect::<Result<Vec<_>, _>>();
        let node = Node::parse(source, &mut Diagnostics::new()).ok_or_else(|| Failure::Usage("no scenario".into()))?;
        let seeds = (0..u64::from(self.runs)).map(|n| self.seed.wrapping_add(n)).collect();
        let wrong = |why: String| Failure::Usage(format!("{}: {why}", source.name()));
        let sweep = Sweep::new(&node, axes.map_err(wrong)?, seeds, self.runs as usize).map_err(wrong)?;
        let points = sweep.batches();
        if points > MOST_POINTS {
            return Err(wrong(format!("{points} points of a sweep are too many, at most {MOST_POINTS}: choose some")));
        }
        Ok(Some(sweep))
    }
}

/// The outcomes at a point of a sweep, whose values of the axes it has; a scenario as it is has one point without any.
struct At {
    values: Vec<(String, String)>,
    outcomes: Vec<Outcome>,
}

/// A scenario that was run.
pub struct Ran {
    source: Source,
    pub scenario: Scenario,
    points: Vec<At>,
    /// The values of the axes in their order; none for a scenario as it is.
    order: Option<Vec<(String, Vec<String>)>>,
    by: Vec<String>,
    pub elapsed: Duration,
    pub jobs: usize,
}

/// The digest of runs.
fn digest<'a>(outcomes: impl IntoIterator<Item = &'a Outcome>) -> String {
    let mut all = Digest::default();
    outcomes.into_iter().for_each(|outcome| all.digest(outcome.digest));
    all.to_string()
}

impl Ran {
    /// Runs the scenario of an artifact, or the sweep of it.
    ///
    /// # Errors
    /// If it is wrong, names files outside of the folder, or was stopped before its end.
    pub fn new(inside: &Inside<'_>, plan: &Plan<'_>) -> Result<Self, Failure> {
        let (source, mut scenario) = load(inside)?;
        let processors = std::thread::available_parallelism().map_or(1, usize::from);
        let jobs = plan.jobs.map_or(processors, usize::from);
        let all = |scenario: &Scenario| -> Result<Vec<Outcome>, Failure> {
            scenario.check_runs(plan.runs as usize).map_err(Failure::Usage)?;
            let jobs = runs::Jobs { runs: jobs, threads: 1 };
            let made = runs::all(scenario, plan.seed, plan.runs as usize, jobs, None)?;
            match made.ended < made.wanted {
                true => Err(Failure::Failed(format!("stopped after {} of {} runs", made.ended, made.wanted))),
                false => Ok(made.outcomes),
            }
        };
        let begin = Instant::now();
        let (points, order) = match plan.sweep(&source)? {
            None => {
                // As for `simulate` with a report: figures may be of the flows of a link.
                scenario.detail = Detail::Parts;
                (vec![At { values: Vec::new(), outcomes: all(&scenario)? }], None)
            }
            Some(sweep) => {
                let at = |Point { values, text, .. }: &Point, named: String| -> Result<At, Failure> {
                    let scenario = inside.scenario(&Source::new(named, &**text))?;
                    Ok(At { values: values.clone(), outcomes: all(&scenario)? })
                };
                let point = |n: usize| {
                    let Batch { runs, .. } = sweep.batch(n).map_err(Failure::Usage)?;
                    runs.first().map(|point| at(point, point.named(source.name()))).transpose()
                };
                let points = (0..sweep.batches()).filter_map(|n| point(n).transpose()).collect::<Result<_, _>>()?;
                (points, Some(sweep.order()))
            }
        };
        Ok(Self { source, scenario, points, order, by: plan.by.to_vec(), elapsed: begin.elapsed(), jobs })
    }

    fn outcomes(&self) -> impl Iterator<Item = &Outcome> {
        self.points.iter().flat_map(|point| &point.outcomes)
    }

    /// The number of points of a sweep; `None` for a scenario as it is.
    pub fn points(&self) -> Option<usize> {
        self.order.is_some().then_some(self.points.len())
    }

    pub fn digest(&self) -> String {
        digest(self.outcomes())
    }
    /// The digest of each run, as if it were the only one.
    pub fn digests(&self) -> Vec<String> {
        self.outcomes().map(|outcome| digest([outcome])).collect()
    }

    /// The name of a run by its number in the order of [`digests`](Self::digests).
    pub fn name_of(&self, number: usize) -> String {
        let mut runs =
            self.points.iter().flat_map(|point| point.outcomes.iter().map(move |outcome| (point, outcome.seed)));
        let name = |(At { values, .. }, seed): (&At, u64)| {
            let values: String = values.iter().map(|(path, value)| format!(", {path}={value}")).collect();
            format!("seed {seed}{values}")
        };
        runs.nth(number).map_or(String::new(), name)
    }

    /// The notes on the runs of a scenario: which part of a trace they meet, for example. The runs of all points have the same seeds.
    pub fn notes(&self) -> Vec<String> {
        let first = self.points.iter().take(1).flat_map(|at| &at.outcomes);
        self.scenario.notes(first.map(|outcome| outcome.seed))
    }

    fn simulation(&self) -> Simulation<'_> {
        Simulation {
            scenario: self.source.name(),
            sentence: self.scenario.sentence.as_deref(),
            version: env!("CARGO_PKG_VERSION"),
            duration_ns: self.scenario.duration.as_nanos(),
            warm_up_ns: self.scenario.warm_up().as_nanos(),
            smooth: self.scenario.has_usual_bin,
            digest: self.digest(),
            notes: self.notes(),
            runs: self.outcomes().map(shown).collect(),
        }
    }

    /// The table of a sweep; `None` for a scenario as it is.
    pub fn table(&self) -> Option<Table> {
        let order = self.order.clone()?;
        let rows = self
            .points
            .iter()
            .flat_map(|point| point.outcomes.iter().map(move |outcome| (point.values.as_slice(), shown(outcome))));
        let mut table = sweep_rows(rows, &self.scenario.primary);
        table.order = order;
        Some(table)
    }

    /// The results of a sweep, as `tidegate sweep` writes them; `None` for a scenario as it is.
    ///
    /// # Errors
    /// If they cannot be written as Parquet.
    pub fn results(&self) -> Result<Option<Vec<u8>>, Failure> {
        let bytes = self.table().map(|table| table.parquet()).transpose();
        bytes.map_err(|error| Failure::Failed(format!("{TABLE}: {error}")))
    }

    /// The measured quantities.
    ///
    /// # Errors
    /// If a sweep has more points or combinations than can be compared.
    pub fn quantities(&self) -> Result<Vec<Quantity>, Failure> {
        match self.table() {
            None => Ok(self.simulation().quantities()),
            Some(table) => swept::quantities(&table, &[], &self.by)
                .map_err(|why| Failure::Usage(format!("{}: {}", self.source.name(), why))),
        }
    }

    /// The comparison of the variants, of a sweep at each of its points.
    ///
    /// # Errors
    /// As [`quantities`](Self::quantities).
    pub fn comparison(&self) -> Result<Comparison, Failure> {
        match self.points() {
            None => Ok(self.simulation().comparison()),
            Some(_) => Ok(compared("The points of the sweep", &self.quantities()?)),
        }
    }

    /// The comparison that claims are about: that of the variants, and that of the flows and links of each with each other.
    ///
    /// # Errors
    /// As [`quantities`](Self::quantities).
    pub fn claimable(&self) -> Result<Comparison, Failure> {
        let mut all = self.quantities()?;
        all.extend(by_subject(&all));
        Ok(compared_whole(&all))
    }

    /// # Errors
    /// As [`quantities`](Self::quantities).
    pub fn report(&self) -> Result<Report, Failure> {
        let text = Text { name: self.source.name().to_owned(), text: self.source.text().to_owned() };
        let primary = self.scenario.primary.clone();
        if self.points().is_none() {
            return Ok(Report { primary, ..self.simulation().page(text) });
        }
        let name = self.source.name();
        let title = self.scenario.sentence.clone().unwrap_or_else(|| format!("A sweep of {name}"));
        let report = compare::page(title, &self.comparison()?, &primary);
        Ok(Report { sources: vec![text], ..report })
    }
}
