//! [`FlowSizer`]: which flow is a mouse, which an elephant, and how large an elephant.
//!
//! *Law*: a flow's length is the bytes, or the packets, that it sent since its record was made; its value is a piecewise linear function
//! of its length; value 0 is a mouse. A flow's value never falls before its record ends, and a record ends only when
//! it was idle for the table's `idle` (or was evicted, see [`flow_table`]). All mice from one
//! host to one other together send at most `threshold + rate * t` bytes as mice in any time t: a flow beyond it is
//! an elephant like one that sent `threshold` bytes before.
//! *Source*: "Implementation of AQMs on Linux made Easy" (Braithwaite), section "Mice and Elephants Strategies":
//! flows counted in bytes or packets; the table-driven flow value, flow by 5-tuple or by address pair, number of flow records
//! and their inactivity timeout of its MEREDT prototype.
//! *Units*: lengths in bytes, or, with [`Measure::Packets`], a byte of length for each packet; values are whole numbers up to
//! 65,535 that only compare with each other.
//! *Example*: see [`meredt`](crate::meredt).
//! *Cost*: O(1) a packet: one look-up in each of two tables, and one in a list of at most 16 points.
//! *Notes*: memory is bounded by the two tables' capacities, about 100 B a record.
//! *Departures from the source, and why*: the rule on pairs of hosts is an addition: without it a transfer cut into
//! connections shorter than the threshold is made of mice only. It is a token bucket, not a total, so that a pair
//! that always has some short flows keeps them mice. By default it begins at 256 kbit/s: on a slower line it would
//! treat the short transfers of one person as a split transfer.
//! *See also*: [`mered`](crate::mered), [`meredt`](crate::meredt), [`ingress`](crate::ingress), which use it.

use alloc::vec::Vec;

use crate::bucket::TokenBucket;
use crate::flow_table::{self, FlowTable};
use crate::packet::{FlowKey, Packet};
use crate::params::ParamError;
use tidegate_units::{Bytes, Instant, Rate, Span};

/// The packets that count together as one flow.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum FlowBy {
    /// A flow of the classifier: the 5-tuple, unless configured otherwise.
    #[default]
    Flow,
    /// All traffic from one host to one other.
    HostPair,
}

/// Whether the length of a flow is counted in packets or in bytes.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Measure {
    /// Bytes.
    #[default]
    Bytes,
    /// Packets, each as one byte of length.
    Packets,
}

impl Measure {
    /// The length that a packet of `size` adds to its flow.
    fn of(self, size: Bytes) -> Bytes {
        match self {
            Self::Bytes => size,
            Self::Packets => Bytes::new(1),
        }
    }
}

/// The value of a flow as a piecewise linear function of its length: flat before the first point and after the last.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct ValueTable(Vec<(Bytes, u16)>);

impl ValueTable {
    /// A mouse up to `threshold` bytes, an elephant of value 1 from the next byte on.
    pub fn step(threshold: Bytes) -> Self {
        Self(alloc::vec![(threshold, 0), (threshold + Bytes::new(1), 1)])
    }
    /// From points of length and value.
    ///
    /// # Errors
    /// No point or more than 16, lengths that do not rise, values that fall, a first value that is not 0 (every flow
    /// begins as a mouse), a last value of 0.
    pub fn new(points: Vec<(Bytes, u16)>) -> Result<Self, ParamError> {
        let wrong = |problem| Err(ParamError::new("value", problem));
        if points.is_empty() || points.len() > 16 {
            return wrong("must have 1 to 16 points, for example 10kB:0, 100kB:10, 10MB:100");
        }
        if points.windows(2).any(|two| two[0].0 >= two[1].0) {
            return wrong("the lengths must rise from point to point");
        }
        if points.iter().any(|point| point.0 > LONGEST) {
            return wrong("a length is below 140 TB");
        }
        if points.windows(2).any(|two| two[0].1 > two[1].1) {
            return wrong("the values must not fall: a flow would gain by sending more");
        }
        if points[0].1 != 0 || points[points.len() - 1].1 == 0 {
            return wrong("must begin with value 0 (a mouse) and end above it");
        }
        Ok(Self(points))
    }
    /// The longest flow that is a mouse.
    fn longest_mouse(&self) -> Bytes {
        self.0.iter().rev().find(|point| point.1 == 0).map_or(Bytes::ZERO, |point| point.0)
    }
    /// The value of a flow of `length`, rounded up, so that a flow beyond a point of value 0 is no mouse.
    pub fn value(&self, length: Bytes) -> u16 {
        let after = self.0.partition_point(|point| point.0 <= length);
        let point = |&(length, value): &(Bytes, u16)| Point { length, value: u64::from(value) };
        let Some(to) = self.0.get(after) else { return self.0[self.0.len() - 1].1 };
        let Some(from) = after.checked_sub(1).map(|before| &self.0[before]) else { return to.1 };
        point(from).between(&point(to), length) as u16
    }
    /// The points, by length.
    pub fn points(&self) -> &[(Bytes, u16)] {
        &self.0
    }
}

