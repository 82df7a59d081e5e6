//! The scenario of RFC 2963, appendix A, without its conditioning: 100 SACK connections over 70 Mbit/s, 102 s.
//! States seconds for a run, events per second, and packets per second and hop.

use std::time::Duration;

use criterion::{Criterion, criterion_group, criterion_main};
use tidegate_core::fifo::{Fifo, Limit};
use tidegate_core::{Instant, Rate, Span};
use tidegate_sim::{FlowSpec, Line, Network, Simulation, Workload, tcp};

fn network() -> Simulation {
    let mut net = Network::new(1);
    let (er1, er2) = (net.router("ER1"), net.router("ER2"));
    let lan = Line::new(Rate::from_mbit(10), Span::from_millis(1));
    let access = Line::new(Rate::from_mbit(34), Span::from_micros(2_500));
    let (bottleneck, _) = net.duplex(er1, er2, Line::new(Rate::from_mbit(70), Span::from_millis(10)));
    net.queue(bottleneck, Fifo::new(Limit::packets(400)));
    let config = tcp::Config { receive_buffer: 65_535, initial_window: 1, delayed_ack: None, ..tcp::Config::sack() };
    for customer in 1..=10 {
        let (near, far) = (net.router(format!("C{customer}")), net.router(format!("C{customer}'")));
        net.duplex(near, er1, access);
        net.duplex(er2, far, access);
        for station in 0..10_u64 {
            let from = net.host(format!("s{customer}.{station}"));
            let to = net.host(format!("d{customer}.{station}"));
            net.duplex(from, near, lan);
            net.duplex(far, to, lan);
            let start = Instant::from_nanos((customer * 10 + station) * 7_300_000);
            net.flow(FlowSpec::tcp(format!("{customer}.{station}"), from, to, config, Workload::BULK).starting(start));
        }
    }
    net.warm_up(Span::from_secs(2));
    net.build().expect("a network that works")
}

fn run() -> Simulation {
    let mut sim = network();
    sim.run_until(Instant::ZERO + Span::from_secs(102));
    sim
}

/// Nanoseconds this process has had a processor, where the system reports it; else wall-clock time.
fn processor_time(begin: std::time::Instant) -> f64 {
    let schedstat = std::fs::read_to_string("/proc/self/schedstat").ok();
    let nanos = schedstat.and_then(|text| text.split_whitespace().next()?.parse::<f64>().ok());
    nanos.map_or_else(|| begin.elapsed().as_secs_f64(), |nanos| nanos / 1e9)
}

fn bench(c: &mut Criterion) {
    let begin = std::time::Instant::now();
    let mut best = f64::INFINITY;
    let mut sim = network();
    for _ in 0..5 {
        let before = processor_time(begin);
        sim = run();
        best = best.min(processor_time(begin) - before);
    }
    let goodput: u64 = sim.flows().map(|(_, metrics)| metrics.goodput(sim.measured()).as_bps()).sum();
    println!(
        "best of 5: {best:.3} s of processor time; {} events, {:.1} M/s; {} packets x hops, {:.1} M/s; goodput {:.2} Mbit/s",
        sim.events(),
        sim.events() as f64 / best / 1e6,
        sim.hops(),
        sim.hops() as f64 / best / 1e6,
        goodput as f64 / 1e6,
    );
    let mut group = c.benchmark_group("simulator");
    group.sample_size(10).measurement_time(Duration::from_secs(8));
    group.bench_function("rfc2963", |b| b.iter(run));
    group.finish();
}

criterion_group!(benches, bench);
criterion_main!(benches);
