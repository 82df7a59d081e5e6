//! A socket below an endpoint of quinn that speaks SCONE: it puts SCONE packets in front of some datagrams, and takes them off again
//! at the other end, where it notes the rates that the path has written.
//!
//! Quinn does not speak SCONE, and its transport parameter cannot be had from outside of it: both ends of a connection have such a
//! socket instead of having agreed. *Source*: draft-ietf-scone-protocol.

use std::io::{self, IoSliceMut};
use std::net::SocketAddr;
use std::pin::Pin;
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context, Poll, ready};
use std::time::{Duration, Instant};

use quinn::udp::{RecvMeta, Transmit};
use quinn::{AsyncUdpSocket, UdpPoller};
use tidegate_capture::scone::{VERSION, read};
use tidegate_units::Rate;

/// Datagrams at the beginning that all ask, because some may be lost.
const AT_ONCE: u32 = 20;
/// How often one asks afterwards.
const PAUSE: Duration = Duration::from_secs(2);
/// The bytes of a connection id of quinn.
const ID: usize = 8;
/// The most bytes of a datagram.
const LARGEST: usize = 1_472;

/// The socket.
#[derive(Debug)]
pub struct Asking {
    inner: Arc<dyn AsyncUdpSocket>,
    /// How many datagrams have asked, and when the last one did.
    asked: Mutex<(u32, Instant)>,
    /// The rates that were read and not taken yet.
    told: Mutex<Vec<Rate>>,
}

impl Asking {
    /// Speaks SCONE above `inner`.
    pub fn new(inner: Arc<dyn AsyncUdpSocket>) -> Self {
        Self { inner, asked: Mutex::new((0, Instant::now())), told: Mutex::default() }
    }

    /// The rates that the path has advised since the last call.
    pub fn told(&self) -> Vec<Rate> {
        std::mem::take(&mut self.told.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// Whether the next datagram is to ask.
    fn asks(&self) -> bool {
        let mut asked = self.asked.lock().unwrap_or_else(PoisonError::into_inner);
        let asks = asked.0 < AT_ONCE || asked.1.elapsed() >= PAUSE;
        if asks {
            *asked = (asked.0 + 1, Instant::now());
        }
        asks
    }
}

/// A SCONE packet with an unknown rate for the connection of a packet of quinn.
fn question(packet: &[u8]) -> Option<Vec<u8>> {
    let (to, from): (&[u8], &[u8]) = if packet.first()? & 0x80 == 0 {
        (packet.get(1..1 + ID)?, &[])
    } else {
        let to = usize::from(*packet.get(5)?);
        let from = usize::from(*packet.get(6 + to)?);
        (packet.get(6..6 + to)?, packet.get(7 + to..7 + to + from)?)
    };
    let mut bytes = vec![0xff];
    bytes.extend((VERSION | 1 << 31).to_be_bytes());
    for id in [to, from] {
        bytes.push(id.len() as u8);
        bytes.extend(id);
    }
    Some(bytes)
}

impl AsyncUdpSocket for Asking {
    fn create_io_poller(self: Arc<Self>) -> Pin<Box<dyn UdpPoller>> {
        Arc::clone(&self.inner).create_io_poller()
    }
    fn try_send(&self, transmit: &Transmit<'_>) -> io::Result<()> {
        let asked = question(transmit.contents).filter(|asked| asked.len() + transmit.contents.len() <= LARGEST);
        let Some(mut bytes) = asked.filter(|_| self.asks()) else { return self.inner.try_send(transmit) };
        bytes.extend(transmit.contents);
        self.inner.try_send(&Transmit { contents: &bytes, segment_size: None, ..transmit.clone() })
    }
    fn poll_recv(
        &self,
        cx: &mut Context<'_>,
        bufs: &mut [IoSliceMut<'_>],
        meta: &mut [RecvMeta],
    ) -> Poll<io::Result<usize>> {
        let count = ready!(self.inner.poll_recv(cx, bufs, meta))?;
        for (bytes, meta) in bufs.iter_mut().zip(meta).take(count) {
            assert!(meta.stride >= meta.len, "the socket joins no datagrams");
            let Some(found) = read(&bytes[..meta.len]) else { continue };
            self.told.lock().unwrap_or_else(PoisonError::into_inner).extend(found.signal.map(|signal| signal.rate()));
            let (begin, end) = (meta.len - found.coalesced.len(), meta.len);
            bytes.copy_within(begin..end, 0);
            (meta.len, meta.stride) = (end - begin, end - begin);
        }
        Poll::Ready(Ok(count))
    }
    fn local_addr(&self) -> io::Result<SocketAddr> {
        self.inner.local_addr()
    }
    fn max_transmit_segments(&self) -> usize {
        1
    }
    fn max_receive_segments(&self) -> usize {
        1
    }
    fn may_fragment(&self) -> bool {
        self.inner.may_fragment()
    }
}
