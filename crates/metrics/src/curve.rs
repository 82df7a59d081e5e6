//! [`Curve`]: a measured relation of two quantities, with names and units.

use tidegate_units::Instant;

use crate::{Histogram, Occupancy, Series};

/// Flows, and classes, of a link that have curves of their own: those with the most bytes. The others have one together.
pub const SHOWN_PARTS: usize = 15;
/// The name of the curve of all other flows.
pub const OTHER_FLOWS: &str = "flow (others)";
/// The name of the curve of all other classes.
pub const OTHER_CLASSES: &str = "class (others)";

/// Points of a curve.
pub type Points = Vec<(f64, f64)>;

/// A value over time, or a distribution.
#[derive(Clone, PartialEq, Debug)]
pub struct Curve {
    /// The name of the whole: `flow bulk goodput over time`.
    pub name: String,
    /// The variant of the scenario; empty where there are none.
    pub variant: String,
    /// The flow, class or link: `flow bulk`, `link r->b`.
    pub subject: String,
    /// The quantity: `goodput`, `queueing`.
    pub measure: &'static str,
    /// The part of the subject: a colour, a class, a flow; empty for all of it.
    pub part: String,
    /// The first number of a point, with its unit.
    pub x: &'static str,
    /// The second number, with its unit.
    pub y: &'static str,
    /// The points, by rising x.
    pub points: Points,
}

fn seconds(at: Instant) -> f64 {
    at.as_nanos() as f64 / 1e9
}

impl Series {
    /// The sums of bytes as points until `end`: seconds, bit/s. A bin that `end` cuts counts the time before it, unless that is
    /// less than half of the bin, which then has no point.
    pub fn rate_points(&self, end: Instant) -> Points {
        let series = self.clone().until(end);
        let width = series.width();
        let point = |(at, bytes): (Instant, u64)| {
            let over = end.since(at).min(width);
            (over.as_nanos() >= width.as_nanos() / 2).then(|| (seconds(at), bytes as f64 * 8.0 / over.as_secs_f64()))
        };
        series.sums().filter_map(point).collect()
    }
    /// The means as points, over seconds.
    pub fn mean_points(&self) -> Points {
        self.means().map(|(at, mean)| (seconds(at), mean)).collect()
    }
    /// The sums as points until `end`, over seconds.
    pub fn sum_points(&self, end: Instant) -> Points {
        self.clone().until(end).sums().map(|(at, sum)| (seconds(at), sum as f64)).collect()
    }
}

impl Occupancy {
    /// The means from `begin` to `end` as points, over seconds, without the bin in which `begin` is.
    pub fn mean_points(&self, begin: Instant, end: Instant) -> Points {
        let points = self.means(end).skip_while(|(at, _)| *at < begin);
        points.map(|(at, mean)| (seconds(at), mean)).collect()
    }
}

impl Histogram {
    /// The distribution as points: a value, the share of the values that are at most it.
    pub fn points(&self) -> Points {
        self.distribution().map(|(value, share)| (value as f64, share)).collect()
    }
}
