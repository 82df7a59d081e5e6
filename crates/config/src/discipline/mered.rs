//! `kind = "mered"`: [`tidegate_core::mered`].

use tidegate_core::elephants::PairRule;
use tidegate_core::fifo::Limit;
use tidegate_core::meredt::Meredt;
use tidegate_core::red::Signal;
use tidegate_core::{Bytes, Packet, Probability, Qdisc, Rate, Span, ared, mered};

use super::early::Length;
use super::elephants::{self as common, Memory};
use super::section::{Section, Site};
use crate::decode::Spanned;
use crate::diagnostic::{Diagnostics, Place};

crate::record! {
    /// Mice and Elephants with one threshold: short flows first, long ones under ARED.
    pub struct MeredQueue as "mered" {
        /// The rate of the link behind it.
        pub link: Spanned<Rate>,
        /// A flow is a mouse until it has sent this much, in bytes or packets. Default: 2 s of the link, between 15 and
        /// 100 kB.
        pub threshold: Option<Spanned<Length>>,
        /// The minimum share of elephants in the bytes served while they wait. Default 0.1.
        pub floor: Spanned<Probability> = 0.1,
        /// How much service beyond the floor counts towards it later. Default 24 kB, sixteen packets: with a floor of
        /// 0.1 mice may then send 240 kB before it is an elephant's turn, which takes 34 s at 56 kbit/s.
        pub floor_credit: Bytes = "24kB",
        /// The delay that ARED aims for; only elephants wait in that queue. Default 80 ms.
        pub delay: Span = "80ms",
        /// Whether a packet that understands ECN is marked or dropped. Default mark.
        pub signal: Signal = "mark",
        /// The queue limit in bytes; half of it for elephants. Default 1500 kB.
        pub limit: Bytes = "1500kB",
        /// How flows are recorded, and which of them count together.
        pub memory: Option<Memory>,
    }
}

impl MeredQueue {
    /// The parameters of the discipline.
    pub fn params(&self) -> mered::Params {
        let base = mered::Params::for_link(self.link.value);
        let length = self.threshold.map_or(Length::Bytes(base.threshold), |threshold| threshold.value);
        let (measure, threshold, burst) = common::threshold(length);
        let pair = base.pair.map(|pair| PairRule { threshold: burst, ..pair });
        let params = mered::Params {
            measure,
            threshold,
            pair,
            ared: ared::Params { delay: self.delay, signal: self.signal, ..base.ared },
            limit: Limit { packets: common::PACKETS, bytes: self.limit },
            elephant_limit: Bytes::new(self.limit.as_u64() / 2),
            floor: self.floor.value,
            floor_credit: self.floor_credit,
            ..base
        };
        let mut elephants = params.table_driven().elephants;
        common::remember(self.memory.as_ref(), &mut elephants);
        mered::Params { flow_by: elephants.flow_by, table: elephants.table, pair: elephants.pair, ..params }
    }
}

impl Section for MeredQueue {
    fn check(&self, place: Place, diagnostics: &mut Diagnostics) {
        if common::check_link(&self.link, diagnostics)
            && common::check_threshold(self.threshold.as_ref(), diagnostics)
            && let Err(error) = self.params().validate()
        {
            let mut places = common::memory_places(self.memory.as_ref());
            places.push(("floor", self.floor.place));
            common::refuse(error, &places, place, diagnostics);
        }
    }
    fn line(&self) -> Option<Rate> {
        Some(self.link.value)
    }
    fn build<P: Packet + 'static>(&self, site: &Site) -> Box<dyn Qdisc<P>> {
        Box::new(Meredt::new(self.params().table_driven(), site.seed, &site.name).expect("checked"))
    }
}
