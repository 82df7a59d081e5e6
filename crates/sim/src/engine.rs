//! [`Simulation`]: the loop that takes events in order and lets links, connections and sources act.

use tidegate_core::random::Stream;
use tidegate_core::{Backlog, Colour, Ecn, Instant, Rate, Span};

use crate::distribution::Distribution;
use crate::driver::Service;
use crate::event::EventQueue;
use crate::link::{DropBook, Ledger, Link, NEVER, Queue, Slab, Stage, next_call, see};
use crate::metrics::{FlowMetrics, LinkMetrics, SizeClass};
use crate::network::{ARRIVED, EXPRESS, FlowId, LinkId};
use crate::packet::{Proto, SimPacket, TCP_HEADER, UDP_HEADER};
use crate::tcp::{Config, Endpoint, Flags, Segment, State};
use crate::workload::{Direction, FlowSpec, Transport, Workload};

const KIND_SHIFT: u32 = 21;
const INDEX_MASK: u32 = (1 << KIND_SHIFT) - 1;

/// Whose event it is, in the upper bits of the event's target.
#[derive(Clone, Copy)]
#[repr(u32)]
enum Kind {
    /// A packet arrives at the end of a link.
    Land,
    /// A transmitter is free, or a discipline's deadline has come.
    Transmit,
    /// The timer of one end of a connection.
    Timer,
    /// A source acts.
    Source,
    /// A source ends.
    Stop,
    /// The router behind a driver has looked at a packet.
    Forward,
    /// The kernel timer of a driver.
    Poll,
}

const fn target(kind: Kind, index: u32) -> u32 {
    (kind as u32) << KIND_SHIFT | index
}

/// The ways of a flow.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Plan {
    /// Where the ways there and back begin in the table of routes.
    pub routes: [u32; 2],
    /// Their propagation delays and slowest links.
    pub ideal: [(u64, Rate); 2],
}

/// What a connection is for.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Role {
    /// One transfer from the client, which may have no end.
    Upload { size: Option<u64> },
    /// A request, and the transfer as answer.
    Download { request: u64, size: u64, answered: bool },
    /// Requests and answers for ever.
    Requests {
        /// Bytes of the first request, of all requests so far, and of those that the server has answered.
        request: u64,
        asked: u64,
        served: u64,
        /// Bytes of the current answer, of all answers so far, and of those that the client has.
        response: u64,
        answered: u64,
        taken: u64,
        asked_at: u64,
    },
    /// Data as the source makes it.
    Stream,
}

/// A connection: both ends, and the ways between.
struct Connection {
    /// Unique; 0 for an empty slot.
    number: u64,
    ends: [Endpoint; 2],
    /// The pending timer events.
    armed: [u64; 2],
    /// What the ends had received when we last looked.
    seen: [u64; 2],
    role: Role,
    group: u16,
    opened: u64,
    connected: bool,
    completed: bool,
    /// Timeouts already booked.
    timeouts: [u64; 2],
}

/// What sends, as far as it changes over time.
struct Source {
    random: Stream,
    /// The open connections, where their number is bounded.
    open: u32,
    /// The connection of a source that has one.
    slot: Option<u32>,
    /// On/off: when the current burst ends.
    burst_end: u64,
    /// Trace: the next entry.
    entry: usize,
    stopped: bool,
    /// Datagrams so far, for their sequence numbers.
    datagrams: u32,
}

/// A network that runs. Made by [`Network::build`](crate::Network::build).
pub struct Simulation {
    now: u64,
    events: EventQueue,
    links: Vec<Link>,
    packets: Slab,
    link_names: Vec<String>,
    routes: Vec<u32>,
    flows: Vec<FlowSpec>,
    plans: Vec<Plan>,
    metrics: Vec<FlowMetrics>,
    sources: Vec<Source>,
    connections: Vec<Option<Box<Connection>>>,
    free: Vec<u32>,
    next_number: u64,
    warm_up: u64,
    horizon: u64,
    hops: u64,
}

