//! Prague: the congestion control of L4S, which reduces cwnd in proportion to the fraction of marked bytes.
//!
//! *Source*: draft-briscoe-iccrg-prague-congestion-control-04, whose section numbers are in the code, and RFC 9331,
//! section 4.3, whose requirements it meets. The constants are those of the draft's reference implementations.
//! *Units*: bytes, with a fraction; alpha from 0 to 1.
//! *Notes*: uses double precision with the four operations only, whose results are the same on every platform. Without
//! accurate feedback (RFC 9768), or when the path hides marks, it is Reno with pacing. cwnd lets a segment more into the
//! network than the exact window, so that pacing limits the sender (2.5.1).
//! *Departures from the source*: segments are not made smaller when cwnd is below two of them. Slow start is that of RFC
//! 5681; it ends with the first mark, which halves cwnd, or by HyStart++.

use tidegate_core::{Instant, Rate, Span};

use super::congestion::{Ack, CongestionControl, CongestionSignal, EcnCounts, EcnFeedback, LossRecovery};
use crate::TCP_HEADER;

/// The gain of the moving average alpha (2.3.2).
const GAIN: f64 = 1.0 / 16.0;
/// The least virtual RTT, with which flows of shorter RTTs compete as if it were theirs (2.4.4).
const LEAST_VIRTUAL_RTT: Span = Span::from_millis(25);
/// Round trips after slow start from which on the RTT is virtual, so that short flows are not slowed down (2.4.4).
const ROUNDS_BEFORE: u32 = 500;
/// The pacing rate is this part of itself higher in the first half of a virtual RTT and lower in the second (2.5.1).
const OFFSET: f64 = 0.03;
/// The gain of the pacing rate in slow start (2.5.1).
const SLOW_START_PACING: f64 = 2.0;
/// The multiplicative decrease after a loss, or after a mark with classic feedback (2.4.1).
const DECREASE: f64 = 0.5;
/// The least cwnd, in segments.
const LEAST_SEGMENTS: f64 = 2.0;
/// The headers of a segment, which count in the pacing rate.
const HEADERS: f64 = TCP_HEADER as f64;

/// A reduction of cwnd by marks.
#[derive(Clone, Copy, Debug)]
struct Reduction {
    at: Instant,
    /// SND.NXT at that time: a round trip ends when it is acknowledged.
    nxt: u64,
    bytes: f64,
}

/// Prague. See the [module](self).
#[derive(Clone, Debug)]
pub struct Prague {
    mss: f64,
    /// The exact window.
    window: f64,
    ssthresh: f64,
    feedback: EcnFeedback,
    /// The moving average of the marked fraction; `None` before the first mark.
    alpha: Option<f64>,
    /// The start of the observation period, SND.NXT at its start, and the counts at its start.
    period: (Instant, u64, EcnCounts),
    counts: EcnCounts,
    reduction: Option<Reduction>,
    srtt: Option<Span>,
    /// Round trips since the end of slow start, and where the current one ends.
    rounds: u32,
    round_end: u64,
    /// The factor of the pacing rate.
    offset: f64,
}

impl Prague {
    /// Begins in slow start with a cwnd of `initial` bytes.
    pub fn new(mss: u64, initial: u64) -> Self {
        Self {
            mss: mss as f64,
            window: initial as f64,
            ssthresh: f64::INFINITY,
            feedback: EcnFeedback::None,
            alpha: None,
            period: (Instant::ZERO, 0, EcnCounts::default()),
            counts: EcnCounts::default(),
            reduction: None,
            srtt: None,
            rounds: 0,
            round_end: 0,
            offset: 1.0,
        }
    }
    /// The moving average of the fraction of marked bytes, 0 to 1; `None` before the first mark.
    pub fn alpha(&self) -> Option<f64> {
        self.alpha
    }
    /// The RTT with which the flow competes (2.4.4).
    fn virtual_rtt(&self) -> Span {
        let srtt = self.srtt.unwrap_or(LEAST_VIRTUAL_RTT);
        let independent = self.feedback == EcnFeedback::Accurate && self.rounds >= ROUNDS_BEFORE;
        if independent { srtt.max(LEAST_VIRTUAL_RTT) } else { srtt }
    }
    fn in_slow_start(&self) -> bool {
        self.window < self.ssthresh
    }
    fn set_window(&mut self, bytes: f64) {
        self.window = bytes.max(LEAST_SEGMENTS * self.mss);
        self.ssthresh = self.window;
    }

