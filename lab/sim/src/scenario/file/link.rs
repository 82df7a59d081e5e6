//! Links: their lines, and the drivers before them.

use tidegate_config::decode::mismatch;
use tidegate_config::node::{Node, Value};
use tidegate_config::values::Percent;
use tidegate_config::{Decode, Diagnostics, Many, Schemas, Spanned};
use tidegate_core::{Bytes, Rate, Span};

use super::distribution::{DistributionSection, SameOrDrawn};
use super::{schema_of_span_or, span_or};
use crate::driver::Service;
use crate::impairment::Fault;
use crate::scenario::queue::QueueSection;

tidegate_config::record! {
    /// A link, by default with a link in the other direction.
    pub struct LinkSection as "link" {
        /// A node, or a range of nodes.
        pub from: Spanned<String>,
        /// A node, or a range of nodes: as many as in `from`, or one.
        pub to: Spanned<String>,
        /// Bits per second on the line, counting packets with their headers; above zero. Required without `rate-over-time`.
        pub rate: Option<Spanned<Rate>>,
        /// The rate in the other direction. Default the same, over time too.
        pub rate_back: Option<Spanned<Rate>>,
        /// The rate over time, in both directions unless `rate-back` or `rate-over-time-back` says otherwise. It replaces `rate`,
        /// which is then used for routing and warnings only, and is by default its mean: utilisation is of what the line could carry, and the ideal time of a
        /// transfer, to which its slowdown is relative, is that at the mean of the rate over the run, or over its period. Default constant.
        pub rate_over_time: Option<Spanned<RateSection>>,
        /// The rate over time in the other direction. Default `rate-back` or else the same.
        pub rate_over_time_back: Option<Spanned<RateSection>>,
        /// The propagation delay in one direction, or a distribution from which each link of a range draws its own:
        /// `{ kind = "uniform", low = "1ms", high = "200ms" }`. Default 1 ms, as of a metropolitan link.
        pub delay: Option<Spanned<SameOrDrawn<Span>>>,
        /// The propagation delay in the other direction. Default the same.
        pub delay_back: Option<Spanned<SameOrDrawn<Span>>>,
        /// Delay that varies from packet to packet, in addition. Default none.
        pub jitter: Option<Spanned<JitterSection>>,
        /// The limit of the drop-tail queue in packets, if no discipline is set. Default 1000, as on plain interfaces.
        pub limit: Spanned<u64> = 1000,
        /// The loss of the line: a share of the packets, `{ kind = "gilbert-elliott", ... }`, or
        /// `{ kind = "list", packets = [3, 4, 90] }`. Default none.
        pub loss: Option<Spanned<LossSection>>,
        /// The loss in the other direction. Default the same, independently.
        pub loss_back: Option<Spanned<LossSection>>,
        /// Changes that boxes on the line make to the ECN field and to the accurate feedback of TCP (RFC 9768), after its queue: for
        /// trying the fallbacks of senders. Default none.
        pub ecn_impairment: Vec<Fault>,
        /// The impairment in the other direction. Default the same.
        pub ecn_impairment_back: Option<Vec<Fault>>,
        /// The share of packets that are duplicated, at random. Default none.
        pub duplication: Option<Percent>,
        /// When the line fails and recovers. Packets on the line are lost, and queued packets wait. Default never.
        pub outage: Vec<Spanned<OutageSection>>,
        /// Random failures, in both directions independently. Default none.
        pub failures: Option<Spanned<FailuresSection>>,
        /// The length of frames. Packets that are transmitted within a frame arrive at its end in one burst, as over
        /// link layers that aggregate. Default: each packet arrives on its own.
        pub frame: Option<Spanned<Span>>,
        /// Whether the line is half-duplex: its directions transmit in turns, one at a time. Default no.
        pub half_duplex: bool = false,
        /// Whether there is a link in the other direction, with the same rate, delay and loss. Default yes.
        pub both_ways: bool = true,
        /// The queue of the link from `from` to `to`: a discipline `{ kind = "red", ... }`, a whole shaper file
        /// `{ shaper = "office.toml" }`, or its tables `{ shaper = { class = [...], rule = [...] } }`. Default first
        /// in, first out.
        pub queue: Option<Spanned<QueueSection>>,
        /// The queue in the other direction.
        pub queue_back: Option<Spanned<QueueSection>>,
        /// The driver between discipline and line, from `from` to `to`. Default none: the discipline is asked for a
        /// packet when the line is free.
        pub driver: Option<Spanned<DriverSection>>,
        /// The interval of the timer by which deadlines of the discipline are noticed. Default: they are noticed
        /// exactly.
        pub timer: Option<Spanned<Span>>,
        /// Whether queue, delay, drops and marks are recorded over time. Default only if a discipline is set.
        pub watch: Option<bool>,
    }
}

