//! The driver, call by call in virtual time: segmentation, release, grouping of departures, and when it looks at watched
//! flows.

use std::ops::ControlFlow;
use std::sync::{Arc, Mutex};

use tidegate_config::{Diagnostics, Source, shaper};
use tidegate_core::classify::{Fields, Fragment, Hosts, Match};
use tidegate_core::{ClassId, DropReason, Instant, Rate, Span};
use tidegate_engine::driver::{Counters, Params, Wait, run};
use tidegate_engine::{
    Arrival, Change, DataPath, Driver, Engine, Names, Notification, Offered, Operation, PacketMeta, PromiseTable,
    Recorder, Segmentation, Setup, Shape, Sink,
};

/// 1,000 bytes a millisecond; the bucket holds three packets.
const TEXT: &str = "version = 1\n[[class]]\nname = \"all\"\nrate = \"8mbit\"\nburst = \"3kB\"\ndefault = true\n\
                    flow-burst = \"3kB\"\n";

fn engine_of(text: &str) -> Engine<u32> {
    let source = Source::new("driver.toml", text);
    let mut diagnostics = Diagnostics::new();
    let config = shaper::load(&source, &mut diagnostics).unwrap_or_else(|| panic!("{}", diagnostics.render(&source)));
    let setup = Setup { seed: 1, secret: [1, 2], catch_up: Span::ZERO, most_queued: None, names: Names::default() };
    Engine::new(&config, &setup, Instant::ZERO).expect("valid")
}

fn driver(params: Params) -> Driver<u32> {
    Driver::new(engine_of(TEXT), params, Instant::ZERO)
}

fn us(n: u64) -> Instant {
    Instant::from_nanos(n * 1_000)
}

fn meta(port: u16, length: u32) -> PacketMeta {
    let hosts = Hosts::V4 { source: [10, 0, 0, 1].into(), destination: [10, 0, 0, 2].into() };
    let fields =
        Fields { hosts, protocol: Some(17), source_port: Some(port), destination_port: Some(1), ..Fields::default() };
    PacketMeta { fields, length, network_header: 20, headers: 28, ..PacketMeta::default() }
}

/// The packets that were sent, each with its microsecond, and how often a change of a watched flow was reported.
#[derive(Default)]
struct Log {
    now: Instant,
    sent: Vec<(u32, u64)>,
    notified: u32,
}

impl Sink<u32> for Log {
    fn transmit(&mut self, handle: u32, _: Change) {
        self.sent.push((handle, self.now.as_nanos() / 1_000));
    }
    fn drop_packet(&mut self, handle: u32, reason: DropReason) {
        panic!("{handle} dropped: {reason:?}");
    }
    fn set_time(&mut self, now: Instant) {
        self.now = now;
    }
    fn wants_notifications(&self) -> bool {
        true
    }
    fn notify(&mut self, _: &Notification<'_>) {
        self.notified += 1;
    }
}

/// Offers packets of 1,000 bytes of the flow `port`.
fn offer(driver: &mut Driver<u32>, log: &mut Log, now: Instant, port: u16, handles: std::ops::Range<u32>) {
    for handle in handles {
        let meta = meta(port, 1_000);
        assert_eq!(driver.offer(now, Arrival::new(handle, &meta), log), Offered::Consumed);
    }
}

#[test]
fn a_flow_waits_for_its_segments_only_where_they_come_later() {
    for segmentation in [Segmentation::Inline, Segmentation::Deferred] {
        let (mut driver, mut log) = (driver(Params { segmentation, ..Params::default() }), Log::default());
        let long = PacketMeta { shape: Shape::Super, ..meta(1, 5_000) };
        assert_eq!(driver.offer(us(0), Arrival::new(1, &long), &mut log), Offered::Segment(1));
        let (same, other) = (meta(1, 100), meta(2, 100));
        assert_eq!(driver.offer(us(0), Arrival::new(2, &other), &mut log), Offered::Consumed);
        let deferred = segmentation == Segmentation::Deferred;
        let expected = if deferred { Offered::Segment(3) } else { Offered::Consumed };
        assert_eq!(driver.offer(us(0), Arrival::new(3, &same), &mut log), expected);
        let segment = Arrival { segmented: true, ..Arrival::new(4, &same) };
        assert_eq!(driver.offer(us(0), segment, &mut log), Offered::Consumed);
        driver.segmentation_done();
        // The segment is still in its queue, and this one must not wait in another.
        let expected = if deferred { Offered::Segment(5) } else { Offered::Consumed };
        assert_eq!(driver.offer(us(0), Arrival::new(5, &same), &mut log), expected);
        driver.run_until(us(1_000_000), &mut log);
        // Now packet 5 may be on its way.
        let expected = if deferred { Offered::Segment(6) } else { Offered::Consumed };
        assert_eq!(driver.offer(us(1_000_000), Arrival::new(6, &same), &mut log), expected);
        driver.segmentation_done();
        assert_eq!(driver.offer(us(1_000_000), Arrival::new(7, &same), &mut log), Offered::Consumed);
        assert_eq!(driver.counters(), Counters { segmented: if deferred { 4 } else { 1 }, turns: 0 });
    }
}

