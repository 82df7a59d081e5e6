//! [`Store`] and [`Queue`]: many queues of packets in one arena; [`Longest`]: which of them is about the longest;
//! [`Pool`]: both, with a limit on all queues together.
//!
//! *Law*: a queue returns its packets in the order of their arrival, each with the instant it arrived at.
//! *Source*: packets in a slab and queues as links in it, as kernels do. The size classes of [`Longest`] are those
//! of a logarithmic histogram: eight to an octave.
//! *Cost*: O(1) a call. The arena grows to the largest number of packets queued at once, and then allocates no more.
//! *Notes*: at most 2³² - 1 packets are queued at once. [`Longest`] finds a queue that holds more than 8/9 of what the
//! longest holds; a heap would be exact and cost O(log n) on every packet.

use alloc::vec::Vec;
use core::hint::select_unpredictable;

use crate::fifo::Limit;
use crate::packet::Packet;
use crate::qdisc::{Backlog, Deadline};
use crate::slab::{Slab, reusable};
use tidegate_units::{Bytes, Instant};

/// No slot, no queue.
pub(crate) const NIL: u32 = u32::MAX;

#[derive(Clone, Debug)]
struct Queued<P> {
    packet: Option<P>,
    at: Instant,
    next: u32,
}

reusable!(Queued<P>, next: u32);

/// The packets of many [`Queue`]s.
#[derive(Clone, Debug)]
pub struct Store<P> {
    packets: Slab<u32, Queued<P>>,
}

/// A queue whose packets are in a [`Store`]. It must always be used with the same store.
#[derive(Clone, Debug)]
pub struct Queue {
    head: u32,
    /// The last packet, unless the queue is empty.
    tail: u32,
    backlog: Backlog,
}

// An empty queue has no use for it.
reusable!(Queue, tail: u32);

impl Default for Queue {
    fn default() -> Self {
        Self { head: NIL, tail: NIL, backlog: Backlog::default() }
    }
}

impl Queue {
    /// Returns the packets and bytes of this queue.
    pub fn backlog(&self) -> Backlog {
        self.backlog
    }
    /// Whether it has no packets.
    pub fn is_empty(&self) -> bool {
        self.head == NIL
    }
}

impl<P> Default for Store<P> {
    fn default() -> Self {
        Self { packets: Slab::default() }
    }
}

impl<P: Packet> Store<P> {
    /// Puts `packet`, which arrived at `at`, at the end of `queue`.
    pub fn push(&mut self, queue: &mut Queue, packet: P, at: Instant) {
        queue.backlog.add(packet.size());
        let index = self.packets.insert(Queued { packet: Some(packet), at, next: NIL });
        // Whether a queue is empty is as random as its flows: a branch would often be predicted wrongly.
        let is_first = queue.is_empty();
        self.packets[select_unpredictable(is_first, index, queue.tail)].next = index;
        self.packets[index].next = NIL;
        queue.head = select_unpredictable(is_first, index, queue.head);
        queue.tail = index;
    }

    /// Takes the first packet, with the instant it arrived at.
    pub fn pop(&mut self, queue: &mut Queue) -> Option<(P, Instant)> {
        let (packet, at, next) = self.packets.take(queue.head, |first| (first.packet.take(), first.at, first.next))?;
        queue.head = next;
        let packet = packet?;
        queue.backlog.remove(packet.size());
        Some((packet, at))
    }

    /// Returns the first packet without removing it.
    pub fn front<'a>(&'a self, queue: &Queue) -> Option<&'a P> {
        self.packets.get(queue.head)?.packet.as_ref()
    }

    /// Returns the instant at which the first packet arrived.
    pub fn arrival(&self, queue: &Queue) -> Option<Instant> {
        self.packets.get(queue.head).map(|first| first.at)
    }

    /// Takes the oldest packet that `wanted` accepts among the `most` oldest, the newest excepted; the others keep
    /// their order.
    pub fn take_where(&mut self, queue: &mut Queue, most: u32, mut wanted: impl FnMut(&P) -> bool) -> Option<P> {
        let mut before = NIL;
        let mut index = queue.head;
        for _ in 0..most {
            if index == NIL || index == queue.tail {
                return None;
            }
            if self.packets[index].packet.as_ref().is_some_and(&mut wanted) {
                let (packet, next) = self.packets.take(index, |found| (found.packet.take(), found.next))?;
                if before == NIL {
                    queue.head = next;
                } else {
                    self.packets[before].next = next;
                }
                let packet = packet?;
                queue.backlog.remove(packet.size());
                return Some(packet);
            }
            before = index;
            index = self.packets[index].next;
        }
        None
    }
}

/// A list of small numbers (queues, records), linked through a [`Linked`] that it must always be used with.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct List {
    head: u32,
    tail: u32,
}

impl Default for List {
    fn default() -> Self {
        Self { head: NIL, tail: NIL }
    }
}

impl List {
    /// Returns the first number without removing it.
    pub fn front(&self) -> Option<u32> {
        (self.head != NIL).then_some(self.head)
    }
    /// Whether no number is in it.
    pub fn is_empty(&self) -> bool {
        self.head == NIL
    }
}

