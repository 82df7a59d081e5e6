//! The chapters of the book on a new discipline, congestion control and experiment: every command is run, every change made, every output checked, in the
//! order of the page, in a fresh directory. And the commands that write the crates.
//!
//! Attributes of blocks, after the language:
//! - `file=PATH`: the whole text of a file;
//! - `find=PATH`, followed by `replace`: a passage that is in the file exactly once, and its replacement;
//! - `run`: commands that succeed; the next ones start in the folder in which they end;
//! - `live`: the same, where the kernel allows namespaces; `machine`: the same, skipped with exit code 77 where there is no virtual
//!   machine; `fails`: commands of which the last one fails;
//! - `says`: lines that the commands before it printed.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use tidegate_testbed::files::Folder;

const PAGE: &str = include_str!("../../../../book/src/howto-new-discipline.md");
const EXPERIMENT: &str = include_str!("../../../../book/src/howto-new-experiment.md");
const CONGESTION: &str = include_str!("../../../../book/src/howto-new-congestion.md");

/// A fenced block: the language, its attributes, and the text.
struct Block<'a> {
    attributes: Vec<(&'a str, &'a str)>,
    text: String,
    line: usize,
}

impl Block<'_> {
    fn has(&self, name: &str) -> bool {
        self.attribute(name).is_some()
    }
    fn attribute(&self, name: &str) -> Option<&str> {
        self.attributes.iter().find(|(key, _)| *key == name).map(|(_, value)| *value)
    }
}

fn blocks(page: &str) -> Vec<Block<'_>> {
    let mut blocks: Vec<Block<'_>> = Vec::new();
    let mut open = false;
    for (number, line) in page.lines().enumerate() {
        match line.strip_prefix("```") {
            Some(_) if open => open = false,
            Some(info) => {
                open = true;
                let attributes = info.split(',').skip(1).map(|part| part.split_once('=').unwrap_or((part, "")));
                blocks.push(Block { attributes: attributes.collect(), text: String::new(), line: number + 1 });
            }
            None if open => {
                let block = blocks.last_mut().expect("a block is open");
                block.text.push_str(line);
                block.text.push('\n');
            }
            None => {}
        }
    }
    assert!(!open, "a block of the page has no end");
    blocks
}

/// Runs a script of the page in `folder`, with the `tidegate` of this test and its target folder, so that common
/// dependencies are not built again.
fn shell(folder: &Path, script: &str) -> Output {
    let binary = Path::new(env!("CARGO_BIN_EXE_tidegate"));
    let target = binary.parent().and_then(Path::parent).expect("the binary lies in target/debug");
    let path = format!(
        "{}:{}",
        binary.parent().expect("it lies in a folder").display(),
        std::env::var("PATH").unwrap_or_default()
    );
    Command::new("bash")
        .args(["-ec", script])
        .current_dir(folder)
        .env("PATH", path)
        .env("CARGO_TARGET_DIR", target)
        .env("TIDEGATE", Path::new(env!("CARGO_MANIFEST_DIR")).join("../.."))
        // Nothing is resolved: the new crate has the versions of this one.
        .env("CARGO_NET_OFFLINE", "true")
        .output()
        .expect("bash starts")
}

fn text(output: &Output) -> String {
    format!("{}{}", String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr))
}

/// Whether live traffic is possible here; prints the reason if not.
fn live() -> bool {
    match tidegate_live::netns::available() {
        Ok(_) => true,
        Err(why) => {
            tidegate_testbed::files::skip(&format!("the live part of the chapter on disciplines: {why}"));
            false
        }
    }
}

/// Runs a script that needs a virtual machine, and returns what it prints. `None`, which is reported, where there is none.
fn in_machine(folder: &Path, script: &str, at: &str) -> Option<String> {
    let refused = std::env::var("TIDEGATE_FIELD").is_ok_and(|field| field == "0");
    let output = if refused { None } else { Some(shell(folder, script)) };
    let said = output.as_ref().map_or("TIDEGATE_FIELD=0".into(), text);
    match output.map_or(Some(77), |output| output.status.code()) {
        Some(0) => return Some(said),
        Some(77) => tidegate_testbed::files::skip(&format!("the kernel's part of the chapter on disciplines: {said}")),
        // As .ci/run has it of every check in a machine.
        Some(124 | 125) => tidegate_testbed::files::skip(&format!(
            "the kernel's part of the chapter on disciplines: the machine did not start, or not end in time\n{said}"
        )),
        _ => panic!("{at}: {script}\n{said}"),
    }
    None
}

