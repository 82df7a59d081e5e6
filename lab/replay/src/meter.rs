//! [`Meter`] measures what leaves the engine: a digest, and series over time.

use tidegate_config::shaper::FlowBy;
use tidegate_core::DropReason;
use tidegate_core::classify::Fields;
use tidegate_engine::{Change, Disposition, QueuedPacket, Sink};
use tidegate_metrics::{Digest, Part, PartSeries};
use tidegate_units::{Instant, Span};

use crate::flows::{self, Flows};

/// The initial width of bins; series widen their bins as time passes.
pub(crate) const BIN: Span = Span::from_millis(1);

/// A packet in a replay.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct Ticket {
    /// The number of the packet in the source.
    pub packet: u64,
    /// The number of the segment, from 1; 0 for the whole packet.
    pub segment: u32,
}

/// A packet that was sent or dropped.
#[derive(Clone, Copy, Debug)]
pub struct Departure {
    /// The time, on the clock of the engine.
    pub time: Instant,
    /// The time since arrival.
    pub waited: Span,
    /// The packet of the source.
    pub ticket: Ticket,
    /// The packet as it left.
    pub packet: QueuedPacket,
    /// Whether it was sent or dropped.
    pub fate: Disposition,
}

/// The measurements that a meter keeps beside the digest.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Keep {
    /// Whether to keep series over time of classes and flows, at some 200 ns a packet.
    pub series: bool,
    /// Whether to keep every departure until [`Meter::take_departures`].
    pub departures: bool,
}

/// See the [module](self).
#[derive(Debug)]
pub struct Meter {
    /// The time of the present call of the engine.
    now: Instant,
    /// The time zero.
    start: Instant,
    digest: Digest,
    passed: u64,
    refused: u64,
    last: Instant,
    series: Vec<PartSeries>,
    flows: Option<Flows>,
    by: FlowBy,
    departures: Option<Vec<Departure>>,
}

impl Meter {
    pub(crate) fn new(keep: Keep, classes: usize, by: FlowBy, start: Instant) -> Self {
        Self {
            now: start,
            start,
            digest: Digest::default(),
            passed: 0,
            refused: 0,
            last: start,
            series: if keep.series { vec![PartSeries::new(BIN); classes] } else { Vec::new() },
            flows: keep.series.then(|| Flows::new(BIN)),
            by,
            departures: keep.departures.then(Vec::new),
        }
    }

    /// The digest of all departures and drops: for each the time, the packet, and the change or the reason of the drop.
    pub fn digest(&self) -> Digest {
        self.digest
    }
    /// The number of packets sent.
    pub fn passed(&self) -> u64 {
        self.passed
    }
    /// The number of packets dropped.
    pub fn refused(&self) -> u64 {
        self.refused
    }
    /// Returns the time of the last departure.
    pub fn last(&self) -> Instant {
        self.last
    }
    /// The series of the classes, if they are kept.
    pub fn series(&self) -> &[PartSeries] {
        &self.series
    }
    /// The series of the largest flows, if they are kept.
    pub fn flows(&self) -> Option<&Flows> {
        self.flows.as_ref()
    }
    /// Returns the departures since the last call.
    pub fn take_departures(&mut self) -> std::vec::Drain<'_, Departure> {
        self.departures.get_or_insert_default().drain(..)
    }

    /// Adds an outcome to the digest.
    fn digest_one(&mut self, ticket: Ticket, code: u64) {
        digest_one(&mut self.digest, self.now.since(self.start), ticket, code);
    }
}

/// Adds the outcome of a packet to `digest`; `at` is the time since the start.
pub(crate) fn digest_one(digest: &mut Digest, at: Span, ticket: Ticket, code: u64) {
    digest.word(at.as_nanos());
    digest.word(ticket.packet);
    digest.word(u64::from(ticket.segment) << 32 | code);
}

/// Encodes the change to a packet that was sent.
pub(crate) fn code_of(change: Change) -> u64 {
    u64::from(change.dscp.map_or(64, |dscp| dscp.value())) | u64::from(change.congestion) << 8
}

/// Encodes the reason of a drop.
pub(crate) fn code_of_drop(reason: DropReason) -> u64 {
    1 << 16 | reason as u64
}

impl Sink<Ticket> for Meter {
    fn set_time(&mut self, now: Instant) {
        self.now = now;
    }
    fn transmit(&mut self, ticket: Ticket, change: Change) {
        self.passed += 1;
        self.last = self.now;
        self.digest_one(ticket, code_of(change));
    }
    fn drop_packet(&mut self, ticket: Ticket, reason: DropReason) {
        self.refused += 1;
        self.digest_one(ticket, code_of_drop(reason));
    }
    fn observe(&mut self, ticket: Ticket, packet: &QueuedPacket, fields: &Fields, fate: Disposition) {
        let waited = self.now.since(packet.arrived);
        if let Some(departures) = &mut self.departures {
            departures.push(Departure { time: self.now, waited, ticket, packet: *packet, fate });
        }
        let Some(flows) = &mut self.flows else { return };
        let from_start = |time: Instant| Instant::ZERO + time.since(self.start);
        let (now, arrived, size) = (from_start(self.now), from_start(packet.arrived), packet.size.as_u64());
        let last = self.series.len() - 1;
        let of_class = &mut self.series[(packet.class.0 as usize).min(last)];
        let of_flow = flows.of(packet.flow.flow, size, || flows::name(self.by, fields));
        for part in [&mut *of_class, &mut *of_flow] {
            part.arrive(arrived, size);
            part.go(now, size);
        }
        match fate {
            Disposition::Dropped(_) => {
                of_class.dropped.add(now, 1);
                of_flow.dropped.add(now, 1);
            }
            Disposition::Sent(_) => {
                of_flow.left(now, size, waited);
                self.series[(packet.left_by.0 as usize).min(last)].left(now, size, waited);
            }
        }
    }
}
