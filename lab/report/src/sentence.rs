//! The answer of a comparison in words: which variant is the best by a measure, and by how much.

use crate::comparison::{Better, Estimate, Group, Measure, Row, bin, is_of_completed};
use crate::judgement::{Family, would_decide};
use crate::verdict::Verdict;

/// The variants that have a measure, with the best first.
type Ranked<'a> = [(&'a str, &'a Estimate)];

/// How large a share may be, in percent with two digits, rounded up: a little more than 2 % is not "up to 2.0 %".
fn up_to(share: f64) -> String {
    match share * 100.0 {
        percent if percent > 100.0 => "above 100 %".to_owned(),
        percent if percent < 10.0 => format!("up to {:.1} %", (percent * 10.0 - 1e-6).ceil() / 10.0),
        percent => format!("up to {:.0} %", (percent - 1e-6).ceil()),
    }
}

/// The names of several variants by their places: `a, b and c`.
fn together(ranked: &Ranked<'_>, places: &[usize]) -> String {
    listed(&places.iter().map(|place| ranked[*place].0).collect::<Vec<_>>())
}

/// The variants behind the best, from the best mean to the worst, with those together that are equal: within 2 %, or by their values if
/// nothing was tested.
fn behind(ranked: &Ranked<'_>, verdict: Option<&Verdict>) -> Vec<Vec<usize>> {
    let is_equal = |a: usize, b: usize| match verdict {
        Some(verdict) => verdict.equal.contains(&[a.min(b), a.max(b)]),
        None => ranked[a].1.mean == ranked[b].1.mean,
    };
    let is_behind = |place: &usize| match verdict {
        Some(verdict) => verdict.apart.contains(place),
        None => !is_equal(*place, 0),
    };
    let mut groups: Vec<Vec<usize>> = Vec::new();
    for place in (0..ranked.len()).filter(is_behind) {
        match groups.iter_mut().find(|group| group.iter().all(|other| is_equal(*other, place))) {
            Some(group) => group.push(place),
            None => groups.push(vec![place]),
        }
    }
    groups
}

/// The names of variants by their places.
fn names(ranked: &Ranked<'_>, places: &[usize]) -> String {
    places.iter().map(|place| ranked[*place].0).collect::<Vec<_>>().join(", ")
}

/// States how many more runs would decide between the best and a variant, which is named where others are open; empty if nobody can
/// say.
fn more(ranked: &Ranked<'_>, verdict: &Verdict) -> Option<String> {
    let (more, about) = verdict.more?;
    let between = match verdict.open.len() {
        0 | 1 => String::new(),
        _ => format!(" between {} and {}", ranked[verdict.best].0, ranked[about].0),
    };
    Some(would_decide(more, verdict.runs, &between))
}

/// States which variants are told apart as better than those at some places, from the best mean to the worst; those that are better than
/// the same are named together.
fn orders(measure: &Measure, ranked: &Ranked<'_>, verdict: &Verdict, among: &[usize]) -> Vec<String> {
    let mut groups: Vec<(Vec<usize>, Vec<usize>)> = Vec::new();
    for place in 0..ranked.len() {
        let is_better = |worse: &usize| verdict.orders.contains(&[place, *worse]);
        let worse: Vec<usize> = (0..ranked.len()).filter(|worse| among.contains(worse) && is_better(worse)).collect();
        match groups.iter_mut().find(|(_, known)| *known == worse) {
            _ if worse.is_empty() => {}
            Some((better, _)) => better.push(place),
            None => groups.push((vec![place], worse)),
        }
    }
    let than = if measure.better == Better::More { "more" } else { "less" };
    let said = |(better, worse): &(Vec<usize>, Vec<usize>)| {
        let has = if better.len() > 1 { "have" } else { "has" };
        format!("{} {has} {than} than {}", with_values(measure, ranked, better), with_values(measure, ranked, worse))
    };
    groups.iter().map(said).collect()
}

/// The names of several variants with their values, by their places: `a (1 ms) and b (2 ms)`.
fn with_values(measure: &Measure, ranked: &Ranked<'_>, places: &[usize]) -> String {
    let named: Vec<String> =
        places.iter().map(|place| format!("{} ({})", ranked[*place].0, measure.mean(ranked[*place].1))).collect();
    listed(&named.iter().map(String::as_str).collect::<Vec<_>>())
}

