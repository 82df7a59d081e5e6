//! [`Distribution`]: the probability distributions of sizes and times in workloads.
//!
//! *Law*: every machine draws the same values, because only the four operations, `sqrt` and `libm` are used.
//! *Source*: inverse transforms; Box and Muller (1958) for the normal.
//! *Units*: seconds for times, bytes for sizes. Drawn values are never negative.

use core::f64::consts::PI;

use tidegate_core::random::Stream;
use tidegate_core::{Bytes, Span};

/// The mean of an extreme value distribution with mode 0 and scale 1: the Euler-Mascheroni constant.
const EULER: f64 = 0.577_215_664_901_532_9;

/// A distribution of non-negative numbers. See the [module](self).
#[derive(Clone, PartialEq, Debug)]
pub enum Distribution {
    /// A constant value.
    Constant(f64),
    /// Uniform between the two.
    Uniform {
        /// The smallest value.
        low: f64,
        /// The largest value.
        high: f64,
    },
    /// Exponential.
    Exponential {
        /// The mean.
        mean: f64,
    },
    /// Pareto: heavy-tailed and unbounded. The variance is infinite for shapes up to 2, the mean for shapes up to 1.
    Pareto {
        /// The exponent.
        shape: f64,
        /// The least value.
        least: f64,
    },
    /// Pareto, truncated at both ends.
    BoundedPareto {
        /// The exponent.
        shape: f64,
        /// The least value.
        least: f64,
        /// The largest value.
        most: f64,
    },
    /// Normal, where negative values are replaced by zero.
    Normal {
        /// The mean.
        mean: f64,
        /// The standard deviation.
        deviation: f64,
    },
    /// Lognormal, given by the mean and the standard deviation of the values themselves, not of their logarithms.
    LogNormal {
        /// The mean.
        mean: f64,
        /// The standard deviation.
        deviation: f64,
    },
    /// Extreme value (Gumbel), where negative values are replaced by zero.
    Extreme {
        /// The most frequent value.
        mode: f64,
        /// The scale.
        scale: f64,
    },
    /// Points of a measured cumulative distribution: values, and the share of samples at or below each. It is linear
    /// between the points, and the last share is 1.
    Empirical(Vec<(f64, f64)>),
}

impl Distribution {
    /// A Pareto distribution with this mean; the shape must be above 1.
    pub fn pareto_of_mean(mean: f64, shape: f64) -> Self {
        Self::Pareto { shape, least: mean * (shape - 1.0) / shape }
    }

