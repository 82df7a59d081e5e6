//! What a run of a scenario gives: values, curves, and a digest of all of it.

use tidegate_core::{Colour, Instant};

use super::file::Measure;
use super::{Scenario, Section};
use crate::engine::Simulation;
use crate::metrics::{FlowMetrics, Histogram, LinkMetrics, PARTS, Part, PartSeries, Series, SizeClass, jain, largest};

/// Flows, and classes, of a link that have curves of their own: those with the most bytes. The others have one together.
pub const SHOWN_PARTS: usize = 15;
/// What the curve of all other flows is called.
pub const OTHER_FLOWS: &str = "flow (others)";
/// What the curve of all other classes is called.
pub const OTHER_CLASSES: &str = "class (others)";

/// One measured value.
#[derive(Clone, PartialEq, Debug)]
pub struct Value {
    /// What it is of: `flow bulk`, `link r->b`.
    pub subject: String,
    /// What is measured.
    pub measure: String,
    /// Its unit, as machine output carries it: `bps`, `ns`, `packets`, `1`.
    pub unit: &'static str,
    /// The value.
    pub value: f64,
}

/// A value over time, or over a share.
#[derive(Clone, PartialEq, Debug)]
pub struct Curve {
    /// What it is of, and what it is: `flow bulk goodput`.
    pub name: String,
    /// The variant of the scenario; empty where there are none.
    pub variant: String,
    /// What it is of: `flow bulk`, `link r->b`.
    pub subject: String,
    /// What is measured: `goodput`, `queueing`.
    pub measure: &'static str,
    /// Which part of the subject: a colour, a class, a flow; empty for all of it.
    pub part: String,
    /// What the first number of a point is, with its unit.
    pub x: &'static str,
    /// What the second number is, with its unit.
    pub y: &'static str,
    /// The points.
    pub points: Vec<(f64, f64)>,
}

/// What one run gave.
#[derive(Clone, PartialEq, Debug)]
pub struct Outcome {
    /// The seed of the run.
    pub seed: u64,
    /// The values, in a fixed order.
    pub values: Vec<Value>,
    /// Series and distributions of what is watched.
    pub curves: Vec<Curve>,
    /// Events that the simulator handled.
    pub events: u64,
    /// A digest of everything that was measured.
    pub digest: Digest,
}

/// A 128-bit FNV-1a digest: equal results have equal digests, and different ones differ but for a chance of 2⁻¹²⁸. It
/// guards against accidents, not against forgery.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Digest(u128);

impl Default for Digest {
    fn default() -> Self {
        Self(0x6c62_272e_07bb_0142_62b8_2175_6295_c58d)
    }
}

impl core::fmt::Display for Digest {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        write!(f, "{:032x}", self.0)
    }
}

impl Digest {
    /// Takes in bytes.
    pub fn bytes(&mut self, bytes: &[u8]) {
        for &byte in bytes {
            self.0 = (self.0 ^ u128::from(byte)).wrapping_mul(0x0000_0000_0100_0000_0000_0000_0000_013b);
        }
    }
    /// Takes in a number.
    pub fn number(&mut self, number: u64) {
        self.bytes(&number.to_le_bytes());
    }
    /// Takes in another digest.
    pub fn digest(&mut self, other: Self) {
        self.bytes(&other.0.to_le_bytes());
    }

