//! HTB: hierarchical token buckets.
//!
//! *Law*: a leaf sends while it is within its rate; beyond that it borrows from the nearest class above that is within its
//! own rate, as long as every class in between is within its ceil. What a class lends goes by priority, and among leaves
//! of a priority by their quanta. In any time t a class sends at most cburst + ceil·t and one packet; and for each class
//! below a burst and one packet more, because a class within its rate sends whatever those above have sent.
//! *Source*: Devera, "Hierarchical token bucket theory" (2002) and "HTB user guide", whose terms are used. Rates of the
//! classes are compared with those of Linux 7.3 in `laws/tests/it/htb.rs`.
//! *Units*: rates in bit/s, bursts and quanta in bytes, times in ns; credit is exact.
//! *Example*: below.
//! *Cost*: O(d log n) a packet for a tree of depth d with n classes, amortised: a class that comes within its rate or ceil
//! is found once for each time it went beyond. `deadline` is O(1). No allocation after warm-up.
//! *Notes*: at most 8 levels and 8 priorities, 0 first. Rates under a class may exceed its own: then they are not kept, and
//! who comes first takes them. A class may end a packet beyond its bucket, which then waits for it. The bursts bound what a
//! caller that is late can make up for: at 100 Mbit/s one of 1600 B is 128 µs.
//! *Departures from the source, and why*: who borrows next is who has borrowed least, in quanta, at every level of the
//! tree, where the source has deficit round robin among leaves: a class leaves the round whenever it is within its rate for
//! the time of a packet, and a place in a ring is lost by that. So the parts are exact, and two classes that borrow from one
//! above share by their quanta whatever is below them. Linux moves on at the upper level when a round below it ends there,
//! and where that falls together with the class's own rounds one of the two can be left out: it was measured so. A debt
//! is kept until it is paid, and not forgiven after a minute.
//! *See also*: [`cbq`](crate::cbq), where nothing is lent while a class below is unsatisfied; [`fbq`](crate::fbq), one
//! level, with promises to flows; [`hfsc`](crate::hfsc), which separates delay from rate.
//!
//! ```
//! use tidegate_core::{fifo::{Fifo, Limit}, htb::{Class, Htb, Node}, qdisc::{Discard, Qdisc}, *};
//! # #[derive(Debug)] struct P(u32);
//! # impl Packet for P {
//! #     fn size(&self) -> Bytes { Bytes::new(1000) }
//! #     fn flow(&self) -> FlowKey { FlowKey::default() }
//! #     fn class(&self) -> ClassId { ClassId(self.0) }
//! # }
//! let class = |rate, priority| Class { ceil: Rate::from_mbit(8), priority, burst: Bytes::new(1), ..Class::new(rate) };
//! let leaf = |class| Node::leaf(class, Some(0), Fifo::new(Limit::packets(50)));
//! let root = Class { burst: Bytes::new(1), ..Class::new(Rate::from_mbit(8)) };
//! let tree = vec![
//!     Node::inner(root, None),
//!     leaf(class(Rate::from_mbit(2), 1)),
//!     leaf(class(Rate::from_mbit(2), 0)),
//! ];
//! let mut htb = Htb::new(tree, None)?;
//! (0..12).for_each(|n| { htb.enqueue(Instant::ZERO, P(n % 2), &mut Discard); });
//! let at = |ms| Instant::ZERO + Span::from_millis(ms);
//! let order: Vec<_> = (0..8).map(|ms| htb.dequeue(at(ms), &mut Discard).unwrap().0).collect();
//! // A packet takes 1 ms, and 4 ms of a leaf's rate; what the root has left goes to priority 0.
//! assert_eq!(order, [1, 0, 1, 1, 1, 0, 1, 1]);
//! # Ok::<(), ParamError>(())
//! ```

use alloc::boxed::Box;
use alloc::vec::Vec;

use crate::bucket::TokenBucket;
use crate::dualpi2::Coupled;
use crate::heap::{Heap, NOWHERE};
use crate::packet::{ClassId, Packet};
use crate::params::ParamError;
use crate::qdisc::{Backlog, Deadline, DropReason, Outlet, Qdisc, Queued};
use crate::queues::{Linked as _, Links, List};
use crate::slab::{Slab, Slot as _};
use crate::tree::NodeId;
use tidegate_units::{Bytes, Instant, Rate};

/// The number of priorities.
pub const PRIORITIES: usize = 8;
/// The number of levels. Leaves are level 0, the classes at the top level 7.
pub const LEVELS: usize = 8;

