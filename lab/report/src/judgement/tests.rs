use super::*;
use crate::simulation::Quantity;

pub(crate) fn estimate(values: &[f64], seeds: &[u64]) -> Estimate {
    let summary = tidegate_metrics::summarise(values).unwrap();
    Estimate::of_runs(summary.mean, summary.half_width, values.to_vec()).with_seeds(seeds.to_vec())
}

/// A time in runs from seed 1 on; a run may have no value, and an infinite one was not reached.
pub(crate) fn quantity(
    (variant, subject, measure): (&str, &str, &str),
    values: impl Iterator<Item = Option<f64>>,
) -> Quantity {
    let values: Vec<Option<f64>> = values.collect();
    let there: Vec<f64> = values.iter().flatten().copied().collect();
    let mean = there.iter().sum::<f64>() / there.len() as f64;
    Quantity {
        subject: format!("{variant}: {subject}"),
        mean,
        seeds: (1..=values.len() as u64).collect(),
        values,
        half_width_95: mean.is_finite().then_some(1e6),
        ..Quantity::of_one_run(variant, subject, measure, "ns", 0.0)
    }
}

#[test]
fn further_runs_have_two_digits() {
    assert_eq!([1, 9, 19, 100, 101, 548, 1122, 999_999].map(rounded), [1, 9, 19, 100, 110, 550, 1200, 1_000_000]);
    assert_eq!(would_decide(1, 4, ""), "about 1 more run would decide, a guess from 4");
    // The plan of an order is that of the difference, whatever would show equality.
    let seeds: Vec<u64> = (1..=5).collect();
    let of = |values: [f64; 5]| estimate(&values, &seeds);
    let (a, b) = (of([100.0, 101.0, 100.5, 100.2, 101.1]), of([100.4, 101.2, 100.3, 100.9, 101.3]));
    let contrast = contrasts("flow call", "delay", "ns", &[("a", &a), ("b", &b)], None).remove(0);
    let apart = contrast.difference.more_runs(1).map(rounded).expect("a plan");
    let plan = contrast.plan(1).expect("a plan");
    assert!(plan.starts_with(&format!("about {apart} more runs would tell them apart, a guess from 5")), "{plan}");
    assert_eq!(would_decide(548, 10, " between pie and red"), "about 550 more runs would decide between pie and red");
}

/// Runs that differ in nothing are one: without this a difference of any size would have p = 0.
#[test]
fn runs_that_seeds_do_not_change_are_one() {
    use crate::simulation::{Quantity, compared, differences};
    let of = |variant: &str, measure: &str, values: [f64; 3]| Quantity {
        mean: values.iter().sum::<f64>() / 3.0,
        half_width_95: Some(0.0),
        values: values.map(Some).into(),
        seeds: vec![1, 2, 3],
        ..Quantity::of_one_run(variant, "flow call", measure, "ns", 0.0)
    };
    let all = |last: f64| {
        let of_variant =
            |variant, delay: f64| [of(variant, "delay p99", [delay; 3]), of(variant, "jitter", [1.0, 1.0, last])];
        [of_variant("fifo", 9e6), of_variant("codel", 8e6)].concat()
    };
    let same = compared("t", &all(1.0));
    assert!(same.contrasts().is_empty() && same.differences().rows.is_empty());
    assert!(differences(&all(1.0), &same).is_empty());
    assert!(same.stated().iter().all(|stated| stated.less == "codel"), "{:?}", same.stated());
    assert_eq!(same.groups[0].rows[0].cells[0].as_ref().and_then(|cell| cell.half), None);
    let method = same.method().expect("why nothing is tested");
    assert!(method.starts_with("The seeds change nothing: all 3 runs have measured the same"), "{method}");
    assert!(!method.contains("Decided"), "{method}");
    let said = same.sentences();
    assert_eq!(said, ["delay p99 of flow call: codel has the least, 8 ms; fifo has 9 ms, 1.1 times as much"]);
    // A measure that is not shown tells the runs apart, so that they are three.
    let apart = compared("t", &all(2.0));
    assert_eq!((apart.contrasts().len(), apart.repeated()), (1, None));
    // A percentile is known to a bin, by whose width it is tested.
    assert!(apart.method().is_some_and(|method| method.starts_with("Decided at 5 % by paired differences")));
    assert!(apart.contrasts()[0].difference.p.is_some_and(|p| p < 0.01), "{:?}", apart.contrasts());
}

