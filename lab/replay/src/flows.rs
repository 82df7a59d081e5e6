//! [`Flows`] keeps series over time of the flows with the most bytes, and of all other flows together.
//!
//! *Law*: each packet is in exactly one of the series, so that together they add up to all packets. Equal packets produce equal
//! series on every machine.
//! *Units*: bytes on the link; ns.
//! *Cost*: one or two look-ups a packet, and from time to time a look at all [`KEPT`] flows; at most 9 MB.
//! *Notes*: up to [`KEPT`] flows have series of their own. Another flow gets its own when it has a quarter more bytes than the
//! smallest of these, which then joins the others. Its series begin at that time: its earlier packets stay with the others. The
//! bytes of up to [`COUNTED`] other flows are counted; beyond that, the counts of the smaller half are forgotten.

use std::collections::HashMap;
use std::net::{IpAddr, SocketAddr};

use tidegate_config::shaper::FlowBy;
use tidegate_config::values::Protocol;
use tidegate_core::classify::Fields;
use tidegate_metrics::{Part, PartSeries, largest};
use tidegate_units::Span;

/// The most flows with series of their own.
pub const KEPT: usize = 64;
/// The most other flows whose bytes are counted.
pub const COUNTED: usize = 16_384;

#[derive(Debug)]
struct Kept<P> {
    flow: u64,
    name: String,
    bytes: u64,
    series: P,
}

/// The largest flows. See the [module](self).
#[derive(Debug)]
pub struct Flows<P = PartSeries> {
    bin: Span,
    kept: Vec<Kept<P>>,
    places: HashMap<u64, usize>,
    /// A lower bound on the bytes of the smallest kept flow: its bytes when it was last searched for.
    least: u64,
    counts: HashMap<u64, u64>,
    others: Option<P>,
}

impl<P: Part> Flows<P> {
    /// Makes empty series, whose bins have the initial width `bin`.
    pub fn new(bin: Span) -> Self {
        Self { bin, kept: Vec::new(), places: HashMap::new(), least: 0, counts: HashMap::new(), others: None }
    }

    /// Counts `bytes` that arrived of `flow`, and returns the series to which its packets belong. `name` is called if the flow
    /// gets series of its own.
    pub fn of(&mut self, flow: u64, bytes: u64, name: impl FnOnce() -> String) -> &mut P {
        if let Some(&place) = self.places.get(&flow) {
            let kept = &mut self.kept[place];
            kept.bytes += bytes;
            return &mut kept.series;
        }
        if self.kept.len() < KEPT {
            let (place, series) = (self.kept.len(), P::new(self.bin));
            self.kept.push(Kept { flow, name: name(), bytes, series });
            self.places.insert(flow, place);
            return &mut self.kept[place].series;
        }
        let count = self.counts.entry(flow).or_default();
        *count += bytes;
        let bytes = *count;
        if is_larger(bytes, self.least) {
            let smallest = self.kept.iter().enumerate().min_by_key(|(_, kept)| kept.bytes);
            let (place, least) = smallest.map_or((0, 0), |(place, kept)| (place, kept.bytes));
            self.least = least;
            if is_larger(bytes, least) {
                return self.keep(place, flow, bytes, name());
            }
        }
        if self.counts.len() > COUNTED {
            self.forget();
        }
        self.others.get_or_insert_with(|| P::new(self.bin))
    }

    /// Gives the series at `place` to `flow`.
    #[cold]
    fn keep(&mut self, place: usize, flow: u64, bytes: u64, name: String) -> &mut P {
        let kept = Kept { flow, name, bytes, series: P::new(self.bin) };
        let old = std::mem::replace(&mut self.kept[place], kept);
        self.places.remove(&old.flow);
        self.places.insert(flow, place);
        self.counts.remove(&flow);
        self.counts.insert(old.flow, old.bytes);
        self.others.get_or_insert_with(|| P::new(self.bin)).merge(&old.series);
        &mut self.kept[place].series
    }

    #[cold]
    fn forget(&mut self) {
        let mut counts: Vec<u64> = self.counts.values().copied().collect();
        let middle = counts.len() / 2;
        let (_, median, _) = counts.select_nth_unstable(middle);
        let median = *median;
        self.counts.retain(|_, count| *count > median);
    }

    /// The `most` largest flows with their names, in the order in which they were first kept, and all others as one.
    pub fn largest(&self, most: usize) -> (Vec<(&str, &P)>, Option<P>) {
        let kept = self.kept.iter().map(|kept| (kept.name.as_str(), kept.bytes, &kept.series));
        let (flows, mut others) = largest(kept, most);
        if let Some(rest) = &self.others {
            match &mut others {
                Some(others) => others.merge(rest),
                None => others = Some(rest.clone()),
            }
        }
        (flows, others)
    }
}

/// Whether a flow is so much larger than another that it takes its place. Without the margin, two flows of about the same size
/// would replace each other again and again.
fn is_larger(bytes: u64, than: u64) -> bool {
    bytes > than.saturating_add(than / 4)
}

