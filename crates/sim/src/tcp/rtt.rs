//! The round-trip time and the retransmission timeout.
//!
//! *Source*: RFC 6298, sections 2 and 5; Karn's algorithm by the caller, which never offers a sample of a segment
//! that was sent twice.
//! *Units*: nanoseconds; the smoothed values are kept in them, rounded down, an error below 8 ns.

use tidegate_core::Span;

/// Bounds of the retransmission timeout.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct RtoBounds {
    /// Before there is a sample (RFC 6298: 1 s).
    pub initial: Span,
    /// Never shorter (RFC 6298: 1 s; Linux: 200 ms).
    pub least: Span,
    /// Never longer (RFC 6298: at least 60 s).
    pub most: Span,
    /// The granularity G of the sender's clock: the least that the variance adds.
    pub granularity: Span,
}

impl Default for RtoBounds {
    /// The values of RFC 6298, with a clock of 1 ms.
    fn default() -> Self {
        Self {
            initial: Span::from_secs(1),
            least: Span::from_secs(1),
            most: Span::from_secs(60),
            granularity: Span::from_millis(1),
        }
    }
}

/// The estimator of RFC 6298.
#[derive(Clone, Debug)]
pub struct RttEstimator {
    bounds: RtoBounds,
    smoothed: Option<u64>,
    variance: u64,
    least: u64,
    backoff: u32,
}

impl RttEstimator {
    /// Without a sample.
    pub fn new(bounds: RtoBounds) -> Self {
        Self { bounds, smoothed: None, variance: 0, least: u64::MAX, backoff: 0 }
    }
    /// Takes a sample (2.2, 2.3), and ends the backoff.
    pub fn sample(&mut self, rtt: Span) {
        let rtt = rtt.as_nanos();
        self.least = self.least.min(rtt);
        match self.smoothed {
            None => {
                self.smoothed = Some(rtt);
                self.variance = rtt / 2;
            }
            Some(smoothed) => {
                // RTTVAR first, with the old SRTT: beta 1/4, alpha 1/8.
                self.variance = self.variance - self.variance / 4 + smoothed.abs_diff(rtt) / 4;
                self.smoothed = Some(smoothed - smoothed / 8 + rtt / 8);
            }
        }
        self.backoff = 0;
    }
    /// Doubles the timeout (5.5).
    pub fn back_off(&mut self) {
        self.backoff = (self.backoff + 1).min(32);
    }
    /// New data was acknowledged: the path works again. RFC 6298 leaves the backed-off value until there is a
    /// sample; ending it here is what hosts do, and what keeps a lossy path from creeping.
    pub fn end_backoff(&mut self) {
        self.backoff = 0;
    }
    /// The timeout now.
    pub fn timeout(&self) -> Span {
        let base = match self.smoothed {
            None => self.bounds.initial,
            Some(smoothed) => {
                let margin = self.bounds.granularity.as_nanos().max(4 * self.variance);
                Span::from_nanos(smoothed + margin).max(self.bounds.least)
            }
        };
        base.saturating_mul(1 << self.backoff).min(self.bounds.most)
    }
    /// The smoothed round-trip time.
    pub fn smoothed(&self) -> Option<Span> {
        self.smoothed.map(Span::from_nanos)
    }
    /// The shortest sample.
    pub fn least(&self) -> Option<Span> {
        (self.least != u64::MAX).then(|| Span::from_nanos(self.least))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_worked_numbers_of_rfc_6298() {
        let ms = Span::from_millis;
        let mut rtt = RttEstimator::new(RtoBounds { least: Span::ZERO, ..RtoBounds::default() });
        assert_eq!(rtt.timeout(), ms(1000), "2.1");
        // 2.2: SRTT = 100, RTTVAR = 50, RTO = 100 + 4 * 50.
        rtt.sample(ms(100));
        assert_eq!((rtt.smoothed(), rtt.timeout()), (Some(ms(100)), ms(300)));
        // 2.3: RTTVAR = 3/4 * 50 + 1/4 * |100 - 180| = 57.5; SRTT = 7/8 * 100 + 1/8 * 180 = 110; RTO = 110 + 230.
        rtt.sample(ms(180));
        assert_eq!((rtt.smoothed(), rtt.timeout()), (Some(ms(110)), ms(340)));
        // 5.5: doubled, and again; a sample ends it.
        rtt.back_off();
        rtt.back_off();
        assert_eq!(rtt.timeout(), ms(1360));
        for _ in 0..200 {
            rtt.sample(ms(110));
        }
        // The variance is gone, so G is all the margin.
        assert!(rtt.timeout() <= ms(112) && rtt.timeout() >= ms(111), "{:?}", rtt.timeout());
        for _ in 0..40 {
            rtt.back_off();
        }
        assert_eq!(rtt.timeout(), Span::from_secs(60), "5.5 with the upper bound of 2.5");
        assert_eq!(RttEstimator::new(RtoBounds::default()).timeout(), Span::from_secs(1));
        let mut floor = RttEstimator::new(RtoBounds::default());
        floor.sample(ms(10));
        assert_eq!(floor.timeout(), Span::from_secs(1), "2.4: not below a second");
    }
}
