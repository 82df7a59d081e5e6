//! PIE: proportional integral controller, enhanced.
//!
//! *Law*: every `update` the drop probability changes by `alpha * (delay - target) + beta * (delay - delay before)`,
//! scaled down while it is small. Each arrival is dropped (or marked) with this probability, except within `burst`
//! after the queue was last idle, and while at most two mean packets are queued.
//! *Source*: RFC 8033, sections 4.1 to 4.4, 5.1 (ECN), 5.4 (derandomization) and 5.5 (cap on a rise); RFC 8034 for
//! dropping by size.
//! *Units*: times in nanoseconds; alpha 1/8 and beta 5/4 are per second, as in the RFC; probabilities have 60 bits
//! of fraction.
//! *Example*: below.
//! *Cost*: O(1) per call and about 10 ns for each update that is due, at most 1,024 per call; no timer.
//! *Notes*: the delay is the queueing time of the last packet that left (section 4.3 of the RFC allows it instead of
//! the rate estimate), and zero when the queue is empty. The next call makes up for missed updates, at the instants
//! at which they were due. The result is the same, because nothing changes between calls. After 1,024 in a row (15 s
//! without a call) the rest is skipped; by then the probability is 0 or 1, or has hardly changed. A difference of delays
//! above 26 days counts as 26 days.
//! *Departures from the source, and why*: no departure rate estimate. PIE is always on: the burst allowance replaces
//! the optional switching off of section 5.3. Lazy updates replace the timer.
//! *See also*: [`codel`](crate::codel), which decides on departure; [`red`](crate::red), by the length of the queue.
//!
//! ```
//! use tidegate_core::{pie::{Pie, Params}, aqm::AqmFifo, fifo::Limit, qdisc::{Discard, Qdisc}, *};
//! # #[derive(Debug)] struct P(u64);
//! # impl Packet for P { fn size(&self) -> Bytes { Bytes::new(1500) } fn flow(&self) -> FlowKey { FlowKey::default() } }
//! let mut queue = Pie::new(Params::default(), 1, "uplink")?;
//! queue.enqueue(Instant::ZERO, P(0), &mut Discard);
//! assert_eq!(queue.probability().as_f64(), 0.0);
//! # Ok::<(), ParamError>(())
//! ```

use crate::codel::mark;
use crate::fifo::Limit;
use crate::packet::Packet;
use crate::params::ParamError;
use crate::probability::Probability;
use crate::qdisc::{Backlog, Deadline, DropReason, Outlet, Qdisc, Queued};
use crate::queues::{Queue, Store};
use crate::random::Stream;
use crate::red::{Signal, Sizing};
use tidegate_units::wide::mul_div;
use tidegate_units::{Bytes, Instant, Span};

/// Parameters.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Params {
    /// The delay at which the controller aims.
    pub target: Span,
    /// The interval between updates of the probability.
    pub update: Span,
    /// The length of a burst that is allowed after an idle period.
    pub burst: Span,
    /// The weight of the distance from the target, in 1/16 per second: 2 is the RFC's 0.125.
    pub alpha: u32,
    /// The weight of the trend, in 1/16 per second: 20 is the RFC's 1.25.
    pub beta: u32,
    /// The mean packet size: nothing is dropped while at most two of them are queued.
    pub mean: Bytes,
    /// Whether the probability is scaled by the packet size.
    pub sizing: Sizing,
    /// Whether to mark or to drop.
    pub signal: Signal,
    /// Above this probability ECN-capable packets are dropped instead of marked.
    pub most_marked: Probability,
    /// The limit of the queue.
    pub limit: Limit,
}

impl Default for Params {
    /// RFC 8033: 15 ms, 15 ms, 150 ms, 0.125, 1.25, marking below 10 %; 1,000 packets.
    fn default() -> Self {
        Self {
            target: Span::from_millis(15),
            update: Span::from_millis(15),
            burst: Span::from_millis(150),
            alpha: 2,
            beta: 20,
            mean: Bytes::new(1_500),
            sizing: Sizing::PerPacket,
            signal: Signal::Mark,
            most_marked: Probability::from_ratio(1, 10).unwrap_or(Probability::ONE),
            limit: Limit::packets(1_000),
        }
    }
}

