use super::kind::{of_class, of_code_point, of_flow};
use super::*;
use crate::calls::{
    DropCount, Flow, FlowDrops, InterfaceObservation, InterfaceStatus, LineObservation, Protocol, Queued, WaitTimes,
};
use tidegate_units::Bytes;

fn words(wait: Span) -> String {
    format!("{} ms", wait.as_nanos() / 1_000_000)
}

fn waits(ms: u64) -> WaitTimes {
    let wait = Span::from_millis(ms);
    WaitTimes { p50: wait, p90: wait, p99: wait, longest: wait, jitter: Span::ZERO }
}

fn class(name: &str, wait_ms: u64) -> ClassObservation {
    ClassObservation {
        name: name.into(),
        rate: Rate::from_mbit(1),
        enqueued_packets: 1_000,
        wait: waits(wait_ms),
        ..ClassObservation::default()
    }
}

/// A flow of `packets` of `size` bytes in `seconds`.
fn flow(key: u8, protocol: Protocol, port: u16, packets: u64, size: u64, seconds: u64) -> FlowObservation {
    FlowObservation {
        flow: Flow {
            key: key.to_string(),
            protocol: Some(protocol),
            source_port: Some(50_000),
            destination_port: Some(port),
            ..Flow::default()
        },
        class: "all".into(),
        age: Span::from_secs(seconds),
        rate: Rate::from_kbit(100),
        arrived_packets: packets,
        arrived_bytes: Bytes::new(packets * size),
        sent_packets: packets,
        sent_bytes: Bytes::new(packets * size),
        ..FlowObservation::default()
    }
}

#[test]
fn every_limit_is_the_last_value_of_its_grade() {
    let grade = |traffic: Traffic, wait| traffic.grade(&Evidence { wait, ..Evidence::default() });
    for (traffic, good, fair) in [
        (Traffic::Calls, 20, 70),
        (Traffic::Games, 20, 50),
        (Traffic::Live, 20, 50),
        (Traffic::Web, 30, 100),
        (Traffic::Bulk, 200, 1_000),
    ] {
        let (good, fair) = (Span::from_millis(good), Span::from_millis(fair));
        let more = |span: Span| Span::from_nanos(span.as_nanos() + 1);
        let grades = [good, more(good), fair, more(fair)].map(|wait| grade(traffic, wait));
        assert_eq!(grades, [Grade::Good, Grade::Fair, Grade::Fair, Grade::Poor].map(Some), "{traffic:?}");
    }
    // What terminals and distance leave of 150 ms is shared by two queues: 19.5 ms each.
    let left = limits::G114_GOOD.saturating_sub(limits::G114_TERMINALS).saturating_sub(limits::G114_DISTANCE);
    assert_eq!(left.as_nanos().div_ceil(2).div_ceil(1_000_000), limits::CALL_GOOD.as_nanos() / 1_000_000);
    assert_eq!(limits::CALL_FAIR, limits::G114_GOOD.saturating_sub(limits::G114_TERMINALS));
    // 1,000 and 300 round trips a minute, half a round trip each way.
    assert_eq!([60_000 / 1_000 / 2, 60_000 / 300 / 2].map(Span::from_millis), [limits::WEB_GOOD, limits::WEB_FAIR]);
}

#[test]
fn jitter_and_losses_matter_to_calls_alone() {
    let jitter = |ms| Evidence { jitter: Span::from_millis(ms), ..Evidence::default() };
    let lost = |lost_ppm| Evidence { lost_ppm, ..Evidence::default() };
    let calls = |evidence| Traffic::Calls.grade(&evidence);
    assert_eq!([20, 21, 50, 51].map(jitter).map(calls), [Grade::Good, Grade::Fair, Grade::Fair, Grade::Poor].map(Some));
    assert_eq!(
        [10_000, 10_001, 30_000, 30_001].map(lost).map(calls),
        [Grade::Good, Grade::Fair, Grade::Fair, Grade::Poor].map(Some)
    );
    for traffic in [Traffic::Web, Traffic::Bulk] {
        assert_eq!(traffic.grade(&lost(500_000)), Some(Grade::Good), "an AQM controls transfers by dropping");
        assert_eq!(traffic.grade(&jitter(500)), Some(Grade::Good));
    }
    assert_eq!(Traffic::Unknown.grade(&jitter(1)), None);
}

