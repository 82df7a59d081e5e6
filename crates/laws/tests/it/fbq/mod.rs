//! The laws for FBC over FBQ, in every mode; its own laws (aggregate, minimum, shares) as properties; and the
//! paper's equations against a slow oracle that updates every flow at every packet.

use std::collections::BTreeMap;

use tidegate_core::fbq::{
    Borrow, ClassParams, Displace, Fbc, FbcParams, Feedback, FlowView, Marking, Profile, Promise, Spare, Terms,
    WEIGHT_ONE,
};
use tidegate_core::packet::NO_SLOT;
use tidegate_core::qdisc::Discard;
use tidegate_core::random::Stream;
use tidegate_core::{Accounted, Bytes, ClassId, Dscp, Event, Instant, Outlet, Qdisc, Queued, Rate, Span};
use tidegate_laws::{Shape, TestPacket, check_seeds};
use tidegate_testbed::share;

mod change;
mod equations;
mod limits;
mod order;
mod preference;
mod strict;
mod terms;

type Shaper = Fbc<TestPacket>;

fn kbit(n: u64) -> Rate {
    Rate::from_kbit(n)
}
fn at_us(n: u64) -> Instant {
    Instant::from_nanos(n * 1_000)
}
fn start() -> Instant {
    Instant::from_nanos(1_000_000_000)
}

/// Three classes like the paper's, scaled down; rates that do not divide anything evenly.
fn paper(spare: Spare, borrow: Borrow, catch_up: Span) -> Shaper {
    let class = |rate, priority, dscp| ClassParams {
        priority,
        dscp: Some(dscp),
        spare,
        borrow,
        limit: Bytes::new(40_000),
        flow_limit: Bytes::new(20_000),
        feedback: Some(Feedback { above: Bytes::new(6_000), below: Bytes::new(2_000), mark: Marking::EcnCapable }),
        ..ClassParams::new(kbit(rate))
    };
    let classes = vec![
        class(1_001, 0, Dscp::EF),
        class(3_007, 1, Dscp::assured(1, 1).unwrap()),
        class(4_013, 2, Dscp::BEST_EFFORT),
    ];
    let profiles = vec![
        Profile::default(),
        Profile { minimum: kbit(333), ..Profile::default() },
        Profile {
            weight: 3 * WEIGHT_ONE,
            minimum: kbit(50),
            displace: Some(Displace { below: kbit(900), to: 2 }),
            ..Profile::default()
        },
    ];
    let params =
        FbcParams { idle_timeout: Span::from_millis(200), max_flows: 30, catch_up, ..FbcParams::new(kbit(8_500)) };
    Fbc::new(params, classes, profiles, start()).unwrap()
}

#[test]
fn obeys_the_laws_with_borrowing() {
    assert_laws(Spare::Shared, Borrow::FromOthers);
}

#[test]
fn obeys_the_laws_without_borrowing() {
    assert_laws(Spare::Shared, Borrow::Never);
}

#[test]
fn obeys_the_laws_with_spare_rate_unused() {
    assert_laws(Spare::Idle, Borrow::Never);
}

fn assert_laws(spare: Spare, borrow: Borrow) {
    let busy = Shape { flows: 24, ..Shape::default() };
    let few = Shape { flows: 3, enqueues: 60, ..Shape::default() };
    let many = Shape { flows: 500, longest_wait: Span::from_millis(400), enqueues: 140, ..Shape::default() };
    let giant = Shape { flows: 12, sizes: (40, 20_000), ..Shape::default() };
    for shape in [busy, few, many, giant] {
        for catch_up in [Span::ZERO, Span::from_millis(5)] {
            let report = check_seeds(|| Accounted::new(paper(spare, borrow, catch_up)), &shape, share(24), 2_000);
            assert!(report.dequeued > share(5_000) && report.deadlines > share(1_000), "{report:?}");
        }
    }
}

/// Feeds arrivals to a shaper and dequeues at its own deadlines; `late` is added to each.
struct Bench {
    shaper: Shaper,
    now: Instant,
    sent: Vec<(Instant, TestPacket)>,
    next_id: u64,
    late: Span,
    events: Events,
}

#[derive(Default)]
struct Events(Vec<Event>);

