//! Scenarios as files: a topology, disciplines, workloads, what to measure; see [`file`](mod@file) for every key.
//!
//! ```
//! use tidegate_config::{Diagnostics, Source};
//! use tidegate_sim::scenario::Scenario;
//! let text = r#"
//!     version = 1
//!     duration = "5s"
//!     hosts = ["a", "b"]
//!     [[link]]
//!     from = "a"
//!     to = "b"
//!     rate = "10mbit"
//!     [[flow]]
//!     name = "bulk"
//!     from = "a"
//!     to = "b"
//!     workload = { kind = "bulk" }
//! "#;
//! let source = Source::new("small.toml", text);
//! let mut diagnostics = Diagnostics::new();
//! let scenario = Scenario::load(&source, None, &mut diagnostics).unwrap();
//! let outcome = scenario.run(1, |_| ());
//! let goodput = outcome.values.iter().find(|value| value.measure == "goodput").unwrap();
//! assert!(goodput.value > 9.5e6, "bit/s");
//! ```

pub mod actions;
mod control;
pub mod file;
mod names;
mod outcome;
pub mod queue;
mod report;
mod resolve;
mod resolve_actions;
mod statistics;
mod trace;

use std::net::IpAddr;

use tidegate_config::discipline::Site;
use tidegate_core::{Instant, Span};

use crate::driver::Driver;
use crate::engine::Simulation;
use crate::link::Line;
use crate::network::{LinkId, Network, NetworkError};
use crate::workload::FlowSpec;
use control::{Action, Control};
pub use file::Measure;
pub use outcome::{Outcome, Report, Value};
use queue::LinkQueue;
pub use resolve::Files;
pub use statistics::{Summary, summarise};

/// The JSON Schema of a scenario file.
pub fn schema() -> serde_json::Value {
    tidegate_config::schema::document::<file::File>("Tidegate scenario")
}

/// A link of a scenario, one direction.
#[derive(Clone, Debug)]
struct Wire {
    from: usize,
    to: usize,
    line: Line,
    queue: Option<LinkQueue>,
    driver: Option<Driver>,
    timer: Option<Span>,
    watch: bool,
}

/// A section of flows: the specifications made from it, in order.
#[derive(Clone, Debug)]
struct Section {
    name: String,
    flows: core::ops::Range<usize>,
}

/// The resolution of time series that are kept.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Detail {
    /// A link as a whole.
    #[default]
    Links,
    /// Also each flow and each class of it.
    Parts,
}

/// A scenario that can work. Running it changes nothing in it, so that runs may go in parallel.
#[derive(Clone, Debug)]
pub struct Scenario {
    /// One sentence on what it shows.
    pub sentence: Option<String>,
    /// The simulated time.
    pub duration: Span,
    /// The warm-up, which is not measured.
    pub warm_up: Span,
    /// The first seed.
    pub seed: u64,
    /// The number of runs, each with a seed of its own.
    pub runs: u32,
    /// How much is kept of what is watched. It changes the curves of an outcome and nothing else: not its digest.
    pub detail: Detail,
    measures: Vec<Measure>,
    bin: Span,
    // Name, and whether it is a host.
    nodes: Vec<(String, bool)>,
    /// Addresses that are given, by node.
    addresses: Vec<(usize, IpAddr)>,
    wires: Vec<Wire>,
    routes: Vec<(usize, usize, usize)>,
    flows: Vec<FlowSpec>,
    sections: Vec<Section>,
    variants: Vec<Variant>,
    /// In the order of their times.
    actions: Vec<Action>,
}

/// Another discipline on one link.
#[derive(Clone, Debug)]
struct Variant {
    name: String,
    wire: usize,
    queue: LinkQueue,
}

impl Scenario {
    /// How much time one run simulates: the duration, for each variant.
    pub fn simulated(&self) -> Span {
        self.duration.saturating_mul(self.variants.len().max(1) as u64)
    }

    /// The network of this scenario under `seed`.
    fn network(&self, seed: u64, variant: Option<&Variant>) -> Network {
        let mut net = Network::new(seed);
        net.warm_up(self.warm_up);
        net.bin(self.bin);
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
            let link = net.simplex(nodes[wire.from], nodes[wire.to], wire.line);
            match self.queue_of(number, variant) {
                Some(LinkQueue::Discipline(queue)) => {
                    let name = net.link_name(link);
                    net.queue(link, queue.build(&Site { seed, name, now: Instant::ZERO }));
                }
                Some(LinkQueue::Shaper(config)) => net.shaper(link, config),
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
        net
    }

    /// Returns the queue before the transmitter of wire `number` in a variant.
    fn queue_of<'a>(&'a self, number: usize, variant: Option<&'a Variant>) -> Option<&'a LinkQueue> {
        let other = variant.filter(|variant| variant.wire == number).map(|variant| &variant.queue);
        other.or(self.wires[number].queue.as_ref())
    }

    /// The flows that a name denotes: a section, or with a number after a dot one flow of it.
    fn flows_named(&self, name: &str) -> Option<core::ops::Range<usize>> {
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
    fn wire_name(&self, number: usize) -> String {
        let wire = &self.wires[number];
        format!("{}->{}", self.nodes[wire.from].0, self.nodes[wire.to].0)
    }

    /// What the flow of this number is called: its section, and its place in it where there are several.
    fn flow_name(&self, number: usize) -> String {
        match self.sections.iter().find(|section| section.flows.contains(&number)) {
            Some(section) if section.flows.len() == 1 => format!("flow {}", section.name),
            Some(section) => format!("flow {} {}", section.name, number - section.flows.start + 1),
            None => format!("flow {number}"),
        }
    }

    /// Checks that the network can work.
    fn probe(&self) -> Result<(), NetworkError> {
        self.network(self.seed, None).build().map(|_| ())
    }

    /// Makes it ready to run under `seed`, without its variants.
    ///
    /// # Panics
    /// Never: loading has built it once, and the seed does not matter for that.
    pub fn simulation(&self, seed: u64) -> Simulation {
        self.network(seed, None).build().expect("built when it was loaded")
    }

    /// Runs it under `seed`, one variant after the other. `progress` is called with the simulated time now and then.
    pub fn run(&self, seed: u64, mut progress: impl FnMut(Span)) -> Outcome {
        let variants = if self.variants.is_empty() { vec![None] } else { self.variants.iter().map(Some).collect() };
        let mut outcomes = Vec::with_capacity(variants.len());
        let mut done = Span::ZERO;
        for variant in variants {
            let mut sim = self.network(seed, variant).build().expect("built when it was loaded");
            // Small enough steps for a smooth bar, large enough to cost nothing.
            let step = (self.duration.as_nanos() / 256).max(1);
            let mut control = Control::new(self, variant);
            let mut at = 0;
            while at < self.duration.as_nanos() {
                at = (at + step).min(self.duration.as_nanos());
                control.run_until(&mut sim, Instant::from_nanos(at));
                progress(done + Span::from_nanos(at));
            }
            done += self.duration;
            let mut outcome = Outcome::of(self, variant, seed, &sim);
            outcome.report(control.finish(&mut sim));
            outcomes.push(match variant {
                Some(variant) => outcome.called(&variant.name),
                None => outcome,
            });
        }
        Outcome::joined(seed, outcomes)
    }
}
