//! CBQ against a slow oracle written from the 1995 paper: the credit of every class is kept separately, and every
//! rule is evaluated by a walk over the whole tree. Also small cases whose order was worked out by hand.

mod oracle;

use std::collections::BTreeMap;

use oracle::random_tree;
use tidegate_core::cbq::{
    Cbq, Class, Conserving, General, Heuristic, Lead, LinkClock, Params, Regulation, Removal, Sharing, TreeError,
};
use tidegate_core::fifo::{Fifo, Limit};
use tidegate_core::qdisc::Discard;
use tidegate_core::random::Stream;
use tidegate_core::{Bytes, ClassId, Deadline, DropReason, Instant, Qdisc, Rate, Span};
use tidegate_laws::TestPacket;

const ROOT: ClassId = ClassId(0);
const MTU: u64 = 1_000;

fn fifo() -> Box<dyn Qdisc<TestPacket>> {
    Box::new(Fifo::new(Limit::packets(40)))
}

#[test]
fn who_may_send_is_as_the_guidelines_say() {
    let mut sent = 0_u64;
    let mut borrowed = 0_u64;
    let mut idle = 0_u64;
    for sharing in [
        Sharing::Formal,
        Sharing::AncestorOnly,
        Sharing::TopLevel(Heuristic::Floyd1995),
        Sharing::TopLevel(Heuristic::Altq),
    ] {
        for seed in 0..120 {
            let mut random = Stream::named(seed, "guidelines");
            let params = Params {
                sharing,
                conserving: Conserving::Strict,
                root_burst: 1,
                lead: Lead::Unbounded,
                ..Params::new(Rate::from_mbit(8), Bytes::new(MTU), ROOT)
            };
            let (mut tree, mut oracle) = random_tree(&mut random, params);
            let leaves: Vec<u32> = oracle.classes.iter().filter(|(_, known)| known.leaf).map(|(&id, _)| id).collect();
            if leaves.is_empty() {
                continue;
            }
            let mut now = 0_u64;
            for id in 0..600 {
                let at = Instant::from_nanos(now);
                if random.below(5) < 2 {
                    let class = leaves[random.below(leaves.len() as u64) as usize];
                    if oracle.classes[&class].backlog < 40 {
                        let size = 1 + random.below(MTU);
                        tree.enqueue(at, TestPacket::new(id, u64::from(class), size).in_class(class), &mut Discard);
                        oracle.arrives(class, now);
                    }
                    continue;
                }
                let expected = match oracle.next() {
                    None => Deadline::Idle,
                    Some(until) => Deadline::at(Instant::from_nanos(until), at),
                };
                assert_eq!(tree.deadline(at), expected, "{sharing:?} seed {seed} step {id}");
                let may = oracle.candidates(now);
                let lenders: BTreeMap<u32, Option<u32>> = may.iter().map(|&l| (l, oracle.lender(l, now))).collect();
                match tree.dequeue(at, &mut Discard) {
                    None => {
                        assert!(may.is_empty(), "{sharing:?} seed {seed} step {id}: {may:?} might have sent");
                        idle += 1;
                    }
                    Some(packet) => {
                        let class = packet.class.0;
                        assert!(may.contains(&class), "{sharing:?} seed {seed} step {id}: {class} not of {may:?}");
                        let priority = |id: &u32| oracle.classes[id].class.priority;
                        assert_eq!(priority(&class), may.iter().map(priority).min().unwrap(), "highest priority");
                        let lender = tree.last_served().unwrap().lender.map(|id| id.0);
                        assert_eq!(lender, lenders[&class], "the lowest class below its limit lends");
                        oracle.leaves(class, packet.size.as_u64(), now);
                        sent += 1;
                        borrowed += u64::from(lender != Some(class));
                    }
                }
                if let Sharing::TopLevel(_) = sharing {
                    assert_eq!(usize::from(tree.top_level()), oracle.top_level, "{sharing:?} seed {seed} step {id}");
                }
                // Mostly the time of a packet on the link, sometimes a long pause.
                let longest = if random.below(10) == 0 { 20_000_000 } else { 1_500_000 };
                now += random.below(longest);
            }
        }
    }
    assert!(sent > 50_000 && borrowed > 5_000 && idle > 5_000, "too few cases: {sent} {borrowed} {idle}");
}

