//! Which variants differ in a measure, and which of them is the best.
//!
//! Runs with the same seed meet the same random numbers, so that the differences of such pairs of runs are compared with
//! 0, not the intervals of the means with each other: a seed that is hard for one variant is hard for all.

mod family;
mod plan;
mod restricted;
mod table;

use std::collections::HashMap;

use tidegate_metrics::{Difference, Equality, FEWEST_RUNS, LEVEL, MARGIN, Test, bootstrap};

pub(crate) use self::family::Family;
pub(crate) use self::plan::would_decide;
use self::plan::{further, rounded};
pub use self::table::{difference_columns, probability_after};
use crate::comparison::{Better, Comparison, Estimate, Group, Measure, from_to};

/// A difference of two variants in one measure of one subject: the first minus the second.
#[derive(Clone, PartialEq, Debug)]
pub struct Contrast {
    /// The flow, link or class.
    pub subject: String,
    /// The measure.
    pub measure: String,
    /// Its unit.
    pub unit: String,
    /// The names of the variants.
    pub variants: [String; 2],
    /// Their means; infinite for one that did not reach the measure in all runs.
    pub means: [f64; 2],
    /// With what the runs count that did not reach the measure: the longest time that a run of any variant reached. `None` if all reached it.
    pub limit: Option<f64>,
    /// The difference.
    pub difference: Difference,
    /// The 95 % interval by the bootstrap over pairs (BCa); `None` without pairs.
    pub bootstrap: Option<(f64, f64)>,
    /// The probability, corrected for all differences that text, reports and figures state beside each other; `None` if this
    /// one is not among them, or not tested.
    pub stated: Option<Corrected>,
    /// The probability, corrected for the pairs of variants in this measure of this subject alone: for those who state no other. `None`
    /// if it is not tested.
    pub alone: Option<Corrected>,
    /// The tests of whether the variants are equal within 2 %; `None` if there is nothing to test.
    pub equality: Option<Equality>,
    /// Their probability, corrected as [`stated`](Self::stated).
    pub stated_equality: Option<Corrected>,
    /// Whether text, reports and figures state it.
    is_stated: bool,
    /// Whether the means are within 2 % of the greater one.
    is_near: bool,
}

/// A probability that is corrected for the number of tests (Holm).
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Corrected {
    /// The corrected probability.
    pub p: f64,
    /// The number of differences for which it is corrected.
    pub comparisons: usize,
}

/// A tested pair of estimates, by their places.
pub(crate) struct Pair {
    pub(crate) places: [usize; 2],
    pub(crate) difference: Difference,
    /// With what runs count that did not reach the measure, if there are such.
    pub(crate) limit: Option<f64>,
    /// The tests of equality; none where runs did not reach the measure.
    equality: Option<Equality>,
    /// Whether the means are within 2 % of the greater one.
    is_near: bool,
    /// The differences of runs with the same seed; empty if there are none.
    values: Vec<f64>,
}

impl Pair {
    /// Tests two estimates; `None` if they have too few runs, or runs that differ in nothing, which are one.
    fn test(places: [usize; 2], a: &Estimate, b: &Estimate) -> Option<Self> {
        if a.is_repeated && b.is_repeated {
            return None;
        }
        let pairs = by_seed(a, b);
        let values = pairs.iter().map(|(a, b)| a - b).collect();
        let is_near = is_near(a.mean, b.mean);
        let plain = weighted(&pairs, a, b);
        let (difference, by_ratio) = (plain(1.0, 1.0)?, ratio(&pairs, a, b));
        let tested = by_ratio.and_then(|by_ratio| Some(difference.by_ratio(by_ratio(1.0, 1.0)?)));
        let (difference, equality) = match (tested, by_ratio) {
            (Some(tested), Some(by_ratio)) if tested.ratio().is_some() => (tested, Equality::of(by_ratio)),
            _ => (difference, Equality::of(plain)),
        };
        Some(Self { places, difference, limit: None, equality, is_near, values })
    }

