//! RED: random early detection, in fixed point.
//!
//! *Law*: the average is `avg' = avg + w (q - avg)` at each arrival, and `(1 - w)^m avg` after the queue was empty
//! for as long as `m` typical packets take. Below `min` nothing is dropped. From `min` to `max` the base probability
//! rises linearly from 0 to `max_p`; above `max` everything is dropped, or, gently, it rises on from `max_p` at
//! `max` to 1 at twice `max`.
//! *Source*: Floyd and Jacobson, "Random Early Detection Gateways for Congestion Avoidance" (1993), sections 4 and
//! 7 (both methods of spacing) and 11 (idle time); Floyd, "Recommendation on using the gentle variant of RED"
//! (2000); RFC 3168 section 7 for marking.
//! *Units*: thresholds in packets or in bytes; the average in either with 32 bits of fraction ([`Level`]);
//! probabilities in 32 bits of fraction ([`Probability`]).
//! *Cost*: O(1) an arrival: a multiplication for the average and, between the thresholds, a multiplication and a
//! random draw; O(log m) multiplications after an idle time. No allocation.
//! *Notes*: queues beyond 2³² - 1 bytes or packets count as that. The average is rounded down to a multiple of
//! 2⁻³², so that it can rest up to `1 / (w 2³²)` below the queue: 10⁻⁷ packets at `w` = 0.002. The drop
//! test compares integers and is exact for the rounded average.
//! *Departures from the source, and why*: the idle time is consumed when an arrival has counted it, in whole
//! packets, and what is left counts with the next idle time: short ones add up, where an implementation that forgets
//! them leaves the average of a queue that each arrival finds empty where it was, and goes on dropping. The paper counts
//! idle time again when that arrival is dropped and the queue stays empty. `count` is the number of packets since the last drop, as the text of section 7 has it; the pseudocode
//! starts at one more after a drop, and its gaps are then not uniform. With ECN, packets are marked between the thresholds and dropped above `max`, as RFC 3168 recommends.
//! *See also*: [`rio`](crate::rio): RED with an average for each drop precedence; [`wred`](crate::wred): one average
//! and several curves. The parts [`Average`], [`Curve`] and [`Spacer`] serve all of them.
//!
//! ```
//! use tidegate_core::{probability::Probability, red::{Params, Red, Thresholds}, units::Span};
//! let params = Params::new(Thresholds::Packets { min: 5, max: 15 });
//! let red = Red::new(params, 1, "uplink").expect("these can work");
//! assert_eq!(red.average().as_f64(), 0.0);
//! let wrong = Params { max_p: Probability::ZERO, ..params };
//! assert_eq!(wrong.validate().unwrap_err().field, "max_p");
//! ```

use crate::aqm::{Aqm, Verdict, Verdicts};
use crate::packet::Packet;
use crate::params::ParamError;
use crate::probability::Probability;
use crate::qdisc::{Backlog, DropReason};
use crate::random::Stream;
use alloc::format;
use tidegate_units::{Bytes, Instant, Span};

/// A queue length with 32 bits of fraction, in packets or in bytes as the [`Thresholds`] are.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default)]
pub struct Level(u64);

impl Level {
    /// `n` whole packets or bytes; at most 2³² - 1.
    pub const fn whole(n: u64) -> Self {
        Self(if n > u32::MAX as u64 { u32::MAX as u64 } else { n } << 32)
    }
    /// `numerator / denominator`, rounded down; at most 2³² - 1.
    ///
    /// # Panics
    /// When the denominator is zero.
    pub const fn from_ratio(numerator: u64, denominator: u64) -> Self {
        let bits = ((numerator as u128) << 32) / denominator as u128;
        if bits > u64::MAX as u128 { Self(u64::MAX) } else { Self(bits as u64) }
    }
    /// The level without its fraction.
    pub const fn whole_part(self) -> u64 {
        self.0 >> 32
    }
    /// The level in units of 2⁻³².
    pub const fn bits(self) -> u64 {
        self.0
    }
    /// As a float, for display and statistics only.
    #[expect(clippy::float_arithmetic, reason = "for display and statistics")]
    pub fn as_f64(self) -> f64 {
        self.0 as f64 / 4_294_967_296.0
    }
}

