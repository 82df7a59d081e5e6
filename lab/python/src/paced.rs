//! [`Paced`]: a congestion control whose pacing rate a function returns.

use pyo3::exceptions::PyValueError;
use tidegate_core::{Instant, Rate};
use tidegate_sim::tcp::{Ack, CongestionControl, CongestionSignal, DeliverySample};

use crate::failure;
use crate::function::Function;

/// A congestion control whose rate in bit/s is the result of a function `f(now_ns, srtt_ns, min_rtt_ns, delivery_bps,
/// losses)`, which is called for each acknowledgement of new data. The window is twice the rate times the smoothed RTT,
/// and at least four segments.
pub struct Paced {
    function: Function,
    mss: u64,
    cwnd: u64,
    pacing: Option<Rate>,
    /// The minimum RTT so far in ns; 0 before the first sample.
    least_ns: u64,
    /// The last measured delivery rate, in bit/s.
    delivery_bps: u64,
    /// The number of congestion indications and timeouts.
    losses: u64,
}

impl Paced {
    pub fn new(function: Function, mss: u64, initial: u64) -> Self {
        Self { function, mss, cwnd: initial, pacing: None, least_ns: 0, delivery_bps: 0, losses: 0 }
    }
}

impl CongestionControl for Paced {
    fn on_ack(&mut self, ack: &Ack) {
        if let Some(rtt) = ack.rtt.map(|rtt| rtt.as_nanos()) {
            self.least_ns = if self.least_ns == 0 { rtt } else { self.least_ns.min(rtt) };
        }
        let srtt_ns = ack.srtt.map(|srtt| srtt.as_nanos()).filter(|srtt| *srtt > 0).unwrap_or(self.least_ns);
        let state = [ack.now.as_nanos(), srtt_ns, self.least_ns, self.delivery_bps, self.losses];
        let rate = self.function.call(state).and_then(|rate| {
            if rate > 0.0 && rate.is_finite() {
                return Ok(rate);
            }
            let text = format!("the pacing rate is {rate:?}: a finite number of bit/s above 0 is expected");
            Err(PyValueError::new_err(text))
        });
        let rate = rate.unwrap_or_else(|error| failure::unwind(error));
        // There is no pacing with a rate below 1 bit/s.
        self.pacing = Some(rate as u64).filter(|bps| *bps > 0).map(Rate::from_bps);
        self.cwnd = ((2.0 * rate * srtt_ns as f64 / 8e9) as u64).max(4 * self.mss);
    }
    fn on_sample(&mut self, _now: Instant, sample: &DeliverySample) {
        if let Some(rate) = sample.rate {
            self.delivery_bps = rate.as_bps();
        }
    }
    fn on_congestion(&mut self, _now: Instant, _flight_size: u64, _signal: CongestionSignal) {
        self.losses += 1;
    }
    fn on_timeout(&mut self, _now: Instant, _flight_size: u64, _first: bool) {
        self.losses += 1;
    }
    fn on_recovered(&mut self, _now: Instant, _flight_size: u64) {}
    fn on_idle(&mut self, restart: u64) {
        self.cwnd = self.cwnd.min(restart);
    }
    fn cwnd(&self) -> u64 {
        self.cwnd
    }
    fn ssthresh(&self) -> u64 {
        u64::MAX
    }
    fn pacing(&self) -> Option<Rate> {
        self.pacing
    }
}
