//! [`Table`]: columns for notebooks, as CSV, JSON or Parquet. There is one observation per row, so that every tool can
//! group and filter.

use std::fmt::Write as _;
use std::sync::Arc;

use parquet::basic::{LogicalType, Repetition, Type as Physical};
use parquet::data_type::{BoolType, ByteArray, ByteArrayType, DoubleType, Int64Type};
use parquet::errors::ParquetError;
use parquet::file::properties::{EnabledStatistics, WriterProperties};
use parquet::file::reader::{FileReader, SerializedFileReader};
use parquet::file::writer::{SerializedFileWriter, SerializedRowGroupWriter};
use parquet::record::Field;
use parquet::schema::types::Type;

/// Columns of equal length.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct Table {
    names: Vec<String>,
    columns: Vec<Column>,
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
        Self { names, columns }
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
                    Column::Number(values) => values[row].map_or(Ok(()), |value| write!(out, "{value}")),
                    Column::Truth(values) => values[row].map_or(Ok(()), |value| write!(out, "{value}")),
                };
            }
            out.push('\n');
        }
        out
    }
}

impl Table {
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

/// The number of rows of a row group, which a reader holds in memory at once.
const GROUP: usize = 1 << 20;

impl Table {
    /// Formats the table as an uncompressed Parquet file with strings and 64-bit numbers. Integers are unsigned. A
    /// column has a dictionary if that makes it smaller.
    ///
    /// # Errors
    /// If the writer of the format fails.
    pub fn parquet(&self) -> Result<Vec<u8>, ParquetError> {
        let mut fields = Vec::with_capacity(self.columns.len());
        for (name, column) in self.names.iter().zip(&self.columns) {
            let (physical, logical) = match column {
                Column::Text(_) => (Physical::BYTE_ARRAY, Some(LogicalType::String)),
                Column::Integer(_) => (Physical::INT64, Some(LogicalType::integer(64, false))),
                Column::Number(_) => (Physical::DOUBLE, None),
                Column::Truth(_) => (Physical::BOOLEAN, None),
            };
            let field = Type::primitive_type_builder(name, physical).with_logical_type(logical);
            fields.push(Arc::new(field.with_repetition(Repetition::OPTIONAL).build()?));
        }
        let schema = Arc::new(Type::group_type_builder("tidegate").with_fields(fields).build()?);
        let properties = WriterProperties::builder()
            .set_created_by(concat!("tidegate ", env!("CARGO_PKG_VERSION")).to_owned())
            .set_statistics_enabled(EnabledStatistics::Chunk)
            .build();
        let mut writer = SerializedFileWriter::new(Vec::new(), schema, Arc::new(properties))?;
        let mut begin = 0;
        while begin < self.rows() {
            let end = (begin + GROUP).min(self.rows());
            let mut group = writer.next_row_group()?;
            for column in &self.columns {
                column.write(begin..end, &mut group)?;
            }
            group.close()?;
            begin = end;
        }
        writer.into_inner()
    }
}

impl Table {
    /// Reads a whole Parquet file that [`Table::parquet`] has written.
    ///
    /// # Errors
    /// If it is not a Parquet file, is damaged, or has values of other types.
    pub fn from_parquet(file: Vec<u8>) -> Result<Self, ParquetError> {
        let reader = SerializedFileReader::new(bytes::Bytes::from(file))?;
        let schema = reader.metadata().file_metadata().schema_descr();
        let mut table = Self::default();
        for column in schema.columns() {
            let empty = match column.physical_type() {
                Physical::BYTE_ARRAY => Column::Text(Vec::new()),
                Physical::INT64 => Column::Integer(Vec::new()),
                Physical::DOUBLE => Column::Number(Vec::new()),
                Physical::BOOLEAN => Column::Truth(Vec::new()),
                other => return Err(ParquetError::General(format!("a column of type {other}"))),
            };
            table = table.with(column.name(), empty);
        }
        for row in reader.get_row_iter(None)? {
            for (column, (name, field)) in table.columns.iter_mut().zip(row?.get_column_iter()) {
                match (column, field) {
                    (Column::Text(values), Field::Str(text)) => values.push(Some(text.clone())),
                    (Column::Text(values), Field::Null) => values.push(None),
                    (Column::Integer(values), Field::ULong(number)) => values.push(Some(*number)),
                    (Column::Integer(values), Field::Null) => values.push(None),
                    (Column::Number(values), Field::Double(number)) => values.push(Some(*number)),
                    (Column::Number(values), Field::Null) => values.push(None),
                    (Column::Truth(values), Field::Bool(truth)) => values.push(Some(*truth)),
                    (Column::Truth(values), Field::Null) => values.push(None),
                    _ => return Err(ParquetError::General(format!("column `{name}` has values of another type"))),
                }
            }
        }
        Ok(table)
    }

