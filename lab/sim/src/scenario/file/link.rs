//! Links: their lines, and the drivers before them.

use tidegate_config::decode::mismatch;
use tidegate_config::node::{Node, Value};
use tidegate_config::values::Percent;
use tidegate_config::{Decode, Diagnostics, Schemas, Spanned};
use tidegate_core::{Bytes, Rate, Span};

use super::distribution::{DistributionSection, SameOrDrawn};
use crate::driver::Service;
use crate::scenario::queue::QueueSection;

tidegate_config::record! {
    /// A link, by default with its twin in the other direction.
    pub struct LinkSection as "link" {
        /// A node, or a range of nodes.
        pub from: Spanned<String>,
        /// A node, or a range of nodes: as many as in `from`, or one.
        pub to: Spanned<String>,
        /// Bits per second on the line, of packets with their headers; above zero.
        pub rate: Spanned<Rate>,
        /// The rate in the other direction. Default the same.
        pub rate_back: Option<Spanned<Rate>>,
        /// The rate over time, in both directions, instead of `rate`, which then counts for routes and for how much is
        /// used. Default constant.
        pub rate_over_time: Option<Spanned<RateSection>>,
        /// The propagation delay, one way; or a distribution, from which each link of a range has its own:
        /// `{ kind = "uniform", low = "1ms", high = "200ms" }`. Default 1 ms, a metropolitan link.
        pub delay: Option<Spanned<SameOrDrawn<Span>>>,
        /// The propagation delay in the other direction. Default the same.
        pub delay_back: Option<Spanned<SameOrDrawn<Span>>>,
        /// Delay that varies from packet to packet, in addition. Default none.
        pub jitter: Option<Spanned<JitterSection>>,
        /// Packets that may wait where no discipline is set. Default 1000, what plain interfaces keep.
        pub limit: Spanned<u64> = 1000,
        /// What the line loses: a share of the packets, or `{ kind = "gilbert-elliott", ... }`, or
        /// `{ kind = "list", packets = [3, 4, 90] }`. Default none.
        pub loss: Option<Spanned<LossSection>>,
        /// The same in the other direction. Default the same, independently.
        pub loss_back: Option<Spanned<LossSection>>,
        /// Packets that arrive twice, at random. Default none.
        pub duplication: Option<Percent>,
        /// When the line fails and returns: what is on it then is lost, what is queued waits. Default never.
        pub outage: Vec<Spanned<OutageSection>>,
        /// Failures at random, in both directions independently. Default none.
        pub failures: Option<Spanned<FailuresSection>>,
        /// What is transmitted in each frame of this length arrives at its end in one burst, as over link layers that
        /// aggregate. Default: each packet arrives on its own.
        pub frame: Option<Spanned<Span>>,
        /// Whether the two directions share the line: one transmits at a time, in turns. Default no.
        pub half_duplex: bool = false,
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

/// The loss of a line.
#[derive(Clone, Debug)]
pub enum LossSection {
    /// Each packet with this probability.
    Share(Percent),
    /// Another law.
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
    /// A law of loss.
    pub enum LossLaw as "loss" by "kind" {
        /// Each packet independently.
        Random(RandomLoss) = "random",
        /// Two states, each with its loss (Gilbert 1960, Elliott 1963).
        GilbertElliott(GilbertElliottLoss) = "gilbert-elliott",
        /// Packets by their numbers.
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
    /// Loss in bursts: in the mean `begin / (begin + end)` of the packets meet the bad state.
    pub struct GilbertElliottLoss as "Gilbert-Elliott loss" {
        /// The probability, at each packet, that a good line becomes bad.
        pub begin: Spanned<Percent>,
        /// The probability, at each packet, that a bad line becomes good: the mean burst is its reciprocal.
        pub end: Spanned<Percent>,
        /// What a good line loses. Default nothing.
        pub good: Percent = "0%",
        /// What a bad line loses. Default everything.
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
        /// The distribution of what is added to `delay`, drawn for each packet.
        pub delay: Spanned<DistributionSection>,
        /// How alike the additions of packets in a row are: the correlation of the normal values behind them. Default
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
        /// When it returns.
        pub to: Spanned<Span>,
    }
}

tidegate_config::record! {
    /// Failures of a line at random.
    pub struct FailuresSection as "failures" {
        /// How long it works.
        pub works: Spanned<DistributionSection>,
        /// How long it fails.
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
        /// From when on.
        pub at: Span,
        /// The rate until the next step; zero for a line that stands still.
        pub rate: Rate,
    }
}

tidegate_config::record! {
    /// A sine, not below zero.
    pub struct SineRate as "sine of a rate" {
        /// The mean of the sine; not of the rate where that would be below zero.
        pub mean: Rate,
        /// The greatest distance from the mean, up and down.
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
        /// The file, beside the scenario.
        pub file: Spanned<String>,
    }
}

tidegate_config::record! {
    /// A trace of rates.
    pub struct CsvRate as "trace of a rate" {
        /// The file, beside the scenario: lines `seconds,rate`, the rate with a unit or in bit/s.
        pub file: Spanned<String>,
        /// The period after which it begins anew. Default: the last rate stays.
        pub repeat: Option<Span>,
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
        /// The rate in it; zero for an outage in which the line keeps what it has.
        pub rate: Rate,
        /// The mean time in it.
        pub mean: Span,
        /// The weights by which the next state is chosen, one for each. Default all others alike.
        pub next: Vec<f64>,
    }
}

tidegate_config::record! {
    /// A cellular link.
    pub struct CellularRate as "cellular link" {
        /// The standard deviation of the rate after a second, in packets of 1500 bytes a second. Default 200.
        pub deviation: f64 = 200.0,
        /// How often an outage ends, per second. Default 1.
        pub escape: f64 = 1.0,
        /// The greatest rate. Default 12 Mbit/s, 1000 packets a second.
        pub most: Rate = "12mbit",
        /// How often the rate changes. Default 20 ms.
        pub tick: Span = "20ms",
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
        pub service: Service = "one-per-call",
        /// Whether a receive interrupt calls the driver. Default no.
        pub on_receive: bool = false,
        /// Whether a packet that was enqueued calls the driver. Default yes.
        pub on_enqueue: bool = true,
        /// The router's own work on a packet. Default 50 us.
        pub forwarding: Span = "50us",
        /// Ticks per second of the kernel's timer. Default: deadlines are noticed exactly.
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
