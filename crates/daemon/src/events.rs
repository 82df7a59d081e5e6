//! Events: from what the data path says to what clients read, and the calls `events` and `unsubscribe`.

use tidegate_control::calls::{Event, EventKind, Events, Flow, Protocol, Subscribed, Unsubscribe, Unsubscribed};
use tidegate_control::protocol::{Code, Refusal};
use tidegate_core::classify::{Fields, Match};
use tidegate_core::{ClassId, Event as CoreEvent};
use tidegate_engine::{FlowState, Notification, NotificationKind};
use tidegate_units::{Instant, Span};

use crate::daemon::Daemon;
use crate::promise;
use crate::requests::Caller;
use crate::server::{Outbound, SUBSCRIPTIONS};

/// Notification of the data path, as they cross to the server.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Notice {
    pub direction: usize,
    pub time: Instant,
    pub kind: NotificationKind,
    pub flow: u64,
    pub fields: Option<Fields>,
    pub promise: Option<u64>,
    pub facts: Option<FlowState>,
}

impl Notice {
    pub fn new(direction: usize, time: Instant, news: &Notification<'_>) -> Self {
        let Notification { kind, flow, fields, promise, state: facts } = *news;
        Self { direction, time, kind, flow, fields: fields.copied(), promise, facts }
    }
}

/// What somebody wants to be told of.
#[derive(Clone, Debug)]
pub(crate) enum Interest {
    /// Events that pass a filter.
    Events(Events),
    /// All that happens to flows under a promise, and to the promise.
    Promise(u64),
    /// All that happens to flows of a direction that match one of these.
    Flows { direction: usize, matches: Vec<Match> },
}

impl Interest {
    /// Whether `event` is of interest, which was made of `notice` if it comes from the data path.
    pub fn wants(&self, event: &Event, notice: Option<&Notice>) -> bool {
        match self {
            Self::Events(which) => is_wanted(event, which),
            Self::Promise(number) => event.promise == Some(*number),
            Self::Flows { direction, matches } => notice.is_some_and(|notice| {
                let fields = notice.fields.as_ref();
                notice.direction == *direction
                    && fields.is_some_and(|fields| matches.iter().any(|one| one.matches(fields)))
            }),
        }
    }
}

/// What numbers in notices of one direction mean.
#[derive(Clone, Debug, Default)]
pub(crate) struct Scene {
    pub direction: String,
    pub classes: Vec<String>,
}

/// A notice in the words of the protocol.
pub(crate) fn describe(notice: &Notice, scene: Option<&Scene>) -> Event {
    let name = |class: ClassId| scene.and_then(|scene| scene.classes.get(class.0 as usize)).cloned();
    let mut event = Event::new(EventKind::Other, Span::from_nanos(notice.time.as_nanos()));
    event.direction = scene.map(|scene| scene.direction.clone());
    event.flow = Some(flow_of(notice.flow, notice.fields.as_ref()));
    event.promise = notice.promise;
    if let Some(facts) = &notice.facts {
        event.class = name(facts.class);
        event.granted = Some(facts.rate);
        event.minimum = Some(facts.minimum);
        event.queue = Some(facts.queue);
        event.delay = Some(facts.delay);
        event.dropped = Some(facts.dropped);
        event.marked = Some(facts.marked);
    }
    event.kind = match notice.kind {
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

/// A flow in the words of the protocol.
pub fn flow_of(key: u64, fields: Option<&Fields>) -> Flow {
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

/// Whether somebody who asked for `which` wants to hear of `event`.
fn is_wanted(event: &Event, which: &Events) -> bool {
    let flow = event.flow.as_ref();
    let class = |name: &String| which.classes.contains(name);
    let port = |port| flow.is_some_and(|flow| flow.source_port == Some(port) || flow.destination_port == Some(port));
    (which.kinds.is_empty() || which.kinds.contains(&event.kind))
        && (which.classes.is_empty() || event.class.as_ref().or(event.from_class.as_ref()).is_some_and(class))
        && (which.direction.is_none() || which.direction == event.direction)
        && which.uid.is_none_or(|uid| flow.is_some_and(|flow| flow.uid == Some(uid)))
        && which.port.is_none_or(port)
}

/// Refuses a client that has as many subscriptions as one may have.
pub(crate) fn may_subscribe(daemon: &Daemon, caller: &Caller) -> Result<(), Refusal> {
    if daemon.subscriptions.get(&caller.client).map_or(0, Vec::len) < SUBSCRIPTIONS {
        return Ok(());
    }
    let text =
        format!("this connection has {SUBSCRIPTIONS} subscriptions to events and feedback, and may have no more");
    Err(Refusal::new(Code::TooMany, text)
        .help("end one by `unsubscribe`, ask for more kinds in one, or open another connection"))
}

pub(crate) fn subscribe(daemon: &mut Daemon, caller: &Caller, which: Events) -> Result<Subscribed, Refusal> {
    may_subscribe(daemon, caller)?;
    // Classes come and go while somebody listens; directions do not.
    daemon.direction_named(which.direction.as_deref())?;
    let subscription = daemon.next_number();
    daemon.subscriptions.entry(caller.client).or_default().push(subscription);
    let interest = Interest::Events(which);
    daemon.say_to_server(Outbound::Subscribe { client: caller.client, subscription, interest });
    Ok(Subscribed { subscription })
}

pub(crate) fn unsubscribe(daemon: &mut Daemon, caller: &Caller, call: Unsubscribe) -> Result<Unsubscribed, Refusal> {
    let subscriptions = daemon.subscriptions.entry(caller.client).or_default();
    let before = subscriptions.len();
    subscriptions.retain(|id| *id != call.subscription);
    if subscriptions.len() == before && !promise::has_subscription(daemon, caller.client, call.subscription) {
        let text = format!("this connection has no subscription {}", call.subscription);
        return Err(Refusal::new(Code::NotFound, text));
    }
    promise::unwatch(daemon, caller.client, call.subscription);
    daemon.say_to_server(Outbound::Unsubscribe { client: caller.client, subscription: call.subscription });
    Ok(Unsubscribed {})
}