impl Outlet<TestPacket> for Events {
    fn dropped(&mut self, packet: TestPacket, reason: tidegate_core::DropReason) {
        panic!("{packet:?} dropped: {reason:?}");
    }
    fn event(&mut self, event: Event) {
        self.0.push(event);
    }
}

impl Bench {
    fn new(shaper: Shaper) -> Self {
        Self { shaper, now: start(), sent: vec![], next_id: 0, late: Span::ZERO, events: Events::default() }
    }
    fn put(&mut self, flow: u64, class: u32, profile: u32, size: u64) {
        let packet = TestPacket::new(self.next_id, flow, size).in_class(class).with_profile(profile);
        self.next_id += 1;
        self.shaper.enqueue(self.now, packet, &mut self.events);
    }
    fn run_until(&mut self, end: Instant) {
        while let Some(t) = self.shaper.deadline(self.now).instant(self.now)
            && t + self.late <= end
        {
            self.now = self.now.max(t + self.late);
            let packet = self.shaper.dequeue(self.now, &mut self.events).expect("due");
            self.sent.push((self.now, packet));
        }
        self.now = end;
    }
    /// Keeps `flows` (key, class, profile, size) backlogged until `end`.
    fn greedy(&mut self, flows: &[(u64, u32, u32, u64)], end: Instant) {
        while self.now < end {
            for &(flow, class, profile, size) in flows {
                while self.shaper.flow(flow).is_none_or(|f| f.backlog.packets < 8) {
                    self.put(flow, class, profile, size);
                }
            }
            self.run_until((self.now + Span::from_micros(500)).min(end));
        }
    }
    fn bytes_by_flow(&self, from: Instant, to: Instant) -> BTreeMap<u64, u64> {
        let mut sums = BTreeMap::new();
        for (_, packet) in self.sent.iter().filter(|(t, _)| *t >= from && *t < to) {
            *sums.entry(packet.flow.flow).or_default() += packet.size.as_u64();
        }
        sums
    }
}

fn one_class(rate: Rate, spare: Spare) -> Shaper {
    let class = ClassParams { spare, limit: Bytes::new(10_000_000), flow_limit: Bytes::MAX, ..ClassParams::new(rate) };
    let profiles = vec![Profile::default(), Profile { minimum: Rate::from_mbit(4), ..Profile::default() }];
    Fbc::new(FbcParams::new(rate), vec![class], profiles, start()).unwrap()
}

/// Law: any s_i + .. + s_k <= TB + R * (t_k - t_i), exactly.
fn assert_bounded(sent: &[(Instant, u64)], rate: Rate, burst: u64) {
    // Let S(k) be the bytes up to and including k: S(k) - S(i-1) - R(t_k - t_i) <= TB. Keep the least S(i-1) - R t_i.
    let (mut sum, mut least) = (0_i128, i128::MAX);
    for (t, size) in sent {
        let earned = i128::from(rate.as_bps()) * i128::from(t.as_nanos());
        least = least.min(sum - earned);
        sum += i128::from(*size) * 8_000_000_000;
        assert!(sum - earned - least <= i128::from(burst) * 8_000_000_000, "burst exceeded at {t:?}");
    }
}

#[test]
fn the_aggregate_never_exceeds_bucket_and_rate() {
    for late in [Span::ZERO, Span::from_micros(730)] {
        let mut bench = Bench::new(one_class(Rate::from_mbit(10), Spare::Shared));
        bench.late = late;
        let flows: Vec<_> = (0..7).map(|n| (n, 0, 0, 300 + 171 * n)).collect();
        bench.greedy(&flows, start() + Span::from_secs(2));
        let sent: Vec<_> = bench.sent.iter().map(|(t, p)| (*t, p.size.as_u64())).collect();
        assert_bounded(&sent, Rate::from_mbit(10), 3_028);
        if late.is_zero() {
            // Work-conserving: 2 s at 1.25 MB/s and the bucket, less the bytes that the last packet waits for.
            let total: u64 = sent.iter().map(|(_, size)| size).sum();
            assert!(total + 1_500 > 2_500_000 + 3_028, "{total}");
        }
    }
}

