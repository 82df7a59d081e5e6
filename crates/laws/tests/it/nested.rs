//! The laws for classes with a discipline of their own, beside classes of flows.

use tidegate_core::fbq::{Borrow, ClassParams, Fbc, FbcParams};
use tidegate_core::fifo::{Fifo, Limit};
use tidegate_core::nested::Nested;
use tidegate_core::{Accounted, Bytes, Instant, Qdisc, Rate};
use tidegate_laws::{Shape, TestPacket, check_seeds};
use tidegate_testbed::share;

fn nested() -> Accounted<Nested<TestPacket>> {
    let class = |kbit, priority| ClassParams {
        priority,
        borrow: Borrow::FromOthers,
        limit: Bytes::new(30_000),
        ..ClassParams::new(Rate::from_kbit(kbit))
    };
    let fbc = Fbc::new(
        FbcParams::new(Rate::from_kbit(9_001)),
        vec![class(1_003, 0), class(3_001, 1), class(4_007, 2)],
        vec![],
        Instant::ZERO,
    );
    let fifo = || Box::new(Fifo::new(Limit::bytes(Bytes::new(20_000)))) as Box<dyn Qdisc<TestPacket>>;
    Accounted::new(Nested::new(fbc.unwrap(), vec![Some(fifo()), None, Some(fifo())]))
}

#[test]
fn obeys_the_laws() {
    let report = check_seeds(nested, &Shape { flows: 12, ..Shape::default() }, share(520), 2_000);
    assert!(
        report.dropped > share(100) && report.dequeued > share(10_000) && report.deadlines > share(10_000),
        "{report:?}"
    );
}
