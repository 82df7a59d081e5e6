//! BBRv3: sends at the rate and with the data in flight that a model of the path suggests.
//!
//! *Source*: draft-ietf-ccwg-bbr (August 2026); names and steps are those of its pseudocode, and the titles of its
//! sections are in the code. The cycle of bandwidth probes is in `probing.rs`, and
//! ProbeRTT in `probe_rtt.rs`.
//! *Units*: bytes and bytes/s with a fraction; infinity for bounds that are not set.
//! *Notes*: uses double precision with the four operations only, whose results are the same on every platform. The
//! endpoint detects losses by RACK and takes delivery rate samples; a seed decides how long the flow waits between probes.
//! *Departures from the source*: a simulated host sends segment by segment, so the send quantum is one segment. The
//! endpoint never finds that a recovery was spurious, so nothing is undone. The draft leaves the response to ECN open and
//! demands one: a mark counts as a round trip with too much loss, and ends Startup.

mod probe_rtt;
mod probing;

use tidegate_core::random::Stream;
use tidegate_core::{Instant, Rate, Span};

use super::congestion::{Ack, CongestionControl, CongestionSignal, DeliverySample, LostSegment};
use crate::TCP_HEADER;
use probe_rtt::MinRtt;
use probing::Probing;

/// BBR.StartupPacingGain: 4 ln 2.
const STARTUP_PACING_GAIN: f64 = 2.77;
/// BBR.DrainPacingGain.
const DRAIN_PACING_GAIN: f64 = 0.5;
/// BBR.DefaultCwndGain.
const DEFAULT_CWND_GAIN: f64 = 2.0;
/// BBR.ProbeRTTCwndGain.
const PROBE_RTT_CWND_GAIN: f64 = 0.5;
/// The part of the bandwidth that is paced: 1 - BBR.PacingMarginPercent / 100.
const PACING_MARGIN: f64 = 0.99;
/// BBR.LossThresh.
const LOSS_THRESH: f64 = 0.02;
/// BBR.Beta.
const BETA: f64 = 0.7;
/// BBR.Headroom.
const HEADROOM: f64 = 0.15;
/// BBR.MinPipeCwnd, in segments.
const MIN_PIPE_CWND: f64 = 4.0;
/// BBR.ExtraAckedFilterLen, in round trips.
const EXTRA_ACKED_ROUNDS: u64 = 10;
/// BBRStartupFullLossCnt: discontiguous ranges lost in a round trip.
const STARTUP_FULL_LOSS_COUNT: u32 = 6;
/// The RTT before one was measured ("Pacing Rate").
const NOMINAL_RTT: Span = Span::from_millis(1);
/// The headers of a segment, which the endpoint paces as well.
const HEADERS: f64 = TCP_HEADER as f64;

/// The states ("State Transition Diagram").
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum BbrState {
    /// Doubles the rate in each round trip.
    Startup,
    /// Drains the queue that Startup has built.
    Drain,
    /// ProbeBW_DOWN: sends less than the bandwidth, for headroom.
    Down,
    /// ProbeBW_CRUISE: sends at the bandwidth.
    Cruise,
    /// ProbeBW_REFILL: fills the pipe before a probe.
    Refill,
    /// ProbeBW_UP: probes for more bandwidth.
    Up,
    /// Measures the round-trip time with little data in flight.
    ProbeRtt,
}

/// The latest rate sample: RS.
#[derive(Clone, Copy, Debug, Default)]
struct Sample {
    rate: f64,
    delivered: f64,
    newly_acked: f64,
    lost: f64,
    tx_in_flight: f64,
    app_limited: bool,
    prior_delivered: u64,
}

/// BBR.extra_acked.
#[derive(Clone, Copy, Debug)]
struct Aggregation {
    interval_start: Instant,
    delivered: f64,
    /// The largest value in this window of rounds and in the one before, and the round in which this window began.
    windows: [f64; 2],
    began: u64,
}

