//! `kind = "red"`, `"rio"` and `"wred"`: [`tidegate_core::red`], [`tidegate_core::rio`], [`tidegate_core::wred`].

use serde_json::{Value as Json, json};
use tidegate_core::aqm::AqmFifo;
use tidegate_core::fifo::Limit;
use tidegate_core::red::{self, Red, Thresholds};
use tidegate_core::rio::{self, Rio};
use tidegate_core::wred::{self, Selector, Wred};
use tidegate_core::{Aqm, Bytes, Packet, ParamError, Probability, Qdisc, Span};

use super::Site;
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

/// A length of a queue: bytes (`"30kB"`) or packets (`"20 packets"`).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Length {
    /// In packets.
    Packets(u64),
    /// In bytes.
    Bytes(Bytes),
}

impl Scalar for Length {
    const WANTED: &'static str = "queue length in bytes or packets";
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

crate::words! {
    /// What happens above the upper threshold.
    pub enum AboveMax as "behaviour above the threshold" {
        /// The probability rises on to 1 at twice the threshold.
        Gentle = "gentle",
        /// Everything is dropped.
        Cliff = "cliff",
    }
}

crate::words! {
    /// How drops are spread.
    pub enum Spacing as "spacing" {
        /// Uniform gaps: no clusters and no droughts.
        Uniform = "uniform",
        /// Each packet by itself.
        Geometric = "geometric",
    }
}

crate::words! {
    /// What an early drop does to a packet that understands ECN.
    pub enum Signal as "signal" {
        /// Marks it.
        Mark = "mark",
        /// Drops it all the same.
        Drop = "drop",
    }
}

crate::words! {
    /// Which packets an average counts.
    pub enum Coupling as "coupling" {
        /// Those of its colour and of better ones.
        Coupled = "coupled",
        /// Those of its colour only.
        Uncoupled = "uncoupled",
    }
}

crate::record! {
    /// How an average is made, and how drops are spread.
    pub struct Early as "early drop settings" {
        /// The weight of a new sample in the average. Default 0.002, the paper's: some 500 packets back.
        pub weight: Spanned<Probability> = 0.002,
        /// What happens above an upper threshold. Default gentle: it needs less tuning.
        pub above_max: AboveMax = "gentle",
        /// How drops are spread. Default uniform.
        pub spacing: Spacing = "uniform",
        /// The mean packet; when it is given, larger packets are dropped more often, smaller ones less. Default:
        /// every packet alike.
        pub mean_packet: Option<Spanned<Bytes>>,
        /// What an early drop does to a packet that understands ECN. Default mark.
        pub signal: Signal = "mark",
        /// The time a typical packet takes on the link, by which idle time is counted. Default 1.2 ms: 1500 B at
        /// 10 Mbit/s.
        pub idle_packet: Span = "1.2ms",
    }
}

crate::record! {
    /// Where dropping begins, where it is at its most, and how much that is.
    pub struct Precedence as "drop precedence" {
        /// Nothing is dropped while the average is below: `"30kB"` or `"20 packets"`.
        pub min_th: Spanned<Length>,
        /// Above this average the behaviour is `above-max`; in the same unit.
        pub max_th: Spanned<Length>,
        /// The probability at the upper threshold. Default 0.1, the paper's.
        pub max_p: Spanned<Probability> = 0.1,
    }
}

crate::record! {
    /// Random early detection: drops or marks before the queue is full.
    pub struct RedQueue as "red" {
        /// Nothing is dropped while the average is below: `"30kB"` or `"20 packets"`.
        pub min_th: Spanned<Length>,
        /// Above this average the behaviour is `above-max`; in the same unit. Three times the lower is common.
        pub max_th: Spanned<Length>,
        /// The probability at the upper threshold. Default 0.1, the paper's.
        pub max_p: Spanned<Probability> = 0.1,
        /// Bytes that may wait. Default 1 MB.
        pub limit: Bytes = "1MB",
        /// How the average is made, and how drops are spread.
        pub early: Option<Early>,
    }
}

crate::record! {
    /// RED with an average for each drop precedence; the colours come from a meter upstream.
    pub struct RioQueue as "rio" {
        /// Packets that keep to what was agreed.
        pub green: Spanned<Precedence>,
        /// Packets beyond it, within the excess or peak.
        pub yellow: Spanned<Precedence>,
        /// Packets beyond everything.
        pub red: Spanned<Precedence>,
        /// Which packets an average counts. Default coupled: green is never dropped for red.
        pub coupling: Coupling = "coupled",
        /// Bytes that may wait. Default 1 MB.
        pub limit: Bytes = "1MB",
        /// How the averages are made, and how drops are spread.
        pub early: Option<Early>,
    }
}

crate::record! {
    /// RED with one average and a curve for each colour; the colours come from a meter upstream.
    pub struct WredQueue as "wred" {
        /// Packets that keep to what was agreed.
        pub green: Spanned<Precedence>,
        /// Packets beyond it, within the excess or peak.
        pub yellow: Spanned<Precedence>,
        /// Packets beyond everything.
        pub red: Spanned<Precedence>,
        /// Bytes that may wait. Default 1 MB.
        pub limit: Bytes = "1MB",
        /// How the average is made, and how drops are spread.
        pub early: Option<Early>,
    }
}

/// [`Early`], or its defaults, in terms of the core.
struct Settings {
    weight: Probability,
    above_max: red::AboveMax,
    spacing: red::Spacing,
    sizing: red::Sizing,
    signal: red::Signal,
    idle_packet: Span,
}

impl Settings {
    fn of(early: Option<&Early>) -> Self {
        let defaults = red::Params::new(Thresholds::Packets { min: 0, max: 1 });
        let Some(early) = early else {
            return Self {
                weight: defaults.weight,
                above_max: defaults.above_max,
                spacing: defaults.spacing,
                sizing: defaults.sizing,
                signal: red::Signal::Mark,
                idle_packet: defaults.idle_packet,
            };
        };
        Self {
            weight: early.weight.value,
            above_max: match early.above_max {
                AboveMax::Gentle => red::AboveMax::Gentle,
                AboveMax::Cliff => red::AboveMax::Cliff,
            },
            spacing: match early.spacing {
                Spacing::Uniform => red::Spacing::Uniform,
                Spacing::Geometric => red::Spacing::Geometric,
            },
            sizing: match early.mean_packet {
                Some(mean) => red::Sizing::PerByte { mean: mean.value },
                None => red::Sizing::PerPacket,
            },
            signal: match early.signal {
                Signal::Mark => red::Signal::Mark,
                Signal::Drop => red::Signal::Drop,
            },
            idle_packet: early.idle_packet,
        }
    }
}

/// Where the fields of [`Early`] stand.
fn early_places(early: Option<&Early>) -> Vec<(&'static str, Place)> {
    let Some(early) = early else { return Vec::new() };
    let mut places = vec![("weight", early.weight.place)];
    places.extend(early.mean_packet.map(|mean| ("mean", mean.place)));
    places
}

/// Both thresholds in one unit. Mixed units are an error of the caller's [`same_unit`]; here the upper one decides.
fn thresholds(min: Length, max: Length) -> Thresholds {
    match (min, max) {
        (Length::Packets(min), Length::Packets(max)) => Thresholds::Packets { min, max },
        (Length::Bytes(min), Length::Bytes(max)) => Thresholds::Bytes { min, max },
        (Length::Packets(_), Length::Bytes(max)) => Thresholds::Bytes { min: Bytes::ZERO, max },
        (Length::Bytes(_), Length::Packets(max)) => Thresholds::Packets { min: 0, max },
    }
}

fn same_unit(min: &Spanned<Length>, max: &Spanned<Length>, diagnostics: &mut Diagnostics) {
    if core::mem::discriminant(&min.value) != core::mem::discriminant(&max.value) {
        diagnostics
            .error(max.place, "`min-th` and `max-th` are in different units")
            .label("another unit than `min-th`")
            .related(min.place, "`min-th` is here")
            .help("write both in bytes or both in packets");
    }
}

/// Tells `error` at the field it names, or at the whole table.
pub(super) fn fault(error: &ParamError, places: &[(&str, Place)], table: Place, diagnostics: &mut Diagnostics) {
    let found = places.iter().find(|(field, _)| *field == error.field);
    let place = found.map_or(table, |(_, place)| *place);
    diagnostics.error(place, format!("`{}` {}", crate::decode::key(error.field), error.problem)).label("cannot work");
}

impl Precedence {
    fn params(&self) -> rio::Precedence {
        let thresholds = thresholds(self.min_th.value, self.max_th.value);
        rio::Precedence { thresholds, max_p: self.max_p.value }
    }
    /// Its own checks: a precedence is RED's triple, so RED's validation finds the field.
    fn check(&self, place: Place, diagnostics: &mut Diagnostics) {
        same_unit(&self.min_th, &self.max_th, diagnostics);
        let rio::Precedence { thresholds, max_p } = self.params();
        if let Err(error) = (red::Params { max_p, ..red::Params::new(thresholds) }).validate() {
            fault(&error, &[("max_th", self.max_th.place), ("max_p", self.max_p.place)], place, diagnostics);
        }
    }
}

fn queue<P: Packet + 'static>(limit: Bytes, aqm: impl Aqm<P> + 'static) -> Box<dyn Qdisc<P>> {
    Box::new(AqmFifo::new(Limit::bytes(limit), aqm))
}

