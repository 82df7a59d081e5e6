//! [`CongestionControl`]: the congestion window, independent of how losses are detected and repaired.

use std::fmt;

use tidegate_core::{Instant, Rate, Span};

use super::bbr::Bbr;
use super::cubic::Cubic;
use super::dctcp::Dctcp;
use super::prague::Prague;

/// An acknowledgement of new data.
#[derive(Clone, Copy, Debug)]
pub struct Ack {
    /// The time of its arrival.
    pub now: Instant,
    /// How many bytes it acknowledges, that is, how far it advances SND.UNA.
    pub acked: u64,
    /// FlightSize (RFC 5681, section 2) before the acknowledgement.
    pub flight_size: u64,
    /// Whether cwnd or pacing limited the sender. A window that is not fully used must not grow (RFC 7661).
    pub cwnd_limited: bool,
    /// The RTT sample that the acknowledgement completes, if any.
    pub rtt: Option<Span>,
    /// SRTT.
    pub srtt: Option<Span>,
    /// Bytes delivered so far, acknowledged cumulatively or selectively.
    pub delivered: u64,
    /// The loss recovery in progress before the acknowledgement.
    pub recovery: LossRecovery,
    /// SND.UNA after the acknowledgement.
    pub una: u64,
    /// SND.NXT. A round trip ends when this number is acknowledged.
    pub nxt: u64,
    /// The ECN counts that the receiver has reported so far.
    pub ecn: EcnCounts,
}

/// ECN counts that the receiver has reported since the start of the connection.
///
/// For TCP these are bytes. With accurate feedback (RFC 9768) they are exact. With classic feedback `ce` counts those
/// acknowledged with ECN-Echo. This is exact if the receiver echoes packet by packet (DCTCP, RFC 8257). If it repeats
/// ECN-Echo until CWR (RFC 3168), only whether `ce` grows is meaningful. A transport that counts packets, such as QUIC
/// (RFC 9000, section 19.3.2), passes as many full packets, because a control takes `ce` off [`Ack::acked`].
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct EcnCounts {
    /// Delivered with an ECN-capable code point, marked or not.
    pub capable: u64,
    /// The part of `capable` that was delivered with "congestion experienced".
    pub ce: u64,
}

/// How a receiver reports congestion marks to the sender.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum EcnFeedback {
    /// Not at all.
    #[default]
    None,
    /// ECN-Echo, once in a round trip (RFC 3168), or packet by packet for DCTCP (RFC 8257).
    Classic,
    /// Counts of packets and bytes (RFC 9768).
    Accurate,
}

/// The delivery rate sample of an acknowledgement, cumulative or selective
/// (draft-cheng-iccrg-delivery-rate-estimation-02, section 3).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct DeliverySample {
    /// The delivery rate: `delivered` over `interval`. `None` if the interval is shorter than the smallest RTT, as for
    /// a burst of acknowledgements.
    pub rate: Option<Rate>,
    /// Bytes delivered in the interval.
    pub delivered: u64,
    /// The total delivered when the newest segment was sent. A round trip ends when this exceeds the total delivered at
    /// its start.
    pub prior_delivered: u64,
    /// The longer of the time of sending and the time of acknowledging.
    pub interval: Span,
    /// The RTT of the newest segment, unless it was retransmitted.
    pub rtt: Option<Span>,
    /// Bytes in the network after the acknowledgement.
    pub in_flight: u64,
    /// Whether the application had no more data when the newest segment was sent. The rate is then a lower bound.
    pub app_limited: bool,
    /// Whether the newest segment was retransmitted.
    pub retransmitted: bool,
    /// Bytes that this acknowledgement newly delivers, cumulatively or selectively.
    pub newly_acked: u64,
    /// Bytes considered lost since the newest segment was sent.
    pub lost: u64,
    /// Bytes in the network right after the newest segment was sent.
    pub tx_in_flight: u64,
}

/// A segment that is considered lost.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct LostSegment {
    /// The sequence number of its first byte.
    pub start: u64,
    /// Its length in bytes.
    pub size: u64,
    /// Bytes in the network right after it was sent.
    pub tx_in_flight: u64,
    /// Bytes considered lost since it was sent, its own included.
    pub lost: u64,
    /// Whether the application had no more data when it was sent.
    pub app_limited: bool,
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