/// An address with its port, if known.
pub(crate) fn end(address: Option<IpAddr>, port: Option<u16>) -> String {
    match (address, port) {
        (Some(address), Some(port)) => SocketAddr::new(address, port).to_string(),
        (Some(address), None) => address.to_string(),
        (None, _) => "?".to_owned(),
    }
}

/// Names a flow by the fields that identify it: `udp 10.0.0.1:5004 > 10.0.0.2:80`.
pub fn name(by: FlowBy, fields: &Fields) -> String {
    let (source, destination) = (fields.hosts.source(), fields.hosts.destination());
    match by {
        FlowBy::FiveTuple => {
            let Some(protocol) = fields.protocol else { return "not IP".to_owned() };
            let from = end(source, fields.source_port);
            format!("{} {from} > {}", Protocol(protocol), end(destination, fields.destination_port))
        }
        FlowBy::HostPair => format!("{} > {}", end(source, None), end(destination, None)),
        FlowBy::Source => format!("from {}", end(source, None)),
        FlowBy::Destination => format!("to {}", end(destination, None)),
        FlowBy::Socket => {
            let Some(protocol) = fields.protocol else { return "not IP".to_owned() };
            format!("{} from {}", Protocol(protocol), end(source, fields.source_port))
        }
        FlowBy::User => fields.uid.map_or("of no user".to_owned(), |uid| format!("of user {uid}")),
        FlowBy::ControlGroup => {
            fields.cgroup.map_or("of no control group".to_owned(), |id| format!("of control group {id}"))
        }
        FlowBy::Dscp => format!("with code point {}", fields.dscp.value()),
        FlowBy::Mark => format!("with mark {}", fields.mark),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use tidegate_core::random::Stream;
    use tidegate_units::Instant;

    fn send(flows: &mut Flows<PartSeries>, at: u64, flow: u64, bytes: u64) {
        let part = flows.of(flow, bytes, || flow.to_string());
        part.arrived.add(Instant::from_nanos(at), bytes);
    }

    /// A few large flows that begin late are found among many small ones, and no bytes are lost.
    #[test]
    fn the_large_are_found_among_the_many_and_the_sum_is_all() {
        let run = || {
            let mut flows = Flows::<PartSeries>::new(Span::from_millis(1));
            let mut draw = Stream::named(1, "flows");
            let mut sum = 0;
            for packet in 0..400_000_u64 {
                let flow = match draw.below(4) {
                    0 if packet > 50_000 => 1_000_000 + draw.below(5),
                    // One sender with many ports.
                    _ => draw.below(100_000),
                };
                let bytes = 40 + draw.below(1_460);
                sum += bytes;
                send(&mut flows, packet * 10_000, flow, bytes);
                assert!(flows.kept.len() <= KEPT && flows.counts.len() <= COUNTED + 1);
            }
            (flows, sum)
        };
        let (flows, sum) = run();
        let (largest, others) = flows.largest(5);
        let mut names: Vec<&str> = largest.iter().map(|(name, _)| *name).collect();
        names.sort_unstable();
        assert_eq!(names, ["1000000", "1000001", "1000002", "1000003", "1000004"]);
        // Each sends a twentieth of the bytes after the first eighth: 5 * 0.05 * 0.875 of all, less those before it was kept.
        let large: u64 = largest.iter().map(|(_, part)| part.bytes()).sum();
        assert!(large > sum / 5, "{large} of {sum}");
        assert_eq!(large + others.as_ref().unwrap().bytes(), sum);
        let again = run().0;
        assert_eq!(again.largest(20), flows.largest(20));
    }

    #[test]
    fn a_flow_is_named_by_the_fields_that_identify_it() {
        use tidegate_core::classify::Hosts;
        let v4 = Fields {
            hosts: Hosts::V4 { source: [10, 0, 0, 1].into(), destination: [10, 0, 0, 2].into() },
            protocol: Some(17),
            source_port: Some(5004),
            destination_port: Some(80),
            ..Fields::default()
        };
        assert_eq!(name(FlowBy::FiveTuple, &v4), "udp 10.0.0.1:5004 > 10.0.0.2:80");
        assert_eq!(name(FlowBy::HostPair, &v4), "10.0.0.1 > 10.0.0.2");
        assert_eq!(name(FlowBy::Source, &v4), "from 10.0.0.1");
        assert_eq!(name(FlowBy::Socket, &v4), "udp from 10.0.0.1:5004");
        assert_eq!(name(FlowBy::User, &v4), "of no user");
        let v6 = Hosts::V6 { source: [0; 16].into(), destination: [1; 16].into() };
        let v6 = Fields { hosts: v6, destination_port: None, ..v4 };
        assert_eq!(name(FlowBy::FiveTuple, &v6), "udp [::]:5004 > 101:101:101:101:101:101:101:101");
        assert_eq!(name(FlowBy::FiveTuple, &Fields::default()), "not IP");
    }
}