#[test]
fn lateness_is_made_up_for_within_bounds() {
    // Every packet 3 ms late, 10 Mbit/s, bucket of 2.4 ms: without compensation half of the rate would be lost.
    let class =
        ClassParams { limit: Bytes::new(10_000_000), flow_limit: Bytes::MAX, ..ClassParams::new(Rate::from_mbit(10)) };
    let params = FbcParams { catch_up: Span::from_millis(5), ..FbcParams::new(Rate::from_mbit(10)) };
    let mut bench = Bench::new(Fbc::new(params, vec![class], vec![], start()).unwrap());
    for n in 0..3_000 {
        bench.put(n % 5, 0, 0, 1_400);
    }
    // Wake up every 3 ms and send what is due.
    for _ in 0..1_000 {
        bench.now += Span::from_millis(3);
        while let Some(packet) = bench.shaper.dequeue(bench.now, &mut Discard) {
            bench.sent.push((bench.now, packet));
        }
    }
    let total: u64 = bench.sent.iter().map(|(_, p)| p.size.as_u64()).sum();
    // 3 s at 1.25 MB/s = 3.75 MB.
    assert!(total.abs_diff(3_750_000) < 6_000, "{total}");
    let sent: Vec<_> = bench.sent.iter().map(|(t, p)| (*t, p.size.as_u64())).collect();
    // 5 ms at 1.25 MB/s on top of the bucket.
    assert_bounded(&sent, Rate::from_mbit(10), 3_028 + 6_250);
}

#[test]
fn equal_flows_share_equally_whatever_their_packets() {
    for spare in [Spare::Shared, Spare::Idle] {
        let mut bench = Bench::new(one_class(Rate::from_mbit(20), spare));
        let flows: Vec<_> = (0..8).map(|n| (n, 0, 0, 100 + 200 * n)).collect();
        bench.greedy(&flows, start() + Span::from_secs(4));
        let sums = bench.bytes_by_flow(start() + Span::from_secs(1), start() + Span::from_secs(4));
        // 7.5 MB in 3 s, an eighth each, one large packet of deviation either way.
        for (flow, sum) in sums {
            assert!(sum.abs_diff(937_500) <= 2 * 1_500, "flow {flow}: {sum} under {spare:?}");
        }
    }
}

#[test]
fn packets_of_flows_interleave_one_by_one() {
    let mut bench = Bench::new(one_class(Rate::from_mbit(10), Spare::Shared));
    bench.greedy(&[(0, 0, 0, 1_000), (1, 0, 0, 1_000), (2, 0, 0, 1_000)], start() + Span::from_secs(1));
    let order: Vec<_> = bench.sent.iter().skip(20).map(|(_, p)| p.flow.flow).collect();
    for window in order.windows(3) {
        let mut sorted = window.to_vec();
        sorted.sort_unstable();
        assert_eq!(sorted, [0, 1, 2], "{order:?}");
    }
}

#[test]
fn a_minimum_holds_against_fifty_greedy_flows() {
    for spare in [Spare::Shared, Spare::Idle] {
        let mut bench = Bench::new(one_class(Rate::from_mbit(10), spare));
        let mut flows: Vec<_> = (1..=50).map(|n| (n, 0, 0, 1_400)).collect();
        flows.push((99, 0, 1, 1_400));
        bench.greedy(&flows, start() + Span::from_secs(5));
        let sums = bench.bytes_by_flow(start() + Span::from_secs(1), start() + Span::from_secs(5));
        // 4 Mbit/s for 4 s is 2 MB; the others share 6 Mbit/s: 60 kB each.
        assert!(sums[&99].abs_diff(2_000_000) <= 3_000, "{} under {spare:?}", sums[&99]);
        for n in 1..=50 {
            assert!(sums[&n].abs_diff(60_000) <= 3_000, "{n}: {} under {spare:?}", sums[&n]);
        }
        // And in every tenth of a second: 50 kB less two large packets.
        for tenth in 10..50 {
            let from = start() + Span::from_millis(100 * tenth);
            let sums = bench.bytes_by_flow(from, from + Span::from_millis(100));
            assert!(sums[&99] + 2 * 1_514 >= 50_000, "{}", sums[&99]);
        }
    }
}

