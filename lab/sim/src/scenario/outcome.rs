//! The results of a run of a scenario: values, curves, and a digest of all of it.

use tidegate_core::{Colour, DropReason, Instant};
use tidegate_metrics::{
    Curve, Digest, Histogram, OTHER_CLASSES, OTHER_FLOWS, Part, PartSeries, Points, SHOWN_PARTS, Series, Survival,
    Value, jain, largest,
};

use super::control::Control;
use super::curves::{distribution, over_time};
use super::experience::Experiences;
use super::file::Measure;
use super::lasting::Lasting;
use super::model::{Detail, FlowGroup, Scenario, Variant};
use super::names::without_kind;
use super::queue::LinkQueue;
use crate::applications::PageLoad;
use crate::engine::Simulation;
use crate::ids::{FlowId, LinkId};
use crate::metrics::{FlowMetrics, LinkMetrics, MOST_TRANSFERS, OTHERS, Transfer};
use crate::tcp::EcnUse;
use crate::workload::Transport;

/// The report of an action on a shaper, or of an event.
#[derive(Clone, PartialEq, Debug)]
pub struct Report {
    /// The time on the clock of the run.
    pub time: Instant,
    /// The variant of the scenario; empty without variants.
    pub variant: String,
    /// The name of the link.
    pub link: String,
    /// The word of the action, or `event`.
    pub kind: &'static str,
    /// Whether an action was refused.
    pub refused: bool,
    /// The result, with the names of the control protocol.
    pub result: serde_json::Value,
}

/// A transfer of a flow.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct FlowTransfer {
    /// The variant of the scenario; empty without variants.
    pub variant: String,
    /// The name of the flow.
    pub flow: String,
    /// The transfer.
    pub transfer: Transfer,
}

/// A page of a section of flows.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct FlowPage {
    /// The variant of the scenario; empty without variants.
    pub variant: String,
    /// The name of the section of flows.
    pub flow: String,
    /// The page.
    pub page: PageLoad,
}

/// The results of one run.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct Outcome {
    /// The seed of the run.
    pub seed: u64,
    /// The values, in a fixed order.
    pub values: Vec<Value>,
    /// Time series and distributions of watched flows and links.
    pub curves: Vec<Curve>,
    /// The reports of actions and shapers, in order.
    pub reports: Vec<Report>,
    /// The transfers one by one, with [`Detail::Parts`](super::Detail::Parts): of each flow those that have ended, then those that
    /// have not.
    pub transfers: Vec<FlowTransfer>,
    /// The pages of browsers one by one, with [`Detail::Parts`](super::Detail::Parts): of each browser those that were loaded, then the
    /// one that was not.
    pub pages: Vec<FlowPage>,
    /// The number of events that the simulator handled.
    pub events: u64,
    /// A digest of everything that was measured.
    pub digest: Digest,
}

fn digest_flow(digest: &mut Digest, flow: &FlowMetrics) {
    let tallies = flow.arrived.into_iter().chain([flow.sent_total(), flow.retransmitted, flow.dropped_total()]);
    for tally in tallies {
        digest.number(tally.packets);
        digest.number(tally.bytes);
    }
    let counts = [flow.goodput_total(), flow.marked, flow.timeouts, flow.opened, flow.completed, flow.failed];
    for count in counts.into_iter().chain([flow.refused]) {
        digest.number(count);
    }
    let histograms = [&flow.delay_both_ns(), &flow.connect_ns, &flow.completion_ns];
    for histogram in histograms.into_iter().chain(&flow.completion_by_size_ns).chain(&flow.slowdown_micro) {
        digest.histogram(histogram);
    }
    if let Some(series) = &flow.series {
        digest.series(series);
    }
}

fn digest_link(digest: &mut Digest, link: &LinkMetrics) {
    for tally in link.sent.iter().chain(&link.dropped).chain(&link.classes) {
        digest.number(tally.packets);
        digest.number(tally.bytes);
    }
    let reasons = DropReason::ALL.iter().map(|reason| link.dropped_because(*reason));
    for count in reasons.chain([link.lost, link.marked]) {
        digest.number(count);
    }
    if link.duplicated > 0 {
        digest.number(link.duplicated);
    }
    digest.histogram(&link.delay_ns);
    if let Some(series) = &link.series {
        digest.occupancy(&series.backlog);
        let rest = [&series.delay_ns, &series.dropped, &series.marked];
        for series in series.sent.iter().chain(rest) {
            digest.series(series);
        }
    }
}

