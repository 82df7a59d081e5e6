//! [`Simulation`]: the event loop, which lets links, connections and sources act in the order of time.

mod applications;
mod drivers;
mod hosts;
mod lines;
mod paths;
mod regions;
mod shapers;
mod sources;
mod traces;
mod transfers;

use std::collections::BTreeMap;

use tidegate_core::random::Stream;
use tidegate_core::{Backlog, Instant, Rate, Span};

use crate::applications::{Application, Experience};
use crate::event::{Due, EventQueue};
use crate::follow::Follower;
use crate::ids::{ARRIVED, EXPRESS, FlowId, LinkId};
use crate::link::{Discipline, FlowCounters, Link, NEVER, Queue, Slab, next_call};
use crate::metrics::{FlowMetrics, LinkMetrics};
use crate::packet::SimPacket;
use crate::tcp::Endpoint;
use crate::trace::SharedTracer;
use crate::transport::{AnyEnd, SenderState};
use crate::workload::FlowSpec;
pub(crate) use regions::RegionLink;
use regions::{Elsewhere, Region};
use shapers::schedule_watch;

const KIND_SHIFT: u32 = 21;
const INDEX_MASK: u32 = (1 << KIND_SHIFT) - 1;

/// The kind of an event, in the upper bits of its target.
#[derive(Clone, Copy)]
#[repr(u32)]
enum EventKind {
    /// A packet arrives at the end of a link.
    Land,
    /// A transmitter is free, or the deadline of a discipline has come.
    Transmit,
    /// The timer of one end of a connection.
    Timer,
    /// A source acts.
    Source,
    /// A source ends.
    Stop,
    /// The router has processed a packet that a driver received.
    Forward,
    /// The kernel timer of a driver.
    Poll,
    /// The watched flows of a shaper are to be polled; or, from [`FOLLOWER`] on, a control that follows a line is to decide.
    Watch,
}

/// Events of kind [`EventKind::Watch`] with this bit are for the follower with the number in the others: there are fewer links.
const FOLLOWER: u32 = 1 << 20;

const fn target(kind: EventKind, index: u32) -> u32 {
    (kind as u32) << KIND_SHIFT | index
}

/// The paths of a flow in both directions.
#[derive(Clone, Copy, Debug)]
pub(crate) struct FlowPaths {
    /// Where the forward and the reverse path begin in the routing table.
    pub routes: [u32; 2],
    /// The propagation delay in ns and the slowest rate of each path.
    pub ideal: [(u64, Rate); 2],
    /// The flow to whose histograms its delays and completion times are added.
    pub pool: u32,
}

/// The way in which the workload uses a connection.
#[derive(PartialEq, Eq, Debug)]
enum Role {
    /// One transfer from the client, endless without a size.
    Upload { size: Option<u64> },
    /// A request from the client, which the server answers with the transfer.
    Download { request: u64, size: u64, answered: bool },
    /// Any number of requests and answers.
    Requests(Box<Exchange>),
    /// Data from the client, as its source generates it.
    Stream,
}

/// The progress of requests and answers on a connection.
#[derive(PartialEq, Eq, Debug)]
struct Exchange {
    /// Bytes of the first request, of all requests so far, and of the requests that the server has answered.
    request: u64,
    asked: u64,
    served: u64,
    /// Bytes of the current answer, of all answers so far, and of the answers that the client has received in full.
    response: u64,
    answered: u64,
    taken: u64,
    asked_at: u64,
}

struct Connection {
    /// A number that is unique in the run.
    number: u64,
    ends: [AnyEnd; 2],
    /// When the pending timer events of the ends are due.
    armed: [u64; 2],
    /// Bytes that have arrived at each end and have been counted in the measurements.
    counted: [u64; 2],
    role: Role,
    group: u32,
    opened: u64,
    connected: bool,
    completed: bool,
    /// Timeouts of each end that have been counted, and marks that have been reported to it.
    timeouts: [u64; 2],
    marks_reported: [u64; 2],
}