    /// Checks the parameters; the error is a short text that names the parameter.
    pub fn validate(&self) -> Result<(), &'static str> {
        let positive = |value: f64| value > 0.0 && value.is_finite();
        let natural = |value: f64| value >= 0.0 && value.is_finite();
        match *self {
            Self::Constant(value) if !natural(value) => Err("value must not be negative"),
            Self::Uniform { low, high } if !(natural(low) && natural(high) && low <= high) => {
                Err("low must not be above high, nor negative")
            }
            Self::Exponential { mean } if !positive(mean) => Err("mean must be above zero"),
            Self::Pareto { shape, least } if !(positive(shape) && positive(least)) => {
                Err("shape and least must be above zero")
            }
            Self::BoundedPareto { shape, least, most } if !(positive(shape) && positive(least) && least < most) => {
                Err("shape and least must be above zero, and most above least")
            }
            Self::Normal { mean, deviation } if !(natural(mean) && natural(deviation)) => {
                Err("mean and deviation must not be negative")
            }
            Self::LogNormal { mean, deviation } if !(positive(mean) && natural(deviation)) => {
                Err("mean must be above zero, deviation not negative")
            }
            Self::Extreme { mode, scale } if !(natural(mode) && positive(scale)) => {
                Err("mode must not be negative, scale above zero")
            }
            Self::Empirical(ref points) => {
                let rising = points.windows(2).all(|pair| pair[0].0 <= pair[1].0 && pair[0].1 <= pair[1].1);
                let ends = points.last().is_some_and(|last| last.1 == 1.0) && points.iter().all(|p| natural(p.0));
                if rising && ends { Ok(()) } else { Err("points must rise, and end at a share of 1") }
            }
            _ => Ok(()),
        }
    }

    /// The mean, which is infinite for a Pareto distribution with a shape of at most 1. For normal and extreme value
    /// distributions it ignores that negative values become zero.
    pub fn mean(&self) -> f64 {
        match *self {
            Self::Constant(value) => value,
            Self::Uniform { low, high } => (low + high) / 2.0,
            Self::Exponential { mean } | Self::Normal { mean, .. } | Self::LogNormal { mean, .. } => mean,
            Self::Extreme { mode, scale } => mode + EULER * scale,
            Self::Pareto { shape, least } => {
                if shape > 1.0 {
                    shape * least / (shape - 1.0)
                } else {
                    f64::INFINITY
                }
            }
            Self::BoundedPareto { shape, least, most } => {
                let cut = 1.0 - libm::pow(least / most, shape);
                if shape == 1.0 {
                    least * libm::log(most / least) / cut
                } else {
                    let whole = shape / (shape - 1.0);
                    whole * (least - libm::pow(least, shape) * libm::pow(most, 1.0 - shape)) / cut
                }
            }
            Self::Empirical(ref points) => {
                let first = points.first().map_or(0.0, |point| point.0 * point.1);
                let rest = points.windows(2).map(|pair| (pair[0].0 + pair[1].0) / 2.0 * (pair[1].1 - pair[0].1));
                first + rest.sum::<f64>()
            }
        }
    }

    /// Draws the next value.
    pub fn sample(&self, random: &mut Stream) -> f64 {
        // In (0, 1], so that the logarithm is finite.
        let mut open = || 1.0 - random.unit();
        match *self {
            Self::Constant(value) => value,
            Self::Uniform { low, high } => low + (high - low) * (1.0 - open()),
            Self::Exponential { mean } => -mean * libm::log(open()),
            Self::Pareto { shape, least } => least * libm::pow(open(), -1.0 / shape),
            Self::BoundedPareto { shape, least, most } => {
                let cut = libm::pow(least / most, shape);
                let u = open();
                // Here u in (0, 1] is a position in the tail: 1 yields the least value, and cut the largest.
                (least * libm::pow(u + (1.0 - u) * cut, -1.0 / shape)).clamp(least, most)
            }
            Self::Normal { mean, deviation } => (mean + deviation * normal(open(), open())).max(0.0),
            Self::LogNormal { mean, deviation } => {
                let (mu, sigma) = of_logarithm(mean, deviation);
                libm::exp(mu + sigma * normal(open(), open()))
            }
            // The logarithm of u must not be zero.
            Self::Extreme { mode, scale } => {
                (mode - scale * libm::log((-libm::log(open())).max(f64::MIN_POSITIVE))).max(0.0)
            }
            Self::Empirical(ref points) => {
                let u = 1.0 - open();
                interpolated(points, u)
            }
        }
    }

    /// The quantile at which a standard normal distribution has the value `z`. Correlated normal values mapped through
    /// it keep this distribution.
    pub fn at(&self, z: f64) -> f64 {
        // The probability of a larger value. Its complement would lose all digits in a far tail.
        let above = (0.5 * libm::erfc(z / core::f64::consts::SQRT_2)).max(f64::MIN_POSITIVE);
        match *self {
            Self::Constant(value) => value,
            Self::Uniform { low, high } => low + (high - low) * (1.0 - above),
            Self::Exponential { mean } => -mean * libm::log(above),
            Self::Pareto { shape, least } => least * libm::pow(above, -1.0 / shape),
            Self::BoundedPareto { shape, least, most } => {
                let cut = libm::pow(least / most, shape);
                (least * libm::pow(above + (1.0 - above) * cut, -1.0 / shape)).clamp(least, most)
            }
            Self::Normal { mean, deviation } => (mean + deviation * z).max(0.0),
            Self::LogNormal { mean, deviation } => {
                let (mu, sigma) = of_logarithm(mean, deviation);
                libm::exp(mu + sigma * z)
            }
            Self::Extreme { mode, scale } => {
                (mode - scale * libm::log((-libm::log1p(-above)).max(f64::MIN_POSITIVE))).max(0.0)
            }
            Self::Empirical(ref points) => interpolated(points, 1.0 - above),
        }
    }
    /// Like [`Self::at`], converted from seconds to a time.
    pub(crate) fn span_at(&self, z: f64) -> Span {
        Span::from_nanos((self.at(z) * 1e9) as u64)
    }

    /// Draws the next value, converted from seconds to a time.
    pub fn sample_span(&self, random: &mut Stream) -> Span {
        // Saturates at 584 years.
        Span::from_nanos((self.sample(random) * 1e9) as u64)
    }
    /// Draws the next value as a size of at least one byte.
    pub fn sample_bytes(&self, random: &mut Stream) -> Bytes {
        Bytes::new((self.sample(random) as u64).max(1))
    }
}

/// The mean and the standard deviation of the logarithm of a lognormal value.
fn of_logarithm(mean: f64, deviation: f64) -> (f64, f64) {
    let ratio = deviation / mean;
    let variance = libm::log(1.0 + ratio * ratio);
    (libm::log(mean) - variance / 2.0, variance.sqrt())
}

