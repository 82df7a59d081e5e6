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
        /// Up to this occupancy of the buffer the rate is `cir`, unless packets arrive faster.
        pub cir_th: Spanned<Bytes>,
        /// At this occupancy the rate is `pir`.
        pub pir_th: Option<Spanned<Bytes>>,
        /// From this occupancy on the rate is `mir`.
        pub mir_th: Spanned<Bytes>,
        /// The size of the buffer. Default: a quarter more than `mir-th`.
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
            coupling: self.release,
            slack: self.slack,
        }
    }
}

impl Section for RasQueue {
    fn check(&self, place: Place, diagnostics: &mut Diagnostics) {
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
