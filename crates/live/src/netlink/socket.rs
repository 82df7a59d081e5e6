//! Sockets: requests, acknowledgements, dumps, batches.

use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, FromRawFd, OwnedFd};
use std::time::Duration;

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
        let number = match protocol {
            Protocol::Route => libc::NETLINK_ROUTE,
            Protocol::Netfilter => libc::NETLINK_NETFILTER,
        };
        // SAFETY: socket(2) takes no pointers; the descriptor it returns has no other owner.
        let fd = unsafe {
            let fd = libc::socket(libc::AF_NETLINK, libc::SOCK_RAW | libc::SOCK_CLOEXEC, number);
            if fd < 0 {
                return Err(Error::last("open a netlink socket"));
            }
            OwnedFd::from_raw_fd(fd)
        };
        // SAFETY: an all-zero sockaddr_nl is valid; bind and getsockname get its true size and stay within it.
        let port = unsafe {
            let mut address: libc::sockaddr_nl = std::mem::zeroed();
            address.nl_family = libc::AF_NETLINK as u16;
            address.nl_groups = groups;
            let mut length = size_of::<libc::sockaddr_nl>() as libc::socklen_t;
            if libc::bind(fd.as_raw_fd(), (&raw const address).cast(), length) < 0
                || libc::getsockname(fd.as_raw_fd(), (&raw mut address).cast(), &mut length) < 0
            {
                return Err(Error::last("bind a netlink socket"));
            }
            address.nl_pid
        };
        let socket = Self { fd, port, sequence: 0, buffer: vec![0; BUFFER] };
        // Older kernels lack these two; then errors have no message of the kernel.
        let _ = socket.option(libc::SOL_NETLINK, libc::NETLINK_EXT_ACK, 1);
        let _ = socket.option(libc::SOL_NETLINK, libc::NETLINK_CAP_ACK, 1);
        let patience = libc::timeval { tv_sec: PATIENCE.as_secs() as libc::time_t, tv_usec: 0 };
        set_option(&socket.fd, libc::SOL_SOCKET, libc::SO_RCVTIMEO, &patience)
            .map_err(|source| Error::System { operation: "set the time-out of a netlink socket".into(), source })?;
        Ok(socket)
    }

    /// A socket that another process has opened and configured.
    ///
    /// # Errors
    /// When the descriptor is no netlink socket.
    pub(crate) fn adopt(fd: OwnedFd) -> Result<Self> {
        // SAFETY: as in `with_groups`.
        let port = unsafe {
            let mut address: libc::sockaddr_nl = std::mem::zeroed();
            let mut length = size_of::<libc::sockaddr_nl>() as libc::socklen_t;
            if libc::getsockname(fd.as_raw_fd(), (&raw mut address).cast(), &mut length) < 0
                || i32::from(address.nl_family) != libc::AF_NETLINK
            {
                return Err(Error::last("take over a netlink socket"));
            }
            address.nl_pid
        };
        // Other numbers than those of replies to the earlier owner that are still to be read.
        let sequence = std::process::id() << 12;
        Ok(Self { fd, port, sequence, buffer: vec![0; BUFFER] })
    }

    /// Sets an integer socket option.
    pub fn option(&self, level: i32, name: i32, value: i32) -> io::Result<()> {
        set_option(&self.fd, level, name, &value)
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
        let length = self.receive_with(operation, 0)?.ok_or_else(|| Error::System {
            operation: operation.into(),
            source: io::Error::new(io::ErrorKind::TimedOut, "the kernel did not answer within 5 s"),
        })?;
        Ok(&self.buffer[..length])
    }

    /// The next datagram from the kernel, if one is there.
    pub fn try_receive(&mut self, operation: &str) -> Result<Option<&[u8]>> {
        let length = self.receive_with(operation, libc::MSG_DONTWAIT)?;
        Ok(length.map(|n| &self.buffer[..n]))
    }

    fn receive_with(&mut self, operation: &str, flags: i32) -> Result<Option<usize>> {
        loop {
            // SAFETY: the buffer and the address are live and of the sizes given for the whole call.
            let (length, sender) = unsafe {
                let mut address: libc::sockaddr_nl = std::mem::zeroed();
                let mut size = size_of::<libc::sockaddr_nl>() as libc::socklen_t;
                let length = libc::recvfrom(
                    self.fd.as_raw_fd(),
                    self.buffer.as_mut_ptr().cast(),
                    self.buffer.len(),
                    flags | libc::MSG_TRUNC,
                    (&raw mut address).cast(),
                    &mut size,
                );
                (length, address.nl_pid)
            };
            if length < 0 {
                let source = io::Error::last_os_error();
                match source.raw_os_error() {
                    Some(libc::EINTR) => continue,
                    Some(libc::EAGAIN) => return Ok(None),
                    _ => return Err(Error::System { operation: operation.into(), source }),
                }
            }
            let length = length as usize;
            if sender != 0 {
                continue; // Another process wrote to our port: it is not from the kernel and is ignored.
            }
            if length > self.buffer.len() {
                return Err(Error::Malformed { operation: operation.into(), what: "it is longer than 64 KiB" });
            }
            return Ok(Some(length));
        }
    }
}

impl AsFd for Socket {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.fd.as_fd()
    }
}

/// Sends one datagram, repeating a call that a signal interrupted.
pub(crate) fn send_bytes(fd: BorrowedFd<'_>, bytes: &[u8]) -> io::Result<()> {
    loop {
        // SAFETY: `bytes` is live for the call and its length is given.
        let sent = unsafe { libc::send(fd.as_raw_fd(), bytes.as_ptr().cast(), bytes.len(), libc::MSG_NOSIGNAL) };
        if sent >= 0 {
            return Ok(());
        }
        let error = io::Error::last_os_error();
        if error.raw_os_error() != Some(libc::EINTR) {
            return Err(error);
        }
    }
}

/// Sets a socket option to a plain value.
pub(crate) fn set_option<T: Copy>(fd: &impl AsFd, level: i32, name: i32, value: &T) -> io::Result<()> {
    // SAFETY: `value` is live for the call and its true size is given.
    let result = unsafe {
        let pointer: *const T = value;
        libc::setsockopt(fd.as_fd().as_raw_fd(), level, name, pointer.cast(), size_of::<T>() as libc::socklen_t)
    };
    if result < 0 { Err(io::Error::last_os_error()) } else { Ok(()) }
}