#[test]
fn a_flow_within_its_share_hardly_waits() {
    // 1 Mbit/s of CBR among 7 greedy flows at 20 Mbit/s: its share would be 2.5 Mbit/s.
    let mut bench = Bench::new(one_class(Rate::from_mbit(20), Spare::Shared));
    let greedy: Vec<_> = (1..=7).map(|n| (n, 0, 0, 1_400)).collect();
    let mut asked = BTreeMap::new();
    for n in 0..400_u64 {
        let end = start() + Span::from_micros(11_200 * (n + 1));
        asked.insert(bench.next_id, bench.now);
        bench.put(0, 0, 0, 1_400);
        bench.greedy(&greedy, end);
    }
    let worst = bench.sent.iter().filter_map(|(t, p)| Some(t.since(*asked.get(&p.id)?))).skip(10).max().unwrap();
    // One packet that is selected already and its own: 2 * 0.56 ms, and one more for ties.
    assert!(worst <= Span::from_micros(3 * 560), "{worst}");
}

#[test]
fn new_flows_cannot_starve_an_old_one() {
    let mut bench = Bench::new(one_class(Rate::from_mbit(10), Spare::Shared));
    bench.greedy(&[(0, 0, 0, 1_000)], start() + Span::from_millis(100));
    let from = bench.now;
    // Two packets of new flows per millisecond: 16 Mbit/s of them.
    for n in 0..400 {
        bench.put(1_000 + 2 * n, 0, 0, 1_000);
        bench.put(1_001 + 2 * n, 0, 0, 1_000);
        let next = bench.now + Span::from_millis(1);
        bench.greedy(&[(0, 0, 0, 1_000)], next);
    }
    let sums = bench.bytes_by_flow(from, bench.now);
    // Backlogged one-packet flows grow from 0 to about 300; with fair shares the old flow gets a packet per round.
    assert!(sums[&0] >= 8_000, "{}", sums[&0]);
}

#[test]
fn unused_rate_is_borrowed_and_the_total_is_kept() {
    let class = |mbit, priority| ClassParams {
        priority,
        borrow: Borrow::FromOthers,
        limit: Bytes::new(1_000_000),
        ..ClassParams::new(Rate::from_mbit(mbit))
    };
    let shaper =
        Fbc::new(FbcParams::new(Rate::from_mbit(80)), vec![class(10, 0), class(30, 1), class(40, 2)], vec![], start())
            .unwrap();
    let mut bench = Bench::new(shaper);
    let second = |n| start() + Span::from_secs(n);
    bench.greedy(&[(1, 1, 0, 1_400), (2, 2, 0, 1_400)], second(1));
    bench.greedy(&[(0, 0, 0, 1_400), (1, 1, 0, 1_400), (2, 2, 0, 1_400)], second(2));
    bench.greedy(&[(2, 2, 0, 1_400)], second(3));
    let mbit = |from: u64, flow: u64| {
        let (a, b) = (second(from) + Span::from_millis(20), second(from + 1));
        bench.bytes_by_flow(a, b).get(&flow).copied().unwrap_or(0) as f64 * 8.0 / 0.98 / 1e6
    };
    // PS idle: its 10 are split 30:40 between the others. Then every class has its own rate. Then BE has all.
    for (from, flow, expected) in [(0, 1, 34.29), (0, 2, 45.71), (1, 0, 10.0), (1, 1, 30.0), (1, 2, 40.0), (2, 2, 80.0)]
    {
        let got = mbit(from, flow);
        assert!((got - expected).abs() < 0.3, "second {from}, class {flow}: {got} instead of {expected}");
    }
    let sent: Vec<_> = bench.sent.iter().map(|(t, p)| (*t, p.size.as_u64())).collect();
    assert_bounded(&sent, Rate::from_mbit(80), 3_028);
}

