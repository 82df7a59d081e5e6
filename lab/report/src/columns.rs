//! [`Table`]: columns for notebooks, as CSV or JSON, and as Parquet by the module `parquet`. There is one observation per
//! row, so that every tool can group and filter.

mod meaning;

use std::collections::HashSet;
use std::fmt::Write as _;
use std::hash::{DefaultHasher, Hash, Hasher};

use crate::comparison::has_words;

/// Columns of equal length.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct Table {
    pub(crate) names: Vec<String>,
    pub(crate) columns: Vec<Column>,
    /// The quantities that the scenario of a sweep names before its first run, each as `MEASURE of SUBJECT`. A Parquet file keeps them
    /// beside its columns.
    pub primary: Vec<String>,
    /// The axes of a sweep, each with its values in the order in which they were given. A Parquet file keeps them, too.
    pub order: Vec<(String, Vec<String>)>,
}

/// The values of a column. A value may be missing.
#[derive(Clone, PartialEq, Debug)]
pub enum Column {
    /// Strings.
    Text(Vec<Option<String>>),
    /// Integers.
    Integer(Vec<Option<u64>>),
    /// Floating-point numbers.
    Number(Vec<Option<f64>>),
    /// Booleans.
    Truth(Vec<Option<bool>>),
}

impl Column {
    /// Whether the integers of it are below 2^63, so that readers may take them as signed; true of other columns.
    pub fn is_signed(&self) -> bool {
        let Self::Integer(values) = self else { return true };
        values.iter().flatten().all(|value| i64::try_from(*value).is_ok())
    }
    /// The number of values.
    pub fn len(&self) -> usize {
        match self {
            Self::Text(values) => values.len(),
            Self::Integer(values) => values.len(),
            Self::Number(values) => values.len(),
            Self::Truth(values) => values.len(),
        }
    }
    /// Whether the column is empty.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
    /// Some of the rows.
    pub(crate) fn rows(&self, rows: &[usize]) -> Self {
        fn of<T: Clone>(values: &[Option<T>], rows: &[usize]) -> Vec<Option<T>> {
            rows.iter().map(|row| values[*row].clone()).collect()
        }
        match self {
            Self::Text(values) => Self::Text(of(values, rows)),
            Self::Integer(values) => Self::Integer(of(values, rows)),
            Self::Number(values) => Self::Number(of(values, rows)),
            Self::Truth(values) => Self::Truth(of(values, rows)),
        }
    }
    /// The value of a row as text.
    pub(crate) fn text(&self, row: usize) -> Option<String> {
        match self {
            Self::Text(values) => values[row].clone(),
            Self::Integer(values) => values[row].map(|value| value.to_string()),
            Self::Number(values) => values[row].map(|value| value.to_string()),
            Self::Truth(values) => values[row].map(|value| value.to_string()),
        }
    }
}