    fn histogram(&mut self, histogram: &Histogram) {
        self.number(histogram.count());
        for (value, share) in histogram.distribution() {
            self.number(value);
            self.number(share.to_bits());
        }
    }
    fn series(&mut self, series: &Series) {
        self.number(series.width().as_nanos());
        for (_, sum) in series.sums() {
            self.number(sum);
        }
    }
    fn flow(&mut self, flow: &FlowMetrics) {
        let tallies = flow.arrived.iter().chain([&flow.sent, &flow.retransmitted, &flow.dropped]);
        for tally in tallies {
            self.number(tally.packets);
            self.number(tally.bytes);
        }
        let counts = [flow.goodput_bytes, flow.marked, flow.timeouts, flow.opened, flow.completed, flow.failed];
        for count in counts.into_iter().chain([flow.refused]) {
            self.number(count);
        }
        let histograms = [&flow.delay_ns, &flow.connect_ns, &flow.completion_ns];
        for histogram in histograms.into_iter().chain(&flow.completion_by_size_ns).chain(&flow.slowdown_milli) {
            self.histogram(histogram);
        }
        if let Some(series) = &flow.series {
            self.series(series);
        }
    }
    fn link(&mut self, link: &LinkMetrics) {
        for tally in link.sent.iter().chain(&link.dropped).chain(&link.classes) {
            self.number(tally.packets);
            self.number(tally.bytes);
        }
        for &count in link.dropped_for.iter().chain([&link.lost, &link.marked]) {
            self.number(count);
        }
        self.histogram(&link.delay_ns);
        if let Some(series) = &link.series {
            let rest = [&series.backlog, &series.delay_ns, &series.dropped, &series.marked];
            for series in series.sent.iter().chain(rest) {
                self.series(series);
            }
        }
    }
}

/// Collects values of one subject.
struct Collector<'a> {
    subject: String,
    values: &'a mut Vec<Value>,
}

impl Collector<'_> {
    fn add(&mut self, measure: impl Into<String>, unit: &'static str, value: f64) {
        self.values.push(Value { subject: self.subject.clone(), measure: measure.into(), unit, value });
    }
    /// Mean, median and 99th percentile.
    fn spread(&mut self, measure: &str, unit: &'static str, scale: f64, histogram: &Histogram) {
        let quantile = |q| histogram.quantile(q).map(|value| value as f64);
        for (suffix, value) in [(" mean", histogram.mean()), (" p50", quantile(0.5)), (" p99", quantile(0.99))] {
            if let Some(value) = value {
                self.add(format!("{measure}{suffix}"), unit, value * scale);
            }
        }
    }
}

impl Outcome {
    pub(super) fn of(scenario: &Scenario, seed: u64, sim: &Simulation) -> Self {
        let mut outcome =
            Self { seed, values: Vec::new(), curves: Vec::new(), events: sim.events(), digest: Digest::default() };
        outcome.digest.number(seed);
        outcome.digest.number(sim.events());
        let flows: Vec<&FlowMetrics> = sim.flows().map(|(_, metrics)| metrics).collect();
        for flow in &flows {
            outcome.digest.flow(flow);
        }
        for section in &scenario.sections {
            outcome.section(scenario, sim, section, &flows[section.flows.clone()]);
        }
        for (index, (name, link)) in sim.links().enumerate() {
            outcome.digest.link(link);
            if scenario.wires[index].watch {
                outcome.link(scenario, sim, index, name, link);
            }
        }
        outcome
    }

    /// The same with the name of a variant before every subject.
    pub(super) fn called(mut self, name: &str) -> Self {
        for value in &mut self.values {
            value.subject = format!("{name}: {}", value.subject);
        }
        for curve in &mut self.curves {
            curve.name = format!("{name} {}", curve.name);
            name.clone_into(&mut curve.variant);
        }
        self
    }

    /// One outcome of several of the same seed.
    pub(super) fn joined(seed: u64, mut outcomes: Vec<Self>) -> Self {
        if outcomes.len() == 1 {
            return outcomes.remove(0);
        }
        let mut joined = Self { seed, values: Vec::new(), curves: Vec::new(), events: 0, digest: Digest::default() };
        for outcome in outcomes {
            joined.values.extend(outcome.values);
            joined.curves.extend(outcome.curves);
            joined.events += outcome.events;
            joined.digest.digest(outcome.digest);
        }
        joined
    }

