//! Sockets: requests, acknowledgements, dumps, batches.

use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::time::Duration;

use rustix::io::Errno;
use rustix::net::netlink::SocketAddrNetlink;
use rustix::net::sockopt::{Timeout, set_socket_timeout};
use rustix::net::{AddressFamily, RecvFlags, SendFlags, SocketFlags, SocketType};
use tidegate_sys::net::set_option;

use super::{ACK, Body, Builder, DUMP, Error, KIND_DONE, KIND_NOOP, Messages, REQUEST, Reply, Result};

const DUMP_INTR: u16 = libc::NLM_F_DUMP_INTR as u16;
const BUFFER: usize = 65_536;
const PATIENCE: Duration = Duration::from_secs(5);

/// The subsystem of the kernel that a socket is connected to.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Protocol {
    /// Links, addresses, routes.
    Route,
    /// nf_tables, NFQUEUE, conntrack.
    Netfilter,
    /// Sockets of this machine (`sock_diag`).
    Diagnosis,
}

/// A netlink socket for requests and their answers. It belongs to the network namespace of the thread that opened it.
#[derive(Debug)]
pub struct Socket {
    fd: OwnedFd,
    port: u32,
    sequence: u32,
    buffer: Vec<u8>,
}

impl Socket {
    /// Opens a socket in the calling thread's network namespace.
    pub fn open(protocol: Protocol) -> Result<Self> {
        Self::with_groups(protocol, 0)
    }

    /// Opens a socket that also receives the notifications of `groups` (a bit mask).
    pub fn with_groups(protocol: Protocol, groups: u32) -> Result<Self> {
        let protocol = match protocol {
            // The number of this one is zero.
            Protocol::Route => None,
            Protocol::Netfilter => Some(rustix::net::netlink::NETFILTER),
            Protocol::Diagnosis => Some(rustix::net::netlink::SOCK_DIAG),
        };
        let system = |operation: &str| {
            let operation = operation.to_owned();
            move |error: Errno| Error::System { operation, source: error.into() }
        };
        let fd = rustix::net::socket_with(AddressFamily::NETLINK, SocketType::RAW, SocketFlags::CLOEXEC, protocol)
            .map_err(system("open a netlink socket"))?;
        let bound = rustix::net::bind(&fd, &SocketAddrNetlink::new(0, groups)).and_then(|()| port(&fd));
        let port = bound.map_err(system("bind a netlink socket"))?;
        let socket = Self { fd, port, sequence: 0, buffer: vec![0; BUFFER] };
        // Older kernels lack these two; then errors have no message of the kernel.
        let _ = socket.option(libc::SOL_NETLINK, libc::NETLINK_EXT_ACK, 1);
        let _ = socket.option(libc::SOL_NETLINK, libc::NETLINK_CAP_ACK, 1);
        set_socket_timeout(&socket.fd, Timeout::Recv, Some(PATIENCE))
            .map_err(system("set the time-out of a netlink socket"))?;
        Ok(socket)
    }

    /// A socket that another process has opened and configured.
    ///
    /// # Errors
    /// When the descriptor is no netlink socket.
    pub(crate) fn adopt(fd: OwnedFd) -> Result<Self> {
        let port = port(&fd)
            .map_err(|error| Error::System { operation: "take over a netlink socket".into(), source: error.into() })?;
        // Other numbers than those of replies to the earlier owner that are still to be read.
        let sequence = std::process::id() << 12;
        Ok(Self { fd, port, sequence, buffer: vec![0; BUFFER] })
    }

    /// Sets an integer socket option.
    pub fn option(&self, level: i32, name: i32, value: i32) -> io::Result<()> {
        set_option(&self.fd, level, name, value)
    }

    /// Returns the descriptor and its ownership.
    pub(crate) fn into_fd(self) -> OwnedFd {
        self.fd
    }

    /// The port that the kernel assigned to this socket.
    pub fn port(&self) -> u32 {
        self.port
    }

    /// The number for the next request.
    pub fn next_sequence(&mut self) -> u32 {
        self.sequence = self.sequence.wrapping_add(1).max(1);
        self.sequence
    }

