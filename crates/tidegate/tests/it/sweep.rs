//! `tidegate sweep` as a shell sees it: the files, what they contain, and what is refused.

use std::path::Path;
use std::process::Command;

use crate::command::tidegate;
use tidegate_report::columns::Table;
use tidegate_testbed::files::{Folder, text};

const NET: &str = r#"
version = 1
duration = "1s"
hosts = ["a", "b"]
[[link]]
from = "a"
to = "b"
rate = "5mbit"
delay = "10ms"
queue = { kind = "fifo" }
[[flow]]
name = "bulk"
from = "a"
to = "b"
jitter = "100ms"
workload = { kind = "bulk" }
"#;

/// A folder with the scenario.
fn folder(name: &str) -> Folder {
    let folder = Folder::new(name);
    folder.with("net.toml", NET);
    folder
}

/// The files of a folder with their contents, in the order of their names.
fn files(folder: &str) -> Vec<(String, Vec<u8>)> {
    let mut found: Vec<(String, Vec<u8>)> = std::fs::read_dir(folder)
        .expect("the folder")
        .map(|entry| entry.expect("an entry"))
        .map(|entry| (entry.file_name().to_string_lossy().into_owned(), std::fs::read(entry.path()).expect("read")))
        .collect();
    found.sort();
    found
}

const QUEUES: &str = r#"link.a->b.queue=[{kind = "fifo"}, {kind = "codel"}]"#;

/// A warning about the file is no news at each of its points, whose texts have other lines.
#[test]
fn a_warning_is_said_once() {
    let folder = Folder::new("warned");
    folder
        .with("net.toml", NET.replace("{ kind = \"bulk\" }", "{ kind = \"bulk\" }\ntcp = { congestion = \"dctcp\" }"));
    let (net, out) = (folder.path("net.toml"), folder.path("out"));
    let output = tidegate(&["sweep", &net, "--vary", "link.1.rate=5mbit,2mbit,3mbit", "--runs", "2", "--out", &out]);
    let said = text(&output.stderr);
    assert!(output.status.success(), "{said}");
    assert_eq!(said.matches("DCTCP without ECN, which is Reno").count(), 1, "{said}");
    // Prague has L4S by itself, and is told of nothing where the file takes it away.
    for (tcp, warns) in [("congestion = \"prague\"", false), ("congestion = \"prague\", ecn = false", true)] {
        folder
            .with("net.toml", NET.replace("{ kind = \"bulk\" }", &format!("{{ kind = \"bulk\" }}\ntcp = {{ {tcp} }}")));
        let said = text(&tidegate(&["check", &net]).stderr);
        assert_eq!(said.contains("Prague without ECN"), warns, "{said}");
    }
}

/// A rate that is added later stands between those that were there, as in the command that added it, in the table and with `--all`.
#[test]
fn values_that_are_added_stand_where_the_sweep_has_them() {
    let folder = folder("order");
    let (net, out) = (folder.path("net.toml"), folder.path("out"));
    for rates in ["link.1.rate=5mbit,2mbit", "link.1.rate=5mbit,3mbit,2mbit"] {
        let args = ["sweep", &net, "--vary", rates, "--vary", QUEUES, "--seed", "3", "--runs", "2", "--out", &out];
        let output = tidegate(&args);
        assert!(output.status.success(), "{}", text(&output.stderr));
    }
    for all in [&[][..], &["--all"]] {
        let output = tidegate(&[&["compare", &out, "--by", "queue"][..], all].concat());
        let said = text(&output.stdout);
        let rows: Vec<&str> = said.lines().skip_while(|line| !line.contains("queue=fifo  ")).collect();
        let place = |rate: &str| rows.iter().position(|row| row.contains(rate)).unwrap_or_else(|| panic!("{said}"));
        assert!(place("5mbit") < place("3mbit") && place("3mbit") < place("2mbit"), "{said}");
    }
}

