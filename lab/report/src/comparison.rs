//! A comparison of several variants by their measures, in words, as a figure and as a table.

use crate::columns::{self, Column};
use tidegate_display::Table;
use tidegate_display::human;

/// A comparison of variants, with a group for each subject.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct Comparison {
    /// The title, in one line.
    pub title: String,
    /// The groups.
    pub groups: Vec<Group>,
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
}

/// A measured quantity.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Measure {
    /// Its name.
    pub name: String,
    /// Its unit, as in [`human`].
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

/// A mean with its confidence interval.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct Estimate {
    /// The mean.
    pub mean: f64,
    /// Half the width of the 95 % confidence interval; `None` with one run.
    pub half: Option<f64>,
    /// The values of the runs, if there are several.
    pub values: Vec<f64>,
}

impl From<f64> for Estimate {
    fn from(mean: f64) -> Self {
        Self { mean, ..Self::default() }
    }
}

impl Estimate {
    /// Creates an estimate. The values of the runs are kept if there are several.
    pub(crate) fn of_runs(mean: f64, half: Option<f64>, values: Vec<f64>) -> Self {
        Self { mean, half, values: if values.len() > 1 { values } else { Vec::new() } }
    }
    pub(crate) fn low(&self) -> f64 {
        self.mean - self.half.unwrap_or(0.0)
    }
    pub(crate) fn high(&self) -> f64 {
        self.mean + self.half.unwrap_or(0.0)
    }
    fn text(&self, unit: &str) -> String {
        match self.half {
            None => human(self.mean, unit),
            Some(half) => format!("{} \u{b1} {}", human(self.mean, unit), human(half, unit)),
        }
    }
}

impl Measure {
    /// Creates a measure.
    pub fn new(name: impl Into<String>, unit: impl Into<String>, better: Better) -> Self {
        Self { name: name.into(), unit: unit.into(), better }
    }
    /// Formats a value with the unit.
    pub(crate) fn value(&self, value: f64) -> String {
        human(value, &self.unit)
    }
}

/// Relative differences below this are not mentioned.
const SMALL: f64 = 0.02;

impl Group {
    /// Whether any measure distinguishes better from worse values. Otherwise there is no answer.
    pub(crate) fn is_judged(&self) -> bool {
        self.measures.iter().any(|measure| measure.better != Better::Neither)
    }

    /// The rows that have a value of this measure, with the best first.
    pub(crate) fn ranked<'a>(&'a self, at: usize) -> Vec<(&'a str, &'a Estimate)> {
        let measured = |row: &'a Row| Some((row.name.as_str(), row.cells.get(at)?.as_ref()?));
        let mut rows: Vec<(&str, &Estimate)> = self.rows.iter().filter_map(measured).collect();
        if self.measures[at].better == Better::More {
            rows.sort_by(|a, b| b.1.mean.total_cmp(&a.1.mean));
        } else {
            rows.sort_by(|a, b| a.1.mean.total_cmp(&b.1.mean));
        }
        rows
    }

    /// States which variant is the best by a measure, and by how much. Returns `None` if the measure has no answer.
    fn sentence(&self, at: usize) -> Option<String> {
        let measure = &self.measures[at];
        let subject = if self.name.is_empty() { String::new() } else { format!(" of {}", self.name) };
        let ranked = self.ranked(at);
        let (best, worst) = (ranked.first()?, ranked.last()?);
        if ranked.len() < 2 || measure.better == Better::Neither {
            return None;
        }
        let (small, great) = (best.1.mean.min(worst.1.mean), best.1.mean.max(worst.1.mean));
        if great - small <= SMALL * great {
            return Some(format!("{}{subject}: no difference above 2 %, {}", measure.name, measure.value(best.1.mean)));
        }
        let ends = match measure.better {
            Better::More => "the most",
            _ => "the least",
        };
        // Variants whose intervals overlap that of the best are as good as it.
        let overlap = |other: &Estimate| other.low() <= best.1.high() && best.1.low() <= other.high();
        let equal: Vec<&str> = ranked[1..].iter().filter(|(_, other)| overlap(other)).map(|(name, _)| *name).collect();
        let mut text = format!("{}{subject}: {} has {ends}, {}", measure.name, best.0, measure.value(best.1.mean));
        if equal.len() + 1 == ranked.len() {
            text += "; the intervals of all overlap, so that more runs are needed to tell them apart";
            return Some(text);
        }
        if !equal.is_empty() {
            text += &format!(", with an interval that overlaps that of {}", equal.join(", "));
        }
        text += &format!("; {} has {}", worst.0, measure.value(worst.1.mean));
        if small > 0.0 {
            let times = great / small;
            text += &match measure.better {
                _ if times < 1.1 => String::new(),
                Better::More => format!(", {times:.1} times less"),
                _ => format!(", {times:.1} times as much"),
            };
        }
        Some(text)
    }

    /// Describes the only variant in words.
    fn description(&self) -> Option<String> {
        let [row] = self.rows.as_slice() else { return None };
        let cells = self.measures.iter().zip(&row.cells);
        let said: Vec<String> =
            cells.filter_map(|(m, cell)| Some(format!("{} {}", m.name, m.value(cell.as_ref()?.mean)))).collect();
        let name = if self.name.is_empty() { &row.name } else { &self.name };
        (!said.is_empty()).then(|| format!("{name}: {}", said.join(", ")))
    }
}