#[test]
fn the_name_of_a_class_states_its_kind_if_a_whole_word_does() {
    for (name, traffic) in [
        ("calls", Some(Traffic::Calls)),
        ("Video-Calls", Some(Traffic::Calls)),
        ("voip", Some(Traffic::Calls)),
        ("gaming", Some(Traffic::Games)),
        ("web", Some(Traffic::Web)),
        ("bulk_downloads", Some(Traffic::Bulk)),
        // None of them states a kind, or more than one does.
        ("premium", None),
        ("recalls", None),
        ("callsign", None),
        ("besteffort", None),
        ("calls-and-games", None),
        ("", None),
    ] {
        assert_eq!(of_class(name), traffic, "{name}");
    }
}

#[test]
fn code_points_state_kinds_as_the_rfcs_assign_them() {
    let of = |codes: &[u8]| codes.iter().map(|&code| of_code_point(code)).collect::<Vec<_>>();
    assert_eq!(of(&[46, 44, 40, 34, 36, 38]), vec![Some(Traffic::Calls); 6]);
    assert_eq!(of(&[32]), [Some(Traffic::Games)]);
    assert_eq!(of(&[18, 20, 22]), vec![Some(Traffic::Web); 3]);
    assert_eq!(of(&[1, 8, 10, 12, 14]), vec![Some(Traffic::Bulk); 5]);
    // Best effort, network control, streaming, NQB: no kind of ours.
    assert_eq!(of(&[0, 48, 56, 26, 24, 45, 63]), vec![None; 7]);
}

#[test]
fn behaviour_states_a_kind_or_none() {
    let (tcp, udp) = (Protocol::TCP, Protocol::UDP);
    let kind = |flow: FlowObservation| of_flow(&flow).0;
    // 1 MB of a page, 20 MB of a transfer, acknowledgements of one, an ssh session.
    assert_eq!(kind(flow(1, tcp, 443, 700, 1_448, 3)), Traffic::Web);
    assert_eq!(kind(flow(1, tcp, 443, 14_000, 1_448, 3)), Traffic::Bulk);
    assert_eq!(kind(flow(1, tcp, 443, 5_000, 60, 30)), Traffic::Bulk);
    assert_eq!(kind(flow(1, tcp, 22, 500, 120, 300)), Traffic::Unknown);
    // A slow transfer that keeps a queue.
    let queue = Queued { packets: 2, bytes: Bytes::new(2_896) };
    assert_eq!(kind(FlowObservation { queue, ..flow(1, tcp, 22, 500, 1_448, 10) }), Traffic::Bulk);
    assert_eq!(kind(FlowObservation { queue, ..flow(1, tcp, 443, 500, 1_448, 9) }), Traffic::Web);
    // Voice has 50 datagrams of 214 bytes in a second; so many large ones are video or a transfer.
    assert_eq!(kind(flow(1, udp, 3_478, 1_000, 214, 20)), Traffic::Live);
    assert_eq!(kind(flow(1, udp, 3_478, 1_000, 1_200, 20)), Traffic::Unknown);
    assert_eq!(kind(flow(1, udp, 3_478, 1_000, 214, 4)), Traffic::Unknown, "it has not lasted yet");
    assert_eq!(kind(flow(1, udp, 3_478, 20, 214, 20)), Traffic::Unknown);
    assert_eq!([443, 53].map(|port| kind(flow(1, udp, port, 10, 300, 1))), [Traffic::Web; 2]);
    assert_eq!(kind(FlowObservation { flow: Flow::default(), ..flow(1, udp, 443, 9, 9, 9) }), Traffic::Unknown);
    // A code point overrules behaviour.
    let marked = FlowObservation { dscp: Some(46), ..flow(1, tcp, 443, 700, 1_448, 3) };
    assert_eq!(of_flow(&marked), (Traffic::Calls, Basis::CodePoint));
    let unmarked = FlowObservation { dscp: Some(0), ..marked };
    assert_eq!(of_flow(&unmarked), (Traffic::Web, Basis::Behaviour));
}