/// A measure that some runs lack does not make the others unpaired.
#[test]
fn the_method_says_which_differences_have_no_pairs() {
    use crate::comparison::{Measure, Row};
    let seeds: Vec<u64> = (1..=6).collect();
    let row = |name: &str, power: i32, sparse: &[u64]| {
        let values: Vec<f64> = seeds.iter().map(|seed| (*seed as f64).powi(power)).collect();
        let sparse = estimate(&sparse.iter().map(|seed| *seed as f64).collect::<Vec<_>>(), sparse);
        Row { name: name.into(), cells: vec![Some(estimate(&values, &seeds)), Some(sparse)] }
    };
    let measures = vec![Measure::new("goodput", "bps", Better::More), Measure::new("delay p99", "ns", Better::Less)];
    let rows = vec![row("a", 1, &[1, 2, 3]), row("b", 2, &[4, 5, 6])];
    let group = Group { name: "flow call".into(), measures, rows, ..Group::default() };
    let comparison = Comparison::new("", vec![group]);
    let said = comparison.method().expect("tested");
    assert!(said.contains("paired differences over 6 seeds") && said.contains("1 of 2 differences"), "{said}");
}

/// Twenty measures of two variants that are alike, and one in which they differ: corrected within each measure, for which there is
/// one pair, some of the twenty would have a best variant by chance.
#[test]
fn measures_that_are_stated_together_are_corrected_together() {
    use crate::comparison::{Measure, Row};
    let mut state = 2_u64;
    let mut draw = |mean: f64| {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        mean + (state >> 40) as f64 / f64::from(1 << 24)
    };
    let seeds: Vec<u64> = (1..=12).collect();
    let mut row = |name: &str, last: f64| {
        let means = (0..20).map(|_| 1.0).chain([last]);
        let cells = means.map(|mean| Some(estimate(&seeds.iter().map(|_| draw(mean)).collect::<Vec<_>>(), &seeds)));
        Row { name: name.into(), cells: cells.collect() }
    };
    let measures = (0..21).map(|n| Measure::new(format!("delay {n}"), "ns", Better::Less)).collect();
    let rows = vec![row("a", 1.0), row("b", 9.0)];
    let group = Group { name: "flow call".into(), measures, rows, ..Group::default() };
    let comparison = Comparison::new("", vec![group]);
    let found = comparison.contrasts();
    let chance = found[..20].iter().filter(|contrast| contrast.difference.p.is_some_and(|p| p <= LEVEL)).count();
    assert!(chance > 0, "the draws have no difference of chance: {:?}", found[0]);
    let decided: Vec<&str> =
        found.iter().filter(|one| one.is_decided() == Some(true)).map(|one| one.measure.as_str()).collect();
    assert_eq!(decided, ["delay 20"]);
    assert!(found.iter().all(|contrast| contrast.stated.is_some_and(|stated| stated.comparisons == 21)));
    // The sentences and the stars of figures follow.
    let sentences = comparison.sentences();
    let best: Vec<_> = sentences.iter().filter(|said| said.contains("has the least")).collect();
    assert!(best.len() == 1 && best[0].starts_with("delay 20 of"), "{sentences:#?}");
    let family = comparison.family();
    let starred = (0..21).filter(|at| !comparison.groups[0].best(*at, &family).is_empty()).count();
    assert_eq!(starred, 1);
    let method = comparison.method().expect("tested");
    assert!(method.contains("corrected for all 21 differences (Holm). Equal within 2 % is"), "{method}");
}

