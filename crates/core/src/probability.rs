//! [`Probability`]: a number from 0 to 1 with 32 bits of fraction, for decisions without floats.

use core::fmt;

use tidegate_units::wide::mul_div;

/// A probability or a weight: a multiple of 2⁻³² from 0 to 1, both included.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default)]
pub struct Probability(u64);

impl Probability {
    /// Probability 0.
    pub const ZERO: Self = Self(0);
    /// Probability 1.
    pub const ONE: Self = Self(1 << 32);

    /// `numerator / denominator`, rounded to the nearest multiple of 2⁻³²; `None` when it exceeds one or the
    /// denominator is zero.
    pub const fn from_ratio(numerator: u64, denominator: u64) -> Option<Self> {
        if denominator == 0 || numerator > denominator {
            return None;
        }
        let twice = ((numerator as u128) << 33) / denominator as u128;
        Some(Self(twice.div_ceil(2) as u64))
    }
    /// From a decimal of a configuration, rounded to the nearest multiple of 2⁻³²; `None` outside 0..=1 and for NaN.
    /// Used at configuration time; IEEE 754 arithmetic is exact here, so the result is the same on every machine.
    #[expect(clippy::float_arithmetic, reason = "for configuration time")]
    pub fn from_f64(value: f64) -> Option<Self> {
        if (0.0..=1.0).contains(&value) { Some(Self((value * 4_294_967_296.0 + 0.5) as u64)) } else { None }
    }
    /// From 32 bits of fraction; `None` above one.
    pub const fn from_bits(bits: u64) -> Option<Self> {
        if bits <= Self::ONE.0 { Some(Self(bits)) } else { None }
    }
    /// From 32 bits of fraction; one when there is more.
    pub const fn saturating_from_bits(bits: u64) -> Self {
        if bits > Self::ONE.0 { Self::ONE } else { Self(bits) }
    }
    /// The value in units of 2⁻³², the argument of [`Stream::chance`](crate::random::Stream::chance).
    pub const fn bits(self) -> u64 {
        self.0
    }
    /// `self * numerator / denominator`, rounded down, at most one; one when the denominator is zero.
    pub const fn scaled(self, numerator: u64, denominator: u64) -> Self {
        Self::saturating_from_bits(mul_div(self.0, numerator, denominator))
    }
    /// `value` times this probability, rounded down.
    pub const fn of(self, value: u64) -> u64 {
        // In halves: no product exceeds 64 bits.
        (value >> 32) * self.0 + (((value & 0xffff_ffff) * self.0) >> 32)
    }
    /// `value` times this probability, rounded up.
    pub const fn of_ceil(self, value: u64) -> u64 {
        self.of(value) + (((value & 0xffff_ffff) * self.0) & 0xffff_ffff != 0) as u64
    }
    /// As a float, for display and statistics only.
    #[expect(clippy::float_arithmetic, reason = "for display and statistics")]
    pub fn as_f64(self) -> f64 {
        self.0 as f64 / 4_294_967_296.0
    }
}

impl fmt::Display for Probability {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(&self.as_f64(), f)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rounds_to_the_nearest() {
        // 0.002 * 2^32 = 8589934.592, so 8589935.
        assert_eq!(Probability::from_ratio(2, 1000).unwrap().bits(), 8_589_935);
        assert_eq!(Probability::from_f64(0.002).unwrap().bits(), 8_589_935);
        // A third of 2^32 is 1431655765.33.
        assert_eq!(Probability::from_ratio(1, 3).unwrap().bits(), 1_431_655_765);
        assert_eq!(Probability::from_ratio(7, 7), Some(Probability::ONE));
        assert_eq!(Probability::from_ratio(8, 7), None);
        assert_eq!(Probability::from_f64(f64::NAN), None);
        assert_eq!(Probability::from_f64(1.0), Some(Probability::ONE));
        assert_eq!(Probability::from_f64(1.000_000_1), None);
    }

    #[test]
    fn scales_and_saturates() {
        let tenth = Probability::from_ratio(1, 10).unwrap();
        // 429496730 * 1500 / 500 = 1288490190.
        assert_eq!(tenth.scaled(1500, 500).bits(), 1_288_490_190);
        assert_eq!(tenth.scaled(11, 1), Probability::ONE);
        assert_eq!(tenth.scaled(0, 1), Probability::ZERO);
    }
}
