//! A region of a divided simulation: its windows, what crosses its border, and its measurements. See [`parallel`](crate::parallel).

use std::cmp::Ordering;

use tidegate_core::{Instant, Rate};

use super::lines::end_of;
use super::{Connection, EventKind, FOLLOWER, INDEX_MASK, KIND_SHIFT, Role, Simulation, target};
use crate::event::Due;
use crate::ids::FlowId;
use crate::link::{NEVER, Queue};
use crate::metrics::{FlowMetrics, LinkMetrics};
use crate::packet::SimPacket;
use crate::parallel::{
    End, HERE, History, Letter, LinkShare, Log, Meeting, Message, Origin, Plan, Share, Watch, rank, rank_of,
};
use crate::workload::FlowSpec;

/// The place of an event among those of its time: the number of the event that scheduled it, and in these bits the position among
/// what that scheduled. Position 0 is for the next packet of a line that crosses the border, the positions from [`CROSSED`] on for packets
/// that were put on such a line after this event and before the next one of the region.
const POSITION_BITS: u32 = 11;
const POSITIONS: u64 = 1 << POSITION_BITS;
const CROSSED: u64 = POSITIONS / 2;
/// One more event than can be numbered.
const MOST_EVENTS: u64 = 1 << (40 - POSITION_BITS);

/// A link as seen by the division of a network.
pub(crate) struct RegionLink {
    pub ends: [u32; 2],
    pub delay: u64,
    pub rate: Rate,
    /// Whether its delay never changes, and nothing else uses its line.
    pub fixed: bool,
    /// The work of a packet on it, by estimate, where that on a link without a discipline is 1.
    pub work: f64,
    /// Whether it must be in the first region, which has the state that outlives the run.
    pub pinned: bool,
}

/// A line that ends in this region and begins in another.
#[derive(Clone, Copy, Default)]
struct Inbound {
    /// When its last packet landed, and the number of that event.
    landed: (u64, u64),
    /// What scheduled the pending landing, if an event of the other region did.
    origin: Option<Origin>,
}

/// The state of a region.
pub(super) struct Region {
    own: u8,
    plan: Plan,
    /// By link; used for lines that cross the border.
    inbound: Vec<Inbound>,
    /// The connection of each flow whose ends are in different regions; [`u32::MAX`] before it is open.
    slots: Vec<u32>,
    history: History,
    /// The number of the first event of this window.
    window: u64,
    /// Events before this number are those of the construction.
    first: u64,
    letter: Letter,
    ranks: Vec<Vec<(u32, u32)>>,
    crossed: Vec<(u64, Origin, u32)>,
    diverged: bool,
}

impl Region {
    /// Whether the ends of `flow` are in different regions.
    pub fn cuts(&self, flow: u32) -> bool {
        self.plan.cut[flow as usize]
    }
    /// The number of the connection of `flow`, if it is known before it is opened.
    pub fn number(&self, flow: u32) -> Option<u64> {
        Some(self.plan.numbers.as_ref()?[flow as usize])
    }
    /// Records the connection of a flow whose ends are in different regions.
    pub fn opened(&mut self, flow: u32, slot: u32) {
        self.slots[flow as usize] = slot;
    }
    /// Records that a connection was aborted.
    pub fn aborted(&mut self, flow: u32) {
        self.diverged |= self.cuts(flow) || self.plan.numbers.is_some();
    }
    /// Whether the line of `link` ends in another region.
    #[inline]
    pub fn crosses(&self, link: u32) -> bool {
        self.plan.links[link as usize][1] != self.own
    }
    /// Records that a packet lands.
    #[inline]
    pub fn lands(&mut self, link: u32, now: u64) {
        if self.plan.links[link as usize][0] != self.own {
            let number = self.window + self.letter.log.len() as u64 - 1;
            self.inbound[link as usize] = Inbound { landed: (now, number), origin: None };
        }
    }

    /// What scheduled a due event, whose place is `place`.
    #[inline]
    fn origin(&self, due: Due, place: u64) -> Origin {
        let index = due.target & INDEX_MASK;
        if due.target >> KIND_SHIFT == EventKind::Land as u32
            && let Some(origin) = self.inbound[index as usize].origin
        {
            return origin;
        }
        let (number, position) = (place >> POSITION_BITS, (place % POSITIONS) as u32);
        if number < self.first {
            return Origin { time: 0, rank: 0, index: place as u32, entry: 0 };
        }
        if number >= self.window {
            return Origin { time: 0, rank: HERE, index: position, entry: (number - self.window) as u32 };
        }
        let (time, rank) = self.history.get(number);
        Origin { time, rank, index: position, entry: 0 }
    }
}

