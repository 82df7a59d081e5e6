//! `kind = "fifo"`: [`tidegate_core::fifo`].

use tidegate_core::fifo::{self, Limit};
use tidegate_core::{Bytes, Packet, Qdisc};

use super::section::{Section, Site};
use crate::decode::Spanned;
use crate::diagnostic::{Diagnostics, Place};

crate::record! {
    /// First in, first out. Packets that arrive at a full queue are dropped.
    pub struct Fifo as "fifo" {
        /// The queue limit in bytes. Default 1 MB: 80 ms at 100 Mbit/s, what plain interfaces keep.
        pub limit: Spanned<Bytes> = "1MB",
        /// The queue limit in packets. Default: only the limit in bytes.
        pub packets: Option<Spanned<u64>>,
    }
}

impl Fifo {
    /// Returns the section with every default.
    pub(super) fn plain() -> Self {
        Self { limit: Spanned { value: Bytes::new(1_000_000), place: Place::default() }, packets: None }
    }

    /// The most that is queued.
    pub fn limit(&self) -> Limit {
        Limit { packets: self.packets.map_or(u64::MAX, |packets| packets.value), bytes: self.limit.value }
    }
}

impl Section for Fifo {
    fn check(&self, _place: Place, diagnostics: &mut Diagnostics) {
        if self.limit.value == Bytes::ZERO {
            diagnostics
                .error(self.limit.place, "a queue of no bytes drops everything")
                .label("nothing fits")
                .help("write at least the largest packet, for example \"1500B\"");
        }
        if let Some(packets) = &self.packets
            && packets.value == 0
        {
            diagnostics
                .error(packets.place, "a queue of no packets drops everything")
                .label("nothing fits")
                .help("write at least 1, or leave the key out");
        }
    }

    fn build<P: Packet + 'static>(&self, _site: &Site) -> Box<dyn Qdisc<P>> {
        Box::new(fifo::Fifo::new(self.limit()))
    }
}