/// A time that is many times as much in each of ten runs, and by far the most in one of them, is told apart; a share of the same values is
/// not, and neither is what has another direction by its ratio than by its mean.
#[test]
fn times_are_told_apart_by_their_ratios() {
    let seeds: Vec<u64> = (1..=10).collect();
    let of = |values: &[f64], by_factors: bool| Estimate { by_factors, ..estimate(values, &seeds) };
    let quick: Vec<f64> = (0..10).map(|n| 100.0 + f64::from(n % 3)).collect();
    let factors = [7.0, 9.0, 12.0, 15.0, 8.0, 11.0, 10.0, 14.0, 9.0, 400.0];
    let slow: Vec<f64> = quick.iter().zip(factors).map(|(value, factor)| value * factor).collect();
    let found = |a: &[f64], b: &[f64], by_factors: bool| {
        let (a, b) = (of(a, by_factors), of(b, by_factors));
        contrasts("flow page", "page load p50", "ns", &[("slow", &a), ("quick", &b)], None).remove(0)
    };
    let (time, share) = (found(&slow, &quick, true), found(&slow, &quick, false));
    assert_eq!((time.test(), share.test()), ("paired t of logarithms", "paired t"));
    let p = |of: &Contrast| of.difference.p.expect("tested");
    assert!(p(&time) < 1e-3 && p(&share) > 0.2, "{} {}", p(&time), p(&share));
    // The geometric mean of the factors is 14.80, and the difference of the means is what both have.
    let [ratio, low, high] = time.difference.ratio().expect("a ratio");
    assert!((ratio - 14.80).abs() < 0.01 && low > 5.0 && high < 45.0, "{ratio} {low} {high}");
    assert!(time.times().is_some_and(|said| said.starts_with("14.8 (")), "{:?}", time.times());
    let other = found(&quick, &slow, true);
    assert!((p(&other) - p(&time)).abs() < 1e-12);
    assert_eq!((other.times_of_more(), share.times()), (time.times(), None));
    assert_eq!(
        (time.difference.mean, time.difference.half_width()),
        (share.difference.mean, share.difference.half_width())
    );
    // Equal within 2 % is by the ratio, too.
    let near: Vec<f64> = quick.iter().enumerate().map(|(n, value)| value * (1.001 + n as f64 / 1e4)).collect();
    let equal = found(&near, &quick, true);
    assert!(equal.difference.ratio().is_some() && equal.equality.is_some_and(|equality| equality.p() < 1e-6));
    // Half of it in nine runs and thirty times as much in one: more by the mean, less by the ratio. The means decide, which do not.
    let both: Vec<f64> = quick.iter().enumerate().map(|(n, value)| value * if n == 9 { 30.0 } else { 0.5 }).collect();
    let mixed = found(&both, &quick, true);
    assert_eq!((mixed.test(), p(&mixed) > 0.2), ("paired t", true));
    // Nothing is not a ratio of something.
    let mut none = quick.clone();
    none[3] = 0.0;
    assert_eq!(found(&slow, &none, true).test(), "paired t");
}

/// Twenty equal variants: without the correction one in twenty pairs would differ at 5 %.
#[test]
fn many_comparisons_find_no_difference_of_chance() {
    let mut state = 2_u64;
    let mut draw = || {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (state >> 40) as f64
    };
    let seeds: Vec<u64> = (1..=12).collect();
    let all: Vec<Estimate> =
        (0..20).map(|_| estimate(&seeds.iter().map(|_| draw()).collect::<Vec<_>>(), &seeds)).collect();
    let named: Vec<(&str, &Estimate)> = all.iter().map(|estimate| ("x", estimate)).collect();
    let found = contrasts("flow a", "goodput", "bps", &named, None);
    assert_eq!((found.len(), found[0].alone.map(|alone| alone.comparisons)), (190, Some(190)));
    assert!(found.iter().filter(|contrast| contrast.difference.p.is_some_and(|p| p <= LEVEL)).count() > 3);
    assert_eq!(found.iter().filter(|contrast| contrast.alone.is_some_and(|alone| alone.p <= LEVEL)).count(), 0);
    // They are not stated beside others, so that nothing is said of a correction for these.
    assert!(found.iter().all(|contrast| contrast.stated.is_none() && contrast.is_decided().is_none()));
    let table = difference_columns(&found);
    assert_eq!(table.columns().count(), 27);
}

