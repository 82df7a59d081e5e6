//! [`Network`]: builds and checks the network that is simulated.

mod edge;
mod routing;

use core::fmt;
use core::net::{IpAddr, Ipv4Addr};
use std::rc::Rc;

use tidegate_autorate::Side;
use tidegate_config::shaper::Config;
use tidegate_config::values::WallStart;
use tidegate_core::{Instant, Qdisc, Rate, Span};
use tidegate_metrics::Series;

use crate::conditions::Conditions;
use crate::driver::Driver;
use crate::engine::{FlowPaths, Simulation};
use crate::follow::{Follower, SharedControl};
use crate::ids::{FlowId, LinkId, NodeId};
use crate::link::{Conditioner, Line, Tap};
use crate::metrics::{FlowMetrics, Transfers};
use crate::packet::SimPacket;
use crate::shaper::Population;
use crate::trace::{Occurrence, Selection, Tracer};
use crate::workload::FlowSpec;
use routing::PathFinder;

/// The reason why a network cannot be simulated.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum NetworkError {
    /// The rate of a link is zero.
    #[error("link {0} has a rate of zero: give it one, or leave it out")]
    ZeroRate(String),
    /// A loss probability is outside 0 to 1.
    #[error("link {0} has a loss outside 0 to 1")]
    Loss(String),
    /// The conditions of a line are invalid.
    #[error("link {link}: {problem}")]
    Conditions {
        /// The name of the link.
        link: String,
        /// The problem, as text.
        problem: &'static str,
    },
    /// No path leads from the source of a flow to its destination.
    #[error("flow {flow}: no path leads from {from} to {to}: add a link, in both directions if replies are needed")]
    Unreachable {
        /// The name of the flow.
        flow: String,
        /// The name of its source.
        from: String,
        /// The name of its destination.
        to: String,
    },
    /// The routes form a loop.
    #[error("flow {flow}: the routes towards {to} form a loop: {circle}")]
    Loop {
        /// The name of the flow.
        flow: String,
        /// The name of its destination.
        to: String,
        /// The nodes of the loop, in order.
        circle: String,
    },
    /// A flow begins or ends at a router, or has the same host at both ends.
    #[error("flow {flow}: {node} {why}")]
    Endpoint {
        /// The name of the flow.
        flow: String,
        /// The name of the node.
        node: String,
        /// The reason, as text.
        why: &'static str,
    },
    /// The workload of a flow is invalid.
    #[error("flow {flow}: {problem}")]
    Workload {
        /// The name of the flow.
        flow: String,
        /// The problem, as text.
        problem: &'static str,
    },
    /// A route uses a link that does not begin at its node.
    #[error("the route at {node} towards {to} uses link {link}, which does not begin at {node}")]
    Route {
        /// The name of the node with the route.
        node: String,
        /// The name of the destination.
        to: String,
        /// The name of the link.
        link: String,
    },
    /// Two objects have the same name.
    #[error("two {what}s are called {name}")]
    Duplicate {
        /// The kind of object.
        what: &'static str,
        /// The name that is used twice.
        name: String,
    },
    /// A shaper file cannot be put into force on a link.
    #[error("link {link}: {why}")]
    Shaper {
        /// The name of the link.
        link: String,
        /// The reason, as text.
        why: String,
    },
    /// The ends of a flow have addresses of different IP versions.
    #[error("flow {flow}: no packet goes from IPv4 to IPv6")]
    Addresses {
        /// The name of the flow.
        flow: String,
    },
    /// There are more objects than the simulator can number.
    #[error("more than {most} {what}s")]
    TooMany {
        /// The kind of object.
        what: &'static str,
        /// The largest number allowed.
        most: usize,
    },
}

/// The largest number of flows in a network.
pub(crate) const MOST_FLOWS: usize = 1 << 20;

#[derive(Clone, Copy, PartialEq, Eq)]
enum NodeKind {
    Host,
    Router,
}

struct Node {
    name: String,
    kind: NodeKind,
    address: Option<IpAddr>,
}

/// The queue that was requested for a link.
enum QueueSpec {
    Discipline(Box<dyn Qdisc<SimPacket>>),
    /// The engine of a shaper file, and the number of shards.
    Shaper(Box<Config>, usize),
}

