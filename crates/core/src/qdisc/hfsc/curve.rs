//! [`Curve`]: a service curve of two pieces; [`Running`]: the curve of a session over time, exact.

use crate::params::ParamError;
use tidegate_units::{Bytes, Credit, Rate, Span};

/// A service curve: `m1` for the time `d`, then `m2`. It is concave when `m1` is above `m2`, and convex otherwise.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Curve {
    /// The slope of the first piece.
    pub m1: Rate,
    /// The length of the first piece.
    pub d: Span,
    /// The slope of the second piece.
    pub m2: Rate,
}

impl Curve {
    /// A rate alone.
    pub const fn linear(rate: Rate) -> Self {
        Self { m1: rate, d: Span::ZERO, m2: rate }
    }
    /// `burst` bytes within `within`, and `rate` in the long run (section VI of the paper: u, d and r).
    pub fn burst_within(rate: Rate, burst: Bytes, within: Span) -> Self {
        let needed = rate.time_for_ceil(burst).unwrap_or(Span::MAX);
        if needed > within {
            // Faster than the rate: concave.
            let bits = Credit::of(burst).as_raw() as u128;
            let m1 = bits.div_ceil(u128::from(within.as_nanos().max(1)));
            Self { m1: Rate::from_bps(u64::try_from(m1).unwrap_or(u64::MAX)), d: within, m2: rate }
        } else {
            Self { m1: Rate::ZERO, d: within.saturating_sub(needed), m2: rate }
        }
    }
    /// The service in the first `t`.
    pub fn service(&self, t: Span) -> Credit {
        let first = if t < self.d { t } else { self.d };
        self.m1.credit_in(first) + self.m2.credit_in(t.saturating_sub(self.d))
    }
    fn is_concave(&self) -> bool {
        self.m1 >= self.m2
    }

    /// Checks the ranges.
    ///
    /// # Errors
    /// A second slope of zero; slopes or a length beyond a terabit per second and an hour.
    pub fn validate(&self) -> Result<(), ParamError> {
        if self.m2.is_zero() {
            return Err(ParamError::new("rate", "must be above 0"));
        }
        if self.m1.max(self.m2) > Rate::from_mbit(1_000_000) {
            return Err(ParamError::new("rate", "must be at most 1 Tbit/s, the burst within its time included"));
        }
        if self.d > Span::from_secs(3_600) {
            return Err(ParamError::new("within", "must be at most an hour"));
        }
        Ok(())
    }
}

/// `y + slope (t - x)`.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
struct Line {
    x: i128,
    y: i128,
    slope: i128,
}

impl Line {
    fn at(&self, t: i128) -> i128 {
        self.y + self.slope * (t - self.x)
    }
    /// The first whole `t` at which it reaches `y`; `None` if never, or before all times.
    fn reaches(&self, y: i128) -> Option<i128> {
        if self.slope == 0 {
            return None;
        }
        let distance = y - self.y;
        let whole = distance.div_euclid(self.slope);
        Some(self.x + whole + i128::from(distance.rem_euclid(self.slope) != 0))
    }
}

/// The minimum over the activations of a session of its service curve, begun at the time and the service of each.
///
/// A concave curve is the lower one of two lines, and so is the minimum of several with the same slopes: no point of
/// intersection is computed, and nothing is rounded but the result. Of convex ones the minimum has more than two pieces;
/// of these the later curve is kept, unless the session had more service than the earlier one asks for. It is then the
/// earlier one, which asks for at least as much.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(super) struct Running {
    lines: [Line; 2],
    concave: bool,
    begun: bool,
}

impl Running {
    /// Begins `curve` at `t` with the service `y`, and keeps the minimum.
    pub fn begin(&mut self, curve: &Curve, t: u64, y: Credit) {
        let (t, y) = (i128::from(t), y.as_raw());
        let (m1, m2) = (i128::from(curve.m1.as_bps()), i128::from(curve.m2.as_bps()));
        let d = i128::from(curve.d.as_nanos());
        let new = [Line { x: t, y, slope: m1 }, Line { x: t + d, y: y + m1 * d, slope: m2 }];
        if !self.begun {
            *self = Self { lines: new, concave: curve.is_concave(), begun: true };
        } else if self.concave {
            for (line, new) in self.lines.iter_mut().zip(new) {
                if new.at(t) < line.at(t) {
                    *line = new;
                }
            }
        } else if self.lines[0].at(t).max(self.lines[1].at(t)) >= y {
            self.lines = new;
        }
    }

    /// The first time at which the curve has reached `y`.
    pub fn reaches(&self, y: Credit) -> u64 {
        let [first, second] = self.lines.map(|line| line.reaches(y.as_raw()));
        let time = match (first, second) {
            (Some(first), Some(second)) if self.concave => first.max(second),
            (Some(first), Some(second)) => first.min(second),
            (first, second) => first.or(second).unwrap_or(i128::MAX),
        };
        u64::try_from(time.max(0)).unwrap_or(u64::MAX)
    }

    /// When the eligible curve reaches `y`. It is equal to the deadline curve if that is concave; otherwise it is a line with
    /// its second slope, so that the steeper part of a convex curve can be served in time.
    pub fn eligible(&self, y: Credit) -> u64 {
        if self.concave {
            return self.reaches(y);
        }
        let line = Line { slope: self.lines[1].slope, ..self.lines[0] };
        u64::try_from(line.reaches(y.as_raw()).unwrap_or(0).max(0)).unwrap_or(u64::MAX)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bursts_become_slopes() {
        // Audio of the paper: 160 B within 5 ms are 256 kbit/s, then 64 kbit/s.
        let audio = Curve::burst_within(Rate::from_kbit(64), Bytes::new(160), Span::from_millis(5));
        assert_eq!(audio, Curve { m1: Rate::from_kbit(256), d: Span::from_millis(5), m2: Rate::from_kbit(64) });
        // 1000 B at 8 Mbit/s take 1 ms: within 10 ms, 9 ms of nothing.
        let late = Curve::burst_within(Rate::from_mbit(8), Bytes::new(1_000), Span::from_millis(10));
        assert_eq!(late, Curve { m1: Rate::ZERO, d: Span::from_millis(9), m2: Rate::from_mbit(8) });
        assert_eq!(late.service(Span::from_millis(10)), Credit::of(Bytes::new(1_000)));
    }

    #[test]
    fn a_minimum_of_concave_curves_is_that_of_its_points() {
        // 2 bit/s for 100 ns, then 1. Begun at 0 with 0 and at 200 ns with 250: the first is at 300 there.
        let curve = Curve { m1: Rate::from_bps(2), d: Span::from_nanos(100), m2: Rate::from_bps(1) };
        let mut running = Running::default();
        running.begin(&curve, 0, Credit::ZERO);
        running.begin(&curve, 200, Credit::from_raw(250));
        // 250 + 2 (t - 200) below 300 + (t - 200) until t = 250; then the first.
        for (y, t) in [(250, 200), (300, 225), (350, 250), (360, 260), (400, 300)] {
            assert_eq!(running.reaches(Credit::from_raw(y)), t, "{y}");
        }
    }
}