fn params(link: Rate) -> Params {
    Params { conserving: Conserving::Strict, lead: Lead::Unbounded, ..Params::new(link, Bytes::new(MTU), ROOT) }
}

/// Fills every class, serves `n` packets of 1000 B one after the other on the link, and returns their classes.
fn order(tree: &mut Cbq<TestPacket>, classes: &[u32], n: usize) -> Vec<u32> {
    for &class in classes {
        for id in 0..40 {
            tree.enqueue(Instant::ZERO, TestPacket::new(id, u64::from(class), MTU).in_class(class), &mut Discard);
        }
    }
    let packet_time = tree.params().link.time_for_ceil(Bytes::new(MTU)).unwrap();
    let mut now = Instant::ZERO;
    (0..n)
        .map(|_| {
            let packet = loop {
                match tree.dequeue(now, &mut Discard) {
                    Some(packet) => break packet,
                    None => now = tree.deadline(now).instant(now).expect("not idle"),
                }
            };
            now += packet_time;
            packet.class.0
        })
        .collect()
}

#[test]
fn weighted_round_robin_by_hand() {
    // 6 and 2 of 8 Mbit/s: a round is 2 x 1000 B, so 1500 B and 500 B.
    // Class 1: 1500 - 1000 - 1000 = -500, so 1000 in the next round; then 1000 - 1000 = 0, so 1500 in the one after.
    // Class 2: 500 - 1000 = -500: the next round makes it 0 and it is skipped; 500 in the one after.
    let mut tree = Cbq::new(params(Rate::from_mbit(8))).unwrap();
    for (id, rate) in [(1, 6), (2, 2)] {
        let class = Class { max_burst: 256, ..Class::new(Rate::from_mbit(rate)).borrowing() };
        tree.add_leaf(Instant::ZERO, ClassId(id), ROOT, class, fifo()).unwrap();
    }
    assert_eq!(order(&mut tree, &[1, 2], 12), [1, 1, 2, 1, 1, 1, 2, 1, 1, 1, 2, 1]);
}

#[test]
fn packet_round_robin_by_hand() {
    let mut tree = Cbq::new(Params { general: General::PacketRoundRobin, ..params(Rate::from_mbit(8)) }).unwrap();
    for (id, rate) in [(1, 6), (2, 1), (3, 1)] {
        let class = Class { max_burst: 256, ..Class::new(Rate::from_mbit(rate)).borrowing() };
        tree.add_leaf(Instant::ZERO, ClassId(id), ROOT, class, fifo()).unwrap();
    }
    assert_eq!(order(&mut tree, &[1, 2, 3], 7), [1, 2, 3, 1, 2, 3, 1]);
}

#[test]
fn a_class_over_its_limit_waits_by_hand() {
    // Class 1 of priority 0 has 2 of 8 Mbit/s, a burst of one packet, and does not borrow; 1000 B take 1 ms on the
    // link and 4 ms at its rate. At 0 it sends: credit 1000 - 1000 = 0, not over. At 1 ms it has 250 B, sends again,
    // and owes 750 B, paid at 1 + 3 = 4 ms. Class 2 has the rest, and has the link at 2 and 3 ms. At 4 ms class 1
    // sends and owes 1000 B until 8 ms; and so on every 4 ms.
    let mut tree = Cbq::new(params(Rate::from_mbit(8))).unwrap();
    let class = Class { max_burst: 1, min_burst: 1, ..Class::new(Rate::from_mbit(2)).with_priority(0) };
    tree.add_leaf(Instant::ZERO, ClassId(1), ROOT, class, fifo()).unwrap();
    tree.add_leaf(Instant::ZERO, ClassId(2), ROOT, Class::new(Rate::from_mbit(6)), fifo()).unwrap();
    assert_eq!(order(&mut tree, &[1, 2], 12), [1, 1, 2, 2, 1, 2, 2, 2, 1, 2, 2, 2]);
}