struct Edge {
    from: NodeId,
    to: NodeId,
    line: Line,
    /// The shared queue through which packets reach this link.
    behind: Option<LinkId>,
    /// If this is a shared queue, the links that it serves. It is then not part of the topology.
    serves: Vec<LinkId>,
    queue: Option<QueueSpec>,
    driver: Option<Driver>,
    tick: Option<Span>,
    conditions: Option<Conditions>,
    shared_line: Option<u32>,
    watched: bool,
    parts: bool,
    entry: Vec<Conditioner>,
    tap: Option<Tap>,
    observer: Option<(SharedControl, Side)>,
}

/// A network under construction: nodes, links, routes, flows. [`Network::build`] checks it and makes it run.
///
/// ```
/// use tidegate_core::{Instant, Rate, Span};
/// use tidegate_sim::{FlowSpec, Line, Network, Workload, tcp};
/// let mut net = Network::new(1);
/// let (a, r, b) = (net.host("a"), net.router("r"), net.host("b"));
/// net.duplex(a, r, Line::new(Rate::from_mbit(100), Span::from_millis(1)));
/// net.duplex(r, b, Line::new(Rate::from_mbit(10), Span::from_millis(5)));
/// let flow = net.flow(FlowSpec::tcp("bulk", a, b, tcp::Config::sack(), Workload::BULK));
/// net.warm_up(Span::from_secs(1));
/// let mut sim = net.build().unwrap();
/// sim.run_until(Instant::ZERO + Span::from_secs(5));
/// // 1460 of 1500 bytes are data: 9.73 Mbit/s.
/// let goodput = sim.flow(flow).goodput(sim.measured()).as_bps();
/// assert!(goodput > 9_600_000 && goodput < 9_740_000, "{goodput}");
/// ```
pub struct Network {
    seed: u64,
    workload_seed: u64,
    traced: Option<Selection>,
    nodes: Vec<Node>,
    edges: Vec<Edge>,
    flows: Vec<FlowSpec>,
    overrides: Vec<(NodeId, NodeId, LinkId)>,
    warm_up: Span,
    bin: Span,
    transfers: bool,
    queueing: bool,
    shared_lines: u32,
    followers: Vec<Follower>,
    starts: WallStart,
}

impl Network {
    /// An empty network. All randomness in it follows from `seed`.
    pub fn new(seed: u64) -> Self {
        Self {
            seed,
            workload_seed: seed,
            traced: None,
            nodes: Vec::new(),
            edges: Vec::new(),
            flows: Vec::new(),
            overrides: Vec::new(),
            warm_up: Span::ZERO,
            bin: Span::from_millis(10),
            transfers: false,
            queueing: false,
            shared_lines: 0,
            followers: Vec::new(),
            starts: WallStart::default(),
        }
    }

    /// Adds a host, at which flows begin and end. Hosts do not forward packets.
    pub fn host(&mut self, name: impl Into<String>) -> NodeId {
        self.node(name.into(), NodeKind::Host)
    }
    /// Adds a router, which forwards packets and neither sends nor receives.
    pub fn router(&mut self, name: impl Into<String>) -> NodeId {
        self.node(name.into(), NodeKind::Router)
    }
    fn node(&mut self, name: String, kind: NodeKind) -> NodeId {
        self.nodes.push(Node { name, kind, address: None });
        NodeId(self.nodes.len() as u32 - 1)
    }

    /// Sets the address of `host` that the rules of shaper files see. Default: 10.0.0.1 for the first node, 10.0.0.2
    /// for the second, and so on.
    pub fn address(&mut self, host: NodeId, address: IpAddr) {
        self.nodes[host.0 as usize].address = Some(address);
    }