    /// By which share of the greater mean the estimates may differ at most, as one of `comparisons`.
    pub(crate) fn reach(&self, estimates: &[&Estimate], comparisons: usize) -> f64 {
        // Beyond the limit nobody knows.
        if self.limit.is_some() {
            return f64::INFINITY;
        }
        let [a, b] = self.places.map(|place| estimates[place]);
        let pairs = by_seed(a, b);
        // Also where the difference is tested: nobody differs by more than all of it.
        let reach = match ratio(&pairs, a, b) {
            // A ratio of values above zero is at most all of the greater one away from it.
            Some(by_ratio) => Equality::reach(comparisons, by_ratio).map(|reach| reach.min(1.0)),
            None => Equality::reach(comparisons, weighted(&pairs, a, b)),
        };
        reach.unwrap_or(f64::INFINITY)
    }

    /// The fewest further runs with which a difference or an equality would be found.
    pub(crate) fn more_runs(&self, comparisons: usize) -> Option<u64> {
        more_runs(&self.difference, self.equality.as_ref(), comparisons)
    }
}

/// Whether means are within [`MARGIN`] of the greater one.
fn is_near(a: f64, b: f64) -> bool {
    (a - b).abs() <= MARGIN * a.abs().max(b.abs())
}

/// The values of runs with the same seed.
fn by_seed(a: &Estimate, b: &Estimate) -> Vec<(f64, f64)> {
    let of_b: HashMap<u64, f64> = b.seeds.iter().copied().zip(b.values.iter().copied()).collect();
    a.seeds.iter().zip(&a.values).filter_map(|(seed, value)| Some((*value, *of_b.get(seed)?))).collect()
}

/// The difference of two estimates by the pairs of their runs or, without pairs, by their means, of `first` and `second` of their values. It
/// has at least this variance where the runs differ.
fn between(
    pairs: &[(f64, f64)],
    (a, first): (&Estimate, impl Fn(f64) -> f64),
    (b, second): (&Estimate, impl Fn(f64) -> f64),
    variance: f64,
) -> Option<Difference> {
    let paired = Difference::paired(&pairs.iter().map(|(a, b)| first(*a) - second(*b)).collect::<Vec<_>>());
    let independent = || {
        let first: Vec<f64> = a.values.iter().map(|value| first(*value)).collect();
        let second: Vec<f64> = b.values.iter().map(|value| second(*value)).collect();
        Difference::independent(&first, &second)
    };
    // Equal runs are equal whatever is known of them: a bin is narrower than the share within which a difference does not matter.
    let differ = if pairs.is_empty() { a.mean != b.mean } else { pairs.iter().any(|(a, b)| a != b) };
    let found = paired.or_else(independent);
    found.map(|found| found.known_to(if differ { variance } else { 0.0 }))
}

/// The difference of two estimates times their weights.
fn weighted<'a>(
    pairs: &'a [(f64, f64)],
    a: &'a Estimate,
    b: &'a Estimate,
) -> impl Fn(f64, f64) -> Option<Difference> + Copy + 'a {
    move |x, y| {
        let width = |of: &Estimate, by: f64| of.bin * of.mean * by;
        let variance = (width(a, x).powi(2) + width(b, y).powi(2)) / 12.0;
        between(pairs, (a, |value| x * value), (b, |value| y * value), variance)
    }
}

/// As [`weighted`], with differences of logarithms in place of those of values: two times, or rates, are as many times apart as they are.
/// `None` for other quantities, and where a run has none of it.
fn ratio<'a>(
    pairs: &'a [(f64, f64)],
    a: &'a Estimate,
    b: &'a Estimate,
) -> Option<impl Fn(f64, f64) -> Option<Difference> + Copy + 'a> {
    let is_positive = |of: &Estimate| of.values.iter().all(|value| *value > 0.0 && value.is_finite());
    if !(a.by_factors && b.by_factors && is_positive(a) && is_positive(b)) {
        return None;
    }
    let plain = weighted(pairs, a, b);
    Some(move |x: f64, y: f64| {
        // A sum is asked for its sign alone; and what both weights turn is turned.
        let (x, y, sign) = match (x > 0.0, y > 0.0) {
            (true, true) => (x, y, 1.0),
            (false, false) => (-x, -y, -1.0),
            _ => return plain(x, y),
        };
        // A weight of zero is a logarithm that is far below all others.
        let of = |by: f64| move |value: f64| sign * (value * by.max(1e-12)).ln();
        between(pairs, (a, of(x)), (b, of(y)), (a.bin.powi(2) + b.bin.powi(2)) / 12.0)
    })
}

