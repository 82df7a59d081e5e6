//! The answer about the points of a sweep: at how many of them each variant is the best, and the values there.

use std::collections::{BTreeMap, BTreeSet};

use crate::bars::subject_of;
use crate::comparison::{Better, Comparison, Estimate, Group};
use crate::judgement::{Family, would_decide};
use crate::paper::{OPEN, Rows};
use crate::standing::Best;
use tidegate_display::Table;

/// A measure of a subject at the points of a sweep.
struct Quantity<'a> {
    measure: &'a str,
    subject: &'a str,
    better: Better,
    /// Its group at each point, and its place in it.
    at: Vec<(&'a Group, usize)>,
}

impl<'a> Quantity<'a> {
    /// States at how many points each variant is the best; `None` if nothing is better than another.
    fn sentence(&self, family: &Family) -> Option<String> {
        let mut found: Vec<(Best<'_>, usize)> = Vec::new();
        let mut places: BTreeMap<&str, usize> = BTreeMap::new();
        for (group, at) in &self.at {
            let best = match group.standing(*at, family) {
                // Which of them is ahead at a point matters less than who they are.
                Best::Several(first, open) => {
                    let mut all = [first, open].concat();
                    all.sort_unstable();
                    Best::Several(all, Vec::new())
                }
                other => other,
            };
            match found.iter_mut().find(|(known, _)| *known == best) {
                Some((_, count)) => *count += 1,
                None => found.push((best, 1)),
            }
            let ranked = group.ranked(*at);
            let last = ranked.len();
            ranked.into_iter().enumerate().for_each(|(place, (name, _))| *places.entry(name).or_default() += place);
            let open = group
                .rows
                .iter()
                .filter(|row| !row.cells.get(*at).is_some_and(|cell| cell.as_ref().is_some_and(Estimate::is_reached)));
            open.for_each(|row| *places.entry(&row.name).or_default() += last);
        }
        // Those that are named together are in the order of their means over all points.
        for (best, _) in &mut found {
            if let Best::Several(names, _) = best {
                names.sort_by_key(|name| places.get(name));
            }
        }
        if self.better == Better::Neither {
            return None;
        }
        found.sort_by(|a, b| b.1.cmp(&a.1).then_with(|| a.0.cmp(&b.0)));
        let (ends, all) = (if self.better == Better::More { "most" } else { "least" }, self.at.len());
        // The first winner has the verb.
        let first = found.iter().position(|(best, _)| matches!(best, Best::One(_) | Best::Several(..)));
        let said = |(n, (best, count)): (usize, &(Best<'_>, usize))| {
            let verb = if first == Some(n) { format!(" has the {ends}") } else { String::new() };
            let what = match best {
                Best::One(only) => format!("{only}{verb}"),
                Best::Only(only) => {
                    format!("{only} alone reaches it in all runs, and is not told apart from the others,")
                }
                Best::Several(names, _) => format!("{}{verb}", names.join(" or ")),
                Best::Alike => "no difference above 2 %".to_owned(),
                Best::Undecided => "undecided".to_owned(),
                Best::Nobody => "no variant reaches it in all runs".to_owned(),
                Best::Untested => "single runs decide nothing".to_owned(),
                Best::OfCompleted => "not tested, as not all was completed,".to_owned(),
            };
            match (n, *count == all) {
                (_, true) => format!("{what} at all {all} points"),
                (0, _) => format!("{what} at {count} of {all} points"),
                _ => format!("{what} at {count}"),
            }
        };
        let parts: Vec<String> = found.iter().enumerate().map(said).collect();
        let more = self.more_runs(family).map_or(String::new(), |more| format!("; {more}"));
        Some(format!("{} of {}: {}{more}", self.measure, self.subject, parts.join("; ")))
    }

    /// States how many more runs would decide who is the best at all points; `None` if that is decided, or nobody can say.
    fn more_runs(&self, family: &Family) -> Option<String> {
        let mut all: Vec<(u64, usize)> = Vec::new();
        for (group, at) in &self.at {
            let Some(verdict) = group.verdict(*at, &group.judged(*at), family) else { continue };
            if !verdict.doubtful().is_empty() {
                all.push((verdict.most_more?, verdict.runs));
            }
        }
        let (more, runs) = all.into_iter().max()?;
        Some(would_decide(more, runs, " at all points"))
    }

    /// The values as a table with a row for each point, and who is the best there. Adds what the latter may be to `marks`.
    fn table(&self, family: &Family, marks: &mut Marks) -> Option<Table> {
        let groups = self.at.iter().map(|(group, at)| {
            let all: Vec<usize> = (0..group.rows.len()).collect();
            crate::look::part(group, &all, &[*at])
        });
        let rows = Rows::grid_of(&Comparison::new("", groups.collect()))?;
        marks.add_numbers(&rows);
        let mut best = |(group, at): &(&'a Group, usize)| {
            let best = group.standing(*at, family);
            marks.add(&best);
            match best {
                Best::One(only) => only.to_owned(),
                Best::Only(only) => format!("({only})"),
                Best::Several(first, open) => {
                    let open = open.into_iter().map(|name| format!("{name}?"));
                    first.into_iter().map(str::to_owned).chain(open).collect::<Vec<_>>().join(" ")
                }
                Best::Alike => "alike".to_owned(),
                Best::Undecided => "?".to_owned(),
                Best::Nobody => OPEN.to_owned(),
                Best::OfCompleted => NOT_TESTED.to_owned(),
                Best::Untested => String::new(),
            }
        };
        let last = (self.better != Better::Neither).then(|| self.at.iter().map(&mut best).collect::<Vec<_>>());
        Some(rows.text(last))
    }
}

/// Stands in tables and maps for means that were not tested, because they leave out what was not completed.
pub(crate) const NOT_TESTED: &str = "n.t.";

/// The marks of the tables of a sweep that need an explanation, with it, if they are there.
#[derive(Default)]
struct Marks(BTreeSet<&'static str>);

impl Marks {
    /// The explanations, in the order in which they are stated.
    const ALL: [&str; 7] = [
        "n.r. (k/n): not reached in k of n runs",
        "best: a name alone is told apart from all others",
        "names together are equal within 2 % or, with ?, not told apart",
        "alike: all within 2 %",
        "? alone: undecided",
        "(in parentheses): alone in reaching it in all runs, and not told apart from all others",
        "n.t.: not tested, because these are means of what was completed, and not all was",
    ];

    fn add_numbers(&mut self, rows: &Rows) {
        self.0.extend(rows.has_open().then_some(Self::ALL[0]));
    }

    fn add(&mut self, best: &Best<'_>) {
        self.0.extend(match best {
            Best::One(_) => Some(Self::ALL[1]),
            Best::Several(..) => Some(Self::ALL[2]),
            Best::Alike => Some(Self::ALL[3]),
            Best::Undecided => Some(Self::ALL[4]),
            Best::Only(_) => Some(Self::ALL[5]),
            Best::OfCompleted => Some(Self::ALL[6]),
            Best::Nobody | Best::Untested => None,
        });
    }

    /// Explains them in one sentence; `None` if there are none.
    fn said(&self) -> Option<String> {
        let said: Vec<&str> = Self::ALL.into_iter().filter(|of| self.0.contains(of)).collect();
        (!said.is_empty()).then(|| format!("{}.", said.join("; ")))
    }
}

/// The answer at the points of a sweep.
#[derive(Clone, PartialEq, Debug)]
pub struct OverPoints {
    /// A sentence for each quantity: at how many points each variant is the best.
    pub sentences: Vec<String>,
    /// A table of the values of each quantity.
    pub tables: Vec<Table>,
    /// Says of how many runs the numbers of these tables are, and explains their signs; empty without tables.
    pub legend: String,
}

impl Comparison {
    /// Whether it is of the points of a sweep: subjects have a group at each.
    pub fn has_points(&self) -> bool {
        let mut groups = self.groups.iter().filter(|group| subject_of(&group.name) != group.name);
        groups.next().is_some_and(|first| groups.any(|other| subject_of(&other.name) == subject_of(&first.name)))
    }

    /// The answer at the points of a sweep: of each quantity at how many points each variant is the best, and a table of its values. If
    /// `headlines` is set, of each subject the measure alone that most often is the first to tell variants apart.
    pub fn over_points(&self, headlines: bool) -> OverPoints {
        let family = self.family();
        let mut all = self.quantities_over_points();
        if headlines {
            let first = self.headlines(&family);
            all.retain(|quantity| first.get(quantity.subject) == Some(&quantity.measure));
        }
        let sentences = all.iter().filter_map(|quantity| quantity.sentence(&family)).collect();
        let mut marks = Marks::default();
        let tables: Vec<Table> = all.iter().filter_map(|quantity| quantity.table(&family, &mut marks)).collect();
        let precision = self.precision().filter(|_| !tables.is_empty());
        let legend = precision.into_iter().chain(marks.said()).collect::<Vec<_>>().join(" ");
        OverPoints { sentences, tables, legend }
    }

    fn quantities_over_points(&self) -> Vec<Quantity<'_>> {
        let mut all: Vec<Quantity<'_>> = Vec::new();
        for group in &self.groups {
            for (at, measure) in group.measures.iter().enumerate() {
                let (name, subject) = (measure.name.as_str(), subject_of(&group.name));
                match all.iter_mut().find(|known| (known.measure, known.subject) == (name, subject)) {
                    Some(known) => known.at.push((group, at)),
                    None => {
                        all.push(Quantity { measure: name, subject, better: measure.better, at: vec![(group, at)] })
                    }
                }
            }
        }
        // A subject has its measures beside each other, which a point may lack.
        let mut order: Vec<&str> = Vec::new();
        for group in &self.groups {
            if !order.contains(&subject_of(&group.name)) {
                order.push(subject_of(&group.name));
            }
        }
        all.sort_by_key(|quantity| order.iter().position(|subject| *subject == quantity.subject));
        all
    }

    /// The measure of each subject that is the headline at the most points.
    fn headlines(&self, family: &Family) -> BTreeMap<&str, &str> {
        let mut counts: BTreeMap<&str, Vec<(&str, usize)>> = BTreeMap::new();
        for group in &self.groups {
            let Some(at) = group.headline(family) else { continue };
            let of_subject = counts.entry(subject_of(&group.name)).or_default();
            match of_subject.iter_mut().find(|(name, _)| *name == group.measures[at].name) {
                Some((_, count)) => *count += 1,
                None => of_subject.push((&group.measures[at].name, 1)),
            }
        }
        // Of equally many the one that comes first.
        let most = |(subject, names): (_, Vec<(_, usize)>)| {
            let (name, _) = names.into_iter().rev().max_by_key(|(_, count)| *count)?;
            Some((subject, name))
        };
        counts.into_iter().filter_map(most).collect()
    }
}

#[cfg(test)]
mod tests {
    use crate::columns::{Column, Table};
    use crate::simulation::{compared_by_all, unfinished};
    use crate::swept;

    /// Two queues at two rates with three seeds. At the first rate FIFO has not completed 2 of 30 transfers.
    fn table() -> Table {
        let mut texts: [Vec<Option<String>>; 4] = Default::default();
        let (mut seeds, mut values) = (Vec::new(), Vec::new());
        for (rate, queue) in
            ["5mbit", "20mbit"].into_iter().flat_map(|rate| ["fifo", "cake"].map(|queue| (rate, queue)))
        {
            let completed = if (rate, queue) == ("5mbit", "fifo") { 28.0 } else { 30.0 };
            let mean = if queue == "fifo" { 2e9 } else { 1e9 };
            for seed in 1..=3_u64 {
                // Differences that are all the same would not be tested by t.
                let times = mean + mean / 1e3 * (seed * seed) as f64;
                let open = if queue == "fifo" && rate == "5mbit" { f64::INFINITY } else { times };
                for (measure, value) in
                    [("completion mean", times), ("completion p99", open), ("opened", 30.0), ("completed", completed)]
                {
                    texts
                        .iter_mut()
                        .zip([rate, queue, measure, if value > 100.0 { "ns" } else { "1" }])
                        .for_each(|(column, text)| column.push(Some(text.to_owned())));
                    seeds.push(Some(seed));
                    values.push(Some(value));
                }
            }
        }
        let rows = seeds.len();
        let [rate, variant, measure, unit] = texts.map(Column::Text);
        Table::default()
            .with("link.1.rate", rate)
            .with("seed", Column::Integer(seeds))
            .with("variant", variant)
            .with("subject", Column::Text(vec![Some("flow short".to_owned()); rows]))
            .with("measure", measure)
            .with("value", Column::Number(values))
            .with("unit", unit)
    }

    /// The measure alone is chosen, and what was not completed is known all the same: the mean of the survivors is not tested.
    #[test]
    fn a_chosen_mean_keeps_what_was_not_completed() {
        let only = |measure: &str| vec![("measure".to_owned(), measure.to_owned())];
        let found = swept::quantities(&table(), &only("completion mean"), &[]).expect("a sweep");
        assert!(found.iter().all(|quantity| quantity.measure == "completion mean"), "{found:?}");
        let said = compared_by_all("", &found).over_points(false);
        assert_eq!(
            said.sentences,
            [
                "completion mean of flow short: cake has the least at 1 of 2 points; not tested, as not all was completed, at 1"
            ]
        );
        let best: Vec<&str> = said.tables[0].rows.iter().map(|row| row[3].text.as_str()).collect();
        assert_eq!(best, ["n.t.", "cake"]);
        let note = unfinished(found.iter()).expect("two of 30");
        assert!(note.contains("fifo: flow short 2 of 30 transfers at rate=5mbit. Percentiles"), "{note}");
    }

    /// The legend explains the signs that are there, and no others.
    #[test]
    fn the_legend_of_a_sweep_has_the_signs_of_its_tables() {
        let of = |measure: &str| {
            let only = vec![("measure".to_owned(), measure.to_owned())];
            compared_by_all("", &swept::quantities(&table(), &only, &[]).expect("a sweep")).over_points(false)
        };
        let said = of("completion p99");
        let best: Vec<&str> = said.tables[0].rows.iter().map(|row| row[3].text.as_str()).collect();
        assert_eq!(best, ["(cake)", "cake"]);
        assert_eq!(
            said.legend,
            "Means of 3 runs; \u{b1} is half the width of a 95 % interval of the mean. n.r. (k/n): not reached in k of n runs; best: a name alone is told \
             apart from all others; (in parentheses): alone in reaching it in all runs, and not told apart from all others."
        );
        let legend = of("completion mean").legend;
        assert!(legend.contains("n.t.: not tested") && !legend.contains("parentheses"), "{legend}");
    }
}
