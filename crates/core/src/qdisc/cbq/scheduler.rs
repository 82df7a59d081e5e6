//! The general scheduler: turns within a priority, and the heaps that find the next class without a search.
//!
//! *Law*: in each round a class of weighted round robin may send its allotment, n x mtu x (its rate / all rates) over
//! the n leaves of its priority, and continues until that is used up; bytes beyond it are subtracted from its next
//! rounds.
//! *Source*: Risso and Gevros, sections 2.1 and 6.3.
//!
//! # How
//! A turn is a [`Key`]: the round, and the position of the class in it. A class with children has a heap, by key, of
//! the leaves that may borrow from it, can send and are over limit; a leaf is its own only borrower. Classes that are not
//! over limit and have such leaves are in the heap of their level, by the key of their first leaf; those over limit are
//! in one heap of timers by their under-time. So the next to send is the least key among the allowed levels, and a class
//! that comes below its limit admits all its borrowers in one step.
//!
//! A leaf that is not over limit needs no lender: it is in the heap of the lowest level, which every guideline allows
//! when it allows a higher one. It joins the borrowers of its ancestors when a packet takes it over its limit, and leaves
//! them when a packet does not, or when it cannot send.

use alloc::vec::Vec;

use super::estimator::Sent;
use super::params::{Borrow, Regulation};
use super::state::{Key, LeafId, Link, Node, NodeId};
use super::{Cbq, Served, turn};
use crate::heap::NOWHERE;
use crate::packet::Packet;
use crate::qdisc::{Backlog, Deadline, Qdisc};
use crate::slab::Slot as _;
use tidegate_units::{Bytes, Instant};

/// A handle in a class's heap of borrowers: the leaf, and the position of the class in the leaf's chain.
fn handle(leaf: LeafId, hop: usize) -> u32 {
    leaf.number() << 5 | hop as u32
}

/// Whether a class whose borrowers have changed is placed at once, or by the caller, who places all above the leaf.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Placing {
    Now,
    Later,
}

/// The numbers of the bits that are set.
fn bits(mut set: u8) -> impl Iterator<Item = usize> {
    core::iter::from_fn(move || {
        let bit = set.trailing_zeros() as usize;
        let next = set.checked_sub(1)?;
        set &= next;
        Some(bit)
    })
}

/// A closure that stores positions of a heap of borrowers in the leaves.
macro_rules! leaf_position {
    ($leaves:expr) => {
        &mut |handle: u32, at: u32| $leaves[LeafId::numbered(handle >> 5)].chain[(handle & 31) as usize].place = at
    };
}

impl<P: Packet, Q: Qdisc<P>> Cbq<P, Q> {
    /// The allotment of a leaf per round. Recomputed only after the classes of its priority have changed.
    fn allotment(&mut self, leaf: LeafId) -> i64 {
        let slot = &mut self.leaves[leaf];
        let ring = &self.rings[slot.priority];
        if slot.allotted_at != ring.version {
            let rate = self.nodes[slot.node].class.rate;
            slot.allotment = turn::allotment(self.params.mtu, ring.leaves, ring.rates, rate);
            slot.allotted_at = ring.version;
        }
        slot.allotment
    }

    /// Moves a leaf of a past round to the current round with a new turn.
    fn catch_up(&mut self, leaf: LeafId) {
        let allotment = self.allotment(leaf);
        let slot = &mut self.leaves[leaf];
        slot.turn.catch_up(self.rings[slot.priority].round, allotment);
    }

    /// The rest of the turns of `leaf` in the current round: see [`Turn::turns`](turn::Turn::turns).
    pub(super) fn turns(&mut self, leaf: LeafId) -> i64 {
        let allotment = self.allotment(leaf);
        let slot = &self.leaves[leaf];
        slot.turn.turns(self.params.general, self.rings[slot.priority].round, allotment)
    }

    /// Sets the turn of a leaf from [`turns`](Self::turns), possibly those of another rate or priority.
    pub(super) fn set_turns(&mut self, leaf: LeafId, turns: i64) {
        let allotment = self.allotment(leaf);
        let slot = &mut self.leaves[leaf];
        slot.turn.set(self.params.general, self.rings[slot.priority].round, allotment, turns);
    }

    /// Reads the deadline of the queue of `leaf`, and updates the heaps.
    pub(super) fn refresh(&mut self, leaf: LeafId) {
        self.refresh_and(leaf, Placing::Now);
    }

