//! The results of a simulation: its quantities, the comparison of its variants, a page, and tables for notebooks.

mod compared;
mod page;
mod tables;

use std::collections::{BTreeMap, BTreeSet};

use tidegate_metrics::{Curve, Value, summarise};

use crate::comparison::{Comparison, Estimate};

pub use compared::{compared, differences};
pub use page::DIFFERENCES;
pub use tables::sweep_rows;

/// The results of all variants with one seed.
#[derive(Clone, PartialEq, Debug)]
pub struct Run<'a> {
    /// The seed.
    pub seed: u64,
    /// The number of events that the simulator handled.
    pub events: u64,
    /// The digest of all measurements.
    pub digest: String,
    /// The measured values.
    pub values: &'a [Value],
    /// The measured series and distributions.
    pub curves: &'a [Curve],
}

/// All runs of a scenario.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct Simulation<'a> {
    /// The name of the scenario file.
    pub scenario: &'a str,
    /// One sentence about what the scenario shows.
    pub sentence: Option<&'a str>,
    /// The version of Tidegate.
    pub version: &'static str,
    /// The simulated time.
    pub duration_ns: u64,
    /// The time at the beginning that is not measured.
    pub warm_up_ns: u64,
    /// Whether the scenario leaves the width of bins open. If so, goodput is drawn in wider ones.
    pub smooth: bool,
    /// The digest of all runs.
    pub digest: String,
    /// How the number of runs and the warm-up were chosen, where a rule has chosen them.
    pub notes: Vec<String>,
    /// The runs.
    pub runs: Vec<Run<'a>>,
}

/// A quantity over all runs.
#[derive(Clone, PartialEq, Debug)]
pub struct Quantity {
    /// The flow or link, preceded by the name of the variant if there are variants.
    pub subject: String,
    /// The variant; empty if there are none.
    pub variant: String,
    /// The point of a sweep at which it was measured, such as `rate=2mbit`, if variants are compared at each point. The subject
    /// ends with it.
    pub point: String,
    /// The name of the measured quantity.
    pub measure: String,
    /// Its unit.
    pub unit: &'static str,
    /// The mean over the runs that have the quantity. A count of packets that a run omits is 0.
    pub mean: f64,
    /// Half the width of the 95 % confidence interval; `None` with one run.
    pub half_width_95: Option<f64>,
    /// The value of each run.
    pub values: Vec<Option<f64>>,
    /// The seed of each run; empty if the runs have none.
    pub seeds: Vec<u64>,
}

/// The unit of a value by its name in results; empty for a name that is none.
pub fn unit(text: &str) -> &'static str {
    ["bps", "ns", "packets", "1", "B", "bytes", "%"].into_iter().find(|known| *known == text).unwrap_or("")
}

impl Simulation<'_> {
    /// All quantities with their values in all runs, in the order of their first appearance. Those of a subject are together, also
    /// if some were not measured in the first run.
    pub fn quantities(&self) -> Vec<Quantity> {
        let mut quantities: Vec<Quantity> = Vec::new();
        let mut known = BTreeMap::new();
        let mut measured = BTreeSet::new();
        for (number, run) in self.runs.iter().enumerate() {
            for value in run.values {
                let label = value.label();
                measured.insert((label.clone(), number));
                let index = *known.entry((label, value.measure.as_str())).or_insert_with(|| {
                    quantities.push(Quantity {
                        subject: value.label(),
                        variant: value.variant.clone(),
                        point: String::new(),
                        measure: value.measure.clone(),
                        unit: value.unit,
                        mean: 0.0,
                        half_width_95: None,
                        values: vec![None; self.runs.len()],
                        seeds: self.runs.iter().map(|run| run.seed).collect(),
                    });
                    quantities.len() - 1
                });
                quantities[index].values[number] = Some(value.value);
            }
        }
        for quantity in &mut quantities {
            if quantity.unit == "packets" {
                // Runs omit counts that are 0. An interrupted run has no value of the subject at all.
                for (number, value) in quantity.values.iter_mut().enumerate().filter(|(_, value)| value.is_none()) {
                    *value = measured.contains(&(quantity.subject.clone(), number)).then_some(0.0);
                }
            }
            let values: Vec<f64> = quantity.values.iter().copied().flatten().collect();
            if let Some(summary) = summarise(&values) {
                quantity.mean = summary.mean;
                quantity.half_width_95 = summary.half_width;
            }
        }
        let mut places = BTreeMap::new();
        for (place, quantity) in quantities.iter().enumerate() {
            places.entry(quantity.subject.clone()).or_insert(place);
        }
        quantities.sort_by_key(|quantity| places.get(&quantity.subject).copied());
        quantities
    }

    /// States how many transfers were not completed, which completion times and their percentiles leave out: the slower a variant, the
    /// more of its longest ones. `None` if all were.
    pub fn unfinished(&self) -> Option<String> {
        let quantities = self.quantities();
        let of = |subject: &str, measure: &str| {
            quantities.iter().find(|one| one.subject == subject && one.measure == measure).map(|one| one.mean)
        };
        let part = |opened: &Quantity| {
            let left = opened.mean - of(&opened.subject, "completed")?;
            let number = |value: f64| tidegate_display::human(value, "");
            (left > 0.0).then(|| format!("{} {} of {}", opened.subject, number(left), number(opened.mean)))
        };
        let found: Vec<String> = quantities.iter().filter(|one| one.measure == "opened").filter_map(part).collect();
        let rest = "Completion times, slowdowns and transfers.csv leave these out.";
        (!found.is_empty())
            .then(|| format!("Transfers not completed, in the mean of a run: {}. {rest}", found.join("; ")))
    }

    /// Compares the variants by the most important measures, for each flow and the busiest links.
    pub fn comparison(&self) -> Comparison {
        compared("What was measured", &self.quantities())
    }
}

