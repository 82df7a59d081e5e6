//! ProbeBW: the cycle of bandwidth probes and the bounds that it learns ("ProbeBW Algorithm Details", "Updating the Model
//! Upon Packet Loss").

use tidegate_core::{Instant, Span};

use super::{BETA, Bbr, BbrState, LOSS_THRESH};
use crate::tcp::congestion::LostSegment;

/// The shortest wait between probes; up to a second more is drawn (T_bbr).
const LEAST_WAIT: Span = Span::from_secs(2);
/// The most round trips between probes, of which up to one is taken off at random (T_reno_bound).
const MOST_ROUNDS: f64 = 63.0;
/// The exponent of the growth of BBR.inflight_longterm at most.
const MOST_UP_ROUNDS: u32 = 30;

/// BBR.ack_phase.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
enum AckPhase {
    /// ACKS_INIT.
    #[default]
    Init,
    /// ACKS_REFILLING.
    Refilling,
    /// ACKS_PROBE_STARTING.
    Starting,
    /// ACKS_PROBE_FEEDBACK.
    Feedback,
    /// ACKS_PROBE_STOPPING.
    Stopping,
}

/// "ProbeBW State".
#[derive(Clone, Debug, Default)]
pub(super) struct Probing {
    ack_phase: AckPhase,
    /// BBR.is_bw_probe_sample.
    pub is_sampling: bool,
    up_acked: f64,
    /// BBR.probe_up_acked_per_inc; zero while BBR.inflight_longterm does not grow.
    up_acked_per_increment: f64,
    up_rounds: u32,
    /// BBR.rounds_since_probe_up.
    pub rounds_since_up: u64,
    wait: Span,
    cycle_stamp: Instant,
    /// BBR.prev_probe_too_high and BBR.prev_probe_precautionary.
    too_high: bool,
    precautionary: bool,
}

impl Probing {
    /// Ends a probe; acknowledgements of what it sent are still to come.
    pub fn stop(&mut self) {
        self.ack_phase = AckPhase::Stopping;
    }
}

impl Bbr {
    /// StartProbeBW_DOWN, with PickProbeWait.
    pub(super) fn start_down(&mut self, now: Instant) {
        self.reset_congestion_signals();
        self.probing.up_acked_per_increment = 0.0;
        self.probing.rounds_since_up = self.random.below(2);
        self.probing.wait = LEAST_WAIT + Span::from_nanos(self.random.below(1_000_000_000));
        self.probing.cycle_stamp = now;
        self.probing.stop();
        self.start_round();
        self.state = BbrState::Down;
    }
    fn start_refill(&mut self) {
        self.reset_short_term_model();
        self.probing.up_rounds = 0;
        self.probing.up_acked = 0.0;
        self.probing.precautionary = false;
        self.probing.ack_phase = AckPhase::Refilling;
        self.start_round();
        self.state = BbrState::Refill;
    }
    fn start_up(&mut self) {
        self.probing.is_sampling = true;
        self.probing.ack_phase = AckPhase::Starting;
        self.start_round();
        self.reset_full_bw();
        self.full_bw = self.rs.rate;
        self.state = BbrState::Up;
        self.raise_longterm_slope();
    }

