//! Products of 128 bits of which the result has 64.
//!
//! The kernel twin has the same functions by hand (`kernel/integers.h`), because BPF has no 128 bits; so what is translated
//! for it calls these and has none itself.

/// The upper half of `a * b`.
#[inline]
pub const fn mul_high(a: u64, b: u64) -> u64 {
    ((a as u128 * b as u128) >> 64) as u64
}

/// `a * b / c`, rounded down; [`u64::MAX`] where that is more, or `c` is zero.
#[inline]
pub const fn mul_div(a: u64, b: u64, c: u64) -> u64 {
    let product = a as u128 * b as u128;
    if c == 0 || product >> 64 >= c as u128 {
        return u64::MAX;
    }
    // Most products have 64 bits, and a division of these is quicker.
    if product >> 64 == 0 { product as u64 / c } else { (product / c as u128) as u64 }
}

/// `(a * b + c * d) / e`, rounded down; [`u64::MAX`] where that is more, or `e` is zero.
#[inline]
pub const fn sum_div(a: u64, b: u64, c: u64, d: u64, e: u64) -> u64 {
    let sum = (a as u128 * b as u128).saturating_add(c as u128 * d as u128);
    if e == 0 || sum >> 64 >= e as u128 { u64::MAX } else { (sum / e as u128) as u64 }
}

/// The number with these upper and lower halves divided by `by`, rounded up; [`u64::MAX`] where that is more, or `by` is zero.
#[inline]
pub const fn halves_div_ceil(high: u64, low: u64, by: u64) -> u64 {
    if by == 0 || high >= by {
        return u64::MAX;
    }
    if high == 0 {
        return low.div_ceil(by);
    }
    // Below 2^64 before the rounding.
    let all = (high as u128) << 64 | low as u128;
    let quotient = (all / by as u128) as u64;
    quotient.saturating_add(!all.is_multiple_of(by as u128) as u64)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn products_are_exact_up_to_the_ends() {
        assert_eq!(mul_high(u64::MAX, u64::MAX), u64::MAX - 1);
        assert_eq!(mul_high(1 << 32, 1 << 31), 0);
        assert_eq!(mul_div(u64::MAX, u64::MAX, u64::MAX), u64::MAX);
        assert_eq!(mul_div(u64::MAX, 7, 8), 16_140_901_064_495_857_663);
        assert_eq!((mul_div(3, 5, 2), mul_div(1 << 40, 1 << 40, 1 << 17)), (7, 1 << 63));
        assert_eq!((mul_div(1 << 40, 1 << 40, 1 << 16), mul_div(0, 1, 0)), (u64::MAX, u64::MAX));
        assert_eq!((sum_div(3, 5, 2, 7, 4), sum_div(1 << 40, 1 << 40, 1 << 40, 1 << 40, 1 << 18)), (7, 1 << 63));
        assert_eq!(
            (sum_div(u64::MAX, u64::MAX, u64::MAX, u64::MAX, u64::MAX), sum_div(0, 0, 0, 0, 0)),
            (u64::MAX, u64::MAX)
        );
    }

    #[test]
    fn quotients_of_halves_round_up_and_saturate() {
        assert_eq!((halves_div_ceil(0, 0, 7), halves_div_ceil(0, 14, 7), halves_div_ceil(0, 15, 7)), (0, 2, 3));
        // 2^64 / 3 = 6148914691236517205 and a third; (2^64 + 2) / 3 is whole.
        assert_eq!(
            (halves_div_ceil(1, 0, 3), halves_div_ceil(1, 2, 3)),
            (6_148_914_691_236_517_206, 6_148_914_691_236_517_206)
        );
        // The largest quotient, and one above it by its rounding; then ones that have more bits.
        assert_eq!(halves_div_ceil(6, u64::MAX, 7), u64::MAX);
        assert_eq!((halves_div_ceil(7, 0, 7), halves_div_ceil(0, 1, 0)), (u64::MAX, u64::MAX));
    }
}
