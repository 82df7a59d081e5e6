//! [`Scenario`]: the validated contents of a file: network, flows, variants, actions.

use std::cell::RefCell;
use std::net::IpAddr;
use std::ops::Range;
use std::rc::Rc;
use std::sync::Arc;

use tidegate_config::Place;
use tidegate_config::discipline::Site;
use tidegate_config::edit;
use tidegate_config::shaper::{Config, Direction};
use tidegate_config::values::{User, WallStart};
use tidegate_core::random::Stream;
use tidegate_core::{Instant, Span};
use tidegate_engine::Target;

use super::actions::{PromiseSection, ReserveSection};
use super::file::Measure;
use super::queue::LinkQueue;
use super::until::{FoundWarmUp, Until};
use crate::conditions::{Conditions, LineChange, Windows};
use crate::distribution::Distribution;
use crate::driver::Driver;
use crate::engine::Simulation;
use crate::follow::Follow;
use crate::ids::LinkId;
use crate::link::Line;
use crate::network::{Network, NetworkError};
use crate::workload::{FlowSpec, Workload};

/// The file with the rates of a line over time, or the files from which each run has one.
#[derive(Clone, PartialEq, Debug)]
pub(super) struct Trace {
    /// Their names.
    pub names: Vec<String>,
    /// How long each lasts, and the windows that runs have, if each begins where its seed draws.
    pub drawn: Option<(Vec<Span>, Windows)>,
    /// The place at which it says where runs begin.
    pub place: Place,
}

/// A link of a scenario, one direction.
#[derive(Clone, Debug)]
pub(super) struct Wire {
    /// Its place in the file.
    pub(super) place: Place,
    pub(super) from: usize,
    pub(super) to: usize,
    pub(super) line: Line,
    pub(super) queue: Option<LinkQueue>,
    pub(super) driver: Option<Driver>,
    pub(super) timer: Option<Span>,
    pub(super) watch: bool,
    /// The distribution from which its delay is drawn, and the number of the wire whose stream draws it.
    pub(super) drawn: Option<(Distribution, usize)>,
    pub(super) conditions: Option<Conditions>,
    /// The wire with which it shares a half-duplex line.
    pub(super) shares: Option<usize>,
    /// If this is a shared queue, the wires that it serves. It is no link then.
    pub(super) serves: Vec<usize>,
}

/// A section of flows, with the range of the flows made from it.
#[derive(Clone, Debug)]
pub(super) struct FlowGroup {
    /// Its place in the file.
    pub(super) place: Place,
    pub(super) name: String,
    pub(super) flows: Range<usize>,
}

/// The resolution of recorded time series.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Detail {
    /// A link as a whole.
    #[default]
    Links,
    /// Each flow and each class of a link as well.
    Parts,
}

/// A valid scenario. Running it does not change it, so several runs may proceed in parallel.
#[derive(Clone, Debug)]
pub struct Scenario {
    /// One sentence on what it shows.
    pub sentence: Option<String>,
    /// The simulated time.
    pub duration: Span,
    /// The warm-up in the file; [`Scenario::warm_up`] also has one that is found by a rule.
    pub(super) warm_up: Span,
    /// The warm-up that a rule finds, if the file says so.
    pub(super) found_warm_up: Option<FoundWarmUp>,
    /// The first seed.
    pub seed: u64,
    /// The seed of the flows' random values, if it differs from that of the run.
    pub workload_seed: Option<u64>,
    /// The wall clock at time 0, for rules with times.
    pub starts: WallStart,
    /// The number of runs, each with a seed of its own.
    pub runs: u32,
    /// The rule by which further runs are made.
    pub until: Option<Until>,
    pub(super) until_place: Option<Place>,
    /// The largest number of runs with such a rule.
    pub(super) most_runs: u32,
    /// The quantities by which variants are compared, each as `MEASURE of SUBJECT`; empty for the most important ones.
    pub primary: Vec<String>,
    /// Their places in the file.
    pub(super) primary_places: Vec<Place>,
    /// The files with the rates of lines over time.
    pub(super) traces: Vec<Trace>,
    /// The resolution of what is recorded on watched links. It changes the curves of an outcome but not its digest.
    pub detail: Detail,
    pub(super) measures: Vec<Measure>,
    pub(super) bin: Span,
    /// Whether the file leaves the width of bins open.
    pub has_usual_bin: bool,
    // The name of each node, and whether it is a host.
    pub(super) nodes: Vec<(String, bool)>,
    /// The explicit addresses, by node.
    pub(super) addresses: Vec<(usize, IpAddr)>,
    pub(super) wires: Vec<Wire>,
    pub(super) routes: Vec<(usize, usize, usize)>,
    pub(super) flows: Vec<FlowSpec>,
    pub(super) sections: Vec<FlowGroup>,
    pub(super) variants: Vec<Variant>,
    /// The actions, in the order of their times.
    pub(super) actions: Vec<Action>,
}

