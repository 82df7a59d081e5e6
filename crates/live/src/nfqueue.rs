//! NFQUEUE: packets out of the kernel, verdicts back into it, many to a system call.
//!
//! A [`QueueSocket`] binds any number of queues; their packets arrive through one descriptor and name their queue.
//! [`QueueSocket::receive`] fills a [`Ring`] with up to 64 packets in one system call; [`Verdicts`] collects verdicts,
//! in any order, and [`QueueSocket::send`] sends them in as few system calls as netlink allows.
//!
//! *Source*: the kernel's `include/uapi/linux/netfilter/nfnetlink_queue.h`.
//! *Units*: lengths in bytes at layer 3 (no link header).
//! *Cost*: one system call for up to 64 packets, one for up to 94 verdicts (netlink copies a datagram above 3,776
//! bytes through `vmalloc`, which is slower than a second call). Nothing is allocated after the first batch, payload
//! rewriting aside.
//! *Notes*: every flag is set in a message of its own and its acknowledgement read, because one refused flag refuses
//! all others of its message. For a queue without GSO the kernel segments superpackets *before* they are queued:
//! [`Verdicts::requeue`] from a queue with GSO to one without has a superpacket segmented; the segments arrive at the
//! second queue in order.

use std::collections::VecDeque;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use rustix::io::Errno;
use rustix::net::RecvFlags;
use rustix::net::sockopt::{set_socket_recv_buffer_size, set_socket_recv_buffer_size_force, socket_recv_buffer_size};

use crate::netlink::{self, Attributes, Body, Builder, Error, Messages, Result, send_bytes};

mod counters;
mod packet;
pub(crate) mod release;
pub(crate) mod search;
mod verdicts;

pub use counters::{QueueCounters, queue_counters};
pub use packet::{Hook, Packet, Ring};
pub(crate) use release::LONGEST_BURST;
pub use release::Releaser;
pub use verdicts::Verdicts;

const SUBSYSTEM: u16 = (libc::NFNL_SUBSYS_QUEUE as u16) << 8;
const MSG_PACKET: u16 = SUBSYSTEM | libc::NFQNL_MSG_PACKET as u16;
const MSG_VERDICT: u16 = SUBSYSTEM | libc::NFQNL_MSG_VERDICT as u16;
const MSG_VERDICT_BATCH: u16 = SUBSYSTEM | libc::NFQNL_MSG_VERDICT_BATCH as u16;
const MSG_CONFIG: u16 = SUBSYSTEM | libc::NFQNL_MSG_CONFIG as u16;

const CFG_CMD: u16 = libc::NFQA_CFG_CMD as u16;
const CFG_PARAMS: u16 = libc::NFQA_CFG_PARAMS as u16;
const CFG_QUEUE_MAXLEN: u16 = libc::NFQA_CFG_QUEUE_MAXLEN as u16;
const CFG_MASK: u16 = libc::NFQA_CFG_MASK as u16;
const CFG_FLAGS: u16 = libc::NFQA_CFG_FLAGS as u16;

const CMD_BIND: u8 = libc::NFQNL_CFG_CMD_BIND as u8;
const CMD_UNBIND: u8 = libc::NFQNL_CFG_CMD_UNBIND as u8;
const COPY_PACKET: u8 = libc::NFQNL_COPY_PACKET as u8;

const FLAG_FAIL_OPEN: u32 = libc::NFQA_CFG_F_FAIL_OPEN as u32;
const FLAG_GSO: u32 = libc::NFQA_CFG_F_GSO as u32;
const FLAG_UID_GID: u32 = libc::NFQA_CFG_F_UID_GID as u32;

/// The maximum number of packets of one [`QueueSocket::receive`].
pub const BATCH: usize = 64;

/// How the kernel passes superpackets (TCP segmentation offload, UDP GSO) to a queue.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Superpackets {
    /// They arrive whole, up to 64 KiB.
    #[default]
    Whole,
    /// They are segmented first; each segment is a packet with an id of its own.
    Segmented,
}

/// How the kernel treats packets when the queue is full, because the program hangs.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum WhenFull {
    /// They pass unshaped, ahead of those that are queued.
    #[default]
    Pass,
    /// They are dropped.
    Drop,
}

/// Whether packets bear the owner of their socket.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Owners {
    /// With the uid and gid of the socket, for local traffic.
    #[default]
    Included,
    /// Without the uid and gid.
    Omitted,
}

