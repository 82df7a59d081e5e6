//! Strict shares of classes that borrow: d(q) is a function of time (5.1), and no flow has more than its share of it.

use super::*;

/// The classes of the paper, all of which borrow with strict shares; buckets of two packets.
fn borrowers(total: u64) -> Shaper {
    let class = |mbit, priority| ClassParams {
        priority,
        spare: Spare::Idle,
        borrow: Borrow::FromOthers,
        limit: Bytes::new(10_000_000),
        flow_limit: Bytes::MAX,
        ..ClassParams::new(Rate::from_mbit(mbit))
    };
    let classes = vec![class(10, 0), class(30, 1), class(40, 2)];
    Fbc::new(FbcParams::new(Rate::from_mbit(total)), classes, vec![], start()).unwrap()
}

fn second(n: u64) -> Instant {
    start() + Span::from_secs(n)
}

/// The rate of a flow in Mbit/s in a second, without its first 20 ms.
fn mbit(bench: &Bench, from: u64, flow: u64) -> f64 {
    let (a, b) = (second(from) + Span::from_millis(20), second(from + 1));
    bench.bytes_by_flow(a, b).get(&flow).copied().unwrap_or(0) as f64 * 8.0 / 0.98 / 1e6
}

#[test]
fn obeys_the_laws_when_they_borrow() {
    assert_laws(Spare::Idle, Borrow::FromOthers);
}

#[test]
fn what_others_leave_is_shared_by_rate_and_the_total_is_kept() {
    // 4 Mbit/s belong to no class.
    let mut bench = Bench::new(borrowers(84));
    bench.greedy(&[(1, 1, 0, 1_400), (2, 2, 0, 1_400)], second(1));
    bench.greedy(&[(0, 0, 0, 1_400), (1, 1, 0, 1_400), (2, 2, 0, 1_400)], second(2));
    bench.greedy(&[(2, 2, 0, 1_400)], second(3));
    // The 14 that nobody uses are split 30:40; then the 4, 10:30:40; then the last class has all.
    for (from, flow, expected) in [(0, 1, 36.0), (0, 2, 48.0), (1, 0, 10.5), (1, 1, 31.5), (1, 2, 42.0), (2, 2, 84.0)] {
        let got = mbit(&bench, from, flow);
        assert!((got - expected).abs() < 0.3, "second {from}, class {flow}: {got} instead of {expected}");
    }
    let sent: Vec<_> = bench.sent.iter().map(|(t, p)| (*t, p.size.as_u64())).collect();
    assert_bounded(&sent, Rate::from_mbit(84), 3_028);
}

#[test]
fn a_flow_has_its_share_of_what_is_borrowed_and_no_more() {
    let mut bench = Bench::new(borrowers(80));
    // Four flows are present in the class, and one of them sends.
    for flow in 0..4 {
        bench.put(flow, 2, 0, 1_400);
    }
    bench.greedy(&[(0, 2, 0, 1_400)], second(1));
    // A quarter of the 80 that the class could have, and not of its own 40; the rest stays unused.
    let got = mbit(&bench, 0, 0);
    assert!((got - 20.0).abs() < 0.2, "{got}");
    // With another class that uses its 30, a quarter of 50.
    bench.greedy(&[(0, 2, 0, 1_400), (9, 1, 0, 1_400)], second(2));
    let (borrowed, got) = (mbit(&bench, 1, 9), mbit(&bench, 1, 0));
    // The 10 of the idle class are split 30:40.
    assert!((borrowed - 34.29).abs() < 0.3 && (got - 45.71 / 4.0).abs() < 0.2, "{borrowed} {got}");
}