#[test]
fn files_do_not_depend_on_threads_and_what_is_there_is_not_made_again() {
    let folder = folder("files");
    let net = folder.path("net.toml");
    let sweep = |out: &str, jobs: &str| {
        let args = ["sweep", &net, "--vary", "link.1.rate=5mbit,2mbit", "--vary", QUEUES, "--seed", "3", "--runs", "2"];
        let output = tidegate(&[&args[..], &["--batch", "3", "--out", out, "--jobs", jobs]].concat());
        assert!(output.status.success(), "{}", text(&output.stderr));
        text(&output.stdout)
    };
    let (one, two) = (folder.path("one"), folder.path("two"));
    assert_eq!(sweep(&one, "1"), format!("8 runs in 3 files in {one}\n"));
    sweep(&two, "2");
    let all = files(&one);
    assert_eq!((all.len(), &all), (3, &files(&two)));

    // A run of the first batch, made by itself; Parquet has the text of a column once.
    let changed = Path::new(&folder.path("codel.toml")).to_owned();
    std::fs::write(&changed, NET.replace("\"fifo\"", "\"codel\"")).expect("written");
    for (scenario, seed, batch) in
        [(net.clone(), "3", 0), (net.clone(), "4", 0), (changed.display().to_string(), "4", 1)]
    {
        let digest = text(&tidegate(&["simulate", &scenario, "--seed", seed, "--runs", "1", "--hash"]).stdout);
        let contains = |bytes: &[u8]| bytes.windows(32).any(|window| window == digest.trim().as_bytes());
        let found: Vec<bool> = all.iter().map(|(_, bytes)| contains(bytes)).collect();
        assert_eq!(found.iter().position(|found| *found), Some(batch), "{scenario} {seed}: {found:?}");
    }

    std::fs::remove_file(Path::new(&one).join(&all[1].0)).expect("removed");
    assert_eq!(sweep(&one, "2"), format!("8 runs in 3 files in {one}; 5 runs made before\n"));
    assert_eq!(files(&one), all);
}

/// Five more seeds, and then another rate, into one folder: what is there is neither made again nor counted twice.
#[test]
fn more_seeds_and_values_add_to_the_folder() {
    let folder = folder("more");
    let (net, out) = (folder.path("net.toml"), folder.path("out"));
    let sweep = |rates: &str, runs: &str| {
        let vary = format!("link.1.rate={rates}");
        let args =
            ["sweep", &net, "--vary", &vary, "--seed", "1", "--runs", runs, "--batch", "3", "--out", &out, "--json"];
        let output = tidegate(&args);
        assert!(output.status.success(), "{}", text(&output.stderr));
        let said: serde_json::Value = serde_json::from_slice(&output.stdout).expect("JSON");
        let there: Vec<String> = files(&out).into_iter().map(|(name, _)| name).collect();
        let mut named: Vec<String> = serde_json::from_value(said["files"].clone()).expect("names");
        named.sort();
        assert_eq!(named, there);
        (said["runs"].as_u64(), said["made_before"].as_u64(), there.len())
    };
    assert_eq!(sweep("5mbit,2mbit", "2"), (Some(4), Some(0), 2));
    assert_eq!(sweep("5mbit,2mbit", "4"), (Some(8), Some(4), 5));
    assert_eq!(sweep("5mbit,2mbit", "4"), (Some(8), Some(8), 5));
    let (_, made_before, _) = sweep("5mbit,2mbit,9mbit", "4");
    assert_eq!(made_before, Some(8));
    let compared = tidegate(&["compare", &out]);
    let said = text(&compared.stdout);
    assert!(said.contains("goodput of flow bulk: rate=9mbit has the most"), "{said}{}", text(&compared.stderr));
    assert!(said.contains("by paired differences over 4 seeds"), "{said}");
    // Files of other values are not counted, and who adds runs is told what that does to p.
    let some = ["sweep", &net, "--vary", "link.1.rate=5mbit", "--seed", "1", "--runs", "5", "--out", &out];
    let some = tidegate(&some);
    assert!(text(&some.stderr).contains("optional stopping"), "{}", text(&some.stderr));
    assert!(text(&some.stdout).starts_with("5 runs in ") && text(&some.stdout).ends_with("4 runs made before\n"));
    let has_rate = |bytes: Vec<u8>| Table::from_parquet(bytes).expect("a table").csv().contains("\n5mbit,");
    let of_rate = files(&out).into_iter().filter(|(_, bytes)| has_rate(bytes.clone())).count();
    assert!(text(&some.stdout).contains(&format!(" in {of_rate} files")), "{} {of_rate}", text(&some.stdout));
    let compared = tidegate(&["compare", &out, "--only", "link.1.rate=2mbit", "--only", "link.1.rate=9mbit"]);
    let said_of_two = text(&compared.stdout);
    assert!(said_of_two.contains("over 4 seeds"), "{said_of_two}");
    let said = text(&tidegate(&["compare", &out]).stdout);
    // Files that were made twice, as by two machines, count once.
    let again = folder.path("again");
    let vary = ["--vary", "link.1.rate=5mbit,2mbit,9mbit", "--seed", "1", "--runs", "4", "--batch", "5"];
    assert!(tidegate(&[&["sweep", &net, "--out", &again], &vary[..]].concat()).status.success());
    for (name, bytes) in files(&again) {
        std::fs::write(Path::new(&out).join(name), bytes).expect("written");
    }
    assert_eq!(text(&tidegate(&["compare", &out]).stdout), said);
}

