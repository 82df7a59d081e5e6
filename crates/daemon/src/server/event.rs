//! Events of the data path, what subscriptions select of them, and their form in the protocol.

use tidegate_control::calls::{Event, EventKind, Events, Flow, Protocol};
use tidegate_core::classify::{Fields, Match};
use tidegate_core::{ClassId, Event as CoreEvent};
use tidegate_engine::{FlowState, Notification, NotificationKind};
use tidegate_units::{Instant, Span};

/// An event of a data path, as it crosses to the server's thread.
#[derive(Clone, Copy, Debug)]
pub(crate) struct FlowEvent {
    pub direction: usize,
    pub time: Instant,
    pub kind: NotificationKind,
    pub flow: u64,
    pub fields: Option<Fields>,
    pub promise: Option<u64>,
    pub state: Option<FlowState>,
}

impl FlowEvent {
    pub fn new(direction: usize, time: Instant, event: &Notification<'_>) -> Self {
        let Notification { kind, flow, fields, promise, state } = *event;
        Self { direction, time, kind, flow, fields: fields.copied(), promise, state }
    }
}

/// The events that a subscription receives.
#[derive(Clone, Debug)]
pub(crate) enum Selector {
    /// Events that pass a filter.
    Events(Events),
    /// Events of the flows under a promise, and of the promise.
    Promise(u64),
    /// Events of some kinds, or of all, of the flows of a direction that match one of these.
    Flows { direction: usize, matches: Vec<Match>, kinds: Vec<EventKind> },
}

impl Selector {
    /// Whether `event` is selected; `source` is the event of the data path that it was made of, if it was.
    pub fn selects(&self, event: &Event, source: Option<&FlowEvent>) -> bool {
        match self {
            Self::Events(which) => passes(event, which),
            Self::Promise(number) => event.promise == Some(*number),
            Self::Flows { direction, matches, kinds } => source.is_some_and(|source| {
                let fields = source.fields.as_ref();
                source.direction == *direction
                    && (kinds.is_empty() || kinds.contains(&event.kind))
                    && fields.is_some_and(|fields| matches.iter().any(|one| one.matches(fields)))
            }),
        }
    }
}

/// The names behind the numbers in events of one direction.
#[derive(Clone, Debug, Default)]
pub(crate) struct DirectionNames {
    pub direction: String,
    pub classes: Vec<String>,
}

/// An event in the form of the protocol.
pub(crate) fn to_event(source: &FlowEvent, names: Option<&DirectionNames>) -> Event {
    let name = |class: ClassId| names.and_then(|names| names.classes.get(class.0 as usize)).cloned();
    let mut event = Event::new(EventKind::Other, Span::from_nanos(source.time.as_nanos()));
    event.direction = names.map(|names| names.direction.clone());
    event.flow = Some(flow_of(source.flow, source.fields.as_ref()));
    event.promise = source.promise;
    if let Some(state) = &source.state {
        event.class = name(state.class);
        event.granted = Some(state.rate);
        event.minimum = Some(state.minimum);
        event.queue = Some(state.queue);
        event.delay = Some(state.delay);
        event.dropped = Some(state.dropped);
        event.marked = Some(state.marked);
    }
    event.kind = match source.kind {
        NotificationKind::Event(CoreEvent::FlowStarted { class, .. }) => {
            event.class = name(class);
            EventKind::FlowStarted
        }
        NotificationKind::Event(CoreEvent::FlowEnded { class, .. }) => {
            event.class = name(class);
            EventKind::FlowEnded
        }
        NotificationKind::Event(CoreEvent::QueueAbove { bytes, .. }) => {
            event.queue = Some(bytes);
            EventKind::QueueAbove
        }
        NotificationKind::Event(CoreEvent::QueueBelow { bytes, .. }) => {
            event.queue = Some(bytes);
            EventKind::QueueBelow
        }
        NotificationKind::Event(CoreEvent::Moved { from, to, .. }) => {
            (event.class, event.from_class) = (name(to), name(from));
            EventKind::Moved
        }
        NotificationKind::Event(CoreEvent::Sanctioned { class, .. }) => {
            event.class = name(class);
            EventKind::Sanctioned
        }
        NotificationKind::Event(CoreEvent::Released { class, .. }) => {
            event.class = name(class);
            EventKind::Released
        }
        NotificationKind::Event(CoreEvent::Marked { .. }) | NotificationKind::Marked(_) => EventKind::Marked,
        NotificationKind::Rate => EventKind::Rate,
        NotificationKind::Dropped(_) => EventKind::Dropped,
        NotificationKind::DelayAbove => EventKind::DelayAbove,
        NotificationKind::DelayBelow => EventKind::DelayBelow,
        NotificationKind::Promised => EventKind::Promised,
        NotificationKind::Waiting => EventKind::Waiting,
        _ => EventKind::Other,
    };
    event
}

/// A flow in the form of the protocol.
pub(crate) fn flow_of(key: u64, fields: Option<&Fields>) -> Flow {
    let hosts = fields.map(|fields| fields.hosts);
    Flow {
        key: format!("{key:016x}"),
        protocol: fields.and_then(|fields| fields.protocol).map(Protocol),
        source: hosts.and_then(|hosts| hosts.source()),
        source_port: fields.and_then(|fields| fields.source_port),
        destination: hosts.and_then(|hosts| hosts.destination()),
        destination_port: fields.and_then(|fields| fields.destination_port),
        uid: fields.and_then(|fields| fields.uid),
    }
}

/// Whether `event` passes the filters of `which`.
fn passes(event: &Event, which: &Events) -> bool {
    let flow = event.flow.as_ref();
    let class = |name: &String| which.classes.contains(name);
    let port = |port| flow.is_some_and(|flow| flow.source_port == Some(port) || flow.destination_port == Some(port));
    (which.kinds.is_empty() || which.kinds.contains(&event.kind))
        && (which.classes.is_empty() || event.class.as_ref().or(event.from_class.as_ref()).is_some_and(class))
        && (which.direction.is_none() || which.direction == event.direction)
        && which.uid.is_none_or(|uid| flow.is_some_and(|flow| flow.uid == Some(uid)))
        && which.port.is_none_or(port)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A subscriber to rates alone is not sent each drop of an overloaded flow.
    #[test]
    fn feedback_may_be_of_some_kinds_alone() {
        let fields = Fields { destination_port: Some(5_000), ..Fields::default() };
        let of = |kind: NotificationKind| FlowEvent {
            direction: 0,
            time: Instant::ZERO,
            kind,
            flow: 1,
            fields: Some(fields),
            promise: None,
            state: None,
        };
        let selector = |kinds: &[EventKind]| Selector::Flows {
            direction: 0,
            matches: vec![Match::default()],
            kinds: kinds.to_vec(),
        };
        let selects =
            |kinds: &[EventKind], event: &FlowEvent| selector(kinds).selects(&to_event(event, None), Some(event));
        let (rate, dropped) = (of(NotificationKind::Rate), of(NotificationKind::Dropped(1)));
        assert!(selects(&[], &rate) && selects(&[], &dropped));
        assert!(selects(&[EventKind::Rate], &rate) && !selects(&[EventKind::Rate], &dropped));
    }
}
