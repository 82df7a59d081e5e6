//! Signals of the interpreter while Rust runs, and steps that are short enough for them.

use std::ops::Deref;
use std::time::{Duration, Instant as Clock};

use pyo3::prelude::*;
use tidegate_core::{Instant, Span};
use tidegate_sim::scenario::{Run, Scenario};

/// Signals are looked for this often.
pub const PERIOD: Duration = Duration::from_millis(20);

/// Runs the handlers of signals that have arrived: Ctrl-C raises `KeyboardInterrupt`. Only the main thread of the
/// interpreter runs them, as Python has it.
///
/// # Errors
/// What a handler raised.
pub fn signals() -> PyResult<()> {
    Python::attach(|py| py.check_signals())
}

/// Runs until `end` in steps of about half a [`PERIOD`] of real time, and calls `pause` after each. Returns `false` where
/// that did, which ends the run.
pub fn steps<S: Deref<Target = Scenario>>(run: &mut Run<S>, end: Instant, mut pause: impl FnMut() -> bool) -> bool {
    let mut step = Span::from_nanos((run.scenario().duration.as_nanos() / 256).max(1));
    while run.now() < end && !run.is_over() {
        let begin = Clock::now();
        run.run_until((run.now() + step).min(end));
        let took = begin.elapsed();
        if took > PERIOD / 2 {
            let part = took.as_nanos() / (PERIOD / 4).as_nanos();
            step = Span::from_nanos((step.as_nanos() / (part as u64).max(2)).max(1));
        } else if took < PERIOD / 8 {
            step = Span::from_nanos(step.as_nanos().saturating_mul(2));
        }
        if !pause() {
            return false;
        }
    }
    true
}
