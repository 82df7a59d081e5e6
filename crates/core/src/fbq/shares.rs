//! The nominal shares of an FBQ: who is promised what, if everybody wanted it.
//!
//! *Law*: for the flows present, `d(f) = max(dmin(f), c * w(f))` with the one `c` for which they add up to `d(q)`.
//! Without minimum rates and with equal weights this is the paper's `s = 1/n`.
//! *Source*: FBQ paper, section 4.1, equations (4.1) to (4.5).
//! *Cost*: O(log n) a join, leave or change, plus O(log n) for each distinct ratio `dmin/w` that `c` crosses by it;
//! never once a flow. Nothing of this is done for a packet.

use alloc::collections::BTreeMap;
use core::cmp::Ordering;

use tidegate_units::Rate;

/// The weight of a flow that nobody spoke for: 1.0.
pub const WEIGHT_ONE: u64 = 1 << 16;
/// The largest weight; a preferred flow can take this many times what its neighbours get, not all of it.
pub const WEIGHT_MAX: u64 = 1 << 40;

/// `rate / weight`: where the common rate `c` puts a flow at its minimum, or a threshold at its rate.
#[derive(Clone, Copy, Debug)]
pub struct Ratio {
    rate: u64,
    weight: u64,
}

impl Ratio {
    /// `rate / weight`; a weight of zero counts as the smallest.
    pub fn new(rate: Rate, weight: u64) -> Self {
        Self { rate: rate.as_bps(), weight: weight.max(1) }
    }
}

impl Ord for Ratio {
    fn cmp(&self, other: &Self) -> Ordering {
        let left = u128::from(self.rate) * u128::from(other.weight);
        left.cmp(&(u128::from(other.rate) * u128::from(self.weight)))
    }
}
impl PartialOrd for Ratio {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}
impl PartialEq for Ratio {
    fn eq(&self, other: &Self) -> bool {
        self.cmp(other) == Ordering::Equal
    }
}
impl Eq for Ratio {}

/// A number of flows and what they add up to.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
struct Sum {
    flows: u64,
    minimum: u64,
    weight: u64,
    spoken: u64,
}

impl Sum {
    fn add(&mut self, other: Self) {
        self.flows += other.flows;
        self.minimum += other.minimum;
        self.weight += other.weight;
        self.spoken += other.spoken;
    }
    fn remove(&mut self, other: Self) {
        self.flows -= other.flows;
        self.minimum -= other.minimum;
        self.weight -= other.weight;
        self.spoken -= other.spoken;
    }
}

/// What a flow brings into the shares.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Stake {
    /// Its weight now.
    pub weight: u64,
    /// The weight its configuration speaks of, [`WEIGHT_ONE`] by default.
    pub spoken: u64,
    /// Its granted minimum; zero when it has none.
    pub minimum: Rate,
}

impl Stake {
    fn sum(self) -> Sum {
        Sum { flows: 1, minimum: self.minimum.as_bps(), weight: self.weight, spoken: self.spoken }
    }
}

/// The nominal shares of one FBQ. See the [module](self).
#[derive(Clone, Debug)]
pub struct Shares {
    rate: Rate,
    all: Sum,
    /// Of d(q), what is kept for minimums to come.
    reserved: Rate,
    /// Those that `c` leaves at their minimum: the groups at and above `boundary`.
    held: Sum,
    groups: BTreeMap<Ratio, Sum>,
    boundary: Option<Ratio>,
}