    /// Adds a link from `from` to `to`, in one direction.
    pub fn simplex(&mut self, from: NodeId, to: NodeId, line: Line) -> LinkId {
        self.edges.push(Edge {
            from,
            to,
            line,
            behind: None,
            serves: Vec::new(),
            queue: None,
            driver: None,
            tick: None,
            conditions: None,
            shared_line: None,
            watched: false,
            parts: false,
            entry: Vec::new(),
            tap: None,
            observer: None,
        });
        LinkId(self.edges.len() as u32 - 1)
    }
    /// Adds links between `a` and `b` in both directions: returns the one from `a`, and the one from `b`.
    pub fn duplex(&mut self, a: NodeId, b: NodeId, line: Line) -> (LinkId, LinkId) {
        (self.simplex(a, b, line), self.simplex(b, a, line))
    }
    /// Adds a shared queue for all of `links`, and returns it as a link. The discipline that [`queue`](Self::queue) or
    /// [`shaper`](Self::shaper) sets there holds the packets of all these links. Released packets continue to the link
    /// on their path, which has a queue of its own. Releasing a packet takes 1 ns. No link can have two shared queues.
    ///
    /// This corresponds to a live shaper of several interfaces.
    pub fn shared_queue(&mut self, links: &[LinkId]) -> LinkId {
        let first = links.first().map_or(NodeId(0), |link| self.edges[link.index()].from);
        let shared = self.simplex(first, first, Line::new(Rate::from_bps(u64::MAX), Span::ZERO));
        self.edges[shared.index()].serves = links.to_vec();
        for link in links {
            self.edges[link.index()].behind = Some(shared);
        }
        shared
    }
    /// Makes `qdisc` the queue of `link`.
    pub fn queue(&mut self, link: LinkId, qdisc: impl Qdisc<SimPacket> + 'static) {
        self.edges[link.index()].queue = Some(QueueSpec::Discipline(Box::new(qdisc)));
    }
    /// Makes the engine of a shaper file the queue of `link`.
    pub fn shaper(&mut self, link: LinkId, config: &Config) {
        self.sharded_shaper(link, config, 1);
    }
    /// Like [`shaper`](Self::shaper), with `shards` engines that each handle a part of the flows and share the rates of
    /// the file, as a live shaper with several threads does.
    pub fn sharded_shaper(&mut self, link: LinkId, config: &Config, shards: usize) {
        self.edges[link.index()].queue = Some(QueueSpec::Shaper(Box::new(config.clone()), shards));
    }
    /// Inserts a driver between the discipline of `link` and its transmitter.
    pub fn driver(&mut self, link: LinkId, driver: Driver) {
        self.edges[link.index()].driver = Some(driver);
    }
    /// Makes `link` notice the deadlines of its discipline at multiples of `tick` only, as a kernel timer does.
    pub fn timer(&mut self, link: LinkId, tick: Span) {
        self.edges[link.index()].tick = Some(tick);
    }
    /// Gives the line of `link` conditions beyond a constant rate and delay.
    pub fn conditions(&mut self, link: LinkId, conditions: Conditions) {
        self.edges[link.index()].conditions = Some(conditions);
    }
    /// Makes `a` and `b`, the two directions between two nodes, share a half-duplex line: they transmit in turns, one
    /// at a time. Neither may have a driver.
    pub fn half_duplex(&mut self, a: LinkId, b: LinkId) {
        let number = self.shared_lines;
        self.shared_lines += 1;
        for link in [a, b] {
            self.edges[link.index()].shared_line = Some(number);
        }
    }
    /// Records delays, classes and time series of `link`.
    pub fn watch(&mut self, link: LinkId) {
        self.edges[link.index()].watched = true;
    }
    /// Like [`watch`](Self::watch), with separate time series for [`PARTS`](crate::metrics::PARTS) flows and as many
    /// classes, and one for all others.
    pub fn watch_parts(&mut self, link: LinkId) {
        self.watch(link);
        self.edges[link.index()].parts = true;
    }
    /// Passes every packet that arrives at `link` to `conditioner` before it is queued.
    pub fn at_entry(
        &mut self,
        link: LinkId,
        conditioner: impl FnMut(Instant, &mut SimPacket) -> crate::Verdict + 'static,
    ) {
        self.edges[link.index()].entry.push(Box::new(conditioner));
    }
    /// Calls `tap` at each stage of each packet on `link`.
    pub fn tap(&mut self, link: LinkId, tap: impl FnMut(Instant, crate::Stage, &SimPacket) + 'static) {
        self.edges[link.index()].tap = Some(Box::new(tap));
    }
    /// Lets `control` decide on the rates of the shapers of links `up` and `down` by what passes them. A link without a shaper is
    /// observed only.
    pub fn follow(&mut self, [up, down]: [LinkId; 2], control: SharedControl) {
        for (link, side) in [(up, Side::Up), (down, Side::Down)] {
            self.edges[link.index()].observer = Some((Rc::clone(&control), side));
        }
        self.followers.push(Follower { links: [up, down], control });
    }
    /// Routes packets at `node` that are destined to `to` over `link`, even if the shortest path is another.
    pub fn route(&mut self, node: NodeId, to: NodeId, link: LinkId) {
        self.overrides.push((node, to, link));
    }
    /// Adds a flow.
    pub fn flow(&mut self, flow: FlowSpec) -> FlowId {
        self.flows.push(flow);
        FlowId((self.flows.len() - 1) as u32)
    }
    /// Sets the wall clock at time 0, for rules with times; Monday 00:00 otherwise.
    pub fn starts(&mut self, starts: WallStart) {
        self.starts = starts;
    }
    /// Draws the random values of flows from this seed instead of that of the network.
    pub fn workload_seed(&mut self, seed: u64) {
        self.workload_seed = seed;
    }
    /// Records a trace, which [`Simulation::take_trace`] returns. A link with a tap of its own is not traced.
    pub fn trace(&mut self, selection: Selection) {
        self.traced = Some(selection);
    }
    /// Excludes the time before this from the measurements. Default zero.
    pub fn warm_up(&mut self, span: Span) {
        self.warm_up = span;
    }
    /// Keeps the completed transfers of each flow one by one.
    pub fn keep_transfers(&mut self) {
        self.transfers = true;
    }
    /// Records how long the packets of each flow wait in queues.
    pub fn record_queueing(&mut self) {
        self.queueing = true;
    }
    /// Sets the initial width of the bins of time series. Default 10 ms; they widen as time passes.
    pub fn bin(&mut self, width: Span) {
        self.bin = width;
    }
    /// The name of a link: `from->to`. The name of a shared queue consists of the names of its links, joined by ` + `.
    pub fn link_name(&self, link: LinkId) -> String {
        let edge = &self.edges[link.index()];
        if !edge.serves.is_empty() {
            return edge.serves.iter().map(|&link| self.link_name(link)).collect::<Vec<_>>().join(" + ");
        }
        format!("{}->{}", self.name(edge.from), self.name(edge.to))
    }
    /// The name of a node.
    pub fn name(&self, node: NodeId) -> &str {
        &self.nodes[node.0 as usize].name
    }

