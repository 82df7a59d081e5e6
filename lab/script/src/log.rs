//! [`Log`]: the events of a run, in order.

use tidegate_core::{Bytes, Colour, DropReason, Dscp, Ecn, Instant, Span};
use tidegate_metrics::Digest;

/// The kind of an event.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum EventKind {
    /// The packet was enqueued.
    Arrived,
    /// The packet left.
    Left,
    /// The packet was dropped.
    Dropped(DropReason),
}

/// An event of a packet.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Record {
    /// The virtual time of the event.
    pub time: Instant,
    /// The number of the packet.
    pub id: u32,
    /// The kind of event.
    pub kind: EventKind,
}

/// A packet of the run.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct PacketRecord {
    /// The flow, as its index in the script.
    pub flow: usize,
    /// Its number in the flow, from 1.
    pub number: u32,
    /// The size of the packet.
    pub size: Bytes,
    /// The time of its arrival.
    pub arrived: Instant,
    /// When the packet left or was dropped, and which of the two.
    pub end: Option<(Instant, EventKind)>,
    /// Its code point on departure, or on arrival if it has not left.
    pub dscp: Dscp,
    /// Its ECN field on departure, or on arrival if it has not left.
    pub ecn: Ecn,
    /// Whether it was marked.
    pub marked: bool,
    /// Its colour on arrival or, from a single discipline, on departure.
    pub colour: Colour,
}

/// The log of a run.
#[derive(Clone, Debug, Default)]
pub struct Log {
    /// The names of the flows.
    pub names: Vec<String>,
    /// The events, in order.
    pub records: Vec<Record>,
    /// The packets by number.
    pub packets: Vec<PacketRecord>,
}

impl Log {
    pub(crate) fn arrived(&mut self, time: Instant, passage: PacketRecord) {
        let id = u32::try_from(self.packets.len()).unwrap_or(u32::MAX);
        self.packets.push(passage);
        self.records.push(Record { time, id, kind: EventKind::Arrived });
    }
    pub(crate) fn ended(&mut self, time: Instant, id: u32, kind: EventKind) {
        self.packets[id as usize].end = Some((time, kind));
        self.records.push(Record { time, id, kind });
    }
    /// The name of a packet: `a#3` is the third packet of flow `a`.
    pub fn name(&self, id: u32) -> String {
        let packet = &self.packets[id as usize];
        format!("{}#{}", self.names[packet.flow], packet.number)
    }
    /// The records of departures with their indices, in order.
    pub fn departures(&self) -> impl Iterator<Item = (usize, &Record)> {
        self.records.iter().enumerate().filter(|(_, record)| record.kind == EventKind::Left)
    }
    /// The records of drops with their indices, in order.
    pub fn drops(&self) -> impl Iterator<Item = (usize, &Record)> {
        self.records.iter().enumerate().filter(|(_, record)| matches!(record.kind, EventKind::Dropped(_)))
    }
    /// Formats one record as a line for people.
    pub fn line(&self, record: &Record) -> String {
        let (time, name, packet) = (clock(record.time), self.name(record.id), &self.packets[record.id as usize]);
        let what = match record.kind {
            EventKind::Arrived => format!("arrives, {}", packet.size),
            EventKind::Left => {
                let marked = if packet.marked { ", marked" } else { "" };
                format!("leaves, waited {}{marked}", span(record.time.since(packet.arrived)))
            }
            EventKind::Dropped(reason) => format!("dropped, {}", reason.name().replace('_', "-")),
        };
        format!("{time:>14}  {name:<8} {what}")
    }
    /// Formats the records around number `index`, with that one marked.
    pub fn around(&self, index: usize) -> String {
        let (from, to) = (index.saturating_sub(4), (index + 4).min(self.records.len()));
        let line =
            |(n, record): (usize, &Record)| format!("{} {}\n", if n == index { "->" } else { "  " }, self.line(record));
        (from..).zip(&self.records[from.min(to)..to]).map(line).collect()
    }
    /// The index of the first record at or after `time`; the last one if there is none.
    pub fn at(&self, time: Instant) -> usize {
        let found = self.records.partition_point(|record| record.time < time);
        found.min(self.records.len().saturating_sub(1))
    }
    /// The digest of the log.
    pub fn digest(&self) -> Digest {
        let mut digest = Digest::default();
        let mut number = |n| digest.number(n);
        for record in &self.records {
            let packet = &self.packets[record.id as usize];
            number(record.time.as_nanos());
            number(record.id.into());
            number(match record.kind {
                EventKind::Arrived => 0,
                EventKind::Left => 1,
                EventKind::Dropped(reason) => 2 + reason as u64,
            });
            number(packet.size.as_u64());
            number(u64::from(packet.dscp.value()) << 2 | u64::from(packet.ecn.bits()));
        }
        digest
    }
}

/// Formats a time as in a script.
pub fn clock(time: Instant) -> String {
    span(Span::from_nanos(time.as_nanos()))
}

/// Formats a span; zero is `0s`.
pub fn span(span: Span) -> String {
    if span.is_zero() { "0s".into() } else { span.to_string() }
}
