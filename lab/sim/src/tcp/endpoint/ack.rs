//! Received segments: the handshake, acknowledgements, loss detection (RFC 9293, 5681, 6582, 6675, 3168).

use tidegate_core::{Instant, Span};

use super::rare::Persist;
use super::{AckPending, DUP_THRESH, Endpoint, Growth, NEVER, Phase, Recovery, State, unwrap};
use crate::tcp::congestion::{Ack, CongestionSignal, Controller, EcnFeedback, LossRecovery};
use crate::tcp::hystart::SlowStart;
use crate::tcp::prr::Prr;
use crate::tcp::segment::{Flags, Segment};

impl Endpoint {
    /// Processes a received segment. Call [`Endpoint::poll`] afterwards until it returns `None`.
    pub fn on_segment(&mut self, now: Instant, segment: &Segment) {
        match self.state {
            State::Closed => return,
            State::Listen => {
                if segment.flags.has(Flags::SYN) {
                    self.on_syn(segment);
                    self.negotiate_timestamps(now, segment);
                    self.negotiate_ecn_of_syn(segment);
                    self.state = State::SynReceived;
                    self.syn_pending = true;
                }
                return;
            }
            State::SynSent => {
                if segment.flags.has(Flags::SYN | Flags::ACK) {
                    self.on_syn(segment);
                    self.negotiate_timestamps(now, segment);
                    self.negotiate_ecn_of_syn_ack(segment);
                    self.on_handshake_acknowledged(now, segment);
                    self.ack_pending = AckPending::Now;
                }
                return;
            }
            State::SynReceived => {
                if segment.flags.has(Flags::SYN) {
                    // The SYN-ACK was lost, and the SYN is retransmitted.
                    self.on_syn_again(segment);
                    self.syn_pending = true;
                    return;
                }
                if !segment.flags.has(Flags::ACK) || self.unwrap_ack(segment) < 1 {
                    return;
                }
                self.on_ack_of_syn_ack(segment);
                self.on_handshake_acknowledged(now, segment);
            }
            _ => {
                if segment.flags.has(Flags::SYN) {
                    // The acknowledgement of the SYN-ACK was lost.
                    self.on_syn_ack_again();
                    return;
                }
            }
        }
        if !self.passes_paws(now, segment) {
            return;
        }
        if segment.flags.has(Flags::ACK) {
            self.on_ack(now, segment);
        }
        if segment.len > 0 || segment.flags.has(Flags::FIN) {
            self.on_data(now, segment);
        }
        self.advance_state();
    }

    pub(super) fn on_syn(&mut self, segment: &Segment) {
        self.peer_isn = segment.seq;
        self.rcv_nxt = 1;
        self.rcv_wnd_edge = 1;
        if segment.mss > 0 && u64::from(segment.mss) < self.mss {
            self.mss = u64::from(segment.mss);
        }
        let initial = u64::from(self.config.initial_window.max(1)) * self.mss;
        self.controller = Controller::new(self.config.algorithm, self.mss, initial, self.extensions.seed);
    }

    pub(super) fn on_handshake_acknowledged(&mut self, now: Instant, segment: &Segment) {
        self.state = State::Established;
        self.established = now;
        self.syn_pending = false;
        self.snd_una = 1;
        self.snd_nxt = 1;
        self.high_data = 1;
        // RFC 6582, section 3.2, step 1: the ISS, so that the first segment can be retransmitted fast.
        self.recover = 0;
        self.high_rxt = 1;
        self.snd_wnd_edge = 1 + u64::from(segment.window);
        self.max_snd_wnd = u64::from(segment.window);
        self.rto_at = NEVER;
        if self.retries > 0 {
            // RFC 5681, 3.1: after a lost SYN the initial window is one segment.
            self.controller.on_idle(self.mss);
        }
        self.retries = 0;
        let sent = core::mem::replace(&mut self.timed_at, NEVER);
        if sent != NEVER {
            self.rtt.sample(now.since(sent));
        } else {
            self.rtt.after_lost_syn();
        }
        self.last_sent = now;
        self.controller.on_established(now, self.rtt.srtt());
        self.controller.on_ecn_feedback(self.feedback);
    }

