//! Tables at terminals of 60, 80 and 120 columns: the snapshots in `width/`, and no line that is wider than its terminal.

#[path = "terminal/mod.rs"]
mod terminal;

use std::path::Path;
use std::process::Command;

use terminal::Terminal;
use unicode_width::UnicodeWidthStr;

/// The name of a snapshot, and the command. Each prints the same on every machine.
const COMMANDS: &[(&str, &[&str])] = &[
    ("check-host", &["check", "examples/host.toml"]),
    ("check-gateway", &["check", "examples/gateway.toml"]),
    ("simulate", &["simulate", "crates/tidegate/tests/width/variants.toml", "--no-cache"]),
    ("reproduce", &["reproduce", "pacing", "--only", "fig12.size1"]),
    ("check-cbq", &["check", "crates/tidegate/tests/width/cbq.toml"]),
    ("compare", &["compare", "crates/tidegate/tests/width/fifo.json", "crates/tidegate/tests/width/codel.json"]),
    ("script", &["script", "crates/script/tests/scripts/fifo.tgs", "--trace"]),
    ("reproduce-list", &["reproduce", "--list"]),
    ("replay", &["replay", "fuzz/seeds/replay/micro.pcap", "--with", "fq-codel@1mbit", "fifo@1mbit"]),
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

/// With TIDEGATE_WRITE_SNAPSHOTS the snapshots become what is shown.
#[test]
fn tables_fit_the_terminal() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/width");
    for (name, arguments) in COMMANDS {
        for columns in [60, 80, 120] {
            let shown = shown(columns, arguments);
            for line in shown.lines() {
                assert!(line.width() <= usize::from(columns), "{name} at {columns} columns: {line}");
            }
            let path = folder.join(format!("{name}-{columns}.txt"));
            if std::env::var_os("TIDEGATE_WRITE_SNAPSHOTS").is_some() {
                std::fs::create_dir_all(&folder).unwrap();
                std::fs::write(&path, &shown).unwrap();
            }
            assert_eq!(std::fs::read_to_string(&path).unwrap_or_default(), shown, "{}", path.display());
        }
    }
}
