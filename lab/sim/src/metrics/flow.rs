//! Measurements of a flow of the scenario.

use tidegate_core::{Bytes, Colour, Rate, Span};
use tidegate_metrics::{Histogram, MOST_ORDERED, Series};

use crate::packet::SimPacket;

/// Packets and bytes.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Tally {
    /// Packets.
    pub packets: u64,
    /// Bytes on the link.
    pub bytes: u64,
}

impl Tally {
    /// Counts a packet of `size` bytes.
    pub fn count(&mut self, size: u32) {
        self.packets += 1;
        self.bytes += u64::from(size);
    }
    /// Adds the packets and bytes of several tallies.
    pub(super) fn sum(tallies: &[Self]) -> Self {
        tallies.iter().fold(Self::default(), |mut sum, tally| {
            sum += *tally;
            sum
        })
    }
    /// The bytes as a rate over `span`; zero over no time.
    pub fn rate(&self, span: Span) -> Rate {
        rate(self.bytes, span)
    }
}

impl std::ops::AddAssign for Tally {
    fn add_assign(&mut self, other: Self) {
        self.packets += other.packets;
        self.bytes += other.bytes;
    }
}

/// `bytes` in `span` as a rate, rounded down.
fn rate(bytes: u64, span: Span) -> Rate {
    let nanos = u128::from(span.as_nanos().max(1));
    Rate::from_bps((u128::from(bytes) * 8 * 1_000_000_000 / nanos) as u64)
}

/// Size classes of transfers: powers of ten from 10 kB on.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum SizeClass {
    /// Below 10 kB.
    Tiny,
    /// 10 kB to below 100 kB.
    Small,
    /// 100 kB to below 1 MB.
    Medium,
    /// 1 MB and more.
    Large,
}

impl SizeClass {
    /// All, from small to large.
    pub const ALL: [Self; 4] = [Self::Tiny, Self::Small, Self::Medium, Self::Large];

    /// The class of a transfer of `size`.
    pub fn of(size: Bytes) -> Self {
        match size.as_u64() {
            0..10_000 => Self::Tiny,
            10_000..100_000 => Self::Small,
            100_000..1_000_000 => Self::Medium,
            _ => Self::Large,
        }
    }
    /// Returns the name for tables.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Tiny => "<10kB",
            Self::Small => "<100kB",
            Self::Medium => "<1MB",
            Self::Large => ">=1MB",
        }
    }
}

/// A transfer of a known size.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Transfer {
    /// The number of its connection in the run, which may carry several.
    pub connection: u64,
    /// When its connection was opened, or when it was requested, in nanoseconds.
    pub begun_ns: u64,
    /// Its bytes of data.
    pub size: u64,
    /// The time until its last byte arrived or, if it was not completed, until its connection was aborted or the run ended, in
    /// nanoseconds.
    pub time_ns: u64,
    /// The time that it takes when the path is idle, in nanoseconds.
    pub ideal_ns: u64,
    /// How it ended.
    pub end: TransferEnd,
}

/// How a transfer ended.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum TransferEnd {
    /// Its last byte arrived.
    Completed,
    /// Its connection was aborted: it never completes.
    Aborted,
    /// The run ended before it did.
    Cut,
}

impl Transfer {
    /// The size class.
    pub fn class(&self) -> SizeClass {
        SizeClass::of(Bytes::new(self.size))
    }
    /// The time divided by that of an idle path, in millionths, to the nearest.
    pub fn slowdown_micro(&self) -> u64 {
        let ideal = u128::from(self.ideal_ns);
        ((u128::from(self.time_ns) * 1_000_000 + ideal / 2) / ideal) as u64
    }
}

/// The transfers of a flow that are kept one by one.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Transfers {
    /// Whether transfers are kept.
    pub(crate) wanted: bool,
    /// In the order of their end, those that the run cut excepted; at most [`MOST_TRANSFERS`].
    pub kept: Vec<Transfer>,
}

/// How many transfers of a flow are kept. Histograms have all of them.
pub const MOST_TRANSFERS: usize = 100_000;

impl Transfers {
    pub(crate) fn keep(&mut self, transfer: Transfer) {
        if self.wanted && self.kept.len() < MOST_TRANSFERS {
            self.kept.push(transfer);
        }
    }
}

