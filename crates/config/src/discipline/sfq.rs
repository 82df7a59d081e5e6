//! `kind = "sfq"`: [`tidegate_core::sfq`].

use tidegate_core::fifo::Limit;
use tidegate_core::sfq::{self, Sfq};
use tidegate_core::{Bytes, Packet, Qdisc, Span};

use super::section::{Section, Site, report};
use crate::decode::Spanned;
use crate::diagnostic::{Diagnostics, Place};

crate::record! {
    /// Stochastic fairness queueing.
    pub struct SfqQueue as "sfq" {
        /// Queues that flows are hashed onto. Default 1024.
        pub queues: Spanned<u32> = 1024,
        /// The quantum: bytes per turn. Default an Ethernet frame.
        pub quantum: Spanned<Bytes> = "1514B",
        /// How often the hash changes. Default 10 s.
        pub perturb: Spanned<Span> = "10s",
        /// The queue limit in bytes. Default 1 MB.
        pub limit: Bytes = "1MB",
    }
}

impl SfqQueue {
    /// The parameters of the discipline.
    pub fn params(&self, seed: u64) -> sfq::Params {
        sfq::Params {
            queues: self.queues.value,
            quantum: self.quantum.value,
            limit: Limit::bytes(self.limit),
            perturb: Some(self.perturb.value),
            seed,
        }
    }
}

impl Section for SfqQueue {
    fn check(&self, place: Place, diagnostics: &mut Diagnostics) {
        let places = [("queues", self.queues.place), ("quantum", self.quantum.place), ("perturb", self.perturb.place)];
        if let Err(error) = self.params(0).validate() {
            report(&error, &places, place, diagnostics);
        }
    }
    fn build<P: Packet + 'static>(&self, site: &Site) -> Box<dyn Qdisc<P>> {
        Box::new(Sfq::new(self.params(site.seed)).expect("checked"))
    }
}