    /// Updates alpha once in a virtual RTT (2.3.2). `newly_marked` are the bytes of this acknowledgement.
    fn observe(&mut self, ack: &Ack, newly_marked: u64) {
        let (start, nxt, seen) = self.period;
        let Some(alpha) = self.alpha else {
            if newly_marked > 0 {
                self.alpha = Some(1.0);
                self.period = (ack.now, ack.nxt, ack.ecn);
            }
            return;
        };
        if ack.now.since(start) < self.virtual_rtt() || ack.una <= nxt {
            return;
        }
        let (capable, marked) = (ack.ecn.capable - seen.capable, ack.ecn.ce - seen.ce);
        if capable > 0 {
            self.alpha = Some(alpha + GAIN * (marked as f64 / capable as f64 - alpha));
        }
        self.period = (ack.now, ack.nxt, ack.ecn);
    }

    /// Additive increase for what was delivered without a mark, also while further reductions are suppressed (2.4.3):
    /// a segment in a round trip, less where the RTT is virtual (2.4.4).
    fn increase(&mut self, ack: &Ack, unmarked: u64) {
        if !ack.cwnd_limited || ack.recovery == LossRecovery::Fast {
            return;
        }
        let unmarked = unmarked as f64;
        if self.in_slow_start() {
            self.window += unmarked.min(ack.abc_limit() as f64 * self.mss);
            return;
        }
        let (srtt, virtual_rtt) = (self.srtt.unwrap_or(Span::ZERO), self.virtual_rtt());
        let ratio = if virtual_rtt.is_zero() { 1.0 } else { srtt.as_secs_f64() / virtual_rtt.as_secs_f64() };
        self.window += unmarked * self.mss / self.window * ratio * ratio;
    }

    /// Multiplicative decrease by half of alpha, at most once in a round trip, real and virtual (2.4.2).
    fn decrease(&mut self, ack: &Ack) {
        let virtual_rtt = self.virtual_rtt();
        let suppressed = self.reduction.is_some_and(|last| ack.una <= last.nxt || ack.now.since(last.at) < virtual_rtt);
        if suppressed || ack.recovery == LossRecovery::Fast {
            return;
        }
        let before = self.window;
        self.set_window(before * (1.0 - self.alpha.unwrap_or(1.0) / 2.0));
        self.reduction = Some(Reduction { at: ack.now, nxt: ack.nxt, bytes: before - self.window });
    }
}

