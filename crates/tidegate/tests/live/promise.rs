//! Promises that programs hold: by `tidegate promise -- COMMAND`, and by the clients in other languages.

use std::net::UdpSocket;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use serde_json::Value;
use tidegate_testbed::Ended;
use tidegate_testbed::veth::{DEVICE, RIGHT};

use crate::run::holding_ipv6;
use crate::running::{Printing, Traffic};
use crate::steer::stage::{Finished, Stage, finished, whole};

const SHAPER: &str = r#"version = 1

[shaper]
rate = "6mbit"

[[class]]
name = "media"
rate = "3mbit"

[[class]]
name = "rest"
rate = "1mbit"
default = true

[[rule]]
class = "media"
destination-port = "5000-5099"
"#;
/// Without a promise a flow of 4 Mbit/s beside four others is at its limit after 10 ms; with one of 4.8 Mbit/s it may queue 153 kB.
const NARROW: &str = r#"version = 1

[interface]
data-path = "user-space"

[[up.class]]
name = "media"
rate = "8mbit"
limit = "256kB"
flow-limit = "3kB"
default = true

[[down.class]]
name = "all"
rate = "10mbit"
default = true
"#;
const FREE: &str = "nothing is promised";

/// `tidegate promise` with `options` before `program`.
fn under(stage: &Stage, options: &[&str], program: &[&str]) -> Command {
    let mut command = stage.command(&[&["promise"], options].concat());
    command.arg("--").args(program);
    command
}

fn promises(stage: &Stage) -> Vec<Value> {
    serde_json::from_str(&stage.does(&["promise", "--json"])).unwrap()
}

/// The promise is for what a descendant of the program sends, and a second program that asks for too much does not run.
pub fn a_program_runs_under_its_promise() -> Ended {
    let stage = Stage::new(SHAPER);
    let _receiver = stage.pair.right.run(|| UdpSocket::bind((RIGHT[0], 5_004)).unwrap()).unwrap();
    let data = stage.scratch.write("data", vec![7; 4 << 20]);
    let send = format!(
        "trap 'kill $!; exit 9' TERM; {} pace --rate 400kbit --packet-size 500B --to udp://{}:5004 {} & wait",
        env!("CARGO_BIN_EXE_tidegate"),
        RIGHT[0],
        data.display()
    );
    let mut held = Printing::start(under(&stage, &["--min", "2500kbit", "--class", "media"], &["sh", "-c", &send]));
    held.prints("in class media: at least 2.50 Mbit/s a flow; no flow of it yet");
    stage.until("the flow under the promise", |stage| promises(stage)[0]["flows"] == 1);
    // What becomes of the promise is printed while the program runs.
    held.prints("promised");
    let listed = &promises(&stage)[0];
    assert_eq!(
        (&listed["minimum_bps"], &listed["target"]["pid"]),
        (&2_500_000.into(), &held.child.id().into()),
        "{listed}"
    );

    let mark = stage.scratch.0.join("mark");
    let touch = ["touch", mark.to_str().unwrap()];
    let refused = finished(under(&stage, &["--min", "1mbit", "--class", "media"], &touch));
    assert_eq!(refused.code, Some(125), "{}", refused.err);
    for text in ["500kbit left to promise, not 1mbit", "touch was not run; with --anyway it is run without a promise"] {
        assert!(refused.err.contains(text), "{text:?} is not in {}", refused.err);
    }
    assert!(!mark.exists());
    let anyway = finished(under(&stage, &["--min", "1mbit", "--class", "media", "--anyway"], &touch));
    assert_eq!(anyway.code, Some(0), "{}", anyway.err);
    assert!(anyway.err.contains("left to promise, not 1mbit"), "{}", anyway.err);
    assert!(anyway.err.contains("touch runs without a promise") && mark.exists(), "{}", anyway.err);

    held.signal(libc::SIGTERM);
    assert_eq!(held.end().0.code(), Some(9));
    stage.until("the end of the promise", |stage| stage.does(&["promise"]).contains(FREE));
    stage.end();
    Ended::Passed
}

pub fn signals_and_exit_codes_of_the_program_pass_through() -> Ended {
    let stage = Stage::new(SHAPER);
    let code = |program: &[&str]| {
        let finished = finished(under(&stage, &["--min", "1mbit"], program));
        (finished.code, finished.err)
    };
    let (status, said) = code(&["sh", "-c", "exit 3"]);
    assert_eq!(status, Some(3), "{said}");
    assert_eq!(code(&["sh", "-c", "kill -TERM $$"]).0, Some(128 + 15));
    let (status, said) = code(&["/nosuch/program"]);
    assert!(status == Some(127) && said.contains("cannot run `/nosuch/program`"), "{status:?}: {said}");
    assert_eq!(code(&["/etc/passwd"]).0, Some(126));
    assert_eq!(finished(under(&stage, &[], &["true"])).code, Some(2), "a promise of nothing");
    let script = "trap 'echo heard; exit 7' USR1; echo ready; while :; do sleep 0.05; done";
    let mut held = Printing::start(under(&stage, &["--min", "1mbit"], &["sh", "-c", script]));
    held.prints("ready");
    assert_eq!(promises(&stage).len(), 1);
    held.signal(libc::SIGUSR1);
    held.prints("heard");
    assert_eq!(held.end().0.code(), Some(7));
    stage.until("the end of the promise", |stage| stage.does(&["promise"]).contains(FREE));
    stage.end();
    Ended::Passed
}

