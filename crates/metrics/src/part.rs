//! [`PartSeries`]: a flow or a class over time.

use tidegate_units::{Instant, Span};

use crate::{Histogram, Occupancy, Series};

/// Measurements over time of one of several like parts, which can be added up.
pub trait Part: Clone {
    /// An empty one, whose first bins are `width` wide.
    fn new(width: Span) -> Self;
    /// Adds what `other` has, whose first bins were as wide.
    fn merge(&mut self, other: &Self);
}

/// A flow or a class over time, in memory that does not grow: at most 130 kB.
#[derive(Clone, PartialEq, Debug)]
pub struct PartSeries {
    /// Bytes that arrived, by arrival time.
    pub arrived: Series,
    /// Bytes that left, by departure time.
    pub sent: Series,
    /// Bytes that wait.
    pub waiting: Occupancy,
    /// Queueing delay of what left, in nanoseconds: take the means.
    pub delay_ns: Series,
    /// Packets dropped.
    pub dropped: Series,
    /// The distribution of the queueing delay of what left, in nanoseconds.
    pub delays: Histogram,
}

impl Part for PartSeries {
    fn new(width: Span) -> Self {
        let series = || Series::new(width);
        let (arrived, sent, delay_ns, dropped) = (series(), series(), series(), series());
        Self { arrived, sent, waiting: Occupancy::new(width), delay_ns, dropped, delays: Histogram::default() }
    }
    fn merge(&mut self, other: &Self) {
        self.arrived.merge(&other.arrived);
        self.sent.merge(&other.sent);
        self.waiting.merge(&other.waiting);
        self.delay_ns.merge(&other.delay_ns);
        self.dropped.merge(&other.dropped);
        self.delays.merge(&other.delays);
    }
}

impl PartSeries {
    /// All bytes that arrived.
    pub fn bytes(&self) -> u64 {
        self.arrived.sums().map(|(_, bytes)| bytes).sum()
    }
    /// Counts a packet of `size` bytes that left at `at` after a delay of `waited`.
    pub fn left(&mut self, at: Instant, size: u64, waited: Span) {
        self.sent.add(at, size);
        self.delay_ns.add(at, waited.as_nanos());
        self.delays.record(waited.as_nanos());
    }
    /// Counts a packet of `size` bytes that arrived at `at`.
    pub fn arrive(&mut self, at: Instant, size: u64) {
        self.arrived.add(at, size);
        self.waiting.step(at, size as i64);
    }
    /// Counts a packet of `size` bytes that left or was dropped at `at`.
    pub fn go(&mut self, at: Instant, size: u64) {
        self.waiting.step(at, -(size as i64));
    }
    /// Bytes of memory.
    pub fn footprint(&self) -> usize {
        let series = [&self.arrived, &self.sent, &self.delay_ns, &self.dropped];
        series.into_iter().map(Series::footprint).sum::<usize>() + self.waiting.footprint() + self.delays.footprint()
    }
}

/// The `most` parts with the most bytes (the number beside each) in their order, and all others merged; ties go to the
/// first.
pub fn largest<'a, T, P: Part>(
    parts: impl IntoIterator<Item = (T, u64, &'a P)>,
    most: usize,
) -> (Vec<(T, &'a P)>, Option<P>) {
    let mut ranked: Vec<(usize, u64, T, &P)> =
        parts.into_iter().enumerate().map(|(place, (what, bytes, part))| (place, bytes, what, part)).collect();
    ranked.sort_by_key(|(place, bytes, ..)| (std::cmp::Reverse(*bytes), *place));
    let mut others: Option<P> = None;
    for (.., part) in ranked.drain(most.min(ranked.len())..) {
        match &mut others {
            Some(others) => others.merge(part),
            None => others = Some(part.clone()),
        }
    }
    ranked.sort_by_key(|(place, ..)| *place);
    (ranked.into_iter().map(|(_, _, what, part)| (what, part)).collect(), others)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(ms: u64) -> Instant {
        Instant::from_nanos(ms * 1_000_000)
    }

    #[test]
    fn the_queue_is_what_arrived_and_did_not_leave() {
        let mut part = PartSeries::new(Span::from_millis(10));
        part.arrive(at(1), 300);
        part.arrive(at(15), 100);
        part.go(at(12), 300);
        part.go(at(2_000_000), 100);
        let queue = |end| part.waiting.mean_points(Instant::ZERO, end);
        // 2,000 s in 1024 bins that begin with 10 ms: 2.56 s each. In the first, 300 B wait for 11 ms, and 100 B from 15 ms on.
        let found = queue(at(2_000_100));
        assert_eq!(found[0], (0.0, (300.0 * 11.0 + 100.0 * 2_545.0) / 2_560.0));
        assert!(found[1..780].iter().all(|point| point.1 == 100.0), "{found:?}");
        assert_eq!(found.len(), 782);
        // A run that ends at 10 s has what waits then, and not that it leaves later.
        assert!(queue(at(10_000))[1..].iter().all(|point| point.1 == 100.0 && point.0 < 10.0));
    }

    #[test]
    fn the_largest_and_the_others_are_all() {
        let parts: Vec<PartSeries> = [5, 100, 7, 100, 3]
            .iter()
            .map(|bytes| {
                let mut part = PartSeries::new(Span::from_millis(1));
                part.arrive(at(1), *bytes);
                part
            })
            .collect();
        let of = |most| {
            let (largest, others) =
                largest(parts.iter().enumerate().map(|(name, part)| (name, part.bytes(), part)), most);
            let names: Vec<usize> = largest.iter().map(|(name, _)| *name).collect();
            (names, others.map(|others| others.bytes()))
        };
        assert_eq!(of(2), (vec![1, 3], Some(15)));
        assert_eq!(of(3), (vec![1, 2, 3], Some(8)));
        assert_eq!(of(5), (vec![0, 1, 2, 3, 4], None));
        assert_eq!(of(0), (vec![], Some(215)));
    }
}
