//! Resolves links, their queues and drivers, and variants.

use std::sync::Arc;

use tidegate_config::shaper::{self, Embedded};
use tidegate_config::{Diagnostics, Spanned};
use tidegate_core::fifo::Limit;
use tidegate_core::{Rate, Span};
use tidegate_engine::shards::not_sharable;

use super::Resolver;
use crate::conditions::Conditions;
use crate::driver::Driver;
use crate::impairment::Impairment;
use crate::link::Line;
use crate::scenario::file::{DriverSection, LinkSection, SharedQueueSection, VariantSection};
use crate::scenario::model::{Variant, Wire};
use crate::scenario::queue::{LinkQueue, QueueSection, ShaperSection};

/// The largest number of shards of a shaper.
const MOST_SHARDS: u64 = 64;

impl Resolver<'_> {
    pub(super) fn link(&mut self, link: &Spanned<LinkSection>) {
        if let Some(rate) = &link.rate {
            self.positive(rate, "a rate", "\"10mbit\"");
        }
        let queue = link.queue.as_ref().and_then(|queue| self.queue(queue));
        let queue_back = link.queue_back.as_ref().and_then(|queue| self.queue(queue));
        if let (Some(back), false) = (&link.queue_back, link.both_ways) {
            self.error(
                back.place,
                "this queue is on a link that does not exist",
                "both-ways is false",
                "take one of them out",
            );
        }
        let timer = link.timer.as_ref();
        if let Some(timer) = timer {
            self.positive(timer, "a timer", "\"10ms\"");
        }
        let driver = link.driver.as_ref().and_then(|driver| self.driver(driver, timer));
        if let Some(rate) = &link.rate_back {
            self.positive(rate, "a rate", "\"10mbit\"");
        }
        let (loss, lost) = self.loss(link.loss.as_ref());
        let (loss_back, lost_back) = match &link.loss_back {
            Some(section) => self.loss(Some(section)),
            None => (loss, lost.clone()),
        };
        // What is wrong about a line has been reported, and the link is there nevertheless: without it each variant and flow
        // that it carries would be wrong, too.
        let delay = self.delay(link.delay.as_ref()).unwrap_or_default();
        let common = self.conditions(link).unwrap_or_default();
        let conditions = self.over_time(&common, link.rate_over_time.as_ref()).unwrap_or_default();
        let conditions_back = match (&link.rate_over_time_back, &link.rate_back) {
            (Some(section), _) => self.over_time(&common, Some(section)).unwrap_or_default(),
            (None, Some(_)) => common,
            (None, None) => conditions.clone(),
        };
        let delay_back = match &link.delay_back {
            Some(section) => self.delay(Some(section)).unwrap_or_default(),
            None => delay.clone(),
        };
        if link.half_duplex && (!link.both_ways || link.driver.is_some()) {
            let help = "leave half-duplex out, or both-ways and the driver";
            self.error(link.place, "a half-duplex line needs both directions and no driver", "not shared", help);
        }
        let limit = Limit::packets(link.limit.value);
        let rate = link.rate.as_ref().map(|rate| rate.value).or(conditions.mean_rate).unwrap_or_default();
        if link.rate.is_none() && link.rate_over_time.is_none() {
            let help = "write for example rate = \"10mbit\", or rate-over-time for a line that changes";
            self.error(link.place, "a link without a rate", "lacks `rate`", help);
        }
        let line = Line::new(rate, delay.0).limit(limit).loss(loss);
        let rate_back = link.rate_back.as_ref().map_or(rate, |rate| rate.value);
        let line_back = Line::new(rate_back, delay_back.0).limit(limit).loss(loss_back);
        let faults = link.ecn_impairment_back.as_ref().unwrap_or(&link.ecn_impairment);
        let (impairment, impairment_back) = (Impairment::of(&link.ecn_impairment), Impairment::of(faults));
        let with = |conditions: &Conditions, lost: &Arc<[u64]>, impairment: Impairment| {
            let conditions = Conditions { lost: lost.clone(), impairment, ..conditions.clone() };
            (conditions != Conditions::default()).then_some(conditions)
        };
        let timer = timer.map(|timer| timer.value);
        for (a, b) in self.pairs(&link.from, &link.to) {
            if !self.is_new_link(link, a, b) {
                return;
            }
            let there = self.scenario.wires.len();
            let wire = Wire {
                place: link.place,
                from: a,
                to: b,
                line,
                queue: queue.clone(),
                driver,
                timer,
                watch: link.watch.unwrap_or(queue.is_some()),
                drawn: delay.1.clone().map(|distribution| (distribution, there)),
                conditions: with(&conditions, &lost, impairment),
                shares: None,
                serves: Vec::new(),
            };
            self.scenario.wires.push(wire.clone());
            if link.both_ways {
                // Both directions draw the same delay unless the link back has a distribution of its own.
                let drawn_for = if link.delay_back.is_some() { there + 1 } else { there };
                self.scenario.wires.push(Wire {
                    from: b,
                    to: a,
                    line: line_back,
                    queue: queue_back.clone(),
                    driver: None,
                    watch: queue_back.is_some(),
                    drawn: delay_back.1.clone().map(|distribution| (distribution, drawn_for)),
                    conditions: with(&conditions_back, &lost_back, impairment_back),
                    shares: link.half_duplex.then_some(there),
                    ..wire
                });
            }
        }
    }

    /// Checks that a link joins two nodes that no other joins in this direction, and reports an error otherwise.
    fn is_new_link(&mut self, link: &Spanned<LinkSection>, a: usize, b: usize) -> bool {
        let [from, to] = [a, b].map(|node| self.scenario.nodes[node].0.clone());
        if a == b {
            let message = format!("a link leads from `{from}` to itself");
            self.error(link.to.place, message, "the same node", "name two nodes");
            return false;
        }
        let there = self.scenario.wire_between(a, b);
        let back = self.scenario.wire_between(b, a).filter(|_| link.both_ways);
        let (Some(known), from, to) = (if there.is_some() { (there, from, to) } else { (back, to, from) }) else {
            return true;
        };
        let first = self.scenario.wires[known].place;
        self.diagnostics
            .error(link.place, format!("two links lead from `{from}` to `{to}`"))
            .label("the second")
            .related(first, "the first, in both directions unless it says otherwise")
            .help("a packet cannot choose: take one out, or write both-ways = false in both for different lines");
        false
    }

    pub(super) fn shared_queue(&mut self, shared: &Spanned<SharedQueueSection>) {
        let SharedQueueSection { from, to, queue } = &shared.value;
        let queue = self.queue(queue);
        let mut serves = Vec::new();
        for (a, b) in self.pairs(from, to) {
            let Some(wire) = self.scenario.wire_between(a, b) else {
                let [a, b] = [a, b].map(|node| self.scenario.nodes[node].0.clone());
                let message = format!("no link leads from `{a}` to `{b}`");
                self.error(to.place, message, "not a neighbour", "add a [[link]], or name nodes that links lead to");
                return;
            };
            let name = self.scenario.wire_name(wire);
            if self.scenario.queueing_wire(wire) != wire {
                let message = format!("the link {name} has a shared queue already");
                self.error(shared.place, message, "the second", "take it out of one of them");
                return;
            }
            if self.scenario.wires[wire].queue.is_some() {
                let message = format!("the link {name} has a queue of its own");
                let help = "remove the queue of the [[link]]; its packets wait in the shared queue";
                self.error(shared.place, message, "and a shared one", help);
                return;
            }
            serves.push(wire);
        }
        let (Some(queue), Some(&first)) = (queue, serves.first()) else { return };
        let first = self.scenario.wires[first].clone();
        let rates = serves.iter().map(|&wire| self.scenario.wires[wire].line.rate.as_bps());
        // The capacity of all links together, on which the utilisation is based.
        let rate = Rate::from_bps(rates.fold(0, u64::saturating_add));
        self.scenario.wires.push(Wire {
            place: shared.place,
            line: Line::new(rate, Span::ZERO),
            queue: Some(queue),
            driver: None,
            timer: None,
            watch: true,
            drawn: None,
            conditions: None,
            shares: None,
            serves,
            ..first
        });
    }

    pub(super) fn variant(&mut self, variant: &Spanned<VariantSection>) {
        let queue = self.queue(&variant.queue);
        let back = variant.queue_back.as_ref().map(|section| self.queue(section));
        if self.scenario.variants.iter().any(|known| known.name == variant.name.value) {
            let message = format!("two variants are called `{}`", variant.name.value);
            self.error(variant.name.place, message, "the second", "give each its own name");
            return;
        }
        let (Some(from), Some(to)) = (self.node(&variant.from), self.node(&variant.to)) else { return };
        let Some(wire) = self.scenario.wire_between(from, to) else {
            return self.no_link(&variant.from, &variant.to);
        };
        let mut queues = Vec::new();
        for (wire, queue) in [(Some(wire), Some(queue)), (self.scenario.wire_between(to, from), back)] {
            // A section that is wrong has been reported.
            let Some(queue) = queue else { continue };
            let Some(wire) = wire else { return self.no_link(&variant.to, &variant.from) };
            let wire = self.scenario.queueing_wire(wire);
            if queues.iter().any(|(other, _)| *other == wire) {
                let place = variant.queue_back.as_ref().map_or(variant.place, |section| section.place);
                let message = "both directions of this link share one queue";
                return self.error(place, message, "a second", "give `queue` alone");
            }
            self.scenario.wires[wire].watch = true;
            queues.extend(queue.map(|queue| (wire, queue)));
        }
        self.scenario.variants.push(Variant { place: variant.place, name: variant.name.value.clone(), queues });
    }

    pub(super) fn driver(&mut self, driver: &Spanned<DriverSection>, timer: Option<&Spanned<Span>>) -> Option<Driver> {
        self.positive(&driver.hardware, "a hardware buffer", "\"32KiB\"");
        if let Some(hz) = &driver.timer_hz {
            self.positive(hz, "a timer", "100");
            if let Some(timer) = timer {
                self.error(timer.place, "two timers on one link", "the driver has one too", "leave one of them out");
            }
        }
        Some(Driver {
            software: driver.software,
            hardware: driver.hardware.value,
            service: driver.service,
            on_receive: driver.on_receive,
            on_enqueue: driver.on_enqueue,
            forwarding: driver.forwarding,
            timer_hz: driver.timer_hz.as_ref().map(|hz| hz.value),
        })
    }

    /// Resolves the queue of a link. A shaper file is opened and checked.
    pub(super) fn queue(&mut self, queue: &Spanned<QueueSection>) -> Option<LinkQueue> {
        match &queue.value {
            QueueSection::Discipline(discipline) => {
                discipline.check(queue.place, self.diagnostics);
                Some(LinkQueue::Discipline(discipline.clone()))
            }
            QueueSection::Shaper(section) => self.shards(section),
        }
    }

    /// Resolves a shaper file with a number of shards.
    fn shards(&mut self, section: &ShaperSection) -> Option<LinkQueue> {
        let shards = &section.shards;
        if !(1..=MOST_SHARDS).contains(&shards.value) {
            let message = format!("{} shards", shards.value);
            self.error(shards.place, message, "not between 1 and 64", "give one for each thread");
        }
        let config = self.shaper(&section.shaper)?;
        if shards.value > 1
            && let Some(why) = not_sharable(&config)
        {
            self.error(shards.place, "this shaper cannot be divided", "more than one", &why);
        }
        Some(LinkQueue::Shaper(config, shards.value as usize))
    }

    /// Opens and checks a shaper file. Its errors are shown in its own text.
    pub(super) fn shaper(&mut self, shaper: &Spanned<Embedded>) -> Option<Arc<shaper::Config>> {
        let name = match &shaper.value {
            Embedded::Tables(config) => return Some(Arc::new((**config).clone())),
            Embedded::File(name) => name,
        };
        let source = match self.open(name) {
            Ok(source) => source,
            Err(error) => {
                let help = "name a shaper file beside the scenario, or write its tables here";
                self.error(
                    shaper.place,
                    format!("the shaper file `{name}` cannot be used: {error}"),
                    "this file",
                    help,
                );
                return None;
            }
        };
        let mut found = Diagnostics::new();
        let config = shaper::load(&source, &mut found);
        self.diagnostics.include(&source, found);
        config.map(Arc::new)
    }
}