/// One of ten runs did not reach the percentile. It counts with the longest time that any run reached, so that a variant that is fifty times as
/// slow is told apart, and one that is as fast in all other runs is not; two that no run reached are not tested.
#[test]
fn a_run_that_did_not_reach_it_does_not_hide_what_the_others_say() {
    use crate::simulation::{compared_whole, differences};
    let of = |variant: &str, value: &dyn Fn(u64) -> f64| {
        quantity((variant, "flow page", "completion p95"), (1..=10).map(|seed| Some(value(seed))))
    };
    let fast = |seed: u64| 200e6 * (1.0 + 0.05 * (seed % 4) as f64);
    let but_for = |open: u64, value: &'static dyn Fn(u64) -> f64| {
        move |seed| if seed == open { f64::INFINITY } else { value(seed) }
    };
    let codel = of("fq-codel", &fast);
    let fifo = of("fifo", &but_for(3, &|seed| 10e9 * (1.0 + 0.03 * (seed % 3) as f64)));
    let cake = of("cake", &but_for(7, &|seed| 201e6 * (1.0 + 0.05 * (seed % 4) as f64)));
    let never = |name: &str| of(name, &|_| f64::INFINITY);
    let found = [codel, fifo, cake, never("red"), never("pie")];
    let comparison = compared_whole(&found);
    let said = comparison.sentences().remove(0);
    assert_eq!(
        said,
        "completion p95 of flow page: fq-codel has 215 ms; not reached by fifo in 1 of 10 runs, behind fq-codel and cake; cake in 1 of 10 runs, not told apart from fq-codel; \
         red, behind fq-codel, fifo and cake; pie, behind fq-codel, fifo and cake"
    );
    let contrasts = comparison.contrasts();
    let pair = |a: &str, b: &str| contrasts.iter().find(|contrast| contrast.variants == [a, b]);
    // The longest that any run reached: that of fifo in seeds 2, 5 and 8.
    let limit = 10.6e9;
    let slow = pair("fq-codel", "fifo").expect("a test");
    assert_eq!((slow.limit, slow.is_decided(), slow.is_equal()), (Some(limit), Some(true), None));
    assert!(slow.times().is_some_and(|times| times.starts_with("0.02")), "{:?}", slow.times());
    let equal = pair("fq-codel", "cake").expect("a test");
    assert_eq!((equal.limit, equal.is_decided(), equal.is_equal()), (Some(limit), Some(false), None));
    assert_eq!(pair("red", "pie"), None);
    // All ten pairs were meant to be tested.
    assert!(slow.stated.is_some_and(|stated| stated.comparisons == 10), "{:?}", slow.stated);
    assert_eq!(differences(&found, &comparison).len(), 9);
    // A claim may state such an order, and the best is alone who is told apart from all of them.
    let orders: Vec<[String; 2]> = comparison.stated().into_iter().map(|order| [order.less, order.more]).collect();
    assert!(
        orders.contains(&["fq-codel".into(), "fifo".into()]) && orders.contains(&["fifo".into(), "red".into()]),
        "{orders:?}"
    );
    assert!(!orders.iter().any(|order| *order == ["fq-codel", "cake"].map(str::to_owned)), "{orders:?}");
    let two = compared_whole(&found[..2]);
    assert_eq!(two.groups[0].standing(0, &two.family()), crate::standing::Best::One("fq-codel"));
    let method = comparison.method().expect("a method");
    assert!(method.contains("A run that did not reach a time counts with the longest"), "{method}");
}

