//! [`Sums`]: the counters of several programs as those of one.

use std::collections::HashMap;
use std::collections::hash_map::Entry;

use tidegate_core::accounts::Account;
use tidegate_core::dualpi2::Coupled;
use tidegate_core::{ClassId, Instant};
use tidegate_engine::advice::OffloadedAdvice;
use tidegate_engine::quota::Key;
use tidegate_engine::{Offload, OffloadedFlow, OffloadedFlows, PromiseTable, Promised, Totals};
use tidegate_live::probe::Version;
use tidegate_live::shaping::backend::OffloadCounters;

/// The counters of shards, each with the packets of a queue.
pub(crate) struct Sums<C>(pub Vec<C>);

impl<C: Offload> Offload for Sums<C> {
    fn totals(&mut self, classes: &[String]) -> (Vec<(ClassId, Totals)>, Totals) {
        let mut shards = self.0.iter_mut().map(|shard| shard.totals(classes));
        let (mut found, mut all) = shards.next().unwrap_or_default();
        for (others, other) in shards {
            all.merge(other);
            for (class, totals) in others {
                match found.iter_mut().find(|(known, _)| *known == class) {
                    Some((_, sum)) => sum.merge(totals),
                    None => found.push((class, totals)),
                }
            }
        }
        (found, all)
    }

    fn matched(&mut self) -> Vec<(Option<Key>, Account)> {
        self.0.iter_mut().flat_map(Offload::matched).collect()
    }

    fn coupled(&mut self, now: Instant) -> Vec<(ClassId, Coupled)> {
        let mut all: Vec<(ClassId, Coupled)> = Vec::new();
        for (class, coupled) in self.0.iter_mut().flat_map(|shard| shard.coupled(now)) {
            match all.iter_mut().find(|(known, _)| *known == class) {
                Some((_, sum)) => sum.add(&coupled),
                None => all.push((class, coupled)),
            }
        }
        all
    }

    fn flows(&mut self) -> OffloadedFlows {
        let mut all = OffloadedFlows { continues: true, ..OffloadedFlows::default() };
        let mut places: HashMap<u64, usize> = HashMap::new();
        for OffloadedFlows { flows, held, continues, crossed } in self.0.iter_mut().map(Offload::flows) {
            for flow in flows {
                match places.entry(flow.key) {
                    Entry::Vacant(place) => {
                        place.insert(all.flows.len());
                        all.flows.push(flow);
                    }
                    // It has gone to another queue of the card, and its record stays for a while.
                    Entry::Occupied(place) => join(&mut all.flows[*place.get()], flow),
                }
            }
            all.held.extend(held);
            all.continues &= continues;
            all.crossed.extend(crossed);
        }
        all
    }

    fn set_promises(&mut self, promised: &[Promised], table: &PromiseTable) -> Result<(), String> {
        self.0.iter_mut().try_for_each(|shard| shard.set_promises(promised, table))
    }

    fn set_advice(&mut self, advice: &OffloadedAdvice) {
        self.0.iter_mut().for_each(|shard| shard.set_advice(advice));
    }
}

impl<C: OffloadCounters> OffloadCounters for Sums<C> {
    fn renew(&mut self) {
        self.0.iter_mut().for_each(OffloadCounters::renew);
    }
    fn feeds_back(&self) -> bool {
        self.0.iter().any(OffloadCounters::feeds_back)
    }
    fn has_events(&self) -> bool {
        self.0.iter().any(OffloadCounters::has_events)
    }
    fn has_sent(&self, version: Version) -> bool {
        self.0.iter().any(|shard| shard.has_sent(version))
    }
}

/// Adds what another shard has of the same flow, which is in the one where it has packets.
fn join(flow: &mut OffloadedFlow, other: OffloadedFlow) {
    let other = if flow.backlog.is_empty() { std::mem::replace(flow, other) } else { other };
    flow.backlog.merge(other.backlog);
    flow.counts.sent.add(other.counts.sent);
    flow.counts.dropped.add(other.counts.dropped);
    flow.waited += other.waited;
}

#[cfg(test)]
mod tests {
    use super::*;
    use tidegate_core::classify::Fields;
    use tidegate_core::fbq::FlowCounts;
    use tidegate_core::qdisc::Backlog;
    use tidegate_core::{Bytes, Rate, Span};

    /// A shard with one class, whose packets have 100 B, and with these flows: key, packets that were sent, packets that wait.
    struct Shard(Vec<(u64, u64, u64)>);

    fn account(packets: u64) -> Account {
        Account { packets, bytes: Bytes::new(100 * packets) }
    }

    impl Shard {
        fn sum(&self, of: fn(&(u64, u64, u64)) -> u64) -> Account {
            account(self.0.iter().map(of).sum())
        }
    }

    impl Offload for Shard {
        fn totals(&mut self, _: &[String]) -> (Vec<(ClassId, Totals)>, Totals) {
            let (sent, waiting) = (self.sum(|flow| flow.1), self.sum(|flow| flow.2));
            let backlog = Backlog { packets: waiting.packets, bytes: waiting.bytes };
            let waits = vec![(Span::from_millis(sent.packets), sent.packets)];
            let totals = Totals {
                sent,
                backlog,
                longest: Span::from_millis(sent.packets),
                waits,
                emptied: 1,
                ..Totals::default()
            };
            let mut all = Totals::default();
            all.add(&totals);
            (vec![(ClassId(0), totals)], all)
        }
        fn flows(&mut self) -> OffloadedFlows {
            let flow = |&(key, sent, waiting): &(u64, u64, u64)| OffloadedFlow {
                key,
                class: ClassId(0),
                home: ClassId(0),
                profile: 0,
                fields: Fields::default(),
                promise: None,
                minimum: Rate::ZERO,
                granted: false,
                steps: 0,
                backlog: Backlog { packets: waiting, bytes: account(waiting).bytes },
                head_arrived: None,
                held_by: None,
                counts: FlowCounts { sent: account(sent), ..FlowCounts::default() },
                waited: Span::from_millis(sent),
            };
            OffloadedFlows {
                flows: self.0.iter().map(flow).collect(),
                continues: self.0.len() > 1,
                ..OffloadedFlows::default()
            }
        }
        fn set_promises(&mut self, _: &[Promised], _: &PromiseTable) -> Result<(), String> {
            Ok(())
        }
        fn set_advice(&mut self, _: &OffloadedAdvice) {}
    }

    /// A flow that has gone to another queue of the card is one flow.
    #[test]
    fn classes_and_flows_are_those_of_all_shards() {
        let mut all = Sums(vec![Shard(vec![(1, 5, 0), (2, 3, 1)]), Shard(vec![(3, 7, 2), (1, 4, 6)])]);
        let (classes, sum) = all.totals(&[]);
        let [(ClassId(0), class)] = &classes[..] else { panic!("{classes:?}") };
        assert_eq!((class.sent, sum.sent, class.backlog.packets), (account(19), account(19), 9));
        assert_eq!((class.longest, class.emptied, class.waits.len()), (Span::from_millis(11), 2, 2));
        let OffloadedFlows { flows, continues, .. } = all.flows();
        let found: Vec<_> =
            flows.iter().map(|flow| (flow.key, flow.counts.sent.packets, flow.backlog.packets)).collect();
        assert_eq!((found, continues), (vec![(1, 9, 6), (2, 3, 1), (3, 7, 2)], true));
        assert_eq!(flows[0].waited, Span::from_millis(9));
        all.0[1].0.pop();
        assert!(!all.flows().continues);
    }
}
