//! [`Endpoint`]: one end of a TCP connection.
//!
//! *Source*: RFC 9293 (states, window, persist), RFC 5681 (congestion control, delayed acknowledgements), RFC 6582
//! (NewReno), RFC 2018 and 6675 (SACK), RFC 3042 (limited transmit), RFC 6298 (timer), RFC 3168 (ECN). Section
//! numbers stand where the rule is applied.
//! *Units*: offsets in the stream are 64 bits, 0 for the SYN, 1 for the first byte; the wire has their low 32 bits
//! plus an initial sequence number.
//! *Cost*: O(1) a segment, O(SACKed ranges) during loss recovery.
//! *Departures from the source*: no checksums, urgent data, simultaneous open or RST; one round-trip time is
//! measured at a time (Karn), not by timestamps; a receiver never reneges and never shrinks its window.

mod acknowledged;
mod receive;
mod sack;
mod send;

use tidegate_core::{Instant, Span};

use super::congestion::{Algorithm, Controller};
use super::ranges::Ranges;
use super::rtt::{RtoBounds, RttEstimator};

/// Duplicate acknowledgements that mean a loss (RFC 5681, RFC 6675: DupThresh).
const DUPLICATES: u32 = 3;
/// "As much as one likes".
const ENDLESS: u64 = 1 << 60;

/// How losses are repaired.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Recovery {
    /// Fast retransmit and recovery that ends with the first new acknowledgement (RFC 5681, section 3.2).
    Reno,
    /// Fast recovery that lasts for the whole window (RFC 6582).
    NewReno,
    /// Selective acknowledgements (RFC 6675). The default, as in every system of today.
    #[default]
    Sack,
}

/// Which refinements of loss recovery a connection has.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Vintage {
    /// Limited transmit (RFC 3042, 2001) and the rescue retransmission (RFC 6675, 2012). The default.
    #[default]
    Current,
    /// TCP of the year 2000: neither, so that a connection with a window of three segments waits for its timer.
    Rfc2581,
}

/// What a connection is set up with.
#[derive(Clone, Copy, Debug)]
pub struct Config {
    /// The largest segment, without headers. Default 1460: an Ethernet frame.
    pub mss: u16,
    /// How losses are repaired.
    pub recovery: Recovery,
    /// Which refinements of loss recovery it has. Default: all.
    pub vintage: Vintage,
    /// The congestion control.
    pub algorithm: Algorithm,
    /// Segments in the first window. Default 10 (RFC 6928).
    pub initial_window: u32,
    /// The receiver's buffer, which bounds the window. Default 1 MiB: never the bottleneck unless one wants it.
    pub receive_buffer: u64,
    /// How long an acknowledgement may be held back for a second segment; `None` acknowledges every segment.
    /// Default 100 ms (RFC 5681 allows 500 ms).
    pub delayed_ack: Option<Span>,
    /// Bounds of the retransmission timeout. Default: RFC 6298.
    pub rto: RtoBounds,
    /// Whether to negotiate ECN (RFC 3168). Default no.
    pub ecn: bool,
    /// Whether the application reads at once, or by [`Endpoint::read`]. Default at once.
    pub reads_at_once: bool,
    /// Timeouts in a row after which the connection is given up. Default 15, as Linux.
    pub retries: u32,
    /// The initial sequence number. Default 0: a trace is easier to read.
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
            ecn: false,
            reads_at_once: true,
            retries: 15,
            isn: 0,
        }
    }
}

impl Config {
    /// RFC 5681 alone.
    pub fn reno() -> Self {
        Self { recovery: Recovery::Reno, ..Self::default() }
    }
    /// With RFC 6582.
    pub fn new_reno() -> Self {
        Self { recovery: Recovery::NewReno, ..Self::default() }
    }
    /// Reno's window with SACK's recovery.
    pub fn sack() -> Self {
        Self::default()
    }
    /// CUBIC's window with SACK's recovery.
    pub fn cubic() -> Self {
        Self { algorithm: Algorithm::Cubic, ..Self::default() }
    }
}

/// The states of RFC 9293, section 3.3.2.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum State {
    /// Waits for a SYN.
    Listen,
    /// Sent a SYN.
    SynSent,
    /// Received a SYN, sent one.
    SynReceived,
    /// Data may flow both ways.
    Established,
    /// We closed; our FIN is not acknowledged.
    FinWait1,
    /// We closed, and the other end knows.
    FinWait2,
    /// The other end closed.
    CloseWait,
    /// Both closed, our FIN is not acknowledged, and theirs came before.
    Closing,
    /// They closed first, then we; our FIN is not acknowledged.
    LastAck,
    /// Both closed; stays to acknowledge a FIN that comes again.
    TimeWait,
    /// Over.
    Closed,
}

/// What an endpoint counted.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Counters {
    /// Data segments sent, retransmissions included.
    pub segments: u64,
    /// Data segments sent again.
    pub retransmitted: u64,
    /// Their bytes.
    pub retransmitted_bytes: u64,
    /// Times the retransmission timer ran out.
    pub timeouts: u64,
    /// Fast recoveries begun.
    pub recoveries: u64,
    /// Window reductions because of ECN.
    pub ecn_reductions: u64,
    /// Window probes.
    pub probes: u64,
}