/// States which variants are told apart from each other, that runs tell the one with the best mean apart from no other, and how far the
/// others may be from it. `others` says which these are.
fn undecided(measure: &Measure, ranked: &Ranked<'_>, verdict: &Verdict, others: &str) -> String {
    let by = if verdict.alike.is_empty() { "" } else { " by more than 2 %" };
    let differences = if verdict.open.len() > 1 { "differences" } else { "the difference" };
    let (best, value) = ranked[0];
    let told = orders(measure, ranked, verdict, &(0..ranked.len()).collect::<Vec<_>>());
    let undecided = match told.as_slice() {
        [] => "undecided".to_owned(),
        told => format!("{}; the best is undecided", told.join("; ")),
    };
    format!(
        "{undecided}, {}{} runs tell {best} ({}) apart from no other{others}{by}; {differences} may be {}{}",
        verdict.runs,
        if verdict.most_runs > verdict.runs { format!(" to {}", verdict.most_runs) } else { String::new() },
        measure.mean(value),
        up_to(verdict.reach),
        more(ranked, verdict).map_or(String::new(), |more| format!("; {more}"))
    )
}

/// States what the seeds do not change: the values of all variants or of some, or the difference of two. Nothing is tested by these.
fn unchanged(ranked: &Ranked<'_>, verdict: &Verdict) -> String {
    let is_constant = |place: &usize| {
        let Estimate { values, bin, .. } = ranked[*place].1;
        // Values in one bin are not the same.
        *bin == 0.0 && !values.is_empty() && values.iter().all(|value| *value == values[0])
    };
    let constant: Vec<usize> = (0..ranked.len()).filter(is_constant).collect();
    // What differs by the same from a third differs by the same from each other.
    let mut groups: Vec<Vec<usize>> = Vec::new();
    for pair in verdict.fixed.iter().filter(|pair| !pair.iter().all(|place| constant.contains(place))) {
        match groups.iter_mut().find(|group| pair.iter().any(|place| group.contains(place))) {
            Some(group) => {
                group.extend(pair.iter().filter(|place| !group.contains(place)).copied().collect::<Vec<_>>())
            }
            None => groups.push(pair.to_vec()),
        }
    }
    let others = groups.iter().map(|group| {
        let names = together(ranked, group);
        let is_same = group.iter().all(|place| ranked[*place].1.mean == ranked[group[0]].1.mean);
        if is_same {
            format!("; {names} have the same in each run")
        } else {
            format!("; {names} differ by the same in each run")
        }
    });
    let all = match constant.len() {
        0 | 1 => String::new(),
        n if n == ranked.len() => {
            format!("; the seeds do not change this quantity, it is the same in all {} runs", verdict.runs)
        }
        _ => format!("; the seeds do not change those of {}", together(ranked, &constant)),
    };
    std::iter::once(all).chain(others).collect()
}

/// States which variants are the best, and which others are perhaps.
fn best(measure: &Measure, ranked: &Ranked<'_>, verdict: Option<&Verdict>) -> String {
    let ends = if measure.better == Better::More { "the most" } else { "the least" };
    let value = measure.mean(ranked[0].1);
    let Some(verdict) = verdict else {
        let equal = ranked.iter().take_while(|(_, estimate)| estimate.mean == ranked[0].1.mean).count();
        return match equal {
            1 => format!("{} has {ends}, {value}", ranked[0].0),
            _ => format!("{} have {ends}, {value} each", together(ranked, &(0..equal).collect::<Vec<_>>())),
        };
    };
    let first = [&[verdict.best][..], &verdict.tied].concat();
    let mut text = match first.len() {
        1 => format!("{} has {ends}, {value}", ranked[0].0),
        _ => format!("{} have {ends}, {value}, equal within 2 %", together(ranked, &first)),
    };
    let behind = verdict.alike.iter().copied().filter(|place| !verdict.tied.contains(place));
    let behind: Vec<usize> = behind.collect();
    if !behind.is_empty() {
        let are = if behind.len() == 1 { "is" } else { "are" };
        text += &format!("; {} {are} within 2 % of {}", names(ranked, &behind), ranked[0].0);
    }
    let open = verdict.doubtful();
    if !open.is_empty() {
        // The values of neighbouring bins differ by less than is known of them.
        let is_beside = |of: &Estimate| (of.mean - ranked[0].1.mean).abs() <= bin(&measure.name) * of.mean.abs();
        let with = |place: &usize| {
            let (name, value) = ranked[*place];
            let beside = if bin(&measure.name) > 0.0 && is_beside(value) { " (within a bin of 1.6 %)" } else { "" };
            format!("{name} with {}{beside}", measure.mean(value))
        };
        let open: Vec<String> = open.iter().map(with).collect();
        text += &format!(", not told apart from {}", open.join(", "));
    }
    text += &more(ranked, verdict).map_or(String::new(), |more| format!(" ({more})"));
    for order in orders(measure, ranked, verdict, &verdict.beaten()) {
        text += &format!("; {order}");
    }
    text
}

