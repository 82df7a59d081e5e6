//! `tidegate simulate` as a shell sees it.

use std::process::{Command, Output, Stdio};

use crate::command::tidegate;
use tidegate_testbed::files::{Folder, text};

pub(crate) fn simulate(args: &[&str]) -> Output {
    tidegate(&[&["simulate"], args].concat())
}

pub(crate) const SCENARIO: &str = r#"
version = 1
sentence = "A lossy line"
duration = "4s"
warm-up = "1s"
hosts = ["a", "b"]
[[link]]
from = "a"
to = "b"
rate = "5mbit"
delay = "10ms"
loss = "0.5%"
watch = true
[[flow]]
name = "bulk, of one"
from = "a"
to = "b"
jitter = "500ms"
watch = true
workload = { kind = "bulk" }
"#;

#[test]
fn the_results_do_not_depend_on_the_threads() {
    let folder = Folder::new("threads");
    let file = folder.with("lossy.toml", SCENARIO);
    let one = simulate(&[&file, "--runs", "6", "--jobs", "1", "--json"]);
    let four = simulate(&[&file, "--runs", "6", "--jobs", "4", "--json"]);
    assert!(one.status.success(), "{}", text(&one.stderr));
    assert_eq!(text(&one.stdout), text(&four.stdout));
    // Two threads would mostly wait for each other at this rate, so that the run is not divided.
    let divided = simulate(&[&file, "--runs", "6", "--threads", "2", "--json"]);
    assert_eq!(text(&one.stdout), text(&divided.stdout));
    assert!(text(&divided.stderr).contains("not divided among threads: "), "{}", text(&divided.stderr));
    let json: serde_json::Value = serde_json::from_slice(&one.stdout).expect("JSON");
    assert_eq!(json["runs"].as_array().map(Vec::len), Some(6));
    let goodput = json["items"].as_array().unwrap().iter().find(|item| item["measure"] == "goodput").unwrap();
    assert!(goodput["mean"].as_f64().unwrap() > 1e6 && goodput["half_width_95"].as_f64().unwrap() > 0.0);
    let hash = simulate(&[&file, "--runs", "6", "--hash"]);
    assert_eq!(text(&hash.stdout).trim(), json["digest"].as_str().unwrap());
    let other = simulate(&[&file, "--runs", "6", "--seed", "2", "--hash"]);
    assert_ne!(hash.stdout, other.stdout);
}

#[test]
fn results_are_written_as_tables_and_files() {
    let folder = Folder::new("files");
    let file = folder.with("lossy.toml", SCENARIO);
    let out = folder.0.join("out");
    let done = simulate(&[&file, "--runs", "2", "--out", &out.display().to_string()]);
    assert!(done.status.success(), "{}", text(&done.stderr));
    let table = text(&done.stdout);
    assert!(
        table.contains("A lossy line") && table.contains("Mbit/s") && table.contains("2 runs from seed 1"),
        "{table}"
    );
    let summary = std::fs::read_to_string(out.join("summary.csv")).unwrap();
    assert!(
        summary.starts_with("variant,subject,measure,unit,mean,half_width_95\n,\"flow bulk, of one\",goodput,bps,"),
        "{summary}"
    );
    let runs = std::fs::read_to_string(out.join("runs.csv")).unwrap();
    assert!(runs.contains("\n2,,link a->b,utilisation,1,0."), "{runs}");
    let curve = std::fs::read_to_string(out.join("run-2/flow-bulk--of-one-goodput-over-time.csv")).unwrap();
    assert!(curve.starts_with("time_s,rate_bps\n") && curve.lines().count() > 20);
    assert!(out.join("results.json").exists());
}

