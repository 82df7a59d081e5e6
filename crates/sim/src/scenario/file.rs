//! The sections of a scenario file, as they are written.

use tidegate_config::Spanned;
use tidegate_config::decode::{Scalar, Wrong};
use tidegate_config::values::{Percent, Ports, Prefix, User};
use tidegate_core::{Bytes, Dscp, Rate, Span};

use super::actions::AtSection;
use super::queue::QueueSection;

tidegate_config::record! {
    /// A scenario of the simulator: a topology, what is sent over it, for how long, and what is measured.
    ///
    /// Names of hosts and routers may hold a range: `s{1..10}` means `s1` to `s10`.
    pub struct File as "scenario" {
        /// The version of the language: 1.
        pub version: Spanned<u32>,
        /// One sentence on what the scenario shows; the caption of its results.
        pub sentence: Option<String>,
        /// The simulated time.
        pub duration: Spanned<Span>,
        /// How much of the beginning is not measured. Default none.
        pub warm_up: Spanned<Span> = "0s",
        /// The first seed. Default 1.
        pub seed: u64 = 1,
        /// Runs with different seeds, one after the other from the first. Default 1.
        pub runs: Spanned<u32> = 1,
        /// The width of the bins that time series begin with; they widen as time passes. Default 100 ms: a minute
        /// before the first widening.
        pub bin: Spanned<Span> = "100ms",
        /// What the table shows. Default everything that the scenario has.
        pub measure: Vec<Measure>,
        /// The hosts: where flows begin and end.
        pub hosts: Vec<Spanned<String>>,
        /// The routers: what forwards.
        pub routers: Vec<Spanned<String>>,
        /// Addresses of hosts, which the rules of shaper files see.
        pub host: Vec<Spanned<HostSection>>,
        /// The links.
        pub link: Vec<Spanned<LinkSection>>,
        /// Ways that are not the shortest.
        pub route: Vec<Spanned<RouteSection>>,
        /// The flows with their workloads.
        pub flow: Vec<Spanned<FlowSection>>,
        /// Disciplines to compare: each run is made once for each variant, with the same random numbers. Default
        /// none: the scenario unchanged.
        pub variant: Vec<Spanned<VariantSection>>,
        /// What is done to shapers while the scenario runs: promises, reservations, changes, looks at the statistics.
        pub at: Vec<Spanned<AtSection>>,
    }
}

tidegate_config::record! {
    /// The address of a host, or of a range of hosts.
    pub struct HostSection as "host" {
        /// A host, or a range of hosts.
        pub name: Spanned<String>,
        /// The address of the first; each further host has the one after. Default: 10.0.0.1 for the first node of the
        /// scenario, and so on.
        pub address: Spanned<Prefix>,
    }
}

tidegate_config::record! {
    /// The scenario with another discipline on a link.
    pub struct VariantSection as "variant" {
        /// Its name in the results.
        pub name: Spanned<String>,
        /// Where the link begins.
        pub from: Spanned<String>,
        /// Where the link ends.
        pub to: Spanned<String>,
        /// The discipline, or the shaper file, that takes the place of the link's own.
        pub queue: Spanned<QueueSection>,
    }
}

tidegate_config::words! {
    /// The quantity that is measured.
    pub enum Measure as "measure" {
        /// Bytes that reached the application, as a rate.
        Goodput = "goodput",
        /// Bytes that arrived, by colour, as rates.
        Colours = "colours",
        /// One-way delay of packets.
        Delay = "delay",
        /// Packets dropped, marked, sent again, and timeouts.
        Loss = "loss",
        /// Times of connecting and of complete transfers, and how much slower than alone they were.
        Completion = "completion",
        /// The fairness among the flows of a section.
        Fairness = "fairness",
        /// Use, queueing delay, drops and marks of the links that are watched.
        Links = "links",
    }
}

tidegate_config::record! {
    /// A link, by default with its twin in the other direction.
    pub struct LinkSection as "link" {
        /// A node, or a range of nodes.
        pub from: Spanned<String>,
        /// A node, or a range of nodes: as many as in `from`, or one.
        pub to: Spanned<String>,
        /// The rate of the link.
        pub rate: Spanned<Rate>,
        /// The propagation delay, one way. Default 1 ms, a metropolitan link.
        pub delay: Span = "1ms",
        /// Packets that may wait where no discipline is set. Default 1000, what plain interfaces keep.
        pub limit: Spanned<u64> = 1000,
        /// Packets that the line loses, at random. Default none.
        pub loss: Option<Percent>,
        /// Whether there is a link back, of the same rate, delay and loss. Default yes.
        pub both_ways: bool = true,
        /// The discipline before the transmitter, from `from` to `to`: `{ kind = "red", ... }`, or a whole shaper file:
        /// `{ shaper = "office.toml" }`, or its tables: `{ shaper = { class = [...], rule = [...] } }`. Default first
        /// in, first out.
        pub queue: Option<Spanned<QueueSection>>,
        /// The same in the other direction.
        pub queue_back: Option<Spanned<QueueSection>>,
        /// The driver between discipline and line, from `from` to `to`. Default none: the discipline is asked when
        /// the line is free.
        pub driver: Option<Spanned<DriverSection>>,
        /// The timer by which deadlines of the discipline are noticed. Default exactly.
        pub timer: Option<Spanned<Span>>,
        /// Whether queue, delay, drops and marks are kept over time. Default only where a discipline is set.
        pub watch: Option<bool>,
    }
}

