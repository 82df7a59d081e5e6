//! Scenario files: a topology, disciplines, workloads, and the quantities to measure. [`file`](mod@file) describes
//! every key.
//!
//! ```
//! use tidegate_config::{Diagnostics, Source};
//! use tidegate_sim::scenario::Scenario;
//! let text = r#"
//!     version = 1
//!     duration = "5s"
//!     hosts = ["a", "b"]
//!     [[link]]
//!     from = "a"
//!     to = "b"
//!     rate = "10mbit"
//!     [[flow]]
//!     name = "bulk"
//!     from = "a"
//!     to = "b"
//!     workload = { kind = "bulk" }
//! "#;
//! let source = Source::new("small.toml", text);
//! let mut diagnostics = Diagnostics::new();
//! let scenario = Scenario::load(&source, None, &mut diagnostics).unwrap();
//! let outcome = scenario.run(1, |_| ());
//! let goodput = outcome.values.iter().find(|value| value.measure == "goodput").unwrap();
//! assert!(goodput.value > 9.5e6, "bit/s");
//! ```

pub mod actions;
pub mod conform;
pub mod congestion;
mod control;
mod curves;
mod experience;
pub mod file;
mod lasting;
mod measurable;
mod model;
mod names;
mod outcome;
mod outline;
pub mod queue;
mod registry;
mod report;
mod resolve;
mod run;
mod stored;
pub mod sweep;
mod targets;
mod trace;
mod traced;
pub mod transport;
mod until;

pub use file::Measure;
pub use model::{Detail, Scenario};
pub use outcome::{FlowPage, FlowTransfer, Outcome, Report, is_further};
pub use outline::{Outline, OutlinedFlow, OutlinedQueue, OutlinedTcp};
pub use resolve::Files;
pub use run::Run;
pub use tidegate_metrics::Value;
pub use until::{Progress, Until, WarmUp};

/// The JSON Schema of a scenario file.
pub fn schema() -> serde_json::Value {
    tidegate_config::schema::document("Tidegate scenario", <file::File as tidegate_config::Record>::object)
}
