//! Loss detection by time and tail loss probes (RFC 8985, sections 6 and 7).

use tidegate_core::{Instant, Span};

use super::rare::Probe;
use super::{Endpoint, Phase};
use crate::tcp::congestion::CongestionSignal;
use crate::tcp::segment::Segment;

/// WCDelAckT: the longest delay of an acknowledgement of a lone segment (RFC 8985, 7.2).
const WORST_DELAYED_ACK: Span = Span::from_millis(200);

impl Endpoint {
    /// Cancels a probe that is due or was sent.
    pub(super) fn cancel_probe(&mut self) {
        if self.config.rack() {
            self.extensions.tail = Probe::default();
        }
    }

    /// Arms the probe timer after new data was sent or acknowledged (7.2).
    pub(super) fn schedule_probe(&mut self, now: Instant) {
        let idle = self.snd_una == self.high_data;
        if !self.config.rack()
            || idle
            || self.phase != Phase::Open
            || !self.scoreboard.is_empty()
            || self.extensions.tail.sent.is_some()
        {
            if self.extensions.tail.at.is_some() {
                self.extensions.tail.at = None;
            }
            return;
        }
        let mut wait = match self.rtt.srtt() {
            Some(srtt) => srtt.saturating_mul(2),
            None => Span::from_secs(1),
        };
        if self.rtt.srtt().is_some() && self.flight_size() <= self.mss + u64::from(self.high_data > self.written) {
            wait += WORST_DELAYED_ACK;
        }
        let at = now + wait;
        // The probe timer takes the place of the retransmission timer, so it must not be later.
        self.extensions.tail.at = Some(self.rto_at.min(at));
    }

    pub(super) fn on_rack_timer(&mut self, now: Instant) {
        if self.transmissions.as_ref().is_some_and(|sent| sent.reorder_at.is_some_and(|at| at <= now)) {
            self.detect_by_time(now);
        }
        if self.extensions.tail.at.is_some_and(|at| at <= now) {
            self.extensions.tail.at = None;
            self.extensions.tail.pending = true;
            // 7.3: the retransmission timer runs from the probe.
            self.rto_at = now + self.rto();
        }
    }

    /// Marks segments as lost by RACK, and begins recovery if there are any.
    pub(super) fn detect_by_time(&mut self, now: Instant) {
        let in_recovery = self.phase != Phase::Open;
        let srtt = self.rtt.srtt().unwrap_or(Span::MAX);
        let Some(transmissions) = &mut self.transmissions else { return };
        let found = transmissions.detect_losses(now, in_recovery, srtt);
        if found && !in_recovery {
            self.begin_fast_recovery(now);
        }
        if found {
            self.report_losses(now);
        }
    }

    /// Tells a congestion control that models the path which segments are considered lost.
    pub(super) fn report_losses(&mut self, now: Instant) {
        if let Some(transmissions) = &mut self.transmissions {
            for lost in transmissions.take_losses() {
                self.controller.on_lost(now, &lost);
            }
        }
    }

    /// Sends the probe: new data if there is any that the receiver accepts, otherwise the last segment again (7.3).
    pub(super) fn poll_probe(&mut self, now: Instant, limit: u64) -> Option<Segment> {
        let pending = self.extensions.tail.pending;
        if pending {
            self.extensions.tail.pending = false;
        }
        if !pending || self.phase != Phase::Open {
            return None;
        }
        let segment = match self.next_new(now, limit) {
            Some((start, end)) => {
                self.snd_nxt = end;
                self.extensions.tail.sent = Some((end, false));
                self.emit(now, start, end)
            }
            None => {
                let (start, end) = self.transmissions.as_ref()?.last()?;
                self.extensions.tail.sent = Some((self.high_data, true));
                self.emit(now, start, end)
            }
        };
        self.counters.tail_probes += 1;
        self.extensions.tail.at = None;
        Some(segment)
    }

    /// Detects whether a probe has repaired a loss, and reduces cwnd if so (7.4).
    pub(super) fn check_probe(&mut self, now: Instant, segment: &Segment, ack: u64, duplicate: bool) {
        let Some((end, again)) = self.extensions.tail.sent else { return };
        if ack < end {
            return;
        }
        let bare = segment.len == 0 && segment.sack.as_slice().is_empty() && ack == self.snd_una;
        if !again || duplicate {
            self.extensions.tail.sent = None;
        } else if ack > end {
            self.extensions.tail.sent = None;
            self.controller.on_congestion(now, self.flight_within_cwnd(), CongestionSignal::Loss);
        } else if bare {
            self.extensions.tail.sent = None;
        }
    }
}
