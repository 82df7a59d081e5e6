//! Senders: destinations that never block, so that a rate can be changed and a transfer paused while one is full.
//!
//! *Law*: [`Destination::delivered`] is exact: bytes of a file or pipe that were written (and, of a pipe, read from
//! it), of a TCP connection that the peer acknowledged, of datagrams that the kernel accepted.
//! *Cost*: one system call per packet; one per 64 segments with UDP GSO.
//! *Notes*: TCP and UDP addresses are resolved once, and the first address that responds is used.

pub(crate) mod kernel;
pub(crate) mod route;

use std::fmt;
use std::fs::File;
use std::io::{self, ErrorKind, IoSlice};
use std::net::{Shutdown, SocketAddr, TcpStream, ToSocketAddrs, UdpSocket};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd};
use std::str::FromStr;
use std::time::Duration;

use nix::sys::socket::{ControlMessage, MsgFlags, SockaddrStorage};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::{Errno, ReadWriteFlags};
use tidegate_units::{Bytes, Instant, Rate, Span};

use crate::udp::Multicast;

pub use kernel::{KernelHelp, TxClock};
pub use route::{Queueing, queueing_towards};

/// The destination: `tcp://host:port`, `udp://host:port`.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Target {
    /// The protocol.
    pub protocol: Protocol,
    /// Host and port.
    pub address: String,
}

/// A transport protocol.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Protocol {
    /// A stream.
    Tcp,
    /// Datagrams.
    Udp,
}

impl FromStr for Target {
    type Err = String;
    fn from_str(text: &str) -> Result<Self, String> {
        let (protocol, address) = if let Some(address) = text.strip_prefix("tcp://") {
            (Protocol::Tcp, address)
        } else if let Some(address) = text.strip_prefix("udp://") {
            (Protocol::Udp, address)
        } else {
            return Err(format!(
                "`{text}` is not a destination; write for example udp://192.0.2.1:5000 or tcp://[::1]:80"
            ));
        };
        let port =
            address.rsplit_once(':').filter(|(host, _)| !host.is_empty()).and_then(|(_, port)| port.parse().ok());
        match port {
            Some(1..=u16::MAX) => Ok(Self { protocol, address: address.into() }),
            _ => Err(format!("`{text}` has no port; write for example {}:5000", text.trim_end_matches(':'))),
        }
    }
}

impl fmt::Display for Target {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let scheme = match self.protocol {
            Protocol::Tcp => "tcp",
            Protocol::Udp => "udp",
        };
        write!(f, "{scheme}://{}", self.address)
    }
}

/// An open destination.
#[derive(Debug)]
pub struct Destination {
    name: String,
    kind: Kind,
    accepted: u64,
    help: KernelHelp,
}

#[derive(Debug)]
enum Kind {
    /// A file descriptor that may be shared with other processes; its flags are not changed.
    Stream {
        file: File,
        nowait: bool,
    },
    Tcp(TcpStream),
    Udp(UdpSocket),
}

