//! Resolves flows: their ends, ports, classes and profiles.

use std::sync::Arc;

use tidegate_config::values::Ports;
use tidegate_config::{Spanned, suggest};
use tidegate_core::Instant;

use super::Resolver;
use crate::ids::{FlowId, NodeId};
use crate::network::MOST_FLOWS;
use crate::scenario::file::FlowSection;
use crate::scenario::model::FlowGroup;
use crate::scenario::queue::LinkQueue;
use crate::workload::{FlowSpec, PORT};

/// Up to this many flows of a section have histograms of their own; a larger section has common ones. Results show
/// those of sections, and the histograms of a flow take 30 kB.
const KEPT_APART: usize = 1_024;

impl Resolver<'_> {
    pub(super) fn flow(&mut self, flow: &Spanned<FlowSection>) {
        self.positive(&flow.count, "a number of flows", "1");
        if !self.sections.insert(flow.name.value.clone()) {
            let message = format!("two flows are called `{}`", flow.name.value);
            self.error(flow.name.place, message, "the second", "give each its own name");
            return;
        }
        let Some(workload) = self.workload(&flow.workload) else { return };
        let Some(transport) = self.transport(flow, &workload) else { return };
        let (class, profile) = (self.class(flow), self.profile(flow));
        let pairs = self.pairs(&flow.from, &flow.to);
        let total = pairs.len() * flow.count.value as usize;
        let begin = self.scenario.flows.len();
        let workload = Arc::new(workload);
        let pool = (total > KEPT_APART).then_some(FlowId(begin as u32));
        if begin + total > MOST_FLOWS {
            let message = format!("more than {MOST_FLOWS} flows");
            self.error(flow.count.place, message, "too many", "use one flow of mice instead of many flows");
            return;
        }
        for ports in [&flow.port, &flow.source_port].into_iter().flatten() {
            let count = usize::from(ports.last - ports.first) + 1;
            if count != 1 && count != total {
                let message = format!("{count} ports for {total} flows");
                let help = format!("give one port, or a range of {total}");
                self.error(ports.place, message, "neither one nor one for each", help);
            }
        }
        for number in 0..total {
            let (from, to) = pairs[number % pairs.len()];
            let name = if total == 1 { flow.name.value.clone() } else { format!("{}.{}", flow.name.value, number + 1) };
            let [from, to] = [from, to].map(|node| NodeId(node as u32));
            let start = Instant::ZERO + flow.start + flow.stagger.saturating_mul(number as u64);
            let mut spec =
                FlowSpec::new(name, from, to, transport.clone(), Arc::clone(&workload)).starting(start).in_class(class);
            spec.stop = flow.stop.as_ref().map(|stop| Instant::ZERO + stop.value);
            spec.dscp = flow.dscp.unwrap_or_default();
            spec.watch = flow.watch;
            spec.pool = pool;
            spec.jitter = flow.jitter;
            spec.profile = profile;
            spec.port = flow.port.as_ref().map_or(PORT, |ports| nth_port(&ports.value, number));
            spec.source_port = flow.source_port.as_ref().map(|ports| nth_port(&ports.value, number));
            spec.mark = flow.mark;
            spec.user.clone_from(&flow.user);
            spec.control_group.clone_from(&flow.control_group);
            if let Some(stop) = &flow.stop
                && spec.stop.is_some_and(|stop| stop <= start)
            {
                self.error(stop.place, "it stops before it starts", "not after the start", "make it later");
                return;
            }
            self.scenario.flows.push(spec);
        }
        let flows = begin..self.scenario.flows.len();
        self.scenario.sections.push(FlowGroup { place: flow.place, name: flow.name.value.clone(), flows });
    }

    /// The number of a flow's class, from 0.
    pub(super) fn class(&mut self, flow: &FlowSection) -> u16 {
        flow.class.as_ref().map_or(0, |class| self.numbered(class, "class", "es", 0, LinkQueue::classes))
    }

    /// The number of a flow's profile, from 1; 0 for none.
    pub(super) fn profile(&mut self, flow: &FlowSection) -> u16 {
        flow.profile.as_ref().map_or(0, |profile| self.numbered(profile, "profile", "s", 1, LinkQueue::profiles))
    }

    /// Reads a number, or looks up a name in the list of some discipline, counted from `first`.
    pub(super) fn numbered(
        &mut self,
        name: &Spanned<String>,
        what: &str,
        plural: &str,
        first: u16,
        list: fn(&LinkQueue) -> Vec<&str>,
    ) -> u16 {
        if let Ok(number) = name.value.parse() {
            return number;
        }
        let queues = || self.scenario.wires.iter().filter_map(|wire| wire.queue.as_ref());
        let mut places = queues().filter_map(|queue| list(queue).iter().position(|known| *known == name.value));
        let Some(place) = places.next() else {
            let names: Vec<&str> = queues().flat_map(list).collect();
            let help = if names.is_empty() {
                format!("no discipline of the scenario has {what}{plural}: write a number")
            } else {
                suggest::help(&name.value, &names)
            };
            self.error(name.place, format!("no {what} is called `{}`", name.value), "unknown", help);
            return 0;
        };
        if places.any(|other| other != place) {
            let message = format!("{what} `{}` has different numbers on different links", name.value);
            self.error(name.place, message, "ambiguous", "write the number");
        }
        u16::try_from(place).unwrap_or(u16::MAX).saturating_add(first)
    }
}

/// The port of the flow of this number in its section.
fn nth_port(ports: &Ports, number: usize) -> u16 {
    ports.first + (number as u16).min(ports.last - ports.first)
}
