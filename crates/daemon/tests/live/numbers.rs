//! The reported numbers match the traffic.

use tidegate_control::calls::{
    CoupledQueues, DirectionObservation, Events as EventsOf, Explain, FlowObservation, FlowSort, Flows, Observation,
    Protocol,
};
use tidegate_control::{Client, ClientError, EventKind, Pushed};

use crate::running::{Running, udp};
use crate::testbed::{Testbed, until};
use tidegate_testbed::openmetrics::{Family, parse};
use tidegate_testbed::steady::Measurements;
use tidegate_testbed::{Ended, FlowSpec, Pair, Senders, Sink};
use tidegate_units::Span;

/// Headers of IPv4 and UDP.
const HEADERS: u64 = 28;

fn up(observation: &Observation) -> &DirectionObservation {
    &observation.directions[0]
}
fn to_port(observation: &Observation, port: u16) -> &FlowObservation {
    let mine = |flow: &&FlowObservation| flow.flow.destination_port == Some(port);
    up(observation).flows.iter().find(mine).unwrap_or_else(|| panic!("no flow to {port} in {observation:#?}"))
}

/// The only flow of the first rule has as many packets as the rule.
fn rules_have_matched(direction: &DirectionObservation, call: &FlowObservation) {
    // Rules are read just before the flows, each with what it has matched.
    let [video, web, allowance, weekend] = &direction.rules[..] else { panic!("{:?}", direction.rules) };
    assert_eq!((video.rule, video.name.as_deref(), video.class.as_str()), (1, Some("video call"), "calls"));
    let since = call.arrived_packets.checked_sub(video.packets);
    assert!(video.packets > 100 && since.is_some_and(|packets| packets < 500), "{video:?} and {call:?}");
    assert_eq!(video.bytes.as_u64() / video.packets, call.arrived_bytes.as_u64() / call.arrived_packets);
    assert!(web.packets > 100 && web.in_force && allowance.packets + weekend.packets == 0, "{:?}", direction.rules);
}

/// A class of 2 of 8 Mbit/s sends 12: what it borrows is lent by the link, in `status` and as a rate in the observation.
pub fn status_has_who_lends_and_who_borrows() -> Ended {
    let pair = Pair::create().unwrap();
    let text = "version = 1\n[discipline]\nkind = \"cbq\"\nlink = \"8mbit\"\n\
        class = [{ name = \"rest\", rate = \"2mbit\", borrow = \"from-parent\" }, { name = \"other\", rate = \"6mbit\" }]\n";
    let running = Running::start(&pair, text);
    let flows = [udp(6_000, 12)];
    let sink = Sink::start(&pair.receiver, &flows).unwrap();
    let senders = Senders::start(&pair.sender, &pair.receiver, &flows).unwrap();
    let mut client = running.client();
    until("packets lent", || {
        let status = client.status().expect("a status");
        status.directions[0].shared_classes.first().is_some_and(|root| root.lent_packets > 500)
    });
    until("the rate that is borrowed", || {
        let observation = client.flows(&Flows::default()).expect("flows");
        let rest = up(&observation).classes.iter().find(|class| class.name == "rest").expect("a class");
        // 6 of 8 Mbit/s are not its own.
        rest.borrowed.as_bps() > 4_000_000 && rest.borrowed_bytes.as_u64() > 500_000
    });
    let status = client.status().expect("a status");
    senders.stop();
    sink.stop();
    let shared = &status.directions[0].shared_classes;
    let [root, rest, other] = &shared[..] else { panic!("{shared:?}") };
    assert_eq!((root.name.as_str(), root.parent.as_deref(), rest.parent.as_deref()), ("root", None, Some("root")));
    assert_eq!((rest.name.as_str(), other.name.as_str()), ("rest", "other"));
    assert_eq!((root.lent_packets, root.lent_bytes), (rest.borrowed_packets, rest.borrowed_bytes), "{shared:?}");
    assert!(rest.overlimit_packets >= rest.borrowed_packets && rest.credit_bytes.is_some(), "{rest:?}");
    assert_eq!((other.sent_packets, other.regulated), (0, 0), "{other:?}");
    Ended::Passed
}

