//! [`CongestionControl`]: how much may be in flight, apart from how losses are found and repaired.

use tidegate_core::{Instant, Rate, Span};

use super::cubic::Cubic;

/// New data was acknowledged.
#[derive(Clone, Copy, Debug)]
pub struct Ack {
    /// Now.
    pub now: Instant,
    /// Bytes that this acknowledgement covers for the first time, cumulatively.
    pub acked: u64,
    /// Bytes in flight before it.
    pub flight: u64,
    /// Whether the congestion window was what held the sender back; a window that is not used must not grow.
    pub limited: bool,
    /// A round-trip time, when this acknowledgement gave one.
    pub rtt: Option<Span>,
    /// The smoothed round-trip time.
    pub smoothed: Option<Span>,
    /// All bytes delivered to the other end so far, selectively acknowledged ones included.
    pub delivered: u64,
    /// Whether losses are being repaired by fast recovery (the window is then not increased by Reno and CUBIC).
    pub recovering: bool,
}

/// What tells of congestion.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Signal {
    /// A loss, found by duplicate acknowledgements or SACK.
    Loss,
    /// An echo of a congestion experienced mark (RFC 3168).
    Ecn,
}

/// A congestion control. Windows are in bytes. The caller signals at most one congestion event a window of data.
///
/// Rate-based controls fit too: [`CongestionControl::pacing`] spaces the segments, and [`Ack`] carries the
/// delivery count that a bandwidth estimate needs.
pub trait CongestionControl {
    /// New data was acknowledged.
    fn on_ack(&mut self, ack: &Ack);
    /// Congestion, with `flight` bytes outstanding.
    fn on_congestion(&mut self, now: Instant, flight: u64, signal: Signal);
    /// The retransmission timer ran out; `first` when it had not run out before for the same segment.
    fn on_timeout(&mut self, now: Instant, flight: u64, first: bool);
    /// Fast recovery is over, with `flight` bytes outstanding.
    fn on_recovered(&mut self, now: Instant, flight: u64);
    /// Nothing was sent for longer than a retransmission timeout: the window must not exceed `restart`.
    fn on_idle(&mut self, restart: u64);
    /// The congestion window.
    fn window(&self) -> u64;
    /// The slow start threshold.
    fn threshold(&self) -> u64;
    /// The rate at which segments are to be spaced; `None` sends them as the window allows.
    fn pacing(&self) -> Option<Rate> {
        None
    }
}

/// Which congestion control a connection uses.
#[derive(Clone, Copy, Debug, Default)]
pub enum Algorithm {
    /// Slow start and additive increase (RFC 5681).
    #[default]
    Reno,
    /// CUBIC (RFC 9438).
    Cubic,
    /// One of your own: makes it from (segment size, initial window).
    Custom(fn(u64, u64) -> Box<dyn CongestionControl>),
}

/// The congestion control of a connection, without a virtual call for those of the house.
pub(crate) enum Controller {
    Reno(Reno),
    Cubic(Cubic),
    Custom(Box<dyn CongestionControl>),
}

macro_rules! each {
    ($self:expr, $c:ident => $body:expr) => {
        match $self {
            Controller::Reno($c) => $body,
            Controller::Cubic($c) => $body,
            Controller::Custom($c) => $body,
        }
    };
}

impl Controller {
    pub fn new(algorithm: Algorithm, mss: u64, initial: u64) -> Self {
        match algorithm {
            Algorithm::Reno => Self::Reno(Reno::new(mss, initial)),
            Algorithm::Cubic => Self::Cubic(Cubic::new(mss, initial)),
            Algorithm::Custom(make) => Self::Custom(make(mss, initial)),
        }
    }
    pub fn on_ack(&mut self, ack: &Ack) {
        each!(self, c => c.on_ack(ack));
    }
    pub fn on_congestion(&mut self, now: Instant, flight: u64, signal: Signal) {
        each!(self, c => c.on_congestion(now, flight, signal));
    }
    pub fn on_timeout(&mut self, now: Instant, flight: u64, first: bool) {
        each!(self, c => c.on_timeout(now, flight, first));
    }
    pub fn on_recovered(&mut self, now: Instant, flight: u64) {
        each!(self, c => c.on_recovered(now, flight));
    }
    pub fn on_idle(&mut self, restart: u64) {
        each!(self, c => c.on_idle(restart));
    }
    pub fn window(&self) -> u64 {
        each!(self, c => c.window())
    }
    pub fn threshold(&self) -> u64 {
        each!(self, c => c.threshold())
    }
    pub fn pacing(&self) -> Option<Rate> {
        match self {
            Self::Custom(c) => c.pacing(),
            Self::Reno(_) | Self::Cubic(_) => None,
        }
    }
}

