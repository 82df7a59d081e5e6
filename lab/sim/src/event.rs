//! The event queue: a timing wheel for near events and a 4-ary heap for far ones.
//!
//! *Law*: events are returned in the order of their times, and events of equal times in the order in which they were
//! added.
//! *Cost*: O(1) for events less than 2²⁶ ns (67 ms) ahead. A bucket spans 2¹⁴ ns and is a list in one small pool, a
//! bitmap of two levels finds the next non-empty bucket, and only the current bucket is sorted. Later events, mostly
//! timers, cost O(log₄ n).
//! *Notes*: there are at most 2²⁴ actors. After 2⁴⁰ events the sequence numbers are reassigned, in order.

const TARGET_BITS: u32 = 24;
const SEQUENCE_BITS: u32 = 40;
/// The width of a bucket, as a power of two in nanoseconds.
const WIDTH_BITS: u32 = 14;
const BUCKETS: usize = 4096;
const NONE: u32 = u32::MAX;

/// A due event: its time and its actor.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Due {
    /// Nanoseconds of simulated time.
    pub time: u64,
    /// The actor that was passed to [`EventQueue::push`].
    pub target: u32,
}

/// An event as one number: time << 64 | sequence << 24 | target. Comparing the numbers compares (time, sequence).
type Key = u128;

fn time_of(key: Key) -> u64 {
    (key >> 64) as u64
}

fn target_of(key: Key) -> u32 {
    key as u32 & ((1 << TARGET_BITS) - 1)
}

#[derive(Clone, Copy, Debug)]
struct Node {
    key: Key,
    next: u32,
}

/// The pending events. See the [module](self).
#[derive(Debug)]
pub(crate) struct EventQueue {
    /// The events of the current bucket and of those before it, in descending order, so that the next event is the
    /// last.
    current: Vec<Key>,
    /// The number of the current bucket, counted from the beginning of time.
    bucket: u64,
    /// The lists of the buckets that follow the current one, up to one turn of the wheel.
    heads: Box<[u32; BUCKETS]>,
    pool: Vec<Node>,
    spare: u32,
    /// One bit for each non-empty bucket, and in `summary` one bit for each non-zero word of `occupied`.
    occupied: [u64; BUCKETS / 64],
    summary: u64,
    /// Events later than one turn of the wheel.
    far: Vec<Key>,
    sequence: u64,
    handled: u64,
    pending: usize,
}

impl Default for EventQueue {
    fn default() -> Self {
        Self {
            current: Vec::new(),
            bucket: 0,
            heads: Box::new([NONE; BUCKETS]),
            pool: Vec::new(),
            spare: NONE,
            occupied: [0; BUCKETS / 64],
            summary: 0,
            far: Vec::new(),
            sequence: 0,
            handled: 0,
            pending: 0,
        }
    }
}

impl EventQueue {
    /// Adds an event of `target` at `time`, which must not be earlier than the last event that was returned.
    #[inline]
    pub fn push(&mut self, time: u64, target: u32) {
        debug_assert!(target < 1 << TARGET_BITS, "too many actors");
        if self.sequence == 1 << SEQUENCE_BITS {
            self.renumber();
        }
        self.push_placed(time, self.sequence, target);
        self.sequence += 1;
    }

    /// Like [`Self::push`], at a given place among the events of the same time, which no other of them may have.
    #[inline]
    pub fn push_placed(&mut self, time: u64, place: u64, target: u32) {
        let key = Key::from(time) << 64 | Key::from(place << TARGET_BITS) | Key::from(target);
        self.pending += 1;
        let bucket = time >> WIDTH_BITS;
        if bucket <= self.bucket {
            let at = self.current.partition_point(|&other| other > key);
            self.current.insert(at, key);
        } else if bucket - self.bucket < BUCKETS as u64 {
            self.link(bucket as usize % BUCKETS, key);
        } else {
            self.push_far(key);
        }
    }

    /// Removes and returns the next event if it is due at or before `horizon`.
    #[inline]
    pub fn pop_until(&mut self, horizon: u64) -> Option<Due> {
        Some(self.pop_placed(horizon)?.0)
    }

