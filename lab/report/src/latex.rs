//! A comparison as `tabular`s of LaTeX, which fit into the width of a look on paper.

use crate::comparison::Comparison;
use crate::font::width;
use crate::look::Look;
use crate::paper::{Head, Number, OPEN, Rows};
use crate::tikz::latex as escaped;

/// The space at each side of a column, in points, where tables are fitted into a width.
const SIDE: f64 = 3.0;
/// The width of a `\pm` with its spaces, relative to the size of the type. Its letters and digits are no wider in the fonts of TeX than in
/// that of figures.
const SIGN: f64 = 1.35;

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

/// A table whose groups have their names in a column before that of the rows, or in lines above their rows, which is narrower.
struct Layout {
    rows: Rows,
    lines: bool,
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
        let tables: Vec<String> =
            all.into_iter().flat_map(|rows| Layout::fitted(rows, sheet)).map(|layout| layout.text(sheet)).collect();
        let size = sheet.map_or(String::new(), |sheet| sheet.type_of());
        let note = match open {
            true => {
                format!("\n\\par\\smallskip\n{{{size}\\noindent n.r. ($k/n$): not reached in $k$ of $n$ runs\\par}}\n")
            }
            false => String::new(),
        };
        format!(
            "% \\usepackage{{booktabs}}; the numbers after \\pm are half the width of 95 % intervals of the mean; \
             a number without one is of a single run, or equal in all, as percentiles may be, which are known to 1/64\n{}{note}",
            tables.join("\n\\medskip\n\n\\noindent\n")
        )
    }
}

impl Layout {
    /// The table, divided into as few as fit beside each other into the width of a sheet.
    fn fitted(rows: Rows, sheet: Option<Sheet>) -> Vec<Self> {
        let Some(sheet) = sheet else { return vec![Self { rows, lines: false }] };
        let forms = [false, true].into_iter().filter(|lines| !lines || rows.grouped);
        let divided = forms.map(|lines| (Self::tables(&rows, lines, sheet), lines));
        // The column of groups is easier to read where it costs no further table.
        let Some((tables, lines)) = divided.min_by_key(|(tables, lines)| (*tables, *lines)) else { return Vec::new() };
        let many = rows.heads.len().div_ceil(tables).max(1);
        let part = |begin: usize| {
            let end = (begin + many).min(rows.heads.len());
            let cells = |(group, row, cells): &(String, String, Vec<Number>)| {
                (group.clone(), row.clone(), cells[begin..end].to_vec())
            };
            let some = rows.rows.iter().map(cells).collect();
            Self { rows: Rows { heads: rows.heads[begin..end].to_vec(), rows: some, ..rows.clone() }, lines }
        };
        (0..rows.heads.len()).step_by(many).map(part).collect()
    }

    /// The fewest tables of equally many columns that are no wider than a sheet, or those of one column each.
    fn tables(rows: &Rows, lines: bool, sheet: Sheet) -> usize {
        let of = |text: &str| width(text, sheet.size);
        let most = |texts: &mut dyn Iterator<Item = &str>| texts.map(of).fold(0.0, f64::max);
        let mut names = most(&mut rows.rows.iter().map(|(_, row, _)| row.as_str()).chain([rows.corner.as_str()]));
        if rows.grouped && !lines {
            names += most(&mut rows.rows.iter().map(|(group, ..)| group.as_str())) + 2.0 * SIDE;
        }
        let column = |(at, head): (usize, &Head)| {
            let numbers = aligned(&rows.rows.iter().map(|(.., cells)| &cells[at]).collect::<Vec<_>>());
            let numbers = numbers.iter().map(|number| {
                let plain = number.replace("\\phantom", "").replace(['{', '}', '$', ' '], "");
                let signs = plain.matches("\\pm").count() as f64;
                of(&plain.replace("\\pm", "")) + signs * SIGN * sheet.size
            });
            let heads = most(&mut [&head.name, &head.of, &head.unit].into_iter().map(String::as_str));
            numbers.fold(heads, f64::max) + 2.0 * SIDE
        };
        let columns: Vec<f64> = rows.heads.iter().enumerate().map(column).collect();
        let fits = |tables: &usize| {
            let mut parts = columns.chunks(columns.len().div_ceil(*tables).max(1));
            parts.all(|part| names + part.iter().sum::<f64>().max(of(&rows.quantity)) <= sheet.width)
        };
        (1..columns.len()).find(fits).unwrap_or(columns.len()).max(1)
    }

