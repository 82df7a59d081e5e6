//! [`Verdict`]: which of several variants is the best by a measure, and how the others stand to it.

use crate::comparison::{Better, Estimate};
use crate::judgement::{Family, Pair, means, pairs, times_of_more};

/// The best of several variants according to their runs, and how the others stand to it, by their places.
pub(crate) struct Verdict {
    /// The best.
    pub(crate) best: usize,
    /// The variants that are equal to the best within 2 %, whether or not runs tell them apart: a difference that does not matter makes
    /// no loser.
    pub(crate) alike: Vec<usize>,
    /// The members of `alike` that are not told apart from the best either: nothing makes it the winner.
    pub(crate) tied: Vec<usize>,
    /// The variants that are neither equal to the best nor told apart from it.
    pub(crate) open: Vec<usize>,
    /// The variants that are told apart from the best.
    pub(crate) apart: Vec<usize>,
    /// The variants that are perhaps the best, from the best mean to the worst: the best, those that are equal to it, and those that are
    /// not told apart from it, unless another is told apart as better.
    pub(crate) candidates: Vec<usize>,
    /// All pairs that are told apart and not equal: the better one first.
    pub(crate) orders: Vec<[usize; 2]>,
    /// The pairs of variants that are equal within 2 %, with the lesser place first.
    pub(crate) equal: Vec<[usize; 2]>,
    /// The pairs that are neither told apart nor equal, with the lesser place first.
    pub(crate) unknown: Vec<[usize; 2]>,
    /// The members of `open` that have less than the best by the geometric mean, or more where more is better, so that their differences
    /// were tested.
    pub(crate) contrary: Vec<usize>,
    /// How many times as much as the best, or as little, variants have by the ratio that was tested.
    pub(crate) times: Vec<(usize, [f64; 3])>,
    /// Whether each variant is equal to each other within 2 %.
    pub(crate) all_alike: bool,
    /// Whether the best is told apart from another variant, which did not reach the measure in all runs and is none of these.
    pub(crate) leads_open: bool,
    /// The pairs whose difference the seeds do not change, with the lesser place first. They are not tested: they are in `orders` or in
    /// `equal`.
    pub(crate) fixed: Vec<[usize; 2]>,
    /// By which share of the greater mean the best and one of `open` may differ at most, by the test of equality with its correction: more
    /// than the share within which equality was not found.
    pub(crate) reach: f64,
    /// The number of runs of the smallest sample, and of the greatest.
    pub(crate) runs: usize,
    pub(crate) most_runs: usize,
    /// The fewest further runs that would decide about one of `open` that is perhaps the best, and which.
    pub(crate) more: Option<(u64, usize)>,
    /// The fewest further runs that would decide about each of `open` that is perhaps the best; `None` if nobody can say of one of them.
    pub(crate) most_more: Option<u64>,
}

