//! A comparison as tables for papers and for text: what is in the cells, and Markdown.

use crate::bars::subject_of;
use crate::chart::short;
use crate::comparison::{Comparison, Estimate, Group, Measure, Row, bin};
use crate::judgement::Family;
use crate::look;
use crate::readable;
use crate::standing::Best;
use tidegate_display::{Alike, Table, known, unit_of_all};

/// A column of such a table: a measure in one unit for all rows.
#[derive(Clone)]
pub(crate) struct Head {
    pub(crate) name: String,
    /// The subject, if the columns are quantities: measures of different subjects.
    pub(crate) of: String,
    scale: f64,
    pub(crate) unit: String,
}

/// A number of a table.
#[derive(Clone)]
pub(crate) struct Measured {
    /// The mean.
    pub(crate) mean: String,
    /// Half the width of its interval.
    pub(crate) half: Option<String>,
    /// A note on the number of runs that it is of; empty if it is of all.
    pub(crate) fewer: String,
    /// Whether its variant is the best by it, or perhaps.
    pub(crate) mark: Option<Mark>,
}

/// How a number is marked.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Mark {
    /// Its variant is the best, or equal to it within 2 %.
    Best,
    /// Its variant is not told apart from the best.
    Perhaps,
}

/// A cell, if it was measured.
pub(crate) type Number = Option<Measured>;

/// Stands in a cell for a number that was not reached; behind it is in how many of the runs, unless it was in none of them.
pub(crate) const OPEN: &str = "n.r.";

/// The cells of a table: the names of a row, and its numbers.
#[derive(Clone)]
pub(crate) struct Rows {
    /// The quantity of all cells, if columns are variants.
    pub(crate) quantity: String,
    /// The head of the names: the axes of the points of a sweep.
    pub(crate) corner: String,
    pub(crate) heads: Vec<Head>,
    /// Whether rows have the name of a group before theirs.
    pub(crate) grouped: bool,
    pub(crate) rows: Vec<(String, String, Vec<Number>)>,
}

impl Rows {
    /// The tables of a comparison: one, unless it has cells that no subject could fill, or is too wide.
    pub(crate) fn of(comparison: &Comparison) -> Vec<Self> {
        let family = comparison.family();
        let Some(wide) = by_quantity(comparison) else {
            return parts(comparison)
                .iter()
                .map(|part| {
                    let rows = Self::by_subject(part, Some(&family));
                    rows.grid(part).filter(|grid| grid.heads.len() <= WIDEST).unwrap_or(rows).readable()
                })
                .collect();
        };
        let mut rows = Self::by_subject(&wide, Some(&family));
        for head in &mut rows.heads {
            if let Some((measure, of)) = head.name.clone().split_once(" of ") {
                (head.name, head.of) = (measure.to_owned(), of.to_owned());
            }
        }
        vec![rows.readable()]
    }

    /// The names for people who do not know those of the file.
    fn readable(mut self) -> Self {
        let is_grid = !self.quantity.is_empty();
        if let Some((measure, of)) = self.quantity.split_once(" of ") {
            self.quantity = readable::measure(measure, of);
        }
        let names: Vec<&str> = self.heads.iter().map(|head| head.name.as_str()).collect();
        // The columns of a grid are variants.
        let names =
            if is_grid { short(&names) } else { names.iter().map(|name| readable::measure(name, "")).collect() };
        for (head, name) in self.heads.iter_mut().zip(names) {
            (head.name, head.of) = (name, readable::subject(&head.of).to_owned());
        }
        for (group, ..) in &mut self.rows {
            *group = readable::subject(group).to_owned();
        }
        self
    }

