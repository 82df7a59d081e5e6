//! The answer of a comparison in words: which variant is the best by a measure, and by how much.

use crate::comparison::{Better, Estimate, Group, Measure, Row, bin, is_of_completed};
use crate::judgement::{Family, with_interval, would_decide};
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

/// The verb for so many variants.
fn are(places: &[usize]) -> &'static str {
    if places.len() == 1 { "is" } else { "are" }
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
    let (best, value) = ranked[0];
    let alike = match verdict.alike.as_slice() {
        [] => String::new(),
        alike => format!("; {} {} within 2 % of it", names(ranked, alike), are(alike)),
    };
    let differences = match (verdict.open.as_slice(), verdict.alike.as_slice()) {
        (open, [_, ..]) => format!("the difference to {}", names(ranked, open)),
        ([_], []) => "the difference".to_owned(),
        _ => "differences".to_owned(),
    };
    let contrary = match verdict.contrary.as_slice() {
        [] => String::new(),
        places => format!("; by the geometric mean {} {} better", names(ranked, places), are(places)),
    };
    let told = orders(measure, ranked, verdict, &(0..ranked.len()).collect::<Vec<_>>());
    let undecided = match told.as_slice() {
        [] => "undecided".to_owned(),
        told => format!("{}; the best is undecided", told.join("; ")),
    };
    format!(
        "{undecided}, {}{} runs tell {best} ({}) apart from no other{others}{by}{alike}; {differences} may be {}{}{contrary}",
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
        text += &format!("; {} {} within 2 % of {}", names(ranked, &behind), are(&behind), ranked[0].0);
    }
    let open = verdict.doubtful();
    if !open.is_empty() {
        // The values of neighbouring bins differ by less than is known of them.
        let is_beside = |of: &Estimate| (of.mean - ranked[0].1.mean).abs() <= bin(&measure.name) * of.mean.abs();
        let with = |place: &usize| {
            let (name, value) = ranked[*place];
            let beside = if bin(&measure.name) > 0.0 && is_beside(value) { " (within a bin of 1.6 %)" } else { "" };
            // Few runs that vary by far decide about the mean alone.
            let contrary = if verdict.contrary.contains(place) { " (better by the geometric mean)" } else { "" };
            format!("{name} with {}{beside}{contrary}", measure.mean(value))
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
        Better::More if measure.is_mos() => format!(", {:.1} less", great - small),
        Better::More => format!(", {}", less_by(tested.map_or([times; 3], |(_, times)| *times))),
        _ => match tested {
            Some((_, times)) => format!(", {} times as much", with_interval(*times)),
            None => format!(", {times:.1} times as much"),
        },
    }
}

/// By how many percent one has less, of which the other has so many times as much: `20 % (17 to 23 %) less`.
fn less_by(times: [f64; 3]) -> String {
    let [of, least, most] = times.map(|times| (1.0 - times.recip()) * 100.0);
    if most - least < 1.0 { format!("{of:.0} % less") } else { format!("{of:.0} % ({least:.0} to {most:.0} %) less") }
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
            let best = best.filter(|_| cell.is_partly_reached());
            let open = best.map_or(String::new(), |best| format!(", not told apart from {best}"));
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
mod tests;
