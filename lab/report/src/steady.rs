//! The steady state of a single run.

use tidegate_display::{Table, human, human_columns, unit_of};
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
    /// Its quantiles over packets, if its distribution was measured.
    pub quantiles: Vec<Quantile>,
}

/// A quantile in the steady state of one run, with an approximate 95 % interval.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Quantile {
    /// The name: `p50` or `p99`.
    pub name: &'static str,
    /// The share of the values that are at most it.
    pub share: f64,
    /// The quantile.
    pub value: f64,
    /// The interval, which is not symmetrical.
    pub interval: (f64, f64),
}

/// The quantiles of a steady state.
const QUANTILES: [(&str, f64); 2] = [("p50", 0.5), ("p99", 0.99)];

impl Quantile {
    /// The quantiles of `distribution`, pairs of a value and the share of the values that are at most it, in ascending order.
    ///
    /// `n` independent values leave the share `q` below a quantile uncertain by `t sqrt(q (1 - q) / n)`, and the mean by
    /// `t sigma / sqrt(n)`. Successive delays are correlated, so that a run is worth fewer values than it has. How many follows
    /// from the interval of the mean by batches, `half_width`: the share is uncertain by `half_width sqrt(q (1 - q)) / sigma`.
    /// That is exact where being below the quantile is as correlated as the values are; tails are less.
    fn of(distribution: &[(f64, f64)], half_width: f64) -> Vec<Self> {
        let below = |share: f64| {
            let found = distribution.iter().find(|(_, up_to)| *up_to >= share);
            found.or(distribution.last()).map(|(value, _)| *value)
        };
        let shares = distribution.iter().scan(0.0, |before, (value, up_to)| {
            let share = up_to - *before;
            *before = *up_to;
            Some((*value, share))
        });
        let (mean, square) = shares
            .fold((0.0, 0.0), |(mean, square), (value, share)| (mean + share * value, square + share * value * value));
        let sigma = (square - mean * mean).max(0.0).sqrt();
        let of = |(name, share): (&'static str, f64)| {
            let apart = if sigma > 0.0 { half_width / sigma * (share * (1.0 - share)).sqrt() } else { 0.0 };
            let interval = (below(share - apart)?, below(share + apart)?);
            Some(Self { name, share, value: below(share)?, interval })
        };
        QUANTILES.into_iter().filter_map(of).collect()
    }
}

/// The note of a table of steady states.
const STEADY: &str = "Means over time of one run after the warm-up, with 95 % intervals from the means of 20 batches. Where \
    neighbouring batches are correlated the interval is too narrow: make the duration longer. Intervals of quantiles assume \
    that the run is worth as many independent packets as it is for the mean. Several runs need no batches.";

fn steady_table(all: &[SteadyValue]) -> Table {
    let heads = ["of", "what", ">mean or quantile", ">95 %", ">correlation", "batches"];
    let mut table = Table::new("Batch means", heads);
    for value in all {
        let Some(found) = value.found else { continue };
        let subject = if value.variant.is_empty() {
            value.subject.clone()
        } else {
            format!("{}: {}", value.variant, value.subject)
        };
        let long = if found.is_long_enough() { "long enough" } else { "too short" };
        let unit = unit_of(found.mean.abs().max(found.half_width), value.unit);
        let [mean, half] = human_columns(found.mean, Some(found.half_width), 0.0, unit);
        let row = [
            subject.clone(),
            value.measure.to_owned(),
            mean,
            if half.is_empty() { "equal".to_owned() } else { format!("\u{b1} {half}") },
            format!("{:.2}", found.correlation),
            long.to_owned(),
        ];
        table.row(row.map(Into::into));
        for quantile in &value.quantiles {
            let (low, high) = quantile.interval;
            let row = [
                subject.clone(),
                format!("{} {}", value.measure, quantile.name),
                human(quantile.value, value.unit),
                format!("{} to {}", human(low, value.unit), human(high, value.unit)),
                String::new(),
                String::new(),
            ];
            table.row(row.map(Into::into));
        }
    }
    table
}

impl Simulation<'_> {
    /// The means of a single run with their confidence by batch means: the goodput of watched flows, the throughput and the
    /// queueing of watched links, and the quantiles of the latter. Empty with several runs, whose intervals need no batches.
    pub fn steady(&self) -> Vec<SteadyValue> {
        let [run] = self.runs.as_slice() else { return Vec::new() };
        let begin = self.warm_up_ns as f64 / 1e9;
        let mut sums: Vec<(SteadyValue, Vec<f64>)> = Vec::new();
        for curve in run.curves.iter().filter(|curve| curve.x == "time_s" && curve.points.len() > 1) {
            // Parts of a flow are its connections, and the colours of a link add up to its throughput.
            let adds = match (curve.measure, curve.part.as_str()) {
                ("goodput", _) | ("throughput", "" | "green" | "yellow" | "red") => true,
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
                        quantiles: Vec::new(),
                    };
                    sums.push((value, values.collect()));
                }
            }
        }
        let distribution = |of: &SteadyValue| {
            run.curves.iter().find(|curve| {
                (curve.x, curve.part.as_str()) == ("value_ns", "")
                    && (&curve.variant, &curve.subject, curve.measure) == (&of.variant, &of.subject, of.measure)
            })
        };
        let found = |(value, points): (SteadyValue, Vec<f64>)| {
            let found = batch_means(&points);
            let quantiles =
                found.zip(distribution(&value)).map(|(found, curve)| Quantile::of(&curve.points, found.half_width));
            SteadyValue { found, quantiles: quantiles.unwrap_or_default(), ..value }
        };
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

#[cfg(test)]
mod tests {
    use super::*;

    /// The values 1 to 100 once each: sigma is 28.87. A mean that is known to a tenth of that leaves the share below the
    /// median uncertain by 0.1 sqrt(0.25) = 0.05, and that below the 99th percentile by 0.1 sqrt(0.0099) = 0.00995.
    #[test]
    fn quantiles_are_as_uncertain_as_the_mean_of_the_run() {
        let distribution: Vec<(f64, f64)> = (1..=100).map(|n| (f64::from(n), f64::from(n) / 100.0)).collect();
        let said = |half_width: f64| -> Vec<_> {
            Quantile::of(&distribution, half_width).iter().map(|of| (of.name, of.value, of.interval)).collect()
        };
        assert_eq!(said(2.886), [("p50", 50.0, (46.0, 55.0)), ("p99", 99.0, (99.0, 100.0))]);
        assert_eq!(said(0.0), [("p50", 50.0, (50.0, 50.0)), ("p99", 99.0, (99.0, 99.0))]);
        // Beyond the greatest value there is none, and equal values have no spread.
        assert_eq!(said(1e9)[1].2, (1.0, 100.0));
        assert_eq!(Quantile::of(&[(7.0, 1.0)], 1.0)[0].interval, (7.0, 7.0));
        assert!(Quantile::of(&[], 1.0).is_empty());
    }
}
