//! `kind = "red"`: [`tidegate_core::red`].

use tidegate_core::red::{self, Profile, Red};
use tidegate_core::{Bytes, Packet, Probability, Qdisc};

use super::early::{self, Early, Length};
use super::section::{Section, Site, report};
use crate::decode::Spanned;
use crate::diagnostic::{Diagnostics, Place};

crate::record! {
    /// Random early detection: drops or marks before the queue is full.
    pub struct RedQueue as "red" {
        /// Below this average nothing is dropped: `"30kB"` or `"20 packets"`.
        pub min_th: Spanned<Length>,
        /// Above this average `above-max` applies; in the same unit. Three times the lower is common.
        pub max_th: Spanned<Length>,
        /// The probability at the upper threshold. Default 0.1, the paper's.
        pub max_p: Spanned<Probability> = 0.1,
        /// The queue limit in bytes. Default 1 MB.
        pub limit: Bytes = "1MB",
        /// How the average queue is computed, and how drops are spread.
        pub early: Option<Early>,
    }
}

impl RedQueue {
    /// The parameters of the discipline.
    pub fn params(&self) -> red::Params {
        let thresholds = early::thresholds(self.min_th.value, self.max_th.value);
        red::Params {
            profile: Profile { thresholds, max_p: self.max_p.value },
            early: Early::params(self.early.as_ref()),
        }
    }
}

impl Section for RedQueue {
    fn check(&self, place: Place, diagnostics: &mut Diagnostics) {
        early::same_unit(&self.min_th, &self.max_th, diagnostics);
        if let Err(error) = self.params().validate() {
            let mut places = Early::places(self.early.as_ref());
            places.extend([("max_th", self.max_th.place), ("max_p", self.max_p.place)]);
            report(&error, &places, place, diagnostics);
        }
    }
    fn build<P: Packet + 'static>(&self, site: &Site) -> Box<dyn Qdisc<P>> {
        early::queue(self.limit, Red::new(self.params(), site.seed, &site.name).expect("checked"))
    }
}
