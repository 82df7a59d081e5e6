//! [`Table`]: columns as an Arrow stream, which polars, pyarrow, pandas and duckdb read without a copy.

use std::sync::Arc;

use arrow_array::ffi_stream::FFI_ArrowArrayStream;
use arrow_array::{
    Array, ArrayRef, BooleanArray, Float64Array, Int64Array, RecordBatch, RecordBatchIterator, RecordBatchReader,
    StringArray, UInt64Array,
};
use arrow_schema::{DataType, Field, Schema};
use pyo3::exceptions::{PyTypeError, PyValueError};
use pyo3::prelude::*;
use pyo3::types::{PyCapsule, PyDict, PyList};
use tidegate_report::columns::{self, Column};

use crate::failure;

/// A table of results with columns of text (`utf8`), integers (`int64`; `uint64` where one is above 2^63), numbers (`float64`) and booleans.
/// Values may be missing.
#[pyclass(frozen, module = "tidegate._tidegate")]
pub struct Table {
    batch: RecordBatch,
    columns: columns::Table,
}

impl Table {
    /// The columns.
    pub fn columns(&self) -> &columns::Table {
        &self.columns
    }

    pub fn new(columns: columns::Table) -> PyResult<Self> {
        let (mut fields, mut arrays) = (Vec::new(), Vec::<ArrayRef>::new());
        for (name, column) in columns.columns() {
            let array: ArrayRef = match column {
                Column::Text(values) => Arc::new(StringArray::from_iter(values)),
                Column::Integer(values) if column.is_signed() => {
                    Arc::new(values.iter().map(|value| value.map(u64::cast_signed)).collect::<Int64Array>())
                }
                Column::Integer(values) => Arc::new(UInt64Array::from_iter(values)),
                Column::Number(values) => Arc::new(Float64Array::from_iter(values)),
                Column::Truth(values) => Arc::new(BooleanArray::from_iter(values)),
            };
            fields.push(Field::new(name, array.data_type().clone(), true));
            arrays.push(array);
        }
        let batch = RecordBatch::try_new(Arc::new(Schema::new(fields)), arrays)
            .map_err(|error| failure::error("InternalError", error.to_string()))?;
        Ok(Self { batch, columns })
    }
}

/// A value of a column.
#[derive(FromPyObject)]
enum Cell {
    // This must precede integers, because a boolean is an integer in Python.
    Truth(bool),
    Integer(u64),
    Number(f64),
    Text(String),
}

/// Creates a column of values of one type. Integers mixed with floats become floats. A column without any value is
/// text.
fn column(name: &str, cells: Vec<Option<Cell>>) -> PyResult<Column> {
    let mixed = || PyTypeError::new_err(format!("column `{name}`: values of different types"));
    let has = |of: fn(&Cell) -> bool| cells.iter().flatten().any(of);
    Ok(if has(|cell| matches!(cell, Cell::Text(_))) || cells.iter().flatten().next().is_none() {
        let text = |cell| match cell {
            Some(Cell::Text(text)) => Ok(Some(text)),
            None => Ok(None),
            Some(_) => Err(mixed()),
        };
        Column::Text(cells.into_iter().map(text).collect::<PyResult<_>>()?)
    } else if has(|cell| matches!(cell, Cell::Truth(_))) {
        let truth = |cell| match cell {
            Some(Cell::Truth(truth)) => Ok(Some(truth)),
            None => Ok(None),
            Some(_) => Err(mixed()),
        };
        Column::Truth(cells.into_iter().map(truth).collect::<PyResult<_>>()?)
    } else if has(|cell| matches!(cell, Cell::Number(_))) {
        let number = |cell| match cell {
            Some(Cell::Number(number)) => Some(number),
            Some(Cell::Integer(number)) => Some(number as f64),
            _ => None,
        };
        Column::Number(cells.into_iter().map(number).collect())
    } else {
        let integer = |cell| match cell {
            Some(Cell::Integer(number)) => Some(number),
            _ => None,
        };
        Column::Integer(cells.into_iter().map(integer).collect())
    })
}

#[pymethods]
impl Table {
    /// Creates a table from columns, each of which is a list of texts, numbers or booleans. `None` is a missing value.
    #[new]
    fn from_lists(columns: Vec<(String, Vec<Option<Cell>>)>) -> PyResult<Self> {
        let rows = columns.first().map_or(0, |(_, cells)| cells.len());
        let mut table = columns::Table::default();
        for (name, cells) in columns {
            if cells.len() != rows {
                return Err(PyValueError::new_err(format!("column `{name}` has another length than the first")));
            }
            let column = column(&name, cells)?;
            table = table.with(name, column);
        }
        Self::new(table)
    }

