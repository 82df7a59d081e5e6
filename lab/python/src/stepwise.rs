//! [`Simulation`]: a run that advances step by step.
//!
//! The network lives on a thread of its own, which ends with the object. So any Python thread may use the simulation,
//! the interpreter's lock is released while it runs, and several simulations can run at the same time ([`run_all`]).

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{self, RecvTimeoutError, Sender};
use std::sync::{Arc, Mutex, PoisonError};

use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use tidegate_config::{Diagnostics, Source};
use tidegate_core::{Instant, Span};
use tidegate_sim::scenario::{Run, Scenario};

use crate::failure::{self, Payload, caught};
use crate::results::Results;
use crate::scenario::{Checked, open_beside};
use crate::watch::{self, PERIOD};

type Network = Run<Arc<Scenario>>;
type Job = Box<dyn FnOnce(&mut Network) + Send>;
type Reply<T> = mpsc::Receiver<Result<T, Payload>>;

/// A run of a scenario that advances step by step: it can be run until some time, inspected, changed and continued.
#[pyclass(frozen, module = "tidegate._tidegate")]
pub struct Simulation {
    checked: Checked,
    seed: u64,
    parts: bool,
    /// The channel to the thread of the network; `None` once the simulation is finished.
    jobs: Mutex<Option<Sender<Job>>>,
    stop: Arc<AtomicBool>,
}

/// A point in simulated time, in nanoseconds or as text with a unit.
#[derive(FromPyObject)]
pub enum Time {
    Nanos(u64),
    Text(String),
}

impl Time {
    fn instant(&self) -> PyResult<Instant> {
        match self {
            Self::Nanos(nanos) => Ok(Instant::from_nanos(*nanos)),
            Self::Text(text) => match text.parse::<Span>() {
                Ok(span) => Ok(Instant::ZERO + span),
                Err(error) => Err(PyValueError::new_err(format!("{text:?}: {error}; write for example \"10s\""))),
            },
        }
    }
}

fn ended() -> PyErr {
    failure::error(
        "TidegateError",
        "this simulation has ended: it was finished, or an error ended it; make another one",
    )
}

impl Simulation {
    /// Sends `work` to the thread of the network.
    fn send<T: Send + 'static>(&self, work: impl FnOnce(&mut Network) -> T + Send + 'static) -> PyResult<Reply<T>> {
        let (reply, receiver) = mpsc::channel();
        let mut jobs = self.jobs.lock().unwrap_or_else(PoisonError::into_inner);
        let job: Job = Box::new(move |network| {
            let done = caught(|| work(network));
            let failed = done.is_err();
            // Nobody waits for the reply if Python was interrupted a second time.
            let _ = reply.send(done);
            if failed {
                // The network may be inconsistent after the failure, so its thread ends.
                std::panic::resume_unwind(Box::new(()));
            }
        });
        let sent = jobs.as_ref().is_some_and(|jobs| jobs.send(job).is_ok());
        if sent {
            return Ok(receiver);
        }
        *jobs = None;
        Err(ended())
    }

    /// Waits for a reply. A signal sets `stop`.
    fn wait<T>(&self, reply: &Reply<T>) -> PyResult<T> {
        let mut interrupted: Option<PyErr> = None;
        loop {
            match reply.recv_timeout(PERIOD) {
                Ok(Ok(done)) => return interrupted.map_or(Ok(done), Err),
                Ok(Err(payload)) => return Err(failure::exception(payload)),
                Err(RecvTimeoutError::Disconnected) => return Err(ended()),
                Err(RecvTimeoutError::Timeout) => {
                    if let Err(error) = watch::signals() {
                        self.stop.store(true, Ordering::Relaxed);
                        interrupted.get_or_insert(error);
                    }
                }
            }
        }
    }

    fn call<T: Send + 'static>(
        &self,
        py: Python<'_>,
        work: impl FnOnce(&mut Network) -> T + Send + 'static,
    ) -> PyResult<T> {
        failure::guarded(py, || self.wait(&self.send(work)?))
    }

    /// Starts to run until `end`, without waiting.
    fn go(&self, end: Instant) -> PyResult<Reply<u64>> {
        self.stop.store(false, Ordering::Relaxed);
        let stop = Arc::clone(&self.stop);
        self.send(move |network| {
            watch::steps(network, end, || !stop.load(Ordering::Relaxed));
            network.now().as_nanos()
        })
    }
}