    fn refresh_and(&mut self, leaf: LeafId, placing: Placing) {
        let slot = &self.leaves[leaf];
        let (ready, wait) = match slot.queue.deadline(self.clock) {
            Deadline::Now => (true, None),
            Deadline::At(t) if t <= self.clock => (true, None),
            Deadline::At(t) => (false, Some(t)),
            Deadline::Idle => (false, None),
        };
        self.wait_until(leaf, wait);
        self.set_ready(leaf, ready, placing);
    }

    pub(super) fn wait_until(&mut self, leaf: LeafId, until: Option<Instant>) {
        let at = self.leaves[leaf].wait;
        let leaves = &mut self.leaves;
        let set_position = &mut |leaf: LeafId, at: u32| leaves[leaf].wait = at;
        match (at, until) {
            (NOWHERE, None) => {}
            (NOWHERE, Some(until)) => self.waiting.insert(until, leaf, set_position),
            (at, Some(until)) => self.waiting.update(at, until, set_position),
            (at, None) => self.waiting.remove(at, set_position),
        }
    }

    /// The queue returned [`Deadline::Now`] without releasing a packet: it is not ready until the next arrival.
    pub(super) fn mark_unready(&mut self, leaf: LeafId) {
        self.set_ready(leaf, false, Placing::Now);
    }

    pub(super) fn set_ready(&mut self, leaf: LeafId, ready: bool, placing: Placing) {
        if self.leaves[leaf].ready == ready {
            return;
        }
        let node = self.leaves[leaf].node;
        if ready {
            self.catch_up(leaf);
            if self.is_below(node) {
                self.leaves[leaf].asleep = false;
            }
        }
        let slot = &mut self.leaves[leaf];
        slot.ready = ready;
        let priority = slot.priority;
        self.nodes[node].borrowers = u32::from(ready);
        self.nodes[node].lends = u8::from(ready) << priority;
        if placing == Placing::Now {
            self.place(node, priority);
        }
        self.link(leaf, placing);
    }

    /// Adds a leaf to those that borrow, or removes it.
    fn link(&mut self, leaf: LeafId, placing: Placing) {
        let slot = &self.leaves[leaf];
        let borrows = slot.ready && slot.may_borrow() && !self.is_below(slot.node);
        let (linked, rescue, key, priority) = (slot.linked, slot.rescue, slot.key(), slot.priority);
        if linked != (borrows && !slot.asleep) {
            self.link_chain(leaf, !linked, placing);
        }
        if (rescue != NOWHERE) != borrows {
            let leaves = &mut self.leaves;
            let set_position = &mut |leaf: LeafId, at: u32| leaves[leaf].rescue = at;
            if borrows {
                self.rings[priority].rescue.insert(key, leaf, set_position);
            } else {
                self.rings[priority].rescue.remove(rescue, set_position);
            }
        }
    }

    /// Called when the turn and the limit of a leaf have changed, by the caller who places all above it.
    fn relink(&mut self, leaf: LeafId) {
        self.link(leaf, Placing::Later);
        let slot = &self.leaves[leaf];
        let (priority, key, rescue) = (slot.priority, slot.key(), slot.rescue);
        if slot.linked {
            for hop in 0..slot.chain.len() {
                let Link { node, place } = self.leaves[leaf].chain[hop];
                self.nodes[node].members[priority].update(place, key, leaf_position!(self.leaves));
            }
        }
        if rescue != NOWHERE {
            let leaves = &mut self.leaves;
            let set_position = &mut |leaf: LeafId, at: u32| leaves[leaf].rescue = at;
            self.rings[priority].rescue.update(rescue, key, set_position);
        }
    }

    /// Adds a leaf to the borrowers of its ancestors, or removes it.
    fn link_chain(&mut self, leaf: LeafId, join: bool, placing: Placing) {
        self.leaves[leaf].linked = join;
        let slot = &self.leaves[leaf];
        let (priority, key) = (slot.priority, slot.key());
        for hop in 0..slot.chain.len() {
            let Link { node, place } = self.leaves[leaf].chain[hop];
            let borrowers = &mut self.nodes[node];
            if join {
                borrowers.borrowers += 1;
                borrowers.lends |= 1 << priority;
                borrowers.members[priority].insert(key, handle(leaf, hop), leaf_position!(self.leaves));
            } else {
                borrowers.borrowers -= 1;
                borrowers.members[priority].remove(place, leaf_position!(self.leaves));
                if borrowers.members[priority].is_empty() {
                    borrowers.lends &= !(1 << priority);
                }
            }
            if placing == Placing::Now {
                self.place(node, priority);
            }
        }
    }

