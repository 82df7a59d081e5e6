//! `simulate --qlog`: connections as qlog files, for the viewers of QUIC.
//!
//! The schema is the newest that qvis reads: version 0.3 (draft-ietf-quic-qlog-main-schema-05 and -quic-events-05), as JSON text
//! sequences (RFC 7464), a file for each end of a connection. TCP has no schema of its own: its segments are packets of one
//! stream and of one type, because types have numbers of their own; they are numbered as they are sent, and an acknowledgement is of
//! those that have arrived since the one before. Its counters of ECN fields are of what has arrived, in packets as those of QUIC, and
//! not what TCP's own feedback tells. A packet of QUIC is
//! lost when quinn declares it lost. TCP declares nothing: its packet counts as lost when the sender sends the data again.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::io::Write;
use std::path::Path;

use serde_json::{Map, Value, json};
use tidegate_core::{Ecn, Instant};
use tidegate_sim::Proto;
use tidegate_sim::scenario::Scenario;
use tidegate_sim::tcp::Flags;
use tidegate_sim::trace::{Loss, MOST, Occurrence, PacketEvent, Selection, Trace};
use tidegate_sim::transport::{Contents, EcnFields, Field, Frame, SenderState};

use crate::{Failure, output};

/// The most connections of a variant that have files.
const MOST_CONNECTIONS: usize = 500;

/// Runs the scenario once more under `seed`, and writes its connections into `folder`.
pub fn write(scenario: &Scenario, selection: &Selection, seed: u64, folder: &Path) -> Result<(), Failure> {
    std::fs::create_dir_all(folder)
        .map_err(|error| Failure::Usage(format!("cannot write into {}: {error}", folder.display())))?;
    for (variant, trace) in scenario.traced(seed, selection) {
        let all = connections(&trace);
        if all.len() > MOST_CONNECTIONS {
            message!(
                "tidegate: {} connections; the first {MOST_CONNECTIONS} have files, and --trace flow=NAME chooses others",
                all.len()
            );
        }
        for connection in all.values().take(MOST_CONNECTIONS) {
            for side in 0..2 {
                let (name, bytes) = connection.file(&trace, &variant, side).map_err(Failure::from)?;
                output::write(&folder.join(name), &bytes)?;
            }
        }
        if let Some(full) = trace.full {
            message!(
                "tidegate: the trace was full at {:.3} s, after {MOST} events; narrow it by --trace flow=, from= and to=",
                full.as_nanos() as f64 / 1e9
            );
        }
    }
    Ok(())
}

/// The events of a connection.
struct Connection<'a> {
    number: u64,
    flow: u32,
    transport: Proto,
    packets: Vec<&'a PacketEvent>,
    losses: Vec<&'a Loss>,
    states: Vec<(Instant, usize, SenderState)>,
}

/// The connections of a trace, by number.
fn connections(trace: &Trace) -> BTreeMap<u64, Connection<'_>> {
    let mut all: BTreeMap<u64, Connection<'_>> = BTreeMap::new();
    for event in trace.packets.iter().filter(|event| event.packet.transport != Proto::Udp) {
        let (number, flow, transport) = (event.packet.connection(), event.packet.group, event.packet.transport);
        let new =
            || Connection { number, flow, transport, packets: Vec::new(), losses: Vec::new(), states: Vec::new() };
        all.entry(number).or_insert_with(new).packets.push(event);
    }
    for loss in &trace.losses {
        if let Some(connection) = all.get_mut(&loss.connection) {
            connection.losses.push(loss);
        }
    }
    for state in &trace.connections {
        if let Some(connection) = all.get_mut(&state.connection) {
            connection.states.push((state.time, usize::from(state.side), state.sender));
        }
    }
    all
}

/// An event with its time, before it is written.
struct Entry {
    time: u64,
    name: &'static str,
    data: Value,
}

fn lost(time: u64, kind: &str, number: u64) -> Entry {
    let data = json!({ "header": { "packet_type": kind, "packet_number": number } });
    Entry { time, name: "recovery:packet_lost", data }
}

/// The data that a packet carries, as a range of its stream.
type Range = (u64, u64);

