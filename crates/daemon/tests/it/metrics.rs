//! The metrics conform to the format, and report what was counted.

use std::collections::BTreeSet;
use std::sync::Arc;

use tidegate_control::answer::{Before, answer};
use tidegate_control::calls::{
    Ceilings, ClassObservation, ControlStatus, CoupledQueue, CoupledQueues, DirectionObservation, DropCount, Flow,
    FlowDrops, FlowObservation, HeldBy, HostDirection, HostLimit, HostObservation, LineObservation, Observation,
    Protocol, Queued, QuotaStatus, RuleObservation, TimedRuleStatus, WaitTimes, Waits,
};
use tidegate_daemon::metrics;
use tidegate_testbed::openmetrics::{Family, Sample, parse};
use tidegate_units::{Bytes, Rate, Span};

fn class(name: &str) -> ClassObservation {
    let mut up_to: Vec<u64> = vec![0; 21];
    // 5 waits up to 32.768 µs, 7 up to twice that, 8 up to 17 s, one longer.
    up_to.iter_mut().enumerate().for_each(|(n, count)| *count = [0, 5, 7][n.min(2)] + u64::from(n == 20));
    ClassObservation {
        name: name.into(),
        promised: Some(Rate::from_mbit(8)),
        flows: Some(3),
        sent_packets: 9,
        sent_bytes: Bytes::new(12_345),
        dropped: vec![DropCount { reason: "flow_limit".into(), packets: 4, bytes: Bytes::new(400) }],
        waits: Waits { count: 9, sum: Span::from_millis(1_500), up_to },
        held_by: Some(HeldBy::Host),
        ceilings: Ceilings { host: Some(Rate::from_mbit(4)), ..Ceilings::default() },
        promise_kept_seconds: 17,
        promise_missed_seconds: 2,
        ..ClassObservation::default()
    }
}

fn flow(port: u16, rate: u64) -> FlowObservation {
    FlowObservation {
        flow: Flow {
            key: format!("{port:016x}"),
            protocol: Some(Protocol::UDP),
            source: Some("2001:db8::1".parse().unwrap()),
            source_port: Some(port),
            destination: Some("192.0.2.1".parse().unwrap()),
            destination_port: Some(5004),
            uid: Some(1000),
        },
        class: "calls".into(),
        through: None,
        rule: Some("protocol udp destination-port 5004".into()),
        dscp: None,
        age: Span::from_secs(10),
        idle: Span::ZERO,
        rate: Rate::from_bps(rate),
        share: Some(Rate::from_mbit(1)),
        minimum: Some(Rate::from_mbit(1)),
        granted: true,
        preferred: 0,
        arrived_packets: 10,
        arrived_bytes: Bytes::new(1_000),
        sent_packets: 8,
        sent_bytes: Bytes::new(800),
        held_by: None,
        borrowed_bytes: Bytes::ZERO,
        queue: Queued { packets: 1, bytes: Bytes::new(100) },
        wait: WaitTimes {
            p50: Span::from_millis(1),
            p90: Span::from_millis(2),
            p99: Span::from_millis(3),
            longest: Span::from_millis(4),
            jitter: Span::from_micros(50),
        },
        dropped: vec![FlowDrops { reason: "flow_limit".into(), packets: 1 }],
        dropped_bytes: Bytes::new(100),
        marked_packets: 0,
        remarked_packets: 8,
        promise_kept_seconds: 5,
        promise_missed_seconds: 1,
    }
}

fn rule(number: u32, name: Option<&str>, packets: u64) -> RuleObservation {
    RuleObservation {
        rule: number,
        name: name.map(str::to_owned),
        label: name.unwrap_or("port 1").into(),
        class: "calls".into(),
        in_force: true,
        packets,
        bytes: Bytes::new(10 * packets),
    }
}