/// Other packets keep the engine busy, so that nothing but the count of its own ends a diversion.
#[test]
fn a_diversion_ends_when_the_last_segment_has_left() {
    let mut driver = driver(Params { segmentation: Segmentation::Deferred, ..Params::default() });
    let mut log = Log::default();
    let long = PacketMeta { shape: Shape::Super, ..meta(1, 5_000) };
    let segment = meta(1, 1_000);
    assert_eq!(driver.offer(us(0), Arrival::new(0, &long), &mut log), Offered::Segment(0));
    for handle in 1..6 {
        let arrival = Arrival { segmented: true, ..Arrival::new(handle, &segment) };
        assert_eq!(driver.offer(us(0), arrival, &mut log), Offered::Consumed);
    }
    offer(&mut driver, &mut log, us(0), 2, 100..150);
    driver.segmentation_done();
    let (mut now, mut took) = (0, 0);
    loop {
        let left = log.sent.iter().filter(|(handle, _)| (1..6).contains(handle)).count();
        match driver.offer(us(now), Arrival::new(200, &segment), &mut log) {
            Offered::Segment(_) => assert!(left < 5, "it waits for nothing"),
            Offered::Consumed => {
                assert_eq!(left, 5, "a segment is still in its queue");
                break;
            }
        }
        // Nothing was on its way that did not come back as another packet of that kind.
        driver.segmentation_done();
        (now, took) = (now + 1_000, took + 1);
        driver.run_until(us(now), &mut log);
    }
    assert!(took > 2 && !tidegate_core::Qdisc::backlog(driver.engine().tree()).is_empty(), "{took}");
}

/// At 8 Mbit/s 1,400 bytes last longer than the millisecond that a flow may send in one piece.
#[test]
fn a_superpacket_of_one_packet_is_not_segmented_and_one_of_two_is() {
    let (mut driver, mut log) = (driver(Params::default()), Log::default());
    let superpacket = |length| PacketMeta { shape: Shape::Super, ..meta(1, length) };
    assert_eq!(driver.offer(us(0), Arrival::new(1, &superpacket(1_400)), &mut log), Offered::Consumed);
    assert_eq!(driver.offer(us(0), Arrival::new(2, &superpacket(2_000)), &mut log), Offered::Segment(2));
}

#[test]
fn packets_leave_at_their_deadlines_and_at_once_when_released() {
    let (mut driver, mut log) = (driver(Params::default()), Log::default());
    offer(&mut driver, &mut log, us(0), 1, 0..8);
    driver.depart_due(us(0), &mut log);
    assert_eq!(log.sent, [(0, 0), (1, 0), (2, 0)], "the burst");
    driver.run_until(us(2_000), &mut log);
    assert_eq!(log.sent[3..], [(3, 1_000)], "what is due at the end itself stays");
    assert_eq!((driver.now(), driver.next_departure(us(1_500))), (us(1_000), Some(us(2_000))));
    driver.run_to_end(&mut log);
    assert_eq!(log.sent[4..], [(4, 2_000), (5, 3_000), (6, 4_000), (7, 5_000)]);
    assert_eq!((driver.now(), driver.next_wakeup(us(5_000))), (us(5_000), None));

    log.sent.clear();
    offer(&mut driver, &mut log, us(5_000), 1, 0..5);
    driver.release_all(&mut log);
    assert_eq!(log.sent.len(), 5);
    offer(&mut driver, &mut log, us(5_000), 1, 5..14);
    driver.depart_due(us(5_000), &mut log);
    assert!(log.sent.len() < 14, "shaped again: {:?}", log.sent);
    driver.bypass(&mut log);
    assert_eq!(log.sent.len(), 14);
    offer(&mut driver, &mut log, us(5_000), 1, 14..20);
    driver.depart_due(us(5_000), &mut log);
    assert_eq!(log.sent.len(), 20, "unshaped from now on");
}

