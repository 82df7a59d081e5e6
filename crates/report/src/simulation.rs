//! The results of a simulation: one page, and tables for notebooks.

use std::collections::BTreeMap;

use tidegate_metrics::{Curve, Value, summarise};

use crate::columns::{self, Column};
use crate::curves;
use crate::model::{Fold, Report, Section, Source, Table};
use crate::number::human;

/// A run: a seed, with the results of all variants.
#[derive(Clone, PartialEq, Debug)]
pub struct Run<'a> {
    /// The seed.
    pub seed: u64,
    /// Events that the simulator handled.
    pub events: u64,
    /// The digest of everything that was measured.
    pub digest: String,
    /// What was measured.
    pub values: &'a [Value],
    /// Series and distributions.
    pub curves: &'a [Curve],
}

/// All runs of a scenario.
#[derive(Clone, PartialEq, Debug)]
pub struct Simulation<'a> {
    /// The name of the scenario file.
    pub scenario: &'a str,
    /// One sentence on what it shows.
    pub sentence: Option<&'a str>,
    /// The version of Tidegate.
    pub version: &'static str,
    /// The simulated time.
    pub duration_ns: u64,
    /// The beginning that is not measured.
    pub warm_up_ns: u64,
    /// The digest of all runs.
    pub digest: String,
    /// The runs.
    pub runs: Vec<Run<'a>>,
}

/// A quantity over all runs.
#[derive(Clone, PartialEq, Debug)]
pub struct Quantity {
    /// The flow or link, with the name of the variant before it where there are variants.
    pub subject: String,
    /// The variant; empty where there are none.
    pub variant: String,
    /// What was measured.
    pub measure: String,
    /// Its unit.
    pub unit: &'static str,
    /// The mean over the runs that have it.
    pub mean: f64,
    /// Half the width of the 95 % confidence interval; `None` with one run.
    pub half_width_95: Option<f64>,
    /// The value of each run.
    pub values: Vec<Option<f64>>,
}

/// The number of runs whose curves are on a page; the values of all runs are.
const SHOWN: usize = 4;

impl Simulation<'_> {
    /// The values of all runs side by side, in the order of their first appearance.
    pub fn quantities(&self) -> Vec<Quantity> {
        let mut quantities: Vec<Quantity> = Vec::new();
        let mut known = BTreeMap::new();
        for (number, run) in self.runs.iter().enumerate() {
            for value in run.values {
                let index = *known.entry((value.label(), value.measure.as_str())).or_insert_with(|| {
                    quantities.push(Quantity {
                        subject: value.label(),
                        variant: value.variant.clone(),
                        measure: value.measure.clone(),
                        unit: value.unit,
                        mean: 0.0,
                        half_width_95: None,
                        values: vec![None; self.runs.len()],
                    });
                    quantities.len() - 1
                });
                quantities[index].values[number] = Some(value.value);
            }
        }
        for quantity in &mut quantities {
            let values: Vec<f64> = quantity.values.iter().copied().flatten().collect();
            if let Some(summary) = summarise(&values) {
                quantity.mean = summary.mean;
                quantity.half_width_95 = summary.half_width;
            }
        }
        quantities
    }

    /// The page, with the text of the scenario.
    pub fn page(&self, source: Source) -> Report {
        let seconds = |nanos: u64| human(nanos as f64 / 1e9, "s");
        let first = self.runs.first().map_or(0, |run| run.seed);
        let facts = [
            ("version", self.version.to_owned()),
            ("scenario", self.scenario.to_owned()),
            ("simulated", seconds(self.duration_ns)),
            ("of that not measured", seconds(self.warm_up_ns)),
            ("seed", first.to_string()),
            ("runs", self.runs.len().to_string()),
            ("events", self.runs.iter().map(|run| run.events).sum::<u64>().to_string()),
            ("digest", self.digest.clone()),
        ];
        let many = self.runs.len() > 1;
        let heads: &[&str] = if many {
            &["of", "what", ">mean", ">± 95 %", ">least run", ">greatest run"]
        } else {
            &["of", "what", ">measured"]
        };
        let mut table = Table::new("Values over all runs", heads.iter().copied());
        for item in self.quantities() {
            let say = |value: Option<f64>| value.map_or(String::new(), |value| human(value, item.unit));
            let values = || item.values.iter().copied().flatten();
            let row = [
                item.subject.clone(),
                item.measure.clone(),
                human(item.mean, item.unit),
                say(item.half_width_95),
                say(values().reduce(f64::min)),
                say(values().reduce(f64::max)),
            ];
            table.row(row.into_iter().take(heads.len()).map(Into::into));
        }
        let mut runs = Table::new("Runs", ["seed", ">events", "digest"]);
        for run in &self.runs {
            runs.row([run.seed.to_string().into(), run.events.to_string().into(), run.digest.clone().into()]);
        }
        let mut sections = vec![Section::new("Results").with(table)];
        for (n, run) in self.runs.iter().take(SHOWN).enumerate() {
            let (title, fold) =
                if n == 0 { (String::new(), Fold::Open) } else { (format!("Seed {}: ", run.seed), Fold::Closed) };
            let note = format!(
                "The run with seed {}. Rates, delays and queues are means over the width of a bin; the warm-up is \
                 not measured.",
                run.seed
            );
            let measured = curves::measured(run.curves, self.warm_up_ns as f64 / 1e9);
            let found = curves::sections(&title, &note, &measured, fold);
            sections.extend(found);
        }
        let mut last = Section::new("Runs").with(runs);
        if self.runs.len() > SHOWN {
            last = last.note(format!("Curves of the first {SHOWN} runs are above; the table has those of all."));
        }
        sections.push(last);
        Report {
            title: self.sentence.map_or_else(|| format!("Simulation of {}", self.scenario), str::to_owned),
            sentence: self.sentence.map(|_| format!("Simulation of {}", self.scenario)),
            facts: facts.into_iter().map(|(name, value)| (name.to_owned(), value)).collect(),
            sections,
            sources: vec![source],
        }
    }

    /// All values: a row is a value of a run.
    pub fn values(&self) -> columns::Table {
        let mut rows = Rows::default();
        self.runs.iter().for_each(|run| rows.values(run));
        rows.table(self.scenario).without(&["scenario", "kind", "part", "x", "x_unit"])
    }

    /// All curves: a row is a point.
    pub fn points(&self) -> columns::Table {
        let mut rows = Rows::default();
        self.runs.iter().for_each(|run| rows.points(run));
        rows.table(self.scenario).without(&["scenario"])
    }

    /// All values and all points as one table: a row is a value of a run, or a point of a curve.
    pub fn table(&self) -> columns::Table {
        let mut rows = Rows::default();
        for run in &self.runs {
            rows.values(run);
            rows.points(run);
        }
        rows.table(self.scenario)
    }
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

/// An empty text is a missing value.
fn text(text: &str) -> Option<String> {
    (!text.is_empty()).then(|| text.to_owned())
}

impl Rows {
    fn values(&mut self, run: &Run<'_>) {
        for value in run.values {
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

    fn points(&mut self, run: &Run<'_>) {
        for curve in run.curves {
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
