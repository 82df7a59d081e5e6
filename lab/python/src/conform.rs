//! `run_conform`: the suite for congestion controls.

use std::ops::ControlFlow;

use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use tidegate_sim::scenario::conform::{Case, Judgement, Subject, suite};

use crate::failure;
use crate::watch;

/// Examines a congestion control, a value of `tcp.congestion` in TOML, by the criteria of RFC 9743, over TCP or QUIC. Returns the
/// result as JSON. `only` names cases; an empty list means all.
#[pyfunction]
pub fn run_conform(
    py: Python<'_>,
    control: String,
    quic: bool,
    seed: u64,
    runs: u32,
    only: Vec<String>,
) -> PyResult<String> {
    failure::guarded(py, move || {
        let subject = Subject::named(&control, quic);
        let all = suite();
        if let Some(name) = only.iter().find(|name| !all.iter().any(|case| case.name == name.as_str())) {
            let known: Vec<&str> = all.iter().map(|case| case.name).collect();
            return Err(PyValueError::new_err(format!("there is no case {name}; there are {}", known.join(", "))));
        }
        let chosen = all.into_iter().filter(|case| only.is_empty() || only.iter().any(|name| name == case.name));
        let seeds = (0..u64::from(runs)).map(|n| seed.wrapping_add(n));
        let examine = |case: Case| {
            let mut stopped = None;
            let made = case.run(&subject, seeds.clone(), |_| match watch::signals() {
                Ok(()) => ControlFlow::Continue(()),
                Err(error) => {
                    stopped = Some(error);
                    ControlFlow::Break(())
                }
            });
            match (made, stopped) {
                (_, Some(error)) => Err(error),
                (Ok(Some(runs)), None) => Ok((case, runs)),
                (Ok(None), None) => Err(PyValueError::new_err("stopped")),
                (Err(wrong), None) => Err(PyValueError::new_err(wrong.trim_end().to_owned())),
            }
        };
        let made = chosen.map(examine).collect::<PyResult<Vec<_>>>()?;
        Ok(Judgement::new(&control, &subject, made).json(env!("CARGO_PKG_VERSION")).to_string())
    })
}