/// 10 Mbit/s of NQB that does not yield, and 6 of best effort, in a class of 8: `status` and `explain` have both queues, and who is
/// under sanction; events report it.
pub fn status_has_both_queues_of_dualpi2() -> Ended {
    const NQB: u8 = 45;
    let pair = Pair::create().unwrap();
    let text = "version = 1\n[[class]]\nname = \"all\"\nrate = \"8mbit\"\nborrow = false\ndefault = true\n\
                queue = { kind = \"dualpi2\" }\n";
    let running = Running::start(&pair, text);
    let sanctions = EventsOf { kinds: vec![EventKind::Sanctioned], ..EventsOf::default() };
    let mut listener = running.client();
    let mut events = listener.events(&sanctions).unwrap();
    let flows = [FlowSpec { dscp: NQB, ..udp(6_000, 10) }, udp(6_001, 6)];
    let sink = Sink::start(&pair.receiver, &flows).unwrap();
    let senders = Senders::start(&pair.sender, &pair.receiver, &flows).unwrap();
    let mut client = running.client();
    let queues = |client: &mut Client| -> CoupledQueues {
        let status = client.status().expect("a status");
        status.directions[0].classes[0].coupled.clone().expect("coupled queues")
    };
    until("a flow under sanction", || {
        let seen = queues(&mut client);
        // The liar alone: its code point brings it into L, whose packets are not marked without ECT(1).
        let ports: Vec<_> = seen.flows.iter().map(|flow| flow.destination_port).collect();
        ports == [Some(6_000)] && seen.sanctioned.queue.packets > 0 && seen.classic.sent_packets > 500
    });
    let seen = queues(&mut client);
    let class = client.status().unwrap().directions[0].classes[0].clone();
    // Each packet of the class is put into one of them; they are read later than the counts of the class.
    let each =
        class.coupled.as_ref().map_or(0, |now| now.each().iter().map(|(_, queue, _)| queue.enqueued_packets).sum());
    assert!((class.enqueued_packets..class.enqueued_packets + 500).contains(&each), "{class:?}");
    assert!(seen.classic.delay > Span::from_millis(1) && seen.classic.waited > Span::from_millis(100), "{seen:?}");
    assert!(seen.coupled_ppm > 0 && seen.classic_ppm > 0, "{seen:?}");
    let Some(Ok(Pushed::Event(event))) = events.next() else { panic!("no event") };
    assert_eq!((event.kind, event.class.as_deref()), (EventKind::Sanctioned, Some("all")));
    assert_eq!(event.flow.and_then(|flow| flow.destination_port), Some(6_000));
    let request = Explain {
        protocol: Some(Protocol::UDP),
        source: Some(pair.sender.v4.into()),
        destination: Some(pair.receiver.v4.into()),
        destination_port: Some(6_001),
        ..Explain::default()
    };
    let explained = client.explain(&request).unwrap();
    assert!(explained.coupled.is_some_and(|queues| queues.classic.sent_packets > 500));
    // All flows of the class together have its rate, and no flow has a share of its own.
    assert_eq!((explained.shares_queue, explained.outlook.map(|rate| rate.as_bps())), (true, Some(8_000_000)));
    senders.stop();
    sink.stop();
    Ended::Passed
}

/// A discipline without classes has one class, which has a name in every reply.
pub fn the_class_of_a_discipline_without_classes_has_a_name() -> Ended {
    let pair = Pair::create().unwrap();
    let text = "version = 1\n[discipline]\nkind = \"cake\"\nrate = \"8mbit\"\n";
    let running = Running::start(&pair, text);
    let mut client = running.client();
    let explained = client.explain(&Explain { protocol: Some(Protocol::UDP), ..Explain::default() }).unwrap();
    assert_eq!((explained.class.as_str(), explained.shares_queue, explained.coupled), ("all", false, None));
    Ended::Passed
}

