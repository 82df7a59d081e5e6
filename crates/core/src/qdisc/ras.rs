//! RAS: the rate adaptive shapers srRAS, trRAS, G-srRAS and G-trRAS.
//!
//! *Law*: a FIFO whose head is released when the packet before it has been paid for at the shaping rate. That rate is
//! at every instant the larger of the estimated average rate of the arrivals (EAR) and F(occupancy), and at most MIR.
//! A green RAS releases the head earlier if the meter behind it would colour it green. Behind an uncoupled RAS,
//! packets of `L` bytes are at least `L / MIR` apart; while packets wait, at most `L / CIR`.
//! *Source*: RFC 2963 sections 2 (srRAS, trRAS) and 3 (the green ones); the EAR is that of Stoica, Shenker and Zhang
//! (1998): `EAR' = (1 - e^(-T/K)) L/T + e^(-T/K) EAR`.
//! *Units*: rates as [`Rate`], thresholds and occupancy in bytes, the head included. The debt of the last packet is
//! in bit·ns/s, so it never rounds; F rounds down to a bit/s. The EAR is in bit/s with 16 bits of fraction, its
//! exponential in fixed point ([`decay`](crate::decay)): no decision uses a float.
//! *Cost*: O(1) per call: at an arrival two divisions of 128 bits and twenty multiplications for the EAR, and one
//! division for F.
//! *Notes*: an arrival changes occupancy and EAR, hence the rate and the release of the head. The deadline changes
//! with every call and is exact between calls. The EAR does not decay without arrivals, as in the RFC. Packets beyond
//! the buffer are dropped at the tail. Lateness of the caller is compensated up to `slack`.
//! *Departures from the source, and why*: the RFC does not specify the schedule. Here a single packet leaves at once,
//! and the packet after it waits (as in virtual scheduling). A release by green restarts the wait, so that no pause
//! follows the early release. The rate is capped at MIR, also when the EAR exceeds it.
//! *See also*: [`marker`](crate::marker): the same conditioner without a shaper. A token bucket shaper has one rate.
//!
//! | shaper | curve | coupling | behind it |
//! | --- | --- | --- | --- |
//! | srRAS | [`Curve::Single`] | [`Coupling::Uncoupled`] | srTCM |
//! | trRAS | [`Curve::Two`] | [`Coupling::Uncoupled`] | trTCM |
//! | G-srRAS | [`Curve::Single`] | [`Coupling::Green`] | srTCM |
//! | G-trRAS | [`Curve::Two`] | [`Coupling::Green`] | trTCM |
//!
//! ```
//! use tidegate_core::{marker::{Actions, Conditioner}, meter::Mode, ras::*, srtcm::SrTcm, *};
//! let curve = Curve::Single {
//!     cir: Rate::from_mbit(2), mir: Rate::from_mbit(34), cir_th: Bytes::new(20_000), mir_th: Bytes::new(80_000),
//! };
//! assert_eq!(curve.rate(Bytes::new(50_000)), Rate::from_mbit(18)); // half way
//! let params = Params {
//!     curve, buffer: Bytes::new(100_000), line_rate: Rate::from_mbit(34), averaging: Span::from_millis(100),
//!     coupling: Coupling::Green, slack: Span::ZERO,
//! };
//! let meter = SrTcm::new(srtcm::Params {
//!     cir: Rate::from_mbit(2), cbs: Bytes::new(3_000), ebs: Bytes::new(3_000), mode: Mode::Blind,
//! }, Instant::ZERO).unwrap();
//! # struct P; impl Packet for P { fn size(&self) -> Bytes { Bytes::new(1500) } fn flow(&self) -> FlowKey { FlowKey::default() } }
//! let shaper: Ras<P, _> = Ras::new(params, Conditioner::new(meter, Actions::assured(1).unwrap())).unwrap();
//! let wrong = Params { line_rate: Rate::from_mbit(10), ..params };
//! assert_eq!(wrong.validate().unwrap_err().field, "mir");
//! ```

use alloc::collections::VecDeque;
use alloc::format;

use crate::marker::{Conditioner, Outcome};
use crate::meter::Meter;
use crate::packet::Packet;
use crate::params::ParamError;
use crate::qdisc::{Backlog, Deadline, DropReason, Outlet, Qdisc, Queued};
use tidegate_units::{Bytes, Instant, Rate, Span};

mod curve;
mod ear;
mod schedule;

pub use curve::Curve;
pub use ear::Ear;
use schedule::{Release, Schedule};

/// Whether the shaper consults the meter behind it.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Coupling {
    /// It does not: srRAS, trRAS.
    #[default]
    Uncoupled,
    /// It does, and releases a packet early that would be green: G-srRAS, G-trRAS.
    Green,
}

/// The parameters of a rate adaptive shaper.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Params {
    /// The minimum shaping rate as a function of the occupancy.
    pub curve: Curve,
    /// The buffer. A packet that would exceed it is dropped.
    pub buffer: Bytes,
    /// The rate of the output link, which MIR must not exceed.
    pub line_rate: Rate,
    /// `K`, the time constant of the EAR.
    pub averaging: Span,
    /// Whether the shaper consults the meter behind it.
    pub coupling: Coupling,
    /// The lateness of `dequeue` that is compensated by releasing the next packet earlier. Zero keeps the distances
    /// exact; a live data path needs about the granularity of its timer.
    pub slack: Span,
}

