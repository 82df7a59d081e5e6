//! Who is first: classes by priority, waiting minimums by request, displacement and return by threshold and time, idle
//! flows by age. All at the limits themselves.

use super::*;

fn mbit(rates: &[u64]) -> Vec<ClassParams> {
    rates.iter().map(|rate| ClassParams::new(Rate::from_mbit(*rate))).collect()
}

#[test]
fn of_the_classes_that_are_due_the_better_priority_is_first() {
    // 1,000 bytes a millisecond. The bucket of the total is empty after the first packet.
    let class = |priority| ClassParams { priority, burst: Bytes::new(1_000), ..ClassParams::new(kbit(2_000)) };
    let params = FbcParams { burst: Bytes::new(1_000), ..FbcParams::new(kbit(8_000)) };
    let mut bench = Bench::new(Fbc::new(params, vec![class(2), class(1), class(0)], vec![], start()).unwrap());
    bench.put(2, 2, 0, 1_000);
    bench.put(0, 0, 0, 1_000);
    bench.run_until(start() + Span::from_micros(500));
    // Due exactly when the total has credit, later than class 0, and better.
    bench.now = start() + Span::from_millis(1);
    bench.put(1, 1, 0, 1_000);
    bench.run_until(start() + Span::from_millis(5));
    let sent: Vec<_> =
        bench.sent.iter().map(|(time, packet)| (packet.flow.flow, time.since(start()).as_nanos() / 1_000)).collect();
    assert_eq!(sent, [(2, 0), (1, 1_000), (0, 2_000)]);
}

fn granted(bench: &Bench, flows: std::ops::Range<u64>) -> Vec<bool> {
    flows.map(|flow| bench.shaper.flow(flow).unwrap().granted).collect()
}

#[test]
fn waiting_minimums_are_granted_in_the_order_of_their_requests() {
    let profiles = vec![Profile::default(), Profile { minimum: Rate::from_mbit(4), ..Profile::default() }];
    let params = FbcParams::new(Rate::from_mbit(16));
    let mut bench = Bench::new(Fbc::new(params, mbit(&[8, 8]), profiles, start()).unwrap());
    (0..4).for_each(|flow| bench.put(flow, 0, 1, 1_000));
    assert_eq!(granted(&bench, 0..4), [true, true, false, false], "two fit exactly");
    // A packet of another class is enough: the classes are visited in turn.
    let release = |bench: &mut Bench, flow| {
        bench.shaper.set_minimum(bench.now, flow, Rate::ZERO).unwrap();
        (0..2).for_each(|_| bench.put(9, 1, 0, 100));
    };
    release(&mut bench, 0);
    assert_eq!(granted(&bench, 0..4), [false, true, true, false]);
    // Two that wait by request, one behind the other, behind the one that waits already.
    for flow in [0, 5, 6] {
        if flow > 0 {
            bench.put(flow, 0, 0, 1_000);
        }
        let free = Rate::ZERO;
        assert_eq!(
            bench.shaper.set_minimum(bench.now, flow, Rate::from_mbit(4)),
            Ok(Promise::Waiting { free }),
            "flow {flow}"
        );
    }
    release(&mut bench, 1);
    release(&mut bench, 2);
    assert_eq!(granted(&bench, 0..4), [true, false, false, true]);
    release(&mut bench, 3);
    assert_eq!(granted(&bench, 5..7), [true, false]);
    release(&mut bench, 5);
    assert_eq!(granted(&bench, 5..7), [false, true]);
}

#[test]
fn a_flow_that_ends_leaves_the_waiting_ones_in_place() {
    let profiles = vec![Profile { minimum: Rate::from_mbit(12), ..Profile::default() }, Profile::default()];
    let params = FbcParams { idle_timeout: Span::from_millis(100), ..FbcParams::new(Rate::from_mbit(20)) };
    let mut bench = Bench::new(Fbc::new(params, mbit(&[10]), profiles, start()).unwrap());
    let millis = |n| start() + Span::from_millis(n);
    bench.put(1, 0, 0, 100);
    bench.put(2, 0, 1, 100);
    for n in 1..5 {
        bench.run_until(millis(50 * n));
        bench.put(1, 0, 0, 100);
    }
    assert!(bench.shaper.flow(2).is_none() && !bench.shaper.flow(1).unwrap().granted);
    assert!(bench.shaper.set_class_rate(bench.now, ClassId(0), Rate::from_mbit(12)));
    bench.put(1, 0, 0, 100);
    assert!(bench.shaper.flow(1).unwrap().granted);
}