pub fn observation() -> Observation {
    let up = DirectionObservation {
        name: "up".into(),
        limit: Some(Rate::from_mbit(10)),
        line: LineObservation { carries: None, used: Rate::from_mbit(8), overhead: Rate::from_kbit(80) },
        classes: vec![class("calls"), class("a \"class\"\\ with\nall")],
        rules: vec![rule(1, None, 7), rule(2, Some("allowance"), 100)],
        quotas: vec![QuotaStatus {
            rule: 2,
            label: "allowance".into(),
            count: "c0".into(),
            used: Bytes::new(90_000),
            left: Bytes::new(10_000),
            quota: Bytes::new(100_000),
            period: "day".into(),
            next: "2026-11-28".into(),
            next_s: Some(1_795_824_000),
        }],
        times: vec![TimedRuleStatus { rule: 3, label: "office".into(), holds: true, until: Some("fri 18:00".into()) }],
        flows: (0..50).map(|n| flow(1_000 + n, u64::from(n) * 1_000)).collect(),
        ..DirectionObservation::default()
    };
    let host = |n: u8| HostObservation {
        address: [192, 168, 1, n].into(),
        name: (n == 1).then(|| "laptop".into()),
        up: HostDirection {
            rate: Rate::from_kbit(u64::from(100 - n)),
            sent_bytes: Bytes::new(1_000),
            ..Default::default()
        },
        down: HostDirection { dropped_packets: 3, ..Default::default() },
        class: "calls".into(),
        limited_by: HostLimit::Share,
        rival: None,
    };
    let down =
        DirectionObservation { name: "down".into(), classes: vec![class("calls")], ..DirectionObservation::default() };
    let hosts: Vec<_> = (1..=64).map(host).collect();
    let mut up = up;
    up.classes[0].rate = Rate::from_mbit(1);
    up.answer = Some(answer(&up, &hosts, &Before::default()));
    Observation {
        interface: "eth0".into(),
        in_force: true,
        directions: vec![up, down],
        hosts,
        ..Observation::default()
    }
}

pub fn text(observation: Observation) -> String {
    metrics::text(&Arc::new(observation), &ControlStatus { requests: 3, lost: 2, ..ControlStatus::default() })
        .expect("text")
}

fn value(family: &Family, labels: &[(&str, &str)]) -> f64 {
    let fits = |sample: &&Sample| {
        labels.iter().all(|(key, value)| sample.labels.get(*key).map(String::as_str) == Some(*value))
    };
    let mut found = family.samples.iter().filter(fits);
    let value = found.next().unwrap_or_else(|| panic!("no {labels:?} in {family:?}")).value;
    assert!(found.next().is_none(), "one only: {labels:?}");
    value
}

#[test]
fn what_is_written_is_strictly_openmetrics() {
    let text = text(observation());
    let families = parse(&text).unwrap_or_else(|why| panic!("{why}\n{text}"));
    let of = |name: &str| families.get(name).unwrap_or_else(|| panic!("{name} in {:?}", families.keys()));
    assert!(families.values().all(|family| !family.help.is_empty() && !family.samples.is_empty()));
    assert_eq!(value(of("tidegate_in_force"), &[]), 1.0);
    assert_eq!(value(of("tidegate_build"), &[("interface", "eth0")]), 1.0);
    let calls = [("direction", "up"), ("class", "calls")];
    assert_eq!(value(of("tidegate_class_sent_bytes"), &calls), 12_345.0);
    assert_eq!(value(of("tidegate_class_promised_bytes_per_second"), &calls), 1e6);
    let dropped = of("tidegate_class_dropped_packets");
    assert_eq!(value(dropped, &[calls[0], calls[1], ("reason", "flow_limit")]), 4.0);
    let held = |ceiling: &str| value(of("tidegate_class_held"), &[calls[0], calls[1], ("ceiling", ceiling)]);
    assert_eq!((held("host-at-most"), held("at-most")), (1.0, 0.0));
    let ceiling = of("tidegate_class_ceiling_bytes_per_second");
    assert_eq!(value(ceiling, &[calls[0], calls[1], ("ceiling", "host-at-most")]), 5e5);
    let allowance = [("direction", "up"), ("rule", "allowance"), ("class", "calls"), ("period", "day")];
    assert_eq!(value(of("tidegate_quota_bytes"), &allowance), 100_000.0);
    assert_eq!(value(of("tidegate_quota_used_bytes"), &allowance), 90_000.0);
    assert_eq!(value(of("tidegate_quota_resets_timestamp_seconds"), &allowance), 1_795_824_000.0);
    assert_eq!(value(of("tidegate_rule_in_force"), &[("direction", "up"), ("rule", "office")]), 1.0);
    let promise = of("tidegate_class_promise_seconds");
    assert_eq!(value(promise, &[calls[0], calls[1], ("outcome", "missed")]), 2.0);
    assert_eq!(value(promise, &[calls[0], calls[1], ("outcome", "kept")]), 17.0);
    // Any class name is preserved by escaping.
    assert_eq!(value(of("tidegate_class_flows"), &[("class", "a \"class\"\\ with\nall")]), 3.0);
    let waits = of("tidegate_class_wait_seconds");
    assert_eq!(waits.kind, "histogram");
    assert_eq!(value(waits, &[calls[0], calls[1], ("le", "0.000016384")]), 0.0);
    assert_eq!(value(waits, &[calls[0], calls[1], ("le", "0.000032768")]), 5.0);
    assert_eq!(value(waits, &[calls[0], calls[1], ("le", "+Inf")]), 9.0);
    let sum = waits.samples.iter().find(|sample| sample.name.ends_with("_sum")).unwrap();
    assert_eq!(sum.value, 1.5);
    assert_eq!(value(of("tidegate_control_events_lost"), &[]), 2.0);
    assert!(families.contains_key("tidegate_data_path_turns"));
}

