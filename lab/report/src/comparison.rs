//! A comparison of several variants by their measures, in words, as a figure and as a table.

mod estimate;

pub(crate) use self::estimate::over_common_runs;
pub use self::estimate::{Estimate, bin, of_fewer};
use crate::columns::{self, Column};
use crate::judgement::Family;
use crate::verdict::Verdict;
use tidegate_display::Table;
use tidegate_display::{Alike, digits, human_known, known, unit_of, with_unit};
use tidegate_metrics::MARGIN;

/// A comparison of variants, with a group for each subject.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct Comparison {
    /// The title, in one line.
    pub title: String,
    /// The groups.
    pub groups: Vec<Group>,
    /// The tests that are stated together with those of these groups, if it is the part of a comparison that was planned as a whole.
    pub(crate) planned: Option<Family>,
}

impl Comparison {
    /// Creates a comparison.
    pub fn new(title: impl Into<String>, groups: Vec<Group>) -> Self {
        Self { title: title.into(), groups, planned: None }
    }
    /// Whether it is the part of a comparison that was planned as a whole.
    pub(crate) fn is_planned(&self) -> bool {
        self.planned.is_some()
    }
    /// Whether it has a measure of a subject.
    pub fn has(&self, measure: &str, subject: &str) -> bool {
        let mut of_subject = self.groups.iter().filter(|group| group.name == subject);
        of_subject.any(|group| group.measures.iter().any(|of| of.name == measure))
    }
    /// Its quantities: the name of each measure and that of its group.
    pub fn quantities(&self) -> Vec<(&str, String)> {
        let measures = self.groups.iter().flat_map(|group| group.measures.iter().map(move |of| (group, of)));
        measures.map(|(group, of)| (of.name.as_str(), group.name.clone())).collect()
    }
}

/// The measurements of one subject, such as a flow, a link or a class.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct Group {
    /// The subject; empty if there is only one.
    pub name: String,
    /// The measures.
    pub measures: Vec<Measure>,
    /// A row for each variant.
    pub rows: Vec<Row>,
    /// The other measures, with the value of each row. They are shown where a look asks for them by name.
    pub others: Vec<(Measure, Vec<Option<Estimate>>)>,
}

/// A measured quantity.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Measure {
    /// Its name.
    pub name: String,
    /// Its unit, as in [`tidegate_display::human`].
    pub unit: String,
    /// The direction in which values are better.
    pub better: Better,
}

/// The direction in which values are better.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Better {
    /// Smaller values are better: delays, losses.
    Less,
    /// Greater values are better: rates, fairness.
    More,
    /// No value is better than another.
    Neither,
}

/// The values of one variant.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct Row {
    /// Its name.
    pub name: String,
    /// The value of each measure, if it was measured.
    pub cells: Vec<Option<Estimate>>,
}

impl Better {
    /// The remark behind the name of a measure.
    pub(crate) fn remark(self) -> &'static str {
        match self {
            Self::Less => " (less is better)",
            Self::More => " (more is better)",
            Self::Neither => "",
        }
    }
}

impl Measure {
    /// Creates a measure.
    pub fn new(name: impl Into<String>, unit: impl Into<String>, better: Better) -> Self {
        Self { name: name.into(), unit: unit.into(), better }
    }
    /// Whether it is a mean opinion score, on a scale from 1 to 5.
    pub(crate) fn is_mos(&self) -> bool {
        self.name.starts_with("MOS")
    }
    /// Formats a mean with the unit, for a sentence: with no more than four digits, and none that its interval does not justify but the first
    /// three, since pairs of runs tell means apart that are within each other's intervals.
    pub(crate) fn mean(&self, of: &Estimate) -> String {
        let (scale, unit) = unit_of(of.mean, &self.unit);
        let half = of.half.map(|half| half.min(of.mean.abs() / 10.0) / scale);
        let (mean, _) = known(of.mean / scale, half, bin(&self.name));
        with_unit(digits(mean.parse().unwrap_or(of.mean / scale)), unit)
    }
    /// Formats a value with the unit.
    pub(crate) fn value(&self, value: f64) -> String {
        human_known(value, None, bin(&self.name), unit_of(value, &self.unit))
    }
}

/// An order of two variants in a measure that a comparison states.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Stated {
    /// The flow, link or class.
    pub subject: String,
    /// The measure.
    pub measure: String,
    /// The variant that has less.
    pub less: String,
    /// The variant that has more.
    pub more: String,
}

/// Whether one of the variants has the mean of what it completed alone, which is not tested.
pub(crate) fn is_of_completed(ranked: &[(&str, &Estimate)]) -> bool {
    ranked.iter().any(|(_, estimate)| estimate.is_of_completed)
}

