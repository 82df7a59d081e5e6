//! The paths of flows, in one routing table: shortest paths, unless explicit routes override them.
//!
//! *Law*: at each node the path takes the link with the shortest remaining distance (the transmission time of 1500
//! bytes plus the propagation delay of each link). Among equal ones it takes the link that was added first.
//! *Cost*: hosts do not forward, so distances are needed between routers only. A destination that only one router leads
//! to is as far away as that router, plus the link. Hosts at one router, and routers in a chain before them, therefore
//! share its distances. Set-up is linear in hosts, links and path lengths.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BinaryHeap, HashMap};
use std::rc::Rc;

use tidegate_core::{Bytes, Rate, Span};

use super::{Network, NetworkError, NodeKind};
use crate::conditions::Conditions;
use crate::ids::{ARRIVED, EXPRESS, LinkId, NodeId};
use crate::workload::FlowSpec;

/// A path in the routing table.
#[derive(Clone, Copy)]
pub(super) struct Path {
    pub first: u32,
    pub ideal: (u64, Rate),
}

/// A link as seen by routing.
#[derive(Clone, Copy)]
struct Hop {
    link: u32,
    node: u32,
    cost: u64,
}

/// The distances of routers to a node, in ns.
type Distances = HashMap<u32, u64>;

/// The distances to a destination: along the chain of nodes that ends at it, and from elsewhere to the start of that
/// chain.
struct Target {
    /// The destination and the routers that are the only way to it, with the distance that remains from each.
    chain: Vec<(u32, u64)>,
    /// The distances to the last router of the chain.
    beyond: Rc<Distances>,
}

impl Target {
    fn distance(&self, node: u32) -> Option<u64> {
        let in_chain = self.chain.iter().find(|link| link.0 == node).map(|link| link.1);
        let rest = self.chain.last().map_or(0, |last| last.1);
        in_chain.or_else(|| self.beyond.get(&node).map(|far| far.saturating_add(rest)))
    }
}

/// Finds paths and appends them to one table.
pub(super) struct PathFinder {
    table: Vec<u32>,
    /// The links from each node (from routers only those to other routers), and the links from routers to each node, in
    /// the order in which they were added. Otherwise a router with ten thousand hosts would examine all of their links
    /// for each path.
    from: Vec<Vec<Hop>>,
    into: Vec<Vec<Hop>>,
    overrides: HashMap<(u32, u32), u32>,
    distances: HashMap<u32, Rc<Distances>>,
    /// The target of the previous flow: flows of a section often have the same one.
    last: Option<(NodeId, Target)>,
    known: BTreeMap<(NodeId, NodeId), Path>,
}

impl PathFinder {
    pub fn new(net: &Network) -> Self {
        let n = net.nodes.len();
        let (mut from, mut into) = (vec![Vec::new(); n], vec![Vec::new(); n]);
        for (link, edge) in (0..).zip(&net.edges).filter(|(_, edge)| edge.serves.is_empty()) {
            let hop = edge.line.rate.time_for_ceil(Bytes::new(1500)).unwrap_or(Span::MAX);
            let cost = hop.as_nanos().saturating_add(edge.line.delay.as_nanos()).max(1);
            let is_router = |node: NodeId| net.nodes[node.0 as usize].kind == NodeKind::Router;
            if !is_router(edge.from) || is_router(edge.to) {
                from[edge.from.0 as usize].push(Hop { link, node: edge.to.0, cost });
            }
            if is_router(edge.from) {
                into[edge.to.0 as usize].push(Hop { link, node: edge.from.0, cost });
            }
        }
        // Of two routes for the same destination the later one applies.
        let overrides = net.overrides.iter().map(|&(node, to, link)| ((node.0, to.0), link.0)).collect();
        Self { table: Vec::new(), from, into, overrides, distances: HashMap::new(), last: None, known: BTreeMap::new() }
    }