/// The loss of a line.
#[derive(Clone, PartialEq, Debug)]
pub enum LossSection {
    /// Each packet is lost with this probability.
    Share(Percent),
    /// Another loss model.
    Law(LossLaw),
}

impl Decode for LossSection {
    fn decode(node: &Node, diagnostics: &mut Diagnostics) -> Option<Self> {
        match &node.value {
            Value::Table(_) => LossLaw::decode(node, diagnostics).map(Self::Law),
            Value::Text(_) => Percent::decode(node, diagnostics).map(Self::Share),
            _ => {
                let help = "write \"1%\", or { kind = \"gilbert-elliott\", begin = \"1%\", end = \"25%\" }";
                mismatch(node, "a share or a law of loss", help, diagnostics);
                None
            }
        }
    }
    fn example() -> String {
        Percent::example()
    }
    fn schema(schemas: &mut Schemas) -> serde_json::Value {
        let (share, law) = (Percent::schema(schemas), LossLaw::schema(schemas));
        serde_json::json!({ "anyOf": [share, law] })
    }
}

tidegate_config::choice! {
    /// A loss model.
    pub enum LossLaw as "loss" by "kind" {
        /// Each packet is lost independently.
        Random(RandomLoss) = "random",
        /// Two states, each with a loss probability (Gilbert 1960, Elliott 1963).
        GilbertElliott(GilbertElliottLoss) = "gilbert-elliott",
        /// Packets are lost by their numbers.
        List(ListLoss) = "list",
    }
}

tidegate_config::record! {
    /// Independent loss.
    pub struct RandomLoss as "random loss" {
        /// The share of the packets that are lost, 0 % to 100 %.
        pub probability: Percent,
        /// Whether only packets with data are lost, and pure acknowledgements pass. Default no.
        pub data_only: bool = false,
    }
}

tidegate_config::record! {
    /// Loss in bursts: on average `begin / (begin + end)` of the packets meet the bad state.
    pub struct GilbertElliottLoss as "Gilbert-Elliott loss" {
        /// The probability, at each packet, that a good line becomes bad.
        pub begin: Spanned<Percent>,
        /// The probability, at each packet, that a bad line becomes good: the mean burst is its reciprocal.
        pub end: Spanned<Percent>,
        /// The share of packets lost in the good state. Default nothing.
        pub good: Percent = "0%",
        /// The share of packets lost in the bad state. Default everything.
        pub bad: Percent = "100%",
    }
}

tidegate_config::record! {
    /// Loss by list.
    pub struct ListLoss as "list of losses" {
        /// The numbers of the packets, counted from 1 over all that the link transmits in this direction; rising.
        pub packets: Spanned<Vec<u64>>,
    }
}

tidegate_config::record! {
    /// Delay that varies from packet to packet.
    pub struct JitterSection as "jitter" {
        /// The distribution of the additional delay, drawn for each packet.
        pub delay: Spanned<DistributionSection>,
        /// The correlation of the additional delays of consecutive packets (of the normal values behind them). Default
        /// independent.
        pub correlation: Spanned<f64> = 0.0,
        /// Whether packets may overtake each other. Default no.
        pub reorder: bool = false,
    }
}

tidegate_config::record! {
    /// A failure of a line.
    pub struct OutageSection as "outage" {
        /// When the line fails.
        pub from: Spanned<Span>,
        /// When the line recovers.
        pub to: Spanned<Span>,
    }
}

tidegate_config::record! {
    /// Failures of a line at random.
    pub struct FailuresSection as "failures" {
        /// How long the line works.
        pub works: Spanned<DistributionSection>,
        /// How long the line fails.
        pub fails: Spanned<DistributionSection>,
    }
}

tidegate_config::choice! {
    /// A rate over time.
    pub enum RateSection as "rate over time" by "kind" {
        /// A rate from each time on.
        Steps(StepsRate) = "steps",
        /// A sine.
        Sine(SineRate) = "sine",
        /// A Mahimahi trace: milliseconds at which 1500 bytes can be delivered, one a line, repeated.
        Mahimahi(MahimahiRate) = "mahimahi",
        /// Lines `seconds,rate` of a file.
        Csv(CsvRate) = "csv",
        /// A Markov chain of rates.
        Markov(MarkovRate) = "markov",
        /// A cellular link (Winstein, Sivaraman, Balakrishnan 2013): a Brownian motion with outages.
        Cellular(CellularRate) = "cellular",
    }
}

tidegate_config::record! {
    /// A rate from each time on.
    pub struct StepsRate as "steps of a rate" {
        /// The steps, in the order of their times.
        pub steps: Spanned<Vec<RateStep>>,
        /// The period after which they begin anew. Default: the last rate stays.
        pub repeat: Option<Span>,
    }
}