impl Shares {
    /// No flows at `rate`.
    pub fn new(rate: Rate) -> Self {
        Self {
            rate,
            all: Sum::default(),
            reserved: Rate::ZERO,
            held: Sum::default(),
            groups: BTreeMap::new(),
            boundary: None,
        }
    }
    /// d(q).
    pub fn rate(&self) -> Rate {
        self.rate
    }
    /// Another d(q). The caller sees to it that the granted minimums still fit.
    pub fn set_rate(&mut self, rate: Rate) {
        self.rate = rate;
        self.balance();
    }
    /// The flows present, n.
    pub fn flows(&self) -> u64 {
        self.all.flows
    }
    /// What is left of d(q) for further minimum rates.
    pub fn unpromised(&self) -> Rate {
        self.rate.saturating_sub(Rate::from_bps(self.all.minimum)).saturating_sub(self.reserved)
    }
    /// Keeps `rate` for minimums to come. Until they come, the flows present share it.
    pub fn hold(&mut self, rate: Rate) {
        self.reserved += rate;
    }
    /// Gives back what was kept.
    pub fn release(&mut self, rate: Rate) {
        self.reserved = self.reserved.saturating_sub(rate);
    }
    /// The common rate as a fraction: (rate left to the flows above their minimum, their weights).
    pub fn common(&self) -> (u64, u64) {
        (self.rate.as_bps().saturating_sub(self.held.minimum), self.all.weight - self.held.weight)
    }
    /// Whether the common rate is below `ratio`.
    pub fn common_below(&self, ratio: Ratio) -> bool {
        let (rate, weight) = self.common();
        u128::from(rate) * u128::from(ratio.weight) < u128::from(ratio.rate) * u128::from(weight.max(1))
    }
    /// d(f) of a flow with this stake, rounded down (4.2).
    pub fn rate_of(&self, stake: Stake) -> Rate {
        let (rate, weight) = self.common();
        let share = if weight == 0 { 0 } else { u128::from(rate) * u128::from(stake.weight) / u128::from(weight) };
        Rate::from_bps(u64::try_from(share).unwrap_or(u64::MAX)).max(stake.minimum).min(self.rate)
    }
    /// The weight of a newcomer whose configuration speaks of `spoken`: with it the newcomer obtains 1/(n+1) of
    /// what the flows above their minimum have (4.3), times `spoken`.
    pub fn newcomer(&self, spoken: u64) -> u64 {
        let weight = u128::from(self.all.weight - self.held.weight);
        let average = self.all.spoken - self.held.spoken;
        if average == 0 {
            return spoken.clamp(1, WEIGHT_MAX);
        }
        u64::try_from(weight * u128::from(spoken) / u128::from(average)).unwrap_or(WEIGHT_MAX).clamp(1, WEIGHT_MAX)
    }
    /// What a newcomer would get with weight `weight`, at least: flows that it pushes to their minimum are not
    /// counted out.
    pub fn prospect(&self, weight: u64) -> Rate {
        let (rate, others) = self.common();
        Rate::from_bps(
            u64::try_from(u128::from(rate) * u128::from(weight) / (u128::from(others) + u128::from(weight)))
                .unwrap_or(u64::MAX),
        )
    }
    /// A flow joins.
    pub fn join(&mut self, stake: Stake) {
        let sum = stake.sum();
        self.all.add(sum);
        if !stake.minimum.is_zero() {
            let ratio = Ratio::new(stake.minimum, stake.weight);
            self.groups.entry(ratio).or_default().add(sum);
            if self.boundary.is_some_and(|boundary| ratio >= boundary) {
                self.held.add(sum);
            }
        }
        self.balance();
    }
    /// A flow that joined with this stake leaves.
    pub fn leave(&mut self, stake: Stake) {
        let sum = stake.sum();
        self.all.remove(sum);
        if !stake.minimum.is_zero() {
            let ratio = Ratio::new(stake.minimum, stake.weight);
            if self.boundary.is_some_and(|boundary| ratio >= boundary) {
                self.held.remove(sum);
            }
            if let Some(group) = self.groups.get_mut(&ratio) {
                group.remove(sum);
                if group.flows == 0 {
                    self.groups.remove(&ratio);
                }
            }
        }
        self.balance();
    }
    /// The stake that gives a flow `increment / 2^32` more of d(q) than `stake` does, at most s_free (4.5), at the
    /// cost of the others in proportion. The flow must be in with `stake`; it is left out when this returns, and
    /// must join with the result.
    pub fn prefer(&mut self, stake: Stake, increment: u64) -> Stake {
        let total = u128::from(self.rate.as_bps());
        let now = u128::from(self.rate_of(stake).as_bps());
        self.leave(stake);
        // d(q) * s_free: what the others have above their minimums.
        let free = total.saturating_sub(now).saturating_sub(u128::from(self.all.minimum));
        let wanted = now + free.min((total * u128::from(increment)) >> 32);
        // The common rate the others are left with when `wanted` is taken out of d(q).
        let whole = self.rate;
        self.set_rate(Rate::from_bps(u64::try_from(total - wanted.min(total)).unwrap_or(0)));
        let (rate, others) = self.common();
        self.set_rate(whole);
        let weight = if others == 0 {
            stake.weight
        } else if rate == 0 {
            WEIGHT_MAX
        } else {
            u64::try_from(wanted * u128::from(others) / u128::from(rate)).unwrap_or(WEIGHT_MAX)
        };
        Stake { weight: weight.clamp(stake.weight, WEIGHT_MAX), ..stake }
    }