/// The value at or below which a share of `u` lies.
fn interpolated(points: &[(f64, f64)], u: f64) -> f64 {
    let index = points.partition_point(|point| point.1 <= u).min(points.len() - 1);
    let (high, share) = points[index];
    let Some(&(low, below)) = index.checked_sub(1).and_then(|before| points.get(before)) else {
        return high;
    };
    if share > below { low + (high - low) * (u - below) / (share - below) } else { high }
}

/// The next standard normal value.
pub(crate) fn standard_normal(random: &mut Stream) -> f64 {
    let (u, v) = (1.0 - random.unit(), 1.0 - random.unit());
    normal(u, v)
}

/// A standard normal value from two uniform ones.
fn normal(u: f64, v: f64) -> f64 {
    (-2.0 * libm::log(u)).sqrt() * libm::cos(2.0 * PI * v)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn moments(distribution: &Distribution, n: u32) -> (f64, f64) {
        let mut random = Stream::named(11, "moments");
        let (mut sum, mut squares) = (0.0, 0.0);
        for _ in 0..n {
            let value = distribution.sample(&mut random);
            sum += value;
            squares += value * value;
        }
        let mean = sum / f64::from(n);
        (mean, (squares / f64::from(n) - mean * mean).sqrt())
    }

    #[test]
    fn means_and_deviations_are_those_of_the_parameters() {
        let n = 200_000;
        for (distribution, deviation) in [
            (Distribution::Constant(3.0), 0.0),
            (Distribution::Uniform { low: 2.0, high: 8.0 }, 6.0 / 12.0_f64.sqrt()),
            (Distribution::Exponential { mean: 5.0 }, 5.0),
            // Shape 3: variance 3 / ((3 - 1)^2 (3 - 2)) = 0.75.
            (Distribution::Pareto { shape: 3.0, least: 1.0 }, 0.75_f64.sqrt()),
            (Distribution::Normal { mean: 10.0, deviation: 2.0 }, 2.0),
            (Distribution::LogNormal { mean: 10.0, deviation: 5.0 }, 5.0),
            (Distribution::Extreme { mode: 20.0, scale: 2.0 }, 2.0 * PI / 6.0_f64.sqrt()),
            (Distribution::Empirical(vec![(0.0, 0.0), (6.0, 1.0)]), 6.0 / 12.0_f64.sqrt()),
        ] {
            assert_eq!(distribution.validate(), Ok(()));
            let (mean, sd) = moments(&distribution, n);
            // Five standard errors of the mean; the deviation of heavy tails converges slowly.
            let error = 5.0 * deviation / f64::from(n).sqrt();
            assert!((mean - distribution.mean()).abs() <= error + 1e-9, "{distribution:?}: mean {mean}");
            assert!((sd - deviation).abs() <= 0.1 * deviation + 1e-9, "{distribution:?}: deviation {sd}");
        }
        let bounded = Distribution::BoundedPareto { shape: 1.2, least: 1e3, most: 1e7 };
        let (mean, sd) = moments(&bounded, 1_000_000);
        assert!((mean / bounded.mean() - 1.0).abs() < 5.0 * sd / mean / 1000.0, "{mean} for {}", bounded.mean());
    }

    #[test]
    fn the_bounds_hold_and_the_median_is_right() {
        let bounded = Distribution::BoundedPareto { shape: 1.1, least: 1e3, most: 1e6 };
        let mut random = Stream::named(1, "median");
        let mut values: Vec<f64> = (0..20_001).map(|_| bounded.sample(&mut random)).collect();
        values.sort_by(f64::total_cmp);
        assert!(values[0] >= 1e3 && values[20_000] <= 1e6);
        // The median m solves 1 - (1000/m)^1.1 = (1 - 0.001^1.1) / 2: m = 1000 (1 - 0.49975)^(-1/1.1) = 1877.
        assert!((values[10_000] / 1877.0 - 1.0).abs() < 0.03, "{}", values[10_000]);
    }

    #[test]
    fn wrong_parameters_are_named() {
        assert!(Distribution::Exponential { mean: 0.0 }.validate().unwrap_err().contains("mean"));
        assert!(Distribution::BoundedPareto { shape: 1.0, least: 2.0, most: 1.0 }.validate().is_err());
        assert!(Distribution::Empirical(vec![(1.0, 0.5)]).validate().is_err());
        assert!(Distribution::Uniform { low: 2.0, high: 1.0 }.validate().is_err());
    }
}