/// A flow with a promise beside four rivals that together fill its class.
struct Contest {
    promised: Traffic,
    rivals: Vec<Traffic>,
}

impl Contest {
    /// Makes the promise, and has all five send 4 Mbit/s each until a thousand packets of the promised flow have arrived.
    fn begin(stage: &Stage) -> Self {
        stage.does(&["promise", "--port", "5004", "--min", "4800kbit", "--for", "1h", "--direction", "up"]);
        let promised = stage.traffic(5_004, 1_000);
        let rivals = (5_010..5_014).map(|port| stage.traffic(port, 1_000)).collect();
        promised.until(1_000);
        Self { promised, rivals }
    }
    /// Ends all flows: the promised one has lost nothing, though its rivals have.
    fn end(self) {
        let arrivals = self.promised.stop();
        let lost: u64 = self.rivals.into_iter().map(|rival| rival.stop_lossy().lost()).sum();
        assert!(lost > 100, "the rivals fill the class, but lost {lost}");
        whole(&arrivals);
    }
}

/// A successor makes promises again before it takes over packets: a flow that has one loses nothing to its rivals meanwhile.
pub fn a_promise_holds_while_another_process_takes_over() -> Ended {
    let mut stage = Stage::new(NARROW);
    let contest = Contest::begin(&stage);
    // The promise is kept for a successor twice a second.
    thread::sleep(Duration::from_secs(1));
    for _ in 0..3 {
        stage.hand_over();
        assert_eq!(promises(&stage).len(), 1);
    }
    contest.end();
    stage.end();
    Ended::Passed
}

/// A change that replaces the tree takes all promises from the engine. They are made again before its proof, which here takes long,
/// because another program holds some of the probes.
pub fn a_promise_holds_while_a_change_is_proven() -> Ended {
    // A few packets may come before that.
    let text = NARROW.replace("flow-limit = \"3kB\"", "flow-limit = \"30kB\"");
    let stage = Stage::new(&text);
    let other = holding_ipv6(&stage.pair);
    let contest = Contest::begin(&stage);
    let more =
        "[[up.class]]\nname = \"more\"\nrate = \"100kbit\"\n[[up.rule]]\nclass = \"more\"\ndestination-port = 6000\n";
    let path = stage.scratch.write("more.toml", text + more);
    stage.refuses(1, &["apply", path.to_str().unwrap()], &["no IPv6 packet"]);
    drop(other);
    assert_eq!(promises(&stage).len(), 1);
    contest.end();
    stage.end();
    Ended::Passed
}

/// A data path has its promises before it takes packets from another one, into the kernel and back.
pub fn a_promise_holds_while_the_traffic_moves() -> Ended {
    let kernel = NARROW.replace("user-space", "auto");
    let stage = Stage::new(&kernel);
    let is_in_kernel = || stage.status()["directions"][0]["in_kernel"].is_string();
    // An emulated machine takes long to verify the program.
    let began = Instant::now();
    while stage.status()["directions"][0]["awaits_kernel"] == true && began.elapsed() < Duration::from_secs(600) {
        thread::sleep(Duration::from_millis(100));
    }
    if !is_in_kernel() {
        stage.end();
        return Ended::Skipped("no packets can be queued in this kernel: a move of promises is not tested".into());
    }
    let contest = Contest::begin(&stage);
    for (text, to_kernel) in [(NARROW, false), (&kernel, true)].repeat(2) {
        let path = stage.scratch.write("moved.toml", text);
        stage.does(&["apply", path.to_str().unwrap()]);
        assert_eq!(is_in_kernel(), to_kernel);
        assert_eq!(promises(&stage).len(), 1);
        thread::sleep(Duration::from_millis(500));
    }
    contest.end();
    stage.end();
    Ended::Passed
}

