//! The successors of each state: a default, and exceptions for some classes.
//!
//! A row of 16 bytes contains the default and one run of classes with one exception, which suffices for most states.
//! A state with more exceptions has a small table; every look-up reads exactly two slots of it.
//!
//! The states of all stages of a group are in one array, a state next to its usual successor, so that a packet that
//! matches one rule through the stages reads one cache line.
//!
//! *Source*: cuckoo hashing (Pagh and Rodler, 2004), built once at a load below 0.45.

use alloc::vec::Vec;

const EMPTY: u32 = u32::MAX;
const MULTIPLIERS: [u64; 2] = [0x9e37_79b9_7f4a_7c15, 0xd6e8_feb8_6659_fd93];

#[derive(Clone, Copy, Debug)]
struct Slot {
    class: u32,
    next: u32,
}

const NO_SLOT: Slot = Slot { class: EMPTY, next: 0 };

/// The successor of classes `low..=low + span` is `next`, of others `default`. If `low` is [`EMPTY`], the exceptions
/// are in the `span` slots from `next` on.
#[derive(Clone, Copy, Debug)]
#[repr(align(16))]
struct Row {
    default: u32,
    low: u32,
    span: u32,
    next: u32,
}

const ROWS: usize = 4;

/// A cache line of rows.
#[derive(Clone, Copy, Debug)]
#[repr(align(64))]
struct Line([Row; ROWS]);

/// The states of all stages of a group. See the [module](self).
#[derive(Clone, Debug)]
pub(super) struct Tables {
    lines: Vec<Line>,
    slots: Vec<Slot>,
}

impl Tables {
    /// Lays out `stages`. The rows of each lead to states of the next, those of the last to results. `first` contains
    /// states of the first stage and is renumbered; state 0 keeps its number.
    pub(super) fn new(stages: &[Sparse], first: &mut [u32]) -> Self {
        let mut place: Vec<Vec<u32>> = stages.iter().map(|stage| alloc::vec![EMPTY; stage.rows.len()]).collect();
        let mut end = 0;
        for stage in 0..stages.len() {
            for state in 0..stages[stage].rows.len() {
                let fresh = |&(stage, state): &(usize, usize)| place[stage][state] == EMPTY;
                let follower = |&(stage, state): &(usize, usize)| {
                    let row = stages[stage].rows[state];
                    let usual = if row.low == EMPTY { row.default } else { row.next };
                    Some((stage + 1, usual as usize)).filter(|next| next.0 < stages.len() && fresh(next))
                };
                let run: Vec<_> = core::iter::successors(Some((stage, state)).filter(fresh), follower).collect();
                if run.len() <= ROWS && end % ROWS + run.len() > ROWS {
                    end = end.next_multiple_of(ROWS);
                }
                for (stage, state) in run {
                    place[stage][state] = end as u32;
                    end += 1;
                }
            }
        }
        first.iter_mut().for_each(|state| *state = place[0][*state as usize]);
        let unused = Row { default: 0, low: 0, span: 0, next: 0 };
        let mut tables = Self { lines: alloc::vec![Line([unused; ROWS]); end.div_ceil(ROWS)], slots: Vec::new() };
        for (at, stage) in stages.iter().enumerate() {
            let moved = |state: u32| place.get(at + 1).map_or(state, |place| place[state as usize]);
            let base = tables.slots.len() as u32;
            for (state, &row) in stage.rows.iter().enumerate() {
                let to = place[at][state] as usize;
                let next = if row.low == EMPTY { base + row.next } else { moved(row.next) };
                tables.lines[to / ROWS].0[to % ROWS] = Row { default: moved(row.default), next, ..row };
            }
            let slot =
                |slot: &Slot| if slot.class == EMPTY { NO_SLOT } else { Slot { next: moved(slot.next), ..*slot } };
            tables.slots.extend(stage.slots.iter().map(slot));
        }
        tables
    }

    /// The successor of `state` for `class`.
    #[inline]
    pub(super) fn next(&self, state: u32, class: u32) -> u32 {
        let row = self.lines[state as usize / ROWS].0[state as usize % ROWS];
        let is_table = row.low == EMPTY;
        let (base, size) = if is_table { (row.next, row.span) } else { (0, 1) };
        let [a, b] = places(class, size as usize).map(|place| self.slots[base as usize + place]);
        let run = if class.wrapping_sub(row.low) <= row.span && !is_table { row.next } else { row.default };
        let found = if b.class == class { b.next } else { run };
        if a.class == class { a.next } else { found }
    }

    /// The states, each as default, least class, number of further classes and next state; and the slots, each as class
    /// and next state. A class of [`EMPTY`] has the meaning that it has here.
    pub(super) fn numbers(&self) -> (impl Iterator<Item = [u32; 4]>, impl Iterator<Item = [u32; 2]>) {
        let rows = self.lines.iter().flat_map(|line| line.0);
        let slots = self.slots.iter().map(|slot| [slot.class, slot.next]);
        (rows.map(|row| [row.default, row.low, row.span, row.next]), slots)
    }