/// A percentile of a distribution among the values of a run.
struct Percentile {
    name: &'static str,
    share: f64,
    /// Whether short texts leave it out.
    is_further: bool,
}

const PERCENTILES: [Percentile; 5] = [
    Percentile { name: "p50", share: 0.5, is_further: false },
    Percentile { name: "p90", share: 0.9, is_further: true },
    Percentile { name: "p95", share: 0.95, is_further: true },
    Percentile { name: "p99", share: 0.99, is_further: false },
    Percentile { name: "p99.9", share: 0.999, is_further: true },
];

/// Whether short texts leave a measure out: it is one of the percentiles between and beyond the usual two.
pub fn is_further(measure: &str) -> bool {
    let percentile = PERCENTILES.iter().find(|percentile| measure.split(' ').next_back() == Some(percentile.name));
    percentile.is_some_and(|percentile| percentile.is_further)
}

/// The names under which a histogram of `measure` is among the values.
pub(super) fn spread_names(measure: &str) -> impl Iterator<Item = String> {
    ["mean"].into_iter().chain(PERCENTILES.iter().map(|of| of.name)).map(move |name| format!("{measure} {name}"))
}

/// Collects the values of one subject.
pub(super) struct Collector<'a> {
    subject: String,
    values: &'a mut Vec<Value>,
}

impl Collector<'_> {
    pub(super) fn add(&mut self, measure: impl Into<String>, unit: &'static str, value: f64) {
        let (variant, subject) = (String::new(), self.subject.clone());
        self.values.push(Value { variant, subject, measure: measure.into(), unit, value });
    }
    /// Adds the mean and percentiles of a histogram.
    pub(super) fn spread(&mut self, measure: &str, unit: &'static str, scale: f64, histogram: &Histogram) {
        let quantile = |q| histogram.quantile(q).map(|value| value as f64);
        self.summary((measure, unit, scale), histogram.mean(), quantile);
    }
    /// Adds the mean of what has finished, and percentiles of all, which may not have been reached.
    pub(super) fn survival(&mut self, measure: &str, unit: &'static str, scale: f64, all: &Survival) {
        self.summary((measure, unit, scale), all.finished.mean(), |q| all.quantile(q));
    }
    fn summary(
        &mut self,
        (measure, unit, scale): (&str, &'static str, f64),
        mean: Option<f64>,
        quantile: impl Fn(f64) -> Option<f64>,
    ) {
        let percentiles = PERCENTILES.map(|percentile| (percentile.name, quantile(percentile.share)));
        for (name, value) in [("mean", mean)].into_iter().chain(percentiles) {
            if let Some(value) = value {
                self.add(format!("{measure} {name}"), unit, value * scale);
            }
        }
    }
}

impl Outcome {
    pub(super) fn collect(
        scenario: &Scenario,
        variant: Option<&Variant>,
        seed: u64,
        sim: &Simulation,
        control: &Control,
    ) -> Self {
        let mut outcome = Self { seed, events: sim.events(), ..Self::default() };
        outcome.digest.number(seed);
        outcome.digest.number(sim.events());
        let flows: Vec<&FlowMetrics> = sim.flows().map(|(_, metrics)| metrics).collect();
        for flow in &flows {
            digest_flow(&mut outcome.digest, flow);
        }
        let underway = sim.underway();
        for section in &scenario.sections {
            outcome.section(scenario, sim, section, (&flows[section.flows.clone()], &underway));
        }
        if scenario.wants(Measure::Share) {
            outcome.shares(scenario, &flows);
        }
        // By name: the order of links in the file decides nothing that is measured.
        let mut by_name: Vec<(&str, &LinkMetrics)> = sim.links().collect();
        by_name.sort_by_key(|(name, _)| *name);
        by_name.iter().for_each(|(_, link)| digest_link(&mut outcome.digest, link));
        for (index, (name, link)) in sim.links().enumerate() {
            if scenario.wires[index].watch {
                let queue = scenario.queue_of(index, variant);
                let classes = match queue.and_then(LinkQueue::shaper) {
                    Some(config) => config.class_names(),
                    None => queue.map(LinkQueue::classes).unwrap_or_default(),
                };
                outcome.link(scenario, sim, index, name, link, &classes, &|class| control.reserved_name(index, class));
            }
        }
        outcome
    }

