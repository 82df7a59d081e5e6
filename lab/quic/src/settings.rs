//! The transport `quic` in scenario files.

use std::sync::Arc;

use serde_json::{Value as Json, json};
use tidegate_config::decode::word;
use tidegate_config::node::{Node, Value};
use tidegate_config::{Decode, Diagnostics, Place, Schemas, Spanned};
use tidegate_core::Bytes;
use tidegate_sim::UDP_HEADER;
use tidegate_sim::scenario::congestion::Congestion;
use tidegate_sim::scenario::file::AlgorithmWord;
use tidegate_sim::scenario::transport::Kind;
use tidegate_sim::tcp::{Algorithm, EcnUse};
use tidegate_sim::transport::{End, Protocol};

use crate::end::{QuicEnd, SharedQuic};

tidegate_config::choices! {
    /// A congestion control of quinn.
    pub enum Quinn as "congestion control" {
        /// CUBIC of quinn, its default.
        Cubic = "quinn-cubic",
        /// NewReno of quinn (RFC 9002, section 7).
        NewReno = "quinn-newreno",
    }
}

/// The congestion control of a connection: one of quinn, or one of the simulator through quinn's trait.
#[derive(Clone, Copy, PartialEq, Debug)]
pub enum Control {
    /// A control of quinn.
    Quinn(Quinn),
    /// A control that `tcp.congestion` has, too.
    Own(Algorithm),
}

impl Decode for Control {
    fn decode(node: &Node, diagnostics: &mut Diagnostics) -> Option<Self> {
        let own = |diagnostics: &mut Diagnostics| {
            Congestion::decode(node, diagnostics).map(|congestion| Self::Own(congestion.algorithm()))
        };
        if matches!(node.value, Value::Table(_)) {
            return own(diagnostics);
        }
        if matches!(&node.value, Value::Text(text) if text == "quinn-bbr") {
            diagnostics
                .error(
                    node.place,
                    "quinn's BBR draws random numbers from the machine, so that no run could be repeated",
                )
                .label("no control of the simulator")
                .help("write \"bbr\": BBRv3 of the simulator, through quinn's trait");
            return None;
        }
        let quinn = Quinn::ALL.iter().map(|quinn| (quinn.word(), Some(*quinn)));
        let words: Vec<_> = quinn.chain(AlgorithmWord::ALL.iter().map(|own| (own.word(), None))).collect();
        match word(node, "congestion control", &words, diagnostics)? {
            Some(quinn) => Some(Self::Quinn(quinn)),
            None => own(diagnostics),
        }
    }
    fn example() -> String {
        Quinn::example()
    }
    fn schema(schemas: &mut Schemas) -> Json {
        json!({ "anyOf": [Quinn::schema(schemas), Congestion::schema(schemas)] })
    }
}

tidegate_config::record! {
    /// QUIC, by quinn-proto. A connection has one stream.
    pub struct Quic as "quic" {
        /// The congestion control: `"quinn-cubic"` or `"quinn-newreno"`, which are quinn's, or one that `tcp.congestion` has,
        /// through quinn's trait. Default quinn's CUBIC, as in quinn.
        pub congestion: Control = "quinn-cubic",
        /// The largest datagram, without the headers of IP and UDP. Default 1452 B, which quinn finds on Ethernet.
        pub datagram: Spanned<Bytes> = "1452B",
        /// The receiver's window of a stream. Default 1.25 MB, as in quinn: 100 Mbit/s over 100 ms.
        pub window: Spanned<Bytes> = "1250kB",
        /// Datagrams in the first window, two at least. Default 10 (RFC 9002, section 7.2).
        pub initial_window: Spanned<u32> = 10,
    }
}

impl Kind for Quic {
    const KIND: &'static str = "quic";

    fn make(self, _place: Place, diagnostics: &mut Diagnostics) -> Box<dyn Protocol> {
        let mut wrong = |place: Place, message: &str, help: &str| {
            diagnostics.error(place, message).label("here").help(help);
        };
        if !(1_200..=65_527).contains(&self.datagram.value.as_u64()) {
            wrong(
                self.datagram.place,
                "a datagram of QUIC has 1200 B to 65527 B (RFC 9000, section 14)",
                "write for example \"1452B\"",
            );
        }
        if self.window.value == Bytes::ZERO || self.window.value.as_u64() >= 1 << 62 {
            wrong(self.window.place, "a window of QUIC has 1 B to 2^62 B", "write for example \"1250kB\"");
        }
        // With one, quinn waits for ever: what is in flight must be less by a whole datagram.
        if self.initial_window.value < 2 {
            wrong(
                self.initial_window.place,
                "a window of QUIC has two datagrams at least (RFC 9002, section 7.2)",
                "write 10",
            );
        }
        Box::new(self)
    }
}

impl Protocol for Quic {
    fn connect(&self, seed: u64, ecn: Option<EcnUse>) -> [Box<dyn End>; 2] {
        let shared = Arc::new(SharedQuic::new(self, seed, self.ecn(ecn)));
        QuicEnd::both(&shared).map(|end| Box::new(end) as Box<dyn End>)
    }
    fn largest_packet(&self) -> u32 {
        self.datagram.value.as_u64() as u32 + UDP_HEADER
    }
    fn algorithm(&self) -> Algorithm {
        match self.congestion {
            Control::Quinn(Quinn::Cubic) => Algorithm::Cubic,
            Control::Quinn(Quinn::NewReno) => Algorithm::Reno,
            Control::Own(algorithm) => algorithm,
        }
    }
    /// That of the file or else, of Prague, that of L4S, and of the others ECT(0), which quinn sends.
    fn ecn(&self, said: Option<EcnUse>) -> EcnUse {
        let is_scalable = matches!(self.congestion, Control::Own(Algorithm::Prague));
        said.unwrap_or(if is_scalable { EcnUse::L4s } else { EcnUse::Accurate })
    }
    fn receive_window(&self) -> u64 {
        self.window.value.as_u64()
    }
    fn settings(&self, ecn: Option<EcnUse>) -> (&'static str, String) {
        let control = match self.congestion {
            Control::Quinn(quinn) => quinn.word().to_owned(),
            Control::Own(algorithm) => algorithm.name(),
        };
        let Self { datagram, window, initial_window, .. } = self;
        let ecn = match self.ecn(ecn) {
            EcnUse::No => "no ECN",
            EcnUse::Classic | EcnUse::Accurate => "ECN with ECT(0)",
            EcnUse::L4s => "L4S with ECT(1)",
        };
        let settings = format!(
            "{control}, {ecn}, datagrams of {}, window of {}, {} datagrams at first",
            datagram.value, window.value, initial_window.value
        );
        ("QUIC", settings)
    }
}
