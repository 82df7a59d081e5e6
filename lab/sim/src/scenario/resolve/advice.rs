//! Warnings about a scenario that can run but probably differs from the intention of its author.
//!
//! *Law*: nothing here changes the scenario.
//! *Cost*: linear in the lengths of all paths. Each queue that flows cross is offered one packet of each of their
//! classes.

mod bottleneck;
mod delays;
mod meeting;

use std::collections::{BTreeMap, BTreeSet};

use tidegate_config::discipline::Discipline;
use tidegate_config::shaper::Root;
use tidegate_config::{Diagnostics, Place};
use tidegate_core::{Bytes, DropReason, Instant, Qdisc, Rate, Span};

use crate::engine::Simulation;
use crate::packet::SimPacket;
use crate::scenario::model::{FlowGroup, Scenario, Variant};
use crate::scenario::queue::LinkQueue;
use crate::tcp::{Algorithm, EcnUse};
use crate::workload::{Transport, Workload};

/// A warm-up of fewer round trips ends during the slow start of most flows.
const ROUND_TRIPS: u64 = 10;

/// Warns about links that are overloaded, queues that are too small, and objects that are never used or never measured.
/// `sim` is the network of `variant` before it runs; `nodes` are the places of the nodes.
pub(super) fn advise(
    scenario: &Scenario,
    variant: Option<&Variant>,
    sim: &mut Simulation,
    nodes: &[Place],
    diagnostics: &mut Diagnostics,
) {
    let mut advice = Advice { scenario, sim, diagnostics, shown: BTreeSet::new() };
    match variant {
        // A variant differs only in its queue.
        Some(variant) => {
            let wires: Vec<usize> = variant.queues.iter().map(|(wire, _)| *wire).collect();
            advice.direction(variant, &wires);
            advice.queues(Some(variant), &wires);
            advice.classes(Some(variant), &wires);
            advice.bottlenecks(Some(variant), &wires);
        }
        None => {
            let all: Vec<usize> = (0..scenario.wires.len()).collect();
            advice.queues(None, &all);
            advice.classes(None, &all);
            advice.bottlenecks(None, &all);
            advice.loads();
            advice.meetings();
            advice.times();
            advice.needs();
            advice.nodes(nodes);
        }
    }
}

struct Advice<'a> {
    scenario: &'a Scenario,
    sim: &'a mut Simulation,
    diagnostics: &'a mut Diagnostics,
    /// The warnings so far, by kind and section: each is shown once, however many links or flows the section has.
    shown: BTreeSet<(u8, usize)>,
}