    /// Adds the reports of actions and shapers.
    pub(super) fn report(&mut self, reports: Vec<Report>) {
        for report in &reports {
            self.digest.number(report.time.as_nanos());
            self.digest.bytes(report.link.as_bytes());
            self.digest.bytes(report.kind.as_bytes());
            self.digest.bytes(report.result.to_string().as_bytes());
        }
        self.reports.extend(reports);
    }

    /// Labels the outcome with the name of a variant.
    pub(super) fn labelled(mut self, name: &str) -> Self {
        for value in &mut self.values {
            name.clone_into(&mut value.variant);
        }
        for curve in &mut self.curves {
            curve.name = format!("{name} {}", curve.name);
            name.clone_into(&mut curve.variant);
        }
        for report in &mut self.reports {
            name.clone_into(&mut report.variant);
        }
        for transfer in &mut self.transfers {
            name.clone_into(&mut transfer.variant);
        }
        for page in &mut self.pages {
            name.clone_into(&mut page.variant);
        }
        self
    }

    /// Joins the outcomes of all parts of a scenario with the same seed, in order.
    pub fn joined(seed: u64, mut outcomes: Vec<Self>) -> Self {
        if outcomes.len() == 1 {
            return outcomes.remove(0);
        }
        let mut joined = Self { seed, ..Self::default() };
        for outcome in outcomes {
            joined.values.extend(outcome.values);
            joined.curves.extend(outcome.curves);
            joined.reports.extend(outcome.reports);
            joined.transfers.extend(outcome.transfers);
            joined.pages.extend(outcome.pages);
            joined.events += outcome.events;
            joined.digest.digest(outcome.digest);
        }
        joined
    }