impl RedQueue {
    fn params(&self) -> red::Params {
        let Settings { weight, above_max, spacing, sizing, signal, idle_packet } = Settings::of(self.early.as_ref());
        let thresholds = thresholds(self.min_th.value, self.max_th.value);
        red::Params { thresholds, max_p: self.max_p.value, weight, above_max, spacing, sizing, signal, idle_packet }
    }
    pub(super) fn check(&self, place: Place, diagnostics: &mut Diagnostics) {
        same_unit(&self.min_th, &self.max_th, diagnostics);
        if let Err(error) = self.params().validate() {
            let mut places = early_places(self.early.as_ref());
            places.extend([("max_th", self.max_th.place), ("max_p", self.max_p.place)]);
            fault(&error, &places, place, diagnostics);
        }
    }
    pub(super) fn build<P: Packet + 'static>(&self, site: &Site) -> Box<dyn Qdisc<P>> {
        // The node has passed its check, which validates the same parameters.
        queue(self.limit, Red::new(self.params(), site.seed, &site.name).expect("checked"))
    }
}

impl RioQueue {
    fn params(&self) -> rio::Params {
        let Settings { weight, above_max, spacing, sizing, signal, idle_packet } = Settings::of(self.early.as_ref());
        rio::Params {
            green: self.green.params(),
            yellow: self.yellow.params(),
            red: self.red.params(),
            coupling: match self.coupling {
                Coupling::Coupled => rio::Coupling::Coupled,
                Coupling::Uncoupled => rio::Coupling::Uncoupled,
            },
            weight,
            above_max,
            spacing,
            sizing,
            signal,
            idle_packet,
        }
    }
    pub(super) fn check(&self, place: Place, diagnostics: &mut Diagnostics) {
        let before = diagnostics.errors();
        for precedence in [&self.green, &self.yellow, &self.red] {
            precedence.check(precedence.place, diagnostics);
        }
        if diagnostics.errors() == before
            && let Err(error) = self.params().validate()
        {
            fault(&error, &early_places(self.early.as_ref()), place, diagnostics);
        }
    }
    pub(super) fn build<P: Packet + 'static>(&self, site: &Site) -> Box<dyn Qdisc<P>> {
        queue(self.limit, Rio::new(self.params(), site.seed, &site.name).expect("checked"))
    }
}

impl WredQueue {
    fn params(&self) -> wred::Params {
        let Settings { weight, above_max, spacing, sizing, signal, idle_packet } = Settings::of(self.early.as_ref());
        let profiles = vec![self.green.params(), self.yellow.params(), self.red.params()];
        wred::Params { profiles, selector: Selector::Colour, weight, above_max, spacing, sizing, signal, idle_packet }
    }
    pub(super) fn check(&self, place: Place, diagnostics: &mut Diagnostics) {
        let before = diagnostics.errors();
        for precedence in [&self.green, &self.yellow, &self.red] {
            precedence.check(precedence.place, diagnostics);
        }
        if diagnostics.errors() == before
            && let Err(error) = self.params().validate()
        {
            fault(&error, &early_places(self.early.as_ref()), place, diagnostics);
        }
    }
    pub(super) fn build<P: Packet + 'static>(&self, site: &Site) -> Box<dyn Qdisc<P>> {
        queue(self.limit, Wred::new(self.params(), site.seed, &site.name).expect("checked"))
    }
}
