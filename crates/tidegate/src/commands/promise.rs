//! `tidegate promise`: grants to some flows beside the configuration, for as long as this or a program runs, or for a lease.

mod program;

use std::ffi::OsString;
use std::io::Write;
use std::net::IpAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use clap::ValueEnum;
use tidegate_control::calls::{Displacement, PromiseCall, PromiseState, Protocol, Target};
use tidegate_control::{Client, EventKind, Pushed};
use tidegate_units::{Rate, Span};

use crate::Failure;
use crate::commands::connect::Connect;
use crate::commands::events;
use crate::commands::setup::service::systemctl;
use crate::output::rate;

/// Drops are reported no more often: a flow that sends too much would cause a line for each packet.
const DROPS: Duration = Duration::from_secs(1);

/// Promise some flows a rate, prefer them, or have them moved when they get too little
///
/// The promise is in force at once, for present and future flows, until this command ends; with --for it
/// outlives the command and ends with its lease. Changes are printed as they happen. Without --min, --prefer or --below, and
/// without a selection of flows, the present promises are listed.
///
/// After `--`, a program is run under the promise, which is for what that process and its descendants send and ends with
/// it. A refused promise is reported, and the program does not run. Signals are passed on to it, and its exit code is passed
/// through: 128 plus the number of the signal if it was killed, 127 if there is no such program, 126 if it may not be
/// run, 125 if the promise was refused.
#[derive(Debug, clap::Args)]
#[command(override_usage = "tidegate promise [OPTIONS]\n       tidegate promise [OPTIONS] -- COMMAND [ARGUMENTS]...")]
pub struct Args {
    #[command(flatten)]
    connect: Connect,
    /// Flows from or to this port
    #[arg(long, value_name = "NUMBER", help_heading = "Which flows")]
    port: Option<u16>,
    /// Flows of this protocol
    #[arg(long, value_name = "NAME", help_heading = "Which flows")]
    protocol: Option<Transport>,
    /// Flows from this address, or address and port: 192.0.2.1:5004
    #[arg(long, value_name = "ADDRESS[:PORT]", value_parser = end, help_heading = "Which flows")]
    source: Option<End>,
    /// Flows to this address, or address and port
    #[arg(long, value_name = "ADDRESS[:PORT]", value_parser = end, help_heading = "Which flows")]
    destination: Option<End>,
    /// Flows of sockets of this user
    #[arg(long, value_name = "NUMBER", help_heading = "Which flows")]
    uid: Option<u32>,
    /// Flows of sockets of processes in this control group
    #[arg(long, value_name = "PATH", help_heading = "Which flows")]
    cgroup: Option<String>,
    /// Flows of sockets of this systemd service, which must be running
    #[arg(long, value_name = "NAME", conflicts_with_all = ["cgroup", "pid"], help_heading = "Which flows")]
    service: Option<String>,
    /// Flows of sockets of this process and its descendants
    #[arg(long, value_name = "NUMBER", help_heading = "Which flows")]
    pid: Option<u32>,
    /// Flows in this direction: up or down
    #[arg(long, value_name = "NAME", help_heading = "Which flows")]
    direction: Option<String>,
    /// Grant each of them at least this rate
    #[arg(long, value_name = "RATE", allow_negative_numbers = true, help_heading = "What")]
    min: Option<Rate>,
    /// Hold the minimum for this many flows
    #[arg(long, value_name = "NUMBER", default_value_t = 1, help_heading = "What")]
    flows: u32,
    /// Raise their shares by this many steps
    #[arg(long, value_name = "STEPS", default_value_t = 0, allow_negative_numbers = true, help_heading = "What")]
    prefer: u32,
    /// Move them to CLASS when they are granted less than RATE, by default an eighth more than --min
    #[arg(long, value_name = "[RATE:]CLASS", help_heading = "What")]
    below: Option<String>,
    /// Hold the rate in this class, not in the one where such flows are, or to which the rules lead
    #[arg(long, value_name = "NAME", help_heading = "What")]
    class: Option<String>,
    /// Wait until others release the rate, if it is not free
    #[arg(long, help_heading = "What")]
    wait: bool,
    /// Keep the promise for this time, also after this command has ended
    #[arg(long = "for", value_name = "TIME", help_heading = "What")]
    lease: Option<Span>,
    /// End the promise of this number
    #[arg(long, value_name = "NUMBER", conflicts_with_all = [
        "port", "protocol", "source", "destination", "uid", "cgroup", "service", "pid", "direction", "min", "prefer", "below",
        "class", "wait", "lease", "json",
    ])]
    release: Option<u64>,
    /// Print promises and their changes as JSON
    #[arg(long)]
    json: bool,
    /// Run the program also if the promise is refused, or no shaper answers
    #[arg(long, requires = "program")]
    anyway: bool,
    /// The program and its arguments
    #[arg(last = true, value_name = "COMMAND", conflicts_with_all = [
        "pid", "cgroup", "service", "lease", "release", "json",
    ])]
    program: Vec<OsString>,
}

