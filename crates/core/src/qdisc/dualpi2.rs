//! DualPI2: two coupled queues, one with a low delay for scalable senders and one for all others.
//!
//! *Law*: packets of ECT(1) and CE wait in L, others in C. Every `update` the base probability p' changes by `alpha * (delay -
//! target) + beta * (delay - delay before)`. C signals (marks or drops) by p' squared, L marks by the larger of k p' and its
//! own step. So a scalable flow, whose rate follows 1/p, gets about the rate of a classic one, whose rate follows 1/sqrt(p).
//! When k p' reaches 1, both queues drop by p' squared. No code point is ever changed but to CE.
//! *Source*: RFC 9332, sections 2.4 and 2.5 and appendix A (`dualpi2_enqueue`, `dualpi2_dequeue`, `dualpi2_update`, `laqm`,
//! `recur`, both schedulers); RFC 9331 for the identifier; RFC 9956 for the code point NQB; [`protection`].
//! *Units*: times in nanoseconds; alpha and beta are in 1/1000 per second; probabilities in 10⁻¹²: p' and k p' are exact,
//! its square and the ramp are rounded up.
//! *Example*: below.
//! *Cost*: O(1) per call and about 10 ns for each update that is due, at most 1,024 per call; no timer and no draw of random
//! numbers. Protection has 9 kB, whatever the number of flows.
//! *Notes*: one call drops at most 32 packets. Missed updates are made up for by the next call, at the instants at which they
//! were due. After 1,024 in a row (16 s without a call) the rest is skipped, unless the result is known. A flow whose packets
//! have different code points (ECT(0), some marked upstream) is in both queues and may be reordered (RFC 9331, section 5.1).
//! With the time-shifted FIFO, C has no share of its own: L precedes until C's first packet is older by `shift`.
//! *Departures from the source, and why*: the delay of the controller is that of the oldest packet in both queues, not in C
//! alone, as in Linux: L is longer only where senders ignore its marks, and then has to be controlled too. `recur` signals when its
//! count reaches 1, not above: every packet beyond the step is marked, the first included. Marks and drops of L are counted
//! apart. Packets under sanction are marked by k p' if they are of ECT(1), since their sender responds to that. Not-ECT and ECT(0) packets that are in L by their code point are dropped under overload and not
//! signalled otherwise: marks at L's rate would starve a sender that halves its rate for each. An L packet that leaves fewer
//! than two behind it is not marked by the step (appendix A.1 has one packet): two packets' time on a slow line.
//! *See also*: [`codel`](crate::codel) and [`pie`](crate::pie), one queue each; [`fq_codel`](crate::fq_codel), whose queues of
//! one flow need no coupling and have the [`step`](crate::step) alone.
//!
//! ```
//! use tidegate_core::{dualpi2::{DualPi2, Params}, qdisc::{Discard, Qdisc}, *};
//! # #[derive(Debug)] struct P(u64, Ecn);
//! # impl Packet for P {
//! #     fn size(&self) -> Bytes { Bytes::new(1500) }
//! #     fn flow(&self) -> FlowKey { FlowKey::numbered(self.0) }
//! #     fn ecn(&self) -> Ecn { self.1 }
//! # }
//! let mut queue = DualPi2::new(Params::default())?;
//! for (flow, ecn) in [(1, Ecn::NotEct), (2, Ecn::Ect0), (3, Ecn::Ect1)] {
//!     queue.enqueue(Instant::ZERO, P(flow, ecn), &mut Discard);
//! }
//! let order: Vec<_> = (0..3).map(|_| queue.dequeue(Instant::ZERO, &mut Discard).unwrap().0).collect();
//! assert_eq!(order, [3, 1, 2]);
//! # Ok::<(), ParamError>(())
//! ```

pub mod decider;
pub mod protection;
#[cfg(test)]
mod tests;

use alloc::boxed::Box;
use alloc::vec::Vec;

