//! The tree: classes are added, changed and removed at run time.
//!
//! *Cost*: O(depth) to add or change a class, and its descendants are inserted again; O(depth x siblings) to remove
//! one, and its packets.

use alloc::vec;
use alloc::vec::Vec;
use core::fmt;

use super::Cbq;
use super::estimator::Estimator;
use super::limits::{Given, Limits};
use super::link::LinkUse;
use super::params::{Class, HIGHEST, LEVELS, PRIORITIES, Params};
use super::state::{ClassState, Leaf, LeafId, Node, NodeId, Ring, Stats, Status};
use super::turn::Turn;
use crate::heap::{Heap, NOWHERE};
use crate::packet::{ClassId, Packet};
use crate::params::ParamError;
use crate::qdisc::{Backlog, Deadline, DropReason, Outlet, Qdisc};
use crate::slab::{Slab, Slot as _};
use tidegate_units::{Instant, Rate};

/// The largest class number.
const LAST_ID: u32 = (1 << 20) - 1;

/// How the packets of a class that is removed are treated.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Removal {
    /// They are dropped with [`DropReason::Flushed`].
    Flush,
    /// They are moved to the queue of another leaf in their order, up to its limit.
    MoveTo(ClassId),
}

/// Why a change of the tree failed. The tree is then unchanged.
#[derive(Clone, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub enum TreeError {
    /// A parameter of the tree or of a class is invalid.
    Param(ParamError),
    /// The class exists. Choose another number.
    Exists(ClassId),
    /// There is no such class.
    Unknown(ClassId),
    /// The number of a class is too large; the largest is 1048575.
    IdTooLarge(ClassId),
    /// The class has a queue and cannot have children. Add it without a queue.
    IsLeaf(ClassId),
    /// The class has no queue. Specify a leaf.
    NotLeaf(ClassId),
    /// The class has children. Remove them first.
    HasChildren(ClassId),
    /// The root cannot be removed, and its rate is the link's.
    Root,
    /// The tree would have more than 31 levels.
    TooDeep,
    /// The rates of the children would exceed the parent's rate.
    Overcommitted {
        /// The class that would be its parent.
        parent: ClassId,
        /// The rate it has free.
        free: Rate,
        /// The requested rate.
        asked: Rate,
    },
}

impl fmt::Display for TreeError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Param(error) => error.fmt(f),
            Self::Exists(id) => write!(f, "class {} exists already", id.0),
            Self::Unknown(id) => write!(f, "class {} is unknown", id.0),
            Self::IdTooLarge(id) => write!(f, "class number {} is above {LAST_ID}", id.0),
            Self::IsLeaf(id) => write!(f, "class {} has a queue and so no children", id.0),
            Self::NotLeaf(id) => write!(f, "class {} has no queue", id.0),
            Self::HasChildren(id) => write!(f, "class {} still has children", id.0),
            Self::Root => write!(f, "the root class cannot be removed, and its rate is the link's"),
            Self::TooDeep => write!(f, "more than {LEVELS} levels"),
            Self::Overcommitted { parent, free, asked } => write!(
                f,
                "class {} has {} bit/s left but {} bit/s were requested",
                parent.0,
                free.as_bps(),
                asked.as_bps()
            ),
        }
    }
}

impl core::error::Error for TreeError {}

impl From<ParamError> for TreeError {
    fn from(error: ParamError) -> Self {
        Self::Param(error)
    }
}

impl<P: Packet, Q: Qdisc<P>> Cbq<P, Q> {
    /// Returns a tree with only its root.
    ///
    /// # Errors
    /// When a parameter is invalid or the number of the root too large.
    pub fn new(params: Params) -> Result<Self, TreeError> {
        params.validate()?;
        let mut tree = Self {
            params,
            clock: Instant::ZERO,
            backlog: Backlog::default(),
            link: LinkUse::default(),
            top_level: HIGHEST,
            served: None,
            index: Vec::new(),
            nodes: Slab::default(),
            leaves: Slab::default(),
            rings: core::array::from_fn(|_| Ring::new()),
            next_turn: 0,
            timers: Heap::new(),
            waiting: Heap::new(),
        };
        let root =
            Class { max_burst: params.root_burst, min_burst: 1, ..Class::new(params.root_rate.unwrap_or(params.link)) };
        tree.add_node(params.root, NodeId::NONE, root)?;
        Ok(tree)
    }