/// Measurements of a flow of the scenario, over all of its connections, after the warm-up.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct FlowMetrics {
    /// Bytes of data that arrived, each counted once and when it arrived first: those from the first host of the flow to the
    /// second, and those back.
    pub goodput_bytes: [u64; 2],
    /// Packets with data that arrived, by colour.
    pub arrived: [Tally; 3],
    /// Packets with data that were sent, in each direction.
    pub sent: [Tally; 2],
    /// Packets with data that were sent again.
    pub retransmitted: Tally,
    /// Packets with data that a link or a discipline dropped, in each direction.
    pub dropped: [Tally; 2],
    /// Segments without data, most of them acknowledgements, that a link or a discipline dropped.
    pub dropped_empty: Tally,
    /// Packets that arrived with a congestion mark.
    pub marked: u64,
    /// Marked packets that acknowledgements have reported to the sender, where the feedback counts them: AccECN of TCP and QUIC.
    pub marks_reported: u64,
    /// Times a retransmission timer ran out.
    pub timeouts: u64,
    /// Connections opened. For a flow of requests this counts the requests.
    pub opened: u64,
    /// Completed transfers among those counted in `opened`. Transfers that began during the warm-up are not counted.
    pub completed: u64,
    /// Connections that were aborted.
    pub failed: u64,
    /// Transfers among those counted in `opened` whose connection was aborted, by [`SizeClass`].
    pub aborted: [u64; 4],
    /// Connections that were not opened because too many were open.
    pub refused: u64,
    /// One-way delay of datagrams and of segments with data in nanoseconds, from the first host of the flow to the second
    /// and back.
    pub delay_ns: [Histogram; 2],
    /// The part of it that packets spent in queues, where it is recorded: without the times of lines, beside which a short wait is
    /// below the width of a bin.
    pub queueing_ns: Option<Box<[Histogram; 2]>>,
    /// From the SYN to the end of the handshake at the client, in nanoseconds.
    pub connect_ns: Histogram,
    /// From the SYN to the last byte at the receiver, in nanoseconds.
    pub completion_ns: Histogram,
    /// Completion times by [`SizeClass`].
    pub completion_by_size_ns: [Histogram; 4],
    /// Slowdown by [`SizeClass`], in millionths: the completion time divided by the time that the path needs when it
    /// is idle (1000 means not slowed down).
    pub slowdown_micro: [Histogram; 4],
    /// The completion time and the slowdown of each completed transfer, with its [`SizeClass`], or of the first ones if there are
    /// too many: in which order they and unfinished ones lasted.
    pub(crate) ordered: Vec<(u64, u64, SizeClass)>,
    /// The transfers that have ended one by one, where they are kept.
    pub transfers: Transfers,
    /// Goodput bytes over time, if the flow is watched.
    pub series: Option<Box<Series>>,
}