/// The longest length of a point, so that a length times a value has 64 bits.
const LONGEST: Bytes = Bytes::new((1 << 47) - 1);

/// A point of a table of values.
#[derive(Clone, Copy, Debug)]
struct Point {
    length: Bytes,
    value: u64,
}

impl Point {
    /// The value of a flow of `length` between this point and the next.
    fn between(&self, next: &Point, length: Bytes) -> u64 {
        let run = next.length.as_u64() - self.length.as_u64();
        let part = (length.as_u64() - self.length.as_u64()) * (next.value - self.value);
        self.value + part.div_ceil(run)
    }
}

/// The rule on all mice from one host to one other.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct PairRule {
    /// The burst that they may send as mice; more than [`MAX_DEPTH`](crate::bucket::MAX_DEPTH) counts as that.
    pub threshold: Bytes,
    /// The rate at which they may always send as mice.
    pub rate: Rate,
}

/// The short transfers of one person: six of 5 kB a second. Below this a pair of hosts never counts as one transfer.
const LEAST_PAIR_RATE: Rate = Rate::from_kbit(256);

impl PairRule {
    /// A burst of `threshold`, and a quarter of `link`, at least 256 kbit/s: a slower line is filled by the short
    /// transfers of one person, which differ from a split transfer in nothing but their lengths.
    pub fn for_link(link: Rate, threshold: Bytes) -> Self {
        Self { threshold, rate: Rate::from_bps(link.as_bps() / 4).max(LEAST_PAIR_RATE) }
    }
}

/// Parameters.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Params {
    /// The packets that count as one flow.
    pub flow_by: FlowBy,
    /// Whether the length of a flow is counted in packets or in bytes.
    pub measure: Measure,
    /// The value of a flow by its length.
    pub value: ValueTable,
    /// How many flows have records, and for how long.
    pub table: flow_table::Params,
    /// Against splitting a transfer into mice; `None` for no such rule.
    pub pair: Option<PairRule>,
}

impl Params {
    /// Mice up to 100 kB, 65,536 records for a minute; mice of one pair of hosts may send a burst of 1 MB
    /// and the rate of [`PairRule::for_link`].
    pub fn for_link(link: Rate) -> Self {
        Self {
            flow_by: FlowBy::Flow,
            measure: Measure::Bytes,
            value: ValueTable::step(Bytes::new(100_000)),
            table: flow_table::Params { capacity: 65_536, idle: Span::from_secs(60) },
            pair: Some(PairRule::for_link(link, Bytes::new(1_000_000))),
        }
    }
    /// Checks the parameters.
    ///
    /// # Errors
    /// As [`flow_table::Params::validate`]; a pair threshold at which the value table has a mouse.
    pub fn validate(self) -> Result<Self, ParamError> {
        self.table.validate()?;
        if self.pair.is_some_and(|pair| self.value.value(pair.threshold) == 0) {
            return Err(ParamError::new("pair.threshold", "must be a length that the value table calls an elephant"));
        }
        Ok(self)
    }
}

/// Counts since the start.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Stats {
    /// Packets of mice, and their bytes.
    pub mice: crate::Account,
    /// Packets of elephants, and their bytes.
    pub elephants: crate::Account,
    /// Flows that became elephants by their own length.
    pub grown: u64,
    /// Flows that became elephants by the rule on pairs of hosts.
    pub by_pair: u64,
}

/// The part of the parameters that decides whether a flow is a mouse.
#[derive(Clone, Copy, Debug)]
struct Border {
    longest_mouse: Bytes,
    measure: Measure,
}

#[derive(Clone, Copy, Debug, Default)]
struct Flow {
    length: Bytes,
    queued_mice: u32,
}

impl Flow {
    fn is_mouse(&self, border: &Border) -> bool {
        self.length <= border.longest_mouse
    }
    /// Counts a packet that arrives. Returns whether the flow is a mouse by its own length.
    fn arrive(&mut self, border: &Border, size: Bytes) -> bool {
        self.length += border.measure.of(size);
        self.is_mouse(border)
    }
    /// The mice of its pair of hosts exceed their rule: it is an elephant from now on.
    fn exceed(&mut self, rule: &PairRule) {
        self.length += rule.threshold;
    }
}

/// The allowance of the mice of a pair of hosts, full before their first packet.
#[derive(Clone, Copy, Debug, Default)]
struct Pair {
    bucket: Option<TokenBucket>,
}

