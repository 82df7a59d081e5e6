//! The state and the notifications of a shaper as JSON, with the names of the control protocol.

use std::collections::BTreeMap;

use serde_json::{Map, Value, json};
use tidegate_core::classify::Fields;
use tidegate_core::{ClassId, DropReason, Event, Instant, Rate};
use tidegate_engine::{ClassStatus, FlowIdentity, FlowRow, Lease, NotificationKind, SharedClass};

use super::model::Scenario;
use crate::shaper::{Notification, ShaperQueue};

/// Formats a reservation; `free` is the rate that can still be reserved.
pub(super) fn reservation(lease: &Lease, free: Option<Rate>) -> Value {
    json!({
        "name": lease.name,
        "matches": lease.matches.to_string(),
        "rate_bps": lease.grant.rate.as_bps(),
        "bound_ns": lease.grant.bound.map(|bound| bound.as_nanos()),
        "buffer_bytes": lease.grant.buffer.as_u64(),
        "free_bps": free.unwrap_or(Rate::ZERO).as_bps(),
    })
}

/// Formats a snapshot with up to `most` flows. `last` holds the time of the previous snapshot and the bytes that the
/// classes had sent by then.
pub(super) fn status(
    scenario: &Scenario,
    queue: &mut ShaperQueue,
    now: Instant,
    most: u32,
    promises: Vec<Value>,
    last: &mut (Instant, BTreeMap<String, u64>),
) -> Value {
    let engine = queue.engine();
    let names: Vec<String> = engine.class_names().to_vec();
    let free = engine.unreserved();
    let unpromised = queue.unpromised();
    let all = queue.classes(now);
    let since = now.since(last.0).as_secs_f64();
    let classes: Vec<Value> = all
        .iter()
        .enumerate()
        .map(|(n, status)| {
            let sent = status.counts.through.bytes.as_u64();
            let before = last.1.get(&status.name).copied().unwrap_or(0);
            let rate = if since > 0.0 { sent.saturating_sub(before) as f64 * 8.0 / since } else { 0.0 };
            class(status, unpromised.get(n).copied(), rate.round() as u64, now)
        })
        .collect();
    let reservations: Vec<Value> = engine.leases().map(|lease| reservation(lease, free)).collect();
    *last = (now, all.iter().map(|status| (status.name.clone(), status.counts.through.bytes.as_u64())).collect());

    let mut rows = queue.flow_rows(now);
    rows.sort_by_key(|row| (std::cmp::Reverse(row.record.rate(now)), row.key));
    let flows: Vec<Value> =
        rows.iter().take(most as usize).map(|row| flow(scenario, queue, row, &names, now)).collect();
    let shared: Vec<Value> = queue.engine().shared_classes(now).iter().map(|class| shared(class, now)).collect();
    let mut status = json!({ "classes": classes, "flows": flows, "promises": promises, "reservations": reservations });
    // Absent where there is none, as in the control protocol.
    if !shared.is_empty() {
        status["shared_classes"] = shared.into();
    }
    status
}

/// Formats a class of CBQ in the sharing of the link.
fn shared(class: &SharedClass, now: Instant) -> Value {
    let (stats, status) = (&class.state.stats, &class.state.status);
    let mut row = json!({
        "name": class.name,
        "rate_bps": class.state.rate.as_bps(),
        "sent_packets": stats.sent.packets,
        "sent_bytes": stats.sent.bytes.as_u64(),
        "borrowed_packets": stats.borrowed.packets,
        "borrowed_bytes": stats.borrowed.bytes.as_u64(),
        "lent_packets": stats.lent.packets,
        "lent_bytes": stats.lent.bytes.as_u64(),
        "rescued_packets": stats.rescued.packets,
        "overlimit_packets": stats.overlimit,
        "regulated": stats.regulated,
    });
    let wait = status.under_time.since(now).as_nanos();
    let optional = [
        ("parent", class.parent.clone().map(Value::from)),
        ("under_time_ns", (wait > 0).then(|| wait.into())),
        ("average_idle_ns", status.estimate.idle_nanos().map(Value::from)),
        ("credit_bytes", status.estimate.credit_bytes().map(Value::from)),
    ];
    for (key, value) in optional {
        if let Some(value) = value {
            row[key] = value;
        }
    }
    row
}

fn class(status: &ClassStatus, unpromised: Option<Rate>, sent: u64, now: Instant) -> Value {
    let counts = &status.counts;
    let mut class = json!({
        "name": status.name,
        "rate_bps": status.rate.map(Rate::as_bps),
        "unpromised_bps": unpromised.map(Rate::as_bps),
        "flows": status.flows,
        "sent_bps": sent,
        "measured_bps": counts.rate(now).as_bps(),
        "enqueued_packets": counts.accounts.enqueued.packets,
        "enqueued_bytes": counts.accounts.enqueued.bytes.as_u64(),
        "through_packets": counts.through.packets,
        "through_bytes": counts.through.bytes.as_u64(),
        "queue_packets": counts.backlog.packets,
        "queue_bytes": counts.backlog.bytes.as_u64(),
        "dropped": drops(|reason| counts.accounts.dropped[reason as usize].packets),
        "marked_packets": counts.marked,
        "remarked_packets": counts.remarked,
        "wait_p50_ns": counts.waited_at(0.5).as_nanos(),
        "wait_p99_ns": counts.waited_at(0.99).as_nanos(),
        "promise_kept_seconds": counts.promise().kept(),
        "promise_missed_seconds": counts.promise().missed(),
    });
    // Absent where there is none, as in the control protocol.
    if counts.advised > 0 {
        class["advised_packets"] = counts.advised.into();
    }
    class
}