    /// Implements the Arrow PyCapsule interface with a stream of one record batch, which shares the memory of this
    /// table.
    #[pyo3(signature = (requested_schema=None))]
    fn __arrow_c_stream__<'py>(
        &self,
        py: Python<'py>,
        requested_schema: Option<&Bound<'py, PyAny>>,
    ) -> PyResult<Bound<'py, PyCapsule>> {
        // The interface allows a requested schema to be ignored, and this table has only one.
        let _ = requested_schema;
        let schema = self.batch.schema();
        let batches = RecordBatchIterator::new([Ok(self.batch.clone())], schema);
        let reader: Box<dyn RecordBatchReader + Send> = Box::new(batches);
        PyCapsule::new_with_value(py, FFI_ArrowArrayStream::new(reader), c"arrow_array_stream")
    }

    /// The names of the columns.
    #[getter]
    fn column_names(&self) -> Vec<String> {
        self.batch.schema().fields().iter().map(|field| field.name().clone()).collect()
    }

    fn __len__(&self) -> usize {
        self.batch.num_rows()
    }

    /// The rows as dictionaries, one after the other, so that `pandas.DataFrame(table)` takes a table. For large tables
    /// `to_pandas` is faster.
    fn __iter__(slf: Bound<'_, Self>) -> TableRows {
        TableRows { table: slf.unbind(), next: 0 }
    }

    /// The table as a `pandas.DataFrame`, column by column. Integers stay integers, and missing values are NaN or None.
    fn to_pandas<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        py.import("pandas")?.getattr("DataFrame")?.call1((self.to_dict(py)?,))
    }

    /// The values of a column as a list; a missing value is `None`.
    fn __getitem__<'py>(&self, py: Python<'py>, name: &str) -> PyResult<Bound<'py, PyList>> {
        let found = self.columns.columns().find(|(known, _)| *known == name);
        let Some((_, column)) = found else {
            let text = format!("no column `{name}`; there are {}", self.column_names().join(", "));
            return Err(pyo3::exceptions::PyKeyError::new_err(text));
        };
        match column {
            Column::Text(values) => PyList::new(py, values),
            Column::Integer(values) => PyList::new(py, values),
            Column::Number(values) => PyList::new(py, values),
            Column::Truth(values) => PyList::new(py, values),
        }
    }

    /// All columns as lists, by name.
    fn to_dict<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        let all = PyDict::new(py);
        for (name, _) in self.columns.columns() {
            all.set_item(name, self.__getitem__(py, name)?)?;
        }
        Ok(all)
    }

    /// The table as CSV with a header.
    fn to_csv(&self) -> String {
        self.columns.csv()
    }

    /// The table as a Parquet file.
    fn to_parquet(&self, py: Python<'_>) -> PyResult<Vec<u8>> {
        failure::guarded(py, || {
            self.columns.parquet().map_err(|error| failure::error("InternalError", error.to_string()))
        })
    }

    fn __repr__(&self) -> String {
        let schema = self.batch.schema();
        let kind = |field: &Field| match field.data_type() {
            DataType::Utf8 => "text",
            DataType::Int64 => "int64",
            DataType::UInt64 => "uint64",
            DataType::Float64 => "float64",
            _ => "bool",
        };
        let columns: Vec<String> =
            schema.fields().iter().map(|field| format!("{}: {}", field.name(), kind(field))).collect();
        format!("<tidegate.Table of {} rows: {}>", self.batch.num_rows(), columns.join(", "))
    }
}

/// The rows of a table, one after the other.
#[pyclass(module = "tidegate._tidegate")]
pub struct TableRows {
    table: Py<Table>,
    next: usize,
}

#[pymethods]
impl TableRows {
    fn __iter__(slf: PyRef<'_, Self>) -> PyRef<'_, Self> {
        slf
    }

    fn __next__<'py>(&mut self, py: Python<'py>) -> PyResult<Option<Bound<'py, PyDict>>> {
        let table = self.table.get();
        if self.next >= table.columns.rows() {
            return Ok(None);
        }
        let row = PyDict::new(py);
        for (name, column) in table.columns.columns() {
            match column {
                Column::Text(values) => row.set_item(name, &values[self.next])?,
                Column::Integer(values) => row.set_item(name, values[self.next])?,
                Column::Number(values) => row.set_item(name, values[self.next])?,
                Column::Truth(values) => row.set_item(name, values[self.next])?,
            }
        }
        self.next += 1;
        Ok(Some(row))
    }
}
