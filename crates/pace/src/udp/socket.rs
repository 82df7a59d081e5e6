//! [`UdpSocket`]: blocking, and for event loops.

use std::io::{self, ErrorKind};
use std::net::{IpAddr, SocketAddr, ToSocketAddrs};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, RawFd};
use std::sync::atomic::{AtomicBool, Ordering};

use rustix::event::{PollFd, PollFlags};
use rustix::io::Errno;
use tidegate_units::{Instant, Span};

use super::gate::{Gate, now};
use super::schedule::Turn;
use super::{Backend, Choice, Paced, Settings};
use crate::pacer::{Params, Status};
use crate::sender::kernel::{Holder, KernelHelp, peer_of, queueing_of};
use crate::sender::route::queueing_on;
use crate::sender::{Queueing, poll_for, send_datagrams, udp_towards};

/// A UDP socket that sends at a rate.
///
/// Threads may share it: they send by one schedule. Sending to several destinations shares the rate between them.
///
/// *Cost*: a system call per datagram, one per batch with [`send_segments`](Self::send_segments), and one per wait.
///
/// ```
/// use tidegate_pace::{Rate, UdpSocket};
///
/// # let receiver = std::net::UdpSocket::bind("127.0.0.1:0")?;
/// # let address = receiver.local_addr()?;
/// let start = std::time::Instant::now();
/// let socket = UdpSocket::connect(address, Rate::from_mbit(8))?;
/// for _ in 0..11 {
///     socket.send(&[0; 1000])?; // 1 ms each
/// }
/// assert!(start.elapsed().as_millis() >= 9);
/// # Ok::<(), std::io::Error>(())
/// ```
#[derive(Debug)]
pub struct UdpSocket {
    socket: std::net::UdpSocket,
    gate: Gate,
    help: KernelHelp,
    told: Vec<String>,
    /// Whether the kernel cuts batches into datagrams.
    segments: AtomicBool,
}

/// The outcome of an attempt to send.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Attempt {
    /// So many bytes were sent.
    Sent(usize),
    /// It is not time: not before this instant of [`MonotonicClock`](crate::MonotonicClock). A
    /// [`Timer`](crate::Timer) waits for it in an event loop.
    NotBefore(Instant),
    /// Not before [`resume`](Paced::resume).
    Paused,
    /// The socket's buffer is full: not before its descriptor is writable.
    Full,
}

impl UdpSocket {
    /// The longest time that a full socket is waited for before the schedule is looked at again.
    const LOOK: Span = Span::from_millis(50);