impl Params {
    /// Checks the ranges.
    ///
    /// # Errors
    /// A target or an update of zero, weights above 1,600 (100 per second), a mean of zero.
    pub fn validate(self) -> Result<Self, ParamError> {
        if self.target.is_zero() {
            return Err(ParamError::new("target", "must be above 0, for example 15ms"));
        }
        if self.update.is_zero() {
            return Err(ParamError::new("update", "must be above 0, for example 15ms"));
        }
        if self.alpha > 1_600 {
            return Err(ParamError::new("alpha", "must be at most 100 per second; the RFC has 0.125"));
        }
        if self.beta > 1_600 {
            return Err(ParamError::new("beta", "must be at most 100 per second; the RFC has 1.25"));
        }
        if self.mean == Bytes::ZERO || self.sizing == (Sizing::PerByte { mean: Bytes::ZERO }) {
            return Err(ParamError::new("mean", "must be above 0, for example 1500B"));
        }
        Ok(self)
    }
}

/// One, in the units of the probability.
const ONE: u64 = 1 << 60;
/// The most updates that one call makes up for.
const MOST_UPDATES: u32 = 1_024;

/// Counts of a PIE queue since its start.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Stats {
    /// Packets dropped by the probability.
    pub dropped: u64,
    /// Packets marked.
    pub marked: u64,
    /// Updates of the probability.
    pub updates: u64,
}

/// The controller of one queue.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct State {
    /// The drop probability, times [`ONE`].
    probability: u64,
    /// The delay of the last packet that left.
    delay: Span,
    /// The delay at the last update.
    delay_before: Span,
    burst: Span,
    /// The probability accumulated since the last drop, times [`ONE`].
    gathered: u64,
    next_update: Instant,
}

impl State {
    /// A controller whose queue is empty, updated for the first time after `params.update`.
    pub fn new(params: &Params) -> Self {
        Self {
            probability: 0,
            delay: Span::ZERO,
            delay_before: Span::ZERO,
            burst: params.burst,
            gathered: 0,
            next_update: Instant::ZERO + params.update,
        }
    }
    /// Returns the present drop probability.
    pub fn probability(&self) -> Probability {
        Probability::saturating_from_bits(self.probability >> 28)
    }

    /// Makes the updates that were due by `now`.
    pub fn catch_up(&mut self, params: &Params, stats: &mut Stats, now: Instant) {
        for _ in 0..MOST_UPDATES {
            if !self.update_if_due(params, stats, now) {
                break;
            }
        }
        self.skip_missed(params, now);
    }

    /// Makes the next update if it is due by `now`. Returns whether another may be.
    fn update_if_due(&mut self, params: &Params, stats: &mut Stats, now: Instant) -> bool {
        if self.next_update > now {
            return false;
        }
        stats.updates += 1;
        self.next_update += params.update;
        self.update(params)
    }

    /// Skips the updates that are due by `now`.
    fn skip_missed(&mut self, params: &Params, now: Instant) {
        // The state is stationary, or the update limit is reached: skip to the first update after now, in phase.
        let missed = now.since(self.next_update).as_nanos() / params.update.as_nanos();
        if self.next_update <= now {
            self.next_update += params.update.saturating_mul(missed + 1);
        }
    }