    /// UpdateProbeBWCyclePhase.
    pub(super) fn update_probe_bw_cycle_phase(&mut self, now: Instant) {
        if !self.full_bw_reached || self.adapt_longterm_model() {
            return;
        }
        let goes_down = self.state == BbrState::Up && self.is_time_to_go_down();
        match self.state {
            BbrState::Down | BbrState::Cruise if self.is_time_to_probe(now) => self.start_refill(),
            BbrState::Down if self.is_time_to_cruise() => self.state = BbrState::Cruise,
            BbrState::Refill if self.round_start => self.start_up(),
            BbrState::Up if goes_down => {
                self.probing.too_high = false;
                self.start_down(now);
            }
            _ => {}
        }
    }
    /// IsTimeToProbeBW, with IsRenoCoexistenceProbeTime.
    fn is_time_to_probe(&self, now: Instant) -> bool {
        let elapsed = now > self.probing.cycle_stamp + self.probing.wait;
        let rounds = (self.target_inflight() / self.mss).min(MOST_ROUNDS);
        elapsed || self.probing.rounds_since_up as f64 >= rounds
    }
    /// IsTimeToCruise.
    fn is_time_to_cruise(&self) -> bool {
        self.in_flight <= self.inflight_with_headroom() && self.in_flight <= self.inflight(self.max_bw, 1.0)
    }
    /// IsTimeToGoDown.
    fn is_time_to_go_down(&mut self) -> bool {
        if self.probing.too_high && self.in_flight >= self.inflight_longterm {
            self.probing.precautionary = true;
            return true;
        }
        if self.cwnd_limited && self.cwnd >= self.inflight_longterm {
            self.reset_full_bw();
            self.full_bw = self.rs.rate;
            return false;
        }
        self.full_bw_now
    }
    /// RaiseInflightLongtermSlope.
    fn raise_longterm_slope(&mut self) {
        let growth = f64::from(1_u32 << self.probing.up_rounds);
        self.probing.up_rounds = (self.probing.up_rounds + 1).min(MOST_UP_ROUNDS);
        self.probing.up_acked_per_increment = (self.cwnd / growth).max(self.mss);
    }
    /// ProbeInflightLongtermUpward.
    fn probe_longterm_upward(&mut self) {
        if !self.cwnd_limited || self.cwnd < self.inflight_longterm {
            return;
        }
        self.probing.up_acked += self.rs.newly_acked;
        let each = self.probing.up_acked_per_increment;
        if each > 0.0 && self.probing.up_acked >= each {
            let steps = (self.probing.up_acked / each) as u64 as f64;
            self.probing.up_acked -= steps * each;
            self.inflight_longterm += steps * self.mss;
        }
        if self.round_start {
            self.raise_longterm_slope();
        }
    }
    /// AdaptLongTermModel. Returns whether it has decided a transition.
    fn adapt_longterm_model(&mut self) -> bool {
        if self.probing.ack_phase == AckPhase::Starting && self.round_start {
            self.probing.ack_phase = AckPhase::Feedback;
        }
        if self.probing.ack_phase == AckPhase::Stopping && self.round_start {
            self.probing.is_sampling = false;
            self.probing.ack_phase = AckPhase::Init;
            if self.is_probe_bw() && !self.rs.app_limited {
                self.advance_max_bw_filter();
            }
            if self.is_probe_bw() && self.probing.precautionary && !self.probing.too_high {
                self.start_refill();
                return true;
            }
        }
        if !self.is_inflight_too_high() && self.inflight_longterm.is_finite() {
            self.inflight_longterm = self.inflight_longterm.max(self.rs.tx_in_flight);
            if self.state == BbrState::Up {
                self.probe_longterm_upward();
            }
        }
        false
    }
    /// AdvanceMaxBwFilter. A cycle without a sample leaves the filter as it is.
    fn advance_max_bw_filter(&mut self) {
        if self.max_bw_filter[1] > 0.0 {
            self.max_bw_filter = [self.max_bw_filter[1], 0.0];
        }
    }

