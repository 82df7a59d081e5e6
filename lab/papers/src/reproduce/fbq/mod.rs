//! `tidegate reproduce fbq`: the jitter and the cost of a FIFO (RAW), CBQ and FBC/FBQ.
//!
//! Source: M. Bechler, H. Ritter, G. Schäfer and J. Schiller, "Traffic shaping in end systems attached to
//! QoS-supporting networks", 2001, section 7.

mod agreement;
mod live;

pub use live::busy_time;
mod shares;
mod simulated;

use tidegate_report::Axis;

use super::figure::Figure;
use super::item::{Bound, Sample, paper};
use super::{Item, Options};
use crate::Failure;

pub const SENTENCE: &str =
    "UDP flows in classes of 10, 30 and 40 Mbit/s on a 100 Mbit/s wire: jitter per flow and cost of RAW, CBQ and FBQ";

/// The names and rates in Mbit/s of the classes (section 7).
const CLASSES: [(&str, u64); 3] = [("premium", 10), ("assured", 30), ("best effort", 40)];
/// The payload of a packet in bytes (section 7), and the headers of UDP and IPv4.
const PAYLOAD: u64 = 1_400;
const HEADERS: u64 = 28;

/// The systems that are compared.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum System {
    Raw,
    Cbq,
    /// FBQ by the paper's equations (5.1) to (5.3), in which a flow never gets more than its share.
    Fbq,
    /// FBQ with our default, in which the unused part of a flow's share goes to the others.
    Shared,
}

impl System {
    const ALL: [Self; 4] = [Self::Raw, Self::Cbq, Self::Fbq, Self::Shared];

    fn name(self) -> &'static str {
        match self {
            Self::Raw => "raw",
            Self::Cbq => "cbq",
            Self::Fbq => "fbq",
            Self::Shared => "fbq-shared",
        }
    }
}

/// The offered load.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct Load {
    id: &'static str,
    /// The rate of each flow on the wire, in kbit/s.
    kbit: u64,
    /// The demand in percent of the allocation.
    percent: u64,
}

/// The loads: flows of 0.5, 1 and 5 Mbit/s, with a demand of almost the classes' rates and beyond them.
const LOADS: [Load; 6] = [
    Load { id: "full.500k", kbit: 500, percent: 95 },
    Load { id: "full.1m", kbit: 1_000, percent: 95 },
    Load { id: "full.5m", kbit: 5_000, percent: 95 },
    Load { id: "beyond.500k", kbit: 500, percent: 150 },
    Load { id: "beyond.1m", kbit: 1_000, percent: 150 },
    Load { id: "beyond.5m", kbit: 5_000, percent: 150 },
];

impl Load {
    /// The flows, each given as the index of its class.
    fn flows(self) -> Vec<usize> {
        let count = |mbit: u64| (mbit * 1_000 * self.percent).div_euclid(self.kbit * 100).max(1);
        (0..CLASSES.len()).flat_map(|n| std::iter::repeat_n(n, count(CLASSES[n].1) as usize)).collect()
    }
}

/// The results of one run.
#[derive(Clone, Copy, Debug, Default)]
struct Outcome {
    /// The jitter in ns: the mean deviation of the gaps between a flow's packets on the wire from the mean gap,
    /// averaged over the flows. (The variation of the one-way delay would count smoothing as jitter.)
    jitter: f64,
    /// The rate of all flows on the wire, in bit/s.
    rate: f64,
    /// The fraction of the packets that did not arrive.
    loss: f64,
    /// The processor time in seconds per second, if it is known.
    processor: Option<f64>,
    /// The rate of each class on the wire, in bit/s.
    classes: [f64; 3],
    /// The least and the largest ratio of a flow's rate to the mean of its class.
    flows: (f64, f64),
    /// The mean time from the arrival of a packet to its transmission, in ns.
    wait: f64,
    /// The mean number of packets of one class that leave in a row.
    row: f64,
}

/// Runs the experiment.
pub fn run(options: &Options) -> Result<Vec<Item>, Failure> {
    let mut items = Vec::new();
    // The live part runs first, because namespaces can only be created while the process is single-threaded.
    if options.wants("live") {
        items.extend(live::run(options));
    }
    if options.wants("sim") {
        items.extend(simulated::run(options));
    }
    if options.wants("shares") {
        items.extend(shares::run());
    }
    if options.wants("agreement") {
        items.extend(agreement::run(options));
    }
    Ok(items)
}