/// Does what a chapter says in a folder; returns the folder in which it ends, and how many commands and changes it had.
fn follow(page: &str, scratch: &Folder) -> (PathBuf, usize, usize) {
    let mut folder = scratch.0.clone();
    let mut find: Option<(PathBuf, String)> = None;
    let mut said = String::new();
    let (mut commands, mut changes, mut skipped) = (0, 0, false);
    for block in blocks(page) {
        let at = format!("line {} of the chapter", block.line);
        if let Some(path) = block.attribute("file") {
            let path = folder.join(path);
            fs::create_dir_all(path.parent().expect("a file lies in a folder")).expect("the folder can be made");
            fs::write(path, &block.text).expect("the file can be written");
            changes += 1;
        } else if let Some(path) = block.attribute("find") {
            find = Some((folder.join(path), block.text));
        } else if block.has("replace") {
            let (path, passage) = find.take().unwrap_or_else(|| panic!("{at}: nothing to replace"));
            let whole = fs::read_to_string(&path).unwrap_or_else(|error| panic!("{at}: {error}"));
            assert_eq!(whole.matches(&passage).count(), 1, "{at}: not in {} exactly once:\n{passage}", path.display());
            fs::write(path, whole.replace(&passage, &block.text)).expect("the file can be written");
            changes += 1;
        } else if block.has("machine") {
            let output = in_machine(&folder, &block.text, &at);
            (skipped, said) = (output.is_none(), output.unwrap_or_default());
        } else if block.has("run") || block.has("fails") || (block.has("live") && live()) {
            let output = shell(&folder, &format!("{}pwd > {}/where", block.text, scratch.0.display()));
            (said, skipped) = (text(&output), false);
            assert_eq!(output.status.success(), !block.has("fails"), "{at}: {}\n{said}", block.text);
            if output.status.success() {
                folder = fs::read_to_string(scratch.0.join("where")).expect("written just now").trim().into();
            }
            commands += 1;
        } else if block.has("says") && !skipped {
            for line in block.text.lines() {
                assert!(said.contains(line), "{at}: `{line}` was not said:\n{said}");
            }
        }
    }
    (folder, commands, changes)
}

#[test]
#[ignore = "builds the simulator once more, a minute: TIDEGATE_CI=nightly .ci/run does it"]
fn the_chapter_on_congestion_control_is_done_as_written() {
    let scratch = Folder::new("howto-congestion");
    let (folder, commands, changes) = follow(CONGESTION, &scratch);
    assert!(commands >= 8 && changes >= 10, "the chapter was not found whole: {commands} commands, {changes} changes");
    assert!(folder.join("share-artifact/reproduced/comparison.svg").is_file(), "the artifact was not repeated");
    assert!(
        fs::read_to_string(folder.join("delays.svg")).is_ok_and(|svg| svg.contains("fq-codel")),
        "the sweep's figure"
    );
    for name in ["before.html", "before.svg", "alone.html", "share.svg"] {
        let text = fs::read_to_string(folder.join(name)).unwrap_or_else(|error| panic!("{name}: {error}"));
        assert!(text.contains("my-vegas"), "{name} does not show the control");
    }
}

#[test]
#[ignore = "builds the simulator once more, a minute: TIDEGATE_CI=nightly .ci/run does it"]
fn the_chapter_on_experiments_is_done_as_written() {
    let scratch = Folder::new("howto-experiment");
    let (folder, commands, changes) = follow(EXPERIMENT, &scratch);
    assert!(commands >= 8 && changes >= 3, "the chapter was not found whole: {commands} commands, {changes} changes");
    assert!(folder.join("call-artifact/call/reproduced/call.svg").is_file(), "the artifact was not repeated");
    for name in ["call.pdf", "tail.pdf", "rates-over-time.pdf", "rates.pdf"] {
        let bytes = fs::read(folder.join(name)).unwrap_or_else(|error| panic!("{name}: {error}"));
        assert!(bytes.starts_with(b"%PDF"), "{name}");
    }
    let table = fs::read_to_string(folder.join("table.tex")).expect("the table");
    assert!(table.contains("fq-codel") && table.contains("Delay, 99th pct."), "{table}");
}

