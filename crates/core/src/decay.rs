//! The exponential in fixed point, `e^-x` and `(1 - e^-x) / x`, for estimators with exponential decay.
//!
//! *Law*: for every `x` with 32 bits of fraction, the error of `e^-x` is below 2⁻⁵⁵ and that of `(1 - e^-x) / x`
//! below 2⁻⁴⁸. Both are bit-identical on every machine.
//! *Source*: `e^-x = e^-i e^-(j/64) e^-r` with tables for the whole part `i` and the 64ths `j`, and the Taylor series
//! for the rest `r` below 1/64.
//! *Cost*: about ten multiplications of 64 by 64 bits; one division for the second function.
//! *See also*: `libm::exp`, a float, with which the tests compare; `kernel/`, where it is translated to C.

use tidegate_units::wide::{mul_div, mul_high};

/// Bits of fraction of the results.
pub const FRACTION: u32 = 62;
/// The value 1 in fixed point.
pub const ONE: u64 = 1 << FRACTION;

/// `e^-(j/64)` for `j` below 64, rounded to the nearest.
#[rustfmt::skip]
const PARTS: [u64; 64] = [
    0x4000000000000000, 0x3f01fd57fddf4925, 0x3e07ead5116baf23, 0x3d11b8d5fd9f7f64,
    0x3c1f57f78e05479d, 0x3b30b913a0834631, 0x3a45cd4032f80567, 0x395e85ce7498fb25,
    0x387ad449db04430f, 0x379aaa773af6c403, 0x36bdfa53e4984c4f, 0x35e4b614c34f694c,
    0x350ed025810ef781, 0x343c3b27ad0fa01e, 0x336ce9f1e5e7af57, 0x32a0cf8f06f3e4fa,
    0x31d7df3d590415d1, 0x31120c6dc63ea876, 0x304f4ac3112e2bd3, 0x2f8f8e110eec77fc,
    0x2ed2ca5be45efc27, 0x2e18f3d746780d54, 0x2d61fee5bd7139c5, 0x2cade017eaf2d4ca,
    0x2bfc8c2bd31d1d55, 0x2b4df80c28678fd1, 0x2aa218cf9a4b212b, 0x29f8e3b826ac4d96,
    0x29524e326dfa11ac, 0x28ae4dd509f70fbd, 0x280cd85fe7224ddd, 0x276de3bba0b52323,
    0x26d165f8df2c13fd, 0x2637554fb95085ff, 0x259fa81f17b95bd5, 0x250a54ec1ab8b141,
    0x2477526182ad1600, 0x23e6974f1aaccc97, 0x23581aa92581b7b7, 0x22cbd387ccecc5da,
    0x2241b9269327cf56, 0x21b9c2e3c69cfef6, 0x2133e83ff7cb0070, 0x20b020dd714d530a,
    0x202e647fb20040d8, 0x1faeab0ae9381ccb, 0x1f30ec8375038af8, 0x1eb5210d6270b735,
    0x1e3b40ebefcd7e53, 0x1dc3448110daadea, 0x1d4d244cf4ea9de5, 0x1cd8d8ed8ee385ac,
    0x1c665b1e1f1e0d04, 0x1bf5a3b6bf18b68b, 0x1b86ababeef8def6, 0x1b196c0e24d2291e,
    0x1aadde095dad4b40, 0x1a43fae4b0474de1, 0x19dbbc01e1826833, 0x19751adcfa81c10a,
    0x1910110be069760e, 0x18ac983dedbc6525, 0x184aaa3b8d514de8, 0x17ea40e5d6d8fa6f,
];
/// `e^-i` for `i` below 64, rounded to the nearest, but 0 from 43 on, where it is below 2⁻⁶².
#[rustfmt::skip]
const WHOLES: [u64; 64] = [
    0x4000000000000000, 0x178b56362cef37c7, 0x08a95551dfc0e5d0, 0x032fb61999d615d9,
    0x012c155b8213cf47, 0x006e64ff80354dd8, 0x00289ca3e227a9ac, 0x000ef0b5ce1254c7,
    0x00057f08410409eb, 0x0002059e44a4ca8b, 0x0000be6bcdab23e5, 0x0000460d508e3d9e,
    0x000019c54c3b43bd, 0x0000097b029dcc0f, 0x0000037cd8dfb603, 0x0000014875ca227f,
    0x00000078d56eebba, 0x0000002c73c62eb5, 0x000000105a628c6a, 0x000000060415bfcb,
    0x000000023690cabe, 0x00000000d06d8687, 0x000000004cad22fc, 0x000000001c3527e4,
    0x000000000a6083c8, 0x0000000003d146f5, 0x000000000167852a, 0x0000000000844295,
    0x000000000030a7e0, 0x000000000011e643, 0x00000000000695b8, 0x0000000000026c24,
    0x000000000000e423, 0x00000000000053ed, 0x0000000000001ee0, 0x0000000000000b5c,
    0x000000000000042e, 0x000000000000018a, 0x0000000000000091, 0x0000000000000035,
    0x0000000000000014, 0x0000000000000007, 0x0000000000000003, 0x0000000000000000,
    0x0000000000000000, 0x0000000000000000, 0x0000000000000000, 0x0000000000000000,
    0x0000000000000000, 0x0000000000000000, 0x0000000000000000, 0x0000000000000000,
    0x0000000000000000, 0x0000000000000000, 0x0000000000000000, 0x0000000000000000,
    0x0000000000000000, 0x0000000000000000, 0x0000000000000000, 0x0000000000000000,
    0x0000000000000000, 0x0000000000000000, 0x0000000000000000, 0x0000000000000000,
];

