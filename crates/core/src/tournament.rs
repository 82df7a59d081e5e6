//! [`Tournament`]: which of a fixed number of members has the smallest key.
//!
//! A heap whose members keep their places: a change plays the matches above its leaf again, and ends where the result does
//! not change. With one member there is no match, with ten there are four.
//!
//! *Cost*: O(log n) a change, mostly less; O(1) to look at the first. A match has the key of its winner, so that the next
//! one compares two neighbours. No allocation after it was made.

use alloc::vec::Vec;

/// The key of a member without one; no key is as large.
const NO_KEY: u128 = u128::MAX;

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct Entrant {
    key: u128,
    member: u32,
}

/// A minimum queue of members numbered from 0, each with a key below [`u128::MAX`] or without; equal keys are ordered by
/// number.
#[derive(Clone, Debug)]
pub(crate) struct Tournament {
    /// The winner of all.
    first: Entrant,
    /// The winner of each match, the final at 1; those of match n play in match n / 2. The second half are the members.
    winners: Vec<Entrant>,
}

impl Tournament {
    /// Of `members`, none with a key.
    pub fn new(members: usize) -> Self {
        let leaves = members.next_power_of_two();
        let member = |leaf: usize| Entrant { key: NO_KEY, member: leaf as u32 };
        let mut winners = alloc::vec![member(0); leaves];
        winners.extend((0..leaves).map(member));
        // Without keys the smaller number wins: the first leaf beneath a match.
        for at in (1..leaves).rev() {
            winners[at] = winners[2 * at];
        }
        Self { first: winners[1], winners }
    }
    /// Whether no member has a key.
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.first.key == NO_KEY
    }
    /// The smallest key and its member.
    #[inline]
    pub fn peek(&self) -> Option<(u128, u32)> {
        let Entrant { key, member } = self.first;
        (key != NO_KEY).then_some((key, member))
    }
    /// The smallest key of the other members, which may be equal.
    #[inline]
    pub fn second(&self) -> Option<u128> {
        let (mut at, mut least) = (self.winners.len() / 2 + self.first.member as usize, NO_KEY);
        while at > 1 {
            least = least.min(self.winners[at ^ 1].key);
            at /= 2;
        }
        (least != NO_KEY).then_some(least)
    }
    /// Sets the key of `member`; `None` takes it out.
    #[inline(always)]
    pub fn set(&mut self, member: u32, key: Option<u128>) {
        let (key, at) = (key.unwrap_or(NO_KEY), self.winners.len() / 2 + member as usize);
        let leaf = &mut self.winners[at];
        if leaf.key != key {
            leaf.key = key;
            if at == 1 {
                self.first.key = key;
            } else {
                self.play(at, Entrant { key, member });
            }
        }
    }

    /// Plays the matches above the leaf `at`, which has changed.
    #[inline(never)]
    fn play(&mut self, mut at: usize, mut winner: Entrant) {
        loop {
            // The right one of two has the larger number, so that it needs the smaller key.
            let other = self.winners[at ^ 1];
            let loses = if at.is_multiple_of(2) { other.key < winner.key } else { other.key <= winner.key };
            if loses {
                winner = other;
            }
            at /= 2;
            if self.winners[at] == winner {
                return;
            }
            self.winners[at] = winner;
            if at == 1 {
                self.first = winner;
                return;
            }
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
                let key = (random.below(3) > 0).then(|| u128::from(random.below(members)) << 64);
                oracle.extend(key.map(|key| (key, member)));
                tournament.set(member, key);
                assert_eq!(tournament.peek(), oracle.first().copied());
                assert_eq!(tournament.second(), oracle.iter().nth(1).map(|&(key, _)| key));
            }
        }
    }
}
