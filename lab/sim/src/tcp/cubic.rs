//! CUBIC.
//!
//! *Source*: RFC 9438; section numbers are in the code.
//! *Units*: bytes in the interface; segments and seconds inside, as in the RFC.
//! *Notes*: uses double precision with the four operations and `libm::cbrt` only, whose results are the same on every
//! platform.
//! *Departures from the source*: HyStart++ (4.10) is a setting of the connection. Without it, slow start is that of RFC
//! 5681.

use tidegate_core::Instant;

use super::congestion::{Ack, CongestionControl, CongestionSignal, LossRecovery};

/// C, in segments/s³ (5).
const C: f64 = 0.4;
/// The multiplicative decrease factor (4.6).
const BETA: f64 = 0.7;
/// Additive increase factor that yields Reno's average rate with beta 0.7: 3 (1 - beta) / (1 + beta) (4.3).
const ALPHA: f64 = 3.0 * (1.0 - BETA) / (1.0 + BETA);

/// CUBIC. See the [module](self).
#[derive(Clone, Debug)]
pub struct Cubic {
    mss: f64,
    /// The congestion window in segments.
    cwnd: f64,
    ssthresh: f64,
    /// W_max: cwnd before the last reduction, reduced further by fast convergence (4.7).
    w_max: f64,
    /// cwnd at the last congestion event, for the Reno-friendly region (4.3).
    cwnd_prior: f64,
    /// W_est: the estimate of Reno's window (4.3).
    w_est: f64,
    /// K: the time from the start of the epoch to W_max, in seconds (4.2).
    k: f64,
    /// The start of the congestion avoidance epoch.
    t_epoch: Option<Instant>,
    /// cwnd before the last reduction, for fast convergence (4.7).
    w_last_max: f64,
}

impl Cubic {
    /// Begins in slow start with a cwnd of `initial` bytes.
    pub fn new(mss: u64, initial: u64) -> Self {
        let mss = mss as f64;
        Self {
            mss,
            cwnd: initial as f64 / mss,
            ssthresh: f64::INFINITY,
            w_max: 0.0,
            cwnd_prior: 0.0,
            w_est: 0.0,
            k: 0.0,
            t_epoch: None,
            w_last_max: 0.0,
        }
    }

    /// W_cubic(t), `t` seconds into the epoch (4.2, figure 1).
    fn w_cubic(&self, t: f64) -> f64 {
        let d = t - self.k;
        C * d * d * d + self.w_max
    }

    fn begin_epoch(&mut self, now: Instant) {
        self.t_epoch = Some(now);
        self.w_est = self.cwnd;
        if self.cwnd < self.w_max {
            // 4.2, figure 2.
            self.k = libm::cbrt((self.w_max - self.cwnd) / C);
        } else {
            // After a timeout, or before the first loss (4.8).
            self.k = 0.0;
            self.w_max = self.cwnd;
        }
    }

    fn reduce(&mut self, flight_size: u64) {
        // 4.7: a flow that reduces before it reaches its former W_max releases bandwidth to others.
        self.w_max = if self.cwnd < self.w_last_max { self.cwnd * (1.0 + BETA) / 2.0 } else { self.cwnd };
        self.w_last_max = self.cwnd;
        self.cwnd_prior = self.cwnd;
        // 4.6: reduce from cwnd, but not from a part of it that was not in use.
        let used = self.cwnd.min((flight_size as f64 / self.mss).max(1.0) + 1.0);
        self.ssthresh = (used * BETA).max(2.0);
        self.t_epoch = None;
    }
}