impl Simulation {
    #[expect(clippy::too_many_arguments, reason = "the parts of a network, from the one place that checked them")]
    pub(crate) fn new(
        seed: u64,
        warm_up: Span,
        links: Vec<Link>,
        link_names: Vec<String>,
        routes: Vec<u32>,
        mut flows: Vec<FlowSpec>,
        plans: Vec<Plan>,
        metrics: Vec<FlowMetrics>,
    ) -> Self {
        let mut events = EventQueue::default();
        let mut sources = Vec::with_capacity(flows.len());
        for (index, flow) in flows.iter_mut().enumerate() {
            if !flow.jitter.is_zero() {
                let late = Stream::named(seed, &format!("start {}", flow.name)).below(flow.jitter.as_nanos());
                flow.start += Span::from_nanos(late);
            }
            events.push(flow.start.as_nanos(), target(Kind::Source, index as u32));
            if let Some(stop) = flow.stop {
                events.push(stop.as_nanos(), target(Kind::Stop, index as u32));
            }
            sources.push(Source {
                random: Stream::named(seed, &format!("source {}", flow.name)),
                open: 0,
                slot: None,
                burst_end: 0,
                entry: 0,
                stopped: false,
                datagrams: 0,
            });
        }
        Self {
            now: 0,
            events,
            links,
            packets: Slab::default(),
            link_names,
            routes,
            flows,
            plans,
            metrics,
            sources,
            connections: Vec::new(),
            free: Vec::new(),
            next_number: 1,
            warm_up: warm_up.as_nanos(),
            horizon: 0,
            hops: 0,
        }
    }

    // ------------------------------------------------------------------ the outside

    /// Runs until `end`, events at `end` included. May be called again with a later time.
    pub fn run_until(&mut self, end: Instant) {
        self.horizon = end.as_nanos();
        while let Some(due) = self.events.pop_until(self.horizon) {
            debug_assert!(due.time >= self.now, "time ran back");
            self.now = due.time;
            let index = due.target & INDEX_MASK;
            match due.target >> KIND_SHIFT {
                kind if kind == Kind::Land as u32 => self.on_land(index),
                kind if kind == Kind::Transmit as u32 => self.on_transmit(index),
                kind if kind == Kind::Timer as u32 => self.on_timer(index),
                kind if kind == Kind::Source as u32 => self.on_source(index),
                kind if kind == Kind::Forward as u32 => self.on_forward(index),
                kind if kind == Kind::Poll as u32 => self.on_poll(index),
                _ => self.on_stop(index),
            }
        }
        self.now = self.horizon;
    }

    /// The simulated time.
    pub fn now(&self) -> Instant {
        Instant::from_nanos(self.now)
    }
    /// The time that was measured: since the warm-up.
    pub fn measured(&self) -> Span {
        Span::from_nanos(self.now.saturating_sub(self.warm_up))
    }
    /// What was measured of a flow.
    pub fn flow(&self, flow: FlowId) -> &FlowMetrics {
        &self.metrics[flow.index()]
    }
    /// All flows with their metrics, in the order of making.
    pub fn flows(&self) -> impl Iterator<Item = (&FlowSpec, &FlowMetrics)> {
        self.flows.iter().zip(&self.metrics)
    }
    /// What was measured of a link.
    pub fn link(&self, link: LinkId) -> &LinkMetrics {
        &self.links[link.index()].metrics
    }
    /// All links by name with their metrics, in the order of making.
    pub fn links(&self) -> impl Iterator<Item = (&str, &LinkMetrics)> {
        self.link_names.iter().map(String::as_str).zip(self.links.iter().map(|link| &link.metrics))
    }
    /// What waits before the transmitter of a link. (Of a link that only one other feeds, the arrivals that are
    /// already known are part of it.)
    pub fn backlog(&self, link: LinkId) -> Backlog {
        self.links[link.index()].backlog()
    }
    /// The two ends of a flow that has one connection, while it is open: the one that opened it first.
    pub fn endpoints(&self, flow: FlowId) -> Option<[&Endpoint; 2]> {
        let slot = self.sources[flow.index()].slot?;
        let connection = self.connections[slot as usize].as_ref()?;
        Some([&connection.ends[0], &connection.ends[1]])
    }
    /// Asks the discipline of `link` again: call it after changing one from outside.
    pub fn kick(&mut self, link: LinkId) {
        self.schedule_transmit(link.0);
    }
    /// Events handled so far.
    pub fn events(&self) -> u64 {
        self.events.handled()
    }
    /// Packets that links took so far: what a simulator with an event for each packet and hop would at least handle.
    pub fn hops(&self) -> u64 {
        self.hops
    }
    /// Events that are pending.
    pub fn pending(&self) -> usize {
        self.events.len()
    }
    /// Connections that are open.
    pub fn open_connections(&self) -> usize {
        self.connections.len() - self.free.len()
    }

    /// About how many bytes the run holds, its code and the disciplines' own memory aside: what is in flight, what is
    /// open, and the statistics.
    pub fn footprint(&self) -> usize {
        let histograms = self.metrics.iter().map(FlowMetrics::footprint).sum::<usize>()
            + self.links.iter().map(|link| link.metrics.footprint()).sum::<usize>();
        self.packets.capacity() * size_of::<SimPacket>()
            + self.events.len() * 32
            + self.connections.len() * (8 + size_of::<Connection>())
            + self.links.len() * size_of::<Link>()
            + histograms
    }

