//! [`Average`]: the average queue length of RED.

use crate::probability::Probability;
use tidegate_units::{Instant, Span};

/// A queue length with 32 bits of fraction, in packets or in bytes as the [`Thresholds`](super::Thresholds) are.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default)]
pub struct Level(pub(super) u64);

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
        let (level, rest) = (Level(0), Span::ZERO);
        Self { weight, idle_packet, level, idle_since: Some(Instant::ZERO), rest, latest: Instant::ZERO }
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
    /// The queue holds packets from now on.
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
