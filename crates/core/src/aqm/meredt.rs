//! MEREDT: Mice and Elephants by RED, table-driven.
//!
//! *Law*: packets of mice leave before those of elephants, except that elephants with queued packets get at least
//! `floor` of the bytes served, less `floor_credit` and one packet, over any interval. A mouse is dropped only when the
//! whole queue is full. An elephant is dropped or marked with ARED's probability times `1 - fairness + fairness * v /
//! V`, where v is the value of its flow and V the running mean of the values of the elephants that arrive.
//! *Source*: "Implementation of AQMs on Linux made Easy" (Braithwaite), section "Mice and Elephants Strategies", and
//! the options of its MEREDT prototype; ARED as in [`ared`].
//! *Units*: bytes, packets, bit/s; the floor and the fairness are fractions.
//! *Example*: below.
//! *Cost*: O(1) a call: two hash look-ups and two draws at the most. No allocation after warm-up.
//! *Notes*: the running mean is over 64 arrivals of elephants. A flow that becomes an elephant keeps its order: its
//! first packets as an elephant wait until its last as a mouse have left. The floor is suspended until then, and its
//! debt is paid afterwards. Records of flows with queued packets are kept, so `records` must exceed the packet limit.
//! Mice that arrive at the full rate of the line delay elephants by at most `(floor_credit + packet) / floor` bytes:
//! with the defaults 0.2 s at 10 Mbit/s, and 36 s at 56 kbit/s, where a smaller credit costs mice more.
//! *Departures from the source, and why*: the floor: the prototype starves elephants when mice fill the link;
//! the rules of [`elephants`] against false mice; ECN. ARED averages the queue of the elephants
//! alone: with that of the whole, many mice would shut the elephants out and the floor would have no effect.
//! *See also*: [`mered`](crate::mered), one threshold; [`ingress`](crate::ingress), the same without a queue;
//! [`fq_codel`](crate::fq_codel), where a flow is favoured while it is sparse, not while it is short.
//!
//! ```
//! use tidegate_core::{meredt::{Meredt, Params}, qdisc::{Discard, Qdisc}, *};
//! # #[derive(Debug)] struct P(u64);
//! # impl Packet for P { fn size(&self) -> Bytes { Bytes::new(1_500) } fn flow(&self) -> FlowKey { FlowKey::numbered(self.0) } }
//! let mut queue = Meredt::new(Params::for_link(Rate::from_mbit(10)), 1, "uplink")?;
//! // 100 packets of 1500 B make flow 1 an elephant (it may have more than 100 kB by 67 packets) ...
//! for n in 0..100 {
//!     queue.enqueue(Instant::ZERO, P(1), &mut Discard);
//!     queue.dequeue(Instant::ZERO, &mut Discard);
//! }
//! // ... so flow 2, a mouse, goes first.
//! queue.enqueue(Instant::ZERO, P(1), &mut Discard);
//! queue.enqueue(Instant::ZERO, P(2), &mut Discard);
//! assert_eq!(queue.dequeue(Instant::ZERO, &mut Discard).unwrap().0, 2);
//! # Ok::<(), ParamError>(())
//! ```

use crate::aqm::Verdict;
use crate::ared::{self, Ared};
use crate::elephants::{self, FlowSizer};
use crate::fifo::Limit;
use crate::packet::{FlowKey, Packet};
use crate::params::ParamError;
use crate::probability::Probability;
use crate::qdisc::{Backlog, Deadline, DropReason, Event, Outlet, Qdisc, Queued};
use crate::queues::{Queue, Store};
use crate::red::{Spacing, Zone};
use tidegate_units::wide::mul_div;
use tidegate_units::{Bytes, Instant, Rate, Span};

/// The default target delay of elephants.
pub(crate) const DELAY: Span = Span::from_millis(80);

/// How much of the service beyond the floor counts later: sixteen packets. Mice may then take at most 240 kB between
/// two packets of an elephant that had the line to itself before: 0.2 s at 10 Mbit/s.
pub(crate) const FLOOR_CREDIT: Bytes = Bytes::new(24_000);

