//! `tidegate exec`: one program and its children, shaped in both directions.

use std::ffi::OsString;
use std::path::PathBuf;
use std::process::Command;

use serde_json::json;
use tidegate_config::shaper::{self, Config};
use tidegate_config::{Diagnostics, Source};
use tidegate_exec::{Error, Loopback, Options, Outcome, Traffic, Until, inside};
use tidegate_units::Rate;

use crate::commands::check;
use crate::{Failure, output};

/// The exit code for a failure of tidegate itself; the same as of `env`, `timeout` and `nohup`.
pub const OURS: u8 = 125;

/// Run one program and its children, shaped in both directions
///
/// The program gets its own network namespace, and the traffic that it sends and receives passes through shapers in
/// this process. This covers static binaries and UDP, works without root where the machine allows user namespaces,
/// and does not change the host. The program keeps its user, files, terminal and signals. It can use TCP, UDP, and
/// ping where the host permits unprivileged ping (net.ipv4.ping_group_range); other protocols are answered as
/// unreachable, and no host can connect to it.
///
/// Its exit code is passed through: 128 plus the number of the signal if it was killed, 127 if there is no such
/// program, 126 if it may not be run, 125 if it could not be shaped; then it has not run.
#[derive(Debug, clap::Args)]
#[command(override_usage = "tidegate exec [OPTIONS] -- COMMAND [ARGUMENTS]...")]
pub struct Args {
    /// The maximum rate that it receives, IP headers included; flows share it fairly, with short queues
    #[arg(long, value_name = "RATE", conflicts_with = "config_down")]
    down: Option<Rate>,
    /// The maximum rate that it sends
    #[arg(long, value_name = "RATE", conflicts_with = "config")]
    up: Option<Rate>,
    /// A shaper file for the traffic that it sends, instead of --up
    #[arg(long, value_name = "FILE")]
    config: Option<PathBuf>,
    /// A shaper file for the traffic that it receives, instead of --down; remote hosts are the source in its rules
    #[arg(long, value_name = "FILE")]
    config_down: Option<PathBuf>,
    /// The loopback that the program reaches at 127.0.0.1
    #[arg(long, value_enum, default_value = "host")]
    loopback: LoopbackArg,
    /// End with the program, even if processes that it started are still running; they then have no network
    #[arg(long)]
    no_wait: bool,
    /// Print the totals at the end, on standard error
    #[arg(long, short)]
    verbose: bool,
    /// Print the totals at the end as JSON, on standard error: standard output is the program's
    #[arg(long, conflicts_with = "verbose")]
    json: bool,
    /// For the inner process, whose standard input is a socket
    #[arg(long, hide = true)]
    inside: bool,
    /// The program and its arguments
    #[arg(required = true, trailing_var_arg = true, value_name = "COMMAND")]
    command: Vec<OsString>,
}

#[derive(Clone, Copy, Debug, clap::ValueEnum)]
enum LoopbackArg {
    /// The host: its local services can be reached, and that traffic is shaped
    Host,
    /// The program's own loopback; name servers of the host at 127.0.0.53 and the like still work
    Own,
}

/// Runs the command.
pub fn run(args: &Args) -> Result<(), Failure> {
    let loopback = match args.loopback {
        LoopbackArg::Host => Loopback::Host,
        LoopbackArg::Own => Loopback::Own,
    };
    if args.inside {
        return Err(Failure::Exit(inside::run(loopback, &args.command), String::new()));
    }
    let options = Options {
        up: side(args.up, args.config.as_ref())?,
        down: side(args.down, args.config_down.as_ref())?,
        until: if args.no_wait { Until::Command } else { Until::LastProcess },
    };
    if options.up.is_none() && options.down.is_none() {
        message!("tidegate: neither --down nor --up: nothing is shaped");
    }
    let mut again = Command::new("/proc/self/exe");
    again.args(["exec", "--inside", "--loopback", if loopback == Loopback::Host { "host" } else { "own" }]);
    again.arg("--").args(&args.command);
    match tidegate_exec::run(&options, again) {
        Ok(outcome) => {
            if args.verbose {
                summarise(&outcome);
            }
            if args.json {
                message!("{}", totals(&outcome));
            }
            Err(Failure::Exit(outcome.code, String::new()))
        }
        Err(Error::Command { text, code }) => Err(Failure::Exit(code, text)),
        Err(error) => Err(Failure::Exit(OURS, error.to_string())),
    }
}