    pub(super) fn unwrap_ack(&self, segment: &Segment) -> u64 {
        unwrap(self.snd_una, segment.ack.wrapping_sub(self.config.isn))
    }

    pub(super) fn on_ack(&mut self, now: Instant, segment: &Segment) {
        let ack = self.unwrap_ack(segment);
        if self.probe_sent && ack == self.snd_nxt + 1 && ack > self.high_data {
            // The receiver accepted the byte of a window probe.
            self.high_data = ack;
            self.probe_sent = false;
        }
        if ack > self.high_data || ack < self.snd_una {
            return;
        }
        let right = ack + u64::from(segment.window);
        let widened = right > self.snd_wnd_edge;
        self.snd_wnd_edge = self.snd_wnd_edge.max(right);
        self.max_snd_wnd = self.max_snd_wnd.max(u64::from(segment.window));
        if widened && self.extensions.persist.at != NEVER {
            self.extensions.persist = Persist::NONE;
        }

        let flight_size = self.flight_size();
        let duplicate = self.config.d_sack && self.reports_duplicate(segment, ack);
        if duplicate {
            self.counters.duplicates_reported += 1;
        }
        let before = self.snd_una + self.scoreboard.bytes();
        let newly_sacked = if self.config.recovery == Recovery::Sack { self.on_sack(segment) } else { 0 };
        self.record_delivery(now, segment, ack, duplicate);
        self.respond_to_marks(now, segment, ack, ack - self.snd_una + newly_sacked);
        self.check_probe(now, segment, ack, duplicate);
        if ack > self.snd_una {
            let sample = self.timestamp_rtt(now, segment, flight_size);
            self.on_new_ack(now, ack, flight_size, sample);
        } else if self.snd_nxt > self.snd_una && self.is_dup_ack(segment, widened, newly_sacked) {
            self.on_dup_ack(now);
        }
        if self.config.rack() {
            self.detect_by_time(now);
        }
        if matches!(self.phase, Phase::FastRecovery { .. }) {
            let delivered = (self.snd_una + self.scoreboard.bytes()).saturating_sub(before);
            let (pipe, ssthresh) = (self.pipe(), self.controller.ssthresh());
            if let Some(prr) = &mut self.prr {
                prr.on_ack(delivered, pipe, ssthresh, self.mss);
            }
        }
        self.schedule_probe(now);
    }

    /// Reports deliveries to RACK, and the delivery rate to the congestion control.
    fn record_delivery(&mut self, now: Instant, segment: &Segment, ack: u64, duplicate: bool) {
        let Some(transmissions) = &mut self.transmissions else { return };
        if duplicate {
            transmissions.on_dsack(self.snd_una, self.snd_nxt);
        }
        transmissions.on_cumulative(now, ack);
        if self.config.recovery == Recovery::Sack {
            for &(start, end) in segment.sack.as_slice() {
                let at = |wire: u32| unwrap(self.snd_una, wire.wrapping_sub(self.config.isn));
                let (start, end) = (at(start).max(ack), at(end).min(self.high_data));
                if start < end {
                    transmissions.on_sacked(now, start, end);
                }
            }
        }
        if let Some(sample) = transmissions.sample() {
            self.controller.on_sample(now, &sample);
            if self.controller.limits_samples() {
                transmissions.limited_by_application();
            }
        }
    }

    /// Whether an acknowledgement is a duplicate (RFC 5681, section 2, and RFC 6675, section 2).
    pub(super) fn is_dup_ack(&self, segment: &Segment, widened: bool, newly_sacked: u64) -> bool {
        if self.config.recovery == Recovery::Sack {
            newly_sacked > 0
        } else {
            segment.len == 0 && !segment.flags.has(Flags::FIN) && !widened
        }
    }