impl Quantity {
    /// A quantity of a single run without a seed. `subject` is without the variant, which may be empty.
    pub fn of_one_run(variant: &str, subject: &str, measure: &str, unit: &'static str, value: f64) -> Self {
        Self {
            subject: if variant.is_empty() { subject.to_owned() } else { format!("{variant}: {subject}") },
            variant: variant.to_owned(),
            point: String::new(),
            measure: measure.to_owned(),
            unit,
            mean: value,
            half_width_95: None,
            values: vec![Some(value)],
            seeds: Vec::new(),
        }
    }
    /// The subject without the variant.
    pub fn plain(&self) -> &str {
        let rest = self.subject.strip_prefix(self.variant.as_str()).and_then(|rest| rest.strip_prefix(": "));
        rest.unwrap_or(&self.subject)
    }
    fn estimate(&self) -> Estimate {
        let measured = self.values.iter().enumerate().filter(|(_, value)| value.is_some());
        let seeds = measured.filter_map(|(run, _)| self.seeds.get(run).copied()).collect();
        let estimate =
            Estimate::of_runs(self.mean, self.half_width_95, self.values.iter().flatten().copied().collect());
        let missing = self.values.iter().filter(|value| value.is_none()).count();
        Estimate { missing, ..estimate.with_seeds(seeds) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_run_without_a_count_counts_as_zero() {
        let value = |variant: &str, measure: &str, unit, value| Value {
            variant: variant.into(),
            subject: "link a->b".into(),
            measure: measure.into(),
            unit,
            value,
        };
        let dropped = |packets| value("red", "dropped for early", "packets", packets);
        let throughput = value("red", "throughput", "bps", 1e6);
        let delay = value("red", "queueing mean", "ns", 5.0);
        let runs = [
            vec![throughput.clone(), dropped(11.0), delay],
            vec![throughput.clone(), dropped(1.0)],
            vec![throughput],
            // This run was interrupted before the variant.
            vec![value("fifo", "throughput", "bps", 1e6)],
        ];
        let run = |values| Run { seed: 1, events: 0, digest: String::new(), values, curves: &[] };
        let simulation = Simulation {
            scenario: "test",
            sentence: None,
            version: "0",
            duration_ns: 1,
            warm_up_ns: 0,
            smooth: false,
            digest: String::new(),
            notes: Vec::new(),
            runs: runs.iter().map(|values| run(values)).collect(),
        };
        let quantities = simulation.quantities();
        let quantity = |measure| quantities.iter().find(|quantity| quantity.measure == measure).unwrap();
        let dropped = quantity("dropped for early");
        assert_eq!((dropped.mean, dropped.values[..].to_vec()), (4.0, vec![Some(11.0), Some(1.0), Some(0.0), None]));
        assert_eq!(quantity("queueing mean").mean, 5.0, "no packet has a delay in the other runs");
        // A value that only a later run has stands with the rest of its subject.
        let late = [vec![value("", "throughput", "bps", 1e6)], vec![value("", "marked", "packets", 1.0)]];
        let other = Value { subject: "link b->a".into(), ..value("", "throughput", "bps", 1e6) };
        let late = [vec![late[0][0].clone(), other], late[1].clone()];
        let simulation = Simulation { runs: late.iter().map(|values| run(values)).collect(), ..simulation };
        let order: Vec<String> = simulation
            .quantities()
            .into_iter()
            .map(|quantity| format!("{} {}", quantity.subject, quantity.measure))
            .collect();
        assert_eq!(order, ["link a->b throughput", "link a->b marked", "link b->a throughput"]);
    }

    /// Percentiles of completion are of what was completed, and a variant that completes less says so.
    #[test]
    fn transfers_that_were_not_completed_are_counted() {
        let run = |completed: f64| {
            [("opened", 259.0), ("completed", completed)].map(|(measure, value)| Value {
                variant: "fifo".into(),
                subject: "flow short".into(),
                measure: measure.into(),
                unit: "1",
                value,
            })
        };
        let said = |runs: &[[Value; 2]]| {
            let run = |values| Run { seed: 1, events: 0, digest: String::new(), values, curves: &[] };
            Simulation { runs: runs.iter().map(|values| run(values)).collect(), ..Simulation::default() }.unfinished()
        };
        let found = said(&[run(256.0), run(257.0)]).expect("five of two runs");
        assert!(found.contains("fifo: flow short 2.5 of 259. Completion times"), "{found}");
        assert_eq!(said(&[run(259.0)]), None);
    }

    /// The page of several runs says how it was decided, and that of one that nothing was.
    #[test]
    fn the_page_of_one_run_says_that_it_tells_nothing_apart() {
        use crate::model::Source;
        let values: Vec<Value> = [("fifo", 1e6), ("codel", 2e6)]
            .map(|(variant, value)| Value {
                variant: variant.into(),
                subject: "flow bulk".into(),
                measure: "goodput".into(),
                unit: "bps",
                value,
            })
            .into();
        let run = |seed| Run { seed, events: 0, digest: String::new(), values: &values, curves: &[] };
        let page = |runs: Vec<Run<'_>>| {
            Simulation { runs, ..Simulation::default() }
                .page(Source { name: String::new(), text: String::new() })
                .html()
        };
        assert!(page(vec![run(1)]).contains("One run tells nothing apart"));
        assert!(!page(vec![run(1), run(2)]).contains("One run tells nothing apart"));
    }
}
