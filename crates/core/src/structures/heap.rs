//! A priority queue that reports the position of its members, so that any member can get another key or be removed.
//!
//! A 4-ary heap, and beside it a sorted run. A scheduler mostly gives the first member a key behind all others: that is the
//! end of the run, without a comparison more. What fits nowhere at the end is in the heap.
//!
//! *Cost*: O(log n) a change, O(1) where the new key is the largest or next to it; O(1) to look at the first. No allocation
//! once it has had its largest size.

use alloc::collections::VecDeque;
use alloc::vec::Vec;
use core::hint::select_unpredictable;

use crate::slab::Slot;

/// The position of an id that is not in the queue.
pub(crate) const NOWHERE: u32 = u32::MAX;
const ARITY: usize = 4;
/// Set in positions of the run, whose lower bits number its entries. No position has the highest bit.
const IN_RUN: u32 = 1 << 30;
const NUMBERS: u32 = IN_RUN - 1;
/// Entries of the run that may be removed ones beside as many as there are members in it.
const SPARE: usize = 64;

/// An entry of the run.
#[derive(Clone, Copy, Debug)]
struct Entry<K, I> {
    key: K,
    /// Number [`NOWHERE`]: the member was removed.
    id: I,
    /// At both ends of a gap, an interval of removed entries: its length.
    gap: u32,
}

/// A minimum queue of `(key, id)`; equal keys are ordered by id. Each change of position is reported to a closure
/// `place(id, position)`, with [`NOWHERE`] for a member that is removed.
#[derive(Clone, Debug)]
pub(crate) struct Heap<K, I = u32> {
    items: Vec<(K, I)>,
    /// Ascending; the first and the last are members.
    run: VecDeque<Entry<K, I>>,
    /// The number of the run's first entry.
    first: u32,
    /// Members in the run.
    members: usize,
}

