//! Reliable transports from outside of this crate: [`Protocol`] opens connections, and [`End`] is one end of such a
//! connection as a state machine without I/O and without a clock, like [`tcp::Endpoint`](crate::tcp::Endpoint).

use std::fmt;

use tidegate_core::{Instant, Rate, Span};

use crate::packet::{Proto, TCP_HEADER};
use crate::tcp::{Algorithm, EcnUse, Endpoint, Segment, State};

/// A reliable transport over datagrams, such as QUIC.
pub trait Protocol: fmt::Debug + Send + Sync {
    /// Creates both ends of a connection; the first one opens it. All random values of the connection follow from `seed`.
    /// Without `ecn`, the protocol decides which ECN field its packets carry.
    fn connect(&self, seed: u64, ecn: Option<EcnUse>) -> [Box<dyn End>; 2];
    /// The size of its largest packet on the link, headers included.
    fn largest_packet(&self) -> u32;
    /// The congestion control of its senders, or that of the simulator which has the same law.
    fn algorithm(&self) -> Algorithm;
    /// How it uses ECN if the flow says this of it.
    fn ecn(&self, said: Option<EcnUse>) -> EcnUse;
    /// The bytes that its receiver has room for at most.
    fn receive_window(&self) -> u64;
    /// Its name, and its settings in one line, which say what its packets carry with this `ecn`.
    fn settings(&self, ecn: Option<EcnUse>) -> (&'static str, String);
}

/// One end of a connection. Data is counted and has no contents.
///
/// A packet is a [`Segment`] of which three fields count: `seq`, a number by which the other end finds the contents, `len`,
/// its bytes of data, and `ecn`. [`Flags::RETRANSMISSION`](crate::tcp::Flags::RETRANSMISSION) marks data that is sent again.
pub trait End {
    /// Appends `bytes` bytes to the data to send.
    fn write(&mut self, bytes: u64);
    /// Makes the data to send unlimited.
    fn write_endlessly(&mut self);
    /// Ends the data after the last byte that was written.
    fn close(&mut self);
    /// Ends the data after what was handed to the network. The rest is discarded.
    fn finish(&mut self);

    /// Processes a received packet.
    fn on_packet(&mut self, now: Instant, packet: &Segment);
    /// The next packet to send at `now`, and its size on the link.
    fn poll(&mut self, now: Instant) -> Option<(Segment, u32)>;
    /// When [`End::on_timer`] is due. Every other call invalidates it.
    fn deadline(&mut self) -> Option<Instant>;
    /// Processes the timers that have expired. An early call is harmless.
    fn on_timer(&mut self, now: Instant);

    /// Bytes that have arrived so far, each counted once, including those behind a hole.
    fn arrived(&self) -> u64;
    /// Bytes written and never sent; `None` for endless data.
    fn unsent(&self) -> Option<u64>;
    /// Whether the handshake is complete.
    fn is_established(&self) -> bool;
    /// Whether the peer has ended its data, and all of it has arrived.
    fn peer_closed(&self) -> bool;
    /// Whether both ends have ended their data, and all of it was acknowledged.
    fn is_over(&self) -> bool;
    /// Whether the connection was aborted.
    fn has_failed(&self) -> bool;
    /// The state of the sender; `None` before it has sent data.
    fn sender(&self) -> Option<SenderState>;
    /// The transport's own packets in the packet that [`End::poll`] returned last, for traces.
    fn contents(&self) -> Vec<Contents> {
        Vec::new()
    }
    /// Marked packets that acknowledgements have reported, where the feedback counts them.
    fn marks_reported(&self) -> u64 {
        0
    }
    /// The packets that the last call of [`End::on_packet`] or [`End::on_timer`] declared lost, for traces.
    fn lost(&self) -> &[Lost] {
        &[]
    }
}

/// A packet of a transport inside of one of the simulation, which may have several.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Contents {
    /// Its type, by its name in qlog.
    pub kind: &'static str,
    /// Its number.
    pub number: u64,
    /// Its length in bytes.
    pub length: u64,
    /// The frames in it.
    pub frames: Vec<Frame>,
}

