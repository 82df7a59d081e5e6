//! RAS: the rate adaptive shapers srRAS, trRAS, G-srRAS and G-trRAS.
//!
//! *Law*: a FIFO whose head is released when the packet before it has been paid for at the shaping rate. That rate is
//! the larger of the estimated average rate of the arrivals (EAR) and of F(occupancy), and at most MIR, at every
//! instant. A green RAS releases the head already when the meter behind it would colour it green. Behind an
//! uncoupled RAS, packets of `L` bytes are at least `L / MIR` apart; while packets wait, at most `L / CIR`.
//! *Source*: RFC 2963 sections 2 (srRAS, trRAS) and 3 (the green ones); the EAR is that of Stoica, Shenker and Zhang
//! (1998): `EAR' = (1 - e^(-T/K)) L/T + e^(-T/K) EAR`.
//! *Units*: rates as [`Rate`], thresholds and occupancy in bytes, the head included. The debt of the last packet is
//! in bit·ns/s, so that it never rounds; F rounds down to a bit/s. The EAR is in bit/s with 16 bits of fraction, its
//! exponential in fixed point ([`decay`]): no float decides.
//! *Cost*: O(1) a call: at an arrival two divisions of 128 bits and twenty multiplications for the EAR, and one
//! division for F.
//! *Notes*: an arrival changes occupancy and EAR, hence the rate, hence the release of the head: the deadline moves
//! with every call, and is exact between calls, for nothing changes there. The EAR does not decay without arrivals,
//! as in the RFC. Packets beyond the buffer are dropped at the tail.
//! Lateness of the caller is made up for by at most `slack`.
//! *Departures from the source, and why*: the RFC leaves the schedule open. Here a packet alone leaves at once, and
//! the packet after it waits (as in virtual scheduling); a release by green starts the wait anew, so that the early
//! release is not paid back by a pause. The rate is capped at MIR, as the name says, also when the EAR exceeds it.
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
use crate::qdisc::{Backlog, Deadline, DropReason, Outlet, Qdisc};
use tidegate_units::{Bytes, Credit, Instant, Rate, Span};

/// F: the least shaping rate as a function of the buffer's occupancy.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Curve {
    /// The single rate shaper's: CIR below `cir_th`, then linear to MIR at `mir_th`, then MIR.
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
    /// The two rate shaper's: CIR below `cir_th`, linear to PIR at `pir_th`, linear to MIR at `mir_th`, then MIR.
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
    /// Whether the rates and the thresholds are in order.
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

/// Whether each value is at least the one before it; if not, an error of the later field.
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

/// Whether the shaper looks at the meter behind it.
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
    /// The least shaping rate as a function of the occupancy.
    pub curve: Curve,
    /// The buffer. A packet that would exceed it is dropped.
    pub buffer: Bytes,
    /// The rate of the output link, which MIR must not exceed.
    pub line_rate: Rate,
    /// `K`, the time constant of the EAR.
    pub averaging: Span,
    /// Whether the shaper looks at the meter behind it.
    pub coupling: Coupling,
    /// Up to how much lateness of `dequeue` is made up for by releasing the next packet sooner. Zero keeps the
    /// distances exact; a live path wants about the granularity of its timer.
    pub slack: Span,
}