    /// Whether a packet of `size` that arrives at a queue of `backlog` is to be dropped or marked (RFC 8033, sections 4.1
    /// and 5.4).
    fn unlucky(&mut self, params: &Params, random: &mut Stream, size: Bytes, backlog: Backlog) -> bool {
        if !self.burst.is_zero() {
            return false;
        }
        let calm = self.delay_before.as_nanos() < params.target.as_nanos() / 2 && self.probability < ONE / 5;
        if calm || backlog.bytes <= params.mean.saturating_mul(2) {
            return false;
        }
        let p = match params.sizing {
            Sizing::PerPacket => self.probability,
            Sizing::PerByte { mean } => mul_div(self.probability, size.as_u64(), mean.as_u64()),
        };
        if self.probability == 0 {
            self.gathered = 0;
        }
        self.gathered = self.gathered.saturating_add(p);
        // Not earlier after the last drop than 0.85 of a mean gap, and not later than 8.5 gaps.
        let hit = if self.gathered < ONE / 100 * 85 {
            false
        } else {
            self.gathered >= ONE / 10 * 85 || random.next_u64() >> 4 < p
        };
        if hit {
            self.gathered = 0;
        }
        hit
    }

    /// Whether `packet`, which arrives at a queue of `backlog`, is enqueued, marked if need be. One that is not must be
    /// dropped.
    pub fn admits<P: Packet>(
        &mut self,
        params: &Params,
        stats: &mut Stats,
        random: &mut Stream,
        packet: &mut P,
        backlog: Backlog,
        out: &mut dyn Outlet<P>,
    ) -> bool {
        if !self.unlucky(params, random, packet.size(), backlog) {
            return true;
        }
        let marked = mark(self.signal(params), packet, out);
        stats.marked += u64::from(marked);
        stats.dropped += u64::from(!marked);
        marked
    }

    /// Whether an unlucky packet that can be marked is marked.
    fn signal(&self, params: &Params) -> Signal {
        if self.probability() < params.most_marked { params.signal } else { Signal::Drop }
    }

    /// A packet that was queued for `delay` has left, and the queue is empty or not.
    pub fn departed(&mut self, delay: Span, is_empty: bool) {
        self.delay = if is_empty { Span::ZERO } else { delay };
    }

    /// One update (RFC 8033, sections 4.2, 4.4 and 5.5). Returns whether it changed the state.
    fn update(&mut self, params: &Params) -> bool {
        let p = self.probability;
        let burst = self.burst;
        let delay = self.delay_before;
        // In 1/16 per second times nanoseconds; times ONE / (16 * 10^9) below.
        let error = i64::from(params.alpha) * difference(self.delay, params.target)
            + i64::from(params.beta) * difference(self.delay, self.delay_before);
        let step = mul_div(error.unsigned_abs(), ONE / 16, 1_000_000_000 * divisor(p));
        let mut next = p.saturating_sub(step);
        if error > 0 {
            // At most 2 % per update when the probability is high.
            let step = if p >= ONE / 10 { step.min(ONE / 50) } else { step };
            next = p.saturating_add(step).min(ONE);
        }
        if self.delay.is_zero() && self.delay_before.is_zero() {
            next = next / 50 * 49;
        }
        self.probability = next;
        self.burst = self.burst.saturating_sub(params.update);
        let half = params.target.as_nanos() / 2;
        if self.probability == 0 && self.delay.as_nanos() < half && self.delay_before.as_nanos() < half {
            self.burst = params.burst;
        }
        self.delay_before = self.delay;
        self.probability != p || self.burst != burst || self.delay_before != delay
    }
}

/// The largest difference of delays that an update counts, 26 days: so that the products fit 64 bits.
const MOST: u64 = 1 << 51;

/// `a - b` in nanoseconds, from `-MOST` to `MOST`.
fn difference(a: Span, b: Span) -> i64 {
    if a >= b {
        a.saturating_sub(b).as_nanos().min(MOST) as i64
    } else {
        0 - b.saturating_sub(a).as_nanos().min(MOST) as i64
    }
}

/// By how much smaller a step is while the probability is `p` (RFC 8033, section 4.2).
fn divisor(p: u64) -> u64 {
    if p < ONE / 1_000_000 {
        2_048
    } else if p < ONE / 100_000 {
        512
    } else if p < ONE / 10_000 {
        128
    } else if p < ONE / 1_000 {
        32
    } else if p < ONE / 100 {
        8
    } else if p < ONE / 10 {
        2
    } else {
        1
    }
}

