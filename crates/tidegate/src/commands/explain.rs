//! `tidegate explain`: why a packet went where it went.

use std::io::Write;
use std::net::IpAddr;
use std::path::{Path, PathBuf};

use serde_json::{Value, json};
use tidegate_config::values::{Protocol, User, dscp_name};

use tidegate_config::{Scalar, shaper::Config};
use tidegate_control::calls::{Explain, Explained, InForce};
use tidegate_core::classify::{Fields, Hosts};
use tidegate_core::{Credit, Dscp};
use tidegate_engine::{Disposition, PacketMeta};
use tidegate_replay::explain::{self, Belongs, End, Explanation, NotExplained, colour_name};
use tidegate_replay::meter::Departure;
use tidegate_replay::recording::Reader;
use tidegate_replay::run::{Run, Settings};
use tidegate_replay::source::{Choice, Kind, Source, SourceError};
use tidegate_units::{Instant, Span};

use super::connect::Connect;
use super::replay::{configurations, look, next_part};
use crate::{Failure, output};

/// Tell why a packet goes where it goes: the rule that matches and those that do not, its class, what stood there
///
/// Of a capture: `tidegate explain FILE --packet N --with CONFIG`. Of a recording of `tidegate run --record`, with the
/// configuration it was made with: `tidegate explain FILE --packet N`, or `--event N` for what a record is about. Of
/// packets that may come: `tidegate explain --with CONFIG --source ADDRESS --destination ADDRESS --protocol udp ...`; with
/// `--live` instead of a configuration, to the shaper that runs, with what stands there at this moment.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// The capture or recording
    #[arg(required_unless_present_any = ["live", "source", "destination", "protocol", "source_port", "destination_port", "dscp"])]
    file: Option<PathBuf>,
    /// The packet of the capture, or of the recording, from 1
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..), requires = "file")]
    packet: Option<u64>,
    /// The record of a recording, from 0
    #[arg(long, value_name = "N", requires = "file", conflicts_with = "packet")]
    event: Option<u64>,
    /// The configuration: a shaper file, or a kind of discipline and the rate of the link behind it
    #[arg(long, value_name = "CONFIG")]
    with: Option<String>,
    /// Ask the shaper that runs
    #[arg(long, conflicts_with_all = ["file", "with"])]
    live: bool,
    #[command(flatten)]
    connect: Connect,
    /// With --live, the direction, where both are shaped
    #[arg(long, value_name = "NAME", requires = "live")]
    way: Option<String>,
    /// Random streams and flow keys are derived from it; those of a recording are its own
    #[arg(long, value_name = "N", default_value_t = 1)]
    seed: u64,
    /// The address of the sender
    #[arg(long, value_name = "ADDRESS", conflicts_with = "file")]
    source: Option<IpAddr>,
    /// The address of the receiver
    #[arg(long, value_name = "ADDRESS", conflicts_with = "file")]
    destination: Option<IpAddr>,
    /// The protocol: a name or a number
    #[arg(long, value_name = "NAME", conflicts_with = "file", value_parser = scalar::<Protocol>)]
    protocol: Option<Protocol>,
    /// The port of the sender
    #[arg(long, value_name = "PORT", conflicts_with = "file")]
    source_port: Option<u16>,
    /// The port of the receiver
    #[arg(long, value_name = "PORT", conflicts_with = "file")]
    destination_port: Option<u16>,
    /// The code point: a name or a number
    #[arg(long, value_name = "NAME", conflicts_with = "file", value_parser = scalar::<Dscp>)]
    dscp: Option<Dscp>,
    /// The firewall mark
    #[arg(long, value_name = "N", conflicts_with = "file")]
    mark: Option<u32>,
    /// The user that owns the sending socket
    #[arg(long, value_name = "N", conflicts_with = "file")]
    uid: Option<u32>,
    /// Print it as JSON
    #[arg(long)]
    json: bool,
}

/// A value as a shaper file has it.
fn scalar<T: Scalar>(text: &str) -> Result<T, String> {
    T::from_text(text).map_err(|wrong| format!("{}; {}", wrong.message, wrong.help))
}

