//! `tidegate check` and `tidegate schema` as a shell sees them: output, errors, exit codes.

use std::io::Write;
use std::path::Path;
use std::process::{Command, Output, Stdio};

fn tidegate(args: &[&str], input: &str) -> Output {
    let mut child = Command::new(env!("CARGO_BIN_EXE_tidegate"))
        .args(args)
        .current_dir(Path::new(env!("CARGO_MANIFEST_DIR")).join("../.."))
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    // A command that does not read its input closes the pipe.
    let _ = child.stdin.take().unwrap().write_all(input.as_bytes());
    child.wait_with_output().unwrap()
}

fn text(bytes: &[u8]) -> &str {
    std::str::from_utf8(bytes).unwrap()
}

#[test]
fn a_valid_file_shows_its_tree_and_its_sums() {
    let output = tidegate(&["check", "examples/host.toml"], "");
    assert_eq!(output.status.code(), Some(0), "{}", text(&output.stderr));
    assert!(output.stderr.is_empty(), "{}", text(&output.stderr));
    let out = text(&output.stdout);
    for expected in [
        "10.0 Mbit/s + 30.0 Mbit/s + 40.0 Mbit/s = 80.0 Mbit/s of 80.0 Mbit/s: it fits, nothing left over",
        "├─ premium",
        "└─ best-effort (default)",
        "38 %",
        // 5 of 10 Mbit/s are promised to 50 calls of 100 kbit/s; the other 5 have capacity for 50 more.
        "50 x 100 kbit/s to flows of rule 1 (protocol udp destination-port 16384-32767); full at 100 such flows",
        "below 3.00 Mbit/s to best-effort",
    ] {
        assert!(out.contains(expected), "no `{expected}` in:\n{out}");
    }
}

#[test]
fn ceilings_are_in_the_tables_and_not_in_the_sums() {
    let file = "version = 1\n[shaper]\nrate = \"50mbit\"\nfair-by = \"host\"\n\
                [[class]]\nname = \"guests\"\nrate = \"1mbit\"\nat-most = \"5mbit\"\nhost-at-most = \"2mbit\"\n\
                [[class]]\nname = \"house\"\nrate = \"40mbit\"\ndefault = true\n\
                [[rule]]\nclass = \"house\"\nsource = \"192.0.2.7\"\nat-most = \"3mbit\"\n";
    let output = tidegate(&["check", "-"], file);
    let out = text(&output.stdout);
    assert_eq!(output.status.code(), Some(0), "{}", text(&output.stderr));
    assert!(
        out.contains("1.00 Mbit/s + 40.0 Mbit/s = 41.0 Mbit/s of 50.0 Mbit/s: it fits, 9.00 Mbit/s left over"),
        "{out}"
    );
    let line = |of: &str| out.lines().find(|line| line.contains(of)).unwrap_or_else(|| panic!("no {of} in:\n{out}"));
    assert!(line("├─ guests").contains("5.00 Mbit/s") && line("├─ guests").contains("2.00 Mbit/s"), "{out}");
    assert!(line("of total").contains("a host") && !line("of total").contains("a flow"), "{out}");
    assert!(line("source 192.0.2.7/32").contains("3.00 Mbit/s"), "{out}");
    let json: serde_json::Value =
        serde_json::from_slice(&tidegate(&["check", "-", "--json"], file).stdout).expect("an object");
    let all = json.to_string();
    for part in ["\"at_most_bps\":5000000", "\"host_at_most_bps\":2000000", "\"at_most_bps\":3000000"] {
        assert!(all.contains(part), "no {part} in {all}");
    }
}

const AGENCIES: &str = r#"
version = 1

[discipline]
kind = "cbq"
link = "10mbit"
default = "b"
reservations = { class = "reserved", flows = 4 }
class = [
  { name = "a", share = "40%" },
  { name = "a video", parent = "a", rate = "1.5mbit", priority = 0, borrow = "from-parent" },
  { name = "a data", parent = "a", share = "20%", queue = { kind = "codel" } },
  { name = "b", share = "30%" },
  { name = "reserved", rate = "2mbit" },
]
"#;

