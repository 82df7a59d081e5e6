//! Promises and notifications, with the arithmetic beside them.

use tidegate_config::shaper;
use tidegate_config::{Diagnostics, Source};
use tidegate_core::classify::{Classifier, Fields, Hosts, Match, Rule};
use tidegate_core::fbq::Terms;
use tidegate_core::{ClassId, DropReason, Event, Instant, Rate, Span};
use tidegate_engine::shards::Shard;
use tidegate_engine::{
    Change, Engine, Names, Notification, NotificationKind, PacketMeta, PromiseError, PromiseTable, Setup, Sink,
};

const TEXT: &str = "version = 1\n\
    [shaper]\nidle-timeout = \"1s\"\n\
    [[class]]\nname = \"all\"\nrate = \"8mbit\"\ndefault = true\n";

fn config() -> shaper::Config {
    shaper::load(&Source::new("test.toml", TEXT), &mut Diagnostics::new()).expect("valid")
}

fn engine() -> Engine<u64> {
    let setup = Setup { seed: 1, secret: [1, 2], catch_up: Span::ZERO, most_queued: None, names: Names::default() };
    Engine::new(&config(), &setup, Instant::ZERO).expect("valid")
}

fn meta(port: u16) -> PacketMeta {
    let hosts = Hosts::V4 { source: [10, 0, 0, 1].into(), destination: [10, 0, 0, 2].into() };
    let (protocol, destination_port) = (Some(17), Some(port));
    let fields = Fields { hosts, protocol, source_port: Some(1), destination_port, ..Fields::default() };
    PacketMeta { fields, length: 1_000, network_header: 20, headers: 28, ..PacketMeta::default() }
}

/// Counts packets that passed, by port, and collects the notifications: kind, promise, granted rate.
#[derive(Default)]
struct Log {
    passed: Vec<u64>,
    notifications: Vec<(NotificationKind, Option<u64>, Option<Rate>)>,
}

impl Sink<u64> for Log {
    fn transmit(&mut self, handle: u64, _: Change) {
        self.passed.push(handle);
    }
    fn drop_packet(&mut self, _: u64, _: DropReason) {}
    fn wants_notifications(&self) -> bool {
        true
    }
    fn notify(&mut self, notification: &Notification<'_>) {
        self.notifications.push((notification.kind, notification.promise, notification.state.map(|state| state.rate)));
    }
}

/// Promise `number` for what goes to `port`.
fn table_of(entries: &[(u64, u16)]) -> PromiseTable {
    let rule = |(target, (_, port)): (usize, &(u64, u16))| Rule {
        matching: Match { destination_ports: vec![*port..=*port], ..Match::default() },
        target: target as u32,
    };
    let rules: Vec<Rule> = entries.iter().enumerate().map(rule).collect();
    PromiseTable {
        promises: (!rules.is_empty()).then(|| Classifier::new(rules).unwrap()),
        numbers: entries.iter().map(|(number, _)| *number).collect(),
        ..PromiseTable::default()
    }
}

fn terms(mbit: u64) -> Terms {
    Terms { minimum: Rate::from_mbit(mbit), ..Terms::default() }
}

/// Every flow has a queue from `from` to `to`; packets a flow.
fn run(engine: &mut Engine<u64>, log: &mut Log, ports: &[u16], from: Instant, to: Instant) -> Vec<usize> {
    log.passed.clear();
    let (mut now, mut turn) = (from, 0);
    while now < to {
        // What the queues do not take is refused, so that no flow ever has too little; no flow is always the first.
        turn += 1;
        for port in (0..ports.len()).map(|n| &ports[(n + turn) % ports.len()]) {
            engine.enqueue(now, u64::from(*port), &meta(*port), log);
        }
        while engine.deadline(now).instant(now).is_some_and(|time| time <= now) && engine.dequeue(now, log) {}
        engine.mark_dirty(now);
        if engine.next_poll().is_some_and(|time| time <= now) {
            engine.poll(now, log);
        }
        now += Span::from_micros(500);
    }
    ports.iter().map(|port| log.passed.iter().filter(|passed| **passed == u64::from(*port)).count()).collect()
}

