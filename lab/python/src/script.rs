//! Runs scripts of arrivals.

use std::path::PathBuf;

use pyo3::prelude::*;
use tidegate_config::Source;
use tidegate_core::AnyQdisc;
use tidegate_report::columns::{self, Column};
use tidegate_script::{EventKind, Item, Limits, Outcome, Script};

use crate::failure;
use crate::qdisc::PythonQdisc;
use crate::scenario::open_beside;
use crate::table::Table;

/// The result of a script.
#[pyclass(frozen, module = "tidegate._tidegate")]
pub struct ScriptResult {
    outcome: Outcome,
}

#[pymethods]
impl ScriptResult {
    /// Whether all expectations hold; also the truth value.
    #[getter]
    fn holds(&self) -> bool {
        self.outcome.holds()
    }
    /// The number of expectations.
    #[getter]
    fn expectations(&self) -> usize {
        self.outcome.expectations
    }
    /// The expectations that failed, each with its place in the script and the surrounding events. Empty if all hold.
    #[getter]
    fn failures(&self) -> String {
        if self.outcome.holds() { String::new() } else { self.outcome.failures() }
    }
    /// The digest of all arrivals, departures and drops.
    #[getter]
    fn digest(&self) -> String {
        self.outcome.digest().to_string()
    }
    /// One row for each arrival, departure and drop: `time_ns` (int64), `flow`, `number`, `what` (`arrived`, `left`,
    /// `dropped`), `reason`, `size_bytes`, `waited_ns`, `marked` (bool).
    #[getter]
    fn trace(&self) -> PyResult<Table> {
        let log = &self.outcome.log;
        let packet = |id: u32| &log.packets[id as usize];
        let text = |of: &dyn Fn(&tidegate_script::Record) -> Option<String>| {
            Column::Text(log.records.iter().map(of).collect())
        };
        let number = |of: &dyn Fn(&tidegate_script::Record) -> Option<u64>| {
            Column::Integer(log.records.iter().map(of).collect())
        };
        let table = columns::Table::default()
            .with("time_ns", number(&|record| Some(record.time.as_nanos())))
            .with("flow", text(&|record| Some(log.names[packet(record.id).flow].clone())))
            .with("number", number(&|record| Some(packet(record.id).number.into())))
            .with(
                "what",
                text(&|record| {
                    let what = match record.kind {
                        EventKind::Arrived => "arrived",
                        EventKind::Left => "left",
                        EventKind::Dropped(_) => "dropped",
                    };
                    Some(what.to_owned())
                }),
            )
            .with(
                "reason",
                text(&|record| match record.kind {
                    EventKind::Dropped(reason) => Some(reason.name().replace('_', "-")),
                    EventKind::Arrived | EventKind::Left => None,
                }),
            )
            .with("size_bytes", number(&|record| Some(packet(record.id).size.as_u64())))
            .with(
                "waited_ns",
                number(&|record| {
                    let waited = record.time.since(packet(record.id).arrived).as_nanos();
                    (record.kind != EventKind::Arrived).then_some(waited)
                }),
            )
            .with(
                "marked",
                Column::Truth(
                    log.records
                        .iter()
                        .map(|record| Some(record.kind == EventKind::Left && packet(record.id).marked))
                        .collect(),
                ),
            );
        Table::new(table)
    }
    fn __bool__(&self) -> bool {
        self.outcome.holds()
    }
    fn __repr__(&self) -> String {
        let outcome = &self.outcome;
        format!("<tidegate.ScriptResult: {} of {} expectations failed>", outcome.unmet, outcome.expectations)
    }
}

/// Runs a script on the discipline or configuration that it names, or on the discipline in Python that `make` returns.
#[pyfunction]
#[pyo3(signature = (text, name, folder, make=None))]
pub fn run_script(
    py: Python<'_>,
    text: String,
    name: String,
    folder: PathBuf,
    make: Option<Py<PyAny>>,
) -> PyResult<ScriptResult> {
    failure::guarded(py, move || {
        let mut files = |name: &str| open_beside(&folder, name).map_err(|error| error.to_string());
        let refused = |findings: tidegate_script::Findings| failure::error("ConfigError", findings.to_string());
        let script = Script::parse(Source::new(name, text), &Limits::default(), &mut files).map_err(refused)?;
        let outcome = match make {
            None => script.run(),
            Some(make) => {
                let made = Python::attach(|py| make.bind(py).call0().map(Bound::unbind))?;
                script.run_on(|now| match Python::attach(|py| PythonQdisc::new(made.bind(py), now, 1)) {
                    Ok(qdisc) => Box::new(AnyQdisc::<Item>::new(Box::new(qdisc))),
                    Err(error) => failure::unwind(error),
                })
            }
        };
        Ok(ScriptResult { outcome: outcome.map_err(refused)? })
    })
}
