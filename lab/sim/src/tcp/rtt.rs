//! The round-trip time and the retransmission timeout.
//!
//! *Source*: RFC 6298, sections 2 and 5. The caller implements one half of Karn's algorithm (section 3): it never
//! samples a segment that was retransmitted. The other half is here: the RTO stays backed off until the next sample.
//! *Units*: nanoseconds. SRTT and RTTVAR are rounded down; the error is below 8 ns.

use tidegate_core::Span;

/// The RTO after a handshake without an RTT sample (RFC 6298, 5.7).
const AFTER_LOST_SYN: Span = Span::from_secs(3);

/// Parameters of the retransmission timeout (RTO).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct RtoBounds {
    /// The RTO before the first sample (RFC 6298, 2.1: 1 s).
    pub initial: Span,
    /// The least RTO (RFC 6298, 2.4: 1 s; Linux: 200 ms).
    pub min: Span,
    /// The largest RTO (RFC 6298, 2.5: at least 60 s).
    pub max: Span,
    /// The granularity G of the sender's clock, below which the RTTVAR term does not fall. That of Linux falls no lower than its least RTO.
    pub granularity: Span,
}

impl Default for RtoBounds {
    /// The values of RFC 6298, with G = 1 ms.
    fn default() -> Self {
        Self {
            initial: Span::from_secs(1),
            min: Span::from_secs(1),
            max: Span::from_secs(60),
            granularity: Span::from_millis(1),
        }
    }
}

/// The estimator of RFC 6298.
#[derive(Clone, Debug)]
pub struct RttEstimator {
    /// SRTT, or `u64::MAX` before the first sample, like `min_rtt`. An `Option` would be larger, and there are many
    /// connections.
    srtt: u64,
    /// RTTVAR. Before the first sample, a lower bound of the RTO.
    rttvar: u64,
    min_rtt: u64,
    backoff: u32,
}

impl Default for RttEstimator {
    fn default() -> Self {
        Self::new()
    }
}

impl RttEstimator {
    /// An estimator without a sample.
    pub fn new() -> Self {
        Self { srtt: u64::MAX, rttvar: 0, min_rtt: u64::MAX, backoff: 0 }
    }
    /// Updates SRTT and RTTVAR with a sample (2.2, 2.3) and ends the backoff.
    pub fn sample(&mut self, rtt: Span) {
        self.sample_of(rtt, 1);
    }
    /// Like [`Self::sample`], for one of `samples` in a round trip, which together weigh as much as one (RFC 7323,
    /// appendix G).
    pub fn sample_of(&mut self, rtt: Span, samples: u64) {
        let rtt = rtt.as_nanos();
        let (beta, alpha) = (4 * samples.max(1), 8 * samples.max(1));
        self.min_rtt = self.min_rtt.min(rtt);
        match self.srtt {
            u64::MAX => {
                self.srtt = rtt;
                self.rttvar = rtt / 2;
            }
            srtt => {
                // RTTVAR is computed with the old SRTT. beta = 1/4, alpha = 1/8.
                self.rttvar = self.rttvar - self.rttvar / beta + srtt.abs_diff(rtt) / beta;
                self.srtt = srtt - srtt / alpha + rtt / alpha;
            }
        }
        self.backoff = 0;
    }
    /// Doubles the RTO (5.5).
    pub fn back_off(&mut self) {
        self.backoff = (self.backoff + 1).min(32);
    }
    /// Makes the RTO at least 3 s when data transmission begins after a handshake in which a SYN was retransmitted (5.7).
    pub fn after_lost_syn(&mut self) {
        (self.rttvar, self.backoff) = (AFTER_LOST_SYN.as_nanos(), 0);
    }
    /// The RTO within `bounds`, including the backoff.
    pub fn rto(&self, bounds: &RtoBounds) -> Span {
        let base = match self.srtt {
            u64::MAX => bounds.initial.max(Span::from_nanos(self.rttvar)),
            srtt => {
                let margin = bounds.granularity.as_nanos().max(4 * self.rttvar);
                Span::from_nanos(srtt + margin).max(bounds.min)
            }
        };
        base.saturating_mul(1 << self.backoff).min(bounds.max)
    }
    /// SRTT, or `None` before the first sample.
    pub fn srtt(&self) -> Option<Span> {
        (self.srtt != u64::MAX).then(|| Span::from_nanos(self.srtt))
    }
    /// The smallest sample.
    pub fn min_rtt(&self) -> Option<Span> {
        (self.min_rtt != u64::MAX).then(|| Span::from_nanos(self.min_rtt))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_worked_numbers_of_rfc_6298() {
        let ms = Span::from_millis;
        let bounds = RtoBounds { min: Span::ZERO, ..RtoBounds::default() };
        let mut rtt = RttEstimator::new();
        assert_eq!(rtt.rto(&bounds), ms(1000), "2.1");
        // 2.2: SRTT = 100, RTTVAR = 50, RTO = 100 + 4 * 50.
        rtt.sample(ms(100));
        assert_eq!((rtt.srtt(), rtt.rto(&bounds)), (Some(ms(100)), ms(300)));
        // 2.3: RTTVAR = 3/4 * 50 + 1/4 * |100 - 180| = 57.5; SRTT = 7/8 * 100 + 1/8 * 180 = 110; RTO = 110 + 230.
        rtt.sample(ms(180));
        assert_eq!((rtt.srtt(), rtt.rto(&bounds)), (Some(ms(110)), ms(340)));
        // 5.5: doubled twice; a sample ends the backoff.
        rtt.back_off();
        rtt.back_off();
        assert_eq!(rtt.rto(&bounds), ms(1360));
        for _ in 0..200 {
            rtt.sample(ms(110));
        }
        // RTTVAR is 0, so that the margin is G.
        assert!(rtt.rto(&bounds) <= ms(112) && rtt.rto(&bounds) >= ms(111), "{:?}", rtt.rto(&bounds));
        for _ in 0..40 {
            rtt.back_off();
        }
        assert_eq!(rtt.rto(&bounds), Span::from_secs(60), "5.5 with the upper bound of 2.5");
        let rfc = RtoBounds::default();
        assert_eq!(RttEstimator::new().rto(&rfc), Span::from_secs(1));
        let mut floor = RttEstimator::new();
        floor.sample(ms(10));
        assert_eq!(floor.rto(&rfc), Span::from_secs(1), "2.4: at least a second");
    }
}
