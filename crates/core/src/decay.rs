//! The exponential in fixed point, `e^-x` and `(1 - e^-x) / x`, for estimators with exponential decay.
//!
//! *Law*: for every `x` with 32 bits of fraction, the error of `e^-x` is below 2⁻⁵⁵ and that of `(1 - e^-x) / x`
//! below 2⁻⁴⁸. Both are bit-identical on every machine.
//! *Source*: `e^-x = e^-i e^-(j/64) e^-r` with tables for the whole part `i` and the 64ths `j`, and the Taylor series
//! for the rest `r` below 1/64.
//! *Cost*: about ten multiplications of 64 by 64 bits; one division for the second function.
//! *See also*: `libm::exp`, a float, with which the tests compare.

/// Bits of fraction of the results.
pub const FRACTION: u32 = 62;
/// The value 1 in fixed point.
pub const ONE: u64 = 1 << FRACTION;

/// The whole part from which `e^-x` is below 2⁻⁶² and taken as 0.
const WHOLE: usize = 43;
/// `e^-(1/64)` and `e^-1` with 64 bits of fraction, rounded down.
const STEP: u128 = taylor_of_a_64th();
const INVERSE_E: u128 = power(STEP, 64);
/// `e^-j/64` and `e^-i`.
const PARTS: [u64; 64] = powers(STEP);
const WHOLES: [u64; WHOLE] = powers(INVERSE_E);

/// `e^-(1/64)` with 96 bits of fraction by the alternating series; its terms shrink by 64 n each.
const fn taylor_of_a_64th() -> u128 {
    let one = 1_u128 << 96;
    let (mut sum, mut term, mut n) = (one, one, 1);
    while term > 0 {
        term = term / 64 / n;
        sum = if n % 2 == 1 { sum - term } else { sum + term };
        n += 1;
    }
    sum
}

/// The product of two numbers with 96 bits of fraction, neither above one, within 2⁻⁹⁴.
const fn times(a: u128, b: u128) -> u128 {
    // (ah 2^48 + al) (bh 2^48 + bl) / 2^96, without the product of the low parts.
    let mask = (1_u128 << 48) - 1;
    let (ah, al, bh, bl) = (a >> 48, a & mask, b >> 48, b & mask);
    ah * bh + ((ah * bl + al * bh) >> 48)
}

const fn power(base: u128, n: u32) -> u128 {
    let (mut product, mut k) = (1_u128 << 96, 0);
    while k < n {
        product = times(product, base);
        k += 1;
    }
    product
}

/// The powers of `base` from 0 on, rounded to the nearest.
const fn powers<const N: usize>(base: u128) -> [u64; N] {
    let mut table = [0; N];
    let (mut product, mut k) = (1_u128 << 96, 0);
    while k < N {
        table[k] = ((product + (1 << (95 - FRACTION))) >> (96 - FRACTION)) as u64;
        product = times(product, base);
        k += 1;
    }
    table
}

/// `a * b` where both have [`FRACTION`] bits of fraction, rounded down.
const fn mul(a: u64, b: u64) -> u64 {
    ((a as u128 * b as u128) >> FRACTION) as u64
}

/// `e^-x` of an `x` with 32 bits of fraction; the result has [`FRACTION`] bits.
pub fn exp_neg(x: u64) -> u64 {
    let whole = (x >> 32) as usize;
    if whole >= WHOLE {
        return 0;
    }
    let part = ((x >> 26) & 63) as usize;
    // Below 1/64, so that the terms left out, from r^8/8! on, are below 2^-63.
    let r = (x & ((1 << 26) - 1)) << (FRACTION - 32);
    let mut sum = ONE - r / 7;
    let mut n = 6;
    while n > 0 {
        sum = ONE - mul(r, sum) / n;
        n -= 1;
    }
    mul(mul(sum, PARTS[part]), WHOLES[whole])
}

/// `(1 - e^-x) / x` of an `x` with 32 bits of fraction; 1 at 0. The result has [`FRACTION`] bits.
pub fn mean_decay(x: u64) -> u64 {
    if x < 1 << 26 {
        // 1 - x/2 (1 - x/3 (1 - x/4 ..)): no cancellation near 0.
        let r = x << (FRACTION - 32);
        let mut sum = ONE - r / 8;
        let mut n = 7;
        while n > 1 {
            sum = ONE - mul(r, sum) / n;
            n -= 1;
        }
        return sum;
    }
    ((u128::from(ONE - exp_neg(x)) << 32) / u128::from(x)) as u64
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::random::Stream;

    fn float(value: u64) -> f64 {
        value as f64 / ONE as f64
    }

    #[test]
    fn known_values() {
        assert_eq!(exp_neg(0), ONE);
        assert_eq!(mean_decay(0), ONE);
        // e^-1 = 0.367879441171442321595...; 1 - e^-1 = 0.632120558828557678...
        assert!((float(exp_neg(1 << 32)) - 0.367_879_441_171_442_3).abs() < 1e-16);
        assert!((float(mean_decay(1 << 32)) - 0.632_120_558_828_557_7).abs() < 1e-15);
        // e^-20 = 2.061153622438558e-9; relative error 2^-55 / 2^-28.
        assert!((float(exp_neg(20 << 32)) / 2.061_153_622_438_558e-9 - 1.0).abs() < 1e-7);
        assert_eq!(exp_neg(43 << 32), 0);
        assert_eq!(exp_neg(u64::MAX), 0);
    }

    #[test]
    fn agrees_with_libm() {
        let mut random = Stream::named(1, "exp");
        for _ in 0..200_000 {
            let bits = 1 + random.below(38);
            let x = random.below(1 << bits);
            let exact = x as f64 / (1_u64 << 32) as f64;
            // A double has 53 bits.
            assert!((float(exp_neg(x)) - libm::exp(-exact)).abs() < 3e-16, "{x}");
            if x > 0 {
                let mean = -libm::expm1(-exact) / exact;
                assert!((float(mean_decay(x)) - mean).abs() < 4e-15, "{x}: {} {mean}", float(mean_decay(x)));
            }
        }
    }

    #[test]
    fn never_rises() {
        let mut random = Stream::named(2, "exp");
        for _ in 0..100_000 {
            let x = random.below(44 << 32);
            assert!(exp_neg(x + 1_024) <= exp_neg(x) && mean_decay(x + 1_024) <= mean_decay(x), "{x}");
        }
    }
}
