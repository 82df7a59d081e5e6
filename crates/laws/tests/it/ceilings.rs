//! Ceilings of classes, hosts, rules and flows in FBC over FBQ: the laws with drawn ceilings that change while packets wait; an
//! exact oracle of when a packet may leave, which asks every flow each time; and what hosts and flows get below a ceiling.

use std::collections::BTreeMap;

use tidegate_core::fbq::{
    Borrow, Ceiling, Ceilings, ClassParams, FairBy, Fbc, FbcParams, HeldBy, ParamError, Profile, Spare, WEIGHT_ONE,
};
use tidegate_core::qdisc::{Backlog, Discard};
use tidegate_core::random::Stream;
use tidegate_core::{Accounted, Bytes, ClassId, Deadline, Instant, Outlet, Qdisc, Queued, Rate, Span};
use tidegate_laws::{Shape, TestPacket, check_seeds};
use tidegate_testbed::share;

mod strict;

fn start() -> Instant {
    Instant::from_nanos(1_000_000_000)
}

fn kbit(rate: u64, burst: u64) -> Option<Ceiling> {
    Some(Ceiling { rate: Rate::from_kbit(rate), burst: Bytes::new(burst) })
}

/// Three classes that borrow and two profiles, with ceilings by chance.
#[derive(Clone)]
struct Drawn {
    classes: Vec<ClassParams>,
    profiles: Vec<Profile>,
}

fn draw(random: &mut Stream, fair_by: FairBy) -> Drawn {
    let mut some = |least: u64, most: u64| {
        let wanted = random.below(3) > 0;
        let (rate, burst) = (least + random.below(most - least), 300 + random.below(6_000));
        kbit(rate, burst).filter(|_| wanted)
    };
    let classes = [1_001, 2_007, 3_013].into_iter().zip(0..).map(|(rate, priority)| {
        let host = some(200, 4_000).filter(|_| fair_by != FairBy::Flow);
        let at_most = Ceilings { class: some(rate, 7_000), host, flow: some(100, 3_000) };
        ClassParams {
            priority,
            borrow: Borrow::FromOthers,
            limit: Bytes::new(60_000),
            flow_limit: Bytes::new(20_000),
            at_most,
            ..ClassParams::new(Rate::from_kbit(rate))
        }
    });
    let classes = classes.collect();
    let minimum = Profile { minimum: Rate::from_kbit(90), ..Profile::default() };
    let capped = Profile { weight: 3 * WEIGHT_ONE, at_most: some(150, 4_000), ..Profile::default() };
    Drawn { classes, profiles: vec![Profile::default(), minimum, capped] }
}

fn total(fair_by: FairBy, catch_up: Span) -> FbcParams {
    let idle_timeout = Span::from_millis(300);
    FbcParams { idle_timeout, max_flows: 60, catch_up, fair_by, ..FbcParams::new(Rate::from_kbit(8_500)) }
}

/// Changes its ceilings with every 48th packet.
struct Changing {
    fbc: Fbc<TestPacket>,
    params: FbcParams,
    random: Stream,
    draw: fn(&mut Stream, FairBy) -> Drawn,
    arrived: u64,
}

impl Qdisc<TestPacket> for Changing {
    fn enqueue(&mut self, now: Instant, packet: TestPacket, out: &mut dyn Outlet<TestPacket>) -> Queued {
        self.arrived += 1;
        if self.arrived.is_multiple_of(48) {
            let Drawn { classes, profiles } = (self.draw)(&mut self.random, self.params.fair_by);
            let before = self.fbc.backlog();
            self.fbc.change(now, self.params, &classes, profiles).expect("valid");
            assert_eq!(self.fbc.backlog(), before, "a change loses nothing");
        }
        self.fbc.enqueue(now, packet, out)
    }
    fn dequeue(&mut self, now: Instant, out: &mut dyn Outlet<TestPacket>) -> Option<TestPacket> {
        self.fbc.dequeue(now, out)
    }
    fn deadline(&self, now: Instant) -> Deadline {
        self.fbc.deadline(now)
    }
    fn backlog(&self) -> Backlog {
        self.fbc.backlog()
    }
}