    /// Like [`Self::pop_until`]; also returns the place of the event among those of the same time.
    #[inline]
    pub fn pop_placed(&mut self, horizon: u64) -> Option<(Due, u64)> {
        if self.current.is_empty() && !self.turn(horizon) {
            return None;
        }
        let key = *self.current.last()?;
        if time_of(key) > horizon {
            return None;
        }
        self.current.pop();
        self.handled += 1;
        self.pending -= 1;
        Some((Due { time: time_of(key), target: target_of(key) }, key as u64 >> TARGET_BITS))
    }

    /// A time before which no event is due: that of the next event, or at most the width of a bucket earlier. `u64::MAX` without
    /// events.
    pub fn earliest(&self) -> u64 {
        let near = || self.next_occupied().map_or(u64::MAX, |bucket| bucket << WIDTH_BITS);
        let far = || self.far.first().map_or(u64::MAX, |&key| time_of(key));
        self.current.last().map_or_else(|| near().min(far()), |&key| time_of(key))
    }

    /// The place of the next event that [`Self::push`] adds.
    pub fn place(&self) -> u64 {
        self.sequence
    }

    /// Sets the place of the next event that [`Self::push`] adds. Places must not fall.
    #[inline]
    pub fn set_place(&mut self, place: u64) {
        self.sequence = place;
    }

