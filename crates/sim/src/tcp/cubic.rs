//! CUBIC.
//!
//! *Source*: RFC 9438; section numbers stand in the code.
//! *Units*: the window in bytes outside, in segments inside, as in the RFC; time in seconds.
//! *Notes*: double precision with the four operations and `libm::cbrt` only, which give the same bits everywhere.
//! *Departures from the source*: HyStart++ (4.10) is not built in; slow start is that of RFC 5681.

use tidegate_core::Instant;

use super::congestion::{Ack, CongestionControl, Signal};

/// C, in segments/s³ (5).
const C: f64 = 0.4;
/// The multiplicative decrease factor (4.6).
const BETA: f64 = 0.7;
/// Additive increase that makes Reno and beta 0.7 fair: 3 (1 - beta) / (1 + beta) (4.3).
const ALPHA: f64 = 3.0 * (1.0 - BETA) / (1.0 + BETA);

/// CUBIC. See the [module](self).
#[derive(Clone, Debug)]
pub struct Cubic {
    mss: f64,
    /// Segments.
    window: f64,
    threshold: f64,
    /// W_max: the window before the last reduction.
    most: f64,
    /// cwnd at the time of the last congestion event (cwnd_prior), for the Reno-friendly region.
    prior: f64,
    /// W_est (4.3).
    friendly: f64,
    /// K, and when the epoch began.
    k: f64,
    epoch: Option<Instant>,
    /// W_max when the last epoch began, for fast convergence (4.7).
    last_most: f64,
}

impl Cubic {
    /// A window of `initial` bytes, in slow start.
    pub fn new(mss: u64, initial: u64) -> Self {
        let mss = mss as f64;
        Self {
            mss,
            window: initial as f64 / mss,
            threshold: f64::INFINITY,
            most: 0.0,
            prior: 0.0,
            friendly: 0.0,
            k: 0.0,
            epoch: None,
            last_most: 0.0,
        }
    }

    /// The window of W_cubic at `t` seconds into the epoch (4.2, figure 1).
    fn cubic(&self, t: f64) -> f64 {
        let d = t - self.k;
        C * d * d * d + self.most
    }

    fn begin_epoch(&mut self, now: Instant) {
        self.epoch = Some(now);
        self.friendly = self.window;
        if self.window < self.most {
            // 4.2, figure 2.
            self.k = libm::cbrt((self.most - self.window) / C);
        } else {
            // After a timeout, or without a loss so far: the plateau is here (4.8).
            self.k = 0.0;
            self.most = self.window;
        }
    }

    fn reduce(&mut self, flight: u64) {
        // 4.7: a flow that reduces before it reached its former W_max leaves room for others.
        self.most = if self.window < self.last_most { self.window * (1.0 + BETA) / 2.0 } else { self.window };
        self.last_most = self.window;
        self.prior = self.window;
        // 4.6: from the window, but a window that was not in use must not justify what comes.
        let used = self.window.min((flight as f64 / self.mss).max(1.0) + 1.0);
        self.threshold = (used * BETA).max(2.0);
        self.epoch = None;
    }
}