#[test]
fn obey_the_laws() {
    for fair_by in [FairBy::Flow, FairBy::Source] {
        assert_laws(fair_by, draw);
    }
}

/// Asserts the laws with parameters by `draw`, which change while packets wait.
fn assert_laws(fair_by: FairBy, draw: fn(&mut Stream, FairBy) -> Drawn) {
    for (draws, catch_up) in [(0, Span::ZERO), (1, Span::from_millis(5)), (2, Span::ZERO)] {
        let params = total(fair_by, catch_up);
        let make = || {
            let mut random = Stream::named(draws, "ceilings");
            let Drawn { classes, profiles } = draw(&mut random, fair_by);
            let fbc = Fbc::new(params, classes, profiles, start()).expect("valid");
            Accounted::new(Changing { fbc, params, random, draw, arrived: 0 })
        };
        for shape in [
            Shape { flows: 24, ..Shape::default() },
            Shape { flows: 3, enqueues: 60, ..Shape::default() },
            Shape { flows: 300, longest_wait: Span::from_millis(400), enqueues: 140, ..Shape::default() },
            Shape { flows: 12, sizes: (40, 20_000), ..Shape::default() },
        ] {
            let report = check_seeds(make, &shape, share(8), 1_500);
            assert!(report.dequeued > share(1_000) && report.deadlines > share(300), "{report:?}");
        }
    }
}

/// A token bucket in 128 bits.
#[derive(Clone, Copy)]
struct Bucket {
    rate: i128,
    depth: i128,
    level: i128,
    at: u64,
}

const BYTE: i128 = 8_000_000_000;

impl Bucket {
    fn new(rate: Rate, burst: Bytes) -> Self {
        let depth = i128::from(burst.as_u64()) * BYTE;
        Self { rate: rate.as_bps().into(), depth, level: depth, at: start().as_nanos() }
    }
    fn of(ceiling: Ceiling) -> Self {
        Self::new(ceiling.rate, ceiling.burst)
    }
    fn pays_at(&self, size: u64) -> u64 {
        let missing = (i128::from(size) * BYTE).min(self.depth) - self.level;
        if missing <= 0 { self.at } else { self.at + ((missing + self.rate - 1) / self.rate) as u64 }
    }
    fn charge(&mut self, now: u64, size: u64) {
        self.level = (self.level + self.rate * i128::from(now - self.at)).min(self.depth) - i128::from(size) * BYTE;
        self.at = now;
    }
}

#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
enum Who {
    All,
    Class(u32),
    Host(u32, u64),
    Rule(u32, u32),
    Flow(u64),
}

/// The buckets of everything, and the queue of each flow: when anything may leave is the least over all flows.
struct Oracle {
    drawn: Drawn,
    fair_by: FairBy,
    buckets: BTreeMap<Who, Bucket>,
    queued: BTreeMap<u64, (TestPacket, u64)>,
}

impl Oracle {
    /// Buckets that a packet has to be paid by.
    fn payers(&self, packet: &TestPacket) -> Vec<(Who, Ceiling)> {
        let (class, flow, rule) = (packet.class.0, packet.flow.flow, packet.profile);
        let Ceilings { class: of_class, host, flow: of_flow } = self.drawn.classes[class as usize].at_most;
        let capped = self.drawn.profiles[rule as usize].at_most;
        let of_host = host.filter(|_| capped.is_none() && self.fair_by == FairBy::Source);
        let all = [
            of_class.map(|ceiling| (Who::Class(class), ceiling)),
            of_host.map(|ceiling| (Who::Host(class, packet.flow.source), ceiling)),
            capped.map(|ceiling| (Who::Rule(class, rule), ceiling)),
            of_flow.map(|ceiling| (Who::Flow(flow), ceiling)),
        ];
        all.into_iter().flatten().collect()
    }
    fn pays_at(&self, packet: &TestPacket) -> u64 {
        let size = packet.size.as_u64();
        let of = |(who, ceiling)| self.buckets.get(&who).copied().unwrap_or(Bucket::of(ceiling)).pays_at(size);
        let all = self.buckets[&Who::All].pays_at(size);
        self.payers(packet).into_iter().map(of).chain([all]).max().expect("the total")
    }
    fn earliest(&self) -> Option<u64> {
        self.queued.values().map(|(packet, _)| self.pays_at(packet)).min()
    }
    fn sent(&mut self, now: u64, packet: &TestPacket) {
        let size = packet.size.as_u64();
        for (who, ceiling) in self.payers(packet) {
            self.buckets.entry(who).or_insert(Bucket::of(ceiling)).charge(now, size);
        }
        self.buckets.get_mut(&Who::All).expect("the total").charge(now, size);
        let queue = self.queued.get_mut(&packet.flow.flow).expect("queued");
        queue.1 -= 1;
        if queue.1 == 0 {
            self.queued.remove(&packet.flow.flow);
        }
    }
}

