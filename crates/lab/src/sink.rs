//! [`Sink`]: the receiving end, which measures what arrives with the kernel's timestamps.

use std::io::{self, ErrorKind, IoSliceMut, Read};
use std::net::{SocketAddr, TcpListener, TcpStream, UdpSocket};
use std::ops::Range;
use std::os::fd::{AsFd, AsRawFd};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use hdrhistogram::Histogram;
use nix::poll::{PollFd, PollFlags, PollTimeout};
use nix::sys::socket::{ControlMessageOwned, MsgFlags, recvmsg, setsockopt, sockopt};

use crate::topology::{Family, Host};
use crate::traffic::{FlowSpec, HEADER, Transport, wall_clock};

/// The width of the bins of a flow's history.
pub const BIN_NANOS: u64 = 100_000_000;

/// What arrived of one flow.
#[derive(Clone, Debug)]
pub struct FlowReport {
    /// Datagrams, or reads of a TCP stream.
    pub packets: u64,
    /// Bytes of payload.
    pub bytes: u64,
    /// Datagrams that arrived after one with a higher sequence number.
    pub reordered: u64,
    /// Datagrams missing below the highest sequence number seen.
    pub missing: u64,
    /// Time between neighbours in ns.
    pub gaps: Histogram<u64>,
    /// One-way delay in ns.
    pub delays: Histogram<u64>,
    /// How often each code point was seen.
    pub dscps: [u64; 64],
    /// How often each ECN field was seen.
    pub ecns: [u64; 4],
    /// Bytes in each 100 ms since the sink was started.
    pub bins: Vec<u64>,
    last_arrival: u64,
    next_sequence: u64,
}

impl FlowReport {
    fn new() -> Self {
        let histogram = || Histogram::new_with_bounds(1, 100_000_000_000, 3).expect("constant bounds that are valid");
        Self {
            packets: 0,
            bytes: 0,
            reordered: 0,
            missing: 0,
            gaps: histogram(),
            delays: histogram(),
            dscps: [0; 64],
            ecns: [0; 4],
            bins: Vec::new(),
            last_arrival: 0,
            next_sequence: 0,
        }
    }

    fn count(&mut self, started: u64, arrival: u64, bytes: u64) {
        self.packets += 1;
        self.bytes += bytes;
        let bin = (arrival.saturating_sub(started) / BIN_NANOS) as usize;
        if bin >= self.bins.len() {
            self.bins.resize(bin + 1, 0);
        }
        self.bins[bin] += bytes;
    }

    fn datagram(&mut self, started: u64, arrival: u64, payload: &[u8], length: u64) {
        self.count(started, arrival, length);
        let word =
            |at: usize| payload.get(at..at + 8).map_or(0, |b| u64::from_be_bytes(b.try_into().unwrap_or([0; 8])));
        let (sequence, sent) = (word(4), word(12));
        if sequence < self.next_sequence {
            self.reordered += 1;
            self.missing = self.missing.saturating_sub(1);
        } else {
            self.missing += sequence - self.next_sequence;
            self.next_sequence = sequence + 1;
        }
        let delay = arrival.saturating_sub(sent);
        self.delays.saturating_record(delay.max(1));
        if self.last_arrival != 0 {
            self.gaps.saturating_record(arrival.saturating_sub(self.last_arrival).max(1));
        }
        self.last_arrival = arrival;
    }

    /// Mean deviation of the gaps between datagrams from their mean, in ns: how uneven the flow arrives.
    pub fn gap_deviation_nanos(&self) -> f64 {
        let mean = self.gaps.mean();
        let sum: f64 = self
            .gaps
            .iter_recorded()
            .map(|step| (step.value_iterated_to() as f64 - mean).abs() * step.count_at_value() as f64)
            .sum();
        if self.gaps.is_empty() { 0.0 } else { sum / self.gaps.len() as f64 }
    }
}

/// A running receiver for a list of flows.
#[derive(Debug)]
pub struct Sink {
    stop: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
    reports: Arc<Vec<Mutex<FlowReport>>>,
    started: Arc<AtomicU64>,
    until: Arc<AtomicU64>,
}