    /// Finds the chain of `to` and the distances beyond it.
    fn target(&mut self, to: u32) -> Target {
        let mut chain = vec![(to, 0_u64)];
        while let Some(&(node, rest)) = chain.last() {
            let mut feeders = self.into[node as usize].iter();
            let Some(first) = feeders.next() else { break };
            let cost =
                feeders.try_fold(first.cost, |least, hop| (hop.node == first.node).then_some(least.min(hop.cost)));
            let Some(cost) = cost else { break };
            if chain.iter().any(|link| link.0 == first.node) {
                break;
            }
            chain.push((first.node, rest.saturating_add(cost)));
        }
        let end = chain.last().map_or(to, |last| last.0);
        let beyond = match self.distances.get(&end) {
            Some(known) => Rc::clone(known),
            None => {
                let found = Rc::new(self.dijkstra(end));
                self.distances.insert(end, Rc::clone(&found));
                found
            }
        };
        Target { chain, beyond }
    }

    /// The distances of all routers that have a path to `to`.
    fn dijkstra(&self, to: u32) -> Distances {
        let mut best = Distances::from([(to, 0)]);
        let mut heap = BinaryHeap::from([Reverse((0_u64, to))]);
        while let Some(Reverse((cost, node))) = heap.pop() {
            if best.get(&node).is_some_and(|&known| cost > known) {
                continue;
            }
            for hop in &self.into[node as usize] {
                let cost = cost.saturating_add(hop.cost);
                let known = best.entry(hop.node).or_insert(u64::MAX);
                if cost < *known {
                    *known = cost;
                    heap.push(Reverse((cost, hop.node)));
                }
            }
        }
        best
    }

    /// The next link on the path from `node` to `to`.
    fn step(&self, net: &Network, node: u32, to: u32, target: &Target) -> Option<u32> {
        if let Some(&link) = self.overrides.get(&(node, to)) {
            return Some(link);
        }
        let forwards = |hop: &&Hop| hop.node == to || net.nodes[hop.node as usize].kind == NodeKind::Router;
        let length = |hop: &Hop| Some((target.distance(hop.node)?.saturating_add(hop.cost), hop.link));
        // Direct links from a router to `to`. Those of a host are among the links from it, too.
        let straight = self.into[to as usize].iter().filter(|hop| hop.node == node).map(|hop| Hop { node: to, ..*hop });
        let all = self.from[node as usize].iter().filter(forwards).copied().chain(straight);
        all.filter_map(|hop| length(&hop)).min().map(|(_, link)| link)
    }

