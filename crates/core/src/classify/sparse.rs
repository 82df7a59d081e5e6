//! A fixed map from numbers to numbers, in which every look-up reads exactly two slots.
//!
//! *Source*: cuckoo hashing (Pagh and Rodler, 2004), built once at a load below 0.45.

use alloc::vec::Vec;

const EMPTY: u32 = u32::MAX;

#[derive(Clone, Copy, Debug)]
struct Slot {
    key: u32,
    value: u32,
}

/// The map. See the [module](self). The key `u32::MAX` cannot be stored.
#[derive(Clone, Debug)]
pub(super) struct Sparse {
    slots: Vec<Slot>,
    multipliers: [u64; 2],
}

impl Sparse {
    /// A map of `pairs`, whose keys are distinct.
    pub(super) fn new(pairs: &[(u32, u32)]) -> Self {
        let mut size = (pairs.len() * 9).div_ceil(4).max(2);
        for attempt in 0_u64.. {
            let odd = |n: u64| (0x9e37_79b9_7f4a_7c15_u64.wrapping_mul(2 * n + 1) ^ (n << 17)).rotate_left(23) | 1;
            let mut map = Self {
                slots: alloc::vec![Slot { key: EMPTY, value: 0 }; size],
                multipliers: [odd(2 * attempt), odd(2 * attempt + 1)],
            };
            if pairs.iter().all(|&(key, value)| map.insert(Slot { key, value })) {
                return map;
            }
            if attempt % 4 == 3 {
                size += size / 4;
            }
        }
        unreachable!("the table grows until everything fits")
    }

    #[inline]
    fn places(&self, key: u32) -> [usize; 2] {
        let size = self.slots.len() as u64;
        let hash = |multiplier: u64| u64::from(key).wrapping_mul(multiplier) >> 32;
        self.multipliers.map(|multiplier| ((hash(multiplier) * size) >> 32) as usize)
    }

    fn insert(&mut self, mut slot: Slot) -> bool {
        debug_assert!(slot.key != EMPTY);
        let mut at = self.places(slot.key)[0];
        for _ in 0..500 {
            core::mem::swap(&mut slot, &mut self.slots[at]);
            if slot.key == EMPTY {
                return true;
            }
            let [first, second] = self.places(slot.key);
            at = if at == first { second } else { first };
        }
        false
    }

    /// The value of `key`, or `default`.
    #[inline]
    pub(super) fn find(&self, key: u32, default: u32) -> u32 {
        let [a, b] = self.places(key).map(|place| self.slots[place]);
        let found = if b.key == key { b.value } else { default };
        if a.key == key { a.value } else { found }
    }

    /// Bytes of memory.
    pub(super) fn memory(&self) -> usize {
        size_of_val(&*self.slots)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn finds_what_was_stored_and_nothing_else() {
        for (count, step) in [(0, 1), (1, 1), (2, 7), (5_000, 1), (5_000, 65_536), (40_000, 10_007)] {
            let pairs: Vec<_> = (0..count).map(|n| (n * step, n)).collect();
            let map = Sparse::new(&pairs);
            assert!(pairs.iter().all(|&(key, value)| map.find(key, 1 << 31) == value));
            assert!(pairs.iter().all(|&(key, _)| step == 1 || map.find(key + 1, 1 << 31) == 1 << 31));
        }
    }
}