/// Formats drop counters by reason, without those that are zero.
fn drops(packets: impl Fn(DropReason) -> u64) -> Value {
    let all = DropReason::ALL.iter().map(|reason| (reason.name().to_owned(), packets(*reason)));
    Value::Object(all.filter(|(_, packets)| *packets > 0).map(|(name, packets)| (name, packets.into())).collect())
}

fn flow(scenario: &Scenario, queue: &ShaperQueue, row: &FlowRow, names: &[String], now: Instant) -> Value {
    let record = &row.record;
    let name = |class: ClassId| names.get(class.0 as usize).cloned();
    let view = row.view.as_ref();
    json!({
        "flow": identity(scenario, queue, row.key, Some(&fields_of(&record.who))),
        "class": name(record.class),
        "through": (record.through != record.class).then(|| name(record.through)).flatten(),
        "rate_bps": record.rate(now).as_bps(),
        "granted_bps": view.map(|view| view.rate.as_bps()),
        "minimum_bps": view.map(|view| view.minimum.as_bps()),
        "sent_packets": record.sent.packets,
        "sent_bytes": record.sent.bytes.as_u64(),
        "queue_packets": record.waits.packets,
        "queue_bytes": record.waits.bytes.as_u64(),
        "dropped": drops(|reason| record.dropped[reason as usize].into()),
        "marked_packets": record.marked,
        "promise_kept_seconds": record.promise().kept(),
        "promise_missed_seconds": record.promise().missed(),
    })
}

fn fields_of(identity: &FlowIdentity) -> Fields {
    let FlowIdentity { hosts, protocol, source_port, destination_port, uid, .. } = *identity;
    Fields { hosts, protocol, source_port, destination_port, uid, ..Fields::default() }
}

/// Formats the identity of a flow: its name in the scenario, and the fields of its packets.
fn identity(scenario: &Scenario, queue: &ShaperQueue, key: u64, fields: Option<&Fields>) -> Value {
    let number = fields.and_then(|fields| queue.flow_of(fields));
    json!({
        "name": number.map(|number| scenario.flow_name(number)),
        "key": format!("{key:016x}"),
        "protocol": fields.and_then(|fields| fields.protocol),
        "source": fields.and_then(|fields| fields.hosts.source()).map(|address| address.to_string()),
        "source_port": fields.and_then(|fields| fields.source_port),
        "destination": fields.and_then(|fields| fields.hosts.destination()).map(|address| address.to_string()),
        "destination_port": fields.and_then(|fields| fields.destination_port),
        "uid": fields.and_then(|fields| fields.uid),
    })
}

/// The name of an event in the control protocol.
pub(super) fn event_kind(kind: NotificationKind) -> &'static str {
    match kind {
        NotificationKind::Event(Event::FlowStarted { .. }) => "flow-started",
        NotificationKind::Event(Event::FlowEnded { .. }) => "flow-ended",
        NotificationKind::Event(Event::QueueAbove { .. }) => "queue-above",
        NotificationKind::Event(Event::QueueBelow { .. }) => "queue-below",
        NotificationKind::Event(Event::Moved { .. }) => "moved",
        NotificationKind::Event(Event::Marked { .. }) | NotificationKind::Marked(_) => "marked",
        NotificationKind::Event(Event::Sanctioned { .. }) => "sanctioned",
        NotificationKind::Event(Event::Released { .. }) => "released",
        NotificationKind::Rate => "rate",
        NotificationKind::Dropped(_) => "dropped",
        NotificationKind::DelayAbove => "delay-above",
        NotificationKind::DelayBelow => "delay-below",
        NotificationKind::Promised => "promised",
        NotificationKind::Waiting => "waiting",
        _ => "other",
    }
}

/// Formats a notification.
pub(super) fn notification(scenario: &Scenario, queue: &ShaperQueue, notification: &Notification) -> Value {
    let names = queue.engine().class_names();
    let name = |class: ClassId| names.get(class.0 as usize).cloned();
    let mut event = Map::new();
    let mut put = |key: &str, value: Value| event.insert(key.to_owned(), value);
    put("event", event_kind(notification.kind).into());
    put("flow", identity(scenario, queue, notification.flow, notification.fields.as_ref()));
    if let Some(promise) = notification.promise {
        put("promise", promise.into());
    }
    if let Some(state) = &notification.state {
        put("class", name(state.class).into());
        put("granted_bps", state.rate.as_bps().into());
        put("minimum_bps", state.minimum.as_bps().into());
        put("queue_bytes", state.queue.as_u64().into());
        put("delay_ns", state.delay.as_nanos().into());
        put("dropped", state.dropped.into());
        put("marked", state.marked.into());
    }
    if let NotificationKind::Event(happened) = notification.kind {
        match happened {
            Event::FlowStarted { class, .. }
            | Event::FlowEnded { class, .. }
            | Event::Sanctioned { class, .. }
            | Event::Released { class, .. } => {
                put("class", name(class).into());
            }
            Event::QueueAbove { bytes, .. } | Event::QueueBelow { bytes, .. } => {
                put("queue_bytes", bytes.as_u64().into());
            }
            Event::Moved { from, to, .. } => {
                put("from_class", name(from).into());
                put("class", name(to).into());
            }
            _ => {}
        }
    }
    Value::Object(event)
}
