//! ARED: RED that sets itself.
//!
//! *Law*: the thresholds and the weight follow from the link; every `interval`, `max_p` rises by
//! `min(0.01, max_p / 4)` when the average is above its target and falls by a tenth when it is below, between 0.01
//! and 0.5. So the average stays about half-way between the thresholds, whatever the number of flows.
//! *Source*: Floyd, Gummadi and Shenker, "Adaptive RED: an algorithm for increasing the robustness of RED's active
//! queue management" (2001): the algorithm, the target in the middle fifth of the thresholds' range, and the
//! automatic thresholds and weight.
//! *Units*: the link in bit/s, the mean packet in bytes, the delay target in nanoseconds.
//! *Example*: below.
//! *Cost*: that of [`red`], and two divisions an interval; one exponential at configuration time only.
//! *Notes*: thresholds: `min = max(5 packets, delay * C / 2)`, `max = 3 min`; weight `1 - exp(-1/C)`, with C the
//! link in mean packets a second: at 15 Mbit/s and 1500 B, C = 1250, and 5 ms are 3.1 packets, so min is 5, max 15
//! packets.
//! *Departures from the source, and why*: no timer: the first arrival after an interval adapts once, for between
//! arrivals there is nothing to adapt to.
//! *See also*: [`red`] with fixed parameters; [`mered`](crate::mered), which asks it for long flows only.
//!
//! ```
//! use tidegate_core::{ared::{Ared, Params}, *};
//! let ared = Ared::new(Params::for_link(Rate::from_mbit(100)), 1, "uplink")?;
//! // C = 8333 packets/s; 5 ms / 2 of that are 20.8 packets.
//! assert_eq!(ared.thresholds(), (20, 60));
//! # Ok::<(), ParamError>(())
//! ```

use crate::aqm::{Aqm, Verdict, Verdicts};
use crate::packet::Packet;
use crate::params::ParamError;
use crate::probability::Probability;
use crate::qdisc::Backlog;
use crate::red::{self, EarlyDrop, Level, Red, Signal, Sizing, Spacing, Thresholds, Zone};
use tidegate_units::{Bytes, Instant, Rate, Span};

/// The unit in which a queue is measured.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Unit {
    /// Thresholds in packets.
    #[default]
    Packets,
    /// Thresholds in bytes.
    Bytes,
}

/// Parameters. Only `link` has no default.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Params {
    /// The rate of the link the queue is for.
    pub link: Rate,
    /// The mean size of a packet.
    pub packet: Bytes,
    /// The average queueing delay to aim for.
    pub delay: Span,
    /// The least lower threshold, in mean packets: with less, bursts would be dropped.
    pub least_packets: u32,
    /// How often `max_p` adapts.
    pub interval: Span,
    /// The unit of the queue length.
    pub unit: Unit,
    /// How drops are spread.
    pub spacing: Spacing,
    /// Whether large packets are dropped more often.
    pub sizing: Sizing,
    /// Mark or drop.
    pub signal: Signal,
}

impl Params {
    /// The paper's automatic settings for a link of `link`: 5 ms, 0.5 s, at least 5 packets of 1,500 B, uniform
    /// spacing; marks where it can.
    pub const fn for_link(link: Rate) -> Self {
        Self {
            link,
            packet: Bytes::new(1_500),
            delay: Span::from_millis(5),
            least_packets: 5,
            interval: Span::from_millis(500),
            unit: Unit::Packets,
            spacing: Spacing::Uniform,
            sizing: Sizing::PerPacket,
            signal: Signal::Mark,
        }
    }