/// What the sender is doing about losses.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Phase {
    /// None known.
    Open,
    /// Fast recovery, until `recover` is acknowledged.
    Fast { recover: u64 },
    /// After a timeout, until `recover` is acknowledged.
    Loss { recover: u64 },
}

/// An acknowledgement that is owed.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Owed {
    Nothing,
    Until(Instant),
    Now,
}

/// One end of a connection. See the [module](super).
#[derive(Debug)]
pub struct Endpoint {
    config: Config,
    state: State,
    counters: Counters,
    mss: u64,

    // What we send: una <= nxt <= max <= written + FIN.
    una: u64,
    nxt: u64,
    max: u64,
    written: u64,
    closing: bool,
    right: u64,
    widest: u64,
    phase: Phase,
    /// RFC 6582: no fast retransmit before this is acknowledged.
    careful: u64,
    duplicates: u32,
    /// What fast recovery adds to the window for segments that left the network (RFC 5681, 3.2).
    inflation: i64,
    /// The first unacknowledged segment is to be sent again at once.
    again: bool,
    first_partial: bool,
    scoreboard: Ranges,
    /// HighRxt of RFC 6675.
    rexmitted: u64,
    /// RescueRxt of RFC 6675: whether the rescue of this recovery has been used.
    rescued: bool,
    limited: bool,
    controller: Controller,
    rtt: RttEstimator,
    timed: Option<(u64, Instant)>,
    rto_at: Option<Instant>,
    persist_at: Option<Instant>,
    persist_backoff: u32,
    probe: bool,
    probed: bool,
    retries: u32,
    last_sent: Instant,
    pace_at: Instant,

    // What we receive.
    peer_isn: u32,
    expected: u64,
    early: Ranges,
    recent: [u64; 2],
    fin_at: Option<u64>,
    unread: u64,
    advertised: u64,
    owed: Owed,
    unacknowledged: u32,

    // ECN.
    ecn: bool,
    echo: bool,
    reduced: bool,
    ecn_point: u64,

    syn_due: bool,
    opened: Option<Instant>,
    established: Option<Instant>,
}

impl Endpoint {
    /// The end that opens the connection: a SYN leaves with the next [`Endpoint::poll`].
    pub fn connect(config: Config, now: Instant) -> Self {
        Self { state: State::SynSent, syn_due: true, opened: Some(now), ..Self::listen(config) }
    }

    /// The end that waits for a SYN.
    pub fn listen(config: Config) -> Self {
        let mss = u64::from(config.mss.max(1));
        let initial = u64::from(config.initial_window.max(1)) * mss;
        Self {
            config,
            state: State::Listen,
            counters: Counters::default(),
            mss,
            una: 0,
            nxt: 0,
            max: 0,
            written: 1,
            closing: false,
            right: 0,
            widest: 0,
            phase: Phase::Open,
            careful: 0,
            duplicates: 0,
            inflation: 0,
            again: false,
            first_partial: false,
            scoreboard: Ranges::default(),
            rexmitted: 0,
            rescued: false,
            limited: false,
            controller: Controller::new(config.algorithm, mss, initial),
            rtt: RttEstimator::new(config.rto),
            timed: None,
            rto_at: None,
            persist_at: None,
            persist_backoff: 0,
            probe: false,
            probed: false,
            retries: 0,
            last_sent: Instant::ZERO,
            pace_at: Instant::ZERO,
            peer_isn: 0,
            expected: 0,
            early: Ranges::default(),
            recent: [0; 2],
            fin_at: None,
            unread: 0,
            advertised: 0,
            owed: Owed::Nothing,
            unacknowledged: 0,
            ecn: false,
            echo: false,
            reduced: false,
            ecn_point: 0,
            syn_due: false,
            opened: None,
            established: None,
        }
    }

    // ------------------------------------------------------------------ the application's side

    /// Hands over `bytes` more to send.
    pub fn write(&mut self, bytes: u64) {
        debug_assert!(!self.closing, "written after the close");
        self.written = self.written.saturating_add(bytes).min(ENDLESS);
    }
    /// Hands over data without end.
    pub fn write_endlessly(&mut self) {
        self.written = ENDLESS;
    }
    /// Nothing more will be written: a FIN follows the last byte.
    pub fn close(&mut self) {
        self.closing = true;
    }
    /// Stops where it is: what was written and not sent yet is taken back, and a FIN follows.
    pub fn finish(&mut self) {
        if !self.closing {
            self.written = self.written.min(self.max.max(1));
            self.closing = true;
        }
    }
    /// Takes up to `bytes` of what was received out of the buffer, where the application does not read at once, and
    /// gives how many there were.
    pub fn read(&mut self, bytes: u64) -> u64 {
        let taken = bytes.min(self.unread);
        self.unread -= taken;
        // RFC 9293, 3.8.6.2.2: tell of an opened window when it is worth a segment.
        let edge = self.expected + self.room();
        if edge >= self.advertised + self.mss.min(self.config.receive_buffer / 2).max(1) && self.state != State::Listen
        {
            self.owed = Owed::Now;
        }
        taken
    }