#[test]
fn a_lender_that_sends_at_its_rate_waits_for_one_packet() {
    // The lender is of the worst priority, and its queue is empty after each packet.
    let class = |mbit, priority, spare| ClassParams {
        priority,
        spare,
        borrow: if spare == Spare::Idle { Borrow::FromOthers } else { Borrow::Never },
        limit: Bytes::new(10_000_000),
        flow_limit: Bytes::MAX,
        ..ClassParams::new(Rate::from_mbit(mbit))
    };
    let classes = vec![class(4, 0, Spare::Idle), class(4, 1, Spare::Shared)];
    let shaper = Fbc::new(FbcParams::new(Rate::from_mbit(8)), classes, vec![], start()).unwrap();
    let mut bench = Bench::new(shaper);
    let mut arrivals = BTreeMap::new();
    for n in 0..1_000_u64 {
        // Silent in every other of 20 ms, and at 4 Mbit/s otherwise: 1000 B every 2 ms.
        if n / 10 % 2 == 0 {
            arrivals.insert(bench.next_id, bench.now);
            bench.put(7, 1, 0, 1_000);
        }
        let next = bench.now + Span::from_millis(2);
        bench.greedy(&[(0, 0, 0, 1_000), (1, 0, 0, 1_000)], next);
    }
    let mut longest = Span::ZERO;
    for (left, packet) in bench.sent.iter().filter(|(_, packet)| packet.flow.flow == 7) {
        longest = longest.max(left.since(arrivals[&packet.id]));
    }
    // The packet of the other class that is due first, 1 ms on the link, and what the buckets let it have before: two packets
    // of each bucket.
    assert!(longest <= Span::from_millis(4), "{longest:?}");
    let sums = bench.bytes_by_flow(start(), bench.now);
    let borrower = sums[&0] + sums[&1];
    // 2 s at 4 Mbit/s are 1 MB. Half of the time the other 4 Mbit/s are lent, less the 6 ms until the bucket of the
    // lender is full: up to 0.5 MB.
    assert!((1_300_000..=1_510_000).contains(&borrower), "{borrower}");
    // A packet each, and the full bucket with which the first flow of a class begins.
    assert!(sums[&0].abs_diff(sums[&1]) <= 2_000 + 3_028, "{sums:?}");
    let sent: Vec<_> = bench.sent.iter().map(|(t, p)| (*t, p.size.as_u64())).collect();
    assert_bounded(&sent, Rate::from_mbit(8), 3_028);
}

#[test]
fn borrowing_with_strict_shares_begins_and_ends_at_run_time() {
    let mut bench = Bench::new(borrowers(80));
    let total = FbcParams::new(Rate::from_mbit(80));
    let classes = |borrow| {
        let class = |mbit, priority| ClassParams {
            priority,
            spare: Spare::Idle,
            borrow,
            limit: Bytes::new(10_000_000),
            flow_limit: Bytes::MAX,
            ..ClassParams::new(Rate::from_mbit(mbit))
        };
        vec![class(10, 0), class(30, 1), class(40, 2)]
    };
    let greedy = [(2, 2, 0, 1_400), (3, 2, 0, 1_400)];
    bench.greedy(&greedy, second(1));
    bench.shaper.change(second(1), total, &classes(Borrow::Never), vec![]).unwrap();
    bench.greedy(&greedy, second(2));
    bench.shaper.change(second(2), total, &classes(Borrow::FromOthers), vec![]).unwrap();
    bench.greedy(&greedy, second(3));
    assert!(bench.shaper.set_class_rate(second(3), ClassId(2), Rate::from_mbit(20)));
    bench.greedy(&greedy, second(4));
    for (from, expected) in [(0, 40.0), (1, 20.0), (2, 40.0), (3, 40.0)] {
        for flow in [2, 3] {
            let got = mbit(&bench, from, flow);
            assert!((got - expected).abs() < 0.3, "second {from}, flow {flow}: {got} instead of {expected}");
        }
    }
    let sent: Vec<_> = bench.sent.iter().map(|(t, p)| (*t, p.size.as_u64())).collect();
    assert_bounded(&sent, Rate::from_mbit(80), 3_028);
}
