//! What is told is what happened.

use std::thread::sleep;
use std::time::Duration;

use tidegate_control::ClientError;
use tidegate_control::calls::{DirectionSeen, FlowSeen, FlowSort, Flows, Seen};

use crate::parser::{Family, parse};
use crate::scene::Scene;
use crate::support::Ended;

/// Headers of IPv4 and UDP.
const HEADERS: u64 = 28;

fn up(seen: &Seen) -> &DirectionSeen {
    &seen.directions[0]
}
fn to_port(seen: &Seen, port: u16) -> &FlowSeen {
    let mine = |flow: &&FlowSeen| flow.flow.destination_port == Some(port);
    up(seen).flows.iter().find(mine).unwrap_or_else(|| panic!("no flow to {port} in {seen:#?}"))
}

pub fn flows_and_classes_are_seen_as_they_are() -> Ended {
    let scene = Scene::start("numbers");
    let mut client = scene.client();
    // The first look starts looking.
    client.flows(&Flows::default()).expect("flows");
    sleep(Duration::from_secs(6));
    let before = client.flows(&Flows::default()).expect("flows");
    let report = |n| scene.sink.report(n).bytes + scene.sink.report(n).packets * HEADERS;
    let delivered: Vec<u64> = (0..3).map(report).collect();
    // Later than an answer may be old.
    sleep(Duration::from_millis(300));
    let seen = client.flows(&Flows::default()).expect("flows");
    let direction = up(&seen);
    assert!(seen.in_force && direction.table.counted && seen.interface == "tg0");
    assert!(direction.table.flows >= 5, "{:?}", direction.table);

    // The call: its rate, the name of its rule, its promise.
    let call = to_port(&seen, 5004);
    assert_eq!((call.class.as_str(), call.rule.as_deref()), ("calls", Some("video call")));
    assert_eq!(call.flow.source, Some(scene.pair.sender.v4.into()));
    assert!(call.flow.uid.is_some(), "the owner of the socket is told");
    assert_eq!((call.minimum.map(|rate| rate.as_bps()), call.granted), (Some(1_000_000), true));
    assert!(call.remarked_packets > 100, "it leaves as EF");
    // Another class than "web" by what the rule matches.
    assert!(to_port(&seen, 8080).rule.as_deref().is_some_and(|rule| rule.contains("8080")));
    assert_eq!(to_port(&seen, 9_001).rule, None);
    // What had been delivered is counted now, and what had been counted was delivered but for what a busy machine had
    // not read yet.
    for (port, delivered) in [5004, 8080, 8081].into_iter().zip(delivered) {
        let counted = [&before, &seen].map(|seen| to_port(seen, port).sent_bytes.as_u64());
        assert!(counted[0] < delivered + 200_000 && counted[1] >= delivered, "{port}: {counted:?} {delivered}");
    }
    // The flood asks for more than there is: it waits, it is dropped from, and it is told why.
    let flood = to_port(&seen, 9_001);
    assert!(flood.queue_packets > 0 && flood.wait_p99 > call.wait_p99, "{flood:#?}");
    assert!(flood.dropped.iter().any(|drops| drops.packets > 10), "{flood:#?}");
    let balance = flood.sent_packets + flood.queue_packets + flood.dropped_packets();
    assert_eq!(flood.arrived_packets, balance, "every packet is somewhere");
    // Its class is promised 3 Mbit/s, and asks for more all the time: each second is kept or missed. Missed only where a
    // machine that is too busy really gave it less.
    let best = direction.classes.iter().find(|class| class.name == "besteffort").expect("a class");
    let (kept, missed) = (best.promise_kept_seconds, best.promise_missed_seconds);
    assert!(kept + missed >= 4 && (kept >= 2 || best.rate.as_bps() < 2_980_000), "{best:#?}");
    assert!(best.rate.as_bps() > 2_000_000 && best.queue_bytes.as_u64() > 0, "{best:#?}");
    let waits = &best.waits;
    assert!(waits.count == best.sent_packets && waits.up_to.last() == Some(&waits.count), "{waits:?}");

    // Sorted, limited, filtered.
    let ask = |sort, limit| Flows { sort, limit: Some(limit), ..Flows::default() };
    let first = client.flows(&ask(FlowSort::Drops, 1)).expect("flows");
    assert_eq!(up(&first).flows.len(), 1);
    assert!([Some(9_001), Some(9_000)].contains(&up(&first).flows[0].flow.destination_port));
    let only = client.flows(&Flows { port: Some(8081), class: Some("web".into()), ..Flows::default() }).expect("flows");
    assert_eq!(up(&only).flows.len(), 1);
    assert!(client.classes().expect("classes").directions[0].flows.is_empty());
    for limit in [0, Flows::MOST + 1] {
        assert!(matches!(client.flows(&ask(FlowSort::Rate, limit)), Err(ClientError::Refused(_))), "{limit}");
    }

    metrics(&scene);
    Ended::Passed
}

fn value(family: &Family, key: &str, wanted: &str) -> f64 {
    let mut found = family.samples.iter().filter(|sample| sample.labels.get(key).is_some_and(|value| value == wanted));
    found.next().unwrap_or_else(|| panic!("no {key}={wanted} in {family:?}")).value
}

/// The same numbers, for Prometheus; they grow from one scrape to the next.
fn metrics(scene: &Scene) {
    let scrape = || {
        let (head, body) = scene.get("/metrics");
        assert!(head.starts_with("http/1.1 200"), "{head}");
        assert!(head.contains("content-type: application/openmetrics-text; version=1.0.0; charset=utf-8"), "{head}");
        parse(&body).unwrap_or_else(|why| panic!("{why}\n{body}"))
    };
    let before = scrape();
    sleep(Duration::from_millis(1_600));
    let after = scrape();
    let sent = |families: &std::collections::BTreeMap<String, Family>, class| {
        value(&families["tidegate_class_sent_bytes"], "class", class)
    };
    for class in ["calls", "web", "besteffort"] {
        assert!(sent(&after, class) > sent(&before, class) && sent(&before, class) > 10_000.0, "{class}");
    }
    let flow = &after["tidegate_flow_sent_bytes"];
    assert!(value(flow, "rule", "video call") > 10_000.0 && value(flow, "destination_port", "9001") > 10_000.0);
    let wait = &after["tidegate_class_wait_seconds"];
    assert!(wait.samples.iter().any(|sample| sample.name.ends_with("_bucket") && sample.value > 0.0));
    assert_eq!(value(&after["tidegate_class_promised_bytes_per_second"], "class", "web"), 625_000.0);
    assert!(
        after.contains_key("tidegate_class_promise_seconds") && after.contains_key("tidegate_flow_promise_seconds")
    );
    assert!(after["tidegate_data_path_turns"].samples[0].value > before["tidegate_data_path_turns"].samples[0].value);
}