/// At 4 Mbit/s a packet takes 2 ms on the link, twice as long as in its class.
#[test]
fn a_link_transmits_one_packet_at_a_time() {
    let link = Some(Rate::from_mbit(4));
    let (mut driver, mut log) = (driver(Params { link, ..Params::default() }), Log::default());
    offer(&mut driver, &mut log, us(0), 1, 0..3);
    driver.run_to_end(&mut log);
    assert_eq!(log.sent, [(0, 0), (1, 2_000), (2, 4_000)]);
}

/// A fragment whose first is missing is held for 20 ms and queued then, while nothing else is due.
#[test]
fn virtual_time_goes_on_when_only_a_fragment_was_released() {
    let (mut driver, mut log) = (driver(Params::default()), Log::default());
    offer(&mut driver, &mut log, us(500), 2, 0..30);
    driver.depart_due(us(500), &mut log);
    let mut fragment = meta(1, 1_000);
    fragment.fields.fragment = Some(Fragment { id: 7, offset: 1_480, more: false });
    assert_eq!(driver.offer(us(700), Arrival::new(99, &fragment), &mut log), Offered::Consumed);
    driver.run_to_end(&mut log);
    assert_eq!(log.sent.len(), 31);
    assert!(log.sent.iter().any(|&(handle, time)| handle == 99 && time > 20_700), "{:?}", log.sent);
}

#[test]
fn a_fragment_that_is_held_is_released_with_the_rest() {
    let (mut driver, mut log) = (driver(Params::default()), Log::default());
    let mut fragment = meta(1, 1_000);
    fragment.fields.fragment = Some(Fragment { id: 7, offset: 1_480, more: false });
    assert_eq!(driver.offer(us(0), Arrival::new(99, &fragment), &mut log), Offered::Consumed);
    driver.depart_due(us(1_000), &mut log);
    assert_eq!(log.sent, []);
    driver.release_all(&mut log);
    assert_eq!(log.sent.len(), 1);
}

#[test]
fn departures_are_grouped() {
    let quantum = Span::from_micros(500);
    let (mut driver, mut log) = (driver(Params { quantum, ..Params::default() }), Log::default());
    offer(&mut driver, &mut log, us(10_000), 1, 0..5);
    driver.depart_due(us(10_000), &mut log);
    assert_eq!(driver.next_wakeup(us(10_900)), Some(us(11_000)), "it is due later than a quantum after the last");
    driver.depart_due(us(11_900), &mut log);
    assert_eq!(driver.next_wakeup(us(11_900)), Some(us(12_400)), "a quantum after the last");
}

/// With 8 Mbit/s a packet of 1,000 bytes leaves each millisecond.
#[test]
fn few_packets_in_a_class_do_not_wait_for_a_turn_with_others() {
    let (rest, quantum) = (Span::from_millis(5), Span::from_micros(50));
    for (packets, urgent) in [(5, true), (20, false)] {
        let (mut driver, mut log) = (driver(Params { rest, quantum, ..Params::default() }), Log::default());
        for now in 9_990..10_000 {
            driver.begin_turn(us(now));
            driver.end_turn(us(now), &mut log);
        }
        driver.begin_turn(us(10_000));
        offer(&mut driver, &mut log, us(10_000), 1, 0..packets);
        driver.depart_due(us(10_000), &mut log);
        driver.end_turn(us(10_000), &mut log);
        let Wait { ignore_arrivals_until, until } = driver.wait(us(10_000));
        assert_eq!(until == Some(us(11_000)), urgent, "{packets} packets: {until:?}");
        assert!(ignore_arrivals_until <= until && until <= Some(us(10_000) + rest), "{packets} packets: {until:?}");
    }
}

/// After eight turns without a packet the loop rests; a packet is a part of 32 of a turn.
#[test]
fn a_busy_loop_leaves_arrivals_alone() {
    let rest = Span::from_micros(320);
    let (mut driver, mut log) = (driver(Params { rest, ..Params::default() }), Log::default());
    let mut turn = |now, packets| {
        driver.begin_turn(us(now));
        offer(&mut driver, &mut log, us(now), 1, 0..packets);
        driver.depart_due(us(now), &mut log);
        driver.end_turn(us(now), &mut log);
        let Wait { ignore_arrivals_until, until } = driver.wait(us(now));
        assert!(until.is_none() || until >= ignore_arrivals_until, "departures do not wake it either");
        ignore_arrivals_until
    };
    for now in 20_000..20_007 {
        assert_eq!(turn(now, 0), None);
    }
    // Each of the turns but the first saved a microsecond.
    assert_eq!(turn(20_007, 0), Some(us(20_320)));
    assert_eq!(turn(20_320, 2), Some(us(20_620)));
    assert_eq!(turn(30_000, 0), None, "the eight are there again after a quiet time");
    driver.set_rest(Span::ZERO);
    driver.begin_turn(us(30_000));
    driver.end_turn(us(30_000), &mut Log::default());
    assert_eq!((driver.wait(us(30_000)).ignore_arrivals_until, driver.counters().turns), (None, 11));
}

