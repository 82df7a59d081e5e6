//! The keys that `red`, `rio` and `wred` share.

use serde_json::{Value as Json, json};
use tidegate_core::aqm::AqmFifo;
use tidegate_core::fifo::Limit;
use tidegate_core::red::{AboveMax, EarlyDrop, Profile, Signal, Sizing, Spacing, Thresholds};
use tidegate_core::{Aqm, Bytes, Packet, Probability, Qdisc, Span};

use super::section::report;
use crate::decode::{Scalar, Spanned, Wrong};
use crate::diagnostic::{Diagnostics, Place};

impl Scalar for Probability {
    const WANTED: &'static str = "probability";
    const EXAMPLE: &'static str = "0.02";
    fn from_text(text: &str) -> Result<Self, Wrong> {
        let wrong = || Wrong {
            message: format!("`{text}` is not a number from 0 to 1"),
            help: "write for example 0.02, without a unit".into(),
        };
        text.trim().parse().ok().and_then(Self::from_f64).ok_or_else(wrong)
    }
    fn scalar_schema() -> Json {
        json!({ "type": "number", "minimum": 0, "maximum": 1 })
    }
}

/// A length of a queue or of a flow: bytes (`"30kB"`) or packets (`"20 packets"`).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Length {
    /// In packets.
    Packets(u64),
    /// In bytes.
    Bytes(Bytes),
}

impl Scalar for Length {
    const WANTED: &'static str = "length in bytes or packets";
    const EXAMPLE: &'static str = "30kB";
    fn from_text(text: &str) -> Result<Self, Wrong> {
        let trimmed = text.trim();
        match trimmed.strip_suffix("packets").or_else(|| trimmed.strip_suffix("packet")) {
            Some(number) => number.trim().parse().map(Self::Packets).map_err(|_| Wrong {
                message: format!("`{text}` is not a whole number of packets"),
                help: "write for example \"20 packets\"".into(),
            }),
            None => Ok(Self::Bytes(Bytes::from_text(text)?)),
        }
    }
    fn scalar_schema() -> Json {
        json!({ "type": "string", "examples": ["20 packets", Self::EXAMPLE] })
    }
}

crate::choices! {
    impl "behaviour above the threshold" for AboveMax {
        /// The drop probability rises further, to 1 at twice the threshold.
        Gentle = "gentle",
        /// Every packet is dropped.
        Cliff = "cliff",
        /// Packets that understand ECN are marked, others dropped: with `weight = 1` and thresholds a packet apart, the step
        /// of DCTCP (RFC 8257). Needs `signal = "mark"`.
        Mark = "mark",
    }
}

crate::choices! {
    impl "spacing" for Spacing {
        /// Uniform gaps: no clusters and no droughts.
        Uniform = "uniform",
        /// Each packet independently.
        Geometric = "geometric",
    }
}

crate::choices! {
    impl "signal" for Signal {
        /// The packet is marked.
        Mark = "mark",
        /// The packet is dropped nevertheless.
        Drop = "drop",
    }
}

crate::record! {
    /// How the average queue is computed, and how drops are spread.
    pub struct Early as "early drop settings" {
        /// The weight of a new sample in the average. Default 0.002, the paper's: it averages over about 500 packets.
        pub weight: Spanned<Probability> = 0.002,
        /// How packets are dropped above the upper threshold. Default gentle, which needs less tuning.
        pub above_max: AboveMax = "gentle",
        /// How drops are spread. Default uniform.
        pub spacing: Spacing = "uniform",
        /// The mean packet size. If it is given, larger packets are dropped more often and smaller ones less. Default:
        /// all packets alike.
        pub mean_packet: Option<Spanned<Bytes>>,
        /// Whether an early drop marks or drops a packet that understands ECN. Default mark.
        pub signal: Signal = "mark",
        /// The transmission time of a typical packet, in which idle time is counted. Default 1.2 ms: 1500 B at 10
        /// Mbit/s.
        pub idle_packet: Span = "1.2ms",
    }
}