struct Source {
    random: Stream,
    /// The number of open connections.
    open: u32,
    /// The connection of a source that uses one at a time.
    slot: Option<u32>,
    /// When the current burst of an on/off source ends.
    burst_end: u64,
    /// The next entry of a source that replays a trace.
    entry: usize,
    stopped: bool,
    /// When it acts next. Source events at other times are obsolete.
    due: u64,
    /// Datagrams sent so far, which serves as the sequence number.
    datagrams: u32,
    application: Option<Box<Application>>,
}

/// A half-duplex line: one of its two directions transmits at a time.
#[derive(Debug)]
struct SharedLine {
    free_at: u64,
    /// The direction that transmitted last, and whether the other one has been waiting since.
    last: u32,
    waits: bool,
}

impl Default for SharedLine {
    fn default() -> Self {
        Self { free_at: 0, last: u32::MAX, waits: false }
    }
}

/// A running network, which [`Network::build`](crate::Network::build) creates.
pub struct Simulation {
    now: u64,
    events: EventQueue,
    links: Vec<Link>,
    packets: Slab,
    shared_lines: Vec<SharedLine>,
    link_names: Vec<String>,
    routes: Vec<u32>,
    flows: Vec<FlowSpec>,
    paths: Vec<FlowPaths>,
    metrics: Vec<FlowMetrics>,
    sources: Vec<Source>,
    /// The quality that users of ended applications experienced, by flow.
    past: BTreeMap<u32, Vec<Experience>>,
    connections: Vec<Option<Box<Connection>>>,
    free: Vec<u32>,
    next_number: u64,
    seed: u64,
    warm_up: u64,
    horizon: u64,
    hops: u64,
    pub(crate) tracer: Option<SharedTracer>,
    pub(crate) followers: Vec<Follower>,
    /// The nodes at which each link begins and ends.
    pub(crate) link_ends: Vec<[u32; 2]>,
    /// If this is a region of a divided simulation, its part of the division.
    region: Option<Box<Region>>,
    elsewhere: Elsewhere,
}

impl Simulation {
    #[expect(clippy::too_many_arguments, reason = "the parts of a network, from the one place that checked them")]
    pub(crate) fn new(
        seed: u64,
        warm_up: Span,
        links: Vec<Link>,
        shared_lines: u32,
        link_names: Vec<String>,
        routes: Vec<u32>,
        mut flows: Vec<FlowSpec>,
        paths: Vec<FlowPaths>,
        metrics: Vec<FlowMetrics>,
    ) -> Self {
        let mut events = EventQueue::default();
        let mut sources = Vec::with_capacity(flows.len());
        for (index, flow) in flows.iter_mut().enumerate() {
            if !flow.jitter.is_zero() {
                let late = Stream::named(seed, &format!("start {}", flow.name)).below(flow.jitter.as_nanos());
                flow.start += Span::from_nanos(late);
            }
            events.push(flow.start.as_nanos(), target(EventKind::Source, index as u32));
            if let Some(stop) = flow.stop {
                events.push(stop.as_nanos(), target(EventKind::Stop, index as u32));
            }
            sources.push(Source {
                random: Stream::named(seed, &format!("source {}", flow.name)),
                open: 0,
                slot: None,
                burst_end: 0,
                entry: 0,
                stopped: false,
                due: flow.start.as_nanos(),
                datagrams: 0,
                application: None,
            });
        }
        Self {
            now: 0,
            events,
            links,
            packets: Slab::default(),
            shared_lines: (0..shared_lines).map(|_| SharedLine::default()).collect(),
            link_names,
            routes,
            flows,
            paths,
            metrics,
            sources,
            past: BTreeMap::new(),
            connections: Vec::new(),
            free: Vec::new(),
            next_number: 1,
            seed,
            warm_up: warm_up.as_nanos(),
            horizon: 0,
            hops: 0,
            tracer: None,
            followers: Vec::new(),
            link_ends: Vec::new(),
            region: None,
            elsewhere: Elsewhere::default(),
        }
    }