#[test]
fn lines_about_both_directions_are_printed_once() {
    let class = |way: &str| {
        format!("[{way}.shaper]\nrate = \"9mbit\"\n[[{way}.class]]\nname = \"all\"\nrate = \"9mbit\"\ndefault = true\n")
    };
    let file = format!(
        "version = 1\n[metrics]\nlisten = \"127.0.0.1:9435\"\n{}{}[[rule]]\nclass = \"all\"\nport = 53\nwhen = \"mon-fri 08:00-18:00\"\n",
        class("up"),
        class("down")
    );
    let output = tidegate(&["check", "-"], &file);
    let out = text(&output.stdout);
    for line in [": valid", "metrics and a web page", "now (", "what leaves", "what arrives"] {
        assert_eq!(out.matches(line).count(), 1, "{line}: {out}{}", text(&output.stderr));
    }
}

#[test]
fn a_tree_of_cbq_shows_who_has_what_and_what_is_left() {
    let output = tidegate(&["check", "-"], AGENCIES);
    assert_eq!(output.status.code(), Some(0), "{}", text(&output.stderr));
    let words = |line: &str| line.split_whitespace().collect::<Vec<_>>().join(" ");
    let rows: Vec<String> = text(&output.stdout).lines().map(words).collect();
    for row in [
        "link 10.0 Mbit/s 100 % 1.00 Mbit/s",
        "├─ a 4.00 Mbit/s 40 % 500 kbit/s no",
        "│ ├─ a video 0 1.50 Mbit/s 15 % yes fifo",
        "│ └─ a data 1 2.00 Mbit/s 20 % no codel",
        "├─ b (default) 1 3.00 Mbit/s 30 % no fifo",
        "└─ reserved 2.00 Mbit/s 20 % 2.00 Mbit/s no up to 4 reservations",
    ] {
        assert!(rows.iter().any(|other| other == row), "no {row:?} in:\n{}", text(&output.stdout));
    }
    let json: serde_json::Value =
        serde_json::from_slice(&tidegate(&["check", "--json", "-"], AGENCIES).stdout).unwrap();
    let tree = &json["configuration"]["root"]["tree"];
    assert_eq!(tree["left_bps"], 1_000_000);
    let video = &tree["classes"][1];
    assert_eq!((&video["name"], &video["parent"], &video["borrow"]), (&"a video".into(), &"a".into(), &true.into()));
    assert_eq!((&tree["classes"][0]["left_bps"], &video["left_bps"]), (&500_000.into(), &serde_json::Value::Null));
}

#[test]
fn errors_that_nobody_reads_are_still_exit_code_2() {
    let mut child = Command::new(env!("CARGO_BIN_EXE_tidegate"))
        .args(["check", "-"])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    // The reader closes before any output: the command waits for its input.
    drop(child.stderr.take());
    let _ = child.stdin.take().unwrap().write_all(b"version = 1\n[[class]]\nname = 5\n");
    assert_eq!(child.wait().unwrap().code(), Some(2));
}

#[test]
fn a_broken_file_is_exit_code_2_and_errors_on_stderr() {
    let output = tidegate(&["check", "-"], "version = 1\n[[class]]\nname = \"a\"\nrate = 5\ndefault = true\n");
    assert_eq!(output.status.code(), Some(2));
    assert!(output.stdout.is_empty());
    let err = text(&output.stderr);
    assert!(err.contains("<stdin>:4:8") && err.contains("no unit") && err.contains("<stdin>: 1 error"), "{err}");
    assert!(!err.contains('\u{1b}'), "colours without a terminal: {err}");
}

/// The file alone shows what the data path in the kernel does not do.
#[test]
fn what_the_kernel_cannot_do_is_named() {
    for (data_path, expected) in [
        ("kernel", "`tidegate run` refuses it: the data path in the kernel cannot do this yet: kind = \"wf2q\""),
        (
            "auto",
            "note: packets are queued in user space, where all of this works: the data path in the kernel cannot do this yet",
        ),
    ] {
        let file = format!(
            "version = 1\n[interface]\ndata-path = \"{data_path}\"\n[discipline]\nkind = \"wf2q\"\nlink = \"20mbit\"\n"
        );
        let output = tidegate(&["check", "-"], &file);
        assert_eq!(output.status.code(), Some(0), "{}", text(&output.stderr));
        assert!(text(&output.stderr).contains(expected), "{}", text(&output.stderr));
    }
}

