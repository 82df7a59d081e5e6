//! `kind = "mered"`, `"meredt"` and `"ingress-filter"`: [`tidegate_core::mered`], [`tidegate_core::meredt`],
//! [`tidegate_core::ingress`].

use tidegate_core::aqm::AqmFifo;
use tidegate_core::elephants::{self, PairRule, ValueTable};
use tidegate_core::fifo::Limit;
use tidegate_core::{Bytes, Packet, ParamError, Probability, Qdisc, Rate, Span};
use tidegate_core::{ared, flow_table, ingress, mered, meredt};

use super::Site;
use super::early::{Signal, fault};
use super::fair::{Switch, check_link, signal};
use crate::decode::Spanned;
use crate::diagnostic::{Diagnostics, Place};

crate::words! {
    /// What is counted together as one flow.
    pub enum FlowBy as "flow" {
        /// Addresses, ports and protocol together.
        Flow = "flow",
        /// All traffic from one host to one other.
        HostPair = "host-pair",
    }
}

crate::record! {
    /// Who is remembered, and what may not be split.
    pub struct Memory as "flow memory" {
        /// What is one flow. Default flow.
        pub flow_by: FlowBy = "flow",
        /// The most flows that are remembered. Default 65536.
        pub records: Spanned<u32> = 65536,
        /// A flow is forgotten after this silence. Default 60 s.
        pub idle: Spanned<Span> = "60s",
        /// Whether short flows of one pair of hosts count together. Default on.
        pub pair_rule: Switch = "on",
        /// What one pair of hosts may send as mice at once. Default: ten times the threshold, or 1 MB.
        pub pair_threshold: Option<Spanned<Bytes>>,
        /// What one pair of hosts may send as mice for ever. Default: a quarter of the link, at least
        /// 256 kbit/s.
        pub pair_rate: Option<Rate>,
    }
}

crate::record! {
    /// A point of the value of a flow by its length.
    pub struct Point as "value point" {
        /// Bytes that the flow sent.
        pub length: Bytes,
        /// Its value from there on, linear to the next point; 0 is a mouse.
        pub value: u16,
    }
}

crate::record! {
    /// Mice and Elephants with one threshold: short flows first, long ones under ARED.
    pub struct MeredQueue as "mered" {
        /// The rate of the link it stands before.
        pub link: Spanned<Rate>,
        /// The most that a mouse may have sent. Default: 2 s of the link, between 15 and 100 kB.
        pub threshold: Option<Spanned<Bytes>>,
        /// What elephants get at least of the bytes served while they wait. Default 0.1.
        pub floor: Spanned<Probability> = 0.1,
        /// What elephants got beyond the floor counts for it later, up to this. Default 24 kB, sixteen packets: with a
        /// floor of 0.1 mice may then have 240 kB before an elephant's turn, which is 34 s at 56 kbit/s.
        pub floor_credit: Bytes = "24kB",
        /// The delay that ARED aims for; only elephants wait in that queue. Default 80 ms.
        pub delay: Span = "80ms",
        /// What a drop does to a packet that understands ECN. Default mark.
        pub signal: Signal = "mark",
        /// Bytes that may wait; half of them for elephants. Default 1500 kB.
        pub limit: Bytes = "1500kB",
        /// Who is remembered, and what may not be split.
        pub memory: Option<Memory>,
    }
}

