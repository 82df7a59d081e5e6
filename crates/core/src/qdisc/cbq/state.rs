//! The state of a class, of a leaf and of a priority.

use alloc::vec::Vec;
use core::cmp::Ordering;

use super::estimator::{Estimate, Estimator};
use super::limits::Limits;
use super::params::{Class, LEVELS, PRIORITIES};
use super::turn::Turn;
use crate::accounts::Account;
use crate::heap::Heap;
use crate::packet::ClassId;
use crate::qdisc::Backlog;
use crate::slab::{Slot as _, reusable, slot};
use tidegate_units::{Instant, Rate};

/// Counters of a class.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Stats {
    /// Enqueued; zero for a class with children.
    pub arrived: Account,
    /// Sent by it or by its descendants.
    pub sent: Account,
    /// Sent by it while over limit, with rate of an ancestor. Leaves only.
    pub borrowed: Account,
    /// Sent by others with its rate.
    pub lent: Account,
    /// Sent when no class had rate left, because the link would have been idle. Leaves only.
    pub rescued: Account,
    /// Packets that took it over its limit.
    pub overlimit: u64,
    /// Times it was regulated.
    pub regulated: u64,
}

/// The state of a class.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Status {
    /// The class is over limit before this instant; an instant in the past when it is not.
    pub under_time: Instant,
    /// The estimator's measure.
    pub estimate: Estimate,
    /// Leaves are level 1, other classes one more than the highest of their children.
    pub level: u8,
    /// The packets in its queue; zero for a class with children.
    pub backlog: Backlog,
    /// Whether it is suspended regardless of its ancestors ([`Regulation::Sleep`](super::Regulation::Sleep)).
    pub asleep: bool,
}

impl Stats {
    /// Sent by it beyond its own rate: with that of an ancestor, or with none.
    pub fn beyond_own(&self) -> Account {
        let mut all = self.borrowed;
        all.add(self.rescued);
        all
    }
}

/// The counters and the estimator of a class whose packets another scheduler has.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Measured {
    /// Its counters.
    pub stats: Stats,
    /// The class is over limit before this instant.
    pub under_time: Instant,
    /// The average idle time, scaled by the gain, in ns. Of no meaning where rates are measured in bytes.
    pub average: i64,
    /// How much less than the depth the credit is at an instant, in bit·ns/s. Of no meaning where rates are measured by idle time.
    pub used: u128,
    /// That instant.
    pub at: Instant,
}

impl Measured {
    /// The class with these counters and this estimate at `now`, where it has these limits.
    pub fn over(&self, class: ClassState, limits: Limits, now: Instant) -> ClassState {
        let Self { stats, under_time, average, used, at } = *self;
        let estimate = Estimator::measured(limits, average, used, at).estimate(now);
        ClassState { stats, status: Status { under_time, estimate, ..class.status }, ..class }
    }
}

/// A class of the tree with its counters and its state, as [`Cbq::states`](super::Cbq::states) lists them.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct ClassState {
    /// Its number.
    pub class: ClassId,
    /// The class above it; `None` for the root.
    pub parent: Option<ClassId>,
    /// The rate that it is guaranteed.
    pub rate: Rate,
    /// Its counters.
    pub stats: Stats,
    /// Its state.
    pub status: Status,
}

slot! {
    /// The number of a class of the tree.
    pub(super) struct NodeId;
}

slot! {
    /// The number of a leaf.
    pub(super) struct LeafId;
}

