//! [`Tournament`]: which of a fixed number of members has the smallest key.
//!
//! A heap whose members keep their places: a change decides the matches above its leaf again, and ends where the result does
//! not change. A match has four players; with four members there is one, with ten there are two on the way.
//!
//! *Cost*: O(log n) a change, mostly less; O(1) to look at the first. A match has the keys of its players beside each other. No
//! allocation after it was made.

use alloc::vec::Vec;

/// The key of a member without one; no key is as large.
const NO_KEY: u128 = u128::MAX;
/// The players of a match.
const PLAYERS: usize = 4;

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
    /// The final, and behind it the other matches, those before which players come last: the winners of matches 4n + 1 to
    /// 4n + 4 play in match n.
    matches: Vec<[Entrant; PLAYERS]>,
    /// The first match of members.
    leaves: usize,
}

impl Tournament {
    /// A tournament of `members`, none of which has a key yet.
    pub fn new(members: usize) -> Self {
        let (mut leaves, mut count) = (0, 1);
        while count * PLAYERS < members {
            leaves += count;
            count *= PLAYERS;
        }
        let none = Entrant { key: NO_KEY, member: 0 };
        let used = leaves + members.div_ceil(PLAYERS).max(1);
        Self { first: none, matches: alloc::vec![[none; PLAYERS]; used], leaves }
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
    /// Whether `member` has a key.
    pub fn has(&self, member: u32) -> bool {
        let (at, place) = self.place(member);
        self.matches[at][place].key != NO_KEY
    }
    /// The match of a member and its place in it.
    #[inline]
    fn place(&self, member: u32) -> (usize, usize) {
        (self.leaves + member as usize / PLAYERS, member as usize % PLAYERS)
    }
    /// The smallest key of the other members, which may be equal.
    #[inline]
    pub fn second(&self) -> Option<u128> {
        let ((mut at, mut place), mut least) = (self.place(self.first.member), NO_KEY);
        loop {
            let others = (1..PLAYERS).map(|other| self.matches[at][(place + other) % PLAYERS].key);
            least = others.fold(least, u128::min);
            if at == 0 {
                return (least != NO_KEY).then_some(least);
            }
            (at, place) = ((at - 1) / PLAYERS, (at - 1) % PLAYERS);
        }
    }
    /// Sets the key of `member`; `None` takes it out.
    #[inline(always)]
    pub fn set(&mut self, member: u32, key: Option<u128>) {
        let (key, (at, place)) = (key.unwrap_or(NO_KEY), self.place(member));
        if self.matches[at][place].key != key {
            self.play(at, place, Entrant { key, member });
        }
    }

    /// Decides the match `at`, where the player at `place` is now `player`, and those above it.
    #[inline(never)]
    fn play(&mut self, mut at: usize, mut place: usize, mut player: Entrant) {
        loop {
            let players = &mut self.matches[at];
            players[place] = player;
            // Of equal keys that of the smaller number, which is the left one.
            let less = |left: Entrant, right: Entrant| if right.key < left.key { right } else { left };
            let winner = less(less(players[0], players[1]), less(players[2], players[3]));
            if at == 0 {
                self.first = winner;
                return;
            }
            (at, place) = ((at - 1) / PLAYERS, (at - 1) % PLAYERS);
            if self.matches[at][place] == winner {
                return;
            }
            player = winner;
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
        for members in [1, 2, 3, 4, 5, 10, 16, 17, 64, 100] {
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
