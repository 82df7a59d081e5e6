//! The flows of a class in the exact order of their tags: buckets of virtual time, each a sorted list.
//!
//! *Law*: flows leave in the order of (tag, slot). A flow whose place in its bucket is too far from the end goes among
//! those with its tag ([`Ties`]), of two tags at a time. A flow that the wheel does not take (a third tag, or one that is
//! too far ahead or behind) belongs into a heap beside it, and the lesser of both is next; so the order is that of one heap.
//! *Source*: calendar queues (Brown, CACM 1988) with a bitmap to find the next bucket, as in Eiffel (Saeed et al.,
//! NSDI 2019), but with an exact order inside a bucket.
//! *Cost*: O(1) for flows that are served in turn: one sends, and with its next packet goes to the end of a bucket. An
//! insertion passes at most [`STEPS`] flows; the search for the next bucket reads at most [`LEVELS`] words and four
//! more. The lists are links in the records of the flows, which the packet touches anyway; a bucket takes 16 bytes. There
//! are at least as many buckets as flows in them: the wheel grows, and moves everything, when there are more flows or longer
//! packets than ever before.

use alloc::vec::Vec;

use super::flow::{Flows, NONE};
use super::ties::Ties;

/// How many flows an insertion passes before it gives up.
const STEPS: u32 = 16;
/// The bitmap: a bit for each bucket, and above each level a bit for each of its words.
const LEVELS: usize = 3;
/// The numbers of buckets, as powers of two.
const FEWEST: u32 = 6;
const MOST: u32 = 20;
/// What the wheel spans, as powers of two of virtual time: at weight 1.0 from 4.5 kB, for packets of an Ethernet, to 72
/// kB, for superpackets. What is longer than half of it goes into the heap.
const SHORTEST: u32 = 53;
const LONGEST: u32 = 57;

#[derive(Clone, Copy, Debug)]
struct Bucket {
    head: u32,
    tail: u32,
    /// The low bits of the tag of the tail.
    last: u64,
}

const EMPTY: Bucket = Bucket { head: NONE, tail: NONE, last: 0 };

/// The mark of a position that is a bucket and not a place in the heap.
const IN_BUCKET: u32 = 1 << 31;
/// The mark beside it of one that is among the ties with this number. There are fewer buckets.
const IN_TIES: u32 = 1 << 30;

/// Flows by tags. See the [module](self).
#[derive(Clone, Debug)]
pub(super) struct Wheel {
    buckets: Vec<Bucket>,
    levels: [Vec<u64>; LEVELS],
    /// The width of a bucket and the span of all, as powers of two.
    width: u32,
    span: u32,
    /// The number of flows in buckets.
    len: usize,
    /// The numbers of the first bucket that is not empty and of the last that may not be, counted from tag zero. The
    /// buckets from the one to the other fit the wheel.
    first: u128,
    last: u128,
    /// Flows of a tag that too many have to be put in order in their bucket. Packets of one size make two such tags: of the
    /// round that is served, and of the next.
    ties: [Ties; 2],
}

impl Wheel {
    pub fn new() -> Self {
        let mut new = Self {
            buckets: Vec::new(),
            levels: [const { Vec::new() }; LEVELS],
            width: 0,
            span: SHORTEST,
            len: 0,
            first: 0,
            last: 0,
            ties: Default::default(),
        };
        new.size(FEWEST, SHORTEST);
        new
    }

    fn size(&mut self, places: u32, span: u32) {
        (self.width, self.span) = (span - places, span);
        let mut count = 1_usize << places;
        self.buckets = alloc::vec![EMPTY; count];
        for level in &mut self.levels {
            count = count.div_ceil(64);
            *level = alloc::vec![0; count];
        }
    }

    /// Whether `position` is one of the wheel.
    #[inline]
    pub fn has(position: u32) -> bool {
        position & IN_BUCKET != 0 && position != u32::MAX
    }

    /// Makes room for one more flow whose tag is `length` ahead. The flows that were in buckets are inserted again by
    /// `insert`, in their order, if it has to grow.
    #[inline]
    pub fn reserve(&mut self, flows: &mut Flows, length: u128) -> Vec<(u128, u32)> {
        let places = self.buckets.len().trailing_zeros();
        let more = self.len >= self.buckets.len() && places < MOST;
        let longer = length >> (self.span - 1) != 0 && self.span < LONGEST;
        if more || longer { self.grow(flows, length, more) } else { Vec::new() }
    }

    #[cold]
    fn grow(&mut self, flows: &mut Flows, length: u128, more: bool) -> Vec<(u128, u32)> {
        let places = self.buckets.len().trailing_zeros();
        let mut all = Vec::with_capacity(self.len);
        while let Some((tag, at)) = self.peek(flows) {
            self.remove(flows, at);
            all.push((tag, at));
        }
        let needed = (128 - length.leading_zeros() + 1).clamp(self.span, LONGEST);
        self.size(places + u32::from(more), needed);
        all
    }

