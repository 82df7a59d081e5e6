//! Writes the items of an experiment as a report, as columns for notebooks, as JSON and as a table.

use std::io::Write;

use serde::Serialize;
use tidegate_display::wrapped;
use tidegate_display::{digits, human};
use tidegate_report::columns::{self, Column};
use tidegate_report::comparison::{Better, Comparison, Estimate, Group, Measure, Row};
use tidegate_report::{Cell, Fold, Mood, Part, Plot, Report as Page, Section, Source, Table};

use super::figure::PAPER;
use super::item::{Basis, Counts};
use super::{Experiment, Item, Options, Verdict};
use crate::Failure;

#[derive(Serialize)]
struct Report<'a> {
    experiment: &'a str,
    version: &'a str,
    seed: u64,
    holds: bool,
    verdicts: Counts,
    items: &'a [Item],
}

fn bounds(item: &Item) -> String {
    match (item.low(), item.high()) {
        (None, None) => String::new(),
        (low, high) => format!("{} .. {}", number(low), number(high)),
    }
}

fn number(value: Option<f64>) -> String {
    value.map_or(String::new(), digits)
}

/// The relative difference between the measured value and the paper's, in percent.
fn deviation(item: &Item) -> String {
    match (item.paper, item.measured) {
        (Some(paper), Some(measured)) if paper != 0.0 => format!("{:+.1} %", (measured / paper - 1.0) * 100.0),
        _ => String::new(),
    }
}

fn verdict(item: &Item) -> &'static str {
    item.verdict().map_or("not here", Verdict::name)
}

/// The confidence interval of the mean as text.
fn interval(item: &Item) -> String {
    item.interval.map_or(String::new(), |(low, high)| format!("{} .. {}", digits(low), digits(high)))
}

/// The basis of the bound as text, or nothing.
fn source(item: &Item) -> String {
    item.basis().map_or(String::new(), Basis::line)
}

/// The note, preceded by the cause if the item deviates.
fn note(item: &Item) -> String {
    match item.finding().filter(|_| item.verdict() == Some(Verdict::Deviates)) {
        Some(finding) if item.note.is_empty() => format!("cause: {finding}"),
        Some(finding) => format!("cause: {finding}; {}", item.note),
        None => item.note.clone(),
    }
}

/// Whether no item contradicts its paper.
pub fn nothing_contradicted(items: &[Item]) -> bool {
    items.iter().all(|item| item.verdict() != Some(Verdict::Contradicted))
}

/// A table with a row for each item, the paper's value beside ours.
fn table(items: &[&Item]) -> Table {
    let heads =
        ["item", "what", "unit", ">paper", ">measured", ">95 %", ">deviation", ">bounds", "verdict", "source", "note"];
    let mut table = Table::new("The paper's values beside ours", heads)
        .optional(["note", "source", "95 %", "bounds", "deviation", "unit", "what"])
        .shorten("what", 24)
        .shorten("source", 24)
        .shorten("note", 24);
    for item in items {
        let mood = match item.verdict() {
            Some(Verdict::Reproduced) => Mood::Good,
            Some(Verdict::Contradicted) => Mood::Bad,
            Some(Verdict::Deviates) | None => Mood::Unsure,
            Some(Verdict::Information) => Mood::Plain,
        };
        table.row([
            item.id.as_str().into(),
            item.what.as_str().into(),
            item.unit.as_str().into(),
            number(item.paper).into(),
            number(item.measured).into(),
            interval(item).into(),
            deviation(item).into(),
            bounds(item).into(),
            Cell { text: verdict(item).to_owned(), mood },
            source(item).into(),
            note(item).into(),
        ]);
    }
    table
}

/// Summarises the verdicts in words.
fn said(items: &[Item]) -> String {
    let Counts { reproduced, deviates, contradicted, information, unmeasured } = Counts::of(items);
    let bounded = reproduced + deviates + contradicted;
    let mut text = format!("Of {bounded} items with bounds {reproduced} are as in the paper");
    for (count, what) in [
        (deviates, "are not, with a cause that is known"),
        (contradicted, "contradict it"),
        (unmeasured, "were not measured here"),
    ] {
        if count > 0 {
            text += &format!(", {count} {what}");
        }
    }
    if information > 0 {
        text += &format!(". {information} more have no bounds: they are information, and count for nothing");
    }
    text + "."
}

/// Groups `items` by name. The groups are in the order in which their names first appear.
fn grouped<'a, K: PartialEq>(
    items: impl IntoIterator<Item = &'a Item>,
    name: impl Fn(&'a Item) -> K,
) -> Vec<(K, Vec<&'a Item>)> {
    let mut groups: Vec<(K, Vec<&Item>)> = Vec::new();
    for item in items {
        let name = name(item);
        match groups.iter_mut().find(|(known, _)| *known == name) {
            Some((_, group)) => group.push(item),
            None => groups.push((name, vec![item])),
        }
    }
    groups
}