/// Runs the command.
pub fn run(args: &Args) -> Result<(), Failure> {
    let mut out = std::io::stdout().lock();
    match &args.file {
        None if args.live => live(args, &mut out)?,
        None => {
            let (config, run, names) = engine(args)?;
            let belongs = explain::belongs(&run, &config, &names, &fields(args)?);
            if args.json {
                writeln!(out, "{:#}", belongs_json(&belongs))?;
            } else {
                print_belongs(&mut out, &belongs)?;
            }
        }
        Some(file) => {
            let told = of_file(args, file)?;
            if args.json {
                writeln!(out, "{:#}", explanation_json(&told))?;
            } else {
                print_explanation(&mut out, &told)?;
            }
        }
    }
    out.flush()?;
    Ok(())
}

/// The configuration that `--with` names, settings for it, and an engine of it.
fn configuration(args: &Args) -> Result<(Config, Settings), Failure> {
    let Some(name) = &args.with else {
        return Err(Failure::Usage("name the configuration by --with; a capture has none of its own".into()));
    };
    let (config, link) = configurations::one(name)?;
    let mut settings = Settings { link, ..Settings::seeded(args.seed) };
    let invented = settings.invent_names(&config);
    if !invented.is_empty() {
        say!("tidegate: {name}: nobody knows here who sent a packet: nothing matches {}", invented.join(", "));
    }
    Ok((config, settings))
}

fn engine(args: &Args) -> Result<(Config, Run, tidegate_engine::Names), Failure> {
    let (config, settings) = configuration(args)?;
    let run = Run::new(&config, &settings, Instant::ZERO).map_err(|error| Failure::Usage(error.to_string()))?;
    Ok((config, run, settings.setup.names))
}

/// The packet that the flags describe.
fn fields(args: &Args) -> Result<Fields, Failure> {
    let hosts = match (args.source, args.destination) {
        (Some(IpAddr::V4(source)), Some(IpAddr::V4(destination))) => Hosts::V4 { source, destination },
        (Some(IpAddr::V6(source)), Some(IpAddr::V6(destination))) => Hosts::V6 { source, destination },
        // Rules do not look into what is no IP packet: a protocol or a port would be told to match, and not count.
        (None, None)
            if args.protocol.is_some()
                || args.dscp.is_some()
                || args.source_port.is_some()
                || args.destination_port.is_some() =>
        {
            return Err(Failure::Usage(
                "a packet with a protocol, ports or a code point has addresses; give --source and --destination".into(),
            ));
        }
        (None, None) => Hosts::Unknown,
        (Some(_), Some(_)) => {
            return Err(Failure::Usage("--source and --destination are of different versions of IP".into()));
        }
        _ => return Err(Failure::Usage("give both, --source and --destination, or neither".into())),
    };
    Ok(Fields {
        hosts,
        dscp: args.dscp.unwrap_or_default(),
        protocol: args.protocol.map(|protocol| protocol.0),
        source_port: args.source_port,
        destination_port: args.destination_port,
        mark: args.mark.unwrap_or(0),
        uid: args.uid,
        ..Fields::default()
    })
}

/// Asks the shaper that runs.
fn live(args: &Args, out: &mut dyn Write) -> Result<(), Failure> {
    let fields = fields(args)?;
    let mut client = args.connect.open()?;
    let told = client.explain(&Explain {
        direction: args.way.clone(),
        protocol: args.protocol.map(|protocol| tidegate_control::calls::Protocol(protocol.0)),
        source: args.source,
        source_port: args.source_port,
        destination: args.destination,
        destination_port: args.destination_port,
        dscp: args.dscp.map(Dscp::value),
        mark: args.mark,
        uid: args.uid,
    })?;
    let text = client.in_force(&InForce { direction: Some(told.direction.clone()) })?;
    let config = tidegate_replay::exact::configuration(&text).map_err(Failure::Failed)?;
    let mut names = tidegate_engine::Names::default();
    for user in config.rules.iter().flat_map(|rule| &rule.matches.users) {
        if let User::Name(name) = user {
            names.users.insert(name.clone(), tidegate_live::shaping::user_number(name).unwrap_or(u32::MAX));
        }
    }
    let belongs = Belongs {
        fields,
        rules: explain::rules(&config, &names, &fields, told.rule),
        class: told.class.clone(),
        by_default: told.rule.is_none(),
        flow: u64::from_str_radix(&told.flow.key, 16).unwrap_or_default(),
    };
    if args.json {
        let stood = serde_json::to_value(&told).map_err(std::io::Error::from)?;
        writeln!(out, "{:#}", json!({ "belongs": belongs_json(&belongs), "stands": stood }))?;
        return Ok(());
    }
    if told.rule.is_some_and(|rule| rule as usize > config.rules.len()) {
        writeln!(out, "class {}, a reservation, whose rule goes before those of the file", told.class)?;
        writeln!(out, "flow {}", told.flow.key)?;
    } else {
        print_belongs(out, &belongs)?;
    }
    print_stands(out, &told)?;
    Ok(())
}

