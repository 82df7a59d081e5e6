//! A comparison as `tabular`s of LaTeX, which fit into the width of a look on paper.

use crate::comparison::Comparison;
use crate::look::Look;
use crate::paper::{Head, Mark, Measured, Number, OPEN, Rows};
use crate::roman::{width, width_of_number};
use crate::tikz::latex as escaped;

/// The space at each side of a column, in points, where tables are fitted into a width.
const SIDE: f64 = 3.0;

/// Defines how the best number of a column is set: bold, by three strikes, which are as wide as one in any font, so that the points of the
/// numbers stay below each other.
const BEST: &str = "\\providecommand{\\best}[1]{\\rlap{$#1$}\\kern.03em\\rlap{$#1$}\\kern-.015em#1\\kern-.015em}\n";
/// Defines how a number is set that is perhaps the best: underlined, which does not change its width either.
const PERHAPS: &str = "\\providecommand{\\perhaps}[1]{\\underline{#1}}\n";

/// The width and the size of the type of a look on paper.
#[derive(Clone, Copy)]
struct Sheet {
    width: f64,
    size: f64,
}

impl Sheet {
    /// Selects its type.
    fn type_of(self) -> String {
        format!("\\fontsize{{{}}}{{{:.1}}}\\selectfont", self.size, self.size * 1.2)
    }
}

/// The largest share of the width of a sheet that a column of names takes, and one of groups beside it, before its cells are broken.
const NAMES: f64 = 0.42;
const GROUPS: f64 = 0.28;
/// The largest share that a word in the head of a column takes before it is broken.
const WORD: f64 = 0.3;

/// How the texts of a table are laid out.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct Form {
    /// Whether heads are broken where they are wider than the numbers below.
    broken: bool,
    /// Whether groups have their names in lines above their rows, which is narrower than a column before that of the rows.
    lines: bool,
}

/// A table and how it is laid out.
struct Layout {
    rows: Rows,
    form: Form,
    /// How much wider the lines of broken heads are than they must be, because there is room.
    room: f64,
}

/// The room that broken heads try, in widths of the type; the first is enough for one line.
const ROOMS: [f64; 12] = [1000.0, 12.0, 10.0, 8.0, 6.0, 5.0, 4.0, 3.0, 2.0, 1.0, 0.5, 0.0];

/// The parts of a text behind which a line may end: words and, of one wider than `most`, its parts at signs or letters.
fn parts(text: &str, size: f64, most: f64) -> Vec<String> {
    let mut found: Vec<String> = Vec::new();
    for word in text.split_inclusive(' ') {
        if width(word.trim_end(), size) <= most {
            found.push(word.to_owned());
            continue;
        }
        for piece in word.split_inclusive(['-', '_', ',', '=', '/', '.', ':', ';', '}']) {
            let mut part = String::new();
            for letter in piece.chars() {
                if width(&format!("{part}{letter}"), size) > most {
                    found.push(std::mem::take(&mut part));
                }
                part.push(letter);
            }
            found.push(part);
        }
    }
    found
}

/// Breaks a text into lines of at most `most`.
fn broken(text: &str, size: f64, most: f64) -> Vec<String> {
    let mut lines = vec![String::new()];
    for part in parts(text, size, most) {
        let line = lines.last_mut().filter(|line| width(format!("{line}{part}").trim_end(), size) <= most);
        match line {
            Some(line) => *line += &part,
            None => lines.push(part),
        }
    }
    lines.retain(|line| !line.is_empty());
    lines.iter().map(|line| line.trim_end().to_owned()).collect()
}

/// The greatest width of texts.
fn widest<'a>(texts: impl Iterator<Item = &'a str>, size: f64) -> f64 {
    texts.map(|text| width(text, size)).fold(0.0, f64::max)
}