#[test]
fn a_smaller_class_takes_back_the_youngest_minimums_and_no_more() {
    let profiles = vec![Profile { minimum: Rate::from_mbit(2), ..Profile::default() }];
    let params = FbcParams::new(Rate::from_mbit(20));
    let mut bench = Bench::new(Fbc::new(params, mbit(&[8, 8]), profiles, start()).unwrap());
    (0..4).for_each(|flow| bench.put(flow, 0, 0, 1_000));
    bench.put(4, 1, 0, 1_000);
    let set = |bench: &mut Bench, rate| {
        assert!(bench.shaper.set_class_rate(bench.now, ClassId(0), Rate::from_mbit(rate)));
        (0..4).for_each(|_| bench.put(4, 1, 0, 100));
        granted(bench, 0..5)
    };
    assert_eq!(set(&mut bench, 8), [true; 5]);
    assert_eq!(set(&mut bench, 4), [true, true, false, false, true], "what fits exactly stays");
    // The one that waits for longest is first.
    assert_eq!(set(&mut bench, 6), [true, true, false, true, true]);
    assert_eq!(set(&mut bench, 8), [true; 5]);
}

/// A flow of class 0 that is displaced to class 1 below 4 Mbit/s, with another one in each class.
fn displaced() -> Bench {
    let displace = Some(Displace { below: Rate::from_mbit(4), to: 1 });
    let profiles = vec![Profile::default(), Profile { displace, ..Profile::default() }];
    let params = FbcParams { idle_timeout: Span::from_secs(60), ..FbcParams::new(Rate::from_mbit(50)) };
    let mut bench = Bench::new(Fbc::new(params, mbit(&[8, 8]), profiles, start()).unwrap());
    for (flow, class, profile) in [(1, 0, 0), (2, 1, 0), (7, 0, 1)] {
        bench.put(flow, class, profile, 100);
    }
    // The threshold itself is enough.
    assert_eq!(class_of(&mut bench), 0);
    assert!(bench.shaper.set_class_rate(bench.now, ClassId(0), kbit(7_999)));
    bench
}
/// The class of flow 7 after both classes were visited.
fn class_of(bench: &mut Bench) -> u32 {
    (0..2).for_each(|_| bench.put(1, 0, 0, 100));
    bench.shaper.flow(7).unwrap().class.0
}

#[test]
fn displacement_begins_below_its_threshold_where_the_threshold_is_met() {
    let mut bench = displaced();
    assert_eq!(class_of(&mut bench), 1, "half of 8 Mbit/s is just enough");
    let views = [0, 1].map(|class| bench.shaper.class(ClassId(class)).unwrap());
    assert_eq!(views.map(|view| (view.flows, view.away)), [(1, 1), (2, 0)]);
    // Its queue went with it: five packets of flow 1 stay.
    assert_eq!(views.map(|view| view.backlog.packets), [5, 2]);
    assert_eq!(views.map(|view| view.backlog.bytes.as_u64()), [500, 200]);
    let mut less = displaced();
    assert!(less.shaper.set_class_rate(less.now, ClassId(1), kbit(7_998)));
    assert_eq!(class_of(&mut less), 0);
}

#[test]
fn a_displaced_flow_returns_after_a_second_for_nine_eighths() {
    let mut bench = displaced();
    assert_eq!(class_of(&mut bench), 1);
    bench.run_until(start() + Span::from_nanos(999_999_999));
    assert!(bench.shaper.set_class_rate(bench.now, ClassId(0), Rate::from_mbit(9)));
    assert_eq!(class_of(&mut bench), 1);
    bench.now = start() + Span::from_secs(1);
    assert!(bench.shaper.set_class_rate(bench.now, ClassId(0), kbit(8_999)));
    assert_eq!(class_of(&mut bench), 1);
    assert!(bench.shaper.set_class_rate(bench.now, ClassId(0), Rate::from_mbit(9)));
    assert_eq!(class_of(&mut bench), 0);
}

#[test]
fn terms_displace_to_classes_that_exist_and_never_below_the_minimum() {
    let params = FbcParams::new(Rate::from_mbit(50));
    let mut bench = Bench::new(Fbc::new(params, mbit(&[8, 8]), vec![], start()).unwrap());
    (1..=7).for_each(|flow| bench.put(flow, 0, 0, 100));
    let mut class_with = |below, to, minimum| {
        let displace = Some(Displace { below: Rate::from_mbit(below), to });
        let terms = Terms { minimum: Rate::from_mbit(minimum), steps: 0, displace };
        bench.shaper.set_terms(bench.now, 7, Some(terms)).unwrap();
        class_of(&mut bench)
    };
    assert_eq!(class_with(3, 2, 0), 0, "there is no such class");
    assert_eq!(class_with(3, 1, 3), 0, "the minimum is the threshold");
    assert_eq!(class_with(3, 1, 2), 1);
}