/// Draws figures 3 and 4: the jitter and the processor time of each system against the rate of a flow. The paper's text
/// states only the order of the systems for figure 3, and the factors between them for figure 4.
pub fn figures(options: &Options, items: &[Item]) -> Result<(), Failure> {
    for (full, percent) in [("full", 95), ("beyond", 150)] {
        for (prefix, figure, key, quantity, unit) in [
            ("sim", 3, "jitter", "jitter of a flow", "ms"),
            ("live", 3, "jitter", "jitter of a flow", "ms"),
            ("live", 4, "cpu", "processor time, of one", "%"),
        ] {
            let loads = LOADS.iter().filter(|load| load.id.starts_with(full));
            let curve = |system: &System| {
                let name = system.name();
                let points =
                    loads.clone().map(|load| (load.kbit as f64 / 1e3, format!("{prefix}.{}.{name}.{key}", load.id)));
                (name.to_uppercase(), points.collect())
            };
            Figure {
                name: format!("figure-{figure}-{prefix}-{full}"),
                title: format!("{quantity}, demand {percent} % of the classes, {prefix} (figure {figure})"),
                curves: System::ALL.iter().map(curve).collect(),
                ..Figure::default()
            }
            .draw(options, items, Axis::log("rate of a flow", "Mbit/s"), Axis::new(quantity, unit))?;
        }
    }
    Ok(())
}

/// Creates the items of one load: the measurements of each system, and the paper's claims about them. `results` has the
/// runs of each of [`System::ALL`]. Runs with the same index have the same arrivals.
fn items(prefix: &str, load: Load, results: &[Vec<Outcome>; 4], claims_bind: bool, note: &str) -> Vec<Item> {
    let id = |what: &str| format!("{prefix}.{}.{what}", load.id);
    let mut items = Vec::new();
    for (system, runs) in System::ALL.iter().zip(results) {
        let name = system.name();
        let mut item = |key: &str, what: &str, unit: &str, of: &dyn Fn(&Outcome) -> f64| {
            let sample = Sample::of(runs.iter().map(of));
            items.push(Item::sampled(id(&format!("{name}.{key}")), format!("{what}, {name}"), unit, sample));
        };
        item("jitter", "jitter of a flow", "ms", &|run| run.jitter / 1e6);
        item("rate", "all flows", "Mbit/s", &|run| run.rate / 1e6);
        item("loss", "not delivered", "%", &|run| run.loss * 100.0);
        if runs.iter().all(|run| run.processor.is_some()) {
            let what = "processor time of senders, receiver and shaper";
            item("cpu", what, "% of one", &|run| run.processor.unwrap_or(f64::NAN) * 100.0);
        }
    }
    for (than, system) in [("cbq", System::Cbq), ("raw", System::Raw)] {
        for (fbq, key) in [(System::Fbq, "fbq"), (System::Shared, "shared")] {
            let ratios = Sample::of(ratios(results, fbq, system));
            let what = format!("jitter of {} over that of {}", fbq.name().to_uppercase(), than.to_uppercase());
            let item = Item::sampled(id(&format!("{key}-to-{than}")), what, "ratio", ratios).note(note);
            let smaller = paper("section 7, figure 3: in all cases smaller than under CBQ and RAW");
            // The claim is about the paper's shaper, not about our default.
            let binds = claims_bind && fbq == System::Fbq;
            items.push(if binds { item.bound(Bound::below(1.0, smaller)) } else { item });
        }
    }
    items
}

/// The ratio of the jitter under one system to that under another, for each run.
fn ratios(results: &[Vec<Outcome>; 4], of: System, by: System) -> Vec<f64> {
    jitter_by(&results[of as usize], &results[by as usize])
}

/// The ratio of the jitter of each of `runs` to that of the run with the same index in `others`.
fn jitter_by(runs: &[Outcome], others: &[Outcome]) -> Vec<f64> {
    runs.iter().zip(others).map(|(run, other)| run.jitter / other.jitter.max(1.0)).collect()
}