/// BBRv3. See the [module](self).
#[derive(Clone, Debug)]
pub struct Bbr {
    mss: f64,
    initial: f64,
    cwnd: f64,
    prior_cwnd: f64,
    pacing_rate: f64,
    state: BbrState,
    rs: Sample,
    delivered: u64,
    in_flight: f64,
    cwnd_limited: bool,
    idle_restart: bool,
    /// The round in which the current loss recovery began.
    recovery: Option<u64>,
    // "BBR.round_count: Tracking Packet-Timed Round Trips".
    round_count: u64,
    round_start: bool,
    next_round_delivered: u64,
    drain_start_round: u64,
    // The long-term model. The filter has the previous and the current cycle.
    max_bw_filter: [f64; 2],
    max_bw: f64,
    inflight_longterm: f64,
    // The short-term model.
    bw_shortterm: f64,
    inflight_shortterm: f64,
    bw: f64,
    // "State for Responding to Congestion".
    bw_latest: f64,
    inflight_latest: f64,
    loss_round_delivered: u64,
    loss_round_start: bool,
    is_loss_in_round: bool,
    /// The ranges lost in this round, and the end of the last one.
    lost_ranges: (u32, u64),
    // "Startup Parameters and State".
    full_bw_reached: bool,
    full_bw_now: bool,
    full_bw: f64,
    full_bw_count: u32,
    min_rtt: MinRtt,
    aggregation: Aggregation,
    probing: Probing,
    random: Stream,
}

impl Bbr {
    /// Begins in Startup with a cwnd of `initial` bytes. `seed` decides the times between bandwidth probes.
    pub fn new(mss: u64, initial: u64, seed: u64) -> Self {
        Self {
            mss: mss as f64,
            initial: initial as f64,
            cwnd: initial as f64,
            prior_cwnd: 0.0,
            pacing_rate: STARTUP_PACING_GAIN * initial as f64 / NOMINAL_RTT.as_secs_f64(),
            state: BbrState::Startup,
            rs: Sample::default(),
            delivered: 0,
            in_flight: 0.0,
            cwnd_limited: false,
            idle_restart: false,
            recovery: None,
            round_count: 0,
            round_start: false,
            next_round_delivered: 0,
            drain_start_round: 0,
            max_bw_filter: [0.0; 2],
            max_bw: 0.0,
            inflight_longterm: f64::INFINITY,
            bw_shortterm: f64::INFINITY,
            inflight_shortterm: f64::INFINITY,
            bw: 0.0,
            bw_latest: 0.0,
            inflight_latest: 0.0,
            loss_round_delivered: 0,
            loss_round_start: false,
            is_loss_in_round: false,
            lost_ranges: (0, u64::MAX),
            full_bw_reached: false,
            full_bw_now: false,
            full_bw: 0.0,
            full_bw_count: 0,
            min_rtt: MinRtt::default(),
            aggregation: Aggregation { interval_start: Instant::ZERO, delivered: 0.0, windows: [0.0; 2], began: 0 },
            probing: Probing::default(),
            random: Stream::named(seed, "bbr"),
        }
    }

    /// The state of the machine.
    pub fn state(&self) -> BbrState {
        self.state
    }
    /// BBR.max_bw, the bandwidth of the long-term model in bytes/s.
    pub fn max_bw(&self) -> f64 {
        self.max_bw
    }
    /// BBR.min_rtt.
    pub fn min_rtt(&self) -> Option<Span> {
        self.min_rtt.min
    }
    /// BBR.inflight_longterm in bytes; infinite while no loss has bounded it.
    pub fn inflight_longterm(&self) -> f64 {
        self.inflight_longterm
    }

    /// BBR.pacing_gain ("Summary of Control Behavior in the State Machine").
    fn pacing_gain(&self) -> f64 {
        match self.state {
            BbrState::Startup => STARTUP_PACING_GAIN,
            BbrState::Drain => DRAIN_PACING_GAIN,
            BbrState::Down => 0.9,
            BbrState::Up => 1.25,
            BbrState::Cruise | BbrState::Refill | BbrState::ProbeRtt => 1.0,
        }
    }
    /// BBR.cwnd_gain.
    fn cwnd_gain(&self) -> f64 {
        match self.state {
            BbrState::Up => 2.25,
            BbrState::ProbeRtt => PROBE_RTT_CWND_GAIN,
            _ => DEFAULT_CWND_GAIN,
        }
    }
    fn is_probe_bw(&self) -> bool {
        matches!(self.state, BbrState::Down | BbrState::Cruise | BbrState::Refill | BbrState::Up)
    }
    fn is_probing_bw(&self) -> bool {
        matches!(self.state, BbrState::Startup | BbrState::Refill | BbrState::Up)
    }

    // ------------------------------------------------------------------ volumes

