//! The contents of the screen, in terminals of several sizes.

use super::*;
use ratatui::Terminal;
use ratatui::backend::TestBackend;
use tidegate_control::calls::{Flow, FlowDrops, FlowTableState, Protocol, Queued, WaitTimes};
use tidegate_units::{Bytes, Rate, Span};

fn flow(n: u16) -> FlowObservation {
    FlowObservation {
        flow: Flow {
            key: format!("{n:016x}"),
            protocol: Some(Protocol::TCP),
            source: Some([10, 77, 0, 1].into()),
            source_port: Some(40_000 + n),
            destination: Some([198, 51, 100, 2].into()),
            destination_port: Some(443),
            uid: Some(0),
        },
        class: "besteffort".into(),
        through: None,
        rule: Some("web".into()),
        dscp: None,
        age: Span::from_secs(100),
        idle: Span::ZERO,
        rate: Rate::from_bps(u64::from(n) * 100_000),
        share: Some(Rate::from_mbit(1)),
        minimum: (n == 3).then_some(Rate::from_mbit(2)),
        granted: true,
        preferred: 0,
        arrived_packets: 1_000,
        arrived_bytes: Bytes::new(1_500_000),
        sent_packets: 900,
        sent_bytes: Bytes::new(1_350_000),
        held_by: None,
        borrowed_bytes: Bytes::new(135_000),
        queue: Queued { packets: 10, bytes: Bytes::new(15_000) },
        wait: WaitTimes {
            p50: Span::from_millis(12),
            p90: Span::from_millis(22),
            p99: Span::from_micros(33_300),
            longest: Span::from_millis(50),
            jitter: Span::from_micros(1_234),
        },
        dropped: vec![FlowDrops { reason: "flow_limit".into(), packets: u64::from(n) }],
        dropped_bytes: Bytes::new(1_500),
        marked_packets: 4,
        remarked_packets: 0,
        promise_kept_seconds: 5,
        promise_missed_seconds: u64::from(n == 3),
    }
}

fn view(flows: u16, classes: usize) -> View {
    let class = |n: usize| ClassObservation {
        name: format!("class{n}"),
        promised: Some(Rate::from_mbit(10)),
        rate: Rate::from_bps(3_210_000),
        ..ClassObservation::default()
    };
    let direction = DirectionObservation {
        name: "up".into(),
        limit: Some(Rate::from_mbit(20)),
        classes: (0..classes).map(class).collect(),
        flows: (0..flows).map(flow).collect(),
        table: FlowTableState { counted: true, flows: flows.into(), ..FlowTableState::default() },
        ..DirectionObservation::default()
    };
    let down = DirectionObservation { name: "down".into(), ..direction.clone() };
    let seen = Observation {
        interface: "eth0".into(),
        in_force: true,
        directions: vec![direction, down],
        ..Observation::default()
    };
    let names = [(format!("{:016x}", 3), ("curl".to_owned(), 4711))].into_iter().collect();
    View::new((seen, names), Programs::of_process(None), FlowSort::Rate, String::new())
}

fn drawn(view: &mut View, width: u16, height: u16) -> String {
    let mut terminal = Terminal::new(TestBackend::new(width, height)).unwrap();
    terminal.draw(|frame| view.paint(frame)).unwrap();
    let buffer = terminal.backend().buffer();
    let line = |y| (0..width).map(|x| buffer[(x, y)].symbol()).collect::<String>();
    (0..height).map(|y| format!("{}\n", line(y).trim_end())).collect()
}

fn press(view: &mut View, keys: &str) {
    for key in keys.chars() {
        view.key(KeyEvent::new(KeyCode::Char(key), KeyModifiers::NONE));
    }
}