#[test]
fn the_three_guidelines_differ_in_who_borrows() {
    // Agency 10 has a video class 11 of priority 0, agency 20 a data class 21 of priority 1; half of the link each.
    // Class 11 has used its allocation: it is over limit, agency 10 is not, because its other class 12 was idle.
    // Class 21 is below its limit and backlogged.
    let who = |sharing: Sharing| {
        let mut tree = Cbq::new(Params { sharing, ..params(Rate::from_mbit(8)) }).unwrap();
        let zero = Instant::ZERO;
        let small = |n| Class { max_burst: 1, min_burst: 1, ..Class::new(Rate::from_mbit(n)).borrowing() };
        let large = |n| Class::new(Rate::from_mbit(n)).borrowing();
        tree.add_inner(zero, ClassId(10), ROOT, large(4)).unwrap();
        tree.add_inner(zero, ClassId(20), ROOT, large(4)).unwrap();
        tree.add_leaf(zero, ClassId(11), ClassId(10), small(2).with_priority(0), fifo()).unwrap();
        tree.add_leaf(zero, ClassId(12), ClassId(10), large(2), fifo()).unwrap();
        tree.add_leaf(zero, ClassId(21), ClassId(20), large(4), fifo()).unwrap();
        for id in 0..5 {
            tree.enqueue(zero, TestPacket::new(id, 11, MTU).in_class(11), &mut Discard);
        }
        // Two packets at once put class 11 over its limit (1000 B of credit).
        for _ in 0..2 {
            assert_eq!(tree.dequeue(zero, &mut Discard).unwrap().class.0, 11);
        }
        tree.enqueue(zero, TestPacket::new(9, 21, MTU).in_class(21), &mut Discard);
        let first = tree.dequeue(zero, &mut Discard).unwrap().class.0;
        let lender = tree.last_served().unwrap().lender.unwrap().0;
        let second = tree.dequeue(zero, &mut Discard).unwrap().class.0;
        (first, lender, second, tree.last_served().unwrap().lender.unwrap().0)
    };
    // Formal: class 21 is unsatisfied, so no class may borrow; 21 sends, and then 11 borrows from its agency.
    assert_eq!(who(Sharing::Formal), (21, 21, 11, 10));
    // Ancestor-only: class 11 has the higher priority and borrows although 21 is unsatisfied.
    assert_eq!(who(Sharing::AncestorOnly), (11, 10, 11, 10));
    // Top-level: the arrival for class 21, below its limit, sets the level to 1: as formal, for another reason.
    assert_eq!(who(Sharing::TopLevel(Heuristic::Floyd1995)), (21, 21, 11, 10));
    assert_eq!(who(Sharing::TopLevel(Heuristic::Altq)), (21, 21, 11, 10));
}

#[test]
fn suspension_sleeps_or_not() {
    // Class 1 (1 of 8 Mbit/s) borrows until the root is over limit, too. The root is below it again after the time of
    // a packet on the link, the class only after eight times as long.
    let next = |regulation| {
        let mut tree = Cbq::new(Params { regulation, root_burst: 1, ..params(Rate::from_mbit(8)) }).unwrap();
        let class = Class { max_burst: 1, min_burst: 1, ..Class::new(Rate::from_mbit(1)).borrowing() };
        tree.add_leaf(Instant::ZERO, ClassId(1), ROOT, class, fifo()).unwrap();
        for id in 0..5 {
            tree.enqueue(Instant::ZERO, TestPacket::new(id, 1, MTU).in_class(1), &mut Discard);
        }
        while tree.dequeue(Instant::ZERO, &mut Discard).is_some() {}
        tree.deadline(Instant::ZERO)
    };
    // Root: 1000 B of credit, two packets sent, 1000 B owed, 1 ms. Class: 1000 B owed, 8 ms.
    assert_eq!(next(Regulation::Recheck), Deadline::At(Instant::from_nanos(1_000_000)));
    assert_eq!(next(Regulation::Sleep), Deadline::At(Instant::from_nanos(8_000_000)));
}

#[test]
fn work_is_conserved_with_and_without_filling_buffers() {
    // One class of 1 of 8 Mbit/s that borrows; the root has no burst.
    let at_once = |conserving| {
        let params = Params {
            conserving,
            root_burst: 1,
            link_clock: LinkClock::Clamp(Span::from_secs(1)),
            ..params(Rate::from_mbit(8))
        };
        let mut tree = Cbq::new(params).unwrap();
        let class = Class { max_burst: 1, min_burst: 1, ..Class::new(Rate::from_mbit(1)).borrowing() };
        tree.add_leaf(Instant::ZERO, ClassId(1), ROOT, class, fifo()).unwrap();
        for id in 0..10 {
            tree.enqueue(Instant::ZERO, TestPacket::new(id, 1, MTU).in_class(1), &mut Discard);
        }
        let mut n = 0;
        while tree.dequeue(Instant::ZERO, &mut Discard).is_some() {
            n += 1;
        }
        (n, tree.deadline(Instant::ZERO))
    };
    // `efficient` releases all ten at once. The correction releases two, for which the root has credit, and continues
    // when these have left the link: the root is below its limit again at 1 ms, while the second is being sent.
    assert_eq!(at_once(Conserving::Efficient), (10, Deadline::Idle));
    assert_eq!(at_once(Conserving::WhenLinkIdle), (2, Deadline::At(Instant::from_nanos(1_000_000))));
}

