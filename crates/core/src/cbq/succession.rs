//! What a tree takes over when it succeeds another, and queues that change while their class goes on.

use super::{Cbq, Lead, TreeError};
use crate::heap::NOWHERE;
use crate::packet::{ClassId, Packet};
use crate::qdisc::Qdisc;
use tidegate_units::{Credit, Instant, Span};

impl<P: Packet, Q: Qdisc<P>> Cbq<P, Q> {
    /// Puts another queue into a leaf, and gives the old one back with what it holds. What the class has used, and its
    /// place in the round, are kept.
    ///
    /// # Errors
    /// [`TreeError::Unknown`] or [`TreeError::NotLeaf`].
    pub fn replace_queue(&mut self, now: Instant, id: ClassId, queue: Q) -> Result<Q, TreeError> {
        self.advance(now);
        let leaf = self.nodes[self.node_of(id)? as usize].leaf;
        if leaf == NOWHERE {
            return Err(TreeError::NotLeaf(id));
        }
        let old = core::mem::replace(&mut self.leaves[leaf as usize].queue, queue);
        self.count_change(old.backlog(), self.leaves[leaf as usize].queue.backlog());
        self.refresh(leaf);
        Ok(old)
    }

    /// Takes over from `old` what has been used of the link and, for each class for which `predecessor` names one
    /// there, what it has used and its statistics; as far as the new parameters allow. For a tree in which nothing waits
    /// yet: a link that was busy stays busy, and no class gains a burst by the change.
    pub fn succeed<R: Qdisc<P>>(
        &mut self,
        now: Instant,
        old: &Cbq<P, R>,
        predecessor: impl Fn(ClassId) -> Option<ClassId>,
    ) {
        self.advance(now);
        (self.link_free, self.link_rest) = (old.link_free, Credit::ZERO);
        self.served = None;
        for at in 0..self.nodes.len() {
            let id = self.nodes[at].id;
            if self.index.get(id.0 as usize) != Some(&(at as u32)) {
                continue;
            }
            let before = if id == self.params.root { Some(old.params.root) } else { predecessor(id) };
            let Some(node) = before.and_then(|id| old.node_of(id).ok()) else { continue };
            let limits = self.nodes[at].estimator.limits;
            self.nodes[at].estimator = old.nodes[node as usize].estimator;
            self.nodes[at].estimator.set_limits(limits, self.clock);
            self.nodes[at].stats = old.nodes[node as usize].stats;
            self.place(at as u32, 0);
        }
    }

    /// What may leave at once now, beyond what the link earns from now on: what its lead leaves, and a packet. A debt
    /// when the link is further ahead than that. `None` when the link does not bound what leaves.
    pub fn allowance(&self, now: Instant) -> Option<Credit> {
        let Lead::Within(lead) = self.params.lead else { return None };
        let busy = self.params.link.credit_in(self.link_free.since(now.max(self.clock)));
        Some(self.params.link.credit_in(lead) + Credit::of(self.params.mtu) - busy)
    }

    /// No more than `allowance` may leave at once at `now`.
    pub fn limit_allowance(&mut self, now: Instant, allowance: Credit) {
        self.advance(now);
        if let Lead::Within(lead) = self.params.lead {
            let missing = self.params.link.credit_in(lead) + Credit::of(self.params.mtu) - allowance;
            let busy = missing.max(Credit::ZERO).time_at_ceil(self.params.link).unwrap_or(Span::ZERO);
            self.rest_link(self.clock + busy);
        }
    }

    /// Another bound on the lateness that is made up for; see [`Params::catch_up`](super::Params::catch_up).
    pub fn set_catch_up(&mut self, catch_up: Span) {
        self.params.catch_up = catch_up;
    }
}
