//! Distributions of sizes and times.

use tidegate_config::Spanned;

use super::Resolver;
use crate::distribution::Distribution;
use crate::scenario::file::{Amount, DistributionSection};

/// The quantity that a distribution describes.
#[derive(Clone, Copy)]
pub(super) enum Kind {
    Size,
    Time,
}

impl Resolver<'_> {
    pub(super) fn distribution(&mut self, section: &Spanned<DistributionSection>, kind: Kind) -> Option<Distribution> {
        let mut number = |amount: &Spanned<Amount>| self.number(amount, kind);
        let distribution = match &section.value {
            DistributionSection::Constant(it) => Distribution::Constant(number(&it.value)?),
            DistributionSection::Uniform(it) => {
                Distribution::Uniform { low: number(&it.low)?, high: number(&it.high)? }
            }
            DistributionSection::Exponential(it) => Distribution::Exponential { mean: number(&it.mean)? },
            DistributionSection::Pareto(it) => {
                let (mean, shape) = (number(&it.mean)?, it.shape.value);
                if shape <= 1.0 {
                    let help = "write for example 1.5, or use a bounded-pareto";
                    self.wrong(it.shape.place, "a Pareto distribution without a mean", "must be above 1", help);
                    return None;
                }
                Distribution::pareto_of_mean(mean, shape)
            }
            DistributionSection::BoundedPareto(it) => {
                Distribution::BoundedPareto { shape: it.shape, least: number(&it.least)?, most: number(&it.most)? }
            }
            DistributionSection::Normal(it) => {
                Distribution::Normal { mean: number(&it.mean)?, deviation: number(&it.deviation)? }
            }
            DistributionSection::LogNormal(it) => {
                Distribution::LogNormal { mean: number(&it.mean)?, deviation: number(&it.deviation)? }
            }
            DistributionSection::Empirical(it) => {
                let points = it.points.iter().map(|point| Some((number(&point.value)?, point.share)));
                Distribution::Empirical(points.collect::<Option<_>>()?)
            }
        };
        match distribution.validate() {
            Ok(()) => Some(distribution),
            Err(problem) => {
                self.wrong(section.place, format!("no such distribution: {problem}"), "here", "change the value");
                None
            }
        }
    }

    pub(super) fn number(&mut self, amount: &Spanned<Amount>, kind: Kind) -> Option<f64> {
        match (amount.value, kind) {
            (Amount::Size(size), Kind::Size) => Some(size.as_u64() as f64),
            (Amount::Time(time), Kind::Time) => Some(time.as_secs_f64()),
            (Amount::Time(_), Kind::Size) => {
                self.wrong(amount.place, "a time where a size is wanted", "not a size", "write for example \"4kB\"");
                None
            }
            (Amount::Size(_), Kind::Time) => {
                self.wrong(amount.place, "a size where a time is wanted", "not a time", "write for example \"250ms\"");
                None
            }
        }
    }
}
