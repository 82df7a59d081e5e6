//! A CAKE-like discipline: an exact shaper for a line, tins by code point, fairness of hosts and of flows, COBALT.
//!
//! *Law*: of the packets that leave, all but the last of any interval t take at most `rate * t` plus what the rate
//! carries in `lateness` on the line, overhead and framing included. Within that: a tin that has not used its share
//! goes before the lower ones; otherwise tins, within a tin hosts, and within a host flows take turns by deficit
//! round robin; a flow that just became busy has its first quantum before the others of its tin, and its host pays for
//! it; each flow's queue is under COBALT. When the limit is passed, the head of a queue within 1/9 of the longest goes.
//! *Source*: Høiland-Jørgensen, Täht and Morton, "Piece of CAKE" (2018), sections III.A (shaper, overhead), III.B
//! (flow isolation, 8-way set-associative hashing), III.C (tins), III.D (ACK filter); [`cobalt`].
//! *Units*: bit/s and bytes on the line; nanoseconds.
//! *Example*: below.
//! *Cost*: O(1) an enqueue: eight keys are compared, twice for a flow that comes back, and with the ACK filter at most
//! 16 packets. A dequeue visits each of at most four tins, and a host and a flow twice at most each (the quantum is
//! never less than the largest packet seen), and once more for each flow that ran empty since. No allocation after
//! warm-up.
//! *Notes*: a flow shares a queue only when the eight of its set are all busy: with 1,024 queues and 100 busy flows
//! the chance is below 10⁻⁶. `lateness` is what a late caller may catch up; with none every nanosecond of
//! lateness is lost to the line. The tins' shares add up to less than the rate, so the lower ones keep a quarter.
//! *Departures from the source, and why*: hosts take turns, and flows within them, instead of one round of flows with
//! quanta divided by the flows of the host: exactly fair, and the cost does not grow with flows a host; so a host is
//! source, destination or the pair, but not the larger of both loads. The kernel divides the quantum of a new flow by
//! the flows of its host; here the host pays for it with its next turns, and when it owes 16 of them its new flows take
//! turns like the others. A flow with packets inside keeps its tin when its
//! code point changes, and keeps its queue when its set has a free one again, for law 6. The state of COBALT ends when
//! another flow gets the queue. Acknowledgements are not compared, as packets here have no numbers: the filter leaves
//! the newest three of a flow, enough for three duplicates to be seen. Only the usual three divisions into tins.
//! *See also*: [`fq_codel`](crate::fq_codel), without shaper, tins and hosts.
//!
//! ```
//! use tidegate_core::{cake::{Cake, Framing, Params, Wire}, qdisc::{Discard, Qdisc}, *};
//! # #[derive(Debug)] struct P;
//! # impl Packet for P { fn size(&self) -> Bytes { Bytes::new(1_500) } fn flow(&self) -> FlowKey { FlowKey::default() } }
//! let wire = Wire { overhead: 40, framing: Framing::Atm, ..Wire::RAW };
//! let mut line = Cake::new(Params { wire, lateness: Span::ZERO, ..Params::for_link(Rate::from_mbit(1)) }, 1, "dsl")?;
//! (0..2).for_each(|_| { line.enqueue(Instant::ZERO, P, &mut Discard); });
//! assert!(line.dequeue(Instant::ZERO, &mut Discard).is_some());
//! // 33 cells of 53 B are 13,992 bit: 13.992 ms at 1 Mbit/s.
//! assert_eq!(line.deadline(Instant::ZERO), Deadline::At(Instant::ZERO + Span::from_micros(13_992)));
//! # Ok::<(), ParamError>(())
//! ```

pub mod cobalt;
mod params;
mod sets;
mod stats;
mod tins;
mod wire;

pub use params::{AckFilter, Isolation, Params};
use sets::Sets;
pub use stats::Stats;
use tins::first_share;
pub use tins::{Tin, Tins};
pub use wire::{Framing, Wire};

use alloc::vec::Vec;

