//! [`Tournament`]: which of a fixed number of members has the smallest key.
//!
//! A heap whose members keep their places: a change plays the matches above its leaf again, and ends where the result
//! cannot change. With one member there is no match, with ten there are four.
//!
//! *Cost*: O(log n) a change, mostly less; O(1) to look at the first. No allocation after it was made.

use alloc::vec;
use alloc::vec::Vec;

/// A minimum queue of members numbered from 0, each with a key or without; equal keys are ordered by number.
#[derive(Clone, Debug)]
pub(crate) struct Tournament<K> {
    keys: Vec<Option<K>>,
    /// The winner of each match, the final at 1; those of match n play in match n / 2. At the end the members themselves.
    winners: Vec<u32>,
}

impl<K: Ord + Copy> Tournament<K> {
    /// Of `members`, none with a key.
    pub fn new(members: usize) -> Self {
        let leaves = members.next_power_of_two();
        let mut winners = vec![0; leaves];
        winners.extend(0..leaves as u32);
        // Without keys the smaller number wins: the first leaf beneath a match.
        for at in (1..leaves).rev() {
            winners[at] = winners[2 * at];
        }
        Self { keys: vec![None; leaves], winners }
    }
    /// The key of `member`.
    #[inline]
    pub fn key(&self, member: u32) -> Option<K> {
        self.keys[member as usize]
    }
    /// The smallest key and its member.
    #[inline]
    pub fn peek(&self) -> Option<(K, u32)> {
        let first = self.winners[1];
        self.key(first).map(|key| (key, first))
    }
    /// Sets the key of `member`; `None` takes it out.
    #[inline]
    pub fn set(&mut self, member: u32, key: Option<K>) {
        if self.keys[member as usize] == key {
            return;
        }
        self.keys[member as usize] = key;
        let mut at = (self.keys.len() + member as usize) / 2;
        while at > 0 {
            let (left, right) = (self.winners[2 * at], self.winners[2 * at + 1]);
            let winner = if self.precedes(right, left) { right } else { left };
            let before = core::mem::replace(&mut self.winners[at], winner);
            if before == winner && winner != member {
                return;
            }
            at /= 2;
        }
    }
    /// Whether `right`, the larger number, wins against `left`.
    #[inline]
    fn precedes(&self, right: u32, left: u32) -> bool {
        match (self.key(right), self.key(left)) {
            (Some(right), Some(left)) => right < left,
            (right, left) => right.is_some() && left.is_none(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::random::Stream;
    use alloc::collections::BTreeSet;

    #[test]
    fn agrees_with_an_ordered_set() {
        for members in [1, 2, 3, 10, 64, 100] {
            let mut random = Stream::named(members, "tournament");
            let mut tournament = Tournament::new(members as usize);
            let mut oracle = BTreeSet::new();
            for _ in 0..5_000 {
                let member = random.below(members) as u32;
                oracle.retain(|&(_, other)| other != member);
                let key = (random.below(3) > 0).then(|| random.below(members));
                oracle.extend(key.map(|key| (key, member)));
                tournament.set(member, key);
                assert_eq!(tournament.peek(), oracle.first().copied());
                assert_eq!(tournament.key(member), key);
            }
        }
    }
}