    fn measuring(&self) -> bool {
        self.now >= self.warm_up
    }

    // ------------------------------------------------------------------ links

    /// Puts a packet on its way over the next link of its route.
    fn forward(&mut self, index: u32) {
        self.hops += 1;
        let (now, measuring) = (self.now, self.measuring());
        let packet = self.packets.at(index);
        let entry = self.routes[packet.hop as usize];
        debug_assert_ne!(entry, ARRIVED, "a route has at least one link");
        packet.hop += 1;
        let link = entry & !EXPRESS;
        let l = &mut self.links[link as usize];
        let mut ledger = Ledger { flows: &mut self.metrics, measuring };
        if let Queue::Tail { .. } = l.queue {
            match l.pass(now, packet, &mut ledger) {
                Some(arrival) => self.launch(link, arrival, index),
                None => self.packets.free(index),
            }
            return;
        }
        let admitted = l.hooks.is_none() || l.admit(now, packet, &mut ledger);
        packet.queued = now;
        let packet = *packet;
        self.packets.free(index);
        if !admitted {
            return;
        }
        if let Queue::Driver(..) = l.queue {
            self.offer_driver(link, packet);
            return;
        }
        let Link { queue: Queue::Discipline(qdisc), metrics, hooks, .. } = l else { return };
        qdisc.enqueue(Instant::from_nanos(now), packet, &mut DropBook { now, metrics, hooks, ledger: &mut ledger });
        if l.watched && measuring {
            let packets = l.backlog().packets;
            l.observe_backlog(now, packets);
        }
        if l.free_at <= now {
            // Idle: the packet, or another, leaves at once, unless a shaper holds it.
            self.serve(link);
        } else if l.transmit_at != l.free_at {
            self.schedule_transmit(link);
        }
    }

    /// The transmitter of `link` is free: takes what the discipline gives.
    fn serve(&mut self, link: u32) {
        let (now, measuring) = (self.now, self.measuring());
        let l = &mut self.links[link as usize];
        let mut ledger = Ledger { flows: &mut self.metrics, measuring };
        let mut departure = None;
        loop {
            let Link { queue: Queue::Discipline(qdisc), metrics, hooks, .. } = l else { return };
            let book = &mut DropBook { now, metrics, hooks, ledger: &mut ledger };
            let Some(mut packet) = qdisc.dequeue(Instant::from_nanos(now), book) else { break };
            if l.hooks.is_some() {
                l.see(now, Stage::Dequeued, &packet);
                // What a policer behind the queue drops leaves the transmitter free for the next.
                if !l.release(now, &mut packet, &mut ledger) {
                    continue;
                }
            }
            departure = l.transmit(now, &packet, &mut ledger).map(|arrival| (arrival, packet));
            break;
        }
        l.fruitless = if l.free_at > now || l.fruitless.0 != now { (now, 0) } else { (now, l.fruitless.1 + 1) };
        let fruitless = l.fruitless.1;
        if let Some((arrival, packet)) = departure {
            let index = self.packets.insert(&packet);
            self.launch(link, arrival, index);
        }
        // Better a word than a loop without end.
        assert!(
            fruitless < 1_000_000,
            "the discipline of link {} keeps promising a packet and gives none (law 3)",
            self.link_names[link as usize]
        );
        self.schedule_transmit(link);
    }

    /// Sees to it that `link` is served as soon as there is something to serve and the transmitter is free.
    fn schedule_transmit(&mut self, link: u32) {
        let now = self.now;
        let l = &mut self.links[link as usize];
        let Queue::Discipline(qdisc) = &l.queue else {
            if let Queue::Driver(..) = l.queue {
                self.schedule_poll(link);
            }
            return;
        };
        if qdisc.backlog().is_empty() {
            return;
        }
        let Some(call) = next_call(qdisc.as_ref(), now) else { return };
        let at = if call <= l.free_at.max(now) { l.free_at.max(now) } else { l.noticed(call) };
        if at < l.transmit_at || l.transmit_at < now {
            l.transmit_at = at;
            self.events.push(at, target(Kind::Transmit, link));
        }
    }

    fn on_transmit(&mut self, link: u32) {
        let l = &mut self.links[link as usize];
        if let Queue::Driver(..) = l.queue {
            self.on_sent(link);
            return;
        }
        // An event that an earlier one overtook says nothing.
        if l.transmit_at == self.now {
            l.transmit_at = NEVER;
            if l.free_at <= self.now {
                self.serve(link);
            } else {
                self.schedule_transmit(link);
            }
        }
    }

