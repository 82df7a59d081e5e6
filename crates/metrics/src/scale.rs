//! The log-linear scale of all histograms: values below 2ᵏ have a bucket each, and every octave above is divided into 2ᵏ
//! buckets of equal width, so that a bucket is at most 2⁻ᵏ of its values wide.
//!
//! *Source*: Tene, *HdrHistogram*.

/// The bucket of `value`, where `bits` bits after the leading one count.
pub(crate) const fn bucket(value: u64, bits: u32) -> usize {
    if value < 1 << bits {
        return value as usize;
    }
    let octave = value.ilog2() - bits;
    ((octave as usize) << bits) + (value >> octave) as usize
}

/// The smallest value of `bucket`.
pub(crate) const fn lowest(bucket: usize, bits: u32) -> u64 {
    let (group, place) = (bucket >> bits, (bucket & ((1 << bits) - 1)) as u64);
    if group == 0 { place } else { ((1 << bits) + place) << (group - 1) }
}

/// The largest value of `bucket`.
pub(crate) const fn highest(bucket: usize, bits: u32) -> u64 {
    let group = bucket >> bits;
    let width = if group == 0 { 1 } else { 1 << (group - 1) };
    lowest(bucket, bits) + (width - 1)
}

/// The bucket of the value that a share of `q` of `total` values do not exceed, by the `counts` of the buckets; `None`
/// without values.
pub(crate) fn quantile(q: f64, total: u64, counts: impl Iterator<Item = u64>) -> Option<usize> {
    let rank = ((q * total as f64).ceil() as u64).clamp(1, total.max(1));
    let mut seen = 0;
    for (bucket, count) in counts.enumerate() {
        seen += count;
        if seen >= rank {
            return Some(bucket);
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn buckets_are_gapless_and_narrow() {
        for bits in [2, 5, 6] {
            for value in (0..10_000).chain([u64::MAX / 3, u64::MAX - 1, u64::MAX]) {
                let at = bucket(value, bits);
                let (least, most) = (lowest(at, bits), highest(at, bits));
                assert!(least <= value && value <= most && most - least <= value >> bits, "{value}: {least}..={most}");
                assert!(most == u64::MAX || bucket(most + 1, bits) == at + 1);
            }
        }
    }
}
