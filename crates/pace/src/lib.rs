#![doc = include_str!("../README.md")]
//!
//! # Modules
//!
//! * [`udp`]: the sockets, their settings, their back ends; `tokio` and `quinn` with the features of these names;
//! * [`algorithm`]: pure functions, `next(now, size) -> when`. The five of the paper ([`Dt0`], [`Dt1`], [`Dt2`],
//!   [`At0`], [`At1`]), the [`BurstCap`] that limits any of them, and [`Pacer`], which combines the best of them and
//!   which the sockets use;
//! * [`clock`]: reading the time and sleeping: [`MonotonicClock`] of the machine, and [`VirtualClock`] with
//!   granularity, phase, oversleep, steps and suspend, on which every figure of the paper is deterministic;
//! * [`sender`]: sockets, pipes and files that never block, and kernel features, detected at run time.
//!
//! *Units*: amounts are in [`Credit`](tidegate_units::Credit), so that no rounding accumulates; only instants are
//! rounded, up to a nanosecond, and not carried on.
#![deny(missing_docs)]

mod account;
pub mod algorithm;
pub mod clock;
pub mod control;
mod driver;
mod oversleep;
pub mod pacer;
#[cfg(feature = "quinn")]
pub mod quinn;
pub mod recorder;
pub mod sender;
mod timer;
#[cfg(feature = "tokio")]
pub mod tokio;
pub mod udp;

pub use algorithm::{Algorithm, At0, At1, BurstCap, Capped, Dt0, Dt1, Dt2, Kind, ParamError, Wait};
pub use clock::{Clock, Latency, MonotonicClock, Sleeping, SuspendClock, VirtualClock};
pub use driver::{pace, wait_until};
pub use oversleep::{Oversleep, SpinBudget};
pub use pacer::{Admission, Cap, GapPolicy, Pacer, Params, Status};
pub use recorder::{Recorder, Report, WindowReport};
pub use tidegate_units::{Bytes, Instant, Rate, Span};
pub use timer::Timer;
pub use udp::{Paced, UdpSocket};
