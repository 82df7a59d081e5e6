//! A UDP socket that sends at a rate.
//!
//! [`UdpSocket`] blocks until a datagram may be sent, or says when it may be ([`try_send`](UdpSocket::try_send)); the
//! feature `tokio` has one that awaits it, the feature `quinn` one below an endpoint of quinn. All of them take
//! [`Settings`], and a [`Rate`] is settings enough.
//!
//! *Law*: the law of the [`Pacer`](crate::Pacer) for the payload that the kernel accepted. A datagram that it refused, and
//! one whose sending was given up while it waited, is not charged.
//! *Notes*: the [`Backend`] that keeps departures apart is chosen by the queueing discipline on the way to the peer, once,
//! when the socket is made. A route that changes later may lead to another: then datagrams leave as they are handed over,
//! up to 2 ms before they are due.

mod gate;
mod multicast;
mod schedule;
mod socket;

use std::fmt;
use std::io;
use std::net::IpAddr;

use tidegate_units::{Rate, Span};

use crate::oversleep::SpinBudget;
use crate::pacer::{GapPolicy, Params, Status};
use crate::sender::TxClock;
use crate::sender::kernel::Holder;

#[cfg(feature = "quinn")]
pub(crate) use gate::Gate;
#[cfg(feature = "tokio")]
pub(crate) use gate::now;
pub use multicast::Multicast;
#[cfg(feature = "quinn")]
pub(crate) use schedule::Turn;
pub use socket::{Attempt, UdpSocket};

/// How a socket sends.
///
/// ```
/// use tidegate_pace::{Params, Rate, Span, udp::Settings};
///
/// // Live data: after a gap of more than 100 ms nothing is made up for. At most half a millisecond of data at once.
/// let live = Settings { burst: Span::from_micros(500), ..Settings::from(Params::live(Rate::from_mbit(20))) };
/// assert_eq!(live.params.rate, Rate::from_mbit(20));
/// ```
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Settings {
    /// The parameters of the pacer. [`GapPolicy::DropLate`] is refused: a socket has no queue
    /// in which a datagram could become late. Defaults: `gap` makes up for at most [`CATCH_UP`](Settings::CATCH_UP), and
    /// `spin` is none, so that many sockets take no core; a socket that may spin ends its waits more exactly.
    pub params: Params,
    /// The largest batch of datagrams that is sent at once (UDP GSO), as the time that it takes at the rate; always at
    /// least one datagram. Default: 250 us, at 100 Mbit/s two datagrams of 1400 bytes.
    pub burst: Span,
    /// The back end that keeps departures apart. Default: what the kernel supports on the way to the peer.
    pub backend: Choice,
    /// An address on the way of the datagrams, by which the back end is chosen. Default: the peer of a connected
    /// socket. Without either, timers of the process keep departures apart.
    pub towards: Option<IpAddr>,
    /// How datagrams to multicast groups leave. Its interface is the one by which the back end is chosen.
    pub multicast: Multicast,
}

impl Settings {
    /// The default of [`burst`](Self::burst).
    pub const BURST: Span = Span::from_micros(250);

    /// The longest time without datagrams that is made up for: 50 ms. Longer than the scheduler commonly delays a
    /// process; short, because an application that had nothing to send must not send a burst for it.
    pub const CATCH_UP: Span = Span::from_millis(50);

    /// The defaults at `rate`.
    pub const fn new(rate: Rate) -> Self {
        let gap = GapPolicy::CatchUp { within: Self::CATCH_UP };
        let params = Params { gap, spin: SpinBudget::NONE, ..Params::new(rate) };
        Self { params, burst: Self::BURST, backend: Choice::Auto, towards: None, multicast: Multicast::SYSTEM }
    }
}

impl From<Rate> for Settings {
    fn from(rate: Rate) -> Self {
        Self::new(rate)
    }
}

impl From<Params> for Settings {
    /// The defaults with these parameters, but without spinning.
    fn from(params: Params) -> Self {
        Self { params: Params { spin: SpinBudget::NONE, ..params }, ..Self::new(params.rate) }
    }
}

/// Which [`Backend`] a socket is to have.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Choice {
    /// The first that is supported: transmit times, a limit in the kernel, timers.
    #[default]
    Auto,
    /// Timers of the process.
    Timers,
    /// `SO_TXTIME`; making the socket fails where no queueing discipline holds datagrams.
    TransmitTime,
    /// `SO_MAX_PACING_RATE`; making the socket fails where no fq obeys it.
    MaxRate,
}

/// A back end, which keeps departures apart.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Backend {
    /// Timers of the process: a wake-up for each departure, as exact as wake-ups of this machine are.
    Timers,
    /// `SO_TXTIME`: fq or etf holds each datagram until its time. The process wakes up about once in a millisecond.
    TransmitTime(TxClock),
    /// `SO_MAX_PACING_RATE`: fq spaces what the process hands over, about once in a millisecond, at 125 % of the rate;
    /// the schedule of the process keeps the rate itself.
    MaxRate,
}

impl Backend {
    /// The longest time before its departure that a datagram is handed to the kernel: 2 ms.
    pub const LEAD: Span = Span::from_millis(2);
    /// The most bytes that wait in the kernel: 64 datagrams of 1400 bytes. An fq drops a flow's packets beyond 100.
    const WAITING: u64 = 64 * 1400;

    fn lead(self, rate: Rate) -> Span {
        match self {
            Self::Timers => Span::ZERO,
            Self::TransmitTime(_) | Self::MaxRate => {
                rate.time_for_ceil(tidegate_units::Bytes::new(Self::WAITING)).unwrap_or(Span::MAX).min(Self::LEAD)
            }
        }
    }
}

impl From<Holder> for Backend {
    fn from(holder: Holder) -> Self {
        match holder {
            Holder::TransmitTime(clock) => Self::TransmitTime(clock),
            Holder::MaxRate => Self::MaxRate,
        }
    }
}

impl fmt::Display for Backend {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Timers => f.pad("timers of the process"),
            Self::TransmitTime(_) => f.pad("SO_TXTIME"),
            Self::MaxRate => f.pad("SO_MAX_PACING_RATE"),
        }
    }
}

/// Methods besides sending that sockets of every kind have.
pub trait Paced {
    /// Sets the rate from now on; the datagram that waits is sent by the new one.
    ///
    /// # Errors
    /// `InvalidInput` when `rate` is zero.
    fn set_rate(&self, rate: Rate) -> io::Result<()> {
        self.set_params(Params { rate, ..self.params() })
    }
    /// Sets other parameters from now on.
    ///
    /// # Errors
    /// `InvalidInput` with the reason of [`Params::validate`]; nothing has changed then.
    fn set_params(&self, params: Params) -> io::Result<()>;
    /// The parameters.
    fn params(&self) -> Params;
    /// Sends nothing until [`resume`](Self::resume); what waits keeps waiting.
    fn pause(&self);
    /// Ends a pause, which is not made up for.
    fn resume(&self);
    /// The state of the schedule: what was sent, how late it is.
    fn status(&self) -> Status;
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_kernel_holds_what_it_does_not_drop() {
        // 64 datagrams of 1400 bytes at 8 Gbit/s.
        assert_eq!(Backend::MaxRate.lead(Rate::from_mbit(8)), Backend::LEAD);
        assert_eq!(Backend::MaxRate.lead(Rate::from_mbit(8000)), Span::from_nanos(89_600));
        assert_eq!(Backend::Timers.lead(Rate::from_mbit(8)), Span::ZERO);
    }
}