    /// Opens a socket to `peer`, the first of its addresses that there is a route to.
    ///
    /// # Errors
    /// `InvalidInput` for [`Settings`] that cannot be; `Unsupported` for a back end that the way to the peer does not
    /// have; the error of the system.
    pub fn connect(peer: impl ToSocketAddrs, settings: impl Into<Settings>) -> io::Result<Self> {
        let settings = settings.into();
        let mut last = io::Error::new(ErrorKind::NotFound, "the name does not resolve to an address");
        for address in peer.to_socket_addrs()? {
            match udp_towards(address, &settings.multicast) {
                Ok(socket) => {
                    socket.set_nonblocking(false)?;
                    return Self::from_std(socket, settings);
                }
                Err(error) => last = error,
            }
        }
        Err(last)
    }
    /// Opens a socket at a local address, for [`send_to`](Self::send_to).
    ///
    /// # Errors
    /// Those of [`connect`](Self::connect).
    pub fn bind(local: impl ToSocketAddrs, settings: impl Into<Settings>) -> io::Result<Self> {
        Self::from_std(std::net::UdpSocket::bind(local)?, settings)
    }
    /// Paces an open socket, connected or not. What is sent through a duplicate of its descriptor is not paced.
    ///
    /// # Errors
    /// Those of [`connect`](Self::connect).
    pub fn from_std(socket: std::net::UdpSocket, settings: impl Into<Settings>) -> io::Result<Self> {
        let settings = settings.into();
        let towards: Option<IpAddr> = settings.towards.or_else(|| peer_of(&socket));
        settings.multicast.apply(&socket)?;
        let queueing = match settings.multicast.interface {
            Some(device) if towards.is_none_or(|address| address.is_multicast()) => queueing_on(device).ok(),
            _ => towards.and_then(queueing_of),
        };
        Self::with_queueing(socket, &settings, queueing.as_ref())
    }
    fn with_queueing(
        socket: std::net::UdpSocket,
        settings: &Settings,
        queueing: Option<&Queueing>,
    ) -> io::Result<Self> {
        let rate = settings.params.rate;
        let mut help = KernelHelp::default();
        let only = |(holder, line): (Option<Holder>, String)| match holder {
            Some(holder) => Ok((Some(holder), vec![line])),
            None => Err(io::Error::new(ErrorKind::Unsupported, line)),
        };
        let (holder, told) = match settings.backend {
            Choice::Auto => help.seek(&socket, queueing, rate),
            Choice::Timers => (None, vec!["timers of the process, as asked".into()]),
            Choice::TransmitTime => only(help.seek_transmit_times(&socket, queueing))?,
            Choice::MaxRate => only(help.seek_rate_limit(&socket, queueing, rate))?,
        };
        help.seek_segmentation(&socket);
        let backend = holder.map_or(Backend::Timers, Backend::from);
        let gate = Gate::new(settings, backend)?;
        let segments = AtomicBool::new(help.segmentation());
        Ok(Self { socket, gate, help, told, segments })
    }
    /// The back end that keeps departures apart.
    pub fn backend(&self) -> Backend {
        self.gate.backend()
    }
    /// A line for display about each feature of the kernel: whether it is used, and why not.
    pub fn told(&self) -> &[String] {
        &self.told
    }
    /// The socket itself, for receiving and for options. What is sent through it is not paced.
    pub fn get_ref(&self) -> &std::net::UdpSocket {
        &self.socket
    }

    /// Blocks until `data` may be sent to the peer, and sends it as one datagram; returns its length.
    ///
    /// # Errors
    /// Those of `send(2)`; nothing is charged then. On Linux one of them may be about an earlier datagram, which a host
    /// refused.
    pub fn send(&self, data: &[u8]) -> io::Result<usize> {
        self.pass(data, None, None)
    }
    /// Like [`send`](Self::send), to `to`.
    ///
    /// # Errors
    /// Those of `sendto(2)`.
    pub fn send_to(&self, data: &[u8], to: SocketAddr) -> io::Result<usize> {
        self.pass(data, Some(to), None)
    }
    /// Sends `data` in datagrams of `segment` bytes, the last of which may be shorter: in batches (UDP GSO) that take
    /// no longer than [`Settings::burst`] at the rate, with time between them. Blocks until all are sent.
    ///
    /// # Errors
    /// `InvalidInput` for a segment of zero bytes; those of [`send`](Self::send). Batches before the one that failed are
    /// sent.
    pub fn send_segments(&self, data: &[u8], segment: u16) -> io::Result<usize> {
        let mut sent = 0;
        while sent < data.len() {
            sent += self.pass(&data[sent..], None, Some(segment))?;
        }
        Ok(sent)
    }
    /// Sends `data` to the peer if it is time, and never blocks.
    ///
    /// # Errors
    /// Those of [`send`](Self::send).
    pub fn try_send(&self, data: &[u8]) -> io::Result<Attempt> {
        self.attempt(data, None, None)
    }
    /// Like [`try_send`](Self::try_send), to `to`.
    ///
    /// # Errors
    /// Those of [`send_to`](Self::send_to).
    pub fn try_send_to(&self, data: &[u8], to: SocketAddr) -> io::Result<Attempt> {
        self.attempt(data, Some(to), None)
    }
    /// Sends the first batch of `data`, as [`send_segments`](Self::send_segments) does, if it is time, and never blocks.
    ///
    /// # Errors
    /// Those of [`send_segments`](Self::send_segments).
    pub fn try_send_segments(&self, data: &[u8], segment: u16) -> io::Result<Attempt> {
        self.attempt(data, None, Some(segment))
    }

