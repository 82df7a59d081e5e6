//! TCP segments.

use core::ops::{BitOr, BitOrAssign};
use tidegate_core::Ecn;

/// Control bits of a segment (RFC 9293, section 3.1).
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Flags(u8);

impl Flags {
    /// No flag set.
    pub const NONE: Self = Self(0);
    /// Synchronise sequence numbers.
    pub const SYN: Self = Self(1);
    /// The acknowledgement number is significant.
    pub const ACK: Self = Self(2);
    /// No more data from the sender.
    pub const FIN: Self = Self(4);
    /// ECN-Echo (RFC 3168).
    pub const ECE: Self = Self(8);
    /// Congestion window reduced (RFC 3168).
    pub const CWR: Self = Self(16);
    /// The segment is a retransmission. Not on the wire; for statistics only.
    pub const RETRANSMISSION: Self = Self(32);

    /// Whether all flags of `other` are set.
    pub const fn has(self, other: Self) -> bool {
        self.0 & other.0 == other.0
    }
}

impl BitOr for Flags {
    type Output = Self;
    fn bitor(self, other: Self) -> Self {
        Self(self.0 | other.0)
    }
}

impl BitOrAssign for Flags {
    fn bitor_assign(&mut self, other: Self) {
        self.0 |= other.0;
    }
}

/// SACK blocks, at most three; the first holds the segment that arrived last (RFC 2018, section 4).
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct SackBlocks {
    blocks: [(u32, u32); 3],
    count: u8,
}

impl SackBlocks {
    /// The number of blocks that fit beside a timestamps option (RFC 2018, section 3).
    pub const MOST: usize = 3;

    /// Adds the block `[start, end)`. Has no effect if there are already [`Self::MOST`] blocks.
    pub fn push(&mut self, start: u32, end: u32) {
        if let Some(block) = self.blocks.get_mut(usize::from(self.count)) {
            *block = (start, end);
            self.count += 1;
        }
    }
    /// The left and right edge of each block.
    pub fn as_slice(&self) -> &[(u32, u32)] {
        &self.blocks[..usize::from(self.count)]
    }
}

/// The timestamps option (RFC 7323, section 3), in microseconds.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Timestamps {
    /// TSval: the time at the sender of this segment.
    pub value: u32,
    /// TSecr: the TSval that is acknowledged.
    pub echo: u32,
}

/// A TCP segment. Sequence numbers wrap at 2³², as on the wire.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Segment {
    /// SEG.SEQ: the sequence number of the first byte, or of the SYN.
    pub seq: u32,
    /// SEG.ACK: the next sequence number that the sender of this segment expects.
    pub ack: u32,
    /// SEG.WND: the receive window in bytes from `ack` on, window scaling applied.
    pub window: u32,
    /// Bytes of data.
    pub len: u32,
    /// The MSS option of a SYN; 0 in other segments.
    pub mss: u16,
    /// Control bits.
    pub flags: Flags,
    /// The ECN field of the IP header.
    pub ecn: Ecn,
    /// The SACK option: data received above `ack`.
    pub sack: SackBlocks,
    /// The timestamps option.
    pub timestamps: Option<Timestamps>,
}

impl Segment {
    /// Length of the TCP options in bytes: MSS and SACK-permitted on a SYN, SACK blocks, timestamps; padded to 4.
    pub fn option_bytes(&self) -> u32 {
        let sack = self.sack.as_slice().len() as u32;
        let timestamps = if self.timestamps.is_some() { 12 } else { 0 };
        timestamps
            + if self.flags.has(Flags::SYN) {
                8
            } else if sack > 0 {
                // Kind, length and two bytes of padding, then eight bytes for each block.
                4 + 8 * sack
            } else {
                0
            }
    }
}