#[test]
fn each_coupled_queue_has_a_series_of_its_own() {
    let queue = |packets| CoupledQueue {
        queue: Queued { packets, bytes: Bytes::new(100 * packets) },
        waited: Span::from_millis(packets),
        marked_packets: 10 * packets,
        ..CoupledQueue::default()
    };
    let queues = CoupledQueues {
        low_latency: queue(1),
        classic: queue(2),
        sanctioned: queue(3),
        coupled_ppm: 125_000,
        classic_ppm: 3_906,
        flows: vec![flow(7, 1).flow],
    };
    let mut observed = observation();
    observed.directions[0].classes[0].coupled = Some(queues);
    let families = parse(&text(observed)).unwrap();
    let of =
        |name: &str| ["low-latency", "classic", "sanctioned"].map(|queue| value(&families[name], &[("queue", queue)]));
    assert_eq!(of("tidegate_coupled_queue_packets"), [1.0, 2.0, 3.0]);
    assert_eq!(of("tidegate_coupled_marked_packets"), [10.0, 20.0, 30.0]);
    assert_eq!(of("tidegate_coupled_wait_seconds"), [0.001, 0.002, 0.003]);
    let probability = &families["tidegate_coupled_probability_ratio"];
    assert_eq!(["low-latency", "classic"].map(|queue| value(probability, &[("queue", queue)])), [0.125, 0.003_906]);
    assert_eq!(value(&families["tidegate_coupled_sanctioned_flows"], &[("class", "calls")]), 1.0);
}

#[test]
fn a_rule_has_a_series_by_its_name_or_conditions() {
    let families = parse(&text(observation())).unwrap();
    let of =
        |name: &str, rule: &str| value(&families[name], &[("direction", "up"), ("rule", rule), ("class", "calls")]);
    assert_eq!((of("tidegate_rule_packets", "port 1"), of("tidegate_rule_bytes", "port 1")), (7.0, 70.0));
    assert_eq!((of("tidegate_rule_packets", "allowance"), of("tidegate_rule_bytes", "allowance")), (100.0, 1_000.0));
    assert_eq!(families["tidegate_rule_bytes"].kind, "counter");
    // Rules may have the same name.
    let mut twice = observation();
    twice.directions[0].rules.push(rule(3, Some("allowance"), 1));
    let families = parse(&text(twice)).unwrap();
    assert_eq!(value(&families["tidegate_rule_packets"], &[("rule", "allowance")]), 101.0);
}

