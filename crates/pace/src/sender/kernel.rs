//! Kernel features for pacing, detected at run time: `SO_MAX_PACING_RATE`, `SO_TXTIME`, UDP GSO.
//!
//! *Source*: socket(7), udp(7), tc-fq(8), tc-etf(8).
//! *Notes*: the safe wrappers of `nix` make the system calls.

use std::net::{IpAddr, TcpStream, UdpSocket};
use std::os::fd::AsFd;

use nix::sys::socket::{getsockopt, setsockopt, sockopt};
use nix::{getsockopt_impl, setsockopt_impl, sockopt_impl};
use rustix::time::{ClockId, DynamicClockId, Timespec, clock_gettime, clock_gettime_dynamic};
use tidegate_units::{Instant, Rate};

use super::route::{Queueing, queueing_towards};

sockopt_impl!(
    /// `SO_MAX_PACING_RATE`, in bytes per second.
    MaxPacingRate,
    Both,
    libc::SOL_SOCKET,
    libc::SO_MAX_PACING_RATE,
    u64
);
sockopt_impl!(
    /// The first 128 bytes of `TCP_INFO`, up to and including `tcpi_bytes_acked`.
    TcpInfoToBytesAcked,
    GetOnly,
    libc::IPPROTO_TCP,
    libc::TCP_INFO,
    [u8; 128]
);

/// The clock of transmit times.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum TxClock {
    /// `CLOCK_MONOTONIC`, used by fq.
    Monotonic,
    /// `CLOCK_TAI`, usual for etf.
    Tai,
}

/// The kernel features in use for one destination.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct KernelHelp {
    pacing: bool,
    segmentation: bool,
    clock: Option<TxClock>,
    headroom: Headroom,
}

/// The queueing discipline that holds datagrams that were handed over before they are due.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Holder {
    /// The queueing discipline, until the transmit time of each.
    TransmitTime(TxClock),
    /// fq, by the largest rate of the socket.
    MaxRate,
}

/// How far the limit in the kernel is above the rate. The kernel counts headers, and is to smooth packets that were
/// handed over together, not to compete with the schedule.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
enum Headroom {
    /// 5 %: a stream fills its segments.
    #[default]
    Stream,
    /// 25 %: with headers of 42 bytes, as much as datagrams of 168 bytes need.
    Datagrams,
}

impl Headroom {
    /// The limit in bytes per second.
    fn limit(self, rate: Rate) -> u64 {
        let bytes = rate.as_bps() / 8;
        let more = match self {
            Self::Stream => bytes / 20,
            Self::Datagrams => bytes / 4,
        };
        bytes.saturating_add(more).max(1)
    }
}

impl KernelHelp {
    /// Whether the kernel segments datagrams (UDP GSO).
    pub fn segmentation(&self) -> bool {
        self.segmentation
    }
    /// The clock of transmit times, if a queueing discipline holds packets until theirs.
    pub fn transmit_clock(&self) -> Option<TxClock> {
        self.clock
    }
    /// Disables segmentation, after a device without checksum offload refused it.
    pub(crate) fn without_segmentation(&mut self) {
        self.segmentation = false;
    }

