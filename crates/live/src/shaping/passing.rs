//! [`Passing`]: what packets that pass data paths show of the line, for a rate that follows it.
//!
//! *Law*: a data path never waits for the reader: what it cannot hand over it keeps, and beyond [`MOST`] it forgets.
//! *Cost*: without a reader one comparison for a packet; with one, the dissection of its TCP options, and a copy of some 60 bytes.

use std::sync::{Arc, Mutex, TryLockError};

use tidegate_autorate::passive::Segment;
use tidegate_capture::dissect::Dissection;
use tidegate_capture::passive;
use tidegate_units::{Bytes, Instant};

use super::command::Handle;
use crate::timing;

/// The most segments between two readings: what a fast line carries in 50 ms.
const MOST: usize = 16_384;
/// Packets in the queue whose segments are remembered until they leave.
const HELD: usize = 4_096;

/// Segments and bytes that passed since the last reading, by the clock of [`timing::now`].
#[derive(Debug, Default)]
pub struct Passed {
    /// Segments of TCP and QUIC with their times, of each data path in order.
    pub segments: Vec<(Instant, Segment)>,
    /// The bytes that the line has carried.
    pub bytes: Bytes,
    /// Whether packets waited in the shaper.
    pub waiting: bool,
}

/// Where data paths put what passes, and where it is read.
#[derive(Debug, Default)]
pub struct Passing(Mutex<Passed>);

impl Passing {
    /// Takes what has passed since the last call.
    pub fn take(&self) -> Passed {
        std::mem::take(&mut *tidegate_engine::guard::lock(&self.0))
    }
}

/// The part of a data path that observes what passes.
pub(super) struct Observer {
    shared: Arc<Passing>,
    /// Whether packets are observed as they leave the queue, and not as they arrive.
    outward: bool,
    now: Instant,
    passed: Passed,
    /// The segments of queued packets, by the number of the packet.
    held: Vec<Option<(u32, Segment)>>,
}

impl Observer {
    pub fn new(shared: Arc<Passing>, outward: bool) -> Self {
        let held = if outward { vec![None; HELD] } else { Vec::new() };
        Self { shared, outward, now: timing::now(), passed: Passed::default(), held }
    }

    /// A turn of the data path begins; `waiting` tells that packets are queued.
    pub fn turn(&mut self, waiting: bool) {
        self.now = timing::now();
        self.passed.waiting |= waiting;
    }

    /// A packet has arrived.
    pub fn arrived(&mut self, handle: &Handle, headers: &Dissection, payload: &[u8]) {
        let segment = passive::segment(headers, payload, self.outward);
        if self.outward {
            let at = handle.id as usize % HELD;
            self.held[at] = segment.map(|segment| (handle.id, segment));
            return;
        }
        self.passed.bytes += Bytes::new(handle.length.into());
        self.note(segment);
    }

    /// A packet leaves the queue.
    pub fn left(&mut self, handle: &Handle) {
        if self.outward {
            self.passed.bytes += Bytes::new(handle.length.into());
            let held = self.held[handle.id as usize % HELD].take();
            self.note(held.filter(|(id, _)| *id == handle.id).map(|(_, segment)| segment));
        }
    }

    fn note(&mut self, segment: Option<Segment>) {
        if let Some(segment) = segment
            && self.passed.segments.len() < MOST
        {
            self.passed.segments.push((self.now, segment));
        }
    }

    /// Hands over what was seen, unless the reader is reading.
    pub fn hand_over(&mut self) {
        let mut shared = match self.shared.0.try_lock() {
            Ok(shared) => shared,
            Err(TryLockError::Poisoned(poisoned)) => poisoned.into_inner(),
            Err(TryLockError::WouldBlock) => return,
        };
        let room = MOST.saturating_sub(shared.segments.len()).min(self.passed.segments.len());
        shared.segments.extend(self.passed.segments.drain(..room));
        self.passed.segments.clear();
        shared.bytes += std::mem::take(&mut self.passed.bytes);
        shared.waiting |= std::mem::take(&mut self.passed.waiting);
    }
}