impl Comparison {
    /// The answer in sentences: one for each measure of each group, if the measure has an answer.
    pub fn sentences(&self) -> Vec<String> {
        self.answers().into_iter().flatten().collect()
    }
    /// States which variant is the best by the first measure of each group that has an answer. Empty without variants.
    pub fn summary_of_variants(&self) -> Vec<String> {
        let first = |group: &Group| (0..group.measures.len()).find_map(|at| group.sentence(at));
        self.groups.iter().filter(|group| group.rows.len() > 1 && !group.name.is_empty()).filter_map(first).collect()
    }
    /// The sentences of each group, in the order of its measures.
    pub(crate) fn answers(&self) -> Vec<Vec<String>> {
        let of_group = |group: &Group| match group.description() {
            Some(only) => vec![only],
            None => (0..group.measures.len()).filter_map(|at| group.sentence(at)).collect(),
        };
        self.groups.iter().filter(|group| group.is_judged()).map(of_group).filter(|answer| !answer.is_empty()).collect()
    }

    /// A table of all values, with a row for each variant of each group.
    pub fn table(&self) -> Table {
        let mut names: Vec<&str> = Vec::new();
        for measure in self.groups.iter().flat_map(|group| &group.measures) {
            if !names.contains(&measure.name.as_str()) {
                names.push(&measure.name);
            }
        }
        let heads: Vec<String> = names.iter().map(|name| format!(">{name}")).collect();
        let mut table =
            Table::new(self.title.clone(), ["of", "variant"].into_iter().chain(heads.iter().map(String::as_str)));
        for group in &self.groups {
            for row in &group.rows {
                let cell = |name: &&str| {
                    let at = group.measures.iter().position(|measure| measure.name == **name)?;
                    Some(row.cells.get(at)?.as_ref()?.text(&group.measures[at].unit))
                };
                let cells = names.iter().map(|name| cell(name).unwrap_or_default());
                let cells = [group.name.clone(), row.name.clone()].into_iter().chain(cells);
                table.row(cells.map(Into::into));
            }
        }
        table
    }

    /// The numbers as columns, with a row for each mean and its interval or, if `of_runs` is set, for each run.
    pub(crate) fn columns(&self, of_runs: bool) -> columns::Table {
        let mut texts: [Vec<Option<String>>; 4] = Default::default();
        let (mut run, mut value, mut half) = (Vec::new(), Vec::new(), Vec::new());
        for (group, row) in self.groups.iter().flat_map(|group| group.rows.iter().map(move |row| (group, row))) {
            for (measure, cell) in group.measures.iter().zip(&row.cells) {
                let Some(cell) = cell else { continue };
                let means = std::slice::from_ref(&cell.mean);
                for (n, number) in if of_runs { &cell.values } else { means }.iter().enumerate() {
                    let names = [&group.name, &row.name, &measure.name, &measure.unit];
                    texts.iter_mut().zip(names).for_each(|(column, name)| column.push(Some(name.clone())));
                    run.push(Some(n as u64 + 1));
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
            true => table.with("run", Column::Integer(run)).with("value", Column::Number(value)),
            false => table.with("mean", Column::Number(value)).with("half_width_95", Column::Number(half)),
        }
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;

    fn estimate(mean: f64, half: f64) -> Option<Estimate> {
        Some(Estimate { mean, half: Some(half), values: vec![mean - half, mean, mean + half] })
    }

    pub(crate) fn comparison() -> Comparison {
        let row = |name: &str, cells: [Option<Estimate>; 2]| Row { name: name.into(), cells: cells.into() };
        let measures =
            vec![Measure::new("goodput", "bps", Better::More), Measure::new("delay p99", "ns", Better::Less)];
        let rows = vec![
            row("fifo", [estimate(5e6, 1e4), estimate(100e6, 5e6)]),
            row("codel", [estimate(5e6, 1e4), estimate(13e6, 2e6)]),
            row("pie", [estimate(4.99e6, 1e4), estimate(12e6, 2e6)]),
        ];
        Comparison { title: "Three".into(), groups: vec![Group { name: "flow call".into(), measures, rows }] }
    }

    #[test]
    fn the_answer_names_the_best_by_how_much_and_what_is_not_told_apart() {
        let said = comparison().sentences();
        assert_eq!(
            said,
            [
                "goodput of flow call: no difference above 2 %, 5 Mbit/s",
                "delay p99 of flow call: pie has the least, 12 ms, with an interval that overlaps that of codel; \
                 fifo has 100 ms, 8.3 times as much",
            ]
        );
        let mut wide = comparison();
        wide.groups[0].rows[0].cells[1] = estimate(20e6, 9e6);
        assert!(wide.sentences()[1].ends_with("more runs are needed to tell them apart"), "{:?}", wide.sentences());
        // A single variant is described in words.
        wide.groups[0].rows.truncate(1);
        assert_eq!(wide.sentences(), ["flow call: goodput 5 Mbit/s, delay p99 20 ms"]);
    }
}
