//! Credit without a sign, in bit·ns/s: what a rate earns in a time, and what bytes cost, in 128 bits. [`Credit`](crate::Credit)
//! has signs and products of 128 bits, which BPF has not.
//!
//! *See also*: `kernel/`, where it is translated to C.

use tidegate_units::wide::{halves_div_ceil, mul_high};
use tidegate_units::{Rate, Span};

/// One byte in bit·ns/s.
pub(crate) const PER_BYTE: u64 = 8_000_000_000;

/// The exact product of a rate and a time, or of two other numbers.
pub(crate) fn work(a: u64, b: u64) -> u128 {
    u128::from(mul_high(a, b)) << 64 | u128::from(a.wrapping_mul(b))
}

/// The time in which `rate` earns `credit`, in bit·ns/s, rounded up; the longest span where that is longer.
pub(crate) fn time_of(credit: u128, rate: Rate) -> Span {
    Span::from_nanos(halves_div_ceil((credit >> 64) as u64, credit as u64, rate.as_bps()))
}