    // ------------------------------------------------------------------ the outside

    /// Runs until `end`, including events at `end`. May be called again with a later time.
    pub fn run_until(&mut self, end: Instant) {
        self.run_some(end, u64::MAX);
    }

    /// Like [`Self::run_until`], but handles at most `events` events. Returns whether it reached `end`. The results do
    /// not depend on how a run is divided.
    pub fn run_some(&mut self, end: Instant, events: u64) -> bool {
        self.horizon = end.as_nanos();
        let last = self.events.handled().saturating_add(events);
        while let Some(due) = self.events.pop_until(self.horizon) {
            self.handle(due);
            if self.events.handled() >= last {
                return false;
            }
        }
        self.now = self.horizon;
        self.links.iter_mut().for_each(|link| link.settle(self.horizon));
        true
    }

    #[inline]
    fn handle(&mut self, due: Due) {
        debug_assert!(due.time >= self.now, "time ran back");
        self.now = due.time;
        let index = due.target & INDEX_MASK;
        match due.target >> KIND_SHIFT {
            kind if kind == EventKind::Land as u32 => self.on_land(index),
            kind if kind == EventKind::Transmit as u32 => self.on_transmit(index),
            kind if kind == EventKind::Timer as u32 => self.on_timer(index),
            kind if kind == EventKind::Source as u32 => self.on_source(index),
            kind if kind == EventKind::Forward as u32 => self.on_forward(index),
            kind if kind == EventKind::Poll as u32 => self.on_poll(index),
            kind if kind == EventKind::Watch as u32 && index & FOLLOWER != 0 => self.on_follow(index & !FOLLOWER),
            kind if kind == EventKind::Watch as u32 => self.on_watch(index),
            _ => self.on_stop(index),
        }
    }

    /// The simulated time.
    pub fn now(&self) -> Instant {
        Instant::from_nanos(self.now)
    }
    /// The measured time, which begins after the warm-up.
    pub fn measured(&self) -> Span {
        Span::from_nanos(self.now.saturating_sub(self.warm_up))
    }
    /// Returns the measurements of a flow.
    pub fn flow(&self, flow: FlowId) -> &FlowMetrics {
        &self.metrics[flow.index()]
    }
    /// All flows with their measurements, in the order in which they were added.
    pub fn flows(&self) -> impl Iterator<Item = (&FlowSpec, &FlowMetrics)> {
        self.flows.iter().zip(&self.metrics)
    }
    /// Returns the measurements of a link.
    pub fn link(&self, link: LinkId) -> &LinkMetrics {
        &self.links[link.index()].metrics
    }
    /// The names of all links with their measurements, in the order in which the links were added.
    pub fn links(&self) -> impl Iterator<Item = (&str, &LinkMetrics)> {
        self.link_names.iter().map(String::as_str).zip(self.links.iter().map(|link| &link.metrics))
    }
    /// The packets and bytes that wait for the transmitter of a link. If the link has a single feeder, this includes
    /// arrivals that have been computed in advance.
    pub fn backlog(&self, link: LinkId) -> Backlog {
        self.links[link.index()].backlog()
    }
    /// Both ends of the TCP connection of a flow that has one, while it is open. The end that opened it comes first.
    pub fn endpoints(&self, flow: FlowId) -> Option<[&Endpoint; 2]> {
        let [client, server] = &self.connection_of(flow)?.ends;
        Some([client.tcp()?, server.tcp()?])
    }
    /// The state of the sender that opened the connection of a flow, while it is open.
    pub fn sender(&self, flow: FlowId) -> Option<SenderState> {
        self.connection_of(flow)?.ends[0].sender()
    }
    fn connection_of(&self, flow: FlowId) -> Option<&Connection> {
        let slot = self.sources[flow.index()].slot?;
        self.connections[slot as usize].as_deref()
    }
    /// The discipline of a link, if one is set.
    pub(crate) fn discipline(&mut self, link: usize) -> Option<&mut Discipline> {
        match &mut self.links[link].queue {
            Queue::Discipline(discipline) | Queue::Driver(discipline, _) => Some(discipline),
            Queue::Tail { .. } => None,
        }
    }
    /// Asks the discipline of `link` for its deadline again. Call this after changing a discipline from outside.
    pub fn kick(&mut self, link: LinkId) {
        self.schedule_transmit(link.0);
    }
    /// The number of events handled so far.
    pub fn events(&self) -> u64 {
        self.events.handled() + self.elsewhere.events
    }
    /// The number of packets that links have accepted so far. A simulator with one event for each packet and hop would
    /// handle at least as many events.
    pub fn hops(&self) -> u64 {
        self.hops
    }
    /// The number of pending events.
    pub fn pending(&self) -> usize {
        self.events.len()
    }
    /// The number of open connections.
    pub fn open_connections(&self) -> usize {
        self.connections.len() - self.free.len()
    }