/// How a queue is set up.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct QueueSettings {
    /// The number of bytes of each packet that are copied to user space. 128 hold IPv6 with extension headers and TCP
    /// with options.
    pub copy_range: u32,
    /// Whether superpackets arrive whole.
    pub superpackets: Superpackets,
    /// How packets are treated when the kernel's queue is full.
    pub when_full: WhenFull,
    /// Whether packets bear uid and gid.
    pub owners: Owners,
    /// The maximum number of packets that wait for a verdict. Keep it well above the shaper's own limit: the kernel
    /// drops without regard to class.
    pub max_length: u32,
}

impl Default for QueueSettings {
    fn default() -> Self {
        Self {
            copy_range: 128,
            superpackets: Superpackets::Whole,
            when_full: WhenFull::Pass,
            owners: Owners::Included,
            max_length: 65_536,
        }
    }
}

/// The result of one setting.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Outcome {
    /// The kernel acknowledged it.
    InForce,
    /// It was not requested.
    NotAsked,
    /// The kernel refused it, with this message.
    Refused(String),
}

impl Outcome {
    /// Whether the kernel acknowledged it.
    pub fn in_force(&self) -> bool {
        *self == Self::InForce
    }
}

/// The result of each setting of a queue.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct QueueReport {
    /// The number of the queue.
    pub queue: u16,
    /// Superpackets arrive whole.
    pub gso: Outcome,
    /// Packets bear the owner of their socket.
    pub owners: Outcome,
    /// A full queue lets packets pass.
    pub fail_open: Outcome,
    /// The queue's length.
    pub max_length: Outcome,
}

/// The least number of a queue that is tried.
pub(crate) const FIRST_QUEUE: u16 = 7_400;

/// The counters of a socket.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct SocketCounters {
    /// Packets received.
    pub packets: u64,
    /// Verdicts sent.
    pub verdicts: u64,
    /// How often the receive buffer overflowed. The kernel passed or dropped those packets (see [`WhenFull`]).
    pub overruns: u64,
    /// Verdicts that the kernel refused: the packet was no longer queued, because the queue or its interface was
    /// removed.
    pub refused_verdicts: u64,
    /// The error number of the last refusal.
    pub last_refusal: i32,
    /// Datagrams that did not fit into the buffers of the ring.
    pub truncated: u64,
    /// System calls that received.
    pub receive_calls: u64,
    /// System calls that sent.
    pub send_calls: u64,
}

/// A socket that serves one or more queues of the calling thread's network namespace.
///
/// When it is closed, also by `kill -9`, the kernel drops the packets in its queues, and later packets pass by the
/// rule's `bypass`: send every verdict first.
#[derive(Debug)]
pub struct QueueSocket {
    fd: OwnedFd,
    port: u32,
    sequence: u32,
    receive_buffer: usize,
    queues: Vec<u16>,
    pending: VecDeque<Vec<u8>>,
    counters: SocketCounters,
    /// Whether another process receives replies at the moment, so that none is requested.
    silent: bool,
    /// Whether queueing has ended.
    closed: bool,
}

impl QueueSocket {
    /// Opens a socket with a receive buffer of about `receive_buffer` bytes; a waiting packet takes about 1 KiB of it.
    ///
    /// Beyond `net.core.rmem_max` this needs `CAP_NET_ADMIN` in the initial user namespace; without it the buffer is
    /// as large as allowed. [`receive_buffer`](Self::receive_buffer) returns its size.
    pub fn open(receive_buffer: usize) -> Result<Self> {
        let plain = netlink::Socket::open(netlink::Protocol::Netfilter)?;
        let port = plain.port();
        let fd = plain.into_fd();
        let system = |operation: &str| {
            let operation = operation.to_owned();
            move |error: Errno| Error::System { operation, source: error.into() }
        };
        let wanted = receive_buffer.min(i32::MAX as usize);
        if set_socket_recv_buffer_size_force(&fd, wanted).is_err() {
            set_socket_recv_buffer_size(&fd, wanted).map_err(system("set the receive buffer of the queue socket"))?;
        }
        rustix::io::ioctl_fionbio(&fd, true).map_err(system("make the queue socket nonblocking"))?;
        let mut socket = Self {
            fd,
            port,
            sequence: 0,
            receive_buffer: 0,
            queues: Vec::new(),
            pending: VecDeque::new(),
            counters: SocketCounters::default(),
            silent: false,
            closed: false,
        };
        socket.receive_buffer = socket.read_receive_buffer();
        Ok(socket)
    }