/// Where the links of one or more disjoint [`List`]s are: a number is in one of them at most.
pub trait Linked {
    /// The numbers before and after `number`.
    fn link(&mut self, number: u32) -> &mut [u32; 2];

    /// Appends `number`, which is in no list, to `list`.
    #[inline]
    fn push_back(&mut self, list: &mut List, number: u32) {
        *self.link(number) = [list.tail, NIL];
        match list.tail {
            NIL => list.head = number,
            tail => self.link(tail)[1] = number,
        }
        list.tail = number;
    }
    /// Removes `number`, which is in `list`, from it.
    #[inline]
    fn remove(&mut self, list: &mut List, number: u32) {
        let [before, next] = *self.link(number);
        match before {
            NIL => list.head = next,
            before => self.link(before)[1] = next,
        }
        match next {
            NIL => list.tail = before,
            next => self.link(next)[0] = before,
        }
    }
    /// Moves the first number of `list` to its end.
    #[inline]
    fn rotate(&mut self, list: &mut List) {
        if let Some(front) = list.front()
            && front != list.tail
        {
            self.remove(list, front);
            self.push_back(list, front);
        }
    }
}

/// Links apart from what they link.
#[derive(Clone, Debug, Default)]
pub struct Links(Vec<[u32; 2]>);

impl Linked for Links {
    #[inline]
    fn link(&mut self, number: u32) -> &mut [u32; 2] {
        if self.0.len() <= number as usize {
            self.0.resize(number as usize + 1, [NIL; 2]);
        }
        &mut self.0[number as usize]
    }
}

/// Size classes: eight to each power of two.
const CLASSES: usize = 64 * 8;

/// Which of many queues, named by number, holds about the most bytes: more than 8/9 of the longest.
#[derive(Clone, Debug)]
pub struct Longest {
    /// A ring for each class, in which its end is the link that has its number; the links of the queues follow them.
    links: Vec<Link>,
    bits: [u64; CLASSES / 64],
}

#[derive(Clone, Copy, Debug)]
struct Link {
    class: u32,
    before: u32,
    next: u32,
}

/// The class of a queue of `bytes`; 0 is for the empty ones and not kept.
fn class(bytes: u64) -> u16 {
    if bytes < 8 {
        return bytes as u16;
    }
    let octave = 63 - bytes.leading_zeros();
    ((octave - 2) * 8 + ((bytes >> (octave - 3)) & 7) as u32) as u16
}

impl Default for Longest {
    fn default() -> Self {
        let end = |class| Link { class: 0, before: class, next: class };
        Self { links: (0..CLASSES as u32).map(end).collect(), bits: [0; CLASSES / 64] }
    }
}

impl Longest {
    /// Queue number `number` holds what `queue` does. A packet counts for a byte at least.
    pub fn update(&mut self, number: u32, queue: &Queue) {
        let filled = class(queue.backlog.bytes.as_u64().max(1));
        self.set(number, select_unpredictable(queue.is_empty(), 0, filled));
    }

    /// Takes the queue out of its ring and puts it first into that of `class`. An empty queue is a ring of its own, so that
    /// no branch depends on which queues are empty, which is as random as their flows.
    #[inline]
    fn set(&mut self, queue: u32, class: u16) {
        let (at, class) = (CLASSES as u32 + queue, u32::from(class));
        let Some(&Link { class: old, before, next }) = self.links.get(at as usize) else {
            return self.extend(queue, class);
        };
        if old == class {
            return;
        }
        self.links[before as usize].next = next;
        self.links[next as usize].before = before;
        let is_last = self.links[old as usize].next == old;
        self.bits[old as usize / 64] &= !(u64::from(is_last) << (old % 64));
        let end = select_unpredictable(class == 0, at, class);
        self.links[at as usize] = Link { class, before: end, next: at };
        let next = core::mem::replace(&mut self.links[end as usize].next, at);
        self.links[at as usize].next = next;
        self.links[next as usize].before = at;
        self.bits[class as usize / 64] |= 1 << (class % 64);
    }

    /// [`set`](Self::set) for a queue without a link.
    #[cold]
    fn extend(&mut self, queue: u32, class: u32) {
        let numbers = self.links.len() as u32..=CLASSES as u32 + queue;
        self.links.extend(numbers.map(|at| Link { class: 0, before: at, next: at }));
        self.set(queue, class as u16);
    }

    /// A queue that holds more than 8/9 of what the longest holds; `None` when all are empty.
    pub fn get(&self) -> Option<u32> {
        let (word, bits) = self.bits.iter().enumerate().rev().find(|(_, bits)| **bits != 0)?;
        let class = word * 64 + 63 - bits.leading_zeros() as usize;
        (class != 0).then(|| self.links[class].next - CLASSES as u32)
    }
}

/// The packets of many numbered queues, and a limit on all of them together.
#[derive(Clone, Debug)]
pub struct Pool<P> {
    store: Store<P>,
    longest: Longest,
    backlog: Backlog,
    limit: Limit,
}

