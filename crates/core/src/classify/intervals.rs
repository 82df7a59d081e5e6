//! A map from integers to small numbers that is constant on intervals. The number of steps of a look-up depends on
//! the width of the integer and on where the ends of the intervals differ, not on the number of intervals.
//!
//! The top 16 bits index the root. Below it are nodes of 256 entries, skipping bytes in which all ends are equal,
//! until the remaining ends fit one cache line. Nodes are run-length coded: a bit marks the start of a run, and the
//! run is found by counting bits. A block with thousands of ends is indexed by its next 16 bits like the root.

use alloc::vec::Vec;

/// An unsigned integer, read byte by byte from the top.
pub(super) trait Key: Copy + Ord {
    const ZERO: Self;
    const BYTES: u32;
    /// The ends of a bucket, as many as fit a cache line with their values; unused ends are the largest key.
    type Ends: Copy + core::fmt::Debug + AsRef<[Self]> + AsMut<[Self]>;
    /// One value more than ends.
    type Values: Copy + core::fmt::Debug + AsRef<[u32]> + AsMut<[u32]>;
    const NO_ENDS: Self::Ends;
    const NO_VALUES: Self::Values;
    fn top(self) -> usize;
    fn byte(self, at: u32) -> usize;
    /// Two bytes, starting at byte `at`.
    fn pair(self, at: u32) -> usize;
    /// The number of equal leading bytes.
    fn common_bytes(self, other: Self) -> u32;
    /// The smallest key with the same first `depth` bytes.
    fn block(self, depth: u32) -> Self;
    fn from_wide(wide: u128) -> Self;
}

macro_rules! key {
    ($($type:ty, $ends:literal;)*) => {$(
        impl Key for $type {
            const ZERO: Self = 0;
            const BYTES: u32 = Self::BITS / 8;
            type Ends = [Self; $ends];
            type Values = [u32; $ends + 1];
            const NO_ENDS: Self::Ends = [Self::MAX; $ends];
            const NO_VALUES: Self::Values = [0; $ends + 1];
            #[inline]
            fn top(self) -> usize {
                (self >> (Self::BITS - 16)) as usize
            }
            #[inline]
            fn byte(self, at: u32) -> usize {
                (self >> (Self::BITS - 8 - 8 * at)) as usize & 0xff
            }
            #[inline]
            fn pair(self, at: u32) -> usize {
                (self >> (Self::BITS - 16 - 8 * at)) as usize & 0xffff
            }
            fn common_bytes(self, other: Self) -> u32 {
                (self ^ other).leading_zeros() / 8
            }
            #[inline]
            fn block(self, depth: u32) -> Self {
                self & !Self::MAX.checked_shr(8 * depth).unwrap_or(0)
            }
            fn from_wide(wide: u128) -> Self {
                wide as Self
            }
        }
    )*};
}
key! { u16, 7; u32, 7; u64, 4; u128, 3; }

#[derive(Clone, Copy, Debug)]
#[repr(align(64))]
struct Bucket<K: Key> {
    ends: K::Ends,
    values: K::Values,
}

/// 256 entries of the block of keys that begins with `low`. The links of the runs start at `base`; the two before
/// them are for keys below and above the block.
#[derive(Clone, Copy, Debug)]
#[repr(align(64))]
struct Node<K> {
    starts: [u64; 4],
    /// The number of runs that begin before each word of `starts`.
    before: [u8; 4],
    base: u32,
    depth: u32,
    low: K,
}

/// 65,536 entries of the block of keys that begins with `low`; links as in [`Node`].
#[derive(Clone, Copy, Debug)]
struct Wide<K> {
    base: u32,
    depth: u32,
    low: K,
}

/// A block with at least this many ends is a [`Wide`]: at most 256 bytes per end.
const CROWD: usize = 1_024;

/// Values are below 2^30; the two bits above are the type of a link.
pub(super) const VALUE_LIMIT: u32 = 1 << 30;
const BUCKET: u32 = 1 << 30;
const NODE: u32 = 2 << 30;
const WIDE: u32 = 3 << 30;

/// The map. See the [module](self).
#[derive(Clone, Debug)]
pub(super) struct Intervals<K: Key> {
    /// The entries up to the last that differs; the last applies to all after it.
    root: Vec<u32>,
    runs: Vec<u32>,
    nodes: Vec<Node<K>>,
    wides: Vec<Wide<K>>,
    buckets: Vec<Bucket<K>>,
}

impl<K: Key> Intervals<K> {
    /// `starts` are ascending, distinct and begin with the smallest key; each value is valid until the next start.
    pub(super) fn new(starts: &[(K, u32)]) -> Self {
        debug_assert!(starts[0].0 == K::ZERO && starts.is_sorted_by(|a, b| a.0 < b.0));
        debug_assert!(starts.iter().all(|start| start.1 < VALUE_LIMIT));
        let mut map =
            Self { root: Vec::new(), runs: Vec::new(), nodes: Vec::new(), wides: Vec::new(), buckets: Vec::new() };
        let mut links = alloc::vec![0; 1 << 16];
        map.split(starts, starts[0].1, &mut links, |key| key.top(), 2);
        let last = links[links.len() - 1];
        let differ = links.iter().rposition(|&link| link != last).map_or(0, |at| at + 1);
        links.truncate(differ + 1);
        links.shrink_to_fit();
        map.root = links;
        map
    }

