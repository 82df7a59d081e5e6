//! The order of events at equal times, for all regions together.
//!
//! *Law*: events of equal times are in the order in which they were scheduled, and an event schedules others while it is handled.
//! The order is therefore that of (time of the scheduling event, its rank at that time, position among what it scheduled). Only
//! events that regions handle at the same nanosecond need ranks from this comparison; otherwise the rank is the position in the
//! region.
//! *Cost*: a few nanoseconds for each event that was handled, and a comparison for each that shares its time with another region.

/// The events that a region has handled in this window, in order.
#[derive(Debug, Default)]
pub(crate) struct Log {
    pub times: Vec<u64>,
    /// What scheduled each of them, and its position among those of its time that the region handled, from 1 on.
    pub origins: Vec<(Origin, u32)>,
}

impl Log {
    #[inline]
    pub fn add(&mut self, time: u64, origin: Origin) {
        let before = if self.times.last() == Some(&time) { self.origins.last().map_or(0, |last| last.1) } else { 0 };
        self.times.push(time);
        self.origins.push((origin, before + 1));
    }
    pub fn len(&self) -> usize {
        self.times.len()
    }
    pub fn clear(&mut self) {
        self.times.clear();
        self.origins.clear();
    }
}

/// What scheduled an event.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(crate) struct Origin {
    /// The time of the event that scheduled it.
    pub time: u64,
    /// The rank of that event at its time, from 1 on; [`HERE`] if it was handled in this window by the same region, so that its time
    /// and rank are in the log. 0 for the construction of the simulation.
    pub rank: u32,
    /// The position among the events that it scheduled.
    pub index: u32,
    /// With [`HERE`], the position of the scheduling event in the log of its region.
    pub entry: u32,
}

/// See [`Origin::rank`].
pub(crate) const HERE: u32 = u32::MAX;

/// The ranks of events of one region that differ from their position in the region, by their positions in its log.
type Ranks = Vec<(u32, u32)>;

/// The rank of the event at `entry` of `log` among all events of its time.
#[inline]
pub(crate) fn rank_of(log: &Log, ranks: &Ranks, entry: u32) -> u32 {
    match ranks.binary_search_by_key(&entry, |known| known.0) {
        Ok(at) => ranks[at].1,
        Err(_) => log.origins[entry as usize].1,
    }
}

/// Finds the ranks of events that several regions handled at the same time. `logs` has what each region handled in a window.
pub(crate) fn rank(logs: &[&Log], ranks: &mut [Ranks]) {
    ranks.iter_mut().for_each(Ranks::clear);
    let mut next = vec![0; logs.len()];
    while let Some(time) = next_tie(logs, &mut next) {
        let mut rank = 0;
        loop {
            let key = |region: usize| {
                let log = logs[region];
                let at = next[region];
                log.times.get(at).filter(|&&handled| handled == time)?;
                let Origin { time, rank, index, entry } = log.origins[at].0;
                let (time, rank) = if rank == HERE {
                    (log.times[entry as usize], rank_of(log, &ranks[region], entry))
                } else {
                    (time, rank)
                };
                Some((time, rank, index, region))
            };
            let Some((.., region)) = (0..logs.len()).filter_map(key).min() else { break };
            rank += 1;
            ranks[region].push((next[region] as u32, rank));
            next[region] += 1;
        }
    }
}

/// Advances `next` to the first events from there on that two regions or more handled at the same time, and returns this time.
fn next_tie(logs: &[&Log], next: &mut [usize]) -> Option<u64> {
    if let ([a, b], [i, j]) = (logs, &mut *next) {
        // Which of the two is earlier is random: no branch depends on it.
        while let (Some(first), Some(second)) = (a.times.get(*i), b.times.get(*j)) {
            if first == second {
                return Some(*first);
            }
            *i += usize::from(first < second);
            *j += usize::from(second < first);
        }
        return None;
    }
    loop {
        let heads = || logs.iter().zip(&*next).map(|(log, &at)| log.times.get(at).copied());
        let time = heads().flatten().min()?;
        if heads().filter(|head| *head == Some(time)).count() > 1 {
            return Some(time);
        }
        let first = heads().position(|head| head == Some(time))?;
        next[first] += 1;
    }
}