/// Another discipline on one link.
#[derive(Clone, Debug)]
pub(super) struct Variant {
    /// Its place in the file.
    pub(super) place: Place,
    pub(super) name: String,
    /// The wires with another queue than their own, and these queues.
    pub(super) queues: Vec<(usize, LinkQueue)>,
}

impl Variant {
    /// Its queue at a wire, if that has another one than its own.
    pub(super) fn queue_at(&self, wire: usize) -> Option<&LinkQueue> {
        self.queues.iter().find(|(at, _)| *at == wire).map(|(_, queue)| queue)
    }
}

impl Scenario {
    /// Builds the network of this scenario with `seed`.
    pub(super) fn network(&self, seed: u64, variant: Option<&Variant>) -> Network {
        let mut net = self.without_warm_up(seed, variant);
        net.warm_up(self.warm_up());
        net
    }

    fn without_warm_up(&self, seed: u64, variant: Option<&Variant>) -> Network {
        let mut net = Network::new(seed);
        net.workload_seed(self.workload_seed.unwrap_or(seed));
        net.starts(self.starts);
        net.bin(self.bin);
        if self.detail == Detail::Parts {
            net.keep_transfers();
        }
        if self.wants(Measure::Queueing) {
            net.record_queueing();
        }
        let nodes: Vec<_> = self
            .nodes
            .iter()
            .map(|(name, host)| if *host { net.host(name.as_str()) } else { net.router(name.as_str()) })
            .collect();
        for &(node, address) in &self.addresses {
            net.address(nodes[node], address);
        }
        let mut links: Vec<LinkId> = Vec::with_capacity(self.wires.len());
        for (number, wire) in self.wires.iter().enumerate() {
            let mut line = wire.line;
            if let Some((distribution, drawn_for)) = &wire.drawn {
                let mut random = Stream::named(seed, &format!("delay {}", self.wire_name(*drawn_for)));
                line.delay = distribution.sample_span(&mut random);
            }
            let link = if wire.serves.is_empty() {
                net.simplex(nodes[wire.from], nodes[wire.to], line)
            } else {
                net.shared_queue(&wire.serves.iter().map(|&wire| links[wire]).collect::<Vec<_>>())
            };
            if let Some(conditions) = &wire.conditions {
                net.conditions(link, conditions.in_run(seed, self.duration));
            }
            if let Some(other) = wire.shares {
                net.half_duplex(links[other], link);
            }
            match self.queue_of(number, variant) {
                Some(LinkQueue::Discipline(queue)) => {
                    let name = net.link_name(link);
                    net.queue(link, queue.build(&Site { seed, name, now: Instant::ZERO }));
                }
                Some(LinkQueue::Shaper(config, shards)) => net.sharded_shaper(link, config, *shards),
                None => {}
            }
            if let Some(driver) = wire.driver {
                net.driver(link, driver);
            }
            if let Some(timer) = wire.timer {
                net.timer(link, timer);
            }
            if wire.watch && self.detail == Detail::Parts {
                net.watch_parts(link);
            } else if wire.watch {
                net.watch(link);
            }
            links.push(link);
        }
        for &(at, to, wire) in &self.routes {
            net.route(nodes[at], nodes[to], links[wire]);
        }
        for flow in &self.flows {
            net.flow(flow.clone());
        }
        self.follow_lines(&mut net, &links, variant);
        net
    }

    /// Lets the rates of shapers follow the line where their files say so. The link in the other direction shows the answers.
    fn follow_lines(&self, net: &mut Network, links: &[LinkId], variant: Option<&Variant>) {
        let bounds = |wire: usize, direction: Direction| {
            let config = self.queue_of(wire, variant)?.shaper()?;
            (config.interface.direction == direction).then(|| config.follow().map(|follow| follow.bounds))?
        };
        for (number, wire) in self.wires.iter().enumerate() {
            let Some(back) = self.wire_between(wire.to, wire.from) else { continue };
            let (up, down) = (bounds(number, Direction::Egress), bounds(back, Direction::Ingress));
            // A line whose rate down alone follows is found from its link up, too.
            if up.is_some() || down.is_some() {
                net.follow([links[number], links[back]], Rc::new(RefCell::new(Follow::new([up, down]))));
            }
        }
    }

