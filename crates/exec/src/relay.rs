//! The loop between the program's device and the sockets of the host.

use std::io::{self, Write as _};
use std::mem::MaybeUninit;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::ops::ControlFlow;
use std::os::fd::{AsFd, OwnedFd};

use nix::errno::Errno;
use nix::sys::wait::{WaitPidFlag, WaitStatus, waitpid};
use rustix::event::epoll::{self, EventData, EventFlags};
use rustix::time::Timespec;
use tidegate_capture::dissect::{self, Dissection, protocol};
use tidegate_core::Instant;
use tidegate_core::classify::Hosts;
use tidegate_engine::driver::{self, DataPath, Driver, Failure, Wait};
use tidegate_live::timing::{self, Priority};
use tidegate_units::Span;

use crate::shape::{Direction, Packets};
use crate::signals::{SignalAction, Signals, pass_on};
use crate::tcp::{Connections, Segment};
use crate::udp::{Datagrams, Owner};
use crate::{Outcome, Until, shape, wire};

/// The maximum number of packets read from the device in one turn.
const BATCH: usize = 64;
/// The longest sleep, so that idle sockets are found in time.
const SLEEP: Span = Span::from_secs(1);
/// With [`Until::Command`], the time that the program's last data has to leave.
const DRAIN: Span = Span::from_secs(2);
/// If `exec` still runs this long after the program has exited, a message explains why.
const EXPLAIN: Span = Span::from_secs(1);

/// The source of an epoll event.
#[derive(Clone, Copy)]
enum Token {
    Device,
    Signals,
    Connection(u32),
    Datagrams(u32),
}

impl Token {
    fn encode(self) -> EventData {
        let (kind, slot) = match self {
            Self::Device => (0, 0),
            Self::Signals => (1, 0),
            Self::Connection(slot) => (2, slot),
            Self::Datagrams(slot) => (3, slot),
        };
        EventData::new_u64(kind << 32 | u64::from(slot))
    }
    fn decode(data: EventData) -> Self {
        let data = data.u64();
        match data >> 32 {
            0 => Self::Device,
            1 => Self::Signals,
            2 => Self::Connection(data as u32),
            _ => Self::Datagrams(data as u32),
        }
    }
}

/// The state of the program and its descendants.
struct Program {
    process: u32,
    until: Until,
    /// The exit code, and the time of the exit.
    ended: Option<(u8, Instant)>,
    /// Whether no child of this process is left: all descendants of the program have exited.
    alone: bool,
    given_up: bool,
    explained: bool,
}

/// The relay, which is the data path of the packets that the program sends. Packets to the program pass a second driver
/// in the same loop.
pub(crate) struct Relay {
    tun: OwnedFd,
    poll: OwnedFd,
    signals: Signals,
    program: Program,
    up: Packets,
    down: Direction,
    world: World,
    began: Instant,
    /// Whether the device may have packets to read. This is unknown at first, and therefore `true`.
    device: bool,
    buffer: Vec<u8>,
    /// The exit code, once the run is over.
    over: Option<u8>,
}

/// The sockets of the host.
struct World {
    connections: Connections,
    datagrams: Datagrams,
    scratch: Vec<u8>,
}

impl Relay {
    pub fn new(tun: OwnedFd, signals: Signals, process: u32, until: Until, down: Driver<u32>) -> io::Result<Self> {
        // With real-time priority, if it is permitted, a busy machine does not slow the program below its rates.
        timing::prepare_thread(Priority::RealTime);
        let poll = epoll::create(epoll::CreateFlags::CLOEXEC)?;
        epoll::add(&poll, &tun, Token::Device.encode(), EventFlags::IN)?;
        epoll::add(&poll, signals.as_fd(), Token::Signals.encode(), EventFlags::IN)?;
        let began = timing::now();
        let world = World::new(began.as_nanos() ^ u64::from(process) << 32);
        let program = Program { process, until, ended: None, alone: false, given_up: false, explained: false };
        let (up, down) = (Packets::default(), Direction::new(down));
        let buffer = vec![0; 65_536];
        Ok(Self { tun, poll, signals, program, up, down, world, began, device: true, buffer, over: None })
    }