    /// The table with a row for each variant of each subject. Marks those that are the best according to tests of `family`.
    fn by_subject(comparison: &Comparison, family: Option<&Family>) -> Self {
        let (mut heads, mut alike): (Vec<Head>, Vec<Alike<'_>>) = Default::default();
        // Columns of different subjects share the unit of their measure.
        let plain = |name: &str| name.split_once(" of ").map_or(name, |(measure, _)| measure).to_owned();
        let values = |name: &str| -> Vec<(f64, Option<f64>)> {
            let of_group = |group: &'_ Group| -> Vec<(f64, Option<f64>)> {
                let all = (0..group.measures.len()).filter(|at| plain(&group.measures[*at].name) == plain(name));
                let cells = all.flat_map(|at| group.rows.iter().filter_map(move |row| row.cells.get(at)?.as_ref()));
                cells.map(|estimate| (estimate.mean, estimate.half)).collect()
            };
            comparison.groups.iter().flat_map(of_group).collect()
        };
        for measure in comparison.groups.iter().flat_map(|group| &group.measures) {
            if heads.iter().any(|head| head.name == measure.name) {
                continue;
            }
            let values = values(&measure.name);
            let (scale, unit) = unit_of_all(values.iter().map(|(mean, _)| *mean), &measure.unit);
            // Infinity is not reached in any unit.
            let unit = if values.iter().any(|(mean, _)| mean.is_finite()) { unit.to_owned() } else { String::new() };
            alike.push(Alike::of(&values, bin(&measure.name), &measure.unit));
            heads.push(Head { name: measure.name.clone(), of: String::new(), scale, unit });
        }
        let mut rows = Vec::new();
        for group in &comparison.groups {
            // Where all are, a mark tells nothing.
            let best = |at: usize| {
                let best = family.map_or(Vec::new(), |family| group.best(at, family));
                let there = group.rows.iter().filter(|row| row.cells.get(at).is_some_and(Option::is_some)).count();
                if best.len() < there { best } else { Vec::new() }
            };
            let best: Vec<Vec<&str>> = (0..group.measures.len()).map(best).collect();
            let perhaps = |at: usize| family.map_or(Vec::new(), |family| group.perhaps(at, family));
            let perhaps: Vec<Vec<&str>> = (0..group.measures.len()).map(perhaps).collect();
            for (n, row) in group.rows.iter().enumerate() {
                let cell = |(head, alike): (&Head, &Alike<'_>)| {
                    let at = group.measures.iter().position(|measure| measure.name == head.name)?;
                    let estimate = row.cells.get(at)?.as_ref()?;
                    let Estimate { mean, half, .. } = estimate;
                    let has = |names: &[Vec<&str>]| names[at].contains(&row.name.as_str());
                    let mark = has(&best).then(|| if has(&perhaps) { Mark::Perhaps } else { Mark::Best });
                    if let Some((open, runs)) = estimate.open {
                        let of = if open == runs { String::new() } else { format!(" ({open}/{runs})") };
                        return Some(Measured { mean: OPEN.to_owned(), half: None, fewer: of, mark });
                    }
                    let (mean, half) = match family {
                        Some(_) => {
                            known(mean / head.scale, half.map(|half| half / head.scale), bin(&group.measures[at].name))
                        }
                        // Text has no room to align decimals that differ.
                        None => alike.numbers(*mean, *half),
                    };
                    Some(Measured { mean, half, fewer: estimate.of_fewer(), mark })
                };
                let name = if n == 0 { group.name.clone() } else { String::new() };
                rows.push((name, row.name.clone(), heads.iter().zip(&alike).map(cell).collect()));
            }
        }
        let grouped = comparison.groups.iter().any(|group| !group.name.is_empty());
        Self { quantity: String::new(), corner: String::new(), heads, grouped, rows }
    }

    /// A single measure of one subject at the points of a sweep as a grid: a row for each point, a column for each variant. `None` for
    /// other comparisons.
    pub(crate) fn grid_of(comparison: &Comparison) -> Option<Self> {
        Self::by_subject(comparison, None).grid(comparison)
    }