    /// BDPMultiple.
    fn bdp(&self, bw: f64, gain: f64) -> f64 {
        self.min_rtt.min.map_or(self.initial, |rtt| gain * bw * rtt.as_secs_f64())
    }
    fn min_pipe(&self) -> f64 {
        MIN_PIPE_CWND * self.mss
    }
    /// QuantizationBudget. Three send quanta of one segment are less than BBR.MinPipeCwnd.
    fn quantized(&self, inflight: f64) -> f64 {
        let budget = inflight.max(self.min_pipe());
        if self.state == BbrState::Up { budget + 2.0 * self.mss } else { budget }
    }
    /// Inflight(gain) for a bandwidth.
    fn inflight(&self, bw: f64, gain: f64) -> f64 {
        self.quantized(self.bdp(bw, gain))
    }
    /// TargetInflight.
    fn target_inflight(&self) -> f64 {
        self.bdp(self.bw, 1.0).min(self.cwnd)
    }
    /// InflightWithHeadroom.
    fn inflight_with_headroom(&self) -> f64 {
        if self.inflight_longterm.is_infinite() {
            return f64::INFINITY;
        }
        let headroom = self.mss.max(HEADROOM * self.inflight_longterm);
        (self.inflight_longterm - headroom).max(self.min_pipe())
    }
    /// ProbeRTTCwnd.
    fn probe_rtt_cwnd(&self) -> f64 {
        self.bdp(self.bw, PROBE_RTT_CWND_GAIN).max(self.min_pipe())
    }

    // ------------------------------------------------------------------ the model

    fn start_round(&mut self) {
        self.next_round_delivered = self.delivered;
    }
    /// UpdateRound.
    fn update_round(&mut self) {
        self.round_start = self.rs.prior_delivered >= self.next_round_delivered;
        if self.round_start {
            self.start_round();
            self.round_count += 1;
            self.probing.rounds_since_up += 1;
        }
    }
    /// UpdateLatestDeliverySignals.
    fn update_latest_delivery_signals(&mut self) {
        self.loss_round_start = false;
        self.bw_latest = self.bw_latest.max(self.rs.rate);
        self.inflight_latest = self.inflight_latest.max(self.rs.delivered);
        if self.rs.prior_delivered >= self.loss_round_delivered {
            self.loss_round_delivered = self.delivered;
            self.loss_round_start = true;
        }
    }
    /// UpdateCongestionSignals.
    fn update_congestion_signals(&mut self) {
        self.update_round();
        if self.rs.rate > 0.0 && (self.rs.rate >= self.max_bw || !self.rs.app_limited) {
            self.max_bw_filter[1] = self.max_bw_filter[1].max(self.rs.rate);
            self.max_bw = self.max_bw_filter[0].max(self.max_bw_filter[1]);
        }
        if !self.loss_round_start {
            return;
        }
        if self.is_loss_in_round && !self.is_probing_bw() {
            // InitLowerBounds and LossLowerBounds.
            let bw = if self.bw_shortterm.is_infinite() { self.max_bw } else { self.bw_shortterm };
            let inflight = if self.inflight_shortterm.is_infinite() { self.cwnd } else { self.inflight_shortterm };
            self.bw_shortterm = self.bw_latest.max(BETA * bw);
            self.inflight_shortterm = self.inflight_latest.max(BETA * inflight);
        }
        self.is_loss_in_round = false;
    }
    /// AdvanceLatestDeliverySignals.
    fn advance_latest_delivery_signals(&mut self) {
        if self.loss_round_start {
            self.bw_latest = self.rs.rate;
            self.inflight_latest = self.rs.delivered;
        }
    }
    fn reset_congestion_signals(&mut self) {
        self.is_loss_in_round = false;
        self.bw_latest = 0.0;
        self.inflight_latest = 0.0;
    }
    fn reset_short_term_model(&mut self) {
        self.bw_shortterm = f64::INFINITY;
        self.inflight_shortterm = f64::INFINITY;
    }
    /// UpdateACKAggregation.
    fn update_aggregation(&mut self, now: Instant) {
        let aggregation = &mut self.aggregation;
        let mut expected = self.bw * now.since(aggregation.interval_start).as_secs_f64();
        if aggregation.delivered <= expected {
            (aggregation.delivered, aggregation.interval_start) = (0.0, now);
            expected = 0.0;
        }
        aggregation.delivered += self.rs.newly_acked;
        let extra = (aggregation.delivered - expected).min(self.cwnd);
        // A maximum over at least `rounds` round trips, and less than twice as many.
        let rounds = if self.full_bw_reached { EXTRA_ACKED_ROUNDS } else { 1 };
        if self.round_count >= aggregation.began + rounds {
            aggregation.windows = [aggregation.windows[1], 0.0];
            aggregation.began = self.round_count;
        }
        aggregation.windows[1] = aggregation.windows[1].max(extra);
    }
    fn extra_acked(&self) -> f64 {
        self.aggregation.windows[0].max(self.aggregation.windows[1])
    }