#[test]
fn combinations_are_compared_by_pairs_of_runs() {
    let folder = folder("compared");
    let (net, out) = (folder.path("net.toml"), folder.path("out"));
    let vary = ["--vary", "link.1.rate=5mbit,2mbit", "--seed", "1", "--runs", "3"];
    let made = tidegate(&[&["sweep", &net, "--out", &out], &vary[..]].concat());
    assert!(made.status.success(), "{}", text(&made.stderr));
    let compared = tidegate(&["compare", &out]);
    let said = text(&compared.stdout);
    assert!(said.contains("goodput of flow bulk: rate=5mbit has the most"), "{said}{}", text(&compared.stderr));
    assert!(said.contains("by paired differences over 3 seeds"), "{said}");
    // One combination, and one file of results, have nothing beside them.
    for (arguments, expected) in [
        (vec!["compare", &out, "--only", "link.1.rate=5mbit"], "all runs have the same values"),
        (vec!["compare", &out, "--only", "link.1.rate=9mbit"], "there are 2mbit, 5mbit"),
        (vec!["compare", &net], "what is compared are recordings, and results"),
    ] {
        let refused = tidegate(&arguments);
        assert!(refused.status.code() == Some(2) && text(&refused.stderr).contains(expected), "{refused:?}");
    }
}

