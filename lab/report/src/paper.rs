//! A comparison as a table of a paper: LaTeX with booktabs, or Markdown.

use crate::comparison::{Comparison, Estimate, Group};
use crate::tikz::latex;
use tidegate_display::{digits, interval, unit_of_all};

/// A column of such a table: a measure in one unit for all rows.
struct Head {
    name: String,
    scale: f64,
    unit: String,
}

/// A number with half the width of its interval, if it was measured, and of how many runs it is, if of fewer than there are.
type Number = Option<(String, Option<String>, String)>;

/// The cells of a table: the names of a row, and its numbers.
struct Rows {
    heads: Vec<Head>,
    /// Whether rows have the name of a group before theirs.
    grouped: bool,
    rows: Vec<(String, String, Vec<Number>)>,
}

impl Rows {
    fn new(comparison: &Comparison) -> Self {
        let mut heads: Vec<Head> = Vec::new();
        let values = |name: &str| -> Vec<f64> {
            let of_group = |group: &'_ Group| -> Vec<f64> {
                let at = group.measures.iter().position(|measure| measure.name == name);
                let cells =
                    at.into_iter().flat_map(|at| group.rows.iter().filter_map(move |row| row.cells.get(at)?.as_ref()));
                cells.map(|estimate| estimate.mean.abs()).collect()
            };
            comparison.groups.iter().flat_map(of_group).collect()
        };
        for measure in comparison.groups.iter().flat_map(|group| &group.measures) {
            if heads.iter().any(|head| head.name == measure.name) {
                continue;
            }
            let (scale, unit) = unit_of_all(values(&measure.name).into_iter(), &measure.unit);
            let unit = unit.to_owned();
            heads.push(Head { name: measure.name.clone(), scale, unit });
        }
        let mut rows = Vec::new();
        for group in &comparison.groups {
            for (n, row) in group.rows.iter().enumerate() {
                let cell = |head: &Head| {
                    let at = group.measures.iter().position(|measure| measure.name == head.name)?;
                    let estimate = row.cells.get(at)?.as_ref()?;
                    let Estimate { mean, half, .. } = estimate;
                    let mean = mean / head.scale;
                    let (number, half) = match half.map(|half| interval(mean, half / head.scale)) {
                        Some(number) => number,
                        None => (digits(mean), None),
                    };
                    Some((number, half, estimate.of_fewer()))
                };
                let name = if n == 0 { group.name.clone() } else { String::new() };
                rows.push((name, row.name.clone(), heads.iter().map(cell).collect()));
            }
        }
        Self { heads, grouped: comparison.groups.iter().any(|group| !group.name.is_empty()), rows }
    }
}

impl Comparison {
    /// Formats all values as a `tabular` for LaTeX with the package booktabs. Each column has one unit, and each number as many
    /// digits as its 95 % interval justifies.
    pub fn latex(&self) -> String {
        let Rows { heads, grouped, rows } = Rows::new(self);
        let names = if grouped { "ll" } else { "l" };
        let mut out = format!(
            "% \\usepackage{{booktabs}}; {}; the numbers after \\pm are half the width of 95 % intervals of the mean; \
             a number without one is of a single run, or equal in all\n\
             \\begin{{tabular}}{{{names}{}}}\n\\toprule\n",
            latex(&self.title),
            "r".repeat(heads.len())
        );
        let begin = "& ".repeat(names.len());
        let line = |of: fn(&Head) -> &str| {
            let cells: Vec<String> = heads.iter().map(|head| latex(of(head))).collect();
            format!("{begin}{} \\\\\n", cells.join(" & "))
        };
        out += &line(|head| &head.name);
        if heads.iter().any(|head| !head.unit.is_empty()) {
            out += &line(|head| &head.unit);
        }
        out += "\\midrule\n";
        for (n, (group, row, cells)) in rows.iter().enumerate() {
            if n > 0 && !group.is_empty() {
                out += "\\addlinespace\n";
            }
            if grouped {
                out += &format!("{} & ", latex(group));
            }
            out += &latex(row);
            for cell in cells {
                out += &match cell {
                    None => " & --".to_owned(),
                    Some((mean, None, fewer)) => format!(" & ${mean}${fewer}"),
                    Some((mean, Some(half), fewer)) => {
                        format!(" & ${mean} \\pm {}${fewer}", half.replace("< ", "{<}"))
                    }
                };
            }
            out += " \\\\\n";
        }
        out + "\\bottomrule\n\\end{tabular}\n"
    }

