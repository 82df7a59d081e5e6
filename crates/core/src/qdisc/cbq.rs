//! Class-based queueing: a tree of classes that share a link. Each class is guaranteed its rate, and unused rate is
//! lent to others by the link-sharing guidelines.
//!
//! *Law*: a leaf sends exactly when it is not over limit, or when the link-sharing guideline allows it to borrow from
//! an ancestor that is not over limit. Of the leaves that may send, those of the highest priority do, each in
//! proportion to its rate. See [`estimator`] for the definition of "over limit", [`sharing`] for the guidelines.
//! *Source*: S. Floyd and V. Jacobson, "Link-sharing and resource management models for packet networks", 1995, for
//! the algorithm; F. Risso and P. Gevros, "Operational and performance issues of a CBQ router", 1999, for the rules
//! of the implementation they measured, its defects and their corrections. Section numbers refer to the latter.
//! *Units*: rates in bit/s, sizes in bytes as reported by the packet, times in ns.
//! *Cost*: for a tree of depth d with n backlogged classes, O(d log n) per call, independent of the number of other
//! classes; O(d) where classes are served in turn, whose keys rise, or are not over limit. A class that comes below its limit costs O(d log n)
//! once, in the call that detects it. No allocation once every class has reached its longest queue. `deadline` is O(1),
//! except for classes whose queue delays packets: it examines each of these that releases a packet before the result.
//! *Notes*: at most 31 levels, 8 priorities (0 goes first), class numbers below 2^20. A class needs a rate of at
//! least 1 bit/s, and the sum of the rates under a class may not exceed its own. A packet of an unknown class goes to
//! the default class, or is dropped with [`DropReason::NoClass`]. Top-level sharing learns from arrivals alone that a class is
//! below its limit, and ancestor-only sharing does not ask: beside a class whose packets have all arrived, a borrowing class
//! of higher priority can take the link until the next one does, whatever its own rate (649 of 667 packets of the first second
//! for a class of 1 % with [`Accounting::IdleTime`]). While both send it has its rate and its burst; formal sharing holds both.
//!
//! Call the scheduler when the link, or the driver before it, can take a packet. It knows the link's rate and keeps a
//! clock of when the packets it released are expected to have left. A driver that takes many packets at once makes
//! this clock run ahead of time; [`LinkClock`] selects what happens then.
//!
//! # The defects that the paper found, and their corrections
//! [`Params::new`] has the corrections, [`Params::altq`] the defects; each can be selected separately.
//!
//! | defect | section | parameter |
//! | --- | --- | --- |
//! | the under-time is taken from the expected finish time, and classes wait too long | 6, 6.1 | [`Finish`] |
//! | the clock of expected finish times is set back, and every class appears over limit | 6.1 | [`LinkClock`] |
//! | a suspended class stays suspended although its parent has come below its limit | 6.1 | [`Regulation`] |
//! | `efficient` fills the driver's buffers and hurts TCP | 6.1 | [`Conserving`] |
//! | packets wait in the driver, outside the classes | 4, 5 | [`Lead`] |
//! | the rate depends on a configured packet size | 6.3 | [`Accounting`] |
//! | larger bursts cost throughput | 6.4 | [`Accounting`] |
//!
//! # Departures from the sources, and why
//! - "At limit" is one nanosecond wide here: a class is either over its limit or not.
//! - For the formal guideline a class is unsatisfied only because of a descendant that may borrow from it. Otherwise
//!   a backlogged class that may not borrow could keep the link idle for all its ancestors.
//! - Only the class whose own packet took it over its limit is suspended. The implementation also suspended every
//!   class that its scan of the ring visited, which is linear work.
//! - A class keeps its position in the round while it may not send, and loses the turns it could not use. One that
//!   becomes backlogged again within a round has the rest of its turn, and no more.
//! - A turn that needs the allotments of several rounds (small class, large packet) is granted in one step; the order
//!   is the same as with the rounds one by one.
//!
//! *See also*: a hierarchical token bucket bounds the same rates but lends by ceilings, not by guidelines; fair
//! bandwidth queueing shares per flow within a class.
//!
//! ```
//! use tidegate_core::{cbq::{Cbq, Class, Params}, fifo::{Fifo, Limit}, qdisc::{Discard, Qdisc}, *};
//! # #[derive(Debug)] struct P(u32, u64);
//! # impl Packet for P {
//! #     fn size(&self) -> Bytes { Bytes::new(self.1) }
//! #     fn flow(&self) -> FlowKey { FlowKey::default() }
//! #     fn class(&self) -> ClassId { ClassId(self.0) }
//! # }
//! let root = ClassId(1);
//! let mut cbq = Cbq::<P>::new(Params::new(Rate::from_mbit(10), Bytes::new(1500), root))?;
//! let queue = || Box::new(Fifo::new(Limit::packets(50)));
//! cbq.add_leaf(Instant::ZERO, ClassId(2), root, Class::new(Rate::from_mbit(7)).borrowing(), queue())?;
//! cbq.add_leaf(Instant::ZERO, ClassId(3), root, Class::new(Rate::from_mbit(3)), queue())?;
//! cbq.enqueue(Instant::ZERO, P(3, 1500), &mut Discard);
//! assert_eq!(cbq.dequeue(Instant::ZERO, &mut Discard).unwrap().0, 3);
//! # Ok::<(), cbq::TreeError>(())
//! ```

