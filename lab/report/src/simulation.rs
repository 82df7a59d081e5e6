//! The results of a simulation: its quantities, the comparison of its variants, a page, and tables for notebooks.

mod compared;
mod left;
mod page;
mod tables;

use std::collections::{BTreeMap, BTreeSet};

use tidegate_metrics::{Curve, Value, summarise};

use crate::comparison::{Comparison, Estimate, bin};

use compared::are_repeated;
pub(crate) use compared::better;
pub use compared::{by_subject, compared, compared_by_all, compared_whole, differences, kinds_of};
pub use left::{Left, cautions, counted_by, mark_left, unfinished};
pub(crate) use left::{is_count, together};
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
    /// The mean over the runs that have the quantity; infinity if one of them did not reach it. A count of packets that a run omits
    /// is 0.
    pub mean: f64,
    /// Half the width of the 95 % confidence interval; `None` with one run, or if the runs differ in nothing, so that they are one.
    pub half_width_95: Option<f64>,
    /// The value of each run; infinity for a percentile that it did not reach.
    pub values: Vec<Option<f64>>,
    /// The seed of each run; empty if the runs have none.
    pub seeds: Vec<u64>,
    /// The transfers or pages that were not completed, if not all were and it is a number of them or one of their times.
    pub left: Option<Left>,
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
                        left: None,
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
                quantity.half_width_95 = summary.half_width.filter(|half| half.is_finite());
            }
            // Equal values have no width, whatever the rounding of their mean.
            if let [first, rest @ ..] = values.as_slice()
                && !rest.is_empty()
                && first.is_finite()
                && rest.iter().all(|value| value == first)
            {
                (quantity.mean, quantity.half_width_95) = (*first, Some(0.0));
            }
        }
        // Runs that differ in nothing are one run.
        if are_repeated(quantities.iter()) {
            quantities.iter_mut().for_each(|quantity| quantity.half_width_95 = None);
        }
        mark_left(&mut quantities);
        let mut places = BTreeMap::new();
        for (place, quantity) in quantities.iter().enumerate() {
            places.entry(quantity.subject.clone()).or_insert(place);
        }
        quantities.sort_by_key(|quantity| places.get(&quantity.subject).copied());
        quantities
    }

    /// States what was not completed, and what this means; see [`unfinished`].
    pub fn unfinished(&self) -> Option<String> {
        unfinished(self.quantities().iter())
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
            left: None,
        }
    }
    /// The seeds of the runs that did not reach it.
    pub fn not_reached(&self) -> Vec<u64> {
        let runs = self.values.iter().zip(&self.seeds);
        runs.filter(|(value, _)| **value == Some(f64::INFINITY)).map(|(_, seed)| *seed).collect()
    }
    /// The subject without the variant.
    pub fn plain(&self) -> &str {
        let rest = self.subject.strip_prefix(self.variant.as_str()).and_then(|rest| rest.strip_prefix(": "));
        rest.unwrap_or(&self.subject)
    }
    /// The subject without the variant and the point of a sweep.
    fn name(&self) -> &str {
        let plain = self.plain();
        let rest = plain.strip_suffix(self.point.as_str()).and_then(|rest| rest.strip_suffix(" at "));
        rest.unwrap_or(plain)
    }
    /// The subject with the variant, and without the point of a sweep.
    pub(crate) fn without_point(&self) -> &str {
        let rest = self.subject.strip_suffix(self.point.as_str()).and_then(|rest| rest.strip_suffix(" at "));
        rest.unwrap_or(&self.subject)
    }
    /// The values of all runs.
    pub(crate) fn estimate(&self) -> Estimate {
        let is_of_completed = self.measure.ends_with(" mean") && self.values.len() > 1 && self.left.is_some();
        let measured = self.values.iter().enumerate().filter(|(_, value)| value.is_some());
        let seeds = measured.filter_map(|(run, _)| self.seeds.get(run).copied()).collect();
        let values: Vec<f64> = self.values.iter().flatten().copied().collect();
        let open = values.iter().filter(|value| value.is_infinite()).count();
        let open = (self.mean == f64::INFINITY).then_some((open, values.len()));
        let estimate = Estimate { open, ..Estimate::of_runs(self.mean, self.half_width_95, values) };
        let missing = self.values.iter().filter(|value| value.is_none()).count();
        let by_factors = ["ns", "bps"].contains(&self.unit) || self.measure.starts_with("slowdown ");
        Estimate { missing, is_of_completed, by_factors, bin: bin(&self.measure), ..estimate.with_seeds(seeds) }
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
        // So do its rows in the table of a sweep, where another point has not dropped for this reason in any run.
        let at = |rate: &str| vec![("link.1.rate".to_owned(), rate.to_owned())];
        let (two, five) = (at("2mbit"), at("5mbit"));
        let of_sweep = runs[..3].iter().map(|values| (two.as_slice(), run(values)));
        let table = sweep_rows(of_sweep.chain([(five.as_slice(), run(&runs[2]))]), &[]);
        let counts: Vec<f64> = (0..table.known("value").expect("values").len())
            .filter(|row| table.known("measure").expect("measures").text(*row).as_deref() == Some("dropped for early"))
            .filter_map(|row| table.known("value").expect("values").text(row)?.parse().ok())
            .collect();
        assert_eq!(counts, [11.0, 1.0, 0.0]);
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

    /// The mean of three equal values may differ from them in its last digit, which is no interval.
    #[test]
    fn equal_values_have_no_width() {
        let values = [Value {
            variant: String::new(),
            subject: "flow bulk".into(),
            measure: "loss".into(),
            unit: "%",
            value: 62.0 / 2079.0 * 100.0,
        }];
        let with_time = |seed: u64| {
            let time = Value { measure: "jitter".into(), unit: "ns", value: seed as f64, ..values[0].clone() };
            [values[0].clone(), time]
        };
        let made: Vec<[Value; 2]> = (1..=7).map(with_time).collect();
        let run = |values| Run { seed: 1, events: 0, digest: String::new(), values, curves: &[] };
        let simulation = Simulation { runs: made.iter().map(|of| run(of)).collect(), ..Simulation::default() };
        let found = &simulation.quantities()[0];
        assert_eq!((found.mean, found.half_width_95), (values[0].value, Some(0.0)));
        // Runs that are equal in everything are one, which has no interval.
        let simulation = Simulation { runs: (1..=7).map(|_| run(&values[..])).collect(), ..Simulation::default() };
        assert_eq!(simulation.quantities()[0].half_width_95, None);
    }

    /// Two of four runs of one variant did not reach the percentile: it has no mean and no star, and the others are judged
    /// without it. Where it is behind them by the runs, that is said.
    #[test]
    fn what_was_not_reached_has_no_mean_and_a_test_up_to_a_limit() {
        let run = |seed: u64, open: bool| {
            let value = |variant: &str, value: f64| Value {
                variant: variant.into(),
                subject: "flow short".into(),
                measure: "completion p99".into(),
                unit: "ns",
                value,
            };
            let fifo = if open { f64::INFINITY } else { 1e9 };
            (
                seed,
                vec![
                    value("fifo", fifo),
                    value("pie", 3e9 + seed as f64 * 2e6),
                    value("cake", 2e9 + seed as f64 * 1e6),
                ],
            )
        };
        let made = [run(1, false), run(2, true), run(3, false), run(4, true)];
        let runs = made.iter().map(|(seed, values)| Run {
            seed: *seed,
            events: 0,
            digest: String::new(),
            values,
            curves: &[],
        });
        let simulation = Simulation { runs: runs.collect(), ..Simulation::default() };
        let quantities = simulation.quantities();
        assert_eq!((quantities[0].mean, quantities[0].half_width_95), (f64::INFINITY, None));
        assert_eq!(quantities[0].not_reached(), [2, 4]);
        let comparison = simulation.comparison();
        let said = comparison.sentences();
        assert_eq!(
            said,
            [
                "completion p99 of flow short: cake has the least, 2 s; pie has 3 s, 1.50 (1.49 to 1.52) times as much; not \
              reached by fifo in 2 of 4 runs, not told apart from cake"
            ]
        );
        // Four runs do not tell cake and fifo apart.
        assert_eq!(comparison.groups[0].best(0, &comparison.family()), ["cake", "fifo"]);
        // The runs of fifo that did not reach it count with 3.008 s, the longest of any, and are no further from the others than those that did.
        let contrasts = comparison.contrasts();
        assert_eq!(contrasts.len(), 3);
        assert!(contrasts.iter().all(|found| found.stated.is_some_and(|stated| stated.comparisons == 3)));
        let limits: Vec<Option<f64>> = contrasts.iter().map(|found| found.limit).collect();
        assert_eq!(limits, [Some(3.008e9), Some(3.008e9), None]);
        assert_eq!(contrasts[0].means[0], f64::INFINITY);
        assert_eq!(differences(&quantities, &comparison).len(), 3);
        let note = comparison.fewer_runs();
        assert_eq!(note.as_deref(), Some("Not reached: completion p99 of flow short: fifo in 2 of 4 runs."));
        let latex = comparison.latex(&crate::Look::page());
        assert!(latex.contains("fifo & \\perhaps{n.r.}\\ (2/4) \\\\"), "{latex}");
        assert!(comparison.markdown().contains("| fifo | *n.r.* (2/4) |"), "{}", comparison.markdown());
        for form in ["bars", "box"] {
            let look = crate::Look::parse(&format!("column,form={form}")).expect("a look");
            let drawing = comparison.figure(&crate::palette::Pens::default(), &look).expect("an axis").expect("runs");
            assert_eq!(drawing.misplaced(), Vec::<String>::new(), "{form}");
            let svg = drawing.svg();
            assert!(!svg.contains("inf") && !svg.contains("NaN"), "{form}: {svg}");
            // The note has in how many runs.
            let texts = drawing.shapes.iter().filter_map(|shape| match shape {
                crate::drawing::Shape::Text { text, .. } => Some(text.as_str()),
                _ => None,
            });
            let said = texts.collect::<Vec<_>>().join(" ");
            // Where enough runs reached it they are drawn, and the others are beyond the axis.
            let beside = if form == "box" { "fifo: 2 of 4 not reached" } else { "not reached" };
            assert!(said.contains(beside), "{form}: {said}");
            assert!(said.contains("Not reached: completion p99 of flow short: fifo in 2 of 4 runs."), "{form}: {said}");
        }
    }

    /// A slow variant leaves its longest transfers out of its mean, which is therefore not tested, as a percentile that is not reached.
    #[test]
    fn the_mean_of_what_was_completed_is_not_tested() {
        let of = |variant: &str, measure: &str, value: f64| Value {
            variant: variant.into(),
            subject: "flow short".into(),
            measure: measure.into(),
            unit: if measure.starts_with("completion ") { "ns" } else { "1" },
            value,
        };
        let said = |completed: f64| {
            let made: Vec<(u64, Vec<Value>)> = (1..=5)
                .map(|seed| {
                    let all = ["fifo", "cake"].into_iter().zip([(completed, 2e9), (30.0, 1e9)]);
                    let of_variant = |(name, (completed, mean))| {
                        let mean = mean + seed as f64 * mean / 1e3;
                        [
                            ("completion p50", mean),
                            ("completion mean", mean),
                            ("opened", 30.0),
                            ("completed", completed),
                        ]
                        .map(|(measure, value)| of(name, measure, value))
                    };
                    (seed, all.flat_map(of_variant).collect())
                })
                .collect();
            let runs = made.iter().map(|(seed, values)| Run {
                seed: *seed,
                events: 0,
                digest: String::new(),
                values,
                curves: &[],
            });
            let simulation = Simulation { runs: runs.collect(), ..Simulation::default() };
            let look = crate::Look::parse("subject=flow short,measure=completion mean").expect("a look");
            let chosen = look.comparison(&simulation.comparison()).expect("a part");
            let tests = differences(&simulation.quantities(), &chosen);
            let of_mean = tests.iter().filter(|of| of.measure == "completion mean").count();
            (chosen.sentences(), chosen.stated().len(), of_mean)
        };
        let (sentences, stated, tests) = said(8.0);
        assert_eq!(
            sentences,
            [
                "completion mean of flow short: cake has the least, 1.003 s; fifo has 2.006 s, 2.0 times as much; not tested, because these \
              are means of what was completed, and not all was by fifo"
            ]
        );
        assert_eq!((stated, tests), (0, 0));
        let (sentences, stated, tests) = said(30.0);
        assert!(!sentences[0].contains("not tested"), "{sentences:?}");
        assert_eq!((stated, tests), (1, 1));
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
