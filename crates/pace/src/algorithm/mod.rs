//! Pacing algorithms: pure functions of time that determine when the next packet may be sent.
//!
//! | name | what it does |
//! | --- | --- |
//! | [`Dt0`] | sleeps S/R minus the send time of the previous cycle; oversleep is lost unless the next cycle absorbs it |
//! | [`Dt1`] | measures oversleep as lost time and repays it in later cycles |
//! | [`Dt2`] | one measurement per cycle; never sends ahead; more bursty than DT1; [`Dt2::live`] for live data |
//! | [`At0`] | absolute: packet k is due at start + bytes sent / R; never drifts |
//! | [`At1`] | AT0 for live data: restarts after a gap |
//! | [`BurstCap`] | with any of them: limits every run of packets to a maximum rate |
//! | [`Pacer`](crate::Pacer) | the default: absolute schedule, gap policy, cap, learned oversleep, hybrid waiting |

pub mod absolute;
pub mod burst;
pub mod differential;
mod kind;

use core::fmt;

use tidegate_units::{Bytes, Instant, Rate};

pub use absolute::{At0, At1};
pub use burst::{BurstCap, Capped};
pub use differential::{Dt0, Dt1, Dt2};
pub use kind::Kind;

/// An invalid parameter.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct ParamError {
    /// The name of the field.
    pub field: &'static str,
    /// Why the value is invalid.
    pub problem: &'static str,
}

impl fmt::Display for ParamError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}", self.field, self.problem)
    }
}

impl core::error::Error for ParamError {}

/// `rate` if it is above zero.
pub(crate) fn positive(field: &'static str, rate: Rate) -> Result<Rate, ParamError> {
    if rate.is_zero() { Err(ParamError { field, problem: "is zero, so nothing would ever be sent" }) } else { Ok(rate) }
}

/// How to wait.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Wait {
    /// Sleep until this instant, then call `plan` again.
    Sleep(Instant),
    /// Spin: read the clock until the packet is due.
    Spin,
}

/// A pacing algorithm: it is informed of each packet and returns when the next may be sent.
///
/// The cycle of its driver (see [`pace`](crate::pace)): take a packet off the queue, after
/// [`refilled`](Self::refilled) when the queue was empty; send it; call [`next`](Self::next); when the result is
/// later than now, wait at least until then and call [`woke`](Self::woke).
///
/// A repeated `now` is harmless. Sending before the result of `next` is an error that no algorithm can correct.
pub trait Algorithm: fmt::Debug {
    /// Reports that a packet of `size` was sent by `now`. Returns the first instant at which another may be sent; one
    /// that is not after `now` means at once.
    fn next(&mut self, now: Instant, size: Bytes) -> Instant;
    /// Reports the end of the wait that the last result required. When the sender was busy past that instant and did
    /// not sleep, `now` is the instant of the result. The result is after `now` only when the clock was set back
    /// meanwhile: then the rest must be waited.
    fn woke(&mut self, now: Instant) -> Instant;
    /// Reports that the queue was empty from `since` until `now`. To be called before the packet is sent.
    fn refilled(&mut self, since: Instant, now: Instant) {
        let _ = (since, now);
    }
    /// Sets the rate from `now` on. The result replaces that of the last [`next`](Self::next).
    ///
    /// # Errors
    /// When `rate` is zero; nothing has changed then.
    fn set_rate(&mut self, now: Instant, rate: Rate) -> Result<Instant, ParamError>;
    /// The rate.
    fn rate(&self) -> Rate;
    /// Ends a pause, or a suspend of the machine, at `now`: what could have been sent meanwhile is not made up for,
    /// and a debt remains. The result replaces that of the last [`next`](Self::next).
    fn resume(&mut self, now: Instant) -> Instant;
    /// How to wait from `now` to `due`. One sleep by default.
    fn plan(&mut self, now: Instant, due: Instant) -> Wait {
        let _ = now;
        Wait::Sleep(due)
    }
    /// Reports the result of a plan: `wait` began at `from` and ended `now`.
    fn waited(&mut self, wait: Wait, from: Instant, now: Instant) {
        let _ = (wait, from, now);
    }
}

impl<A: Algorithm + ?Sized> Algorithm for Box<A> {
    fn next(&mut self, now: Instant, size: Bytes) -> Instant {
        (**self).next(now, size)
    }
    fn woke(&mut self, now: Instant) -> Instant {
        (**self).woke(now)
    }
    fn refilled(&mut self, since: Instant, now: Instant) {
        (**self).refilled(since, now);
    }
    fn set_rate(&mut self, now: Instant, rate: Rate) -> Result<Instant, ParamError> {
        (**self).set_rate(now, rate)
    }
    fn rate(&self) -> Rate {
        (**self).rate()
    }
    fn resume(&mut self, now: Instant) -> Instant {
        (**self).resume(now)
    }
    fn plan(&mut self, now: Instant, due: Instant) -> Wait {
        (**self).plan(now, due)
    }
    fn waited(&mut self, wait: Wait, from: Instant, now: Instant) {
        (**self).waited(wait, from, now);
    }
}
