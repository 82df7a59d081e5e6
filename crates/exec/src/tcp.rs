//! Relays TCP. For each connection that the program makes there is one connection with the program and one with the
//! remote host.
//!
//! The connections with the program use `smoltcp`. Each has an interface and a socket of its own, so that a packet's
//! connection is found by a lookup in a table and not by a search through all sockets. The handshake with the program
//! is completed only after the remote host has replied, so a refused connection is refused to the program as well, and
//! an unreachable host is unreachable.
//!
//! *Cost*: constant per packet. A heap holds the timers.

use std::cmp::Reverse;
use std::collections::{BinaryHeap, HashMap};
use std::io::{self, ErrorKind, Read, Write};
use std::net::{Shutdown, SocketAddr, TcpStream};
use std::os::fd::OwnedFd;

use rustix::event::epoll::EventFlags;
use rustix::net::{AddressFamily, SocketFlags, SocketType, sockopt};
use smoltcp::iface::{Config, Interface, SocketHandle, SocketSet};
use smoltcp::phy::{Device, DeviceCapabilities, Medium, RxToken, TxToken};
use smoltcp::socket::tcp::{CongestionControl, Socket, SocketBuffer, State};
use smoltcp::time::Instant as StackInstant;
use smoltcp::wire::{HardwareAddress, IpCidr, IpListenEndpoint};
use tidegate_capture::dissect::TcpFlags;
use tidegate_core::Instant;
use tidegate_units::Span;

use crate::shape::Direction;
use crate::wire;

/// The maximum number of connections. Further ones are refused.
pub const CONNECTIONS: usize = 4_096;

/// The receive window announced to the program. It is no larger than a shaper's queue, so that the first burst of a
/// connection cannot overflow that queue. The path is short, so the window suffices for a gigabit per second. Towards
/// the remote host, the buffer of the host's socket applies.
const RECEIVE: usize = 64 << 10;
/// The maximum amount of data in flight to the program; see [`Window`].
const SEND: usize = 256 << 10;
/// The MTU towards the program, that of Ethernet.
const MTU: usize = 1_500;
/// The TCP payload of a packet with this MTU in IPv4.
const MSS: usize = 1_460;

/// The endpoints of a connection: the program's and the remote one.
pub(crate) type Key = (SocketAddr, SocketAddr);

/// A parsed TCP segment.
pub(crate) struct Segment<'a> {
    pub key: Key,
    pub flags: TcpFlags,
    /// The octet with the DSCP and the ECN field (TOS or traffic class).
    pub class: u8,
    pub bytes: &'a [u8],
}

/// All connections, by slot and by endpoints, and their timers.
pub(crate) struct Connections {
    slots: Vec<Option<Connection>>,
    free: Vec<u32>,
    table: HashMap<Key, u32>,
    timers: BinaryHeap<Reverse<(Instant, u32)>>,
    seed: u64,
    scratch: Vec<u8>,
    made: u64,
}

struct Connection {
    key: Key,
    state: Phase,
}

enum Phase {
    /// The remote host has not replied yet. The program's SYN is kept until it has.
    Connecting {
        socket: TcpStream,
        first: Vec<u8>,
    },
    Open(Box<Open>),
}

struct Open {
    stream: TcpStream,
    interface: Interface,
    sockets: SocketSet<'static>,
    handle: SocketHandle,
    /// Whether the host's socket can be read and written; reset when an operation would block.
    readable: bool,
    writable: bool,
    /// The remote end has sent FIN.
    fin_received: bool,
    /// The program has sent FIN, and the relay has passed it on.
    fin_sent: bool,
    due: Option<Instant>,
    window: Window,
}

/// Limits the data in flight to the program.
///
/// This process sends the data that the shaper queues, so it can choose how much is queued. Data that it has not read
/// yet stays in the host's socket, whose receive window then slows the remote sender down. So a shaper need not drop
/// packets to signal congestion, and the queue of a connection lasts about [`Window::SET`], whatever the connection's
/// share of the rate is.
///
/// *Source*: the idea is that of dynamic queue limits (Linux 3.3, `lib/dynamic_queue_limits.c`), but the limit follows
/// the delay instead of starvation.
struct Window {
    limit: usize,
    /// Bytes read from the remote end so far.
    taken: u64,
    /// A delay measurement in progress: a value of `taken`, and when it was reached. The measurement ends when the
    /// program has acknowledged as many bytes.
    sample: Option<(u64, Instant)>,
    /// Whether the limit has held back data since the last sample.
    held_back: bool,
}

