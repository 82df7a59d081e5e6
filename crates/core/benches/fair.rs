//! A packet through HTB, H-FSC, WFQ, WF2Q+ and FQ-PIE, enqueued and dequeued, compared with FIFO, by the number of classes
//! or flows, of which all are busy. The easy case: the packet that left returns to its class. `arrivals` has random ones.

use std::hint::black_box;

use criterion::{BenchmarkId, Criterion, criterion_group, criterion_main};
use tidegate_core::fifo::{Fifo, Limit};
use tidegate_core::fq_pie::{self, FqPie};
use tidegate_core::hfsc::{self, Curve, Hfsc};
use tidegate_core::htb::{self, Htb};
use tidegate_core::qdisc::Discard;
use tidegate_core::sessions::Params;
use tidegate_core::wf2q::Wf2q;
use tidegate_core::wfq::Wfq;
use tidegate_core::{Bytes, ClassId, FlowKey, Instant, Packet, Qdisc, Rate, Span};

#[derive(Clone, Copy)]
struct P(u32);

impl Packet for P {
    fn size(&self) -> Bytes {
        Bytes::new(1_250)
    }
    fn flow(&self) -> FlowKey {
        FlowKey::numbered(u64::from(self.0))
    }
    fn class(&self) -> ClassId {
        ClassId(self.0)
    }
}

/// A packet of 1250 B takes 1 µs.
const LINK: Rate = Rate::from_mbit(10_000);
const STEP: Span = Span::from_micros(1);
/// Packets queued for each class or flow.
const DEPTH: u32 = 4;

fn queue() -> Fifo<P> {
    Fifo::new(Limit::packets(64))
}

fn part(classes: u32) -> Rate {
    Rate::from_bps(LINK.as_bps() / u64::from(classes))
}

/// Leaves under one class of the link's rate, half of it their own.
fn htb(classes: u32) -> Htb<P, Fifo<P>> {
    let burst = Bytes::new(12_500);
    let root = htb::Class { burst, cburst: burst, ..htb::Class::new(LINK) };
    let leaf = htb::Class { ceil: LINK, burst, cburst: burst, ..htb::Class::new(part(2 * classes)) };
    let leaves = (0..classes).map(|_| htb::Node::leaf(leaf, Some(0), queue()));
    Htb::new(std::iter::once(htb::Node::inner(root, None)).chain(leaves).collect(), None).expect("valid")
}

/// Leaves that share, each with a guarantee of half of its part.
fn hfsc(classes: u32) -> Hfsc<P, Fifo<P>> {
    let class = hfsc::Class {
        guarantee: Some(Curve::linear(part(2 * classes))),
        ..hfsc::Class::sharing(Curve::linear(part(classes)))
    };
    let leaves = (0..classes).map(|_| hfsc::Node::leaf(class, None, queue())).collect();
    Hfsc::new(LINK, Span::from_micros(10), leaves, None).expect("valid")
}

fn sessions(classes: u32) -> Params {
    Params { limit: Limit::packets(u64::from(classes) * 64), ..Params::classes(LINK, vec![1; classes as usize]) }
}

/// One packet in and one out a microsecond, with some queued for each of `count` classes or flows.
fn busy(c: &mut Criterion, name: &str, count: u32, mut qdisc: impl Qdisc<P>) {
    let mut now = Instant::ZERO;
    for n in 0..count * DEPTH {
        qdisc.enqueue(now, P(n % count), &mut Discard);
    }
    let mut next = 0;
    c.benchmark_group("fair").bench_function(BenchmarkId::new(name, count), |b| {
        b.iter(|| {
            now += STEP;
            if let Some(packet) = black_box(qdisc.dequeue(now, &mut Discard)) {
                next = packet.0;
            }
            qdisc.enqueue(now, P(next), &mut Discard);
        });
    });
}

fn bench(c: &mut Criterion) {
    busy(c, "fifo", 1, queue());
    for count in [1, 10, 100, 1_000, 10_000] {
        busy(c, "htb", count, htb(count));
        busy(c, "hfsc", count, hfsc(count));
        busy(c, "wfq", count, Wfq::new(sessions(count)).expect("valid"));
        busy(c, "wf2q", count, Wf2q::new(sessions(count)).expect("valid"));
        let params = fq_pie::Params { queues: 65_536, ..fq_pie::Params::default() };
        busy(c, "fq-pie", count, FqPie::new(params, 1, "bench").expect("valid"));
    }
}

criterion_group!(benches, bench);
criterion_main!(benches);