impl Params {
    /// Whether they can work: `cir <= pir <= mir <= line_rate` and `cir_th <= pir_th <= mir_th <= buffer`.
    ///
    /// # Errors
    /// Names the field that breaks the order; `cir`, `buffer`, `averaging` when they are zero.
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
    /// `size` bytes arrive at `now`. The first arrival counts as one after an endless pause.
    pub fn on_arrival(&mut self, now: Instant, size: Bytes, averaging: Span) {
        // x = T/K with 32 bits of fraction; (1 - e^-x) L/T = (1 - e^-x)/x L/K, which also tells the limit at T = 0.
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

/// Which schedule released packets.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Stats {
    /// Released by the shaping rate (T1).
    pub by_rate: u64,
    /// Released sooner because the meter would colour them green (T2).
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
    /// What is left to pay for the last packet at `settled`.
    debt: Credit,
    settled: Instant,
    /// When the debt was paid, once it is.
    paid_at: Instant,
    /// When the packet at the head got there.
    head_since: Instant,
    latest: Instant,
    stats: Stats,
}

impl<P: Packet, M: Meter<P>> Ras<P, M> {
    /// An empty shaper in front of `conditioner`, which meters what leaves.
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
    /// Takes other parameters from `now` on. What waits beyond a smaller buffer is not dropped.
    ///
    /// # Errors
    /// As [`Params::validate`]; then nothing has changed.
    pub fn set_params(&mut self, now: Instant, params: Params) -> Result<(), ParamError> {
        params.validate()?;
        self.hold(now);
        self.settle();
        self.params = params;
        self.renew_rate();
        Ok(())
    }
    /// The conditioner.
    pub fn conditioner(&self) -> &Conditioner<M> {
        &self.conditioner
    }
    /// The conditioner, to change its parameters.
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
    /// Which schedule released packets so far.
    pub fn stats(&self) -> &Stats {
        &self.stats
    }