    /// Adds the values and curves of a section of flows. `underway` has the transfers of all flows that have not ended.
    fn section(
        &mut self,
        scenario: &Scenario,
        sim: &Simulation,
        section: &FlowGroup,
        (flows, underway): (&[&FlowMetrics], &[(FlowId, Transfer)]),
    ) {
        let wants = |measure| scenario.wants(measure);
        let (span, end) = (sim.measured(), sim.now());
        let mut all = FlowMetrics::default();
        for flow in flows {
            all.merge(flow);
        }
        let subject = format!("flow {}", section.name);
        let mut to = Collector { subject: subject.clone(), values: &mut self.values };
        let spec = sim.flows().nth(section.flows.start).map(|(spec, _)| spec);
        let names = directions(&all.delay_ns, spec.is_some_and(|spec| spec.workload.goes_both_ways()));
        // What was sent into a direction counts, even if none of it arrived.
        let ways = || names.into_iter().flatten().zip(0_usize..).filter(|(_, way)| all.sent[*way].packets > 0);
        if wants(Measure::Goodput) {
            to.add("goodput", "bps", all.goodput(span).as_bps() as f64);
            let goodputs = all.goodputs(span);
            ways().for_each(|(name, way)| to.add(format!("goodput{name}"), "bps", goodputs[way].as_bps() as f64));
        }
        if wants(Measure::Colours) && all.arrived[1..].iter().any(|tally| tally.packets > 0) {
            for (name, colour) in [("green", Colour::Green), ("yellow", Colour::Yellow), ("red", Colour::Red)] {
                to.add(format!("throughput {name}"), "bps", all.throughput(colour, span).as_bps() as f64);
            }
        }
        if wants(Measure::Fairness) && flows.len() > 1 {
            to.add("fairness", "1", jain(flows.iter().map(|flow| flow.goodput_total() as f64)));
        }
        let delays = || names.unwrap_or_default().into_iter().zip(&all.delay_ns).filter(|(_, delay)| delay.count() > 0);
        if wants(Measure::Delay) {
            delays().for_each(|(name, histogram)| to.spread(&format!("delay{name}"), "ns", 1.0, histogram));
        }
        if wants(Measure::Loss) {
            to.add("sent", "packets", all.sent_total().packets as f64);
            to.add("dropped", "packets", all.dropped_total().packets as f64);
            to.add("marked", "packets", all.marked as f64);
            to.add("retransmitted", "packets", all.retransmitted.packets as f64);
            to.add("timeouts", "1", all.timeouts as f64);
            let share = |lost: u64, sent: u64| lost as f64 / sent as f64 * 100.0;
            let (lost, sent) = (all.dropped.map(|lost| lost.packets), all.sent.map(|sent| sent.packets));
            if sent != [0, 0] {
                to.add("loss", "%", share(lost.iter().sum(), sent.iter().sum()));
            }
            ways().for_each(|(name, way)| to.add(format!("loss{name}"), "%", share(lost[way], sent[way])));
        }
        if let (true, Some(queueing)) = (wants(Measure::Queueing), &all.queueing_ns) {
            let both = names.unwrap_or_default().into_iter().zip(&**queueing).filter(|(_, waits)| waits.count() > 0);
            both.for_each(|(name, histogram)| to.spread(&format!("queueing{name}"), "ns", 1.0, histogram));
        }
        if wants(Measure::Feedback) {
            to.add("marks arrived", "packets", all.marked as f64);
            // Classic ECN-Echo says that there was a mark, and not how many.
            let tells = match &scenario.flows[section.flows.start].transport {
                Transport::Tcp(tcp) => matches!(tcp.ecn, EcnUse::Accurate | EcnUse::L4s),
                Transport::Other { .. } => true,
                Transport::Udp { .. } => false,
            };
            if tells {
                to.add("marks reported", "packets", all.marks_reported as f64);
            }
        }
        let mut experiences = Experiences::default();
        for number in section.flows.clone() {
            sim.experiences(FlowId(number as u32)).into_iter().for_each(|experience| experiences.add(experience));
        }
        experiences.digest(&mut self.digest);
        if wants(Measure::Application) {
            experiences.values(&mut to);
        }
        let open = underway.iter().filter(|(flow, _)| section.flows.contains(&flow.index())).map(|(_, open)| open);
        let made_before = open.clone().filter(|of| of.begun_ns < scenario.warm_up().as_nanos()).count();
        let lasting = Lasting::new(&all, open);
        if wants(Measure::Completion) && lasting.all().0.count() + all.failed + all.refused > 0 {
            to.add("opened", "1", all.opened as f64 + made_before as f64);
            to.add("completed", "1", all.completed as f64);
            to.add("failed", "1", all.failed as f64);
            to.add("refused", "1", all.refused as f64);
            to.spread("connect", "ns", 1.0, &all.connect_ns);
            lasting.values(&mut to);
        }
        for (name, histogram) in delays() {
            let mut curve = distribution(&subject, "delay", histogram.points());
            if !name.is_empty() {
                curve.name = format!("{subject} delay{name} distribution");
                curve.part = name.trim().to_owned();
            }
            self.curves.push(curve);
        }
        let curves = [("completion", lasting.all().0.points())];
        for (measure, points) in curves.into_iter().chain(experiences.distributions()) {
            if !points.is_empty() {
                self.curves.push(distribution(&subject, measure, points));
            }
        }
        self.keep_transfers(scenario, section, (flows, underway));
        self.keep_pages(scenario, &subject, experiences.pages());
        for (number, flow) in flows.iter().enumerate() {
            if let Some(series) = &flow.series {
                let part = if flows.len() > 1 { (number + 1).to_string() } else { String::new() };
                self.curves.push(over_time(&subject, "goodput", part, "rate_bps", series.rate_points(end)));
            }
        }
    }