    fn grid(&self, comparison: &Comparison) -> Option<Self> {
        let [head] = self.heads.as_slice() else { return None };
        let points: Vec<(&str, &str)> =
            comparison.groups.iter().map(|group| group.name.split_once(" at ")).collect::<Option<_>>()?;
        let (subject, _) = points.first().filter(|_| points.len() > 1)?;
        let mut variants: Vec<&str> = Vec::new();
        for row in comparison.groups.iter().flat_map(|group| &group.rows) {
            if !variants.contains(&row.name.as_str()) {
                variants.push(&row.name);
            }
        }
        if variants.len() < 2 || points.iter().any(|(of, _)| of != subject) {
            return None;
        }
        let mut cells = self.rows.iter();
        let mut rows = Vec::new();
        let (corner, names) = axes(&points.iter().map(|(_, point)| *point).collect::<Vec<_>>());
        for (group, point) in comparison.groups.iter().zip(names) {
            let mut row: Vec<Number> = vec![None; variants.len()];
            for (_, variant, numbers) in cells.by_ref().take(group.rows.len()) {
                let at = variants.iter().position(|known| known == variant)?;
                row[at] = numbers.first().cloned().flatten();
            }
            rows.push((String::new(), point, row));
        }
        let column = |name: &&str| Head { name: (*name).to_owned(), of: String::new(), ..head.clone() };
        let heads = variants.iter().map(column).collect();
        Some(Self { quantity: format!("{} of {subject}", head.name), corner, heads, grouped: false, rows })
    }
}

/// The names of the axes of points such as `rate=2mbit, delay=5ms`, and the points without them; no name where they differ.
fn axes(points: &[&str]) -> (String, Vec<String>) {
    let split = |point: &str| -> Option<(Vec<String>, Vec<String>)> {
        let pair = |part: &str| part.split_once('=').map(|(name, value)| (name.to_owned(), value.to_owned()));
        Some(point.split(", ").map(pair).collect::<Option<Vec<_>>>()?.into_iter().unzip())
    };
    let whole = || (String::new(), points.iter().map(|point| (*point).to_owned()).collect());
    let Some(parts) = points.iter().map(|point| split(point)).collect::<Option<Vec<_>>>() else { return whole() };
    match parts.first() {
        Some((names, _)) if parts.iter().all(|(other, _)| other == names) => {
            (names.join(", "), parts.iter().map(|(_, values)| values.join(", ")).collect())
        }
        _ => whole(),
    }
}

/// The most columns of a table whose columns are quantities, and of one that has subjects beside its rows: more are too wide for a page.
const WIDEST: usize = 6;
const WIDEST_OF_SUBJECTS: usize = 5;

/// The comparison with a column for each measure of each subject, named by both, if the subjects have different measures: a row for each
/// subject would be empty where it has not the measures of others. The points of a sweep would be too many columns.
fn by_quantity(comparison: &Comparison) -> Option<Comparison> {
    let groups = &comparison.groups;
    let first = groups.first()?;
    let columns: usize = groups.iter().map(|group| group.measures.len()).sum();
    let is_plain = |group: &Group| !group.name.is_empty() && subject_of(&group.name) == group.name;
    if columns > WIDEST || !groups.iter().all(is_plain) || groups.iter().all(|group| group.measures == first.measures) {
        return None;
    }
    let mut wide = Group::default();
    for row in groups.iter().flat_map(|group| &group.rows) {
        if !wide.rows.iter().any(|known| known.name == row.name) {
            wide.rows.push(Row { name: row.name.clone(), cells: Vec::new() });
        }
    }
    for group in groups {
        for (at, measure) in group.measures.iter().enumerate() {
            wide.measures.push(Measure { name: format!("{} of {}", measure.name, group.name), ..measure.clone() });
            for row in &mut wide.rows {
                let of_group = group.rows.iter().find(|other| other.name == row.name);
                row.cells.push(of_group.and_then(|of_group| of_group.cells.get(at).cloned().flatten()));
            }
        }
    }
    Some(Comparison::new(comparison.title.as_str(), vec![wide]))
}