impl<K: Ord + Copy, I: Slot + Ord> Heap<K, I> {
    /// An empty queue.
    pub const fn new() -> Self {
        Self { items: Vec::new(), run: VecDeque::new(), first: 0, members: 0 }
    }
    /// Whether it has no members.
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.items.is_empty() && self.run.is_empty()
    }
    /// The smallest key and its id.
    #[inline]
    pub fn peek(&self) -> Option<(K, I)> {
        let in_run = self.run.front().map(|entry| (entry.key, entry.id));
        match (self.items.first().copied(), in_run) {
            (Some(item), Some(entry)) => Some(item.min(entry)),
            (item, entry) => item.or(entry),
        }
    }
    /// The key at `position`.
    #[cfg(test)]
    fn key(&self, position: u32) -> Option<K> {
        match self.index(position) {
            Some(index) => self.run.get(index).map(|entry| entry.key),
            None => self.items.get(position as usize).map(|item| item.0),
        }
    }
    /// Inserts `id`, which must not be a member.
    #[inline]
    pub fn insert(&mut self, key: K, id: I, place: &mut impl FnMut(I, u32)) {
        if self.follows(key, id) {
            return self.append(key, id, place);
        }
        if let Some(last) = self.outlier(key, id) {
            self.items.push((last.key, last.id));
            self.up(self.items.len() - 1, place);
            return self.append(key, id, place);
        }
        self.items.push((key, id));
        self.up(self.items.len() - 1, place);
    }
    /// Removes the member at `position`; none for [`NOWHERE`].
    pub fn remove(&mut self, position: u32, place: &mut impl FnMut(I, u32)) {
        if let Some(index) = self.index(position) {
            place(self.run[index].id, NOWHERE);
            return self.take_out(index);
        }
        let at = position as usize;
        if at < self.items.len() {
            place(self.items[at].1, NOWHERE);
            self.take_item(at, place);
        }
    }
    /// Changes the key of the member at `position`.
    #[inline]
    pub fn update(&mut self, position: u32, key: K, place: &mut impl FnMut(I, u32)) {
        if let Some(index) = self.index(position) {
            let Entry { key: before, id, .. } = self.run[index];
            if key != before {
                self.take_out(index);
                self.insert(key, id, place);
            }
            return;
        }
        let at = position as usize;
        let (before, id) = self.items[at];
        if key == before {
            return;
        }
        if self.follows(key, id) {
            self.take_item(at, place);
            return self.append(key, id, place);
        }
        self.items[at].0 = key;
        self.settle(at, place);
    }
    /// Inserts `id`, or changes its key if it has a `position`.
    pub fn set(&mut self, position: u32, key: K, id: I, place: &mut impl FnMut(I, u32)) {
        if position == NOWHERE {
            self.insert(key, id, place);
        } else {
            self.update(position, key, place);
        }
    }

    /// Visits the first member, and others whose key is below a bound, which `visit` may lower: in the heap nothing beneath a
    /// key that is not below it is visited. Each visit returns the bound from then on.
    pub fn visit_before(&self, visit: &mut impl FnMut(K, I) -> Option<K>) {
        let mut bound = None;
        let run_first = self.peek().is_some_and(|(_, id)| self.run.front().is_some_and(|entry| entry.id == id));
        if run_first {
            self.visit_run(&mut bound, visit);
        }
        self.visit_below(0, &mut bound, visit);
        if !run_first {
            self.visit_run(&mut bound, visit);
        }
    }

    fn visit_run(&self, bound: &mut Option<K>, visit: &mut impl FnMut(K, I) -> Option<K>) {
        let mut index = 0;
        while let Some(entry) = self.run.get(index) {
            if entry.id.number() == NOWHERE {
                index += entry.gap as usize;
                continue;
            }
            if bound.is_some_and(|bound| entry.key >= bound) {
                break;
            }
            *bound = visit(entry.key, entry.id);
            index += 1;
        }
    }

    /// Depth first without a stack of its own: the array is its map.
    fn visit_below(&self, at: usize, bound: &mut Option<K>, visit: &mut impl FnMut(K, I) -> Option<K>) {
        if let Some(&(key, id)) = self.items.get(at)
            && bound.is_none_or(|bound| key < bound)
        {
            *bound = visit(key, id);
            for child in at * ARITY + 1..=at * ARITY + ARITY {
                self.visit_below(child, bound, visit);
            }
        }
    }

    /// The place in the run of `position`; `None` for one in the heap and for [`NOWHERE`].
    #[inline]
    fn index(&self, position: u32) -> Option<usize> {
        (position & !NUMBERS == IN_RUN).then(|| (position.wrapping_sub(self.first) & NUMBERS) as usize)
    }
    /// Whether the run can end with this member.
    #[inline]
    fn follows(&self, key: K, id: I) -> bool {
        self.run.back().is_none_or(|last| (last.key, last.id) < (key, id)) && self.run.len() <= 2 * self.members + SPARE
    }
    #[inline]
    fn append(&mut self, key: K, id: I, place: &mut impl FnMut(I, u32)) {
        place(id, IN_RUN | (self.first.wrapping_add(self.run.len() as u32) & NUMBERS));
        self.run.push_back(Entry { key, id, gap: 0 });
        self.members += 1;
    }
    /// Takes out the last of the run if only that keeps this member from its end: one far ahead of the others would keep
    /// them all out of the run.
    fn outlier(&mut self, key: K, id: I) -> Option<Entry<K, I>> {
        let last = *self.run.back()?;
        let before = self.run.len().checked_sub(2)?;
        let entry = self.run[before];
        let entry = if entry.id.number() == NOWHERE { self.run[before - entry.gap as usize] } else { entry };
        if (entry.key, entry.id) > (key, id) || (last.key, last.id) < (key, id) {
            return None;
        }
        self.take_out(self.run.len() - 1);
        Some(last)
    }
    /// Removes the entry at `index` from the run: the gap that it joins grows, and is cut off at the ends.
    fn take_out(&mut self, index: usize) {
        self.members -= 1;
        let gap_at = |entry: Option<&Entry<K, I>>| {
            entry.filter(|entry| entry.id.number() == NOWHERE).map_or(0, |entry| entry.gap)
        };
        let before = gap_at(index.checked_sub(1).and_then(|at| self.run.get(at))) as usize;
        let after = gap_at(self.run.get(index + 1)) as usize;
        let (from, to) = (index - before, index + after);
        if from == 0 {
            self.first = self.first.wrapping_add(to as u32 + 1) & NUMBERS;
            self.run.drain(..=to);
        } else if to + 1 == self.run.len() {
            self.run.truncate(from);
        } else {
            self.run[index].id = I::numbered(NOWHERE);
            let gap = (to - from + 1) as u32;
            (self.run[from].gap, self.run[to].gap) = (gap, gap);
        }
    }
    fn take_item(&mut self, at: usize, place: &mut impl FnMut(I, u32)) {
        self.items.swap_remove(at);
        if at < self.items.len() {
            self.settle(at, place);
        }
    }

    fn settle(&mut self, at: usize, place: &mut impl FnMut(I, u32)) {
        if at > 0 && precedes(self.items[at], self.items[(at - 1) / ARITY]) {
            self.up(at, place);
        } else {
            self.down(at, place);
        }
    }

    fn up(&mut self, mut at: usize, place: &mut impl FnMut(I, u32)) {
        let item = self.items[at];
        while at > 0 {
            let parent = (at - 1) / ARITY;
            if !precedes(item, self.items[parent]) {
                break;
            }
            self.items[at] = self.items[parent];
            place(self.items[at].1, at as u32);
            at = parent;
        }
        self.items[at] = item;
        place(item.1, at as u32);
    }

    fn down(&mut self, mut at: usize, place: &mut impl FnMut(I, u32)) {
        let item = self.items[at];
        loop {
            let first = at * ARITY + 1;
            let children = self.items.get(first..).unwrap_or_default();
            let mut least = 0;
            for (child, &key) in children.iter().enumerate().take(ARITY).skip(1) {
                least = select_unpredictable(precedes(key, children[least]), child, least);
            }
            if !children.get(least).is_some_and(|&key| precedes(key, item)) {
                break;
            }
            let least = first + least;
            self.items[at] = self.items[least];
            place(self.items[at].1, at as u32);
            at = least;
        }
        self.items[at] = item;
        place(item.1, at as u32);
    }
}