/// With packets of one size and classes that borrow, a packet leaves at the first instant at which any could, of all flows, and
/// every ceiling pays for it.
#[test]
fn packets_leave_at_the_first_instant_that_the_oracle_allows() {
    const SIZE: u64 = 1_000;
    let mut held = 0;
    for seed in 0..share(60) {
        let mut random = Stream::named(seed, "oracle of ceilings");
        let fair_by = if seed % 2 == 0 { FairBy::Flow } else { FairBy::Source };
        let drawn = draw(&mut random, fair_by);
        let params = FbcParams { idle_timeout: Span::from_secs(100_000), ..total(fair_by, Span::ZERO) };
        let mut shaper = Fbc::new(params, drawn.classes.clone(), drawn.profiles.clone(), start()).expect("valid");
        let buckets = BTreeMap::from([(Who::All, Bucket::new(params.rate, params.burst))]);
        let mut oracle = Oracle { drawn, fair_by, buckets, queued: BTreeMap::new() };
        let mut now = start();
        for id in 0..share(3_000) {
            match random.below(8) {
                0..3 => {
                    let flow = random.below(24);
                    let mut packet = TestPacket::new(id, flow, SIZE).in_class((flow % 3) as u32);
                    packet = packet.with_profile((flow / 3 % 3) as u32);
                    packet.flow.source = flow / 6;
                    let before = shaper.backlog();
                    shaper.enqueue(now, packet, &mut Discard);
                    if shaper.backlog() != before {
                        oracle.queued.entry(flow).or_insert((packet, 0)).1 += 1;
                    }
                }
                3 => now += Span::from_nanos(random.below(4_000_000)),
                _ => {
                    let expected = oracle.earliest().map(|time| Instant::from_nanos(time).max(now));
                    let found = shaper.deadline(now).instant(now);
                    assert_eq!(found, expected, "seed {seed}, step {id}");
                    let Some(due) = found else { continue };
                    held += u64::from(due > now);
                    now = due;
                    let packet = shaper.dequeue(now, &mut Discard).expect("due");
                    let pays = Instant::from_nanos(oracle.pays_at(&packet));
                    assert!(pays <= now, "seed {seed}, step {id}: {packet:?} left at {now:?}, paid for at {pays:?}");
                    oracle.sent(now.as_nanos(), &packet);
                }
            }
        }
    }
    assert!(held > share(60) * share(3_000) / 10, "{held} packets waited");
}

fn class(mbit: u64, at_most: Ceilings) -> ClassParams {
    ClassParams {
        borrow: Borrow::FromOthers,
        limit: Bytes::new(2_000_000),
        flow_limit: Bytes::new(200_000),
        at_most,
        ..ClassParams::new(Rate::from_mbit(mbit))
    }
}

fn mbit(rate: u64) -> Option<Ceiling> {
    kbit(rate * 1_000, 3_028)
}

fn shaper(rate: u64, fair_by: FairBy, classes: &[ClassParams], profiles: &[Profile]) -> Fbc<TestPacket> {
    let params = FbcParams { fair_by, ..FbcParams::new(Rate::from_mbit(rate)) };
    Fbc::new(params, classes.to_vec(), profiles.to_vec(), start()).expect("valid")
}

