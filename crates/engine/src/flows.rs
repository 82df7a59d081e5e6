//! [`Flows`]: a record of each flow: its identity, the counts of its packets, how long they waited.
//!
//! *Law*: the counts of flows in the table and of those removed from it add up to what passed: no packet is
//! counted twice, and a packet that no record could be made for is counted as untracked.
//! *Source*: the table is [`flow_table`]; rate, jitter and promises are [`measure`](crate::measure).
//! *Units*: bytes as on the link; times in ns.
//! *Cost*: one look-up for an arrival, none for a departure or a drop (a packet carries the place of its record, which
//! stays while something of the flow waits), and once a second for each flow a look-up of what it is promised. Nothing
//! is allocated after the table had its most records. A record with its places in the index and the lists takes at most
//! 680 B: 16,384 of them are 11 MB.
//! *Notes*: a record is forgotten when its flow was silent for the idle time of the table, or is evicted by another;
//! [`Flows::table`] counts them. A sender of one packet from each of many ports pushes out only such flows.
//! [`Engine::flow_rows`](crate::Engine::flow_rows) goes through the table in steps of a bounded length; a flow
//! that comes or goes between two steps may be missed, and one that went and came back may be seen twice.
//! *See also*: the shaper's own flows ([`FlowView`]), which are there without statistics as well, end sooner, and
//! exist only where the root is a shaper.

use tidegate_core::accounts::Account;
use tidegate_core::classify::{Fields, Hosts};
use tidegate_core::fbq::FlowView;
use tidegate_core::flow_table::{self, FlowTable};
use tidegate_core::packet::NO_SLOT;
use tidegate_core::params::ParamError;
use tidegate_core::{Backlog, Bytes, ClassId, DropReason, Dscp, Instant, Rate, Span};
use tidegate_metrics::RecentDelays;

use crate::measure::{Jitter, MinimumMeter, RateMeter};

/// The place of no record.
pub const UNTRACKED: u32 = u32::MAX;

/// The identity of a flow, from its first packet.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct FlowIdentity {
    /// The addresses.
    pub hosts: Hosts,
    /// The transport protocol.
    pub protocol: Option<u8>,
    /// The sending port.
    pub source_port: Option<u16>,
    /// The receiving port.
    pub destination_port: Option<u16>,
    /// The code point it arrived with.
    pub dscp: Dscp,
    /// The user that owns the sending socket.
    pub uid: Option<u32>,
    /// The control group that owns it.
    pub cgroup: Option<u64>,
    /// The packet mark.
    pub mark: u32,
}

impl From<&Fields> for FlowIdentity {
    fn from(fields: &Fields) -> Self {
        Self {
            hosts: fields.hosts,
            protocol: fields.protocol,
            source_port: fields.source_port,
            destination_port: fields.destination_port,
            dscp: fields.dscp,
            uid: fields.uid,
            cgroup: fields.cgroup,
            mark: fields.mark,
        }
    }
}

/// The record of a flow.
#[derive(Clone, Copy, PartialEq, Debug, Default)]
pub struct FlowRecord {
    /// The fields that identify the flow.
    pub who: FlowIdentity,
    /// The class that the rules put its last packet into.
    pub class: ClassId,
    /// The class that its last packet left through: another while it is displaced.
    pub through: ClassId,
    /// The rule that its last packet matched, by its number in the configuration.
    pub rule: Option<u32>,
    /// The arrival of its first packet.
    pub began: Instant,
    /// When its last packet arrived or left.
    pub last: Instant,
    /// Packets and bytes that arrived.
    pub arrived: Account,
    /// Packets and bytes that left.
    pub sent: Account,
    /// Packets and bytes queued.
    pub waits: Backlog,
    /// Packets dropped, by [`DropReason`] in the order of [`DropReason::ALL`].
    pub dropped: [u32; DropReason::ALL.len()],
    /// Bytes dropped.
    pub dropped_bytes: Bytes,
    /// Packets that left marked congestion experienced here.
    pub marked: u32,
    /// Packets that left with a changed code point.
    pub remarked: u32,
    /// Waiting times of its packets in the last seconds.
    pub delays: RecentDelays,
    /// The longest wait ever.
    pub longest: Span,
    rate: RateMeter,
    jitter: Jitter,
    /// The wait of the last packet, when there was one.
    last_wait: Option<Span>,
    promise: MinimumMeter,
    /// Where the scheduler had the flow last; a hint.
    scheduler_slot: u32,
}