    /// Checks the network, finds the paths of all flows, and makes it ready to run.
    ///
    /// # Errors
    /// [`NetworkError`] with the names of the objects concerned.
    pub fn build(mut self) -> Result<Simulation, NetworkError> {
        self.check()?;
        let mut finder = PathFinder::new(&self);
        let mut paths = Vec::with_capacity(self.flows.len());
        for flow in &self.flows {
            let forward = finder.path(&self, flow, flow.from, flow.to)?;
            let back = match flow.transport {
                crate::Transport::Udp { .. } if !flow.workload.both_ways() => forward,
                _ => finder.path(&self, flow, flow.to, flow.from)?,
            };
            let pool = flow.pool.map_or(paths.len() as u32, |pool| pool.0);
            paths.push(FlowPaths { routes: [forward.first, back.first], ideal: [forward.ideal, back.ideal], pool });
        }
        let routes = finder.finish(&self);
        let (seed, bin) = (self.seed, self.bin);
        let names: Vec<_> = (0..self.edges.len()).map(|link| self.link_name(LinkId(link as u32))).collect();
        let tracer =
            self.traced.take().map(|selection| Tracer::new(selection, names.clone(), self.addresses(), &self.flows));
        if let Some(tracer) = &tracer {
            for (number, edge) in (0..).zip(&mut self.edges) {
                if edge.tap.is_none() && tracer.borrow().wants_link(number) {
                    let (tracer, link) = (Rc::clone(tracer), LinkId(number));
                    edge.tap = Some(Box::new(move |at, stage, packet| {
                        tracer.borrow_mut().packet(at, Occurrence::At(link, stage), packet);
                    }));
                }
            }
        }
        let shapers = self.edges.iter().any(|edge| matches!(edge.queue, Some(QueueSpec::Shaper(..))));
        let population = shapers.then(|| Population::new(self.addresses(), &self.flows, self.starts));
        // Owners of sockets are known on the links that begin at their node. A shared queue may have links of several
        // nodes.
        let begins_at: Vec<Option<u32>> = self
            .edges
            .iter()
            .map(|edge| {
                let mut from = edge.serves.iter().map(|link| self.edges[link.index()].from);
                from.all(|from| from == edge.from).then_some(edge.from.0)
            })
            .collect();
        let edges = std::mem::take(&mut self.edges);
        let link_ends = edges.iter().map(|edge| [edge.from.0, edge.to.0]).collect();
        let build = |(number, (edge, name)): (usize, (Edge, &String))| {
            edge.build(seed, number as u64, name, bin, population.as_ref().zip(Some(begins_at[number])))
        };
        let links = edges.into_iter().zip(&names).enumerate().map(build).collect::<Result<_, _>>()?;
        let metrics = self
            .flows
            .iter()
            .map(|flow| FlowMetrics {
                series: flow.watch.then(|| Box::new(Series::new(bin))),
                transfers: Transfers { wanted: self.transfers, ..Transfers::default() },
                queueing_ns: self.queueing.then(Box::default),
                ..FlowMetrics::default()
            })
            .collect();
        let mut simulation = Simulation::new(
            self.workload_seed,
            self.warm_up,
            links,
            self.shared_lines,
            names,
            routes,
            self.flows,
            paths,
            metrics,
        );
        simulation.link_ends = link_ends;
        simulation.tracer = tracer;
        simulation.followers = self.followers;
        (0..simulation.followers.len()).for_each(|number| simulation.schedule_follow(number as u32));
        Ok(simulation)
    }