    /// The column with this name.
    pub fn column(&self, name: &str) -> Option<&Column> {
        let place = self.names.iter().position(|own| own == name)?;
        self.columns.get(place)
    }
}

impl Column {
    fn write(
        &self,
        rows: core::ops::Range<usize>,
        group: &mut SerializedRowGroupWriter<'_, Vec<u8>>,
    ) -> Result<(), ParquetError> {
        /// Returns the values that are present, and for each row whether it has one.
        fn split<T, U>(values: &[Option<T>], to: impl Fn(&T) -> U) -> (Vec<U>, Vec<i16>) {
            let levels = values.iter().map(|value| i16::from(value.is_some())).collect();
            (values.iter().flatten().map(to).collect(), levels)
        }
        let Some(mut writer) = group.next_column()? else {
            return Err(ParquetError::General("fewer columns in the schema than in the table".to_owned()));
        };
        match self {
            Self::Text(values) => {
                let (values, levels) = split(&values[rows], |text| ByteArray::from(text.as_str()));
                writer.typed::<ByteArrayType>().write_batch(&values, Some(&levels), None)?;
            }
            Self::Integer(values) => {
                let (values, levels) = split(&values[rows], |number| number.cast_signed());
                writer.typed::<Int64Type>().write_batch(&values, Some(&levels), None)?;
            }
            Self::Number(values) => {
                let (values, levels) = split(&values[rows], |number| *number);
                writer.typed::<DoubleType>().write_batch(&values, Some(&levels), None)?;
            }
            Self::Truth(values) => {
                let (values, levels) = split(&values[rows], |truth| *truth);
                writer.typed::<BoolType>().write_batch(&values, Some(&levels), None)?;
            }
        }
        writer.close()
    }
}

/// Formats a field of a CSV line, quoted if necessary.
pub fn field(text: &str) -> String {
    if text.contains([',', '"', '\n', '\r']) { format!("\"{}\"", text.replace('"', "\"\"")) } else { text.to_owned() }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn table() -> Table {
        let words = ["link a->b", "a, \"b\"", ""];
        Table::default()
            .with("subject", Column::Text(words.iter().map(|word| Some((*word).to_owned())).collect()))
            .with("seed", Column::Integer(vec![Some(1), None, Some(u64::MAX)]))
            .with("value", Column::Number(vec![Some(0.1), Some(-1e300), None]))
            .with("holds", Column::Truth(vec![Some(true), Some(false), None]))
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
    fn parquet_reads_back_as_it_was() {
        let bytes = table().parquet().expect("written");
        let reader = SerializedFileReader::new(bytes::Bytes::from(bytes)).expect("a Parquet file");
        let rows: Vec<Vec<Field>> = reader
            .get_row_iter(None)
            .expect("rows")
            .map(|row| row.expect("a row").get_column_iter().map(|(_, field)| field.clone()).collect())
            .collect();
        let text = |text: &str| Field::Str(text.to_owned());
        assert_eq!(rows.len(), 3);
        assert_eq!(rows[0], [text("link a->b"), Field::ULong(1), Field::Double(0.1), Field::Bool(true)]);
        assert_eq!(rows[1], [text("a, \"b\""), Field::Null, Field::Double(-1e300), Field::Bool(false)]);
        assert_eq!(rows[2], [text(""), Field::ULong(u64::MAX), Field::Null, Field::Null]);
    }

    #[test]
    fn a_table_is_read_as_it_was_written() {
        let table = table();
        let bytes = table.parquet().expect("written");
        assert_eq!(Table::from_parquet(bytes.clone()).expect("read"), table);
        assert!(matches!(table.column("seed"), Some(Column::Integer(_))) && table.column("none").is_none());
        for cut in [0, 3, bytes.len() / 2, bytes.len() - 1] {
            assert!(Table::from_parquet(bytes[..cut].to_vec()).is_err(), "{cut} bytes of it");
        }
    }

    #[test]
    fn no_rows_are_a_file_too() {
        let empty = Table::default().with("x", Column::Number(vec![]));
        let bytes = empty.parquet().expect("written");
        let reader = SerializedFileReader::new(bytes::Bytes::from(bytes)).expect("a Parquet file");
        assert_eq!(reader.metadata().file_metadata().num_rows(), 0);
        assert_eq!(empty.csv(), "x\n");
    }

    #[test]
    fn names_that_repeat_cost_little() {
        let rows = 100_000;
        let table = Table::default()
            .with("subject", Column::Text(vec![Some("link left->right, a long name".to_owned()); rows]))
            .with("x", Column::Number((0..rows).map(|n| Some(n as f64)).collect()));
        let bytes = table.parquet().expect("written").len();
        // The numbers are 8 bytes each; the name is in the dictionary once.
        assert!(bytes < rows * 12, "{bytes}");
    }
}