/// Where dropping begins and where it is at its most, and in which unit the queue is measured.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Thresholds {
    /// In packets.
    Packets {
        /// Nothing is dropped while the average is below.
        min: u64,
        /// The base probability reaches `max_p` here.
        max: u64,
    },
    /// In bytes.
    Bytes {
        /// Nothing is dropped while the average is below.
        min: Bytes,
        /// The base probability reaches `max_p` here.
        max: Bytes,
    },
}

impl Thresholds {
    /// `min` and `max` as levels.
    pub const fn levels(self) -> (Level, Level) {
        match self {
            Self::Packets { min, max } => (Level::whole(min), Level::whole(max)),
            Self::Bytes { min, max } => (Level::whole(min.as_u64()), Level::whole(max.as_u64())),
        }
    }
    /// `queue` in the unit of these thresholds.
    pub const fn measure(self, queue: Backlog) -> Level {
        match self {
            Self::Packets { .. } => Level::whole(queue.packets),
            Self::Bytes { .. } => Level::whole(queue.bytes.as_u64()),
        }
    }
    /// Whether they can work.
    ///
    /// # Errors
    /// Names `max_th` when it does not exceed `min_th` or cannot be told in 31 bits.
    pub fn validate(self) -> Result<(), ParamError> {
        let (min, max) = match self {
            Self::Packets { min, max } => (min, max),
            Self::Bytes { min, max } => (min.as_u64(), max.as_u64()),
        };
        if max <= min {
            return Err(ParamError::new("max_th", format!("must exceed min_th, but {max} <= {min}")));
        }
        // Twice max must still be a level, for the gentle region.
        if max > u64::from(u32::MAX / 2) {
            return Err(ParamError::new("max_th", format!("must be at most {}, but is {max}", u32::MAX / 2)));
        }
        Ok(())
    }
}

/// What happens above `max`.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum AboveMax {
    /// Everything is dropped.
    Cliff,
    /// The base probability rises on to 1 at twice `max`; beyond that everything is dropped.
    #[default]
    Gentle,
}

/// How drops are spread among the packets at a constant base probability `p`.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Spacing {
    /// Uniform gaps from 1 to 1/p packets: the drop probability is `p / (1 - count p)`, where `count` packets came
    /// since the last drop ("method 2").
    #[default]
    Uniform,
    /// Geometric gaps: each packet is dropped with probability `p` ("method 1").
    Geometric,
}

/// Whether large packets are dropped more often.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Sizing {
    /// Every packet alike.
    #[default]
    PerPacket,
    /// In proportion to its size; one of `mean` bytes has the base probability.
    PerByte {
        /// The mean packet.
        mean: Bytes,
    },
}

impl Sizing {
    /// Whether it can work.
    ///
    /// # Errors
    /// Names `mean` when it is zero.
    pub fn validate(self) -> Result<(), ParamError> {
        if self == (Self::PerByte { mean: Bytes::ZERO }) {
            return Err(ParamError::new("mean", "must be more than 0"));
        }
        Ok(())
    }
}

/// What an early drop does to a packet that understands ECN.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Signal {
    /// Drops it all the same.
    #[default]
    Drop,
    /// Marks it instead.
    Mark,
}

/// The parameters of RED.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Params {
    /// Where dropping begins and where it is at its most.
    pub thresholds: Thresholds,
    /// The base probability at the upper threshold.
    pub max_p: Probability,
    /// The weight of a new sample in the average.
    pub weight: Probability,
    /// What happens above the upper threshold.
    pub above_max: AboveMax,
    /// How drops are spread.
    pub spacing: Spacing,
    /// Whether large packets are dropped more often.
    pub sizing: Sizing,
    /// What an early drop does to a packet that understands ECN.
    pub signal: Signal,
    /// The time a typical packet takes on the link, by which idle time is counted; zero: each arrival at an empty
    /// queue counts for one such time.
    pub idle_packet: Span,
}

