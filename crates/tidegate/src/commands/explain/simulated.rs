//! The fate of packets in a trace of `tidegate simulate --trace`: a capture whose comments have the events, or a table
//! with a row for each of them, in the same order.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::fs::File;
use std::io::{Read, Write};
use std::path::Path;

use serde_json::{Value, json};
use tidegate_capture::read::CaptureReader;
use tidegate_report::columns::{Column, Table};

use crate::{Failure, output};

/// An event of a packet.
struct Happened {
    /// The number of the record, as viewers of captures show it.
    record: u64,
    nanos: u64,
    packet: u64,
    event: String,
    reason: Option<String>,
    link: Option<String>,
    colour: String,
    /// The ECN field; empty in traces of versions that did not record it.
    ecn: String,
    flow: String,
    bytes: u32,
}

impl Happened {
    /// Whether the packet was marked congestion experienced.
    fn is_marked(&self) -> bool {
        self.ecn == "CE"
    }
}

/// A trace.
pub struct Trace {
    events: Vec<Happened>,
    /// Whether a packet is named by its own number, which a table has in a column, in place of that of one of its records.
    is_table: bool,
}

/// The event in a comment; `None` of a comment that is no event.
fn parse(comment: &str) -> Option<Happened> {
    let mut parts = comment.strip_prefix("tidegate: packet ")?.split("; ");
    let packet = parts.next()?.parse().ok()?;
    let event = parts.next()?.to_owned();
    let mut rest: HashMap<&str, &str> = parts.filter_map(|part| part.split_once(' ')).collect();
    let mut take = |key| rest.remove(key).map(str::to_owned);
    Some(Happened {
        record: 0,
        nanos: 0,
        packet,
        event,
        reason: take("reason"),
        link: take("at"),
        colour: take("colour")?,
        ecn: take("ecn").unwrap_or_default(),
        flow: take("flow")?,
        bytes: 0,
    })
}

/// The largest table that is read: that of a full trace is smaller.
const LARGEST: u64 = 1 << 30;

/// The bytes of a file if it is a Parquet file, by its first bytes.
pub fn table(path: &Path) -> Option<Vec<u8>> {
    let mut file = File::open(path).ok()?;
    let mut first = [0; 4];
    file.read_exact(&mut first).ok().filter(|()| &first == b"PAR1")?;
    let mut bytes = first.to_vec();
    file.take(LARGEST).read_to_end(&mut bytes).ok()?;
    Some(bytes)
}

impl Trace {
    /// Reads a table.
    ///
    /// # Errors
    /// When it is damaged, or no trace.
    pub fn of_table(bytes: Vec<u8>) -> Result<Self, Failure> {
        let table =
            Table::from_parquet(bytes).map_err(|error| Failure::Usage(format!("it cannot be read: {error}")))?;
        let missing = |name: &str| {
            let text = format!("it has no column `{name}`: it is not a trace of `tidegate simulate --trace`");
            Failure::Usage(text)
        };
        let text = |name: &str| match table.column(name) {
            Some(Column::Text(values)) => Ok(values),
            _ => Err(missing(name)),
        };
        let number = |name: &str| match table.column(name) {
            Some(Column::Integer(values)) => Ok(values),
            _ => Err(missing(name)),
        };
        let (kinds, happened, reasons) = (text("kind")?, text("event")?, text("reason")?);
        let (links, colours, flows) = (text("link")?, text("colour")?, text("flow")?);
        let ecn = text("ecn").ok();
        let (times, packets, sizes) = (number("time_ns")?, number("packet")?, number("size_bytes")?);
        let rows = (0..kinds.len()).filter(|&row| kinds[row].as_deref() == Some("packet"));
        let events: Vec<Happened> = rows
            .zip(1..)
            .map(|(row, record)| Happened {
                record,
                nanos: times[row].unwrap_or(0),
                packet: packets[row].unwrap_or(0),
                event: happened[row].clone().unwrap_or_default(),
                reason: reasons[row].clone(),
                link: links[row].clone(),
                colour: colours[row].clone().unwrap_or_default(),
                ecn: ecn.and_then(|values| values[row].clone()).unwrap_or_default(),
                flow: flows[row].clone().unwrap_or_default(),
                bytes: sizes[row].and_then(|bytes| u32::try_from(bytes).ok()).unwrap_or(0),
            })
            .collect();
        if events.is_empty() {
            return Err(Failure::Failed("no packet is in it".into()));
        }
        Ok(Self { events, is_table: true })
    }

    /// Reads a capture; `None` when its first packet has no event as its comment.
    ///
    /// # Errors
    /// When it cannot be read.
    pub fn read(source: impl Read) -> Result<Option<Self>, Failure> {
        let mut reader = CaptureReader::new(source).map_err(|error| Failure::Usage(error.to_string()))?;
        let mut events = Vec::new();
        while let Some(packet) = reader.next_packet(&mut |_| ()) {
            let packet = packet.map_err(|error| Failure::Failed(error.to_string()))?;
            let Some(found) = packet.comment.and_then(parse) else {
                if events.is_empty() {
                    return Ok(None);
                }
                continue;
            };
            let (record, nanos, bytes) = (packet.number, packet.time.as_nanos(), packet.length);
            events.push(Happened { record, nanos, bytes, ..found });
        }
        Ok((!events.is_empty()).then_some(Self { events, is_table: false }))
    }

