//! A map from integers to small numbers that is constant on intervals, looked up in a number of steps that depends
//! on the width of the integer and on where the interval ends differ, not on how many intervals there are.
//!
//! The top 16 bits choose an entry of the root; below it nodes of 256 entries, with the bytes skipped in which all
//! ends agree, until four or fewer ends are left, which one bucket compares with the key. The entries of root and
//! nodes are run-length coded: a bit says where a new run begins, and the run is found by counting bits.

use alloc::vec::Vec;

/// An unsigned integer, read byte by byte from the top.
pub(super) trait Key: Copy + Ord {
    const ZERO: Self;
    const MAX: Self;
    fn top(self) -> usize;
    fn byte(self, at: u32) -> usize;
    /// How many leading bytes are the same.
    fn common_bytes(self, other: Self) -> u32;
    /// The smallest and the largest key with the same first `depth` bytes.
    fn block(self, depth: u32) -> (Self, Self);
    fn from_wide(wide: u128) -> Self;
}

macro_rules! key {
    ($($type:ty),*) => {$(
        impl Key for $type {
            const ZERO: Self = 0;
            const MAX: Self = Self::MAX;
            #[inline]
            fn top(self) -> usize {
                (self >> (Self::BITS - 16)) as usize
            }
            #[inline]
            fn byte(self, at: u32) -> usize {
                (self >> (Self::BITS - 8 - 8 * at)) as usize & 0xff
            }
            fn common_bytes(self, other: Self) -> u32 {
                (self ^ other).leading_zeros() / 8
            }
            fn block(self, depth: u32) -> (Self, Self) {
                let low = Self::MAX.checked_shr(8 * depth).unwrap_or(0);
                (self & !low, self | low)
            }
            fn from_wide(wide: u128) -> Self {
                wide as Self
            }
        }
    )*};
}
key!(u16, u32, u64, u128);

/// 64 entries: where runs begin, and how many runs began before.
#[derive(Clone, Copy, Debug, Default)]
struct Runs {
    starts: u64,
    before: u32,
}

impl Runs {
    #[inline]
    fn find(all: &[Self], entry: usize) -> usize {
        let word = all[entry / 64];
        // Entry 0 of every table begins a run, so the count is at least one.
        word.before as usize + (word.starts & (2_u64 << (entry % 64)).wrapping_sub(1)).count_ones() as usize - 1
    }

    /// Codes `links`, appending one link a run to `runs`.
    fn code(links: &[u32], runs: &mut Vec<u32>, words: &mut [Self]) {
        for (chunk, word) in words.iter_mut().enumerate() {
            word.before = runs.len() as u32;
            for entry in 64 * chunk..64 * (chunk + 1) {
                if entry == 0 || links[entry] != links[entry - 1] {
                    word.starts |= 1 << (entry % 64);
                    runs.push(links[entry]);
                }
            }
        }
    }
}

/// Up to four interval ends. Unused ends are the largest key, and unused values repeat the last.
#[derive(Clone, Debug)]
struct Bucket<K> {
    ends: [K; 4],
    values: [u32; 5],
}

#[derive(Clone, Debug)]
struct Node<K> {
    runs: [Runs; 4],
    low: K,
    high: K,
    depth: u32,
    below: u32,
    above: u32,
}

/// Values are below 2^30: the two bits above say what a link leads to.
pub(super) const VALUE_LIMIT: u32 = 1 << 30;
const BUCKET: u32 = 1 << 30;
const NODE: u32 = 2 << 30;

/// The map. See the [module](self).
#[derive(Clone, Debug)]
pub(super) struct Intervals<K> {
    root: Vec<Runs>,
    runs: Vec<u32>,
    nodes: Vec<Node<K>>,
    buckets: Vec<Bucket<K>>,
}

impl<K: Key> Intervals<K> {
    /// `starts` are ascending and distinct and begin with the smallest key; each value holds until the next start.
    pub(super) fn new(starts: &[(K, u32)]) -> Self {
        debug_assert!(starts[0].0 == K::ZERO && starts.is_sorted_by(|a, b| a.0 < b.0));
        debug_assert!(starts.iter().all(|start| start.1 < VALUE_LIMIT));
        let mut map =
            Self { root: alloc::vec![Runs::default(); 1024], runs: Vec::new(), nodes: Vec::new(), buckets: Vec::new() };
        let mut links = alloc::vec![0; 1 << 16];
        map.split(starts, starts[0].1, &mut links, |key| key.top(), 2);
        Runs::code(&links, &mut map.runs, &mut map.root);
        map
    }