impl<P: Packet> Pool<P> {
    /// Creates an empty set of queues with a common limit.
    pub fn new(limit: Limit) -> Self {
        Self { store: Store::default(), longest: Longest::default(), backlog: Backlog::default(), limit }
    }
    /// Returns packets and bytes of all queues.
    pub fn backlog(&self) -> Backlog {
        self.backlog
    }
    /// The deadline of a discipline that can always send what it has.
    pub fn deadline(&self) -> Deadline {
        if self.backlog.is_empty() { Deadline::Idle } else { Deadline::Now }
    }
    /// Whether a packet of `size` fits when nothing else is queued.
    pub fn can_hold(&self, size: Bytes) -> bool {
        size <= self.limit.bytes && self.limit.packets > 0
    }
    /// While the limit is exceeded, a queue that holds more than 8/9 of what the longest holds.
    #[inline]
    pub fn over_limit(&self) -> Option<u32> {
        let Backlog { packets, bytes } = self.backlog;
        if packets > self.limit.packets || bytes > self.limit.bytes { self.longest.get() } else { None }
    }
    /// Puts `packet`, which arrived at `at`, at the end of `queue`.
    #[inline]
    pub fn push(&mut self, number: u32, queue: &mut Queue, packet: P, at: Instant) {
        self.backlog.add(packet.size());
        self.store.push(queue, packet, at);
        self.longest.update(number, queue);
    }
    /// Takes the first packet of `queue`, with the instant it arrived at.
    #[inline]
    pub fn pop(&mut self, number: u32, queue: &mut Queue) -> Option<(P, Instant)> {
        let (packet, at) = self.store.pop(queue)?;
        self.backlog.remove(packet.size());
        self.longest.update(number, queue);
        Some((packet, at))
    }
    /// The first packet of `queue`.
    #[inline]
    pub fn front(&self, queue: &Queue) -> Option<&P> {
        self.store.front(queue)
    }
    /// Runs `work`, which may take packets out of `queue`.
    #[inline]
    pub fn take<T>(&mut self, number: u32, queue: &mut Queue, work: impl FnOnce(&mut Store<P>, &mut Queue) -> T) -> T {
        let before = queue.backlog();
        let result = work(&mut self.store, queue);
        let after = queue.backlog();
        self.backlog.packets -= before.packets - after.packets;
        self.backlog.bytes -= before.bytes - after.bytes;
        self.longest.update(number, queue);
        result
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::FlowKey;
    use crate::random::Stream;
    use alloc::collections::VecDeque;

    #[derive(Clone, Copy, Debug, PartialEq)]
    struct P(u64);
    impl Packet for P {
        fn size(&self) -> Bytes {
            Bytes::new(self.0)
        }
        fn flow(&self) -> FlowKey {
            FlowKey::default()
        }
    }

    #[test]
    fn queues_share_the_arena_and_keep_their_order() {
        let mut random = Stream::named(1, "queues");
        let mut store = Store::default();
        let mut queues: [(Queue, VecDeque<P>); 5] = Default::default();
        let mut most = 0;
        let mut inside = 0_usize;
        for n in 0..20_000_u64 {
            let (queue, model) = &mut queues[random.below(5) as usize];
            match random.below(5) {
                0 | 1 => {
                    store.push(queue, P(n), Instant::from_nanos(n));
                    model.push_back(P(n));
                    inside += 1;
                }
                2 => {
                    let taken = store.take_where(queue, 4, |p| p.0 % 3 == 0);
                    let at = (0..model.len().saturating_sub(1).min(4)).find(|i| model[*i].0 % 3 == 0);
                    let expected = at.and_then(|i| model.remove(i));
                    assert_eq!(taken, expected);
                    inside -= usize::from(taken.is_some());
                }
                _ => {
                    let expected = model.pop_front();
                    assert_eq!(store.front(queue).copied(), expected);
                    let popped = store.pop(queue);
                    assert_eq!(popped, expected.map(|p| (p, Instant::from_nanos(p.0))));
                    inside -= usize::from(popped.is_some());
                }
            }
            assert_eq!(queue.backlog().packets as usize, model.len());
            most = most.max(inside);
        }
        assert_eq!(store.packets.slots() as usize, most, "the arena holds no more than the most that waited at once");
    }

    #[test]
    fn the_longest_is_within_an_eighth() {
        let mut random = Stream::named(2, "longest");
        let mut longest = Longest::default();
        let mut sizes = [0_u64; 50];
        for _ in 0..50_000 {
            let queue = random.below(50) as usize;
            let octave = random.below(40);
            sizes[queue] = random.below(1 << octave) * random.below(2);
            longest.set(queue as u32, class(sizes[queue]));
            let most = *sizes.iter().max().unwrap();
            match longest.get() {
                None => assert_eq!(most, 0),
                Some(found) => assert!(sizes[found as usize] * 9 > most * 8, "{} of {most}", sizes[found as usize]),
            }
        }
        // 1000 = 2^9 * 1.953: octave 9, so class (9 - 2) * 8 + 7; 8 begins class 8 without a gap after 7.
        assert_eq!((class(1000), class(7), class(8), class(u64::MAX)), (63, 7, 8, 495));
    }
}