    /// The places of all pending events, in no particular order.
    pub fn places(&self) -> impl Iterator<Item = u64> + '_ {
        let node = |index: u32| (index != NONE).then(|| &self.pool[index as usize]);
        let list = move |&head| std::iter::successors(node(head), move |last| node(last.next)).map(|node| node.key);
        let lists = self.heads.iter().flat_map(list);
        self.current.iter().copied().chain(lists).chain(self.far.iter().copied()).map(|key| key as u64 >> TARGET_BITS)
    }

    /// Removes the events whose targets `keep` does not want. The others keep their places.
    pub fn retain(&mut self, keep: impl Fn(u32) -> bool) {
        for key in self.take_all() {
            if keep(target_of(key)) {
                self.push_placed(time_of(key), key as u64 >> TARGET_BITS, target_of(key));
            }
        }
    }

    /// The number of events that were returned so far.
    pub fn handled(&self) -> u64 {
        self.handled
    }

    /// Returns the number of pending events.
    pub fn len(&self) -> usize {
        self.pending
    }

    /// Adds `key` to the list of bucket `slot`.
    fn link(&mut self, slot: usize, key: Key) {
        let node = Node { key, next: self.heads[slot] };
        let index = if self.spare == NONE {
            self.pool.push(node);
            self.pool.len() as u32 - 1
        } else {
            let index = self.spare;
            self.spare = self.pool[index as usize].next;
            self.pool[index as usize] = node;
            index
        };
        self.heads[slot] = index;
        self.occupied[slot / 64] |= 1 << (slot % 64);
        self.summary |= 1 << (slot / 64);
    }

    /// Makes the next non-empty bucket the current one unless it lies beyond `horizon`. Returns whether it did.
    fn turn(&mut self, horizon: u64) -> bool {
        let near = self.next_occupied();
        let far = self.far.first().map(|&key| time_of(key) >> WIDTH_BITS);
        let Some(bucket) = near.into_iter().chain(far).min() else { return false };
        if bucket > horizon >> WIDTH_BITS {
            // The current bucket must not run ahead of the time: earlier events may still be put in.
            return false;
        }
        self.bucket = bucket;
        if near == Some(bucket) {
            self.unlink(bucket as usize % BUCKETS);
        }
        while let Some(&key) = self.far.first()
            && time_of(key) >> WIDTH_BITS <= bucket
        {
            self.current.push(key);
            self.pop_far();
        }
        if self.current.len() > 1 {
            self.current.sort_unstable_by(|a, b| b.cmp(a));
        }
        true
    }

    /// Moves the list of a bucket into the current one.
    fn unlink(&mut self, slot: usize) {
        let mut index = core::mem::replace(&mut self.heads[slot], NONE);
        while index != NONE {
            let node = &mut self.pool[index as usize];
            self.current.push(node.key);
            let next = core::mem::replace(&mut node.next, self.spare);
            self.spare = index;
            index = next;
        }
        self.occupied[slot / 64] &= !(1 << (slot % 64));
        if self.occupied[slot / 64] == 0 {
            self.summary &= !(1 << (slot / 64));
        }
    }

    /// The number of the first non-empty bucket after the current one.
    fn next_occupied(&self) -> Option<u64> {
        if self.summary == 0 {
            return None;
        }
        // Everything in the wheel lies less than one turn ahead, so the search begins at the current slot and wraps
        // around.
        let here = self.bucket as usize % BUCKETS;
        let (word, bit) = (here / 64, here % 64);
        let ahead = self.occupied[word] & (u64::MAX << bit);
        let slot = if ahead != 0 {
            word * 64 + ahead.trailing_zeros() as usize
        } else {
            // First the words after this one, then those from the beginning up to and including this one.
            let after = self.summary & u64::MAX.checked_shl(word as u32 + 1).unwrap_or(0);
            let chosen = if after != 0 { after } else { self.summary }.trailing_zeros() as usize;
            chosen * 64 + self.occupied[chosen].trailing_zeros() as usize
        };
        Some(self.bucket + ((slot + BUCKETS - here) % BUCKETS) as u64)
    }

    fn push_far(&mut self, key: Key) {
        let mut at = self.far.len();
        self.far.push(key);
        while at > 0 && self.far[(at - 1) / 4] > key {
            self.far[at] = self.far[(at - 1) / 4];
            at = (at - 1) / 4;
        }
        self.far[at] = key;
    }

    fn pop_far(&mut self) {
        let Some(key) = self.far.pop() else { return };
        let heap = self.far.as_mut_slice();
        let mut at = 0;
        loop {
            let children = 4 * at + 1..(4 * at + 5).min(heap.len());
            let Some(least) = children.min_by_key(|&child| heap[child]) else { break };
            if heap[least] >= key {
                break;
            }
            heap[at] = heap[least];
            at = least;
        }
        if let Some(place) = heap.get_mut(at) {
            *place = key;
        }
    }

    /// Removes all events and returns them in order.
    fn take_all(&mut self) -> Vec<Key> {
        let mut keys = core::mem::take(&mut self.current);
        keys.append(&mut self.far);
        for slot in 0..BUCKETS {
            if self.heads[slot] != NONE {
                self.unlink(slot);
            }
        }
        keys.append(&mut self.current);
        keys.sort_unstable();
        self.pending = 0;
        keys
    }

    /// Reassigns the sequence numbers from zero, in the order of the events.
    #[cold]
    fn renumber(&mut self) {
        let keys = self.take_all();
        self.sequence = 0;
        for key in keys {
            self.push(time_of(key), target_of(key));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::cmp::Reverse;
    use std::collections::BinaryHeap;
    use tidegate_core::random::Stream;

    /// Random pushes and pops against the standard heap with an explicit sequence.
    #[test]
    fn the_order_is_that_of_time_and_sequence() {
        let mut random = Stream::named(1, "events");
        let (mut queue, mut oracle, mut number) = (EventQueue::default(), BinaryHeap::new(), 0_u64);
        // Close to the end of the sequence numbers, so that they are dealt out anew on the way.
        queue.sequence = (1 << SEQUENCE_BITS) - 10_000;
        let mut now = 0;
        for step in 0..200_000_u64 {
            // Rising and falling populations; times coarse enough to tie often.
            let pushes = random.below(if step / 20_000 % 2 == 0 { 4 } else { 2 });
            for _ in 0..pushes {
                // Near, in the next buckets, and beyond the wheel.
                let range = [50, 1 << 17, 1 << 28][random.below(3) as usize];
                let time = now + random.below(range);
                queue.push(time, (number % 1000) as u32);
                oracle.push(Reverse((time, number, (number % 1000) as u32)));
                number += 1;
            }
            let range = if random.below(8) == 0 { 1 << 27 } else { 1 << 16 };
            let horizon = now + random.below(range);
            let expected = match oracle.peek() {
                Some(Reverse((time, _, _))) if *time <= horizon => oracle.pop(),
                _ => None,
            };
            let got = queue.pop_until(horizon);
            assert_eq!(got, expected.map(|Reverse((time, _, target))| Due { time, target }), "step {step}");
            assert_eq!(queue.len(), oracle.len());
            now = got.map_or(horizon, |due| due.time);
        }
        assert!(number > 100_000 && queue.sequence < 1 << 30, "the numbers were dealt out anew");
    }
}
