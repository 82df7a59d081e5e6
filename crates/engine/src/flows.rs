//! [`Flows`] keeps a record of each flow: its identity, the counts of its packets and their delays.
//!
//! *Law*: each packet is counted in one record, or as untracked if no record could be made for it.
//! *Source*: the table is [`flow_table`]; rate, jitter and minimums are [`measure`](crate::measure).
//! *Units*: bytes as on the link; times in ns.
//! *Cost*: one look-up for an arrival. A departure or a drop needs none: a packet carries the place of its record, which
//! stays while a packet of the flow is queued. Once a second the granted minimum of each flow is looked up. Nothing is
//! allocated once the table has had its largest number of records, and of records with drops, minimums and widely spread
//! delays. A record with its places in the index and in the lists takes 276 to 292 B, with all these 600 B: 16,384 of them
//! take 5 to 10 MB.
//! *Notes*: a record ends when its flow has been silent for the idle time of the table, or when another evicts it;
//! [`Flows::table`] has counts of both. A sender of one packet from each of many ports evicts only such flows.
//! [`Engine::flow_rows`](crate::Engine::flow_rows) reads the table in steps of a bounded length: a flow that begins or ends
//! between two steps may be missed, and one that ended and began again may be seen twice.
//! *See also*: the flows of the shaper ([`FlowView`]), which exist without statistics, end sooner, and exist only if the
//! root is a shaper.

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

/// The place of a packet without a record.
pub const UNTRACKED: u32 = u32::MAX;

/// The state of a flow at some time.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct FlowRow {
    /// The hash of its fields, as in [`FlowKey`](tidegate_core::FlowKey).
    pub key: u64,
    /// The counts of the flow table.
    pub record: FlowRecord,
    /// The shaper's view of the flow: its share, its minimum, what it borrowed. `None` for another discipline, and after the
    /// flow has ended in the shaper.
    pub view: Option<FlowView>,
}

/// The flows. See the [module](self).
#[derive(Clone, Debug)]
pub struct Flows {
    table: FlowTable<Record>,
    /// The slot in which the scheduler had the flow of each record last; a hint.
    scheduler: Vec<u32>,
    spare: Spare,
    untracked: u64,
    /// The counters of each offloaded flow at the last reading.
    offloaded: HashMap<u64, Counted>,
    /// The time of that reading.
    read_at: Instant,
}

impl Flows {
    /// Makes a table for at most `capacity` flows, whose records end after `idle` without a packet.
    ///
    /// # Errors
    /// See [`flow_table::Params::validate`].
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

    /// Looks a flow up: its record, and where the scheduler had it last.
    #[inline]
    pub(crate) fn slots(&self, key: u64) -> FlowSlots {
        let record = self.table.find(key);
        let scheduler = record.and_then(|place| self.scheduler.get(place as usize).copied());
        FlowSlots { record, scheduler: scheduler.unwrap_or(NO_SLOT) }
    }

    /// Remembers that the scheduler has the flow of the record at `place` in `slot`.
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

    /// Counts an arrival of a flow whose record [`Flows::slots`] has just `found`; returns the place of the record, or
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
        // Queued packets refer to the place of the record, which is pinned for each of them.
        let Some(place) = table.pin_found(now, key, found, &mut |record| record.end(spare)) else {
            self.untracked += 1;
            return UNTRACKED;
        };
        table.get_mut(place).arrived(now, fields, class, size);
        place
    }

    /// Counts a departure; returns the difference between its delay and that of the packet before it.
    #[inline]
    pub(crate) fn departed(&mut self, now: Instant, place: u32, leaving: &Leaving) -> Option<Span> {
        if place == UNTRACKED {
            return None;
        }
        self.table.unpin(now, place);
        let waits = self.table.pins(place) > 0;
        self.table.get_mut(place).departed(now, leaving, waits, &mut self.spare)
    }

    /// Counts a drop.
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
    /// Checks the minimum; `promised` is the minimum that is granted now.
    pub(crate) fn check(&mut self, now: Instant, place: u32, promised: Rate) {
        let waits = self.table.pins(place) > 0;
        self.table.get_mut(place).check(now, promised, waits, &mut self.spare);
    }

    /// Copies the flows at places `from` to `from + most` to `rows`, each with its `view`, and returns the place to continue
    /// from; `None` after the last place. Cost: a look-up and the copy of a record for each place.
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
                // A starving flow has no packet with which its minimum would be checked.
                self.check(now, place, promised(view.as_ref()));
            }
            rows.push(FlowRow { key, record: self.report(place), view });
        }
        (end < self.table.places()).then_some(end)
    }
    /// Gives the rule of each record its new number, `None` where the rule is gone, and its classes theirs. Rules beyond `rules` keep
    /// their number. Cost: linear in the records.
    pub(crate) fn renumber(&mut self, rules: &[Option<u32>], class: impl Fn(ClassId) -> ClassId) {
        for place in 0..self.table.places() {
            if self.table.at(place).is_some() {
                self.table.get_mut(place).renumber(rules, &class);
            }
        }
    }
    /// The record of a flow.
    pub(crate) fn find(&self, key: u64) -> Option<FlowRecord> {
        self.table.find(key).map(|place| self.report(place))
    }
    fn report(&self, place: u32) -> FlowRecord {
        self.table.get(place).report(self.table.pins(place))
    }

    /// The number of flows in the table.
    pub fn len(&self) -> usize {
        self.table.len()
    }
    /// Whether the table has no flows.
    pub fn is_empty(&self) -> bool {
        self.table.is_empty()
    }
    /// Counts of records that were made, ended and evicted.
    pub fn table(&self) -> &flow_table::Stats {
        self.table.stats()
    }
    /// Packets without a record: every record had a packet queued when they arrived.
    pub fn untracked(&self) -> u64 {
        self.untracked
    }
}

/// The minimum that is granted to a flow now; zero while the flow waits for the grant.
pub(crate) fn promised(view: Option<&FlowView>) -> Rate {
    view.filter(|view| view.granted).map_or(Rate::ZERO, |view| view.minimum)
}

/// The places of the flow of a packet.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct FlowSlots {
    /// Its record; `None` before its first packet, and if flows are not counted.
    pub(crate) record: Option<u32>,
    /// Its last slot in the scheduler; a hint.
    pub(crate) scheduler: u32,
}

impl FlowSlots {
    /// A flow of which neither place is known.
    pub(crate) const NONE: Self = Self { record: None, scheduler: NO_SLOT };
}
