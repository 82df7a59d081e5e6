//! A comparison as a table of a paper: LaTeX with booktabs, or Markdown.

use crate::comparison::{Comparison, Estimate, Group};
use crate::tikz::latex;

/// The units of some measures, and the units in which their values are written with the scale of each, the greatest first.
type Scale = (&'static [&'static str], &'static [(f64, &'static str)]);

const SCALES: [Scale; 4] = [
    (&["bps", "bit/s"], &[(1e9, "Gbit/s"), (1e6, "Mbit/s"), (1e3, "kbit/s"), (1.0, "bit/s")]),
    (&["ns"], &[(1e9, "s"), (1e6, "ms"), (1e3, "\u{b5}s"), (1.0, "ns")]),
    (&["s"], &[(1.0, "s"), (1e-3, "ms"), (1e-6, "\u{b5}s")]),
    (&["B"], &[(1e9, "GB"), (1e6, "MB"), (1e3, "kB"), (1.0, "B")]),
];

/// A column of such a table: a measure in one unit for all rows.
struct Head {
    name: String,
    scale: f64,
    unit: String,
}

/// A number with half the width of its interval, if it was measured.
type Number = Option<(String, Option<String>)>;

/// The cells of a table: the names of a row, and its numbers.
struct Rows {
    heads: Vec<Head>,
    /// Whether rows have the name of a group before theirs.
    grouped: bool,
    rows: Vec<(String, String, Vec<Number>)>,
}

/// The number of decimals of a value: two digits of its interval, or four digits of itself.
fn decimals(value: f64, half: Option<f64>) -> usize {
    let digits = |value: f64, digits: i32| (digits - 1 - value.abs().log10().floor() as i32).clamp(0, 9) as usize;
    match half {
        Some(half) if half > 0.0 => digits(half, 2),
        _ if value == 0.0 => 0,
        _ => digits(value, 4).min(4),
    }
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
            let most = values(&measure.name).into_iter().fold(0.0, f64::max);
            let steps =
                SCALES.iter().find(|(units, _)| units.contains(&measure.unit.as_str())).map(|(_, steps)| *steps);
            let step = steps.and_then(|steps| steps.iter().find(|(scale, _)| most >= *scale).or_else(|| steps.last()));
            let (scale, unit) = step.map_or((1.0, measure.unit.as_str()), |(scale, unit)| (*scale, *unit));
            let unit = if unit == "1" { String::new() } else { unit.to_owned() };
            heads.push(Head { name: measure.name.clone(), scale, unit });
        }
        let mut rows = Vec::new();
        for group in &comparison.groups {
            for (n, row) in group.rows.iter().enumerate() {
                let cell = |head: &Head| {
                    let at = group.measures.iter().position(|measure| measure.name == head.name)?;
                    let Estimate { mean, half, .. } = row.cells.get(at)?.as_ref()?;
                    let (mean, half) = (mean / head.scale, half.map(|half| half / head.scale));
                    let places = decimals(mean, half);
                    let of_half = |half: f64| if half > 0.0 { format!("{half:.places$}") } else { "0".to_owned() };
                    Some((format!("{mean:.places$}"), half.map(of_half)))
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
            "% \\usepackage{{booktabs}}; {}; the numbers after \\pm are half the width of 95 % intervals of the mean\n\
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
                    Some((mean, None)) => format!(" & ${mean}$"),
                    Some((mean, Some(half))) => format!(" & ${mean} \\pm {half}$"),
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
                    Some((mean, None)) => format!(" {mean} |"),
                    Some((mean, Some(half))) => format!(" {mean} \u{b1} {half} |"),
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
        // Without intervals four digits are written.
        assert_eq!((decimals(0.9876, None), decimals(123.4, None), decimals(0.0, None)), (4, 1, 0));
    }
}
