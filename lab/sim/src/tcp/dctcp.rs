//! DCTCP: reduces cwnd in proportion to the fraction of bytes that were marked.
//!
//! *Source*: RFC 8257, section 3.3 (alpha, equation for cwnd) with g = 1/16 (section 4.2). The window grows as with
//! Reno.
//! *Units*: bytes; alpha has 20 bits of fraction.
//! *Notes*: the receiver echoes marks packet by packet (section 3.2), which the endpoint does if both ends run DCTCP.
//! alpha begins at 1, so that the first mark halves cwnd.

use tidegate_core::Instant;

use super::congestion::{Ack, CongestionControl, CongestionSignal, Reno};

/// One, in the units of alpha.
const ONE: u64 = 1 << 20;
/// g is two to the power of minus this.
const GAIN: u32 = 4;

/// DCTCP. See the [module](self).
#[derive(Clone, Debug)]
pub struct Dctcp {
    reno: Reno,
    mss: u64,
    alpha: u64,
    window_end: u64,
    /// The ECN counts, capable and CE, at the start of the observation window.
    seen: (u64, u64),
}

impl Dctcp {
    /// Begins in slow start with a cwnd of `initial` bytes.
    pub fn new(mss: u64, initial: u64) -> Self {
        Self { reno: Reno::new(mss, initial), mss, alpha: ONE, window_end: 0, seen: (0, 0) }
    }
    /// The estimated fraction of marked bytes, 0 to 1.
    pub fn alpha(&self) -> f64 {
        self.alpha as f64 / ONE as f64
    }
}

impl CongestionControl for Dctcp {
    fn on_ack(&mut self, ack: &Ack) {
        if ack.una > self.window_end {
            // Once for each window of data, about an RTT.
            let (acked, marked) = (ack.ecn.capable - self.seen.0, ack.ecn.ce - self.seen.1);
            if let Some(part) = (marked * ONE).checked_div(acked) {
                self.alpha = (self.alpha - (self.alpha >> GAIN) + (part >> GAIN)).min(ONE);
            }
            self.seen = (ack.ecn.capable, ack.ecn.ce);
            self.window_end = ack.nxt;
        }
        self.reno.on_ack(ack);
    }
    fn on_congestion(&mut self, now: Instant, flight_size: u64, signal: CongestionSignal) {
        match signal {
            CongestionSignal::Loss => self.reno.on_congestion(now, flight_size, signal),
            CongestionSignal::Ecn => {
                let cwnd = self.reno.cwnd();
                let less = (u128::from(cwnd) * u128::from(self.alpha) / u128::from(2 * ONE)) as u64;
                self.reno.set_window((cwnd - less).max(2 * self.mss));
            }
        }
    }
    fn on_timeout(&mut self, now: Instant, flight_size: u64, first: bool) {
        self.reno.on_timeout(now, flight_size, first);
    }
    fn on_recovered(&mut self, now: Instant, flight_size: u64) {
        self.reno.on_recovered(now, flight_size);
    }
    fn on_idle(&mut self, restart: u64) {
        self.reno.on_idle(restart);
    }
    fn exit_slow_start(&mut self) {
        self.reno.exit_slow_start();
    }
    fn cwnd(&self) -> u64 {
        self.reno.cwnd()
    }
    fn ssthresh(&self) -> u64 {
        self.reno.ssthresh()
    }
}
