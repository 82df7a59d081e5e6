//! [`FlowElsewhere`]: a flow whose packets never reach the engine.

use tidegate_core::classify::Fields;
use tidegate_core::fbq::{FlowCounts, FlowView};
use tidegate_core::qdisc::Backlog;
use tidegate_core::{ClassId, Instant, Rate, Span};

/// A flow as a data path in the kernel has it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct FlowElsewhere {
    /// Its key.
    pub key: u64,
    /// Its class.
    pub class: ClassId,
    /// The index of its profile.
    pub profile: u32,
    /// The fields of one of its packets.
    pub fields: Fields,
    /// The promise that it is under.
    pub promise: Option<u64>,
    /// The minimum that it asks for.
    pub minimum: Rate,
    /// Whether that is granted.
    pub granted: bool,
    /// What is queued.
    pub backlog: Backlog,
    /// The arrival of its oldest packet, while it has a queue.
    pub head_arrived: Option<Instant>,
    /// Counts of the flow since its start.
    pub counts: FlowCounts,
    /// How long the packets waited that were sent, all together.
    pub waited: Span,
}

impl FlowElsewhere {
    /// What it is granted.
    pub(crate) fn granted_minimum(&self) -> Rate {
        if self.granted { self.minimum } else { Rate::ZERO }
    }

    /// The view of the record here, with what is counted there.
    pub(crate) fn over(&self, view: FlowView) -> FlowView {
        let Self { minimum, granted, backlog, head_arrived, counts, .. } = *self;
        FlowView { minimum, granted, backlog, head_arrived, counts, ..view }
    }
}
