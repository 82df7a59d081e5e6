//! The laws for disciplines of `AnyPacket`; what a discipline changes in an `AnyPacket` is changed in its packet.

use tidegate_core::drr::{self, Drr};
use tidegate_core::fifo::{Fifo, Limit};
use tidegate_core::qdisc::Discard;
use tidegate_core::{
    AnyPacket, AnyQdisc, Backlog, Bytes, ClassId, Colour, Deadline, DropReason, Dscp, Ecn, Instant, Outlet, Packet,
    Qdisc, Queued,
};
use tidegate_laws::{Shape, TestPacket, check_seeds};
use tidegate_testbed::share;

#[test]
fn any_qdisc_obeys_the_laws_that_hold_inside() {
    let limit = Limit { packets: 20, bytes: Bytes::new(12_000) };
    let report =
        check_seeds(|| AnyQdisc::<TestPacket>::new(Box::new(Fifo::new(limit))), &Shape::default(), share(250), 2_000);
    assert!(report.dropped > share(1_000) && report.dequeued > share(10_000), "{report:?}");
    let drr = || Drr::<AnyPacket>::new(drr::Params { limit, ..drr::Params::default() }).expect("valid parameters");
    let report = check_seeds(|| AnyQdisc::<TestPacket>::new(Box::new(drr())), &Shape::default(), share(250), 2_000);
    assert!(report.dropped > share(1_000) && report.dequeued > share(10_000), "{report:?}");
}

/// Changes everything in each packet that can be changed; drops every third.
struct Meddler {
    inner: Fifo<AnyPacket>,
    count: u64,
}

impl Qdisc<AnyPacket> for Meddler {
    fn enqueue(&mut self, now: Instant, mut erased: AnyPacket, out: &mut dyn Outlet<AnyPacket>) -> Queued {
        self.count += 1;
        erased.set_dscp(Dscp::EF);
        erased.set_colour(Colour::Red);
        erased.mark_ce();
        erased.leaves_by(ClassId(2));
        if self.count.is_multiple_of(3) {
            out.refused(erased, DropReason::Early)
        } else {
            self.inner.enqueue(now, erased, out)
        }
    }
    fn dequeue(&mut self, now: Instant, out: &mut dyn Outlet<AnyPacket>) -> Option<AnyPacket> {
        self.inner.dequeue(now, out)
    }
    fn deadline(&self, now: Instant) -> Deadline {
        self.inner.deadline(now)
    }
    fn backlog(&self) -> Backlog {
        self.inner.backlog()
    }
}

#[test]
fn changes_reach_the_packet_that_leaves_and_the_one_that_is_dropped() {
    let mut queue = AnyQdisc::new(Box::new(Meddler { inner: Fifo::new(Limit::NONE), count: 0 }));
    let now = Instant::ZERO;
    let mut dropped: Vec<(TestPacket, DropReason)> = Vec::new();
    for id in 0..3 {
        // The second is not ECN-capable and must not be marked.
        let ecn = if id == 1 { Ecn::NotEct } else { Ecn::Ect0 };
        queue.enqueue(now, TestPacket { ecn, ..TestPacket::new(id, id, 100 + id) }, &mut dropped);
    }
    let first = queue.dequeue(now, &mut Discard).expect("the first waits");
    assert_eq!(
        (first.id, first.size, first.dscp, first.colour, first.ecn),
        (0, Bytes::new(100), Dscp::EF, Colour::Red, Ecn::Ce)
    );
    let second = queue.dequeue(now, &mut Discard).expect("the second waits");
    assert_eq!((second.id, second.ecn), (1, Ecn::NotEct));
    assert!(queue.dequeue(now, &mut Discard).is_none());
    let (third, reason) = dropped.pop().expect("the third was dropped");
    assert_eq!((third.id, third.ecn, reason), (2, Ecn::Ce, DropReason::Early));
}
