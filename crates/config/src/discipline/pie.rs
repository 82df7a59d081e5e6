//! `kind = "pie"`: [`tidegate_core::pie`].

use tidegate_core::fifo::Limit;
use tidegate_core::pie::{self, Pie};
use tidegate_core::red::Signal;
use tidegate_core::{Bytes, Packet, Qdisc, Span};

use super::section::{Section, Site, report};
use crate::decode::Spanned;
use crate::diagnostic::{Diagnostics, Place};

crate::record! {
    /// Proportional integral controller, enhanced (RFC 8033).
    pub struct PieQueue as "pie" {
        /// The delay to aim for. Default 15 ms, the RFC's.
        pub target: Spanned<Span> = "15ms",
        /// A burst of this length after an idle time is let through. Default 150 ms, the RFC's.
        pub burst: Span = "150ms",
        /// Whether a packet that understands ECN is marked or dropped. Default mark, while the drop probability is
        /// below 10 %.
        pub signal: Signal = "mark",
        /// The queue limit in bytes. Default 1 MB.
        pub limit: Bytes = "1MB",
    }
}

impl PieQueue {
    /// The parameters of the discipline.
    pub fn params(&self) -> pie::Params {
        pie::Params {
            target: self.target.value,
            burst: self.burst,
            signal: self.signal,
            limit: Limit::bytes(self.limit),
            ..pie::Params::default()
        }
    }
}

impl Section for PieQueue {
    fn check(&self, place: Place, diagnostics: &mut Diagnostics) {
        if let Err(error) = self.params().validate() {
            report(&error, &[("target", self.target.place)], place, diagnostics);
        }
    }
    fn build<P: Packet + 'static>(&self, site: &Site) -> Box<dyn Qdisc<P>> {
        Box::new(Pie::new(self.params(), site.seed, &site.name).expect("checked"))
    }
}