use crate::codel::{Action, MOST_DROPS_A_CALL, mark};
use crate::fifo::Limit;
use crate::packet::{ClassId, Dscp, Ecn, Packet};
use crate::params::ParamError;
use crate::probability::Probability;
use crate::qdisc::{Backlog, Deadline, DropReason, Event, Outlet, Qdisc, Queued};
use crate::queues::{Queue, Store};
use crate::red::Signal;
use crate::step::{ONE, Step};
use decider::{Head, State};
use protection::Protection;
use tidegate_units::{Instant, Span};

/// Which queue sends when both have packets.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Scheduler {
    /// The packet that arrived first, where those of L count as `shift` older than they are.
    TimeShifted {
        /// How much older.
        shift: Span,
    },
    /// C sends one part of `parts` of the bytes, L the rest.
    Weighted {
        /// At least 2.
        parts: u32,
    },
}

/// Whether packets with the code point NQB wait in L, whatever their ECN field.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Nqb {
    /// They wait in L.
    #[default]
    LowLatency,
    /// The ECN field alone decides.
    ByEcn,
}

/// Parameters.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Params {
    /// The delay of C at which the controller aims.
    pub target: Span,
    /// The interval between updates of the base probability.
    pub update: Span,
    /// The weight of the distance from the target, in 1/1000 per second.
    pub alpha: u32,
    /// The weight of the trend, in 1/1000 per second.
    pub beta: u32,
    /// The coupling factor k.
    pub coupling: u32,
    /// The native AQM of L.
    pub step: Step,
    /// Which queue sends.
    pub scheduler: Scheduler,
    /// Where packets of NQB wait.
    pub nqb: Nqb,
    /// Queue protection, if it is on.
    pub protection: Option<protection::Params>,
    /// The limit of both queues together.
    pub limit: Limit,
}

impl Default for Params {
    /// RFC 9332, appendix A, for an interval of 16 ms: alpha 0.16, beta 3.2, k = 2; a ramp from 0.8 to 1.2 ms; C sends 1/16;
    /// no protection; 1 MB.
    fn default() -> Self {
        Self {
            target: Span::from_millis(15),
            update: Span::from_millis(16),
            alpha: 160,
            beta: 3_200,
            coupling: 2,
            step: Step { from: Span::from_micros(800), full: Span::from_micros(1_200) },
            scheduler: Scheduler::Weighted { parts: 16 },
            nqb: Nqb::LowLatency,
            protection: None,
            limit: Limit::bytes(tidegate_units::Bytes::new(1_000_000)),
        }
    }
}

impl Params {
    /// Checks the ranges.
    ///
    /// # Errors
    /// A target or an interval of zero, weights above 100 per second, a coupling outside 1 to 16, a share of C outside
    /// 1/1000 to 1/2, and the errors of [`Step::validate`] and [`protection::Params::validate`].
    pub fn validate(self) -> Result<Self, ParamError> {
        if self.target.is_zero() {
            return Err(ParamError::new("target", "must be above 0, for example 15ms"));
        }
        if self.update.is_zero() {
            return Err(ParamError::new("update", "must be above 0, for example 16ms"));
        }
        if self.alpha > 100_000 {
            return Err(ParamError::new("alpha", "must be at most 100 per second; the RFC has 0.16"));
        }
        if self.beta > 100_000 {
            return Err(ParamError::new("beta", "must be at most 100 per second; the RFC has 3.2"));
        }
        if !(1..=16).contains(&self.coupling) {
            return Err(ParamError::new("coupling", "must be 1 to 16; the RFC recommends 2"));
        }
        if let Scheduler::Weighted { parts } = self.scheduler
            && !(2..=1_000).contains(&parts)
        {
            return Err(ParamError::new("classic_parts", "must be 2 to 1000; 16 is usual"));
        }
        self.step.validate()?;
        if let Some(protection) = self.protection {
            protection.validate()?;
        }
        Ok(self)
    }