/// Names that differ only in characters that a file name omits.
#[test]
fn every_curve_has_a_file_of_its_own() {
    let folder = Folder::new("alike");
    let flow = SCENARIO.split_once("[[flow]]").expect("it has a flow").1;
    let second = flow.replace("bulk, of one", "bulk- of-one");
    let file = folder.with("alike.toml", format!("{SCENARIO}[[flow]]{second}"));
    let out = folder.0.join("out");
    let done = simulate(&[&file, "--out", &out.display().to_string()]);
    assert!(done.status.success(), "{}", text(&done.stderr));
    let curve = |name: &str| std::fs::read_to_string(out.join("run-1").join(name)).expect(name);
    let (one, other) =
        (curve("flow-bulk--of-one-goodput-over-time.csv"), curve("flow-bulk--of-one-goodput-over-time-2.csv"));
    assert!(one != other && other.starts_with("time_s,rate_bps\n"), "{other}");

    // An unwritable folder is reported before the simulation, which would take long.
    let long = folder.with("long.toml", SCENARIO.replace("4s", "50000s"));
    let refused = simulate(&[&long, "--out", &file]);
    assert_eq!(refused.status.code(), Some(2), "{}", text(&refused.stderr));
    assert!(text(&refused.stderr).contains("cannot write into"), "{}", text(&refused.stderr));
}

/// The link types of the interfaces of a pcapng file: blocks of type 1.
fn link_types(mut bytes: &[u8]) -> Vec<u16> {
    let mut found = Vec::new();
    while let [a, b, c, d, e, f, g, h, low, high, ..] = *bytes {
        let (kind, length) = (u32::from_le_bytes([a, b, c, d]), u32::from_le_bytes([e, f, g, h]) as usize);
        found.extend((kind == 1).then(|| u16::from_le_bytes([low, high])));
        bytes = bytes.get(length..).unwrap_or_default();
    }
    found
}

