//! [`Rare`]: state that most connections never need, kept out of line so that a hundred thousand connections stay
//! small.

use core::ops::{Deref, DerefMut};

use tidegate_core::Instant;

use super::NEVER;
use super::ecn::Accurate;
use crate::tcp::congestion::EcnCounts;

/// A value that is as large as a pointer until it is first written.
#[derive(Clone, Debug)]
pub(super) struct Rare<T>(Option<Box<T>>);

impl<T> Default for Rare<T> {
    fn default() -> Self {
        Self(None)
    }
}

/// The value of a [`Rare`] that was never written.
pub(super) trait Unwritten: Clone + 'static {
    const UNWRITTEN: &'static Self;
}

impl<T: Unwritten> Deref for Rare<T> {
    type Target = T;
    fn deref(&self) -> &T {
        self.0.as_deref().unwrap_or(T::UNWRITTEN)
    }
}

impl<T: Unwritten> DerefMut for Rare<T> {
    fn deref_mut(&mut self) -> &mut T {
        self.0.get_or_insert_with(|| Box::new(T::UNWRITTEN.clone()))
    }
}

/// Statistics of an endpoint.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Counters {
    /// Data segments sent, retransmissions included.
    pub segments: u64,
    /// Data segments retransmitted.
    pub retransmitted: u64,
    /// Bytes of data retransmitted.
    pub retransmitted_bytes: u64,
    /// Expirations of the retransmission timer.
    pub timeouts: u64,
    /// Fast recoveries entered.
    pub recoveries: u64,
    /// Reductions of cwnd because of ECN.
    pub ecn_reductions: u64,
    /// Marked packets that accurate feedback has reported, while it is heeded.
    pub marks_reported: u64,
    /// Window probes.
    pub probes: u64,
    /// Tail loss probes.
    pub tail_probes: u64,
    /// Segments that the peer received twice, as reported by D-SACK.
    pub duplicates_reported: u64,
    /// Segments discarded as old duplicates (PAWS).
    pub old_duplicates: u64,
}

/// The state of the timestamps option.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct TimestampState {
    /// Whether both ends use the option.
    pub on: bool,
    /// TS.Recent, and when it was set.
    pub recent: u32,
    pub recent_at: Instant,
    /// Last.ACK.sent.
    pub last_ack: u64,
}

/// The state of a DCTCP receiver.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct CeEcho {
    /// DCTCP.CE: whether the last data segment was marked.
    pub marked: bool,
    /// A pending acknowledgement of the data before the mark changed, with the earlier mark.
    pub before: Option<(u64, bool)>,
}

/// The tail loss probe.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Probe {
    /// The probe timeout.
    pub at: Option<Instant>,
    /// Whether the timeout has expired.
    pub pending: bool,
    /// TLP.end_seq, and whether the probe was a retransmission.
    pub sent: Option<(u64, bool)>,
}

/// The persist timer (RFC 9293, section 3.8.6.1).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Persist {
    /// When it expires; [`NEVER`] if it is not armed.
    pub at: Instant,
    /// How often it has expired since the window was last open.
    pub backoff: u32,
}

impl Persist {
    /// Not armed.
    pub const NONE: Self = Self { at: NEVER, backoff: 0 };
}

/// The ECN state of a sender, if both ends agreed on ECN.
#[derive(Clone, Copy, Debug)]
pub(super) struct EcnState {
    pub counts: EcnCounts,
    /// ECN-Echo reduces cwnd again only when an acknowledgement passes this number (RFC 3168, 6.1.2).
    pub recovery_point: u64,
}

/// State for features that most connections do not use: options, ECN, waiting for a window.
#[derive(Clone, Debug)]
pub(super) struct Extensions {
    pub persist: Persist,
    pub ecn: EcnState,
    /// The tail loss probe (RFC 8985).
    pub tail: Probe,
    pub timestamps: TimestampState,
    /// The duplicate that the next acknowledgement reports (RFC 2883).
    pub duplicate: Option<(u64, u64)>,
    pub ce_echo: CeEcho,
    /// Accurate ECN feedback, if it was negotiated.
    pub accurate: Option<Box<Accurate>>,
    /// The seed of random decisions of the congestion control.
    pub seed: u64,
}

impl Unwritten for Extensions {
    const UNWRITTEN: &'static Self = &Self {
        persist: Persist::NONE,
        // Data begins at 1.
        ecn: EcnState { counts: EcnCounts { capable: 0, ce: 0 }, recovery_point: 1 },
        tail: Probe { at: None, pending: false, sent: None },
        timestamps: TimestampState { on: false, recent: 0, recent_at: Instant::ZERO, last_ack: 0 },
        duplicate: None,
        ce_echo: CeEcho { marked: false, before: None },
        accurate: None,
        seed: 0,
    };
}

/// A pure receiver never writes its counters.
impl Unwritten for Counters {
    const UNWRITTEN: &'static Self = &Self {
        segments: 0,
        retransmitted: 0,
        retransmitted_bytes: 0,
        timeouts: 0,
        recoveries: 0,
        ecn_reductions: 0,
        marks_reported: 0,
        probes: 0,
        tail_probes: 0,
        duplicates_reported: 0,
        old_duplicates: 0,
    };
}
