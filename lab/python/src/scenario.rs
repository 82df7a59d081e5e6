//! [`Checked`]: a scenario that has been read and checked.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use pyo3::prelude::*;
use tidegate_config::node::{Node, Value};
use tidegate_config::{Diagnostics, Source};
use tidegate_report::check_planned;
use tidegate_sim::scenario::{Detail, Scenario};

use crate::failure;

/// A scenario that has been read and checked. It is immutable, and any number of runs may use it at the same time.
#[pyclass(frozen, module = "tidegate._tidegate")]
#[derive(Clone)]
pub struct Checked {
    pub scenario: Arc<Scenario>,
    pub source: Arc<Source>,
    pub folder: Option<PathBuf>,
}

/// Opens a file that a scenario names, relative to the scenario's folder.
pub fn open_beside(folder: &Path, name: &str) -> std::io::Result<Source> {
    Source::open(&folder.join(name))
}

/// Converts a value of a file to JSON. A date becomes null.
pub fn json(node: &Node) -> serde_json::Value {
    match &node.value {
        Value::Text(text) => text.as_str().into(),
        Value::Integer(number) => (*number).into(),
        Value::Float(number) => (*number).into(),
        Value::Truth(truth) => (*truth).into(),
        Value::Date => serde_json::Value::Null,
        Value::List(list) => list.iter().map(json).collect(),
        Value::Table(entries) => entries.iter().map(|entry| (entry.key.clone(), json(&entry.node))).collect(),
    }
}

impl Checked {
    /// Like [`Checked::new`], with the interpreter's lock released.
    pub fn load(text: String, name: String, folder: Option<PathBuf>) -> PyResult<Self> {
        let source = Source::new(name, text);
        let mut diagnostics = Diagnostics::new();
        let beside = folder.as_deref().map(|folder| move |name: &str| open_beside(folder, name));
        let files = beside.as_ref().map(|beside| beside as &dyn Fn(&str) -> std::io::Result<Source>);
        let scenario = Scenario::load(&source, files, &mut diagnostics);
        match scenario.filter(|scenario| scenario.check_primary(check_planned, &mut diagnostics)) {
            Some(scenario) => Ok(Self { scenario: Arc::new(scenario), source: Arc::new(source), folder }),
            None => Err(failure::config(&source, &diagnostics)),
        }
    }

    /// Returns the scenario to run. With `parts`, each flow and class of a watched link is measured over time as well.
    pub fn detailed(&self, parts: bool) -> Arc<Scenario> {
        if !parts {
            return Arc::clone(&self.scenario);
        }
        let mut scenario = Scenario::clone(&self.scenario);
        scenario.detail = Detail::Parts;
        Arc::new(scenario)
    }
}

#[pymethods]
impl Checked {
    /// Reads a scenario from its text. Files that it names are looked up in `folder`. Without a folder it may not name
    /// any.
    #[new]
    #[pyo3(signature = (text, name, folder=None))]
    fn new(py: Python<'_>, text: String, name: String, folder: Option<PathBuf>) -> PyResult<Self> {
        failure::guarded(py, || Self::load(text, name, folder))
    }

    /// The scenario as a dictionary with the keys of a file. It can be changed and given to `simulate` or `Scenario`.
    fn to_dict<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        let mut diagnostics = Diagnostics::new();
        let node = Node::parse(&self.source, &mut diagnostics);
        let node = node.ok_or_else(|| failure::config(&self.source, &diagnostics))?;
        py.import("json")?.getattr("loads")?.call1((json(&node).to_string(),))
    }

    /// The folder in which files that it names are looked for; `None` if it may name none.
    #[getter]
    fn folder(&self) -> Option<PathBuf> {
        self.folder.clone()
    }
    /// The name by which errors and reports call it.
    #[getter]
    fn name(&self) -> &str {
        self.source.name()
    }
    /// The text of its file.
    #[getter]
    fn text(&self) -> &str {
        self.source.text()
    }
    /// One sentence on what it shows.
    #[getter]
    fn sentence(&self) -> Option<&str> {
        self.scenario.sentence.as_deref()
    }
    /// The simulated time, in ns.
    #[getter]
    fn duration_ns(&self) -> u64 {
        self.scenario.duration.as_nanos()
    }
    /// The beginning that is not measured, in ns.
    #[getter]
    fn warm_up_ns(&self) -> u64 {
        self.scenario.warm_up().as_nanos()
    }
    /// The first seed.
    #[getter]
    fn seed(&self) -> u64 {
        self.scenario.seed
    }
    /// The number of runs.
    #[getter]
    fn runs(&self) -> u32 {
        self.scenario.runs
    }
    /// The names of the variants; none where there are none.
    #[getter]
    fn variants(&self) -> Vec<&str> {
        self.scenario.variant_names().collect()
    }
}
