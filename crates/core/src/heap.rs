//! A 4-ary heap that reports the position of its members, so that any member can get another key or be removed.
//!
//! *Cost*: O(log n) a change, O(1) to look at the first; no allocation once it has had its largest size.

use alloc::vec::Vec;

/// The position of an id that is not in the heap.
pub(crate) const NOWHERE: u32 = u32::MAX;
const ARITY: usize = 4;

/// A minimum heap of `(key, id)`; equal keys are ordered by id. Each change of position is reported to a closure
/// `place(id, position)`, with [`NOWHERE`] for a member that is removed.
#[derive(Clone, Debug)]
pub(crate) struct Heap<K> {
    items: Vec<(K, u32)>,
}

impl<K: Ord + Copy> Heap<K> {
    /// An empty heap.
    pub const fn new() -> Self {
        Self { items: Vec::new() }
    }
    /// Whether it has no members.
    pub fn is_empty(&self) -> bool {
        self.items.is_empty()
    }
    /// The smallest key and its id.
    pub fn peek(&self) -> Option<(K, u32)> {
        self.items.first().copied()
    }
    /// The key at `position`.
    pub fn key(&self, position: u32) -> Option<K> {
        self.items.get(position as usize).map(|item| item.0)
    }
    /// Inserts `id`, which must not be a member.
    pub fn insert(&mut self, key: K, id: u32, place: &mut impl FnMut(u32, u32)) {
        self.items.push((key, id));
        self.up(self.items.len() - 1, place);
    }
    /// Removes the member at `position`; none for [`NOWHERE`].
    pub fn remove(&mut self, position: u32, place: &mut impl FnMut(u32, u32)) {
        let at = position as usize;
        if at >= self.items.len() {
            return;
        }
        let (_, id) = self.items.swap_remove(at);
        place(id, NOWHERE);
        if at < self.items.len() {
            self.settle(at, place);
        }
    }
    /// Changes the key of the member at `position`.
    pub fn update(&mut self, position: u32, key: K, place: &mut impl FnMut(u32, u32)) {
        let at = position as usize;
        if self.items[at].0 != key {
            self.items[at].0 = key;
            self.settle(at, place);
        }
    }
    /// Inserts `id`, or changes its key if it has a `position`.
    pub fn set(&mut self, position: u32, key: K, id: u32, place: &mut impl FnMut(u32, u32)) {
        if position == NOWHERE {
            self.insert(key, id, place);
        } else {
            self.update(position, key, place);
        }
    }

    /// Visits members whose key is below a bound, which `visit` may lower: nothing beneath a key that is not below it is
    /// visited. Each visit returns the bound from then on; without one every key is below it.
    pub fn visit_before(&self, visit: &mut impl FnMut(K, u32) -> Option<K>) {
        self.visit_below(0, &mut None, visit);
    }

    /// Depth first without a stack of its own: the array is its map.
    fn visit_below(&self, at: usize, bound: &mut Option<K>, visit: &mut impl FnMut(K, u32) -> Option<K>) {
        if let Some(&(key, id)) = self.items.get(at)
            && bound.is_none_or(|bound| key < bound)
        {
            *bound = visit(key, id);
            for child in at * ARITY + 1..=at * ARITY + ARITY {
                self.visit_below(child, bound, visit);
            }
        }
    }

    fn settle(&mut self, at: usize, place: &mut impl FnMut(u32, u32)) {
        if at > 0 && self.items[at] < self.items[(at - 1) / ARITY] {
            self.up(at, place);
        } else {
            self.down(at, place);
        }
    }

    fn up(&mut self, mut at: usize, place: &mut impl FnMut(u32, u32)) {
        let item = self.items[at];
        while at > 0 {
            let parent = (at - 1) / ARITY;
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

    fn down(&mut self, mut at: usize, place: &mut impl FnMut(u32, u32)) {
        let item = self.items[at];
        loop {
            let first = at * ARITY + 1;
            let last = (first + ARITY).min(self.items.len());
            let Some(least) = (first..last).min_by_key(|&child| self.items[child]) else { break };
            if item <= self.items[least] {
                break;
            }
            self.items[at] = self.items[least];
            place(self.items[at].1, at as u32);
            at = least;
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
        let mut random = Stream::named(3, "heap");
        let mut heap = Heap::new();
        let mut places = [NOWHERE; 50];
        let mut oracle = BTreeSet::new();
        let mut keys = [0_u64; 50];
        for _ in 0..20_000 {
            let id = random.below(50) as u32;
            let key = random.below(30);
            if random.below(3) == 0 {
                oracle.remove(&(keys[id as usize], id));
                let at = places[id as usize];
                heap.remove(at, &mut |id: u32, at: u32| places[id as usize] = at);
            } else {
                oracle.remove(&(keys[id as usize], id));
                oracle.insert((key, id));
                keys[id as usize] = key;
                let at = places[id as usize];
                heap.set(at, key, id, &mut |id: u32, at: u32| places[id as usize] = at);
            }
            assert_eq!(heap.peek(), oracle.first().copied());
            for &(key, id) in &oracle {
                assert_eq!(heap.key(places[id as usize]), Some(key));
            }
            assert_eq!(heap.is_empty(), oracle.is_empty());
            // All before a bound that stays, and the smallest id by a bound that falls.
            let mut before = BTreeSet::new();
            heap.visit_before(&mut |key, id| {
                before.insert((key, id));
                Some(15)
            });
            // The first is visited before there is a bound.
            let first = oracle.first().copied();
            assert_eq!(before, oracle.iter().copied().filter(|item| item.0 < 15 || Some(*item) == first).collect());
        }
    }
}