impl Window {
    /// The target delay.
    const SET: Span = Span::from_millis(30);
    /// The limit is increased while the delay is below this.
    const LOW: Span = Span::from_millis(15);
    /// Two segments that a delayed ACK covers, and one in flight meanwhile.
    const LEAST: usize = 3 * MSS;

    fn new() -> Self {
        Self { limit: 4 * MSS, taken: 0, sample: None, held_back: false }
    }

    /// The number of bytes that may be read while `waiting` bytes are queued for the program.
    fn room(&mut self, now: Instant, waiting: usize) -> usize {
        if let Some((mark, since)) = self.sample
            && self.taken - waiting as u64 >= mark
        {
            let delay = now.since(since);
            self.sample = None;
            if delay > Self::SET {
                let fit = self.limit as u128 * u128::from(Self::SET.as_nanos()) / u128::from(delay.as_nanos());
                self.limit = (fit as usize).max(self.limit / 2).max(Self::LEAST);
            } else if delay < Self::LOW && self.held_back {
                self.limit = (self.limit * 2).min(SEND);
            }
            self.held_back = false;
        }
        let room = self.limit.saturating_sub(waiting);
        // Each small piece would need a packet of its own.
        let room = if room < MSS && waiting > 0 { 0 } else { room };
        self.held_back |= room == 0;
        room
    }

    fn took(&mut self, now: Instant, bytes: usize) {
        self.taken += bytes as u64;
        self.sample.get_or_insert((self.taken, now));
    }
}

/// Registers a socket for events, under the number of its slot.
pub(crate) type Watch<'a> = &'a mut dyn FnMut(&TcpStream, u32) -> io::Result<()>;

impl Connections {
    pub fn new(seed: u64) -> Self {
        Self {
            slots: Vec::new(),
            free: Vec::new(),
            table: HashMap::new(),
            timers: BinaryHeap::new(),
            seed,
            scratch: Vec::new(),
            made: 0,
        }
    }

    /// The number of connections established so far.
    pub fn made(&self) -> u64 {
        self.made
    }

    /// Whether all data was passed on to the remote hosts, given that the senders have exited. A connection that the
    /// remote host has not answered carries no data.
    pub fn is_drained(&self) -> bool {
        self.slots.iter().flatten().all(|connection| match &connection.state {
            Phase::Connecting { .. } => true,
            Phase::Open(open) => open.fin_sent,
        })
    }

    /// Processes a segment that the program sent.
    pub fn segment(&mut self, now: Instant, segment: &Segment<'_>, down: &mut Direction, watch: Watch<'_>) {
        if let Some(&slot) = self.table.get(&segment.key) {
            let connection = self.slots[slot as usize].as_mut();
            if let Some(Connection { state: Phase::Open(open), .. }) = connection {
                open.poll(now, Some(segment.bytes), down, &mut self.scratch);
                self.drive(now, slot, down);
            }
            // Until the remote host replies, the program can only retransmit its SYN, which needs no answer.
            return;
        }
        let opens = segment.flags.any(TcpFlags::SYN) && !segment.flags.any(TcpFlags::ACK | TcpFlags::RST);
        if !opens || self.table.len() >= CONNECTIONS {
            self.reset(now, segment.key, segment.bytes, down);
            return;
        }
        let outcome = connect(segment.key.1, segment.class).and_then(|socket| {
            let slot = self.free.pop().unwrap_or(self.slots.len() as u32);
            watch(&socket, slot).inspect_err(|_| self.free.push(slot))?;
            Ok((slot, socket))
        });
        match outcome {
            Ok((slot, socket)) => {
                let state = Phase::Connecting { socket, first: segment.bytes.to_vec() };
                let connection = Some(Connection { key: segment.key, state });
                match self.slots.get_mut(slot as usize) {
                    Some(place) => *place = connection,
                    None => self.slots.push(connection),
                }
                self.table.insert(segment.key, slot);
            }
            Err(error) => self.refuse(now, segment.key, segment.bytes, &error, down),
        }
    }