/// The parameters of a class.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Class {
    /// The class's guaranteed rate.
    pub rate: Rate,
    /// The most that it may send, borrowed rate included.
    pub ceil: Rate,
    /// How much it may send at once within `rate`.
    pub burst: Bytes,
    /// How much it may send at once within `ceil`.
    pub cburst: Bytes,
    /// 0 borrows first; below [`PRIORITIES`]. Only that of leaves matters.
    pub priority: u8,
    /// Bytes a turn, when leaves of a priority share. At least the largest packet, or the turns are packets.
    pub quantum: Bytes,
}

impl Class {
    /// A class that does not borrow, of priority 0, with bursts of 1,600 B, and a quantum of a tenth of its rate per
    /// second, but 1,000 B to 200,000 B: the defaults of `tc`.
    pub fn new(rate: Rate) -> Self {
        Self {
            rate,
            ceil: rate,
            burst: Bytes::new(1_600),
            cburst: Bytes::new(1_600),
            priority: 0,
            quantum: Bytes::new((rate.as_bps() / 80).clamp(1_000, 200_000)),
        }
    }

    /// Checks the ranges.
    ///
    /// # Errors
    /// A rate of zero, a ceil below the rate, a burst or quantum of zero, a priority above 7.
    pub fn validate(&self) -> Result<(), ParamError> {
        if self.rate.is_zero() {
            return Err(ParamError::new("rate", "must be above 0; give a class that only borrows a small one"));
        }
        if self.ceil < self.rate {
            return Err(ParamError::new("ceil", "must not be below the rate"));
        }
        if self.burst == Bytes::ZERO {
            return Err(ParamError::new("burst", "must be above 0, for example 1600B"));
        }
        if self.cburst == Bytes::ZERO {
            return Err(ParamError::new("cburst", "must be above 0, for example 1600B"));
        }
        if usize::from(self.priority) >= PRIORITIES {
            return Err(ParamError::new("priority", "must be 0, which borrows first, to 7"));
        }
        if !(1..=1 << 30).contains(&self.quantum.as_u64()) {
            return Err(ParamError::new("quantum", "must be 1B to 1GiB, for example 1514B"));
        }
        Ok(())
    }
}

/// A class and its place in the tree.
pub type Node<Q> = crate::tree::Node<Class, Q>;

/// Whether a class may send now, on its own rate or by borrowing.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Mode {
    /// Send, and lend to those below.
    Send,
    /// Send what it borrows.
    Borrow,
    /// Neither.
    Wait,
}

/// A turn: the quantum of a class, in the units in which turns are counted.
const TURN: u128 = 1 << 20;

/// The classes that borrow from one above at one priority, by the turns that they have had; `turns` is the most that one
/// had when it was served.
#[derive(Clone, Debug)]
struct Feed {
    borrowers: Heap<u128, NodeId>,
    turns: u128,
}

/// The positions of a class in the heaps.
#[derive(Clone, Copy, Debug)]
struct Places {
    events: u32,
    first: u32,
    children: u32,
}

#[derive(Clone, Debug)]
struct State<Q> {
    parent: Option<NodeId>,
    level: u8,
    priority: u8,
    quantum: i64,
    rate: TokenBucket,
    ceil: TokenBucket,
    mode: Mode,
    /// The priorities at which it has something to send.
    active: u8,
    /// Present for leaves only.
    queue: Option<Q>,
    /// The bytes left of its turn among the classes that lend, or that send within their rates.
    deficit: i64,
    /// The turns that it has had among those that borrow from the class above, by priority.
    turns: [u128; PRIORITIES],
    in_feed: [u32; PRIORITIES],
    /// The classes below that borrow from this one, by priority. Empty for a leaf.
    feeds: Vec<Feed>,
    /// The classes below, by when a packet could pass through them. Empty for a leaf.
    children: Heap<Instant, NodeId>,
    places: Places,
}

/// Hierarchical token buckets. See the [module](self).
#[derive(Clone, Debug)]
pub struct Htb<P, Q = Box<dyn Qdisc<P>>> {
    nodes: Slab<NodeId, State<Q>>,
    /// The node of each class number.
    leaves: Vec<NodeId>,
    default: Option<ClassId>,
    /// Classes that may send and have something to send, by level and priority; which of them are not empty.
    rows: [[List; PRIORITIES]; LEVELS],
    occupied: [u8; LEVELS],
    /// The links of these lists: class `n` at priority `p` is number `8 n + p`.
    links: Links,
    /// Classes whose mode changes, or whose queue has a packet, by when.
    events: Heap<Instant, NodeId>,
    /// Classes with packets below, by when they may send one.
    first: Heap<Instant, NodeId>,
    backlog: Backlog,
    latest: Instant,
    packets: core::marker::PhantomData<fn() -> P>,
}