    /// An estimate of the memory of the run in bytes: packets in flight, open connections and statistics, but neither
    /// code nor the memory of disciplines.
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

    /// Sends a packet over the next link of its path.
    fn forward(&mut self, index: u32) {
        self.hops += 1;
        let (now, measuring) = (self.now, self.measuring());
        let packet = self.packets.get(index);
        let entry = self.routes[packet.hop as usize];
        debug_assert_ne!(entry, ARRIVED, "a route has at least one link");
        packet.hop += 1;
        let link = entry & !EXPRESS;
        let l = &mut self.links[link as usize];
        let mut counters = FlowCounters { flows: &mut self.metrics, measuring };
        if let Queue::Tail { .. } = l.queue {
            match l.pass(now, packet, &mut counters) {
                Some(arrival) => self.launch(link, arrival, index),
                None => self.packets.free(index),
            }
            return;
        }
        let admitted = l.hooks.is_none() || l.admit(now, packet, &mut counters);
        let mut packet = *packet;
        self.packets.free(index);
        if l.watched
            && let Some(shaper) = l.queue.shaper()
        {
            packet.class = shaper.class_of(&packet);
        }
        l.record_arrival(now, &packet);
        packet.queued = now;
        if !admitted {
            return;
        }
        if let Queue::Driver(..) = l.queue {
            self.offer_driver(link, packet);
            return;
        }
        l.enqueue(now, packet, &mut counters);
        l.wait_for_line(now);
        let free = l.free_at <= now;
        if self.tracer.is_some() {
            self.trace_queue(link);
        }
        let l = &self.links[link as usize];
        if free {
            // The link is idle: this packet or another one leaves at once unless a shaper holds it.
            self.serve(link);
        } else if l.transmit_at != l.free_at {
            self.schedule_transmit(link);
        }
    }

    /// Transmits the packet that the discipline of `link` releases. The transmitter must be free.
    fn serve(&mut self, link: u32) {
        let (now, measuring) = (self.now, self.measuring());
        if !self.has_line(link) {
            return;
        }
        let l = &mut self.links[link as usize];
        let mut counters = FlowCounters { flows: &mut self.metrics, measuring };
        let departure = l.dequeue(now, &mut counters);
        let departure = departure.and_then(|mut packet| Some((l.transmit(now, &mut packet, &mut counters)?, packet)));
        l.fruitless = if l.free_at > now || l.fruitless.0 != now { (now, 0) } else { (now, l.fruitless.1 + 1) };
        let fruitless = l.fruitless.1;
        let shaped = l.queue.shaper().is_some();
        if let Some((arrival, mut packet)) = departure {
            if shaped {
                packet.class = self.flows[packet.group as usize].class;
            }
            let index = self.packets.insert(&packet);
            self.launch(link, arrival, index);
        }
        self.take_line(link);
        if self.tracer.is_some() {
            self.trace_queue(link);
        }
        // Report a broken discipline rather than loop forever.
        assert!(
            fruitless < 1_000_000,
            "the discipline of link {} keeps promising a packet and gives none (law 3)",
            self.link_names[link as usize]
        );
        self.schedule_transmit(link);
    }