tidegate_config::record! {
    /// A step of a rate.
    pub struct RateStep as "step of a rate" {
        /// The time of the step.
        pub at: Span,
        /// The rate until the next step; zero for a line that stands still.
        pub rate: Rate,
    }
}

tidegate_config::record! {
    /// A sine, not below zero.
    pub struct SineRate as "sine of a rate" {
        /// The mean of the sine. The mean of the rate is higher if the sine falls below zero.
        pub mean: Rate,
        /// The largest deviation from the mean, up and down.
        pub amplitude: Rate,
        /// The time from maximum to maximum.
        pub period: Span,
        /// The length of a step. Default 10 ms.
        pub step: Span = "10ms",
    }
}

tidegate_config::record! {
    /// A trace of delivery opportunities.
    pub struct MahimahiRate as "Mahimahi trace" {
        /// The file, beside the scenario; or several, of which each run has a part of one.
        pub file: Many<Spanned<String>>,
        /// The time of the trace at which all runs begin, or "drawn": each run has another window of the trace, or of one of
        /// several, by its seed, the same for all lines. Default its beginning.
        pub from: Spanned<TraceBegin> = "0s",
    }
}

tidegate_config::record! {
    /// A trace of rates.
    pub struct CsvRate as "trace of a rate" {
        /// The file, beside the scenario: lines `seconds,rate`, the rate with a unit or in bit/s; or several, of which each run has a part
        /// of one.
        pub file: Many<Spanned<String>>,
        /// The period after which it begins anew. Default: the last rate stays.
        pub repeat: Option<Span>,
        /// The time of the trace at which all runs begin, or "drawn": each run has another window of the trace, or of one of
        /// several, by its seed, the same for all lines. Default its beginning.
        pub from: Spanned<TraceBegin> = "0s",
    }
}

tidegate_config::record! {
    /// A Markov chain in continuous time: exponential times in each state.
    pub struct MarkovRate as "Markov chain of rates" {
        /// The states; it begins in the first.
        pub states: Spanned<Vec<MarkovStateSection>>,
    }
}

tidegate_config::record! {
    /// A state of a Markov chain.
    pub struct MarkovStateSection as "state of a rate" {
        /// The rate in this state; zero for an outage in which the line keeps its packets.
        pub rate: Rate,
        /// The mean time in this state.
        pub mean: Span,
        /// The weights with which the next state is chosen, one for each state. Default: all other states are equally
        /// likely.
        pub next: Vec<f64>,
    }
}

tidegate_config::record! {
    /// A cellular link.
    pub struct CellularRate as "cellular link" {
        /// The standard deviation of the rate after a second, in packets of 1500 bytes a second. Default 200.
        pub deviation: f64 = 200.0,
        /// The rate at which outages end, per second. Default 1.
        pub escape: f64 = 1.0,
        /// The maximum rate. Default 12 Mbit/s, 1000 packets per second.
        pub most: Rate = "12mbit",
        /// The time between changes of the rate. Default 20 ms.
        pub tick: Span = "20ms",
    }
}

tidegate_config::record! {
    /// The driver of a network card, as in routers of the nineties.
    pub struct DriverSection as "driver" {
        /// A packet enters the software buffer if at most this much is in it. Default 20 KiB (ALTQ).
        pub software: Bytes = "20KiB",
        /// The hardware's buffer. Default 32 KiB (ALTQ).
        pub hardware: Spanned<Bytes> = "32KiB",
        /// How many packets one call moves. Default one.
        pub service: Service = "one-per-call",
        /// Whether a receive interrupt calls the driver. Default no.
        pub on_receive: bool = false,
        /// Whether the driver is called after a packet was enqueued. Default yes.
        pub on_enqueue: bool = true,
        /// The time that the router needs for a packet. Default 50 us.
        pub forwarding: Span = "50us",
        /// Ticks per second of the kernel timer. Default: deadlines are noticed exactly.
        pub timer_hz: Option<Spanned<u32>>,
    }
}

tidegate_config::choices! {
    impl "driver service" for Service {
        /// Packets until the discipline has none to release or the buffer is full.
        DrainAll = "drain-all",
        /// One packet per call.
        OnePerCall = "one-per-call",
    }
}

/// Where a run begins in a trace.
#[derive(Clone, Copy, PartialEq, Debug)]
pub enum TraceBegin {
    /// At this time in all runs.
    At(Span),
    /// Where the seed of the run draws.
    Drawn,
}

impl Decode for TraceBegin {
    fn decode(node: &Node, diagnostics: &mut Diagnostics) -> Option<Self> {
        span_or(node, diagnostics, ("drawn", Self::Drawn), Self::At)
    }
    fn example() -> String {
        "\"30s\"".into()
    }
    fn schema(schemas: &mut Schemas) -> serde_json::Value {
        schema_of_span_or("drawn", schemas)
    }
}