/// The part of the paper that an item belongs to, which is the first word of its id.
fn part(item: &Item) -> &str {
    item.id.split('.').next().unwrap_or_default()
}

/// Compares the parts of the paper by their verdicts.
fn verdicts(items: &[Item]) -> Comparison {
    let counts = ["reproduced", "deviates", "contradicted", "information"];
    let mut measures: Vec<Measure> = counts.iter().map(|name| Measure::new(*name, "", Better::Neither)).collect();
    measures.push(Measure::new("median distance", "%", Better::Neither));
    let row = |(name, items): (&str, Vec<&Item>)| {
        let Counts { reproduced, deviates, contradicted, information, .. } = Counts::of(items.iter().copied());
        let mut far: Vec<f64> = items
            .iter()
            .filter_map(|item| Some((item.measured? / item.paper.filter(|paper| *paper != 0.0)? - 1.0).abs() * 100.0))
            .collect();
        far.sort_by(f64::total_cmp);
        let counts = [reproduced, deviates, contradicted, information].map(|count| Some(Estimate::from(count as f64)));
        let median = far.get(far.len() / 2).copied().map(Estimate::from);
        Row { name: name.to_owned(), cells: counts.into_iter().chain([median]).collect() }
    };
    let rows = grouped(items, part).into_iter().map(row).collect();
    let group = Group { measures, rows, ..Group::default() };
    Comparison::new("Verdicts by the part of the paper", vec![group])
}

/// The maximum number of measures beside each other.
const BESIDE: usize = 5;

/// Compares the items that have several runs, with means and single runs, in one comparison for each part of the paper.
/// The last word of an id names the measure, and the word before it the subject, as in `dialup.red.response`.
fn over_seeds(items: &[Item]) -> Vec<Comparison> {
    /// The group, the row and the measure of an item.
    fn place(item: &Item) -> (&str, &str, (&str, &str)) {
        let (rest, measure) = item.id.rsplit_once('.').unwrap_or(("", &item.id));
        match rest.rsplit_once('.') {
            Some((group, row)) => (group, row, (measure, &item.unit)),
            None => (rest, measure, (&item.unit, &item.unit)),
        }
    }
    let groups_of = |(name, items): (&str, Vec<&Item>)| {
        let rows = grouped(items.iter().copied(), |item| place(item).1);
        let measures = grouped(items, |item| place(item).2);
        let estimate = |item: &&Item| Estimate {
            mean: item.measured.unwrap_or(f64::NAN),
            half: item.interval.map(|(low, high)| (high - low) / 2.0),
            values: item.runs.clone(),
            ..Estimate::default()
        };
        let group = |some: &[((&str, &str), Vec<&Item>)]| Group {
            name: name.to_owned(),
            measures: some.iter().map(|((name, unit), _)| Measure::new(*name, *unit, Better::Neither)).collect(),
            rows: rows
                .iter()
                .map(|(name, items)| Row {
                    name: (*name).to_owned(),
                    cells: some
                        .iter()
                        .map(|(measure, _)| items.iter().find(|item| place(item).2 == *measure).map(estimate))
                        .collect(),
                })
                .filter(|row| row.cells.iter().any(Option::is_some))
                .collect(),
            ..Group::default()
        };
        measures.chunks(BESIDE).map(group).collect::<Vec<_>>()
    };
    let several = items.iter().filter(|item| item.runs.len() > 1);
    grouped(several, part)
        .into_iter()
        .map(|(name, items)| {
            let groups = grouped(items, |item| place(item).0).into_iter().flat_map(groups_of).collect();
            Comparison::new(format!("{name}, over seeds"), groups)
        })
        .collect()
}

/// Tabulates how far the curves of a figure are from those of the paper, at the x values that both have. Returns
/// `None` if the paper has no curve in it.
fn deviations(plot: &Plot) -> Option<Table> {
    let heads = ["curve", ">places", ">mean distance", ">greatest distance", ">at"];
    let mut table = Table::new(format!("Distance from the paper: {}", plot.title), heads);
    for paper in &plot.curves {
        let Some(name) = paper.name.strip_suffix(PAPER) else { continue };
        let Some(ours) = plot.curves.iter().find(|curve| curve.name == name) else { continue };
        let far: Vec<(f64, f64)> = paper
            .points
            .iter()
            .filter(|(_, value)| *value != 0.0)
            .filter_map(|(x, value)| Some((*x, ours.points.iter().find(|point| point.0 == *x)?.1 / value - 1.0)))
            .collect();
        let Some(worst) = far.iter().max_by(|a, b| a.1.abs().total_cmp(&b.1.abs())) else { continue };
        let mean = far.iter().map(|(_, distance)| distance.abs()).sum::<f64>() / far.len() as f64;
        table.row([
            name.into(),
            far.len().to_string().into(),
            format!("{:.1} %", mean * 100.0).into(),
            format!("{:+.1} %", worst.1 * 100.0).into(),
            human(worst.0, &plot.x.unit).into(),
        ]);
    }
    (!table.rows.is_empty()).then_some(table)
}

