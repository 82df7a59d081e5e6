//! `kind = "marker"` and `kind = "ras"`: [`tidegate_core::marker`], [`tidegate_core::ras`], and the meters in them.

use serde_json::{Value as Json, json};
use tidegate_core::marker::{self, Action, Actions, Conditioner};
use tidegate_core::meter::{self, AnyMeter, NoMeter};
use tidegate_core::ras::{self, Curve, Ras};
use tidegate_core::rfc4115::Rfc4115;
use tidegate_core::srtcm::SrTcm;
use tidegate_core::trtcm::TrTcm;
use tidegate_core::tswtcm::TswTcm;
use tidegate_core::{Bytes, Dscp, Packet, ParamError, Qdisc, Rate, Span};
use tidegate_core::{rfc4115, srtcm, trtcm, tswtcm};

use super::early::fault;
use super::{Discipline, Inside, Site};
use crate::decode::{Scalar, Spanned, Wrong};
use crate::diagnostic::{Diagnostics, Place};

crate::words! {
    /// Whether a meter heeds the colour that a packet brings.
    pub enum Mode as "mode" {
        /// Every packet comes uncoloured.
        Blind = "blind",
        /// Somebody upstream has coloured it, and it never gets a better colour.
        Aware = "aware",
    }
}

impl Mode {
    const fn core(self) -> meter::Mode {
        match self {
            Self::Blind => meter::Mode::Blind,
            Self::Aware => meter::Mode::Aware,
        }
    }
}

crate::record! {
    /// The single rate three colour marker of RFC 2697.
    pub struct SrTcmMeter as "srtcm meter" {
        /// Committed information rate.
        pub cir: Rate,
        /// Committed burst size; at least the largest packet, or that is never green.
        pub cbs: Spanned<Bytes>,
        /// Excess burst size. Default 0: what is not green is red.
        pub ebs: Bytes = "0B",
        /// Whether the colour a packet brings counts. Default blind.
        pub mode: Mode = "blind",
    }
}

crate::record! {
    /// The two rate three colour marker of RFC 2698.
    pub struct TrTcmMeter as "trtcm meter" {
        /// Committed information rate.
        pub cir: Rate,
        /// Committed burst size; at least the largest packet, or that is never green.
        pub cbs: Bytes,
        /// Peak information rate, at least `cir`.
        pub pir: Spanned<Rate>,
        /// Peak burst size; at least the largest packet, or that is always red.
        pub pbs: Spanned<Bytes>,
        /// Whether the colour a packet brings counts. Default blind.
        pub mode: Mode = "blind",
    }
}

crate::record! {
    /// The two rate meter of RFC 4115, where yellow traffic never harms green.
    pub struct Rfc4115Meter as "rfc4115 meter" {
        /// Committed information rate.
        pub cir: Spanned<Rate>,
        /// Committed burst size; at least the largest packet, or that is never green.
        pub cbs: Spanned<Bytes>,
        /// Excess information rate, beyond `cir`.
        pub eir: Rate,
        /// Excess burst size.
        pub ebs: Bytes,
        /// Whether the colour a packet brings counts. Default blind.
        pub mode: Mode = "blind",
    }
}

crate::record! {
    /// The time sliding window marker of RFC 2859, which colours by chance.
    pub struct TswTcmMeter as "tswtcm meter" {
        /// Committed target rate.
        pub ctr: Rate,
        /// Peak target rate, at least `ctr`.
        pub ptr: Spanned<Rate>,
        /// The window of the estimate; about a round trip. Default 100 ms, that of a long path.
        pub window: Spanned<Span> = "100ms",
        /// Whether the colour a packet brings counts. Default blind.
        pub mode: Mode = "blind",
    }
}

crate::choice! {
    /// What colours packets.
    pub enum Meter as "meter" by "kind" {
        /// One rate, two bursts.
        SrTcm(SrTcmMeter) = "srtcm",
        /// A committed and a peak rate.
        TrTcm(TrTcmMeter) = "trtcm",
        /// A committed and an excess rate.
        Rfc4115(Rfc4115Meter) = "rfc4115",
        /// An estimated rate, and chance.
        TswTcm(TswTcmMeter) = "tswtcm",
    }
}

