//! [`Rare`]: state that most connections never have, kept apart so that a hundred thousand of them stay small.

use core::ops::{Deref, DerefMut};

use tidegate_core::Instant;

use super::Counters;
use super::options::{CeEcho, TimestampState};
use super::tlp::Probe;

/// A value that takes the room of a pointer until it is first written.
#[derive(Clone, Debug, Default)]
pub(super) struct Rare<T>(Option<Box<T>>);

/// A value that has not been written.
pub(super) trait Unwritten: Default + 'static {
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
        self.0.get_or_insert_with(Box::default)
    }
}

/// The state of what a connection may negotiate or be configured to do.
#[derive(Clone, Debug, Default)]
pub(super) struct Extensions {
    /// The tail loss probe (RFC 8985).
    pub tail: Probe,
    pub timestamps: TimestampState,
    /// The duplicate that the next acknowledgement reports (RFC 2883).
    pub duplicate: Option<(u64, u64)>,
    pub ce_echo: CeEcho,
}

impl Unwritten for Extensions {
    const UNWRITTEN: &'static Self = &Self {
        tail: Probe { at: None, pending: false, sent: None },
        timestamps: TimestampState { on: false, recent: 0, recent_at: Instant::ZERO, last_ack: 0 },
        duplicate: None,
        ce_echo: CeEcho { marked: false, before: None },
    };
}

/// A receiver counts nothing.
impl Unwritten for Counters {
    const UNWRITTEN: &'static Self = &Self {
        segments: 0,
        retransmitted: 0,
        retransmitted_bytes: 0,
        timeouts: 0,
        recoveries: 0,
        ecn_reductions: 0,
        probes: 0,
        tail_probes: 0,
        duplicates_reported: 0,
        old_duplicates: 0,
    };
}
