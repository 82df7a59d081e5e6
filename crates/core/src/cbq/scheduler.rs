//! The general scheduler: turns within a priority, and where each class is kept so that the next one is found
//! without a search.
//!
//! *Law*: in each round a class of weighted round robin may send its allotment, n x mtu x (its rate / all rates) over
//! the n leaves of its priority, and goes on until that is used up; what it overdraws is taken off its next rounds.
//! *Source*: Risso and Gevros, sections 2.1 and 6.3.
//!
//! # How
//! A turn is a [`Key`]: the round, and the class's place in it. Every class (leaf or not) keeps a heap, by key, of the
//! leaves that may borrow from it and can send; a leaf is its own only borrower. Those classes that are not over
//! limit and have such leaves stand, by the key of their first, in the heap of their level; those over limit stand
//! in one heap of timers by their under-time. So the next to send is the least key among the allowed levels, and a
//! class that comes below its limit brings all its borrowers with it, in one step.

use alloc::vec::Vec;

use super::estimator::Sent;
use super::{Borrow, Cbq, General, LEVELS, PRIORITIES, Regulation, Served};
use crate::heap::{Heap, NOWHERE};
use crate::packet::Packet;
use crate::qdisc::{Backlog, Deadline, Qdisc};
use tidegate_units::{Bytes, Instant};

/// Turns are counted in this part of a byte, so that the shares of ten thousand classes round by less than 10^-7.
const PART: i64 = 1 << 16;

/// A turn: first by round, then by place in the round. The leaf comes along, and never decides.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(super) struct Key {
    pub(super) round: u64,
    pub(super) turn: u32,
    pub(super) leaf: u32,
}

/// A leaf.
#[derive(Clone, Debug)]
pub(super) struct Leaf<P, Q> {
    pub(super) node: u32,
    pub(super) priority: usize,
    pub(super) queue: Q,
    pub(super) key: Key,
    /// What is left of its turn, in [`PART`]s of a byte.
    pub(super) left: i64,
    /// What it gets for a turn, and for which version of its ring that was worked out; 0 for none.
    pub(super) allotment: i64,
    pub(super) allotted_at: u64,
    /// Its queue can give a packet now.
    pub(super) ready: bool,
    /// Suspended until its own under-time.
    pub(super) asleep: bool,
    /// Its place among the waiting.
    pub(super) wait: u32,
    /// Its place among those that may send when nobody else may.
    pub(super) rescue: u32,
    /// The ancestors it may borrow from, lowest first.
    pub(super) chain: Vec<Link>,
    pub(super) packet: core::marker::PhantomData<fn() -> P>,
}

/// An ancestor to borrow from, and the leaf's place in its heap.
#[derive(Clone, Copy, Debug)]
pub(super) struct Link {
    pub(super) node: u32,
    pub(super) place: u32,
}

impl<P, Q> Leaf<P, Q> {
    pub(super) fn may_borrow(&self) -> bool {
        !self.chain.is_empty()
    }
}

/// What a priority has.
#[derive(Clone, Debug)]
pub(super) struct Ring {
    /// The round that is being served.
    pub(super) round: u64,
    /// Leaves of this priority, and the sum of their rates.
    pub(super) leaves: u64,
    pub(super) rates: u64,
    /// Counts the changes of these two, from 1.
    pub(super) version: u64,
    /// For each level, the classes that are not over limit and have somebody to send, by the key of the first.
    pub(super) open: Vec<Heap<Key>>,
    /// The levels whose heap is not empty, as bits.
    pub(super) levels: u32,
    /// Leaves that may borrow and can send.
    pub(super) rescue: Heap<Key>,
}

impl Ring {
    pub(super) fn new() -> Self {
        let open = (0..=LEVELS).map(|_| Heap::new()).collect();
        Self { round: 0, leaves: 0, rates: 0, version: 1, open, levels: 0, rescue: Heap::new() }
    }
}

/// A handle in a class's heap of borrowers: the leaf, and the class's position in the leaf's chain.
fn handle(leaf: u32, hop: usize) -> u32 {
    leaf << 5 | hop as u32
}

/// Tells leaves their places in a heap of borrowers.
macro_rules! tell_leaf {
    ($leaves:expr) => {
        &mut |handle: u32, at: u32| $leaves[(handle >> 5) as usize].chain[(handle & 31) as usize].place = at
    };
}

