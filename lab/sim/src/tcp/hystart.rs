//! HyStart++: leaves slow start when the round-trip time rises, before the queue overflows.
//!
//! *Source*: RFC 9406, section 4.2, with its constants (4.3); section numbers are in the code.
//! *Units*: bytes; times in ns.
//! *Notes*: used in the first slow start only, as section 4.3 recommends. It needs eight RTT samples in a round trip,
//! so the send times of all segments are kept until slow start ends.

use tidegate_core::Span;

use super::congestion::Ack;

/// MIN_RTT_THRESH and MAX_RTT_THRESH.
const RTT_THRESH: (u64, u64) = (4_000_000, 16_000_000);
/// MIN_RTT_DIVISOR.
const RTT_DIVISOR: u64 = 8;
/// N_RTT_SAMPLE.
const SAMPLES: u32 = 8;
/// CSS_GROWTH_DIVISOR.
const GROWTH_DIVISOR: u64 = 4;
/// CSS_ROUNDS.
const CSS_ROUNDS: u32 = 5;
/// L, the largest number of segments for which an acknowledgement counts without pacing.
const LIMIT: u64 = 8;

/// The effect of an acknowledgement in slow start.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum SlowStart {
    /// cwnd grows as if this many bytes were acknowledged.
    Grow(u64),
    /// Slow start ends.
    Exit,
}

#[derive(Clone, Debug)]
pub(crate) struct HyStart {
    /// windowEnd.
    window_end: u64,
    last_round: u64,
    this_round: u64,
    samples: u32,
    /// cssBaselineMinRtt and the number of rounds, during conservative slow start.
    conservative: Option<(u64, u32)>,
}

impl Default for HyStart {
    fn default() -> Self {
        Self { window_end: 0, last_round: u64::MAX, this_round: u64::MAX, samples: 0, conservative: None }
    }
}

impl HyStart {
    /// Whether conservative slow start is in progress.
    pub fn is_conservative(&self) -> bool {
        self.conservative.is_some()
    }

    /// Processes an acknowledgement of new data in slow start.
    pub fn on_ack(&mut self, ack: &Ack, mss: u64) -> SlowStart {
        if ack.una > self.window_end {
            // A round begins.
            self.window_end = ack.nxt;
            self.last_round = self.this_round;
            self.this_round = u64::MAX;
            self.samples = 0;
            if let Some((_, rounds)) = &mut self.conservative {
                *rounds += 1;
                if *rounds >= CSS_ROUNDS {
                    return SlowStart::Exit;
                }
            }
        }
        if let Some(rtt) = ack.rtt.map(Span::as_nanos) {
            self.this_round = self.this_round.min(rtt);
            self.samples += 1;
        }
        let measured = self.samples >= SAMPLES && self.this_round < u64::MAX;
        match self.conservative {
            None if measured && self.last_round < u64::MAX => {
                let threshold = (self.last_round / RTT_DIVISOR).clamp(RTT_THRESH.0, RTT_THRESH.1);
                if self.this_round >= self.last_round + threshold {
                    self.conservative = Some((self.this_round, 0));
                }
            }
            // The rise was not caused by a queue.
            Some((baseline, _)) if measured && self.this_round < baseline => self.conservative = None,
            _ => {}
        }
        let bytes = ack.acked.min(LIMIT * mss);
        SlowStart::Grow(if self.is_conservative() { bytes / GROWTH_DIVISOR } else { bytes })
    }
}
