//! [`Average`]: the average queue length of RED.

use crate::probability::Probability;
use tidegate_units::wide::{mul_div, mul_high};
use tidegate_units::{Instant, Span};

/// A queue length with 32 bits of fraction, in packets or in bytes as the [`Thresholds`](super::Thresholds) are.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default)]
pub struct Level(pub(super) u64);

impl Level {
    /// `n` whole packets or bytes; at most 2³² - 1.
    pub const fn whole(n: u64) -> Self {
        Self(if n > u32::MAX as u64 { u32::MAX as u64 } else { n } << 32)
    }
    /// `numerator / denominator`, rounded down; the largest level where that is more, or the denominator is zero.
    pub const fn from_ratio(numerator: u64, denominator: u64) -> Self {
        Self(mul_div(numerator, 1 << 32, denominator))
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

/// The exponentially weighted moving average of a queue, with decay over idle time.
#[derive(Clone, Debug)]
pub struct Average {
    weight: Probability,
    idle_packet: Span,
    level: Level,
    /// Since when the queue has been empty, less the idle time that arrivals have counted.
    idle_since: Option<Instant>,
    /// Idle time before that, too short to be counted.
    rest: Span,
    latest: Instant,
}

impl Average {
    /// The average of an empty queue, empty since the clock's epoch.
    pub fn new(weight: Probability, idle_packet: Span) -> Self {
        let latest = Instant::ZERO;
        Self { weight, idle_packet, level: Level(0), idle_since: Some(latest), rest: Span::ZERO, latest }
    }
    /// Returns the average.
    pub fn level(&self) -> Level {
        self.level
    }
    /// Changes the weight.
    pub fn set_weight(&mut self, weight: Probability) {
        self.weight = weight;
    }
    /// Changes the typical transmission time.
    pub fn set_idle_packet(&mut self, span: Span) {
        self.idle_packet = span;
    }
    /// Updates the average for an arrival that found `queue`. Returns the new average.
    pub fn on_arrival(&mut self, now: Instant, queue: Level) -> Level {
        self.latest = self.latest.max(now);
        if queue == Level(0) {
            if let Some(since) = self.idle_since {
                let idle = self.latest.since(since).as_nanos();
                // Without the time of a packet the arrival itself is the sample: an average that nothing lowers would
                // drop for ever.
                let packets: u64 = if self.idle_packet.is_zero() { 1 } else { idle / self.idle_packet.as_nanos() };
                self.level = Level(decay(self.level.0, self.weight, packets));
                self.idle_since = Some(since + self.idle_packet.saturating_mul(packets));
            }
        } else if queue >= self.level {
            self.level = Level(self.level.0 + self.weight.of(queue.0 - self.level.0));
        } else {
            // What is taken off is rounded up: the average is rounded down.
            self.level = Level(self.level.0 - self.weight.of_ceil(self.level.0 - queue.0));
        }
        self.level
    }
    /// The queue holds packets from now on.
    pub fn on_busy(&mut self) {
        if let Some(since) = self.idle_since {
            self.idle_since = None;
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
fn decay(level: u64, weight: Probability, times: u64) -> u64 {
    // The factor in 63 bits of fraction.
    let mut factor = (Probability::ONE.bits() - weight.bits()) << 31;
    let mut level = level;
    let mut times = times;
    for _ in 0..u64::BITS {
        if times == 0 || level == 0 {
            break;
        }
        if times & 1 == 1 {
            level = times_fraction(level, factor);
        }
        factor = times_fraction(factor, factor);
        times >>= 1;
    }
    level
}

/// `level * factor`, whose factor has 63 bits of fraction and is at most one, rounded down.
fn times_fraction(level: u64, factor: u64) -> u64 {
    mul_high(level, factor) << 1 | level.wrapping_mul(factor) >> 63
}
