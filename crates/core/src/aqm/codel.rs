//! CoDel: controlled delay.
//!
//! *Law*: no packet is dropped while queueing delays are below `target` or at most `mtu` bytes remain. Once the delay
//! was at least `target` for a whole `interval`, one packet is dropped (or marked). The n-th drop of the episode
//! follows the one before by `interval / sqrt(n)`, until a packet was queued for less. Where `longest` is set, a packet
//! that was queued for longer is dropped once the delay was at least `target` for two intervals.
//! *Source*: RFC 8289, section 5 (the annotated pseudocode); RFC 3168 for ECN.
//! *Units*: `target` and `interval` in nanoseconds; the defaults are RFC 8289's 5 ms and 100 ms.
//! *Example*: below.
//! *Cost*: O(1) per call, one division and one integer square root per drop; no allocation after warm-up.
//! *Notes*: one call drops at most 32 packets; further drops that the control law requires are made by the next
//! calls. An interval is at most 4 s, so that its square fits 64 bits.
//! *Departures from the source, and why*: the control law is the exact `floor(sqrt(interval^2 / count))`, not the
//! Newton step on a 16-bit reciprocal that kernels use: drops are rare, and results must be equal on every machine.
//! The bound of drops per call is required by law 4. A marked packet leaves, and counts as the drop would have.
//! `longest` is for senders that ignore drops: the law drops more often by the square root of the time, so that a sender
//! of five times the rate fills any queue for seconds. A sender that responds to drops has emptied the queue within two
//! intervals.
//! *See also*: `kernel/`, where the control law is translated to C; [`fq_codel`](crate::fq_codel), one CoDel for each flow; [`pie`](crate::pie), which decides on arrival;
//! [`cake`](crate::cake), whose COBALT adds BLUE.
//!
//! ```
//! use tidegate_core::{codel::{CoDel, Params}, qdisc::{Discard, Qdisc}, *};
//! # #[derive(Debug)] struct P(u64);
//! # impl Packet for P { fn size(&self) -> Bytes { Bytes::new(self.0) } fn flow(&self) -> FlowKey { FlowKey::default() } }
//! let mut queue = CoDel::new(Params::default())?;
//! queue.enqueue(Instant::ZERO, P(1500), &mut Discard);
//! assert!(queue.dequeue(Instant::ZERO + Span::from_millis(50), &mut Discard).is_some(), "one late packet is not dropped");
//! # Ok::<(), ParamError>(())
//! ```

use crate::fifo::Limit;
use crate::packet::Packet;
use crate::params::ParamError;
use crate::qdisc::{Backlog, Deadline, DropReason, Event, Outlet, Qdisc, Queued};
use crate::queues::{Queue, Store};
use crate::red::Signal;
use tidegate_units::{Bytes, Instant, Span};

/// The most packets that one call drops.
pub const MOST_DROPS_A_CALL: u32 = 32;

/// The control law's parameters.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Params {
    /// The standing delay that is tolerated.
    pub target: Span,
    /// How long the delay must exceed the target before the first drop; about the largest usual round-trip time.
    pub interval: Span,
    /// Nothing is dropped while at most this many bytes remain queued.
    pub mtu: Bytes,
    /// Whether to mark or to drop.
    pub signal: Signal,
    /// The limit of the queue.
    pub limit: Limit,
    /// The longest delay of a packet while the queue does not respond to drops; `None` for whatever the law leads to.
    pub longest: Option<Span>,
}

impl Default for Params {
    /// RFC 8289's 5 ms and 100 ms, an Ethernet MTU, ECN, and 1,000 packets.
    fn default() -> Self {
        Self {
            target: Span::from_millis(5),
            interval: Span::from_millis(100),
            mtu: Bytes::new(1_514),
            signal: Signal::Mark,
            limit: Limit::packets(1_000),
            longest: None,
        }
    }
}

impl Params {
    /// Checks the ranges.
    ///
    /// # Errors
    /// When the interval is zero or above 4 s, or the target is not below it, or the longest delay is not above the target.
    pub fn validate(self) -> Result<Self, ParamError> {
        if self.interval.is_zero() || self.interval > Span::from_secs(4) {
            return Err(ParamError::new("interval", "must be above 0 and at most 4s, for example 100ms"));
        }
        if self.target >= self.interval {
            return Err(ParamError::new("target", "must be below the interval; 5 to 10 % of it is usual"));
        }
        if self.longest.is_some_and(|longest| longest <= self.target) {
            return Err(ParamError::new("longest", "must be above the target; twice the target is usual"));
        }
        Ok(self)
    }

