//! [`Sink`]: the receiving end, which measures what arrives with the kernel's timestamps.

use std::io::{self, ErrorKind, IoSliceMut, Read};
use std::net::{SocketAddr, TcpListener, TcpStream, UdpSocket};
use std::ops::Range;
use std::os::fd::{AsFd, AsRawFd};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use hdrhistogram::Histogram;
use nix::poll::{PollFd, PollFlags, PollTimeout};
use nix::sys::socket::{ControlMessageOwned, MsgFlags, recvmsg, setsockopt, sockopt};

use crate::topology::{Family, Host};
use crate::traffic::{FlowSpec, HEADER, Transport, wall_clock};

/// How long to wait for the receiving thread.
const PATIENCE: Duration = Duration::from_secs(15);
/// The width of the bins of a flow's history.
pub const BIN_NANOS: u64 = 100_000_000;

/// The packets that arrived of one flow, measured.
#[derive(Clone, Debug)]
pub struct FlowReport {
    /// Datagrams, or reads of a TCP stream.
    pub packets: u64,
    /// Bytes of payload.
    pub bytes: u64,
    /// Datagrams that arrived after one with a higher sequence number.
    pub reordered: u64,
    /// The sequence numbers of these, as they arrived.
    pub late: Vec<u64>,
    /// Datagrams missing below the highest sequence number seen.
    pub missing: u64,
    /// The sequence numbers of these, in order.
    pub lost: Vec<Range<u64>>,
    /// Time between consecutive datagrams in ns.
    pub gaps: Histogram<u64>,
    /// One-way delay in ns.
    pub delays: Histogram<u64>,
    /// How often each code point was seen.
    pub dscps: [u64; 64],
    /// How often each ECN field was seen.
    pub ecns: [u64; 4],
    /// Bytes in each interval of 100 ms since the sink was started.
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
            late: Vec::new(),
            missing: 0,
            lost: Vec::new(),
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
        let (sequence, sent) = (sequence(payload), word(payload, 12));
        if sequence < self.next_sequence {
            self.reordered += 1;
            self.late.push(sequence);
            self.find(sequence);
        } else {
            if sequence > self.next_sequence {
                self.missing += sequence - self.next_sequence;
                self.lost.push(self.next_sequence..sequence);
            }
            self.next_sequence = sequence + 1;
        }
        let delay = arrival.saturating_sub(sent);
        self.delays.saturating_record(delay.max(1));
        if self.last_arrival != 0 {
            self.gaps.saturating_record(arrival.saturating_sub(self.last_arrival).max(1));
        }
        self.last_arrival = arrival;
    }

    /// A datagram that was missing has arrived.
    fn find(&mut self, sequence: u64) {
        let at = self.lost.partition_point(|range| range.end <= sequence);
        // A second copy of one was not missing.
        let Some(range) = self.lost.get(at).filter(|range| range.contains(&sequence)).cloned() else { return };
        self.missing -= 1;
        let parts = [range.start..sequence, sequence + 1..range.end];
        self.lost.splice(at..=at, parts.into_iter().filter(|part| !part.is_empty()));
    }

    /// The sequence number of the next datagram, if none is lost.
    pub fn expected(&self) -> u64 {
        self.next_sequence
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
    span: Arc<Span>,
}

/// The period in which arrivals count, in ns of the real-time clock.
#[derive(Debug)]
struct Span {
    from: AtomicU64,
    until: AtomicU64,
    /// The last `until` before which everything that arrived has been read.
    settled: AtomicU64,
    /// The number of restarts requested and performed. Only the receiving thread restarts, between two reads, so that
    /// no later arrival is lost and no earlier one is counted.
    wanted: AtomicU64,
    restarts: AtomicU64,
}