    fn text(&self, sheet: Option<Sheet>) -> String {
        let Self { rows: Rows { quantity, corner, heads, grouped, rows }, lines } = self;
        let names = if *grouped && !lines { "ll" } else { "l" };
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
        let line = |first: &str, of: fn(&Head) -> &str| {
            let cells: Vec<String> = heads.iter().map(|head| escaped(of(head))).collect();
            format!("{}{begin}{} \\\\\n", escaped(first), cells.join(" & "))
        };
        if !quantity.is_empty() {
            out +=
                &format!("& \\multicolumn{{{n}}}{{c}}{{{}}} \\\\\n\\cmidrule(lr){{2-{}}}\n", escaped(quantity), n + 1);
        }
        if heads.iter().any(|head| !head.of.is_empty()) {
            out += &line("", |head| &head.of);
        }
        let space = if corner.is_empty() { String::new() } else { format!("{corner} ") };
        out += &line(&space, |head| &head.name);
        if heads.iter().any(|head| !head.unit.is_empty()) {
            out += &line("", |head| &head.unit);
        }
        out += "\\midrule\n";
        let column = |at: usize| aligned(&rows.iter().map(|(.., cells)| &cells[at]).collect::<Vec<_>>());
        let columns: Vec<Vec<String>> = (0..heads.len()).map(column).collect();
        for (at, (group, row, _)) in rows.iter().enumerate() {
            if at > 0 && !group.is_empty() {
                out += "\\addlinespace\n";
            }
            match (grouped, lines) {
                (true, true) if !group.is_empty() => {
                    out += &format!("\\multicolumn{{{}}}{{@{{}}l@{{}}}}{{{}}} \\\\\n", n + 1, escaped(group));
                }
                (true, false) => out += &format!("{} & ", escaped(group)),
                _ => {}
            }
            out += &escaped(row);
            for column in &columns {
                out += &if column[at].is_empty() { " & --".to_owned() } else { format!(" & {}", column[at]) };
            }
            out += " \\\\\n";
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
    let numbers = || column.iter().filter_map(|number| number.as_ref()).filter(|(mean, ..)| mean != OPEN);
    let most = |parts: &mut dyn Iterator<Item = (String, String)>| {
        parts.fold((0, 0), |(whole, rest), part| (part.0.len().max(whole), part.1.len().max(rest)))
    };
    let means = most(&mut numbers().map(|(mean, ..)| split(mean)));
    let intervals = most(&mut numbers().filter_map(|(_, half, _)| Some(halves(half.as_deref()?))));
    let narrow = numbers().any(|(_, half, _)| half.as_ref().is_some_and(|half| half.starts_with('<')));
    let hidden = |text: String| if text.is_empty() { text } else { format!("\\phantom{{{text}}}") };
    let before = |whole: &str, most: usize| hidden("0".repeat(most - whole.len()));
    let after = |rest: &str, most: usize| {
        let point = if rest.is_empty() && most > 0 { "." } else { "" };
        hidden(format!("{point}{}", "0".repeat(most - rest.len())))
    };
    let number = |number: &&Number| {
        let Some((mean, half, fewer)) = number else { return String::new() };
        if mean == OPEN {
            return format!("{mean}{fewer}");
        }
        let (whole, rest) = split(mean);
        let mut text = format!("{}{mean}{}", before(&whole, means.0), after(&rest, means.1));
        let sign = if narrow { "{<}" } else { "" };
        text += &match half {
            Some(half) => {
                let (whole, rest) = halves(half);
                let sign = if half.starts_with('<') { sign.to_owned() } else { hidden(sign.to_owned()) };
                let half = half.strip_prefix("< ").unwrap_or(half);
                format!(" \\pm {sign}{}{half}{}", before(&whole, intervals.0), after(&rest, intervals.1))
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
        let other = Group { name: "flow with a long name".into(), ..group.clone() };
        all.groups.push(other);
        let latex = column(&all);
        assert!(latex.contains("{\\fontsize{8}{9.6}\\selectfont\\setlength{\\tabcolsep}{3pt}%"), "{latex}");
        // The groups are lines, because a column of them would cost a further table.
        let text = |look: &str| all.latex(&Look::parse(look).expect("a look")).matches("\\begin{tabular}").count();
        assert!(latex.contains("\\multicolumn{4}{@{}l@{}}{flow call} \\\\\nfifo & "), "{latex}");
        assert_eq!((text("column"), text("text"), text("column,width=130"), text("page")), (2, 2, 5, 2));
        // No number is lost or doubled.
        assert_eq!(latex.matches("$5.000").count(), 4, "{latex}");
    }

    #[test]
    fn what_was_not_reached_is_short_and_explained() {
        let mut all = comparison();
        all.groups[0].rows[1].cells[1] = Some(Estimate::not_reached(1, 5));
        all.groups[0].rows[2].cells[1] = Some(Estimate::not_reached(5, 5));
        let latex = column(&all);
        assert!(latex.contains("& n.r. (1/5) \\\\") && latex.contains("& n.r. \\\\"), "{latex}");
        assert!(latex.ends_with("n.r. ($k/n$): not reached in $k$ of $n$ runs\\par}\n"), "{latex}");
        let markdown = all.markdown();
        assert!(
            markdown.contains("| n.r. (1/5) |") && markdown.ends_with("not reached in k of n runs\n"),
            "{markdown}"
        );
        assert!(!column(&comparison()).contains("n.r."));
    }
}
