//! trTCM: the two rate three colour marker's meter.
//!
//! *Law*: of the green packets that pass at `t_i <= .. <= t_k`, the sizes sum to at most `CBS + CIR (t_k - t_i)`;
//! of the green and yellow ones together to at most `PBS + PIR (t_k - t_i)`.
//! *Source*: RFC 2698 sections 2 and 3: red is decided first by the peak bucket, then yellow or green by the
//! committed; green takes from both.
//! *Units*: CIR, PIR as [`Rate`]; CBS, PBS in bytes; tokens in bit·ns/s, so that nothing rounds.
//! *Cost*: O(1): two multiplications.
//! *Notes*: a CBS of zero makes nothing green. A packet larger than PBS is always red.
//! *Departures from the source, and why*: as [`two_bucket`](crate::two_bucket). A CBS of zero is accepted (the RFC requires more than 0), for traffic without a commitment.
//! *See also*: [`rfc4115`](crate::rfc4115): green needs no peak tokens, so in-profile traffic never turns red.
//!
//! ```
//! use tidegate_core::{meter::Mode, trtcm::{Params, TrTcm}, *};
//! // RFC 2963's simulations: PIR and PBS are twice CIR and CBS.
//! let (cir, cbs) = (Rate::from_mbit(2), Bytes::new(3_000));
//! let (pir, pbs) = (Rate::from_mbit(4), Bytes::new(6_000));
//! let mut meter = TrTcm::new(Params { cir, cbs, pir, pbs, mode: Mode::Blind }, Instant::ZERO).unwrap();
//! let burst = core::array::from_fn(|_| meter.colour(Instant::ZERO, Bytes::new(1_500), Colour::Green));
//! assert_eq!(burst, [Colour::Green, Colour::Green, Colour::Yellow, Colour::Yellow, Colour::Red]);
//! ```

use crate::meter::Mode;
use crate::packet::Colour;
use crate::params::ParamError;
use crate::two_bucket::{Buckets, TwoBucketMeter, TwoBucketRule, graded};
use alloc::format;
use tidegate_units::{Bytes, Instant, Rate};

/// The parameters of trTCM.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Params {
    /// Committed information rate.
    pub cir: Rate,
    /// Committed burst size.
    pub cbs: Bytes,
    /// Peak information rate, at least `cir`.
    pub pir: Rate,
    /// Peak burst size.
    pub pbs: Bytes,
    /// Whether the colour of an arriving packet counts.
    pub mode: Mode,
}

impl TwoBucketRule for Params {
    /// # Errors
    /// Names `pir` when it is below `cir`, and `pbs` when it is zero.
    fn validate(&self) -> Result<(), ParamError> {
        if self.pir < self.cir {
            return Err(ParamError::new("pir", format!("must be at least cir, but {} < {}", self.pir, self.cir)));
        }
        if self.pbs == Bytes::ZERO {
            return Err(ParamError::new("pbs", "must be more than 0, and should hold the largest packet"));
        }
        Ok(())
    }
    fn buckets(&self) -> [(Rate, Bytes); 2] {
        [(self.cir, self.cbs), (self.pir, self.pbs)]
    }
    fn mode(&self) -> Mode {
        self.mode
    }
    fn colour(buckets: &mut Buckets, now: Instant, size: Bytes, incoming: Colour) -> Colour {
        colour(buckets, now, size, incoming)
    }
    fn time_of_green(buckets: &Buckets, now: Instant, size: Bytes) -> Option<Instant> {
        time_of_green(buckets, now, size)
    }
}

/// The first instant, not before `now`, at which the tokens for `size` green bytes are in both buckets.
fn time_of_green(buckets: &Buckets, now: Instant, size: Bytes) -> Option<Instant> {
    let committed = buckets.committed.time_of(now, size)?;
    Some(committed.max(buckets.second.time_of(now, size)?))
}

/// The colour of `size` bytes that pass at `now` and arrived as `incoming`, for which the tokens are taken.
fn colour(buckets: &mut Buckets, now: Instant, size: Bytes, incoming: Colour) -> Colour {
    buckets.update(now);
    let within_peak = buckets.second.spend_if(incoming != Colour::Red, size);
    let green = buckets.committed.spend_if(within_peak & (incoming == Colour::Green), size);
    graded(green, within_peak)
}

/// trTCM. See the [module](self).
pub type TrTcm = TwoBucketMeter<Params>;

#[cfg(test)]
mod tests {
    use super::*;
    use Colour::{Green, Red, Yellow};
    use tidegate_units::{Credit, Span};

    // One and two bytes a millisecond.
    const BLIND: Params = Params {
        cir: Rate::from_kbit(8),
        cbs: Bytes::new(1_000),
        pir: Rate::from_kbit(16),
        pbs: Bytes::new(1_500),
        mode: Mode::Blind,
    };