    /// Adds a class for children.
    ///
    /// # Errors
    /// See [`TreeError`]; the tree is then unchanged.
    pub fn add_inner(&mut self, now: Instant, id: ClassId, parent: ClassId, class: Class) -> Result<(), TreeError> {
        self.advance(now);
        // Its level is that of a class with children.
        let parent = self.parent_for(id, parent, &class, 2)?;
        let node = self.add_node(id, parent, class)?;
        self.nodes[node].level = 2;
        self.raise_levels(parent, 3);
        Ok(())
    }

    /// Adds a leaf with its queue, which may contain packets.
    ///
    /// # Errors
    /// See [`TreeError`]; the tree is then unchanged.
    pub fn add_leaf(
        &mut self,
        now: Instant,
        id: ClassId,
        parent: ClassId,
        class: Class,
        queue: Q,
    ) -> Result<(), TreeError> {
        self.advance(now);
        let parent = self.parent_for(id, parent, &class, 1)?;
        let node = self.add_node(id, parent, class)?;
        let turn = self.next_turn;
        self.next_turn += 1;
        let leaf = self.leaves.next();
        self.leaves.insert(Leaf {
            node,
            priority: usize::from(class.priority),
            queue,
            turn: Turn::default(),
            position: turn,
            number: leaf,
            allotment: 0,
            allotted_at: 0,
            ready: false,
            asleep: false,
            wait: NOWHERE,
            linked: false,
            rescue: NOWHERE,
            chain: Vec::new(),
            packet: core::marker::PhantomData,
        });
        self.nodes[node].leaf = leaf;
        self.nodes[node].members = Vec::new();
        self.raise_levels(parent, 2);
        self.join(leaf);
        self.refresh(leaf);
        self.count_change(Backlog::default(), self.leaves[leaf].queue.backlog());
        Ok(())
    }

    /// Sets the parameters of a class from `now` on. Its packets and its use are kept.
    ///
    /// # Errors
    /// See [`TreeError`]; the tree is then unchanged.
    pub fn change(&mut self, now: Instant, id: ClassId, class: Class) -> Result<(), TreeError> {
        self.advance(now);
        let node = self.node_of(id)?;
        class.validate()?;
        let (parent, old) = (self.nodes[node].parent, self.nodes[node].class);
        if parent == NodeId::NONE {
            return Err(TreeError::Root);
        }
        self.check_rate(parent, class.rate, old.rate)?;
        let given = Rate::from_bps(self.nodes[node].given);
        if class.rate < given {
            return Err(TreeError::Overcommitted {
                parent: id,
                free: Rate::ZERO,
                asked: given.saturating_sub(class.rate),
            });
        }
        let touched: Vec<LeafId> = self.leaves.all().filter(|&leaf| self.descends(leaf, node)).collect();
        let own = self.nodes[node].leaf;
        let turns = if own == LeafId::NONE { 0 } else { self.turns(own) };
        for &leaf in &touched {
            self.leave(leaf);
        }
        let above = &mut self.nodes[parent];
        above.given = above.given - old.rate.as_bps() + class.rate.as_bps();
        let limits = self.limits(&class);
        let slot = &mut self.nodes[node];
        slot.class = class;
        slot.estimator.set_limits(limits, self.clock);
        if own != LeafId::NONE {
            self.leaves[own].priority = usize::from(class.priority);
        }
        // Allotments depend on all leaves of a priority.
        for &leaf in &touched {
            self.join(leaf);
        }
        if own != LeafId::NONE {
            // A deficit counted in rounds of another priority or turns of another rate does not apply.
            self.set_turns(own, turns);
        }
        for &leaf in &touched {
            self.refresh(leaf);
        }
        Ok(())
    }