/// Parameters.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Params {
    /// The measure of flows.
    pub elephants: elephants::Params,
    /// How elephants are dropped.
    pub ared: ared::Params,
    /// The most the whole queue holds.
    pub limit: Limit,
    /// The most bytes elephants may hold of it; the rest is kept for mice.
    pub elephant_limit: Bytes,
    /// The least share of the bytes served that elephants get while they have queued packets.
    pub floor: Probability,
    /// Service beyond the floor counts for it later, up to this. Zero: the floor holds from packet to packet, and a
    /// burst of mice waits for elephants that had the line to themselves just before.
    pub floor_credit: Bytes,
    /// 0: all elephants are dropped alike; 1: in proportion to their value.
    pub fairness: Probability,
}

impl Params {
    /// For a link of `link`: 1,000 packets, half of their bytes for elephants; a value that grows from 100 kB on,
    /// tenfold by 1 MB and a hundredfold by 10 MB; geometric spacing; a floor of 10 % for which the last 24 kB beyond
    /// it count. ARED aims for 80 ms, not 5: only elephants are in that queue, and a short one costs them throughput.
    pub fn for_link(link: Rate) -> Self {
        let points = [(100_000, 0), (100_001, 1), (1_000_000, 10), (10_000_000, 100)];
        let value = elephants::ValueTable::new(points.map(|(length, value)| (Bytes::new(length), value)).into());
        let mut elephants = elephants::Params::for_link(link);
        if let Ok(value) = value {
            elephants.value = value;
        }
        Self {
            elephants,
            ared: ared::Params { spacing: Spacing::Geometric, delay: DELAY, ..ared::Params::for_link(link) },
            limit: Limit { packets: 1_000, bytes: Bytes::new(1_500_000) },
            elephant_limit: Bytes::new(750_000),
            floor: Probability::from_ratio(1, 10).unwrap_or(Probability::ZERO),
            floor_credit: FLOOR_CREDIT,
            fairness: Probability::ONE,
        }
    }
    /// Checks the parameters.
    ///
    /// # Errors
    /// As [`elephants::Params::validate`] and [`ared::Params::red`]; as many packets as records or more; a floor of
    /// one, which would leave mice nothing.
    pub fn validate(self) -> Result<Self, ParamError> {
        self.ared.red()?;
        let elephants = self.elephants.clone().validate()?;
        if self.limit.packets >= u64::from(elephants.table.capacity) {
            let problem = "must be below the number of flow records, so that no flow with packets inside is forgotten";
            return Err(ParamError::new("limit", problem));
        }
        check_floor(self.floor)?;
        Ok(self)
    }
}

pub(crate) fn check_floor(floor: Probability) -> Result<(), ParamError> {
    if floor == Probability::ONE {
        return Err(ParamError::new("floor", "must be below 1, for example 0.1"));
    }
    Ok(())
}

/// Counts since the start. More is in [`elephants::Stats`] and [`ared::Stats`].
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Stats {
    /// Elephant packets that left before waiting mice, because of the floor.
    pub floor_turns: u64,
    /// Elephant packets marked.
    pub marked: u64,
    /// Elephant packets that ARED dropped.
    pub dropped: u64,
    /// Mouse packets dropped because the queue was full.
    pub mice_dropped: u64,
}

/// The debt to elephants, see the law: in bytes, with 32 bits of fraction; below zero the service beyond the floor. What
/// exceeds [`MOST`] bytes, of a packet or of the credit, counts as that.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Floor {
    share: Probability,
    owed: i64,
    least: i64,
}

/// The largest credit and packet, so that a debt has 64 bits.
const MOST: u64 = 1 << 30;

/// `size` times `share`, of at most one.
fn part(size: Bytes, share: u64) -> i64 {
    (size.as_u64().min(MOST) * share) as i64
}