    /// The key of the first leaf that could send on the account of `node`.
    fn first_of(&self, node: NodeId, priority: usize) -> Option<Key> {
        let slot = &self.nodes[node];
        if slot.leaf == LeafId::NONE {
            slot.members[priority].peek().map(|(key, _)| key)
        } else {
            let leaf = &self.leaves[slot.leaf];
            (leaf.ready && leaf.priority == priority).then(|| leaf.key())
        }
    }

    /// Updates the heap that a class belongs to, by its limit and its borrowers of `priority`.
    pub(super) fn place(&mut self, node: NodeId, priority: usize) {
        let Node { borrowers, opened, timer, .. } = self.nodes[node];
        if borrowers == 0 && opened == 0 && timer == NOWHERE {
            return;
        }
        if self.is_below(node) {
            if timer == NOWHERE {
                self.place_open(node, priority);
            } else {
                let nodes = &mut self.nodes;
                self.timers.remove(timer, &mut |node, at| nodes[node].timer = at);
                self.place_all(node);
            }
            return;
        }
        self.unplace_open(node);
        let slot = &self.nodes[node];
        let (timer, due, wanted) = (slot.timer, slot.estimator.under_time, slot.borrowers > 0);
        let nodes = &mut self.nodes;
        let set_position = &mut |node: NodeId, at: u32| nodes[node].timer = at;
        match (timer, wanted) {
            (NOWHERE, false) => {}
            (NOWHERE, true) => self.timers.insert(due, node, set_position),
            (timer, true) => self.timers.update(timer, due, set_position),
            (timer, false) => self.timers.remove(timer, set_position),
        }
    }

    /// Called when a class with possible borrowers has come below its limit.
    pub(super) fn came_below(&mut self, node: NodeId) {
        if let Some(leaf) = self.leaves.get_mut(self.nodes[node].leaf) {
            leaf.asleep = false;
        }
        // Any priority will do: coming from the timers, all are placed.
        self.place(node, 0);
    }

    pub(super) fn place_all(&mut self, node: NodeId) {
        let slot = &self.nodes[node];
        for priority in bits(slot.lends | slot.opened) {
            self.place_open(node, priority);
        }
    }

    fn place_open(&mut self, node: NodeId, priority: usize) {
        let first = self.first_of(node, priority);
        let slot = &self.nodes[node];
        let (at, level) = (slot.open[priority], usize::from(slot.level));
        let ring = &mut self.rings[priority];
        let nodes = &mut self.nodes;
        match first {
            Some(_) => nodes[node].opened |= 1 << priority,
            None => nodes[node].opened &= !(1 << priority),
        }
        let set_position = &mut |node: NodeId, at: u32| nodes[node].open[priority] = at;
        match (at, first) {
            (NOWHERE, None) => {}
            (NOWHERE, Some(key)) => {
                ring.open[level].insert(key, node, set_position);
                ring.levels |= 1 << level;
            }
            (at, Some(key)) => ring.open[level].update(at, key, set_position),
            (at, None) => {
                ring.open[level].remove(at, set_position);
                if ring.open[level].is_empty() {
                    ring.levels &= !(1 << level);
                }
            }
        }
    }

    /// Removes a class from the heaps of classes that may lend.
    pub(super) fn unplace_open(&mut self, node: NodeId) {
        for priority in bits(core::mem::take(&mut self.nodes[node].opened)) {
            let slot = &self.nodes[node];
            let (at, level) = (slot.open[priority], usize::from(slot.level));
            let ring = &mut self.rings[priority];
            let nodes = &mut self.nodes;
            ring.open[level].remove(at, &mut |node, at| nodes[node].open[priority] = at);
            if ring.open[level].is_empty() {
                ring.levels &= !(1 << level);
            }
        }
    }

    pub(super) fn count_change(&mut self, before: Backlog, after: Backlog) {
        self.backlog.packets = self.backlog.packets + after.packets - before.packets;
        self.backlog.bytes = self.backlog.bytes + after.bytes - before.bytes;
    }

