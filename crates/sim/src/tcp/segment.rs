//! What TCP puts on the wire.

use core::ops::{BitOr, BitOrAssign};
use tidegate_core::Ecn;

/// The flags of a segment.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Flags(u8);

impl Flags {
    /// No flag.
    pub const NONE: Self = Self(0);
    /// Synchronise sequence numbers.
    pub const SYN: Self = Self(1);
    /// The acknowledgement number counts.
    pub const ACK: Self = Self(2);
    /// No more data.
    pub const FIN: Self = Self(4);
    /// Congestion experienced was seen (RFC 3168).
    pub const ECE: Self = Self(8);
    /// The congestion window was reduced (RFC 3168).
    pub const CWR: Self = Self(16);
    /// Sent before. Not on the wire: the accounts want to know.
    pub const AGAIN: Self = Self(32);

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

/// Up to three SACK blocks, the first the one that changed last (RFC 2018).
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct SackBlocks {
    blocks: [(u32, u32); 3],
    count: u8,
}

impl SackBlocks {
    /// Room that TCP's options leave for SACK.
    pub const MOST: usize = 3;

    /// Adds the block from `start` to before `end`; ignored when there is no room.
    pub fn push(&mut self, start: u32, end: u32) {
        if let Some(block) = self.blocks.get_mut(usize::from(self.count)) {
            *block = (start, end);
            self.count += 1;
        }
    }
    /// The blocks: first byte, and the byte after the last.
    pub fn as_slice(&self) -> &[(u32, u32)] {
        &self.blocks[..usize::from(self.count)]
    }
}

/// A TCP segment. Sequence numbers wrap at 2³², as on the wire.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Segment {
    /// The sequence number of the first byte, or of the SYN.
    pub seq: u32,
    /// The next byte the sender of this segment expects.
    pub ack: u32,
    /// Bytes that the sender of this segment has room for, from `ack` on (window scaling applied).
    pub window: u32,
    /// Bytes of data.
    pub len: u32,
    /// The largest segment the sender of a SYN takes; 0 in other segments.
    pub mss: u16,
    /// Flags.
    pub flags: Flags,
    /// The ECN field of the IP header around it.
    pub ecn: Ecn,
    /// What arrived beyond `ack`.
    pub sack: SackBlocks,
}

impl Segment {
    /// Bytes of the TCP options: MSS on a SYN, SACK permitted with it, SACK blocks; padded to 4.
    pub fn option_bytes(&self) -> u32 {
        let sack = self.sack.as_slice().len() as u32;
        if self.flags.has(Flags::SYN) {
            8
        } else if sack > 0 {
            // Kind, length, two bytes of padding, eight bytes a block.
            4 + 8 * sack
        } else {
            0
        }
    }
}
