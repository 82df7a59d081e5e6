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

impl WredQueue {
    fn params(&self) -> wred::Params {
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
