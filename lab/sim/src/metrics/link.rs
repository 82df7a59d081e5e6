//! Measurements of a link.

use std::collections::BTreeMap;

use tidegate_core::{DropReason, Span};
use tidegate_metrics::{Histogram, Part, PartSeries, Series};

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
    /// Packets that arrived twice, from the beginning of the run.
    pub duplicated: u64,
    /// Packets that the discipline marked.
    pub marked: u64,
    /// Time from the queue's entry to the beginning of the transmission, in nanoseconds; only where watched.
    pub delay_ns: Histogram,
    /// Over time, where watched.
    pub series: Option<Box<LinkSeries>>,
    /// Bytes sent by class, where watched; class numbers up to 65,535.
    pub classes: Vec<Tally>,
}

/// A link over time.
#[derive(Clone, PartialEq, Debug)]
pub struct LinkSeries {
    /// Bytes sent, by colour.
    pub sent: [Series; 3],
    /// Packets in the queue, as arriving packets saw it: take the means.
    pub backlog: Series,
    /// Queueing delay of what left, in nanoseconds: take the means.
    pub delay_ns: Series,
    /// Packets dropped.
    pub dropped: Series,
    /// Packets marked.
    pub marked: Series,
    /// The same of each flow and each class, where they are kept apart.
    pub parts: Option<Box<Parts>>,
    /// The width that bins begin with.
    pub first: Span,
}

/// Flows, and classes, of a link that are kept apart over time: the flows with the lowest numbers, and the first classes
/// with packets. At most 130 kB each.
pub const PARTS: usize = 128;
/// The number under which all others are kept together.
pub const OTHERS: usize = usize::MAX;

/// Flows and classes of a link over time, by their numbers; beyond [`PARTS`] of each together.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct Parts {
    flows: Vec<Option<Box<PartSeries>>>,
    /// Those of reservations have high numbers.
    classes: BTreeMap<usize, Box<PartSeries>>,
}

impl Parts {
    /// Lets `note` see the series of the flow and of the class of a packet, which begin with bins of `width`.
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
    /// The flows with packets, by flow of the scenario.
    pub fn flows(&self) -> impl Iterator<Item = (usize, &PartSeries)> {
        let number = |number| if number < PARTS { number } else { OTHERS };
        self.flows.iter().enumerate().filter_map(move |(n, part)| Some((number(n), &**part.as_ref()?)))
    }
    /// The classes with packets.
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
    /// With bins of `width` to begin with.
    pub fn new(width: Span) -> Self {
        let series = || Series::new(width);
        Self {
            sent: [series(), series(), series()],
            backlog: series(),
            delay_ns: series(),
            dropped: series(),
            marked: series(),
            parts: None,
            first: width,
        }
    }
}

impl LinkMetrics {
    /// Bytes of memory.
    pub(crate) fn footprint(&self) -> usize {
        let series = self.series.as_ref().map_or(0, |series| {
            let LinkSeries { sent, backlog, delay_ns, dropped, marked, parts, first: _ } = &**series;
            sent.iter().chain([backlog, delay_ns, dropped, marked]).map(Series::footprint).sum::<usize>()
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