/// A class of the tree, leaf or interior.
#[derive(Clone, Debug)]
pub(super) struct Node {
    pub(super) id: ClassId,
    pub(super) parent: NodeId,
    pub(super) children: Vec<NodeId>,
    pub(super) class: Class,
    pub(super) estimator: Estimator,
    pub(super) level: u8,
    /// Its leaf, or `NONE` for a class with children.
    pub(super) leaf: LeafId,
    /// The sum of the children's rates.
    pub(super) given: u64,
    /// For each priority, the leaves that may borrow from it, can send and are over limit, and some that came below it
    /// since their last packet. Empty for a leaf.
    pub(super) members: Vec<Heap<Key>>,
    /// The number of these over all priorities.
    pub(super) borrowers: u32,
    /// The priorities, as bits, in which a leaf can send on its account: its own if it is a leaf.
    pub(super) lends: u8,
    /// The priorities, as bits, in which it is among the classes that are not over limit.
    pub(super) opened: u8,
    /// Its position among the classes over limit.
    pub(super) timer: u32,
    /// For each priority, its position among the classes of its level that are not over limit.
    pub(super) open: [u32; PRIORITIES],
    pub(super) stats: Stats,
}

reusable!(Node, parent: NodeId);

/// A turn, ordered by round, then by position in the round. The leaf is stored along and never compared in effect.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Key {
    pub(super) round: u64,
    pub(super) turn: u32,
    pub(super) leaf: LeafId,
}

impl Key {
    /// All of it as one number: a packet compares dozens of keys, and this is two instructions instead of three branches.
    #[inline]
    fn packed(self) -> u128 {
        u128::from(self.round) << 64 | u128::from(self.turn) << 32 | u128::from(self.leaf.number())
    }
}

impl Ord for Key {
    #[inline]
    fn cmp(&self, other: &Self) -> Ordering {
        self.packed().cmp(&other.packed())
    }
}

impl PartialOrd for Key {
    #[inline]
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

/// The state of a leaf in the round.
#[derive(Clone, Debug)]
pub(super) struct Leaf<P, Q> {
    pub(super) node: NodeId,
    pub(super) priority: usize,
    pub(super) queue: Q,
    pub(super) turn: Turn,
    /// Its position in the round.
    pub(super) position: u32,
    pub(super) number: LeafId,
    /// Its allotment per turn, and the version of its ring for which it was computed; 0 for none.
    pub(super) allotment: i64,
    pub(super) allotted_at: u64,
    /// Whether its queue can release a packet now.
    pub(super) ready: bool,
    /// Suspended until its own under-time.
    pub(super) asleep: bool,
    /// Its position among the waiting leaves.
    pub(super) wait: u32,
    /// Whether it is among the borrowers of its ancestors.
    pub(super) linked: bool,
    /// Its position among the leaves that may send when no class may.
    pub(super) rescue: u32,
    /// The ancestors it may borrow from, lowest first.
    pub(super) chain: Vec<Link>,
    pub(super) packet: core::marker::PhantomData<fn() -> P>,
}

reusable!(Leaf<P, Q>, number: LeafId);

/// An ancestor to borrow from, and the leaf's position in its heap.
#[derive(Clone, Copy, Debug)]
pub(super) struct Link {
    pub(super) node: NodeId,
    pub(super) place: u32,
}

impl<P, Q> Leaf<P, Q> {
    pub(super) fn key(&self) -> Key {
        Key { round: self.turn.round, turn: self.position, leaf: self.number }
    }
    pub(super) fn may_borrow(&self) -> bool {
        !self.chain.is_empty()
    }
}

/// The state of a priority.
#[derive(Clone, Debug)]
pub(super) struct Ring {
    /// The number of the current round.
    pub(super) round: u64,
    /// The number of leaves of this priority, and the sum of their rates.
    pub(super) leaves: u64,
    pub(super) rates: u64,
    /// The number of changes of these two, from 1.
    pub(super) version: u64,
    /// For each level, the classes that are not over limit and have a leaf that can send, by the key of the first.
    pub(super) open: Vec<Heap<Key, NodeId>>,
    /// The levels with a non-empty heap, as bits.
    pub(super) levels: u32,
    /// Leaves that may borrow, can send and are over limit, and some that came below it since their last packet.
    pub(super) rescue: Heap<Key, LeafId>,
}

impl Ring {
    pub(super) fn new() -> Self {
        let open = (0..=LEVELS).map(|_| Heap::new()).collect();
        Self { round: 0, leaves: 0, rates: 0, version: 1, open, levels: 0, rescue: Heap::new() }
    }
}
