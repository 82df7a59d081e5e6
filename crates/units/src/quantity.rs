//! [`Instant`], [`Span`], [`Bytes`], [`Rate`], [`Credit`].

use core::iter::Sum;
use core::ops::{Add, AddAssign, Sub, SubAssign};

/// Nanoseconds in a second.
pub const NANOS_PER_SEC: u64 = 1_000_000_000;
/// One byte of [`Credit`], in bit·ns/s.
const CREDIT_PER_BYTE: i128 = 8 * NANOS_PER_SEC as i128;

/// A point in time: nanoseconds since an epoch that the caller chooses (the start of a simulation, the boot of a
/// machine). Only instants of one clock are comparable.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default)]
pub struct Instant(u64);

/// A duration in nanoseconds.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default)]
pub struct Span(u64);

/// A number of bytes.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default)]
pub struct Bytes(u64);

/// A rate in bits per second.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default)]
pub struct Rate(u64);

/// Exact credit in bit·ns/s: what a rate accumulates in a time, and what bytes cost. Negative values are a debt.
///
/// One byte is 8·10⁹ units. An `i128` holds the largest rate times the largest span.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default)]
pub struct Credit(i128);

impl Instant {
    /// The epoch.
    pub const ZERO: Self = Self(0);
    /// The latest instant; represents "never" where an `Option` would cost.
    pub const MAX: Self = Self(u64::MAX);

    /// `nanos` nanoseconds after the epoch.
    #[inline]
    pub const fn from_nanos(nanos: u64) -> Self {
        Self(nanos)
    }
    /// Nanoseconds since the epoch.
    #[inline]
    pub const fn as_nanos(self) -> u64 {
        self.0
    }
    /// The time from `earlier` to `self`; zero when `earlier` is later.
    #[inline]
    pub const fn since(self, earlier: Self) -> Span {
        Span(self.0.saturating_sub(earlier.0))
    }
    /// `self` moved back by `span`, not before the epoch.
    #[inline]
    pub const fn saturating_sub(self, span: Span) -> Self {
        Self(self.0.saturating_sub(span.0))
    }
}

impl Add<Span> for Instant {
    type Output = Self;
    /// Saturates at [`Instant::MAX`].
    #[inline]
    fn add(self, span: Span) -> Self {
        Self(self.0.saturating_add(span.0))
    }
}

impl AddAssign<Span> for Instant {
    #[inline]
    fn add_assign(&mut self, span: Span) {
        *self = *self + span;
    }
}

impl Span {
    /// No time.
    pub const ZERO: Self = Self(0);
    /// The longest span.
    pub const MAX: Self = Self(u64::MAX);

    /// A span of `n` nanoseconds.
    #[inline]
    pub const fn from_nanos(n: u64) -> Self {
        Self(n)
    }
    /// A span of `n` microseconds; saturates.
    #[inline]
    pub const fn from_micros(n: u64) -> Self {
        Self(n.saturating_mul(1_000))
    }
    /// A span of `n` milliseconds; saturates.
    #[inline]
    pub const fn from_millis(n: u64) -> Self {
        Self(n.saturating_mul(1_000_000))
    }
    /// A span of `n` seconds; saturates.
    #[inline]
    pub const fn from_secs(n: u64) -> Self {
        Self(n.saturating_mul(NANOS_PER_SEC))
    }
    /// The duration in nanoseconds.
    #[inline]
    pub const fn as_nanos(self) -> u64 {
        self.0
    }
    /// The duration in seconds, for display and statistics only.
    pub fn as_secs_f64(self) -> f64 {
        self.0 as f64 / NANOS_PER_SEC as f64
    }
    /// Whether the duration is zero.
    #[inline]
    pub const fn is_zero(self) -> bool {
        self.0 == 0
    }
    /// `self - other`, not below zero.
    #[inline]
    pub const fn saturating_sub(self, other: Self) -> Self {
        Self(self.0.saturating_sub(other.0))
    }
    /// `self` `n` times; saturates.
    #[inline]
    pub const fn saturating_mul(self, n: u64) -> Self {
        Self(self.0.saturating_mul(n))
    }
}

impl Add for Span {
    type Output = Self;
    /// Saturates at [`Span::MAX`].
    #[inline]
    fn add(self, other: Self) -> Self {
        Self(self.0.saturating_add(other.0))
    }
}

impl AddAssign for Span {
    #[inline]
    fn add_assign(&mut self, other: Self) {
        *self = *self + other;
    }
}

impl Bytes {
    /// No bytes.
    pub const ZERO: Self = Self(0);
    /// The largest size; represents "no limit".
    pub const MAX: Self = Self(u64::MAX);

