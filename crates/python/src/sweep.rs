//! The runs of a sweep, and the rows of a batch. What begins batches and writes their files is in `sweeps.py`.

use std::cell::RefCell;
use std::path::PathBuf;

use pyo3::exceptions::{PyKeyError, PyValueError};
use pyo3::prelude::*;
use tidegate_config::node::Node;
use tidegate_config::{Diagnostics, Source};
use tidegate_report::simulation::sweep_rows;
use tidegate_sim::scenario::sweep::{self, Axis, Batch, Point};
use tidegate_sim::scenario::{Files, Outcome, Scenario};

use crate::failure;
use crate::results::shown;
use crate::scenario::{Checked, open_beside};
use crate::simulate::all;

/// The path and the value of each axis, the text of the scenario, and the seed.
type Run = (Vec<(String, String)>, String, u64);

/// A scenario for every combination of the values of some axes, under several seeds.
#[pyclass(frozen, module = "tidegate._tidegate")]
pub struct Sweep {
    sweep: sweep::Sweep,
}

#[pymethods]
impl Sweep {
    /// The scenario `text` along axes, each a path and a list of TOML. The first run is checked; files that it names are
    /// looked for in `folder`.
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
            let first = sweep.batch(0).map_err(PyKeyError::new_err)?;
            let named = RefCell::new(Vec::new());
            let beside = |name: &str| -> std::io::Result<Source> {
                let found = open_beside(&folder, name)?;
                named.borrow_mut().push(found.text().to_owned());
                Ok(found)
            };
            if let Some(point) = first.runs.first() {
                let source = Source::new(name.as_str(), &*point.text);
                if Scenario::load(&source, Some(&beside as Files<'_>), &mut diagnostics).is_none() {
                    return Err(failure::config(&source, &diagnostics));
                }
            }
            named.borrow().iter().for_each(|text| sweep.depend_on(text));
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

    /// The name of the file of batch `number`, from 0, and its runs.
    fn batch(&self, number: usize) -> PyResult<(String, Vec<Run>)> {
        let Batch { name, runs } = self.sweep.batch(number).map_err(PyKeyError::new_err)?;
        Ok((name, runs.into_iter().map(|Point { values, text, seed }| (values, text.to_string(), seed)).collect()))
    }
}

/// Makes some runs, and returns their rows as a Parquet file.
#[pyfunction]
pub fn run_batch(py: Python<'_>, runs: Vec<Run>, folder: PathBuf) -> PyResult<Vec<u8>> {
    failure::guarded(py, || {
        let mut outcomes: Vec<Outcome> = Vec::with_capacity(runs.len());
        let mut loaded: Option<(&str, Checked)> = None;
        for (_, text, seed) in &runs {
            let checked = match loaded.take() {
                Some((known, checked)) if known == text => checked,
                _ => Checked::load(text.clone(), "<sweep>".into(), Some(folder.clone()))?,
            };
            outcomes.extend(all(&checked.scenario, *seed, 1, 1)?);
            loaded = Some((text, checked));
        }
        let rows = sweep_rows(runs.iter().zip(&outcomes).map(|((values, ..), outcome)| (&**values, shown(outcome))));
        rows.parquet().map_err(|error| failure::error("InternalError", error.to_string()))
    })
}
