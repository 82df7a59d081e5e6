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

/// The probability that Student's t of a sample exceeds `critical` if its mean is `shift` standard errors above 0: the upper tail
/// of the noncentral t distribution.
///
/// It is the mean of the normal tail over the distribution of the sample's standard deviation, by Simpson's rule.
pub fn power(shift: f64, freedom: f64, critical: f64) -> f64 {
    // The standard deviation is a chi variable over the root of its degrees of freedom, with a standard deviation of about
    // 1/sqrt(2 freedom). Nine of these are enough for twelve digits, as are nine of the normal variable.
    let reach = 9.0 / (2.0 * freedom).sqrt();
    let low = (1.0 - reach).max(0.0);
    let high = (1.0 + reach).min((shift + 9.0) / critical).max(low);
    let half = freedom / 2.0;
    let constant = std::f64::consts::LN_2 + half * libm::log(half) - libm::lgamma(half);
    let density = |u: f64| match u > 0.0 {
        true => libm::exp(constant + (freedom - 1.0) * libm::log(u) - half * u * u),
        // That of the absolute value of a normal variable; with more degrees of freedom it is 0.
        false if freedom <= 1.0 => libm::exp(constant),
        false => 0.0,
    };
    let step = (high - low) / f64::from(STEPS);
    let term = |n: u32| {
        let u = low + step * f64::from(n);
        let weight = if n == 0 || n == STEPS { 1.0 } else { f64::from(2 + 2 * (n % 2)) };
        weight * density(u) * normal(shift - critical * u)
    };
    (0..=STEPS).map(term).sum::<f64>() * step / 3.0
}

/// The even number of steps of the rule of Simpson in [`power`].
const STEPS: u32 = 200;

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

    /// The number of pairs for a power of 80 % at 5 % by Cohen, Statistical Power Analysis (1988), table 2.4.1 for one sample, and
    /// by R's `power.t.test(type = "paired")`: their powers at that number and one below.
    #[test]
    fn the_power_is_that_of_the_tables() {
        // Without a difference it is half the level.
        for freedom in [1.0, 4.0, 30.0, 1e5] {
            let found = power(0.0, freedom, critical(0.05, freedom));
            assert!((found - 0.025).abs() < 1e-6, "{freedom}: {found}");
        }
        for (difference, pairs) in [(0.2, 199_u32), (0.5, 34), (0.8, 15), (1.0, 10)] {
            let of = |n: u32| {
                let freedom = f64::from(n - 1);
                power(difference * f64::from(n).sqrt(), freedom, critical(0.05, freedom))
            };
            assert!(of(pairs) >= 0.8 && of(pairs - 1) < 0.8, "{difference}: {} {}", of(pairs), of(pairs - 1));
        }
        // Without a critical value it is the normal distribution.
        assert!((power(1.0, 1.0, 0.0) - 0.841_345).abs() < 1e-6);
    }

    /// Drawn samples are found as often as they should be, also few and at the levels of many comparisons.
    #[test]
    fn the_power_is_that_of_drawn_samples() {
        let mut state = 7_u64;
        let mut uniform = || {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            ((state >> 11) as f64 + 0.5) / (1_u64 << 53) as f64
        };
        for (difference, n, level) in [(1.0, 5_u32, 0.05), (2.5, 5, 0.005), (1.0, 12, 0.001), (3.0, 2, 0.05)] {
            let (count, freedom) = (f64::from(n), f64::from(n - 1));
            let least = critical(level, freedom);
            let mut found = 0_u32;
            for _ in 0..20_000 {
                let (mut sum, mut squares) = (0.0, 0.0);
                for _ in 0..n {
                    let value = difference + normal_quantile(uniform());
                    sum += value;
                    squares += value * value;
                }
                let error = ((squares - sum * sum / count) / freedom / count).sqrt();
                found += u32::from(sum / count > least * error);
            }
            let (found, expected) = (f64::from(found) / 20_000.0, power(difference * count.sqrt(), freedom, least));
            // Four standard errors of a share of 20,000.
            assert!((found - expected).abs() < 0.015, "{difference} {n} {level}: {found} {expected}");
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
