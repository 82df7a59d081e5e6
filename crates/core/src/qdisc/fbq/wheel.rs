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
/// The spans that the wheel can have, as powers of two of virtual time: at weight 1.0 from 4.5 kB, for packets of an Ethernet, to 576
/// kB, for superpackets and flows with saved tokens. What is longer than half of it goes into the heap.
const SHORTEST: u32 = 53;
const LONGEST: u32 = 60;

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
    /// The most that a tag may be ahead; a longer packet makes the wheel longer.
    longest: u128,
    /// The number of flows in buckets.
    len: usize,
    /// The number of the first bucket that is not empty, counted from tag zero, and how far behind it the last is that may
    /// not be empty: within the wheel.
    first: u128,
    reach: usize,
    /// Flows of a tag that too many have to be put in order in their bucket, and how many they are. Packets of one size make
    /// two such tags: of the round that is served, and of the next.
    ties: [Ties; 2],
    tied: usize,
}

impl Wheel {
    pub fn new() -> Self {
        let mut new = Self {
            buckets: Vec::new(),
            levels: [const { Vec::new() }; LEVELS],
            width: 0,
            span: SHORTEST,
            longest: 0,
            len: 0,
            first: 0,
            reach: 0,
            ties: Default::default(),
            tied: 0,
        };
        new.size(FEWEST, SHORTEST);
        new
    }

    fn size(&mut self, places: u32, span: u32) {
        (self.width, self.span) = (span - places, span);
        self.longest = if span < LONGEST { 1 << (span - 1) } else { u128::MAX };
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

    /// Whether it has room for one more flow whose tag is `length` ahead, without [`grow`](Self::grow).
    pub fn has_room(&self, length: u128) -> bool {
        !self.needs_more() && length < self.longest
    }
    fn needs_more(&self) -> bool {
        self.len >= self.buckets.len() && self.buckets.len() < 1 << MOST
    }

    /// Makes room for one more flow whose tag is `length` ahead. The flows that were in buckets and are returned are to be
    /// inserted again, in their order.
    #[cold]
    pub fn grow(&mut self, flows: &mut Flows, length: u128) -> Vec<(u128, u32)> {
        let (places, more) = (self.buckets.len().trailing_zeros(), self.needs_more());
        let mut all = Vec::with_capacity(self.len);
        while let Some((tag, at)) = self.peek(flows) {
            self.remove(flows, at);
            all.push((tag, at));
        }
        let least = if more { SHORTEST } else { self.span };
        let needed = (128 - length.leading_zeros() + 1).clamp(least, LONGEST);
        self.size(places + u32::from(more), needed);
        all
    }

    /// Gives the flow `at` a tag that is `length` ahead of its last one, if it is served in turn: if it is the first of
    /// several in its bucket, and behind those in another one. Returns whether it is; if not, nothing has changed.
    #[inline(always)]
    pub fn renew(&mut self, flows: &mut Flows, at: u32, tag: u128, length: u128) -> bool {
        let flow = &flows[at];
        let (position, next) = (flow.share_at, flow.next);
        if position & (IN_BUCKET | IN_TIES) != IN_BUCKET || flow.before != NONE || next == NONE {
            return false;
        }
        // The width is below 64, which the compiler does not know.
        let number = tag >> (self.width % 64);
        let index = number as usize & (self.buckets.len() - 1);
        let bucket = &mut self.buckets[index];
        let (low, before) = (tag as u64, bucket.tail);
        let within = number.wrapping_sub(self.first) <= self.reach as u128 && length < self.longest;
        if !within || before == NONE || (bucket.last, before) > (low, at) {
            return false;
        }
        (bucket.tail, bucket.last) = (at, low);
        self.buckets[(position & !IN_BUCKET) as usize].head = next;
        flows[next].before = NONE;
        flows[before].next = at;
        let flow = &mut flows[at];
        (flow.tag, flow.before, flow.next) = (low, before, NONE);
        flow.share_at = IN_BUCKET | index as u32;
        true
    }

    /// The first bucket and the reach, with a flow in bucket `number`; `None` where they are too far from each other.
    #[inline]
    fn window(&self, number: u128) -> Option<(u128, usize)> {
        let most = self.buckets.len();
        if self.len == 0 {
            return Some((number, 0));
        }
        let ahead = number.wrapping_sub(self.first);
        if ahead < most as u128 {
            return Some((self.first, self.reach.max(ahead as usize)));
        }
        let behind = self.first.wrapping_sub(number);
        (behind < (most - self.reach) as u128).then(|| (number, self.reach + behind as usize))
    }

    /// Whether it has a bucket for `tag` beside those of the flows that are in it.
    #[inline]
    pub fn reaches(&self, tag: u128) -> bool {
        self.window(tag >> (self.width % 64)).is_some()
    }

    /// Inserts the flow `at`, which is in no bucket. Returns whether it has a place; if not, nothing has changed.
    pub fn insert(&mut self, flows: &mut Flows, at: u32, tag: u128) -> bool {
        let number = tag >> (self.width % 64);
        let Some((first, reach)) = self.window(number) else { return false };
        let (index, low) = (number as usize & (self.buckets.len() - 1), tag as u64);
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
        (self.first, self.reach) = (first, reach);
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
            self.tied += 1;
        }
        takes
    }

