//! `kind = "fq-pie"`: [`tidegate_core::fq_pie`].

use tidegate_core::fifo::Limit;
use tidegate_core::fq_pie::{self, FqPie};
use tidegate_core::pie;
use tidegate_core::red::Signal;
use tidegate_core::{Bytes, Packet, Qdisc, Span};

use super::section::{Section, Site, report};
use crate::decode::Spanned;
use crate::diagnostic::{Diagnostics, Place};

crate::record! {
    /// Fair queueing with a PIE for each queue (RFC 8033, RFC 8290).
    pub struct FqPieQueue as "fq-pie" {
        /// The delay of each queue to aim for. Default 15 ms, the RFC's.
        pub target: Spanned<Span> = "15ms",
        /// A burst of this length after an idle time is let through. Default 150 ms, the RFC's.
        pub burst: Span = "150ms",
        /// Queues that flows are hashed onto. Default 1024.
        pub queues: Spanned<u32> = 1024,
        /// The quantum: bytes per turn. Default an Ethernet frame.
        pub quantum: Spanned<Bytes> = "1514B",
        /// Whether a packet that understands ECN is marked or dropped. Default mark, while the drop probability is
        /// below 10 %.
        pub signal: Signal = "mark",
        /// The queue limit in bytes. Default 4 MB.
        pub limit: Bytes = "4MB",
    }
}

impl FqPieQueue {
    /// The parameters of the discipline.
    pub fn params(&self) -> fq_pie::Params {
        let pie = pie::Params {
            target: self.target.value,
            burst: self.burst,
            signal: self.signal,
            limit: Limit { packets: 10_240, bytes: self.limit },
            ..pie::Params::default()
        };
        fq_pie::Params { pie, queues: self.queues.value, quantum: self.quantum.value }
    }
}

impl Section for FqPieQueue {
    fn check(&self, place: Place, diagnostics: &mut Diagnostics) {
        let places = [("target", self.target.place), ("queues", self.queues.place), ("quantum", self.quantum.place)];
        if let Err(error) = self.params().validate() {
            report(&error, &places, place, diagnostics);
        }
    }
    fn build<P: Packet + 'static>(&self, site: &Site) -> Box<dyn Qdisc<P>> {
        Box::new(FqPie::new(self.params(), site.seed, &site.name).expect("checked"))
    }
}
