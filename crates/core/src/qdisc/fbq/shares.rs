//! The nominal shares of an FBQ: the rate of each flow if every flow were backlogged.
//!
//! *Law*: without preference, for the flows present, `d(f) = max(dmin(f), c * w(f))` with the `c` for which they sum
//! to `d(q)`; with equal weights and no minimums this is the paper's `s = 1/n`. A preferred flow gets its part of
//! d(q) in addition, and the others share the rest in the same way, down to their minimums. If the requested parts
//! exceed what the minimums leave, s_free, the preferred flows share it in proportion to what each requests above its
//! minimum.
//! *Source*: FBQ paper, section 4.1, equations (4.1) to (4.5).
//! *Cost*: O(log n) per join, leave or change, plus O(log n) for each distinct ratio `dmin/w` that `c` crosses; never
//! per flow. Packets cost nothing here.
//! *Departures from the source, and why*: the paper raises a share once, on request. A flow that is preferred while
//! alone would gain nothing, and lose with each flow that joins later. Here preference is a state: the share of a
//! flow follows from the flows present, not from their history, and two flows with equal preference get equal shares.

use alloc::collections::BTreeMap;
use core::cmp::Ordering;
use core::ops::Bound;

use tidegate_units::Rate;

/// The default weight, 1.0.
pub const WEIGHT_ONE: u64 = 1 << 16;
/// The largest weight: the limit of what a preferred flow gets relative to others.
pub const WEIGHT_MAX: u64 = 1 << 40;
/// All of d(q), in the units of parts.
pub const WHOLE: u64 = 1 << 32;

/// `rate / weight`: the common rate `c` at which a flow is at its minimum, or at its threshold.
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

/// The number of flows and the sums over them.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
struct Sum {
    flows: u64,
    minimum: u64,
    weight: u64,
    /// The part of `minimum` that belongs to preferred flows.
    preferred_minimum: u64,
    preferred_weight: u64,
}

impl Sum {
    fn add(&mut self, other: Self) {
        self.flows += other.flows;
        self.minimum += other.minimum;
        self.weight += other.weight;
        self.preferred_minimum += other.preferred_minimum;
        self.preferred_weight += other.preferred_weight;
    }
    fn remove(&mut self, other: Self) {
        self.flows -= other.flows;
        self.minimum -= other.minimum;
        self.weight -= other.weight;
        self.preferred_minimum -= other.preferred_minimum;
        self.preferred_weight -= other.preferred_weight;
    }
}

/// The share parameters of a flow.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Stake {
    /// The weight for scheduling: its own, and the effect of preference.
    pub weight: u64,
    /// Its weight without preference, [`WEIGHT_ONE`] by default.
    pub plain: u64,
    /// The requested part of d(q) beyond its share, in 1/2^32.
    pub part: u64,
    /// The granted minimum; zero for none.
    pub minimum: Rate,
}

impl Stake {
    fn sum(self, weight: u64) -> Sum {
        let minimum = self.minimum.as_bps();
        let (preferred_minimum, preferred_weight) = if self.part > 0 { (minimum, weight) } else { (0, 0) };
        Sum { flows: 1, minimum, weight, preferred_minimum, preferred_weight }
    }
    fn ratio(self, weight: u64) -> Option<Ratio> {
        (!self.minimum.is_zero()).then(|| Ratio::new(self.minimum, weight))
    }
}

/// A rate shared by weight, in which every flow gets at least its minimum.
#[derive(Clone, Debug)]
struct Filling {
    rate: u64,
    all: Sum,
    /// The flows that `c` leaves at their minimum: the groups at and above `boundary`.
    held: Sum,
    groups: BTreeMap<Ratio, Sum>,
    boundary: Option<Ratio>,
}