    pub fn path(&mut self, net: &Network, flow: &FlowSpec, from: NodeId, to: NodeId) -> Result<Path, NetworkError> {
        if let Some(path) = self.known.get(&(from, to)) {
            return Ok(*path);
        }
        let target = match self.last.take() {
            Some((node, target)) if node == to => target,
            _ => self.target(to.0),
        };
        let first = self.table.len() as u32;
        let (mut node, mut visited) = (from, vec![from]);
        let (mut delay, mut slowest) = (0_u64, Rate::from_bps(u64::MAX));
        while node != to {
            let Some(link) = self.step(net, node.0, to.0, &target) else {
                return Err(NetworkError::Unreachable {
                    flow: flow.name.clone(),
                    from: net.name(from).into(),
                    to: net.name(to).into(),
                });
            };
            let edge = &net.edges[LinkId(link).index()];
            self.table.extend(edge.behind.map(|shared| shared.0));
            self.table.push(link);
            delay = delay.saturating_add(edge.line.delay.as_nanos());
            let mean = edge.conditions.as_ref().and_then(|conditions| conditions.mean_rate);
            slowest = slowest.min(mean.unwrap_or(edge.line.rate));
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
        let path = Path { first, ideal: (delay, slowest) };
        self.known.insert((from, to), path);
        self.last = Some((to, target));
        Ok(path)
    }

    /// Returns the table, with a mark on each link that has only one feeder.
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
                // Behind a line that reorders packets, arrivals are not known in order.
                if let Feeder::One(feeder) = feeders[*entry as usize]
                    && net.edges[feeder as usize].conditions.as_ref().is_some_and(Conditions::reorders)
                {
                    continue;
                }
                let edge = &net.edges[*entry as usize];
                let plain = edge.queue.is_none() && edge.driver.is_none() && edge.tap.is_none();
                let plain = plain && edge.conditions.is_none() && edge.shared_line.is_none();
                if plain && edge.entry.is_empty() && matches!(feeders[*entry as usize], Feeder::One(_)) {
                    *entry |= EXPRESS;
                }
            }
        }
        self.table
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::link::Line;
    use crate::workload::Workload;
    use tidegate_core::random::Stream;

    /// The links of the path by definition: distances to `to` by relaxing until nothing changes, then at each node the
    /// link with the least remaining distance, the first among equal ones.
    fn by_definition(net: &Network, from: u32, to: u32) -> Option<Vec<u32>> {
        let cost = |edge: &super::super::Edge| {
            let hop = edge.line.rate.time_for_ceil(Bytes::new(1500)).unwrap();
            hop.as_nanos() + edge.line.delay.as_nanos()
        };
        let forwards = |node: u32| node == to || net.nodes[node as usize].kind == NodeKind::Router;
        let mut far = vec![u64::MAX; net.nodes.len()];
        far[to as usize] = 0;
        let mut changed = true;
        while changed {
            changed = false;
            for edge in net.edges.iter().filter(|edge| forwards(edge.to.0)) {
                if far[edge.to.0 as usize] == u64::MAX {
                    continue;
                }
                let found = far[edge.to.0 as usize] + cost(edge);
                if found < far[edge.from.0 as usize] && edge.from.0 != to {
                    far[edge.from.0 as usize] = found;
                    changed = true;
                }
            }
        }
        let (mut node, mut links) = (from, Vec::new());
        while node != to {
            let given = net.overrides.iter().rev().find(|route| (route.0.0, route.1.0) == (node, to));
            let usual = (0..).zip(&net.edges).filter(|(_, edge)| edge.from.0 == node && forwards(edge.to.0));
            let shortest = usual
                .filter(|(_, edge)| far[edge.to.0 as usize] < u64::MAX)
                .min_by_key(|(number, edge)| (far[edge.to.0 as usize] + cost(edge), *number));
            let link = given.map(|route| route.2.0).or(shortest.map(|(number, _)| number))?;
            links.push(link);
            node = net.edges[link as usize].to.0;
            if links.len() > 64 {
                return None;
            }
        }
        Some(links)
    }

    #[test]
    fn ways_are_those_of_the_definition_in_random_networks() {
        let mut random = Stream::named(3, "networks");
        let (mut found, mut none) = (0, 0);
        for case in 0..200 {
            let mut net = Network::new(1);
            let routers = 1 + random.below(7) as u32;
            let nodes = routers + 2 + random.below(6) as u32;
            for n in 0..nodes {
                if n < routers {
                    net.router(format!("r{n}"))
                } else {
                    net.host(format!("h{n}"))
                };
            }
            let mut pick = |below: u32| random.below(below.into()) as u32;
            // Most hosts are at one router, routers form chains and meshes, and costs are few, so that paths are often
            // equally long.
            for n in 0..nodes {
                for _ in 0..1 + pick(if n < routers { 3 } else { 2 }) {
                    let anywhere = pick(8) == 0;
                    let other = pick(if anywhere { nodes } else { routers });
                    if other != n {
                        let line = Line::new(Rate::from_mbit(10), Span::from_millis(u64::from(1 + pick(2))));
                        net.duplex(NodeId(n), NodeId(other), line);
                    }
                }
            }
            if pick(3) == 0 && !net.edges.is_empty() {
                let link = pick(net.edges.len() as u32);
                let node = net.edges[link as usize].from;
                net.route(node, NodeId(routers + pick(nodes - routers)), LinkId(link));
            }
            let mut finder = PathFinder::new(&net);
            for from in routers..nodes {
                for to in (routers..nodes).filter(|&to| to != from) {
                    let flow = FlowSpec::udp("f", NodeId(from), NodeId(to), Workload::BULK);
                    let expected = by_definition(&net, from, to);
                    let path = finder.path(&net, &flow, NodeId(from), NodeId(to)).ok();
                    let got = path.map(|path| {
                        let rest = &finder.table[path.first as usize..];
                        rest.iter().copied().take_while(|&link| link != ARRIVED).collect::<Vec<_>>()
                    });
                    assert_eq!(got, expected, "case {case}: from {from} to {to} of {routers} routers");
                    if got.is_some() { found += 1 } else { none += 1 }
                }
            }
        }
        assert!(found > 1_000 && none > 50, "{found} {none}");
    }
}