    /// IsInflightTooHigh.
    fn is_inflight_too_high(&self) -> bool {
        self.rs.lost > self.rs.tx_in_flight * LOSS_THRESH
    }
    /// HandleInflightTooHigh.
    pub(super) fn handle_inflight_too_high(&mut self, now: Instant) {
        self.probing.too_high = true;
        self.probing.is_sampling = false;
        if !self.rs.app_limited {
            self.inflight_longterm = self.rs.tx_in_flight.max(self.target_inflight() * BETA);
        }
        if self.state == BbrState::Up {
            self.start_down(now);
        }
    }
    /// NoteLoss.
    pub(super) fn note_loss(&mut self) {
        if !self.is_loss_in_round {
            self.loss_round_delivered = self.delivered;
        }
        self.is_loss_in_round = true;
    }
    /// The part of HandleLostPacket for segments sent while probing, with InflightAtLoss.
    pub(super) fn on_lost_while_probing(&mut self, now: Instant, lost: &LostSegment) {
        if !self.probing.is_sampling {
            return;
        }
        self.rs.tx_in_flight = lost.tx_in_flight as f64;
        self.rs.lost = lost.lost as f64;
        self.rs.app_limited = lost.app_limited;
        if self.is_inflight_too_high() {
            let size = lost.size as f64;
            let (inflight_before, lost_before) = (self.rs.tx_in_flight - size, self.rs.lost - size);
            let prefix = (LOSS_THRESH * inflight_before - lost_before) / (1.0 - LOSS_THRESH);
            self.rs.tx_in_flight = inflight_before + prefix;
            self.handle_inflight_too_high(now);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MSS: u64 = 1_000;

    /// A flow in ProbeBW_UP with a window of 200 segments over a path of 1 MB/s and 100 ms.
    fn probing_up() -> Bbr {
        let mut bbr = Bbr::new(MSS, 10 * MSS, 1);
        bbr.full_bw_reached = true;
        bbr.min_rtt.min = Some(Span::from_millis(100));
        (bbr.max_bw, bbr.bw, bbr.cwnd) = (1e6, 1e6, 200_000.0);
        bbr.start_up();
        bbr
    }

    fn lost(tx_in_flight: u64, lost: u64) -> LostSegment {
        LostSegment { start: 0, size: MSS, tx_in_flight, lost, app_limited: false }
    }

    #[test]
    fn inflight_at_loss_is_where_losses_cross_the_threshold() {
        // Of 150 segments in flight, 3 are lost: 2 % exactly, which is not too much.
        let mut bbr = probing_up();
        bbr.on_lost_while_probing(Instant::ZERO, &lost(150_000, 3_000));
        assert_eq!((bbr.state, bbr.inflight_longterm), (BbrState::Up, f64::INFINITY));
        // The fourth is too much: with x of it, (3000 + x) / (149000 + x) = 2 %, x = (2980 - 3000) / 0.98 = -20.4.
        bbr.on_lost_while_probing(Instant::ZERO, &lost(150_000, 4_000));
        assert!((bbr.inflight_longterm - (149_000.0 - 20.0 / 0.98)).abs() < 1e-6, "{}", bbr.inflight_longterm);
        // The probe ends, and reacts once.
        assert_eq!(bbr.state, BbrState::Down);
        let bound = bbr.inflight_longterm;
        bbr.on_lost_while_probing(Instant::ZERO, &lost(90_000, 50_000));
        assert_eq!(bbr.inflight_longterm, bound);
        // Not below 0.7 of the target, so that it gives way no more than CUBIC.
        let mut bbr = probing_up();
        bbr.on_lost_while_probing(Instant::ZERO, &lost(50_000, 5_000));
        assert_eq!(bbr.inflight_longterm, 0.7 * 100_000.0);
    }

    #[test]
    fn the_longterm_bound_grows_by_1_2_4_and_8_segments_a_round() {
        let mut bbr = probing_up();
        bbr.inflight_longterm = 200_000.0;
        bbr.cwnd_limited = true;
        let mut growth = Vec::new();
        for _ in 0..4 {
            let before = bbr.inflight_longterm;
            for part in 0..200 {
                bbr.rs.newly_acked = 1_000.0;
                bbr.round_start = part == 199;
                bbr.probe_longterm_upward();
                bbr.cwnd = bbr.inflight_longterm.max(bbr.cwnd);
            }
            growth.push((bbr.inflight_longterm - before) / 1_000.0);
        }
        // A window of data is a little more than the 200 segments of each round, since it grows.
        for (grown, expected) in growth.iter().zip([1.0, 2.0, 4.0, 8.0]) {
            assert!((grown - expected).abs() <= 1.0, "{growth:?}");
        }
    }

    #[test]
    fn the_wait_between_probes_is_two_to_three_seconds_or_63_rounds() {
        let mut waits = Vec::new();
        for seed in 0..50 {
            let mut bbr = Bbr::new(MSS, 10 * MSS, seed);
            bbr.min_rtt.min = Some(Span::from_millis(100));
            (bbr.max_bw, bbr.bw, bbr.cwnd) = (1e6, 1e6, 200_000.0);
            bbr.start_down(Instant::ZERO);
            assert!(bbr.probing.rounds_since_up <= 1);
            let wait = bbr.probing.wait;
            assert!(wait >= Span::from_secs(2) && wait < Span::from_secs(3), "{wait:?}");
            assert!(!bbr.is_time_to_probe(Instant::ZERO + wait));
            assert!(bbr.is_time_to_probe(Instant::ZERO + wait + Span::from_nanos(1)));
            // The target is 100 segments: 63 rounds at most (T_reno).
            bbr.probing.rounds_since_up = 62;
            assert!(!bbr.is_time_to_probe(Instant::ZERO));
            bbr.probing.rounds_since_up = 63;
            assert!(bbr.is_time_to_probe(Instant::ZERO));
            waits.push(wait);
        }
        waits.sort();
        waits.dedup();
        assert_eq!(waits.len(), 50, "each seed draws its own");
    }

    #[test]
    fn headroom_is_fifteen_percent_of_the_bound() {
        let mut bbr = probing_up();
        assert_eq!(bbr.inflight_with_headroom(), f64::INFINITY);
        bbr.inflight_longterm = 100_000.0;
        assert_eq!(bbr.inflight_with_headroom(), 85_000.0);
        bbr.inflight_longterm = 4_500.0;
        assert_eq!(bbr.inflight_with_headroom(), 4_000.0, "BBR.MinPipeCwnd");
    }
}
