//! [`Heap`]: a binary min-heap whose entries can be found, changed and taken out in O(log n).
//!
//! Where an entry sits is told to the owner through a callback, so that one owner may be in several heaps and
//! keeps one word for each. Nothing is allocated once a heap has had its longest.

use alloc::vec::Vec;

/// A place in a heap that means "in none".
pub(super) const NOWHERE: u32 = u32::MAX;

/// A min-heap of `(key, handle)`. Ties go to the smaller handle, so that the order never depends on history.
#[derive(Clone, Debug)]
pub(super) struct Heap<K> {
    items: Vec<(K, u32)>,
}

impl<K: Ord + Copy> Heap<K> {
    pub(super) const fn new() -> Self {
        Self { items: Vec::new() }
    }

    pub(super) fn is_empty(&self) -> bool {
        self.items.is_empty()
    }

    pub(super) fn top(&self) -> Option<(K, u32)> {
        self.items.first().copied()
    }

    /// The entries in the array order of the heap: those of `2 i + 1` and `2 i + 2` are not before that of `i`.
    pub(super) fn items(&self) -> &[(K, u32)] {
        &self.items
    }

    pub(super) fn push(&mut self, key: K, handle: u32, place: &mut impl FnMut(u32, u32)) {
        self.items.push((key, handle));
        self.rise(self.items.len() - 1, place);
    }

    /// Takes out the entry at `at`; its owner is told [`NOWHERE`].
    pub(super) fn remove(&mut self, at: u32, place: &mut impl FnMut(u32, u32)) {
        let at = at as usize;
        let (_, handle) = self.items.swap_remove(at);
        place(handle, NOWHERE);
        if at < self.items.len() {
            self.settle(at, place);
        }
    }

    /// Gives the entry at `at` another key.
    pub(super) fn change(&mut self, at: u32, key: K, place: &mut impl FnMut(u32, u32)) {
        let at = at as usize;
        if self.items[at].0 != key {
            self.items[at].0 = key;
            self.settle(at, place);
        }
    }

    fn settle(&mut self, at: usize, place: &mut impl FnMut(u32, u32)) {
        if at > 0 && self.items[at] < self.items[(at - 1) / 2] {
            self.rise(at, place);
        } else {
            self.sink(at, place);
        }
    }

    fn rise(&mut self, mut at: usize, place: &mut impl FnMut(u32, u32)) {
        let item = self.items[at];
        while at > 0 {
            let parent = (at - 1) / 2;
            if self.items[parent] <= item {
                break;
            }
            self.items[at] = self.items[parent];
            place(self.items[at].1, at as u32);
            at = parent;
        }
        self.items[at] = item;
        place(item.1, at as u32);
    }

    fn sink(&mut self, mut at: usize, place: &mut impl FnMut(u32, u32)) {
        let item = self.items[at];
        loop {
            let mut child = 2 * at + 1;
            if child >= self.items.len() {
                break;
            }
            if child + 1 < self.items.len() && self.items[child + 1] < self.items[child] {
                child += 1;
            }
            if item <= self.items[child] {
                break;
            }
            self.items[at] = self.items[child];
            place(self.items[at].1, at as u32);
            at = child;
        }
        self.items[at] = item;
        place(item.1, at as u32);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::random::Stream;
    use alloc::collections::BTreeSet;

    #[test]
    fn agrees_with_an_ordered_set() {
        let mut random = Stream::named(1, "heap");
        let mut heap = Heap::new();
        let mut set = BTreeSet::new();
        let mut places = [NOWHERE; 64];
        let mut keys = [0_u64; 64];
        for _ in 0..20_000 {
            let handle = random.below(64) as u32;
            let key = random.below(40);
            let mut place = |handle: u32, at: u32| places[handle as usize] = at;
            match places_of(&heap, handle) {
                None => {
                    heap.push(key, handle, &mut place);
                    set.insert((key, handle));
                    keys[handle as usize] = key;
                }
                Some(at) if random.below(2) == 0 => {
                    heap.remove(at, &mut place);
                    set.remove(&(keys[handle as usize], handle));
                }
                Some(at) => {
                    heap.change(at, key, &mut place);
                    set.remove(&(keys[handle as usize], handle));
                    set.insert((key, handle));
                    keys[handle as usize] = key;
                }
            }
            assert_eq!(heap.top(), set.first().copied());
            for handle in 0..64 {
                assert_eq!(places_of(&heap, handle).unwrap_or(NOWHERE), places[handle as usize]);
            }
        }
    }

    fn places_of(heap: &Heap<u64>, handle: u32) -> Option<u32> {
        heap.items().iter().position(|item| item.1 == handle).map(|at| at as u32)
    }
}