    /// Inserts the flow `at`, which is in no bucket. Returns whether it has a place; if not, nothing has changed.
    pub fn insert(&mut self, flows: &mut Flows, at: u32, tag: u128) -> bool {
        let number = tag >> self.width;
        let most = self.buckets.len() as u128;
        let (first, last) = match self.len {
            0 => (number, number),
            _ => (self.first.min(number), self.last.max(number)),
        };
        if last - first >= most {
            return false;
        }
        let (index, low) = ((number & (most - 1)) as usize, tag as u64);
        let bucket = self.buckets[index];
        // After the last flow that precedes it.
        let mut before = bucket.tail;
        if before != NONE && (bucket.last, before) > (low, at) {
            if self.ties.iter().any(|ties| ties.has(tag)) {
                return self.tie(flows, at, tag);
            }
            let mut steps = 0;
            while before != NONE && (flows[before].tag, before) > (low, at) {
                before = flows[before].before;
                steps += 1;
                if steps == STEPS {
                    let ties = before != NONE && flows[before].tag == low;
                    return ties && self.tie(flows, at, tag);
                }
            }
        }
        let next = match before {
            NONE => core::mem::replace(&mut self.buckets[index].head, at),
            before => core::mem::replace(&mut flows[before].next, at),
        };
        match next {
            NONE => (self.buckets[index].tail, self.buckets[index].last) = (at, low),
            next => flows[next].before = at,
        }
        if bucket.head == NONE {
            self.mark(index);
        }
        let flow = &mut flows[at];
        (flow.tag, flow.before, flow.next) = (low, before, next);
        flow.share_at = IN_BUCKET | index as u32;
        (self.first, self.last) = (first, last);
        self.len += 1;
        true
    }

    /// Puts the flow `at` among those of equal tags, if there is room for its tag.
    fn tie(&mut self, flows: &mut Flows, at: u32, tag: u128) -> bool {
        // Both have room for the slots of either, so that neither allocates later.
        if !self.ties.iter_mut().all(|ties| ties.reserve(at)) {
            return false;
        }
        let has = self.ties.iter().position(|ties| ties.has(tag));
        let Some(number) = has.or_else(|| self.ties.iter().position(Ties::is_empty)) else { return false };
        let takes = self.ties[number].insert(tag, at);
        if takes {
            flows[at].share_at = IN_BUCKET | IN_TIES | number as u32;
        }
        takes
    }

    /// Removes the flow `at`, which is in a bucket or among the ties.
    #[inline]
    pub fn remove(&mut self, flows: &mut Flows, at: u32) {
        let flow = &mut flows[at];
        if flow.share_at & IN_TIES != 0 {
            self.ties[(flow.share_at & !(IN_BUCKET | IN_TIES)) as usize].remove(at);
            flow.share_at = u32::MAX;
            return;
        }
        let (before, next) = (flow.before, flow.next);
        let index = (flow.share_at & !IN_BUCKET) as usize;
        flow.share_at = u32::MAX;
        match before {
            NONE => self.buckets[index].head = next,
            before => flows[before].next = next,
        }
        match next {
            NONE => {
                self.buckets[index].tail = before;
                if before != NONE {
                    self.buckets[index].last = flows[before].tag;
                }
            }
            next => flows[next].before = before,
        }
        self.len -= 1;
        if self.buckets[index].head != NONE {
            return;
        }
        self.clear(index);
        if index == self.first_index() && self.len > 0 {
            let next = self.next_from(index).or_else(|| self.next_from(0)).unwrap_or(index);
            self.first += (next.wrapping_sub(index) & (self.buckets.len() - 1)) as u128;
        }
    }

    /// The first flow and its tag.
    #[inline]
    pub fn peek(&self, flows: &Flows) -> Option<(u128, u32)> {
        let near = self.peek_buckets(flows);
        // None of both is the usual case.
        self.ties.iter().filter_map(Ties::peek).fold(near, |near, tie| Some(near.map_or(tie, |near| near.min(tie))))
    }

    #[inline]
    fn peek_buckets(&self, flows: &Flows) -> Option<(u128, u32)> {
        if self.len == 0 {
            return None;
        }
        let head = self.buckets[self.first_index()].head;
        // The bits above the width are those of the bucket.
        let low = flows[head].tag & ((1 << self.width) - 1);
        Some((self.first << self.width | u128::from(low), head))
    }

    #[inline]
    fn first_index(&self) -> usize {
        self.first as usize & (self.buckets.len() - 1)
    }

    #[inline]
    fn mark(&mut self, mut at: usize) {
        for level in &mut self.levels {
            level[at / 64] |= 1 << (at % 64);
            at /= 64;
        }
    }

    #[inline]
    fn clear(&mut self, mut at: usize) {
        for level in &mut self.levels {
            level[at / 64] &= !(1 << (at % 64));
            at /= 64;
            if level[at] != 0 {
                return;
            }
        }
    }