    pub(super) fn for_tcp(&mut self, stream: &TcpStream, rate: Rate) -> Vec<String> {
        vec![self.ask_for_pacing(stream, rate, "the kernel paces within each write")]
    }
    pub(super) fn for_udp(&mut self, socket: &UdpSocket, rate: Rate) -> Vec<String> {
        let queueing = peer_of(socket).and_then(queueing_of);
        let (_, said) = self.seek(socket, queueing.as_ref(), rate);
        said
    }
    /// Enables for datagrams what the queueing discipline on their way supports: a transmit time for each, or a limit
    /// on their rate, in this order; and UDP GSO. Returns what holds datagrams, if anything does, and a line for
    /// display about each feature.
    pub(crate) fn seek(
        &mut self,
        socket: &UdpSocket,
        queueing: Option<&Queueing>,
        rate: Rate,
    ) -> (Option<Holder>, Vec<String>) {
        let (times, first) = self.seek_transmit_times(socket, queueing);
        let (limit, second) = if times.is_some() {
            // fq applies both, and counts headers in the limit, which small datagrams would exceed.
            (None, "SO_MAX_PACING_RATE: not needed beside SO_TXTIME".into())
        } else {
            self.seek_rate_limit(socket, queueing, rate)
        };
        (times.or(limit), vec![second, first, self.seek_segmentation(socket)])
    }
    /// Has each datagram held until its transmit time, if the queueing discipline supports that.
    pub(crate) fn seek_transmit_times(
        &mut self,
        socket: &UdpSocket,
        queueing: Option<&Queueing>,
    ) -> (Option<Holder>, String) {
        let device = name_of(queueing);
        let clock = match queueing {
            Some(queueing) if queueing.is_fq() => Some((TxClock::Monotonic, libc::CLOCK_MONOTONIC)),
            Some(queueing) => queueing
                .etf_clock()
                .map(|clock| (if clock == libc::CLOCK_TAI { TxClock::Tai } else { TxClock::Monotonic }, clock)),
            None => None,
        };
        let Some((clock, id)) = clock else {
            return (None, format!("SO_TXTIME: needs fq or etf, and datagrams leave by {device}"));
        };
        match setsockopt(socket, sockopt::TxTime, &libc::sock_txtime { clockid: id, flags: 0 }) {
            Ok(()) => {
                self.clock = Some(clock);
                let line = format!("SO_TXTIME: {device} holds each datagram until its time ({clock:?})");
                (Some(Holder::TransmitTime(clock)), line)
            }
            Err(error) => (None, format!("SO_TXTIME: refused: {}", error.desc())),
        }
    }
    /// Has the rate limited in the kernel, if the queueing discipline does so for datagrams.
    pub(crate) fn seek_rate_limit(
        &mut self,
        socket: &UdpSocket,
        queueing: Option<&Queueing>,
        rate: Rate,
    ) -> (Option<Holder>, String) {
        if !queueing.is_some_and(Queueing::is_fq) {
            let device = name_of(queueing);
            return (None, format!("SO_MAX_PACING_RATE: only fq obeys it for datagrams, and they leave by {device}"));
        }
        self.headroom = Headroom::Datagrams;
        let line = self.ask_for_pacing(socket, rate, "fq limits datagrams to it");
        (self.pacing.then_some(Holder::MaxRate), line)
    }
    /// Detects UDP GSO.
    pub(crate) fn seek_segmentation(&mut self, socket: &UdpSocket) -> String {
        // Zero only tests whether the kernel knows the option.
        self.segmentation = setsockopt(socket, sockopt::UdpGsoSegment, &0).is_ok();
        format!("UDP GSO: {}", if self.segmentation { "there" } else { "not there" })
    }
    fn ask_for_pacing(&mut self, socket: &impl AsFd, rate: Rate, then: &str) -> String {
        match setsockopt(socket, MaxPacingRate, &self.headroom.limit(rate)) {
            Ok(()) => {
                self.pacing = true;
                let told = getsockopt(socket, MaxPacingRate).unwrap_or_default();
                format!("SO_MAX_PACING_RATE: {told} byte/s, {then}")
            }
            Err(error) => format!("SO_MAX_PACING_RATE: refused: {}", error.desc()),
        }
    }
    pub(crate) fn set_rate(&self, socket: &impl AsFd, rate: Rate) {
        if self.pacing {
            // It was accepted once; if it is not now, the schedule still keeps the rate.
            let _ = setsockopt(socket, MaxPacingRate, &self.headroom.limit(rate));
        }
    }
    /// `at`, of `CLOCK_MONOTONIC`, in the clock that the queueing discipline uses.
    pub(crate) fn transmit_time(&self, at: Instant) -> Option<u64> {
        match self.clock? {
            TxClock::Monotonic => Some(at.as_nanos()),
            TxClock::Tai => {
                let nanos = |time: Timespec| time.tv_sec.saturating_mul(1_000_000_000).saturating_add(time.tv_nsec);
                let tai = nanos(clock_gettime_dynamic(DynamicClockId::Tai).ok()?);
                at.as_nanos().checked_add_signed(tai.saturating_sub(nanos(clock_gettime(ClockId::Monotonic))))
            }
        }
    }
}

/// The queueing discipline on the route to `peer`, if it can be found out.
pub(crate) fn queueing_of(peer: IpAddr) -> Option<Queueing> {
    queueing_towards(peer).ok().flatten()
}

/// The address that a socket is connected to.
pub(crate) fn peer_of(socket: &UdpSocket) -> Option<IpAddr> {
    socket.peer_addr().ok().map(|address| address.ip())
}

fn name_of(queueing: Option<&Queueing>) -> String {
    queueing.map_or("an unknown queueing discipline".into(), ToString::to_string)
}

/// Bytes that the peer has acknowledged; `None` where the kernel does not report them.
pub(super) fn acknowledged(stream: &TcpStream) -> Option<u64> {
    let info = getsockopt(stream, TcpInfoToBytesAcked).ok()?;
    let acked = u64::from_ne_bytes(info[120..].try_into().ok()?);
    // The kernel counts the SYN of a connection that it opened.
    Some(acked.saturating_sub(1))
}
