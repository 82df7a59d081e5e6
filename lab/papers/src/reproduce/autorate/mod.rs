//! A rate that follows the line, beside fixed rates, cake-autorate's algorithm and an oracle.
//!
//! `lab/papers/autorate/README.md` explains the lines, the systems, the aims and the results.

pub(super) mod lines;
mod live;
mod rig;
mod systems;

use super::item::{Bound, Sample, theory};
use super::{Item, Options, in_parallel};
use crate::Failure;
use lines::{LINES, Line};
use rig::{Load, Outcome};
use systems::System;

/// The name of the experiment on the command line.
pub const NAME: &str = "autorate";

/// One system on one line with one workload.
#[derive(Clone, Copy, Debug)]
pub struct Cell {
    /// The line.
    pub line: &'static Line,
    /// The workload.
    pub load: Load,
    /// The system.
    pub system: System,
}

/// The results of a cell for each measured direction and seed.
#[derive(Clone, Debug)]
pub struct Results {
    /// The cell.
    pub cell: Cell,
    /// By run, then by measured direction.
    pub runs: Vec<Vec<Outcome>>,
}

/// A measure of an outcome: its key, what it is, its unit.
type Measure = (&'static str, &'static str, &'static str, fn(&Outcome) -> f64);

const MEASURES: [Measure; 6] = [
    ("p50", "median wait in the modem's buffer", "ms", |outcome| outcome.wait[0]),
    ("p95", "95th percentile of the wait in the modem's buffer", "ms", |outcome| outcome.wait[1]),
    ("p99", "99th percentile of the wait in the modem's buffer", "ms", |outcome| outcome.wait[2]),
    ("used", "part of the capacity used", "share", |outcome| outcome.used),
    ("late", "part of the time above 50 ms", "share", |outcome| outcome.late),
    ("recovery", "longest time in one piece above 50 ms", "s", |outcome| outcome.recovery),
];

const WAYS: [&str; 2] = ["up", "down"];

impl Results {
    /// The mean of a measure over the runs.
    pub fn mean(&self, direction: usize, of: fn(&Outcome) -> f64) -> f64 {
        self.sample(direction, of).mean
    }
    fn sample(&self, direction: usize, of: fn(&Outcome) -> f64) -> Sample {
        Sample::of(self.runs.iter().map(|outcomes| of(&outcomes[direction])))
    }
}

/// Simulates the cells that `wanted` chooses, each with `runs` seeds from `seed` on.
///
/// # Errors
/// If a network cannot be built.
pub fn simulate(wanted: impl Fn(&Cell) -> bool, seed: u64, runs: u64) -> Result<Vec<Results>, Failure> {
    let mut cells = Vec::new();
    for line in &LINES {
        for load in Load::ALL {
            cells.extend(System::ALL.map(|system| Cell { line, load, system }));
        }
    }
    cells.retain(|cell| wanted(cell));
    let inputs: Vec<(Cell, u64)> =
        cells.iter().flat_map(|cell| (seed..seed + runs).map(|seed| (*cell, seed))).collect();
    let outcomes = in_parallel(&inputs, |(cell, seed)| rig::run(cell.line, cell.system, cell.load, *seed));
    let mut outcomes = outcomes.into_iter();
    cells
        .into_iter()
        .map(|cell| {
            let runs = outcomes.by_ref().take(runs as usize).collect::<Result<_, _>>()?;
            Ok(Results { cell, runs })
        })
        .collect()
}

fn id(cell: &Cell, way: usize) -> String {
    format!("{}.{}.{}.{}", cell.line.name, cell.load.name(), WAYS[way], cell.system.name())
}

/// Runs the experiment.
///
/// # Errors
/// If a network cannot be built.
pub fn run(options: &Options) -> Result<Vec<Item>, Failure> {
    // A claim compares the systems of a line and load.
    let [claims, worst, steady] = ["claim", "worst", "steady"].map(|group| options.wants(group));
    let wanted = |cell: &Cell| {
        claims
            || worst && is_bulk(cell)
            || steady && is_bulk(cell) && cell.line.name == CONSTANT
            || cell.load.directions().iter().any(|&way| options.wants(&id(cell, way)))
    };
    // The live part runs first, because namespaces can only be created while the process is single-threaded.
    let mut items = if options.wants("live") { live::run(options) } else { Vec::new() };
    let results = simulate(wanted, options.seed, options.runs.into())?;
    for result in &results {
        for (direction, &way) in result.cell.load.directions().iter().enumerate() {
            for (key, what, unit, of) in MEASURES {
                let id = format!("{}.{key}", id(&result.cell, way));
                let what = format!("{what}, {} on {}", result.cell.system.name(), result.cell.line.what);
                items.push(Item::sampled(id, what, unit, result.sample(direction, of)));
            }
        }
    }
    if claims {
        items.extend(self::claims(&results));
    }
    if worst {
        items.extend(self::worst(&results));
    }
    if steady {
        items.extend(self::steady(&results));
    }
    Ok(items)
}

/// The name of the line that does not change.
const CONSTANT: &str = "constant";

/// Whether it is a saturated line under our controller.
fn is_bulk(cell: &Cell) -> bool {
    cell.system == System::Tidegate && matches!(cell.load, Load::BulkUp | Load::BulkDown)
}

/// The worst that a saturated line has to expect, as the book states it: the largest 95th percentile of the wait in ms over all lines, and
/// the least part of the capacity used. The largest wait is that of a line that stands still for seconds.
const PUBLISHED: [(Load, f64, f64); 2] = [(Load::BulkUp, 700.0, 0.25), (Load::BulkDown, 700.0, 0.33)];

fn worst(results: &[Results]) -> Vec<Item> {
    let mut items = Vec::new();
    for (load, wait, used) in PUBLISHED {
        let of = |measure: fn(&Outcome) -> f64| {
            let bulk = results.iter().filter(move |result| is_bulk(&result.cell) && result.cell.load == load);
            bulk.map(move |result| result.mean(0, measure))
        };
        let id = |what: &str| format!("worst.{}.{what}", load.name());
        let basis = || theory("what the book states");
        let longest = of(|outcome| outcome.wait[1]).fold(0.0, f64::max);
        let what = "largest 95th percentile of the wait over all lines";
        items.push(Item::measured(id("wait"), what, "ms", longest).bound(Bound::at_most(wait, basis())));
        let least = of(|outcome| outcome.used).fold(1.0, f64::min);
        let what = "least part of the capacity used over all lines";
        items.push(Item::measured(id("used"), what, "share", least).bound(Bound::at_least(used, basis())));
    }
    items
}

/// A constant line: the rate is there within 10 s, and then varies by less than 5 %.
fn steady(results: &[Results]) -> Vec<Item> {
    let mut items = Vec::new();
    for result in results.iter().filter(|result| is_bulk(&result.cell) && result.cell.line.name == CONSTANT) {
        let id = |what: &str| format!("steady.{}.{what}", result.cell.load.name());
        let what = "time until each second's mean rate is within 5 % of the rate from 10 s on";
        let settles = result.sample(0, |outcome| outcome.settles);
        let bound = Bound::at_most(rig::SETTLED as f64, theory("it is to converge within 10 s"));
        items.push(Item::sampled(id("settles"), what, "s", settles).bound(bound));
        let what = "standard deviation of the rate from 10 s on, over its mean";
        let varies = result.sample(0, |outcome| outcome.varies);
        let bound = Bound::at_most(rig::NEAR, theory("it is to vary under 5 %"));
        items.push(Item::sampled(id("varies"), what, "share", varies).bound(bound));
    }
    items
}

/// The aims: at least nine tenths of the oracle's throughput with a short queue on LTE, and never more harmful than a fixed rate.
fn claims(results: &[Results]) -> Vec<Item> {
    let mut items = Vec::new();
    let find = |cell: &Cell, system: System| {
        results
            .iter()
            .find(|other| other.cell.line == cell.line && other.cell.load == cell.load && other.cell.system == system)
    };
    for ours in results.iter().filter(|result| result.cell.system == System::Tidegate) {
        let (cell, fixed) = (&ours.cell, [System::Least, System::Base, System::Most]);
        for (direction, &way) in cell.load.directions().iter().enumerate() {
            let name = format!("{}.{}.{}", cell.line.name, cell.load.name(), WAYS[way]);
            let p95 = ours.sample(direction, |outcome| outcome.wait[1]);
            let wait = |fixed: &&Results| fixed.mean(direction, |outcome| outcome.wait[1]);
            let worst = fixed.iter().filter_map(|system| find(cell, *system));
            if let Some(worst) = worst.max_by(|a, b| wait(a).total_cmp(&wait(b))) {
                // By pairs: all systems meet the same line under a seed.
                let worst = worst.sample(direction, |outcome| outcome.wait[1]);
                let more = p95.runs.iter().zip(&worst.runs).map(|(ours, worst)| ours - worst);
                let what =
                    format!("95th percentile of the wait over that of the most harmful fixed rate, {}", cell.line.what);
                let basis = theory("no more, but for a millisecond");
                let item = Item::sampled(format!("claim.harm.{name}"), what, "ms", Sample::of(more));
                items.push(item.bound(Bound::at_most(1.0, basis)));
            }
            if !matches!(cell.load, Load::BulkUp | Load::BulkDown) {
                continue;
            }
            if let Some(oracle) = find(cell, System::Oracle) {
                let used = |result: &Results| result.sample(direction, |outcome| outcome.used).runs;
                let parts = used(ours).into_iter().zip(used(oracle)).map(|(ours, oracle)| ours / oracle);
                let what = format!("throughput over that of the oracle, {}", cell.line.what);
                let basis = theory("the aim");
                items.push(
                    Item::sampled(format!("claim.used.{name}"), what, "ratio", Sample::of(parts))
                        .bound(Bound::at_least(0.9, basis)),
                );
                let what = format!("95th percentile of the wait, {}", cell.line.what);
                let basis = theory("the aim on LTE");
                items.push(
                    Item::sampled(format!("claim.wait.{name}"), what, "ms", p95).bound(Bound::at_most(30.0, basis)),
                );
            }
        }
    }
    items
}