/// The fewest further runs with which a difference as large as it was measured, or an equality, would be found.
fn more_runs(difference: &Difference, equality: Option<&Equality>, comparisons: usize) -> Option<u64> {
    let equal = equality.and_then(|equality| equality.more_runs(comparisons));
    difference.more_runs(comparisons).into_iter().chain(equal).min()
}

/// The means of estimates as tests weigh them: of runs that did not reach a time those up to the limit.
pub(crate) fn means(estimates: &[&Estimate]) -> Vec<f64> {
    let limit = restricted::limit(estimates);
    estimates.iter().map(|estimate| restricted::weighed(estimate, limit).mean).collect()
}

/// Tests all pairs of estimates that have several runs. Runs that did not reach a time count with the longest that one of the estimates
/// reached.
pub(crate) fn pairs(estimates: &[&Estimate]) -> Vec<Pair> {
    let limit = restricted::limit(estimates);
    let weighed: Vec<_> = estimates.iter().map(|estimate| restricted::weighed(estimate, limit)).collect();
    let test = |places: [usize; 2]| {
        let [a, b] = places.map(|place| estimates[place]);
        if !a.can_be_tested() || !b.can_be_tested() || (a.is_never_reached() && b.is_never_reached()) {
            return None;
        }
        let found = Pair::test(places, &weighed[places[0]], &weighed[places[1]])?;
        // Up to the limit they may be equal, and beyond it nobody knows.
        let is_open = !a.is_reached() || !b.is_reached();
        Some(if is_open { Pair { limit, equality: None, is_near: false, ..found } } else { found })
    };
    let all = (0..estimates.len()).flat_map(|a| (a + 1..estimates.len()).map(move |b| [a, b]));
    all.filter_map(test).collect()
}

/// The differences of all pairs of named estimates of one measure, corrected for each other and for those of `family`, if they
/// belong to it.
pub(crate) fn contrasts(
    subject: &str,
    measure: &str,
    unit: &str,
    estimates: &[(&str, &Estimate)],
    family: Option<&Family>,
) -> Vec<Contrast> {
    let alone: Vec<&Estimate> = estimates.iter().map(|(_, estimate)| *estimate).collect();
    let pairs = pairs(&alone);
    let alone = Family::of(&pairs, 0);
    let contrast = |pair: Pair| Contrast {
        subject: subject.to_owned(),
        measure: measure.to_owned(),
        unit: unit.to_owned(),
        variants: pair.places.map(|place| estimates[place].0.to_owned()),
        means: pair.places.map(|place| estimates[place].1.mean),
        limit: pair.limit,
        stated: family.and_then(|family| family.correct(&pair.difference)),
        alone: alone.correct(&pair.difference),
        equality: pair.equality,
        stated_equality: family.zip(pair.equality).map(|(family, equality)| family.equalities.correct(equality.p())),
        is_stated: family.is_some(),
        is_near: pair.is_near,
        difference: pair.difference,
        bootstrap: bootstrap(&pair.values).filter(|_| !pair.difference.is_fixed()),
    };
    pairs.into_iter().map(contrast).collect()
}

