//! `simulate --trace`: the events of packets as a capture with comments, and everything as one table.

use std::fs::File;
use std::io::BufWriter;
use std::path::Path;

use tidegate_capture::LinkType;
use tidegate_capture::write::{CaptureWriter, WriteError};
use tidegate_core::Ecn;
use tidegate_report::columns::{Column, Table};
use tidegate_sim::scenario::Scenario;
use tidegate_sim::tcp::Flags;
use tidegate_sim::trace::{MOST, Occurrence, PacketEvent, Selection, Trace};
use tidegate_sim::{Proto, Stage};

use crate::{Failure, output};

/// Parses the selection of a trace.
pub fn selection(scenario: &Scenario, wanted: &str) -> Result<Selection, Failure> {
    scenario.selection(wanted).map_err(|error| Failure::Usage(format!("--trace {wanted}: {error}")))
}

/// Runs the scenario once more under `seed`, and writes its traces into `folder`.
pub fn write(scenario: &Scenario, selection: &Selection, seed: u64, folder: &Path) -> Result<(), Failure> {
    for (variant, trace) in scenario.traced(seed, selection) {
        let plain: String = variant.chars().map(|c| if c.is_alphanumeric() || c == '.' { c } else { '-' }).collect();
        let name = if plain.is_empty() { "trace".to_owned() } else { format!("trace-{plain}") };
        let failed = |path: &Path, error: &dyn std::fmt::Display| {
            Failure::Failed(format!("cannot write {}: {error}", path.display()))
        };
        let path = folder.join(format!("{name}.pcapng"));
        let file = File::create(&path).map_err(|error| failed(&path, &error))?;
        capture(&trace, BufWriter::new(file)).map_err(|error| failed(&path, &error))?;
        let path = folder.join(format!("{name}.parquet"));
        let table = table(&trace);
        let bytes = table.parquet().map_err(|error| failed(&path, &error))?;
        output::write(&path, &bytes)?;
        output::write(&folder.join(format!("{name}.csv")), table.csv().as_bytes())?;
        if let Some(full) = trace.full {
            message!(
                "tidegate: the trace was full at {:.3} s, after {MOST} events; narrow it by flow, link, from and to",
                full.as_nanos() as f64 / 1e9
            );
        }
    }
    Ok(())
}

/// An event in one or two words, and the reason of a drop.
fn event(what: Occurrence) -> (&'static str, Option<&'static str>) {
    match what {
        Occurrence::Delivered => ("delivered", None),
        Occurrence::At(_, Stage::Arrived) => ("arrived", None),
        Occurrence::At(_, Stage::Dequeued) => ("dequeued", None),
        Occurrence::At(_, Stage::Hardware) => ("to hardware", None),
        Occurrence::At(_, Stage::Transmitting) => ("transmitting", None),
        Occurrence::At(_, Stage::Dropped(reason)) => ("dropped", Some(reason.name())),
        Occurrence::At(_, Stage::Lost) => ("lost", None),
    }
}

fn colour(event: &PacketEvent) -> &'static str {
    event.packet.colour.name()
}

fn ecn(event: &PacketEvent) -> &'static str {
    match event.packet.segment.ecn {
        Ecn::NotEct => "Not-ECT",
        Ecn::Ect0 => "ECT(0)",
        Ecn::Ect1 => "ECT(1)",
        Ecn::Ce => "CE",
    }
}

/// The comment of an event in a capture; `tidegate explain` reads it.
fn comment(trace: &Trace, happened: &PacketEvent) -> String {
    let (what, reason) = event(happened.what);
    let flow = trace.flows.get(happened.packet.group as usize).map_or("", String::as_str);
    let place = match happened.what {
        Occurrence::At(link, _) => trace.links.get(link.index()).map_or(String::new(), |link| format!("; at {link}")),
        Occurrence::Delivered => String::new(),
    };
    let reason = reason.map_or(String::new(), |reason| format!("; reason {reason}"));
    let (number, colour, ecn) = (happened.number, colour(happened), ecn(happened));
    format!("tidegate: packet {number}; {what}{place}{reason}; colour {colour}; ecn {ecn}; flow {flow}")
}

