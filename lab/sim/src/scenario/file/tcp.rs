//! TCP's settings.

use serde_json::{Value as Json, json};
use tidegate_config::node::{Node, Value};
use tidegate_config::{Decode, Diagnostics, Schemas, Source, Spanned};
use tidegate_core::{Bytes, Span};

use crate::scenario::congestion::Congestion;
use crate::tcp::{EcnUse, Growth, Vintage};

tidegate_config::choices! {
    /// The loss recovery of TCP.
    pub enum RecoveryWord as "kind of recovery" {
        /// RFC 5681 alone.
        Reno = "reno",
        /// RFC 6582.
        NewReno = "newreno",
        /// RFC 6675.
        Sack = "sack",
        /// RFC 6675 with detection by time and tail loss probes (RFC 8985).
        Rack = "rack",
    }
}

tidegate_config::choices! {
    impl "refinements of recovery" for Vintage {
        /// Limited Transmit (RFC 3042) and the rescue retransmission (RFC 6675).
        Current = "current",
        /// Neither of them, as in the year 2000.
        Rfc2581 = "rfc2581",
    }
}

tidegate_config::choices! {
    /// The congestion control of TCP.
    pub enum AlgorithmWord as "congestion control" {
        /// RFC 5681.
        Reno = "reno",
        /// RFC 9438.
        Cubic = "cubic",
        /// RFC 8257, for queues that mark at a shallow threshold. Set `ecn` as well.
        Dctcp = "dctcp",
        /// Prague, for L4S (draft-briscoe-iccrg-prague-congestion-control-04). `ecn` is then `"l4s"` by default, and losses
        /// are found by RACK.
        Prague = "prague",
        /// BBRv3 (draft-ietf-ccwg-bbr), with pacing. Losses are found by RACK.
        Bbr = "bbr",
    }
}

tidegate_config::choices! {
    impl "kind of ECN" for EcnUse {
        /// None, like `false`.
        No = "no",
        /// RFC 3168 with ECT(0), like `true`: a sender hears of a mark at most once in a round trip.
        Classic = "classic",
        /// Accurate feedback (RFC 9768) with ECT(0).
        Accurate = "accurate",
        /// ECT(1), which asks for the low latency of L4S (RFC 9331). TCP has accurate feedback then. RFC 9331 grants it to
        /// scalable controls alone: with another one, the flow is what such a queue must protect itself from.
        L4s = "l4s",
    }
}

/// The use of ECN in a file: a word, or whether to use it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct EcnWord(pub EcnUse);

impl Decode for EcnWord {
    fn decode(node: &Node, diagnostics: &mut Diagnostics) -> Option<Self> {
        if let Value::Truth(uses) = node.value {
            return Some(Self(if uses { EcnUse::Classic } else { EcnUse::No }));
        }
        EcnUse::decode(node, diagnostics).map(Self)
    }
    fn example() -> String {
        "true".into()
    }
    fn schema(schemas: &mut Schemas) -> Json {
        json!({ "anyOf": [{ "type": "boolean" }, EcnUse::schema(schemas)] })
    }
}

tidegate_config::choices! {
    impl "growth" for Growth {
        /// By the bytes that an acknowledgement covers (RFC 3465).
        Bytes = "bytes",
        /// By a segment for each acknowledgement, as in papers before 2003: half as fast with delayed acknowledgements.
        Acks = "acks",
    }
}

tidegate_config::choices! {
    /// The defaults of TCP's settings.
    pub enum Defaults as "set of defaults" {
        /// RFC 6298, RFC 6675 and RFC 5681, without refinements that came later: what the laws of papers are about.
        Rfc = "rfc",
        /// TCP as Linux has it: CUBIC, RACK-TLP, PRR, HyStart, timestamps and thus 1448 B in a segment, D-SACK, a retransmission
        /// timeout at least 200 ms above SRTT, acknowledgements delayed by 40 ms, and a window of 4 MiB.
        Linux = "linux",
    }
}

