//! [`Endpoint`]: one end of a TCP connection.
//!
//! Optional: RFC 8985 (RACK-TLP), RFC 6937 (PRR), RFC 9406 (HyStart++), RFC 7323 (timestamps, PAWS), RFC 2883 (D-SACK),
//! RFC 8257 (DCTCP, including its receiver), and growth by bytes (RFC 3465) or by acknowledgements.
//! *Units*: sequence numbers have 64 bits: 0 is the SYN and 1 the first byte. On the wire are the low 32 bits plus the
//! initial sequence number. HighData, HighRxt and RecoveryPoint denote the number after the last byte.
//! *Cost*: O(1) for a segment, O(SACKed ranges) during loss recovery, and O(window) during recovery with RACK.
//! *Departures from the source*: there are no checksums, urgent data, simultaneous open or RST. Without timestamps, one
//! RTT is measured at a time. A receiver never reneges and never shrinks its window.

mod ack;
mod config;
mod ecn;
mod options;
mod rare;
mod receive;
mod sack;
mod send;
mod tlp;

use std::sync::Arc;

use tidegate_core::{Instant, Rate, Span};

use super::bbr::Bbr;
use super::congestion::{Algorithm, Controller, EcnCounts, EcnFeedback};
use super::hystart::HyStart;
use super::prr::Prr;
use super::ranges::Ranges;
use super::rtt::RttEstimator;
use super::transmissions::Transmissions;
use rare::{Extensions, Persist, Rare};

pub use config::{Config, EcnUse, Growth, Recovery, Vintage};
pub use rare::Counters;

/// DupThresh (RFC 6675, section 2): the number of duplicate acknowledgements that indicate a loss.
const DUP_THRESH: u32 = 3;
/// The end of endless data.
const ENDLESS: u64 = 1 << 60;
/// The expiry of a timer that is not armed.
const NEVER: Instant = Instant::MAX;

/// The states of RFC 9293, section 3.3.2.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum State {
    /// Waiting for a SYN.
    Listen,
    /// A SYN was sent.
    SynSent,
    /// A SYN was received and one sent.
    SynReceived,
    /// Data may be sent in both directions.
    Established,
    /// Closed at this end; the FIN is not acknowledged.
    FinWait1,
    /// Closed at this end; the FIN is acknowledged.
    FinWait2,
    /// Closed at the other end.
    CloseWait,
    /// Closed at both ends, this one first; the FIN is not acknowledged.
    Closing,
    /// Closed at both ends, the other first; the FIN is not acknowledged.
    LastAck,
    /// Closed at both ends; acknowledges a retransmitted FIN.
    TimeWait,
    /// No connection.
    Closed,
}

/// The phase of loss recovery.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Phase {
    /// No loss is known.
    Open,
    /// Fast recovery, until `recovery_point` is acknowledged. Data below `lost` is considered lost from the start.
    FastRecovery { recovery_point: u64, lost: u64 },
    /// After a timeout, until `recovery_point` is acknowledged.
    RtoRecovery { recovery_point: u64 },
}

/// Whether an acknowledgement is to be sent.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum AckPending {
    No,
    Until(Instant),
    Now,
}

/// One end of a connection. See the [module](super).
#[derive(Debug)]
pub struct Endpoint {
    config: Arc<Config>,
    state: State,
    counters: Rare<Counters>,
    mss: u64,

    // Send sequence space: snd_una <= snd_nxt <= high_data <= written + 1 (the FIN).
    snd_una: u64,
    snd_nxt: u64,
    /// HighData of RFC 6675 plus one: the start of data that was never sent.
    high_data: u64,
    /// The end of the data written by the application.
    written: u64,
    /// A FIN follows the data.
    closing: bool,
    /// SND.UNA + SND.WND: the right edge of the send window.
    snd_wnd_edge: u64,
    /// Max(SND.WND) of RFC 9293, section 3.8.6.2.1.
    max_snd_wnd: u64,
    /// The rate that the path advised last, and when.
    advised: Option<(Rate, Instant)>,
    phase: Phase,
    /// recover of RFC 6582: fast retransmit applies only to segments above it.
    recover: u64,
    dup_acks: u32,
    /// The amount that fast recovery adds to cwnd for segments that have left the network (RFC 5681, 3.2).
    cwnd_inflation: i64,
    /// The segment at SND.UNA must be retransmitted, whatever cwnd is.
    retransmit_pending: bool,
    first_partial_ack: bool,
    scoreboard: Ranges,
    /// HighRxt of RFC 6675 plus one: retransmissions of this recovery end here.
    high_rxt: u64,
    /// RescueRxt of RFC 6675 plus one: no rescue retransmission unless SND.UNA is above it.
    rescue_rxt: u64,
    /// Whether cwnd prevented the last poll from sending.
    cwnd_limited: bool,
    /// Whether pacing alone prevented the last poll from sending. The window is then used as well as it can be (RFC
    /// 9002, section 7.8).
    pacing_limited: bool,
    controller: Controller,
    rtt: RttEstimator,
    /// The end of the segment whose RTT is being measured, and when it was sent; [`NEVER`] if none is.
    timed_end: u64,
    timed_at: Instant,
    /// The expiry of the retransmission timer; [`NEVER`] if it is not armed.
    rto_at: Instant,
    probe_pending: bool,
    probe_sent: bool,
    retries: u32,
    last_sent: Instant,
    pace_at: Instant,
    hystart: Option<Box<HyStart>>,
    prr: Option<Box<Prr>>,
    /// Needed for RACK, delivery rates and HyStart++.
    transmissions: Option<Box<Transmissions>>,
    extensions: Rare<Extensions>,