impl Params {
    /// `thresholds` with the values of the paper's section 4 and of the gentle recommendation: `max_p` 0.1, weight
    /// 0.002, gentle, uniform, per packet, dropping. The typical packet takes 1.2 ms: 1500 B at 10 Mbit/s.
    pub const fn new(thresholds: Thresholds) -> Self {
        const fn ratio(numerator: u64, denominator: u64) -> Probability {
            match Probability::from_ratio(numerator, denominator) {
                Some(p) => p,
                None => Probability::ONE,
            }
        }
        Self {
            thresholds,
            max_p: ratio(1, 10),
            weight: ratio(2, 1000),
            above_max: AboveMax::Gentle,
            spacing: Spacing::Uniform,
            sizing: Sizing::PerPacket,
            signal: Signal::Drop,
            idle_packet: Span::from_micros(1_200),
        }
    }
    /// Whether they can work.
    ///
    /// # Errors
    /// Names the field that cannot: `max_th`, `max_p`, `weight`, `mean`.
    pub fn validate(&self) -> Result<(), ParamError> {
        self.thresholds.validate()?;
        validate_fraction("max_p", self.max_p)?;
        validate_fraction("weight", self.weight)?;
        self.sizing.validate()
    }
}

/// A probability that must not be zero.
pub(crate) fn validate_fraction(field: &'static str, value: Probability) -> Result<(), ParamError> {
    if value == Probability::ZERO {
        return Err(ParamError::new(field, "must be more than 0 and at most 1 (the least is 2^-32)"));
    }
    Ok(())
}

/// The exponentially weighted moving average of a queue, with decay over idle time. A part of RED.
#[derive(Clone, Debug)]
pub struct Average {
    weight: Probability,
    idle_packet: Span,
    level: Level,
    /// Since when the queue has been empty, less what arrivals have counted.
    idle_since: Option<Instant>,
    /// Idle time before that, which was too short to be counted.
    rest: Span,
    latest: Instant,
}

impl Average {
    /// The average of an empty queue, empty since the clock's epoch.
    pub fn new(weight: Probability, idle_packet: Span) -> Self {
        let (level, rest) = (Level(0), Span::ZERO);
        Self { weight, idle_packet, level, idle_since: Some(Instant::ZERO), rest, latest: Instant::ZERO }
    }
    /// The average now.
    pub fn level(&self) -> Level {
        self.level
    }
    /// Takes another weight.
    pub fn set_weight(&mut self, weight: Probability) {
        self.weight = weight;
    }
    /// Takes another typical transmission time.
    pub fn set_idle_packet(&mut self, span: Span) {
        self.idle_packet = span;
    }
    /// An arrival found `queue` before it; gives the new average.
    pub fn on_arrival(&mut self, now: Instant, queue: Level) -> Level {
        self.latest = self.latest.max(now);
        if queue == Level(0) {
            if let Some(since) = self.idle_since {
                let idle = self.latest.since(since).as_nanos();
                // Without a packet's time the arrival itself is the sample: an average that nothing moves would drop
                // for ever.
                let packets = idle.checked_div(self.idle_packet.as_nanos()).unwrap_or(1);
                self.level = Level(decay(self.level.0, self.weight, packets));
                self.idle_since = Some(since + self.idle_packet.saturating_mul(packets));
            }
        } else {
            let step = (i128::from(queue.0) - i128::from(self.level.0)) * i128::from(self.weight.bits());
            // The shift rounds down; the sum lies between the old average and the queue, so it stays in range.
            self.level = Level((i128::from(self.level.0) + (step >> 32)) as u64);
        }
        self.level
    }
    /// Packets are inside: the queue is not idle.
    pub fn on_busy(&mut self) {
        if let Some(since) = self.idle_since.take() {
            self.rest = self.latest.since(since);
        }
    }
    /// The queue became empty.
    pub fn on_empty(&mut self, now: Instant) {
        self.latest = self.latest.max(now);
        self.idle_since = Some(self.latest.saturating_sub(self.rest));
        self.rest = Span::ZERO;
    }
}

/// `level * (1 - weight)^times`, rounded down at each of the O(log times) squarings.
fn decay(level: u64, weight: Probability, mut times: u64) -> u64 {
    // The factor in 63 bits of fraction.
    let mut factor = u128::from(Probability::ONE.bits() - weight.bits()) << 31;
    let mut level = u128::from(level);
    while times > 0 && level > 0 {
        if times & 1 == 1 {
            level = (level * factor) >> 63;
        }
        factor = (factor * factor) >> 63;
        times >>= 1;
    }
    level as u64
}

