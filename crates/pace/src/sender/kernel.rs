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
}

/// 5 % above the rate: the kernel counts headers, and is to smooth the packets of a write, not to compete with the
/// schedule.
fn pacing_limit(rate: Rate) -> u64 {
    let bytes = rate.as_bps() / 8;
    bytes.saturating_add(bytes / 20).max(1)
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
    pub(super) fn without_segmentation(&mut self) {
        self.segmentation = false;
    }

    pub(super) fn for_tcp(&mut self, stream: &TcpStream, rate: Rate) -> Vec<String> {
        vec![self.ask_for_pacing(stream, rate, "the kernel paces within each write")]
    }
    pub(super) fn for_udp(&mut self, socket: &UdpSocket, rate: Rate) -> Vec<String> {
        let peer = socket.peer_addr().map(|address| address.ip());
        let queueing = peer.as_ref().ok().copied().and_then(queueing_of);
        let device = queueing.as_ref().map_or("an unknown queueing discipline".into(), ToString::to_string);
        let fq = queueing.as_ref().is_some_and(Queueing::is_fq);
        let mut said = Vec::new();
        said.push(if fq {
            self.ask_for_pacing(socket, rate, "fq limits datagrams to it")
        } else {
            format!("SO_MAX_PACING_RATE: only fq obeys it for datagrams, and they leave by {device}")
        });
        let clock = match &queueing {
            Some(queueing) if queueing.is_fq() => Some((TxClock::Monotonic, libc::CLOCK_MONOTONIC)),
            Some(queueing) => queueing
                .etf_clock()
                .map(|clock| (if clock == libc::CLOCK_TAI { TxClock::Tai } else { TxClock::Monotonic }, clock)),
            None => None,
        };
        said.push(match clock {
            None => format!("SO_TXTIME: needs fq or etf, and datagrams leave by {device}"),
            Some((clock, id)) => {
                match setsockopt(socket, sockopt::TxTime, &libc::sock_txtime { clockid: id, flags: 0 }) {
                    Ok(()) => {
                        self.clock = Some(clock);
                        format!("SO_TXTIME: {device} holds each datagram until its time ({clock:?})")
                    }
                    Err(error) => format!("SO_TXTIME: refused: {}", error.desc()),
                }
            }
        });
        // Zero only tests whether the kernel knows the option.
        self.segmentation = setsockopt(socket, sockopt::UdpGsoSegment, &0).is_ok();
        let known = if self.segmentation { "there" } else { "not there" };
        said.push(format!("UDP GSO: {known}"));
        said
    }
    fn ask_for_pacing(&mut self, socket: &impl AsFd, rate: Rate, then: &str) -> String {
        match setsockopt(socket, MaxPacingRate, &pacing_limit(rate)) {
            Ok(()) => {
                self.pacing = true;
                let told = getsockopt(socket, MaxPacingRate).unwrap_or_default();
                format!("SO_MAX_PACING_RATE: {told} byte/s, {then}")
            }
            Err(error) => format!("SO_MAX_PACING_RATE: refused: {}", error.desc()),
        }
    }
    pub(super) fn set_rate(&self, socket: &impl AsFd, rate: Rate) {
        if self.pacing {
            // It was accepted once; if it is not now, the schedule still keeps the rate.
            let _ = setsockopt(socket, MaxPacingRate, &pacing_limit(rate));
        }
    }
    /// `at`, of `CLOCK_MONOTONIC`, in the clock that the queueing discipline uses.
    pub(super) fn transmit_time(&self, at: Instant) -> Option<u64> {
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

fn queueing_of(peer: IpAddr) -> Option<Queueing> {
    queueing_towards(peer).ok().flatten()
}

/// Bytes that the peer has acknowledged; `None` where the kernel does not report them.
pub(super) fn acknowledged(stream: &TcpStream) -> Option<u64> {
    let info = getsockopt(stream, TcpInfoToBytesAcked).ok()?;
    let acked = u64::from_ne_bytes(info[120..].try_into().ok()?);
    // The kernel counts the SYN of a connection that it opened.
    Some(acked.saturating_sub(1))
}
