//! [`Log`]: everything that happened in a run, in order.

use tidegate_core::{Bytes, Colour, DropReason, Dscp, Ecn, Instant, Span};
use tidegate_metrics::Digest;

/// What happened to a packet.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum What {
    /// It was handed in.
    Arrived,
    /// It left.
    Left,
    /// It was dropped.
    Dropped(DropReason),
}

/// Something that happened.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Record {
    /// When.
    pub time: Instant,
    /// To which packet.
    pub id: u32,
    /// What.
    pub what: What,
}

/// A packet of the run.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Passage {
    /// The flow, by its place in the script.
    pub flow: usize,
    /// Its number in the flow, from 1.
    pub number: u32,
    /// Bytes.
    pub size: Bytes,
    /// When it came.
    pub arrived: Instant,
    /// When it left or was dropped, and which.
    pub end: Option<(Instant, What)>,
    /// Its code point, as it came or left.
    pub dscp: Dscp,
    /// Its ECN field, as it came or left.
    pub ecn: Ecn,
    /// Whether it was marked on the way.
    pub marked: bool,
    /// Its colour, as it came or, from a bare discipline, left.
    pub colour: Colour,
}

/// Everything that happened.
#[derive(Clone, Debug, Default)]
pub struct Log {
    /// The names of the flows.
    pub names: Vec<String>,
    /// In the order in which it happened.
    pub records: Vec<Record>,
    /// The packets by number.
    pub packets: Vec<Passage>,
}

impl Log {
    pub(crate) fn arrived(&mut self, time: Instant, passage: Passage) {
        let id = u32::try_from(self.packets.len()).unwrap_or(u32::MAX);
        self.packets.push(passage);
        self.records.push(Record { time, id, what: What::Arrived });
    }
    pub(crate) fn ended(&mut self, time: Instant, id: u32, what: What) {
        self.packets[id as usize].end = Some((time, what));
        self.records.push(Record { time, id, what });
    }
    /// `a#3`: the third packet of flow `a`.
    pub fn name(&self, id: u32) -> String {
        let packet = &self.packets[id as usize];
        format!("{}#{}", self.names[packet.flow], packet.number)
    }
    /// The packets that left, in order.
    pub fn departures(&self) -> impl Iterator<Item = (usize, &Record)> {
        self.records.iter().enumerate().filter(|(_, record)| record.what == What::Left)
    }
    /// The packets that were dropped, in order.
    pub fn drops(&self) -> impl Iterator<Item = (usize, &Record)> {
        self.records.iter().enumerate().filter(|(_, record)| matches!(record.what, What::Dropped(_)))
    }
    /// One record as a line for people.
    pub fn line(&self, record: &Record) -> String {
        let (time, name, packet) = (clock(record.time), self.name(record.id), &self.packets[record.id as usize]);
        let what = match record.what {
            What::Arrived => format!("arrives, {}", packet.size),
            What::Left => {
                let marked = if packet.marked { ", marked" } else { "" };
                format!("leaves, waited {}{marked}", span(record.time.since(packet.arrived)))
            }
            What::Dropped(reason) => format!("dropped, {}", reason.name().replace('_', "-")),
        };
        format!("{time:>14}  {name:<8} {what}")
    }
    /// The records around number `index`, that one pointed at.
    pub fn around(&self, index: usize) -> String {
        let (from, to) = (index.saturating_sub(4), (index + 4).min(self.records.len()));
        let line =
            |(n, record): (usize, &Record)| format!("{} {}\n", if n == index { "->" } else { "  " }, self.line(record));
        (from..).zip(&self.records[from.min(to)..to]).map(line).collect()
    }
    /// The number of the first record at or after `time`; the last one when there is none.
    pub fn at(&self, time: Instant) -> usize {
        let found = self.records.partition_point(|record| record.time < time);
        found.min(self.records.len().saturating_sub(1))
    }
    /// A digest of all of it.
    pub fn digest(&self) -> Digest {
        let mut digest = Digest::default();
        let mut number = |n| digest.number(n);
        for record in &self.records {
            let packet = &self.packets[record.id as usize];
            number(record.time.as_nanos());
            number(record.id.into());
            number(match record.what {
                What::Arrived => 0,
                What::Left => 1,
                What::Dropped(reason) => 2 + reason as u64,
            });
            number(packet.size.as_u64());
            number(u64::from(packet.dscp.value()) << 2 | u64::from(packet.ecn.bits()));
        }
        digest
    }
}

/// A time of a script, as a script writes it.
pub fn clock(time: Instant) -> String {
    span(Span::from_nanos(time.as_nanos()))
}

/// A span; nothing is `0s`.
pub fn span(span: Span) -> String {
    if span.is_zero() { "0s".into() } else { span.to_string() }
}
