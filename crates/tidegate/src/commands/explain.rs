//! `tidegate explain`: why a packet was classified, queued or dropped as it was.

mod live;
mod names;
mod output;
mod rate;
mod simulated;

use std::collections::BTreeMap;
use std::io::Write;
use std::net::IpAddr;
use std::path::{Path, PathBuf};

use tidegate_config::Scalar;
use tidegate_config::shaper::Config;
use tidegate_config::values::{Mac, MessageType, Protocol, TcpFlags, WallStart, WeekMinute};
use tidegate_core::Dscp;
use tidegate_core::classify::{Fields, Hosts, IcmpType, Signal, Traits, Version};
use tidegate_replay::explain::{self, Explanation, NotExplained};
use tidegate_replay::recording::Reader;
use tidegate_replay::run::{Run, Settings};
use tidegate_replay::source::{Choice, Kind, Source, SourceError};
use tidegate_units::Instant;

use names::End;
use output::{print_belongs, print_explanation};

use super::check;
use super::connect::Connect;
use super::replay::{configurations, look, next_part};
use crate::Failure;

/// Explain the classification and the fate of a packet: the matching rule and the others, the class, and the queues
///
/// A packet of a capture: `tidegate explain FILE --packet N --with CONFIG`. A packet of a recording of `tidegate run --record`,
/// with the configuration of the recording: `tidegate explain FILE --packet N`, or `--event N` for the packet of a record. A
/// trace of `tidegate simulate --trace`, by either of its files: `tidegate explain trace.pcapng`, with `--packet N` for the way
/// of one packet. A packet that you describe: `tidegate explain --with CONFIG --source ADDRESS --destination ADDRESS --protocol
/// udp ...`. With `--live` instead of a configuration, the running shaper explains it, with its present queues; what you leave
/// out is then taken from the fastest flow with the given addresses and ports: `tidegate explain --live --source 192.168.1.7`.
/// `tidegate explain --rate` explains a rate that follows the line, `tidegate explain FILE --rate` that of a recording.
#[derive(Debug, Clone, clap::Args)]
pub struct Args {
    /// The capture or recording
    #[arg(required_unless_present_any = ["live", "rate", "source", "destination", "protocol", "source_port", "destination_port", "dscp"])]
    file: Option<PathBuf>,
    /// The packet of the capture, or of the recording, from 1; of trace.parquet, its number in the column `packet`
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..), requires = "file")]
    packet: Option<u64>,
    /// The record of a recording, from 0
    #[arg(long, value_name = "N", requires = "file", conflicts_with = "packet")]
    event: Option<u64>,
    /// The configuration: a shaper file, or a kind of discipline and the rate of the link behind it
    #[arg(long, value_name = "CONFIG")]
    with: Option<String>,
    /// Why the rate of the running shaper, or at the end of a recording, is what it is, where it follows the line
    #[arg(long, conflicts_with_all = ["packet", "event", "with", "live"])]
    rate: bool,
    /// Query the running shaper
    #[arg(long, conflicts_with_all = ["file", "with"])]
    live: bool,
    #[command(flatten)]
    connect: Connect,
    /// The direction, up or down, where both are shaped
    #[arg(long, value_name = "NAME", conflicts_with = "rate")]
    direction: Option<String>,
    /// Another time than now, by the clock of this host, for rules with `when`: "sat 07:00", "07:00" for today, or
    /// "2026-11-30 07:30". Quotas are as they are now
    #[arg(long, value_name = "TIME", conflicts_with = "rate", value_parser = moment)]
    time: Option<WeekMinute>,
    /// The seed of random streams and flow keys; a recording has its own
    #[arg(long, value_name = "N", default_value_t = 1)]
    seed: u64,
    /// The source address, or the name of a host in leases or /etc/hosts, with --live one that `tidegate top` shows, or the
    /// hardware address of a device in the table of neighbours
    #[arg(long, value_name = "ADDRESS", conflicts_with = "file")]
    source: Option<End>,
    /// The destination address, or such a name or device
    #[arg(long, value_name = "ADDRESS", conflicts_with = "file")]
    destination: Option<End>,
    /// The protocol: a name or a number
    #[arg(long, value_name = "NAME", conflicts_with = "file", value_parser = scalar::<Protocol>)]
    protocol: Option<Protocol>,
    /// The source port
    #[arg(long, value_name = "PORT", conflicts_with = "file")]
    source_port: Option<u16>,
    /// The destination port
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
    /// The interface by which it came in, if it is forwarded
    #[arg(long, value_name = "INTERFACE", conflicts_with_all = ["file", "uid"])]
    from_interface: Option<String>,
    /// The length in bytes, with the IP header
    #[arg(long, value_name = "BYTES", conflicts_with = "file")]
    length: Option<u16>,
    /// The flags of TCP that are set, for example "syn ack"
    #[arg(long, value_name = "FLAGS", conflicts_with = "file", value_parser = scalar::<TcpFlags>)]
    tcp_flags: Option<TcpFlags>,
    /// The packet is a TCP acknowledgement without data
    #[arg(long, conflicts_with_all = ["file", "tcp_flags"])]
    pure_ack: bool,
    /// The type of an ICMP message: a name or a number
    #[arg(long, value_name = "NAME", conflicts_with_all = ["file", "tcp_flags", "pure_ack"], value_parser = scalar::<MessageType>)]
    icmp_type: Option<MessageType>,
    /// Print it as JSON
    #[arg(long)]
    json: bool,
    /// The addresses that stand for devices which the table of neighbours does not have.
    #[arg(skip)]
    assumed: Vec<(Mac, IpAddr)>,
}

