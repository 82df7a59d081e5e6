//! [`ShaperQueue`]: the engine of a whole shaper file as the queue of a link.
//!
//! It is the engine that `tidegate run` puts behind an interface, with the same code for classification by rules,
//! classes, flows, statistics, promises, reservations and changes of the configuration. The data path differs: packets
//! are those of the simulator, time is simulated, and no lateness has to be caught up.
//!
//! *Cost*: that of the engine, plus one copy of the packet on arrival and one on departure, and a table look-up of the
//! fields of its flow.
//! *Shards*: the engine may be divided as a live one is divided over threads: several engines each handle a part of the
//! flows and share one pool of credit ([`tidegate_engine::shards`]). They are called in a fixed order, so that runs are
//! reproducible.
//! *Notes*: superpackets and fragments do not occur. The owner of a flow is known where it would be known on a real
//! host: for outgoing traffic, on a link that begins at the sending host.

mod identity;

use std::collections::VecDeque;

use tidegate_capture::scone::Signal;
use tidegate_config::shaper::{Config, Direction, Root};
use tidegate_config::values::User;
use tidegate_core::classify::Fields;
use tidegate_core::{Backlog, Deadline, DropReason, Ecn, Event, Instant, Outlet, Packet, Qdisc, Queued, Rate, Span};
use tidegate_engine::driver::Params;
use tidegate_engine::{
    Arrival, BuildFailure, Change, ClassStatus, Disposition, Driver, Engine, FlowRow, FlowState, Ledger,
    NotificationKind, PacketMeta, PreparedConfig, QueuedPacket, Setup, Shape, Sink, SwapError, SwapKind, SwapReport,
    Target,
};

use tidegate_engine::shards::{Shard, merged, not_sharable};

use crate::packet::{Advice, SimPacket};
pub use identity::FIRST_USER;
pub(crate) use identity::{Identity, Population, names};

/// A notification of the engine about a flow. On a live shaper, clients of the control socket receive it.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Notification {
    /// The time on the clock of the run.
    pub time: Instant,
    /// The event or change.
    pub kind: NotificationKind,
    /// The key of the flow.
    pub flow: u64,
    /// The fields of its first packet, where known.
    pub fields: Option<Fields>,
    /// The promise that covers the flow.
    pub promise: Option<u64>,
    /// The state of a watched flow.
    pub state: Option<FlowState>,
}

/// The packets that the engine holds, by handle, and those that it has released.
#[derive(Default)]
struct Packets {
    slots: Vec<SimPacket>,
    free: Vec<u32>,
    /// Packets that the engine has released and the transmitter has not taken yet, in order.
    released: VecDeque<SimPacket>,
    /// The backlog of held and released packets together.
    backlog: Backlog,
    /// Whether notifications are recorded.
    notified: bool,
    notifications: Vec<Notification>,
}

impl Packets {
    fn insert(&mut self, packet: SimPacket) -> u32 {
        self.backlog.add(packet.size());
        match self.free.pop() {
            Some(slot) => {
                self.slots[slot as usize] = packet;
                slot
            }
            None => {
                self.slots.push(packet);
                self.slots.len() as u32 - 1
            }
        }
    }
    fn remove(&mut self, slot: u32) -> SimPacket {
        self.free.push(slot);
        self.slots[slot as usize]
    }
}

/// The sink of the engine: receives released packets, drops, events and notifications.
pub struct LinkSink<'a> {
    now: Instant,
    packets: &'a mut Packets,
    out: &'a mut dyn Outlet<SimPacket>,
}

impl Sink<u32> for LinkSink<'_> {
    fn transmit(&mut self, slot: u32, change: Change) {
        let mut packet = self.packets.remove(slot);
        if let Some(dscp) = change.dscp {
            packet.dscp = dscp;
            packet.colour = dscp.colour();
        }
        if change.congestion {
            packet.segment.ecn = Ecn::Ce;
        }
        self.packets.released.push_back(packet);
    }
    fn drop_packet(&mut self, slot: u32, reason: DropReason) {
        let packet = self.packets.remove(slot);
        self.packets.backlog.remove(packet.size());
        self.out.dropped(packet, reason);
    }
    fn event(&mut self, event: Event) {
        self.out.event(event);
    }
    fn wants_notifications(&self) -> bool {
        self.packets.notified
    }
    fn notify(&mut self, notification: &tidegate_engine::Notification<'_>) {
        let tidegate_engine::Notification { kind, flow, fields, promise, state } = *notification;
        let time = self.now;
        self.packets.notifications.push(Notification { time, kind, flow, fields: fields.copied(), promise, state });
    }
    fn observe(&mut self, handle: u32, queued: &QueuedPacket, _fields: &Fields, _disposition: Disposition) {
        // The measurements of the link count packets by this class.
        self.packets.slots[handle as usize].class = u16::try_from(queued.class.0).unwrap_or(u16::MAX);
    }
}