#[test]
fn eighty_columns_are_enough() {
    let mut view = view(30, 3);
    let text = drawn(&mut view, 80, 24);
    for word in [
        "eth0 upstream: in force, ",
        "class2",
        "promised",
        "10.0 Mbit/s",
        "program",
        "rate",
        "p99",
        "33.3 ms",
        "q quit",
        "s sort: rate",
    ] {
        assert!(text.contains(word), "{word} in\n{text}");
    }
    // The fastest first, and no flow is missing above the end of the table.
    let place = |port: &str| text.find(port).unwrap_or_else(|| panic!("{port} in\n{text}"));
    assert!(place("2.90 Mbit/s") < place("2.80 Mbit/s"));
    let wide = drawn(&mut view, 200, 50);
    for word in [
        "tcp 10.77.0.1:40029 > 198.51.100.2:443",
        "jitter",
        "marks",
        "minimum",
        "promise",
        "rule",
        "curl",
        "(root)",
        "-1 s",
    ] {
        assert!(wide.contains(word), "{word} in\n{wide}");
    }
}

#[test]
fn live_flows_come_first_and_dead_ones_are_few() {
    let mut view = view(30, 1);
    view.sort = FlowSort::Drops;
    for direction in &mut view.seen.directions {
        // The flows with the most drops have ended.
        for flow in direction.flows.iter_mut().filter(|flow| flow.dropped[0].packets >= 10) {
            (flow.rate, flow.queue) = (Rate::ZERO, Queued::default());
        }
    }
    let dead: Vec<bool> = view.flows().iter().map(FlowObservation::is_idle).collect();
    assert_eq!(dead, [[false; 5], [false; 5], [true; 5]].concat());
    view.filter = "tcp".into();
    assert_eq!(view.flows().len(), 30);
}

#[test]
fn empty_lines_show_the_classes_of_the_other_direction() {
    let mut few = view(2, 2);
    let titles = |text: &str| text.lines().filter(|line| ["upstream", "downstream"].contains(line)).count();
    let text = drawn(&mut few, 80, 24);
    assert_eq!((titles(&text), text.matches("class1").count()), (2, 2), "{text}");
    assert!(text.contains(":40001") && text.contains("running for"), "{text}");
    // With more flows there is no room, and the key d shows the other direction.
    let mut many = view(30, 2);
    let text = drawn(&mut many, 80, 24);
    assert_eq!((titles(&text), text.matches("class1").count()), (0, 1), "{text}");
}

#[test]
fn no_size_is_too_small_or_too_large() {
    for (width, height) in [(1, 1), (5, 3), (20, 5), (40, 10), (79, 15), (80, 16), (300, 100)] {
        for flows in [0, 1, 300] {
            for classes in [0, 1, 40] {
                let mut view = view(flows, classes);
                drawn(&mut view, width, height);
                view.key(KeyEvent::new(KeyCode::End, KeyModifiers::NONE));
                drawn(&mut view, width, height);
                press(&mut view, "?");
                drawn(&mut view, width, height);
            }
        }
    }
}

#[test]
fn keys_sort_filter_freeze_and_select() {
    let mut view = view(10, 1);
    press(&mut view, "x");
    assert_eq!(view.sort, FlowSort::Drops);
    press(&mut view, "/curl");
    assert_eq!(view.mode, Mode::Filter);
    assert!(drawn(&mut view, 80, 24).contains("filter: curl_"));
    view.key(KeyEvent::new(KeyCode::Enter, KeyModifiers::NONE));
    assert_eq!(view.flows().len(), 1);
    view.key(KeyEvent::new(KeyCode::Down, KeyModifiers::NONE));
    let text = drawn(&mut view, 100, 24);
    for word in [
        "curl, process 4711",
        "minimum 2.00 Mbit/s granted, kept 5 s, missed 1 s",
        "flow limit 3",
        "rule web",
        "sent 1.35 MB",
    ] {
        assert!(text.contains(word), "{word} in\n{text}");
    }
    view.key(KeyEvent::new(KeyCode::Esc, KeyModifiers::NONE));
    assert_eq!((view.flows().len(), view.selected.clone()), (10, None));
    // While frozen, updates are not shown; later they are.
    press(&mut view, "f");
    assert!(drawn(&mut view, 80, 24).contains("FROZEN"));
    let updates = || Update::Observation(Box::new((Observation::default(), Names::new())));
    view.take(Some(updates()));
    assert_eq!(view.seen.interface, "eth0");
    press(&mut view, "f");
    view.take(Some(updates()));
    assert_eq!(view.seen.interface, "");
    view.take(Some(Update::Lost("the connection to tidegate broke".into())));
    drawn(&mut view, 80, 24);
    assert_eq!(view.key(KeyEvent::new(KeyCode::Char('q'), KeyModifiers::NONE)), Next::End);
}