impl Floor {
    pub(crate) fn new(share: Probability, credit: Bytes) -> Self {
        let credit = part(credit, Probability::ONE.bits());
        Self { share, owed: 0, least: 0 - credit }
    }
    fn cost(&self, size: Bytes) -> i64 {
        part(size, Probability::ONE.bits() - self.share.bits())
    }
    /// Whether an elephant's packet of `size` is due before mice.
    pub(crate) fn due(&self, size: Bytes) -> bool {
        self.share > Probability::ZERO && self.owed >= self.cost(size)
    }
    /// A mouse was served while elephants were queued.
    pub(crate) fn mouse(&mut self, size: Bytes) {
        self.owed = self.owed.saturating_add(part(size, self.share.bits()));
    }
    /// An elephant was served.
    pub(crate) fn elephant(&mut self, size: Bytes) {
        let cost = self.cost(size);
        self.owed = self.owed.saturating_sub(cost).max(self.least);
    }
    /// No elephant is queued: there is no debt.
    pub(crate) fn none_queued(&mut self) {
        self.owed = self.owed.min(0);
    }
    /// Limits the debt to `bytes`.
    pub(crate) fn cap(&mut self, bytes: Bytes) {
        self.owed = self.owed.min(part(bytes, Probability::ONE.bits()));
    }
}

/// The running mean of the values of elephants, with 16 bits of fraction.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct MeanValue(u64);

impl MeanValue {
    /// `zone` for an elephant of `value`, which arrives now.
    pub(crate) fn scale(&mut self, zone: Zone, value: u32, fairness: Probability) -> Zone {
        let value = u64::from(value) * 65_536;
        self.0 = if self.0 == 0 { value } else { self.0 - self.0 / 64 + value / 64 };
        let mean = self.0.max(1);
        // 1 - fairness + fairness * v / V, with 32 bits of fraction. The sum is at most 2^32 times the larger of v and V, so it has 64 bits.
        let weight = ((Probability::ONE.bits() - fairness.bits()) * self.0 + fairness.bits() * value) / mean;
        match zone {
            Zone::Chance(p) => Zone::Chance(weighed(p, weight)),
            Zone::Gentle(p) => Zone::Gentle(weighed(p, weight)),
            Zone::Below => Zone::Below,
            Zone::Beyond => Zone::Beyond,
        }
    }
}

/// A probability times a weight with 32 bits of fraction.
fn weighed(p: Probability, weight: u64) -> Probability {
    Probability::saturating_from_bits(mul_div(p.bits(), weight, 1 << 32))
}

/// A packet with the record of its flow.
#[derive(Clone, Debug)]
struct Item<P> {
    packet: P,
    record: u32,
}

impl<P: Packet> Packet for Item<P> {
    fn size(&self) -> Bytes {
        self.packet.size()
    }
    fn flow(&self) -> FlowKey {
        self.packet.flow()
    }
}

/// Mice and Elephants with a value table. See the [module](self).
#[derive(Clone, Debug)]
pub struct Meredt<P> {
    params: Params,
    sizer: FlowSizer,
    ared: Ared,
    store: Store<Item<P>>,
    mice: Queue,
    elephants: Queue,
    floor: Floor,
    mean: MeanValue,
    stats: Stats,
    latest: Instant,
}

impl<P: Packet> Meredt<P> {
    /// An empty queue, drawing from the random stream `name` under `seed`.
    ///
    /// # Errors
    /// As [`Params::validate`].
    pub fn new(params: Params, seed: u64, name: &str) -> Result<Self, ParamError> {
        let ared = Ared::new(params.ared, seed, name)?;
        Self::around(params, ared)
    }
    /// An empty queue whose elephants `ared` drops, in place of one by its parameters.
    ///
    /// # Errors
    /// As [`Params::validate`].
    pub fn around(params: Params, ared: Ared) -> Result<Self, ParamError> {
        let params = params.validate()?;
        Ok(Self {
            sizer: FlowSizer::new(params.elephants.clone())?,
            ared,
            store: Store::default(),
            mice: Queue::default(),
            elephants: Queue::default(),
            floor: Floor::new(params.floor, params.floor_credit),
            mean: MeanValue::default(),
            stats: Stats::default(),
            latest: Instant::ZERO,
            params,
        })
    }
    /// Counts since the start.
    pub fn stats(&self) -> &Stats {
        &self.stats
    }
    /// The measure of flows.
    pub fn sizer(&self) -> &FlowSizer {
        &self.sizer
    }
    /// The decider on elephants.
    pub fn ared(&self) -> &Ared {
        &self.ared
    }
    /// Queued packets of mice.
    pub fn mice(&self) -> Backlog {
        self.mice.backlog()
    }
    /// Queued packets of elephants.
    pub fn elephants(&self) -> Backlog {
        self.elephants.backlog()
    }