use alloc::boxed::Box;
use alloc::vec::Vec;

use crate::dualpi2::Coupled;
use crate::heap::Heap;
use crate::packet::{ClassId, Packet};
use crate::qdisc::{Backlog, Deadline, DropReason, Outlet, Qdisc, Queued};
use crate::slab::{Slab, Slot as _};
use tidegate_units::Instant;

pub mod estimator;
mod limits;
mod link;
mod params;
mod replacement;
mod scheduler;
pub mod sharing;
mod state;
mod tree;
mod turn;

pub use estimator::{Accounting, Derivation, Estimate, Finish, IdleBounds};
pub use limits::Limits;
pub use params::{
    Borrow, Class, Conserving, General, Heuristic, LEVELS, Lead, LinkClock, PRIORITIES, Params, Regulation, Sharing,
};
pub use state::{ClassState, Measured, Stats, Status};
pub use tree::{Removal, TreeError};

use link::LinkUse;
use state::{Leaf, LeafId, Node, NodeId, Ring};

/// The last leaf that sent, and the class whose rate it used.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Served {
    /// The class of the leaf.
    pub class: ClassId,
    /// The class whose allocation it used: itself, or the lowest ancestor it borrows from that was not over limit.
    /// `None` when no class had rate left ([`Conserving`]).
    pub lender: Option<ClassId>,
}

/// A tree of classes that share a link. See the [module](self).
#[derive(Clone, Debug)]
pub struct Cbq<P, Q = Box<dyn Qdisc<P>>> {
    params: Params,
    clock: Instant,
    backlog: Backlog,
    link: LinkUse,
    /// The highest level that may lend under top-level link sharing.
    top_level: u8,
    served: Option<Served>,

    /// Class number to node, densely.
    index: Vec<NodeId>,
    nodes: Slab<NodeId, Node>,
    leaves: Slab<LeafId, Leaf<P, Q>>,
    rings: [Ring; PRIORITIES],
    next_turn: u32,

    /// Classes over limit with possible borrowers, by under-time.
    timers: Heap<Instant, NodeId>,
    /// Leaves whose queue delays packets, by its deadline.
    waiting: Heap<Instant, LeafId>,
}

