//! Measurements of a run, in memory that does not grow with simulated time.

mod flow;
mod link;

pub use flow::{FlowMetrics, SizeClass, Tally};
pub use link::{LinkMetrics, LinkSeries, OTHERS, PARTS, Parts};
