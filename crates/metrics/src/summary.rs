//! Means over runs, with confidence intervals.

/// Statistics of a quantity over several runs.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Summary {
    /// The mean.
    pub mean: f64,
    /// Half the width of the 95 % confidence interval of the mean (Student's t); `None` with one run.
    pub half_width: Option<f64>,
}

/// The 97.5 % quantiles of Student's t for 1 to 30 degrees of freedom.
const T: [f64; 30] = [
    12.706, 4.303, 3.182, 2.776, 2.571, 2.447, 2.365, 2.306, 2.262, 2.228, 2.201, 2.179, 2.160, 2.145, 2.131, 2.120,
    2.110, 2.101, 2.093, 2.086, 2.080, 2.074, 2.069, 2.064, 2.060, 2.056, 2.052, 2.048, 2.045, 2.042,
];

/// The quantile for `n` degrees of freedom; beyond 30 by its expansion in 1/n, right to three digits.
fn t(n: usize) -> f64 {
    let x = n as f64;
    // 1.960 + 2.372/n + 2.823/n^2 (Fisher's expansion, Abramowitz and Stegun 26.7.5).
    T.get(n.wrapping_sub(1)).copied().unwrap_or(1.959_964 + 2.372_3 / x + 2.822_5 / (x * x))
}

/// The mean of `values` and its confidence; `None` without a value.
pub fn summarise(values: &[f64]) -> Option<Summary> {
    let n = values.len();
    if n == 0 {
        return None;
    }
    let mean = values.iter().sum::<f64>() / n as f64;
    let half_width = (n > 1).then(|| {
        let variance = values.iter().map(|value| (value - mean) * (value - mean)).sum::<f64>() / (n - 1) as f64;
        t(n - 1) * (variance / n as f64).sqrt()
    });
    Some(Summary { mean, half_width })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_interval_of_three_worked_values() {
        // Mean 4, variance (4 + 0 + 4) / 2 = 4, standard error 2 / sqrt(3) = 1.1547, t(2) = 4.303: 4.969.
        let summary = summarise(&[2.0, 4.0, 6.0]).unwrap();
        assert_eq!(summary.mean, 4.0);
        assert!((summary.half_width.unwrap() - 4.969).abs() < 1e-3);
        assert_eq!(summarise(&[5.0]).unwrap().half_width, None);
        assert_eq!(summarise(&[]), None);
        // From tables: 2.021 for 40, 2.000 for 60, 1.980 for 120.
        for (n, expected) in [(40, 2.021), (60, 2.000), (120, 1.980)] {
            assert!((t(n) - expected).abs() < 1e-3, "{n}");
        }
    }
}