    /// Bytes of memory.
    pub(super) fn memory(&self) -> usize {
        size_of_val(&*self.slots) + size_of_val(&*self.lines)
    }
}

/// The states of one stage during construction.
#[derive(Clone, Debug)]
pub(super) struct Sparse {
    rows: Vec<Row>,
    slots: Vec<Slot>,
}

impl Sparse {
    /// An empty stage.
    pub(super) fn new() -> Self {
        // Rows without slots read the first slot.
        Self { rows: Vec::new(), slots: Vec::from([NO_SLOT]) }
    }

    /// Adds a state with its exceptions; their classes are distinct.
    pub(super) fn push(&mut self, default: u32, exceptions: &[(u32, u32)]) {
        let Some(&(_, next)) = exceptions.first() else {
            return self.rows.push(Row { default, low: 0, span: 0, next: default });
        };
        let classes = || exceptions.iter().map(|exception| exception.0);
        let (low, high) = classes().fold((u32::MAX, 0), |(low, high), class| (low.min(class), high.max(class)));
        if (high - low) as usize + 1 == exceptions.len() && exceptions.iter().all(|exception| exception.1 == next) {
            return self.rows.push(Row { default, low, span: high - low, next });
        }
        let base = self.slots.len();
        let mut size = (exceptions.len() * 9).div_ceil(4);
        loop {
            self.slots.truncate(base);
            self.slots.resize(base + size, NO_SLOT);
            let slots = &mut self.slots[base..];
            if exceptions.iter().all(|&(class, next)| insert(slots, Slot { class, next })) {
                break;
            }
            // Another size changes the hash.
            size += 1 + size / 16;
        }
        self.rows.push(Row { default, low: EMPTY, span: size as u32, next: base as u32 });
    }

    /// The number of slots.
    pub(super) fn slots(&self) -> usize {
        self.slots.len()
    }
}

#[inline]
fn places(class: u32, size: usize) -> [usize; 2] {
    MULTIPLIERS.map(|multiplier| {
        let hash = u64::from(class).wrapping_mul(multiplier) >> 32;
        ((hash * size as u64) >> 32) as usize
    })
}

fn insert(slots: &mut [Slot], mut slot: Slot) -> bool {
    debug_assert!(slot.class != EMPTY);
    let mut at = places(slot.class, slots.len())[0];
    for _ in 0..200 {
        core::mem::swap(&mut slot, &mut slots[at]);
        if slot.class == EMPTY {
            return true;
        }
        let [first, second] = places(slot.class, slots.len());
        at = if at == first { second } else { first };
    }
    false
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn followers_lie_side_by_side() {
        let mut first = Sparse::new();
        let mut second = Sparse::new();
        for state in 0..100 {
            first.push(0, &[(7, 99 - state)]);
            second.push(1_000, &[(8, state), (9, state + 1)]);
        }
        let mut numbers: Vec<u32> = (0..100).collect();
        let tables = Tables::new(&[first, second], &mut numbers);
        for (state, &number) in numbers.iter().enumerate() {
            let next = tables.next(number, 7);
            assert_eq!(next, number + 1);
            assert_eq!(number as usize / ROWS, next as usize / ROWS, "in one cache line");
            let end = 99 - state as u32;
            assert_eq!([8, 9, 10].map(|class| tables.next(next, class)), [end, end + 1, 1_000]);
            assert_eq!(tables.next(tables.next(number, 6), 8), 0);
        }
    }

    #[test]
    fn finds_what_was_stored_and_nothing_else() {
        let mut map = Sparse::new();
        let counts = [(0, 1), (1, 1), (2, 1), (2, 7), (3, 2), (5_000, 1), (5_000, 65_536), (40_000, 10_007)];
        let exceptions = |count, step, one: bool| -> Vec<(u32, u32)> {
            (0..count).map(|n| (5 + n * step, if one { 0 } else { n })).collect()
        };
        for one in [false, true] {
            for (count, step) in counts {
                map.push(1 << 31, &exceptions(count, step, one));
            }
        }
        let cases = [false, true].map(|one| counts.map(|count| (one, count))).concat();
        let mut numbers: Vec<u32> = (0..cases.len() as u32).collect();
        let map = Tables::new(&[map], &mut numbers);
        for (state, (one, (count, step))) in numbers.into_iter().zip(cases) {
            for (class, next) in exceptions(count, step, one) {
                assert_eq!(map.next(state, class), next);
                assert!(step == 1 || map.next(state, class + 1) == 1 << 31);
            }
            for class in [0, 4, 5 + count * step, 1 << 31, u32::MAX - 1] {
                assert_eq!(map.next(state, class), 1 << 31);
            }
        }
    }
}
