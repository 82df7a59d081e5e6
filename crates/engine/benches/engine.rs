//! The whole engine, in ns/packet: metadata in, classify, account, admit, schedule, out. A shaper of ten classes, with
//! statistics of flows and without, at 64 and at 10,000 flows.

#[path = "../../../benches/harness.rs"]
mod harness;
mod workload;

use harness::Harness;
use workload::Workload;

fn main() {
    let mut harness = Harness::from_args();
    for flows in [64, 10_000] {
        for detail in ["off", "flows"] {
            harness.case(&format!("{detail}/{flows}"), 1, || {
                let mut workload = Workload::new(detail, flows);
                move || workload.one()
            });
        }
    }
}
