//! The link-sharing scheduler: who may send although it is over its limit.
//!
//! *Law*: a leaf may send when it is not over its limit, or when, going up from it as long as each class borrows
//! from its parent, there is an ancestor that is not over its limit and that the guideline lets lend.
//! *Source*: the 1995 paper, sections 3.2 and 3.3, and 4.3 for top-level; Risso and Gevros, section 2.1, for the
//! four rules of the other heuristic.
//!
//! Which levels may lend is all that the guidelines differ in:
//! - **formal**: an ancestor at level i may lend when no class below level i is unsatisfied, that is, not over limit
//!   and with a descendant that has something to send. If one is, it is for that class to lend, or to send.
//!   So the levels that may lend, or send for themselves, end at the lowest one where anybody can.
//! - **ancestor-only**: every level may lend, whoever else is unsatisfied.
//! - **top-level**: levels up to N may lend, where N follows from a few events. It approaches the formal guideline
//!   at less cost than a walk over the tree; here, where the lowest level is known at once, it is there to compare.
//!
//! *Cost*: one bit operation for the levels, and one look at each open level of a priority.

use super::{Cbq, Conserving, LEVELS, PRIORITIES};
use crate::packet::Packet;
use crate::qdisc::Qdisc;
use tidegate_units::Instant;

/// Who may borrow.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Sharing {
    /// The formal guidelines.
    Formal,
    /// From any ancestor that is not over limit.
    AncestorOnly,
    /// From ancestors up to a level that a heuristic sets.
    TopLevel(Heuristic),
}

/// How top-level link sharing sets its level N.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Heuristic {
    /// The 1995 paper. A packet arrives for a class that is not over limit: N is 1. For one that is, with an
    /// ancestor that is not, at a level j below N: N is j. A class has sent, and has nothing more to send or may not
    /// go on: N is the highest level.
    Floyd1995,
    /// The implementation that Risso and Gevros measured. The first two rules are the same. Nobody can send: N rises
    /// one by one until somebody can, and is the highest level when nobody can at all.
    Altq,
}

impl<P: Packet, Q: Qdisc<P>> Cbq<P, Q> {
    /// The leaf that sends next: highest priority first, then its turn in the round, among those that may.
    pub(super) fn pick(&mut self) -> Option<u32> {
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

    /// Nobody may send by the guidelines: the one who sends all the same.
    fn rescue(&self) -> Option<u32> {
        let may = match self.params.conserving {
            Conserving::Strict => false,
            Conserving::Efficient => true,
            Conserving::WhenLinkIdle => self.link_free <= self.clock,
        };
        if !may {
            return None;
        }
        self.rings.iter().find_map(|ring| ring.rescue.peek()).map(|(key, _)| key.leaf)
    }

    /// The scheduler was asked, and nobody could send.
    pub(super) fn nobody(&mut self) {
        self.top_level = LEVELS as u8;
    }

    /// A packet arrived for `leaf`: the rules of top-level link sharing.
    pub(super) fn arrived(&mut self, leaf: u32) {
        if let Sharing::TopLevel(_) = self.params.sharing
            && let Some(lender) = self.lender(leaf)
        {
            self.top_level = self.top_level.min(self.nodes[lender as usize].level);
        }
    }

    /// `leaf` has sent: the rule of top-level link sharing.
    pub(super) fn has_sent(&mut self, leaf: u32) {
        if self.params.sharing == Sharing::TopLevel(Heuristic::Floyd1995) {
            let slot = &self.leaves[leaf as usize];
            let may_go_on = self
                .lender(leaf)
                .is_some_and(|lender| slot.ready && self.nodes[lender as usize].level <= self.top_level);
            if !may_go_on {
                self.top_level = LEVELS as u8;
            }
        }
    }

    /// The lowest class on the way of borrowing of `leaf`, itself included, that is not over limit.
    pub(super) fn lender(&self, leaf: u32) -> Option<u32> {
        let slot = &self.leaves[leaf as usize];
        let own = self.is_below(slot.node).then_some(slot.node);
        own.or_else(|| slot.chain.iter().map(|link| link.node).find(|&node| self.is_below(node)))
    }

    /// Whether the class is not over limit now.
    pub(super) fn is_below(&self, node: u32) -> bool {
        self.nodes[node as usize].estimator.under_time <= self.clock
    }

    /// When somebody may first send, of those whose queues can give a packet now.
    pub(super) fn first_ready(&self, now: Instant) -> Option<Instant> {
        if self.rings.iter().any(|ring| ring.levels != 0) {
            return Some(now);
        }
        let due = self.timers.peek().map(|(due, _)| due);
        let rescue = match self.params.conserving {
            Conserving::Strict => None,
            Conserving::Efficient => Some(now),
            Conserving::WhenLinkIdle => Some(self.link_free),
        };
        match rescue {
            Some(rescue) if (0..PRIORITIES).any(|p| !self.rings[p].rescue.is_empty()) => {
                Some(due.map_or(rescue, |due| due.min(rescue)))
            }
            _ => due,
        }
    }

    /// When `leaf` may send, as far as its limits go.
    pub(super) fn permitted_at(&self, leaf: u32, now: Instant) -> Instant {
        let slot = &self.leaves[leaf as usize];
        let under_time = |node: u32| self.nodes[node as usize].estimator.under_time;
        let own = under_time(slot.node);
        let chain = if slot.asleep { &[][..] } else { &slot.chain };
        let limit = chain.iter().fold(own, |earliest, link| earliest.min(under_time(link.node)));
        match self.params.conserving {
            Conserving::Efficient if slot.may_borrow() => now,
            Conserving::WhenLinkIdle if slot.may_borrow() => limit.min(self.link_free),
            _ => limit,
        }
    }
}
