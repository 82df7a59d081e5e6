//! COBALT: CoDel and BLUE on one queue.
//!
//! *Law*: while packets wait for more than `target`, drops (or marks) follow CoDel's control law; when that ends, the
//! count of drops goes down by the same law instead of to zero. Beside it BLUE drops by a probability that
//! rises by 1/256 when the queue overflows, once a `target` at most, and falls by 1/4096 for each `target` for which
//! the queue is empty: it is for senders that do not react. BLUE never drops the last packet of a queue: a queue of one is not too long, and a sender
//! that sends packet by packet would get nothing through.
//! *Source*: Palmei et al., "Design and evaluation of COBALT queue discipline" (2019); RFC
//! 8289 for the control law; Feng et al., "BLUE" (1999).
//! *Notes*: an empty queue needs no calls. The fall of BLUE's probability is made up for when the next packet arrives.
//! *Cost*: O(1) a packet; at most 32 steps of the count, and an integer square root where more are due.

use crate::codel::{MOST_DROPS_A_CALL, Params, mark};
use crate::packet::Packet;
use crate::qdisc::Outlet;
use crate::random::Stream;
use tidegate_units::Instant;
use tidegate_units::wide::mul_div;

/// The state of one queue.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct State {
    count: u32,
    dropping: bool,
    drop_next: Instant,
    /// BLUE's probability in units of 2⁻³².
    probability: u32,
    /// When the probability last changed.
    blue_at: Instant,
    empty_since: Option<Instant>,
}

/// The decision on a packet.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Decision {
    /// The packet leaves.
    Leave,
    /// The packet leaves with a mark.
    Marked,
    /// The packet is dropped.
    Drop,
}

impl State {
    /// Raises the drop probability of BLUE after an overflow of the queue.
    pub fn on_overflow(&mut self, params: &Params, now: Instant) {
        if now.since(self.blue_at) >= params.target {
            self.blue_at = now;
            self.probability = self.probability.saturating_add(1 << 24);
        }
    }
    /// The last packet of the queue has left.
    pub fn on_empty(&mut self, now: Instant) {
        self.empty_since = Some(now);
        self.dropping = false;
    }
    /// A packet arrived at the queue: lowers the drop probability of BLUE for the time for which the queue was empty.
    pub fn on_arrival(&mut self, params: &Params, now: Instant) {
        let Some(since) = self.empty_since else { return };
        self.empty_since = None;
        let first = since.max(self.blue_at + params.target);
        if self.probability == 0 || now < first {
            return;
        }
        let steps = 1 + now.since(first).as_nanos() / params.target.as_nanos().max(1);
        self.blue_at = first + params.target.saturating_mul(steps - 1);
        let fall = steps.saturating_mul(1 << 20).min(u64::from(u32::MAX));
        self.probability = self.probability.saturating_sub(fall as u32);
    }
    /// The steps down that are due since the dropping ended, also those that were due while there was no packet.
    fn count_down(&mut self, params: &Params, now: Instant) {
        for _ in 0..MOST_DROPS_A_CALL {
            if self.count == 0 || now < self.drop_next {
                return;
            }
            self.count -= 1;
            self.drop_next += params.spacing(self.count);
        }
        if now < self.drop_next {
            return;
        }
        // From n they take interval (1 / sqrt(n - 1) + ..), next to 2 interval sqrt(n): in t the root, here with 16
        // bits of fraction, falls by t / (2 interval).
        let fallen = mul_div(now.since(self.drop_next).as_nanos(), 1 << 15, params.interval.as_nanos());
        let root = (u64::from(self.count) << 32).isqrt().saturating_sub(fallen);
        self.count = (root * root).div_ceil(1 << 32) as u32;
        self.drop_next = now + params.spacing(self.count);
    }
    /// BLUE's probability in units of 2⁻³².
    pub fn probability(&self) -> u32 {
        self.probability
    }

    /// CoDel's law for the packet that arrived at `at`, where `more` than a packet was queued with it. Returns whether its sender is
    /// to be signalled.
    pub fn signals(&mut self, params: &Params, at: Instant, more: bool, now: Instant) -> bool {
        let above = now.since(at) >= params.target && more;
        if !(above && self.dropping) {
            self.count_down(params, now);
        }
        if !above {
            self.dropping = false;
            return false;
        }
        if !self.dropping {
            self.dropping = true;
            self.count = self.count.max(1);
            // An interval from now, or a part of it when the last episode has not been counted down.
            self.drop_next = now + params.spacing(self.count);
        }
        if now < self.drop_next {
            return false;
        }
        self.count = self.count.saturating_add(1);
        self.drop_next += params.spacing(self.count);
        true
    }

    /// Whether BLUE drops a packet, which is the `last` of its queue or not.
    pub fn is_unlucky(&self, random: &mut Stream, last: bool) -> bool {
        self.probability > 0 && !last && random.chance(u64::from(self.probability))
    }

    /// Decides on the packet that arrived at `at`; `more` than a packet was queued with it, or it is the `last` of its
    /// queue.
    #[allow(clippy::too_many_arguments)]
    pub fn decide<P: Packet>(
        &mut self,
        params: &Params,
        random: &mut Stream,
        packet: &mut P,
        at: Instant,
        more: bool,
        last: bool,
        now: Instant,
        out: &mut dyn Outlet<P>,
    ) -> Decision {
        let marked = if self.signals(params, at, more, now) { Some(mark(params.signal, packet, out)) } else { None };
        match marked {
            _ if self.is_unlucky(random, last) => Decision::Drop,
            Some(true) => Decision::Marked,
            Some(false) => Decision::Drop,
            None => Decision::Leave,
        }
    }
}