    /// Handles an event of a connection's socket of the host.
    pub fn ready(&mut self, now: Instant, slot: u32, events: EventFlags, down: &mut Direction) {
        let Some(Some(connection)) = self.slots.get_mut(slot as usize) else { return };
        let ended = events.intersects(EventFlags::ERR | EventFlags::HUP);
        match &mut connection.state {
            Phase::Open(open) => {
                open.readable |= ended || events.intersects(EventFlags::IN | EventFlags::RDHUP);
                open.writable |= ended || events.intersects(EventFlags::OUT);
                self.drive(now, slot, down);
            }
            Phase::Connecting { socket, .. } => match connected(socket) {
                Ok(false) => {}
                Ok(true) => self.answer(now, slot, down),
                Err(error) => {
                    if let Some(Connection { key, state: Phase::Connecting { first, .. } }) = self.forget(slot) {
                        self.refuse(now, key, &first, &error, down);
                    }
                }
            },
        }
    }

    /// Handles timers that are due.
    pub fn timers(&mut self, now: Instant, down: &mut Direction) {
        while let Some(&Reverse((due, slot))) = self.timers.peek() {
            if due > now {
                break;
            }
            self.timers.pop();
            let Some(Some(Connection { state: Phase::Open(open), .. })) = self.slots.get_mut(slot as usize) else {
                continue;
            };
            // An entry is obsolete unless it is the latest of its connection.
            if open.due == Some(due) {
                open.due = None;
                open.poll(now, None, down, &mut self.scratch);
                self.drive(now, slot, down);
            }
        }
    }

    /// When the next timer is due.
    pub fn deadline(&self) -> Option<Instant> {
        self.timers.peek().map(|Reverse((due, _))| *due)
    }

    /// Completes the handshake with the program, after the remote host has replied.
    fn answer(&mut self, now: Instant, slot: u32, down: &mut Direction) {
        self.seed = self.seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        let seed = self.seed;
        let Some(connection) = self.slots[slot as usize].take() else { return };
        if let Phase::Connecting { socket, first } = connection.state {
            let mut open = Box::new(Open::new(now, connection.key, socket, seed));
            open.poll(now, Some(&first), down, &mut self.scratch);
            self.slots[slot as usize] = Some(Connection { key: connection.key, state: Phase::Open(open) });
            self.made += 1;
            self.drive(now, slot, down);
        }
    }

    /// Moves bytes for as long as possible, then removes the connection if it is closed.
    fn drive(&mut self, now: Instant, slot: u32, down: &mut Direction) {
        let Some(Some(Connection { state: Phase::Open(open), .. })) = self.slots.get_mut(slot as usize) else { return };
        while open.transfer(now) {
            open.poll(now, None, down, &mut self.scratch);
        }
        if matches!(open.socket().state(), State::Closed | State::TimeWait) {
            if !(open.fin_received && open.fin_sent) {
                // The program has reset the connection, so it is reset towards the remote host, too.
                let _ = sockopt::set_socket_linger(&open.stream, Some(std::time::Duration::ZERO));
            }
            self.forget(slot);
            return;
        }
        let due = open.next(now);
        if due != open.due {
            open.due = due;
            if let Some(due) = due {
                self.timers.push(Reverse((due, slot)));
            }
        }
    }

    fn forget(&mut self, slot: u32) -> Option<Connection> {
        let connection = self.slots.get_mut(slot as usize)?.take()?;
        self.table.remove(&connection.key);
        self.free.push(slot);
        Some(connection)
    }

    /// Reports to the program why the connection failed, with a reset or an ICMP message.
    fn refuse(&mut self, now: Instant, key: Key, first: &[u8], error: &io::Error, down: &mut Direction) {
        if error.kind() == ErrorKind::ConnectionRefused
            || error.kind() == ErrorKind::ConnectionReset
            || !wire::unreachable(key.1.ip(), key.0.ip(), first, error, &mut self.scratch)
        {
            self.reset(now, key, first, down);
        } else {
            down.offer(now, &self.scratch);
        }
    }

    /// Replies with a reset to a segment that belongs to no connection. An interface without sockets does so.
    fn reset(&mut self, now: Instant, key: Key, bytes: &[u8], down: &mut Direction) {
        let mut port = Port { receive: Some(bytes), now, down, scratch: &mut self.scratch };
        let mut interface = interface(now, key, 0, &mut port);
        interface.poll(stack_time(now), &mut port, &mut SocketSet::new([]));
    }
}