/// A rule that is put first takes no series from the others, and a quota has the labels of what its rule matches.
#[test]
fn series_of_rules_stay_when_rules_move() {
    let keys = |observation: Observation, name: &str| -> Vec<Vec<String>> {
        let families = parse(&text(observation)).unwrap();
        let labels = |sample: &Sample| ["direction", "rule", "class"].map(|key| sample.labels[key].clone()).to_vec();
        families[name].samples.iter().map(labels).collect()
    };
    let mut moved = observation();
    let up = &mut moved.directions[0];
    up.rules.iter_mut().for_each(|rule| rule.rule += 1);
    up.quotas.iter_mut().for_each(|quota| quota.rule += 1);
    for name in ["tidegate_rule_packets", "tidegate_quota_used_bytes"] {
        assert_eq!(keys(moved.clone(), name), keys(observation(), name));
    }
    let counted = keys(observation(), "tidegate_rule_packets");
    assert!(keys(observation(), "tidegate_quota_used_bytes").iter().all(|quota| counted.contains(quota)));
}

/// One device may have a quota of a fast class and then one of a slow class; conditions that are cut may begin alike.
#[test]
fn quotas_of_the_same_conditions_are_series_of_their_own() {
    let mut same = observation();
    let up = &mut same.directions[0];
    for number in [3, 4] {
        let quota = QuotaStatus { rule: number, count: format!("c{number}"), ..up.quotas[0].clone() };
        up.rules.push(RuleObservation { class: "rest".into(), ..rule(number, Some("allowance"), 1) });
        up.quotas.push(quota);
    }
    let families = parse(&text(same)).unwrap();
    let used = &families["tidegate_quota_used_bytes"];
    assert_eq!(value(used, &[("rule", "allowance"), ("class", "calls")]), 90_000.0);
    assert_eq!(value(used, &[("rule", "allowance"), ("class", "rest")]), 90_000.0);
    assert_eq!(value(used, &[("rule", "allowance (rule 4)"), ("class", "rest")]), 90_000.0);
}

/// An alert about a quota that both directions use up comes once.
#[test]
fn a_quota_of_both_directions_is_one_series() {
    let mut shared = observation();
    let mut of_down = shared.directions[0].quotas.clone();
    of_down[0].rule = 1;
    of_down.push(QuotaStatus { count: "c1".into(), label: "other".into(), ..of_down[0].clone() });
    shared.directions[1].quotas = of_down;
    let families = parse(&text(shared)).unwrap();
    let used = &families["tidegate_quota_used_bytes"];
    assert_eq!(used.samples.len(), 2);
    assert_eq!(value(used, &[("direction", "both"), ("rule", "allowance")]), 90_000.0);
    assert_eq!(value(used, &[("direction", "down"), ("rule", "other")]), 90_000.0);
}

/// Every connection has another port, so that a collector would keep a series of each for ever.
#[test]
fn no_label_is_a_flow() {
    let families = parse(&text(observation())).unwrap();
    let labels: BTreeSet<&str> = families
        .values()
        .flat_map(|family| &family.samples)
        .flat_map(|one| one.labels.keys().map(String::as_str))
        .collect();
    assert!(
        ["flow", "port", "source_port", "destination_port"].iter().all(|label| !labels.contains(label)),
        "{labels:?}"
    );
}

/// A process may shape several interfaces; the label is the same then as where it shapes one.
#[test]
fn each_direction_has_its_interface() {
    let mut two = observation();
    two.interface = "eth0, ppp0.7".into();
    two.directions[0].name = "eth0.up".into();
    two.directions[1].name = "ppp0.7.down".into();
    let families = parse(&text(two)).unwrap();
    let sent = &families["tidegate_class_sent_bytes"];
    assert_eq!(value(sent, &[("interface", "eth0"), ("direction", "up"), ("class", "calls")]), 12_345.0);
    assert_eq!(value(sent, &[("interface", "ppp0.7"), ("direction", "down"), ("class", "calls")]), 12_345.0);
    let one = parse(&text(observation())).unwrap();
    let sent = &one["tidegate_class_sent_bytes"];
    assert_eq!(value(sent, &[("interface", "eth0"), ("direction", "down"), ("class", "calls")]), 12_345.0);
}