#[test]
fn the_classifier_moves_a_flow_with_its_queue() {
    let params = FbcParams::new(Rate::from_mbit(20));
    let mut bench = Bench::new(Fbc::new(params, mbit(&[10, 10]), vec![], start()).unwrap());
    for class in [0, 0, 0, 1] {
        bench.put(5, class, 0, 1_000);
    }
    let view = bench.shaper.flow(5).unwrap();
    assert_eq!((view.class, view.home, view.head_arrived), (ClassId(1), ClassId(1), Some(start())));
    let packets = bench.shaper.classes().map(|class| (class.flows, class.backlog.packets)).collect::<Vec<_>>();
    assert_eq!(packets, [(0, 0), (1, 4)]);
    assert_eq!(bench.events.0.iter().filter(|event| matches!(event, Event::Moved { .. })).count(), 1);
}

#[test]
fn another_profile_applies_with_the_packet_that_has_it() {
    let mut bench = Bench::new(one_class(Rate::from_mbit(10), Spare::Shared));
    let mut minimum_with = |profile| {
        bench.put(1, 0, profile, 100);
        bench.shaper.flow(1).unwrap().minimum
    };
    assert_eq!([0, 1, 0].map(&mut minimum_with), [0, 4, 0].map(Rate::from_mbit));
}

#[test]
fn idle_flows_end_after_their_time_two_at_a_packet_the_oldest_first() {
    let params = FbcParams { idle_timeout: Span::from_millis(100), max_flows: 6, ..FbcParams::new(kbit(8_000)) };
    let mut bench = Bench::new(Fbc::new(params, mbit(&[8]), vec![], start()).unwrap());
    let keys = |bench: &Bench| {
        let mut keys: Vec<_> = bench.shaper.flows().map(|view| view.key).collect();
        keys.sort_unstable();
        keys
    };
    for flow in 0..6 {
        bench.put(flow, 0, 0, 100);
        bench.run_until(bench.now + Span::from_millis(1));
    }
    // Each left at once. The table is full: the one that was idle for longest ends.
    bench.put(6, 0, 0, 100);
    assert_eq!(keys(&bench), [1, 2, 3, 4, 5, 6]);
    bench.now = start() + Span::from_nanos(100_999_999);
    bench.put(6, 0, 0, 100);
    assert_eq!(keys(&bench), [1, 2, 3, 4, 5, 6]);
    bench.now = start() + Span::from_millis(101);
    bench.put(6, 0, 0, 100);
    assert_eq!(keys(&bench), [2, 3, 4, 5, 6]);
    bench.now = start() + Span::from_millis(104);
    bench.put(6, 0, 0, 100);
    assert_eq!(keys(&bench), [4, 5, 6], "two at a time");
    // The slot of a flow that ended is not found.
    assert_eq!((bench.shaper.find(2, 2), bench.shaper.find(5, 4)), (None, Some(5)));
    let queued = bench.shaper.enqueue(bench.now, TestPacket::new(0, 6, 100), &mut Discard);
    assert_eq!(Some(queued.slot), bench.shaper.find(6, 0));
    let refused = bench.shaper.enqueue(bench.now, TestPacket::new(1, 6, 100).in_class(1), &mut Discard);
    assert_eq!(refused.slot, NO_SLOT, "there is no such class");
}

#[test]
fn a_flow_is_expected_once_in_a_class_that_exists() {
    let mut bench = Bench::new(one_class(Rate::from_mbit(10), Spare::Idle));
    let terms = Terms { minimum: Rate::from_mbit(3), ..Terms::default() };
    let mut expect = |flow, class, terms| {
        let key = TestPacket::new(0, flow, 1).flow;
        let expected = bench.shaper.expect(start(), key, ClassId(class), 0, terms, &mut Discard);
        (expected, bench.shaper.flow(flow).map(|view| view.minimum))
    };
    assert_eq!(expect(1, 1, terms), (false, None));
    assert_eq!(expect(1, 0, terms), (true, Some(Rate::from_mbit(3))));
    assert_eq!(expect(1, 0, Terms::default()), (true, Some(Rate::from_mbit(3))), "once");
    // In a class that shares nothing spare the outlook is the nominal rate: of a second flow half, also of one that is
    // known and idle.
    assert_eq!(bench.shaper.outlook(2, ClassId(0)), Some(Rate::from_mbit(5)));
    let mut bench = Bench::new(one_class(Rate::from_mbit(10), Spare::Shared));
    bench.put(1, 0, 0, 100);
    bench.put(2, 0, 0, 100);
    bench.put(2, 0, 0, 100);
    bench.shaper.dequeue(start(), &mut Discard).expect("due");
    assert_eq!(bench.shaper.flow(1).unwrap().backlog.packets, 0);
    assert_eq!(bench.shaper.outlook(1, ClassId(0)), Some(Rate::from_mbit(5)));
}
