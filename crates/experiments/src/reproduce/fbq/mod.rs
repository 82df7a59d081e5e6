//! `tidegate reproduce fbq`: jitter and cost of one FIFO (RAW), CBQ and FBC/FBQ; section 7 of the FBQ paper.

mod live;

pub use live::busy_time;
mod simulated;

use super::{Item, Options};
use crate::Failure;

pub const SENTENCE: &str =
    "UDP flows in classes of 10, 30 and 40 Mbit/s on a 100 Mbit/s wire: jitter per flow and cost of RAW, CBQ and FBQ";

/// The classes: name and rate in Mbit/s (section 7).
const CLASSES: [(&str, u64); 3] = [("premium", 10), ("assured", 30), ("best effort", 40)];
/// Bytes of payload in a packet (section 7), and what UDP and IPv4 add.
const PAYLOAD: u64 = 1_400;
const HEADERS: u64 = 28;

/// The systems that are compared.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum System {
    Raw,
    Cbq,
    Fbq,
}

impl System {
    const ALL: [Self; 3] = [Self::Raw, Self::Cbq, Self::Fbq];

    fn name(self) -> &'static str {
        match self {
            Self::Raw => "raw",
            Self::Cbq => "cbq",
            Self::Fbq => "fbq",
        }
    }
}

/// The offered load.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct Load {
    id: &'static str,
    /// The rate of each flow, in kbit/s of the wire.
    kbit: u64,
    /// Demand over allocation, in percent.
    percent: u64,
}

/// Flows of 0.5 and 1 Mbit/s and larger, the classes full and beyond.
const LOADS: [Load; 5] = [
    Load { id: "full.500k", kbit: 500, percent: 95 },
    Load { id: "full.1m", kbit: 1_000, percent: 95 },
    Load { id: "full.5m", kbit: 5_000, percent: 95 },
    Load { id: "beyond.1m", kbit: 1_000, percent: 150 },
    Load { id: "beyond.5m", kbit: 5_000, percent: 150 },
];

impl Load {
    /// The flows, as the number of the class each is in.
    fn flows(self) -> Vec<usize> {
        let count = |mbit: u64| (mbit * 1_000 * self.percent).div_euclid(self.kbit * 100).max(1);
        (0..CLASSES.len()).flat_map(|n| std::iter::repeat_n(n, count(CLASSES[n].1) as usize)).collect()
    }
}

/// The results of one run.
#[derive(Clone, Copy, Debug, Default)]
struct Outcome {
    /// Mean over flows of the mean deviation of the gaps between their packets from the mean gap, in ns: how uneven
    /// the flow is where it goes onto the wire. (The change of one-way delay would count smoothing as jitter.)
    jitter: f64,
    /// Bits a second over all flows, on the wire.
    rate: f64,
    /// Part of the packets that did not arrive.
    loss: f64,
    /// Processor time in seconds for each second, where it is known.
    processor: Option<f64>,
}

/// Runs the experiment.
pub fn run(options: &Options) -> Result<Vec<Item>, Failure> {
    let mut items = Vec::new();
    // Namespaces can be made only while the process has one thread: the live part goes first.
    if options.wants("live") {
        items.extend(live::run(options));
    }
    if options.wants("sim") {
        items.extend(simulated::run(options));
    }
    Ok(items)
}

/// The items of one load: each system's figures, and the paper's claims about them.
fn items(prefix: &str, load: Load, results: [Outcome; 3], claims_bind: bool, note: &str) -> Vec<Item> {
    let id = |what: &str| format!("{prefix}.{}.{what}", load.id);
    let mut items = Vec::new();
    for (system, result) in System::ALL.iter().zip(&results) {
        let name = system.name();
        items.push(Item::measured(
            id(&format!("{name}.jitter")),
            format!("jitter of a flow, {name}"),
            "ms",
            result.jitter / 1e6,
        ));
        items.push(Item::measured(
            id(&format!("{name}.rate")),
            format!("all flows, {name}"),
            "Mbit/s",
            result.rate / 1e6,
        ));
        items.push(Item::measured(
            id(&format!("{name}.loss")),
            format!("not delivered, {name}"),
            "%",
            result.loss * 100.0,
        ));
        if let Some(processor) = result.processor {
            let what = format!("processor time of senders, receiver and shaper, {name}");
            items.push(Item::measured(id(&format!("{name}.cpu")), what, "% of one", processor * 100.0));
        }
    }
    let [raw, cbq, fbq] = results;
    for (than, other) in [("cbq", cbq), ("raw", raw)] {
        let what = format!("jitter of FBQ over that of {}; the paper: less in all cases", than.to_uppercase());
        let item = Item::measured(id(&format!("fbq-to-{than}")), what, "ratio", fbq.jitter / other.jitter.max(1.0));
        items.push(if claims_bind { item.within(0.0, 1.01) } else { item }.note(note));
    }
    items
}
