//! srTCM: the single rate three colour marker's meter.
//!
//! *Law*: of the green packets that pass at `t_i <= .. <= t_k`, the sizes sum to at most `CBS + CIR (t_k - t_i)`;
//! of the green and yellow ones together to at most `CBS + EBS + CIR (t_k - t_i)`.
//! *Source*: RFC 2697 sections 2 and 3. One token is one byte; tokens fill the committed bucket first, and what it
//! cannot hold goes to the excess bucket.
//! *Units*: CIR as a [`Rate`]; CBS, EBS in bytes; tokens in bit·ns/s, so that nothing rounds.
//! *Cost*: O(1): one multiplication.
//! *Notes*: with a CBS of zero nothing is ever green (a packet without bytes apart), with an EBS of zero nothing
//! yellow. A packet larger than CBS is never green.
//! *Departures from the source, and why*: as [`two_bucket`](crate::two_bucket).
//! *See also*: [`trtcm`](crate::trtcm): two rates, and red is decided first; [`rfc4115`](crate::rfc4115): two rates,
//! green is decided first.
//!
//! ```
//! use tidegate_core::{meter::Mode, srtcm::{Params, SrTcm}, *};
//! let params = Params { cir: Rate::from_kbit(8), cbs: Bytes::new(1_000), ebs: Bytes::new(500), mode: Mode::Blind };
//! let mut meter = SrTcm::new(params, Instant::ZERO).unwrap();
//! let now = Instant::ZERO;
//! assert_eq!(meter.colour(now, Bytes::new(1_000), Colour::Green), Colour::Green);
//! assert_eq!(meter.colour(now, Bytes::new(500), Colour::Green), Colour::Yellow);
//! assert_eq!(meter.colour(now, Bytes::new(1), Colour::Green), Colour::Red);
//! ```

use crate::meter::Mode;
use crate::packet::Colour;
use crate::params::ParamError;
use crate::two_bucket::{Buckets, TwoBucketMeter, TwoBucketRule, graded};
use tidegate_units::{Bytes, Instant, Rate};

/// The parameters of srTCM.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Params {
    /// Committed information rate.
    pub cir: Rate,
    /// Committed burst size.
    pub cbs: Bytes,
    /// Excess burst size.
    pub ebs: Bytes,
    /// Whether the colour of an arriving packet counts.
    pub mode: Mode,
}

impl TwoBucketRule for Params {
    /// # Errors
    /// Names `cbs` when both bursts are zero: then everything would be red.
    fn validate(&self) -> Result<(), ParamError> {
        if self.cbs == Bytes::ZERO && self.ebs == Bytes::ZERO {
            return Err(ParamError::new("cbs", "cbs or ebs must be more than 0; both should hold the largest packet"));
        }
        Ok(())
    }
    fn buckets(&self) -> [(Rate, Bytes); 2] {
        [(self.cir, self.cbs), (Rate::ZERO, self.ebs)]
    }
    fn mode(&self) -> Mode {
        self.mode
    }
    fn colour(buckets: &mut Buckets, now: Instant, size: Bytes, incoming: Colour) -> Colour {
        colour(buckets, now, size, incoming)
    }
    /// Tokens that the committed bucket cannot hold go to the excess bucket, which earns nothing else.
    fn settle(buckets: &mut Buckets, now: Instant) {
        buckets.committed.update_into(now, &mut buckets.second);
    }
}

/// The colour of `size` bytes that pass at `now` and arrived as `incoming`, for which the tokens are taken.
fn colour(buckets: &mut Buckets, now: Instant, size: Bytes, incoming: Colour) -> Colour {
    buckets.committed.update_into(now, &mut buckets.second);
    let green = buckets.committed.spend_if(incoming == Colour::Green, size);
    let yellow = buckets.second.spend_if(!green & (incoming != Colour::Red), size);
    graded(green, yellow)
}

/// srTCM. See the [module](self).
pub type SrTcm = TwoBucketMeter<Params>;

#[cfg(test)]
mod tests {
    use super::*;
    use Colour::{Green, Red, Yellow};
    use tidegate_units::Span;

    // 8 kbit/s is one byte a millisecond.
    const BLIND: Params =
        Params { cir: Rate::from_kbit(8), cbs: Bytes::new(1_000), ebs: Bytes::new(500), mode: Mode::Blind };

    fn meter(params: Params) -> SrTcm {
        SrTcm::new(params, Instant::ZERO).unwrap()
    }
    fn at(millis: u64) -> Instant {
        Instant::ZERO + Span::from_millis(millis)
    }

