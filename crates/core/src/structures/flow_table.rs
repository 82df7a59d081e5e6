//! [`FlowTable`]: records of flows in bounded memory, that a flood of one-packet flows cannot push out.
//!
//! *Law*: never more than `capacity` records. A record that is pinned is kept. One that was touched within `idle` is
//! evicted only for a new one, and then in this order: flows seen once, flows seen again, protected ones; within each
//! the one not touched for longest. A protected record is therefore evicted for another protected one only, as long as
//! protected and pinned records leave an eighth of the table free.
//! *Source*: segmented least-recently-used replacement (Karedla, Love and Wherry, 1994), with a first segment for
//! flows seen once; the options "maximum number of flow records" and "inactivity timeout" of the Mice and Elephants
//! prototypes (Braithwaite).
//! *Units*: `idle` in nanoseconds since the last touch.
//! *Cost*: O(1) a call: one hash look-up, and at most two idle records of each segment freed. The index is
//! allocated at once, 16 to 64 B for each of `capacity`, and the records, each of whole cache lines, up to 65,536 of them;
//! there is no allocation after the table's most records.
//! *Notes*: records are distinguished by their whole 64-bit key, which is a keyed hash made where the packet enters
//! ([`FlowKey`](crate::FlowKey)): two flows share a record with a chance of 2⁻⁶⁴ a pair, and no sender can
//! look for one. A flood of f new flows a second turns over the part of the table that is neither protected nor
//! seen again in (that part)/f seconds; a flow that sends two packets within it stays. At most 7/8 of the table are
//! protected: beyond it the protected record not touched for longest becomes a plain one.
//!
//! ```
//! use tidegate_core::{flow_table::{FlowTable, Params}, *};
//! let mut table: FlowTable<u64> = FlowTable::new(Params { capacity: 16, idle: Span::from_secs(60) })?;
//! let elephant = table.touch(Instant::ZERO, 1).unwrap();
//! *table.get_mut(elephant) += 1_000_000;
//! table.protect(elephant);
//! for flood in 1_000..2_000 {
//!     table.touch(Instant::ZERO, flood);
//! }
//! assert_eq!((table.len(), table.find(1).map(|index| *table.get(index))), (16, Some(1_000_000)));
//! # Ok::<(), ParamError>(())
//! ```

use crate::key_index::KeyIndex;
use crate::params::ParamError;
use crate::queues::{Linked, List, NIL};
use crate::slab::{Slab, reusable};
use tidegate_units::{Instant, Span};

/// The size of a table, and the lifetime of idle records.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Params {
    /// The most records, 8 to 16,777,216.
    pub capacity: u32,
    /// A record not touched for this long expires.
    pub idle: Span,
}

impl Default for Params {
    /// 65,536 records, a minute.
    fn default() -> Self {
        Self { capacity: 65_536, idle: Span::from_secs(60) }
    }
}

impl Params {
    /// Checks the parameters.
    ///
    /// # Errors
    /// A capacity outside 8 to 2^24, an idle time of zero.
    pub fn validate(self) -> Result<Self, ParamError> {
        if !(8..=1 << 24).contains(&self.capacity) {
            return Err(ParamError::new("capacity", "must be 8 to 16777216, for example 65536"));
        }
        if self.idle.is_zero() {
            return Err(ParamError::new("idle", "must be above 0, for example 60s"));
        }
        Ok(self)
    }
}

/// For so many records the memory is reserved at once: aligned memory is copied when it grows, and what it was before stays
/// with the process. Until a record is made its part is not touched.
const AT_ONCE: u32 = 1 << 16;

/// Counts since the start.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Stats {
    /// Records created since the start.
    pub created: u64,
    /// Records that expired after `idle`.
    pub expired: u64,
    /// Records evicted, by segment: seen once, seen again, protected.
    pub evicted: [u64; 3],
    /// Records that became plain because more than 7/8 of the table were protected.
    pub demoted: u64,
}

const SEEN_ONCE: u8 = 0;
const SEEN_AGAIN: u8 = 1;
const PROTECTED: u8 = 2;
/// In none of them: its place is free.
const GONE: u8 = 3;