use crate::bucket::TokenBucket;
use crate::codel::MOST_DROPS_A_CALL;
use crate::key_index::KeyIndex;
use crate::packet::{FlowKey, Packet};
use crate::params::ParamError;
use crate::qdisc::{Backlog, Deadline, DropReason, Outlet, Qdisc, Queued};
use crate::queues::{Linked as _, Links, List, Pool, Queue};
use crate::random::Stream;
use crate::round::{Deficit, spread};
use crate::slab::{Slab, reusable};
use crate::step;
use core::iter::repeat_n;
use tidegate_units::{Bytes, Instant, Rate};

/// The quanta that a host may owe for flows that went before the others. Then its new flows take turns like the rest.
/// Each costs a visit before the next turn of the host, so it bounds the work, too.
const MOST_DEBT: i64 = 16;
/// Acknowledgements the filter leaves in a queue.
const ACKS_LEFT: u32 = 3;
/// The oldest packets of a queue among which the filter looks for the one to drop.
const ACKS_LOOKED_AT: u32 = 16;

#[derive(Clone, Debug, Default)]
struct Flow {
    queue: Queue,
    cobalt: cobalt::State,
    deficit: Deficit,
    tin: usize,
    host: u32,
    /// Acknowledgements inside that are of the flow that the tag names.
    acks: u32,
    /// Packets inside that are not.
    foreign: u32,
}

/// A host with busy flows in a tin.
#[derive(Clone, Debug)]
struct Host {
    key: (u64, usize),
    /// Pays for all packets of its flows, also for those that went before the others.
    deficit: Deficit,
    /// The flows that take turns.
    flows: List,
    /// Busy flows, those that go before the others included.
    busy: u32,
}

reusable!(Host, busy: u32);

#[derive(Clone, Debug)]
struct TinState {
    sparse: List,
    hosts: List,
    deficit: Deficit,
    /// The rest of the share within which it goes first.
    first: Option<TokenBucket>,
    backlog: Backlog,
}

/// A CAKE-like discipline. See the [module](self).
#[derive(Clone, Debug)]
pub struct Cake<P> {
    params: Params,
    flows: Slab<u32, Flow>,
    sets: Sets,
    flow_links: Links,
    hosts: Slab<u32, Host>,
    host_index: KeyIndex,
    host_links: Links,
    tins: Vec<TinState>,
    turn: usize,
    line: Option<TokenBucket>,
    pool: Pool<P>,
    /// The most that a packet seen takes on the line.
    largest: i64,
    random: Stream,
    stats: Stats,
    latest: Instant,
}

/// A host in a tin as one key.
fn host_hash((host, tin): (u64, usize)) -> u64 {
    host ^ (tin as u64) << 61
}

impl<P: Packet> Cake<P> {
    /// An empty discipline, drawing from the random stream `name` under `seed`.
    ///
    /// # Errors
    /// As [`Params::validate`].
    pub fn new(params: Params, seed: u64, name: &str) -> Result<Self, ParamError> {
        Self::drawing_from(params, Stream::named(seed, name))
    }
    /// As [`new`](Self::new), drawing from `random`.
    ///
    /// # Errors
    /// As [`Params::validate`].
    pub fn drawing_from(params: Params, random: Stream) -> Result<Self, ParamError> {
        let params = params.validate()?;
        let share = |tin: &Tin| Some(first_share(params.rate.filter(|_| tin.first_share > 0)?, tin.first_share));
        let tin = |tin: &Tin| TinState {
            sparse: List::default(),
            hosts: List::default(),
            deficit: Deficit::default(),
            first: share(tin),
            backlog: Backlog::default(),
        };
        let line = |rate: Rate| TokenBucket::full(rate, rate.bytes_in_floor(params.lateness), Instant::ZERO);
        Ok(Self {
            flows: repeat_n(Flow::default(), params.queues as usize).collect(),
            sets: Sets::new(params.queues),
            flow_links: Links::default(),
            hosts: Slab::default(),
            host_index: KeyIndex::with_capacity(64),
            host_links: Links::default(),
            tins: params.tins.list().iter().map(tin).collect(),
            turn: 0,
            line: params.rate.map(line),
            pool: Pool::new(params.codel.limit),
            largest: 0,
            random,
            stats: Stats::default(),
            latest: Instant::ZERO,
            params,
        })
    }
    /// Counts since the start.
    pub fn stats(&self) -> &Stats {
        &self.stats
    }