#[test]
fn the_lead_bounds_what_waits_in_the_driver() {
    // 1000 B take 1 ms. With a lead of 2.5 ms, packets leave at 0, 0, 0 (with 0, 1 and 2 ms of packets before them),
    // and the fourth when 2.5 ms of these three remain: at 0.5 ms.
    let lead = Lead::Within(Span::from_micros(2_500));
    let mut tree = Cbq::new(Params { lead, ..params(Rate::from_mbit(8)) }).unwrap();
    tree.add_leaf(Instant::ZERO, ClassId(1), ROOT, Class::new(Rate::from_mbit(8)), fifo()).unwrap();
    for id in 0..5 {
        tree.enqueue(Instant::ZERO, TestPacket::new(id, 1, MTU).in_class(1), &mut Discard);
    }
    let at_once = std::iter::from_fn(|| tree.dequeue(Instant::ZERO, &mut Discard)).count();
    assert_eq!((at_once, tree.deadline(Instant::ZERO)), (3, Deadline::At(Instant::from_nanos(500_000))));
}

#[test]
fn small_packets_do_not_slow_a_fast_link_down() {
    // 64 B at 400 Gbit/s take 1.28 ns: a thousand of them 1280 ns, not 2000.
    let link_clock = LinkClock::Clamp(Span::from_secs(1));
    let mut tree = Cbq::new(Params { link_clock, ..params(Rate::from_mbit(400_000)) }).unwrap();
    let class = Class { max_burst: 256, ..Class::new(Rate::from_mbit(400_000)) };
    tree.add_leaf(Instant::ZERO, ClassId(1), ROOT, class, fifo()).unwrap();
    let send = |tree: &mut Cbq<TestPacket>, at: u64, n: u64| {
        for id in 0..n {
            tree.enqueue(Instant::from_nanos(at), TestPacket::new(id, 1, 64).in_class(1), &mut Discard);
            assert!(tree.dequeue(Instant::from_nanos(at), &mut Discard).is_some());
        }
        tree.link_free().as_nanos()
    };
    assert_eq!(send(&mut tree, 0, 1_000), 1_280);
    assert_eq!(send(&mut tree, 0, 1), 1_282, "1281.28, rounded up");
    // The rest of a nanosecond before an idle period is not compensated.
    assert_eq!(send(&mut tree, 10_000, 1), 10_002);
    // 3 x 64 B are 3.84 ns.
    assert_eq!(send(&mut tree, 10_000, 2), 10_004);
}

#[test]
fn a_class_of_another_priority_has_the_turns_of_that() {
    // Among classes 1 and 2 class 1 has 1000 of the 2000 B of a round; among 1 and 3, with 1 Mbit/s, 1500.
    let wide = |n| Class { max_burst: 256, ..Class::new(Rate::from_mbit(n)) };
    let mut tree = Cbq::new(params(Rate::from_mbit(8))).unwrap();
    tree.add_leaf(Instant::ZERO, ClassId(1), ROOT, wide(3), fifo()).unwrap();
    tree.add_leaf(Instant::ZERO, ClassId(2), ROOT, wide(3), fifo()).unwrap();
    tree.add_leaf(Instant::ZERO, ClassId(3), ROOT, wide(1).with_priority(2), fifo()).unwrap();
    assert_eq!(order(&mut tree, &[1], 1), [1]);
    tree.change(Instant::ZERO, ClassId(1), wide(3).with_priority(2)).unwrap();
    let sent = order(&mut tree, &[1, 3], 40);
    let of_1 = sent.iter().filter(|&&class| class == 1).count();
    assert!((29..=31).contains(&of_1), "three to one: {sent:?}");
}