/// `a * b` where one of them has [`FRACTION`] bits of fraction, rounded down; below 2⁶⁴ where that one is at most 1.
pub(crate) fn mul(a: u64, b: u64) -> u64 {
    mul_high(a, b) << (u64::BITS - FRACTION) | a.wrapping_mul(b) >> FRACTION
}

/// `e^-x` of an `x` with 32 bits of fraction; the result has [`FRACTION`] bits.
pub fn exp_neg(x: u64) -> u64 {
    let whole = (x >> 32) as usize;
    if whole >= 64 {
        return 0;
    }
    let part = ((x >> 26) & 63) as usize;
    // Below 1/64, so that the terms left out, from r^8/8! on, are below 2^-63.
    let r = (x & ((1 << 26) - 1)) << (FRACTION - 32);
    let mut sum = ONE - r / 7;
    for term in 0..6_u64 {
        sum = ONE - mul(r, sum) / (6 - term);
    }
    mul(mul(sum, PARTS[part]), WHOLES[whole])
}

/// `(1 - e^-x) / x` of an `x` with 32 bits of fraction; 1 at 0. The result has [`FRACTION`] bits.
pub fn mean_decay(x: u64) -> u64 {
    if x < 1 << 26 {
        // 1 - x/2 (1 - x/3 (1 - x/4 ..)): no cancellation near 0.
        let r = x << (FRACTION - 32);
        let mut sum = ONE - r / 8;
        for term in 0..6_u64 {
            sum = ONE - mul(r, sum) / (7 - term);
        }
        return sum;
    }
    mul_div(ONE - exp_neg(x), 1 << 32, x)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::random::Stream;

    /// `e^-(1/64)` with 96 bits of fraction by the alternating series; its terms shrink by 64 n each.
    fn taylor_of_a_64th() -> u128 {
        let one = 1_u128 << 96;
        let (mut sum, mut term, mut n) = (one, one, 1);
        while term > 0 {
            term = term / 64 / n;
            sum = if n % 2 == 1 { sum - term } else { sum + term };
            n += 1;
        }
        sum
    }

    /// The product of two numbers with 96 bits of fraction, neither above one, within 2^-94.
    fn times(a: u128, b: u128) -> u128 {
        // (ah 2^48 + al) (bh 2^48 + bl) / 2^96, without the product of the low parts.
        let mask = (1_u128 << 48) - 1;
        let (ah, al, bh, bl) = (a >> 48, a & mask, b >> 48, b & mask);
        ah * bh + ((ah * bl + al * bh) >> 48)
    }

    #[test]
    fn tables_are_the_powers() {
        let powers = |base: u128| core::iter::successors(Some(1_u128 << 96), move |power| Some(times(*power, base)));
        let rounded = |power: u128| ((power + (1 << (95 - FRACTION))) >> (96 - FRACTION)) as u64;
        let step = taylor_of_a_64th();
        let inverse_e = powers(step).nth(64).unwrap();
        assert!(powers(step).map(rounded).zip(PARTS).all(|(power, entry)| power == entry));
        for (i, (power, entry)) in powers(inverse_e).zip(WHOLES).enumerate() {
            assert_eq!(if i < 43 { rounded(power) } else { 0 }, entry, "{i}");
        }
    }

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
