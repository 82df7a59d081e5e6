//! [`Share`]: the measurements of a region, for the region that reports those of all.

use tidegate_core::Span;

use crate::applications::Experience;
use crate::ids::FlowId;
use crate::metrics::{FlowMetrics, LinkMetrics, Transfer};

/// The measurements of a region.
#[derive(Debug)]
pub(crate) struct Share {
    pub region: u8,
    pub flows: Vec<FlowMetrics>,
    pub links: Vec<LinkShare>,
    pub experiences: Vec<(u32, Vec<Experience>)>,
    pub underway: Vec<(FlowId, Transfer)>,
    pub events: u64,
    pub hops: u64,
}

/// The measurements of a link of a region.
#[derive(Debug)]
pub(crate) struct LinkShare {
    pub link: u32,
    pub metrics: LinkMetrics,
    pub free_at: u64,
    /// The bits that it could have carried in the measured time.
    pub capacity: u64,
}

/// How a run was divided.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Division {
    /// The number of regions; 1 if it was not divided.
    pub regions: usize,
    /// The shortest delay between two regions; zero if the run was not divided.
    pub lookahead: Span,
    /// The number of times that regions exchanged packets.
    pub windows: u64,
    /// The reason why the run was not divided, or not to its end.
    pub undivided: Option<&'static str>,
}

impl Division {
    pub(crate) const fn none(reason: &'static str) -> Self {
        Self { regions: 1, lookahead: Span::ZERO, windows: 0, undivided: Some(reason) }
    }
}