#[test]
fn a_file_that_is_not_there_is_exit_code_2() {
    let output = tidegate(&["check", "no/such.toml"], "");
    assert_eq!(output.status.code(), Some(2));
    assert!(text(&output.stderr).contains("no/such.toml"), "{}", text(&output.stderr));
}

#[test]
fn json_has_the_sums_and_the_findings() {
    let output = tidegate(&["check", "--json", "examples/host.toml"], "");
    let json: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(json["valid"], true);
    assert_eq!(json["configuration"]["root"]["promised_bps"], 80_000_000);
    assert_eq!(json["configuration"]["root"]["classes"][0]["promises"][0]["full_at_flows"], 100);
    assert_eq!(json["configuration"]["rules"][0]["minimum_bps"], 100_000);

    let output = tidegate(&["check", "--json", "-"], "version = 1\nrat = 5\n");
    assert_eq!(output.status.code(), Some(2));
    let json: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(json["valid"], false);
    assert_eq!(json["findings"][0]["line"], 2);
    assert_eq!(json["findings"][0]["text"], "rat");
}

#[test]
fn a_reader_that_leaves_is_no_failure() {
    let mut child = Command::new(env!("CARGO_BIN_EXE_tidegate"))
        .args(["schema"])
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    drop(child.stdout.take());
    let output = child.wait_with_output().unwrap();
    assert_eq!((output.status.code(), text(&output.stderr)), (Some(0), ""));
}

#[test]
fn the_files_for_prometheus_and_grafana_are_in_the_program() {
    let alerts = tidegate(&["metrics", "alerts"], "");
    assert!(text(&alerts.stdout).contains("groups:") && text(&alerts.stdout).contains("tidegate_"));
    let dashboard: serde_json::Value = serde_json::from_slice(&tidegate(&["metrics", "dashboard"], "").stdout).unwrap();
    assert!(dashboard["panels"].is_array(), "{dashboard}");
}

#[test]
fn the_schema_is_one() {
    let output = tidegate(&["schema"], "");
    assert_eq!(output.status.code(), Some(0));
    let json: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(json["$schema"], "https://json-schema.org/draft/2020-12/schema");
    assert!(json["properties"]["class"]["items"]["$ref"].is_string());
}

#[test]
fn the_reference_has_every_key_of_the_schema() {
    let json: serde_json::Value = serde_json::from_slice(&tidegate(&["schema"], "").stdout).unwrap();
    let output = tidegate(&["schema", "--text"], "");
    let out = text(&output.stdout);
    let objects = json["$defs"].as_object().unwrap().values().chain([&json]);
    let keys: Vec<&String> =
        objects.filter_map(|object| object["properties"].as_object()).flat_map(|p| p.keys()).collect();
    assert!(keys.len() > 40, "{keys:?}");
    for key in keys {
        assert!(out.contains(&format!("\n  {key}  (")), "no {key} in:\n{out}");
    }
    assert!(out.contains("  idle-timeout  (text like \"10ms\", default \"10s\")"), "{out}");
    assert!(out.lines().all(|line| line.chars().count() <= 120), "{out}");
}

#[test]
fn every_scenario_of_the_tree_fits_the_schema() {
    let schema: serde_json::Value = serde_json::from_slice(&tidegate(&["schema", "scenario"], "").stdout).unwrap();
    let mut folders = vec![Path::new(env!("CARGO_MANIFEST_DIR")).join("../../lab/papers")];
    let mut seen = 0;
    while let Some(folder) = folders.pop() {
        for entry in std::fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                folders.push(path);
            } else if path.extension().is_some_and(|ending| ending == "toml") {
                let text = std::fs::read_to_string(&path).unwrap();
                let table: toml::Table = text.parse().unwrap();
                if table.contains_key("link") && table.contains_key("flow") {
                    let value = serde_json::to_value(table).unwrap();
                    assert_eq!(
                        tidegate_testbed::evaluator::misfit(&value, &schema, &schema, "$"),
                        None,
                        "{}",
                        path.display()
                    );
                    seen += 1;
                }
            }
        }
    }
    assert!(seen > 0, "no scenario was found");
}