impl<P: Packet, Q: Qdisc<P>> Htb<P, Q> {
    /// Creates the tree, empty. A node comes after its parent; the leaves are the classes 0, 1, 2, in order.
    ///
    /// # Errors
    /// As [`Class::validate`]; a tree without leaves, with a parent that has a queue or comes later, or deeper than
    /// [`LEVELS`]; a default that is not a leaf.
    pub fn new(tree: Vec<Node<Q>>, default: Option<ClassId>) -> Result<Self, ParamError> {
        let (mut nodes, mut leaves) = (Slab::<NodeId, State<Q>>::with_capacity(tree.len()), Vec::new());
        for Node { class, parent, queue } in tree {
            class.validate()?;
            let parent = parent.map(NodeId::numbered);
            let level = match parent.map(|parent| nodes.get(parent)) {
                None => LEVELS as u8 - 1,
                Some(Some(parent)) if parent.queue.is_none() && parent.level > 1 => parent.level - 1,
                Some(Some(parent)) if parent.queue.is_none() && queue.is_some() => 0,
                Some(Some(parent)) if parent.queue.is_none() => {
                    return Err(ParamError::new("parent", "must leave at most 8 levels"));
                }
                Some(_) => return Err(ParamError::new("parent", "must be a class without a queue that comes before")),
            };
            if queue.is_some() {
                leaves.push(NodeId::numbered(nodes.slots()));
            }
            nodes.push(State {
                parent,
                level: if queue.is_some() { 0 } else { level },
                priority: class.priority,
                quantum: class.quantum.as_u64() as i64,
                rate: TokenBucket::full(class.rate, class.burst, Instant::ZERO),
                ceil: TokenBucket::full(class.ceil, class.cburst, Instant::ZERO),
                mode: Mode::Send,
                active: 0,
                deficit: 0,
                turns: [0; PRIORITIES],
                in_feed: [NOWHERE; PRIORITIES],
                feeds: match queue {
                    Some(_) => Vec::new(),
                    None => (0..PRIORITIES).map(|_| Feed { borrowers: Heap::new(), turns: 0 }).collect(),
                },
                queue,
                children: Heap::new(),
                places: Places { events: NOWHERE, first: NOWHERE, children: NOWHERE },
            });
        }
        if leaves.is_empty() {
            return Err(ParamError::new("class", "must have at least one with a queue"));
        }
        if default.is_some_and(|class| class.0 as usize >= leaves.len()) {
            return Err(ParamError::new("default", "must be a class with a queue"));
        }
        Ok(Self {
            nodes,
            leaves,
            default,
            rows: Default::default(),
            occupied: [0; LEVELS],
            links: Links::default(),
            events: Heap::new(),
            first: Heap::new(),
            backlog: Backlog::default(),
            latest: Instant::ZERO,
            packets: core::marker::PhantomData,
        })
    }

    /// Puts class `n`, which became active at `priority`, where its mode belongs.
    fn link(&mut self, n: NodeId, priority: usize) {
        let State { mode, level, parent, .. } = self.nodes[n];
        let number = n.number() * PRIORITIES as u32 + priority as u32;
        match (mode, parent) {
            (Mode::Send, _) => {
                self.links.push_back(&mut self.rows[usize::from(level)][priority], number);
                self.occupied[usize::from(level)] |= 1 << priority;
            }
            (Mode::Borrow, Some(parent)) => {
                // One that returns may make up for a turn that it has missed meanwhile.
                let turns = self.nodes[parent].feeds[priority].turns.saturating_sub(TURN);
                let turns = turns.max(self.nodes[n].turns[priority]);
                self.place_borrower(parent, n, priority, Some(turns));
                let above = &mut self.nodes[parent];
                if above.active & 1 << priority == 0 {
                    above.active |= 1 << priority;
                    self.link(parent, priority);
                }
            }
            (Mode::Borrow, None) | (Mode::Wait, _) => {}
        }
    }

