//! The whole engine, in ns/packet: metadata in, classify, account, admit, schedule, out. A shaper of ten classes, with
//! statistics of flows and without, at 64 and at 10,000 flows; and the memory of a flow with a packet queued, with
//! statistics, the engine's own included. The cases named easy are those in which flows take
//! turns and packets have one size; the others are random. As one of two shards, and how many packets two shards in two threads pass for each
//! that one engine passes.

mod workload;

use std::time::Instant;

use tidegate_benches::Harness;
use tidegate_benches::traffic::Spread;
use workload::Workload;

/// The packets of a cold case that are processed together.
const TOGETHER: u64 = 32;

/// Flows whose memory is measured.
const FLOWS: u32 = 10_000;

/// Memory of this process in bytes, where the system reports it.
fn resident() -> f64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"));
    line.and_then(|line| line.split_whitespace().next()?.parse::<f64>().ok()).unwrap_or(f64::NAN) * 1024.0
}

fn main() {
    let mut harness = Harness::from_args();
    // First, while nothing that was freed is used again.
    harness.figure("bytes", "B", || {
        let packets = workload::packets(FLOWS);
        let before = resident();
        let workload = Workload::with("flows", packets);
        let bytes = (resident() - before) / f64::from(FLOWS);
        drop(workload);
        bytes
    });
    for flows in [64, 10_000] {
        for detail in ["off", "flows"] {
            harness.case(&format!("easy {detail}/{flows}"), 1, || {
                let mut workload = Workload::new(detail, flows);
                move || workload.one()
            });
            for (kind, spread) in Spread::ALL.into_iter().filter(|_| flows > 64) {
                harness.case(&format!("{detail} {kind} warm/{flows}"), 1, || {
                    let mut workload = Workload::random(detail, spread, flows);
                    move || workload.one()
                });
            }
            harness.cold_case(&format!("{detail} uniform cold/{flows}"), TOGETHER, || {
                let mut workload = Workload::random(detail, Spread::Uniform, flows);
                move || (0..TOGETHER).for_each(|_| workload.one())
            });
        }
    }
    harness.case("shard/10000", 1, || {
        let mut workload = Workload::shards("flows", 2, 10_000).swap_remove(0);
        move || workload.one()
    });
    harness.against("shard/10000", "easy flows/10000");
    harness.figure("two threads/10000", "of one", || {
        let mut ratios: Vec<f64> = (0..5).map(|_| rate_of_two() / rate_of_one()).collect();
        ratios.sort_by(f64::total_cmp);
        ratios[2]
    });
}

/// Packets that each thread passes.
const PASSED: u32 = 300_000;

fn rate_of_one() -> f64 {
    let mut workload = Workload::new("flows", 10_000);
    let begin = Instant::now();
    (0..PASSED).for_each(|_| workload.one());
    f64::from(PASSED) / begin.elapsed().as_secs_f64()
}

/// Two shards with half of the flows each, in a thread each.
fn rate_of_two() -> f64 {
    let workloads = Workload::shards("flows", 2, 5_000);
    let begin = Instant::now();
    std::thread::scope(|scope| {
        for mut workload in workloads {
            scope.spawn(move || (0..PASSED).for_each(|_| workload.one()));
        }
    });
    2.0 * f64::from(PASSED) / begin.elapsed().as_secs_f64()
}
