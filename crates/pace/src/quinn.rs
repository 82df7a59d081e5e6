//! A paced socket below an endpoint of quinn: the feature `quinn`.
//!
//! Quinn paces each connection by its congestion window, in bursts of at least ten datagrams and with timers of a
//! millisecond. This socket spaces what all connections of an endpoint send by one schedule, at a rate that the
//! application sets, and makes quinn's batches (UDP GSO) short. Congestion control goes on above it.
//!
//! *Notes*: acknowledgements are paced as all datagrams are. A connection waits with at most one batch, which its round
//! trips include. Packets that belong to no connection (a retry, a reset) are dropped when they are not due, as quinn does
//! when a socket is full. Quinn sends through `quinn-udp`, which takes no transmit times: the back end is
//! [`Backend::MaxRate`] where [`Settings::towards`] leads through fq, and timers elsewhere.

mod controller;

use std::io::{self, IoSliceMut};
use std::net::{SocketAddr, ToSocketAddrs};
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};

use ::quinn::udp::{RecvMeta, Transmit};
use ::quinn::{AsyncUdpSocket, Runtime, TokioRuntime, UdpPoller};
use tidegate_units::Span;

pub use controller::AtMost;

use crate::pacer::{Params, Status};
use crate::tokio::Alarm;
use crate::udp::{Backend, Choice, Gate, Paced, Settings, Turn, UdpSocket, now};

/// A socket for [`quinn::Endpoint::new_with_abstract_socket`](::quinn::Endpoint::new_with_abstract_socket) that sends at a
/// rate. Keep a clone of its `Arc` to change the rate: see [`Paced`].
///
/// ```
/// use std::sync::Arc;
///
/// use quinn::{Endpoint, EndpointConfig, TokioRuntime};
/// use tidegate_pace::{Rate, quinn::Socket, udp::Paced};
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> std::io::Result<()> {
/// let socket = Arc::new(Socket::bind("127.0.0.1:0", Rate::from_mbit(20))?);
/// let endpoint =
///     Endpoint::new_with_abstract_socket(EndpointConfig::default(), None, socket.clone(), Arc::new(TokioRuntime))?;
/// // `endpoint.connect(..)` as always; what its connections send leaves at 20 Mbit/s, and from now on at 5.
/// socket.set_rate(Rate::from_mbit(5))?;
/// # drop(endpoint);
/// # Ok(())
/// # }
/// ```
#[derive(Debug)]
pub struct Socket {
    inner: Arc<dyn AsyncUdpSocket>,
    gate: Gate,
    /// A second handle of the socket, for its options; absent for a socket of another making.
    options: Option<UdpSocket>,
}

impl Socket {
    /// The longest wait: a change of the rate takes effect within it.
    const LOOK: Span = Span::from_millis(50);
    /// The longest datagram of quinn's that batches are computed with: the end of its search for the path's MTU.
    const DATAGRAM: usize = 1452;

    /// Opens a socket at a local address.
    ///
    /// # Errors
    /// Those of [`UdpSocket::connect`], and `Unsupported` for [`Choice::TransmitTime`].
    ///
    /// # Panics
    /// Outside a runtime of tokio with I/O enabled.
    pub fn bind(local: impl ToSocketAddrs, settings: impl Into<Settings>) -> io::Result<Self> {
        let mut settings = settings.into();
        let asked = settings.backend;
        settings.backend = match asked {
            Choice::TransmitTime => {
                let why = "SO_TXTIME: quinn passes no transmit times to its socket; take Choice::Auto";
                return Err(io::Error::new(io::ErrorKind::Unsupported, why));
            }
            Choice::Auto | Choice::MaxRate => Choice::MaxRate,
            Choice::Timers => Choice::Timers,
        };
        let below = std::net::UdpSocket::bind(local)?;
        let options = match UdpSocket::from_std(below.try_clone()?, settings) {
            Err(error) if error.kind() == io::ErrorKind::Unsupported && asked == Choice::Auto => {
                settings.backend = Choice::Timers;
                UdpSocket::from_std(below.try_clone()?, settings)?
            }
            other => other?,
        };
        let inner = TokioRuntime.wrap_udp_socket(below)?;
        Ok(Self { inner, gate: Gate::new(&settings, options.backend())?, options: Some(options) })
    }
    /// Paces a socket of another making, of any runtime of quinn's that runs on tokio, by timers.
    ///
    /// # Errors
    /// `InvalidInput` for [`Settings`] that cannot be.
    pub fn new(inner: Arc<dyn AsyncUdpSocket>, settings: impl Into<Settings>) -> io::Result<Self> {
        Ok(Self { inner, gate: Gate::new(&settings.into(), Backend::Timers)?, options: None })
    }
    /// The back end that keeps departures apart.
    pub fn backend(&self) -> Backend {
        self.gate.backend()
    }
}

impl AsyncUdpSocket for Socket {
    fn create_io_poller(self: Arc<Self>) -> Pin<Box<dyn UdpPoller>> {
        let room = Arc::clone(&self.inner).create_io_poller();
        Box::pin(Poller { socket: self, room, alarm: None })
    }
    fn try_send(&self, transmit: &Transmit<'_>) -> io::Result<()> {
        let outcome = self.gate.pass(|_| {
            self.inner.try_send(transmit)?;
            Ok(transmit.contents.len())
        })?;
        outcome.map(drop).map_err(|_| io::ErrorKind::WouldBlock.into())
    }
    fn poll_recv(
        &self,
        cx: &mut Context<'_>,
        bufs: &mut [IoSliceMut<'_>],
        meta: &mut [RecvMeta],
    ) -> Poll<io::Result<usize>> {
        self.inner.poll_recv(cx, bufs, meta)
    }
    fn local_addr(&self) -> io::Result<SocketAddr> {
        self.inner.local_addr()
    }
    fn max_transmit_segments(&self) -> usize {
        self.inner.max_transmit_segments().min(self.gate.segments(Self::DATAGRAM))
    }
    fn max_receive_segments(&self) -> usize {
        self.inner.max_receive_segments()
    }
    fn may_fragment(&self) -> bool {
        self.inner.may_fragment()
    }
}

impl Paced for Socket {
    fn set_params(&self, params: Params) -> io::Result<()> {
        self.gate.set_params(params)?;
        self.options.as_ref().map_or(Ok(()), |options| options.set_params(params))
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

/// Waits for a connection: first for the time, then for room in the socket.
#[derive(Debug)]
struct Poller {
    socket: Arc<Socket>,
    room: Pin<Box<dyn UdpPoller>>,
    alarm: Option<Alarm>,
}

impl UdpPoller for Poller {
    fn poll_writable(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        loop {
            let until = match self.socket.gate.turn() {
                Turn::Now(_) => return self.room.as_mut().poll_writable(cx),
                Turn::At(until) => until.min(now() + Socket::LOOK),
                Turn::Paused => now() + Socket::LOOK,
            };
            let alarm = match self.alarm.take() {
                Some(alarm) => alarm,
                None => Alarm::new()?,
            };
            alarm.arm(until)?;
            let alarm = self.alarm.insert(alarm);
            ready!(alarm.poll(cx))?;
        }
    }
}
