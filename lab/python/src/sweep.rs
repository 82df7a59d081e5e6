//! The runs of a sweep, and the rows of a batch. `sweeps.py` starts the batches and writes their files.

use std::path::PathBuf;

use pyo3::exceptions::{PyException, PyKeyError, PyValueError};
use pyo3::prelude::*;
use tidegate_config::node::Node;
use tidegate_config::{Diagnostics, Source};
use tidegate_report::columns::Table;
use tidegate_report::simulation::sweep_rows;
use tidegate_report::{check_planned, swept};
use tidegate_sim::scenario::sweep::{self, Axis, Batch, Point};
use tidegate_sim::scenario::{Files, Outcome, Scenario};

use crate::failure::{self, caught};
use crate::results::shown;
use crate::scenario::{Checked, open_beside};
use crate::simulate::all;

/// A run: the path and the value of each axis, the text of the scenario, and the seed.
type Run = (Vec<(String, String)>, String, u64);
/// The path of each key of the axes, with its values in their order.
type Order = Vec<(String, Vec<String>)>;

/// A sweep: a scenario for each combination of the values of some axes, with several seeds.
#[pyclass(frozen, module = "tidegate._tidegate")]
pub struct Sweep {
    sweep: sweep::Sweep,
}

#[pymethods]
impl Sweep {
    /// Creates a sweep of the scenario `text` along axes, each of which is a path and a TOML list. Each value of an
    /// axis is checked in one run. Files that runs name are looked up in `folder`.
    #[new]
    fn new(
        py: Python<'_>,
        text: String,
        name: String,
        folder: PathBuf,
        axes: Vec<(String, String)>,
        seeds: Vec<u64>,
        batch: usize,
    ) -> PyResult<Self> {
        failure::guarded(py, || {
            let source = Source::new(name.as_str(), text);
            let mut diagnostics = Diagnostics::new();
            let base = Node::parse(&source, &mut diagnostics).ok_or_else(|| failure::config(&source, &diagnostics))?;
            let axes = axes.iter().map(|(path, list)| Axis::parse(path, list)).collect::<Result<Vec<_>, _>>();
            let axes = axes.map_err(PyValueError::new_err)?;
            let mut sweep = sweep::Sweep::new(&base, axes, seeds, batch).map_err(PyKeyError::new_err)?;
            let beside = |name: &str| open_beside(&folder, name);
            for point in sweep.samples().map_err(PyKeyError::new_err)? {
                let source = Source::new(point.named(&name), &*point.text);
                let scenario = Scenario::load(&source, Some(&beside as Files<'_>), &mut diagnostics);
                if !scenario.is_some_and(|scenario| scenario.check_primary(check_planned, &mut diagnostics)) {
                    return Err(failure::config(&source, &diagnostics));
                }
            }
            for name in sweep.files() {
                // If a file cannot be read, the run that names it reports the error.
                if let Ok(found) = beside(&name) {
                    sweep.depend_on(&name, found.text());
                }
            }
            Ok(Self { sweep })
        })
    }

    /// The number of runs.
    #[getter]
    fn runs(&self) -> usize {
        self.sweep.runs()
    }

    /// The number of batches.
    #[getter]
    fn batches(&self) -> usize {
        self.sweep.batches()
    }

    /// The path of each key of the axes, with its values in their order, which files keep.
    #[getter]
    fn order(&self) -> Order {
        self.sweep.order()
    }

    /// The file name and the runs of batch `number`, counted from 0.
    fn batch(&self, number: usize) -> PyResult<(String, Vec<Run>)> {
        Ok(named(self.sweep.batch(number).map_err(PyKeyError::new_err)?))
    }

    /// The part of batch `number` whose results are not known, in a file with a name of its own.
    fn missing(&self, number: usize) -> PyResult<(String, Vec<Run>)> {
        Ok(named(self.sweep.missing(self.sweep.batch(number).map_err(PyKeyError::new_err)?)))
    }

    /// The sweep without the runs whose results are in a file, of which this is the name and the content; `None` if it was not made of this
    /// scenario.
    fn knowing(&self, name: &str, file: Vec<u8>) -> PyResult<Option<Self>> {
        let Ok(table) = Table::from_parquet(file) else { return Ok(None) };
        let mut sweep = self.sweep.clone();
        let is_ours = sweep.know(name, swept::runs(&table)).map_err(PyKeyError::new_err)?;
        Ok(is_ours.then_some(Self { sweep }))
    }
}

/// The name and the runs of a batch.
fn named(Batch { name, runs }: Batch) -> (String, Vec<Run>) {
    (name, runs.into_iter().map(|Point { values, text, seed }| (values, text.to_string(), seed)).collect())
}

/// Simulates some runs. Returns their rows as a Parquet file, which is empty if all of them failed and keeps the order of the axes, and
/// the indices of the runs that failed, with the reasons.
#[pyfunction]
pub fn run_batch(
    py: Python<'_>,
    runs: Vec<Run>,
    folder: PathBuf,
    order: Order,
) -> PyResult<(Vec<u8>, Vec<(usize, String)>)> {
    failure::guarded(py, || {
        let (mut made, mut failed): (Vec<(&[(String, String)], Outcome)>, _) = (Vec::new(), Vec::new());
        let mut loaded: Option<(&str, Result<Checked, String>)> = None;
        for (number, (values, text, seed)) in runs.iter().enumerate() {
            if loaded.as_ref().is_none_or(|(known, _)| *known != text) {
                let load = || Checked::load(text.clone(), "<sweep>".into(), Some(folder.clone()));
                loaded = Some((text, attempted(load)?));
            }
            let outcome = match &loaded {
                Some((_, Ok(checked))) => attempted(|| all(&checked.scenario, *seed, 1, 1))?,
                Some((_, Err(reason))) => Err(reason.clone()),
                None => continue,
            };
            match outcome {
                Ok(outcome) => made.extend(outcome.into_iter().map(|outcome| (&**values, outcome))),
                Err(reason) => failed.push((number, reason)),
            }
        }
        if made.is_empty() {
            return Ok((Vec::new(), failed));
        }
        let primary = match &loaded {
            Some((_, Ok(checked))) => checked.scenario.primary.as_slice(),
            _ => &[],
        };
        let mut rows = sweep_rows(made.iter().map(|(values, outcome)| (*values, shown(outcome))), primary);
        rows.order = order;
        let bytes = rows.parquet().map_err(|error| failure::error("InternalError", error.to_string()))?;
        Ok((bytes, failed))
    })
}

/// Runs `work`. The inner error is the text of an exception or a panic. The outer error is an exception that is not an
/// `Exception`, such as a `KeyboardInterrupt`.
fn attempted<T>(work: impl FnOnce() -> PyResult<T>) -> PyResult<Result<T, String>> {
    let error = match caught(work) {
        Ok(Ok(done)) => return Ok(Ok(done)),
        Ok(Err(error)) => error,
        Err(payload) => failure::exception(payload),
    };
    let is_failure = Python::attach(|py| error.is_instance_of::<PyException>(py));
    if is_failure { Ok(Err(error.to_string())) } else { Err(error) }
}
