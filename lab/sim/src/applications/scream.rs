//! SCReAMv2: the rate of a media encoder, and the data that it may have in the network, from acknowledgements, marks,
//! losses and delay.
//!
//! *Source*: draft-ietf-ccwg-rfc8298bis-screamv2 (August 2026); the names and constants are those of its pseudocode, and
//! the titles of its sections are in the code.
//! *Units*: bytes, seconds and bit/s in double precision with the four operations only, whose results are the same on
//! every platform.
//! *Departures from the source*: of what the draft calls optional, nothing: no reduced jitter, no remedies for clock drift,
//! policers and undershoot, no compensation for competing flows. Clocks of the simulator do not drift, so the base of the
//! delay is the least one so far.

/// QDELAY_TARGET_LO.
const QDELAY_TARGET: f64 = 0.06;
/// MIN_REF_WND.
const MIN_REF_WND: f64 = 3_000.0;
/// BYTES_IN_FLIGHT_HEAD_ROOM.
const HEAD_ROOM: f64 = 1.5;
/// BETA_LOSS and BETA_ECN.
const BETA_LOSS: f64 = 0.7;
const BETA_ECN: f64 = 0.8;
/// POST_CONGESTION_DELAY_RTT.
const POST_CONGESTION_ROUNDS: f64 = 100.0;
/// MUL_INCREASE_FACTOR.
const MUL_INCREASE: f64 = 0.02;
/// VIRTUAL_RTT.
const VIRTUAL_RTT: f64 = 0.025;
/// L4S_AVG_G_UP and L4S_AVG_G_DOWN.
const G_UP: f64 = 1.0 / 8.0;
const G_DOWN: f64 = 1.0 / 128.0;
/// QDELAY_AVG_G.
const QDELAY_G: f64 = 1.0 / 4.0;
/// REF_WND_OVERHEAD_MAX, which applies as long as the jitter is not measured.
const OVERHEAD: f64 = 3.0;
/// RATE_PACE_MIN, PACKET_PACING_HEADROOM, MAX_RELAXED_PACING_FACTOR and RELAXED_PACING_LIMIT_LOW.
const LEAST_PACE: f64 = 50_000.0;
const PACING_HEADROOM: f64 = 1.5;
const RELAXED_FACTOR: f64 = 4.0;
const RELAXED_FROM: f64 = 0.8;
/// PACKET_OVERHEAD.
const PACKET_OVERHEAD: f64 = 20.0;
/// RATE_ADJUST_GAIN and FRAME_SIZE_DEV_ALPHA.
const ADJUST_GAIN: f64 = 1.0 / 16.0;
const FRAME_SIZE_GAIN: f64 = 1.0 / 64.0;
/// Before the first feedback.
const UNKNOWN_RTT: f64 = 0.05;

/// How the sender's packets can be marked.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Marking {
    /// Not at all, or by classic ECN.
    Classic,
    /// In proportion to congestion (L4S).
    Scalable,
}

/// The contents of a receiver's report.
#[derive(Clone, Copy, PartialEq, Debug, Default)]
pub(crate) struct Feedback {
    /// The RTT of the newest data unit, without the receiver's delay.
    pub rtt: f64,
    /// The one-way delay of the newest data unit.
    pub delay: f64,
    /// Bytes by which the highest acknowledged byte has advanced, and those of them that were marked.
    pub acked: f64,
    pub acked_ce: f64,
    /// Data units acknowledged, and those of them that were marked.
    pub units: f64,
    pub units_ce: f64,
    /// Whether a data unit was found to be lost.
    pub lost: bool,
    /// Bytes in flight after the report.
    pub in_flight: f64,
}

/// The control. See the [module](self).
#[derive(Clone, Debug)]
pub(crate) struct Scream {
    mss: f64,
    marking: Marking,
    /// TARGET_BITRATE_MIN and TARGET_BITRATE_MAX.
    rates: [f64; 2],
    ref_wnd: f64,
    ref_wnd_i: f64,
    ref_wnd_i_update_allowed: bool,
    s_rtt: Option<f64>,
    base_delay: f64,
    qdelay: f64,
    qdelay_avg: f64,
    last_qdelay_update: f64,
    l4s_alpha: f64,
    last_alpha_update: f64,
    units: [f64; 2],
    /// Whether a loss, or a mark, has come since the last reaction.
    pending: [bool; 2],
    last_detected: Option<f64>,
    last_reaction: f64,
    max_in_flight: [f64; 2],
    round_began: f64,
    target_bitrate: f64,
    rate_adjust: f64,
    frame_size_dev: f64,
}