#[test]
fn a_late_caller_changes_nobodys_part() {
    // Wake-ups up to 4 ms late, compensated: every class gets what it would have got on time.
    let class = |mbit, priority| ClassParams {
        priority,
        borrow: Borrow::FromOthers,
        limit: Bytes::new(1_000_000),
        ..ClassParams::new(Rate::from_mbit(mbit))
    };
    let params =
        FbcParams { catch_up: Span::from_millis(5), burst: Bytes::new(10_000), ..FbcParams::new(Rate::from_mbit(80)) };
    let mut shaper: Shaper = Fbc::new(params, vec![class(10, 0), class(30, 1), class(40, 2)], vec![], start()).unwrap();
    let mut random = Stream::named(1, "late");
    let (mut now, mut bytes, mut id) = (start(), [0_u64; 3], 0);
    while now < start() + Span::from_secs(4) {
        for class in 0..3_u32 {
            while shaper.classes().nth(class as usize).unwrap().backlog.packets < 60 {
                let flow = u64::from(class) * 10 + id % 4;
                shaper.enqueue(now, TestPacket::new(id, flow, 1_400).in_class(class), &mut Discard);
                id += 1;
            }
        }
        now += Span::from_nanos(random.below(4_000_000));
        while let Some(packet) = shaper.dequeue(now, &mut Discard) {
            bytes[packet.class.0 as usize] += packet.size.as_u64();
        }
    }
    let mbit = bytes.map(|bytes| bytes as f64 * 8.0 / now.since(start()).as_secs_f64() / 1e6);
    for (got, expected) in mbit.into_iter().zip([10.0, 30.0, 40.0]) {
        assert!((got / expected - 1.0).abs() < 0.01, "{mbit:?}");
    }
}

#[test]
fn flows_in_lockstep_share_the_buffer() {
    // Flows of 1 Mbit/s, always in the same order, evenly over each interval, in a class of two thirds of their sum:
    // the flows that find the buffer full must not be the same every round. If the threshold of a flow depended on
    // the present free space, the late ones would get nothing at all in each of these cases.
    for (flows, packets) in [(15, 32), (45, 100), (60, 140)] {
        let rate = Rate::from_mbit(flows * 2 / 3);
        let class = ClassParams {
            limit: Bytes::new(packets * 1_428),
            flow_limit: Bytes::new(packets * 1_428 / 2),
            ..ClassParams::new(rate)
        };
        let mut shaper: Shaper = Fbc::new(FbcParams::new(rate), vec![class], vec![], start()).unwrap();
        let mut sent = vec![0_u64; flows as usize];
        let interval = 1_428 * 8_000;
        for n in 0..flows * 87 * 4 {
            let now = start() + Span::from_nanos(n * interval / flows);
            while shaper.deadline(now).instant(now).is_some_and(|time| time <= now) {
                let packet = shaper.dequeue(now, &mut Discard).unwrap();
                sent[packet.flow.flow as usize] += u64::from(n > flows * 87 * 2);
            }
            shaper.enqueue(now, TestPacket::new(n, n % flows, 1_428), &mut Discard);
        }
        // Two thirds of the 174 packets that each flow offered.
        let (least, most) = (*sent.iter().min().unwrap(), *sent.iter().max().unwrap());
        assert!(least >= 113 && most <= 119, "{flows} flows, {packets} packets: {sent:?}");
    }
}

#[test]
fn flows_in_lockstep_share_what_promised_ones_leave_of_the_buffer() {
    // Half of the rate is granted to `promised` flows, which send twice their minimum. The other flows send twice
    // what is left to each, always in the same order, evenly over each interval or all at once. If flows with and
    // without minimum shared the buffer, the first of them would find space and the last would not.
    for (promised, others, packets) in [(1, 3, 60), (1, 3, 200), (2, 15, 120), (4, 30, 400), (2, 2, 60)] {
        for (spread, first) in [(1, 0), (1, promised), (0, 0), (0, promised)] {
            let rate = Rate::from_mbit(2 * others);
            let class = ClassParams {
                limit: Bytes::new(packets * 1_000),
                flow_limit: Bytes::new(packets * 500),
                ..ClassParams::new(rate)
            };
            let minimum = Rate::from_bps(rate.as_bps() / 2 / promised);
            let profiles = vec![Profile::default(), Profile { minimum, ..Profile::default() }];
            let mut shaper: Shaper = Fbc::new(FbcParams::new(rate), vec![class], profiles, start()).unwrap();
            // An interval in which each of the others sends a packet at 2 Mbit/s: 4 ms; those with a minimum send
            // `rate / promised`.
            let flows = promised + others;
            let each = |flow: u64| if flow < promised { others / promised } else { 1 };
            let (interval, rounds) = (4_000_000, 600);
            let (mut sent, mut id, mut clock) = (vec![0_u64; flows as usize], 0, start());
            for round in 0..rounds {
                for place in 0..flows {
                    let flow = (place + first) % flows;
                    let now = start() + Span::from_nanos(round * interval + spread * place * interval / flows);
                    while let Some(time) = shaper.deadline(clock).instant(clock)
                        && time <= now
                    {
                        clock = time;
                        let packet = shaper.dequeue(clock, &mut Discard).unwrap();
                        sent[packet.flow.flow as usize] += u64::from(round >= rounds / 2);
                    }
                    clock = now;
                    for _ in 0..each(flow).max(1) {
                        let packet = TestPacket::new(id, flow, 1_000).with_profile(u32::from(flow < promised));
                        shaper.enqueue(now, packet, &mut Discard);
                        id += 1;
                    }
                }
            }
            // In 300 intervals 1.2 s: the others share half of the rate, 150 packets each.
            let others = &sent[promised as usize..];
            let (least, most) = (*others.iter().min().unwrap(), *others.iter().max().unwrap());
            let case = format!("{promised} and {} flows, {packets} packets, {spread} {first}: {sent:?}", others.len());
            assert!(least >= 140 && most <= 160, "{case}");
            // No flow with a minimum gets less than that.
            let due = 150 * others.len() as u64 / promised;
            assert!(sent[..promised as usize].iter().all(|sent| *sent + 6 >= due), "{due}: {case}");
        }
    }
}

