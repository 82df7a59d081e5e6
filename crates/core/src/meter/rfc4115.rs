//! The meter of RFC 4115: two rates, with efficient handling of in-profile traffic.
//!
//! *Law*: of the green packets that pass at `t_i <= .. <= t_k`, the sizes sum to at most `CBS + CIR (t_k - t_i)`;
//! of the yellow ones to at most `EBS + EIR (t_k - t_i)`. A packet that comes green and finds committed tokens stays
//! green, whatever the excess traffic did.
//! *Source*: RFC 4115 section 4: green is decided first by the committed bucket, then yellow by the excess bucket;
//! each colour takes from its own bucket only.
//! *Units*: CIR, EIR as [`Rate`]; CBS, EBS in bytes; tokens in bit·ns/s, so that nothing rounds.
//! *Cost*: O(1): two multiplications.
//! *Notes*: EIR is the rate beyond CIR: the peak of green and yellow together is CIR + EIR.
//! *Departures from the source, and why*: as [`two_bucket`](crate::two_bucket).
//! *See also*: [`trtcm`](crate::trtcm): the peak is of both colours, and yellow traffic can turn green red.
//!
//! ```
//! use tidegate_core::{meter::Mode, rfc4115::{Params, Rfc4115}, *};
//! let (cir, eir, burst) = (Rate::from_kbit(8), Rate::from_kbit(8), Bytes::new(1_000));
//! let mut meter = Rfc4115::new(Params { cir, cbs: burst, eir, ebs: burst, mode: Mode::Aware }, Instant::ZERO).unwrap();
//! // Yellow that exhausts its own bucket does not harm green.
//! assert_eq!(meter.colour(Instant::ZERO, burst, Colour::Yellow), Colour::Yellow);
//! assert_eq!(meter.colour(Instant::ZERO, burst, Colour::Yellow), Colour::Red);
//! assert_eq!(meter.colour(Instant::ZERO, burst, Colour::Green), Colour::Green);
//! ```

use crate::meter::Mode;
use crate::packet::Colour;
use crate::params::ParamError;
use crate::two_bucket::{Buckets, TwoBucketMeter, TwoBucketRule, graded};
use tidegate_units::{Bytes, Instant, Rate};

/// The parameters of the RFC 4115 meter.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Params {
    /// Committed information rate.
    pub cir: Rate,
    /// Committed burst size.
    pub cbs: Bytes,
    /// Excess information rate, beyond `cir`.
    pub eir: Rate,
    /// Excess burst size.
    pub ebs: Bytes,
    /// Whether the colour of an arriving packet counts.
    pub mode: Mode,
}

impl TwoBucketRule for Params {
    /// # Errors
    /// Names `cir` when both rates are zero, and `cbs` when both bursts are.
    fn validate(&self) -> Result<(), ParamError> {
        if self.cir.is_zero() && self.eir.is_zero() {
            return Err(ParamError::new("cir", "cir or eir must be more than 0"));
        }
        if self.cbs == Bytes::ZERO && self.ebs == Bytes::ZERO {
            return Err(ParamError::new("cbs", "cbs or ebs must be more than 0; both should hold the largest packet"));
        }
        Ok(())
    }
    fn buckets(&self) -> [(Rate, Bytes); 2] {
        [(self.cir, self.cbs), (self.eir, self.ebs)]
    }
    fn mode(&self) -> Mode {
        self.mode
    }
    fn colour(buckets: &mut Buckets, now: Instant, size: Bytes, incoming: Colour) -> Colour {
        colour(buckets, now, size, incoming)
    }
}

/// The colour of `size` bytes that pass at `now` and arrived as `incoming`, for which the tokens are taken.
fn colour(buckets: &mut Buckets, now: Instant, size: Bytes, incoming: Colour) -> Colour {
    buckets.update(now);
    let green = buckets.committed.spend_if(incoming == Colour::Green, size);
    let yellow = buckets.second.spend_if(!green & (incoming != Colour::Red), size);
    graded(green, yellow)
}

/// The meter of RFC 4115. See the [module](self).
pub type Rfc4115 = TwoBucketMeter<Params>;

#[cfg(test)]
mod tests {
    use super::*;
    use Colour::{Green, Red, Yellow};
    use tidegate_units::Span;

    // One and two bytes a millisecond.
    const BLIND: Params = Params {
        cir: Rate::from_kbit(8),
        cbs: Bytes::new(1_000),
        eir: Rate::from_kbit(16),
        ebs: Bytes::new(1_500),
        mode: Mode::Blind,
    };

    fn meter(params: Params) -> Rfc4115 {
        Rfc4115::new(params, Instant::ZERO).unwrap()
    }
    fn at(millis: u64) -> Instant {
        Instant::ZERO + Span::from_millis(millis)
    }

    #[test]
    fn the_edges_of_both_buckets() {
        for (size, colour) in [(999, Green), (1_000, Green), (1_001, Yellow), (1_500, Yellow), (1_501, Red)] {
            assert_eq!(meter(BLIND).colour(at(0), Bytes::new(size), Green), colour, "{size}");
        }
        // Green takes nothing from the excess bucket: all of its 1500 B are left, unlike trTCM's.
        for (size, colour) in [(1_499, Yellow), (1_500, Yellow), (1_501, Red)] {
            let mut meter = meter(BLIND);
            assert_eq!(meter.colour(at(0), Bytes::new(1_000), Green), Green);
            assert_eq!(meter.colour(at(0), Bytes::new(size), Green), colour, "{size}");
        }
    }

    #[test]
    fn zero_cbs_and_zero_ebs() {
        let mut no_green = meter(Params { cbs: Bytes::ZERO, ..BLIND });
        assert_eq!(no_green.colour(at(0), Bytes::new(1), Green), Yellow);
        let mut no_yellow = meter(Params { ebs: Bytes::ZERO, ..BLIND });
        assert_eq!(no_yellow.colour(at(0), Bytes::new(1_000), Green), Green);
        assert_eq!(no_yellow.colour(at(0), Bytes::new(1), Green), Red);
    }

    #[test]
    fn a_change_of_rate_settles_first() {
        let mut meter = meter(BLIND);
        meter.colour(at(0), Bytes::new(1_000), Green);
        meter.colour(at(0), Bytes::new(1_500), Green);
        meter.set_params(at(100), Params { cir: Rate::from_kbit(80), eir: Rate::from_kbit(0), ..BLIND }).unwrap();
        // Committed: 100 ms at 1 B/ms and 10 ms at 10 B/ms. Excess: 100 ms at 2 B/ms, then nothing.
        let (committed, excess) = meter.tokens(at(110));
        assert_eq!((committed.bytes_floor(), excess.bytes_floor()), (Bytes::new(200), Bytes::new(200)));
        assert_eq!(meter.time_of_green(at(110), Bytes::new(300)), Some(at(120)));
    }

    #[test]
    fn errors_name_the_field() {
        let none = Params { cir: Rate::ZERO, eir: Rate::ZERO, ..BLIND };
        assert_eq!(none.validate().unwrap_err().field, "cir");
        let none = Params { cbs: Bytes::ZERO, ebs: Bytes::ZERO, ..BLIND };
        assert_eq!(none.validate().unwrap_err().field, "cbs");
    }
}
