//! `tidegate artifact`: packed here, repeated with a clean home in another folder, and what hostile artifacts get.

mod sweeps;

use std::fs;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

use tidegate_testbed::files::Folder;

/// A line whose rate is in a file above the folder of the scenario.
const SCENARIO: &str = r#"
version = 1
sentence = "A transfer over a line that changes"
duration = "4s"
warm-up = "1s"
runs = 2
hosts = ["a", "b"]
[[link]]
from = "a"
to = "b"
rate = "8mbit"
rate-over-time = { kind = "mahimahi", file = "../traces/line.mahimahi" }
delay = "10ms"
[[variant]]
name = "fifo"
from = "a"
to = "b"
queue = { kind = "fifo", packets = 50 }
[[variant]]
name = "codel"
from = "a"
to = "b"
queue = { kind = "codel" }
[[flow]]
name = "bulk"
from = "a"
to = "b"
jitter = "1s"
workload = { kind = "bulk" }
"#;

fn tidegate(folder: &Path, arguments: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_tidegate")).args(arguments).current_dir(folder).output().expect("it starts")
}

fn text(output: &Output) -> String {
    format!("{}{}", String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr))
}

/// Writes a scenario and its trace, and packs it into `pack`.
fn packed(scratch: &Folder) -> PathBuf {
    let study = scratch.0.join("study");
    fs::create_dir_all(study.join("scenarios")).expect("a folder");
    fs::create_dir_all(study.join("traces")).expect("a folder");
    fs::write(study.join("scenarios/line.toml"), SCENARIO).expect("written");
    // A packet of 1500 B each 2 ms: 6 Mbit/s. The name in the scenario is a link to it.
    let trace: String = (1..=500).map(|n| format!("{}\n", n * 2)).collect();
    fs::write(study.join("traces/real"), trace).expect("written");
    symlink("real", study.join("traces/line.mahimahi")).expect("a link");
    let output = tidegate(
        &study,
        &[
            "artifact",
            "../pack",
            "--scenario",
            "scenarios/line.toml",
            "--figure",
            "queueing delay, link=delay",
            "--figure",
            "goodput",
            "--title",
            "Lines that <change>",
            "--claim",
            "CoDel waits less=queueing p50 of link a->b: codel < fifo",
            "--tolerance",
            "goodput=5",
        ],
    );
    assert!(output.status.success(), "{}", text(&output));
    scratch.0.join("pack")
}

/// Runs the script of an artifact as on another machine: without the environment of this one.
fn reproduce(artifact: &Path, tidegate: &str) -> Output {
    let home = artifact.parent().expect("a folder").join("home");
    fs::create_dir_all(&home).expect("a home");
    Command::new(artifact.join("reproduce"))
        .current_dir("/")
        .env_clear()
        .env("HOME", home)
        .env("PATH", "/usr/bin:/bin")
        .env("TIDEGATE", tidegate)
        .output()
        .expect("the script starts")
}

/// Makes the sums of an artifact again, as somebody who changed files of it would.
fn renew(artifact: &Path) {
    let script = "cut -c67- SHA256SUMS | xargs -d '\\n' sha256sum > new && mv new SHA256SUMS";
    let output = Command::new("sh").args(["-c", script]).current_dir(artifact).output().expect("sh starts");
    assert!(output.status.success(), "{}", text(&output));
}

/// Copies a folder, as an archive does.
fn copied(from: &Path, to: &Path) -> PathBuf {
    let output = Command::new("cp").arg("-r").arg(from).arg(to).output().expect("cp starts");
    assert!(output.status.success(), "{}", text(&output));
    to.to_owned()
}

const PROGRAM: &str = env!("CARGO_BIN_EXE_tidegate");