    /// Whether `packet` waits in L unless its flow is under sanction.
    fn is_low_latency<P: Packet>(&self, packet: &P) -> bool {
        is_scalable(packet.ecn()) || self.nqb == Nqb::LowLatency && packet.dscp() == Dscp::NQB
    }
}

/// Where a packet waits.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Place {
    Low,
    Classic,
    Sanctioned,
    /// Among the packets under sanction, before which the score of its flow has aged.
    Returning,
}

impl Place {
    /// The queue, of L, C and S.
    fn queue(self) -> usize {
        match self {
            Self::Low => 0,
            Self::Classic => 1,
            Self::Sanctioned | Self::Returning => 2,
        }
    }
}

/// Whether the sender of a packet with this field is taken for scalable (RFC 9331, section 5.1).
fn is_scalable(ecn: Ecn) -> bool {
    matches!(ecn, Ecn::Ect1 | Ecn::Ce)
}

/// Counts of one of the queues since the start.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Stats {
    /// Packets that were put into it.
    pub enqueued: u64,
    /// Packets that left it and were sent.
    pub sent: u64,
    /// The sum of their waits.
    pub waited: Span,
    /// Packets of these that were marked.
    pub marked: u64,
    /// Packets that left it and were dropped by a probability.
    pub dropped: u64,
}

impl Stats {
    /// Adds the counts of another queue.
    pub fn add(&mut self, other: &Self) {
        self.enqueued += other.enqueued;
        self.sent += other.sent;
        self.waited += other.waited;
        self.marked += other.marked;
        self.dropped += other.dropped;
    }
    /// Counts a packet that leaves.
    fn left(&mut self, waited: Span) {
        self.sent += 1;
        self.waited += waited;
    }
}

/// One of the queues at some time.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct QueueState {
    /// The packets that wait.
    pub backlog: Backlog,
    /// The wait of the oldest of them.
    pub delay: Span,
    /// The counts.
    pub stats: Stats,
}

/// The queues and the controller at some time.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Coupled {
    /// L.
    pub low: QueueState,
    /// C.
    pub classic: QueueState,
    /// S, the packets under sanction.
    pub sanctioned: QueueState,
    /// The coupled probability k p', by which L marks at least.
    pub coupled: Probability,
    /// The probability of C, the square of p'.
    pub squared: Probability,
    /// The keys of flows under sanction: of those that own a bucket, at most 33.
    pub flows: Vec<u64>,
}

impl QueueState {
    /// Adds another queue, as of another part of the same packets; the delay is the larger one.
    fn add(&mut self, other: &Self) {
        self.backlog.merge(other.backlog);
        self.delay = self.delay.max(other.delay);
        self.stats.add(&other.stats);
    }
}

impl Coupled {
    /// The queues without flows under sanction, with the probabilities at p' and its square, in parts of [`ONE`], and the coupling factor k.
    pub fn new(queues: [QueueState; 3], base: u64, squared: u64, coupling: u64) -> Self {
        let [low, classic, sanctioned] = queues;
        let part = |likelihood: u64| Probability::from_ratio(likelihood.min(ONE), ONE).unwrap_or(Probability::ONE);
        let coupled = part(base.saturating_mul(coupling));
        Self { low, classic, sanctioned, coupled, squared: part(squared), flows: Vec::new() }
    }
    /// Adds the queues of another part of the same packets; delays and probabilities are the larger ones.
    pub fn add(&mut self, other: &Self) {
        self.low.add(&other.low);
        self.classic.add(&other.classic);
        self.sanctioned.add(&other.sanctioned);
        self.coupled = self.coupled.max(other.coupled);
        self.squared = self.squared.max(other.squared);
        self.flows.extend_from_slice(&other.flows);
    }
}

/// DualPI2. See the [module](self).
#[derive(Clone, Debug)]
pub struct DualPi2<P> {
    params: Params,
    state: State,
    /// The queues L and C, and the packets under sanction, S.
    stats: [Stats; 3],
    store: Store<P>,
    low: Queue,
    classic: Queue,
    /// The packets under sanction, which would be in L.
    sanctioned: Queue,
    protection: Option<Box<Protection>>,
    latest: Instant,
}

