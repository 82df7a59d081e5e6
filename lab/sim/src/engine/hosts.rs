//! Hosts: connections, their timers, and the data of the applications at their ends.

use std::sync::Arc;

use tidegate_core::random::Stream;
use tidegate_core::{Colour, Ecn, Instant};

use super::transfers::Underway;
use super::{Connection, EventKind, KIND_SHIFT, Role, Simulation, target};
use crate::applications::Application;
use crate::link::NEVER;
use crate::metrics::TransferEnd;
use crate::packet::{Advice, Proto, SimPacket};
use crate::tcp::{Algorithm, Config, Endpoint, Flags, Segment};
use crate::trace::{Occurrence, SharedTracer};
use crate::transport::AnyEnd;
use crate::workload::{Transport, Workload};

/// Records the packets that an end of a connection declared lost in its last call.
fn trace_losses(tracer: Option<&SharedTracer>, now: Instant, connection: &Connection, side: usize) {
    if let Some(tracer) = tracer {
        tracer.borrow_mut().losses(now, connection.group, connection.number, side, connection.ends[side].lost());
    }
}

impl Simulation {
    pub(super) fn deliver(&mut self, packet: &SimPacket) {
        let measuring = self.measuring();
        let payload = u64::from(packet.payload());
        if let Some(tracer) = &self.tracer {
            tracer.borrow_mut().packet(Instant::from_nanos(self.now), Occurrence::Delivered, packet);
        }
        if measuring {
            if packet.has_data() {
                let pool = self.paths[packet.group as usize].pool;
                let metrics = &mut self.metrics[pool as usize];
                metrics.delay_ns[packet.direction()].record(self.now - packet.sent);
                if let Some(queueing) = &mut metrics.queueing_ns {
                    queueing[packet.direction()].record(packet.waited);
                }
            }
            let metrics = &mut self.metrics[packet.group as usize];
            metrics.marked += u64::from(packet.segment.ecn == Ecn::Ce);
            if packet.has_data() {
                metrics.arrived[packet.colour as usize].count(packet.size);
            }
            if packet.transport == Proto::Udp {
                metrics.goodput_bytes[packet.direction()] += payload;
                if let Some(series) = &mut metrics.series {
                    series.add(Instant::from_nanos(self.now), payload);
                }
            }
        }
        // A packet of the client arrives at the server, and the other way round.
        let side = 1 - packet.direction();
        if packet.transport == Proto::Udp {
            self.receive_datagram(packet, side);
            return;
        }
        if let (Advice::Told(signal), Some(Application::Play(player))) =
            (packet.advice, self.sources[packet.group as usize].application.as_deref_mut())
        {
            player.told(self.now, signal.rate());
        }
        let slot = self.slot_of(packet);
        // The slot may be empty or reused: the connection of a late packet can be over.
        let Some(Some(connection)) = self.connections.get_mut(slot as usize) else { return };
        if connection.number != packet.connection() {
            return;
        }
        if let Advice::Told(signal) = packet.advice {
            // The shaper notifies the sender directly, over its control socket; here that takes until the packet arrives.
            connection.ends[1 - side].advise(Instant::from_nanos(self.now), signal.rate());
        }
        let now = Instant::from_nanos(self.now);
        connection.ends[side].on_segment(now, &packet.segment);
        let reported = connection.ends[side].marks_reported();
        let fresh = reported - std::mem::replace(&mut connection.marks_reported[side], reported);
        if measuring {
            self.metrics[connection.group as usize].marks_reported += fresh;
        }
        trace_losses(self.tracer.as_ref(), now, connection, side);
        self.attend(slot, side);
    }

    /// Lets the application at one end act on received data, and sends all segments that the end has ready.
    pub(super) fn attend(&mut self, slot: u32, side: usize) {
        self.react(slot, side);
        self.pump(slot, side);
    }

    pub(super) fn pump(&mut self, slot: u32, side: usize) {
        let now = Instant::from_nanos(self.now);
        let measuring = self.measuring();
        loop {
            let Some(connection) = &mut self.connections[slot as usize] else { return };
            let end = &mut connection.ends[side];
            let Some((segment, size)) = end.poll(now) else { break };
            let remaining = end.unsent().map_or(u32::MAX, |bytes| u32::try_from(bytes).unwrap_or(u32::MAX - 1));
            let proto = end.proto();
            let (flow, group) = (connection.number << 1 | side as u64, connection.group);
            if measuring && segment.len > 0 {
                let metrics = &mut self.metrics[group as usize];
                metrics.sent[side].count(size);
                if segment.flags.has(Flags::RETRANSMISSION) {
                    metrics.retransmitted.count(size);
                }
            }
            if let Some(tracer) = &self.tracer {
                tracer.borrow_mut().contents((flow, now, &segment), group, || end.contents());
            }
            self.send(flow, group, slot, side, segment, size, remaining, proto);
        }
        let Some(connection) = &mut self.connections[slot as usize] else { return };
        let end = &mut connection.ends[side];
        end.settle(now);
        if let Some(tracer) = &self.tracer {
            tracer.borrow_mut().connection(now, connection.group, connection.number, side, end.sent());
        }
        if let Some(deadline) = end.deadline() {
            // If the deadline moves to a later time, the earlier event looks again.
            if deadline.as_nanos() < connection.armed[side] {
                connection.armed[side] = deadline.as_nanos();
                let index = slot << 1 | side as u32;
                self.events.push(deadline.as_nanos(), target(EventKind::Timer, index));
            }
        }
    }

