//! [`QuicEnd`]: one end of a connection.

use std::cell::RefCell;
use std::net::{Ipv4Addr, SocketAddr};
use std::rc::Rc;
use std::sync::Arc;

use bytes::Bytes;
use quinn_proto::congestion::{ControllerFactory, CubicConfig, NewRenoConfig};
use quinn_proto::{
    ClientConfig, Connection, ConnectionHandle, ConnectionId, ConnectionIdGenerator, DatagramEvent, Dir, EcnCodepoint,
    Endpoint, EndpointConfig, Event, NoneTokenStore, ServerConfig, StreamEvent, StreamId, TransportConfig,
    ValidationTokenConfig, VarInt,
};
use tidegate_core::random::Stream;
use tidegate_core::{Ecn, Instant, Rate, Span};
use tidegate_sim::UDP_HEADER;
use tidegate_sim::tcp::{Algorithm, EcnCounts, EcnUse, Flags, Segment};
use tidegate_sim::transport::{Contents, End, Frame, Lost, SenderState};

use crate::Clock;
use crate::control::{Inner, Own, Shared, span};
use crate::frames::{self, CID, Packet, PacketType};
use crate::session::{NoKey, Sessions};
use crate::settings::{Control, Quic, Quinn};
use crate::wire::{SharedWire, Wire};

/// The address of the peer. The simulator routes packets itself.
const PEER: SocketAddr = SocketAddr::new(std::net::IpAddr::V4(Ipv4Addr::new(10, 0, 0, 1)), 443);
/// Data that quinn has and has not sent yet, at least: more than a datagram, so that it never runs out between two.
const AHEAD: u64 = 16 << 10;
/// The contents of all data.
static ZEROS: [u8; AHEAD as usize] = [0; AHEAD as usize];

/// Connection identifiers from a stream of the seed.
struct Identifiers(Stream);

impl ConnectionIdGenerator for Identifiers {
    fn generate_cid(&mut self) -> ConnectionId {
        ConnectionId::new(&self.0.next_u64().to_be_bytes()[..CID])
    }
    fn cid_len(&self) -> usize {
        CID
    }
    fn cid_lifetime(&self) -> Option<std::time::Duration> {
        None
    }
}

/// The state that both ends of a connection have in common.
pub(crate) struct SharedQuic {
    settings: Quic,
    seed: u64,
    ecn: EcnUse,
}

impl SharedQuic {
    pub fn new(settings: &Quic, seed: u64, ecn: EcnUse) -> Self {
        Self { settings: settings.clone(), seed, ecn }
    }

    fn stream(&self, purpose: &str, side: usize) -> Stream {
        Stream::named(self.seed, &format!("{purpose} {side}"))
    }

    fn sender(&self, side: usize, clock: Clock) -> Shared {
        let datagram = self.settings.datagram.value.as_u64();
        let initial = datagram * u64::from(self.settings.initial_window.value);
        let epoch = clock.there(Instant::ZERO);
        let build = |factory: Arc<dyn ControllerFactory>| Inner::Quinn(factory.build(epoch, datagram as u16));
        let inner = match self.settings.congestion {
            Control::Quinn(Quinn::Cubic) => {
                let mut config = CubicConfig::default();
                config.initial_window(initial);
                build(Arc::new(config))
            }
            Control::Quinn(Quinn::NewReno) => {
                let mut config = NewRenoConfig::default();
                config.initial_window(initial);
                build(Arc::new(config))
            }
            Control::Own(algorithm) => {
                let control = algorithm.control(datagram, initial, self.stream("congestion", side).next_u64());
                Inner::Own(Box::new(Own::new(control, matches!(algorithm, Algorithm::Prague), clock)))
            }
        };
        Shared::new(inner, clock)
    }

    fn transport(&self, sender: &Shared) -> Arc<TransportConfig> {
        let mut config = TransportConfig::default();
        let window = VarInt::from_u64(self.settings.window.value.as_u64()).unwrap_or(VarInt::MAX);
        config
            .max_idle_timeout(None)
            .mtu_discovery_config(None)
            .initial_mtu(self.settings.datagram.value.as_u64() as u16)
            .stream_receive_window(window)
            .send_window(window.into_inner().saturating_mul(8))
            .congestion_controller_factory(Arc::new(sender.clone()));
        Arc::new(config)
    }

