//! How a network is divided into regions.
//!
//! *Law*: each node belongs to one region, with all links that begin there. Whatever acts on another part of the simulation without
//! a delay is in the same region as that part: the ends of short links, of links whose delay may change and of half-duplex lines, the
//! links of a shared queue, and both ends of a connection that may end or whose ends exchange more than packets.
//! *Notes*: among all lower bounds of the delay between regions the one with the shortest estimated time is chosen: large regions
//! cannot be balanced, short delays make many windows. The estimate takes the fair share of the slowest link as the rate of a flow.

use std::collections::{BTreeMap, VecDeque};

use tidegate_core::Bytes;

use crate::engine::{RegionLink, Simulation};
use crate::ids::{ARRIVED, EXPRESS};
use crate::workload::{FlowSpec, Transport, Workload};

/// A division of a network.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Plan {
    pub regions: usize,
    /// The region of each node.
    pub nodes: Vec<u8>,
    /// For each link the region that transmits on it, and the one in which it ends.
    pub links: Vec<[u8; 2]>,
    /// Whether the ends of a flow are in different regions.
    pub cut: Vec<bool>,
    /// The number of the connection of each flow, if each flow opens at most one, at its start; otherwise one region opens all of them.
    pub numbers: Option<Vec<u64>>,
    /// The shortest delay between two regions, in nanoseconds.
    pub lookahead: u64,
}

/// The most regions of a network.
pub(crate) const MOST_REGIONS: usize = 64;

/// The time that a packet takes at a hop, and that of an exchange with the wait for the slower region, in nanoseconds.
const HOP: f64 = 100.0;
const WINDOW: f64 = 5_000.0;
/// A division must promise to save this share of the time.
const GAIN: f64 = 0.15;
/// So many lower bounds of the delay are tried.
const TRIED: usize = 24;

/// Sets of nodes that are in one region.
#[derive(Clone)]
struct Sets(Vec<u32>);

impl Sets {
    fn new(nodes: usize) -> Self {
        Self((0..nodes as u32).collect())
    }
    fn find(&mut self, mut node: u32) -> u32 {
        while self.0[node as usize] != node {
            self.0[node as usize] = self.0[self.0[node as usize] as usize];
            node = self.0[node as usize];
        }
        node
    }
    fn join(&mut self, a: u32, b: u32) {
        let (a, b) = (self.find(a), self.find(b));
        self.0[a.max(b) as usize] = a.min(b);
    }
}

/// Whether the ends of a flow may be in different regions: they exchange nothing but packets, and the flow does not end.
fn is_separable(flow: &FlowSpec) -> bool {
    match (&flow.transport, &*flow.workload) {
        (
            Transport::Udp { .. },
            Workload::Constant { .. } | Workload::Poisson { .. } | Workload::OnOff { .. } | Workload::Trace(_),
        ) => true,
        (
            Transport::Tcp(config),
            Workload::Bulk { bytes: None } | Workload::Constant { .. } | Workload::Poisson { .. },
        ) => flow.stop.is_none() && !config.follow_advice,
        _ => false,
    }
}

/// Whether a flow opens a single connection, at its start, unless that fails.
fn opens_one(flow: &FlowSpec) -> bool {
    let one = matches!(
        &*flow.workload,
        Workload::Bulk { .. } | Workload::Transfer { .. } | Workload::Constant { .. } | Workload::Poisson { .. }
    );
    one && flow.transport.has_connections() && flow.stop.is_none()
}

/// Divides the network of `sim` into at most `most` regions.
///
/// # Errors
/// The reason why it is not divided.
pub(crate) fn plan(sim: &Simulation, most: usize) -> Result<Plan, &'static str> {
    if sim.is_observed() {
        return Err("a trace or a rate that follows a line observes all of it");
    }
    let links = sim.region_links();
    let nodes = links
        .iter()
        .flat_map(|link| link.ends)
        .chain(sim.flow_specs().iter().flat_map(|flow| [flow.from.0, flow.to.0]));
    let nodes = nodes.max().map_or(0, |last| last as usize + 1);
    let mut sets = Sets::new(nodes);
    let pinned = join_fixed(sim, &links, &mut sets);
    let weights = weights(sim, &links, nodes);
    let total: f64 = weights.iter().sum();
    if total <= 0.0 {
        return Err("nothing is sent");
    }
    let mut delays: Vec<u64> =
        links.iter().filter(|link| link.fixed).map(|link| link.delay).filter(|&delay| delay > 0).collect();
    delays.sort_unstable_by(|a, b| b.cmp(a));
    delays.dedup();
    let step = delays.len().div_ceil(TRIED).max(1);
    let mut best: Option<(f64, Vec<u8>, usize)> = None;
    for &least in delays.iter().skip(step - 1).step_by(step) {
        let mut joined = sets.clone();
        links.iter().filter(|link| link.delay < least).for_each(|link| joined.join(link.ends[0], link.ends[1]));
        let Some((regions, share)) = assign(&mut joined, &links, &weights, pinned, most.min(MOST_REGIONS)) else {
            continue;
        };
        let time = share * total * HOP + WINDOW * 1e9 / least as f64;
        if best.as_ref().is_none_or(|best| time < best.0) {
            let count = regions.iter().copied().max().map_or(0, usize::from) + 1;
            best = Some((time, regions, count));
        }
    }
    let Some((time, regions, count)) = best else {
        return Err("no link with a delay divides it, or what must stay together is all of it");
    };
    if time > total * HOP * (1.0 - GAIN) {
        return Err("its regions would wait for each other most of the time");
    }
    Ok(finish(sim, &links, regions, count))
}