/// The comparison in parts, each of subjects that have the same measures, and of at most [`WIDEST_OF_SUBJECTS`] of
/// them.
fn parts(comparison: &Comparison) -> Vec<Comparison> {
    let mut parts: Vec<Comparison> = Vec::new();
    for group in &comparison.groups {
        let same = |part: &&mut Comparison| part.groups[0].measures == group.measures;
        match parts.iter_mut().find(same) {
            Some(part) => part.groups.push(group.clone()),
            None => parts.push(Comparison::new(comparison.title.as_str(), vec![group.clone()])),
        }
    }
    let narrow = |part: Comparison| {
        let all: Vec<usize> = (0..part.groups[0].measures.len()).collect();
        // Tables of equally many columns look better than a full one and a rest.
        let columns = all.len().div_ceil(all.len().div_ceil(WIDEST_OF_SUBJECTS).max(1)).max(1);
        let of_some = |some: &[usize]| {
            let groups = part.groups.iter();
            let groups = groups.map(|group| look::part(group, &(0..group.rows.len()).collect::<Vec<_>>(), some));
            Comparison::new(part.title.as_str(), groups.collect())
        };
        all.chunks(columns).map(of_some).collect::<Vec<_>>()
    };
    parts.into_iter().flat_map(narrow).collect()
}

impl Comparison {
    /// Formats all values as tables of Markdown: one, or several if subjects have different measures, or more than fit beside each other.
    pub fn markdown(&self) -> String {
        let tables = Rows::of(self);
        let open = if tables.iter().any(Rows::has_open) { "\nn.r. (k/n): not reached in k of n runs\n" } else { "" };
        let best = self.marks(&tables, ["Bold", "italic"]).map_or(String::new(), |said| format!("\n{said}\n"));
        let precision = self.precision().map_or(String::new(), |said| format!("\n{said}\n"));
        tables.into_iter().map(Rows::markdown).collect::<Vec<_>>().join("\n") + &precision + open + &best
    }
}

impl Comparison {
    /// States what the marks of tables mean, which are set in these ways; `None` if they have none.
    pub(crate) fn marks(&self, tables: &[Rows], [best, perhaps]: [&str; 2]) -> Option<String> {
        let has = |mark: Mark| tables.iter().any(|rows| rows.has(mark));
        let Some(corrected) = self.correction("of the tables") else {
            return has(Mark::Best).then(|| format!("{best}: {}", self.marked("of the tables")));
        };
        let parts = [
            (has(Mark::Best), format!("{best}: the best, or equal to it within 2 %")),
            (has(Mark::Perhaps), format!("{perhaps}: not told apart from it, and behind no other")),
        ];
        let said: Vec<String> = parts.into_iter().filter(|(is_there, _)| *is_there).map(|(_, said)| said).collect();
        let family = self.family();
        let measures = self.groups.iter().flat_map(|group| (0..group.measures.len()).map(move |at| (group, at)));
        let standings: Vec<Best<'_>> = measures.map(|(group, at)| group.standing(at, &family)).collect();
        let none = match standings.contains(&Best::Alike) {
            true => " Nothing is marked where all are equal within 2 %.",
            false => "",
        };
        Some(match said.is_empty() {
            false => format!("{}, at 5 %{corrected}.{none}", said.join("; ")),
            true if standings.contains(&Best::Undecided) => {
                format!("Nothing is marked where the runs tell no variant apart, at 5 %{corrected}.{none}")
            }
            true => none.trim_start().to_owned(),
        })
        .filter(|said| !said.is_empty())
    }
}

impl Rows {
    /// Whether a cell has a number that was not reached.
    pub(crate) fn has_open(&self) -> bool {
        self.rows.iter().flat_map(|(.., cells)| cells).flatten().any(|number| number.mean == OPEN)
    }

    /// Whether a cell has this mark.
    pub(crate) fn has(&self, mark: Mark) -> bool {
        self.rows.iter().flat_map(|(.., cells)| cells).flatten().any(|number| number.mark == Some(mark))
    }

