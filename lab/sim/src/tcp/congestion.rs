//! [`CongestionControl`]: the congestion window, independent of how losses are detected and repaired.

use std::fmt;

use tidegate_core::{Instant, Rate, Span};

use super::cubic::Cubic;
use super::dctcp::Dctcp;

/// An acknowledgement of new data.
#[derive(Clone, Copy, Debug)]
pub struct Ack {
    /// The time of its arrival.
    pub now: Instant,
    /// Bytes by which it advances SND.UNA.
    pub acked: u64,
    /// FlightSize (RFC 5681, section 2) before it.
    pub flight_size: u64,
    /// Whether cwnd limited the sender. A window that is not used must not grow (RFC 7661).
    pub cwnd_limited: bool,
    /// The RTT sample that it completes, if any.
    pub rtt: Option<Span>,
    /// SRTT.
    pub srtt: Option<Span>,
    /// Bytes delivered so far: cumulatively and selectively acknowledged.
    pub delivered: u64,
    /// The loss recovery in progress before it.
    pub recovery: LossRecovery,
    /// SND.UNA after it.
    pub una: u64,
    /// SND.NXT: a round trip ends when this is acknowledged.
    pub nxt: u64,
    /// What the receiver has reported of ECN so far.
    pub ecn: EcnCounts,
}

/// Counts of what the receiver has reported of ECN since the start of the connection.
///
/// Of TCP these are bytes, those that were acknowledged with ECN-Echo being `ce`: exact where the receiver echoes packet by
/// packet (DCTCP, RFC 8257), and without meaning beyond zero or not where it repeats ECN-Echo (RFC 3168). A transport that
/// reports counts of its own, as QUIC does (RFC 9000, section 19.3.2), passes those.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct EcnCounts {
    /// Delivered with an ECN-capable code point, marked or not.
    pub capable: u64,
    /// Of these, delivered with "congestion experienced".
    pub ce: u64,
}

/// What was delivered with an acknowledgement, cumulative or selective
/// (draft-cheng-iccrg-delivery-rate-estimation-02, section 3).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct DeliverySample {
    /// `delivered` over `interval`, which is the longer of the time of sending and the time of acknowledging; `None` where
    /// that is shorter than the least RTT, as for a burst of acknowledgements.
    pub rate: Option<Rate>,
    /// Bytes delivered in the interval.
    pub delivered: u64,
    /// All that was delivered when the newest of the segments was sent: a round trip has ended when this passes what was
    /// delivered at its start.
    pub prior_delivered: u64,
    /// The interval.
    pub interval: Span,
    /// The RTT of the newest segment, unless it was retransmitted.
    pub rtt: Option<Span>,
    /// Bytes in the network after it.
    pub in_flight: u64,
    /// Whether the application had nothing more to send when the newest segment was sent: the rate is then at least this.
    pub app_limited: bool,
    /// Whether the newest segment was retransmitted.
    pub retransmitted: bool,
}

/// The loss recovery that is in progress when an acknowledgement arrives.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum LossRecovery {
    /// No recovery is in progress.
    #[default]
    None,
    /// Fast recovery, in which Reno and CUBIC do not increase cwnd.
    Fast,
    /// The slow start that follows a retransmission timeout.
    Timeout,
}

impl Ack {
    /// The limit L of appropriate byte counting in slow start, in segments: 2, and 1 after a timeout, when an
    /// acknowledgement may cover segments that left the network long before (RFC 3465, sections 2.2 and 2.3).
    pub(crate) fn abc_limit(&self) -> u64 {
        if self.recovery == LossRecovery::Timeout { 1 } else { 2 }
    }
}

/// An indication of congestion.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum CongestionSignal {
    /// A loss detected by duplicate acknowledgements or SACK.
    Loss,
    /// ECN-Echo (RFC 3168).
    Ecn,
}