#[test]
#[ignore = "builds Tidegate once more, some minutes: TIDEGATE_CI=nightly .ci/run does it"]
fn the_chapter_is_done_as_written() {
    let scratch = Folder::new("howto");
    let (folder, commands, changes) = follow(PAGE, &scratch);
    assert!(commands >= 6 && changes >= 10, "the chapter was not found whole: {commands} commands, {changes} changes");

    // The result described in the text: at most half the queue, and nearly all of the rate.
    let summary = fs::read_to_string(folder.join("out/red/summary.csv")).expect("the last simulation wrote it");
    let mean = |subject: &str, measure: &str| -> f64 {
        let begin = format!("{subject},{measure},");
        let line = summary.lines().find(|line| line.starts_with(&begin)).unwrap_or_else(|| panic!("no {begin}"));
        line[begin.len()..].split(',').nth(1).and_then(|value| value.parse().ok()).expect("a number")
    };
    let waits = |kind: &str| mean(&format!("{kind},link gate->far"), "queueing mean");
    let goodput = |kind: &str| mean(&format!("{kind},flow transfers"), "goodput");
    assert!(waits("my-red") < waits("fifo") / 4.0, "{} against {}", waits("my-red"), waits("fifo"));
    assert!(goodput("my-red") > goodput("fifo") * 0.9, "{} against {}", goodput("my-red"), goodput("fifo"));
    let page = fs::read_to_string(folder.join("red.html")).expect("the plot is there");
    assert!(page.contains("my-red"), "the plot does not show the discipline");
    replayed(&folder);
    if live() {
        run_live(&folder);
    }
}

/// The JSON output of a script.
fn json(folder: &Path, script: &str) -> serde_json::Value {
    let output = shell(folder, script);
    assert!(output.status.success(), "{script}: {}", text(&output));
    serde_json::from_slice(&output.stdout).unwrap_or_else(|error| panic!("{script}: {error}: {}", text(&output)))
}

/// The discipline on a capture, beside FIFO: it drops packets, and the result is reproducible.
fn replayed(folder: &Path) {
    // 300 datagrams of 1000 bytes at 40 Mbit/s, into 20.
    let mut file: Vec<u8> =
        [0xa1b2_c3d4_u32, 0x0004_0002, 0, 0, 65_535, 101].into_iter().flat_map(u32::to_le_bytes).collect();
    for n in 0..300_u32 {
        file.extend([0, n * 200, 1_000, 1_000].into_iter().flat_map(u32::to_le_bytes));
        let mut packet = vec![0x45, 0, 0x03, 0xe8, 0, 0, 0, 0, 64, 17, 0, 0, 10, 0, 0, 1, 10, 0, 0, 2];
        packet.extend([0x10, (n % 3) as u8, 0x20, 0, 0x03, 0xd4, 0, 0]);
        packet.resize(1_000, 0);
        file.extend(packet);
    }
    fs::write(folder.join("c.pcap"), file).expect("it can be written");
    let script = "\"$CARGO_TARGET_DIR\"/debug/my-red-tidegate replay c.pcap --json --with demo/fifo.toml demo/my-red.toml my-red@20mbit";
    let told = json(folder, script);
    assert_eq!(told, json(folder, script), "two runs, one result");
    let [fifo, red, alone] = [0, 1, 2].map(|n| &told["configurations"][n]);
    let early = |run: &serde_json::Value| run["classes"][0]["dropped_packets"]["early"].as_u64().expect("a count");
    assert!(early(fifo) == 0 && early(red) > 0 && early(alone) > 0, "{told:#}");
    assert_ne!(fifo["digest"], red["digest"]);
}