    /// Updates the scoreboard. Returns how many bytes are SACKed for the first time.
    pub(super) fn on_sack(&mut self, segment: &Segment) -> u64 {
        let mut newly_sacked = 0;
        for &(start, end) in segment.sack.as_slice() {
            let start = unwrap(self.snd_una, start.wrapping_sub(self.config.isn)).max(self.snd_una);
            let end = unwrap(self.snd_una, end.wrapping_sub(self.config.isn)).min(self.high_data);
            if start < end {
                newly_sacked += self.scoreboard.insert(start, end).0;
            }
        }
        newly_sacked
    }

    pub(super) fn on_new_ack(&mut self, now: Instant, ack: u64, flight_size: u64, sample: Option<(Span, u64)>) {
        let acked = ack - self.snd_una;
        self.snd_una = ack;
        self.snd_nxt = self.snd_nxt.max(ack);
        self.high_rxt = self.high_rxt.max(ack);
        if !self.scoreboard.is_empty() {
            self.scoreboard.trim(ack);
        }
        self.retries = 0;
        if self.extensions.persist.backoff != 0 {
            self.extensions.persist.backoff = 0;
        }
        let rtt = self.take_rtt_sample(now, ack, sample);
        let (recovery, restart_timer) = self.advance_recovery(now, ack, acked);
        let samples_each = self.config.rack() || self.hystart.is_some();
        let rtt = rtt.or_else(|| self.transmissions.as_ref().filter(|_| samples_each)?.rtt());
        let mut ack = Ack {
            now,
            acked: match self.config.growth {
                Growth::Bytes => acked,
                Growth::Acks => acked.min(self.mss),
            },
            flight_size,
            cwnd_limited: self.cwnd_limited || self.pacing_limited,
            rtt,
            srtt: self.rtt.srtt(),
            delivered: self.snd_una + self.scoreboard.bytes(),
            recovery,
            una: self.snd_una,
            nxt: self.snd_nxt,
            ecn: self.extensions.ecn.counts,
        };
        self.apply_hystart(&mut ack);
        self.controller.on_ack(&ack);
        // RFC 6298, 5.2 and 5.3.
        if self.snd_una == self.high_data {
            self.rto_at = NEVER;
        } else if restart_timer {
            self.rto_at = now + self.rto();
        }
        // An acknowledgement that advances SND.UNA may also bring the SACK block that shows a loss.
        if self.phase == Phase::Open
            && !self.config.rack()
            && !self.scoreboard.is_empty()
            && self.is_lost_edge() > self.snd_una
        {
            self.begin_fast_recovery(now);
        }
    }

    /// Updates the RTT estimator with the sample of an acknowledgement of new data, and returns the sample.
    fn take_rtt_sample(&mut self, now: Instant, ack: u64, sample: Option<(Span, u64)>) -> Option<Span> {
        let (sample, samples) = match sample {
            Some(sample) => sample,
            None if self.timed_at != NEVER && ack >= self.timed_end => (now.since(self.timed_at), 1),
            // Karn's algorithm (RFC 6298, section 3): the RTO stays backed off until the next sample.
            None => return None,
        };
        self.rtt.sample_of(sample, samples);
        self.timed_at = NEVER;
        Some(sample)
    }

    /// Advances loss recovery on an acknowledgement of new data. Returns the recovery that was in progress before it,
    /// and whether the retransmission timer restarts.
    fn advance_recovery(&mut self, now: Instant, ack: u64, acked: u64) -> (LossRecovery, bool) {
        match self.phase {
            Phase::Open => {
                self.dup_acks = 0;
                (LossRecovery::None, true)
            }
            Phase::RtoRecovery { recovery_point } => {
                if ack >= recovery_point {
                    self.phase = Phase::Open;
                    self.controller.on_recovery_end();
                }
                self.dup_acks = 0;
                (LossRecovery::Timeout, true)
            }
            Phase::FastRecovery { recovery_point, .. } => {
                let mut restart_timer = true;
                if ack >= recovery_point || self.config.recovery == Recovery::Reno {
                    self.end_fast_recovery(now);
                } else if self.config.recovery == Recovery::NewReno {
                    // RFC 6582, 3.2, step 3: a partial acknowledgement; the Impatient variant of the timer.
                    self.retransmit_pending = true;
                    self.cwnd_inflation -= acked as i64;
                    if acked >= self.mss {
                        self.cwnd_inflation += self.mss as i64;
                    }
                    restart_timer = std::mem::take(&mut self.first_partial_ack);
                }
                (LossRecovery::Fast, restart_timer)
            }
        }
    }