    /// Removes a class without children.
    ///
    /// # Errors
    /// See [`TreeError`]; the tree is then unchanged.
    pub fn remove(
        &mut self,
        now: Instant,
        id: ClassId,
        packets: Removal,
        out: &mut dyn Outlet<P>,
    ) -> Result<(), TreeError> {
        self.advance(now);
        let node = self.node_of(id)?;
        let parent = self.nodes[node].parent;
        if parent == NodeId::NONE {
            return Err(TreeError::Root);
        }
        if !self.nodes[node].children.is_empty() {
            return Err(TreeError::HasChildren(id));
        }
        let target = match packets {
            Removal::Flush => None,
            Removal::MoveTo(to) if to == id => return Err(TreeError::Unknown(to)),
            Removal::MoveTo(to) => {
                let leaf = self.nodes[self.node_of(to)?].leaf;
                if leaf == LeafId::NONE {
                    return Err(TreeError::NotLeaf(to));
                }
                Some(leaf)
            }
        };
        let leaf = self.nodes[node].leaf;
        if leaf != LeafId::NONE {
            self.leave(leaf);
            self.empty(leaf, target, out);
            self.leaves[leaf].node = NodeId::NONE;
            self.leaves.release(leaf);
        }
        let rate = self.nodes[node].class.rate.as_bps();
        let above = &mut self.nodes[parent];
        above.given -= rate;
        above.children.retain(|&child| child != node);
        self.index[id.0 as usize] = NodeId::NONE;
        self.nodes.release(node);
        self.lower_levels(parent);
        self.top_level = HIGHEST;
        Ok(())
    }

    /// Sets the class for packets of unknown classes.
    pub fn set_default(&mut self, class: Option<ClassId>) {
        self.params.default = class;
    }

    /// The parameters of a class.
    pub fn class(&self, id: ClassId) -> Option<&Class> {
        self.node_of(id).ok().map(|node| &self.nodes[node].class)
    }

    /// The limits of a class, which follow from its parameters and those of the tree.
    pub fn limits_of(&self, id: ClassId) -> Option<Limits> {
        self.node_of(id).ok().map(|node| self.nodes[node].estimator.limits)
    }

    /// The position of a leaf in the round.
    pub fn position(&self, id: ClassId) -> Option<u32> {
        let leaf = self.nodes[self.node_of(id).ok()?].leaf;
        self.leaves.get(leaf).map(|leaf| leaf.position)
    }

    /// The rate that is not allocated to children of a class.
    pub fn free_rate(&self, id: ClassId) -> Option<Rate> {
        let node = &self.nodes[self.node_of(id).ok()?];
        Some(node.class.rate.saturating_sub(Rate::from_bps(node.given)))
    }

    /// The parent of a class; `None` for the root and for unknown classes.
    pub fn parent(&self, id: ClassId) -> Option<ClassId> {
        let parent = self.nodes[self.node_of(id).ok()?].parent;
        (parent != NodeId::NONE).then(|| self.nodes[parent].id)
    }

    /// The counters of a class.
    pub fn stats(&self, id: ClassId) -> Option<&Stats> {
        self.node_of(id).ok().map(|node| &self.nodes[node].stats)
    }

    /// The state of a class at `now`.
    pub fn status(&self, id: ClassId, now: Instant) -> Option<Status> {
        let node = &self.nodes[self.node_of(id).ok()?];
        let leaf = (node.leaf != LeafId::NONE).then(|| &self.leaves[node.leaf]);
        Some(Status {
            under_time: node.estimator.under_time,
            estimate: node.estimator.estimate(now.max(self.clock)),
            level: node.level,
            backlog: leaf.map_or(Backlog::default(), |leaf| leaf.queue.backlog()),
            asleep: leaf.is_some_and(|leaf| leaf.asleep),
        })
    }

    /// Every class with its counters and its state at `now`: the root first, each class before its children. Cost: linear.
    pub fn states(&self, now: Instant) -> Vec<ClassState> {
        let mut rows = Vec::new();
        let mut left = vec![self.params.root];
        while let Some(id) = left.pop() {
            let (Ok(node), Some(status)) = (self.node_of(id), self.status(id, now)) else { continue };
            let Node { parent, children, class, stats, .. } = &self.nodes[node];
            let parent = (*parent != NodeId::NONE).then(|| self.nodes[*parent].id);
            rows.push(ClassState { class: id, parent, rate: class.rate, stats: *stats, status });
            left.extend(children.iter().rev().map(|&child| self.nodes[child].id));
        }
        rows
    }