#[pymethods]
impl Simulation {
    /// Prepares a run of the scenario with `seed`. If the scenario has variants, `variant` names one of them. With
    /// `parts`
    /// each flow and class of a watched link is measured over time as well.
    #[new]
    #[pyo3(signature = (scenario, seed, variant=None, parts=false))]
    fn new(scenario: &Checked, seed: u64, variant: Option<&str>, parts: bool) -> PyResult<Self> {
        let part = match variant {
            None => 0,
            Some(name) => scenario.scenario.variant_names().position(|known| known == name).ok_or_else(|| {
                let names: Vec<&str> = scenario.scenario.variant_names().collect();
                PyValueError::new_err(format!("no variant is called {name:?}; there are {names:?}"))
            })?,
        };
        let (jobs, receiver) = mpsc::channel::<Job>();
        let shared = scenario.detailed(parts);
        let thread = std::thread::Builder::new().name("tidegate".into()).spawn(move || {
            // The failure of a job has already been sent as its reply.
            let _ = caught(move || {
                failure::on_thread(move || {
                    let Ok(first) = receiver.recv() else { return };
                    let mut network = Run::new(shared, seed, part);
                    first(&mut network);
                    for job in receiver {
                        job(&mut network);
                    }
                })
            });
        });
        thread.map_err(|error| failure::error("TidegateError", format!("no thread for the simulation: {error}")))?;
        let jobs = Mutex::new(Some(jobs));
        Ok(Self { checked: scenario.clone(), seed, parts, jobs, stop: Arc::new(AtomicBool::new(false)) })
    }

    /// Runs until a time (ns, or text with a unit), or until the end of the scenario's duration if that is earlier.
    /// Returns the simulated time in ns. After Ctrl-C the simulation has stopped at an earlier time, and can be
    /// continued.
    fn run_until(&self, py: Python<'_>, time: Time) -> PyResult<u64> {
        let end = time.instant()?;
        failure::guarded(py, || self.wait(&self.go(end)?))
    }

    /// The simulated time in ns.
    #[getter]
    fn now_ns(&self, py: Python<'_>) -> PyResult<u64> {
        self.call(py, |network| network.now().as_nanos())
    }

    /// Whether the end of the scenario's duration is reached.
    #[getter]
    fn is_over(&self, py: Python<'_>) -> PyResult<bool> {
        self.call(py, |network| network.is_over())
    }

    /// The current state as JSON.
    fn _look(&self, py: Python<'_>) -> PyResult<String> {
        self.call(py, |network| network.snapshot().to_string())
    }

    /// Performs an action, given as a TOML table as in `[[at]]`. Returns its report as JSON.
    fn _act(&self, py: Python<'_>, action: String) -> PyResult<String> {
        let source = Source::new("<action>", action);
        let folder = self.checked.folder.clone();
        let done = self.call(py, move |network| {
            let mut diagnostics = Diagnostics::new();
            let beside = folder.map(|folder| move |name: &str| open_beside(&folder, name));
            let files = beside.as_ref().map(|beside| beside as &dyn Fn(&str) -> std::io::Result<Source>);
            match network.act(&source, files, &mut diagnostics) {
                Some(report) => Ok((report.kind, report.refused, report.result)),
                None => Err((source, diagnostics)),
            }
        })?;
        match done {
            Ok((kind, refused, result)) => {
                Ok(serde_json::json!({ "kind": kind, "refused": refused, "result": result }).to_string())
            }
            Err((source, diagnostics)) => Err(failure::config(&source, &diagnostics)),
        }
    }

    /// The results so far, without the reports of shapers, which only :meth:`finish` returns. The run can be continued.
    fn results(&self, py: Python<'_>) -> PyResult<Results> {
        let outcome = self.call(py, |network| network.outcome())?;
        Ok(Results::new(self.checked.clone(), vec![outcome], self.parts))
    }

    /// Runs to the end of the duration and returns the results. The simulation is then finished. If nothing was changed
    /// and the scenario has no variants, the digest equals that of `simulate` with this seed.
    fn finish(&self, py: Python<'_>) -> PyResult<Results> {
        self.run_until(py, Time::Nanos(u64::MAX))?;
        let outcome = self.call(py, |network| network.finish())?;
        self.jobs.lock().unwrap_or_else(PoisonError::into_inner).take();
        Ok(Results::new(self.checked.clone(), vec![outcome], self.parts))
    }

    /// The seed of the run.
    #[getter]
    fn seed(&self) -> u64 {
        self.seed
    }

    /// The scenario.
    #[getter]
    fn scenario(&self) -> Checked {
        self.checked.clone()
    }
}

/// Runs several simulations at the same time, each until its own time in ns. Returns their simulated times in ns.
#[pyfunction]
pub fn run_all(py: Python<'_>, simulations: Vec<Py<Simulation>>, times: Vec<u64>) -> PyResult<Vec<u64>> {
    if simulations.len() != times.len() {
        return Err(PyValueError::new_err("as many times as simulations are needed"));
    }
    let simulations: Vec<&Simulation> = simulations.iter().map(Py::get).collect();
    failure::guarded(py, || {
        let begun = simulations.iter().zip(&times).map(|(one, time)| one.go(Instant::from_nanos(*time)));
        let begun: Vec<PyResult<Reply<u64>>> = begun.collect();
        let mut failed = None;
        let mut ends = Vec::with_capacity(times.len());
        for (simulation, reply) in simulations.iter().zip(begun) {
            match reply.and_then(|reply| simulation.wait(&reply)) {
                Ok(end) => ends.push(end),
                Err(error) => {
                    simulations.iter().for_each(|one| one.stop.store(true, Ordering::Relaxed));
                    failed.get_or_insert(error);
                }
            }
        }
        failed.map_or(Ok(ends), Err)
    })
}
