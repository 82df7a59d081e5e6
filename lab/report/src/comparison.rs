//! A comparison of several variants by their measures, in words, as a figure and as a table.

use crate::columns::{self, Column};
use crate::drawing::{Anchor, Drawing, Ink, Shape};
use crate::font::{fitted, room};
use crate::judgement::{Verdict, more_runs};
use crate::palette::{Pen, Pens};
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
    /// The seeds of these runs; empty if they have none.
    pub seeds: Vec<u64>,
}

impl From<f64> for Estimate {
    fn from(mean: f64) -> Self {
        Self { mean, ..Self::default() }
    }
}

impl Estimate {
    /// Creates an estimate. The values of the runs are kept if there are several.
    pub(crate) fn of_runs(mean: f64, half: Option<f64>, values: Vec<f64>) -> Self {
        Self { mean, half, values: if values.len() > 1 { values } else { Vec::new() }, seeds: Vec::new() }
    }
    /// The same with the seeds of its runs.
    #[must_use]
    pub(crate) fn with_seeds(mut self, seeds: Vec<u64>) -> Self {
        self.seeds = if seeds.len() == self.values.len() { seeds } else { Vec::new() };
        self
    }
    fn low(&self) -> f64 {
        self.mean - self.half.unwrap_or(0.0)
    }
    fn high(&self) -> f64 {
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
    fn value(&self, value: f64) -> String {
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
    fn ranked<'a>(&'a self, at: usize) -> Vec<(&'a str, &'a Estimate)> {
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
        let estimates: Vec<&Estimate> = ranked.iter().map(|(_, estimate)| *estimate).collect();
        let verdict = Verdict::of(&estimates, measure.better);
        let of_best = measure.value(best.1.mean);
        let mut worst = worst;
        let mut text = match &verdict {
            Some(verdict) if verdict.is_open(ranked.len()) => {
                let mut text = format!(
                    "{}{subject}: {} runs tell {} ({of_best}) apart from no other",
                    measure.name, verdict.runs, best.0
                );
                if let Some((more, from)) = verdict.more {
                    text += &format!("; about {more} more would tell it from {}", ranked[from].0);
                }
                return Some(text);
            }
            _ => format!("{}{subject}: {} has {ends}, {of_best}", measure.name, best.0),
        };
        if let Some(verdict) = verdict.filter(|verdict| !verdict.equal.is_empty()) {
            let equal: Vec<&str> = verdict.equal.iter().map(|place| ranked[*place].0).collect();
            text += &format!(", not told apart from {}", equal.join(", "));
            if let Some((more, from)) = verdict.more {
                let from = if equal.len() > 1 { format!(" from {}", ranked[from].0) } else { String::new() };
                text += &format!(" (about {} would tell it{from})", more_runs(more));
            }
            let told_apart = (0..ranked.len()).rev().find(|place| !verdict.equal.contains(place));
            worst = told_apart.map_or(worst, |place| &ranked[place]);
        }
        text += &format!("; {} has {}", worst.0, measure.value(worst.1.mean));
        let (small, great) = (best.1.mean.min(worst.1.mean), best.1.mean.max(worst.1.mean));
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

    /// The variants that are the best by a measure: the best and those that are not told apart from it. None are if no
    /// other is told apart from the best.
    fn best(&self, at: usize) -> Vec<&str> {
        let ranked = self.ranked(at);
        if self.measures[at].better == Better::Neither || ranked.len() < 2 {
            return Vec::new();
        }
        let estimates: Vec<&Estimate> = ranked.iter().map(|(_, estimate)| *estimate).collect();
        match Verdict::of(&estimates, self.measures[at].better) {
            Some(verdict) if verdict.is_open(ranked.len()) => Vec::new(),
            Some(verdict) => verdict.equal.iter().chain([&verdict.best]).map(|place| ranked[*place].0).collect(),
            None => ranked.iter().filter(|other| other.1.mean == ranked[0].1.mean).map(|other| other.0).collect(),
        }
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

pub(crate) const WIDTH: f64 = 900.0;
const ROW: f64 = 22.0;

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

    /// Draws the comparison with a row for each variant, a column for each measure, bars and 95 % intervals. `pens`
    /// assigns pens to the names of rows.
    pub fn drawing(&self, pens: &Pens) -> Drawing {
        let names = self.groups.iter().flat_map(|group| &group.rows).map(|row| room(&row.name, 12.0));
        let left = (names.fold(0.0, f64::max) + 30.0).clamp(70.0, 240.0);
        let mut drawing = Drawing { width: WIDTH, title: self.title.clone(), ..Drawing::default() };
        drawing.text((12.0, 24.0), Anchor::Start, 14.0, Ink::Text, self.title.as_str());
        let mut y = 38.0;
        for group in &self.groups {
            if !group.name.is_empty() {
                y += 20.0;
                drawing.text((12.0, y), Anchor::Start, 13.0, Ink::Text, fitted(&group.name, 13.0, WIDTH - 24.0));
            }
            y += 18.0;
            let column = (WIDTH - left - 12.0) / group.measures.len().max(1) as f64;
            for (at, measure) in group.measures.iter().enumerate() {
                let x = left + column * at as f64;
                let better = match measure.better {
                    Better::Less => " (less is better)",
                    Better::More => " (more is better)",
                    Better::Neither => "",
                };
                let whole = format!("{}{better}", measure.name);
                let fits = room(&whole, 11.0) < column - 8.0;
                let text = if fits { whole } else { fitted(&measure.name, 11.0, column - 8.0) };
                drawing.text((x, y), Anchor::Start, 11.0, Ink::Muted, text);
            }
            let best: Vec<Vec<&str>> = (0..group.measures.len()).map(|at| group.best(at)).collect();
            for row in &group.rows {
                y += ROW;
                drawing.text((12.0, y), Anchor::Start, 12.0, Ink::Text, fitted(&row.name, 12.0, left - 20.0));
                for (at, best) in best.iter().enumerate() {
                    let Some(estimate) = row.cells.get(at).and_then(Option::as_ref) else { continue };
                    let best = best.contains(&row.name.as_str());
                    let place = (left + column * at as f64, y);
                    group.bar(&mut drawing, (at, estimate), place, column, (pens.pen(&row.name), best));
                }
            }
            y += 8.0;
        }
        drawing.height = y + 12.0;
        drawing
    }
}

impl Group {
    /// Draws one value as a bar with its interval and its number.
    fn bar(
        &self,
        drawing: &mut Drawing,
        (at, estimate): (usize, &Estimate),
        (x, y): (f64, f64),
        column: f64,
        (pen, best): (Pen, bool),
    ) {
        let cells = || self.rows.iter().filter_map(|row| row.cells.get(at)?.as_ref());
        let most = cells().map(Estimate::high).fold(0.0_f64, f64::max);
        let text = self.measures[at].value(estimate.mean);
        // The space for numbers fits the widest of them with a mark behind it.
        let numbers = cells().map(|cell| room(&self.measures[at].value(cell.mean), 12.0)).fold(0.0, f64::max);
        let length = (column - numbers - 28.0).max(20.0);
        let scale = |value: f64| if most > 0.0 { (value / most).clamp(0.0, 1.0) * length } else { 0.0 };
        let middle = y - 4.0;
        drawing.line((x, middle - 8.0), (x, middle + 8.0), 1.0, Ink::Muted);
        drawing.rectangle((x, middle - 6.0), scale(estimate.mean), 12.0, Ink::Curve(pen.colour));
        let whisker = |drawing: &mut Drawing, low: f64, high: f64, height: f64| {
            let (low, high) = (x + scale(low), x + scale(high));
            let lines = vec![
                vec![(low, middle), (high, middle)],
                vec![(low, middle - height), (low, middle + height)],
                vec![(high, middle - height), (high, middle + height)],
            ];
            drawing.shapes.push(Shape::Lines { lines, width: 1.2, ink: Ink::Text, dash: &[] });
        };
        if estimate.half.is_some() {
            whisker(drawing, estimate.low(), estimate.high(), 4.0);
        }
        // The best values of a column are marked.
        let text = if best { format!("{text} *") } else { text };
        drawing.text((x + length + 6.0, y), Anchor::Start, 12.0, if best { Ink::Text } else { Ink::Muted }, text);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn estimate(mean: f64, half: f64) -> Option<Estimate> {
        // Ten runs about the mean, none of which belongs to that of another variant.
        let values: Vec<f64> = (0..10).map(|n| mean + half * (f64::from(n) - 4.5) / 2.2).collect();
        Some(Estimate { mean, half: Some(half), values, ..Estimate::default() })
    }

    fn comparison() -> Comparison {
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
                "delay p99 of flow call: pie has the least, 12 ms, not told apart from codel (about 150 more runs would \
                 tell it); fifo has 100 ms, 8.3 times as much",
            ]
        );
        let mut wide = comparison();
        wide.groups[0].rows[0].cells[1] = estimate(20e6, 20e6);
        let said = &wide.sentences()[1];
        assert!(
            said.starts_with("delay p99 of flow call: 10 runs tell pie (12 ms) apart from no other; about "),
            "{said}"
        );
        // Where all are alike none is marked; otherwise the best and those that are not told apart from it.
        assert!(wide.groups[0].best(1).is_empty());
        let three = comparison();
        let mut marked = three.groups[0].best(1);
        marked.sort_unstable();
        assert_eq!(marked, ["codel", "pie"]);
        assert_eq!(
            comparison().method().as_deref(),
            Some(
                "Decided at 5 % by the means of 10 runs without common seeds (Welch's t), corrected for the 3 pairs of a measure (Holm)."
            )
        );
        // A single variant is described in words.
        wide.groups[0].rows.truncate(1);
        assert_eq!(wide.sentences(), ["flow call: goodput 5 Mbit/s, delay p99 20 ms"]);
    }

    #[test]
    fn bars_are_in_proportion_and_inside() {
        let drawing = comparison().drawing(&Pens::named(["fifo", "codel", "pie"].into_iter()));
        let bars: Vec<f64> = drawing
            .shapes
            .iter()
            .filter_map(|shape| match shape {
                Shape::Rectangle { width, .. } => Some(*width),
                _ => None,
            })
            .collect();
        assert_eq!(bars.len(), 6);
        assert_eq!(drawing.misplaced(), Vec::<String>::new());
        // Every second bar is a delay, of 100 and 13 ms.
        assert!((bars[1] / bars[3] - 100.0 / 13.0).abs() < 0.01, "{bars:?}");
        for shape in &drawing.shapes {
            let Shape::Lines { lines, .. } = shape else { continue };
            assert!(
                lines.iter().flatten().all(|(x, y)| (0.0..=WIDTH).contains(x) && (0.0..=drawing.height).contains(y))
            );
        }
    }
}