/// A congestion control. Windows are in bytes. The caller indicates congestion at most once for a window of data.
///
/// A control that is based on rates, such as BBR, reads [`DeliverySample`]s, returns its rate from
/// [`CongestionControl::pacing`] and bounds what is in the network by [`CongestionControl::cwnd`]. One that is based on
/// marks, such as Prague, reads [`EcnCounts`]. Nothing here is of TCP alone: a QUIC stack in virtual time calls the same
/// methods with its packet numbers mapped to bytes sent.
pub trait CongestionControl {
    /// Processes an acknowledgement of new data.
    fn on_ack(&mut self, ack: &Ack);
    /// Processes what an acknowledgement, cumulative or selective, shows of the rate of delivery. Called before
    /// [`CongestionControl::on_ack`]. Only controls that are not built in receive samples, unless RACK is used.
    fn on_sample(&mut self, _now: Instant, _sample: &DeliverySample) {}
    /// Slow start is to end at the present cwnd (HyStart++).
    fn exit_slow_start(&mut self) {}
    /// Reduces cwnd; called when congestion is indicated while `flight_size` bytes are in the network.
    fn on_congestion(&mut self, now: Instant, flight_size: u64, signal: CongestionSignal);
    /// The retransmission timer expired while `flight_size` bytes are in the network; `first` unless it expired before
    /// for the same segment.
    fn on_timeout(&mut self, now: Instant, flight_size: u64, first: bool);
    /// NewReno's fast recovery ended with `flight_size` bytes outstanding.
    fn on_recovered(&mut self, now: Instant, flight_size: u64);
    /// Nothing was sent for longer than an RTO: cwnd must not exceed `restart`, the restart window.
    fn on_idle(&mut self, restart: u64);
    /// The congestion window, cwnd.
    fn cwnd(&self) -> u64;
    /// The slow start threshold, ssthresh.
    fn ssthresh(&self) -> u64;
    /// The pacing rate; `None` sends as soon as cwnd allows.
    fn pacing(&self) -> Option<Rate> {
        None
    }
}

/// A constructor of a congestion control, called for each connection with (SMSS, initial window) in bytes.
pub type Make = dyn Fn(u64, u64) -> Box<dyn CongestionControl> + Send + Sync;

/// The congestion control of a connection.
#[derive(Clone, Copy, Default)]
pub enum Algorithm {
    /// Slow start and additive increase (RFC 5681).
    #[default]
    Reno,
    /// CUBIC (RFC 9438).
    Cubic,
    /// DCTCP (RFC 8257). Both ends echo marks packet by packet.
    Dctcp,
    /// Another one.
    Custom(&'static Make),
}

impl fmt::Debug for Algorithm {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Reno => "Reno",
            Self::Cubic => "Cubic",
            Self::Dctcp => "Dctcp",
            Self::Custom(_) => "Custom",
        })
    }
}

/// The congestion control of a connection, without a virtual call for those that are built in.
pub(crate) enum Controller {
    Reno(Reno),
    /// Twice the size of Reno's.
    Cubic(Box<Cubic>),
    Dctcp(Box<Dctcp>),
    Custom(Box<dyn CongestionControl>),
}

macro_rules! each {
    ($self:expr, $c:ident => $body:expr) => {
        match $self {
            Controller::Reno($c) => $body,
            Controller::Cubic($c) => $body,
            Controller::Dctcp($c) => $body,
            Controller::Custom($c) => $body,
        }
    };
}

impl Controller {
    pub fn new(algorithm: Algorithm, mss: u64, initial: u64) -> Self {
        match algorithm {
            Algorithm::Reno => Self::Reno(Reno::new(mss, initial)),
            Algorithm::Cubic => Self::Cubic(Box::new(Cubic::new(mss, initial))),
            Algorithm::Dctcp => Self::Dctcp(Box::new(Dctcp::new(mss, initial))),
            Algorithm::Custom(make) => Self::Custom(make(mss, initial)),
        }
    }
    pub fn on_ack(&mut self, ack: &Ack) {
        each!(self, c => c.on_ack(ack));
    }
    pub fn on_sample(&mut self, now: Instant, sample: &DeliverySample) {
        each!(self, c => c.on_sample(now, sample));
    }
    pub fn exit_slow_start(&mut self) {
        each!(self, c => c.exit_slow_start());
    }
    pub fn on_congestion(&mut self, now: Instant, flight_size: u64, signal: CongestionSignal) {
        each!(self, c => c.on_congestion(now, flight_size, signal));
    }
    pub fn on_timeout(&mut self, now: Instant, flight_size: u64, first: bool) {
        each!(self, c => c.on_timeout(now, flight_size, first));
    }
    pub fn on_recovered(&mut self, now: Instant, flight_size: u64) {
        each!(self, c => c.on_recovered(now, flight_size));
    }
    pub fn on_idle(&mut self, restart: u64) {
        each!(self, c => c.on_idle(restart));
    }
    pub fn cwnd(&self) -> u64 {
        each!(self, c => c.cwnd())
    }
    pub fn ssthresh(&self) -> u64 {
        each!(self, c => c.ssthresh())
    }
    pub fn pacing(&self) -> Option<Rate> {
        match self {
            Self::Custom(c) => c.pacing(),
            Self::Reno(_) | Self::Cubic(_) | Self::Dctcp(_) => None,
        }
    }
}

impl fmt::Debug for Controller {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "cwnd {} ssthresh {}", self.cwnd(), self.ssthresh())
    }
}

/// Slow start and congestion avoidance of RFC 5681, with appropriate byte counting (RFC 3465, L = 2 segments, 1 after
/// a timeout).
#[derive(Clone, Debug)]
pub struct Reno {
    mss: u64,
    cwnd: u64,
    ssthresh: u64,
    // Bytes acknowledged in congestion avoidance since cwnd last grew (RFC 3465: bytes_acked).
    bytes_acked: u64,
}