    /// Blocks until a datagram may be sent and the socket has room for it, for at most `patience`; returns whether one may
    /// be. Another thread may send first.
    ///
    /// # Errors
    /// The error of `poll(2)`.
    pub fn wait(&self, patience: Span) -> io::Result<bool> {
        let end = now() + patience;
        if !self.gate.wait(end) {
            return Ok(false);
        }
        poll_for(&mut [PollFd::new(&self.socket, PollFlags::OUT)], end.since(now()))
    }

    fn pass(&self, data: &[u8], to: Option<SocketAddr>, segment: Option<u16>) -> io::Result<usize> {
        loop {
            match self.attempt(data, to, segment)? {
                Attempt::Sent(sent) => return Ok(sent),
                Attempt::NotBefore(_) | Attempt::Paused => {
                    self.gate.wait(Instant::MAX);
                }
                Attempt::Full => {
                    poll_for(&mut [PollFd::new(&self.socket, PollFlags::OUT)], Self::LOOK)?;
                }
            }
        }
    }
    /// Sends `data`, or with `segment` the first batch of it, if it is time.
    pub(crate) fn attempt(&self, data: &[u8], to: Option<SocketAddr>, segment: Option<u16>) -> io::Result<Attempt> {
        let (mut data, mut cut) = (data, None);
        if let Some(segment) = segment {
            if segment == 0 {
                return Err(io::Error::new(ErrorKind::InvalidInput, "datagrams of 0 bytes do not make up a batch"));
            }
            let size = usize::from(segment);
            let many = if self.segments.load(Ordering::Relaxed) { self.gate.segments(size) } else { 1 };
            data = &data[..data.len().min(size * many)];
            cut = (data.len() > size).then_some(segment);
        }
        let outcome = self.gate.pass(|departs| {
            let at = match self.backend() {
                Backend::TransmitTime(_) => self.help.transmit_time(departs),
                Backend::Timers | Backend::MaxRate => None,
            };
            send_datagrams(&self.socket, data, to, cut, at)
        });
        match outcome {
            Ok(Ok(sent)) => Ok(Attempt::Sent(sent)),
            Ok(Err(Turn::Paused)) => Ok(Attempt::Paused),
            Ok(Err(Turn::At(until) | Turn::Now(until))) => Ok(Attempt::NotBefore(until)),
            Err(error) if error.kind() == ErrorKind::WouldBlock => Ok(Attempt::Full),
            Err(error) if error.kind() == ErrorKind::Interrupted => self.attempt(data, to, segment),
            // A device without checksum offload refuses batches: datagrams are sent one by one from now on.
            Err(error) if cut.is_some() && error.raw_os_error() == Some(Errno::IO.raw_os_error()) => {
                self.segments.store(false, Ordering::Relaxed);
                self.attempt(data, to, segment)
            }
            Err(error) => Err(error),
        }
    }
    #[cfg(feature = "tokio")]
    pub(crate) fn gate(&self) -> &Gate {
        &self.gate
    }
}

impl Paced for UdpSocket {
    fn set_params(&self, params: Params) -> io::Result<()> {
        self.gate.set_params(params)?;
        self.help.set_rate(&self.socket, params.rate);
        Ok(())
    }
    fn params(&self) -> Params {
        self.gate.params()
    }
    fn pause(&self) {
        self.gate.pause();
    }
    fn resume(&self) {
        self.gate.resume();
    }
    fn status(&self) -> Status {
        self.gate.status()
    }
}

impl AsFd for UdpSocket {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }
}

