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
    /// Accurate ECN (RFC 9768).
    pub const AE: Self = Self(64);

    /// Whether all flags of `other` are set.
    pub const fn has(self, other: Self) -> bool {
        self.0 & other.0 == other.0
    }
    /// These without the flags of `other`.
    pub const fn without(self, other: Self) -> Self {
        Self(self.0 & !other.0)
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
    /// Keeps the first `most` blocks.
    pub fn truncate(&mut self, most: usize) {
        self.count = self.count.min(most as u8);
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

/// Bytes of data that a receiver has counted by the ECN field in which they arrived (RFC 9768, section 3.2).
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct EcnBytes {
    /// ECT(0).
    pub ect0: u64,
    /// Congestion experienced.
    pub ce: u64,
    /// ECT(1).
    pub ect1: u64,
}

/// An AccECN option: one to three byte counters of 24 bits (RFC 9768, section 3.2.3).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct AccEcnOption {
    order: Order,
    count: u8,
    fields: [[u8; 3]; 3],
}

/// The order of the fields of an AccECN option. CE is between the others.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Order {
    /// EE0B, ECEB, EE1B.
    Ect0First,
    /// EE1B, ECEB, EE0B.
    Ect1First,
}

impl AccEcnOption {
    /// The first `count` fields (at most three) in the order that begins with ECT(1) or with ECT(0).
    pub fn new(first_is_ect1: bool, count: u8, bytes: EcnBytes) -> Self {
        let field = |counter: u64| {
            let [_, high, middle, low] = (counter as u32).to_be_bytes();
            [high, middle, low]
        };
        let mut fields = [field(bytes.ect0), field(bytes.ce), field(bytes.ect1)];
        let order = if first_is_ect1 { Order::Ect1First } else { Order::Ect0First };
        if first_is_ect1 {
            fields.reverse();
        }
        Self { order, count: count.min(3), fields }
    }
    fn field(&self, index: usize) -> Option<u32> {
        let [high, middle, low] = *self.fields[..usize::from(self.count)].get(index)?;
        Some(u32::from_be_bytes([0, high, middle, low]))
    }
    /// EE0B, if present.
    pub fn ect0(&self) -> Option<u32> {
        self.field(if self.order == Order::Ect0First { 0 } else { 2 })
    }
    /// ECEB, if present.
    pub fn ce(&self) -> Option<u32> {
        self.field(1)
    }
    /// EE1B, if present.
    pub fn ect1(&self) -> Option<u32> {
        self.field(if self.order == Order::Ect0First { 2 } else { 0 })
    }
    /// Its length on the wire without padding (table 5).
    pub fn bytes(&self) -> u32 {
        2 + 3 * u32::from(self.count)
    }
    /// Its bytes on the wire: kind 172 or 174, length, fields.
    pub fn wire(&self) -> Vec<u8> {
        let kind = if self.order == Order::Ect0First { 172 } else { 174 };
        let fields = self.fields[..usize::from(self.count)].iter().flatten().copied();
        [kind, self.bytes() as u8].into_iter().chain(fields).collect()
    }
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
    /// The AccECN option.
    pub accecn: Option<AccEcnOption>,
}

impl Segment {
    /// The most bytes that options take.
    pub const OPTION_BYTES: u32 = 40;

    /// Length of the TCP options in bytes: MSS and SACK-permitted on a SYN, SACK blocks, timestamps, AccECN; each padded
    /// to 4.
    pub fn option_bytes(&self) -> u32 {
        let sack = self.sack.as_slice().len() as u32;
        let timestamps = if self.timestamps.is_some() { 12 } else { 0 };
        timestamps
            + self.accecn.map_or(0, |option| option.bytes().next_multiple_of(4))
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