    /// A socket that another process has opened, with the queues that it has bound, while a guardian reads from it.
    /// Returns it with the settings of the queues, which are set up again; what the kernel refuses of them is not known,
    /// because the guardian receives the replies.
    ///
    /// # Errors
    /// When the descriptor is no netlink socket.
    pub(crate) fn adopt(fd: OwnedFd, queues: &[(u16, QueueSettings)]) -> Result<(Self, Vec<QueueReport>)> {
        let plain = netlink::Socket::adopt(fd)?;
        let (port, fd) = (plain.port(), plain.into_fd());
        let mut socket = Self {
            fd,
            port,
            // Other numbers than those of replies to the earlier owner that are still to be read.
            sequence: std::process::id() << 12,
            receive_buffer: 0,
            queues: queues.iter().map(|(queue, _)| *queue).collect(),
            pending: VecDeque::new(),
            counters: SocketCounters::default(),
            silent: true,
            closed: false,
        };
        socket.receive_buffer = socket.read_receive_buffer();
        let reports = queues.iter().map(|(queue, settings)| socket.set_up(*queue, settings)).collect::<Result<_>>()?;
        socket.silent = false;
        Ok((socket, reports))
    }

    fn read_receive_buffer(&self) -> usize {
        socket_recv_buffer_size(&self.fd).unwrap_or(0)
    }

    /// The netlink port, by which the kernel's list of queues names this socket
    /// (see [`QueueCounters::port`]).
    pub fn port(&self) -> u32 {
        self.port
    }

    /// The size of the receive buffer as the kernel counts it (twice the requested size, for its own overhead).
    pub fn receive_buffer(&self) -> usize {
        self.receive_buffer
    }

    /// The queues bound now.
    pub fn queues(&self) -> &[u16] {
        &self.queues
    }

    /// The counters since the socket was opened.
    pub fn counters(&self) -> SocketCounters {
        self.counters
    }

    /// Binds `queue` and sets it up, each setting on its own.
    ///
    /// # Errors
    /// `EBUSY` if another socket serves the queue; `EPERM` without `CAP_NET_ADMIN`. A refused flag is no error: it is
    /// in the report.
    pub fn bind(&mut self, queue: u16, settings: &QueueSettings) -> Result<QueueReport> {
        let label = format!("bind queue {queue}");
        self.configure(&label, queue, |m| {
            m.attr(CFG_CMD, &[CMD_BIND, 0, 0, 0]);
        })
        .map_err(|e| match e.errno() {
            // The kernel returns EPERM also when another socket serves the queue; its list distinguishes the two.
            Some(libc::EPERM | libc::EBUSY) if is_served(queue) => Error::Refused {
                operation: label,
                errno: libc::EBUSY,
                text: Some("another program serves this queue; choose another number or stop that program".into()),
            },
            _ => e,
        })?;
        self.queues.push(queue);
        self.set_up(queue, settings)
    }

    fn set_up(&mut self, queue: u16, settings: &QueueSettings) -> Result<QueueReport> {
        self.set_copy_range(queue, settings.copy_range)?;
        let max_length = self.configure("set the queue's length", queue, |m| {
            m.be32(CFG_QUEUE_MAXLEN, settings.max_length);
        });
        Ok(QueueReport {
            queue,
            gso: self.flag(queue, FLAG_GSO, settings.superpackets == Superpackets::Whole),
            owners: self.flag(queue, FLAG_UID_GID, settings.owners == Owners::Included),
            fail_open: self.flag(queue, FLAG_FAIL_OPEN, settings.when_full == WhenFull::Pass),
            max_length: outcome(max_length),
        })
    }

    /// Sets how many bytes of each packet of `queue` are copied from now on. Receive with a [`Ring`] of at least that range.
    ///
    /// # Errors
    /// When the kernel refuses it; the range stays as it was.
    pub fn set_copy_range(&mut self, queue: u16, copy_range: u32) -> Result<()> {
        self.configure(&format!("set what queue {queue} copies"), queue, |m| {
            let mut parameters = [0; 5];
            parameters[..4].copy_from_slice(&copy_range.to_be_bytes());
            parameters[4] = COPY_PACKET;
            m.attr(CFG_PARAMS, &parameters);
        })
    }

    /// Releases `queue`; the kernel drops the packets it still holds.
    pub fn unbind(&mut self, queue: u16) -> Result<()> {
        self.queues.retain(|&q| q != queue);
        self.configure(&format!("release queue {queue}"), queue, |m| {
            m.attr(CFG_CMD, &[CMD_UNBIND, 0, 0, 0]);
        })
    }

    fn flag(&mut self, queue: u16, flag: u32, wanted: bool) -> Outcome {
        let result = self.configure("set a flag of the queue", queue, |m| {
            m.be32(CFG_FLAGS, if wanted { flag } else { 0 }).be32(CFG_MASK, flag);
        });
        if wanted { outcome(result) } else { Outcome::NotAsked }
    }

