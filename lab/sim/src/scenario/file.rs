//! The sections of a scenario file, as written in the file.

mod application;
mod distribution;
mod flow;
mod link;
mod tcp;
mod workload;

use tidegate_config::node::{Node, Value};
use tidegate_config::values::{Prefix, WallStart};
use tidegate_config::{Decode, Diagnostics, Schemas, Spanned};
use tidegate_core::Span;

use super::actions::AtSection;
use super::queue::QueueSection;
use super::until::{Until, WarmUp};
pub use application::*;
pub use distribution::*;
pub use flow::*;
pub use link::*;
pub use tcp::*;
pub use workload::*;

tidegate_config::record! {
    /// A scenario of the simulator: a topology, flows, their duration, and the quantities to measure.
    ///
    /// Names of hosts and routers may contain a range: `s{1..10}` means `s1` to `s10`.
    pub struct File as "scenario" {
        /// The version of the format: 1.
        pub version: Spanned<u32>,
        /// One sentence on what the scenario shows; the caption of its results.
        pub sentence: Option<String>,
        /// The simulated time, including the warm-up; at most 30 days.
        pub duration: Spanned<Span>,
        /// The part at the beginning that is not measured, or "mser-5": the longest that the rule MSER-5 finds in the goodput
        /// of flows and the throughput and queueing of watched links, in a run of the first seed that is made for it, at most
        /// half of the duration. Default none.
        pub warm_up: Spanned<WarmUp> = "0s",
        /// The first seed. Default 1.
        pub seed: u64 = 1,
        /// The seed of the flows' random values: their starts, gaps, sizes and pauses. If it is given, every run has
        /// the same workload, and only the network's random values (losses, delays, disciplines) differ. Default: the
        /// seed of the run.
        pub workload_seed: Option<u64>,
        /// The wall clock at time 0, for rules with `when`. It has no summer time. Default Monday 00:00.
        pub starts: Option<WallStart>,
        /// The number of runs, with consecutive seeds from the first. Default 1.
        pub runs: Spanned<u32> = 1,
        /// Make further runs until half the 95 % interval of a measure is at most this share of its mean, in each variant:
        /// "goodput +- 2 %" for all flows, "goodput of flow bulk +- 2 %" for one, by the names of `primary`. At least `runs` and 5 are made, and at most
        /// `most-runs`. A number of runs given on the command line makes exactly these. Default: `runs` decides.
        pub until: Option<Spanned<Until>>,
        /// The largest number of runs with `until`. Default 200.
        pub most_runs: Spanned<u32> = 200,
        /// The quantities that the answer is about, named before the runs, each as "MEASURE of SUBJECT" ("delay p99 of flow
        /// call"): variants are compared by these alone, with the correction for these, unless --look chooses others; also where
        /// `compare` reads the results or a sweep, and in the claims of an artifact without its own. Default: the most
        /// important ones of each flow and of the busiest links.
        pub primary: Vec<Spanned<String>>,
        /// The initial width of the bins of time series; they widen as time passes. Default 100 ms, which lasts for a
        /// minute; more in runs of a day and longer. Without it, figures draw goodput as means over wider bins, at most a
        /// hundred of them, and say how wide.
        pub bin: Option<Spanned<Span>>,
        /// The quantities in the results. Default: all that the scenario has but for `queueing`, `feedback` and `share`.
        pub measure: Vec<Measure>,
        /// The hosts, at which flows begin and end.
        pub hosts: Vec<Spanned<String>>,
        /// The routers, which forward packets.
        pub routers: Vec<Spanned<String>>,
        /// Addresses of hosts, which the rules of shaper files see.
        pub host: Vec<Spanned<HostSection>>,
        /// The links between hosts and routers, each by default in both directions.
        pub link: Vec<Spanned<LinkSection>>,
        /// Queues that several links share. Default: each link has its own.
        pub shared_queue: Vec<Spanned<SharedQueueSection>>,
        /// Routes that override the shortest paths.
        pub route: Vec<Spanned<RouteSection>>,
        /// The flows with their workloads.
        pub flow: Vec<Spanned<FlowSection>>,
        /// Disciplines to compare: each run is repeated for each variant with the same random numbers. Default none:
        /// the scenario unchanged.
        pub variant: Vec<Spanned<VariantSection>>,
        /// Actions on shapers while the scenario runs: promises, reservations, changes, snapshots.
        pub at: Vec<Spanned<AtSection>>,
    }
}

