//! Senders: UDP at a given rate and TCP as fast as possible, from one host to the [`Sink`](crate::Sink) of the other.

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::io::{self, ErrorKind, Write};
use std::net::{IpAddr, SocketAddr, TcpStream, UdpSocket};
use std::os::fd::AsFd;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use nix::sys::socket::{setsockopt, sockopt};
use nix::sys::time::TimeSpec;
use nix::time::{ClockId, clock_gettime};
use tidegate_units::{Bytes, Rate};

use crate::topology::{Family, Host};

/// How a flow sends.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Transport {
    /// Datagrams of `payload` bytes at `rate` of payload; datagrams that the socket does not accept in time are not
    /// sent.
    Udp {
        /// Bits a second of payload.
        rate: Rate,
        /// Bytes of payload, at least 32.
        payload: Bytes,
    },
    /// A TCP stream without a limit.
    Tcp,
}

/// A flow to be sent.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct FlowSpec {
    /// Its name in results.
    pub name: String,
    /// How it sends.
    pub transport: Transport,
    /// The port it sends to, which identifies the flow.
    pub port: u16,
    /// The code point it sends with, 0 to 63.
    pub dscp: u8,
    /// The ECN field it sends with: 0 not capable, 1 and 2 capable. Only UDP; TCP's belongs to the kernel.
    pub ecn: u8,
    /// IPv4 or IPv6.
    pub family: Family,
    /// `SO_PRIORITY`, which some kernel queues classify by.
    pub priority: Option<u32>,
    /// The address that it sends from, of several that its host has. TCP only.
    pub from: Option<IpAddr>,
}

impl FlowSpec {
    /// A UDP flow over IPv4.
    pub fn udp(name: impl Into<String>, port: u16, dscp: u8, rate: Rate, payload: Bytes) -> Self {
        Self {
            name: name.into(),
            transport: Transport::Udp { rate, payload },
            port,
            dscp,
            ecn: 0,
            family: Family::V4,
            priority: None,
            from: None,
        }
    }
    /// A TCP flow over IPv4.
    pub fn tcp(name: impl Into<String>, port: u16, dscp: u8) -> Self {
        Self {
            name: name.into(),
            transport: Transport::Tcp,
            port,
            dscp,
            ecn: 0,
            family: Family::V4,
            priority: None,
            from: None,
        }
    }
}

/// The counters of a sender.
#[derive(Debug, Default)]
pub struct Sent {
    /// Datagrams sent.
    pub packets: AtomicU64,
    /// Bytes of payload that the socket accepted.
    pub bytes: AtomicU64,
    /// Datagrams that the socket did not accept because its buffer was full.
    pub held_back: AtomicU64,
    /// The last error, as its number; 0 for none.
    pub error: AtomicU64,
}

/// Running senders. They stop when this is dropped.
#[derive(Debug)]
pub struct Senders {
    stop: Arc<AtomicBool>,
    threads: Vec<JoinHandle<()>>,
    sent: Vec<Arc<Sent>>,
    rates: Vec<Arc<AtomicU64>>,
}

impl Senders {
    /// Starts `flows` from `host` towards `to`, whose sink must listen already.
    ///
    /// # Errors
    /// When a socket cannot be made or connected.
    pub fn start(host: &Host, to: &Host, flows: &[FlowSpec]) -> io::Result<Self> {
        let stop = Arc::new(AtomicBool::new(false));
        let mut threads = Vec::new();
        let mut udp = Vec::new();
        let sent: Vec<_> = flows.iter().map(|_| Arc::new(Sent::default())).collect();
        let mut rates = Vec::new();
        for ((number, flow), sent) in (0_u32..).zip(flows).zip(&sent) {
            let target = SocketAddr::new(to.address(flow.family), flow.port);
            let rate = Arc::new(AtomicU64::new(match flow.transport {
                Transport::Udp { rate, .. } => rate.as_bps(),
                Transport::Tcp => 0,
            }));
            rates.push(Arc::clone(&rate));
            match flow.transport {
                Transport::Udp { payload, .. } => {
                    let socket = host.namespace.run(|| udp_socket(target, flow))??;
                    let size = payload.as_u64().clamp(32, 60_000) as usize;
                    udp.push(UdpFlow { number, socket, size, rate, sent: Arc::clone(sent), sequence: 0 });
                }
                Transport::Tcp => {
                    let stream = host.namespace.run(|| tcp_stream(target, flow))??;
                    let (sent, stop) = (Arc::clone(sent), Arc::clone(&stop));
                    threads.push(
                        thread::Builder::new()
                            .name(format!("tcp {}", flow.port))
                            .spawn(move || send_tcp(stream, &sent, &stop))?,
                    );
                }
            }
        }
        if !udp.is_empty() {
            let stop = Arc::clone(&stop);
            threads.push(thread::Builder::new().name("udp".into()).spawn(move || send_udp(udp, &stop))?);
        }
        Ok(Self { stop, threads, sent, rates })
    }

    /// The counters of flow `n`.
    pub fn sent(&self, n: usize) -> &Sent {
        &self.sent[n]
    }
    /// Changes the rate of UDP flow `n`.
    pub fn set_rate(&self, n: usize, rate: Rate) {
        self.rates[n].store(rate.as_bps(), Ordering::Relaxed);
    }
    /// Stops all and waits for them.
    pub fn stop(mut self) {
        self.halt();
    }
    fn halt(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
        for thread in self.threads.drain(..) {
            let _ = thread.join();
        }
    }
}

impl Drop for Senders {
    fn drop(&mut self) {
        self.halt();
    }
}