    fn meter(params: Params) -> TrTcm {
        TrTcm::new(params, Instant::ZERO).unwrap()
    }
    fn at(millis: u64) -> Instant {
        Instant::ZERO + Span::from_millis(millis)
    }

    #[test]
    fn the_edges_of_both_buckets() {
        for (size, colour) in [(999, Green), (1_000, Green), (1_001, Yellow), (1_499, Yellow), (1_500, Yellow)] {
            assert_eq!(meter(BLIND).colour(at(0), Bytes::new(size), Green), colour, "{size}");
        }
        assert_eq!(meter(BLIND).colour(at(0), Bytes::new(1_501), Green), Red);
        // Green takes from both: 500 B of peak are left, none committed.
        for (size, colour) in [(499, Yellow), (500, Yellow), (501, Red)] {
            let mut meter = meter(BLIND);
            assert_eq!(meter.colour(at(0), Bytes::new(1_000), Green), Green);
            assert_eq!(meter.colour(at(0), Bytes::new(size), Green), colour, "{size}");
        }
    }

    #[test]
    fn red_takes_nothing_and_yellow_only_peak() {
        let mut meter = meter(BLIND);
        meter.colour(at(0), Bytes::new(1_501), Green);
        assert_eq!(meter.tokens(at(0)).1, Credit::of(Bytes::new(1_500)));
        meter.colour(at(0), Bytes::new(1_200), Green);
        assert_eq!(meter.tokens(at(0)), (Credit::of(Bytes::new(1_000)), Credit::of(Bytes::new(300))));
        // 250 ms later: 300 + 500 B of peak, committed full: an 800 B packet is green, 801 B would be red.
        assert_eq!(meter.clone().colour(at(250), Bytes::new(801), Green), Red);
        assert_eq!(meter.colour(at(250), Bytes::new(800), Green), Green);
    }

    #[test]
    fn zero_cbs_makes_nothing_green() {
        let mut meter = meter(Params { cbs: Bytes::ZERO, ..BLIND });
        assert_eq!(meter.colour(at(0), Bytes::new(1), Green), Yellow);
        assert_eq!(meter.time_of_green(at(0), Bytes::new(1)), None);
    }

    #[test]
    fn aware_never_improves_a_colour() {
        let mut meter = meter(Params { mode: Mode::Aware, ..BLIND });
        assert_eq!(meter.colour(at(0), Bytes::new(100), Red), Red);
        assert_eq!(meter.colour(at(0), Bytes::new(500), Yellow), Yellow);
        assert_eq!(meter.colour(at(0), Bytes::new(1_000), Green), Green);
        assert_eq!(meter.colour(at(0), Bytes::new(1), Yellow), Red, "the peak bucket is empty");
    }

    #[test]
    fn a_change_of_rate_settles_first() {
        let mut meter = meter(BLIND);
        meter.colour(at(0), Bytes::new(1_000), Green);
        let faster = Params { cir: Rate::from_kbit(80), pir: Rate::from_kbit(80), ..BLIND };
        meter.set_params(at(100), faster).unwrap();
        // Committed: 100 ms at 1 B/ms and 10 ms at 10 B/ms. Peak: 500 B left, 200 B, 100 B.
        let (committed, peak) = meter.tokens(at(110));
        assert_eq!((committed.bytes_floor(), peak.bytes_floor()), (Bytes::new(200), Bytes::new(800)));
    }

    #[test]
    fn green_at_waits_for_the_later_bucket() {
        let mut meter = meter(BLIND);
        meter.colour(at(0), Bytes::new(1_000), Green);
        // 600 B: committed after 600 ms, peak (500 B left) after 50 ms.
        assert_eq!(meter.time_of_green(at(0), Bytes::new(600)), Some(at(600)));
        // Drain the peak bucket by yellow at 600 ms: 1500 B are there (capped). 600 B of peak take 300 ms.
        assert_eq!(meter.colour(at(600), Bytes::new(1_500), Green), Yellow);
        assert_eq!(meter.time_of_green(at(600), Bytes::new(600)), Some(at(900)));
        assert_eq!(meter.time_of_green(at(600), Bytes::new(1_001)), None);
        assert_eq!(meter.time_of_green(at(2_000), Bytes::new(600)), Some(at(2_000)), "never before now");
    }

    #[test]
    fn errors_name_the_field() {
        assert_eq!(Params { pir: Rate::from_kbit(7), ..BLIND }.validate().unwrap_err().field, "pir");
        assert_eq!(Params { pbs: Bytes::ZERO, ..BLIND }.validate().unwrap_err().field, "pbs");
    }
}