    /// Accounts for a packet of `size` that `leaf` sent: its turn, all its ancestors, and the consequences.
    pub(super) fn serve(&mut self, leaf: LeafId, size: Bytes) {
        let lender = self.lender(leaf);
        self.take_turn(leaf, size);

        // Ends the suspension of a leaf that sent because no class could.
        self.leaves[leaf].asleep = false;
        self.refresh_and(leaf, Placing::Later);
        let slot = &self.leaves[leaf];
        let (node, priority) = (slot.node, slot.priority);

        let mut sent =
            Sent { now: self.clock, finish: self.link.tick(&self.params, self.clock, size), size, by_right: false };
        let mut up = node;
        while up != NodeId::NONE {
            sent.by_right |= lender == Some(up);
            let slot = &mut self.nodes[up];
            slot.estimator.charge(sent);
            slot.stats.sent.count(size);
            if slot.estimator.under_time > sent.now {
                slot.stats.overlimit += 1;
            }
            let parent = slot.parent;
            if up == node {
                self.relink(leaf);
            }
            self.place(up, priority);
            up = parent;
        }

        if !self.leaves[leaf].queue.backlog().is_empty() {
            self.regulate_if_stuck(leaf);
        }
        self.has_sent(leaf);
        match lender {
            Some(lender) if lender == node => {}
            Some(lender) => {
                self.nodes[lender].stats.lent.count(size);
                self.nodes[node].stats.borrowed.count(size);
            }
            None => self.nodes[node].stats.rescued.count(size),
        }
        let class = |node: NodeId| self.nodes[node].id;
        self.served = Some(Served { class: class(node), lender: lender.map(class) });
    }

    /// Subtracts `size` from the turn of `leaf`, and starts the next turn when it is used up.
    fn take_turn(&mut self, leaf: LeafId, size: Bytes) {
        self.catch_up(leaf);
        let allotment = self.allotment(leaf);
        let slot = &mut self.leaves[leaf];
        self.rings[slot.priority].round = slot.turn.round;
        slot.turn.take(self.params.general, allotment, size);
    }

    /// Regulates a leaf that is backlogged, over limit and may not borrow.
    pub(super) fn regulate_if_stuck(&mut self, leaf: LeafId) {
        if self.lender(leaf).is_some() {
            return;
        }
        let slot = &self.leaves[leaf];
        let (node, priority) = (slot.node, slot.priority);
        let class = &mut self.nodes[node];
        if !class.estimator.regulate() {
            return;
        }
        class.stats.regulated += 1;
        self.place(node, priority);
        let slot = &mut self.leaves[leaf];
        if self.params.regulation == Regulation::Sleep && !slot.asleep {
            slot.asleep = true;
            self.link(leaf, Placing::Now);
        }
    }

    /// The ancestors that a leaf may borrow from.
    pub(super) fn chain_of(&self, leaf: LeafId) -> Vec<Link> {
        let mut chain = Vec::new();
        let mut node = self.leaves[leaf].node;
        while self.nodes[node].class.borrow == Borrow::FromParent {
            node = self.nodes[node].parent;
            if node == NodeId::NONE {
                break;
            }
            chain.push(Link { node, place: NOWHERE });
        }
        chain
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cbq::{Class, Params};
    use crate::fifo::{Fifo, Limit};
    use crate::packet::{ClassId, FlowKey};
    use crate::qdisc::Discard;
    use tidegate_units::Rate;

    struct P;

    impl Packet for P {
        fn size(&self) -> Bytes {
            Bytes::new(1_000)
        }
        fn flow(&self) -> FlowKey {
            FlowKey::default()
        }
        fn class(&self) -> ClassId {
            ClassId(0)
        }
    }

    /// The smaller of two leaves with 1 and 3 Mbit/s may send a quarter of a round of two packets, also where the class above both
    /// changes while it waits for a turn.
    #[test]
    fn a_turn_is_by_all_leaves_when_a_class_above_them_changes() {
        let (small, large, above, root) = (ClassId(0), ClassId(1), ClassId(2), ClassId(3));
        let mut cbq = Cbq::<P, Fifo<P>>::new(Params::new(Rate::from_mbit(10), Bytes::new(1_000), root)).unwrap();
        cbq.add_inner(Instant::ZERO, above, root, Class::new(Rate::from_mbit(8))).unwrap();
        for (leaf, rate) in [(small, 1), (large, 3)] {
            let queue = Fifo::new(Limit::NONE);
            cbq.add_leaf(Instant::ZERO, leaf, above, Class::new(Rate::from_mbit(rate)), queue).unwrap();
        }
        cbq.enqueue(Instant::ZERO, P, &mut Discard);
        let leaf = cbq.nodes[cbq.node_of(small).unwrap()].leaf;
        let priority = cbq.leaves[leaf].priority;
        cbq.rings[priority].round = 5;
        cbq.change(Instant::ZERO, above, Class::new(Rate::from_mbit(9))).unwrap();
        assert_eq!(cbq.leaves[leaf].turn.round, 5);
        let quarter = turn::allotment(Bytes::new(500), 1, 1, Rate::from_bps(1));
        assert_eq!(cbq.turns(leaf), quarter);
    }
}