impl Span {
    fn restart_if_wanted(&self, reports: &[Mutex<FlowReport>]) {
        let wanted = self.wanted.load(Ordering::Relaxed);
        if wanted == self.restarts.load(Ordering::Relaxed) {
            return;
        }
        for report in reports {
            let mut report = report.lock().unwrap_or_else(PoisonError::into_inner);
            let next_sequence = report.next_sequence;
            *report = FlowReport { next_sequence, ..FlowReport::new() };
        }
        self.until.store(u64::MAX, Ordering::Relaxed);
        self.from.store(wall_clock(), Ordering::Relaxed);
        self.restarts.store(wanted, Ordering::Release);
    }
}

/// When a datagram counts as arrived.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Stamp {
    /// When its interface received it: independent of the receiver's scheduling.
    Interface,
    /// When it was read from its socket: after any queue on the receiving side.
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

    /// As [`start`](Self::start), with datagrams stamped by `stamp`.
    ///
    /// # Errors
    /// When a port cannot be bound.
    pub fn start_with(host: &Host, flows: &[FlowSpec], stamp: Stamp) -> io::Result<Self> {
        let stop = Arc::new(AtomicBool::new(false));
        let reports = Arc::new(flows.iter().map(|_| Mutex::new(FlowReport::new())).collect::<Vec<_>>());
        let span = Arc::new(Span {
            from: AtomicU64::new(wall_clock()),
            until: AtomicU64::new(u64::MAX),
            settled: AtomicU64::new(u64::MAX),
            wanted: AtomicU64::new(0),
            restarts: AtomicU64::new(0),
        });
        let ends = host
            .namespace
            .run(|| flows.iter().map(|flow| End::open(host, flow, stamp)).collect::<io::Result<Vec<_>>>())??;
        let thread = {
            let (stop, reports, span) = (Arc::clone(&stop), Arc::clone(&reports), Arc::clone(&span));
            thread::Builder::new().name("sink".into()).spawn(move || receive(ends, &reports, &span, &stop))?
        };
        Ok(Self { stop, thread: Some(thread), reports, span })
    }

    /// The report of flow `n` so far.
    pub fn report(&self, n: usize) -> FlowReport {
        self.reports[n].lock().unwrap_or_else(PoisonError::into_inner).clone()
    }
    /// The bytes that arrived of flow `n` so far, without copying a report.
    pub fn bytes(&self, n: usize) -> u64 {
        self.reports[n].lock().unwrap_or_else(PoisonError::into_inner).bytes
    }
    /// Discards everything measured so far, to begin a measurement after a warm-up.
    pub fn restart(&self) {
        let restarts = self.span.wanted.fetch_add(1, Ordering::Relaxed) + 1;
        self.wait_for(|| self.span.restarts.load(Ordering::Acquire) >= restarts);
    }
    /// Nanoseconds since the start or restart, until it was frozen.
    pub fn elapsed(&self) -> u64 {
        let until = self.span.until.load(Ordering::Relaxed);
        wall_clock().min(until).saturating_sub(self.span.from.load(Ordering::Relaxed))
    }
    /// Counts nothing that arrives from now on, so that all reports end at one moment; [`restart`](Self::restart) lets
    /// it count again. Waits until all arrivals have been counted, even if the receiving thread is scheduled late.
    pub fn freeze(&self) {
        let until = wall_clock();
        self.span.until.store(until, Ordering::Relaxed);
        self.wait_for(|| self.span.settled.load(Ordering::Acquire) == until);
    }
    /// Waits for an iteration of the receiving thread: there is one every 20 ms, unless the machine is busy.
    fn wait_for(&self, done: impl Fn() -> bool) {
        let began = Instant::now();
        while !done() && began.elapsed() < PATIENCE {
            thread::sleep(Duration::from_millis(1));
        }
    }
    /// Returns reports of what arrives within the next `time`, which begins and ends at the same moment for all flows,
    /// and its length in nanoseconds. Later arrivals count again, in reports that continue from there.
    pub fn measure(&self, time: Duration) -> (Vec<FlowReport>, u64) {
        self.restart();
        thread::sleep(time);
        self.freeze();
        let measured = ((0..self.reports.len()).map(|n| self.report(n)).collect(), self.elapsed());
        self.span.until.store(u64::MAX, Ordering::Relaxed);
        measured
    }
    /// Stops and returns the reports, in the order of the flows.
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
                // As large as allowed: late scheduling of the receiver must not appear as loss.
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