    /// Puts a packet on the line of `link`, and through the links behind it that nothing else feeds.
    #[inline]
    fn launch(&mut self, mut link: u32, mut arrival: u64, index: u32) {
        let measuring = self.measuring();
        let packet = self.packets.at(index);
        loop {
            let next = self.routes[packet.hop as usize];
            if next == ARRIVED || next & EXPRESS == 0 {
                break;
            }
            // The arrivals at `next` come in order already, so its departures can be told now.
            packet.hop += 1;
            self.hops += 1;
            link = next & !EXPRESS;
            let mut ledger = Ledger { flows: &mut self.metrics, measuring };
            match self.links[link as usize].pass(arrival, packet, &mut ledger) {
                Some(at) => arrival = at,
                None => {
                    self.packets.free(index);
                    return;
                }
            }
        }
        if self.links[link as usize].launch(arrival, index) {
            self.events.push(arrival, target(Kind::Land, link));
        }
    }

    fn on_land(&mut self, link: u32) {
        let (index, next) = self.links[link as usize].land();
        if let Some(next) = next {
            self.events.push(next, target(Kind::Land, link));
        }
        if self.routes[self.packets.at(index).hop as usize] == ARRIVED {
            let packet = *self.packets.at(index);
            self.packets.free(index);
            self.deliver(&packet);
        } else {
            self.forward(index);
        }
    }

    // ------------------------------------------------------------------ drivers

    fn offer_driver(&mut self, link: u32, packet: SimPacket) {
        let Queue::Driver(_, driver) = &mut self.links[link as usize].queue else { return };
        let (forwarding, on_receive) = (driver.params.forwarding.as_nanos(), driver.params.on_receive);
        if on_receive {
            self.call_driver(link);
        }
        let Queue::Driver(_, driver) = &mut self.links[link as usize].queue else { return };
        driver.forwarding.push_back((self.now + forwarding, packet));
        if driver.forwarding.len() == 1 {
            self.events.push(self.now + forwarding, target(Kind::Forward, link));
        }
    }

    fn on_forward(&mut self, link: u32) {
        let (now, measuring) = (self.now, self.measuring());
        let l = &mut self.links[link as usize];
        let Link { queue: Queue::Driver(qdisc, driver), metrics, hooks, .. } = l else { return };
        let Some((_, mut packet)) = driver.forwarding.pop_front() else { return };
        if let Some(&(next, _)) = driver.forwarding.front() {
            self.events.push(next, target(Kind::Forward, link));
        }
        packet.queued = now;
        let mut ledger = Ledger { flows: &mut self.metrics, measuring };
        qdisc.enqueue(Instant::from_nanos(now), packet, &mut DropBook { now, metrics, hooks, ledger: &mut ledger });
        if l.watched && measuring {
            let packets = l.backlog().packets;
            l.observe_backlog(now, packets);
        }
        self.call_driver(link);
    }

    /// One call of the driver: from the discipline to the software buffer, from there to the hardware, from there to
    /// the line.
    fn call_driver(&mut self, link: u32) {
        let (now, measuring) = (self.now, self.measuring());
        let l = &mut self.links[link as usize];
        let mut ledger = Ledger { flows: &mut self.metrics, measuring };
        loop {
            let Link { queue: Queue::Driver(qdisc, driver), metrics, hooks, .. } = l else { return };
            if !driver.has_room() {
                break;
            }
            let book = &mut DropBook { now, metrics, hooks, ledger: &mut ledger };
            let Some(mut packet) = qdisc.dequeue(Instant::from_nanos(now), book) else { break };
            l.see(now, Stage::Dequeued, &packet);
            if !l.release(now, &mut packet, &mut ledger) {
                continue;
            }
            let Queue::Driver(_, driver) = &mut l.queue else { return };
            driver.software_bytes += u64::from(packet.size);
            driver.software.push_back(packet);
            if driver.params.service == Service::OnePerCall {
                break;
            }
        }
        self.pump_hardware(link);
        self.schedule_poll(link);
    }

    fn pump_hardware(&mut self, link: u32) {
        let (now, measuring) = (self.now, self.measuring());
        let l = &mut self.links[link as usize];
        let Link { queue: Queue::Driver(_, driver), hooks, .. } = l else { return };
        driver.fill_hardware(|packet| see(hooks, now, Stage::Hardware, packet));
        if driver.sending {
            return;
        }
        let Some(&packet) = driver.hardware.front() else { return };
        driver.sending = true;
        let mut ledger = Ledger { flows: &mut self.metrics, measuring };
        let arrival = l.transmit(now, &packet, &mut ledger);
        self.events.push(l.free_at, target(Kind::Transmit, link));
        if let Some(arrival) = arrival {
            let index = self.packets.insert(&packet);
            self.launch(link, arrival, index);
        }
    }