/// A greedy flow.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
struct Greedy {
    flow: u64,
    host: u64,
    class: u32,
    profile: u32,
}

fn greedy(flow: u64, host: u64, class: u32, profile: u32) -> Greedy {
    Greedy { flow, host, class, profile }
}

/// Keeps flows backlogged for `seconds` from `now` on; returns the rate of each in kbit/s.
fn run(shaper: &mut Fbc<TestPacket>, now: &mut Instant, seconds: u64, flows: &[Greedy]) -> BTreeMap<u64, u64> {
    let end = *now + Span::from_secs(seconds);
    let mut sent: BTreeMap<u64, u64> = flows.iter().map(|greedy| (greedy.flow, 0)).collect();
    let mut id = 0;
    loop {
        for greedy in flows {
            while shaper.flow(greedy.flow).is_none_or(|view| view.backlog.packets < 3) {
                let mut packet = TestPacket::new(id, greedy.flow, 1_250).in_class(greedy.class);
                packet = packet.with_profile(greedy.profile);
                packet.flow.source = greedy.host;
                id += 1;
                let before = shaper.backlog();
                shaper.enqueue(*now, packet, &mut Discard);
                assert_ne!(shaper.backlog(), before, "{greedy:?} has no space");
            }
        }
        *now = shaper.deadline(*now).instant(*now).expect("backlogged");
        if *now >= end {
            *now = end;
            return sent.into_iter().map(|(flow, bytes)| (flow, bytes * 8 / 1_000 / seconds)).collect();
        }
        let packet = shaper.dequeue(*now, &mut Discard).expect("due");
        // Others may have packets left from before.
        if let Some(bytes) = sent.get_mut(&packet.flow.flow) {
            *bytes += 1_250;
        }
    }
}

#[track_caller]
fn assert_near(found: u64, expected: u64) {
    // A packet of 1,250 bytes a second is 10 kbit/s.
    assert!(found.abs_diff(expected) <= 30 + expected / 200, "{found} kbit/s instead of {expected}");
}

#[test]
fn a_class_borrows_up_to_its_ceiling_and_others_the_rest() {
    let classes = [class(1, Ceilings { class: mbit(5), ..Ceilings::default() }), class(4, Ceilings::default())];
    let mut shaper = shaper(50, FairBy::Flow, &classes, &[]);
    let mut now = start();
    let guests = [greedy(1, 1, 0, 0), greedy(2, 2, 0, 0)];
    // An idle line.
    let rates = run(&mut shaper, &mut now, 4, &guests);
    assert_near(rates[&1] + rates[&2], 5_000);
    assert_eq!(shaper.class(ClassId(0)).unwrap().held_by, Some(HeldBy::Class));
    assert_eq!(shaper.flow(1).unwrap().held_by, Some(HeldBy::Class));
    // A busy one: by weight the guests would have a fifth of it.
    let rates = run(&mut shaper, &mut now, 4, &[guests[0], guests[1], greedy(3, 3, 1, 0)]);
    assert_near(rates[&1] + rates[&2], 5_000);
    assert_near(rates[&3], 45_000);
    assert_eq!(shaper.class(ClassId(1)).unwrap().held_by, None);
}

#[test]
fn each_host_has_its_ceiling_however_many_flows_it_has() {
    let classes = [class(2, Ceilings { host: mbit(1), class: mbit(5), flow: None }), class(10, Ceilings::default())];
    let mut shaper = shaper(50, FairBy::Source, &classes, &[]);
    let mut now = start();
    let mut flows: Vec<Greedy> = (10..20).map(|flow| greedy(flow, 1, 0, 0)).collect();
    flows.extend([greedy(20, 2, 0, 0), greedy(30, 3, 1, 0)]);
    let rates = run(&mut shaper, &mut now, 4, &flows);
    assert_near((10..20).map(|flow| rates[&flow]).sum(), 1_000);
    (10..20).for_each(|flow| assert_near(rates[&flow], 100));
    assert_near(rates[&20], 1_000);
    assert_near(rates[&30], 48_000);
    assert_eq!(shaper.flow(20).unwrap().held_by, Some(HeldBy::Host));
    assert_eq!(shaper.class(ClassId(0)).unwrap().held_by, Some(HeldBy::Host));
    // Eight hosts would have eight; the class has five.
    let flows: Vec<Greedy> = (40..48).map(|flow| greedy(flow, flow, 0, 0)).collect();
    let rates = run(&mut shaper, &mut now, 4, &flows);
    (40..48).for_each(|flow| assert_near(rates[&flow], 625));
}

