//! Measurements of a link.

use std::collections::BTreeMap;

use tidegate_core::{DropReason, Span};
use tidegate_metrics::{Histogram, Occupancy, Part, PartSeries, Series};

use super::Tally;

/// Measurements of a link, after the warm-up.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct LinkMetrics {
    /// Packets whose transmission began, by colour.
    pub sent: [Tally; 3],
    /// Packets that were dropped, by colour.
    pub dropped: [Tally; 3],
    /// Packets that were dropped, by colour and by reason in the order of [`DropReason::ALL`].
    pub dropped_for: [[u64; DropReason::ALL.len()]; 3],
    /// Packets that the line lost.
    pub lost: u64,
    /// Packets that arrived twice, counted from the beginning of the run.
    pub duplicated: u64,
    /// Packets that the discipline marked.
    pub marked: u64,
    /// How often queue protection of DualPI2 put a flow under sanction.
    pub sanctions: u64,
    /// Time from the arrival at the queue to the start of transmission, in nanoseconds. Recorded on watched links only.
    pub delay_ns: Histogram,
    /// Time series, on watched links only.
    pub series: Option<Box<LinkSeries>>,
    /// Bytes sent by class, on watched links only; class numbers go up to 65,535.
    pub classes: Vec<Tally>,
}

/// Time series of a link.
#[derive(Clone, PartialEq, Debug)]
pub struct LinkSeries {
    /// Bytes sent, by colour.
    pub sent: [Series; 3],
    /// Packets in the queue.
    pub backlog: Occupancy,
    /// Queueing delay of departing packets, in nanoseconds. The means of the bins are meaningful, not the sums.
    pub delay_ns: Series,
    /// Packets dropped.
    pub dropped: Series,
    /// Packets marked.
    pub marked: Series,
    /// Separate series for each flow and each class, if they are kept.
    pub parts: Option<Box<Parts>>,
    /// The initial width of the bins.
    pub first: Span,
}

/// How many flows, and how many classes, of a link have series of their own: the flows with the lowest numbers, and the
/// first classes that have packets. Each takes at most 130 kB.
pub const PARTS: usize = 128;
/// The number under which all other flows or classes are collected.
pub const OTHERS: usize = usize::MAX;

/// Time series of a link's flows and classes by number. Beyond [`PARTS`] of each, the others are added up in one
/// series.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct Parts {
    flows: Vec<Option<Box<PartSeries>>>,
    /// Keyed by class number: classes of reservations have high numbers.
    classes: BTreeMap<usize, Box<PartSeries>>,
}

impl Parts {
    /// Applies `note` to the series of a packet's flow and to that of its class. A new series begins with bins of
    /// `width`.
    pub(crate) fn note(&mut self, flow: u32, class: u16, width: Span, note: impl Fn(&mut PartSeries)) {
        let series = || Box::new(PartSeries::new(width));
        let flow = (flow as usize).min(PARTS);
        if flow >= self.flows.len() {
            self.flows.resize(flow + 1, None);
        }
        note(self.flows[flow].get_or_insert_with(series));
        let class = usize::from(class);
        let known = self.classes.len() < PARTS || self.classes.contains_key(&class);
        note(self.classes.entry(if known { class } else { OTHERS }).or_insert_with(series));
    }
    /// The flows that have packets, by their numbers in the scenario.
    pub fn flows(&self) -> impl Iterator<Item = (usize, &PartSeries)> {
        let number = |number| if number < PARTS { number } else { OTHERS };
        self.flows.iter().enumerate().filter_map(move |(n, part)| Some((number(n), &**part.as_ref()?)))
    }
    /// The classes that have packets, by their numbers.
    pub fn classes(&self) -> impl Iterator<Item = (usize, &PartSeries)> {
        self.classes.iter().map(|(number, part)| (*number, &**part))
    }
    fn footprint(&self) -> usize {
        let all = self.flows().chain(self.classes());
        all.map(|(_, part)| part.footprint()).sum::<usize>()
            + (self.flows.len() + 2 * self.classes.len()) * size_of::<usize>()
    }
}

impl LinkSeries {
    /// Creates empty series whose bins begin with `width`.
    pub fn new(width: Span) -> Self {
        let series = || Series::new(width);
        Self {
            sent: [series(), series(), series()],
            backlog: Occupancy::new(width),
            delay_ns: series(),
            dropped: series(),
            marked: series(),
            parts: None,
            first: width,
        }
    }
}

impl LinkMetrics {
    /// The memory in use, in bytes.
    pub(crate) fn footprint(&self) -> usize {
        let series = self.series.as_ref().map_or(0, |series| {
            let LinkSeries { sent, backlog, delay_ns, dropped, marked, parts, first: _ } = &**series;
            sent.iter().chain([delay_ns, dropped, marked]).map(Series::footprint).sum::<usize>()
                + backlog.footprint()
                + parts.as_ref().map_or(0, |parts| parts.footprint())
        });
        self.delay_ns.footprint() + series + self.classes.len() * size_of::<Tally>()
    }
    /// Returns packets and bytes sent, over all colours.
    pub fn sent_total(&self) -> Tally {
        Tally::sum(&self.sent)
    }
    /// Returns the packets of all colours that were dropped for a reason.
    pub fn dropped_because(&self, reason: DropReason) -> u64 {
        self.dropped_for.iter().map(|of_colour| of_colour[reason as usize]).sum()
    }
    /// Returns packets and bytes dropped, over all colours.
    pub fn dropped_total(&self) -> Tally {
        Tally::sum(&self.dropped)
    }
}