/// The most groups of variants behind the best of which a sentence has the values.
const MOST_BEHIND: usize = 6;

/// States what the variants behind the best have, from the next to the worst, how many times as much the worst has, and which of them are
/// not told apart from each other.
fn behind_the_best(measure: &Measure, ranked: &Ranked<'_>, verdict: Option<&Verdict>) -> String {
    let groups = behind(ranked, verdict);
    let Some(last) = groups.last() else { return String::new() };
    let equal = if verdict.is_some() { " (equal within 2 %)" } else { " each" };
    let has = |group: &[usize]| {
        let (has, equal) = if group.len() > 1 { (" have", equal) } else { (" has", "") };
        format!("{}{has} {}{equal}", together(ranked, group), measure.mean(ranked[group[0]].1))
    };
    let mut said: Vec<String> = groups.iter().map(|group| has(group)).collect();
    if groups.len() > MOST_BEHIND {
        let between = MOST_BEHIND - 1..groups.len() - 1;
        let others: usize = groups[between.clone()].iter().map(Vec::len).sum();
        said.splice(between, [format!("{others} others are between")]);
    }
    let times = times_as_much(measure, ranked, verdict, last[0]);
    format!("; {}{times}{}", said.join(", "), not_told_apart(ranked, verdict))
}

/// States by how much a variant is behind the best; empty if that is no tenth, or if nobody knows.
fn times_as_much(measure: &Measure, ranked: &Ranked<'_>, verdict: Option<&Verdict>, place: usize) -> String {
    let (best, worst) = (ranked[0].1, ranked[place].1);
    let (small, great) = (best.mean.min(worst.mean), best.mean.max(worst.mean));
    let times = great / small;
    // Nobody knows how many times as much as perhaps nothing it is.
    let is_above_zero = |estimate: &Estimate| estimate.mean > estimate.half.unwrap_or(0.0).max(0.0);
    if !(is_above_zero(best) && is_above_zero(worst)) || times < 1.1 {
        return String::new();
    }
    let tested = verdict.and_then(|verdict| verdict.times.iter().find(|(other, _)| *other == place));
    match measure.better {
        // A MOS is on a scale from 1 to 5, of which a share means nothing.
        Better::More if measure.name.starts_with("MOS") => format!(", {:.1} less", great - small),
        Better::More => format!(", {:.0} % less", (1.0 - small / great) * 100.0),
        _ => match tested {
            Some((_, times)) => format!(", {times} times as much"),
            None => format!(", {times:.1} times as much"),
        },
    }
}

/// States which variants behind the best are not told apart from each other, or from those that are equal to the best or perhaps the best;
/// empty if all are.
fn not_told_apart(ranked: &Ranked<'_>, verdict: Option<&Verdict>) -> String {
    let Some(verdict) = verdict else { return String::new() };
    let is_behind = |place: &usize| verdict.apart.contains(place);
    let of_best = |pair: &&[usize; 2]| !pair.contains(&verdict.best) && pair.iter().any(is_behind);
    let open: Vec<&[usize; 2]> = verdict.unknown.iter().filter(of_best).collect();
    let both = open.iter().filter(|pair| pair.iter().all(is_behind)).count();
    let (behind, all) = (verdict.apart.len(), verdict.apart.len() * verdict.apart.len().saturating_sub(1) / 2);
    match open.len() {
        0 => String::new(),
        n if n == both && n == all && behind > 2 => "; these are not told apart from each other".to_owned(),
        n if n <= 6 => {
            let pairs: Vec<String> = open.iter().map(|pair| together(ranked, &pair[..])).collect();
            format!("; not told apart: {}", pairs.join("; "))
        }
        n => format!("; {n} pairs of these are not told apart"),
    }
}