impl Scream {
    /// Begins with the least window. `mss` is the largest data unit, `rates` the least and the largest bit rate.
    pub fn new(mss: f64, marking: Marking, rates: [f64; 2]) -> Self {
        Self {
            mss,
            marking,
            rates,
            ref_wnd: MIN_REF_WND,
            ref_wnd_i: 1.0,
            ref_wnd_i_update_allowed: true,
            s_rtt: None,
            base_delay: f64::INFINITY,
            qdelay: 0.0,
            qdelay_avg: 0.0,
            last_qdelay_update: 0.0,
            l4s_alpha: 0.0,
            last_alpha_update: 0.0,
            units: [0.0; 2],
            pending: [false; 2],
            last_detected: None,
            last_reaction: 0.0,
            max_in_flight: [0.0; 2],
            round_began: 0.0,
            target_bitrate: rates[0],
            rate_adjust: 0.0,
            frame_size_dev: 0.0,
        }
    }
    fn rtt(&self) -> f64 {
        self.s_rtt.unwrap_or(UNKNOWN_RTT)
    }
    /// The bit rate that the encoder is asked for.
    pub fn target_bitrate(&self) -> f64 {
        self.target_bitrate
    }
    /// Whether another data unit may be sent with `in_flight` bytes in the network ("Send Window Calculation").
    pub fn may_send(&self, in_flight: f64) -> bool {
        in_flight < self.ref_wnd * OVERHEAD
    }
    /// The pacing rate in bit/s ("Packet Pacing").
    pub fn pace(&self) -> f64 {
        let nominal = self.target_bitrate / self.rates[1];
        let scale = ((nominal - RELAXED_FROM) / (1.0 - RELAXED_FROM)).min(1.0);
        let scale = (1.0 - scale).clamp(1.0 / RELAXED_FACTOR, 1.0);
        self.target_bitrate.max(LEAST_PACE) * PACING_HEADROOM / scale
    }
    /// Adjusts the rate to a frame of `size` bytes, while the oldest data unit has been waiting for `queued` seconds
    /// ("Media Rate Control").
    pub fn on_frame(&mut self, size: f64, period: f64, queued: f64) {
        let error = (queued - period / 4.0) / period;
        self.rate_adjust = (self.rate_adjust + error * ADJUST_GAIN).clamp(0.0, 0.5);
        let nominal = self.target_bitrate * period / 8.0;
        let deviation = ((size - nominal) / nominal).max(0.0);
        self.frame_size_dev = ((1.0 - FRAME_SIZE_GAIN) * self.frame_size_dev + FRAME_SIZE_GAIN * deviation).min(0.2);
        self.update_target();
    }
    fn update_target(&mut self) {
        let ratio = (self.mss / self.ref_wnd).min(1.0);
        let mut factor = 1.0 - (ratio - 0.1).clamp(0.0, 0.2);
        factor *= self.mss / (self.mss + PACKET_OVERHEAD);
        factor /= 1.2 + self.rate_adjust + self.frame_size_dev;
        self.target_bitrate = (factor * 8.0 * self.ref_wnd / self.rtt()).clamp(self.rates[0], self.rates[1]);
    }