/// A trace shows the fate of each packet, or of one; impossible traces are refused.
#[test]
fn a_trace_is_explained() {
    let folder = Folder::new("trace");
    let slow = SCENARIO.replace("watch = true\n[[flow]]", "queue = { kind = \"fifo\", limit = \"15kB\" }\n[[flow]]");
    let file = folder.with("slow.toml", &slow);
    let out = folder.0.join("out").display().to_string();
    let plain = simulate(&[&file, "--hash"]);
    let done = simulate(&[&file, "--out", &out, "--hash", "--trace", "flow=bulk, of one,from=1s,to=3s"]);
    assert!(done.status.success(), "{}", text(&done.stderr));
    assert_eq!(text(&plain.stdout), text(&done.stdout), "the trace changes no result");
    assert!(std::fs::read(format!("{out}/trace.parquet")).unwrap().starts_with(b"PAR1"));
    let rows = std::fs::read_to_string(format!("{out}/trace.csv")).unwrap();
    assert!(rows.starts_with("time_s,time_ns,kind,flow,") && rows.lines().count() > 10, "{rows}");
    let mut lines = rows.lines().map(|line| line.split(',').collect::<Vec<_>>());
    let names = lines.next().expect("a head");
    let column =
        |name: &str| names.iter().position(|known| *known == name).unwrap_or_else(|| panic!("no {name}: {names:?}"));
    // The name of the flow has a comma.
    let lines: Vec<Vec<&str>> = lines.filter(|line| line.len() == names.len() + 1).collect();
    let has = |name: &str, value: &str| lines.iter().any(|line| line[column(name) + 1] == value);
    for (name, value) in [
        ("flags", "ACK"),
        ("payload_bytes", "1460"),
        ("payload_bytes", "0"),
        ("retransmission", "1"),
        ("phase", "recovery"),
        ("phase", "congestion avoidance"),
    ] {
        assert!(has(name, value), "{name} {value}");
    }

    let capture = format!("{out}/trace.pcapng");
    // One link type, whose number is the same in files and in libpcap, which otherwise refuses a second interface.
    let bytes = std::fs::read(&capture).unwrap();
    assert!(
        link_types(&bytes).len() > 2 && link_types(&bytes).iter().all(|kind| *kind == 228),
        "{:?}",
        link_types(&bytes)
    );
    if let Ok(read) = Command::new("tcpdump").args(["-nr", &capture]).output() {
        assert!(read.status.success(), "{}", text(&read.stderr));
    }
    let explain = |args: &[&str]| tidegate(&[&["explain", &*capture], args].concat());
    let all = explain(&["--json"]);
    assert!(all.status.success(), "{}", text(&all.stderr));
    let json: serde_json::Value = serde_json::from_slice(&all.stdout).expect("JSON");
    let count = |event: &str| json["flows"]["bulk, of one"][event].as_u64().unwrap_or(0);
    // 5 Mbit/s for two seconds, with an acknowledgement for every second segment; some were lost, some dropped.
    assert!((700..2_000).contains(&count("delivered")), "{json}");
    assert!(count("lost") > 0 && count("dropped") > 0 && count("arrived") > 700, "{json}");
    let drops = json["dropped"].as_array().expect("a list");
    assert_eq!((drops[0]["colour"].as_str(), drops[0]["reason"].as_str()), (Some("green"), Some("queue_limit")));
    assert_eq!(drops[0]["packets"].as_u64(), Some(count("dropped")));

    let one = explain(&["--packet", "40"]);
    let way = text(&one.stdout);
    assert!(way.starts_with("packet ") && way.contains("flow bulk, of one"), "{way}");
    assert!(way.lines().count() >= 2 && way.contains(" s  "), "{way}");
    assert!(!way.contains("marked"), "the flow does not use ECN: {way}");
    let none = explain(&["--packet", "1000000"]);
    assert_eq!(none.status.code(), Some(2));
    assert!(text(&none.stderr).contains("the trace has the records 1 to"), "{}", text(&none.stderr));

    // The table has the same events in the same order, and packets by their own numbers.
    let number = way.split(' ').nth(1).expect("a number");
    for (args, expected) in [(&["--json"][..], &all), (&["--packet", number][..], &one)] {
        let mut command = Command::new(env!("CARGO_BIN_EXE_tidegate"));
        let table = command.arg("explain").arg(format!("{out}/trace.parquet")).args(args).output().expect("it runs");
        assert_eq!(text(&table.stdout), text(&expected.stdout), "{args:?}: {}", text(&table.stderr));
    }
    let other = folder.0.join("other.parquet");
    std::fs::write(&other, b"PAR1 and nothing else").unwrap();
    let mut command = Command::new(env!("CARGO_BIN_EXE_tidegate"));
    let refused = command.arg("explain").arg(&other).output().expect("tidegate runs");
    assert!(refused.status.code() == Some(2) && text(&refused.stderr).contains("cannot be read"), "{refused:?}");

    // Without --out it is written into the working directory.
    let mut command = Command::new(env!("CARGO_BIN_EXE_tidegate"));
    command.args(["simulate", &file, "--trace", "from=1s,to=1100ms", "--no-cache"]).current_dir(&folder.0);
    let done = command.output().expect("tidegate runs");
    assert!(done.status.success() && folder.0.join("trace.pcapng").exists(), "{}", text(&done.stderr));

    let refused = simulate(&[&file, "--trace", "flow=mice", "--out", &out]);
    assert_eq!(refused.status.code(), Some(2), "{}", text(&refused.stderr));
    let part = "flow=mice: no such flow; there are `bulk, of one`";
    assert!(text(&refused.stderr).contains(part), "{}", text(&refused.stderr));
}