    fn endpoint(&self, side: usize, transport: &Arc<TransportConfig>) -> Endpoint {
        let mut config = EndpointConfig::new(Arc::new(NoKey));
        let identifiers = self.stream("identifiers", side);
        config.cid_generator(move || Box::new(Identifiers(identifiers.clone())));
        let largest = self.settings.datagram.value.as_u64().max(1_472) as u16;
        config.max_udp_payload_size(largest).expect("checked when the file was read");
        let mut random = self.stream("quinn", side);
        let seed = std::array::from_fn(|_| random.next_u64() as u8);
        config.rng_seed(Some(seed));
        let server = (side == 1).then(|| {
            let mut server = ServerConfig::new(Arc::new(Sessions), Arc::new(NoKey));
            let mut tokens = ValidationTokenConfig::default();
            tokens.sent(0);
            server.transport_config(Arc::clone(transport)).validation_token_config(tokens);
            Arc::new(server)
        });
        Endpoint::new(Arc::new(config), server, false, None)
    }
}

/// One end of a connection, with its stream.
pub(crate) struct QuicEnd {
    shared: Arc<SharedQuic>,
    wire: SharedWire,
    clock: Clock,
    /// 0 for the client, which opens the connection.
    side: usize,
    endpoint: Endpoint,
    transport: Arc<TransportConfig>,
    sender: Shared,
    connection: Option<(ConnectionHandle, Connection)>,
    buffer: Vec<u8>,
    stream: Option<StreamId>,
    /// Bytes that the application has written, that quinn has taken, and that were sent at least once.
    written: u64,
    handed: u64,
    sent: u64,
    closing: bool,
    finished: bool,
    /// Whether all data and its end were acknowledged.
    acknowledged: bool,
    established: bool,
    /// The last packet numbers of the three spaces: Initial, Handshake, and application data.
    numbers: [u64; 3],
    arrived: u64,
    peer_closed: bool,
    failed: bool,
    /// The packets that were declared lost by the last packet or timer.
    lost: Vec<Lost>,
    /// Marked packets that acknowledgements have reported.
    marks_reported: u64,
}

impl QuicEnd {
    /// Both ends of a connection, the client first.
    pub fn both(shared: &Arc<SharedQuic>) -> [Self; 2] {
        let (wire, clock) = (Rc::new(RefCell::new(Wire::default())), Clock::new());
        [0, 1].map(|side| {
            let sender = shared.sender(side, clock);
            let transport = shared.transport(&sender);
            Self {
                shared: Arc::clone(shared),
                wire: Rc::clone(&wire),
                clock,
                side,
                endpoint: shared.endpoint(side, &transport),
                transport,
                sender,
                connection: None,
                buffer: Vec::new(),
                stream: None,
                written: 0,
                handed: 0,
                sent: 0,
                closing: false,
                finished: false,
                acknowledged: false,
                established: false,
                numbers: [0; 3],
                arrived: 0,
                peer_closed: false,
                failed: false,
                lost: Vec::new(),
                marks_reported: 0,
            }
        })
    }

    /// Opens the connection of a client.
    fn open(&mut self, now: Instant) {
        let mut config = ClientConfig::new(Arc::new(Sessions));
        let first = Identifiers(self.shared.stream("first identifier", self.side)).generate_cid();
        config
            .transport_config(Arc::clone(&self.transport))
            .token_store(Arc::new(NoneTokenStore))
            .initial_dst_cid_provider(Arc::new(move || first));
        match self.endpoint.connect(self.clock.there(now), config, PEER, "server") {
            Ok(connection) => self.connection = Some(connection),
            Err(_) => self.failed = true,
        }
    }