    /// The queue of wire `number` in a variant.
    pub(super) fn queue_of<'a>(&'a self, number: usize, variant: Option<&'a Variant>) -> Option<&'a LinkQueue> {
        variant.and_then(|variant| variant.queue_at(number)).or(self.wires[number].queue.as_ref())
    }

    /// The first wire that leads from node `from` to node `to`.
    pub(super) fn wire_between(&self, from: usize, to: usize) -> Option<usize> {
        self.wires.iter().position(|wire| (wire.from, wire.to) == (from, to))
    }

    /// The wire whose queue holds the packets of wire `number`: its shared queue, or the wire itself.
    pub(super) fn queueing_wire(&self, number: usize) -> usize {
        self.wires.iter().position(|wire| wire.serves.contains(&number)).unwrap_or(number)
    }

    /// The flows that a name denotes: a section, or one flow of it if a number follows after a dot.
    pub(super) fn flows_named(&self, name: &str) -> Option<Range<usize>> {
        let section = |name: &str| self.sections.iter().find(|section| section.name == name);
        if let Some(section) = section(name) {
            return Some(section.flows.clone());
        }
        let (name, number) = name.rsplit_once('.')?;
        let (section, number) = (section(name)?, number.parse::<usize>().ok()?);
        let flow = section.flows.start + number.checked_sub(1)?;
        section.flows.contains(&flow).then_some(flow..flow + 1)
    }

    /// The name of a link.
    pub(super) fn wire_name(&self, number: usize) -> String {
        let wire = &self.wires[number];
        if !wire.serves.is_empty() {
            return wire.serves.iter().map(|&wire| self.wire_name(wire)).collect::<Vec<_>>().join(" + ");
        }
        format!("{}->{}", self.nodes[wire.from].0, self.nodes[wire.to].0)
    }

    /// The name of a flow for people: its section, and its number in the section if there are several.
    pub(super) fn flow_name(&self, number: usize) -> String {
        match self.sections.iter().find(|section| section.flows.contains(&number)) {
            Some(section) if section.flows.len() == 1 => format!("flow {}", section.name),
            Some(section) => format!("flow {} {}", section.name, number - section.flows.start + 1),
            None => format!("flow {number}"),
        }
    }

    /// Builds the network of a variant, which shows whether it is valid.
    pub(super) fn probe(&self, variant: Option<&Variant>) -> Result<Simulation, NetworkError> {
        self.without_warm_up(self.seed, variant).build()
    }

    /// Builds the simulation with `seed`, without variants.
    ///
    /// # Panics
    /// Never: loading has built it once, and the seed does not affect validity.
    pub fn simulation(&self, seed: u64) -> Simulation {
        self.network(seed, None).build().expect("built when it was loaded")
    }
}

/// An action on a link or on flows at a time.
#[derive(Clone, Debug)]
pub(super) struct Action {
    pub time: Instant,
    pub wire: usize,
    pub kind: ActionKind,
}

#[derive(Clone, Debug)]
pub(super) enum ActionKind {
    Promise(FlowSelector, PromiseSection),
    Release(String),
    Reserve(FlowSelector, ReserveSection),
    Unreserve(String),
    Edit(Vec<edit::Edit>),
    Apply(Arc<Config>),
    Status {
        flows: u32,
    },
    Feedback {
        flows: FlowSelector,
        delay: Span,
    },
    Events {
        kinds: Vec<String>,
    },
    /// The line has been given the change when it was built; this entry is for the report.
    Line(LineChange),
    Workload {
        flows: Range<usize>,
        workload: Arc<Workload>,
    },
}

impl ActionKind {
    /// The word of the action in the file.
    pub(super) fn word(&self) -> &'static str {
        match self {
            Self::Promise(..) => "promise",
            Self::Release(_) => "release",
            Self::Reserve(..) => "reserve",
            Self::Unreserve(_) => "unreserve",
            Self::Edit(edits) => match edits.first() {
                Some(edit::Edit::Add { .. }) => "add",
                Some(edit::Edit::Remove { .. }) => "remove",
                _ => "set",
            },
            Self::Apply(_) => "apply",
            Self::Status { .. } => "status",
            Self::Feedback { .. } => "feedback",
            Self::Events { .. } => "events",
            Self::Line(_) => "line",
            Self::Workload { .. } => "workload",
        }
    }
}

/// The flows to which an action applies.
#[derive(Clone, Debug)]
pub(super) struct FlowSelector {
    /// Flows of the scenario, by number.
    pub flows: Option<Range<usize>>,
    /// The fields that they must match, without the owner.
    pub target: Target,
    pub user: Option<User>,
}
