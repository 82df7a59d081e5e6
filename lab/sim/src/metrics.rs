//! Measurements of a run, in memory that does not grow with simulated time.

mod flow;
mod link;

pub use flow::{FlowMetrics, MOST_TRANSFERS, SizeClass, Tally, Transfer, TransferEnd, Transfers};
pub use link::{LinkMetrics, LinkSeries, OTHERS, PARTS, Parts};