/// The names in the order of their first appearance, each once.
pub(crate) fn each_once<'a>(names: impl Iterator<Item = &'a str>) -> Vec<&'a str> {
    let mut all: Vec<&str> = Vec::new();
    for name in names {
        if !all.contains(&name) {
            all.push(name);
        }
    }
    all
}

/// Whether a name has all words of `text`, as `delay up p99` has those of `delay p99`. A colon or a comma may end a word, and case does not
/// matter.
pub(crate) fn has_words(name: &str, text: &str) -> bool {
    let (name, text) = (name.to_lowercase(), text.to_lowercase());
    let words = |text| str::split_whitespace(text).map(|word| word.trim_end_matches([':', ',']));
    words(&text).next().is_some() && words(&text).all(|word| words(&name).any(|of_name| of_name == word))
}

impl Group {
    /// Appends the rows of a group that has the same measures.
    pub(crate) fn append(&mut self, group: Self) {
        let (mine, whole) = (self.rows.len(), self.rows.len() + group.rows.len());
        self.rows.extend(group.rows);
        for (measure, cells) in group.others {
            let at = self.others.iter().position(|(known, _)| *known == measure).unwrap_or_else(|| {
                self.others.push((measure, Vec::new()));
                self.others.len() - 1
            });
            self.others[at].1.resize(mine, None);
            self.others[at].1.extend(cells);
        }
        self.others.iter_mut().for_each(|(_, cells)| cells.resize(whole, None));
    }

    /// Appends the measures of a part of the same group, unless it has them.
    pub(crate) fn append_measures(&mut self, part: Self) {
        for (at, measure) in part.measures.iter().enumerate() {
            if self.measures.contains(measure) {
                continue;
            }
            self.measures.push(measure.clone());
            for (row, of_part) in self.rows.iter_mut().zip(&part.rows) {
                row.cells.push(of_part.cells.get(at).cloned().flatten());
            }
        }
    }

    /// The group with those of its other measures that a text of `wanted` means: the one with that name, or else all that have its words.
    pub(crate) fn with_others(&self, wanted: &[String]) -> Self {
        let mut all = self.clone();
        for text in wanted {
            let is_named = |measure: &Measure| measure.name.eq_ignore_ascii_case(text);
            let is_exact = self.measures.iter().chain(self.others.iter().map(|(measure, _)| measure)).any(is_named);
            let is_meant =
                |measure: &Measure| if is_exact { is_named(measure) } else { has_words(&measure.name, text) };
            let is_new = |measure: &Measure| !all.measures.contains(measure);
            let found = (0..self.others.len()).filter(|n| is_meant(&self.others[*n].0) && is_new(&self.others[*n].0));
            let chosen: Vec<usize> = found.collect();
            for (measure, cells) in chosen.into_iter().map(|n| &self.others[n]) {
                all.measures.push(measure.clone());
                all.rows.iter_mut().zip(cells).for_each(|(row, cell)| row.cells.push(cell.clone()));
            }
        }
        all
    }

    /// Whether any measure distinguishes better from worse values. Otherwise there is no answer.
    pub(crate) fn is_judged(&self) -> bool {
        self.measures.iter().any(|measure| measure.better != Better::Neither)
    }