/// When a datagram counts as arrived.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Stamp {
    /// When its interface received it: exact, whatever the receiver's scheduler does.
    Interface,
    /// When it was read from its socket: behind what holds packets back on their way in.
    Socket,
}

impl Sink {
    /// Listens on `host` for `flows`.
    ///
    /// # Errors
    /// When a port cannot be bound.
    pub fn start(host: &Host, flows: &[FlowSpec]) -> io::Result<Self> {
        Self::start_with(host, flows, Stamp::Interface)
    }

    /// The same, with datagrams stamped by `stamp`.
    ///
    /// # Errors
    /// When a port cannot be bound.
    pub fn start_with(host: &Host, flows: &[FlowSpec], stamp: Stamp) -> io::Result<Self> {
        let stop = Arc::new(AtomicBool::new(false));
        let reports = Arc::new(flows.iter().map(|_| Mutex::new(FlowReport::new())).collect::<Vec<_>>());
        let started = Arc::new(AtomicU64::new(wall_clock()));
        let until = Arc::new(AtomicU64::new(u64::MAX));
        let ends = host
            .namespace
            .run(|| flows.iter().map(|flow| End::open(host, flow, stamp)).collect::<io::Result<Vec<_>>>())??;
        let thread = {
            let (stop, reports) = (Arc::clone(&stop), Arc::clone(&reports));
            let (started, until) = (Arc::clone(&started), Arc::clone(&until));
            thread::Builder::new()
                .name("sink".into())
                .spawn(move || receive(ends, &reports, &started, &until, &stop))?
        };
        Ok(Self { stop, thread: Some(thread), reports, started, until })
    }

