//! Sections of distributions of sizes and times.

use tidegate_config::decode::{Scalar, Wrong};
use tidegate_config::node::{Node, Value};
use tidegate_config::{Decode, Diagnostics, Schemas, Spanned};
use tidegate_core::{Bytes, Span};

tidegate_config::choice! {
    /// A distribution of sizes or of times: values need a unit, `4kB` or `250ms`.
    pub enum DistributionSection as "distribution" by "kind" {
        /// A constant value.
        Constant(ConstantValue) = "constant",
        /// Uniform between two values.
        Uniform(UniformValue) = "uniform",
        /// Exponential: gaps between independent arrivals.
        Exponential(ExponentialValue) = "exponential",
        /// Pareto, given by its mean: heavy-tailed, with infinite variance for shapes up to 2.
        Pareto(ParetoValue) = "pareto",
        /// Pareto, truncated at both ends: heavy-tailed sizes with a finite mean.
        BoundedPareto(BoundedParetoValue) = "bounded-pareto",
        /// Normal, where negative values are replaced by zero.
        Normal(NormalValue) = "normal",
        /// Lognormal, given by the moments of the values themselves.
        LogNormal(LogNormalValue) = "lognormal",
        /// Extreme value (Gumbel), given by its mode.
        Extreme(ExtremeValue) = "extreme",
        /// Points of a measured distribution.
        Empirical(EmpiricalValue) = "empirical",
    }
}

tidegate_config::record! {
    /// A constant value.
    pub struct ConstantValue as "constant distribution" {
        /// The value: a size, a time, or for `objects` a number; not below zero.
        pub value: Spanned<Amount>,
    }
}

tidegate_config::record! {
    /// Uniform between two values.
    pub struct UniformValue as "uniform distribution" {
        /// The lower end, included; not below zero.
        pub low: Spanned<Amount>,
        /// The upper end, not below `low`. The mean is half way between them.
        pub high: Spanned<Amount>,
    }
}

tidegate_config::record! {
    /// Exponential: a share of exp(-x / mean) of the values lies above x.
    pub struct ExponentialValue as "exponential distribution" {
        /// The mean, above zero; the standard deviation is the same.
        pub mean: Spanned<Amount>,
    }
}

tidegate_config::record! {
    /// Pareto: a share of (least / x) ^ shape of the values lies above x, without an upper bound.
    pub struct ParetoValue as "Pareto distribution" {
        /// The mean, above zero. The least value is `mean * (shape - 1) / shape`.
        pub mean: Spanned<Amount>,
        /// The exponent of the tail, above 1. The variance is infinite up to 2.
        pub shape: Spanned<f64>,
    }
}

tidegate_config::record! {
    /// Pareto, truncated at both ends.
    pub struct BoundedParetoValue as "bounded Pareto distribution" {
        /// The exponent of the tail, above 0. Default 1.2, as for files on the web.
        pub shape: f64 = 1.2,
        /// The lower bound, above zero; values near it are the most frequent.
        pub least: Spanned<Amount>,
        /// The upper bound, above `least`.
        pub most: Spanned<Amount>,
    }
}

tidegate_config::record! {
    /// Normal, where negative values are replaced by zero.
    pub struct NormalValue as "normal distribution" {
        /// The mean before that replacement, not below zero.
        pub mean: Spanned<Amount>,
        /// The standard deviation, not below zero. Above a third of the mean, the mean of the drawn values is
        /// noticeably higher.
        pub deviation: Spanned<Amount>,
    }
}

tidegate_config::record! {
    /// Lognormal, given by the mean and the standard deviation of the values.
    pub struct LogNormalValue as "lognormal distribution" {
        /// The mean of the values, not of their logarithms; above zero.
        pub mean: Spanned<Amount>,
        /// The standard deviation of the values, not below zero.
        pub deviation: Spanned<Amount>,
    }
}

tidegate_config::record! {
    /// Extreme value (Gumbel): a share of exp(-exp(-(x - mode) / scale)) of the values lies at or below x. Negative
    /// values are replaced by zero.
    pub struct ExtremeValue as "extreme distribution" {
        /// The most frequent value. The mean is 0.5772 scales above it.
        pub mode: Spanned<Amount>,
        /// The scale, above zero: the standard deviation is 1.2825 of it.
        pub scale: Spanned<Amount>,
    }
}

tidegate_config::record! {
    /// Points of a measured cumulative distribution, linear between them.
    pub struct EmpiricalValue as "empirical distribution" {
        /// The points, rising; the last has a share of 1.
        pub points: Vec<Point>,
    }
}

tidegate_config::record! {
    /// A point of a cumulative distribution.
    pub struct Point as "point of a distribution" {
        /// A size, a time, or for `objects` a number; not below that of the point before.
        pub value: Spanned<Amount>,
        /// The share of the values at or below it, 0 to 1.
        pub share: f64,
    }
}

/// A size, a time, or a count.
#[derive(Clone, Copy, PartialEq, Debug)]
pub enum Amount {
    /// A plain number, without a unit.
    Count(f64),
    /// Bytes.
    Size(Bytes),
    /// A duration, to the nanosecond.
    Time(Span),
}

impl Scalar for Amount {
    const WANTED: &'static str = "size or time";
    const EXAMPLE: &'static str = "4kB or 250ms";
    fn from_text(text: &str) -> Result<Self, Wrong> {
        if let Ok(size) = text.parse() {
            return Ok(Self::Size(size));
        }
        // The units of the two have nothing in common, so the second error is sufficient.
        text.parse().map(Self::Time).or_else(|_| text.parse().map(Self::Count)).map_err(|_| Wrong {
            message: format!("`{text}` is neither a size nor a time"),
            help: "write a number with a unit, for example \"4kB\" or \"250ms\"".into(),
        })
    }
    fn from_integer(n: i64) -> Result<Self, Wrong> {
        Ok(Self::Count(n as f64))
    }
}

/// A value that is the same for every link or flow of a section, or a distribution from which each of them draws.
#[derive(Clone, PartialEq, Debug)]
pub enum SameOrDrawn<T> {
    /// A value common to all of them.
    Same(T),
    /// Each draws its own.
    Drawn(DistributionSection),
}

impl<T: Decode> Decode for SameOrDrawn<T> {
    fn decode(node: &Node, diagnostics: &mut Diagnostics) -> Option<Self> {
        match &node.value {
            Value::Table(_) => DistributionSection::decode(node, diagnostics).map(Self::Drawn),
            _ => T::decode(node, diagnostics).map(Self::Same),
        }
    }
    fn example() -> String {
        T::example()
    }
    fn schema(schemas: &mut Schemas) -> serde_json::Value {
        let (same, drawn) = (T::schema(schemas), DistributionSection::schema(schemas));
        serde_json::json!({ "anyOf": [same, drawn] })
    }
}