    /// Passes events between quinn's endpoint and connection, and handles those of the application.
    fn attend(&mut self, now: Instant) {
        let Some((handle, connection)) = &mut self.connection else { return };
        while let Some(event) = connection.poll_endpoint_events() {
            if let Some(event) = self.endpoint.handle_event(*handle, event) {
                connection.handle_event(event);
            }
        }
        let (mut readable, mut connected) = (false, false);
        while let Some(event) = connection.poll() {
            match event {
                Event::Connected => connected = true,
                Event::ConnectionLost { .. } => self.failed = true,
                Event::Stream(StreamEvent::Opened { dir: Dir::Bi }) => {
                    self.stream = self.stream.or(connection.streams().accept(Dir::Bi));
                    readable = true;
                }
                Event::Stream(StreamEvent::Readable { .. }) => readable = true,
                Event::Stream(StreamEvent::Finished { .. }) => self.acknowledged = true,
                _ => {}
            }
        }
        if connected {
            self.established = true;
            let (rtt, marks) = (span(connection.rtt()), self.shared.ecn != EcnUse::No);
            if let Inner::Own(own) = &mut self.sender.lock().inner {
                own.on_established(now, rtt, marks);
            }
        }
        if readable {
            self.read();
        }
    }

    /// Counts the data that has arrived, also behind a hole.
    fn read(&mut self) {
        let (Some((_, connection)), Some(id)) = (&mut self.connection, self.stream) else { return };
        let mut stream = connection.recv_stream(id);
        // A stream that was read to its end is none any more.
        let Ok(mut chunks) = stream.read(false) else { return };
        loop {
            match chunks.next(usize::MAX) {
                Ok(Some(chunk)) => self.arrived += chunk.bytes.len() as u64,
                Ok(None) => {
                    self.peer_closed = true;
                    break;
                }
                Err(_) => break,
            }
        }
        // A window update that is due goes out with the next packet.
        let _ = chunks.finalize();
    }

    /// Gives quinn the data that it needs for the next datagrams.
    fn feed(&mut self) {
        let Some((_, connection)) = &mut self.connection else { return };
        if self.side == 0 && self.stream.is_none() && (self.written > 0 || self.closing) {
            self.stream = connection.streams().open(Dir::Bi);
        }
        let Some(id) = self.stream else { return };
        let mut stream = connection.send_stream(id);
        let wanted = self.written.min(self.sent + AHEAD);
        while self.handed < wanted {
            let zeros = Bytes::from_static(&ZEROS[..(wanted - self.handed) as usize]);
            match stream.write_chunks(&mut [zeros]) {
                Ok(taken) => self.handed += taken.bytes as u64,
                // The windows are full; an acknowledgement or an update opens them.
                Err(_) => break,
            }
        }
        if self.closing && !self.finished && self.handed == self.written {
            self.finished = stream.finish().is_ok();
        }
    }

    /// Holds quinn back while pacing does not allow a datagram.
    fn pace(&mut self, now: Instant) {
        if let Inner::Own(own) = &mut self.sender.lock().inner {
            own.held = own.pacing().is_some() && now < own.paced_until();
        }
    }

    /// Records what a datagram has that is sent. Returns its bytes of data, and whether some of them are sent again.
    fn record(&mut self, now: Instant, packets: &[Packet]) -> (u64, bool) {
        let (mut data, mut again) = (0, false);
        for frame in packets.iter().flat_map(|packet| &packet.frames) {
            if let Frame::Stream { offset, length, .. } = frame {
                data += length;
                again |= *offset < self.sent && *length > 0;
                self.sent = self.sent.max(offset + length);
            }
        }
        let mut sender = self.sender.lock();
        for packet in packets {
            let Some((_, space)) = packet.kind.space() else { continue };
            // RFC 9000, appendix A.3, for a sender, whose numbers only rise.
            let modulus = 1_u64 << (8 * packet.number.1);
            let base = self.numbers[space] & !(modulus - 1);
            let number = base | packet.number.0;
            self.numbers[space] = if number < self.numbers[space] { number + modulus } else { number };
            if packet.is_in_flight() {
                sender.packets.on_sent(now, space, self.numbers[space], packet.length as u64);
            }
        }
        let app_limited = self.written == self.sent;
        for packet in packets.iter().filter(|packet| packet.is_ack_eliciting()) {
            sender.in_flight += packet.length as u64;
            if let (Inner::Own(own), PacketType::OneRtt) = (&mut sender.inner, packet.kind) {
                own.on_sent(now, packet.length as u64, app_limited);
            }
        }
        (data, again)
    }

