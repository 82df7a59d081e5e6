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
//! exponential in fixed point ([`decay`]): no decision uses a float.
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

use crate::decay;
use crate::marker::{Conditioner, Outcome};
use crate::meter::Meter;
use crate::packet::Packet;
use crate::params::ParamError;
use crate::qdisc::{Backlog, Deadline, DropReason, Outlet, Qdisc, Queued};
use tidegate_units::{Bytes, Credit, Instant, Rate, Span};

/// F: the minimum shaping rate as a function of the buffer's occupancy.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Curve {
    /// For the single rate shaper: CIR below `cir_th`, then linear to MIR at `mir_th`, then MIR.
    Single {
        /// Committed information rate.
        cir: Rate,
        /// Maximum information rate.
        mir: Rate,
        /// Up to this occupancy F is CIR.
        cir_th: Bytes,
        /// From this occupancy on F is MIR.
        mir_th: Bytes,
    },
    /// For the two rate shaper: CIR below `cir_th`, linear to PIR at `pir_th`, linear to MIR at `mir_th`, then MIR.
    Two {
        /// Committed information rate.
        cir: Rate,
        /// Peak information rate.
        pir: Rate,
        /// Maximum information rate.
        mir: Rate,
        /// Up to this occupancy F is CIR.
        cir_th: Bytes,
        /// At this occupancy F is PIR.
        pir_th: Bytes,
        /// From this occupancy on F is MIR.
        mir_th: Bytes,
    },
}

