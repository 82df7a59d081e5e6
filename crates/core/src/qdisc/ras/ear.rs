//! The estimated average rate of the arrivals.
//!
//! *See also*: `kernel/`, where it is translated to C.

use crate::credit::PER_BYTE;
use crate::decay::{exp_neg, mean_decay, mul};
use tidegate_units::wide::mul_div;
use tidegate_units::{Bytes, Instant, Rate, Span};

/// The most that an estimate counts, with the bits of fraction.
const MOST: u64 = 1 << 63;

/// Stoica's exponential average of a rate.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Ear {
    /// Bit/s with [`Ear::FRACTION`] bits of fraction.
    bits: u64,
    last: Option<Instant>,
}

impl Ear {
    /// Bits of fraction of [`Ear::bits`].
    pub const FRACTION: u32 = 16;

    /// The estimate, rounded down.
    pub fn rate(&self) -> Rate {
        Rate::from_bps(self.bits >> Self::FRACTION)
    }
    /// The estimate in bit/s with [`Ear::FRACTION`] bits of fraction; at most 2⁴⁷ bit/s.
    pub fn bits(&self) -> u64 {
        self.bits
    }
    /// Updates the estimate with `size` bytes that arrive at `now`. The first arrival counts as one after an infinite
    /// pause.
    pub fn on_arrival(&mut self, now: Instant, size: Bytes, averaging: Span) {
        // x = T/K with 32 bits of fraction; (1 - e^-x) L/T = (1 - e^-x)/x L/K, which also has the limit at T = 0.
        let gap = match self.last {
            Some(last) => now.since(last),
            None => Span::MAX,
        };
        self.last = match self.last {
            Some(last) => Some(last.max(now)),
            None => Some(now),
        };
        let constant = averaging.as_nanos().max(1);
        let x = mul_div(gap.as_nanos(), 1 << 32, constant);
        let over_constant = mul_div(size.as_u64(), PER_BYTE << Self::FRACTION, constant).min(MOST);
        let fresh = mul(mean_decay(x), over_constant);
        let kept = mul(exp_neg(x), self.bits);
        self.bits = fresh.saturating_add(kept).min(MOST);
    }
}