/// The keys of [`Defaults::Linux`].
const LINUX: &str = r#"
    congestion = "cubic"
    recovery = "rack"
    prr = true
    hystart = true
    timestamps = true
    mss = "1448B"
    d-sack = true
    min-rto = "200ms"
    rto-margin = "200ms"
    delayed-ack = "40ms"
    window = "4MiB"
"#;

/// TCP's settings, with the defaults that they name.
#[derive(Clone, PartialEq, Debug)]
pub struct Tcp(pub TcpSection);

impl Decode for Tcp {
    fn decode(node: &Node, diagnostics: &mut Diagnostics) -> Option<Self> {
        let section = TcpSection::decode(node, diagnostics)?;
        let (Defaults::Linux, Value::Table(own)) = (section.defaults, &node.value) else { return Some(Self(section)) };
        // Defaults are as good as written, and stand where they were asked for.
        let mut all = own.clone();
        let linux = Node::parse(&Source::new("linux", LINUX), &mut Diagnostics::new())?;
        let Value::Table(linux) = linux.value else { return None };
        for mut entry in linux.into_iter().filter(|entry| own.iter().all(|known| known.key != entry.key)) {
            (entry.key_place, entry.node.place) = (node.place, node.place);
            all.push(entry);
        }
        // Wrong keys of the file have been reported.
        let whole = Node { value: Value::Table(all), ..node.clone() };
        TcpSection::decode(&whole, &mut Diagnostics::new()).map(Self)
    }
    fn example() -> String {
        TcpSection::example()
    }
    fn schema(schemas: &mut Schemas) -> Json {
        TcpSection::schema(schemas)
    }
}

tidegate_config::record! {
    /// TCP's settings.
    pub struct TcpSection as "tcp" {
        /// The defaults of the other keys. Default `"rfc"`, which are those that stand behind each key here; `"linux"` is TCP as Linux
        /// has it, and what is written beside it differs from that.
        pub defaults: Defaults = "rfc",
        /// How losses are repaired. Default SACK, as everywhere today.
        pub recovery: Spanned<RecoveryWord> = "sack",
        /// The refinements of recovery. Default current.
        pub refinements: Vintage = "current",
        /// The congestion control. Default Reno, to which the laws of the papers apply.
        pub congestion: Congestion = "reno",
        /// The data of a full segment, without headers and options. Options lengthen the packet and do not shorten the data, as RFC
        /// 6691 has it. Default 1460 B, which fills Ethernet where there are none; with timestamps write 1448 B.
        pub mss: Spanned<Bytes> = "1460B",
        /// The receiver's buffer, which bounds the window. Default 1 MiB, so that it is not the bottleneck.
        pub window: Spanned<Bytes> = "1MiB",
        /// Segments in the first window. Default 10 (RFC 6928).
        pub initial_window: Spanned<u32> = 10,
        /// How long an acknowledgement is delayed in expectation of a second segment; 0 acknowledges every segment.
        /// Default 100 ms.
        pub delayed_ack: Span = "100ms",
        /// The shortest retransmission timeout. Default 1 s (RFC 6298).
        pub min_rto: Span = "1s",
        /// How far the retransmission timeout is above SRTT at least (G of RFC 6298, 2.3). Default 1 ms; Linux has 200 ms.
        pub rto_margin: Span = "1ms",
        /// The explicit congestion notification that is negotiated. Default none, and `"l4s"` with Prague.
        pub ecn: Option<EcnWord>,
        /// How much an acknowledgement counts when the window grows. Default its bytes.
        pub growth: Growth = "bytes",
        /// Whether the window is reduced in proportion to the delivered data (RFC 6937). Default no.
        pub prr: bool = false,
        /// Whether to use timestamps (RFC 7323), which take 12 bytes in each segment. Default no.
        pub timestamps: bool = false,
        /// Whether the receiver reports duplicate segments (RFC 2883). Default no.
        pub d_sack: bool = false,
        /// Whether the first slow start ends when the RTT rises (HyStart++, RFC 9406). Default no.
        pub hystart: bool = false,
        /// Whether a sender bounds its window by the rate that its class advises (`advice` of a class of a shaper file on the
        /// path): the last rate that it was told, for 67 s, times its least round trip. Default no.
        pub follow_advice: bool = false,
    }
}