#[test]
fn watched_flows_are_polled_soon_after_something_happened() {
    let (mut driver, mut log) = (driver(Params::default()), Log::default());
    let all = [Match::default()];
    let table = PromiseTable::new([], [(Span::from_millis(1), &all[..])]).expect("few conditions");
    driver.engine_mut().promises(us(0)).set_table(table);
    offer(&mut driver, &mut log, us(0), 1, 0..9);
    let mut at = |now, act: &mut dyn FnMut(&mut Driver<u32>, &mut Log)| {
        act(&mut driver, &mut log);
        driver.end_turn(us(now), &mut log);
        driver.engine().next_poll().map_or(0, |next| next.as_nanos() / 1_000)
    };
    let nothing = &mut |_: &mut Driver<u32>, _: &mut Log| {};
    // While it has a queue a flow is polled every 2 ms, at the time itself.
    assert_eq!([0, 1_999, 2_000].map(|now| at(now, nothing)), [2_000, 2_000, 4_000]);
    // And 1 ms after a departure, an arrival, or a change of the engine.
    assert_eq!(at(2_100, &mut |driver, log| assert!(driver.depart(us(2_100), log))), 3_100);
    assert_eq!([3_100, 3_200].map(|now| at(now, nothing)), [5_100, 5_100]);
    assert_eq!(at(3_300, &mut |driver, log| offer(driver, log, us(3_300), 1, 9..10)), 4_300);
    assert_eq!([4_300, 4_400].map(|now| at(now, nothing)), [6_300, 6_300]);
    assert_eq!(at(4_500, &mut |driver, _| drop(driver.engine_mut().set_recorder(None))), 5_500);
    assert!(log.notified > 0);
}

/// The fragment, which is held until 20.7 ms, is queued then and nothing leaves.
#[test]
fn watched_flows_are_polled_soon_after_a_fragment_was_released() {
    let (mut driver, mut log) = (driver(Params::default()), Log::default());
    let all = [Match::default()];
    let table = PromiseTable::new([], [(Span::from_millis(1), &all[..])]).expect("few conditions");
    driver.engine_mut().promises(us(0)).set_table(table);
    let large = meta(2, 1_500);
    for handle in 0..9 {
        assert_eq!(driver.offer(us(500), Arrival::new(handle, &large), &mut log), Offered::Consumed);
    }
    let mut fragment = meta(1, 1_000);
    fragment.fields.fragment = Some(Fragment { id: 7, offset: 1_480, more: false });
    assert_eq!(driver.offer(us(700), Arrival::new(99, &fragment), &mut log), Offered::Consumed);
    driver.end_turn(us(19_000), &mut log);
    let mut next_poll = |now| {
        driver.depart_due(us(now), &mut log);
        driver.end_turn(us(now), &mut log);
        (log.sent.len(), driver.engine().next_poll().map_or(0, |next| next.as_nanos() / 1_000))
    };
    // The bucket is empty after two packets of 1,500 bytes; the next is due 1.5 ms later.
    assert_eq!(next_poll(19_500), (2, 20_500));
    assert_eq!(next_poll(20_500), (2, 22_500));
    assert_eq!(next_poll(20_700), (2, 21_700));
}

#[test]
fn an_adjustment_returns_whether_it_had_an_effect() {
    let late = |catch_up| {
        let (mut driver, mut log) = (driver(Params::default()), Log::default());
        assert!(driver.engine_mut().set_catch_up(catch_up));
        offer(&mut driver, &mut log, us(0), 1, 0..20);
        driver.depart_due(us(0), &mut log);
        driver.depart_due(us(5_900), &mut log);
        log.sent.len()
    };
    assert_eq!([Span::ZERO, Span::from_millis(20)].map(late), [6, 8], "the burst of 3 kB, or 5 ms at 8 Mbit/s");

    let (mut driver, mut log) = (driver(Params::default()), Log::default());
    offer(&mut driver, &mut log, us(0), 1, 0..1);
    offer(&mut driver, &mut log, us(0), 2, 1..2);
    let keys: Vec<u64> = driver.engine().tree().shaper().expect("a shaper").flows().map(|flow| flow.key).collect();
    let engine = driver.engine_mut();
    let class_rate = |engine: &Engine<u32>| {
        engine.tree().shaper().and_then(|shaper| shaper.class(ClassId(0))).expect("one class").rate
    };
    assert!(!engine.set_class_rate(us(0), ClassId(0), Rate::from_mbit(9)), "more than the link");
    assert_eq!(class_rate(engine), Rate::from_mbit(8));
    assert!(engine.set_class_rate(us(0), ClassId(0), Rate::from_mbit(4)));
    assert_eq!(class_rate(engine), Rate::from_mbit(4));
    assert!(engine.prefer(us(0), keys[0], 1).is_ok());
    let rates: Vec<Rate> = engine.tree().shaper().expect("a shaper").flows().map(|flow| flow.rate).collect();
    assert!(rates[0] > rates[1], "{rates:?}");
    assert!(engine.prefer(us(0), 1, 1).is_err(), "no flow has this key");

    let mut engine = engine_of("version = 1\n[discipline]\nkind = \"fifo\"\n");
    assert!(!engine.set_catch_up(Span::ZERO));
    assert!(!engine.set_class_rate(us(0), ClassId(0), Rate::from_mbit(4)));
    assert!(engine.prefer(us(0), keys[0], 1).is_err());
}

