//! `kind = "ras"`: [`tidegate_core::ras`].

use tidegate_core::marker::{Actions, Conditioner};
use tidegate_core::meter::NoMeter;
use tidegate_core::ras::{self, Coupling, Curve, Ras};
use tidegate_core::{Bytes, Packet, Qdisc, Rate, Span};

use super::meter::{Meter, Metered};
use super::section::{Section, Site, report};
use crate::decode::Spanned;
use crate::diagnostic::{Diagnostics, Place};

crate::choices! {
    impl "release" for Coupling {
        /// When the shaping rate allows it.
        Uncoupled = "rate",
        /// Earlier if the meter would colour the packet green.
        Green = "green",
    }
}

crate::record! {
    /// A rate adaptive shaper (RFC 2963): delays bursts so that more of their packets conform to the agreed profile,
    /// and speeds up before the buffer would overflow.
    pub struct RasQueue as "ras" {
        /// Committed information rate: the lowest rate, equal to that of the meter downstream.
        pub cir: Spanned<Rate>,
        /// Peak information rate, equal to that of the meter downstream; selects the two rate shaper. Requires
        /// `pir-th`.
        pub pir: Option<Spanned<Rate>>,
        /// Maximum information rate. Default: the line rate.
        pub mir: Option<Spanned<Rate>>,
        /// The rate of the interface.
        pub line_rate: Spanned<Rate>,
        /// Up to this occupancy of the buffer the rate is `cir`, unless packets arrive faster. Default: the committed burst of
        /// the meter, since what waits beyond that is delayed for nothing: the experiment `thresholds` of RFC 2963 has the
        /// most goodput there, whatever the round trip.
        pub cir_th: Option<Spanned<Bytes>>,
        /// At this occupancy the rate is `pir`. Default: the meter's peak or excess burst, at least `cir-th`.
        pub pir_th: Option<Spanned<Bytes>>,
        /// From this occupancy on the rate is `mir`. Default: twice the peak or excess burst, at least twice `pir-th` or `cir-th`.
        pub mir_th: Option<Spanned<Bytes>>,
        /// The size of the buffer. Default: a quarter more than `mir-th`, and at least 100 ms of the line, so that the shaper
        /// drops nothing that a line of its rate brings.
        pub buffer: Option<Spanned<Bytes>>,
        /// The time constant of the average arrival rate. Default 100 ms: a few round trips.
        pub averaging: Spanned<Span> = "100ms",
        /// Whether to consider the meter downstream. Default rate.
        pub release: Coupling = "rate",
        /// How much timer lateness is compensated. Default 1 ms, that of a coarse timer.
        pub slack: Span = "1ms",
        /// The meter behind the shaper, and the action for each colour. Default: none.
        pub conditioner: Option<Spanned<Metered>>,
    }
}

/// The occupancies at which the rate changes.
struct Thresholds {
    cir: Bytes,
    pir: Bytes,
    mir: Bytes,
}

/// A threshold of more than so many committed bursts costs goodput, see the experiment `thresholds` of RFC 2963.
const MOST_BURSTS: u64 = 8;

impl RasQueue {
    /// The bursts of the meter behind the shaper; zero without one.
    fn bursts(&self) -> Option<[Bytes; 2]> {
        self.conditioner.as_ref().and_then(|conditioner| conditioner.meter.value.bursts())
    }

    fn thresholds(&self) -> Thresholds {
        let [cbs, peak] = self.bursts().unwrap_or_default();
        let given = |threshold: Option<Spanned<Bytes>>| threshold.map(|threshold| threshold.value);
        let cir = given(self.cir_th).unwrap_or(cbs);
        let pir = given(self.pir_th).unwrap_or(peak.max(cir));
        let mir = given(self.mir_th).unwrap_or(pir.max(cir).saturating_mul(2));
        Thresholds { cir, pir, mir }
    }