    /// Relays until the program has ended. `shaped` says whether the directions up and down are shaped.
    pub fn run(mut self, mut up: Driver<u32>, shaped: [bool; 2]) -> io::Result<Outcome> {
        driver::run(&mut up, &mut self).map_err(|failure| match failure {
            Failure::Path(error) => error,
            Failure::Panicked(text) => io::Error::other(format!("a discipline panicked: {text}")),
        })?;
        Ok(Outcome {
            code: self.over.unwrap_or_default(),
            up: self.up.traffic(shaped[0].then_some(&up)),
            down: self.down.traffic(shaped[1]),
            connections: self.world.connections.made(),
            lasted: timing::now().since(self.began),
        })
    }

    /// Sleeps until a descriptor is ready or `time` has passed, then handles sockets and signals.
    fn sleep(&mut self, time: Span) -> io::Result<()> {
        let nanos = time.as_nanos();
        let timeout = Timespec { tv_sec: (nanos / 1_000_000_000) as i64, tv_nsec: (nanos % 1_000_000_000) as i64 };
        let mut events = [MaybeUninit::uninit(); 64];
        let ready = match epoll::wait(&self.poll, &mut events, Some(&timeout)) {
            Ok((ready, _)) => ready,
            Err(rustix::io::Errno::INTR) => return Ok(()),
            Err(error) => return Err(error.into()),
        };
        let now = timing::now();
        for event in ready {
            match Token::decode(event.data) {
                Token::Device => self.device = true,
                Token::Signals => {
                    while let Some(action) = self.signals.pending() {
                        self.program.handle(action, now);
                    }
                }
                Token::Connection(_) | Token::Datagrams(_) => self.world.ready(now, event, &mut self.down),
            }
        }
        Ok(())
    }

    /// Returns the exit code once the run is over. A wait that lasts is explained on standard error.
    fn is_over(&mut self, now: Instant) -> Option<u8> {
        let (code, since) = self.program.ended?;
        let lasted = now.since(since);
        let drained = || self.up.is_empty() && self.world.connections.is_drained();
        let over = self.program.given_up
            || match self.program.until {
                Until::LastProcess => self.program.alone && drained(),
                Until::Command => drained() || lasted > DRAIN,
            };
        if over {
            return Some(code);
        }
        if lasted > EXPLAIN && !self.program.explained {
            self.program.explained = true;
            let why = if self.program.alone {
                "what the program sent is still on its way"
            } else {
                "processes that the program started still run"
            };
            // If standard error cannot be written, the wait goes on without the message.
            let _ = writeln!(io::stderr(), "tidegate: {why}; Ctrl-C gives it up");
        }
        None
    }
}

impl DataPath for Relay {
    type Handle = u32;
    type Sink = Packets;
    type Error = io::Error;

    fn now(&mut self) -> Instant {
        timing::now()
    }

    fn wait(&mut self, wait: Wait) -> io::Result<ControlFlow<()>> {
        // While the device may have packets, there is no sleep. In the first turn this is the case.
        if !self.device {
            let now = timing::now();
            let next = [wait.until, self.down.deadline(now), self.world.connections.deadline()];
            self.sleep(next.into_iter().flatten().min().map_or(SLEEP, |next| next.since(now).min(SLEEP)))?;
        }
        Ok(ControlFlow::Continue(()))
    }

    /// Reads packets that the program has sent.
    fn receive(&mut self, now: Instant, driver: &mut Driver<u32>) -> io::Result<usize> {
        if !std::mem::take(&mut self.device) {
            return Ok(0);
        }
        for received in 0..BATCH {
            match rustix::io::read(&self.tun, &mut self.buffer[..]) {
                Ok(length) => self.up.offer(now, &self.buffer[..length], driver),
                Err(_) => return Ok(received),
            }
        }
        Ok(BATCH)
    }

    fn sink(&mut self) -> &mut Packets {
        &mut self.up
    }

    fn flush(&mut self) -> io::Result<()> {
        let now = timing::now();
        let Self { up, down, world, poll, tun, .. } = self;
        up.take(|packet| world.send(now, packet, down, poll));
        world.connections.timers(now, down);
        world.datagrams.sweep(now);
        down.depart(now, |packet| {
            // A failure means that the program is gone.
            let _ = rustix::io::write(&*tun, packet);
        });
        Ok(())
    }