    /// A packet that was sent, for a trace.
    fn contents_of(&self, mut packet: Packet) -> Option<Contents> {
        let (kind, space) = packet.kind.space()?;
        for frame in packet.frames.iter_mut().filter(|_| self.shared.ecn == EcnUse::L4s) {
            // What quinn counts as ECT(0) was ECT(1) on the way: see `poll`.
            if let Frame::Ack { ecn: Some(counts), .. } = frame {
                std::mem::swap(&mut counts.ect0, &mut counts.ect1);
            }
        }
        let (number, length) = (self.numbers[space], packet.length as u64);
        Some(Contents { kind, number, length, frames: packet.frames })
    }

    /// Takes acknowledged packets out of those in flight and passes counts of marks to the control, before quinn acts on them.
    fn note_acknowledgements(&mut self, datagram: &[u8]) {
        // The peer counts packets, and a control compares the counts with acknowledged bytes. So AccECN does without its option (RFC 9768, A.3).
        let full = self.shared.settings.datagram.value.as_u64();
        let mut sender = self.sender.lock();
        for packet in &frames::packets(datagram) {
            let Some((_, space)) = packet.kind.space() else { continue };
            for frame in &packet.frames {
                let Frame::Ack { ranges, ecn, .. } = frame else { continue };
                if let (PacketType::OneRtt, Some(counts)) = (packet.kind, ecn) {
                    self.marks_reported = self.marks_reported.max(counts.ce);
                }
                ranges.iter().for_each(|(low, high)| sender.packets.on_acked(space, *low, *high));
                let (Inner::Own(own), PacketType::OneRtt, Some(counts)) = (&mut sender.inner, packet.kind, ecn) else {
                    continue;
                };
                let capable = (counts.ect0 + counts.ect1 + counts.ce) * full;
                // Acknowledgements that overtake each other must not turn the counts back.
                if capable >= own.counts.capable {
                    own.counts = EcnCounts { capable, ce: counts.ce * full };
                }
            }
        }
    }

    /// Takes over the losses that quinn declared in its last call.
    fn note_losses(&mut self) {
        let mut sender = self.sender.lock();
        self.lost.clear();
        self.lost
            .extend(sender.packets.lost.drain(..).map(|(space, number)| Lost { kind: frames::KINDS[space], number }));
    }
}

impl End for QuicEnd {
    fn write(&mut self, bytes: u64) {
        debug_assert!(!self.closing, "written after the close");
        self.written = self.written.saturating_add(bytes);
    }
    fn write_endlessly(&mut self) {
        self.written = u64::MAX;
    }
    fn close(&mut self) {
        self.closing = true;
    }
    fn finish(&mut self) {
        if !self.closing {
            self.written = self.written.min(self.handed);
            self.closing = true;
        }
    }

    fn on_packet(&mut self, now: Instant, packet: &Segment) {
        let Some(datagram) = self.wire.borrow_mut().take(1 - self.side, packet.seq) else { return };
        self.note_acknowledgements(&datagram);
        let ecn = match packet.ecn {
            Ecn::NotEct => None,
            Ecn::Ce => Some(EcnCodepoint::Ce),
            // quinn sends and expects ECT(0): see `poll`.
            Ecn::Ect1 if self.shared.ecn != EcnUse::L4s => Some(EcnCodepoint::Ect1),
            Ecn::Ect0 | Ecn::Ect1 => Some(EcnCodepoint::Ect0),
        };
        let there = self.clock.there(now);
        self.buffer.clear();
        match self.endpoint.handle(there, PEER, None, ecn, datagram, &mut self.buffer) {
            Some(DatagramEvent::ConnectionEvent(handle, event)) => {
                if let Some((own, connection)) = &mut self.connection
                    && *own == handle
                {
                    connection.handle_event(event);
                }
            }
            Some(DatagramEvent::NewConnection(incoming)) => {
                self.connection = self.endpoint.accept(incoming, there, &mut self.buffer, None).ok();
                self.failed = self.connection.is_none();
            }
            // Stateless resets are not sent.
            Some(DatagramEvent::Response(_)) | None => {}
        }
        self.note_losses();
        self.attend(now);
    }

