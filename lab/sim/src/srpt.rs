//! [`Srpt`]: shortest remaining processing time, the bound that no discipline on a real network reaches.
//!
//! *Law*: the next packet to leave belongs to the flow with the fewest bytes remaining: those queued here plus those
//! that its sender has not sent yet ([`Packet::remaining`]). A flow whose sender does not report this comes last. When
//! the limit is exceeded, the newest packet of the flow with the most bytes remaining is dropped.
//! *Source*: Schrage, "A proof of the optimality of the shortest remaining processing time discipline" (1968): no
//! order of service has a smaller mean completion time on one server.
//! *Cost*: O(log n) in the number of queued flows, with an allocation for each flow. It is meant for experiments.
//! *Notes*: only the simulator knows how much a sender has still to send. With TCP the bound is not exact: senders wait
//! for acknowledgements, so the server does not always have all remaining data to choose from.
//! *See also*: [`mered`](tidegate_core::mered), which estimates flow sizes from the bytes sent so far.

use std::collections::{BTreeSet, HashMap, VecDeque};

use tidegate_core::fifo::Limit;
use tidegate_core::{Backlog, Deadline, DropReason, Instant, Outlet, Packet, Qdisc, Queued};

#[derive(Debug)]
struct Flow<P> {
    queue: VecDeque<P>,
    bytes: u64,
    unsent: u64,
    /// Arrival order, which breaks ties between flows of equal rank.
    order: u64,
}

impl<P> Flow<P> {
    fn rank(&self, key: u64) -> (u64, u64, u64) {
        (self.unsent.saturating_add(self.bytes), self.order, key)
    }
}

/// Shortest remaining processing time. See the [module](self).
#[derive(Debug)]
pub struct Srpt<P> {
    flows: HashMap<u64, Flow<P>>,
    ranks: BTreeSet<(u64, u64, u64)>,
    backlog: Backlog,
    limit: Limit,
    orders: u64,
}

impl<P: Packet> Srpt<P> {
    /// An empty queue.
    pub fn new(limit: Limit) -> Self {
        Self { flows: HashMap::new(), ranks: BTreeSet::new(), backlog: Backlog::default(), limit, orders: 0 }
    }

    fn take(&mut self, key: u64, from: impl FnOnce(&mut VecDeque<P>) -> Option<P>) -> Option<P> {
        let flow = self.flows.get_mut(&key)?;
        self.ranks.remove(&flow.rank(key));
        let packet = from(&mut flow.queue)?;
        flow.bytes -= packet.size().as_u64();
        if flow.queue.is_empty() {
            self.flows.remove(&key);
        } else {
            self.ranks.insert(flow.rank(key));
        }
        self.backlog.remove(packet.size());
        Some(packet)
    }
}

impl<P: Packet> Qdisc<P> for Srpt<P> {
    fn enqueue(&mut self, _now: Instant, packet: P, out: &mut dyn Outlet<P>) -> Queued {
        let (key, size) = (packet.flow().flow, packet.size());
        let orders = &mut self.orders;
        let flow = self.flows.entry(key).or_insert_with(|| {
            *orders += 1;
            Flow { queue: VecDeque::new(), bytes: 0, unsent: 0, order: *orders }
        });
        self.ranks.remove(&flow.rank(key));
        flow.unsent = packet.remaining().map_or(u64::MAX, |bytes| bytes.as_u64());
        flow.bytes += size.as_u64();
        flow.queue.push_back(packet);
        self.ranks.insert(flow.rank(key));
        self.backlog.add(size);
        while self.backlog.packets > self.limit.packets || self.backlog.bytes > self.limit.bytes {
            let Some((_, _, key)) = self.ranks.last().copied() else { return Queued::default() };
            let Some(packet) = self.take(key, VecDeque::pop_back) else { return Queued::default() };
            out.dropped(packet, DropReason::QueueLimit);
        }
        Queued::default()
    }

    fn dequeue(&mut self, _now: Instant, _out: &mut dyn Outlet<P>) -> Option<P> {
        let (_, _, key) = self.ranks.first().copied()?;
        self.take(key, VecDeque::pop_front)
    }

    fn deadline(&self, _now: Instant) -> Deadline {
        if self.backlog.is_empty() { Deadline::Idle } else { Deadline::Now }
    }

    fn backlog(&self) -> Backlog {
        self.backlog
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::SimPacket;
    use tidegate_core::Accounted;
    use tidegate_core::qdisc::Discard;

    #[test]
    fn the_shortest_remainder_goes_first_and_the_longest_is_dropped() {
        let mut queue = Accounted::new(Srpt::new(Limit::packets(4)));
        let packet = |flow, remaining| SimPacket { remaining, ..SimPacket::datagram(flow, 1_000) };
        let mut dropped = Vec::new();
        for (flow, remaining) in [(1, u32::MAX), (2, 50_000), (3, 0), (2, 49_000), (3, 0)] {
            queue.enqueue(Instant::ZERO, packet(flow, remaining), &mut dropped);
        }
        assert_eq!(dropped.iter().map(|(packet, _)| packet.flow).collect::<Vec<_>>(), [1]);
        let order: Vec<_> =
            std::iter::from_fn(|| queue.dequeue(Instant::ZERO, &mut Discard)).map(|packet| packet.flow).collect();
        assert_eq!(order, [3, 3, 2, 2]);
    }
}
