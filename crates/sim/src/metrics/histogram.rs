//! [`Histogram`]: quantiles of any number of values in constant memory.
//!
//! *Law*: a quantile is at most 1/64 above the value it stands for, and never below it.
//! *Units*: whatever the caller records.
//! *Cost*: one bit scan and one addition a value.

/// Buckets of one octave.
const STEPS: u64 = 64;
const STEP_BITS: u32 = 6;
const BUCKETS: usize = (STEPS as usize) * (64 - STEP_BITS as usize + 1);

/// A log-linear histogram. See the [module](self).
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Histogram {
    counts: Vec<u64>,
    total: u64,
    sum: u128,
    least: u64,
    most: u64,
}

impl Default for Histogram {
    fn default() -> Self {
        Self { counts: Vec::new(), total: 0, sum: 0, least: u64::MAX, most: 0 }
    }
}

fn bucket(value: u64) -> usize {
    if value < STEPS {
        return value as usize;
    }
    let octave = 63 - value.leading_zeros() - STEP_BITS;
    ((u64::from(octave) << STEP_BITS) + (value >> octave)) as usize
}

/// The largest value of bucket `index`.
fn upper(index: usize) -> u64 {
    let index = index as u64;
    if index < 2 * STEPS {
        return index;
    }
    let octave = (index >> STEP_BITS) - 1;
    let value = (index & (STEPS - 1)) + STEPS;
    (((u128::from(value) + 1) << octave) - 1).min(u128::from(u64::MAX)) as u64
}

impl Histogram {
    /// Counts `value`.
    pub fn record(&mut self, value: u64) {
        if self.counts.is_empty() {
            // Only those that are used take their 30 KB.
            self.counts = vec![0; BUCKETS];
        }
        self.counts[bucket(value)] += 1;
        self.total += 1;
        self.sum += u128::from(value);
        self.least = self.least.min(value);
        self.most = self.most.max(value);
    }
    /// Bytes of memory.
    pub(crate) fn footprint(&self) -> usize {
        size_of::<Self>() + self.counts.len() * size_of::<u64>()
    }
    /// How many values there were.
    pub fn count(&self) -> u64 {
        self.total
    }
    /// Their mean, exactly; `None` without values.
    pub fn mean(&self) -> Option<f64> {
        (self.total > 0).then(|| self.sum as f64 / self.total as f64)
    }
    /// The smallest value.
    pub fn least(&self) -> Option<u64> {
        (self.total > 0).then_some(self.least)
    }
    /// The largest value.
    pub fn most(&self) -> Option<u64> {
        (self.total > 0).then_some(self.most)
    }
    /// The value below or at which a share of `q` of the values are (0.5: the median), up to 1/64 too large.
    pub fn quantile(&self, q: f64) -> Option<u64> {
        if self.total == 0 {
            return None;
        }
        let rank = (libm::ceil(q * self.total as f64) as u64).clamp(1, self.total);
        let mut seen = 0;
        for (index, count) in self.counts.iter().enumerate() {
            seen += count;
            if seen >= rank {
                return Some(upper(index).clamp(self.least, self.most));
            }
        }
        Some(self.most)
    }
    /// Adds the values of `other`.
    pub fn merge(&mut self, other: &Self) {
        if other.total == 0 {
            return;
        }
        if self.counts.is_empty() {
            self.counts = vec![0; BUCKETS];
        }
        for (mine, theirs) in self.counts.iter_mut().zip(&other.counts) {
            *mine += theirs;
        }
        self.total += other.total;
        self.sum += other.sum;
        self.least = self.least.min(other.least);
        self.most = self.most.max(other.most);
    }
    /// The distribution as (value, share of the values that are at most it), one point for each bucket in use.
    pub fn distribution(&self) -> impl Iterator<Item = (u64, f64)> + '_ {
        let mut seen = 0;
        self.counts.iter().enumerate().filter(|(_, count)| **count > 0).map(move |(index, count)| {
            seen += count;
            (upper(index).clamp(self.least, self.most), seen as f64 / self.total as f64)
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use tidegate_core::random::Stream;

    #[test]
    fn quantiles_against_the_sorted_values() {
        let mut random = Stream::named(5, "histogram");
        let (mut histogram, mut values) = (Histogram::default(), Vec::new());
        for _ in 0..20_000 {
            let value = random.next_u64() >> random.below(64);
            histogram.record(value);
            values.push(value);
        }
        values.sort_unstable();
        for q in [0.0, 0.001, 0.1, 0.5, 0.9, 0.99, 0.999, 1.0] {
            let exact = values[((q * 20_000.0) as usize).clamp(1, 20_000) - 1];
            let got = histogram.quantile(q).unwrap();
            assert!(got >= exact && got - exact <= exact / 64 + 1, "{q}: {got} for {exact}");
        }
        assert_eq!(histogram.least(), values.first().copied());
        assert_eq!(histogram.most(), values.last().copied());
        assert_eq!(bucket(u64::MAX), BUCKETS - 1);
        assert_eq!(upper(BUCKETS - 1), u64::MAX);
    }

    #[test]
    fn merging_is_recording_both() {
        let (mut a, mut b, mut both) = (Histogram::default(), Histogram::default(), Histogram::default());
        for value in 0..1000_u64 {
            if value % 3 == 0 { &mut a } else { &mut b }.record(value * value);
            both.record(value * value);
        }
        a.merge(&b);
        assert_eq!(a, both);
    }
}