/// Queues are compared at each rate; rates are not ranked among them.
#[test]
fn the_values_of_a_column_are_compared_at_each_point() {
    let folder = folder("by");
    let (net, out) = (folder.path("net.toml"), folder.path("out"));
    let vary = ["--vary", "link.1.rate=5mbit,2mbit", "--vary", QUEUES, "--seed", "1", "--runs", "3"];
    let made = tidegate(&[&["sweep", &net, "--out", &out], &vary[..]].concat());
    assert!(made.status.success(), "{}", text(&made.stderr));
    let found = tidegate(&["compare", &out, "--by", "queue", "--json"]);
    let found: serde_json::Value = serde_json::from_slice(&found.stdout).expect("JSON");
    let differences = found["differences"].as_array().expect("a list");
    let is_tested = |one: &&serde_json::Value| one["test"] != "none";
    let tested = differences.iter().filter(is_tested).count();
    assert!(tested > 4, "{found}");
    for one in differences {
        assert_eq!(one["variants"], serde_json::json!(["queue=fifo", "queue=codel"]), "{one}");
        let all = if is_tested(&one) { serde_json::json!(tested) } else { serde_json::Value::Null };
        assert_eq!(one["comparisons"], all, "corrected for all points together: {one}");
    }
    let of = |subject: &str| differences.iter().filter(|one| one["subject"] == subject).count();
    assert!(of("flow bulk at rate=2mbit") > 2 && of("flow bulk at rate=2mbit") == of("flow bulk at rate=5mbit"));
    assert!(found["items"].as_array().expect("a list").iter().all(|item| item["point"] != ""), "{found}");
    let lines = |options: &[&str]| -> Vec<String> {
        let found = tidegate(&[&["compare", &out, "--by", "queue"], options].concat());
        text(&found.stdout).lines().map(|line| line.split_whitespace().collect::<Vec<_>>().join(" ")).collect()
    };
    // The conclusion comes first and is short: a line for each quantity, then its values, one row for each point.
    let chosen = lines(&["--look", "measure=delay p50,subject=flow bulk"]);
    assert_eq!(chosen[0], "delay p50 of flow bulk: queue=codel has the least at all 2 points");
    assert!(chosen.iter().any(|line| line.starts_with("rate queue=fifo queue=codel best")), "{chosen:#?}");
    for rate in ["2mbit", "5mbit"] {
        let row = chosen.iter().find(|line| line.starts_with(rate)).unwrap_or_else(|| panic!("{rate}: {chosen:#?}"));
        assert!(row.ends_with("queue=codel") && row.contains('\u{b1}'), "{row}");
    }
    let short = lines(&[]);
    assert!(
        short.len() < 40 && short.iter().any(|line| line.contains("further values: --all prints all")),
        "{short:#?}"
    );
    // With --all each point has its sentences, and each measure its values.
    let all = lines(&["--all"]).join(" ");
    for rate in ["2mbit", "5mbit"] {
        let best = format!("delay p50 of flow bulk at rate={rate}: queue=codel has the least");
        assert!(all.contains(&best), "{best}: {all}");
    }
    assert!(all.contains("delay p99.9") && !all.contains("further values"), "{all}");
    // A map of the best is made of the same differences.
    let map = folder.path("best.svg");
    let figure = [
        "figure",
        &out,
        "--kind",
        "best",
        "--x",
        "rate",
        "--y",
        "subject",
        "--by",
        "queue",
        "--only",
        "measure=delay p50",
    ];
    let drawn = tidegate(&[&figure[..], &["--out", &map]].concat());
    assert!(drawn.status.success(), "{}", text(&drawn.stderr));
    let map = std::fs::read_to_string(&map).expect("a figure");
    let count = differences.iter().filter(|one| one["measure"] == "delay p50").count();
    assert!(count == 2 && map.contains(">codel<") && map.contains("corrected for all 2"), "{count}: {map}");
    for (column, why) in [("speed", "the table has no column `speed`; it has link.1.rate"), ("seed", "rate, queue do")]
    {
        let refused = tidegate(&["compare", &out, "--by", column]);
        assert!(refused.status.code() == Some(2) && text(&refused.stderr).contains(why), "{}", text(&refused.stderr));
    }
    let refused = tidegate(&["compare", &net, &net, "--by", "queue"]);
    assert!(text(&refused.stderr).contains("--by chooses columns of a sweep"), "{}", text(&refused.stderr));
}

/// A measure that is usually not shown is, where it is chosen, and what was not completed is known although the counts of it were not chosen.
#[test]
fn a_chosen_mean_is_shown_and_not_tested_where_transfers_are_left() {
    let folder = Folder::new("left");
    let short = "[[flow]]\nname = \"short\"\nfrom = \"a\"\nto = \"b\"\n\
        workload = { kind = \"mice\", per-second = 20, size = { kind = \"constant\", value = \"60kB\" } }\n";
    let net = folder.with("net.toml", format!("{NET}{short}"));
    let out = folder.path("out");
    let args = ["sweep", &net, "--vary", "link.1.rate=2mbit,4mbit", "--vary", QUEUES, "--runs", "3", "--out", &out];
    assert!(tidegate(&args).status.success());
    let said = |more: &[&str]| {
        let output =
            tidegate(&[&["compare", &out, "--by", "queue", "--only", "measure=completion mean"][..], more].concat());
        assert!(output.status.success(), "{}", text(&output.stderr));
        text(&output.stdout)
    };
    let found = said(&[]);
    assert!(
        found.starts_with("completion mean of flow short: not tested, as not all was completed, at all 2 points"),
        "{found}"
    );
    assert!(found.contains("n.t.\n") && found.contains(". n.t.: not tested, because"), "{found}");
    assert!(found.contains("Not completed, in the mean of a run, at the point where"), "{found}");
    let json: serde_json::Value = serde_json::from_str(&said(&["--json"])).expect("JSON");
    assert!(json["unfinished"].is_string() && json["differences"].as_array().is_some_and(Vec::is_empty), "{json:#}");
    assert!(json["items"].as_array().is_some_and(|items| items.len() == 4), "{json:#}");
}