impl Table {
    /// Adds a column.
    ///
    /// # Panics
    /// If its length differs from that of the others.
    #[must_use]
    pub fn with(mut self, name: impl Into<String>, column: Column) -> Self {
        assert!(self.columns.first().is_none_or(|first| first.len() == column.len()), "columns of equal length");
        self.names.push(name.into());
        self.columns.push(column);
        self
    }
    /// Removes the columns with these names.
    #[must_use]
    pub fn without(self, names: &[&str]) -> Self {
        let kept = self.names.into_iter().zip(self.columns).filter(|(name, _)| !names.contains(&name.as_str()));
        let (names, columns) = kept.unzip();
        Self { names, columns, primary: self.primary, order: self.order }
    }
    /// Adds the rows of another table, whose columns must be the same.
    ///
    /// # Errors
    /// If they are not, with what differs.
    pub fn append(&mut self, other: Self) -> Result<(), String> {
        if self.names.is_empty() {
            *self = other;
            return Ok(());
        }
        if self.names != other.names {
            return Err(format!("the columns are {} and not {}", other.names.join(", "), self.names.join(", ")));
        }
        for quantity in other.primary {
            if !self.primary.contains(&quantity) {
                self.primary.push(quantity);
            }
        }
        for (name, values) in other.order {
            match self.order.iter_mut().find(|(known, _)| *known == name) {
                // A sweep to which values were added has all that there were.
                Some((_, known)) if known.iter().all(|value| values.contains(value)) => *known = values,
                Some((_, known)) => {
                    let more: Vec<String> = values.into_iter().filter(|value| !known.contains(value)).collect();
                    known.extend(more);
                }
                None => self.order.push((name, values)),
            }
        }
        for ((name, own), other) in self.names.iter().zip(&mut self.columns).zip(other.columns) {
            match (own, other) {
                (Column::Text(own), Column::Text(other)) => own.extend(other),
                (Column::Integer(own), Column::Integer(other)) => own.extend(other),
                (Column::Number(own), Column::Number(other)) => own.extend(other),
                (Column::Truth(own), Column::Truth(other)) => own.extend(other),
                _ => return Err(format!("the column `{name}` has values of another type")),
            }
        }
        Ok(())
    }
    /// The rows in the order of the values of the axes, of which the last changes first, as one sweep would have made them. Rows with the same
    /// values keep their order.
    #[must_use]
    pub fn in_order(self) -> Self {
        let axes: Vec<(&Column, &[String])> =
            self.order.iter().filter_map(|(name, values)| Some((self.column(name)?, values.as_slice()))).collect();
        let rank = |row: &usize| -> Vec<usize> {
            let of = |(column, values): &(&Column, &[String])| {
                let text = column.text(*row);
                values.iter().position(|value| Some(value) == text.as_ref()).unwrap_or(values.len())
            };
            axes.iter().map(of).collect()
        };
        let mut rows: Vec<usize> = (0..self.rows()).collect();
        if axes.is_empty() || rows.is_sorted_by_key(&rank) {
            return self;
        }
        rows.sort_by_cached_key(rank);
        Self { columns: self.columns.iter().map(|column| column.rows(&rows)).collect(), ..self }
    }
    /// The rows of a sweep without those of runs that an earlier table had, with the same result. `known` has the runs of the earlier tables, and
    /// is given those of this one.
    #[must_use]
    pub fn without_runs(self, known: &mut HashSet<u64>) -> Self {
        let of_run = |name: &str| !["variant", "subject", "measure", "value", "unit"].contains(&name);
        let own: Vec<&Column> = self.columns().filter(|(name, _)| of_run(name)).map(|(_, column)| column).collect();
        let run = |row: usize| {
            let mut hasher = DefaultHasher::new();
            own.iter().for_each(|column| column.text(row).hash(&mut hasher));
            hasher.finish()
        };
        if !self.names.iter().any(|name| name == "digest") {
            return self;
        }
        let runs: Vec<u64> = (0..self.rows()).map(run).collect();
        let kept: Vec<usize> = (0..runs.len()).filter(|row| !known.contains(&runs[*row])).collect();
        known.extend(&runs);
        Self { columns: self.columns.iter().map(|column| column.rows(&kept)).collect(), ..self }
    }
    /// The columns with their names, in order.
    pub fn columns(&self) -> impl Iterator<Item = (&str, &Column)> {
        self.names.iter().map(String::as_str).zip(&self.columns)
    }
    /// The number of rows.
    pub fn rows(&self) -> usize {
        self.columns.first().map_or(0, Column::len)
    }
    /// Formats the table as CSV with a header (RFC 4180, but lines end in a line feed). Missing values are empty.
    pub fn csv(&self) -> String {
        let mut out = String::new();
        let names: Vec<String> = self.names.iter().map(|name| field(name)).collect();
        out.push_str(&names.join(","));
        out.push('\n');
        for row in 0..self.rows() {
            for (n, column) in self.columns.iter().enumerate() {
                if n > 0 {
                    out.push(',');
                }
                // Writing to a string cannot fail.
                let _ = match column {
                    Column::Text(values) => {
                        out.push_str(&values[row].as_deref().map_or(String::new(), field));
                        Ok(())
                    }
                    Column::Integer(values) => values[row].map_or(Ok(()), |value| write!(out, "{value}")),
                    // Readers such as pandas lose digits behind many zeros.
                    Column::Number(values) => values[row].map_or(Ok(()), |value| match value.abs() {
                        small if small > 0.0 && small < 1e-5 => write!(out, "{value:e}"),
                        _ => write!(out, "{value}"),
                    }),
                    Column::Truth(values) => values[row].map_or(Ok(()), |value| write!(out, "{value}")),
                };
            }
            out.push('\n');
        }
        out
    }
}