fn print_stands(out: &mut dyn Write, told: &Explained) -> std::io::Result<()> {
    writeln!(
        out,
        "at this moment, {} packets ({} bytes) wait in all{}",
        told.queue_packets,
        told.queue_bytes.as_u64(),
        match told.due {
            None => String::new(),
            Some(Span::ZERO) => "; the next may leave at once".to_owned(),
            Some(due) => format!("; none may leave for {}: what may be sent is used up until then", millis(due)),
        }
    )?;
    if let Some(waiting) = &told.class_queue {
        let rate = told.class_rate.map_or(String::new(), |rate| format!("; it has {rate}"));
        writeln!(out, "    in its class {} packets ({} bytes){rate}", waiting.packets, waiting.bytes.as_u64())?;
    }
    if let Some(buckets) = &told.buckets {
        writeln!(
            out,
            "    the bucket of its class holds {} of {} bytes, that of all {} of {}",
            buckets.class_bytes, buckets.class_depth_bytes, buckets.all_bytes, buckets.all_depth_bytes
        )?;
    }
    if let Some(rate) = told.outlook {
        writeln!(out, "    as things stand its flow may send at {}", output::rate(rate))?;
    }
    let Some(seen) = &told.seen else { return writeln!(out, "its flow is not there, or flows are not counted") };
    writeln!(
        out,
        "its flow: {} packets came, {} left, {} wait ({} bytes); it sends at {}",
        seen.arrived_packets,
        seen.sent_packets,
        seen.queue_packets,
        seen.queue_bytes.as_u64(),
        output::rate(seen.rate)
    )?;
    if let Some(through) = &seen.through {
        writeln!(out, "    it is displaced, and leaves through class {through}")?;
    }
    if let Some(minimum) = seen.minimum {
        let state = if seen.granted { "is promised" } else { "is wanted and cannot be promised yet" };
        writeln!(out, "    {minimum} {state}")?;
    }
    writeln!(
        out,
        "    of its last packets half waited at most {}, 99 of 100 {}",
        millis(seen.wait_p50),
        millis(seen.wait_p99)
    )?;
    for drops in &seen.dropped {
        let known = tidegate_core::DropReason::ALL.into_iter().find(|reason| reason.name() == drops.reason);
        writeln!(out, "    {} were dropped: {}", drops.packets, known.map_or(drops.reason.clone(), because))?;
    }
    Ok(())
}