tidegate_config::record! {
    /// A network card's driver, as in routers of the nineties.
    pub struct DriverSection as "driver" {
        /// A packet enters the software buffer when at most this waits there. Default 20 KiB (ALTQ).
        pub software: Bytes = "20KiB",
        /// The hardware's buffer. Default 32 KiB (ALTQ).
        pub hardware: Spanned<Bytes> = "32KiB",
        /// How much one call moves. Default one packet.
        pub service: ServiceWord = "one-per-call",
        /// Whether a receive interrupt calls the driver. Default no.
        pub on_receive: bool = false,
        /// The router's own work on a packet. Default 50 us.
        pub forwarding: Span = "50us",
        /// Ticks per second of the kernel's timer. Default: deadlines are noticed exactly.
        pub timer_hz: Option<Spanned<u32>>,
    }
}

tidegate_config::words! {
    /// The number of packets that one call of a driver moves.
    pub enum ServiceWord as "driver service" {
        /// Packets until the discipline has none to release or the buffer is full.
        DrainAll = "drain-all",
        /// One packet per call.
        OnePerCall = "one-per-call",
    }
}

tidegate_config::record! {
    /// A way that is not the shortest.
    pub struct RouteSection as "route" {
        /// The node at which it applies.
        pub at: Spanned<String>,
        /// The host that it leads to.
        pub to: Spanned<String>,
        /// The next node on it.
        pub via: Spanned<String>,
    }
}

tidegate_config::record! {
    /// A flow, or several of the same kind.
    pub struct FlowSection as "flow" {
        /// Its name in the results.
        pub name: Spanned<String>,
        /// The host that opens or sends, or a range of hosts.
        pub from: Spanned<String>,
        /// The other host, or a range: as many as in `from`, or one.
        pub to: Spanned<String>,
        /// How many of the same between the same hosts. Default 1.
        pub count: Spanned<u32> = 1,
        /// Over what it sends. Default TCP.
        pub transport: TransportWord = "tcp",
        /// TCP's settings. Default: SACK, Reno's window, every default.
        pub tcp: Option<Spanned<TcpSection>>,
        /// Whether datagrams are sent as ECN-capable. Default no.
        pub ecn: bool = false,
        /// The traffic of the flow.
        pub workload: Spanned<WorkloadSection>,
        /// When it begins. Default at once.
        pub start: Span = "0s",
        /// How much later each further flow of the section begins. Default at once, which keeps equal flows in step.
        pub stagger: Span = "0s",
        /// Each flow begins later by a random time below this, drawn from the seed. Default not.
        pub jitter: Span = "0s",
        /// When it stops. Default never.
        pub stop: Option<Spanned<Span>>,
        /// Its class in the disciplines that have classes: a name, or a number. Default the first.
        pub class: Option<Spanned<String>>,
        /// What a discipline with profiles (`fbq`) promises it: the name of a profile, or its number from 1. Default
        /// none.
        pub profile: Option<Spanned<String>>,
        /// Its code point. Default best effort.
        pub dscp: Option<Dscp>,
        /// Whether its goodput is kept over time. Default no.
        pub watch: bool = false,
        /// The port at `to`, which rules of shaper files see; with a range each flow of the section has its own.
        /// Default
        /// 5001.
        pub port: Option<Spanned<Ports>>,
        /// The port at `from`; with a range each flow has its own. Default: one from 32768 on for each flow, and one
        /// from
        /// 49152 on for each connection of a flow with many.
        pub source_port: Option<Spanned<Ports>>,
        /// The packet mark, as firewalls set it. Default none.
        pub mark: u32 = 0,
        /// The user who owns the socket at `from`: known to rules where the packets leave that host. Default unknown.
        pub user: Option<User>,
        /// The control group of the socket at `from`, likewise. Default unknown.
        pub control_group: Option<String>,
    }
}

tidegate_config::words! {
    /// Over what a flow sends.
    pub enum TransportWord as "transport" {
        /// TCP.
        Tcp = "tcp",
        /// Datagrams.
        Udp = "udp",
    }
}