    /// The queue of `key`: its own, a free one of its set, or a shared one. As long as a packet of it waits in a
    /// shared queue, that one, so that its order is kept.
    fn flow_of(&mut self, key: u64) -> u32 {
        let home = spread(key, self.params.queues);
        let (own, free) = self.sets.find(home, key);
        if let Some(own) = own {
            return own;
        }
        if let Some(free) = free.filter(|_| self.flows[home].foreign == 0) {
            // The state of COBALT is that of the flow that had this queue before.
            if self.sets.tag(free) != key {
                self.sets.set_tag(free, key);
                self.flows[free].cobalt = cobalt::State::default();
            }
            return free;
        }
        home
    }

    fn host_of(&self, key: FlowKey) -> u64 {
        match self.params.hosts {
            Isolation::Flows => 0,
            Isolation::Source => key.source,
            Isolation::Destination => key.destination,
            Isolation::Pair => key.host_pair(),
        }
    }

    fn quantum(&self) -> i64 {
        self.largest.max(self.params.wire.bytes(self.params.quantum, 1).as_u64() as i64)
    }

    /// Finds or makes the record of a host, for a flow that becomes busy.
    fn enter_host(&mut self, key: (u64, usize), quantum: i64) -> u32 {
        let new = self.hosts.next();
        let host = self.host_index.find_or_insert(host_hash(key), new, |host| self.hosts[host].key == key);
        if host == new {
            let deficit = Deficit::starting_with(quantum);
            self.hosts.insert(Host { key, deficit, flows: List::default(), busy: 0 });
        }
        self.hosts[host].busy += 1;
        host
    }

    /// Puts the flow, which is in no list, among those of its host that take turns.
    fn take_turns(&mut self, index: u32) {
        let Flow { host, tin, .. } = self.flows[index];
        let flows = &mut self.hosts[host].flows;
        if flows.is_empty() {
            self.host_links.push_back(&mut self.tins[tin].hosts, host);
        }
        self.flow_links.push_back(flows, index);
    }

    /// Ends the turns of an empty flow.
    fn end_turns(&mut self, index: u32) {
        let Flow { host, tin, .. } = self.flows[index];
        let flows = &mut self.hosts[host].flows;
        self.flow_links.remove(flows, index);
        if flows.is_empty() {
            self.host_links.remove(&mut self.tins[tin].hosts, host);
        }
        self.rest(index);
    }

    /// The flow, which is in no list, is not busy any more. The record of its host ends with the last one.
    fn rest(&mut self, index: u32) {
        self.sets.set_busy(index, false);
        let number = self.flows[index].host;
        let host = &mut self.hosts[number];
        host.busy -= 1;
        if host.busy == 0 {
            self.host_index.remove(host_hash(host.key), number);
            self.hosts.release(number);
        }
    }

    /// Takes the flows, all of which are empty, off all lists: who was busy before all queues were empty is new again.
    fn rest_all(&mut self) {
        for tin in 0..self.tins.len() {
            while let Some(index) = self.tins[tin].sparse.front() {
                self.flow_links.remove(&mut self.tins[tin].sparse, index);
                self.rest(index);
            }
            while let Some(host) = self.tins[tin].hosts.front()
                && let Some(index) = self.hosts[host].flows.front()
            {
                self.end_turns(index);
            }
            self.tins[tin].deficit = Deficit::default();
        }
        self.turn = 0;
    }

    /// Counts a packet that left its queue, in whatever way.
    fn gone(&mut self, index: u32, packet: &P) {
        let flow = &mut self.flows[index];
        let foreign = packet.flow().flow != self.sets.tag(index);
        flow.acks -= u32::from(packet.is_pure_ack() && !foreign);
        flow.foreign -= u32::from(foreign);
        if flow.queue.is_empty() {
            flow.cobalt.on_empty(self.latest);
        }
        self.tins[flow.tin].backlog.remove(packet.size());
    }