/// Joins the nodes that must be in one region whatever the delays. Returns a node of region 0, if there must be one.
fn join_fixed(sim: &Simulation, links: &[RegionLink], sets: &mut Sets) -> Option<u32> {
    for link in links.iter().filter(|link| !link.fixed) {
        sets.join(link.ends[0], link.ends[1]);
    }
    // A packet is queued where the link before it ends. With shared queues these are different nodes.
    for (flow, spec) in sim.flow_specs().iter().enumerate() {
        for (side, host) in [spec.from.0, spec.to.0].into_iter().enumerate() {
            let mut at = host;
            for entry in sim.path(flow, side) {
                sets.join(at, links[entry].ends[0]);
                at = links[entry].ends[1];
            }
        }
    }
    let flows = sim.flow_specs();
    flows.iter().filter(|flow| !is_separable(flow)).for_each(|flow| sets.join(flow.from.0, flow.to.0));
    // Connections are numbered in the order in which they are opened.
    let mut openers = flows.iter().filter(|flow| flow.transport.has_connections());
    if !openers.clone().all(opens_one)
        && let Some(first) = openers.next()
    {
        openers.for_each(|flow| sets.join(first.from.0, flow.from.0));
    }
    let mut pinned = links.iter().filter(|link| link.pinned).map(|link| link.ends[0]);
    let first = pinned.next()?;
    pinned.for_each(|node| sets.join(first, node));
    Some(first)
}

/// The packets a second that each node handles, by estimate.
fn weights(sim: &Simulation, links: &[RegionLink], nodes: usize) -> Vec<f64> {
    let flows = sim.flow_specs();
    let mut users = vec![0_u32; links.len()];
    for flow in 0..flows.len() {
        sim.path(flow, 0).for_each(|link| users[link] += 1);
    }
    let mut weights = vec![0.0; nodes];
    for (flow, spec) in flows.iter().enumerate() {
        let share = |link: usize| links[link].rate.as_bps() as f64 / f64::from(users[link].max(1));
        let slowest = sim.path(flow, 0).map(share).fold(f64::MAX, f64::min);
        let own = match &*spec.workload {
            Workload::Constant { rate, .. } | Workload::Poisson { rate, .. } => rate.as_bps() as f64,
            _ => f64::MAX,
        };
        let packets = slowest.min(own) / Bytes::new(1500).bits() as f64;
        let answers = spec.transport.has_connections();
        // A TCP sender does more than a receiver, and two packets have an acknowledgement.
        let ends = if answers { [2.0, 1.5] } else { [0.5, 0.5] };
        for (host, end) in [spec.from, spec.to].into_iter().zip(ends) {
            weights[host.0 as usize] += packets * end;
        }
        for (side, part) in [1.0, if answers { 0.5 } else { 0.0 }].into_iter().enumerate() {
            sim.path(flow, side)
                .for_each(|link| weights[links[link].ends[0] as usize] += packets * part * links[link].work);
        }
    }
    weights
}