/// A transport protocol with ports.
#[derive(Clone, Copy, Debug, ValueEnum)]
enum Transport {
    /// TCP
    Tcp,
    /// UDP
    Udp,
}

/// An address, with a port or without.
#[derive(Clone, Copy, Debug)]
struct End(Option<IpAddr>, Option<u16>);

fn end(text: &str) -> Result<End, String> {
    if let Ok(socket) = text.parse::<std::net::SocketAddr>() {
        return Ok(End(Some(socket.ip()), Some(socket.port())));
    }
    if let Some(port) = text.strip_prefix(':').and_then(|port| port.parse().ok()) {
        return Ok(End(None, Some(port)));
    }
    text.parse().map(|address| End(Some(address), None)).map_err(|_| {
        "write an address, an address and a port such as 192.0.2.1:5004 or [2001:db8::1]:5004, or a port such as :5004"
            .into()
    })
}

/// Runs the command.
pub fn run(args: &Args) -> Result<(), Failure> {
    if !args.program.is_empty() {
        return program::run(args, call(args)?);
    }
    let mut client = args.connect.open()?;
    if let Some(number) = args.release {
        client.release(number)?;
        message!("tidegate: promise {number} has ended");
        return Ok(());
    }
    let (call, nothing) = (call(args)?, args.min.is_none() && args.prefer == 0 && args.below.is_none());
    if nothing && call.target.is_empty() {
        return list(args, &client.promises()?);
    }
    let detached = call.detached;
    let promised = client.promise(&call)?;
    if args.json {
        let text = serde_json::to_string(&promised.state).map_err(|error| Failure::Failed(error.to_string()))?;
        writeln!(crate::output::stdout(), "{text}")?;
    } else {
        writeln!(crate::output::stdout(), "{}{}", told(&promised.state), guess(args, &promised.state))?;
    }
    if detached {
        return Ok(());
    }
    message!("tidegate: promised while this command runs");
    stay(args, promised.promise, &mut client)
}

fn call(args: &Args) -> Result<PromiseCall, Failure> {
    let target = Target {
        port: args.port,
        protocol: args.protocol.map(|protocol| match protocol {
            Transport::Tcp => Protocol::TCP,
            Transport::Udp => Protocol::UDP,
        }),
        source: args.source.and_then(|end| end.0),
        source_port: args.source.and_then(|end| end.1),
        destination: args.destination.and_then(|end| end.0),
        destination_port: args.destination.and_then(|end| end.1),
        uid: args.uid,
        cgroup: args.service.as_deref().map_or_else(|| Ok(args.cgroup.clone()), |name| cgroup_of(name).map(Some))?,
        pid: args.pid,
    };
    let displace = args.below.as_deref().map(|text| displacement(text, args.min)).transpose()?;
    Ok(PromiseCall {
        target,
        direction: args.direction.clone(),
        class: args.class.clone(),
        minimum: args.min,
        flows: args.flows,
        prefer: args.prefer,
        displace,
        lease: args.lease,
        detached: args.lease.is_some(),
        wait: args.wait,
    })
}

/// The control group of a service, which exists while the service runs.
fn cgroup_of(service: &str) -> Result<String, Failure> {
    let group = systemctl(&["show", "--property=ControlGroup", "--value", "--", service]).map_err(Failure::Failed)?;
    if group.is_empty() {
        let text = format!("the service `{service}` does not run, so it has no flows yet: systemctl start {service}");
        return Err(Failure::Failed(text));
    }
    Ok(group)
}

/// `1mbit:besteffort`, or the class alone.
fn displacement(text: &str, minimum: Option<Rate>) -> Result<Displacement, Failure> {
    if let Some((rate, class)) = text.split_once(':')
        && let Ok(below) = rate.parse()
    {
        return Ok(Displacement { below, to: class.into() });
    }
    if text.parse::<Rate>().is_ok() {
        return Err(Failure::Usage(format!("--below {text} does not name the class; write --below {text}:CLASS")));
    }
    let Some(minimum) = minimum else {
        let help = format!("write for example --below 1mbit:{text}, or give --min");
        return Err(Failure::Usage(format!("--displace needs the rate below which flows go to `{text}`; {help}")));
    };
    Ok(Displacement { below: Rate::from_bps(minimum.as_bps() / 8 * 9), to: text.into() })
}

