//! `kind = "rio"`: [`tidegate_core::rio`].

use tidegate_core::rio::{self, Coupling, Rio};
use tidegate_core::{Bytes, Packet, Qdisc};

use super::early::{self, Early, Precedence};
use super::section::{Section, Site};
use crate::decode::Spanned;
use crate::diagnostic::{Diagnostics, Place};

crate::choices! {
    impl "coupling" for Coupling {
        /// Packets of its colour and of better ones.
        Coupled = "coupled",
        /// Packets of its colour only.
        Uncoupled = "uncoupled",
    }
}

crate::record! {
    /// RED with an average for each drop precedence; the colours come from a meter upstream.
    pub struct RioQueue as "rio" {
        /// The curve of green packets, which conform to the committed rate.
        pub green: Spanned<Precedence>,
        /// The curve of yellow packets, which conform to the excess or peak rate.
        pub yellow: Spanned<Precedence>,
        /// The curve of red packets, which conform to no rate.
        pub red: Spanned<Precedence>,
        /// Which packets an average counts. Default coupled: green is never dropped for red.
        pub coupling: Coupling = "coupled",
        /// The queue limit in bytes. Default 1 MB.
        pub limit: Bytes = "1MB",
        /// How the average queues are computed, and how drops are spread.
        pub early: Option<Early>,
    }
}

impl RioQueue {
    /// The parameters of the discipline.
    pub fn params(&self) -> rio::Params {
        rio::Params {
            green: self.green.profile(),
            yellow: self.yellow.profile(),
            red: self.red.profile(),
            coupling: self.coupling,
            early: Early::params(self.early.as_ref()),
        }
    }
}

impl Section for RioQueue {
    fn check(&self, place: Place, diagnostics: &mut Diagnostics) {
        let precedences = [&self.green, &self.yellow, &self.red];
        early::check_precedences(precedences, self.early.as_ref(), place, diagnostics, || self.params().validate());
    }
    fn build<P: Packet + 'static>(&self, site: &Site) -> Box<dyn Qdisc<P>> {
        early::queue(self.limit, Rio::new(self.params(), site.seed, &site.name).expect("checked"))
    }
}