impl Group {
    /// States which variant is the best by a measure, and by how much. Returns `None` if the measure has no answer.
    pub(crate) fn sentence(&self, at: usize, family: &Family) -> Option<String> {
        let measure = &self.measures[at];
        let subject = if self.name.is_empty() { String::new() } else { format!(" of {}", self.name) };
        let ranked = self.ranked(at);
        let open = self.not_reached(at, &ranked, family);
        if ranked.len() + open.len() < 2 || measure.better == Better::Neither {
            return None;
        }
        let and = if open.iter().any(|said| said.contains(", ")) { "; " } else { ", " };
        let not_reached = match (open.as_slice(), ranked.as_slice()) {
            ([], _) => String::new(),
            (_, []) => {
                // Some runs may have reached it.
                let any = open.iter().zip(&self.rows).all(|(said, row)| *said == row.name);
                let by = if any { "any variant".to_owned() } else { open.join(and) };
                return Some(format!("{}{subject}: not reached by {by}", measure.name));
            }
            (_, [(only, reached)]) => {
                let value = measure.mean(reached);
                return Some(format!(
                    "{}{subject}: {only} has {value}; not reached by {}",
                    measure.name,
                    open.join(and)
                ));
            }
            _ => format!("; not reached by {}", open.join(and)),
        };
        let verdict = self.verdict(at, &ranked, family);
        let said = match &verdict {
            // Single runs tell nothing apart, and no equality either: this is what they have.
            None if is_of_completed(&ranked) => {
                let left = ranked.iter().filter(|(_, estimate)| estimate.is_of_completed).map(|(name, _)| *name);
                let left = left.collect::<Vec<_>>().join(", ");
                let means = best(measure, &ranked, None) + &behind_the_best(measure, &ranked, None);
                format!("{means}; not tested, because these are means of what was completed, and not all was by {left}")
            }
            None if !self.differs(at) => format!("all within 2 %, {}", measure.mean(ranked[0].1)),
            Some(verdict) if verdict.is_tie() => {
                let mut ends = [ranked[0].1, ranked[ranked.len() - 1].1];
                ends.sort_by(|a, b| a.mean.total_cmp(&b.mean));
                let [least, most] = ends.map(|end| measure.mean(end));
                let values = if least == most { least } else { format!("{least} to {most}") };
                format!("no difference above 2 %, {values}")
            }
            Some(verdict) if verdict.is_undecided() => {
                let others = if open.is_empty() { "" } else { " that reached it in all" };
                undecided(measure, &ranked, verdict, others)
            }
            verdict => best(measure, &ranked, verdict.as_ref()) + &behind_the_best(measure, &ranked, verdict.as_ref()),
        };
        let unchanged = verdict.map_or(String::new(), |verdict| unchanged(&ranked, &verdict));
        Some(format!("{}{subject}: {said}{unchanged}{not_reached}", measure.name))
    }