/// Assigns sets of nodes to regions that are connected as far as possible: in the order of their distance from an outermost set,
/// so much to each region as balances them. Returns the region of each node and the share of the heaviest region.
fn assign(
    sets: &mut Sets,
    links: &[RegionLink],
    weights: &[f64],
    pinned: Option<u32>,
    most: usize,
) -> Option<(Vec<u8>, f64)> {
    let mut names: BTreeMap<u32, usize> = BTreeMap::new();
    let of: Vec<usize> = (0..weights.len() as u32)
        .map(|node| {
            let root = sets.find(node);
            let next = names.len();
            *names.entry(root).or_insert(next)
        })
        .collect();
    let count = names.len();
    if count < 2 {
        return None;
    }
    let mut heavy = vec![0.0; count];
    of.iter().zip(weights).for_each(|(&set, weight)| heavy[set] += weight);
    let mut beside = vec![Vec::new(); count];
    for [from, to] in links.iter().map(|link| link.ends.map(|node| of[node as usize])) {
        if from != to {
            beside[from].push(to);
            beside[to].push(from);
        }
    }
    let outermost = *by_distance(&beside, 0).last()?;
    let order = by_distance(&beside, outermost);
    let total: f64 = heavy.iter().sum();
    let regions_of_sets = cut(&order, &heavy, most);
    // Regions without nodes are left out, and the region of what is pinned is the first.
    let mut numbers = vec![usize::MAX; most];
    let mut used = 0;
    for set in pinned.map(|node| of[node as usize]).into_iter().chain(0..count) {
        let number = &mut numbers[regions_of_sets[set]];
        if *number == usize::MAX {
            *number = used;
            used += 1;
        }
    }
    if used < 2 {
        return None;
    }
    let mut sums = vec![0.0; used];
    (0..count).for_each(|set| sums[numbers[regions_of_sets[set]]] += heavy[set]);
    let share = sums.iter().copied().fold(0.0, f64::max) / total;
    Some((of.iter().map(|&set| numbers[regions_of_sets[set]] as u8).collect(), share))
}

/// Cuts `order` into at most `most` runs of sets, the heaviest of which is as light as possible. Returns the run of each set.
fn cut(order: &[usize], heavy: &[f64], most: usize) -> Vec<usize> {
    let total: f64 = heavy.iter().sum();
    let heaviest = heavy.iter().copied().fold(0.0, f64::max);
    let (mut low, mut high) = ((total / most as f64).max(heaviest), total);
    let runs = |bound: f64| {
        let (mut run, mut weight, mut runs) = (0, 0.0, vec![0; order.len()]);
        for &set in order {
            if weight > 0.0 && weight + heavy[set] > bound {
                (run, weight) = (run + 1, 0.0);
            }
            weight += heavy[set];
            // Rounding may leave a little beyond the bound.
            runs[set] = run.min(most - 1);
        }
        (runs, run + 1)
    };
    // Far closer than the estimates are.
    for _ in 0..30 {
        let middle = f64::midpoint(low, high);
        if runs(middle).1 <= most { high = middle } else { low = middle }
    }
    runs(high).0
}

/// All sets in the order of their distance from `first`. Those that nothing connects with it follow.
fn by_distance(beside: &[Vec<usize>], first: usize) -> Vec<usize> {
    let mut order = Vec::with_capacity(beside.len());
    let mut seen = vec![false; beside.len()];
    let mut queue = VecDeque::new();
    for start in std::iter::once(first).chain(0..beside.len()) {
        if !std::mem::replace(&mut seen[start], true) {
            queue.push_back(start);
        }
        while let Some(set) = queue.pop_front() {
            order.push(set);
            queue.extend(beside[set].iter().filter(|&&next| !std::mem::replace(&mut seen[next], true)));
        }
    }
    order
}

/// The plan with these regions of nodes.
fn finish(sim: &Simulation, links: &[RegionLink], nodes: Vec<u8>, regions: usize) -> Plan {
    let region = |node: u32| nodes[node as usize];
    let mut owners: Vec<[u8; 2]> = links.iter().map(|link| link.ends.map(region)).collect();
    // What an express link transmits is computed where the link before it transmits.
    let mut lookahead = u64::MAX;
    let (mut owner, mut delay, mut end) = (0, 0_u64, None);
    for &entry in sim.route_table() {
        let link = (entry & !EXPRESS) as usize;
        if (entry == ARRIVED || entry & EXPRESS == 0)
            && let Some(end) = end
            && end != owner
        {
            lookahead = lookahead.min(delay);
        }
        if entry == ARRIVED {
            end = None;
            continue;
        }
        if entry & EXPRESS == 0 {
            (owner, delay) = (owners[link][0], 0);
        }
        owners[link][0] = owner;
        delay = delay.saturating_add(links[link].delay);
        end = Some(owners[link][1]);
    }
    let flows = sim.flow_specs();
    let cut = flows.iter().map(|flow| region(flow.from.0) != region(flow.to.0)).collect();
    let openers: Vec<usize> = (0..flows.len()).filter(|&flow| flows[flow].transport.has_connections()).collect();
    let numbers = openers.iter().all(|&flow| opens_one(&flows[flow])).then(|| {
        let mut numbers = vec![0; flows.len()];
        let mut order = openers;
        order.sort_by_key(|&flow| (flows[flow].start, flow));
        order.into_iter().zip(1..).for_each(|(flow, number)| numbers[flow] = number);
        numbers
    });
    Plan { regions, nodes, links: owners, cut, numbers, lookahead }
}