    /// The first bucket from `at` on that is not empty.
    fn next_from(&self, mut at: usize) -> Option<usize> {
        for level in 0..LEVELS {
            let words = &self.levels[level];
            let bits = words.get(at / 64).map_or(0, |word| word & (!0 << (at % 64)));
            if bits != 0 {
                return Some(self.descend(level, at / 64 * 64 + bits.trailing_zeros() as usize));
            }
            at = at / 64 + 1;
        }
        let top = &self.levels[LEVELS - 1];
        let word = (at..top.len()).find(|&word| top[word] != 0)?;
        Some(self.descend(LEVELS - 1, word * 64 + top[word].trailing_zeros() as usize))
    }

    /// The first bucket under bit `at` of `level`.
    fn descend(&self, level: usize, at: usize) -> usize {
        (0..level).rev().fold(at, |at, level| at * 64 + self.levels[level][at].trailing_zeros() as usize)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fbq::flow::record;
    use crate::random::Stream;
    use alloc::collections::BTreeSet;
    use tidegate_units::Instant;

    /// Against an ordered set: the lesser of the wheel's first flow and of those that it did not take is the first.
    fn run(seed: u64, flows_most: u64, lengths: &[u128]) -> (usize, usize, usize) {
        let mut random = Stream::named(seed, "wheel");
        let mut flows = Flows::new();
        (0..flows_most).for_each(|key| {
            flows.insert(record(key, 0, 0, Instant::ZERO));
        });
        let (mut wheel, mut far, mut model) = (Wheel::new(), BTreeSet::new(), BTreeSet::new());
        let mut tags: Vec<Option<u128>> = alloc::vec![None; flows_most as usize];
        let (mut now, mut near_count, mut far_count, mut tied_count) = (1_u128 << 100, 0, 0, 0);
        for _ in 0..60_000 {
            // Half of the calls serve the first flow, which mostly has another packet; a few flows come, go or move.
            let (at, length) = match (random.below(16), model.first().copied()) {
                (0..12, Some((tag, at))) => {
                    now = now.max(tag);
                    (at, lengths[random.below(lengths.len() as u64) as usize])
                }
                _ => (random.below(flows_most) as u32, lengths[random.below(lengths.len() as u64) as usize]),
            };
            let start = tags[at as usize].unwrap_or(now - length.min(u128::from(random.below(2)) << 40));
            if let Some(tag) = tags[at as usize].take() {
                model.remove(&(tag, at));
                if Wheel::has(flows[at].share_at) {
                    wheel.remove(&mut flows, at);
                } else {
                    assert!(far.remove(&(tag, at)), "a flow is in neither");
                }
            }
            if random.below(16) > 0 {
                let tag = start + length;
                tags[at as usize] = Some(tag);
                model.insert((tag, at));
                let mut again = wheel.reserve(&mut flows, length);
                again.push((tag, at));
                for (tag, at) in again {
                    if wheel.insert(&mut flows, at, tag) {
                        near_count += 1;
                        tied_count += usize::from(flows[at].share_at & IN_TIES != 0);
                    } else {
                        far.insert((tag, at));
                        far_count += 1;
                    }
                }
            }
            let first = [wheel.peek(&flows), far.first().copied()].into_iter().flatten().min();
            assert_eq!(first, model.first().copied());
            let tied = wheel.ties.iter().map(Ties::len).sum::<usize>();
            assert_eq!(wheel.len + tied + far.len(), model.len());
        }
        (near_count, far_count, tied_count)
    }

    #[test]
    fn a_bucket_is_found_in_any_part_of_the_largest_wheel() {
        let mut wheel = Wheel::new();
        wheel.size(MOST, wheel.span);
        let marked = [70, 300_000, 300_001, 1_000_000];
        marked.into_iter().for_each(|at| wheel.mark(at));
        for at in [0, 70, 71, 4_096, 300_000, 300_001, 300_002, 999_999, 1_000_001] {
            assert_eq!(wheel.next_from(at), marked.into_iter().find(|&first| first >= at), "from {at}");
        }
    }

    #[test]
    fn the_first_is_that_of_an_ordered_set() {
        // Equal packets tie; those of an Ethernet; superpackets; weights that put tags beyond every span.
        let mtu = 1_u128 << 51;
        let (near, far, tied) = run(1, 300, &[mtu]);
        assert!(near > 10_000 && tied > 1_000, "{near} places in the wheel, {tied} of ties, {far} beside it");
        let mixed: Vec<u128> = (1..24).map(|n| mtu / 24 * n + n).collect();
        let (near, far, _) = run(2, 3_000, &mixed);
        assert!(near > 10_000, "{near} places in the wheel, {far} beside it");
        run(3, 300, &[mtu / 16, mtu, mtu * 40]);
        let (_, far, _) = run(4, 300, &[mtu, mtu << 14, 3]);
        assert!(far > 1_000, "{far} flows beyond the span");
        run(5, 2, &[mtu, 1]);
    }
}