fn of_file(args: &Args, file: &Path) -> Result<Explanation, Failure> {
    let failed = |error: NotExplained| {
        let text = format!("{}: {error}", file.display());
        match error {
            NotExplained::Source(_) | NotExplained::Recording(_) | NotExplained::Build(_) => Failure::Usage(text),
            _ => Failure::Failed(text),
        }
    };
    let recording = |error| failed(NotExplained::Recording(error));
    configurations::input_once(file, args.with.iter())?;
    match look(file)? {
        Kind::Capture(whole) => {
            let Some(packet) = args.packet else {
                return Err(Failure::Usage("name a packet of the capture by --packet N".into()));
            };
            let (config, settings) = configuration(args)?;
            let wrong = |error: SourceError| failed(NotExplained::Source(error));
            let mut source = Source::capture(whole, Choice::default()).map_err(wrong)?;
            explain::packet(&mut source, packet, &config, &settings).map_err(failed)
        }
        Kind::Recording(whole) => {
            if args.with.is_some() {
                return Err(Failure::Usage(
                    "a recording is explained with its own configuration; for another, write its departures by \
                     `tidegate replay --departures` and explain those"
                        .into(),
                ));
            }
            let mut reader = Reader::with_parts(whole, next_part(file)).map_err(recording)?;
            let (engine, number) = match (args.packet, args.event) {
                (Some(packet), _) => (1, packet - 1),
                (None, Some(_)) if file.as_os_str() == "-" => {
                    return Err(Failure::Usage(
                        "a recording is read twice to find a record; give a file, not standard input".into(),
                    ));
                }
                (None, Some(event)) => {
                    let found = explain::packet_of_record(&mut reader, event).map_err(failed)?;
                    let Kind::Recording(whole) = look(file)? else {
                        return Err(Failure::Failed(format!("{} changes while it is read", file.display())));
                    };
                    reader = Reader::with_parts(whole, next_part(file)).map_err(recording)?;
                    found
                }
                (None, None) => {
                    return Err(Failure::Usage("name a packet by --packet N, or a record by --event N".into()));
                }
            };
            let mut told = explain::arrival(&mut reader, engine, number).map_err(failed)?;
            // As it is named on the command line.
            told.packet = number + 1;
            Ok(told)
        }
    }
}

fn print_belongs(out: &mut dyn Write, belongs: &Belongs) -> std::io::Result<()> {
    for rule in &belongs.rules {
        let verdict = if rule.matches() { "matches" } else { "does not match" };
        writeln!(out, "rule {} (class {}) {verdict}", rule.number, rule.class)?;
        if rule.conditions.is_empty() {
            writeln!(out, "    it asks for nothing")?;
        }
        for condition in &rule.conditions {
            let word = if condition.holds { "yes" } else { "no" };
            writeln!(out, "    {word:<3} {} is {}; wanted: {}", condition.key, condition.has, condition.wanted)?;
        }
    }
    match belongs.by_default {
        true if belongs.rules.is_empty() => writeln!(out, "class {}: there are no rules", belongs.class)?,
        true => writeln!(out, "class {}: no rule matches, and it is the default", belongs.class)?,
        false => writeln!(out, "class {}", belongs.class)?,
    }
    writeln!(out, "flow {:016x}", belongs.flow)
}

/// A packet in one line.
fn packet_line(seen: &PacketMeta) -> String {
    let fields = &seen.fields;
    let end = |address: Option<IpAddr>, port: Option<u16>| match (address, port) {
        (None, _) => "?".to_owned(),
        (Some(address), None) => address.to_string(),
        (Some(IpAddr::V6(address)), Some(port)) => format!("[{address}]:{port}"),
        (Some(address), Some(port)) => format!("{address}:{port}"),
    };
    if fields.hosts == Hosts::Unknown {
        return format!("not IP, or its headers cannot be read; {} bytes", seen.length);
    }
    let protocol = fields.protocol.map_or("?".into(), |number| Protocol(number).to_string());
    let fragment = match fields.fragment {
        Some(fragment) => format!(", fragment {} at {}", fragment.id, fragment.offset),
        None => String::new(),
    };
    format!(
        "{} > {} {protocol}, dscp {}, {} bytes{fragment}",
        end(fields.hosts.source(), fields.source_port),
        end(fields.hosts.destination(), fields.destination_port),
        dscp_name(fields.dscp),
        seen.length
    )
}

fn seconds(span: Span) -> String {
    format!("{:.9} s", span.as_nanos() as f64 / 1e9)
}

fn millis(span: Span) -> String {
    format!("{:.3} ms", span.as_nanos() as f64 / 1e6)
}

/// What a bucket holds, in whole bytes; below zero it is in debt.
fn bytes_of(credit: Credit) -> i64 {
    i64::try_from(credit.as_raw() / 8_000_000_000).unwrap_or(i64::MAX)
}

