//! The delay above the floor, from round trips of several peers of which some may be wrong.
//!
//! Each peer has its own floor, the least round trip of the last minute, so that far and near peers can be compared. The
//! delay is the lower median over the peers that have answered lately: one of three that lies does not matter, nor does a
//! peer that goes silent.

use tidegate_units::{Instant, Span};

use crate::controller::Side;

/// The most peers that are remembered. The one that was silent for longest makes room.
pub(crate) const MOST: usize = 32;
/// The floor is a minimum over this many windows, the current one included.
const WINDOWS: usize = 6;
const WINDOW: Span = Span::from_secs(10);
/// A peer that has been known for less time has a floor that may contain a queue; others count more.
const YOUNG: Span = Span::from_secs(3);
/// The delay is the least of the samples of this time, which leaves out delayed acknowledgements.
const RECENT: Span = Span::from_millis(50);
/// A peer without a sample for this time says nothing about the present.
const FRESH: Span = Span::from_millis(300);
/// A one-way delay that changes by more than this between two samples shows that a clock was set.
const CLOCK_STEP: u64 = 5_000_000_000;
const SAMPLES: usize = 8;
const NONE: u64 = u64::MAX;

/// A minimum that forgets slowly.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Floor {
    windows: [u64; WINDOWS],
    /// The number of the current window since the beginning of time.
    current: u64,
}

impl Floor {
    const fn new() -> Self {
        Self { windows: [NONE; WINDOWS], current: 0 }
    }
    fn add(&mut self, now: Instant, value: u64) {
        let number = now.as_nanos() / WINDOW.as_nanos();
        if number.saturating_sub(self.current) >= WINDOWS as u64 {
            self.windows = [NONE; WINDOWS];
            self.current = number;
        }
        while self.current < number {
            self.current += 1;
            self.windows[(self.current % WINDOWS as u64) as usize] = NONE;
        }
        let window = &mut self.windows[(number.max(self.current) % WINDOWS as u64) as usize];
        *window = (*window).min(value);
    }
    fn least(&self) -> u64 {
        self.windows.iter().copied().min().unwrap_or(NONE)
    }
}

/// A peer whose round trips are known.
#[derive(Clone, Debug)]
struct Source {
    id: u64,
    since: Instant,
    last: Instant,
    floor: Floor,
    /// The floor of the one-way delay on the way down, whose zero is arbitrary.
    floor_down: Floor,
    /// The latest samples in a ring: time, round trip, and the one-way delay or [`NONE`].
    samples: [(Instant, u64, u64); SAMPLES],
    count: usize,
}

/// The delay above the floor.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Delay {
    /// Round trips, which are the way up and down together.
    pub both: Span,
    /// On the way down alone, where a peer's clock shows it.
    pub down: Option<Span>,
}

impl Delay {
    /// The delay that a direction answers for, in ns: its own where a peer's clock shows it, else all of it.
    pub fn of(self, side: Side) -> u64 {
        match (side, self.down) {
            (Side::Down, Some(down)) => down.as_nanos(),
            (Side::Up, Some(down)) => self.both.saturating_sub(down).as_nanos(),
            (_, None) => self.both.as_nanos(),
        }
    }
}

#[derive(Clone, Debug, Default)]
pub(crate) struct Sources {
    list: alloc::vec::Vec<Source>,
}

impl Sources {
    /// Adds a round trip. `down` is a one-way delay with an arbitrary zero.
    pub fn add(&mut self, now: Instant, id: u64, round_trip: Span, down: Option<u64>) {
        let source = match self.list.iter().position(|source| source.id == id) {
            Some(at) => &mut self.list[at],
            None => {
                let new = Source {
                    id,
                    since: now,
                    last: now,
                    floor: Floor::new(),
                    floor_down: Floor::new(),
                    samples: [(Instant::ZERO, NONE, NONE); SAMPLES],
                    count: 0,
                };
                if self.list.len() < MOST {
                    self.list.push(new);
                } else if let Some(oldest) = self.list.iter_mut().min_by_key(|source| (source.last, source.id)) {
                    *oldest = new;
                }
                let Some(at) = self.list.iter().position(|source| source.id == id) else { return };
                &mut self.list[at]
            }
        };
        let down = down.unwrap_or(NONE);
        let before = source.samples[source.count.wrapping_sub(1) % SAMPLES].2;
        if down != NONE && source.count > 0 && before != NONE && down.abs_diff(before) > CLOCK_STEP {
            source.floor_down = Floor::new();
            source.samples.iter_mut().for_each(|sample| sample.2 = NONE);
        }
        source.last = source.last.max(now);
        source.floor.add(now, round_trip.as_nanos());
        if down != NONE {
            source.floor_down.add(now, down);
        }
        source.samples[source.count % SAMPLES] = (now, round_trip.as_nanos(), down);
        source.count += 1;
    }