#[test]
fn the_answer_is_a_sentence_with_its_evidence() {
    let host = |name: Option<&str>, n: u8, kbit| HostObservation {
        address: [192, 0, 2, n].into(),
        name: name.map(Into::into),
        up: crate::calls::HostDirection { rate: Rate::from_kbit(kbit), ..Default::default() },
        down: crate::calls::HostDirection::default(),
        class: "all".into(),
        limited_by: Default::default(),
        rival: None,
    };
    let hosts = [host(None, 7, 390), host(Some("anna-laptop"), 8, 610)];
    let direction = DirectionObservation {
        name: "up".into(),
        limit: Some(Rate::from_mbit(1)),
        line: LineObservation { carries: None, used: Rate::from_mbit(1), overhead: Rate::ZERO },
        classes: vec![class("calls", 3), class("web", 26), class("rest", 166)],
        ..DirectionObservation::default()
    };
    let found = answer(&direction, &hosts, &Before::of(&direction));
    assert_eq!(found.sentence(words), "calls: good, 3 ms; web: good, 26 ms; line full, by anna-laptop 61 %");
    assert_eq!((found.grade, found.full_percent), (Some(Grade::Good), Some(100)));
    // In the other direction these hosts receive nothing, and a line that is half empty needs no name.
    let down = DirectionObservation { name: "down".into(), ..direction.clone() };
    assert_eq!(answer(&down, &hosts, &Before::default()).taker, None);
    let line = LineObservation { used: Rate::from_kbit(200), ..direction.line };
    let quiet = DirectionObservation { classes: vec![class("calls", 80)], line, ..direction.clone() };
    assert_eq!(answer(&quiet, &hosts, &Before::default()).sentence(words), "calls: poor, 80 ms; line 20 % full");
    let idle = DirectionObservation { classes: vec![ClassObservation::default()], ..quiet };
    assert_eq!(
        answer(&idle, &[], &Before::default()).sentence(words),
        "not graded, since flows are not counted; line 20 % full"
    );
    let silent = DirectionObservation { line: LineObservation::default(), ..idle };
    assert_eq!(answer(&silent, &[], &Before::default()).sentence(words), "nothing is sent; line 0 % full");
}

#[test]
fn losses_are_those_since_before() {
    let lossy = |arrived, dropped| ClassObservation {
        enqueued_packets: arrived,
        dropped: vec![DropCount { reason: "aqm".into(), packets: dropped, bytes: Bytes::ZERO }],
        ..class("calls", 3)
    };
    let direction = |class| DirectionObservation { name: "up".into(), classes: vec![class], ..Default::default() };
    let before = Before::of(&direction(lossy(1_000, 500)));
    let of = |class, before: &Before| answer(&direction(class), &[], before).sentence(words);
    assert_eq!(of(lossy(2_000, 505), &before), "calls: good, 3 ms");
    assert_eq!(of(lossy(2_000, 521), &before), "calls: fair, 3 ms, 2.1 % lost");
    // After a restart the counts begin anew.
    assert_eq!(of(lossy(100, 4), &before), "calls: poor, 3 ms, 4.0 % lost");
    let jittery =
        ClassObservation { wait: WaitTimes { jitter: Span::from_millis(30), ..waits(3) }, ..class("calls", 3) };
    assert_eq!(of(jittery, &before), "calls: fair, 3 ms, jitter 30 ms");
}

#[test]
fn flows_answer_where_no_class_does() {
    let with = |ms, flow: FlowObservation| FlowObservation { wait: waits(ms), ..flow };
    let (tcp, udp) = (Protocol::TCP, Protocol::UDP);
    // Nine pages wait 5 ms and one 90: nine of ten count. Of two calls the worse counts.
    let pages = (0..10).map(|n| with(if n == 9 { 90 } else { 5 }, flow(n, tcp, 443, 100, 500, 2)));
    let calls = [with(2, flow(20, udp, 3_478, 1_000, 214, 20)), with(60, flow(21, udp, 3_478, 1_000, 214, 20))];
    let ssh = with(8, flow(30, tcp, 22, 500, 120, 300));
    let ended = FlowObservation { idle: Span::from_secs(11), ..with(900, flow(31, udp, 3_478, 1_000, 214, 20)) };
    let direction = DirectionObservation {
        name: "up".into(),
        classes: vec![class("all", 166)],
        flows: pages.chain(calls).chain([ssh, ended]).collect(),
        ..DirectionObservation::default()
    };
    let found = answer(&direction, &[], &Before::default());
    assert_eq!(
        found.sentence(words),
        "calls or games: poor, 60 ms; web: good, 5 ms; other: 8 ms, of a kind that is not known"
    );
    assert_eq!(found.traffic.iter().map(|one| one.flows).collect::<Vec<_>>(), [2, 10, 1]);
    assert_eq!(found.traffic[0].basis, Basis::Behaviour);
    // Losses of a flow count, too.
    let mut lossy = direction.clone();
    lossy.flows[10].dropped = vec![FlowDrops { reason: "aqm".into(), packets: 100 }];
    assert_eq!(answer(&lossy, &[], &Before::of(&direction)).traffic[0].evidence.lost_ppm, 1_000_000);
    // Flows of a class with a telling name are counted, and the class answers for them.
    let named = FlowObservation { class: "calls".into(), ..with(500, flow(40, tcp, 443, 100, 500, 2)) };
    let direction = DirectionObservation { classes: vec![class("calls", 3)], flows: vec![named], ..direction };
    let found = answer(&direction, &[], &Before::default());
    assert_eq!((found.sentence(words).as_str(), found.traffic[0].flows), ("calls: good, 3 ms", 1));
}

