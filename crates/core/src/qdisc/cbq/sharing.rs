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
//!   comparison. With [`Heuristic::Floyd1995`] it does not keep the rate of a class that has a queue and no arrivals:
//!   after another class has sent, N is the highest level, and what holds for ancestor-only holds until a packet
//!   arrives.
//!
//! *Cost*: one bit operation for the levels, and one comparison for each open level of a priority.

use super::Cbq;
use super::params::{Conserving, Heuristic, LEVELS, PRIORITIES, Sharing};
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
        let highest = match self.params.sharing {
            Sharing::Formal => lowest,
            Sharing::AncestorOnly => LEVELS as u8,
            Sharing::TopLevel(heuristic) => {
                if lowest > self.top_level {
                    self.top_level = match heuristic {
                        Heuristic::Floyd1995 => LEVELS as u8,
                        Heuristic::Altq => lowest,
                    };
                }
                self.top_level
            }
        };
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
        self.rescue_from(self.clock).filter(|&from| from <= self.clock)?;
        self.rings.iter().find_map(|ring| ring.rescue.peek()).map(|(key, _)| key.leaf)
    }

    /// From when on a leaf may send although the guidelines allow none; `None` for never.
    fn rescue_from(&self, now: Instant) -> Option<Instant> {
        match self.params.conserving {
            Conserving::Strict => None,
            Conserving::Efficient => Some(now),
            Conserving::WhenLinkIdle => Some(self.link_free),
        }
    }

    /// Called at the end of each call. A kernel asks until no leaf may send, which sets the threshold of top-level link
    /// sharing to infinity (the 1995 paper, section 4.3); a timer that knows the deadline never asks in vain.
    pub(super) fn reset_if_none_may_send(&mut self) {
        if self.first_ready(self.clock).is_none_or(|at| at > self.clock) {
            self.top_level = LEVELS as u8;
        }
    }

    /// Called when a packet arrived for `leaf`: the rules of top-level link sharing.
    pub(super) fn arrived(&mut self, leaf: LeafId) {
        if let Sharing::TopLevel(_) = self.params.sharing
            && let Some(lender) = self.lender(leaf)
        {
            self.top_level = self.top_level.min(self.nodes[lender].level);
        }
    }

    /// Called when `leaf` has sent: the rule of top-level link sharing.
    pub(super) fn has_sent(&mut self, leaf: LeafId) {
        if self.params.sharing == Sharing::TopLevel(Heuristic::Floyd1995) {
            let slot = &self.leaves[leaf];
            let may_go_on =
                self.lender(leaf).is_some_and(|lender| slot.ready && self.nodes[lender].level <= self.top_level);
            if !may_go_on {
                self.top_level = LEVELS as u8;
            }
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
        match self.rescue_from(now) {
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
        match self.rescue_from(now) {
            Some(rescue) if slot.may_borrow() => limit.min(rescue),
            _ => limit,
        }
    }
}
