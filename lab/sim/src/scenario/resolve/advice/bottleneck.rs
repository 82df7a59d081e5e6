//! Warnings about a bottleneck that is not where its author thinks: a queue that is configured for another rate than its line has, one that
//! packets reach more slowly than they leave it, and classes that together get less than the link carries.

use std::collections::{BTreeMap, BTreeSet};

use tidegate_config::Place;
use tidegate_config::discipline::Discipline;
use tidegate_config::shaper::{Borrow, Class, Root};
use tidegate_core::Rate;

use super::{Advice, discipline_of, own_rate};
use crate::scenario::model::Variant;
use crate::scenario::queue::LinkQueue;

/// The number of links that a warning names.
const SHOWN: usize = 3;

impl Advice<'_> {
    /// Warns about a queue that is configured for more than its line carries, and about CAKE for less than half of it, unless its section
    /// has the rate of another line. Each rate is said once, with the first of the variants that have it.
    pub(super) fn own_rate_and_line(
        &mut self,
        index: usize,
        queue: &LinkQueue,
        (variant, place): (Option<&Variant>, Place),
    ) {
        let Some(own) = own_rate(queue) else { return };
        let variants = &self.scenario.variants;
        let is_said = match variant {
            // The queue of the base is not run where all variants replace it.
            None => !variants.is_empty() && variants.iter().all(|other| other.queue_at(index).is_some()),
            Some(variant) => {
                let is_alike = |other: &&Variant| {
                    let other = other.queue_at(index);
                    other.and_then(own_rate) == Some(own) && other.is_some_and(is_cake_alone) == is_cake_alone(queue)
                };
                variants.iter().find(is_alike).is_some_and(|first| !std::ptr::eq(first, variant))
            }
        };
        if is_said {
            return;
        }
        let (name, wire) = (self.scenario.wire_name(index), &self.scenario.wires[index]);
        let line = wire.line.rate;
        let changes = wire.conditions.as_ref().is_some_and(|conditions| conditions.rate.is_some());
        // A line that changes carries more at times.
        if own > line && !changes {
            let message = format!("the queue of the link {name} is configured for {own}, but its line carries {line}");
            let help = format!("configure the queue for at most {line}; otherwise its rate has no effect");
            self.warn(2, place, message, "faster than the line", help);
            return;
        }
        let mean = wire.conditions.as_ref().and_then(|conditions| conditions.mean_rate);
        let carried = mean.unwrap_or(line);
        // Actions may make the line slower.
        let is_low = own.as_bps() < carried.as_bps() / 2 && self.scenario.actions.is_empty();
        if is_low && is_cake_alone(queue) {
            let on_average = if mean.is_some() { " on average" } else { "" };
            let message = format!(
                "CAKE shapes the link {name} to {own}, and its line carries {carried}{on_average}: the line is never full"
            );
            let help = format!(
                "write a `rate` slightly below that of the line, or none; if it shapes for a slower line elsewhere, write its `line-rate`, or \
                 give the link {name} that rate"
            );
            self.warn(15, place, message, "far slower than the line", help);
        }
    }

    /// Warns about queues among `wires` that cannot fill. Actions may change lines and classes, and conditions change lines, so there are
    /// no warnings where these are.
    pub(super) fn bottlenecks(&mut self, variant: Option<&Variant>, wires: &[usize]) {
        if !self.scenario.actions.is_empty() {
            return;
        }
        let crossing = self.crossing();
        for &index in wires {
            // The queue of the base is not run where variants replace it.
            let replaced = |other: &Variant| other.queue_at(index).is_some();
            if variant.is_none() && self.scenario.variants.iter().any(replaced) {
                continue;
            }
            let (Some(queue), Some(flows)) = (self.scenario.queue_of(index, variant), crossing.get(&index)) else {
                continue;
            };
            let place = variant.map_or(self.scenario.wires[index].place, |variant| variant.place);
            let (name, rate) = (self.scenario.wire_name(index), self.rate_of(index, variant));
            // The first of the variants whose queues leave with one rate has the warning.
            let is_alike = |other: &&Variant| replaced(other) && self.rate_of(index, Some(*other)) == rate;
            let first = self.scenario.variants.iter().find(is_alike);
            let is_first = variant.is_none_or(|variant| first.is_some_and(|first| std::ptr::eq(first, variant)));
            let arriving = self.arriving(index, flows, variant).filter(|(arrives, _)| is_first && *arrives <= rate);
            if let Some((arrives, by)) = arriving {
                let names: Vec<String> = by.iter().take(SHOWN).map(|wire| self.scenario.wire_name(*wire)).collect();
                let more = if by.len() > SHOWN { format!(" and {} more", by.len() - SHOWN) } else { String::new() };
                let message = format!(
                    "the queue of the link {name} stays empty: packets arrive with at most {arrives}, by {}{more}, and leave with {rate}",
                    names.join(", ")
                );
                let help = format!("make the link {name} slower, or those links faster");
                self.warn(13, place, message, "the bottleneck is elsewhere", help);
            }
            if let Some(most) = self.ceilings(index, queue, flows).filter(|most| *most < rate) {
                let message = format!(
                    "the flows of the link {name} are in classes that get at most {most}, and its queue gives away {rate}"
                );
                let help =
                    "let the classes borrow, raise what they get at most, or give the link the rate that they get"
                        .to_owned();
                self.warn(14, place, message, "the classes are the bottleneck", help);
            }
        }
    }

    /// The rate at which packets leave a link.
    pub(super) fn rate_of(&self, index: usize, variant: Option<&Variant>) -> Rate {
        let line = self.scenario.wires[index].line.rate;
        self.scenario.queue_of(index, variant).and_then(own_rate).map_or(line, |own| own.min(line))
    }

    /// The rate with which data can arrive at a link at most, and the links that limit it: those before it and, of flows that wait for
    /// acknowledgements, those behind it. `None` if a flow has no other link, or a line of its way changes.
    fn arriving(&self, index: usize, flows: &[usize], variant: Option<&Variant>) -> Option<(Rate, Vec<usize>)> {
        let mut limits: BTreeMap<usize, Rate> = BTreeMap::new();
        for &number in flows {
            let side = self.scenario.flows[number].workload.data_side();
            let is_before = |link: &usize| {
                self.sim.path(number, side).take_while(|before| *before != index).any(|before| before == *link)
            };
            let waits = self.scenario.flows[number].transport.has_connections();
            let limiting = self.sim.path(number, side).filter(|link| *link != index && (waits || is_before(link)));
            let (rate, slowest) = limiting.map(|link| (self.rate_of(link, variant), link)).min()?;
            if self.sim.path(number, side).any(|link| self.scenario.wires[link].conditions.is_some()) {
                return None;
            }
            limits.insert(slowest, rate);
        }
        let all = limits.values().fold(0_u64, |sum, rate| sum.saturating_add(rate.as_bps()));
        Some((Rate::from_bps(all), limits.into_keys().collect()))
    }

    /// The rate that the classes of `flows` get together at most; `None` where one of them is not limited.
    fn ceilings(&mut self, index: usize, queue: &LinkQueue, flows: &[usize]) -> Option<Rate> {
        let Root::Shaper(shaper) = &queue.shaper()?.root else { return None };
        let mut used = BTreeSet::new();
        for &number in flows {
            let packet = self.packet(number, self.scenario.flows[number].workload.data_side());
            let ruled = self.sim.discipline(index)?.class_of(&packet);
            used.insert(usize::from(ruled.unwrap_or(packet.class)));
        }
        let ceiling = |class: &Class| match (class.borrow, class.at_most.class) {
            (Borrow::Never, _) => Some(class.rate),
            (Borrow::Allowed, most) => most.map(|most| most.rate),
        };
        let all = used.into_iter().map(|class| Some(ceiling(shaper.classes.get(class)?)?.as_bps()));
        all.sum::<Option<u64>>().map(Rate::from_bps)
    }
}

/// Whether a queue is CAKE, and its section does not say for which line it shapes.
fn is_cake_alone(queue: &LinkQueue) -> bool {
    matches!(discipline_of(queue), Some(Discipline::Cake(cake)) if cake.line_rate.is_none())
}