impl Args {
    /// The source address; none for a name that was not resolved.
    fn source(&self) -> Option<IpAddr> {
        self.source.as_ref().and_then(End::address)
    }
    /// The destination address; none for a name that was not resolved.
    fn destination(&self) -> Option<IpAddr> {
        self.destination.as_ref().and_then(End::address)
    }
    /// The minute of the week at which rules are compared.
    fn minute(&self) -> WeekMinute {
        self.time.unwrap_or_else(tidegate_live::timing::week_minute)
    }
    /// The flags of a TCP segment that is described.
    fn flags(&self) -> Option<u8> {
        const ACK: u8 = 0x10;
        self.tcp_flags.map(|flags| flags.set).or(self.pure_ack.then_some(ACK))
    }
    /// The type of an ICMP message that is described.
    fn kind(&self) -> Option<IcmpType> {
        let version = if self.source().is_some_and(|source| source.is_ipv6()) { Version::V6 } else { Version::V4 };
        self.icmp_type.and_then(|kind| kind.types().find(|kind| kind.version == version))
    }
    /// The protocol, which flags and types imply.
    fn protocol(&self) -> Option<u8> {
        let icmp = self.kind().map(|kind| if kind.version == Version::V4 { 1 } else { 58 });
        self.protocol.map(|protocol| protocol.0).or(self.flags().map(|_| 6)).or(icmp)
    }
}

/// The minute of the week of `--time`: of a day of the week, of today, or of a date.
fn moment(text: &str) -> Result<WeekMinute, String> {
    if let Ok(date) = WallStart::from_text(text) {
        return Ok(date.after(0).0);
    }
    let today = tidegate_live::timing::week_minute();
    WeekMinute::parse(text, today).ok_or_else(|| {
        format!("`{text}` is no time; write \"sat 07:00\", \"07:00\" for today, or \"2026-11-30 07:30\"")
    })
}

/// A value with the syntax of a shaper file.
fn scalar<T: Scalar>(text: &str) -> Result<T, String> {
    T::from_text(text).map_err(|wrong| format!("{}; {}", wrong.message, wrong.help))
}

/// Runs the command.
pub fn run(args: &Args) -> Result<(), Failure> {
    let mut out = crate::output::stdout();
    if args.time.is_some() && args.with.is_none() && !args.live {
        return Err(Failure::Usage("--time is for rules of a configuration: give it --with FILE or --live".into()));
    }
    match &args.file {
        None if args.rate => rate::explain(&args.connect, args.json, &mut out)?,
        None if args.live => live::explain(args, &mut out)?,
        None => {
            let args = &names::resolved(args, Vec::new())?;
            let (config, run, names) = engine(args)?;
            let belongs = explain::belongs(&run, &config, &names, &fields(args)?);
            if args.time.is_some() {
                names::warn_of_time(&config);
            }
            if args.json {
                writeln!(out, "{:#}", belongs.json())?;
            } else {
                print_belongs(&mut out, &belongs)?;
            }
        }
        Some(file) if args.rate => rate::of_recording(file, args.json, &mut out)?,
        Some(file) if args.with.is_none() && args.event.is_none() && is_trace(args, file, &mut out)? => {}
        Some(file) => {
            let explained = of_file(args, file)?;
            if args.json {
                writeln!(out, "{:#}", explained.json())?;
            } else {
                print_explanation(&mut out, &explained)?;
            }
        }
    }
    out.flush()?;
    Ok(())
}

