//! Warnings about a scenario that can run, but probably does not do what its author means.
//!
//! *Law*: nothing here changes the scenario.
//! *Cost*: the length of all ways; each queue that flows cross is offered one packet for each of their classes.

use std::collections::{BTreeMap, BTreeSet};

use tidegate_config::shaper::Root;
use tidegate_config::{Diagnostics, Place};
use tidegate_core::{Bytes, DropReason, Instant, Qdisc, Rate, Span};

use crate::engine::Simulation;
use crate::packet::SimPacket;
use crate::scenario::model::{Scenario, Variant};
use crate::scenario::queue::LinkQueue;
use crate::workload::Transport;

/// A warm-up of fewer round trips ends in the slow start of most flows.
const ROUND_TRIPS: u64 = 10;

/// Warns of what is overloaded, too small, never used, or over before it is measured. `sim` is the network of `variant`,
/// before it runs; `hosts` are the places of the nodes.
pub(super) fn advise(
    scenario: &Scenario,
    variant: Option<&Variant>,
    sim: &mut Simulation,
    nodes: &[Place],
    diagnostics: &mut Diagnostics,
) {
    let mut advice = Advice { scenario, sim, diagnostics, told: BTreeSet::new() };
    match variant {
        // Of a variant only the queue is new.
        Some(variant) => advice.queues(Some(variant), &[variant.wire]),
        None => {
            let all: Vec<usize> = (0..scenario.wires.len()).collect();
            advice.queues(None, &all);
            advice.loads();
            advice.times();
            advice.nodes(nodes);
        }
    }
}

struct Advice<'a> {
    scenario: &'a Scenario,
    sim: &'a mut Simulation,
    diagnostics: &'a mut Diagnostics,
    /// One warning of a kind for a section, however many links or flows it stands for.
    told: BTreeSet<(u8, usize)>,
}

