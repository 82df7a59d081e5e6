//! [`Config`]: the parameters of a connection.

use tidegate_core::Span;

use crate::tcp::congestion::Algorithm;
use crate::tcp::rtt::RtoBounds;

/// The loss recovery algorithm.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Recovery {
    /// Fast recovery that ends with the first acknowledgement of new data (RFC 5681, section 3.2).
    Reno,
    /// Fast recovery that ends when `recover` is acknowledged (RFC 6582).
    NewReno,
    /// Selective acknowledgements (RFC 6675). The default, as in every current system.
    #[default]
    Sack,
}

/// Refinements of loss recovery.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Vintage {
    /// Limited Transmit (RFC 3042, 2001) and the rescue retransmission (RFC 6675, 2012). The default.
    #[default]
    Current,
    /// TCP of the year 2000, with neither of them: a loss in a window of three segments needs a timeout.
    Rfc2581,
}

/// How much an acknowledgement counts when cwnd grows.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Growth {
    /// It counts the bytes that it acknowledges (RFC 3465). The default.
    #[default]
    Bytes,
    /// It counts one segment, however many it acknowledges (RFC 2581). With delayed acknowledgements cwnd grows half as
    /// fast, as in the papers of that time.
    Acks,
}

/// The explicit congestion notification that a connection negotiates.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum EcnUse {
    /// None.
    #[default]
    No,
    /// Classic ECN with ECT(0) (RFC 3168). A congestion control learns at most once in a round trip of a mark.
    Classic,
    /// Accurate ECN (RFC 9768) with ECT(0). Falls back to classic ECN, or to none, if the peer has no more.
    Accurate,
    /// Accurate ECN with ECT(1), which asks for the low latency of L4S (RFC 9331). Falls back to ECT(0) without accurate
    /// feedback. RFC 9331, section 4.3, grants it to scalable congestion controls alone.
    L4s,
}

/// Parameters of a connection.
#[derive(Clone, Copy, Debug)]
pub struct Config {
    /// The maximum segment size without headers. Default 1460, for Ethernet.
    pub mss: u16,
    /// The loss recovery algorithm. Default SACK.
    pub recovery: Recovery,
    /// Refinements of loss recovery. Default: all.
    pub vintage: Vintage,
    /// The congestion control. Default Reno.
    pub algorithm: Algorithm,
    /// The initial window in segments. Default 10 (RFC 6928).
    pub initial_window: u32,
    /// The receive buffer in bytes, which bounds the receive window. Default 1 MiB, so that it is seldom the limit.
    pub receive_buffer: u64,
    /// How long an acknowledgement may be delayed in expectation of a second segment; `None` acknowledges every
    /// segment. Default 100 ms (RFC 5681, 4.2: below 500 ms).
    pub delayed_ack: Option<Span>,
    /// Parameters of the retransmission timeout. Default: RFC 6298.
    pub rto: RtoBounds,
    /// The ECN that is negotiated. Default none.
    pub ecn: EcnUse,
    /// Whether losses are detected by time and the tail of a transfer is probed (RACK-TLP, RFC 8985). Requires
    /// [`Recovery::Sack`]. Default no.
    pub rack_tlp: bool,
    /// Whether cwnd is reduced in proportion to the delivered data (RFC 6937). Requires [`Recovery::Sack`]. Default no.
    pub prr: bool,
    /// Whether to use timestamps: an RTT sample with every acknowledgement, and PAWS (RFC 7323). Default no.
    pub timestamps: bool,
    /// Whether the receiver reports duplicate segments (RFC 2883). Requires [`Recovery::Sack`]. Default no.
    pub d_sack: bool,
    /// Whether to use HyStart++ (RFC 9406) in the first slow start. Default no.
    pub hystart: bool,
    /// Whether the window is bounded by the rate that the path advises ([`Endpoint::advise`](super::Endpoint::advise)). Default
    /// no.
    pub follow_advice: bool,
    /// How much an acknowledgement counts. Default the bytes that it acknowledges.
    pub growth: Growth,
    /// Whether received data is consumed at once. Otherwise `Endpoint::read` consumes it. Default at once.
    pub reads_at_once: bool,
    /// Consecutive timeouts after which the connection is closed. Default 15, as in Linux.
    pub retries: u32,
    /// The initial sequence number. Default 0, which makes traces easier to read.
    pub isn: u32,
}

impl Default for Config {
    fn default() -> Self {
        Self {
            mss: 1460,
            recovery: Recovery::Sack,
            vintage: Vintage::Current,
            algorithm: Algorithm::Reno,
            initial_window: 10,
            receive_buffer: 1 << 20,
            delayed_ack: Some(Span::from_millis(100)),
            rto: RtoBounds::default(),
            ecn: EcnUse::No,
            rack_tlp: false,
            prr: false,
            timestamps: false,
            d_sack: false,
            hystart: false,
            follow_advice: false,
            growth: Growth::Bytes,
            reads_at_once: true,
            retries: 15,
            isn: 0,
        }
    }
}

impl Config {
    /// Whether RACK detects losses.
    pub(crate) fn rack(&self) -> bool {
        let needed = matches!(self.algorithm, Algorithm::Prague | Algorithm::Bbr);
        (self.rack_tlp || needed) && self.recovery == Recovery::Sack
    }
    /// Whether transmissions are recorded for the whole life of the connection.
    pub(super) fn keeps_transmissions(&self) -> bool {
        self.rack() || matches!(self.algorithm, Algorithm::Custom(_))
    }
    /// Reno: fast recovery of RFC 5681.
    pub fn reno() -> Self {
        Self { recovery: Recovery::Reno, ..Self::default() }
    }
    /// NewReno: fast recovery of RFC 6582.
    pub fn new_reno() -> Self {
        Self { recovery: Recovery::NewReno, ..Self::default() }
    }
    /// Reno's cwnd with SACK loss recovery.
    pub fn sack() -> Self {
        Self::default()
    }
    /// CUBIC's cwnd with SACK loss recovery.
    pub fn cubic() -> Self {
        Self { algorithm: Algorithm::Cubic, ..Self::default() }
    }
    /// The defaults of current systems: CUBIC with RACK-TLP, PRR, timestamps, D-SACK and HyStart++.
    pub fn current() -> Self {
        Self { rack_tlp: true, prr: true, timestamps: true, d_sack: true, hystart: true, ..Self::cubic() }
    }
    /// Prague: accurate ECN with ECT(1), RACK-TLP and timestamps.
    pub fn prague() -> Self {
        Self { algorithm: Algorithm::Prague, ecn: EcnUse::L4s, hystart: false, ..Self::current() }
    }
    /// BBRv3 with RACK-TLP and timestamps.
    pub fn bbr() -> Self {
        Self { algorithm: Algorithm::Bbr, prr: false, hystart: false, ..Self::current() }
    }
    /// DCTCP with ECN.
    pub fn dctcp() -> Self {
        Self { algorithm: Algorithm::Dctcp, ecn: EcnUse::Classic, ..Self::default() }
    }
}
