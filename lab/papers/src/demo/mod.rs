//! A demonstration of shaped traffic between namespaces. It needs no configuration and changes nothing on the host.

mod compare;
mod plan;
mod table;
mod testbed;
mod verdict;
mod view;

use std::fmt;
use std::io::Write;
use std::time::Duration;

use tidegate_live::netns;

use crate::Failure;
use testbed::{Moment, Testbed};

pub use compare::run as compare;
pub use plan::SHAPER;

/// The presentation of the demonstration.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Show {
    /// Shows a live view in the terminal, then the table.
    Screen,
    /// Prints lines on standard error, then the table.
    Lines,
    /// Prints lines on standard error, then the table as JSON.
    Json,
}

/// Runs the demonstration. The unshaped and the shaped part last `seconds` together; the table fits a terminal of
/// `width` characters, or is for a pipe. It must be called while the process is single-threaded.
///
/// # Errors
/// If namespaces cannot be created, or traffic cannot be sent or queued in them.
pub fn run(seconds: u64, show: Show, width: Option<usize>) -> Result<(), Failure> {
    let way = netns::enter().map_err(|error| Failure::Failed(error.to_string()))?;
    let testbed = Testbed::build()?;
    let unshaped = Duration::from_secs_f64((seconds as f64 / 5.0).clamp(1.5, 6.0));
    let shaped = Duration::from_secs(seconds).saturating_sub(unshaped);
    let (before, after) = if show == Show::Screen {
        let mut screen = view::Screen::open()?;
        let mut watch = |moment: &Moment| screen.draw(moment);
        let before = testbed.run(false, unshaped, &mut watch)?;
        let after = testbed.run(true, shaped, &mut watch)?;
        (before, after)
    } else {
        let mut lines = Lines::default();
        progress(format_args!("two hosts in namespaces of their own ({way:?}), a wire of {}", plan::WIRE));
        let mut watch = |moment: &Moment| lines.draw(moment);
        (testbed.run(false, unshaped, &mut watch)?, testbed.run(true, shaped, &mut watch)?)
    };
    let rows = table::rows(testbed.flows(), &before.outcomes, &after.outcomes);
    let verdict = verdict::verdict(&rows, after.disturbance.or(before.disturbance).as_deref());
    let mut out = std::io::stdout().lock();
    if show == Show::Json {
        table::json(&mut out, &rows, &verdict, [unshaped, shaped], testbed.open_wire.as_deref())
    } else {
        if let Some(why) = &testbed.open_wire {
            progress(format_args!("the wire could not be limited ({why}): the unshaped part had no bottleneck"));
        }
        table::print(&mut out, &rows, width)?;
        table::print_verdict(&mut out, &verdict, width)
    }
}

/// Writes a line to standard error. A closed pipe does not stop the demonstration.
fn progress(line: fmt::Arguments<'_>) {
    let _ = writeln!(std::io::stderr(), "{line}");
}

/// Prints a line each second, for use without a terminal.
#[derive(Default)]
struct Lines {
    notes: usize,
    next: f64,
    phase: &'static str,
}

impl Lines {
    fn draw(&mut self, moment: &Moment) -> Result<bool, Failure> {
        if self.phase != moment.phase {
            (self.phase, self.next, self.notes) = (moment.phase, 1.0, 0);
        }
        for note in &moment.notes[self.notes..] {
            progress(format_args!("{:8} {:5.1} s  {note}", moment.phase, moment.elapsed));
        }
        self.notes = moment.notes.len();
        if moment.elapsed >= self.next {
            self.next += 1.0;
            let list = |items: &mut dyn Iterator<Item = (&str, f64)>| {
                items.map(|(name, rate)| format!("{name} {:.1}", rate / 1e6)).collect::<Vec<_>>().join("  ")
            };
            let text = if moment.classes.is_empty() {
                list(&mut moment.flows.iter().map(|flow| (flow.name.as_str(), flow.rate)))
            } else {
                list(&mut moment.classes.iter().map(|class| (class.name.as_str(), class.rate)))
            };
            progress(format_args!("{:8} {:5.1} s  Mbit/s: {text}", moment.phase, moment.elapsed));
        }
        Ok(true)
    }
}