impl Filling {
    fn new(rate: Rate) -> Self {
        let (all, held) = (Sum::default(), Sum::default());
        Self { rate: rate.as_bps(), all, held, groups: BTreeMap::new(), boundary: None }
    }
    fn set_rate(&mut self, rate: u64) {
        if self.rate != rate {
            self.rate = rate;
            self.balance();
        }
    }
    /// The common rate as a fraction: (rate left to the flows above their minimum, their weights). The denominator is
    /// zero only without flows.
    fn common(&self) -> (u64, u64) {
        (self.rate.saturating_sub(self.held.minimum), self.all.weight - self.held.weight)
    }
    fn join(&mut self, stake: Stake, weight: u64) {
        let sum = stake.sum(weight);
        self.all.add(sum);
        if let Some(ratio) = stake.ratio(weight) {
            self.groups.entry(ratio).or_default().add(sum);
            if self.boundary.is_some_and(|boundary| ratio >= boundary) {
                self.held.add(sum);
            }
        }
        self.balance();
    }
    fn leave(&mut self, stake: Stake, weight: u64) {
        let sum = stake.sum(weight);
        self.all.remove(sum);
        if let Some(ratio) = stake.ratio(weight) {
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
    fn balance(&mut self) {
        (self.held, self.boundary) = self.fill(self.rate, 0);
    }
    /// The flows at their minimum at `rate`, with `more` weight of flows that are not present: moves groups across
    /// the boundary until exactly those above it are at their minimum.
    fn fill(&self, rate: u64, more: u64) -> (Sum, Option<Ratio>) {
        let (mut held, mut boundary) = (self.held, self.boundary);
        loop {
            // Below zero only temporarily, when a flow with a minimum was added before its rate.
            let free = i128::from(rate) - i128::from(held.minimum);
            let weight = i128::from(self.all.weight - held.weight) + i128::from(more);
            let unheld = match boundary {
                Some(boundary) => self.groups.range(..boundary).next_back(),
                None => self.groups.iter().next_back(),
            };
            if let Some((&ratio, &sum)) = unheld
                && i128::from(ratio.rate) * weight > free * i128::from(ratio.weight)
            {
                held.add(sum);
                boundary = Some(ratio);
                continue;
            }
            let Some(lowest) = boundary else { break };
            let Some((&ratio, &sum)) = self.groups.range(lowest..).next() else {
                boundary = None;
                break;
            };
            if free * i128::from(ratio.weight) < i128::from(ratio.rate) * weight {
                break;
            }
            // Removing the group only raises the rest that is shared in proportion, so it stays above its minimum.
            held.remove(sum);
            let above = (Bound::Excluded(ratio), Bound::Unbounded);
            boundary = self.groups.range(above).next().map(|(&next, _)| next);
        }
        (held, boundary)
    }
}

/// The effect of preference: of all requests above minimums, as much as is free.
#[derive(Clone, Copy, Debug)]
struct Raise {
    wanted: u128,
    free: u128,
}

impl Raise {
    /// The rate above its minimum that a flow gets when it requests `wanted`.
    fn of(self, wanted: u128) -> u128 {
        if self.wanted <= self.free { wanted } else { wanted.saturating_mul(self.free) / self.wanted }
    }
}

/// `rate * weight / weights`, rounded down; zero if `weights` is zero.
fn part_of(rate: u64, weight: u64, weights: u64) -> u128 {
    u128::from(rate) * u128::from(weight) / u128::from(weights.max(1))
}

fn rate_from(bps: u128) -> Rate {
    Rate::from_bps(u64::try_from(bps).unwrap_or(u64::MAX))
}

/// The nominal shares of one FBQ. See the [module](self).
#[derive(Clone, Debug)]
pub struct Shares {
    /// The part of d(q) held for future minimums.
    reserved: Rate,
    /// The sum of the requested parts of d(q).
    parts: u64,
    /// All flows, by their weights for scheduling.
    now: Filling,
    /// All flows, without preference.
    plain: Filling,
    /// The flows without preference, sharing what the preferred ones leave.
    rest: Filling,
}

impl Shares {
    /// Returns an empty set of flows at `rate`.
    pub fn new(rate: Rate) -> Self {
        let filling = Filling::new(rate);
        Self { reserved: Rate::ZERO, parts: 0, now: filling.clone(), plain: filling.clone(), rest: filling }
    }
    /// d(q).
    pub fn rate(&self) -> Rate {
        Rate::from_bps(self.now.rate)
    }
    /// Sets d(q). The caller ensures that the granted minimums still fit.
    pub fn set_rate(&mut self, rate: Rate) {
        self.now.set_rate(rate.as_bps());
        self.plain.set_rate(rate.as_bps());
        self.leave_rest();
    }
    /// The number of flows, n.
    pub fn flows(&self) -> u64 {
        self.now.all.flows
    }
    /// The part of d(q) that is available for further minimums.
    pub fn unpromised(&self) -> Rate {
        self.rate().saturating_sub(Rate::from_bps(self.now.all.minimum)).saturating_sub(self.reserved)
    }
    /// Holds `rate` for future minimums. Until then the flows present share it.
    pub fn hold(&mut self, rate: Rate) {
        self.reserved += rate;
    }
    /// Releases rate that was held.
    pub fn release(&mut self, rate: Rate) {
        self.reserved = self.reserved.saturating_sub(rate);
    }
    /// The common rate as a fraction: (rate left to the flows above their minimum, their weights).
    pub fn common(&self) -> (u64, u64) {
        self.now.common()
    }
    /// Whether the common rate is below `ratio`.
    pub fn common_below(&self, ratio: Ratio) -> bool {
        let (rate, weight) = self.common();
        u128::from(rate) * u128::from(ratio.weight) < u128::from(ratio.rate) * u128::from(weight.max(1))
    }
    /// d(f) of a flow with these parameters, rounded down (4.2).
    pub fn rate_of(&self, stake: Stake) -> Rate {
        let (rate, weight) = self.common();
        rate_from(part_of(rate, stake.weight, weight)).max(stake.minimum).min(self.rate())
    }
    /// The rate that a new flow of weight `weight`, without minimum and preference, would get (4.3).
    pub fn prospect(&self, weight: u64) -> Rate {
        let (held, _) = self.plain.fill(self.plain.rate, weight);
        let rate = self.left(self.raise(held, weight));
        let (held, _) = self.rest.fill(rate, weight);
        let others = self.rest.all.weight - held.weight;
        rate_from(part_of(rate.saturating_sub(held.minimum), weight, others.saturating_add(weight)))
    }
    /// Adds a flow. Returns its weight for scheduling; the weight in `stake` is ignored.
    pub fn join(&mut self, stake: Stake) -> u64 {
        self.parts += stake.part;
        self.plain.join(stake, stake.plain);
        if stake.part == 0 {
            self.rest.join(stake, stake.plain);
        }
        self.leave_rest();
        let weight = self.weight_of(stake);
        self.now.join(stake, weight);
        weight
    }
    /// Removes a flow that was added, or last reweighed, with these parameters.
    pub fn leave(&mut self, stake: Stake) {
        self.parts -= stake.part;
        self.plain.leave(stake, stake.plain);
        if stake.part == 0 {
            self.rest.leave(stake, stake.plain);
        }
        self.now.leave(stake, stake.weight);
        self.leave_rest();
    }
    /// The present weight for scheduling of a flow that was added with these parameters. For a preferred flow it
    /// changes when others join or leave.
    pub fn weight_of(&self, stake: Stake) -> u64 {
        if stake.part == 0 {
            return stake.plain;
        }
        let (rate, weights) = self.plain.common();
        let share = part_of(rate, stake.plain, weights);
        let minimum = u128::from(stake.minimum.as_bps());
        let wanted = share.saturating_sub(minimum) + self.whole(stake.part);
        let granted = minimum + self.raise(self.plain.held, 0).of(wanted);
        // In units of the others' rate per weight; if there are no others, of the rate of all flows alike. If nothing
        // is left to the others, they get what the largest weight leaves.
        let (left, others) = if self.rest.all.flows == 0 { (rate, weights) } else { self.rest.common() };
        let whole = self.now.rate;
        let (left, others) = if u128::from(left) * u128::from(WEIGHT_MAX) < u128::from(whole) * u128::from(others) {
            (whole, WEIGHT_MAX)
        } else {
            (left, others)
        };
        let weight = granted * u128::from(others) / u128::from(left.max(1));
        u64::try_from(weight).unwrap_or(WEIGHT_MAX).clamp(1, WEIGHT_MAX)
    }
    /// Sets the weight for scheduling of a flow that was added with `stake`.
    pub fn weigh(&mut self, stake: Stake, weight: u64) {
        self.now.leave(stake, stake.weight);
        self.now.join(stake, weight);
    }

    /// `part` of d(q).
    fn whole(&self, part: u64) -> u128 {
        u128::from(self.now.rate) * u128::from(part) / u128::from(WHOLE)
    }
    /// The effect of preference if `held` are at their minimum without it, and `more` weight is present.
    fn raise(&self, held: Sum, more: u64) -> Raise {
        let all = self.plain.all;
        let shared = self.plain.rate.saturating_sub(held.minimum);
        let weights = (all.weight - held.weight).saturating_add(more);
        let shares = part_of(shared, all.preferred_weight - held.preferred_weight, weights);
        let minimums = u128::from(all.preferred_minimum - held.preferred_minimum);
        Raise {
            wanted: shares.saturating_sub(minimums) + self.whole(self.parts),
            free: u128::from(self.plain.rate.saturating_sub(all.minimum)),
        }
    }
    /// The rate left to flows without preference.
    fn left(&self, raise: Raise) -> u64 {
        let raised = u64::try_from(raise.wanted.min(raise.free)).unwrap_or(u64::MAX);
        self.plain.rate.saturating_sub(self.plain.all.preferred_minimum).saturating_sub(raised)
    }
    fn leave_rest(&mut self) {
        let left = if self.parts == 0 { self.now.rate } else { self.left(self.raise(self.plain.held, 0)) };
        self.rest.set_rate(left);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::random::Stream;
    use alloc::vec::Vec;

    fn plain(weight: u64) -> Stake {
        Stake { weight, plain: weight, part: 0, minimum: Rate::ZERO }
    }
    fn minimum(mbit: u64) -> Stake {
        Stake { minimum: Rate::from_mbit(mbit), ..plain(WEIGHT_ONE) }
    }
    /// Preferred by a number of tenths of d(q).
    fn preferred(tenths: u64) -> Stake {
        Stake { part: WHOLE / 10 * tenths, ..plain(WEIGHT_ONE) }
    }
    fn together<const N: usize>(mbit: u64, stakes: [Stake; N]) -> (Shares, [Stake; N]) {
        let mut shares = Shares::new(Rate::from_mbit(mbit));
        let stakes = stakes.map(|stake| Stake { weight: shares.join(stake), ..stake });
        let stakes = stakes.map(|stake| weighed(&mut shares, stake));
        (shares, stakes)
    }
    fn weighed(shares: &mut Shares, stake: Stake) -> Stake {
        let weight = shares.weight_of(stake);
        shares.weigh(stake, weight);
        Stake { weight, ..stake }
    }
    fn assert_rates<const N: usize>(shares: &Shares, stakes: [Stake; N], kbit: [u64; N]) {
        for (stake, kbit) in stakes.into_iter().zip(kbit) {
            let got = shares.rate_of(stake);
            assert!(got.as_bps().abs_diff(kbit * 1_000) < 1_000, "{got} instead of {kbit} kbit/s: {stake:?}");
        }
    }

    #[test]
    fn a_newcomer_obtains_one_in_n_plus_one() {
        // (4.3): flows of weight 3 and 1; the third, of weight 2, gets 1/3, the others 3/4 * 2/3 = 1/2 and 1/4 * 2/3 = 1/6.
        let (mut shares, [a, b]) = together(12, [plain(3 * WEIGHT_ONE), plain(WEIGHT_ONE)]);
        assert_rates(&shares, [a, b], [9_000, 3_000]);
        assert_eq!(shares.prospect(2 * WEIGHT_ONE), Rate::from_mbit(4));
        let c = plain(2 * WEIGHT_ONE);
        shares.join(c);
        assert_rates(&shares, [a, b, c], [6_000, 2_000, 4_000]);
        // When it ends its share goes back in proportion.
        shares.leave(c);
        assert_rates(&shares, [a, b], [9_000, 3_000]);
    }

    #[test]
    fn a_minimum_is_held_and_leaves_n() {
        // 10 Mbit/s, one flow with at least 4, then plain flows: 5+5, 4+3+3, 4+2+2+2.
        let mut shares = Shares::new(Rate::from_mbit(10));
        let promised = minimum(4);
        shares.join(promised);
        for (flows, each) in [(1, 5_000_000), (2, 3_000_000), (3, 2_000_000), (6, 1_000_000)] {
            while shares.flows() < flows + 1 {
                shares.join(plain(WEIGHT_ONE));
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
        let late = plain(WEIGHT_ONE);
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
        let (shares, stakes) = together(9, [preferred(5), minimum(2), plain(WEIGHT_ONE)]);
        assert_rates(&shares, stakes, [7_000, 2_000, 0]);
        // A tenth more: 3 + 0.9; the others share 5.1 in proportion, 2.55 each.
        let (shares, stakes) = together(9, [preferred(1), minimum(2), plain(WEIGHT_ONE)]);
        assert_rates(&shares, stakes, [3_900, 2_550, 2_550]);
    }

    #[test]
    fn preference_lasts_while_others_come_and_go() {
        // A single flow gains nothing. With one more: half and 2/10 of 10 Mbit/s; with four: 2 + 2, and 6/4 each.
        let mut shares = Shares::new(Rate::from_mbit(10));
        let mut f = preferred(2);
        f.weight = shares.join(f);
        assert_rates(&shares, [f], [10_000]);
        for (others, kbit) in [(1, 7_000), (4, 4_000), (2, 5_333), (0, 10_000)] {
            while shares.flows() < others + 1 {
                shares.join(plain(WEIGHT_ONE));
            }
            while shares.flows() > others + 1 {
                shares.leave(plain(WEIGHT_ONE));
            }
            // As predicted for the new flow.
            let newcomer = shares.prospect(WEIGHT_ONE);
            f = weighed(&mut shares, f);
            assert_rates(&shares, [f], [kbit]);
            shares.join(plain(WEIGHT_ONE));
            f = weighed(&mut shares, f);
            assert!(shares.rate_of(plain(WEIGHT_ONE)).as_bps().abs_diff(newcomer.as_bps()) < 1_000);
            shares.leave(plain(WEIGHT_ONE));
            f = weighed(&mut shares, f);
        }
    }

    #[test]
    fn flows_that_are_preferred_alike_get_the_same() {
        // Of ten flows in 10 Mbit/s two get 1 + 2, the others 4/8.
        let others = [plain(WEIGHT_ONE); 8];
        let [a, b, c, d, e, f, g, h] = others;
        let (shares, stakes) = together(10, [preferred(2), preferred(2), a, b, c, d, e, f, g, h]);
        assert_rates(&shares, stakes, [3_000, 3_000, 500, 500, 500, 500, 500, 500, 500, 500]);
        // Without other flows there is nothing to take: 5 + 8 and 5 + 1 share 10 as 13 to 6.
        let (shares, stakes) = together(10, [preferred(8), preferred(1)]);
        assert_rates(&shares, stakes, [6_842, 3_158]);
        // Minimums come first: 4 and 2 of them, and 4 in proportion to 5 - 4 + 8 and 5 - 2 + 1.
        let promised = |tenths, mbit| Stake { minimum: Rate::from_mbit(mbit), ..preferred(tenths) };
        let (shares, stakes) = together(10, [promised(8, 4), promised(1, 2)]);
        assert_rates(&shares, stakes, [6_769, 3_231]);
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
                        minimum: if wanted <= shares.unpromised() { wanted } else { Rate::ZERO },
                        ..plain(WEIGHT_ONE * (1 + random.below(4)))
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