    /// What arrived of flow `n` so far.
    pub fn report(&self, n: usize) -> FlowReport {
        self.reports[n].lock().unwrap_or_else(PoisonError::into_inner).clone()
    }
    /// Bytes that arrived of flow `n` so far; cheap.
    pub fn bytes(&self, n: usize) -> u64 {
        self.reports[n].lock().unwrap_or_else(PoisonError::into_inner).bytes
    }
    /// Forgets everything measured so far: the beginning of a measurement after a warm-up.
    pub fn restart(&self) {
        self.started.store(wall_clock(), Ordering::Relaxed);
        for report in self.reports.iter() {
            let mut report = report.lock().unwrap_or_else(PoisonError::into_inner);
            let next_sequence = report.next_sequence;
            *report = FlowReport { next_sequence, ..FlowReport::new() };
        }
    }
    /// Nanoseconds since the start or restart, until it was frozen.
    pub fn elapsed(&self) -> u64 {
        wall_clock().min(self.until.load(Ordering::Relaxed)).saturating_sub(self.started.load(Ordering::Relaxed))
    }
    /// Counts nothing that arrives from now on, so that all reports end at one moment. Waits for what has arrived to
    /// be counted.
    pub fn freeze(&self) {
        self.until.store(wall_clock(), Ordering::Relaxed);
        thread::sleep(Duration::from_millis(60));
    }
    /// Stops and gives the reports, in the order of the flows.
    pub fn stop(mut self) -> Vec<FlowReport> {
        self.halt();
        (0..self.reports.len()).map(|n| self.report(n)).collect()
    }
    fn halt(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

impl Drop for Sink {
    fn drop(&mut self) {
        self.halt();
    }
}

enum End {
    Datagrams(UdpSocket),
    Listener(TcpListener, Vec<TcpStream>),
}

impl End {
    fn open(host: &Host, flow: &FlowSpec, stamp: Stamp) -> io::Result<Self> {
        let address = SocketAddr::new(host.address(flow.family), flow.port);
        match flow.transport {
            Transport::Udp { .. } => {
                let socket = UdpSocket::bind(address)?;
                socket.set_nonblocking(true)?;
                setsockopt(&socket, sockopt::ReceiveTimestampns, &(stamp == Stamp::Interface))?;
                match flow.family {
                    Family::V4 => setsockopt(&socket, sockopt::IpRecvTos, &true)?,
                    Family::V6 => setsockopt(&socket, sockopt::Ipv6RecvTClass, &true)?,
                }
                // As large as allowed: a receiver that is scheduled late must not look like loss.
                let _ = setsockopt(&socket, sockopt::RcvBufForce, &4_000_000)
                    .or_else(|_| setsockopt(&socket, sockopt::RcvBuf, &4_000_000));
                Ok(Self::Datagrams(socket))
            }
            Transport::Tcp => {
                let listener = TcpListener::bind(address)?;
                listener.set_nonblocking(true)?;
                Ok(Self::Listener(listener, Vec::new()))
            }
        }
    }
}

fn receive(
    mut ends: Vec<End>,
    reports: &[Mutex<FlowReport>],
    started: &AtomicU64,
    until: &AtomicU64,
    stop: &AtomicBool,
) {
    let mut buffer = vec![0_u8; 1 << 18];
    while !stop.load(Ordering::Relaxed) {
        let mut polled: Vec<PollFd<'_>> = Vec::new();
        for end in &ends {
            match end {
                End::Datagrams(socket) => polled.push(PollFd::new(socket.as_fd(), PollFlags::POLLIN)),
                End::Listener(listener, streams) => {
                    polled.push(PollFd::new(listener.as_fd(), PollFlags::POLLIN));
                    polled.extend(streams.iter().map(|stream| PollFd::new(stream.as_fd(), PollFlags::POLLIN)));
                }
            }
        }
        let _ = nix::poll::poll(&mut polled, PollTimeout::from(20_u8));
        drop(polled);
        let span = started.load(Ordering::Relaxed)..until.load(Ordering::Relaxed);
        for (end, report) in ends.iter_mut().zip(reports) {
            match end {
                End::Datagrams(socket) => read_datagrams(socket, &mut buffer, &span, report),
                End::Listener(listener, streams) => {
                    while let Ok((stream, _)) = listener.accept() {
                        if stream.set_nonblocking(true).is_ok() {
                            streams.push(stream);
                        }
                    }
                    streams.retain_mut(|stream| read_stream(stream, &mut buffer, &span, report));
                }
            }
        }
    }
}

fn read_datagrams(socket: &UdpSocket, buffer: &mut [u8], span: &Range<u64>, report: &Mutex<FlowReport>) {
    let mut control = nix::cmsg_space!(nix::sys::time::TimeSpec, u8, i32);
    for _ in 0..256 {
        // Only the head is looked at; the length comes with it.
        let mut head = [IoSliceMut::new(&mut buffer[..65_536])];
        let Ok(message) = recvmsg::<()>(socket.as_raw_fd(), &mut head, Some(&mut control), MsgFlags::MSG_DONTWAIT)
        else {
            return;
        };
        let (mut arrival, mut octet) = (wall_clock(), 0_u8);
        if let Ok(controls) = message.cmsgs() {
            for one in controls {
                match one {
                    ControlMessageOwned::ScmTimestampns(time) => {
                        arrival = time.tv_sec() as u64 * 1_000_000_000 + time.tv_nsec() as u64;
                    }
                    ControlMessageOwned::Ipv4Tos(tos) => octet = tos,
                    ControlMessageOwned::Ipv6TClass(class) => octet = class as u8,
                    _ => {}
                }
            }
        }
        let length = message.bytes;
        let mut report = report.lock().unwrap_or_else(PoisonError::into_inner);
        if !span.contains(&arrival) || length < HEADER {
            continue;
        }
        report.dscps[usize::from(octet >> 2)] += 1;
        report.ecns[usize::from(octet & 3)] += 1;
        report.datagram(span.start, arrival, &buffer[..length], length as u64);
    }
}

/// Whether the stream goes on.
fn read_stream(stream: &mut TcpStream, buffer: &mut [u8], span: &Range<u64>, report: &Mutex<FlowReport>) -> bool {
    match stream.read(buffer) {
        Ok(0) => false,
        Ok(n) => {
            let now = wall_clock();
            if span.contains(&now) {
                report.lock().unwrap_or_else(PoisonError::into_inner).count(span.start, now, n as u64);
            }
            true
        }
        Err(error) => matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::Interrupted),
    }
}