    #[expect(clippy::too_many_arguments, reason = "one call for both transports, in the hot path")]
    #[inline]
    pub(super) fn send(
        &mut self,
        flow: u64,
        group: u32,
        slot: u32,
        side: usize,
        segment: Segment,
        size: u32,
        remaining: u32,
        transport: Proto,
    ) {
        let spec = &self.flows[group as usize];
        let (source, destination) = if side == 0 { (spec.from, spec.to) } else { (spec.to, spec.from) };
        let follows = matches!(&spec.transport, Transport::Tcp(config) if config.follow_advice);
        let asks = segment.len > 0 && (follows || side == 1 && spec.workload.asks_for_advice());
        let advice = if asks { Advice::Asked } else { Advice::None };
        let packet = SimPacket {
            flow,
            sent: self.now,
            queued: self.now,
            waited: 0,
            segment,
            remaining,
            slot,
            hop: self.paths[group as usize].routes[side],
            size,
            source: source.0,
            destination: destination.0,
            class: spec.class,
            profile: spec.profile,
            group,
            dscp: spec.dscp,
            colour: Colour::Green,
            transport,
            advice,
        };
        let index = self.packets.insert(&packet);
        self.forward(index);
    }

    pub(super) fn on_timer(&mut self, index: u32) {
        let (slot, side) = (index >> 1, (index & 1) as usize);
        let Some(Some(connection)) = self.connections.get_mut(slot as usize) else { return };
        if connection.armed[side] != self.now {
            return;
        }
        connection.armed[side] = NEVER;
        let now = Instant::from_nanos(self.now);
        connection.ends[side].on_timer(now);
        trace_losses(self.tracer.as_ref(), now, connection, side);
        let timeouts = connection.ends[side].timeouts();
        let fresh = timeouts - connection.timeouts[side];
        connection.timeouts[side] = timeouts;
        let group = connection.group as usize;
        if fresh > 0 && self.measuring() {
            self.metrics[group].timeouts += fresh;
        }
        self.attend(slot, side);
    }

    /// The ends of the connection of `flow` with this number.
    pub(super) fn ends(&self, flow: u32, number: u64) -> [AnyEnd; 2] {
        let spec = &self.flows[flow as usize];
        // Connections draw from streams of their own, so that one more changes none of the others.
        let random = || Stream::named(self.seed, &format!("congestion {} {number}", spec.name));
        let tcp = |config: &Arc<Config>| {
            let mut ends = [Endpoint::connect(Arc::clone(config)), Endpoint::listen(Arc::clone(config))];
            if matches!(config.algorithm, Algorithm::Bbr) {
                let mut random = random();
                ends.iter_mut().for_each(|end| end.set_seed(random.next_u64()));
            }
            ends.map(AnyEnd::Tcp)
        };
        match &spec.transport {
            Transport::Tcp(config) => tcp(config),
            Transport::Udp { .. } => tcp(&Arc::default()),
            Transport::Other { protocol, ecn } => protocol.connect(random().next_u64(), *ecn).map(AnyEnd::Other),
        }
    }

    pub(super) fn open(&mut self, flow: u32, role: Role) -> u32 {
        let known = self.region.as_ref().and_then(|region| region.number(flow));
        let number = known.unwrap_or(self.next_number);
        self.next_number += 1;
        let [mut client, server] = self.ends(flow, number);
        match &role {
            Role::Upload { size: None } => client.write_endlessly(),
            Role::Upload { size: Some(size) } => {
                client.write(*size);
                client.close();
            }
            Role::Download { request, .. } => client.write(*request),
            Role::Requests(exchange) => client.write(exchange.request),
            Role::Stream => {}
        }
        let slot = self.connect(Connection::new(number, [client, server], role, flow, self.now));
        if let Some(region) = &mut self.region {
            region.opened(flow, slot);
        }
        self.sources[flow as usize].open += 1;
        if self.measuring() {
            self.metrics[flow as usize].opened += 1;
        }
        self.pump(slot, 0);
        slot
    }

    /// Adds a connection and returns its slot.
    pub(super) fn connect(&mut self, connection: Connection) -> u32 {
        let connection = Some(Box::new(connection));
        let slot = match self.free.pop() {
            Some(slot) => {
                self.connections[slot as usize] = connection;
                slot
            }
            None => {
                self.connections.push(connection);
                self.connections.len() as u32 - 1
            }
        };
        assert!(slot < 1 << (KIND_SHIFT - 1), "more than a million connections are open");
        slot
    }