#[test]
fn an_artifact_is_reproduced_elsewhere_and_says_so() {
    let scratch = Folder::new("artifact");
    let pack = packed(&scratch);
    // The trace is where the scenario looks for it, and no link.
    let trace = pack.join("input/traces/line.mahimahi");
    assert!(trace.symlink_metadata().expect("packed").is_file() && pack.join("input/scenarios/line.toml").is_file());
    let readme = fs::read_to_string(pack.join("README.md")).expect("a README");
    for part in [
        "Lines that \\<change\\>",
        "## Badges",
        "## Claims",
        "**C1**: CoDel waits less (queueing p50 of link a-\\>b: codel \\< fifo)",
        "## Requirements",
        "## Steps",
        "## Expected result",
        "| 1 | not reproduced",
        "## Reuse",
        "input/traces/line.mahimahi",
        "5 % for goodput",
        "has the SHA-256\n  `",
        "on one such processor",
    ] {
        assert!(readme.contains(part), "{part} in {readme}");
    }
    fs::remove_dir_all(scratch.0.join("study")).expect("the machine of the authors is gone");
    let elsewhere = scratch.0.join("another place");
    fs::create_dir_all(&elsewhere).expect("a folder");
    let moved = elsewhere.join("pack");
    fs::rename(&pack, &moved).expect("moved");
    let output = reproduce(&moved, PROGRAM);
    assert_eq!(output.status.code(), Some(0), "{}", text(&output));
    assert!(text(&output).ends_with("reproduced\n") && text(&output).contains("bit for bit"), "{}", text(&output));
    assert!(text(&output).contains("claim supported: CoDel waits less"), "{}", text(&output));
    // The program is that which packed it, as the README says; a copy with another byte is another build.
    assert!(
        text(&output).contains(", the same program: ") && text(&output).contains("they took "),
        "{}",
        text(&output)
    );
    let sum = Command::new("sha256sum").arg(PROGRAM).output().expect("sha256sum starts");
    assert!(readme.contains(text(&sum).split(' ').next().expect("a sum")), "{readme}");
    let other = scratch.0.join("tidegate");
    let mut bytes = fs::read(PROGRAM).expect("the program");
    bytes.push(0);
    fs::write(&other, bytes).expect("written");
    fs::set_permissions(&other, std::os::unix::fs::PermissionsExt::from_mode(0o755)).expect("executable");
    let output = reproduce(&moved, &other.display().to_string());
    assert!(output.status.code() == Some(0) && text(&output).contains(", another build: "), "{}", text(&output));
    for file in ["delay.svg", "delay.pdf", "report.html"] {
        let [expected, found] = ["expected", "reproduced"].map(|folder| fs::read(moved.join(folder).join(file)));
        assert_eq!(expected.expect("a figure"), found.expect("a figure"), "{file}");
    }
    // Again, over what the first time wrote.
    assert_eq!(reproduce(&moved, PROGRAM).status.code(), Some(0));
    let missing = reproduce(&moved, "/nowhere/tidegate");
    assert_eq!(missing.status.code(), Some(2), "{}", text(&missing));
    assert!(text(&missing).contains("README.md says how to install it"), "{}", text(&missing));
    // A file of the working directory needs no folder before its name.
    let beside = tidegate(&moved.join("input/scenarios"), &["artifact", "../../../beside", "--scenario", "line.toml"]);
    assert!(beside.status.success(), "{}", text(&beside));
    // Nothing is packed over it.
    let again = tidegate(&elsewhere, &["artifact", "pack", "--scenario", "pack/input/scenarios/line.toml"]);
    assert!(again.status.code() == Some(2) && text(&again).contains("nothing is overwritten"), "{}", text(&again));
}

/// A manifest with other digests of the runs, as another version may have them.
fn with_other_runs(manifest: &str) -> String {
    let parsed: serde_json::Value = serde_json::from_str(manifest).expect("JSON");
    let digests = parsed["digests"].as_array().expect("a list").iter().filter_map(serde_json::Value::as_str);
    digests.fold(manifest.to_owned(), |text, digest| text.replace(digest, &digest.chars().rev().collect::<String>()))
}