impl Pair {
    /// Takes `size` if the bucket pays for it at `now`. Returns whether it did.
    fn take(&mut self, rule: &PairRule, now: Instant, size: Bytes) -> bool {
        let mut bucket = match self.bucket {
            Some(bucket) => bucket,
            None => TokenBucket::full(rule.rate, rule.threshold, now),
        };
        let pays = bucket.take(now, size);
        self.bucket = Some(bucket);
        pays
    }
}

/// The class of a packet.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct FlowClass {
    /// The flow's record.
    pub record: u32,
    /// The flow's value; 0 is a mouse.
    pub value: u16,
}

/// Measures flows. See the [module](self).
#[derive(Clone, Debug)]
pub struct FlowSizer {
    params: Params,
    border: Border,
    flows: FlowTable<Flow>,
    pairs: FlowTable<Pair>,
    stats: Stats,
}

impl FlowSizer {
    /// Creates an estimator without flows.
    ///
    /// # Errors
    /// As [`Params::validate`].
    pub fn new(params: Params) -> Result<Self, ParamError> {
        let params = params.validate()?;
        let (flows, pairs) = (FlowTable::new(params.table)?, FlowTable::new(params.table)?);
        let border = Border { longest_mouse: params.value.longest_mouse(), measure: params.measure };
        Ok(Self { params, border, flows, pairs, stats: Stats::default() })
    }
    /// Counts since the start.
    pub fn stats(&self) -> &Stats {
        &self.stats
    }
    /// Counts of the table of flows.
    pub fn table_stats(&self) -> &flow_table::Stats {
        self.flows.stats()
    }
    /// Flows with a record.
    pub fn flows(&self) -> usize {
        self.flows.len()
    }
    /// The value of the flow of `key` now; `None` when it has no record.
    pub fn value(&self, key: FlowKey) -> Option<u16> {
        let index = self.flows.find(self.key(key))?;
        Some(self.params.value.value(self.flows.get(index).length))
    }

    fn key(&self, key: FlowKey) -> u64 {
        match self.params.flow_by {
            FlowBy::Flow => key.flow,
            FlowBy::HostPair => key.host_pair(),
        }
    }

    /// Counts an arriving packet and returns its class; `None` when every record is pinned.
    pub fn arrive<P: Packet>(&mut self, now: Instant, packet: &P) -> Option<FlowClass> {
        let (key, size) = (packet.flow(), packet.size());
        let record = self.flows.touch(now, self.key(key))?;
        let flow = self.flows.get_mut(record);
        let was_mouse = flow.is_mouse(&self.border);
        let mut is_mouse = flow.arrive(&self.border, size);
        if is_mouse
            && let Some(rule) = self.params.pair
            && let Some(index) = self.pairs.touch(now, key.host_pair())
        {
            if !self.pairs.get_mut(index).take(&rule, now, size) {
                flow.exceed(&rule);
                is_mouse = false;
                self.stats.by_pair += 1;
            }
        } else if !is_mouse && was_mouse {
            self.stats.grown += 1;
        }
        let value = if is_mouse { 0 } else { self.params.value.value(flow.length) };
        if is_mouse {
            self.stats.mice.count(size);
        } else {
            self.flows.protect(record);
            self.stats.elephants.count(size);
        }
        Some(FlowClass { record, value })
    }