/// The engine of a shaper file as the queue of a link.
pub struct ShaperQueue {
    /// One driver for each shard.
    drivers: Vec<Driver<u32>>,
    packets: Packets,
    population: Population,
    /// The fields that packets of each flow show at this link.
    identities: Vec<Identity>,
    /// The node at which the link, or each link of a shared queue, begins; `None` if they begin at several nodes.
    begins_at: Option<u32>,
    /// The shard that follows the one called last.
    turn: usize,
    /// When the pending poll of watched flows is due.
    pub(crate) poll_armed: u64,
    /// When other rules may hold.
    minute_ends: Instant,
    /// What rules with a quota have used.
    ledger: Ledger,
}

impl ShaperQueue {
    /// Creates the engine of `config` in `shards` shards, for a link or links that begin at node `begins_at`.
    pub(crate) fn new(
        config: &Config,
        population: &Population,
        begins_at: Option<u32>,
        seed: u64,
        link: u64,
        shards: usize,
    ) -> Result<Self, BuildFailure> {
        let names = names(config, population, Instant::ZERO);
        // Flow keys follow from the seed, so that runs are reproducible.
        let setup = Setup { seed, secret: [seed, link], catch_up: Span::ZERO, most_queued: None, names };
        let mut engines = Vec::with_capacity(shards);
        for _ in 0..shards.max(1) {
            engines.push(Engine::new(config, &setup, Instant::ZERO)?);
        }
        if shards > 1 {
            for (engine, shard) in engines.iter_mut().zip(&Shard::all(config, shards, Instant::ZERO)?) {
                engine.join(shard);
            }
        }
        let driver = |engine| Driver::new(engine, Params::default(), Instant::ZERO);
        let mut queue = Self {
            drivers: engines.into_iter().map(driver).collect(),
            packets: Packets::default(),
            population: population.clone(),
            identities: Vec::new(),
            begins_at,
            turn: 0,
            poll_armed: crate::link::NEVER,
            minute_ends: Instant::ZERO,
            ledger: Ledger::default(),
        };
        queue.identify();
        Ok(queue)
    }

    /// Recomputes the fields of each flow's packets, with the owner ids of the current configuration.
    fn identify(&mut self) {
        let egress = self.engine().config().interface.direction == Direction::Egress;
        let names = &self.engine().setup().names;
        self.identities = self.population.identities(names, self.begins_at.filter(|_| egress));
    }

    /// The engine of the link. With several shards, it is the first of them, which has the common configuration.
    pub fn engine(&self) -> &Engine<u32> {
        self.drivers[0].engine()
    }
    /// Like [`Self::engine`], for queries that need a mutable engine.
    pub fn engine_mut(&mut self) -> &mut Engine<u32> {
        self.drivers[0].engine_mut()
    }
    /// The engines of all shards.
    pub fn shards(&self) -> impl ExactSizeIterator<Item = &Engine<u32>> {
        self.drivers.iter().map(Driver::engine)
    }
    /// The status of each class, added up over all shards.
    pub fn classes(&self, now: Instant) -> Vec<ClassStatus> {
        merged(self.shards().map(Engine::status), now)
    }
    /// The rate of each class that can still be promised; empty for disciplines other than the shaper.
    pub(crate) fn unpromised(&self) -> Vec<Rate> {
        self.engine().tree().classes().iter().map(|class| class.unpromised).collect()
    }
    /// The flow records of all shards.
    pub(crate) fn flow_rows(&mut self, now: Instant) -> Vec<FlowRow> {
        let mut rows = Vec::new();
        for driver in &mut self.drivers {
            let mut from = Some(0);
            while let Some(place) = from {
                from = driver.engine_mut().flow_rows(now, place, 1024, &mut rows);
            }
        }
        rows
    }