    /// `n` bytes.
    #[inline]
    pub const fn new(n: u64) -> Self {
        Self(n)
    }
    /// The number of bytes.
    #[inline]
    pub const fn as_u64(self) -> u64 {
        self.0
    }
    /// The number of bits; saturates.
    #[inline]
    pub const fn bits(self) -> u64 {
        self.0.saturating_mul(8)
    }
    /// `self - other`, not below zero.
    #[inline]
    pub const fn saturating_sub(self, other: Self) -> Self {
        Self(self.0.saturating_sub(other.0))
    }
    /// `self` `n` times; saturates.
    #[inline]
    pub const fn saturating_mul(self, n: u64) -> Self {
        Self(self.0.saturating_mul(n))
    }
}

impl Add for Bytes {
    type Output = Self;
    /// Saturates at [`Bytes::MAX`].
    #[inline]
    fn add(self, other: Self) -> Self {
        Self(self.0.saturating_add(other.0))
    }
}

impl AddAssign for Bytes {
    #[inline]
    fn add_assign(&mut self, other: Self) {
        *self = *self + other;
    }
}

impl Sub for Bytes {
    type Output = Self;
    /// # Panics
    /// In debug builds when `other` is larger: a count below zero is a bug of the caller.
    #[inline]
    fn sub(self, other: Self) -> Self {
        debug_assert!(self.0 >= other.0, "bytes below zero");
        Self(self.0.saturating_sub(other.0))
    }
}

impl SubAssign for Bytes {
    #[inline]
    fn sub_assign(&mut self, other: Self) {
        *self = *self - other;
    }
}

impl Sum for Bytes {
    #[inline]
    fn sum<I: Iterator<Item = Self>>(iter: I) -> Self {
        iter.fold(Self::ZERO, Add::add)
    }
}

impl Rate {
    /// 0 bit/s.
    pub const ZERO: Self = Self(0);

    /// `n` bits per second.
    #[inline]
    pub const fn from_bps(n: u64) -> Self {
        Self(n)
    }
    /// `n` kilobits (10³) per second; saturates.
    #[inline]
    pub const fn from_kbit(n: u64) -> Self {
        Self(n.saturating_mul(1_000))
    }
    /// `n` megabits (10⁶) per second; saturates.
    #[inline]
    pub const fn from_mbit(n: u64) -> Self {
        Self(n.saturating_mul(1_000_000))
    }
    /// `n` bytes per second; saturates.
    #[inline]
    pub const fn from_bytes_per_sec(n: u64) -> Self {
        Self(n.saturating_mul(8))
    }
    /// Bits per second.
    #[inline]
    pub const fn as_bps(self) -> u64 {
        self.0
    }
    /// Whether the rate is 0 bit/s.
    #[inline]
    pub const fn is_zero(self) -> bool {
        self.0 == 0
    }
    /// The credit that this rate accumulates in `span`, exactly; saturates beyond 2¹²⁷ bit·ns/s, which no practical
    /// rate and span reach.
    #[inline]
    pub const fn credit_in(self, span: Span) -> Credit {
        let product = self.0 as u128 * span.0 as u128;
        Credit(if product > i128::MAX as u128 { i128::MAX } else { product as i128 })
    }
    /// Whole bytes sent in `span`, rounded down.
    #[inline]
    pub fn bytes_in_floor(self, span: Span) -> Bytes {
        self.credit_in(span).bytes_floor()
    }
    /// The time to send `bytes`, rounded up to a nanosecond; `None` at rate zero (unless `bytes` is zero).
    #[inline]
    pub fn time_for_ceil(self, bytes: Bytes) -> Option<Span> {
        Credit::of(bytes).time_at_ceil(self)
    }
    /// `self - other`, not below zero.
    #[inline]
    pub const fn saturating_sub(self, other: Self) -> Self {
        Self(self.0.saturating_sub(other.0))
    }
}

impl Add for Rate {
    type Output = Self;
    /// Saturates.
    #[inline]
    fn add(self, other: Self) -> Self {
        Self(self.0.saturating_add(other.0))
    }
}

impl AddAssign for Rate {
    #[inline]
    fn add_assign(&mut self, other: Self) {
        *self = *self + other;
    }
}

impl Sub for Rate {
    type Output = Self;
    /// # Panics
    /// In debug builds when `other` is larger.
    #[inline]
    fn sub(self, other: Self) -> Self {
        debug_assert!(self.0 >= other.0, "rate below zero");
        Self(self.0.saturating_sub(other.0))
    }
}

impl Sum for Rate {
    #[inline]
    fn sum<I: Iterator<Item = Self>>(iter: I) -> Self {
        iter.fold(Self::ZERO, Add::add)
    }
}