    // Receive sequence space.
    peer_isn: u32,
    rcv_nxt: u64,
    out_of_order: Ranges,
    recent_blocks: [u64; 2],
    /// The sequence number of the peer's FIN; [`ENDLESS`] before it has arrived.
    fin_at: u64,
    unread: u64,
    rcv_wnd_edge: u64,
    ack_pending: AckPending,
    segments_since_ack: u32,

    // ECN.
    feedback: EcnFeedback,
    ece_pending: bool,
    cwr_pending: bool,

    syn_pending: bool,
    /// [`NEVER`] before the handshake is complete.
    established: Instant,
}

impl Endpoint {
    /// Creates the active opener. Its next [`Endpoint::poll`] returns a SYN.
    pub fn connect(config: impl Into<Arc<Config>>) -> Self {
        Self { state: State::SynSent, syn_pending: true, ..Self::listen(config) }
    }

    /// Creates the passive opener.
    pub fn listen(config: impl Into<Arc<Config>>) -> Self {
        let config: Arc<Config> = config.into();
        let model_based = matches!(config.algorithm, Algorithm::Bbr);
        let hystart = (config.hystart && !model_based).then(Box::default);
        let keeps = config.hystart || config.keeps_transmissions();
        let reports = matches!(config.algorithm, Algorithm::Bbr | Algorithm::Custom(_));
        let transmissions = keeps.then(|| Box::new(Transmissions::reporting(reports)));
        let mss = u64::from(config.mss.max(1));
        let initial = u64::from(config.initial_window.max(1)) * mss;
        let (controller, rtt) = (Controller::new(config.algorithm, mss, initial, 0), RttEstimator::new());
        Self {
            config,
            state: State::Listen,
            counters: Rare::default(),
            mss,
            snd_una: 0,
            snd_nxt: 0,
            high_data: 0,
            written: 1,
            closing: false,
            snd_wnd_edge: 0,
            max_snd_wnd: 0,
            advised: None,
            phase: Phase::Open,
            recover: 0,
            dup_acks: 0,
            cwnd_inflation: 0,
            retransmit_pending: false,
            first_partial_ack: false,
            scoreboard: Ranges::default(),
            high_rxt: 0,
            rescue_rxt: 0,
            cwnd_limited: false,
            pacing_limited: false,
            controller,
            rtt,
            timed_end: 0,
            timed_at: NEVER,
            rto_at: NEVER,
            probe_pending: false,
            probe_sent: false,
            retries: 0,
            last_sent: Instant::ZERO,
            pace_at: Instant::ZERO,
            hystart,
            prr: None,
            transmissions,
            extensions: Rare::default(),
            peer_isn: 0,
            rcv_nxt: 0,
            out_of_order: Ranges::default(),
            recent_blocks: [0; 2],
            fin_at: ENDLESS,
            unread: 0,
            rcv_wnd_edge: 0,
            ack_pending: AckPending::No,
            segments_since_ack: 0,
            feedback: EcnFeedback::None,
            ece_pending: false,
            cwr_pending: false,
            syn_pending: false,
            established: NEVER,
        }
    }

    /// Sets the seed of random decisions of the congestion control, before the first segment. Default 0.
    pub fn set_seed(&mut self, seed: u64) {
        self.extensions.seed = seed;
    }

    // ------------------------------------------------------------------ the application's interface

