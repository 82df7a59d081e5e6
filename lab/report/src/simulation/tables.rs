//! The tables of a simulation and of a sweep, for notebooks.

use std::collections::{BTreeMap, HashSet};

use tidegate_metrics::{Digest, Value};

use super::{Run, Simulation};
use crate::columns::{self, Column};
use crate::curves;

impl Simulation<'_> {
    /// A table of all values, with a row for each value of each run.
    pub fn values(&self) -> columns::Table {
        let mut rows = Rows::default();
        for (run, zeros) in self.runs.iter().zip(self.zeros()) {
            rows.values(run, &zeros);
        }
        rows.table(self.scenario).without(&["scenario", "kind", "part", "x", "x_unit"])
    }

    /// The counts of each run that are 0, which it omits and other runs have.
    fn zeros(&self) -> Vec<Vec<Value>> {
        let name = |value: &Value| (value.label(), value.measure.clone());
        let known = self.runs.iter().map(|run| run.values.iter().map(name).collect::<HashSet<_>>());
        let known: Vec<_> = known.collect();
        let mut zeros = vec![Vec::new(); self.runs.len()];
        for of in self.quantities().into_iter().filter(|of| of.unit == "packets") {
            let subject = of.plain().to_owned();
            let zero = Value { variant: of.variant, subject, measure: of.measure, unit: of.unit, value: 0.0 };
            for (number, _) in of.values.iter().enumerate().filter(|(_, value)| **value == Some(0.0)) {
                if !known[number].contains(&name(&zero)) {
                    zeros[number].push(zero.clone());
                }
            }
        }
        zeros
    }

    /// A table of all curves, with a row for each point.
    pub fn points(&self) -> columns::Table {
        let mut rows = Rows::default();
        self.runs.iter().for_each(|run| rows.points(run, self.warm_up_ns));
        rows.table(self.scenario).without(&["scenario"])
    }

    /// A table of all values and points, with a row for each value of each run and each point of a curve.
    pub fn table(&self) -> columns::Table {
        let mut rows = Rows::default();
        for (run, zeros) in self.runs.iter().zip(self.zeros()) {
            rows.values(run, &zeros);
            rows.points(run, self.warm_up_ns);
        }
        rows.table(self.scenario)
    }
}

/// Creates a table of runs of a sweep, each of which is given with the paths and values of its axes. There is a column
/// for each axis, then
/// `seed`, `variant`, `subject`, `measure`, `value`, `unit`, and `digest`, which is that of a simulation with this run
/// alone. `primary` has the quantities that the scenario names before its first run.
pub fn sweep_rows<'a>(
    runs: impl IntoIterator<Item = (&'a [(String, String)], Run<'a>)>,
    primary: &[String],
) -> columns::Table {
    let runs: Vec<_> = runs.into_iter().collect();
    let mut points: BTreeMap<&[(String, String)], Vec<usize>> = BTreeMap::new();
    runs.iter().enumerate().for_each(|(number, (values, _))| points.entry(*values).or_default().push(number));
    let mut zeros = vec![Vec::new(); runs.len()];
    for places in points.into_values() {
        let all =
            Simulation { runs: places.iter().map(|place| runs[*place].1.clone()).collect(), ..Simulation::default() };
        places.into_iter().zip(all.zeros()).for_each(|(place, of_run)| zeros[place] = of_run);
    }
    let mut rows = Rows::default();
    let mut axes: Vec<(&str, Vec<Option<String>>)> = Vec::new();
    let mut digests = Vec::new();
    for ((values, run), zeros) in runs.into_iter().zip(zeros) {
        rows.values(&run, &zeros);
        let mut digest = Digest::default();
        Digest::from_hex(&run.digest).into_iter().for_each(|one| digest.digest(one));
        digests.resize(rows.seed.len(), Some(digest.to_string()));
        for (n, (path, value)) in values.iter().enumerate() {
            if n == axes.len() {
                axes.push((path, Vec::new()));
            }
            axes[n].1.resize(rows.seed.len(), Some(value.clone()));
        }
    }
    let mut table = columns::Table::default();
    for (path, values) in axes {
        table = table.with(path, Column::Text(values));
    }
    for (name, column) in rows.table("").without(&["scenario", "kind", "part", "x", "x_unit"]).columns() {
        table = table.with(name, column.clone());
    }
    columns::Table { primary: primary.to_vec(), ..table.with("digest", Column::Text(digests)) }
}

/// The columns of the tables.
#[derive(Default)]
struct Rows {
    seed: Vec<Option<u64>>,
    kind: Vec<Option<String>>,
    variant: Vec<Option<String>>,
    subject: Vec<Option<String>>,
    measure: Vec<Option<String>>,
    part: Vec<Option<String>>,
    x: Vec<Option<f64>>,
    x_unit: Vec<Option<String>>,
    value: Vec<Option<f64>>,
    unit: Vec<Option<String>>,
}

/// Converts an empty text to a missing value.
fn text(text: &str) -> Option<String> {
    (!text.is_empty()).then(|| text.to_owned())
}

impl Rows {
    fn values(&mut self, run: &Run<'_>, zeros: &[Value]) {
        for value in run.values.iter().chain(zeros) {
            self.seed.push(Some(run.seed));
            self.kind.push(text("value"));
            self.variant.push(text(&value.variant));
            self.subject.push(text(&value.subject));
            self.measure.push(text(&value.measure));
            self.part.push(None);
            self.x.push(None);
            self.x_unit.push(None);
            self.value.push(Some(value.value));
            self.unit.push(text(value.unit));
        }
    }

    /// Adds the points of the curves. What was before the end of the warm-up is not measured.
    fn points(&mut self, run: &Run<'_>, warm_up_ns: u64) {
        for curve in &curves::measured(run.curves, warm_up_ns as f64 / 1e9) {
            for point in &curve.points {
                self.seed.push(Some(run.seed));
                self.kind.push(text(if curve.x == "time_s" { "series" } else { "distribution" }));
                self.variant.push(text(&curve.variant));
                self.subject.push(text(&curve.subject));
                self.measure.push(text(curve.measure));
                self.part.push(text(&curve.part));
                self.x.push(Some(point.0));
                self.x_unit.push(text(curve.x));
                self.value.push(Some(point.1));
                self.unit.push(text(curve.y));
            }
        }
    }

    fn table(self, scenario: &str) -> columns::Table {
        columns::Table::default()
            .with("scenario", Column::Text(vec![text(scenario); self.seed.len()]))
            .with("seed", Column::Integer(self.seed))
            .with("kind", Column::Text(self.kind))
            .with("variant", Column::Text(self.variant))
            .with("subject", Column::Text(self.subject))
            .with("measure", Column::Text(self.measure))
            .with("part", Column::Text(self.part))
            .with("x", Column::Number(self.x))
            .with("x_unit", Column::Text(self.x_unit))
            .with("value", Column::Number(self.value))
            .with("unit", Column::Text(self.unit))
    }
}