impl Destination {
    /// A pipe, a file or a terminal, as standard output may be. Its flags are not changed.
    pub fn stream(name: impl Into<String>, file: File) -> Self {
        Self { name: name.into(), kind: Kind::Stream { file, nowait: true }, accepted: 0, help: KernelHelp::default() }
    }
    /// Connects to `target` within `patience`.
    ///
    /// # Errors
    /// The error of the last address tried, or that there is none.
    pub fn connect(target: &Target, patience: Duration) -> io::Result<Self> {
        Self::connect_with(target, patience, &Multicast::SYSTEM)
    }
    /// Connects to `target` within `patience`; datagrams to a multicast group leave as `multicast` says.
    ///
    /// # Errors
    /// Those of [`connect`](Self::connect), and those of the options.
    pub fn connect_with(target: &Target, patience: Duration, multicast: &Multicast) -> io::Result<Self> {
        let mut last = io::Error::new(ErrorKind::NotFound, "the name does not resolve to an address");
        for address in target.address.to_socket_addrs()? {
            let kind = match target.protocol {
                Protocol::Tcp => TcpStream::connect_timeout(&address, patience).and_then(|stream| {
                    stream.set_nodelay(true)?;
                    stream.set_nonblocking(true)?;
                    Ok(Kind::Tcp(stream))
                }),
                Protocol::Udp => udp_towards(address, multicast).map(Kind::Udp),
            };
            match kind {
                Ok(kind) => {
                    return Ok(Self { name: target.to_string(), kind, accepted: 0, help: KernelHelp::default() });
                }
                Err(error) => last = error,
            }
        }
        Err(last)
    }
    /// The name, for display.
    pub fn name(&self) -> &str {
        &self.name
    }
    /// Whether the data of one call is sent as one datagram.
    pub fn is_datagram(&self) -> bool {
        matches!(self.kind, Kind::Udp(_))
    }
    /// Whether accepted data reaches its reader even if this process ends: true for a pipe or a file.
    pub fn outlives_us(&self) -> bool {
        matches!(self.kind, Kind::Stream { .. })
    }
    /// The kernel features in use.
    pub fn help(&self) -> &KernelHelp {
        &self.help
    }
    /// Detects kernel features for sending at `rate` and enables them. Returns a description for display.
    pub fn seek_help(&mut self, rate: Rate) -> Vec<String> {
        match &self.kind {
            Kind::Stream { .. } => vec!["a pipe or file: no kernel features apply".into()],
            Kind::Tcp(stream) => self.help.for_tcp(stream, rate),
            Kind::Udp(socket) => self.help.for_udp(socket, rate),
        }
    }
    /// Disables segmentation, after the device refused it.
    pub fn forgo_segmentation(&mut self) {
        self.help.without_segmentation();
    }
    /// Sets the rate in the kernel, if one was set before.
    pub fn set_rate(&mut self, rate: Rate) {
        match &self.kind {
            Kind::Stream { .. } => {}
            Kind::Tcp(stream) => self.help.set_rate(stream, rate),
            Kind::Udp(socket) => self.help.set_rate(socket, rate),
        }
    }
    /// Sends `data` without blocking and returns the number of bytes accepted; all of a datagram.
    ///
    /// `segment` is the size of the datagrams that it is cut into (UDP GSO); `at` is the transmit time (`SO_TXTIME`).
    /// Both require the feature in [`help`](Self::help).
    ///
    /// # Errors
    /// `WouldBlock` when there is no space; other errors of the kernel.
    pub fn send(&mut self, data: &[u8], segment: Option<u16>, at: Option<Instant>) -> io::Result<usize> {
        let taken = match &mut self.kind {
            Kind::Stream { file, nowait } => write_some(file, nowait, data),
            Kind::Tcp(stream) => {
                let flags = rustix::net::SendFlags::DONTWAIT | rustix::net::SendFlags::NOSIGNAL;
                rustix::net::send(stream, data, flags).map_err(Into::into)
            }
            Kind::Udp(socket) => {
                let at = at.and_then(|at| self.help.transmit_time(at));
                send_datagrams(socket, data, None, segment, at)
            }
        }?;
        self.accepted += taken as u64;
        Ok(taken)
    }
    /// Waits until there may be space, for at most `patience`; returns whether there is.
    ///
    /// # Errors
    /// The error of `poll`.
    pub fn wait_for_room(&self, patience: Span) -> io::Result<bool> {
        let mut fds = [PollFd::from_borrowed_fd(self.fd(), PollFlags::OUT)];
        poll_for(&mut fds, patience)
    }
    /// An error reported after a send: a datagram that was refused, a connection that was reset.
    pub fn late_error(&self) -> Option<io::Error> {
        match &self.kind {
            Kind::Stream { .. } => None,
            Kind::Tcp(stream) => stream.take_error().ok().flatten(),
            Kind::Udp(socket) => socket.take_error().ok().flatten(),
        }
    }
    /// Bytes that the kernel accepted.
    pub fn accepted(&self) -> Bytes {
        Bytes::new(self.accepted)
    }
    /// Bytes that reached the other side, as far as can be known: of a pipe, read from it; of a TCP connection,
    /// acknowledged; otherwise accepted by the kernel.
    pub fn delivered(&self) -> Bytes {
        match &self.kind {
            Kind::Stream { file, .. } => {
                let unread = if is_pipe(file) { rustix::io::ioctl_fionread(file).unwrap_or(0) } else { 0 };
                Bytes::new(self.accepted.saturating_sub(unread))
            }
            Kind::Tcp(stream) => {
                Bytes::new(kernel::acknowledged(stream).map_or(self.accepted, |acked| acked.min(self.accepted)))
            }
            Kind::Udp(_) => self.accepted(),
        }
    }
    /// Closes a stream and waits, for at most `patience` without progress, until all of it has arrived; returns
    /// whether it has.
    ///
    /// # Errors
    /// The error that ended the connection.
    pub fn finish(&mut self, patience: Span, mut go_on: impl FnMut() -> bool) -> io::Result<bool> {
        match &self.kind {
            Kind::Stream { .. } | Kind::Udp(_) => Ok(true),
            Kind::Tcp(stream) => {
                if let Some(error) = stream.take_error()? {
                    return Err(error);
                }
                stream.shutdown(Shutdown::Write)?;
                let (mut before, mut idle) = (Bytes::ZERO, Span::ZERO);
                let step = Span::from_millis(5);
                while self.delivered() < self.accepted() && idle < patience && go_on() {
                    if let Some(error) = self.late_error() {
                        return Err(error);
                    }
                    std::thread::sleep(Duration::from_nanos(step.as_nanos()));
                    let now = self.delivered();
                    idle = if now > before { Span::ZERO } else { idle + step };
                    before = now;
                }
                Ok(self.delivered() == self.accepted())
            }
        }
    }
    fn fd(&self) -> BorrowedFd<'_> {
        match &self.kind {
            Kind::Stream { file, .. } => file.as_fd(),
            Kind::Tcp(stream) => stream.as_fd(),
            Kind::Udp(socket) => socket.as_fd(),
        }
    }
}