fn at(millis: u64) -> Instant {
    Instant::from_nanos(millis * 1_000_000)
}

fn review(engine: &mut Engine<u64>, now: Instant) {
    let mut from = Some(0);
    while let Some(place) = from {
        from = engine.promises(now).review(place, 1);
    }
}

#[test]
fn a_promise_is_in_force_with_the_first_packet_and_gone_with_its_end() {
    let (mut engine, mut log) = (engine(), Log::default());
    let class = ClassId(0);
    engine.promises(at(0)).promise(7, terms(5), class, 1, false).unwrap();
    drop(engine.promises(at(0)).set_table(table_of(&[(7, 1)])));
    // 3 of 8 Mbit/s are left to promise.
    let refused = engine.promises(at(0)).promise(8, terms(4), class, 1, false);
    assert_eq!(refused.map(drop), Err(PromiseError::NoRoom(Rate::from_mbit(3))));
    assert_eq!(
        engine.promises(at(0)).promise(8, terms(2), class, 2, false).map(drop),
        Err(PromiseError::NoRoom(Rate::from_mbit(3))),
        "all of it or nothing, and nothing is left held"
    );
    // A second at 8 Mbit/s is 1000 packets: 5/8 of them are the first flow's, the others have 3/16 each.
    let counts = run(&mut engine, &mut log, &[1, 2, 3], at(0), at(1_000));
    assert!(counts[0].abs_diff(625) < 25 && counts[1].abs_diff(187) < 25 && counts[2].abs_diff(187) < 25, "{counts:?}");
    assert!(
        log.notifications.contains(&(NotificationKind::Promised, Some(7), Some(Rate::from_mbit(5)))),
        "{:?}",
        log.notifications
    );
    let started =
        |entry: &&(NotificationKind, _, _)| matches!(entry.0, NotificationKind::Event(Event::FlowStarted { .. }));
    assert_eq!(log.notifications.iter().filter(started).count(), 3, "each flow starts once");
    let view = engine.promises(at(1_000)).view(7).unwrap();
    assert_eq!((view.flows, view.waiting, view.held, view.rate), (1, 0, 0, Rate::from_mbit(5)));
    // The end.
    engine.promises(at(1_000)).end(7);
    drop(engine.promises(at(1_000)).set_table(PromiseTable::default()));
    review(&mut engine, at(1_000));
    let counts = run(&mut engine, &mut log, &[1, 2, 3], at(1_000), at(2_000));
    assert!(counts.iter().all(|count| count.abs_diff(333) < 25), "{counts:?}");
    assert_eq!(engine.tree().classes()[0].unpromised, Rate::from_mbit(8));
}