impl Simulation {
    /// Whether something sees all of the simulation while it runs.
    pub(crate) fn is_observed(&self) -> bool {
        self.tracer.is_some() || !self.followers.is_empty()
    }
    pub(crate) fn flow_specs(&self) -> &[FlowSpec] {
        &self.flows
    }
    pub(crate) fn route_table(&self) -> &[u32] {
        &self.routes
    }
    /// The links, for the division of the network.
    pub(crate) fn region_links(&self) -> Vec<RegionLink> {
        let describe = |(link, ends): (&crate::link::Link, &[u32; 2])| {
            let (rate, delay) = link.line();
            RegionLink {
                ends: *ends,
                delay: delay.as_nanos(),
                rate,
                fixed: link.conditions.is_none() && link.shared_line.is_none(),
                work: if matches!(link.queue, Queue::Tail { .. }) { 1.0 } else { 2.0 },
                pinned: link.hooks.is_some() || link.queue.shaper().is_some(),
            }
        };
        self.links.iter().zip(&self.link_ends).map(describe).collect()
    }

    /// Makes this the simulation of region `own` of `plan`. Nothing must have happened yet.
    pub(crate) fn enter(&mut self, plan: Plan, own: u8) {
        let flows = &self.flows;
        self.events.retain(|target| {
            let index = target & INDEX_MASK;
            debug_assert!(index & FOLLOWER == 0 || target >> KIND_SHIFT != EventKind::Watch as u32, "not divided");
            plan.nodes[flows[index as usize].from.0 as usize] == own
        });
        let first = (self.events.place() >> POSITION_BITS) + 2;
        self.region = Some(Box::new(Region {
            own,
            inbound: vec![Inbound::default(); self.links.len()],
            slots: vec![u32::MAX; self.flows.len()],
            history: History::starting_at(first),
            window: first,
            first,
            letter: Letter::default(),
            ranks: vec![Vec::new(); plan.regions],
            crossed: Vec::new(),
            diverged: false,
            plan,
        }));
    }

    /// Runs this region until `end`, in windows between which the regions exchange what crosses.
    pub(crate) fn run_region(&mut self, end: Instant, meeting: &Meeting, watch: Watch<'_>) -> End {
        let end = end.as_nanos();
        self.horizon = end;
        let step = (end / 256).max(1);
        let (mut windows, mut shown, mut stopped) = (0, 0, false);
        loop {
            let Some(region) = &mut self.region else { return End::Diverged };
            let mut letter = std::mem::take(&mut region.letter);
            (letter.earliest, letter.diverged, letter.stopped) = (self.events.earliest(), region.diverged, stopped);
            let place = (usize::from(region.own), region.plan.regions);
            let lookahead = region.plan.lookahead;
            let next = meeting.exchange(windows, place, &mut letter, |letters| self.absorb(letters));
            if let Some(region) = &mut self.region {
                region.letter = letter;
            }
            windows += 1;
            match next {
                Next::At(time) if time <= end => self.run_window((time.saturating_add(lookahead) - 1).min(end)),
                Next::At(_) => break,
                Next::Stopped => return End::Stopped,
                Next::Diverged => return End::Diverged,
            }
            if self.now - shown >= step {
                shown = self.now;
                stopped |= watch(Instant::from_nanos(self.now)).is_break();
            }
        }
        self.now = end;
        self.links.iter_mut().for_each(|link| link.settle(end));
        if watch(Instant::from_nanos(end)).is_break() {
            return End::Stopped;
        }
        End::Reached { windows }
    }

    /// Handles all events until `last`, and records them.
    fn run_window(&mut self, last: u64) {
        while let Some((due, place)) = self.events.pop_placed(last) {
            let Some(region) = &mut self.region else { return };
            let number = region.window + region.letter.log.len() as u64;
            let origin = region.origin(due, place);
            region.letter.log.add(due.time, origin);
            self.events.set_place(number << POSITION_BITS | 1);
            self.handle(due);
            let full = self.events.place() > (number << POSITION_BITS | CROSSED);
            if full && let Some(region) = &mut self.region {
                region.diverged = true;
            }
        }
        self.now = last;
    }

