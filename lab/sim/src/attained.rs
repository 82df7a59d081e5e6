//! [`Attained`]: least attained service in levels, the discipline that knows how much a flow has sent and not how much is left.
//!
//! *Law*: the next packet to leave belongs to the lowest occupied level, and is the oldest there. A packet's level is the number of
//! thresholds that its flow had passed, in bytes that arrived, when it arrived. A flow's levels never fall, so its packets keep
//! their order. When the limit is exceeded, the newest packet of the highest level is dropped.
//! *Source*: Kleinrock, "Queueing systems", volume 2 (1976), for foreground-background queues in levels; Righter and Shanthikumar,
//! "Scheduling multiclass single server queueing systems to stochastically maximize the number of successful departures"
//! (1989): among disciplines that do not know the sizes, least attained service has the smallest mean number in the system
//! where the hazard rate of the sizes falls.
//! *Cost*: O(log n) a call, and a record for each flow that is never freed. It is meant for experiments.
//! *Notes*: one threshold is the order of [`mered`](tidegate_core::mered) without its drops; many are nearly continuous.
//! *See also*: [`Srpt`](crate::Srpt), which knows how much is left.

use std::collections::{BTreeMap, HashMap};

use tidegate_core::fifo::Limit;
use tidegate_core::{Backlog, Bytes, Deadline, DropReason, Instant, Outlet, Packet, Qdisc, Queued};

/// Least attained service in levels. See the [module](self).
#[derive(Debug)]
pub struct Attained<P> {
    /// In rising order.
    thresholds: Vec<u64>,
    /// Bytes that have arrived of each flow.
    arrived: HashMap<u64, u64>,
    /// The packets by level and order of arrival.
    queue: BTreeMap<(usize, u64), P>,
    backlog: Backlog,
    limit: Limit,
    arrivals: u64,
}

impl<P: Packet> Attained<P> {
    /// An empty queue. A flow rises by a level with each of `thresholds` that it has passed, which need not be in order.
    pub fn new(limit: Limit, thresholds: &[Bytes]) -> Self {
        let mut thresholds: Vec<u64> = thresholds.iter().map(|bytes| bytes.as_u64()).collect();
        thresholds.sort_unstable();
        let (arrived, queue) = (HashMap::new(), BTreeMap::new());
        Self { thresholds, arrived, queue, backlog: Backlog::default(), limit, arrivals: 0 }
    }
}

impl<P: Packet> Qdisc<P> for Attained<P> {
    fn enqueue(&mut self, _now: Instant, packet: P, out: &mut dyn Outlet<P>) -> Queued {
        let size = packet.size();
        let arrived = self.arrived.entry(packet.flow().flow).or_default();
        let level = self.thresholds.partition_point(|threshold| threshold <= arrived);
        *arrived += size.as_u64();
        self.queue.insert((level, self.arrivals), packet);
        self.arrivals += 1;
        self.backlog.add(size);
        while self.backlog.packets > self.limit.packets || self.backlog.bytes > self.limit.bytes {
            let Some((_, newest)) = self.queue.pop_last() else { break };
            self.backlog.remove(newest.size());
            out.dropped(newest, DropReason::QueueLimit);
        }
        Queued::default()
    }

    fn dequeue(&mut self, _now: Instant, _out: &mut dyn Outlet<P>) -> Option<P> {
        let (_, packet) = self.queue.pop_first()?;
        self.backlog.remove(packet.size());
        Some(packet)
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
    fn who_has_sent_least_goes_first_and_the_longest_is_dropped() {
        let levels = [Bytes::new(3_000), Bytes::new(1_000)];
        let mut queue = Accounted::new(Attained::new(Limit::packets(6), &levels));
        let mut dropped = Vec::new();
        // Flow 1 is at level 0, 1, 1, 2, 2 with its packets, flow 2 at 0 and 1. The fifth of flow 1 is beyond the limit.
        for flow in [1, 1, 1, 1, 1, 2, 2] {
            queue.enqueue(Instant::ZERO, SimPacket::datagram(flow, 1_000), &mut dropped);
        }
        assert_eq!(dropped.iter().map(|(packet, _)| packet.flow).collect::<Vec<_>>(), [1]);
        let order: Vec<_> =
            std::iter::from_fn(|| queue.dequeue(Instant::ZERO, &mut Discard)).map(|packet| packet.flow).collect();
        assert_eq!(order, [1, 2, 1, 1, 2, 1]);
    }
}