/// In the worst run of the slower variant nothing was completed, so that it has no value there. Means are those of the runs that all have.
#[test]
fn means_are_of_the_runs_that_all_variants_have() {
    use crate::simulation::compared_whole;
    let of = |variant: &str, value: &dyn Fn(u64) -> Option<f64>| {
        quantity((variant, "flow pages", "page load p50"), (1..=10).map(value))
    };
    let slow = |seed: u64| if seed == 10 { None } else { Some(386e6 + 1e6 * (seed % 3) as f64) };
    let quick = |seed: u64| Some(if seed == 10 { 3.8e9 } else { 344e6 + 1e6 * (seed % 3) as f64 });
    let comparison = compared_whole(&[of("pie", &slow), of("fq-codel", &quick)]);
    let said = comparison.sentences().remove(0);
    assert!(said.starts_with("page load p50 of flow pages: fq-codel has the least, 345 ms; pie has 387 ms"), "{said}");
    let note = comparison.fewer_runs();
    let both = "Of fewer runs: page load p50 of flow pages: pie (9 runs), fq-codel (the 9 runs that all have).";
    assert_eq!(note.as_deref(), Some(both));
    // A variant with few values takes none from the others.
    let few = |seed: u64| Some(386e6).filter(|_| seed < 4);
    let comparison = compared_whole(&[of("pie", &few), of("fq-codel", &quick)]);
    assert!(comparison.fewer_runs().is_some_and(|note| note.contains("pie (3 runs).")));
}

/// Variants that are equal to each other, and told apart from one that did not reach it in all runs, are the best, and have their marks.
#[test]
fn equal_variants_are_the_best_where_another_did_not_reach_it() {
    use crate::simulation::compared_whole;
    let of = |variant: &str, value: &dyn Fn(u64) -> f64| {
        quantity((variant, "flow short", "completion p95"), (1..=8).map(|seed| Some(value(seed))))
    };
    let fast = |seed: u64| 200e6 * (1.0 + 0.05 * (seed % 4) as f64);
    let open = |seed: u64| if seed == 3 { f64::INFINITY } else { 9e9 + 1e8 * (seed % 3) as f64 };
    let all = [of("fq-codel", &fast), of("cake", &|seed| fast(seed) * 1.001), of("fifo", &open)];
    let comparison = compared_whole(&all);
    let said = comparison.sentences().remove(0);
    assert!(said.contains("fq-codel and cake have the least, 215 ms, equal within 2 %"), "{said}");
    assert!(said.ends_with("not reached by fifo in 1 of 8 runs, behind all that did"), "{said}");
    let markdown = comparison.markdown();
    assert!(markdown.contains("**") && !markdown.contains("Nothing is marked"), "{markdown}");
    // The seven runs of fifo that reached it are drawn.
    let look = crate::Look::parse("column,form=strip").expect("a look");
    let drawing = comparison.figure(&crate::palette::Pens::default(), &look).expect("an axis").expect("runs");
    assert!(drawing.svg().contains("1 of 8 not reached"), "{}", drawing.svg());
}

/// A variant that is ahead in all runs but one, which it did not end, is not behind the others: it has the mark of those that may be the best,
/// and the sentence says what the tests say of it.
#[test]
fn who_did_not_reach_it_once_may_be_the_best() {
    use crate::simulation::compared_whole;
    let of = |variant: &str, value: &dyn Fn(u64) -> f64| {
        quantity((variant, "flow short", "completion p50"), (1..=12).map(|seed| Some(value(seed))))
    };
    let ahead = |seed: u64| if seed == 5 { f64::INFINITY } else { 150e6 + 1e6 * (seed % 4) as f64 };
    let steady = |seed: u64| 180e6 + 1e6 * (seed % 3) as f64;
    let far = |seed: u64| 4e9 + 1e8 * (seed % 5) as f64;
    let comparison = compared_whole(&[of("codel", &steady), of("fq-codel", &ahead), of("fifo", &far)]);
    let (group, family) = (&comparison.groups[0], comparison.family());
    let mut marked = group.best(0, &family);
    marked.sort_unstable();
    assert_eq!(marked, ["codel", "fq-codel"]);
    assert!(matches!(group.standing(0, &family), crate::standing::Best::Several(..)));
    let markdown = comparison.markdown();
    assert!(markdown.contains("*n.r.*") || markdown.contains("**n.r.**"), "{markdown}");
    let said = comparison.sentences().remove(0);
    assert!(
        said.ends_with("; not reached by fq-codel in 1 of 12 runs, ahead of fifo, not told apart from codel"),
        "{said}"
    );
}
