//! A paced UDP socket for tokio: the feature `tokio`.
//!
//! Tokio's own timers round up to a millisecond. This socket has a timer of its own ([`Timer`]), as exact as wake-ups of
//! the machine are, so that 100 Mbit/s leave as single datagrams and not as nine in each millisecond.
//!
//! *Cost*: two descriptors per socket; for each wait a system call to arm the timer and one to read it. A socket that may
//! spin ([`Params::spin`](crate::Params::spin)) yields to the runtime instead of blocking it.

use std::future::poll_fn;
use std::io;
use std::net::{SocketAddr, ToSocketAddrs};
use std::os::fd::AsRawFd;
use std::pin::pin;
use std::task::{Context, Poll, ready};

use ::tokio::io::unix::AsyncFd;
use ::tokio::sync::{Mutex, Notify};
use tidegate_units::Instant;

use crate::algorithm::Wait;
use crate::pacer::{Params, Status};
use crate::timer::Timer;
use crate::udp::{self, Attempt, Backend, Paced, Settings};

/// Has the runtime watch a descriptor.
#[expect(
    deprecated,
    reason = "the other constructor is unsafe, because a type may return a descriptor that it does not own; ours do"
)]
fn registered<T: AsRawFd>(owner: T) -> io::Result<AsyncFd<T>> {
    AsyncFd::new(owner)
}

/// A [`Timer`] that a task awaits.
#[derive(Debug)]
pub(crate) struct Alarm(AsyncFd<Timer>);

impl Alarm {
    pub(crate) fn new() -> io::Result<Self> {
        Ok(Self(registered(Timer::new()?)?))
    }
    pub(crate) fn arm(&self, until: Instant) -> io::Result<()> {
        self.0.get_ref().arm(until)
    }
    /// Ready when the instant that it was armed for has been reached.
    pub(crate) fn poll(&self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        loop {
            let mut guard = ready!(self.0.poll_read_ready(cx))?;
            if self.0.get_ref().expired()? {
                return Poll::Ready(Ok(()));
            }
            guard.clear_ready();
        }
    }
}