/// Whether a file is a trace of a simulation, which is then explained. Standard input is not read twice.
fn is_trace(args: &Args, file: &Path, out: &mut dyn Write) -> Result<bool, Failure> {
    if file.as_os_str() == "-" {
        return Ok(false);
    }
    let wrong = |failure: Failure| match failure {
        Failure::Usage(text) => Failure::Usage(format!("{}: {text}", file.display())),
        Failure::Failed(text) => Failure::Failed(format!("{}: {text}", file.display())),
        other => other,
    };
    let trace = match simulated::table(file) {
        Some(bytes) => Some(simulated::Trace::of_table(bytes).map_err(wrong)?),
        None => match look(file)? {
            Kind::Capture(whole) => simulated::Trace::read(whole).map_err(wrong)?,
            Kind::Recording(_) => None,
        },
    };
    let Some(trace) = trace else { return Ok(false) };
    if args.json {
        writeln!(out, "{:#}", trace.json(args.packet)?)?;
    } else {
        trace.print(out, args.packet)?;
    }
    Ok(true)
}

/// Reads the shaper file at `path`, which may be for both directions: the one called `direction`.
fn of_direction(path: &Path, direction: Option<&str>) -> Result<Config, Failure> {
    let mut all = check::load_all(&check::open(path)?)?;
    let wrong = |why: &str| {
        Failure::Usage(format!("{}: {why}; choose one by --direction up or --direction down", path.display()))
    };
    match (direction, all.len()) {
        (None, 1) => Ok(all.remove(0)),
        (None, _) => Err(wrong("the file is for both directions")),
        (Some(direction), _) => all
            .into_iter()
            .find(|config| config.interface.direction.table() == direction)
            .ok_or_else(|| wrong(&format!("it has no direction `{direction}`"))),
    }
}

/// The configuration specified by `--with`, its settings, and an engine for it.
fn configuration(args: &Args) -> Result<(Config, Settings), Failure> {
    let Some(name) = &args.with else {
        return Err(Failure::Usage("choose a configuration with --with, because a capture contains none".into()));
    };
    let (config, link) = configurations::one(name, |path| of_direction(path, args.direction.as_deref()))?;
    let mut settings = Settings { link, ..Settings::seeded(args.seed) };
    settings.setup.names.off = config.rules_off(args.minute());
    // A packet that is described here came in by no interface.
    settings.setup.names.interfaces = Some(BTreeMap::new());
    settings.setup.names.macs = tidegate_live::shaping::devices(&config).unwrap_or_default();
    for (mac, address) in &args.assumed {
        settings.setup.names.macs.entry(*mac).or_default().insert(*address);
    }
    settings.setup.names.named = names::without_running(name, &config);
    let invented = settings.invent_names(&config);
    if !invented.is_empty() {
        message!(
            "tidegate: {name}: a capture does not record which program sent a packet, so nothing matches {}",
            invented.join(", ")
        );
    }
    Ok((config, settings))
}

fn engine(args: &Args) -> Result<(Config, Run, tidegate_engine::Names), Failure> {
    let (config, settings) = configuration(args)?;
    let run = Run::new(&config, &settings, Instant::ZERO).map_err(|error| Failure::Usage(error.to_string()))?;
    Ok((config, run, settings.setup.names))
}

/// The packet specified by the options.
fn fields(args: &Args) -> Result<Fields, Failure> {
    let hosts = match (args.source(), args.destination()) {
        (Some(IpAddr::V4(source)), Some(IpAddr::V4(destination))) => Hosts::V4 { source, destination },
        (Some(IpAddr::V6(source)), Some(IpAddr::V6(destination))) => Hosts::V6 { source, destination },
        // Rules do not examine packets that are not IP: a protocol or a port would have no effect.
        (None, None)
            if args.protocol.is_some()
                || args.dscp.is_some()
                || args.source_port.is_some()
                || args.destination_port.is_some()
                || args.flags().is_some()
                || args.icmp_type.is_some() =>
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
    let signal = match (args.flags(), args.kind()) {
        (Some(flags), _) => Signal::Tcp { flags, pure_ack: args.pure_ack },
        (None, Some(kind)) => Signal::Icmp(kind),
        (None, None) => Signal::Unknown,
    };
    Ok(Fields {
        hosts,
        dscp: args.dscp.unwrap_or_default(),
        protocol: args.protocol(),
        source_port: args.source_port,
        destination_port: args.destination_port,
        mark: args.mark.unwrap_or(0),
        uid: args.uid,
        cgroup: args.from_interface.as_deref().map(tidegate_engine::interface_number),
        traits: Traits { length: args.length.unwrap_or(0), signal },
        ..Fields::default()
    })
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
                return Err(Failure::Usage("choose a packet of the capture with --packet N".into()));
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
                        "a recording is read twice to find a record, so it cannot come from standard input; give a file".into(),
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
                    return Err(Failure::Usage("choose a packet with --packet N, or a record with --event N".into()));
                }
            };
            let mut explained = explain::arrival(&mut reader, engine, number).map_err(failed)?;
            // The number on the command line.
            explained.packet = number + 1;
            Ok(explained)
        }
    }
}
