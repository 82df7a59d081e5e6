//! The steady state of a single run.

use tidegate_display::{Table, human};
use tidegate_metrics::{Steady, batch_means};

use crate::model::{Fold, Section};
use crate::simulation::Simulation;

/// The mean of a quantity in the steady state of one run.
#[derive(Clone, PartialEq, Debug)]
pub struct SteadyValue {
    /// The flow or link.
    pub subject: String,
    /// The variant; empty if there are none.
    pub variant: String,
    /// The quantity.
    pub measure: &'static str,
    /// Its unit.
    pub unit: &'static str,
    /// The mean over time and its confidence.
    pub found: Option<Steady>,
}

/// The note of a table of steady states.
const STEADY: &str = "Means over time of one run after the warm-up, with 95 % intervals from the means of 20 batches. Where \
    neighbouring batches are correlated the interval is too narrow: make the duration longer. Several runs need no batches.";

fn steady_table(all: &[SteadyValue]) -> Table {
    let heads = ["of", "what", ">mean", ">± 95 %", ">correlation", "batches"];
    let mut table = Table::new("Batch means", heads);
    for value in all {
        let Some(found) = value.found else { continue };
        let subject = if value.variant.is_empty() {
            value.subject.clone()
        } else {
            format!("{}: {}", value.variant, value.subject)
        };
        let long = if found.is_long_enough() { "long enough" } else { "too short" };
        let row = [
            subject,
            value.measure.to_owned(),
            human(found.mean, value.unit),
            human(found.half_width, value.unit),
            format!("{:.2}", found.correlation),
            long.to_owned(),
        ];
        table.row(row.map(Into::into));
    }
    table
}

impl Simulation<'_> {
    /// The means of a single run with their confidence by batch means: the goodput of watched flows, the throughput and the
    /// queueing of watched links. Empty with several runs, whose intervals need no batches.
    pub fn steady(&self) -> Vec<SteadyValue> {
        let [run] = self.runs.as_slice() else { return Vec::new() };
        let begin = self.warm_up_ns as f64 / 1e9;
        let mut sums: Vec<(SteadyValue, Vec<f64>)> = Vec::new();
        for curve in run.curves.iter().filter(|curve| curve.x == "time_s" && curve.points.len() > 1) {
            // Parts of a flow are its connections, and the colours of a link add up to its throughput.
            let adds = match (curve.measure, curve.part.as_str()) {
                ("goodput", _) | ("throughput", "green" | "yellow" | "red") => true,
                ("queueing", "") => false,
                _ => continue,
            };
            let values = curve.points.iter().filter(|point| point.0 >= begin).map(|point| point.1);
            let is_same = |known: &SteadyValue| {
                known.variant == curve.variant && known.subject == curve.subject && known.measure == curve.measure
            };
            match sums.iter_mut().find(|(known, _)| is_same(known)) {
                Some((_, sum)) if adds => {
                    let values: Vec<f64> = values.collect();
                    sum.resize(sum.len().max(values.len()), 0.0);
                    sum.iter_mut().zip(values).for_each(|(sum, value)| *sum += value);
                }
                Some(_) => {}
                None => {
                    let value = SteadyValue {
                        subject: curve.subject.clone(),
                        variant: curve.variant.clone(),
                        measure: curve.measure,
                        unit: if adds { "bps" } else { "ns" },
                        found: None,
                    };
                    sums.push((value, values.collect()));
                }
            }
        }
        let found = |(value, points): (SteadyValue, Vec<f64>)| SteadyValue { found: batch_means(&points), ..value };
        sums.into_iter().map(found).filter(|value| value.found.is_some()).collect()
    }

    /// The steady state as a section of a report; `None` with several runs, or where nothing was measured over time.
    pub(crate) fn steady_section(&self) -> Option<Section> {
        let steady = self.steady();
        (!steady.is_empty()).then(|| {
            let section = Section::new("Steady state of the run").note(STEADY).with(steady_table(&steady));
            Section { fold: Fold::Closed, ..section }
        })
    }
}