/// When the events that a region handled happened, and their ranks, by their numbers. Those that no pending event refers to any
/// more are forgotten from time to time.
#[derive(Debug, Default)]
pub(crate) struct History {
    /// The number of the first of `recent`.
    first: u64,
    recent: Vec<(u64, u32)>,
    /// Numbers of older ones, in order.
    old: Vec<(u64, u64, u32)>,
}

/// So many recent events are kept before it is found out which of them are still needed: 4 MB.
const RECENT: usize = 1 << 18;

impl History {
    pub fn starting_at(first: u64) -> Self {
        Self { first, ..Self::default() }
    }
    pub fn add(&mut self, time: u64, rank: u32) {
        self.recent.push((time, rank));
    }
    /// The number that the next event has.
    pub fn next(&self) -> u64 {
        self.first + self.recent.len() as u64
    }
    pub fn get(&self, number: u64) -> (u64, u32) {
        if number >= self.first {
            return self.recent[(number - self.first) as usize];
        }
        let at = self.old.binary_search_by_key(&number, |old| old.0).expect("kept while an event refers to it");
        (self.old[at].1, self.old[at].2)
    }
    pub fn is_long(&self) -> bool {
        self.recent.len() >= RECENT
    }
    /// Forgets all but the events with these numbers.
    pub fn forget_but(&mut self, mut needed: Vec<u64>) {
        needed.sort_unstable();
        needed.dedup();
        self.old = needed
            .into_iter()
            .map(|number| {
                let (time, rank) = self.get(number);
                (number, time, rank)
            })
            .collect();
        self.first = self.next();
        self.recent.clear();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use tidegate_core::random::Stream;

    /// Events with random children, many at equal times: handled in one sequence, then ranked from the logs of three regions.
    #[test]
    fn ranks_are_those_of_one_sequence() {
        let mut random = Stream::named(1, "ranks");
        for case in 0..200 {
            let regions = 2 + random.below(2) as usize;
            // (time, sequence, region, origin); an event schedules only events of its own region within the window.
            let mut pending: Vec<(u64, u64, usize, Origin)> = Vec::new();
            let mut sequence = 0;
            for index in 0..20 {
                let origin = Origin { time: 0, rank: 0, index, entry: 0 };
                pending.push((random.below(4), sequence, random.below(regions as u64) as usize, origin));
                sequence += 1;
            }
            let mut logs: Vec<Log> = (0..regions).map(|_| Log::default()).collect();
            let mut expected: Vec<Vec<u32>> = vec![Vec::new(); regions];
            let (mut now, mut rank) = (u64::MAX, 0);
            while let Some(at) = (0..pending.len()).min_by_key(|&at| (pending[at].0, pending[at].1)) {
                let (time, _, region, origin) = pending.remove(at);
                rank = if time == now { rank + 1 } else { 1 };
                now = time;
                let entry = logs[region].len() as u32;
                logs[region].add(time, origin);
                expected[region].push(rank);
                for index in 0..if logs.iter().map(Log::len).sum::<usize>() < 300 { random.below(3) as u32 } else { 0 }
                {
                    let origin = Origin { time: 0, rank: HERE, index, entry };
                    pending.push((time + random.below(2), sequence, region, origin));
                    sequence += 1;
                }
            }
            let mut ranks = vec![Vec::new(); regions];
            super::rank(&logs.iter().collect::<Vec<_>>(), &mut ranks);
            let found: Vec<Vec<u32>> = logs
                .iter()
                .zip(&ranks)
                .map(|(log, ranks)| (0..log.len() as u32).map(|entry| rank_of(log, ranks, entry)).collect())
                .collect();
            assert_eq!(found, expected, "case {case}");
        }
    }

    #[test]
    fn what_is_needed_is_remembered() {
        let mut history = History::starting_at(10);
        (0..100).for_each(|n| history.add(n * 5, n as u32));
        history.forget_but(vec![60, 12, 60]);
        history.add(1_000, 7);
        assert_eq!((history.get(12), history.get(60), history.get(110)), ((10, 2), (250, 50), (1_000, 7)));
        assert_eq!(history.next(), 111);
    }
}