impl Reno {
    /// A cwnd of `initial` bytes, in slow start.
    pub fn new(mss: u64, initial: u64) -> Self {
        Self { mss, cwnd: initial, ssthresh: u64::MAX, bytes_acked: 0 }
    }
    /// Half of the flight, in whole segments (RFC 5681, equation 4, an upper bound). A fraction of a segment is never sent,
    /// but would have to be acknowledged before cwnd grows; Linux and FreeBSD round down as well.
    fn half_of(&self, flight_size: u64) -> u64 {
        (flight_size / 2 / self.mss).max(2) * self.mss
    }
    /// Sets cwnd and ssthresh to `bytes`.
    pub(super) fn set_window(&mut self, bytes: u64) {
        (self.cwnd, self.ssthresh, self.bytes_acked) = (bytes, bytes, 0);
    }
}

impl CongestionControl for Reno {
    fn on_ack(&mut self, ack: &Ack) {
        if !ack.cwnd_limited || ack.recovery == LossRecovery::Fast {
            return;
        }
        if self.cwnd < self.ssthresh {
            self.cwnd += ack.acked.min(ack.abc_limit() * self.mss);
            return;
        }
        // RFC 3465, 2.1: one segment for each cwnd of acknowledged bytes.
        self.bytes_acked += ack.acked;
        if self.bytes_acked >= self.cwnd {
            self.bytes_acked -= self.cwnd;
            self.cwnd += self.mss;
        }
    }
    fn on_congestion(&mut self, _now: Instant, flight_size: u64, _signal: CongestionSignal) {
        self.ssthresh = self.half_of(flight_size);
        self.cwnd = self.ssthresh;
        self.bytes_acked = 0;
    }
    fn on_timeout(&mut self, _now: Instant, flight_size: u64, first: bool) {
        if first {
            self.ssthresh = self.half_of(flight_size);
        }
        self.cwnd = self.mss;
        self.bytes_acked = 0;
    }
    fn on_recovered(&mut self, _now: Instant, flight_size: u64) {
        // RFC 6582, section 3.2, step 3, option 1: prevents a burst when little is in flight.
        self.cwnd = self.ssthresh.min(flight_size.max(self.mss) + self.mss);
    }
    fn on_idle(&mut self, restart: u64) {
        self.cwnd = self.cwnd.min(restart);
    }
    fn exit_slow_start(&mut self) {
        self.ssthresh = self.cwnd;
    }
    fn cwnd(&self) -> u64 {
        self.cwnd
    }
    fn ssthresh(&self) -> u64 {
        self.ssthresh
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ack(acked: u64) -> Ack {
        Ack {
            now: Instant::ZERO,
            acked,
            flight_size: u64::MAX,
            cwnd_limited: true,
            rtt: None,
            srtt: None,
            delivered: 0,
            recovery: LossRecovery::None,
            una: 0,
            nxt: 0,
            ecn: EcnCounts::default(),
        }
    }

    #[test]
    fn reno_doubles_then_adds() {
        let mut reno = Reno::new(1000, 2000);
        for _ in 0..2 {
            reno.on_ack(&ack(1000));
        }
        assert_eq!(reno.cwnd(), 4000, "slow start: one segment for each acknowledged segment");
        reno.on_ack(&ack(5000));
        assert_eq!(reno.cwnd(), 6000, "at most two segments for one acknowledgement");
        reno.on_ack(&Ack { recovery: LossRecovery::Fast, ..ack(5000) });
        assert_eq!(reno.cwnd(), 6000, "none in fast recovery");
        reno.on_congestion(Instant::ZERO, 9000, CongestionSignal::Loss);
        assert_eq!((reno.cwnd(), reno.ssthresh()), (4000, 4000), "whole segments");
        for _ in 0..3 {
            reno.on_ack(&ack(1000));
        }
        assert_eq!(reno.cwnd(), 4000, "3000 of the 4000 bytes of a window are acknowledged");
        reno.on_ack(&ack(1000));
        assert_eq!(reno.cwnd(), 5000, "4000: one more segment");
        reno.on_ack(&Ack { cwnd_limited: false, ..ack(100_000) });
        assert_eq!(reno.cwnd(), 5000, "a window that is not used does not grow");
        reno.on_timeout(Instant::ZERO, 6900, true);
        assert_eq!((reno.cwnd(), reno.ssthresh()), (1000, 3000));
        reno.on_timeout(Instant::ZERO, 1000, false);
        assert_eq!(reno.ssthresh(), 3000, "held constant when the timer expires again");
        reno.on_ack(&Ack { recovery: LossRecovery::Timeout, ..ack(5000) });
        assert_eq!(reno.cwnd(), 2000, "one segment for each acknowledgement after a timeout");
    }
}
