//! The keys that `mered`, `meredt` and `ingress-filter` share.

use tidegate_core::elephants::{self, FlowBy, Measure, PairRule};
use tidegate_core::{Bytes, ParamError, Rate, Span, flow_table};

use super::early::Length;
use super::section::report;
use crate::decode::Spanned;
use crate::diagnostic::{Diagnostics, Place};

crate::choices! {
    impl "flow" for FlowBy {
        /// Addresses, ports and protocol together.
        Flow = "flow",
        /// All traffic from one host to one other.
        HostPair = "host-pair",
    }
}

crate::choices! {
    /// Whether a feature is enabled.
    pub enum Switch as "switch" {
        /// Enabled.
        On = "on",
        /// Disabled.
        Off = "off",
    }
}

crate::record! {
    /// How flows are recorded, and which of them count together.
    pub struct Memory as "flow memory" {
        /// Which packets form one flow. Default flow.
        pub flow_by: FlowBy = "flow",
        /// The size of the flow table. Default 65536.
        pub records: Spanned<u32> = 65536,
        /// A flow that sends nothing for this long is forgotten. Default 60 s.
        pub idle: Spanned<Span> = "60s",
        /// Whether short flows of one pair of hosts count together. Default on.
        pub pair_rule: Switch = "on",
        /// How much one pair of hosts may send at once as mice. Default: ten times the threshold, or 1 MB.
        pub pair_threshold: Option<Spanned<Bytes>>,
        /// The rate at which one pair of hosts may always send as mice. Default: a quarter of the link, at least
        /// 256 kbit/s.
        pub pair_rate: Option<Rate>,
    }
}

/// Applies the section to `elephants`.
pub(super) fn remember(memory: Option<&Memory>, elephants: &mut elephants::Params) {
    let Some(memory) = memory else { return };
    elephants.flow_by = memory.flow_by;
    elephants.table = flow_table::Params { capacity: memory.records.value, idle: memory.idle.value };
    elephants.pair = match memory.pair_rule {
        Switch::Off => None,
        Switch::On => elephants.pair.map(|pair| PairRule {
            threshold: memory.pair_threshold.map_or(pair.threshold, |threshold| threshold.value),
            rate: memory.pair_rate.unwrap_or(pair.rate),
        }),
    };
}

/// The places of the fields that an error of the core may name.
pub(super) fn memory_places(memory: Option<&Memory>) -> Vec<(&'static str, Place)> {
    let Some(memory) = memory else { return Vec::new() };
    let mut places = vec![("capacity", memory.records.place), ("idle", memory.idle.place)];
    places.extend(memory.pair_threshold.map(|threshold| ("pair.threshold", threshold.place)));
    places
}

/// Reports `error` with the keys of the file, some of which differ from the names in the core.
pub(super) fn refuse(error: ParamError, places: &[(&str, Place)], table: Place, diagnostics: &mut Diagnostics) {
    let found = places.iter().find(|(field, _)| *field == error.field).map_or(table, |(_, place)| *place);
    let field = match error.field {
        "capacity" => "records",
        "pair.threshold" => "pair_threshold",
        field => field,
    };
    report(&ParamError { field, ..error }, &[(field, found)], table, diagnostics);
}

/// The threshold of a mouse in the core's form, and ten times as much in bytes as the burst of a pair of hosts. For
/// that a packet counts as 1500 B.
pub(super) fn threshold(length: Length) -> (Measure, Bytes, Bytes) {
    match length {
        Length::Bytes(bytes) => (Measure::Bytes, bytes, bytes.saturating_mul(10)),
        Length::Packets(packets) => {
            (Measure::Packets, Bytes::new(packets), Bytes::new(1_500).saturating_mul(10).saturating_mul(packets))
        }
    }
}

/// Checks that a flow can be a mouse at all.
pub(super) fn check_threshold(length: Option<&Spanned<Length>>, diagnostics: &mut Diagnostics) -> bool {
    let Some(zero) = length.filter(|length| threshold(length.value).1 == Bytes::ZERO) else { return true };
    let error = ParamError::new("threshold", "must be above 0, for example 15kB: what a short exchange takes");
    report(&error, &[], zero.place, diagnostics);
    false
}

/// The queue limit in packets, which is below the number of records.
pub(super) const PACKETS: u64 = 1_000;

/// Checks that the rate is not zero, because parameters are derived from it.
pub(super) fn check_link(link: &Spanned<Rate>, diagnostics: &mut Diagnostics) -> bool {
    if link.value.is_zero() {
        let error = ParamError::new("link", "must be above 0, for example \"20mbit\"");
        report(&error, &[("link", link.place)], link.place, diagnostics);
    }
    !link.value.is_zero()
}
