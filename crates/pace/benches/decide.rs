//! The cost of a decision: `next`, and `woke` where it returns a wait, in ns per packet.

use criterion::{BatchSize, Criterion, Throughput, criterion_group, criterion_main};
use std::hint::black_box;
use tidegate_pace::{Algorithm, BurstCap, Capped, Kind, Pacer, Params, Recorder};
use tidegate_units::{Bytes, Instant, Rate, Span};

const PACKETS: u64 = 1000;

/// 1000 packets, each sent when the one before it allowed that.
fn decide(algorithm: &mut dyn Algorithm) -> Instant {
    let mut now = Instant::ZERO;
    for _ in 0..PACKETS {
        let due = algorithm.next(now, Bytes::new(1400));
        if due > now {
            now = due + Span::from_nanos(700);
            algorithm.woke(now);
        }
    }
    now
}

fn benchmark(criterion: &mut Criterion) {
    let rate = Rate::from_mbit(1000);
    let mut group = criterion.benchmark_group("next");
    group.throughput(Throughput::Elements(PACKETS));
    for kind in Kind::ALL {
        group.bench_function(kind.name(), |bencher| {
            bencher.iter_batched_ref(
                || kind.build(rate, Instant::ZERO).expect("the rate is not zero"),
                |algorithm| black_box(decide(algorithm)),
                BatchSize::SmallInput,
            );
        });
    }
    group.bench_function("at0 under a cap", |bencher| {
        bencher.iter_batched_ref(
            || {
                let cap = BurstCap::new(Rate::from_mbit(2000), Bytes::new(3000), Instant::ZERO).expect("not zero");
                Capped::new(Kind::At0.build(rate, Instant::ZERO).expect("not zero"), cap)
            },
            |algorithm| black_box(decide(algorithm)),
            BatchSize::SmallInput,
        );
    });
    group.bench_function("pacer with its default cap", |bencher| {
        bencher.iter_batched_ref(
            || Pacer::new(Params::new(rate), Instant::ZERO).expect("the defaults are valid"),
            |algorithm| black_box(decide(algorithm)),
            BatchSize::SmallInput,
        );
    });
    group.bench_function("recorder", |bencher| {
        let mut recorder = Recorder::new(Some(rate));
        let mut now = Instant::ZERO;
        bencher.iter(|| {
            for _ in 0..PACKETS {
                now += Span::from_nanos(11_200);
                recorder.record(now, Bytes::new(1400));
            }
        });
    });
    group.finish();
}

criterion_group!(benches, benchmark);
criterion_main!(benches);
