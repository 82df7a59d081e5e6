//! A packet through CBQ, enqueued and dequeued, compared with FIFO, by the number of classes and by depth. These
//! are the easy cases: classes take turns, and packets have one size. `arrivals` has random ones.

use std::hint::black_box;

use tidegate_benches::Harness;
use tidegate_core::cbq::{Cbq, Class, Params};
use tidegate_core::fifo::{Fifo, Limit};
use tidegate_core::qdisc::Discard;
use tidegate_core::{Bytes, ClassId, FlowKey, Instant, Packet, Qdisc, Rate, Span};

#[derive(Clone, Copy)]
struct P(u32);

impl Packet for P {
    fn size(&self) -> Bytes {
        Bytes::new(60)
    }
    fn flow(&self) -> FlowKey {
        FlowKey::numbered(u64::from(self.0))
    }
    fn class(&self) -> ClassId {
        ClassId(self.0)
    }
}

const ROOT: ClassId = ClassId(1 << 19);

fn queue() -> Fifo<P> {
    Fifo::new(Limit::packets(64))
}

fn params() -> Params {
    Params::new(Rate::from_mbit(10_000), Bytes::new(1_500), ROOT)
}

fn flat(classes: u32) -> Cbq<P, Fifo<P>> {
    let mut tree = Cbq::new(params()).expect("valid");
    for id in 0..classes {
        let class = Class::new(Rate::from_bps(10_000_000_000 / u64::from(classes))).borrowing();
        tree.add_leaf(Instant::ZERO, ClassId(id), ROOT, class, queue()).expect("fits");
    }
    tree
}

/// Two leaves under a chain of inner classes: `depth` classes on the path, the root included.
fn deep(depth: u32) -> Cbq<P, Fifo<P>> {
    let mut tree = Cbq::new(params()).expect("valid");
    let mut parent = ROOT;
    for n in 1..depth {
        let id = ClassId(100 + n);
        tree.add_inner(Instant::ZERO, id, parent, Class::new(Rate::from_mbit(10_000)).borrowing()).expect("fits");
        parent = id;
    }
    for id in 0..2 {
        let class = Class::new(Rate::from_mbit(5_000)).borrowing();
        tree.add_leaf(Instant::ZERO, ClassId(id), parent, class, queue()).expect("fits");
    }
    tree
}

/// One packet in and one out, `step` after the previous, with some queued.
fn pass(qdisc: &mut impl Qdisc<P>, now: &mut Instant, class: u32, step: Span) {
    *now += step;
    qdisc.enqueue(*now, P(class), &mut Discard);
    black_box(qdisc.dequeue(*now, &mut Discard));
}

fn main() {
    // Slow enough for the smallest class to stay below its limit, and so fast that every class is over it and borrows.
    let (below, over) = (Span::from_millis(5), Span::from_nanos(60));
    let mut harness = Harness::from_args();
    harness.case("fifo", 1, || {
        let (mut fifo, mut now) = (queue(), Instant::ZERO);
        move || pass(&mut fifo, &mut now, 0, below)
    });
    for classes in [1, 10, 100, 1_000, 10_000] {
        harness.case(&format!("one flow, classes/{classes}"), 1, || {
            let (mut tree, mut now) = (flat(classes), Instant::ZERO);
            move || pass(&mut tree, &mut now, 0, below)
        });
        harness.case(&format!("all classes busy/{classes}"), 1, || {
            let (mut tree, mut now, mut next) = (flat(classes), Instant::ZERO, 0);
            for class in 0..2 * classes {
                tree.enqueue(now, P(class % classes), &mut Discard);
            }
            move || {
                next = (next + 1) % classes;
                pass(&mut tree, &mut now, next, over);
            }
        });
    }
    harness.against("all classes busy/10000", "all classes busy/10");
    for depth in 1..=8 {
        harness.case(&format!("depth/{depth}"), 1, || {
            let (mut tree, mut now, mut next) = (deep(depth), Instant::ZERO, 0);
            move || {
                next ^= 1;
                pass(&mut tree, &mut now, next, over);
            }
        });
    }
}
