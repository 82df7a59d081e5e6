//! `kind = "drr"`: [`tidegate_core::drr`].

use tidegate_core::drr::{self, Drr};
use tidegate_core::fifo::Limit;
use tidegate_core::{Bytes, Packet, Qdisc, Span};

use super::section::{Section, Site, report, step};
use crate::decode::Spanned;
use crate::diagnostic::{Diagnostics, Place};

crate::record! {
    /// Deficit round robin over exact flows.
    pub struct DrrQueue as "drr" {
        /// The quantum: bytes per turn. Default an Ethernet frame.
        pub quantum: Spanned<Bytes> = "1514B",
        /// The delay from which packets of ECT(1), the code point of scalable senders (L4S), are marked, if two more packets of
        /// their flow wait. 1ms is usual. Default: they are treated as all others.
        pub l4s_step: Option<Spanned<Span>>,
        /// The queue limit in bytes. Default 1 MB.
        pub limit: Bytes = "1MB",
    }
}

impl DrrQueue {
    /// The parameters of the discipline.
    pub fn params(&self) -> drr::Params {
        drr::Params {
            quantum: self.quantum.value,
            step: step(self.l4s_step),
            limit: Limit::bytes(self.limit),
            ..drr::Params::default()
        }
    }
}

impl Section for DrrQueue {
    fn check(&self, place: Place, diagnostics: &mut Diagnostics) {
        if let Err(error) = self.params().validate() {
            let l4s_step = self.l4s_step.map_or(place, |step| step.place);
            report(&error, &[("quantum", self.quantum.place), ("l4s_step", l4s_step)], place, diagnostics);
        }
    }
    fn build<P: Packet + 'static>(&self, _site: &Site) -> Box<dyn Qdisc<P>> {
        Box::new(Drr::new(self.params()).expect("checked"))
    }
}
