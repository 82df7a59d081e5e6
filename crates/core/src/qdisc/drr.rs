//! DRR: deficit round robin over exact flows.
//!
//! *Law*: flows with something to send take turns; in a turn a flow may send its quantum times its weight, and what
//! it could not use for the size of its next packet it keeps, until it runs empty. Of two flows that are busy all
//! through an interval, the bytes sent divided by weight differ by less than quantum + 2 largest packets.
//! *Source*: Shreedhar and Varghese, "Efficient fair queueing using deficit round robin" (1995).
//! *Units*: bytes; weights are whole numbers, found by the packet's profile.
//! *Example*: below.
//! *Cost*: O(1) a call, one hash look-up an enqueue; at most two flows are visited a dequeue, because the quantum is
//! never less than the largest packet seen. No allocation after warm-up.
//! *Notes*: a flow exists while it has packets, so there are never more flows than packets, and the limit bounds the
//! memory. Flows are distinguished by 64-bit keys, not by buckets: none shares a queue.
//! *Departures from the source, and why*: exact flows instead of hashed ones ([`sfq`](crate::sfq) has those); at
//! overflow the head of the longest queue (within 1/9) is dropped, not its tail: the sender detects the loss
//! earlier, by the time that the queue takes.
//! With `step` the packets of ECT(1) are marked by the [`step`], which the source does not have.
//! *See also*: [`sfq`](crate::sfq), [`fq_codel`](crate::fq_codel).
//!
//! ```
//! use tidegate_core::{drr::{Drr, Params}, qdisc::{Discard, Qdisc}, *};
//! # #[derive(Debug)] struct P(u64, u64);
//! # impl Packet for P { fn size(&self) -> Bytes { Bytes::new(self.1) } fn flow(&self) -> FlowKey { FlowKey::numbered(self.0) } }
//! let mut queue = Drr::new(Params { quantum: Bytes::new(500), ..Params::default() })?;
//! for size in [200, 200, 200] { queue.enqueue(Instant::ZERO, P(1, size), &mut Discard); }
//! for size in [500, 500] { queue.enqueue(Instant::ZERO, P(2, size), &mut Discard); }
//! let order: Vec<_> = (0..5).map(|_| queue.dequeue(Instant::ZERO, &mut Discard).unwrap().0).collect();
//! // 500 pays for two packets of 200 (100 are kept), then for one of 500, and so on.
//! assert_eq!(order, [1, 1, 2, 1, 2]);
//! # Ok::<(), ParamError>(())
//! ```

use alloc::vec::Vec;

use crate::fifo::Limit;
use crate::key_index::KeyIndex;
use crate::packet::Packet;
use crate::params::ParamError;
use crate::qdisc::{Backlog, Deadline, DropReason, Outlet, Qdisc, Queued};
use crate::round::{Round, Share, check_quantum};
use crate::slab::{Slab, reusable};
use crate::step::{self, Step};
use tidegate_units::{Bytes, Instant};

/// Parameters.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Params {
    /// Bytes a turn for weight 1; the largest packet seen where that is more.
    pub quantum: Bytes,
    /// The weight of each profile, 1 to 1,000; profiles beyond the list have weight 1.
    pub weights: Vec<u16>,
    /// The step for packets of ECT(1), if there is one.
    pub step: Option<Step>,
    /// The most that all flows together may hold.
    pub limit: Limit,
}

impl Default for Params {
    /// An Ethernet MTU, equal weights, 1,000 packets.
    fn default() -> Self {
        Self { quantum: Bytes::new(1_514), weights: Vec::new(), step: None, limit: Limit::packets(1_000) }
    }
}

impl Params {
    /// Checks the parameters.
    ///
    /// # Errors
    /// A quantum outside 64 B to 1 MiB; a weight outside 1 to 1,000; as [`Step::validate`].
    pub fn validate(self) -> Result<Self, ParamError> {
        check_quantum(self.quantum)?;
        if self.weights.iter().any(|weight| !(1..=1_000).contains(weight)) {
            return Err(ParamError::new("weights", "each must be 1 to 1000"));
        }
        self.step.map(Step::validate).transpose()?;
        Ok(self)
    }
}

/// Counts since the start.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Stats {
    /// Packets dropped because the limit was passed.
    pub overflowed: u64,
    /// Flows that became busy.
    pub started: u64,
    /// Most flows that were busy at once.
    pub most_flows: u64,
    /// Packets marked.
    pub marked: u64,
}

#[derive(Clone, Debug)]
struct Flow {
    key: u64,
    share: Share,
}

reusable!(Flow, share: u32);

/// Deficit round robin. See the [module](self).
#[derive(Clone, Debug)]
pub struct Drr<P> {
    weights: Vec<u16>,
    step: Option<Step>,
    flows: Slab<u32, Flow>,
    index: KeyIndex,
    round: Round<P>,
    stats: Stats,
    latest: Instant,
}