    #[test]
    fn the_edges_of_both_buckets() {
        for (size, colour) in [(999, Green), (1_000, Green), (1_001, Red)] {
            assert_eq!(meter(BLIND).colour(at(0), Bytes::new(size), Green), colour, "{size}");
        }
        for (size, colour) in [(499, Yellow), (500, Yellow), (501, Red)] {
            let mut meter = meter(BLIND);
            assert_eq!(meter.colour(at(0), Bytes::new(1_000), Green), Green);
            assert_eq!(meter.colour(at(0), Bytes::new(size), Green), colour, "{size}");
        }
    }

    #[test]
    fn tokens_overflow_from_the_committed_to_the_excess_bucket() {
        let mut meter = meter(BLIND);
        meter.colour(at(0), Bytes::new(1_000), Green);
        meter.colour(at(0), Bytes::new(500), Green);
        // 999 ms earn 999 B, all committed; 1000 ms fill it; 1200 ms give 200 B of excess; 1500 ms fill both.
        let tokens = |millis| {
            let (committed, excess) = meter.tokens(at(millis));
            (committed.bytes_floor().as_u64(), excess.bytes_floor().as_u64())
        };
        assert_eq!(tokens(999), (999, 0));
        assert_eq!(tokens(1_000), (1_000, 0));
        assert_eq!(tokens(1_200), (1_000, 200));
        assert_eq!(tokens(1_500), (1_000, 500));
        assert_eq!(tokens(9_000), (1_000, 500));
    }

    #[test]
    fn zero_bursts() {
        let mut no_green = meter(Params { cbs: Bytes::ZERO, ..BLIND });
        assert_eq!(no_green.colour(at(0), Bytes::new(500), Green), Yellow);
        assert_eq!(no_green.colour(at(499), Bytes::new(500), Green), Red, "499 B earned");
        assert_eq!(no_green.colour(at(500), Bytes::new(500), Green), Yellow);
        let mut no_yellow = meter(Params { ebs: Bytes::ZERO, ..BLIND });
        assert_eq!(no_yellow.colour(at(0), Bytes::new(1_000), Green), Green);
        assert_eq!(no_yellow.colour(at(0), Bytes::new(1), Green), Red);
        let none = Params { cbs: Bytes::ZERO, ebs: Bytes::ZERO, ..BLIND };
        assert_eq!(none.validate().unwrap_err().field, "cbs");
    }

    #[test]
    fn aware_never_improves_a_colour() {
        let mut meter = meter(Params { mode: Mode::Aware, ..BLIND });
        assert_eq!(meter.colour(at(0), Bytes::new(100), Red), Red);
        assert_eq!(meter.colour(at(0), Bytes::new(400), Yellow), Yellow);
        assert_eq!(meter.colour(at(0), Bytes::new(101), Yellow), Red, "100 B of excess are left, 1000 B committed");
        assert_eq!(meter.colour(at(0), Bytes::new(1_000), Green), Green);
        assert_eq!(meter.colour(at(0), Bytes::new(100), Green), Yellow);
    }

    #[test]
    fn a_change_of_rate_settles_first() {
        let mut meter = meter(BLIND);
        meter.colour(at(0), Bytes::new(1_000), Green);
        // 100 ms at 1 B/ms, then 50 ms at 2 B/ms: 200 B. The smaller CBS then caps what is kept.
        meter.set_params(at(100), Params { cir: Rate::from_kbit(16), ..BLIND }).unwrap();
        assert_eq!(meter.tokens(at(150)).0.bytes_floor(), Bytes::new(200));
        meter.set_params(at(150), Params { cbs: Bytes::new(150), ..BLIND }).unwrap();
        assert_eq!(meter.tokens(at(150)).0.bytes_floor(), Bytes::new(150));
    }

    #[test]
    fn green_at_is_exact_to_the_nanosecond() {
        // 7 bit/s: 10 B after an empty bucket is 80/7 s = 11.428571428571.. s, so 11,428,571,429 ns.
        let params = Params { cir: Rate::from_bps(7), ..BLIND };
        let mut meter = meter(params);
        meter.colour(at(0), Bytes::new(1_000), Green);
        let due = meter.time_of_green(at(0), Bytes::new(10)).unwrap();
        assert_eq!(due.as_nanos(), 11_428_571_429);
        assert_ne!(meter.clone().colour(due.saturating_sub(Span::from_nanos(1)), Bytes::new(10), Green), Green);
        assert_eq!(meter.colour(due, Bytes::new(10), Green), Green);
        assert_eq!(meter.time_of_green(due, Bytes::new(1_001)), None);
    }
}
