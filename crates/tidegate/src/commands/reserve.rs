//! `tidegate reserve`: a class of its own for a flow, as long as this runs.

use std::io::Write;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use tidegate_control::calls::{ReservationList, Reserve, Reserved};
use tidegate_control::{Client, ClientError, Code};
use tidegate_units::{Bytes, Rate, Span};

use crate::Failure;
use crate::commands::connect::Connect;
use crate::output::{rate, wait};

/// Reserve rate for a flow where a CBQ shaper runs: a class of its own, kept as long as this command runs or for --for
///
/// The flow declares its traffic: no more than its bucket at once and its token rate on the average. It is admitted if
/// that fits, and then gets its rate whatever others send; the longest wait of its packets is printed. A refusal states
/// what is free.
#[derive(Debug, clap::Args)]
pub struct Args {
    #[command(flatten)]
    connect: Connect,
    /// The direction, where both are shaped
    #[arg(long, value_name = "NAME")]
    direction: Option<String>,
    /// List the reservations, and make none
    #[arg(long, conflicts_with_all = ["rate", "flow", "port"])]
    list: bool,
    /// Its name in `tidegate status`
    #[arg(long)]
    name: Option<String>,
    /// Token rate r
    #[arg(long, required_unless_present = "list")]
    rate: Option<Rate>,
    /// Bucket b: the most it sends at once (two of the largest packets if not given)
    #[arg(long, value_name = "SIZE")]
    bucket: Option<Bytes>,
    /// Peak rate p (that of the link if not given)
    #[arg(long, value_name = "RATE")]
    peak: Option<Rate>,
    /// Minimum policed unit m: smaller packets count as this (64B if not given)
    #[arg(long, value_name = "SIZE")]
    min_unit: Option<Bytes>,
    /// Largest packet M (that of the link if not given)
    #[arg(long, value_name = "SIZE")]
    max_packet: Option<Bytes>,
    /// Guaranteed service (RFC 2212): refused unless a bound on the delay can be given
    #[arg(long)]
    guaranteed: bool,
    /// The longest acceptable delay; the rate that this delay requires is reserved
    #[arg(long, value_name = "TIME")]
    delay: Option<Span>,
    /// Its packets: KEY=VALUE as in a rule of a shaper file, such as destination=10.0.0.2 or protocol=udp
    #[arg(long, value_name = "KEY=VALUE")]
    flow: Vec<String>,
    /// The destination port of its packets
    #[arg(long)]
    port: Option<u16>,
    /// Keep the reservation for this time, also after this command has ended
    #[arg(long = "for", value_name = "TIME")]
    lasts: Option<Span>,
    /// Print the reservation as JSON
    #[arg(long)]
    json: bool,
}

/// Runs the command.
pub fn run(args: &Args) -> Result<(), Failure> {
    let mut client = args.connect.open()?;
    let mut out = crate::output::stdout();
    if args.list {
        let list = client.reservations()?;
        if args.json {
            writeln!(out, "{}", json(&ReservationList { reservations: list })?)?;
        } else if list.is_empty() {
            writeln!(out, "nothing is reserved")?;
        } else {
            list.iter().try_for_each(|one| writeln!(out, "{}", told(one)))?;
        }
        return Ok(());
    }
    let call = call(args)?;
    let mut granted = client.reserve(&call)?;
    if args.json {
        writeln!(out, "{}", json(&granted)?)?;
    } else {
        writeln!(out, "{}", told(&granted))?;
    }
    out.flush()?;
    if args.lasts.is_some() {
        return Ok(());
    }
    let stop = Arc::new(AtomicBool::new(false));
    for signal in [signal_hook::consts::SIGINT, signal_hook::consts::SIGTERM, signal_hook::consts::SIGHUP] {
        signal_hook::flag::register(signal, Arc::clone(&stop))?;
    }
    message!("tidegate: reserved while this command runs");
    keep(&mut client, &call, &mut granted, &stop)
    // The reservation ends with the connection.
}

/// Refreshes it, and requests it again where it was lost, until it is time to stop.
fn keep(client: &mut Client, call: &Reserve, granted: &mut Reserved, stop: &AtomicBool) -> Result<(), Failure> {
    let third = |span: Span| Instant::now() + Duration::from_nanos(span.as_nanos() / 3);
    let mut next = third(granted.expires);
    while !stop.load(Ordering::Relaxed) {
        std::thread::sleep(Duration::from_millis(100).min(next.saturating_duration_since(Instant::now())));
        if Instant::now() < next {
            continue;
        }
        match client.refresh(granted.reservation) {
            Ok(refreshed) => next = third(refreshed.expires),
            // The data path is being started again; the daemon makes the reservation again then.
            Err(ClientError::Refused(refusal)) if refusal.code == Code::Failed => {
                next = Instant::now() + Duration::from_millis(500);
            }
            Err(ClientError::Refused(refusal)) => {
                message!("tidegate: {refusal}; requesting it again");
                *granted = client.reserve(call)?;
                next = third(granted.expires);
            }
            Err(error) => return Err(error.into()),
        }
    }
    Ok(())
}

fn call(args: &Args) -> Result<Reserve, Failure> {
    if args.flow.is_empty() && args.port.is_none() {
        let text = "the reservation does not say which packets it is for; give --port NUMBER, or --flow KEY=VALUE such as --flow protocol=udp";
        return Err(Failure::Usage(text.into()));
    }
    let mut matches = Vec::new();
    for flow in &args.flow {
        let Some((key, value)) = flow.split_once('=') else {
            return Err(Failure::Usage(format!("--flow {flow}: write KEY=VALUE, such as destination=10.0.0.2")));
        };
        matches.push((key.to_owned(), value.to_owned()));
    }
    matches.extend(args.port.map(|port| ("destination-port".to_owned(), port.to_string())));
    Ok(Reserve {
        direction: args.direction.clone(),
        name: args.name.clone(),
        matches,
        rate: args.rate.unwrap_or(Rate::ZERO),
        bucket: args.bucket,
        peak: args.peak,
        min_unit: args.min_unit,
        max_packet: args.max_packet,
        guaranteed: args.guaranteed,
        delay: args.delay,
        lasts: args.lasts,
    })
}

fn json(value: &impl serde::Serialize) -> Result<String, Failure> {
    serde_json::to_string_pretty(value).map_err(|error| Failure::Failed(error.to_string()))
}

fn told(granted: &Reserved) -> String {
    let bound = match granted.bound {
        Some(bound) => format!("no packet waits longer than {}", wait(bound)),
        None => "no bound on the delay".into(),
    };
    format!(
        "{}: {} for {}; {bound} while it keeps to its bucket; {} are free for others",
        granted.name,
        rate(granted.rate),
        granted.matches,
        rate(granted.free)
    )
}