impl<P: Packet> DualPi2<P> {
    /// Returns empty queues.
    ///
    /// # Errors
    /// As [`Params::validate`].
    pub fn new(params: Params) -> Result<Self, ParamError> {
        let params = params.validate()?;
        Ok(Self {
            params,
            state: State::new(&params),
            stats: [Stats::default(); 3],
            store: Store::default(),
            low: Queue::default(),
            classic: Queue::default(),
            sanctioned: Queue::default(),
            protection: params.protection.map(|_| Box::default()),
            latest: Instant::ZERO,
        })
    }
    /// Counts since the start, of L, C and S.
    pub fn stats(&self) -> &[Stats; 3] {
        &self.stats
    }
    /// The controller.
    pub fn state(&self) -> &State {
        &self.state
    }
    /// The packets in L, in C and under sanction.
    pub fn queues(&self) -> [Backlog; 3] {
        [&self.low, &self.classic, &self.sanctioned].map(Queue::backlog)
    }

    fn catch_up(&mut self, now: Instant) {
        self.latest = self.latest.max(now);
        let heads = [&self.low, &self.classic, &self.sanctioned].map(|queue| self.store.arrival(queue));
        self.state.catch_up(&self.params, self.latest, heads.into_iter().flatten().min());
    }

    /// Whether queue protection puts `packet` under sanction, which would be in L.
    fn sanctions(&mut self, packet: &P, out: &mut dyn Outlet<P>) -> bool {
        let (Some(protection), Some(params)) = (&mut self.protection, &self.params.protection) else { return false };
        let delay = self.store.arrival(&self.low).map_or(Span::ZERO, |arrived| self.latest.since(arrived));
        let native = self.params.step.likelihood(delay, self.low.backlog().packets);
        let flow = packet.flow().flow;
        let moved = protection.sanctions(params, self.latest, flow, packet.size(), delay, native);
        if moved && protection.under_sanction(flow) == 1 {
            out.event(Event::Sanctioned { flow, class: packet.class() });
        }
        moved
    }

    /// The first packet of a queue, to the scheduler.
    fn head(&self, queue: &Queue, sanctioned: bool) -> Option<Head> {
        let (packet, arrived) = (self.store.front(queue)?, self.store.arrival(queue)?);
        Some(Head { arrived, size: packet.size(), sanctioned })
    }

    /// The queues whose turns are those of L and of C: S has those of one of them.
    fn sides(&self) -> [(Place, Option<Head>); 2] {
        let low = (Place::Low, self.head(&self.low, false));
        let classic = (Place::Classic, self.head(&self.classic, false));
        let (Some(head), Some(protection)) = (self.head(&self.sanctioned, true), &self.protection) else {
            return [low, classic];
        };
        let sanctioned = (Place::Sanctioned, Some(head));
        let key = self.store.front(&self.sanctioned).map_or(0, |packet| packet.flow().flow);
        if protection.has_aged(key, self.latest) {
            // After L, so that no packet of L waits for those of S.
            return [if low.1.is_some() { low } else { (Place::Returning, sanctioned.1) }, classic];
        }
        let is_first = classic.1.is_none_or(|classic| head.arrived < classic.arrived);
        [low, if is_first { sanctioned } else { classic }]
    }

