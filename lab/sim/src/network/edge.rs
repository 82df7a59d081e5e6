//! From the description of a link to the link of a simulation.

use tidegate_core::Span;
use tidegate_core::fifo::Fifo;
use tidegate_core::random::Stream;

use super::{Edge, NetworkError, QueueSpec};
use crate::conditions::LineState;
use crate::driver::DriverState;
use crate::link::{Discipline, Hooks, Link, Queue};
use crate::metrics::LinkSeries;
use crate::shaper::{Population, ShaperQueue};

impl Edge {
    pub(super) fn build(
        self,
        seed: u64,
        number: u64,
        name: &str,
        bin: Span,
        shaped: Option<(&Population, Option<u32>)>,
    ) -> Result<Link, NetworkError> {
        let loss_changes =
            self.conditions.as_ref().is_some_and(|c| c.changes.iter().any(|change| change.loss.is_some()));
        let mut link = Link::new(&self.line, Stream::named(seed, &format!("link {name}")), loss_changes);
        let state = |conditions| Box::new(LineState::new(conditions, self.line.rate, self.line.delay, seed, name));
        link.conditions = self.conditions.map(state);
        link.shared_line = self.shared_line;
        link.watched = self.watched;
        if self.watched {
            let parts = self.parts.then(Box::default);
            link.metrics.series = Some(Box::new(LinkSeries { parts, ..LinkSeries::new(bin) }));
        }
        if !self.entry.is_empty() || self.tap.is_some() || self.observer.is_some() {
            link.hooks = Some(Box::new(Hooks { entry: self.entry, tap: self.tap, observer: self.observer }));
        }
        link.tick = self.tick.map_or(0, Span::as_nanos);
        let limit = self.line.limit;
        let queue = match (self.queue, shaped) {
            (Some(QueueSpec::Shaper(config, shards)), Some((population, begins_at))) => {
                let queue = ShaperQueue::new(&config, population, begins_at, seed, number, shards)
                    .map_err(|why| NetworkError::Shaper { link: name.into(), why: why.to_string() })?;
                Some(Discipline::Shaper(Box::new(queue)))
            }
            (Some(QueueSpec::Discipline(queue)), _) => Some(Discipline::Plain(queue)),
            (None | Some(QueueSpec::Shaper(..)), _) => None,
        };
        match self.driver {
            Some(driver) => {
                if let Some(hz) = driver.timer_hz {
                    link.tick = 1_000_000_000 / u64::from(hz.max(1));
                }
                let queue = queue.unwrap_or_else(|| Discipline::Plain(Box::new(Fifo::new(limit))));
                link.queue = Queue::Driver(queue, Box::new(DriverState::new(driver)));
            }
            None => {
                // On a half-duplex line, departures are not known on arrival.
                let shared = || self.shared_line.map(|_| Discipline::Plain(Box::new(Fifo::new(limit)) as _));
                if let Some(queue) = queue.or_else(shared) {
                    link.queue = Queue::Discipline(queue);
                }
            }
        }
        Ok(link)
    }
}