    /// Records notifications from now on.
    pub fn notify(&mut self) {
        self.packets.notified = true;
    }
    /// Takes the notifications recorded since the last call.
    pub fn take_notifications(&mut self) -> Vec<Notification> {
        std::mem::take(&mut self.packets.notifications)
    }
    /// The id that rules use for a user; `None` if no user has this name.
    pub fn user_number(&self, user: &User) -> Option<u32> {
        match user {
            User::Id(id) => Some(*id),
            User::Name(name) => self.engine().setup().names.users.get(name).copied(),
        }
    }
    /// The fields that are common to all packets of flow `flow`, in the forward (0) or reverse (1) direction.
    pub(crate) fn target_of(&self, flow: usize, back: usize) -> Target {
        self.identities[flow].target(back)
    }
    /// The number of the flow whose packets have these fields, in either direction.
    pub fn flow_of(&self, fields: &Fields) -> Option<usize> {
        self.identities.iter().position(|identity| identity.matches(fields))
    }
    /// The class that the rules give a packet.
    pub(crate) fn class_of(&self, packet: &SimPacket) -> u16 {
        let class = self.engine().classify(&self.fields(packet)).class;
        u16::try_from(class.0).unwrap_or(u16::MAX)
    }

    fn fields(&self, packet: &SimPacket) -> Fields {
        self.identities[packet.group as usize].fields(packet)
    }

