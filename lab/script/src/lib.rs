//! Scripts: arrivals, control of time, and expected departures, waits and drops, for one discipline or a whole shaper
//! file.
//!
//! ```
//! use tidegate_config::Source;
//! use tidegate_script::{Limits, Script, no_files};
//!
//! let text = r#"
//!     discipline { kind = "fifo", packets = 2 }  # so that the third packet finds a full queue
//!     link 8mbit                                 # 1000 B take 1 ms
//!     flow a, b size 1000
//!     at 0ms send a b a
//!     expect a b
//!     expect b#1 leaves at 1ms
//!     expect drop a by queue-limit at 0ms
//! "#;
//! let script = Script::parse(Source::new("two.tgs", text), &Limits::default(), &mut no_files).unwrap();
//! let outcome = script.run().unwrap();
//! assert!(outcome.holds(), "{}", outcome.failures());
//! ```
//!
//! Tests of a discipline can run a script on it directly. A `discipline` in the script is then ignored:
//!
//! ```
//! use tidegate_core::fifo::{Fifo, Limit};
//! tidegate_script::run_qdisc("one.tgs", "flow a\nat 0s send 3 a\nexpect 2 a\nexpect drop a", |_now| {
//!     Box::new(Fifo::new(Limit::packets(2)))
//! })
//! .unwrap_or_else(|failures| panic!("{failures}"));
//! ```
//!
//! The language is described in the book, *The script language*; [`parse`](mod@parse) has its grammar. The crate reads
//! neither a clock nor files, so a run is the same on every machine, and has a digest.

pub mod expect;
mod findings;
mod lex;
pub mod log;
pub mod packet;
pub mod parse;
pub mod run;
pub mod script;
mod target;

use tidegate_config::Source;
use tidegate_core::{Instant, Qdisc};

pub use findings::Findings;
pub use log::{EventKind, Log, Record};
pub use packet::Item;
pub use run::Outcome;
pub use script::{Limits, Script, Subject, no_files};

/// Runs `text` on the discipline that `make` builds for the first instant of the script.
///
/// # Errors
/// The errors of the script, or the failed expectations, as text with line and column.
pub fn run_qdisc(
    name: &str,
    text: &str,
    make: impl FnOnce(Instant) -> Box<dyn Qdisc<Item>>,
) -> Result<Outcome, String> {
    let script = Script::parse(Source::new(name, text), &Limits::default(), &mut no_files)
        .map_err(|findings| findings.to_string())?;
    let outcome = script.run_on(make).map_err(|findings| findings.to_string())?;
    if outcome.holds() { Ok(outcome) } else { Err(outcome.failures()) }
}