impl<P: Packet, Q: Qdisc<P>> Cbq<P, Q> {
    /// What a leaf may send in a round, in [`PART`]s of a byte, rounded up. Worked out anew only after the classes
    /// of its priority have changed.
    fn allotment(&mut self, leaf: u32) -> i64 {
        let slot = &mut self.leaves[leaf as usize];
        let ring = &self.rings[slot.priority];
        if slot.allotted_at != ring.version {
            let rate = self.nodes[slot.node as usize].class.rate.as_bps();
            let round = u128::from(self.params.mtu.as_u64()) * u128::from(ring.leaves) * PART as u128;
            let share = (round * u128::from(rate)).div_ceil(u128::from(ring.rates.max(1)));
            // At most 2^24 bytes x 2^20 classes x 2^16.
            slot.allotment = i64::try_from(share).unwrap_or(i64::MAX >> 2).clamp(1, i64::MAX >> 2);
            slot.allotted_at = ring.version;
        }
        slot.allotment
    }

    /// A leaf that was left behind joins the current round with a fresh turn.
    fn catch_up(&mut self, leaf: u32) {
        let slot = &self.leaves[leaf as usize];
        if slot.key.round < self.rings[slot.priority].round || slot.left <= 0 {
            let left = self.allotment(leaf);
            let slot = &mut self.leaves[leaf as usize];
            slot.key.round = slot.key.round.max(self.rings[slot.priority].round);
            slot.left = left;
        }
    }

    /// What `leaf` has of its turns in the round that is being served, in [`PART`]s of a byte; below zero what it has
    /// overdrawn. By packet round robin less than zero are the rounds that it has ahead.
    pub(super) fn turns(&mut self, leaf: u32) -> i128 {
        let allotment = i128::from(self.allotment(leaf));
        let slot = &self.leaves[leaf as usize];
        let Some(ahead) = slot.key.round.checked_sub(self.rings[slot.priority].round).filter(|_| slot.left > 0) else {
            return allotment;
        };
        match self.params.general {
            General::PacketRoundRobin => -i128::from(ahead),
            General::WeightedRoundRobin => i128::from(slot.left) - i128::from(ahead) * allotment,
        }
    }

    /// Gives a leaf the turn that follows from [`turns`](Self::turns), which may have been those of another rate or
    /// priority: no more in this round than it gets in one, and what it overdrew off the next ones.
    pub(super) fn set_turns(&mut self, leaf: u32, turns: i128) {
        let allotment = i128::from(self.allotment(leaf));
        let owed = (-turns).max(0);
        let (rounds, left) = match self.params.general {
            General::PacketRoundRobin => (owed, allotment),
            General::WeightedRoundRobin if turns > 0 => (0, turns.min(allotment)),
            General::WeightedRoundRobin => (owed / allotment + 1, allotment - owed % allotment),
        };
        let slot = &mut self.leaves[leaf as usize];
        slot.left = left as i64;
        let rounds = u64::try_from(rounds).unwrap_or(u64::MAX);
        slot.key.round = self.rings[slot.priority].round.saturating_add(rounds);
    }

    /// Asks the queue of `leaf` whether it can give a packet, and keeps the leaf where that belongs.
    pub(super) fn refresh(&mut self, leaf: u32) {
        let slot = &self.leaves[leaf as usize];
        let (ready, wait) = match slot.queue.deadline(self.clock) {
            Deadline::Now => (true, None),
            Deadline::At(t) if t <= self.clock => (true, None),
            Deadline::At(t) => (false, Some(t)),
            Deadline::Idle => (false, None),
        };
        self.wait_until(leaf, wait);
        self.set_ready(leaf, ready);
    }

    pub(super) fn wait_until(&mut self, leaf: u32, until: Option<Instant>) {
        let at = self.leaves[leaf as usize].wait;
        let leaves = &mut self.leaves;
        let tell = &mut |leaf: u32, at: u32| leaves[leaf as usize].wait = at;
        match (at, until) {
            (NOWHERE, None) => {}
            (NOWHERE, Some(until)) => self.waiting.insert(until, leaf, tell),
            (at, Some(until)) => self.waiting.update(at, until, tell),
            (at, None) => self.waiting.remove(at, tell),
        }
    }

    /// The queue claims to have something and gives nothing: ask again after the next arrival.
    pub(super) fn mute(&mut self, leaf: u32) {
        self.set_ready(leaf, false);
    }

    pub(super) fn set_ready(&mut self, leaf: u32, ready: bool) {
        if self.leaves[leaf as usize].ready == ready {
            return;
        }
        let node = self.leaves[leaf as usize].node;
        if ready {
            self.catch_up(leaf);
            if self.is_below(node) {
                self.leaves[leaf as usize].asleep = false;
            }
        }
        let slot = &mut self.leaves[leaf as usize];
        slot.ready = ready;
        let (priority, asleep, key, may_borrow) = (slot.priority, slot.asleep, slot.key, slot.may_borrow());
        self.nodes[node as usize].borrowers = u32::from(ready);
        self.place(node, priority);
        if !asleep {
            self.link_chain(leaf, ready);
        }
        if may_borrow {
            let at = self.leaves[leaf as usize].rescue;
            let leaves = &mut self.leaves;
            let tell = &mut |leaf: u32, at: u32| leaves[leaf as usize].rescue = at;
            if ready {
                self.rings[priority].rescue.insert(key, leaf, tell);
            } else {
                self.rings[priority].rescue.remove(at, tell);
            }
        }
    }