impl CongestionControl for Cubic {
    fn on_ack(&mut self, ack: &Ack) {
        if !ack.cwnd_limited || ack.recovery == LossRecovery::Fast {
            // 4.2: the epoch excludes time in which the application limits the sender.
            if !ack.cwnd_limited {
                self.t_epoch = None;
            }
            return;
        }
        let acked = ack.acked as f64 / self.mss;
        if self.cwnd < self.ssthresh {
            self.cwnd += acked.min(ack.abc_limit() as f64);
            return;
        }
        if self.t_epoch.is_none() {
            self.begin_epoch(ack.now);
        }
        let rtt = ack.srtt.map_or(0.0, |span| span.as_secs_f64());
        let t = self.t_epoch.map_or(0.0, |epoch| ack.now.since(epoch).as_secs_f64());
        // 4.3: alpha is 1 once W_est has reached cwnd_prior.
        let alpha = if self.w_est < self.cwnd_prior { ALPHA } else { 1.0 };
        self.w_est += alpha * acked / self.cwnd;
        if self.w_cubic(t) < self.w_est {
            self.cwnd = self.cwnd.max(self.w_est);
            return;
        }
        // 4.4 and 4.5: towards W_cubic one RTT ahead, by at most a factor of 1.5 in it.
        let target = self.w_cubic(t + rtt).clamp(self.cwnd, 1.5 * self.cwnd);
        self.cwnd += (target - self.cwnd) / self.cwnd * acked;
    }
    fn on_congestion(&mut self, _now: Instant, flight_size: u64, _signal: CongestionSignal) {
        self.reduce(flight_size);
        self.cwnd = self.ssthresh;
    }
    fn on_timeout(&mut self, _now: Instant, flight_size: u64, first: bool) {
        if first {
            self.reduce(flight_size);
        }
        self.t_epoch = None;
        self.cwnd = 1.0;
    }
    fn on_recovered(&mut self, _now: Instant, flight_size: u64) {
        let flight_size = flight_size as f64 / self.mss;
        self.cwnd = self.ssthresh.min(flight_size.max(1.0) + 1.0).max(self.cwnd.min(self.ssthresh));
    }
    fn on_idle(&mut self, restart: u64) {
        self.cwnd = self.cwnd.min(restart as f64 / self.mss);
        self.t_epoch = None;
    }
    fn exit_slow_start(&mut self) {
        self.ssthresh = self.cwnd;
    }
    fn cwnd(&self) -> u64 {
        (self.cwnd * self.mss) as u64
    }
    fn ssthresh(&self) -> u64 {
        // Infinity saturates.
        (self.ssthresh * self.mss) as u64
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use tidegate_core::Span;

    fn ack(at: Span, acked: u64) -> Ack {
        Ack {
            now: Instant::ZERO + at,
            acked,
            flight_size: u64::MAX,
            cwnd_limited: true,
            rtt: None,
            srtt: Some(Span::from_millis(100)),
            delivered: 0,
            recovery: LossRecovery::None,
            una: 0,
            nxt: 0,
            ecn: crate::tcp::congestion::EcnCounts::default(),
        }
    }

    /// One acknowledgement for each segment, one window for each RTT of 100 ms.
    fn run(cubic: &mut Cubic, from_ms: u64, rounds: u64) {
        for round in 0..rounds {
            let segments = cubic.cwnd() / 1000;
            for _ in 0..segments {
                cubic.on_ack(&ack(Span::from_millis(from_ms + 100 * round), 1000));
            }
        }
    }

    #[test]
    fn the_window_follows_the_cubic_of_the_rfc() {
        let mut cubic = Cubic::new(1000, 1_000_000);
        cubic.on_congestion(Instant::ZERO, 1_000_000, CongestionSignal::Loss);
        assert_eq!(cubic.cwnd(), 700_000, "4.6: 0.7 of 1000 segments");
        // 4.2: K = cbrt(1000 * 0.3 / 0.4) = cbrt(750) = 9.0856 s. At t = K, cwnd is W_max again.
        run(&mut cubic, 0, 91);
        let at_k = cubic.cwnd() / 1000;
        assert!((990..=1001).contains(&at_k), "{at_k}");
        assert!((cubic.k - 9.0856).abs() < 1e-3);
        // At t = 15 s: 0.4 * (15 - 9.0856)^3 + 1000 = 1082.7; at most one RTT late.
        run(&mut cubic, 9100, 60);
        let at_15 = cubic.cwnd() / 1000;
        assert!((1075..=1090).contains(&at_15), "{at_15}");
    }

    #[test]
    fn a_small_window_grows_as_reno_would() {
        let mut cubic = Cubic::new(1000, 10_000);
        cubic.on_congestion(Instant::ZERO, 10_000, CongestionSignal::Loss);
        assert_eq!(cubic.cwnd(), 7_000);
        // 4.3: alpha = 3 * 0.3 / 1.7 = 0.529 segments a round trip until 10 segments: K would be cbrt(7.5) = 1.96 s,
        // in which Reno makes 0.529 * 19.6 = 10.4 segments: the friendly region rules.
        run(&mut cubic, 0, 4);
        let window = cubic.cwnd();
        assert!((8_800..=9_300).contains(&window), "7 + 4 * 0.529 = 9.1, not {window}");
    }

    #[test]
    fn fast_convergence_reduces_w_max() {
        let mut cubic = Cubic::new(1000, 100_000);
        cubic.on_congestion(Instant::ZERO, 100_000, CongestionSignal::Loss);
        cubic.on_congestion(Instant::ZERO, 70_000, CongestionSignal::Loss);
        // 70 < 100, so W_max = 70 * 1.7 / 2 = 59.5.
        assert!((cubic.w_max - 59.5).abs() < 1e-9);
        assert_eq!(cubic.cwnd(), 49_000);
        cubic.on_timeout(Instant::ZERO, 49_000, true);
        assert_eq!((cubic.cwnd(), cubic.ssthresh()), (1000, 34_300));
    }
}
