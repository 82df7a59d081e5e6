//! The L4S step: marks for scalable senders at a shallow delay, at once and without an average.
//!
//! *Law*: a packet of ECT(1) that was queued for `full` or longer, and leaves at least two packets behind it, is marked. With
//! `from` below `full`, the likelihood of a mark rises linearly from 0 at `from` to 1 at `full`. No other packet is
//! touched.
//! *Source*: RFC 9331, section 5.1, for who is marked; RFC 9332, section 2.4 and appendix A.1, for the ramp and its least length
//! in packets; RFC 8290, section 5.2.7, for a shallow threshold in a queue of its own.
//! *Units*: nanoseconds; likelihoods in 10⁻¹².
//! *Example*: below.
//! *Cost*: a comparison; a division on the ramp.
//! *Notes*: packets that leave two behind them were queued for at least two packets' time at the rate of their queue, or a
//! burst has just arrived. So the step never marks because a packet alone takes longer than `full`, and needs to know no rate:
//! at 1 Mbit/s two packets of 1,500 B take 24 ms.
//! *See also*: [`dualpi2`](crate::dualpi2), which couples the marks of a shared queue; [`codel`](crate::codel), for the
//! other packets of a flow queue.
//!
//! ```
//! use tidegate_core::{step::Step, Ecn, Span};
//! let step = Step::at(Span::from_millis(1));
//! assert!(step.marks(Ecn::Ect1, Span::from_millis(1), 2));
//! assert!(!step.marks(Ecn::Ect1, Span::from_micros(999), 2), "too early");
//! assert!(!step.marks(Ecn::Ect1, Span::from_millis(5), 1), "one packet behind it is no queue");
//! assert!(!step.marks(Ecn::Ect0, Span::from_millis(5), 9), "the classic AQM decides");
//! ```

use crate::codel::mark;
use crate::packet::{Ecn, Packet};
use crate::params::ParamError;
use crate::qdisc::Outlet;
use crate::red::Signal;
use tidegate_units::wide::mul_div;
use tidegate_units::{Instant, Span};

/// Likelihood 1.
pub const ONE: u64 = 1_000_000_000_000;
/// A packet that leaves fewer packets behind it is not marked.
pub const LEAST_BEHIND: u64 = 2;

/// The threshold. See the [module](self).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Step {
    /// The delay above which marks begin.
    pub from: Span,
    /// The delay from which every packet is marked.
    pub full: Span,
}

impl Step {
    /// A step without a ramp.
    pub const fn at(full: Span) -> Self {
        Self { from: full, full }
    }

    /// Checks the thresholds.
    ///
    /// # Errors
    /// A step at zero, or a ramp that begins above it.
    pub fn validate(self) -> Result<Self, ParamError> {
        if self.full.is_zero() {
            return Err(ParamError::new("l4s_step", "must be above 0, for example 1ms"));
        }
        if self.from > self.full {
            return Err(ParamError::new("l4s_ramp", "must not begin above the step"));
        }
        Ok(self)
    }

    /// The likelihood of a mark, in 1/[`ONE`] and rounded up, after a delay of `waited` in a queue that holds `behind` more packets.
    pub fn likelihood(&self, waited: Span, behind: u64) -> u64 {
        if behind < LEAST_BEHIND || waited < self.from {
            return 0;
        }
        if waited >= self.full {
            return ONE;
        }
        let ramp = self.full.saturating_sub(self.from).as_nanos();
        mul_div_up(waited.saturating_sub(self.from).as_nanos(), ONE, ramp)
    }

    /// Whether a packet with the field `ecn` is marked where there is no ramp.
    pub fn marks(&self, ecn: Ecn, waited: Span, behind: u64) -> bool {
        ecn == Ecn::Ect1 && behind >= LEAST_BEHIND && waited >= self.full
    }
}

/// `a * b / c`, rounded up, or the largest number.
pub(crate) const fn mul_div_up(a: u64, b: u64, c: u64) -> u64 {
    let down = mul_div(a, b, c);
    down.saturating_add((down.wrapping_mul(c) != a.wrapping_mul(b)) as u64)
}

/// Marks `packet`, which leaves a queue of one flow at `now`, if there is a step that marks it.
#[inline]
pub(crate) fn apply<P: Packet>(
    step: Option<Step>,
    packet: &mut P,
    arrived: Instant,
    now: Instant,
    behind: u64,
    out: &mut dyn Outlet<P>,
) -> bool {
    step.is_some_and(|step| step.marks(packet.ecn(), now.since(arrived), behind)) && mark(Signal::Mark, packet, out)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_ramp_is_linear() {
        // RFC 9332, A.1: from 800 us over 400 us. 900 us is a quarter of the way, 1 ms a half.
        let step = Step { from: Span::from_micros(800), full: Span::from_micros(1_200) };
        let at = |us| step.likelihood(Span::from_micros(us), 2);
        assert_eq!([at(799), at(800), at(900), at(1_000), at(1_200), at(9_000)], [0, 0, ONE / 4, ONE / 2, ONE, ONE]);
        assert_eq!(step.likelihood(Span::from_micros(9_000), 1), 0);
        assert_eq!(Step::at(Span::from_millis(1)).likelihood(Span::from_millis(1), 2), ONE);
    }

    #[test]
    fn wrong_thresholds_name_the_field() {
        let ramp = Step { from: Span::from_millis(2), full: Span::from_millis(1) };
        assert_eq!(ramp.validate().unwrap_err().field, "l4s_ramp");
        assert_eq!(Step::at(Span::ZERO).validate().unwrap_err().field, "l4s_step");
    }
}
