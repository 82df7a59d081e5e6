//! The event queue: a 4-ary heap of 16-byte keys, ordered by (time, sequence).
//!
//! *Law*: events come out in the order of their times, and at equal times in the order in which they were put in.
//! *Cost*: O(log₄ n) a call; an event that is put in while another is being handled takes the place of that one at
//! the root, so that "handle and schedule the next" costs one walk down the heap.
//! *Notes*: 2²⁴ actors; after 2⁴⁰ events the sequence numbers are dealt out anew, in order.

const TARGET_BITS: u32 = 24;
const SEQUENCE_BITS: u32 = 40;

/// An event that is due: when, and whose it is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Due {
    /// Nanoseconds of simulated time.
    pub time: u64,
    /// The actor, as it was given to [`EventQueue::push`].
    pub target: u32,
}

/// The pending events. See the [module](self).
#[derive(Debug, Default)]
pub(crate) struct EventQueue {
    // time << 64 | sequence << 24 | target: comparing the integers compares (time, sequence).
    heap: Vec<u128>,
    sequence: u64,
    // Whether the root has been handed out and waits to be replaced.
    hole: bool,
    handled: u64,
}

impl EventQueue {
    /// Puts in an event of `target` at `time`.
    pub fn push(&mut self, time: u64, target: u32) {
        debug_assert!(target < 1 << TARGET_BITS, "too many actors");
        if self.sequence == 1 << SEQUENCE_BITS {
            self.renumber();
        }
        let key = u128::from(time) << 64 | u128::from(self.sequence << TARGET_BITS) | u128::from(target);
        self.sequence += 1;
        if self.hole {
            self.hole = false;
            self.sift_down(key);
        } else {
            self.heap.push(key);
            self.sift_up(self.heap.len() - 1);
        }
    }

    /// Takes the next event out if it is due at `horizon` or before.
    pub fn pop_until(&mut self, horizon: u64) -> Option<Due> {
        self.settle();
        let key = *self.heap.first()?;
        let time = (key >> 64) as u64;
        if time > horizon {
            return None;
        }
        self.hole = true;
        self.handled += 1;
        Some(Due { time, target: key as u32 & ((1 << TARGET_BITS) - 1) })
    }

    /// How many events have been taken out.
    pub fn handled(&self) -> u64 {
        self.handled
    }

    /// How many events are pending.
    pub fn len(&self) -> usize {
        self.heap.len() - usize::from(self.hole)
    }

    /// Closes the hole that the last event left at the root.
    fn settle(&mut self) {
        if self.hole {
            self.hole = false;
            if let Some(last) = self.heap.pop()
                && !self.heap.is_empty()
            {
                self.sift_down(last);
            }
        }
    }

    /// Puts `key` in from the root downwards.
    #[inline]
    fn sift_down(&mut self, key: u128) {
        let heap = self.heap.as_mut_slice();
        let mut at = 0;
        loop {
            let first = 4 * at + 1;
            let mut least = first;
            if let Some(children) = heap.get(first..first + 4) {
                // The common case without bounds checks: four children.
                let (left, right) =
                    (usize::from(children[1] < children[0]), 2 + usize::from(children[3] < children[2]));
                least += if children[right] < children[left] { right } else { left };
            } else {
                if first >= heap.len() {
                    break;
                }
                for child in first + 1..heap.len() {
                    if heap[child] < heap[least] {
                        least = child;
                    }
                }
            }
            if heap[least] >= key {
                break;
            }
            heap[at] = heap[least];
            at = least;
        }
        heap[at] = key;
    }

    fn sift_up(&mut self, mut at: usize) {
        let key = self.heap[at];
        while at > 0 {
            let parent = (at - 1) / 4;
            if self.heap[parent] <= key {
                break;
            }
            self.heap[at] = self.heap[parent];
            at = parent;
        }
        self.heap[at] = key;
    }

    /// Deals out the sequence numbers from zero, in the order the events have.
    #[cold]
    fn renumber(&mut self) {
        self.settle();
        // A sorted array is a heap.
        self.heap.sort_unstable();
        let keep = u128::MAX << 64 | ((1 << TARGET_BITS) - 1);
        for (number, key) in self.heap.iter_mut().enumerate() {
            *key = *key & keep | (number as u128) << TARGET_BITS;
        }
        self.sequence = self.heap.len() as u64;
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
                let time = now + random.below(50);
                queue.push(time, (number % 1000) as u32);
                oracle.push(Reverse((time, number, (number % 1000) as u32)));
                number += 1;
            }
            let horizon = now + random.below(40);
            let expected = match oracle.peek() {
                Some(Reverse((time, _, _))) if *time <= horizon => oracle.pop(),
                _ => None,
            };
            let got = queue.pop_until(horizon);
            assert_eq!(got, expected.map(|Reverse((time, _, target))| Due { time, target }), "step {step}");
            assert_eq!(queue.len(), oracle.len());
            now = got.map_or(now, |due| due.time);
        }
        assert!(number > 100_000 && queue.sequence < 1 << 30, "the numbers were dealt out anew");
    }
}