#[test]
fn a_promise_applies_to_present_flows_and_waits_where_rate_is_short() {
    let (mut engine, mut log) = (engine(), Log::default());
    let class = ClassId(0);
    run(&mut engine, &mut log, &[1, 2, 3], at(0), at(500));
    engine.promises(at(500)).promise(1, terms(6), class, 1, false).unwrap();
    // (4.4): there are 2 left, and it begins without.
    engine.promises(at(500)).promise(2, terms(4), class, 1, true).unwrap();
    drop(engine.promises(at(500)).set_table(table_of(&[(1, 1), (2, 2)])));
    review(&mut engine, at(500));
    assert_eq!(engine.promises(at(500)).view(2).unwrap().waiting, 1);
    let counts = run(&mut engine, &mut log, &[1, 2, 3], at(500), at(1_500));
    assert!(counts[0].abs_diff(750) < 25 && counts[1].abs_diff(125) < 25, "{counts:?}");
    // The first ends: at once the second has its minimum, and is notified.
    log.notifications.clear();
    engine.promises(at(1_500)).end(1);
    drop(engine.promises(at(1_500)).set_table(table_of(&[(2, 2)])));
    review(&mut engine, at(1_500));
    let counts = run(&mut engine, &mut log, &[1, 2, 3], at(1_500), at(2_500));
    assert!(counts[1].abs_diff(500) < 25, "{counts:?}");
    // What the first had queued under its promise takes rate from the third until it has left.
    assert!(counts[0].abs_diff(250) < 50 && counts[2].abs_diff(250) < 50, "{counts:?}");
    run(&mut engine, &mut log, &[1, 2, 3], at(2_500), at(4_500));
    let notified = std::mem::take(&mut log.notifications);
    let counts = run(&mut engine, &mut log, &[1, 2, 3], at(4_500), at(5_500));
    assert!(counts[1].abs_diff(500) < 25 && counts[0].abs_diff(250) < 25, "{counts:?}");
    log.notifications.extend(notified);
    assert!(
        log.notifications.contains(&(NotificationKind::Promised, Some(2), Some(Rate::from_mbit(4)))),
        "{:?}",
        log.notifications
    );
}

#[test]
fn rate_is_held_again_when_a_flow_under_a_promise_ends() {
    let (mut engine, mut log) = (engine(), Log::default());
    engine.promises(at(0)).promise(1, terms(6), ClassId(0), 1, false).unwrap();
    drop(engine.promises(at(0)).set_table(table_of(&[(1, 1)])));
    run(&mut engine, &mut log, &[1], at(0), at(100));
    assert_eq!(engine.promises(at(100)).view(1).unwrap().held, 0);
    // Silent for longer than a second, while another flow keeps the class busy.
    run(&mut engine, &mut log, &[2], at(100), at(2_500));
    let view = engine.promises(at(2_500)).view(1).unwrap();
    assert_eq!((view.flows, view.held), (0, 1));
    assert_eq!(engine.tree().classes()[0].unpromised, Rate::from_mbit(2));
    // Here it is again, under another number and with the same promise.
    let counts = run(&mut engine, &mut log, &[1, 2], at(2_500), at(3_500));
    assert!(counts[0].abs_diff(750) < 25, "{counts:?}");
}

#[test]
fn preference_ends_with_the_promise() {
    let (mut engine, mut log) = (engine(), Log::default());
    let preferred = Terms { steps: 2, ..Terms::default() };
    engine.promises(at(0)).promise(1, preferred, ClassId(0), 1, false).unwrap();
    run(&mut engine, &mut log, &[1, 2, 3, 4], at(0), at(200));
    drop(engine.promises(at(200)).set_table(table_of(&[(1, 1)])));
    review(&mut engine, at(200));
    // (4.5): two steps of a tenth above a quarter are 0.45; the others share 0.55.
    let counts = run(&mut engine, &mut log, &[1, 2, 3, 4], at(200), at(1_200));
    assert!(counts[0].abs_diff(450) < 25 && counts[1].abs_diff(183) < 25, "{counts:?}");
    drop(engine.promises(at(1_200)).set_table(PromiseTable::default()));
    review(&mut engine, at(1_200));
    let counts = run(&mut engine, &mut log, &[1, 2, 3, 4], at(1_200), at(2_200));
    assert!(counts.iter().all(|count| count.abs_diff(250) < 25), "{counts:?}");
}

