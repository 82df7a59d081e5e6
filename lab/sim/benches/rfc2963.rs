//! The scenario of RFC 2963, appendix A, without its conditioning: 100 SACK connections over 70 Mbit/s, 102 s.
//! In ns for a run, beside the processor time of ns-2 in the same scenario.

use std::hint::black_box;

use tidegate_benches::Harness;
use tidegate_benches::peers::Peer;
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

fn main() {
    let mut harness = Harness::from_args();
    harness.case("rfc2963", 1, || {
        || {
            black_box(run());
        }
    });
    if harness.is_complete() {
        let sim = run();
        let goodput: u64 = sim.flows().map(|(_, metrics)| metrics.goodput(sim.measured()).as_bps()).sum();
        println!("{} events, {} packets x hops, goodput {goodput} bit/s", sim.events(), sim.hops());
    }
    harness.beside("rfc2963", Peer::Ns2, "cpu");
}