    /// The table as text, with a last column of who is the best in each row.
    pub(crate) fn text(&self, best: Option<Vec<String>>) -> Table {
        let heads: Vec<String> = self.heads.iter().map(|head| format!(">{}", head.name)).collect();
        let corner = if self.corner.is_empty() { "at" } else { &self.corner };
        let columns =
            [corner].into_iter().chain(heads.iter().map(String::as_str)).chain(best.is_some().then_some("best"));
        let unit = self.heads.first().filter(|head| !head.unit.is_empty()).map(|head| format!(", {}", head.unit));
        let mut table = Table::new(self.quantity.clone() + &unit.unwrap_or_default(), columns).shorten(corner, 16);
        let cell = |number: &Number| match number {
            None => String::new(),
            Some(Measured { mean, half: None, fewer, .. }) => format!("{mean}{fewer}"),
            Some(Measured { mean, half: Some(half), fewer, .. }) => format!("{mean} \u{b1} {half}{fewer}"),
        };
        for (n, (_, name, cells)) in self.rows.iter().enumerate() {
            let best = best.iter().filter_map(|best| best.get(n).cloned());
            let cells = [name.clone()].into_iter().chain(cells.iter().map(cell)).chain(best);
            table.row(cells.map(Into::into));
        }
        table
    }

