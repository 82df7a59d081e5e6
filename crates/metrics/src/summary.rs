//! Means over runs, with confidence intervals.

use crate::student;

/// The probability that an interval misses the true value: intervals are those of 95 %.
pub const LEVEL: f64 = 0.05;

/// Statistics of a quantity over several runs.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Summary {
    /// The mean.
    pub mean: f64,
    /// Half the width of the 95 % confidence interval of the mean (Student's t); `None` with one run.
    pub half_width: Option<f64>,
}

impl Summary {
    /// Whether the interval is at most `share` of the mean to either side.
    pub fn is_within(&self, share: f64) -> bool {
        self.half_width.is_some_and(|half| half <= share * self.mean.abs())
    }
}

/// The mean of `values` and its confidence; `None` without a value.
pub fn summarise(values: &[f64]) -> Option<Summary> {
    let (mean, variance) = moments(values)?;
    let n = values.len() as f64;
    let half_width = variance.map(|variance| student::critical(LEVEL, n - 1.0) * (variance / n).sqrt());
    Some(Summary { mean, half_width })
}

/// The mean, and the variance of the sample (with n - 1) of two values and more.
pub(crate) fn moments(values: &[f64]) -> Option<(f64, Option<f64>)> {
    let n = values.len();
    if n == 0 {
        return None;
    }
    let mean = values.iter().sum::<f64>() / n as f64;
    let squares = || values.iter().map(|value| (value - mean) * (value - mean)).sum::<f64>();
    Some((mean, (n > 1).then(|| squares() / (n - 1) as f64)))
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
        assert!(summary.is_within(1.25) && !summary.is_within(1.24));
        let single = summarise(&[5.0]).unwrap();
        assert!(single.half_width.is_none() && !single.is_within(1.0));
        assert_eq!(summarise(&[]), None);
    }

    /// NIST/SEMATECH e-Handbook of Statistical Methods, 1.3.5.2: data set ZARR13 (heat flow meter), 195 values with mean
    /// 9.26146 and standard deviation 0.02279 have the 95 % interval (9.258242, 9.264679).
    #[test]
    fn the_half_width_of_the_handbook() {
        let half: f64 = student::critical(LEVEL, 194.0) * 0.02279 / 195_f64.sqrt();
        assert!((9.261_46 - half - 9.258_242).abs() < 3e-6 && (9.261_46 + half - 9.264_679).abs() < 3e-6, "{half}");
    }
}