#[test]
fn the_other_direction_is_a_key_away() {
    let mut view = view(3, 1);
    press(&mut view, "d");
    assert!(drawn(&mut view, 80, 24).contains("eth0 downstream: in force"));
    press(&mut view, "d");
    assert!(drawn(&mut view, 80, 24).contains("eth0 upstream: in force"));
}

#[test]
fn hosts_have_both_directions_and_fold_out_to_their_flows() {
    let mut view = view(4, 1);
    // Packets of `down` arrive at the hosts: the ends of the flows are exchanged.
    for flow in &mut view.seen.directions[1].flows {
        std::mem::swap(&mut flow.flow.source, &mut flow.flow.destination);
        flow.flow.destination = Some([10, 77, 0, 1 + u8::from(flow.rate.as_bps() == 300_000)].into());
    }
    press(&mut view, "g");
    let text = drawn(&mut view, 80, 24);
    // 0, 100, 200 and 300 kbit/s: all of them up, 300 of 600 down to the other host.
    let of = |host: &str| {
        let line = text.lines().find(|line| line.starts_with(host)).unwrap_or_else(|| panic!("{host} in\n{text}"));
        line.split_whitespace().collect::<Vec<_>>().join(" ")
    };
    assert!(of("10.77.0.1 ").contains("600 kbit/s 3.0 % 300 kbit/s 1.5 %"), "{text}");
    assert!(of("10.77.0.2 ").contains("0 bit/s 0 % 300 kbit/s 1.5 %"), "{text}");
    assert!(of("10.77.0.1 ").contains("33.3 ms") && text.contains("enter its flows"), "{text}");
    // Each row is whole at the other sizes, too.
    for (width, height) in [(1, 1), (20, 5), (60, 20), (200, 50)] {
        drawn(&mut view, width, height);
    }
    view.key(KeyEvent::new(KeyCode::End, KeyModifiers::NONE));
    assert_eq!(view.selected.as_deref(), Some("10.77.0.2"));
    view.key(KeyEvent::new(KeyCode::Enter, KeyModifiers::NONE));
    press(&mut view, "d");
    assert!(!view.hosts && view.flows().len() == 1, "the flow down to that host");
}

#[test]
fn a_change_is_shown_before_it_is_made() {
    let mut view = view(4, 3);
    press(&mut view, "e");
    let text = drawn(&mut view, 80, 24);
    assert!(text.contains("rate of class class0, 10.0 Mbit/s now: _") && text.contains("esc leaves it"), "{text}");
    // Another class, and the whole direction after the last.
    for goal in ["class class1", "class class2", "the whole line, 20.0 M", "class class0"] {
        view.key(KeyEvent::new(KeyCode::Down, KeyModifiers::NONE));
        assert!(drawn(&mut view, 80, 24).contains(&format!("rate of {goal}")), "{goal}");
    }
    press(&mut view, "6mbot");
    view.key(KeyEvent::new(KeyCode::Backspace, KeyModifiers::NONE));
    view.key(KeyEvent::new(KeyCode::Enter, KeyModifiers::NONE));
    // Nothing runs here: the text is kept beside the reason.
    let text = drawn(&mut view, 80, 24);
    assert!(text.contains("now: 6mbo_") && text.contains("there is no shaper to change"), "{text}");
    view.key(KeyEvent::new(KeyCode::Esc, KeyModifiers::NONE));
    assert!(!drawn(&mut view, 80, 24).contains("rate of class"));

    press(&mut view, "p");
    assert!(drawn(&mut view, 80, 24).contains("select a flow with the arrows first"));
    press(&mut view, "jp");
    let text = drawn(&mut view, 80, 24);
    assert!(
        text.contains("prefer tcp 10.77.0.1:40003 > 198.51.100.2:443 by one step") && text.contains("z takes it back"),
        "{text}"
    );
    view.key(KeyEvent::new(KeyCode::Enter, KeyModifiers::NONE));
    assert!(drawn(&mut view, 80, 24).contains("there is no shaper to change"));
    press(&mut view, "z");
    assert!(drawn(&mut view, 80, 24).contains("there is no change to undo"));
    for (width, height) in [(1, 1), (20, 5), (60, 20)] {
        press(&mut view, "e");
        drawn(&mut view, width, height);
        view.key(KeyEvent::new(KeyCode::Esc, KeyModifiers::NONE));
    }
}