impl Advice<'_> {
    fn warn(&mut self, kind: u8, place: Place, message: String, label: &str, help: String) {
        if self.told.insert((kind, place.start)) {
            self.diagnostics.warning(place, message).label(label).help(help);
        }
    }

    /// The data of each flow, by the links that it crosses.
    fn crossing(&self) -> BTreeMap<usize, Vec<usize>> {
        let mut crossing: BTreeMap<usize, Vec<usize>> = BTreeMap::new();
        for number in 0..self.scenario.flows.len() {
            for link in self.sim.way(number, self.scenario.flows[number].workload.data_side()) {
                crossing.entry(link).or_default().push(number);
            }
        }
        crossing
    }

    fn queues(&mut self, variant: Option<&Variant>, wires: &[usize]) {
        let crossing = self.crossing();
        let back: BTreeSet<usize> = (0..self.scenario.flows.len())
            .filter(|&number| matches!(self.scenario.flows[number].transport, Transport::Tcp(_)))
            .flat_map(|number| {
                self.sim.way(number, 1 - self.scenario.flows[number].workload.data_side()).collect::<Vec<_>>()
            })
            .collect();
        for &index in wires {
            let wire = &self.scenario.wires[index];
            let place = variant.map_or(wire.place, |variant| variant.place);
            let (name, line) = (self.scenario.wire_name(index), wire.line.rate);
            let flows = crossing.get(&index).map_or(&[][..], Vec::as_slice);
            let Some(queue) = self.scenario.queue_of(index, variant) else {
                if wire.line.limit.packets == 0 && !flows.is_empty() {
                    let help = "write limit = 1 or more".to_owned();
                    let message = format!("what comes to the link {name} while it sends is dropped: nothing may wait");
                    self.warn(0, place, message, "no room for one packet", help);
                }
                continue;
            };
            if flows.is_empty() && !back.contains(&index) {
                let help = "take the queue out, or give a flow a way over it".to_owned();
                self.warn(1, place, format!("no flow goes over the link {name}"), "its queue is never used", help);
                continue;
            }
            if let Some(own) = own_rate(queue).filter(|own| *own > line) {
                let message = format!("the queue of the link {name} is set for {own}; its line carries {line}");
                let help = format!("set the queue for at most {line}, or its rate has no effect");
                self.warn(2, place, message, "faster than the line", help);
            }
            if let Some((size, number)) = self.too_small(index, flows) {
                let flow = self.scenario.flow_name(number);
                let message = format!("the queue of the link {name} is too small for one packet of {flow}, {size} B");
                let help = format!("give it room for several packets: at least {}", Bytes::new(u64::from(size) * 4));
                self.warn(3, place, message, "drops every such packet", help);
            }
        }
    }

    /// The size and the flow of a packet that the queue of `link` drops although it is empty.
    fn too_small(&mut self, link: usize, flows: &[usize]) -> Option<(u32, usize)> {
        let mut known = BTreeSet::new();
        let mut now = Instant::ZERO;
        for &number in flows {
            let spec = &self.scenario.flows[number];
            let size = spec.largest_packet();
            let mut packet = SimPacket {
                group: number as u32,
                source: spec.from.index(),
                destination: spec.to.index(),
                class: spec.class,
                profile: spec.profile,
                dscp: spec.dscp,
                ..SimPacket::datagram(number as u64, size)
            };
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

    /// Links to which flows that do not slow down offer more than they carry.
    fn loads(&mut self) {
        let mut loads: BTreeMap<usize, f64> = BTreeMap::new();
        for (number, spec) in self.scenario.flows.iter().enumerate() {
            for side in [0, 1] {
                let offered = spec.workload.offered(&spec.transport, side);
                if offered.is_finite() && offered > 0.0 {
                    for link in self.sim.way(number, side) {
                        *loads.entry(link).or_default() += offered;
                    }
                }
            }
        }
        for (link, load) in loads {
            let wire = &self.scenario.wires[link];
            if load > wire.line.rate.as_bps() as f64 {
                let (name, load) = (self.scenario.wire_name(link), Rate::from_bps(load as u64));
                let message =
                    format!("flows that do not slow down offer {load} to the link {name} of {}", wire.line.rate);
                let help = "unless that is the experiment, lower their rates or raise that of the link".to_owned();
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
                let name = if section.flows.len() == 1 {
                    format!("flow {}", section.name)
                } else {
                    format!("flow {} {}", section.name, number - section.flows.start + 1)
                };
                let help = "make it earlier, or the duration longer".to_owned();
                if spec.start >= end {
                    let message = format!("{name} begins at the end or after it, and never sends");
                    self.warn(5, section.place, message, "never used", help);
                } else if spec.stop.is_some_and(|stop| stop <= begin) {
                    let message = format!("{name} stops before the warm-up is over");
                    let help = "let it last longer, or make the warm-up shorter".to_owned();
                    self.warn(6, section.place, message, "not measured", help);
                } else if let round_trip = self.sim.round_trip(number)
                    && !warm_up.is_zero()
                    && matches!(spec.transport, Transport::Tcp(_))
                    && round_trip.saturating_mul(ROUND_TRIPS) > warm_up
                {
                    let message = format!("the warm-up has fewer than {ROUND_TRIPS} round trips of {name}");
                    let help = format!("a round trip takes {round_trip} on an empty way: make the warm-up longer");
                    self.warn(7, section.place, message, "slower than the warm-up", help);
                }
            }
        }
    }

    /// Hosts at which no flow ends.
    fn nodes(&mut self, places: &[Place]) {
        let used: BTreeSet<u32> =
            self.scenario.flows.iter().flat_map(|flow| [flow.from.index(), flow.to.index()]).collect();
        for (number, ((name, is_host), place)) in (0..).zip(self.scenario.nodes.iter().zip(places)) {
            if *is_host && !used.contains(&number) {
                let help = "give it a flow, or take it out".to_owned();
                self.warn(8, *place, format!("no flow begins or ends at `{name}`"), "never used", help);
            }
        }
    }
}

/// The rate for which a queue is set.
fn own_rate(queue: &LinkQueue) -> Option<Rate> {
    match queue {
        LinkQueue::Discipline(discipline) => discipline.line(),
        LinkQueue::Shaper(config) => match &config.root {
            Root::Shaper(shaper) => Some(shaper.rate),
            Root::Discipline(discipline) => discipline.line(),
        },
    }
}

/// Takes out what `queue` holds, each packet when it may leave, and returns when the last did.
fn drain(queue: &mut dyn Qdisc<SimPacket>, mut now: Instant) -> Instant {
    let mut dropped: Vec<(SimPacket, DropReason)> = Vec::new();
    // One packet is there; a discipline may take some calls to release it.
    for _ in 0..64 {
        if queue.backlog().is_empty() {
            break;
        }
        now = queue.deadline(now).instant(now).unwrap_or(now + Span::from_millis(1));
        queue.dequeue(now, &mut dropped);
    }
    now
}
