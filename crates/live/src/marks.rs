//! The bits of the firewall mark that belong to Tidegate on its interface.
//!
//! *Law*: bits outside the mask are never changed. Inside it, a packet that arrives without one of the two stamps leaves
//! with the bits it arrived with; a packet that was tagged or given an action leaves with the whole mask cleared.
//! *Units*: a mask of at least twelve neighbouring bits; the top twelve by default.
//! *Notes*: lowest bit first: six bits of DSCP, *write DSCP*, *set CE*, two reserved, the *action* stamp (the verdict
//! requests an action), the *tag* stamp (a rule before the queue recognised the packet). Before the queue the ten low
//! bits hold the tag, after it the action. A foreign packet that happens to carry one of the stamps cannot be
//! distinguished from ours: it is counted and its bits inside the mask are cleared before it is queued. Choose another
//! mask then.
//!
//! ```
//! use tidegate_live::marks::{Action, MarkLayout};
//! let marks = MarkLayout::default();
//! let ef = Action { dscp: Some(46), congestion: false };
//! assert_eq!(marks.with_action(0x0000_0007, ef), 0x46e0_0007);
//! assert_eq!(marks.with_action(0x0000_0007, Action::default()), 0x0000_0007);
//! ```

/// The number of bits of the layout.
pub const WIDTH: u32 = 12;
const WRITE: u32 = 1 << 6;
const CONGESTION: u32 = 1 << 7;
const ACTION: u32 = 1 << 10;
const TAG: u32 = 1 << 11;
const VALUE: u32 = ACTION - 1;

/// The largest tag.
pub const MAX_TAG: u16 = VALUE as u16;

/// A mask that cannot hold the layout.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
#[error("the mark mask {0:#010x} must be at least 12 neighbouring bits, such as 0xfff00000")]
pub struct MaskError(pub u32);

/// The action that the rule behind the queue performs on a packet.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Action {
    /// Write this code point (0 to 63; higher bits are ignored).
    pub dscp: Option<u8>,
    /// Mark congestion experienced. The rule does so only if the packet is ECN-capable.
    pub congestion: bool,
}

impl Action {
    /// Whether nothing is to be done.
    pub fn is_none(&self) -> bool {
        *self == Self::default()
    }
}

/// The position of the bits in the mark.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct MarkLayout {
    mask: u32,
    shift: u32,
}

impl Default for MarkLayout {
    fn default() -> Self {
        Self { mask: 0xfff0_0000, shift: 20 }
    }
}

impl MarkLayout {
    /// The layout in `mask`; of a wider mask the lowest twelve bits are used and the others left alone.
    pub fn new(mask: u32) -> Result<Self, MaskError> {
        let shift = mask.trailing_zeros();
        if mask == 0 || mask >> shift < (1 << WIDTH) - 1 || (mask >> shift).trailing_ones() < WIDTH {
            return Err(MaskError(mask));
        }
        Ok(Self { mask: ((1 << WIDTH) - 1) << shift, shift })
    }

    /// The twelve bits in place.
    pub fn mask(&self) -> u32 {
        self.mask
    }

    /// The tag that a rule before the queue set on a packet, if one did.
    pub fn tag(&self, mark: u32) -> Option<u16> {
        let bits = (mark & self.mask) >> self.shift;
        (bits & TAG != 0).then_some((bits & VALUE) as u16)
    }

    /// The mark for a verdict: `mark` as the packet arrived, with an action.
    ///
    /// Without an action this is the mark as it arrived: the verdict need not set one at all.
    pub fn with_action(&self, mark: u32, action: Action) -> u32 {
        if action.is_none() {
            return mark;
        }
        let mut bits = ACTION;
        if let Some(dscp) = action.dscp {
            bits |= WRITE | u32::from(dscp & 0x3f);
        }
        if action.congestion {
            bits |= CONGESTION;
        }
        mark & !self.mask | bits << self.shift
    }

    /// The masked bits of tag `tag`.
    pub(crate) fn tag_bits(&self, tag: u16) -> u32 {
        (TAG | u32::from(tag) & VALUE) << self.shift
    }
    pub(crate) fn stamps(&self) -> u32 {
        (TAG | ACTION) << self.shift
    }
    pub(crate) fn action_stamp(&self) -> u32 {
        ACTION << self.shift
    }
    pub(crate) fn write(&self) -> u32 {
        (ACTION | WRITE) << self.shift
    }
    pub(crate) fn dscp_bit(&self, bit: u32) -> u32 {
        1 << bit << self.shift
    }
    pub(crate) fn congestion(&self) -> u32 {
        (ACTION | CONGESTION) << self.shift
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_mask_needs_twelve_neighbouring_bits() {
        for bad in [0, 0xffe0_0000, 0xff0f_f000, 0x0000_07ff] {
            assert_eq!(MarkLayout::new(bad), Err(MaskError(bad)));
        }
        assert_eq!(MarkLayout::new(0xfff0_0000), Ok(MarkLayout::default()));
        assert_eq!(MarkLayout::new(0x0000_0fff).unwrap().mask(), 0xfff);
        assert_eq!(MarkLayout::new(u32::MAX).unwrap().mask(), 0xfff);
    }

    #[test]
    fn tags_and_actions_do_not_touch_the_callers_bits_nor_each_other() {
        let marks = MarkLayout::new(0x00ff_f000).unwrap();
        let tagged = 0x1200_0034 | marks.tag_bits(1023);
        assert_eq!(marks.tag(tagged), Some(1023));
        let acted = marks.with_action(tagged, Action { dscp: Some(63), congestion: true });
        // Stamp 0x400, CE 0x80, write 0x40, DSCP 0x3f: 0x4ff.
        assert_eq!(acted, 0x124f_f034);
        assert_eq!(marks.tag(acted), None);
    }
}