    fn control(&mut self, now: Instant, _driver: &mut Driver<u32>) -> io::Result<ControlFlow<()>> {
        self.over = self.is_over(now);
        Ok(if self.over.is_some() { ControlFlow::Break(()) } else { ControlFlow::Continue(()) })
    }
}

impl Program {
    fn handle(&mut self, action: SignalAction, now: Instant) {
        match action {
            SignalAction::Child => self.reap(now),
            // The program has exited, so a signal ends the wait for its descendants and its data.
            SignalAction::PassOn(_) | SignalAction::Terminal(_) if self.ended.is_some() => self.given_up = true,
            SignalAction::PassOn(signal) => pass_on(self.process, signal),
            SignalAction::Terminal(_) => {}
        }
    }

    fn reap(&mut self, now: Instant) {
        loop {
            let (process, code) = match waitpid(None, Some(WaitPidFlag::WNOHANG)) {
                Ok(WaitStatus::Exited(process, code)) => (process, code as u8),
                Ok(WaitStatus::Signaled(process, signal, _)) => (process, 128 + signal as u8),
                Ok(WaitStatus::StillAlive) => return,
                Ok(_) | Err(Errno::EINTR) => continue,
                Err(_) => {
                    self.alone = true;
                    return;
                }
            };
            if process.as_raw() as u32 == self.process {
                self.ended = Some((code, now));
            }
        }
    }
}

/// Relays the packets in `bytes` as if a program had sent them, for fuzzing. Each packet is preceded by its length in
/// two bytes. Connections are made wherever the packets are addressed to, so the caller must be in a network namespace
/// without a network.
#[doc(hidden)]
pub fn relay_packets(bytes: &[u8]) -> io::Result<()> {
    let poll = epoll::create(epoll::CreateFlags::CLOEXEC)?;
    let mut down = Direction::new(shape::driver(None).map_err(io::Error::other)?);
    let mut world = World::new(7);
    let mut rest = bytes;
    while let Some((length, behind)) = rest.split_first_chunk() {
        let (packet, behind) = behind.split_at(behind.len().min(u16::from_be_bytes(*length).into()));
        rest = behind;
        let now = timing::now();
        world.send(now, packet, &mut down, &poll);
        let mut events = [MaybeUninit::uninit(); 64];
        let (ready, _) = epoll::wait(&poll, &mut events, Some(&Timespec { tv_sec: 0, tv_nsec: 0 }))?;
        ready.iter().for_each(|event| world.ready(now, event, &mut down));
        world.connections.timers(now, &mut down);
        down.depart(now, |packet| {
            assert!(dissect::network(packet, packet.len()).is_ok(), "what it answers is a packet")
        });
    }
    Ok(())
}

/// Whether an address may be an endpoint of a TCP connection.
fn unicast(address: IpAddr) -> bool {
    !address.is_multicast() && !address.is_unspecified() && address != IpAddr::V4(Ipv4Addr::BROADCAST)
}

impl World {
    fn new(seed: u64) -> Self {
        Self { connections: Connections::new(seed), datagrams: Datagrams::new(), scratch: Vec::new() }
    }

    /// Handles an event of one of the host's sockets.
    fn ready(&mut self, now: Instant, event: &epoll::Event, down: &mut Direction) {
        match Token::decode(event.data) {
            Token::Connection(slot) => self.connections.ready(now, slot, event.flags, down),
            Token::Datagrams(slot) => self.datagrams.ready(now, slot, down),
            Token::Device | Token::Signals => {}
        }
    }