impl Comparison {
    /// Formats all values as a `tabular` for LaTeX with the package booktabs, or as several if subjects have different measures, or more
    /// than fit beside each other. Each column has one unit, each number as many digits as its 95 % interval justifies, and the points
    /// of a column are below each other. A few quantities of different subjects have columns, not rows. Those of a look on paper have its
    /// size of type, and are no wider than it where that can be.
    pub fn latex(&self, look: &Look) -> String {
        let sheet = look.on_paper.then_some(Sheet { width: look.width, size: look.size });
        let all = Rows::of(self);
        let open = all.iter().any(Rows::has_open);
        let [best, perhaps] = [Mark::Best, Mark::Perhaps].map(|mark| all.iter().any(|rows| rows.has(mark)));
        let marks = self.marks(&all, ["Bold", "underlined"]).map(|said| escaped(&said));
        let tables: Vec<String> =
            all.into_iter().flat_map(|rows| Layout::fitted(rows, sheet)).map(|layout| layout.text(sheet)).collect();
        let size = sheet.map_or(String::new(), |sheet| sheet.type_of());
        let open = open.then(|| "n.r.\\ ($k/n$): not reached in $k$ of $n$ runs".to_owned());
        let precision = self.precision().map(|said| escaped(said.trim_end_matches('.')));
        let notes: Vec<String> = precision.into_iter().chain(open).chain(marks).collect();
        let note = match notes.as_slice() {
            [] => String::new(),
            notes => format!("\n\\par\\smallskip\n{{{size}\\noindent {}\\par}}\n", notes.join(". ")),
        };
        let define =
            [(best, BEST), (perhaps, PERHAPS)].map(|(is_there, text)| if is_there { text } else { "" }).concat();
        format!(
            "% \\usepackage{{booktabs}}; percentiles are known to 1/64, and may be equal in all runs\n{define}\\noindent\n{}{note}",
            tables.join("\n\\medskip\n\n\\noindent\n")
        )
    }
}

impl Layout {
    /// The table, divided into as few as fit beside each other into the width of a sheet.
    fn fitted(rows: Rows, sheet: Option<Sheet>) -> Vec<Self> {
        let Some(sheet) = sheet else {
            return vec![Self { rows, form: Form { broken: false, lines: false }, room: 0.0 }];
        };
        let forms = [false, true].into_iter().flat_map(|broken| [false, true].map(|lines| Form { broken, lines }));
        let forms = forms.filter(|form| !form.lines || rows.grouped);
        let divided = forms.map(|form| (Self::tables(&rows, form, sheet), form));
        // Heads in one line, and a column of groups, are easier to read where they cost no further table.
        let Some((tables, form)) = divided.min() else { return Vec::new() };
        let many = rows.heads.len().div_ceil(tables).max(1);
        let part = |begin: usize| {
            let end = (begin + many).min(rows.heads.len());
            let cells = |(group, row, cells): &(String, String, Vec<Number>)| {
                (group.clone(), row.clone(), cells[begin..end].to_vec())
            };
            let some = rows.rows.iter().map(cells).collect();
            let rows = Rows { heads: rows.heads[begin..end].to_vec(), rows: some, ..rows.clone() };
            let names = Self::names(&rows, form, sheet);
            let fits = |room: &f64| {
                let columns = (0..rows.heads.len()).map(|at| Self::column(&rows, at, form, sheet, *room));
                // A table that is exactly as wide as its sheet looks crowded.
                names + columns.sum::<f64>() + sheet.size <= sheet.width
            };
            let room = ROOMS.map(|room| room * sheet.size).into_iter().find(fits).unwrap_or(0.0);
            Self { rows, form, room }
        };
        (0..rows.heads.len()).step_by(many).map(part).collect()
    }

    /// The fewest tables of equally many columns that are no wider than a sheet, or those of one column each.
    fn tables(rows: &Rows, form: Form, sheet: Sheet) -> usize {
        let names = Self::names(rows, form, sheet);
        let columns: Vec<f64> = (0..rows.heads.len()).map(|at| Self::column(rows, at, form, sheet, 0.0)).collect();
        let fits = |tables: &usize| {
            let mut parts = columns.chunks(columns.len().div_ceil(*tables).max(1));
            parts.all(|part| names + part.iter().sum::<f64>() <= sheet.width)
        };
        (1..columns.len()).find(fits).unwrap_or(columns.len()).max(1)
    }

    /// The width of the columns of names.
    fn names(rows: &Rows, form: Form, sheet: Sheet) -> f64 {
        let names = rows.rows.iter().map(|(_, row, _)| row.as_str()).chain([rows.corner.as_str()]);
        let names = widest(names, sheet.size).min(sheet.width * NAMES);
        if !rows.grouped || form.lines {
            return names;
        }
        let groups = rows.rows.iter().map(|(group, ..)| group.as_str());
        names + widest(groups, sheet.size).min(sheet.width * GROUPS) + 2.0 * SIDE
    }