    /// The next packet of the flow that COBALT lets leave.
    fn take(&mut self, index: u32, drops: &mut u32, out: &mut dyn Outlet<P>) -> Option<P> {
        loop {
            let flow = &mut self.flows[index];
            let (mut packet, at) = self.pool.pop(index, &mut flow.queue)?;
            let more = flow.queue.backlog().bytes + packet.size() > self.params.codel.mtu;
            let behind = flow.queue.backlog().packets;
            let (params, random) = (&self.params.codel, &mut self.random);
            let decision = flow.cobalt.decide(params, random, &mut packet, at, more, behind == 0, self.latest, out);
            self.gone(index, &packet);
            match decision {
                cobalt::Decision::Drop if *drops < MOST_DROPS_A_CALL => {
                    *drops += 1;
                    self.stats.dropped += 1;
                    out.dropped(packet, DropReason::Early);
                }
                decision => {
                    let marked = decision == cobalt::Decision::Marked
                        || step::apply(self.params.step, &mut packet, at, self.latest, behind, out);
                    self.stats.marked += u64::from(marked);
                    return Some(packet);
                }
            }
        }
    }

    /// The next packet of a tin: flows that just became busy, then hosts and their flows in turn.
    fn serve_tin(&mut self, tin: usize, drops: &mut u32, out: &mut dyn Outlet<P>) -> Option<P> {
        let quantum = self.quantum();
        loop {
            if let Some(index) = self.tins[tin].sparse.front() {
                let flow = &self.flows[index];
                if flow.deficit.is_positive()
                    && !self.hosts[flow.host].deficit.owes(MOST_DEBT * quantum)
                    && let Some(packet) = self.take(index, drops, out)
                {
                    self.spend(index, &packet);
                    return Some(packet);
                }
                let flow = &mut self.flows[index];
                self.flow_links.remove(&mut self.tins[tin].sparse, index);
                // A flow that ran empty gets a turn among the others, or it would be new for ever. One whose host owes too much has
                // packets yet.
                let waits = !flow.queue.is_empty();
                if flow.deficit.renew(quantum) || waits || !self.tins[tin].hosts.is_empty() {
                    self.take_turns(index);
                } else {
                    self.rest(index);
                }
                continue;
            }
            let number = self.tins[tin].hosts.front()?;
            let host = &mut self.hosts[number];
            if host.deficit.renew(quantum) {
                self.host_links.rotate(&mut self.tins[tin].hosts);
                continue;
            }
            let index = host.flows.front()?;
            let flow = &mut self.flows[index];
            if flow.deficit.renew(quantum) {
                self.flow_links.rotate(&mut host.flows);
                continue;
            }
            if let Some(packet) = self.take(index, drops, out) {
                self.spend(index, &packet);
                return Some(packet);
            }
            self.end_turns(index);
        }
    }

    /// The flow and its host pay for a packet.
    fn spend(&mut self, index: u32, packet: &P) {
        let wire = self.wire(packet);
        let flow = &mut self.flows[index];
        flow.deficit.spend(wire);
        self.hosts[flow.host].deficit.spend(wire);
    }

    fn wire(&self, packet: &P) -> i64 {
        self.params.wire.bytes(packet.size(), packet.segments()).as_u64() as i64
    }

    /// Whether the tin may go before lower ones now.
    fn goes_first(&self, tin: usize) -> bool {
        let tin = &self.tins[tin];
        !tin.backlog.is_empty() && tin.first.is_some_and(|share| !share.is_in_debt(self.latest))
    }

    /// The tin whose turn it is; `None` when nothing waits.
    fn next_tin(&mut self) -> Option<usize> {
        if let Some(first) = (0..self.tins.len()).rev().find(|tin| self.goes_first(*tin)) {
            return Some(first);
        }
        let list = self.params.tins.list();
        for _ in 0..=2 * list.len() {
            let tin = &mut self.tins[self.turn];
            if tin.backlog.is_empty() {
                tin.deficit = Deficit::default();
            } else if tin.deficit.is_positive() {
                return Some(self.turn);
            }
            self.turn = (self.turn + 1) % list.len();
            let quantum = self.quantum();
            let tin = &mut self.tins[self.turn];
            if !tin.backlog.is_empty() {
                tin.deficit.renew(quantum * i64::from(list[self.turn].weight));
            }
        }
        None
    }
}