impl Contrast {
    /// Whether the variants differ at a level of 5 %, after the correction for all differences that are stated; `None` if this one is
    /// not stated. A difference that the seeds do not change is not tested, and is what it is.
    pub fn is_decided(&self) -> Option<bool> {
        let fixed = (self.is_stated && self.difference.is_fixed()).then_some(self.difference.mean != 0.0);
        fixed.or_else(|| self.stated.map(|stated| stated.p <= LEVEL))
    }
    /// Whether the variants are equal within 2 % at that level, likewise.
    pub fn is_equal(&self) -> Option<bool> {
        let fixed = (self.is_stated && self.difference.is_fixed()).then_some(self.is_near);
        fixed.or_else(|| self.stated_equality.map(|stated| stated.p <= LEVEL))
    }
    /// How many more runs would find the difference, or that there is none above 2 %, with a probability of 80 %; `None` if either is
    /// decided, if it is not stated, or if it cannot be said.
    pub fn more_runs(&self) -> Option<u64> {
        let stated = self.stated.filter(|stated| stated.p > LEVEL && self.is_equal() != Some(true))?;
        more_runs(&self.difference, self.equality.as_ref(), stated.comparisons)
    }
    /// States how many more runs would tell the variants apart, as one of `comparisons` tests, or would find them equal if fewer do that;
    /// `None` if nobody can say.
    pub fn plan(&self, comparisons: usize) -> Option<String> {
        let equal = self.equality.and_then(|equality| equality.more_runs(comparisons));
        let apart = self.difference.more_runs(comparisons)?;
        let said = further(apart, self.difference.runs, "would tell them apart");
        Some(match equal.filter(|equal| *equal < apart) {
            Some(equal) => format!("{said}; about {} would find them equal within 2 %", rounded(equal)),
            None => said,
        })
    }
    /// States how many more runs would find the variants equal within 2 %, as one of `comparisons` tests; `None` if nobody can say.
    pub fn plan_of_equality(&self, comparisons: usize) -> Option<String> {
        let more = self.equality?.more_runs(comparisons)?;
        Some(further(more, self.difference.runs, "would find them equal within 2 %"))
    }
    /// How many times as much as the second variant the first has, with the 95 % interval, such as `2.1 (1.7 to 2.6)`; `None` if
    /// something else was tested.
    pub fn times(&self) -> Option<String> {
        self.difference.ratio().map(with_interval)
    }
    /// As [`times`](Self::times), of the one that has more.
    pub fn times_of_more(&self) -> Option<String> {
        times_of_more(&self.difference).map(with_interval)
    }
    /// The name of the test in tables; `none` where the seeds do not change the difference.
    pub fn test(&self) -> &'static str {
        match self.difference.test {
            _ if self.difference.is_fixed() => "none",
            Test::Paired if self.difference.ratio().is_some() => "paired t of logarithms",
            Test::Paired => "paired t",
            Test::Welch if self.difference.ratio().is_some() => "Welch of logarithms",
            Test::Welch => "Welch",
        }
    }
}

impl Group {
    /// The number of pairs of variants that would be tested by a measure, had one of them reached it in some run and both completed all.
    fn untestable(&self, at: usize) -> usize {
        let cells = self.rows.iter().filter_map(|row| row.cells.get(at)?.as_ref());
        let is_several = |cell: &&Estimate| cell.values.len() > 1 || cell.open.is_some_and(|(_, runs)| runs > 1);
        let several: Vec<&Estimate> = cells.filter(is_several).collect();
        let testable: Vec<&&Estimate> = several.iter().filter(|cell| cell.can_be_tested()).collect();
        let never = testable.iter().filter(|cell| cell.is_never_reached()).count();
        let pairs = |n: usize| n * n.saturating_sub(1) / 2;
        pairs(several.len()) - pairs(testable.len()) + pairs(never)
    }
    /// The estimates of a measure, with the names of their variants.
    fn estimates(&self, at: usize) -> Vec<(&str, &Estimate)> {
        self.rows.iter().filter_map(|row| Some((row.name.as_str(), row.cells.get(at)?.as_ref()?))).collect()
    }
    /// The orders by a measure that the runs tell apart, of pairs in which a variant did not reach it in all runs: who has less, and who has more.
    pub(crate) fn orders_of_open(&self, at: usize, family: &Family) -> Vec<[&str; 2]> {
        let all = self.estimates(at);
        let estimates: Vec<&Estimate> = all.iter().map(|(_, estimate)| *estimate).collect();
        if restricted::limit(&estimates).is_none() {
            return Vec::new();
        }
        let told = pairs(&estimates).into_iter().filter(|pair| pair.limit.is_some() && family.are_apart(pair));
        told.map(|pair| {
            let [a, b] = pair.places.map(|place| all[place].0);
            if pair.difference.mean < 0.0 { [a, b] } else { [b, a] }
        })
        .collect()
    }
}

