//! The whole engine, in ns/packet: metadata in, classify, account, admit, schedule, out. A shaper of ten classes, with
//! statistics of flows and without, at 64 and at 10,000 flows; and the memory of a flow with a packet queued, with
//! statistics, the engine's own included.

#[path = "../../../benches/harness.rs"]
mod harness;
mod workload;

use harness::Harness;
use workload::Workload;

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
            harness.case(&format!("{detail}/{flows}"), 1, || {
                let mut workload = Workload::new(detail, flows);
                move || workload.one()
            });
        }
    }
}