fn print_explanation(out: &mut dyn Write, told: &Explanation) -> std::io::Result<()> {
    writeln!(out, "packet {} at {}: {}", told.packet, seconds(told.time), packet_line(&told.seen))?;
    print_belongs(out, &told.belongs)?;
    let stood = &told.stood;
    writeln!(out, "when it came, {} packets ({} bytes) waited in all", stood.packets, stood.bytes.as_u64())?;
    if let Some(class) = &stood.class {
        writeln!(
            out,
            "    in its class {} packets ({} bytes), of {} flows; it has {}, {} of it not promised",
            class.backlog.packets,
            class.backlog.bytes.as_u64(),
            class.flows,
            class.rate,
            class.unpromised
        )?;
    }
    if let Some(levels) = &stood.levels {
        writeln!(
            out,
            "    the bucket of its class held {} of {} bytes, that of all {} of {}",
            bytes_of(levels.class),
            levels.class_depth.as_u64(),
            bytes_of(levels.all),
            levels.all_depth.as_u64()
        )?;
    }
    match &stood.flow {
        Some(flow) => writeln!(
            out,
            "    of its flow {} packets ({} bytes) waited; its rate was {}{}",
            flow.backlog.packets,
            flow.backlog.bytes.as_u64(),
            output::rate(flow.rate),
            match (flow.minimum.is_zero(), flow.granted) {
                (true, _) => String::new(),
                (false, true) => format!(", of which {} is promised", flow.minimum),
                (false, false) => format!("; {} is wanted and cannot be promised yet", flow.minimum),
            }
        )?,
        None if stood.class.is_some() => writeln!(out, "    its flow was new")?,
        None => {}
    }
    match &told.end {
        End::WentBack => writeln!(out, "it went back to be cut; its segments follow as packets of their own"),
        End::Unknown => writeln!(out, "it waits when the file ends"),
        End::Cut(segments, None) => writeln!(out, "it was cut into {segments} segments, which wait when the file ends"),
        End::Cut(segments, Some(departure)) => {
            writeln!(out, "it was cut into {segments} segments; of the last of them:")?;
            print_departure(out, told, departure, None)
        }
        End::Left { departure, behind } => print_departure(out, told, departure, Some(behind)),
    }
}

fn print_departure(
    out: &mut dyn Write,
    told: &Explanation,
    departure: &Departure,
    behind: Option<&[u64; 3]>,
) -> std::io::Result<()> {
    let at = seconds(departure.time.since(told.start));
    let held = &departure.held;
    writeln!(out, "it was {} when it left the meters", colour_name(held.colour))?;
    if held.segments > 1 {
        writeln!(out, "it stands for {} packets and {} bytes on the link", held.segments, held.size.as_u64())?;
    }
    match departure.fate {
        Disposition::Dropped(reason) if departure.waited == Span::ZERO => {
            writeln!(out, "dropped as it came: {}", because(reason))?;
        }
        Disposition::Dropped(reason) => {
            writeln!(out, "dropped at {at}, after {}: {}", millis(departure.waited), because(reason))?;
        }
        Disposition::Sent(change) => {
            if departure.waited == Span::ZERO {
                writeln!(out, "it left at once")?;
            } else {
                writeln!(out, "it waited {} and left at {at}", millis(departure.waited))?;
                if let Some([flow, class, others]) = behind {
                    writeln!(
                        out,
                        "    in between left {flow} of its flow, {class} others of its class, {others} of other classes"
                    )?;
                }
                if let Some(due) = told.due
                    && due > told.time
                {
                    writeln!(
                        out,
                        "    nothing could leave before {}: what is sent was used up until then",
                        seconds(due)
                    )?;
                }
            }
            if held.left_by != held.class {
                let by = told.classes.get(held.left_by.0 as usize).map_or("?", String::as_str);
                writeln!(out, "    through class {by}, to which its flow is displaced")?;
            }
            if let Some(dscp) = change.dscp {
                writeln!(out, "    its code point was changed to {}", dscp_name(dscp))?;
            }
            if change.congestion {
                writeln!(out, "    congestion was marked on it")?;
            }
        }
    }
    Ok(())
}