/// A packet of a transport that its sender declares lost.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Lost {
    /// Its type, by its name in qlog.
    pub kind: &'static str,
    /// Its number.
    pub number: u64,
}

/// A frame of a [`Contents`].
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Frame {
    /// An acknowledgement.
    Ack {
        /// Acknowledged packets, as ranges from the newest to the oldest with both ends included.
        ranges: Vec<(u64, u64)>,
        /// For how long it was held back, where the transport tells.
        delay: Option<Span>,
        /// How many packets arrived with each ECN field.
        ecn: Option<EcnFields>,
    },
    /// Data of a stream.
    Stream {
        /// The number of the stream.
        id: u64,
        /// Where the data begins in the stream.
        offset: u64,
        /// Its length in bytes.
        length: u64,
        /// Whether it is the last.
        fin: bool,
    },
    /// Data of the handshake.
    Crypto {
        /// Where it begins.
        offset: u64,
        /// Its length in bytes.
        length: u64,
    },
    /// Another frame.
    Other {
        /// Its name in qlog.
        name: &'static str,
        /// Its fields by their names in qlog.
        fields: Vec<(&'static str, Field)>,
    },
}

/// The value of a field of a frame.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Field {
    /// A number.
    Number(u64),
    /// A word, or bytes in hexadecimal digits.
    Text(String),
}

/// Packets that arrived with each ECN field (RFC 9000, section 19.3.2).
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct EcnFields {
    /// With ECT(0).
    pub ect0: u64,
    /// With ECT(1).
    pub ect1: u64,
    /// With CE.
    pub ce: u64,
}

/// The state of the sender at one end of a connection.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct SenderState {
    /// The congestion window in bytes, including the inflation during recovery.
    pub cwnd: u64,
    /// The slow-start threshold, in bytes; `u64::MAX` before the first loss.
    pub ssthresh: u64,
    /// The smoothed round-trip time.
    pub srtt: Option<Span>,
    /// The least round-trip time, where the transport tells it.
    pub min_rtt: Option<Span>,
    /// The retransmission timeout, where the transport tells it.
    pub rto: Option<Span>,
    /// Estimated bytes in the network: pipe of RFC 6675, section 4.
    pub pipe: u64,
    /// The pacing rate, if the congestion control paces.
    pub pacing: Option<Rate>,
    /// Its phase, where the transport tells it: `slow start`, `congestion avoidance`, `recovery`, `timeout`, or one of its congestion control.
    pub phase: Option<&'static str>,
}

/// One end of a connection of the simulation. TCP is called directly and lies in the connection itself, because simulations
/// spend their time there.
#[expect(clippy::large_enum_variant, reason = "almost all ends are TCP's")]
pub(crate) enum AnyEnd {
    Tcp(Endpoint),
    Other(Box<dyn End>),
}

macro_rules! either {
    ($self:expr, $end:ident => $body:expr) => {
        match $self {
            AnyEnd::Tcp($end) => $body,
            AnyEnd::Other($end) => $body,
        }
    };
}