/// A congestion signal.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum CongestionSignal {
    /// A loss detected by duplicate acknowledgements or SACK.
    Loss,
    /// ECN-Echo (RFC 3168).
    Ecn,
}

/// A congestion control. Windows are in bytes. The caller signals congestion at most once for each window of data.
///
/// A rate-based control such as BBR reads [`DeliverySample`]s, returns its rate from [`CongestionControl::pacing`] and
/// limits the data in the network by [`CongestionControl::cwnd`]. A mark-based control such as Prague reads
/// [`EcnCounts`]. Nothing in this trait is specific to TCP: a QUIC stack in virtual time calls the same methods, with
/// packet numbers mapped to bytes sent.
pub trait CongestionControl: Send {
    /// Processes an acknowledgement of new data.
    fn on_ack(&mut self, ack: &Ack);
    /// Processes the delivery rate sample of an acknowledgement. Called before [`CongestionControl::on_ack`]. Built-in
    /// controls receive samples only if RACK is used.
    fn on_sample(&mut self, _now: Instant, _sample: &DeliverySample) {}
    /// Processes the loss of a segment that RACK has detected. Called for BBR and for controls from outside of this
    /// crate.
    fn on_lost(&mut self, _now: Instant, _lost: &LostSegment) {}
    /// Begins the data transfer. `srtt` is the RTT of the handshake, if it was measured.
    fn on_established(&mut self, _now: Instant, _srtt: Option<Span>) {}
    /// States how marks are reported: after the handshake, and again when the path turns out to hide them.
    fn on_ecn_feedback(&mut self, _feedback: EcnFeedback) {}
    /// Sends the first data after everything was delivered or lost. `app_limited`: because the application had no more.
    fn on_restart(&mut self, _now: Instant, _app_limited: bool) {}
    /// Ends a loss recovery of any kind.
    fn on_recovery_end(&mut self) {}
    /// Whether the rate is kept low on purpose, so that delivery rates of data that is sent now are only lower bounds.
    fn limits_samples(&self) -> bool {
        false
    }
    /// Ends slow start at the current cwnd (HyStart++).
    fn exit_slow_start(&mut self) {}
    /// Reduces cwnd. Called when congestion is signalled while `flight_size` bytes are in the network.
    fn on_congestion(&mut self, now: Instant, flight_size: u64, signal: CongestionSignal);
    /// Handles the expiry of the retransmission timer with `flight_size` bytes in the network. `first` is false if the
    /// timer expired before for the same segment.
    fn on_timeout(&mut self, now: Instant, flight_size: u64, first: bool);
    /// Handles the end of NewReno's fast recovery, with `flight_size` bytes outstanding.
    fn on_recovered(&mut self, now: Instant, flight_size: u64);
    /// Reduces cwnd to at most `restart`, the restart window, after nothing was sent for longer than an RTO.
    fn on_idle(&mut self, restart: u64);
    /// The congestion window, cwnd.
    fn cwnd(&self) -> u64;
    /// The slow start threshold, ssthresh.
    fn ssthresh(&self) -> u64;
    /// The pacing rate; `None` sends as soon as cwnd allows.
    fn pacing(&self) -> Option<Rate> {
        None
    }
    /// Its phase, for traces, of a control that has others than slow start and congestion avoidance.
    fn phase(&self) -> Option<&'static str> {
        None
    }
    /// Slow start below ssthresh, and congestion avoidance from it on (RFC 5681, section 3.1).
    fn usual_phase(&self) -> &'static str {
        if self.cwnd() < self.ssthresh() { "slow start" } else { "congestion avoidance" }
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
    /// Prague, for L4S. It detects losses by RACK.
    Prague,
    /// BBRv3. It detects losses by RACK.
    Bbr,
    /// A control from outside of this crate.
    Custom(&'static Make),
}

/// Controls from outside are equal that have one constructor.
impl PartialEq for Algorithm {
    fn eq(&self, other: &Self) -> bool {
        match (self, other) {
            (Self::Custom(make), Self::Custom(other)) => std::ptr::eq(*make, *other),
            _ => std::mem::discriminant(self) == std::mem::discriminant(other),
        }
    }
}

impl fmt::Debug for Algorithm {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Reno => "Reno",
            Self::Cubic => "Cubic",
            Self::Dctcp => "Dctcp",
            Self::Prague => "Prague",
            Self::Bbr => "Bbr",
            // Registries tell settings apart by this text: it names the constructor itself, not the place that refers to it, and
            // with its functions, because constructors without settings all have one address.
            Self::Custom(make) => return write!(f, "Custom({:?})", std::ptr::from_ref(*make)),
        })
    }
}