tidegate_config::record! {
    /// The address of a host, or of a range of hosts.
    pub struct HostSection as "host" {
        /// A host, or a range of hosts.
        pub name: Spanned<String>,
        /// The address of the first host; each further host has the next one. Default: 10.0.0.1 for the first node of
        /// the scenario, and so on.
        pub address: Spanned<Prefix>,
    }
}

tidegate_config::record! {
    /// A variant of the scenario with another discipline on one link.
    pub struct VariantSection as "variant" {
        /// Its name in the results.
        pub name: Spanned<String>,
        /// Where the link begins.
        pub from: Spanned<String>,
        /// Where the link ends.
        pub to: Spanned<String>,
        /// The discipline or shaper file that replaces the link's own.
        pub queue: Spanned<QueueSection>,
        /// That of the other direction of the link. Default: the one that the link has.
        pub queue_back: Option<Spanned<QueueSection>>,
    }
}

tidegate_config::choices! {
    /// A quantity that is measured.
    pub enum Measure as "measure" {
        /// Bytes that reached the application, as a rate.
        Goodput = "goodput",
        /// Bytes that arrived, by colour, as rates.
        Colours = "colours",
        /// One-way delay of packets.
        Delay = "delay",
        /// Packets dropped, marked and retransmitted, and timeouts.
        Loss = "loss",
        /// Packets that arrived with a congestion mark, and how many of them acknowledgements have reported to the sender: by
        /// accurate feedback of TCP (AccECN) or by QUIC.
        Feedback = "feedback",
        /// Times of handshakes and of complete transfers, and their slowdown compared with an idle network.
        Completion = "completion",
        /// The quality for users of applications: R factor and MOS of calls, page load times, rebuffering, bit rate and
        /// switches of videos.
        Application = "application",
        /// The fairness among the flows of a section.
        Fairness = "fairness",
        /// Utilisation, queueing delay, drops and marks of the watched links.
        Links = "links",
        /// The time that the packets of each flow spent in queues, which is its one-way delay without that of lines. Percentiles are at
        /// most 1/64 too high: of a delay of 10 ms those are 0.16 ms, as much as a short queue has.
        Queueing = "queueing",
        /// The part that each flow has of the goodput of all, and the ratio of its goodput to that of each flow after it.
        Share = "share",
    }
}

impl Measure {
    /// Whether it is in the results only if it is listed.
    pub(super) fn is_further(self) -> bool {
        matches!(self, Self::Feedback | Self::Queueing | Self::Share)
    }
}

tidegate_config::record! {
    /// A queue that several links share, as several interfaces share a total rate. A released packet continues to the
    /// link on its path, which transmits it from a drop-tail queue of its own.
    pub struct SharedQueueSection as "shared queue" {
        /// A node, or a range of nodes, where the links begin; as in the [[link]].
        pub from: Spanned<String>,
        /// The nodes at which the links end.
        pub to: Spanned<String>,
        /// The discipline, or the shaper file.
        pub queue: Spanned<QueueSection>,
    }
}

tidegate_config::record! {
    /// A route that overrides the shortest path.
    pub struct RouteSection as "route" {
        /// The node at which it applies.
        pub at: Spanned<String>,
        /// The host to which it leads.
        pub to: Spanned<String>,
        /// The next node.
        pub via: Spanned<String>,
    }
}

/// Decodes a time, or the word that may stand in its place.
pub(super) fn span_or<T>(
    node: &Node,
    diagnostics: &mut Diagnostics,
    (word, meant): (&str, T),
    time: impl FnOnce(Span) -> T,
) -> Option<T> {
    match &node.value {
        Value::Text(text) if text == word => Some(meant),
        _ => Span::decode(node, diagnostics).map(time),
    }
}

/// The schema of a value that [`span_or`] decodes.
pub(super) fn schema_of_span_or(word: &str, schemas: &mut Schemas) -> serde_json::Value {
    serde_json::json!({ "anyOf": [Span::schema(schemas), { "const": word }] })
}