impl FlowRecord {
    /// The rate at which it leaves. See [`RateMeter`].
    pub fn rate(&self, now: Instant) -> Rate {
        self.rate.rate(now)
    }
    /// Its jitter. See [`Jitter`].
    pub fn jitter(&self) -> Span {
        self.jitter.value()
    }
    /// Whether its minimum was kept. See [`MinimumMeter`].
    pub fn promise(&self) -> &MinimumMeter {
        &self.promise
    }
    /// Packets dropped, all reasons together.
    pub fn dropped_total(&self) -> u64 {
        self.dropped.iter().map(|&packets| u64::from(packets)).sum()
    }
}

/// The state of a flow at some time.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct FlowRow {
    /// The hash of its fields, as in [`FlowKey`](tidegate_core::FlowKey).
    pub key: u64,
    /// The counts of the flow table.
    pub record: FlowRecord,
    /// What the shaper reports of it: its share, its minimum, what it borrowed. `None` for another discipline, and
    /// when the flow has ended for the shaper.
    pub view: Option<FlowView>,
}

/// The flows. See the [module](self).
#[derive(Clone, Debug)]
pub struct Flows {
    table: FlowTable<FlowRecord>,
    untracked: u64,
}

impl Flows {
    /// A table for at most `capacity` flows, each forgotten after it was silent for `idle`.
    ///
    /// # Errors
    /// As [`flow_table::Params::validate`].
    pub fn new(capacity: u32, idle: Span) -> Result<Self, ParamError> {
        Ok(Self { table: FlowTable::new(flow_table::Params { capacity, idle })?, untracked: 0 })
    }

    /// Looks a flow up.
    #[inline]
    pub(crate) fn slots(&self, key: u64) -> FlowSlots {
        let record = self.table.find(key);
        FlowSlots { record, scheduler: record.map_or(NO_SLOT, |place| self.table.get(place).scheduler_slot) }
    }

    /// The scheduler has the flow of the record at `place` in `slot`.
    #[inline]
    pub(crate) fn scheduled(&mut self, place: u32, slot: u32) {
        if place != UNTRACKED {
            self.table.get_mut(place).scheduler_slot = slot;
        }
    }

    /// A packet of a flow arrives, which [`Flows::slots`] has just `found`; returns the place of its record, or
    /// [`UNTRACKED`].
    #[inline]
    pub(crate) fn arrived(
        &mut self,
        now: Instant,
        key: u64,
        fields: &Fields,
        (class, rule): (ClassId, Option<u32>),
        size: Bytes,
        found: Option<u32>,
    ) -> u32 {
        let Some(place) = self.table.touch_found(now, key, found) else {
            self.untracked += 1;
            return UNTRACKED;
        };
        let record = self.table.get_mut(place);
        if record.arrived.packets == 0 {
            record.who = fields.into();
            record.began = now;
            record.through = class;
        }
        // The kernel does not know the owner of every packet.
        record.who.uid = record.who.uid.or(fields.uid);
        (record.class, record.rule, record.last) = (class, rule, now);
        record.arrived.count(size);
        let first = record.waits.is_empty();
        record.waits.add(size);
        if first {
            // It stays while it has packets queued: they refer to its place.
            self.table.pin(place);
        }
        place
    }

