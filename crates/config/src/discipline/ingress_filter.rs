//! `kind = "ingress-filter"`: [`tidegate_core::ingress`].

use tidegate_core::aqm::AqmFifo;
use tidegate_core::elephants::ValueTable;
use tidegate_core::fifo::Limit;
use tidegate_core::ingress::{self, Ingress};
use tidegate_core::red::Signal;
use tidegate_core::{Packet, Probability, Qdisc, Rate};

use super::early::Length;
use super::elephants::{self as common, Memory};
use super::section::{Section, Site};
use crate::decode::Spanned;
use crate::diagnostic::{Diagnostics, Place};

crate::record! {
    /// Mice and Elephants for ingress, without a queue: elephants are dropped before the line is full.
    pub struct IngressQueue as "ingress-filter" {
        /// The rate of the incoming line. Elephants get what mice leave of 95 % of this rate.
        pub link: Spanned<Rate>,
        /// A flow is a mouse until it has sent this much, in bytes or packets. Default 100 kB.
        pub threshold: Spanned<Length> = "100kB",
        /// The minimum share of elephants in the bytes that pass. Default 0.1.
        pub floor: Spanned<Probability> = 0.1,
        /// Whether a packet that understands ECN is marked or dropped. Default mark.
        pub signal: Signal = "mark",
        /// How flows are recorded, and which of them count together.
        pub memory: Option<Memory>,
    }
}

impl IngressQueue {
    /// The parameters of the filter.
    pub fn params(&self) -> ingress::Params {
        let mut params = ingress::Params::for_line(self.link.value);
        let (measure, threshold, burst) = common::threshold(self.threshold.value);
        params.elephants.measure = measure;
        params.elephants.value = ValueTable::step(threshold);
        if let Some(pair) = &mut params.elephants.pair {
            pair.threshold = burst;
        }
        params.ared.signal = self.signal;
        params.floor = self.floor.value;
        common::remember(self.memory.as_ref(), &mut params.elephants);
        params
    }
    /// Packets pass at once; the limit only matters if a data path falls behind.
    pub fn limit(&self) -> Limit {
        Limit::packets(common::PACKETS)
    }
}

impl Section for IngressQueue {
    fn check(&self, place: Place, diagnostics: &mut Diagnostics) {
        if common::check_link(&self.link, diagnostics)
            && common::check_threshold(Some(&self.threshold), diagnostics)
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
        let filter = Ingress::new(self.params(), site.seed, &site.name).expect("checked");
        Box::new(AqmFifo::new(self.limit(), filter))
    }
}