    /// The rows that have reached this measure, with the best first.
    pub(crate) fn ranked<'a>(&'a self, at: usize) -> Vec<(&'a str, &'a Estimate)> {
        let measured = |row: &'a Row| Some((row.name.as_str(), row.cells.get(at)?.as_ref()?));
        let mut rows: Vec<(&str, &Estimate)> =
            self.rows.iter().filter_map(measured).filter(|(_, cell)| cell.is_reached()).collect();
        if self.measures[at].better == Better::More {
            rows.sort_by(|a, b| b.1.mean.total_cmp(&a.1.mean));
        } else {
            rows.sort_by(|a, b| a.1.mean.total_cmp(&b.1.mean));
        }
        rows
    }

    /// The rows that are told apart by a measure: those of [`ranked`](Self::ranked), and those that reached it in some runs. The tests
    /// say who is the best of them; a single run that did not end does not make a variant the worst.
    pub(crate) fn judged(&self, at: usize) -> Vec<(&str, &Estimate)> {
        let mut rows = self.ranked(at);
        let open = self.rows.iter().filter_map(|row| Some((row.name.as_str(), row.cells.get(at)?.as_ref()?)));
        rows.extend(open.filter(|(_, cell)| cell.is_partly_reached()));
        rows
    }

    /// The variants that are perhaps the best by a measure, from the best mean to the worst. None are if no variant is told apart from
    /// another.
    pub(crate) fn best(&self, at: usize, family: &Family) -> Vec<&str> {
        let (ranked, judged) = (self.ranked(at), self.judged(at));
        if self.measures[at].better == Better::Neither || judged.len() < 2 {
            return Vec::new();
        }
        match self.verdict(at, &judged, family) {
            Some(verdict) if verdict.is_open() => Vec::new(),
            Some(verdict) => verdict.candidates.iter().map(|place| judged[*place].0).collect(),
            None if ranked.len() < 2 => Vec::new(),
            None if is_of_completed(&ranked) || ranked.iter().any(|(_, estimate)| estimate.is_untested()) => Vec::new(),
            None => ranked.iter().filter(|other| other.1.mean == ranked[0].1.mean).map(|other| other.0).collect(),
        }
    }

    /// The members of [`best`](Self::best) that runs do not tell apart from the best: they may be better or worse.
    pub(crate) fn perhaps(&self, at: usize, family: &Family) -> Vec<&str> {
        let judged = self.judged(at);
        let verdict = self.verdict(at, &judged, family).filter(|verdict| !verdict.is_open());
        verdict.map_or(Vec::new(), |verdict| verdict.perhaps().into_iter().map(|place| judged[place].0).collect())
    }

    /// How the variants stand to the best by a measure, by their places in `ranked`.
    pub(crate) fn verdict(&self, at: usize, ranked: &[(&str, &Estimate)], family: &Family) -> Option<Verdict> {
        let estimates: Vec<&Estimate> = ranked.iter().map(|(_, estimate)| *estimate).collect();
        let verdict = Verdict::of(&estimates, self.measures[at].better, family)?;
        let best = ranked[verdict.best].0;
        let leads_open = self.orders_of_open(at, family).iter().any(|[less, _]| *less == best);
        Some(Verdict { leads_open, ..verdict })
    }

    /// The orders of all pairs of variants that are told apart and not equal within 2 %; without tests, that of the best and the worst.
    fn stated(&self, at: usize, family: &Family) -> Vec<Stated> {
        let (measure, ranked) = (&self.measures[at], self.ranked(at));
        if measure.better == Better::Neither {
            return Vec::new();
        }
        let orders = match self.verdict(at, &ranked, family) {
            Some(verdict) => verdict.orders,
            None if ranked.len() < 2 || !self.differs(at) || is_of_completed(&ranked) => Vec::new(),
            None => vec![[0, ranked.len() - 1]],
        };
        let order = |[less, more]: [&str; 2]| Stated {
            subject: self.name.clone(),
            measure: measure.name.clone(),
            less: less.to_owned(),
            more: more.to_owned(),
        };
        let of_reached = |[better, worse]: [usize; 2]| {
            let (better, worse) = (ranked[better].0, ranked[worse].0);
            order(if measure.better == Better::More { [worse, better] } else { [better, worse] })
        };
        orders.into_iter().map(of_reached).chain(self.orders_of_open(at, family).into_iter().map(order)).collect()
    }

    /// The measure whose answer comes first: the first one that tells variants apart whose means differ by more than [`MARGIN`], or else
    /// the first one that has an answer.
    pub(crate) fn headline(&self, family: &Family) -> Option<usize> {
        let answered = || (0..self.measures.len()).filter(|at| self.sentence(*at, family).is_some());
        answered().find(|at| self.differs(*at) && !self.best(*at, family).is_empty()).or_else(|| answered().next())
    }

    /// Whether the means of a measure differ by more than [`MARGIN`].
    pub(crate) fn differs(&self, at: usize) -> bool {
        let ranked = self.ranked(at);
        let (Some((_, best)), Some((_, worst))) = (ranked.first(), ranked.last()) else { return false };
        (best.mean - worst.mean).abs() > MARGIN * best.mean.abs().max(worst.mean.abs())
    }

    /// Describes the only variant in words.
    fn description(&self) -> Option<String> {
        let [row] = self.rows.as_slice() else { return None };
        let cells = self.measures.iter().zip(&row.cells);
        let said: Vec<String> =
            cells.filter_map(|(m, cell)| Some(format!("{} {}", m.name, m.mean(cell.as_ref()?)))).collect();
        let name = if self.name.is_empty() { &row.name } else { &self.name };
        (!said.is_empty()).then(|| format!("{name}: {}", said.join(", ")))
    }
}

/// A number, or the ends of a range of numbers.
pub(crate) fn from_to(least: usize, most: usize) -> String {
    if least == most { most.to_string() } else { format!("{least} to {most}") }
}