/// What a curve says of an average.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Zone {
    /// Below the lower threshold.
    Below,
    /// Where chance decides; the base probability.
    Chance(Probability),
    /// In the gentle region above the upper threshold; the base probability.
    Gentle(Probability),
    /// Where everything is dropped.
    Beyond,
}

/// The base probability as a function of the average. A part of RED.
#[derive(Clone, Copy, Debug)]
pub struct Curve {
    min: Level,
    max: Level,
    max_p: Probability,
    above_max: AboveMax,
    /// Probability a unit between the thresholds, with 64 bits of fraction.
    slope: u128,
    /// The same in the gentle region.
    gentle_slope: u128,
}

impl Curve {
    /// From validated parameters.
    pub fn new(thresholds: Thresholds, max_p: Probability, above_max: AboveMax) -> Self {
        let (min, max) = thresholds.levels();
        let mut curve = Self { min, max, max_p, above_max, slope: 0, gentle_slope: 0 };
        curve.set_max_p(max_p);
        curve
    }
    /// Takes another `max_p`. Cost: two divisions.
    pub fn set_max_p(&mut self, max_p: Probability) {
        self.max_p = max_p;
        let range = u128::from((self.max.0 - self.min.0) >> 32).max(1);
        self.slope = (u128::from(max_p.bits()) << 32) / range;
        let rest = u128::from(Probability::ONE.bits() - max_p.bits()) << 32;
        self.gentle_slope = rest / u128::from(self.max.0 >> 32).max(1);
    }
    /// The base probability at the upper threshold.
    pub fn max_p(&self) -> Probability {
        self.max_p
    }
    /// The thresholds.
    pub fn levels(&self) -> (Level, Level) {
        (self.min, self.max)
    }
    /// What the curve says of `average`.
    pub fn zone(&self, average: Level) -> Zone {
        if average < self.min {
            return Zone::Below;
        }
        if average < self.max {
            // Bits of fraction: 32 of the level and 64 of the slope, less 64.
            let p = (u128::from(average.0 - self.min.0) * self.slope) >> 64;
            return Zone::Chance(Probability::saturating_from_bits(p));
        }
        let over = average.0 - self.max.0;
        if self.above_max == AboveMax::Cliff || over >= self.max.0 {
            return Zone::Beyond;
        }
        let p = u128::from(self.max_p.bits()) + ((u128::from(over) * self.gentle_slope) >> 64);
        Zone::Gentle(Probability::saturating_from_bits(p))
    }
}

/// Spreads drops at a base probability, by chance. A part of RED.
#[derive(Clone, Debug)]
pub struct Spacer {
    random: Stream,
    /// Packets since the last drop, or since the average rose above the lower threshold; the paper's `count` + 1.
    since: u64,
}

impl Spacer {
    /// A spacer that draws from `random`.
    pub fn new(random: Stream) -> Self {
        Self { random, since: 0 }
    }
    /// Whether the packet at hand is dropped at base probability `p`. A drop restarts the count.
    pub fn draw(&mut self, spacing: Spacing, p: Probability) -> bool {
        let count = u128::from(self.since);
        self.since = self.since.saturating_add(1);
        if p == Probability::ZERO {
            return false;
        }
        let draw = u128::from(self.random.next_u64() >> 32);
        let one = u128::from(Probability::ONE.bits());
        let hit = match spacing {
            Spacing::Geometric => draw < u128::from(p.bits()),
            Spacing::Uniform => {
                // draw / 2^32 < p / (1 - count p), without the division; nothing is left when count p reaches 1.
                match one.checked_sub(count.saturating_mul(u128::from(p.bits()))) {
                    None | Some(0) => true,
                    Some(left) => draw * left < u128::from(p.bits()) << 32,
                }
            }
        };
        if hit {
            self.since = 0;
        }
        hit
    }
    /// Chance decides nothing now (below the lower threshold, or beyond the upper): the count starts anew.
    pub fn restart(&mut self) {
        self.since = 0;
    }
}

/// RED. See the [module](self).
#[derive(Clone, Debug)]
pub struct Red {
    params: Params,
    average: Average,
    curve: Curve,
    spacer: Spacer,
    verdicts: Verdicts,
}