crate::record! {
    /// Mice and Elephants with a value that grows with the length of a flow.
    pub struct MeredtQueue as "meredt" {
        /// The rate of the link it stands before.
        pub link: Spanned<Rate>,
        /// The value of a flow by its length, in points. Default: 0 up to 100 kB, 10 at 1 MB, 100 at 10 MB.
        pub value: Vec<Spanned<Point>>,
        /// What elephants get at least of the bytes served while they wait. Default 0.1.
        pub floor: Spanned<Probability> = 0.1,
        /// What elephants got beyond the floor counts for it later, up to this. Default 24 kB, sixteen packets: with a
        /// floor of 0.1 mice may then have 240 kB before an elephant's turn, which is 34 s at 56 kbit/s.
        pub floor_credit: Bytes = "24kB",
        /// 0: all elephants are dropped alike; 1: in proportion to their value. Default 1.
        pub fairness: Probability = 1.0,
        /// The delay that ARED aims for; only elephants wait in that queue. Default 80 ms.
        pub delay: Span = "80ms",
        /// What a drop does to a packet that understands ECN. Default mark.
        pub signal: Signal = "mark",
        /// Bytes that may wait. Default 1500 kB.
        pub limit: Bytes = "1500kB",
        /// Bytes of them that elephants may hold. Default: half.
        pub elephant_limit: Option<Bytes>,
        /// Who is remembered, and what may not be split.
        pub memory: Option<Memory>,
    }
}

crate::record! {
    /// Mice and Elephants without a queue, on what arrives: elephants are dropped before the line is full.
    pub struct IngressQueue as "ingress-filter" {
        /// The rate of the incoming line. Elephants get what mice leave of 95 % of it.
        pub link: Spanned<Rate>,
        /// The most that a mouse may have sent. Default 100 kB.
        pub threshold: Spanned<Bytes> = "100kB",
        /// What elephants get at least of the bytes that pass. Default 0.1.
        pub floor: Spanned<Probability> = 0.1,
        /// What a drop does to a packet that understands ECN. Default mark.
        pub signal: Signal = "mark",
        /// Who is remembered, and what may not be split.
        pub memory: Option<Memory>,
    }
}

/// [`Memory`], or its defaults, put into `elephants`.
fn remember(memory: Option<&Memory>, elephants: &mut elephants::Params) {
    let Some(memory) = memory else { return };
    elephants.flow_by = match memory.flow_by {
        FlowBy::Flow => elephants::FlowBy::Flow,
        FlowBy::HostPair => elephants::FlowBy::HostPair,
    };
    elephants.table = flow_table::Params { capacity: memory.records.value, idle: memory.idle.value };
    elephants.pair = match memory.pair_rule {
        Switch::Off => None,
        Switch::On => elephants.pair.map(|pair| PairRule {
            threshold: memory.pair_threshold.map_or(pair.threshold, |threshold| threshold.value),
            rate: memory.pair_rate.unwrap_or(pair.rate),
        }),
    };
}

/// Where the fields of [`Memory`] stand.
fn memory_places(memory: Option<&Memory>) -> Vec<(&'static str, Place)> {
    let Some(memory) = memory else { return Vec::new() };
    let mut places = vec![("capacity", memory.records.place), ("idle", memory.idle.place)];
    places.extend(memory.pair_threshold.map(|threshold| ("pair.threshold", threshold.place)));
    places
}

/// Tells `error` by the keys of the file, whose names differ from the core's here and there.
fn refuse(error: ParamError, places: &[(&str, Place)], table: Place, diagnostics: &mut Diagnostics) {
    let found = places.iter().find(|(field, _)| *field == error.field).map_or(table, |(_, place)| *place);
    let field = match error.field {
        "capacity" => "records",
        "pair.threshold" => "pair_threshold",
        field => field,
    };
    fault(&ParamError { field, ..error }, &[(field, found)], table, diagnostics);
}

/// Whether some flow can be a mouse.
fn check_threshold(threshold: Option<&Spanned<Bytes>>, diagnostics: &mut Diagnostics) -> bool {
    let Some(zero) = threshold.filter(|threshold| threshold.value == Bytes::ZERO) else { return true };
    let error = ParamError::new("threshold", "must be above 0, for example 15kB: what a short exchange takes");
    fault(&error, &[], zero.place, diagnostics);
    false
}

/// Packets that may wait: fewer than records, whatever the bytes.
const PACKETS: u64 = 1_000;

