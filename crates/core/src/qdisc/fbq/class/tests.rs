use super::*;

#[test]
fn virtual_lengths_are_rounded_up_from_any_size_and_weight() {
    let weights =
        [1, 3, WEIGHT_ONE, WEIGHT_ONE / 3, WEIGHT_ONE * 3, WEIGHT_MAX - 1, WEIGHT_MAX, WEIGHT_MAX + 1, u64::MAX];
    // The last is more than 64 bits of credit.
    for bytes in [1, 64, 1_514, 65_535, 3_000_000_000].map(Bytes::new) {
        let whole = (Credit::of(bytes).as_raw() as u128) << PLACES;
        for weight in weights {
            assert_eq!(Class::virtual_length(bytes, weight), whole.div_ceil(weight.into()), "{bytes} by {weight}");
        }
    }
}