impl AnyEnd {
    pub fn write(&mut self, bytes: u64) {
        either!(self, end => end.write(bytes));
    }
    pub fn write_endlessly(&mut self) {
        either!(self, end => end.write_endlessly());
    }
    pub fn close(&mut self) {
        either!(self, end => end.close());
    }
    pub fn finish(&mut self) {
        either!(self, end => end.finish());
    }
    pub fn on_timer(&mut self, now: Instant) {
        either!(self, end => end.on_timer(now));
    }
    pub fn deadline(&mut self) -> Option<Instant> {
        either!(self, end => end.deadline())
    }
    pub fn arrived(&self) -> u64 {
        either!(self, end => end.arrived())
    }
    pub fn unsent(&self) -> Option<u64> {
        either!(self, end => end.unsent())
    }
    pub fn peer_closed(&self) -> bool {
        either!(self, end => end.peer_closed())
    }
    pub fn is_over(&self) -> bool {
        either!(self, end => end.is_over())
    }
    pub fn on_segment(&mut self, now: Instant, segment: &Segment) {
        match self {
            Self::Tcp(end) => end.on_segment(now, segment),
            Self::Other(end) => end.on_packet(now, segment),
        }
    }
    /// The next packet and its size on the link.
    pub fn poll(&mut self, now: Instant) -> Option<(Segment, u32)> {
        match self {
            Self::Tcp(end) => {
                let segment = end.poll(now)?;
                let size = TCP_HEADER + segment.option_bytes() + segment.len;
                Some((segment, size))
            }
            Self::Other(end) => end.poll(now),
        }
    }
    /// Ends a series of calls of [`Self::poll`].
    pub fn settle(&mut self, now: Instant) {
        if let Self::Tcp(end) = self {
            end.settle(now);
        }
    }
    /// Bounds the rate of the sender by what the path advises, if it follows advice.
    pub fn advise(&mut self, now: Instant, rate: Rate) {
        if let Self::Tcp(end) = self {
            end.advise(now, rate);
        }
    }
    /// Bytes received in order so far. The other transports count each byte once, so that where a number of bytes is all that
    /// was sent, it has been reached when all of them are here.
    pub fn received(&self) -> u64 {
        match self {
            Self::Tcp(end) => end.received(),
            Self::Other(end) => end.arrived(),
        }
    }
    pub fn is_established(&self) -> bool {
        match self {
            Self::Tcp(end) => end.established_at().is_some(),
            Self::Other(end) => end.is_established(),
        }
    }
    /// Whether no connection exists any more.
    pub fn has_failed(&self) -> bool {
        match self {
            Self::Tcp(end) => end.state() == State::Closed,
            Self::Other(end) => end.has_failed(),
        }
    }
    /// How often the retransmission timer has expired. Probes of QUIC are no timeouts (RFC 9002, section 6.2).
    pub fn timeouts(&self) -> u64 {
        match self {
            Self::Tcp(end) => end.counters().timeouts,
            Self::Other(_) => 0,
        }
    }
    /// Marked packets that acknowledgements have reported to this end, where the feedback counts them.
    pub fn marks_reported(&self) -> u64 {
        match self {
            Self::Tcp(end) => end.counters().marks_reported,
            Self::Other(end) => end.marks_reported(),
        }
    }
    pub fn sender(&self) -> Option<SenderState> {
        match self {
            Self::Tcp(end) => Some(SenderState {
                cwnd: end.cwnd(),
                ssthresh: end.ssthresh(),
                srtt: end.rtt().srtt(),
                min_rtt: end.rtt().min_rtt(),
                rto: Some(end.rto()),
                pipe: end.pipe(),
                pacing: end.pacing(),
                phase: Some(end.phase()),
            }),
            Self::Other(end) => end.sender(),
        }
    }
    /// The state of a sender that has sent data.
    pub fn sent(&self) -> Option<SenderState> {
        match self {
            Self::Tcp(end) if !end.has_sent() => None,
            _ => self.sender(),
        }
    }
    /// The packets of a transport inside of the last packet that was sent.
    pub fn contents(&self) -> Vec<Contents> {
        match self {
            Self::Tcp(_) => Vec::new(),
            Self::Other(end) => end.contents(),
        }
    }
    /// The packets that the last packet or timer showed to be lost. TCP declares none.
    pub fn lost(&self) -> &[Lost] {
        match self {
            Self::Tcp(_) => &[],
            Self::Other(end) => end.lost(),
        }
    }
    pub fn proto(&self) -> Proto {
        match self {
            Self::Tcp(_) => Proto::Tcp,
            Self::Other(_) => Proto::Quic,
        }
    }
    /// The state machine of TCP.
    pub fn tcp(&self) -> Option<&Endpoint> {
        match self {
            Self::Tcp(end) => Some(end),
            Self::Other(_) => None,
        }
    }
}
