//! Set-up, speed and memory for 100 to 100,000 TCP flows over one bottleneck, and for 10,000 pairs of hosts.
//!
//! Each row is a process of its own, so that its resident memory is that of the row; times are of the processor. The bottleneck has 100 kbit/s for
//! each flow and a queue of 50 ms; the simulated time is that of about two million packets, at most 60 s.

mod bottleneck;

use std::process::Command;

use tidegate_benches::peers::Peer;
use tidegate_benches::{Harness, processor_time};
use tidegate_core::drr::{self, Drr};
use tidegate_core::dualpi2::{self, DualPi2};
use tidegate_core::{Instant, Span};

use bottleneck::{MakeQueue, fifo, limit, network};

/// Flows, and whether each has hosts of its own.
const ROWS: [(u64, bool); 5] = [(100, false), (1_000, false), (10_000, false), (100_000, false), (10_000, true)];

/// Simulated seconds of the comparison with ns-2, which takes several times as long.
const SHORT: u32 = 4;

/// Queues whose cost to a run is compared: with a queue for each flow, and with two coupled ones.
const QUEUES: [(&str, MakeQueue); 2] = [
    ("drr/100", |rate| {
        Box::new(Drr::new(drr::Params { limit: limit(rate), ..drr::Params::default() }).expect("valid"))
    }),
    ("dualpi2/100", |rate| {
        Box::new(DualPi2::new(dualpi2::Params { limit: limit(rate), ..dualpi2::Params::default() }).expect("valid"))
    }),
];

/// A field of /proc/self/status in bytes, where the system reports it.
fn resident() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"));
    line.and_then(|line| line.split_whitespace().next()?.parse::<u64>().ok()).unwrap_or(0) * 1024
}

fn row(flows: u64, apart: bool) {
    let before = resident();
    let begin = processor_time();
    let mut sim = network(flows, apart, fifo).build().expect("a network that works");
    let set_up = (processor_time() - begin).as_secs_f64();
    let built = resident().saturating_sub(before);
    // 100 kbit/s are 8.33 packets of 1,500 bytes a second.
    let seconds = (2_000_000 * 12 / 100 / flows).clamp(2, 60);
    let begin = processor_time();
    sim.run_until(Instant::ZERO + Span::from_secs(seconds));
    let ran = (processor_time() - begin).as_secs_f64();
    let held = resident().saturating_sub(before);
    let goodput: u64 = sim.flows().map(|(_, metrics)| metrics.goodput(sim.measured()).as_bps()).sum();
    println!(
        "{flows:>9} {:>6} {set_up:>9.3} {:>11} {:>9.2} {:>9.2} {:>9} {:>9} {:>10.1}",
        if apart { flows } else { 1 },
        sim.events(),
        sim.events() as f64 / ran / 1e6,
        sim.hops() as f64 / ran / 1e6,
        built / flows,
        held / flows,
        goodput as f64 / 1e6,
    );
}

fn main() {
    let mut args = std::env::args().skip(1);
    if let (Some(flows), Some(apart)) = (args.next().and_then(|flows| flows.parse().ok()), args.next()) {
        row(flows, apart == "apart");
        return;
    }
    let mut harness = Harness::from_args();
    if harness.is_complete() {
        table();
    }
    harness.figure("flows/10000", "ns", || {
        let mut sim = network(10_000, false, fifo).build().expect("a network that works");
        let begin = processor_time();
        sim.run_until(Instant::ZERO + Span::from_secs(SHORT.into()));
        (processor_time() - begin).as_nanos() as f64
    });
    harness.beside("flows/10000", Peer::Ns2Flows(10_000, SHORT), "cpu");
    for (name, queue) in QUEUES {
        harness.figure(name, "events/s", || {
            let mut sim = network(100, false, queue).build().expect("a network that works");
            let begin = processor_time();
            sim.run_until(Instant::ZERO + Span::from_secs(60));
            sim.events() as f64 / (processor_time() - begin).as_secs_f64()
        });
    }
    harness.against("dualpi2/100", "drr/100");
}

fn table() {
    println!(
        "{:>9} {:>6} {:>9} {:>11} {:>9} {:>9} {:>9} {:>9} {:>10}",
        "flows", "pairs", "set-up s", "events", "M ev/s", "M hops/s", "B built", "B a flow", "Mbit/s"
    );
    let own = std::env::current_exe().expect("this program has a path");
    for (flows, apart) in ROWS {
        let way = if apart { "apart" } else { "together" };
        let status = Command::new(&own).args([flows.to_string().as_str(), way]).status();
        assert!(status.is_ok_and(|status| status.success()), "the row of {flows} flows failed");
    }
}
