//! Tables as Parquet files.

use std::sync::Arc;

use parquet::basic::{LogicalType, Repetition, Type as Physical};
use parquet::data_type::{BoolType, ByteArray, ByteArrayType, DoubleType, Int64Type};
use parquet::errors::ParquetError;
use parquet::file::metadata::KeyValue;
use parquet::file::properties::{EnabledStatistics, WriterProperties};
use parquet::file::reader::{FileReader, SerializedFileReader};
use parquet::file::writer::{SerializedFileWriter, SerializedRowGroupWriter};
use parquet::record::Field;
use parquet::schema::types::Type;

use crate::columns::{Column, Table};

/// The key of [`Table::primary`] in the metadata of a file: the quantities, one in a line. Readers make a dictionary of the metadata, so that
/// each key is there once; files that have it once for each quantity are read, too.
const PRIMARY: &str = "tidegate.primary";
/// The key of [`Table::order`], likewise: the name of each axis and its values, separated by [`BETWEEN`], and the axes by [`APART`].
const ORDER: &str = "tidegate.order";
/// The key from which pandas reads the attributes of a frame, as JSON: what columns mean. Other readers show it as it is.
const ATTRIBUTES: &str = "PANDAS_ATTRS";
/// The unit separator of ASCII.
const BETWEEN: char = '\u{1f}';
/// The record separator of ASCII.
const APART: char = '\u{1e}';
/// The number of rows of a row group, which a reader holds in memory at once.
const GROUP: usize = 1 << 20;

impl Table {
    /// Formats the table as an uncompressed Parquet file with strings and 64-bit numbers. Integers are signed, so that differences are, unless
    /// one is above 2^63. A column has a dictionary if that makes it smaller.
    ///
    /// # Errors
    /// If the writer of the format fails.
    pub fn parquet(&self) -> Result<Vec<u8>, ParquetError> {
        let mut fields = Vec::with_capacity(self.columns.len());
        for (name, column) in self.names.iter().zip(&self.columns) {
            let (physical, logical) = match column {
                Column::Text(_) => (Physical::BYTE_ARRAY, Some(LogicalType::String)),
                Column::Integer(_) => (Physical::INT64, Some(LogicalType::integer(64, column.is_signed()))),
                Column::Number(_) => (Physical::DOUBLE, None),
                Column::Truth(_) => (Physical::BOOLEAN, None),
            };
            let field = Type::primitive_type_builder(name, physical).with_logical_type(logical);
            fields.push(Arc::new(field.with_repetition(Repetition::OPTIONAL).build()?));
        }
        let schema = Arc::new(Type::group_type_builder("tidegate").with_fields(fields).build()?);
        let between = String::from(BETWEEN);
        let axis = |(name, values): &(String, Vec<String>)| {
            [name].into_iter().chain(values).map(String::as_str).collect::<Vec<_>>().join(&between)
        };
        let order = self.order.iter().map(axis).collect::<Vec<_>>().join(&String::from(APART));
        let kept = [
            (PRIMARY, Some(self.primary.join("\n")).filter(|all| !all.is_empty())),
            (ORDER, Some(order).filter(|all| !all.is_empty())),
            (ATTRIBUTES, self.meanings()),
        ];
        let kept: Vec<KeyValue> =
            kept.into_iter().filter_map(|(key, text)| Some(KeyValue::new(key.to_owned(), text?))).collect();
        let properties = WriterProperties::builder()
            .set_created_by(concat!("tidegate ", env!("CARGO_PKG_VERSION")).to_owned())
            .set_key_value_metadata(Some(kept).filter(|all| !all.is_empty()))
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
        let metadata = reader.metadata().file_metadata();
        let schema = metadata.schema_descr();
        let mut table = Self::default();
        let of = |key: &'static str| {
            let kept = metadata.key_value_metadata().into_iter().flatten();
            kept.filter(move |entry| entry.key == key).filter_map(|entry| entry.value.clone())
        };
        table.primary = of(PRIMARY).flat_map(|text| text.split('\n').map(str::to_owned).collect::<Vec<_>>()).collect();
        let axis = |text: &str| {
            let mut all = text.split(BETWEEN).map(str::to_owned);
            Some((all.next()?, all.collect()))
        };
        table.order = of(ORDER).flat_map(|text| text.split(APART).filter_map(axis).collect::<Vec<_>>()).collect();
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
                    (Column::Integer(values), Field::Long(number)) => values.push(Some(number.cast_unsigned())),
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::columns::tests::table;

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

    /// A reader that makes a dictionary of the metadata has all of it.
    #[test]
    fn the_metadata_of_a_file_has_each_key_once_and_what_columns_mean() {
        let quantities = ["completion p95 of flow short", "delay up p99 of flow call"].map(str::to_owned);
        let axis = |name: &str| (name.to_owned(), vec!["5mbit".to_owned(), "50mbit".to_owned()]);
        let table = Table {
            primary: quantities.into(),
            order: vec![axis("link.1.rate"), axis("link.1.delay")],
            ..Table::default()
                .with("link.1.rate", Column::Text(vec![None]))
                .with("begun_ns", Column::Integer(vec![Some(1)]))
                .with("somebody's", Column::Integer(vec![Some(1)]))
        };
        let bytes = table.parquet().expect("written");
        assert_eq!(Table::from_parquet(bytes.clone()).expect("read"), table);
        let reader = SerializedFileReader::new(bytes::Bytes::from(bytes)).expect("a Parquet file");
        let kept = reader.metadata().file_metadata().key_value_metadata().expect("metadata").clone();
        let keys: Vec<&str> = kept.iter().map(|entry| entry.key.as_str()).collect();
        assert_eq!(keys, [PRIMARY, ORDER, ATTRIBUTES]);
        assert_eq!(
            kept[2].value.as_deref(),
            Some(
                "{\"columns\": {\"link.1.rate\": \"the value of this key of the scenario, an axis of the sweep\", \"begun_ns\": \"ns: when it \
                 began, since the start of the run\"}}"
            )
        );
    }

    /// The value of an axis that was added later stands where the later sweep has it.
    #[test]
    fn rows_have_the_order_of_the_axes_in_all_files() {
        let of = |rates: &[&str], all: &[&str]| {
            let text = |texts: &[&str]| Column::Text(texts.iter().map(|text| Some((*text).to_owned())).collect());
            let order = vec![("rate".to_owned(), all.iter().map(|text| (*text).to_owned()).collect())];
            let table =
                Table { order, ..Table::default().with("rate", text(rates)).with("variant", text(&["pie"; 2])) };
            Table::from_parquet(table.parquet().expect("written")).expect("read")
        };
        let (old, new) =
            (of(&["50mbit", "5mbit"], &["50mbit", "5mbit"]), of(&["20mbit"; 2], &["50mbit", "20mbit", "5mbit"]));
        for [mut first, second] in [[old.clone(), new.clone()], [new, old]] {
            first.append(second).expect("the same columns");
            let rows = first.in_order();
            let Some(Column::Text(rates)) = rows.column("rate") else { panic!("a column") };
            assert_eq!(rates.iter().flatten().collect::<Vec<_>>(), ["50mbit", "20mbit", "20mbit", "5mbit"]);
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