    /// The verdict on an elephant's packet, the limits included.
    fn admit(&mut self, packet: &mut P, value: u16, out: &mut dyn Outlet<P>) -> Result<(), DropReason> {
        let zone = self.ared.observe(self.latest, self.elephants.backlog());
        let zone = self.mean.scale(zone, u32::from(value), self.params.fairness);
        let verdict = self.ared.decide(packet, zone);
        if let Verdict::Drop(reason) = verdict {
            self.stats.dropped += 1;
            return Err(reason);
        }
        if self.elephants.backlog().bytes + packet.size() > self.params.elephant_limit {
            return Err(DropReason::ClassLimit);
        }
        if !self.params.limit.admits(self.backlog(), packet.size()) {
            return Err(DropReason::QueueLimit);
        }
        if verdict == Verdict::Mark && packet.mark_ce() {
            self.stats.marked += 1;
            out.event(Event::Marked { flow: packet.flow().flow });
        }
        Ok(())
    }

    /// Whether an elephant leaves next; `None` when nothing is queued.
    fn elephant_next(&self) -> Option<bool> {
        match (self.store.front(&self.mice), self.store.front(&self.elephants)) {
            (None, None) => None,
            (None, Some(_)) => Some(true),
            (Some(_), None) => Some(false),
            (Some(_), Some(item)) => Some(self.floor.due(item.size()) && !self.sizer.has_queued_mice(item.record)),
        }
    }
}

impl<P: Packet> Qdisc<P> for Meredt<P> {
    fn enqueue(&mut self, now: Instant, mut packet: P, out: &mut dyn Outlet<P>) -> Queued {
        self.latest = self.latest.max(now);
        let Some(class) = self.sizer.arrive(self.latest, &packet) else {
            return out.refused(packet, DropReason::QueueLimit);
        };
        let as_mouse = class.value == 0;
        if as_mouse {
            if !self.params.limit.admits(self.backlog(), packet.size()) {
                self.stats.mice_dropped += 1;
                return out.refused(packet, DropReason::QueueLimit);
            }
        } else if let Err(reason) = self.admit(&mut packet, class.value, out) {
            return out.refused(packet, reason);
        }
        self.sizer.enter(class.record, as_mouse);
        if !as_mouse {
            self.ared.on_busy();
        }
        let queue = if as_mouse { &mut self.mice } else { &mut self.elephants };
        self.store.push(queue, Item { packet, record: class.record }, self.latest);
        Queued::default()
    }

    fn dequeue(&mut self, now: Instant, _out: &mut dyn Outlet<P>) -> Option<P> {
        self.latest = self.latest.max(now);
        let as_elephant = self.elephant_next()?;
        let queue = if as_elephant { &mut self.elephants } else { &mut self.mice };
        let (item, _) = self.store.pop(queue)?;
        let size = item.size();
        if as_elephant {
            self.stats.floor_turns += u64::from(!self.mice.is_empty());
            self.floor.elephant(size);
        } else if !self.elephants.is_empty() {
            self.floor.mouse(size);
        }
        self.sizer.leave(self.latest, item.record, !as_elephant);
        if self.elephants.is_empty() {
            self.floor.none_queued();
            if as_elephant {
                self.ared.on_empty(self.latest);
            }
        }
        Some(item.packet)
    }