    // ------------------------------------------------------------------ Startup and Drain

    fn reset_full_bw(&mut self) {
        (self.full_bw, self.full_bw_count, self.full_bw_now) = (0.0, 0, false);
    }
    /// CheckFullBWReached.
    fn check_full_bw_reached(&mut self) {
        if self.full_bw_now || !self.round_start || self.rs.app_limited {
            return;
        }
        if self.rs.rate >= self.full_bw * 1.25 {
            self.reset_full_bw();
            self.full_bw = self.rs.rate;
            return;
        }
        self.full_bw_count += 1;
        self.full_bw_now = self.full_bw_count >= 3;
        self.full_bw_reached |= self.full_bw_now;
    }
    /// CheckStartupDone, with CheckStartupHighLoss.
    fn check_startup_done(&mut self) {
        if self.loss_round_start {
            let ranges = core::mem::take(&mut self.lost_ranges.0);
            let lasting = self.recovery.is_some_and(|began| self.round_count > began);
            let too_high = self.rs.lost > self.rs.tx_in_flight * LOSS_THRESH;
            if self.state == BbrState::Startup && lasting && too_high && ranges >= STARTUP_FULL_LOSS_COUNT {
                self.leave_startup_by_congestion();
            }
        }
        if self.state == BbrState::Startup && self.full_bw_reached {
            self.state = BbrState::Drain;
            self.drain_start_round = self.round_count;
        }
    }
    fn leave_startup_by_congestion(&mut self) {
        self.full_bw_reached = true;
        self.inflight_longterm = self.bdp(self.bw, 1.0).max(self.inflight_latest);
    }
    /// CheckDrainDone.
    fn check_drain_done(&mut self, now: Instant) {
        let drained = self.in_flight <= self.inflight(self.bw, 1.0) || self.round_count > self.drain_start_round + 3;
        if self.state == BbrState::Drain && drained {
            self.start_down(now);
        }
    }

    // ------------------------------------------------------------------ control parameters

    fn save_cwnd(&mut self) {
        let modulated = self.recovery.is_some() || self.state == BbrState::ProbeRtt;
        self.prior_cwnd = if modulated { self.prior_cwnd.max(self.cwnd) } else { self.cwnd };
    }
    fn restore_cwnd(&mut self) {
        self.cwnd = self.cwnd.max(self.prior_cwnd);
    }
    /// SetPacingRateWithGain.
    fn set_pacing_rate(&mut self, gain: f64) {
        let rate = gain * self.bw * PACING_MARGIN;
        if self.full_bw_reached || rate > self.pacing_rate {
            self.pacing_rate = rate;
        }
    }
    /// SetCwnd, BoundCwndForProbeRTT and BoundCwndForModel.
    fn set_cwnd(&mut self) {
        let max_inflight = self.quantized(self.bdp(self.bw, self.cwnd_gain()) + self.extra_acked());
        if self.full_bw_reached {
            self.cwnd = (self.cwnd + self.rs.newly_acked).min(max_inflight);
        } else if self.cwnd < max_inflight || (self.delivered as f64) < self.initial {
            self.cwnd += self.rs.newly_acked;
        }
        self.cwnd = self.cwnd.max(self.min_pipe());
        if self.state == BbrState::ProbeRtt {
            self.cwnd = self.cwnd.min(self.probe_rtt_cwnd());
        }
        let cap = match self.state {
            BbrState::Down | BbrState::Refill | BbrState::Up => self.inflight_longterm,
            BbrState::ProbeRtt | BbrState::Cruise => self.inflight_with_headroom(),
            BbrState::Startup | BbrState::Drain => f64::INFINITY,
        };
        self.cwnd = self.cwnd.min(cap.min(self.inflight_shortterm).max(self.min_pipe()));
    }
}

impl CongestionControl for Bbr {
    fn on_ack(&mut self, _ack: &Ack) {}