#[test]
fn rates_of_a_line_show_the_file_they_stand_for() {
    let output = tidegate(&["check", "--up", "20mbit", "--down", "100mbit", "--link", "docsis"], "");
    assert!(output.status.success(), "{}", text(&output.stderr));
    let shown = text(&output.stdout);
    // What is shown is valid input of `check`: one file for both directions.
    let output = tidegate(&["check", "-", "--json"], shown);
    let whole: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
    let both = whole["configurations"].as_array().unwrap();
    let ways: Vec<_> = both.iter().map(|one| one["interface"]["direction"].as_str().unwrap()).collect();
    assert_eq!(ways, ["egress", "ingress"], "{whole:#}");
    assert!(whole["configuration"].is_null(), "{whole:#}");
    for part in ["rate = \"19mbit\"", "rate = \"90mbit\"", "overhead = 18", "[up.discipline]", "[down.discipline]"] {
        assert!(shown.contains(part), "{part}: {shown}");
    }
    let listed = tidegate(&["check", "--down", "5mbit", "--overhead", "7", "--json"], "");
    let listed: serde_json::Value = serde_json::from_slice(&listed.stdout).unwrap();
    assert_eq!(listed["configuration"]["interface"]["direction"], "ingress");
    assert!(listed["text"].as_str().unwrap().contains("overhead = 7"));
    for wrong in [&["check", "--up", "0bit"][..], &["check", "file.toml", "--up", "1mbit"], &["check"]] {
        assert_eq!(tidegate(wrong, "").status.code(), Some(2), "{wrong:?}");
    }
}

/// A scenario is checked as what it is, and the commands for the other kind of file say what it is.
#[test]
fn scenarios_and_shaper_files_are_told_apart() {
    let scenario = "version = 1\nsentence = \"One transfer\"\nduration = \"5s\"\nruns = 3\nhosts = [\"a\", \"b\"]\n\
                    link = [{ from = \"a\", to = \"b\", rate = \"10mbit\", delay = \"5ms\" }]\n\
                    flow = [{ name = \"bulk\", from = \"a\", to = \"b\", workload = { kind = \"bulk\" } }]\n\
                    variant = [{ name = \"short\", from = \"a\", to = \"b\", queue = { kind = \"codel\" } },\n\
                    { name = \"fair\", from = \"a\", to = \"b\", queue = { kind = \"drr\" } }]\n";
    let output = tidegate(&["check", "-"], scenario);
    let out = text(&output.stdout);
    assert_eq!(output.status.code(), Some(0), "{}", text(&output.stderr));
    for expected in [
        "a valid scenario",
        "5 s, 3 runs from seed 1, each with 2 variants: short, fair",
        "codel (short), drr (fair)",
        "bulk",
    ] {
        assert!(out.contains(expected), "no `{expected}` in:\n{out}");
    }
    // The settings of TCP that are in force are named, and how to have those of Linux unless they are.
    let tcp = "TCP of bulk: reno, SACK, timeout of at least 1s";
    assert!(out.contains(tcp) && out.contains("tcp = { defaults = \"linux\" }"), "{out}");
    let linux = scenario.replace("workload = {", "tcp = { defaults = \"linux\" }, workload = {");
    let output = tidegate(&["check", "-"], &linux);
    let out = text(&output.stdout);
    assert!(out.contains("TCP of bulk: cubic, RACK-TLP, PRR") && !out.contains("defaults"), "{out}");
    let output = tidegate(&["check", "--json", "-"], scenario);
    let json: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!((json["valid"].clone(), json["scenario"]["runs"].clone()), (true.into(), 3.into()));
    // Its errors are those of a scenario.
    let wrong = scenario.replace("delay", "dealy");
    let output = tidegate(&["check", "-"], &wrong);
    assert_eq!(output.status.code(), Some(2));
    let said = text(&output.stderr);
    assert!(said.contains("did you mean `delay`?") && said.contains(": 1 error"), "{said}");
    let output = tidegate(&["check", "--json", "-"], &wrong);
    let json: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!((json["valid"].clone(), json["findings"].as_array().map(Vec::len)), (false.into(), Some(1)));
    for (command, input, said) in [
        ("run", scenario, "this is a scenario of the simulator, not a shaper file; `tidegate simulate` runs it"),
        ("simulate", "version = 1\n[discipline]\nkind = \"fifo\"\n", "this is a shaper file; a scenario has a link"),
    ] {
        let output = tidegate(&[command, "-"], input);
        assert_eq!(output.status.code(), Some(2), "{command}");
        assert!(text(&output.stderr).contains(said), "{command}: {}", text(&output.stderr));
    }
}