#[test]
fn one_run_is_one_file() {
    let folder = folder("one");
    let (net, out) = (folder.path("net.toml"), folder.path("out"));
    let made = tidegate(&["sweep", &net, "--out", &out]);
    assert_eq!(text(&made.stdout), format!("1 run in 1 file in {out}\n"), "{}", text(&made.stderr));
    let again = tidegate(&["sweep", &net, "--out", &out, "--json"]);
    let answer: serde_json::Value = serde_json::from_slice(&again.stdout).expect("JSON");
    assert_eq!((&answer["runs"], &answer["made_before"]), (&1.into(), &1.into()), "{answer:#}");
    let names: Vec<String> = files(&out).into_iter().map(|(name, _)| name).collect();
    assert_eq!(answer["files"], serde_json::json!(names));
}

#[test]
fn what_is_wrong_is_refused_before_anything_runs() {
    let folder = folder("refused");
    let (net, out) = (folder.path("net.toml"), folder.path("out"));
    let refused = |vary: &str, part: &str| {
        let output = tidegate(&["sweep", &net, "--vary", vary, "--out", &out]);
        assert_eq!(output.status.code(), Some(2), "{vary}");
        assert!(text(&output.stderr).contains(part), "{vary}: {}", text(&output.stderr));
        assert!(!Path::new(&out).exists());
    };
    refused("link.x->y.rate=1mbit", "no link is called `x->y`; there are a->b, or numbers from 1");
    refused("link.1.rate=fast", "net.toml with link.1.rate=fast");
    refused("duration", "write PATH=VALUE,...");
    refused("duration=[]", "has no value");
    refused("seed=1,2", "by themselves");
    let missing = tidegate(&["sweep", &folder.path("none.toml"), "--out", &out]);
    assert_eq!(missing.status.code(), Some(2));
    // A folder that is a file.
    let output = tidegate(&["sweep", &net, "--out", &net]);
    assert_eq!(output.status.code(), Some(2));
    assert!(text(&output.stderr).contains("cannot write into"));
}

#[test]
fn a_run_that_fails_does_not_end_the_others() {
    let folder = folder("failed");
    let (net, out) = (folder.path("net.toml"), folder.path("out"));
    // Each value is right beside the first one of the other; of 1 s nothing is left after 2 s.
    let axes = ["--vary", "duration=3s,1s", "--vary", "warm-up=0s,2s"];
    let sweep = |batch: &str, out: &str| {
        let rest = ["--seed", "1", "--runs", "2", "--batch", batch, "--jobs", "2", "--out", out];
        let output = tidegate(&[&["sweep", &net][..], &axes, &rest].concat());
        (output.status.code(), text(&output.stderr), files(out))
    };
    let (code, said, made) = sweep("3", &out);
    assert_eq!(code, Some(1), "{said}");
    assert!(said.contains("2 of 8 runs failed; the results of the others are in"), "{said}");
    for seed in ["seed 1", "seed 2"] {
        assert!(said.contains(&format!("net.toml with duration=1s, warm-up=2s, {seed}: ")), "{said}");
    }
    // Runs 6 and 7 are the last batch; run 5 is in that before.
    assert_eq!(made.len(), 2);
    let (code, said, again) = sweep("3", &out);
    assert_eq!((code, &again), (Some(1), &made), "{said}");
    // The batch of a failed run has a file with the others.
    let (_, _, all) = sweep("4", &folder.path("other"));
    let names: Vec<&str> = all.iter().map(|(name, _)| &name[name.len() - 13..]).collect();
    assert_eq!(names.iter().filter(|name| **name == ".part.parquet").count(), 1, "{names:?}");
}