#[test]
fn without_borrowing_the_rest_stays_unused() {
    let shaper = Fbc::new(
        FbcParams::new(Rate::from_mbit(80)),
        vec![ClassParams::new(Rate::from_mbit(10)), ClassParams::new(Rate::from_mbit(30))],
        vec![],
        start(),
    )
    .unwrap();
    let mut bench = Bench::new(shaper);
    bench.greedy(&[(0, 0, 0, 1_400)], start() + Span::from_secs(1));
    let total: u64 = bench.sent.iter().map(|(_, p)| p.size.as_u64()).sum();
    assert!(total <= 1_250_000 + 3_028, "{total}");
}

#[test]
fn displacement_moves_the_queue_in_order_and_comes_back() {
    let class = |mbit, dscp| ClassParams { dscp: Some(dscp), ..ClassParams::new(Rate::from_mbit(mbit)) };
    let af = Dscp::assured(1, 1).unwrap();
    let profiles = vec![
        Profile::default(),
        Profile { displace: Some(Displace { below: Rate::from_mbit(3), to: 1 }), ..Profile::default() },
    ];
    let params = FbcParams { idle_timeout: Span::from_millis(500), ..FbcParams::new(Rate::from_mbit(50)) };
    let classes = vec![class(10, af), class(40, Dscp::BEST_EFFORT)];
    let mut bench = Bench::new(Fbc::new(params, classes, profiles, start()).unwrap());
    let video = (7, 0, 1, 1_000);
    let others: Vec<_> = (0..4).map(|n| (n, 0, 0, 1_000)).collect();
    let second = |n| start() + Span::from_secs(n);
    bench.greedy(&[video], second(1));
    assert_eq!(bench.shaper.flow(7).unwrap().class, ClassId(0));
    // Four more flows: 2 Mbit/s each would be below the threshold of 3.
    let all: Vec<_> = others.iter().copied().chain([video]).collect();
    bench.greedy(&all, second(2));
    let view = bench.shaper.flow(7).unwrap();
    assert_eq!((view.class, view.home), (ClassId(1), ClassId(0)));
    assert!(bench.events.0.contains(&Event::Moved { flow: 7, from: ClassId(0), to: ClassId(1) }));
    // The others end; their records expire; there is enough rate again.
    bench.greedy(&[video], second(5));
    assert_eq!(bench.shaper.flow(7).unwrap().class, ClassId(0));
    let video_sent: Vec<_> = bench.sent.iter().filter(|(_, p)| p.flow.flow == 7).collect();
    assert!(video_sent.windows(2).all(|pair| pair[0].1.id < pair[1].1.id), "reordered");
    for dscp in [af, Dscp::BEST_EFFORT] {
        assert!(video_sent.iter().any(|(_, p)| p.dscp == dscp), "{dscp:?} never seen");
    }
    let moves = bench.events.0.iter().filter(|event| matches!(event, Event::Moved { .. })).count();
    assert_eq!(moves, 2, "one move there and one back");
}

