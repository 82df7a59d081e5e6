//! Student's t distribution and the normal distribution, with the same results on every machine.
//!
//! *Source*: the continued fraction DLMF 8.17.22 of the incomplete beta function, evaluated by Lentz's method. The
//! elementary functions are those of the crate `libm`, because those of the platform differ in their last digits.

/// The regularised incomplete beta function I_x(a, b).
fn incomplete_beta(x: f64, a: f64, b: f64) -> f64 {
    if x <= 0.0 {
        return 0.0;
    }
    if x >= 1.0 {
        return 1.0;
    }
    // The fraction converges quickly below this point, and I_x(a, b) = 1 - I_(1-x)(b, a).
    if x > (a + 1.0) / (a + b + 2.0) {
        return 1.0 - incomplete_beta(1.0 - x, b, a);
    }
    let ln_beta = libm::lgamma(a) + libm::lgamma(b) - libm::lgamma(a + b);
    let front = libm::exp(a * libm::log(x) + b * libm::log1p(-x) - ln_beta) / a;
    let tiny = 1e-300;
    let at_least = |value: f64| if value.abs() < tiny { tiny } else { value };
    let (mut c, mut d) = (1.0, 1.0 / at_least(1.0 - (a + b) * x / (a + 1.0)));
    let mut fraction = d;
    for step in 1..10_000 {
        let m = f64::from(step);
        let even = m * (b - m) * x / ((a + 2.0 * m - 1.0) * (a + 2.0 * m));
        d = 1.0 / at_least(1.0 + even * d);
        c = at_least(1.0 + even / c);
        fraction *= d * c;
        let odd = -(a + m) * (a + b + m) * x / ((a + 2.0 * m) * (a + 2.0 * m + 1.0));
        d = 1.0 / at_least(1.0 + odd * d);
        c = at_least(1.0 + odd / c);
        fraction *= d * c;
        if (d * c - 1.0).abs() < 1e-15 {
            break;
        }
    }
    front * fraction
}

/// The probability that a variable of Student's distribution with `freedom` degrees of freedom is at least as far from 0
/// as `t`.
pub fn tails(t: f64, freedom: f64) -> f64 {
    if t.is_infinite() {
        return 0.0;
    }
    incomplete_beta(freedom / (freedom + t * t), freedom / 2.0, 0.5)
}

/// The value that a variable of Student's distribution with `freedom` degrees of freedom exceeds in either direction with
/// probability `tails` (0.05 for an interval of 95 %).
pub fn critical(probability: f64, freedom: f64) -> f64 {
    inverse(probability, |t| tails(t, freedom))
}

/// The probability that a standard normal variable is at most `z`.
pub fn normal(z: f64) -> f64 {
    0.5 * libm::erfc(-z / std::f64::consts::SQRT_2)
}

/// The inverse of [`normal`], for a probability strictly between 0 and 1.
pub fn normal_quantile(probability: f64) -> f64 {
    let tail = probability.min(1.0 - probability);
    let z = inverse(tail, |z| normal(-z));
    if probability < 0.5 { -z } else { z }
}

/// The positive argument at which a falling function has `value`, by bisection.
fn inverse(value: f64, falling: impl Fn(f64) -> f64) -> f64 {
    let mut high = 1.0;
    while falling(high) > value && high < 1e300 {
        high *= 2.0;
    }
    let mut low = 0.0;
    // A double has 53 bits: the bounds meet.
    for _ in 0..64 {
        let middle = f64::midpoint(low, high);
        if falling(middle) > value {
            low = middle;
        } else {
            high = middle;
        }
    }
    f64::midpoint(low, high)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// NIST/SEMATECH e-Handbook of Statistical Methods, 1.3.6.7.2, upper critical values of Student's t distribution.
    #[test]
    fn quantiles_are_those_of_the_tables() {
        for (freedom, tails, expected) in [
            (1.0, 0.05, 12.706),
            (2.0, 0.05, 4.303),
            (9.0, 0.05, 2.262),
            (9.0, 0.01, 3.250),
            (30.0, 0.05, 2.042),
            (60.0, 0.05, 2.000),
            (100.0, 0.002, 3.174),
            (1.0, 0.2, 3.078),
            (1e6, 0.05, 1.960),
        ] {
            let found = critical(tails, freedom);
            assert!((found - expected).abs() < 6e-4, "{freedom} {tails}: {found}");
            assert!((super::tails(found, freedom) - tails).abs() < 1e-9);
        }
        assert_eq!(tails(0.0, 5.0), 1.0);
        // The Cauchy distribution in closed form: 1 - 2/pi * atan(t).
        for t in [0.1, 1.0, 7.0, 300.0] {
            let exact = 1.0 - 2.0 / std::f64::consts::PI * libm::atan(t);
            assert!((tails(t, 1.0) - exact).abs() < 1e-13, "{t}");
        }
    }

    #[test]
    fn the_normal_distribution_is_that_of_the_tables() {
        for (z, expected) in [(0.0, 0.5), (1.0, 0.841_345), (1.959_964, 0.975), (-2.326_348, 0.01)] {
            assert!((normal(z) - expected).abs() < 1e-6, "{z}");
            assert!((normal_quantile(expected) - z).abs() < 1e-5, "{z}");
        }
    }
}
