//! CBQ obeys the laws in many tree shapes and options, serves the classes that the 1995 paper specifies, and shares
//! by rate.

use tidegate_core::cbq::{
    Accounting, Cbq, Class, Conserving, Derivation, Finish, General, Heuristic, Lead, LinkClock, Params, Regulation,
    Sharing,
};
use tidegate_core::fifo::{Fifo, Limit};
use tidegate_core::{Bytes, ClassId, Instant, Qdisc, Rate, Span};
use tidegate_laws::{Report, Shape, TestPacket, check_seeds};
use tidegate_testbed::share;

const ROOT: ClassId = ClassId(100);

fn fifo() -> Box<dyn Qdisc<TestPacket>> {
    Box::new(Fifo::new(Limit::packets(20)))
}

/// Every combination of the options that affect timing.
fn variants() -> Vec<Params> {
    let link = Rate::from_mbit(10);
    let mtu = Bytes::new(1_514);
    let new = Params::new(link, mtu, ROOT);
    let altq = Params::altq(link, mtu, ROOT);
    vec![
        new,
        Params { sharing: Sharing::AncestorOnly, conserving: Conserving::Strict, ..new },
        Params { sharing: Sharing::TopLevel(Heuristic::Floyd1995), regulation: Regulation::Sleep, ..new },
        Params { general: General::PacketRoundRobin, conserving: Conserving::Efficient, ..new },
        Params { conserving: Conserving::Strict, regulation: Regulation::Sleep, lead: Lead::Unbounded, ..new },
        altq,
        Params { finish: Finish::Actual, lead: Lead::Within(Span::ZERO), ..altq },
        Params { conserving: Conserving::Efficient, ..altq },
        Params { conserving: Conserving::WhenLinkIdle, sharing: Sharing::Formal, ..altq },
        Params { regulation: Regulation::Recheck, sharing: Sharing::AncestorOnly, ..altq },
        Params {
            link_clock: LinkClock::Clamp(Span::ZERO),
            accounting: Accounting::IdleTime { gain: 1, derivation: Derivation::Altq },
            ..altq
        },
    ]
}

fn mbit(n: u64) -> Class {
    Class::new(Rate::from_mbit(n))
}

/// Three leaves under the root, of three priorities; two borrow.
fn flat(params: Params) -> Cbq<TestPacket> {
    let mut tree = Cbq::new(params).expect("valid");
    for (id, rate, priority, borrows) in [(0, 1, 0, true), (1, 3, 1, false), (2, 6, 1, true)] {
        let class = mbit(rate).with_priority(priority);
        let class = if borrows { class.borrowing() } else { class };
        tree.add_leaf(Instant::ZERO, ClassId(id), ROOT, class, fifo()).expect("fits");
    }
    tree
}

/// Two agencies, one three levels deep, with a leaf that stops borrowing half way up, and a full link.
fn deep(params: Params) -> Cbq<TestPacket> {
    let mut tree = Cbq::new(Params { default: Some(ClassId(5)), ..params }).expect("valid");
    let zero = Instant::ZERO;
    tree.add_inner(zero, ClassId(101), ROOT, mbit(7).borrowing()).expect("fits");
    tree.add_inner(zero, ClassId(102), ROOT, mbit(3).borrowing()).expect("fits");
    tree.add_inner(zero, ClassId(103), ClassId(101), mbit(4)).expect("fits");
    tree.add_leaf(zero, ClassId(0), ClassId(103), mbit(1).borrowing(), fifo()).expect("fits");
    tree.add_leaf(zero, ClassId(1), ClassId(103), mbit(3).borrowing().with_priority(0), fifo()).expect("fits");
    tree.add_leaf(zero, ClassId(2), ClassId(101), mbit(3).borrowing(), fifo()).expect("fits");
    tree.add_leaf(zero, ClassId(3), ClassId(102), mbit(1), fifo()).expect("fits");
    tree.add_leaf(zero, ClassId(4), ClassId(102), mbit(1).borrowing(), fifo()).expect("fits");
    tree.add_leaf(zero, ClassId(5), ClassId(102), mbit(1).borrowing().with_priority(7), fifo()).expect("fits");
    tree
}

/// A shaper in a class of a shaper: leaves that delay packets themselves.
fn nested(params: Params) -> Cbq<TestPacket> {
    let mut tree = Cbq::new(params).expect("valid");
    for id in 0..3 {
        let inner = Params { conserving: Conserving::Strict, ..params };
        let queue: Box<dyn Qdisc<TestPacket>> = Box::new(flat(Params { link: Rate::from_mbit(10), ..inner }));
        let class = mbit(3);
        let class = if id == 0 { class } else { class.borrowing() };
        tree.add_leaf(Instant::ZERO, ClassId(id), ROOT, class, queue).expect("fits");
    }
    tree
}

fn obeys(fresh: fn(Params) -> Cbq<TestPacket>, classes: u32) -> Report {
    let shape = Shape { flows: 12, classes, longest_wait: Span::from_millis(20), ..Shape::default() };
    let mut reached = Report::default();
    for params in variants() {
        let report = check_seeds(|| fresh(params), &shape, share(22), 1_500);
        assert!(report.deadlines > 0 || params.conserving == Conserving::Efficient, "{params:?}");
        reached.dropped += report.dropped;
        reached.deadlines += report.deadlines;
        reached.steps += report.steps;
    }
    assert!(
        reached.dropped > share(100) && reached.deadlines > share(1_000),
        "the scripts reach too little: {reached:?}"
    );
    reached
}

#[test]
fn a_flat_tree_obeys_the_laws() {
    obeys(flat, 3);
}

#[test]
fn a_deep_tree_obeys_the_laws() {
    // Class 6 does not exist: it goes to the default class.
    obeys(deep, 7);
}

#[test]
fn shapers_in_classes_obey_the_laws() {
    obeys(nested, 3);
}