impl Open {
    fn new(now: Instant, key: Key, stream: TcpStream, seed: u64) -> Self {
        let mut socket = Socket::new(SocketBuffer::new(vec![0; RECEIVE]), SocketBuffer::new(vec![0; SEND]));
        // The remote sender has already chosen its segments, so data is passed on as it arrives.
        socket.set_nagle_enabled(false);
        socket.set_congestion_control(CongestionControl::Reno);
        let endpoint = IpListenEndpoint { addr: Some(key.1.ip().into()), port: key.1.port() };
        // `listen` fails only for port 0, to which no connection can be made, and for a socket in use.
        let _ = socket.listen(endpoint);
        let mut sockets = SocketSet::new(Vec::with_capacity(1));
        let handle = sockets.add(socket);
        let mut nothing = Described;
        let interface = interface(now, key, seed, &mut nothing);
        Self {
            stream,
            interface,
            sockets,
            handle,
            readable: true,
            writable: true,
            fin_received: false,
            fin_sent: false,
            due: None,
            window: Window::new(),
        }
    }

    fn socket(&mut self) -> &mut Socket<'static> {
        self.sockets.get_mut(self.handle)
    }

    fn poll(&mut self, now: Instant, receive: Option<&[u8]>, down: &mut Direction, scratch: &mut Vec<u8>) {
        let mut port = Port { receive, now, down, scratch };
        self.interface.poll(stack_time(now), &mut port, &mut self.sockets);
    }

    fn next(&mut self, now: Instant) -> Option<Instant> {
        let at = self.interface.poll_at(stack_time(now), &self.sockets)?;
        Some(Instant::from_nanos(u64::try_from(at.total_micros()).unwrap_or(0) * 1_000))
    }

    /// Moves bytes between the two connections. Returns whether the one with the program must be polled again.
    fn transfer(&mut self, now: Instant) -> bool {
        let Self { stream, sockets, handle, readable, writable, fin_received, fin_sent, window, .. } = self;
        let socket: &mut Socket<'static> = sockets.get_mut(*handle);
        let (mut moved, mut broken) = (false, false);
        while *writable && socket.can_recv() {
            let wrote = socket.recv(|data| match (&*stream).write(data) {
                Ok(n) => (n, Ok(())),
                Err(error) => (0, Err(error)),
            });
            match wrote {
                Ok(Ok(())) => moved = true,
                Ok(Err(error)) if error.kind() == ErrorKind::WouldBlock => *writable = false,
                Ok(Err(error)) if error.kind() == ErrorKind::Interrupted => {}
                _ => {
                    (*writable, broken) = (false, true);
                }
            }
        }
        let finished = matches!(
            socket.state(),
            State::CloseWait | State::LastAck | State::Closing | State::TimeWait | State::Closed
        );
        if finished && !*fin_sent && socket.recv_queue() == 0 && socket.state() != State::Closed {
            *fin_sent = true;
            let _ = stream.shutdown(Shutdown::Write);
        }
        while *readable && !*fin_received && socket.can_send() {
            let most = window.room(now, socket.send_queue());
            if most == 0 {
                break;
            }
            let read = socket.send(|room| {
                let most = most.min(room.len());
                match (&*stream).read(&mut room[..most]) {
                    Ok(n) => (n, Ok(n)),
                    Err(error) => (0, Err(error)),
                }
            });
            match read {
                Ok(Ok(0)) => {
                    *fin_received = true;
                    moved = true;
                    socket.close();
                }
                Ok(Ok(read)) => {
                    moved = true;
                    window.took(now, read);
                }
                Ok(Err(error)) if error.kind() == ErrorKind::WouldBlock => *readable = false,
                Ok(Err(error)) if error.kind() == ErrorKind::Interrupted => {}
                _ => {
                    (*readable, broken) = (false, true);
                }
            }
        }
        if broken {
            moved = true;
            socket.abort();
        }
        moved
    }
}

