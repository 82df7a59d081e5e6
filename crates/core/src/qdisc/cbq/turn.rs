//! The turns of a class in weighted round robin, or in packet round robin.
//!
//! *See also*: `kernel/`, where they are translated to C.

use super::params::General;
use crate::credit::work;
use tidegate_units::wide::halves_div_ceil;
use tidegate_units::{Bytes, Rate};

/// Turns are counted in this fraction of a byte, so that the shares of ten thousand classes round by less than 10^-7.
const PART: u64 = 1 << 16;
/// The largest allotment. At most 2^24 bytes x 2^20 classes x 2^16 are shared in a round.
const MOST: u64 = (i64::MAX >> 2) as u64;

/// The turn of a leaf.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(super) struct Turn {
    /// Its round.
    pub(super) round: u64,
    /// The rest of it, in [`PART`]s of a byte.
    left: i64,
}

/// The allotment of a leaf of `rate` per round, in [`PART`]s of a byte, rounded up, among `leaves` whose rates are `rates`.
pub(super) fn allotment(mtu: Bytes, leaves: u64, rates: u64, rate: Rate) -> i64 {
    let round = mtu.as_u64().saturating_mul(leaves).saturating_mul(PART);
    let share = work(round, rate.as_bps());
    let part = halves_div_ceil((share >> 64) as u64, share as u64, rates.max(1));
    part.clamp(1, MOST) as i64
}

impl Turn {
    /// Moves a leaf of a past round to the current one with a new turn.
    pub(super) fn catch_up(&mut self, current: u64, allotment: i64) {
        if self.round < current || self.left <= 0 {
            self.left = allotment;
            self.round = self.round.max(current);
        }
    }

    /// Subtracts a packet of `size` from the turn, and starts the next one when it is used up.
    pub(super) fn take(&mut self, general: General, allotment: i64, size: Bytes) {
        match general {
            General::PacketRoundRobin => self.round += 1,
            General::WeightedRoundRobin => {
                let sent = size.as_u64().saturating_mul(PART).min(i64::MAX as u64);
                self.left = self.left.saturating_sub(sent as i64);
                if self.left <= 0 {
                    let rounds = self.left.unsigned_abs() / allotment as u64 + 1;
                    self.left += rounds as i64 * allotment;
                    self.round += rounds;
                }
            }
        }
    }

    /// The rest of the turns in the round `current`, in [`PART`]s of a byte; negative if the leaf has sent more. With packet
    /// round robin a negative value is the number of rounds that it is ahead.
    pub(super) fn turns(&self, general: General, current: u64, allotment: i64) -> i64 {
        if self.round < current || self.left <= 0 {
            return allotment;
        }
        let ahead = self.round - current;
        match general {
            General::PacketRoundRobin => 0 - ahead.min(MOST) as i64,
            General::WeightedRoundRobin => {
                self.left.saturating_sub(ahead.saturating_mul(allotment as u64).min(i64::MAX as u64) as i64)
            }
        }
    }

    /// Sets the turn from [`turns`](Self::turns), possibly those of another rate or priority: at most one allotment in this
    /// round, and a deficit is subtracted from the next ones.
    pub(super) fn set(&mut self, general: General, current: u64, allotment: i64, turns: i64) {
        let owed = if turns < 0 { turns.unsigned_abs() } else { 0 };
        let one = allotment as u64;
        self.left = allotment;
        self.round = current.saturating_add(owed);
        match general {
            General::PacketRoundRobin => {}
            General::WeightedRoundRobin => {
                if turns > 0 {
                    self.left = turns.min(allotment);
                    self.round = current;
                } else {
                    self.left = (one - owed % one) as i64;
                    self.round = current.saturating_add(owed / one + 1);
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const PARTS: i64 = PART as i64;

    #[test]
    fn an_allotment_is_the_part_of_the_rate_and_never_nothing() {
        let of = |rate| allotment(Bytes::new(1_500), 3, 10_000_000, Rate::from_bps(rate));
        // Three packets a round: a tenth of 4,500 B, and all of it.
        assert_eq!((of(1_000_000), of(10_000_000)), (450 * PARTS, 4_500 * PARTS));
        // 1 bit/s of 10 Mbit/s: 29.5 parts, rounded up.
        assert_eq!((of(1), of(0)), (30, 1));
        assert_eq!(allotment(Bytes::new(1 << 24), 1 << 20, 1, Rate::from_bps(u64::MAX)), i64::MAX >> 2);
    }

    #[test]
    fn a_deficit_is_of_the_next_rounds() {
        let general = General::WeightedRoundRobin;
        let mut turn = Turn::default();
        turn.catch_up(5, 1_000 * PARTS);
        turn.take(general, 1_000 * PARTS, Bytes::new(2_500));
        // 1,500 B beyond the turn in round 5: of round 6 nothing is left, of round 7 half.
        assert_eq!(turn, Turn { round: 7, left: 500 * PARTS });
        assert_eq!(turn.turns(general, 5, 1_000 * PARTS), -1_500 * PARTS);
        let mut other = Turn::default();
        other.set(general, 5, 1_000 * PARTS, -1_500 * PARTS);
        assert_eq!(other, turn);
        other.set(general, 5, 400 * PARTS, 700 * PARTS);
        assert_eq!(other, Turn { round: 5, left: 400 * PARTS });
        other.set(General::PacketRoundRobin, 5, 400 * PARTS, -3);
        assert_eq!(other, Turn { round: 8, left: 400 * PARTS });
        assert_eq!(other.turns(General::PacketRoundRobin, 5, 400 * PARTS), -3);
    }
}