impl AsRawFd for UdpSocket {
    fn as_raw_fd(&self) -> RawFd {
        self.socket.as_raw_fd()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::udp::Multicast;
    use std::time::Duration;
    use tidegate_units::Rate;

    fn pair(
        settings: impl Into<Settings>,
        queueing: Option<&Queueing>,
    ) -> (std::net::UdpSocket, io::Result<UdpSocket>) {
        let receiver = std::net::UdpSocket::bind("127.0.0.1:0").unwrap();
        receiver.set_read_timeout(Some(Duration::from_secs(10))).unwrap();
        let socket = udp_towards(receiver.local_addr().unwrap(), &Multicast::SYSTEM).unwrap();
        (receiver, UdpSocket::with_queueing(socket, &settings.into(), queueing))
    }

    #[test]
    fn the_back_end_is_what_the_discipline_supports() {
        // Loopback holds no packets, but the kernel accepts the options and the times, which is what is tested here.
        let (fq, none) = (Queueing::of("fq"), Queueing::of("noqueue"));
        let with = |backend| Settings { backend, ..Settings::new(Rate::from_mbit(8)) };
        let (receiver, socket) = pair(with(Choice::Auto), Some(&fq));
        let socket = socket.unwrap();
        assert!(matches!(socket.backend(), Backend::TransmitTime(_)), "{:?}", socket.told());
        // What departs within 2 ms is handed over at once: 1000 bytes take 1 ms.
        let at_once = |socket: &UdpSocket| {
            let mut count = 0;
            while let Attempt::Sent(_) = socket.try_send(&[count; 1000]).unwrap() {
                count += 1;
            }
            count
        };
        assert!((3..6).contains(&at_once(&socket)));
        let mut buffer = [0; 2000];
        assert_eq!(receiver.recv(&mut buffer).unwrap(), 1000);

        let (_receiver, socket) = pair(with(Choice::MaxRate), Some(&fq));
        let socket = socket.unwrap();
        assert_eq!(socket.backend(), Backend::MaxRate);
        assert_eq!(socket.told(), ["SO_MAX_PACING_RATE: 1250000 byte/s, fq limits datagrams to it"]);
        assert!((3..6).contains(&at_once(&socket)));

        let (_receiver, socket) = pair(with(Choice::Auto), Some(&none));
        assert_eq!(socket.as_ref().unwrap().backend(), Backend::Timers);
        assert!(socket.unwrap().told()[0].contains("only fq obeys it"));
        for (choice, option) in [(Choice::TransmitTime, "SO_TXTIME"), (Choice::MaxRate, "SO_MAX_PACING_RATE")] {
            let error = pair(with(choice), Some(&none)).1.unwrap_err();
            assert_eq!(error.kind(), ErrorKind::Unsupported);
            assert!(error.to_string().contains(option) && error.to_string().contains("noqueue"), "{error}");
        }
    }

    #[test]
    fn batches_are_bounded_by_the_burst() {
        // 2500 bytes in 250 us at 80 Mbit/s: two datagrams of 1000 bytes.
        let (receiver, socket) = pair(Rate::from_mbit(80), None);
        let socket = socket.unwrap();
        let Attempt::Sent(first) = socket.try_send_segments(&[3; 10_500], 1000).unwrap() else {
            panic!("the first batch may be sent at once");
        };
        let segmented = socket.segments.load(Ordering::Relaxed);
        assert_eq!(first, if segmented { 2000 } else { 1000 });
        assert_eq!(socket.send_segments(&[3; 10_500], 1000).unwrap(), 10_500);
        let mut sizes = vec![];
        while sizes.iter().sum::<usize>() < first + 10_500 {
            sizes.push(receiver.recv(&mut [0; 2000]).unwrap());
        }
        assert_eq!(sizes.iter().filter(|size| **size == 500).count(), 1);
        assert!(sizes.iter().all(|size| *size <= 1000));
        assert_eq!(socket.status().bytes.as_u64(), first as u64 + 10_500);
        assert_eq!(socket.send_segments(&[0; 10], 0).unwrap_err().kind(), ErrorKind::InvalidInput);
    }
}
