//! `kind = "wred"`: [`tidegate_core::wred`].

use tidegate_core::wred::{self, Selector, Wred};
use tidegate_core::{Bytes, Packet, Qdisc};

use super::early::{self, Early, Precedence};
use super::section::{Section, Site};
use crate::decode::Spanned;
use crate::diagnostic::{Diagnostics, Place};

crate::record! {
    /// RED with one average and a curve for each colour; the colours come from a meter upstream.
    pub struct WredQueue as "wred" {
        /// The curve of green packets, which conform to the committed rate.
        pub green: Spanned<Precedence>,
        /// The curve of yellow packets, which conform to the excess or peak rate.
        pub yellow: Spanned<Precedence>,
        /// The curve of red packets, which conform to no rate.
        pub red: Spanned<Precedence>,
        /// The queue limit in bytes. Default 1 MB.
        pub limit: Bytes = "1MB",
        /// How the average queue is computed, and how drops are spread.
        pub early: Option<Early>,
    }
}

impl WredQueue {
    /// The parameters of the discipline.
    pub fn params(&self) -> wred::Params {
        let profiles = vec![self.green.profile(), self.yellow.profile(), self.red.profile()];
        wred::Params { profiles, selector: Selector::Colour, early: Early::params(self.early.as_ref()) }
    }
}

impl Section for WredQueue {
    fn check(&self, place: Place, diagnostics: &mut Diagnostics) {
        let precedences = [&self.green, &self.yellow, &self.red];
        early::check_precedences(precedences, self.early.as_ref(), place, diagnostics, || self.params().validate());
    }
    fn build<P: Packet + 'static>(&self, site: &Site) -> Box<dyn Qdisc<P>> {
        early::queue(self.limit, Wred::new(self.params(), site.seed, &site.name).expect("checked"))
    }
}
