//! The meters of the sections `marker` and `ras`, and the actions for their colours.

use serde_json::{Value as Json, json};
use tidegate_core::marker::{Action, Actions, Conditioner};
use tidegate_core::meter::{AnyMeter, Mode};
use tidegate_core::rfc4115::Rfc4115;
use tidegate_core::srtcm::SrTcm;
use tidegate_core::trtcm::TrTcm;
use tidegate_core::tswtcm::TswTcm;
use tidegate_core::{Bytes, Dscp, ParamError, Rate, Span};
use tidegate_core::{rfc4115, srtcm, trtcm, tswtcm};

use super::section::{Site, report};
use crate::decode::{Scalar, Spanned, Wrong};
use crate::diagnostic::{Diagnostics, Place};

crate::choices! {
    impl "mode" for Mode {
        /// The colour of an arriving packet is ignored.
        Blind = "blind",
        /// Packets arrive coloured by another meter, and never get a better colour.
        Aware = "aware",
    }
}

crate::record! {
    /// The single rate three colour marker of RFC 2697.
    pub struct SrTcmMeter as "srtcm meter" {
        /// Committed information rate.
        pub cir: Rate,
        /// Committed burst size; at least the largest packet, which would otherwise never be green.
        pub cbs: Spanned<Bytes>,
        /// Excess burst size. Default 0: packets that are not green are red.
        pub ebs: Bytes = "0B",
        /// Whether the colour of an arriving packet counts. Default blind.
        pub mode: Mode = "blind",
    }
}

crate::record! {
    /// The two rate three colour marker of RFC 2698.
    pub struct TrTcmMeter as "trtcm meter" {
        /// Committed information rate.
        pub cir: Rate,
        /// Committed burst size; at least the largest packet, which would otherwise never be green.
        pub cbs: Bytes,
        /// Peak information rate, at least `cir`.
        pub pir: Spanned<Rate>,
        /// Peak burst size; at least the largest packet, which would otherwise always be red.
        pub pbs: Spanned<Bytes>,
        /// Whether the colour of an arriving packet counts. Default blind.
        pub mode: Mode = "blind",
    }
}

crate::record! {
    /// The two rate meter of RFC 4115, where yellow traffic never harms green.
    pub struct Rfc4115Meter as "rfc4115 meter" {
        /// Committed information rate.
        pub cir: Spanned<Rate>,
        /// Committed burst size; at least the largest packet, which would otherwise never be green.
        pub cbs: Spanned<Bytes>,
        /// Excess information rate, beyond `cir`.
        pub eir: Rate,
        /// Excess burst size.
        pub ebs: Bytes,
        /// Whether the colour of an arriving packet counts. Default blind.
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
        /// Whether the colour of an arriving packet counts. Default blind.
        pub mode: Mode = "blind",
    }
}

crate::choice! {
    /// A meter that colours packets.
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
    /// The committed burst and the peak or excess burst; `None` where the meter has no buckets.
    pub(super) fn bursts(&self) -> Option<[Bytes; 2]> {
        match self {
            Self::SrTcm(m) => Some([m.cbs.value, m.ebs]),
            Self::TrTcm(m) => Some([m.cbs, m.pbs.value]),
            Self::Rfc4115(m) => Some([m.cbs.value, m.ebs]),
            Self::TswTcm(_) => None,
        }
    }
    fn build(&self, site: &Site) -> Result<AnyMeter, ParamError> {
        Ok(match self {
            Self::SrTcm(m) => {
                let params = srtcm::Params { cir: m.cir, cbs: m.cbs.value, ebs: m.ebs, mode: m.mode };
                AnyMeter::SrTcm(SrTcm::new(params, site.now)?)
            }
            Self::TrTcm(m) => {
                let (pir, pbs) = (m.pir.value, m.pbs.value);
                let params = trtcm::Params { cir: m.cir, cbs: m.cbs, pir, pbs, mode: m.mode };
                AnyMeter::TrTcm(TrTcm::new(params, site.now)?)
            }
            Self::Rfc4115(m) => {
                let (cir, cbs) = (m.cir.value, m.cbs.value);
                let params = rfc4115::Params { cir, cbs, eir: m.eir, ebs: m.ebs, mode: m.mode };
                AnyMeter::Rfc4115(Rfc4115::new(params, site.now)?)
            }
            Self::TswTcm(m) => {
                let (ptr, window) = (m.ptr.value, m.window.value);
                let params = tswtcm::Params { ctr: m.ctr, ptr, window, mode: m.mode };
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
            report(&error, places, place, diagnostics);
        }
    }
}

/// The action for packets of a colour: `"pass"`, `"drop"`, or a code point to mark with.
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
    /// A meter, and the actions for its colours.
    pub struct Metered as "conditioner" {
        /// The meter that colours packets.
        pub meter: Spanned<Meter>,
        /// Marks the colours with the drop precedences of this assured forwarding class, 1 to 4. Default: no marks.
        pub class: Option<Spanned<u8>>,
        /// The action for green packets instead: pass, drop, or a code point.
        pub green: Option<Does>,
        /// The action for yellow packets instead.
        pub yellow: Option<Does>,
        /// The action for red packets instead.
        pub red: Option<Does>,
    }
}

impl Metered {
    pub(super) fn check(&self, diagnostics: &mut Diagnostics) {
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
    /// The meter, with the actions for its colours.
    ///
    /// # Panics
    /// When it has not passed its check.
    pub fn build(&self, site: &Site) -> Conditioner<AnyMeter> {
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