    /// Fills one link for each entry by which `entry` distinguishes keys; entries are blocks of `depth` known bytes.
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
            // A start at the first key of the block changes the value of the whole block.
            if key == key.block(depth) {
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
        let mut bucket: Bucket<K> = Bucket { ends: K::NO_ENDS, values: K::NO_VALUES };
        let (ends, values) = (bucket.ends.as_mut(), bucket.values.as_mut());
        if starts.len() <= ends.len() {
            // The largest key is not below any unused end; it belongs to the last interval.
            values.fill(last.1);
            values[0] = value;
            for (i, &(end, value)) in starts.iter().enumerate() {
                ends[i] = end;
                values[i + 1] = value;
            }
            self.buckets.push(bucket);
            return BUCKET | (self.buckets.len() - 1) as u32;
        }
        let depth = first.0.common_bytes(last.0);
        let low = first.0.block(depth);
        if starts.len() >= CROWD && depth + 2 <= K::BYTES {
            let mut links = alloc::vec![0; 1 << 16];
            self.split(starts, value, &mut links, |key| key.pair(depth), depth + 2);
            self.runs.extend([value, last.1]);
            self.wides.push(Wide { base: self.runs.len() as u32, depth, low });
            self.runs.append(&mut links);
            return WIDE | (self.wides.len() - 1) as u32;
        }
        let mut links = [0; 256];
        self.split(starts, value, &mut links, |key| key.byte(depth), depth + 1);
        self.runs.extend([value, last.1]);
        let base = self.runs.len() as u32;
        let mut node = Node { starts: [0; 4], before: [0; 4], base, depth, low };
        for (entry, &link) in links.iter().enumerate() {
            if entry % 64 == 0 {
                // At most 192 entries precede a word.
                node.before[entry / 64] = (self.runs.len() as u32 - base) as u8;
            }
            if entry == 0 || link != links[entry - 1] {
                node.starts[entry / 64] |= 1 << (entry % 64);
                self.runs.push(link);
            }
        }
        self.nodes.push(node);
        NODE | (self.nodes.len() - 1) as u32
    }

    /// The first step of the look-up of `key`: a link, which is the value if it is below [`VALUE_LIMIT`].
    #[inline]
    pub(super) fn begin(&self, key: K) -> u32 {
        self.root[key.top().min(self.root.len() - 1)]
    }

    /// The value of the interval that contains `key`, from its link.
    #[inline]
    pub(super) fn finish(&self, key: K, mut link: u32) -> u32 {
        loop {
            if link < BUCKET {
                return link;
            }
            if link < NODE {
                let bucket = &self.buckets[(link - BUCKET) as usize];
                let passed = bucket.ends.as_ref().iter().map(|&end| usize::from(key >= end)).sum::<usize>();
                return bucket.values.as_ref()[passed];
            }
            let (base, depth, low) = if link < WIDE {
                let node = &self.nodes[(link - NODE) as usize];
                (node.base, node.depth, node.low)
            } else {
                let wide = &self.wides[(link - WIDE) as usize];
                (wide.base, wide.depth, wide.low)
            };
            let run = if key.block(depth) != low {
                base - if key < low { 2 } else { 1 }
            } else if link < WIDE {
                let (node, entry) = (&self.nodes[(link - NODE) as usize], key.byte(depth));
                let starts = node.starts[entry / 64] & (2_u64 << (entry % 64)).wrapping_sub(1);
                // Entry 0 begins a run, so there is at least one.
                base + u32::from(node.before[entry / 64]) + starts.count_ones() - 1
            } else {
                base + key.pair(depth) as u32
            };
            link = self.runs[run as usize];
        }
    }

    /// Bytes of memory.
    pub(super) fn memory(&self) -> usize {
        size_of_val(&*self.root)
            + size_of_val(&*self.runs)
            + size_of_val(&*self.wides)
            + size_of_val(&*self.nodes)
            + size_of_val(&*self.buckets)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_fill_a_cache_line() {
        assert_eq!(size_of::<Bucket<u32>>() + size_of::<Bucket<u64>>() + size_of::<Bucket<u128>>(), 3 * 64);
        assert_eq!(size_of::<Node<u32>>() + size_of::<Node<u128>>(), 2 * 64);
    }

    use crate::random::Stream;

    fn check<K: Key + core::fmt::Debug>(starts: &[(K, u32)], probes: impl Iterator<Item = K>) {
        let map = Intervals::new(starts);
        for key in probes {
            let expected = starts[starts.partition_point(|start| start.0 <= key) - 1].1;
            assert_eq!(map.finish(key, map.begin(key)), expected, "{key:?}");
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
            let count = if round % 7 == 6 { 6_000 } else { stream.below(400) as u32 };
            for value in 1..=count {
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