/// The calls of a recorder that the driver makes.
#[derive(Clone, Default)]
struct Calls(Arc<Mutex<Vec<String>>>);

impl Recorder for Calls {
    fn packet_bytes(&mut self, bytes: &[u8]) {
        self.0.lock().unwrap().push(format!("bytes {bytes:?}"));
    }
    fn arrival(&mut self, _: Instant, number: u64, _: &PacketMeta) {
        self.0.lock().unwrap().push(format!("arrival {number}"));
    }
    fn departure(&mut self, _: Instant) {}
    fn operation(&mut self, _: Instant, _: Operation<'_>) {}
    fn sent(&mut self, _: u64, _: Change) {}
    fn dropped(&mut self, _: u64, _: DropReason) {}
    fn too_long(&mut self, _: u64) {}
    fn idle(&mut self, _: Instant) {
        self.0.lock().unwrap().push("idle".to_owned());
    }
}

#[test]
fn a_recorder_gets_the_bytes_that_there_are_before_the_arrival() {
    let (mut driver, mut log, calls) = (driver(Params::default()), Log::default(), Calls::default());
    driver.engine_mut().set_recorder(Some(Box::new(calls.clone())));
    let meta = meta(1, 100);
    for bytes in [&[1, 2][..], &[]] {
        let arrival = Arrival { bytes, ..Arrival::new(1, &meta) };
        assert_eq!(driver.offer(us(0), arrival, &mut log), Offered::Consumed);
    }
    driver.end_turn(us(0), &mut log);
    assert_eq!(*calls.0.lock().unwrap(), ["bytes [1, 2]", "arrival 0", "arrival 1", "idle"]);
}

/// A data path whose arrivals come as `batches`; after the last it ends at its second wait.
struct Scripted {
    log: Log,
    batches: std::vec::IntoIter<usize>,
    handles: u32,
    /// The calls of the loop, in order.
    calls: Vec<&'static str>,
}

impl DataPath for Scripted {
    type Handle = u32;
    type Sink = Log;
    type Error = ();
    fn now(&mut self) -> Instant {
        us(1_000)
    }
    fn wait(&mut self, _: Wait) -> Result<ControlFlow<()>, ()> {
        self.calls.push("wait");
        let ends = self.batches.len() == 0 && self.calls.iter().filter(|call| **call == "wait").count() > 2;
        Ok(if ends { ControlFlow::Break(()) } else { ControlFlow::Continue(()) })
    }
    fn receive(&mut self, now: Instant, driver: &mut Driver<u32>) -> Result<usize, ()> {
        self.calls.push("receive");
        let batch = self.batches.next().unwrap_or(0);
        offer(driver, &mut self.log, now, 1, self.handles..self.handles + batch as u32);
        self.handles += batch as u32;
        Ok(batch)
    }
    fn sink(&mut self) -> &mut Log {
        &mut self.log
    }
    fn flush(&mut self) -> Result<(), ()> {
        self.calls.push("flush");
        Ok(())
    }
}

#[test]
fn a_turn_receives_four_batches_at_most() {
    let mut driver = driver(Params::default());
    let batches = vec![1, 2, 1, 1, 1].into_iter();
    let mut path = Scripted { log: Log::default(), batches, handles: 0, calls: Vec::new() };
    run(&mut driver, &mut path).expect("it does not fail");
    assert_eq!(
        path.calls,
        ["wait", "receive", "receive", "receive", "receive", "flush", "wait", "receive", "receive", "flush", "wait"]
    );
    assert_eq!((path.log.sent.len(), driver.counters().turns), (3, 2), "the burst has left");
}