    /// The address of each node, given or default.
    fn addresses(&self) -> Vec<IpAddr> {
        let given = self.nodes.iter().zip(1_u32..);
        given.map(|(node, n)| node.address.unwrap_or(Ipv4Addr::from_bits(10 << 24 | n & 0x00ff_ffff).into())).collect()
    }

    fn check(&self) -> Result<(), NetworkError> {
        for (what, count, most) in [
            ("node", self.nodes.len(), 1 << 31),
            ("link", self.edges.len(), 1 << 20),
            ("flow", self.flows.len(), MOST_FLOWS),
        ] {
            if count > most {
                return Err(NetworkError::TooMany { what, most });
            }
        }
        let names = |what, mut names: Vec<&str>| {
            names.sort_unstable();
            match names.windows(2).find(|pair| pair[0] == pair[1]) {
                Some(pair) => Err(NetworkError::Duplicate { what, name: pair[0].into() }),
                None => Ok(()),
            }
        };
        names("node", self.nodes.iter().map(|node| node.name.as_str()).collect())?;
        names("flow", self.flows.iter().map(|flow| flow.name.as_str()).collect())?;
        for (index, edge) in self.edges.iter().enumerate() {
            let name = || self.link_name(LinkId(index as u32));
            if edge.line.rate.is_zero() {
                return Err(NetworkError::ZeroRate(name()));
            }
            let probable = |p: f64| (0.0..=1.0).contains(&p);
            let sound = match edge.line.loss {
                crate::Loss::Random(p) | crate::Loss::RandomData(p) => probable(p),
                crate::Loss::Bursts { begin, end, losses } => {
                    [begin, end, losses[0], losses[1]].into_iter().all(probable)
                }
                crate::Loss::None | crate::Loss::Numbers(_) => true,
            };
            if !sound {
                return Err(NetworkError::Loss(name()));
            }
            if let Some(conditions) = &edge.conditions {
                conditions.validate().map_err(|problem| NetworkError::Conditions { link: name(), problem })?;
            }
            if edge.shared_line.is_some() && edge.driver.is_some() {
                let problem = "a half-duplex line has no driver";
                return Err(NetworkError::Conditions { link: name(), problem });
            }
        }
        for &(node, to, link) in &self.overrides {
            if self.edges[link.index()].from != node {
                return Err(NetworkError::Route {
                    node: self.name(node).into(),
                    to: self.name(to).into(),
                    link: self.link_name(link),
                });
            }
        }
        for flow in &self.flows {
            if flow.pool.is_some_and(|pool| pool.index() >= self.flows.len()) {
                let problem = "its delays are added to those of a flow that does not exist";
                return Err(NetworkError::Workload { flow: flow.name.clone(), problem });
            }
            for node in [flow.from, flow.to] {
                if self.nodes[node.0 as usize].kind == NodeKind::Router {
                    let why = "is a router; flows begin and end at hosts";
                    return Err(NetworkError::Endpoint { flow: flow.name.clone(), node: self.name(node).into(), why });
                }
            }
            if flow.from == flow.to {
                let (flow, node) = (flow.name.clone(), self.name(flow.from).into());
                return Err(NetworkError::Endpoint { flow, node, why: "is at both ends; a flow needs two hosts" });
            }
            let is_v6 = |node: NodeId| self.nodes[node.0 as usize].address.is_some_and(|address| address.is_ipv6());
            if is_v6(flow.from) != is_v6(flow.to) {
                return Err(NetworkError::Addresses { flow: flow.name.clone() });
            }
            flow.validate().map_err(|problem| NetworkError::Workload { flow: flow.name.clone(), problem })?;
        }
        Ok(())
    }
}

impl fmt::Debug for Network {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (nodes, links, flows) = (self.nodes.len(), self.edges.len(), self.flows.len());
        write!(f, "Network of {nodes} nodes, {links} links, {flows} flows")
    }
}
