//! `tidegate pace`: sends at a rate, and measures the result.

mod control_socket;
mod measure;
mod progress;
mod receive;
mod send;
mod source;

use std::path::PathBuf;

use tidegate_pace::sender::{Protocol, Target};
use tidegate_pace::{Cap, GapPolicy, Kind, Params, SpinBudget};
use tidegate_units::{Bytes, Rate, Span};

use crate::Failure;

/// Send a pipe, a file or datagrams at an accurate rate; or measure what arrives
#[derive(Debug, clap::Args)]
#[command(after_help = MORE)]
pub struct Args {
    /// The file to send; standard input by default
    file: Option<PathBuf>,
    /// The rate, of payload: 2MB/s, 20mbit, 512kbit, 1.5MiB/s
    #[arg(long, value_name = "RATE", required_unless_present = "receive", allow_hyphen_values = true)]
    rate: Option<Rate>,
    /// A destination: tcp://host:port or udp://host:port. With several, each gets everything. Standard output by
    /// default
    #[arg(long, value_name = "TARGET", conflicts_with = "receive")]
    to: Vec<Target>,
    /// The time to live of datagrams to a multicast group; 1 by default, which no router forwards
    #[arg(long, value_name = "HOPS", requires = "to")]
    ttl: Option<u8>,
    /// The network interface by which datagrams to a multicast group leave
    #[arg(long, value_name = "NAME", requires = "to")]
    multicast_interface: Option<String>,
    /// Datagrams to a multicast group do not reach the sockets of this machine
    #[arg(long, requires = "to")]
    no_multicast_loop: bool,
    /// How datagrams are distributed to several destinations: to each of them, or to each in turn
    #[arg(long, value_name = "HOW", value_enum, default_value_t = Share::Copy)]
    share: Share,
    /// Bytes sent at once: the size of a datagram (default 1400B); of a pipe or stream, about 2 ms of data
    #[arg(long, value_name = "SIZE")]
    packet_size: Option<Bytes>,
    /// Send line by line: a datagram is a line without its newline, a stream gets whole lines
    #[arg(long, conflicts_with = "packet_size")]
    lines: bool,
    /// The algorithm: pacer, or one of the paper: dt0, dt1, dt2, at0, at1
    #[arg(long, value_name = "NAME", default_value = "pacer")]
    algorithm: Kind,
    /// The maximum rate of any run of packets; default four times the rate (pacer)
    #[arg(long, value_name = "RATE", allow_hyphen_values = true)]
    burst_rate: Option<Rate>,
    /// The burst that may exceed it; default 1 ms of the burst rate
    #[arg(long, value_name = "SIZE", requires = "burst_rate")]
    burst: Option<Bytes>,
    /// The data is produced as it is sent: after a gap the schedule restarts and nothing is made up for
    #[arg(long)]
    live: bool,
    /// How to continue when the data or the destination was late: restart, catch-up or drop-late
    #[arg(long, value_name = "POLICY", value_enum, conflicts_with = "live")]
    gap: Option<Gap>,
    /// The lateness at which --gap applies; 1s for catch-up, otherwise 100ms
    #[arg(long, value_name = "TIME")]
    gap_time: Option<Span>,
    /// The share of a core for spinning, in percent
    #[arg(long, value_name = "PERCENT", default_value_t = 25, value_parser = clap::value_parser!(u16).range(0..=100))]
    spin: u16,
    /// Whether to use kernel features: SO_MAX_PACING_RATE, SO_TXTIME, UDP GSO
    #[arg(long, value_name = "WHETHER", value_enum, default_value_t = KernelUse::Auto)]
    kernel: KernelUse,
    /// The change of the rate by SIGUSR1 (up) and SIGUSR2 (down), in percent of --rate
    #[arg(long, value_name = "PERCENT", default_value_t = 10, value_parser = clap::value_parser!(u32).range(1..=1000))]
    step: u32,
    /// A Unix control socket to create: `rate 3MB/s`, `pause`, `resume`, `status`, one per line
    #[arg(long, value_name = "PATH", conflicts_with = "receive")]
    control: Option<PathBuf>,
    /// How long a destination may accept nothing, or take to connect, before this is an error
    #[arg(long, value_name = "TIME", default_value = "30s")]
    patience: Span,
    /// Show progress on standard error even if it is not a terminal
    #[arg(long, conflicts_with = "quiet")]
    progress: bool,
    /// Do not show progress
    #[arg(short, long)]
    quiet: bool,
    /// Report the features that were detected and chosen
    #[arg(short, long)]
    verbose: bool,
    /// Report at the end the distribution of the gaps and of the windowed rates of what was sent: on standard output,
    /// or on standard error if the data goes to standard output
    #[arg(long, conflicts_with = "receive")]
    measure: bool,
    /// Receive at udp://address:port instead, and report the distribution of the gaps and windowed rates of what
    /// arrives; relative to --rate if that is given
    #[arg(long, value_name = "TARGET", conflicts_with_all = ["file", "lines", "live", "gap", "burst_rate", "packet_size"])]
    receive: Option<Target>,
    /// Stop after this number of datagrams
    #[arg(long, value_name = "N", requires = "receive")]
    count: Option<u64>,
    /// Stop after this time from the first datagram
    #[arg(long = "for", value_name = "TIME", requires = "receive")]
    duration: Option<Span>,
    /// Stop when no datagram arrived for this time
    #[arg(long, value_name = "TIME", requires = "receive")]
    idle: Option<Span>,
    /// Print the distributions as JSON; implies --measure
    #[arg(long)]
    json: bool,
}

