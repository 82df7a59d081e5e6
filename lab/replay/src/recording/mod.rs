//! Recordings: every call of the engine with its time, and its outcome, so that the run can be repeated.
//!
//! *Law*: a [`Reader`] returns what the [`FileRecorder`] was given, in order; what could not be kept is counted and
//! reported where it is missing ([`Record::Gap`]); a file that was cut off is read up to the last whole chunk. No file
//! panics, or makes the reader allocate more than [`MAX_CHUNK`].
//! *Source*: of our own; see the reference in the book for every byte.
//! *Units*: times in ns of the clock of the data path, lengths in bytes.
//! *Cost*: a record of a packet takes a table look-up and some 15 bytes, and about as many for its headers; nothing
//! is allocated, and a full disk or a slow one never holds up the data path.
//! *Notes*: a chunk is kept whole or not at all. A flow is defined once in each chunk and then named by the place of
//! its definition; headers are the difference to those of the packet before in the same place. Times are differences
//! to the record before.
//! *See also*: [`exact`](crate::exact), which does a recording again and compares.

pub(crate) mod codec;
mod control;
mod decode;
mod encode;
mod file;
mod head;
mod recorder;

use tidegate_core::DropReason;
use tidegate_engine::{Adjustment, Change, PacketMeta};
use tidegate_units::Instant;

pub use control::Control;
pub use decode::{Reader, RecordingError};
pub use encode::{Encoder, raw_chunk};
pub use file::{Counts, Recording, Settings, Stopped, part_path};
pub use head::{Head, Payload, Reconfiguration, Setup};
pub use recorder::FileRecorder;

/// What a recording begins with. The first byte is not text, and line ends in it show what a transfer as text breaks.
pub const MAGIC: [u8; 8] = *b"\x89TGR\r\n\x1a\n";
/// The version of the format that is written. A reader refuses a later one.
pub const FORMAT: u32 = 2;
/// The largest body of a chunk.
pub const MAX_CHUNK: usize = 16 << 20;
/// Flows that a chunk can name at a time.
pub(crate) const PLACES: usize = 1024;
/// Bytes of headers whose differences are stored.
pub(crate) const DIFFERENCE: usize = 96;

/// The kind of chunk.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(u8)]
pub(crate) enum ChunkKind {
    /// A [`Head`], as JSON: the first of a file, and only that.
    Head = b'H',
    /// Records.
    Records = b'R',
    /// The recording ended in order: how much was kept and lost in all.
    End = b'E',
}

impl ChunkKind {
    pub(crate) const fn from_byte(byte: u8) -> Option<Self> {
        Some(match byte {
            b'H' => Self::Head,
            b'R' => Self::Records,
            b'E' => Self::End,
            _ => return None,
        })
    }
}

/// The byte that each record begins with.
pub(crate) mod tag {
    pub const SETUP: u8 = 1;
    pub const ARRIVES: u8 = 2;
    pub const DEPARTS: u8 = 3;
    pub const PASSED: u8 = 4;
    pub const CHANGED: u8 = 5;
    pub const REFUSED: u8 = 6;
    pub const TOO_LONG: u8 = 7;
    pub const RELEASE_ALL: u8 = 8;
    pub const ADJUSTMENT: u8 = 9;
    pub const RECONFIGURE: u8 = 10;
    pub const UNRECORDED: u8 = 11;
    pub const CONTROL: u8 = 12;
}

/// The metadata of a packet beside its flow and its length.
pub(crate) mod bits {
    pub const ECN: u8 = 3;
    pub const PURE_ACK: u8 = 4;
    pub const SUPER: u8 = 8;
    pub const FRAGMENT: u8 = 16;
    /// Bytes follow, whole.
    pub const BYTES: u8 = 32;
    /// Bytes follow, as the difference to those of the packet before in this place.
    pub const DIFFERENCE: u8 = 64;
    /// The flow is defined here.
    pub const DEFINED: u8 = 128;
}

/// The recorded outcome of a packet.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum PacketOutcome {
    /// It passed.
    Passed(Change),
    /// It was dropped, for this reason.
    Refused(DropReason),
    /// It was returned to the kernel for segmentation.
    TooLong,
}

/// Why records are missing.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Missing {
    /// The recorder could not write as fast as calls came.
    NotKept {
        /// The number of missing records.
        records: u64,
    },
    /// A chunk is damaged.
    Damaged {
        /// Its offset in the file.
        offset: u64,
        /// The defect, for people.
        why: String,
    },
    /// The file begins in the middle of a run: what came before is in other files.
    Before,
    /// The run went on when the file ended: what follows is in other files.
    Behind,
}

/// A record of a recording.
#[derive(Clone, PartialEq, Debug)]
pub enum Record {
    /// An engine is built, with empty queues.
    Setup(Setup),
    /// A packet arrives.
    Arrives {
        /// The time of the call.
        now: Instant,
        /// Its number, from 0 with each engine.
        number: u64,
        /// Its metadata. The part of its bytes that was kept is in [`Reader::bytes`].
        meta: PacketMeta,
    },
    /// A packet is asked for.
    Departs {
        /// The time of the call.
        now: Instant,
    },
    /// All packets are released at once.
    ReleaseAll,
    /// The control plane changes something.
    Adjustment {
        /// The time of the call.
        now: Instant,
        /// The change of a rate or promise.
        adjustment: Adjustment,
    },
    /// The configuration is replaced.
    Reconfigure {
        /// The time of the call.
        now: Instant,
        /// The new configuration.
        to: Reconfiguration,
    },
    /// The control plane makes or ends a promise or a reservation.
    Control {
        /// The time of the call.
        now: Instant,
        /// The call of the control plane.
        control: Control,
    },
    /// A change that recordings do not represent.
    Unrecorded,
    /// An outcome of the call before.
    Outcome {
        /// The number of the packet.
        number: u64,
        /// The outcome of that packet.
        outcome: PacketOutcome,
    },
    /// Records are missing here.
    Gap(Missing),
}