fn options(socket: &impl AsFd, flow: &FlowSpec) -> io::Result<()> {
    let octet = i32::from(flow.dscp) << 2 | i32::from(flow.ecn & 3);
    match flow.family {
        Family::V4 => setsockopt(socket, sockopt::Ipv4Tos, &octet)?,
        Family::V6 => setsockopt(socket, sockopt::Ipv6TClass, &octet)?,
    }
    if let Some(priority) = flow.priority {
        setsockopt(socket, sockopt::Priority, &(priority as i32))?;
    }
    Ok(())
}

fn udp_socket(target: SocketAddr, flow: &FlowSpec) -> io::Result<UdpSocket> {
    let any: IpAddr = match target {
        SocketAddr::V4(_) => [0; 4].into(),
        SocketAddr::V6(_) => [0; 16].into(),
    };
    let socket = UdpSocket::bind((any, 0))?;
    options(&socket, flow)?;
    socket.connect(target)?;
    socket.set_nonblocking(true)?;
    Ok(socket)
}

fn tcp_stream(target: SocketAddr, flow: &FlowSpec) -> io::Result<TcpStream> {
    let stream = match flow.from {
        Some(from) => crate::mice::connected(from, target, &AtomicBool::new(false))?,
        None => TcpStream::connect_timeout(&target, Duration::from_secs(5))?,
    };
    options(&stream, flow)?;
    stream.set_write_timeout(Some(Duration::from_millis(50)))?;
    Ok(stream)
}

fn send_tcp(mut stream: TcpStream, sent: &Sent, stop: &AtomicBool) {
    let chunk = vec![0x5a_u8; 65_536];
    while !stop.load(Ordering::Relaxed) {
        match stream.write(&chunk) {
            Ok(n) => {
                sent.bytes.fetch_add(n as u64, Ordering::Relaxed);
            }
            Err(error)
                if matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut | ErrorKind::Interrupted) => {}
            Err(error) => {
                sent.error.store(error.raw_os_error().unwrap_or(1) as u64, Ordering::Relaxed);
                break;
            }
        }
    }
    let _ = stream.shutdown(std::net::Shutdown::Both);
}

struct UdpFlow {
    number: u32,
    socket: UdpSocket,
    size: usize,
    rate: Arc<AtomicU64>,
    sent: Arc<Sent>,
    sequence: u64,
}

/// The header of a datagram: flow, sequence number, and the time of sending in ns of the real-time clock.
pub(crate) const HEADER: usize = 20;

/// Nanoseconds of the clock that receive timestamps are in.
pub(crate) fn wall_clock() -> u64 {
    nanos(clock_gettime(ClockId::CLOCK_REALTIME))
}
fn steady_clock() -> u64 {
    nanos(clock_gettime(ClockId::CLOCK_MONOTONIC))
}
fn nanos(time: nix::Result<TimeSpec>) -> u64 {
    time.map_or(0, |time| time.tv_sec() as u64 * 1_000_000_000 + time.tv_nsec() as u64)
}

/// One thread sends for all UDP flows, each on an absolute schedule. Flows are out of phase, so that bursts at the
/// receiver are due to the queue and not to the sender.
fn send_udp(mut flows: Vec<UdpFlow>, stop: &AtomicBool) {
    // Sleep as precisely as the machine can; without the privilege, gaps are coarser and still absolute.
    let _ = nix::sys::prctl::set_timerslack(1);
    let start = steady_clock();
    let interval = |flow: &UdpFlow| {
        let rate = flow.rate.load(Ordering::Relaxed);
        (rate > 0).then(|| flow.size as u64 * 8_000_000_000 / rate)
    };
    let count = flows.len() as u64;
    let mut due: BinaryHeap<_> = (0_u64..)
        .zip(&flows)
        .map(|(n, flow)| Reverse((start + interval(flow).unwrap_or(1_000_000) * n / count, n as usize)))
        .collect();
    let mut buffer = vec![0_u8; 60_000];
    while let Some(Reverse((time, n))) = due.pop() {
        loop {
            let now = steady_clock();
            if now >= time || stop.load(Ordering::Relaxed) {
                break;
            }
            thread::sleep(Duration::from_nanos((time - now).min(20_000_000)));
        }
        if stop.load(Ordering::Relaxed) {
            return;
        }
        let flow = &mut flows[n];
        let Some(step) = interval(flow) else {
            due.push(Reverse((time + 10_000_000, n)));
            continue;
        };
        buffer[..4].copy_from_slice(&flow.number.to_be_bytes());
        buffer[4..12].copy_from_slice(&flow.sequence.to_be_bytes());
        buffer[12..20].copy_from_slice(&wall_clock().to_be_bytes());
        match flow.socket.send(&buffer[..flow.size]) {
            Ok(_) => {
                flow.sequence += 1;
                flow.sent.packets.fetch_add(1, Ordering::Relaxed);
                flow.sent.bytes.fetch_add(flow.size as u64, Ordering::Relaxed);
            }
            Err(error) if matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::OutOfMemory) => {
                flow.sent.held_back.fetch_add(1, Ordering::Relaxed);
            }
            // No socket listens yet, or any more: ICMP reported this for an earlier datagram.
            Err(error) if error.kind() == ErrorKind::ConnectionRefused => {}
            Err(error) => flow.sent.error.store(error.raw_os_error().unwrap_or(1) as u64, Ordering::Relaxed),
        }
        // At most 20 ms behind: after a suspension no burst makes up for it.
        let next = (time + step).max(steady_clock().saturating_sub(20_000_000));
        due.push(Reverse((next, n)));
    }
}