/// PIE. See the [module](self).
#[derive(Clone, Debug)]
pub struct Pie<P> {
    params: Params,
    state: State,
    stats: Stats,
    random: Stream,
    store: Store<P>,
    queue: Queue,
    latest: Instant,
}

impl<P: Packet> Pie<P> {
    /// Returns an empty queue that draws from the random stream `name` under `seed`.
    ///
    /// # Errors
    /// As [`Params::validate`].
    pub fn new(params: Params, seed: u64, name: &str) -> Result<Self, ParamError> {
        Self::drawing_from(params, Stream::named(seed, name))
    }
    /// Returns an empty queue that draws from `random`.
    ///
    /// # Errors
    /// As [`Params::validate`].
    pub fn drawing_from(params: Params, random: Stream) -> Result<Self, ParamError> {
        let params = params.validate()?;
        Ok(Self {
            state: State::new(&params),
            stats: Stats::default(),
            random,
            store: Store::default(),
            queue: Queue::default(),
            latest: Instant::ZERO,
            params,
        })
    }
    /// Returns the counts since the start.
    pub fn stats(&self) -> &Stats {
        &self.stats
    }
    /// Returns the present drop probability.
    pub fn probability(&self) -> Probability {
        self.state.probability()
    }

    fn catch_up(&mut self, now: Instant) {
        self.latest = self.latest.max(now);
        self.state.catch_up(&self.params, &mut self.stats, self.latest);
    }
}

impl<P: Packet> Qdisc<P> for Pie<P> {
    fn enqueue(&mut self, now: Instant, mut packet: P, out: &mut dyn Outlet<P>) -> Queued {
        self.catch_up(now);
        if !self.params.limit.admits(self.queue.backlog(), packet.size()) {
            return out.refused(packet, DropReason::QueueLimit);
        }
        let (params, backlog) = (&self.params, self.queue.backlog());
        if !self.state.admits(params, &mut self.stats, &mut self.random, &mut packet, backlog, out) {
            return out.refused(packet, DropReason::Early);
        }
        self.store.push(&mut self.queue, packet, self.latest);
        Queued::default()
    }

    fn dequeue(&mut self, now: Instant, _out: &mut dyn Outlet<P>) -> Option<P> {
        self.catch_up(now);
        let (packet, at) = self.store.pop(&mut self.queue)?;
        self.state.departed(self.latest.since(at), self.queue.is_empty());
        Some(packet)
    }

    fn deadline(&self, _now: Instant) -> Deadline {
        if self.queue.is_empty() { Deadline::Idle } else { Deadline::Now }
    }

    fn backlog(&self) -> Backlog {
        self.queue.backlog()
    }

