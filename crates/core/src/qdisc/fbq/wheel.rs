//! The flows of a class in the exact order of their tags: buckets of virtual time, of which the first is put in order.
//!
//! *Law*: flows leave in the order of (tag, slot). Buckets are intervals of this order: packets have whole numbers of bytes, so that
//! most flows of weight 1.0 have one of few tags, a byte apart, and there are many with each; those with a tag are divided by their
//! slots, and the tags between two such by their distance from the former. A bucket that is not the first is a list in any order;
//! only one in order may have more than [`CROWD`] flows. A flow that its bucket does not take goes among those with its tag ([`Ties`]), of two tags at a time. A flow that the wheel does not take
//! (a third tag, or one that is too far ahead or behind) belongs into a heap beside it, and the lesser of both is next; so the order
//! is that of one heap.
//! *Source*: calendar queues (Brown, CACM 1988) with a bitmap to find the next bucket, as in Eiffel (Saeed et al.,
//! NSDI 2019), but with an exact order inside a bucket.
//! *Cost*: O(1): an insertion reads the last flow of the bucket and, unless that is the first, no other. At most [`CROWD`] flows are put
//! in order, which leave next and are read anyway, and an insertion into the first bucket passes at most as many; the search for the next
//! bucket reads at most [`LEVELS`] words and sixteen more. A bucket takes 16 bytes. There are at least as many buckets as flows in them: the wheel
//! grows, and moves everything, when there are more flows or longer packets than ever before, or when flows have met so many others
//! in their buckets that growth would have cost less.

use alloc::vec::Vec;
use core::hint::black_box;

use super::deciders::VIRTUAL_START;
use super::flow::{Flow, Flows, NONE};
use super::ties::Ties;
use crate::heap::NOWHERE;

/// The most flows in a bucket that is not in order.
const CROWD: u32 = 16;
/// How many flows a flow may meet in its bucket without that being a reason to grow.
const USUAL: usize = 1;
/// The bitmap: a bit for each bucket, and above each level a bit for each of its words.
const LEVELS: usize = 3;
/// The numbers of buckets, as powers of two.
const FEWEST: u32 = 6;
const MOST: u32 = 22;
/// How many buckets there may be for each flow in them before the last doubling. Tags lie close behind the present, in a part of
/// the wheel only, so that there are several flows in a bucket where there are as many buckets as flows.
const PER_FLOW: usize = 2;
/// The spans that the wheel can have, as powers of two of bytes at weight 1.0: from 8 kB, for packets of an Ethernet and flows with
/// saved tokens, to 512 kB, for superpackets. What is longer than half of it goes into the heap.
const SHORTEST: u32 = 13;
const LONGEST: u32 = 19;
/// A byte at weight 1.0, and the parts into which the order is divided from one byte to the next, as a power of two. The first half
/// of these are of the byte itself, by slots; the others are of the tags up to the next.
const BYTE: u64 = super::class::BYTE_AT_ONE;
const PARTS: u32 = 11;
const SLOT_PARTS: u64 = 1 << (PARTS - 1);
/// So that a tag between two bytes has a part of the second half.
const REST: u32 = (u64::BITS - BYTE.leading_zeros()) - (PARTS - 1);
/// How far the first byte of the wheel may be behind that of its first flow before it is moved, and by how much.
const BEHIND: u64 = 1 << 22;
const MOVED: u64 = 1 << 21;
/// The tag of byte 0.
const ORIGIN: u128 = VIRTUAL_START - MOVED as u128 * BYTE as u128;

#[derive(Clone, Copy, Debug)]
struct Bucket {
    head: u32,
    tail: u32,
    /// How many flows are in it.
    flows: u32,
    /// Whether each of them is behind the one before it.
    in_order: bool,
}

const EMPTY: Bucket = Bucket { head: NONE, tail: NONE, flows: 0, in_order: true };

impl Bucket {
    /// Makes `at` the flow behind `before`, or the head where that is none.
    #[inline(always)]
    fn follow(&mut self, flows: &mut Flows, before: u32, at: u32) {
        match before {
            NONE => self.head = at,
            before => flows[before].next = at,
        }
    }
    /// Makes `at` the flow before `next`, or the tail where that is none.
    #[inline(always)]
    fn precede(&mut self, flows: &mut Flows, next: u32, at: u32) {
        match next {
            NONE => self.tail = at,
            next => flows[next].before = at,
        }
    }
}