#[test]
fn the_flows_of_a_rule_have_one_ceiling_and_share_it() {
    for fair_by in [FairBy::Flow, FairBy::Source] {
        let profiles = [Profile::default(), Profile { at_most: mbit(2), ..Profile::default() }];
        let mut shaper = shaper(20, fair_by, &[class(20, Ceilings::default())], &profiles);
        let mut now = start();
        let rates = run(
            &mut shaper,
            &mut now,
            4,
            &[greedy(1, 1, 0, 1), greedy(2, 2, 0, 1), greedy(3, 3, 0, 0), greedy(4, 4, 0, 0)],
        );
        [1, 2].into_iter().for_each(|flow| assert_near(rates[&flow], 1_000));
        [3, 4].into_iter().for_each(|flow| assert_near(rates[&flow], 9_000));
        assert_eq!(shaper.flow(1).unwrap().held_by, Some(HeldBy::Rule));
        let most = |flow| shaper.ceiling_of(flow, ClassId(0)).unwrap().as_bps();
        assert_eq!([1, 3, 9].map(most), [2_000_000, 20_000_000, 20_000_000]);
        assert_eq!(shaper.outlook(1, ClassId(0)), Some(Rate::from_mbit(2)));
    }
}

#[test]
fn a_flow_below_its_ceiling_shares_as_without_one() {
    let at_most = Ceilings { flow: mbit(8), ..Ceilings::default() };
    let profiles = [Profile::default(), Profile { weight: 3 * WEIGHT_ONE, ..Profile::default() }];
    let mut shaper = shaper(12, FairBy::Flow, &[class(12, at_most)], &profiles);
    let mut now = start();
    let rates = run(&mut shaper, &mut now, 4, &[greedy(1, 1, 0, 0), greedy(2, 2, 0, 0), greedy(3, 3, 0, 1)]);
    // Weights 1, 1, 3 of 12; then 1 and 3, where the second would have 9.
    [(1, 2_400), (2, 2_400), (3, 7_200)].into_iter().for_each(|(flow, kbit)| assert_near(rates[&flow], kbit));
    let rates = run(&mut shaper, &mut now, 4, &[greedy(1, 1, 0, 0), greedy(3, 3, 0, 1)]);
    [(1, 4_000), (3, 8_000)].into_iter().for_each(|(flow, kbit)| assert_near(rates[&flow], kbit));
    assert_near(run(&mut shaper, &mut now, 4, &[greedy(3, 3, 0, 1)])[&3], 8_000);
    assert_eq!(shaper.flow(3).unwrap().held_by, Some(HeldBy::Flow));
}

#[test]
fn a_minimum_holds_below_the_ceiling_of_its_flow() {
    let at_most = Ceilings { flow: mbit(3), ..Ceilings::default() };
    let profiles = [Profile::default(), Profile { minimum: Rate::from_mbit(2), ..Profile::default() }];
    let mut shaper = shaper(10, FairBy::Flow, &[class(10, at_most)], &profiles);
    let mut now = start();
    let mut flows: Vec<Greedy> = (10..50).map(|flow| greedy(flow, flow, 0, 0)).collect();
    flows.push(greedy(1, 1, 0, 1));
    let rates = run(&mut shaper, &mut now, 4, &flows);
    assert_near(rates[&1], 2_000);
    (10..50).for_each(|flow| assert_near(rates[&flow], 200));
}