/// Guests fill their own ceilings on a line with room: that was asked for, and their pages are no sign of a bad line. Whose pages
/// wait elsewhere is said.
#[test]
fn what_waits_for_a_ceiling_has_no_grade_and_is_said() {
    let udp = Protocol::UDP;
    let guest = |key, port, held_by| FlowObservation {
        class: "guests".into(),
        held_by,
        wait: waits(302),
        ..flow(key, Protocol::TCP, port, 100, 1_000, 3)
    };
    let page =
        |ms| FlowObservation { class: "house".into(), wait: waits(ms), ..flow(9, Protocol::TCP, 443, 100, 1_000, 3) };
    let call = FlowObservation { class: "guests".into(), wait: waits(3), ..flow(8, udp, 3_478, 1_000, 214, 20) };
    let mut direction = DirectionObservation {
        name: "up".into(),
        classes: vec![class("guests", 302), class("house", 5)],
        flows: vec![guest(1, 443, Some(HeldBy::Host)), guest(2, 443, None), call, page(5)],
        limit: Some(Rate::from_mbit(20)),
        ..DirectionObservation::default()
    };
    let said = |direction: &DirectionObservation| {
        let found = answer(direction, &[], &Before::default());
        (found.grade, found.sentence(words))
    };
    let text = "calls or games: good, 3 ms; web: good, 5 ms; at a ceiling: guests (host-at-most); line 0 % full";
    assert_eq!(said(&direction), (Some(Grade::Good), text.into()));
    // Nobody waits for a ceiling: the pages of guests are bad, and whose they are is said.
    direction.flows[0].held_by = None;
    let text = "calls or games: good, 3 ms; web: poor, 302 ms in guests; line 0 % full";
    assert_eq!(said(&direction), (Some(Grade::Poor), text.into()));
    // What was sent seconds ago tells nothing of now.
    for flow in &mut direction.flows {
        flow.idle = Span::from_secs(4);
    }
    assert_eq!(said(&direction), (None, "nothing is sent; line 0 % full".into()));
}

/// Guests whose class has a small promise wait long on a full line. A transfer that takes longer calls nobody at night.
#[test]
fn transfers_alone_make_nothing_poor() {
    let of = |classes| DirectionObservation { name: "up".into(), classes, ..DirectionObservation::default() };
    let grade = |classes| answer(&of(classes), &[], &Before::default()).grade;
    assert_eq!(grade(vec![class("calls", 3), class("bulk", 1_210)]), Some(Grade::Fair));
    assert_eq!(grade(vec![class("calls", 3), class("web", 302)]), Some(Grade::Poor));
}

/// Rates of the second before it went down would be graded as if they were of now.
#[test]
fn an_interface_that_is_down_has_no_grade() {
    let interface = |name: &str, present, down| InterfaceObservation {
        counts: InterfaceStatus { name: name.into(), present, down, ..Default::default() },
        ..Default::default()
    };
    let of = |interfaces| DirectionObservation {
        name: "up".into(),
        classes: vec![class("calls", 3)],
        interfaces,
        ..DirectionObservation::default()
    };
    let said = |interfaces| {
        let found = answer(&of(interfaces), &[], &Before::default());
        (found.word(), found.sentence(words))
    };
    assert_eq!(said(vec![interface("wan0", true, true)]), ("down", "wan0 is down".into()));
    let both = vec![interface("wan0", true, true), interface("wan1", false, false)];
    assert_eq!(said(both), ("down", "wan0 is down, wan1 is gone".into()));
    assert_eq!(said(vec![interface("wan0", true, true), interface("wan1", true, false)]).0, "good");
}

