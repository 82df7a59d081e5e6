//! `kind = "ared"`: [`tidegate_core::ared`].

use tidegate_core::aqm::AqmFifo;
use tidegate_core::ared::{self, Ared};
use tidegate_core::fifo::Limit;
use tidegate_core::red::Signal;
use tidegate_core::{Bytes, Packet, Qdisc, Rate, Span};

use super::section::{Section, Site, report};
use crate::decode::Spanned;
use crate::diagnostic::{Diagnostics, Place};

crate::record! {
    /// Random early detection that derives its parameters from the rate of the link.
    pub struct AredQueue as "ared" {
        /// The rate of the link behind it.
        pub link: Spanned<Rate>,
        /// The average delay to aim for. Default 5 ms, the paper's.
        pub delay: Span = "5ms",
        /// Whether a packet that understands ECN is marked or dropped. Default mark.
        pub signal: Signal = "mark",
        /// The queue limit in bytes. Default 1 MB.
        pub limit: Bytes = "1MB",
    }
}

impl AredQueue {
    /// The parameters of the discipline.
    pub fn params(&self) -> ared::Params {
        ared::Params { delay: self.delay, signal: self.signal, ..ared::Params::for_link(self.link.value) }
    }
}

impl Section for AredQueue {
    fn check(&self, place: Place, diagnostics: &mut Diagnostics) {
        if let Err(error) = self.params().red() {
            report(&error, &[("link", self.link.place)], place, diagnostics);
        }
    }
    fn line(&self) -> Option<Rate> {
        Some(self.link.value)
    }
    fn build<P: Packet + 'static>(&self, site: &Site) -> Box<dyn Qdisc<P>> {
        let ared = Ared::new(self.params(), site.seed, &site.name).expect("checked");
        Box::new(AqmFifo::new(Limit::bytes(self.limit), ared))
    }
}
