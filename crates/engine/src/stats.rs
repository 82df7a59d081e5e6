//! The counts and measurements of a class: packets and bytes, drops by reason, delays, rate, jitter, minimums.

use tidegate_core::accounts::{Account, Accounts};
use tidegate_core::qdisc::Backlog;
use tidegate_core::{Bytes, DropReason, Instant, Rate, Span};
use tidegate_metrics::Delays;

use crate::measure::{Jitter, MinimumMeter, RateMeter};
use crate::offload::Totals;

/// The counts of one class.
#[derive(Clone, Debug, Default)]
pub struct ClassCounts {
    /// Packets and bytes enqueued, dequeued and dropped, of the packets that the rules put into this class.
    pub accounts: Accounts,
    /// Packets and bytes that left through this class, including those of flows displaced to it.
    pub through: Account,
    /// Queued packets that moved here because the rules changed.
    pub moved_in: Account,
    /// Queued packets that moved to another class because the rules changed.
    pub moved_out: Account,
    /// Packets and bytes queued, of the packets that the rules put into this class: enqueued and moved in, less dequeued,
    /// dropped and moved out.
    pub backlog: Backlog,
    /// Dequeued packets that were marked congestion experienced here.
    pub marked: u64,
    /// Dequeued packets whose code point was changed.
    pub remarked: u64,
    /// Packets in which a rate was written for the flow's endpoints.
    pub advised: u64,
    /// Queueing delays of the packets that left through this class.
    pub waited: Delays,
    rate: RateMeter,
    jitter: Jitter,
    promise: MinimumMeter,
    /// [`Totals::emptied`] of the last call.
    emptied: u64,
}

impl ClassCounts {
    pub(crate) fn arrived(&mut self, size: Bytes) {
        self.accounts.enqueued.count(size);
        self.backlog.add(size);
    }
    /// Counts a departure; `held` is whether what is left waits for ceilings only.
    pub(crate) fn dequeued(&mut self, size: Bytes, held: bool) {
        self.accounts.dequeued.count(size);
        self.backlog.remove(size);
        self.promise.delivered(size, !held && !self.backlog.is_empty());
    }
    pub(crate) fn sent(&mut self, size: Bytes) {
        self.through.count(size);
    }
    /// Measures a departure, which is left out with `detail = "off"`.
    pub(crate) fn measured(&mut self, now: Instant, size: Bytes, waited: Span) {
        self.waited.record(waited);
        self.rate.count(now, size);
    }
    /// Adds the departures of an offloaded class since the last reading, at which it waited for ceilings only if it was `held`:
    /// `new` packets, which waited as `totals` has it.
    pub(crate) fn add_offloaded(&mut self, now: Instant, new: Account, totals: &Totals, held: bool) {
        self.rate.count(now, new.bytes);
        let emptied = std::mem::replace(&mut self.emptied, totals.emptied) != totals.emptied;
        self.promise.delivered_all(new.packets, new.bytes, !emptied && !held);
        let mut last = totals.longest > self.waited.longest();
        for &(waited, times) in totals.waits.iter().rev().filter(|(_, times)| *times > 0) {
            // The longest is known exactly: it is the last of those that waited longest.
            let exact = u64::from(std::mem::take(&mut last));
            self.waited.record_many(totals.longest, exact);
            self.waited.record_many(waited.min(totals.longest), times - exact);
        }
    }
    pub(crate) fn differed(&mut self, difference: Span) {
        self.jitter.differ(difference);
    }
    pub(crate) fn dropped(&mut self, size: Bytes, reason: DropReason) {
        self.accounts.dropped[reason as usize].count(size);
        self.backlog.remove(size);
    }
    pub(crate) fn moved_in(&mut self, size: Bytes) {
        self.moved_in.count(size);
        self.backlog.add(size);
    }
    pub(crate) fn moved_out(&mut self, size: Bytes) {
        self.moved_out.count(size);
        self.backlog.remove(size);
    }
    pub(crate) fn promise_is_due(&self, now: Instant) -> bool {
        self.promise.is_due(now)
    }
    /// Checks the promised rate; `held` is whether what is queued waits for ceilings only.
    pub(crate) fn check(&mut self, now: Instant, promised: Rate, held: bool) {
        self.promise.check(now, promised, !held && !self.backlog.is_empty());
    }
    /// Adds the counts of the same class in another engine. The jitter is the larger one.
    pub(crate) fn add(&mut self, other: &Self, now: Instant) {
        self.accounts.add(&other.accounts);
        for (sum, one) in [
            (&mut self.through, other.through),
            (&mut self.moved_in, other.moved_in),
            (&mut self.moved_out, other.moved_out),
        ] {
            sum.add(one);
        }
        self.backlog.merge(other.backlog);
        self.marked += other.marked;
        self.remarked += other.remarked;
        self.advised += other.advised;
        self.waited.add(&other.waited);
        self.rate.add(now, other.rate);
        if other.jitter() > self.jitter() {
            self.jitter = other.jitter;
        }
    }
    /// The quantile `part` (0 to 1) of the queueing delays.
    pub fn waited_at(&self, part: f64) -> Span {
        self.waited.quantile(part)
    }
    /// The rate at which packets leave through this class. See [`RateMeter`].
    pub fn rate(&self, now: Instant) -> Rate {
        self.rate.rate(now)
    }
    /// The jitter over the packets of all flows, each compared with the packet before it of its own flow. Zero if flows are
    /// not counted.
    pub fn jitter(&self) -> Span {
        self.jitter.value()
    }
    /// How many seconds the rate of the class was kept or missed, for the packets that the rules put into it. See
    /// [`MinimumMeter`].
    pub fn promise(&self) -> &MinimumMeter {
        &self.promise
    }
}

/// The name and the state of a class.
#[derive(Clone, Debug)]
pub struct ClassStatus {
    /// Its name.
    pub name: String,
    /// Its allocated rate; `None` if the discipline does not report it.
    pub rate: Option<Rate>,
    /// The number of flows present, if the discipline has flows.
    pub flows: Option<u64>,
    /// Packets and bytes sent with borrowed rate, if the discipline counts them.
    pub borrowed: Option<Account>,
    /// Its counts since the start.
    pub counts: ClassCounts,
}

impl ClassStatus {
    /// Adds the same class of another shard, which has the rate in common.
    pub(crate) fn add(&mut self, other: &Self, now: Instant) {
        self.flows = self.flows.zip(other.flows).map(|(sum, one)| sum + one);
        if let (Some(sum), Some(one)) = (&mut self.borrowed, other.borrowed) {
            sum.add(one);
        }
        self.counts.add(&other.counts, now);
    }
}
