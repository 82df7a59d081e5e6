//! [`Ties`]: flows with one tag, by slot: those that a bucket would have to be searched for.
//!
//! *Law*: flows leave in the order of their slots.
//! *Cost*: O(1): a bit for each slot, and above it a bit for each word of the level below, of three levels. It takes slots
//! below 262,144, in at most 33 kB; nothing is allocated once the largest slot was there.

use alloc::vec::Vec;

const LEVELS: u32 = 3;
const SLOTS: u32 = 64_u32.pow(LEVELS);

/// See the [module](self).
#[derive(Clone, Debug, Default)]
pub(super) struct Ties {
    /// The tag of all of them, where there are any.
    tag: u128,
    /// All but the last level, which is one word.
    levels: [Vec<u64>; LEVELS as usize - 1],
    top: u64,
}

impl Ties {
    /// Whether no flow is in it.
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.top == 0
    }
    /// How many flows are in it.
    #[cfg(test)]
    pub fn len(&self) -> usize {
        self.levels[0].iter().map(|word| word.count_ones() as usize).sum()
    }
    /// Whether it has flows of this tag.
    #[inline]
    pub fn has(&self, tag: u128) -> bool {
        self.tag == tag && !self.is_empty()
    }
    /// The tag of the flows that are in it.
    #[inline]
    pub fn tag(&self) -> Option<u128> {
        (!self.is_empty()).then_some(self.tag)
    }
    /// The first flow, where there is one.
    #[inline]
    pub fn first(&self) -> u32 {
        let down = |slot: u32, level: &Vec<u64>| slot * 64 + level[slot as usize].trailing_zeros();
        self.levels.iter().rev().fold(self.top.trailing_zeros(), down)
    }
    /// Makes room for a slot. Returns whether it may have one.
    pub fn reserve(&mut self, slot: u32) -> bool {
        let mut words = slot as usize / 64 + 1;
        if slot < SLOTS && self.levels[0].len() < words {
            words = words.next_power_of_two();
            for level in &mut self.levels {
                level.resize(words, 0);
                words = words.div_ceil(64);
            }
        }
        slot < SLOTS
    }
    /// Adds a flow that is not in it and has room, if it is empty or has that tag. Returns whether it did.
    pub fn insert(&mut self, tag: u128, slot: u32) -> bool {
        if self.tag != tag && !self.is_empty() {
            return false;
        }
        self.tag = tag;
        let mut at = slot as usize;
        for level in &mut self.levels {
            level[at / 64] |= 1 << (at % 64);
            at /= 64;
        }
        self.top |= 1 << at;
        true
    }
    /// Removes a flow that is in it.
    #[inline]
    pub fn remove(&mut self, slot: u32) {
        let mut at = slot as usize;
        for level in &mut self.levels {
            level[at / 64] &= !(1 << (at % 64));
            if level[at / 64] != 0 {
                return;
            }
            at /= 64;
        }
        self.top &= !(1 << at);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::random::Stream;
    use alloc::collections::BTreeSet;

    #[test]
    fn agrees_with_an_ordered_set() {
        let (mut random, mut ties, mut oracle) = (Stream::named(1, "ties"), Ties::default(), BTreeSet::new());
        for round in 0..20_000_u64 {
            let tag = u128::from(round / 4_000) << 70;
            let slot = random.below([5, 64, 5_000, u64::from(SLOTS)][(round / 16 % 4) as usize]) as u32;
            assert!(ties.reserve(slot));
            match (oracle.first().copied(), random.below(3)) {
                (Some((_, first)), 0) => {
                    ties.remove(first);
                    oracle.pop_first();
                }
                (first, _) if first.is_none_or(|(held, _)| held == tag) => {
                    assert!(ties.insert(tag, slot));
                    oracle.insert((tag, slot));
                }
                _ => {
                    assert!(!ties.insert(tag, slot), "of another tag");
                    oracle.iter().for_each(|&(_, slot)| ties.remove(slot));
                    oracle.clear();
                }
            }
            let first = ties.tag().map(|tag| (tag, ties.first()));
            assert_eq!((first, ties.is_empty()), (oracle.first().copied(), oracle.is_empty()));
            assert_eq!(ties.has(tag), oracle.first().is_some_and(|&(held, _)| held == tag));
        }
        assert!(!ties.reserve(SLOTS), "a slot beyond the last");
    }
}
