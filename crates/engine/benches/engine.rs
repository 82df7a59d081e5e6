//! The whole engine, in ns/packet: metadata in, classify, account, admit, schedule, out. A shaper of ten classes, with
//! statistics of flows and without, at 64 and at 10,000 flows.

mod workload;

use criterion::{BenchmarkId, Criterion, Throughput, criterion_group, criterion_main};
use workload::Workload;

fn packet(c: &mut Criterion) {
    let mut group = c.benchmark_group("engine");
    group.throughput(Throughput::Elements(1));
    for flows in [64, 10_000] {
        for detail in ["off", "flows"] {
            let mut workload = Workload::new(detail, flows);
            group.bench_with_input(BenchmarkId::new(detail, flows), &flows, |b, _| b.iter(|| workload.one()));
        }
    }
    group.finish();
}

criterion_group!(benches, packet);
criterion_main!(benches);