    /// The variants that did not reach a measure in all runs, each with those that have less by the runs, or more though they did not reach it
    /// either.
    fn not_reached(&self, at: usize, ranked: &Ranked<'_>, family: &Family) -> Vec<String> {
        let told = self.orders_of_open(at, family);
        let cells = self.rows.iter().filter_map(|row| Some((row, row.cells.get(at)?.as_ref()?)));
        let said = |(row, cell): (&Row, &Estimate)| {
            let name = row.name.as_str();
            let less: Vec<&str> = told.iter().filter(|[_, more]| *more == name).map(|[less, _]| *less).collect();
            let is_after_all = less.len() == ranked.len() && ranked.iter().all(|(other, _)| less.contains(other));
            let behind = match less.as_slice() {
                [] => String::new(),
                [_, _, ..] if is_after_all => ", behind all that did".to_owned(),
                less => format!(", behind {}", listed(less)),
            };
            let is_ahead = |other: &&str| told.contains(&[name, other]);
            let ahead: Vec<&str> = ranked.iter().map(|(other, _)| *other).filter(is_ahead).collect();
            let ahead = if ahead.is_empty() { String::new() } else { format!(", ahead of {}", listed(&ahead)) };
            // Of whom nothing else is said the reader would believe that it is behind the best.
            let best = ranked.first().map(|(best, _)| *best).filter(|best| !less.contains(best) && !is_ahead(best));
            let is_tested = cell.can_be_tested() && !cell.is_never_reached();
            let open = best.filter(|_| is_tested).map_or(String::new(), |best| format!(", not told apart from {best}"));
            format!("{name}{}{behind}{ahead}{open}", cell.of_fewer())
        };
        cells.filter(|(_, cell)| !cell.is_reached()).map(said).collect()
    }
}

/// Several names: `a, b and c`.
fn listed(names: &[&str]) -> String {
    match names.split_last() {
        Some((last, others)) if !others.is_empty() => format!("{} and {last}", others.join(", ")),
        _ => names.concat(),
    }
}

#[cfg(test)]
mod tests {
    use crate::comparison::tests::{comparison, estimate};
    use crate::comparison::{Better, Comparison, Estimate, Measure, Row};

    #[test]
    fn the_answer_names_the_best_by_how_much_and_what_is_not_told_apart() {
        let said = comparison().sentences();
        assert_eq!(
            said,
            [
                "goodput of flow call: no difference above 2 %, 4.99 Mbit/s to 5 Mbit/s",
                "delay p99 of flow call: pie has the least, 12 ms, not told apart from codel with 13 ms (about 180 more runs would \
                 decide); fifo has 100 ms, 8.3 times as much",
            ]
        );
        // The headline is the measure in which they differ, unless no measure tells them apart.
        assert_eq!(comparison().answers(), [[said[1].clone(), said[0].clone()]]);
        assert_eq!(comparison().summary_of_variants(), said[1..]);
        let mut wide = comparison();
        wide.groups[0].rows[0].cells[1] = estimate(20e6, 20e6);
        let said = &wide.sentences()[1];
        assert!(
            said.starts_with("delay p99 of flow call: undecided, 10 runs tell pie (12 ms) apart from no other; differences may be above 100 %"),
            "{said}"
        );
        assert!(wide.summary_of_variants()[0].starts_with("goodput"));
        // Where all are alike none is marked; otherwise the best and those that are not told apart from it.
        assert!(wide.groups[0].best(1, &wide.family()).is_empty());
        let three = comparison();
        let mut marked = three.groups[0].best(1, &three.family());
        marked.sort_unstable();
        assert_eq!(marked, ["codel", "pie"]);
        assert_eq!(
            comparison().method().as_deref(),
            Some(
                "Decided at 5 % by the means of 10 runs without common seeds (Welch's t), corrected for all 6 differences (Holm). \
                 Equal within 2 % is what two one-sided tests of the same runs (TOST) find at 5 %, corrected likewise."
            )
        );
        // A single difference needs no correction.
        let mut one = comparison();
        one.groups[0].measures.truncate(1);
        one.groups[0].rows.truncate(2);
        one.groups[0].rows.iter_mut().for_each(|row| row.cells.truncate(1));
        assert!(one.method().is_some_and(|said| said.ends_with("(TOST) find at 5 %.")), "{:?}", one.method());
        // A single variant is described in words.
        wide.groups[0].rows.truncate(1);
        assert_eq!(wide.sentences(), ["flow call: goodput 5 Mbit/s, delay p99 20 ms"]);
    }