#[test]
fn a_class_that_is_changed_does_not_sit_out_the_turns_of_what_it_was() {
    // By turns alone, because no class is ever over limit. Class 1 has 8 kbit/s beside 3 Mbit/s: of a round of 2000 B
    // it may send 5.3, and is skipped for 187 rounds after a packet of 1000 B.
    let wide = |rate| Class { max_burst: 256, ..Class::new(rate) };
    let change = |busy: &[u32], first: &[u32], to: Option<Class>, then: &[u32]| {
        let mut tree = Cbq::new(params(Rate::from_mbit(8))).unwrap();
        let classes = [wide(Rate::from_kbit(8)), wide(Rate::from_mbit(3)), wide(Rate::from_mbit(3)).with_priority(2)];
        for (id, class) in (1..).zip(classes) {
            tree.add_leaf(Instant::ZERO, ClassId(id), ROOT, class, fifo()).unwrap();
        }
        assert_eq!(order(&mut tree, busy, first.len()), first);
        if let Some(class) = to {
            tree.change(Instant::ZERO, ClassId(1), class).unwrap();
        }
        order(&mut tree, then, 10)
    };
    let (rate, with_2) = (Rate::from_mbit(1), [1, 2, 2, 2, 2, 2, 2, 2, 2, 2]);
    assert_eq!(change(&[1, 2], &with_2, None, &[1, 2]), [2; 10]);
    // With 1 Mbit/s it has 500 B a round. In round 4 it still owed 1000 - 5 x 5.3 B, and so has 27 B in round 6; class
    // 2 has one packet left in round 4, two of round 5 (1500 B), and then it is one to three.
    assert_eq!(change(&[1, 2], &with_2, Some(wide(rate)), &[1, 2]), [2, 2, 2, 1, 2, 2, 2, 1, 2, 2]);
    // Alone it passed through two thousand rounds. Among those of another priority, where none was served, it owes
    // its last packet, two rounds, not two thousand.
    assert_eq!(change(&[1], &[1; 12], Some(wide(rate).with_priority(2)), &[1, 3]), [3, 3, 3, 1, 3, 3, 3, 1, 3, 3]);
    // A change that does not affect its turns leaves them as they are.
    let same = wide(Rate::from_kbit(8)).borrowing();
    assert_eq!(change(&[1, 2], &with_2, Some(same), &[1, 2]), [2; 10]);
}

#[test]
fn a_class_with_all_of_a_fast_link_is_not_over_limit_by_a_fraction() {
    // 64 B at 10 Gbit/s take 51.2 ns: 52 for the class, and so for the clock from which its idle time is computed.
    let altq = Params::altq(Rate::from_mbit(10_000), Bytes::new(MTU), ROOT);
    let mut tree = Cbq::new(Params { link_clock: LinkClock::Clamp(Span::from_secs(1)), ..altq }).unwrap();
    tree.add_leaf(Instant::ZERO, ClassId(1), ROOT, Class::new(altq.link).borrowing(), fifo()).unwrap();
    for id in 0..1_000 {
        tree.enqueue(Instant::ZERO, TestPacket::new(id, 1, 64).in_class(1), &mut Discard);
        assert!(tree.dequeue(Instant::ZERO, &mut Discard).is_some(), "packet {id}");
    }
    let over = |id| tree.stats(id).unwrap().overlimit;
    assert_eq!((over(ClassId(1)), over(ROOT), tree.link_free().as_nanos()), (0, 0, 52_000));
}

#[test]
fn lateness_within_the_lead_costs_nobody_anything() {
    // A timer that is 400 us late on a link of 1 Gbit/s, a lead of half a millisecond, and a class that has a tenth
    // of the rate and borrows the rest: the link is never idle.
    let link = Rate::from_mbit(1_000);
    let mut tree = Cbq::new(Params::new(link, Bytes::new(1_500), ROOT)).unwrap();
    let class = Class::new(Rate::from_mbit(100)).borrowing();
    tree.add_leaf(Instant::ZERO, ClassId(1), ROOT, class, fifo()).unwrap();
    let arrive = |tree: &mut Cbq<TestPacket>, now| {
        tree.enqueue(now, TestPacket::new(0, 1, 1_500).in_class(1), &mut Discard);
    };
    let mut now = Instant::ZERO + Span::from_secs(1);
    let (end, mut line_free) = (now + Span::from_millis(50), now);
    arrive(&mut tree, now);
    while now < end {
        assert!(now <= line_free, "the link was idle for {:?}", now.since(line_free));
        while tree.dequeue(now, &mut Discard).is_some() {
            line_free += link.time_for_ceil(Bytes::new(1_500)).unwrap();
            arrive(&mut tree, now);
        }
        now = tree.deadline(now).instant(now).unwrap() + Span::from_micros(400);
    }
}