#[test]
fn other_results_are_within_their_tolerance_or_named() {
    let scratch = Folder::new("artifact-other");
    let pack = packed(&scratch);
    let other_digest = |name: &str, version: Option<&str>| {
        let artifact = copied(&pack, &scratch.0.join(name));
        let path = artifact.join("artifact.json");
        let manifest = fs::read_to_string(&path).expect("a manifest");
        let parsed: serde_json::Value = serde_json::from_str(&manifest).expect("JSON");
        let digest = parsed["digest"].as_str().expect("a digest");
        let mut changed = manifest.replace(digest, &"0".repeat(digest.len()));
        if let Some(version) = version {
            let ours = format!("\"version\": {}", parsed["version"]);
            changed = with_other_runs(&changed.replace(&ours, &format!("\"version\": \"{version}\"")));
        }
        fs::write(path, changed).expect("written");
        // As another version would have written it.
        let path = artifact.join("README.md");
        let mut readme = fs::read_to_string(&path).expect("a README").replace(digest, &"0".repeat(digest.len()));
        if let Some(version) = version {
            readme = readme.replace(parsed["version"].as_str().expect("a version"), version);
        }
        fs::write(path, readme).expect("written");
        renew(&artifact);
        reproduce(&artifact, PROGRAM)
    };
    // Another digest with the same values: another version may have it, the same may not.
    let output = other_digest("close", Some("0.0.7"));
    assert_eq!(output.status.code(), Some(0), "{}", text(&output));
    assert!(text(&output).ends_with("reproduced within the tolerances\n"), "{}", text(&output));
    // Two runs tell little of some values, and what cannot be compared is named.
    assert!(text(&output).contains("\nnot evidence: "), "{}", text(&output));
    assert!(text(&output).contains("not checked with another version: expected/*.pdf"), "{}", text(&output));
    let output = other_digest("false", None);
    assert_eq!(output.status.code(), Some(1), "{}", text(&output));
    assert!(text(&output).contains("with the same version it must be equal"), "{}", text(&output));
    assert!(text(&output).contains("not checked with another digest: expected/*.pdf"), "{}", text(&output));
    // Other values, with intervals that reach to the true ones, as an author may write them.
    let forged = copied(&pack, &scratch.0.join("forged"));
    let path = forged.join("artifact.json");
    let mut manifest: serde_json::Value = serde_json::from_slice(&fs::read(&path).expect("a manifest")).expect("JSON");
    manifest["version"] = "0.0.7".into();
    manifest["digest"] = "0".repeat(32).into();
    for value in manifest["values"].as_array_mut().expect("values") {
        let mean = value["mean"].as_f64().expect("a mean");
        (value["mean"], value["half_width_95"]) = ((mean * 30.0).into(), (mean * 30.0).into());
    }
    // Runs with the expected digests have the expected values, whatever the artifact says of all of them.
    fs::write(&path, manifest.to_string()).expect("written");
    renew(&forged);
    let said = text(&reproduce(&forged, PROGRAM));
    assert!(said.contains("of the runs, each of which has the digest that is expected"), "{said}");
    assert!(said.contains("is expected; measured was") && !said.contains("95 % interval of these runs"), "{said}");
    fs::write(&path, with_other_runs(&manifest.to_string())).expect("written");
    renew(&forged);
    let output = reproduce(&forged, PROGRAM);
    assert_eq!(output.status.code(), Some(1), "{}", text(&output));
    assert!(text(&output).contains("95 % interval of these runs"), "{}", text(&output));
    // Another line.
    let other = copied(&pack, &scratch.0.join("other"));
    let path = other.join("input/scenarios/line.toml");
    fs::write(&path, fs::read_to_string(&path).expect("a scenario").replace("10ms", "40ms")).expect("written");
    renew(&other);
    let output = reproduce(&other, PROGRAM);
    assert_eq!(output.status.code(), Some(1), "{}", text(&output));
    let said = text(&output);
    assert!(said.contains("delay") && said.contains("measured was") && said.contains("not reproduced: "), "{said}");
}