impl<P: Packet> Qdisc<P> for Cake<P> {
    fn enqueue(&mut self, now: Instant, packet: P, out: &mut dyn Outlet<P>) -> Queued {
        self.latest = self.latest.max(now);
        let (size, key, is_ack) = (packet.size(), packet.flow(), packet.is_pure_ack());
        if !self.pool.can_hold(size) {
            return out.refused(packet, DropReason::QueueLimit);
        }
        if self.pool.backlog().is_empty() {
            self.rest_all();
        }
        self.largest = self.largest.max(self.wire(&packet));
        let index = self.flow_of(key.flow);
        let (tin, host) = (self.params.tins.of(packet.dscp()), self.host_of(key));
        let quantum = self.quantum();
        if !self.sets.is_busy(index) {
            self.sets.set_busy(index, true);
            let host = self.enter_host((host, tin), quantum);
            let flow = &mut self.flows[index];
            (flow.tin, flow.host) = (tin, host);
            flow.deficit = Deficit::starting_with(quantum);
            self.flow_links.push_back(&mut self.tins[tin].sparse, index);
        }
        let flow = &mut self.flows[index];
        flow.cobalt.on_arrival(&self.params.codel, self.latest);
        let foreign = self.sets.tag(index) != key.flow;
        flow.foreign += u32::from(foreign);
        flow.acks += u32::from(is_ack && !foreign);
        self.stats.shared += u64::from(foreign);
        self.tins[flow.tin].backlog.add(size);
        self.pool.push(index, &mut flow.queue, packet, self.latest);
        if is_ack && !foreign && self.params.ack_filter == AckFilter::On && flow.acks > ACKS_LEFT {
            let old = |packet: &P| packet.is_pure_ack() && packet.flow().flow == key.flow;
            if let Some(packet) =
                self.pool.take(index, &mut flow.queue, |store, queue| store.take_where(queue, ACKS_LOOKED_AT, old))
            {
                self.gone(index, &packet);
                self.stats.acks_filtered += 1;
                out.dropped(packet, DropReason::AckFiltered);
            }
        }
        while let Some(index) = self.pool.over_limit() {
            let flow = &mut self.flows[index];
            flow.cobalt.on_overflow(&self.params.codel, self.latest);
            let Some((packet, _)) = self.pool.pop(index, &mut flow.queue) else { return Queued::default() };
            self.gone(index, &packet);
            self.stats.overflowed += 1;
            out.dropped(packet, DropReason::FlowLimit);
        }
        Queued::default()
    }

    fn dequeue(&mut self, now: Instant, out: &mut dyn Outlet<P>) -> Option<P> {
        self.latest = self.latest.max(now);
        if self.pool.backlog().is_empty() || self.line.is_some_and(|line| line.is_in_debt(self.latest)) {
            return None;
        }
        let mut drops = 0;
        while let Some(tin) = self.next_tin() {
            let Some(packet) = self.serve_tin(tin, &mut drops, out) else { continue };
            let wire = Bytes::new(self.wire(&packet) as u64);
            self.stats.tins[tin].count(wire);
            match &mut self.tins[tin].first {
                // The share goes into debt by what was sent first; what was sent in turn is not counted against it.
                Some(share) if !share.is_in_debt(self.latest) => share.charge(self.latest, wire),
                _ => self.tins[tin].deficit.spend(wire.as_u64() as i64),
            }
            if let Some(line) = &mut self.line {
                line.charge(self.latest, wire);
            }
            return Some(packet);
        }
        None
    }

    fn deadline(&self, now: Instant) -> Deadline {
        if self.pool.backlog().is_empty() {
            return Deadline::Idle;
        }
        let now = self.latest.max(now);
        match self.line.and_then(|line| line.time_of(now, Bytes::ZERO)) {
            Some(at) => Deadline::at(at, now),
            None => Deadline::Now,
        }
    }

    fn backlog(&self) -> Backlog {
        self.pool.backlog()
    }
}

#[cfg(test)]
mod tests;
