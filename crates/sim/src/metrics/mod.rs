//! What a run measures, in memory that does not grow with simulated time.

mod fairness;
mod flow;
pub mod histogram;
mod link;
mod part;
pub mod series;

pub use fairness::jain;
pub use flow::{FlowMetrics, SizeClass, Tally};
pub use histogram::Histogram;
pub use link::{LinkMetrics, LinkSeries, PARTS, Parts};
pub use part::{Part, PartSeries, largest};
pub use series::Series;