    fn hold(&mut self, now: Instant) {
        self.latest = self.latest.max(now);
    }
    /// Pays what the rate earned until the latest instant.
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
    /// T1: when the packet before the head is paid for, if the rate stays.
    fn rate_schedule(&self) -> Instant {
        if self.debt > Credit::ZERO {
            // The rate is at least CIR, which is not zero, so the debt is always paid in the end.
            self.settled + self.debt.time_at_ceil(self.rate).unwrap_or(Span::MAX)
        } else {
            self.paid_at
        }
    }
    /// When the head is released, not before it got there; and whether T2 says so.
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
    fn enqueue(&mut self, now: Instant, packet: P, out: &mut dyn Outlet<P>) {
        self.hold(now);
        self.settle();
        let size = packet.size();
        self.ear.on_arrival(self.latest, size, self.params.averaging);
        if self.backlog.bytes + size > self.params.buffer {
            self.renew_rate();
            return out.dropped(packet, DropReason::QueueLimit);
        }
        if self.queue.is_empty() {
            self.head_since = self.latest;
        }
        self.backlog.add(size);
        self.queue.push_back(packet);
        self.renew_rate();
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
        // Its bytes are owed from its release on, or from a little after when the caller is later than the slack.
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
mod tests {
    use super::*;
    use crate::marker::Actions;
    use crate::meter::{Mode, NoMeter};
    use crate::packet::{Colour, FlowKey};
    use crate::qdisc::Discard;
    use crate::trtcm::{self, TrTcm};

    #[derive(Debug)]
    struct P(u64, Colour);
    impl Packet for P {
        fn size(&self) -> Bytes {
            Bytes::new(self.0)
        }
        fn flow(&self) -> FlowKey {
            FlowKey::default()
        }
        fn set_colour(&mut self, colour: Colour) {
            self.1 = colour;
        }
    }

    // 8 kbit/s is one byte a millisecond.
    const TWO: Curve = Curve::Two {
        cir: Rate::from_kbit(8),
        pir: Rate::from_kbit(16),
        mir: Rate::from_kbit(80),
        cir_th: Bytes::new(2_000),
        pir_th: Bytes::new(4_000),
        mir_th: Bytes::new(8_000),
    };
    // The EAR of a week forgets nothing and learns nothing, so that F alone decides.
    const PARAMS: Params = Params {
        curve: TWO,
        buffer: Bytes::new(10_000),
        line_rate: Rate::from_kbit(80),
        averaging: Span::from_secs(600_000),
        coupling: Coupling::Uncoupled,
        slack: Span::ZERO,
    };

    fn at(millis: u64) -> Instant {
        Instant::ZERO + Span::from_millis(millis)
    }
    fn plain(params: Params) -> Ras<P, NoMeter> {
        Ras::new(params, Conditioner::new(NoMeter, Actions::default())).unwrap()
    }
    fn enqueue<M: Meter<P>>(ras: &mut Ras<P, M>, now: Instant, size: u64) {
        ras.enqueue(now, P(size, Colour::Green), &mut Discard);
    }

    #[test]
    fn the_curve_is_piecewise_linear() {
        let kbit = |occupancy| TWO.rate(Bytes::new(occupancy)).as_bps();
        // 8 to 16 kbit/s from 2 to 4 kB, 16 to 80 from 4 to 8 kB.
        let points = [(0, 8_000), (2_000, 8_000), (2_001, 8_004), (3_000, 12_000), (4_000, 16_000), (6_000, 48_000)];
        for (occupancy, rate) in points.into_iter().chain([(7_999, 79_984), (8_000, 80_000), (99_999, 80_000)]) {
            assert_eq!(kbit(occupancy), rate, "{occupancy}");
        }
        let step = Curve::Single {
            cir: Rate::from_kbit(8),
            mir: Rate::from_kbit(80),
            cir_th: Bytes::new(500),
            mir_th: Bytes::new(500),
        };
        assert_eq!(step.rate(Bytes::new(499)), Rate::from_kbit(8));
        assert_eq!(step.rate(Bytes::new(500)), Rate::from_kbit(80));
    }

    #[test]
    fn the_ear_follows_the_formula() {
        let mut ear = Ear::default();
        let second = Span::from_secs(1);
        // After an endless pause L/T is 0. One second later, K = 1 s, 1000 B: (1 - 1/e) 8000 = 5056.96447.
        ear.on_arrival(at(0), Bytes::new(1_000), second);
        assert_eq!(ear.rate(), Rate::ZERO);
        ear.on_arrival(at(1_000), Bytes::new(1_000), second);
        assert_eq!(ear.rate(), Rate::from_bps(5_056));
        // At the same instant the limit is L/K more: 5056.96 + 8000.
        ear.on_arrival(at(1_000), Bytes::new(1_000), second);
        assert_eq!(ear.rate(), Rate::from_bps(13_056));
        // Half a second later: (1 - e^-0.5) 16000 + e^-0.5 13056.96447 = 6295.4894 + 7919.4493 = 14214.938.
        ear.on_arrival(at(1_500), Bytes::new(1_000), second);
        assert_eq!(ear.rate(), Rate::from_bps(14_214));
    }

    #[test]
    fn the_ear_of_a_constant_rate_is_that_rate() {
        let mut ear = Ear::default();
        // 1500 B each 3 ms: 4 Mbit/s, whatever K is.
        for n in 0..2_000 {
            ear.on_arrival(at(3 * n), Bytes::new(1_500), Span::from_millis(100));
        }
        assert!(ear.rate().as_bps().abs_diff(4_000_000) <= 1, "{}", ear.rate());
    }

    #[test]
    fn the_first_leaves_at_once_and_the_next_when_it_is_paid_for() {
        let mut ras = plain(PARAMS);
        enqueue(&mut ras, at(0), 500);
        enqueue(&mut ras, at(0), 300);
        assert_eq!(ras.deadline(at(0)), Deadline::Now);
        assert_eq!(ras.dequeue(at(0), &mut Discard).unwrap().0, 500);
        // 500 B at 1 B/ms.
        assert_eq!(ras.deadline(at(0)), Deadline::At(at(500)));
        assert!(ras.dequeue(at(500).saturating_sub(Span::from_nanos(1)), &mut Discard).is_none());
        assert_eq!(ras.dequeue(at(500), &mut Discard).unwrap().0, 300);
        // A packet that comes 100 ms after waits for the 200 ms that are left of those 300.
        enqueue(&mut ras, at(600), 400);
        assert_eq!(ras.deadline(at(600)), Deadline::At(at(800)));
    }

    #[test]
    fn occupancy_moves_the_release() {
        let mut ras = plain(PARAMS);
        enqueue(&mut ras, at(0), 1_000);
        ras.dequeue(at(0), &mut Discard);
        enqueue(&mut ras, at(0), 1_500);
        assert_eq!(ras.deadline(at(0)), Deadline::At(at(1_000)));
        // At 400 ms, 600 B are owed. 1500 B more make the occupancy 3000 B and the rate 1.5 B/ms: 400 ms more.
        enqueue(&mut ras, at(400), 1_500);
        assert_eq!(ras.deadline(at(400)), Deadline::At(at(800)));
        // At 600 ms, 300 B are owed. 5 kB more: at 8000 B the rate is 10 B/ms: 30 ms.
        enqueue(&mut ras, at(600), 5_000);
        assert_eq!(ras.deadline(at(600)), Deadline::At(at(630)));
        // Beyond the buffer of 10 kB nothing gets in.
        let mut dropped = alloc::vec::Vec::new();
        ras.enqueue(at(610), P(2_001, Colour::Green), &mut dropped);
        assert_eq!(dropped[0].1, DropReason::QueueLimit);
    }

    #[test]
    fn the_ear_carries_a_fast_source_without_a_queue() {
        // 500 B each 100 ms are 40 kbit/s, five times CIR; K = 100 ms learns it, and then nothing waits long.
        let mut ras = plain(Params { averaging: Span::from_millis(100), ..PARAMS });
        let mut left = at(0);
        for n in 0..100 {
            enqueue(&mut ras, at(100 * n), 500);
            while let Deadline::Now = ras.deadline(at(100 * n)) {
                ras.dequeue(at(100 * n), &mut Discard);
            }
            while let Deadline::At(t) = ras.deadline(at(100 * n))
                && t < at(100 * (n + 1))
            {
                ras.dequeue(t, &mut Discard);
                left = t;
            }
        }
        assert!(ras.rate() >= Rate::from_kbit(39), "{}", ras.rate());
        assert!(left > at(0) && ras.backlog().bytes <= Bytes::new(1_000), "{:?}", ras.backlog());
    }

    #[test]
    fn mir_caps_the_ear() {
        let mut ras = plain(Params { averaging: Span::from_millis(1), ..PARAMS });
        enqueue(&mut ras, at(0), 1_000);
        enqueue(&mut ras, at(1), 1_000);
        assert!(ras.ear() > Rate::from_mbit(5));
        assert_eq!(ras.rate(), Rate::from_kbit(80));
    }

    /// trTCM with the curve's CIR and PIR, one packet of 1000 B deep, and a green shaper before it.
    fn green(coupling: Coupling) -> Ras<P, TrTcm> {
        let params = trtcm::Params {
            cir: Rate::from_kbit(8),
            cbs: Bytes::new(2_000),
            pir: Rate::from_kbit(16),
            pbs: Bytes::new(3_000),
            mode: Mode::Blind,
        };
        let meter = TrTcm::new(params, Instant::ZERO).unwrap();
        Ras::new(Params { coupling, ..PARAMS }, Conditioner::new(meter, Actions::default())).unwrap()
    }

    #[test]
    fn green_leaves_at_the_earlier_of_both_schedules() {
        let mut ras = green(Coupling::Green);
        for _ in 0..3 {
            enqueue(&mut ras, at(0), 1_000);
        }
        // Two are green at once: CBS is 2000 B. The plain shaper would hold the second until 666.7 ms: 3000 B of
        // occupancy, then 2000, is 8 kbit/s; so 1000 ms.
        assert_eq!(ras.dequeue(at(0), &mut Discard).unwrap().1, Colour::Green);
        assert_eq!(ras.deadline(at(0)), Deadline::Now);
        assert_eq!(ras.dequeue(at(0), &mut Discard).unwrap().1, Colour::Green);
        // The third: T1 = 1000 B at 1 B/ms; T2 = 1000 B of tokens at 1 B/ms (peak: 1000 left). The same.
        assert_eq!(ras.deadline(at(0)), Deadline::At(at(1_000)));
        assert_eq!(ras.dequeue(at(1_000), &mut Discard).unwrap().1, Colour::Green);
        assert_eq!(*ras.stats(), Stats { by_rate: 2, by_green: 1 });
        let mut plain = green(Coupling::Uncoupled);
        enqueue(&mut plain, at(0), 1_000);
        enqueue(&mut plain, at(0), 1_000);
        plain.dequeue(at(0), &mut Discard);
        assert_eq!(plain.deadline(at(0)), Deadline::At(at(1_000)));
    }

    #[test]
    fn what_never_turns_green_follows_the_rate() {
        let mut ras = green(Coupling::Green);
        enqueue(&mut ras, at(0), 2_001);
        enqueue(&mut ras, at(0), 2_001);
        // Larger than CBS: T2 is infinite. The first leaves at once by rate, yellow; the second at F(2001) =
        // 8004 bit/s: 2001 B take 2 s to the nanosecond.
        assert_eq!(ras.dequeue(at(0), &mut Discard).unwrap().1, Colour::Yellow);
        assert_eq!(ras.deadline(at(0)), Deadline::At(at(2_000)));
    }

    #[test]
    fn lateness_is_made_up_within_the_slack() {
        for (slack, next) in [(0, 1_040), (10, 1_030), (100, 1_000)] {
            let mut ras = plain(Params { slack: Span::from_millis(slack), ..PARAMS });
            for _ in 0..3 {
                enqueue(&mut ras, at(0), 500);
            }
            ras.dequeue(at(0), &mut Discard);
            assert!(ras.dequeue(at(540), &mut Discard).is_some(), "due at 500 ms, 40 ms late");
            assert_eq!(ras.deadline(at(540)), Deadline::At(at(next)), "slack {slack} ms");
        }
    }

    #[test]
    fn a_change_of_parameters_settles_first() {
        let mut ras = plain(PARAMS);
        enqueue(&mut ras, at(0), 1_000);
        enqueue(&mut ras, at(0), 1_000);
        ras.dequeue(at(0), &mut Discard);
        // At 500 ms 500 B are owed; at 2 B/ms they take 250 ms.
        let curve = Curve::Single {
            cir: Rate::from_kbit(16),
            mir: Rate::from_kbit(80),
            cir_th: Bytes::new(2_000),
            mir_th: Bytes::new(8_000),
        };
        ras.set_params(at(500), Params { curve, ..PARAMS }).unwrap();
        assert_eq!(ras.deadline(at(500)), Deadline::At(at(750)));
    }

    #[test]
    fn errors_name_the_field() {
        let Curve::Two { cir, pir, mir, cir_th, pir_th, mir_th } = TWO else { unreachable!("TWO has two rates") };
        let two = |cir, pir, mir, cir_th, pir_th, mir_th| Params {
            curve: Curve::Two { cir, pir, mir, cir_th, pir_th, mir_th },
            ..PARAMS
        };
        let (low, high) = (Rate::from_kbit(7), Rate::from_kbit(81));
        for (params, field) in [
            (two(Rate::ZERO, pir, mir, cir_th, pir_th, mir_th), "cir"),
            (two(cir, low, mir, cir_th, pir_th, mir_th), "pir"),
            (two(cir, pir, low, cir_th, pir_th, mir_th), "mir"),
            (two(cir, pir, high, cir_th, pir_th, mir_th), "mir"),
            (two(cir, pir, mir, cir_th, Bytes::new(1_999), mir_th), "pir_th"),
            (two(cir, pir, mir, cir_th, pir_th, Bytes::new(3_999)), "mir_th"),
            (two(cir, pir, mir, cir_th, pir_th, Bytes::new(10_001)), "mir_th"),
            (Params { buffer: Bytes::ZERO, ..PARAMS }, "buffer"),
            (Params { averaging: Span::ZERO, ..PARAMS }, "averaging"),
        ] {
            assert_eq!(params.validate().unwrap_err().field, field);
        }
        let single = Curve::Single { cir: mir, mir: cir, cir_th, mir_th };
        assert_eq!(Params { curve: single, ..PARAMS }.validate().unwrap_err().field, "mir");
        let single = Curve::Single { cir, mir, cir_th: mir_th, mir_th: cir_th };
        assert_eq!(Params { curve: single, ..PARAMS }.validate().unwrap_err().field, "mir_th");
    }
}