    /// The queue of a leaf.
    pub fn queue(&self, id: ClassId) -> Option<&Q> {
        let leaf = self.nodes[self.node_of(id).ok()?].leaf;
        self.leaves.get(leaf).map(|leaf| &leaf.queue)
    }

    /// The number of leaves of a priority, and the sum of their rates.
    pub fn load(&self, priority: u8) -> (u64, Rate) {
        self.rings.get(usize::from(priority)).map_or((0, Rate::ZERO), |ring| (ring.leaves, Rate::from_bps(ring.rates)))
    }

    /// Every class, in no particular order.
    pub fn classes(&self) -> impl Iterator<Item = ClassId> {
        self.index.iter().filter(|&&node| node != NodeId::NONE).map(|&node| self.nodes[node].id)
    }

    /// The leaf for packets of `class`, or the default.
    pub(super) fn leaf_of(&self, class: ClassId) -> Option<LeafId> {
        let leaf = |id: ClassId| {
            let node = self.node_of(id).ok()?;
            let leaf = self.nodes[node].leaf;
            (leaf != LeafId::NONE).then_some(leaf)
        };
        leaf(class).or_else(|| self.params.default.and_then(leaf))
    }

    pub(super) fn node_of(&self, id: ClassId) -> Result<NodeId, TreeError> {
        self.index.get(id.0 as usize).copied().filter(|&node| node != NodeId::NONE).ok_or(TreeError::Unknown(id))
    }

    /// Checks a class to be added, and returns its parent.
    fn parent_for(&self, id: ClassId, parent: ClassId, class: &Class, level: usize) -> Result<NodeId, TreeError> {
        class.validate()?;
        if id.0 > LAST_ID {
            return Err(TreeError::IdTooLarge(id));
        }
        if self.node_of(id).is_ok() {
            return Err(TreeError::Exists(id));
        }
        let node = self.node_of(parent)?;
        if self.nodes[node].leaf != LeafId::NONE {
            return Err(TreeError::IsLeaf(parent));
        }
        let mut depth = 1;
        let mut up = node;
        while up != NodeId::NONE {
            depth += 1;
            up = self.nodes[up].parent;
        }
        // `depth` of the new class, from 1 at the root, and the levels below it.
        if depth + level - 1 > LEVELS {
            return Err(TreeError::TooDeep);
        }
        self.check_rate(node, class.rate, Rate::ZERO)?;
        Ok(node)
    }

    fn check_rate(&self, parent: NodeId, asked: Rate, had: Rate) -> Result<(), TreeError> {
        let above = &self.nodes[parent];
        // What the link has is promised, also where the root has less.
        let of = if above.parent == NodeId::NONE { self.params.link } else { above.class.rate };
        let free = of.saturating_sub(Rate::from_bps(above.given)) + had;
        if asked > free {
            return Err(TreeError::Overcommitted { parent: above.id, free, asked });
        }
        Ok(())
    }

    fn limits(&self, class: &Class) -> Limits {
        Limits::derive(&Given {
            link: self.params.link,
            rate: class.rate,
            mtu: self.params.mtu,
            packet_size: class.packet_size.unwrap_or(self.params.mtu),
            max_burst: class.max_burst,
            min_burst: class.min_burst,
            accounting: self.params.accounting,
            finish: self.params.finish,
            idle: class.idle,
        })
    }

    fn add_node(&mut self, id: ClassId, parent: NodeId, class: Class) -> Result<NodeId, TreeError> {
        if id.0 > LAST_ID {
            return Err(TreeError::IdTooLarge(id));
        }
        let limits = self.limits(&class);
        let is_root = parent == NodeId::NONE;
        let node = self.nodes.insert(Node {
            id,
            parent,
            children: Vec::new(),
            class,
            estimator: Estimator::new(limits, self.clock),
            level: if is_root { 2 } else { 1 },
            leaf: LeafId::NONE,
            given: 0,
            members: vec![Heap::new(); PRIORITIES],
            borrowers: 0,
            lends: 0,
            opened: 0,
            timer: NOWHERE,
            open: [NOWHERE; PRIORITIES],
            stats: Stats::default(),
        });
        if self.index.len() <= id.0 as usize {
            self.index.resize(id.0 as usize + 1, NodeId::NONE);
        }
        self.index[id.0 as usize] = node;
        if !is_root {
            let above = &mut self.nodes[parent];
            above.given += class.rate.as_bps();
            above.children.push(node);
        }
        Ok(node)
    }