impl Connection<'_> {
    /// The name and the contents of the file of end `side`.
    fn file(&self, trace: &Trace, variant: &str, side: usize) -> std::io::Result<(String, Vec<u8>)> {
        let flow = trace.flows.get(self.flow as usize).map_or("", String::as_str);
        let end = ["client", "server"][side];
        let protocol = if self.transport == Proto::Tcp { "TCP" } else { "QUIC" };
        let title = [variant, flow].into_iter().filter(|part| !part.is_empty()).collect::<Vec<_>>().join(" ");
        let name: String = title.chars().map(|c| if c.is_alphanumeric() || c == '.' { c } else { '-' }).collect();
        let head = json!({
            "qlog_version": "0.3", "qlog_format": "JSON-SEQ", "title": format!("{title} {end}"),
            "description": format!("connection {} of flow {flow}, {protocol}, simulated by Tidegate", self.number),
            "trace": {
                "vantage_point": { "name": end, "type": end },
                "title": format!("{title} {end}"),
                "common_fields": {
                    "protocol_type": [protocol], "time_format": "relative", "reference_time": 0,
                    "group_id": self.number.to_string(), "ODCID": format!("{:016x}", self.number),
                },
            },
        });
        let mut bytes = Vec::new();
        record(&mut bytes, &head)?;
        for entry in self.entries(trace, side) {
            let Entry { time, name, data } = entry;
            record(&mut bytes, &json!({ "time": time as f64 / 1e6, "name": name, "data": data }))?;
        }
        Ok((format!("{name}-{}-{end}.sqlog", self.number), bytes))
    }

    /// The events at end `side`, in the order of time.
    fn entries(&self, trace: &Trace, side: usize) -> Vec<Entry> {
        let (mut entries, mut known) = (Vec::new(), BTreeSet::new());
        let mut numbered = Numbered::default();
        // The last packet that carried each range of data.
        let mut carried: HashMap<Range, (&'static str, u64)> = HashMap::new();
        for event in &self.packets {
            let from = (event.packet.flow & 1) as usize;
            if known.insert(event.number) {
                let contents = numbered.sent(trace, event);
                if from == side {
                    let time = event.packet.sent;
                    for packet in &contents {
                        if self.transport == Proto::Tcp {
                            let again =
                                ranges(packet).filter_map(|range| carried.insert(range, (packet.kind, packet.number)));
                            entries.extend(again.map(|(kind, number)| lost(time, kind, number)));
                        }
                        entries.push(Entry { time, name: "transport:packet_sent", data: data(packet, event) });
                    }
                }
            }
            if event.what == Occurrence::Delivered {
                let contents = numbered.received(event);
                if from != side {
                    let time = event.time.as_nanos();
                    let of = |packet| Entry { time, name: "transport:packet_received", data: data(packet, event) };
                    entries.extend(contents.iter().map(of));
                }
            }
        }
        let declared = self.losses.iter().filter(|loss| usize::from(loss.side) == side);
        entries.extend(declared.map(|loss| lost(loss.time.as_nanos(), loss.packet.kind, loss.packet.number)));
        let mut before = None;
        for (time, _, state) in self.states.iter().filter(|(_, of, _)| *of == side) {
            let data = metrics(state, before.replace(*state));
            entries.push(Entry { time: time.as_nanos(), name: "recovery:metrics_updated", data });
        }
        // An acknowledgement shows losses, and what is lost makes room for other packets.
        let order = ["transport:packet_received", "recovery:packet_lost", "transport:packet_sent"];
        let rank = |name| order.iter().position(|other| *other == name).unwrap_or(order.len());
        entries.sort_by_key(|entry| (entry.time, rank(entry.name)));
        entries
    }
}

/// Writes a record of a JSON text sequence.
fn record(bytes: &mut Vec<u8>, value: &Value) -> std::io::Result<()> {
    bytes.push(0x1e);
    serde_json::to_writer(&mut *bytes, value)?;
    bytes.write_all(b"\n")
}

/// The ranges of data in a packet.
fn ranges(packet: &Contents) -> impl Iterator<Item = Range> + '_ {
    packet.frames.iter().filter_map(|frame| match frame {
        Frame::Stream { offset, length, .. } if *length > 0 => Some((*offset, *length)),
        _ => None,
    })
}

/// The contents of packets: those that a transport tells, and those that are made of TCP's segments.
#[derive(Default)]
struct Numbered {
    of: HashMap<u32, Vec<Contents>>,
    /// The next number of TCP's packets in each direction, and those that arrived and were not acknowledged yet.
    next: [u64; 2],
    arrived: [Vec<u64>; 2],
    /// How many of TCP's packets arrived with each ECN field.
    ecn: [EcnFields; 2],
    /// The first sequence number of data in each direction.
    first: [Option<u32>; 2],
}

impl Numbered {
    /// The contents of a packet that is sent.
    fn sent(&mut self, trace: &Trace, event: &PacketEvent) -> Vec<Contents> {
        let contents = match event.packet.transport {
            Proto::Tcp => vec![self.segment(event)],
            _ => trace.contents.get(&event.number).cloned().unwrap_or_default(),
        };
        self.of.insert(event.number, contents.clone());
        contents
    }

    /// The contents of a packet that arrives.
    fn received(&mut self, event: &PacketEvent) -> Vec<Contents> {
        let contents = self.of.get(&event.number).cloned().unwrap_or_default();
        if event.packet.transport == Proto::Tcp {
            let way = (event.packet.flow & 1) as usize;
            self.arrived[way].extend(contents.iter().map(|packet| packet.number));
            let counts = &mut self.ecn[way];
            match event.packet.segment.ecn {
                Ecn::NotEct => {}
                Ecn::Ect0 => counts.ect0 += 1,
                Ecn::Ect1 => counts.ect1 += 1,
                Ecn::Ce => counts.ce += 1,
            }
        }
        contents
    }

