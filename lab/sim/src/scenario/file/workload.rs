//! Sections of workloads.

use tidegate_config::Spanned;
use tidegate_core::{Bytes, Rate};

use super::application::{
    CallSection, GameSection, MediaSection, PacketsSection, PhasesSection, VideoSection, WebSection,
};
use super::distribution::{DistributionSection, SameOrDrawn};

tidegate_config::choice! {
    /// The traffic of a flow.
    pub enum WorkloadSection as "workload" by "kind" {
        /// One transfer, endless by default.
        Bulk(BulkSection) = "bulk",
        /// Packets of equal size at equal intervals.
        Constant(ConstantSection) = "constant",
        /// Packets of equal size at independent random times.
        Poisson(PoissonSection) = "poisson",
        /// A constant rate in random bursts.
        OnOff(OnOffSection) = "on-off",
        /// Short transfers on connections of their own.
        Mice(MiceSection) = "mice",
        /// Requests and answers on one connection.
        Requests(RequestsSection) = "requests",
        /// Packets with random gaps and sizes.
        Packets(PacketsSection) = "packets",
        /// Constant rates, one after the other.
        Phases(PhasesSection) = "phases",
        /// Web pages, with reading times in between.
        Web(WebSection) = "web",
        /// A video whose bit rate follows the buffer of its player.
        Video(VideoSection) = "video",
        /// Speech, rated by the E-model.
        Call(CallSection) = "call",
        /// A networked game: small packets in both directions.
        Game(GameSection) = "game",
        /// A live video that follows the network.
        Media(MediaSection) = "media",
        /// Times and sizes from a file.
        Trace(TraceSection) = "trace",
    }
}

tidegate_config::record! {
    /// One transfer.
    pub struct BulkSection as "bulk workload" {
        /// The amount of data, or a distribution from which each flow draws it:
        /// `{ kind = "exponential", mean = "1MB" }`. Default: endless.
        pub bytes: Option<Spanned<SameOrDrawn<Bytes>>>,
    }
}

tidegate_config::record! {
    /// Packets of equal size at equal intervals.
    pub struct ConstantSection as "constant workload" {
        /// Bits per second, headers included (over TCP: of data); above zero.
        pub rate: Spanned<Rate>,
        /// The size of a packet, headers included. Default 1500 B.
        pub packet: Spanned<Bytes> = "1500B",
    }
}

tidegate_config::record! {
    /// Packets of equal size at random times: exponential gaps, independent of each other.
    pub struct PoissonSection as "poisson workload" {
        /// Bits per second on average, headers included (over TCP: of data); above zero.
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
        /// The bytes of data of each transfer, drawn for each; at least one.
        pub size: Spanned<DistributionSection>,
        /// The direction of the transfers. Default upload, from `from` to `to`.
        pub direction: DirectionWord = "upload",
        /// The request that asks for a download. Default 300 B.
        pub request: Bytes = "300B",
        /// The largest number of open connections, so that an overload does not take all memory. Further connections
        /// are counted as refused. Default 10000.
        pub most_open: Spanned<u32> = 10000,
    }
}

tidegate_config::choices! {
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
        /// The bytes of a request, drawn for each; at least one.
        pub request: Spanned<DistributionSection>,
        /// The bytes of its answer, which the server sends as soon as the request is complete.
        pub response: Spanned<DistributionSection>,
        /// The pause of the client from the last byte of an answer to the next request.
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
