//! What a run measures, in memory that does not grow with simulated time.

mod fairness;
mod flow;
pub mod histogram;
mod link;
pub mod series;

pub use fairness::jain;
pub use flow::{FlowMetrics, SizeClass, Tally};
pub use histogram::Histogram;
pub use link::{LinkMetrics, LinkSeries, PARTS, PartSeries, Parts};
pub use series::Series;