impl Advice<'_> {
    fn warn(&mut self, kind: u8, place: Place, message: String, label: &str, help: String) {
        if self.shown.insert((kind, place.start)) {
            self.diagnostics.warning(place, message).label(label).help(help);
        }
    }

    /// Warns about a variant with a queue of another link than all others have: it is compared by a link on which it is nothing.
    fn direction(&mut self, variant: &Variant, wires: &[usize]) {
        let mut others = self.scenario.variants.iter().filter(|other| other.name != variant.name);
        let Some(first) = others.next() else { return };
        let mut common: BTreeSet<usize> = first.queues.iter().map(|(wire, _)| *wire).collect();
        others.for_each(|other| common.retain(|wire| other.queue_at(*wire).is_some()));
        let (Some(at), Some(own)) = (common.first(), wires.first()) else { return };
        if wires.iter().any(|wire| common.contains(wire)) {
            return;
        }
        let (at, own) = (self.scenario.wire_name(*at), self.scenario.wire_name(*own));
        let message =
            format!("variant {} has another queue on {own}, and the others have theirs on {at}", variant.name);
        let help = "turn `from` and `to` around, if it is to be compared on the same link".to_owned();
        self.warn(14, variant.place, message, "leaves the queue of that link as it is", help);
    }

    /// The flows whose data crosses each link.
    fn crossing(&self) -> BTreeMap<usize, Vec<usize>> {
        let mut crossing: BTreeMap<usize, Vec<usize>> = BTreeMap::new();
        for number in 0..self.scenario.flows.len() {
            for link in self.sim.path(number, self.scenario.flows[number].workload.data_side()) {
                crossing.entry(link).or_default().push(number);
            }
        }
        crossing
    }

    fn queues(&mut self, variant: Option<&Variant>, wires: &[usize]) {
        let crossing = self.crossing();
        let back: BTreeSet<usize> = (0..self.scenario.flows.len())
            .filter(|&number| self.scenario.flows[number].transport.has_connections())
            .flat_map(|number| {
                self.sim.path(number, 1 - self.scenario.flows[number].workload.data_side()).collect::<Vec<_>>()
            })
            .collect();
        for &index in wires {
            let wire = &self.scenario.wires[index];
            let place = variant.map_or(wire.place, |variant| variant.place);
            let name = self.scenario.wire_name(index);
            let flows = crossing.get(&index).map_or(&[][..], Vec::as_slice);
            let Some(queue) = self.scenario.queue_of(index, variant) else {
                if wire.line.limit.packets == 0 && !flows.is_empty() {
                    let help = "write limit = 1 or more".to_owned();
                    let message = format!(
                        "the link {name} drops every packet that arrives while it is sending: its queue holds none"
                    );
                    self.warn(0, place, message, "no room for one packet", help);
                }
                continue;
            };
            if flows.is_empty() && !back.contains(&index) {
                let help = "remove the queue, or add a flow that crosses the link".to_owned();
                self.warn(1, place, format!("no flow crosses the link {name}"), "its queue is never used", help);
                continue;
            }
            self.own_rate_and_line(index, queue, (variant, place));
            self.delays(index, queue, (self.rate_of(index, variant), place));
            if let Some((size, number)) = self.too_small(index, flows) {
                let flow = self.scenario.flow_name(number);
                let message = format!("the queue of the link {name} is too small for one packet of {flow}, {size} B");
                let help = format!("give it room for several packets: at least {}", Bytes::new(u64::from(size) * 4));
                self.warn(3, place, message, "drops every such packet", help);
            }
        }
    }

    /// Warns about classes without a flow. Actions may bring flows into any class, so there are no warnings if there
    /// are actions.
    fn classes(&mut self, variant: Option<&Variant>, wires: &[usize]) {
        if !self.scenario.actions.is_empty() {
            return;
        }
        let mut crossing: BTreeMap<usize, Vec<(usize, usize)>> = BTreeMap::new();
        for (number, spec) in self.scenario.flows.iter().enumerate() {
            let both = spec.transport.has_connections() || spec.workload.both_ways();
            for side in 0..=usize::from(both) {
                for link in self.sim.path(number, side) {
                    crossing.entry(link).or_default().push((number, side));
                }
            }
        }
        for &index in wires {
            let (Some(queue), Some(flows)) = (self.scenario.queue_of(index, variant), crossing.get(&index)) else {
                continue;
            };
            let names = match queue.shaper() {
                Some(config) => config.class_names(),
                None => queue.classes(),
            };
            let mut used = BTreeSet::new();
            for &(number, side) in flows {
                let packet = self.packet(number, side);
                let ruled = self.sim.discipline(index).and_then(|discipline| discipline.class_of(&packet));
                used.insert(usize::from(ruled.unwrap_or(packet.class)));
            }
            let unused = names.iter().enumerate().filter(|(class, _)| !used.contains(class));
            let unused: Vec<String> = unused.map(|(_, name)| format!("`{name}`")).collect();
            if names.len() < 2 || unused.is_empty() {
                continue;
            }
            let place = variant.map_or(self.scenario.wires[index].place, |variant| variant.place);
            let message =
                format!("no flow is in class {} of the link {}", unused.join(", "), self.scenario.wire_name(index));
            let help = "put a flow into this class (for a shaper file, by its rules), or remove the class";
            self.warn(10, place, message, "never used", help.to_owned());
        }
    }

    /// The largest packet of flow `number` in the forward (0) or reverse (1) direction.
    fn packet(&self, number: usize, side: usize) -> SimPacket {
        let spec = &self.scenario.flows[number];
        let ends = [spec.from.index(), spec.to.index()];
        SimPacket {
            group: number as u32,
            source: ends[side],
            destination: ends[1 - side],
            class: spec.class,
            profile: spec.profile,
            dscp: spec.dscp,
            ..SimPacket::datagram(number as u64, spec.largest_packet())
        }
    }

    /// Warns about a congestion control that gets no marks, or those of others.
    fn marks(&mut self, section: &FlowGroup, algorithm: &Algorithm, ecn: EcnUse) {
        let without = |name: &str| format!("flow {} has {name} without ECN, which is Reno", section.name);
        let losses = "is told of no congestion but by losses";
        let (kind, message, label, help) = match (algorithm, ecn) {
            (Algorithm::Dctcp, EcnUse::No) => (
                13,
                without("DCTCP"),
                losses,
                "write ecn = true where all flows are DCTCP, and ecn = \"l4s\" beside others, before dualpi2 or an l4s-step",
            ),
            (Algorithm::Prague, EcnUse::No) => (13, without("Prague"), losses, "write ecn = \"l4s\""),
            (Algorithm::Prague, EcnUse::Classic | EcnUse::Accurate) => (
                13,
                format!("flow {} has Prague with the ECN of others", section.name),
                "is queued and marked as they are, and answers marks by less",
                "write ecn = \"l4s\"",
            ),
            (Algorithm::Reno | Algorithm::Cubic | Algorithm::Bbr, EcnUse::L4s) => (
                15,
                format!("flow {} asks for the low latency of L4S and is not scalable", section.name),
                "it answers a mark like a loss (RFC 9331, 4.3)",
                "write ecn = true, or congestion = \"prague\"",
            ),
            _ => return,
        };
        self.warn(kind, section.place, message, label, help.to_owned());
    }

    /// Warns about flows whose path is too slow for them.
    fn needs(&mut self) {
        let end = Instant::ZERO + self.scenario.duration;
        for section in &self.scenario.sections {
            let number = section.flows.start;
            let Some(spec) = self.scenario.flows.get(number) else { continue };
            match &spec.transport {
                Transport::Tcp(tcp) => self.marks(section, &tcp.algorithm, tcp.ecn),
                Transport::Other { protocol, ecn } => self.marks(section, &protocol.algorithm(), protocol.ecn(*ecn)),
                Transport::Udp { .. } => {}
            }
            let side = spec.workload.data_side();
            let slowest = self.sim.slowest(number, side);
            let time = spec.stop.unwrap_or(end).min(end).since(spec.start);
            match &*spec.workload {
                Workload::Bulk { bytes: Some(bytes) } => {
                    let takes = slowest.time_for_ceil(*bytes).unwrap_or(Span::MAX);
                    if takes > time && !time.is_zero() {
                        let message = format!(
                            "a transfer of flow {} takes {takes} at {slowest}, the rate of its slowest link, but has only {time}",
                            section.name
                        );
                        let help = "make it smaller, or the duration longer".to_owned();
                        self.warn(11, section.place, message, "never completed", help);
                    }
                }
                Workload::Video(video) if video.ladder.first().is_some_and(|lowest| *lowest > slowest) => {
                    let lowest = video.ladder[0];
                    let message = format!(
                        "the lowest rate of flow {}, {lowest}, is more than its slowest link carries, {slowest}",
                        section.name
                    );
                    let help = "begin the ladder with a lower rate".to_owned();
                    self.warn(12, section.place, message, "it will stall repeatedly", help);
                }
                _ => {}
            }
        }
    }

    /// The size and the flow of a packet that the empty queue of `link` would drop.
    fn too_small(&mut self, link: usize, flows: &[usize]) -> Option<(u32, usize)> {
        let mut known = BTreeSet::new();
        let mut now = Instant::ZERO;
        for &number in flows {
            let mut packet = self.packet(number, 0);
            let size = packet.size;
            let queue = self.sim.discipline(link)?;
            if let Some(class) = queue.class_of(&packet) {
                packet.class = class;
            }
            if !known.insert((packet.class, packet.profile, size)) {
                continue;
            }
            let queue = queue.get_mut();
            let mut dropped: Vec<(SimPacket, DropReason)> = Vec::new();
            queue.enqueue(now, packet, &mut dropped);
            if dropped.iter().any(|(_, reason)| *reason == DropReason::QueueLimit) {
                return Some((size, number));
            }
            now = drain(queue, now);
        }
        None
    }

    /// Warns about links that are offered more than they carry by transfers that begin whatever the line does, and by flows without
    /// congestion control.
    fn loads(&mut self) {
        // What is offered by each of the two.
        let mut loads: BTreeMap<usize, [f64; 2]> = BTreeMap::new();
        for (number, spec) in self.scenario.flows.iter().enumerate() {
            for side in [0, 1] {
                let offered = spec.workload.offered(&spec.transport, side);
                let kind = usize::from(!matches!(*spec.workload, Workload::Mice { .. }));
                if offered.is_finite() && offered > 0.0 {
                    for link in self.sim.path(number, side) {
                        loads.entry(link).or_default()[kind] += offered;
                    }
                }
            }
        }
        for (link, load) in loads {
            let wire = &self.scenario.wires[link];
            // The rate of a line is a placeholder where a rate over time replaces it.
            let mean = wire.conditions.as_ref().and_then(|conditions| conditions.mean_rate);
            let (carried, on_average) = mean.map_or((wire.line.rate, ""), |mean| (mean, " on average"));
            let [transfers, others] = load;
            if transfers + others > carried.as_bps() as f64 {
                let (name, load) = (self.scenario.wire_name(link), Rate::from_bps((transfers + others) as u64));
                let who = match (transfers > 0.0, others > 0.0) {
                    (true, false) => "the transfers that begin",
                    (true, true) => "the transfers that begin and flows without congestion control",
                    _ => "flows without congestion control",
                };
                let message = format!("{who} offer {load} to the link {name}, which carries {carried}{on_average}");
                let help = "lower their rates or raise that of the link, unless the overload is intended".to_owned();
                self.warn(4, wire.place, message, "overloaded on average", help);
            }
        }
    }

    fn times(&mut self) {
        let (duration, warm_up) = (self.scenario.duration, self.scenario.warm_up);
        let (end, begin) = (Instant::ZERO + duration, Instant::ZERO + warm_up);
        for section in &self.scenario.sections {
            for number in section.flows.clone() {
                let spec = &self.scenario.flows[number];
                let name = self.scenario.flow_name(number);
                let help = "make it earlier, or the duration longer".to_owned();
                if spec.start >= end {
                    let message = format!("{name} begins at or after the end of the scenario, and never sends");
                    self.warn(5, section.place, message, "never used", help);
                } else if spec.stop.is_some_and(|stop| stop <= begin) {
                    let message = format!("{name} stops before the warm-up is over");
                    let help = "stop it later, or make the warm-up shorter".to_owned();
                    self.warn(6, section.place, message, "not measured", help);
                } else if let round_trip = self.sim.round_trip(number)
                    && !warm_up.is_zero()
                    && spec.transport.has_connections()
                    && round_trip.saturating_mul(ROUND_TRIPS) > warm_up
                {
                    let message = format!("the warm-up has fewer than {ROUND_TRIPS} round trips of {name}");
                    let help = format!("a round trip takes {round_trip} on an idle path: make the warm-up longer");
                    self.warn(7, section.place, message, "slower than the warm-up", help);
                }
            }
        }
    }

    /// Warns about hosts without a flow, and routers that no flow crosses.
    fn nodes(&mut self, places: &[Place]) {
        let used: BTreeSet<u32> =
            self.scenario.flows.iter().flat_map(|flow| [flow.from.index(), flow.to.index()]).collect();
        let path = |flow: usize, side: usize| self.sim.path(flow, side).map(|link| self.scenario.wires[link].to);
        let crossed: BTreeSet<usize> =
            (0..self.scenario.flows.len()).flat_map(|flow| path(flow, 0).chain(path(flow, 1))).collect();
        for (number, ((name, is_host), place)) in (0..).zip(self.scenario.nodes.iter().zip(places)) {
            if *is_host && !used.contains(&number) {
                let help = "add a flow that uses it, or remove it".to_owned();
                self.warn(8, *place, format!("no flow begins or ends at `{name}`"), "never used", help);
            } else if !is_host && !crossed.contains(&(number as usize)) {
                let help = "add a flow that crosses it, or remove it".to_owned();
                self.warn(9, *place, format!("no flow crosses `{name}`"), "never used", help);
            }
        }
    }
}

/// The discipline of a queue; `None` for the classes of a shaper.
fn discipline_of(queue: &LinkQueue) -> Option<&Discipline> {
    match queue {
        LinkQueue::Discipline(discipline) => Some(discipline),
        LinkQueue::Shaper(config, _) => match &config.root {
            Root::Discipline(discipline) => Some(discipline),
            Root::Shaper(_) => None,
        },
    }
}

/// The rate for which a queue is configured.
fn own_rate(queue: &LinkQueue) -> Option<Rate> {
    match queue.shaper().map(|config| &config.root) {
        Some(Root::Shaper(shaper)) => Some(shaper.rate),
        _ => discipline_of(queue)?.line(),
    }
}

/// Dequeues all packets from `queue` as soon as they may leave, and returns when the last one left.
fn drain(queue: &mut dyn Qdisc<SimPacket>, mut now: Instant) -> Instant {
    let mut dropped: Vec<(SimPacket, DropReason)> = Vec::new();
    // There is one packet; a discipline may need several calls to release it.
    for _ in 0..64 {
        if queue.backlog().is_empty() {
            break;
        }
        now = queue.deadline(now).instant(now).unwrap_or(now + Span::from_millis(1));
        queue.dequeue(now, &mut dropped);
    }
    now
}
