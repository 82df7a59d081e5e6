//! The disciplines of the core behind the records that the C reads and writes.

use tidegate_core::codel::{self, CoDel};
use tidegate_core::fifo::{Fifo, Limit};
use tidegate_core::red::Signal;
use tidegate_core::tbf::{self, Tbf};
use tidegate_core::{Bytes, Deadline, Ecn, FlowKey, Instant, Packet, Qdisc, Rate, Span, packet_fields};

/// An operation: what, the time in nanoseconds, and two numbers.
pub type Operation = [u64; 4];
/// What it did: the packet that left, or whether one was queued; packets dropped, times 2, and whether one was marked;
/// the deadline; packets and bytes that wait.
pub type Decision = [u64; 5];

pub const ENQUEUE: u64 = 1;
pub const DEQUEUE: u64 = 2;
pub const SET_RATE: u64 = 3;
/// Begins a script: the next three records are the options.
pub const BEGIN: u64 = 4;

/// The deadline of a queue that waits for nothing.
pub const IDLE: u64 = u64::MAX;

pub const FIFO: u64 = 0;
pub const TBF: u64 = 1;
pub const CODEL: u64 = 2;

/// The options of a discipline, as `struct twin_options` has them.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Options {
    pub kind: u64,
    pub limit_packets: u64,
    pub limit_bytes: u64,
    pub rate: u64,
    pub burst: u64,
    pub target: u64,
    pub interval: u64,
    pub mtu: u64,
    /// 0 for none.
    pub longest: u64,
    /// 1 to mark.
    pub marks: u64,
}

impl Options {
    pub fn record(&self) -> [u64; 12] {
        [
            self.kind,
            self.limit_packets,
            self.limit_bytes,
            self.rate,
            self.burst,
            self.target,
            self.interval,
            self.mtu,
            self.longest,
            self.marks,
            0,
            0,
        ]
    }
    pub fn of_record(record: &[u64; 12]) -> Self {
        let [kind, limit_packets, limit_bytes, rate, burst, target, interval, mtu, longest, marks, ..] = *record;
        Self { kind, limit_packets, limit_bytes, rate, burst, target, interval, mtu, longest, marks }
    }
}

struct Numbered {
    id: u64,
    size: Bytes,
    flow: FlowKey,
    ecn: Ecn,
}

impl Packet for Numbered {
    packet_fields!(size, flow, ecn, mark_ce);
}

enum Queue {
    Fifo(Fifo<Numbered>),
    Tbf(Tbf<Numbered>),
    CoDel(CoDel<Numbered>),
}

/// A discipline of the core, and the number of the next packet.
pub struct Reference {
    queue: Queue,
    next: u64,
}

impl Reference {
    /// An empty discipline.
    ///
    /// # Errors
    /// As the constructor of the discipline, or for a kind that the twin has not.
    pub fn new(options: &Options) -> Result<Self, String> {
        let limit = Limit { packets: options.limit_packets, bytes: Bytes::new(options.limit_bytes) };
        let queue = match options.kind {
            FIFO => Queue::Fifo(Fifo::new(limit)),
            TBF => {
                let (rate, burst) = (Rate::from_bps(options.rate), Bytes::new(options.burst));
                Queue::Tbf(Tbf::new(tbf::Params { rate, burst, limit }).map_err(|error| error.to_string())?)
            }
            CODEL => {
                let params = codel::Params {
                    target: Span::from_nanos(options.target),
                    interval: Span::from_nanos(options.interval),
                    mtu: Bytes::new(options.mtu),
                    signal: if options.marks == 1 { Signal::Mark } else { Signal::Drop },
                    limit,
                    longest: Some(Span::from_nanos(options.longest)).filter(|_| options.longest != 0),
                };
                Queue::CoDel(CoDel::new(params).map_err(|error| error.to_string())?)
            }
            other => return Err(format!("there is no discipline number {other}")),
        };
        Ok(Self { queue, next: 0 })
    }

    fn queue(&mut self) -> &mut dyn Qdisc<Numbered> {
        match &mut self.queue {
            Queue::Fifo(queue) => queue,
            Queue::Tbf(queue) => queue,
            Queue::CoDel(queue) => queue,
        }
    }

    /// Makes an operation.
    pub fn apply(&mut self, [what, now, first, second]: Operation) -> Decision {
        let now = Instant::from_nanos(now);
        let mut dropped = Vec::new();
        let (mut result, mut marked) = (0, false);
        match what {
            ENQUEUE => {
                let ecn = if second == 0 { Ecn::NotEct } else { Ecn::Ect0 };
                let packet = Numbered { id: self.next, size: Bytes::new(first), flow: FlowKey::default(), ecn };
                self.queue().enqueue(now, packet, &mut dropped);
                // A packet that is dropped has no number in the twin: it never had a slot.
                result = u64::from(dropped.is_empty());
                self.next += result;
            }
            DEQUEUE => {
                if let Some(packet) = self.queue().dequeue(now, &mut dropped) {
                    (result, marked) = (packet.id + 1, packet.ecn == Ecn::Ce);
                }
            }
            _ => {
                if let Queue::Tbf(queue) = &mut self.queue {
                    queue.set_rate(now, Rate::from_bps(first));
                }
            }
        }
        let queue = self.queue();
        let deadline = match queue.deadline(now) {
            Deadline::Now => 0,
            Deadline::At(at) => at.as_nanos(),
            Deadline::Idle => IDLE,
        };
        let backlog = queue.backlog();
        let drops = dropped.len() as u64 * 2 + u64::from(marked);
        [result, drops, deadline, backlog.packets, backlog.bytes.as_u64()]
    }
}