impl Table {
    /// The meanings of the columns as JSON, an object with one for each column that has one, below the key `columns`; `None` if none has.
    #[cfg_attr(not(feature = "parquet"), allow(dead_code))]
    pub(crate) fn meanings(&self) -> Option<String> {
        let is_axis = |name: &String| self.order.iter().any(|(axis, _)| axis == name);
        let axis = || Some("the value of this key of the scenario, an axis of the sweep");
        let of = |name: &String| meaning::meaning(name).or_else(|| if is_axis(name) { axis() } else { None });
        let mut out = String::new();
        for (name, meaning) in self.names.iter().filter_map(|name| Some((name, of(name)?))) {
            out.push_str(if out.is_empty() { "" } else { ", " });
            quote(&mut out, name);
            out.push_str(": ");
            quote(&mut out, meaning);
        }
        (!out.is_empty()).then(|| format!("{{\"columns\": {{{out}}}}}"))
    }

    /// Formats the table as JSON, a list of objects with one per row and line. Missing values and NaN are null.
    pub fn json(&self) -> String {
        let mut out = String::from("[");
        for row in 0..self.rows() {
            out.push_str(if row == 0 { "\n" } else { ",\n" });
            for (n, (name, column)) in self.names.iter().zip(&self.columns).enumerate() {
                out.push_str(if n == 0 { "{" } else { ", " });
                quote(&mut out, name);
                out.push_str(": ");
                // Writing to a string cannot fail.
                let _ = match column {
                    Column::Text(values) => match &values[row] {
                        Some(text) => {
                            quote(&mut out, text);
                            Ok(())
                        }
                        None => out.write_str("null"),
                    },
                    Column::Integer(values) => plain(&mut out, values[row]),
                    Column::Number(values) => plain(&mut out, values[row].filter(|value| value.is_finite())),
                    Column::Truth(values) => plain(&mut out, values[row]),
                };
            }
            out.push('}');
        }
        out.push_str("\n]\n");
        out
    }
}

fn plain(out: &mut String, value: Option<impl std::fmt::Display>) -> std::fmt::Result {
    match value {
        Some(value) => write!(out, "{value}"),
        None => out.write_str("null"),
    }
}

/// Appends a JSON string.
fn quote(out: &mut String, text: &str) {
    out.push('"');
    for c in text.chars() {
        // Writing to a string cannot fail.
        let _ = match c {
            '"' => out.write_str("\\\""),
            '\\' => out.write_str("\\\\"),
            c if c < ' ' => write!(out, "\\u{:04x}", u32::from(c)),
            c => out.write_char(c),
        };
    }
    out.push('"');
}