    /// Appends `bytes` bytes to the data to send.
    pub fn write(&mut self, bytes: u64) {
        debug_assert!(!self.closing, "written after the close");
        self.written = self.written.saturating_add(bytes).min(ENDLESS);
    }
    /// Makes the data to send unlimited.
    pub fn write_endlessly(&mut self) {
        self.written = ENDLESS;
    }
    /// Closes the sending side: a FIN follows the last byte.
    pub fn close(&mut self) {
        self.closing = true;
    }
    /// Closes the sending side after the data that was sent already. Data that was written but never sent is discarded.
    pub fn finish(&mut self) {
        if !self.closing {
            self.written = self.written.min(self.high_data.max(1));
            self.closing = true;
        }
    }
    /// Consumes up to `bytes` from the receive buffer, if data is not consumed at once, and returns how many bytes it
    /// was.
    pub fn read(&mut self, bytes: u64) -> u64 {
        let taken = bytes.min(self.unread);
        self.unread -= taken;
        // RFC 9293, 3.8.6.2.2: send a window update when the window has grown by a segment or by half of the buffer.
        let edge = self.rcv_nxt + self.rcv_wnd();
        if edge >= self.rcv_wnd_edge + self.mss.min(self.config.receive_buffer / 2).max(1)
            && self.state != State::Listen
        {
            self.ack_pending = AckPending::Now;
        }
        taken
    }

    // ------------------------------------------------------------------ state

