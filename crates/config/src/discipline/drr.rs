//! `kind = "drr"`: [`tidegate_core::drr`].

use tidegate_core::drr::{self, Drr};
use tidegate_core::fifo::Limit;
use tidegate_core::{Bytes, Packet, Qdisc};

use super::section::{Section, Site, report};
use crate::decode::Spanned;
use crate::diagnostic::{Diagnostics, Place};

crate::record! {
    /// Deficit round robin over exact flows.
    pub struct DrrQueue as "drr" {
        /// The quantum: bytes per turn. Default an Ethernet frame.
        pub quantum: Spanned<Bytes> = "1514B",
        /// The queue limit in bytes. Default 1 MB.
        pub limit: Bytes = "1MB",
    }
}

impl DrrQueue {
    /// The parameters of the discipline.
    pub fn params(&self) -> drr::Params {
        drr::Params { quantum: self.quantum.value, limit: Limit::bytes(self.limit), ..drr::Params::default() }
    }
}

impl Section for DrrQueue {
    fn check(&self, place: Place, diagnostics: &mut Diagnostics) {
        if let Err(error) = self.params().validate() {
            report(&error, &[("quantum", self.quantum.place)], place, diagnostics);
        }
    }
    fn build<P: Packet + 'static>(&self, _site: &Site) -> Box<dyn Qdisc<P>> {
        Box::new(Drr::new(self.params()).expect("checked"))
    }
}