    /// Moves groups across the boundary until those above it, and no others, are at their minimum.
    fn balance(&mut self) {
        loop {
            let (rate, weight) = self.common();
            let unheld = match self.boundary {
                Some(boundary) => self.groups.range(..boundary).next_back(),
                None => self.groups.iter().next_back(),
            };
            if let Some((&ratio, &sum)) = unheld
                && u128::from(ratio.rate) * u128::from(weight) > u128::from(rate) * u128::from(ratio.weight)
            {
                self.held.add(sum);
                self.boundary = Some(ratio);
                continue;
            }
            let Some(boundary) = self.boundary else { break };
            let Some((&ratio, &sum)) = self.groups.range(boundary..).next() else {
                self.boundary = None;
                break;
            };
            if u128::from(rate) * u128::from(ratio.weight) < u128::from(ratio.rate) * u128::from(weight) {
                break;
            }
            // Letting the group go only raises what is shared in proportion, so it stays above its minimum.
            self.held.remove(sum);
            self.boundary = self
                .groups
                .range((core::ops::Bound::Excluded(ratio), core::ops::Bound::Unbounded))
                .next()
                .map(|(&next, _)| next);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::random::Stream;
    use alloc::vec::Vec;

    fn plain(weight: u64) -> Stake {
        Stake { weight, spoken: WEIGHT_ONE, minimum: Rate::ZERO }
    }
    fn minimum(mbit: u64) -> Stake {
        Stake { minimum: Rate::from_mbit(mbit), ..plain(WEIGHT_ONE) }
    }

    #[test]
    fn a_newcomer_obtains_one_in_n_plus_one() {
        // (4.3): flows with 3/4 and 1/4; the third gets 1/3, the others 3/4 * 2/3 = 1/2 and 1/4 * 2/3 = 1/6.
        let mut shares = Shares::new(Rate::from_mbit(12));
        let (a, b) = (plain(3 * WEIGHT_ONE), plain(WEIGHT_ONE));
        shares.join(a);
        shares.join(b);
        let c = plain(shares.newcomer(WEIGHT_ONE));
        shares.join(c);
        assert_eq!([a, b, c].map(|f| shares.rate_of(f)), [6, 2, 4].map(Rate::from_mbit));
        // When it ends its share goes back in proportion.
        shares.leave(c);
        assert_eq!([a, b].map(|f| shares.rate_of(f)), [9, 3].map(Rate::from_mbit));
    }

    #[test]
    fn a_minimum_is_held_and_leaves_n() {
        // 10 Mbit/s, one flow with at least 4, then plain flows: 5+5, 4+3+3, 4+2+2+2.
        let mut shares = Shares::new(Rate::from_mbit(10));
        let promised = minimum(4);
        shares.join(promised);
        for (flows, each) in [(1, 5_000_000), (2, 3_000_000), (3, 2_000_000), (6, 1_000_000)] {
            while shares.flows() < flows + 1 {
                shares.join(plain(shares.newcomer(WEIGHT_ONE)));
            }
            assert_eq!(shares.rate_of(plain(WEIGHT_ONE)), Rate::from_bps(each));
        }
        assert_eq!(shares.rate_of(promised), Rate::from_mbit(4));
    }

    #[test]
    fn all_at_their_minimum_leave_nothing_to_a_newcomer_until_one_ends() {
        // (4.4)
        let mut shares = Shares::new(Rate::from_mbit(10));
        shares.join(minimum(6));
        shares.join(minimum(4));
        let late = plain(shares.newcomer(WEIGHT_ONE));
        shares.join(late);
        assert_eq!(shares.rate_of(late), Rate::ZERO);
        assert_eq!(shares.unpromised(), Rate::ZERO);
        shares.leave(minimum(4));
        assert_eq!(shares.rate_of(late), Rate::from_mbit(4));
    }

    #[test]
    fn preference_takes_what_is_free_and_no_more() {
        // (4.5): three flows of 1/3 of 9 Mbit/s; g has a minimum of 2. Half of d(q) more for f is 3 + 4.5 = 7.5,
        // but s_free is 6 - 2 = 4 Mbit/s: f gets 7, g its 2, h nothing (to the rounding of the largest weight).
        let mut shares = Shares::new(Rate::from_mbit(9));
        let (f, g, h) = (plain(WEIGHT_ONE), minimum(2), plain(WEIGHT_ONE));
        [f, g, h].into_iter().for_each(|stake| shares.join(stake));
        let f = shares.prefer(f, 1 << 31);
        shares.join(f);
        assert_eq!(shares.rate_of(g), Rate::from_mbit(2));
        assert!(shares.rate_of(f) > Rate::from_bps(6_999_000), "{}", shares.rate_of(f));
        // A tenth more: 3 + 0.9; the others share 5.1 in proportion, 2.55 each.
        let mut shares = Shares::new(Rate::from_mbit(9));
        let f = plain(WEIGHT_ONE);
        [f, g, h].into_iter().for_each(|stake| shares.join(stake));
        let f = shares.prefer(f, (1_u64 << 32) / 10);
        shares.join(f);
        assert!(shares.rate_of(f).as_bps().abs_diff(3_900_000) < 200, "{}", shares.rate_of(f));
        assert!(shares.rate_of(g).as_bps().abs_diff(2_550_000) < 200, "{}", shares.rate_of(g));
    }

    #[test]
    fn agrees_with_water_filling_by_bisection() {
        let mut random = Stream::named(11, "shares");
        for _ in 0..300 {
            let rate = Rate::from_kbit(1_000 + random.below(100_000));
            let mut shares = Shares::new(rate);
            let mut present: Vec<Stake> = Vec::new();
            for _ in 0..60 {
                if random.below(3) == 0 && !present.is_empty() {
                    let gone = present.swap_remove(random.below(present.len() as u64) as usize);
                    shares.leave(gone);
                } else {
                    let wanted = Rate::from_kbit(random.below(3) * random.below(4) * 500);
                    let stake = Stake {
                        weight: WEIGHT_ONE * (1 + random.below(4)),
                        spoken: WEIGHT_ONE,
                        minimum: if wanted <= shares.unpromised() { wanted } else { Rate::ZERO },
                    };
                    shares.join(stake);
                    present.push(stake);
                }
                if present.is_empty() {
                    continue;
                }
                // The oracle: bisect c in bit/s per unit of weight 2^-64.
                let total = |c: f64| -> f64 {
                    present.iter().map(|s| (c * s.weight as f64).max(s.minimum.as_bps() as f64)).sum()
                };
                let (mut low, mut high) = (0.0, rate.as_bps() as f64);
                for _ in 0..200 {
                    let middle = (low + high) / 2.0;
                    if total(middle) > rate.as_bps() as f64 { high = middle } else { low = middle }
                }
                for stake in &present {
                    let expected = (low * stake.weight as f64).max(stake.minimum.as_bps() as f64);
                    let got = shares.rate_of(*stake).as_bps() as f64;
                    assert!((got - expected).abs() <= 2.0, "{got} instead of {expected}");
                }
            }
        }
    }
}