    /// Adds the share of each section of flows in the goodput of all, its ratio to each of those after it, and how fair that is to a flow of
    /// each.
    fn shares(&mut self, scenario: &Scenario, flows: &[&FlowMetrics]) {
        let goodput = |section: &FlowGroup| flows[section.flows.clone()].iter().map(|flow| flow.goodput_total()).sum();
        let goodputs: Vec<(&FlowGroup, u64)> = scenario.sections.iter().map(|one| (one, goodput(one))).collect();
        let total: u64 = goodputs.iter().map(|(_, bytes)| bytes).sum();
        for (number, (section, bytes)) in goodputs.iter().enumerate() {
            let mut to = Collector { subject: format!("flow {}", section.name), values: &mut self.values };
            if total > 0 {
                to.add("share", "%", *bytes as f64 / total as f64 * 100.0);
            }
            let each = |section: &FlowGroup, bytes: u64| bytes as f64 / section.flows.len().max(1) as f64;
            for (other, of_other) in goodputs[number + 1..].iter().filter(|(_, of_other)| bytes + of_other > 0) {
                let both = [each(section, *bytes), each(other, *of_other)];
                to.add(fairness_with(&other.name), "1", jain(both));
            }
            // A flow that got nothing has no ratio.
            for (other, of_other) in goodputs[number + 1..].iter().filter(|(_, of_other)| *of_other > 0) {
                to.add(ratio_to(&other.name), "1", *bytes as f64 / *of_other as f64);
            }
        }
    }

    /// Keeps the transfers of a section one by one, those that are `underway` with [`Detail::Parts`] only, as the others are.
    fn keep_transfers(
        &mut self,
        scenario: &Scenario,
        section: &FlowGroup,
        (flows, underway): (&[&FlowMetrics], &[(FlowId, Transfer)]),
    ) {
        for (number, flow) in section.flows.clone().zip(flows) {
            let named = |transfer: &Transfer| FlowTransfer {
                variant: String::new(),
                flow: without_kind(&scenario.flow_name(number)),
                transfer: *transfer,
            };
            self.transfers.extend(flow.transfers.kept.iter().map(named));
            if scenario.detail == Detail::Parts {
                let open = underway.iter().filter(|(flow, _)| flow.index() == number);
                self.transfers.extend(open.take(MOST_TRANSFERS).map(|(_, transfer)| named(transfer)));
            }
        }
    }

    /// Keeps the pages of a section one by one, if details are wanted.
    fn keep_pages(&mut self, scenario: &Scenario, subject: &str, pages: &[PageLoad]) {
        if scenario.detail == Detail::Parts {
            let named = |page: &PageLoad| FlowPage { variant: String::new(), flow: without_kind(subject), page: *page };
            self.pages.extend(pages.iter().map(named));
        }
    }