impl Meter {
    fn build(&self, site: &Site) -> Result<AnyMeter, ParamError> {
        Ok(match self {
            Self::SrTcm(m) => {
                let params = srtcm::Params { cir: m.cir, cbs: m.cbs.value, ebs: m.ebs, mode: m.mode.core() };
                AnyMeter::SrTcm(SrTcm::new(params, site.now)?)
            }
            Self::TrTcm(m) => {
                let (pir, pbs) = (m.pir.value, m.pbs.value);
                let params = trtcm::Params { cir: m.cir, cbs: m.cbs, pir, pbs, mode: m.mode.core() };
                AnyMeter::TrTcm(TrTcm::new(params, site.now)?)
            }
            Self::Rfc4115(m) => {
                let (cir, cbs) = (m.cir.value, m.cbs.value);
                let params = rfc4115::Params { cir, cbs, eir: m.eir, ebs: m.ebs, mode: m.mode.core() };
                AnyMeter::Rfc4115(Rfc4115::new(params, site.now)?)
            }
            Self::TswTcm(m) => {
                let (ptr, window) = (m.ptr.value, m.window.value);
                let params = tswtcm::Params { ctr: m.ctr, ptr, window, mode: m.mode.core() };
                AnyMeter::TswTcm(TswTcm::new(params, site.now, site.seed, &format!("{}.meter", site.name))?)
            }
        })
    }
    fn check(&self, place: Place, diagnostics: &mut Diagnostics) {
        let places: &[(&str, Place)] = match self {
            Self::SrTcm(m) => &[("cbs", m.cbs.place)],
            Self::TrTcm(m) => &[("pir", m.pir.place), ("pbs", m.pbs.place)],
            Self::Rfc4115(m) => &[("cir", m.cir.place), ("cbs", m.cbs.place)],
            Self::TswTcm(m) => &[("ptr", m.ptr.place), ("window", m.window.place)],
        };
        let anywhere = Site { seed: 0, name: String::new(), now: tidegate_core::Instant::ZERO };
        if let Err(error) = self.build(&anywhere) {
            fault(&error, places, place, diagnostics);
        }
    }
}

/// What is done with packets of a colour: `"pass"`, `"drop"`, or a code point to mark with.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Does(pub Action);

impl Scalar for Does {
    const WANTED: &'static str = "action";
    const EXAMPLE: &'static str = "af11";
    fn from_text(text: &str) -> Result<Self, Wrong> {
        match text.trim() {
            "pass" => Ok(Self(Action::Pass)),
            "drop" => Ok(Self(Action::Drop)),
            other => Dscp::from_text(other).map(|dscp| Self(Action::Mark(dscp))).map_err(|wrong| Wrong {
                message: format!("unknown action `{text}`"),
                help: format!("write \"pass\", \"drop\" or a code point to mark with, \"af11\"; {}", wrong.help),
            }),
        }
    }
    fn scalar_schema() -> Json {
        json!({ "type": ["string", "integer"], "examples": ["pass", "drop", "af11"] })
    }
}

crate::record! {
    /// A meter, and what is done about its colours.
    pub struct Metered as "conditioner" {
        /// What colours packets.
        pub meter: Spanned<Meter>,
        /// Marks the colours with the drop precedences of this assured forwarding class, 1 to 4. Default: no marks.
        pub class: Option<Spanned<u8>>,
        /// What is done with green packets instead: pass, drop, or a code point.
        pub green: Option<Does>,
        /// What is done with yellow packets instead.
        pub yellow: Option<Does>,
        /// What is done with red packets instead.
        pub red: Option<Does>,
    }
}