impl core::fmt::Debug for Controller {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        write!(f, "cwnd {} ssthresh {}", self.window(), self.threshold())
    }
}

/// Slow start and congestion avoidance of RFC 5681, with appropriate byte counting (RFC 3465, L = 2 segments).
#[derive(Clone, Debug)]
pub struct Reno {
    mss: u64,
    window: u64,
    threshold: u64,
    // Bytes acknowledged since the window last grew, in congestion avoidance.
    credit: u64,
}

impl Reno {
    /// A window of `initial` bytes, in slow start.
    pub fn new(mss: u64, initial: u64) -> Self {
        Self { mss, window: initial, threshold: u64::MAX, credit: 0 }
    }
}

impl CongestionControl for Reno {
    fn on_ack(&mut self, ack: &Ack) {
        if !ack.limited || ack.recovering {
            return;
        }
        if self.window < self.threshold {
            self.window += ack.acked.min(2 * self.mss);
            return;
        }
        // One segment for each window of acknowledged bytes.
        self.credit += ack.acked;
        if self.credit >= self.window {
            self.credit -= self.window;
            self.window += self.mss;
        }
    }
    fn on_congestion(&mut self, _now: Instant, flight: u64, _signal: Signal) {
        // RFC 5681, equation 4.
        self.threshold = (flight / 2).max(2 * self.mss);
        self.window = self.threshold;
        self.credit = 0;
    }
    fn on_timeout(&mut self, _now: Instant, flight: u64, first: bool) {
        if first {
            self.threshold = (flight / 2).max(2 * self.mss);
        }
        self.window = self.mss;
        self.credit = 0;
    }
    fn on_recovered(&mut self, _now: Instant, flight: u64) {
        // RFC 6582, step 3 of section 3.2, first option: no burst when little is in flight.
        self.window = self.threshold.min(flight.max(self.mss) + self.mss);
    }
    fn on_idle(&mut self, restart: u64) {
        self.window = self.window.min(restart);
    }
    fn window(&self) -> u64 {
        self.window
    }
    fn threshold(&self) -> u64 {
        self.threshold
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ack(acked: u64) -> Ack {
        Ack {
            now: Instant::ZERO,
            acked,
            flight: u64::MAX,
            limited: true,
            rtt: None,
            smoothed: None,
            delivered: 0,
            recovering: false,
        }
    }

    #[test]
    fn reno_doubles_then_adds() {
        let mut reno = Reno::new(1000, 2000);
        for _ in 0..2 {
            reno.on_ack(&ack(1000));
        }
        assert_eq!(reno.window(), 4000, "slow start: one segment for each acknowledged segment");
        reno.on_ack(&ack(5000));
        assert_eq!(reno.window(), 6000, "but at most two segments for one acknowledgement");
        reno.on_congestion(Instant::ZERO, 9000, Signal::Loss);
        assert_eq!((reno.window(), reno.threshold()), (4500, 4500));
        for _ in 0..4 {
            reno.on_ack(&ack(1000));
        }
        assert_eq!(reno.window(), 4500, "4000 of the 4500 bytes of a window are acknowledged");
        reno.on_ack(&ack(1000));
        assert_eq!(reno.window(), 5500, "5000: one segment more");
        reno.on_ack(&Ack { limited: false, ..ack(100_000) });
        assert_eq!(reno.window(), 5500, "a window that is not used does not grow");
        reno.on_timeout(Instant::ZERO, 5500, true);
        assert_eq!((reno.window(), reno.threshold()), (1000, 2750));
        reno.on_timeout(Instant::ZERO, 1000, false);
        assert_eq!(reno.threshold(), 2750, "held constant when the timer runs out again");
    }
}