impl CongestionControl for Prague {
    fn on_ack(&mut self, ack: &Ack) {
        self.srtt = ack.srtt.or(self.srtt);
        if !self.in_slow_start() && ack.una > self.round_end {
            self.round_end = ack.nxt;
            self.rounds = self.rounds.saturating_add(1);
        }
        let marked = match self.feedback {
            EcnFeedback::Accurate => ack.ecn.ce - self.counts.ce,
            EcnFeedback::None | EcnFeedback::Classic => 0,
        };
        self.counts = ack.ecn;
        if self.feedback == EcnFeedback::Accurate {
            self.observe(ack, marked);
        }
        self.increase(ack, ack.acked.saturating_sub(marked));
        if marked > 0 {
            self.decrease(ack);
        }
        let since = ack.now.since(self.period.0);
        let first_half = since.saturating_mul(2) < self.virtual_rtt();
        self.offset = if first_half { 1.0 + OFFSET } else { 1.0 - OFFSET };
    }
    fn on_congestion(&mut self, _now: Instant, _flight_size: u64, signal: CongestionSignal) {
        // A reduction by marks in the same round trip counts towards that by loss (2.4.1).
        let reduced = self.reduction.take().filter(|_| signal == CongestionSignal::Loss);
        let before = self.window + reduced.map_or(0.0, |reduction| reduction.bytes);
        self.set_window(self.window.min(before * DECREASE));
    }
    fn on_timeout(&mut self, _now: Instant, flight_size: u64, first: bool) {
        if first {
            self.ssthresh = (flight_size as f64 * DECREASE).max(LEAST_SEGMENTS * self.mss);
        }
        self.window = self.mss;
        self.reduction = None;
    }
    fn on_recovered(&mut self, _now: Instant, flight_size: u64) {
        self.window = self.ssthresh.min(self.mss.max(flight_size as f64) + self.mss);
    }
    fn on_idle(&mut self, restart: u64) {
        self.window = self.window.min(restart as f64);
    }
    fn on_established(&mut self, now: Instant, srtt: Option<Span>) {
        self.srtt = srtt;
        self.period.0 = now;
    }
    fn on_ecn_feedback(&mut self, feedback: EcnFeedback) {
        self.feedback = feedback;
    }
    fn exit_slow_start(&mut self) {
        self.ssthresh = self.window;
    }
    fn cwnd(&self) -> u64 {
        if self.in_slow_start() || self.srtt.is_none() {
            return self.window as u64;
        }
        let segments = (self.window * (1.0 + OFFSET) / self.mss) as u64 + 1;
        segments.max(LEAST_SEGMENTS as u64) * self.mss as u64
    }
    fn ssthresh(&self) -> u64 {
        if self.ssthresh.is_finite() { self.ssthresh as u64 } else { u64::MAX }
    }
    fn pacing(&self) -> Option<Rate> {
        let srtt = self.srtt.filter(|srtt| !srtt.is_zero())?;
        let gain = if self.in_slow_start() { SLOW_START_PACING } else { self.offset };
        let bytes = self.window * (self.mss + HEADERS) / self.mss * gain;
        Some(Rate::from_bps((bytes * 8.0 / srtt.as_secs_f64()) as u64))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MSS: u64 = 1000;

    /// A connection with a steady RTT and ten acknowledgements in each round trip.
    struct Rounds {
        prague: Prague,
        now: Instant,
        una: u64,
        ecn: EcnCounts,
        rtt: Span,
    }

    impl Rounds {
        fn new(window: u64, rtt: Span) -> Self {
            let mut prague = Prague::new(MSS, window);
            prague.on_established(Instant::ZERO, Some(rtt));
            prague.on_ecn_feedback(EcnFeedback::Accurate);
            prague.exit_slow_start();
            Self { prague, now: Instant::ZERO, una: 0, ecn: EcnCounts::default(), rtt }
        }
        /// A round trip in which `marked` bytes of the first tenth of the window are marked.
        fn round(&mut self, marked: u64) {
            self.round_of(|part| if part == 0 { marked } else { 0 });
        }
        fn round_of(&mut self, marked: impl Fn(u64) -> u64) {
            let window = self.prague.window as u64;
            for part in 0..10 {
                let (acked, marked) = (window / 10, marked(part));
                self.now += Span::from_nanos(self.rtt.as_nanos() / 10);
                self.una += acked;
                self.ecn = EcnCounts { capable: self.ecn.capable + acked, ce: self.ecn.ce + marked };
                self.prague.on_ack(&Ack {
                    now: self.now,
                    acked,
                    flight_size: window,
                    cwnd_limited: true,
                    rtt: Some(self.rtt),
                    srtt: Some(self.rtt),
                    delivered: self.una,
                    recovery: LossRecovery::None,
                    una: self.una,
                    nxt: self.una + window,
                    ecn: self.ecn,
                });
            }
        }
        fn alpha(&self) -> f64 {
            self.prague.alpha().expect("a mark has come")
        }
    }

    fn near(value: f64, expected: f64, error: f64) {
        assert!((value - expected).abs() <= error, "{value}, not {expected}");
    }

    #[test]
    fn alpha_and_the_window_follow_the_fraction_of_marks() {
        let mut flow = Rounds::new(100_000, Span::from_millis(50));
        flow.round(0);
        near(flow.prague.window, 101_000.0, 10.0);
        assert_eq!(flow.prague.alpha(), None);
        // 2.3.2: alpha begins at one, so that the first mark halves cwnd; the rest of the old window adds two segments.
        flow.round(1_000);
        assert_eq!(flow.alpha(), 1.0);
        near(flow.prague.window, 50_500.0 + 2_000.0, 400.0);
        // 2.4.2: what was sent before it was reduced is marked as well, and does not reduce it again.
        let window = flow.prague.window;
        flow.round(1_000);
        near(flow.prague.window, window + 1_000.0, 100.0);
        // Without marks, alpha falls by a sixteenth with each round trip: 0.49 after these eleven.
        for _ in 0..10 {
            flow.round(0);
        }
        near(flow.alpha(), (15.0_f64 / 16.0).powi(11), 0.01);
        let (window, alpha) = (flow.prague.window, flow.alpha());
        flow.round(500);
        near(flow.prague.window, window * (1.0 - alpha / 2.0), 0.04 * window);
    }

    #[test]
    fn two_marks_in_a_round_trip_hold_the_window() {
        // The equilibrium of DCTCP and Prague: alpha is the fraction p of marks, and W p / 2 is one segment.
        // In a round and a tenth, until the first acknowledgement of what was sent after the reduction.
        for (marked, segments) in [(0, 0.0), (1_000, 1.0), (2_000, 2.0)] {
            let mut flow = Rounds::new(200_000, Span::from_millis(50));
            flow.prague.alpha = Some(marked as f64 / 200_000.0);
            flow.round_of(|_| marked / 10);
            let before = flow.prague.window;
            for _ in 0..20 {
                flow.round_of(|_| marked / 10);
            }
            let change = 20.0 * (1.0 - segments / 2.0 / 1.1);
            near((flow.prague.window - before) / 1_000.0, change, 3.0);
        }
    }

    #[test]
    fn a_short_round_trip_competes_as_one_of_25_ms() {
        // 2.4.4: after 500 round trips, (5/25)² of a segment in each of 5 ms. The rate then grows by 40 B / (5 ms)², as
        // with 1000 B / (25 ms)².
        let mut flow = Rounds::new(100_000, Span::from_millis(5));
        let mut rounds = 0.0;
        while flow.prague.rounds < ROUNDS_BEFORE {
            flow.round(0);
            rounds += 1.0;
        }
        near(flow.prague.window, 100_000.0 + 1_000.0 * rounds, 3_000.0);
        let window = flow.prague.window;
        flow.round(0);
        near(flow.prague.window, window + 40.0, 0.1);
        // A reduction is then at most one in 25 ms: of six round trips with marks, the first and the last.
        let mut reductions = 0;
        for _ in 0..6 {
            let before = flow.prague.window;
            flow.round(10_000);
            reductions += u32::from(flow.prague.window < before);
        }
        assert_eq!(reductions, 2);
    }

    #[test]
    fn a_loss_halves_what_marks_have_not_reduced() {
        let mut flow = Rounds::new(100_000, Span::from_millis(50));
        flow.prague.alpha = Some(0.4);
        flow.round(1_000);
        let reduced = flow.prague.window;
        let before = reduced / (1.0 - flow.alpha() / 2.0);
        flow.prague.on_congestion(flow.now, 0, CongestionSignal::Loss);
        near(flow.prague.window, before / 2.0, 1_000.0);
        let window = flow.prague.window;
        flow.prague.on_congestion(flow.now, 0, CongestionSignal::Loss);
        near(flow.prague.window, window / 2.0, 1e-6);
    }

    #[test]
    fn without_accurate_feedback_it_is_reno() {
        let mut flow = Rounds::new(100_000, Span::from_millis(5));
        flow.prague.on_ecn_feedback(EcnFeedback::Classic);
        for _ in 0..600 {
            flow.round(5_000);
        }
        // A segment in each round trip.
        near(flow.prague.window, 700_000.0, 5_000.0);
        assert_eq!(flow.prague.alpha(), None);
        flow.prague.on_congestion(flow.now, 0, CongestionSignal::Ecn);
        near(flow.prague.window, 350_000.0, 2_500.0);
    }

    #[test]
    fn it_paces_by_window_and_round_trip() {
        let mut flow = Rounds::new(100_000, Span::from_millis(50));
        let rate = |flow: &Rounds| flow.prague.pacing().expect("the RTT is known").as_bps() as f64;
        flow.round(0);
        // 101 segments with headers in 50 ms, 3 % more or less: 16.8 Mbit/s.
        let exact = 101.0 * 1_040.0 * 8.0 / 0.05;
        assert!([0.97, 1.03].iter().any(|offset| (rate(&flow) / exact - offset).abs() < 1e-4), "{}", rate(&flow));
        assert_eq!(flow.prague.cwnd(), 105_000, "a segment beyond 101 x 1.03");
        flow.prague.ssthresh = f64::INFINITY;
        near(rate(&flow) / exact, 2.0, 1e-4);
    }
}
