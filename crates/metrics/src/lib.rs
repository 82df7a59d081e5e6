//! Measurements of the simulator, replay, the pacer and the engine, in memory that does not grow with time.
//!
//! | type | represents |
//! | --- | --- |
//! | [`Histogram`] | the distribution of any 64-bit values; 30 kB on the heap once it is used |
//! | [`Survival`] | the distribution of durations of which some had not ended |
//! | [`Delays`], [`RecentDelays`], [`FewDelays`] | queueing delays, of all time and of the last seconds; no heap |
//! | [`Series`] | a value over time, in at most 1,024 bins |
//! | [`Occupancy`] | how many there are of something over time, likewise |
//! | [`PartSeries`] | a flow or a class over time |
//! | [`Value`], [`Curve`] | a number, and points, with names and units, as reports and files show them |
//! | [`Summary`] | the mean over runs, with its confidence interval |
//! | [`Difference`] | whether two variants differ, by runs with the same seeds |
//! | [`Equality`] | whether two variants are equal within 2 %, by the same runs |
//! | [`Steady`] | the mean of one run in its steady state, with its confidence interval |
//! | [`Digest`] | 128 bits that are equal for equal results |
//!
//! [`jain`] is Jain's fairness index.
#![deny(missing_docs)]

mod curve;
pub mod delays;
mod difference;
mod digest;
mod equality;
mod fairness;
mod histogram;
pub mod names;
mod occupancy;
mod part;
mod scale;
mod series;
mod steady;
mod student;
mod summary;
mod survival;
mod value;

pub use curve::{Curve, OTHER_CLASSES, OTHER_FLOWS, Points, SHOWN_PARTS};
pub use delays::{Delays, FewDelays, RecentDelays};
pub use difference::{Difference, FEWEST_RUNS, POWER, Test, bootstrap, holm};
pub use digest::Digest;
pub use equality::{Equality, MARGIN};
pub use fairness::jain;
pub use histogram::{Histogram, Quantiles};
pub use occupancy::Occupancy;
pub use part::{Part, PartSeries, largest};
pub use series::Series;
pub use steady::{BATCHES, Steady, batch_means, warm_up};
pub use summary::{LEVEL, Summary, summarise};
pub use survival::{MOST_ORDERED, Survival, shares};
pub use value::Value;

/// The example of the README, compiled and run as a test.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
mod readme {}