impl Metered {
    fn check(&self, diagnostics: &mut Diagnostics) {
        self.meter.check(self.meter.place, diagnostics);
        if let Some(class) = &self.class
            && Actions::assured(class.value).is_none()
        {
            diagnostics
                .error(class.place, format!("there is no assured forwarding class {}", class.value))
                .label("not between 1 and 4")
                .help("write 1, 2, 3 or 4, or name code points as green, yellow and red");
        }
    }
    fn build(&self, site: &Site) -> Conditioner<AnyMeter> {
        let marks = self.class.and_then(|class| Actions::assured(class.value)).unwrap_or_default();
        let chosen = |does: Option<Does>, mark| does.map_or(mark, |Does(action)| action);
        let actions = Actions {
            green: chosen(self.green, marks.green),
            yellow: chosen(self.yellow, marks.yellow),
            red: chosen(self.red, marks.red),
        };
        // The node has passed its check, which builds the same meter.
        Conditioner::new(self.meter.build(site).expect("checked"), actions)
    }
}

crate::words! {
    /// Where a marker stands.
    pub enum Point as "point" {
        /// Before what is inside: packets are metered as they come.
        Entry = "entry",
        /// Behind it: packets are metered as they leave.
        Exit = "exit",
    }
}

crate::record! {
    /// Meters packets, colours them, and marks, passes or drops them by colour.
    pub struct MarkerQueue as "marker" {
        /// The meter, and what is done about its colours.
        pub conditioner: Spanned<Metered>,
        /// Where it stands. Default entry: a queue inside then sees the colours.
        pub at: Point = "entry",
        /// The discipline inside. Default a FIFO of 1 MB.
        pub inside: Option<Spanned<Inside>>,
    }
}

impl MarkerQueue {
    pub(super) fn check(&self, diagnostics: &mut Diagnostics) {
        self.conditioner.check(diagnostics);
        if let Some(inside) = &self.inside {
            inside.value.0.check(inside.place, diagnostics);
        }
    }
    pub(super) fn classes(&self) -> Vec<&str> {
        self.inside.as_ref().map_or_else(Vec::new, |inside| inside.value.0.classes())
    }
    pub(super) fn build<P: Packet + 'static>(&self, site: &Site) -> Box<dyn Qdisc<P>> {
        let within = Site { name: format!("{}.inside", site.name), ..site.clone() };
        let inner: Box<dyn Qdisc<P>> = match &self.inside {
            Some(inside) => inside.value.0.build(&within),
            None => Discipline::plain().build(&within),
        };
        let point = match self.at {
            Point::Entry => marker::Point::Entry,
            Point::Exit => marker::Point::Exit,
        };
        Box::new(marker::Marker::new(inner, self.conditioner.build(site), point))
    }
}

crate::words! {
    /// Whether a shaper looks at the meter behind it.
    pub enum Release as "release" {
        /// By the shaping rate alone.
        Rate = "rate",
        /// Sooner when the meter would make the packet green.
        Green = "green",
    }
}

crate::record! {
    /// A rate adaptive shaper (RFC 2963): delays bursts so that more of them keeps to what was agreed, and never
    /// holds back what the buffer would lose.
    pub struct RasQueue as "ras" {
        /// Committed information rate: the least rate, as the meter behind has it.
        pub cir: Spanned<Rate>,
        /// Peak information rate, as the meter behind has it: makes it the two rate shaper. With `pir-th`.
        pub pir: Option<Spanned<Rate>>,
        /// Maximum information rate. Default: the line rate.
        pub mir: Option<Spanned<Rate>>,
        /// The rate of the interface.
        pub line_rate: Spanned<Rate>,
        /// Up to this occupancy of the buffer the rate is `cir`, if the arrivals are no faster.
        pub cir_th: Spanned<Bytes>,
        /// At this occupancy it is `pir`.
        pub pir_th: Option<Spanned<Bytes>>,
        /// From this occupancy on it is `mir`.
        pub mir_th: Spanned<Bytes>,
        /// The buffer. Default: a quarter more than `mir-th`.
        pub buffer: Option<Spanned<Bytes>>,
        /// The time constant of the average of the arrivals' rate. Default 100 ms: some round trips.
        pub averaging: Spanned<Span> = "100ms",
        /// Whether to look at the meter behind. Default rate.
        pub release: Release = "rate",
        /// Up to how much lateness of a timer is made up for. Default 1 ms, a coarse timer's.
        pub slack: Span = "1ms",
        /// The meter behind the shaper, and what is done about its colours. Default: none.
        pub conditioner: Option<Spanned<Metered>>,
    }
}