/// A gateway with two hosts, as [`view`] has it, with a name for one of them.
fn gateway() -> View {
    let mut view = view(4, 2);
    for flow in &mut view.seen.directions[1].flows {
        std::mem::swap(&mut flow.flow.source, &mut flow.flow.destination);
    }
    for direction in &mut view.seen.directions {
        for (n, flow) in direction.flows.iter_mut().enumerate() {
            let host = if direction.name == "up" { &mut flow.flow.source } else { &mut flow.flow.destination };
            *host = Some([192, 168, 100, 10 + n as u8 % 2].into());
            flow.flow.uid = None;
        }
    }
    view.seen.hosts = tidegate_control::calls::hosts(&view.seen.directions, |_| true);
    view.seen.hosts[0].name = Some("laptop.lan".into());
    view.names.clear();
    view
}

#[test]
fn the_hosts_behind_a_gateway_are_whole_at_each_size() {
    for columns in [60, 80, 120] {
        for keys in ["", "d"] {
            let mut view = gateway();
            press(&mut view, keys);
            let text = drawn(&mut view, columns, 24);
            // The other one has a name.
            assert!(text.contains("192.168.100.10") && text.contains("laptop.lan"), "{columns}, {keys}:\n{text}");
        }
        let mut out = Vec::new();
        let view = gateway();
        hosts::table(&mut out, &view.seen, &view.seen.hosts, Some(columns.into())).unwrap();
        let table = String::from_utf8(out).unwrap();
        assert!(table.lines().all(|line| line.chars().count() <= usize::from(columns)), "{table}");
        assert!(table.contains("192.168.100.11"), "{table}");
    }
}

#[test]
fn long_results_are_whole_at_eighty_columns() {
    let mut view = view(4, 2);
    let error =
        "the classes are promised 7.2mbit, more than the total of 5.7mbit, which is why nothing has changed here";
    view.result = Some(Err(error.into()));
    let text = drawn(&mut view, 80, 24);
    let words: Vec<&str> = text.split_whitespace().collect();
    assert!(error.split(' ').all(|word| words.contains(&word)), "{text}");
    view.result = None;
    view.seen.trouble =
        Some("the rules were removed by another program, and Tidegate puts them back in a moment".into());
    let text = drawn(&mut view, 80, 24);
    assert!(text.contains("in a") && text.contains("moment"), "{text}");
}

/// [`gateway`] with an answer for each direction.
fn answered() -> View {
    let mut view = gateway();
    for direction in &mut view.seen.directions {
        let mut calls = ClassObservation { name: "calls".into(), rate: Rate::from_kbit(64), ..Default::default() };
        calls.wait.p99 = Span::from_millis(if direction.name == "up" { 3 } else { 80 });
        direction.classes.push(calls);
        direction.line.used = Rate::from_mbit(if direction.name == "up" { 19 } else { 20 });
        let answer = tidegate_control::answer::answer(direction, &view.seen.hosts, &Default::default());
        direction.answer = Some(answer);
    }
    view
}