/// A packet that a queue marked is explained as marked, from the event on at which it was.
#[test]
fn a_mark_is_explained() {
    let folder = Folder::new("trace-marked");
    let scenario = "version = 1\nduration = \"3s\"\nhosts = [\"a\", \"b\"]\n\
                    link = [{ from = \"a\", to = \"b\", rate = \"5mbit\", delay = \"10ms\", queue = { kind = \"codel\" } }]\n\
                    flow = [{ name = \"x\", from = \"a\", to = \"b\", tcp = { ecn = true }, workload = { kind = \"bulk\" } }]\n";
    let file = folder.with("marks.toml", scenario);
    let out = folder.0.join("out").display().to_string();
    let done = simulate(&[&file, "--out", &out, "--runs", "1", "--trace", "flow=x"]);
    assert!(done.status.success(), "{}", text(&done.stderr));
    for trace in ["trace.pcapng", "trace.parquet"] {
        let explain = |args: &[&str]| {
            let explained = tidegate(&[&["explain", &*format!("{out}/{trace}")], args].concat());
            assert!(explained.status.success(), "{}", text(&explained.stderr));
            text(&explained.stdout).to_owned()
        };
        let all: serde_json::Value = serde_json::from_str(&explain(&["--json"])).expect("JSON");
        let marked = all["flows"]["x"]["marked"].as_u64().unwrap_or(0);
        assert!(marked > 5, "{trace}: {all}");
        // The first marked packet, by the records of the first thousands.
        let of = |record: u64| explain(&["--packet", &record.to_string()]);
        let found = (200..4_000).step_by(7).map(of).find(|way| way.contains("marked"));
        let way = found.expect("a packet that was marked");
        assert_eq!(way.matches("congestion was marked on it").count(), 1, "{way}");
        let line = way.lines().find(|line| line.contains("marked")).expect("a line");
        assert!(line.contains("dequeued at") || line.contains("transmitting at"), "{way}");
    }
}

/// `check` and `simulate` warn alike of a kind of link sharing that does not keep the rate of a class.
#[test]
fn link_sharing_that_starves_a_class_is_warned_of() {
    let folder = Folder::new("sharing");
    let class = |name: &str, priority: u8| {
        format!(
            "[[discipline.class]]\nname = \"{name}\"\nshare = \"50%\"\npriority = {priority}\nborrow = \"from-parent\"\n"
        )
    };
    let cases = [
        ("sharing = \"formal\"", false),
        ("sharing = \"top-level\"", false),
        ("sharing = \"ancestor-only\"", true),
        ("sharing = \"top-level\"\nheuristic = \"floyd\"", true),
    ];
    for (sharing, starves) in cases {
        let (urgent, data) = (class("urgent", 0), class("data", 1));
        let shaper = format!(
            "version = 1\ndefault-class = \"data\"\n[discipline]\nkind = \"cbq\"\nlink = \"5mbit\"\n{sharing}\n{urgent}{data}\
             [[rule]]\nclass = \"urgent\"\ndscp = [\"ef\"]\n"
        );
        let shaper = folder.with("cbq.toml", &shaper);
        let urgent = "[[flow]]\nname = \"urgent\"\nfrom = \"a\"\nto = \"b\"\ndscp = \"ef\"\n\
                      workload = { kind = \"constant\", rate = \"6mbit\" }\n";
        let text = SCENARIO.replace("loss = \"0.5%\"", "queue = { shaper = \"cbq.toml\" }") + urgent;
        let scenario = folder.with("cbq-scenario.toml", &text);
        let check = tidegate(&["check", &shaper]);
        let simulated = simulate(&[&scenario, "--json"]);
        for output in [&check, &simulated] {
            assert!(output.status.success(), "{}", text_of(output));
            let warned = text_of(output).contains("`data` can get less than its rate while `urgent` borrows");
            assert_eq!(warned, starves, "{sharing}:\n{}", text_of(output));
            assert_eq!(text_of(output).contains("`sharing = \"formal\"` keeps every rate"), starves);
        }
        // The bulk flow, in `data`, has its 2.5 Mbit/s where nothing is warned of. Under the heuristic of 1995 it may too: its
        // own arrivals lower the level.
        let json: serde_json::Value = serde_json::from_slice(&simulated.stdout).expect("JSON");
        let goodput = json["items"].as_array().unwrap().iter().find(|item| item["measure"] == "goodput").unwrap();
        let goodput = goodput["mean"].as_f64().unwrap();
        assert!(starves || goodput > 1.8e6, "{sharing}: {goodput}");
        assert!(!sharing.contains("ancestor") || goodput < 1e6, "{sharing}: {goodput}");
    }
}

/// Returns the messages of a command, beside its data.
fn text_of(output: &Output) -> String {
    text(&output.stderr)
}