    /// The reverse of [`Self::link`].
    fn unlink(&mut self, n: NodeId, priority: usize) {
        let State { mode, level, parent, .. } = self.nodes[n];
        let number = n.number() * PRIORITIES as u32 + priority as u32;
        match (mode, parent) {
            (Mode::Send, _) => {
                let row = &mut self.rows[usize::from(level)][priority];
                self.links.remove(row, number);
                if row.is_empty() {
                    self.occupied[usize::from(level)] &= !(1 << priority);
                }
            }
            (Mode::Borrow, Some(parent)) => {
                self.place_borrower(parent, n, priority, None);
                let above = &mut self.nodes[parent];
                if above.feeds[priority].borrowers.is_empty() {
                    above.active &= !(1 << priority);
                    self.unlink(parent, priority);
                }
            }
            (Mode::Borrow, None) | (Mode::Wait, _) => {}
        }
    }

    /// Puts class `n` among those that borrow from `parent`, after those with fewer `turns`, or removes it.
    fn place_borrower(&mut self, parent: NodeId, n: NodeId, priority: usize, turns: Option<u128>) {
        let nodes = &mut self.nodes;
        let mut borrowers = core::mem::replace(&mut nodes[parent].feeds[priority].borrowers, Heap::new());
        let at = nodes[n].in_feed[priority];
        let mut place = |id: NodeId, to| nodes[id].in_feed[priority] = to;
        match turns {
            Some(turns) => borrowers.set(at, turns, n, &mut place),
            None => borrowers.remove(at, &mut place),
        }
        if let Some(turns) = turns {
            nodes[n].turns[priority] = turns;
        }
        nodes[parent].feeds[priority].borrowers = borrowers;
    }

    /// Sets mode and activity of class `n` to what they are at present, and its next event.
    fn refresh(&mut self, n: NodeId) {
        let latest = self.latest;
        let node = &self.nodes[n];
        let within = |bucket: &TokenBucket| bucket.time_of(Instant::ZERO, Bytes::ZERO).unwrap_or(Instant::MAX);
        let (sends, borrows) = (within(&node.rate), within(&node.ceil));
        let (mode, changes) = match () {
            () if borrows > latest => (Mode::Wait, borrows),
            () if sends > latest => (Mode::Borrow, sends),
            () => (Mode::Send, Instant::MAX),
        };
        let priority = usize::from(node.priority);
        let ready = node.queue.as_ref().map(|queue| queue.deadline(latest));
        let wakes = match ready {
            Some(Deadline::At(time)) => time,
            _ => Instant::MAX,
        };
        let (was_active, old_mode) = (node.active, node.mode);
        let active = match ready {
            Some(Deadline::Now) => 1 << priority,
            Some(_) => 0,
            None => was_active,
        };
        if (active, mode) != (was_active, old_mode) {
            let each = |mask: u8| (0..PRIORITIES).filter(move |p| mask & 1 << p != 0);
            each(was_active).for_each(|p| self.unlink(n, p));
            self.nodes[n].active = active;
            self.nodes[n].mode = mode;
            each(active).for_each(|p| self.link(n, p));
        }
        let nodes = &mut self.nodes;
        let at = nodes[n].places.events;
        match changes.min(wakes) {
            Instant::MAX => self.events.remove(at, &mut |id, to| nodes[id].places.events = to),
            time => self.events.set(at, time, n, &mut |id, to| nodes[id].places.events = to),
        }
    }

    /// Computes anew when a packet can pass through `n` and those above, and when they can send one.
    fn reckon(&mut self, mut n: NodeId) {
        loop {
            let nodes = &mut self.nodes;
            let node = &nodes[n];
            let within = |bucket: &TokenBucket| bucket.time_of(Instant::ZERO, Bytes::ZERO).unwrap_or(Instant::MAX);
            let below = match &node.queue {
                Some(queue) => match queue.deadline(self.latest) {
                    Deadline::Now => Instant::ZERO,
                    Deadline::At(time) => time,
                    Deadline::Idle => Instant::MAX,
                },
                None => node.children.peek().map_or(Instant::MAX, |(time, _)| time),
            };
            let through = below.max(within(&node.ceil));
            let sends = through.max(within(&node.rate));
            let (parent, places) = (node.parent, node.places);
            match sends {
                Instant::MAX => self.first.remove(places.first, &mut |id, to| nodes[id].places.first = to),
                time => self.first.set(places.first, time, n, &mut |id, to| nodes[id].places.first = to),
            }
            let Some(parent) = parent else { return };
            let mut children = core::mem::replace(&mut nodes[parent].children, Heap::new());
            let mut place = |id: NodeId, to| nodes[id].places.children = to;
            match through {
                Instant::MAX => children.remove(places.children, &mut place),
                time => children.set(places.children, time, n, &mut place),
            }
            nodes[parent].children = children;
            n = parent;
        }
    }

