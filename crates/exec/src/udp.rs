//! Relays datagrams: UDP, and ICMP echo where the host allows everybody to ping.
//!
//! Each socket of the program is associated with one socket of the host, whatever its peers, so that replies from
//! addresses other than the destination arrive as well. An association is removed after [`IDLE`] without a packet.

use std::collections::HashMap;
use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, UdpSocket};
use std::os::fd::OwnedFd;

use rustix::net::{AddressFamily, SocketFlags, SocketType, ipproto, sockopt};
use tidegate_core::Instant;
use tidegate_units::Span;

use crate::shape::Direction;
use crate::wire;

/// The maximum number of associations. A further one replaces the one that has been idle longest.
pub const ASSOCIATIONS: usize = 1_024;
/// The idle time after which an association is removed. RFC 4787 requires at least two minutes.
const IDLE: Span = Span::from_secs(180);
/// The interval between searches for idle associations.
const SWEEP: Span = Span::from_secs(5);
/// The maximum number of datagrams read from one socket in a row, so that other sockets are not delayed.
const BATCH: u32 = 32;

/// The endpoint of the program to which an association belongs.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub(crate) enum Owner {
    /// The UDP socket with this address.
    Udp(SocketAddr),
    /// Echo requests from this address with this identifier.
    Echo(IpAddr, u16),
}

/// All associations, by slot and by owner.
pub(crate) struct Datagrams {
    slots: Vec<Option<Association>>,
    free: Vec<u32>,
    table: HashMap<Owner, u32>,
    swept: Instant,
    buffer: Vec<u8>,
    scratch: Vec<u8>,
}

struct Association {
    owner: Owner,
    socket: OwnedFd,
    class: u8,
    used: Instant,
}

/// Registers a socket for events, under the number of its slot.
pub(crate) type Watch<'a> = &'a mut dyn FnMut(&OwnedFd, u32) -> io::Result<()>;

impl Datagrams {
    pub fn new() -> Self {
        Self {
            slots: Vec::new(),
            free: Vec::new(),
            table: HashMap::new(),
            swept: Instant::ZERO,
            buffer: vec![0; 65_536],
            scratch: Vec::new(),
        }
    }

    /// Sends a packet of the program. Returns an error if the host refuses it.
    pub fn send(
        &mut self,
        now: Instant,
        owner: Owner,
        to: SocketAddr,
        class: u8,
        payload: &[u8],
        watch: Watch<'_>,
    ) -> io::Result<()> {
        let slot = match self.table.get(&owner) {
            Some(&slot) => slot,
            None => self.open(now, owner, watch)?,
        };
        let Some(Some(association)) = self.slots.get_mut(slot as usize) else { return Ok(()) };
        association.used = now;
        if association.class != class {
            association.class = class;
            crate::tcp::mark_class(&association.socket, to, class);
        }
        match rustix::net::sendto(&association.socket, payload, rustix::net::SendFlags::empty(), &to) {
            // The host's socket buffer is full. The datagram is lost, as it would be at a full queue.
            Ok(_) | Err(rustix::io::Errno::AGAIN | rustix::io::Errno::NOBUFS) => Ok(()),
            Err(error) => Err(error.into()),
        }
    }

    fn open(&mut self, now: Instant, owner: Owner, watch: Watch<'_>) -> io::Result<u32> {
        if self.table.len() >= ASSOCIATIONS {
            let oldest = self.slots.iter().flatten().min_by_key(|a| a.used).map(|a| a.owner);
            oldest.into_iter().for_each(|owner| self.forget(owner));
        }
        let socket = owner.socket()?;
        let slot = self.free.pop().unwrap_or(self.slots.len() as u32);
        watch(&socket, slot).inspect_err(|_| self.free.push(slot))?;
        let association = Some(Association { owner, socket, class: 0, used: now });
        match self.slots.get_mut(slot as usize) {
            Some(place) => *place = association,
            None => self.slots.push(association),
        }
        self.table.insert(owner, slot);
        Ok(slot)
    }

    /// Reads the datagrams of a socket that is ready, and offers them to the program.
    pub fn ready(&mut self, now: Instant, slot: u32, down: &mut Direction) {
        let Some(Some(association)) = self.slots.get_mut(slot as usize) else { return };
        association.used = now;
        for _ in 0..BATCH {
            let flags = rustix::net::RecvFlags::DONTWAIT;
            // The error of an earlier datagram is reported once and then cleared. Datagrams queued behind it stay
            // readable, so the socket becomes ready again.
            let Ok((length, _, from)) = rustix::net::recvfrom(&association.socket, &mut self.buffer[..], flags) else {
                return;
            };
            let Some(from) = from.and_then(|from| SocketAddr::try_from(from).ok()) else { continue };
            let payload = &mut self.buffer[..length];
            let written = match association.owner {
                Owner::Udp(program) => wire::udp(from, program, payload, &mut self.scratch),
                Owner::Echo(program, identifier) if payload.len() >= 8 => {
                    // The host's ping socket uses an identifier of its own, so the program's is restored.
                    payload[4..6].copy_from_slice(&identifier.to_be_bytes());
                    wire::icmp(from.ip(), program, payload, &mut self.scratch)
                }
                Owner::Echo(..) => false,
            };
            if written {
                down.offer(now, &self.scratch);
            }
        }
    }

    /// Removes the associations that have been idle longer than [`IDLE`].
    pub fn sweep(&mut self, now: Instant) {
        if now.since(self.swept) < SWEEP {
            return;
        }
        self.swept = now;
        let idle = |a: &&Association| now.since(a.used) > IDLE;
        let idle: Vec<_> = self.slots.iter().flatten().filter(idle).map(|a| a.owner).collect();
        idle.into_iter().for_each(|owner| self.forget(owner));
    }

    fn forget(&mut self, owner: Owner) {
        if let Some(slot) = self.table.remove(&owner) {
            self.slots[slot as usize] = None;
            self.free.push(slot);
        }
    }
}

impl Owner {
    fn socket(self) -> io::Result<OwnedFd> {
        Ok(match self {
            Self::Udp(program) => {
                let any: IpAddr = match program {
                    SocketAddr::V4(_) => Ipv4Addr::UNSPECIFIED.into(),
                    SocketAddr::V6(_) => Ipv6Addr::UNSPECIFIED.into(),
                };
                let socket = UdpSocket::bind((any, 0))?;
                socket.set_nonblocking(true)?;
                if program.is_ipv4() {
                    socket.set_broadcast(true)?;
                }
                // The buffer is as large as permitted, so that the shaper, and not the socket, decides about bursts.
                let _ = sockopt::set_socket_recv_buffer_size(&socket, 1 << 20);
                socket.into()
            }
            Self::Echo(program, _) => {
                let (family, protocol) = match program {
                    IpAddr::V4(_) => (AddressFamily::INET, ipproto::ICMP),
                    IpAddr::V6(_) => (AddressFamily::INET6, ipproto::ICMPV6),
                };
                let flags = SocketFlags::NONBLOCK | SocketFlags::CLOEXEC;
                rustix::net::socket_with(family, SocketType::DGRAM, flags, Some(protocol))?
            }
        })
    }
}