    /// Adds the values and curves of a link. `names` are the classes of its queue, and `reserved` names classes of
    /// reservations. Other classes are named by number.
    #[expect(clippy::too_many_arguments, reason = "what is known of a link, from one place")]
    fn link(
        &mut self,
        scenario: &Scenario,
        sim: &Simulation,
        index: usize,
        name: &str,
        link: &LinkMetrics,
        names: &[&str],
        reserved: &dyn Fn(usize) -> Option<String>,
    ) {
        let class_name = |class: usize| match names.get(class) {
            Some(name) => format!("class {name}"),
            None => reserved(class).unwrap_or_else(|| format!("class {class}")),
        };
        let subject = format!("link {name}");
        if scenario.wants(Measure::Links) {
            let mut to = Collector { subject: subject.clone(), values: &mut self.values };
            let wire = &scenario.wires[index];
            let shared = (!wire.serves.is_empty()).then_some(wire.line.rate);
            to.add("throughput", "bps", link.sent_total().rate(sim.measured()).as_bps() as f64);
            to.add("utilisation", "1", sim.utilisation(LinkId(index as u32), shared));
            to.spread("queueing", "ns", 1.0, &link.delay_ns);
            to.add("dropped", "packets", link.dropped_total().packets as f64);
            to.add("marked", "packets", link.marked as f64);
            for (measure, count) in [("lost", link.lost), ("duplicated", link.duplicated)] {
                if count > 0 {
                    to.add(measure, "packets", count as f64);
                }
            }
            if link.sanctions > 0 {
                to.add("sanctions", "1", link.sanctions as f64);
            }
            for (reason, count) in DropReason::ALL.iter().map(|reason| (reason, link.dropped_because(*reason))) {
                if count > 0 {
                    to.add(format!("dropped for {}", reason.name().replace('_', " ")), "packets", count as f64);
                }
            }
            for (name, colour) in [("yellow", Colour::Yellow), ("red", Colour::Red)] {
                let dropped = link.dropped[colour as usize].packets;
                if dropped > 0 {
                    to.add(format!("dropped {name}"), "packets", dropped as f64);
                    for (reason, &count) in DropReason::ALL.iter().zip(&link.dropped_for[colour as usize]) {
                        if count > 0 {
                            let reason = reason.name().replace('_', " ");
                            to.add(format!("dropped {name} for {reason}"), "packets", count as f64);
                        }
                    }
                }
            }
            if link.classes.iter().filter(|tally| tally.packets > 0).count() > 1 {
                for (class, tally) in link.classes.iter().enumerate().filter(|(_, tally)| tally.packets > 0) {
                    to.add(
                        format!("throughput {}", class_name(class)),
                        "bps",
                        tally.rate(sim.measured()).as_bps() as f64,
                    );
                }
            }
        }
        if link.delay_ns.count() > 0 {
            self.curves.push(distribution(&subject, "queueing", link.delay_ns.points()));
        }
        let Some(series) = &link.series else { return };
        let (begin, end) = (sim.now().saturating_sub(sim.measured()), sim.now());
        let has_any = |series: &Series| series.sums().next().is_some();
        let is_coloured = series.sent[1..].iter().any(has_any);
        for (colour, series) in ["green", "yellow", "red"].iter().zip(&series.sent) {
            if has_any(series) {
                let part = if is_coloured { *colour } else { "" };
                self.curves.push(over_time(&subject, "throughput", part, "rate_bps", series.rate_points(end)));
            }
        }
        self.curves.push(over_time(&subject, "backlog", "", "packets", series.backlog.mean_points(begin, end)));
        self.curves.push(over_time(&subject, "queueing", "", "delay_ns", series.delay_ns.mean_points()));
        for (measure, series) in [("drops", &series.dropped), ("marks", &series.marked)] {
            if has_any(series) {
                self.curves.push(over_time(&subject, measure, "", "packets", series.sum_points(end)));
            }
        }
        let Some(parts) = &series.parts else { return };
        let flow = |number| scenario.flow_name(number);
        self.parts(&subject, parts.flows(), &flow, OTHER_FLOWS, end);
        // With a single class there is nothing to separate.
        if parts.classes().count() > 1 {
            self.parts(&subject, parts.classes(), &class_name, OTHER_CLASSES, end);
        }
    }

    /// Adds the curves of the largest flows or classes of a link, and of the others together.
    fn parts<'a>(
        &mut self,
        subject: &str,
        parts: impl Iterator<Item = (usize, &'a PartSeries)>,
        name: &dyn Fn(usize) -> String,
        others: &str,
        end: Instant,
    ) {
        let (own, beyond): (Vec<_>, Vec<_>) = parts.partition(|(number, _)| *number != OTHERS);
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
            // A part without drops, or whose packets all wait, has no such curve.
            let drops = part.dropped.sums().next().map_or(Points::new(), |_| part.dropped.sum_points(end));
            let curves = [
                ("throughput", "rate_bps", part.sent.rate_points(end)),
                ("backlog", "bytes", part.waiting.mean_points(Instant::ZERO, end)),
                ("queueing", "delay_ns", part.delay_ns.mean_points()),
                ("drops", "packets", drops),
            ];
            for (measure, y, points) in curves {
                if !points.is_empty() {
                    self.curves.push(over_time(subject, measure, name.clone(), y, points));
                }
            }
            if part.delays.count() > 0 {
                let mut curve = distribution(subject, "queueing", part.delays.points());
                curve.name = format!("{subject} queueing of {name} distribution");
                curve.part = name;
                self.curves.push(curve);
            }
        }
    }
}

/// The name of the ratio of goodputs of a flow and another.
pub(super) fn ratio_to(other: &str) -> String {
    format!("ratio to {other}")
}

/// The name of Jain's index of the goodputs that one flow of a section and one of another have.
pub(super) fn fairness_with(other: &str) -> String {
    format!("fairness with {other}")
}

/// The endings of the names of measures of each direction if data goes `both_ways`, or was seen to. A mean over both
/// directions would describe neither.
fn directions(delays: &[Histogram; 2], both_ways: bool) -> Option<[&'static str; 2]> {
    (both_ways || delays.iter().all(|delays| delays.count() > 0)).then_some([" up", " down"])
}
