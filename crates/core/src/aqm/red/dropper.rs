//! [`Dropper`]: from a base probability to a verdict.

use super::curve::check_fraction;
use super::{AboveMax, Curve, Level, Profile, Zone};
use crate::aqm::{Verdict, Verdicts};
use crate::packet::Packet;
use crate::params::ParamError;
use crate::probability::Probability;
use crate::qdisc::{Backlog, DropReason};
use crate::random::Stream;
use tidegate_units::{Bytes, Span};

/// With fewer queued packets none is dropped or marked.
const LEAST_QUEUE: u64 = 2;

/// How drops are spread among the packets at a constant base probability `p`.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Spacing {
    /// Uniform gaps from 1 to 1/p packets: the drop probability is `p / (1 - count p)`, where `count` packets arrived
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
        /// The mean size of a packet.
        mean: Bytes,
    },
}

impl Sizing {
    /// Checks the mean.
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

/// Whether an early drop of an ECN-capable packet drops or marks it.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Signal {
    /// Drops it like any other.
    #[default]
    Drop,
    /// Marks it instead.
    Mark,
}

/// How an average is made, and how drops follow from it: the parameters that RED, RIO and WRED share.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct EarlyDrop {
    /// The weight of a new sample in an average.
    pub weight: Probability,
    /// The behaviour above the upper threshold.
    pub above_max: AboveMax,
    /// How drops are spread.
    pub spacing: Spacing,
    /// Whether large packets are dropped more often.
    pub sizing: Sizing,
    /// Whether an early drop of an ECN-capable packet drops or marks it.
    pub signal: Signal,
    /// The time a typical packet takes on the link, by which idle time is counted; zero: each arrival at an empty
    /// queue counts for one such time.
    pub idle_packet: Span,
}

impl EarlyDrop {
    /// Weight 0.002 (the RED paper, section 4), gentle, uniform, per packet, dropping. The typical packet takes 1.2 ms:
    /// 1500 B at 10 Mbit/s.
    pub const RECOMMENDED: Self = Self {
        weight: match Probability::from_ratio(2, 1_000) {
            Some(weight) => weight,
            None => Probability::ONE,
        },
        above_max: AboveMax::Gentle,
        spacing: Spacing::Uniform,
        sizing: Sizing::PerPacket,
        signal: Signal::Drop,
        idle_packet: Span::from_micros(1_200),
    };

    /// Checks the parameters.
    ///
    /// # Errors
    /// Names `weight` or `mean`.
    pub fn validate(&self) -> Result<(), ParamError> {
        check_fraction("weight", self.weight)?;
        self.sizing.validate()
    }
}

/// Spreads drops at a base probability, by chance.
#[derive(Clone, Debug)]
pub struct Spacer {
    random: Stream,
    /// Packets since the last drop, or since the average rose above the lower threshold; the paper's `count` + 1.
    since: u64,
}

impl Spacer {
    /// Draws from `random`.
    pub fn new(random: Stream) -> Self {
        Self { random, since: 0 }
    }
    /// Whether the current packet is dropped at base probability `p`. A drop restarts the count.
    pub fn draw(&mut self, spacing: Spacing, p: Probability) -> bool {
        let count = self.since;
        self.since = self.since.saturating_add(1);
        if p == Probability::ZERO {
            return false;
        }
        let draw = self.random.next_u64() >> 32;
        let hit = match spacing {
            Spacing::Geometric => draw < p.bits(),
            Spacing::Uniform => {
                // draw / 2^32 < p / (1 - count p), without the division; nothing is left when count p reaches 1.
                let spent = count.saturating_mul(p.bits());
                let left = Probability::ONE.bits().saturating_sub(spent);
                left == 0 || p == Probability::ONE || draw * left < p.bits() << 32
            }
        };
        if hit {
            self.since = 0;
        }
        hit
    }
    /// Restarts the count: below the lower threshold and beyond the upper one nothing is drawn.
    pub fn restart(&mut self) {
        self.since = 0;
    }
}

/// The curve, the spacing and the verdicts of one queue or one drop precedence.
#[derive(Clone, Debug)]
pub struct Dropper {
    curve: Curve,
    spacer: Spacer,
    verdicts: Verdicts,
}

impl Dropper {
    /// By a validated profile, drawing from `random`.
    pub fn new(profile: Profile, above_max: AboveMax, random: Stream) -> Self {
        Self { curve: Curve::new(profile, above_max), spacer: Spacer::new(random), verdicts: Verdicts::default() }
    }
    /// Changes the profile; the count and the verdicts are kept.
    pub fn set_profile(&mut self, profile: Profile, above_max: AboveMax) {
        self.curve = Curve::new(profile, above_max);
    }
    /// Changes `max_p` alone.
    pub fn set_max_p(&mut self, max_p: Probability) {
        self.curve.set_max_p(max_p);
    }
    /// The part of the curve in which `average` lies.
    pub fn zone(&self, average: Level) -> Zone {
        self.curve.zone(average)
    }
    /// Like [`Dropper::zone`], for an arrival that finds `queue`: a short queue counts as one below the lower threshold.
    pub fn zone_at(&self, average: Level, queue: Backlog) -> Zone {
        if queue.packets < LEAST_QUEUE { Zone::Below } else { self.curve.zone(average) }
    }
    /// The verdicts so far.
    pub fn verdicts(&self) -> &Verdicts {
        &self.verdicts
    }
    /// The verdict on `packet` in `zone`, which is counted.
    #[inline]
    pub fn decide<P: Packet>(&mut self, early: &EarlyDrop, zone: Zone, packet: &P) -> Verdict {
        let verdict = self.judge(early, zone, packet.size(), packet.ecn().is_capable());
        self.verdicts.count(verdict)
    }
    /// The verdict on a packet of `size` that is ECN-capable or not, which is not counted.
    fn judge(&mut self, early: &EarlyDrop, zone: Zone, size: Bytes, is_capable: bool) -> Verdict {
        let base = match zone {
            Zone::Below => {
                self.spacer.restart();
                return Verdict::Admit;
            }
            Zone::Beyond => {
                self.spacer.restart();
                if early.above_max == AboveMax::Mark && early.signal == Signal::Mark && is_capable {
                    return Verdict::Mark;
                }
                return Verdict::Drop(DropReason::Forced);
            }
            Zone::Chance(p) => p,
            Zone::Gentle(p) => p,
        };
        let p = match early.sizing {
            Sizing::PerPacket => base,
            Sizing::PerByte { mean } => base.scaled(size.as_u64(), mean.as_u64()),
        };
        if !self.spacer.draw(early.spacing, p) {
            return Verdict::Admit;
        }
        let may_mark = match zone {
            Zone::Chance(_) => early.signal == Signal::Mark,
            _ => false,
        };
        if may_mark && is_capable { Verdict::Mark } else { Verdict::Drop(DropReason::Early) }
    }
}
