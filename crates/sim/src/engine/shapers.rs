//! Links with the engine of a shaper file: calls to it between two packets, and its notifications.

use tidegate_config::shaper::Config;
use tidegate_core::{Instant, Outlet};
use tidegate_engine::{Pipeline, SwapFailure, Swapped};

use super::{Kind, Simulation, target};
use crate::event::EventQueue;
use crate::link::{DropBook, Ledger, Link, NEVER};
use crate::network::LinkId;
use crate::packet::SimPacket;
use crate::shaper::{ShaperQueue, Sink};

/// Has the flows that `shaper` watches looked at when that is due.
#[inline]
pub(super) fn schedule_look(events: &mut EventQueue, now: u64, link: u32, shaper: &mut ShaperQueue) {
    if let Some(at) = shaper.look_at() {
        let at = at.as_nanos().max(now);
        if at < shaper.look_armed || shaper.look_armed < now {
            shaper.look_armed = at;
            events.push(at, target(Kind::Look, link));
        }
    }
}

impl Simulation {
    /// The engine before the transmitter of `link`, where a shaper file is in force there.
    pub fn shaper(&self, link: LinkId) -> Option<&ShaperQueue> {
        self.links[link.index()].queue.shaper()
    }
    /// The same, to read it in ways that need it mutable. What changes the engine goes through [`Simulation::steer`].
    pub fn shaper_mut(&mut self, link: LinkId) -> Option<&mut ShaperQueue> {
        self.links[link.index()].queue.shaper_mut()
    }

    /// Calls `work` with the engine before the transmitter of `link`, between two packets, as live the control plane does;
    /// `None` where there is none.
    pub fn steer<T>(
        &mut self,
        link: LinkId,
        work: impl FnOnce(&mut Pipeline<u32>, Instant, &mut Sink<'_>) -> T,
    ) -> Option<T> {
        self.between_packets(link.0, |shaper, now, out| shaper.steer(now, out, work))
    }

    /// Continues with another configuration on `link`; `None` where no engine is there. No packet is lost or reordered by
    /// that.
    ///
    /// # Errors
    /// See [`SwapFailure`]; nothing has changed then.
    pub fn reconfigure(&mut self, link: LinkId, config: &Config) -> Option<Result<Swapped, SwapFailure>> {
        self.between_packets(link.0, |shaper, now, out| shaper.reconfigure(now, config, out))
    }

    pub(super) fn on_look(&mut self, link: u32) {
        let now = self.now;
        self.between_packets(link, |shaper, at, out| {
            if shaper.look_armed == now {
                shaper.look_armed = NEVER;
                shaper.look(at, out);
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
        let mut ledger = Ledger { flows: &mut self.metrics, measuring };
        let done = work(shaper, Instant::from_nanos(now), &mut DropBook { now, metrics, hooks, ledger: &mut ledger });
        self.schedule_transmit(link);
        Some(done)
    }
}