    fn section(&mut self, scenario: &Scenario, sim: &Simulation, section: &Section, flows: &[&FlowMetrics]) {
        let wants = |measure| scenario.wants(measure);
        let span = sim.measured();
        let mut all = FlowMetrics::default();
        for flow in flows {
            all.merge(flow);
        }
        let subject = format!("flow {}", section.name);
        let mut to = Collector { subject: subject.clone(), values: &mut self.values };
        if wants(Measure::Goodput) {
            to.add("goodput", "bps", all.goodput(span).as_bps() as f64);
        }
        if wants(Measure::Colours) && all.arrived[1..].iter().any(|tally| tally.packets > 0) {
            for (name, colour) in [("green", Colour::Green), ("yellow", Colour::Yellow), ("red", Colour::Red)] {
                to.add(format!("throughput {name}"), "bps", all.throughput(colour, span).as_bps() as f64);
            }
        }
        if wants(Measure::Fairness) && flows.len() > 1 {
            to.add("fairness", "1", jain(flows.iter().map(|flow| flow.goodput_bytes as f64)));
        }
        if wants(Measure::Delay) {
            to.spread("delay", "ns", 1.0, &all.delay_ns);
        }
        if wants(Measure::Loss) {
            to.add("sent", "packets", all.sent.packets as f64);
            to.add("dropped", "packets", all.dropped.packets as f64);
            to.add("marked", "packets", all.marked as f64);
            to.add("retransmitted", "packets", all.retransmitted.packets as f64);
            to.add("timeouts", "1", all.timeouts as f64);
        }
        if wants(Measure::Completion) && all.completed + all.failed + all.refused > 0 {
            to.add("opened", "1", all.opened as f64);
            to.add("completed", "1", all.completed as f64);
            to.add("failed", "1", all.failed as f64);
            to.add("refused", "1", all.refused as f64);
            to.spread("connect", "ns", 1.0, &all.connect_ns);
            to.spread("completion", "ns", 1.0, &all.completion_ns);
            for class in SizeClass::ALL {
                let name = class.name();
                to.spread(&format!("completion {name}"), "ns", 1.0, &all.completion_by_size_ns[class as usize]);
                to.spread(&format!("slowdown {name}"), "1", 1e-3, &all.slowdown_milli[class as usize]);
            }
        }
        let curves = [("delay", &all.delay_ns), ("completion", &all.completion_ns)];
        for (measure, histogram) in curves {
            if histogram.count() > 0 {
                self.curves.push(distribution(&subject, measure, histogram));
            }
        }
        for (number, flow) in flows.iter().enumerate() {
            if let Some(series) = &flow.series {
                let part = if flows.len() > 1 { (number + 1).to_string() } else { String::new() };
                self.curves.push(over_time(&subject, "goodput", part, "rate_bps", rates(series)));
            }
        }
    }

    fn link(&mut self, scenario: &Scenario, sim: &Simulation, index: usize, name: &str, link: &LinkMetrics) {
        let subject = format!("link {name}");
        if scenario.wants(Measure::Links) {
            let mut to = Collector { subject: subject.clone(), values: &mut self.values };
            let rate = scenario.wires[index].line.rate.as_bps() as f64;
            to.add("throughput", "bps", link.sent_total().rate(sim.measured()).as_bps() as f64);
            to.add("utilisation", "1", link.sent_total().rate(sim.measured()).as_bps() as f64 / rate);
            to.spread("queueing", "ns", 1.0, &link.delay_ns);
            to.add("dropped", "packets", link.dropped_total().packets as f64);
            to.add("marked", "packets", link.marked as f64);
            if link.classes.iter().filter(|tally| tally.packets > 0).count() > 1 {
                for (class, tally) in link.classes.iter().enumerate().filter(|(_, tally)| tally.packets > 0) {
                    to.add(format!("throughput class {class}"), "bps", tally.rate(sim.measured()).as_bps() as f64);
                }
            }
        }
        if link.delay_ns.count() > 0 {
            self.curves.push(distribution(&subject, "queueing", &link.delay_ns));
        }
        let Some(series) = &link.series else { return };
        for (name, series) in ["green", "yellow", "red"].iter().zip(&series.sent) {
            if series.sums().next().is_some() {
                self.curves.push(over_time(&subject, "throughput", *name, "rate_bps", rates(series)));
            }
        }
        self.curves.push(over_time(&subject, "backlog", "", "packets", means(&series.backlog)));
        self.curves.push(over_time(&subject, "queueing", "", "delay_ns", means(&series.delay_ns)));
        for (measure, series) in [("drops", &series.dropped), ("marks", &series.marked)] {
            let points = counts(series);
            if !points.is_empty() {
                self.curves.push(over_time(&subject, measure, "", "packets", points));
            }
        }
        let Some(parts) = &series.parts else { return };
        fn there(parts: &[Option<Box<PartSeries>>]) -> impl Iterator<Item = (usize, &PartSeries)> {
            parts.iter().enumerate().filter_map(|(number, part)| Some((number, &**part.as_ref()?)))
        }
        // One class is all of it: nothing to keep apart.
        let classes: &[_] = if there(&parts.classes).count() > 1 { &parts.classes } else { &[] };
        let flow = |number| scenario.flow_name(number);
        let class = |number: usize| format!("class {number}");
        self.parts(&subject, there(&parts.flows), &flow, OTHER_FLOWS);
        self.parts(&subject, there(classes), &class, OTHER_CLASSES);
    }

