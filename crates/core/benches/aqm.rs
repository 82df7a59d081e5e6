//! The cost of a packet in AQM and fair queueing disciplines, by the number of flows: one enqueue and one dequeue,
//! with 1,000 packets queued, flows drawn at random.

use std::hint::black_box;

use tidegate_benches::Harness;
use tidegate_core::aqm::AqmFifo;
use tidegate_core::ared::{self, Ared};
use tidegate_core::cake::{self, Cake};
use tidegate_core::codel::{self, CoDel};
use tidegate_core::drr::{self, Drr};
use tidegate_core::dualpi2::{self, DualPi2};
use tidegate_core::fifo::{Fifo, Limit};
use tidegate_core::flow_table;
use tidegate_core::fq_codel::{self, FqCodel};
use tidegate_core::ingress::{self, Ingress};
use tidegate_core::mered::{self, Mered};
use tidegate_core::meredt::{self, Meredt};
use tidegate_core::pie::{self, Pie};
use tidegate_core::qdisc::Discard;
use tidegate_core::random::Stream;
use tidegate_core::red::Red;
use tidegate_core::sfq::{self, Sfq};
use tidegate_core::{AnyQdisc, Bytes, FlowKey, Instant, Packet, Qdisc, Rate, Span};

#[derive(Clone, Copy)]
struct P(u64);

impl Packet for P {
    fn size(&self) -> Bytes {
        Bytes::new(1_000)
    }
    fn flow(&self) -> FlowKey {
        FlowKey { flow: self.0, source: self.0 >> 4, destination: self.0 >> 8 }
    }
}

/// One of each for 10 Gbit/s with limits of 2,000 packets. A round leaves as many packets queued as before it, so no
/// limit is reached.
fn disciplines() -> Vec<(&'static str, Box<dyn Qdisc<P>>)> {
    let link = Rate::from_mbit(10_000);
    let limit = Limit::packets(2_000);
    let codel = codel::Params { limit, ..codel::Params::default() };
    let red = Red::new(ared::Params::for_link(link).red().unwrap(), 1, "red").unwrap();
    let mered = mered::Params { limit, ..mered::Params::for_link(link) };
    let meredt = meredt::Params { limit, ..meredt::Params::for_link(link) };
    // Records for every flow: the cost of eviction, and of a larger table.
    let table = flow_table::Params { capacity: 1 << 20, ..mered.table };
    let mered_1m = mered::Params { table, ..mered };
    vec![
        ("fifo", Box::new(Fifo::new(limit))),
        // The cost of a discipline of another crate, whose packets are stored separately.
        ("fifo_any_packet", Box::new(AnyQdisc::new(Box::new(Fifo::new(limit))))),
        ("red", Box::new(AqmFifo::new(limit, red))),
        ("ared", Box::new(AqmFifo::new(limit, Ared::new(ared::Params::for_link(link), 1, "ared").unwrap()))),
        ("pie", Box::new(Pie::new(pie::Params { limit, ..pie::Params::default() }, 1, "pie").unwrap())),
        ("codel", Box::new(CoDel::new(codel).unwrap())),
        ("drr", Box::new(Drr::new(drr::Params { limit, ..drr::Params::default() }).unwrap())),
        ("dualpi2", Box::new(DualPi2::new(dualpi2::Params { limit, ..dualpi2::Params::default() }).unwrap())),
        ("sfq", Box::new(Sfq::new(sfq::Params { limit, ..sfq::Params::default() }).unwrap())),
        ("fq_codel", Box::new(FqCodel::new(fq_codel::Params { codel, ..fq_codel::Params::default() }).unwrap())),
        (
            "cake",
            Box::new(Cake::new(cake::Params { rate: None, codel, ..cake::Params::for_link(link) }, 1, "cake").unwrap()),
        ),
        ("mered", Box::new(Mered::new(mered, 1, "mered").unwrap())),
        ("mered_1m", Box::new(Mered::new(mered_1m, 1, "mered").unwrap())),
        ("meredt", Box::new(Meredt::new(meredt, 1, "meredt").unwrap())),
        (
            "ingress",
            Box::new(AqmFifo::new(limit, Ingress::new(ingress::Params::for_line(link), 1, "ingress").unwrap())),
        ),
    ]
}

fn main() {
    let mut harness = Harness::from_args();
    for flows in [1_u64, 1_000, 100_000, 1_000_000] {
        let mut random = Stream::named(1, "flows");
        let keys: Vec<u64> = (0..flows).map(|_| random.next_u64()).collect();
        let draws: Vec<u64> = (0..1 << 20).map(|_| keys[random.below(flows) as usize]).collect();
        for (name, mut qdisc) in disciplines() {
            let draws = &draws;
            harness.case(&format!("{name}/{flows}"), 1, || {
                let mut now = Instant::ZERO;
                let mut n = 0;
                for _ in 0..1_000 {
                    qdisc.enqueue(now, P(draws[n]), &mut Discard);
                    n += 1;
                }
                move || {
                    // 800 ns are 1,000 B at 10 Gbit/s; 1,000 packets wait for 0.8 ms, below every target.
                    now += Span::from_nanos(800);
                    n = (n + 1) & ((1 << 20) - 1);
                    qdisc.enqueue(now, P(draws[n]), &mut Discard);
                    black_box(qdisc.dequeue(now, &mut Discard));
                }
            });
        }
    }
}