impl Verdict {
    /// Judges estimates, whose tests belong to `family`; `None` if they cannot be tested.
    pub(crate) fn of(estimates: &[&Estimate], better: Better, family: &Family) -> Option<Self> {
        let order = |a: &f64, b: &f64| if better == Better::More { b.total_cmp(a) } else { a.total_cmp(b) };
        let means = means(estimates);
        let best = (0..estimates.len()).min_by(|a, b| order(&means[*a], &means[*b]))?;
        let pairs = pairs(estimates);
        let with_best: Vec<(usize, &Pair)> = pairs
            .iter()
            .filter(|pair| pair.places.contains(&best))
            .map(|pair| (if pair.places[0] == best { pair.places[1] } else { pair.places[0] }, pair))
            .collect();
        if with_best.len() + 1 < estimates.len() {
            return None;
        }
        let orders = pairs.iter().filter(|pair| family.are_apart(pair) && !family.are_equal(pair)).map(|pair| {
            let [a, b] = pair.places;
            if order(&pair.difference.mean, &0.0).is_le() { [a, b] } else { [b, a] }
        });
        let mut verdict = Self {
            best,
            alike: Vec::new(),
            tied: Vec::new(),
            open: Vec::new(),
            apart: Vec::new(),
            candidates: Vec::new(),
            orders: orders.collect(),
            equal: pairs.iter().filter(|pair| family.are_equal(pair)).map(|pair| pair.places).collect(),
            unknown: pairs
                .iter()
                .filter(|pair| !family.are_apart(pair) && !family.are_equal(pair))
                .map(|pair| pair.places)
                .collect(),
            times: with_best
                .iter()
                .filter_map(|(other, pair)| Some((*other, times_of_more(&pair.difference)?)))
                .collect(),
            contrary: Vec::new(),
            fixed: pairs.iter().filter(|pair| pair.difference.is_fixed()).map(|pair| pair.places).collect(),
            leads_open: false,
            all_alike: pairs.iter().all(|pair| family.are_equal(pair)),
            reach: 0.0,
            runs: with_best.iter().map(|(_, pair)| pair.difference.runs).min()?,
            most_runs: with_best.iter().map(|(_, pair)| pair.difference.runs).max()?,
            more: None,
            most_more: None,
        };
        let mut more = Vec::new();
        for (other, pair) in with_best {
            match (family.are_equal(pair), family.are_apart(pair)) {
                (true, is_apart) => {
                    verdict.alike.push(other);
                    verdict.tied.extend((!is_apart).then_some(other));
                }
                (false, true) => verdict.apart.push(other),
                (false, false) => {
                    verdict.open.push(other);
                    verdict.contrary.extend(pair.difference.is_contrary().then_some(other));
                    verdict.reach = verdict.reach.max(pair.reach(estimates, family.len()));
                    more.extend(pair.more_runs(family.len()).map(|more| (more, other)));
                }
            }
        }
        let mut places: Vec<usize> = (0..estimates.len()).collect();
        places.sort_by(|a, b| order(&means[*a], &means[*b]));
        verdict.candidates = places.into_iter().filter(|place| !verdict.is_beaten(*place)).collect();
        more.retain(|(_, about)| verdict.candidates.contains(about));
        let is_known = more.len() == verdict.doubtful().len();
        verdict.most_more = more.iter().map(|(more, _)| *more).max().filter(|_| is_known);
        verdict.more = more.into_iter().min();
        Some(verdict)
    }
    /// Whether no variant is told apart from another.
    pub(crate) fn is_open(&self) -> bool {
        self.orders.is_empty() && !self.leads_open
    }
    /// Whether all are equal within 2 %, and none is told apart from another that is none of these.
    pub(crate) fn is_tie(&self) -> bool {
        self.all_alike && !self.leads_open
    }
    /// Whether the best is told apart from no other, and not equal to all.
    pub(crate) fn is_undecided(&self) -> bool {
        self.apart.is_empty() && !self.open.is_empty() && !self.leads_open
    }
    /// Whether another is told apart as better than the one at this place, which is not the best then, whoever is.
    fn is_beaten(&self, place: usize) -> bool {
        self.orders.iter().any(|[_, worse]| *worse == place)
    }
    /// The members of `open` that are not the best, whoever is.
    pub(crate) fn beaten(&self) -> Vec<usize> {
        self.open.iter().copied().filter(|place| self.is_beaten(*place)).collect()
    }
    /// The members of `candidates` that merely may be the best. Nobody is the best where none is told apart from the one with the best mean,
    /// which may be a variant whose runs vary.
    pub(crate) fn perhaps(&self) -> Vec<usize> {
        let is_perhaps = |place: &usize| self.open.contains(place) || (self.apart.is_empty() && !self.open.is_empty());
        self.candidates.iter().copied().filter(is_perhaps).collect()
    }
    /// The members of `open` that are perhaps the best.
    pub(crate) fn doubtful(&self) -> Vec<usize> {
        self.candidates.iter().copied().filter(|place| self.open.contains(place)).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::judgement::tests::estimate;

    /// The verdict about estimates whose tests are stated alone.
    fn alone(estimates: &[&Estimate], better: Better) -> Option<Verdict> {
        Verdict::of(estimates, better, &Family::of(&pairs(estimates), 0))
    }

    /// Two variants on ten networks of very different rates: the second is a little slower on each. The intervals of the
    /// means overlap by far, and the pairs decide.
    #[test]
    fn pairs_decide_where_intervals_overlap() {
        let seeds: Vec<u64> = (1..=10).collect();
        let rates: Vec<f64> = seeds.iter().map(|seed| 1e6 * *seed as f64).collect();
        let slower: Vec<f64> = rates.iter().zip(&seeds).map(|(rate, n)| rate - 4e5 - 1e3 * (n % 3) as f64).collect();
        let (a, b) = (estimate(&rates, &seeds), estimate(&slower, &seeds));
        assert!(a.mean - a.half.unwrap() < b.mean, "the intervals overlap");
        let verdict = alone(&[&b, &a], Better::More).unwrap();
        assert_eq!((verdict.best, verdict.apart.len(), verdict.runs), (1, 1, 10));
        // Runs in another order are the same pairs; without common seeds they are none, and nothing is decided.
        let turned = estimate(
            &slower.iter().rev().copied().collect::<Vec<_>>(),
            &seeds.iter().rev().copied().collect::<Vec<_>>(),
        );
        assert_eq!(alone(&[&a, &turned], Better::More).unwrap().apart, [1]);
        let strangers = estimate(&slower, &seeds.iter().map(|seed| seed + 100).collect::<Vec<_>>());
        let verdict = alone(&[&a, &strangers], Better::More).unwrap();
        assert!(verdict.is_open() && verdict.more.is_some_and(|(more, _)| more > 100));
        // A single run decides nothing.
        assert!(alone(&[&estimate(&[1.0], &[1]), &estimate(&[2.0], &[1])], Better::More).is_none());
    }

    /// A call has a quality of 4.355 in the best variant. Another is 0.0002 behind in each run, and a third far behind in the mean, but
    /// not in all runs. The second is no loser, and the third, whom nobody beats, perhaps the best.
    #[test]
    fn small_differences_make_no_loser_and_doubt_makes_no_winner() {
        let seeds: Vec<u64> = (1..=8).collect();
        let of = |value: &dyn Fn(u64) -> f64| estimate(&seeds.iter().map(|n| value(*n)).collect::<Vec<_>>(), &seeds);
        let best = of(&|n| 4.355 + 1e-4 * n as f64);
        let behind = of(&|n| 4.3548 + 1e-4 * n as f64 + 1e-7 * (n % 2) as f64);
        let doubtful = of(&|n| if n < 3 { 1.0 } else { 4.36 });
        let verdict = alone(&[&best, &behind, &doubtful], Better::More).unwrap();
        assert_eq!((verdict.best, &verdict.alike[..], &verdict.open[..]), (0, &[1][..], &[2][..]));
        assert!(verdict.is_open() && verdict.more.is_some());
        // One that is clearly worse takes nothing from those with a still worse mean, which are not told apart from the best.
        let worse = of(&|n| 4.0 + 1e-4 * (n % 3) as f64);
        let verdict = alone(&[&best, &behind, &doubtful, &worse], Better::More).unwrap();
        assert_eq!((&verdict.open[..], &verdict.apart[..]), (&[2][..], &[3][..]));
        assert_eq!((&verdict.candidates[..], verdict.doubtful()), (&[0, 1, 2][..], vec![2]));
    }

    /// A variant that varies by far has the best mean, and is told apart from none of two that are told apart from each other: the worse of
    /// them is not the best, whoever is.
    #[test]
    fn who_is_beaten_by_another_is_not_perhaps_the_best() {
        let seeds: Vec<u64> = (1..=8).collect();
        let of = |value: &dyn Fn(u64) -> f64| estimate(&seeds.iter().map(|n| value(*n)).collect::<Vec<_>>(), &seeds);
        let wild = of(&|n| if n % 2 == 0 { 19.0 } else { 1.1 });
        let (better, worse) = (of(&|n| 9.0 + 0.01 * (n % 3) as f64), of(&|n| 8.0 + 0.01 * (n % 2) as f64));
        let far = of(&|n| 0.5 + 0.01 * (n % 4) as f64);
        for all in [vec![&worse, &wild, &better], vec![&worse, &wild, &better, &far]] {
            let verdict = alone(&all, Better::More).unwrap();
            assert_eq!((verdict.best, &verdict.candidates[..], verdict.doubtful()), (1, &[1, 2][..], vec![2]));
        }
    }

    /// Two variants whose means are within 2 % of each other, but whose runs differ by far: nothing is known, equality neither.
    #[test]
    fn equal_means_of_different_runs_are_open() {
        let seeds: Vec<u64> = (1..=10).collect();
        let of = |value: &dyn Fn(u64) -> f64| estimate(&seeds.iter().map(|n| value(*n)).collect::<Vec<_>>(), &seeds);
        let (a, b) = (of(&|n| 4.5 + (n % 2) as f64), of(&|n| 4.52 + (n % 3) as f64 / 2.0));
        assert!((a.mean / b.mean - 1.0).abs() < 0.02);
        let verdict = alone(&[&a, &b], Better::More).unwrap();
        assert!(verdict.alike.is_empty() && verdict.open.len() == 1 && !verdict.all_alike);
        assert!(verdict.reach > 0.05 && verdict.more.is_some_and(|(more, _)| more > 10), "{}", verdict.reach);
        // Equal runs are a tie, and those within 2 % that are told apart are not.
        let behind = of(&|n| 4.49 + (n % 2) as f64 - 1e-4 * (n % 3) as f64);
        let verdict = alone(&[&a, &a.clone(), &behind], Better::More).unwrap();
        assert_eq!((&verdict.alike[..], &verdict.tied[..]), (&[1, 2][..], &[1][..]));
        assert!(verdict.all_alike && verdict.orders.is_empty());
    }
}