    /// Removes the flow `at`, which is in a bucket or among the ties.
    pub fn remove(&mut self, flows: &mut Flows, at: u32) {
        let flow = &mut flows[at];
        if flow.share_at & IN_TIES != 0 {
            self.ties[(flow.share_at & !(IN_BUCKET | IN_TIES)) as usize].remove(at);
            flow.share_at = u32::MAX;
            self.tied -= 1;
            return;
        }
        let (before, next) = (flow.before, flow.next);
        let index = (flow.share_at & !IN_BUCKET) as usize;
        flow.share_at = u32::MAX;
        self.len -= 1;
        let bucket = &mut self.buckets[index];
        match before {
            NONE => bucket.head = next,
            before => flows[before].next = next,
        }
        if next != NONE {
            flows[next].before = before;
            return;
        }
        bucket.tail = before;
        match before {
            NONE => self.empty(index),
            before => bucket.last = flows[before].tag,
        }
    }

    /// To be called when the last flow of a bucket was removed.
    fn empty(&mut self, index: usize) {
        self.clear(index);
        if index == self.first_index() && self.len > 0 {
            let next = self.next_from(index).or_else(|| self.next_from(0)).unwrap_or(index);
            let passed = next.wrapping_sub(index) & (self.buckets.len() - 1);
            self.first += passed as u128;
            self.reach -= passed;
        }
    }

    /// The first flow.
    #[inline(always)]
    pub fn first(&self, flows: &Flows) -> Option<u32> {
        if self.tied == 0 && self.len > 0 {
            return Some(self.buckets[self.first_index()].head);
        }
        self.first_of_ties(flows)
    }
    #[inline(never)]
    fn first_of_ties(&self, flows: &Flows) -> Option<u32> {
        let (tag, ties) = self.first_ties()?;
        if self.len == 0 {
            return Some(ties.first());
        }
        let (number, head) = (tag >> (self.width % 64), self.buckets[self.first_index()].head);
        if self.first != number {
            return Some(if self.first < number { head } else { ties.first() });
        }
        // In one bucket the low bits of the tags decide, and where they are equal the slots.
        let near = flows[head].tag;
        let tie = (tag as u64, ties.first());
        Some(if (near, head) < tie { head } else { tie.1 })
    }

    /// The ties that come first, with their tag.
    #[inline]
    fn first_ties(&self) -> Option<(u128, &Ties)> {
        let [one, other] = &self.ties;
        match (one.tag(), other.tag()) {
            (Some(tag), later) if later.is_none_or(|later| tag < later) => Some((tag, one)),
            (_, tag) => Some((tag?, other)),
        }
    }

    /// The first flow and its tag.
    pub fn peek(&self, flows: &Flows) -> Option<(u128, u32)> {
        let near = self.peek_buckets(flows);
        let Some((tag, ties)) = self.first_ties() else { return near };
        // Where the tags are equal the slots decide.
        if let Some(near) = near.filter(|near| near.0 < tag) {
            return Some(near);
        }
        let tie = (tag, ties.first());
        Some(near.map_or(tie, |near| near.min(tie)))
    }