    /// Lets time pass: modes change, and queues that delay packets have them.
    fn advance(&mut self, now: Instant) {
        let now = self.latest.max(now);
        while let Some((time, n)) = self.events.peek()
            && time <= now
        {
            // Each at its own time, so that it does not matter how many calls there were meanwhile.
            self.latest = self.latest.max(time);
            self.refresh(n);
        }
        self.latest = now;
    }

    /// Calls `work` on the queue of a leaf and updates the backlog.
    fn with<T>(&mut self, leaf: NodeId, work: impl FnOnce(&mut Q) -> T) -> Option<T> {
        let queue = self.nodes[leaf].queue.as_mut()?;
        let before = queue.backlog();
        let result = work(queue);
        let after = queue.backlog();
        self.backlog.packets = self.backlog.packets + after.packets - before.packets;
        self.backlog.bytes = self.backlog.bytes + after.bytes - before.bytes;
        Some(result)
    }

    /// The class that lends and the leaf that sends next, with the level of the first.
    fn choose(&self) -> Option<(usize, usize, NodeId)> {
        let level = self.occupied.iter().position(|mask| *mask != 0)?;
        let priority = self.occupied[level].trailing_zeros() as usize;
        let mut n = NodeId::numbered(self.rows[level][priority].front()? / PRIORITIES as u32);
        while self.nodes[n].queue.is_none() {
            n = self.nodes[n].feeds[priority].borrowers.peek()?.1;
        }
        Some((level, priority, n))
    }

    /// Charges `size` for a packet of `leaf` that a class of `level` has lent, and counts it in the turns of all who
    /// borrowed it.
    fn charge(&mut self, level: usize, priority: usize, leaf: NodeId, size: Bytes) {
        let bytes = size.as_u64();
        let mut n = leaf;
        while usize::from(self.nodes[n].level) < level
            && let Some(parent) = self.nodes[n].parent
        {
            let node = &self.nodes[n];
            let (turns, quantum) = (node.turns[priority], node.quantum as u128);
            let feed = &mut self.nodes[parent].feeds[priority];
            feed.turns = feed.turns.max(turns);
            self.place_borrower(parent, n, priority, Some(turns + u128::from(bytes) * TURN / quantum));
            n = parent;
        }
        let lender = &mut self.nodes[n];
        lender.deficit -= bytes as i64;
        if lender.deficit < 0 {
            lender.deficit = (lender.deficit + lender.quantum).max(0);
            self.links.rotate(&mut self.rows[level][priority]);
        }
        let mut next = Some(leaf);
        while let Some(n) = next {
            let node = &mut self.nodes[n];
            if usize::from(node.level) >= level {
                node.rate.charge(self.latest, size);
            }
            node.ceil.charge(self.latest, size);
            next = node.parent;
            self.refresh(n);
        }
        self.reckon(leaf);
    }
}

impl<P: Packet, Q: Qdisc<P>> Qdisc<P> for Htb<P, Q> {
    fn enqueue(&mut self, now: Instant, packet: P, out: &mut dyn Outlet<P>) -> Queued {
        self.advance(now);
        let of = |class: ClassId| self.leaves.get(class.0 as usize).copied();
        let Some(leaf) = of(packet.class()).or_else(|| of(self.default?)) else {
            return out.refused(packet, DropReason::NoClass);
        };
        let now = self.latest;
        self.with(leaf, |queue| queue.enqueue(now, packet, out));
        self.refresh(leaf);
        self.reckon(leaf);
        Queued::default()
    }

    fn dequeue(&mut self, now: Instant, out: &mut dyn Outlet<P>) -> Option<P> {
        self.advance(now);
        let now = self.latest;
        while let Some((level, priority, leaf)) = self.choose() {
            match self.with(leaf, |queue| queue.dequeue(now, out)).flatten() {
                Some(packet) => {
                    self.charge(level, priority, leaf, packet.size());
                    return Some(packet);
                }
                // All that it had was dropped.
                None => {
                    self.refresh(leaf);
                    self.reckon(leaf);
                }
            }
        }
        None
    }

    fn deadline(&self, now: Instant) -> Deadline {
        match self.first.peek() {
            Some((time, _)) => Deadline::at(time, now.max(self.latest)),
            None => Deadline::Idle,
        }
    }

    fn backlog(&self) -> Backlog {
        self.backlog
    }

    fn coupled(&self, class: ClassId, now: Instant) -> Option<Coupled> {
        let leaf = self.leaves.get(class.0 as usize).copied()?;
        self.nodes[leaf].queue.as_ref()?.coupled(class, now)
    }
}