fn is_pipe(file: &File) -> bool {
    use std::os::unix::fs::FileTypeExt;
    file.metadata().is_ok_and(|metadata| metadata.file_type().is_fifo())
}

/// Returns a socket that is connected to `address` and does not block.
pub(crate) fn udp_towards(address: SocketAddr, multicast: &Multicast) -> io::Result<UdpSocket> {
    let any: SocketAddr = match address {
        SocketAddr::V4(_) => ([0, 0, 0, 0], 0).into(),
        SocketAddr::V6(_) => ([0_u16; 8], 0).into(),
    };
    let socket = UdpSocket::bind(any)?;
    // A broadcast address is permitted; if the kernel refuses this, the send fails too.
    let _ = socket.set_broadcast(true);
    multicast.apply(&socket)?;
    socket.connect(address)?;
    socket.set_nonblocking(true)?;
    Ok(socket)
}

/// Writes as much as there is space for. `RWF_NOWAIT` keeps a pipe from blocking without changing the flags it shares
/// with other processes; where it is not supported (a terminal, a file), `poll` has reported space.
fn write_some(file: &File, nowait: &mut bool, data: &[u8]) -> io::Result<usize> {
    if *nowait {
        match rustix::io::pwritev2(file, &[IoSlice::new(data)], u64::MAX, ReadWriteFlags::NOWAIT) {
            Err(Errno::OPNOTSUPP | Errno::SPIPE | Errno::INVAL) => *nowait = false,
            other => return other.map_err(Into::into),
        }
    }
    rustix::io::write(file, data).map_err(Into::into)
}

