//! Shaper and guardian stopped together, as a freezer of control groups does: nobody is left to let packets pass.

use std::thread;
use std::time::Duration;

use serde_json::Value;

use crate::at_pair::succeeds;
use crate::running::{Running, Traffic};
use tidegate_testbed::Ended;
use tidegate_testbed::files::Folder;
use tidegate_testbed::veth::{DEVICE, Pair};

/// 250 packets of 500 bytes leave in a second, and 50 may wait.
const SHAPER: &str = "version = 1\n[shaper]\nrate = \"1mbit\"\n\
    [[class]]\nname = \"rest\"\nrate = \"1mbit\"\ndefault = true\nlimit = \"25000B\"\nflow-limit = \"25000B\"\n";
const PAYLOAD: usize = 472;
/// Fewer than leave.
const EVERY: Duration = Duration::from_millis(5);
const FROZEN: Duration = Duration::from_secs(2);

/// Packets wait in the kernel until the freeze is over. Then those that the limits of their class do not admit are dropped, and each of
/// them is counted there; the others leave in order.
pub fn a_freeze_of_both_processes_is_counted_packet_by_packet() -> Ended {
    let (pair, scratch) = (Pair::new(), Folder::new("test"));
    let control = scratch.0.join("control").display().to_string();
    let mut command = pair.left.command(env!("CARGO_BIN_EXE_tidegate")).unwrap();
    command.arg("run").arg(scratch.write("shaper.toml", SHAPER)).args(["--interface", DEVICE, "--control", &control]);
    let mut running = Running::start(command);
    running.says("is in force");
    let direction = || {
        let mut shown: Value =
            serde_json::from_str(&succeeds(&pair, &["status", "--json", "--control", &control])).unwrap();
        shown["directions"][0].take()
    };
    let dropped = |direction: &Value| {
        let reasons = direction["classes"][0]["dropped"].as_array().unwrap();
        reasons.iter().map(|of| of["packets"].as_u64().unwrap()).sum::<u64>()
            + direction["kernel_dropped_packets"].as_u64().unwrap()
    };
    let traffic = Traffic::start(&pair, PAYLOAD, EVERY);
    traffic.until(100);
    let before = direction();
    let guardian = before["guardian"]["pid"].as_u64().unwrap() as u32;
    let stop = |signal| {
        tidegate_sys::process::signal(guardian, signal).unwrap();
        running.signal(signal);
    };
    stop(libc::SIGSTOP);
    thread::sleep(FROZEN);
    stop(libc::SIGCONT);
    thread::sleep(FROZEN);
    let arrivals = traffic.stop_lossy();
    let counted = dropped(&direction());
    running.signal(libc::SIGINT);
    let (status, _, said) = running.end();
    assert!(status.success() && said.contains("nothing is left behind"), "{status}: {said}");
    println!("{counted} of {} packets dropped, {} before the freeze", arrivals.sent, dropped(&before));
    assert_eq!(arrivals.reordered(), 0, "of {} sent", arrivals.sent);
    assert!(counted > 100, "{counted} of some 400 that came meanwhile");
    assert_eq!(arrivals.lost(), counted, "of {} sent", arrivals.sent);
    Ended::Passed
}