#[test]
fn a_preference_of_a_flow_alone_counts_when_others_come_and_its_owner_is_notified() {
    let (mut engine, mut log) = (engine(), Log::default());
    let preferred = Terms { steps: 2, ..Terms::default() };
    engine.promises(at(0)).promise(1, preferred, ClassId(0), 1, false).unwrap();
    drop(engine.promises(at(0)).set_table(table_of(&[(1, 1)])));
    // No other flow is present: it is granted all.
    run(&mut engine, &mut log, &[1], at(0), at(200));
    let rates = |log: &mut Log| -> Vec<u64> {
        let notified = std::mem::take(&mut log.notifications).into_iter();
        let rate = |(what, promise, rate): (NotificationKind, Option<u64>, Option<Rate>)| {
            (what == NotificationKind::Rate && promise == Some(1))
                .then(|| rate.map(|rate| rate.as_bps().div_ceil(1_000)))?
        };
        notified.filter_map(rate).collect()
    };
    assert_eq!(rates(&mut log), [8_000]);
    // A quarter and 0.2 of 8 Mbit/s; the owner is notified once, or at each of the three that come: 5.6, 4.3, 3.6.
    let counts = run(&mut engine, &mut log, &[1, 2, 3, 4], at(200), at(1_200));
    assert!(counts[0].abs_diff(450) < 25 && counts[1].abs_diff(183) < 25, "{counts:?}");
    let notified = rates(&mut log);
    assert_eq!(notified.last(), Some(&3_600), "{notified:?}");
    // When two have been silent for a second, a half and 0.2.
    let counts = run(&mut engine, &mut log, &[1, 2], at(1_200), at(3_300));
    assert!(counts[0] > counts[1] * 3 / 2, "{counts:?}");
    let notified = rates(&mut log);
    assert_eq!(notified.last(), Some(&5_600), "{notified:?}");
}

/// A rule with an unknown user is reported by its number.
#[test]
fn a_rule_with_an_unknown_owner_is_named_by_its_number() {
    let rules = "[[rule]]\nclass = \"all\"\ndscp = \"ef\"\n[[rule]]\nclass = \"all\"\nuid = \"studio\"\n";
    let mut diagnostics = Diagnostics::new();
    let config = shaper::load(&Source::new("test.toml", format!("{TEXT}{rules}")), &mut diagnostics).expect("valid");
    let setup = Setup { seed: 1, secret: [1, 2], catch_up: Span::ZERO, most_queued: None, names: Names::default() };
    let Err(failure) = Engine::<u64>::new(&config, &setup, Instant::ZERO) else { panic!("no user is called studio") };
    assert_eq!(
        failure.to_string(),
        "rule 2: no user is called `studio` here; write a number, or create the user first"
    );
}

/// A promise holds its rate once for all shards, and not in each, whichever shard its flows come to.
#[test]
fn a_promise_is_kept_in_each_shard() {
    let (class, mut log) = (ClassId(0), Log::default());
    let mut shards: Vec<Engine<u64>> = vec![engine(), engine()];
    for (engine, shard) in shards.iter_mut().zip(&Shard::all(&config(), 2, at(0)).expect("classes of a shaper")) {
        assert!(engine.join(shard));
    }
    let slots = shards[0].promises(at(0)).promise(7, terms(3), class, 2, false).unwrap();
    shards[1].promises(at(0)).share(7, terms(3), class, slots);
    for engine in &mut shards {
        drop(engine.promises(at(0)).set_table(table_of(&[(7, 1), (7, 2), (7, 3)])));
    }
    let state = |shards: &mut [Engine<u64>]| {
        let free = [0, 1].map(|at| shards[at].tree().classes()[0].unpromised);
        assert_eq!(free[0], free[1], "it is common");
        let views = [0, 1].map(|n| shards[n].promises(at(0)).view(7).unwrap());
        (free[0].as_bps() / 1_000_000, views.map(|view| (view.flows, view.waiting, view.held)))
    };
    assert_eq!(state(&mut shards), (2, [(0, 0, 2), (0, 0, 2)]));
    let refused = shards[1].promises(at(0)).promise(8, terms(3), class, 1, false);
    assert_eq!(refused.map(drop), Err(PromiseError::NoRoom(Rate::from_mbit(2))));
    // Both flows come in the second shard, and a third in the first, which waits.
    for (engine, port) in [(1, 1), (1, 2), (0, 3)] {
        shards[engine].enqueue(at(1), u64::from(port), &meta(port), &mut log);
    }
    assert_eq!(state(&mut shards), (2, [(1, 1, 0), (2, 0, 0)]));
    // When they have ended, what they had is for the one that waits, and the rest is held for the next.
    for now in (2..3_000).map(at) {
        // Flows end with the packets of their shard.
        shards[0].enqueue(now, 3, &meta(3), &mut log);
        shards[1].enqueue(now, 9, &meta(9), &mut log);
        shards.iter_mut().for_each(|engine| while engine.dequeue(now, &mut log) {});
    }
    assert_eq!(state(&mut shards), (2, [(1, 0, 1), (0, 0, 1)]));
    shards.iter_mut().for_each(|engine| engine.promises(at(3_000)).end(7));
    assert_eq!(
        shards[1].tree().classes()[0].unpromised,
        Rate::from_mbit(5),
        "what was held is free, the flow has its own"
    );
}

