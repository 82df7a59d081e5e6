//! [`FileRecorder`]: the part of a recording that runs on the data path.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::sync::mpsc::SyncSender;

use tidegate_core::DropReason;
use tidegate_engine::{Change, Operation, PacketMeta, Recorder};
use tidegate_units::{Instant, Span};

use super::file::{CHUNK, Chunk, Shared};
use super::head::{Reconfiguration, Setup};
use super::{ChunkKind, Control, Encoder, MAX_CHUNK};

/// The longest time after which records are passed to the writing thread.
const LONGEST: Span = Span::from_secs(1);
/// An upper bound on the size of a record without the bytes of a packet.
const ROOM: usize = 256;

/// Records every call of one engine. It never waits: if the file is too slow, chunks are lost and counted. Dropping it passes the
/// last records to the writing thread.
pub struct FileRecorder {
    encoder: Encoder,
    to: SyncSender<Chunk>,
    shared: Arc<Shared>,
    /// The time of the first record of the chunk.
    since: Instant,
    bytes: Vec<u8>,
}

impl FileRecorder {
    pub(super) fn new(to: SyncSender<Chunk>, shared: Arc<Shared>, setup: &Setup) -> Self {
        let mut encoder = Encoder::new(shared.payload, CHUNK);
        encoder.go_on_from(shared.records.load(Ordering::Relaxed));
        let json = serde_json::to_string(setup).expect("strings and numbers");
        encoder.setup(setup.now(), &json);
        Self { encoder, to, shared, since: setup.now(), bytes: Vec::with_capacity(65_536) }
    }

    /// Makes room in the chunk for a record with `n` bytes of payload.
    #[inline]
    fn reserve(&mut self, n: usize) {
        if self.encoder.len() + n + ROOM > CHUNK {
            self.send_chunk();
        }
    }

    #[cold]
    fn send_chunk(&mut self) {
        if self.encoder.is_empty() {
            return;
        }
        self.since = self.encoder.now();
        // The channel has more places than there are buffers, so that the owner of a buffer can send.
        match self.shared.buffer() {
            Some(empty) => {
                let records = self.encoder.in_chunk();
                let body = self.encoder.take(empty);
                if self.to.try_send(Chunk { kind: ChunkKind::Records, body, records }).is_err() {
                    self.shared.lost.fetch_add(records, Ordering::Relaxed);
                }
            }
            None => {
                let lost = self.encoder.lose();
                self.shared.lost.fetch_add(lost, Ordering::Relaxed);
            }
        }
        self.shared.records.store(self.encoder.records(), Ordering::Relaxed);
    }
}

impl Recorder for FileRecorder {
    fn packet_bytes(&mut self, bytes: &[u8]) {
        self.bytes.clear();
        self.bytes.extend_from_slice(bytes);
    }
    fn arrival(&mut self, now: Instant, number: u64, meta: &PacketMeta) {
        self.reserve(self.bytes.len());
        self.encoder.arrives(now, number, meta, &self.bytes);
        self.bytes.clear();
    }
    fn departure(&mut self, now: Instant) {
        self.reserve(0);
        self.encoder.departs(now);
    }
    fn operation(&mut self, now: Instant, operation: Operation<'_>) {
        self.reserve(0);
        // A call without a time of its own gets the time of the call before it.
        let now = now.max(self.encoder.now());
        match operation {
            Operation::ReleaseAll => self.encoder.release_all(),
            Operation::Adjustment(adjustment) => self.encoder.adjust(now, adjustment),
            Operation::Reconfigure { text, names, built } => {
                let to = Reconfiguration::new(text, names, built);
                let json = serde_json::to_string(&to).expect("strings and numbers");
                self.reserve(json.len());
                self.encoder.reconfigure(now, &json);
                self.shared.reconfigured(to);
            }
            Operation::Control(control) => {
                let json = serde_json::to_string(&Control::from(&control)).expect("strings and numbers");
                // The conditions of thousands of promises may not fit into a chunk.
                if json.len() > MAX_CHUNK / 2 {
                    self.encoder.unrecorded();
                    return;
                }
                self.reserve(json.len());
                self.encoder.control(now, &json);
            }
            _ => self.encoder.unrecorded(),
        }
    }
    fn sent(&mut self, number: u64, change: Change) {
        self.reserve(0);
        self.encoder.passed(number, change);
    }
    fn dropped(&mut self, number: u64, reason: DropReason) {
        self.reserve(0);
        self.encoder.refused(number, reason);
    }
    fn too_long(&mut self, number: u64) {
        self.reserve(0);
        self.encoder.too_long(number);
    }
    fn idle(&mut self, now: Instant) {
        if now.since(self.since) > LONGEST {
            self.send_chunk();
            self.since = now;
        }
    }
}

impl Drop for FileRecorder {
    fn drop(&mut self) {
        self.send_chunk();
    }
}