impl Red {
    /// RED for an empty queue, drawing from the random stream `name` under `seed`.
    ///
    /// # Errors
    /// As [`Params::validate`].
    pub fn new(params: Params, seed: u64, name: &str) -> Result<Self, ParamError> {
        params.validate()?;
        Ok(Self {
            params,
            average: Average::new(params.weight, params.idle_packet),
            curve: Curve::new(params.thresholds, params.max_p, params.above_max),
            spacer: Spacer::new(Stream::named(seed, name)),
            verdicts: Verdicts::default(),
        })
    }
    /// The parameters in force.
    pub fn params(&self) -> &Params {
        &self.params
    }
    /// Takes other parameters; the average and the count are kept.
    ///
    /// # Errors
    /// As [`Params::validate`]; then nothing has changed.
    pub fn set_params(&mut self, params: Params) -> Result<(), ParamError> {
        params.validate()?;
        self.average.set_weight(params.weight);
        self.average.set_idle_packet(params.idle_packet);
        self.curve = Curve::new(params.thresholds, params.max_p, params.above_max);
        self.params = params;
        Ok(())
    }
    /// Takes another `max_p` and nothing else: what an adaptive RED does twice a second. Zero is taken for 2⁻³².
    pub fn set_max_p(&mut self, max_p: Probability) {
        self.params.max_p = max_p.max(Probability::saturating_from_bits(1));
        self.curve.set_max_p(self.params.max_p);
    }
    /// The average queue.
    pub fn average(&self) -> Level {
        self.average.level()
    }
    /// What the curve says of the average now.
    pub fn zone(&self) -> Zone {
        self.curve.zone(self.average.level())
    }
    /// What was decided so far.
    pub fn verdicts(&self) -> &Verdicts {
        &self.verdicts
    }
    /// Updates the average for an arrival that finds `queue`, and gives the base probability's zone: the first half
    /// of a decision, for who scales the probability before the second, [`Red::decide`].
    pub fn observe(&mut self, now: Instant, queue: Backlog) -> Zone {
        let level = self.average.on_arrival(now, self.params.thresholds.measure(queue));
        self.curve.zone(level)
    }
    /// The second half: the verdict on `packet` in `zone`. Counts it.
    pub fn decide<P: Packet>(&mut self, packet: &P, zone: Zone) -> Verdict {
        let verdict =
            decide(&mut self.spacer, zone, self.params.spacing, self.params.sizing, self.params.signal, packet);
        self.verdicts.count(verdict)
    }
    /// The queue is not empty.
    pub fn on_busy(&mut self) {
        self.average.on_busy();
    }
    /// The queue became empty.
    pub fn on_empty(&mut self, now: Instant) {
        self.average.on_empty(now);
    }
}

/// The verdict on `packet` in `zone`.
pub(crate) fn decide<P: Packet>(
    spacer: &mut Spacer,
    zone: Zone,
    spacing: Spacing,
    sizing: Sizing,
    signal: Signal,
    packet: &P,
) -> Verdict {
    let (base, may_mark) = match zone {
        Zone::Below => {
            spacer.restart();
            return Verdict::Admit;
        }
        Zone::Beyond => {
            spacer.restart();
            return Verdict::Drop(DropReason::Forced);
        }
        Zone::Chance(p) => (p, signal == Signal::Mark),
        Zone::Gentle(p) => (p, false),
    };
    let p = match sizing {
        Sizing::PerPacket => base,
        Sizing::PerByte { mean } => base.scaled(packet.size().as_u64(), mean.as_u64()),
    };
    match spacer.draw(spacing, p) {
        false => Verdict::Admit,
        true if may_mark && packet.ecn().is_capable() => Verdict::Mark,
        true => Verdict::Drop(DropReason::Early),
    }
}

impl<P: Packet> Aqm<P> for Red {
    fn on_arrival(&mut self, now: Instant, packet: &P, queue: Backlog) -> Verdict {
        let zone = self.observe(now, queue);
        self.decide(packet, zone)
    }
    fn on_admission(&mut self, _now: Instant, _packet: &P) {
        self.on_busy();
    }
    fn on_departure(&mut self, now: Instant, _packet: &P, queue: Backlog) {
        if queue.is_empty() {
            self.on_empty(now);
        }
    }
}

#[cfg(test)]
mod tests;