/// States of how many runs numbers are, each of those in `runs`, and what stands behind `±` if some have an interval: the
/// last parameter says whether some of a single run have none, and whether any have none. `None` without numbers.
pub fn precision(
    runs: impl Iterator<Item = usize> + Clone,
    has_halves: bool,
    [single, equal]: [bool; 2],
) -> Option<String> {
    let of = match (runs.clone().min()?, runs.max()?) {
        (1, 1) => "Values of one run".to_owned(),
        (least, most) => format!("Means of {} runs", from_to(least, most)),
    };
    let without = match (single, equal) {
        _ if !has_halves => "",
        (true, _) => "; a value without it is of a single run, or equal in all",
        (false, true) => "; a value without it is equal in all",
        (false, false) => "",
    };
    let half = if has_halves { "; \u{b1} is half the width of a 95 % interval of the mean" } else { "" };
    Some(format!("{of}{half}{without}."))
}

impl Comparison {
    /// All values.
    pub(crate) fn cells(&self) -> impl Iterator<Item = &Estimate> + Clone {
        self.groups.iter().flat_map(|group| &group.rows).flat_map(|row| row.cells.iter().flatten())
    }
    /// States of how many runs the means are, behind that word; empty if they are values of one run, or that is not known.
    pub(crate) fn of_runs(&self) -> String {
        let runs = || self.cells().map(Estimate::runs);
        match (runs().min(), runs().max()) {
            _ if self.cells().any(Estimate::is_untested) => String::new(),
            (Some(least), Some(most)) if most > 1 => format!(" of {} runs", from_to(least, most)),
            _ => String::new(),
        }
    }
    /// States of how many runs its values are, and what stands behind `±`.
    pub(crate) fn precision(&self) -> Option<String> {
        let cells = || self.cells();
        if cells().any(Estimate::is_untested) {
            return Some("\u{b1} is half the width of a 95 % interval of the mean.".to_owned());
        }
        let others = || cells().filter(|cell| cell.is_reached() && cell.half.is_none_or(|half| half <= 0.0));
        let single = others().any(|cell| cell.values.len() < 2);
        let has_halves = cells().any(|cell| cell.half.is_some_and(|half| half > 0.0));
        precision(cells().map(Estimate::runs), has_halves, [single, others().next().is_some()])
    }
    /// The number of runs that differ in nothing, if there are such.
    pub fn repeated(&self) -> Option<usize> {
        let cells = self.cells();
        cells.filter(|cell| cell.is_repeated).map(|cell| cell.values.len()).max()
    }
    /// The answer in sentences: one for each measure of each group, if the measure has an answer.
    pub fn sentences(&self) -> Vec<String> {
        self.answers_by(|group, _| (0..group.measures.len()).collect()).into_iter().flatten().collect()
    }
    /// States by which measures no variant is the best, because no value of them is better than another; `None` if there are none.
    pub fn unjudged(&self) -> Option<String> {
        let groups = self.groups.iter().filter(|group| group.rows.len() > 1 && !group.name.is_empty());
        let neither = groups.flat_map(|group| &group.measures).filter(|measure| measure.better == Better::Neither);
        let names = each_once(neither.map(|measure| measure.name.as_str()));
        let (last, others) = names.split_last()?;
        let all = if others.is_empty() { (*last).to_owned() } else { format!("{} or {last}", others.join(", ")) };
        Some(format!("Nobody is the best by {all}: neither more nor less of it is better."))
    }
    /// The orders of variants that the sentences can state: of each measure of each subject all that runs tell apart.
    pub fn stated(&self) -> Vec<Stated> {
        let family = self.family();
        let named = self.groups.iter().filter(|group| !group.name.is_empty());
        let of_group = |group: &Group| (0..group.measures.len()).flat_map(|at| group.stated(at, &family)).collect();
        named.flat_map::<Vec<Stated>, _>(of_group).collect()
    }
    /// States for each group which variant is the best by its headline. Empty without variants.
    pub fn summary_of_variants(&self) -> Vec<String> {
        let family = self.family();
        let first = |group: &Group| group.sentence(group.headline(&family)?, &family);
        self.groups.iter().filter(|group| group.rows.len() > 1 && !group.name.is_empty()).filter_map(first).collect()
    }
    /// The sentences of each group: that of its headline first, then the others in the order of its measures.
    pub(crate) fn answers(&self) -> Vec<Vec<String>> {
        self.answers_by(|group, family| {
            let headline = group.headline(family);
            headline.into_iter().chain((0..group.measures.len()).filter(|at| Some(*at) != headline)).collect()
        })
    }
    /// The sentences of each group, for the measures in the order that `order` returns.
    fn answers_by(&self, order: impl Fn(&Group, &Family) -> Vec<usize>) -> Vec<Vec<String>> {
        let family = self.family();
        let of_group = |group: &Group| match group.description() {
            Some(only) => vec![only],
            None => order(group, &family).into_iter().filter_map(|at| group.sentence(at, &family)).collect(),
        };
        self.groups.iter().filter(|group| group.is_judged()).map(of_group).filter(|answer| !answer.is_empty()).collect()
    }