    /// Lets the application at end `side` act on the data that has arrived, and closes a connection that is over.
    fn react(&mut self, slot: u32, side: usize) {
        let measuring = self.measuring();
        self.count_received(slot, side);
        let Some(connection) = &mut self.connections[slot as usize] else { return };
        let group = connection.group as usize;
        let finished = connection.act(side);
        let answered = finished.is_some() && matches!(connection.role, Role::Requests(_));
        // The other end of a connection between two regions is in the other one. It is not over, or the run begins again.
        let cut = self.region.as_ref().is_some_and(|region| region.cuts(group as u32));
        let ends = if cut { std::slice::from_ref(&connection.ends[side]) } else { &connection.ends };
        let failed =
            ends.iter().any(AnyEnd::has_failed) && !(connection.completed || connection.ends[side].peer_closed());
        let over = failed || ends.iter().all(AnyEnd::is_over);
        if failed && let Some(region) = &mut self.region {
            region.aborted(group as u32);
        }
        let cut_short = if failed { connection.underway() } else { None };
        let counts = |transfer: &Underway| measuring && transfer.counts(self.warm_up);
        let [finished, cut_short] = [finished, cut_short].map(|transfer| transfer.filter(counts));
        if let Some(transfer) = finished {
            self.book(group, &transfer, TransferEnd::Completed);
        }
        if failed && measuring {
            self.metrics[group].failed += 1;
        }
        if let Some(transfer) = cut_short {
            self.book(group, &transfer, TransferEnd::Aborted);
        }
        if answered {
            self.answered(group as u32, slot);
        }
        if over {
            // An acknowledgement that is still owed would go to an end that is over too.
            self.connections[slot as usize] = None;
            self.free.push(slot);
            self.sources[group].open -= 1;
            self.ended(group as u32, slot, failed);
        }
    }

    /// Adds newly arrived data and a completed handshake to the measurements of the flow.
    ///
    /// Data counts when it arrives first, also behind a hole. If it counted when the hole is filled, an interval could show more
    /// than the line carries.
    fn count_received(&mut self, slot: u32, side: usize) {
        let measuring = self.measuring();
        let Some(connection) = &mut self.connections[slot as usize] else { return };
        let group = connection.group as usize;
        let arrived = connection.ends[side].arrived();
        let new = arrived - connection.counted[side];
        connection.counted[side] = arrived;
        if new > 0 && measuring {
            let metrics = &mut self.metrics[group];
            // What the client receives comes from the server.
            metrics.goodput_bytes[1 - side] += new;
            if let Some(series) = &mut metrics.series {
                series.add(Instant::from_nanos(self.now), new);
            }
        }
        if side == 0 && !connection.connected && connection.ends[0].is_established() {
            connection.connected = true;
            if measuring && connection.opened >= self.warm_up {
                let pool = self.paths[group].pool as usize;
                self.metrics[pool].connect_ns.record(self.now - connection.opened);
            }
        }
    }

    /// Schedules the next request after a pause.
    pub(super) fn think(&mut self, flow: u32) {
        let Workload::Requests { think, .. } = &*self.flows[flow as usize].workload else { return };
        let pause = think.sample_span(&mut self.sources[flow as usize].random);
        self.schedule_source(flow, pause);
    }
}

impl Connection {
    pub(super) fn new(number: u64, ends: [AnyEnd; 2], role: Role, group: u32, opened: u64) -> Self {
        let (armed, counted, timeouts, marks_reported) = ([NEVER; 2], [0; 2], [0; 2], [0; 2]);
        let (connected, completed) = (false, false);
        Self { number, ends, armed, counted, role, group, opened, connected, completed, timeouts, marks_reported }
    }

    /// Lets the application at end `side` write or close, and returns the transfer that the received data completes.
    fn act(&mut self, side: usize) -> Option<Underway> {
        let (received, closed) = (self.ends[side].received(), self.ends[side].peer_closed());
        match &mut self.role {
            Role::Upload { .. } if side == 1 && closed && !self.completed => {
                self.ends[1].close();
                let finished = self.underway()?;
                self.completed = true;
                Some(finished)
            }
            Role::Download { request, size, answered } if side == 1 && !*answered && received >= *request => {
                *answered = true;
                self.ends[1].write(*size);
                self.ends[1].close();
                None
            }
            Role::Download { .. } if side == 0 && closed && !self.completed => {
                self.ends[0].close();
                let finished = self.underway();
                self.completed = true;
                finished
            }
            Role::Requests(exchange) if side == 0 => {
                if received < exchange.answered || exchange.taken >= exchange.answered {
                    return None;
                }
                exchange.taken = exchange.answered;
                Some(Underway::answer(exchange, (self.number, self.opened)))
            }
            Role::Requests(exchange) => {
                if received >= exchange.asked && exchange.served < exchange.asked {
                    exchange.served = exchange.asked;
                    self.ends[1].write(exchange.response);
                }
                if closed {
                    self.ends[1].close();
                }
                None
            }
            Role::Stream if side == 1 && closed => {
                self.ends[1].close();
                None
            }
            Role::Upload { .. } | Role::Download { .. } | Role::Stream => None,
        }
    }
}