pub fn a_promise_is_requested_again_after_a_restart() -> Ended {
    let mut stage = Stage::new(SHAPER);
    let mut held = Printing::start(under(&stage, &["--min", "1mbit"], &["sleep", "600"]));
    held.prints("at least 1.00 Mbit/s a flow");
    stage.start_again(|| held.prints("sleep goes on, and the promise is requested again"));
    held.prints_times("at least 1.00 Mbit/s a flow", 2);
    assert_eq!(promises(&stage).len(), 1);
    // What root ended is not requested again.
    let number = promises(&stage)[0]["promise"].to_string();
    stage.does(&["promise", "--release", &number]);
    held.prints("the promise ended: it was released; sleep goes on without it");
    assert!(promises(&stage).is_empty());
    held.signal(libc::SIGTERM);
    assert_eq!(held.end().0.code(), Some(128 + 15));
    stage.end();
    Ended::Passed
}

/// The number of a process means another one outside of its namespace, so that a promise for it would be for a stranger.
pub fn a_promise_from_another_namespace_of_processes_is_refused() -> Ended {
    let unshare = |program: &str, arguments: &[&str]| {
        let mut command = Command::new("unshare");
        command.args(["--pid", "--fork", "--mount-proc", program]).args(arguments);
        command
    };
    if !unshare("true", &[]).status().is_ok_and(|end| end.success()) {
        return Ended::Skipped("no namespace of processes can be made here".into());
    }
    let stage = Stage::new(SHAPER);
    let control = stage.scratch.path("control");
    let arguments = ["promise", "--control", &control, "--min", "1mbit", "--", "true"];
    let refused = finished(unshare(env!("CARGO_BIN_EXE_tidegate"), &arguments));
    assert_eq!(refused.code, Some(125), "{}", refused.err);
    assert!(refused.err.contains("outside of this container") && refused.err.contains("--cgroup"), "{}", refused.err);
    stage.end();
    Ended::Passed
}

/// What `systemctl` says of a service decides whose flows are meant; packaging/test-systemd has a real one.
pub fn a_service_is_found_by_its_control_group() -> Ended {
    let stage = Stage::new(SHAPER);
    let programs = stage.scratch.0.join("programs");
    std::fs::create_dir(&programs).unwrap();
    let asked = |says: &str| {
        let systemctl = programs.join("systemctl");
        std::fs::write(&systemctl, format!("#!/bin/sh\n[ \"$4 $5\" = \"-- camera\" ] && {says}\n")).unwrap();
        std::fs::set_permissions(&systemctl, std::fs::Permissions::from_mode(0o755)).unwrap();
        let mut command = stage.command(&["promise", "--service", "camera", "--min", "1mbit"]);
        command.env("PATH", format!("{}:{}", programs.display(), std::env::var("PATH").unwrap()));
        finished(command)
    };
    for (says, texts) in [
        ("echo /system.slice/nosuch.service", ["control group `/system.slice/nosuch.service`", "systemd-cgls"]),
        ("echo", ["the service `camera` does not run", "systemctl start camera"]),
        ("{ echo no bus >&2; exit 1; }", ["systemctl show", "no bus"]),
    ] {
        let refused = finished_with(1, asked(says));
        texts.iter().for_each(|text| assert!(refused.contains(text), "{says}: {refused}"));
    }
    stage.end();
    Ended::Passed
}

/// The messages of a command that has ended with this code.
fn finished_with(code: i32, finished: Finished) -> String {
    assert_eq!(finished.code, Some(code), "{}", finished.err);
    finished.err
}

/// The folder of a client.
fn client(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../clients").join(name)
}

/// Whether a program can be run.
fn is_installed(program: &str, argument: &str) -> bool {
    Command::new(program)
        .arg(argument)
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .status()
        .is_ok_and(|end| end.success())
}

/// Runs a command that must succeed, as long as it takes: a compiler is slow.
fn succeeds(command: &mut Command) {
    let output = command.output().unwrap();
    let said = [output.stdout, output.stderr].concat();
    assert!(output.status.success(), "{command:?}: {}", String::from_utf8_lossy(&said));
}

/// The example of a client, as a user would run it: it finds the shaper by the interface, has the promise that it asks for, and hears
/// of its flow. Then it waits for what another one holds.
fn the_example_holds_a_promise(program: &Path, arguments: &[&str]) -> Ended {
    let stage = Stage::new(SHAPER);
    let folder = stage.scratch.0.join("tidegate");
    std::fs::create_dir(&folder).unwrap();
    symlink(stage.scratch.0.join("control"), folder.join(format!("{DEVICE}.sock"))).unwrap();
    let example = || {
        let mut command = stage.pair.left.command(program).unwrap();
        command.args(arguments).arg(DEVICE).env("XDG_RUNTIME_DIR", &stage.scratch.0);
        Printing::start(command)
    };
    let mut held = example();
    held.prints("promise 1 in class media");
    let listed = &promises(&stage)[0];
    assert_eq!(
        (&listed["minimum_bps"], &listed["target"]["destination_port"]),
        (&2_000_000.into(), &5_004.into()),
        "{listed}"
    );
    let traffic = stage.traffic(5_004, 200);
    held.prints("granted ");
    let mut second = example();
    second.prints("class `media` has 1mbit left to promise, not 2mbit");
    second.prints("in class media");
    assert_eq!(promises(&stage).len(), 2);
    held.signal(libc::SIGTERM);
    second.signal(libc::SIGTERM);
    stage.until("the end of the promises", |stage| stage.does(&["promise"]).contains(FREE));
    traffic.stop();
    stage.end();
    Ended::Passed
}