/// A television at the ceiling of its rule says nothing about a transfer beside it in its class, nor about who takes the line. With
/// host-at-most only the hosts at it are left out, and a class that states its kind by its name answers by its other flows.
#[test]
fn a_device_at_its_ceiling_leaves_the_grades_of_the_others() {
    let of = |key, host: u8, rule: Option<&str>, held_by, ms| {
        let mut flow = flow(key, Protocol::TCP, 443, 14_000, 1_448, 30);
        flow.flow.destination = Some([192, 168, 1, host].into());
        flow.rate = Rate::from_kbit(100 * u64::from(host));
        FlowObservation { rule: rule.map(Into::into), held_by, wait: waits(ms), ..flow }
    };
    let tv = [of(1, 1, Some("tv"), Some(HeldBy::Rule), 900), of(2, 1, Some("tv"), None, 800)];
    let direction = |class_name: &str, flows: Vec<FlowObservation>| DirectionObservation {
        name: "down".into(),
        classes: vec![ClassObservation { held_by: Some(HeldBy::Rule), ..class(class_name, 900) }],
        flows: flows.into_iter().map(|flow| FlowObservation { class: class_name.into(), ..flow }).collect(),
        limit: Some(Rate::from_mbit(1)),
        line: LineObservation { used: Rate::from_mbit(1), ..LineObservation::default() },
        ..DirectionObservation::default()
    };
    let said = |direction: &DirectionObservation| {
        let hosts = crate::calls::hosts(std::slice::from_ref(direction), |_| true);
        answer(direction, &hosts, &Before::default()).sentence(words)
    };
    for name in ["house", "bulk"] {
        let beside = direction(name, tv.iter().cloned().chain([of(3, 8, None, None, 20)]).collect());
        let text = format!("bulk: good, 20 ms; at a ceiling: {name} (rule at-most); line full, by 192.168.1.8 80 %");
        assert_eq!(said(&beside), text);
        let alone = direction(name, tv.to_vec());
        let text = format!("at a ceiling: {name} (rule at-most); line full, by 192.168.1.1 20 %");
        assert_eq!(said(&alone), text);
    }
    let guests = [of(1, 7, None, Some(HeldBy::Host), 900), of(2, 7, None, None, 800), of(3, 8, None, None, 300)];
    let answered = said(&direction("guests", guests.to_vec()));
    assert!(answered.starts_with("bulk: fair, 300 ms; at a ceiling: guests (host-at-most); line full"), "{answered}");
    // Where no flows are observed, the class is all that is known.
    assert_eq!(said(&direction("bulk", vec![])), "at a ceiling: bulk (rule at-most); line full");
}

/// Who has the rate is said beside a bad grade, and of a host that its share limits.
#[test]
fn a_bad_answer_names_the_class_that_has_the_rate() {
    let queue = Queued { packets: 9, bytes: Bytes::new(13_500) };
    let calls = ClassObservation { rate: Rate::from_mbit(5), priority: Some(0), ..class("calls", 3) };
    let web = ClassObservation { rate: Rate::from_mbit(3), priority: Some(1), queue, ..class("web", 166) };
    let page = FlowObservation { class: "web".into(), queue, ..flow(1, Protocol::TCP, 443, 100, 1_000, 3) };
    let source = Some([192, 0, 2, 7].into());
    let page = FlowObservation { flow: Flow { source, ..page.flow.clone() }, ..page };
    let direction = DirectionObservation {
        name: "up".into(),
        limit: Some(Rate::from_mbit(8)),
        line: LineObservation { carries: None, used: Rate::from_mbit(8), overhead: Rate::ZERO },
        classes: vec![calls, web],
        flows: vec![page],
        ..DirectionObservation::default()
    };
    let found = answer(&direction, &[], &Before::of(&direction));
    assert_eq!(found.sentence(words), "calls: good, 3 ms; web: poor, 166 ms (calls is served first, 63 %); line full");
    let hosts = crate::calls::hosts(&[direction], |_| true);
    assert_eq!(hosts[0].limit_text(), "its share: calls is served first, 63 %");
}