    /// A packet of the record at `place` left after `waited`; returns how much that differs from the wait of the packet
    /// before it.
    #[inline]
    pub(crate) fn left(&mut self, now: Instant, place: u32, leaving: &Leaving) -> Option<Span> {
        if place == UNTRACKED {
            return None;
        }
        let record = self.table.get_mut(place);
        record.waits.remove(leaving.size);
        record.sent.count(leaving.size);
        record.rate.count(now, leaving.size);
        record.delays.record(now, leaving.waited);
        record.longest = record.longest.max(leaving.waited);
        record.marked = record.marked.saturating_add(leaving.marked.into());
        record.remarked = record.remarked.saturating_add(leaving.remarked.into());
        (record.last, record.through) = (now, leaving.through);
        let waits = !record.waits.is_empty();
        record.promise.delivered(leaving.size, waits);
        let wait = leaving.waited.as_nanos();
        let difference = record.last_wait.map(|last| Span::from_nanos(last.as_nanos().abs_diff(wait)));
        if let Some(difference) = difference {
            record.jitter.differ(difference);
        }
        record.last_wait = Some(leaving.waited);
        if !waits {
            self.table.unpin(now, place);
        }
        difference
    }

    /// A packet of the record at `place` was dropped.
    #[inline]
    pub(crate) fn dropped(&mut self, now: Instant, place: u32, size: Bytes, reason: DropReason) {
        if place == UNTRACKED {
            return;
        }
        let record = self.table.get_mut(place);
        record.waits.remove(size);
        record.dropped[reason as usize] = record.dropped[reason as usize].saturating_add(1);
        record.dropped_bytes += size;
        record.last = now;
        if record.waits.is_empty() {
            self.table.unpin(now, place);
        }
    }

    /// Whether it is time to check the minimum of the record at `place`.
    #[inline]
    pub(crate) fn is_due(&self, now: Instant, place: u32) -> bool {
        place != UNTRACKED && self.table.get(place).promise.is_due(now)
    }
    /// Checks it: `promised` is what the flow is granted now.
    pub(crate) fn check(&mut self, now: Instant, place: u32, promised: Rate) {
        let record = self.table.get_mut(place);
        let waits = !record.waits.is_empty();
        record.promise.check(now, promised, waits);
    }

    /// Copies the flows at places `from` to `from + most` that are there to `rows`, with what `view` returns for them,
    /// and returns the place to continue from; `None` when that was all. Cost: for each place a look-up and a copy of a
    /// record.
    pub(crate) fn look(
        &mut self,
        now: Instant,
        from: u32,
        most: u32,
        rows: &mut Vec<FlowRow>,
        view: impl Fn(u64) -> Option<FlowView>,
    ) -> Option<u32> {
        let end = from.saturating_add(most).min(self.table.places());
        for place in from..end {
            let Some((key, _)) = self.table.at(place) else { continue };
            let view = view(key);
            if self.is_due(now, place) {
                // A flow that starves has no packet with which it would be checked.
                self.check(now, place, promised(view.as_ref()));
            }
            rows.push(FlowRow { key, record: *self.table.get(place), view });
        }
        (end < self.table.places()).then_some(end)
    }
    /// One flow, if it is known.
    pub(crate) fn find(&self, key: u64) -> Option<&FlowRecord> {
        self.table.find(key).map(|place| self.table.get(place))
    }

    /// Flows in the table.
    pub fn len(&self) -> usize {
        self.table.len()
    }
    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.table.is_empty()
    }
    /// How many records were made, forgotten, and pushed out.
    pub fn table(&self) -> &flow_table::Stats {
        self.table.stats()
    }
    /// Packets without a record, because each record had something waiting.
    pub fn untracked(&self) -> u64 {
        self.untracked
    }
}

/// The minimum that a flow is promised now: nothing while it waits to be granted.
pub(crate) fn promised(view: Option<&FlowView>) -> Rate {
    view.filter(|view| view.granted).map_or(Rate::ZERO, |view| view.minimum)
}

/// Where the flow of a packet is found.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct FlowSlots {
    /// Its record; `None` where there is none yet, or flows are not counted.
    pub(crate) record: Option<u32>,
    /// Its slot in the scheduler when it was last there; a hint.
    pub(crate) scheduler: u32,
}

/// A packet on its way out.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Leaving {
    pub size: Bytes,
    pub waited: Span,
    pub through: ClassId,
    pub marked: bool,
    pub remarked: bool,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_record_has_the_documented_size() {
        assert!(size_of::<FlowRecord>() <= 608, "{}", size_of::<FlowRecord>());
    }
}