impl Params {
    /// Checks `cir <= pir <= mir <= line_rate` and `cir_th <= pir_th <= mir_th <= buffer`.
    ///
    /// # Errors
    /// The field that violates the order; `cir`, `buffer`, `averaging` when they are zero.
    pub fn validate(&self) -> Result<(), ParamError> {
        self.curve.validate()?;
        let mir = self.curve.mir();
        if mir > self.line_rate {
            return Err(ParamError::new("mir", format!("must be at most line_rate, but {mir} > {}", self.line_rate)));
        }
        if self.buffer == Bytes::ZERO {
            return Err(ParamError::new("buffer", "must be more than 0"));
        }
        let (Curve::Single { mir_th, .. } | Curve::Two { mir_th, .. }) = self.curve;
        if mir_th > self.buffer {
            return Err(ParamError::new("mir_th", format!("must be at most buffer, but {mir_th} > {}", self.buffer)));
        }
        if self.averaging.is_zero() {
            return Err(ParamError::new("averaging", "must be more than 0"));
        }
        Ok(())
    }
}

/// Released packets by schedule.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Stats {
    /// Released by the shaping rate (T1).
    pub by_rate: u64,
    /// Released earlier because the meter would colour them green (T2).
    pub by_green: u64,
}

/// A rate adaptive shaper with the conditioner behind it. See the [module](self).
#[derive(Clone, Debug)]
pub struct Ras<P, M> {
    params: Params,
    conditioner: Conditioner<M>,
    queue: VecDeque<P>,
    backlog: Backlog,
    schedule: Schedule,
    latest: Instant,
    stats: Stats,
}

impl<P: Packet, M: Meter<P>> Ras<P, M> {
    /// Returns an empty shaper in front of `conditioner`, which meters departures.
    ///
    /// # Errors
    /// As [`Params::validate`].
    pub fn new(params: Params, conditioner: Conditioner<M>) -> Result<Self, ParamError> {
        params.validate()?;
        Ok(Self {
            params,
            conditioner,
            queue: VecDeque::new(),
            backlog: Backlog::default(),
            schedule: Schedule::new(&params.curve),
            latest: Instant::ZERO,
            stats: Stats::default(),
        })
    }
    /// The parameters in force.
    pub fn params(&self) -> &Params {
        &self.params
    }
    /// Sets other parameters from `now` on. Packets queued beyond a smaller buffer are not dropped.
    ///
    /// # Errors
    /// As [`Params::validate`]; the parameters are then unchanged.
    pub fn set_params(&mut self, now: Instant, params: Params) -> Result<(), ParamError> {
        params.validate()?;
        self.hold(now);
        self.schedule.settle(self.latest);
        self.params = params;
        self.renew_rate();
        Ok(())
    }
    /// Returns the meter with its actions.
    pub fn conditioner(&self) -> &Conditioner<M> {
        &self.conditioner
    }
    /// The conditioner, for changes of its parameters.
    pub fn conditioner_mut(&mut self) -> &mut Conditioner<M> {
        &mut self.conditioner
    }
    /// The estimated average rate of the arrivals.
    pub fn ear(&self) -> Rate {
        self.schedule.ear.rate()
    }
    /// The shaping rate since the last call.
    pub fn rate(&self) -> Rate {
        self.schedule.rate
    }
    /// Released packets by schedule.
    pub fn stats(&self) -> &Stats {
        &self.stats
    }

    fn hold(&mut self, now: Instant) {
        self.latest = self.latest.max(now);
    }
    fn renew_rate(&mut self) {
        self.schedule.renew_rate(&self.params.curve, self.backlog.bytes);
    }
    /// When the head is released.
    fn release(&self) -> Option<Release> {
        let head = self.queue.front()?;
        let green = match self.params.coupling {
            Coupling::Uncoupled => None,
            Coupling::Green => self.conditioner.meter().green_at(self.schedule.head_since, head),
        };
        Some(self.schedule.release(green))
    }
}

impl<P: Packet, M: Meter<P>> Qdisc<P> for Ras<P, M> {
    fn enqueue(&mut self, now: Instant, packet: P, out: &mut dyn Outlet<P>) -> Queued {
        self.hold(now);
        let size = packet.size();
        self.schedule.on_arrival(self.latest, size, self.params.averaging);
        if self.backlog.bytes + size > self.params.buffer {
            self.renew_rate();
            return out.refused(packet, DropReason::QueueLimit);
        }
        if self.queue.is_empty() {
            self.schedule.head_since = self.latest;
        }
        self.backlog.add(size);
        self.queue.push_back(packet);
        self.renew_rate();
        Queued::default()
    }

    fn dequeue(&mut self, now: Instant, out: &mut dyn Outlet<P>) -> Option<P> {
        self.hold(now);
        let Release { at: due, by_green } = self.release()?;
        if due > self.latest {
            return None;
        }
        let mut packet = self.queue.pop_front()?;
        let size = packet.size();
        self.backlog.remove(size);
        self.schedule.on_release(self.latest, due, size, self.params.slack);
        self.renew_rate();
        self.schedule.settle(self.latest);
        *if by_green { &mut self.stats.by_green } else { &mut self.stats.by_rate } += 1;
        match self.conditioner.condition(self.latest, &mut packet) {
            Outcome::Passed => Some(packet),
            Outcome::Refused => {
                out.dropped(packet, DropReason::Policed);
                None
            }
        }
    }

    fn deadline(&self, now: Instant) -> Deadline {
        match self.release() {
            Some(release) => Deadline::at(release.at, now.max(self.latest)),
            None => Deadline::Idle,
        }
    }

    fn backlog(&self) -> Backlog {
        self.backlog
    }
}

#[cfg(test)]
mod tests;