    /// Enters a leaf among the borrowers of its ancestors, or takes it out.
    fn link_chain(&mut self, leaf: u32, join: bool) {
        let slot = &self.leaves[leaf as usize];
        let (priority, key) = (slot.priority, slot.key);
        for hop in 0..slot.chain.len() {
            let Link { node, place } = self.leaves[leaf as usize].chain[hop];
            let borrowers = &mut self.nodes[node as usize];
            if join {
                borrowers.borrowers += 1;
                borrowers.members[priority].insert(key, handle(leaf, hop), tell_leaf!(self.leaves));
            } else {
                borrowers.borrowers -= 1;
                borrowers.members[priority].remove(place, tell_leaf!(self.leaves));
            }
            self.place(node, priority);
        }
    }

    /// The key of the first that could send on the account of `node`.
    fn first_of(&self, node: u32, priority: usize) -> Option<Key> {
        let slot = &self.nodes[node as usize];
        if slot.leaf == NOWHERE {
            slot.members[priority].peek().map(|(key, _)| key)
        } else {
            let leaf = &self.leaves[slot.leaf as usize];
            (leaf.ready && leaf.priority == priority).then_some(leaf.key)
        }
    }

    /// Keeps a class where its limit and its borrowers of `priority` put it.
    pub(super) fn place(&mut self, node: u32, priority: usize) {
        if self.is_below(node) {
            let timer = self.nodes[node as usize].timer;
            if timer == NOWHERE {
                self.place_open(node, priority);
            } else {
                let nodes = &mut self.nodes;
                self.timers.remove(timer, &mut |node, at| nodes[node as usize].timer = at);
                self.place_all(node);
            }
            return;
        }
        self.unplace_open(node);
        let slot = &self.nodes[node as usize];
        let (timer, due, wanted) = (slot.timer, slot.estimator.under_time, slot.borrowers > 0);
        let nodes = &mut self.nodes;
        let tell = &mut |node: u32, at: u32| nodes[node as usize].timer = at;
        match (timer, wanted) {
            (NOWHERE, false) => {}
            (NOWHERE, true) => self.timers.insert(due, node, tell),
            (timer, true) => self.timers.update(timer, due, tell),
            (timer, false) => self.timers.remove(timer, tell),
        }
    }

    /// A class has come below its limit, and somebody could use that.
    pub(super) fn came_below(&mut self, node: u32) {
        let leaf = self.nodes[node as usize].leaf;
        if leaf != NOWHERE {
            self.wake(leaf);
        }
        // Any priority will do: coming from the timers, all are placed.
        self.place(node, 0);
    }

    /// A leaf that slept may borrow again.
    fn wake(&mut self, leaf: u32) {
        let slot = &mut self.leaves[leaf as usize];
        if slot.asleep {
            slot.asleep = false;
            if slot.ready {
                self.link_chain(leaf, true);
            }
        }
    }

    pub(super) fn place_all(&mut self, node: u32) {
        for priority in 0..PRIORITIES {
            self.place_open(node, priority);
        }
    }

    fn place_open(&mut self, node: u32, priority: usize) {
        let first = self.first_of(node, priority);
        let slot = &self.nodes[node as usize];
        let (at, level) = (slot.open[priority], usize::from(slot.level));
        let ring = &mut self.rings[priority];
        let nodes = &mut self.nodes;
        let tell = &mut |node: u32, at: u32| nodes[node as usize].open[priority] = at;
        match (at, first) {
            (NOWHERE, None) => {}
            (NOWHERE, Some(key)) => {
                ring.open[level].insert(key, node, tell);
                ring.levels |= 1 << level;
            }
            (at, Some(key)) => ring.open[level].update(at, key, tell),
            (at, None) => {
                ring.open[level].remove(at, tell);
                if ring.open[level].is_empty() {
                    ring.levels &= !(1 << level);
                }
            }
        }
    }

    /// Takes a class out of the heaps of those that may lend.
    pub(super) fn unplace_open(&mut self, node: u32) {
        for priority in 0..PRIORITIES {
            let slot = &self.nodes[node as usize];
            let (at, level) = (slot.open[priority], usize::from(slot.level));
            if at != NOWHERE {
                let ring = &mut self.rings[priority];
                let nodes = &mut self.nodes;
                ring.open[level].remove(at, &mut |node, at| nodes[node as usize].open[priority] = at);
                if ring.open[level].is_empty() {
                    ring.levels &= !(1 << level);
                }
            }
        }
    }