crate::record! {
    /// The thresholds between which the drop probability rises, and its maximum.
    pub struct Precedence as "drop precedence" {
        /// Below this average nothing is dropped: `"30kB"` or `"20 packets"`.
        pub min_th: Spanned<Length>,
        /// Above this average `above-max` applies; in the same unit.
        pub max_th: Spanned<Length>,
        /// The probability at the upper threshold. Default 0.1, the paper's.
        pub max_p: Spanned<Probability> = 0.1,
    }
}

impl Early {
    /// Returns these settings, or the defaults.
    pub(super) fn params(early: Option<&Self>) -> EarlyDrop {
        let Some(early) = early else { return EarlyDrop { signal: Signal::Mark, ..EarlyDrop::RECOMMENDED } };
        EarlyDrop {
            weight: early.weight.value,
            above_max: early.above_max,
            spacing: early.spacing,
            sizing: early.mean_packet.map_or(Sizing::PerPacket, |mean| Sizing::PerByte { mean: mean.value }),
            signal: early.signal,
            idle_packet: early.idle_packet,
        }
    }
    /// The places of the fields that an error of the core may name.
    pub(super) fn places(early: Option<&Self>) -> Vec<(&'static str, Place)> {
        let Some(early) = early else { return Vec::new() };
        let mut places = vec![("weight", early.weight.place)];
        places.extend(early.mean_packet.map(|mean| ("mean", mean.place)));
        places
    }
}

/// Both thresholds in one unit, that of the upper one. [`same_unit`] reports mixed units.
pub(super) fn thresholds(min: Length, max: Length) -> Thresholds {
    match (min, max) {
        (Length::Packets(min), Length::Packets(max)) => Thresholds::Packets { min, max },
        (Length::Bytes(min), Length::Bytes(max)) => Thresholds::Bytes { min, max },
        (Length::Packets(_), Length::Bytes(max)) => Thresholds::Bytes { min: Bytes::ZERO, max },
        (Length::Bytes(_), Length::Packets(max)) => Thresholds::Packets { min: 0, max },
    }
}

pub(super) fn same_unit(min: &Spanned<Length>, max: &Spanned<Length>, diagnostics: &mut Diagnostics) {
    if core::mem::discriminant(&min.value) != core::mem::discriminant(&max.value) {
        diagnostics
            .error(max.place, "`min-th` and `max-th` are in different units")
            .label("another unit than `min-th`")
            .related(min.place, "`min-th` is here")
            .help("write both in bytes or both in packets");
    }
}

impl Precedence {
    pub(super) fn profile(&self) -> Profile {
        Profile { thresholds: thresholds(self.min_th.value, self.max_th.value), max_p: self.max_p.value }
    }
    pub(super) fn check(&self, place: Place, diagnostics: &mut Diagnostics) {
        same_unit(&self.min_th, &self.max_th, diagnostics);
        if let Err(error) = self.profile().validate() {
            report(&error, &[("max_th", self.max_th.place), ("max_p", self.max_p.place)], place, diagnostics);
        }
    }
}

/// Checks the curves of three precedences, and if they are valid calls `validate`.
pub(super) fn check_precedences(
    precedences: [&Spanned<Precedence>; 3],
    early: Option<&Early>,
    place: Place,
    diagnostics: &mut Diagnostics,
    validate: impl FnOnce() -> Result<(), tidegate_core::ParamError>,
) {
    let before = diagnostics.errors();
    for precedence in precedences {
        precedence.check(precedence.place, diagnostics);
    }
    if diagnostics.errors() == before
        && let Err(error) = validate()
    {
        report(&error, &Early::places(early), place, diagnostics);
    }
}

pub(super) fn queue<P: Packet + 'static>(limit: Bytes, aqm: impl Aqm<P> + 'static) -> Box<dyn Qdisc<P>> {
    Box::new(AqmFifo::new(Limit::bytes(limit), aqm))
}