    /// Schedules the next call of `serve`: when the transmitter is free and the discipline may release a packet.
    fn schedule_transmit(&mut self, link: u32) {
        let now = self.now;
        let l = &mut self.links[link as usize];
        let Queue::Discipline(qdisc) = &mut l.queue else {
            if let Queue::Driver(..) = l.queue {
                self.schedule_poll(link);
            }
            return;
        };
        if let Discipline::Shaper(shaper) = qdisc {
            schedule_watch(&mut self.events, now, link, shaper);
        }
        if qdisc.get().backlog().is_empty() {
            return;
        }
        let Some(call) = next_call(qdisc.get(), now) else { return };
        let at = if call <= l.free_at.max(now) { l.free_at.max(now) } else { l.noticed(call) };
        if at < l.transmit_at || l.transmit_at < now {
            l.transmit_at = at;
            self.events.push(at, target(EventKind::Transmit, link));
        }
    }

    fn on_transmit(&mut self, link: u32) {
        let l = &mut self.links[link as usize];
        if let Queue::Driver(..) = l.queue {
            self.on_sent(link);
            return;
        }
        // The event is obsolete if an earlier one was scheduled in the meantime.
        if l.transmit_at == self.now {
            l.transmit_at = NEVER;
            if l.free_at <= self.now {
                self.serve(link);
            } else {
                self.schedule_transmit(link);
            }
        }
    }

    /// Puts a packet, or two copies of it, on the line of `link` and through the links behind it that have no other
    /// feeder.
    #[inline]
    fn launch(&mut self, link: u32, arrival: u64, index: u32) {
        if self.links[link as usize].duplicates() {
            let copy = *self.packets.get(index);
            self.launch_one(link, arrival, index);
            let second = self.packets.insert(&copy);
            self.launch_one(link, arrival, second);
        } else {
            self.launch_one(link, arrival, index);
        }
    }

    #[inline]
    fn launch_one(&mut self, mut link: u32, mut arrival: u64, index: u32) {
        let measuring = self.measuring();
        let packet = self.packets.get(index);
        loop {
            let next = self.routes[packet.hop as usize];
            if next == ARRIVED || next & EXPRESS == 0 {
                break;
            }
            // Arrivals at `next` are in order already, so its departures can be computed now.
            packet.hop += 1;
            self.hops += 1;
            link = next & !EXPRESS;
            let mut counters = FlowCounters { flows: &mut self.metrics, measuring };
            match self.links[link as usize].pass(arrival, packet, &mut counters) {
                Some(at) => arrival = at,
                None => {
                    self.packets.free(index);
                    return;
                }
            }
        }
        if let Some(region) = &self.region
            && region.crosses(link)
        {
            self.cross(link, arrival, index);
            self.packets.free(index);
            return;
        }
        if self.links[link as usize].launch(arrival, index) {
            self.events.push(arrival, target(EventKind::Land, link));
        }
    }

    fn on_land(&mut self, link: u32) {
        if let Some(region) = &mut self.region {
            region.lands(link, self.now);
        }
        let (index, next) = self.links[link as usize].land();
        if let Some(next) = next {
            self.events.push(next, target(EventKind::Land, link));
        }
        if self.routes[self.packets.get(index).hop as usize] == ARRIVED {
            let packet = *self.packets.get(index);
            self.packets.free(index);
            self.deliver(&packet);
        } else {
            self.forward(index);
        }
    }
}

impl core::fmt::Debug for Simulation {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        write!(f, "Simulation at {} ns, {} events pending", self.now, self.events.len())
    }
}