impl MeredQueue {
    fn params(&self) -> meredt::Params {
        let base = mered::Params::for_link(self.link.value);
        let threshold = self.threshold.map_or(base.threshold, |threshold| threshold.value);
        let pair = base.pair.map(|pair| PairRule { threshold: threshold.saturating_mul(10), ..pair });
        let params = mered::Params {
            threshold,
            pair,
            ared: ared::Params { delay: self.delay, signal: signal(self.signal), ..base.ared },
            limit: Limit { packets: PACKETS, bytes: self.limit },
            elephant_limit: Bytes::new(self.limit.as_u64() / 2),
            floor: self.floor.value,
            floor_credit: self.floor_credit,
            ..base
        };
        let mut params = params.table_driven();
        remember(self.memory.as_ref(), &mut params.elephants);
        params
    }
    pub(super) fn check(&self, place: Place, diagnostics: &mut Diagnostics) {
        if check_link(&self.link, diagnostics)
            && check_threshold(self.threshold.as_ref(), diagnostics)
            && let Err(error) = self.params().validate()
        {
            let mut places = memory_places(self.memory.as_ref());
            places.push(("floor", self.floor.place));
            refuse(error, &places, place, diagnostics);
        }
    }
    pub(super) fn build<P: Packet + 'static>(&self, site: &Site) -> Box<dyn Qdisc<P>> {
        // Here and below: the node has passed its check, which validates the same parameters.
        Box::new(meredt::Meredt::new(self.params(), site.seed, &site.name).expect("checked"))
    }
}

impl MeredtQueue {
    fn params(&self) -> Result<meredt::Params, ParamError> {
        let mut params = meredt::Params::for_link(self.link.value);
        if !self.value.is_empty() {
            let points = self.value.iter().map(|point| (point.value.length, point.value.value)).collect();
            params.elephants.value = ValueTable::new(points)?;
        }
        params.ared = ared::Params { delay: self.delay, signal: signal(self.signal), ..params.ared };
        params.limit = Limit { packets: PACKETS, bytes: self.limit };
        params.elephant_limit = self.elephant_limit.unwrap_or(Bytes::new(self.limit.as_u64() / 2));
        params.floor = self.floor.value;
        params.floor_credit = self.floor_credit;
        params.fairness = self.fairness;
        remember(self.memory.as_ref(), &mut params.elephants);
        Ok(params)
    }
    pub(super) fn check(&self, place: Place, diagnostics: &mut Diagnostics) {
        if check_link(&self.link, diagnostics)
            && let Err(error) = self.params().and_then(meredt::Params::validate)
        {
            let mut places = memory_places(self.memory.as_ref());
            places.push(("floor", self.floor.place));
            places.extend(self.value.first().map(|point| ("value", point.place)));
            refuse(error, &places, place, diagnostics);
        }
    }
    pub(super) fn build<P: Packet + 'static>(&self, site: &Site) -> Box<dyn Qdisc<P>> {
        let params = self.params().expect("checked");
        Box::new(meredt::Meredt::new(params, site.seed, &site.name).expect("checked"))
    }
}

impl IngressQueue {
    fn params(&self) -> ingress::Params {
        let mut params = ingress::Params::for_line(self.link.value);
        params.elephants.value = ValueTable::step(self.threshold.value);
        if let Some(pair) = &mut params.elephants.pair {
            pair.threshold = self.threshold.value.saturating_mul(10);
        }
        params.ared.signal = signal(self.signal);
        params.floor = self.floor.value;
        remember(self.memory.as_ref(), &mut params.elephants);
        params
    }
    pub(super) fn check(&self, place: Place, diagnostics: &mut Diagnostics) {
        if check_link(&self.link, diagnostics)
            && check_threshold(Some(&self.threshold), diagnostics)
            && let Err(error) = self.params().validate()
        {
            let mut places = memory_places(self.memory.as_ref());
            places.push(("floor", self.floor.place));
            refuse(error, &places, place, diagnostics);
        }
    }
    pub(super) fn build<P: Packet + 'static>(&self, site: &Site) -> Box<dyn Qdisc<P>> {
        let filter = ingress::Ingress::new(self.params(), site.seed, &site.name).expect("checked");
        // It passes on at once; the limit is for a data path that falls behind.
        Box::new(AqmFifo::new(Limit::packets(PACKETS), filter))
    }
}