/// The mark of a position that is a bucket and not a place in the heap.
const IN_BUCKET: u32 = 1 << 31;
/// The mark beside it of one that is among the ties with this number. There are fewer buckets.
const IN_TIES: u32 = 1 << 30;

/// Gives `flow`, with a tag of these low bits, its place in a bucket between two others.
#[inline(always)]
fn place(flow: &mut Flow, tag: u64, bucket: usize, (before, next): (u32, u32)) {
    (flow.tag, flow.share_at, flow.before, flow.next) = (tag, IN_BUCKET | bucket as u32, before, next);
}

/// Whether the flow `at` with a tag of the low bits `tag` belongs behind another one with a tag that is less than half of their
/// range away.
#[inline]
fn is_behind((tag, at): (u64, u32), other: (u64, u32)) -> bool {
    match tag.wrapping_sub(other.0) as i64 {
        0 => at > other.1,
        distance => distance > 0,
    }
}

/// Flows by tags. See the [module](self).
#[derive(Clone, Debug)]
pub(super) struct Wheel {
    buckets: Vec<Bucket>,
    levels: [Vec<u64>; LEVELS],
    /// The width of a bucket, as a power of two of parts of a byte, and the span of all, as one of bytes.
    width: u32,
    span: u32,
    /// A tag that is behind every one in the wheel.
    base: u128,
    /// The slots of a part of a byte, as a power of two.
    slots: u32,
    /// The most that a tag may be ahead; a longer packet makes the wheel longer.
    longest: u128,
    /// The number of flows in buckets.
    len: usize,
    /// How many flows insertions have met in their buckets beyond [`USUAL`] each.
    met: usize,
    /// The number of the first bucket that is not empty, counted from the base, and how far behind it the last is that may
    /// not be empty: within the wheel.
    first: u64,
    reach: u64,
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
            base: ORIGIN,
            slots: 0,
            longest: 0,
            len: 0,
            met: 0,
            first: 0,
            reach: 0,
            ties: Default::default(),
            tied: 0,
        };
        new.size(FEWEST, SHORTEST);
        new
    }

    fn size(&mut self, places: u32, span: u32) {
        (self.width, self.span, self.met) = (span + PARTS - places, span, 0);
        self.longest = if span < LONGEST { u128::from(BYTE) << (span - 1) } else { u128::MAX };
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
        position & IN_BUCKET != 0 && position != NOWHERE
    }

    /// Whether it has room for one more flow whose tag is `length` ahead, as far as can be told at once. Where it has not,
    /// [`has_room`](Self::has_room) tells whether growth helps.
    #[inline]
    pub fn is_ready(&self, length: u128) -> bool {
        self.len.max(self.met) < self.buckets.len() && length < self.longest
    }
    /// Whether it has as much room for one more flow whose tag is `length` ahead as it can have, or else is to
    /// [`grow`](Self::grow).
    pub fn has_room(&mut self, flows: &Flows, length: u128) -> bool {
        let has = !self.needs_more() && !self.is_crowded(flows) && length < self.longest;
        if has {
            self.met = self.met.min(self.buckets.len() / 2);
        }
        has
    }
    fn needs_more(&self) -> bool {
        let most = self.buckets.len();
        let is_full = self.len >= most || (self.met >= most && self.len * PER_FLOW > most);
        is_full && most < 1 << MOST && self.width > 0
    }
    /// Whether flows have met many others because slots have become more numerous than they were.
    fn is_crowded(&self, flows: &Flows) -> bool {
        self.met >= self.buckets.len() && self.slots < slot_width(flows)
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
        let bytes = length / u128::from(BYTE);
        let needed = (128 - bytes.leading_zeros() + 1).clamp(least, LONGEST);
        self.slots = slot_width(flows);
        // No part of a byte is divided between buckets.
        self.size((places + u32::from(more)).min(needed + PARTS), needed);
        all
    }

    /// The number of the bucket of (tag, slot), counted from the base; `None` for a tag that is too far from all in the wheel.
    #[inline(always)]
    fn number(&self, tag: u128, at: u32) -> Option<u64> {
        let ahead = u64::try_from(tag.wrapping_sub(self.base)).ok()?;
        let (byte, rest) = (ahead / BYTE, ahead % BYTE);
        let part = match rest {
            0 => u64::from(at >> self.slots).min(SLOT_PARTS - 1),
            rest => SLOT_PARTS + (rest >> REST),
        };
        // The width is below 64, which the compiler does not know.
        Some((byte << PARTS | part) >> (self.width % 64))
    }

    /// Moves the base to a place behind `tag`, the only one, unless it is at one.
    #[inline]
    fn start(&mut self, tag: u128) {
        let ahead = tag.wrapping_sub(self.base);
        if ahead < tag_of(MOVED / 2) || ahead >= tag_of(BEHIND) {
            let byte = u64::try_from(tag.saturating_sub(ORIGIN) / u128::from(BYTE)).unwrap_or(u64::MAX);
            self.base = ORIGIN + tag_of(byte.saturating_sub(MOVED));
        }
    }

    /// The first bucket and the reach, with a flow in bucket `number`; `None` where they are too far from each other.
    #[inline(always)]
    fn window(&self, number: u64) -> Option<(u64, u64)> {
        let most = self.buckets.len() as u64;
        if self.len == 0 {
            return Some((number, 0));
        }
        let ahead = number.wrapping_sub(self.first);
        if ahead < most {
            return Some((self.first, self.reach.max(ahead)));
        }
        let behind = self.first.wrapping_sub(number);
        (behind < most - self.reach).then(|| (number, self.reach + behind))
    }

    /// Whether it has a bucket for `tag` beside those of the flows that are in it.
    #[inline]
    pub fn reaches(&self, tag: u128, at: u32) -> bool {
        self.len == 0 || self.number(tag, at).is_some_and(|number| self.window(number).is_some())
    }

    /// Inserts the flow `at`, which is in no bucket. Returns whether it has a place; if not, nothing has changed.
    #[inline(always)]
    pub fn insert(&mut self, flows: &mut Flows, at: u32, tag: u128) -> bool {
        if self.len == 0 {
            self.start(tag);
        }
        let Some(number) = self.number(tag, at) else { return false };
        let Some((first, reach)) = self.window(number) else { return false };
        let index = number as usize & (self.buckets.len() - 1);
        let (low, Bucket { tail, flows: met, in_order, .. }) = (tag as u64, self.buckets[index]);
        if met == 0 {
            self.buckets[index] = Bucket { head: at, tail: at, flows: 1, in_order: true };
            self.mark(index);
            place(&mut flows[at], low, index, (NONE, NONE));
        } else {
            let last = &mut flows[tail];
            let follows = in_order && !is_behind((last.tag, tail), (low, at));
            if follows || number != self.first && met < CROWD {
                last.next = at;
                let bucket = &mut self.buckets[index];
                (bucket.tail, bucket.flows, bucket.in_order) = (at, met + 1, follows);
                place(&mut flows[at], low, index, (tail, NONE));
            } else if number != self.first || !self.insert_in_order(flows, at, low, index) {
                return self.tie(flows, at, tag);
            }
            self.met = (self.met + (CROWD.min(met) as usize)).saturating_sub(USUAL);
        }
        (self.first, self.reach) = (first, reach);
        self.len += 1;
        true
    }

    /// Gives the flow `at` with a tag of these low bits its place in the first bucket, unless that is too far from the end.
    #[inline(never)]
    fn insert_in_order(&mut self, flows: &mut Flows, at: u32, tag: u64, index: usize) -> bool {
        if !self.buckets[index].in_order {
            self.sort(flows);
        }
        let bucket = &mut self.buckets[index];
        let (mut before, mut next) = (bucket.tail, NONE);
        for _ in 0..CROWD {
            if before == NONE || !is_behind((flows[before].tag, before), (tag, at)) {
                bucket.follow(flows, before, at);
                bucket.precede(flows, next, at);
                bucket.flows += 1;
                place(&mut flows[at], tag, index, (before, next));
                return true;
            }
            (before, next) = (flows[before].before, before);
        }
        false
    }

    /// Puts the flows of the first bucket in order.
    #[inline(never)]
    fn sort(&mut self, flows: &mut Flows) {
        let index = self.first_index();
        let mut all = [(0, 0); CROWD as usize];
        let (mut next, mut count) = (self.buckets[index].head, 0);
        while next != NONE && count < all.len() {
            let flow = &flows[next];
            // The line that is read when the flow has its turn comes beside the next flow, which has to be waited for.
            black_box(flow.head_size);
            // Every tag is ahead of the base by less than the low bits can count.
            let new = (flow.tag.wrapping_sub(self.base as u64), next);
            let mut place = count;
            while place > 0 && all[place - 1] > new {
                all[place] = all[place - 1];
                place -= 1;
            }
            all[place] = new;
            (next, count) = (flow.next, count + 1);
        }
        let mut before = NONE;
        for place in 0..count {
            let at = all[place].1;
            let next = all[..count].get(place + 1).map_or(NONE, |next| next.1);
            (flows[at].before, flows[at].next) = (before, next);
            before = at;
        }
        let bucket = &mut self.buckets[index];
        (bucket.head, bucket.tail, bucket.in_order) = (all[0].1, before, true);
    }

    /// Puts the flow `at` among those of its tag, where its bucket is full, if there is room for its tag.
    #[inline(never)]
    fn tie(&mut self, flows: &mut Flows, at: u32, tag: u128) -> bool {
        self.met += CROWD as usize;
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
    #[inline(always)]
    pub fn remove(&mut self, flows: &mut Flows, at: u32) {
        let flow = &mut flows[at];
        let position = core::mem::replace(&mut flow.share_at, NOWHERE);
        let (before, next) = (flow.before, flow.next);
        if position & IN_TIES != 0 {
            self.ties[(position & !(IN_BUCKET | IN_TIES)) as usize].remove(at);
            self.tied -= 1;
            return;
        }
        let index = (position & !IN_BUCKET) as usize;
        self.len -= 1;
        let bucket = &mut self.buckets[index];
        bucket.flows -= 1;
        if bucket.flows == 0 {
            return self.empty(index);
        }
        bucket.follow(flows, before, next);
        bucket.precede(flows, next, before);
    }

    /// To be called when the last flow of a bucket was removed.
    #[inline(always)]
    fn empty(&mut self, index: usize) {
        self.clear(index);
        if index == self.first_index() && self.len > 0 {
            let next = self.next_from(index).or_else(|| self.next_from(0)).unwrap_or(index);
            let passed = (next.wrapping_sub(index) & (self.buckets.len() - 1)) as u64;
            self.first += passed;
            self.reach -= passed;
            if self.first << (self.width % 64) >> PARTS > BEHIND {
                // A multiple of all buckets.
                self.first -= MOVED << PARTS >> (self.width % 64);
                self.base += tag_of(MOVED);
            }
        }
    }

    /// The first flow.
    #[inline(always)]
    pub fn first(&mut self, flows: &mut Flows) -> Option<u32> {
        if self.tied == 0 && self.len > 0 {
            return Some(self.first_in_bucket(flows));
        }
        self.peek(flows).map(|(_, at)| at)
    }
    /// The first flow of the first bucket, which is put in order; there is one.
    #[inline(always)]
    fn first_in_bucket(&mut self, flows: &mut Flows) -> u32 {
        if !self.buckets[self.first_index()].in_order {
            self.sort(flows);
        }
        self.buckets[self.first_index()].head
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
    #[inline(never)]
    pub fn peek(&mut self, flows: &mut Flows) -> Option<(u128, u32)> {
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
    fn peek_buckets(&mut self, flows: &mut Flows) -> Option<(u128, u32)> {
        if self.len == 0 {
            return None;
        }
        let head = self.first_in_bucket(flows);
        let ahead = flows[head].tag.wrapping_sub(self.base as u64);
        Some((self.base + u128::from(ahead), head))
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

/// So many bytes in virtual time at weight 1.0.
const fn tag_of(bytes: u64) -> u128 {
    bytes as u128 * BYTE as u128
}

/// The slots of a part of a byte, as a power of two, with which all slots have parts of their own.
fn slot_width(flows: &Flows) -> u32 {
    (u32::BITS - flows.slots().leading_zeros()).saturating_sub(PARTS - 1)
}

#[cfg(test)]
mod tests;