    /// Called when a child was added under `node`: raises the levels of its ancestors.
    fn raise_levels(&mut self, mut node: NodeId, mut level: u8) {
        while node != NodeId::NONE && self.nodes[node].level < level {
            self.set_level(node, level);
            node = self.nodes[node].parent;
            level += 1;
        }
    }

    /// Called when a child of `node` was removed: lowers the levels of its ancestors.
    fn lower_levels(&mut self, mut node: NodeId) {
        while node != NodeId::NONE {
            let level = self.level_of(node);
            if level == self.nodes[node].level {
                break;
            }
            self.set_level(node, level);
            node = self.nodes[node].parent;
        }
    }

    fn level_of(&self, node: NodeId) -> u8 {
        let children = self.nodes[node].children.iter();
        children.map(|&child| self.nodes[child].level).max().unwrap_or(1) + 1
    }

    fn set_level(&mut self, node: NodeId, level: u8) {
        let was_open = self.nodes[node].opened != 0;
        self.unplace_open(node);
        self.nodes[node].level = level;
        if was_open {
            self.place_all(node);
        }
    }

    fn descends(&self, leaf: LeafId, from: NodeId) -> bool {
        let mut node = self.leaves[leaf].node;
        while node != NodeId::NONE && node != from {
            node = self.nodes[node].parent;
        }
        node == from
    }

    /// Removes a leaf from every heap and sum.
    fn leave(&mut self, leaf: LeafId) {
        self.wait_until(leaf, None);
        self.mark_unready(leaf);
        let slot = &mut self.leaves[leaf];
        slot.asleep = false;
        let ring = &mut self.rings[slot.priority];
        ring.version += 1;
        ring.leaves -= 1;
        ring.rates -= self.nodes[slot.node].class.rate.as_bps();
    }

    /// Inserts a leaf into heaps and sums; [`Self::refresh`] adds what its queue can release.
    fn join(&mut self, leaf: LeafId) {
        let chain = self.chain_of(leaf);
        let slot = &mut self.leaves[leaf];
        slot.chain = chain;
        // Computed for a version of a ring, which may have been another ring.
        slot.allotted_at = 0;
        let ring = &mut self.rings[slot.priority];
        ring.version += 1;
        ring.leaves += 1;
        ring.rates = ring.rates.saturating_add(self.nodes[slot.node].class.rate.as_bps());
    }

    /// Removes every packet from the queue of a leaf that was removed.
    fn empty(&mut self, leaf: LeafId, target: Option<LeafId>, out: &mut dyn Outlet<P>) {
        let before = self.leaves[leaf].queue.backlog();
        let mut time = self.clock;
        let mut moved_before = target.map(|to| self.leaves[to].queue.backlog());
        loop {
            // A queue that delays packets releases them at its deadlines.
            match self.leaves[leaf].queue.deadline(time) {
                Deadline::Idle => break,
                Deadline::Now => {}
                Deadline::At(t) => time = t,
            }
            let Some(packet) = self.leaves[leaf].queue.dequeue(time, out) else { continue };
            match target {
                None => out.dropped(packet, DropReason::Flushed),
                Some(to) => {
                    let node = self.leaves[to].node;
                    self.nodes[node].stats.arrived.count(packet.size());
                    self.leaves[to].queue.enqueue(self.clock, packet, out);
                }
            }
        }
        debug_assert!(self.leaves[leaf].queue.backlog().is_empty(), "an idle queue kept packets");
        self.count_change(before, Backlog::default());
        if let (Some(to), Some(moved_before)) = (target, moved_before.take()) {
            self.count_change(moved_before, self.leaves[to].queue.backlog());
            self.refresh(to);
        }
    }
}
