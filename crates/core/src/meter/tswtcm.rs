//! TSWTCM: the time sliding window three colour marker's meter.
//!
//! *Law*: at an estimated rate `r`, a packet is green with probability 1 up to CTR and `CTR / r` beyond; red with
//! probability `(r - PTR) / r` beyond PTR; yellow otherwise. In the mean at most CTR is green, and at most PTR green
//! or yellow.
//! *Source*: RFC 2859 sections 3 (rate estimator) and 4 (marker). At each packet
//! `r' = (r W + L) / (W + T)`, with `W` the window, `L` the size and `T` the time since the packet before.
//! *Units*: rates as [`Rate`]; the estimate in bit/s with 16 bits of fraction, rounded down.
//! *Cost*: O(1): one division of 128 by 64 bits and, beyond CTR, one random draw, without a branch on it.
//! *Notes*: windows up to 60 s and rates up to 2⁴⁰ bit/s. The draw is exact for the rounded estimate: it compares an
//! integer below `r` with CTR and PTR.
//! *Departures from the source, and why*: the window begins at the meter's start instead of at time 0. The RFC has
//! no colour-aware mode; here it returns the worse of the drawn colour and the incoming one, and estimates the rate of
//! all packets.
//! *See also*: the token bucket meters, [`srtcm`](crate::srtcm) and [`trtcm`](crate::trtcm), which bound every
//! burst and do not decide at random.
//!
//! ```
//! use tidegate_core::{meter::Mode, tswtcm::{Params, TswTcm}, *};
//! let params = Params {
//!     ctr: Rate::from_mbit(1), ptr: Rate::from_mbit(2), window: Span::from_secs(1), mode: Mode::Blind,
//! };
//! let mut meter = TswTcm::new(params, Instant::ZERO, 1, "edge").unwrap();
//! // 125 kB within no time on top of a window at CTR: twice CTR.
//! meter.colour(Instant::ZERO, Bytes::new(125_000), Colour::Green);
//! assert_eq!(meter.estimate(), Rate::from_mbit(2));
//! ```

use crate::credit::PER_BYTE;
use crate::meter::{Meter, Mode};
use crate::packet::{Colour, Packet};
use crate::params::ParamError;
use crate::random::Stream;
use alloc::format;
use core::hint::select_unpredictable;
use tidegate_units::wide::sum_div;
use tidegate_units::{Bytes, Instant, Rate, Span};

/// Bits of fraction of the estimate.
const FRACTION: u32 = 16;
/// The highest rate a parameter may have, and the most an estimate counts.
const MOST: u64 = 1 << 40;

/// The parameters of TSWTCM.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Params {
    /// Committed target rate.
    pub ctr: Rate,
    /// Peak target rate, at least `ctr`.
    pub ptr: Rate,
    /// The window of the estimate, `AVG_INTERVAL` in the RFC; its advice is about a round-trip time of the flows.
    pub window: Span,
    /// Whether the colour of an arriving packet counts.
    pub mode: Mode,
}

impl Params {
    /// Checks the parameters.
    ///
    /// # Errors
    /// Names `ptr` when it is below `ctr` or above 2⁴⁰ bit/s, and `window` when it is zero or above 60 s.
    pub fn validate(&self) -> Result<(), ParamError> {
        if self.ptr < self.ctr {
            return Err(ParamError::new("ptr", format!("must be at least ctr, but {} < {}", self.ptr, self.ctr)));
        }
        if self.ptr.as_bps() > MOST {
            return Err(ParamError::new("ptr", format!("must be at most {}", Rate::from_bps(MOST))));
        }
        if self.window.is_zero() || self.window > Span::from_secs(60) {
            return Err(ParamError::new("window", "must be more than 0 and at most 60s"));
        }
        Ok(())
    }
}

/// TSWTCM. See the [module](self).
#[derive(Clone, Debug)]
pub struct TswTcm {
    params: Params,
    /// Bit/s with [`FRACTION`] bits of fraction.
    estimate: u64,
    front: Instant,
    random: Stream,
}