/// A line of 8 Mbit/s turns to 4 and back. Each packet has a thousand bytes: 1000 a second, then 500.
#[test]
fn minimums_are_kept_as_far_as_a_rate_that_follows_allows() {
    let (mut engine, mut log) = (engine(), Log::default());
    let class = ClassId(0);
    for (number, port, mbit) in [(1, 1, 3), (2, 2, 2)] {
        engine.promises(at(0)).promise(number, terms(mbit), class, 1, false).unwrap();
        let known: Vec<(u64, u16)> = (1..=port).map(|n| (u64::from(n), n)).collect();
        drop(engine.promises(at(0)).set_table(table_of(&known)));
    }
    let counts = run(&mut engine, &mut log, &[1, 2, 3], at(0), at(1_000));
    // A minimum of 3 Mbit/s is above the fair share; what is left is shared by the others, whose minimums are below theirs.
    assert!(counts[0].abs_diff(375) < 25 && counts[1].abs_diff(312) < 25 && counts[2].abs_diff(312) < 25, "{counts:?}");
    log.notifications.clear();
    assert!(engine.follow(at(1_000), Rate::from_mbit(4)));
    let counts = run(&mut engine, &mut log, &[1, 2, 3], at(1_000), at(2_000));
    // The total follows at once. One promise is kept; the other does not fit beside it, and its owner is told.
    assert!(counts.iter().sum::<usize>().abs_diff(500) < 25, "{counts:?}");
    let (kept, minimum, waits) = if counts[0] > 300 { (0, 375, 1) } else { (1, 250, 0) };
    assert!(counts[kept].abs_diff(minimum) < 25 && counts[waits] < 150, "{counts:?}");
    let waiting = Some(waits as u64 + 1);
    let told =
        |log: &Log, what| log.notifications.iter().any(|(kind, promise, _)| (*kind, *promise) == (what, waiting));
    assert!(told(&log, NotificationKind::Waiting));
    assert_eq!(engine.promises(at(2_000)).view(waits as u64 + 1).unwrap().waiting, 1);
    // Twice the rate: both fit again, and the owner is told.
    log.notifications.clear();
    assert!(engine.follow(at(2_000), Rate::from_mbit(16)));
    let counts = run(&mut engine, &mut log, &[1, 2, 3], at(2_000), at(3_000));
    assert!(counts.iter().sum::<usize>().abs_diff(2_000) < 50, "{counts:?}");
    assert!(told(&log, NotificationKind::Promised));
    // A change of the configuration brings back the rates of the file.
    let setup = Setup { seed: 1, secret: [1, 2], catch_up: Span::ZERO, most_queued: None, names: Names::default() };
    engine.reconfigure(&config(), &setup, at(3_000), &mut log).unwrap();
    let counts = run(&mut engine, &mut log, &[1, 2, 3], at(3_100), at(4_100));
    assert!(counts.iter().sum::<usize>().abs_diff(1_000) < 50, "{counts:?}");
}