#[test]
fn a_bad_file_is_exit_code_two_with_line_and_column() {
    let folder = Folder::new("bad");
    let file = folder.with("bad.toml", SCENARIO.replace("5mbit", "0mbit"));
    let refused = simulate(&[&file]);
    assert_eq!(refused.status.code(), Some(2));
    assert!(refused.stdout.is_empty());
    let errors = text(&refused.stderr);
    assert!(errors.contains("bad.toml:10:8") && errors.contains("a rate of zero"), "{errors}");
    let missing = simulate(&["no-such-file.toml"]);
    assert_eq!(missing.status.code(), Some(2));
    assert!(text(&missing.stderr).contains("no-such-file.toml"));
}

#[test]
fn what_was_simulated_is_taken_from_the_cache() {
    let folder = Folder::new("cache");
    let variants = "[[variant]]\nname = \"small\"\nfrom = \"a\"\nto = \"b\"\nqueue = { kind = \"fifo\", limit = \"15kB\" }\n\
                    [[variant]]\nname = \"codel\"\nfrom = \"a\"\nto = \"b\"\nqueue = { kind = \"codel\" }\n";
    let file = folder.with("two.toml", format!("{SCENARIO}{variants}"));
    let cache = folder.0.join("cache");
    let kept = || std::fs::read_dir(&cache).map_or(0, |entries| entries.count());
    let run = |runs: &str| {
        let done = simulate(&[&file, "--runs", runs, "--jobs", "2", "--json", "--cache", &cache.display().to_string()]);
        assert!(done.status.success(), "{}", text(&done.stderr));
        text(&done.stdout)
    };
    let plain = text(&simulate(&[&file, "--runs", "3", "--jobs", "1", "--json"]).stdout);
    // As if it had been stopped after two of three seeds, of which one file is damaged.
    run("2");
    assert_eq!(kept(), 4, "a file for each seed and variant");
    let one = std::fs::read_dir(&cache).unwrap().next().unwrap().unwrap().path();
    std::fs::write(&one, "{").unwrap();
    assert_eq!(run("3"), plain);
    assert_eq!(kept(), 6);
    assert_eq!(run("3"), plain);
    // Another scenario has other runs.
    std::fs::write(&file, format!("{SCENARIO}{variants}").replace("0.5%", "1%")).unwrap();
    assert_ne!(run("3"), plain);
    assert_eq!(kept(), 12);
}

/// Ctrl-C ends what is running; what had ended is printed and kept.
#[test]
fn a_simulation_that_is_stopped_reports_what_has_ended_and_goes_on_later() {
    let folder = Folder::new("stopped");
    let file = folder.with("lossy.toml", SCENARIO);
    let cache = folder.0.join("cache").display().to_string();
    let kept = || std::fs::read_dir(&cache).map_or(0, |entries| entries.count());
    let mut command = Command::new(env!("CARGO_BIN_EXE_tidegate"));
    command.args(["simulate", &file, "--runs", "5000", "--jobs", "1", "--json", "--cache", &cache]);
    let child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().expect("tidegate runs");
    while kept() < 3 {
        std::thread::sleep(std::time::Duration::from_millis(5));
    }
    let signalled = Command::new("sh").args(["-c", &format!("kill -INT {}", child.id())]).status();
    assert!(signalled.is_ok_and(|status| status.success()));
    let stopped = child.wait_with_output().expect("it ends");
    assert_eq!(stopped.status.code(), Some(1));
    let said = text(&stopped.stderr);
    assert!(said.contains("of 5000 runs; they are kept"), "{said}");
    let report: serde_json::Value = serde_json::from_slice(&stopped.stdout).expect("JSON");
    let runs = report["runs"].as_array().map_or(0, Vec::len);
    assert!((2..5000).contains(&runs), "{runs} runs");
    assert_eq!(runs, kept());

    let again = simulate(&[&file, "--runs", "2", "--json", "--cache", &cache]);
    assert_eq!(text(&again.stdout), text(&simulate(&[&file, "--runs", "2", "--json", "--no-cache"]).stdout));
    assert_eq!(kept(), runs, "nothing was run again");
    let cleared = simulate(&["--clear-cache", "--cache", &cache]);
    assert!(cleared.status.success() && text(&cleared.stderr).contains(&format!("{runs} runs")));
    assert_eq!(kept(), 0);
}