#[test]
fn minimums_wait_and_are_granted_on_release() {
    let mut bench = Bench::new(one_class(Rate::from_mbit(10), Spare::Shared));
    for flow in 0..3 {
        bench.put(flow, 0, 1, 1_000);
    }
    let granted = |bench: &Bench| (0..3).map(|n| bench.shaper.flow(n).unwrap().granted).collect::<Vec<_>>();
    assert_eq!(granted(&bench), [true, true, false]);
    assert_eq!(bench.shaper.set_minimum(bench.now, 1, Rate::ZERO), Ok(Promise::Granted));
    bench.put(0, 0, 1, 1_000);
    assert_eq!(granted(&bench), [true, false, true]);
    assert_eq!(
        bench.shaper.set_minimum(bench.now, 1, Rate::from_mbit(3)),
        Ok(Promise::Waiting { free: Rate::from_mbit(2) })
    );
    // Less rate than granted: the youngest minimum waits again.
    assert!(bench.shaper.set_class_rate(bench.now, ClassId(0), Rate::from_mbit(5)));
    assert_eq!(granted(&bench), [true, false, false]);
}

#[test]
fn the_outlook_of_a_flow_counts_those_that_wait() {
    let mut bench = Bench::new(one_class(Rate::from_mbit(12), Spare::Shared));
    let outlook = |bench: &Bench, flow| bench.shaper.outlook(flow, ClassId(0)).unwrap();
    assert_eq!(outlook(&bench, 1), Rate::from_mbit(12));
    // Three flows are present; when their queues are empty, a fourth has the class to itself, with a minimum of 3.
    for flow in 1..=3 {
        bench.put(flow, 0, 0, 1_000);
        bench.put(flow, 0, 0, 1_000);
    }
    assert_eq!([1, 4].map(|flow| outlook(&bench, flow)), [4, 3].map(Rate::from_mbit));
    bench.run_until(start() + Span::from_millis(20));
    assert_eq!([1, 4].map(|flow| outlook(&bench, flow)), [12, 12].map(Rate::from_mbit));
    assert_eq!(bench.shaper.outlook(9, ClassId(7)), None);
}

#[test]
fn feedback_tells_of_both_thresholds_once() {
    let feedback = Feedback { above: Bytes::new(3_000), below: Bytes::new(1_000), mark: Marking::EcnCapable };
    let class = ClassParams { feedback: Some(feedback), ..ClassParams::new(Rate::from_mbit(8)) };
    let mut bench = Bench::new(Fbc::new(FbcParams::new(Rate::from_mbit(8)), vec![class], vec![], start()).unwrap());
    for _ in 0..6 {
        let packet = TestPacket { ecn: tidegate_core::Ecn::Ect0, ..TestPacket::new(bench.next_id, 1, 1_000) };
        bench.next_id += 1;
        bench.shaper.enqueue(bench.now, packet, &mut bench.events);
    }
    bench.run_until(start() + Span::from_millis(20));
    let told: Vec<_> = bench
        .events
        .0
        .iter()
        .filter(|event| matches!(event, Event::QueueAbove { .. } | Event::QueueBelow { .. }))
        .copied()
        .collect();
    assert_eq!(
        told,
        [
            Event::QueueAbove { flow: 1, bytes: Bytes::new(3_000) },
            Event::QueueBelow { flow: 1, bytes: Bytes::new(1_000) }
        ]
    );
    let marked = bench.sent.iter().filter(|(_, p)| p.ecn == tidegate_core::Ecn::Ce).map(|(_, p)| p.id);
    assert_eq!(marked.collect::<Vec<_>>(), [3, 4, 5], "the fourth to the sixth arrive above the threshold");
    assert_eq!(bench.shaper.flow(1).unwrap().counts.marked, 3);
}

#[test]
fn a_flow_that_the_classifier_moves_keeps_its_order() {
    let classes = vec![ClassParams::new(Rate::from_mbit(1)), ClassParams::new(Rate::from_mbit(20))];
    let mut bench = Bench::new(Fbc::new(FbcParams::new(Rate::from_mbit(21)), classes, vec![], start()).unwrap());
    for n in 0..40 {
        bench.put(5, u32::from(n >= 20), 0, 1_000);
    }
    bench.run_until(start() + Span::from_secs(1));
    let ids: Vec<_> = bench.sent.iter().map(|(_, p)| p.id).collect();
    assert_eq!(ids, (0..40).collect::<Vec<_>>());
}