    // ------------------------------------------------------------------ questions

    /// The state.
    pub fn state(&self) -> State {
        self.state
    }
    /// Whether it is over, except for acknowledging a FIN that comes again.
    pub fn is_over(&self) -> bool {
        matches!(self.state, State::TimeWait | State::Closed)
    }
    /// Bytes that arrived in order so far.
    pub fn received(&self) -> u64 {
        let fin = u64::from(self.fin_at.is_some_and(|fin| self.expected > fin));
        self.expected.saturating_sub(1 + fin)
    }
    /// Bytes that wait to be read, where the application does not read at once.
    pub fn unread(&self) -> u64 {
        self.unread
    }
    /// Whether the other end has closed and everything it sent has arrived.
    pub fn peer_closed(&self) -> bool {
        self.fin_at.is_some_and(|fin| self.expected > fin)
    }
    /// Bytes of ours that the other end acknowledged.
    pub fn acknowledged(&self) -> u64 {
        self.una.saturating_sub(1).min(self.written - 1)
    }
    /// Bytes that were written and are not acknowledged; `None` when there is no end to them.
    pub fn remaining(&self) -> Option<u64> {
        (self.written < ENDLESS).then(|| self.written - self.una.clamp(1, self.written))
    }
    /// Bytes that were written and never sent; `None` when there is no end to them.
    pub fn unsent(&self) -> Option<u64> {
        (self.written < ENDLESS).then(|| self.written.saturating_sub(self.max.max(1)))
    }
    /// What it counted.
    pub fn counters(&self) -> &Counters {
        &self.counters
    }
    /// The congestion window in bytes.
    pub fn window(&self) -> u64 {
        (self.controller.window() as i64 + self.inflation).max(self.mss as i64) as u64
    }
    /// The slow start threshold in bytes.
    pub fn threshold(&self) -> u64 {
        self.controller.threshold()
    }
    /// Bytes sent and not cumulatively acknowledged.
    pub fn flight(&self) -> u64 {
        self.max - self.una
    }
    /// The round-trip time.
    pub fn rtt(&self) -> &RttEstimator {
        &self.rtt
    }
    /// When the handshake was complete at this end.
    pub fn established_at(&self) -> Option<Instant> {
        self.established
    }
    /// When the connection was opened at this end.
    pub fn opened_at(&self) -> Option<Instant> {
        self.opened
    }
    /// Whether both ends agreed on ECN.
    pub fn uses_ecn(&self) -> bool {
        self.ecn
    }

    /// When [`Endpoint::on_timer`] is due. Goes stale with every call that is not `&self`.
    pub fn deadline(&self) -> Option<Instant> {
        let mut at = self.rto_at.unwrap_or(Instant::MAX).min(self.persist_at.unwrap_or(Instant::MAX));
        if let Owed::Until(ack) = self.owed {
            at = at.min(ack);
        }
        if self.pace_at > self.last_sent {
            at = at.min(self.pace_at);
        }
        (at < Instant::MAX).then_some(at)
    }

    // ------------------------------------------------------------------ time

    /// Time has come to [`Endpoint::deadline`]; calling it early is harmless.
    pub fn on_timer(&mut self, now: Instant) {
        if let Owed::Until(at) = self.owed
            && at <= now
        {
            self.owed = Owed::Now;
        }
        if self.pace_at <= now {
            self.pace_at = Instant::ZERO;
        }
        if self.persist_at.is_some_and(|at| at <= now) {
            self.persist_backoff = (self.persist_backoff + 1).min(16);
            self.persist_at = None;
            self.probe = true;
        }
        if self.rto_at.is_some_and(|at| at <= now) {
            self.on_timeout(now);
        }
    }

    fn on_timeout(&mut self, now: Instant) {
        self.counters.timeouts += 1;
        self.retries += 1;
        if self.retries > self.config.retries {
            self.state = State::Closed;
            self.rto_at = None;
            self.persist_at = None;
            return;
        }
        self.timed = None;
        self.rtt.back_off();
        self.rto_at = Some(now + self.rtt.timeout());
        if matches!(self.state, State::SynSent | State::SynReceived) {
            self.syn_due = true;
            return;
        }
        self.controller.on_timeout(now, self.flight(), self.retries == 1);
        self.phase = Phase::Loss { recover: self.max };
        self.careful = self.max;
        self.duplicates = 0;
        self.inflation = 0;
        self.again = false;
        self.rexmitted = self.una;
        self.rescued = true;
        if self.config.recovery != Recovery::Sack {
            // Go back and send again what is not acknowledged, in slow start.
            self.nxt = self.una;
        }
    }
}

/// The 64-bit offset near `reference` whose low bits are `wire`.
fn unwrap(reference: u64, wire: u32) -> u64 {
    let distance = i64::from(wire.wrapping_sub(reference as u32) as i32);
    reference.saturating_add_signed(distance)
}
