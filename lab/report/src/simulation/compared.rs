//! The comparison of the variants of a simulation by the measures that matter most, and the differences of all.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use super::Quantity;
use crate::comparison::{Better, Comparison, Estimate, Group, Measure, Row, over_common_runs};
use crate::judgement::{Contrast, contrasts};
use crate::swept::at_point;

/// The maximum number of flows, and of links, in a comparison.
const SUBJECTS: [usize; 2] = [6, 2];

/// The measures of a comparison of flows and links, the most important first. From each group of alternatives the first
/// one that was measured is taken.
const MEASURES: &[&[(&str, Better)]] = &[
    &[
        ("MOS", Better::More),
        ("MOS up", Better::More),
        ("rebuffering", Better::Less),
        ("page load mean", Better::Less),
        ("completion p50", Better::Less),
    ],
    &[("MOS down", Better::More), ("slowdown p50", Better::Less)],
    &[
        ("bit rate mean", Better::More),
        ("completion p99", Better::Less),
        // Each direction of a flow with data in both has its own, as it has its delay and its loss.
        ("goodput up", Better::More),
        ("goodput", Better::More),
        ("throughput", Better::Neither),
    ],
    &[("goodput down", Better::More)],
    &[
        ("page load p50", Better::Less),
        ("slowdown p99", Better::Less),
        ("delay p50", Better::Less),
        ("delay up p50", Better::Less),
        ("queueing p50", Better::Less),
        ("wait p50", Better::Less),
    ],
    &[
        ("page load p99", Better::Less),
        ("delay p99", Better::Less),
        ("delay up p99", Better::Less),
        ("queueing p99", Better::Less),
        ("wait p99", Better::Less),
    ],
    &[("delay down p99", Better::Less)],
    &[("fairness", Better::More)],
    &[("share", Better::Neither)],
    &[("loss up", Better::Less), ("loss", Better::Less), ("dropped", Better::Neither)],
    &[("loss down", Better::Less)],
];

/// Further measures that tell better from worse, by which variants are compared where somebody asks for them.
const OTHERS: &[(&str, Better)] = &[
    ("R factor", Better::More),
    ("mouth to ear", Better::Less),
    ("not played", Better::Less),
    ("late", Better::Less),
    ("connect", Better::Less),
    ("frame delay", Better::Less),
    ("frames incomplete", Better::Less),
    // Frames are counted where no more and no less of them is better.
    ("frames", Better::Neither),
    ("frames complete", Better::Neither),
    ("startup mean", Better::Less),
    ("stalls", Better::Less),
    ("failed", Better::Less),
    ("refused", Better::Less),
    ("timeouts", Better::Less),
];

/// The direction in which values of a measure are better: that of one of [`MEASURES`] or [`OTHERS`] with the same name or first word, if
/// there is one.
pub(crate) fn better(measure: &str) -> Better {
    let first = |name: &str| name.split(' ').next().map(str::to_owned);
    let all = MEASURES.iter().copied().flatten().chain(OTHERS);
    all.clone()
        .find(|(name, _)| *name == measure)
        .or_else(|| all.clone().find(|(name, _)| first(name) == first(measure)))
        .map_or(Better::Neither, |(_, better)| *better)
}

/// Whether all runs have measured the same in everything: nothing depends on their seeds, so that they are one run.
pub(super) fn are_repeated<'a>(mut quantities: impl Iterator<Item = &'a Quantity> + Clone) -> bool {
    let is_several = quantities.clone().any(|quantity| quantity.values.len() > 1);
    is_several && quantities.all(|quantity| quantity.values.iter().all(|value| *value == quantity.values[0]))
}