/// The example of the chapter: it sends at what it is granted, and at no less than its minimum beside one that sends more than fits.
fn the_example_sends_at_what_it_is_granted(program: &Path, arguments: &[&str]) {
    let stage = Stage::new(SHAPER);
    let folder = stage.scratch.0.join("tidegate");
    std::fs::create_dir(&folder).unwrap();
    symlink(stage.scratch.0.join("control"), folder.join(format!("{DEVICE}.sock"))).unwrap();
    let mut command = stage.pair.left.command(program).unwrap();
    let to = format!("{}:5004", RIGHT[0]);
    command.args(arguments).args([&to, DEVICE]).env("XDG_RUNTIME_DIR", &stage.scratch.0);
    let mut sender = Printing::start(command);
    sender.prints("promise 1 in class media");
    sender.prints("granted ");
    // 8 Mbit/s of another flow of the class, where 3 are promised and 6 are there in all.
    let traffic = stage.traffic(5_005, 2_000);
    let flow = |stage: &Stage| {
        let listed = promises(stage).remove(0);
        (listed["flows"].as_u64(), listed["granted_bps"].as_u64().unwrap_or(0))
    };
    stage.until("a grant beside the other flow", |stage| {
        let (flows, granted) = flow(stage);
        flows == Some(1) && (2_000_000..4_000_000).contains(&granted)
    });
    let bytes = |stage: &Stage| {
        let flows = stage.does(&["top", "--once", "--json"]);
        let flows: Value = serde_json::from_str(&flows).unwrap();
        let flows = flows["directions"][0]["flows"].as_array().unwrap();
        let own = flows.iter().find(|flow| flow["flow"]["destination_port"] == 5_004).expect("the flow");
        own["sent_bytes"].as_u64().unwrap()
    };
    let (from, before) = (Instant::now(), bytes(&stage));
    thread::sleep(Duration::from_secs(2));
    let bps = (bytes(&stage) - before) as f64 * 8.0 / from.elapsed().as_secs_f64();
    assert!(bps > 1_600_000.0, "{bps} bit/s of a minimum of 2 Mbit/s");
    traffic.stop_now();
    sender.signal(libc::SIGTERM);
    stage.until("the end of the promise", |stage| stage.does(&["promise"]).contains(FREE));
    stage.end();
}

pub fn a_program_in_go_holds_a_promise() -> Ended {
    if !is_installed("go", "version") {
        return Ended::Skipped("go is not installed: the client in Go is not tested; apt-get install golang-go".into());
    }
    let built = tidegate_testbed::files::Folder::new("go");
    let go = || {
        let mut go = Command::new("go");
        go.current_dir(client("go")).env("GOTOOLCHAIN", "local").env("GOFLAGS", "-mod=readonly");
        // A user without a home has no cache.
        if std::env::var_os("HOME").is_none() {
            go.env("GOCACHE", built.0.join("cache"));
        }
        go
    };
    succeeds(go().args(["test", "-timeout", "120s", "."]));
    succeeds(go().args(["build", "-o"]).arg(&built.0).args(["./examples/promise", "./examples/sender"]));
    the_example_sends_at_what_it_is_granted(&built.0.join("sender"), &[]);
    the_example_holds_a_promise(&built.0.join("promise"), &[])
}

pub fn a_program_in_javascript_holds_a_promise() -> Ended {
    if !is_installed("node", "--version") {
        return Ended::Skipped(
            "node is not installed: the client in JavaScript is not tested; apt-get install nodejs".into(),
        );
    }
    let folder = client("typescript");
    succeeds(Command::new("node").arg("--test").current_dir(&folder));
    let compiler = folder.join("node_modules/.bin/tsc");
    if compiler.is_file() {
        succeeds(Command::new(compiler).current_dir(&folder));
    } else {
        tidegate_testbed::files::skip(
            "no compiler of TypeScript: the types are not checked; npm install in clients/typescript",
        );
    }
    let sender = folder.join("examples/sender.js");
    the_example_sends_at_what_it_is_granted(Path::new("node"), &[sender.to_str().unwrap()]);
    the_example_holds_a_promise(Path::new("node"), &[folder.join("examples/promise.js").to_str().unwrap()])
}