/// Sends `data` to the peer or `to` without blocking, cut into datagrams of `segment` bytes, at the transmit time `at`.
pub(crate) fn send_datagrams(
    socket: &UdpSocket,
    data: &[u8],
    to: Option<SocketAddr>,
    segment: Option<u16>,
    at: Option<u64>,
) -> io::Result<usize> {
    if segment.is_none() && at.is_none() {
        let flags = rustix::net::SendFlags::DONTWAIT;
        let sent = match &to {
            None => rustix::net::send(socket, data, flags),
            Some(to) => rustix::net::sendto(socket, data, flags, to),
        };
        return sent.map_err(Into::into);
    }
    let to = to.map(SockaddrStorage::from);
    let mut control = [ControlMessage::TxTime(&0), ControlMessage::TxTime(&0)];
    let mut used = 0;
    if let Some(at) = &at {
        control[used] = ControlMessage::TxTime(at);
        used += 1;
    }
    if let Some(segment) = &segment {
        control[used] = ControlMessage::UdpGsoSegments(segment);
        used += 1;
    }
    let data = [IoSlice::new(data)];
    let flags = MsgFlags::MSG_DONTWAIT;
    nix::sys::socket::sendmsg(socket.as_raw_fd(), &data, &control[..used], flags, to.as_ref()).map_err(Into::into)
}