    /// UpdateOnACK.
    fn on_sample(&mut self, now: Instant, sample: &DeliverySample) {
        self.rs = Sample {
            rate: sample.rate.map_or(0.0, |rate| rate.as_bps() as f64 / 8.0),
            delivered: sample.delivered as f64,
            newly_acked: sample.newly_acked as f64,
            lost: sample.lost as f64,
            tx_in_flight: sample.tx_in_flight as f64,
            app_limited: sample.app_limited,
            prior_delivered: sample.prior_delivered,
        };
        self.delivered = sample.prior_delivered + sample.delivered;
        self.in_flight = sample.in_flight as f64;
        self.cwnd_limited = self.in_flight + self.rs.newly_acked + self.mss > self.cwnd;

        self.update_latest_delivery_signals();
        self.update_congestion_signals();
        self.update_aggregation(now);
        self.check_full_bw_reached();
        self.check_startup_done();
        self.check_drain_done(now);
        self.update_probe_bw_cycle_phase(now);
        self.update_min_rtt(now, sample.rtt);
        self.check_probe_rtt(now);
        self.advance_latest_delivery_signals();
        self.bw = self.max_bw.min(self.bw_shortterm);

        self.set_pacing_rate(self.pacing_gain());
        self.set_cwnd();
    }
    /// HandleLostPacket.
    fn on_lost(&mut self, now: Instant, lost: &LostSegment) {
        self.note_loss();
        if lost.start != self.lost_ranges.1 {
            self.lost_ranges.0 += 1;
        }
        self.lost_ranges.1 = lost.start + lost.size;
        self.on_lost_while_probing(now, lost);
    }
    fn on_established(&mut self, now: Instant, srtt: Option<Span>) {
        (self.min_rtt.min, self.min_rtt.stamp) = (srtt, now);
        (self.min_rtt.probe_min, self.min_rtt.probe_stamp) = (srtt, now);
        self.aggregation.interval_start = now;
        // InitPacingRate.
        let rtt = srtt.filter(|rtt| !rtt.is_zero()).unwrap_or(NOMINAL_RTT);
        self.pacing_rate = STARTUP_PACING_GAIN * self.initial / rtt.as_secs_f64();
    }
    /// HandleRestartFromIdle.
    fn on_restart(&mut self, now: Instant, app_limited: bool) {
        if !app_limited {
            return;
        }
        self.idle_restart = true;
        self.aggregation.interval_start = now;
        if self.is_probe_bw() {
            self.set_pacing_rate(1.0);
        } else if self.state == BbrState::ProbeRtt {
            self.check_probe_rtt_done(now);
        }
    }
    fn limits_samples(&self) -> bool {
        self.state == BbrState::ProbeRtt
    }
    fn on_congestion(&mut self, now: Instant, _flight_size: u64, signal: CongestionSignal) {
        match signal {
            CongestionSignal::Loss => {
                self.save_cwnd();
                self.recovery = Some(self.round_count);
            }
            CongestionSignal::Ecn => {
                self.note_loss();
                if self.state == BbrState::Startup {
                    self.leave_startup_by_congestion();
                } else if self.probing.is_sampling {
                    self.handle_inflight_too_high(now);
                }
            }
        }
    }
    /// OnEnterRTO. `flight_size` is what is left in the network.
    fn on_timeout(&mut self, _now: Instant, flight_size: u64, _first: bool) {
        self.save_cwnd();
        self.recovery = Some(self.round_count);
        self.cwnd = flight_size as f64 + self.mss;
    }
    fn on_recovery_end(&mut self) {
        self.recovery = None;
        self.restore_cwnd();
    }
    fn on_recovered(&mut self, _now: Instant, _flight_size: u64) {}
    fn on_idle(&mut self, _restart: u64) {}
    fn cwnd(&self) -> u64 {
        self.cwnd as u64
    }
    fn ssthresh(&self) -> u64 {
        u64::MAX
    }
    fn pacing(&self) -> Option<Rate> {
        let with_headers = self.pacing_rate * (self.mss + HEADERS) / self.mss;
        Some(Rate::from_bps(((with_headers * 8.0) as u64).max(1)))
    }

    fn phase(&self) -> Option<&'static str> {
        Some(match self.state {
            BbrState::Startup => "startup",
            BbrState::Drain => "drain",
            BbrState::Down => "probe-bw down",
            BbrState::Cruise => "probe-bw cruise",
            BbrState::Refill => "probe-bw refill",
            BbrState::Up => "probe-bw up",
            BbrState::ProbeRtt => "probe-rtt",
        })
    }
}