/// Creates the report of an experiment.
pub fn page(experiment: &Experiment, options: &Options, items: &[Item]) -> Page {
    let facts = [
        ("version", env!("CARGO_PKG_VERSION").to_owned()),
        ("experiment", experiment.name.to_owned()),
        ("only", options.only.clone().unwrap_or_else(|| "all".to_owned())),
        ("seed", options.seed.to_string()),
        ("runs", options.runs.to_string()),
        ("items", Counts::of(items).to_string()),
        ("digest", digest(items)),
    ];
    let mut answer = Section::new("Answer");
    answer.parts.push(Part::Text(said(items)));
    answer.parts.push(verdicts(items).into());
    let mut sections = vec![answer];
    let not_so: Vec<&Item> =
        items.iter().filter(|item| matches!(item.verdict(), Some(Verdict::Contradicted | Verdict::Deviates))).collect();
    if !not_so.is_empty() {
        sections.push(Section::new("What is not as in the paper").with(table(&not_so)));
    }
    let plots = options.plots.kept();
    if !plots.is_empty() {
        let mut section = Section::new("Figures")
            .note("The axes are those of the paper, and its values, where its text or tables have them, are curves of their own.");
        for plot in plots {
            let beside = deviations(&plot);
            section.parts.push(plot.into());
            section.parts.extend(beside.map(Part::from));
        }
        sections.push(section);
    }
    let spread = over_seeds(items);
    if !spread.is_empty() {
        let mut section = Section::new("Over seeds")
            .note("How far runs with different seeds are apart, of the items that have several.");
        section.parts.extend(spread.into_iter().map(Part::from));
        sections.push(Section { fold: Fold::Closed, ..section });
    }
    let all: Vec<&Item> = items.iter().collect();
    sections.push(Section { fold: Fold::Closed, ..Section::new("All items").with(table(&all)) });
    let mut command = format!("tidegate reproduce {}", experiment.name);
    if let Some(only) = &options.only {
        command += &format!(" --only {only}");
    }
    command += &format!(" --seed {} --runs {}", options.seed, options.runs);
    Page {
        title: experiment.sentence.to_owned(),
        sentence: Some(format!("Experiment {}: what the paper found, and what this run found", experiment.name)),
        facts: facts.into_iter().map(|(name, value)| (name.to_owned(), value)).collect(),
        sections,
        sources: vec![
            Source { name: "to run it again".to_owned(), text: command },
            Source { name: format!("lab/papers/{}/README.md", experiment.name), text: experiment.page.to_owned() },
        ],
        primary: Vec::new(),
    }
}

/// A digest of the measured values.
fn digest(items: &[Item]) -> String {
    let mut digest = tidegate_metrics::Digest::default();
    for item in items {
        digest.bytes(item.id.as_bytes());
        digest.number(item.measured.unwrap_or(f64::NAN).to_bits());
    }
    digest.to_string()
}

/// The items as columns for notebooks.
pub fn tidy(experiment: &Experiment, seed: u64, items: &[Item]) -> columns::Table {
    fn text(items: &[Item], of: impl Fn(&Item) -> &str) -> Column {
        Column::Text(items.iter().map(|item| Some(of(item).to_owned())).collect())
    }
    let holds = |item: &Item| item.verdict().map(|verdict| verdict != Verdict::Contradicted);
    let number = |of: fn(&Item) -> Option<f64>| Column::Number(items.iter().map(of).collect());
    columns::Table::default()
        .with("experiment", text(items, |_| experiment.name))
        .with("seed", Column::Integer(vec![Some(seed); items.len()]))
        .with("id", text(items, |item| &item.id))
        .with("what", text(items, |item| &item.what))
        .with("unit", text(items, |item| &item.unit))
        .with("paper", number(|item| item.paper))
        .with("measured", number(|item| item.measured))
        .with("low", number(Item::low))
        .with("high", number(Item::high))
        .with("interval_low", number(|item| item.interval.map(|(low, _)| low)))
        .with("interval_high", number(|item| item.interval.map(|(_, high)| high)))
        .with("verdict", Column::Text(items.iter().map(|item| Some(item.verdict()?.name().to_owned())).collect()))
        .with("holds", Column::Truth(items.iter().map(holds).collect()))
        .with("source", Column::Text(items.iter().map(|item| item.basis().map(Basis::line)).collect()))
        .with("note", Column::Text(items.iter().map(|item| Some(note(item))).collect()))
}

