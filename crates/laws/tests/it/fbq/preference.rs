//! Preference: who gets what, whichever flows come and go.

use super::*;

/// A shaper whose flows change their preference while packets arrive.
struct Preferring(Shaper);

impl Qdisc<TestPacket> for Preferring {
    fn enqueue(&mut self, now: Instant, packet: TestPacket, out: &mut dyn Outlet<TestPacket>) -> Queued {
        if packet.id.is_multiple_of(8) {
            let _ = self.0.prefer(now, packet.flow.flow, (packet.id / 8 % 6) as u32);
        }
        self.0.enqueue(now, packet, out)
    }
    fn dequeue(&mut self, now: Instant, out: &mut dyn Outlet<TestPacket>) -> Option<TestPacket> {
        self.0.dequeue(now, out)
    }
    fn deadline(&self, now: Instant) -> tidegate_core::Deadline {
        self.0.deadline(now)
    }
    fn backlog(&self) -> tidegate_core::qdisc::Backlog {
        self.0.backlog()
    }
}

#[test]
fn obeys_the_laws_while_flows_are_preferred() {
    let few = Shape { flows: 4, enqueues: 60, ..Shape::default() };
    let many = Shape { flows: 200, longest_wait: Span::from_millis(400), enqueues: 140, ..Shape::default() };
    for (spare, borrow) in [(Spare::Shared, Borrow::FromOthers), (Spare::Idle, Borrow::Never)] {
        for shape in [few, many] {
            let make = || Accounted::new(Preferring(paper(spare, borrow, Span::ZERO)));
            let report = check_seeds(make, &shape, share(24), 2_000);
            assert!(report.dequeued > share(5_000) && report.deadlines > share(1_000), "{report:?}");
        }
    }
}

#[test]
fn preference_changes_who_gets_what_within_one_packet_time() {
    let mut bench = Bench::new(one_class(Rate::from_mbit(12), Spare::Shared));
    let flows: Vec<_> = (0..3).map(|n| (n, 0, 0, 1_000)).collect();
    let second = |n| start() + Span::from_secs(n);
    bench.greedy(&flows, second(1));
    bench.shaper.prefer(bench.now, 1, 2).unwrap();
    bench.greedy(&flows, second(2));
    bench.shaper.prefer(bench.now, 1, 0).unwrap();
    bench.greedy(&flows, second(3));
    let share = |from: u64| {
        let sums = bench.bytes_by_flow(second(from), second(from + 1));
        sums[&1] as f64 / sums.values().sum::<u64>() as f64
    };
    // 1/3; then 1/3 + 2 * 1/10; then 1/3 again.
    for (from, expected) in [(0, 0.3333), (1, 0.5333), (2, 0.3333)] {
        assert!((share(from) - expected).abs() < 0.005, "{} in second {from}", share(from));
    }
}

#[test]
fn preference_given_alone_holds_when_others_come_and_go() {
    for spare in [Spare::Shared, Spare::Idle] {
        let class = ClassParams {
            spare,
            limit: Bytes::new(10_000_000),
            flow_limit: Bytes::MAX,
            ..ClassParams::new(kbit(12_000))
        };
        let params = FbcParams { idle_timeout: Span::from_millis(200), ..FbcParams::new(kbit(12_000)) };
        let mut bench = Bench::new(Fbc::new(params, vec![class], vec![], start()).unwrap());
        let second = |n| start() + Span::from_secs(n);
        let flows: Vec<_> = (0..5).map(|n| (n, 0, 0, 1_000)).collect();
        bench.greedy(&flows[..1], second(1));
        bench.shaper.prefer(bench.now, 0, 2).unwrap();
        // Alone; with one more: 1/2 + 2/10; with four: 1/5 + 2/10; with two again: 1/3 + 2/10.
        for (n, others, share) in [(1, 0, 1.0), (2, 1, 0.7), (3, 4, 0.4), (4, 2, 0.5333)] {
            bench.greedy(&flows[..=others], second(n) + Span::from_millis(300));
            let from = bench.now;
            let rate = bench.shaper.flow(0).unwrap().rate.as_bps() as f64 / 12e6;
            assert!((rate - share).abs() < 0.001, "{rate} with {others} others under {spare:?}");
            bench.greedy(&flows[..=others], second(n + 1));
            let sums = bench.bytes_by_flow(from, bench.now);
            let got = sums[&0] as f64 / sums.values().sum::<u64>() as f64;
            assert!((got - share).abs() < 0.01, "{got} with {others} others under {spare:?}");
        }
    }
}

