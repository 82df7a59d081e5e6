//! Resolves distributions of sizes and times.

use tidegate_config::Spanned;

use super::Resolver;
use crate::distribution::Distribution;
use crate::scenario::file::{Amount, DistributionSection};

/// The quantity that a distribution describes.
#[derive(Clone, Copy)]
pub(super) enum Quantity {
    Size,
    Time,
    Count,
}

impl Resolver<'_> {
    pub(super) fn distribution(
        &mut self,
        section: &Spanned<DistributionSection>,
        quantity: Quantity,
    ) -> Option<Distribution> {
        let mut number = |amount: &Spanned<Amount>| self.number(amount, quantity);
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
                    self.error(it.shape.place, "a Pareto distribution without a mean", "must be above 1", help);
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
            DistributionSection::Extreme(it) => {
                Distribution::Extreme { mode: number(&it.mode)?, scale: number(&it.scale)? }
            }
            DistributionSection::Empirical(it) => {
                let points = it.points.iter().map(|point| Some((number(&point.value)?, point.share)));
                Distribution::Empirical(points.collect::<Option<_>>()?)
            }
        };
        match distribution.validate() {
            Ok(()) => Some(distribution),
            Err(problem) => {
                self.error(section.place, format!("no such distribution: {problem}"), "here", "change the value");
                None
            }
        }
    }

    pub(super) fn number(&mut self, amount: &Spanned<Amount>, quantity: Quantity) -> Option<f64> {
        let (what, value) = match amount.value {
            Amount::Size(size) => ("a size", size.as_u64() as f64),
            Amount::Time(time) => ("a time", time.as_secs_f64()),
            Amount::Count(count) => ("a number", count),
        };
        let (wanted, label, help) = match quantity {
            Quantity::Size => ("a size", "not a size", "write for example \"4kB\""),
            Quantity::Time => ("a time", "not a time", "write for example \"250ms\""),
            Quantity::Count => ("a number", "not a number without a unit", "write for example 6"),
        };
        if what == wanted {
            return Some(value);
        }
        self.error(amount.place, format!("{what} is given where {wanted} is needed"), label, help);
        None
    }
}