impl TswTcm {
    /// A meter whose estimate at `now` is CTR, drawing from the random stream `name` under `seed`.
    ///
    /// # Errors
    /// As [`Params::validate`].
    pub fn new(params: Params, now: Instant, seed: u64, name: &str) -> Result<Self, ParamError> {
        Self::drawing_from(params, now, Stream::named(seed, name))
    }
    /// A meter whose estimate at `now` is CTR, drawing from `random`.
    ///
    /// # Errors
    /// As [`Params::validate`].
    pub fn drawing_from(params: Params, now: Instant, random: Stream) -> Result<Self, ParamError> {
        params.validate()?;
        Ok(Self::drawing(params, now, random))
    }
    /// [`drawing_from`](Self::drawing_from) by validated parameters.
    fn drawing(params: Params, now: Instant, random: Stream) -> Self {
        let estimate = params.ctr.as_bps() << FRACTION;
        Self { params, estimate, front: now, random }
    }
    /// The parameters in force.
    pub fn params(&self) -> &Params {
        &self.params
    }
    /// Puts other parameters into force; the estimate is kept.
    ///
    /// # Errors
    /// As [`Params::validate`]; then nothing has changed.
    pub fn set_params(&mut self, params: Params) -> Result<(), ParamError> {
        params.validate()?;
        self.params = params;
        Ok(())
    }
    /// The estimated rate, rounded down.
    pub fn estimate(&self) -> Rate {
        Rate::from_bps(self.estimate >> FRACTION)
    }
    /// Colours `size` bytes that pass at `now` and arrived with `incoming`, which counts in aware mode only.
    pub fn colour(&mut self, now: Instant, size: Bytes, incoming: Colour) -> Colour {
        let window = self.params.window.as_nanos();
        let span = window.saturating_add(now.since(self.front).as_nanos());
        self.front = self.front.max(now);
        // Bit·ns/s by ns is bit/s.
        let estimate = sum_div(self.estimate, window, size.as_u64(), PER_BYTE << FRACTION, span);
        self.estimate = estimate.min(MOST << (FRACTION + 1));
        let committed = self.params.ctr.as_bps() << FRACTION;
        let drawn = if self.estimate <= committed {
            Colour::Green
        } else {
            // A branch on a draw would often be predicted wrongly.
            let draw = self.random.below(self.estimate);
            let beyond_peak = draw >= self.params.ptr.as_bps() << FRACTION;
            let beyond = select_unpredictable(beyond_peak, Colour::Red, Colour::Yellow);
            select_unpredictable(draw < committed, Colour::Green, beyond)
        };
        if self.params.mode == Mode::Aware && incoming > drawn { incoming } else { drawn }
    }
}

impl<P: Packet> Meter<P> for TswTcm {
    fn meter(&mut self, now: Instant, packet: &P) -> Colour {
        self.colour(now, packet.size(), packet.colour())
    }
    fn green_at(&self, _now: Instant, _packet: &P) -> Option<Instant> {
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use Colour::{Green, Red, Yellow};

    const PARAMS: Params =
        Params { ctr: Rate::from_mbit(1), ptr: Rate::from_mbit(2), window: Span::from_millis(100), mode: Mode::Blind };

    /// Sends packets of 1000 B at `rate` for a while after a warm-up, and returns the shares of the colours.
    fn shares(params: Params, rate: u64, incoming: Colour) -> [f64; 3] {
        let mut meter = TswTcm::new(params, Instant::ZERO, 1, "test").unwrap();
        let gap = Rate::from_bps(rate).time_for_ceil(Bytes::new(1_000)).unwrap();
        let (mut now, mut counts) = (Instant::ZERO, [0_u32; 3]);
        for n in 0..22_000 {
            now += gap;
            let colour = meter.colour(now, Bytes::new(1_000), incoming);
            if n >= 2_000 {
                counts[colour as usize] += 1;
            }
        }
        counts.map(|count| f64::from(count) / 20_000.0)
    }

    #[test]
    fn the_estimate_follows_the_formula() {
        let mut meter = TswTcm::new(PARAMS, Instant::ZERO, 1, "test").unwrap();
        // 1 Mbit/s over 100 ms is 100,000 bit; 1000 B = 8000 bit after 20 ms: 108,000 bit / 120 ms = 900 kbit/s.
        let now = Instant::ZERO + Span::from_millis(20);
        assert_eq!(meter.colour(now, Bytes::new(1_000), Green), Green);
        assert_eq!(meter.estimate(), Rate::from_kbit(900));
        // 90,000 + 8,000 bit, at the same instant, is 98,000 bit / 100 ms.
        meter.colour(now, Bytes::new(1_000), Green);
        assert_eq!(meter.estimate(), Rate::from_kbit(980));
        // An earlier instant is the same instant: 106,000 bit / 100 ms.
        meter.colour(Instant::ZERO, Bytes::new(1_000), Green);
        assert_eq!(meter.estimate(), Rate::from_kbit(1_060));
    }

    #[test]
    fn shares_are_as_the_rates() {
        assert_eq!(shares(PARAMS, 990_000, Green), [1.0, 0.0, 0.0], "below CTR the rounding up of gaps leaves room");
        // A constant rate settles with r' = r: (r W + L) = r (W + T). At 1.6 Mbit/s: green 1/1.6 = 0.625, yellow the
        // rest. At 4: a quarter each green and yellow, half red. Five standard deviations of 20,000 draws: 0.018.
        for (rate, expected) in [(1_600_000, [0.625, 0.375, 0.0]), (4_000_000, [0.25, 0.25, 0.5])] {
            let got = shares(PARAMS, rate, Green);
            assert!(got.iter().zip(expected).all(|(got, want)| (got - want).abs() < 0.018), "{rate}: {got:?}");
        }
    }

    #[test]
    fn aware_never_improves_a_colour() {
        let aware = Params { mode: Mode::Aware, ..PARAMS };
        assert_eq!(shares(aware, 500_000, Yellow), [0.0, 1.0, 0.0]);
        assert_eq!(shares(aware, 4_000_000, Red), [0.0, 0.0, 1.0]);
    }

    #[test]
    fn errors_name_the_field() {
        assert_eq!(Params { ptr: Rate::from_kbit(999), ..PARAMS }.validate().unwrap_err().field, "ptr");
        assert_eq!(Params { window: Span::ZERO, ..PARAMS }.validate().unwrap_err().field, "window");
    }
}