    /// A variant that varies by far has the best mean, and is told apart from nobody. The pairs that are decided are stated all the same, and
    /// no others: these are the rows of `differences.csv` that are decided and not equal.
    #[test]
    fn pairs_that_are_decided_are_stated_where_the_best_is_not() {
        let seeds: Vec<u64> = (1..=6).collect();
        let row = |name: &str, value: &dyn Fn(u64) -> f64| {
            let values: Vec<f64> = seeds.iter().map(|n| value(*n) * 1e6).collect();
            Row { name: name.into(), cells: vec![Some(crate::judgement::tests::estimate(&values, &seeds))] }
        };
        let said = |better: Better, rows: &[(&str, &dyn Fn(u64) -> f64)]| {
            let measures = vec![Measure::new("goodput", "bps", better)];
            let rows = rows.iter().map(|(name, value)| row(name, value)).collect();
            let group = crate::comparison::Group { name: "flow bbr".into(), measures, rows, ..Default::default() };
            let comparison = Comparison::new("", vec![group]);
            let is_order =
                |of: &&crate::judgement::Contrast| of.is_decided() == Some(true) && of.is_equal() != Some(true);
            let decided = comparison.contrasts().iter().filter(is_order).count();
            let marked = comparison.groups[0].best(0, &comparison.family()).join(", ");
            (comparison.sentences().remove(0), comparison.stated().len(), decided, marked)
        };
        let wild = |n: u64| if n.is_multiple_of(2) { 19.0 } else { 1.1 };
        let (good, poor) = (|n: u64| 9.0 + 0.01 * (n % 3) as f64, |n: u64| 6.0 + 0.01 * (n % 2) as f64);
        let like_poor = |n: u64| 6.001 + 0.01 * (n % 2) as f64 + 0.001 * (n % 3) as f64;
        let (sentence, orders, decided, marked) =
            said(Better::More, &[("cake", &poor), ("fifo", &wild), ("dualpi2", &good), ("fq-codel", &like_poor)]);
        assert!(
            sentence.starts_with(
                "goodput of flow bbr: dualpi2 (9.01 Mbit/s) has more than fq-codel (6.007 Mbit/s) and cake (6.005 Mbit/s); the best is \
                 undecided, 6 runs tell fifo (10 Mbit/s) apart from no other; differences may be above 100 %; about "
            ),
            "{sentence}"
        );
        assert!(sentence.ends_with("more runs would decide between fifo and dualpi2, a guess from 6"), "{sentence}");
        assert_eq!((orders, decided, marked.as_str()), (2, 2, "fifo, dualpi2"));
        // Behind a best that is told apart from others, who is beaten by another is named as well.
        let (sentence, ..) = said(
            Better::More,
            &[
                ("top", &|n| 20.0 + 0.01 * (n % 3) as f64),
                ("mid", &wild),
                ("low", &|n| wild(n) - 0.5 - 0.01 * (n % 2) as f64),
                ("far", &|n| 0.1 + 0.01 * (n % 4) as f64),
            ],
        );
        assert!(
            sentence.contains("top has the most, 20") && sentence.contains("; mid (10 Mbit/s) has more than low ("),
            "{sentence}"
        );
    }

    /// The answer has no more digits of a mean than the table beside it, whatever the mean of few runs is.
    #[test]
    fn means_in_sentences_have_the_digits_of_their_intervals() {
        let measure = Measure::new("completion mean", "ns", Better::Less);
        let said = |mean: f64, half: f64| measure.mean(&Estimate { mean, half: Some(half), ..Estimate::default() });
        assert_eq!(
            [said(698.4e6, 1393e6), said(682.46e6, 31e6), said(17.104e6, 1e3), said(12e6, 2e6)],
            ["700 ms", "682 ms", "17.1 ms", "12 ms"]
        );
    }