    /// A segment as a packet with frames.
    fn segment(&mut self, event: &PacketEvent) -> Contents {
        let (way, segment) = ((event.packet.flow & 1) as usize, &event.packet.segment);
        let number = self.next[way];
        self.next[way] += 1;
        let mut frames = Vec::new();
        let mut acknowledged = std::mem::take(&mut self.arrived[1 - way]);
        if segment.flags.has(Flags::ACK) && !acknowledged.is_empty() {
            acknowledged.sort_unstable_by(|a, b| b.cmp(a));
            let mut ranges: Vec<(u64, u64)> = Vec::new();
            for number in acknowledged {
                match ranges.last_mut() {
                    Some((low, _)) if number + 1 >= *low => *low = number,
                    _ => ranges.push((number, number)),
                }
            }
            let ecn = Some(self.ecn[1 - way]).filter(|counts| *counts != EcnFields::default());
            frames.push(Frame::Ack { ranges, delay: None, ecn });
        }
        let syn = segment.flags.has(Flags::SYN);
        let first = *self.first[way].get_or_insert(segment.seq.wrapping_add(u32::from(syn)));
        let fin = segment.flags.has(Flags::FIN);
        if segment.len > 0 || fin {
            let offset = u64::from(segment.seq.wrapping_sub(first));
            frames.push(Frame::Stream { id: 0, offset, length: u64::from(segment.len), fin });
        }
        if syn {
            frames.push(Frame::Crypto { offset: 0, length: 0 });
        }
        Contents { kind: "1RTT", number, length: u64::from(event.packet.size), frames }
    }
}

/// The data of an event of a packet.
fn data(packet: &Contents, event: &PacketEvent) -> Value {
    let frames: Vec<Value> = packet.frames.iter().map(frame).collect();
    let mut data = json!({
        "header": { "packet_type": packet.kind, "packet_number": packet.number },
        "raw": { "length": packet.length },
        "frames": frames,
    });
    let ecn = match event.packet.segment.ecn {
        Ecn::NotEct => return data,
        Ecn::Ect0 => "ECT(0)",
        Ecn::Ect1 => "ECT(1)",
        Ecn::Ce => "CE",
    };
    data["ecn"] = ecn.into();
    data
}

fn frame(frame: &Frame) -> Value {
    match frame {
        Frame::Ack { ranges, delay, ecn } => {
            let ranges: Vec<[u64; 2]> = ranges.iter().rev().map(|(low, high)| [*low, *high]).collect();
            let mut ack = json!({ "frame_type": "ack", "acked_ranges": ranges });
            if let Some(delay) = delay {
                ack["ack_delay"] = (delay.as_nanos() as f64 / 1e6).into();
            }
            if let Some(EcnFields { ect0, ect1, ce }) = *ecn {
                (ack["ect0"], ack["ect1"], ack["ce"]) = (ect0.into(), ect1.into(), ce.into());
            }
            ack
        }
        Frame::Stream { id, offset, length, fin } => {
            json!({ "frame_type": "stream", "stream_id": id, "offset": offset, "length": length, "fin": fin })
        }
        Frame::Crypto { offset, length } => json!({ "frame_type": "crypto", "offset": offset, "length": length }),
        Frame::Other { name, fields } => {
            let value = |field: &Field| match field {
                Field::Number(number) => Value::from(*number),
                Field::Text(text) => Value::from(text.as_str()),
            };
            let fields = fields.iter().map(|(name, field)| ((*name).to_owned(), value(field)));
            Value::Object(fields.chain([("frame_type".to_owned(), Value::from(*name))]).collect())
        }
    }
}

/// The metrics of a sender that differ from those `before`.
fn metrics(state: &SenderState, before: Option<SenderState>) -> Value {
    let values = |state: &SenderState| {
        [
            ("congestion_window", Some(state.cwnd.into())),
            ("bytes_in_flight", Some(state.pipe.into())),
            ("ssthresh", Some(state.ssthresh).filter(|ssthresh| *ssthresh < u64::MAX).map(Value::from)),
            ("min_rtt", state.min_rtt.map(|rtt| (rtt.as_nanos() as f64 / 1e6).into())),
            ("smoothed_rtt", state.srtt.map(|srtt| (srtt.as_nanos() as f64 / 1e6).into())),
            ("pacing_rate", state.pacing.map(|rate| rate.as_bps().into())),
        ]
    };
    let old = before.as_ref().map(values);
    let changed =
        values(state).into_iter().enumerate().filter(|(n, pair)| old.as_ref().is_none_or(|old| old[*n] != *pair));
    let found: Map<String, Value> = changed.filter_map(|(_, (name, value))| Some((name.to_owned(), value?))).collect();
    Value::Object(found)
}