/// A record with all that a touch of it needs, in its order: the first half of a cache line and the record behind it.
#[derive(Clone, Debug)]
#[repr(C, align(64))]
struct Entry<R> {
    key: u64,
    touched: Instant,
    /// The records before and after it in its segment.
    link: [u32; 2],
    pins: u32,
    segment: u8,
    record: R,
}

reusable!(Entry<R>, link[0]: u32);

impl<R> Linked for Slab<u32, Entry<R>> {
    #[inline]
    fn link(&mut self, number: u32) -> &mut [u32; 2] {
        &mut self[number].link
    }
}

/// Records of flows. See the [module](self).
#[derive(Clone, Debug)]
pub struct FlowTable<R> {
    params: Params,
    entries: Slab<u32, Entry<R>>,
    index: KeyIndex,
    /// The unpinned records of each segment, the one not touched for longest first.
    segments: [List; 3],
    protected: u32,
    stats: Stats,
    latest: Instant,
}

impl<R: Default> FlowTable<R> {
    /// An empty table.
    ///
    /// # Errors
    /// As [`Params::validate`].
    pub fn new(params: Params) -> Result<Self, ParamError> {
        let params = params.validate()?;
        Ok(Self {
            params,
            entries: Slab::with_capacity(params.capacity.min(AT_ONCE) as usize),
            index: KeyIndex::with_capacity(params.capacity as usize),
            segments: Default::default(),
            protected: 0,
            stats: Stats::default(),
            latest: Instant::ZERO,
        })
    }
    /// Returns the number of records.
    pub fn len(&self) -> usize {
        self.index.len()
    }
    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.index.is_empty()
    }
    /// Counts since the start.
    pub fn stats(&self) -> &Stats {
        &self.stats
    }
    /// The record of `key`, if there is one. Does not touch it.
    pub fn find(&self, key: u64) -> Option<u32> {
        self.index.find(key, |index| self.entries[index].key == key)
    }
    /// A record by the index that [`touch`](Self::touch) returned. Indices of unpinned records are good until the next
    /// touch.
    pub fn get(&self, index: u32) -> &R {
        &self.entries[index].record
    }
    /// Mutable access to a record.
    pub fn get_mut(&mut self, index: u32) -> &mut R {
        &mut self.entries[index].record
    }

    /// Places that records have been put into so far; they are numbered from 0.
    pub fn places(&self) -> u32 {
        self.entries.slots()
    }
    /// The key and the record at place `index`, if it is not free. With [`places`](Self::places), to look through the
    /// table in steps of a bounded length: records made or freed meanwhile may be missed.
    pub fn at(&self, index: u32) -> Option<(u64, &R)> {
        let entry = self.entries.get(index)?;
        (entry.segment != GONE).then_some((entry.key, &entry.record))
    }

    /// The record of `key`, which was seen at `now`: made if there is none or it has expired. `None` when every
    /// record is pinned.
    pub fn touch(&mut self, now: Instant, key: u64) -> Option<u32> {
        self.see(now, key, self.find(key), 0, &mut |_| {})
    }

    /// [`touch`](Self::touch) and [`pin`](Self::pin) in one, with what [`find`](Self::find) has just returned for `key`,
    /// without another look-up. Records that end are passed to `ended`.
    pub fn pin_found(
        &mut self,
        now: Instant,
        key: u64,
        found: Option<u32>,
        ended: &mut impl FnMut(&mut R),
    ) -> Option<u32> {
        self.see(now, key, found, 1, ended)
    }

    /// Touches the record of `key`, with `pins` more.
    #[inline]
    fn see(
        &mut self,
        now: Instant,
        key: u64,
        found: Option<u32>,
        pins: u32,
        ended: &mut impl FnMut(&mut R),
    ) -> Option<u32> {
        self.latest = self.latest.max(now);
        self.expire(ended);
        if let Some(index) = found.filter(|&index| self.at(index).is_some()) {
            debug_assert_eq!(self.entries[index].key, key, "another flow was found");
            let entry = &self.entries[index];
            let gone = entry.pins == 0 && self.latest.since(entry.touched) >= self.params.idle;
            if !gone {
                self.unlink(index);
                let entry = &mut self.entries[index];
                entry.touched = self.latest;
                entry.segment = entry.segment.max(SEEN_AGAIN);
                entry.pins += pins;
                self.link(index);
                return Some(index);
            }
            self.stats.expired += 1;
            self.remove(index, ended);
        }
        if self.index.len() >= self.params.capacity as usize {
            let (segment, index) =
                self.segments.iter().enumerate().find_map(|(segment, list)| Some((segment, list.front()?)))?;
            self.stats.evicted[segment] += 1;
            self.remove(index, ended);
        }
        self.stats.created += 1;
        let (link, record) = ([NIL; 2], R::default());
        let entry = Entry { key, touched: self.latest, link, pins, segment: SEEN_ONCE, record };
        let index = self.entries.insert(entry);
        self.index.insert(key, index);
        self.link(index);
        Some(index)
    }

    /// Keeps the record until as many [`unpin`](Self::unpin)s.
    pub fn pin(&mut self, index: u32) {
        self.unlink(index);
        self.entries[index].pins += 1;
    }
    /// Ends one [`pin`](Self::pin). The record counts as touched at `now`.
    pub fn unpin(&mut self, now: Instant, index: u32) {
        self.latest = self.latest.max(now);
        let entry = &mut self.entries[index];
        debug_assert!(entry.pins > 0, "unpinned more often than pinned");
        entry.pins -= 1;
        if entry.pins == 0 {
            entry.touched = self.latest;
        }
        self.link(index);
    }
    /// Sets how often the record is pinned. It counts as touched at `now`.
    pub fn set_pins(&mut self, now: Instant, index: u32, pins: u32) {
        self.latest = self.latest.max(now);
        self.unlink(index);
        let entry = &mut self.entries[index];
        (entry.pins, entry.touched) = (pins, self.latest);
        self.link(index);
    }
    /// How often the record is pinned.
    pub fn pins(&self, index: u32) -> u32 {
        self.entries[index].pins
    }
    /// Makes the record one of those that are evicted last.
    pub fn protect(&mut self, index: u32) {
        if self.entries[index].segment == PROTECTED {
            return;
        }
        self.unlink(index);
        self.entries[index].segment = PROTECTED;
        self.protected += 1;
        self.link(index);
        if self.protected > self.params.capacity / 8 * 7
            && let Some(oldest) = self.segments[usize::from(PROTECTED)].front()
        {
            self.entries.remove(&mut self.segments[usize::from(PROTECTED)], oldest);
            self.entries[oldest].segment = SEEN_AGAIN;
            self.protected -= 1;
            self.stats.demoted += 1;
            // It was not touched for longer than some plain records, whose list is by time; it goes last of them all
            // the same, which only extends its time.
            self.link(oldest);
        }
    }

    fn link(&mut self, index: u32) {
        let Entry { pins, segment, .. } = self.entries[index];
        if pins == 0 {
            self.entries.push_back(&mut self.segments[usize::from(segment)], index);
        }
    }
    fn unlink(&mut self, index: u32) {
        let Entry { pins, segment, .. } = self.entries[index];
        if pins == 0 {
            self.entries.remove(&mut self.segments[usize::from(segment)], index);
        }
    }
    fn remove(&mut self, index: u32, ended: &mut impl FnMut(&mut R)) {
        self.unlink(index);
        let entry = &mut self.entries[index];
        self.protected -= u32::from(entry.segment == PROTECTED);
        entry.segment = GONE;
        self.index.remove(entry.key, index);
        ended(&mut entry.record);
        self.entries.release(index);
    }
    /// Frees up to two idle records of each segment.
    fn expire(&mut self, ended: &mut impl FnMut(&mut R)) {
        for segment in [SEEN_ONCE, SEEN_AGAIN, PROTECTED] {
            for _ in 0..2 {
                let Some(index) = self.segments[usize::from(segment)].front() else { break };
                if self.latest.since(self.entries[index].touched) < self.params.idle {
                    break;
                }
                self.stats.expired += 1;
                self.remove(index, ended);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::random::Stream;
    use alloc::collections::BTreeMap;
    use alloc::vec::Vec;

    fn at(s: u64) -> Instant {
        Instant::ZERO + Span::from_secs(s)
    }

    #[test]
    fn records_end_after_idle_and_not_before() {
        let mut table: FlowTable<u64> = FlowTable::new(Params { capacity: 8, idle: Span::from_secs(10) }).unwrap();
        let index = table.touch(at(0), 1).unwrap();
        *table.get_mut(index) = 5;
        let index = table.touch(at(9), 1).unwrap();
        assert_eq!(*table.get(index), 5);
        table.pin(index);
        let index = table.touch(at(100), 1).unwrap();
        assert_eq!(*table.get(index), 5, "a pinned record does not end");
        table.unpin(at(200), index);
        assert_eq!(*table.get(index), 5);
        let index = table.touch(at(210), 1).unwrap();
        assert_eq!((*table.get(index), table.stats().expired), (0, 1));
        for pins in [3, 2] {
            table.set_pins(at(210), index, pins);
            assert_eq!(table.touch(at(300), 1), Some(index));
        }
        table.set_pins(at(300), index, 0);
        table.touch(at(310), 2);
        assert_eq!((table.find(1), table.stats().expired), (None, 2));
    }

    #[test]
    fn a_flood_pushes_out_only_the_flood() {
        let mut table: FlowTable<u64> = FlowTable::new(Params { capacity: 1_000, idle: Span::from_secs(60) }).unwrap();
        let mut now = Instant::ZERO;
        for key in 0..100 {
            let index = table.touch(now, key).unwrap();
            *table.get_mut(index) = key;
            table.protect(index);
        }
        for key in 100..200 {
            table.touch(now, key);
            let index = table.touch(now, key).unwrap();
            *table.get_mut(index) = key;
        }
        for flood in 1_000..1_001_000 {
            now += Span::from_micros(1);
            table.touch(now, flood);
        }
        assert_eq!(table.len(), 1_000);
        assert!(table.entries.slots() <= 1_000);
        for key in 0..200 {
            assert_eq!(table.find(key).map(|index| *table.get(index)), Some(key), "flow {key} was pushed out");
        }
        // A million came, 800 are there, and no other was touched.
        assert_eq!(table.stats().evicted, [1_000_000 - 800, 0, 0]);
    }

    #[test]
    fn it_is_a_bounded_map_with_an_end_of_idleness() {
        // Against a map that forgets nothing: what the table finds is right, and what must be there is found.
        let mut random = Stream::named(3, "table");
        let idle = Span::from_millis(50);
        let mut table: FlowTable<u64> = FlowTable::new(Params { capacity: 64, idle }).unwrap();
        let mut model: BTreeMap<u64, (u64, Instant)> = BTreeMap::new();
        let mut pinned: Vec<(u64, u32)> = Vec::new();
        let mut now = Instant::ZERO;
        let mut found = 0;
        for n in 1..200_000_u64 {
            now += Span::from_micros(random.below(1_000));
            let octave = 3 + random.below(10);
            let key = random.below(1 << octave);
            match random.below(8) {
                0 if pinned.len() < 30 => {
                    let index = table.touch(now, key).unwrap();
                    table.pin(index);
                    pinned.push((key, index));
                    model.insert(key, (*table.get(index), now));
                }
                1 if !pinned.is_empty() => {
                    let (key, index) = pinned.swap_remove(random.below(pinned.len() as u64) as usize);
                    assert_eq!(table.find(key), Some(index), "a pinned record moved or went");
                    table.unpin(now, index);
                    if pinned.iter().all(|other| other.0 != key) {
                        model.get_mut(&key).unwrap().1 = now;
                    }
                }
                2 => {
                    if let Some(index) = table.find(key) {
                        table.protect(index);
                    }
                }
                _ => {
                    let index = table.touch(now, key).unwrap();
                    let value = *table.get(index);
                    let held = pinned.iter().any(|pin| pin.0 == key);
                    match model.get(&key) {
                        Some((expected, touched)) if held || now.since(*touched) < idle => {
                            assert!(value == *expected || (value == 0 && !held), "{value} {expected}");
                            found += u64::from(value == *expected);
                        }
                        _ => assert_eq!(value, 0, "an idle record came back"),
                    }
                    *table.get_mut(index) = n;
                    model.insert(key, (n, now));
                }
            }
            assert!(table.len() <= 64 && table.places() <= 64);
        }
        assert!(
            found > 10_000 && table.stats().expired > 1_000 && table.stats().evicted[0] > 1_000,
            "{found} {:?}",
            table.stats()
        );
    }
}
