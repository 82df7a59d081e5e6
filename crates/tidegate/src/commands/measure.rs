//! `tidegate measure`: the rates of a line and its responsiveness under load, and the peer for it.

use std::io::Write;
use std::net::{SocketAddr, TcpListener};
use std::path::PathBuf;
use std::thread;
use std::time::Duration;

use tidegate_control::answer::Grade;
use tidegate_live::rules::Direction;
use tidegate_units::Span;

use crate::Failure;
use crate::measure::peer::Peer;
use crate::measure::responsiveness::{self, Responsiveness};
use crate::measure::serve::{self, Bounds};
use crate::measure::wire::Trust;

/// The time between two directions, in which queues become empty.
const PAUSE: Duration = Duration::from_secs(1);

/// Measure how responsive a line is under load, with a peer of your own or any web server
///
/// With `--responsiveness` each direction is loaded by up to 16 connections until the throughput is stable, and round trips are
/// timed meanwhile: on new connections (handshakes of TCP and TLS, a request), and on the loaded ones. The result is in round
/// trips a minute (RPM), by draft-ietf-ippm-responsiveness; more is better. A direction takes 20 seconds at the most. Run
/// `tidegate measure --serve` on a machine beyond the line for a peer; with any other server probes on loaded connections are left out.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// The peer: HOST:PORT, http://HOST[:PORT]/FILE or https://HOST[:PORT]/FILE
    #[arg(value_name = "PEER", required_unless_present = "serve")]
    peer: Option<String>,
    /// Measure round trips a minute under load, down and up
    #[arg(long, required_unless_present = "serve")]
    responsiveness: bool,
    /// Measure by this interface: packets to the peer must leave by it
    #[arg(long, short, value_name = "NAME")]
    interface: Option<String>,
    /// The certificates (PEM) of the authorities to trust for https, instead of those of the system
    #[arg(long, value_name = "FILE")]
    ca: Option<PathBuf>,
    /// Print the results as JSON
    #[arg(long, conflicts_with = "serve")]
    json: bool,
    /// Be the peer, at this address and port. Everybody who reaches it can use it: 128 connections, of which 64 of one
    /// client, 45 s each, and 100 GB together. It serves meaningless bytes and keeps nothing
    #[arg(
        long,
        value_name = "ADDRESS:PORT",
        num_args = 0..=1,
        default_missing_value = "[::]:9436",
        conflicts_with_all = ["peer", "responsiveness", "interface", "ca"]
    )]
    serve: Option<SocketAddr>,
    /// How long to be the peer
    #[arg(long = "for", value_name = "TIME", default_value = "1h", requires = "serve")]
    time: Span,
}

/// Runs the command.
pub fn run(args: &Args) -> Result<(), Failure> {
    if let Some(address) = args.serve {
        return serve(address, args.time);
    }
    // The parser requires it.
    let Some(peer) = &args.peer else { return Ok(()) };
    let peer = Peer::parse(peer).map_err(|error| Failure::Usage(error.to_string()))?;
    let trust = Trust::of(&peer, args.ca.as_deref()).map_err(|error| Failure::Failed(error.to_string()))?;
    let mut found = Vec::new();
    let mut outcome = Ok(());
    for (word, direction) in DIRECTIONS {
        if !found.is_empty() {
            thread::sleep(PAUSE);
        }
        match measure(word, direction, &peer, args.interface.as_deref(), trust.as_ref()) {
            Ok(one) => {
                // Before the other direction, which may fail.
                if !args.json {
                    crate::output::print(&text(word, &one))?;
                }
                found.push(one);
            }
            Err(error) => {
                outcome = Err(error);
                break;
            }
        }
    }
    if args.json && !found.is_empty() {
        let whole = serde_json::json!({ "peer": peer.to_string(), "down": found.first(), "up": found.get(1) });
        writeln!(crate::output::stdout(), "{whole:#}")?;
    }
    outcome
}

fn serve(address: SocketAddr, time: Span) -> Result<(), Failure> {
    let failed = |error: std::io::Error| Failure::Failed(format!("{address}: {error}; name another by --serve"));
    let listener = TcpListener::bind(address).map_err(failed)?;
    let address = listener.local_addr().map_err(failed)?;
    message!("serving measurements at {address}; Ctrl-C ends it");
    serve::serve(&listener, Bounds { time: Duration::from_nanos(time.as_nanos()), ..Bounds::default() })?;
    Ok(())
}

