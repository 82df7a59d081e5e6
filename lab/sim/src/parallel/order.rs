//! The order of events at equal times, for all regions together.
//!
//! *Law*: events of equal times are in the order in which they were scheduled, and an event schedules others while it is handled.
//! The order is therefore that of (time of the scheduling event, its rank at that time, position among what it scheduled). Only
//! events that regions handle at the same nanosecond need ranks from this comparison; otherwise the rank is the position in the
//! region.
//! *Cost*: a few nanoseconds for each event that was handled, and a comparison for each that shares its time with another region.

/// An event that a region has handled in this window.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Handled {
    pub time: u64,
    pub origin: Origin,
}

/// What scheduled an event.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(crate) struct Origin {
    /// The time of the event that scheduled it.
    pub time: u64,
    /// The rank of that event at its time, from 1 on; [`HERE`] if it was handled in this window by the same region, so that its rank
    /// is not known yet. 0 for the construction of the simulation.
    pub rank: u32,
    /// The position among the events that it scheduled.
    pub index: u32,
    /// With [`HERE`], the position of the scheduling event in the log of its region.
    pub entry: u32,
}

/// See [`Origin::rank`].
pub(crate) const HERE: u32 = u32::MAX;

/// Finds the rank of each event among all that were handled at the same time. `logs` has what each region handled in a window, in
/// order, and `ranks` receives the ranks.
pub(crate) fn rank(logs: &[&[Handled]], ranks: &mut [Vec<u32>]) {
    let mut next = vec![0; logs.len()];
    ranks.iter_mut().zip(logs).for_each(|(ranks, log)| {
        ranks.clear();
        ranks.reserve(log.len());
    });
    let head = |region: usize, next: &[usize]| logs[region].get(next[region]);
    while let Some(time) = (0..logs.len()).filter_map(|region| Some(head(region, &next)?.time)).min() {
        let mut rank = 0;
        let known = |region: usize, next: &[usize], ranks: &[Vec<u32>]| {
            let handled = head(region, next).filter(|handled| handled.time == time)?;
            let Origin { rank, entry, .. } = handled.origin;
            let rank = if rank == HERE { ranks[region][entry as usize] } else { rank };
            Some((handled.origin.time, rank, handled.origin.index, region))
        };
        let mut tied =
            (0..logs.len()).filter(|&region| head(region, &next).is_some_and(|handled| handled.time == time));
        let (first, second) = (tied.next(), tied.next());
        while let Some(region) = match second {
            None => first.filter(|&region| head(region, &next).is_some_and(|handled| handled.time == time)),
            Some(_) => (0..logs.len()).filter_map(|region| known(region, &next, ranks)).min().map(|least| least.3),
        } {
            rank += 1;
            ranks[region].push(rank);
            next[region] += 1;
        }
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
            let mut logs: Vec<Vec<Handled>> = vec![Vec::new(); regions];
            let mut expected: Vec<Vec<u32>> = vec![Vec::new(); regions];
            let (mut now, mut rank) = (u64::MAX, 0);
            while let Some(at) = (0..pending.len()).min_by_key(|&at| (pending[at].0, pending[at].1)) {
                let (time, _, region, origin) = pending.remove(at);
                rank = if time == now { rank + 1 } else { 1 };
                now = time;
                let entry = logs[region].len() as u32;
                logs[region].push(Handled { time, origin });
                expected[region].push(rank);
                for index in 0..if logs.iter().map(Vec::len).sum::<usize>() < 300 { random.below(3) as u32 } else { 0 }
                {
                    pending.push((time + random.below(2), sequence, region, Origin { time, rank: HERE, index, entry }));
                    sequence += 1;
                }
            }
            let mut ranks = vec![Vec::new(); regions];
            rank_all(&logs, &mut ranks);
            assert_eq!(ranks, expected, "case {case}");
        }
    }

    fn rank_all(logs: &[Vec<Handled>], ranks: &mut [Vec<u32>]) {
        let logs: Vec<&[Handled]> = logs.iter().map(Vec::as_slice).collect();
        rank(&logs, ranks);
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