    fn probability(&self) -> Option<Probability> {
        Some(self.state.probability())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::FlowKey;
    use alloc::vec::Vec;

    #[derive(Clone, Copy, Debug, PartialEq)]
    struct P(u64);
    impl Packet for P {
        fn size(&self) -> Bytes {
            Bytes::new(1_000)
        }
        fn flow(&self) -> FlowKey {
            FlowKey::default()
        }
    }

    fn state(probability: f64, delay_ms: u64, before_ms: u64) -> f64 {
        let mut state = State {
            probability: (probability * ONE as f64) as u64,
            delay: Span::from_millis(delay_ms),
            delay_before: Span::from_millis(before_ms),
            burst: Span::ZERO,
            gathered: 0,
            next_update: Instant::ZERO,
        };
        state.update(&Params::default());
        state.probability as f64 / ONE as f64
    }

    #[test]
    fn one_update_by_hand() {
        let near = |ours: f64, theirs: f64| assert!((ours - theirs).abs() < 1e-12, "{ours} {theirs}");
        // 30 ms after 20 ms: 0.125 * 0.015 + 1.25 * 0.010 = 0.001875 + 0.0125 = 0.014375. At 5 % it counts half.
        near(state(0.05, 30, 20), 0.05 + 0.014_375 / 2.0);
        near(state(0.5, 30, 20), 0.5 + 0.014_375);
        near(state(0.005, 30, 20), 0.005 + 0.014_375 / 8.0);
        near(state(0.0005, 30, 20), 0.0005 + 0.014_375 / 32.0);
        near(state(0.0, 30, 20), 0.014_375 / 2048.0);
        // 250 ms at once: 0.125 * 0.235 + 1.25 * 0.25 = 0.341875, but no more than 0.02 above 10 %.
        near(state(0.3, 250, 0), 0.32);
        // Falling: 0.125 * -0.005 + 1.25 * -0.010 = -0.013125.
        near(state(0.2, 10, 20), 0.2 - 0.013_125);
        // At rest: 0.125 * -0.015 = -0.001875, then 2 % less.
        near(state(0.2, 0, 0), (0.2 - 0.001_875) * 0.98);
    }

    #[test]
    fn holds_the_delay_at_its_target_under_overload() {
        // 10 Mbit/s offered to 8 Mbit/s, 1000 B: an arrival per 0.8 ms, a departure per 1 ms, no reaction. A fifth
        // must be dropped, and the delay must stay at 15 ms once the controller has settled.
        let mut queue = Pie::<P>::new(Params::default(), 1, "test").unwrap();
        let mut out = Vec::new();
        let (mut delays, mut late_drops) = (Vec::new(), 0);
        for tick in 0..600_000_u64 {
            let now = Instant::ZERO + Span::from_micros(tick * 100);
            if tick % 8 == 0 {
                queue.enqueue(now, P(tick), &mut out);
            }
            if tick % 10 == 0
                && let Some(packet) = queue.dequeue(now, &mut out)
                && tick > 300_000
            {
                delays.push((tick - packet.0) as f64 * 0.1);
            }
            late_drops += if tick > 300_000 { out.len() } else { 0 };
            out.clear();
        }
        let mean = delays.iter().sum::<f64>() / delays.len() as f64;
        assert!((13.0..17.0).contains(&mean), "{mean} ms");
        let share = late_drops as f64 / 37_500.0;
        assert!((0.195..0.205).contains(&share), "{share}");
    }

    #[test]
    fn a_burst_after_rest_passes() {
        let mut queue = Pie::<P>::new(Params::default(), 1, "test").unwrap();
        let mut out = Vec::new();
        // Ten times the rate for 100 ms: nothing is dropped although 900 packets pile up.
        for tick in 0..1_000_u64 {
            let now = Instant::ZERO + Span::from_secs(1) + Span::from_micros(tick * 100);
            queue.enqueue(now, P(tick), &mut out);
            if tick % 10 == 0 {
                queue.dequeue(now, &mut out);
            }
        }
        assert!(out.is_empty(), "{}", out.len());
        assert!(queue.state.next_update > Instant::ZERO + Span::from_millis(1_099), "no update is owed");
    }

    #[test]
    fn updates_made_up_for_are_updates_made_in_time() {
        let run = |poke_ms: u64| {
            let mut queue = Pie::<P>::new(Params::default(), 1, "test").unwrap();
            let mut out = Vec::new();
            for ms in 0..4_000_u64 {
                let now = Instant::ZERO + Span::from_millis(ms);
                if ms < 2_000 {
                    queue.enqueue(now, P(ms), &mut out);
                    queue.enqueue(now, P(ms), &mut out);
                    queue.dequeue(now, &mut out);
                } else if ms % poke_ms == 0 {
                    queue.catch_up(now);
                }
            }
            queue.catch_up(Instant::ZERO + Span::from_secs(5));
            queue.state
        };
        assert_eq!(run(1), run(1_000));
    }
}