/// Measures what arrives, then what leaves.
///
/// # Errors
/// When a direction cannot be measured.
pub fn both(peer: &Peer, interface: Option<&str>, trust: Option<&Trust>) -> Result<[Responsiveness; 2], Failure> {
    let [down, up] = DIRECTIONS.map(|(word, direction)| move || measure(word, direction, peer, interface, trust));
    let down = down()?;
    thread::sleep(PAUSE);
    Ok([down, up()?])
}

/// The directions in the order in which they are measured.
const DIRECTIONS: [(&str, Direction); 2] = [("down", Direction::Ingress), ("up", Direction::Egress)];

fn measure(
    word: &str,
    direction: Direction,
    peer: &Peer,
    interface: Option<&str>,
    trust: Option<&Trust>,
) -> Result<Responsiveness, Failure> {
    message!("measuring the responsiveness {word} with {peer}, 20 s at the most ...");
    responsiveness::measure(peer, direction, interface, trust)
        .map_err(|error| Failure::Failed(format!("{error}; nothing was measured {word}")))
}

/// The result in a word and a number: `good, 1510 RPM`. The word is the worse one of separate and of loaded connections; their
/// mean would hide it.
pub fn verdict(one: &Responsiveness) -> String {
    let grade = match one.grades() {
        [Some(separate), Some(loaded)] if loaded < separate => {
            format!("{} on loaded connections, {} on separate ones", loaded.word(), separate.word())
        }
        [Some(separate), Some(loaded)] if separate < loaded => {
            format!("{} on separate connections, {} on loaded ones", separate.word(), loaded.word())
        }
        [separate, _] => separate.map_or("", Grade::word).to_owned(),
    };
    format!("{grade}, {:.0} RPM", one.rpm)
}

/// The result with all that it is derived from.
fn text(word: &str, one: &Responsiveness) -> String {
    let wait = |ms: f64| tidegate_display::wait((ms * 1e6) as u64);
    let tls = one.tls_ms.map_or_else(String::new, |ms| format!(", TLS {}", wait(ms)));
    let loaded = match (one.loaded_rpm, one.loaded_ms) {
        (Some(rpm), Some(ms)) => format!("on loaded connections {rpm:.0} RPM ({})", wait(ms)),
        _ => "not on loaded connections, which needs `tidegate measure --serve` as the peer".to_owned(),
    };
    format!(
        "{word}: {} under load, {:.0} RPM without; confidence {}\n  \
         on separate connections {:.0} RPM (TCP {}{tls}, HTTP {}); {loaded}\n  \
         load: {} of content by {} connections, {:.0} s, {} probes\n",
        verdict(one),
        one.idle_rpm,
        one.confidence.word(),
        one.foreign_rpm,
        wait(one.tcp_ms),
        wait(one.http_ms),
        tidegate_display::rate(one.goodput_bps),
        one.connections,
        one.seconds,
        one.probes,
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::measure::responsiveness::Confidence;

    #[test]
    fn the_grade_is_that_of_the_worse_connections() {
        let result = |foreign_rpm: f64, loaded_rpm: Option<f64>| Responsiveness {
            rpm: loaded_rpm.map_or(foreign_rpm, |loaded| f64::midpoint(foreign_rpm, loaded)),
            foreign_rpm,
            loaded_rpm,
            tcp_ms: 1.0,
            tls_ms: None,
            http_ms: 1.0,
            loaded_ms: loaded_rpm.map(|rpm| 60_000.0 / rpm),
            idle_rpm: 30_000.0,
            goodput_bps: 1_000_000,
            connections: 4,
            probes: 100,
            confidence: Confidence::High,
            seconds: 10.0,
        };
        // As it was measured: 167 ms on loaded connections.
        let mixed = verdict(&result(21_981.0, Some(360.0)));
        assert_eq!(mixed, "fair on loaded connections, good on separate ones, 11170 RPM");
        assert_eq!(verdict(&result(21_981.0, Some(20_000.0))), "good, 20990 RPM");
        assert_eq!(verdict(&result(3_000.0, None)), "good, 3000 RPM");
    }
}