#[test]
fn a_plot_is_chosen_by_its_title() {
    let folder = Folder::new("plot");
    let file = folder.with("lossy.toml", SCENARIO);
    let svg = folder.0.join("delay.svg").display().to_string();
    let plotted = simulate(&[&file, "--plot", &format!("one-way delay, distribution/bulk={svg}")]);
    assert!(plotted.status.success(), "{}", text(&plotted.stderr));
    let drawn = std::fs::read_to_string(&svg).expect("written");
    assert!(drawn.contains("One-way delay, distribution: flow bulk, of one</text>"), "{drawn}");
    assert_eq!(drawn.matches("stroke-width=\"1.8\"").count(), 1, "one curve");
    // The comparison without a title; PDF by the name of the file.
    let whole = folder.0.join("all.pdf").display().to_string();
    let compared = simulate(&[&file, "--figure", &whole]);
    assert!(compared.status.success(), "{}", text(&compared.stderr));
    let pdf = std::fs::read(&whole).expect("written");
    assert!(pdf.starts_with(b"%PDF-") && text(&pdf).contains("(What was measured) Tj"));
    let picture = folder.0.join("all.png").display().to_string();
    assert_eq!(simulate(&[&file, "--figure", &picture]).status.code(), Some(0));
    // Width and height are behind the head: 900 points of two pixels.
    let png = std::fs::read(&picture).expect("written");
    assert!(png.starts_with(b"\x89PNG\r\n\x1a\n") && png[16..20] == 1_800_u32.to_be_bytes(), "{:?}", &png[..24]);
    for (plot, says) in [
        (format!("no such thing={svg}"), "no plot is meant by `no such thing`; the plots are"),
        (format!("link a->b={svg}"), "have different axes"),
        ("delay".to_owned(), "TITLE=FILE.svg"),
        ("delay=x.gif".to_owned(), "must end in .svg, .pdf, .png, .pgf or .tikz"),
    ] {
        let refused = simulate(&[&file, "--plot", &plot]);
        assert_eq!(refused.status.code(), Some(2), "{plot}");
        assert!(text(&refused.stderr).contains(says), "{}", text(&refused.stderr));
    }
}

#[test]
fn results_are_compared_beside_each_other() {
    let folder = Folder::new("compare");
    let slow = folder.with("slow.toml", SCENARIO);
    let fast = folder.with("fast.toml", SCENARIO.replace("rate = \"5mbit\"", "rate = \"50mbit\""));
    assert_ne!(std::fs::read_to_string(&slow).ok(), std::fs::read_to_string(&fast).ok());
    let results = |file: &str, name: &str| {
        let found = simulate(&[file, "--json"]);
        assert!(found.status.success(), "{}", text(&found.stderr));
        folder.with(name, text(&found.stdout))
    };
    let (slow, fast) = (results(&slow, "slow.json"), results(&fast, "fast.json"));
    let compare = |args: &[&str]| tidegate(&[&["compare"], args].concat());
    let page = folder.0.join("both.html").display().to_string();
    let found = compare(&[&slow, &fast, "--report", &page]);
    assert!(found.status.success(), "{}", text(&found.stderr));
    let said = text(&found.stdout);
    assert!(said.lines().any(|line| line.starts_with("goodput of flow ") && line.contains("fast.json")), "{said}");
    assert!(said.lines().any(|line| line.contains("slow.json") && line.contains("fast.json")), "columns: {said}");
    let page = std::fs::read_to_string(page).expect("a page");
    assert!(page.contains("class=\"comparison\"") && page.contains("fast.json"));
    // As JSON every value of either file, with the file as its variant.
    let json: serde_json::Value = serde_json::from_slice(&compare(&[&slow, &fast, "--json"]).stdout).expect("JSON");
    let of = |name: &str| {
        let items = json["items"].as_array().expect("a list").iter();
        items.filter(|item| item["variant"].as_str().is_some_and(|variant| variant.starts_with(name))).count()
    };
    assert!(of("slow.json") > 0 && of("slow.json") == of("fast.json"), "{json}");
    let other = folder.with("other.json", "{\"neither\": 1}");
    let refused = compare(&[&slow, &other]);
    assert_eq!(refused.status.code(), Some(2));
    assert!(text(&refused.stderr).contains("other.json: it has neither `items` nor `configurations`"));
    // A single file has its variants beside each other, if it has several.
    let refused = compare(&[&slow]);
    assert!(refused.status.code() == Some(2) && text(&refused.stderr).contains("with several variants"));
    let variant = |name: &str, kind: &str| {
        format!("[[variant]]\nname = \"{name}\"\nfrom = \"a\"\nto = \"b\"\nqueue = {{ kind = \"{kind}\" }}\n")
    };
    let both = format!("{SCENARIO}{}{}", variant("plain", "fifo"), variant("short", "codel"));
    let both = results(&folder.with("both.toml", both), "both.json");
    let found = compare(&[&both, "--markdown"]);
    assert!(found.status.success(), "{}", text(&found.stderr));
    assert!(text(&found.stdout).contains("plain") && text(&found.stdout).contains("short"), "{}", text(&found.stdout));
}