    fn poll(&mut self, now: Instant) -> Option<(Segment, u32)> {
        if self.side == 0 && self.connection.is_none() && !self.failed {
            self.open(now);
        }
        self.feed();
        self.pace(now);
        self.buffer.clear();
        let (_, connection) = self.connection.as_mut()?;
        let transmit = connection.poll_transmit(self.clock.there(now), 1, &mut self.buffer);
        self.attend(now);
        let transmit = transmit?;
        let datagram = std::mem::take(&mut self.buffer);
        let (data, again) = self.record(now, &frames::packets(&datagram));
        let number = self.wire.borrow_mut().put(now, self.side, &datagram);
        let size = UDP_HEADER + datagram.len() as u32;
        self.buffer = datagram;
        let ecn = match (self.shared.ecn, transmit.ecn) {
            (EcnUse::No, _) | (_, None) => Ecn::NotEct,
            // quinn has one code point for all controls. The host writes the other one.
            (EcnUse::L4s, Some(_)) => Ecn::Ect1,
            (EcnUse::Classic | EcnUse::Accurate, Some(_)) => Ecn::Ect0,
        };
        let flags = if again { Flags::RETRANSMISSION } else { Flags::NONE };
        Some((Segment { seq: number, len: data as u32, flags, ecn, ..Segment::default() }, size))
    }

    fn deadline(&mut self) -> Option<Instant> {
        let (_, connection) = self.connection.as_mut()?;
        let quinn = connection.poll_timeout().map(|at| self.clock.back(at));
        let paced = match &self.sender.lock().inner {
            Inner::Own(own) if own.held => Some(own.paced_until()),
            _ => None,
        };
        quinn.into_iter().chain(paced).min()
    }

    fn on_timer(&mut self, now: Instant) {
        if let Some((_, connection)) = &mut self.connection {
            connection.handle_timeout(self.clock.there(now));
        }
        self.note_losses();
        self.attend(now);
    }

    fn arrived(&self) -> u64 {
        self.arrived
    }
    fn unsent(&self) -> Option<u64> {
        (self.written < u64::MAX).then(|| self.written - self.sent)
    }
    fn is_established(&self) -> bool {
        self.established
    }
    fn peer_closed(&self) -> bool {
        self.peer_closed
    }
    fn is_over(&self) -> bool {
        self.acknowledged && self.peer_closed
    }
    fn has_failed(&self) -> bool {
        self.failed
    }
    fn contents(&self) -> Vec<Contents> {
        frames::packets(&self.buffer).into_iter().filter_map(|packet| self.contents_of(packet)).collect()
    }
    fn lost(&self) -> &[Lost] {
        &self.lost
    }
    fn marks_reported(&self) -> u64 {
        self.marks_reported
    }
    fn sender(&self) -> Option<SenderState> {
        let (_, connection) = self.connection.as_ref().filter(|_| self.sent > 0)?;
        let sender = self.sender.lock();
        let metrics = match &sender.inner {
            Inner::Quinn(control) => (control.window(), control.metrics().ssthresh, None, None),
            Inner::Own(own) => (own.cwnd(), Some(own.ssthresh()), own.pacing(), own.min_rtt()),
        };
        let phase = match &sender.inner {
            Inner::Quinn(_) => None,
            Inner::Own(own) => Some(own.phase()),
        };
        let (cwnd, ssthresh, pacing, min_rtt): (u64, Option<u64>, Option<Rate>, Option<Span>) = metrics;
        let srtt: Span = span(connection.rtt());
        Some(SenderState {
            cwnd,
            ssthresh: ssthresh.unwrap_or(u64::MAX),
            srtt: Some(srtt),
            min_rtt,
            rto: None,
            pipe: sender.in_flight,
            pacing,
            phase,
        })
    }
}