    /// The state of the connection.
    pub fn state(&self) -> State {
        self.state
    }
    /// Whether the connection is closed, except that it may still acknowledge a retransmitted FIN.
    pub fn is_over(&self) -> bool {
        matches!(self.state, State::TimeWait | State::Closed)
    }
    /// Bytes received in order so far.
    pub fn received(&self) -> u64 {
        let fin = u64::from(self.peer_closed());
        self.rcv_nxt.saturating_sub(1 + fin)
    }
    /// Bytes that have arrived so far, each counted once, including those behind a hole.
    pub fn arrived(&self) -> u64 {
        // A FIN behind a hole takes a place in the sequence, and carries no data.
        let fin = u64::from(self.out_of_order.end().is_some_and(|end| end > self.fin_at));
        self.received() + self.out_of_order.bytes() - fin
    }
    /// Bytes in the receive buffer, if data is not consumed at once.
    pub fn unread(&self) -> u64 {
        self.unread
    }
    /// Whether the peer has closed and all of its data has been received.
    pub fn peer_closed(&self) -> bool {
        self.rcv_nxt > self.fin_at
    }
    /// Bytes of data that the peer has acknowledged.
    pub fn acknowledged(&self) -> u64 {
        self.snd_una.saturating_sub(1).min(self.written - 1)
    }
    /// Bytes that were written and not yet acknowledged; `None` for endless data.
    pub fn remaining(&self) -> Option<u64> {
        (self.written < ENDLESS).then(|| self.written - self.snd_una.clamp(1, self.written))
    }
    /// Bytes that were written and never sent; `None` for endless data.
    pub fn unsent(&self) -> Option<u64> {
        (self.written < ENDLESS).then(|| self.written.saturating_sub(self.high_data.max(1)))
    }
    /// Returns the counters of this end.
    pub fn counters(&self) -> &Counters {
        &self.counters
    }
    /// cwnd in bytes, including the inflation by duplicate acknowledgements.
    pub fn cwnd(&self) -> u64 {
        (self.controller.cwnd() as i64 + self.cwnd_inflation).max(self.mss as i64) as u64
    }
    /// BBR's model of the path, if the connection uses BBR.
    pub fn bbr(&self) -> Option<&Bbr> {
        match &self.controller {
            Controller::Bbr(bbr) => Some(bbr),
            _ => None,
        }
    }
    /// ssthresh in bytes.
    pub fn ssthresh(&self) -> u64 {
        self.controller.ssthresh()
    }
    /// FlightSize (RFC 5681, section 2): bytes sent and not cumulatively acknowledged.
    pub fn flight_size(&self) -> u64 {
        self.high_data - self.snd_una
    }
    /// The FlightSize from which ssthresh is computed (RFC 5681, equation (4)): at most cwnd.
    ///
    /// Equation (4) is an upper bound. FlightSize can exceed cwnd in three cases: by segments of Limited Transmit,
    /// which the RFC excludes; in fast recovery, by new data that replaces SACKed data while the sender waits for a
    /// lost retransmission, limited by the receive window alone; and after a timeout, by all data outstanding at that
    /// time. None of this shows that the path can carry more than cwnd.
    fn flight_within_cwnd(&self) -> u64 {
        self.flight_size().min(self.controller.cwnd())
    }
    /// The RTT estimator.
    pub fn rtt(&self) -> &RttEstimator {
        &self.rtt
    }
    /// The retransmission timeout, including the backoff.
    pub(crate) fn rto(&self) -> Span {
        self.rtt.rto(&self.config.rto)
    }
    /// The phase of the sender: that of its congestion control, or of the repair of losses.
    pub(crate) fn phase(&self) -> &'static str {
        // A control with phases of its own is in one of them while it repairs, too.
        self.controller.phase().unwrap_or_else(|| match self.phase {
            Phase::FastRecovery { .. } => "recovery",
            Phase::RtoRecovery { .. } => "timeout",
            Phase::Open => self.controller.usual_phase(),
        })
    }
    /// When this end entered ESTABLISHED.
    pub fn established_at(&self) -> Option<Instant> {
        (self.established != NEVER).then_some(self.established)
    }
    /// Whether both ends agreed on ECN.
    pub fn uses_ecn(&self) -> bool {
        self.feedback != EcnFeedback::None
    }
    /// The ECN counts that the peer has reported so far.
    pub fn ecn_counts(&self) -> EcnCounts {
        self.extensions.ecn.counts
    }
    /// The feedback of marks on which both ends agreed.
    pub fn ecn_feedback(&self) -> EcnFeedback {
        self.feedback
    }

    /// When [`Endpoint::on_timer`] is due. Every call that takes `&mut self` invalidates it.
    pub fn deadline(&self) -> Option<Instant> {
        let mut at = self.rto_at.min(self.extensions.persist.at);
        if let AckPending::Until(ack) = self.ack_pending {
            at = at.min(ack);
        }
        if self.pace_at > self.last_sent {
            at = at.min(self.pace_at);
        }
        if let Some(transmissions) = &self.transmissions {
            at = at.min(self.extensions.tail.at.unwrap_or(NEVER)).min(transmissions.reorder_at.unwrap_or(NEVER));
        }
        (at < NEVER).then_some(at)
    }

    // ------------------------------------------------------------------ time

    /// Processes the timers that have expired. An early call is harmless.
    pub fn on_timer(&mut self, now: Instant) {
        if let AckPending::Until(at) = self.ack_pending
            && at <= now
        {
            self.ack_pending = AckPending::Now;
        }
        if self.pace_at <= now {
            self.pace_at = Instant::ZERO;
        }
        if self.extensions.persist.at <= now {
            let backoff = (self.extensions.persist.backoff + 1).min(16);
            self.extensions.persist = Persist { at: NEVER, backoff };
            self.probe_pending = true;
        }
        if self.config.rack() {
            self.on_rack_timer(now);
        }
        if self.rto_at <= now {
            self.on_timeout(now);
        }
    }

    fn on_timeout(&mut self, now: Instant) {
        self.counters.timeouts += 1;
        self.retries += 1;
        if self.retries > self.config.retries {
            self.state = State::Closed;
            self.rto_at = NEVER;
            self.stop_persist();
            return;
        }
        self.timed_at = NEVER;
        self.rtt.back_off();
        self.rto_at = now + self.rto();
        if matches!(self.state, State::SynSent | State::SynReceived) {
            self.syn_pending = true;
            return;
        }
        if let Some(transmissions) = &mut self.transmissions {
            transmissions.on_timeout(now);
        }
        let flight_size = if self.controller.is_model_based() { self.pipe() } else { self.flight_within_cwnd() };
        self.controller.on_timeout(now, flight_size, self.retries == 1);
        self.report_losses(now);
        self.phase = Phase::RtoRecovery { recovery_point: self.high_data };
        self.recover = self.high_data;
        self.dup_acks = 0;
        self.cwnd_inflation = 0;
        self.retransmit_pending = false;
        self.high_rxt = self.snd_una;
        self.rescue_rxt = u64::MAX;
        self.prr = None;
        self.cancel_probe();
        if self.config.recovery != Recovery::Sack {
            // Go-back-N: everything above SND.UNA is sent again, in slow start.
            self.snd_nxt = self.snd_una;
        }
    }
}

/// The 64-bit sequence number nearest to `reference` whose low bits are `wire`.
fn unwrap(reference: u64, wire: u32) -> u64 {
    let distance = i64::from(wire.wrapping_sub(reference as u32) as i32);
    reference.saturating_add_signed(distance)
}