impl Curve {
    /// F at `occupancy`, rounded down to a bit/s.
    pub fn rate(&self, occupancy: Bytes) -> Rate {
        match *self {
            Self::Single { cir, mir, cir_th, mir_th } => {
                if occupancy < cir_th {
                    cir
                } else {
                    between(occupancy, (cir_th, cir), (mir_th, mir))
                }
            }
            Self::Two { cir, pir, mir, cir_th, pir_th, mir_th } => {
                if occupancy < cir_th {
                    cir
                } else if occupancy < pir_th {
                    between(occupancy, (cir_th, cir), (pir_th, pir))
                } else {
                    between(occupancy, (pir_th, pir), (mir_th, mir))
                }
            }
        }
    }
    /// The maximum information rate.
    pub const fn mir(&self) -> Rate {
        match *self {
            Self::Single { mir, .. } | Self::Two { mir, .. } => mir,
        }
    }
    /// The committed information rate.
    pub const fn cir(&self) -> Rate {
        match *self {
            Self::Single { cir, .. } | Self::Two { cir, .. } => cir,
        }
    }
    /// Checks the order of the rates and of the thresholds.
    fn validate(&self) -> Result<(), ParamError> {
        let rates: &[(&'static str, Rate)];
        let thresholds: &[(&'static str, Bytes)];
        let (two_rates, single_rates, two_thresholds, single_thresholds);
        match *self {
            Self::Single { cir, mir, cir_th, mir_th } => {
                single_rates = [("cir", cir), ("mir", mir)];
                single_thresholds = [("cir_th", cir_th), ("mir_th", mir_th)];
                (rates, thresholds) = (&single_rates, &single_thresholds);
            }
            Self::Two { cir, pir, mir, cir_th, pir_th, mir_th } => {
                two_rates = [("cir", cir), ("pir", pir), ("mir", mir)];
                two_thresholds = [("cir_th", cir_th), ("pir_th", pir_th), ("mir_th", mir_th)];
                (rates, thresholds) = (&two_rates, &two_thresholds);
            }
        }
        if self.cir().is_zero() {
            return Err(ParamError::new("cir", "must be more than 0, or the buffer would never empty"));
        }
        in_order(rates)?;
        in_order(thresholds)
    }
}

/// Checks that each value is at least the one before it; otherwise returns an error of the later field.
fn in_order<T: PartialOrd + core::fmt::Display>(fields: &[(&'static str, T)]) -> Result<(), ParamError> {
    for pair in fields.windows(2) {
        let ((below, low), (field, value)) = (&pair[0], &pair[1]);
        if value < low {
            return Err(ParamError::new(field, format!("must be at least {below}, but {value} < {low}")));
        }
    }
    Ok(())
}

/// The line through two points, at `x` not before the first; flat from the second on.
fn between(x: Bytes, (x0, y0): (Bytes, Rate), (x1, y1): (Bytes, Rate)) -> Rate {
    if x >= x1 {
        return y1;
    }
    let rise = u128::from((y1 - y0).as_bps()) * u128::from((x - x0).as_u64());
    y0 + Rate::from_bps((rise / u128::from((x1 - x0).as_u64())) as u64)
}

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

/// Stoica's exponential average of a rate.
#[derive(Clone, Copy, Debug, Default)]
pub struct Ear {
    /// Bit/s with [`Ear::FRACTION`] bits of fraction.
    bits: u64,
    last: Option<Instant>,
}

impl Ear {
    /// Bits of fraction of [`Ear::bits`].
    pub const FRACTION: u32 = 16;

    /// The estimate, rounded down.
    pub fn rate(&self) -> Rate {
        Rate::from_bps(self.bits >> Self::FRACTION)
    }
    /// The estimate in bit/s with [`Ear::FRACTION`] bits of fraction; at most 2⁴⁷ bit/s.
    pub fn bits(&self) -> u64 {
        self.bits
    }
    /// Updates the estimate with `size` bytes that arrive at `now`. The first arrival counts as one after an infinite
    /// pause.
    pub fn on_arrival(&mut self, now: Instant, size: Bytes, averaging: Span) {
        // x = T/K with 32 bits of fraction; (1 - e^-x) L/T = (1 - e^-x)/x L/K, which also has the limit at T = 0.
        let gap = self.last.map_or(Span::MAX, |last| now.since(last)).as_nanos();
        self.last = Some(self.last.map_or(now, |last| last.max(now)));
        let constant = u128::from(averaging.as_nanos().max(1));
        let x = u64::try_from((u128::from(gap) << 32) / constant).unwrap_or(u64::MAX);
        let over_constant = (Credit::of(size).as_raw() as u128).saturating_mul(1 << Self::FRACTION) / constant;
        let over_constant = over_constant.min(1 << 63);
        let fresh = (u128::from(decay::mean_decay(x)) * over_constant) >> decay::FRACTION;
        let kept = (u128::from(decay::exp_neg(x)) * u128::from(self.bits)) >> decay::FRACTION;
        self.bits = (fresh + kept).min(1 << 63) as u64;
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
    ear: Ear,
    /// The shaping rate since the last call.
    rate: Rate,
    /// The rest of the debt of the last packet at `settled`.
    debt: Credit,
    settled: Instant,
    /// The instant up to which the debt is paid.
    paid_at: Instant,
    /// When the packet at the head became the head.
    head_since: Instant,
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
            ear: Ear::default(),
            rate: params.curve.rate(Bytes::ZERO),
            debt: Credit::ZERO,
            settled: Instant::ZERO,
            paid_at: Instant::ZERO,
            head_since: Instant::ZERO,
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
        self.settle();
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
        self.ear.rate()
    }
    /// The shaping rate since the last call.
    pub fn rate(&self) -> Rate {
        self.rate
    }
    /// Released packets by schedule.
    pub fn stats(&self) -> &Stats {
        &self.stats
    }

    fn hold(&mut self, now: Instant) {
        self.latest = self.latest.max(now);
    }
    /// Reduces the debt by what the rate earned until the latest instant.
    fn settle(&mut self) {
        if self.debt > Credit::ZERO {
            let earned = self.rate.credit_in(self.latest.since(self.settled));
            if earned >= self.debt {
                self.paid_at = self.rate_schedule();
                self.debt = Credit::ZERO;
            } else {
                self.debt -= earned;
            }
        }
        self.settled = self.settled.max(self.latest);
    }
    fn renew_rate(&mut self) {
        let least = self.params.curve.rate(self.backlog.bytes);
        self.rate = self.ear.rate().max(least).min(self.params.curve.mir());
    }
    /// T1: when the packet before the head is paid for, if the rate does not change.
    fn rate_schedule(&self) -> Instant {
        if self.debt > Credit::ZERO {
            // The rate is at least CIR, which is not zero, so the debt is paid in finite time.
            self.settled + self.debt.time_at_ceil(self.rate).unwrap_or(Span::MAX)
        } else {
            self.paid_at
        }
    }
    /// When the head is released, not before it became the head; and whether T2 decides.
    fn release(&self) -> Option<(Instant, bool)> {
        let head = self.queue.front()?;
        let by_rate = self.rate_schedule().max(self.head_since);
        if self.params.coupling == Coupling::Green
            && let Some(by_green) = self.conditioner.meter().green_at(self.head_since, head)
            && by_green < by_rate
        {
            return Some((by_green, true));
        }
        Some((by_rate, false))
    }
}

impl<P: Packet, M: Meter<P>> Qdisc<P> for Ras<P, M> {
    fn enqueue(&mut self, now: Instant, packet: P, out: &mut dyn Outlet<P>) -> Queued {
        self.hold(now);
        self.settle();
        let size = packet.size();
        self.ear.on_arrival(self.latest, size, self.params.averaging);
        if self.backlog.bytes + size > self.params.buffer {
            self.renew_rate();
            return out.refused(packet, DropReason::QueueLimit);
        }
        if self.queue.is_empty() {
            self.head_since = self.latest;
        }
        self.backlog.add(size);
        self.queue.push_back(packet);
        self.renew_rate();
        Queued::default()
    }

    fn dequeue(&mut self, now: Instant, out: &mut dyn Outlet<P>) -> Option<P> {
        self.hold(now);
        let (due, by_green) = self.release()?;
        if due > self.latest {
            return None;
        }
        let mut packet = self.queue.pop_front()?;
        let size = packet.size();
        self.backlog.remove(size);
        self.head_since = self.latest;
        // Its bytes are owed from its release on, or from a little later when the caller is later than the slack.
        self.debt = Credit::of(size);
        self.settled = due.max(self.latest.saturating_sub(self.params.slack));
        self.renew_rate();
        self.settle();
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
            Some((due, _)) => Deadline::at(due, now.max(self.latest)),
            None => Deadline::Idle,
        }
    }

    fn backlog(&self) -> Backlog {
        self.backlog
    }
}

#[cfg(test)]
mod tests;
