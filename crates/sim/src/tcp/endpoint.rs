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

use tidegate_core::{Ecn, Instant, Span};

use super::congestion::{Ack, Algorithm, Controller, Signal};
use super::ranges::Ranges;
use super::rtt::{RtoBounds, RttEstimator};
use super::segment::{Flags, SackBlocks, Segment};

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

    // ------------------------------------------------------------------ segments in

    /// A segment came in. Afterwards [`Endpoint::poll`] until it has nothing more.
    pub fn on_segment(&mut self, now: Instant, segment: &Segment) {
        match self.state {
            State::Closed => return,
            State::Listen => {
                if segment.flags.has(Flags::SYN) {
                    self.on_syn(segment);
                    // RFC 3168, 6.1.1: ECE and CWR ask, ECE alone agrees.
                    self.ecn = self.config.ecn && segment.flags.has(Flags::ECE | Flags::CWR);
                    self.opened = Some(now);
                    self.state = State::SynReceived;
                    self.syn_due = true;
                }
                return;
            }
            State::SynSent => {
                if segment.flags.has(Flags::SYN | Flags::ACK) {
                    self.on_syn(segment);
                    self.ecn = self.config.ecn && segment.flags.has(Flags::ECE) && !segment.flags.has(Flags::CWR);
                    self.on_handshake_acknowledged(now, segment);
                    self.owed = Owed::Now;
                }
                return;
            }
            State::SynReceived => {
                if segment.flags.has(Flags::SYN) {
                    // Ours was lost, and theirs came again.
                    self.syn_due = true;
                    return;
                }
                if !segment.flags.has(Flags::ACK) || self.unwrap_ack(segment) < 1 {
                    return;
                }
                self.on_handshake_acknowledged(now, segment);
            }
            _ => {
                if segment.flags.has(Flags::SYN) {
                    // Our acknowledgement of the SYN was lost.
                    self.owed = Owed::Now;
                    return;
                }
            }
        }
        if segment.flags.has(Flags::ACK) {
            self.on_ack(now, segment);
        }
        if segment.len > 0 || segment.flags.has(Flags::FIN) {
            self.on_data(now, segment);
        }
        self.advance_state();
    }

    fn on_syn(&mut self, segment: &Segment) {
        self.peer_isn = segment.seq;
        self.expected = 1;
        self.advertised = 1;
        if segment.mss > 0 && u64::from(segment.mss) < self.mss {
            self.mss = u64::from(segment.mss);
        }
        let initial = u64::from(self.config.initial_window.max(1)) * self.mss;
        self.controller = Controller::new(self.config.algorithm, self.mss, initial);
    }

    fn on_handshake_acknowledged(&mut self, now: Instant, segment: &Segment) {
        self.state = State::Established;
        self.established = Some(now);
        self.syn_due = false;
        self.una = 1;
        self.nxt = 1;
        self.max = 1;
        self.careful = 1;
        self.rexmitted = 1;
        self.ecn_point = 1;
        self.right = 1 + u64::from(segment.window);
        self.widest = u64::from(segment.window);
        self.rto_at = None;
        if self.retries > 0 {
            // RFC 6298, 5.7 and RFC 5681, 3.1: after a lost SYN begin with one segment.
            self.controller.on_idle(self.mss);
        }
        self.retries = 0;
        if let Some((_, at)) = self.timed.take() {
            self.rtt.sample(now.since(at));
        } else {
            self.rtt.end_backoff();
        }
        self.last_sent = now;
    }

    fn unwrap_ack(&self, segment: &Segment) -> u64 {
        unwrap(self.una, segment.ack.wrapping_sub(self.config.isn))
    }

    fn on_ack(&mut self, now: Instant, segment: &Segment) {
        let ack = self.unwrap_ack(segment);
        if self.probed && ack == self.nxt + 1 && ack > self.max {
            // There was room for the byte of a window probe.
            self.max = ack;
            self.probed = false;
        }
        if ack > self.max || ack < self.una {
            return;
        }
        let right = ack + u64::from(segment.window);
        let widened = right > self.right;
        self.right = self.right.max(right);
        self.widest = self.widest.max(u64::from(segment.window));
        if widened && self.persist_at.is_some() {
            self.persist_at = None;
            self.persist_backoff = 0;
        }

        let flight = self.flight();
        let fresh = if self.config.recovery == Recovery::Sack { self.on_sack(segment) } else { 0 };
        if self.ecn && segment.flags.has(Flags::ECE) && ack > self.ecn_point && self.phase == Phase::Open {
            // RFC 3168, 6.1.2: once for a window of data.
            self.controller.on_congestion(now, flight, Signal::Ecn);
            self.counters.ecn_reductions += 1;
            self.ecn_point = self.max;
            self.reduced = true;
            self.limited = false;
        }
        if ack > self.una {
            self.on_new_ack(now, ack, flight);
        } else if self.nxt > self.una && self.is_duplicate(segment, widened, fresh) {
            self.on_duplicate(now, flight);
        }
    }

    /// RFC 5681, section 2, and RFC 6675, section 2.
    fn is_duplicate(&self, segment: &Segment, widened: bool, fresh: u64) -> bool {
        if self.config.recovery == Recovery::Sack {
            fresh > 0
        } else {
            segment.len == 0 && !segment.flags.has(Flags::FIN) && !widened
        }
    }

    /// Notes what is selectively acknowledged, and tells how many bytes of it are news.
    fn on_sack(&mut self, segment: &Segment) -> u64 {
        let mut fresh = 0;
        for &(start, end) in segment.sack.as_slice() {
            let start = unwrap(self.una, start.wrapping_sub(self.config.isn)).max(self.una);
            let end = unwrap(self.una, end.wrapping_sub(self.config.isn)).min(self.max);
            if start < end {
                fresh += self.scoreboard.insert(start, end).0;
            }
        }
        fresh
    }

    fn on_new_ack(&mut self, now: Instant, ack: u64, flight: u64) {
        let acked = ack - self.una;
        self.una = ack;
        self.nxt = self.nxt.max(ack);
        self.rexmitted = self.rexmitted.max(ack);
        if !self.scoreboard.is_empty() {
            self.scoreboard.trim(ack);
        }
        self.retries = 0;
        self.persist_backoff = 0;
        let mut rtt = None;
        match self.timed {
            Some((end, at)) if ack >= end => {
                let sample = now.since(at);
                self.rtt.sample(sample);
                rtt = Some(sample);
                self.timed = None;
            }
            _ => self.rtt.end_backoff(),
        }
        let mut restart_timer = true;
        let recovering = match self.phase {
            Phase::Open => {
                self.duplicates = 0;
                false
            }
            Phase::Loss { recover } => {
                if ack >= recover {
                    self.phase = Phase::Open;
                }
                self.duplicates = 0;
                false
            }
            Phase::Fast { recover } => {
                if ack >= recover || self.config.recovery == Recovery::Reno {
                    self.end_fast_recovery(now);
                } else if self.config.recovery == Recovery::NewReno {
                    // RFC 6582, 3.2 step 3, partial acknowledgement; the impatient variant.
                    self.again = true;
                    self.inflation -= acked as i64;
                    if acked >= self.mss {
                        self.inflation += self.mss as i64;
                    }
                    restart_timer = self.first_partial;
                    self.first_partial = false;
                }
                true
            }
        };
        self.controller.on_ack(&Ack {
            now,
            acked,
            flight,
            limited: self.limited,
            rtt,
            smoothed: self.rtt.smoothed(),
            delivered: self.una + self.scoreboard.bytes(),
            recovering,
        });
        // RFC 6298, 5.2 and 5.3.
        if self.una == self.max {
            self.rto_at = None;
        } else if restart_timer {
            self.rto_at = Some(now + self.rtt.timeout());
        }
        // With SACK a loss may show while the cumulative acknowledgement advances.
        if self.phase == Phase::Open && !self.scoreboard.is_empty() && self.lost_edge() > self.una {
            self.begin_fast_recovery(now, self.flight());
        }
    }

    fn on_duplicate(&mut self, now: Instant, flight: u64) {
        match self.phase {
            Phase::Loss { .. } => {}
            Phase::Fast { .. } => {
                if self.config.recovery != Recovery::Sack {
                    self.inflation += self.mss as i64;
                }
            }
            Phase::Open => {
                self.duplicates += 1;
                let sack = self.config.recovery == Recovery::Sack;
                // RFC 6582, 3.2 step 2: not for what an earlier recovery sent again; RFC 6675, 5 (1) and (2).
                let careful = sack || self.config.recovery == Recovery::Reno || self.una > self.careful;
                let lost = self.duplicates >= DUPLICATES || sack && self.lost_edge() > self.una;
                if lost && careful {
                    self.begin_fast_recovery(now, flight);
                }
            }
        }
    }

    fn begin_fast_recovery(&mut self, now: Instant, flight: u64) {
        self.counters.recoveries += 1;
        self.phase = Phase::Fast { recover: self.max };
        self.careful = self.max;
        // RFC 5681, 3.2: what limited transmit sent does not count as flight.
        let sent_beyond = self.config.recovery != Recovery::Sack && self.config.vintage == Vintage::Current;
        let limited = if sent_beyond { 2 * self.mss } else { 0 };
        self.controller.on_congestion(now, flight.saturating_sub(limited.min(flight / 2)), Signal::Loss);
        // A mark in the same window asks for nothing more.
        self.ecn_point = self.max;
        self.reduced = self.ecn;
        self.again = true;
        self.first_partial = true;
        self.rescued = false;
        self.timed = None;
        self.rexmitted = self.una;
        if self.config.recovery != Recovery::Sack {
            self.inflation = i64::from(DUPLICATES) * self.mss as i64;
        }
    }

    fn end_fast_recovery(&mut self, now: Instant) {
        self.phase = Phase::Open;
        self.duplicates = 0;
        self.inflation = 0;
        self.again = false;
        if self.config.recovery == Recovery::NewReno {
            self.controller.on_recovered(now, self.flight());
        }
    }

    // ------------------------------------------------------------------ SACK, RFC 6675

    /// Everything below this that is not SACKed is lost: IsLost of section 4, for all bytes at once.
    fn lost_edge(&self) -> u64 {
        let mut bytes = 0;
        for (count, &(start, end)) in self.scoreboard.as_slice().iter().rev().enumerate() {
            bytes += end - start;
            if count as u32 + 1 >= DUPLICATES || bytes > u64::from(DUPLICATES - 1) * self.mss {
                return start;
            }
        }
        self.una
    }

    /// What is taken for lost now: by [`Self::lost_edge`], and after a timeout everything that was out then.
    fn loss_edge(&self) -> u64 {
        match self.phase {
            Phase::Loss { recover } => recover.max(self.lost_edge()),
            // The segment that the duplicate acknowledgements are about is lost by definition.
            Phase::Fast { .. } => self.lost_edge().max(self.una + self.mss),
            Phase::Open => self.una,
        }
    }

    /// SetPipe of section 4: bytes that are probably in the network.
    fn pipe(&self) -> u64 {
        let outstanding = self.nxt - self.una;
        if self.phase == Phase::Open {
            // Limited transmit: what was SACKed makes room for new segments before a loss is sure.
            let room = if self.config.vintage == Vintage::Current { self.scoreboard.bytes() } else { 0 };
            return outstanding - room.min(outstanding);
        }
        let missing = |edge: u64| edge.max(self.una) - self.una - self.scoreboard.bytes_below(edge);
        let lost = missing(self.loss_edge().min(self.nxt));
        let again = missing(self.rexmitted.min(self.nxt));
        (outstanding + again).saturating_sub(self.scoreboard.bytes() + lost)
    }

    /// NextSeg of section 4 for retransmissions, rules 1, 3 and 4; rule 2, new data, is the caller's in between.
    fn next_retransmission(&self, rule: u8) -> Option<(u64, u64)> {
        let top = match self.phase {
            Phase::Loss { recover } => recover.max(self.scoreboard.end().unwrap_or(0)),
            _ => self.scoreboard.end()?,
        };
        let (start, next) = self.scoreboard.gap_from(self.rexmitted.max(self.una));
        let edge = if rule == 1 { self.loss_edge().min(top) } else { top };
        let end = (start + self.mss).min(next.unwrap_or(u64::MAX)).min(self.max);
        (start < edge && start < end).then_some((start, end))
    }

    // ------------------------------------------------------------------ data in

    fn on_data(&mut self, now: Instant, segment: &Segment) {
        let start = unwrap(self.expected, segment.seq.wrapping_sub(self.peer_isn));
        let len = u64::from(segment.len);
        if self.ecn && len > 0 {
            // RFC 3168, 6.1.3: echo from the mark until the sender says that it has reduced.
            if segment.flags.has(Flags::CWR) {
                self.echo = false;
            }
            if segment.ecn == Ecn::Ce {
                self.echo = true;
            }
        }
        let end = start + len;
        let before = self.received();
        // What is beyond the advertised edge has no room; the FIN, which takes a sequence number, needs none.
        let room = self.advertised.max(self.expected);
        let mut accepted = end.min(room);
        let mut at_once = accepted < end;
        if segment.flags.has(Flags::FIN) && end <= room {
            self.fin_at = Some(end);
            accepted = end + 1;
            at_once = true;
        }
        if accepted <= self.expected {
            // Known already, or without room.
            at_once = true;
        } else if start <= self.expected {
            self.expected = accepted;
            if !self.early.is_empty() {
                // It fills a hole: say so at once (RFC 5681, 4.2).
                at_once = true;
                self.early.trim(self.expected);
                while let Some(high) = self.early.take_from(self.expected) {
                    self.expected = self.expected.max(high);
                }
            }
        } else if start < accepted {
            let (_, (low, _)) = self.early.insert(start, accepted);
            self.note_recent(low);
            at_once = true;
        }
        let news = self.received() - before;
        if !self.config.reads_at_once {
            self.unread += news;
        }
        if news > 0 {
            self.unacknowledged += 1;
        }
        match self.config.delayed_ack {
            // RFC 5681, 4.2: at least every second segment, and not later than the delay.
            Some(delay) if !at_once && self.unacknowledged < 2 => {
                if self.owed == Owed::Nothing {
                    self.owed = Owed::Until(now + delay);
                }
            }
            _ => self.owed = Owed::Now,
        }
    }

    /// Keeps the ranges that changed last, for the order of the SACK blocks (RFC 2018, section 4).
    fn note_recent(&mut self, low: u64) {
        if self.recent[0] != low {
            self.recent[1] = self.recent[0];
            self.recent[0] = low;
        }
    }

    fn sack_blocks(&self) -> SackBlocks {
        let mut blocks = SackBlocks::default();
        if self.config.recovery != Recovery::Sack || self.early.is_empty() {
            return blocks;
        }
        let wire = |at: u64| (at as u32).wrapping_add(self.peer_isn);
        let mut said = [u64::MAX; SackBlocks::MOST];
        let mut count = 0;
        let recent = self.recent.iter().filter_map(|&low| self.early.holding(low));
        let rest = self.early.as_slice().iter().rev().copied();
        for (start, end) in recent.chain(rest) {
            if count == SackBlocks::MOST {
                break;
            }
            if !said[..count].contains(&start) {
                blocks.push(wire(start), wire(end));
                said[count] = start;
                count += 1;
            }
        }
        blocks
    }

    /// Bytes of room in the receive buffer.
    fn room(&self) -> u64 {
        self.config.receive_buffer.saturating_sub(self.unread)
    }

    fn advance_state(&mut self) {
        let fin_acknowledged = self.closing && self.una > self.written;
        let fin_sent = self.closing && self.max > self.written;
        let theirs = self.peer_closed();
        self.state = match self.state {
            State::Established if fin_sent && theirs => State::Closing,
            State::Established if fin_sent => State::FinWait1,
            State::Established if theirs => State::CloseWait,
            State::CloseWait if fin_sent => State::LastAck,
            State::FinWait1 if theirs => State::Closing,
            state => state,
        };
        if fin_acknowledged {
            self.state = match self.state {
                State::FinWait1 => State::FinWait2,
                State::Closing => State::TimeWait,
                State::LastAck => State::Closed,
                State::FinWait2 if theirs => State::TimeWait,
                state => state,
            };
        }
        if self.is_over() {
            self.rto_at = None;
            self.persist_at = None;
        }
    }

    // ------------------------------------------------------------------ segments out

    /// The next segment to send now, if there is one.
    pub fn poll(&mut self, now: Instant) -> Option<Segment> {
        match self.state {
            State::Listen | State::Closed => None,
            State::SynSent | State::SynReceived => self.poll_syn(now),
            State::TimeWait => self.poll_ack(),
            _ => {
                if let Some(segment) = self.poll_data(now) {
                    return Some(segment);
                }
                self.poll_ack()
            }
        }
    }

    fn poll_syn(&mut self, now: Instant) -> Option<Segment> {
        if !core::mem::take(&mut self.syn_due) {
            return None;
        }
        let mut flags = Flags::SYN;
        if self.state == State::SynReceived {
            flags |= Flags::ACK;
            if self.ecn {
                flags |= Flags::ECE;
            }
        } else if self.config.ecn {
            flags |= Flags::ECE | Flags::CWR;
        }
        self.timed = (self.retries == 0).then_some((1, now));
        if self.rto_at.is_none_or(|at| at <= now) {
            self.rto_at = Some(now + self.rtt.timeout());
        }
        self.last_sent = now;
        Some(Segment { seq: self.config.isn, mss: self.config.mss, flags, ..self.header() })
    }

    fn poll_ack(&mut self) -> Option<Segment> {
        if core::mem::take(&mut self.probe) && self.nxt < self.written {
            // RFC 9293, 3.8.6.1: one byte beyond the window, which is not counted as sent.
            self.counters.probes += 1;
            self.probed = true;
            return Some(Segment { seq: self.wire(self.nxt), len: 1, ..self.header() });
        }
        if self.owed != Owed::Now {
            return None;
        }
        Some(Segment { seq: self.wire(self.nxt), ..self.header() })
    }

    /// Everything that every segment carries, with the acknowledgement that this settles.
    fn header(&mut self) -> Segment {
        let window = self.room();
        let mut flags = Flags::NONE;
        if self.expected > 0 {
            flags = Flags::ACK;
            self.advertised = self.advertised.max(self.expected + window);
        }
        if self.echo {
            flags |= Flags::ECE;
        }
        self.owed = Owed::Nothing;
        self.unacknowledged = 0;
        Segment {
            seq: 0,
            ack: (self.expected as u32).wrapping_add(self.peer_isn),
            window: u32::try_from(window).unwrap_or(u32::MAX),
            len: 0,
            mss: 0,
            flags,
            ecn: Ecn::NotEct,
            sack: self.sack_blocks(),
        }
    }

    fn wire(&self, at: u64) -> u32 {
        (at as u32).wrapping_add(self.config.isn)
    }

    fn poll_data(&mut self, now: Instant) -> Option<Segment> {
        if self.pace_at > now {
            return None;
        }
        let limit = self.written + u64::from(self.closing);
        if self.una >= limit {
            return None;
        }
        if self.una == self.max && self.nxt < limit && now.since(self.last_sent) > self.rtt.timeout() {
            // RFC 5681, 4.1.
            self.controller.on_idle(u64::from(self.config.initial_window.max(1)) * self.mss);
        }
        if core::mem::take(&mut self.again) {
            let (_, next) = self.scoreboard.gap_from(self.una);
            let end = (self.una + self.mss).min(next.unwrap_or(u64::MAX)).min(self.max);
            self.rexmitted = self.rexmitted.max(end);
            return Some(self.emit(now, self.una, end));
        }
        if self.config.recovery == Recovery::Sack {
            return self.poll_sack(now, limit);
        }
        let window = self.window();
        // RFC 3042: each of the first two duplicate acknowledgements lets a segment out.
        let limited_transmit = self.phase == Phase::Open && self.config.vintage == Vintage::Current;
        let lift = if limited_transmit { u64::from(self.duplicates.min(2)) * self.mss } else { 0 };
        let (start, end) = self.next_new(limit)?;
        // The FIN takes no room in the window.
        if end.min(self.written).saturating_sub(self.una) > window + lift && self.nxt > self.una {
            self.limited = true;
            return None;
        }
        self.nxt = end;
        Some(self.emit(now, start, end))
    }

    fn poll_sack(&mut self, now: Instant, limit: u64) -> Option<Segment> {
        let pipe = self.pipe();
        let window = self.window();
        if self.phase == Phase::Open {
            let (start, end) = self.next_new(limit)?;
            if pipe + end.min(self.written).saturating_sub(start) > window && pipe > 0 {
                self.limited = true;
                return None;
            }
            self.nxt = end;
            return Some(self.emit(now, start, end));
        }
        // RFC 6675, section 5, C: as long as the window has room for a segment.
        if pipe + self.mss > window && pipe > 0 {
            self.limited = true;
            return None;
        }
        if let Some((start, end)) = self.next_retransmission(1) {
            self.rexmitted = end;
            return Some(self.emit(now, start, end));
        }
        if let Some((start, end)) = self.next_new(limit) {
            self.nxt = end;
            return Some(self.emit(now, start, end));
        }
        if let Some((start, end)) = self.next_retransmission(3) {
            self.rexmitted = end;
            return Some(self.emit(now, start, end));
        }
        let may_rescue = !self.rescued && self.config.vintage == Vintage::Current;
        if may_rescue && matches!(self.phase, Phase::Fast { .. }) && self.scoreboard.end() != Some(self.max) {
            // Rule 4: the last segment once, lest a timeout be needed for it.
            self.rescued = true;
            let low = self.scoreboard.end().unwrap_or(self.una).max(self.una);
            let start = low.max(self.max.saturating_sub(self.mss));
            return (start < self.max).then(|| self.emit(now, start, self.max));
        }
        None
    }

    /// The next segment of data that was not sent yet (or, after a timeout without SACK, is sent again in order), if
    /// the other end's window has room; starts the persist timer when it has none.
    fn next_new(&mut self, limit: u64) -> Option<(u64, u64)> {
        if self.nxt >= limit {
            return None;
        }
        let data_end = (self.nxt + self.mss).min(self.written);
        let room = self.right.max(self.nxt) - self.nxt;
        let mut end = data_end;
        if end > self.right.max(self.nxt) {
            end = self.right.max(self.nxt);
            // RFC 9293, 3.8.6.2.1: a part of a segment only when it is half of the largest window.
            if end == self.nxt || room < self.mss && 2 * room < self.widest {
                return None;
            }
        }
        if end == self.written && self.closing && end <= self.right {
            end += 1;
        }
        (end > self.nxt).then_some((self.nxt, end))
    }

    /// Makes the segment of `[start, end)`, of which the last may be the FIN.
    fn emit(&mut self, now: Instant, start: u64, end: u64) -> Segment {
        let fin = end > self.written;
        let len = (end - u64::from(fin)).saturating_sub(start) as u32;
        let again = start < self.max;
        let mut segment = Segment { seq: self.wire(start), len, ..self.header() };
        if fin {
            segment.flags |= Flags::FIN;
        }
        if len > 0 {
            self.counters.segments += 1;
        }
        if again {
            segment.flags |= Flags::AGAIN;
            if len > 0 {
                self.counters.retransmitted += 1;
                self.counters.retransmitted_bytes += u64::from(len);
            }
            // Karn: an acknowledgement could mean either copy.
            self.timed = None;
        } else {
            if self.ecn && len > 0 {
                // RFC 3168, 6.1.5: not on retransmissions.
                segment.ecn = Ecn::Ect0;
                if core::mem::take(&mut self.reduced) {
                    segment.flags |= Flags::CWR;
                }
            }
            if self.timed.is_none() {
                self.timed = Some((end, now));
            }
        }
        self.max = self.max.max(end);
        self.nxt = self.nxt.max(self.una);
        // RFC 6298, 5.1.
        if self.rto_at.is_none() {
            self.rto_at = Some(now + self.rtt.timeout());
        }
        self.persist_at = None;
        self.limited = false;
        self.last_sent = now;
        if let Some(rate) = self.controller.pacing() {
            let size = tidegate_core::Bytes::new(u64::from(len) + 40);
            self.pace_at = now + rate.time_for_ceil(size).unwrap_or(Span::ZERO);
        }
        if fin {
            self.advance_state();
        }
        segment
    }

    /// Call after the last [`Endpoint::poll`] of a round: arms the persist timer when data waits for a window and
    /// nothing is out whose acknowledgement would bring one.
    pub fn settle(&mut self, now: Instant) {
        let waiting = self.nxt < self.written + u64::from(self.closing);
        let established = !matches!(self.state, State::Listen | State::SynSent | State::SynReceived) && !self.is_over();
        if waiting && established && self.nxt == self.una && self.rto_at.is_none() && self.persist_at.is_none() {
            let wait = self.rtt.timeout().saturating_mul(1 << self.persist_backoff).min(self.config.rto.most);
            self.persist_at = Some(now + wait);
        }
    }
}

/// The 64-bit offset near `reference` whose low bits are `wire`.
fn unwrap(reference: u64, wire: u32) -> u64 {
    let distance = i64::from(wire.wrapping_sub(reference as u32) as i32);
    reference.saturating_add_signed(distance)
}