impl Comparison {
    /// All tests of the comparison, or those that were planned with it. The best is known only when the means are, so that the correction is for all pairs, not for
    /// those with the best; and measures are stated beside each other, so that it is for all of them.
    pub(crate) fn family(&self) -> Family {
        if let Some(family) = &self.planned {
            return family.clone();
        }
        let of_measure = |group: &Group, at: usize| {
            let estimates: Vec<&Estimate> = group.estimates(at).into_iter().map(|(_, estimate)| estimate).collect();
            pairs(&estimates)
        };
        let measures = || self.groups.iter().flat_map(|group| (0..group.measures.len()).map(move |at| (group, at)));
        let untestable = measures().map(|(group, at)| group.untestable(at)).sum();
        Family::of(&measures().flat_map(|(group, at)| of_measure(group, at)).collect::<Vec<_>>(), untestable)
    }

    /// The part that has these quantities, each the name of a measure and that of a group, corrected as the whole: what was planned
    /// together is stated together, wherever a part of it is shown.
    #[must_use]
    pub fn planned_part(&self, quantities: &[(&str, String)]) -> Self {
        self.of_quantities(quantities).planned_with(self)
    }

    /// The comparison of a part of the runs, corrected as `whole`, in which all of them are: whoever chooses runs has not planned fewer.
    #[must_use]
    pub fn planned_with(self, whole: &Self) -> Self {
        Self { planned: Some(whole.family()), ..self }
    }

    /// The differences of all pairs of variants, for each measure of each group with a name.
    pub fn contrasts(&self) -> Vec<Contrast> {
        let family = self.family();
        let named = self.groups.iter().filter(|group| !group.name.is_empty());
        let measures = named.flat_map(|group| group.measures.iter().enumerate().map(move |(at, m)| (group, at, m)));
        let of_measure = |(group, at, m): (&Group, usize, &Measure)| {
            contrasts(&group.name, &m.name, &m.unit, &group.estimates(at), Some(&family))
        };
        measures.flat_map(of_measure).collect()
    }

    /// The correction of the differences that are stated, which are those `of the figure` for example, to be put behind the level; empty if there is a single one, and `None` if
    /// nothing was tested.
    pub(crate) fn correction(&self, of: &str) -> Option<String> {
        let family = self.family();
        match family.len() {
            _ if family.is_empty() => None,
            1 => Some(String::new()),
            n if family.has_others => {
                Some(format!(", corrected for all {n} differences that were planned or are chosen besides (Holm)"))
            }
            n if self.is_planned() => Some(format!(", corrected for all {n} differences that were planned (Holm)")),
            n => Some(format!(", corrected for all {n} differences {of} (Holm)")),
        }
    }

    /// States how the answers were decided, or that runs which differ in nothing decide nothing; `None` if there is a single run.
    pub fn method(&self) -> Option<String> {
        let parts: Vec<String> =
            self.tested().into_iter().chain(self.untested()).chain(self.why_no_interval()).collect();
        (!parts.is_empty()).then(|| parts.join(" "))
    }

    /// States why runs that differ in nothing have no interval and no test; `None` if there are none.
    pub fn why_no_interval(&self) -> Option<String> {
        let runs = self.repeated()?;
        let begin = if self.has_points() { "At points without an interval the" } else { "The" };
        Some(format!(
            "{begin} seeds change nothing: all {runs} runs have measured the same, and are one run. It is not tested, and has no interval; \
             runs differ by what a scenario draws, such as jitter, starts, sizes and losses."
        ))
    }

    /// States why differences that the seeds do not change are not tested; `None` if there are none.
    fn untested(&self) -> Option<String> {
        let groups = self.groups.iter().filter(|group| !group.name.is_empty());
        let mut measures = groups.flat_map(|group| (0..group.measures.len()).map(move |at| (group, at)));
        let is_fixed = |(group, at): (&Group, usize)| {
            let estimates: Vec<&Estimate> = group.estimates(at).into_iter().map(|(_, estimate)| estimate).collect();
            group.measures[at].better != Better::Neither
                && pairs(&estimates).iter().any(|pair| pair.difference.is_fixed())
        };
        measures.any(is_fixed).then(|| {
            "A difference that the seeds do not change is the same in all runs: it is stated as it is, without a test.".to_owned()
        })
    }