    /// The hardware has sent a packet, and interrupts.
    fn on_sent(&mut self, link: u32) {
        let Queue::Driver(_, driver) = &mut self.links[link as usize].queue else { return };
        driver.sending = false;
        if let Some(packet) = driver.hardware.pop_front() {
            driver.hardware_bytes -= u64::from(packet.size);
        }
        self.pump_hardware(link);
        self.call_driver(link);
    }

    /// Lets the kernel timer wake the driver when the discipline's deadline has passed.
    fn schedule_poll(&mut self, link: u32) {
        let now = self.now;
        let l = &mut self.links[link as usize];
        let Queue::Driver(qdisc, driver) = &l.queue else { return };
        if !driver.has_room() || qdisc.backlog().is_empty() {
            return;
        }
        // What may leave now leaves with the next interrupt, and there is one: packets are in the hardware.
        let interrupt = driver.sending;
        let Some(call) = next_call(qdisc.as_ref(), now) else { return };
        if call <= now && interrupt {
            return;
        }
        let at = l.noticed(call.max(now));
        let Queue::Driver(_, driver) = &mut l.queue else { return };
        if at < driver.poll_at || driver.poll_at < now {
            driver.poll_at = at;
            self.events.push(at, target(Kind::Poll, link));
        }
    }

    fn on_poll(&mut self, link: u32) {
        let Queue::Driver(_, driver) = &mut self.links[link as usize].queue else { return };
        if driver.poll_at == self.now {
            driver.poll_at = NEVER;
            self.call_driver(link);
        }
    }

    // ------------------------------------------------------------------ hosts

    fn deliver(&mut self, packet: &SimPacket) {
        let measuring = self.measuring();
        let payload = u64::from(packet.payload());
        if measuring {
            let metrics = &mut self.metrics[usize::from(packet.group)];
            metrics.marked += u64::from(packet.segment.ecn == Ecn::Ce);
            if payload > 0 {
                metrics.arrived[packet.colour as usize].count(packet.size);
                metrics.delay_ns.record(self.now - packet.sent);
            }
            if packet.transport == Proto::Udp {
                metrics.goodput_bytes += payload;
                if let Some(series) = &mut metrics.series {
                    series.add(Instant::from_nanos(self.now), payload);
                }
            }
        }
        if packet.transport == Proto::Udp {
            return;
        }
        // A packet of a connection that is over finds its slot empty, or another's.
        let Some(Some(connection)) = self.connections.get_mut(packet.slot as usize) else { return };
        if connection.number != packet.flow >> 1 {
            return;
        }
        // What the client sent goes to the server.
        let side = 1 - (packet.flow & 1) as usize;
        connection.ends[side].on_segment(Instant::from_nanos(self.now), &packet.segment);
        self.attend(packet.slot, side);
    }

    /// Sends what one end of a connection has to send, arms its timer, and acts on what it has received.
    fn attend(&mut self, slot: u32, side: usize) {
        self.react(slot, side);
        self.pump(slot, side);
    }

    fn pump(&mut self, slot: u32, side: usize) {
        let now = Instant::from_nanos(self.now);
        let measuring = self.measuring();
        loop {
            let Some(connection) = &mut self.connections[slot as usize] else { return };
            let end = &mut connection.ends[side];
            let Some(segment) = end.poll(now) else { break };
            let remaining = end.unsent().map_or(u32::MAX, |bytes| u32::try_from(bytes).unwrap_or(u32::MAX - 1));
            let (flow, group) = (connection.number << 1 | side as u64, connection.group);
            let size = TCP_HEADER + segment.option_bytes() + segment.len;
            if measuring && segment.len > 0 {
                let metrics = &mut self.metrics[usize::from(group)];
                metrics.sent.count(size);
                if segment.flags.has(Flags::AGAIN) {
                    metrics.retransmitted.count(size);
                }
            }
            self.send(flow, group, slot, side, segment, size, remaining, Proto::Tcp);
        }
        let Some(connection) = &mut self.connections[slot as usize] else { return };
        let end = &mut connection.ends[side];
        end.settle(now);
        if let Some(deadline) = end.deadline() {
            // A later deadline finds the earlier event, which then looks again.
            if deadline.as_nanos() < connection.armed[side] {
                connection.armed[side] = deadline.as_nanos();
                let index = slot << 1 | side as u32;
                self.events.push(deadline.as_nanos(), target(Kind::Timer, index));
            }
        }
    }

