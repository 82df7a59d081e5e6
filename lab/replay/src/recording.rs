//! Recordings: every call of the engine with its time and its outcomes, so that the run can be repeated.
//!
//! *Law*: a [`Reader`] returns the calls that the [`FileRecorder`] received, in order. Lost records are counted and reported
//! where they are missing ([`Record::Gap`]); a file that was cut off is read up to the last whole chunk. No file makes the
//! reader panic, or allocate more than [`MAX_CHUNK`] for a chunk.
//! *Source*: the format is our own; the reference in the book describes every byte.
//! *Units*: times in ns of the clock of the data path, lengths in bytes.
//! *Cost*: the record of a packet costs a table look-up and some 15 bytes, its headers about as many. Nothing is allocated, and
//! a slow or full disk never delays the data path.
//! *Notes*: a chunk is kept as a whole or lost as a whole. A flow is defined once in each chunk, and later named by the place of
//! its definition; headers are stored as the difference from those of the last packet at the same place. Times are differences
//! from the record before.
//! *See also*: [`exact`](crate::exact), which repeats a recording and compares.

pub(crate) mod codec;
mod control_call;
mod decode;
mod encode;
mod file;
mod head;
mod line;
mod recorder;

use tidegate_core::DropReason;
use tidegate_engine::{Adjustment, Change, PacketMeta};
use tidegate_units::Instant;

pub use control_call::Control;
pub use decode::{Reader, RecordingError};
pub use encode::{Encoder, raw_chunk};
pub use file::{Counts, Recording, Settings, Stopped, open_file, part_path};
pub use head::{Head, Payload, Reconfiguration, Setup};
pub use line::LineRecorder;
pub use recorder::FileRecorder;

/// The signature of a recording. Its first byte is not text, and its line ends show whether a transfer as text has changed it.
pub const MAGIC: [u8; 8] = *b"\x89TGR\r\n\x1a\n";
/// The version of the format that is written. A reader rejects later ones.
pub const FORMAT: u32 = 3;
/// The largest body of a chunk.
pub const MAX_CHUNK: usize = 16 << 20;
/// The number of flows that a chunk can name at a time.
pub(crate) const PLACES: usize = 1024;
/// The most bytes of headers that are stored as a difference.
pub(crate) const DIFFERENCE: usize = 96;

/// The kind of chunk.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(u8)]
pub(crate) enum ChunkKind {
    /// A [`Head`] as JSON: the first chunk of a file, and no other.
    Head = b'H',
    /// Records.
    Records = b'R',
    /// Calls of the controller of a rate that follows the line.
    Line = b'L',
    /// The counts of the recorder, which ended in order.
    End = b'E',
}

impl ChunkKind {
    pub(crate) const fn from_byte(byte: u8) -> Option<Self> {
        Some(match byte {
            b'H' => Self::Head,
            b'R' => Self::Records,
            b'L' => Self::Line,
            b'E' => Self::End,
            _ => return None,
        })
    }
}

/// The first byte of a record.
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

/// The flags of an arrival.
pub(crate) mod bits {
    pub const ECN: u8 = 3;
    pub const PURE_ACK: u8 = 4;
    pub const SUPER: u8 = 8;
    pub const FRAGMENT: u8 = 16;
    /// Bytes of the packet follow.
    pub const BYTES: u8 = 32;
    /// The difference from the bytes of the last packet at this place follows.
    pub const DIFFERENCE: u8 = 64;
    /// The definition of the flow follows.
    pub const DEFINED: u8 = 128;
}

/// The recorded outcome of a packet.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum PacketOutcome {
    /// It was sent with this change.
    Passed(Change),
    /// It was dropped for this reason.
    Refused(DropReason),
    /// It was returned for segmentation.
    TooLong,
}

/// Why records are missing.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Missing {
    /// The recorder could not write as fast as calls were made.
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
    /// The beginning of the recording is in other files.
    Before,
    /// The recording goes on in another file.
    Behind,
}

/// A record of a recording.
#[derive(Clone, PartialEq, Debug)]
pub enum Record {
    /// An engine is built with empty queues.
    Setup(Setup),
    /// A packet arrives.
    Arrives {
        /// The time of the call.
        now: Instant,
        /// Its number, from 0 for each engine.
        number: u64,
        /// Its metadata. [`Reader::bytes`] has the bytes that were kept.
        meta: PacketMeta,
    },
    /// The engine is asked for a packet.
    Departs {
        /// The time of the call.
        now: Instant,
    },
    /// All packets are released at once.
    ReleaseAll,
    /// The control plane changes a parameter.
    Adjustment {
        /// The time of the call.
        now: Instant,
        /// The parameter.
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
    /// An outcome of the last call.
    Outcome {
        /// The number of the packet.
        number: u64,
        /// The outcome of that packet.
        outcome: PacketOutcome,
    },
    /// Records are missing here.
    Gap(Missing),
}
