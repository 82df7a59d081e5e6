//! The sections of a scenario file, as they are written.

mod application;
mod distribution;
mod flow;
mod link;
mod tcp;
mod workload;

use tidegate_config::Spanned;
use tidegate_config::values::Prefix;
use tidegate_core::Span;

use super::actions::AtSection;
use super::queue::QueueSection;
pub use application::*;
pub use distribution::*;
pub use flow::*;
pub use link::*;
pub use tcp::*;
pub use workload::*;

tidegate_config::record! {
    /// A scenario of the simulator: a topology, what is sent over it, for how long, and what is measured.
    ///
    /// Names of hosts and routers may hold a range: `s{1..10}` means `s1` to `s10`.
    pub struct File as "scenario" {
        /// The version of the language: 1.
        pub version: Spanned<u32>,
        /// One sentence on what the scenario shows; the caption of its results.
        pub sentence: Option<String>,
        /// How long is simulated, warm-up included; at most 30 days.
        pub duration: Spanned<Span>,
        /// How much of the beginning is not measured. Default none.
        pub warm_up: Spanned<Span> = "0s",
        /// The first seed. Default 1.
        pub seed: u64 = 1,
        /// The seed of what flows draw for themselves: their starts, gaps, sizes and pauses. With one of its own every
        /// run has the same workload, and only the network's draws (losses, delays, disciplines) differ. Default: the
        /// seed of the run.
        pub workload_seed: Option<u64>,
        /// Runs with different seeds, one after the other from the first. Default 1.
        pub runs: Spanned<u32> = 1,
        /// The width of the bins that time series begin with; they widen as time passes. Default 100 ms: a minute
        /// before the first widening.
        pub bin: Spanned<Span> = "100ms",
        /// What the table shows. Default everything that the scenario has.
        pub measure: Vec<Measure>,
        /// The hosts: where flows begin and end.
        pub hosts: Vec<Spanned<String>>,
        /// The routers: what forwards.
        pub routers: Vec<Spanned<String>>,
        /// Addresses of hosts, which the rules of shaper files see.
        pub host: Vec<Spanned<HostSection>>,
        /// The links between hosts and routers, each by default in both directions.
        pub link: Vec<Spanned<LinkSection>>,
        /// Queues that several links have in common. Default: each link has its own.
        pub shared_queue: Vec<Spanned<SharedQueueSection>>,
        /// Ways that are not the shortest.
        pub route: Vec<Spanned<RouteSection>>,
        /// The flows with their workloads.
        pub flow: Vec<Spanned<FlowSection>>,
        /// Disciplines to compare: each run is made once for each variant, with the same random numbers. Default
        /// none: the scenario unchanged.
        pub variant: Vec<Spanned<VariantSection>>,
        /// What is done to shapers while the scenario runs: promises, reservations, changes, looks at the statistics.
        pub at: Vec<Spanned<AtSection>>,
    }
}

tidegate_config::record! {
    /// The address of a host, or of a range of hosts.
    pub struct HostSection as "host" {
        /// A host, or a range of hosts.
        pub name: Spanned<String>,
        /// The address of the first; each further host has the one after. Default: 10.0.0.1 for the first node of the
        /// scenario, and so on.
        pub address: Spanned<Prefix>,
    }
}

tidegate_config::record! {
    /// The scenario with another discipline on a link.
    pub struct VariantSection as "variant" {
        /// Its name in the results.
        pub name: Spanned<String>,
        /// Where the link begins.
        pub from: Spanned<String>,
        /// Where the link ends.
        pub to: Spanned<String>,
        /// The discipline, or the shaper file, that takes the place of the link's own.
        pub queue: Spanned<QueueSection>,
    }
}

tidegate_config::choices! {
    /// The quantity that is measured.
    pub enum Measure as "measure" {
        /// Bytes that reached the application, as a rate.
        Goodput = "goodput",
        /// Bytes that arrived, by colour, as rates.
        Colours = "colours",
        /// One-way delay of packets.
        Delay = "delay",
        /// Packets dropped, marked, sent again, and timeouts.
        Loss = "loss",
        /// Times of connecting and of complete transfers, and how much slower than alone they were.
        Completion = "completion",
        /// What users of applications meet: R factor and MOS of calls, page load times, rebuffering, bit rate and
        /// switches of videos.
        Application = "application",
        /// The fairness among the flows of a section.
        Fairness = "fairness",
        /// Use, queueing delay, drops and marks of the links that are watched.
        Links = "links",
    }
}

tidegate_config::record! {
    /// A queue that several links have in common, as several interfaces have one total: what it releases goes on to the
    /// link of its way, which transmits it behind a drop-tail queue of its own.
    pub struct SharedQueueSection as "shared queue" {
        /// A node, or a range of nodes, where the links begin; as in the [[link]].
        pub from: Spanned<String>,
        /// Where they end.
        pub to: Spanned<String>,
        /// The discipline, or the shaper file.
        pub queue: Spanned<QueueSection>,
    }
}

tidegate_config::record! {
    /// A way that is not the shortest.
    pub struct RouteSection as "route" {
        /// The node at which it applies.
        pub at: Spanned<String>,
        /// The host that it leads to.
        pub to: Spanned<String>,
        /// The next node on it.
        pub via: Spanned<String>,
    }
}
