//! The native part of the Python package `tidegate`. It converts arguments and results, and calls the crates that do
//! the work. Users import the modules in `python/tidegate`.
//!
//! The interpreter's lock is released while Rust runs. Signals of the interpreter are checked every 20 ms
//! ([`watch`]), and a panic becomes `tidegate.InternalError` ([`failure`]).
#![forbid(unsafe_code)]

mod conform;
mod congestion;
mod decider;
mod failure;
mod figure;
mod function;
mod laws;
mod pace;
mod paced;
mod qdisc;
mod replay;
mod results;
mod scenario;
mod script;
mod simulate;
mod stepwise;
mod sweep;
mod table;
mod watch;

use pyo3::prelude::*;

/// The native part of the package `tidegate`.
#[pymodule]
mod _tidegate {
    #[pymodule_export]
    use crate::conform::run_conform;
    #[pymodule_export]
    use crate::congestion::{PyAck, PySample};
    #[pymodule_export]
    use crate::decider::Decider;
    #[pymodule_export]
    use crate::figure::{Figure, draw_table};
    #[pymodule_export]
    use crate::laws::check_laws;
    #[pymodule_export]
    use crate::pace::PacedSocket;
    #[pymodule_export]
    use crate::qdisc::{Packet, PyOutlet};
    #[pymodule_export]
    use crate::replay::{Replay, run_explain, run_replay};
    #[pymodule_export]
    use crate::results::Results;
    #[pymodule_export]
    use crate::scenario::Checked;
    #[pymodule_export]
    use crate::script::{ScriptResult, run_script};
    #[pymodule_export]
    use crate::simulate::simulate;
    #[pymodule_export]
    use crate::stepwise::{Simulation, run_all};
    #[pymodule_export]
    use crate::sweep::{Sweep, run_batch};
    #[pymodule_export]
    use crate::table::{Table, TableRows};
    use pyo3::prelude::*;

    #[pymodule_init]
    fn init(module: &Bound<'_, PyModule>) -> PyResult<()> {
        crate::qdisc::register_kind();
        crate::decider::register_kind();
        crate::congestion::register_kind();
        tidegate_quic::register(std::time::Instant::now());
        module.add("__version__", env!("CARGO_PKG_VERSION"))
    }
}