/// A shaper on one end of a link between two namespaces, with more traffic than its rate, recorded. `$BINARY` and
/// `$FILE` select what runs.
const LIVE: &str = r#"
mount -t tmpfs none /run
unshare -n sleep 300 &
far=$!
until [ "$(readlink /proc/$far/ns/net)" != "$(readlink /proc/self/ns/net)" ]; do sleep 0.05; done
ip link add tg0 type veth peer name tg1
ip link set tg1 netns $far
ip address add 10.9.0.1/24 dev tg0
ip link set tg0 up
ip link set lo up
nsenter -t $far -n sh -c 'ip address add 10.9.0.2/24 dev tg1 && ip link set tg1 up'
rm -f said run.tgr
"$BINARY" run "$FILE" --interface tg0 --control off --record run.tgr --json > counts.json 2> said &
shaper=$!
until grep -q 'a packet came through' said; do kill -0 $shaper || { cat said >&2; exit 1; }; sleep 0.05; done
filling=$(seq -s' ' 200)
for n in $(seq 600); do echo "$filling" > /dev/udp/10.9.0.2/9 || true; done 2> /dev/null
kill -INT $shaper
code=0
wait $shaper || code=$?
kill $far
cat said >&2
exit $code
"#;

/// The discipline live, as root and without, and its recording repeated.
fn run_live(folder: &Path) {
    fs::write(folder.join("live.sh"), LIVE).expect("it can be written");
    // 400 kB take over three seconds at 1 Mbit/s, and are there at once.
    let slow = fs::read_to_string(folder.join("demo/my-red.toml")).expect("a file").replace("20mbit", "1mbit");
    fs::write(folder.join("slow.toml"), slow).expect("it can be written");
    let root = shell(folder, "test $(id -u) = 0").status.success();
    let ways: &[&str] = if root { &["unshare -nm", "unshare -Urnm"] } else { &["unshare -Urnm"] };
    for way in ways {
        let run = format!(
            "export BINARY=\"$CARGO_TARGET_DIR\"/debug/my-red-tidegate FILE=slow.toml; {way} timeout 120 bash -e live.sh && cat counts.json"
        );
        let output = shell(folder, &run);
        assert!(output.status.success(), "{way}: {}", text(&output));
        let told: serde_json::Value = serde_json::from_slice(&output.stdout).expect("JSON");
        let (dropped, through) = (&told["classes"][0]["dropped_packets"], &told["classes"][0]["through_packets"]);
        let by_red = dropped["early"].as_u64().zip(dropped["forced"].as_u64()).map(|(early, forced)| early + forced);
        assert!(by_red > Some(0) && through.as_u64() > Some(0), "{way}: {told:#}");
        let told = json(folder, "\"$CARGO_TARGET_DIR\"/debug/my-red-tidegate replay run.tgr --json");
        assert_eq!(told["recording"]["verdict"], "equal", "{way}: {told:#}");
        assert!(told["configurations"][0]["dropped_packets"].as_u64().is_some_and(|n| n > 0), "{way}: {told:#}");
        // A Tidegate without the discipline reports an error.
        let without = shell(folder, "tidegate replay run.tgr");
        assert!(!without.status.success() && text(&without).contains("my-red"), "{way}: {}", text(&without));
    }
}

#[test]
fn a_crate_is_written_once_and_never_over_another() {
    let scratch = Folder::new("new-qdisc");
    let output = shell(&scratch.0, "tidegate new-qdisc my_queue --path there");
    assert!(output.status.success(), "{}", text(&output));
    assert!(text(&output).contains("cargo run"), "{}", text(&output));
    let there = scratch.0.join("there");
    let read = |path: &str| fs::read_to_string(there.join(path)).unwrap_or_else(|error| panic!("{path}: {error}"));
    assert!(read("Cargo.toml").contains("name = \"my-queue\"") && read("Cargo.toml").contains("crates/core"));
    assert!(read("src/lib.rs").contains("pub struct MyQueue<P>"));
    assert!(read("demo/my-queue.toml").contains("kind = \"my-queue\""));
    assert!(!read("Cargo.lock").is_empty());
    assert!(!there.join("build.rs").exists() && !read("Cargo.toml").contains("translator"));

    // For the kernel there is more.
    let output = shell(&scratch.0, "tidegate new-qdisc my-queue --kernel --path kernel");
    assert!(output.status.success() && text(&output).contains("--in-kernel"), "{}", text(&output));
    let kernel = |path: &str| fs::read_to_string(scratch.0.join("kernel").join(path)).unwrap_or_default();
    assert!(kernel("build.rs").contains("src/decider.rs") && kernel("tests/kernel.rs").contains("use my_queue::"));
    assert!(kernel("Cargo.toml").contains("[build-dependencies]") && kernel("src/kind.rs").contains("fn kernel"));

    fs::write(there.join("src/lib.rs"), "mine").expect("it can be written");
    let output = shell(&scratch.0, "tidegate new-qdisc my-queue --path there");
    assert_eq!(output.status.code(), Some(2), "{}", text(&output));
    assert!(text(&output).contains("nothing is overwritten"), "{}", text(&output));
    assert_eq!(read("src/lib.rs"), "mine");

    for (command, told) in [
        ("tidegate new-qdisc fifo", "try my-fifo"),
        ("tidegate new-qdisc My.Queue", "lower case"),
        ("tidegate new-qdisc queue --tidegate nowhere", "neither a source tree"),
        ("tidegate new-qdisc queue --kernel --tidegate 0.1.0", "a source tree or a git repository"),
    ] {
        let output = shell(&scratch.0, command);
        assert_eq!(output.status.code(), Some(2), "{command}");
        assert!(text(&output).contains(told), "{command}: {}", text(&output));
    }
    assert!(!scratch.0.join("fifo").exists(), "a refused name leaves nothing behind");
}