    /// The time between two drops after `count` drops: `interval / sqrt(count)`, rounded down.
    pub fn spacing(&self, count: u32) -> Span {
        let interval = self.interval.as_nanos();
        Span::from_nanos((interval * interval / u64::from(count.max(1))).isqrt())
    }
}

/// The state of the control law of one queue.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct State {
    first_above: Option<Instant>,
    drop_next: Instant,
    count: u32,
    last_count: u32,
    dropping: bool,
}

/// Counts of a CoDel queue since its start.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Stats {
    /// Packets dropped by the control law.
    pub dropped: u64,
    /// Packets marked instead.
    pub marked: u64,
    /// Times the dropping state was entered.
    pub episodes: u64,
}

impl State {
    /// Whether the control law is in the dropping state.
    pub fn is_dropping(&self) -> bool {
        self.dropping
    }
    /// Drops of the current or last episode.
    pub fn count(&self) -> u32 {
        self.count
    }

    /// Updates `first_above` for a packet that was queued for `waited` and leaves `left` bytes behind. Returns whether it
    /// may be dropped (`dodequeue` of the RFC).
    fn observe(&mut self, params: &Params, now: Instant, waited: Span, left: Bytes) -> bool {
        if waited < params.target || left <= params.mtu {
            self.first_above = None;
            return false;
        }
        match self.first_above {
            None => {
                self.first_above = Some(now + params.interval);
                false
            }
            Some(at) => now >= at,
        }
    }

    /// Whether a packet that was queued for `waited` was queued for too long by a sender that ignores drops.
    fn is_overdue(&self, params: &Params, now: Instant, waited: Span) -> bool {
        let Some(longest) = params.longest else { return false };
        // `first_above` is an interval after the delay rose above the target.
        let Some(above) = self.first_above else { return false };
        waited > longest && now >= above + params.interval
    }

    /// Decides on the first packet of the queue, which was queued for `waited` and leaves `left` bytes behind. A call
    /// of `dequeue` asks with the same `call` until a packet leaves.
    pub fn decide(
        &mut self,
        params: &Params,
        stats: &mut Stats,
        call: &mut Call,
        now: Instant,
        waited: Span,
        left: Bytes,
    ) -> Action {
        let may_drop = self.observe(params, now, waited, left);
        match call.phase {
            Phase::First => {
                if call.drops < MOST_DROPS_A_CALL / 2 && self.is_overdue(params, now, waited) {
                    call.drops += 1;
                    return Action::Drop;
                }
                if !self.dropping {
                    if !may_drop {
                        return Action::Send;
                    }
                    self.enter(params, now);
                    stats.episodes += 1;
                    call.phase = Phase::Last;
                    return Action::Signal;
                }
                call.phase = Phase::Episode;
            }
            Phase::Episode => {
                if may_drop {
                    self.drop_next += params.spacing(self.count);
                }
            }
            Phase::Last => return Action::Send,
        }
        self.dropping = may_drop;
        if !may_drop || now < self.drop_next || call.drops >= MOST_DROPS_A_CALL {
            return Action::Send;
        }
        call.drops += 1;
        self.count = self.count.saturating_add(1);
        Action::Signal
    }

    /// Enters the dropping state.
    fn enter(&mut self, params: &Params, now: Instant) {
        self.dropping = true;
        // A new episode soon after the last one resumes its drop rate instead of starting from 1.
        let delta = self.count.saturating_sub(self.last_count);
        let recent = now.since(self.drop_next) < params.interval.saturating_mul(16);
        self.count = if delta > 1 && recent { delta } else { 1 };
        self.last_count = self.count;
        self.drop_next = now + params.spacing(self.count);
    }

    /// The packet of [`Action::Signal`] was marked, and leaves.
    pub fn marked(&mut self, params: &Params, call: &Call) {
        if call.phase == Phase::Episode {
            self.drop_next += params.spacing(self.count);
        }
    }

    /// The queue is empty, before a packet left.
    pub fn ran_empty(&mut self, call: &Call) {
        self.first_above = None;
        if call.phase != Phase::Last {
            self.dropping = false;
        }
    }

