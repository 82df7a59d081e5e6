//! The short form of `tidegate reproduce faults`: nothing is lost or reordered by any fault, as long as the link is up. How long
//! nothing passes is for the long form: it depends on the machine.

use std::process::Command;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;

use tidegate_testbed::files::skip;
use tidegate_testbed::is_nightly;

fn items(only: &str) -> Vec<serde_json::Value> {
    let mut command = Command::new(env!("CARGO_BIN_EXE_tidegate"));
    let output = command.args(["reproduce", "faults", "--json", "--only", only]).output().expect("it runs");
    let text = String::from_utf8_lossy(&output.stdout);
    let report: serde_json::Value = serde_json::from_str(&text)
        .unwrap_or_else(|error| panic!("{error}: {text}{}", String::from_utf8_lossy(&output.stderr)));
    report["items"].as_array().expect("items").clone()
}

/// The rows in which the link stays up; without the one that takes all processor time from its neighbours.
const FAULTS: [&str; 19] = [
    "stop",
    "stall",
    "panic",
    "abort",
    "kill",
    "memory",
    "descriptors",
    "forward",
    "back",
    "flush",
    "rename",
    "mtu",
    "disk",
    "terminal",
    "guardian",
    "restart",
    "killed-restart",
    "upgrade",
    "none",
];
/// Shapers that run at the same time, each between namespaces of its own.
const AT_ONCE: usize = 4;

#[test]
fn no_fault_of_a_shaper_loses_or_reorders_a_packet() {
    // A short run takes a fault that the shaper survives, one that it does not, and a restart.
    let faults = if is_nightly() { &FAULTS[..] } else { &["stall", "kill", "restart"] };
    let next = AtomicUsize::new(0);
    thread::scope(|scope| {
        for _ in 0..AT_ONCE {
            scope.spawn(|| {
                while let Some(fault) = faults.get(next.fetch_add(1, Ordering::Relaxed)) {
                    loses_and_reorders_nothing(fault);
                }
            });
        }
    });
}

fn loses_and_reorders_nothing(fault: &str) {
    let items = items(&format!("{fault}."));
    let found = |part: &str| items.iter().find(|item| item["id"] == format!("{fault}.{part}"));
    let Some(sent) = found("sent") else {
        // A machine without namespaces or NFQUEUE.
        let why = items[0]["note"].as_str().unwrap_or_default().to_owned();
        assert!(items[0]["holds"].is_null(), "{items:?}");
        return skip(&format!("{fault}: {why}"));
    };
    assert!(sent["measured"].as_f64() > Some(1_000.0), "{items:?}");
    for part in ["lost", "reordered"] {
        assert_eq!(found(part).and_then(|item| item["measured"].as_f64()), Some(0.0), "{fault}: {items:?}");
    }
}

#[test]
fn a_page_without_a_place_for_the_table_is_refused() {
    let page = std::env::temp_dir().join(format!("tidegate-faults-{}.md", std::process::id()));
    std::fs::write(&page, "# Faults\n").expect("a file");
    let mut command = Command::new(env!("CARGO_BIN_EXE_tidegate"));
    let output = command.args(["reproduce", "faults", "--only", "nosuch", "--page"]).arg(&page).output();
    let output = output.expect("it runs");
    assert_eq!(output.status.code(), Some(1));
    assert!(String::from_utf8_lossy(&output.stderr).contains("it has no place for the table"));
    std::fs::remove_file(&page).expect("our file");
}
