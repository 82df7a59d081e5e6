//! The ways of flows: the shortest, and those that routes override, in one table.

use tidegate_core::{Rate, Span};

use super::{Kind, Network, NetworkError};
use crate::ids::{ARRIVED, EXPRESS, LinkId, NodeId};
use crate::workload::FlowSpec;

/// A way in the table of routes.
#[derive(Clone, Copy)]
pub(super) struct Way {
    pub first: u32,
    pub ideal: (u64, Rate),
}

/// Finds ways, and writes them one behind the other into one table.
pub(super) struct Planner {
    table: Vec<u32>,
    // Next link of each node, by destination; made when first needed.
    next: Vec<Option<Vec<Option<LinkId>>>>,
    known: std::collections::BTreeMap<(NodeId, NodeId), Way>,
}

impl Planner {
    pub fn new(net: &Network) -> Self {
        Self { table: Vec::new(), next: vec![None; net.nodes.len()], known: Default::default() }
    }

    /// Dijkstra towards `to`; ties go to the link that was made first.
    fn towards(net: &Network, to: NodeId) -> Vec<Option<LinkId>> {
        let n = net.nodes.len();
        let mut into: Vec<Vec<usize>> = vec![Vec::new(); n];
        for (index, edge) in net.edges.iter().enumerate() {
            into[edge.to.0 as usize].push(index);
        }
        let mut best: Vec<u64> = vec![u64::MAX; n];
        let mut next = vec![None; n];
        let mut heap = std::collections::BinaryHeap::new();
        best[to.0 as usize] = 0;
        heap.push(core::cmp::Reverse((0_u64, to.0)));
        while let Some(core::cmp::Reverse((cost, node))) = heap.pop() {
            // Hosts do not forward.
            if cost > best[node as usize] || node != to.0 && net.nodes[node as usize].kind == Kind::Host {
                continue;
            }
            for &index in &into[node as usize] {
                let edge = &net.edges[index];
                let hop = edge.line.rate.time_for_ceil(tidegate_core::Bytes::new(1500)).unwrap_or(Span::MAX);
                let cost = cost.saturating_add(hop.as_nanos()).saturating_add(edge.line.delay.as_nanos()).max(1);
                let from = edge.from.0 as usize;
                let earlier = next[from].is_some_and(|LinkId(known)| known as usize > index);
                if cost < best[from] || cost == best[from] && earlier {
                    best[from] = cost;
                    next[from] = Some(LinkId(index as u32));
                    heap.push(core::cmp::Reverse((cost, edge.from.0)));
                }
            }
        }
        for &(node, dest, link) in &net.overrides {
            if dest == to {
                next[node.0 as usize] = Some(link);
            }
        }
        next
    }

    pub fn way(&mut self, net: &Network, flow: &FlowSpec, from: NodeId, to: NodeId) -> Result<Way, NetworkError> {
        if let Some(way) = self.known.get(&(from, to)) {
            return Ok(*way);
        }
        let next = self.next[to.0 as usize].get_or_insert_with(|| Self::towards(net, to));
        let first = self.table.len() as u32;
        let (mut node, mut visited) = (from, vec![from]);
        let (mut delay, mut slowest) = (0_u64, Rate::from_bps(u64::MAX));
        while node != to {
            let Some(link) = next[node.0 as usize] else {
                return Err(NetworkError::Unreachable {
                    flow: flow.name.clone(),
                    from: net.name(from).into(),
                    to: net.name(to).into(),
                });
            };
            let edge = &net.edges[link.index()];
            self.table.push(link.0);
            delay = delay.saturating_add(edge.line.delay.as_nanos());
            slowest = slowest.min(edge.line.rate);
            node = edge.to;
            if let Some(begin) = visited.iter().position(|&earlier| earlier == node) {
                let mut circle: Vec<_> = visited[begin..].iter().map(|&node| net.name(node)).collect();
                circle.push(net.name(node));
                return Err(NetworkError::Loop {
                    flow: flow.name.clone(),
                    to: net.name(to).into(),
                    circle: circle.join(" -> "),
                });
            }
            visited.push(node);
        }
        self.table.push(ARRIVED);
        let way = Way { first, ideal: (delay, slowest) };
        self.known.insert((from, to), way);
        Ok(way)
    }

    /// The table, with the links marked that have one feeder only.
    pub fn finish(mut self, net: &Network) -> Vec<u32> {
        #[derive(Clone, Copy, PartialEq)]
        enum Feeder {
            Nobody,
            One(u32),
            Many,
        }
        let mut feeders = vec![Feeder::Nobody; net.edges.len()];
        let mut before = ARRIVED;
        for &entry in &self.table {
            if entry != ARRIVED {
                let feeder = &mut feeders[entry as usize];
                *feeder = match *feeder {
                    _ if before == ARRIVED => Feeder::Many,
                    Feeder::Nobody => Feeder::One(before),
                    Feeder::One(known) if known == before => Feeder::One(known),
                    _ => Feeder::Many,
                };
            }
            before = entry;
        }
        for entry in &mut self.table {
            if *entry != ARRIVED {
                let edge = &net.edges[*entry as usize];
                let plain = edge.queue.is_none() && edge.driver.is_none() && edge.tap.is_none();
                let unconditional = edge.entry.is_empty() && edge.exit.is_empty();
                if plain && unconditional && matches!(feeders[*entry as usize], Feeder::One(_)) {
                    *entry |= EXPRESS;
                }
            }
        }
        self.table
    }
}