    /// Lets HyStart++ adjust how much the acknowledgement counts in the first slow start.
    fn apply_hystart(&mut self, ack: &mut Ack) {
        let Some(hystart) = &mut self.hystart else { return };
        if self.controller.ssthresh() < u64::MAX {
            self.end_hystart();
            return;
        }
        match hystart.on_ack(ack, self.mss) {
            SlowStart::Grow(bytes) => ack.acked = bytes,
            SlowStart::Exit => {
                self.controller.exit_slow_start();
                self.end_hystart();
            }
        }
    }

    fn end_hystart(&mut self) {
        self.hystart = None;
        if !self.config.keeps_transmissions() {
            self.transmissions = None;
        }
    }

    pub(super) fn on_dup_ack(&mut self, now: Instant) {
        match self.phase {
            Phase::RtoRecovery { .. } => {}
            Phase::FastRecovery { .. } => {
                if self.config.recovery != Recovery::Sack {
                    self.cwnd_inflation += self.mss as i64;
                }
            }
            Phase::Open => {
                self.dup_acks += 1;
                if self.config.rack() {
                    return;
                }
                let sack = self.config.recovery == Recovery::Sack;
                // RFC 6582, 3.2, step 2; RFC 6675, section 5, (1) and (2).
                let covers_recover = sack || self.config.recovery == Recovery::Reno || self.snd_una > self.recover;
                let lost = self.dup_acks >= DUP_THRESH || sack && self.is_lost_edge() > self.snd_una;
                if lost && covers_recover {
                    self.begin_fast_recovery(now);
                }
            }
        }
    }

    /// RecoverFS of RFC 6937: bytes outstanding before the losses were detected.
    fn pipe_or_flight(&self) -> u64 {
        self.flight_size() - self.scoreboard.bytes().min(self.flight_size())
    }

    pub(super) fn begin_fast_recovery(&mut self, now: Instant) {
        self.counters.recoveries += 1;
        let outstanding = self.pipe_or_flight();
        // RFC 3168, 6.1.2: a loss in a window for which ECN has reduced cwnd does not reduce it again.
        let heeds_ecn = self.feedback != EcnFeedback::None;
        if !heeds_ecn || self.controller.is_scalable() || self.snd_una >= self.extensions.ecn.recovery_point {
            self.controller.on_congestion(now, self.flight_within_cwnd(), CongestionSignal::Loss);
        }
        // The segment for which the duplicate acknowledgements were sent is lost (RFC 6675, section 5, (4.3)).
        let lost = self.snd_una + self.mss;
        self.phase = Phase::FastRecovery { recovery_point: self.high_data, lost };
        self.recover = self.high_data;
        // An ECN-Echo in the same window does not reduce cwnd again.
        if heeds_ecn {
            self.extensions.ecn.recovery_point = self.high_data;
        }
        self.cwr_pending = self.feedback == EcnFeedback::Classic;
        let prr = self.config.prr && !self.controller.is_model_based();
        self.prr = prr.then(|| Box::new(Prr::new(outstanding, self.mss)));
        self.retransmit_pending = true;
        self.cancel_probe();
        self.first_partial_ack = true;
        self.rescue_rxt = lost;
        self.timed_at = NEVER;
        self.high_rxt = self.snd_una;
        if self.config.recovery != Recovery::Sack {
            self.cwnd_inflation = i64::from(DUP_THRESH) * self.mss as i64;
        }
    }

    pub(super) fn end_fast_recovery(&mut self, now: Instant) {
        self.phase = Phase::Open;
        self.dup_acks = 0;
        self.cwnd_inflation = 0;
        self.retransmit_pending = false;
        self.prr = None;
        if let Some(transmissions) = &mut self.transmissions {
            transmissions.on_recovered();
        }
        self.controller.on_recovery_end();
        if self.config.recovery == Recovery::NewReno {
            self.controller.on_recovered(now, self.flight_size());
        }
    }
}