/// Whoever waited for a ceiling has no claim on what it could not use: a ceiling that is raised or removed gives no arrears.
#[test]
fn ceilings_change_while_packets_wait_and_leave_no_arrears() {
    let flows = [greedy(1, 1, 0, 0), greedy(2, 2, 0, 0), greedy(3, 3, 1, 0)];
    let per_flow = |rate| Ceilings { flow: mbit(rate), ..Ceilings::default() };
    let of_class = |rate| Ceilings { class: mbit(rate), ..Ceilings::default() };
    let mut shaper = shaper(20, FairBy::Flow, &[class(1, per_flow(1)), class(1, Ceilings::default())], &[]);
    let mut now = start();
    for (at_most, each, other) in [
        (per_flow(1), 1_000, 18_000),
        (per_flow(2), 2_000, 16_000),
        (Ceilings::default(), 5_000, 10_000),
        (of_class(4), 2_000, 16_000),
        (of_class(2), 1_000, 18_000),
        (Ceilings::default(), 5_000, 10_000),
        (Ceilings { class: mbit(3), flow: mbit(1), host: None }, 1_000, 18_000),
        // Less than the class is guaranteed, so that it does not borrow.
        (Ceilings { flow: kbit(400, 3_028), ..Ceilings::default() }, 400, 19_200),
        (Ceilings::default(), 5_000, 10_000),
    ] {
        let before = shaper.backlog();
        let classes = [class(1, at_most), class(1, Ceilings::default())];
        shaper.change(now, FbcParams::new(Rate::from_mbit(20)), &classes, vec![]).expect("valid");
        assert_eq!(shaper.backlog(), before);
        let rates = run(&mut shaper, &mut now, 2, &flows);
        assert_near(rates[&1], each);
        assert_near(rates[&2], each);
        assert_near(rates[&3], other);
    }
}

#[test]
fn the_ceiling_of_a_rule_changes_for_flows_with_terms_too() {
    let rule = |at_most| vec![Profile::default(), Profile { at_most, ..Profile::default() }];
    let mut shaper = shaper(10, FairBy::Flow, &[class(10, Ceilings::default())], &rule(mbit(2)));
    let (mut now, flow) = (start(), [greedy(1, 1, 0, 1)]);
    assert_near(run(&mut shaper, &mut now, 2, &flow)[&1], 2_000);
    shaper.set_minimum(now, 1, Rate::from_kbit(500)).unwrap();
    for (at_most, kbit) in [(mbit(4), 4_000), (None, 10_000), (mbit(1), 1_000)] {
        let params = FbcParams::new(Rate::from_mbit(10));
        shaper.change(now, params, &[class(10, Ceilings::default())], rule(at_most)).expect("valid");
        assert_near(run(&mut shaper, &mut now, 2, &flow)[&1], kbit);
    }
}

/// A sender chooses the rule of each of its packets, by code points for instance. Its host stays below its ceiling.
#[test]
fn a_host_that_changes_its_rule_with_each_packet_stays_below_its_ceiling() {
    let at_most = Ceilings { host: kbit(1_000, 12_500), ..Ceilings::default() };
    let profiles = [Profile::default(), Profile { weight: 2 * WEIGHT_ONE, ..Profile::default() }];
    let mut shaper = shaper(20, FairBy::Source, &[class(20, at_most)], &profiles);
    let (mut now, mut sent) = (start(), 0);
    for id in 0..4_000 {
        let packet = TestPacket::new(id, 1, 1_250).with_profile((id % 2) as u32);
        shaper.enqueue(now, packet, &mut Discard);
        now += Span::from_micros(500);
        while shaper.deadline(now) == Deadline::Now {
            sent += shaper.dequeue(now, &mut Discard).expect("due").size.as_u64();
        }
    }
    // 2 s at 1 Mbit/s are 250,000 bytes, and the burst.
    assert!((240_000..=250_000 + 12_500).contains(&sent), "{sent}");
}

