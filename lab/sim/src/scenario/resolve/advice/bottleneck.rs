//! Warnings about a bottleneck that is not where its author thinks: a queue that packets reach more slowly than they leave it, and classes
//! that together get less than the link carries.

use std::collections::{BTreeMap, BTreeSet};

use tidegate_config::shaper::{Borrow, Class, Root};
use tidegate_core::Rate;

use super::{Advice, own_rate};
use crate::scenario::model::Variant;
use crate::scenario::queue::LinkQueue;

/// The number of links that a warning names.
const SHOWN: usize = 3;

impl Advice<'_> {
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
                let help = format!("make the link {name} slower, or the links before it faster");
                self.warn(13, place, message, "the bottleneck is before it", help);
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
    fn rate_of(&self, index: usize, variant: Option<&Variant>) -> Rate {
        let line = self.scenario.wires[index].line.rate;
        self.scenario.queue_of(index, variant).and_then(own_rate).map_or(line, |own| own.min(line))
    }

    /// The rate with which data can arrive at a link at most, and the links that limit it; `None` if a flow begins there, or a line before
    /// it changes.
    fn arriving(&self, index: usize, flows: &[usize], variant: Option<&Variant>) -> Option<(Rate, Vec<usize>)> {
        let mut limits: BTreeMap<usize, Rate> = BTreeMap::new();
        for &number in flows {
            let side = self.scenario.flows[number].workload.data_side();
            let before = self.sim.path(number, side).take_while(|link| *link != index);
            let (rate, slowest) = before.map(|link| (self.rate_of(link, variant), link)).min()?;
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