fn receive(mut ends: Vec<End>, reports: &[Mutex<FlowReport>], counted: &Span, stop: &AtomicBool) {
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
        counted.restart_if_wanted(reports);
        let span = counted.from.load(Ordering::Relaxed)..counted.until.load(Ordering::Relaxed);
        let mut settled = true;
        for (end, report) in ends.iter_mut().zip(reports) {
            match end {
                End::Datagrams(socket) => settled &= read_datagrams(socket, &mut buffer, &span, report),
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
        if settled {
            counted.settled.store(span.end, Ordering::Release);
        }
    }
}

/// Whether every arrival before the end of `span` has been read.
fn read_datagrams(socket: &UdpSocket, buffer: &mut [u8], span: &Range<u64>, report: &Mutex<FlowReport>) -> bool {
    let mut later = false;
    let mut control = nix::cmsg_space!(nix::sys::time::TimeSpec, u8, i32);
    for _ in 0..256 {
        // Only the header is read; it contains the length.
        let mut head = [IoSliceMut::new(&mut buffer[..65_536])];
        let Ok(message) = recvmsg::<()>(socket.as_raw_fd(), &mut head, Some(&mut control), MsgFlags::MSG_DONTWAIT)
        else {
            return true;
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
        later |= arrival >= span.end;
        if length < HEADER {
            continue;
        }
        if !span.contains(&arrival) {
            // It is neither counted nor missing.
            report.next_sequence = report.next_sequence.max(sequence(&buffer[..length]) + 1);
            continue;
        }
        report.dscps[usize::from(octet >> 2)] += 1;
        report.ecns[usize::from(octet & 3)] += 1;
        report.datagram(span.start, arrival, &buffer[..length], length as u64);
    }
    later
}

fn sequence(payload: &[u8]) -> u64 {
    word(payload, 4)
}

/// The eight bytes at `at`, as a number; 0 where there are none.
fn word(payload: &[u8], at: usize) -> u64 {
    payload.get(at..at + 8).map_or(0, |b| u64::from_be_bytes(b.try_into().unwrap_or([0; 8])))
}

/// Whether the stream continues.
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_arrives_outside_the_span_does_not_count_and_is_not_missing() {
        let receiver = UdpSocket::bind("127.0.0.1:0").unwrap();
        receiver.set_nonblocking(true).unwrap();
        setsockopt(&receiver, sockopt::ReceiveTimestampns, &true).unwrap();
        let sender = UdpSocket::bind("127.0.0.1:0").unwrap();
        let send = |sequence: u64| {
            let mut datagram = [0; 32];
            datagram[4..12].copy_from_slice(&sequence.to_be_bytes());
            sender.send_to(&datagram, receiver.local_addr().unwrap()).unwrap();
        };
        let report = Mutex::new(FlowReport::new());
        let read = |span: Range<u64>| {
            let all = read_datagrams(&receiver, &mut [0; 65_536], &span, &report);
            let report = report.lock().unwrap();
            (all, report.packets, report.missing, report.reordered)
        };
        let (past, since) = (0..1, wall_clock()..u64::MAX);
        (0..100).for_each(send);
        // An arrival after the end shows that no earlier one remains.
        assert_eq!(read(past.clone()), (true, 0, 0, 0));
        assert_eq!(read(past), (true, 0, 0, 0));
        [100, 101, 103].into_iter().for_each(send);
        assert_eq!(read(since.clone()), (true, 3, 1, 0));
        send(102);
        assert_eq!(read(since.clone()), (true, 4, 0, 1));
        // One of four that are missing arrives late, and then again.
        [108, 105, 105].into_iter().for_each(send);
        assert_eq!(read(since), (true, 7, 3, 3));
        let report = report.lock().unwrap();
        assert_eq!((&report.lost[..], report.expected()), (&[104..105, 106..108][..], 109));
        assert_eq!(report.late, [102, 105, 105]);
    }
}
