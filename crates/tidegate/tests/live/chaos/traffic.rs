//! The flows of a chaos run that are measured, and the loads beside them.

use std::io;
use std::net::UdpSocket;
use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use tidegate_testbed::chaos::Load;
use tidegate_testbed::{FlowReport, FlowSpec, Pair, Senders, Sink};
use tidegate_units::{Bytes, Rate};

/// A flow that is measured, and that its class has room for.
pub struct Measured {
    pub name: &'static str,
    /// `up` or `down`.
    pub way: &'static str,
    pub class: &'static str,
    pub port: u16,
    kbit: u64,
    payload: u64,
}

/// The port of the video flow, which requests minima.
pub const VIDEO: u16 = 5_006;

/// The measured flows: those that leave, then those that arrive.
pub const MEASURED: [Measured; 5] = [
    Measured { name: "call", way: "up", class: "calls", port: 5_004, kbit: 64, payload: 172 },
    Measured { name: "other call", way: "up", class: "calls", port: 5_005, kbit: 64, payload: 172 },
    Measured { name: "video", way: "up", class: "media", port: VIDEO, kbit: 400, payload: 472 },
    Measured { name: "call", way: "down", class: "calls", port: 5_004, kbit: 64, payload: 172 },
    Measured { name: "video", way: "down", class: "media", port: VIDEO, kbit: 400, payload: 472 },
];
const UP: usize = 3;

fn udp(port: u16, kbit: u64, payload: u64) -> FlowSpec {
    FlowSpec::udp(port.to_string(), port, 0, Rate::from_bps(kbit * 1_000), Bytes::new(payload))
}

/// Where each measured flow is: the sequence numbers of the packets that are sent next, and that arrive next if none is lost.
#[derive(Clone, Copy)]
pub struct Moment {
    pub sent: [u64; MEASURED.len()],
    pub expected: [u64; MEASURED.len()],
}

/// Packets of each measured flow, by their sequence numbers.
pub type Packets = [Range<u64>; MEASURED.len()];

impl Moment {
    /// The packets that are on their way.
    pub fn on_the_way(&self) -> Packets {
        self.on_the_way_until(self)
    }
    /// The packets that are on their way, and those that are sent until `end`.
    pub fn on_the_way_until(&self, end: &Self) -> Packets {
        std::array::from_fn(|n| self.expected[n]..end.sent[n])
    }
    /// The packets that are sent until `end`.
    pub fn sent_until(&self, end: &Self) -> Packets {
        std::array::from_fn(|n| self.sent[n]..end.sent[n])
    }
}

/// The measured flows, running.
pub struct Flows {
    up: (Senders, Sink),
    down: (Senders, Sink),
}

impl Flows {
    pub fn start(pair: &Pair) -> Self {
        let specs = |all: &[Measured]| -> Vec<FlowSpec> {
            all.iter().map(|flow| udp(flow.port, flow.kbit, flow.payload)).collect()
        };
        let [up, down] = [specs(&MEASURED[..UP]), specs(&MEASURED[UP..])];
        let (here, there) = (&pair.sender, &pair.receiver);
        // Sinks first, so that the first packet is not refused.
        let sinks = (Sink::start(there, &up).unwrap(), Sink::start(here, &down).unwrap());
        Self {
            up: (Senders::start(here, there, &up).unwrap(), sinks.0),
            down: (Senders::start(there, here, &down).unwrap(), sinks.1),
        }
    }

    fn at(&self, flow: usize) -> (&Senders, &Sink, usize) {
        let (from, first) = if flow < UP { (&self.up, 0) } else { (&self.down, UP) };
        (&from.0, &from.1, flow - first)
    }

    /// The packets that the flow has sent.
    pub fn sent(&self, flow: usize) -> u64 {
        let (senders, _, n) = self.at(flow);
        senders.sent(n).packets.load(Ordering::Relaxed)
    }

    /// Where each flow is at this moment.
    pub fn now(&self) -> Moment {
        Moment {
            // Packets that are not sent yet cannot be expected.
            expected: std::array::from_fn(|n| self.report(n).expected()),
            sent: std::array::from_fn(|n| self.sent(n)),
        }
    }

    /// What has arrived of the flow.
    pub fn report(&self, flow: usize) -> FlowReport {
        let (_, sink, n) = self.at(flow);
        sink.report(n)
    }

    /// The packets that have arrived of the flow.
    pub fn arrived(&self, flow: usize) -> u64 {
        let (_, sink, n) = self.at(flow);
        sink.bytes(n) / MEASURED[flow].payload
    }
}

/// A load, which ends when it is dropped.
pub enum Running {
    /// Senders and their receivers.
    Flows { _senders: Senders, _sink: Sink },
    /// A thread that makes new flows.
    NewFlows { stop: Arc<AtomicBool>, thread: Option<JoinHandle<io::Result<()>>> },
}

impl Running {
    /// Starts a load. A TCP connection may fail where the link is overloaded.
    pub fn start(pair: &Pair, load: Load) -> io::Result<Self> {
        let (here, there) = (&pair.sender, &pair.receiver);
        let (from, to, flows) = match load {
            Load::FloodUp => (here, there, vec![udp(6_000, 4_000, 1_172)]),
            Load::FloodDown => (there, here, vec![udp(6_000, 4_000, 1_172)]),
            Load::Rivals => (here, there, (5_090..5_096).map(|port| udp(port, 400, 472)).collect()),
            Load::Upload => (here, there, vec![FlowSpec::tcp("upload", 6_001, 0)]),
            Load::Download => (there, here, vec![FlowSpec::tcp("download", 6_001, 0)]),
            Load::NewFlows => return Self::new_flows(pair),
        };
        let sink = Sink::start(to, &flows)?;
        Ok(Self::Flows { _senders: Senders::start(from, to, &flows)?, _sink: sink })
    }

    /// Some hundred flows a second, of one packet each.
    fn new_flows(pair: &Pair) -> io::Result<Self> {
        let to = (pair.receiver.v4, 6_002);
        let stop = Arc::new(AtomicBool::new(false));
        let until = Arc::clone(&stop);
        // The sockets are of the namespace of the thread, which begins in it.
        let thread = pair.sender.namespace.spawn("new flows", move || {
            while !until.load(Ordering::Relaxed) {
                // While the interface is down there is no route.
                let _ = UdpSocket::bind(("0.0.0.0", 0)).and_then(|socket| socket.send_to(&[0; 64], to));
                thread::sleep(Duration::from_millis(4));
            }
        })?;
        Ok(Self::NewFlows { stop, thread: Some(thread) })
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        if let Self::NewFlows { stop, thread } = self {
            stop.store(true, Ordering::Relaxed);
            let _ = thread.take().map(JoinHandle::join);
        }
    }
}
