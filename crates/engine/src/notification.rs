//! [`Notification`]: news of a flow for its owner and its watchers.

use tidegate_core::classify::Fields;
use tidegate_core::fbq::FlowView;
use tidegate_core::{Bytes, ClassId, Event, Instant, Rate, Span};

/// An event, or a change of a watched flow.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub enum NotificationKind {
    /// An event of a discipline. Of marks, only the first within 100 ms is reported.
    Event(Event),
    /// The granted rate of a watched flow has changed.
    Rate,
    /// This many packets of a watched flow were dropped since the last notification of this kind.
    Dropped(u64),
    /// This many packets of a watched flow were marked congestion experienced since the last notification of this kind.
    Marked(u64),
    /// The oldest packet of a watched flow waits longer than the limit that its watcher asked for.
    DelayAbove,
    /// After [`DelayAbove`](Self::DelayAbove): the oldest packet waits less than half of the limit.
    DelayBelow,
    /// The minimum of a watched flow is in force.
    Promised,
    /// The minimum of a watched flow waits until rate is released.
    Waiting,
}

/// The state of a flow.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct FlowState {
    /// Its class.
    pub class: ClassId,
    /// Its share of the rate if every flow uses its own.
    pub rate: Rate,
    /// The minimum of its promise; zero without one.
    pub minimum: Rate,
    /// Whether the minimum is in force.
    pub granted: bool,
    /// The steps of preference in force.
    pub steps: u32,
    /// Bytes queued.
    pub queue: Bytes,
    /// The waiting time of its oldest packet.
    pub delay: Span,
    /// Packets dropped so far.
    pub dropped: u64,
    /// Packets marked so far.
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

/// News of a flow.
#[derive(Clone, Copy, Debug)]
pub struct Notification<'a> {
    /// The event or change.
    pub kind: NotificationKind,
    /// The key of the flow.
    pub flow: u64,
    /// The fields of its first packet, if known.
    pub fields: Option<&'a Fields>,
    /// The promise that covers the flow.
    pub promise: Option<u64>,
    /// The state of the flow; for watched flows only.
    pub state: Option<FlowState>,
}