/// The differences of all pairs of variants in all quantities, for notebooks. Those that are `stated` are corrected for all that are,
/// as in text; and each for the pairs of its measure, since a notebook may state that one alone.
pub fn differences(quantities: &[Quantity], stated: &Comparison) -> Vec<Contrast> {
    let family = stated.family();
    let names = stated.groups.iter().flat_map(|group| group.measures.iter().map(|m| (&*group.name, &*m.name)));
    let names: BTreeSet<(&str, &str)> = names.collect();
    let mut repeated: BTreeSet<&str> = quantities.iter().map(|quantity| quantity.point.as_str()).collect();
    repeated.retain(|point| are_repeated(quantities.iter().filter(|quantity| quantity.point == *point)));
    let mut groups: Vec<Vec<&Quantity>> = Vec::new();
    let mut known = BTreeMap::new();
    for quantity in quantities.iter().filter(|quantity| !repeated.contains(quantity.point.as_str())) {
        let index = *known.entry((quantity.plain(), quantity.measure.as_str())).or_insert_with(|| {
            groups.push(Vec::new());
            groups.len() - 1
        });
        groups[index].push(quantity);
    }
    let of_group = |group: Vec<&Quantity>| {
        let estimates: Vec<Estimate> = group.iter().map(|quantity| quantity.estimate()).collect();
        let named: Vec<_> = group.iter().map(|quantity| quantity.variant.as_str()).zip(&estimates).collect();
        let (subject, measure) = (group[0].plain(), group[0].measure.as_str());
        let family = names.contains(&(subject, measure)).then_some(&family);
        contrasts(subject, measure, group[0].unit, &named, family)
    };
    groups.into_iter().flat_map(of_group).collect()
}

/// How several subjects of the kind of this one are called together: `flows` for `flow bulk`. `None` if its name has no kind.
pub fn kinds_of(subject: &str) -> Option<String> {
    let (kind, _) = subject.split_once(' ')?;
    Some(format!("{kind}{}", if kind.ends_with('s') { "es" } else { "s" }))
}

/// `all` so that the flows of each variant, or its links, can be compared with each other in place of the variants: each flow is a variant, the
/// subject is `flows`, and the point has the variant. What there is one of alone has nothing to be compared with, and is left out.
pub fn by_subject(all: &[Quantity]) -> Vec<Quantity> {
    let mut names: BTreeMap<String, BTreeSet<&str>> = BTreeMap::new();
    for name in all.iter().map(Quantity::name) {
        if let Some(kinds) = kinds_of(name) {
            names.entry(kinds).or_default().insert(name);
        }
    }
    let turned = |quantity: &Quantity| {
        let name = quantity.name();
        let kinds = kinds_of(name).filter(|kinds| names[kinds].len() > 1)?;
        let variant = match quantity.variant.as_str() {
            "" => None,
            // The values of a sweep.
            values if values.contains('=') => Some(values.to_owned()),
            name => Some(format!("variant={name}")),
        };
        let point = Some(quantity.point.clone()).filter(|point| !point.is_empty()).into_iter().chain(variant);
        let point = point.collect::<Vec<_>>().join(", ");
        let subject = format!("{name}: {}", at_point(&kinds, &point));
        Some(Quantity { subject, variant: name.to_owned(), point, ..quantity.clone() })
    };
    all.iter().filter_map(turned).collect()
}

/// Compares the variants by the most important measures (rate, delay, fairness, loss) for each subject of `quantities`:
/// first the flows, then the links that are used most. The points of a sweep are compared one after the other.
pub fn compared(title: &str, quantities: &[Quantity]) -> Comparison {
    Comparison::new(title, groups_at_points(quantities, SUBJECTS, false))
}

/// Compares the variants like [`compared`], by all measures that `quantities` has: those that somebody has chosen.
pub fn compared_by_all(title: &str, quantities: &[Quantity]) -> Comparison {
    Comparison::new(title, groups_at_points(quantities, SUBJECTS, true))
}

/// Compares the variants of all subjects by all measures, however many there are.
pub fn compared_whole(quantities: &[Quantity]) -> Comparison {
    Comparison::new("", groups_at_points(quantities, [usize::MAX; 2], true))
}