const MORE: &str = "\
Examples:
  tidegate pace --rate 2MB/s <in >out             a pipe, as with pv -L
  tidegate pace --rate 20mbit FILE --to tcp://host:9000
  tidegate pace --rate 10mbit --to udp://host:5000 --measure <stream
  tidegate pace --receive udp://0.0.0.0:5000 --rate 10mbit --idle 2s

Rates count payload, not headers. SIGUSR1 raises the rate by a tenth of --rate, SIGUSR2 lowers it, down to one such step \
(--step).

Standard error reports what was delivered if not everything was: of a pipe the bytes that were read from it, of a TCP \
connection those that the peer acknowledged, of datagrams those that the network took. If one of several destinations is \
full, it holds up the others, for at most --patience.

Exit codes: 0 success, also when the reader of a pipe goes away; 1 failure; 2 wrong usage.";

/// How datagrams are distributed to several destinations.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
enum Share {
    /// Each destination gets everything, at the rate
    Copy,
    /// Each packet goes to the next destination: the rate is that of all of them together
    Turn,
}

/// The action after a gap.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
enum Gap {
    /// The schedule restarts
    Restart,
    /// Missed time is made up for, up to --gap-time
    CatchUp,
    /// Late packets are dropped
    DropLate,
}

/// Whether kernel features are used.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
enum KernelUse {
    /// Where available
    Auto,
    /// Not at all
    Off,
}

/// Runs the subcommand.
pub fn run(args: &Args) -> Result<(), Failure> {
    if let Some(rate) = args.rate.filter(|rate| rate.is_zero()) {
        return Err(Failure::Usage(format!("--rate {rate}: nothing would ever be sent; write for example 20mbit")));
    }
    if let Some(target) = &args.receive {
        if target.protocol != Protocol::Udp {
            return Err(Failure::Usage(format!("--receive {target}: only udp:// can be received and measured")));
        }
        return receive::run(args, target);
    }
    let rate = args.rate.unwrap_or_default();
    let datagrams = args.to.iter().filter(|target| target.protocol == Protocol::Udp).count();
    if datagrams > 0 && datagrams < args.to.len() && args.share == Share::Turn {
        return Err(Failure::Usage("--share turn needs destinations of one kind, udp:// or tcp://".into()));
    }
    let params = args.params(rate)?;
    if args.packet_size == Some(Bytes::ZERO) {
        return Err(Failure::Usage("--packet-size 0B: nothing would ever be sent; write for example 1400B".into()));
    }
    if datagrams > 0 && args.packet_size.is_some_and(|size| size > source::LARGEST_DATAGRAM) {
        return Err(Failure::Usage(format!(
            "--packet-size {}: a datagram holds at most {}",
            args.packet_size.unwrap_or_default(),
            source::LARGEST_DATAGRAM
        )));
    }
    send::run(args, &params)
}

impl Args {
    fn params(&self, rate: Rate) -> Result<Params, Failure> {
        let gap = if self.live { Gap::Restart } else { self.gap.unwrap_or(Gap::CatchUp) };
        let gap = match (gap, self.gap_time) {
            (Gap::CatchUp, time) => GapPolicy::CatchUp { within: time.unwrap_or(Span::from_secs(1)) },
            (Gap::Restart, time) => GapPolicy::Restart { after: time.unwrap_or(tidegate_pace::At1::THRESHOLD) },
            (Gap::DropLate, time) => GapPolicy::DropLate { after: time.unwrap_or(tidegate_pace::At1::THRESHOLD) },
        };
        if self.algorithm != Kind::Pacer && self.gap.is_some() {
            return Err(Failure::Usage(format!("--gap is for the pacer; it does not apply to {}", self.algorithm)));
        }
        if self.live && self.algorithm == Kind::At0 {
            return Err(Failure::Usage(
                "--live: at0 makes up for every gap; take at1, which does not, or another".into(),
            ));
        }
        let mut params = Params { gap, ..Params::new(rate) };
        if let Some(burst) = self.burst_rate {
            let allowance = self.burst.unwrap_or_else(|| burst.bytes_in_floor(Span::from_millis(1)));
            params.cap = Cap::Fixed { rate: burst, allowance };
        } else if self.algorithm != Kind::Pacer {
            params.cap = Cap::Off;
        }
        let spin = SpinBudget::permille(self.spin * 10).map_err(|error| Failure::Usage(error.to_string()))?;
        Params { spin, ..params }.validate().map_err(|error| Failure::Usage(format!("{error}")))
    }
}
