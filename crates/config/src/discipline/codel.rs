//! `kind = "codel"`: [`tidegate_core::codel`].

use tidegate_core::codel::{self, CoDel};
use tidegate_core::fifo::Limit;
use tidegate_core::red::Signal;
use tidegate_core::{Bytes, Packet, Qdisc, Span};

use super::section::{Section, Site, report};
use crate::decode::Spanned;
use crate::diagnostic::{Diagnostics, Place};

crate::record! {
    /// Controlled delay (RFC 8289).
    pub struct CoDelQueue as "codel" {
        /// The standing delay that is tolerated. Default 5 ms, the RFC's; on a line below 4 Mbit/s at least one and a
        /// half packets' time.
        pub target: Spanned<Span> = "5ms",
        /// How long it must persist before the first drop. Default 100 ms, the RFC's: a long round trip.
        pub interval: Spanned<Span> = "100ms",
        /// The longest delay if a sender ignores drops: packets that waited longer are dropped once the queue has been
        /// above the target for two intervals. Default none, as in the RFC; such a sender fills the queue up to its
        /// limit.
        pub longest: Option<Spanned<Span>>,
        /// Whether a packet that understands ECN is marked or dropped. Default mark.
        pub signal: Signal = "mark",
        /// The queue limit in bytes. Default 1 MB.
        pub limit: Bytes = "1MB",
    }
}

impl CoDelQueue {
    /// The parameters of the discipline.
    pub fn params(&self) -> codel::Params {
        codel::Params {
            target: self.target.value,
            interval: self.interval.value,
            longest: self.longest.map(|longest| longest.value),
            signal: self.signal,
            limit: Limit::bytes(self.limit),
            ..codel::Params::default()
        }
    }
}

impl Section for CoDelQueue {
    fn check(&self, place: Place, diagnostics: &mut Diagnostics) {
        if let Err(error) = self.params().validate() {
            report(&error, &[("target", self.target.place), ("interval", self.interval.place)], place, diagnostics);
        }
    }
    fn build<P: Packet + 'static>(&self, _site: &Site) -> Box<dyn Qdisc<P>> {
        Box::new(CoDel::new(self.params()).expect("checked"))
    }
}