#[test]
fn what_was_changed_after_it_was_packed_is_found() {
    let scratch = Folder::new("artifact-changed");
    let pack = packed(&scratch);
    let files = [
        ("artifact.json", "\"mean\": ", "\"mean\": 9"),
        ("README.md", "| codel |", "| codel 1 |"),
        ("README.md", "CoDel waits less", "CoDel waits 50 times less"),
        ("expected/delay.svg", "</svg>", "<g/></svg>"),
        ("expected/delay.pdf", "%%EOF", "%%EOF\n"),
        ("expected/report.html", "</html>", "<p></html>"),
    ];
    for (n, (file, from, to)) in files.into_iter().enumerate() {
        let artifact = copied(&pack, &scratch.0.join(n.to_string()));
        let path = artifact.join(file);
        let bytes = fs::read(&path).expect("a file");
        let at = bytes.windows(from.len()).position(|window| window == from.as_bytes()).expect(file);
        let changed = [&bytes[..at], to.as_bytes(), &bytes[at + from.len()..]].concat();
        fs::write(&path, changed).expect("written");
        let output = reproduce(&artifact, PROGRAM);
        assert_eq!(output.status.code(), Some(2), "{}", text(&output));
        assert!(text(&output).contains(&format!("{file} was changed after it was packed")), "{}", text(&output));
        // With its sum changed too it is still not what the runs give.
        renew(&artifact);
        let output = reproduce(&artifact, PROGRAM);
        assert_eq!(output.status.code(), Some(1), "{file}: {}", text(&output));
    }
    fs::write(pack.join("LICENSE"), "free").expect("written");
    let output = reproduce(&pack, PROGRAM);
    assert!(output.status.success() && text(&output).contains("LICENSE: not packed"), "{}", text(&output));
    fs::remove_file(pack.join("expected/delay.pdf")).expect("removed");
    assert_eq!(reproduce(&pack, PROGRAM).status.code(), Some(2));
}

/// Whoever names another version has the values compared with tolerances, but the README cannot say what `artifact.json` does not.
#[test]
fn a_readme_says_what_is_compared_whatever_the_version() {
    let scratch = Folder::new("artifact-readme");
    let pack = packed(&scratch);
    let json = fs::read_to_string(pack.join("artifact.json")).expect("a manifest");
    let parsed: serde_json::Value = serde_json::from_str(&json).expect("JSON");
    let [version, digest] = ["version", "digest"].map(|key| parsed[key].as_str().expect("a text").to_owned());
    let older = |text: &str| text.replace(&version, "0.0.7").replace(&digest, &"0".repeat(32));
    let readme = older(&fs::read_to_string(pack.join("README.md")).expect("a README"));
    let row = readme.lines().find(|line| line.contains("| codel |")).expect("a row of the table");
    let number = row.split('|').nth(3).expect("a cell");
    for (n, (readme, part)) in [
        (readme.clone(), None),
        (readme.replacen(number, " 99.9 ", 1), Some("table")),
        (readme.replace("CoDel waits less", "FIFO is best"), Some("claims")),
        (readme.replace("## Requirements", "- **C9**: FIFO is best\n## Requirements"), Some("claims")),
        (readme.replace(&"0".repeat(32), &digest), Some("digest")),
        (readme.replace("0.0.7", &version), Some("version")),
    ]
    .into_iter()
    .enumerate()
    {
        let artifact = copied(&pack, &scratch.0.join(n.to_string()));
        fs::write(artifact.join("artifact.json"), with_other_runs(&older(&json))).expect("written");
        fs::write(artifact.join("README.md"), readme).expect("written");
        renew(&artifact);
        let output = reproduce(&artifact, PROGRAM);
        let expected = part.map(|part| match part {
            "claims" => "README.md: its claims are not those of artifact.json".to_owned(),
            part => format!("README.md: its {part} is not that of artifact.json"),
        });
        assert_eq!(output.status.code(), Some(i32::from(part.is_some())), "{part:?}: {}", text(&output));
        assert!(expected.is_none_or(|line| text(&output).contains(&line)), "{part:?}: {}", text(&output));
    }
}