/// A reason for a drop in words.
fn because(reason: tidegate_core::DropReason) -> String {
    use tidegate_core::DropReason;
    let words = match reason {
        DropReason::QueueLimit => "the queue was full",
        DropReason::FlowLimit => "the queue of its flow was full, or had more than its part of the buffer",
        DropReason::ClassLimit => "the queue of its class was full",
        DropReason::LargerThanBurst => "it is larger than the burst that it must fit into",
        DropReason::Early => "the queue management dropped it early, to keep the queue short",
        DropReason::Forced => "the average was beyond the hard limit of the queue management",
        DropReason::TooOld => "it had waited longer than is allowed",
        DropReason::Policed => "it exceeded what was agreed",
        DropReason::AckFiltered => "a later acknowledgement says the same",
        DropReason::NoClass => "no class takes it",
        DropReason::Flushed => "the discipline was replaced",
        _ => "",
    };
    format!("{words} ({})", reason.name())
}

fn belongs_json(belongs: &Belongs) -> Value {
    let rules: Vec<_> = belongs
        .rules
        .iter()
        .map(|rule| {
            let conditions: Vec<_> = rule
                .conditions
                .iter()
                .map(|c| json!({ "key": c.key, "wanted": c.wanted, "has": c.has, "holds": c.holds }))
                .collect();
            json!({ "rule": rule.number, "class": rule.class, "matches": rule.matches(), "conditions": conditions })
        })
        .collect();
    json!({
        "class": belongs.class,
        "by_default": belongs.by_default,
        "flow": format!("{:016x}", belongs.flow),
        "rules": rules,
    })
}

fn explanation_json(told: &Explanation) -> Value {
    let stood = &told.stood;
    let class = stood.class.as_ref().map(|class| {
        json!({
            "packets": class.backlog.packets,
            "bytes": class.backlog.bytes.as_u64(),
            "flows": class.flows,
            "rate_bps": class.rate.as_bps(),
            "unpromised_bps": class.unpromised.as_bps(),
        })
    });
    let flow = stood.flow.as_ref().map(|flow| {
        json!({
            "packets": flow.backlog.packets,
            "bytes": flow.backlog.bytes.as_u64(),
            "rate_bps": flow.rate.as_bps(),
            "minimum_bps": flow.minimum.as_bps(),
            "granted": flow.granted,
        })
    });
    let buckets = stood.levels.as_ref().map(|levels| {
        json!({
            "class_bytes": bytes_of(levels.class),
            "class_depth_bytes": levels.class_depth.as_u64(),
            "all_bytes": bytes_of(levels.all),
            "all_depth_bytes": levels.all_depth.as_u64(),
        })
    });
    let left = |departure: &Departure| {
        let (how, reason, change) = match departure.fate {
            Disposition::Sent(change) => ("passed", None, Some(change)),
            Disposition::Dropped(reason) => ("dropped", Some(reason.name()), None),
        };
        json!({
            "how": how,
            "reason": reason,
            "at_ns": departure.time.since(told.start).as_nanos(),
            "waited_ns": departure.waited.as_nanos(),
            "colour": colour_name(departure.held.colour),
            "through": told.classes.get(departure.held.left_by.0 as usize),
            "dscp": change.and_then(|change| change.dscp).map(dscp_name),
            "marked": change.is_some_and(|change| change.congestion),
        })
    };
    let end = match &told.end {
        End::Left { departure, behind } => {
            let mut end = left(departure);
            end["behind_packets"] = json!({ "flow": behind[0], "class": behind[1], "others": behind[2] });
            end
        }
        End::Cut(segments, last) => {
            json!({ "how": "cut", "segments": segments, "last": last.as_deref().map(left) })
        }
        End::WentBack => json!({ "how": "went-back" }),
        End::Unknown => json!({ "how": "unknown" }),
    };
    json!({
        "packet": told.packet,
        "at_ns": told.time.as_nanos(),
        "is": packet_line(&told.seen),
        "belongs": belongs_json(&told.belongs),
        "waiting_packets": stood.packets,
        "waiting_bytes": stood.bytes.as_u64(),
        "class": class,
        "buckets": buckets,
        "flow": flow,
        "due_ns": told.due.map(|due| due.as_nanos()),
        "end": end,
    })
}