    fn configure(&mut self, operation: &str, queue: u16, fill: impl FnOnce(&mut Body<'_>)) -> Result<()> {
        self.sequence = self.sequence.wrapping_add(1).max(1);
        let sequence = self.sequence;
        let mut builder = Builder::new();
        let reply = if self.silent { 0 } else { netlink::ACK };
        builder.message(MSG_CONFIG, netlink::REQUEST | reply, sequence, |m| {
            m.raw(&generic_header(queue));
            fill(m);
        });
        let system = |source| Error::System { operation: operation.into(), source };
        send_bytes(self.fd.as_fd(), builder.bytes()).map_err(system)?;
        if self.silent {
            return Ok(());
        }
        let mut buffer = vec![0; 65_536];
        loop {
            let length = match rustix::net::recv(&self.fd, &mut buffer[..], RecvFlags::DONTWAIT) {
                Ok((length, _)) => length,
                Err(Errno::INTR) => continue,
                Err(Errno::NOBUFS) => {
                    self.counters.overruns += 1;
                    continue;
                }
                // The kernel replies before send() returns: no message means that the reply was lost.
                Err(error) => return Err(system(error.into())),
            };
            let bytes = &buffer[..length];
            for message in Messages::new(bytes) {
                match message.verdict() {
                    Some((0, _)) if message.sequence == sequence => return Ok(()),
                    Some((errno, text)) if message.sequence == sequence => {
                        return Err(Error::Refused { operation: operation.into(), errno, text });
                    }
                    Some((errno, _)) => self.count_refusal(errno),
                    None => self.pending.push_back(bytes.to_vec()),
                }
            }
        }
    }

    /// Fills `ring` with waiting packets, at most [`BATCH`], and returns the number of datagrams received. Never
    /// blocks; zero means that none is waiting.
    ///
    /// # Errors
    /// Only fatal errors. An overflow of the receive buffer is counted in [`counters`](Self::counters), not returned.
    pub fn receive(&mut self, ring: &mut Ring) -> Result<usize> {
        if !self.pending.is_empty() {
            let count = ring.fill(&mut self.pending);
            self.account(ring);
            return Ok(count);
        }
        loop {
            self.counters.receive_calls += 1;
            match ring.receive(self.fd.as_fd()) {
                Ok(count) => {
                    self.account(ring);
                    return Ok(count);
                }
                Err(error) => match error.raw_os_error() {
                    Some(libc::EAGAIN) => return Ok(0),
                    Some(libc::EINTR) => {}
                    Some(libc::ENOBUFS) => self.counters.overruns += 1,
                    _ => return Err(Error::System { operation: "receive from the queue".into(), source: error }),
                },
            }
        }
    }

    fn account(&mut self, ring: &Ring) {
        self.counters.truncated += ring.truncated();
        for message in ring.messages() {
            match message.verdict() {
                Some((0, _)) => {}
                Some((errno, _)) => self.count_refusal(errno),
                None => self.counters.packets += u64::from(message.kind == MSG_PACKET),
            }
        }
    }

    fn count_refusal(&mut self, errno: i32) {
        if self.closed {
            // There was nothing to accept.
            return;
        }
        self.counters.refused_verdicts += 1;
        self.counters.last_refusal = errno;
    }

    /// Sends every verdict collected and empties `verdicts`. A verdict that the kernel refuses is counted when its
    /// reply is received; the others of the batch are not affected.
    ///
    /// # Errors
    /// When the system call fails; what was not sent stays in `verdicts` and may be sent again.
    pub fn send(&mut self, verdicts: &mut Verdicts) -> Result<()> {
        while let Some((bytes, count)) = verdicts.next_chunk() {
            self.counters.send_calls += 1;
            send_bytes(self.fd.as_fd(), bytes)
                .map_err(|source| Error::System { operation: "send verdicts".into(), source })?;
            self.counters.verdicts += count;
            verdicts.sent_chunk();
        }
        verdicts.clear();
        Ok(())
    }
}

impl AsFd for QueueSocket {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.fd.as_fd()
    }
}

fn is_served(queue: u16) -> bool {
    queue_counters().is_ok_and(|list| list.iter().any(|c| c.queue == queue))
}

fn outcome(result: Result<()>) -> Outcome {
    match result {
        Ok(()) => Outcome::InForce,
        Err(error) => Outcome::Refused(error.to_string()),
    }
}

/// The header behind every nfnetlink message: family, version, resource in network order.
fn generic_header(queue: u16) -> [u8; 4] {
    let [high, low] = queue.to_be_bytes();
    [libc::AF_UNSPEC as u8, 0, high, low]
}

#[cfg(test)]
mod tests;
