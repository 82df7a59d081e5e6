//! [`Notification`]: what has happened to a flow, for its owner and its watchers.

use tidegate_core::classify::Fields;
use tidegate_core::fbq::FlowView;
use tidegate_core::{Bytes, ClassId, Event, Instant, Rate, Span};

/// An event, or a change of a watched flow.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub enum NotificationKind {
    /// An event of a discipline. Of marks only the first within 100 ms.
    Event(Event),
    /// A watched flow is granted another rate.
    Rate,
    /// So many packets of a watched flow were dropped since the last notification of this kind.
    Dropped(u64),
    /// So many packets of a watched flow were marked congestion experienced.
    Marked(u64),
    /// The oldest packet of a watched flow waits longer than was asked for.
    DelayAbove,
    /// And now it waits less than half of that.
    DelayBelow,
    /// The minimum of a watched flow is in force.
    Promised,
    /// The minimum of a watched flow waits until rate is released.
    Waiting,
}

/// The state of a flow.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct FlowState {
    /// The class it is in.
    pub class: ClassId,
    /// Its share when every flow uses its own.
    pub rate: Rate,
    /// The minimum of its promise; zero without one.
    pub minimum: Rate,
    /// Whether the minimum is in force.
    pub granted: bool,
    /// Steps of preference in force.
    pub steps: u32,
    /// Bytes queued.
    pub queue: Bytes,
    /// The waiting time of its oldest packet.
    pub delay: Span,
    /// Packets of it that were dropped so far.
    pub dropped: u64,
    /// Packets of it that were marked so far.
    pub marked: u64,
}

impl FlowState {
    /// The state of a flow in the shaper at `now`.
    pub fn of(view: &FlowView, now: Instant) -> Self {
        Self {
            class: view.class,
            rate: view.rate,
            minimum: view.minimum,
            granted: view.granted,
            steps: view.preferred,
            queue: view.backlog.bytes,
            delay: view.head_arrived.map_or(Span::ZERO, |arrived| now.since(arrived)),
            dropped: view.counts.dropped.packets,
            marked: view.counts.marked,
        }
    }
}

/// An event, or a change of a watched flow, for the owner of the flow.
#[derive(Clone, Copy, Debug)]
pub struct Notification<'a> {
    /// The event or change.
    pub kind: NotificationKind,
    /// To which flow.
    pub flow: u64,
    /// The fields of its first packet, where known.
    pub fields: Option<&'a Fields>,
    /// The promise that it is under.
    pub promise: Option<u64>,
    /// The state of the flow; only of a watched flow.
    pub state: Option<FlowState>,
}
