//! `tidegate exec`: one program and its children, shaped in both directions.

use std::ffi::OsString;
use std::os::fd::RawFd;
use std::path::PathBuf;
use std::process::Command;

use tidegate_config::shaper::{self, Config};
use tidegate_config::{Diagnostics, Source};
use tidegate_exec::{Error, Loopback, Options, Outcome, Traffic, Until, inside};
use tidegate_units::Rate;

use crate::commands::check;
use crate::{Failure, output};

/// What tidegate itself failing looks like to a script: the exit code of `env`, `timeout` and `nohup`.
const OURS: u8 = 125;

/// Run one program and its children, shaped in both directions
///
/// The program gets a network namespace of its own, and what it sends and receives goes through shapers in this process:
/// static binaries and UDP too, without root where the machine allows user namespaces, and without any change to the
/// host. It keeps its user, files, terminal and signals. It reaches the world by TCP, by UDP, and by ping where the host
/// lets everybody ping (net.ipv4.ping_group_range); other protocols are answered as unreachable, and nobody reaches it.
///
/// Its exit code is passed through: 128 and the number of the signal if it was killed, 127 if there is no such program,
/// 126 if it may not be run, 125 if it could not be shaped; then it has not run.
#[derive(Debug, clap::Args)]
#[command(override_usage = "tidegate exec [OPTIONS] -- COMMAND [ARGUMENTS]...")]
pub struct Args {
    /// The most that it receives, IP headers included; flows in it share fairly, with short queues
    #[arg(long, value_name = "RATE", conflicts_with = "config_down")]
    down: Option<Rate>,
    /// The most that it sends
    #[arg(long, value_name = "RATE", conflicts_with = "config")]
    up: Option<Rate>,
    /// A shaper file for what it sends, instead of --up
    #[arg(long, value_name = "FILE")]
    config: Option<PathBuf>,
    /// A shaper file for what it receives, instead of --down; the world is the source in its rules
    #[arg(long, value_name = "FILE")]
    config_down: Option<PathBuf>,
    /// What 127.0.0.1 is to the program
    #[arg(long, value_enum, default_value = "host")]
    loopback: LoopbackArg,
    /// End with the program, although processes that it started still run; they have no network then
    #[arg(long)]
    no_wait: bool,
    /// Print at the end what passed, on standard error
    #[arg(long, short)]
    verbose: bool,
    /// The inner half: the number of a socket
    #[arg(long, hide = true, value_name = "NUMBER")]
    inside: Option<RawFd>,
    /// The program and its arguments
    #[arg(required = true, trailing_var_arg = true, value_name = "COMMAND")]
    command: Vec<OsString>,
}

#[derive(Clone, Copy, Debug, clap::ValueEnum)]
enum LoopbackArg {
    /// The host: its services there are reached, and shaped
    Host,
    /// Its own, which it shares with nobody; name servers of the host at 127.0.0.53 and the like still work
    Own,
}

/// Runs the command.
pub fn run(args: &Args) -> Result<(), Failure> {
    let loopback = match args.loopback {
        LoopbackArg::Host => Loopback::Host,
        LoopbackArg::Own => Loopback::Own,
    };
    if let Some(socket) = args.inside {
        return Err(Failure::Exit(inside::run(socket, loopback, &args.command), String::new()));
    }
    let options = Options {
        up: side(args.up, args.config.as_ref())?,
        down: side(args.down, args.config_down.as_ref())?,
        until: if args.no_wait { Until::Command } else { Until::LastProcess },
    };
    if options.up.is_none() && options.down.is_none() {
        say!("tidegate: neither --down nor --up: nothing is shaped");
    }
    let launch = |socket: RawFd| {
        let mut again = Command::new("/proc/self/exe");
        again.args(["exec", "--inside", &socket.to_string(), "--loopback"]);
        again.arg(if loopback == Loopback::Host { "host" } else { "own" });
        again.arg("--").args(&args.command);
        again
    };
    match tidegate_exec::run(&options, launch) {
        Ok(outcome) => {
            if args.verbose {
                summarise(&outcome);
            }
            Err(Failure::Exit(outcome.code, String::new()))
        }
        Err(Error::Command { text, code }) => Err(Failure::Exit(code, text)),
        Err(error) => Err(Failure::Exit(OURS, error.to_string())),
    }
}

/// What shapes one side: a file, or what stands behind a rate, or nothing.
fn side(rate: Option<Rate>, file: Option<&PathBuf>) -> Result<Option<Config>, Failure> {
    match (rate, file) {
        (Some(rate), _) => shaped(rate).map(Some),
        (None, Some(file)) => check::load(file).map(Some),
        (None, None) => Ok(None),
    }
}

/// What stands behind a rate: flows share it, and what does not slow down is dropped.
///
/// A standing queue is accepted for longer than on the wide network: the round trip ends at the relay, which holds TCP
/// back by itself, so that a drop, which costs the connection more than it saves, is for others. Flows do not wait for
/// each other's queue.
fn behind(rate: Rate) -> String {
    // Half a dozen packets, with which a connection still recovers from a loss without a pause.
    const PACKETS: u64 = 6 * 1_500 * 8 * 1_000;
    let bps = rate.as_bps().max(1);
    let target = (PACKETS / bps).clamp(60, 5_000);
    let interval = 5 * target;
    // A second's worth, and the windows of two connections at the least: datagrams that nobody holds back shall not
    // wait, and keep the end of the program waiting, for longer.
    let limit = (bps / 8).clamp(128 << 10, 4_000_000);
    format!(
        "version = 1\n[[class]]\nname = \"all\"\nrate = \"{bps}bit\"\ndefault = true\n\
         [class.queue]\nkind = \"fq-codel\"\ntarget = \"{target}ms\"\ninterval = \"{interval}ms\"\n\
         limit = \"{limit}B\"\n"
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

fn summarise(outcome: &Outcome) {
    let seconds = outcome.lasted.as_nanos() as f64 / 1e9;
    say!("tidegate: {seconds:.1} s, {} TCP connections", outcome.connections);
    for (name, traffic) in [("up", &outcome.up), ("down", &outcome.down)] {
        let Traffic { packets, bytes, dropped, classes } = traffic;
        let rate = Rate::from_bps((*bytes as f64 * 8.0 / seconds.max(1e-9)) as u64);
        say!(
            "tidegate: {name}: {packets} packets, {bytes} bytes, {} on average, {dropped} dropped",
            output::rate(rate)
        );
        for class in classes {
            let counts = &class.counts;
            let millis = |share| counts.waited_at(share).as_nanos() as f64 / 1e6;
            say!(
                "tidegate:   {}: {} packets, waited {:.1} ms at the median, {:.1} ms at the 99th percentile",
                class.name,
                counts.through.packets,
                millis(0.5),
                millis(0.99)
            );
        }
    }
}