    /// Takes the packet whose turn it is, with its wait, the place where it was and the decision on it.
    fn take(&mut self, out: &mut dyn Outlet<P>) -> Option<(P, Span, Place, Action)> {
        let [low, classic] = self.sides();
        let from_low = self.state.chooses_low(&self.params, low.1, classic.1);
        let place = if from_low { low.0 } else { classic.0 };
        let queue = match place {
            Place::Low => &mut self.low,
            Place::Classic => &mut self.classic,
            Place::Sanctioned | Place::Returning => &mut self.sanctioned,
        };
        let (packet, arrived) = self.store.pop(queue)?;
        let behind = queue.backlog().packets;
        let other_waits = if from_low { classic.1.is_some() } else { low.1.is_some() };
        self.state.took(&self.params, from_low, packet.size(), other_waits);
        let scalable = is_scalable(packet.ecn());
        if let (Place::Sanctioned | Place::Returning, Some(protection)) = (place, &mut self.protection) {
            let flow = packet.flow().flow;
            protection.released(flow);
            if protection.under_sanction(flow) == 0 {
                out.event(Event::Released { flow, class: packet.class() });
            }
        }
        let waited = self.latest.since(arrived);
        let native = || self.params.step.likelihood(waited, behind);
        let action = match place {
            Place::Low => self.state.low_latency(&self.params, native(), scalable),
            Place::Classic => self.state.classic(&self.params),
            Place::Sanctioned => self.state.sanctioned(&self.params, scalable),
            Place::Returning => self.state.returning(&self.params, native(), scalable),
        };
        Some((packet, waited, place, action))
    }
}

impl<P: Packet> Qdisc<P> for DualPi2<P> {
    fn enqueue(&mut self, now: Instant, packet: P, out: &mut dyn Outlet<P>) -> Queued {
        self.catch_up(now);
        if !self.params.limit.admits(self.backlog(), packet.size()) {
            return out.refused(packet, DropReason::QueueLimit);
        }
        let (queue, place) = if !self.params.is_low_latency(&packet) {
            (&mut self.classic, Place::Classic)
        } else if self.sanctions(&packet, out) {
            (&mut self.sanctioned, Place::Sanctioned)
        } else {
            (&mut self.low, Place::Low)
        };
        self.stats[place.queue()].enqueued += 1;
        self.store.push(queue, packet, self.latest);
        Queued::default()
    }

    fn dequeue(&mut self, now: Instant, out: &mut dyn Outlet<P>) -> Option<P> {
        self.catch_up(now);
        let mut drops = 0;
        loop {
            let (mut packet, waited, place, action) = self.take(out)?;
            let stats = &mut self.stats[place.queue()];
            let is_marked = action == Action::Signal && mark(Signal::Mark, &mut packet, out);
            if is_marked || action == Action::Send || drops == MOST_DROPS_A_CALL {
                stats.marked += u64::from(is_marked);
                stats.left(waited);
                return Some(packet);
            }
            drops += 1;
            stats.dropped += 1;
            out.dropped(packet, DropReason::Early);
        }
    }

    fn deadline(&self, _now: Instant) -> Deadline {
        if self.backlog().is_empty() { Deadline::Idle } else { Deadline::Now }
    }

    fn backlog(&self) -> Backlog {
        let [low, classic, sanctioned] = self.queues();
        Backlog {
            packets: low.packets + classic.packets + sanctioned.packets,
            bytes: low.bytes + classic.bytes + sanctioned.bytes,
        }
    }

    /// The base probability p', of which that of each queue follows.
    fn probability(&self) -> Option<Probability> {
        Probability::from_ratio(self.state.base(), ONE)
    }

    fn coupled(&self, _class: ClassId, now: Instant) -> Option<Coupled> {
        let now = self.latest.max(now);
        let queues = [(&self.low, self.stats[0]), (&self.classic, self.stats[1]), (&self.sanctioned, self.stats[2])];
        let queues = queues.map(|(queue, stats)| QueueState {
            backlog: queue.backlog(),
            delay: self.store.arrival(queue).map_or(Span::ZERO, |arrived| now.since(arrived)),
            stats,
        });
        let flows = self.protection.as_ref().map_or_else(Vec::new, |protection| protection.flows().collect());
        let (base, squared) = (self.state.base(), self.state.squared());
        Some(Coupled { flows, ..Coupled::new(queues, base, squared, self.params.coupling.into()) })
    }
}