    /// Returns the packet that leaves `queue` at `now`, and when it arrived; dropped packets go to `out`.
    pub fn dequeue<P: Packet>(
        &mut self,
        params: &Params,
        stats: &mut Stats,
        store: &mut Store<P>,
        queue: &mut Queue,
        now: Instant,
        out: &mut dyn Outlet<P>,
    ) -> Option<(P, Instant)> {
        let mut call = Call::default();
        loop {
            let Some((mut packet, at)) = store.pop(queue) else {
                self.ran_empty(&call);
                return None;
            };
            let action = self.decide(params, stats, &mut call, now, now.since(at), queue.backlog().bytes);
            if action == Action::Send {
                return Some((packet, at));
            }
            if action == Action::Signal && mark(params.signal, &mut packet, out) {
                self.marked(params, &call);
                stats.marked += 1;
                return Some((packet, at));
            }
            stats.dropped += 1;
            out.dropped(packet, DropReason::Early);
        }
    }
}

/// The decision about the first packet of a queue.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Action {
    /// It leaves.
    Send,
    /// It is marked and leaves ([`State::marked`]), or is dropped where it cannot be marked.
    Signal,
    /// It is dropped.
    Drop,
}

/// The progress of one call of `dequeue`.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Call {
    /// Packets that the control law dropped in this call, but for the first of an episode.
    drops: u32,
    phase: Phase,
}

/// How the next packet of a call is decided on.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
enum Phase {
    /// By the state that the last call left.
    #[default]
    First,
    /// By the control law: the call found the dropping state.
    Episode,
    /// It leaves: the call entered the dropping state.
    Last,
}

/// Marks the packet if marking is enabled and the packet is ECN-capable, and reports the mark.
pub(crate) fn mark<P: Packet>(signal: Signal, packet: &mut P, out: &mut dyn Outlet<P>) -> bool {
    let marked = signal == Signal::Mark && packet.mark_ce();
    if marked {
        out.event(Event::Marked { flow: packet.flow().flow });
    }
    marked
}

/// One queue under CoDel. See the [module](self).
#[derive(Clone, Debug)]
pub struct CoDel<P> {
    params: Params,
    state: State,
    stats: Stats,
    store: Store<P>,
    queue: Queue,
    latest: Instant,
}

impl<P: Packet> CoDel<P> {
    /// Returns an empty queue.
    ///
    /// # Errors
    /// As [`Params::validate`].
    pub fn new(params: Params) -> Result<Self, ParamError> {
        Ok(Self {
            params: params.validate()?,
            state: State::default(),
            stats: Stats::default(),
            store: Store::default(),
            queue: Queue::default(),
            latest: Instant::ZERO,
        })
    }
    /// Returns the counts since the start.
    pub fn stats(&self) -> &Stats {
        &self.stats
    }
    /// The state of the control law.
    pub fn state(&self) -> &State {
        &self.state
    }
}

impl<P: Packet> Qdisc<P> for CoDel<P> {
    fn enqueue(&mut self, now: Instant, packet: P, out: &mut dyn Outlet<P>) -> Queued {
        self.latest = self.latest.max(now);
        if !self.params.limit.admits(self.queue.backlog(), packet.size()) {
            return out.refused(packet, DropReason::QueueLimit);
        }
        self.store.push(&mut self.queue, packet, self.latest);
        Queued::default()
    }

    fn dequeue(&mut self, now: Instant, out: &mut dyn Outlet<P>) -> Option<P> {
        self.latest = self.latest.max(now);
        let (state, stats) = (&mut self.state, &mut self.stats);
        let left = state.dequeue(&self.params, stats, &mut self.store, &mut self.queue, self.latest, out);
        left.map(|(packet, _)| packet)
    }

    fn deadline(&self, _now: Instant) -> Deadline {
        if self.queue.is_empty() { Deadline::Idle } else { Deadline::Now }
    }