impl RasQueue {
    fn params(&self) -> ras::Params {
        let (cir, mir) = (self.cir.value, self.mir.map_or(self.line_rate.value, |mir| mir.value));
        let (cir_th, mir_th) = (self.cir_th.value, self.mir_th.value);
        let curve = match (self.pir, self.pir_th) {
            (Some(pir), Some(pir_th)) => Curve::Two { cir, pir: pir.value, mir, cir_th, pir_th: pir_th.value, mir_th },
            _ => Curve::Single { cir, mir, cir_th, mir_th },
        };
        let quarter_more = Bytes::new(mir_th.as_u64().saturating_add(mir_th.as_u64() / 4).max(1));
        ras::Params {
            curve,
            buffer: self.buffer.map_or(quarter_more, |buffer| buffer.value),
            line_rate: self.line_rate.value,
            averaging: self.averaging.value,
            coupling: match self.release {
                Release::Rate => ras::Coupling::Uncoupled,
                Release::Green => ras::Coupling::Green,
            },
            slack: self.slack,
        }
    }
    pub(super) fn check(&self, place: Place, diagnostics: &mut Diagnostics) {
        let lone = match (&self.pir, &self.pir_th) {
            (Some(pir), None) => Some((pir.place, "pir", "pir-th")),
            (None, Some(pir_th)) => Some((pir_th.place, "pir-th", "pir")),
            _ => None,
        };
        if let Some((place, there, missing)) = lone {
            diagnostics
                .error(place, format!("`{there}` needs `{missing}`"))
                .label("stands alone")
                .help(format!("add `{missing}`, or leave `{there}` out for the single rate shaper"));
        }
        if let Err(error) = self.params().validate() {
            let mut places = vec![
                ("cir", self.cir.place),
                ("mir_th", self.mir_th.place),
                ("averaging", self.averaging.place),
                ("mir", self.mir.map_or(self.line_rate.place, |mir| mir.place)),
            ];
            places.extend(self.pir.map(|pir| ("pir", pir.place)));
            places.extend(self.pir_th.map(|pir_th| ("pir_th", pir_th.place)));
            places.extend(self.buffer.map(|buffer| ("buffer", buffer.place)));
            fault(&error, &places, place, diagnostics);
        }
        match (&self.conditioner, self.release) {
            (Some(conditioner), release) => {
                conditioner.check(diagnostics);
                if release == Release::Green && matches!(conditioner.meter.value, Meter::TswTcm(_)) {
                    diagnostics
                        .error(conditioner.meter.place, "release = \"green\" needs a meter that can tell when")
                        .label("colours by chance")
                        .help("use srtcm, trtcm or rfc4115, or release = \"rate\"");
                }
            }
            (None, Release::Green) => {
                diagnostics
                    .error(place, "release = \"green\" needs a conditioner")
                    .label("no meter to look at")
                    .help("add conditioner = { meter = { kind = \"trtcm\", ... } }");
            }
            (None, Release::Rate) => {}
        }
    }
    pub(super) fn build<P: Packet + 'static>(&self, site: &Site) -> Box<dyn Qdisc<P>> {
        // The node has passed its check, which validates the same parameters.
        match &self.conditioner {
            Some(conditioner) => Box::new(Ras::new(self.params(), conditioner.build(site)).expect("checked")),
            None => {
                let nothing = Conditioner::new(NoMeter, Actions::default());
                Box::new(Ras::new(self.params(), nothing).expect("checked"))
            }
        }
    }
}