impl Credit {
    /// Neither credit nor debt.
    pub const ZERO: Self = Self(0);

    /// The cost of `bytes`, exactly.
    #[inline]
    pub const fn of(bytes: Bytes) -> Self {
        Self(bytes.0 as i128 * CREDIT_PER_BYTE)
    }
    /// A credit of `raw` bit·ns/s.
    #[inline]
    pub const fn from_raw(raw: i128) -> Self {
        Self(raw)
    }
    /// The credit in bit·ns/s.
    #[inline]
    pub const fn as_raw(self) -> i128 {
        self.0
    }
    /// Whole bytes that this credit pays for; zero when it is a debt.
    #[inline]
    pub fn bytes_floor(self) -> Bytes {
        if self.0 <= 0 {
            return Bytes::ZERO;
        }
        // Most credits fit 64 bits, where a division is several times cheaper.
        match u64::try_from(self.0) {
            Ok(raw) => Bytes(raw / CREDIT_PER_BYTE as u64),
            Err(_) => Bytes(u64::try_from(self.0 / CREDIT_PER_BYTE).unwrap_or(u64::MAX)),
        }
    }
    /// The time in which `rate` accumulates this credit, rounded up to a nanosecond; zero when the credit is not
    /// positive, `None` when it is never reached (rate zero, or beyond [`Span::MAX`]).
    #[inline]
    pub fn time_at_ceil(self, rate: Rate) -> Option<Span> {
        if self.0 <= 0 {
            return Some(Span::ZERO);
        }
        if rate.0 == 0 {
            return None;
        }
        match u64::try_from(self.0) {
            Ok(raw) => Some(Span(raw.div_ceil(rate.0))),
            Err(_) => u64::try_from((self.0 as u128).div_ceil(u128::from(rate.0))).ok().map(Span),
        }
    }
    /// The smaller of the two.
    #[inline]
    pub fn min(self, other: Self) -> Self {
        Self(self.0.min(other.0))
    }
    /// The larger of the two.
    #[inline]
    pub fn max(self, other: Self) -> Self {
        Self(self.0.max(other.0))
    }
}

impl Add for Credit {
    type Output = Self;
    /// Saturates.
    #[inline]
    fn add(self, other: Self) -> Self {
        Self(self.0.saturating_add(other.0))
    }
}

impl AddAssign for Credit {
    #[inline]
    fn add_assign(&mut self, other: Self) {
        *self = *self + other;
    }
}

impl Sub for Credit {
    type Output = Self;
    /// Saturates. Below zero is a debt.
    #[inline]
    fn sub(self, other: Self) -> Self {
        Self(self.0.saturating_sub(other.0))
    }
}

impl SubAssign for Credit {
    #[inline]
    fn sub_assign(&mut self, other: Self) {
        *self = *self - other;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rate_times_span_is_exact() {
        // 3 bit/s for 7 ns is 21 bit·ns/s: far less than a byte, but kept.
        assert_eq!(Rate::from_bps(3).credit_in(Span::from_nanos(7)).as_raw(), 21);
        // 8 bit/s for one second is exactly one byte; one nanosecond less is none.
        let rate = Rate::from_bps(8);
        assert_eq!(rate.bytes_in_floor(Span::from_secs(1)), Bytes::new(1));
        assert_eq!(rate.bytes_in_floor(Span::from_nanos(999_999_999)), Bytes::ZERO);
    }

    #[test]
    fn times_round_against_the_sender() {
        // 1500 B = 12,000 bit at 7 bit/s: 1714.285714285.. s, so the next whole nanosecond.
        assert_eq!(Rate::from_bps(7).time_for_ceil(Bytes::new(1500)), Some(Span::from_nanos(1_714_285_714_286)));
        assert_eq!(Rate::ZERO.time_for_ceil(Bytes::new(1)), None);
        assert_eq!(Rate::ZERO.time_for_ceil(Bytes::ZERO), Some(Span::ZERO));
    }

    #[test]
    fn the_extremes_do_not_overflow() {
        assert_eq!(Rate::from_bps(u64::MAX).credit_in(Span::MAX).as_raw(), i128::MAX);
        // A terabit a second for the longest span, 584 years, is still exact.
        let tera = Rate::from_bps(1_000_000_000_000).credit_in(Span::MAX);
        assert_eq!(tera.as_raw(), 1_000_000_000_000 * i128::from(u64::MAX));
        assert_eq!(Instant::MAX + Span::MAX, Instant::MAX);
        assert_eq!(Credit::of(Bytes::MAX).time_at_ceil(Rate::from_bps(1)), None);
    }
}