    #[expect(clippy::too_many_arguments, reason = "one call for both transports, in the hot path")]
    #[inline]
    fn send(
        &mut self,
        flow: u64,
        group: u16,
        slot: u32,
        side: usize,
        segment: Segment,
        size: u32,
        remaining: u32,
        transport: Proto,
    ) {
        let spec = &self.flows[usize::from(group)];
        let (source, destination) = if side == 0 { (spec.from, spec.to) } else { (spec.to, spec.from) };
        let packet = SimPacket {
            flow,
            sent: self.now,
            queued: self.now,
            segment,
            remaining,
            slot,
            hop: self.plans[usize::from(group)].routes[side],
            size,
            source: source.0,
            destination: destination.0,
            class: spec.class,
            profile: spec.profile,
            group,
            dscp: spec.dscp,
            colour: Colour::Green,
            transport,
        };
        let index = self.packets.insert(&packet);
        self.forward(index);
    }

    fn on_timer(&mut self, index: u32) {
        let (slot, side) = (index >> 1, (index & 1) as usize);
        let Some(Some(connection)) = self.connections.get_mut(slot as usize) else { return };
        if connection.armed[side] != self.now {
            return;
        }
        connection.armed[side] = NEVER;
        let now = Instant::from_nanos(self.now);
        connection.ends[side].on_timer(now);
        let timeouts = connection.ends[side].counters().timeouts;
        let fresh = timeouts - connection.timeouts[side];
        connection.timeouts[side] = timeouts;
        let group = usize::from(connection.group);
        if fresh > 0 && self.measuring() {
            self.metrics[group].timeouts += fresh;
        }
        self.attend(slot, side);
    }

    // ------------------------------------------------------------------ applications

    fn open(&mut self, flow: u32, role: Role) -> u32 {
        let now = Instant::from_nanos(self.now);
        let spec = &self.flows[flow as usize];
        let config = match &spec.transport {
            Transport::Tcp(config) => *config,
            Transport::Udp { .. } => Config::default(),
        };
        let mut client = Endpoint::connect(config, now);
        match role {
            Role::Upload { size: None } => client.write_endlessly(),
            Role::Upload { size: Some(size) } => {
                client.write(size);
                client.close();
            }
            Role::Download { request, .. } | Role::Requests { request, .. } => client.write(request),
            Role::Stream => {}
        }
        let connection = Box::new(Connection {
            number: self.next_number,
            ends: [client, Endpoint::listen(config)],
            armed: [NEVER; 2],
            seen: [0; 2],
            role,
            group: flow as u16,
            opened: self.now,
            connected: false,
            completed: false,
            timeouts: [0; 2],
        });
        self.next_number += 1;
        let slot = match self.free.pop() {
            Some(slot) => {
                self.connections[slot as usize] = Some(connection);
                slot
            }
            None => {
                self.connections.push(Some(connection));
                self.connections.len() as u32 - 1
            }
        };
        assert!(slot < 1 << (KIND_SHIFT - 1), "more than a million connections are open");
        self.sources[flow as usize].open += 1;
        if self.measuring() {
            self.metrics[flow as usize].opened += 1;
        }
        self.pump(slot, 0);
        slot
    }