/// The configuration of one direction: a file, the preset for a rate, or none.
fn side(rate: Option<Rate>, file: Option<&PathBuf>) -> Result<Option<Config>, Failure> {
    match (rate, file) {
        (Some(rate), _) => shaped(rate).map(Some),
        (None, Some(file)) => check::load(file).map(Some),
        (None, None) => Ok(None),
    }
}

/// The preset for a rate: flows share it, and traffic that does not back off is dropped.
///
/// A standing queue is accepted for longer than on the Internet. The round trip ends at the relay, which slows TCP
/// down itself, so a drop would cost the connection more than it saves; drops are for other traffic. Flows do not
/// wait for each other's queue.
fn behind(rate: Rate) -> String {
    // Six packets, with which a connection still recovers from a loss without a pause.
    const PACKETS: u64 = 6 * 1_500 * 8 * 1_000;
    let bps = rate.as_bps().max(1);
    let target = (PACKETS / bps).clamp(60, 5_000);
    let interval = 5 * target;
    // Datagrams without congestion control wait at most this long.
    let longest = 2 * target;
    // One second of traffic, and at least the windows of two connections.
    let limit = (bps / 8).clamp(128 << 10, 4_000_000);
    format!(
        "version = 1\n[[class]]\nname = \"all\"\nrate = \"{bps}bit\"\ndefault = true\n\
         [class.queue]\nkind = \"fq-codel\"\ntarget = \"{target}ms\"\ninterval = \"{interval}ms\"\n\
         longest = \"{longest}ms\"\nlimit = \"{limit}B\"\n"
    )
}

fn shaped(rate: Rate) -> Result<Config, Failure> {
    let source = Source::new("the rate", behind(rate));
    let mut diagnostics = Diagnostics::new();
    let config = shaper::load(&source, &mut diagnostics);
    config.ok_or_else(|| {
        check::say(&diagnostics, &source);
        Failure::Usage(format!("a rate of {rate} cannot be shaped"))
    })
}

/// The totals as JSON.
fn totals(outcome: &Outcome) -> serde_json::Value {
    let direction = |traffic: &Traffic| {
        let class = |class: &tidegate_engine::ClassStatus| {
            json!({
                "name": class.name,
                "packets": class.counts.through.packets,
                "bytes": class.counts.through.bytes.as_u64(),
                "wait_p50_ns": class.counts.waited_at(0.5).as_nanos(),
                "wait_p99_ns": class.counts.waited_at(0.99).as_nanos(),
            })
        };
        json!({
            "packets": traffic.packets,
            "bytes": traffic.bytes,
            "dropped_packets": traffic.dropped,
            "classes": traffic.classes.iter().map(class).collect::<Vec<_>>(),
        })
    };
    json!({
        "version": env!("CARGO_PKG_VERSION"),
        "code": outcome.code,
        "duration_ns": outcome.lasted.as_nanos(),
        "tcp_connections": outcome.connections,
        "up": direction(&outcome.up),
        "down": direction(&outcome.down),
    })
}

fn summarise(outcome: &Outcome) {
    let seconds = outcome.lasted.as_nanos() as f64 / 1e9;
    message!("tidegate: {seconds:.1} s, {} TCP connections", outcome.connections);
    for (name, traffic) in [("up", &outcome.up), ("down", &outcome.down)] {
        let Traffic { packets, bytes, dropped, classes } = traffic;
        let rate = Rate::from_bps((*bytes as f64 * 8.0 / seconds.max(1e-9)) as u64);
        message!(
            "tidegate: {name}: {packets} packets, {bytes} bytes, {} on average, {dropped} dropped",
            output::rate(rate)
        );
        for class in classes {
            let counts = &class.counts;
            let millis = |share| counts.waited_at(share).as_nanos() as f64 / 1e6;
            message!(
                "tidegate:   {}: {} packets, waited {:.1} ms at the median, {:.1} ms at the 99th percentile",
                class.name,
                counts.through.packets,
                millis(0.5),
                millis(0.99)
            );
        }
    }
}