    /// RED's parameters that follow from these.
    ///
    /// # Errors
    /// A link of rate zero, a packet of no bytes, an interval of no time, thresholds beyond 2^30.
    #[expect(clippy::float_arithmetic, reason = "for configuration time")]
    pub fn red(&self) -> Result<red::Params, ParamError> {
        if self.link.is_zero() {
            return Err(ParamError::new("link", "must be above 0, for example 20mbit"));
        }
        if self.packet == Bytes::ZERO {
            return Err(ParamError::new("packet", "must be above 0, for example 1500B"));
        }
        if self.interval.is_zero() {
            return Err(ParamError::new("interval", "must be above 0, for example 500ms"));
        }
        let size = self.packet.as_u64();
        let by_delay = self.link.bytes_in_floor(self.delay).as_u64() / 2;
        let least = u64::from(self.least_packets.max(1));
        let thresholds = match self.unit {
            Unit::Packets => {
                let min = (by_delay / size).max(least);
                Thresholds::Packets { min, max: min * 3 }
            }
            Unit::Bytes => {
                let min = by_delay.max(least * size);
                Thresholds::Bytes { min: Bytes::new(min), max: Bytes::new(min).saturating_mul(3) }
            }
        };
        // 1 - exp(-1/C), where 1/C is the seconds a mean packet takes on the link.
        let packet_time = self.packet.bits() as f64 / self.link.as_bps() as f64;
        let weight = Probability::from_f64(1.0 - libm::exp(-packet_time)).unwrap_or(Probability::ONE);
        let early = EarlyDrop {
            weight: weight.max(Probability::saturating_from_bits(1)),
            spacing: self.spacing,
            sizing: self.sizing,
            signal: self.signal,
            idle_packet: self.link.time_for_ceil(self.packet).unwrap_or(Span::ZERO),
            ..EarlyDrop::RECOMMENDED
        };
        let params = red::Params { early, ..red::Params::new(thresholds) };
        params.validate()?;
        Ok(params)
    }
}

/// How often `max_p` went up and down.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Stats {
    /// How often max_p was raised.
    pub raised: u64,
    /// How often max_p was lowered.
    pub lowered: u64,
}

/// Adaptive RED, as a decider. See the [module](self).
#[derive(Clone, Debug)]
pub struct Ared {
    red: Red,
    interval: Span,
    /// The band into which the average is steered.
    least: Level,
    most: Level,
    adapted: Instant,
    latest: Instant,
    stats: Stats,
}

/// 0.01 and 0.5, between which `max_p` is kept.
const LEAST: u64 = Probability::ONE.bits() / 100;
const MOST: u64 = Probability::ONE.bits() / 2;

impl Ared {
    /// ARED for an empty queue, drawing from the random stream `name` under `seed`.
    ///
    /// # Errors
    /// As [`Params::red`].
    pub fn new(params: Params, seed: u64, name: &str) -> Result<Self, ParamError> {
        Self::around(Red::new(params.red()?, seed, name)?, params.interval)
    }

    /// Adapts the `max_p` of `red`, whose other parameters stay.
    ///
    /// # Errors
    /// An interval of no time.
    pub fn around(red: Red, interval: Span) -> Result<Self, ParamError> {
        if interval.is_zero() {
            return Err(ParamError::new("interval", "must be above 0, for example 500ms"));
        }
        Ok(Self::adapting(red, interval))
    }
    /// [`around`](Self::around) with an interval that is not zero.
    fn adapting(red: Red, interval: Span) -> Self {
        let min = red.params().profile.thresholds.min().whole_part();
        let range = red.params().profile.thresholds.max().whole_part() - min;
        // The middle fifth, in whole packets or bytes times 5, so that nothing is rounded away.
        Self {
            least: Level::from_ratio(min * 5 + range * 2, 5),
            most: Level::from_ratio(min * 5 + range * 3, 5),
            red,
            interval,
            adapted: Instant::ZERO,
            latest: Instant::ZERO,
            stats: Stats::default(),
        }
    }
    /// Returns the RED whose max_p is adapted.
    pub fn red(&self) -> &Red {
        &self.red
    }
    /// The changes of `max_p` so far.
    pub fn stats(&self) -> &Stats {
        &self.stats
    }
    /// The verdicts so far.
    pub fn verdicts(&self) -> &Verdicts {
        self.red.verdicts()
    }
    /// The band the average is steered into.
    pub fn target(&self) -> (Level, Level) {
        (self.least, self.most)
    }
    /// Both thresholds in whole packets, or bytes where they are in bytes.
    pub fn thresholds(&self) -> (u64, u64) {
        let thresholds = self.red.params().profile.thresholds;
        (thresholds.min().whole_part(), thresholds.max().whole_part())
    }