impl CongestionControl for Cubic {
    fn on_ack(&mut self, ack: &Ack) {
        if !ack.limited || ack.recovering {
            // 4.2: time in which the application had nothing to send is not part of the epoch.
            if !ack.limited {
                self.epoch = None;
            }
            return;
        }
        let acked = ack.acked as f64 / self.mss;
        if self.window < self.threshold {
            self.window += acked.min(2.0);
            return;
        }
        if self.epoch.is_none() {
            self.begin_epoch(ack.now);
        }
        let rtt = ack.smoothed.map_or(0.0, |span| span.as_secs_f64());
        let t = self.epoch.map_or(0.0, |epoch| ack.now.since(epoch).as_secs_f64());
        // 4.3: alpha is 1 once W_est has reached cwnd_prior.
        let alpha = if self.friendly < self.prior { ALPHA } else { 1.0 };
        self.friendly += alpha * acked / self.window;
        if self.cubic(t) < self.friendly {
            self.window = self.window.max(self.friendly);
            return;
        }
        // 4.4 and 4.5: towards the value one round-trip time ahead, but not beyond 1.5 times the window in it.
        let target = self.cubic(t + rtt).clamp(self.window, 1.5 * self.window);
        self.window += (target - self.window) / self.window * acked;
    }
    fn on_congestion(&mut self, _now: Instant, flight: u64, _signal: Signal) {
        self.reduce(flight);
        self.window = self.threshold;
    }
    fn on_timeout(&mut self, _now: Instant, flight: u64, first: bool) {
        if first {
            self.reduce(flight);
        }
        self.epoch = None;
        self.window = 1.0;
    }
    fn on_recovered(&mut self, _now: Instant, flight: u64) {
        let flight = flight as f64 / self.mss;
        self.window = self.threshold.min(flight.max(1.0) + 1.0).max(self.window.min(self.threshold));
    }
    fn on_idle(&mut self, restart: u64) {
        self.window = self.window.min(restart as f64 / self.mss);
        self.epoch = None;
    }
    fn window(&self) -> u64 {
        (self.window * self.mss) as u64
    }
    fn threshold(&self) -> u64 {
        // Saturates at infinity.
        (self.threshold * self.mss) as u64
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
            flight: u64::MAX,
            limited: true,
            rtt: None,
            smoothed: Some(Span::from_millis(100)),
            delivered: 0,
            recovering: false,
        }
    }

    /// One acknowledgement a segment, a window a round trip of 100 ms.
    fn run(cubic: &mut Cubic, from_ms: u64, rounds: u64) {
        for round in 0..rounds {
            let segments = cubic.window() / 1000;
            for _ in 0..segments {
                cubic.on_ack(&ack(Span::from_millis(from_ms + 100 * round), 1000));
            }
        }
    }

    #[test]
    fn the_window_follows_the_cubic_of_the_rfc() {
        let mut cubic = Cubic::new(1000, 1_000_000);
        cubic.on_congestion(Instant::ZERO, 1_000_000, Signal::Loss);
        assert_eq!(cubic.window(), 700_000, "4.6: 0.7 of 1000 segments");
        // 4.2: K = cbrt(1000 * 0.3 / 0.4) = cbrt(750) = 9.0856 s. At t = K the window is W_max again.
        run(&mut cubic, 0, 91);
        let at_k = cubic.window() / 1000;
        assert!((990..=1001).contains(&at_k), "{at_k}");
        assert!((cubic.k - 9.0856).abs() < 1e-3);
        // At t = 15 s: 0.4 * (15 - 9.0856)^3 + 1000 = 1082.7; one round trip behind at most.
        run(&mut cubic, 9100, 60);
        let at_15 = cubic.window() / 1000;
        assert!((1075..=1090).contains(&at_15), "{at_15}");
    }

    #[test]
    fn a_small_window_grows_as_reno_would() {
        let mut cubic = Cubic::new(1000, 10_000);
        cubic.on_congestion(Instant::ZERO, 10_000, Signal::Loss);
        assert_eq!(cubic.window(), 7_000);
        // 4.3: alpha = 3 * 0.3 / 1.7 = 0.529 segments a round trip until 10 segments: K would be cbrt(7.5) = 1.96 s,
        // in which Reno makes 0.529 * 19.6 = 10.4 segments: the friendly region rules.
        run(&mut cubic, 0, 4);
        let window = cubic.window();
        assert!((8_800..=9_300).contains(&window), "7 + 4 * 0.529 = 9.1, not {window}");
    }

    #[test]
    fn fast_convergence_gives_way() {
        let mut cubic = Cubic::new(1000, 100_000);
        cubic.on_congestion(Instant::ZERO, 100_000, Signal::Loss);
        cubic.on_congestion(Instant::ZERO, 70_000, Signal::Loss);
        // 70 < 100, so W_max = 70 * 1.7 / 2 = 59.5.
        assert!((cubic.most - 59.5).abs() < 1e-9);
        assert_eq!(cubic.window(), 49_000);
        cubic.on_timeout(Instant::ZERO, 49_000, true);
        assert_eq!((cubic.window(), cubic.threshold()), (1000, 34_300));
    }
}