/// A caller that is 3 ms late each time has the rate of the ceiling, and no more than the lateness that is made up for above it.
#[test]
fn a_late_caller_does_not_exceed_a_ceiling() {
    let catch_up = Span::from_millis(5);
    let at_most = Ceilings { class: mbit(2), ..Ceilings::default() };
    let params = FbcParams { catch_up, ..FbcParams::new(Rate::from_mbit(20)) };
    let mut shaper = Fbc::new(params, vec![class(1, at_most)], vec![], start()).expect("valid");
    for id in 0..800 {
        shaper.enqueue(start(), TestPacket::new(id, id % 8, 1_250), &mut Discard);
    }
    let (mut now, mut sum, mut least) = (start(), 0_i128, i128::MAX);
    for _ in 0..1_000 {
        now += Span::from_millis(3);
        while let Some(packet) = shaper.dequeue(now, &mut Discard) {
            let earned = 2_000_000 * i128::from(now.as_nanos());
            least = least.min(sum - earned);
            sum += i128::from(packet.size.as_u64()) * BYTE;
            // The burst, and 5 ms at 2 Mbit/s.
            assert!(sum - earned - least <= (3_028 + 1_250) * BYTE, "at {now:?}");
        }
    }
    // 3 s at 2 Mbit/s are 750,000 bytes.
    assert!((sum / BYTE).abs_diff(750_000) < 4_000, "{}", sum / BYTE);
}

#[test]
fn ceilings_that_contradict_are_refused_with_their_class() {
    let of = |fair_by, classes: &[ClassParams], profiles: Vec<Profile>| {
        let params = FbcParams { fair_by, ..FbcParams::new(Rate::from_mbit(20)) };
        Fbc::<TestPacket>::new(params, classes.to_vec(), profiles, start()).err()
    };
    let per_host = Ceilings { host: mbit(1), ..Ceilings::default() };
    let per_flow = Ceilings { flow: mbit(1), ..Ceilings::default() };
    let low = class(4, Ceilings { class: mbit(3), ..Ceilings::default() });
    let strict = |at_most| ClassParams { spare: Spare::Idle, borrow: Borrow::Never, ..class(4, at_most) };
    let plain = class(4, Ceilings::default());
    assert_eq!(of(FairBy::Flow, &[plain, low], vec![]), Some(ParamError::CeilingBelowRate { class: 1 }));
    assert_eq!(of(FairBy::Flow, &[class(4, per_host)], vec![]), Some(ParamError::NoHosts { class: 0 }));
    assert_eq!(of(FairBy::Source, &[class(4, per_host)], vec![]), None);
    assert_eq!(of(FairBy::Flow, &[strict(per_flow)], vec![]), Some(ParamError::StrictCeiling { class: 0 }));
    let capped = vec![Profile { at_most: mbit(1), ..Profile::default() }];
    assert_eq!(of(FairBy::Flow, &[strict(Ceilings::default())], capped), Some(ParamError::StrictCeiling { class: 0 }));
    let of_class = Ceilings { class: mbit(5), ..Ceilings::default() };
    let borrower = ClassParams { borrow: Borrow::FromOthers, ..strict(of_class) };
    assert_eq!(of(FairBy::Flow, &[plain, borrower], vec![]), Some(ParamError::StrictBorrowerCeiling { class: 1 }));
    assert_eq!(of(FairBy::Flow, &[plain, strict(of_class)], vec![]), None);
    // A guarantee is not raised above the ceiling of its class.
    let mut shaper = shaper(20, FairBy::Flow, &[class(4, of_class)], &[]);
    assert!(!shaper.set_class_rate(start(), ClassId(0), Rate::from_mbit(6)));
    assert!(shaper.set_class_rate(start(), ClassId(0), Rate::from_mbit(5)));
    // Both may be raised at once.
    let raised = ClassParams { borrow: Borrow::Never, ..class(7, Ceilings { class: mbit(8), ..Ceilings::default() }) };
    shaper.change(start(), FbcParams::new(Rate::from_mbit(20)), &[raised], vec![]).expect("valid");
    assert_near(run(&mut shaper, &mut start(), 2, &[greedy(1, 1, 0, 0)])[&1], 7_000);
}