/// Whether one member is before another. Both comparisons are made: which child is the least is as random as the keys, and
/// a branch would often be predicted wrongly.
#[inline]
fn precedes<K: Ord, I: Ord>((key, id): (K, I), (other_key, other_id): (K, I)) -> bool {
    (key < other_key) | ((key == other_key) & (id < other_id))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::random::Stream;
    use alloc::collections::BTreeSet;

    #[test]
    fn agrees_with_an_ordered_set() {
        // Keys at random, mostly in the heap; and rising ones, mostly in the run, with gaps and some far ahead.
        agrees(|random, _| random.below(30));
        agrees(|random, n| n / 50 + random.below(2) + if random.below(20) == 0 { random.below(9) } else { 0 });
    }

    fn agrees(mut draw: impl FnMut(&mut Stream, u64) -> u64) {
        let mut random = Stream::named(3, "heap");
        let mut heap = Heap::new();
        let mut places = [NOWHERE; 50];
        let mut oracle = BTreeSet::new();
        let mut keys = [0_u64; 50];
        for n in 0..20_000 {
            let id = random.below(50) as u32;
            let key = draw(&mut random, n);
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
            assert!(heap.run.len() <= 2 * 50 + SPARE + 1);
            // All before a bound that stays, and the smallest id by a bound that falls.
            let mut before = BTreeSet::new();
            let bound = if n % 2 == 0 { 15 } else { key };
            heap.visit_before(&mut |key, id| {
                before.insert((key, id));
                Some(bound)
            });
            // The first is visited before there is a bound.
            let first = oracle.first().copied();
            assert_eq!(before, oracle.iter().copied().filter(|item| item.0 < bound || Some(*item) == first).collect());
        }
    }
}