    /// Processes a report at `now`.
    pub fn on_feedback(&mut self, now: f64, feedback: &Feedback) {
        self.s_rtt = Some(match self.s_rtt {
            Some(srtt) => srtt + (feedback.rtt - srtt) / 8.0,
            None => feedback.rtt,
        });
        self.base_delay = self.base_delay.min(feedback.delay);
        self.qdelay = feedback.delay - self.base_delay;
        if now - self.round_began >= self.rtt() {
            self.max_in_flight = [0.0, self.max_in_flight[0]];
            self.round_began = now;
        }
        self.max_in_flight[0] = self.max_in_flight[0].max(feedback.in_flight + feedback.acked);
        self.update_alpha(now, feedback);
        self.update_qdelay(now);
        self.pending[0] |= feedback.lost;
        self.pending[1] |= feedback.units_ce > 0.0;
        if feedback.lost || feedback.units_ce > 0.0 {
            self.last_detected = Some(now);
        }
        let near = ((self.ref_wnd - self.ref_wnd_i) / self.ref_wnd_i * 8.0).powi(2).clamp(0.1, 1.0);
        self.reduce(now, near);
        self.increase(now, near, feedback.acked - feedback.acked_ce);
        self.update_target();
    }
    /// "Receiving ECN-CE for L4S".
    fn update_alpha(&mut self, now: f64, feedback: &Feedback) {
        self.units = [self.units[0] + feedback.units, self.units[1] + feedback.units_ce];
        if now - self.last_alpha_update < self.rtt().min(0.01) || self.units[0] == 0.0 {
            return;
        }
        let fraction = self.units[1] / self.units[0];
        self.l4s_alpha = if fraction >= self.l4s_alpha {
            G_UP * fraction + (1.0 - G_UP) * self.l4s_alpha
        } else {
            (1.0 - G_DOWN) * self.l4s_alpha
        };
        (self.last_alpha_update, self.units) = (now, [0.0; 2]);
    }
    /// "Detecting Increased Queue Delay".
    fn update_qdelay(&mut self, now: f64) {
        if now - self.last_qdelay_update < self.rtt().min(VIRTUAL_RTT) {
            return;
        }
        self.qdelay_avg = if self.qdelay < self.qdelay_avg {
            self.qdelay
        } else {
            QDELAY_G * self.qdelay + (1.0 - QDELAY_G) * self.qdelay_avg
        };
        self.last_qdelay_update = now;
    }
    /// "Reference Window Reduction".
    fn reduce(&mut self, now: f64, near: f64) {
        let since = now - self.last_reaction;
        if since < self.rtt().min(VIRTUAL_RTT) {
            return;
        }
        let [lost, marked] = self.pending;
        let late = !lost && !marked && self.qdelay_avg > QDELAY_TARGET / 2.0;
        if !(lost || marked || late) {
            return;
        }
        if self.ref_wnd_i_update_allowed {
            (self.ref_wnd_i, self.ref_wnd_i_update_allowed) = (self.ref_wnd, false);
        }
        // The backoff may come more than once in a round trip.
        let long = (self.rtt() / VIRTUAL_RTT).max(1.0);
        if lost {
            self.ref_wnd *= BETA_LOSS;
        } else if marked && self.marking == Marking::Classic {
            self.ref_wnd *= BETA_ECN;
        } else if marked {
            let mut backoff = self.l4s_alpha / 2.0 / long;
            if self.qdelay < QDELAY_TARGET / 4.0 {
                backoff *= near.max(0.25);
            }
            if since > 100.0 * self.rtt().max(VIRTUAL_RTT) {
                self.ref_wnd = self.ref_wnd.min(self.max_in_flight[1]);
            }
            self.ref_wnd *= 1.0 - backoff;
        } else {
            let alpha = ((self.qdelay_avg - QDELAY_TARGET / 2.0) / (QDELAY_TARGET / 2.0)).clamp(0.0, 1.0);
            self.ref_wnd *= 1.0 - alpha / 2.0 / long;
        }
        self.ref_wnd = self.ref_wnd.max(MIN_REF_WND);
        (self.last_reaction, self.pending) = (now, [false; 2]);
    }
    /// "Reference Window Increase", for bytes that were acknowledged without a mark.
    fn increase(&mut self, now: f64, near: f64, unmarked: f64) {
        let calm = POST_CONGESTION_ROUNDS * self.rtt().max(VIRTUAL_RTT);
        let after = self.last_detected.map_or(1.0, |at| ((now - at) / calm).clamp(0.0, 1.0));
        let scale = 1.0 + MUL_INCREASE * self.ref_wnd / self.mss;
        let mut increment = unmarked * (self.mss / self.ref_wnd).min(1.0);
        increment *= (self.rtt() / VIRTUAL_RTT).min(1.0);
        increment *= near.max(0.25);
        increment *= 1.0 + (scale - 1.0) * after * near;
        let wanted = self.ref_wnd + increment;
        let most = self.mss + self.max_in_flight[0].max(self.max_in_flight[1]) * HEAD_ROOM;
        if wanted <= most && self.target_bitrate < self.rates[1] && increment > 0.0 {
            self.ref_wnd = wanted;
            self.ref_wnd_i_update_allowed = true;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MSS: f64 = 1_000.0;
    const RTT: f64 = 0.05;

    fn of(marking: Marking, window: f64) -> Scream {
        Scream { ref_wnd: window, ..Scream::new(MSS, marking, [1e5, 1e9]) }
    }
    /// A report of a whole window, of which `marked` units were marked.
    fn report(scream: &Scream, delay: f64, marked: f64) -> Feedback {
        let window = scream.ref_wnd;
        Feedback {
            rtt: RTT + delay,
            delay,
            acked: window,
            acked_ce: marked * MSS,
            units: window / MSS,
            units_ce: marked,
            lost: false,
            in_flight: window,
        }
    }

    #[test]
    fn the_window_grows_by_a_segment_and_two_percent_in_a_round() {
        let mut scream = of(Marking::Scalable, 100_000.0);
        // MSS (1 + 0.02 * 100): MUL_INCREASE_FACTOR of the window beside a segment.
        scream.on_feedback(1.0, &report(&scream, 0.0, 0.0));
        assert!((scream.ref_wnd - 103_000.0).abs() < 1e-6, "{}", scream.ref_wnd);
        // Right after a mark, a quarter of a segment close to the last known maximum.
        scream.on_feedback(1.05, &report(&scream, 0.0, 1.0));
        let window = scream.ref_wnd;
        scream.on_feedback(1.1, &report(&scream, 0.0, 0.0));
        let grown = scream.ref_wnd - window;
        assert!((240.0..300.0).contains(&grown), "{grown}");
    }

    #[test]
    fn losses_and_marks_reduce_it_by_their_factors() {
        for (marking, lost, marked, factor) in [
            (Marking::Classic, true, 0.0, 0.7),
            (Marking::Classic, false, 1.0, 0.8),
            // alpha is 1/8 of the fraction of 10 %; half of it, half of that since the RTT is twice the virtual one; the
            // window is what it was before: a quarter.
            (Marking::Scalable, false, 10.0, 1.0 - 0.1 / 8.0 / 2.0 / 2.0),
        ] {
            let mut scream = of(marking, 100_000.0);
            let feedback = Feedback { lost, acked: 0.0, acked_ce: 0.0, ..report(&scream, 0.0, marked) };
            scream.on_feedback(1.0, &feedback);
            assert!((scream.ref_wnd / 100_000.0 - factor).abs() < 1e-9, "{marking:?}: {}", scream.ref_wnd);
            // At most once in 25 ms.
            let window = scream.ref_wnd;
            scream.on_feedback(1.02, &feedback);
            assert_eq!(scream.ref_wnd, window);
        }
    }

    #[test]
    fn a_queue_reduces_it_from_half_of_the_target_on() {
        let steady = |delay: f64| {
            let mut scream = of(Marking::Classic, 100_000.0);
            scream.on_feedback(1.0, &Feedback { acked: 0.0, ..report(&scream, 0.0, 0.0) });
            for round in 1..40 {
                let feedback = Feedback { acked: 0.0, ..report(&scream, delay, 0.0) };
                scream.on_feedback(1.0 + f64::from(round) * 0.05, &feedback);
            }
            scream.ref_wnd
        };
        assert_eq!(steady(0.029), 100_000.0);
        assert!(steady(0.04) < 80_000.0, "{}", steady(0.04));
        assert!(steady(0.06) < steady(0.04));
    }

    #[test]
    fn the_rate_is_the_window_in_a_round_trip_with_a_margin() {
        let mut scream = of(Marking::Classic, 100_000.0);
        scream.s_rtt = Some(0.1);
        scream.update_target();
        // 8 Mbit/s, less headers (1000/1020) and 1.2 for the queue of the sender.
        assert!((scream.target_bitrate - 8e6 / 1.02 / 1.2).abs() < 1.0, "{}", scream.target_bitrate);
        // Paced at 1.5 of it; four times as fast at the encoder's highest rate.
        assert!((scream.pace() / scream.target_bitrate - 1.5).abs() < 1e-9);
        scream.rates[1] = scream.target_bitrate;
        assert!((scream.pace() / scream.target_bitrate - 6.0).abs() < 1e-9);
    }
}
