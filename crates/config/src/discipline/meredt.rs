//! `kind = "meredt"`: [`tidegate_core::meredt`].

use tidegate_core::elephants::ValueTable;
use tidegate_core::fifo::Limit;
use tidegate_core::meredt::{self, Meredt};
use tidegate_core::red::Signal;
use tidegate_core::{Bytes, Packet, ParamError, Probability, Qdisc, Rate, Span, ared};

use super::elephants::{self as common, Memory};
use super::section::{Section, Site};
use crate::decode::Spanned;
use crate::diagnostic::{Diagnostics, Place};

crate::record! {
    /// A point of the value of a flow by its length.
    pub struct Point as "value point" {
        /// Bytes that the flow sent.
        pub length: Bytes,
        /// The value of the flow at this length; it is interpolated linearly up to the next point. A flow of value 0 is
        /// a mouse.
        pub value: u16,
    }
}

crate::record! {
    /// Mice and Elephants with a value that grows with the length of a flow.
    pub struct MeredtQueue as "meredt" {
        /// The rate of the link behind it.
        pub link: Spanned<Rate>,
        /// The value of a flow by its length, in points. Default: 0 up to 100 kB, 10 at 1 MB, 100 at 10 MB.
        pub value: Vec<Spanned<Point>>,
        /// The minimum share of elephants in the bytes served while they wait. Default 0.1.
        pub floor: Spanned<Probability> = 0.1,
        /// How much service beyond the floor counts towards it later. Default 24 kB, sixteen packets: with a floor of
        /// 0.1 mice may then send 240 kB before it is an elephant's turn, which takes 34 s at 56 kbit/s.
        pub floor_credit: Bytes = "24kB",
        /// With 0 all elephants are dropped alike, with 1 in proportion to their value. Default 1.
        pub fairness: Probability = 1.0,
        /// The delay that ARED aims for; only elephants wait in that queue. Default 80 ms.
        pub delay: Span = "80ms",
        /// Whether a packet that understands ECN is marked or dropped. Default mark.
        pub signal: Signal = "mark",
        /// The queue limit in bytes. Default 1500 kB.
        pub limit: Bytes = "1500kB",
        /// How many of these bytes elephants may occupy. Default: half.
        pub elephant_limit: Option<Bytes>,
        /// How flows are recorded, and which of them count together.
        pub memory: Option<Memory>,
    }
}

impl MeredtQueue {
    /// The parameters of the discipline.
    ///
    /// # Errors
    /// As [`ValueTable::new`](tidegate_core::elephants::ValueTable::new).
    pub fn params(&self) -> Result<meredt::Params, ParamError> {
        let mut params = meredt::Params::for_link(self.link.value);
        if !self.value.is_empty() {
            let points = self.value.iter().map(|point| (point.value.length, point.value.value)).collect();
            params.elephants.value = ValueTable::new(points)?;
        }
        params.ared = ared::Params { delay: self.delay, signal: self.signal, ..params.ared };
        params.limit = Limit { packets: common::PACKETS, bytes: self.limit };
        params.elephant_limit = self.elephant_limit.unwrap_or(Bytes::new(self.limit.as_u64() / 2));
        params.floor = self.floor.value;
        params.floor_credit = self.floor_credit;
        params.fairness = self.fairness;
        common::remember(self.memory.as_ref(), &mut params.elephants);
        Ok(params)
    }
}

impl Section for MeredtQueue {
    fn check(&self, place: Place, diagnostics: &mut Diagnostics) {
        if common::check_link(&self.link, diagnostics)
            && let Err(error) = self.params().and_then(meredt::Params::validate)
        {
            let mut places = common::memory_places(self.memory.as_ref());
            places.push(("floor", self.floor.place));
            places.extend(self.value.first().map(|point| ("value", point.place)));
            common::refuse(error, &places, place, diagnostics);
        }
    }
    fn line(&self) -> Option<Rate> {
        Some(self.link.value)
    }
    fn build<P: Packet + 'static>(&self, site: &Site) -> Box<dyn Qdisc<P>> {
        let params = self.params().expect("checked");
        Box::new(Meredt::new(params, site.seed, &site.name).expect("checked"))
    }
}