/// The digest of each run is that of the command, and is checked.
#[test]
fn digests_of_runs_are_checked() {
    let scratch = Folder::new("artifact-digests");
    let pack = packed(&scratch);
    let json = fs::read_to_string(pack.join("artifact.json")).expect("a manifest");
    let parsed: serde_json::Value = serde_json::from_str(&json).expect("JSON");
    let scenario = pack.join("input/scenarios/line.toml").display().to_string();
    for (n, digest) in parsed["digests"].as_array().expect("a list").iter().enumerate() {
        let seed = (n + 1).to_string();
        let output = tidegate(&scratch.0, &["simulate", &scenario, "--seed", &seed, "--runs", "1", "--hash"]);
        assert_eq!(digest.as_str(), Some(text(&output).trim()), "seed {seed}");
    }
    let second = parsed["digests"][1].as_str().expect("a digest");
    fs::write(pack.join("artifact.json"), json.replace(second, &"0".repeat(32))).expect("written");
    renew(&pack);
    let output = reproduce(&pack, PROGRAM);
    let said = text(&output);
    assert!(output.status.code() == Some(1) && said.contains(&format!("digest of seed 2 is {second}")), "{said}");
    // A reader who has seen enough, as `head`, does not make it reproduced.
    let mut command = Command::new(PROGRAM);
    command.args(["artifact", "--reproduce"]).arg(&pack).stdout(Stdio::piped()).stderr(Stdio::null());
    let mut closed = command.spawn().expect("it starts");
    drop(closed.stdout.take());
    assert_eq!(closed.wait().expect("it ends").code(), Some(1));
}

/// A line that two disciplines nearly fill, of which one drops a little early.
const NEAR: &str = r#"
version = 1
duration = "20s"
hosts = ["a", "b"]
link = [{ from = "a", to = "b", rate = "10mbit" }]
flow = [{ name = "sensor", from = "a", to = "b", workload = { kind = "poisson", rate = "9.5mbit" } }]
variant = [
    { name = "fifo", from = "a", to = "b", queue = { kind = "fifo", limit = "200kB" } },
    { name = "codel", from = "a", to = "b", queue = { kind = "codel" } },
]
"#;

#[test]
fn an_equality_is_claimed_where_it_is_shown() {
    let scratch = Folder::new("artifact-equality");
    fs::write(scratch.0.join("near.toml"), NEAR).expect("written");
    let pack = |folder: &str, claim: &str| {
        let output =
            tidegate(&scratch.0, &["artifact", folder, "--scenario", "near.toml", "--runs", "5", "--claim", claim]);
        (output.status.code(), text(&output))
    };
    let (code, said) = pack("apart", "delay p99 of flow sensor: codel = fifo");
    assert!(code == Some(1) && said.contains("are not shown to be equal within 2 % by 5 runs"), "{said}");
    assert!(!scratch.0.join("apart").exists());
    // What is told apart may be equal for all purposes.
    let as_much = "goodput of flow sensor: codel = fifo";
    for (folder, claim) in [("less", as_much.replace('=', "<")), ("equal", format!("As much={as_much}"))] {
        let (code, said) = pack(folder, &claim);
        assert_eq!(code, Some(0), "{said}");
    }
    let readme = fs::read_to_string(scratch.0.join("equal/README.md")).expect("a README");
    assert!(readme.contains(&format!("As much ({as_much})")), "{readme}");
    assert!(readme.contains(" times as much, equal within 2 % (two one-sided tests), p "), "{readme}");
    let again = reproduce(&scratch.0.join("equal"), PROGRAM);
    assert!(again.status.success() && text(&again).contains("claim supported: As much"), "{}", text(&again));
}