/// The groups of the comparison of `quantities` at each point, with at most so many flows and links, and with the most important measures or
/// all.
fn groups_at_points(quantities: &[Quantity], most: [usize; 2], is_whole: bool) -> Vec<Group> {
    let mut points: Vec<(&str, Vec<&Quantity>)> = Vec::new();
    for quantity in quantities {
        match points.iter_mut().find(|(point, _)| *point == quantity.point) {
            Some((_, of_point)) => of_point.push(quantity),
            None => points.push((&quantity.point, vec![quantity])),
        }
    }
    points.iter().flat_map(|(_, quantities)| groups(quantities, most, is_whole)).collect()
}

fn groups(quantities: &[&Quantity], most: [usize; 2], is_whole: bool) -> Vec<Group> {
    let index = Index::new(quantities);
    let mut groups: Vec<Group> = Vec::new();
    let all = index.subjects(most).into_iter().map(|subject| index.group(subject, is_whole));
    for group in all.filter(|group| !group.rows.is_empty()) {
        // Subjects with the same measures are rows of one group.
        match groups.last_mut() {
            Some(last) if last.name.is_empty() && group.name.is_empty() && last.measures == group.measures => {
                last.append(group);
            }
            _ => groups.push(group),
        }
    }
    groups
}

/// Quantities by subject, variant and measure. Each measure of each row is looked up, so that a search would take a time that grows
/// with the square of their number.
struct Index<'a> {
    quantities: &'a [&'a Quantity],
    by_name: HashMap<(&'a str, &'a str, &'a str), &'a Quantity>,
    /// The variants in the order of their first appearance.
    variants: Vec<&'a str>,
    /// Whether all runs have measured the same.
    is_repeated: bool,
}