    /// Sends a packet to the region in which its line ends.
    pub(super) fn cross(&mut self, link: u32, arrival: u64, packet: u32) {
        let packet = *self.packets.get(packet);
        let place = self.events.place();
        self.events.set_place(place + 1);
        let Some(region) = &mut self.region else { return };
        let entry = region.letter.log.len() as u32 - 1;
        region.letter.messages.push(Message { link, arrival, entry, index: (place % POSITIONS) as u32, packet });
    }

    /// Ranks what all regions have handled, and takes the packets that enter this one. Returns when the next window begins.
    fn absorb(&mut self, letters: &[&Letter]) -> Next {
        if letters.iter().any(|letter| letter.diverged) {
            return Next::Diverged;
        }
        if letters.iter().any(|letter| letter.stopped) {
            return Next::Stopped;
        }
        let arrivals = letters.iter().flat_map(|letter| letter.messages.iter().map(|message| message.arrival));
        let next = letters.iter().map(|letter| letter.earliest).chain(arrivals).min().unwrap_or(NEVER);
        let Some(mut region) = self.region.take() else { return Next::Diverged };
        let logs: Vec<&Log> = letters.iter().map(|letter| &letter.log).collect();
        rank(&logs, &mut region.ranks);
        let own = usize::from(region.own);
        let mut changed = region.ranks[own].iter().peekable();
        for (entry, (time, (_, rank))) in (0..).zip(logs[own].times.iter().zip(&logs[own].origins)) {
            let rank = changed.next_if(|changed| changed.0 == entry).map_or(*rank, |changed| changed.1);
            region.history.add(*time, rank);
        }
        region.crossed.clear();
        for (sender, letter) in letters.iter().enumerate() {
            for message in &letter.messages {
                if region.plan.links[message.link as usize][1] == region.own {
                    let time = letter.log.times[message.entry as usize];
                    let rank = rank_of(&letter.log, &region.ranks[sender], message.entry);
                    self.take_in(&mut region, message, Origin { time, rank, index: message.index, entry: 0 });
                }
            }
        }
        self.place_crossed(&mut region, logs[own]);
        // A number that no event has: what crosses before the first event of the window comes after it.
        region.history.add(0, 0);
        region.window = region.history.next();
        region.diverged |= region.window + (1 << 20) > MOST_EVENTS;
        if region.history.is_long() {
            let needed =
                self.events.places().map(|place| place >> POSITION_BITS).filter(|&number| number >= region.first);
            region.history.forget_but(needed.filter(|&number| number < region.window).collect());
        }
        self.region = Some(region);
        Next::At(next)
    }

    /// Puts a packet on the part of its line that is in this region. `origin` is the event that sent it.
    fn take_in(&mut self, region: &mut Region, message: &Message, origin: Origin) {
        let index = self.packets.insert(&message.packet);
        let link = &mut self.links[message.link as usize];
        if !link.launch(message.arrival, index) {
            // The packet before it is still on the line, and schedules this one when it lands.
            return;
        }
        let inbound = &mut region.inbound[message.link as usize];
        let (landed, number) = inbound.landed;
        let later = match landed.cmp(&origin.time) {
            Ordering::Less => false,
            // Nothing lands before the first event, which has a number above 0.
            Ordering::Equal => number > 0 && region.history.get(number).1 > origin.rank,
            Ordering::Greater => true,
        };
        if later {
            // The packet before it landed later in the window than this one was sent, and would have scheduled it.
            inbound.origin = None;
            self.events.push_placed(message.arrival, number << POSITION_BITS, target(EventKind::Land, message.link));
        } else {
            inbound.origin = Some(origin);
            region.crossed.push((message.arrival, origin, message.link));
        }
    }

    /// Schedules the landings that events of other regions scheduled, among those that `log`, the events of this one, scheduled.
    fn place_crossed(&mut self, region: &mut Region, log: &Log) {
        let mut crossed = std::mem::take(&mut region.crossed);
        crossed.sort_unstable();
        let (own, mut same, mut before) = (usize::from(region.own), 0, (NEVER, NEVER));
        for &(arrival, origin, link) in &crossed {
            let of = |position: usize| (log.times[position], rank_of(log, &region.ranks[own], position as u32));
            let earlier = partition(log.len(), |position| of(position) < (origin.time, origin.rank));
            let number = region.window + earlier as u64 - 1;
            same = if before == (arrival, number) { same + 1 } else { 0 };
            before = (arrival, number);
            region.diverged |= same >= CROSSED;
            let place = number << POSITION_BITS | CROSSED | (same % CROSSED);
            self.events.push_placed(arrival, place, target(EventKind::Land, link));
        }
        region.crossed = crossed;
    }

