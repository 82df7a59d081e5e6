//! What is measured of a link.

use tidegate_core::{DropReason, Span};

use super::{Histogram, Series, Tally};

/// What is measured of a link, after the warm-up.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct LinkMetrics {
    /// Packets whose transmission began, by colour.
    pub sent: [Tally; 3],
    /// Packets that were dropped, by colour.
    pub dropped: [Tally; 3],
    /// Packets that were dropped, by reason in the order of [`DropReason::ALL`].
    pub dropped_for: [u64; DropReason::ALL.len()],
    /// Packets that the line lost.
    pub lost: u64,
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
        }
    }
}

impl LinkMetrics {
    /// Bytes of memory.
    pub(crate) fn footprint(&self) -> usize {
        let series = self.series.as_ref().map_or(0, |series| {
            let LinkSeries { sent, backlog, delay_ns, dropped, marked } = &**series;
            sent.iter().chain([backlog, delay_ns, dropped, marked]).map(Series::footprint).sum()
        });
        self.delay_ns.footprint() + series + self.classes.len() * size_of::<Tally>()
    }
    /// What was sent in all colours.
    pub fn sent_total(&self) -> Tally {
        total(&self.sent)
    }
    /// What was dropped in all colours.
    pub fn dropped_total(&self) -> Tally {
        total(&self.dropped)
    }
}

fn total(tallies: &[Tally; 3]) -> Tally {
    tallies
        .iter()
        .fold(Tally::default(), |sum, one| Tally { packets: sum.packets + one.packets, bytes: sum.bytes + one.bytes })
}