    /// The width of the numbers of a column.
    fn numbers(rows: &Rows, at: usize, size: f64) -> f64 {
        let numbers = aligned(&rows.rows.iter().map(|(.., cells)| &cells[at]).collect::<Vec<_>>());
        numbers.iter().map(|number| width_of_number(number, size)).fold(0.0, f64::max)
    }

    /// The lines of a text in the head of a column, with so much `room` more than its words and numbers need.
    fn head(rows: &Rows, at: usize, text: &str, form: Form, sheet: Sheet, room: f64) -> Vec<String> {
        if !form.broken {
            return vec![text.to_owned()];
        }
        let longest = sheet.width * WORD;
        let words = parts(text, sheet.size, longest);
        let most = widest(words.iter().map(|word| word.trim_end()), sheet.size);
        broken(text, sheet.size, most.max(Self::numbers(rows, at, sheet.size)) + room + 0.01)
    }

    /// The width of a column with its space.
    fn column(rows: &Rows, at: usize, form: Form, sheet: Sheet, room: f64) -> f64 {
        let head = &rows.heads[at];
        let heads = [&head.name, &head.of, &head.unit]
            .into_iter()
            .flat_map(|text| Self::head(rows, at, text, form, sheet, room));
        let heads: Vec<String> = heads.collect();
        widest(heads.iter().map(String::as_str), sheet.size).max(Self::numbers(rows, at, sheet.size)) + 2.0 * SIDE
    }

    /// A text in lines of a share of the sheet; without a sheet as it is.
    fn lines(text: &str, sheet: Option<Sheet>, share: f64) -> Vec<String> {
        let lines = match sheet {
            Some(Sheet { width: all, size }) if width(text, size) <= all * share => vec![text.to_owned()],
            // Its further lines are indented.
            Some(Sheet { width, size }) => broken(text, size, width * share - size),
            None => vec![text.to_owned()],
        };
        if lines.is_empty() { vec![String::new()] } else { lines.iter().map(|line| escaped(line)).collect() }
    }

    fn text(&self, sheet: Option<Sheet>) -> String {
        let Self { rows: Rows { quantity, corner, heads, grouped, rows }, form, room } = self;
        let names = if *grouped && !form.lines { "ll" } else { "l" };
        let (columns, n) = ("r".repeat(heads.len()), heads.len());
        let mut out = match sheet {
            None => format!("\\begin{{tabular}}{{{names}{columns}}}\n"),
            Some(sheet) => format!(
                "{{{}\\setlength{{\\tabcolsep}}{{{SIDE}pt}}%\n\\begin{{tabular}}{{@{{}}{names}{columns}@{{}}}}\n",
                sheet.type_of()
            ),
        };
        out += "\\toprule\n";
        let begin = "& ".repeat(names.len());
        // The lines of the heads, the last of which stand on one line.
        let head = |first: &str, of: fn(&Head) -> &str| {
            let lines = |at: usize| match sheet {
                Some(sheet) => Self::head(&self.rows, at, of(&heads[at]), *form, sheet, *room),
                None => vec![of(&heads[at]).to_owned()],
            };
            let all: Vec<Vec<String>> = (0..n).map(lines).collect();
            let most = all.iter().map(Vec::len).max().unwrap_or(1);
            let line = |number: usize| {
                let cell = |lines: &Vec<String>| {
                    let line = (number + lines.len()).checked_sub(most).and_then(|at| lines.get(at));
                    line.map_or(String::new(), |line| escaped(line))
                };
                let cells: Vec<String> = all.iter().map(cell).collect();
                let first = if number + 1 == most { first } else { "" };
                format!("{first}{begin}{} \\\\\n", cells.join(" & "))
            };
            (0..most).map(line).collect::<String>()
        };
        if !quantity.is_empty() {
            for line in Self::lines(quantity, sheet, 1.0 - NAMES) {
                out += &format!("& \\multicolumn{{{n}}}{{c}}{{{line}}} \\\\\n");
            }
            out += &format!("\\cmidrule(lr){{2-{}}}\n", n + 1);
        }
        if heads.iter().any(|head| !head.of.is_empty()) {
            out += &head("", |head| &head.of);
        }
        let mut corner = Self::lines(corner, sheet, NAMES);
        let last =
            corner.pop().filter(|corner| !corner.is_empty()).map_or(String::new(), |corner| format!("{corner} "));
        for line in corner {
            out += &format!("{line} {begin}{}\\\\\n", "& ".repeat(n - 1));
        }
        out += &head(&last, |head| &head.name);
        if heads.iter().any(|head| !head.unit.is_empty()) {
            out += &head("", |head| &head.unit);
        }
        out += "\\midrule\n";
        let column = |at: usize| aligned(&rows.iter().map(|(.., cells)| &cells[at]).collect::<Vec<_>>());
        let columns: Vec<Vec<String>> = (0..heads.len()).map(column).collect();
        for (at, (group, row, _)) in rows.iter().enumerate() {
            if at > 0 && !group.is_empty() {
                out += "\\addlinespace\n";
            }
            let mut groups = match (grouped, form.lines) {
                (true, false) => Self::lines(group, sheet, GROUPS),
                _ => Vec::new(),
            };
            if *grouped && form.lines && !group.is_empty() {
                for line in Self::lines(group, sheet, 1.0) {
                    out += &format!("\\multicolumn{{{}}}{{@{{}}l@{{}}}}{{{line}}} \\\\\n", n + 1);
                }
            }
            let mut names = Self::lines(row, sheet, NAMES);
            let most = groups.len().max(names.len());
            names.resize(most, String::new());
            groups.resize(if groups.is_empty() { 0 } else { most }, String::new());
            for (line, name) in names.iter().enumerate() {
                // The further lines of a name stand to the right of its first.
                let indent = |text: &str| match line > 0 && !text.is_empty() {
                    true => format!("\\quad {text}"),
                    false => text.to_owned(),
                };
                if let Some(group) = groups.get(line) {
                    out += &format!("{} & ", indent(group));
                }
                out += &indent(name);
                for column in &columns {
                    out += &match (line, column[at].as_str()) {
                        (0, "") => " & --".to_owned(),
                        (0, number) => format!(" & {number}"),
                        _ => " &".to_owned(),
                    };
                }
                out += " \\\\\n";
            }
        }
        out + "\\bottomrule\n\\end{tabular}" + if sheet.is_some() { "}\n" } else { "\n" }
    }
}