/// The link type of a trace. libpcap reads no file with several interfaces of [`LinkType::Raw`]: it takes the second for one of
/// another type, because it has another number for it in memory.
fn link_type(trace: &Trace) -> LinkType {
    let is_v6 = |happened: &PacketEvent| trace.headers(&happened.packet).first().is_some_and(|byte| byte >> 4 == 6);
    let mut versions = trace.packets.iter().map(is_v6);
    let first = versions.next().unwrap_or(false);
    match (first, versions.all(|version| version == first)) {
        (false, true) => LinkType::Ipv4,
        (true, true) => LinkType::Ipv6,
        (_, false) => LinkType::Raw,
    }
}

/// The events of packets, on an interface for each link and one for the hosts; on a single one if versions of IP are mixed.
fn capture(trace: &Trace, sink: BufWriter<File>) -> Result<(), WriteError> {
    let (mut writer, link_type) = (CaptureWriter::new(sink)?, link_type(trace));
    let hosts = writer.add_interface("hosts", link_type)?;
    let links = trace.links.iter().filter(|_| link_type != LinkType::Raw);
    let links = links.map(|link| writer.add_interface(link, link_type)).collect::<Result<Vec<_>, _>>()?;
    for happened in &trace.packets {
        let interface = match happened.what {
            Occurrence::At(link, _) => links.get(link.index()).copied().unwrap_or(hosts),
            Occurrence::Delivered => hosts,
        };
        let headers = trace.headers(&happened.packet);
        let remark = comment(trace, happened);
        writer.write(interface, happened.time, &headers, happened.packet.size, Some(&remark))?;
    }
    writer.finish().map(drop)
}

/// A row of the table: what an event of a packet, a connection or a queue has of it.
#[derive(Default)]
struct Row<'a> {
    nanos: u64,
    kind: &'static str,
    flow: Option<&'a str>,
    link: Option<&'a str>,
    event: Option<&'static str>,
    reason: Option<&'static str>,
    colour: Option<&'static str>,
    ecn: Option<&'static str>,
    flags: Option<String>,
    phase: Option<&'static str>,
    numbers: [Option<u64>; NUMBERS.len()],
    probability: Option<f64>,
}

/// The columns of whole numbers.
const NUMBERS: [&str; 16] = [
    "packet",
    "size_bytes",
    "seq",
    "ack",
    "connection",
    "side",
    "cwnd_bytes",
    "ssthresh_bytes",
    "srtt_ns",
    "rto_ns",
    "pipe_bytes",
    "pacing_bps",
    "queue_packets",
    "queue_bytes",
    "payload_bytes",
    "retransmission",
];

/// The flags of a segment of TCP by their names in its header; empty for none.
fn flags(flags: Flags) -> String {
    let all = [
        (Flags::SYN, "SYN"),
        (Flags::ACK, "ACK"),
        (Flags::FIN, "FIN"),
        (Flags::ECE, "ECE"),
        (Flags::CWR, "CWR"),
        (Flags::AE, "AE"),
    ];
    all.into_iter().filter(|(flag, _)| flags.has(*flag)).map(|(_, name)| name).collect::<Vec<_>>().join(" ")
}