    /// Variants that are not found equal within 2 % may differ by more than 2 %. The interval of one difference alone is narrower than that
    /// of one of many, and said less.
    #[test]
    fn what_is_not_equal_within_two_percent_may_differ_by_more() {
        let seeds: Vec<u64> = (1..=6).collect();
        let row = |name: &str, by: f64| {
            // The differences have a mean of half a percent and vary by one and a half.
            let value = |n: u64, at: u64| 100e6 * (1.0 + by * (0.0148 * ((n * 5 + at * 3) % 6 % 3) as f64 - 0.0098));
            let cell = |at: u64| {
                let values: Vec<f64> = seeds.iter().map(|n| value(*n, at)).collect();
                Some(crate::judgement::tests::estimate(&values, &seeds))
            };
            Row { name: name.into(), cells: (0..12).map(cell).collect() }
        };
        let measures = (0..12).map(|n| Measure::new(format!("delay {n}"), "ns", Better::Less)).collect();
        let rows = vec![row("a", 0.0), row("b", 1.0)];
        let group = crate::comparison::Group { name: "flow call".into(), measures, rows, ..Default::default() };
        let comparison = Comparison::new("", vec![group]);
        let alone = comparison.contrasts()[0].difference;
        assert!((alone.mean.abs() + alone.half_width()) / 100e6 < 0.02, "the interval of one alone: {alone:?}");
        let sentences = comparison.sentences();
        let open: Vec<&String> = sentences.iter().filter(|said| said.contains("undecided")).collect();
        assert!(!open.is_empty(), "{sentences:#?}");
        for said in open {
            let (_, percent) = said.split_once("may be up to ").expect("a share");
            let percent: f64 = percent.split_once(" %").and_then(|(number, _)| number.parse().ok()).expect("a number");
            assert!(percent > 2.0, "{said}");
        }
    }

    /// However many runs there are, a quantity that the seeds do not change is stated as it is: with the better variant, and no test.
    #[test]
    fn what_the_seeds_do_not_change_is_stated_as_it_is() {
        let of = |runs: u64, rows: &[(&str, &dyn Fn(u64) -> f64)]| {
            let seeds: Vec<u64> = (1..=runs).collect();
            let row = |(name, value): &(&str, &dyn Fn(u64) -> f64)| {
                let values: Vec<f64> = seeds.iter().map(|n| value(*n)).collect();
                Row { name: (*name).into(), cells: vec![Some(crate::judgement::tests::estimate(&values, &seeds))] }
            };
            let measures = vec![Measure::new("loss", "%", Better::Less)];
            let rows = rows.iter().map(row).collect();
            let group = crate::comparison::Group { name: "flow call".into(), measures, rows, ..Default::default() };
            Comparison::new("", vec![group])
        };
        for runs in [2, 4, 40] {
            let found = of(runs, &[("a", &|_| 12.0), ("b", &|_| 11.5)]);
            let same = format!("the seeds do not change this quantity, it is the same in all {runs} runs");
            assert_eq!(found.sentences(), [format!("loss of flow call: b has the least, 11.5 %; a has 12 %; {same}")]);
            assert_eq!(
                found.method().as_deref(),
                Some(
                    "A difference that the seeds do not change is the same in all runs: it is stated as it is, without a test."
                )
            );
            let contrast = found.contrasts().remove(0);
            assert_eq!(
                (contrast.test(), contrast.difference.p, contrast.stated, contrast.alone),
                ("none", None, None, None)
            );
            assert_eq!(
                (contrast.is_decided(), contrast.is_equal(), contrast.more_runs()),
                (Some(true), Some(false), None)
            );
            assert_eq!(found.groups[0].best(0, &found.family()), ["b"]);
            // No run has a loss in either.
            let none = of(runs, &[("a", &|_| 0.0), ("b", &|_| 0.0)]);
            assert_eq!(none.sentences(), [format!("loss of flow call: no difference above 2 %, 0 %; {same}")]);
            assert_eq!(none.contrasts()[0].is_decided(), Some(false));
        }
        // Others are tested beside them, and corrected for each other alone.
        let some =
            of(8, &[("a", &|_| 12.0), ("b", &|_| 11.0), ("c", &|n| 20.0 + n as f64), ("d", &|n| 20.0 + n as f64)]);
        assert_eq!(
            some.sentences(),
            [
                "loss of flow call: b has the least, 11 %; a has 12 %, c and d have 24.5 % (equal within 2 %), 2.2 times as much; \
              the seeds do not change those of b and a; c and d have the same in each run"
            ]
        );
        assert_eq!(some.family().len(), 4);
        assert!(some.method().is_some_and(|said| said.contains("corrected for all 4 differences (Holm)")));
    }