    #[inline]
    fn peek_buckets(&self, flows: &Flows) -> Option<(u128, u32)> {
        if self.len == 0 {
            return None;
        }
        let head = self.buckets[self.first_index()].head;
        // The bits above the width, which is below 64, are those of the bucket.
        let width = self.width % 64;
        let low = flows[head].tag & ((1 << width) - 1);
        Some((self.first << width | u128::from(low), head))
    }

    #[inline]
    fn first_index(&self) -> usize {
        self.first as usize & (self.buckets.len() - 1)
    }

    #[inline]
    fn mark(&mut self, mut at: usize) {
        for level in &mut self.levels {
            let word = &mut level[at / 64];
            let marked = *word != 0;
            *word |= 1 << (at % 64);
            if marked {
                return;
            }
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
    fn run(seed: u64, flows_most: u64, lengths: &[u128]) -> (usize, usize, usize, usize) {
        let mut random = Stream::named(seed, "wheel");
        let mut flows = Flows::new();
        (0..flows_most).for_each(|key| {
            flows.insert(record(key, 0, 0, Instant::ZERO));
        });
        let (mut wheel, mut far, mut model) = (Wheel::new(), BTreeSet::new(), BTreeSet::new());
        let mut tags: Vec<Option<u128>> = alloc::vec![None; flows_most as usize];
        let (mut near_count, mut far_count, mut tied_count, mut renewed_count) = (0, 0, 0, 0);
        let mut now = 1_u128 << 100;
        for _ in 0..60_000 {
            // Half of the calls serve the first flow, which mostly has another packet; a few flows come, go or move.
            let (at, length) = match (random.below(16), model.first().copied()) {
                (0..12, Some((tag, at))) => {
                    now = now.max(tag);
                    (at, lengths[random.below(lengths.len() as u64) as usize])
                }
                _ => (random.below(flows_most) as u32, lengths[random.below(lengths.len() as u64) as usize]),
            };
            let before = tags[at as usize].take();
            let start = before.unwrap_or(now - length.min(u128::from(random.below(2)) << 40));
            let tag = start + length;
            let stays = random.below(16) > 0;
            if stays {
                tags[at as usize] = Some(tag);
                model.insert((tag, at));
            }
            let renewed = stays && wheel.renew(&mut flows, at, tag, length);
            renewed_count += usize::from(renewed);
            if let Some(before) = before {
                model.remove(&(before, at));
                if !renewed && Wheel::has(flows[at].share_at) {
                    wheel.remove(&mut flows, at);
                } else {
                    assert!(renewed || far.remove(&(before, at)), "a flow is in neither");
                }
            }
            if stays && !renewed {
                let mut again = if wheel.has_room(length) { Vec::new() } else { wheel.grow(&mut flows, length) };
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
            assert_eq!(wheel.first(&flows), wheel.peek(&flows).map(|(_, at)| at));
            assert_eq!(wheel.ties.iter().map(Ties::len).sum::<usize>(), wheel.tied);
            assert_eq!(wheel.len + wheel.tied + far.len(), model.len());
        }
        (near_count + renewed_count, far_count, tied_count, renewed_count)
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
        let (near, far, tied, renewed) = run(1, 300, &[mtu]);
        assert!(renewed > 1_000, "{renewed} renewed");
        assert!(near > 10_000 && tied > 1_000, "{near} places in the wheel, {tied} of ties, {far} beside it");
        let mixed: Vec<u128> = (1..24).map(|n| mtu / 24 * n + n).collect();
        let (near, far, ..) = run(2, 3_000, &mixed);
        assert!(near > 10_000, "{near} places in the wheel, {far} beside it");
        run(3, 300, &[mtu / 16, mtu, mtu * 40]);
        let (_, far, ..) = run(4, 300, &[mtu, mtu << 14, 3]);
        assert!(far > 1_000, "{far} flows beyond the span");
        run(5, 2, &[mtu, 1]);
    }
}