    /// Updates the average and, once an interval, `max_p`: the first half of a decision, for callers that scale the
    /// probability before the second, [`Ared::decide`].
    pub fn observe(&mut self, now: Instant, queue: Backlog) -> Zone {
        self.latest = self.latest.max(now);
        self.red.observe(self.latest, queue);
        if self.latest.since(self.adapted) >= self.interval {
            self.adapted = self.latest;
            let average = self.red.average();
            let max_p = self.red.params().profile.max_p.bits();
            if average > self.most && max_p <= MOST {
                let step = LEAST.min(max_p / 4).max(1);
                self.red.set_max_p(Probability::saturating_from_bits(max_p + step));
                self.stats.raised += 1;
            } else if average < self.least && max_p >= LEAST {
                self.red.set_max_p(Probability::saturating_from_bits(max_p / 10 * 9));
                self.stats.lowered += 1;
            }
        }
        self.red.zone_at(queue)
    }
    /// The second half: the verdict on `packet` in `zone`.
    pub fn decide<P: Packet>(&mut self, packet: &P, zone: Zone) -> Verdict {
        self.red.decide(packet, zone)
    }
    /// The queue is not empty.
    pub fn on_busy(&mut self) {
        self.red.on_busy();
    }
    /// The queue became empty.
    pub fn on_empty(&mut self, now: Instant) {
        self.latest = self.latest.max(now);
        self.red.on_empty(self.latest);
    }
}

impl<P: Packet> Aqm<P> for Ared {
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
    fn probability(&self) -> Option<Probability> {
        Some(self.red.base_probability())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::FlowKey;

    struct P;
    impl Packet for P {
        fn size(&self) -> Bytes {
            Bytes::new(1_500)
        }
        fn flow(&self) -> FlowKey {
            FlowKey::default()
        }
    }

    #[test]
    fn sets_itself_from_the_link() {
        // 15 Mbit/s: C = 15e6 / 12000 = 1250 packets/s; 5 ms * 1250 / 2 = 3.1 < 5.
        let params = Params::for_link(Rate::from_mbit(15)).red().unwrap();
        assert_eq!(params.profile.thresholds, Thresholds::Packets { min: 5, max: 15 });
        // 1 - exp(-1/1250) = 0.00079968.
        let weight = params.early.weight.as_f64();
        assert!((weight - 0.000_799_68).abs() < 1e-8, "{weight}");
        // 1 Gbit/s: C = 83,333; 5 ms * 83,333 / 2 = 208.3.
        let params = Params::for_link(Rate::from_mbit(1_000)).red().unwrap();
        assert_eq!(params.profile.thresholds, Thresholds::Packets { min: 208, max: 624 });
        // In bytes at 100 Mbit/s: 62,500 B in 5 ms, half of it 31,250.
        let params = Params { unit: Unit::Bytes, ..Params::for_link(Rate::from_mbit(100)) }.red().unwrap();
        assert_eq!(params.profile.thresholds, Thresholds::Bytes { min: Bytes::new(31_250), max: Bytes::new(93_750) });
    }

    #[test]
    fn max_p_goes_up_by_addition_and_down_by_multiplication() {
        let mut ared = Ared::new(Params::for_link(Rate::from_mbit(15)), 1, "test").unwrap();
        let max_p = |ared: &Ared| ared.red().params().profile.max_p.as_f64();
        // The target of 5 and 15 is 9 to 11.
        assert_eq!((ared.target().0.whole_part(), ared.target().1.whole_part()), (9, 11));
        let queue = |packets| Backlog { packets, bytes: Bytes::new(packets * 1_500) };
        let mut now = Instant::ZERO;
        let mut run = |ared: &mut Ared, packets, seconds| {
            for _ in 0..seconds * 1_000 {
                now += Span::from_millis(1);
                ared.on_arrival(now, &P, queue(packets));
            }
        };
        // Long enough for the average to settle (a time constant is a second), then exactly ten seconds of twenty
        // steps.
        run(&mut ared, 12, 10);
        let before = max_p(&ared);
        run(&mut ared, 12, 10);
        assert!((max_p(&ared) - before - 0.2).abs() < 1e-6, "{before} {}", max_p(&ared));
        run(&mut ared, 12, 60);
        assert!((0.5..0.52).contains(&max_p(&ared)), "the top is 0.5, and one step");
        run(&mut ared, 10, 10);
        let before = max_p(&ared);
        run(&mut ared, 10, 10);
        assert_eq!(max_p(&ared), before, "within the target nothing changes");
        run(&mut ared, 1, 100);
        // 0.9 per half second ends below 0.01 and not below 0.009.
        assert!((0.009..0.01).contains(&max_p(&ared)), "{}", max_p(&ared));
        assert!(ared.stats().raised > 20 && ared.stats().lowered > 30);
    }
}