    /// A table of all values, with a row for each variant of each group, and a column for each measure, in one unit and with equally many decimals.
    pub fn table(&self) -> Table {
        let mut names: Vec<(&str, Alike<'_>)> = Vec::new();
        for measure in self.groups.iter().flat_map(|group| &group.measures) {
            if !names.iter().any(|(name, _)| *name == measure.name) {
                let cells = self.groups.iter().flat_map(|group| {
                    let at = group.measures.iter().position(|other| other.name == measure.name);
                    at.into_iter().flat_map(|at| group.ranked(at))
                });
                let values: Vec<_> = cells.map(|(_, estimate)| (estimate.mean, estimate.half)).collect();
                names.push((&measure.name, Alike::of(&values, bin(&measure.name), &measure.unit)));
            }
        }
        let heads: Vec<String> = names.iter().map(|(name, _)| format!(">{name}")).collect();
        let mut table =
            Table::new(self.title.clone(), ["of", "variant"].into_iter().chain(heads.iter().map(String::as_str)));
        for group in &self.groups {
            for row in &group.rows {
                let cell = |(name, alike): &(&str, Alike<'_>)| {
                    let at = group.measures.iter().position(|measure| measure.name == *name)?;
                    Some(row.cells.get(at)?.as_ref()?.text(alike))
                };
                let cells = names.iter().map(|name| cell(name).unwrap_or_default());
                let cells = [group.name.clone(), row.name.clone()].into_iter().chain(cells);
                table.row(cells.map(Into::into));
            }
        }
        table
    }

    /// The mean of a measure over the runs that all variants have, half its interval and the number of these runs, if others have a value besides.
    pub fn over_common(&self, subject: &str, variant: &str, measure: &str) -> Option<(f64, Option<f64>, usize)> {
        let group = self.groups.iter().find(|group| group.name == subject)?;
        let at = group.measures.iter().position(|known| known.name == measure)?;
        let cell = group.rows.iter().find(|row| row.name == variant)?.cells.get(at)?.as_ref()?;
        Some((cell.mean, cell.half, cell.common?))
    }

    /// The numbers as columns, with a row for each mean and its interval or, if `of_runs` is set, for each run.
    pub(crate) fn columns(&self, of_runs: bool) -> columns::Table {
        let mut texts: [Vec<Option<String>>; 4] = Default::default();
        // Runs are paired by their seeds, and some variants have a value in fewer of them.
        let cells = || self.groups.iter().flat_map(|group| &group.rows).flat_map(|row| &row.cells).flatten();
        let has_seeds = cells().all(|cell| cell.seeds.len() == cell.values.len());
        let run_is = if has_seeds { "seed" } else { "run" };
        let (mut run, mut value, mut half) = (Vec::new(), Vec::new(), Vec::new());
        for (group, row) in self.groups.iter().flat_map(|group| group.rows.iter().map(move |row| (group, row))) {
            for (measure, cell) in group.measures.iter().zip(&row.cells) {
                let Some(cell) = cell else { continue };
                let means = std::slice::from_ref(&cell.mean);
                for (n, number) in if of_runs { &cell.values } else { means }.iter().enumerate() {
                    let names = [&group.name, &row.name, &measure.name, &measure.unit];
                    texts.iter_mut().zip(names).for_each(|(column, name)| column.push(Some(name.clone())));
                    run.push(cell.seeds.get(n).copied().filter(|_| has_seeds).or(Some(n as u64 + 1)));
                    value.push(Some(*number));
                    half.push(cell.half);
                }
            }
        }
        let mut table = columns::Table::default();
        for (name, column) in ["of", "variant", "measure", "unit"].into_iter().zip(texts) {
            table = table.with(name, Column::Text(column));
        }
        match of_runs {
            true => table.with(run_is, Column::Integer(run)).with("value", Column::Number(value)),
            false => table.with("mean", Column::Number(value)).with("half_width_95", Column::Number(half)),
        }
    }
}

#[cfg(test)]
pub(crate) mod tests;