#[test]
fn the_answer_is_first_and_its_colour_is_its_grade() {
    let mut view = answered();
    for width in [80, 200] {
        let mut terminal = Terminal::new(TestBackend::new(width, 40)).unwrap();
        terminal.draw(|frame| view.paint(frame)).unwrap();
        let buffer = terminal.backend().buffer();
        let row = |y| (0..width).map(|x| buffer[(x, y)].symbol()).collect::<String>();
        assert!(row(0).starts_with("up: good  calls: good, 3.00 ms; "), "{}", row(0));
        assert_eq!(buffer[(4, 0)].fg, Color::Green);
        let down =
            (0..10).find(|y| row(*y).starts_with("down: poor  calls: poor, 80.0 ms")).expect("the other direction");
        assert_eq!(buffer[(6, down)].fg, Color::Red);
    }
    // No answer is shown for what is not shaped.
    view.seen.in_force = false;
    assert!(!drawn(&mut view, 80, 40).contains("calls: good"));
}

#[test]
fn a_wide_screen_is_filled_and_shows_both_directions() {
    let mut view = answered();
    view.hosts = true;
    let text = drawn(&mut view, 200, 40);
    let heads: Vec<&str> = text.lines().filter(|line| line.contains("last minute")).collect();
    assert_eq!(heads.len(), 1, "{text}");
    assert_eq!(heads[0].matches("last minute").count(), 2, "both directions: {text}");
    // The blocks have a scale.
    let class =
        text.lines().find(|line| line.contains("class0") && line.contains('█')).unwrap_or_else(|| panic!("{text}"));
    assert!(class.contains("█ max 3.21 Mbit/s"), "{text}");
    let hosts = text.lines().find(|line| line.starts_with("host ")).unwrap_or_else(|| panic!("{text}"));
    assert!(hosts.chars().count() > 180, "the table is as wide as the screen: {hosts}");
    // At 80 columns both stand below each other.
    assert_eq!(fullest(&view.seen), 1);
    let text = drawn(&mut view, 80, 40);
    assert_eq!(text.matches("last minute").count(), 2, "{text}");
}

#[test]
fn flows_have_the_names_of_known_hosts() {
    let mut view = gateway();
    assert!(drawn(&mut view, 120, 30).contains("laptop.lan:"));
}

#[test]
fn a_class_has_its_colour_in_both_directions() {
    let mut view = answered();
    let colours = |view: &View| ["class0", "class1", "calls"].map(|name| answer::colour_of_class(&view.seen, name));
    let before = colours(&view);
    assert!(before[0] != before[1] && before[1] != before[2]);
    // The order of classes in the other direction does not matter.
    view.seen.directions[1].classes.reverse();
    assert_eq!(colours(&view), before);
}

/// The class that the answer is about is what a person looks for in the table below it.
#[test]
fn the_class_that_the_answer_names_is_always_shown() {
    use tidegate_control::answer::{Grade, Traffic, TrafficAnswer};
    use tidegate_control::calls::{Rival, RivalBy};
    let mut view = view(30, 12);
    let traffic = TrafficAnswer {
        traffic: Traffic::Web,
        grade: Some(Grade::Poor),
        evidence: Default::default(),
        rate: Rate::from_mbit(1),
        flows: 1,
        basis: Default::default(),
        class: "class11".into(),
        rival: Some(Rival { class: "class9".into(), by: RivalBy::Priority, percent: 61 }),
    };
    let answer = tidegate_control::answer::Answer { traffic: vec![traffic], ..Default::default() };
    let shown = |view: &mut View| {
        let text = drawn(view, 80, 24);
        ["class0 ", "class9 ", "class11 "].map(|class| text.lines().any(|line| line.starts_with(class)))
    };
    assert_eq!(shown(&mut view), [true, false, false]);
    view.seen.directions[0].answer = Some(answer);
    assert_eq!(shown(&mut view), [true, true, true]);
    let text = drawn(&mut view, 80, 24);
    assert!(text.contains("in class11 (class9 is served first, 61 %)"), "{text}");
}