    /// Formats all values as a table of Markdown.
    pub fn markdown(&self) -> String {
        let Rows { heads, grouped, rows } = Rows::new(self);
        // A pipe would end a cell.
        let plain = |text: &str| text.replace('\\', "\\\\").replace('|', "\\|").replace(['\n', '\r'], " ");
        let head = |head: &Head| match head.unit.is_empty() {
            true => plain(&head.name),
            false => format!("{} ({})", plain(&head.name), head.unit),
        };
        let names = if grouped { "| of | variant |" } else { "| variant |" };
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
                out += &match cell {
                    None => " |".to_owned(),
                    Some((mean, None, fewer)) => format!(" {mean}{fewer} |"),
                    Some((mean, Some(half), fewer)) => format!(" {mean} \u{b1} {half}{fewer} |"),
                };
            }
            out.push('\n');
        }
        out
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::comparison::tests::comparison;

    #[test]
    fn tables_have_one_unit_a_column_and_as_many_digits_as_the_interval_has() {
        let mut all = comparison();
        all.groups[0].rows[1].name = "co_del & co".into();
        all.groups[0].rows[2].cells[1] = None;
        let expected = "\\begin{tabular}{llrr}\n\\toprule\n& & goodput & delay p99 \\\\\n& & Mbit/s & ms \\\\\n\\midrule\n\
                        flow call & fifo & $5.000 \\pm 0.010$ & $100.0 \\pm 5.0$ \\\\\n \
                        & co\\_del \\& co & $5.000 \\pm 0.010$ & $13.0 \\pm 2.0$ \\\\\n \
                        & pie & $4.990 \\pm 0.010$ & -- \\\\\n\\bottomrule\n\\end{tabular}\n";
        let latex = all.latex();
        assert!(latex.ends_with(expected), "{latex}\n{expected}");
        let markdown = all.markdown();
        assert!(
            markdown.starts_with("| of | variant | goodput (Mbit/s) | delay p99 (ms) |\n| --- | --- | ---: | ---: |\n")
        );
        assert!(markdown.contains("| flow call | fifo | 5.000 \u{b1} 0.010 | 100.0 \u{b1} 5.0 |\n"), "{markdown}");
        // The numbers are those of the terminal: without intervals four digits, and a narrow interval does not add digits.
        let mut cell = |cell: Estimate| {
            all.groups[0].rows[0].cells[0] = Some(cell);
            let markdown = all.markdown();
            let row = markdown.lines().find(|line| line.contains("fifo")).expect("a row");
            row.split('|').nth(3).expect("a cell").trim().to_owned()
        };
        let [single, narrow] =
            [Estimate::from(123_412_345.0), Estimate::of_runs(10_160_173.0, Some(39.0), Vec::new())].map(&mut cell);
        assert_eq!((single.as_str(), narrow.as_str()), ("123.4", "10.160 \u{b1} < 0.001"));
        // A number of fewer runs than there are says so, in each table and in the note of the figure.
        let fewer = Estimate { missing: 3, ..Estimate::of_runs(2.085e6, Some(2.5e4), vec![2.08e6, 2.09e6]) };
        assert_eq!(cell(fewer), "2.085 \u{b1} 0.025 (2 runs)");
        assert_eq!(cell(Estimate { missing: 4, ..Estimate::from(2e6) }), "2 (1 run)");
        assert!(all.latex().contains("& $2$ (1 run) &"), "{}", all.latex());
        assert!(format!("{:?}", all.table()).contains("2 Mbit/s (1 run)"), "{:?}", all.table());
        assert_eq!(all.fewer_runs().as_deref(), Some("Of fewer runs: goodput of flow call, fifo (1 run)."));
    }
}