    /// Sends one request and waits for its acknowledgement; returns the other messages of the reply.
    ///
    /// # Errors
    /// The kernel's refusal with its message; `operation` describes the request ("create the veth pair a, b").
    pub fn request(
        &mut self,
        operation: &str,
        kind: u16,
        flags: u16,
        fill: impl FnOnce(&mut Body<'_>),
    ) -> Result<Vec<Reply>> {
        let sequence = self.next_sequence();
        let mut builder = Builder::new();
        builder.message(kind, flags | REQUEST | ACK, sequence, fill);
        self.send(operation, &builder)?;
        let mut replies = Vec::new();
        loop {
            let bytes = self.receive(operation)?;
            for message in Messages::new(bytes).filter(|m| m.sequence == sequence) {
                match message.verdict() {
                    Some((0, _)) => return Ok(replies),
                    Some((errno, text)) => return Err(Error::Refused { operation: operation.into(), errno, text }),
                    None => replies.push(Reply { kind: message.kind, body: message.body.to_vec() }),
                }
            }
        }
    }

    /// Reads all objects of a kind. A dump that changed under the reader is read again, up to eight times.
    pub fn dump(&mut self, operation: &str, kind: u16, fill: impl Fn(&mut Body<'_>)) -> Result<Vec<Reply>> {
        for _ in 0..8 {
            if let Some(replies) = self.dump_once(operation, kind, &fill)? {
                return Ok(replies);
            }
        }
        Err(Error::Interrupted { operation: operation.into() })
    }

    fn dump_once(&mut self, operation: &str, kind: u16, fill: impl Fn(&mut Body<'_>)) -> Result<Option<Vec<Reply>>> {
        let sequence = self.next_sequence();
        let mut builder = Builder::new();
        builder.message(kind, REQUEST | DUMP, sequence, fill);
        self.send(operation, &builder)?;
        let mut replies = Vec::new();
        let mut interrupted = false;
        loop {
            let bytes = self.receive(operation)?;
            for message in Messages::new(bytes).filter(|m| m.sequence == sequence) {
                interrupted |= message.flags & DUMP_INTR != 0;
                match (message.kind, message.verdict()) {
                    (KIND_DONE, _) => {
                        let errno = message.body.first_chunk().map_or(0, |b| i32::from_ne_bytes(*b).wrapping_neg());
                        return match errno {
                            0 => Ok((!interrupted).then_some(replies)),
                            libc::EINTR => Ok(None),
                            _ => Err(Error::Refused { operation: operation.into(), errno, text: None }),
                        };
                    }
                    (_, Some((0, _))) | (KIND_NOOP, _) => {}
                    (_, Some((libc::EINTR, _))) => return Ok(None),
                    (_, Some((errno, text))) => {
                        return Err(Error::Refused { operation: operation.into(), errno, text });
                    }
                    _ => replies.push(Reply { kind: message.kind, body: message.body.to_vec() }),
                }
            }
        }
    }

    /// Sends a batch whose messages the kernel processes before this call returns, and reports its first refusal.
    ///
    /// At least one message must request an acknowledgement. `label` names a message by its sequence number, for the
    /// error.
    pub fn transact(&mut self, operation: &str, batch: &Builder, label: impl Fn(u32) -> Option<String>) -> Result<()> {
        self.send(operation, batch)?;
        let (mut refusal, mut answered) = (None, false);
        while let Some(bytes) = self.try_receive(operation)? {
            for message in Messages::new(bytes) {
                let Some((errno, text)) = message.verdict() else { continue };
                answered = true;
                if errno != 0 && refusal.is_none() {
                    let operation = match label(message.sequence) {
                        Some(what) => format!("{operation}: {what}"),
                        None => operation.to_owned(),
                    };
                    refusal = Some(Error::Refused { operation, errno, text });
                }
            }
        }
        match refusal {
            Some(error) => Err(error),
            None if answered => Ok(()),
            None => Err(Error::Malformed { operation: operation.into(), what: "there is none" }),
        }
    }

    /// Sends the messages of a batch in one datagram.
    pub fn send(&self, operation: &str, batch: &Builder) -> Result<()> {
        if batch.oversized() {
            return Err(Error::TooLong { operation: operation.into() });
        }
        send_bytes(self.fd.as_fd(), batch.bytes())
            .map_err(|source| Error::System { operation: operation.into(), source })
    }

    /// Waits for the next datagram from the kernel.
    pub fn receive(&mut self, operation: &str) -> Result<&[u8]> {
        let length = self.receive_with(operation, RecvFlags::empty())?.ok_or_else(|| Error::System {
            operation: operation.into(),
            source: io::Error::new(io::ErrorKind::TimedOut, "the kernel did not answer within 5 s"),
        })?;
        Ok(&self.buffer[..length])
    }

    /// The next datagram from the kernel, if one is there.
    pub fn try_receive(&mut self, operation: &str) -> Result<Option<&[u8]>> {
        let length = self.receive_with(operation, RecvFlags::DONTWAIT)?;
        Ok(length.map(|n| &self.buffer[..n]))
    }

    fn receive_with(&mut self, operation: &str, flags: RecvFlags) -> Result<Option<usize>> {
        loop {
            let received = rustix::net::recvfrom(&self.fd, &mut self.buffer[..], flags | RecvFlags::TRUNC);
            let (_, length, sender) = match received {
                Ok(received) => received,
                Err(Errno::INTR) => continue,
                Err(Errno::AGAIN) => return Ok(None),
                Err(error) => return Err(Error::System { operation: operation.into(), source: error.into() }),
            };
            let sender = sender.and_then(|sender| SocketAddrNetlink::try_from(sender).ok());
            if sender.is_none_or(|sender| sender.pid() != 0) {
                continue; // Another process wrote to our port: it is not from the kernel and is ignored.
            }
            if length > self.buffer.len() {
                return Err(Error::Malformed { operation: operation.into(), what: "it is longer than 64 KiB" });
            }
            return Ok(Some(length));
        }
    }
}

/// The port of a netlink socket.
fn port(fd: &OwnedFd) -> rustix::io::Result<u32> {
    Ok(SocketAddrNetlink::try_from(rustix::net::getsockname(fd)?)?.pid())
}

impl AsFd for Socket {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.fd.as_fd()
    }
}

/// Sends one datagram, repeating a call that a signal interrupted.
#[inline]
pub(crate) fn send_bytes(fd: BorrowedFd<'_>, bytes: &[u8]) -> io::Result<()> {
    rustix::io::retry_on_intr(|| rustix::net::send(fd, bytes, SendFlags::NOSIGNAL))?;
    Ok(())
}
