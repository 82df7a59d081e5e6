//! `kind = "fq-codel"`: [`tidegate_core::fq_codel`].

use tidegate_core::codel;
use tidegate_core::fifo::Limit;
use tidegate_core::fq_codel::{self, FqCodel};
use tidegate_core::red::Signal;
use tidegate_core::{Bytes, Packet, Qdisc, Span};

use super::section::{Section, Site, report, step};
use crate::decode::Spanned;
use crate::diagnostic::{Diagnostics, Place};

crate::record! {
    /// Fair queueing with a CoDel for each queue (RFC 8290).
    pub struct FqCodelQueue as "fq-codel" {
        /// The standing delay that is tolerated. Default 5 ms, the RFC's.
        pub target: Spanned<Span> = "5ms",
        /// How long it must persist before the first drop. Default 100 ms, the RFC's.
        pub interval: Spanned<Span> = "100ms",
        /// The longest delay if a sender ignores drops: packets that waited longer are dropped once the queue has been
        /// above the target for two intervals. Default none, as in the RFC; such a sender fills the queue up to its
        /// limit.
        pub longest: Option<Spanned<Span>>,
        /// Queues that flows are hashed onto. Default 1024, the RFC's.
        pub queues: Spanned<u32> = 1024,
        /// The quantum: bytes per turn. Default an Ethernet frame, the RFC's.
        pub quantum: Spanned<Bytes> = "1514B",
        /// Whether a packet that understands ECN is marked or dropped. Default mark.
        pub signal: Signal = "mark",
        /// The delay from which packets of ECT(1), the code point of scalable senders (L4S), are marked, if two more packets of
        /// their flow wait. 1ms is usual. Default: they are treated as all others.
        pub l4s_step: Option<Spanned<Span>>,
        /// The queue limit in bytes. Default 4 MB.
        pub limit: Bytes = "4MB",
    }
}

impl FqCodelQueue {
    /// The parameters of the discipline.
    pub fn params(&self) -> fq_codel::Params {
        let codel = codel::Params {
            target: self.target.value,
            interval: self.interval.value,
            longest: self.longest.map(|longest| longest.value),
            signal: self.signal,
            limit: Limit { packets: 10_240, bytes: self.limit },
            ..codel::Params::default()
        };
        fq_codel::Params { codel, queues: self.queues.value, quantum: self.quantum.value, step: step(self.l4s_step) }
    }
}

impl Section for FqCodelQueue {
    fn check(&self, place: Place, diagnostics: &mut Diagnostics) {
        let places = [
            ("target", self.target.place),
            ("interval", self.interval.place),
            ("queues", self.queues.place),
            ("quantum", self.quantum.place),
            ("l4s_step", self.l4s_step.map_or(place, |step| step.place)),
        ];
        if let Err(error) = self.params().validate() {
            report(&error, &places, place, diagnostics);
        }
    }
    fn build<P: Packet + 'static>(&self, _site: &Site) -> Box<dyn Qdisc<P>> {
        Box::new(FqCodel::new(self.params()).expect("checked"))
    }
}