#[test]
fn a_claim_that_the_results_do_not_support_is_refused() {
    let scratch = Folder::new("artifact-claims");
    let pack = packed(&scratch);
    let line = "study/scenarios/line.toml";
    // The rate of a line that changes is a mean, and said to be one.
    let checked = text(&tidegate(&scratch.0, &["check", line]));
    assert!(checked.contains("6.00 Mbit/s in the mean, changing"), "{checked}");
    let wrong = |folder: &str, claim: &str| {
        let output = tidegate(&scratch.0, &["artifact", folder, "--scenario", line, "--claim", claim]);
        (output.status.code(), text(&output))
    };
    let (code, said) = wrong("turned", "queueing p50 of link a->b: fifo < codel");
    assert!(code == Some(1) && said.contains("claim not supported") && said.contains("fifo has"), "{said}");
    // Nothing is left of it, so that the corrected command finds the folder free.
    assert!(!scratch.0.join("turned").exists());
    // A claim may be about a measure that the comparison does not show by itself; of many that it shows it is the only claim.
    let mean = "delay mean of flow bulk: codel < fifo";
    let output = tidegate(&scratch.0, &["artifact", "turned", "--scenario", line, "--runs", "5", "--claim", mean]);
    assert!(output.status.success(), "{}", text(&output));
    let (code, said) = wrong("unknown", "queueing p50 of link b->a: fifo < codel");
    assert!(
        code == Some(2) && said.contains("there is no subject `link b->a`; there are flow bulk, link a->b"),
        "{said}"
    );
    let (code, said) = wrong("unknown", "queueing p50 of link a->b: fifo < coddel");
    assert!(code == Some(2) && said.contains("there is no variant `coddel`; there are fifo, codel"), "{said}");
    let (code, said) = wrong("unknown", "queueing p5 of link a->b: fifo < codel");
    assert!(code == Some(2) && said.contains("there is no measure of link a->b `queueing p5`"), "{said}");
    let (code, said) = wrong("words", "CoDel waits less");
    assert!(code == Some(2) && said.contains("MEASURE of SUBJECT[ at POINT]: VARIANT < VARIANT"), "{said}");
    // A variant that did not reach it in some runs is tested by all of them; that it is equal to another is not.
    fs::write(scratch.0.join("duel.toml"), crate::told_apart::DUEL).expect("written");
    let duel = |folder: &str, more: &[&str]| {
        let arguments = ["artifact", folder, "--scenario", "duel.toml", "--runs", "4"];
        let output = tidegate(&scratch.0, &[&arguments[..], more].concat());
        (output.status.code(), text(&output))
    };
    let (code, said) = duel("open", &["--claim", "short=completion p99 of flow mice: fair < one"]);
    assert!(code == Some(1) && said.contains("fair and one are not told apart by 4 runs"), "{said}");
    assert!(!scratch.0.join("open").exists());
    let (code, said) = duel("open", &["--claim", "short=completion p99 of flow mice: fair = one"]);
    assert!(code == Some(1) && said.contains("did not reach it in "), "{said}");
    assert!(said.contains(" of 4 runs, so that equality is not tested"), "{said}");
    // The claims that were found share their correction, which is said once.
    let (code, said) = duel("found", &[]);
    assert_eq!(code, Some(0), "{said}");
    let readme = fs::read_to_string(scratch.0.join("found/README.md")).expect("a README");
    let claims =
        readme.split_once("## Claims").and_then(|(_, rest)| rest.split_once("## Requirements")).expect("claims").0;
    assert!(claims.matches(", p ").count() > 3, "{claims}");
    assert!(
        claims.matches("corrected").count() == 1 && claims.contains("\nEach p is corrected for all 28 differences"),
        "{claims}"
    );
    // A claim about what was planned has its correction, and another one that of the claims.
    let planned = "primary = [\"completion p50 of flow mice\", \"goodput of flow bulk\"]\n";
    fs::write(scratch.0.join("planned.toml"), format!("{planned}{}", crate::told_apart::DUEL)).expect("written");
    let claims = ["completion p50 of flow mice: fair < one", "delay p50 of flow bulk: fair < one"];
    let arguments = ["artifact", "planned", "--scenario", "planned.toml", "--runs", "8"];
    let output = tidegate(&scratch.0, &[&arguments[..], &["--claim", claims[0], "--claim", claims[1]]].concat());
    assert!(output.status.success(), "{}", text(&output));
    let readme = fs::read_to_string(scratch.0.join("planned/README.md")).expect("a README");
    let line = |claim: &str| readme.lines().find(|line| line.contains(&claim.replace('<', "\\<"))).unwrap_or_default();
    let all = format!("{}\n{}", line(claims[0]), line(claims[1]));
    assert!(
        line(claims[0]).contains("times as much, p") && line(claims[0]).contains("differences that were planned"),
        "{all}"
    );
    assert!(!line(claims[1]).contains("corrected") && line(claims[1]).contains("not one of the quantities"), "{all}");
    let (code, said) = duel("mean", &["--claim", "short=completion mean of flow mice: fair < one"]);
    assert!(code == Some(1) && said.contains("so that nothing was tested; claim a percentile"), "{said}");
    // The table of an artifact says in how many runs it was not reached.
    let (code, said) = duel("table", &[]);
    assert!(code == Some(0), "{said}");
    let readme = fs::read_to_string(scratch.0.join("table/README.md")).expect("a README");
    assert!(["n.r. (1/4)", "n.r. (2/4)", "n.r. (3/4)"].iter().any(|open| readme.contains(open)), "{readme}");
    // One that somebody turned in the artifact, whose digest is right.
    let path = pack.join("artifact.json");
    let manifest = fs::read_to_string(&path).expect("a manifest");
    let turned = manifest
        .replace("\"less\": \"codel\"", "\"less\": \"fifo\"")
        .replace("\"more\": \"fifo\"", "\"more\": \"codel\"");
    assert_ne!(manifest, turned);
    fs::write(&path, turned).expect("written");
    renew(&pack);
    let output = reproduce(&pack, PROGRAM);
    let said = text(&output);
    assert!(output.status.code() == Some(1) && said.contains("not reproduced: 2 of"), "{said}");
}