    pub(super) fn count_change(&mut self, before: Backlog, after: Backlog) {
        self.backlog.packets = self.backlog.packets + after.packets - before.packets;
        self.backlog.bytes = self.backlog.bytes + after.bytes - before.bytes;
    }

    /// `leaf` has given a packet of `size`: its turn, the accounts of all its ancestors, and what follows.
    pub(super) fn serve(&mut self, leaf: u32, size: Bytes) {
        let lender = self.lender(leaf);
        self.take_turn(leaf, size);

        // Out of its sleep, if it was asleep and sent because nobody else could.
        self.wake(leaf);
        self.refresh(leaf);
        let slot = &self.leaves[leaf as usize];
        let (node, priority, key, ready) = (slot.node, slot.priority, slot.key, slot.ready);
        if ready {
            for hop in 0..slot.chain.len() {
                let Link { node, place } = self.leaves[leaf as usize].chain[hop];
                self.nodes[node as usize].members[priority].update(place, key, tell_leaf!(self.leaves));
            }
            let at = self.leaves[leaf as usize].rescue;
            if at != NOWHERE {
                let leaves = &mut self.leaves;
                let tell = &mut |leaf: u32, at: u32| leaves[leaf as usize].rescue = at;
                self.rings[priority].rescue.update(at, key, tell);
            }
        }

        let mut sent = Sent { now: self.clock, finish: self.tick_link(size), size, by_right: false };
        let mut up = node;
        while up != NOWHERE {
            sent.by_right |= lender == Some(up);
            let slot = &mut self.nodes[up as usize];
            slot.estimator.charge(sent);
            slot.stats.sent.count(size);
            if slot.estimator.under_time > sent.now {
                slot.stats.overlimit += 1;
            }
            let parent = slot.parent;
            self.place(up, priority);
            up = parent;
        }

        if !self.leaves[leaf as usize].queue.backlog().is_empty() {
            self.regulate_if_stuck(leaf);
        }
        self.has_sent(leaf);
        match lender {
            Some(lender) if lender == node => {}
            Some(lender) => {
                self.nodes[lender as usize].stats.lent.count(size);
                self.nodes[node as usize].stats.borrowed.count(size);
            }
            None => self.nodes[node as usize].stats.rescued.count(size),
        }
        let class = |node: u32| self.nodes[node as usize].id;
        self.served = Some(Served { class: class(node), lender: lender.map(class) });
    }

    /// Takes `size` off the turn of `leaf`, and gives it the next one when that is used up.
    fn take_turn(&mut self, leaf: u32, size: Bytes) {
        self.catch_up(leaf);
        let allotment = self.allotment(leaf);
        let slot = &mut self.leaves[leaf as usize];
        self.rings[slot.priority].round = slot.key.round;
        match self.params.general {
            General::PacketRoundRobin => slot.key.round += 1,
            General::WeightedRoundRobin => {
                slot.left = slot.left.saturating_sub_unsigned(size.as_u64().saturating_mul(PART as u64));
                if slot.left <= 0 {
                    let rounds = slot.left.unsigned_abs() / allotment as u64 + 1;
                    slot.left += rounds as i64 * allotment;
                    slot.key.round += rounds;
                }
            }
        }
    }

    /// Regulates a leaf that has something to send, is over limit, and may not borrow.
    pub(super) fn regulate_if_stuck(&mut self, leaf: u32) {
        if self.lender(leaf).is_some() {
            return;
        }
        let slot = &self.leaves[leaf as usize];
        let (node, priority) = (slot.node, slot.priority);
        let class = &mut self.nodes[node as usize];
        if !class.estimator.regulate() {
            return;
        }
        class.stats.regulated += 1;
        self.place(node, priority);
        let slot = &mut self.leaves[leaf as usize];
        if self.params.regulation == Regulation::Sleep && !slot.asleep {
            if slot.ready {
                self.link_chain(leaf, false);
            }
            self.leaves[leaf as usize].asleep = true;
        }
    }

    /// The ancestors that a leaf may borrow from, by the tree as it is.
    pub(super) fn chain_of(&self, leaf: u32) -> Vec<Link> {
        let mut chain = Vec::new();
        let mut node = self.leaves[leaf as usize].node;
        while self.nodes[node as usize].class.borrow == Borrow::FromParent {
            node = self.nodes[node as usize].parent;
            if node == NOWHERE {
                break;
            }
            chain.push(Link { node, place: NOWHERE });
        }
        chain
    }
}
