//! The link-sharing scheduler: which leaves may send although they are over limit.
//!
//! *Law*: a leaf may send when it is not over limit, or when, among its ancestors up to the first class that does not
//! borrow from its parent, there is one that is not over limit and that the guideline allows to lend.
//! *Source*: the 1995 paper, sections 3.2 and 3.3, and 4.3 for top-level; Risso and Gevros, section 2.1, for the
//! four rules of the other heuristic.
//!
//! The guidelines differ only in the levels that may lend:
//! - **formal**: an ancestor at level i may lend when no class below level i is unsatisfied, that is, not over limit
//!   and with a backlogged descendant. Otherwise that class lends or sends. So the levels that may lend, or send for
//!   themselves, end at the lowest one at which any class can.
//! - **ancestor-only**: every level may lend, whichever classes are unsatisfied. Rates are kept among classes of one
//!   priority only: one of a higher priority that may borrow can take all that its highest lender has, and a class of a
//!   lower priority below that lender gets nothing of its rate.
//! - **top-level**: levels up to N may lend, where N follows from a few events. It approximates the formal guideline
//!   at less cost than a walk over the tree. Here the lowest level is known at once, and top-level exists for
//!   comparison. With [`Heuristic::Floyd1995`](super::Heuristic::Floyd1995) it does not keep the rate of a class that has a queue and no arrivals:
//!   after another class has sent, N is the highest level, and what holds for ancestor-only holds until a packet
//!   arrives.
//!
//! *Cost*: one bit operation for the levels, and one comparison for each open level of a priority.

use super::Cbq;
use super::params::{HIGHEST, PRIORITIES, Sharing};
use super::state::{LeafId, NodeId};
use crate::packet::Packet;
use crate::qdisc::Qdisc;
use tidegate_units::Instant;

impl<P: Packet, Q: Qdisc<P>> Cbq<P, Q> {
    /// The leaf that sends next: of those that may, the highest priority first, then by turn.
    pub(super) fn pick(&mut self) -> Option<LeafId> {
        let open = self.rings.iter().fold(0_u32, |all, ring| all | ring.levels);
        if open == 0 {
            return self.rescue();
        }
        let lowest = open.trailing_zeros() as u8;
        let sharing = self.params.sharing;
        self.top_level = sharing.level_to_send(self.top_level, lowest);
        let highest = sharing.highest(self.top_level, lowest);
        let allowed = u32::MAX >> (31 - highest);
        let ring = self.rings.iter().find(|ring| ring.levels & allowed != 0)?;
        let mut levels = ring.levels & allowed;
        let mut best = None;
        while levels != 0 {
            let level = levels.trailing_zeros();
            levels &= levels - 1;
            let top = ring.open[level as usize].peek();
            if best.is_none_or(|best| top.is_some_and(|top| top.0 < best)) {
                best = top.map(|top| top.0);
            }
        }
        best.map(|key| key.leaf)
    }

    /// The leaf that sends although the guidelines allow none.
    fn rescue(&self) -> Option<LeafId> {
        self.link.rescue_from(&self.params, self.clock).filter(|&from| from <= self.clock)?;
        self.rings.iter().find_map(|ring| ring.rescue.peek()).map(|(key, _)| key.leaf)
    }

    /// Called at the end of each call. A kernel asks until no leaf may send, which sets the threshold of top-level link
    /// sharing to infinity (the 1995 paper, section 4.3); a timer that knows the deadline never asks in vain.
    pub(super) fn reset_if_none_may_send(&mut self) {
        if self.first_ready(self.clock).is_none_or(|at| at > self.clock) {
            self.top_level = HIGHEST;
        }
    }

    /// Called when a packet arrived for `leaf`: the rules of top-level link sharing.
    pub(super) fn arrived(&mut self, leaf: LeafId) {
        if let Sharing::TopLevel(_) = self.params.sharing {
            let lender = self.lender(leaf).map(|lender| self.nodes[lender].level);
            self.top_level = self.params.sharing.level_on_arrival(self.top_level, lender);
        }
    }

    /// Called when `leaf` has sent: the rule of top-level link sharing.
    pub(super) fn has_sent(&mut self, leaf: LeafId) {
        if let Sharing::TopLevel(_) = self.params.sharing {
            let lender = self.lender(leaf).map(|lender| self.nodes[lender].level);
            let ready = self.leaves[leaf].ready;
            self.top_level = self.params.sharing.level_once_sent(self.top_level, ready, lender);
        }
    }

    /// The lowest class that is not over limit among `leaf` and the ancestors it borrows from.
    pub(super) fn lender(&self, leaf: LeafId) -> Option<NodeId> {
        let slot = &self.leaves[leaf];
        let own = self.is_below(slot.node).then_some(slot.node);
        own.or_else(|| slot.chain.iter().map(|link| link.node).find(|&node| self.is_below(node)))
    }

    /// Whether the class is not over limit now.
    pub(super) fn is_below(&self, node: NodeId) -> bool {
        self.nodes[node].estimator.under_time <= self.clock
    }

    /// When a leaf may first send, of those whose queues can release a packet now.
    pub(super) fn first_ready(&self, now: Instant) -> Option<Instant> {
        if self.rings.iter().any(|ring| ring.levels != 0) {
            return Some(now);
        }
        let due = self.timers.peek().map(|(due, _)| due);
        match self.link.rescue_from(&self.params, now) {
            Some(rescue) if (0..PRIORITIES).any(|p| !self.rings[p].rescue.is_empty()) => {
                Some(due.map_or(rescue, |due| due.min(rescue)))
            }
            _ => due,
        }
    }

    /// When the limits allow `leaf` to send.
    pub(super) fn permitted_at(&self, leaf: LeafId, now: Instant) -> Instant {
        let slot = &self.leaves[leaf];
        let under_time = |node: NodeId| self.nodes[node].estimator.under_time;
        let own = under_time(slot.node);
        let chain = if slot.asleep { &[][..] } else { &slot.chain };
        let limit = chain.iter().fold(own, |earliest, link| earliest.min(under_time(link.node)));
        match self.link.rescue_from(&self.params, now) {
            Some(rescue) if slot.may_borrow() => limit.min(rescue),
            _ => limit,
        }
    }
}
