//! [`KeyIndex`]: finds numbers by 64-bit keys, without tombstones, pauses or allocation once it is large enough.
//!
//! *Law*: a map from keys to numbers; the owner compares the keys, which are stored with what the numbers denote.
//! *Source*: open addressing with linear probing and backward-shift deletion (Knuth, volume 3, section 6.4,
//! algorithm R).
//! *Cost*: O(1) expected: at most half of the slots are taken, a quarter as long as they fit into a cache, where a search
//! that ends at its first slot is worth more than memory; eight bytes a slot. Growth moves everything and happens only
//! when there are more entries than ever before. A map with tombstones would have to be cleaned up every
//! so often, in one long pause, when entries come and go as flows do.
//! *Notes*: keys are keyed hashes already, so no sender can make long runs; they are mixed once more because
//! tests and simulations number their flows.

use alloc::vec::Vec;
use core::hint::select_unpredictable;

use crate::queues::NIL;

#[derive(Clone, Copy, Debug)]
struct Slot {
    tag: u32,
    number: u32,
}

const EMPTY: Slot = Slot { tag: 0, number: NIL };

/// The first steps of the finaliser of SplitMix64: spreads keys that are numbered, as tests and simulations have them.
pub(crate) const fn mix(key: u64) -> u64 {
    let mixed = (key ^ (key >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb)
}

/// The most entries in so many slots.
const fn room(slots: usize) -> usize {
    if slots <= 1 << 14 { slots / 4 } else { slots / 2 }
}

/// An index of numbers by keys. See the [module](self).
#[derive(Clone, Debug)]
pub struct KeyIndex {
    slots: Vec<Slot>,
    len: usize,
}

impl Default for KeyIndex {
    /// The smallest.
    fn default() -> Self {
        Self::with_capacity(0)
    }
}

impl KeyIndex {
    /// An index that takes `capacity` entries without growing.
    pub fn with_capacity(capacity: usize) -> Self {
        let mut slots = (capacity * 2).next_power_of_two().max(16);
        while room(slots) < capacity {
            slots *= 2;
        }
        Self { slots: alloc::vec![EMPTY; slots], len: 0 }
    }
    /// Returns the number of entries.
    pub fn len(&self) -> usize {
        self.len
    }
    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    fn tag(key: u64) -> u32 {
        (mix(key) >> 32) as u32
    }
    fn mask(&self) -> usize {
        self.slots.len() - 1
    }

    /// The number of `key`; `is_its` returns whether a number with a matching digest has exactly this key.
    #[inline]
    pub fn find(&self, key: u64, is_its: impl FnMut(u32) -> bool) -> Option<u32> {
        self.search(Self::tag(key), is_its).ok()
    }
    /// The number of `key`, which becomes `number`, that of no other, if it has none. `is_its` as in [`find`](Self::find).
    #[inline]
    pub fn find_or_insert(&mut self, key: u64, number: u32, is_its: impl FnMut(u32) -> bool) -> u32 {
        let tag = Self::tag(key);
        match self.search(tag, is_its) {
            Ok(found) => return found,
            Err(at) if self.len < room(self.slots.len()) => {
                self.slots[at] = Slot { tag, number };
                self.len += 1;
            }
            Err(_) => self.insert(key, number),
        }
        number
    }
    /// The number with this tag that is the one, or the free slot at which the search ended.
    #[inline]
    fn search(&self, tag: u32, mut is_its: impl FnMut(u32) -> bool) -> Result<u32, usize> {
        let mut at = tag as usize & self.mask();
        loop {
            let slot = self.slots[at];
            if slot.number == NIL {
                return Err(at);
            }
            if slot.tag == tag && is_its(slot.number) {
                return Ok(slot.number);
            }
            at = (at + 1) & self.mask();
        }
    }
    /// Adds `number` under `key`, which must not be there.
    pub fn insert(&mut self, key: u64, number: u32) {
        if self.len >= room(self.slots.len()) {
            let larger = alloc::vec![EMPTY; self.slots.len() * 2];
            for slot in core::mem::replace(&mut self.slots, larger) {
                if slot.number != NIL {
                    self.place(slot);
                }
            }
        }
        self.place(Slot { tag: Self::tag(key), number });
        self.len += 1;
    }
    fn place(&mut self, slot: Slot) {
        let mut at = slot.tag as usize & self.mask();
        while self.slots[at].number != NIL {
            at = (at + 1) & self.mask();
        }
        self.slots[at] = slot;
    }
    /// Removes `number`, which must be there under `key`.
    pub fn remove(&mut self, key: u64, number: u32) {
        let mask = self.mask();
        let mut hole = Self::tag(key) as usize & mask;
        while self.slots[hole].number != number {
            if self.slots[hole].number == NIL {
                debug_assert!(false, "removed what was not there");
                return;
            }
            hole = (hole + 1) & mask;
        }
        self.len -= 1;
        let mut at = hole;
        loop {
            at = (at + 1) & mask;
            let slot = self.slots[at];
            if slot.number == NIL {
                break;
            }
            // It may fill the hole when that does not lie before its home.
            let from_home = at.wrapping_sub(slot.tag as usize) & mask;
            let fills = from_home >= at.wrapping_sub(hole) & mask;
            self.slots[hole] = select_unpredictable(fills, slot, self.slots[hole]);
            hole = select_unpredictable(fills, at, hole);
        }
        self.slots[hole] = EMPTY;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::random::Stream;
    use alloc::collections::BTreeMap;

    /// The kernel path finds packets on their way from its device by their addresses, in 65,536 places by the upper half of `mix`: 256 bytes
    /// apart, as a slab of the kernel has them, they share places as seldom as random numbers. Of 64 at a time one in two thousand loses
    /// its place to a later one.
    #[test]
    fn addresses_of_packets_seldom_share_a_place() {
        let mut random = Stream::named(1, "addresses");
        let (rounds, at_a_time) = (20_000, 64_u32);
        let mut shared = 0;
        for _ in 0..rounds {
            let mut packets: Vec<u64> =
                (0..at_a_time).map(|_| 0xffff_8880_0000_0000 + random.below(65_536) * 256).collect();
            packets.sort_unstable();
            packets.dedup();
            let mut places: Vec<u64> = packets.iter().map(|packet| mix(*packet) >> 32 & 0xffff).collect();
            places.sort_unstable();
            shared += places.windows(2).filter(|pair| pair[0] == pair[1]).count();
        }
        // Of 64 * 63 / 2 pairs each has one chance in 65,536.
        let share = shared as f64 / f64::from(rounds * at_a_time);
        assert!((0.000_4..0.000_56).contains(&share), "{share}");
    }

    #[test]
    fn it_is_a_map() {
        let mut random = Stream::named(1, "index");
        let mut index = KeyIndex::with_capacity(4);
        let mut model: BTreeMap<u64, u32> = BTreeMap::new();
        let mut keys = alloc::vec![0_u64; 2_000];
        let mut free: Vec<u32> = (0..2_000).collect();
        for n in 0..200_000 {
            // Phases of growth and of shrinking, so that runs form and dissolve.
            let growing = n / 10_000 % 2 == 0;
            let key = random.below(1_500) * 0x1000;
            let found = index.find(key, |number| keys[number as usize] == key);
            assert_eq!(found, model.get(&key).copied());
            if found.is_some() {
                assert_eq!(Some(index.find_or_insert(key, NIL - 1, |number| keys[number as usize] == key)), found);
            }
            if found.is_none() && (growing || random.below(4) == 0) {
                let number = free.pop().unwrap();
                keys[number as usize] = key;
                if n % 2 == 0 {
                    index.insert(key, number);
                } else {
                    assert_eq!(index.find_or_insert(key, number, |number| keys[number as usize] == key), number);
                }
                model.insert(key, number);
            } else if let Some(number) = found.filter(|_| !growing || random.below(4) == 0) {
                index.remove(key, number);
                model.remove(&key);
                free.push(number);
            }
            assert_eq!(index.len(), model.len());
        }
        assert!(index.slots.len() <= 8_192);
        for (key, number) in model {
            assert_eq!(index.find(key, |number| keys[number as usize] == key), Some(number));
        }
    }
}
