//! A log-linear histogram of 64-bit values with a bounded relative error.

/// Counts values in buckets that are 1/64 of their octave wide: a quantile is told within 1.6 %, values below 64
/// exactly. 30 kB, O(1) a value, no allocation after the first.
#[derive(Clone, Debug)]
pub struct Histogram {
    counts: Vec<u64>,
    count: u64,
    sum: u128,
    min: u64,
    max: u64,
}

/// The quantiles that are worth telling, in the unit of the values.
#[derive(Clone, Copy, PartialEq, Debug, Default)]
pub struct Quantiles {
    /// The number of values.
    pub count: u64,
    /// The least.
    pub min: u64,
    /// The mean.
    pub mean: f64,
    /// The median.
    pub p50: u64,
    /// 90 of 100 are not above.
    pub p90: u64,
    /// 99 of 100 are not above.
    pub p99: u64,
    /// 999 of 1000 are not above.
    pub p999: u64,
    /// The most.
    pub max: u64,
}

const SUB: u32 = 6;
const WIDTH: u64 = 1 << SUB;

impl Default for Histogram {
    fn default() -> Self {
        Self::new()
    }
}

fn bucket(value: u64) -> usize {
    if value < WIDTH {
        return value as usize;
    }
    let octave = value.ilog2() - SUB;
    ((u64::from(octave) + 1) * WIDTH + ((value >> octave) - WIDTH)) as usize
}

/// The largest value of a bucket.
fn upper(bucket: usize) -> u64 {
    let bucket = bucket as u64;
    if bucket < WIDTH {
        return bucket;
    }
    let octave = bucket / WIDTH - 1;
    let step = (bucket % WIDTH) + WIDTH;
    (step << octave) + ((1_u64 << octave) - 1)
}

impl Histogram {
    /// No values.
    pub fn new() -> Self {
        Self { counts: Vec::new(), count: 0, sum: 0, min: u64::MAX, max: 0 }
    }
    /// Counts `value`.
    pub fn record(&mut self, value: u64) {
        if self.counts.is_empty() {
            self.counts = vec![0; bucket(u64::MAX) + 1];
        }
        self.counts[bucket(value)] += 1;
        self.count += 1;
        self.sum += u128::from(value);
        self.min = self.min.min(value);
        self.max = self.max.max(value);
    }
    /// The number of values.
    pub fn count(&self) -> u64 {
        self.count
    }
    /// The mean; zero when there is no value.
    pub fn mean(&self) -> f64 {
        if self.count == 0 { 0.0 } else { self.sum as f64 / self.count as f64 }
    }
    /// The least value that at least `permille` thousandths of the values are not above; up to 1.6 % too high, never
    /// above the maximum. Zero when there is no value.
    pub fn quantile(&self, permille: u64) -> u64 {
        let rank = (u128::from(self.count) * u128::from(permille)).div_ceil(1000).max(1) as u64;
        let mut below = 0;
        for (index, count) in self.counts.iter().enumerate() {
            below += count;
            if below >= rank {
                return upper(index).min(self.max);
            }
        }
        0
    }
    /// The quantiles.
    pub fn quantiles(&self) -> Quantiles {
        Quantiles {
            count: self.count,
            min: if self.count == 0 { 0 } else { self.min },
            mean: self.mean(),
            p50: self.quantile(500),
            p90: self.quantile(900),
            p99: self.quantile(990),
            p999: self.quantile(999),
            max: self.max,
        }
    }
    /// The histogram of `f(value)`, by the upper edge of each bucket.
    pub fn map(&self, f: impl Fn(u64) -> u64) -> Self {
        let mut mapped = Self::new();
        for (index, count) in self.counts.iter().enumerate().filter(|(_, count)| **count > 0) {
            let value = f(upper(index).min(self.max));
            mapped.record(value);
            let more = count - 1;
            mapped.counts[bucket(value)] += more;
            mapped.count += more;
            mapped.sum += u128::from(value) * u128::from(more);
        }
        mapped
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn buckets_are_gapless_and_narrow() {
        for value in (0..10_000).chain([u64::MAX / 3, u64::MAX - 1, u64::MAX]) {
            let edge = upper(bucket(value));
            assert!(edge >= value && edge - value <= value / 64, "{value} {edge}");
            assert!(edge == u64::MAX || bucket(edge + 1) == bucket(value) + 1);
        }
    }

    #[test]
    fn quantiles_of_a_ramp() {
        let mut histogram = Histogram::new();
        (1..=1000).for_each(|value| histogram.record(value));
        let quantiles = histogram.quantiles();
        assert_eq!((quantiles.count, quantiles.min, quantiles.max), (1000, 1, 1000));
        assert!((quantiles.mean - 500.5).abs() < 1e-9);
        for (got, exact) in [(quantiles.p50, 500), (quantiles.p90, 900), (quantiles.p99, 990), (quantiles.p999, 999)] {
            assert!(got >= exact && got <= exact + exact / 64 + 1, "{got} {exact}");
        }
        assert_eq!(histogram.map(|value| value / 1000).max, 1);
        assert_eq!(Histogram::new().quantile(500), 0);
    }
}