    /// Acts on what an end has received, and on its state.
    fn react(&mut self, slot: u32, side: usize) {
        let measuring = self.measuring();
        let Some(connection) = &mut self.connections[slot as usize] else { return };
        let group = usize::from(connection.group);
        let metrics = &mut self.metrics[group];
        let received = connection.ends[side].received();
        let news = received - connection.seen[side];
        connection.seen[side] = received;
        if news > 0 && measuring {
            metrics.goodput_bytes += news;
            if let Some(series) = &mut metrics.series {
                series.add(Instant::from_nanos(self.now), news);
            }
        }
        if side == 0 && !connection.connected && connection.ends[0].established_at().is_some() {
            connection.connected = true;
            if measuring {
                metrics.connect_ns.record(self.now - connection.opened);
            }
        }
        let mut complete = None;
        let mut think = false;
        let closed = connection.ends[side].peer_closed();
        match &mut connection.role {
            Role::Upload { size } => {
                if side == 1 && closed && !connection.completed {
                    complete = *size;
                    connection.ends[1].close();
                }
            }
            Role::Download { request, size, answered } => {
                if side == 1 && !*answered && received >= *request {
                    *answered = true;
                    connection.ends[1].write(*size);
                    connection.ends[1].close();
                } else if side == 0 && closed && !connection.completed {
                    complete = Some(*size);
                    connection.ends[0].close();
                }
            }
            Role::Requests { asked, served, response, answered, taken, asked_at, .. } => {
                if side == 1 && received >= *asked && *served < *asked {
                    *served = *asked;
                    connection.ends[1].write(*response);
                } else if side == 0 && received >= *answered && *taken < *answered {
                    *taken = *answered;
                    think = true;
                    if measuring {
                        let time = self.now - *asked_at;
                        book_completion(metrics, &self.plans[group], [0, 1], *response, time);
                    }
                }
                if side == 1 && closed {
                    connection.ends[1].close();
                }
            }
            Role::Stream => {
                if closed && side == 1 {
                    connection.ends[1].close();
                }
            }
        }
        if let Some(size) = complete {
            connection.completed = true;
            if measuring {
                let ways = if side == 1 { [1, 0] } else { [0, 1] };
                book_completion(metrics, &self.plans[group], ways, size, self.now - connection.opened);
            }
        }
        let failed = connection.ends.iter().any(|end| end.state() == State::Closed)
            && !(connection.completed || connection.ends[side].peer_closed());
        if failed && measuring {
            metrics.failed += 1;
        }
        let over = failed || connection.ends.iter().all(Endpoint::is_over);
        if think {
            let flow = group as u32;
            self.think(flow);
        }
        if over {
            // An acknowledgement that is still owed would go to an end that is over too.
            self.connections[slot as usize] = None;
            self.free.push(slot);
            let source = &mut self.sources[group];
            source.open -= 1;
            if source.slot == Some(slot) {
                source.slot = None;
            }
        }
    }

    /// Pauses before the next request.
    fn think(&mut self, flow: u32) {
        let Workload::Requests { think, .. } = &self.flows[flow as usize].workload else { return };
        let pause = think.sample_span(&mut self.sources[flow as usize].random).as_nanos();
        self.events.push(self.now.saturating_add(pause), target(Kind::Source, flow));
    }

    // ------------------------------------------------------------------ sources

    fn on_stop(&mut self, flow: u32) {
        let source = &mut self.sources[flow as usize];
        source.stopped = true;
        if let Some(slot) = source.slot
            && let Some(connection) = &mut self.connections[slot as usize]
        {
            connection.ends[0].finish();
            self.pump(slot, 0);
        }
    }

    fn on_source(&mut self, flow: u32) {
        let index = flow as usize;
        if self.sources[index].stopped {
            return;
        }
        let spec = &self.flows[index];
        let source = &mut self.sources[index];
        let random = &mut source.random;
        let mut wait = None;
        match &spec.workload {
            Workload::Bulk { bytes } => {
                let role = Role::Upload { size: bytes.map(|bytes| bytes.as_u64()) };
                let slot = self.open(flow, role);
                self.sources[index].slot = Some(slot);
            }
            Workload::Constant { rate, packet } => {
                wait = rate.time_for_ceil(*packet);
                let size = packet.as_u64() as u32;
                self.emit(flow, size);
            }
            Workload::Poisson { rate, packet } => {
                let mean = rate.time_for_ceil(*packet).unwrap_or(Span::MAX).as_secs_f64();
                wait = Some(Distribution::Exponential { mean }.sample_span(random));
                let size = packet.as_u64() as u32;
                self.emit(flow, size);
            }
            Workload::OnOff { rate, packet, on, off } => {
                if self.now >= source.burst_end {
                    // A burst begins here.
                    source.burst_end = self.now.saturating_add(on.sample_span(random).as_nanos());
                }
                let gap = rate.time_for_ceil(*packet).unwrap_or(Span::MAX).as_nanos();
                let next = self.now.saturating_add(gap);
                let size = packet.as_u64() as u32;
                let sends = self.now < source.burst_end;
                if next < source.burst_end {
                    wait = Some(Span::from_nanos(gap));
                } else {
                    let silence = off.sample_span(random).as_nanos();
                    let begin = source.burst_end.max(if sends { next } else { self.now }).saturating_add(silence);
                    source.burst_end = begin;
                    // At least a nanosecond: two empty periods in a row must not stop the clock.
                    wait = Some(Span::from_nanos((begin - self.now).max(1)));
                }
                if sends {
                    self.emit(flow, size);
                }
            }
            Workload::Mice { interval, size, direction, most_open } => {
                wait = Some(interval.sample_span(random));
                let size = size.sample_bytes(random).as_u64();
                let role = match direction {
                    Direction::Upload => Role::Upload { size: Some(size) },
                    Direction::Download { request } => {
                        Role::Download { request: request.as_u64().max(1), size, answered: false }
                    }
                };
                if source.open < *most_open {
                    self.open(flow, role);
                } else if self.measuring() {
                    self.metrics[index].refused += 1;
                }
            }
            Workload::Requests { request, response, .. } => {
                let request = request.sample_bytes(random).as_u64();
                let response = response.sample_bytes(random).as_u64();
                match source.slot {
                    None => {
                        let role = Role::Requests {
                            request,
                            asked: request,
                            served: 0,
                            response,
                            answered: response,
                            taken: 0,
                            asked_at: self.now,
                        };
                        let slot = self.open(flow, role);
                        self.sources[index].slot = Some(slot);
                    }
                    Some(slot) => {
                        let Some(connection) = &mut self.connections[slot as usize] else { return };
                        if let Role::Requests { asked, response: next, answered, asked_at, .. } = &mut connection.role {
                            *asked += request;
                            *next = response;
                            *answered += response;
                            *asked_at = self.now;
                        }
                        connection.ends[0].write(request);
                        self.pump(slot, 0);
                    }
                }
            }
            Workload::Trace(entries) => {
                let Some(&(_, size)) = entries.get(source.entry) else { return };
                // The first event is the start of the flow, not of the first entry.
                let due = spec.start.as_nanos().saturating_add(entries[source.entry].0.as_nanos());
                if due > self.now {
                    wait = Some(Span::from_nanos(due - self.now));
                } else {
                    source.entry += 1;
                    if let Some(&(next, _)) = entries.get(source.entry) {
                        let next = spec.start.as_nanos().saturating_add(next.as_nanos());
                        wait = Some(Span::from_nanos(next.saturating_sub(self.now)));
                    }
                    let size = size.as_u64();
                    match spec.transport {
                        Transport::Tcp(_) => {
                            self.open(flow, Role::Upload { size: Some(size.max(1)) });
                        }
                        Transport::Udp { .. } => self.emit(flow, size.min(65_535) as u32),
                    }
                }
            }
        }
        if let Some(wait) = wait {
            self.events.push(self.now.saturating_add(wait.as_nanos()), target(Kind::Source, flow));
        }
    }