/// Polls for at most `patience`; returns whether anything is ready. A signal counts as not ready.
pub(crate) fn poll_for(fds: &mut [PollFd<'_>], patience: Span) -> io::Result<bool> {
    let nanos = patience.as_nanos();
    let timeout = Timespec {
        tv_sec: i64::try_from(nanos / 1_000_000_000).unwrap_or(i64::MAX),
        tv_nsec: (nanos % 1_000_000_000) as _,
    };
    match poll(fds, Some(&timeout)) {
        Ok(ready) => Ok(ready > 0),
        Err(Errno::INTR) => Ok(false),
        Err(error) => Err(error.into()),
    }
}

/// Waits for at most `patience` until `fd` is readable or at its end; returns whether it is.
///
/// # Errors
/// The error of `poll`.
pub fn wait_for_data(fd: impl AsFd, patience: Span) -> io::Result<bool> {
    poll_for(&mut [PollFd::from_borrowed_fd(fd.as_fd(), PollFlags::IN)], patience)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Read;

    impl Destination {
        fn tcp(&self) -> &TcpStream {
            let Kind::Tcp(stream) = &self.kind else { unreachable!("only asked of TCP") };
            stream
        }
    }
    use std::net::TcpListener;

    #[test]
    fn targets() {
        let target: Target = "udp://[::1]:5000".parse().unwrap();
        assert_eq!((target.protocol, target.address.as_str()), (Protocol::Udp, "[::1]:5000"));
        assert_eq!(target.to_string(), "udp://[::1]:5000");
        for wrong in ["localhost:80", "tcp://localhost", "tcp://:80", "udp://h:0", "udp://h:99999", "http://h:80"] {
            assert!(wrong.parse::<Target>().is_err(), "{wrong}");
        }
    }

    #[test]
    fn a_full_pipe_does_not_block_and_what_was_not_read_is_not_delivered() {
        let (mut reader, writer) = io::pipe().unwrap();
        let file = File::from(std::os::fd::OwnedFd::from(writer));
        let mut destination = Destination::stream("pipe", file);
        let data = [7_u8; 100_000];
        let mut accepted = 0;
        loop {
            match destination.send(&data, None, None) {
                Ok(n) => accepted += n as u64,
                Err(error) => {
                    assert_eq!(error.kind(), ErrorKind::WouldBlock);
                    break;
                }
            }
        }
        assert!(!destination.wait_for_room(Span::from_millis(1)).unwrap());
        assert_eq!(destination.accepted(), Bytes::new(accepted));
        let mut read = [0; 5_000];
        reader.read_exact(&mut read).unwrap();
        assert_eq!(destination.delivered(), Bytes::new(5_000));
        drop(reader);
        assert_eq!(destination.send(&data, None, None).unwrap_err().kind(), ErrorKind::BrokenPipe);
        assert_eq!(destination.delivered(), Bytes::new(5_000));
    }

    #[test]
    fn tcp_counts_what_the_peer_acknowledged() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let target = format!("tcp://{}", listener.local_addr().unwrap()).parse().unwrap();
        let mut destination = Destination::connect(&target, Duration::from_secs(5)).unwrap();
        let (mut peer, _) = listener.accept().unwrap();
        let mut sent = 0;
        while sent < 50_000 {
            sent += destination.send(&[1; 1000], None, None).unwrap();
        }
        // Before the end of the stream is sent: neither the SYN may be counted as a byte, nor a byte as the SYN.
        let patience = std::time::Instant::now();
        while destination.delivered() < Bytes::new(50_000) && patience.elapsed() < Duration::from_secs(30) {
            std::thread::sleep(Duration::from_millis(1));
        }
        assert_eq!(kernel::acknowledged(destination.tcp()), Some(50_000));
        let reader = std::thread::spawn(move || {
            let mut all = Vec::new();
            peer.read_to_end(&mut all).unwrap();
            all.len()
        });
        assert!(destination.finish(Span::from_secs(30), || true).unwrap());
        assert_eq!((destination.delivered(), destination.accepted()), (Bytes::new(50_000), Bytes::new(50_000)));
        assert_eq!(reader.join().unwrap(), 50_000);
    }

    #[test]
    fn transmit_times_go_with_the_datagram() {
        // Loopback has no discipline that holds packets: they arrive at once, but the kernel accepts the time, which
        // it does not without the option or with another clock.
        let receiver = UdpSocket::bind("127.0.0.1:0").unwrap();
        let socket = udp_towards(receiver.local_addr().unwrap(), &Multicast::SYSTEM).unwrap();
        let config = libc::sock_txtime { clockid: libc::CLOCK_MONOTONIC, flags: 0 };
        nix::sys::socket::setsockopt(&socket, nix::sys::socket::sockopt::TxTime, &config).unwrap();
        let mut buffer = [0; 3000];
        assert_eq!(send_datagrams(&socket, &[1; 700], None, None, Some(1)).unwrap(), 700);
        assert_eq!(receiver.recv(&mut buffer).unwrap(), 700);
        assert_eq!(send_datagrams(&socket, &[1; 2500], None, Some(1000), Some(1)).unwrap(), 2500);
        assert_eq!(receiver.recv(&mut buffer).unwrap(), 1000);
    }

    #[test]
    fn udp_tells_of_refusal_and_segments_where_the_kernel_can() {
        let receiver = UdpSocket::bind("127.0.0.1:0").unwrap();
        let target: Target = format!("udp://{}", receiver.local_addr().unwrap()).parse().unwrap();
        let mut destination = Destination::connect(&target, Duration::from_secs(5)).unwrap();
        let said = destination.seek_help(Rate::from_mbit(100));
        assert!(said.iter().any(|line| line.contains("SO_MAX_PACING_RATE")), "{said:?}");
        let mut buffer = [0; 9000];
        if destination.help().segmentation() {
            assert_eq!(destination.send(&[5; 2500], Some(1000), None).unwrap(), 2500);
            let sizes = [0; 3].map(|_: i32| receiver.recv(&mut buffer).unwrap());
            assert_eq!(sizes, [1000, 1000, 500]);
        }
        assert_eq!(destination.send(&[5; 700], None, Some(Instant::from_nanos(1))).unwrap(), 700);
        assert_eq!(receiver.recv(&mut buffer).unwrap(), 700);
        drop(receiver);
        destination.send(&[5; 700], None, None).unwrap();
        let error = destination.late_error().expect("the answer comes at once on loopback");
        assert_eq!(error.kind(), ErrorKind::ConnectionRefused);
    }
}