/// The rate of each flow by the definition: its share without preference, by bisection, and its part of the class;
/// scaled down above the minimums where that exceeds what is free; the others share the rest, by bisection too.
fn by_definition(rate: f64, increment: f64, flows: &[FlowView], weight: impl Fn(&FlowView) -> f64) -> Vec<f64> {
    let minimum = |flow: &FlowView| if flow.granted { flow.minimum.as_bps() as f64 } else { 0.0 };
    let fill = |rate: f64, flows: &[&FlowView]| {
        let (mut low, mut high) = (0.0, rate);
        for _ in 0..200 {
            let middle = (low + high) / 2.0;
            let sum: f64 = flows.iter().map(|flow| minimum(flow).max(middle * weight(flow))).sum();
            if sum > rate { high = middle } else { low = middle }
        }
        low
    };
    let all: Vec<&FlowView> = flows.iter().collect();
    let others: Vec<&FlowView> = flows.iter().filter(|flow| flow.preferred == 0).collect();
    let plain = fill(rate, &all);
    let wants = |flow: &FlowView| {
        minimum(flow).max(plain * weight(flow)) - minimum(flow)
            + rate * (increment * f64::from(flow.preferred)).min(1.0)
    };
    let preferred = || flows.iter().filter(|flow| flow.preferred > 0);
    let free = rate - flows.iter().map(minimum).sum::<f64>();
    let wanted: f64 = preferred().map(wants).sum();
    let scale = if wanted > free { free / wanted } else { 1.0 };
    let granted = |flow: &FlowView| minimum(flow) + scale * wants(flow);
    let common = fill(rate - preferred().map(granted).sum::<f64>(), &others);
    let others = |flow: &FlowView| minimum(flow).max(common * weight(flow));
    flows.iter().map(|flow| if flow.preferred > 0 { granted(flow) } else { others(flow) }).collect()
}

#[test]
fn preference_agrees_with_its_definition_whatever_happens() {
    let (mut compared, mut scarce) = (0, 0);
    for (seed, spare) in (0..40).zip([Spare::Shared, Spare::Idle].into_iter().cycle()) {
        let mut random = Stream::named(seed, "preference");
        let class =
            |mbit| ClassParams { spare, increment: (1_u64 << 32) / 10, ..ClassParams::new(Rate::from_mbit(mbit)) };
        let profiles = vec![
            Profile::default(),
            Profile { minimum: kbit(700), ..Profile::default() },
            Profile { weight: 3 * WEIGHT_ONE, ..Profile::default() },
        ];
        let params = FbcParams { idle_timeout: Span::from_millis(40), ..FbcParams::new(Rate::from_mbit(100)) };
        let mut shaper: Shaper = Fbc::new(params, vec![class(10), class(20)], profiles, start()).unwrap();
        let mut now = start();
        for id in 0..600 {
            now += Span::from_micros(random.below(4_000));
            let flow = random.below(14);
            let in_class = flow as u32 % 2;
            match random.below(10) {
                0 => drop(shaper.prefer(now, flow, random.below(9) as u32)),
                1 => drop(shaper.set_minimum(now, flow, kbit(random.below(3) * 900))),
                2 => {
                    let terms =
                        Terms { steps: random.below(4) as u32, minimum: kbit(random.below(2) * 400), displace: None };
                    shaper.expect(
                        now,
                        tidegate_core::FlowKey::numbered(flow),
                        ClassId(in_class),
                        0,
                        terms,
                        &mut Discard,
                    );
                }
                3 => {
                    let rate = Rate::from_mbit(5 + random.below(30));
                    shaper.set_class_rate(now, ClassId(in_class), rate);
                }
                _ => {
                    let packet = TestPacket::new(id, flow, 1_000).in_class(in_class).with_profile(flow as u32 % 3);
                    shaper.enqueue(now, packet, &mut Discard);
                }
            }
            while shaper.dequeue(now, &mut Discard).is_some() {}
            // A packet in each class recomputes four flows, and there are up to seven of them.
            for class in [0, 0, 0, 1, 1, 1_u32] {
                let packet = TestPacket::new(id, u64::from(class) + 100, 40).in_class(class);
                shaper.enqueue(now, packet, &mut Discard);
            }
            for class in 0..2 {
                let flows: Vec<FlowView> = shaper.flows().filter(|flow| flow.class == ClassId(class)).collect();
                let rate = shaper.class(ClassId(class)).unwrap().rate.as_bps() as f64;
                let weight = |flow: &FlowView| if flow.profile == 2 { 3.0 } else { 1.0 };
                let wanted = by_definition(rate, 0.1, &flows, weight);
                scarce += u32::from(flows.iter().map(|flow| flow.preferred).sum::<u32>() > 8);
                for (flow, wanted) in flows.iter().zip(wanted) {
                    let got = flow.rate.as_bps() as f64;
                    assert!((got - wanted).abs() < rate * 1e-4, "seed {seed}: {got} instead of {wanted}: {flows:?}");
                    compared += u32::from(flow.preferred > 0);
                }
            }
        }
    }
    assert!(compared > 20_000 && scarce > 1_000, "{compared}, {scarce}");
}