    /// A source makes a packet of `size` bytes on the link: a datagram, or as much data for its connection.
    fn emit(&mut self, flow: u32, size: u32) {
        let index = flow as usize;
        match self.flows[index].transport {
            Transport::Udp { ecn } => {
                let source = &mut self.sources[index];
                let number = source.datagrams;
                source.datagrams = number.wrapping_add(1);
                let segment = Segment {
                    seq: number,
                    len: size.saturating_sub(UDP_HEADER),
                    ecn: if ecn { Ecn::Ect0 } else { Ecn::NotEct },
                    ..Segment::default()
                };
                if self.measuring() {
                    self.metrics[index].sent.count(size);
                }
                // The top bit keeps datagrams apart from connections.
                let number = 1 << 63 | u64::from(flow) << 1;
                self.send(number, flow as u16, flow, 0, segment, size, u32::MAX, Proto::Udp);
            }
            Transport::Tcp(_) => {
                let slot = match self.sources[index].slot {
                    Some(slot) => slot,
                    None => {
                        let slot = self.open(flow, Role::Stream);
                        self.sources[index].slot = Some(slot);
                        slot
                    }
                };
                if let Some(connection) = &mut self.connections[slot as usize] {
                    connection.ends[0].write(u64::from(size));
                    self.pump(slot, 0);
                }
            }
        }
    }
}

/// Books a transfer of `size` bytes that took `time`; `ways` are the way of the first packet and that of the data.
fn book_completion(metrics: &mut FlowMetrics, plan: &Plan, ways: [usize; 2], size: u64, time: u64) {
    let class = SizeClass::of(tidegate_core::Bytes::new(size)) as usize;
    metrics.completed += 1;
    metrics.completion_ns.record(time);
    metrics.completion_by_size_ns[class].record(time);
    // One round trip for the handshake, then the data, one segment of headers for each 1460 bytes.
    let ((there, _), (data, rate)) = (plan.ideal[ways[0]], plan.ideal[ways[1]]);
    let bytes = size + size.div_ceil(1460) * u64::from(TCP_HEADER);
    let sending = rate.time_for_ceil(tidegate_core::Bytes::new(bytes)).unwrap_or(Span::MAX).as_nanos();
    let ideal = (there + 2 * data).saturating_add(sending).max(1);
    metrics.slowdown_milli[class].record((u128::from(time) * 1000 / u128::from(ideal)) as u64);
}

impl core::fmt::Debug for Simulation {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        write!(f, "Simulation at {} ns, {} events pending", self.now, self.events.len())
    }
}