/// A class that is to have its share, and a kind of sharing under which another starves it.
#[test]
fn a_share_that_the_sharing_does_not_keep_is_a_warning_of_both_commands() {
    let folder = Folder::new("sharing");
    let classes = "[[discipline.class]]\nname = \"urgent\"\nshare = \"40%\"\npriority = 0\nborrow = \"from-parent\"\n\
        [[discipline.class]]\nname = \"data\"\nshare = \"60%\"\npriority = 1\n";
    let head = "version = 1\n[discipline]\nkind = \"cbq\"\nlink = \"5mbit\"\n";
    let queue = "queue = { shaper = \"shaper.toml\" }\n[[flow]]";
    let file = folder.with("cbq.toml", SCENARIO.replace("[[flow]]", queue));
    for (sharing, warns) in [
        ("sharing = \"ancestor-only\"", true),
        ("sharing = \"top-level\"\nheuristic = \"floyd\"", true),
        ("sharing = \"formal\"", false),
    ] {
        let shaper = folder.with("shaper.toml", format!("{head}{sharing}\n{classes}"));
        for done in [simulate(&[&file]), tidegate(&["check", &shaper])] {
            let said = text(&done.stderr);
            assert!(done.status.success(), "{sharing}: {said}");
            assert_eq!(said.contains("`data` can get less than its rate while `urgent` borrows"), warns, "{said}");
            assert_eq!(said.contains("shaper.toml:"), warns, "{said}");
        }
    }
}

/// A file with one configuration is called by the configuration, unless two files have one of this name.
#[test]
fn configurations_go_by_their_names() {
    let folder = Folder::new("names");
    let result = |name: &str, configuration: &str, rate: u64| {
        let flows =
            format!("[{{\"name\":\"10.0.0.1\",\"rate_bps\":{rate},\"delay_p50_ns\":1000000,\"dropped_packets\":3}}]");
        let class = format!("[{{\"name\":\"of {configuration}\",\"rate_bps\":{rate}}}]");
        let text =
            format!("{{\"configurations\":[{{\"name\":\"{configuration}\",\"classes\":{class},\"flows\":{flows}}}]}}");
        folder.with(name, text)
    };
    let (one, two) = (result("a.json", "fifo", 1_000_000), result("b.json", "drr", 2_000_000));
    let compare = |files: &[&str]| text(&tidegate(&[&["compare"], files].concat()).stdout);
    let said = compare(&[&one, &two]);
    assert!(said.lines().any(|line| line.contains("fifo") && line.contains("drr")), "{said}");
    assert!(!said.contains("a.json"), "{said}");
    // Their classes differ, their flow does not.
    assert!(said.contains("flow 10.0.0.1"), "{said}");
    let again = result("c.json", "fifo", 3_000_000);
    let said = compare(&[&one, &again]);
    assert!(said.contains("a.json fifo") && said.contains("c.json fifo"), "{said}");
}