/// Starts to connect to a remote host, without waiting.
fn connect(to: SocketAddr, class: u8) -> io::Result<TcpStream> {
    let family = if to.is_ipv4() { AddressFamily::INET } else { AddressFamily::INET6 };
    let flags = SocketFlags::NONBLOCK | SocketFlags::CLOEXEC;
    let socket: OwnedFd = rustix::net::socket_with(family, SocketType::STREAM, flags, None)?;
    mark_class(&socket, to, class);
    match rustix::net::connect(&socket, &to) {
        Ok(()) | Err(rustix::io::Errno::INPROGRESS) => {}
        Err(error) => return Err(error.into()),
    }
    let stream = TcpStream::from(socket);
    let _ = stream.set_nodelay(true);
    Ok(stream)
}

/// Sets the DSCP and ECN field that the program uses. Errors are ignored.
pub(crate) fn mark_class(socket: &OwnedFd, to: SocketAddr, class: u8) {
    let _ = match to {
        SocketAddr::V4(_) => sockopt::set_ip_tos(socket, class),
        SocketAddr::V6(_) => sockopt::set_ipv6_tclass(socket, class.into()),
    };
}

/// Whether the connection is established. Returns the error if it failed.
fn connected(socket: &TcpStream) -> io::Result<bool> {
    if let Some(error) = socket.take_error()? {
        return Err(error);
    }
    match socket.peer_addr() {
        Ok(_) => Ok(true),
        Err(error) if error.kind() == ErrorKind::NotConnected => Ok(false),
        Err(error) => Err(error),
    }
}

fn stack_time(now: Instant) -> StackInstant {
    StackInstant::from_micros((now.as_nanos() / 1_000) as i64)
}

/// Creates an interface that has the remote host's address.
fn interface(now: Instant, key: Key, seed: u64, device: &mut impl Device) -> Interface {
    let mut config = Config::new(HardwareAddress::Ip);
    config.random_seed = seed;
    let mut interface = Interface::new(config, device, stack_time(now));
    interface.update_ip_addrs(|addresses| {
        // The list has space for this one address. With prefix length 0, the program is a neighbour.
        let _ = addresses.push(IpCidr::new(key.1.ip().into(), 0));
    });
    interface
}

fn capabilities() -> DeviceCapabilities {
    let mut capabilities = DeviceCapabilities::default();
    capabilities.medium = Medium::Ip;
    capabilities.max_transmission_unit = MTU;
    capabilities
}

/// A device that never has a packet. It only describes its capabilities, from which an interface is created.
struct Described;

impl Device for Described {
    type RxToken<'a> = Received<'a>;
    type TxToken<'a> = Sent<'a>;
    fn receive(&mut self, _: StackInstant) -> Option<(Received<'_>, Sent<'_>)> {
        None
    }
    fn transmit(&mut self, _: StackInstant) -> Option<Sent<'_>> {
        None
    }
    fn capabilities(&self) -> DeviceCapabilities {
        capabilities()
    }
}

/// A device that receives at most one packet, and transmits packets through the shaper.
struct Port<'p> {
    receive: Option<&'p [u8]>,
    now: Instant,
    down: &'p mut Direction,
    scratch: &'p mut Vec<u8>,
}

struct Received<'a>(&'a [u8]);

struct Sent<'a> {
    now: Instant,
    down: &'a mut Direction,
    scratch: &'a mut Vec<u8>,
}

impl Device for Port<'_> {
    type RxToken<'a>
        = Received<'a>
    where
        Self: 'a;
    type TxToken<'a>
        = Sent<'a>
    where
        Self: 'a;
    fn receive(&mut self, _: StackInstant) -> Option<(Received<'_>, Sent<'_>)> {
        let bytes = self.receive.take()?;
        Some((Received(bytes), Sent { now: self.now, down: self.down, scratch: self.scratch }))
    }
    fn transmit(&mut self, _: StackInstant) -> Option<Sent<'_>> {
        Some(Sent { now: self.now, down: self.down, scratch: self.scratch })
    }
    fn capabilities(&self) -> DeviceCapabilities {
        capabilities()
    }
}

impl RxToken for Received<'_> {
    fn consume<R, F: FnOnce(&[u8]) -> R>(self, take: F) -> R {
        take(self.0)
    }
}

impl TxToken for Sent<'_> {
    fn consume<R, F: FnOnce(&mut [u8]) -> R>(self, length: usize, fill: F) -> R {
        self.scratch.clear();
        self.scratch.resize(length, 0);
        let result = fill(self.scratch);
        self.down.offer(self.now, self.scratch);
        result
    }
}
