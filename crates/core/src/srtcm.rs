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
//! *Departures from the source, and why*: tokens arrive continuously instead of one byte at a time; at the instants
//! where the RFC adds a token, both have the same.
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

use crate::meter::{Meter, Mode};
use crate::packet::{Colour, Packet};
use crate::params::ParamError;
use tidegate_units::{Bytes, Credit, Instant, Rate};

/// The parameters of srTCM.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Params {
    /// Committed information rate.
    pub cir: Rate,
    /// Committed burst size.
    pub cbs: Bytes,
    /// Excess burst size.
    pub ebs: Bytes,
    /// Whether the colour a packet brings counts.
    pub mode: Mode,
}

impl Params {
    /// Whether they can work.
    ///
    /// # Errors
    /// Names `cbs` when both bursts are zero: then everything would be red.
    pub fn validate(&self) -> Result<(), ParamError> {
        if self.cbs == Bytes::ZERO && self.ebs == Bytes::ZERO {
            return Err(ParamError::new("cbs", "cbs or ebs must be more than 0; both should hold the largest packet"));
        }
        Ok(())
    }
}

/// srTCM. See the [module](self).
#[derive(Clone, Copy, Debug)]
pub struct SrTcm {
    params: Params,
    committed: Credit,
    excess: Credit,
    updated: Instant,
}

impl SrTcm {
    /// A meter whose buckets are full at `now`.
    ///
    /// # Errors
    /// As [`Params::validate`].
    pub fn new(params: Params, now: Instant) -> Result<Self, ParamError> {
        params.validate()?;
        Ok(Self { params, committed: Credit::of(params.cbs), excess: Credit::of(params.ebs), updated: now })
    }
    /// The parameters in force.
    pub fn params(&self) -> &Params {
        &self.params
    }
    /// Takes other parameters from `now` on. What was earned until then is kept as far as the buckets hold it.
    ///
    /// # Errors
    /// As [`Params::validate`]; then nothing has changed.
    pub fn set_params(&mut self, now: Instant, params: Params) -> Result<(), ParamError> {
        params.validate()?;
        self.update(now);
        self.committed = self.committed.min(Credit::of(params.cbs));
        self.excess = self.excess.min(Credit::of(params.ebs));
        self.params = params;
        Ok(())
    }
    /// The tokens in the committed and in the excess bucket at `now`.
    pub fn tokens(&self, now: Instant) -> (Credit, Credit) {
        let full = Credit::of(self.params.cbs);
        let filled = self.committed + self.params.cir.credit_in(now.since(self.updated));
        let committed = filled.min(full);
        (committed, (self.excess + (filled - committed)).min(Credit::of(self.params.ebs)))
    }
    /// Colours `size` bytes that pass at `now` and came with `incoming`; heeds it only in aware mode.
    pub fn colour(&mut self, now: Instant, size: Bytes, incoming: Colour) -> Colour {
        self.update(now);
        let incoming = if self.params.mode == Mode::Blind { Colour::Green } else { incoming };
        let cost = Credit::of(size);
        if incoming == Colour::Green && self.committed >= cost {
            self.committed -= cost;
            Colour::Green
        } else if incoming != Colour::Red && self.excess >= cost {
            self.excess -= cost;
            Colour::Yellow
        } else {
            Colour::Red
        }
    }
    /// The first instant, not before `now`, at which `size` bytes would be green if nothing passed until then;
    /// `None` when they exceed CBS, or the rate is zero and the tokens do not do.
    pub fn time_of_green(&self, now: Instant, size: Bytes) -> Option<Instant> {
        if size > self.params.cbs {
            return None;
        }
        let wait = (Credit::of(size) - self.committed).time_at_ceil(self.params.cir)?;
        Some((self.updated + wait).max(now))
    }
    fn update(&mut self, now: Instant) {
        (self.committed, self.excess) = self.tokens(now);
        self.updated = self.updated.max(now);
    }
}

impl<P: Packet> Meter<P> for SrTcm {
    fn meter(&mut self, now: Instant, packet: &P) -> Colour {
        self.colour(now, packet.size(), packet.colour())
    }
    fn green_at(&self, now: Instant, packet: &P) -> Option<Instant> {
        match self.params.mode.incoming(packet) {
            Colour::Green => self.time_of_green(now, packet.size()),
            Colour::Yellow | Colour::Red => None,
        }
    }
}

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