impl Algorithm {
    /// Its name in answers.
    pub fn name(&self) -> String {
        match self {
            Self::Custom(_) => "a control of its own".to_owned(),
            control => format!("{control:?}").to_lowercase(),
        }
    }
    /// Creates a control for a transport outside of this crate, in slow start. `seed` is for controls that draw random
    /// numbers.
    pub fn control(self, mss: u64, initial: u64, seed: u64) -> Box<dyn CongestionControl> {
        match Controller::new(self, mss, initial, seed) {
            Controller::Reno(control) => Box::new(control),
            Controller::Cubic(control) => control,
            Controller::Dctcp(control) => control,
            Controller::Prague(control) => control,
            Controller::Bbr(control) => control,
            Controller::Custom(control) => control,
        }
    }
}

/// The congestion control of a connection, without virtual calls for built-in ones.
pub(crate) enum Controller {
    Reno(Reno),
    /// Twice the size of Reno's.
    Cubic(Box<Cubic>),
    Dctcp(Box<Dctcp>),
    Prague(Box<Prague>),
    Bbr(Box<Bbr>),
    Custom(Box<dyn CongestionControl>),
}

macro_rules! each {
    ($self:expr, $c:ident => $body:expr) => {
        match $self {
            Controller::Reno($c) => $body,
            Controller::Cubic($c) => $body,
            Controller::Dctcp($c) => $body,
            Controller::Prague($c) => $body,
            Controller::Bbr($c) => $body,
            Controller::Custom($c) => $body,
        }
    };
}

impl Controller {
    /// `seed` is for algorithms that draw random numbers.
    pub fn new(algorithm: Algorithm, mss: u64, initial: u64, seed: u64) -> Self {
        match algorithm {
            Algorithm::Reno => Self::Reno(Reno::new(mss, initial)),
            Algorithm::Cubic => Self::Cubic(Box::new(Cubic::new(mss, initial))),
            Algorithm::Dctcp => Self::Dctcp(Box::new(Dctcp::new(mss, initial))),
            Algorithm::Prague => Self::Prague(Box::new(Prague::new(mss, initial))),
            Algorithm::Bbr => Self::Bbr(Box::new(Bbr::new(mss, initial, seed))),
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
        each!(self, c => c.pacing())
    }
    pub fn phase(&self) -> Option<&'static str> {
        each!(self, c => c.phase())
    }
    pub fn usual_phase(&self) -> &'static str {
        each!(self, c => c.usual_phase())
    }
    pub fn on_lost(&mut self, now: Instant, lost: &LostSegment) {
        each!(self, c => c.on_lost(now, lost));
    }
    pub fn on_established(&mut self, now: Instant, srtt: Option<Span>) {
        each!(self, c => c.on_established(now, srtt));
    }
    pub fn on_ecn_feedback(&mut self, feedback: EcnFeedback) {
        each!(self, c => c.on_ecn_feedback(feedback));
    }
    pub fn on_restart(&mut self, now: Instant, app_limited: bool) {
        each!(self, c => c.on_restart(now, app_limited));
    }
    pub fn on_recovery_end(&mut self) {
        each!(self, c => c.on_recovery_end());
    }
    pub fn limits_samples(&self) -> bool {
        each!(self, c => c.limits_samples())
    }
    /// Whether a loss reduces cwnd although a mark in the same window has done so: the response to a mark is small.
    pub fn is_scalable(&self) -> bool {
        matches!(self, Self::Prague(_) | Self::Bbr(_))
    }
    /// Whether cwnd and rate follow from a model of the path, and the data in flight after a timeout is of interest.
    pub fn is_model_based(&self) -> bool {
        matches!(self, Self::Bbr(_))
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
    /// Begins in slow start with a cwnd of `initial` bytes.
    pub fn new(mss: u64, initial: u64) -> Self {
        Self { mss, cwnd: initial, ssthresh: u64::MAX, bytes_acked: 0 }
    }
    /// Half of the flight in whole segments (RFC 5681, equation 4, which is an upper bound). A fraction of a segment is
    /// never sent, but would have to be acknowledged before cwnd grows. Linux and FreeBSD round down as well.
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