    /// Nobody wins by runs that are all equal, and means that are near each other are no equality if runs differ by far.
    #[test]
    fn a_tie_has_no_winner_and_near_means_are_no_equality() {
        let of = |name: &str, value: &dyn Fn(u64) -> f64| Row {
            name: name.into(),
            cells: vec![Some(crate::judgement::tests::estimate(
                &(1..=10).map(value).collect::<Vec<_>>(),
                &(1..=10).collect::<Vec<_>>(),
            ))],
        };
        let said = |rows: Vec<Row>| {
            let measures = vec![Measure::new("delay p99", "ns", Better::Less)];
            let group = crate::comparison::Group { name: "flow call".into(), measures, rows, ..Default::default() };
            Comparison::new("", vec![group]).sentences().remove(0)
        };
        let fast = |n: u64| 17e6 + 1e4 * n as f64 + 1e3 * (n * 3 % 7) as f64;
        let (fifo, codel, cake) = (of("fifo", &|n| 75e6 + 1e5 * n as f64), of("fq-codel", &fast), of("cake", &fast));
        assert_eq!(
            said(vec![fifo, codel, cake]),
            "delay p99 of flow call: fq-codel and cake have the least, 17.1 ms, equal within 2 %; fifo has 76 ms, 4.4 times \
             as much; fq-codel and cake have the same in each run"
        );
        // Means of 4.50 and 4.55 s, and runs that differ by up to 1 s in both directions.
        let wide = |shift: f64, by: u64| move |n: u64| (4.0 + shift + ((n + by) % 5) as f64 / 4.0) * 1e9;
        let near = said(vec![of("cubic", &wide(0.0, 0)), of("reno", &wide(0.05, 2))]);
        assert!(
            near.starts_with("delay p99 of flow call: undecided, 10 runs tell cubic (4.5 s) apart from no other; the difference may be up to"),
            "{near}"
        );
        assert!(near.contains("more runs would decide"), "{near}");
        // Single runs that have the same are named together.
        let three = [("fifo", 9e6), ("same", 5e6), ("codel", 5e6)]
            .map(|(name, value)| Row { name: name.into(), cells: vec![Some(Estimate::from(value))] });
        assert_eq!(
            said(three.into()),
            "delay p99 of flow call: same and codel have the least, 5 ms each; fifo has 9 ms, 1.8 times as much"
        );
        // Variants that are equal behind the best are named together, too.
        let twins = said(vec![
            of("cake", &fast),
            of("codel", &|n| 30e6 + 1e4 * n as f64),
            of("same", &|n| 30e6 + 1e4 * n as f64),
            of("fifo", &|n| 75e6 + 1e5 * n as f64),
            of("twin", &|n| 75e6 + 1e5 * n as f64),
        ]);
        assert_eq!(
            twins,
            "delay p99 of flow call: cake has the least, 17.1 ms; codel and same have 30.1 ms (equal within 2 %), fifo and twin \
             have 76 ms (equal within 2 %), 4.4 times as much; codel and same have the same in each run; fifo and twin have the same in \
             each run"
        );
        // All behind the best are named, from the next to the worst.
        let four = said(vec![
            of("codel", &|n| 30e6 + 1e4 * n as f64),
            of("cake", &fast),
            of("fifo", &|n| 75e6 + 1e5 * n as f64),
            of("pie", &|n| 40e6 + 9e4 * n as f64),
        ]);
        assert_eq!(
            four,
            "delay p99 of flow call: cake has the least, 17.1 ms; codel has 30.1 ms, pie has 40.5 ms, fifo has 76 ms, 4.4 times as much"
        );
        let runs = [("fifo", 9e6), ("codel", 5e6), ("twin", 9e6)]
            .map(|(name, value)| Row { name: name.into(), cells: vec![Some(Estimate::from(value))] });
        assert_eq!(
            said(runs.into()),
            "delay p99 of flow call: codel has the least, 5 ms; fifo and twin have 9 ms each, 1.8 times as much"
        );
        // A single run of each is what it is.
        let one = |name: &str, value: f64| Row { name: name.into(), cells: vec![Some(Estimate::from(value))] };
        assert_eq!(said(vec![one("a", 5e6), one("b", 5.05e6)]), "delay p99 of flow call: all within 2 %, 5 ms");
    }
}