    /// The connection to which a packet of a flow between two regions belongs, which opens here with the first packet.
    pub(super) fn slot_of(&mut self, packet: &SimPacket) -> u32 {
        let Some(region) = self.region.as_deref().filter(|region| region.cuts(packet.group)) else {
            return packet.slot;
        };
        let known = region.slots[packet.group as usize];
        if known != u32::MAX {
            return known;
        }
        let number = packet.connection();
        let ends = self.ends(packet.group, number);
        let slot = self.connect(Connection::new(number, ends, Role::Stream, packet.group, self.now));
        if let Some(region) = &mut self.region {
            region.opened(packet.group, slot);
        }
        slot
    }

    /// The measurements of this region, which it keeps no longer.
    pub(crate) fn share(&mut self) -> Share {
        let own = self.region.as_ref().map_or(0, |region| region.own);
        let underway = self.underway();
        let mine = |flow: u32| {
            self.region
                .as_ref()
                .is_some_and(|region| region.plan.nodes[self.flows[flow as usize].from.0 as usize] == own)
        };
        let experiences = (0..self.flows.len() as u32)
            .filter(|&flow| mine(flow))
            .map(|flow| (flow, self.experiences(FlowId(flow))))
            .filter(|(_, experiences)| !experiences.is_empty())
            .collect();
        let mut links = Vec::new();
        for (number, link) in (0..).zip(&mut self.links) {
            if self.region.as_ref().is_some_and(|region| region.plan.links[number as usize][0] == own) {
                let free_at = link.free_at;
                let capacity = link.capacity(self.warm_up, end_of(self.now, free_at));
                let metrics = std::mem::take::<LinkMetrics>(&mut link.metrics);
                links.push(LinkShare { link: number, metrics, free_at, capacity });
            }
        }
        let flows = std::mem::take::<Vec<FlowMetrics>>(&mut self.metrics);
        Share { region: own, flows, links, experiences, underway, events: self.events.handled(), hops: self.hops }
    }

    /// Adds the measurements of the other regions to those of this one.
    pub(crate) fn add_shares(&mut self, mut shares: Vec<Share>) {
        // Transfers of equal flows and times are in the order of regions, whoever came first.
        shares.sort_by_key(|share| share.region);
        let Some(region) = self.region.take() else { return };
        for share in shares {
            for (flow, mut metrics) in share.flows.into_iter().enumerate() {
                let spec = &self.flows[flow];
                self.metrics[flow].merge(&metrics);
                // Both are kept where the data arrives.
                if region.plan.nodes[spec.to.0 as usize] == share.region {
                    self.metrics[flow].series = metrics.series.take();
                    std::mem::swap(&mut self.metrics[flow].transfers, &mut metrics.transfers);
                }
            }
            for LinkShare { link, metrics, free_at, capacity } in share.links {
                self.links[link as usize].metrics = metrics;
                self.links[link as usize].free_at = free_at;
                self.elsewhere.capacities.insert(link, capacity);
            }
            self.past.extend(share.experiences);
            self.elsewhere.underway.extend(share.underway);
            self.elsewhere.events += share.events;
            self.hops += share.hops;
        }
    }
}

/// The measurements of other regions that have no place in a simulation of one.
#[derive(Default)]
pub(super) struct Elsewhere {
    /// The bits that links could have carried.
    pub capacities: std::collections::BTreeMap<u32, u64>,
    pub underway: Vec<(FlowId, crate::metrics::Transfer)>,
    pub events: u64,
}

/// When a window begins, or why none does.
enum Next {
    At(u64),
    Stopped,
    Diverged,
}

/// The number of positions below `len` at the beginning for which `is_before` holds.
fn partition(len: usize, is_before: impl Fn(usize) -> bool) -> usize {
    let (mut low, mut high) = (0, len);
    while low < high {
        let middle = low.midpoint(high);
        if is_before(middle) {
            low = middle + 1;
        } else {
            high = middle;
        }
    }
    low
}
