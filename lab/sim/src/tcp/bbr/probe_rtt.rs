//! ProbeRTT: the least round-trip time, and when little is sent to measure it ("ProbeRTT Logic").

use tidegate_core::{Instant, Span};

use super::{Bbr, BbrState};

/// BBR.MinRTTFilterLen.
const MIN_RTT_FILTER: Span = Span::from_secs(10);
/// BBR.ProbeRTTInterval.
const PROBE_RTT_INTERVAL: Span = Span::from_secs(5);
/// BBR.ProbeRTTDuration.
const PROBE_RTT_DURATION: Span = Span::from_millis(200);

/// BBR.min_rtt and the schedule of ProbeRTT.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct MinRtt {
    /// BBR.min_rtt and its stamp.
    pub min: Option<Span>,
    pub stamp: Instant,
    /// BBR.probe_rtt_min_delay and its stamp.
    pub probe_min: Option<Span>,
    pub probe_stamp: Instant,
    /// BBR.probe_rtt_expired.
    pub expired: bool,
    /// BBR.probe_rtt_done_stamp and BBR.probe_rtt_round_done.
    pub done_at: Option<Instant>,
    pub round_done: bool,
}

impl Bbr {
    /// UpdateMinRTT.
    pub(super) fn update_min_rtt(&mut self, now: Instant, rtt: Option<Span>) {
        let min_rtt = &mut self.min_rtt;
        min_rtt.expired = now > min_rtt.probe_stamp + PROBE_RTT_INTERVAL;
        if let Some(rtt) = rtt
            && (min_rtt.expired || min_rtt.probe_min.is_none_or(|least| rtt < least))
        {
            (min_rtt.probe_min, min_rtt.probe_stamp) = (Some(rtt), now);
        }
        let old = now > min_rtt.stamp + MIN_RTT_FILTER;
        if let Some(least) = min_rtt.probe_min
            && (old || min_rtt.min.is_none_or(|min| least < min))
        {
            (min_rtt.min, min_rtt.stamp) = (Some(least), min_rtt.probe_stamp);
        }
    }
    /// CheckProbeRTT.
    pub(super) fn check_probe_rtt(&mut self, now: Instant) {
        if self.state != BbrState::ProbeRtt && self.min_rtt.expired && !self.idle_restart {
            self.save_cwnd();
            self.state = BbrState::ProbeRtt;
            self.min_rtt.done_at = None;
            self.probing.stop();
            self.start_round();
        }
        if self.state == BbrState::ProbeRtt {
            self.handle_probe_rtt(now);
        }
        if self.rs.delivered > 0.0 {
            self.idle_restart = false;
        }
    }
    /// HandleProbeRTT.
    fn handle_probe_rtt(&mut self, now: Instant) {
        if self.min_rtt.done_at.is_none() {
            if self.in_flight <= self.probe_rtt_cwnd() {
                self.min_rtt.done_at = Some(now + PROBE_RTT_DURATION);
                self.min_rtt.round_done = false;
                self.start_round();
            }
            return;
        }
        self.min_rtt.round_done |= self.round_start;
        if self.min_rtt.round_done {
            self.check_probe_rtt_done(now);
        }
    }
    /// CheckProbeRTTDone and ExitProbeRTT.
    pub(super) fn check_probe_rtt_done(&mut self, now: Instant) {
        if self.min_rtt.done_at.is_none_or(|at| now <= at) {
            return;
        }
        self.min_rtt.probe_stamp = now;
        self.restore_cwnd();
        self.reset_short_term_model();
        if self.full_bw_reached {
            self.start_down(now);
            self.state = BbrState::Cruise;
        } else {
            self.state = BbrState::Startup;
        }
    }
}
