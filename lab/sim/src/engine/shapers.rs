//! Links with the engine of a shaper file: calls to it between two packets, and its notifications.

use tidegate_config::shaper::Config;
use tidegate_core::{Instant, Outlet, Rate};
use tidegate_engine::{Engine, SwapError, SwapReport};

use super::{EventKind, FOLLOWER, Simulation, target};
use crate::event::EventQueue;
use crate::follow::TICK;
use crate::ids::LinkId;
use crate::link::{DropCounter, FlowCounters, Link, NEVER};
use crate::packet::SimPacket;
use crate::shaper::{LinkSink, ShaperQueue};

/// Schedules the next poll of the flows that `shaper` watches.
#[inline]
pub(super) fn schedule_watch(events: &mut EventQueue, now: u64, link: u32, shaper: &mut ShaperQueue) {
    if let Some(at) = shaper.next_poll() {
        let at = at.as_nanos().max(now);
        if at < shaper.poll_armed || shaper.poll_armed < now {
            shaper.poll_armed = at;
            events.push(at, target(EventKind::Watch, link));
        }
    }
}

impl Simulation {
    /// The engine of `link`, if a shaper file is in force there.
    pub fn shaper(&self, link: LinkId) -> Option<&ShaperQueue> {
        self.links[link.index()].queue.shaper()
    }
    /// Like [`Self::shaper`], for queries that need a mutable engine. Changes go through [`Simulation::steer`].
    pub fn shaper_mut(&mut self, link: LinkId) -> Option<&mut ShaperQueue> {
        self.links[link.index()].queue.shaper_mut()
    }

    /// Calls `work` with the engine of `link` between two packets, as the control plane of a live shaper does. `None`
    /// without an engine.
    pub fn steer<T>(
        &mut self,
        link: LinkId,
        work: impl FnOnce(&mut Engine<u32>, Instant, &mut LinkSink<'_>) -> T,
    ) -> Option<T> {
        self.between_packets(link.0, |shaper, now, out| shaper.steer(now, out, work))
    }

    /// Continues with another configuration on `link`, without losing or reordering packets. `None` without an engine.
    ///
    /// # Errors
    /// See [`SwapError`]. The old configuration then stays in force.
    pub fn reconfigure(&mut self, link: LinkId, config: &Config) -> Option<Result<SwapReport, SwapError>> {
        self.between_packets(link.0, |shaper, now, out| shaper.reconfigure(now, config, out))
    }

    /// Sets the rate of the engine of `link`, whose classes keep their shares of it. `false` without a shaper.
    pub fn set_line_rate(&mut self, link: LinkId, rate: Rate) -> bool {
        self.between_packets(link.0, |shaper, now, _| shaper.follow(now, rate)).unwrap_or(false)
    }

    /// Schedules the next question to the control of a follower.
    pub(crate) fn schedule_follow(&mut self, number: u32) {
        self.events.push(self.now + TICK.as_nanos(), target(EventKind::Watch, FOLLOWER | number));
    }

    pub(super) fn on_watch(&mut self, link: u32) {
        let now = self.now;
        self.between_packets(link, |shaper, at, out| {
            if shaper.poll_armed == now {
                shaper.poll_armed = NEVER;
                shaper.poll(at, out);
            }
        });
    }

    fn between_packets<T>(
        &mut self,
        link: u32,
        work: impl FnOnce(&mut ShaperQueue, Instant, &mut dyn Outlet<SimPacket>) -> T,
    ) -> Option<T> {
        let (now, measuring) = (self.now, self.measuring());
        let Link { queue, metrics, hooks, .. } = &mut self.links[link as usize];
        let shaper = queue.shaper_mut()?;
        let mut counters = FlowCounters { flows: &mut self.metrics, measuring };
        let done =
            work(shaper, Instant::from_nanos(now), &mut DropCounter { now, metrics, hooks, counters: &mut counters });
        self.schedule_transmit(link);
        Some(done)
    }
}