#[test]
#[ignore = "builds the simulator once more, a minute: TIDEGATE_CI=nightly .ci/run does it"]
fn an_experiment_is_written_and_its_claims_hold() {
    let scratch = Folder::new("new-experiment");
    let output =
        shell(&scratch.0, "tidegate new-experiment my-claims && cd my-claims && cargo test && cargo run -- --latex");
    assert!(output.status.success(), "{}", text(&output));
    assert!(text(&output).contains("\\begin{tabular}"), "{}", text(&output));
    // What the scenario names as primary, the delay of the call, is printed and drawn, and nothing else.
    let there = scratch.0.join("my-claims");
    let output = shell(&there, "cargo run -- --figure it.svg --look column");
    let said = text(&output);
    assert!(output.status.success() && said.contains("delay p99") && !said.contains("goodput"), "{said}");
    let svg = fs::read_to_string(there.join("it.svg")).expect("a figure");
    assert!(svg.contains("delay p99") && !svg.contains("goodput"), "{svg}");
}

#[test]
fn crates_of_the_laboratory_are_written_with_few_dependencies() {
    let scratch = Folder::new("new-lab");
    for (command, file) in
        [("new-qdisc", "src/decider.rs"), ("new-congestion", "src/kind.rs"), ("new-experiment", "tests/claims.rs")]
    {
        let output = shell(&scratch.0, &format!("tidegate {command} my_{command} --path {command}"));
        assert!(output.status.success(), "{}", text(&output));
        let there = scratch.0.join(command);
        assert!(there.join(file).is_file() && there.join("Cargo.lock").is_file(), "{command}");
        // What is compiled: the lock file lists all of Tidegate's packages, the tree those of this crate.
        let tree =
            shell(&there, "cargo tree --offline --edges normal,build --prefix none --no-dedupe | sort -u | wc -l");
        // Beside it cargo says when it waits for another one.
        let counted = String::from_utf8_lossy(&tree.stdout);
        let packages: usize = counted.trim().parse().unwrap_or_else(|_| panic!("{}", text(&tree)));
        assert!((20..=70).contains(&packages), "{command}: {packages} packages");
        // Sweeps and artifacts need the laboratory, and nothing that shapes.
        if command != "new-experiment" {
            let tree = shell(
                &there,
                "cargo tree --offline --features lab --edges normal,build --prefix none --no-dedupe | sort -u",
            );
            let tree = String::from_utf8_lossy(&tree.stdout);
            assert!(tree.contains("tidegate v") && !tree.contains("tidegate-live"), "{command}: {tree}");
            assert!(tree.lines().count() < 200, "{command}: {tree}");
        }
        let output = shell(&scratch.0, &format!("tidegate {command} My.Name"));
        assert_eq!(output.status.code(), Some(2), "{command}");
    }
    let output = shell(&scratch.0, "tidegate new-congestion cubic");
    assert!(output.status.code() == Some(2) && text(&output).contains("try my-cubic"), "{}", text(&output));
}