#[test]
fn only_the_fastest_hosts_are_exported_in_both_directions() {
    let families = parse(&text(observation())).unwrap();
    let sent = &families["tidegate_host_sent_bytes"];
    assert_eq!((sent.kind.as_str(), sent.samples.len()), ("counter", 2 * metrics::HOSTS));
    assert_eq!(value(sent, &[("host", "192.168.1.1"), ("name", "laptop"), ("direction", "up")]), 1_000.0);
    assert_eq!(value(sent, &[("host", "192.168.1.20"), ("name", ""), ("direction", "down")]), 0.0);
    assert_eq!(
        value(&families["tidegate_host_dropped_packets"], &[("host", "192.168.1.9"), ("direction", "down")]),
        3.0
    );
    // The line of each direction, where something is known of it.
    assert_eq!(value(&families["tidegate_line_used_bytes_per_second"], &[("direction", "up")]), 1e6);
    assert_eq!(value(&families["tidegate_line_overhead_bytes_per_second"], &[("direction", "up")]), 1e4);
    assert!(!families.contains_key("tidegate_line_bytes_per_second"), "the configuration does not state it");
}

#[test]
fn the_answer_is_exported() {
    let families = parse(&text(observation())).unwrap();
    let calls = [("direction", "up"), ("traffic", "calls")];
    // The class dropped 4 packets, and none arrived since.
    assert_eq!(value(&families["tidegate_traffic_grade"], &calls), 0.0);
    assert_eq!(value(&families["tidegate_traffic_lost_ratio"], &calls), 1.0);
    assert_eq!(value(&families["tidegate_traffic_wait_seconds"], &calls), 0.0);
    assert_eq!(value(&families["tidegate_traffic_bytes_per_second"], &calls), 125_000.0);
    // The grades have the numbers that alert rules compare.
    use tidegate_control::answer::Grade;
    assert_eq!([Grade::Poor, Grade::Fair, Grade::Good].map(Grade::number), [0, 1, 2]);
}

#[test]
fn nothing_seen_yet_is_valid_too() {
    let text = text(Observation::default());
    let families = parse(&text).unwrap_or_else(|why| panic!("{why}\n{text}"));
    assert!(!families.contains_key("tidegate_class_sent_bytes"), "a family without samples is left out");
    assert_eq!(metrics::CONTENT_TYPE, "application/openmetrics-text; version=1.0.0; charset=utf-8");
}

/// The parser must refuse invalid text.
#[test]
fn the_parser_refuses_what_is_wrong() {
    let good = text(observation());
    let with = |from: &str, to: &str| {
        assert!(good.contains(from), "{from}");
        good.replacen(from, to, 1)
    };
    let wrong = [
        ("no end", good.replace("# EOF\n", "")),
        ("more behind the end", format!("{good}tidegate_x 1\n")),
        ("no newline at the end", good.trim_end().to_owned()),
        ("an empty line", with("# TYPE", "\n# TYPE")),
        ("a counter without its suffix", with("tidegate_data_path_turns_total", "tidegate_data_path_turns")),
        ("a counter below zero", with("reason=\"flow_limit\"} 4", "reason=\"flow_limit\"} -4")),
        ("an unknown type", with("# TYPE tidegate_in_force gauge", "# TYPE tidegate_in_force number")),
        ("a bad escape", with("\\\"class\\\"", "\\xclass\\\"")),
        ("a raw newline in a label", with("with\\nall", "with\nall")),
        ("a bucket that falls", with(",class=\"calls\"} 5\n", ",class=\"calls\"} 8\n")),
        (
            "no last bucket",
            good.lines().filter(|line| !line.contains("+Inf")).map(|line| format!("{line}\n")).collect(),
        ),
        ("a value that is none", with("tidegate_in_force 1.0", "tidegate_in_force one")),
        ("a series twice", with("tidegate_in_force 1.0\n", "tidegate_in_force 1.0\ntidegate_in_force 1.0\n")),
        (
            "a family in two pieces",
            good.replace("# EOF\n", "# TYPE tidegate_in_force gauge\ntidegate_in_force{x=\"1\"} 1\n# EOF\n"),
        ),
        ("two spaces", with("tidegate_in_force 1.0", "tidegate_in_force  1.0")),
    ];
    for (what, text) in wrong {
        assert!(parse(&text).is_err(), "{what}");
    }
}