impl<'a> Index<'a> {
    fn new(quantities: &'a [&'a Quantity]) -> Self {
        let is_repeated = are_repeated(quantities.iter().copied());
        let mut index = Self { quantities, by_name: HashMap::new(), variants: Vec::new(), is_repeated };
        for quantity in quantities.iter().copied() {
            let variant = quantity.variant.as_str();
            index.by_name.entry((quantity.plain(), variant, quantity.measure.as_str())).or_insert(quantity);
            if !index.variants.contains(&variant) {
                index.variants.push(variant);
            }
        }
        index
    }

    /// The subjects to compare: first flows, then the links that are used most.
    fn subjects(&self, [flows, most_links]: [usize; 2]) -> Vec<&'a str> {
        let mut subjects: Vec<&str> = Vec::new();
        let mut of_variants: HashMap<&str, BTreeSet<&str>> = HashMap::new();
        let mut used: BTreeMap<&str, f64> = BTreeMap::new();
        for quantity in self.quantities {
            let subject = quantity.plain();
            if !of_variants.contains_key(subject) {
                subjects.push(subject);
            }
            of_variants.entry(subject).or_default().insert(&quantity.variant);
            if quantity.measure == "utilisation" {
                let most = used.entry(subject).or_insert(0.0);
                *most = quantity.mean.max(*most);
            }
        }
        let used = |subject: &str| used.get(subject).copied().unwrap_or(0.0);
        let (mut links, mut chosen): (Vec<&str>, Vec<&str>) =
            subjects.iter().partition(|name| name.starts_with("link "));
        links.sort_by(|a, b| used(b).total_cmp(&used(a)));
        // Subjects that all variants have come first: classes may differ between configurations where flows do not.
        chosen.sort_by_key(|subject| of_variants.get(*subject).map_or(0, BTreeSet::len) < self.variants.len());
        chosen.truncate(flows);
        chosen.extend(links.into_iter().take(most_links));
        chosen
    }

    /// The quantity of each variant.
    fn cells(&self, subject: &str, measure: &str) -> Vec<Option<&'a Quantity>> {
        self.variants.iter().map(|variant| self.by_name.get(&(subject, *variant, measure)).copied()).collect()
    }

    fn estimate(&self, quantity: &Quantity) -> Estimate {
        let estimate = quantity.estimate();
        if self.is_repeated { estimate.repeated() } else { estimate }
    }

    /// The group of a subject, with a row for each variant that has it, by all of its measures if `is_whole` is set.
    fn group(&self, subject: &str, is_whole: bool) -> Group {
        let mut group = Group { name: subject.to_owned(), ..Group::default() };
        group.rows = self.variants.iter().map(|name| Row { name: (*name).to_owned(), cells: Vec::new() }).collect();
        for alternatives in MEASURES {
            let found = alternatives.iter().map(|(name, better)| (name, better, self.cells(subject, name)));
            let Some((name, better, cells)) = found.into_iter().find(|(.., cells)| cells.iter().any(Option::is_some))
            else {
                continue;
            };
            let unit = cells.iter().flatten().next().map_or("", |quantity| quantity.unit);
            group.measures.push(Measure::new(*name, unit, *better));
            for (row, cell) in group.rows.iter_mut().zip(cells) {
                row.cells.push(cell.map(|found| self.estimate(found)));
            }
        }
        if !is_whole {
            group.rows.retain(|row| row.cells.iter().any(Option::is_some));
        }
        for quantity in self.quantities.iter().filter(|quantity| quantity.plain() == subject) {
            let (name, is_named) = (quantity.measure.as_str(), |measure: &Measure| measure.name == quantity.measure);
            if group.measures.iter().any(is_named) || group.others.iter().any(|(measure, _)| is_named(measure)) {
                continue;
            }
            let cell =
                |row: &Row| self.by_name.get(&(subject, row.name.as_str(), name)).map(|found| self.estimate(found));
            let cells: Vec<Option<Estimate>> = group.rows.iter().map(cell).collect();
            group.others.push((Measure::new(name, quantity.unit, better(name)), cells));
        }
        if is_whole {
            for (measure, cells) in std::mem::take(&mut group.others) {
                group.measures.push(measure);
                group.rows.iter_mut().zip(cells).for_each(|(row, cell)| row.cells.push(cell));
            }
            group.rows.retain(|row| row.cells.iter().any(Option::is_some));
        }
        for at in 0..group.measures.len() {
            over_common_runs(group.rows.iter_mut().filter_map(|row| row.cells.get_mut(at)?.as_mut()));
        }
        for (_, cells) in &mut group.others {
            over_common_runs(cells.iter_mut().flatten());
        }
        // Without variants the row has the name of the subject.
        if let [row] = group.rows.as_mut_slice()
            && row.name.is_empty()
        {
            row.name = std::mem::take(&mut group.name);
        }
        group
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::look::Look;

    /// The measures of a call and of a handshake have an answer where a look asks for them, and what has none is said to have none.
    #[test]
    fn measures_that_are_asked_for_have_a_best_or_a_reason() {
        let names =
            ["R factor up lowest", "late", "not played", "mouth to ear", "connect p50", "timeouts", "sent", "goodput"];
        let of = |variant: &'static str, by: f64| {
            names.map(|measure| Quantity {
                values: (1..=6).map(|seed| Some(by * f64::from(10 * seed + seed % 3))).collect(),
                seeds: (1..=6).collect(),
                ..Quantity::of_one_run(variant, "flow call", measure, "1", by * 36.0)
            })
        };
        let all = compared("", &[of("fifo", 2.0), of("codel", 1.0)].concat());
        let said = |measure: &str| {
            let look = Look { quantities: vec![format!("{measure} of flow call")], ..Look::page() };
            let part = look.comparison(&all).expect("it is measured");
            (part.sentences(), part.unjudged())
        };
        for measure in &names[..6] {
            let (sentences, unjudged) = said(measure);
            let (best, ends) = if measure.starts_with('R') { ("fifo", "most") } else { ("codel", "least") };
            let begin = format!("{measure} of flow call: {best} has the {ends}, ");
            assert!(sentences.len() == 1 && sentences[0].starts_with(&begin), "{sentences:?}");
            assert_eq!(unjudged, None);
        }
        let neither = "Nobody is the best by sent: neither more nor less of it is better.";
        assert_eq!(said("sent"), (Vec::new(), Some(neither.to_owned())));
    }
}