    fn backlog(&self) -> Backlog {
        self.queue.backlog()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::packet::{Ecn, FlowKey};
    use alloc::vec::Vec;

    #[derive(Clone, Copy, Debug, PartialEq)]
    struct P(u64, Ecn);
    impl Packet for P {
        fn size(&self) -> Bytes {
            Bytes::new(1_000)
        }
        fn flow(&self) -> FlowKey {
            FlowKey::default()
        }
        fn mark_ce(&mut self) -> bool {
            let capable = self.1.is_capable();
            if capable {
                self.1 = Ecn::Ce;
            }
            capable
        }
    }

    /// Five times the rate for ten seconds, of a sender that ignores drops: one packet leaves each 10 ms.
    #[test]
    fn a_sender_that_heeds_no_drop_does_not_wait_for_longer() {
        let longest_wait = |longest| {
            let target = Span::from_millis(60);
            let interval = Span::from_millis(300);
            let params = Params { target, interval, longest, ..Params::default() };
            let mut queue = CoDel::new(params).unwrap();
            let mut worst = Span::ZERO;
            for ms in 0..10_000 {
                let now = Instant::ZERO + Span::from_millis(ms);
                if ms.is_multiple_of(2) {
                    queue.enqueue(now, P(ms, Ecn::NotEct), &mut crate::qdisc::Discard);
                }
                if ms.is_multiple_of(10) {
                    let packet = queue.dequeue(now, &mut crate::qdisc::Discard).expect("the queue is not empty");
                    let waited = Span::from_millis(ms - packet.0);
                    // It takes two intervals to know the sender, in which the queue grows to 2.4 s; they are dropped by
                    // sixteen packets a call.
                    worst = if ms > 1_500 { worst.max(waited) } else { worst };
                }
            }
            worst
        };
        let without = longest_wait(None);
        let with = longest_wait(Some(Span::from_millis(120)));
        assert!(without > Span::from_secs(1) && with <= Span::from_millis(130), "{without} and {with}");
        let target = Params { longest: Some(Span::from_millis(5)), ..Params::default() };
        assert!(target.validate().is_err(), "not above the target");
    }

    /// 500 packets at t = 0, one `dequeue` per millisecond from 10 ms on. Returns the milliseconds of the drops, and
    /// those at which a marked packet left.
    fn overload(ecn: Ecn) -> (Vec<u64>, Vec<u64>) {
        let mut queue = CoDel::new(Params::default()).unwrap();
        for n in 0..500 {
            queue.enqueue(Instant::ZERO, P(n, ecn), &mut crate::qdisc::Discard);
        }
        let (mut dropped, mut marked) = (Vec::new(), Vec::new());
        for ms in 10..450 {
            let mut out = Vec::new();
            let packet = queue.dequeue(Instant::ZERO + Span::from_millis(ms), &mut out).unwrap();
            dropped.extend(out.iter().map(|_| ms));
            if packet.1 == Ecn::Ce {
                marked.push(ms);
            }
        }
        (dropped, marked)
    }

    #[test]
    fn drops_follow_the_control_law() {
        // The delay is seen above 5 ms at 10 ms, and must last for 100 ms: the first drop at 110. Then count = 1:
        // 110 + 100 = 210; count = 2: + 70.71 = 280.71; 3: + 57.74 = 338.45; 4: + 50 = 388.45; 5: + 44.72 = 433.17;
        // each seen at the next whole millisecond.
        let expected = [110, 210, 281, 339, 389, 434];
        assert_eq!(overload(Ecn::NotEct), (expected.into(), Vec::new()));
        // A mark takes the place of the drop.
        assert_eq!(overload(Ecn::Ect0), (Vec::new(), expected.into()));
    }

    #[test]
    fn a_new_episode_soon_after_starts_where_the_last_one_ended() {
        let params = Params::default();
        let mut queue = CoDel::new(params).unwrap();
        let feed = |queue: &mut CoDel<P>, ms, n| {
            for n in 0..n {
                queue.enqueue(Instant::ZERO + Span::from_millis(ms), P(n, Ecn::NotEct), &mut crate::qdisc::Discard);
            }
        };
        feed(&mut queue, 0, 460);
        for ms in 10..470 {
            queue.dequeue(Instant::ZERO + Span::from_millis(ms), &mut crate::qdisc::Discard);
        }
        // Six drops were made by 434 ms, the queue ran empty before 470 ms, and the episode began with count 1.
        assert_eq!((queue.state().count(), queue.state().is_dropping()), (6, false));
        feed(&mut queue, 470, 300);
        for ms in 480..=580 {
            queue.dequeue(Instant::ZERO + Span::from_millis(ms), &mut crate::qdisc::Discard);
        }
        // 6 - 1 = 5, not 1: within 16 intervals.
        assert_eq!((queue.state().count(), queue.stats().episodes), (5, 2));
    }

    #[test]
    fn the_spacing_is_the_floor_of_the_root() {
        let params = Params::default();
        // 100 ms / sqrt(2) = 70.710678.. ms; / sqrt(3) = 57.735026..; / sqrt(1,000,000) = 0.1 ms.
        assert_eq!(params.spacing(2).as_nanos(), 70_710_678);
        assert_eq!(params.spacing(3).as_nanos(), 57_735_026);
        assert_eq!(params.spacing(1_000_000).as_nanos(), 100_000);
        assert_eq!(params.spacing(0), params.interval);
    }

    #[test]
    fn wrong_parameters_name_the_field() {
        let field = |params: Params| params.validate().unwrap_err().field;
        assert_eq!(field(Params { interval: Span::from_secs(5), ..Params::default() }), "interval");
        assert_eq!(field(Params { target: Span::from_millis(100), ..Params::default() }), "target");
    }
}