#[test]
fn names_depend_on_the_files_of_every_value() {
    let folder = folder("named");
    let (net, out) = (folder.path("net.toml"), folder.path("out"));
    let shaper = |name: &str, rate: &str| {
        let text = format!("version = 1\n[[class]]\nname = \"all\"\nrate = \"{rate}\"\ndefault = true\n");
        std::fs::write(folder.path(name), text).expect("written");
    };
    let made_before = || {
        let vary = r#"link.1.queue=[{shaper = "one.toml"}, {shaper = "two.toml"}]"#;
        let output = tidegate(&["sweep", &net, "--vary", vary, "--batch", "1", "--out", &out]);
        assert!(output.status.success(), "{}", text(&output.stderr));
        text(&output.stdout)
    };
    shaper("one.toml", "1mbit");
    shaper("two.toml", "2mbit");
    made_before();
    assert!(made_before().ends_with("; 2 runs made before\n"));
    // The quantities that the scenario names are of the files that were there, too.
    let primary = "delay p99 of flow bulk";
    let text = std::fs::read_to_string(&net).expect("a scenario");
    std::fs::write(&net, text.replacen("version = 1", &format!("version = 1\nprimary = [\"{primary}\"]"), 1))
        .expect("written");
    assert!(made_before().ends_with("; 2 runs made before\n"));
    for (_, bytes) in files(&out) {
        assert!(bytes.windows(primary.len()).any(|window| window == primary.as_bytes()));
    }
    shaper("two.toml", "3mbit");
    assert!(made_before().ends_with("; 1 run made before\n"));
    assert_eq!(files(&out).len(), 3);
}

#[test]
fn what_was_interrupted_goes_on() {
    let folder = folder("interrupted");
    let (net, out) = (folder.path("net.toml"), folder.path("out"));
    let args = ["sweep", &net, "--vary", "duration=1s,100000s", "--batch", "1", "--jobs", "1", "--out", &out];
    let mut child = Command::new(env!("CARGO_BIN_EXE_tidegate"))
        .args(args)
        .stderr(std::process::Stdio::piped())
        .spawn()
        .expect("tidegate runs");
    // The second run takes minutes.
    while !Path::new(&out).exists() || files(&out).is_empty() {
        std::thread::sleep(std::time::Duration::from_millis(10));
    }
    let signalled = Command::new("kill").args(["-INT", &child.id().to_string()]).status().expect("kill");
    assert!(signalled.success());
    let mut said = String::new();
    std::io::Read::read_to_string(&mut child.stderr.take().expect("a pipe"), &mut said).expect("text");
    assert_eq!(child.wait().expect("it ends").code(), Some(1), "{said}");
    assert!(said.contains("stopped after 1 of 2 runs") && said.contains("the same command makes the others"), "{said}");
    let kept = files(&out);
    assert_eq!(kept.len(), 1);
    assert!(kept[0].0.starts_with("batch-000000-") && kept[0].0.ends_with(".parquet"));
}

/// Results of two scenarios in one folder are refused, with the files of each. What a scenario says of itself changes no result.
#[test]
fn a_folder_of_two_scenarios_is_refused_with_its_files() {
    let folder = folder("mixed");
    let (net, out) = (folder.path("net.toml"), folder.path("out"));
    let sweep = || {
        let made = tidegate(&[
            "sweep",
            &net,
            "--vary",
            "link.1.rate=5mbit,2mbit",
            "--runs",
            "2",
            "--seed",
            "1",
            "--out",
            &out,
        ]);
        assert!(made.status.success(), "{}", text(&made.stderr));
        text(&made.stdout)
    };
    sweep();
    folder.with("net.toml", format!("sentence = \"A line\"\nprimary = [\"goodput of flow bulk\"]\n{NET}"));
    assert!(sweep().ends_with("4 runs made before\n"));
    folder.with("net.toml", NET.replace("10ms", "20ms"));
    assert!(!sweep().contains("made before"));
    let refused = tidegate(&["compare", &out]);
    let said = text(&refused.stderr);
    let names: Vec<String> = files(&out).into_iter().map(|(name, _)| name).collect();
    assert_eq!((refused.status.code(), names.len()), (Some(2), 2), "{said}");
    assert!(names.iter().all(|name| said.contains(name.as_str())), "{said} {names:?}");
}