    /// Fills one link for each entry that `entry` tells keys apart by; entries are blocks of `depth` known bytes.
    fn split(
        &mut self,
        mut starts: &[(K, u32)],
        mut value: u32,
        links: &mut [u32],
        entry: impl Fn(K) -> usize,
        depth: u32,
    ) {
        let mut done = 0;
        while let Some(&(key, _)) = starts.first() {
            let at = entry(key);
            links[done..at].fill(value);
            let count = starts.partition_point(|start| entry(start.0) <= at);
            let (mut inner, rest) = starts.split_at(count);
            // A start at the very beginning of the block changes what holds throughout it.
            if key == key.block(depth).0 {
                value = inner[0].1;
                inner = &inner[1..];
            }
            links[at] = self.link(inner, value);
            value = inner.last().map_or(value, |start| start.1);
            (starts, done) = (rest, at + 1);
        }
        links[done..].fill(value);
    }

    fn link(&mut self, starts: &[(K, u32)], value: u32) -> u32 {
        let (Some(first), Some(last)) = (starts.first(), starts.last()) else { return value };
        if starts.len() <= 4 {
            let mut bucket = Bucket { ends: [K::MAX; 4], values: [last.1; 5] };
            bucket.values[0] = value;
            for (i, &(end, value)) in starts.iter().enumerate() {
                bucket.ends[i] = end;
                bucket.values[i + 1] = value;
            }
            self.buckets.push(bucket);
            return BUCKET | (self.buckets.len() - 1) as u32;
        }
        let depth = first.0.common_bytes(last.0);
        let (low, high) = first.0.block(depth);
        let mut links = [0; 256];
        self.split(starts, value, &mut links, |key| key.byte(depth), depth + 1);
        let mut runs = [Runs::default(); 4];
        Runs::code(&links, &mut self.runs, &mut runs);
        self.nodes.push(Node { runs, low, high, depth, below: value, above: last.1 });
        NODE | (self.nodes.len() - 1) as u32
    }

    /// The value of the interval that `key` is in.
    #[inline]
    pub(super) fn find(&self, key: K) -> u32 {
        let mut link = self.runs[Runs::find(&self.root, key.top())];
        loop {
            if link < BUCKET {
                return link;
            }
            if link < NODE {
                let bucket = &self.buckets[(link - BUCKET) as usize];
                return bucket.values[bucket.ends.iter().map(|&end| usize::from(key >= end)).sum::<usize>()];
            }
            let node = &self.nodes[(link - NODE) as usize];
            if key < node.low {
                return node.below;
            }
            if key > node.high {
                return node.above;
            }
            link = self.runs[Runs::find(&node.runs, key.byte(node.depth))];
        }
    }

    /// Bytes of memory.
    pub(super) fn memory(&self) -> usize {
        size_of_val(&*self.root) + size_of_val(&*self.runs) + size_of_val(&*self.nodes) + size_of_val(&*self.buckets)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::random::Stream;

    fn check<K: Key + core::fmt::Debug>(starts: &[(K, u32)], probes: impl Iterator<Item = K>) {
        let map = Intervals::new(starts);
        for key in probes {
            let expected = starts[starts.partition_point(|start| start.0 <= key) - 1].1;
            assert_eq!(map.find(key), expected, "{key:?}");
        }
    }

    #[test]
    fn every_key_of_a_small_map() {
        check::<u16>(&[(0, 7), (1, 3), (80, 1), (81, 3), (65535, 9)], 0..=u16::MAX);
        check::<u16>(&[(0, 7)], 0..=u16::MAX);
        check::<u16>(&(0..=u16::MAX).map(|n| (n, u32::from(n))).collect::<Vec<_>>(), 0..=u16::MAX);
    }

    #[test]
    fn agrees_with_binary_search_near_the_ends() {
        let mut stream = Stream::named(1, "intervals");
        for round in 0..60 {
            let mut starts = alloc::collections::BTreeMap::from([(0_u128, 0)]);
            let base = u128::from(stream.next_u64()) << 64;
            // Ends that share few or many leading bytes, down to the last.
            let keep = [128, 96, 64, 24, 9, 3][round % 6];
            for value in 1..1 + stream.below(400) as u32 {
                let noise = (u128::from(stream.next_u64()) << 64 | u128::from(stream.next_u64())) >> (128 - keep);
                starts.insert(base ^ noise, value);
            }
            let starts: Vec<_> = starts.into_iter().collect();
            let near = |key: u128| [key, key.wrapping_sub(1), key.wrapping_add(1)];
            check(&starts, starts.iter().flat_map(|start| near(start.0)).chain([u128::MAX, u128::MAX / 2]));
            let mut narrow: Vec<_> = starts.iter().map(|start| ((start.0 >> 64 ^ start.0) as u32, start.1)).collect();
            narrow.push((0, 5));
            narrow.sort_unstable();
            narrow.dedup_by_key(|start| start.0);
            let near = |key: u32| [key, key.wrapping_sub(1), key.wrapping_add(1)];
            check(&narrow, narrow.iter().flat_map(|start| near(start.0)).chain([u32::MAX]));
        }
    }
}
