//! Checks for signals of the interpreter while Rust runs, in steps that are short enough for this.

use std::ops::Deref;
use std::time::Duration;

use pyo3::prelude::*;
use tidegate_core::Instant;
use tidegate_sim::scenario::{Run, Scenario};

/// The interval between checks for signals.
pub const PERIOD: Duration = Duration::from_millis(20);

/// The number of events of a step, which takes some milliseconds even with a discipline in Python.
const EVENTS: u64 = 10_000;

/// Runs the Python handlers of signals that have arrived, so that Ctrl-C raises `KeyboardInterrupt`. Only the main
/// thread of the interpreter runs handlers.
///
/// # Errors
/// The exception that a signal handler raised.
pub fn signals() -> PyResult<()> {
    Python::attach(|py| py.check_signals())
}

/// Runs until `end` in short steps, and calls `pause` after each. Returns `false` if `pause` did, which ends the run.
pub fn steps<S: Deref<Target = Scenario>>(run: &mut Run<S>, end: Instant, mut pause: impl FnMut() -> bool) -> bool {
    loop {
        let reached = run.run_some(end, EVENTS);
        if !pause() {
            return false;
        }
        if reached {
            return true;
        }
    }
}