    /// A packet of the record is queued, as a mouse or as an elephant: the record must not end before it leaves.
    pub(crate) fn enter(&mut self, record: u32, as_mouse: bool) {
        self.flows.pin(record);
        self.flows.get_mut(record).queued_mice += u32::from(as_mouse);
    }
    /// A packet of the record leaves the queue.
    pub(crate) fn leave(&mut self, now: Instant, record: u32, as_mouse: bool) {
        self.flows.get_mut(record).queued_mice -= u32::from(as_mouse);
        self.flows.unpin(now, record);
    }
    /// Whether packets that the flow sent as a mouse are still queued.
    pub(crate) fn has_queued_mice(&self, record: u32) -> bool {
        self.flows.get(record).queued_mice > 0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    struct P {
        flow: u64,
        pair: u64,
    }
    impl Packet for P {
        fn size(&self) -> Bytes {
            Bytes::new(1_000)
        }
        fn flow(&self) -> FlowKey {
            FlowKey { flow: self.flow, source: self.pair, destination: 0 }
        }
    }

    #[test]
    fn the_value_is_piecewise_linear() {
        let points = [(10_000, 0), (20_000, 10), (40_000, 20)].map(|(length, value)| (Bytes::new(length), value));
        let table = ValueTable::new(points.into()).unwrap();
        let value = |length| table.value(Bytes::new(length));
        // One byte past the first point is an elephant already: 10 * 1/10,000 rounds up to 1.
        assert_eq!(
            [0, 10_000, 10_001, 15_000, 20_000, 30_000, 40_000, 1 << 60].map(value),
            [0, 0, 1, 5, 10, 15, 20, 20]
        );
        let step = ValueTable::step(Bytes::new(100));
        assert_eq!([0, 100, 101, 5_000].map(|length| step.value(Bytes::new(length))), [0, 0, 1, 1]);
        for points in
            [&[][..], &[(1, 1)], &[(1, 0), (1, 1)], &[(1, 0), (2, 3), (3, 2)], &[(1, 0)], &[(1, 0), (1 << 47, 1)]]
        {
            let points = points.iter().map(|(length, value)| (Bytes::new(*length), *value)).collect();
            assert_eq!(ValueTable::new(points).unwrap_err().field, "value");
        }
    }

    fn sizer() -> FlowSizer {
        let pair = Some(PairRule { threshold: Bytes::new(50_000), rate: Rate::from_bytes_per_sec(1_000) });
        let value = ValueTable::step(Bytes::new(10_000));
        FlowSizer::new(Params { value, pair, ..Params::for_link(Rate::from_mbit(1)) }).unwrap()
    }

    #[test]
    fn idling_does_not_make_a_mouse_again() {
        let mut sizer = sizer();
        let mut now = Instant::ZERO;
        let mut as_mouse = 0;
        // The adversary sends 10 packets, then idles one second less than the timeout, and again.
        for n in 0..200 {
            as_mouse += u32::from(sizer.arrive(now, &P { flow: 1, pair: 1 }).unwrap().value == 0);
            now += Span::from_secs(if n % 10 == 9 { 59 } else { 0 });
        }
        assert_eq!(as_mouse, 10);
        // After the full timeout it starts anew.
        now += Span::from_secs(60);
        assert_eq!(sizer.arrive(now, &P { flow: 1, pair: 1 }).unwrap().value, 0);
    }

    #[test]
    fn a_length_in_packets_counts_packets() {
        let value = ValueTable::step(Bytes::new(3));
        let params = Params { measure: Measure::Packets, value, ..Params::for_link(Rate::from_mbit(1)) };
        let mut sizer = FlowSizer::new(params).unwrap();
        let values: Vec<u16> =
            (0..5).map(|_| sizer.arrive(Instant::ZERO, &P { flow: 1, pair: 1 }).unwrap().value).collect();
        assert_eq!(values, [0, 0, 0, 1, 1], "three packets of 1000 B each, and an elephant from the fourth on");
    }

    #[test]
    fn splitting_into_short_flows_gains_the_second_threshold_and_no_more() {
        let mut sizer = sizer();
        let mut now = Instant::ZERO;
        let (mut cheat, mut honest) = (0, 0);
        // 1,000 flows of 10 packets each, 10 ms a packet: 10 MB in 100 s, all from one host to one other; beside it
        // another pair sends a mouse of 5 kB every 10 s.
        for flow in 0..1_000 {
            for n in 0..10 {
                now += Span::from_millis(10);
                cheat += u64::from(sizer.arrive(now, &P { flow, pair: 1 }).unwrap().value == 0) * 1_000;
                if flow % 100 == 0 && n < 5 {
                    honest += u64::from(sizer.arrive(now, &P { flow: 10_000 + flow, pair: 2 }).unwrap().value == 0);
                }
            }
        }
        // threshold + rate * t = 50,000 + 1,000 * 100 of 10,000,000 bytes.
        assert!((140_000..=150_000).contains(&cheat), "{cheat}");
        assert_eq!(honest, 50, "another pair of hosts is not touched");
        assert!(sizer.stats().by_pair > 800);
    }

    #[test]
    fn a_flood_of_mice_leaves_the_elephants_known() {
        let value = ValueTable::step(Bytes::new(10_000));
        let table = flow_table::Params { capacity: 256, idle: Span::from_secs(60) };
        let mut sizer = FlowSizer::new(Params { value, table, ..Params::for_link(Rate::from_mbit(1)) }).unwrap();
        for flow in 0..10 {
            for _ in 0..11 {
                sizer.arrive(Instant::ZERO, &P { flow, pair: flow });
            }
        }
        for flow in 1_000..101_000 {
            sizer.arrive(Instant::ZERO, &P { flow, pair: flow });
        }
        assert_eq!(sizer.flows(), 256);
        for flow in 0..10 {
            assert_eq!(sizer.value(FlowKey { flow, ..FlowKey::default() }), Some(1), "elephant {flow} was forgotten");
        }
    }
}