/// Waits for a signal; the promise ends with the connection.
fn stay(args: &Args, promise: u64, client: &mut Client) -> Result<(), Failure> {
    let stop = Arc::new(AtomicBool::new(false));
    for signal in [signal_hook::consts::SIGINT, signal_hook::consts::SIGTERM, signal_hook::consts::SIGHUP] {
        signal_hook::flag::register(signal, Arc::clone(&stop))?;
    }
    let mut told_of_drops: Option<Instant> = None;
    while !stop.load(Ordering::Relaxed) {
        let pushed = match client.next_push(Some(Duration::from_millis(100)))? {
            Some((_, pushed)) => pushed,
            None => continue,
        };
        let mut out = crate::output::stdout();
        match pushed {
            Pushed::Event(event) => {
                if args.json {
                    let line = serde_json::to_string(&event).map_err(|error| Failure::Failed(error.to_string()))?;
                    writeln!(out, "{line}")?;
                } else if event.kind != EventKind::Dropped {
                    writeln!(out, "{}", events::line(&event))?;
                } else if told_of_drops.is_none_or(|time| time.elapsed() > DROPS) {
                    // It carries how many there were so far.
                    told_of_drops = Some(Instant::now());
                    writeln!(out, "{}", events::line(&event))?;
                }
                if event.kind == EventKind::Waiting && !args.json {
                    let states = client.promises()?;
                    let obstacle = states.into_iter().find(|state| state.promise == promise);
                    if let Some(obstacle) = obstacle.and_then(|state| state.obstacle) {
                        writeln!(out, "it waits: {obstacle}")?;
                    }
                }
                if event.kind == EventKind::PromiseEnded {
                    return Err(Failure::Failed(format!("the promise ended: {}", event.text.unwrap_or_default())));
                }
            }
            Pushed::Lost(lost) => writeln!(out, "... {lost} events were lost")?,
        }
        out.flush()?;
    }
    Ok(())
}

/// A remark on the class of a promise without flows: it may not be that of its flows.
fn guess(args: &Args, state: &PromiseState) -> String {
    if state.flows > 0 || args.class.is_some() {
        return String::new();
    }
    format!(
        "; its flows may turn out to be in another class than {}, and have or lack their minimum there",
        state.class
    )
}

fn told(state: &PromiseState) -> String {
    let mut text = format!("promise {} in class {}", state.promise, state.class);
    if !state.minimum.is_zero() {
        text += &format!(": at least {} a flow", rate(state.minimum));
    }
    if state.prefer > 0 {
        text += &format!(", preferred by {} step{}", state.prefer, if state.prefer == 1 { "" } else { "s" });
    }
    text += &match state.flows {
        0 => "; no flow of it yet, or another promise has it".to_owned(),
        1 => format!("; one flow, granted {} now", rate(state.granted)),
        flows => format!("; {flows} flows, granted {} together now", rate(state.granted)),
    };
    if let Some(class) = &state.elsewhere {
        text += &format!("; flows of it are in class {class}");
    }
    if state.held > 0 {
        text += &format!("; held for {} to come", state.held);
    } else if state.flows == 0 && !state.minimum.is_zero() {
        text += "; nothing is held for it, and it waits for room";
    }
    if state.waiting > 0 {
        text += &format!("; {} of them wait{} for room", state.waiting, if state.waiting == 1 { "s" } else { "" });
    }
    if let Some(obstacle) = &state.obstacle {
        text += &format!(": {obstacle}");
    }
    if let Some(lease) = state.lease {
        text += &format!("; for {} s", lease.as_nanos().div_ceil(1_000_000_000));
    }
    text + &format!("; class {} has {} left to promise", state.class, rate(state.free))
}

fn list(args: &Args, promises: &[PromiseState]) -> Result<(), Failure> {
    let mut out = crate::output::stdout();
    if args.json {
        let text = serde_json::to_string_pretty(promises).map_err(|error| Failure::Failed(error.to_string()))?;
        writeln!(out, "{text}")?;
    } else if promises.is_empty() {
        writeln!(out, "nothing is promised; `tidegate promise --port 5004 --min 2mbit` promises something")?;
    } else {
        for state in promises {
            writeln!(out, "{}", told(state))?;
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_displacement_has_a_class_and_a_rate() {
        let of = |text, minimum| displacement(text, minimum).map(|found| (found.below.as_bps(), found.to));
        let said = |text, minimum| match of(text, minimum) {
            Err(Failure::Usage(said)) => said,
            other => panic!("{other:?}"),
        };
        let minimum = Some(Rate::from_mbit(2));
        assert_eq!(of("1mbit:rest", minimum).unwrap(), (1_000_000, "rest".into()));
        // An eighth above 2 Mbit/s.
        assert_eq!(of("rest", minimum).unwrap(), (2_250_000, "rest".into()));
        assert!(said("rest", None).contains("--below 1mbit:rest"));
        for minimum in [None, minimum] {
            assert!(said("3mbit", minimum).contains("--below 3mbit:CLASS"));
        }
    }
}