tidegate_config::words! {
    /// The loss recovery of TCP.
    pub enum RecoveryWord as "kind of recovery" {
        /// RFC 5681 alone.
        Reno = "reno",
        /// RFC 6582.
        NewReno = "newreno",
        /// RFC 6675.
        Sack = "sack",
    }
}

tidegate_config::words! {
    /// Refinements of loss recovery.
    pub enum VintageWord as "refinements of recovery" {
        /// Limited transmit (RFC 3042) and the rescue retransmission (RFC 6675).
        Current = "current",
        /// Neither, as in the year 2000.
        Rfc2581 = "rfc2581",
    }
}

tidegate_config::words! {
    /// The congestion control of TCP.
    pub enum AlgorithmWord as "congestion control" {
        /// RFC 5681.
        Reno = "reno",
        /// RFC 9438.
        Cubic = "cubic",
    }
}

tidegate_config::record! {
    /// TCP's settings.
    pub struct TcpSection as "tcp" {
        /// How losses are repaired. Default SACK, as everywhere today.
        pub recovery: RecoveryWord = "sack",
        /// Which refinements of recovery it has. Default current.
        pub refinements: VintageWord = "current",
        /// The congestion control. Default Reno, which the laws of the papers are about.
        pub congestion: AlgorithmWord = "reno",
        /// The largest segment without headers. Default 1460 B, Ethernet.
        pub mss: Spanned<Bytes> = "1460B",
        /// The receiver's buffer, which bounds the window. Default 1 MiB: not the bottleneck.
        pub window: Spanned<Bytes> = "1MiB",
        /// Segments in the first window. Default 10 (RFC 6928).
        pub initial_window: Spanned<u32> = 10,
        /// How long an acknowledgement is held back for a second segment; 0 acknowledges every segment. Default
        /// 100 ms.
        pub delayed_ack: Span = "100ms",
        /// The shortest retransmission timeout. Default 1 s (RFC 6298; Linux has 200 ms).
        pub min_rto: Span = "1s",
        /// Whether to use ECN. Default no.
        pub ecn: bool = false,
    }
}

tidegate_config::choice! {
    /// The traffic of a flow.
    pub enum WorkloadSection as "workload" by "kind" {
        /// One transfer, endless by default.
        Bulk(BulkSection) = "bulk",
        /// A constant rate.
        Constant(ConstantSection) = "constant",
        /// Packets at random times.
        Poisson(PoissonSection) = "poisson",
        /// A constant rate in random bursts.
        OnOff(OnOffSection) = "on-off",
        /// Short transfers on connections of their own.
        Mice(MiceSection) = "mice",
        /// Requests and answers on one connection.
        Requests(RequestsSection) = "requests",
        /// Times and sizes from a file.
        Trace(TraceSection) = "trace",
    }
}

tidegate_config::record! {
    /// One transfer.
    pub struct BulkSection as "bulk workload" {
        /// How much. Default without end.
        pub bytes: Option<Spanned<Bytes>>,
    }
}

tidegate_config::record! {
    /// A constant rate.
    pub struct ConstantSection as "constant workload" {
        /// The rate, headers included.
        pub rate: Spanned<Rate>,
        /// The size of a packet, headers included. Default 1500 B.
        pub packet: Spanned<Bytes> = "1500B",
    }
}

tidegate_config::record! {
    /// Packets at random times.
    pub struct PoissonSection as "poisson workload" {
        /// The mean rate, headers included.
        pub rate: Spanned<Rate>,
        /// The size of a packet, headers included. Default 1500 B.
        pub packet: Spanned<Bytes> = "1500B",
    }
}

tidegate_config::record! {
    /// A constant rate in random bursts.
    pub struct OnOffSection as "on-off workload" {
        /// The rate while it sends, headers included.
        pub rate: Spanned<Rate>,
        /// The size of a packet, headers included. Default 1500 B.
        pub packet: Spanned<Bytes> = "1500B",
        /// The length of a period of sending.
        pub on: Spanned<DistributionSection>,
        /// The length of a period of silence.
        pub off: Spanned<DistributionSection>,
    }
}

tidegate_config::record! {
    /// Short transfers on connections of their own.
    pub struct MiceSection as "mice workload" {
        /// New connections per second, at random times; or write `interval`.
        pub per_second: Option<Spanned<f64>>,
        /// The time between two connections, instead of `per-second`.
        pub interval: Option<Spanned<DistributionSection>>,
        /// The size of a transfer.
        pub size: Spanned<DistributionSection>,
        /// Which way the transfers go. Default upload, from `from` to `to`.
        pub direction: DirectionWord = "upload",
        /// The request that asks for a download. Default 300 B.
        pub request: Bytes = "300B",
        /// The most that may be open at once; further ones are counted as refused. Default 10000, so that an
        /// overload does not take all memory.
        pub most_open: Spanned<u32> = 10000,
    }
}

