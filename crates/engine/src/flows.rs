//! [`Flows`]: a record of each flow: its identity, the counts of its packets, how long they waited.
//!
//! *Law*: the counts of flows in the table and of those removed from it add up to what passed: no packet is
//! counted twice, and a packet that no record could be made for is counted as untracked.
//! *Source*: the table is [`flow_table`]; rate, jitter and promises are [`measure`](crate::measure).
//! *Units*: bytes as on the link; times in ns.
//! *Cost*: one look-up for an arrival, none for a departure or a drop (a packet carries the place of its record, which
//! stays while something of the flow waits), and once a second for each flow a look-up of what it is promised. Nothing
//! is allocated after the table had its most records, and its most with drops, minimums and widely spread delays. A
//! record with its places in the index and the lists takes 276 to 292 B, with all of these 600 B: 16,384 of them are 5 to
//! 10 MB.
//! *Notes*: a record is forgotten when its flow was silent for the idle time of the table, or is evicted by another;
//! [`Flows::table`] counts them. A sender of one packet from each of many ports pushes out only such flows.
//! [`Engine::flow_rows`](crate::Engine::flow_rows) goes through the table in steps of a bounded length; a flow
//! that comes or goes between two steps may be missed, and one that went and came back may be seen twice.
//! *See also*: the shaper's own flows ([`FlowView`]), which are there without statistics as well, end sooner, and
//! exist only where the root is a shaper.

use std::collections::HashMap;

use tidegate_core::classify::Fields;
use tidegate_core::fbq::FlowView;
use tidegate_core::flow_table::{self, FlowTable};
use tidegate_core::packet::NO_SLOT;
use tidegate_core::params::ParamError;
use tidegate_core::{Bytes, ClassId, DropReason, Instant, Rate, Span};

use crate::flow_record::{Counted, Leaving, Record, Spare};
pub use crate::flow_record::{FlowIdentity, FlowRecord};

mod offload;

/// The place of no record.
pub const UNTRACKED: u32 = u32::MAX;

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
    table: FlowTable<Record>,
    /// Where the scheduler had the flow of each record last; a hint. Beside the records, so that what the scheduler has of a
    /// flow can be read at the same time as the record.
    scheduler: Vec<u32>,
    spare: Spare,
    untracked: u64,
    /// The counters of each offloaded flow at the last reading.
    offloaded: HashMap<u64, Counted>,
    /// The time of that reading.
    read_at: Instant,
}

impl Flows {
    /// A table for at most `capacity` flows, each forgotten after it was silent for `idle`.
    ///
    /// # Errors
    /// As [`flow_table::Params::validate`].
    pub fn new(capacity: u32, idle: Span) -> Result<Self, ParamError> {
        let table = FlowTable::new(flow_table::Params { capacity, idle })?;
        Ok(Self {
            table,
            scheduler: Vec::new(),
            spare: Spare::default(),
            untracked: 0,
            offloaded: HashMap::new(),
            read_at: Instant::ZERO,
        })
    }

    /// Looks a flow up. `ahead` is called with its slot in the scheduler, where that is likely known, before its record is
    /// read.
    #[inline]
    pub(crate) fn slots(&self, key: u64, ahead: impl Fn(u32)) -> FlowSlots {
        let slot = |place: u32| self.scheduler.get(place as usize).copied().unwrap_or(NO_SLOT);
        let record = self.table.find_ahead(key, |place| ahead(slot(place)));
        FlowSlots { record, scheduler: record.map_or(NO_SLOT, slot) }
    }

    /// Whether `record` is that of the flow.
    #[inline]
    pub(crate) fn has(&self, record: Option<u32>, flow: u64) -> bool {
        record.and_then(|place| self.table.at(place)).is_some_and(|(key, _)| key == flow)
    }

    /// Reads the record at `place`, of which a packet leaves soon, so that it is in the cache by then.
    #[inline]
    pub(crate) fn read_ahead(&self, place: u32) {
        if let Some((_, record)) = self.table.at(place) {
            record.read_ahead();
        }
    }

    /// The scheduler has the flow of the record at `place` in `slot`.
    #[inline]
    pub(crate) fn scheduled(&mut self, place: u32, slot: u32) {
        if place == UNTRACKED {
            return;
        }
        if self.scheduler.len() <= place as usize {
            self.scheduler.resize(place as usize + 1, NO_SLOT);
        }
        self.scheduler[place as usize] = slot;
    }

    /// A packet of a flow arrives, which [`Flows::slots`] has just `found`; returns the place of its record, or
    /// [`UNTRACKED`].
    #[inline]
    pub(crate) fn arrived(
        &mut self,
        now: Instant,
        key: u64,
        fields: &Fields,
        class: (ClassId, Option<u32>),
        size: Bytes,
        found: Option<u32>,
    ) -> u32 {
        let Self { table, spare, .. } = self;
        // It stays while it has packets queued: they refer to its place.
        let Some(place) = table.pin_found(now, key, found, &mut |record| record.end(spare)) else {
            self.untracked += 1;
            return UNTRACKED;
        };
        table.get_mut(place).arrived(now, fields, class, size);
        place
    }

    /// A packet of the record at `place` left after `waited`; returns how much that differs from the wait of the packet
    /// before it.
    #[inline]
    pub(crate) fn left(&mut self, now: Instant, place: u32, leaving: &Leaving) -> Option<Span> {
        if place == UNTRACKED {
            return None;
        }
        self.table.unpin(now, place);
        let waits = self.table.pins(place) > 0;
        self.table.get_mut(place).left(now, leaving, waits, &mut self.spare)
    }

    /// A packet of the record at `place` was dropped.
    #[inline]
    pub(crate) fn dropped(&mut self, now: Instant, place: u32, size: Bytes, reason: DropReason) {
        if place == UNTRACKED {
            return;
        }
        self.table.unpin(now, place);
        self.table.get_mut(place).dropped(now, size, reason, &mut self.spare);
    }

    /// Whether it is time to check the minimum of the record at `place`.
    #[inline]
    pub(crate) fn is_due(&self, now: Instant, place: u32) -> bool {
        place != UNTRACKED && self.table.get(place).is_due(now)
    }
    /// Checks it: `promised` is what the flow is granted now.
    pub(crate) fn check(&mut self, now: Instant, place: u32, promised: Rate) {
        let waits = self.table.pins(place) > 0;
        self.table.get_mut(place).check(now, promised, waits, &mut self.spare);
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
            rows.push(FlowRow { key, record: self.report(place), view });
        }
        (end < self.table.places()).then_some(end)
    }
    /// One flow, if it is known.
    pub(crate) fn find(&self, key: u64) -> Option<FlowRecord> {
        self.table.find(key).map(|place| self.report(place))
    }
    fn report(&self, place: u32) -> FlowRecord {
        self.table.get(place).report(self.table.pins(place))
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