/// Writes the result as JSON.
///
/// # Errors
/// If `out` cannot be written.
pub fn json(out: &mut impl Write, experiment: &Experiment, seed: u64, items: &[Item]) -> Result<(), Failure> {
    let (version, holds) = (env!("CARGO_PKG_VERSION"), nothing_contradicted(items));
    let verdicts = Counts::of(items);
    let report = Report { experiment: experiment.name, version, seed, holds, verdicts, items };
    serde_json::to_writer_pretty(&mut *out, &report).map_err(std::io::Error::from)?;
    writeln!(out)?;
    Ok(())
}

/// Writes the result as a table for a terminal of `width` characters, or for a pipe.
///
/// # Errors
/// If `out` cannot be written.
pub fn print(out: &mut impl Write, sentence: &str, items: &[Item], width: Option<usize>) -> Result<(), Failure> {
    write!(out, "{}\n{}", wrapped(sentence, width), table(&items.iter().collect::<Vec<_>>()).text(width))?;
    writeln!(out, "{}", wrapped(&Counts::of(items).to_string(), width))?;
    Ok(())
}

/// Returns the text before and after the table on the page of an experiment, including the two marker lines.
fn around_table(path: &std::path::Path, experiment: &str) -> Result<(String, String), Failure> {
    let (begin, end) = (format!("<!-- written by tidegate reproduce {experiment} --page -->\n"), "<!-- end -->\n");
    let failed = |text: String| Failure::Failed(format!("{}: {text}", path.display()));
    let page = std::fs::read_to_string(path).map_err(|error| failed(error.to_string()))?;
    let parts = page.split_once(&begin).and_then(|(before, rest)| Some((before, rest.split_once(end)?.1)));
    let (before, after) = parts.ok_or_else(|| failed(format!("it has no place for the table: {begin}{end}")))?;
    Ok((format!("{before}{begin}"), format!("{end}{after}")))
}

/// Checks that a table can be written into the page of an experiment, before minutes of measurements begin.
pub(super) fn check_table(path: &std::path::Path, experiment: &str) -> Result<(), Failure> {
    around_table(path, experiment).map(drop)
}

/// Writes a table into the page of an experiment, between the two marker lines.
pub(super) fn write_table(path: &std::path::Path, experiment: &str, table: &str) -> Result<(), Failure> {
    let (before, after) = around_table(path, experiment)?;
    let written = std::fs::write(path, format!("{before}{table}{after}"));
    written.map_err(|error| Failure::Failed(format!("{}: {error}", path.display())))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::reproduce::item::Sample;

    #[test]
    fn items_over_seeds_are_beside_each_other_by_their_ids() {
        let item =
            |id: &str, unit: &str, runs: &[f64]| Item::sampled(id, "in words", unit, Sample::of(runs.iter().copied()));
        let items = [
            item("dialup.red.response", "s", &[1.0, 2.0]),
            item("dialup.red.connect", "s", &[3.0, 5.0]),
            item("filter.me", "ratio", &[0.5, 0.7]),
            item("dialup.mered.response", "s", &[4.0, 4.0]),
            item("dialup.one.response", "s", &[4.0]),
        ];
        let found = over_seeds(&items);
        assert_eq!(
            found.iter().map(|one| one.title.as_str()).collect::<Vec<_>>(),
            ["dialup, over seeds", "filter, over seeds"]
        );
        let [Group { name, measures, rows, .. }] = &found[0].groups[..] else { panic!("{found:?}") };
        assert_eq!(name, "dialup");
        assert_eq!(measures.iter().map(|one| one.name.as_str()).collect::<Vec<_>>(), ["response", "connect"]);
        assert_eq!(rows.iter().map(|row| row.name.as_str()).collect::<Vec<_>>(), ["red", "mered"]);
        let values = |row: usize, at: usize| rows[row].cells[at].as_ref().map(|cell| (cell.mean, cell.values.clone()));
        assert_eq!(values(0, 1), Some((4.0, vec![3.0, 5.0])));
        assert_eq!((values(1, 0), values(1, 1)), (Some((4.0, vec![4.0, 4.0])), None));
        let alone = &found[1].groups[0];
        assert_eq!((alone.rows[0].name.as_str(), alone.measures[0].unit.as_str()), ("me", "ratio"));
    }
}