    /// Forwards a packet that the program sent.
    fn send(&mut self, now: Instant, packet: &[u8], down: &mut Direction, poll: &OwnedFd) {
        let Ok(dissection) = dissect::outer(packet, packet.len()) else { return };
        let (source, destination): (IpAddr, IpAddr) = match dissection.fields.hosts {
            Hosts::V4 { source, destination } => (source.into(), destination.into()),
            Hosts::V6 { source, destination } => (source.into(), destination.into()),
            Hosts::Unknown => return,
        };
        // The device's MTU is the maximum, so ordinary programs send no fragments.
        if dissection.fields.fragment.is_some() {
            return;
        }
        let class = dissection.fields.dscp.value() << 2 | dissection.ecn as u8;
        let ports = dissection.fields.source_port.zip(dissection.fields.destination_port);
        match (dissection.fields.protocol, ports) {
            (Some(protocol::TCP), Some((from, to))) => {
                // A segment to or from an address that is not unicast is discarded without a reply (RFC 9293, section
                // 3.9.2.3).
                if !unicast(source) || !unicast(destination) {
                    return;
                }
                let key = (SocketAddr::new(source, from), SocketAddr::new(destination, to));
                let flags = dissection.tcp_flags.unwrap_or_default();
                let segment = Segment { key, flags, class, bytes: packet };
                let watched = EventFlags::IN | EventFlags::OUT | EventFlags::RDHUP | EventFlags::ET;
                self.connections.segment(now, &segment, down, &mut |socket, slot| {
                    Ok(epoll::add(poll, socket, Token::Connection(slot).encode(), watched)?)
                });
            }
            (Some(protocol::UDP), Some((from, to))) => {
                let owner = Owner::Udp(SocketAddr::new(source, from));
                self.datagram(now, owner, SocketAddr::new(destination, to), class, packet, &dissection, down, poll);
            }
            (Some(protocol::ICMP | protocol::ICMPV6), _) => {
                // The packet may be shorter than its header length claims.
                let message = packet.get(usize::from(dissection.network_header)..).unwrap_or_default();
                // Only echo requests are forwarded. ICMP errors of the program concern packets of the relay, and a TUN
                // device has no neighbour discovery.
                if message.len() >= 8 && matches!((source, message[0]), (IpAddr::V4(_), 8) | (IpAddr::V6(_), 128)) {
                    let owner = Owner::Echo(source, u16::from_be_bytes([message[4], message[5]]));
                    self.datagram(now, owner, SocketAddr::new(destination, 0), class, packet, &dissection, down, poll);
                }
            }
            _ => self.unreachable(now, source, destination, packet, &Errno::EPROTONOSUPPORT.into(), down),
        }
    }

    #[allow(clippy::too_many_arguments)] // They are the parts of one dissected packet.
    fn datagram(
        &mut self,
        now: Instant,
        owner: Owner,
        to: SocketAddr,
        class: u8,
        packet: &[u8],
        dissection: &Dissection,
        down: &mut Direction,
        poll: &OwnedFd,
    ) {
        let at = match owner {
            Owner::Udp(_) => dissection.payload_offset(),
            Owner::Echo(..) => usize::from(dissection.network_header),
        };
        let end = (dissection.total as usize).min(packet.len());
        let Some(payload) = packet.get(at..end) else { return };
        let sent = self.datagrams.send(now, owner, to, class, payload, &mut |socket, slot| {
            Ok(epoll::add(poll, socket, Token::Datagrams(slot).encode(), EventFlags::IN)?)
        });
        if let Err(error) = sent {
            let source = match owner {
                Owner::Udp(program) => program.ip(),
                Owner::Echo(program, _) => program,
            };
            self.unreachable(now, source, to.ip(), packet, &error, down);
        }
    }

    /// Reports to the program that the destination of its packet is unreachable.
    fn unreachable(
        &mut self,
        now: Instant,
        program: IpAddr,
        world: IpAddr,
        packet: &[u8],
        error: &io::Error,
        down: &mut Direction,
    ) {
        if !world.is_multicast() && wire::unreachable(world, program, packet, error, &mut self.scratch) {
            down.offer(now, &self.scratch);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::relay_packets;

    #[test]
    fn segments_of_addresses_that_are_not_unicast_are_discarded() {
        for (source, destination) in [
            ([10, 0, 0, 1], [255; 4]),
            ([255; 4], [127, 0, 0, 1]),
            ([10, 0, 0, 1], [224, 0, 0, 1]),
            ([224, 0, 0, 1], [127, 0, 0, 1]),
            ([10, 0, 0, 1], [0; 4]),
            ([0; 4], [127, 0, 0, 1]),
        ] {
            // An ACK that belongs to no connection. If it were accepted, a reset would answer it.
            let mut packet = vec![0, 40, 0x45, 0, 0, 40, 0, 1, 0, 0, 64, 6, 0, 0];
            packet.extend(source.iter().chain(&destination));
            packet.extend([0x9c, 0x40, 0x1e, 0x61, 0, 0, 3, 0xe8, 0, 0, 0, 0, 0x50, 0x10, 0xff, 0xff, 0, 0, 0, 0]);
            relay_packets(&packet).expect("descriptors");
        }
    }
}