    /// The parameters of the shaper, with what follows from others in place of what is not given.
    pub fn params(&self) -> ras::Params {
        let (cir, mir) = (self.cir.value, self.mir.map_or(self.line_rate.value, |mir| mir.value));
        let Thresholds { cir: cir_th, pir: pir_th, mir: mir_th } = self.thresholds();
        let curve = match self.pir {
            Some(pir) => Curve::Two { cir, pir: pir.value, mir, cir_th, pir_th, mir_th },
            None => Curve::Single { cir, mir, cir_th, mir_th },
        };
        let quarter_more = Bytes::new(mir_th.as_u64().saturating_add(mir_th.as_u64() / 4).max(1));
        let room = quarter_more.max(self.line_rate.value.bytes_in_floor(Span::from_millis(100)));
        ras::Params {
            curve,
            buffer: self.buffer.map_or(room, |buffer| buffer.value),
            line_rate: self.line_rate.value,
            averaging: self.averaging.value,
            coupling: self.release,
            slack: self.slack,
        }
    }
}

impl RasQueue {
    /// Reports thresholds that are missing without a meter that has bursts, and those that are far beyond its bursts.
    fn check_thresholds(&self, place: Place, diagnostics: &mut Diagnostics) {
        if let (None, Some(pir_th)) = (&self.pir, &self.pir_th) {
            diagnostics
                .error(pir_th.place, "`pir-th` needs `pir`")
                .label("stands alone")
                .help("add `pir`, or leave `pir-th` out for the single rate shaper");
        }
        let Some([cbs, _]) = self.bursts() else {
            let all = [
                ("cir-th", self.cir_th.is_none()),
                ("pir-th", self.pir.is_some() && self.pir_th.is_none()),
                ("mir-th", self.mir_th.is_none()),
            ];
            for (key, _) in all.into_iter().filter(|(_, missing)| *missing) {
                diagnostics
                    .error(place, format!("`{key}` is missing"))
                    .label("has no default here")
                    .help("write it, or add a conditioner with srtcm, trtcm or rfc4115, whose bursts it follows from");
            }
            return;
        };
        if let Some(cir_th) = self.cir_th.filter(|cir_th| cir_th.value > cbs.saturating_mul(MOST_BURSTS)) {
            diagnostics
                .warning(cir_th.place, format!("more than {MOST_BURSTS} times the committed burst of the meter, {cbs}"))
                .label("delays bursts that need not wait")
                .help(format!(
                    "leave it out, for {cbs}: with TCP, thresholds far beyond the bursts cost goodput, with few connections up to \
                     a third (RFC 2963)"
                ));
        }
    }
}

impl Section for RasQueue {
    fn check(&self, place: Place, diagnostics: &mut Diagnostics) {
        self.check_thresholds(place, diagnostics);
        if let Err(error) = self.params().validate() {
            let mut places = vec![
                ("cir", self.cir.place),
                ("averaging", self.averaging.place),
                ("mir", self.mir.map_or(self.line_rate.place, |mir| mir.place)),
            ];
            places.extend(self.pir.map(|pir| ("pir", pir.place)));
            places.extend(self.cir_th.map(|cir_th| ("cir_th", cir_th.place)));
            places.extend(self.mir_th.map(|mir_th| ("mir_th", mir_th.place)));
            places.extend(self.pir_th.map(|pir_th| ("pir_th", pir_th.place)));
            places.extend(self.buffer.map(|buffer| ("buffer", buffer.place)));
            report(&error, &places, place, diagnostics);
        }
        match (&self.conditioner, self.release) {
            (Some(conditioner), release) => {
                conditioner.check(diagnostics);
                if release == Coupling::Green && matches!(conditioner.meter.value, Meter::TswTcm(_)) {
                    diagnostics
                        .error(conditioner.meter.place, "release = \"green\" needs a meter that computes the time")
                        .label("colours by chance")
                        .help("use srtcm, trtcm or rfc4115, or release = \"rate\"");
                }
            }
            (None, Coupling::Green) => {
                diagnostics
                    .error(place, "release = \"green\" needs a conditioner")
                    .label("there is no meter to consider")
                    .help("add conditioner = { meter = { kind = \"trtcm\", ... } }");
            }
            (None, Coupling::Uncoupled) => {}
        }
    }
    fn line(&self) -> Option<Rate> {
        Some(self.line_rate.value)
    }
    fn build<P: Packet + 'static>(&self, site: &Site) -> Box<dyn Qdisc<P>> {
        match &self.conditioner {
            Some(conditioner) => Box::new(Ras::new(self.params(), conditioner.build(site)).expect("checked")),
            None => {
                let nothing = Conditioner::new(NoMeter, Actions::default());
                Box::new(Ras::new(self.params(), nothing).expect("checked"))
            }
        }
    }
}
