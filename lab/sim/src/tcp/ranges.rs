//! [`Ranges`]: a sorted set of disjoint byte ranges, used for the sender's scoreboard and the receiver's out-of-order
//! queue.

/// Disjoint, non-touching ranges `[start, end)`, sorted.
#[derive(Clone, Debug, Default)]
pub(crate) struct Ranges {
    ranges: Vec<(u64, u64)>,
    bytes: u64,
}

impl Ranges {
    /// Adds `[start, end)`. Returns how many of these bytes are new in the set, and the range that contains them now.
    pub fn insert(&mut self, start: u64, end: u64) -> (u64, (u64, u64)) {
        debug_assert!(start < end);
        // Ranges `first..last` touch or overlap the new one.
        let first = self.ranges.partition_point(|&(_, e)| e < start);
        let last = first + self.ranges[first..].partition_point(|&(s, _)| s <= end);
        if first == last {
            if self.ranges.capacity() == 0 {
                // Most connections have few ranges at a time, and there may be a hundred thousand.
                self.ranges.reserve_exact(2);
            }
            self.ranges.insert(first, (start, end));
            self.bytes += end - start;
            return (end - start, (start, end));
        }
        let (low, high) = (start.min(self.ranges[first].0), end.max(self.ranges[last - 1].1));
        let old: u64 = self.ranges[first..last].iter().map(|&(s, e)| e - s).sum();
        self.ranges[first] = (low, high);
        self.ranges.drain(first + 1..last);
        let new = high - low - old;
        self.bytes += new;
        (new, (low, high))
    }

    /// Removes everything below `edge`.
    pub fn trim(&mut self, edge: u64) {
        let gone = self.ranges.partition_point(|&(_, e)| e <= edge);
        for (start, end) in self.ranges.drain(..gone) {
            self.bytes -= end - start;
        }
        if let Some(first) = self.ranges.first_mut()
            && first.0 < edge
        {
            self.bytes -= edge - first.0;
            first.0 = edge;
        }
    }

    /// Removes the first range and returns its end, if it begins at or before `start`.
    pub fn take_from(&mut self, start: u64) -> Option<u64> {
        let &(low, high) = self.ranges.first()?;
        if low > start {
            return None;
        }
        self.ranges.remove(0);
        self.bytes -= high - low;
        Some(high)
    }

    /// The ranges, sorted.
    pub fn as_slice(&self) -> &[(u64, u64)] {
        &self.ranges
    }
    /// Bytes in the set.
    pub fn bytes(&self) -> u64 {
        self.bytes
    }
    /// Bytes of the set below `edge`.
    pub fn bytes_below(&self, edge: u64) -> u64 {
        // Search from the top, near which most queries are.
        let above: u64 = self.ranges.iter().rev().take_while(|&&(_, e)| e > edge).map(|&(s, e)| e - s.max(edge)).sum();
        self.bytes - above
    }
    /// Whether the set is empty.
    pub fn is_empty(&self) -> bool {
        self.ranges.is_empty()
    }
    /// The byte after the last of the set.
    pub fn end(&self) -> Option<u64> {
        self.ranges.last().map(|&(_, e)| e)
    }
    /// The range that contains `at`.
    pub fn holding(&self, at: u64) -> Option<(u64, u64)> {
        let first = self.ranges.partition_point(|&(_, e)| e <= at);
        self.ranges.get(first).copied().filter(|&(s, _)| s <= at)
    }
    /// The first byte at or after `at` that is not in the set, and the start of the next range above it.
    pub fn gap_from(&self, at: u64) -> (u64, Option<u64>) {
        let index = self.ranges.partition_point(|&(_, e)| e <= at);
        match self.ranges.get(index) {
            Some(&(start, end)) if start <= at => (end, self.ranges.get(index + 1).map(|&(s, _)| s)),
            next => (at, next.map(|&(s, _)| s)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use tidegate_core::random::Stream;

    /// Against a plain array of bits.
    #[test]
    fn ranges_are_a_set_of_bytes() {
        let mut random = Stream::named(3, "ranges");
        for round in 0..200 {
            let (mut set, mut bits, mut edge) = (Ranges::default(), [false; 200], 0);
            for _ in 0..40 {
                let start = edge + random.below(200 - edge - 1);
                let end = (start + 1 + random.below(20)).min(200);
                let fresh = bits[start as usize..end as usize].iter().filter(|bit| !**bit).count() as u64;
                let (new, (low, high)) = set.insert(start, end);
                bits[start as usize..end as usize].fill(true);
                assert_eq!(new, fresh);
                assert!(low <= start && end <= high && bits[low as usize..high as usize].iter().all(|bit| *bit));
                if random.below(10) == 0 {
                    edge = (edge + random.below(30)).min(150);
                    set.trim(edge);
                    bits[..edge as usize].fill(false);
                }
                let probe = random.below(200);
                let below = bits[..probe as usize].iter().filter(|bit| **bit).count() as u64;
                assert_eq!(set.bytes_below(probe), below);
                let (gap, next) = set.gap_from(probe);
                let clear = (probe..200).find(|at| !bits[*at as usize]).unwrap_or(200);
                assert_eq!(gap, clear, "round {round}");
                let after = (clear..200).find(|at| bits[*at as usize]);
                assert_eq!(next, after);
                assert_eq!(set.holding(probe).is_some(), bits[probe as usize]);
                assert!(set.as_slice().windows(2).all(|pair| pair[0].1 < pair[1].0));
            }
            assert_eq!(set.bytes(), bits.iter().filter(|bit| **bit).count() as u64);
        }
    }
}