    fn markdown(self) -> String {
        let Self { quantity, corner, heads, grouped, rows } = self;
        // A pipe would end a cell.
        let plain = |text: &str| text.replace('\\', "\\\\").replace('|', "\\|").replace(['\n', '\r'], " ");
        let head = |head: &Head| {
            let unit = if head.unit.is_empty() { String::new() } else { format!(" ({})", head.unit) };
            let name = if head.of.is_empty() { head.name.clone() } else { readable::of(&head.name, &head.of) };
            format!("{}{unit}", plain(&name))
        };
        let names = match (grouped, quantity.as_str()) {
            (true, _) => "| subject | variant |".to_owned(),
            (false, "") => "| variant |".to_owned(),
            (false, quantity) if corner.is_empty() => format!("| {} at |", plain(quantity)),
            (false, quantity) => format!("| {} by {} |", plain(quantity), plain(&corner)),
        };
        let heads: Vec<String> = heads.iter().map(head).collect();
        let mut out = format!("{names} {} |\n{}", heads.join(" | "), if grouped { "| --- | --- |" } else { "| --- |" });
        out += &" ---: |".repeat(heads.len());
        out.push('\n');
        for (group, row, cells) in rows {
            out += "|";
            if grouped {
                out += &format!(" {} |", plain(&group));
            }
            out += &format!(" {} |", plain(&row));
            for cell in cells {
                let Some(Measured { mean, half, fewer, mark }) = cell else {
                    out += " |";
                    continue;
                };
                let half = half.map_or(String::new(), |half| format!(" \u{b1} {half}"));
                let mark = match mark {
                    Some(Mark::Best) => "**",
                    Some(Mark::Perhaps) => "*",
                    None => "",
                };
                out += &format!(" {mark}{mean}{mark}{half}{fewer} |");
            }
            out.push('\n');
        }
        out
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::comparison::Better;
    use crate::comparison::tests::comparison;
    use crate::look::Look;

    #[test]
    fn tables_have_one_unit_a_column_and_as_many_digits_as_the_interval_has() {
        let mut all = comparison();
        all.groups[0].rows[1].name = "co_del & co".into();
        all.groups[0].rows[2].cells[1] = None;
        // The best delay that was measured is bold: no other was tested against it. The goodputs are alike.
        let expected = "\\begin{tabular}{llrr}\n\\toprule\n& & Goodput & Delay, 99th pct. \\\\\n& & Mbit/s & ms \\\\\n\\midrule\n\
                        call & fifo & $5.000 \\pm 0.010$ & $100\\phantom{.0} \\pm 5\\phantom{.0}$ \\\\\n \
                        & co\\_del \\& co & $5.000 \\pm 0.010$ & $\\phantom{0}\\best{13.0} \\pm 2.0$ \\\\\n \
                        & pie & $4.990 \\pm 0.010$ & -- \\\\\n\\bottomrule\n\\end{tabular}\n";
        let latex = all.latex(&Look::page());
        assert!(latex.contains(expected), "{latex}\n{expected}");
        let bold = "Bold: the best, or equal to it within 2 %, at 5 %, corrected for all 4 differences of the tables (Holm). Nothing is marked where all \
             are equal within 2 %.";
        assert!(latex.contains("\\providecommand{\\best}") && latex.contains(&bold.replace('%', "\\%")), "{latex}");
        let markdown = all.markdown();
        assert!(markdown.starts_with(
            "| subject | variant | Goodput (Mbit/s) | Delay, 99th pct. (ms) |\n| --- | --- | ---: | ---: |\n"
        ));
        assert!(markdown.contains("|  | co_del & co | 5.000 \u{b1} 0.010 | **13.0** \u{b1} 2.0 |\n"), "{markdown}");
        assert!(markdown.ends_with(&format!("\n{bold}\n")), "{markdown}");
        assert!(markdown.contains("| call | fifo | 5.000 \u{b1} 0.010 | 100 \u{b1} 5 |\n"), "{markdown}");
        // Who is not told apart from the best, however much its runs vary, has another mark.
        let perhaps = comparison();
        let (latex, markdown) = (perhaps.latex(&Look::page()), perhaps.markdown());
        assert!(latex.contains("\\perhaps{13.0}") && latex.contains("\\best{12.0}"), "{latex}");
        assert!(
            markdown.contains("| *13.0* \u{b1} 2.0 |") && markdown.contains("| **12.0** \u{b1} 2.0 |"),
            "{markdown}"
        );
        assert!(
            markdown.contains(
                "Bold: the best, or equal to it within 2 %; italic: not told apart from it, and behind no other, at 5 %, corrected"
            ),
            "{markdown}"
        );
        // The numbers are those of the terminal: without intervals four digits, and a narrow interval does not add digits.
        let mut cell = |cell: Estimate| {
            all.groups[0].rows[0].cells[0] = Some(cell);
            let markdown = all.markdown();
            let row = markdown.lines().find(|line| line.contains("fifo")).expect("a row");
            row.split('|').nth(3).expect("a cell").trim().replace("**", "")
        };
        let [single, narrow] =
            [Estimate::from(123_412_345.0), Estimate::of_runs(10_160_173.0, Some(39.0), Vec::new())].map(&mut cell);
        assert_eq!((single.as_str(), narrow.as_str()), ("123.4", "10.160 \u{b1} < 0.001"));
        // A number of fewer runs than there are says so, in each table and in the note of the figure.
        let fewer = Estimate { missing: 3, ..Estimate::of_runs(2.085e6, Some(2.5e4), vec![2.08e6, 2.09e6]) };
        assert_eq!(cell(fewer), "2.085 \u{b1} 0.025 (2 runs)");
        assert_eq!(cell(Estimate { missing: 4, ..Estimate::from(2e6) }), "2 (1 run)");
        let latex = all.latex(&Look::page());
        assert!(latex.contains("& $2\\phantom{.000}\\phantom{{}\\pm 0.000}$ (1 run) &"), "{latex}");
        assert!(!latex.contains("Three"), "the title of a report is not that of a table: {latex}");
        assert!(format!("{:?}", all.table()).contains("2.000 Mbit/s (1 run)"), "{:?}", all.table());
        assert_eq!(all.fewer_runs().as_deref(), Some("Of fewer runs: goodput of flow call: fifo (1 run)."));
        // Subjects with different measures are in columns: no cell is empty because another subject has its measure.
        let mut mixed = comparison();
        let mut bulk = mixed.groups[0].clone();
        mixed.groups[0].measures.remove(0);
        mixed.groups[0].rows.iter_mut().for_each(|row| drop(row.cells.remove(0)));
        bulk.name = "flow bulk".into();
        bulk.measures.truncate(1);
        bulk.rows.iter_mut().for_each(|row| row.cells.truncate(1));
        mixed.groups.push(bulk);
        let latex = mixed.latex(&Look::page());
        assert!(latex.contains("& call & bulk \\\\\n& Delay, 99th pct. & Goodput \\\\\n& ms & Mbit/s"), "{latex}");
        assert!(
            !latex.contains("--")
                && latex.contains("\nfifo & $100\\phantom{.0} \\pm 5\\phantom{.0}$ & $5.000 \\pm 0.010$"),
            "{latex}"
        );
        // A rate of a thousandth has the unit of the other.
        let mut rates = mixed.clone();
        rates.groups[0].measures[0] = Measure::new("goodput", "bps", Better::More);
        rates.groups[0].rows.iter_mut().for_each(|row| row.cells[0] = Some(80_000.0.into()));
        rates.groups[0].measures.push(Measure::new("loss", "%", Better::Less));
        assert!(
            rates
                .markdown()
                .starts_with("| variant | Goodput of call (Mbit/s) | Loss of call | Goodput of bulk (Mbit/s) |"),
            "{}",
            rates.markdown()
        );
        let markdown = mixed.markdown();
        assert!(
            markdown.starts_with("| variant | Delay of call, 99th pct. (ms) | Goodput of bulk (Mbit/s) |"),
            "{markdown}"
        );
    }

    /// Three queues at two rates: a row for each rate and a column for each queue, in one unit.
    #[test]
    fn a_measure_of_a_sweep_is_a_grid() {
        let mut sweep = comparison();
        sweep.groups[0].measures.remove(0);
        sweep.groups[0].rows.iter_mut().for_each(|row| drop(row.cells.remove(0)));
        sweep.groups.push(sweep.groups[0].clone());
        for (group, rate) in sweep.groups.iter_mut().zip(["5mbit", "20mbit"]) {
            group.name = format!("flow call at rate={rate}");
        }
        sweep.groups[1].rows.remove(1);
        let markdown = sweep.markdown();
        assert!(
            markdown.starts_with("| Delay of call, 99th pct. by rate | fifo (ms) | codel (ms) | pie (ms) |\n"),
            "{markdown}"
        );
        assert!(markdown.contains("\n| 5mbit | 100 \u{b1} 5 | *13.0* \u{b1} 2.0 | **12.0**"), "{markdown}");
        assert!(markdown.contains("\n| 20mbit | 100 \u{b1} 5 | | **12.0**"), "{markdown}");
        let latex = sweep.latex(&Look::page());
        let head = "& \\multicolumn{3}{c}{Delay of call, 99th pct.} \\\\\n\\cmidrule(lr){2-4}\nrate & fifo & codel & pie \\\\\n& ms & ms & ms";
        assert!(latex.contains("\\begin{tabular}{lrrr}") && latex.contains(head), "{latex}");
        // Two subjects are no grid.
        sweep.groups[1].name = "flow bulk at rate=20mbit".into();
        assert!(sweep.markdown().starts_with("| subject | variant |"), "{}", sweep.markdown());
    }

    /// Four calls with a delay and four transfers with a goodput: two tables, in which no cell is empty. Eight measures of a subject are
    /// two tables of four.
    #[test]
    fn many_subjects_have_a_table_for_each_kind() {
        let one = comparison().groups[0].clone();
        let of = |name: &str, at: usize| Group { name: name.into(), ..look::part(&one, &[0, 1, 2], &[at]) };
        let groups = ["flow a", "flow b", "flow c", "flow d"].iter().enumerate();
        let groups: Vec<Group> =
            groups.flat_map(|(n, name)| [of(&format!("{name} call {n}"), 1), of(name, 0)]).collect();
        let all = Comparison::new("", groups);
        let latex = all.latex(&Look::page());
        assert_eq!(latex.matches("\\begin{tabular}{llr}").count(), 2, "{latex}");
        assert_eq!((latex.matches(" --").count(), latex.matches("usepackage").count()), (0, 1), "{latex}");
        let markdown = all.markdown();
        assert!(
            !markdown.contains("|  |\n") && markdown.contains("\n\n| subject | variant | Goodput (Mbit/s) |"),
            "{markdown}"
        );
        let mut wide = comparison();
        let group = &mut wide.groups[0];
        group.measures = (0..8).map(|n| Measure { name: format!("delay {n}"), ..group.measures[1].clone() }).collect();
        group.rows.iter_mut().for_each(|row| row.cells = vec![row.cells[1].clone(); 8]);
        assert_eq!(
            wide.latex(&Look::page()).matches("\\begin{tabular}{llrrrr}").count(),
            2,
            "{}",
            wide.latex(&Look::page())
        );
    }
}
