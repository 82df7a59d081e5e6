//! Commands at terminals of 60 to 200 columns: the snapshots in `width/`, and no line that is wider than its terminal.
//! The tables of shapers that run are checked beside the code that formats them.

use std::path::Path;
use std::process::Command;

use tidegate_testbed::terminal::Terminal;

/// The name of a snapshot, and the command. Each prints the same on every machine.
const COMMANDS: &[(&str, &[&str])] = &[
    ("check-host", &["check", "examples/host.toml"]),
    ("check-gateway", &["check", "examples/gateway.toml"]),
    ("simulate", &["simulate", "crates/tidegate/tests/width/variants.toml", "--no-cache"]),
    ("reproduce", &["reproduce", "pacing", "--only", "fig12.size1"]),
    ("check-cbq", &["check", "crates/tidegate/tests/width/cbq.toml"]),
    ("compare", &["compare", "crates/tidegate/tests/width/fifo.json", "crates/tidegate/tests/width/codel.json"]),
    ("script", &["script", "lab/script/tests/scripts/fifo.tgs", "--trace"]),
    ("reproduce-list", &["reproduce", "--list"]),
    ("replay", &["replay", "tools/fuzz/seeds/replay/micro.pcap", "--with", "fq-codel@1mbit", "fifo@1mbit"]),
];

fn shown(columns: u16, arguments: &[&str]) -> String {
    // Without standard error, where a slow machine shows progress.
    let mut command = Command::new("sh");
    command.args(["-c", "exec \"$0\" \"$@\" 2>/dev/null", env!("CARGO_BIN_EXE_tidegate")]);
    command.args(arguments).current_dir(Path::new(env!("CARGO_MANIFEST_DIR")).join("../.."));
    // The terminal's size counts, not that of the one in which the test was started.
    command.env_remove("COLUMNS").env_remove("LINES").env("XDG_CACHE_HOME", "/nonexistent").env("TERM", "dumb");
    let (_, shown) = Terminal::start(command, Some((columns, 24))).end();
    // The last line of a simulation has the time that it took.
    shown.lines().filter(|line| !line.contains(" s simulated in ")).map(|line| format!("{line}\n")).collect()
}

#[test]
fn tables_fit_the_terminal() {
    for (name, arguments) in COMMANDS {
        tidegate_testbed::width::check(name, |columns| shown(columns, arguments));
    }
}