    /// The events of a packet: of a capture that of a record, as viewers show it; of a table that with a number in the column `packet`.
    fn of(&self, number: u64) -> Result<Vec<&Happened>, Failure> {
        let name = |event: &Happened| if self.is_table { event.packet } else { event.record };
        let packet = self.events.iter().find(|event| name(event) == number).map(|event| event.packet);
        let Some(packet) = packet else {
            let (first, last) = self.events.iter().map(name).fold((u64::MAX, 0), |(a, b), n| (a.min(n), b.max(n)));
            let what = if self.is_table { "packets (column `packet`) from" } else { "records" };
            return Err(Failure::Usage(format!("--packet {number}: the trace has the {what} {first} to {last}")));
        };
        Ok(self.events.iter().filter(|event| event.packet == packet).collect())
    }

    /// Events of each flow by kind, with packets that were marked congestion experienced, and drops of each flow by colour and reason.
    #[expect(clippy::type_complexity, reason = "two tables, made in one pass")]
    fn counts(&self) -> (BTreeMap<&str, BTreeMap<&str, u64>>, BTreeMap<(&str, &str, &str), u64>) {
        let (mut events, mut drops) = (BTreeMap::<&str, BTreeMap<&str, u64>>::new(), BTreeMap::new());
        let mut marked = HashSet::new();
        for event in &self.events {
            let of_flow = events.entry(&event.flow).or_default();
            *of_flow.entry(&event.event).or_default() += 1;
            if event.is_marked() && marked.insert(event.packet) {
                *of_flow.entry("marked").or_default() += 1;
            }
            if let Some(reason) = &event.reason {
                *drops.entry((event.flow.as_str(), event.colour.as_str(), reason.as_str())).or_default() += 1;
            }
        }
        (events, drops)
    }

    /// Prints the events of a packet, or what happened in all.
    ///
    /// # Errors
    /// When there is no such packet, or writing fails.
    pub fn print(&self, out: &mut dyn Write, packet: Option<u64>) -> Result<(), Failure> {
        let Some(record) = packet else { return self.summary(out) };
        let events = self.of(record)?;
        let first = events[0];
        writeln!(out, "packet {} of flow {}, {} bytes", first.packet, first.flow, first.bytes)?;
        let (mut before, mut marked) = (first.nanos, false);
        for event in events {
            let place = event.link.as_ref().map_or(String::new(), |link| format!(" at {link}"));
            let known = tidegate_core::DropReason::ALL
                .into_iter()
                .find(|reason| event.reason.as_deref() == Some(reason.name()));
            let reason = known.map_or(String::new(), |reason| format!(": {}", super::output::because(reason)));
            let colour = if event.colour == "green" { String::new() } else { format!(", {}", event.colour) };
            let mark = if event.is_marked() && !marked { ", congestion was marked on it" } else { "" };
            marked = event.is_marked();
            let wait = output::wait(tidegate_units::Span::from_nanos(event.nanos - before));
            let time = event.nanos as f64 / 1e9;
            writeln!(out, "    {time:.9} s  {}{place}{reason}{colour}{mark}, {wait} later", event.event)?;
            before = event.nanos;
        }
        Ok(())
    }

    fn summary(&self, out: &mut dyn Write) -> Result<(), Failure> {
        let (events, drops) = self.counts();
        let (first, last) = (&self.events[0], &self.events[self.events.len() - 1]);
        let seconds = |nanos: u64| nanos as f64 / 1e9;
        writeln!(
            out,
            "{} events from {:.3} s to {:.3} s; --packet N follows the packet {}",
            self.events.len(),
            seconds(first.nanos),
            seconds(last.nanos),
            if self.is_table { "with N in the column `packet`" } else { "of record N" }
        )?;
        for (flow, kinds) in events {
            let kinds: Vec<String> = kinds.iter().map(|(kind, count)| format!("{kind} {count}")).collect();
            writeln!(out, "flow {flow}: {}", kinds.join(", "))?;
            for ((_, colour, reason), count) in drops.iter().filter(|((of, ..), _)| *of == flow) {
                writeln!(out, "    dropped {colour} for {reason}: {count}")?;
            }
        }
        Ok(())
    }

    /// Returns the explanation as JSON.
    ///
    /// # Errors
    /// When there is no such packet.
    pub fn json(&self, packet: Option<u64>) -> Result<Value, Failure> {
        let Some(record) = packet else {
            let (events, drops) = self.counts();
            let drops: Vec<Value> = drops
                .iter()
                .map(|((flow, colour, reason), packets)| {
                    json!({ "flow": flow, "colour": colour, "reason": reason, "packets": packets })
                })
                .collect();
            return Ok(json!({ "flows": events, "dropped": drops }));
        };
        let events: Vec<Value> = self
            .of(record)?
            .iter()
            .map(|event| {
                json!({
                    "record": event.record,
                    "time_ns": event.nanos,
                    "event": event.event,
                    "reason": event.reason,
                    "link": event.link,
                    "colour": event.colour,
                    "ecn": event.ecn,
                })
            })
            .collect();
        let first = self.of(record)?[0];
        Ok(json!({ "packet": first.packet, "flow": first.flow, "size_bytes": first.bytes, "events": events }))
    }
}
