//! Send at a rate, accurately.
//!
//! A sender takes packets off a queue and passes them to the network with gaps, so that the average rate is as close
//! as possible to the requested rate and the burstiness as low as possible. Sleeping is coarse, and naive code loses
//! throughput to it unnoticed. Three parts are separate:
//!
//! * [`algorithm`]: pure functions, `next(now, size) -> when`. The five of the paper ([`Dt0`], [`Dt1`], [`Dt2`],
//!   [`At0`], [`At1`]), the [`BurstCap`] that limits any of them, and [`Pacer`], which combines the best of them and
//!   is recommended for programs;
//! * [`clock`]: reading the time and sleeping: [`MonotonicClock`] of the machine, and [`VirtualClock`] with
//!   granularity, phase, oversleep, steps and suspend, on which every figure of the paper is deterministic;
//! * [`sender`]: sockets and pipes that never block, and kernel features, detected at run time.
//!
//! [`Recorder`] measures the output: gaps between packets, and the error of the rate over windows.
//!
//! *Source*: D. M. Chiu, M. Kadansky, J. Provino, J. Wesley, *Experiences in Programming a Traffic Shaper*, Sun
//! Microsystems Laboratories, SMLI TR-99-77, 1999.
//! *Units*: amounts are in [`Credit`](tidegate_units::Credit), so that no rounding accumulates; only instants are
//! rounded, up to a nanosecond, and not carried on.
//!
//! ```
//! use tidegate_pace::{pace, Pacer, Params, VirtualClock};
//! use tidegate_units::{Bytes, Instant, Rate, Span};
//!
//! let mut clock = VirtualClock::exact();
//! let mut pacer = Pacer::new(Params::new(Rate::from_kbit(800)), Instant::ZERO)?;
//! let mut sent = vec![];
//! pace(&mut clock, &mut pacer, [Bytes::new(1000); 3], |clock, _| sent.push(clock.elapsed()));
//! // 1000 bytes at 100,000 bytes/s: one every 10 ms.
//! assert_eq!(sent, [Span::ZERO, Span::from_millis(10), Span::from_millis(20)]);
//! # Ok::<(), tidegate_pace::ParamError>(())
//! ```
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

/// The example of the README, compiled and run as a test.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
mod readme {}
