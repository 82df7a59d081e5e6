//! Links, their queues and drivers, and variants.

use std::sync::Arc;

use tidegate_config::shaper::{self, Embedded};
use tidegate_config::{Diagnostics, Spanned};
use tidegate_core::Span;
use tidegate_core::fifo::Limit;

use super::Resolver;
use crate::driver::{Driver, Service};
use crate::link::{Line, Loss};
use crate::scenario::file::{DriverSection, LinkSection, ServiceWord, VariantSection};
use crate::scenario::model::{Variant, Wire};
use crate::scenario::queue::{LinkQueue, QueueSection};

impl Resolver<'_> {
    pub(super) fn link(&mut self, link: &Spanned<LinkSection>) {
        self.positive(&link.rate, "a rate", "\"10mbit\"");
        let queue = link.queue.as_ref().and_then(|queue| self.queue(queue));
        let queue_back = link.queue_back.as_ref().and_then(|queue| self.queue(queue));
        if let (Some(back), false) = (&link.queue_back, link.both_ways) {
            self.wrong(back.place, "a queue on a link that is not there", "both-ways is false", "take one of them out");
        }
        let timer = link.timer.as_ref();
        if let Some(timer) = timer {
            self.positive(timer, "a timer", "\"10ms\"");
        }
        let driver = link.driver.as_ref().and_then(|driver| self.driver(driver, timer));
        let loss = link.loss.map_or(Loss::None, |p| Loss::Random(f64::from(p.millionths()) / 1e6));
        let line = Line::new(link.rate.value, link.delay).limit(Limit::packets(link.limit.value)).loss(loss);
        let timer = timer.map(|timer| timer.value);
        for (a, b) in self.pairs(&link.from, &link.to) {
            let queue = queue.clone();
            let watch = link.watch.unwrap_or(queue.is_some());
            self.scenario.wires.push(Wire { place: link.place, from: a, to: b, line, queue, driver, timer, watch });
            if link.both_ways {
                let queue = queue_back.clone();
                let watch = queue.is_some();
                self.scenario.wires.push(Wire {
                    place: link.place,
                    from: b,
                    to: a,
                    line,
                    queue,
                    driver: None,
                    timer,
                    watch,
                });
            }
        }
    }

    pub(super) fn variant(&mut self, variant: &Spanned<VariantSection>) {
        let queue = self.queue(&variant.queue);
        if self.scenario.variants.iter().any(|known| known.name == variant.name.value) {
            let message = format!("two variants are called `{}`", variant.name.value);
            self.wrong(variant.name.place, message, "the second", "give each its own name");
            return;
        }
        let (Some(from), Some(to)) = (self.node(&variant.from), self.node(&variant.to)) else { return };
        let Some(wire) = self.scenario.wires.iter().position(|wire| (wire.from, wire.to) == (from, to)) else {
            let message = format!("no link leads from `{}` to `{}`", variant.from.value, variant.to.value);
            self.wrong(variant.to.place, message, "not a neighbour", "name a node that a link leads to");
            return;
        };
        self.scenario.wires[wire].watch = true;
        let (name, Some(queue)) = (variant.name.value.clone(), queue) else { return };
        self.scenario.variants.push(Variant { place: variant.place, name, wire, queue });
    }

    pub(super) fn driver(&mut self, driver: &Spanned<DriverSection>, timer: Option<&Spanned<Span>>) -> Option<Driver> {
        self.positive(&driver.hardware, "a hardware buffer", "\"32KiB\"");
        if let Some(hz) = &driver.timer_hz {
            self.positive(hz, "a timer", "100");
            if let Some(timer) = timer {
                self.wrong(timer.place, "two timers on one link", "the driver has one too", "leave one of them out");
            }
        }
        let service = match driver.service {
            ServiceWord::DrainAll => Service::DrainAll,
            ServiceWord::OnePerCall => Service::OnePerCall,
        };
        Some(Driver {
            software: driver.software,
            hardware: driver.hardware.value,
            service,
            on_receive: driver.on_receive,
            forwarding: driver.forwarding,
            timer_hz: driver.timer_hz.as_ref().map(|hz| hz.value),
        })
    }

    /// What waits before a transmitter; a shaper file is opened and checked.
    pub(super) fn queue(&mut self, queue: &Spanned<QueueSection>) -> Option<LinkQueue> {
        match &queue.value {
            QueueSection::Discipline(discipline) => {
                discipline.check(queue.place, self.diagnostics);
                Some(LinkQueue::Discipline(discipline.clone()))
            }
            QueueSection::Shaper(section) => self.shaper(&section.shaper).map(LinkQueue::Shaper),
        }
    }

    /// A shaper file, opened and checked. What is wrong with it is shown in its own text.
    pub(super) fn shaper(&mut self, shaper: &Spanned<Embedded>) -> Option<Arc<shaper::Config>> {
        let name = match &shaper.value {
            Embedded::Tables(config) => return Some(Arc::new((**config).clone())),
            Embedded::File(name) => name,
        };
        let source = match self.open(name) {
            Ok(source) => source,
            Err(error) => {
                let help = "name a shaper file beside the scenario, or write its tables here";
                self.wrong(
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