    /// The curves of the largest flows, or classes, of a link, and of the others.
    fn parts<'a>(
        &mut self,
        subject: &str,
        parts: impl Iterator<Item = (usize, &'a PartSeries)>,
        name: &dyn Fn(usize) -> String,
        others: &str,
    ) {
        // What is kept as number PARTS is of many.
        let (own, beyond): (Vec<_>, Vec<_>) = parts.partition(|(number, _)| *number < PARTS);
        let own = own.into_iter().map(|(number, part)| (number, part.bytes(), part));
        let (largest, mut rest) = largest(own, SHOWN_PARTS);
        for (_, part) in beyond {
            match &mut rest {
                Some(rest) => rest.merge(part),
                None => rest = Some(part.clone()),
            }
        }
        let largest = largest.into_iter().map(|(number, part)| (name(number), part));
        for (name, part) in largest.chain(rest.iter().map(|rest| (others.to_owned(), rest))) {
            let queue = part.queue().into_iter().map(|(at, bytes)| (seconds(at), bytes as f64)).collect();
            let curves = [
                ("throughput", "rate_bps", rates(&part.sent)),
                ("backlog", "bytes", queue),
                ("queueing", "delay_ns", means(&part.delay_ns)),
                ("drops", "packets", counts(&part.dropped)),
            ];
            for (measure, y, points) in curves {
                if !points.is_empty() {
                    self.curves.push(over_time(subject, measure, name.clone(), y, points));
                }
            }
            if part.delays.count() > 0 {
                let mut curve = distribution(subject, "queueing", &part.delays);
                curve.name = format!("{subject} queueing of {name} distribution");
                curve.part = name;
                self.curves.push(curve);
            }
        }
    }
}

fn seconds(at: Instant) -> f64 {
    at.as_nanos() as f64 / 1e9
}

type Points = Vec<(f64, f64)>;

fn rates(series: &Series) -> Points {
    let width = series.width().as_secs_f64();
    series.sums().map(|(at, bytes)| (seconds(at), bytes as f64 * 8.0 / width)).collect()
}

fn means(series: &Series) -> Points {
    series.means().map(|(at, mean)| (seconds(at), mean)).collect()
}

fn counts(series: &Series) -> Points {
    series.sums().map(|(at, sum)| (seconds(at), sum as f64)).collect()
}

fn over_time(subject: &str, measure: &'static str, part: impl Into<String>, y: &'static str, points: Points) -> Curve {
    let part = part.into();
    // Colours and the numbers of flows are not introduced: these names are of files that scripts know.
    let name = match part.as_str() {
        "" => format!("{subject} {measure}"),
        "green" | "yellow" | "red" => format!("{subject} {measure} {part}"),
        _ if measure == "goodput" => format!("{subject} {part} {measure}"),
        _ => format!("{subject} {measure} of {part}"),
    };
    let (name, variant) = (format!("{name} over time"), String::new());
    Curve { name, variant, subject: subject.to_owned(), measure, part, x: "time_s", y, points }
}

fn distribution(subject: &str, measure: &'static str, histogram: &Histogram) -> Curve {
    Curve {
        name: format!("{subject} {measure} distribution"),
        variant: String::new(),
        subject: subject.to_owned(),
        measure,
        part: String::new(),
        x: "value_ns",
        y: "share",
        points: histogram.distribution().map(|(value, share)| (value as f64, share)).collect(),
    }
}