impl FlowMetrics {
    /// Adds the measurements of `other`, except for its time series.
    pub fn merge(&mut self, other: &Self) {
        for (mine, theirs) in self.arrived.iter_mut().zip(&other.arrived) {
            *mine += *theirs;
        }
        for (mine, theirs) in self.sent.iter_mut().zip(&other.sent).chain(self.dropped.iter_mut().zip(&other.dropped)) {
            *mine += *theirs;
        }
        self.dropped_empty += other.dropped_empty;
        self.retransmitted += other.retransmitted;
        for (mine, theirs) in self.goodput_bytes.iter_mut().zip(&other.goodput_bytes) {
            *mine += theirs;
        }
        self.marked += other.marked;
        self.marks_reported += other.marks_reported;
        self.timeouts += other.timeouts;
        self.opened += other.opened;
        self.completed += other.completed;
        self.failed += other.failed;
        self.aborted.iter_mut().zip(other.aborted).for_each(|(mine, theirs)| *mine += theirs);
        self.refused += other.refused;
        for (mine, theirs) in self.delay_ns.iter_mut().zip(&other.delay_ns) {
            mine.merge(theirs);
        }
        if let Some(theirs) = &other.queueing_ns {
            let mine = self.queueing_ns.get_or_insert_default();
            mine.iter_mut().zip(&**theirs).for_each(|(mine, theirs)| mine.merge(theirs));
        }
        self.connect_ns.merge(&other.connect_ns);
        self.completion_ns.merge(&other.completion_ns);
        for (mine, theirs) in self.completion_by_size_ns.iter_mut().zip(&other.completion_by_size_ns) {
            mine.merge(theirs);
        }
        for (mine, theirs) in self.slowdown_micro.iter_mut().zip(&other.slowdown_micro) {
            mine.merge(theirs);
        }
        self.ordered.extend(&other.ordered);
    }
    /// Counts a completed transfer.
    pub(crate) fn complete(&mut self, transfer: &Transfer) {
        let (class, slowdown) = (transfer.class(), transfer.slowdown_micro());
        self.completion_ns.record(transfer.time_ns);
        self.completion_by_size_ns[class as usize].record(transfer.time_ns);
        self.slowdown_micro[class as usize].record(slowdown);
        if self.ordered.len() < MOST_ORDERED {
            self.ordered.push((transfer.time_ns, slowdown, class));
        }
    }
    /// The memory in use, in bytes.
    pub(crate) fn footprint(&self) -> usize {
        let single = [&self.delay_ns[0], &self.delay_ns[1], &self.connect_ns, &self.completion_ns];
        let all = single.into_iter().chain(&self.completion_by_size_ns).chain(&self.slowdown_micro);
        let queueing = self.queueing_ns.iter().flat_map(|both| both.iter());
        all.chain(queueing).map(Histogram::footprint).sum::<usize>()
            + self.transfers.kept.capacity() * size_of::<Transfer>()
            + self.ordered.capacity() * size_of::<(u64, u64, SizeClass)>()
            + self.series.as_ref().map_or(0, |series| series.footprint())
    }
    /// The delays of both directions.
    pub fn delay_both_ns(&self) -> Histogram {
        let mut both = self.delay_ns[0].clone();
        both.merge(&self.delay_ns[1]);
        both
    }
    /// The slowdown of transfers of all sizes, in millionths.
    pub fn slowdown_all_micro(&self) -> Histogram {
        let mut all = Histogram::default();
        self.slowdown_micro.iter().for_each(|of_class| all.merge(of_class));
        all
    }
    /// Goodput of both directions over `span`.
    pub fn goodput(&self, span: Span) -> Rate {
        rate(self.goodput_total(), span)
    }
    /// Goodput in each direction over `span`.
    pub fn goodputs(&self, span: Span) -> [Rate; 2] {
        self.goodput_bytes.map(|bytes| rate(bytes, span))
    }
    /// The bytes of goodput in both directions.
    pub fn goodput_total(&self) -> u64 {
        self.goodput_bytes.iter().sum()
    }
    /// Returns packets and bytes that were sent, in both directions.
    pub fn sent_total(&self) -> Tally {
        Tally::sum(&self.sent)
    }
    /// Returns packets and bytes that were dropped in both directions, acknowledgements included.
    pub fn dropped_total(&self) -> Tally {
        let mut all = Tally::sum(&self.dropped);
        all += self.dropped_empty;
        all
    }
    /// Counts a packet of the flow that was dropped.
    pub(crate) fn drop_one(&mut self, packet: &SimPacket) {
        match packet.has_data() {
            true => self.dropped[packet.direction()].count(packet.size),
            false => self.dropped_empty.count(packet.size),
        }
    }
    /// Returns packets and bytes that arrived, over all colours.
    pub fn arrived_total(&self) -> Tally {
        Tally::sum(&self.arrived)
    }
    /// Throughput (bytes on the link that arrived) of one colour over `span`.
    pub fn throughput(&self, colour: Colour, span: Span) -> Rate {
        self.arrived[colour as usize].rate(span)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_slowdown_is_rounded_to_the_nearest_millionth() {
        let slowdown = |time_ns: u64, ideal_ns: u64| {
            Transfer { connection: 1, begun_ns: 0, size: 1, time_ns, ideal_ns, end: TransferEnd::Completed }
                .slowdown_micro()
        };
        // 1.21256 was 1.212.
        assert_eq!(slowdown(121_256_000, 100_000_000), 1_212_560);
        assert_eq!((slowdown(2, 3), slowdown(4, 3)), (666_667, 1_333_333));
    }
}