pub fn flows_and_classes_are_seen_as_they_are() -> Ended {
    let testbed = Testbed::start("numbers");
    let mut client = testbed.client();
    // The first request starts the observation.
    until("all flows, for some seconds", || {
        let observation = client.flows(&Flows::default()).expect("flows");
        let besteffort = up(&observation).classes.iter().find(|class| class.name == "besteffort").expect("a class");
        let flow = |port: u16| up(&observation).flows.iter().find(|flow| flow.flow.destination_port == Some(port));
        [8_080, 8_081, 9_000].into_iter().all(|port| flow(port).is_some())
            && flow(5_004).is_some_and(|call| call.remarked_packets > 100)
            && flow(9_001).is_some_and(|flood| flood.dropped.iter().any(|drops| drops.packets > 10))
            && besteffort.promise_kept_seconds + besteffort.promise_missed_seconds >= 4
    });
    let observation = client.flows(&Flows::default()).expect("flows");
    let direction = up(&observation);
    assert!(observation.in_force && direction.table.counted && observation.interface == "tg0");
    assert!(direction.table.flows >= 5, "{:?}", direction.table);

    // The call, which leaves as EF: its rate, the name of its rule, its promise.
    let call = to_port(&observation, 5004);
    assert_eq!((call.class.as_str(), call.rule.as_deref()), ("calls", Some("video call")));
    assert_eq!(call.flow.source, Some(testbed.pair.sender.v4.into()));
    assert!(call.flow.uid.is_some(), "the owner of the socket is told");
    assert_eq!((call.minimum.map(|rate| rate.as_bps()), call.granted), (Some(1_000_000), true), "{direction:#?}");
    // Another class than "web" by what the rule matches.
    assert!(to_port(&observation, 8080).rule.as_deref().is_some_and(|rule| rule.contains("8080")));
    assert_eq!(to_port(&observation, 9_001).rule, None);
    rules_have_matched(direction, call);
    // The flood exceeds its rate: it is queued and dropped from, and the reason is reported.
    let flood = to_port(&observation, 9_001);
    let balance = flood.sent_packets + flood.queue.packets + flood.dropped_packets();
    assert_eq!(flood.arrived_packets, balance, "every packet is somewhere");
    let best = |observation: &Observation| {
        up(observation).classes.iter().find(|class| class.name == "besteffort").expect("a class").clone()
    };
    let waits = best(&observation).waits;
    assert!(waits.count == best(&observation).sent_packets && waits.up_to.last() == Some(&waits.count), "{waits:?}");
    // Delivered packets are counted, although a reply may be somewhat old.
    let delivered = |n| testbed.sink.report(n).bytes + testbed.sink.report(n).packets * HEADERS;
    let ports = [5004, 8080, 8081];
    let before: Vec<u64> = (0..3).map(delivered).collect();
    until("what was delivered in the counts", || {
        let observation = client.flows(&Flows::default()).expect("flows");
        ports
            .into_iter()
            .zip(&before)
            .all(|(port, delivered)| to_port(&observation, port).sent_bytes.as_u64() >= *delivered)
    });

    let mut measured = Measurements::new();
    measured.hold(|| {
        let observation = client.flows(&Flows::default()).expect("flows");
        // Counted packets were delivered, except those that had not been read yet.
        for (n, port) in ports.into_iter().enumerate() {
            let (counted, delivered) = (to_port(&observation, port).sent_bytes.as_u64(), delivered(n));
            if counted > delivered + 200_000 {
                return Err(format!("{port}: {counted} {delivered}"));
            }
        }
        let (call, flood, best) = (to_port(&observation, 5004), to_port(&observation, 9_001), best(&observation));
        // Its class is promised 3 Mbit/s, and asks for more all the time: each second is kept or missed.
        let kept = best.promise_kept_seconds >= 2 || best.rate.as_bps() < 2_980_000;
        let full = best.rate.as_bps() > 2_000_000 && best.queue.bytes.as_u64() > 0;
        let waits = flood.queue.packets > 0 && flood.wait.p99 > call.wait.p99;
        if kept && full && waits { Ok(()) } else { Err(format!("{best:?} {flood:?}")) }
    });

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

    metrics(&testbed);
    measured.ended()
}

fn value(family: &Family, key: &str, wanted: &str) -> f64 {
    let mut found = family.samples.iter().filter(|sample| sample.labels.get(key).is_some_and(|value| value == wanted));
    found.next().unwrap_or_else(|| panic!("no {key}={wanted} in {family:?}")).value
}

/// Reads the numbers as Prometheus does; they grow from one scrape to the next.
fn metrics(testbed: &Testbed) {
    let scrape = || {
        let (head, body) = testbed.get("/metrics");
        assert!(head.starts_with("http/1.1 200"), "{head}");
        assert!(head.contains("content-type: application/openmetrics-text; version=1.0.0; charset=utf-8"), "{head}");
        parse(&body).unwrap_or_else(|why| panic!("{why}\n{body}"))
    };
    let sent = |families: &std::collections::BTreeMap<String, Family>, class| {
        value(&families["tidegate_class_sent_bytes"], "class", class)
    };
    let turns =
        |families: &std::collections::BTreeMap<String, Family>| families["tidegate_data_path_turns"].samples[0].value;
    let before = scrape();
    let mut after = scrape();
    until("another count", || {
        after = scrape();
        let grows = |class| sent(&after, class) > sent(&before, class) && sent(&before, class) > 10_000.0;
        ["calls", "web", "besteffort"].into_iter().all(grows) && turns(&after) > turns(&before)
    });
    assert!(value(&after["tidegate_rule_bytes"], "rule", "video call") > 10_000.0);
    let wait = &after["tidegate_class_wait_seconds"];
    assert!(wait.samples.iter().any(|sample| sample.name.ends_with("_bucket") && sample.value > 0.0));
    assert_eq!(value(&after["tidegate_class_promised_bytes_per_second"], "class", "web"), 625_000.0);
    assert!(after.contains_key("tidegate_class_promise_seconds"));
}