    /// Calls `work` with the engine (the first one of several shards) between two packets, as the control plane of a
    /// live shaper does.
    pub(crate) fn steer<T>(
        &mut self,
        now: Instant,
        out: &mut dyn Outlet<SimPacket>,
        work: impl FnOnce(&mut Engine<u32>, Instant, &mut LinkSink<'_>) -> T,
    ) -> T {
        work(self.drivers[0].engine_mut(), now, &mut LinkSink { now, packets: &mut self.packets, out })
    }

    /// Sets the rate of all shards, whose classes keep their shares of it.
    pub(crate) fn follow(&mut self, now: Instant, rate: Rate) -> bool {
        let mut all = true;
        for driver in &mut self.drivers {
            all &= driver.engine_mut().follow(now, rate);
        }
        all
    }

    /// Continues with another configuration, without losing or reordering packets.
    pub(crate) fn reconfigure(
        &mut self,
        now: Instant,
        config: &Config,
        out: &mut dyn Outlet<SimPacket>,
    ) -> Result<SwapReport, SwapError> {
        let mut names = names(config, &self.population, now);
        self.settle_quotas(now);
        self.ledger.settle(config, self.population.date(now), []);
        names.off.extend(self.ledger.used_up(config));
        let setup = Setup { names, ..self.engine().setup().clone() };
        let prepared = self.drivers.iter().map(|_| PreparedConfig::new(config, &setup, now));
        let mut prepared = prepared.collect::<Result<Vec<_>, _>>().map_err(SwapError::Build)?;
        if prepared.len() > 1 {
            let refused = |text: String| SwapError::Build(BuildFailure::Tree(text));
            if let Some(text) = not_sharable(config) {
                return Err(refused(text));
            }
            if !same_flows(self.engine().config(), config) {
                return Err(refused("flows would have to move between shards".into()));
            }
            PreparedConfig::share(&mut prepared, now);
        }
        let mut all = SwapReport { how: SwapKind::InPlace, rehomed: 0 };
        for (driver, prepared) in self.drivers.iter_mut().zip(prepared) {
            let sink = &mut LinkSink { now, packets: &mut self.packets, out };
            // Only reservations can prevent a swap, and they require a single shard.
            let (swapped, _) = driver.engine_mut().swap(prepared, now, sink).map_err(SwapError::ReserveError)?;
            all = SwapReport { how: swapped.how, rehomed: all.rehomed + swapped.rehomed };
        }
        self.identify();
        self.minute_ends = self.population.rules_off(config, now).1;
        Ok(all)
    }

    /// Adds what rules with a quota have taken since the last call to the ledger.
    fn settle_quotas(&mut self, now: Instant) {
        let counted: Vec<_> = self.drivers.iter_mut().flat_map(|driver| driver.engine_mut().take_quotas()).collect();
        let date = self.population.date(now);
        self.ledger.settle(self.drivers[0].engine().config(), date, counted);
    }

    /// Puts the rules in force that hold at `now`. They decide about packets that arrive, so the next arrival is early enough.
    fn renew_rules(&mut self, now: Instant, out: &mut dyn Outlet<SimPacket>) {
        let (mut off, next) = self.population.rules_off(self.engine().config(), now);
        self.minute_ends = next;
        self.settle_quotas(now);
        off.extend(self.ledger.used_up(self.engine().config()));
        if off != self.engine().setup().names.off {
            let config = self.engine().config().clone();
            // The configuration runs already, and reservations fit it.
            let _ = self.reconfigure(now, &config, out);
        }
    }

    /// Writes the advice of its class into a packet that has a place for it, if its flow is to be told now.
    fn advise(&mut self, now: Instant, shard: usize, fields: &Fields, packet: &mut SimPacket) {
        let engine = self.drivers[shard].engine_mut();
        if let Some((class, rate)) = engine.tell(now, fields)
            && packet.advice.lower(Signal::at_most(rate))
        {
            engine.count_advised(class);
        }
    }

    /// When [`ShaperQueue::poll`] is due next, if at all.
    pub(crate) fn next_poll(&self) -> Option<Instant> {
        self.shards().filter_map(Engine::next_poll).min().filter(|at| *at != Instant::MAX)
    }
    /// Polls watched flows and reports changes.
    pub(crate) fn poll(&mut self, now: Instant, out: &mut dyn Outlet<SimPacket>) {
        (0..self.drivers.len()).for_each(|shard| self.end_turn(shard, now, out));
    }
    fn end_turn(&mut self, shard: usize, now: Instant, out: &mut dyn Outlet<SimPacket>) {
        self.drivers[shard].end_turn(now, &mut LinkSink { now, packets: &mut self.packets, out });
    }
    /// The next departure and its shard.
    fn next(&self, now: Instant) -> Option<(Instant, usize)> {
        let due = |(shard, driver): (usize, &Driver<u32>)| Some((driver.next_departure(now)?, shard));
        self.drivers.iter().enumerate().filter_map(due).min_by_key(|&(due, shard)| {
            // Among shards that are due, take turns, so that a link that is too slow for all of them serves each.
            let turns = self.drivers.len();
            (due, (shard + turns - self.turn) % turns)
        })
    }
}

/// Whether both configurations distinguish flows and hosts in the same way.
fn same_flows(one: &Config, other: &Config) -> bool {
    let distinguishes = |config: &Config| match &config.root {
        Root::Shaper(shaper) => Some((shaper.flow_by, shaper.fair_by)),
        Root::Discipline(_) => None,
    };
    distinguishes(one) == distinguishes(other)
}

impl Qdisc<SimPacket> for ShaperQueue {
    fn enqueue(&mut self, now: Instant, packet: SimPacket, out: &mut dyn Outlet<SimPacket>) -> Queued {
        if now >= self.minute_ends {
            self.renew_rules(now, out);
        }
        let payload = packet.payload();
        let meta = PacketMeta {
            fields: self.fields(&packet),
            ecn: packet.segment.ecn,
            length: packet.size,
            network_header: crate::packet::IPV4_HEADER,
            headers: packet.size - payload.min(packet.size),
            pure_ack: packet.is_pure_ack(),
            shape: Shape::Single,
        };
        let shard = match self.drivers.len() {
            1 => 0,
            shards => self.drivers[0].engine().shard_of(&meta.fields, shards),
        };
        let mut packet = packet;
        if packet.advice != Advice::None && self.drivers[shard].engine().advises() {
            self.advise(now, shard, &meta.fields, &mut packet);
        }
        let slot = self.packets.insert(packet);
        // The offer cannot fail: a single packet needs no segmentation.
        let sink = &mut LinkSink { now, packets: &mut self.packets, out };
        let _ = self.drivers[shard].offer(now, Arrival::new(slot, &meta), sink);
        self.end_turn(shard, now, out);
        Queued::default()
    }
    fn dequeue(&mut self, now: Instant, out: &mut dyn Outlet<SimPacket>) -> Option<SimPacket> {
        for _ in 0..self.drivers.len() {
            if !self.packets.released.is_empty() {
                break;
            }
            let shard = match self.next(now) {
                _ if self.drivers.len() == 1 => 0,
                Some((due, shard)) if due <= now => shard,
                _ => break,
            };
            self.drivers[shard].depart(now, &mut LinkSink { now, packets: &mut self.packets, out });
            self.end_turn(shard, now, out);
            self.turn = (shard + 1) % self.drivers.len();
        }
        let packet = self.packets.released.pop_front()?;
        self.packets.backlog.remove(packet.size());
        Some(packet)
    }
    fn deadline(&self, now: Instant) -> Deadline {
        if !self.packets.released.is_empty() {
            return Deadline::Now;
        }
        self.next(now).map_or(Deadline::Idle, |(due, _)| Deadline::at(due, now))
    }
    fn backlog(&self) -> Backlog {
        self.packets.backlog
    }
}

impl std::fmt::Debug for ShaperQueue {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "ShaperQueue with {} packets", self.packets.backlog.packets)
    }
}