/// The numbers of a column in math mode, with invisible digits where a number has fewer before or after the point, or no interval, so that
/// the points of all are below each other.
fn aligned(column: &[&Number]) -> Vec<String> {
    let split = |text: &str| {
        let (whole, rest) = text.split_once('.').unwrap_or((text, ""));
        (whole.to_owned(), rest.to_owned())
    };
    let halves = |half: &str| split(half.strip_prefix("< ").unwrap_or(half));
    let numbers = || column.iter().filter_map(|number| number.as_ref()).filter(|number| number.mean != OPEN);
    let most = |parts: &mut dyn Iterator<Item = (String, String)>| {
        parts.fold((0, 0), |(whole, rest), part| (part.0.len().max(whole), part.1.len().max(rest)))
    };
    let means = most(&mut numbers().map(|number| split(&number.mean)));
    let intervals = most(&mut numbers().filter_map(|number| Some(halves(number.half.as_deref()?))));
    let narrow = numbers().any(|number| number.half.as_ref().is_some_and(|half| half.starts_with('<')));
    let hidden = |text: String| if text.is_empty() { text } else { format!("\\phantom{{{text}}}") };
    let before = |whole: &str, most: usize| hidden("0".repeat(most - whole.len()));
    let after = |rest: &str, most: usize| {
        let point = if rest.is_empty() && most > 0 { "." } else { "" };
        hidden(format!("{point}{}", "0".repeat(most - rest.len())))
    };
    let number = |number: &&Number| {
        let Some(Measured { mean, half, fewer, mark }) = number else { return String::new() };
        let shown = match mark {
            // The bold of numbers is that of mathematics.
            Some(Mark::Best) if mean == OPEN => format!("\\textbf{{{mean}}}"),
            Some(Mark::Best) => format!("\\best{{{mean}}}"),
            Some(Mark::Perhaps) => format!("\\perhaps{{{mean}}}"),
            None => mean.clone(),
        };
        if mean == OPEN {
            // After its point the space is that within a sentence.
            return format!("{shown}{}", fewer.replacen(' ', "\\ ", 1));
        }
        let (whole, rest) = split(mean);
        let mut text = format!("{}{shown}{}", before(&whole, means.0), after(&rest, means.1));
        let sign = if narrow { "{<}" } else { "" };
        text += &match half {
            Some(half) => {
                let (whole, rest) = halves(half);
                // The room of a sign that others have is behind an interval, where nobody sees it.
                let (sign, room) = if half.starts_with('<') { (sign, "") } else { ("", sign) };
                let half = half.strip_prefix("< ").unwrap_or(half);
                let (before, after) = (before(&whole, intervals.0), after(&rest, intervals.1));
                format!(" \\pm {sign}{before}{half}{after}{}", hidden(room.to_owned()))
            }
            None if intervals.0 > 0 => {
                let point = if intervals.1 > 0 { "." } else { "" };
                hidden(format!("{{}}\\pm {sign}{}{point}{}", "0".repeat(intervals.0), "0".repeat(intervals.1)))
            }
            None => String::new(),
        };
        format!("${text}${fewer}")
    };
    column.iter().map(number).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::comparison::tests::comparison;
    use crate::comparison::{Better, Estimate, Group, Measure};

    fn column(comparison: &Comparison) -> String {
        comparison.latex(&Look::column())
    }

    /// Six measures of two subjects: as wide as a column of a paper only with the names of the subjects in lines of their own.
    #[test]
    fn tables_are_divided_until_they_fit_into_the_look() {
        let mut all = comparison();
        let group = &mut all.groups[0];
        for n in 0..4 {
            group.measures.push(Measure::new(format!("completion {n} p99"), "ns", Better::Less));
            let (half, values) = (Some(3e6), Vec::new());
            let cell = Estimate { mean: 1.1e9, half, values, ..Estimate::default() };
            group.rows.iter_mut().for_each(|row| row.cells.push(Some(cell.clone())));
        }
        let other = Group { name: "flow with a name that is so long".into(), ..group.clone() };
        all.groups.push(other);
        let latex = column(&all);
        assert!(latex.contains("{\\fontsize{8}{9.6}\\selectfont\\setlength{\\tabcolsep}{3pt}%"), "{latex}");
        // The groups are lines, because a column of them would cost a further table.
        let text = |look: &str| all.latex(&Look::parse(look).expect("a look")).matches("\\begin{tabular}").count();
        assert!(latex.contains("\\multicolumn{4}{@{}l@{}}{call} \\\\\nfifo & "), "{latex}");
        assert_eq!((text("column"), text("text"), text("column,width=130"), text("page")), (2, 2, 4, 2));
        // No number is lost or doubled.
        assert_eq!(latex.matches("$5.000").count(), 4, "{latex}");
    }

    /// Tables of a column are no wider than it in the type that LaTeX has by default, however their cells are made: with wide intervals,
    /// in runs of which some have no value, or did not reach it.
    #[test]
    fn tex_sets_tables_in_a_column() {
        let mut all = comparison();
        let measures = ["completion p99", "completion p50", "slowdown p50"];
        let group = &mut all.groups[0];
        group.name = "flow short".into();
        group.measures = measures.map(|name| Measure::new(name, "ns", Better::Less)).into();
        group.measures[2].unit = "1".into();
        for (n, row) in group.rows.iter_mut().enumerate() {
            let of = |mean: f64, half: f64| Estimate { mean, half: Some(half), ..Estimate::default() };
            let last = Estimate { missing: 3, ..Estimate::of_runs(21.4, Some(1.2), vec![21.0, 22.0]) };
            row.cells = [of(1.2e10 + n as f64, 1.393e9), of(698e6, 38e6), if n == 1 { last } else { of(12.0, 1.1) }]
                .map(Some)
                .into();
        }
        let plain = column(&all);
        all.groups[0].rows[2].cells[0] = Some(Estimate::not_reached(1, 10));
        let open = column(&all);
        let tables = [plain, open, column(&comparison()), all.latex(&Look::parse("column,type=7").expect("a look"))];
        // Rules change no width, and booktabs may be missing.
        let rules = "\\let\\toprule\\hline\\let\\midrule\\hline\\let\\bottomrule\\hline";
        let said = crate::tikz::tests::set_in_a_column("tables", rules, &tables.join("\n\n"));
        assert_eq!(said.unwrap_or_default(), Vec::<String>::new(), "{tables:#?}");
    }

    /// Names of sweeps and flows are as long as people make them. They are broken, and no line of the table is wider than the column; and
    /// the table does not begin with the indentation of a paragraph.
    #[test]
    fn long_names_are_broken_so_that_tables_fit_into_a_column() {
        let mut all = comparison();
        all.groups[0].name =
            "flow video-conference-of-the-upper-floor with a name that is as long as two columns of a paper".into();
        all.groups[0].rows[0].name =
            "queue=fq-codel, quantum=1514, target=5ms, interval=100ms, limit=10240 packets".into();
        all.groups[0].rows[1].name = "a".repeat(120);
        all.groups[0].measures[1].name = "completion_time_of_transfers_between_100kB_and_1MB p99".into();
        for look in ["column", "column,type=7,width=200"] {
            let look = Look::parse(look).expect("a look");
            let sheet = Sheet { width: look.width, size: look.size };
            let latex = all.latex(&look);
            assert!(latex.contains("\n\\noindent\n{\\fontsize"), "{latex}");
            for table in latex.split("\\begin{tabular}").skip(1) {
                // The width of each column of the cells that no other column is joined to.
                let mut columns: Vec<f64> = Vec::new();
                for line in table.lines().filter(|line| line.ends_with("\\\\")) {
                    let line = line.trim_end_matches("\\\\");
                    if let Some(whole) = line.strip_prefix("\\multicolumn{") {
                        let text = whole.rsplit_once("}{").expect("a cell").1;
                        assert!(width(text.trim_end_matches(['}', ' ']), sheet.size) <= sheet.width, "{line}");
                        continue;
                    }
                    for (n, cell) in line.replace("\\&", "+").split('&').enumerate() {
                        columns.resize(columns.len().max(n + 1), 0.0);
                        let plain = cell
                            .replace("\\quad", "MM")
                            .replace("\\phantom", "")
                            .replace("\\best", "")
                            .replace("\\perhaps", "")
                            .replace("\\pm", "+")
                            .replace(['$', '{', '}', '\\'], "");
                        columns[n] = columns[n].max(width(plain.trim(), sheet.size));
                    }
                }
                let wide = columns.iter().sum::<f64>() + 2.0 * SIDE * (columns.len() - 1) as f64;
                assert!(wide <= sheet.width, "{wide}: {table}");
            }
            // All of a name is there.
            assert!(latex.contains("quantum=1514") && latex.matches('a').count() > 120, "{latex}");
        }
        // Text without a width stays as it is.
        assert!(all.latex(&Look::page()).contains(&"a".repeat(120)));
    }

    /// Heads that must be broken somewhere are broken no further than the width of the sheet asks for.
    #[test]
    fn heads_are_broken_only_where_there_is_no_room() {
        let mut all = comparison();
        let group = &mut all.groups[0];
        group.measures.push(Measure::new("completion of all p99", "ns", Better::Less));
        let cell = Estimate { mean: 1.1e9, half: Some(3e6), ..Estimate::default() };
        group.rows.iter_mut().for_each(|row| row.cells.push(Some(cell.clone())));
        let lines = |width: &str| {
            let latex = all.latex(&Look::parse(&format!("column,width={width}")).expect("a look"));
            let head =
                latex.split_once("\\toprule").and_then(|(_, rest)| rest.split_once("\\midrule")).expect("a head").0;
            assert_eq!(latex.matches("\\begin{tabular}").count(), 1, "{latex}");
            head.lines().filter(|line| line.ends_with("\\\\")).count()
        };
        // The units are a line of their own; the longest head has three words or pairs of them, which two lines can have.
        assert_eq!(["252", "205", "190"].map(lines), [3, 4, 4]);
    }

    #[test]
    fn what_was_not_reached_is_short_and_explained() {
        let mut all = comparison();
        all.groups[0].rows[1].cells[1] = Some(Estimate::not_reached(1, 5));
        all.groups[0].rows[2].cells[1] = Some(Estimate::not_reached(5, 5));
        let latex = column(&all);
        assert!(latex.contains("& n.r.\\ (1/5) \\\\") && latex.contains("& n.r. \\\\"), "{latex}");
        assert!(latex.contains("n.r.\\ ($k/n$): not reached in $k$ of $n$ runs"), "{latex}");
        let markdown = all.markdown();
        assert!(markdown.contains("| n.r. (1/5) |") && markdown.contains("not reached in k of n runs\n"), "{markdown}");
        assert!(!column(&comparison()).contains("n.r."));
    }
}