impl Table {
    /// The column with this name.
    pub fn column(&self, name: &str) -> Option<&Column> {
        let place = self.names.iter().position(|own| own == name)?;
        self.columns.get(place)
    }
    /// The column with this name, or an error with the names that exist.
    pub(crate) fn known(&self, name: &str) -> Result<&Column, String> {
        let by_end = || {
            let mut ends = self.names.iter().filter(|known| end(known) == name).filter_map(|known| self.column(known));
            // Keys that a sweep has varied together may always have the same value.
            let first = ends.next()?;
            ends.all(|other| other == first).then_some(first)
        };
        let found = self.column(name).or_else(by_end);
        found.ok_or_else(|| {
            let same: Vec<&str> = self.names.iter().map(String::as_str).filter(|known| end(known) == name).collect();
            match same.as_slice() {
                [] => format!("the table has no column `{name}`; it has {}", self.names.join(", ")),
                same => format!("`{name}` may be each of {}; write it whole", same.join(", ")),
            }
        })
    }
    /// The rows that have all texts of `wanted`, which are pairs of column and text, or an error with the texts that exist.
    pub(crate) fn rows_with(&self, wanted: &[(String, String)]) -> Result<Vec<usize>, String> {
        let mut rows: Vec<usize> = (0..self.rows()).collect();
        for (n, (name, text)) in wanted.iter().enumerate() {
            let column = self.known(name)?;
            // Of one column the rows of all of its texts are wanted. They are looked for where it is named first.
            if wanted[..n].iter().any(|(earlier, _)| earlier == name) {
                continue;
            }
            let before = rows.clone();
            let mut missing = None;
            let mut found = std::collections::BTreeSet::new();
            for (_, text) in wanted.iter().filter(|(other, _)| other == name) {
                let of_text = |row: &&usize| column.text(**row).unwrap_or_default() == *text;
                let mut own: Vec<usize> = before.iter().filter(of_text).copied().collect();
                // A flow of a section with several has the name that figures and reports give it: `flow bulk 1`.
                if let (true, "subject", Some(part)) = (own.is_empty(), name.as_str(), self.column("part")) {
                    let whole = |row: usize| Some(format!("{} {}", column.text(row)?, part.text(row)?));
                    own.extend(before.iter().filter(|row| whole(**row).as_deref() == Some(text)));
                }
                missing = missing.or_else(|| own.is_empty().then_some(text));
                found.extend(own);
            }
            rows.retain(|row| found.contains(row));
            let text = missing.unwrap_or(text);
            if missing.is_some() {
                let mut there: Vec<String> = before.iter().filter_map(|row| column.text(*row)).collect();
                // Names that the text may mean come first: `delay up p99` for `delay p99`.
                there.sort_by_cached_key(|other| (!has_words(other, text), other.clone()));
                there.dedup();
                let more = if there.len() > MOST_NAMED { ", ..." } else { "" };
                there.truncate(MOST_NAMED);
                return Err(format!(
                    "no row has `{text}` in the column `{name}`; there are {}{more}",
                    there.join(", ")
                ));
            }
        }
        Ok(rows)
    }
}

/// The maximum number of texts of a column that an error names.
const MOST_NAMED: usize = 12;

/// The last part of the path of an axis of a sweep.
pub(crate) fn end(path: &str) -> &str {
    path.rsplit_once('.').map_or(path, |(_, end)| end)
}