/// A UDP socket whose `send` awaits the time at which the datagram may be sent.
///
/// Tasks may share it: they take turns in the order in which they asked. Sending is cancellation safe: a future that is
/// dropped before it is ready has sent nothing and has not charged the schedule, but for the batches of
/// [`send_segments`](Self::send_segments) that were sent before. Rate and pause are those of [`Paced`]; a change wakes the
/// task that waits.
///
/// ```
/// use tidegate_pace::{Rate, tokio::UdpSocket, udp::Paced};
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> std::io::Result<()> {
/// # let receiver = std::net::UdpSocket::bind("127.0.0.1:0")?;
/// # let address = receiver.local_addr()?;
/// let start = std::time::Instant::now();
/// let socket = UdpSocket::connect(address, Rate::from_mbit(8))?;
/// println!("{}", socket.get_ref().told().join("\n"));
/// for _ in 0..11 {
///     socket.send(&[0; 1000]).await?; // 1 ms each
/// }
/// assert!(start.elapsed().as_millis() >= 9);
/// socket.set_rate(Rate::from_mbit(80))?;
/// # Ok(())
/// # }
/// ```
#[derive(Debug)]
pub struct UdpSocket {
    socket: AsyncFd<udp::UdpSocket>,
    /// Held by the task whose datagram is next.
    turn: Mutex<()>,
    alarm: Alarm,
    changed: Notify,
}

impl UdpSocket {
    /// Opens a socket to `peer`. Resolving a name blocks; resolve it first where that matters.
    ///
    /// # Errors
    /// Those of [`udp::UdpSocket::connect`].
    ///
    /// # Panics
    /// Outside a runtime of tokio with I/O enabled, as every socket of tokio.
    pub fn connect(peer: impl ToSocketAddrs, settings: impl Into<Settings>) -> io::Result<Self> {
        Self::new(udp::UdpSocket::connect(peer, settings)?)
    }
    /// Opens a socket at a local address, for [`send_to`](Self::send_to).
    ///
    /// # Errors
    /// Those of [`udp::UdpSocket::bind`].
    ///
    /// # Panics
    /// As [`connect`](Self::connect).
    pub fn bind(local: impl ToSocketAddrs, settings: impl Into<Settings>) -> io::Result<Self> {
        Self::new(udp::UdpSocket::bind(local, settings)?)
    }
    /// Takes a paced socket into the runtime.
    ///
    /// # Errors
    /// The error of the system.
    ///
    /// # Panics
    /// As [`connect`](Self::connect).
    pub fn new(socket: udp::UdpSocket) -> io::Result<Self> {
        socket.get_ref().set_nonblocking(true)?;
        Ok(Self { socket: registered(socket)?, turn: Mutex::new(()), alarm: Alarm::new()?, changed: Notify::new() })
    }
    /// The socket itself: what was chosen, its options. Its blocking calls must not be used in a task.
    pub fn get_ref(&self) -> &udp::UdpSocket {
        self.socket.get_ref()
    }
    /// The back end that keeps departures apart.
    pub fn backend(&self) -> Backend {
        self.get_ref().backend()
    }

    /// Waits until `data` may be sent to the peer, and sends it as one datagram; returns its length.
    ///
    /// # Errors
    /// Those of [`udp::UdpSocket::send`].
    pub async fn send(&self, data: &[u8]) -> io::Result<usize> {
        self.pass(data, None, None).await
    }
    /// Like [`send`](Self::send), to `to`.
    ///
    /// # Errors
    /// Those of [`udp::UdpSocket::send_to`].
    pub async fn send_to(&self, data: &[u8], to: SocketAddr) -> io::Result<usize> {
        self.pass(data, Some(to), None).await
    }
    /// Sends `data` in datagrams of `segment` bytes, the last of which may be shorter, in batches of at most
    /// [`Settings::burst`] with time between them.
    ///
    /// # Errors
    /// Those of [`udp::UdpSocket::send_segments`].
    pub async fn send_segments(&self, data: &[u8], segment: u16) -> io::Result<usize> {
        let mut sent = 0;
        while sent < data.len() {
            sent += self.pass(&data[sent..], None, Some(segment)).await?;
        }
        Ok(sent)
    }
    /// Receives a datagram; returns its length and its sender. Receiving is not paced. Cancellation safe.
    ///
    /// # Errors
    /// Those of `recvfrom(2)`.
    pub async fn recv_from(&self, buffer: &mut [u8]) -> io::Result<(usize, SocketAddr)> {
        loop {
            let mut guard = self.socket.readable().await?;
            if let Ok(outcome) = guard.try_io(|socket| socket.get_ref().get_ref().recv_from(buffer)) {
                return outcome;
            }
        }
    }

    async fn pass(&self, data: &[u8], to: Option<SocketAddr>, segment: Option<u16>) -> io::Result<usize> {
        let _turn = self.turn.lock().await;
        loop {
            // Between the attempt and the return there is no await: what was sent is always reported.
            match self.get_ref().attempt(data, to, segment)? {
                Attempt::Sent(sent) => return Ok(sent),
                Attempt::NotBefore(_) | Attempt::Paused => self.wait().await?,
                Attempt::Full => {
                    let mut guard = self.socket.writable().await?;
                    match self.get_ref().attempt(data, to, segment)? {
                        Attempt::Sent(sent) => return Ok(sent),
                        Attempt::Full => guard.clear_ready(),
                        Attempt::NotBefore(_) | Attempt::Paused => {}
                    }
                }
            }
        }
    }
    /// Waits until a datagram may be sent, or the schedule has changed.
    async fn wait(&self) -> io::Result<()> {
        let from = udp::now();
        // A change from here on is either in the plan or leaves a permit, which ends the wait.
        let Some(wait) = self.get_ref().gate().plan(from) else { return Ok(()) };
        match wait {
            Wait::Spin => ::tokio::task::yield_now().await,
            Wait::Sleep(until) => {
                self.alarm.arm(until)?;
                let mut changed = pin!(self.changed.notified());
                poll_fn(|cx| match changed.as_mut().poll(cx) {
                    Poll::Ready(()) => Poll::Ready(Ok(())),
                    Poll::Pending => self.alarm.poll(cx),
                })
                .await?;
            }
        }
        self.get_ref().gate().waited(wait, from);
        Ok(())
    }
}

impl Paced for UdpSocket {
    fn set_params(&self, params: Params) -> io::Result<()> {
        self.get_ref().set_params(params)?;
        self.changed.notify_one();
        Ok(())
    }
    fn params(&self) -> Params {
        self.get_ref().params()
    }
    fn pause(&self) {
        self.get_ref().pause();
        self.changed.notify_one();
    }
    fn resume(&self) {
        self.get_ref().resume();
        self.changed.notify_one();
    }
    fn status(&self) -> Status {
        self.get_ref().status()
    }
}