#[test]
fn an_artifact_cannot_reach_outside_of_its_folder() {
    let scratch = Folder::new("artifact-hostile");
    let pack = packed(&scratch);
    fs::write(scratch.0.join("secret"), "secret\n").expect("written");
    let outside = scratch.0.join("outside");
    fs::create_dir_all(&outside).expect("a folder");
    let hostile = |name: &str, change: &dyn Fn(&Path)| {
        let artifact = copied(&pack, &scratch.0.join(name));
        change(&artifact);
        renew(&artifact);
        let output = reproduce(&artifact, PROGRAM);
        assert_eq!(output.status.code(), Some(2), "{name}: {}", text(&output));
        assert!(!text(&output).contains("secret\n"), "{name}: {}", text(&output));
        text(&output)
    };
    let edit = |path: PathBuf, from: &str, to: &str| {
        let before = fs::read_to_string(&path).expect("a file");
        assert!(before.contains(from), "{from}");
        fs::write(&path, before.replace(from, to)).expect("written");
    };
    let up = hostile("up", &|artifact| {
        edit(artifact.join("input/scenarios/line.toml"), "../traces/line.mahimahi", "../../../secret");
    });
    assert!(up.contains("leads out of the artifact"), "{up}");
    let root = hostile("root", &|artifact| {
        edit(artifact.join("input/scenarios/line.toml"), "../traces/line.mahimahi", "/etc/hostname");
    });
    assert!(root.contains("leads out of the artifact"), "{root}");
    let link = hostile("link", &|artifact| {
        fs::remove_file(artifact.join("input/traces/line.mahimahi")).expect("removed");
        symlink("../../../secret", artifact.join("input/traces/line.mahimahi")).expect("a link");
    });
    assert!(link.contains("symbolic link"), "{link}");
    let folder = hostile("folder", &|artifact| {
        fs::remove_dir_all(artifact.join("input/traces")).expect("removed");
        symlink("../../pack/input/traces", artifact.join("input/traces")).expect("a link");
    });
    assert!(folder.contains("symbolic link"), "{folder}");
    for beside in ["x", "input/x", "expected/x"] {
        let said = hostile(&format!("beside-{}", beside.replace('/', "-")), &|artifact| {
            symlink("/etc/hostname", artifact.join(beside)).expect("a link");
        });
        assert!(said.contains(&format!("{beside} is a symbolic link")), "{said}");
    }
    hostile("scenario", &|artifact| {
        edit(artifact.join("artifact.json"), "scenarios/line.toml", "../../pack/input/scenarios/line.toml")
    });
    hostile("figure", &|artifact| {
        edit(artifact.join("artifact.json"), "\"name\": \"delay\"", "\"name\": \"../../outside/x\"")
    });
    hostile("written", &|artifact| symlink("../outside", artifact.join("reproduced")).expect("a link"));
    hostile("json", &|artifact| fs::write(artifact.join("artifact.json"), "{").expect("written"));
    assert_eq!(fs::read_dir(&outside).expect("a folder").count(), 0, "something was written outside");
    // A link in place of a figure is replaced, not followed.
    let artifact = copied(&pack, &scratch.0.join("replaced"));
    fs::create_dir(artifact.join("reproduced")).expect("a folder");
    symlink("../../secret", artifact.join("reproduced/delay.svg")).expect("a link");
    assert_eq!(reproduce(&artifact, PROGRAM).status.code(), Some(0));
    assert_eq!(fs::read_to_string(scratch.0.join("secret")).expect("a file"), "secret\n");
    // Absolute paths are refused when an artifact is packed.
    let study = scratch.0.join("study/scenarios/absolute.toml");
    let trace = scratch.0.join("study/traces/real").display().to_string();
    fs::write(&study, SCENARIO.replace("../traces/line.mahimahi", &trace)).expect("written");
    let output = tidegate(&scratch.0, &["artifact", "new", "--scenario", "study/scenarios/absolute.toml"]);
    assert!(output.status.code() == Some(2) && text(&output).contains("absolute path"), "{}", text(&output));
}