impl<P: Packet> Drr<P> {
    /// Creates a scheduler without flows.
    ///
    /// # Errors
    /// As [`Params::validate`].
    pub fn new(params: Params) -> Result<Self, ParamError> {
        let Params { quantum, weights, step, limit } = params.validate()?;
        Ok(Self {
            weights,
            step,
            flows: Slab::default(),
            index: KeyIndex::with_capacity(64),
            round: Round::new(quantum, limit),
            stats: Stats::default(),
            latest: Instant::ZERO,
        })
    }
    /// Counts since the start.
    pub fn stats(&self) -> &Stats {
        &self.stats
    }
    /// Flows with queued packets.
    pub fn flows(&self) -> usize {
        self.index.len()
    }

    fn flow_of(&mut self, packet: &P) -> u32 {
        let key = packet.flow().flow;
        let new = self.flows.next();
        let index = self.index.find_or_insert(key, new, |index| self.flows[index].key == key);
        if index != new {
            return index;
        }
        let weight = self.weights.get(packet.profile() as usize).copied().unwrap_or(1);
        self.flows.insert(Flow { key, share: Share::new(weight) });
        self.stats.started += 1;
        self.stats.most_flows = self.stats.most_flows.max(self.index.len() as u64);
        index
    }

    /// Takes the first packet of a flow, whose record ends with its last packet; returns it with the instant it arrived at,
    /// and the number of packets that it leaves behind.
    fn pop(&mut self, index: u32) -> Option<(P, Instant, u64)> {
        let flow = &mut self.flows[index];
        let (packet, arrived) = self.round.pop(index, &mut flow.share)?;
        let behind = flow.share.packets();
        if behind == 0 {
            self.index.remove(flow.key, index);
            self.flows.release(index);
        }
        Some((packet, arrived, behind))
    }
}

impl<P: Packet> Qdisc<P> for Drr<P> {
    fn enqueue(&mut self, now: Instant, packet: P, out: &mut dyn Outlet<P>) -> Queued {
        self.latest = self.latest.max(now);
        if !self.round.pool().can_hold(packet.size()) {
            return out.refused(packet, DropReason::QueueLimit);
        }
        let index = self.flow_of(&packet);
        self.round.push(index, &mut self.flows[index].share, packet, self.latest);
        while let Some((packet, ..)) = self.round.pool().over_limit().and_then(|longest| self.pop(longest)) {
            self.stats.overflowed += 1;
            out.dropped(packet, DropReason::FlowLimit);
        }
        Queued::default()
    }

    fn dequeue(&mut self, now: Instant, out: &mut dyn Outlet<P>) -> Option<P> {
        self.latest = self.latest.max(now);
        let index = self.round.next(&mut self.flows, |flow| &mut flow.share)?;
        let (mut packet, arrived, behind) = self.pop(index)?;
        self.stats.marked += u64::from(step::apply(self.step, &mut packet, arrived, self.latest, behind, out));
        Some(packet)
    }

    fn deadline(&self, _now: Instant) -> Deadline {
        self.round.pool().deadline()
    }

    fn backlog(&self) -> Backlog {
        self.round.pool().backlog()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::FlowKey;

    #[derive(Clone, Copy, Debug, PartialEq)]
    struct P {
        flow: u64,
        size: u64,
        profile: u32,
    }
    impl Packet for P {
        fn size(&self) -> Bytes {
            Bytes::new(self.size)
        }
        fn flow(&self) -> FlowKey {
            FlowKey::numbered(self.flow)
        }
        fn profile(&self) -> u32 {
            self.profile
        }
    }

    #[test]
    fn service_is_by_weight_whatever_the_packet_sizes() {
        let params = Params { weights: alloc::vec![1, 3], limit: Limit::NONE, ..Params::default() };
        let mut queue = Drr::new(params).unwrap();
        let flows = [(1, 1_500, 0), (2, 64, 0), (3, 700, 1)];
        for (flow, size, profile) in flows {
            (0..1_000_000 / size).for_each(|_| {
                queue.enqueue(Instant::ZERO, P { flow, size, profile }, &mut crate::qdisc::Discard);
            });
        }
        let mut sent = [0_u64; 4];
        while sent.iter().sum::<u64>() < 1_000_000 {
            let packet = queue.dequeue(Instant::ZERO, &mut crate::qdisc::Discard).unwrap();
            sent[packet.flow as usize] += packet.size;
            // Within quantum + 2 largest packets of each other at every moment: 1514 + 3000 = 4514, by weight.
            let service = [sent[1], sent[2], sent[3] / 3];
            assert!(service.iter().max().unwrap() - service.iter().min().unwrap() < 4_514, "{sent:?}");
        }
    }

    #[test]
    fn a_flood_of_one_packet_flows_does_not_grow_memory() {
        let mut queue = Drr::new(Params { limit: Limit::packets(100), ..Params::default() }).unwrap();
        for flow in 0..100_000 {
            queue.enqueue(Instant::ZERO, P { flow, size: 100, profile: 0 }, &mut crate::qdisc::Discard);
        }
        assert_eq!((queue.flows(), queue.stats().most_flows), (100, 101));
        assert!(queue.flows.slots() <= 101);
    }
}