    /// The delay above the floor now; `None` without a fresh sample.
    pub fn delay(&self, now: Instant) -> Option<Delay> {
        let fresh = |source: &&Source| now.since(source.last) <= FRESH;
        let grown = self.list.iter().filter(fresh).any(|source| now.since(source.since) >= YOUNG);
        let counts = |source: &&Source| !grown || now.since(source.since) >= YOUNG;
        let (mut both, mut down) = ([0; MOST], [0; MOST]);
        let (mut n, mut m) = (0, 0);
        for source in self.list.iter().filter(fresh).filter(counts) {
            let (round_trip, one_way) = source.recent();
            let excess = round_trip.saturating_sub(source.floor.least());
            both[n] = excess;
            n += 1;
            if one_way != NONE && source.floor_down.least() != NONE {
                // Less than the round trip at any rate, whatever a clock says.
                down[m] = one_way.saturating_sub(source.floor_down.least()).min(excess);
                m += 1;
            }
        }
        let median = |values: &mut [u64]| {
            values.sort_unstable();
            values.get(values.len().saturating_sub(1) / 2).copied()
        };
        let both = median(&mut both[..n])?;
        let down = median(&mut down[..m]).map(|down| Span::from_nanos(down.min(both)));
        Some(Delay { both: Span::from_nanos(both), down })
    }

    /// The least floor of the peers that have answered within the last minute.
    pub fn floor(&self, now: Instant) -> Option<Span> {
        let known = self.list.iter().filter(|source| now.since(source.last) <= Span::from_secs(60));
        known.map(|source| source.floor.least()).min().map(Span::from_nanos)
    }
    /// When a peer answered last.
    pub fn last(&self) -> Option<Instant> {
        self.list.iter().map(|source| source.last).max()
    }
    /// The number of peers that have answered lately.
    pub fn fresh(&self, now: Instant) -> usize {
        self.list.iter().filter(|source| now.since(source.last) <= FRESH).count()
    }
}

impl Source {
    /// The least round trip and one-way delay of the last 50 ms, or of the last three samples if those are older.
    fn recent(&self) -> (u64, u64) {
        let (mut least, mut down) = (NONE, NONE);
        for n in 0..self.count.min(SAMPLES) {
            let (at, round_trip, one_way) = self.samples[(self.count - 1 - n) % SAMPLES];
            let age = self.last.since(at);
            if n > 0 && (age > FRESH || n >= 3 && age > RECENT) {
                break;
            }
            least = least.min(round_trip);
            down = down.min(one_way);
        }
        (least, down)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(millis: u64) -> Instant {
        Instant::ZERO + Span::from_millis(millis)
    }
    fn ms(millis: u64) -> Span {
        Span::from_millis(millis)
    }

    #[test]
    fn the_delay_is_the_median_over_the_floors() {
        let mut sources = Sources::default();
        for (id, floor) in [(1, 20), (2, 90), (3, 40)] {
            sources.add(at(0), id, ms(floor), None);
        }
        for step in 1..5 {
            sources.add(at(5_000 + step), 1, ms(20 + 12), None);
            sources.add(at(5_000 + step), 2, ms(90 + 10), None);
            // A liar: by its account there is no queue, and then a very long one.
            sources.add(at(5_000 + step), 3, ms(if step < 3 { 40 } else { 4_000 }), None);
        }
        assert_eq!(sources.delay(at(5_010)).unwrap().both, ms(10));
        for step in 5..9 {
            sources.add(at(5_060 + step), 1, ms(20 + 12), None);
            sources.add(at(5_060 + step), 2, ms(90 + 10), None);
            sources.add(at(5_060 + step), 3, ms(4_000), None);
        }
        assert_eq!(sources.delay(at(5_070)).unwrap().both, ms(12));
        assert_eq!(sources.delay(at(6_000)), None, "nobody has answered lately");
    }

    #[test]
    fn a_floor_is_forgotten_after_a_minute() {
        let mut sources = Sources::default();
        sources.add(at(0), 1, ms(20), None);
        for second in 1..80 {
            sources.add(at(second * 1_000), 1, ms(35), None);
            let delay = sources.delay(at(second * 1_000)).unwrap().both;
            match second {
                4..50 => assert_eq!(delay, ms(15), "{second}"),
                61.. => assert_eq!(delay, ms(0), "{second}"),
                _ => {}
            }
        }
    }

    #[test]
    fn a_clock_that_is_set_begins_a_new_floor_of_the_one_way_delay() {
        let mut sources = Sources::default();
        let second = 1_000_000_000;
        sources.add(at(0), 1, ms(40), Some(100 * second));
        sources.add(at(100), 1, ms(60), Some(100 * second + 5_000_000));
        sources.add(at(110), 1, ms(60), Some(100 * second + 5_000_000));
        sources.add(at(170), 1, ms(60), Some(100 * second + 5_000_000));
        sources.add(at(180), 1, ms(60), Some(100 * second + 5_000_000));
        sources.add(at(190), 1, ms(60), Some(100 * second + 5_000_000));
        assert_eq!(sources.delay(at(190)), Some(Delay { both: ms(20), down: Some(ms(5)) }));
        // An hour earlier: all floors would be wrong for ever.
        sources.add(at(200), 1, ms(60), Some(0));
        sources.add(at(210), 1, ms(60), Some(9_000_000));
        assert_eq!(sources.delay(at(210)).unwrap().down, Some(ms(0)));
    }

    #[test]
    fn memory_is_bounded() {
        let mut sources = Sources::default();
        for id in 0..1_000 {
            sources.add(at(id), id, ms(20), None);
        }
        assert_eq!(sources.list.len(), MOST);
        assert_eq!(sources.fresh(at(1_000)), MOST);
    }
}