/// A paper has several experiments: one artifact has a folder for each, and repeats them all.
#[test]
fn several_scenarios_are_one_artifact() {
    let scratch = Folder::new("parts");
    packed(&scratch);
    let study = scratch.0.join("study");
    fs::write(study.join("duel.toml"), crate::told_apart::DUEL.replace("10s", "2s")).expect("written");
    let scenarios = ["--scenario", "scenarios/line.toml", "--scenario", "duel.toml"];
    let pack = |more: &[&str]| tidegate(&study, &[&["artifact", "../both"], &scenarios[..], more].concat());
    // A claim says which of several it is about, and which there are.
    let refused = pack(&["--claim", "goodput of flow bulk: fifo < codel"]);
    assert!(
        refused.status.code() == Some(2) && text(&refused).contains("begin it with `line: ` or `duel: `"),
        "{}",
        text(&refused)
    );
    let waits = "queueing p50 of link a->b: codel < fifo";
    let made = pack(&["--runs", "2", "--title", "Two experiments", "--claim", &format!("line: It waits less={waits}")]);
    assert!(made.status.success(), "{}", text(&made));
    let both = scratch.0.join("both");
    let readme = fs::read_to_string(both.join("README.md")).expect("a README");
    assert!(readme.starts_with("# Two experiments\n") && readme.contains("| [line](line/README.md) |"), "{readme}");
    for _ in 0..2 {
        // The files that the first repetition wrote are no part of the artifact.
        let again = reproduce(&both, env!("CARGO_BIN_EXE_tidegate"));
        assert!(again.status.success() && text(&again).ends_with("\nreproduced: 2 of 2\n"), "{}", text(&again));
        assert!(!text(&again).contains("not packed"), "{}", text(&again));
        let line = text(&again).split("\nline\n").nth(1).expect("a part").to_owned();
        assert_eq!(line.matches("claim supported: It waits less").count(), 1, "{line}");
    }
    let alone = reproduce(&both.join("duel"), env!("CARGO_BIN_EXE_tidegate"));
    assert!(alone.status.success(), "{}", text(&alone));
    // One of them that is not as it was packed.
    let path = both.join("duel/artifact.json");
    let turned = fs::read_to_string(&path).expect("a manifest").replacen("\"mean\": ", "\"mean\": 1", 1);
    fs::write(path, turned).expect("written");
    let damaged = reproduce(&both, env!("CARGO_BIN_EXE_tidegate"));
    assert!(
        damaged.status.code() == Some(2) && text(&damaged).contains("duel/artifact.json was changed"),
        "{}",
        text(&damaged)
    );
    renew(&both.join("duel"));
    renew(&both);
    let wrong = reproduce(&both, env!("CARGO_BIN_EXE_tidegate"));
    assert!(wrong.status.code() == Some(1) && text(&wrong).ends_with("reproduced: 1 of 2\n"), "{}", text(&wrong));
}