/// Formats a field of a CSV line, quoted if necessary.
pub fn field(text: &str) -> String {
    if text.contains([',', '"', '\n', '\r']) { format!("\"{}\"", text.replace('"', "\"\"")) } else { text.to_owned() }
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;

    pub(crate) fn table() -> Table {
        let words = ["link a->b", "a, \"b\"", ""];
        Table::default()
            .with("subject", Column::Text(words.iter().map(|word| Some((*word).to_owned())).collect()))
            .with("seed", Column::Integer(vec![Some(1), None, Some(u64::MAX)]))
            .with("value", Column::Number(vec![Some(0.1), Some(-1e300), None]))
            .with("holds", Column::Truth(vec![Some(true), Some(false), None]))
    }

    /// The end of a name is enough where one column has it, or all that have it have the same values.
    #[test]
    fn the_end_of_a_name_that_two_columns_have_is_said_to_be_of_both() {
        let rate = |text: &str| Column::Text(vec![Some(text.to_owned())]);
        let two = Table::default().with("link.a->b.rate", rate("5mbit")).with("queue.rate", rate("4mbit"));
        assert_eq!(
            two.known("rate"),
            Err("`rate` may be each of link.a->b.rate, queue.rate; write it whole".to_owned())
        );
        assert!(two.known("queue.rate").is_ok());
        assert!(two.known("delay").is_err_and(|why| why.starts_with("the table has no column `delay`")));
    }

    #[test]
    fn a_flow_of_a_section_is_found_by_its_whole_name() {
        let text = |words: [Option<&str>; 3]| Column::Text(words.map(|word| word.map(str::to_owned)).into());
        let table = Table::default()
            .with("subject", text([Some("flow bulk"), Some("flow bulk"), Some("flow call")]))
            .with("part", text([Some("1"), Some("2"), None]));
        let rows = |subject: &str| table.rows_with(&[("subject".to_owned(), subject.to_owned())]);
        assert_eq!(rows("flow bulk 2"), Ok(vec![1]));
        assert_eq!(rows("flow bulk"), Ok(vec![0, 1]));
        // Several texts of one column are united, and each of them must be there.
        let both = |texts: [&str; 2]| table.rows_with(&texts.map(|text| ("subject".to_owned(), text.to_owned())));
        assert_eq!(both(["flow call", "flow bulk 2"]), Ok(vec![1, 2]));
        assert!(both(["flow call", "flow web"]).is_err_and(|why| why.contains("no row has `flow web`")));
        assert!(rows("flow bulk 3").is_err_and(|why| why.contains("there are flow bulk, flow call")));
    }

    /// A call has a delay of each direction, and many other measures before them in the alphabet.
    #[test]
    fn an_error_names_first_what_may_be_meant() {
        let others = (0..20).map(|n| format!("bytes {n:02}"));
        let measures = others.chain(["delay down p99", "delay up p99"].map(str::to_owned)).map(Some);
        let table = Table::default().with("measure", Column::Text(measures.collect()));
        let said = table.rows_with(&[("measure".to_owned(), "delay p99".to_owned())]).expect_err("there is none");
        assert!(said.contains("there are delay down p99, delay up p99, bytes 00") && said.ends_with(", ..."), "{said}");
    }

    #[test]
    fn csv_fields_are_quoted_where_they_must_be() {
        let csv = table().csv();
        let lines: Vec<&str> = csv.lines().collect();
        assert_eq!(lines[0], "subject,seed,value,holds");
        assert_eq!(lines[1], "link a->b,1,0.1,true");
        assert!(lines[2].starts_with("\"a, \"\"b\"\"\",,-1000"));
        assert_eq!(lines[3], ",18446744073709551615,,");
    }

    #[test]
    fn small_numbers_have_exponents_in_csv() {
        let table = Table::default().with("p", Column::Number(vec![Some(1.5e-16), Some(0.25), Some(0.0)]));
        assert_eq!(table.csv(), "p\n1.5e-16\n0.25\n0\n");
    }

    #[test]
    fn json_has_an_object_for_each_row() {
        let odd = Table::default()
            .with("a \"name\"", Column::Text(vec![Some("x\\y\n".into()), None]))
            .with("n", Column::Number(vec![Some(f64::NAN), Some(0.5)]))
            .with("k", Column::Integer(vec![Some(u64::MAX), None]))
            .with("t", Column::Truth(vec![Some(true), None]));
        let expected = "[\n{\"a \\\"name\\\"\": \"x\\\\y\\u000a\", \"n\": null, \"k\": 18446744073709551615, \"t\": true},\n\
                        {\"a \\\"name\\\"\": null, \"n\": 0.5, \"k\": null, \"t\": null}\n]\n";
        assert_eq!(odd.json(), expected);
        assert_eq!(Table::default().json(), "[\n]\n");
    }

    #[test]
    fn rows_are_added_where_the_columns_are_the_same() {
        let mut all = table();
        all.append(table()).expect("the same columns");
        assert_eq!((all.rows(), all.column("seed").map(Column::len)), (6, Some(6)));
        assert!(all.append(table().without(&["seed"])).is_err_and(|why| why.contains("subject, value, holds")));
        assert_eq!(all.rows(), 6);
    }
}