impl<P: Packet, Q: Qdisc<P>> Cbq<P, Q> {
    /// The highest level that may lend now, under top-level link sharing.
    pub fn top_level(&self) -> u8 {
        self.top_level
    }
    /// Returns the parameters.
    pub fn params(&self) -> &Params {
        &self.params
    }
    /// The last leaf that sent.
    pub fn last_served(&self) -> Option<Served> {
        self.served
    }
    /// When the packets released so far are expected to have left the link.
    pub fn link_free(&self) -> Instant {
        self.link.free
    }

    /// Advances the clock, never back, and admits the classes that may send by now.
    fn advance(&mut self, now: Instant) {
        let now = self.clock.max(now);
        // Each event at its own time and in their order, so that it does not matter how many calls there were meanwhile.
        loop {
            let (timer, wait) = (self.timers.peek(), self.waiting.peek());
            match (timer, wait) {
                (Some((due, node)), _) if due <= now && wait.is_none_or(|(wait, _)| due <= wait) => {
                    self.clock = self.clock.max(due);
                    self.came_below(node);
                }
                (_, Some((due, leaf))) if due <= now => {
                    self.clock = self.clock.max(due);
                    self.refresh(leaf);
                }
                _ => break,
            }
        }
        self.clock = now;
    }
}

impl<P: Packet, Q: Qdisc<P>> Qdisc<P> for Cbq<P, Q> {
    fn enqueue(&mut self, now: Instant, packet: P, out: &mut dyn Outlet<P>) -> Queued {
        self.advance(now);
        let Some(leaf) = self.leaf_of(packet.class()) else {
            return out.refused(packet, DropReason::NoClass);
        };
        let size = packet.size();
        if self.backlog.is_empty() {
            // Capacity before a packet was queued is not compensated.
            self.link.idle_until(self.clock);
        }
        let node = self.leaves[leaf].node;
        self.nodes[node].stats.arrived.count(size);
        let slot = &mut self.leaves[leaf];
        let before = slot.queue.backlog();
        slot.queue.enqueue(self.clock, packet, out);
        let after = slot.queue.backlog();
        self.count_change(before, after);
        self.arrived(leaf);
        self.refresh(leaf);
        if before.is_empty() && !after.is_empty() {
            self.regulate_if_stuck(leaf);
        }
        self.reset_if_none_may_send();
        Queued::default()
    }

    fn dequeue(&mut self, now: Instant, out: &mut dyn Outlet<P>) -> Option<P> {
        self.advance(now);
        if self.link.earliest_release(&self.params) > self.clock {
            return None;
        }
        loop {
            let pick = self.pick()?;
            let slot = &mut self.leaves[pick];
            let before = slot.queue.backlog();
            let packet = slot.queue.dequeue(self.clock, out);
            let after = slot.queue.backlog();
            self.count_change(before, after);
            if let Some(packet) = packet {
                self.serve(pick, packet.size());
                self.reset_if_none_may_send();
                return Some(packet);
            }
            if before == after {
                debug_assert!(false, "a queue returned Deadline::Now and released nothing");
                self.mark_unready(pick);
            } else {
                self.refresh(pick);
            }
        }
    }

    fn deadline(&self, now: Instant) -> Deadline {
        let now = now.max(self.clock);
        let mut earliest = self.first_ready(now);
        self.waiting.visit_before(&mut |due, leaf| {
            let due = due.max(self.permitted_at(leaf, now));
            earliest = Some(earliest.map_or(due, |e| e.min(due)));
            earliest
        });
        match earliest {
            Some(t) if t < Instant::MAX => Deadline::at(t.max(self.link.earliest_release(&self.params)), now),
            _ => Deadline::Idle,
        }
    }

    fn backlog(&self) -> Backlog {
        self.backlog
    }

    fn coupled(&self, class: ClassId, now: Instant) -> Option<Coupled> {
        let leaf = self.nodes[self.node_of(class).ok()?].leaf;
        if leaf == LeafId::NONE { None } else { self.leaves[leaf].queue.coupled(class, now) }
    }
}
