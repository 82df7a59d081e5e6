//! [`Profile`] and its [`Curve`]: the base probability as a function of the average.

use alloc::format;

use super::Level;
use crate::params::ParamError;
use crate::probability::Probability;
use crate::qdisc::Backlog;
use tidegate_units::Bytes;
use tidegate_units::wide::{mul_div, mul_high};

/// The thresholds between which the drop probability rises, and their unit.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Thresholds {
    /// Thresholds in packets.
    Packets {
        /// Nothing is dropped while the average is below.
        min: u64,
        /// The base probability reaches `max_p` here.
        max: u64,
    },
    /// Thresholds in bytes.
    Bytes {
        /// Nothing is dropped while the average is below.
        min: Bytes,
        /// The base probability reaches `max_p` here.
        max: Bytes,
    },
}

impl Thresholds {
    /// `min` as a level.
    pub const fn min(self) -> Level {
        match self {
            Self::Packets { min, .. } => Level::whole(min),
            Self::Bytes { min, .. } => Level::whole(min.as_u64()),
        }
    }
    /// `max` as a level.
    pub const fn max(self) -> Level {
        match self {
            Self::Packets { max, .. } => Level::whole(max),
            Self::Bytes { max, .. } => Level::whole(max.as_u64()),
        }
    }
    /// `queue` in the unit of these thresholds.
    pub const fn measure(self, queue: Backlog) -> Level {
        match self {
            Self::Packets { .. } => Level::whole(queue.packets),
            Self::Bytes { .. } => Level::whole(queue.bytes.as_u64()),
        }
    }
    /// Checks the thresholds.
    ///
    /// # Errors
    /// Names `max_th` when it does not exceed `min_th` or does not fit 31 bits.
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

/// The curve of a queue, or of one drop precedence.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Profile {
    /// The thresholds between which the drop probability rises.
    pub thresholds: Thresholds,
    /// The base probability at the upper threshold.
    pub max_p: Probability,
}

impl Profile {
    /// Checks the parameters.
    ///
    /// # Errors
    /// Names `max_th` or `max_p`.
    pub fn validate(&self) -> Result<(), ParamError> {
        self.thresholds.validate()?;
        check_fraction("max_p", self.max_p)
    }
}

/// Checks that a probability is not zero.
pub(crate) fn check_fraction(field: &'static str, value: Probability) -> Result<(), ParamError> {
    if value == Probability::ZERO {
        return Err(ParamError::new(field, "must be more than 0 and at most 1 (the least is 2^-32)"));
    }
    Ok(())
}

/// The behaviour above `max`.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum AboveMax {
    /// Everything is dropped.
    Cliff,
    /// ECN-capable packets are marked if drops are signalled by marks, others are dropped. With equal averages and queues
    /// and thresholds next to each other this is the step of DCTCP (RFC 8257).
    Mark,
    /// The base probability rises on to 1 at twice `max`; beyond that everything is dropped.
    #[default]
    Gentle,
}

/// The part of a curve in which an average lies.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Zone {
    /// Below the lower threshold.
    Below,
    /// Between the thresholds; the base probability.
    Chance(Probability),
    /// In the gentle region above the upper threshold; the base probability.
    Gentle(Probability),
    /// Beyond the curve: every packet is dropped.
    Beyond,
}

/// The base probability as a function of the average.
#[derive(Clone, Copy, Debug)]
pub struct Curve {
    min: Level,
    max: Level,
    max_p: Probability,
    above_max: AboveMax,
    /// Probability per unit between the thresholds, with 64 bits of fraction; 0 is one, since a validated `max_p` is above
    /// 0.
    slope: u64,
    /// The slope between max and twice max (gentle RED), below one.
    gentle_slope: u64,
}

impl Curve {
    /// The curve of a validated profile.
    pub fn new(profile: Profile, above_max: AboveMax) -> Self {
        let min = profile.thresholds.min();
        let max = profile.thresholds.max();
        let max_p = profile.max_p;
        let mut curve = Self { min, max, max_p, above_max, slope: 0, gentle_slope: 0 };
        curve.set_max_p(max_p);
        curve
    }
    /// Changes `max_p`. Cost: two divisions.
    pub fn set_max_p(&mut self, max_p: Probability) {
        self.max_p = max_p;
        let range = ((self.max.0 - self.min.0) >> 32).max(1);
        let is_whole = max_p == Probability::ONE && range == 1;
        self.slope = if is_whole { 0 } else { mul_div(max_p.bits(), 1 << 32, range) };
        let rest = Probability::ONE.bits() - max_p.bits();
        self.gentle_slope = mul_div(rest, 1 << 32, (self.max.0 >> 32).max(1));
    }
    /// The base probability at the upper threshold.
    pub fn max_p(&self) -> Probability {
        self.max_p
    }
    /// Returns the thresholds.
    pub fn levels(&self) -> (Level, Level) {
        (self.min, self.max)
    }
    /// The part of the curve in which `average` lies.
    pub fn zone(&self, average: Level) -> Zone {
        if average < self.min {
            return Zone::Below;
        }
        if average < self.max {
            let over = average.0 - self.min.0;
            // Bits of fraction: 32 of the level and 64 of the slope, less 64.
            let p = if self.slope == 0 { over } else { mul_high(over, self.slope) };
            return Zone::Chance(Probability::saturating_from_bits(p));
        }
        let over = average.0 - self.max.0;
        if self.above_max != AboveMax::Gentle || over >= self.max.0 {
            return Zone::Beyond;
        }
        let p = self.max_p.bits() + mul_high(over, self.gentle_slope);
        Zone::Gentle(Probability::saturating_from_bits(p))
    }
}