#[test]
fn the_lead_holds_whatever_the_clock_may_lead_by() {
    // Ten classes that were idle may each send 16 packets of 1 ms at once, and the driver takes all. With a lead of
    // 20 ms, 21 leave: the last with 20 ms of packets before it.
    let at_once = |most| {
        let lead = Lead::Within(Span::from_millis(20));
        let link_clock = LinkClock::Clamp(Span::from_millis(most));
        let mut tree = Cbq::new(Params { lead, link_clock, ..params(Rate::from_mbit(8)) }).unwrap();
        for id in 1..=10 {
            tree.add_leaf(Instant::ZERO, ClassId(id), ROOT, Class::new(Rate::from_kbit(800)), fifo()).unwrap();
            for n in 0..16 {
                tree.enqueue(Instant::ZERO, TestPacket::new(n, u64::from(id), MTU).in_class(id), &mut Discard);
            }
        }
        let given = std::iter::from_fn(|| tree.dequeue(Instant::ZERO, &mut Discard)).count();
        (given, tree.deadline(Instant::ZERO))
    };
    let expected = (21, Deadline::At(Instant::from_nanos(1_000_000)));
    assert_eq!([at_once(1_000), at_once(21), at_once(10), at_once(0)], [expected; 4]);
}

#[test]
fn classes_come_change_and_go_without_losing_packets() {
    let zero = Instant::ZERO;
    let mut tree = Cbq::new(params(Rate::from_mbit(8))).unwrap();
    let class = |n| Class::new(Rate::from_mbit(n)).borrowing();
    tree.add_inner(zero, ClassId(10), ROOT, class(5)).unwrap();
    tree.add_leaf(zero, ClassId(1), ClassId(10), class(2), fifo()).unwrap();
    tree.add_leaf(zero, ClassId(2), ROOT, class(3), fifo()).unwrap();
    for id in 0..6 {
        let class = 1 + (id % 2) as u32;
        tree.enqueue(zero, TestPacket::new(id, u64::from(class), MTU).in_class(class), &mut Discard);
    }
    assert_eq!(tree.backlog().packets, 6);

    let refused = tree.add_leaf(zero, ClassId(3), ClassId(10), class(4), fifo()).unwrap_err();
    let free = Rate::from_mbit(3);
    assert_eq!(refused, TreeError::Overcommitted { parent: ClassId(10), free, asked: Rate::from_mbit(4) });
    tree.add_leaf(zero, ClassId(3), ClassId(10), class(3), fifo()).unwrap();
    assert_eq!(tree.add_leaf(zero, ClassId(4), ClassId(3), class(1), fifo()), Err(TreeError::IsLeaf(ClassId(3))));
    assert_eq!(tree.remove(zero, ClassId(10), Removal::Flush, &mut Discard), Err(TreeError::HasChildren(ClassId(10))));

    // A change of priority, borrowing and rate keeps the packets.
    tree.change(zero, ClassId(1), Class::new(Rate::from_mbit(1)).with_priority(5)).unwrap();
    assert_eq!(tree.dequeue(zero, &mut Discard).unwrap().class.0, 2, "priority 1 before 5");

    // Class 1 is removed; its packets move to class 3, in their order.
    tree.remove(zero, ClassId(1), Removal::MoveTo(ClassId(3)), &mut Discard).unwrap();
    assert_eq!(tree.backlog().packets, 5);
    assert_eq!(tree.status(ClassId(3), zero).unwrap().backlog.packets, 3);
    let mut dropped = vec![];
    tree.remove(zero, ClassId(2), Removal::Flush, &mut dropped).unwrap();
    assert!(dropped.len() == 2 && dropped.iter().all(|(_, reason)| *reason == DropReason::Flushed));
    let left: Vec<u64> = std::iter::from_fn(|| tree.dequeue(zero, &mut Discard)).map(|packet| packet.id).collect();
    assert_eq!(left, [0, 2, 4]);
    assert_eq!(tree.backlog().packets, 0);
    let mut dropped = vec![];
    tree.enqueue(zero, TestPacket::new(9, 1, MTU).in_class(1), &mut dropped);
    assert_eq!(dropped[0].1, DropReason::NoClass);
}
