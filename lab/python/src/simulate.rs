//! `simulate`: makes all runs of a scenario, on several processors.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::mpsc::{self, RecvTimeoutError};

use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use tidegate_core::{Instant, Span};
use tidegate_sim::scenario::{Outcome, Run, Scenario};

use crate::failure::{self, Payload, caught};
use crate::results::Results;
use crate::scenario::Checked;
use crate::watch::{self, PERIOD};

/// Simulates a scenario with the seeds `seed`, `seed + 1`, ..., each with all variants. `jobs` simulations run at a
/// time. Without `runs` the scenario decides, by its number or by its rule.
#[pyfunction]
#[pyo3(signature = (scenario, seed, runs, jobs, parts))]
pub fn simulate(
    py: Python<'_>,
    scenario: &Checked,
    seed: u64,
    runs: Option<u32>,
    jobs: usize,
    parts: bool,
) -> PyResult<Results> {
    let scenario = scenario.clone();
    failure::guarded(py, move || {
        let detailed = scenario.detailed(parts);
        let (first, most) = runs.map_or(detailed.planned_runs(), |runs| (runs, runs));
        detailed.check_runs(first as usize).map_err(PyValueError::new_err)?;
        let mut outcomes = all(&detailed, seed, first as usize, jobs.max(1))?;
        if let Some(until) = detailed.until.as_ref().filter(|_| runs.is_none()) {
            let judge = |outcomes: &[Outcome]| {
                until.judge(outcomes).map_err(|text| PyValueError::new_err(format!("until: {text}")))
            };
            while let Some(next) = judge(&outcomes)?.next.filter(|_| outcomes.len() < most as usize) {
                let made = outcomes.len();
                let more = next.min(most) as usize - made;
                outcomes.extend(all(&detailed, seed.wrapping_add(made as u64), more, jobs.max(1))?);
            }
        }
        Ok(Results::new(scenario, outcomes, parts))
    })
}

/// Runs one part of the scenario (a variant). Returns `None` if it was stopped.
fn part(scenario: &Scenario, seed: u64, part: usize, stop: &AtomicBool) -> Option<Outcome> {
    let mut run = Run::new(scenario, seed, part);
    let end = Instant::ZERO + scenario.duration.max(Span::from_nanos(1));
    watch::steps(&mut run, end, || !stop.load(Ordering::Relaxed)).then(|| run.finish())
}

/// Simulates `runs` seeds, beginning with `seed`, with all variants. `jobs` simulations run at a time. A signal ends
/// them.
pub fn all(scenario: &Arc<Scenario>, seed: u64, runs: usize, jobs: usize) -> PyResult<Vec<Outcome>> {
    let parts = scenario.parts();
    let wanted = runs * parts;
    let (next, stop) = (AtomicUsize::new(0), AtomicBool::new(false));
    let mut outcomes: Vec<Option<Outcome>> = (0..wanted).map(|_| None).collect();
    let mut failed: Option<PyErr> = None;
    std::thread::scope(|scope| {
        let (sender, receiver) = mpsc::channel::<(usize, Result<Option<Outcome>, Payload>)>();
        for _ in 0..jobs.min(wanted) {
            let (sender, next, stop) = (sender.clone(), &next, &stop);
            let runs = move || {
                loop {
                    let index = next.fetch_add(1, Ordering::Relaxed);
                    if index >= wanted || stop.load(Ordering::Relaxed) {
                        return;
                    }
                    let seed = seed.wrapping_add((index / parts) as u64);
                    let outcome = caught(|| part(scenario, seed, index % parts, stop));
                    if sender.send((index, outcome)).is_err() {
                        return;
                    }
                }
            };
            scope.spawn(|| failure::on_thread(runs));
        }
        drop(sender);
        loop {
            let error = match receiver.recv_timeout(PERIOD) {
                Ok((index, Ok(outcome))) => {
                    outcomes[index] = outcome;
                    None
                }
                Ok((_, Err(payload))) => Some(failure::exception(payload)),
                Err(RecvTimeoutError::Timeout) => watch::signals().err(),
                Err(RecvTimeoutError::Disconnected) => break,
            };
            if let Some(error) = error {
                stop.store(true, Ordering::Relaxed);
                failed.get_or_insert(error);
            }
        }
    });
    // A short run may have ended before signals were checked.
    failed.map_or_else(watch::signals, Err)?;
    let mut outcomes = outcomes.into_iter().flatten();
    let of_seed = |n: usize| Outcome::joined(seed.wrapping_add(n as u64), outcomes.by_ref().take(parts).collect());
    Ok((0..runs).map(of_seed).collect())
}