tidegate_config::words! {
    /// The direction of transfers.
    pub enum DirectionWord as "direction" {
        /// From the client to the server.
        Upload = "upload",
        /// From the server to the client.
        Download = "download",
    }
}

tidegate_config::record! {
    /// Requests and answers on one connection.
    pub struct RequestsSection as "requests workload" {
        /// The size of a request.
        pub request: Spanned<DistributionSection>,
        /// The size of an answer.
        pub response: Spanned<DistributionSection>,
        /// The pause after an answer.
        pub think: Spanned<DistributionSection>,
    }
}

tidegate_config::record! {
    /// Times and sizes from a file: CSV lines `seconds,bytes`, or a JSON list of `{"time": seconds, "size": bytes}`
    /// or of `[seconds, bytes]`.
    pub struct TraceSection as "trace workload" {
        /// The file, beside the scenario.
        pub file: Spanned<String>,
    }
}

tidegate_config::choice! {
    /// A distribution of sizes or of times: values need a unit, `4kB` or `250ms`.
    pub enum DistributionSection as "distribution" by "kind" {
        /// The same value every time.
        Constant(ConstantValue) = "constant",
        /// Uniform between two values.
        Uniform(UniformValue) = "uniform",
        /// Exponential.
        Exponential(ExponentialValue) = "exponential",
        /// Pareto, by its mean.
        Pareto(ParetoValue) = "pareto",
        /// Pareto between two values.
        BoundedPareto(BoundedParetoValue) = "bounded-pareto",
        /// Normal.
        Normal(NormalValue) = "normal",
        /// Lognormal.
        LogNormal(LogNormalValue) = "lognormal",
        /// Points of a measured distribution.
        Empirical(EmpiricalValue) = "empirical",
    }
}

tidegate_config::record! {
    /// The same value every time.
    pub struct ConstantValue as "constant distribution" {
        /// The value.
        pub value: Spanned<Amount>,
    }
}

tidegate_config::record! {
    /// Uniform between two values.
    pub struct UniformValue as "uniform distribution" {
        /// The smallest value.
        pub low: Spanned<Amount>,
        /// The largest value.
        pub high: Spanned<Amount>,
    }
}

tidegate_config::record! {
    /// Exponential.
    pub struct ExponentialValue as "exponential distribution" {
        /// The mean.
        pub mean: Spanned<Amount>,
    }
}

tidegate_config::record! {
    /// Pareto.
    pub struct ParetoValue as "Pareto distribution" {
        /// The mean.
        pub mean: Spanned<Amount>,
        /// The exponent, above 1.
        pub shape: Spanned<f64>,
    }
}

tidegate_config::record! {
    /// Pareto between two values.
    pub struct BoundedParetoValue as "bounded Pareto distribution" {
        /// The exponent. Default 1.2, as of files on the web.
        pub shape: f64 = 1.2,
        /// The smallest value.
        pub least: Spanned<Amount>,
        /// The largest value.
        pub most: Spanned<Amount>,
    }
}

tidegate_config::record! {
    /// Normal; what is below zero is drawn as zero.
    pub struct NormalValue as "normal distribution" {
        /// The mean.
        pub mean: Spanned<Amount>,
        /// The standard deviation.
        pub deviation: Spanned<Amount>,
    }
}

tidegate_config::record! {
    /// Lognormal, by the mean and the standard deviation of the values.
    pub struct LogNormalValue as "lognormal distribution" {
        /// The mean.
        pub mean: Spanned<Amount>,
        /// The standard deviation.
        pub deviation: Spanned<Amount>,
    }
}

tidegate_config::record! {
    /// Points of a measured cumulative distribution, linear between them.
    pub struct EmpiricalValue as "empirical distribution" {
        /// The points, rising; the last has a share of 1.
        pub points: Vec<Point>,
    }
}

tidegate_config::record! {
    /// A point of a cumulative distribution.
    pub struct Point as "point of a distribution" {
        /// The value.
        pub value: Spanned<Amount>,
        /// The share of the values at or below it, 0 to 1.
        pub share: f64,
    }
}

/// A size or a time.
#[derive(Clone, Copy, PartialEq, Debug)]
pub enum Amount {
    /// A size.
    Size(Bytes),
    /// A time.
    Time(Span),
}

impl Scalar for Amount {
    const WANTED: &'static str = "size or time";
    const EXAMPLE: &'static str = "4kB or 250ms";
    fn from_text(text: &str) -> Result<Self, Wrong> {
        if let Ok(size) = text.parse() {
            return Ok(Self::Size(size));
        }
        // The units of the two have nothing in common, so the second error is sufficient.
        text.parse().map(Self::Time).map_err(|_| Wrong {
            message: format!("`{text}` is neither a size nor a time"),
            help: "write a number with a unit, for example \"4kB\" or \"250ms\"".into(),
        })
    }
}
