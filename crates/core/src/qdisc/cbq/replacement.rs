//! The state that a tree takes over from its predecessor, and the replacement of queues at run time.

use super::Cbq;
use super::link::LinkUse;
use super::params::Lead;
use super::state::LeafId;
use super::tree::TreeError;
use crate::packet::{ClassId, Packet};
use crate::qdisc::Qdisc;
use crate::slab::Slot as _;
use tidegate_units::{Credit, Instant, Span};

impl<P: Packet, Q: Qdisc<P>> Cbq<P, Q> {
    /// Replaces the queue of a leaf and returns the old one with its packets. The use of the class and its position
    /// in the round are kept.
    ///
    /// # Errors
    /// [`TreeError::Unknown`] or [`TreeError::NotLeaf`].
    pub fn replace_queue(&mut self, now: Instant, id: ClassId, queue: Q) -> Result<Q, TreeError> {
        self.advance(now);
        let leaf = self.nodes[self.node_of(id)?].leaf;
        if leaf == LeafId::NONE {
            return Err(TreeError::NotLeaf(id));
        }
        let old = core::mem::replace(&mut self.leaves[leaf].queue, queue);
        self.count_change(old.backlog(), self.leaves[leaf].queue.backlog());
        self.refresh(leaf);
        Ok(old)
    }

    /// Takes over from `old` the use of the link and, for each class for which `predecessor` returns a class of
    /// `old`, its use and statistics, as far as the new parameters allow. For a tree without queued packets: a busy
    /// link stays busy, and no class gains a burst.
    pub fn succeed<R: Qdisc<P>>(
        &mut self,
        now: Instant,
        old: &Cbq<P, R>,
        predecessor: impl Fn(ClassId) -> Option<ClassId>,
    ) {
        self.advance(now);
        self.link = LinkUse::default();
        self.link.free = old.link.free;
        self.served = None;
        for at in self.nodes.all() {
            let id = self.nodes[at].id;
            if self.index.get(id.0 as usize) != Some(&at) {
                continue;
            }
            let before = if id == self.params.root { Some(old.params.root) } else { predecessor(id) };
            let Some(node) = before.and_then(|id| old.node_of(id).ok()) else { continue };
            let limits = self.nodes[at].estimator.limits;
            self.nodes[at].estimator = old.nodes[node].estimator;
            self.nodes[at].estimator.set_limits(limits, self.clock);
            self.nodes[at].stats = old.nodes[node].stats;
            self.place(at, 0);
        }
    }

    /// The credit with which packets may leave now, beyond what the link earns from now on: the rest of its lead, and
    /// a packet. Negative when the link is further ahead. `None` when the link has no lead.
    pub fn allowance(&self, now: Instant) -> Option<Credit> {
        let Lead::Within(lead) = self.params.lead else { return None };
        let busy = self.params.link.credit_in(self.link.free.since(now.max(self.clock)));
        Some(self.params.link.credit_in(lead) + Credit::of(self.params.mtu) - busy)
    }

    /// Limits the credit at `now` to `allowance`.
    pub fn limit_allowance(&mut self, now: Instant, allowance: Credit) {
        self.advance(now);
        if let Lead::Within(lead) = self.params.lead {
            let missing = self.params.link.credit_in(lead) + Credit::of(self.params.mtu) - allowance;
            let busy = missing.max(Credit::ZERO).time_at_ceil(self.params.link).unwrap_or(Span::ZERO);
            self.link.idle_until(self.clock + busy);
        }
    }

    /// Sets the lateness that is compensated; see [`Params::catch_up`](super::Params::catch_up).
    pub fn set_catch_up(&mut self, catch_up: Span) {
        self.params.catch_up = catch_up;
    }
}