    /// States how the tested differences were decided; `None` if there are none.
    fn tested(&self) -> Option<String> {
        let family = self.family();
        // The numbers of runs, and how many differences were tested, by pairs and otherwise.
        let (mut runs, mut tested, mut unplanned, mut by_ratio) = ([Vec::new(), Vec::new()], 0, false, 0);
        let (mut is_restricted, mut contrary) = (false, 0);
        for group in self.groups.iter().filter(|group| !group.name.is_empty()) {
            for at in (0..group.measures.len()).filter(|at| group.measures[*at].better != Better::Neither) {
                let estimates: Vec<&Estimate> = group.estimates(at).into_iter().map(|(_, estimate)| estimate).collect();
                let pairs: Vec<Pair> =
                    pairs(&estimates).into_iter().filter(|pair| !pair.difference.is_fixed()).collect();
                tested += pairs.len();
                for pair in pairs {
                    let difference = pair.difference;
                    let is_open = !family.are_apart(&pair) && !family.are_equal(&pair);
                    unplanned |= difference.runs < FEWEST_RUNS && is_open;
                    by_ratio += usize::from(difference.ratio().is_some());
                    is_restricted |= pair.limit.is_some();
                    contrary += usize::from(difference.is_contrary());
                    runs[usize::from(difference.test == Test::Welch)].push(difference.runs);
                }
            }
        }
        let say = |runs: &[usize]| {
            let (least, most) = (runs.iter().min()?, runs.iter().max()?);
            Some(from_to(*least, *most))
        };
        let by = match (say(&runs[0]), say(&runs[1])) {
            (Some(seeds), None) => format!("paired differences over {seeds} seeds (Student's t)"),
            (None, Some(runs)) => format!("the means of {runs} runs without common seeds (Welch's t)"),
            (Some(seeds), Some(means)) => format!(
                "paired differences over {seeds} seeds (Student's t), and {} of {tested} differences, which have no two seeds in \
                 common, by the means of {means} runs (Welch's t)",
                runs[1].len()
            ),
            (None, None) => return None,
        };
        // Two or three runs do not say how much runs vary.
        let few = if unplanned { " From fewer than four runs nobody can say how many more would decide." } else { "" };
        let corrected = match family.len() {
            1 => String::new(),
            n => format!(", corrected for all {n} differences (Holm)"),
        };
        let times = match (by_ratio, contrary) {
            (0, _) => String::new(),
            (all, _) if all == tested => ", of the logarithms, since times and rates vary by factors".to_owned(),
            (_, 0) => ", of times and rates by their logarithms, since these vary by factors".to_owned(),
            (_, contrary) => format!(
                ", of times and rates by their logarithms, since these vary by factors (but for {contrary} whose ratio has another direction than the \
                 means)"
            ),
        };
        let limit = if is_restricted {
            " A run that did not reach a time counts with the longest that a run of any variant reached."
        } else {
            ""
        };
        let likewise = if corrected.is_empty() { "" } else { ", corrected likewise" };
        Some(format!(
            "Decided at 5 % by {by}{times}{corrected}. Equal within 2 % is what two one-sided tests of the same runs (TOST) find at \
             5 %{likewise}.{limit}{few}"
        ))
    }
}

/// How many times as much the variant that has more has, with the 95 % interval; `None` if something else was tested.
pub(crate) fn times_of_more(difference: &Difference) -> Option<[f64; 3]> {
    let [ratio, low, high] = difference.ratio()?;
    Some(if ratio < 1.0 { [ratio, high, low].map(f64::recip) } else { [ratio, low, high] })
}

/// A ratio with its interval: `2.1 (1.7 to 2.6)`.
pub(crate) fn with_interval(ratio: [f64; 3]) -> String {
    let [ratio, low, high] = ratio.map(three_digits);
    format!("{ratio} ({low} to {high})")
}

/// A ratio with three digits, which one ten times as far from 1 has, too.
fn three_digits(ratio: f64) -> String {
    let places =
        if ratio > 0.0 && ratio.is_finite() { (2 - ratio.log10().floor() as i32).clamp(0, 9) as usize } else { 0 };
    if ratio >= 1e6 { format!("{ratio:.2e}") } else { format!("{ratio:.places$}") }
}

#[cfg(test)]
pub(crate) mod tests;