fn rows(trace: &Trace) -> Vec<Row<'_>> {
    let link = |number: usize| trace.links.get(number).map(String::as_str);
    let flow = |number: usize| trace.flows.get(number).map(String::as_str);
    let packets = trace.packets.iter().map(|happened| {
        let (what, reason) = event(happened.what);
        let segment = &happened.packet.segment;
        let mut numbers = [None; NUMBERS.len()];
        let own = [happened.number.into(), happened.packet.size.into(), segment.seq.into(), segment.ack.into()];
        numbers[..4].copy_from_slice(&own.map(Some));
        let is_tcp = happened.packet.transport == Proto::Tcp;
        let is_again = segment.flags.has(Flags::RETRANSMISSION);
        numbers[14..].copy_from_slice(&[Some(segment.len.into()), is_tcp.then_some(is_again.into())]);
        // A datagram belongs to no connection.
        if happened.packet.transport != Proto::Udp {
            let of_connection = [happened.packet.connection(), happened.packet.direction() as u64];
            numbers[4..6].copy_from_slice(&of_connection.map(Some));
        }
        Row {
            nanos: happened.time.as_nanos(),
            kind: "packet",
            flow: flow(happened.packet.group as usize),
            link: match happened.what {
                Occurrence::At(number, _) => link(number.index()),
                Occurrence::Delivered => None,
            },
            event: Some(what),
            reason,
            colour: Some(colour(happened)),
            ecn: Some(ecn(happened)),
            flags: is_tcp.then(|| flags(segment.flags)),
            numbers,
            ..Row::default()
        }
    });
    let connections = trace.connections.iter().map(|state| {
        let mut numbers = [None; NUMBERS.len()];
        let own = [
            Some(state.connection),
            Some(state.side.into()),
            Some(state.sender.cwnd),
            Some(state.sender.ssthresh).filter(|ssthresh| *ssthresh < u64::MAX),
            state.sender.srtt.map(|srtt| srtt.as_nanos()),
            state.sender.rto.map(|rto| rto.as_nanos()),
            Some(state.sender.pipe),
            state.sender.pacing.map(|rate| rate.as_bps()),
        ];
        numbers[4..12].copy_from_slice(&own);
        let flow = flow(state.flow.index());
        let phase = state.sender.phase;
        Row { nanos: state.time.as_nanos(), kind: "connection", flow, phase, numbers, ..Row::default() }
    });
    let queues = trace.queues.iter().map(|state| {
        let mut numbers = [None; NUMBERS.len()];
        numbers[12..14].copy_from_slice(&[Some(state.backlog.packets), Some(state.backlog.bytes.as_u64())]);
        let link = link(state.link.index());
        let probability = state.probability;
        Row { nanos: state.time.as_nanos(), kind: "queue", link, numbers, probability, ..Row::default() }
    });
    let mut rows: Vec<Row<'_>> = packets.chain(connections).chain(queues).collect();
    rows.sort_by_key(|row| row.nanos);
    rows
}

fn text<'a>(rows: &[Row<'a>], of: fn(&Row<'a>) -> Option<&'a str>) -> Column {
    Column::Text(rows.iter().map(|row| of(row).map(str::to_owned)).collect())
}

/// Everything that was kept, in the order of time: a row for each event of a packet, change of a connection and change
/// of a queue.
fn table(trace: &Trace) -> Table {
    let rows = rows(trace);
    let mut table = Table::default()
        .with("time_s", Column::Number(rows.iter().map(|row| Some(row.nanos as f64 / 1e9)).collect()))
        .with("time_ns", Column::Integer(rows.iter().map(|row| Some(row.nanos)).collect()))
        .with("kind", Column::Text(rows.iter().map(|row| Some(row.kind.to_owned())).collect()))
        .with("flow", text(&rows, |row| row.flow))
        .with("link", text(&rows, |row| row.link))
        .with("event", text(&rows, |row| row.event))
        .with("reason", text(&rows, |row| row.reason))
        .with("colour", text(&rows, |row| row.colour))
        .with("ecn", text(&rows, |row| row.ecn))
        .with("flags", Column::Text(rows.iter().map(|row| row.flags.clone()).collect()))
        .with("phase", text(&rows, |row| row.phase));
    for (place, name) in NUMBERS.iter().enumerate() {
        table = table.with(*name, Column::Integer(rows.iter().map(|row| row.numbers[place]).collect()));
    }
    table.with("probability", Column::Number(rows.iter().map(|row| row.probability).collect()))
}