    fn deadline(&self, _now: Instant) -> Deadline {
        if self.backlog().is_empty() { Deadline::Idle } else { Deadline::Now }
    }

    fn backlog(&self) -> Backlog {
        let (mice, elephants) = (self.mice.backlog(), self.elephants.backlog());
        Backlog { packets: mice.packets + elephants.packets, bytes: mice.bytes + elephants.bytes }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::packet::Ecn;
    use crate::random::Stream;
    use alloc::vec::Vec;

    #[derive(Clone, Copy, Debug, PartialEq)]
    struct P {
        flow: u64,
        size: u64,
        ecn: Ecn,
    }
    impl Packet for P {
        fn size(&self) -> Bytes {
            Bytes::new(self.size)
        }
        fn flow(&self) -> FlowKey {
            FlowKey::numbered(self.flow)
        }
        fn ecn(&self) -> Ecn {
            self.ecn
        }
        fn mark_ce(&mut self) -> bool {
            let capable = self.ecn.is_capable();
            if capable {
                self.ecn = Ecn::Ce;
            }
            capable
        }
    }
    fn p(flow: u64, size: u64) -> P {
        P { flow, size, ecn: Ecn::NotEct }
    }

    #[test]
    fn the_floor_holds_over_every_interval() {
        // What the elephant had to itself before mice came lets it wait for longer, by its bytes over the share.
        floor_holds(Bytes::ZERO, 10 * 1_500);
        floor_holds(Bytes::new(15_000), 10 * (1_500 + 15_000));
    }

    fn floor_holds(floor_credit: Bytes, slack: i64) {
        let params = Params { floor_credit, ..Params::for_link(Rate::from_mbit(10)) };
        let mut queue = Meredt::<P>::new(params, 1, "floor").unwrap();
        let mut now = Instant::ZERO;
        let mut random = Stream::named(1, "floor test");
        let mut out = Vec::new();
        // 200 kB make the elephant.
        for _ in 0..200 {
            queue.enqueue(now, p(0, 1_000), &mut out);
            queue.dequeue(now, &mut out);
        }
        // Mice take the whole link and more; the elephant always has something waiting.
        let mut served = Vec::new();
        let mut flow = 1;
        out.clear();
        for _ in 0..20_000 {
            now += Span::from_micros(1_000);
            for _ in 0..100 {
                if queue.elephants().packets < 3 {
                    queue.enqueue(now, p(0, 100 + random.below(1_400)), &mut out);
                }
            }
            out.clear();
            assert!(queue.elephants().packets > 0, "the test must keep an elephant waiting");
            for _ in 0..2 {
                queue.enqueue(now, p(flow, 100 + random.below(1_400)), &mut out);
                flow += 1;
            }
            let packet = queue.dequeue(now, &mut out).unwrap();
            served.push((packet.flow == 0, packet.size));
        }
        // E - 0.1 T >= -1500 - credit over every interval: no fall of the running sum by more than that.
        let (mut sum, mut top) = (0_i64, 0_i64);
        for (elephant, size) in &served {
            sum += if *elephant { 9 } else { -1 } * *size as i64;
            top = top.max(sum);
            assert!(top - sum <= slack, "the floor gave way");
        }
        let elephant: u64 = served.iter().filter(|one| one.0).map(|one| one.1).sum();
        let total: u64 = served.iter().map(|one| one.1).sum();
        let share = elephant as f64 / total as f64;
        let credit = floor_credit.as_u64() as f64 / total as f64;
        assert!((0.0995 - credit..0.102).contains(&share), "and gives no more than it says: {share}");
        // The credit is used: the first elephant's packet has to wait for more mice than without.
        let first = served.iter().position(|one| one.0).unwrap();
        assert!(if slack > 15_000 { first > 100 } else { first < 20 }, "{first}");
        assert!(queue.stats().floor_turns > 1_000 && queue.stats().mice_dropped > 1_000);
    }

    #[test]
    fn drops_go_by_value() {
        // Two elephants, values 1 and 3, at the same rate: V = 2, so p/2 and 3p/2; drops are 1 to 3.
        let points = [(10, 0), (20, 1), (2_000_000, 1), (2_000_001, 3)].map(|(l, v)| (Bytes::new(l), v));
        let mut params = Params::for_link(Rate::from_mbit(10));
        params.elephants.value = elephants::ValueTable::new(points.into()).unwrap();
        params.elephants.pair = None;
        params.ared.delay = Span::from_millis(5);
        let run = |fairness| {
            let mut queue = Meredt::<P>::new(Params { fairness, ..params.clone() }, 1, "value").unwrap();
            let mut drops = [0_u32; 3];
            let mut now = Instant::ZERO;
            let mut out: Vec<(P, DropReason)> = Vec::new();
            // Flow 2 gets past 2 MB first.
            for _ in 0..2_001 {
                queue.enqueue(now, p(2, 1_000), &mut out);
                queue.dequeue(now, &mut out);
            }
            out.clear();
            for n in 0..200_000 {
                now += Span::from_micros(400);
                // Flow 1 changes its name before it passes 2 MB.
                let flow = if n % 2 == 0 { 2 } else { 10 + n / 2_000 };
                queue.enqueue(now, p(flow, 1_000), &mut out);
                // A backlog of 8 is the middle of the thresholds 5 to 15: the average stays there.
                while queue.backlog().packets > 8 {
                    queue.dequeue(now, &mut out);
                }
                for (packet, reason) in out.drain(..) {
                    assert_eq!(reason, DropReason::Early);
                    drops[if packet.flow == 2 { 2 } else { 1 }] += 1;
                }
            }
            f64::from(drops[2]) / f64::from(drops[1])
        };
        let fair = run(Probability::ONE);
        assert!((2.6..3.4).contains(&fair), "{fair}");
        let even = run(Probability::ZERO);
        assert!((0.9..1.1).contains(&even), "{even}");
    }

    #[test]
    fn a_lone_packet_is_never_dropped_by_chance() {
        let mut queue = Meredt::<P>::new(Params::for_link(Rate::from_mbit(10)), 1, "lone").unwrap();
        let mut out: Vec<(P, DropReason)> = Vec::new();
        let mut now = Instant::ZERO;
        // A crowd of elephants keeps 120 packets waiting until the average is beyond the upper threshold, 99.
        for n in 0..20_000 {
            now += Span::from_millis(1);
            queue.enqueue(now, p(1 + n % 10, 1_500), &mut out);
            while queue.elephants().packets > 120 {
                queue.dequeue(now, &mut out);
            }
        }
        assert!(queue.ared().red().average().as_f64() > 99.0 && out.len() > 1_000);
        while queue.dequeue(now, &mut out).is_some() {}
        // Then one of them sends what it lost, alone, a timeout of 200 ms later each time; mice fill the line.
        out.clear();
        for n in 0..50 {
            now += Span::from_millis(200);
            queue.enqueue(now, p(1_000 + n, 100), &mut out);
            queue.enqueue(now, p(1, 1_500), &mut out);
            assert!(out.is_empty(), "retransmission {n} was dropped");
            queue.dequeue(now, &mut out);
            queue.dequeue(now, &mut out);
        }
    }

    #[test]
    fn marks_stand_in_for_drops() {
        let mut params = Params::for_link(Rate::from_mbit(10));
        params.ared.delay = Span::from_millis(5);
        let mut queue = Meredt::<P>::new(params, 1, "ecn").unwrap();
        let mut out = Vec::new();
        let mut marked = 0;
        for n in 0..50_000 {
            let now = Instant::ZERO + Span::from_micros(n * 400);
            queue.enqueue(now, P { ecn: Ecn::Ect0, ..p(1, 1_000) }, &mut out);
            while queue.backlog().packets > 10 {
                marked += u64::from(queue.dequeue(now, &mut out).unwrap().ecn == Ecn::Ce);
            }
        }
        assert!(out.is_empty() && marked > 100, "{} {marked}", out.len());
    }
}
